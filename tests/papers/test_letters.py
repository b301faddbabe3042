"""Handwritten words: the standard problem of structural SVM solvers, whose optimum is known."""

import os

import numpy as np
import pytest

from latentstruct import CRF, Chain, StructuralSVM
from latentstruct_papers.datasets import load_ocr_letters

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif("LATENTSTRUCT_DATA" not in os.environ, reason="LATENTSTRUCT_DATA is not set"),
]
OPTIMUM = (246.174, 246.177)


@pytest.fixture(scope="module")
def words():
    letters = load_ocr_letters()

    def chosen(mask):
        rows = np.flatnonzero(mask)
        return [letters.X[i] for i in rows], [letters.Y[i] for i in rows]

    return chosen(letters.folds == 1), chosen(letters.folds != 1)


def test_structural_svm_certifies_the_known_optimum(words):
    train, rest = words
    model = StructuralSVM(Chain(), C=0.1).fit(*train)
    assert model.stop_reason_ == "converged"
    assert model.certified_
    assert model.relative_gap_ <= 1e-3
    assert model.lower_bound_ <= OPTIMUM[1]
    assert model.objective_ >= OPTIMUM[0]
    assert model.objective_ <= OPTIMUM[1] * 1.001
    assert model.score(*rest) >= 0.783
    # Work, not time: the race of solvers needed 35 passes; the certificate is one of ours.
    assert model.n_oracle_calls_ <= 60 * len(train[0])


def test_crf_on_letters(words):
    train, rest = words
    model = CRF(Chain(), C=0.5).fit(*train)
    # CRFsuite's L-BFGS ends at 2903.285 for twice this objective.
    assert abs(2.0 * model.objective_ - 2903.285) <= 1e-3 * 2903.285
    assert model.relative_gap_ <= 1e-3
    assert model.score(*rest) >= 0.78
