import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.exceptions import FormatError
from latentstruct.io import (
    ColumnSentences,
    read_classes,
    read_conll,
    read_csv,
    read_svmlight,
    write_conll,
)

WORD = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\x0b\x0c \ufeff"), min_size=1, max_size=8).filter(
    lambda text: not text.startswith("-DOCSTART-")
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def spell(data, tmp_path, name="data.txt"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def with_stdin(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# Columns of tokens


def test_conll_reads_sentences(tmp_path):
    text = "\n\nThe  DT B-NP\ncat NN I-NP\n\n\n \nsat VBD B-VP\r\n\n"
    sentences = read_conll(spell(text, tmp_path))
    assert list(sentences) == [
        [("The", "DT", "B-NP"), ("cat", "NN", "I-NP")],
        [("sat", "VBD", "B-VP")],
    ]
    assert (len(sentences), sentences.n_tokens, sentences.n_columns) == (2, 3, 3)
    assert sentences[-1] == [("sat", "VBD", "B-VP")]
    assert sentences[0] == next(iter(sentences))
    assert sentences.column(1) == [["DT", "NN"], ["VBD"]]
    tokens, labels = sentences.split_labels()
    assert tokens == [[("The", "DT"), ("cat", "NN")], [("sat", "VBD")]]
    assert labels == [["B-NP", "I-NP"], ["B-VP"]]
    with pytest.raises(IndexError):
        sentences[2]


def test_conll_selects_columns(tmp_path):
    path = spell("a b c\nd e f\n", tmp_path)
    assert list(read_conll(path, columns=(-1, 0))) == [[("c", "a"), ("f", "d")]]
    with raises("columns", got="3", expected="a column from -3 to 2"):
        read_conll(path, columns=[3])
    with raises("columns", got="[]", expected="at least one column or None"):
        read_conll(path, columns=[])
    with raises("columns", got="'x'", expected="a column from -3 to 2"):
        read_conll(path, columns=["x"])
    with raises("index", got="7", expected="a column from -3 to 2"):
        read_conll(path).column(7)
    with raises("columns", got="a single column", expected="a label column and at least one more"):
        read_conll(path, columns=[0]).split_labels()


def test_conll_tabs_keep_spaces_and_other_blanks(tmp_path):
    sentences = read_conll(spell("New York\tB-LOC\n10\u00a0000\tO \n\t\n", tmp_path))
    assert list(sentences) == [[("New York", "B-LOC"), ("10\u00a0000", "O")]]


def test_conll_whitespace_is_ascii_only(tmp_path):
    assert list(read_conll(spell("10\u00a0000 CD O\n", tmp_path))) == [[("10\u00a0000", "CD", "O")]]


def test_conll_document_starts_end_sentences(tmp_path):
    text = "-DOCSTART- -X- O\n\na O\n-DOCSTART- (2)\nb O\n"
    assert list(read_conll(spell(text, tmp_path))) == [[("a", "O")], [("b", "O")]]


def test_conll_byte_order_mark_and_compression(tmp_path):
    path = spell(gzip.compress("\ufeffa O\n".encode()), tmp_path, "data.GZ")
    assert list(read_conll(path)) == [[("a", "O")]]


def test_conll_stdin(monkeypatch):
    with_stdin(monkeypatch, b"\xef\xbb\xbfa O\n")
    assert list(read_conll("-")) == [[("a", "O")]]
    with_stdin(monkeypatch, b"a O\nb\n")
    with raises("<stdin>", expected="2 columns separated by whitespace as in the first", line=2, error=FormatError):
        read_conll("-")


@pytest.mark.parametrize(
    ("data", "line", "expected"),
    [
        (b"a b c\nd e f\ng h\n", 3, "3 columns separated by"),
        (b"a\tb\nc d\n", 2, "2 columns separated by tabs"),
        (b"a b\n# a comment line\n", 2, "2 columns separated by"),
        (b"a\tb\nc\t\n", 2, "a value in column 2, such as _"),
        (b"a b\nc \xff\n", 2, "UTF-8 text"),
        (b"a \xe2\x82 b\n", 1, "UTF-8 text"),
        (b"", 1, "one token per line and a"),
        (b"\n \n-DOCSTART- O\n", 1, "one token per line and a"),
    ],
)
def test_conll_malformed(tmp_path, data, line, expected):
    path = spell(data, tmp_path)
    with raises(str(path), line=line, expected=expected, error=FormatError):
        read_conll(path)


@pytest.mark.parametrize("reader", [read_conll, read_svmlight, read_csv, read_classes])
def test_unreadable_files(tmp_path, reader):
    with raises(expected="a readable file"):
        reader(tmp_path / "absent.csv")
    with raises(expected="a readable file"):
        reader(str(tmp_path))
    with raises("path", got="3", expected="a path without null characters"):
        reader(3)
    for path in ("", "a\0b", Path("a\0b")):
        with raises("path", expected="a path without null characters"):
            reader(path)
    with raises(expected="a readable file"):
        reader(tmp_path / ("x" * 300))


@pytest.mark.parametrize("reader", [read_conll, read_svmlight, read_csv, read_classes])
def test_damaged_compression(tmp_path, reader):
    rng = np.random.default_rng(0)
    lines = "".join(f"1 {i}:{v}\n" for i, v in enumerate(rng.random(5000), 1)).encode()
    whole = gzip.compress(lines)
    corrupt = whole[:100] + bytes(255 - b for b in whole[100:200]) + whole[200:]
    for data in (whole[:-2000], whole[:5], whole[:-3], b"1 1:1\n", corrupt):
        path = spell(data, tmp_path, "data.gz")
        # A table may already lack commas in the lines before the damage.
        with raises(str(path), error=FormatError) as caught:
            reader(path)
        assert caught.value.expected.startswith(("a complete gzip file", "at least one feature and the label"))
        assert caught.value.line >= 1
    path = spell(whole[:5], tmp_path, "data.gz")
    with raises(expected="a complete gzip file", line=1, error=FormatError):
        reader(path)


SENTENCES = st.integers(1, 3).flatmap(
    lambda width: st.lists(
        st.lists(st.tuples(st.tuples(*[WORD] * width), WORD), min_size=1, max_size=4), min_size=1, max_size=4
    )
)


@settings(deadline=None)
@given(sentences=SENTENCES, compressed=st.booleans(), space=st.booleans())
def test_conll_round_trip(tmp_path_factory, sentences, compressed, space):
    path = tmp_path_factory.mktemp("conll") / ("out.gz" if compressed else "out")
    tokens = [[token for token, _ in sentence] for sentence in sentences]
    labels = [[f"{label} x" if space else label for _, label in sentence] for sentence in sentences]
    write_conll(path, tokens, labels)
    read = read_conll(path)
    assert read.split_labels() == (tokens, labels)
    again = path.with_name("again")
    write_conll(again, read, labels)
    assert [row[:-1] for s in read_conll(again) for row in s] == [row for s in read for row in s]


def test_write_conll_targets(tmp_path, capsys):
    sentences = ColumnSentences((["a", "b"], ["X", "Y"]), np.array([0, 1, 2]))
    expected = "a X 1\n\nb Y 2\n\n"
    buffer = io.StringIO()
    write_conll(buffer, sentences, [[1], [2]])
    assert buffer.getvalue() == expected
    write_conll("-", sentences, [[1], [2]])
    assert capsys.readouterr().out == expected
    write_conll(str(tmp_path / "x"), sentences, [np.array(["1"]), np.array(["2"])])
    assert (tmp_path / "x").read_text() == expected


@pytest.mark.parametrize(
    ("sentences", "labels", "parameter", "got", "expected"),
    [
        ([[("a",)]], [], "predicted", "", "labels of 1 sentences"),
        ([[("a",)]], [["x", "y"]], "predicted[0]", "", "one label per token, and at"),
        ([[]], [[]], "predicted[0]", "", "one label per token, and at"),
        ([[("a",), ("b", "c")]], [["x", "y"]], "sentences[0][1]", "", "1 columns as in the first"),
        ([[()]], [["x"]], "sentences[0][0]", "", "1 columns as in the first"),
        ([["a"]], [["x"]], "sentences[0][0]", "'a'", "a tuple of columns"),
        ([[("a",)]], [[""]], "predicted[0][0]", "''", "text without tabs, line"),
        ([[("a\tb",)]], [["x"]], "sentences[0][0]", "'a\\tb'", "text without tabs, line"),
        ([[("a ",)]], [["x"]], "sentences[0][0]", "'a '", "text without tabs, line"),
        ([[("a\nb",)]], [["x"]], "sentences[0][0]", "'a\\nb'", "text without tabs, line"),
        ([[("\ud800",)]], [["x"]], "sentences[0][0]", "'\\ud800'", "text without lone surrogates"),
        ([[("-DOCSTART-",)]], [["x"]], "sentences[0][0]", "'-DOCSTART-'", "a word other than -DOCSTART-"),
    ],
)
def test_write_conll_refuses(tmp_path, sentences, labels, parameter, got, expected):
    path = tmp_path / "out"
    with raises(parameter, got=got, expected=expected):
        write_conll(path, sentences, labels)
    assert not path.exists()


def test_write_conll_unwritable(tmp_path):
    with raises(str(tmp_path / "no" / "x"), expected="a writable path"):
        write_conll(tmp_path / "no" / "x", [[("a",)]], [["b"]])
    with raises(str(tmp_path), expected="a writable path"):
        write_conll(tmp_path, [[("a",)]], [["b"]])


# svmlight


def test_svmlight_reads(tmp_path):
    X, y = read_svmlight(spell("# comment\n+1 1:0.5 3:-2e1 # end\n\n-1\n2 2:1\n", tmp_path))
    np.testing.assert_array_equal(X.toarray(), [[0.5, 0, -20], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(y, [1, -1, 2])
    assert y.dtype == np.int64
    assert X.dtype == np.float64
    assert X.has_canonical_format


def test_a_table_that_is_read_as_svmlight_is_recognized(tmp_path):
    path = spell("width,height,kind\n1.5,2,cup\n3,4.5,bowl\n", tmp_path)
    with raises(
        got="width,height,kind", line=1, error=FormatError, hint="The name of a table must end in .csv or .tsv."
    ):
        read_svmlight(path)


def test_svmlight_number_of_features(tmp_path):
    path = spell("1 2:1\n", tmp_path)
    assert read_svmlight(path, 5)[0].shape == (1, 5)
    assert read_svmlight(path, zero_based=True)[0].shape == (1, 3)
    assert read_svmlight(path, np.int64(3), zero_based=True)[0].shape == (1, 3)
    with raises(got="'2:1'", expected="an index of at most 1", line=1, error=FormatError):
        read_svmlight(path, 1)
    with raises(got="'2:1'", expected="an index of at most 1", line=1, error=FormatError):
        read_svmlight(path, 2, zero_based=True)
    for bad in (0, -1, 1.5, True, "3", 2**31):
        with raises("n_features", expected="an integer from 1 to 2147483647 or None"):
            read_svmlight(path, bad)
    assert read_svmlight(spell("1 2147483647:1\n", tmp_path))[0].shape == (1, 2**31 - 1)


@pytest.mark.parametrize(
    ("labels", "kind", "values"),
    [
        (["1", "-2"], "i", [1, -2]),
        (["1", "-2.5"], "f", [1, -2.5]),
        (["1", "a,b"], "U", ["1", "a,b"]),
        (["é", "nan"], "U", ["é", "nan"]),
        (["1_0", "2"], "U", ["1_0", "2"]),
        (["9223372036854775808", "1"], "U", ["9223372036854775808", "1"]),
        (["1" * 30, "1"], "U", ["1" * 30, "1"]),
        (["-9223372036854775808", "1"], "i", [-(2**63), 1]),
    ],
)
def test_label_types(tmp_path, labels, kind, values):
    _, y = read_svmlight(spell("".join(f"{label} 1:1\n" for label in labels), tmp_path))
    assert y.dtype.kind == kind
    assert y.tolist() == values
    table = "f,y\n" + "".join(f'1,"{label}"\n' for label in labels)
    np.testing.assert_array_equal(read_csv(spell(table, tmp_path, "t.csv"))[1], y)


@pytest.mark.parametrize(
    ("data", "line", "got", "expected"),
    [
        (b"1 1:1\n2 x\n", 2, "'x'", "index:value such as 3:0.5"),
        (b"1 1:2:3 4\n", 1, "'1:2:3'", "a finite number as value"),
        (b"1 1: 2\n", 1, "'1:'", "a finite number as value"),
        (b"1 a:2\n", 1, "'a:2'", "index:value such as 3:0.5"),
        (b"1 1:0x1\n", 1, "'1:0x1'", "a finite number as value"),
        (b"1 1:1_0\n", 1, "'1:1_0'", "a finite number as value"),
        (b"1 1:1e\n", 1, "'1:1e'", "a finite number as value"),
        (b"1 0:1\n", 1, "'0:1'", "an index of at least 1"),
        (b"1 -3:1\n", 1, "'-3:1'", "an index of at least 1"),
        (b"1 2:1 1:1\n", 1, "'1:1'", "an index above 2, as indices"),
        (b"1 2:1 2:1\n", 1, "'2:1'", "an index above 2, as indices"),
        (b"1 2:nan\n", 1, "'2:nan'", "a finite number as value"),
        (b"1 2:-Inf\n", 1, "'2:-Inf'", "a finite number as value"),
        (b"1 2:1e999\n", 1, "'2:1e999'", "a finite number as value"),
        (b"1 2147483648:1\n", 1, "'2147483648:1'", "an index of at most 2147483647"),
        (b"1 " + b"9" * 5000 + b":1\n", 1, "", "an index of at most 2147483647"),
        (b"1 qid:3 1:1\n", 1, "'qid:3'", "index:value pairs only"),
        (b" 3:1\n", 1, "'3:1'", "a label before the pairs"),
        (b"\xff 3:1\n", 1, "", "UTF-8 text"),
        (b"1 \xff:1\n", 1, "'\\\\xff:1'", "index:value such as 3:0.5"),
        (b"1\n2\n", 1, "", "index:value pairs"),
        (b"1.5 1:1\nNaN 1:1\n", 2, "'NaN'", "a finite number as in the"),
        (b"", 1, "", "a label and index:value pairs"),
        (b"# only\n", 1, "", "a label and index:value pairs"),
    ],
)
def test_svmlight_malformed(tmp_path, data, line, got, expected):
    path = spell(data, tmp_path)
    with raises(str(path), line=line, got=got, expected=expected, error=FormatError):
        read_svmlight(path)


def test_svmlight_zero_based_malformed(tmp_path):
    with raises(got="'-0:1'", expected="an index of at least 0", line=1, error=FormatError):
        read_svmlight(spell("1 -0:1\n", tmp_path), zero_based=True)
    with raises(got="'2147483647:1'", expected="an index of at most 2147483646", line=1, error=FormatError):
        read_svmlight(spell("1 2147483647:1\n", tmp_path), zero_based=True)


@settings(deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(-3, 3), st.dictionaries(st.integers(0, 40), FINITE, max_size=5)),
        min_size=1,
        max_size=6,
    ),
    zero_based=st.booleans(),
)
def test_svmlight_round_trip(tmp_path_factory, rows, zero_based):
    first = 0 if zero_based else 1
    text = "".join(
        f"{label} " + " ".join(f"{k + first}:{v!r}" for k, v in sorted(pairs.items())) + "\n" for label, pairs in rows
    )
    path = spell(text, tmp_path_factory.mktemp("svm"))
    X, y = read_svmlight(path, 41, zero_based=zero_based)
    expected = np.zeros((len(rows), 41))
    for i, (_, pairs) in enumerate(rows):
        for k, value in pairs.items():
            expected[i, k] = value
    np.testing.assert_array_equal(X.toarray(), expected)
    assert y.tolist() == [label for label, _ in rows]


# Tables


def test_csv_reads(tmp_path):
    text = '\ufeffx, y ,"cl,ass"\r\n1,2e3,a\r\n\r\n-0.5, 4 ,"b ""q"""\r\n'
    X, y, names = read_csv(spell(text, tmp_path, "t.csv"))
    np.testing.assert_array_equal(X, [[1, 2000], [-0.5, 4]])
    assert X.flags.c_contiguous
    assert y.tolist() == ["a", 'b "q"']
    assert names == ["x", "y"]


def test_csv_label_column_and_tabs(tmp_path):
    path = spell("y\tf 1\n1\t2\n0\t3\n", tmp_path, "t.tsv")
    X, y, names = read_csv(path, label="y")
    assert (X.tolist(), y.tolist(), names) == ([[2.0], [3.0]], [1, 0], ["f 1"])
    with raises("label", got="'z'", expected="['y', 'f 1']"):
        read_csv(path, label="z")


def test_csv_compressed_and_stdin(tmp_path, monkeypatch):
    data = b"a,y\n1,2\n"
    assert read_csv(spell(gzip.compress(data), tmp_path, "t.csv.gz"))[0].tolist() == [[1.0]]
    with_stdin(monkeypatch, data)
    assert read_csv("-")[1].tolist() == [2]


@pytest.mark.parametrize(
    ("data", "line", "got", "expected"),
    [
        (b"a,y\n1,2\nx,2\n", 3, "'x'", "a finite number in column 'a'"),
        (b"a,y\n1,2\n1,2,3\n", 3, "", "2 cells as in the header"),
        (b"a,y\n1,2\n1\n", 3, "", "2 cells as in the header"),
        (b"a,y\nNaN,2\n", 2, "'NaN'", "a finite number in column 'a'"),
        (b"a,y\n1e999,2\n", 2, "'1e999'", "a finite number in column 'a'"),
        (b"a,y\n1_0,2\n", 2, "'1_0'", "a finite number in column 'a'"),
        (b"a,y\n ,2\n", 2, "''", "a finite number in column 'a'"),
        (b"a,y\n1,\n", 2, "", "a label"),
        (b"a,y\n1,1.5\n1,nan\n", 3, "'nan'", "a finite number as in the"),
        (b"a,a\n1,1\n", 1, "'a'", "distinct column names"),
        (b",a\n1,1\n", 1, "", "a name per column"),
        (b"1,2\n3,4\n", 1, "['1', '2']", "a header row with the names"),
        (b"a;y\n1;2\n", 1, "['a;y']", "at least one feature and the"),
        (b"a,y\n", 1, "", "a header row and at least one"),
        (b"", 1, "", "a header row and at least one"),
        (b"a,y\n\xff,1\n", 2, "", "UTF-8 text"),
        (b'a,y\n"1"x,1\n', 2, "", "cells separated by commas"),
        (b'a,y\n"1,1\n', 2, "", "cells separated by commas"),
        (b'a,y\n1,2\n"1\n,2\n3,4\n', 3, "", "cells separated by commas"),
        (b'a,y\n1,2\n"x\ny",2\n', 3, "'x\\ny'", "a finite number in column 'a'"),
        (b"a,y\n1,\x002\n", 2, "", "a table in UTF-8"),
        (b"a,y\n1\r2,1\n", 2, "", "cells separated by commas"),
        (b"a,y\n1," + b"z" * 200_000 + b"\n", 2, "", "cells separated by commas"),
    ],
)
def test_csv_malformed(tmp_path, data, line, got, expected):
    path = spell(data, tmp_path, "t.csv")
    with raises(str(path), line=line, got=got, expected=expected, error=FormatError):
        read_csv(path)


@settings(deadline=None)
@given(
    rows=st.integers(1, 4).flatmap(
        lambda n: st.lists(st.tuples(*[FINITE] * n, st.integers(-9, 9)), min_size=1, max_size=5)
    ),
    kind=st.sampled_from([".csv", ".tsv"]),
)
def test_csv_round_trip(tmp_path_factory, rows, kind):
    delimiter = "," if kind == ".csv" else "\t"
    header = [f"f{k}" for k in range(len(rows[0]) - 1)]
    lines = [[*header, "y"], *(list(map(repr, row)) for row in rows)]
    path = spell("\n".join(delimiter.join(line) for line in lines), tmp_path_factory.mktemp("csv"), f"t{kind}")
    X, y, names = read_csv(path)
    np.testing.assert_array_equal(X, [row[:-1] for row in rows])
    assert y.tolist() == [row[-1] for row in rows]
    assert names == header


def test_classes_choose_the_reader(tmp_path):
    table = b"a,y\n1,2\n"
    for name in ("t.csv", "t.CSV"):
        X, y, names = read_classes(spell(table, tmp_path, name), n_features=1)
        assert (X.tolist(), y.tolist(), names) == ([[1.0]], [2], ["a"])
    assert read_classes(spell(gzip.compress(table), tmp_path, "t.csv.gz"), label="a").y.tolist() == [1]
    path = spell("1 1:2\n", tmp_path, "t.svm")
    data = read_classes(path, n_features=3, zero_based=True)
    assert data.X.toarray().tolist() == [[0, 2, 0]]
    assert data.feature_names is None
    with raises("label", got="'y'", expected="which is read as svmlight without column names"):
        read_classes(path, label="y")
    with raises("zero_based", got="True", expected="which is a table without indices"):
        read_classes(tmp_path / "t.csv", zero_based=True)
    with raises(got="1 features", expected="2 features", line=1, error=FormatError):
        read_classes(tmp_path / "t.csv", n_features=2)


# Whatever the bytes, a reader returns or raises the library's own error.

PIECES = [
    *(b"1", b"-1", b"0", b"-0", b".", b"e", b"a", b"_", b"nan", b"inf", b"1e400", b"99999999999", b"qid"),
    *(b" ", b"\t", b"\n", b"\r", b"\x0b", b"\x0c", b"\x85", b"\0", b":", b",", b'"', b"#", b"-DOCSTART-"),
    *(b"\xff", b"\xc3\xa9", b"\xef\xbb\xbf", b"2:3", b" 4:5", b"a,b\n", b"x,y\n1,2\n", b"1 1:1\n"),
]
LIKELY = st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join))


@settings(deadline=None, max_examples=400)
@given(data=LIKELY, name=st.sampled_from(["f", "f.gz", "f.csv", "f.tsv", "f.csv.gz"]), pack=st.booleans())
def test_hostile_bytes(tmp_path_factory, data, name, pack):
    path = spell(gzip.compress(data, 1) if pack else data, tmp_path_factory.mktemp("hostile"), name)
    for read in (
        read_conll,
        read_svmlight,
        read_csv,
        read_classes,
        lambda path: read_svmlight(path, 3, zero_based=True),
    ):
        try:
            read(path)
        except FormatError as error:
            assert error.path == str(path)  # noqa: PT017
            assert error.line is not None  # noqa: PT017
            assert error.line >= 1  # noqa: PT017


@settings(deadline=None, max_examples=100)
@given(cut=st.integers(0, 60), flips=st.lists(st.tuples(st.integers(0, 59), st.integers(1, 255)), max_size=3))
def test_hostile_gzip(tmp_path_factory, cut, flips):
    data = bytearray(gzip.compress(b"a O\nb O\n\nc O\nd B-X\n" * 3, mtime=0))
    for position, flip in flips:
        data[position % len(data)] ^= flip
    path = spell(bytes(data[:cut]), tmp_path_factory.mktemp("hostile"), "f.gz")
    try:
        read_conll(path)
    except FormatError as error:
        assert str(path) in str(error)  # noqa: PT017


@pytest.mark.parametrize(("header", "is_data"), [("0.84,0.76,a", True), ("0,1,label", False), ("1e3,2,a", True)])
def test_a_table_without_header_does_not_lose_a_row(header, is_data, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(f"{header}\n0.1,0.2,b\n")
    if is_data:
        with raises(expected="a header row with the names of the columns", line=1, error=FormatError):
            read_csv(path)
    else:
        assert read_csv(path)[2] == ["0", "1"]
