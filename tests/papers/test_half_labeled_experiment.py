"""The experiment with removed tags: its parts on made sentences, and a small run on the real ones."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from latentstruct.metrics import chunk_scores
from latentstruct.tasks.chain.task import UNKNOWN
from latentstruct_papers import EXPERIMENTS, Setup, half_labeled
from latentstruct_papers.half_labeled import (
    ESTIMATORS,
    FORMS,
    HIDDEN,
    LIKELIHOODS,
    MARGINAL,
    RATIO,
    REMOVED,
    Measured,
    Sentences,
    Sizes,
    accuracy,
    chunk_f1,
    count,
    fit,
    gain_table,
    labeled_pieces,
    measure,
    predict,
    remove_tags,
    resample,
    score_table,
    time_table,
)

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")
TAGS = ["B-NP", "B-VP", "I-NP", "I-VP", "O"]


def make_sentences(seed, n=12, longest=9):
    """Random tags with noisy indicators as features."""
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, len(TAGS), rng.integers(1, longest + 1)) for _ in range(n)]
    X = [sparse.csr_array(np.eye(len(TAGS))[y] + (rng.random((len(y), len(TAGS))) < 0.2)) for y in Y]
    return Sentences(X, [[TAGS[k] for k in y] for y in Y])


@given(seed=st.integers(0, 10**6), shares=st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)).map(sorted))
def test_removed_tags_stay_removed(seed, shares):
    sentences = make_sentences(seed)
    fewer, more = (remove_tags(sentences, share, seed).Y for share in shares)
    for whole, some, less in zip(sentences.Y, fewer, more, strict=True):
        assert len(whole) == len(some) == len(less)
        assert all(a in (UNKNOWN, b) for a, b in zip(some, whole, strict=True))
        assert all(a in (UNKNOWN, b) for a, b in zip(less, some, strict=True))


def test_the_share_removed_is_the_one_asked():
    sentences = make_sentences(0, n=3000)
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        tags = [tag for y in remove_tags(sentences, share, 0).Y for tag in y]
        assert tags.count(UNKNOWN) / len(tags) == pytest.approx(share, abs=0.01)


@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 1.0))
def test_pieces_are_all_that_is_tagged(seed, share):
    half = remove_tags(make_sentences(seed), share, seed)
    pieces = labeled_pieces(half)
    tagged = [(x[[t]].toarray().tobytes(), y[t]) for x, y in zip(*half, strict=True) for t in range(len(y))]
    found = [(x[[t]].toarray().tobytes(), y[t]) for x, y in zip(*pieces, strict=True) for t in range(len(y))]
    assert found == [pair for pair in tagged if pair[1] != UNKNOWN]
    starts = sum(
        tag != UNKNOWN and before == UNKNOWN for y in half.Y for before, tag in zip([UNKNOWN, *y], y, strict=False)
    )
    assert len(pieces.X) == len(pieces.Y) == starts


@given(seed=st.integers(0, 10**6))
def test_counts_are_those_of_the_metrics(seed):
    true, other = (make_sentences(seed).Y for _ in range(2))
    rng = np.random.default_rng(seed)
    predicted = [[tag if rng.random() < 0.7 else rng.choice(TAGS) for tag in y] for y in other]
    sums = count(true, predicted).sum(axis=0)
    assert chunk_f1(sums) == pytest.approx(chunk_scores(true, predicted).f1)
    pairs = [pair for y, found in zip(true, predicted, strict=True) for pair in zip(y, found, strict=True)]
    assert accuracy(sums) == pytest.approx(np.mean([a == b for a, b in pairs]))
    half = remove_tags(Sentences([], true), 0.5, seed).Y
    known = [(a, b) for y, found in zip(half, predicted, strict=True) for a, b in zip(y, found, strict=True) if a != -1]
    some = count(half, predicted).sum(axis=0)
    assert some[:2].tolist() == [len(known), sum(a == b for a, b in known)]


def test_standard_errors_are_those_of_a_mean():
    """With sentences of one token, the bootstrap's error of accuracy is that of a share."""
    counts = np.zeros((400, 5), dtype=np.int64)
    counts[:, 0], counts[:100, 1] = 1, 1
    found = accuracy(resample(400) @ counts)
    assert found.mean() == pytest.approx(0.25, abs=0.003)
    assert found.std() == pytest.approx(np.sqrt(0.25 * 0.75 / 400), rel=0.1)


@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 10**6))
def test_all_methods_learn(seed):
    train, test = make_sentences(seed, n=40), make_sentences(seed + 1, n=30)
    for method in ESTIMATORS:
        found = measure(REMOVED, 0.3, method, 0.3, train, test, TAGS)
        assert (found.method, found.share, found.counts.shape) == (method, 0.3, (30, 5))
        assert found.counts[:, 0].tolist() == [len(y) for y in test.Y]
        assert accuracy(found.counts.sum(axis=0)) > 0.6
        half = remove_tags(train, 0.3, 0)
        predicted = predict(fit(method, 0.3, half, TAGS), test.X)
        assert [len(y) for y in predicted] == [len(y) for y in test.Y]
        np.testing.assert_array_equal(count(test.Y, predicted), found.counts)


def test_tables_hold_every_method_and_case():
    rng = np.random.default_rng(0)
    measured = []
    for form, share in ((REMOVED, 0.5), (REMOVED, 0.1), ("chunks only", 0.5)):
        for method in ESTIMATORS if form == REMOVED else (*LIKELIHOODS, RATIO):
            counts = np.tile([10, 7, 4, 4, 2], (20, 1))
            counts[:, 1] += rng.integers(0, 2, 20)
            measured.append(Measured(form, share, method, 0.1, counts, 1.5, 3))
    draws = resample(20)
    table = score_table(measured, draws, accuracy, "Token accuracy")
    assert [row[0] for row in table.rows] == [*ESTIMATORS, RATIO]
    assert table.columns == ["method", "C", "50 % tags unknown", "10 % tags unknown", "50 % chunks only"]
    cells = {(row[0], column): cell for row in table.rows for column, cell in zip(table.columns, row, strict=True)}
    for m in measured:
        shown = cells[m.method, f"{100 * m.share:.0f} % {m.form}"]
        assert shown.startswith(f"{100 * accuracy(m.counts.sum(axis=0)):.2f} ± ")
    assert cells[MARGINAL, "50 % chunks only"] is cells[RATIO, "10 % tags unknown"] is None
    gains = gain_table(measured, draws)
    assert [row[:2] for row in gains.rows] == [
        [f"{100 * m.share:.0f} % {m.form}", m.method] for m in measured if m.method != HIDDEN
    ]
    assert all(row[3] == "0.00 ± 0.00" for row in gains.rows)
    assert time_table(measured).rows[0][1:] == ["1.5 s, 3"] * 3


@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 1.0))
def test_sets_of_two_tags_and_chunks_alone_agree_with_the_tags(seed, share):
    sentences = make_sentences(seed)
    widened, kept = FORMS["two tags allowed"](sentences, share, seed), FORMS["chunks only"](sentences, share, seed)
    known = [tag for y in sentences.Y for tag in y]
    for tag, allowed, kept_tag in zip(
        known, (tag for y in widened.Y for tag in y), (tag for y in kept.Y for tag in y), strict=True
    ):
        assert allowed == tag or (isinstance(allowed, set) and tag in allowed and len(allowed) == 2)
        assert kept_tag == tag or (tag == "O" and kept_tag == UNKNOWN)
    if share == 1.0:
        assert not any(isinstance(tag, str) for y in widened.Y for tag in y)
        assert not any(tag == "O" for y in kept.Y for tag in y)


@pytest.mark.data
@needs_data
def test_a_small_run(tmp_path):
    lines = []
    findings = half_labeled.run(
        Setup(say=lines.append), sizes=Sizes(40, 30, (0.5,), (0.03, 0.04), 20, 1, tuple(ESTIMATORS))
    )
    assert findings.name in EXPERIMENTS
    # C of each method; all methods for unknown tags, likelihoods for the other forms, and one with an entity ratio.
    assert len(lines) == 2 * len(ESTIMATORS) + 2 * len(LIKELIHOODS) + 1
    assert "The first 40 training sentences only." in findings.differs
    f1 = [float(cell.split(" ")[0]) for row in findings.tables[1].rows for cell in row[2:] if cell is not None]
    assert min(f1) > 30.0
    assert [path.name for path in findings.save(tmp_path)][:2] == ["half-labeled.json", "half-labeled.txt"]
