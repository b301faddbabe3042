import _thread
from itertools import combinations
from threading import Timer

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from error_fields import raises
from latentstruct import StructuralSVM, load
from latentstruct.core.protocols import Temperature
from latentstruct.exceptions import InputError
from latentstruct.metrics.diversity import diversity_scores, expected_random_loss, subtopic_loss, subtopic_recall
from latentstruct.tasks import diversity
from latentstruct.tasks.diversity import CandidateDocuments, DiverseSubset
from latentstruct.testing import check_task

HARD = Temperature()
SHARES = (0.0, 0.3, 0.6)
LEVELS = (0.0, 1.0)


def word_features(matrix, shares=SHARES, levels=LEVELS):
    """Which documents cover each element, and its features, straight from the definition."""
    n, n_words = matrix.shape
    present = max(1, int((matrix > 0).any(axis=0).sum()))
    elements = []
    for b, level in enumerate(levels):
        for v in range(n_words):
            held = {j for j in range(n) if matrix[j, v] > level}
            phi = np.zeros(len(levels) * len(shares))
            for t, share in enumerate(shares):
                phi[b * len(shares) + t] = (len(held) / n >= share - 1e-12) / present
            elements.append((held, phi))
    return elements


def choice_feature(matrix, chosen, **settings):
    zero = np.zeros(len(settings.get("levels", LEVELS)) * len(settings.get("shares", SHARES)))
    return sum((phi for held, phi in word_features(matrix, **settings) if held & set(chosen)), zero)


@st.composite
def queries(draw, most_documents=6):
    n = draw(st.integers(2, most_documents))
    n_words = draw(st.integers(1, 6))
    matrix = np.array(
        draw(st.lists(st.lists(st.integers(0, 2), min_size=n_words, max_size=n_words), min_size=n, max_size=n)),
        dtype=float,
    )
    subtopics = draw(st.lists(st.sets(st.integers(0, 4), max_size=3), min_size=n, max_size=n))
    k = draw(st.integers(1, n))
    return matrix, subtopics, k


weights = st.lists(st.integers(-8, 8), min_size=6, max_size=6).map(lambda w: np.array(w, dtype=float))


@settings(max_examples=150, deadline=None)
@given(queries(), weights, st.sampled_from(["free", "augmented", "clamped"]))
def test_branch_and_bound_finds_what_enumeration_finds(query, w, mode):
    matrix, subtopics, k = query
    task = DiverseSubset(k, SHARES, LEVELS, exact=True)
    task._set()
    batch = task.prepare([matrix], [subtopics])
    planes = task.planes(batch, w, mode, HARD)
    assert planes.all_exact
    choices = list(combinations(range(len(matrix)), k))
    scores = [choice_feature(matrix, y) @ w for y in choices]
    losses = [subtopic_loss(subtopics, np.array(y)) for y in choices]
    if mode == "clamped":
        assert_allclose(subtopic_loss(subtopics, batch.truth[0]), min(losses), atol=1e-12)
        assert_allclose(planes.slopes().toarray()[0], choice_feature(matrix, batch.truth[0]), atol=1e-12)
        return
    expected = max(np.array(scores) + (np.array(losses) if mode == "augmented" else 0.0))
    assert_allclose(planes.values[0], expected, atol=1e-9)
    if mode == "free":
        (found,) = task.decode(batch, w, HARD)
        assert len(set(found.y.tolist())) == k
        assert_allclose(choice_feature(matrix, found.y) @ w, expected, atol=1e-9)


def plain_greedy(benefits, covers, k):
    """Greedy choice with every gain recomputed."""
    chosen, covered = [], set()
    for _ in range(k):
        gains = {j: sum(benefits[e] for e in held - covered) for j, held in enumerate(covers) if j not in chosen}
        best = max(gains, key=lambda j: (gains[j], -j))
        chosen.append(best)
        covered |= covers[best]
    return chosen


@settings(max_examples=150, deadline=None)
@given(queries(most_documents=9), st.lists(st.integers(-5, 5), min_size=9, max_size=9))
def test_gains_kept_up_to_date_choose_what_gains_computed_anew_choose(query, by_size):
    matrix, _, k = query
    # With eight words all gains are multiples of one eighth, so that rounding cannot decide.
    missing = 8 - int((matrix > 0).any(axis=0).sum())
    extra = np.zeros((len(matrix), missing))
    extra[np.arange(missing) % len(matrix), np.arange(missing)] = 1.0
    matrix = np.concatenate([matrix, extra], axis=1)
    by_size = np.array(by_size, dtype=float)
    benefits = by_size[(matrix > 0).sum(axis=0) - 1]
    covers = [set(np.flatnonzero(row).tolist()) for row in matrix]
    task = DiverseSubset(k, exact=False)
    (found,) = task.choose_by([matrix], lambda share: by_size[np.rint(share * len(matrix)).astype(int) - 1])
    assert found.tolist() == plain_greedy(benefits, covers, k)


@settings(max_examples=100, deadline=None)
@given(queries(), st.lists(st.integers(0, 8), min_size=6, max_size=6))
def test_greedy_choice_is_within_its_bound_if_no_word_does_harm(query, w):
    matrix, _, k = query
    w = np.array(w, dtype=float)
    greedy, best = DiverseSubset(k, SHARES, LEVELS, exact=False), DiverseSubset(k, SHARES, LEVELS, exact=True)
    values = []
    for task in (greedy, best):
        task._set()
        (found,) = task.decode(task.prepare([matrix]), w, HARD)
        values.append(found.score)
    assert values[0] <= values[1] + 1e-12
    assert values[0] >= (1 - 1 / np.e) * values[1] - 1e-12


@settings(max_examples=50, deadline=None)
@given(queries(), weights)
def test_greedy_training_is_never_below_the_truth(query, w):
    matrix, subtopics, k = query
    task = DiverseSubset(k, SHARES, LEVELS, exact=False)
    task._set()
    batch = task.prepare([matrix], [subtopics])
    assert batch.is_approximate(HARD)
    augmented, clamped = (task.planes(batch, w, mode, HARD) for mode in ("augmented", "clamped"))
    assert (augmented.all_exact, clamped.all_exact) == (False, True)
    own = subtopic_loss(subtopics, batch.truth[0])
    assert augmented.values[0] >= clamped.values[0] + own - 1e-12


def coverable(rng, n_queries=5, n=7, k=3):
    """Queries whose subtopics k documents can cover, each marked by a word that no other has."""
    X, Y = [], []
    for _ in range(n_queries):
        topics = rng.integers(0, k, n)
        topics[:k] = rng.permutation(k)
        noise = rng.integers(0, 2, (n, 5))
        X.append(np.concatenate([np.eye(k)[topics] * rng.integers(1, 4, (n, 1)), noise], axis=1))
        Y.append([[f"topic {topic}"] for topic in topics])
    return X, Y


@pytest.mark.parametrize("exact", ["auto", False])
def test_contract(exact):
    X, Y = coverable(np.random.default_rng(0))
    check_task(DiverseSubset(3, SHARES, LEVELS, exact=exact), X, Y)


def test_contract_with_documents_as_truth():
    rng = np.random.default_rng(1)
    X, _ = coverable(rng)
    check_task(DiverseSubset(3), X, [rng.permutation(7)[:3] for _ in X])


def test_all_forms_of_a_query_are_the_same():
    documents = [["robot", "space", "space"], ["robot", "arm"], ["space"], []]
    matrix = np.array([[1, 2, 0], [1, 0, 1], [0, 1, 0], [0, 0, 0]])
    task = DiverseSubset(2, SHARES, LEVELS, exact=True)
    task._set()
    forms = [
        documents,
        [dict.fromkeys(d, 0) | {w: d.count(w) for w in d} for d in documents],
        matrix,
        sparse.csr_array(matrix),
        sparse.coo_array(matrix),
    ]
    w = np.arange(6.0)
    for form in forms:
        (found,) = task.decode(task.prepare([form]), w, HARD)
        assert_allclose(found.score, choice_feature(matrix, found.y) @ w)
        assert set(found.y.tolist()) == {0, 1}


def test_subtopics_as_lists_sets_and_matrices():
    rng = np.random.default_rng(0)
    marks = rng.integers(0, 2, (6, 4))
    lists = [np.flatnonzero(row).tolist() for row in marks]
    for form in (marks, marks.astype(bool), sparse.csr_array(marks), lists, [set(one) for one in lists]):
        assert subtopic_loss(form, np.array([0, 3])) == subtopic_loss(lists, [0, 3])


def test_titles_have_weights_of_their_own():
    words, titles = [["a"], ["b"], ["c"]], [["x"], [], ["y", "z"]]
    task = DiverseSubset(1, (0.0,), titles=True)
    task._set()
    assert task.n_features == 2
    batch = task.prepare([CandidateDocuments(words, titles)])
    (found,) = task.decode(batch, np.array([0.0, 1.0]), HARD)
    assert (found.y.tolist(), found.score) == ([2], pytest.approx(2 / 3))
    (found,) = task.decode(batch, np.array([0.0, -1.0]), HARD)
    assert (found.y.tolist(), found.score) == ([1], 0.0)
    assert task.feature_names() == [
        "words in at least 0 % of the documents",
        "title words in at least 0 % of the documents",
    ]
    plain = DiverseSubset(1, (0.0,))
    plain._set()
    assert plain.decode(plain.prepare([CandidateDocuments(words, titles)]), np.ones(1), HARD)[0].y.tolist() == [0]


def noisy_topics(seed, n_queries, n=12, n_topics=4):
    """Queries where words that many documents hold tell subtopics, and rare words are noise."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n_queries):
        topics = rng.choice(n_topics, n, p=[0.4, 0.3, 0.2, 0.1])
        documents = []
        for j, topic in enumerate(topics):
            reported = [("topic", topic, word) for word in range(3)]
            documents.append(reported + [("noise", j, word) for word in range(rng.integers(0, 20))])
        X.append(documents)
        Y.append([[topic] for topic in topics.tolist()])
    return X, Y


def test_learning_beats_counting_words():
    X, Y = noisy_topics(0, 40)
    test_X, test_Y = noisy_topics(1, 40)
    model = StructuralSVM(DiverseSubset(3), C=100.0).fit(X, Y)
    assert model.certified_
    found = model.predict(test_X)
    ours = diversity_scores(test_Y, found)
    unweighted = diversity_scores(test_Y, model.task_.choose_by(test_X, np.ones_like))
    best = model.task_.loss(test_Y, test_Y)
    assert (model.task_.loss(test_Y, found) >= best - 1e-12).all()
    assert ours.loss - best.mean() < 0.5 * (unweighted.loss - best.mean())
    assert ours.loss < ours.random_loss
    assert model.score(test_X, test_Y) == pytest.approx(1 - ours.loss)


def test_greedy_training_reaches_about_the_same():
    X, Y = noisy_topics(0, 40)
    exact = StructuralSVM(DiverseSubset(3, exact=True), C=1.0).fit(X, Y)
    greedy = StructuralSVM(DiverseSubset(3, exact=False), C=1.0).fit(X, Y)
    assert exact.certified_
    assert not greedy.certified_
    assert greedy.objective_ == pytest.approx(exact.objective_, rel=0.1)


def test_a_search_that_gives_up_says_so(monkeypatch):
    X, Y = noisy_topics(0, 5)
    w = np.random.default_rng(0).normal(size=len(diversity.SHARES))
    found = {}
    for most in (1, 1000):
        monkeypatch.setitem(diversity.SEARCHED, "auto", most)
        task = DiverseSubset(3)
        task.learn(X, Y)
        found[most] = task.planes(task.prepare(X, Y), w, "augmented", HARD)
    assert (found[1].all_exact, found[1000].all_exact) == (False, True)
    assert (found[1].values <= found[1000].values + 1e-12).all()


@pytest.mark.parametrize("mode", ["free", "augmented"])
def test_a_search_in_portions_goes_on_where_it_was_left(mode, monkeypatch):
    X, Y = noisy_topics(1, 8)
    task = DiverseSubset(4, exact=True)
    task.learn(X, Y)
    batch, w = task.prepare(X, Y), np.random.default_rng(1).normal(size=len(diversity.SHARES))
    whole = task.planes(batch, w, mode, HARD)
    for portion in (1, 2):
        monkeypatch.setattr(diversity, "PORTION", portion)
        parts = task.planes(batch, w, mode, HARD)
        assert parts.all_exact
        assert_allclose(parts.values, whole.values, rtol=1e-12)


def test_ctrl_c_ends_a_search():
    # To prove a best choice of this many documents takes years.
    x = np.random.default_rng(0).integers(0, 2, (200, 400)).astype(float)
    task = DiverseSubset(40, exact=True)
    task._set()
    batch = task.prepare([x])
    w = np.random.default_rng(1).normal(size=task.n_features)
    Timer(0.05, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        task.planes(batch, w, "free", HARD)


def test_matrices_that_store_zeros_and_repeat_entries():
    rows, columns = [0, 1, 1, 2], [0, 0, 0, 1]
    Y = sparse.coo_array(([0.0, 1.0, 1.0, 1.0], (rows, columns)), shape=(3, 2))
    assert subtopic_loss(Y, [0]) == 1.0
    assert subtopic_loss(Y, [1]) == 0.5
    task = DiverseSubset(1, shares=SHARES)
    task.learn([Y], [[[1], [1], [2]]])
    w = np.arange(1.0, 1 + task.n_features)
    kept, plain = (task.planes(task.prepare([x]), w, "free", HARD).values for x in (Y, Y.toarray()))
    assert_allclose(kept, plain)


def test_models_are_saved(tmp_path):
    X, Y = noisy_topics(0, 10)
    model = StructuralSVM(DiverseSubset(3, levels=(0.0, 1.0)), C=10.0).fit(X, Y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.task_.get_params() == model.task_.get_params()
    assert all(np.array_equal(a, b) for a, b in zip(again.predict(X), model.predict(X), strict=True))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.integers(0, 4), max_size=3), min_size=1, max_size=6), st.data())
def test_expected_random_loss_is_the_mean_over_all_choices(subtopics, data):
    k = data.draw(st.integers(1, len(subtopics)))
    losses = [subtopic_loss(subtopics, y) for y in combinations(range(len(subtopics)), k)]
    assert expected_random_loss(subtopics, k) == pytest.approx(np.mean(losses))
    assert expected_random_loss(subtopics, len(subtopics) + 3) == 0.0


def test_weights_of_subtopics():
    subtopics = [["a"], ["a", "b"], ["a"], []]
    assert subtopic_loss(subtopics, [0]) == pytest.approx(1 / 4)
    assert subtopic_recall(subtopics, [0]) == pytest.approx(1 / 2)
    assert subtopic_loss(subtopics, [3]) == 1.0
    assert subtopic_loss([[], []], [1]) == 0.0
    assert diversity_scores([[[], []]], [[1]]).n_without_subtopics == 1


WORDS = [["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    ("task", "X", "Y", "message"),
    [
        (DiverseSubset(4), [WORDS], [[[1], [2], [3]]], "`X[0]` must be at least `k`=4 documents, got 3 documents"),
        (DiverseSubset(0), [WORDS], [[[1], [2], [3]]], "`k` must be an integer of at least 1, got 0"),
        (DiverseSubset(True), [WORDS], [[[1], [2], [3]]], "`k` must be an integer of at least 1, got True"),
        (DiverseSubset(1, exact="yes"), [WORDS], [[[1], [2], [3]]], "`exact` must be 'auto', True or False"),
        (DiverseSubset(1, (0.3, 0.1)), [WORDS], [[[1], [2], [3]]], "`shares` must be ascending finite numbers"),
        (DiverseSubset(1, (0.3, 1.1)), [WORDS], [[[1], [2], [3]]], "`shares` must be ascending finite numbers"),
        (DiverseSubset(1, levels=()), [WORDS], [[[1], [2], [3]]], "`levels` must be ascending finite numbers"),
        (DiverseSubset(1, levels="ab"), [WORDS], [[[1], [2], [3]]], "`levels` must be real numbers"),
        (DiverseSubset(1), [WORDS], [[[], [], []]], "`Y` must be at least one document with a subtopic"),
        (DiverseSubset(1), [WORDS], [[[1], [2]]], "`Y[0]` must be the subtopics of 3 documents"),
        (DiverseSubset(1), [WORDS], [["ab", "c", "d"]], "`Y[0][0]` must be a list of subtopics"),
        (DiverseSubset(1), [WORDS], [[[[1]], [2], [3]]], "`Y[0][0]` must be hashable subtopics"),
        (DiverseSubset(1), [WORDS], [7], "`Y[0]` must be a list with a collection of subtopics"),
        (DiverseSubset(1), [WORDS], [np.array([0, 3])], "`Y[0]` must be indices of documents from 0 to 2"),
        (DiverseSubset(1), [WORDS], [np.array([1, 1])], "indices of different documents"),
        (DiverseSubset(1), [["a b", "c"]], [[[1], [2]]], "`X[0][0]` must be words or counts"),
        (DiverseSubset(1), ["a b"], [[[1], [2]]], "`X[0]` must be a matrix or a list with the words of each"),
        (DiverseSubset(1), [[[["a"]], ["b"]]], [[[1], [2]]], "`X[0][0]` must be hashable words or numeric counts"),
        (DiverseSubset(1), [-np.eye(2)], [[[1], [2]]], "`X[0]` must be counts of at least 0, got -1.0"),
        (DiverseSubset(1), [np.full((2, 2), np.nan)], [[[1], [2]]], "`X[0]` must be finite"),
        (DiverseSubset(1), [[{"a": np.inf}, ["b"]]], [[[1], [2]]], "`X[0]` must be finite counts, got NaN or infinity"),
        (DiverseSubset(1, titles=True), [WORDS], [[[1], [2], [3]]], "`X[0]` must be CandidateDocuments(words, titles)"),
        (
            DiverseSubset(1, titles=True),
            [CandidateDocuments(WORDS, WORDS[:2])],
            [[[1], [2], [3]]],
            "`X[0].titles` must be 3 titles, one per document, got 2 titles",
        ),
        (DiverseSubset(1), [WORDS, WORDS], [[[1], [2], [3]]], "`Y` must be a sequence of 2 outputs, got 1 outputs"),
    ],
)
def test_bad_input(task, X, Y, message):
    with pytest.raises(InputError) as error:
        StructuralSVM(task).fit(X, Y)
    assert message in str(error.value)


def test_soft_max_is_refused():
    task = DiverseSubset(1)
    task._set()
    with raises("temperature", expected="(0, 0) for DiverseSubset, which supports hard maxima only"):
        task.planes(task.prepare([WORDS]), np.zeros(task.n_features), "free", Temperature(1.0))


def test_bad_choices():
    with raises("chosen", got="[0, 0]", expected="indices of different documents"):
        subtopic_loss([["a"], ["b"]], [0, 0])
    with raises("chosen", got="2", expected="indices of documents from 0 to 1"):
        subtopic_loss([["a"], ["b"]], [2])
    with raises("chosen", got="[0.5]", expected="the indices of the chosen documents"):
        subtopic_loss([["a"], ["b"]], [0.5])
    with raises("choices", got="1 choices"):
        diversity_scores([[["a"]], [["b"]]], [[0]])
