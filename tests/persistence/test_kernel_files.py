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
from latentstruct import (
    FormatError,
    InputError,
    KernelStructuralSVM,
    LatentMulticlass,
    Measure,
    Multiclass,
)


def test_memory_is_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("latentstruct.estimators.kernel.EXACT_BYTES", 1e5)
    inputs, truth = digits(300)
    with pytest.raises(InputError, match=r"300 rows need more than 128 coordinates .*cuts=500.*max_basis.*Nystroem"):
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
            with pytest.raises(FormatError, match="copy the model again or train again"):
                latentstruct.load(tmp_path)


def test_a_kernel_of_ones_own_is_not_saved(tmp_path):
    model = KernelStructuralSVM(Multiclass(), rbf_kernel).fit(X, Y)
    with pytest.raises(InputError, match=r"cannot save kernel=<function rbf_kernel"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


INDEFINITE = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
BAD = [
    ({"kernel": "gauss"}, "kernel must be one of linear, poly, rbf, sigmoid, precomputed or a function, found 'gauss'"),
    ({"kernel": None}, "or a function, found None"),
    ({"gamma": 0.0}, "gamma must be 'scale', 'auto' or a finite number above 0, found 0.0"),
    ({"gamma": "large"}, "gamma must be .* found 'large'"),
    ({"kernel": "poly", "degree": 2.5}, "degree must be a whole number of at least 1, found 2.5"),
    ({"kernel": "poly", "degree": 400, "gamma": 1e3}, "gave a value that is not finite: scale the inputs"),
    ({"coef0": np.nan}, "coef0 must be a finite number, found nan"),
    ({"basis_tol": -1.0}, "basis_tol must be a finite number, at least 0, found -1.0"),
    ({"cuts": 0}, "cuts must be 'auto', 'all' or a whole number of at least 1, found 0"),
    ({"cuts": "some"}, "cuts must be .* found 'some'"),
    ({"cuts": np.ones(2)}, "cuts must be .* found array"),
    ({"gamma": np.ones(2)}, "gamma must be 'scale', 'auto' or a finite number above 0, found array"),
    ({"max_basis": 1.5}, "max_basis must be None or a whole number of at least 1, found 1.5"),
    ({"cuts": 10, "solver": "bundle"}, "solver='bundle' is given, but sampled cuts are a solver of their own"),
    ({"kernel": "precomputed"}, r"as many rows as columns, found shape \(60, 2\)"),
    ({"kernel": "sigmoid", "gamma": 3.0, "coef0": -1.0}, "not positive semi-definite"),
    ({"kernel": "sigmoid", "gamma": 3.0, "coef0": -1.0, "cuts": 10}, "not positive semi-definite"),
    ({"kernel": lambda A, B: np.ones((2, 2))}, r"returned shape \(2, 2\) for 60 and 60 rows"),
    ({"kernel": lambda A, B: "kernel"}, "did not return a matrix of numbers"),
    ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "gave a value that is not finite"),
    ({"kernel": lambda A, B: A[:, :1] + 2.0 * B[:, :1].T + 9.0}, "not (symmetric|positive semi-definite)"),
    ({"kernel": lambda A, B: -rbf_kernel(A, B)}, "not positive semi-definite"),
    ({"restarts": 0}, "restarts must be None or a whole number of at least 1, found 0"),
    ({"cuts": 9, "random_state": "x"}, "random_state must be a whole number, at least 0, found 'x'"),
    ({"C": 0.0}, "C must be a finite number above 0"),
    ({"task": Multiclass}, "needs Multiclass, LatentMulticlass or Measure, found <class"),
    ({"task": latentstruct.Chain()}, r"needs Multiclass, LatentMulticlass or Measure, found Chain\(\)"),
    ({"solver": "simplex"}, "unknown solver 'simplex'"),
]


@pytest.mark.parametrize(("params", "message"), BAD)
def test_bad_parameters_are_refused(params, message):
    with pytest.raises(InputError, match=message):
        KernelStructuralSVM(**{"task": Multiclass(), **params}).fit(X, Y)


@pytest.mark.parametrize("cuts", ["all", 10])
def test_a_callback_must_be_a_function(cuts):
    with pytest.raises(InputError, match="callback must be a function of a Round, found 3"):
        KernelStructuralSVM(Multiclass(), cuts=cuts).fit(X, Y, callback=3)


def test_bad_inputs_are_refused():
    model = KernelStructuralSVM(Multiclass()).fit(X, Y)
    with pytest.raises(InputError, match="X has 3 features but the model has 2"):
        model.predict(np.ones((4, 3)))
    with pytest.raises(InputError, match="not finite at row 1, column 0"):
        model.predict([[0.0, 1.0], [np.nan, 1.0]])
    with pytest.raises(InputError, match="Y is missing"):
        model.fit(X, None)
    with pytest.raises(InputError, match="no latent variables: leave it out"):
        model.fit(X, Y, H=Y)
    with pytest.raises(InputError, match="no latent variables: leave it out"):
        clone(model).set_params(cuts=10).fit(X, Y, H=Y)
    with pytest.raises(InputError, match="takes the whole set for one example"):
        KernelStructuralSVM(Measure(), cuts=10).fit(X, TWO, np.ones(len(X)))
    with pytest.raises(InputError, match="no probabilities"):
        model.marginals(X)
    with pytest.raises(InputError, match="no states to prune"):
        model.prune()
    computed = KernelStructuralSVM(Multiclass(), "precomputed").fit(rbf_kernel(X), Y)
    with pytest.raises(InputError, match="X has 2 features but the model has 60"):
        computed.predict(X)
    with pytest.raises(InputError, match="precomputed' has no form for the states"):
        KernelStructuralSVM(LatentMulticlass(), "precomputed").fit(VIEWS, Y)
    latent = KernelStructuralSVM(LatentMulticlass()).fit(VIEWS, Y)
    with pytest.raises(InputError, match="Y is missing"):
        latent.complete(VIEWS, None)
    broken = VIEWS.copy()
    broken[3, 1, 0] = np.inf
    with pytest.raises(InputError, match="not finite"):
        latent.predict(broken)


@pytest.mark.parametrize("cuts", ["all", 2])
@pytest.mark.parametrize(
    ("gram", "message"),
    [
        (INDEFINITE, "not positive semi-definite"),
        (np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), "not positive semi-definite"),
        (np.diag([1.0, -1.0, 1.0]), "not positive semi-definite"),
        (np.triu(np.ones((3, 3))), "not symmetric: 1 at row 0, column 1, but 0 at row 1, column 0"),
        (np.eye(3) + np.diag([np.nan, 0, 0]), "not finite at row 0, column 0"),
    ],
)
def test_matrices_that_are_no_kernel_are_refused(gram, message, cuts):
    with pytest.raises(InputError, match=message):
        KernelStructuralSVM(Multiclass(), "precomputed", cuts=cuts).fit(gram, [0, 1, 2])
