"""Models with kernels on disk, and what is refused."""

import numpy as np
import pytest
from kernel_data import TWO, VIEWS, X, Y, digits
from safetensors.numpy import load_file, save_file
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

import latentstruct
from command import weights_file
from error_fields import raises
from latentstruct import (
    FormatError,
    KernelStructuralSVM,
    LatentMulticlass,
    Measure,
    Multiclass,
)


def test_memory_is_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("latentstruct.estimators.kernel.EXACT_BYTES", 1e5)
    inputs, truth = digits(300)
    with raises("X", got="300 rows that need more than 128 coordinates", hint="`max_basis`"):
        KernelStructuralSVM(Multiclass()).fit(inputs, truth)


SAVED = {
    "dense": (KernelStructuralSVM(Multiclass(bias=1.0)), X, Y),
    "sparse": (KernelStructuralSVM(Multiclass(), "poly"), sparse.csr_array(X), Y),
    "precomputed": (KernelStructuralSVM(Multiclass(), "precomputed"), rbf_kernel(X), Y),
    "measure": (KernelStructuralSVM(Measure("prbep"), C=50.0), X, TWO),
    "latent": (KernelStructuralSVM(LatentMulticlass()), VIEWS, Y),
    "sampled": (KernelStructuralSVM(Multiclass(bias=1.0), cuts=20), X, Y),
}


@pytest.mark.parametrize("kind", SAVED)
def test_what_was_saved_comes_back(kind, tmp_path):
    model, inputs, truth = SAVED[kind]
    model = clone(model).fit(inputs, truth)
    model.save(tmp_path / "model")
    loaded = latentstruct.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(inputs), model.decision_function(inputs))
    np.testing.assert_array_equal(loaded.predict(inputs), model.predict(inputs))
    for name in ("support_", "dual_coef_", "gamma_", "n_basis_", "sampled_", "n_features_in_", "kernel_error_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again" / "model.json").read_bytes() == (tmp_path / "model" / "model.json").read_bytes()


@pytest.mark.parametrize("kind", ["dense", "sparse", "precomputed"])
def test_damaged_support_rows_are_noticed(kind, tmp_path):
    model, inputs, truth = SAVED[kind]
    clone(model).fit(inputs, truth).save(tmp_path)
    weights = load_file(weights_file(tmp_path))
    for name, array in weights.items():
        if not name.startswith("part."):
            continue
        others = {
            "gone": None,
            "shorter": array[:-1].copy(),
            "other numbers": array + 1,
            "other kind": array.astype(np.float32),
            "flat": array.ravel() if array.ndim > 1 else array[:, None],
        }
        for other in others.values():
            rest = {key: value for key, value in weights.items() if key != name}
            save_file(rest if other is None else {**rest, name: np.ascontiguousarray(other)}, weights_file(tmp_path))
            with raises(hint="Copy the model again, or train again", error=FormatError):
                latentstruct.load(tmp_path)


def test_a_kernel_of_ones_own_is_not_saved(tmp_path):
    model = KernelStructuralSVM(Multiclass(), rbf_kernel).fit(X, Y)
    with raises("kernel", got="<function rbf_kernel", expected="to be saved"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


INDEFINITE = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
BAD = [
    ({"kernel": "gauss"}, "kernel", "gauss", "'precomputed' or a function"),
    ({"kernel": None}, "kernel", "None", "a function"),
    ({"gamma": 0.0}, "gamma", "0.0", "'scale', 'auto' or a finite number above 0"),
    ({"gamma": "large"}, "gamma", "large", "'scale'"),
    ({"kernel": "poly", "degree": 2.5}, "degree", "2.5", "an integer of at least 1"),
    ({"kernel": "poly", "degree": 400, "gamma": 1e3}, "kernel", "a value that is not finite", "finite"),
    ({"coef0": np.nan}, "coef0", "nan", "a finite number"),
    ({"basis_tol": -1.0}, "basis_tol", "-1.0", "a finite number of at least 0"),
    ({"cuts": 0}, "cuts", "0", "'auto', 'all' or an integer of at least 1"),
    ({"cuts": "some"}, "cuts", "some", "'auto'"),
    ({"cuts": np.ones(2)}, "cuts", "array", "'auto'"),
    ({"gamma": np.ones(2)}, "gamma", "array", "'scale'"),
    ({"max_basis": 1.5}, "max_basis", "1.5", "an integer of at least 1 or None"),
    ({"cuts": 10, "solver": "bundle"}, "solver", "bundle", "'auto' for sampled cuts"),
    ({"kernel": "precomputed"}, "X", "shape (60, 2)", "the square kernel matrix"),
    ({"kernel": "sigmoid", "gamma": 3.0, "coef0": -1.0}, "kernel", "", "positive semidefinite"),
    ({"kernel": "sigmoid", "gamma": 3.0, "coef0": -1.0, "cuts": 10}, "kernel", "", "positive semidefinite"),
    ({"kernel": lambda A, B: np.ones((2, 2))}, "kernel", "shape (2, 2)", "shape (60, 60)"),
    ({"kernel": lambda A, B: "kernel"}, "kernel", "text such as 'kernel'", "real numbers"),
    ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "kernel", "a value that is not finite", "finite"),
    ({"kernel": lambda A, B: A[:, :1] + 2.0 * B[:, :1].T + 9.0}, "kernel", "", ""),
    ({"kernel": lambda A, B: -rbf_kernel(A, B)}, "kernel", "", "positive semidefinite"),
    ({"restarts": 0}, "restarts", "0", "an integer of at least 1 or None"),
    ({"cuts": 9, "random_state": "x"}, "random_state", "x", "an integer of at least 0"),
    ({"C": 0.0}, "C", "0.0", "a finite number above 0"),
    ({"task": Multiclass}, "task", "<class", "Multiclass, LatentMulticlass or Measure"),
    ({"task": latentstruct.Chain()}, "task", "Chain()", "Multiclass, LatentMulticlass or Measure"),
    ({"solver": "simplex"}, "solver", "simplex", "'auto', 'block_ascent'"),
]


@pytest.mark.parametrize(("params", "parameter", "got", "expected"), BAD)
def test_bad_parameters_are_refused(params, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        KernelStructuralSVM(**{"task": Multiclass(), **params}).fit(X, Y)


@pytest.mark.parametrize("cuts", ["all", 10])
def test_a_callback_must_be_a_function(cuts):
    with raises("callback", got=3):
        KernelStructuralSVM(Multiclass(), cuts=cuts).fit(X, Y, callback=3)


def test_bad_inputs_are_refused():
    model = KernelStructuralSVM(Multiclass()).fit(X, Y)
    with raises("X", got="3 features", expected="2 features, as in training"):
        model.predict(np.ones((4, 3)))
    with raises("X", got="nan at row 1, column 0", expected="finite"):
        model.predict([[0.0, 1.0], [np.nan, 1.0]])
    with raises("y", got=None):
        model.fit(X, None)
    with raises("H", expected="which has no latent variables"):
        model.fit(X, Y, H=Y)
    with raises("H", expected="which has no latent variables"):
        clone(model).set_params(cuts=10).fit(X, Y, H=Y)
    with raises("sample_weight", expected="None for Measure"):
        KernelStructuralSVM(Measure(), cuts=10).fit(X, TWO, np.ones(len(X)))
    with raises("temperature", expected="above 0 for probabilities"):
        model.marginals(X)
    with raises("KernelStructuralSVM", expected="states can be pruned"):
        model.prune()
    computed = KernelStructuralSVM(Multiclass(), "precomputed").fit(rbf_kernel(X), Y)
    with raises("X", got="2 features", expected="60 features, as in training"):
        computed.predict(X)
    with raises("kernel", got="precomputed", expected="a function"):
        KernelStructuralSVM(LatentMulticlass(), "precomputed").fit(VIEWS, Y)
    latent = KernelStructuralSVM(LatentMulticlass()).fit(VIEWS, Y)
    with raises("y", hint="predict_latent"):
        latent.complete(VIEWS, None)
    broken = VIEWS.copy()
    broken[3, 1, 0] = np.inf
    with raises("X[3]", got="inf at row 1, column 0", expected="finite"):
        latent.predict(broken)


@pytest.mark.parametrize("cuts", ["all", 2])
@pytest.mark.parametrize(
    ("gram", "parameter", "got", "expected"),
    [
        (INDEFINITE, "kernel", "", "positive semidefinite"),
        (np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), "kernel", "", "positive semidefinite"),
        (np.diag([1.0, -1.0, 1.0]), "kernel", "", "positive semidefinite"),
        (np.triu(np.ones((3, 3))), "X", "1 at [0, 1] and 0 at [1, 0]", "symmetric kernel matrix"),
        (np.eye(3) + np.diag([np.nan, 0, 0]), "X", "nan at row 0, column 0", "finite"),
    ],
)
def test_matrices_that_are_no_kernel_are_refused(gram, parameter, got, expected, cuts):
    with raises(parameter, got=got, expected=expected):
        KernelStructuralSVM(Multiclass(), "precomputed", cuts=cuts).fit(gram, [0, 1, 2])
