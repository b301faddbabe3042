"""Charts of sentences longer than the lanes of kernels, against the plain recursion; slopes; bounds."""

from contextlib import suppress

import numpy as np
import pytest

from latentstruct._native import parsing as kernels
from latentstruct.core.protocols import Query, Temperature
from latentstruct.data.trees import Tree, tagged_words
from latentstruct.tasks.parsing.task import Parsing


def random_tree(rng, n):
    """Return a binary tree over n words, with single children here and there."""
    label = str(rng.choice(["A", "B", "C"]))
    if n == 1:
        leaf = Tree(str(rng.choice(["x", "y"])), (str(rng.choice(["u", "v"])),))
        return Tree(label, (leaf,)) if rng.random() < 0.3 else leaf
    cut = int(rng.integers(1, n))
    return Tree(label, (random_tree(rng, cut), random_tree(rng, n - cut)))


@pytest.fixture(scope="module")
def bank():
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, n) for n in (2, 7, 8, 9, 15, 16, 17, 20)]
    return [[word for word, _ in tagged_words(tree)] for tree in trees], trees


def plain_inside(task, batch, w, k, add):
    """Return the pooled score of all trees of a sentence by the recursion over spans; `add` is max or log-sum."""
    rules, sentences = task.rules_, batch.sentences
    first, n = sentences.offsets[k], batch.lengths[k]
    full = {}
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j, base = i + length, {}
            if length == 1:
                for q in range(sentences.choice_start[first + i], sentences.choice_start[first + j]):
                    weight = sentences.choice_weight[q]
                    base[sentences.choice_symbol[q]] = [w[weight] if weight >= 0 else 0.0]
            for a, b, c, weight in zip(rules.parent, rules.left, rules.right, rules.weight, strict=True):
                for m in range(i + 1, j):
                    if b in full[i, m] and c in full[m, j]:
                        base.setdefault(a, []).append(full[i, m][b] + full[m, j][c] + w[weight])
            base = {symbol: add(found) for symbol, found in base.items()}
            above = {symbol: [score] for symbol, score in base.items()}
            for chain, (bottom, top) in enumerate(zip(rules.bottom, rules.top, strict=True)):
                if bottom in base:
                    steps = rules.step_weight[rules.step_start[chain] : rules.step_start[chain + 1]]
                    above.setdefault(top, []).append(base[bottom] + w[steps].sum())
            full[i, j] = {symbol: add(found) for symbol, found in above.items()}
    return add([score + w[rules.root[a]] for a, score in full[0, n].items() if rules.root[a] >= 0])


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_long_sentences_have_the_values_of_the_plain_recursion(bank, scale):
    """With large weights, sums are made by logarithms."""
    task = Parsing(rare=0)
    task.learn(*bank)
    batch = task.prepare(*bank)
    w = scale * np.random.default_rng(1).normal(size=task.n_features)
    best = [found.score for found in task.decode(batch, w, Temperature())]
    soft = task.pool_batch(batch, Query(w, "free", Temperature(1.0))).values
    for k in range(batch.n_examples):
        assert best[k] == pytest.approx(plain_inside(task, batch, w, k, max))
        assert soft[k] == pytest.approx(plain_inside(task, batch, w, k, np.logaddexp.reduce))


@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("features", ["rules", "spans"])
def test_slopes_are_derivatives_of_values(bank, scale, features):
    task = Parsing(features=features, rare=0)
    task.learn(*bank)
    batch = task.prepare(*bank)
    rng = np.random.default_rng(2)
    w, direction = scale * rng.normal(size=task.n_features), rng.normal(size=task.n_features)
    temperature, step = Temperature(1.0), 1e-5

    def values(at):
        return task.pool_batch(batch, Query(at, "augmented", temperature)).values

    slopes = task.pool_batch(batch, Query(w, "augmented", temperature)).slopes
    numeric = (values(w + step * direction) - values(w - step * direction)) / (2.0 * step)
    np.testing.assert_allclose(slopes.dot(direction), numeric, rtol=1e-4, atol=1e-4)


def test_weights_need_not_be_contiguous(bank):
    task = Parsing(features="spans")
    task.learn(*bank)
    batch = task.prepare(*bank)
    both = np.random.default_rng(3).normal(size=(task.n_features, 2))
    for temperature in (Temperature(), Temperature(1.0)):
        one, other = (task.pool_batch(batch, Query(w, "free", temperature)) for w in (both[:, 0], both[:, 0].copy()))
        np.testing.assert_array_equal(one.values, other.values)


def test_arrays_that_do_not_fit_are_refused(bank):
    task = Parsing()
    task.learn(*bank)
    batch, w = task.prepare(*bank), np.zeros(task.n_features)
    scores, rows, nothing = task._scores(batch, w), np.arange(batch.n_examples), np.zeros(batch.n_examples)
    found = task._empty_derivations(batch, rows)
    data = (batch.sentences, batch.spans, task.rules_)
    with pytest.raises(ValueError, match="matching lengths"):
        kernels.best_trees(*data, scores, rows, nothing, nothing, np.empty(1), found)
    with pytest.raises(ValueError, match="scores must fit"):
        kernels.best_trees(*data, scores._replace(rule=scores.rule[1:]), rows, nothing, nothing, nothing, found)
    with pytest.raises(TypeError):
        kernels.best_trees(*data, scores, rows.astype(np.int32), nothing, nothing, nothing, found)
    short = found._replace(**{name: part[:5] for name, part in found._asdict().items() if name != "offsets"})
    with pytest.raises(ValueError, match="too short"):
        kernels.best_trees(*data, scores, rows, nothing, nothing, np.empty(len(rows)), short)


def test_scores_that_are_not_numbers_are_no_derivation_or_refused(bank):
    task = Parsing()
    task.learn(*bank)
    batch = task.prepare(*bank)
    for place in range(task.n_features):
        w = np.zeros(task.n_features)
        w[place] = np.nan
        with suppress(ValueError):
            assert len(task.decode(batch, w, Temperature())) == batch.n_examples
