"""Reuters, optdigits and adult: miniatures of their files, and the counts of the real ones."""

import gzip
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import norm

from error_fields import raises
from latentstruct_papers.datasets import load_adult, load_optdigits, load_reuters

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")

TRAIN = "modapte_train.multilabel.svmlight"
STORIES = {
    TRAIN: "corn,grain,corn 1:0.5 3:0.25 # 7\n 2:1.0000 # 8\n\n # 9\ngrain 3:-1e-1\n",
    "modapte_test.multilabel.svmlight": "corn 1:1 # 20\n",
    "modapte_vocab.txt": "acre\nbushel\ncrop\n",
}
HEADER = ",".join([*(f"Block {k}" for k in range(1, 65)), "Class"])


def put(folder, **files):
    """Write files, compressed where the name says so."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        data = text.encode() if isinstance(text, str) else text
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder.parent


def reuters(home, **change):
    return put(home / "reuters21578", **{f"{name}.gz": text for name, text in (STORIES | change).items()})


def digit(label, value=0):
    return ",".join([*["0"] * 63, str(value), str(label)]) + "\n"


def test_stories(tmp_path):
    found = load_reuters(reuters(tmp_path))
    assert found.train_topics == [("corn", "grain"), (), (), ("grain",)]
    assert found.train_ids == ["7", "8", "9", ""]
    np.testing.assert_array_equal(found.train_X.toarray(), [[0.5, 0, 0.25], [0, 1, 0], [0, 0, 0], [0, 0, -0.1]])
    assert (found.test_topics, found.test_ids, found.test_X.shape) == ([("corn",)], ["20"], (1, 3))
    assert found.vocabulary == ["acre", "bushel", "crop"]
    assert list(found.topics.items()) == [("grain", 2), ("corn", 1)]
    train, test = found.has_topic("corn")
    assert (train.tolist(), test.tolist()) == ([True, False, False, False], [True])
    with raises("topic", got="'gold'", expected="a topic such as grain, corn"):
        found.has_topic("gold")


topic = st.text("abc-", min_size=1, max_size=4)
story = st.tuples(
    st.lists(topic, max_size=3, unique=True),
    st.dictionaries(st.integers(1, 5), st.integers(-9, 9).map(float), max_size=5),
)


@given(st.lists(story, min_size=1, max_size=6))
def test_stories_as_written(tmp_path_factory, stories):
    lines = []
    for number, (names, words) in enumerate(stories):
        lines.append(" ".join([",".join(names), *(f"{k}:{words[k]}" for k in sorted(words)), f"# {number}\n"]))
    text = "".join(lines)
    home = reuters(tmp_path_factory.mktemp("home"), **{TRAIN: text, "modapte_vocab.txt": "a\nb\nc\nd\ne\n"})
    found = load_reuters(home)
    assert found.train_topics == [tuple(names) for names, _ in stories]
    assert found.train_ids == [str(number) for number in range(len(stories))]
    expected = [[words.get(k, 0.0) for k in range(1, 6)] for _, words in stories]
    np.testing.assert_array_equal(found.train_X.toarray(), expected)


@pytest.mark.parametrize(
    ("change", "file", "line", "got", "expected"),
    [
        (
            {TRAIN: "corn 1:1\n1:0.5 # 7\n"},
            "modapte_train.multilabel.svmlight.gz",
            2,
            "'1:0.5'",
            "topics separated by commas",
        ),
        (
            {TRAIN: "corn,,grain 1:1\n"},
            "modapte_train.multilabel.svmlight.gz",
            1,
            "'corn,,grain'",
            "topics separated by commas",
        ),
        ({TRAIN: "corn 4:1\n"}, "modapte_train.multilabel.svmlight.gz", 1, "'4:1'", "an index of at most 3"),
        ({TRAIN: "corn 2:1 1:1\n"}, "modapte_train.multilabel.svmlight.gz", 1, "'1:1'", "an index above 2, as indices"),
        ({TRAIN: "corn 1:nan\n"}, "modapte_train.multilabel.svmlight.gz", 1, "'1:nan'", "a finite number as value"),
        ({TRAIN: b"corn 1:1\n\xff 1:1\n"}, "modapte_train.multilabel.svmlight.gz", 2, "", "UTF-8 text"),
        ({TRAIN: "\n"}, "modapte_train.multilabel.svmlight.gz", 1, "", "topics and index:value pairs"),
        ({"modapte_vocab.txt": ""}, "modapte_vocab.txt.gz", 1, "", "one word per line"),
        ({"modapte_vocab.txt": "a\n\nb\n"}, "modapte_vocab.txt.gz", 2, "''", "one word per line"),
        ({"modapte_vocab.txt": "a b\n"}, "modapte_vocab.txt.gz", 1, "'a b'", "one word per line"),
    ],
)
def test_damaged_stories(change, file, line, got, expected, tmp_path):
    with raises(file=file, line=line, got=got, expected=expected):
        load_reuters(reuters(tmp_path, **change))


def test_missing_files(tmp_path):
    for load, name in (
        (load_reuters, "modapte_vocab.txt.gz"),
        (load_optdigits, "optdigits.tra"),
        (load_adult, "a9a.gz"),
    ):
        with raises(file=name, expected="a file of the data set"):
            load(tmp_path)


def test_digits(tmp_path):
    files = {"optdigits.tra": f"{HEADER}\n{digit(3)}{digit(0, 16)}", "optdigits.tes": f"{HEADER}\n{digit(9, 5)}"}
    found = load_optdigits(put(tmp_path / "optdigits", **files))
    assert (found.train_X.shape, found.train_y.tolist(), found.train_X[1, 63]) == ((2, 64), [3, 0], 16.0)
    assert (found.test_y.tolist(), found.test_X[0, 63]) == ([9], 5.0)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (f"{HEADER}\n{digit(10)}", None, "classes from 0 to 9"),
        (f"{HEADER}\n{digit(1.5)}", None, "classes from 0 to 9"),
        (f"{HEADER}\n{digit(1, 17)}", None, "counts from 0 to 16"),
        (f"{HEADER}\n{digit(1)}1,2\n", 3, "65 cells as in the header"),
        ("a,b\n1,2\n", 1, "64 features"),
        (digit(1), 1, "a header row with the names"),
        (HEADER + "\n", 1, "a header row and at least one"),
    ],
)
def test_damaged_digits(text, line, expected, tmp_path):
    with raises(file="optdigits.tra", line=line, expected=expected):
        load_optdigits(put(tmp_path / "optdigits", **{"optdigits.tra": text, "optdigits.tes": text}))


def test_adults(tmp_path):
    found = load_adult(put(tmp_path / "adult_a9a", **{"a9a.gz": "0 3:1 122:1 \n1 1:1\n", "a9a.t.gz": "1 2:1\n"}))
    assert (found.train_X.shape, found.test_X.shape) == ((2, 122), (1, 122))
    assert (found.train_y.tolist(), found.test_y.tolist()) == ([0, 1], [1])
    assert found.train_X.toarray()[0].nonzero()[0].tolist() == [2, 121]


@pytest.mark.parametrize(
    ("text", "line", "got", "expected"),
    [
        ("-1 3:1\n+1 1:1\n", None, "", "classes from 0 to 1"),
        ("yes 3:1\n", None, "", "classes from 0 to 1"),
        ("1 123:1\n", 1, "'123:1'", "an index of at most 122"),
    ],
)
def test_damaged_adults(text, line, got, expected, tmp_path):
    with raises(file="a9a.gz", line=line, got=got, expected=expected):
        load_adult(put(tmp_path / "adult_a9a", **{"a9a.gz": text, "a9a.t.gz": "1 2:1\n"}))


@needs_data
@pytest.mark.data
def test_real_stories():
    found = load_reuters()
    assert (found.train_X.shape, found.test_X.shape, len(found.vocabulary)) == ((9603, 11842), (3299, 11842), 11842)
    for name, counts in {"earn": (2877, 1087), "acq": (1650, 719), "money-fx": (538, 179), "corn": (181, 56)}.items():
        assert tuple(part.sum() for part in found.has_topic(name)) == counts
        assert found.topics[name] == counts[0]
    for X in (found.train_X, found.test_X):
        assert np.abs(norm(X, axis=1) - 1).max() < 2e-3
    assert len(set(found.train_ids) | set(found.test_ids)) == 9603 + 3299


@needs_data
@pytest.mark.data
def test_real_digits_and_adults():
    digits, adults = load_optdigits(), load_adult()
    assert (digits.train_X.shape, digits.test_X.shape) == ((3823, 64), (1797, 64))
    assert np.bincount(digits.train_y).tolist() == [376, 389, 380, 389, 387, 376, 377, 387, 380, 382]
    assert (adults.train_X.shape, adults.test_X.shape) == ((32560, 122), (16281, 122))
    assert (adults.train_y.sum(), adults.test_y.sum()) == (7841, 3846)
    assert set(adults.train_X.data.tolist()) == {1.0}
