"""FASTA, tables of sites and MEME matrices: round trips and hostile files."""

import gzip
import io
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.data.alphabets import DNA, PROTEIN
from latentstruct.exceptions import FormatError
from latentstruct.io import MemeMotif, Sequences, read_fasta, read_meme, write_fasta, write_meme, write_sites
from latentstruct.io.fasta import FastaRules, read_named_sites, sequence_blocks
from latentstruct.tasks.motif.sites import Site, consensus

words = st.text("abcXYZ019_|.é", min_size=1, max_size=8)
records = st.lists(
    st.tuples(words, st.lists(words, max_size=3).map(" ".join), st.text("ACGTN", min_size=1, max_size=20)),
    min_size=1,
    max_size=4,
    unique_by=lambda record: record[0],
)


@settings(deadline=None)
@given(records, st.integers(1, 25), st.sampled_from(["a.fa", "a.fa.gz"]))
def test_fasta_round_trip(tmp_path_factory, found, line_width, name):
    path = tmp_path_factory.mktemp("fasta") / name
    sequences = Sequences(*map(list, zip(*found, strict=True)))
    write_fasta(path, sequences, line_width)
    assert read_fasta(path) == sequences
    assert len(sequences) == len(found)


def written(tmp_path, content, name="a.fa"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_fasta_forms(tmp_path, monkeypatch):
    content = b"\xef\xbb\xbf\n>a  first  one \r\nacg\r\n\r\nTN\n>b\nA"
    expected = Sequences(["a", "b"], ["first one", ""], ["ACGTN", "A"])
    assert read_fasta(written(tmp_path, content.replace(b"\n>", b">", 1))) == expected
    assert read_fasta(written(tmp_path, gzip.compress(content.replace(b"\n>", b">", 1)), "b.fa.gz")) == expected
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content[4:])))
    assert read_fasta("-") == expected


@pytest.mark.parametrize(
    ("content", "line", "got", "expected"),
    [
        (b"", None, "", "lines '>name' followed by"),
        (b"\n \n", None, "", "lines '>name' followed by"),
        (b"ACGT\n", 1, "'ACGT'", "a first line that starts with"),
        (b"\n\n;x\n>a\nA\n", 3, "';x'", "a first line that starts with"),
        (b">a\nACGT\n>b\n>c\nA\n", 3, "", "letters of the sequence 'b'"),
        (b">a\nACGT\n>b\n", 3, "", "letters of the sequence 'b'"),
        (b">a\nAC GT\n", 2, "", "the letters of DNA or RNA"),
        (b">a\nACGT\nACGE\n", 3, "", "the letters of DNA or RNA"),
        (b">a\nAC-GT\n", 2, "", "the letters of DNA or RNA"),
        (b">a\nAC\0GT\n", 2, "", "the letters of DNA or RNA"),
        ("…".join([">a\nAC", "G\n"]).encode(), 2, "", "the letters of DNA or RNA"),
        (b">a\nAC\xffGT\n", 2, "", "UTF-8 text"),
        (b">\xff\nACGT\n", 1, "", "UTF-8 text"),
        (b">\nACGT\n", 1, "", "'>name description'"),
        (gzip.compress(b">a\nA\n", mtime=0), 1, "", "a first line that starts with"),
    ],
)
def test_fasta_malformed(tmp_path, content, line, got, expected):
    with raises(file="a.fa", line=line, got=got, expected=expected):
        read_fasta(written(tmp_path, content))


def test_letters_and_names_of_real_files(tmp_path):
    path = written(tmp_path, b">a\nacguRy\n>b\nAA\n>a\nCC\n>a_2\nGG\n>a\nTT\n")
    with pytest.warns(UserWarning, match="names occur again|ambiguous letters") as warned:
        found = read_fasta(path)
    assert found.names == ["a", "b", "a_2", "a_2_2", "a_3"]
    assert found.sequences == ["ACGTNN", "AA", "CC", "GG", "TT"]
    texts = [str(one.message) for one in warned]
    assert [f"{path}: 3 names occur again" in texts[0], f"{path}: 2 ambiguous letters" in texts[1]] == [True, True]
    with pytest.warns(UserWarning, match="names occur again|ambiguous letters"):
        assert read_fasta(path, FastaRules(mask_repeats=True)).sequences[0] == "NNNNNN"


def test_bad_records_are_left_out_and_counted(tmp_path):
    path = written(tmp_path, b">a\nACGT\n>b\n>c\nACLT\n>d\nA\n")
    with pytest.warns(UserWarning, match="2 records left out; the first one: .*line 3") as warned:
        found = read_fasta(path, FastaRules(skip_bad=True))
    assert len(warned) == 1
    assert (found.names, found.sequences) == (["a", "d"], ["ACGT", "A"])
    with raises(file="a.fa", line=2, expected="the letters of DNA or RNA"):
        read_fasta(written(tmp_path, b">a\nACLT\n>b\n"), FastaRules(skip_bad=True))


def test_fasta_missing_and_broken(tmp_path):
    with raises(expected="a readable file"):
        read_fasta(tmp_path / "none.fa")
    with raises(expected="a complete gzip file", line=3, error=FormatError):
        read_fasta(written(tmp_path, gzip.compress(b">a\nA\n")[:-9], "a.fa.gz"))
    with raises("line_width", got="0", expected="at least 1"):
        write_fasta(tmp_path / "a.fa", Sequences(["a"], [""], ["A"]), 0)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.fa"
    path.write_bytes(b">a\n" + content)
    try:
        with warnings.catch_warnings(action="ignore"):
            found = read_fasta(path)
    except FormatError:
        return
    assert all(set(sequence) <= set("ACGTN") and sequence for sequence in found.sequences)


def test_proteins(tmp_path):
    path = written(tmp_path, b">a\nMKvlBZ\nXJ*\n>b\nACGT\n", "p.fa")
    with pytest.warns(UserWarning, match="4 ambiguous letters such as B are read as X"):
        assert read_fasta(path, FastaRules(alphabet=PROTEIN)).sequences == ["MKVLXXXXX", "ACGT"]
    with pytest.warns(UserWarning, match="ambiguous"):
        assert read_fasta(path, FastaRules(mask_repeats=True, alphabet=PROTEIN)).sequences[0] == "MKXXXXXXX"
    with raises(got="'l' in column 4", hint="It is a letter of the `alphabet` protein.", line=2, error=FormatError):
        read_fasta(path)
    (first, _) = sequence_blocks(path, 1, FastaRules(alphabet=PROTEIN))
    assert first.letters.tolist() == [10, 8, 17, 9, 20, 20, 20, 20, 20]


def test_sites_table(tmp_path):
    path = tmp_path / "sites.bed"
    write_sites(path, [Site("a", 3, 6, 1, 1.25, "ACG"), Site("b", 0, 3, -1, -2.0, "TTT")])
    assert path.read_text() == (
        "#sequence\tstart\tend\tmotif\tscore\tstrand\tsite\na\t3\t6\tmotif\t1.25\t+\tACG\nb\t0\t3\tmotif\t-2\t-\tTTT\n"
    )
    assert read_named_sites(path)[1] == ("motif", Site("b", 0, 3, -1, -2.0, "TTT"))
    with raises("sites", got="'a\\tb'", expected="sites of sequences whose names have no tabs and line breaks"):
        write_sites(path, [Site("a\tb", 0, 1, 1, 0.0, "A")])


# ---- MEME ------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.sampled_from([DNA, PROTEIN]),
    st.integers(1, 20),
    st.integers(0, 10**6),
    st.integers(1, 999),
    st.sampled_from([1, 2]),
)
def test_meme_round_trip(tmp_path_factory, alphabet, width, seed, n_sites, strands):
    rng, ones = np.random.default_rng(seed), np.ones(alphabet.size)
    matrix, background = rng.dirichlet(ones, width), rng.dirichlet(ones)
    path = tmp_path_factory.getbasetemp() / "motif.meme"
    written = MemeMotif("m1", matrix, background, n_sites, 1.3e-7)
    write_meme(path, [written, replace(written, name="m2", e_value=None)], strands)
    found, other = read_meme(path)
    assert (found.name, found.n_sites, found.e_value) == ("m1", n_sites, 1.3e-7)
    assert (other.name, other.e_value) == ("m2", None)
    assert f"nsites= {n_sites} E= 1.3e-007" in path.read_text()
    np.testing.assert_allclose(found.matrix, matrix, atol=5e-6)
    np.testing.assert_allclose(found.background, background, atol=5e-6)
    np.testing.assert_allclose(found.matrix.sum(axis=1), 1.0, atol=1e-12)
    assert found.alphabet is alphabet
    assert ("strands: + -" in path.read_text()) == (strands == 2 and alphabet is DNA)
    assert ("strands:" in path.read_text()) == (alphabet is DNA)


MEME = """MEME version 4.12

ALPHABET= ACGT

MOTIF first alternative name
letter-probability matrix: alength= 4 w= 2
0.5 0.5 0 0
0 0 0.5 0.5

MOTIF second
letter-probability matrix: alength= 4 w= 1 nsites= 7 E= 1e-5
1 0 0 0
URL http://example.org
"""


def test_meme_of_others(tmp_path):
    first, second = read_meme(written(tmp_path, MEME.encode(), "m.meme"))
    assert (first.name, first.n_sites, first.matrix.shape) == ("first", 20, (2, 4))
    assert (second.name, second.n_sites, second.matrix.tolist()) == ("second", 7, [[1.0, 0.0, 0.0, 0.0]])
    assert first.background.tolist() == [0.25] * 4


def test_meme_of_proteins_and_rna(tmp_path):
    letters = "ACDEFGHIKLMNPQRSTVWY"
    frequencies = [f"{letter} 0.05" for letter in letters]
    text = f"""MEME version 4

ALPHABET= {letters}

Background letter frequencies (from all of them):
{" ".join(frequencies[:9])}
{" ".join(frequencies[9:])}

MOTIF zinc
letter-probability matrix: alength= 20 w= 1 nsites= 3
{" ".join(["0", "1", *["0"] * 18])}
"""
    (zinc,) = read_meme(written(tmp_path, text.encode(), "m.meme"))
    assert (zinc.alphabet, zinc.n_sites, consensus(zinc.matrix)) == (PROTEIN, 3, "C")
    assert zinc.bits.tolist() == pytest.approx([np.log2(20)])
    rna = MEME.replace("ACGT", "ACGU\n\nBackground letter frequencies\nA 0.1 C 0.2 G 0.3 U 0.4")
    first, _ = read_meme(written(tmp_path, rna.encode(), "rna.meme"))
    assert (first.alphabet, first.background.tolist()) == (DNA, [0.1, 0.2, 0.3, 0.4])
    with raises(expected="'ALPHABET= ACGT' or 'ALPHABET= ACDEFGHIKLMNPQRSTVWY'", line=3, error=FormatError):
        read_meme(written(tmp_path, MEME.replace("ACGT", "ABC").encode(), "other.meme"))


@pytest.mark.parametrize(
    ("old", "new", "line", "got", "expected"),
    [
        ("MEME version 4.12", ">a", 1, "'>a'", "'MEME version 4'"),
        ("ACGT", "ACDEFGHIKLMNPQRSTVWY", 6, "'4'", "20 as alength"),
        ("MOTIF second", "MOTIF", 10, "'MOTIF'", "'MOTIF name'"),
        ("MOTIF second\n", "", 10, "", "a line 'MOTIF name' before"),
        ("w= 2", "", 6, "", "'w= ' and the width of the"),
        ("w= 2", "w= x", 6, "'x'", "a positive integer as w"),
        ("w= 2", "w= 0", 6, "'0'", "a positive integer as w"),
        ("w= 2", "w= 9999999999", 6, "'9999999999'", "a positive integer as w"),
        ("alength= 4 w= 2", "alength= 20 w= 2", 6, "'20'", "4 as alength, the number of letters of the alphabet"),
        ("0.5 0.5 0 0", "0.5 0.5 0", 7, "'0.5 0.5 0'", "4 frequencies of A, C, G, T"),
        ("0.5 0.5 0 0", "0.5 0.5 0.5 0", 7, "", "4 frequencies of A, C, G, T"),
        ("0.5 0.5 0 0", "nan 0.5 0 0.5", 7, "", "4 frequencies of A, C, G, T"),
        ("0.5 0.5 0 0", "-0.5 1.5 0 0", 7, "", "4 frequencies of A, C, G, T"),
        ("w= 2", "w= 3", 10, "'MOTIF second'", "4 frequencies of A, C, G, T"),
        (
            "ALPHABET= ACGT",
            "Background letter frequencies\nA 1 C 0",
            6,
            "'A 1 C 0 MOTIF first alternative name'",
            "a frequency after each of A, C, G, T",
        ),
    ],
)
def test_meme_malformed(tmp_path, old, new, line, got, expected):
    assert old in MEME
    with raises(file="m.meme", line=line, got=got, expected=expected):
        read_meme(written(tmp_path, MEME.replace(old, new).encode(), "m.meme"))


def test_meme_refuses(tmp_path):
    path = tmp_path / "m.meme"
    with raises(got="no motif", expected="'MOTIF name' and a matrix", error=FormatError):
        read_meme(written(tmp_path, b"MEME version 4\n", "m.meme"))
    with raises(got="''", expected="'MEME version 4'", line=1, error=FormatError):
        read_meme(written(tmp_path, b"", "m.meme"))
    with raises("name", got="'a b'", expected="one word"):
        write_meme(path, [MemeMotif("a b", np.full((1, 4), 0.25), np.full(4, 0.25))])
    expected = "an array of shape (width, 4) for ACGT or (width, 20) for ACDEFGHIKLMNPQRSTVWY"
    with raises("matrix", got="shape (4,)", expected=expected):
        write_meme(path, [MemeMotif("a", np.full(4, 0.25), np.full(4, 0.25))])
    with raises("matrix", got="20 columns", expected="4, as the first motif has"):
        write_meme(path, [MemeMotif("a", np.full((1, n), 1 / n), np.full(n, 1 / n)) for n in (4, 20)])
    with raises("background", got="shape (4,)", expected="a frequency of each of ACDEFGHIKLMNPQRSTVWY"):
        write_meme(path, [MemeMotif("a", np.full((1, 20), 0.05), np.full(4, 0.25))])
    with raises("background", expected="rows of probabilities that sum to 1"):
        write_meme(path, [MemeMotif("a", np.full((1, 4), 0.25), np.ones(4))])
    with raises("motifs", expected="at least one motif"):
        write_meme(path, [])
