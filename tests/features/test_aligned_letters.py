"""Aligned sequences: features against their definition, files, and the command."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import fail, run
from error_fields import raises
from latentstruct.data.alphabets import PROTEIN
from latentstruct.features.aligned_letters import AlignedLetters
from latentstruct.io.fasta import read_aligned_fasta


@given(
    st.integers(1, 5).flatmap(lambda n: st.lists(st.text("ACGTacguN-", min_size=n, max_size=n), min_size=1)),
    st.booleans(),
)
def test_features_are_letters_and_pairs_at_positions(sequences, pairs):
    features = AlignedLetters.of(sequences, pairs)
    matrix, names = features.matrix(sequences).toarray(), features.names()
    assert matrix.shape == (len(sequences), len(names)) == (len(sequences), features.n_features)
    assert len(set(names)) == len(names)
    for row, sequence in zip(matrix, sequences, strict=True):
        text = sequence.upper().replace("U", "T")
        expected = {f"{a} at {j}" for j, a in enumerate(text, 1) if a in "ACGT"}
        if pairs:
            neighbors = [text[j : j + 2] for j in range(len(text) - 1)]
            expected |= {f"{ab} at {j}-{j + 1}" for j, ab in enumerate(neighbors, 1) if set(ab) <= set("ACGT")}
        assert {names[k] for k in np.flatnonzero(row)} == expected


def test_proteins():
    features = AlignedLetters.of(["MKX", "LLP"], pairs=False)
    assert features.letters == PROTEIN.letters
    assert features.matrix(["MKX"]).sum() == 2
    with raises("sequences[1]", expected="3 letters, as the other sequences have"):
        features.matrix(["MKX", "MK"])


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (">a label=x\nACG\n>b label=y\nAC\n", 3, "3 letters, as the first sequence has"),
        (">a\nACG\n", 1, "one label=CLASS"),
        (">a label=x label=y\nACG\n", 1, "one label=CLASS"),
        (">a label=x\nA1G\n", 2, "letters, - or"),
        ("\n", None, ""),
    ],
)
def test_bad_files(tmp_path, text, line, expected):
    path = tmp_path / "bad.fa"
    path.write_text(text)
    with raises(file="bad.fa", line=line, expected=expected):
        read_aligned_fasta(path)


def sites(path, n, seed):
    """Donor sites with GT in the middle, acceptor sites with AG there, and others."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        letters, label = rng.choice(list("ACGT"), 12), ("donor", "acceptor", "none")[i % 3]
        letters[5:7] = {"donor": list("GT"), "acceptor": list("AG")}.get(label, letters[5:7])
        lines += [f">s{i} label={label}", "".join(letters)]
    path.write_text("\n".join([*lines, ""]))
    return path


def test_classes_of_aligned_sequences(tmp_path):
    train, test, model = sites(tmp_path / "train.fa", 90, 0), sites(tmp_path / "test.fa", 60, 1), tmp_path / "model"
    result = json.loads(run("train", "classes", train, "-o", model, "--json").stdout)
    assert result["n_features"] == 12 * 4 + 11 * 16
    # C is chosen by folds unless it is given.
    assert "chosen_C" in result
    assert json.loads(run("evaluate", model, test, "--json").stdout)["accuracy"] > 0.8
    assert "GT at 6-7" in run("info", model).stdout
    plain = tmp_path / "plain.fa"
    plain.write_text(">x\nAAAAAGTAAAAA\n>y\nAAAAAAGAAAAA\n")
    assert run("predict", model, plain).stdout.split() == ["donor", "acceptor"]
    run("report", model, "--data", test, "-o", tmp_path / "report.html")
    plain.write_text(">x\nACGT\n")
    assert "sequences of 12 letters" in fail("predict", model, plain)
    single = json.loads(run("train", "classes", train, "--single-letters", "-C", 1, "-o", model, "--json").stdout)
    assert single["n_features"] == 48
    assert "FASTA" in fail("train", "classes", tmp_path / "x.csv", "--single-letters", "-o", model)
