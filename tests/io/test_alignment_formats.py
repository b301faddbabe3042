"""Aligned pairs, substitution matrices, PREFAB and the scores of alignments: round trips, twins and hostile files."""

import io
import os
import sys
import tarfile
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.exceptions import FormatError
from latentstruct.io.alignments import (
    SequencePairs,
    gapped_rows,
    read_alignments,
    read_sequence_pairs,
    read_tracks,
    write_alignments,
)
from latentstruct.io.ncbi_matrix import blosum62, read_ncbi_matrix, write_ncbi_matrix
from latentstruct.metrics.alignments import alignment_scores, modeler_scores, q_scores
from latentstruct_papers.datasets import load_prefab

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")

letters = st.text("ACDWXY", min_size=1, max_size=12)
words = st.text("abcXYZ019_|é", min_size=1, max_size=8)


@st.composite
def alignments(draw, min_size=0):
    """Draw two sequences and matches between them."""
    a, b = draw(letters), draw(letters)
    m = draw(st.integers(min_size, min(len(a), len(b))))
    return (a, b), np.stack([_choice(draw, len(row), m) for row in (a, b)], axis=1)


def _choice(draw, n, m):
    return np.array(sorted(draw(st.permutations(range(n)))[:m]), dtype=np.int64)


def written(tmp_path, content, name="a.fa"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@settings(deadline=None)
@given(st.data(), st.integers(1, 25), st.sampled_from(["a.fa", "a.fa.gz"]))
def test_round_trip(tmp_path_factory, data, line_width, name):
    found = [data.draw(alignments(min_size=1)), *data.draw(st.lists(alignments(), max_size=3))]
    names = [data.draw(st.tuples(words, words)) for _ in found]
    pairs = SequencePairs(names, [pair for pair, _ in found], [matches for _, matches in found])
    path = tmp_path_factory.mktemp("pairs") / name
    write_alignments(path, pairs, line_width)
    for read, lower_case in ((read_alignments(path), False), (read_alignments(path, lower_case=True), True)):
        assert (read.names, read.sequences, len(read)) == (pairs.names, pairs.sequences, len(found)), lower_case
        assert all(np.array_equal(one, other) for one, other in zip(read.matches, pairs.matches, strict=True))
    bare = read_sequence_pairs(path)
    assert (bare.names, bare.sequences, bare.matches) == (pairs.names, pairs.sequences, None)


@given(alignments())
def test_gapped_rows_hold_both_sequences_and_no_empty_column(found):
    pair, matches = found
    rows = gapped_rows(pair, matches)
    assert tuple(row.replace("-", "") for row in rows) == pair
    assert all(column != ("-", "-") for column in zip(*rows, strict=True))
    both = sum("-" not in column for column in zip(*rows, strict=True))
    assert both == len(matches)


def test_case_and_gaps_of_reference_alignments(tmp_path, monkeypatch):
    content = b"\xef\xbb\xbf>a one\r\nAC.d\r\n\r\n E-f\n>b\n-CxdE Ff\n"
    path = written(tmp_path, content)
    read = read_alignments(path)
    assert (read.names, read.sequences) == ([("a", "b")], [("ACDEF", "CXDEFF")])
    assert read.matches[0].tolist() == [[1, 0], [3, 3]]
    assert read_alignments(path, lower_case=True).matches[0].tolist() == [[1, 0], [2, 2], [3, 3], [4, 5]]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert read_alignments("-").sequences == read.sequences


def test_pir(tmp_path):
    content = b">P1;1abc\n\nAC-\nD E*\nremark\n>P1; 2xyz\nstructureX:2xyz\nACD\n-E*\n"
    read = read_alignments(written(tmp_path, content, "a.pir"))
    assert (read.names, read.sequences) == ([("1abc", "2xyz")], [("ACDE", "ACDE")])
    assert read.matches[0].tolist() == [[0, 0], [1, 1], [3, 3]]


@pytest.mark.parametrize(
    ("content", "line", "got", "expected"),
    [
        (b"", None, "", "lines '>name' followed by"),
        (b"AC\n", 1, "'AC'", "a first line that starts with"),
        (b">a\nAC\n>b\nA-\n>c\nAC\n", 5, "", "an even number of records"),
        (b">a\nAC\n", 1, "", "an even number of records"),
        (b">a\nAC\n>b\nA\n", 3, "", "2 columns as in the row of"),
        (b">a\nA1\n>b\nAC\n", 2, "", "letters of either case and"),
        (b">a\nAC*\n>b\nACD\n", 2, "", "letters of either case and"),
        (b">a\n\xc3\xa9A\n>b\nAC\n", 2, "", "letters of either case and"),
        (b">a\n\xffA\n>b\nAC\n", 2, "", "UTF-8 text"),
        (b">a\n--\n>b\nAC\n", 1, "", "letters of the sequence 'a'"),
        (b">a\n>b\nAC\n", 1, "", "letters of the sequence 'a'"),
        (b">a\nac\n>b\nAC\n", None, "", "a column with two upper-case"),
        (b">a\nA-\n>b\n-C\n", None, "", "a column with two upper-case"),
        (b">\nAC\n>b\nAC\n", 1, "", "'>name description'"),
        (b">P1;a\ntitle\nAC\n>P1;b\ntitle\nAC*\n", 1, "", "a line of remarks, letters"),
    ],
)
def test_bad_alignments(tmp_path, content, line, got, expected):
    with raises(file="a.fa", line=line, got=got, expected=expected):
        read_alignments(written(tmp_path, content))


def test_bad_pairs_to_write(tmp_path):
    pair = [("a", "b")], [("AC", "ACD")]
    for matches in ([[0, 0], [0, 1]], [[0, 1], [1, 1]], [[2, 0]], [[0, 3]], [[-1, 0]]):
        with raises("matches", expected="positions below 2 and 3 that increase in both columns from 0"):
            write_alignments(tmp_path / "a.fa", SequencePairs(*pair, [np.array(matches)]))
    with raises("pairs", got="pairs without matches", expected="aligned pairs"):
        write_alignments(tmp_path / "a.fa", SequencePairs(*pair))
    with raises("pairs", got="'a b'", expected="pairs whose names have no white space"):
        write_alignments(tmp_path / "a.fa", SequencePairs([("a b", "b")], pair[1], [np.zeros((0, 2))]))
    with raises("line_width", got="0", expected="at least 1"):
        write_alignments(tmp_path / "a.fa", SequencePairs(*pair, [np.zeros((0, 2))]), 0)
    assert not list(tmp_path.iterdir())


def test_tracks(tmp_path):
    assert read_tracks(written(tmp_path, b">a x\nHH-\n.E\n>b\nC\n>a\nHH-.E\n")) == {"a": "HH-.E", "b": "C"}
    with raises(got="'a'", expected="one record per sequence", line=3, error=FormatError):
        read_tracks(written(tmp_path, b">a\nHH\n>a\nHE\n"))
    with raises(got="b'\\xc3\\xa9'", expected="visible ASCII characters, one per letter", line=2, error=FormatError):
        read_tracks(written(tmp_path, b">a\n\xc3\xa9\n"))
    with raises(got="no records", expected="lines '>name' followed by states", error=FormatError):
        read_tracks(written(tmp_path, b"\n"))


@settings(deadline=None)
@given(st.data())
def test_matrix_round_trip(tmp_path_factory, data):
    alphabet = "".join(data.draw(st.permutations("ACDX*"))[: data.draw(st.integers(1, 5))])
    n = len(alphabet)
    rows = data.draw(st.lists(st.lists(st.integers(-30, 30), min_size=n, max_size=n), min_size=n, max_size=n))
    path = tmp_path_factory.mktemp("matrix") / "m.txt"
    assert write_ncbi_matrix(path, alphabet, rows, 11.0, 1.0, scale=1.0) == 1.0
    read = read_ncbi_matrix(path)
    assert (read.letters, read.scores.tolist()) == (alphabet, rows)
    assert "open_gap_score = -11, extend_gap_score = -1. BLAST, rounded: gapopen 10, gapextend 1." in path.read_text()
    # A further letter's cost is often far below 1: rounded alone it would be lost.
    write_ncbi_matrix(path, alphabet, rows, 11.0, 0.26, scale=1.0)
    assert "extend_gap_score = -0.26. BLAST, rounded: gapopen 11, gapextend 0." in path.read_text()
    write_ncbi_matrix(path, alphabet, rows, -3.0, 1.0, scale=1.0, remark="A 1\nC 2")
    assert read_ncbi_matrix(path).scores.tolist() == rows
    assert "open_gap_score = 3, extend_gap_score = -1. BLAST, rounded: gaps that gain" in path.read_text()
    scale = write_ncbi_matrix(path, alphabet, np.array(rows) / 7)
    assert np.abs(read_ncbi_matrix(path).scores / scale - np.array(rows) / 7).max() <= 0.5 / scale + 1e-12
    assert scale == 1.0 or np.abs(read_ncbi_matrix(path).scores).max() == 100


def test_blosum62_and_parts_of_it():
    matrix = blosum62()
    assert matrix.letters == "ARNDCQEGHILKMFPSTWYVBZX*"
    assert np.array_equal(matrix.scores, matrix.scores.T)
    # The sums are those of the published matrix: they tell a slip of the pen.
    assert (matrix.scores[:20, :20].sum(), np.trace(matrix.scores[:20, :20])) == (-426, 116)
    part = matrix.restricted("WAC")
    assert part.scores.tolist() == [[11, -3, -2], [-3, 4, 0], [-2, 0, 9]]
    with raises("letters", got="'O'", expected="letters of the matrix (ARNDCQEGHILKMFPSTWYVBZX*)"):
        matrix.restricted("AO")


@pytest.mark.parametrize(
    ("content", "line", "got", "expected"),
    [
        ("", None, "", "a row of letters and one row"),
        ("# remark\n", None, "", "a row of letters and one row"),
        (" A C\nA 1 2\n", None, "", "a row of letters and one row"),
        (" A C\nA 1\nC 1 2\n", 2, "", "2 scores, one per letter"),
        (" A C\nA 1 x\nC 1 2\n", 2, "'x'", "finite numbers as scores"),
        (" A C\nA 1 1e999\nC 1 2\n", 2, "'1e999'", "finite numbers as scores"),
        (" A C\nA 1 2\nA 1 2\n", 3, "", "one row per letter"),
        (" A C\nD 1 2\n", 2, "'D'", "a row that starts with one of"),
        (" A A\nA 1 2\n", 1, "'A'", "distinct letters of columns"),
        (" 1 2\n3 4\n", 1, "'1'", "single letters in the first"),
        (" AC\n", 1, "'AC'", "single letters in the first"),
    ],
)
def test_bad_matrices(tmp_path, content, line, got, expected):
    with raises(file="m.txt", line=line, got=got, expected=expected):
        read_ncbi_matrix(written(tmp_path, content.encode(), "m.txt"))


def test_bad_matrices_to_write(tmp_path):
    for alphabet, scores, parameter, got, expected in (
        ("AC", [[1.0]], "scores", "[[1.0]]", "finite numbers of shape (2"),
        ("A", [[np.nan]], "scores", "[[nan]]", "finite numbers of shape (1"),
        ("AA", np.eye(2), "letters", "'AA'", "distinct visible characters"),
        ("", np.zeros((0, 0)), "letters", "''", "distinct visible characters"),
        ("A ", np.eye(2), "letters", "'A '", "distinct visible characters"),
    ):
        with raises(parameter, got=got, expected=expected):
            write_ncbi_matrix(tmp_path / "m.txt", alphabet, scores)
    with raises("scale", got="0", expected="a finite number above 0 or None"):
        write_ncbi_matrix(tmp_path / "m.txt", "A", [[1.0]], scale=0)


@given(alignments(), st.data(), st.integers(0, 5))
def test_scores_by_counting(found, data, tolerance):
    pair, y = found
    m = data.draw(st.integers(0, min(map(len, pair))))
    guess = np.stack([_choice(data.draw, len(row), m) for row in pair], axis=1)
    hits = sum(any(i == k and abs(j - l) <= tolerance for k, l in guess) for i, j in y)
    assert q_scores([y], [guess], tolerance)[0] == (hits / len(y) if len(y) else 1.0)
    exact = len({tuple(row) for row in y.tolist()} & {tuple(row) for row in guess.tolist()})
    assert modeler_scores([y], [guess])[0] == (exact / m if m else 1.0)
    both = alignment_scores([y, y], [guess, y], [0, tolerance])
    assert (both["n_pairs"], both["n_matches"]) == (2, 2 * len(y))
    assert both["q"][tolerance] == pytest.approx((1 + q_scores([y], [guess], tolerance)[0]) / 2)


def test_bad_alignments_to_score():
    for true, predicted, parameter, got, expected in (
        ([[(0, 0)]], [], "predicted", "", "a sequence of 1 alignments"),
        ([], [], "true", "", "at least one alignment"),
        ([[(0, 0), (0, 1)]], [[]], "true[0]", "(0, 1) after (0, 0)", "matches"),
        ([[]], [[(1, 1), (2, 0)]], "predicted[0]", "(2, 0) after (1, 1)", "matches"),
        ([[]], [[(-1, 1)]], "predicted[0]", "(-1, 1)", "positions of at least 0"),
        ([[]], [[(0, 0), (1,)]], "predicted[0]", "rows of different lengths", "an array"),
        ([[0, 1]], [[]], "true[0]", "int64 of shape (2,)", "pairs"),
        ([[(0.5, 1.0)]], [[]], "true[0]", "float64 of shape (1, 2)", "integers"),
    ):
        with raises(parameter, got=got, expected=expected):
            q_scores(true, predicted)
    for tolerance in (-1, None, 0.5):
        with raises("tolerance", got=tolerance):
            q_scores([[(0, 0)]], [[]], tolerance)


ARCHIVE = "protein_alignments/bench1.0_bali3_ox_sabre_prefab4ref.tar.gz"
REF, INFO = "bench1.0/prefab4/ref/", "bench1.0/prefab4/info/pctids.txt"


def archive(home, files):
    path = home / ARCHIVE
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as made:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return home


def test_small_prefab(tmp_path):
    files = {
        REF + "2_b": b">b\nAC.\n>a\nACd\n",
        "bench1.0/ox/ref/x": b"not read",
        REF + "1_a": b">a\nAC\n>b\nDE\n",
        INFO: b"1_a;0\n",
    }
    read = load_prefab(archive(tmp_path, files))
    assert (read.ids, read.names) == (["1_a", "2_b"], [("a", "b"), ("b", "a")])
    assert read.sequences == [("AC", "DE"), ("AC", "ACD")]
    assert np.array_equal(read.identities, [0.0, np.nan], equal_nan=True)
    assert len(read) == 2


@pytest.mark.parametrize(
    ("files", "file", "line", "got", "expected"),
    [
        ({"x": b""}, "bench1.0_bali3_ox_sabre_prefab4ref.tar.gz", None, "", "files bench1.0/prefab4/ref/*"),
        ({REF + "a": b">a\nAC\n"}, "a", 1, "", "an even number of records"),
        ({REF + "a": b">a\nA\n>b\nA\n" * 2}, "a", None, "", "one pair"),
        ({REF + "a": b">a\nA\n>b\nA\n", INFO: b"a;x\n"}, "pctids.txt", 1, "'x'", "a percentage from 0 to 100"),
        (
            {REF + "a": b"A" * 1_000_001},
            "bench1.0_bali3_ox_sabre_prefab4ref.tar.gz",
            None,
            "",
            "a complete gzip-compressed",
        ),
    ],
)
def test_bad_prefab(tmp_path, files, file, line, got, expected):
    with raises(file=file, line=line, got=got, expected=expected):
        load_prefab(archive(tmp_path, files))


def test_missing_and_damaged_prefab(tmp_path):
    with raises(got="no such file", expected="a file of the data set"):
        load_prefab(tmp_path)
    archive(tmp_path, {REF + "a": b">a\nA\n>b\nA\n"})
    (tmp_path / ARCHIVE).write_bytes((tmp_path / ARCHIVE).read_bytes()[:60])
    with raises(expected="a complete gzip-compressed tar archive with files", error=FormatError):
        load_prefab(tmp_path)


@needs_data
@pytest.mark.data
def test_prefab_as_it_is():
    read = load_prefab()
    assert (len(read), sum(map(len, read.matches))) == (1681, 305511)
    assert len({name for pair in read.names for name in pair}) == 1791
    assert not np.isnan(read.identities).any()
    for pair, matches in zip(read.sequences, read.matches, strict=True):
        assert (np.diff(matches, axis=0) > 0).all()
        assert (matches.max(axis=0) < [len(row) for row in pair]).all()
