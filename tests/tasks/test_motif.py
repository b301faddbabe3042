"""Motifs: the task against enumeration, first guesses, sites, matrices, planted motifs and the yeast data."""

import gzip
import os
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_tasks import TEMPERATURES, close, compare, compare_renyi

import reference
from error_fields import raises
from latentstruct import LatentSSVM, MinEntropySSVM, Motif
from latentstruct.core.protocols import Temperature
from latentstruct.data.alphabets import ALPHABETS, DNA, PROTEIN
from latentstruct.datasets import make_planted_motif
from latentstruct.io import Sequences
from latentstruct.tasks.motif.sites import consensus, find_sites, reverse_complement, site_matrix, weight_matrix
from latentstruct.testing import check_task
from latentstruct.viz.plots import plot_logo
from latentstruct_papers.datasets import load_uci_promoters, load_yeast_ars

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")


# ---- the twin --------------------------------------------------------------------------------------------


def number_of(word, letters="ACGT"):
    return sum(letters.index(letter) * len(letters) ** power for power, letter in enumerate(word[::-1]))


def background_counts(x, order, alphabet, positions):
    counts = np.zeros(alphabet.size ** (order + 1))
    for i in positions:
        word = x[i - order : i + 1] if i >= order else ""
        if word and alphabet.unknown not in word:
            counts[number_of(word, alphabet.letters)] += 1
    return counts


def count_words(x, task, alphabet):
    """The words of a sequence by their letters and dots, of Euclidean norm 4; a word is named by the smaller column."""
    n_words = alphabet.size**task.kmers
    patterns = [(0, *rest) for rest in combinations(range(1, task.kmers + task.gaps), task.kmers - 1)]
    counts = np.zeros(len(patterns) * n_words)
    for number, pattern in enumerate(patterns):
        for start in range(len(x) - pattern[-1]):
            word = [x[start + place] for place in pattern]
            if alphabet.unknown in word:
                continue
            columns = [number * n_words + number_of(word, alphabet.letters)]
            if task.strands == 2:
                mirror = patterns.index(tuple(pattern[-1] - place for place in pattern[::-1]))
                columns.append(mirror * n_words + number_of(reverse_complement("".join(word))))
            counts[min(columns)] += 1
    return 4.0 * task.kmer_weight * counts / max(np.linalg.norm(counts), 1e-300)


def list_windows(task, X, Y):
    """All (label, window) of each sequence; features as in the paper, less those of the background everywhere."""
    alphabet, listed = ALPHABETS[task.alphabet], []
    for x, plain in zip(X, list_plain_windows(task, X, Y), strict=True):
        added = count_words(x.upper(), task, alphabet) if task.kmers else np.zeros(0)
        features = np.hstack([plain.features, np.outer(plain.outputs == 1, added)])
        listed.append(replace(plain, features=features))
    return listed


def list_plain_windows(task, X, Y):
    width, alphabet = task.width, ALPHABETS[task.alphabet]
    order = alphabet.order if task.background_order is None else task.background_order
    size, n_features = alphabet.size, alphabet.size * width + alphabet.size ** (order + 1)
    listed = []
    for x, y in zip([x.upper() for x in X], Y, strict=True):
        items, features = [(-1, None)], [np.zeros(n_features)]
        for strand in (1, -1)[: task.strands]:
            for start in range(len(x) - width + 1):
                window = x[start : start + width]
                if alphabet.unknown in window:
                    continue
                window = window if strand > 0 else reverse_complement(window)
                phi = np.zeros(n_features)
                for j, letter in enumerate(window):
                    phi[size * j + alphabet.letters.index(letter)] = 1.0
                outside = [i for i in range(len(x)) if not start <= i < start + width]
                everywhere = background_counts(x, order, alphabet, range(len(x)))
                phi[size * width :] = background_counts(x, order, alphabet, outside) - everywhere
                items.append((1, (start, strand)))
                features.append(phi)
        outputs = np.array([label for label, _ in items])
        listed.append(reference.Listed(np.array(features), 1.0 * (outputs != y), outputs, y, items))
    return listed


@st.composite
def problems(draw):
    """A task, sequences that have at least one window, labels of both kinds, and weights."""
    alphabet = draw(st.sampled_from([DNA, DNA, PROTEIN]))
    width, order = draw(st.integers(1, 6)), draw(st.one_of(st.none(), st.integers(0, min(2, 20 // alphabet.size))))
    task = Motif(width, order, draw(st.integers(1, alphabet.strands)), alphabet=alphabet.name)
    # Few of the letters, so that words occur again.
    letters = "".join(draw(st.lists(st.sampled_from(alphabet.letters), min_size=4, max_size=4)))
    free = st.text(letters + letters.lower() + alphabet.unknown, max_size=9)
    core = st.text(letters + letters.lower(), min_size=width, max_size=width + 3)
    X = draw(st.lists(st.tuples(free, core, free).map("".join), min_size=2, max_size=4))
    Y = [1, -1] + [draw(st.sampled_from([1, -1])) for _ in X[2:]]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    task.learn(X, Y)
    w = draw(st.sampled_from([0.1, 1.0, 30.0])) * rng.normal(size=task.n_features)
    return task, X, Y, w, rng


def prepared(width, order, strands, X, Y):
    task = Motif(width, order, strands)
    task.learn(X, Y)
    return task, task.prepare(X, Y)


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(TEMPERATURES), st.sampled_from(TEMPERATURES))
def test_motif_is_the_enumeration(problem, output, latent):
    task, X, Y, w, rng = problem
    batch, listed = task.prepare(X, Y), list_windows(task, X, Y)
    temperature = Temperature(output, latent)
    compare(task, batch, listed, w, temperature)
    compare(task, batch, listed, w, temperature, rows=rng.permutation(len(X))[:2])


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(TEMPERATURES), st.sampled_from(TEMPERATURES), st.integers(1, 3), st.integers(0, 2))
def test_words_beside_the_motif_are_the_enumeration(problem, output, latent, kmers, gaps):
    task, X, Y, w, rng = problem
    assume(task.alphabet == "dna" or kmers < 3)
    task.set_params(kmers=kmers, gaps=gaps, kmer_weight=rng.choice([0.25, 1.0, 4.0]))
    task.learn(X, Y)
    batch, listed = task.prepare(X, Y), list_windows(task, X, Y)
    w = np.concatenate([w, rng.normal(size=task.n_features - len(w))])
    compare(task, batch, listed, w, Temperature(output, latent))
    compare(task, batch, listed, w, Temperature(output, latent), rows=rng.permutation(len(X))[:2])
    compare_renyi(task, batch, listed, w, 2.0, output)
    found = task.scores(task.prepare(X), w)
    by_window = task.window_scores(batch, w)
    predicted = task.decode(batch, w, Temperature(0.0, 0.0))
    for i, one in enumerate(listed):
        best = (one.features @ w)[1:].max()
        close(found[i], best)
        close(by_window[i].max(), best)
        assert predicted[i].y == (1 if best > 0 else -1)


def test_names_of_words():
    words = Motif(3, 0, 2, kmers=2, gaps=1)
    words.learn(["ACGTTT", "CCCCC"], [1, -1])
    assert words.n_features == 12 + 4 + 2 * 16
    names = [words.words_.name(k) for k in range(32)]
    assert names[:3] == ["AA", "AC", "AG"]
    assert names[16 + number_of("CT")] == "C.T"
    _, places, values = words.prepare(["ACGNT"]).rows
    # The other strand has GT for AC, C.T for A.G, and A.C for G.T, which skips an N.
    assert {names[place] for place in places} == {"AC", "CG", "A.G", "A.C"}
    close(np.linalg.norm(values), 4.0)


def test_words_distinguish_what_one_motif_cannot():
    rng = np.random.default_rng(0)
    probabilities = np.array([0.24, 0.26, 0.26, 0.24])
    X = ["".join(rng.choice(list("ACGT"), 60, p=p)) for p in [probabilities, 0.5 - probabilities] for _ in range(40)]
    for i in range(40):
        for word in ("ACGT", "CATG", "TGCA"):
            at = int(rng.integers(0, 57))
            X[i] = X[i][:at] + word + X[i][at + 4 :]
    Y = np.repeat([1, -1], 40)
    scores = [LatentSSVM(Motif(6, 0, 2, kmers), C=0.1).fit(X[::2], Y[::2]).score(X[1::2], Y[1::2]) for kmers in (0, 4)]
    assert scores[1] >= scores[0]


@settings(max_examples=40, deadline=None)
@given(problems(), st.sampled_from(TEMPERATURES))
def test_predictions_and_scores_are_the_enumerations(problem, latent):
    task, X, Y, w, _ = problem
    batch = task.prepare(X, Y)
    unlabeled = task.prepare(X)
    assert batch.labeled
    assert not unlabeled.labeled
    found = task.decode(unlabeled, w, Temperature(0.0, latent))
    by_window, discriminants = task.window_scores(unlabeled, w), task.scores(unlabeled, w)
    for i, listed in enumerate(list_windows(task, X, Y)):
        scores = listed.features @ w
        close(found[i].score, reference.pool(listed, w, "free", 0.0, latent).value)
        close(discriminants[i], scores[1:].max())
        if found[i].y == 1:
            close(scores[listed.items.index((1, found[i].h))], scores[1:].max())
        else:
            assert (found[i].y, found[i].h) == (-1, None)
        known = {item[1]: score for item, score in zip(listed.items[1:], scores[1:], strict=True)}
        assert by_window[i].shape == (task.strands, len(X[i]) - task.width + 1)
        for (line, start), score in np.ndenumerate(by_window[i]):
            close(score, known.get((start, (1, -1)[line]), -np.inf))
    collected = task.collect([p.y for p in found])
    close(task.loss(Y, collected), np.array(Y) != collected)
    close(task.score(Y, collected), np.mean(np.array(Y) == collected))


ORDERS = st.sampled_from([0.5, 1.0, 2.0, 10.0])


@settings(max_examples=40, deadline=None)
@given(problems(), ORDERS, st.sampled_from(TEMPERATURES))
def test_windows_pooled_by_renyi_entropy_are_the_enumeration(problem, order, output):
    task, X, Y, w, rng = problem
    batch, listed = task.prepare(X, Y), list_windows(task, X, Y)
    # Scores of up to some hundreds cancel in the difference of two logarithms.
    w = w / max(1.0, np.abs(w).max())
    compare_renyi(task, batch, listed, w, order, output)
    compare_renyi(task, batch, listed, w, order, output, rows=rng.permutation(len(X))[:2])


@settings(max_examples=40, deadline=None)
@given(problems(), ORDERS)
def test_predictions_by_renyi_entropy_are_the_enumerations(problem, order):
    task, X, Y, w, _ = problem
    batch, w = task.prepare(X), w / max(1.0, np.abs(w).max())
    pooled, predictions = task.renyi_scores(batch, w, order), task.renyi_decode(batch, w, order)
    for example, score, found in zip(list_windows(task, X, Y), pooled, predictions, strict=True):
        positive = replace(example, true_output=1)
        close(score, reference.renyi(positive, w, "clamped", order)[0])
        close(found.score, reference.renyi(example, w, "free", order)[0])
        assert (found.y, found.h is None) == ((1, False) if score > 0 else (-1, True))
        if found.y == 1:
            scores = example.features @ w
            close(scores[example.items.index((1, found.h))], scores[1:].max())


def test_training_by_renyi_entropy_finds_a_planted_motif():
    data = make_planted_motif(30, 30, length=40, width=8, mutation=0.0)
    model = MinEntropySSVM(Motif(8, background_order=0), C=0.1, alpha=2.0).fit(data.X, data.Y)
    assert not model.certified_
    assert model.score(data.X, data.Y) > 0.8
    assert ((model.decision_function(data.X) > 0) == (model.predict(data.X) == 1)).all()


@settings(max_examples=40, deadline=None)
@given(problems())
def test_completions_are_the_best_windows(problem):
    task, X, Y, w, rng = problem
    batch, listed = task.prepare(X, Y), list_windows(task, X, Y)
    clamped = task.planes(batch, w, "clamped", Temperature())
    best = task.completion_planes(batch, task.complete(batch, w))
    assert best.rows is clamped.rows
    close(best.slopes().toarray(), clamped.slopes().toarray())
    random, first = task.random_latents(batch, rng), task.initial_latents(batch, rng, 0)
    for latents in (random, first, task.initial_latents(batch, rng, 20)):
        planes = task.completion_planes(batch, latents)
        assert not planes.offsets.any()
        assert not planes.values.any()
        for i, (latent, y) in enumerate(zip(latents, Y, strict=True)):
            close(planes.slopes().toarray()[i], listed[i].features[listed[i].items.index((y, latent))])


def test_random_windows_are_uniform():
    X, Y = ["ACNNACGTNAC", "AAAA"], [1, -1]
    task, batch = prepared(2, 0, 2, X, Y)
    rng = np.random.default_rng(0)
    drawn = [task.random_latents(batch, rng)[0] for _ in range(5000)]
    windows = [(start, strand) for start in (0, 4, 5, 6, 9) for strand in (1, -1)]
    assert set(drawn) == set(windows)
    counts = np.array([drawn.count(window) for window in windows])
    # Five standard deviations of a count of 5000 draws with probability 1/10.
    assert np.abs(counts - 500).max() < 5 * np.sqrt(450)


@pytest.mark.parametrize("strands", [1, 2])
@pytest.mark.parametrize(("width", "order"), [(1, 0), (4, 1), (5, 2), (9, 3)])
def test_motif_keeps_the_contract(width, order, strands):
    rng = np.random.default_rng(width)
    lengths = (9, 12, 20, 30)
    X = ["".join(rng.choice(list("ACGT"), size=length)) + "N" + "ACGT" * 4 for length in lengths]
    check_task(Motif(width, order, strands), X, [1, -1, 1, -1])
    check_task(Motif(width, order, strands, kmers=2, gaps=1), X, [1, -1, 1, -1])


@pytest.mark.parametrize(("width", "order", "kmers"), [(1, None, 0), (4, 1, 1), (9, 2, 0)])
def test_motif_of_proteins_keeps_the_contract(width, order, kmers):
    rng = np.random.default_rng(width)
    X = ["".join(rng.choice(list(PROTEIN.letters), size=length)) + "XMKWYVLL" for length in (9, 12, 20, 30)]
    check_task(Motif(width, order, kmers=kmers, alphabet="protein"), X, [1, -1, 1, -1])


def test_order_three_of_long_sequences_matches_single_windows():
    """Running sums over a long sequence give the scores that windows have on their own."""
    rng = np.random.default_rng(1)
    x = "".join(rng.choice(list("ACGT"), size=20000))
    task, batch = prepared(17, 3, 2, [x, "A" * 40], [1, -1])
    w = rng.normal(size=task.n_features)
    scores = task.window_scores(batch, w)[0]
    for start in rng.integers(3, 19000, size=20):
        # Three letters before the window give its first background words.
        alone = task.window_scores(task.prepare([x[start - 3 : start + 17]]), w)[0]
        close(scores[:, start], alone[:, 3])


def test_state_is_restored():
    task, _ = prepared(3, 1, 1, ["ACGT", "AAAA"], [1, -1])
    other = Motif(3, 1)
    other.restore(task.state())
    assert other.n_features == task.n_features == 12 + 16
    with raises("state", expected="a state with 32 features, as given by `width` and `background_order`"):
        Motif(4, 1).restore(task.state())


# ---- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "parameter", "got", "expected"),
    [
        ({"width": 0}, "width", "0", "an integer from 1 to 1000"),
        ({"width": 2.0}, "width", "2.0", "an integer from 1 to 1000"),
        ({"width": True}, "width", "True", "an integer from 1 to 1000"),
        ({"width": 3, "background_order": 6}, "background_order", "6", "an integer from 0 to 5 or None"),
        ({"width": 3, "strands": 3}, "strands", "3", "an integer from 1 to 2"),
        ({"width": 3, "strands": 2, "alphabet": "protein"}, "strands", "2", "at most 1 with `alphabet` protein"),
        (
            {"width": 3, "background_order": 3, "alphabet": "protein"},
            "background_order",
            "3",
            "at most 2 with `alphabet` protein",
        ),
        ({"width": 3, "alphabet": "DNA"}, "alphabet", "'DNA'", "'dna' or 'protein'"),
    ],
)
def test_bad_parameters(parameters, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        Motif(**parameters).learn(["ACGT", "ACGT"], [1, -1])


@pytest.mark.parametrize(
    ("X", "Y", "parameter", "got", "expected"),
    [
        (["ACGT", "ACXT"], [1, -1], "X[1]", "", "a string of the letters ACGTN"),
        (["ACGT", "ACG€"], [1, -1], "X[1]", "", "a string of the letters ACGTN"),
        (["ACGU", "ACGT"], [1, -1], "X[0]", "", "a string of the letters ACGTN"),
        (["ACGT", b"ACGT"], [1, -1], "X[1]", "b'ACGT'", "a string of the letters ACGTN"),
        ("ACGT", [1, -1, 1, -1], "X", "'ACGT'", "a list of strings"),
        (["ACGT", "AC"], [1, -1], "X[1]", "", "a sequence with at least 3 letters in a row"),
        (["ACGT", "ACNNACNG"], [1, -1], "X[1]", "", "a sequence with at least 3 letters in a row"),
        (["", "ACGT"], [1, -1], "X[0]", "", "a sequence with at least 3 letters in a row"),
        (["ACGT", "ACGT"], [1, 2], "Y[1]", "", "a label: 1 or -1, 1 or 0, or True or False"),
        (["ACGT", "ACGT", "ACGT"], [1, 0, -1], "Y", "", "labels where negative ones are either 0 or"),
        (["ACGT", "ACGT"], [1, "-"], "Y[1]", "", "a label: 1 or -1, 1 or 0, or True or False"),
        (["ACGT", "ACGT"], [1, 1], "Y", "", "positive and negative"),
        (["ACGT", "ACGT"], [False, False], "Y", "", "positive and negative"),
        ([], [], "X", "none", "at least one example"),
        (["ACGT"], [1, -1], "Y", "2 outputs", "a sequence of 1 outputs"),
    ],
)
def test_bad_examples(X, Y, parameter, got, expected):
    task = Motif(3, 0)
    with raises(parameter, got=got, expected=expected):
        prepared(task.width, 0, 1, X, Y)


@pytest.mark.parametrize(
    ("strands", "latents", "parameter", "got", "expected"),
    [
        (1, [(0, 1)], "latents", "1 latents", "a sequence of 2 latents"),
        (1, [None, None], "latents[0]", "", "two integers (start, strand) with strand 1"),
        (1, [(0, 1), (0, 1)], "latents[1]", "(0, 1)", "None for a negative sequence"),
        (1, [(0, -1), None], "latents[0]", "", "two integers (start, strand) with strand 1"),
        (2, [(0, 0), None], "latents[0]", "", "two integers (start, strand) with strand 1"),
        (2, [(0.5, 1), None], "latents[0]", "", "two integers (start, strand) with strand 1"),
        (2, [7, None], "latents[0]", "", "two integers (start, strand) with strand 1"),
        (2, [(float("nan"), 1), None], "latents[0]", "", "two integers (start, strand) with strand 1"),
        (2, [(-1, 1), None], "latents[0]", "", "a window without N that starts at a position"),
        (2, [(6, 1), None], "latents[0]", "", "a window without N that starts at a position"),
        (2, [(2, 1), None], "latents[0]", "", "a window without N that starts at a position"),
    ],
)
def test_bad_latents(strands, latents, parameter, got, expected):
    task, batch = prepared(3, 0, strands, ["ACGNACGT", "ACGT"], [1, -1])
    with raises(parameter, got=got, expected=expected):
        task.completion_planes(batch, latents)


def test_sequences_without_any_positive_one_have_nothing_to_begin_with():
    task, _ = prepared(3, 0, 2, ["ACGT", "ACGT"], [1, -1])
    batch = task.prepare(["ACGT", "CCCC"], [-1, -1])
    for attempt in (0, 5):
        assert task.initial_latents(batch, np.random.default_rng(0), attempt) == [None, None]


def test_what_needs_labels_says_so():
    task, _ = prepared(3, 0, 1, ["ACGT", "ACGT"], [1, -1])
    batch = task.prepare(["ACGT"])
    for ask in (
        lambda: task.complete(batch, np.zeros(task.n_features)),
        lambda: task.random_latents(batch, np.random.default_rng(0)),
        lambda: task.planes(batch, np.zeros(task.n_features), "clamped", Temperature()),
        lambda: task.total(batch, np.zeros(task.n_features), "augmented", Temperature(1.0, 1.0), np.ones(1)),
    ):
        with raises("mode", hint="Prepare the batch with `Y`"):
            ask()
    with raises("Y_pred", got="1 labels", expected="a sequence of 2 labels"):
        task.loss([1, -1], [1])


# ---- planted motifs --------------------------------------------------------------------------------------


def share_found(latents, planted):
    """The largest share of sites that one common shift puts in place, mirrored solutions included."""
    pairs = [(h, site) for h, site in zip(latents, planted.sites, strict=True) if site is not None]
    for mirror in (1, -1):
        shifts = [(h[0] - site[0]) * site[1] for h, site in pairs if h[1] * site[1] == mirror]
        yield 0.0 if not shifts else np.unique(shifts, return_counts=True)[1].max() / len(pairs)


def ceiling(planted, width, strands=1):
    """The share of sites that a scan with the true consensus finds."""
    task, batch = prepared(width, 0, strands, planted.X, planted.Y)
    w = np.zeros(task.n_features)
    w[4 * np.arange(width) + [DNA.letters.index(a) for a in planted.consensus]] = 1.0
    return np.mean([h == site for h, site in zip(task.complete(batch, w), planted.sites, strict=True) if site])


def test_planted_sites_hold_the_mutated_consensus():
    planted = make_planted_motif(300, 50, 40, 9, 0.2, strands=2, random_state=3)
    assert planted.Y.tolist() == [1] * 300 + [-1] * 50
    assert {len(x) for x in planted.X} == {40}
    sites = [
        x[h[0] : h[0] + 9] if h[1] > 0 else reverse_complement(x[h[0] : h[0] + 9])
        for x, h in zip(planted.X, planted.sites, strict=True)
        if h is not None
    ]
    assert len(sites) == 300
    kept = np.mean([a == b for site in sites for a, b in zip(site, planted.consensus, strict=True)])
    # Five standard deviations of the share of 2700 letters kept with probability 0.8.
    assert abs(kept - 0.8) < 5 * 0.4 / np.sqrt(2700)
    assert {h[1] for h in planted.sites if h} == {1, -1}
    again = make_planted_motif(300, 50, 40, 9, 0.2, strands=2, random_state=3)
    assert (again.X, again.sites, again.consensus) == (planted.X, planted.sites, planted.consensus)


@pytest.mark.parametrize(
    ("parameters", "parameter", "got", "expected"),
    [
        ({"n_positive": 0}, "n_positive", "0", "at least 1"),
        ({"length": 5, "width": 6}, "length", "5", "at least 6, the width"),
        ({"mutation": 1.5}, "mutation", "1.5", "a probability"),
        ({"strands": 0}, "strands", "0", "1 or 2"),
    ],
)
def test_planted_motif_refuses(parameters, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        make_planted_motif(**parameters)


@pytest.mark.parametrize("strands", [1, 2])
def test_enriched_words_beat_random_starts(strands):
    planted = make_planted_motif(80, 80, 120, 12, 0.15, strands=strands, random_state=1)
    task, batch = prepared(12, 2, strands, planted.X, planted.Y)
    rng = np.random.default_rng(0)
    found = max(share_found(task.initial_latents(batch, rng, 0), planted))
    random = max(share_found(task.random_latents(batch, rng), planted))
    assert found >= 0.9 * ceiling(planted, 12, strands)
    assert random < 0.2
    assert task.initial_latents(batch, rng, 0) == task.initial_latents(task.prepare(planted.X, planted.Y), rng, 0)


@pytest.mark.parametrize(("width", "least"), [(17, 0.88), (11, 0.60)])
def test_training_finds_planted_motifs(width, least):
    """200 sequences of 500 letters, a letter in five mutated; the ceiling is about 0.95 and 0.78."""
    shares, ceilings = [], []
    for seed in range(4):
        planted = make_planted_motif(width=width, random_state=100 + seed)
        model = LatentSSVM(Motif(width), C=0.02).fit(planted.X, planted.Y)
        shares.append(max(share_found(model.complete(planted.X, planted.Y), planted)))
        ceilings.append(ceiling(planted, width))
    assert np.mean(shares) >= least, f"found {shares}, the true consensus {ceilings}"
    assert np.mean(ceilings) >= least


def test_later_starts_are_the_motif_in_other_phases():
    planted = make_planted_motif(60, 60, 80, 12, 0.1, random_state=2)
    task, batch = prepared(12, 1, 1, planted.X, planted.Y)
    first = task.initial_latents(batch, np.random.default_rng(0), 0)
    n_motifs = len(batch.starts)
    moved = task.initial_latents(batch, np.random.default_rng(0), n_motifs)
    shifts = {b[0] - a[0] for a, b in zip(first, moved, strict=True) if a is not None}
    # One distance for all, and none where the sequence ends before.
    assert len(shifts - {0}) == 1
    assert 0 < abs((shifts - {0}).pop()) <= 6


# ---- sites, matrices, pictures ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    planted = make_planted_motif(60, 60, 80, 10, 0.05, strands=2, random_state=5)
    return planted, LatentSSVM(Motif(10, 1, 2), C=0.1).fit(planted.X, planted.Y)


def test_sites_of_a_trained_motif(trained):
    planted, model = trained
    sites = find_sites(model, planted.X)
    assert [site.sequence for site in sites] == [str(i) for i in range(1, 121)]
    close([site.score for site in sites], model.decision_function(planted.X))
    assert model.predict(planted.X).tolist() == [1 if site.score > 0 else -1 for site in sites]
    for site, x, latent in zip(sites, planted.X, model.predict_latent(planted.X), strict=True):
        assert site.end - site.start == 10
        window = x[site.start : site.end]
        assert site.site == (window if site.strand > 0 else reverse_complement(window))
        assert latent == ((site.start, site.strand) if site.score > 0 else None)
    matrix = site_matrix([site.site for site in sites[:60]])
    found = consensus(matrix)
    whole = planted.consensus + "." + reverse_complement(planted.consensus)
    assert any(part in whole for part in (found, found[:8], found[1:9], found[2:]))
    assert weight_matrix(model).shape == (10, 4)
    close(weight_matrix(model).ravel(), model.coef_[:40])
    named = Sequences(["a"], [""], [planted.X[0].lower()])
    both = named + Sequences(["b"], ["x"], [planted.X[1]])
    assert (both.names, both.descriptions, both[1], len(both)) == (["a", "b"], ["", "x"], planted.X[1], 2)
    assert model.decision_function(both).tolist() == model.decision_function(planted.X[:2]).tolist()
    with pytest.raises(TypeError):
        _ = named + 3
    assert find_sites(model, named)[0] == sites[0]._replace(sequence="a")
    with raises("names", got="1 names", expected="a sequence of 2 names"):
        find_sites(model, planted.X[:2], ["a"])


def test_sites_need_a_motif_model():
    model = LatentSSVM(Motif(3))
    model.task_, model.coef_ = "no task", np.zeros(3)
    with raises("model", expected="an estimator with a Motif task, such as LatentSSVM(Motif(width=11))"):
        find_sites(model, ["ACGT"])


@given(st.lists(st.text("ACGTN", min_size=4, max_size=4), min_size=1, max_size=6), st.floats(0.1, 10))
def test_site_matrix_counts_letters(sites, pseudocount):
    matrix = site_matrix(sites, pseudocount)
    close(matrix.sum(axis=1), np.ones(4))
    for j, row in enumerate(matrix):
        column = [site[j] for site in sites]
        known = len(column) - column.count("N")
        close(row, [(column.count(a) + pseudocount / 4) / (known + pseudocount) for a in DNA.letters])


def test_consensus_letters():
    rows = {
        "A": [0.6, 0.2, 0.1, 0.1],
        "R": [0.4, 0.05, 0.5, 0.05],
        "W": [0.5, 0.1, 0.0, 0.4],
        "K": [0.0, 0.1, 0.6, 0.3],
        "N": [0.4, 0.3, 0.2, 0.1],
        "T": [0.0, 0.0, 0.0, 1.0],
    }
    assert consensus(list(rows.values())) == "".join(rows)


@given(st.text("ACGTNacgtn"))
def test_reverse_complement_is_its_own_inverse(sequence):
    mirror = reverse_complement(sequence)
    assert reverse_complement(mirror) == sequence
    assert all(
        {a.upper(), b.upper()} in ({"A", "T"}, {"C", "G"}, {"N"}) for a, b in zip(sequence, mirror[::-1], strict=True)
    )


@pytest.mark.parametrize(
    ("call", "parameter", "got", "expected"),
    [
        (lambda: site_matrix([]), "site_sequences", "none", "at least one site"),
        (lambda: site_matrix(["AC", "A"]), "site_sequences[1]", "", "as long as the first site"),
        (lambda: site_matrix(["AX"]), "site_sequences[0]", "", "a string of the letters ACGTN"),
        (lambda: site_matrix(["AC"], 0.0), "pseudocount", "0.0", "a finite number above 0"),
        (lambda: consensus([[0.5, 0.5]]), "matrix", "", "an array of shape (width, 4)"),
        (lambda: consensus([[0.5, 0.5, 0.5, 0.5]]), "matrix", "", "rows of probabilities that"),
        (lambda: consensus([["a", "b", "c", "d"]]), "matrix", "text such as 'a'", "real numbers"),
        (lambda: plot_logo([[0.25] * 4], background=[1, 0, 0, 0]), "background", "", "probabilities above 0"),
    ],
)
def test_matrices_refuse(call, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        call()


def test_logo_draws_letters_of_the_right_height():
    from matplotlib.figure import Figure

    matrix = [[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]
    ax = Figure().add_subplot()
    assert plot_logo(matrix, ax=ax) is ax
    boxes = [patch.get_path().get_extents() for patch in ax.patches]
    # One letter of two bits, two of half a bit each, and nothing where all letters are alike.
    close([box.height for box in boxes], [2.0, 0.5, 0.5])
    close([box.y0 for box in boxes], [0.0, 0.0, 0.5])
    close([box.width for box in boxes], [0.92] * 3)
    assert ax.get_xlabel() == "position"
    assert ax.get_ylabel() == "information (bits)"
    biased = plot_logo(matrix, background=[0.4, 0.1, 0.1, 0.4], ax=Figure().add_subplot())
    close(biased.patches[0].get_path().get_extents().height, np.log2(1 / 0.4))


def test_logo_of_proteins():
    from matplotlib.figure import Figure

    matrix = np.zeros((2, 20))
    matrix[[0, 1], [PROTEIN.letters.index(letter) for letter in "WI"]] = 1.0
    ax = plot_logo(matrix, ax=Figure().add_subplot())
    wide, narrow = [patch.get_path().get_extents() for patch in ax.patches]
    close([wide.height, narrow.height, ax.get_ylim()[1]], [np.log2(20)] * 3)
    close(wide.width, 0.92)
    # An I of full width would not look like a letter.
    assert narrow.width < 0.5
    close([(box.x0 + box.x1) / 2 for box in (wide, narrow)], [1, 2])


def test_logo_makes_its_own_figure():
    from matplotlib import pyplot

    ax = plot_logo([[0.7, 0.1, 0.1, 0.1]])
    assert len(ax.patches) == 4
    pyplot.close(ax.figure)


# ---- data sets -------------------------------------------------------------------------------------------


def put(home, relative, content):
    path = home / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return home


NEGATIVES = gzip.compress(b">n\nACGT\n", mtime=0)


def test_yeast_headers(tmp_path):
    put(tmp_path, "yeast_ars/intergenic_negative.fa.gz", NEGATIVES)
    put(tmp_path, "yeast_ars/ars_positive.fa", b">a x=1 acs=none\nACGT\n>b acs=0-2+,1-4-\nACGT\n")
    data = load_yeast_ars(tmp_path)
    assert data.acs == [[], [(0, 2, 1), (1, 4, -1)]]
    assert data.negatives.sequences == ["ACGT"]
    for header, got, expected in (
        (b"a", "", "acs=none, or sites such as"),
        (b"a acs=1", "'acs=1'", "acs=none, or sites such as"),
        (b"a acs=1-2", "'acs=1-2'", "acs=none, or sites such as"),
        (b"a acs=1-9+", "", "sites within the 4 letters in"),
        (b"a acs=3-3+", "", "sites within the 4 letters in"),
    ):
        put(tmp_path, "yeast_ars/ars_positive.fa", b">" + header + b"\nACGT\n")
        with raises(file="ars_positive.fa", got=got, expected=expected):
            load_yeast_ars(tmp_path)


def test_promoter_lines(tmp_path):
    data = load_uci_promoters(put(tmp_path, "uci_promoters/promoters.data", b"+,S10,\t\tacgt\n\n-, 867 ,acca\n"))
    assert (data.names, data.X, data.Y.tolist()) == (["S10", "867"], ["ACGT", "ACCA"], [1, -1])
    for content, line, got, expected in (
        (b"+,S10,acgn\n", 1, "'+,S10,acgn'", "'+,name,letters'"),
        (b"+,S10,acg\nx\n", 2, "'x'", "'+,name,letters'"),
        (b"\n", None, "", "lines '+,name,letters'"),
        (b"\xff\n", 1, "", "UTF-8 text"),
    ):
        with raises(file="promoters.data", line=line, got=got, expected=expected):
            load_uci_promoters(put(tmp_path, "uci_promoters/promoters.data", content))


@pytest.mark.data
@needs_data
def test_yeast_and_promoters_are_whole():
    yeast, promoters = load_yeast_ars(), load_uci_promoters()
    assert (len(yeast.positives), len(yeast.negatives)) == (352, 5152)
    assert sum(map(len, yeast.acs)) == 196
    assert sum(map(len, yeast.negatives.sequences)) == 2155431
    assert (promoters.Y == 1).sum() == (promoters.Y == -1).sum() == 53
    assert {len(x) for x in promoters.X} == {57}


@pytest.mark.data
@needs_data
def test_words_lead_to_the_known_yeast_motif():
    """The first start places its windows on most annotated sites and shows the consensus."""
    yeast = load_yeast_ars()
    X = yeast.positives.sequences + yeast.negatives.sequences
    task, batch = prepared(17, 3, 2, X, np.repeat([1, -1], [352, 5152]))
    first = task.initial_latents(batch, np.random.default_rng(0), 0)
    annotated = [(h, sites) for h, sites in zip(first, yeast.acs, strict=False) if sites]
    hits = [any(abs(h[0] + 8.5 - (a + b) / 2) <= 8.5 for a, b, _ in sites) for h, sites in annotated]
    assert np.mean(hits) >= 0.7


@pytest.mark.parametrize(("negative", "positive"), [(-1, 1), (0, 1), (False, True)])
def test_predictions_are_spelled_as_the_labels(negative, positive):
    data = make_planted_motif(20, 20, length=40, width=6, mutation=0.0)
    Y = np.where(data.Y > 0, positive, negative)
    model = LatentSSVM(Motif(6, background_order=0), C=0.1).fit(data.X, Y)
    predicted = model.predict(data.X)
    assert predicted.dtype == Y.dtype
    assert model.score(data.X, Y) == (predicted == Y).mean() > 0.8
    assert model.classes_.tolist() == [negative, positive]
