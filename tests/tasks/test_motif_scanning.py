"""All sites of a matrix: p-values against all words, hits against a plain search, files and blocks."""

import gzip
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command import fail, run
from latentstruct.data.alphabets import DNA, PROTEIN
from latentstruct.io import MemeMotif, write_meme
from latentstruct.io.fasta import FastaRules, sequence_blocks
from latentstruct.tasks.motif.scanning import MatrixScanner
from latentstruct.tasks.motif.sites import reverse_complement


def make_motif(seed, width=5, alphabet=DNA):
    rng, ones = np.random.default_rng(seed), np.ones(alphabet.size)
    return MemeMotif("m", rng.dirichlet(0.4 * ones, width), rng.dirichlet(5 * ones), 50)


def plain_hits(scanner, sequence, least):
    """Start, strand, integer score and letters of all windows of known letters, by definition."""
    found, alphabet = [], scanner.alphabet
    for start in range(len(sequence) - scanner.width + 1):
        window = sequence[start : start + scanner.width]
        for strand in (1, -1)[: scanner.strands]:
            word = window if strand > 0 else reverse_complement(window)
            if set(word) - set(alphabet.letters):
                continue
            score = sum(int(scanner.scores[j, alphabet.letters.index(letter)]) for j, letter in enumerate(word))
            if score >= least:
                found.append((start, strand, score, word))
    return found


@pytest.mark.parametrize(("seed", "width", "alphabet"), [(0, 5, DNA), (1, 5, DNA), (2, 5, DNA), (3, 3, PROTEIN)])
def test_p_values_are_those_of_all_words(seed, width, alphabet):
    scanner = MatrixScanner(make_motif(seed, width, alphabet), strands=1)
    background = scanner.motif.background
    words = np.array(list(product(range(alphabet.size), repeat=width)))
    scores = scanner.scores[np.arange(width), words].sum(axis=1)
    probabilities = background[words].prod(axis=1)
    for score in np.unique(scores):
        expected = probabilities[scores >= score].sum()
        assert scanner.p_values[score] == pytest.approx(expected, rel=1e-9)


def written(path, sequences, width=7):
    lines = []
    for name, letters in sequences.items():
        lines += [f">{name} text", *(letters[k : k + width] for k in range(0, len(letters), width))]
    data = "\n".join([*lines, ""]).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([(DNA, 1), (DNA, 2), (PROTEIN, 1)]),
    st.data(),
    st.integers(1, 30),
    st.sampled_from([0.02, 0.3, 0.9]),
    st.integers(1, 9),
)
def test_hits_do_not_depend_on_blocks(tmp_path_factory, kind, data, size, p_value, width):
    alphabet, strands = kind
    spelled = alphabet.letters + alphabet.unknown + alphabet.letters.lower()
    letters = data.draw(st.lists(st.text(spelled, max_size=60), min_size=1, max_size=4))
    path = tmp_path_factory.getbasetemp() / "scan.fa"
    sequences = {f"s{k}": one for k, one in enumerate(letters)}
    written(path, sequences)
    scanner = MatrixScanner(make_motif(0, width, alphabet), p_value, strands)
    found = list(scanner.scan(sequence_blocks(path, width + 2, FastaRules(alphabet=alphabet), size=size)))
    expected = [
        (name, start, strand * (alphabet is DNA), word)
        for name, one in sequences.items()
        for start, strand, _, word in plain_hits(scanner, one.upper(), scanner.least)
    ]
    assert [(hit.sequence, hit.start, hit.strand, hit.site) for hit in found] == expected
    assert all(hit.p_value <= p_value * (1 + 1e-8) and hit.end == hit.start + width for hit in found)
    assert scanner.n_tested == sum(len(plain_hits(scanner, one.upper(), 0)) for one in letters)


def test_q_values_are_those_of_benjamini_and_hochberg():
    rng = np.random.default_rng(0)
    scanner = MatrixScanner(make_motif(1), 0.2, 1)
    text = "".join(rng.choice(list("ACGT"), 400))
    found = plain_hits(scanner, text, 0)
    p_values = np.sort([scanner.p_values[score] for _, _, score, _ in found])
    rates = p_values * len(found) / np.arange(1, len(found) + 1)
    numbers = np.array(["ACGT".index(letter) for letter in text], dtype=np.uint8)
    from latentstruct.io.fasta import SequenceBlock

    hits = list(scanner.scan([SequenceBlock("a", 0, 0, numbers)]))
    assert len(hits) > 10
    adjusted = np.minimum.accumulate(rates[: len(hits)][::-1])[::-1]
    for hit in hits:
        last = np.flatnonzero(np.isclose(p_values, hit.p_value))[-1]
        assert hit.q_value == pytest.approx(min(1.0, adjusted[last]))


def test_files_of_the_command(tmp_path):
    motif = MemeMotif("core", np.eye(4)[[0, 1, 2, 3, 3, 1]], np.full(4, 0.25), 100, 1e-9)
    write_meme(tmp_path / "motif.meme", [motif], 2)
    genome = written(tmp_path / "genome.fa.gz", {"chr1": "GGGACGTTCGGG", "chr2": "TTTGAACGTTTT"})
    args = ("scan", tmp_path / "motif.meme", genome, "--p-value", 1e-3)
    done = run(*args, "-o", tmp_path / "sites.bed")
    assert "core: 2 sites in 28 windows" in done.stderr
    rows = [line.split("\t") for line in (tmp_path / "sites.bed").read_text().splitlines()]
    assert [row[:4] + row[5:] for row in rows] == [["chr1", "3", "9", "core", "+"], ["chr2", "3", "9", "core", "-"]]
    assert {int(row[4]) for row in rows} == {round(60 * np.log10(4))}
    run("scan", tmp_path, genome, "--p-value", 1e-3, "-o", tmp_path / "sites.gff")
    header, first, _ = (tmp_path / "sites.gff").read_text().splitlines()
    assert header == "##gff-version 3"
    assert first.split("\t")[3:5] == ["4", "9"]
    assert first.endswith("sequence=ACGTTC")
    write_meme(tmp_path / "odd.meme", [replace(motif, name="a;b=c")], 2)
    odd = written(tmp_path / "odd.fa", {"chr;1": "GGGACGTTCGGG"})
    (_, one) = run("scan", tmp_path / "odd.meme", odd, "--p-value", 1e-3, "--format", "gff", "-q").stdout.splitlines()
    assert one.startswith("chr%3B1\t")
    assert "ID=a%3Bb%3Dc-1;Name=a%3Bb%3Dc;" in one
    table = run(*args, "--format", "tsv", "--strands", 1, "-q").stdout.splitlines()
    assert table[0].startswith("motif_id\tsequence_name\tstart\tstop")
    assert len(table) == 2


def test_letters_of_other_sequences_are_refused(tmp_path):
    write_meme(tmp_path / "motif.meme", [MemeMotif("core", np.eye(4)[[0, 1, 2, 3, 3, 1]], np.full(4, 0.25), 100)])
    proteins = written(tmp_path / "proteins.fa", {"one": "MKVLEPQ"})
    assert "sequence 'one': expected the letters of DNA or RNA, got 'E'" in fail("scan", tmp_path, proteins)
    # What programs write for masked letters and gaps belongs to no site.
    odd = written(tmp_path / "odd.fa", {"one": "ACGTTCXXXX--ACRTTC*"})
    assert run("scan", tmp_path, odd, "--p-value", 1e-3, "-q").stdout.startswith("one\t0\t6\tcore")


@pytest.mark.parametrize(
    ("name", "first"), [("a.GFF3", "##gff"), ("a.tsv.gz", "motif_id"), ("a.bed.gz", "chr1"), ("plain", "chr1")]
)
def test_the_suffix_decides_about_the_format(name, first, tmp_path):
    write_meme(tmp_path / "motif.meme", [MemeMotif("core", np.eye(4)[[0, 1, 2, 3, 3, 1]], np.full(4, 0.25), 100)])
    genome = written(tmp_path / "genome.fa", {"chr1": "GGGACGTTCGGG"})
    args = ("scan", tmp_path / "motif.meme", genome, "--p-value", 1e-3, "-q")
    run(*args, "-o", tmp_path / name)
    data = (tmp_path / name).read_bytes()
    assert (gzip.decompress(data) if name.endswith(".gz") else data).decode().startswith(first)
    assert "a name that ends in .bed, .gff, .gff3 or .tsv" in fail(*args, "-o", tmp_path / "sites.xls")
    run(*args, "-o", tmp_path / "sites.xls", "--format", "tsv")
