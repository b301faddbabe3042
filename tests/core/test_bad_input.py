"""What people hand in by mistake: one clear InputError each, with the value, the expectation and the cure."""

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from error_fields import raises
from latentstruct import (
    CRF,
    BlockAscent,
    CandidateTask,
    Chain,
    CuttingPlane,
    ExampleTask,
    FrankWolfe,
    InputError,
    LatentMulticlass,
    LatentSSVM,
    Measure,
    Multiclass,
    PartsTask,
    StructuralSVM,
    StructuredEstimator,
    StructuredPerceptron,
    Subgradient,
)

X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.0]])
Y = ["a", "b", "a", "b"]
SEQUENCES = [X, X[:2], X[1:]]
LABELS = [["N", "V", "N", "V"], ["N", "V"], ["V", "N", "V"]]


def refuse(estimator, *data, parameter, got="", expected="", hint="", **options):
    with raises(parameter, got=got, expected=expected, hint=hint):
        estimator.fit(*data, **options)
    assert not hasattr(estimator, "coef_")


def damaged(place, value, k=1):
    """Return the sequences with one value of sequence k replaced."""
    sequences = [x.copy() for x in SEQUENCES]
    sequences[k][place] = value
    return sequences


@pytest.mark.parametrize("estimator", [StructuralSVM, CRF, StructuredPerceptron])
@pytest.mark.parametrize("task", [Multiclass, Chain])
def test_empty(estimator, task):
    refuse(estimator(task()), [], [], parameter="X", got="none", expected="at least one example")


@pytest.mark.parametrize(("task", "inputs"), [(Multiclass(), X), (Chain(), SEQUENCES)])
def test_lengths_of_X_and_Y_differ(task, inputs):
    outputs = (Y if isinstance(task, Multiclass) else LABELS)[:-1]
    n, m = len(inputs), len(outputs)
    fields = {"parameter": "Y", "got": f"{m} outputs", "expected": f"a sequence of {n} outputs"}
    refuse(StructuralSVM(task), inputs, outputs, **fields)


def test_no_outputs():
    refuse(StructuralSVM(Multiclass()), X, None, parameter="y", got=None)
    refuse(StructuralSVM(Multiclass()), X, 3, parameter="Y", expected="a list or an array with one output per")


@pytest.mark.parametrize("inputs", [5, 2.5, iter([1, 2]), np.float64(3.0)])
def test_X_is_no_collection(inputs):
    refuse(StructuralSVM(Multiclass()), inputs, Y, parameter="X", expected="a list or an array of examples")


def test_one_sequence_of_other_width():
    refuse(
        StructuralSVM(Chain()),
        [SEQUENCES[0], np.ones((2, 3)), SEQUENCES[2]],
        LABELS,
        parameter="X[1]",
        expected="rows with 2 features, as in training",
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("estimator", [StructuralSVM, CRF])
def test_values_that_are_not_finite(value, form, estimator):
    sequences = [form(x) for x in damaged((1, 0), value)]
    got = f"{value} at row 1, column 0"
    refuse(estimator(Chain()), sequences, LABELS, parameter="X[1]", got=got, expected="finite")
    rows = X.copy()
    rows[2, 1] = value
    got = f"{value} at row 2, column 1"
    refuse(estimator(Multiclass()), form(rows), Y, parameter="X", got=got, expected="finite")


def test_values_that_are_not_finite_in_the_first_sequence():
    refuse(
        StructuralSVM(Chain()),
        damaged((3, 1), np.nan, k=0),
        LABELS,
        parameter="X[0]",
        got="nan at row 3, column 1",
        expected="finite",
    )


def test_values_that_are_not_finite_at_prediction():
    model = StructuralSVM(Chain()).fit(SEQUENCES, LABELS)
    with raises("X[1]", got="nan at row 0, column 0", expected="finite"):
        model.predict(damaged((0, 0), np.nan))


def test_long_inputs_name_the_sequence_too():
    model = StructuralSVM(Chain()).fit(SEQUENCES, LABELS)
    many = [x.copy() for x in SEQUENCES * 200]
    many[555][0, 0] = np.nan
    with raises("X[555]", got="nan at row 0, column 0", expected="finite"):
        model.predict(many)
    many[555] = np.ones((2, 7))
    with raises("X[555]", expected="rows with 2 features, as in training"):
        model.predict(many)


def test_labels_of_other_length():
    refuse(
        StructuralSVM(Chain()),
        SEQUENCES,
        [LABELS[0], ["N", "V", "V"], LABELS[2]],
        parameter="Y[1]",
        expected="2 labels, one per token",
    )


@pytest.mark.parametrize("y", ["NV", 3, None])
def test_labels_that_are_no_sequence(y):
    fields = {"parameter": "Y[1]", "got": repr(y), "expected": "a list of labels, one per token"}
    refuse(StructuralSVM(Chain()), SEQUENCES, [LABELS[0], y, LABELS[2]], **fields)


@pytest.mark.parametrize("C", [0, -1.0, np.nan, np.inf, "1", None, [1.0]])
@pytest.mark.parametrize("estimator", [StructuralSVM, CRF, StructuredEstimator])
def test_C(estimator, C):
    refuse(estimator(Multiclass(), C=C), X, Y, parameter="C", got=repr(C), expected="a finite number above 0")


def test_unknown_label_at_evaluation():
    model = StructuralSVM(Multiclass()).fit(X, Y)
    with raises("label", got="'z'", expected="one of the known labels 'a', 'b'"):
        model.loss(X, ["a", "b", "z", "a"])
    # As in scikit-learn, a class that was not in the training data counts as an error.
    predicted = model.predict(X).tolist()
    assert model.score(X, [*predicted[:3], "z"]) == 0.75
    chain = StructuralSVM(Chain()).fit(SEQUENCES, LABELS)
    with raises("Y_true[1][1]", expected="one of the known labels 'N', 'V'"):
        chain.score(SEQUENCES, [LABELS[0], ["N", "X"], LABELS[2]])


def test_many_known_labels_are_not_all_listed():
    model = StructuralSVM(Multiclass(labels=range(50))).fit(X, [0, 1, 2, 3])
    with raises("label", expected="one of the known labels 0, 1, 2, 3, 4, 5, 6"):
        model.loss(X, [0, 1, 2, 77])


def test_undeclared_label():
    refuse(StructuralSVM(Multiclass(["a", "c"])), X, Y, parameter="label", expected="one of the known labels 'a', 'c'")


def test_repeated_labels():
    refuse(
        StructuralSVM(Multiclass(["a", "b", "a"])), X, Y, parameter="labels", got="['a', 'b', 'a']", expected="distinct"
    )


def test_labels_without_hash():
    refuse(
        StructuralSVM(Multiclass()),
        X,
        [["a"], ["b"], ["a"], ["b"]],
        parameter="labels",
        expected="hashable, such as numbers, strings or tuples",
    )
    refuse(
        StructuralSVM(Multiclass(labels=[["a"], ["b"]])), X, Y, parameter="labels", expected="hashable, such as numbers"
    )
    refuse(
        StructuralSVM(Chain()),
        SEQUENCES[1:2],
        [[["a"], ["b"]]],
        parameter="labels",
        expected="hashable, such as numbers, strings",
    )
    model = StructuralSVM(Multiclass()).fit(X, Y)
    with raises("label", expected="hashable, such as numbers, strings or tuples"):
        model.loss(X, [["a"], "b", "a", "b"])


def test_labels_of_two_dimensions():
    refuse(
        StructuralSVM(Multiclass()),
        X,
        np.zeros((4, 2)),
        parameter="Y",
        expected="one-dimensional, one class per example",
    )


def test_labels_that_are_nan():
    for value, got in ((np.nan, "nan"), (np.inf, "inf"), (0.5, "continuous values such as 0.5")):
        refuse(StructuralSVM(Multiclass()), X, [0.0, 1.0, value, 1.0], parameter="y", got=got, expected="classes")
    fields = {"parameter": "labels", "got": "NaN", "expected": "equal to themselves"}
    refuse(StructuralSVM(Chain()), SEQUENCES[1:2], [[0.0, float("nan")]], **fields)


def test_unknown_labels_in_chains():
    half = [[0, 1, -1, 1], [0, 1], [1, 0, 1]]
    for estimator, other in ((StructuralSVM(Chain()), "LatentSSVM or MarginalSSVM"), (CRF(Chain()), "HiddenCRF")):
        refuse(estimator, SEQUENCES, half, parameter="task", expected="without latent variables", hint=other)
    refuse(
        StructuralSVM(Chain(labels=[-1, 0, 1])),
        SEQUENCES,
        half,
        parameter="labels",
        expected="different from -1 and -100, the marks of unknown labels",
    )
    nothing = [[-1] * len(y) for y in half]
    refuse(LatentSSVM(Chain()), SEQUENCES, nothing, parameter="Y", expected="labels with at least one known label")


@pytest.mark.parametrize(
    ("costs", "parameter", "expected"),
    [
        (np.ones((3, 3)), "costs", "an array of shape (2, 2)"),
        ([1.0, 2.0], "costs", "an array of shape (2, 2)"),
        (3.0, "costs", "an array of shape (2, 2)"),
        ([[0.0, -1.0], [1.0, 0.0]], "costs", "finite and non-negative with zeros on the diagonal"),
        ([[0.0, np.nan], [1.0, 0.0]], "costs", "finite and non-negative with zeros on the diagonal"),
        ([[1.0, 1.0], [1.0, 0.0]], "costs", "finite and non-negative with zeros on the diagonal"),
        ({"a": -1.0}, "costs", "finite and non-negative with zeros on the diagonal"),
        ({"a": np.inf}, "costs", "finite and non-negative with zeros on the diagonal"),
        ({"z": 1.0}, "label", "one of the known labels 'a', 'b'"),
        ({"a": "high"}, "costs", "real numbers, one row and column per label"),
        ("high", "costs", "real numbers, one row and column per label"),
        ([[0.0, 1.0], [1.0]], "costs", "real numbers, one row and column per label"),
    ],
)
def test_costs(costs, parameter, expected):
    chain = [["a", "b", "a", "b"], ["a", "b"], ["b", "a", "b"]]
    for task, inputs, outputs in ((Multiclass, X, Y), (Chain, SEQUENCES, chain)):
        refuse(StructuralSVM(task(costs=costs)), inputs, outputs, parameter=parameter, expected=expected)


@pytest.mark.parametrize(
    ("weight", "got", "expected"),
    [
        ([1.0, 1.0], "shape (2,)", "shape (4,)"),
        (np.ones((4, 1)), "shape (4, 1)", "shape (4,)"),
        (1.0, "shape ()", "shape (4,)"),
        ([1.0, -1.0, 1.0, 1.0], "-1.0", "finite and ≥ 0"),
        ([1.0, np.nan, 1.0, 1.0], "nan", "finite and ≥ 0"),
        (np.zeros(4), "0.0", "at least one weight that is not zero"),
        (["heavy", "light", "", ""], "'heavy'", "real numbers"),
    ],
)
@pytest.mark.parametrize("estimator", [StructuralSVM, CRF, StructuredPerceptron])
def test_sample_weight(estimator, weight, got, expected):
    fields = {"parameter": "sample_weight", "got": got, "expected": expected}
    refuse(estimator(Multiclass()), X, Y, sample_weight=weight, **fields)


def test_solver():
    for wrong in ("newton", BlockAscent, 5, None):
        fields = {"got": wrong, "expected": "'auto', 'block_ascent', "}
        refuse(StructuralSVM(Multiclass(), solver=wrong), X, Y, parameter="solver", **fields)


@pytest.mark.parametrize("task", [Multiclass, "chain", None])
def test_task(task):
    refuse(StructuralSVM(task), X, Y, parameter="task", got=task, expected="a task such as Chain()")


@pytest.mark.parametrize("estimator", [StructuralSVM, StructuredEstimator])
def test_rescaling(estimator):
    fields = {"parameter": "rescaling", "got": "both", "expected": "'margin' or 'slack'"}
    refuse(estimator(Multiclass(), rescaling="both"), X, Y, **fields)


def test_slack_rescaling_of_chains_is_certified_for_costs_that_are_multiples_of_a_unit():
    hamming, costly, odd = (
        StructuralSVM(Chain(costs=costs), rescaling="slack").fit(SEQUENCES, LABELS)
        for costs in (None, {"N": 2.0}, {"N": np.pi})
    )
    assert hamming.certified_
    assert costly.certified_
    assert not odd.certified_


@pytest.mark.parametrize(
    "temperature", [1.0, (1.0, 0.0, 0.0), ("warm", 0.0), None, (-1.0, 0.0), (np.nan, 0.0), (np.inf, 0.0)]
)
def test_temperature(temperature):
    fields = {"parameter": "temperature", "got": repr(temperature), "expected": "a pair (output, latent)"}
    refuse(StructuredEstimator(Multiclass(), temperature=temperature), X, Y, **fields)


@pytest.mark.parametrize("limits", [{"tol": 0}, {"tol": "x"}, {"max_iter": 0}, {"max_seconds": -1}])
def test_limits(limits):
    (name, value), *_ = limits.items()
    fields = {"parameter": name, "got": value, "expected": "a number above 0"}
    refuse(StructuralSVM(Multiclass(), **limits), X, Y, **fields)
    if name != "tol":
        refuse(StructuredPerceptron(Multiclass(), **limits), X, Y, **fields)


def test_marginals_of_a_maximum():
    model = StructuralSVM(Multiclass()).fit(X, Y)
    with raises("temperature", expected="above 0 for probabilities", hint="Use CRF"):
        model.marginals(X)


@pytest.mark.parametrize("inputs", [np.arange(4.0), [1.0, 2.0, 3.0, 4.0], np.ones((4, 2, 2))])
def test_other_dimensions(inputs):
    fields = {"parameter": "X", "got": f"shape {np.shape(inputs)}", "expected": "two-dimensional"}
    refuse(StructuralSVM(Multiclass()), inputs, Y, hint="reshape(-1, 1)", **fields)


def test_other_dimensions_of_a_sequence():
    expected = "two-dimensional (items, features)"
    refuse(StructuralSVM(Chain()), [np.arange(4.0)], [LABELS[0]], parameter="X[0]", expected=expected)
    sequences = [SEQUENCES[0], np.arange(2.0), SEQUENCES[2]]
    refuse(StructuralSVM(Chain()), sequences, LABELS, parameter="X[1]", expected=expected)


@pytest.mark.parametrize("inputs", ["text", ["the", "cat", "sat", "down"], [["the"], ["cat"], ["sat"], ["down"]]])
def test_words_as_inputs(inputs):
    refuse(StructuralSVM(Multiclass()), inputs, Y, parameter="X", got="text such as", expected="real numbers")


def test_words_as_sequences():
    refuse(
        StructuralSVM(Chain()),
        [X, np.array([["a", "b"], ["c", "d"]]), X[1:]],
        LABELS,
        parameter="X[1]",
        got="text such as 'a'",
        expected="a matrix of real numbers",
    )


@pytest.mark.parametrize("estimator", [StructuralSVM, CRF, StructuredEstimator, StructuredPerceptron])
@pytest.mark.parametrize("method", ["predict", "score", "loss", "marginals", "decision_function", "save"])
def test_before_fit(estimator, method, tmp_path):
    model = estimator(Multiclass())
    arguments = {"score": (X, Y), "loss": (X, Y), "save": (tmp_path / "model",)}.get(method, (X,))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(model, method)(*arguments)


def test_prediction_of_other_width():
    model = StructuralSVM(Multiclass()).fit(X, Y)
    with raises("X", got="3 features", expected="2 features, as in training"):
        model.predict(np.ones((2, 3)))
    chain = StructuralSVM(Chain()).fit(SEQUENCES, LABELS)
    with raises("X[0]", expected="rows with 2 features, as in training"):
        chain.predict([np.ones((2, 5))])


def test_prediction_of_nothing():
    for model, data in ((Multiclass(), (X, Y)), (Chain(), (SEQUENCES, LABELS))):
        with raises("X", got="none", expected="at least one example"):
            StructuralSVM(model).fit(*data).predict([])


def test_all_sequences_are_empty():
    refuse(
        StructuralSVM(Chain()),
        [np.zeros((0, 2)), np.zeros((0, 2))],
        [[], []],
        parameter="X",
        expected="sequences with at least one token",
    )


@pytest.mark.parametrize(
    "bias", [np.nan, -np.inf, "x", None, [1.0], np.ones(2), 1j, np.complex128(1.0), pytest.param(10**310, id="huge")]
)
@pytest.mark.parametrize("task", [Multiclass, LatentMulticlass, Measure])
def test_bias(task, bias):
    inputs = X[:, None] if task is LatentMulticlass else X
    refuse(StructuralSVM(task(bias=bias)), inputs, Y, parameter="bias", expected="a finite number")


@pytest.mark.parametrize("block", ["start", "end", "bias"])
@pytest.mark.parametrize("value", [2.0, np.nan, "no", None, [True], np.ones(2)])
def test_blocks_of_a_chain(block, value):
    fields = {"parameter": block, "expected": "True or False"}
    refuse(StructuralSVM(Chain(**{block: value})), SEQUENCES, LABELS, **fields)


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = StructuralSVM(Multiclass()).fit(X, Y)
    before = model.predict(X)
    for change in ({"C": -1.0}, {"rescaling": "both"}, {"solver": "newton"}, {"tol": -1.0}):
        model.set_params(**change)
        with pytest.raises(InputError):
            model.fit(np.ones((2, 5)), ["p", "q"])
        model.set_params(C=1.0, rescaling="margin", solver="auto", tol=None)
        assert (model.predict(X) == before).all()


# --- tasks of one's own ---


class Signs(CandidateTask):
    def candidates(self, x):
        return [-1, 1], None, np.array([-x, x])


def test_candidates_lack_the_true_output():
    fields = {"parameter": "Y[2]", "got": "3", "expected": "one of the outputs that candidates() lists"}
    refuse(StructuralSVM(Signs()), X, [-1, 1, 3, 1], **fields)


def test_candidates_of_other_width():
    class Wide(Signs):
        def candidates(self, x):
            return [-1, 1], None, np.ones((2, 2 if x[0] else 3))

    fields = {"parameter": "features of example 1", "expected": "an array of shape (2, 2), one row per"}
    refuse(StructuralSVM(Wide()), X, [-1, 1, 1, 1], **fields)


def test_repeated_candidates():
    class Twice(Signs):
        def candidates(self, x):
            return [-1, 1, 1], None, np.array([-x, x, x])

    fields = {"parameter": "candidates of example 0", "expected": "distinct outputs without latents, or outputs"}
    refuse(StructuralSVM(Twice()), X, [-1, 1, 1, 1], **fields)


@pytest.mark.parametrize("loss", [-1.0, np.nan, np.inf])
def test_candidate_losses(loss):
    class Wrong(Signs):
        def output_loss(self, y, y_hat, h_hat):
            return 0.0 if y == y_hat else loss

    fields = {"parameter": "output_loss of example 0", "expected": "a finite number of at least 0"}
    refuse(StructuralSVM(Wrong()), X, [-1, 1, 1, 1], got=str(loss), **fields)


@pytest.mark.parametrize("estimator", [StructuralSVM, CRF])
def test_latents_need_an_estimator_that_knows_them(estimator):
    class Hidden(Signs):
        def candidates(self, x):
            return [-1, 1, 1], ["", "near", "far"], np.array([-x, x, 2 * x])

    fields = {"parameter": "task", "got": "Hidden()", "expected": f"without latent variables for {estimator.__name__}"}
    refuse(estimator(Hidden()), X, [-1, 1, 1, 1], **fields)
    soft = StructuredEstimator(Hidden(), temperature=(1.0, 1.0)).fit(X, [-1, 1, 1, 1])
    assert soft.stop_reason_ == "converged"


class Product(ExampleTask):
    def joint_feature(self, x, y):
        return y * x

    def output_loss(self, y, y_hat):
        return float(y != y_hat)

    def argmax(self, x, w):
        return max((-1, 1), key=lambda y: y * (w @ x))

    def loss_augmented_argmax(self, x, y, w):
        return max((-1, 1), key=lambda v: v * (w @ x) + (v != y))


def test_joint_features_of_changing_length():
    class Longer(Product):
        def joint_feature(self, x, y):
            return y * x if x[0] else np.ones(3)

    fields = {"parameter": "joint_feature of example 1", "got": "shape (1, 3)", "expected": "an array of shape (1, 2)"}
    refuse(StructuralSVM(Longer()), X, [-1, 1, 1, 1], **fields)


def test_joint_features_that_are_not_finite():
    class Wild(Product):
        def joint_feature(self, x, y):
            return np.full(2, np.nan)

    fields = {"parameter": "joint_feature of example 0", "got": "nan at row 0, column 0", "expected": "finite"}
    refuse(StructuralSVM(Wild()), X, [-1, 1, 1, 1], **fields)


def test_examples_have_no_soft_form():
    fields = {"parameter": "temperature", "got": (1.0, 0.0), "expected": "Product", "hint": "CandidateTask"}
    refuse(CRF(Product()), X, [-1, 1, 1, 1], **fields)


@pytest.mark.parametrize(
    ("task", "function"), [(CandidateTask(), "candidates"), (ExampleTask(), "joint_feature"), (PartsTask(), "parts")]
)
def test_functions_that_were_not_written(task, function):
    with pytest.raises(TypeError, match=rf"Task does not define {function}\(\)"):
        StructuralSVM(task).fit(X, [-1, 1, 1, 1])


def test_a_ragged_list_among_the_sequences_is_named():
    with raises("X[1]"):
        StructuralSVM(Chain()).fit([np.ones((2, 2)), [[1.0, 2.0], [3.0]]], [[0, 1], [0, 1]])


def test_unhashable_candidates_are_refused():
    class Unhashable(CandidateTask):
        def candidates(self, x):
            return [[0], [1]], None, np.eye(2)

    with raises("outputs of example 0", expected="hashable"):
        StructuralSVM(Unhashable()).fit([0, 1], [[0], [1]])


UNFIT = [None, 3, 2.5, float("nan"), "x", {}, {1, 2}, np.array(3.0), np.zeros(0), [[1, 2], [3]], 1j, object, iter([1])]


@pytest.mark.parametrize("value", UNFIT, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    ("task", "inputs", "outputs"),
    [
        (Multiclass(), X, Y),
        (LatentMulticlass(n_states=2, weights="state"), X, Y),
        (Chain(), SEQUENCES, LABELS),
        (Measure(), X, [1, 0, 1, 0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_handed_in_as_data_is_refused_in_words(task, inputs, outputs, value):
    estimator = LatentSSVM(task) if isinstance(task, LatentMulticlass) else StructuralSVM(task)
    for data in ((value, outputs), (inputs, value)):
        with pytest.raises(InputError):
            estimator.fit(*data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = estimator.fit(inputs, outputs)
    with pytest.raises(InputError):
        fitted.predict(value)
    with pytest.raises(InputError):
        fitted.score(inputs, value)


@pytest.mark.parametrize(
    "value", [None, 1.5, "x", [], np.zeros(2), [[1, 2], [3]], 1j, object()], ids=lambda value: type(value).__name__
)
@pytest.mark.parametrize(
    "make",
    [
        lambda value: StructuralSVM(Multiclass(), rescaling=value),
        lambda value: StructuralSVM(Multiclass(), warm_start=value),
        lambda value: StructuralSVM(Multiclass(), solver=Subgradient(patience=value)),
        lambda value: StructuralSVM(Multiclass(), solver=CuttingPlane(inner_tol=value)),
        lambda value: StructuralSVM(Multiclass(), solver=FrankWolfe(step=value)),
        lambda value: StructuralSVM(Multiclass(), solver=FrankWolfe(average=value)),
        lambda value: LatentSSVM(LatentMulticlass(n_states=2, weights="state"), init=value),
        lambda value: StructuralSVM(Measure(loss=value)),
    ],
)
def test_whatever_is_handed_in_as_a_parameter_is_refused_in_words(make, value):
    with pytest.raises(InputError):
        make(value).fit(X, Y)


@pytest.mark.parametrize(
    "labels", [3, "ab", {"a": 1}, np.array(3.0), (label for label in "ab")], ids=lambda value: type(value).__name__
)
def test_labels_that_are_no_list(labels):
    parameter, expected = "labels", "a list of labels"
    if isinstance(labels, Iterator):
        parameter, expected = "Multiclass", "an object whose parameters can be copied"
    refuse(StructuralSVM(Multiclass(labels=labels)), X, Y, parameter=parameter, expected=expected)
