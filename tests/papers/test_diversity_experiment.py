"""Parts of the experiment on diverse subsets, and its quick form on real data."""

import os

import numpy as np
import pytest
from scipy import sparse

from latentstruct_papers import run_experiment, ssvm_diversity
from latentstruct_papers.ssvm_diversity import Measured, compare, essential_benefit, make_queries

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")


def test_candidates_are_the_stories_in_which_the_word_weighs_most():
    rng = np.random.default_rng(0)
    X = rng.random((60, 3))
    X[:35, 1] = 0.0
    topics = [(f"topic {j % 7}",) if j % 10 else () for j in range(60)]
    stories = np.arange(5, 60)
    found = make_queries(sparse.csr_array(X), topics, stories, np.array([2, 1, 0]), ["a", "b", "c"], 2)
    # The second word has too few stories, and the stories without a topic are never candidates.
    assert found.words == ["c", "a"]
    usable = [j for j in stories if topics[j]]
    for query, column in enumerate((2, 0)):
        expected = sorted(sorted(usable, key=lambda j: -X[j, column])[:30])
        assert np.array_equal(found.X[query].toarray(), X[expected])
        assert found.Y[query] == [topics[j] for j in expected]
    assert found.stories.shape == (60,)
    row = found.describe("part")
    assert row[:3] == ["part", 2, 7.0]
    assert row[-1] == 60 / row[-2]


def test_queries_with_few_topics_are_left_out():
    X = sparse.csr_array(np.ones((40, 1)))
    few = [(f"topic {j % 5}",) for j in range(40)]
    assert make_queries(X, few, np.arange(40), np.array([0]), ["a"], 9).X == []
    enough = [(f"topic {j % 6}",) for j in range(40)]
    assert len(make_queries(X, enough, np.arange(40), np.array([0]), ["a"], 9).X) == 1


def test_comparison_counts_queries():
    ours, other = (Measured(name, np.array(values), 0.0) for name, values in (("a", [0, 0.5, 1]), ("b", [0, 1, 0.75])))
    method, difference, lower, equal, higher, p = compare(ours, other)
    assert (method, lower, equal, higher) == ("b", 1, 1, 1)
    assert difference == pytest.approx(-0.25 / 3)
    assert p == pytest.approx(1.0)
    assert compare(ours, ours)[-1] == 1.0


def test_benefit_is_highest_between_rare_and_common():
    shares = np.linspace(0.01, 1, 100)
    benefit = essential_benefit(shares)
    assert benefit[-1] == 0.0
    assert shares[benefit.argmax()] == pytest.approx(1 / np.e, abs=0.01)


@pytest.mark.data
@needs_data
def test_quick_run(tmp_path):
    lines = []
    findings = run_experiment("ssvm-diversity", quick=True, say=lines.append)
    losses = {row[0]: row[1] for row in findings.tables[0].rows}
    best = losses.pop(ssvm_diversity.BEST)
    assert all(best < loss < losses[ssvm_diversity.RANDOM] + 1e-12 for loss in losses.values())
    assert losses[ssvm_diversity.EXACT] < losses[ssvm_diversity.UNWEIGHTED]
    assert lines
    assert {path.suffix for path in findings.save(tmp_path)} >= {".png", ".json"}
