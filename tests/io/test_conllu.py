import gzip
import io
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import fail, run
from error_fields import raises
from latentstruct.exceptions import FormatError
from latentstruct.io import read_conll, read_conllu, write_conllu
from latentstruct.io.conllu import looks_like_conllu

TEXT = (
    "# newdoc id = d1\n"
    "# text = Vámonos al mar !\n"
    "1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "1\tVamos\tir\tVERB\t_\tMood=Imp\t0\troot\t_\t_\n"
    "2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_\n"
    "3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_\n"
    "4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_\n"
    "5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\tA=b|Confidence=0.1\n"
    "5.1\tx\tx\tVERB\t_\t_\t_\t_\t1:dep\t_\n"
    "6\t!\t!\tPUNCT\t_\t_\t1\tpunct\t_\t_\n"
    "\n"
    "# only a comment\n"
    "\n"
    "1\tNew York\tNew York\tPROPN\t_\t_\t0\troot\t_\t_\n"
    "\n"
)
FIELD = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=3)
OTHER = st.one_of(
    FIELD.map(lambda text: f"# {text}"),
    st.lists(FIELD, min_size=9, max_size=9).map(lambda rest: "\t".join(["1-2", *rest])),
    st.lists(FIELD, min_size=9, max_size=9).map(lambda rest: "\t".join(["7.1", *rest])),
)
WORD = st.lists(FIELD, min_size=9, max_size=9)
SENTENCES = st.lists(st.lists(OTHER | WORD, max_size=6), max_size=4).filter(
    lambda sentences: any(isinstance(line, list) for lines in sentences for line in lines)
)


def written(sentences, newline):
    lines = []
    for sentence in sentences:
        words = iter(range(1, 99))
        lines += ["\t".join([str(next(words)), *one]) if isinstance(one, list) else one for one in sentence]
        lines.append("")
    return "".join(line + newline for line in lines)


@given(SENTENCES, st.sampled_from(["\n", "\r\n"]), st.integers(1, 9))
def test_only_the_chosen_column_changes(tmp_path_factory, sentences, newline, column):
    folder = tmp_path_factory.mktemp("conllu")
    file, out = folder / "a.conllu", folder / "b.conllu.gz"
    text = written(sentences, newline)
    file.write_bytes(text.encode())
    found = read_conllu(file)
    words = [[one for one in sentence if isinstance(one, list)] for sentence in sentences]
    words = [some for some in words if some]
    assert found.column(1) == [[word[0] for word in some] for some in words]
    write_conllu(out, found, column, found.column(column))
    assert gzip.decompress(out.read_bytes()).decode() == text
    others = [[f"v{i}{j}" for j in range(len(some))] for i, some in enumerate(words)]
    write_conllu(out, found, column, others)
    again = read_conllu(out)
    for k in range(10):
        assert again.column(k) == (others if k == column else found.column(k))
    assert again.others == found.others


def test_words_comments_and_nodes(tmp_path):
    file = tmp_path / "a.conllu"
    file.write_text(TEXT)
    found = read_conllu(file)
    assert found.column(1) == [["Vamos", "nos", "a", "el", "mar", "!"], ["New York"]]
    assert len(found.others) == 9
    write_conllu(tmp_path / "b", found, 3, found.column(3), [[0.5] * 6, np.array([1.0])])
    again = read_conllu(tmp_path / "b")
    assert again.column(9) == [
        ["Confidence=0.5000"] * 4 + ["A=b|Confidence=0.5000", "Confidence=0.5000"],
        ["Confidence=1.0000"],
    ]
    assert looks_like_conllu(TEXT.encode())
    assert looks_like_conllu(TEXT.encode().split(b"\n", 3)[3])
    assert not looks_like_conllu(b"1 the DET\n")
    assert not looks_like_conllu(b"the\tDET\n")


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("", 1, "a word per line"),
        ("# x\n", 1, "a word per line"),
        ("1\ta\n", 1, "the 10 columns of CoNLL-U"),
        ("\n" + "x" + "\t_" * 9, 2, "an ID such as 1"),
        ("0" + "\t_" * 9, 1, "an ID such as 1"),
        ("1" + "\t_" * 8 + "\t \n", 1, "a value of MISC"),
    ],
)
def test_mistakes(tmp_path, text, line, expected):
    (tmp_path / "a.conllu").write_text(text)
    with raises(error=FormatError, line=line, expected=expected):
        read_conllu(tmp_path / "a.conllu")


def test_values_that_do_not_fit(tmp_path):
    (tmp_path / "a.conllu").write_text(TEXT)
    found = read_conllu(tmp_path / "a.conllu")
    for column, predicted, confidence, parameter in (
        (10, found.column(3), None, "column"),
        (0, found.column(3), None, "column"),
        (3, found.column(3)[:1], None, "predicted"),
        (3, [["X"], ["Y"]], None, "predicted[0]"),
        (3, [[""] * 6, ["Y"]], None, "predicted"),
        (3, found.column(3), [["high"] * 6, [0.5]], "confidence"),
    ):
        with raises(parameter):
            write_conllu(tmp_path / "b", found, column, predicted, confidence)
    assert not (tmp_path / "b").exists()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.conllu"
    path.write_text(TEXT * 4)
    return path


def test_a_tagger_reads_and_writes_conllu(file, tmp_path):
    run("train", "chain", file, "--valid", file, "-o", tmp_path / "tagger", "--quiet")
    run("predict", tmp_path / "tagger", file, "-o", tmp_path / "out.conllu")
    assert (tmp_path / "out.conllu").read_text() == file.read_text()
    # Another name, as the model knows the format.
    run("predict", tmp_path / "tagger", "-", "--confidence", "-o", tmp_path / "out", stdin=TEXT.encode())
    found = read_conllu(tmp_path / "out")
    assert found.column(3) == read_conllu(file).column(3)[:2]
    assert all(misc.rpartition("|")[2].startswith("Confidence=") for misc in found.column(9)[0])
    run("train", "chain", "-", "-o", tmp_path / "piped", "--quiet", stdin=gzip.compress(file.read_bytes()))
    model = (tmp_path / "tagger" / "model.json").read_text(), (tmp_path / "piped" / "model.json").read_text()
    assert [text.count('"label_column":3') for text in model] == [1, 1]
    assert "--topk must be left out for CoNLL-U" in fail(
        "predict", tmp_path / "tagger", file, "--topk", 2, "-o", tmp_path / "no"
    )


def test_any_column_is_a_label(file, tmp_path):
    options = ("--label-column", 7, "--columns", "1,3", "--quiet")
    run("train", "chain", file, "-o", tmp_path / "tagger", *options)
    run("predict", tmp_path / "tagger", file, "-o", tmp_path / "out.conllu")
    assert (tmp_path / "out.conllu").read_text() == file.read_text()
    assert "tokens in columns" in fail("prepare", "chain", file, "-o", tmp_path / "folder")
    assert "weight" in fail("train", "chain", file, "--weight-column", 9, "-o", tmp_path / "no")


def test_tabs_stay_tabs(tmp_path):
    file = tmp_path / "train.txt"
    for separator in ("\t", " "):
        lines = [["Mara", "B-PER"], ["left", "O"]]
        file.write_text("".join(separator.join(one) + "\n" for one in lines) + "\n")
        run("train", "chain", file, "-o", tmp_path / "tagger", "--quiet")
        for flags, width in (((), 3), (("--confidence",), 4), (("--topk", 1), 5)):
            run("predict", tmp_path / "tagger", file, "-o", tmp_path / "out.txt", *flags)
            written = (tmp_path / "out.txt").read_text().splitlines()
            assert [len(line.split(separator)) for line in written if line] == [width] * 2


def test_a_compressed_standard_input(monkeypatch):
    for content in (b"a X\n\n", gzip.compress(b"a X\n\n"), gzip.compress(b"a X\n") + gzip.compress(b"\n")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert read_conll("-").columns == (["a"], ["X"])
    for content in (b"", gzip.compress(b"a X\n\n")[:-9], b"\x1f\x8bxx"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        with raises(error=FormatError):
            read_conll("-")


def test_columns_that_are_hardly_labels(tmp_path):
    file = tmp_path / "train.txt"
    file.write_text("".join(f"{word} X\n" for word in "abcdefgh") + "\n")
    shown = run("train", "chain", file, "--label-column", 0, "--max-iter", 1, "-o", tmp_path / "m", "--quiet").stderr
    assert "column 0" not in shown
    file.write_text("".join(f"{word} {word}\n" for word in "abcdefgh") + "\n")
    shown = run("train", "chain", file, "--max-iter", 1, "-o", tmp_path / "m", "--quiet").stderr
    assert "column 1 (from 0)" in shown
    assert "is the word itself at 8 of 8 tokens" in shown
    file.write_text("".join(f"w{k} {k}\n" for k in range(250)) + "\n")
    shown = run("train", "chain", file, "--max-iter", 1, "-o", tmp_path / "m", "--quiet").stderr
    assert "has 250 different labels; use --label-column" in shown


def test_documents_are_numbered(tmp_path):
    word, file = "1\ta" + "\t_" * 8 + "\n\n", tmp_path / "a.conllu"
    file.write_text(f"# newdoc id = x\n{word}{word}# newdoc\n# text = a\n{word}", encoding="utf-8")
    documents = read_conllu(file).documents
    assert documents[0] == documents[1] < documents[2]
    file.write_text(word, encoding="utf-8")
    assert read_conllu(file).documents is None
