import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import fail, run
from error_fields import raises
from latentstruct.exceptions import FormatError
from latentstruct.io import SpanText, read_conll, read_spans, read_texts, tokenize, write_spans

TEXTS = st.text("ab1 .,-'é\u0301東(\t", max_size=12)
KEYS = ("spans", "label", "labels", "entities")


@given(TEXTS)
def test_tokens_are_all_that_is_no_space(text):
    tokens = tokenize(text)
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert all(a.end <= b.start for a, b in pairwise(tokens))
    assert "".join(token.text for token in tokens) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Mr. O'Neill's e-mail", ["Mr", ".", "O'Neill's", "e-mail"]),
        ("at 10:30, 1,000.5 (3rd)!", ["at", "10:30", ",", "1,000.5", "(", "3rd", ")", "!"]),
        ("re\u0301sume\u0301 - 'quoted'", ["re\u0301sume\u0301", "-", "'", "quoted", "'"]),
        ("", []),
    ],
)
def test_tokens_by_hand(text, tokens):
    assert [token.text for token in tokenize(text)] == tokens


@st.composite
def span_texts(draw):
    """Draw a text with spans: with a text of its own tokens or of those of `tokenize`, or with tokens alone."""
    form = draw(st.sampled_from(["tokens", "text", "both"]))
    if form == "text":
        made = SpanText.of_text(draw(TEXTS.filter(lambda text: text.strip())))
    else:
        tokens = draw(st.lists(st.text("ab.-", min_size=1, max_size=3), min_size=1, max_size=5))
        made = SpanText(tokens)
        if form == "both":
            starts = [sum(map(len, tokens[:k])) + k for k in range(len(tokens))]
            places = [(start, start + len(token)) for start, token in zip(starts, tokens, strict=True)]
            made = SpanText(tokens, None, " ".join(tokens), places)
    cuts = draw(st.lists(st.integers(0, len(made.tokens)), unique=True, max_size=4).map(sorted))
    labels = st.sampled_from(["PER", "B c", None])
    spans = [(a, b, draw(labels)) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
    key = "spans" if made.text is None else draw(st.sampled_from(KEYS))
    others = draw(st.sampled_from([{}, {"id": 3, "meta": {"source": ["x"]}}]))
    return SpanText(made.tokens, spans, made.text, made.places, key, others)


@given(st.lists(span_texts(), max_size=3))
def test_what_is_written_is_read_again(tmp_path_factory, texts):
    file = tmp_path_factory.mktemp("spans") / "a.jsonl.gz"
    write_spans(file, texts, [one.spans for one in texts])
    assert read_spans(file) == texts


def read(tmp_path, *lines):
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_spans(file)


def test_forms_of_other_programs(tmp_path):
    text = "Anna Berg left Porto."
    doccano = {"id": 7, "text": text, "label": [[15, 20, "LOC"], [0, 10, "PER"]], "Comments": []}
    objects = {"text": text, "entities": [{"id": 1, "start_offset": 0, "end_offset": 9, "label": "PER"}]}
    prodigy = {
        "text": "AnnaBerg left",
        "tokens": [
            {"text": part, "start": a, "end": a + len(part)} for part, a in (("Anna", 0), ("Berg", 4), ("left", 9))
        ],
        "spans": [{"start": 4, "end": 8, "token_start": 1, "token_end": 1, "label": "PER"}],
        "answer": "accept",
    }
    first, second, third, last = read(tmp_path, doccano, objects, prodigy, {"text": "New."})
    # The space after "Berg" is no part of the span.
    assert (first.spans, first.others) == ([(0, 2, "PER"), (3, 4, "LOC")], {"id": 7})
    assert second.spans == [(0, 2, "PER")]
    assert (third.tokens, third.spans) == (["Anna", "Berg", "left"], [(1, 2, "PER")])
    assert (last.tokens, last.spans) == (["New", "."], None)
    assert first.record(first.spans) == {"id": 7, "text": text, "label": [(0, 9, "PER"), (15, 20, "LOC")]}
    assert third.record(third.spans)["tokens"][1] == {"text": "Berg", "start": 4, "end": 8}
    assert last.record([(0, 1, "X")]) == {"text": "New.", "spans": [{"start": 0, "end": 3, "label": "X"}]}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({}, "a text, or tokens"),
        ({"tokens": [{"start": 0, "end": 1}]}, "a text, or tokens"),
        ({"tokens": []}, "tokens"),
        ({"text": " "}, "tokens"),
        ({"tokens": ["a"], "spans": [[0, 2, "X"]]}, "0 ≤ first < stop ≤ 1"),
        ({"text": "ab cd", "label": [[0, 2, "X"], [0, 5, "Y"]]}, "spans that do not overlap"),
        ({"text": "ab cd", "label": [[0, 1, "X"]]}, "begin and end with tokens"),
        ({"text": "ab cd", "label": [[2, 3, "X"]]}, "begin and end with tokens"),
        ({"text": "ab cd", "label": [[3, 6, "X"]]}, "0 ≤ start < end ≤ 5"),
        ({"text": "ab cd", "label": [], "spans": []}, "one list of spans"),
        ({"text": "ab cd", "spans": [{"start": 0}]}, "spans with start and end"),
        ({"text": "ab cd", "tokens": ["ab"]}, "tokens with start and end"),
        ({"text": "ab cd", "tokens": [{"start": 3, "end": 5}, {"start": 0, "end": 2}]}, "tokens with start and end"),
        ({"text": "ab", "spans": [[0, 2]]}, ""),
    ],
)
def test_mistakes(tmp_path, line, expected):
    with raises(error=FormatError, line=2, expected=expected):
        read(tmp_path, {"tokens": ["good"]}, line)


def test_models_of_texts(tmp_path):
    lines = [
        {"text": f"{name} left {place}.", "id": k}
        for k, (name, place) in enumerate([("Anna", "Porto"), ("Otto", "Oslo")] * 6)
    ]
    for line in lines:
        start = line["text"].index("left") + 5
        line["label"] = [[0, 4, "PER"], [start, len(line["text"]) - 1, "LOC"]]
    data, plain, out = tmp_path / "train.jsonl", tmp_path / "plain.txt", tmp_path / "out.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("train", "segments", data, "--valid", data, "-C", 10, "-o", tmp_path / "spans", "-q")
    run("predict", tmp_path / "spans", data, "-o", out)
    assert list(map(json.loads, out.read_text().splitlines())) == lines
    plain.write_text("Anna left Oslo.\n\nOtto left Porto.\n")
    run("predict", tmp_path / "spans", plain, "--text", "-o", out)
    found = [
        [(span["start"], span["end"]) for span in one["spans"]] for one in map(json.loads, out.read_text().splitlines())
    ]
    assert found == [[(0, 4), (10, 14)], [(0, 4), (10, 15)]]
    assert [one.tokens for one in read_texts(plain)] == [["Anna", "left", "Oslo", "."], ["Otto", "left", "Porto", "."]]

    columns = tmp_path / "train.txt"
    columns.write_text("Anna B-PER\nleft O\nOslo B-LOC\n. O\n\n" * 3)
    run("train", "chain", columns, "-o", tmp_path / "tagger", "-q")
    run("predict", tmp_path / "tagger", plain, "--text", "--confidence", "-o", tmp_path / "out.txt")
    assert read_conll(tmp_path / "out.txt").column(0) == [["Anna", "left", "Oslo", "."], ["Otto", "left", "Porto", "."]]
    columns.write_text("Anna N B-PER\nleft V O\n\n")
    run("train", "chain", columns, "-o", tmp_path / "tagger", "-q")
    assert "--text must be left out, as the model" in fail("predict", tmp_path / "tagger", plain, "--text")
    plain.write_text("\n")
    for model in ("spans", "tagger"):
        fail("predict", tmp_path / model, plain, "--text")
