import io
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.exceptions import FormatError
from latentstruct.metrics import chunk_scores
from latentstruct_papers.datasets import data_home, load_conll2000, load_ocr_letters

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")


def letters(**change):
    rng = np.random.default_rng(0)
    arrays = {
        "pixels": rng.integers(0, 2, (6, 128), dtype=np.uint8),
        "labels": np.array([0, 25, 3, 4, 5, 6], dtype=np.uint8),
        "lengths": np.array([1, 2, 3], dtype=np.int32),
        "folds": np.array([0, 1, 9], dtype=np.int8),
    }
    return {name: value for name, value in (arrays | change).items() if value is not None}


def pack(arrays, **options):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays, **options)
    return buffer.getvalue()


def put(home, relative, data):
    path = home / relative
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return home


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return buffer.getvalue()


def test_home(tmp_path, monkeypatch):
    monkeypatch.setenv("LATENTSTRUCT_DATA", str(tmp_path / "absent"))
    assert data_home(tmp_path) == tmp_path
    with raises("data_home", expected="a folder, or None if"):
        data_home()
    with raises("data_home", got="x", expected="a folder, or None if"):
        data_home("x")
    with raises("data_home", expected="a folder, or None if"):
        data_home("x" * 300)
    with raises("data_home", got="3", expected="a folder, or None if"):
        data_home(3)
    monkeypatch.setenv("LATENTSTRUCT_DATA", str(tmp_path))
    assert data_home() == tmp_path
    for empty in ("", None):
        if empty is None:
            monkeypatch.delenv("LATENTSTRUCT_DATA")
        else:
            monkeypatch.setenv("LATENTSTRUCT_DATA", empty)
        with raises("data_home", expected="a folder, or None if"):
            data_home()


def test_missing_files(tmp_path):
    with raises(file="letters.npz", expected="a file of the data set"):
        load_ocr_letters(tmp_path)
    with raises(file="conll2000.zip", expected="a file of the data set"):
        load_conll2000(tmp_path)


def test_letters(tmp_path):
    arrays = letters()
    words = load_ocr_letters(put(tmp_path, "ocr_letters/letters.npz", pack(arrays)))
    assert [x.shape for x in words.X] == [(1, 128), (2, 128), (3, 128)]
    assert [y.tolist() for y in words.Y] == [[0], [25, 3], [4, 5, 6]]
    assert words.folds.tolist() == [0, 1, 9]
    np.testing.assert_array_equal(np.concatenate(words.X), arrays["pixels"])
    assert all(x.dtype == np.float64 and x.flags.c_contiguous and x.base is words.X[0].base for x in words.X)
    assert words.X[0].base is not None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"folds": None}, "a NumPy archive with integers"),
        ({"labels": np.zeros(6)}, "a NumPy archive with integers"),
        ({"labels": np.array([None] * 6)}, "a NumPy archive with integers"),
        ({"labels": np.zeros((6, 1), int)}, "1 dimensions of labels"),
        ({"labels": np.zeros(5, int)}, "pixels of shape (5, 128), one"),
        ({"pixels": np.zeros((6, 64), int)}, "pixels of shape (6, 128), one"),
        ({"lengths": np.array([1, 2, 4])}, "positive lengths with the sum"),
        ({"lengths": np.array([0, 3, 3])}, "positive lengths with the sum"),
        ({"lengths": np.array([], int)}, "positive lengths with the sum"),
        ({"lengths": np.array([2**63, 2**63, 6], np.uint64)}, "positive lengths with the sum"),
        ({"folds": np.array([1])}, "3 folds, one per word"),
        ({"folds": np.array([1, 2, -1])}, "folds from 0 to 127"),
        ({"labels": np.full(6, 26)}, "labels from 0 to 25"),
        ({"pixels": np.full((6, 128), 7)}, "pixels from 0 to 1"),
    ],
)
def test_letters_malformed(tmp_path, change, expected):
    home = put(tmp_path, "ocr_letters/letters.npz", pack(letters(**change)))
    with raises(file="letters.npz", expected=expected):
        load_ocr_letters(home)


def test_letters_damaged(tmp_path):
    whole = pack(letters())
    single = io.BytesIO()
    np.save(single, np.arange(3))
    for data in (b"", b"x" * 50, whole[:-30], whole[: len(whole) // 2], single.getvalue()):
        home = put(tmp_path, "ocr_letters/letters.npz", data)
        with raises(file="letters.npz", expected="a NumPy archive with integers"):
            load_ocr_letters(home)


CHUNKS = b"The DT B-NP\ncat NN I-NP\n\nsat VBD B-VP\n\n"


def test_conll2000(tmp_path):
    home = put(tmp_path, "conll2000/conll2000.zip", zipped([("a/train.txt", CHUNKS), ("test.txt", CHUNKS * 2)]))
    train, test = load_conll2000(home), load_conll2000(home, subset="test")
    assert train.tokens == [[("The", "DT"), ("cat", "NN")], [("sat", "VBD")]]
    assert train.Y == [["B-NP", "I-NP"], ["B-VP"]]
    assert test.tokens == train.tokens * 2
    with raises("subset", got="'dev'", expected="'train' or 'test'"):
        load_conll2000(home, "dev")


@pytest.mark.parametrize(
    ("data", "file", "line", "expected"),
    [
        (b"", "conll2000.zip", None, "a complete zip archive with"),
        (zipped([("train.txt", CHUNKS)])[:-30], "conll2000.zip", None, "a complete zip archive with"),
        (zipped([("test.txt", CHUNKS)]), "conll2000.zip", None, "one file train.txt"),
        (zipped([("train.txt", CHUNKS), ("b/train.txt", CHUNKS)]), "conll2000.zip", None, "one file train.txt"),
        (zipped([("a/train.txt", b"The DT\n")]), "train.txt", 1, "3 columns, the word, its part"),
        (zipped([("a/train.txt", CHUNKS + b"x\n")]), "train.txt", 6, "3 columns separated by"),
        (zipped([("a/train.txt", CHUNKS + b"\xff b c\n")]), "train.txt", 6, "UTF-8 text"),
        (zipped([("a/train.txt", b"")]), "train.txt", 1, "one token per line and a"),
    ],
)
def test_conll2000_malformed(tmp_path, data, file, line, expected):
    with raises(file=file, line=line, expected=expected):
        load_conll2000(put(tmp_path, "conll2000/conll2000.zip", data))


@settings(deadline=None, max_examples=150)
@given(
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=4),
    cut=st.one_of(st.none(), st.integers(0, 2000)),
)
def test_hostile_archives(tmp_path_factory, flips, cut):
    home = tmp_path_factory.mktemp("hostile")
    for relative, data, load in (
        ("ocr_letters/letters.npz", pack(letters()), load_ocr_letters),
        ("conll2000/conll2000.zip", zipped([("train.txt", CHUNKS)]), load_conll2000),
    ):
        damaged = bytearray(data)
        for position, flip in flips:
            damaged[position % len(damaged)] ^= flip
        try:
            load(put(home, relative, bytes(damaged[:cut])))
        except FormatError as error:
            assert str(home) in str(error)  # noqa: PT017


@pytest.mark.data
@needs_data
def test_real_letters():
    words = load_ocr_letters()
    assert len(words.X) == len(words.Y) == len(words.folds) == 6877
    assert sum(map(len, words.X)) == 52_152
    assert sorted(set(words.folds.tolist())) == list(range(10))
    assert "".join(chr(ord("a") + letter) for letter in words.Y[0]) == "ommanding"


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(
    ("subset", "sentences", "tokens", "chunks"),
    [("train", 8936, 211_727, 106_978), ("test", 2012, 47_377, 23_852)],
)
def test_real_chunks(subset, sentences, tokens, chunks):
    data = load_conll2000(subset=subset)
    assert len(data.tokens) == len(data.Y) == sentences
    assert sum(map(len, data.Y)) == tokens
    scores = chunk_scores(data.Y, data.Y)
    assert scores.n_true == scores.n_correct == chunks
    assert scores.f1 == scores.accuracy == 1
