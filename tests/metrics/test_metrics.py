import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.metrics import ChunkScore, chunk_scores, chunk_spans


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("", []),
        ("O O", []),
        ("B-NP I-NP O B-NP", [("NP", 0, 2), ("NP", 3, 4)]),
        ("B-NP B-NP I-NP", [("NP", 0, 1), ("NP", 1, 3)]),
        # IOB1: B only between adjacent chunks of one type.
        ("I-NP I-NP B-NP I-NP I-VP O I-VP", [("NP", 0, 2), ("NP", 2, 4), ("VP", 4, 5), ("VP", 6, 7)]),
        # A change of type opens a chunk even at I or E.
        ("B-NP I-VP", [("NP", 0, 1), ("VP", 1, 2)]),
        ("B-NP E-VP I-VP", [("NP", 0, 1), ("VP", 1, 2), ("VP", 2, 3)]),
        # BIOES.
        ("S-A S-A B-A E-A B-A I-A E-A", [("A", 0, 1), ("A", 1, 2), ("A", 2, 4), ("A", 4, 7)]),
        ("S-A I-A E-A E-A", [("A", 0, 1), ("A", 1, 3), ("A", 3, 4)]),
        # IOE2: E at each end, no B.
        ("I-A E-A I-A E-A E-A O", [("A", 0, 2), ("A", 2, 4), ("A", 4, 5)]),
        ("B-A S-A", [("A", 0, 1), ("A", 1, 2)]),
        ("O E-A O", [("A", 1, 2)]),
        # Types with hyphens, and without a type.
        ("B-A-B I-A-B I-A", [("A-B", 0, 2), ("A", 2, 3)]),
        ("B I O I", [("", 0, 2), ("", 3, 4)]),
        ("O-A I-A", [("A", 1, 2)]),
    ],
)
def test_spans(tags, spans):
    assert chunk_spans(tags.split()) == spans
    assert chunk_spans(np.array(tags.split(), dtype=str)) == spans


@pytest.mark.parametrize(
    ("tags", "got", "expected"),
    [
        (["NP"], "'NP'", "IOB1, IOB2 or BIOES scheme"),
        ([""], "''", "tags such as 'B-NP' or 'O', in the IOB1, IOB2 or BIOES scheme"),
        ([3], "3", "tags such as 'B-NP' or 'O', in the IOB1, IOB2 or BIOES scheme"),
        ("B-NP", "", "a list of tags"),
    ],
)
def test_spans_refuse(tags, got, expected):
    with raises("tags", got=got, expected=expected):
        chunk_spans(tags)


def test_scores_by_hand():
    true = [["B-NP", "I-NP", "B-VP", "O", "B-NP"], ["B-PP", "B-NP"], ["O", "O"]]
    predicted = [["B-NP", "I-NP", "B-VP", "I-VP", "B-NP"], ["B-NP", "I-NP"], ["O", "B-LST"]]
    scores = chunk_scores(true, predicted)
    # True: NP(0,2) VP(2,3) NP(4,5) | PP NP(1,2); found: NP(0,2) VP(2,4) NP(4,5) | NP(0,2) | LST.
    assert (scores.n_true, scores.n_predicted, scores.n_correct) == (5, 5, 2)
    assert (scores.precision, scores.recall) == (0.4, 0.4)
    assert scores.f1 == pytest.approx(0.4)
    assert (scores.n_tokens, scores.accuracy) == (9, 5 / 9)
    assert list(scores.by_type) == ["LST", "NP", "PP", "VP"]
    assert scores.by_type["NP"] == ChunkScore(2 / 3, 2 / 3, 2 / 3, 3, 3, 2)
    assert scores.by_type["VP"] == ChunkScore(0.0, 0.0, 0.0, 1, 1, 0)
    assert scores.by_type["PP"] == ChunkScore(0.0, 0.0, 0.0, 1, 0, 0)
    assert scores.by_type["LST"] == ChunkScore(0.0, 0.0, 0.0, 0, 1, 0)


def test_scores_do_not_join_sentences():
    assert chunk_scores([["B-NP"], ["I-NP"]], [["B-NP"], ["I-NP"]]).n_true == 2


def test_scores_of_nothing():
    scores = chunk_scores([], [])
    assert (scores.precision, scores.recall, scores.f1, scores.accuracy, scores.by_type) == (0, 0, 0, 0, {})


@pytest.mark.parametrize(
    ("true", "predicted", "parameter", "got", "expected"),
    [
        ([["O"]], [], "predicted", "", "a sequence of 1 sentences"),
        ([["O"]], [["O", "O"]], "predicted[0]", "", "a sequence of 1 tags"),
        (["O"], ["O"], "true[0]", "", "a list of tags"),
        ([["O"]], [["X-NP"]], "tags", "'X-NP'", "tags such as 'B-NP' or 'O', in the IOB1, IOB2 or BIOES scheme"),
    ],
)
def test_scores_refuse(true, predicted, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        chunk_scores(true, predicted)


# An independent form: tables of the tag pairs between which a chunk ends or starts, and counting by walking
# over the tokens of both taggings at once, without ever making spans.

ENDS = {"BB", "BO", "BS", "IB", "IO", "IS", "EB", "EI", "EE", "EO", "ES", "SB", "SI", "SE", "SO", "SS"}
STARTS = {"OB", "OI", "OE", "OS", "BB", "IB", "EB", "SB", "BS", "IS", "ES", "SS", "EI", "EE", "SI", "SE"}


def walk(true, predicted):
    found_true = found_predicted = correct = 0
    for tags, guesses in zip(true, predicted, strict=True):
        running = False
        last = last_guess = ("O", "")
        for tag, guess in zip([*tags, "O"], [*guesses, "O"], strict=True):
            here, here_guess = (tuple((text + "-").split("-")[:2]) for text in (tag, guess))
            ends, ends_guess = (
                a[0] + b[0] in ENDS or (a[0] != "O" and a[1] != b[1])
                for a, b in ((last, here), (last_guess, here_guess))
            )
            starts, starts_guess = (
                a[0] + b[0] in STARTS or (b[0] != "O" and a[1] != b[1])
                for a, b in ((last, here), (last_guess, here_guess))
            )
            if running and ends and ends_guess and last[1] == last_guess[1]:
                correct += 1
                running = False
            elif running and (ends != ends_guess or here[1] != here_guess[1]):
                running = False
            if starts and starts_guess and here[1] == here_guess[1]:
                running = True
            found_true += starts
            found_predicted += starts_guess
            last, last_guess = here, here_guess
    return found_true, found_predicted, correct


TAG = st.sampled_from(["O", *(f"{position}-{kind}" for position in "BIES" for kind in "XY")])
PAIRS = st.lists(st.lists(st.tuples(TAG, TAG), max_size=8), max_size=4)


@settings(deadline=None, max_examples=500)
@given(PAIRS)
def test_scores_match_the_walk(pairs):
    true = [[a for a, _ in sentence] for sentence in pairs]
    predicted = [[b for _, b in sentence] for sentence in pairs]
    scores = chunk_scores(true, predicted)
    assert (scores.n_true, scores.n_predicted, scores.n_correct) == walk(true, predicted)
    assert sum(score.n_correct for score in scores.by_type.values()) == scores.n_correct
    swapped = chunk_scores(predicted, true)
    assert (swapped.precision, swapped.recall, swapped.f1) == (scores.recall, scores.precision, scores.f1)


@settings(deadline=None)
@given(st.lists(TAG, max_size=12))
def test_spans_partition_the_tagged_tokens(tags):
    covered = [i for _, start, stop in chunk_spans(tags) for i in range(start, stop)]
    assert covered == [i for i, tag in enumerate(tags) if tag != "O"]


# True and predicted tags, and what seqeval 1.2.2 reports (default mode): precision, recall, F1 and number per type, ""
# for all.
SEQEVAL = [
    (
        "I-LOC O / O B-LOC B-LOC / B-LOC B-PER O B-LOC / B-LOC",
        "I-LOC O / I-PER B-PER B-LOC / B-LOC B-PER O O / B-LOC",
        {"LOC": [1.0, 0.666667, 0.8, 6], "PER": [0.333333, 1.0, 0.5, 1], "": [0.714286, 0.714286, 0.714286, 7]},
    ),
    (
        "B-PER B-PER I-LOC B-PER / B-PER / I-LOC B-PER B-LOC I-LOC I-PER / I-LOC I-PER B-LOC I-PER I-LOC I-LOC O",
        "B-PER I-LOC I-LOC B-PER / B-PER / I-LOC I-LOC B-LOC B-LOC I-PER / I-LOC I-PER B-LOC I-LOC I-LOC I-LOC B-PER",
        {
            "LOC": [0.166667, 0.166667, 0.166667, 6],
            "PER": [0.833333, 0.625, 0.714286, 8],
            "": [0.5, 0.428571, 0.461538, 14],
        },
    ),
    (
        "B-LOC I-LOC E-PER S-PER / S-PER / I-ORG E-PER I-LOC O E-PER O / I-PER O I-PER B-ORG",
        "I-LOC I-LOC E-PER I-ORG / S-PER / I-ORG E-PER B-LOC I-LOC E-PER O / O O S-PER S-PER",
        {
            "LOC": [0.5, 0.5, 0.5, 2],
            "ORG": [0.5, 0.5, 0.5, 2],
            "PER": [0.833333, 0.714286, 0.769231, 7],
            "": [0.7, 0.636364, 0.666667, 11],
        },
    ),
    (
        "O / I-PER / I-PER I-ORG / S-PER B-LOC",
        "S-PER / I-PER / I-PER I-ORG / B-ORG B-LOC",
        {
            "LOC": [1.0, 1.0, 1.0, 1],
            "ORG": [0.5, 1.0, 0.666667, 1],
            "PER": [0.666667, 0.666667, 0.666667, 3],
            "": [0.666667, 0.8, 0.727273, 5],
        },
    ),
    (
        "I-PER I-PER O O I-LOC I-PER / O / I-PER / I-LOC I-PER I-PER I-PER I-PER I-PER",
        "I-PER I-LOC O O I-LOC I-PER / I-PER / I-PER / I-LOC I-PER I-PER O I-PER I-PER",
        {"LOC": [0.666667, 1.0, 0.8, 2], "PER": [0.333333, 0.5, 0.4, 4], "": [0.444444, 0.666667, 0.533333, 6]},
    ),
    (
        "I-PER I-PER I-PER O O I-LOC I-PER / I-LOC / O O O O I-PER I-PER / I-LOC",
        "I-PER I-PER I-PER O O I-PER I-LOC / I-LOC / I-LOC O O O I-PER I-LOC / I-LOC",
        {"LOC": [0.4, 0.666667, 0.5, 3], "PER": [0.333333, 0.333333, 0.333333, 3], "": [0.375, 0.5, 0.428571, 6]},
    ),
    (
        "I-PER I-LOC S-PER I-PER O I-ORG / O E-PER B-ORG I-PER I-ORG O I-LOC / B-LOC B-PER / I-LOC E-PER",
        "I-PER I-LOC S-PER I-PER O S-PER / O E-PER B-ORG I-PER I-ORG O I-LOC / B-LOC I-ORG / I-LOC E-PER",
        {
            "LOC": [1.0, 1.0, 1.0, 4],
            "ORG": [0.666667, 0.666667, 0.666667, 3],
            "PER": [0.857143, 0.857143, 0.857143, 7],
            "": [0.857143, 0.857143, 0.857143, 14],
        },
    ),
]


@pytest.mark.parametrize(("true", "predicted", "scores"), SEQEVAL)
def test_entities_are_scored_as_by_seqeval(true, predicted, scores):
    found = chunk_scores(*([tags.split() for tags in text.split(" / ")] for text in (true, predicted)))
    assert set(found.by_type) == set(scores) - {""}
    for kind, expected in scores.items():
        one = found.by_type[kind] if kind else found
        assert [one.precision, one.recall, one.f1, one.n_true] == pytest.approx(expected, abs=1e-6)
