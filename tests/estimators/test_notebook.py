"""How estimators and what holds data show themselves."""

import html.parser
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone

from latentstruct import (
    CRF,
    DetectionInput,
    GraphInput,
    LatentMulticlass,
    LatentSSVM,
    Multiclass,
    StructuralSVM,
    Subgradient,
    groupnorm_path,
)
from latentstruct.core.formatting import format_value, short_repr
from latentstruct.datasets import make_planted_motif
from latentstruct.estimators.notebook import fitted_facts, fitted_table

X, Y = np.random.default_rng(0).normal(size=(30, 3)), [0, 1, 1] * 10


class Cells(html.parser.HTMLParser):
    """Collects the cells of a table."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag in ("th", "td"):
            self.texts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts[-1] += data

    @property
    def facts(self):
        return list(zip(self.texts[::2], self.texts[1::2], strict=True))


def test_an_estimator_that_is_not_fitted_shows_the_diagram_alone():
    model = CRF(Multiclass())
    assert fitted_table(model) == ""
    assert "latentstruct-fitted" not in model._repr_html_()
    assert "sk-estimator" in model._repr_html_()


def test_a_fitted_estimator_adds_what_training_reached():
    model = StructuralSVM(Multiclass(), tol=1e-3).fit(X, Y)
    shown = model._repr_html_()
    table = fitted_table(model)
    assert "sk-estimator" in shown
    assert shown.endswith(table)
    assert model._repr_mimebundle_()["text/html"].endswith(table)
    assert model._repr_mimebundle_()["text/plain"] == repr(model) == "StructuralSVM(task=Multiclass(), tol=0.001)"
    cells = Cells(table)
    assert cells.open == []
    assert cells.facts == fitted_facts(model)
    facts = dict(cells.facts)
    assert facts["objective"] == f"{model.objective_:.6g}"
    assert facts["relative gap"] == f"{model.relative_gap_:.2g} (certified)"
    assert facts["stopped"].startswith(f"converged after {model.n_iter_} iteration")
    assert facts["weights"].startswith(str(len(model.coef_)))
    assert "starts" not in facts
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()


def test_the_table_says_why_a_gap_is_no_certificate():
    states = LatentMulticlass(n_states=2, weights="state")
    latent = dict(fitted_facts(LatentSSVM(states, restarts=2).fit(X, Y)))
    assert "of the last convex problem" in latent["relative gap"]
    assert latent["starts"].startswith("2, objectives ")
    with pytest.warns(UserWarning, match="max_iter"):
        unbounded = StructuralSVM(Multiclass(), solver=Subgradient(max_iter=1)).fit(X, Y)
    facts = dict(fitted_facts(unbounded))
    assert facts["lower bound"] == "none"
    assert facts["relative gap"] == "unknown: the solver has no bound"
    assert facts["stopped"] == "max_iter after 1 iteration"
    exact = StructuralSVM(Multiclass()).fit(X, Y)
    exact.certified_ = False
    assert "inference was not exact" in dict(fitted_facts(exact))["relative gap"]


@settings(deadline=None)
@given(st.text(st.characters(exclude_characters="\r")))
def test_whatever_the_table_says_is_escaped(reason):
    model = StructuralSVM(Multiclass()).fit(X[:4], Y[:4])
    model.stop_reason_ = reason
    assert Cells(fitted_table(model)).facts == fitted_facts(model)


def test_colors_are_left_to_the_notebook():
    table = fitted_table(StructuralSVM(Multiclass()).fit(X, Y))
    assert "color:inherit" in table
    assert "#" not in table
    assert "http" not in table


def test_fitted_estimators_are_cloned_and_pickled_as_before():
    model = StructuralSVM(Multiclass()).fit(X, Y)
    assert fitted_table(clone(model)) == ""
    assert fitted_table(pickle.loads(pickle.dumps(model))) == fitted_table(model)


@dataclass
class Holder:
    first: object
    second: object = None

    __repr__ = short_repr


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        ("ACGT", "'ACGT'"),
        ("A" * 500, f"<'{'A' * 24}'…, 500 characters>"),
        ([1, 2], "[1, 2]"),
        (["A" * 500], "<list of 1>"),
        ({"a": [1] * 1000, "b": 2, "c": 3, "d": 4}, "<dict of 4>"),
        (np.zeros((10000, 500)), "<ndarray of float64, shape (10000, 500)>"),
        (np.arange(3), "array([0, 1, 2])"),
        (np.float64(2.5), "np.float64(2.5)"),
        (sparse.csr_array((4, 5)), "<csr_array of float64, shape (4, 5)>"),
        (list(range(10**6)), "<list of 1000000>"),
    ],
)
def test_values_are_shown_by_their_size_where_they_are_long(value, text):
    assert format_value(value) == text
    assert repr(Holder(value)) == f"Holder(first={text}, second=None)"


def test_what_holds_arrays_and_data_shows_itself_in_one_line():
    large = np.zeros((10000, 500))
    path = groupnorm_path(LatentSSVM(LatentMulticlass(n_states=2, weights="state")), X, Y, n_strengths=2)
    holders = [
        DetectionInput(np.zeros((10000, 4)), large),
        GraphInput(large, np.zeros((0, 2), dtype=np.int64)),
        make_planted_motif(random_state=0),
        path,
        Holder(Holder(large), [large]),
    ]
    for holder in holders:
        assert repr(holder).startswith(type(holder).__name__ + "(")
        assert len(repr(holder)) < 300
        assert "\n" not in repr(holder)
