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
from latentstruct.tasks.measure import set_losses
from latentstruct.tasks.measure.task import Measure


def fit(task, X=None, y=None, **more):
    if X is None:
        X, y = two_clouds()
    return StructuralSVM(task, C=1.0).fit(X, y, **more)


@pytest.mark.parametrize(
    ("task", "parameter", "got", "expected"),
    [
        (Measure("f2"), "loss", "", "'f1', 'fbeta', 'prbep', 'precision@k'"),
        (Measure(None), "loss", "", "'f1', 'fbeta', 'prbep', 'precision@k'"),
        (Measure(["f1"]), "loss", "", "'f1', 'fbeta', 'prbep', 'precision@k'"),
        (Measure("fbeta", beta=0.0), "beta", "", "a finite number above 0"),
        (Measure("precision@k"), "k", "", "a number or a share of rows for"),
        (Measure("precision@k", k=31), "k", "", "at most 30, the number of examples"),
        (Measure("recall@k", k=0), "k", "", "an integer of at least 1, a number above 0"),
        (Measure("recall@k", k=1.0), "k", "", "an integer of at least 1, a number above 0"),
        (Measure("recall@k", k=True), "k", "", "an integer of at least 1, a number above 0"),
        (Measure("f1", bias=np.inf), "bias", "inf", "a finite number, 0 for none"),
        (Measure("f1", bias="1"), "bias", "'1'", "a finite number, 0 for none"),
        (Measure("f1", bias=None), "bias", "None", "a finite number, 0 for none"),
        (Measure("f1", threshold="0"), "threshold", "'0'", "a finite number or None"),
        (Measure("f1", threshold=np.nan), "threshold", "nan", "a finite number or None"),
        (Measure("f1", positive="spam"), "positive", "'spam'", "one of the labels 0 or 1"),
        (Measure("f1", positive=[1]), "positive", "[1]", "one of the labels 0 or 1"),
        (Measure(lambda a, b, c, d: a), "loss", "", "0 for the true labels"),
        (Measure(lambda a, b, c, d: c - 3 * b), "loss", "", "at least 0 for all tables"),
        (Measure(lambda a, b, c, d: 1 - a / (a + b)), "loss", "", "finite for all tables"),
        (Measure(lambda a, b, c, d: 1 - (a if a > 0 else 1 / (a + b)) / 12), "loss", "", "finite for all tables"),
        (Measure(lambda a, b, c, d: "no"), "loss", "", "a number for all tables"),
        (Measure(lambda a, b: 0.0), "loss", "", "a number for all tables"),
    ],
)
def test_parameters_that_are_refused(task, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        fit(task)


def test_data_that_are_refused():
    X, y = two_clouds()
    broken = X.copy()
    broken[3, 1] = np.nan
    cases = [
        (X, np.zeros(30), "y", "one class", "labels of two classes"),
        (X, np.arange(30) % 3, "y", "3 classes", "labels of two classes"),
        (broken, y, "X", "nan at row 3, column 1", "finite"),
        (X, y[:20], "Y", "20 outputs", "a sequence of 30 outputs"),
        (X, np.stack([y, y], axis=1), "Y", "shape (30, 2)", "one-dimensional, one class per example"),
        (X, np.where(y == 1, np.nan, 0.0), "y", "nan", "neither NaN nor infinite"),
        (X[:0], y[:0], "X", "none", "at least one example"),
        (X[:, :0], y, "X", "no features", "at least one feature"),
        (X[:, 0], y, "X", "shape (30,)", "two-dimensional"),
        (sparse.csr_array((30, 100_000_001)), y, "X", "100000001 features", "rows with 1 to 100000000 features"),
    ]
    for inputs, outputs, parameter, got, expected in cases:
        with raises(parameter, got=got, expected=expected):
            fit(Measure("f1"), inputs, outputs)
    with raises("sample_weight", expected="None for Measure"):
        fit(Measure("f1"), X, y, sample_weight=np.ones(30))
    model = fit(Measure("f1"))
    with raises("sample_weight", expected="None because the whole set is one example"):
        model.score(X, y, sample_weight=np.ones(30))
    with raises("X", got="2 features", expected="rows with 3 features, as in training"):
        model.predict(X[:, :2])
    with raises("label", got="7", expected="one of the known labels 0, 1"):
        model.score(X, np.full(30, 7))
    chosen = fit(Measure("precision@k", k=10))
    for judge in (chosen.score, chosen.loss):
        with raises("k", got="10", expected="at most 9, the number of examples"):
            judge(X[:9], y[:9])
    with raises("Y", got="30 labels of one class", expected="labels of both classes"):
        model.task_.prepare(X, np.ones(30, dtype=int))


def test_modes_that_are_refused():
    X, y = two_clouds()
    with raises("temperature", got="(1.0, 0.0)", expected="(0, 0) for Measure, which supports hard maxima only"):
        StructuredEstimator(Measure("f1"), temperature=(1.0, 0.0)).fit(X, y)
    for loss in ("rocarea", "average_precision", "prbep"):
        task, _ = learned(Measure(loss), X, y)
        with raises("batch", got="none", expected="a batch with the true classes"):
            task.planes(task.prepare(X), np.zeros(3), "free", HARD)


def test_functions_of_tables_are_not_saved(tmp_path):
    with raises("loss", got="<function jaccard", expected="to be saved"):
        fit(Measure(jaccard)).save(tmp_path / "model")


def test_a_function_must_be_monotone_where_not_all_tables_are_tried(monkeypatch):
    monkeypatch.setattr(set_losses, "LISTED_TABLES", 100)
    with raises("loss", expected="a function that does not increase with true positives nor decrease with false"):
        fit(Measure(uneven))
    assert fit(Measure(jaccard)).certified_
