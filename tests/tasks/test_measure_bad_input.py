"""What a measure of a whole set refuses: parameters, data and modes."""

import numpy as np
import pytest
from measure_reference import HARD, jaccard, learned, two_clouds, uneven
from scipy import sparse

from error_fields import raises
from latentstruct import (
    StructuralSVM,
    StructuredEstimator,
)
from latentstruct.exceptions import InputError
from latentstruct.tasks.measure import set_losses
from latentstruct.tasks.measure.task import Measure


def fit(task, X=None, y=None, **more):
    if X is None:
        X, y = two_clouds()
    return StructuralSVM(task, C=1.0).fit(X, y, **more)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Measure("f2"), "loss is 'f2'; expected one of f1, fbeta, prbep"),
        (Measure(None), "loss is None; expected one of"),
        (Measure(["f1"]), r"loss is \['f1'\]; expected one of"),
        (Measure("fbeta", beta=0.0), "`beta` must be a finite number above 0"),
        (Measure("precision@k"), "loss='precision@k' needs k, found None"),
        (Measure("precision@k", k=31), "k is 31, but there are 30 examples only"),
        (Measure("recall@k", k=0), "k is 0; expected a whole number of at least 1, or a share"),
        (Measure("recall@k", k=1.0), "k is 1.0; expected a whole number"),
        (Measure("recall@k", k=True), "k is True; expected a whole number"),
        (Measure("f1", bias=np.inf), "`bias` must be a finite number, 0 for none, got inf"),
        (Measure("f1", bias="1"), "`bias` must be a finite number, 0 for none, got '1'"),
        (Measure("f1", bias=None), "`bias` must be a finite number, 0 for none, got None"),
        (Measure("f1", threshold="0"), "`threshold` must be a finite number or None, got '0'"),
        (Measure("f1", threshold=np.nan), "`threshold` must be a finite number or None, got nan"),
        (Measure("f1", positive="spam"), "positive is 'spam', an unknown label; expected 0 or 1: name one of them"),
        (Measure("f1", positive=[1]), r"positive is \[1\], an unknown label"),
        (Measure(lambda a, b, c, d: a), r"true labels \(a=12, b=0, c=0, d=18\) is 12; expected 0"),
        (Measure(lambda a, b, c, d: c - 3 * b), r"\(a=12, b=18, c=0, d=0\) is -54; expected at least 0"),
        (Measure(lambda a, b, c, d: 1 - a / (a + b)), r"\(a=0, b=0, c=12, d=18\) is nan; expected a finite"),
        (Measure(lambda a, b, c, d: 1 - (a if a > 0 else 1 / (a + b)) / 12), r"\(a=0, b=0, c=12, d=18\) is nan"),
        (Measure(lambda a, b, c, d: "no"), "cannot be evaluated for a table"),
        (Measure(lambda a, b: 0.0), "cannot be evaluated for a table"),
    ],
)
def test_parameters_that_are_refused(task, message):
    with pytest.raises(InputError, match=message):
        fit(task)


def test_data_that_are_refused():
    X, y = two_clouds()
    broken = X.copy()
    broken[3, 1] = np.nan
    cases = [
        (X, np.zeros(30), r"Y has the class 0.0 only; expected two classes"),
        (X, np.arange(30) % 3, r"Y has 3 classes, \[0, 1, 2\] among them; expected two"),
        (broken, y, "not finite at row 3, column 1"),
        (X, y[:20], "X has 30 examples but Y has 20 outputs"),
        (X, np.stack([y, y], axis=1), r"Y must have one dimension.* found shape \(30, 2\)"),
        (X, np.where(y == 1, np.nan, 0.0), "labels contain NaN"),
        (X[:0], y[:0], "X is empty"),
        (X[:, :0], y, "X has no features; expected at least one"),
        (X[:, 0], y, "X must have two dimensions"),
        (
            sparse.csr_array((30, 100_000_001)),
            y,
            "X has 100000001 features, each with a weight",
        ),
    ]
    for inputs, outputs, message in cases:
        with pytest.raises(InputError, match=message):
            fit(Measure("f1"), inputs, outputs)
    with raises("sample_weight", expected="None for Measure"):
        fit(Measure("f1"), X, y, sample_weight=np.ones(30))
    model = fit(Measure("f1"))
    with pytest.raises(InputError, match="sample_weight is given, but Measure judges the whole set"):
        model.score(X, y, sample_weight=np.ones(30))
    with pytest.raises(InputError, match="X has 2 features but the model has 3"):
        model.predict(X[:, :2])
    with pytest.raises(InputError, match="unknown label 7"):
        model.score(X, np.full(30, 7))
    chosen = fit(Measure("precision@k", k=10))
    for judge in (chosen.score, chosen.loss):
        with pytest.raises(InputError, match="k is 10, but there are 9 examples only"):
            judge(X[:9], y[:9])
    with pytest.raises(InputError, match="all 30 rows are of one class"):
        model.task_.prepare(X, np.ones(30, dtype=int))


def test_modes_that_are_refused():
    X, y = two_clouds()
    with pytest.raises(InputError, match="hard maxima only"):
        StructuredEstimator(Measure("f1"), temperature=(1.0, 0.0)).fit(X, y)
    for loss in ("rocarea", "average_precision", "prbep"):
        task, _ = learned(Measure(loss), X, y)
        with pytest.raises(InputError, match="known from them only: prepare the batch with Y"):
            task.planes(task.prepare(X), np.zeros(3), "free", HARD)


def test_functions_of_tables_are_not_saved(tmp_path):
    with raises("loss", got="<function jaccard", expected="to be saved"):
        fit(Measure(jaccard)).save(tmp_path / "model")


def test_a_function_must_be_monotone_where_not_all_tables_are_tried(monkeypatch):
    monkeypatch.setattr(set_losses, "LISTED_TABLES", 100)
    with pytest.raises(InputError, match="rises with true positives or falls with false positives somewhere"):
        fit(Measure(uneven))
    assert fit(Measure(jaccard)).certified_
