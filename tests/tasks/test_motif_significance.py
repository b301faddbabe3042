"""Shuffled and matched sequences, exact p-values of enrichment, and their calibration."""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from error_fields import raises
from latentstruct import LatentSSVM, Motif
from latentstruct.cli.kinds.motif.command import MotifOptions
from latentstruct.cli.kinds.motif.files import MotifData
from latentstruct.cli.kinds.motif.search import MotifSearch
from latentstruct.data.alphabets import DNA, PROTEIN
from latentstruct.io import Sequences
from latentstruct.progress.display import Progress
from latentstruct.tasks.motif.background import describe_differences, repeat_content, shuffle_sequences
from latentstruct.tasks.motif.significance import BestScores, score_enrichment
from latentstruct.tasks.motif.sites import mask_sites
from latentstruct.tasks.motif.starts import refined_motifs


def words(sequence, k):
    return Counter(sequence[i : i + k] for i in range(len(sequence) - k + 1))


@settings(deadline=None)
@given(st.sampled_from([(DNA, "ACGTN"), (PROTEIN, "MKWYX")]), st.data(), st.integers(1, 6), st.integers(0, 10**6))
def test_shuffled_sequences_keep_their_words(kind, data, k, seed):
    alphabet, letters = kind
    sequences = data.draw(st.lists(st.text(letters, max_size=40), min_size=1, max_size=4))
    found = shuffle_sequences(sequences, k, seed, alphabet)
    for given_one, shuffled in zip(sequences, found, strict=True):
        assert words(shuffled, k) == words(given_one, k)
        assert (shuffled[: k - 1], len(shuffled)) == (given_one[: k - 1], len(given_one))


@pytest.mark.parametrize("k", [1, 2])
def test_all_sequences_with_the_same_words_are_equally_likely(k):
    sequence = "ACATACAGA" if k > 1 else "AACGT"
    possible = {"".join(p) for p in permutations(sequence)}
    possible = {one for one in possible if words(one, k) == words(sequence, k)}
    found = Counter(shuffle_sequences([sequence] * 6000, k, 1))
    assert found.keys() == possible
    assert len(possible) > 10
    assert stats.chisquare(list(found.values())).pvalue > 1e-3


def test_shuffling_refuses_other_words_and_letters():
    with raises("k"):
        shuffle_sequences(["ACGT"], 7)
    with raises("sequences[0]"):
        shuffle_sequences(["ACXT"])


def test_differences_of_the_classes_have_figures():
    rng = np.random.default_rng(0)
    plain = ["".join(rng.choice(list("ACGT"), 50)) for _ in range(200)]
    assert describe_differences(plain[:100], plain[100:]) == []
    poor = ["".join(rng.choice(list("AT"), 100)) for _ in range(50)]
    found = " ".join(describe_differences(plain, poor))
    assert "% against 0 %)" in found
    assert "length (median 50 against 100)" in found
    acidic, basic = ["MDELV" * 9] * 20, ["MKLLV" * 9] * 20
    assert describe_differences(acidic, acidic, PROTEIN) == []
    (hydrophobic, charged) = describe_differences(acidic, basic, PROTEIN)
    assert hydrophobic == "hydrophobic residues (60 % against 80 %)"
    assert charged == "charged residues (40 % against 20 %)"
    assert repeat_content(["ACGT" + "CA" * 10, "ACGTTGCA"]) == pytest.approx(20 / 32)


@pytest.mark.parametrize(("n_positive", "n_negative"), [(4, 3), (2, 6), (1, 1)])
def test_p_values_are_those_of_all_orders(n_positive, n_negative):
    n = n_positive + n_negative
    scores = np.arange(n)[::-1].astype(float)
    least, p_values = [], []
    for chosen in combinations(range(n), n_positive):
        positive = np.isin(np.arange(n), chosen)
        tails = [stats.hypergeom.sf(positive[:t].sum() - 1, n, n_positive, t) for t in range(1, n)]
        least.append(min(tails))
        p_values.append(score_enrichment(scores[positive], scores[~positive]).p_value)
    expected = [np.mean(np.array(least) <= one + 1e-9) for one in least]
    np.testing.assert_allclose(p_values, expected, rtol=1e-9)


def test_counts_above_the_threshold():
    found = score_enrichment([3.0, 2.0, 2.0, -1.0], [2.0, 0.0, 0.0, -2.0])
    assert (found.threshold, found.positive_above, found.negative_above) == (2.0, 3, 1)
    assert score_enrichment([1.0, 1.0], [1.0]).p_value == 1.0
    with raises("negative"):
        score_enrichment([1.0], [])


def test_p_values_are_uniform_if_there_is_no_motif():
    """The search of the command on 500 sets of random sequences against others."""
    rng = np.random.default_rng(0)
    names, p_values = [str(i) for i in range(90)], []
    for seed in range(500):
        X = ["".join(letters) for letters in rng.choice(list("ACGT"), (180, 15))]
        positive, negative = (Sequences(names, [""] * 90, part) for part in (X[:90], X[90:]))
        given = {"width": "5", "order": 0, "restarts": 1, "strands": 1, "test_share": 0.8, "seed": seed}
        search = MotifSearch(
            MotifOptions(data=None, positive="p.fa", **given), MotifData(positive, negative, None, DNA), 1.0
        )
        search.run(Progress(quiet=True))
        p_values.append(search.tests[0].enrichment.p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3
    assert np.mean(np.array(p_values) <= 0.01) < 0.03


def test_sequences_with_a_site_are_recognized_and_masked():
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ACGT"), 60)) for _ in range(160)]
    for i in range(40):
        X[i] = f"{X[i][:20]}GATTACACGC{X[i][30:]}"
    y = np.repeat([1, -1], 80)
    task = Motif(10, 1, 1)
    task.learn(X, y)
    best = refined_motifs(task, task.prepare(X, y))[0]
    assert best.carriers[:40].mean() > 0.9
    assert best.carriers[40:].mean() < 0.2
    assert np.mean(best.starts[:40] == 20) > 0.9
    chosen = [*range(40), *range(80, 160)]
    model = LatentSSVM(Motif(10, 1, 1), C=1.0).fit([X[i] for i in chosen], y[chosen])
    masked = mask_sites(model, X[:40])
    assert all(one[20:30] == "N" * 10 and len(one) == 60 for one in masked)
    assert mask_sites(model, ["GATTACACGC"]) == ["GATTACACGC"]
    assert mask_sites(model, X[:40], np.inf) == X[:40]


def test_initial_motifs_of_many_windows(monkeypatch):
    from latentstruct.tasks.motif import starts

    monkeypatch.setattr(starts, "MOST_WINDOWS", 500)
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ACGT"), 60)) for _ in range(60)]
    task = Motif(8, 1, 2)
    y = np.repeat([1, -1], 30)
    task.learn(X, y)
    assert len(refined_motifs(task, task.prepare(X, y))[0].starts) == 30


def test_best_scores_follow_their_distribution():
    rng = np.random.default_rng(0)
    n_windows = rng.integers(20, 2000, 400)
    # The best of n exponential scores is at most s with probability (1 − exp(−2 s))^n, nearly exp(−n exp(−2 s)).
    scores = 3.0 + np.array([rng.exponential(0.5, n).max() for n in n_windows])
    found = BestScores.fit(scores, n_windows)
    assert found.decay == pytest.approx(2.0, rel=0.2)
    assert stats.kstest(found.p_values(scores, n_windows), "uniform").pvalue > 0.01
    more = np.array([rng.exponential(0.5, 50_000).max() for _ in range(200)])
    assert stats.kstest(found.p_values(3.0 + more, np.full(200, 50_000)), "uniform").statistic < 0.25

    # The maximum has no derivative: no other decay has a higher likelihood.
    def height(decay, offset):
        exponents = np.log(n_windows) + offset - decay * scores
        return (np.log(decay) + exponents - np.exp(exponents)).sum()

    best = height(*found)
    assert all(
        height(found.decay + a, found.offset + b) < best for a in (-0.01, 0, 0.01) for b in (-0.01, 0, 0.01) if a or b
    )
    assert found.excess([10, 100, 1000], 100)[:2].tolist() == [0.0, 0.0]
    close = found.p_values([5.0], [100])
    assert found.p_values([5.0 + found.excess([1000], 100)[0]], [1000]) == pytest.approx(close)
    with raises("scores", expected="scores that differ"):
        BestScores.fit([1.0, 1.0], [3, 4])
