"""Parts of the experiments on simulated fields, at sizes that take no time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latentstruct.solvers.base import initial_weights
from latentstruct_papers import (
    mssvm_convergence,
    mssvm_map,
    mssvm_samples,
    mssvm_segmentation,
    mssvm_simulation,
    mssvm_table2,
    mssvm_table3,
    run_experiment,
)
from latentstruct_papers.mssvm_simulation import (
    HCRF,
    LSSVM,
    MODELS,
    MODLAT,
    MSSVM,
    Scores,
    field_task,
    measure_accuracy,
    measure_ceiling,
    show_mean,
)
from latentstruct_papers.simulated import make_hidden_field
from latentstruct_papers.trials import Trials

SMALL = {"n_nodes": 6, "n_train": 8, "n_test": 20}


def quiet(line):
    pass


@pytest.fixture(autouse=True)
def short_descent(monkeypatch):
    monkeypatch.setattr(mssvm_simulation, "DESCENT_ITERATIONS", 30)


@pytest.fixture(scope="module")
def field():
    return make_hidden_field(**SMALL)


def draw(plot):
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    plot(axes)
    return axes


# ---- shared parts ----------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9))
def test_means_have_standard_errors(values):
    mean, error = show_mean(values).split(" ± ")
    assert float(mean) == pytest.approx(100 * np.mean(values), abs=0.06)
    assert float(error) == pytest.approx(100 * np.std(values, ddof=1) / np.sqrt(len(values)), abs=0.06)


def test_scores_are_paired():
    scores = Scores()
    for first, second in ((0.9, 0.8), (0.5, 0.4), (0.7, 0.6)):
        scores.add(first, "chain", "a")
        scores.add(second, "chain", "b")
    assert scores.mean("chain", "a") == "70.0 ± 11.5"
    assert scores.difference(("chain", "a"), ("chain", "b")) == "+10.0 ± 0.0"
    assert scores.mean("grid", "a") is None
    assert scores.difference(("chain", "a"), ("grid", "b")) is None
    assert scores.to_dict() == {"chain, a": [0.9, 0.5, 0.7], "chain, b": [0.8, 0.4, 0.6]}
    assert show_mean([0.5]) == "50.0 ± nan"


@pytest.mark.parametrize("layout", [{"n_nodes": 5}, {"layout": "grid", "shape": (2, 3)}])
def test_ceiling_is_marginal_map_of_the_field(layout):
    """Compare with sums over all states of the hidden nodes."""
    field = make_hidden_field(n_train=2, n_test=15, random_state=3, **layout)
    n_nodes = len(field.hidden)
    states = np.stack(np.meshgrid(*[np.arange(4)] * n_nodes, indexing="ij"), axis=-1).reshape(-1, n_nodes)
    pairs = sum(
        table[states[:, p], states[:, q]] for table, (p, q) in zip(field.weights.pairs, field.edges, strict=True)
    )
    outputs = states[:, ~field.hidden] @ 4 ** np.arange((~field.hidden).sum())[::-1]
    right = 0
    for x, y in zip(field.X_test, field.Y_test, strict=True):
        seen = x.features.argmax(axis=1)
        single = field.weights.states + field.weights.emissions[np.arange(n_nodes), seen]
        chances = np.bincount(outputs, np.exp(pairs + single[np.arange(n_nodes), states].sum(axis=1)))
        best = np.unravel_index(chances.argmax(), [4] * (~field.hidden).sum())
        right += np.sum(np.array(best) == y[~field.hidden])
    assert measure_ceiling(field) == pytest.approx(right / (15 * (~field.hidden).sum()))


@pytest.mark.parametrize("training", ["SGD", "CCCP", "default"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_model_learns_by_every_algorithm(model, training, field):
    found = measure_accuracy(model, field, training, seed=0)
    assert found > 0.35
    assert measure_accuracy(model, field, training, seed=0) == found


def test_modlat_with_a_loss_that_ignores_hidden_nodes_is_the_latent_ssvm(field):
    blind = measure_accuracy(MODLAT._replace(hidden_loss=0.0), field, "default", seed=0)
    assert blind == measure_accuracy(LSSVM, field, "default", seed=0)
    assert measure_accuracy(MODLAT, field, "default", seed=0) > 0.35


# ---- tables ----------------------------------------------------------------------------------------------


def test_table2_has_all_rows(monkeypatch):
    monkeypatch.setattr(mssvm_table2, "TRIALS", {"chain": 2, "grid": 2})
    said = []
    trainings = (mssvm_table2.TRUE, *mssvm_table2.TRAININGS)
    plan = [
        ("chain", "variance", trainings, 2),
        ("grid", "variance", trainings, 2),
        ("chain", "deviation", (mssvm_table2.TRUE, "default"), 2),
    ]
    sizes = {"n_nodes": 6, "shape": (2, 2), "n_train": 5, "n_test": 10}
    scores = mssvm_table2.measure_all(Trials(), plan, sizes, said.append)
    assert len(said) == 6
    for claim in mssvm_table2.claims(scores):
        assert claim.found.endswith("over 2 trials")
    key = ("chain", "variance", "CCCP")
    means = [100 * np.mean(scores.found[*key, name]) for name in ("MSSVM", "LSSVM")]
    assert mssvm_table2.claims(scores)[0].found.startswith(f"{means[0]:.1f}, {means[1]:.1f}: ")
    table = mssvm_table2.accuracy_table(scores)
    assert [row[:2] for row in table.rows][:4] == [
        ["chain", "SGD"],
        ["chain", "CCCP"],
        ["chain", "default"],
        ["chain", "true weights"],
    ]
    assert table.rows[1][5:] == [69.63, 67.91, 69.03]
    assert all(" ± " in cell for row in table.rows for cell in row[2:5] if cell is not None)
    apart = mssvm_table2.difference_table(scores)
    assert [row[:3] for row in apart.rows][2:4] == [["chain", "variance", "default"], ["chain", "deviation", "default"]]
    assert apart.rows[1][-2:] == [1.72, 0.6]
    assert len(mssvm_table2.deviation_table(scores).rows) == 4


def test_table3_has_all_rows():
    scores = Scores()
    for spread in (10.0, 0.1):
        for trial in range(2):
            found = mssvm_table3.measure(spread, trial, {"n_nodes": 4, "n_train": 5, "n_test": 5})
            for model, accuracy in found.items():
                scores.add(accuracy, spread, model)
    results = mssvm_table3.Uncertainty(scores, (10.0, 0.1))
    table = results.table()
    assert [row[0] for row in table.rows] == ["10", "0.1", "mean"]
    assert table.rows[0][-5:] == [79.30, 79.46, 78.68, 79.04, 77.16]
    assert table.rows[2][-5] == pytest.approx((79.30 + 69.63) / 2, abs=0.01)
    assert table.rows[2][-1] == pytest.approx((77.16 + 67.96) / 2, abs=0.01)
    assert table.rows[2][1] == show_mean(np.mean([scores.found[10.0, "MSSVM"], scores.found[0.1, "MSSVM"]], axis=0))
    apart = results.difference_table()
    assert [row[0] for row in apart.rows] == ["10", "0.1", "mean"]
    assert apart.columns[5] == "− ModLat"
    assert apart.rows[0][5] == scores.difference((10.0, "MSSVM"), (10.0, "ModLat"))
    assert apart.rows[0][-1] == pytest.approx(79.30 - 77.16, abs=0.01)
    assert len(draw(results.draw).containers) == len(mssvm_table3.COMPARED)
    assert [claim.what.rpartition(" ")[2] for claim in results.claims()] == ["LSSVM", "HCRF", "2", "10", "ModLat"]
    ours, others = (np.mean([scores.found[s, name] for s in (10.0, 0.1)]) for name in ("MSSVM", "ModLat"))
    assert results.claims()[-1].found.startswith(f"{100 * ours:.1f}, {100 * others:.1f}: ")


# ---- convergence -----------------------------------------------------------------------------------------


def test_trace_knows_the_lowest_so_far():
    trace = mssvm_convergence.trace_steps(np.array([5.0, 7.0, 3.0, 4.0]))
    assert [trace.at(passes) for passes in (1, 2, 2.5, 3, 4, 100)] == [5.0, 5.0, 5.0, 3.0, 3.0, 3.0]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_objective_is_that_of_the_estimator(model, field):
    fitted = mssvm_convergence.train(model, field_task(), field.X_train, field.Y_train, "default", 0)
    objective = mssvm_convergence.make_objective(model, field, 0)
    assert objective.value(fitted.coef_) == pytest.approx(fitted.objective_)


def test_descent_takes_the_steps_of_the_paper(field):
    objective = mssvm_convergence.make_objective(MSSVM, field, 0)
    w = initial_weights(objective)
    values, norms = mssvm_convergence.descend(objective, w, 0.02, 3)
    by_cccp = mssvm_convergence.descend_by_cccp(objective, w, 0.02, 3, inner_steps=1)
    # An iteration of one step is a step of plain descent.
    np.testing.assert_allclose(by_cccp, values)
    for step in range(3):
        value, gradient = objective.value_and_gradient(w)
        assert values[step] == pytest.approx(value)
        assert norms[step] == pytest.approx(np.linalg.norm(gradient))
        plus, minus = objective.plus.total(w).slope, objective.minus.total(w).slope
        w = (1 - 0.02) * w - 0.02 * (plus - minus)
    assert not np.allclose(mssvm_convergence.descend_by_cccp(objective, w, 0.02, 3, inner_steps=3)[2], by_cccp[2])


def test_convergence_tables():
    results = mssvm_convergence.measure([0, 1], quiet, **SMALL)
    assert len(results.norm_table().rows) == len(mssvm_convergence.SHOWN_STEPS)
    table = results.objective_table()
    assert len(table.rows) == 2
    assert "of 2 problems" in table.note
    for row in table.rows:
        assert row[3] <= min(row[1:3]) + 1e-9
    assert len(results.pace_table().rows) == len(mssvm_convergence.SHOWN_PASSES)
    sgd, cccp = results.claims()
    assert (sgd.what[-3:], cccp.what[-4:]) == ("SGD", "CCCP")
    excess = [100 * (row[1] / row[3] - 1) for row in table.rows]
    assert sgd.found.startswith(f"{np.mean(excess):.1f} ± ")
    assert len(draw(results.draw_norms).lines) == len(draw(results.draw_objectives).lines) == 3


# ---- the map --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", mssvm_map.MISMATCHES, ids=lambda how: how.name)
def test_training_examples_are_spoiled_as_described(how):
    field = make_hidden_field("chain", n_train=30, n_test=2, n_nodes=20, random_state=0)
    X, Y, X_test = mssvm_map.spoil(field, how, 25, seed=1)
    assert len(X) == len(Y) == 25
    assert len(X[0].edges) == len(X_test[0].edges) == round(how.edges * 19)
    changed = np.mean([(y != t)[~field.hidden].mean() for y, t in zip(Y, field.Y_train, strict=False)])
    # A quarter of the random labels is right.
    assert changed == pytest.approx(0.75 * how.noise, abs=0.06)
    assert all((y[field.hidden] == -1).all() for y in Y)
    found = mssvm_map.measure(how, 4, 0, (1.0,))
    assert [C for _, C in found.values()] == [1.0, 1.0]
    assert all(accuracy > 0.25 for accuracy, _ in found.values())


def test_map_has_paired_differences():
    results = mssvm_map.Map(mssvm_map.MISMATCHES[:1], (5, 20))
    name = mssvm_map.RIGHT.name
    for size, ours, others in ((5, 0.6, 0.5), (5, 0.8, 0.7), (20, 0.9, 0.9), (20, 0.7, 0.7)):
        results.add(name, size, {"MSSVM": [ours, 1.0], "HCRF": [others, 0.1]})
    assert results.table().rows == [[name, "+10.0 ± 0.0", "+0.0 ± 0.0"]]
    (claim,) = results.claims()
    assert claim.found == "+5.0 ± 0.0 over 2 trials; by size +10.0, +0.0"
    assert claim.verdict == "reproduced"
    assert len(draw(results.draw).texts) == 2


# ---- figures ---------------------------------------------------------------------------------------------


def test_sample_sizes_are_nested():
    measured = [mssvm_samples.measure((4, 8), trial, {"n_nodes": 6, "n_test": 10}) for trial in range(2)]
    scores = mssvm_samples.collect((4, 8), measured)
    results = mssvm_samples.SampleSizes(scores, (4, 8))
    table = results.table()
    assert [row[0] for row in table.rows] == [4, 8]
    assert table.rows[0][1] == scores.mean(4, "MSSVM")
    assert table.rows[0][4] == scores.difference((4, LSSVM.name), (4, MSSVM.name))
    assert table.rows[0][5] == scores.difference((4, HCRF.name), (4, MSSVM.name))
    assert len(draw(results.draw).containers) == 3
    errors = [100 * np.mean([scores.found[size, model.name] for size in (4, 8)]) for model in (MSSVM, LSSVM)]
    assert results.claims()[0].found.startswith(f"{errors[0]:.1f}, {errors[1]:.1f}: ")
    assert results.claims()[1].what.endswith("mean over 4 to 4 examples")


def test_segmentation_has_all_columns():
    plan = [(5.0, 0.3, trial, {"shape": (3, 6), "n_train": 3, "n_test": 2}) for trial in range(2)]
    measured = [mssvm_segmentation.measure(*arguments) for arguments in plan]
    scores = mssvm_segmentation.collect(plan, measured)
    (training,) = mssvm_segmentation.training_table(plan, measured).rows
    assert training[:2] == ["5", "30%"]
    assert float(training[2]) == pytest.approx(np.mean([found[MSSVM.name][1] for found in measured]), abs=0.51)
    assert all(found[model.name][2] >= 0 for found in measured for model in MODELS)
    results = mssvm_segmentation.Segmentation(scores, mssvm_segmentation.collect(plan, measured, 2), 5.0, (0.3,))
    row = results.table().rows[0]
    assert row[0] == "30%"
    assert row[1] == scores.mean(5.0, 0.3, MSSVM.name)
    assert row[4] == scores.difference((5.0, 0.3, LSSVM.name), (5.0, 0.3, MSSVM.name))
    assert scores.difference((5.0, 0.3, LSSVM.name), (5.0, 0.3, MSSVM.name)) in results.claims()[0].found
    assert len(draw(results.draw).containers) == 3
    assert draw(mssvm_segmentation.draw_image).images[0].get_array().shape == (20, 40)


def test_neighbors_help_to_segment():
    findings = run_experiment("mssvm-segmentation", quick=True, say=quiet)
    found = {name: np.mean(errors) for name, errors in findings.settings["errors"].items()}
    alone, *errors = (found[f"5.0, 0.5, {name}"] for name in (mssvm_segmentation.ALONE, *(one.name for one in MODELS)))
    assert min(errors) < alone - 0.05


def test_pixels_alone_are_guessed_by_the_nearest_label():
    truth = np.array([[1, 1, 5, 5]])
    values = np.array([[0.0, 2.9, 3.1, 9.0], [1.0, 3.1, 5.0, 5.0]])
    assert mssvm_segmentation.classify_alone(values, truth, noise=1.0) == 1 / 8
