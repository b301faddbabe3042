import io
import itertools
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latentstruct.data.trees import Tree, tagged_words, words
from latentstruct.io.brackets import format_tree
from latentstruct_papers import Setup, ssvm_parsing
from latentstruct_papers.datasets import CessEsp
from latentstruct_papers.ssvm_parsing import (
    HAMMING,
    LIKELIHOOD,
    QUICK,
    Setting,
    divide,
    document,
    exchange_test,
    f1_of,
    run,
    standard_error,
)

TINY = Setting(12, (30, 10, 12), (HAMMING, LIKELIHOOD._replace(strengths=(1.0,))), tol=0.1, max_iter=10)


def sentence(rng):
    """Return a sentence whose preposition follows the verb or the noun, the latter in commas."""
    word = lambda tag: Tree(tag, (f"{tag}{rng.integers(3)}",))  # noqa: E731
    noun = Tree("sn", (word("da0"), word("nc0")))
    phrase = Tree("sp", (word("sps"), noun))
    comma = Tree("Fc", (",",))
    if rng.random() < 0.5:
        return Tree("S", (noun, Tree("grup.verb", (word("vmi"),)), phrase))
    return Tree("S", (Tree("sn", (noun, comma, phrase, comma)), Tree("grup.verb", (word("vmi"),))))


def with_lemmas(tree):
    text = format_tree(tree)
    for word in set(words(tree)):
        text = text.replace(f" {word})", f" {word} x)")
    return text


def write_treebank(home, n_files, n_trees=4):
    rng = np.random.default_rng(0)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for k in range(n_files):
            text = "".join(f"(\n{with_lemmas(sentence(rng))}\n)\n" for _ in range(n_trees))
            archive.writestr(f"cess_esp/d{k // 2}-{k % 2}.tbf", text)
    (home / "cess_esp_trees").mkdir()
    (home / "cess_esp_trees" / "cess_esp.zip").write_bytes(buffer.getvalue())
    return home


def test_documents():
    names = ["15021_20000218_1", "15021_20000218_0", "a12-4", "dc10-13"]
    assert [document(name) for name in names] == ["15021", "15021", "a12", "dc10"]


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(4, 30), st.integers(1, 8))
def test_documents_are_never_divided(seed, n_files, longest):
    rng = np.random.default_rng(seed)
    trees, names = [], []
    for k in range(60):
        length = int(rng.integers(1, 10))
        trees.append(Tree("S", tuple(Tree("n", (f"{k}",)) for _ in range(length))))
        names.append(f"d{rng.integers(n_files)}-{rng.integers(3)}")
    parts = divide(CessEsp(trees, names, {}), QUICK._replace(longest=longest, most=(20, 20, 20)), seed)
    seen = [{document(names[int(words(tree)[0])]) for tree in part.Y} for part in parts]
    assert not any(a & b for a, b in itertools.combinations(seen, 2))
    for part in parts:
        assert len(part.X) <= 20
        assert [tagged_words(tree) for tree in part.Y] == part.X
        assert all(len(x) <= longest for x in part.X)


COUNTS = st.lists(st.tuples(*[st.integers(0, 6)] * 3, *[st.integers(0, 6)] * 2), min_size=1, max_size=6)


def as_counts(rows):
    true, guess, other, right, also = np.array(rows).T
    one = np.stack([true, guess, np.minimum(right, np.minimum(true, guess))], axis=1)
    return one, np.stack([true, other, np.minimum(also, np.minimum(true, other))], axis=1)


@settings(max_examples=40)
@given(COUNTS)
def test_exchanges_against_all_of_them(rows):
    one, other = as_counts(rows)
    observed = abs(f1_of(one.sum(axis=0)) - f1_of(other.sum(axis=0)))
    reached = []
    for swap in itertools.product([False, True], repeat=len(rows)):
        chosen = np.array(swap)[:, None]
        a, b = np.where(chosen, other, one), np.where(chosen, one, other)
        reached.append(abs(f1_of(a.sum(axis=0)) - f1_of(b.sum(axis=0))) >= observed - 1e-12)
    # Five standard deviations of a share of 2000 random exchanges.
    assert exchange_test(one, other) == pytest.approx(np.mean(reached), abs=0.06)
    assert exchange_test(one, other) == exchange_test(other, one)


def test_paired_tests_see_a_steady_gain():
    rng = np.random.default_rng(0)
    true = rng.integers(8, 20, size=200)
    right = true - rng.integers(2, 4, size=200)
    better = np.stack([true, true, right + rng.integers(0, 2, size=200)], axis=1)
    worse = np.stack([true, true, right], axis=1)
    gain = f1_of(better.sum(axis=0)) - f1_of(worse.sum(axis=0))
    assert exchange_test(better, worse) < 0.001
    # The standard error of a mean of differences over sentences, as all have about the same weight.
    by_hand = np.std(better[:, 2] - worse[:, 2]) / np.sqrt(200) / true.mean()
    assert standard_error(better, worse) == pytest.approx(by_hand, rel=0.15)
    assert gain > 3 * standard_error(better, worse)
    assert exchange_test(worse, worse) == 1.0
    assert standard_error(worse, worse) == 0.0


def test_on_a_small_treebank(tmp_path, monkeypatch):
    monkeypatch.setattr(ssvm_parsing, "QUICK", TINY)
    reported = []
    findings = run(Setup(str(write_treebank(tmp_path, 40)), True, reported.append))
    scores, gains, strengths = findings.tables
    assert [row[0] for row in scores.rows] == ["PCFG by counts", "SSVM, Hamming loss", "CRF"]
    assert all(0.0 <= float(cell) <= 100.0 for row in scores.rows for cell in row[2:7])
    assert [row[0] for row in gains.rows] == ["SSVM, Hamming loss", "CRF"]
    assert len(strengths.rows) == 1 + len(HAMMING.strengths) + 1
    assert all(findings.settings["f1"][row[0]] == pytest.approx(float(row[4]) / 100, abs=1e-4) for row in scores.rows)
    # Words decide nothing here and the tags everything, so that every weighting of the rules that tell is right.
    assert findings.settings["f1"]["SSVM, Hamming loss"] == 1.0
    assert reported[0] == "30 sentences for training, 10 for validation, 12 for test"
    files = findings.save(tmp_path / "out")
    assert sorted(path.suffix for path in files) == [".html", ".json", ".png", ".txt"]
