"""The alignment experiment: families, splits, tables and a small run on drawn proteins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cli_align import draw_pairs

from latentstruct.io.ncbi_matrix import blosum62
from latentstruct_papers import Setup, ssvm_alignment
from latentstruct_papers.alignment_tables import BASELINE, RAISED, Measured, Pairs, Results, p_value
from latentstruct_papers.datasets import Prefab
from latentstruct_papers.ssvm_alignment import QUICK, SHARES, SIMPLE, find_families, make_parts, split_families

SMALL = QUICK._replace(most=(8, 4, 6), longest=30, cuts=(0.0, 10.0), opens=(10.0, 14.0), extends=(1.0,), tol=0.1)

pair_lists = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=15)


def draw_prefab(n_pairs):
    found = draw_pairs(n_pairs, length=24, changed=0.4)
    identities = np.linspace(0.0, 100.0, n_pairs)
    return Prefab(found.names, found.sequences, found.matches, [f"{k}" for k in range(n_pairs)], identities)


@given(pair_lists, pair_lists)
def test_families_share_nothing_and_are_linked_within(named, spelt):
    size = min(len(named), len(spelt))
    names = [(f"n{a}", f"n{b}") for a, b in named[:size]]
    letters = [("A" * (a + 1), "A" * (b + 1)) for a, b in spelt[:size]]
    families = find_families(names, letters)
    marks = [{*pair, *texts} for pair, texts in zip(names, letters, strict=True)]
    group = list(range(size))
    for _ in range(size):
        for i in range(size):
            for j in range(size):
                if marks[i] & marks[j]:
                    group[i] = group[j] = min(group[i], group[j])
    assert all((families[i] == families[j]) == (group[i] == group[j]) for i in range(size) for j in range(size))


@given(st.lists(st.integers(0, 40), min_size=60, max_size=120), st.integers(0, 5))
def test_split_keeps_families_whole_and_shares_near(families, seed):
    families = np.array(families)
    parts = split_families(families, seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(families)))
    held = [set(families[part].tolist()) for part in parts]
    assert not held[0] & held[1] | held[0] & held[2] | held[1] & held[2]
    largest = np.bincount(families).max()
    for part, share in zip(parts, SHARES, strict=True):
        assert len(part) <= share * len(families) + largest


def test_parts_are_short_and_few():
    parts = make_parts(draw_prefab(40), SMALL)
    assert [len(part) for part in parts] == [8, 4, 6]
    names = [{x for pair in part.X for x in pair} for part in parts]
    assert not names[0] & names[2]
    assert all((part.at_least(50.0).identities >= 50).all() for part in parts)
    assert len(parts[0].at_least(0.0)) == 8
    short = SMALL._replace(longest=22)
    assert all(max(map(len, pair)) <= 22 for part in make_parts(draw_prefab(40), short) for pair in part.X)


@pytest.fixture(scope="module")
def findings():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssvm_alignment, "QUICK", SMALL)
        patch.setattr(ssvm_alignment, "load_prefab", lambda home: draw_prefab(40))
        said = []
        ssvm_alignment.load.cache_clear()
        found = ssvm_alignment.run(Setup(quick=True, say=said.append))
        ssvm_alignment.load.cache_clear()
    return found, said


def test_small_run(findings, tmp_path):
    found, said = findings
    assert said[0] == "pairs: 8 training, 4 validation, 6 test"
    ladder, fixed, identity, tried = found.tables
    assert [row[:2] for row in ladder.rows[:5]] == [
        [BASELINE, "local"],
        [BASELINE, "global"],
        [RAISED, "local"],
        [SIMPLE.name, "local"],
        [SIMPLE.name, "global"],
    ]
    assert len(ladder.rows) == len(SMALL.rungs) + 4
    assert [row[0] for row in fixed.rows] == [BASELINE, BASELINE, RAISED]
    assert sum(row[1] for row in identity.rows) == 6
    assert len(tried.rows) == 4 + len(SMALL.rungs) - 1
    assert len(found.settings["measured"]) == 6 + len(tried.rows)
    # Six of ten letters are the same in both proteins of a pair, so that matches are found up to a few places.
    assert max(row[7] for row in ladder.rows if row[0] == SIMPLE.name) > 80
    for row in ladder.rows:
        assert 0 < row[6] <= row[7] <= 100
    assert any("Quick" in line for line in found.differs)
    files = {path.name for path in found.save(tmp_path)}
    assert files >= {"ssvm-alignment.txt", "ssvm-alignment-ladder.png", "ssvm-alignment-matrix.png"}


def make_measured(model, mode, validation, test):
    validation, test = np.array(validation), np.array(test)
    return Measured(model, mode, "1", 3, {"Q": validation}, {"Q": test}, 0.0, matrix=blosum62())


def test_settings_are_chosen_by_validation_and_tested_against_the_better_baseline():
    pairs = Pairs([("A", "A")] * 4, [np.zeros((0, 2))] * 4, np.array([0, 0, 0, 1]), np.zeros(4))
    worse = make_measured(BASELINE, "local", [0.1, 0.2], [0.9, 0.9, 0.9, 0.9])
    base = make_measured(BASELINE, "global", [0.2, 0.3], [0.5, 0.5, 0.5, 0.5])
    weak = make_measured(SIMPLE.name, "local", [0.1, 0.1], [1.0, 1.0, 1.0, 1.0])
    good = make_measured(SIMPLE.name, "local", [0.4, 0.4], [0.6, 0.7, 0.8, 0.4])
    results = Results([worse, base, weak, good], pairs)
    assert results.best(BASELINE) is base
    assert results.best(BASELINE, "local") is worse
    assert results.chosen() == [worse, base, good]
    assert results.gain(base, base, "Q") == (None, None, None)
    gain, by_pairs, by_families = results.gain(good, results.best(BASELINE), "Q")
    assert gain == pytest.approx(12.5)
    assert by_pairs == p_value(good.test["Q"], base.test["Q"])
    assert by_families == pytest.approx(p_value(np.array([0.7, 0.4]), np.array([0.5, 0.5])))
    assert p_value(base.test["Q"], worse.test["Q"]) is None
