"""What people hand in by mistake: one clear InputError each, with the value, the expectation and the cure."""

import re
import warnings

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


def refuse(message, estimator, *data, **options):
    with pytest.raises(InputError, match=message) as caught:
        estimator.fit(*data, **options)
    assert not hasattr(estimator, "coef_")
    # One sentence for the user, not a stack of internals.
    assert 20 < len(str(caught.value)) < 400


def refuse_field(estimator, *data, parameter, got="", expected="", hint="", **options):
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
    refuse("`X` must be at least one example, got none", estimator(task()), [], [])


@pytest.mark.parametrize(("task", "inputs"), [(Multiclass(), X), (Chain(), SEQUENCES)])
def test_lengths_of_X_and_Y_differ(task, inputs):
    outputs = (Y if isinstance(task, Multiclass) else LABELS)[:-1]
    n, m = len(inputs), len(outputs)
    refuse(
        f"`Y` must be a sequence of {n} outputs, got {m} outputs",
        StructuralSVM(task),
        inputs,
        outputs,
    )


def test_no_outputs():
    refuse_field(StructuralSVM(Multiclass()), X, None, parameter="y", got=None)
    refuse("`Y` must be a list or an array with one output per", StructuralSVM(Multiclass()), X, 3)


@pytest.mark.parametrize("inputs", [5, 2.5, iter([1, 2]), np.float64(3.0)])
def test_X_is_no_collection(inputs):
    refuse("`X` must be a list or an array of examples", StructuralSVM(Multiclass()), inputs, Y)


def test_one_sequence_of_other_width():
    refuse(
        re.escape("`X[1]` must be rows with 2 features, as in training"),
        StructuralSVM(Chain()),
        [SEQUENCES[0], np.ones((2, 3)), SEQUENCES[2]],
        LABELS,
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("estimator", [StructuralSVM, CRF])
def test_values_that_are_not_finite(value, form, estimator):
    sequences = [form(x) for x in damaged((1, 0), value)]
    refuse(
        r"`X\[1\]` must be finite, got .* at row 1, column 0",
        estimator(Chain()),
        sequences,
        LABELS,
    )
    rows = X.copy()
    rows[2, 1] = value
    refuse(
        "finite.* at row 2, column 1",
        estimator(Multiclass()),
        form(rows),
        Y,
    )


def test_values_that_are_not_finite_in_the_first_sequence():
    refuse(
        re.escape("`X[0]` must be finite, got nan at row 3, column 1"),
        StructuralSVM(Chain()),
        damaged((3, 1), np.nan, k=0),
        LABELS,
    )


def test_values_that_are_not_finite_at_prediction():
    model = StructuralSVM(Chain()).fit(SEQUENCES, LABELS)
    with pytest.raises(InputError, match=re.escape("`X[1]` must be finite, got nan at row 0, column 0")):
        model.predict(damaged((0, 0), np.nan))


def test_long_inputs_name_the_sequence_too():
    model = StructuralSVM(Chain()).fit(SEQUENCES, LABELS)
    many = [x.copy() for x in SEQUENCES * 200]
    many[555][0, 0] = np.nan
    with pytest.raises(InputError, match=re.escape("`X[555]` must be finite, got nan at row 0, column 0")):
        model.predict(many)
    many[555] = np.ones((2, 7))
    with pytest.raises(InputError, match=re.escape("`X[555]` must be rows with 2 features, as in training")):
        model.predict(many)


def test_labels_of_other_length():
    refuse(
        re.escape("`Y[1]` must be 2 labels, one per token"),
        StructuralSVM(Chain()),
        SEQUENCES,
        [LABELS[0], ["N", "V", "V"], LABELS[2]],
    )


@pytest.mark.parametrize("y", ["NV", 3, None])
def test_labels_that_are_no_sequence(y):
    refuse(
        re.escape(f"`Y[1]` must be a list of labels, one per token, got {y!r}"),
        StructuralSVM(Chain()),
        SEQUENCES,
        [LABELS[0], y, LABELS[2]],
    )


@pytest.mark.parametrize("C", [0, -1.0, np.nan, np.inf, "1", None, [1.0]])
@pytest.mark.parametrize("estimator", [StructuralSVM, CRF, StructuredEstimator])
def test_C(estimator, C):
    refuse_field(estimator(Multiclass(), C=C), X, Y, parameter="C", got=repr(C), expected="a finite number above 0")


def test_unknown_label_at_evaluation():
    model = StructuralSVM(Multiclass()).fit(X, Y)
    expected = "`label` must be one of the known labels 'a', 'b'"
    with pytest.raises(InputError, match=expected):
        model.loss(X, ["a", "b", "z", "a"])
    # As in scikit-learn, a class that was not in the training data counts as an error.
    predicted = model.predict(X).tolist()
    assert model.score(X, [*predicted[:3], "z"]) == 0.75
    chain = StructuralSVM(Chain()).fit(SEQUENCES, LABELS)
    with pytest.raises(InputError, match=r"`Y_true\[1\]\[1\]` must be one of the known labels 'N', 'V'"):
        chain.score(SEQUENCES, [LABELS[0], ["N", "X"], LABELS[2]])


def test_many_known_labels_are_not_all_listed():
    model = StructuralSVM(Multiclass(labels=range(50))).fit(X, [0, 1, 2, 3])
    with pytest.raises(InputError, match="`label` must be one of the known labels 0, 1, 2, 3, 4, 5, 6"):
        model.loss(X, [0, 1, 2, 77])


def test_undeclared_label():
    refuse("`label` must be one of the known labels 'a', 'c'", StructuralSVM(Multiclass(["a", "c"])), X, Y)


def test_repeated_labels():
    refuse(r"`labels` must be distinct, got \['a', 'b', 'a'\]", StructuralSVM(Multiclass(["a", "b", "a"])), X, Y)


def test_labels_without_hash():
    refuse(
        "`labels` must be hashable, such as numbers, strings or tuples",
        StructuralSVM(Multiclass()),
        X,
        [["a"], ["b"], ["a"], ["b"]],
    )
    refuse("`labels` must be hashable, such as numbers", StructuralSVM(Multiclass(labels=[["a"], ["b"]])), X, Y)
    refuse(
        "`labels` must be hashable, such as numbers, strings", StructuralSVM(Chain()), SEQUENCES[1:2], [[["a"], ["b"]]]
    )
    model = StructuralSVM(Multiclass()).fit(X, Y)
    with pytest.raises(InputError, match="`label` must be hashable, such as numbers, strings or tuples"):
        model.loss(X, [["a"], "b", "a", "b"])


def test_labels_of_two_dimensions():
    refuse(
        "`Y` must be one-dimensional, one class per example",
        StructuralSVM(Multiclass()),
        X,
        np.zeros((4, 2)),
    )


def test_labels_that_are_nan():
    for value, got in ((np.nan, "nan"), (np.inf, "inf"), (0.5, "continuous values such as 0.5")):
        refuse_field(StructuralSVM(Multiclass()), X, [0.0, 1.0, value, 1.0], parameter="y", got=got, expected="classes")
    message = "`labels` must be equal to themselves"
    refuse(message, StructuralSVM(Chain()), SEQUENCES[1:2], [[0.0, float("nan")]])


def test_unknown_labels_in_chains():
    half = [[0, 1, -1, 1], [0, 1], [1, 0, 1]]
    for estimator, other in ((StructuralSVM(Chain()), "LatentSSVM or MarginalSSVM"), (CRF(Chain()), "HiddenCRF")):
        refuse_field(estimator, SEQUENCES, half, parameter="task", expected="without latent variables", hint=other)
    refuse(
        "`labels` must be different from -1 and -100, the marks of unknown labels",
        StructuralSVM(Chain(labels=[-1, 0, 1])),
        SEQUENCES,
        half,
    )
    nothing = [[-1] * len(y) for y in half]
    refuse("`Y` must be labels with at least one known label", LatentSSVM(Chain()), SEQUENCES, nothing)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (np.ones((3, 3)), r"`costs` must be an array of shape \(2, 2\)"),
        ([1.0, 2.0], r"`costs` must be an array of shape \(2, 2\)"),
        (3.0, r"`costs` must be an array of shape \(2, 2\)"),
        ([[0.0, -1.0], [1.0, 0.0]], "`costs` must be finite and non-negative with zeros on the"),
        ([[0.0, np.nan], [1.0, 0.0]], "`costs` must be finite and non-negative with zeros on the"),
        ([[1.0, 1.0], [1.0, 0.0]], "zeros on the diagonal"),
        ({"a": -1.0}, "`costs` must be finite and non-negative with zeros on the"),
        ({"a": np.inf}, "`costs` must be finite and non-negative with zeros on the"),
        ({"z": 1.0}, "`label` must be one of the known labels 'a', 'b'"),
        ({"a": "high"}, "`costs` must be real numbers, one row and column per label"),
        ("high", "`costs` must be real numbers, one row and column per label"),
        ([[0.0, 1.0], [1.0]], "`costs` must be real numbers, one row and column per label"),
    ],
)
def test_costs(costs, message):
    refuse(message, StructuralSVM(Multiclass(costs=costs)), X, Y)
    chain = [["a", "b", "a", "b"], ["a", "b"], ["b", "a", "b"]]
    refuse(message, StructuralSVM(Chain(costs=costs)), SEQUENCES, chain)


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
    refuse_field(estimator(Multiclass()), X, Y, sample_weight=weight, **fields)


def test_solver():
    for wrong in ("newton", BlockAscent, 5, None):
        fields = {"got": wrong, "expected": "'auto', 'block_ascent', "}
        refuse_field(StructuralSVM(Multiclass(), solver=wrong), X, Y, parameter="solver", **fields)


@pytest.mark.parametrize("task", [Multiclass, "chain", None])
def test_task(task):
    refuse_field(StructuralSVM(task), X, Y, parameter="task", got=task, expected="a task such as Chain()")


@pytest.mark.parametrize("estimator", [StructuralSVM, StructuredEstimator])
def test_rescaling(estimator):
    fields = {"parameter": "rescaling", "got": "both", "expected": "'margin' or 'slack'"}
    refuse_field(estimator(Multiclass(), rescaling="both"), X, Y, **fields)


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
    refuse_field(StructuredEstimator(Multiclass(), temperature=temperature), X, Y, **fields)


@pytest.mark.parametrize("limits", [{"tol": 0}, {"tol": "x"}, {"max_iter": 0}, {"max_seconds": -1}])
def test_limits(limits):
    (name, value), *_ = limits.items()
    fields = {"parameter": name, "got": value, "expected": "a number above 0"}
    refuse_field(StructuralSVM(Multiclass(), **limits), X, Y, **fields)
    if name != "tol":
        refuse_field(StructuredPerceptron(Multiclass(), **limits), X, Y, **fields)


def test_marginals_of_a_maximum():
    model = StructuralSVM(Multiclass()).fit(X, Y)
    with raises("temperature", expected="above 0 for probabilities", hint="Use CRF"):
        model.marginals(X)


@pytest.mark.parametrize("inputs", [np.arange(4.0), [1.0, 2.0, 3.0, 4.0], np.ones((4, 2, 2))])
def test_other_dimensions(inputs):
    refuse(
        r"two-dimensional .*, got shape .*reshape\(-1, 1\)",
        StructuralSVM(Multiclass()),
        inputs,
        Y,
    )


def test_other_dimensions_of_a_sequence():
    message = re.escape("`X[0]` must be two-dimensional (items, features)")
    refuse(message, StructuralSVM(Chain()), [np.arange(4.0)], [LABELS[0]])
    message = re.escape("`X[1]` must be two-dimensional (items, features)")
    refuse(message, StructuralSVM(Chain()), [SEQUENCES[0], np.arange(2.0), SEQUENCES[2]], LABELS)


@pytest.mark.parametrize("inputs", ["text", ["the", "cat", "sat", "down"], [["the"], ["cat"], ["sat"], ["down"]]])
def test_words_as_inputs(inputs):
    refuse_field(StructuralSVM(Multiclass()), inputs, Y, parameter="X", got="text such as", expected="real numbers")


def test_words_as_sequences():
    refuse(
        re.escape("`X[1]` must be a matrix of real numbers, got text such as 'a'"),
        StructuralSVM(Chain()),
        [X, np.array([["a", "b"], ["c", "d"]]), X[1:]],
        LABELS,
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
    with pytest.raises(InputError, match=re.escape("`X[0]` must be rows with 2 features, as in training")):
        chain.predict([np.ones((2, 5))])


def test_prediction_of_nothing():
    for model, data in ((Multiclass(), (X, Y)), (Chain(), (SEQUENCES, LABELS))):
        with pytest.raises(InputError, match="`X` must be at least one example, got none"):
            StructuralSVM(model).fit(*data).predict([])


def test_all_sequences_are_empty():
    refuse(
        "`X` must be sequences with at least one token",
        StructuralSVM(Chain()),
        [np.zeros((0, 2)), np.zeros((0, 2))],
        [[], []],
    )


@pytest.mark.parametrize(
    "bias", [np.nan, -np.inf, "x", None, [1.0], np.ones(2), 1j, np.complex128(1.0), pytest.param(10**310, id="huge")]
)
@pytest.mark.parametrize("task", [Multiclass, LatentMulticlass, Measure])
def test_bias(task, bias):
    inputs = X[:, None] if task is LatentMulticlass else X
    refuse_field(StructuralSVM(task(bias=bias)), inputs, Y, parameter="bias", expected="a finite number")


@pytest.mark.parametrize("block", ["start", "end", "bias"])
@pytest.mark.parametrize("value", [2.0, np.nan, "no", None, [True], np.ones(2)])
def test_blocks_of_a_chain(block, value):
    fields = {"parameter": block, "expected": "True or False"}
    refuse_field(StructuralSVM(Chain(**{block: value})), SEQUENCES, LABELS, **fields)


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
    message = r"`Y\[2\]` must be one of the outputs that candidates\(\) lists"
    refuse(message, StructuralSVM(Signs()), X, [-1, 1, 3, 1])


def test_candidates_of_other_width():
    class Wide(Signs):
        def candidates(self, x):
            return [-1, 1], None, np.ones((2, 2 if x[0] else 3))

    message = r"`features of example 1` must be an array of shape \(2, 2\), one row per"
    refuse(message, StructuralSVM(Wide()), X, [-1, 1, 1, 1])


def test_repeated_candidates():
    class Twice(Signs):
        def candidates(self, x):
            return [-1, 1, 1], None, np.array([-x, x, x])

    message = "`candidates of example 0` must be distinct outputs without latents, or outputs"
    refuse(message, StructuralSVM(Twice()), X, [-1, 1, 1, 1])


@pytest.mark.parametrize("loss", [-1.0, np.nan, np.inf])
def test_candidate_losses(loss):
    class Wrong(Signs):
        def output_loss(self, y, y_hat, h_hat):
            return 0.0 if y == y_hat else loss

    message = "`output_loss of example 0` must be a finite number of at least 0"
    refuse(message, StructuralSVM(Wrong()), X, [-1, 1, 1, 1])


@pytest.mark.parametrize("estimator", [StructuralSVM, CRF])
def test_latents_need_an_estimator_that_knows_them(estimator):
    class Hidden(Signs):
        def candidates(self, x):
            return [-1, 1, 1], ["", "near", "far"], np.array([-x, x, 2 * x])

    fields = {"parameter": "task", "got": "Hidden()", "expected": f"without latent variables for {estimator.__name__}"}
    refuse_field(estimator(Hidden()), X, [-1, 1, 1, 1], **fields)
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

    message = r"`joint_feature of example 1` must be an array of shape \(1, 2\), got shape \(1, 3\)"
    refuse(message, StructuralSVM(Longer()), X, [-1, 1, 1, 1])


def test_joint_features_that_are_not_finite():
    class Wild(Product):
        def joint_feature(self, x, y):
            return np.full(2, np.nan)

    message = "`joint_feature of example 0` must be finite, got nan at row 0, column 0"
    refuse(message, StructuralSVM(Wild()), X, [-1, 1, 1, 1])


def test_examples_have_no_soft_form():
    fields = {"parameter": "temperature", "got": (1.0, 0.0), "expected": "Product", "hint": "CandidateTask"}
    refuse_field(CRF(Product()), X, [-1, 1, 1, 1], **fields)


@pytest.mark.parametrize(
    ("task", "function"), [(CandidateTask(), "candidates"), (ExampleTask(), "joint_feature"), (PartsTask(), "parts")]
)
def test_functions_that_were_not_written(task, function):
    with pytest.raises(TypeError, match=rf"Task does not define {function}\(\)"):
        StructuralSVM(task).fit(X, [-1, 1, 1, 1])


def test_a_ragged_list_among_the_sequences_is_named():
    with pytest.raises(InputError, match=r"X\[1\]"):
        StructuralSVM(Chain()).fit([np.ones((2, 2)), [[1.0, 2.0], [3.0]]], [[0, 1], [0, 1]])


def test_unhashable_candidates_are_refused():
    class Unhashable(CandidateTask):
        def candidates(self, x):
            return [[0], [1]], None, np.eye(2)

    with pytest.raises(InputError, match="hashable"):
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
    refuse("`labels` must be a list of labels|can be copied", StructuralSVM(Multiclass(labels=labels)), X, Y)
