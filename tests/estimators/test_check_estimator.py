"""The checks of scikit-learn for estimators whose examples are the rows of a matrix with one class each."""

import pytest
from sklearn.utils.estimator_checks import check_estimator

from latentstruct import (
    CRF,
    HiddenCRF,
    KernelStructuralSVM,
    LatentMulticlass,
    LatentSSVM,
    Measure,
    Multiclass,
    StructuralSVM,
    StructuredPerceptron,
)

OTHER_ERROR = {"check_dtype_object": "X with an object that is no number raises InputError, which is no TypeError"}
WEIGHT_CHECKS = (
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_all_zero_sample_weights_error",
    "check_classifiers_one_label_sample_weights",
)
EQUIVALENCES = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
STATES = LatentMulticlass(n_states=2, weights="state", bias=1.0)


def expected_failures(estimator):
    """Return the checks that an estimator cannot pass, with the reasons."""
    reasons = dict(OTHER_ERROR)
    if isinstance(estimator.task, Measure):
        reason = "Measure treats all rows as one example, so that rows have no weights"
        reasons |= dict.fromkeys(WEIGHT_CHECKS + EQUIVALENCES, reason)
    if isinstance(estimator, StructuredPerceptron):
        reason = "the number of online steps is that of the examples, whatever their weights are"
        reasons |= dict.fromkeys(EQUIVALENCES, reason)
    if isinstance(estimator, LatentSSVM | HiddenCRF):
        reason = "initial states are drawn row by row, and local minima depend on them"
        reasons |= dict.fromkeys(EQUIVALENCES, reason)
    return reasons


# The equivalence of weights and repeated rows is checked to 1e-7, so that the solvers must be as precise.
ESTIMATORS = [
    StructuralSVM(Multiclass(bias=1.0), tol=1e-12),
    CRF(Multiclass(bias=1.0)),
    StructuredPerceptron(Multiclass(bias=1.0)),
    # gamma="scale" depends on the variance of all rows, whatever their weights are.
    KernelStructuralSVM(Multiclass(bias=1.0), gamma=0.1, tol=1e-12),
    StructuralSVM(Measure("error"), C=1e3),
    LatentSSVM(STATES, init="random"),
    HiddenCRF(STATES, init="random"),
]


# Among others a warning that the estimators do not inherit from BaseEstimator, and that training ended early.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_scikit_learn_checks(estimator):
    reasons = expected_failures(estimator)
    results = check_estimator(estimator, expected_failed_checks=reasons)
    passed = {one["check_name"] for one in results if one["status"] == "passed"}
    assert len(passed) > 40
    # Weights and repeated rows may lead to the same result by chance.
    assert not passed & (reasons.keys() - set(EQUIVALENCES))
