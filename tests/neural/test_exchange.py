"""Weights in other forms: models of the library, state dictionaries, exported decoders."""

import numpy as np
import pytest
import torch

import latentstruct
from error_fields import raises
from latentstruct import Chain, StructuralSVM, tagging_rules
from latentstruct.torch import ChainLoss, ViterbiDecoder, from_chain_model, to_chain_model


def trained_parts(seed=0, loss="crf", bias=True):
    torch.manual_seed(seed)
    return torch.nn.Linear(4, 3, bias=bias), ChainLoss(3, loss)


@pytest.mark.parametrize("loss", ["crf", "hinge"])
@pytest.mark.parametrize("bias", [True, False])
def test_round_trip(loss, bias, tmp_path):
    linear, head = trained_parts(loss=loss, bias=bias)
    model = to_chain_model(linear, head, ["a", "b", "c"])
    X = torch.randn(5, 6, 4, dtype=torch.float64)
    emissions = linear.double()(X)
    expected = [[("a", "b", "c")[y] for y in row] for row in head.double().decode(emissions).tolist()]
    sequences = list(X.numpy())
    assert [list(row) for row in model.predict(sequences)] == expected
    if loss == "crf":
        marginals = head.distribution(emissions).marginals.detach().numpy()
        np.testing.assert_allclose(np.stack(model.marginals(sequences)), marginals, atol=1e-10)
    model.save(tmp_path / "model")
    loaded = latentstruct.load(tmp_path / "model")
    assert [list(row) for row in loaded.predict(sequences)] == expected
    again, other = from_chain_model(loaded)
    for own, back in ((linear, again), (head, other)):
        for name, value in own.state_dict().items():
            torch.testing.assert_close(back.state_dict()[name], value)
    assert other.loss == loss


@pytest.mark.parametrize("given", ["BIO", "explicit"])
def test_rules_are_kept(given):
    labels = ["B-A", "I-A", "O"]
    head = ChainLoss(3, rules=tagging_rules(labels))
    model = to_chain_model(torch.nn.Linear(4, 3), head, labels)
    if given == "BIO":
        model.task_.set_params(rules="BIO")
    _, other = from_chain_model(model)
    for name in ("transitions", "start", "end"):
        assert torch.equal(getattr(other, f"forbidden_{name}"), getattr(head, f"forbidden_{name}"))


def test_models_of_the_library_as_layers():
    rng = np.random.default_rng(0)
    Y = [rng.integers(3, size=5) for _ in range(20)]
    X = [np.eye(3)[y] + 0.3 * rng.normal(size=(5, 3)) for y in Y]
    model = StructuralSVM(Chain(), C=0.1).fit(X, Y)
    linear, head = from_chain_model(model)
    found = head.decode(linear(torch.from_numpy(np.stack(X))))
    assert [row.tolist() for row in found] == [list(row) for row in model.predict(X)]
    assert linear.bias is None
    assert (head.start_transitions == 0).all()


def test_rules_are_exchanged(tmp_path):
    labels = ["O", "B-A", "I-A"]
    linear, _ = trained_parts()
    head = ChainLoss(3, rules=tagging_rules(labels))
    to_chain_model(linear, head, labels).save(tmp_path / "model")
    again, other = from_chain_model(latentstruct.load(tmp_path / "model"))
    emissions = torch.randn(20, 6, 3)
    assert torch.equal(other.decode(emissions.double()), head.decode(emissions))
    torch.testing.assert_close(other.scores(), head.double().scores())
    assert again.bias is not None


def test_bad_exchange():
    linear, head = trained_parts()
    with raises("linear", got="4 outputs"):
        to_chain_model(torch.nn.Linear(2, 4), head)
    with raises("labels", expected="3 different"):
        to_chain_model(linear, head, ["a", "a", "b"])
    with raises("model"):
        from_chain_model(StructuralSVM(Chain()))


def test_state_is_plain():
    head = ChainLoss(3, rules=tagging_rules(["O", "B-A", "I-A"]))
    assert set(head.state_dict()) == {"transitions", "start_transitions", "end_transitions"}


@pytest.mark.parametrize("rules", [None, tagging_rules(["O", "B-A", "I-A"])])
def test_decoding_by_operations_of_torch(rules):
    torch.manual_seed(0)
    head = ChainLoss(3, rules=rules)
    emissions, mask = torch.randn(50, 7, 3), torch.rand(50, 7) < 0.7
    assert torch.equal(ViterbiDecoder(head)(emissions, mask), head.decode(emissions, mask))


@pytest.mark.filterwarnings("ignore")  # of the exporter itself
def test_export_to_onnx(tmp_path):
    pytest.importorskip("onnxscript", reason="ONNX is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    head = ChainLoss(4)
    inputs = torch.randn(2, 5, 4), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    path = tmp_path / "decoder.onnx"
    batch = torch.export.Dim("batch")
    torch.onnx.export(
        ViterbiDecoder(head).eval(),
        inputs,
        str(path),
        input_names=["emissions", "mask"],
        dynamic_shapes=({0: batch}, {0: batch}),
    )
    session = runtime.InferenceSession(str(path))
    emissions, mask = torch.randn(6, 5, 4), torch.rand(6, 5) < 0.8
    found = session.run(None, {"emissions": emissions.numpy(), "mask": mask.numpy()})[0]
    np.testing.assert_array_equal(found, head.decode(emissions, mask).numpy())
