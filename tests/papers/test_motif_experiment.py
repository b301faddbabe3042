"""Parts of the motif experiment: matched negatives, folds, the Gibbs sampler, thresholds, hits."""

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from error_fields import raises
from latentstruct import Motif
from latentstruct.data.alphabets import DNA
from latentstruct.datasets import make_planted_motif
from latentstruct.tasks.motif.background import match_negatives
from latentstruct.tasks.motif.sites import reverse_complement
from latentstruct_papers import lssvm_motif, motif_samples
from latentstruct_papers.gibbs import GibbsSampler
from latentstruct_papers.motif_data import fold_groups, related_groups
from latentstruct_papers.pwm_em import PwmEM

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")

dna = st.text("ACGT", min_size=1, max_size=12)


# ---- matching --------------------------------------------------------------------------------------------


@given(
    st.lists(dna, min_size=1, max_size=4),
    st.lists(dna, min_size=4, max_size=8),
    st.sampled_from([None, "CG"]),
    st.integers(0, 99),
)
def test_negatives_are_cut_from_different_sequences(positives, pool, group, seed):
    matched = match_negatives(positives, pool, group, np.random.default_rng(seed))
    assert len(set(matched.sources)) == len(matched.sequences) == len(positives)
    left = sorted(map(len, pool), reverse=True)
    for negative, source in zip(matched.sequences, matched.sources, strict=True):
        assert negative in pool[source]
    # Longest first, so a positive is cut short only if the pool has nothing longer for it.
    for positive, negative in zip(positives, matched.sequences, strict=True):
        assert len(negative) == len(positive) or len(negative) <= left[0] < len(positive) or len(negative) in left


def test_gc_content_is_matched():
    rng = np.random.default_rng(0)
    rich = ["".join(rng.choice(list("ACGT"), p=[0.1, 0.4, 0.4, 0.1], size=60)) for _ in range(20)]
    pool = ["".join(rng.choice(list("ACGT"), size=200)) for _ in range(100)]
    apart = {}
    for group in (None, "CG"):
        found = match_negatives(rich, pool, group, np.random.default_rng(1)).sequences
        pairs = zip(rich, found, strict=True)
        apart[group] = np.mean([abs(DNA.share(a, "CG") - DNA.share(b, "CG")) for a, b in pairs])
    assert apart["CG"] < 0.5 * apart[None]
    assert DNA.share("NNgCaT", "CG") == 0.5
    assert DNA.share("NN", "CG") == 0.0
    with raises("pool"):
        match_negatives(["A", "C"], ["A"], None, rng)


def words_of(sequence, length):
    forward = {sequence[i : i + length] for i in range(len(sequence) - length + 1)}
    known = {word for word in forward if "N" not in word}
    return known | {reverse_complement(word) for word in known}


@given(st.lists(st.text("ACGTN", max_size=9), min_size=1, max_size=7), st.integers(2, 4))
def test_related_groups_are_connected_components(sequences, shared):
    groups = related_groups(sequences, shared)
    n = len(sequences)
    linked = np.eye(n, dtype=bool)
    for i in range(n):
        for j in range(n):
            linked[i, j] |= bool(words_of(sequences[i], shared) & words_of(sequences[j], shared))
    for _ in range(n):
        linked = linked @ linked
    assert np.array_equal(linked, groups[:, None] == groups[None, :])


@given(st.lists(st.tuples(st.integers(0, 8), st.sampled_from([1, -1])), min_size=10, max_size=40), st.integers(2, 5))
def test_folds_keep_groups_whole(items, n_folds):
    groups, labels = map(np.array, zip(*items, strict=True))
    folds = fold_groups(groups, labels, n_folds, np.random.default_rng(0))
    assert all(len(set(folds[groups == group])) == 1 for group in groups)
    alone = fold_groups(np.arange(len(labels)), labels, n_folds, np.random.default_rng(0))
    for kind in (1, -1):
        counts = np.bincount(alone[labels == kind], minlength=n_folds)
        assert counts.max() - counts.min() <= 1


# ---- methods ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strands", [1, 2])
def test_gibbs_sampler_finds_a_planted_motif(strands):
    planted = make_planted_motif(60, 60, 60, 10, 0.1, strands=strands, random_state=4)
    sampler = GibbsSampler(Motif(10, 1, strands), sweeps=40, starts=2).fit(planted.X, planted.Y)
    batch = sampler.task.prepare(planted.X, planted.Y)
    found = [h for h in sampler.task.complete(batch, sampler.coef_) if h is not None]
    shifts = [(h[0] - site[0]) * site[1] for h, site in zip(found, planted.sites[:60], strict=True)]
    assert np.unique(shifts, return_counts=True)[1].max() >= 0.8 * 60
    scores = sampler.scores(planted.X)
    assert np.median(scores[:60]) > scores[60:].max() - 1
    again = GibbsSampler(Motif(10, 1, strands), sweeps=40, starts=2).fit(planted.X, planted.Y)
    assert np.array_equal(again.coef_, sampler.coef_)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12))
def test_threshold_has_the_fewest_errors(items):
    scores, positive = np.array([s for s, _ in items], dtype=float), np.array([p for _, p in items])
    threshold, sign = lssvm_motif.best_threshold(scores, positive)
    reached = ((sign * scores > sign * threshold) != positive).sum()
    least = min(((s * scores > s * t) != positive).sum() for s in (1, -1) for t in np.arange(-0.5, 6.5))
    assert reached == least


@pytest.mark.parametrize("strands", [1, 2])
def test_expectation_maximization_finds_a_planted_motif(strands):
    planted = make_planted_motif(60, 60, 60, 10, 0.1, strands=strands, random_state=4)
    fitted = PwmEM(Motif(10, 1, strands)).fit(planted.X, planted.Y)
    found = [h for h in fitted.task.complete(fitted.task.prepare(planted.X, planted.Y), fitted.coef_) if h is not None]
    shifts = [(h[0] - site[0]) * site[1] for h, site in zip(found, planted.sites[:60], strict=True)]
    assert np.unique(shifts, return_counts=True)[1].max() >= 0.8 * 60


def planted_problem(n_folds):
    planted = make_planted_motif(40, 40, 40, 8, 0.0, random_state=1)
    X = [*planted.X, "ACGT" * 10]
    return lssvm_motif.Problem(X, np.append(planted.Y, -1), np.ones(81), np.append(np.arange(80) % n_folds, -1), 80)


def test_folds_inside_a_training_part_leave_its_test_part_out():
    problem = planted_problem(5)
    short = replace(lssvm_motif.QUICK, n_folds=5, n_inner=2)
    for fold in range(5):
        inner = lssvm_motif.inner_folds(problem, fold, short)
        assert np.array_equal(inner == -2, problem.folds == fold)
        assert inner[-1] == -1
        assert set(inner[inner >= 0]) == {0, 1}
        assert all(len(set(inner[problem.folds == other])) == 1 for other in range(5))


def test_methods_separate_planted_words():
    problem = planted_problem(4)
    short = replace(lssvm_motif.QUICK, n_folds=4, grid=(0.1,), words=((6, 0), (4, 1)))
    wrong, on_test, chosen = lssvm_motif.latent_errors(problem, Motif(8, 0), short, (1,))
    assert on_test.mean() <= wrong.mean() < 0.2
    assert chosen == [(0.1, 1)] * 4
    assert lssvm_motif.word_svm_errors(problem, 1, short).mean() < 0.3


def test_differences_of_methods_are_tested_over_folds_and_seeds():
    found = lssvm_motif.Results()
    rng = np.random.default_rng(0)
    for _ in range(3):
        found.folds.append(np.arange(200) % 10)
        found.add("LSSVM", 11, rng.random(200) < 0.1)
        found.add("Gibbs", 11, rng.random(200) < 0.4)
        found.add("same", None, found.errors["LSSVM", 11][-1])
    mean, p_value = found.compare("LSSVM", "Gibbs", 11, 11)
    close = found.rate("LSSVM", 11) - found.rate("Gibbs", 11)
    assert mean == pytest.approx(close)
    assert p_value < 0.01
    assert found.compare("LSSVM", "same", 11, None) == (0.0, 1.0)
    # By hand: k = 30 differences, test/training = 1/9.
    difference = found.fold_rates("LSSVM", 11) - found.fold_rates("Gibbs", 11)
    t = difference.mean() / np.sqrt((1 / 30 + 1 / 9) * difference.var(ddof=1))
    assert p_value == pytest.approx(2 * stats.t.sf(abs(t), 29))


@settings(deadline=None)
@given(st.lists(st.text("ACGT", min_size=11, max_size=20), min_size=1, max_size=4))
def test_consensus_matches_count_letters(sequences):
    scores, starts = lssvm_motif.consensus_matches(sequences)
    for sequence, score, start in zip(sequences, scores, starts, strict=True):
        best = {}
        for i in range(len(sequence) - 10):
            window = sequence[i : i + 11]
            best[i] = max(
                sum(a in lssvm_motif.LETTERS_OF[code] for a, code in zip(one, lssvm_motif.ARS_CONSENSUS, strict=True))
                for one in (window, reverse_complement(window))
            )
        assert score == max(best.values())
        assert best[start] == score


def test_hits_are_counted_by_centres():
    acs = [[(10, 20, 1)], [], [(0, 4, -1), (30, 40, 1)], [(10, 20, 1)]]
    # Centers 15, –, 35 and 15 against windows of width 10: distances 5, –, 0 and 6.
    assert lssvm_motif.share_hit([15, 0, 30, 16], 10, acs) == 2 / 3


def test_mirror_image_of_a_consensus():
    assert lssvm_motif.reverse_complement_code("WWTTTATRTTTW") == "WAAAYATAAAWW"
    codes = "ACGTMRWSYKN"
    assert lssvm_motif.reverse_complement_code(lssvm_motif.reverse_complement_code(codes)) == codes


@pytest.mark.data
@needs_data
def test_problem_keeps_relatives_out_of_training():
    data = lssvm_motif.load_yeast_ars()
    short = lssvm_motif.QUICK
    problem = lssvm_motif.make_problem(data, "CG", short)
    assert problem.n_tested == 704
    assert (problem.Y[:704] == np.repeat([1, -1], 352)).all()
    assert problem.weights[704:].tolist() == [short.background_weight] * (len(problem.X) - 704)
    groups = related_groups(problem.X)
    for fold in range(short.n_folds):
        train, test = problem.split(fold)
        assert not set(groups[train]) & set(groups[test])
        assert len(test)
    lengths = [len(x) for x in problem.X]
    longest = max(map(len, data.negatives.sequences))
    assert all(b == min(a, longest) for a, b in zip(lengths[:352], lengths[352:704], strict=True))


@pytest.mark.data
@needs_data
def test_oriented_sites_read_forward():
    data = lssvm_motif.load_yeast_ars()
    sequences, acs = lssvm_motif.oriented(data)
    assert len(sequences) == 191
    original = [
        (sequence, sites[0]) for sequence, sites in zip(data.positives.sequences, data.acs, strict=True) if sites
    ]
    for turned, sites, (sequence, (low, high, strand)) in zip(sequences, acs, original, strict=True):
        window = sequence[low:high]
        assert turned[sites[0][0] : sites[0][1]] == (window if strand > 0 else reverse_complement(window))
        assert sites[0][2] == 1


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("kind", [motif_samples.PLANTED, motif_samples.STRONG])
def test_planted_sites_are_those_of_the_matrix(kind):
    problem, matrix = motif_samples.planted_problem(lssvm_motif.load_yeast_ars(), kind, 40, 30, 0)
    assert matrix.shape == (17, 4)
    assert np.bincount(problem.folds).tolist() == [60, 20, 20, 20, 20]
    assert all(len(x) == motif_samples.LENGTH for x in problem.X)
    task = Motif(17, 0, strands=2)
    task.learn(problem.X, problem.Y)
    # Letters of the sequences are about 62 % A and T.
    background = np.log([0.31, 0.19, 0.19, 0.31])
    scores = task.scores(task.prepare(problem.X), np.concatenate([np.log(matrix).ravel(), background]))
    judged = motif_samples.judge_scores(scores, problem.Y == 1, float(np.median(scores)))
    assert judged["best"] <= judged["own"] < 0.5
    assert judged["auc"] > {motif_samples.PLANTED: 0.6, motif_samples.STRONG: 0.8}[kind]


@pytest.mark.data
@needs_data
def test_parts_of_the_yeast_data():
    problem = motif_samples.yeast_problem(lssvm_motif.load_yeast_ars(), 50, 0)
    train, test = problem.split(0)
    assert [int((problem.Y[train] == sign).sum()) for sign in (1, -1)] == [50, 50]
    assert len(test) + 100 == len(problem.X) == problem.n_tested
