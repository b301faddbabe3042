"""Alignment: the task against enumeration of all paths, features against their definition, training, bad input."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import reference
from error_fields import raises
from latentstruct import CRF, LatentSSVM, StructuralSVM, load
from latentstruct.core.oracles import SlackOracle
from latentstruct.core.protocols import Temperature
from latentstruct.data.sequences import AMINO_ACIDS, AlignmentInput, SequenceTracks
from latentstruct.exceptions import InputError
from latentstruct.tasks.alignment import task as module
from latentstruct.tasks.alignment.features import derived_accessibility, derived_structure
from latentstruct.tasks.alignment.task import Alignment
from latentstruct.testing import check_task

HARD = Temperature()
LETTERS = "ACD"
MODES = ("free", "augmented", "clamped")
KINDS = ("simple", "anova2", "tensor", "window", "profile")


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


# ---- all paths -------------------------------------------------------------------------------------------------------


@cache
def all_match_sets(height, width):
    """Every set of matches with both positions increasing, as a tuple of pairs."""
    sets = []
    for m in range(min(height, width) + 1):
        for rows in combinations(range(height), m):
            for columns in combinations(range(width), m):
                sets.append(tuple(zip(rows, columns, strict=True)))
    return sets


def walk(matches, height, width, local):
    """The path of a set of matches, step by step: letters of a left out (D) come before those of b (I)."""
    steps, i, j = [], 0, 0
    for match in [*matches, (height, width)]:
        steps += ["D"] * (match[0] - i) + ["I"] * (match[1] - j)
        if match != (height, width):
            steps.append("M")
        i, j = match[0] + 1, match[1] + 1
    text = "".join(steps)
    return text.strip("DI") if local else text


def gap_features(matches, height, width, local):
    """Minus the numbers of opened gaps and of further letters in gaps."""
    steps = walk(matches, height, width, local)
    opened = sum(step != "M" and (t == 0 or steps[t - 1] != step) for t, step in enumerate(steps))
    return [-float(opened), -float(sum(step != "M" for step in steps) - opened)]


def letter_features(a, b, matches, local):
    """Features of the symmetric substitution matrix over LETTERS, row after row of the lower triangle, and gaps."""
    phi = np.zeros(len(LETTERS) * (len(LETTERS) + 1) // 2)
    for i, j in matches:
        low, high = sorted((LETTERS.index(a[i]), LETTERS.index(b[j])))
        phi[high * (high + 1) // 2 + low] += 1.0
    return np.concatenate([phi, gap_features(matches, len(a), len(b), local)])


def q_loss(truth, found, tolerance):
    partners = dict(found)
    wrong = sum(i not in partners or abs(partners[i] - j) > tolerance for i, j in truth)
    return wrong / len(truth) if truth else 0.0


def list_alignments(X, Y, local, tolerance, partial=False, features=letter_features):
    """All alignments of each pair; with `partial` those that contain the reference share its output."""
    listed = []
    for (a, b), y in zip(X, Y, strict=True):
        truth = tuple(map(tuple, np.asarray(y).tolist()))
        sets = all_match_sets(len(a), len(b))
        phis = np.array([features(a, b, found, local) for found in sets])
        losses = np.array([q_loss(truth, found, tolerance) for found in sets])
        outputs = np.arange(len(sets))
        number = sets.index(truth)
        if partial:
            outputs = np.where([set(truth) <= set(found) for found in sets], number, outputs)
        listed.append(reference.Listed(phis, losses, outputs, number, sets))
    return listed


@st.composite
def small_pairs(draw):
    """Up to three pairs of sequences of 1 to 4 letters with references, and small whole weights that often tie."""
    words = st.text(LETTERS, min_size=1, max_size=4)
    X = draw(st.lists(st.tuples(words, words), min_size=1, max_size=3))
    Y = [np.array(draw(st.sampled_from(all_match_sets(len(a), len(b)))), dtype=int).reshape(-1, 2) for a, b in X]
    w = np.array(draw(st.lists(st.integers(-3, 3), min_size=8, max_size=8)), dtype=float)
    assume(any(len(y) for y in Y))
    return X, Y, w


def learned(task, X, Y):
    task.learn(X, Y)
    return task, task.prepare(X, Y)


@given(st.integers(1, 4), st.integers(1, 4), st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_set_of_matches_has_one_path(height, width, local):
    sets = all_match_sets(height, width)
    paths = {walk(found, height, width, local=False) for found in sets}
    assert len(paths) == len(sets)
    assert all("ID" not in path for path in paths)


@given(small_pairs(), st.sampled_from(["local", "global"]), st.sampled_from([0, 1, 4]))
@settings(max_examples=80, deadline=None)
def test_the_best_alignment_is_that_of_the_enumeration(data, mode, tolerance):
    X, Y, w = data
    task, batch = learned(Alignment(mode=mode, alphabet=LETTERS, tolerance=tolerance), X, Y)
    listed = list_alignments(X, Y, mode == "local", tolerance)
    for kind in MODES:
        planes = task.planes(batch, w, kind, HARD)
        close(planes.values, [reference.pool(e, w, kind).value for e in listed])
        close(planes.offsets + planes.dot(w), planes.values)
        for example, slope, offset in zip(listed, planes.slopes().toarray(), planes.offsets, strict=True):
            # Ties may be decided differently, but what was chosen must be an alignment with its own loss.
            losses = example.losses if kind == "augmented" else np.zeros(len(example.losses))
            assert np.any(np.isclose(losses, offset) & np.isclose(example.features, slope).all(axis=1))
    for example, found in zip(listed, task.decode(batch, w, HARD), strict=True):
        number = example.items.index(tuple(map(tuple, found.y.tolist())))
        close(found.score, example.features[number] @ w)
    close(task.align_scores(batch, w), [reference.pool(e, w, "free").value for e in listed])


@pytest.mark.parametrize("spread", [100.0, 0.0], ids=["linear", "logarithms"])
@given(small_pairs(), st.sampled_from(["local", "global"]), st.sampled_from([0, 4]), st.sampled_from([0.05, 0.7, 1, 5]))
@settings(max_examples=60, deadline=None)
def test_sums_over_alignments_are_those_of_the_enumeration(spread, data, mode, tolerance, epsilon):
    X, Y, w = data
    task, batch = learned(Alignment(mode=mode, alphabet=LETTERS, tolerance=tolerance), X, Y)
    listed = list_alignments(X, Y, mode == "local", tolerance)
    weights, soft = np.linspace(0.5, 2.0, len(X)), Temperature(float(epsilon), 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LINEAR_DOMAIN_SPREAD", spread)
        for kind in MODES:
            pooled = [reference.pool(e, w, kind, epsilon if kind != "clamped" else 0.0) for e in listed]
            planes, total = task.planes(batch, w, kind, soft), task.total(batch, w, kind, soft, weights)
            close(planes.values, [p.value for p in pooled])
            close(planes.slopes().toarray(), [p.features for p in pooled])
            close(total.slope, sum(c * p.features for c, p in zip(weights, pooled, strict=True)))
            close(total(w), sum(c * p.value for c, p in zip(weights, pooled, strict=True)))
            if kind != "clamped":
                loss = sum(c * p.loss for c, p in zip(weights, pooled, strict=True))
                close(total.offset - total.entropy, loss)
        found = task.marginals(batch, w, soft)
    for (a, b), example, shares in zip(X, listed, found, strict=True):
        expected = np.zeros((len(a), len(b)))
        for share, matches in zip(reference.pool(example, w, "free", epsilon).shares, example.items, strict=True):
            for match in matches:
                expected[match] += share
        close(shares, expected)


@given(
    small_pairs(), st.sampled_from(["local", "global"]), st.sampled_from([0, 1, 4]), st.sampled_from([0.0, 0.05, 1.0])
)
@settings(max_examples=60, deadline=None)
def test_partial_references_leave_the_rest_of_the_path_open(data, mode, tolerance, epsilon):
    X, Y, w = data
    task, batch = learned(Alignment(mode=mode, alphabet=LETTERS, tolerance=tolerance, partial=True), X, Y)
    listed = list_alignments(X, Y, mode == "local", tolerance, partial=True)
    weights = np.linspace(0.5, 2.0, len(X))
    for kind in MODES:
        pooled = [reference.pool(e, w, kind, epsilon, epsilon) for e in listed]
        planes = task.planes(batch, w, kind, Temperature(epsilon, epsilon))
        total = task.total(batch, w, kind, Temperature(epsilon, epsilon), weights)
        close(planes.values, [p.value for p in pooled])
        close(total(w), weights @ planes.values)
        if epsilon:
            close(planes.slopes().toarray(), [p.features for p in pooled])
            close(total.slope, sum(c * p.features for c, p in zip(weights, pooled, strict=True)))
    for y, h in zip(Y, task.complete(batch, w), strict=True):
        assert set(map(tuple, y.tolist())) <= set(map(tuple, h.tolist()))


@pytest.mark.parametrize("mode", ["local", "global"])
def test_both_domains_agree_on_long_sequences_and_never_overflow(mode):
    rng = np.random.default_rng(3)
    a = "".join(rng.choice(list(LETTERS), 300))
    X, Y = [(a, a[:120] + a[150:])], [np.array([[0, 0]])]
    task, batch = learned(Alignment(mode=mode, alphabet=LETTERS), X, Y)
    scores = np.where(np.eye(3, dtype=bool), 1.0, -1.0)
    for scale in (0.1, 1.0, 10.0, 1000.0):
        w = task.fixed_weights((LETTERS, scale * scores), scale * 3.0, scale * 0.5)
        totals = []
        for spread in (100.0, 0.0):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(module, "LINEAR_DOMAIN_SPREAD", spread)
                totals.append(task.total(batch, w, "free", Temperature(1.0, 0.0), np.ones(1)))
        assert np.isfinite(totals[0].slope).all()
        np.testing.assert_allclose(totals[0].slope, totals[1].slope, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(totals[0](w), totals[1](w), rtol=1e-9)


def in_both_domains(task, batch, w):
    """The total of the augmented sums, first by plain numbers as far as they go, then by logarithms."""
    totals = []
    for spread in (100.0, 0.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "LINEAR_DOMAIN_SPREAD", spread)
            totals.append(task.total(batch, w, "augmented", Temperature(1.0, 0.0), np.ones(batch.n_examples)))
    return totals


@pytest.mark.parametrize(("a", "b"), [("A", "A" * 300), ("A" * 300, "A"), ("AC", "A" * 300), ("C" * 300, "CA")])
@pytest.mark.parametrize("costs", [(1.0, -5.0), (-5.0, -1.0), (-9.0, 2.0)])
def test_gaps_that_gain_never_overflow_unseen(a, b, costs):
    for mode in ("local", "global"):
        task, batch = learned(Alignment(mode=mode, alphabet=LETTERS), [(a, b)], [[(0, 0)]])
        w = task.fixed_weights((LETTERS, np.eye(3)), *costs)
        plain, logarithms = in_both_domains(task, batch, w)
        np.testing.assert_allclose(plain.slope, logarithms.slope, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(plain(w), logarithms(w), rtol=1e-9)


@pytest.mark.parametrize("n", range(80, 180, 4))
def test_what_comes_behind_dear_gaps_never_overflows(n):
    # All good matches lie behind two gaps, so that what is ahead of a cell exceeds Z by two openings.
    X = [("C" * 40 + "A" * n, "D" * 80 + "A" * n)]
    task, batch = learned(Alignment(mode="global", alphabet=LETTERS), X, [[(0, 0)]])
    w = task.fixed_weights((LETTERS, 9.8 * np.eye(3) - 4.9), 94.0, 0.0)
    plain, logarithms = in_both_domains(task, batch, w)
    np.testing.assert_allclose(plain.slope, logarithms.slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(plain(w), logarithms(w), rtol=1e-9)


def test_scores_below_zero_leave_nothing_aligned():
    X, Y = [("ACD", "DCA")], [[(0, 0)]]
    task, batch = learned(Alignment(alphabet=LETTERS), X, Y)
    w = task.fixed_weights((LETTERS, np.full((3, 3), -60.0)), 5.0, 1.0)
    assert [len(y) for y in task.align(X, w)] == [0]
    for total in in_both_domains(task, batch, w):
        close(total(w), 1.0)
        close(total.slope, 0.0)


def test_sums_that_need_too_much_room_are_refused(monkeypatch):
    X, Y = [("ACD", "AC"), ("ACDA", "ACD")], [[(0, 0)]] * 2
    task, batch = learned(Alignment(alphabet=LETTERS), X, Y)
    w, soft = np.zeros(task.n_features), Temperature(1.0, 0.0)
    monkeypatch.setattr(module, "MOST_POOLED_CELLS", 12)
    with raises("batch", got="18 marginals", expected="pairs with at most 12 marginals"):
        task.marginals(batch, w, soft)
    assert [len(one) for one in task.confidence(batch, w, soft, Y)] == [1, 1]
    monkeypatch.setattr(module, "MOST_POOLED_CELLS", 11)
    for sum_up in (task.planes, lambda *args: task.total(*args, np.ones(2))):
        with raises("X[1]", expected="sequences with a product of lengths of at most 11 for sums over alignments"):
            sum_up(batch, w, "free", soft)
    assert len(task.align(batch, w)) == 2


@given(small_pairs(), st.sampled_from(["local", "global"]), st.sampled_from([0, 4]))
@settings(max_examples=60, deadline=None)
def test_slack_rescaled_planes_are_those_of_alignments(data, mode, tolerance):
    X, Y, w = data
    task, batch = learned(Alignment(mode=mode, alphabet=LETTERS, tolerance=tolerance), X, Y)
    oracle = SlackOracle(task, batch, np.ones(len(X)))
    listed = list_alignments(X, Y, mode == "local", tolerance)
    for v in (w, 0.1 * w, np.zeros(len(w))):
        reference.check_slack_planes(oracle.planes(v), listed, v)


# ---- features --------------------------------------------------------------------------------------------------------


def random_word(rng, n, letters=LETTERS):
    return "".join(rng.choice(list(letters), n))


def random_tracks(rng, n, n_profile=3):
    return SequenceTracks(
        random_word(rng, n), random_word(rng, n, "HEL"), random_word(rng, n, "be"), rng.normal(size=(n, n_profile))
    )


def tracked_data(seed, n=5, n_profile=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=(n, 2))
    X = [tuple(random_tracks(rng, size, n_profile) for size in pair) for pair in sizes]
    sets = [all_match_sets(*pair) for pair in sizes.tolist()]
    Y = [np.array(s[rng.integers(1, len(s))], dtype=int).reshape(-1, 2) for s in sets]
    return X, Y


def pair_score(task, w, a, b, i, j):
    """s(i, j) as the difference that one more match makes in a local alignment of one match: φ of [(i, j)]."""
    batch = task.prepare([(a, b)], [np.array([[i, j]])])
    return float(task.planes(batch, w, "clamped", HARD).values[0])


@pytest.mark.parametrize(("mode", "symmetric"), [("local", True), ("global", False)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_features_keeps_the_contract(kind, symmetric, mode):
    X, Y = tracked_data(1, n=2)
    check_task(Alignment(kind, mode, LETTERS, symmetric=symmetric), X, Y, temperatures=(0.0, 1.0))


@pytest.mark.parametrize("mode", ["local", "global"])
@pytest.mark.parametrize("partial", [False, True])
def test_letters_alone_keep_the_contract(mode, partial):
    rng = np.random.default_rng(5)
    X = [(random_word(rng, m), random_word(rng, n)) for m, n in ((1, 1), (4, 6), (5, 3), (1, 5))]
    Y = [[(0, 0)], [(1, 2), (2, 4)], [(0, 0), (4, 2)], []]
    check_task(Alignment(mode=mode, alphabet=None, partial=partial), X, Y)


@pytest.mark.parametrize("kind", KINDS)
def test_symmetric_scores_do_not_change_when_sequences_change_places(kind):
    X, Y = tracked_data(2)
    task, _ = learned(Alignment(kind, alphabet=LETTERS), X, Y)
    other, _ = learned(Alignment(kind, alphabet=LETTERS, symmetric=False), X, Y)
    rng = np.random.default_rng(0)
    differ = False
    for a, b in X:
        for i, j in ((0, 0), (len(a.letters) - 1, len(b.letters) - 1)):
            w, v = rng.normal(size=task.n_features), rng.normal(size=other.n_features)
            close(pair_score(task, w, a, b, i, j), pair_score(task, w, b, a, j, i))
            differ |= not np.isclose(pair_score(other, v, a, b, i, j), pair_score(other, v, b, a, j, i))
    assert differ


def test_tables_of_the_ladder_have_the_sizes_that_their_tracks_give():
    X, Y = tracked_data(4)
    sizes = {}
    for kind in KINDS:
        for symmetric in (True, False):
            sizes[kind, symmetric] = learned(Alignment(kind, alphabet=LETTERS, symmetric=symmetric), X, Y)[0].n_features
    singles, pairs, triple = 3 + 3 + 2, 9 + 6 + 6, 18

    def table(n, symmetric):
        return n * (n + 1) // 2 if symmetric else n * n

    for symmetric in (True, False):
        expected = table(singles, symmetric) + 2
        assert sizes["simple", symmetric] == expected
        expected += table(pairs, symmetric)
        assert sizes["anova2", symmetric] == expected
        expected += table(triple, symmetric)
        assert sizes["tensor", symmetric] == expected
        expected += table(32, symmetric) + table(4**3, symmetric)
        assert sizes["window", symmetric] == expected
        assert sizes["profile", symmetric] == expected + (6 if symmetric else 9)


@pytest.mark.parametrize("symmetric", [True, False])
def test_tables_looked_up_one_by_one_give_the_same_model(symmetric, monkeypatch):
    from latentstruct.tasks.alignment import features as alignment_features

    X, Y = tracked_data(6)
    together, first = learned(Alignment("tensor", alphabet=LETTERS, symmetric=symmetric), X, Y)
    monkeypatch.setattr(alignment_features, "MOST_JOINT_NUMBERS", 0)
    apart, second = learned(Alignment("tensor", alphabet=LETTERS, symmetric=symmetric), X, Y)
    assert len(together.features_.groups) == 1
    assert len(apart.features_.groups) > 1
    w = np.random.default_rng(1).normal(size=together.n_features)
    soft, weights = Temperature(1.0, 0.0), np.ones(len(X))
    for mode in MODES:
        a, b = together.planes(first, w, mode, HARD), apart.planes(second, w, mode, HARD)
        close(a.slopes().toarray(), b.slopes().toarray())
        close(together.total(first, w, mode, soft, weights).slope, apart.total(second, w, mode, soft, weights).slope)


def test_profiles_score_products_of_columns_and_the_other_side_s_letter():
    rng = np.random.default_rng(0)
    a, b = (SequenceTracks(random_word(rng, 4), profile=rng.normal(size=(4, 3))) for _ in range(2))
    task, _ = learned(Alignment("profile", alphabet=LETTERS, symmetric=False), [(a, b)], [[(0, 0)]])
    at = task.n_features - 2 - 9
    for q in range(9):
        w = np.zeros(task.n_features)
        w[at + q] = 1.0
        left = a.profile[2, q % 3] if q < 6 else float(a.letters[2] == LETTERS[q % 3])
        right = b.profile[1, q % 3] if q < 3 or q >= 6 else float(b.letters[1] == LETTERS[q % 3])
        close(pair_score(task, w, a, b, 2, 1), left * right)


def test_the_matrix_and_the_gap_costs_go_in_and_come_out():
    X, Y = [("ACDA", "CD")], [[(1, 0), (2, 1)]]
    rng = np.random.default_rng(2)
    for symmetric in (True, False):
        task, _ = learned(Alignment(alphabet=LETTERS, symmetric=symmetric), X, Y)
        scores = rng.normal(size=(3, 3))
        scores = scores + scores.T if symmetric else scores
        order = [2, 0, 1]
        w = task.fixed_weights(("".join(LETTERS[k] for k in order), scores[np.ix_(order, order)]), 5.0, 0.5)
        letters, found = task.substitution_matrix(w)
        assert letters == LETTERS
        close(found, scores)
        assert task.gap_costs(w) == (5.0, 0.5)
        # C–C, two letters left out of a, A–D; a local alignment pays for the gap between matches only.
        batch = task.prepare([("ACDAA", "CD")], [[(1, 0), (4, 1)]])
        close(task.planes(batch, w, "clamped", HARD).values, scores[1, 1] + scores[0, 2] - 5.0 - 0.5)


def test_derived_tracks_follow_the_neighbors():
    assert set(derived_structure("EEEEEEEEAALL")) == {"H"}
    assert set(derived_structure("VVVVIIIVVV")) == {"E"}
    assert set(derived_structure("GGNNPPGGNN")) == {"L"}
    assert set(derived_accessibility("IIIIII")) == {"b"}
    assert set(derived_accessibility("KKKKKK")) == {"e"}
    X, Y = [("ACDEFGHIKL", "ACDFGHIKLM")], [[(0, 0), (1, 1)]]
    task, _ = learned(Alignment("tensor", derived=True), X, Y)
    plain, _ = learned(Alignment("simple"), X, Y)
    assert task.n_features > plain.n_features == 23 * 24 // 2 + 2


# ---- loss, training, files -------------------------------------------------------------------------------------------


@given(small_pairs(), st.randoms(), st.sampled_from([0, 1, 4]))
@settings(max_examples=60, deadline=None)
def test_the_loss_is_its_definition(data, random, tolerance):
    X, Y, _ = data
    task, _ = learned(Alignment(alphabet=LETTERS, tolerance=tolerance), X, Y)
    found = [random.choice(all_match_sets(len(a), len(b))) for a, b in X]
    expected = [q_loss([tuple(match) for match in y.tolist()], z, tolerance) for y, z in zip(Y, found, strict=True)]
    close(task.loss(Y, found), expected)
    close(task.score(Y, found), 1.0 - np.mean(expected))


def planted_pairs(n, seed, size=30):
    """Pairs whose letters change within two groups of three, with gaps, and their true matches."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        a, b, matches = [], [], []
        while len(a) < size:
            letter = rng.integers(0, 6)
            chance = rng.random()
            if chance < 0.08:
                a += rng.integers(0, 6, size=rng.integers(1, 5)).tolist()
            elif chance < 0.16:
                b += rng.integers(0, 6, size=rng.integers(1, 5)).tolist()
            else:
                matches.append((len(a), len(b)))
                a.append(letter)
                b.append(letter // 3 * 3 + rng.integers(0, 3) if rng.random() < 0.6 else letter)
        X.append(tuple("".join("ACDEFG"[k] for k in word) for word in (a, b)))
        Y.append(np.array(matches))
    return X, Y


@pytest.mark.parametrize("mode", ["local", "global"])
def test_training_finds_the_groups_that_were_planted(mode, tmp_path):
    X, Y = planted_pairs(40, 0)
    model = StructuralSVM(Alignment(mode=mode, alphabet="ACDEFG", tolerance=0), C=1.0, tol=0.05).fit(X[:25], Y[:25])
    letters, matrix = model.task_.substitution_matrix(model.coef_)
    assert letters == "ACDEFG"
    within, across = matrix[:3, :3], matrix[:3, 3:]
    assert within.min() > across.max()
    untrained = model.task_.align(X[25:], np.zeros(model.task_.n_features))
    # A matrix that knows equal letters only.
    plain = model.task_.fixed_weights(("ACDEFG", 2.0 * np.eye(6) - 1.0), 2.0, 0.5)
    found = model.score(X[25:], Y[25:])
    assert found > model.task_.score(Y[25:], model.task_.align(X[25:], plain)) + 0.02
    assert found > model.task_.score(Y[25:], untrained) + 0.3
    assert model.gap_ <= 0.05 * model.objective_ + 1e-9


def test_slack_rescaling_trains():
    X, Y = planted_pairs(12, 0, size=15)
    task = Alignment(mode="global", alphabet="ACDEFG", tolerance=0)
    model = StructuralSVM(task, C=10.0, rescaling="slack", tol=0.05, max_iter=1000).fit(X, Y)
    untrained = model.task_.loss(Y, model.task_.align(X, np.zeros(model.task_.n_features)))
    assert model.loss(X, Y).mean() < 0.5 * untrained.mean()


@pytest.mark.parametrize("partial", [False, True])
def test_models_are_saved_and_loaded(partial, tmp_path):
    X, Y = planted_pairs(8, 1, size=12)
    known = [y[::2] for y in Y] if partial else Y
    kind = LatentSSVM if partial else CRF
    model = kind(Alignment(alphabet="ACDEFG", tolerance=1, partial=partial), C=0.5, tol=0.05).fit(X, known)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for first, second in zip(model.predict(X), again.predict(X), strict=True):
        np.testing.assert_array_equal(first, second)
    assert again.task_.gap_costs(again.coef_) == model.task_.gap_costs(model.coef_)
    if not partial:
        for shares, sure, y in zip(model.marginals(X), model.confidence(X), model.predict(X), strict=True):
            assert shares.max() <= 1.0 + 1e-9
            close(sure, shares[y[:, 0], y[:, 1]])


def test_tracks_and_profiles_are_saved_and_loaded(tmp_path):
    X, Y = tracked_data(7, n=6)
    model = StructuralSVM(Alignment("profile", alphabet=None, derived=True), C=0.1, tol=0.1).fit(X, Y)
    model.save(tmp_path / "model")
    for first, second in zip(model.predict(X), load(tmp_path / "model").predict(X), strict=True):
        np.testing.assert_array_equal(first, second)


# ---- bad input -------------------------------------------------------------------------------------------------------

GOOD_X, GOOD_Y = [("ACD", "AC")], [[(0, 0), (1, 1)]]


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([("AC1", "AC")], ("`X[0][0].letters`", "'1' at position 2")),
        ([("ACD", "AU")], ("`X[0][1].letters`", "'U' at position 1", "`alphabet`")),
        ([("ACD", "AC\u00df")], ("'\u00df' at position 2",)),
        ([("ACD", "")], ("`X[0][1]` must be at least one letter",)),
        ([("ACD", 3)], ("`X[0][1]` must be a string", "got 3")),
        ([("ACD",)], ("`X[0]`", "two sequences")),
        (["AC"], ("`X[0]`", "two sequences, got 'AC'")),
        ([(SequenceTracks("ACD", "HH"), "AC")], ("`X[0][0].structure`", "3 letters, got 2 letters")),
        ([(SequenceTracks("ACD", None, "bbbb"), "AC")], ("`X[0][0].accessibility`", "got 4 letters")),
        ([(SequenceTracks("ACD", profile=np.ones((2, 20))), "AC")], ("`X[0][0].profile`", "got shape (2, 20)")),
        ([(SequenceTracks("ACD", profile=np.full((3, 20), np.nan)), "AC")], ("`X[0][0].profile`", "NaN")),
        ([(SequenceTracks("ACD", "HHH"), "AC")], ("`X[0][1].structure` must be a string", "got None")),
        ([], ("`X` must be at least one example",)),
    ],
)
def test_bad_sequences_are_named(X, words):
    Y = [[(0, 0)]] * len(X)
    task = Alignment()
    with pytest.raises(InputError) as error:
        learned(task, X, Y)
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([(0, 0), (1, 1), (2, 2)], ("`Y[0]`", "from 0 to 1 of sequence b, got 2")),
        ([(3, 0)], ("from 0 to 2 of sequence a, got 3",)),
        ([(-1, 0)], ("of sequence a, got -1",)),
        ([(1, 0), (0, 1)], ("got (0, 1) after (1, 0)", "increasing")),
        ([(0, 1), (1, 1)], ("got (1, 1) after (0, 1)",)),
        ([(0.5, 1.0)], ("float64",)),
        ([(0, 1, 2)], ("shape (1, 3)",)),
        ([(0, 1), (2,)], ("`Y[0]`", "rows of different lengths")),
        ([], ("`Y`", "at least one match")),
    ],
)
def test_bad_alignments_are_named(y, words):
    with pytest.raises(InputError) as error:
        learned(Alignment(), GOOD_X, [y])
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"features": "simpel"}, ("`features` must be 'simple', 'anova2'", "got 'simpel'")),
        ({"features": "anova2"}, ("`features`", "at most 1 tracks (letters)", "`derived`")),
        ({"features": "tensor"}, ("at most 1 tracks", "got 'tensor'")),
        ({"features": "profile"}, ("`features`", "without profiles")),
        ({"mode": "semi"}, ("`mode` must be 'local' or 'global'", "got 'semi'")),
        ({"tolerance": -1}, ("`tolerance` must be an integer", "got -1")),
        ({"tolerance": 1.5}, ("`tolerance` must be an integer", "got 1.5")),
        ({"tolerance": True}, ("`tolerance` must be an integer", "got True")),
        ({"tolerance": 10**20}, ("`tolerance` must be an integer", "from 0 to", "got 1000")),
        ({"alphabet": "AAC"}, ("`alphabet` must be a string of different letters", "got 'AAC'")),
        ({"alphabet": ""}, ("`alphabet` must be", "got ''")),
        ({"alphabet": 3}, ("`alphabet` must be", "got 3")),
    ],
)
def test_bad_parameters_are_named(parameters, words):
    with pytest.raises(InputError) as error:
        learned(Alignment(**parameters), GOOD_X, GOOD_Y)
    assert all(word in str(error.value) for word in words), error.value


def test_bad_matrices_latents_and_temperatures_are_named(monkeypatch):
    task, batch = learned(Alignment(partial=True), GOOD_X, GOOD_Y)
    size = len(AMINO_ACIDS)
    for matrix, costs, name, expected in (
        (("ACD", np.eye(3)), (1.0, 1.0), "alphabet", "letters 'ACD'"),
        ((AMINO_ACIDS, np.eye(3)), (1.0, 1.0), "matrix[1]", "shape (23, 23)"),
        ((AMINO_ACIDS, np.triu(np.ones((size, size)))), (1.0, 1.0), "matrix[1]", "symmetric"),
        ((AMINO_ACIDS, np.eye(size)), (np.inf, 1.0), "gap_open", "finite"),
        ((AMINO_ACIDS, np.eye(size)), (1.0, np.nan), "gap_extend", "finite"),
    ):
        with raises(name, expected=expected):
            task.fixed_weights(matrix, *costs)
    with raises("latents[0]", got="without (1, 1)", expected="all matches of `Y[0]`"):
        task.completion_planes(batch, [[(0, 0)]])
    w = np.zeros(task.n_features)
    with raises("temperature", expected="the same for outputs and latents"):
        task.planes(batch, w, "free", Temperature(1.0, 0.0))
    with raises("temperature", got="0.0", expected="above 0 for marginals"):
        task.marginals(batch, w, HARD)
    with raises("mode", got="'augmented'", expected="'free' for a batch without true outputs"):
        task.planes(task.prepare(GOOD_X), w, "augmented", HARD)
    monkeypatch.setattr(module, "MOST_CELLS", 5)
    with raises("X[0]", got="3 and 2 letters", expected="at most 5"):
        task.prepare(GOOD_X)


def test_letters_outside_ascii_and_arrays_of_pairs():
    X, Y = np.array([("a\u00df\u00e4", "A\u00df"), ("\u00e4A", "a")]), [[(0, 0), (1, 1)], [(1, 0)]]
    for alphabet in ("A\u00df\u00e4", "a\u00df\u00e4", None):
        task, batch = learned(Alignment(alphabet=alphabet), X, Y)
        assert task.features_.alphabets.letters == "A\u00df\u00e4"
        np.testing.assert_array_equal(batch.pairs.codes[0], [0, 1, 0])


def test_lower_case_and_named_inputs_are_the_same_sequences():
    _, batch = learned(Alignment(), [AlignmentInput("ACD", SequenceTracks("acD"))], [[(0, 0)]])
    np.testing.assert_array_equal(batch.pairs.codes[0], [0, 4, 3])
