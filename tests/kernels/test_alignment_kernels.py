"""Rows of all widths, which kernels divide into lanes, against the plain recursion; both domains of sums; bounds."""

import numpy as np
import pytest

from latentstruct import Alignment
from latentstruct._native import alignment as kernels
from latentstruct.core.protocols import Query, Temperature


def plain_recursion(scores, opening, extend, local, add):
    """Return the pooled score of all paths by the recursion over cells; `add` is max or log-sum."""
    height, width = scores.shape
    M, D, I = (np.full((height + 1, width + 1), -np.inf) for _ in range(3))
    start, ends = (0.0, [0.0]) if local else (-np.inf, [])
    if not local:
        M[0, 0] = 0.0
    for i in range(height + 1):
        for j in range(width + 1):
            if i and j:
                before = (M[i - 1, j - 1], D[i - 1, j - 1], I[i - 1, j - 1], start)
                M[i, j] = scores[i - 1, j - 1] + add(before)
                ends.append(M[i, j])
            if i:
                D[i, j] = add((M[i - 1, j] - opening, D[i - 1, j] - extend))
            if j:
                I[i, j] = add((M[i, j - 1] - opening, D[i, j - 1] - opening, I[i, j - 1] - extend))
    return add(ends) if local else add((M[-1, -1], D[-1, -1], I[-1, -1]))


def prepared(mode, sizes, extend=0.4, seed=0):
    """Return a task, a batch of pairs of these sizes with references, and weights."""
    rng = np.random.default_rng(seed)
    X = [tuple("".join(rng.choice(list("ARND"), size)) for size in pair) for pair in sizes]
    Y = [[(k, k) for k in range(0, min(pair), 2)] for pair in sizes]
    task = Alignment(mode=mode, alphabet="ARND", tolerance=1)
    task.learn(X, Y)
    w = rng.normal(size=task.n_features)
    w[-2:] = 1.1, extend
    return task, X, task.prepare(X, Y), w


SIZES = [(height, width) for height in (1, 2, 9) for width in (1, 2, 6, 7, 8, 9, 15, 16, 17, 23)]


@pytest.mark.parametrize("mode", ["local", "global"])
@pytest.mark.parametrize("extend", [0.4, 0.0, -0.3])
def test_rows_of_all_widths_have_the_values_of_the_plain_recursion(mode, extend):
    task, X, batch, w = prepared(mode, SIZES, extend)
    letters, matrix = task.substitution_matrix(w)
    places = {letter: k for k, letter in enumerate(letters)}
    best = task.align_scores(batch, w)
    soft = task.pool_batch(batch, Query(w, "free", Temperature(1.0))).values
    for k, (a, b) in enumerate(X):
        scores = matrix[np.ix_([places[letter] for letter in a], [places[letter] for letter in b])]
        assert best[k] == pytest.approx(plain_recursion(scores, *w[-2:], mode == "local", max))
        assert soft[k] == pytest.approx(plain_recursion(scores, *w[-2:], mode == "local", np.logaddexp.reduce))


@pytest.mark.parametrize("mode", ["local", "global"])
def test_both_domains_of_sums_have_the_same_probabilities_and_slopes(mode, monkeypatch):
    task, _, batch, w = prepared(mode, SIZES)
    query = Query(w, "augmented", Temperature(0.7))

    def pooled():
        found = task.pool_batch(batch, query)
        both = [*task.marginals(batch, w, Temperature(0.7)), found.values, found.losses]
        return both, found.slopes.dot(np.arange(task.n_features, dtype=np.float64))

    first = pooled()
    monkeypatch.setattr("latentstruct.tasks.alignment.task.LINEAR_DOMAIN_SPREAD", 0.0)
    second = pooled()
    np.testing.assert_allclose(first[1], second[1], rtol=1e-9, atol=1e-9)
    for one, other in zip(first[0], second[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_arrays_that_do_not_fit_are_refused():
    task, _, batch, w = prepared("local", [(4, 5), (3, 9)])
    scoring, chosen = task._scoring(w), np.arange(2)
    with pytest.raises(ValueError, match="matching lengths"):
        kernels.best_scores(batch.pairs, scoring, chosen, np.empty(3))
    with pytest.raises(TypeError):
        kernels.best_scores(batch.pairs, scoring, chosen.astype(np.int32), np.empty(2))
    with pytest.raises(TypeError):
        kernels.best_scores(batch.pairs._replace(codes=batch.pairs.codes[:, :-1].copy()), scoring, chosen, np.empty(2))
    few, pointers = np.empty((3, 2), dtype=np.int64), np.empty(3, dtype=np.int64)
    with pytest.raises(ValueError, match="matches"):
        kernels.best_paths(batch.pairs, scoring, chosen, np.zeros(2), False, few, pointers, np.empty(2))
    with pytest.raises(ValueError, match="out is too short"):
        kernels.pool_matches(batch.pairs, scoring, chosen, np.empty(46))


@pytest.mark.parametrize("mode", ["local", "global"])
def test_scores_that_are_not_numbers_do_not_lead_outside(mode):
    task, _, batch, w = prepared(mode, SIZES)
    for number in (np.nan, np.inf, -np.inf):
        for place in (0, -2, -1):
            bad = w.copy()
            bad[place] = number
            for found in task.decode(batch, bad, Temperature()):
                assert (found.y >= 0).all()
