"""Labeled spans as JSON lines, of tokens or of the characters of a text, and tokens of plain text."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from latentstruct.core.formatting import repr_short
from latentstruct.core.validation import check_length
from latentstruct.exceptions import Description, InputError
from latentstruct.io.json_lines import read_records, write_records
from latentstruct.io.text import FilePath, Source

Span = tuple[int, int, str | None]
KEYS = ("spans", "label", "labels", "entities")
"""Names of the lists of spans."""
_LETTER = r"[\w\u0300-\u036f]"
_TOKEN = re.compile(rf"\d+(?:[.,:/]\d+)+|{_LETTER}+(?:[-'’]{_LETTER}+)*|[^\w\s]")


class TextToken(NamedTuple):
    """A token of a text, and the characters `start` to `end` (exclusive) that it has there."""

    text: str
    start: int
    end: int


def tokenize(text: str) -> list[TextToken]:
    """Divide a text into tokens.

    A token is a run of letters, digits and underscores, in which hyphens and apostrophes may be between letters; a
    number with points, commas, colons or slashes between its digits; or any other single character that is no space.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    list of TextToken
        The tokens with their places.

    Examples
    --------
    >>> [token.text for token in tokenize("Mara's e-mail (at 10:30) cost $1,000.")]
    ["Mara's", 'e-mail', '(', 'at', '10:30', ')', 'cost', '$', '1,000', '.']
    """
    if not isinstance(text, str):
        raise InputError("text", text, "a string")
    return [TextToken(found[0], found.start(), found.end()) for found in _TOKEN.finditer(text)]


@dataclass(frozen=True)
class SpanText:
    """Tokens with labeled spans, and the text that they are from.

    Parameters
    ----------
    tokens : list of str
        The tokens.
    spans : list of (int, int, str or None), optional
        First token, token after the last one, and label, None if that is unknown; in order. None if the spans are not
        known.
    text : str, optional
        The text.
    places : list of (int, int)
        The characters of each token, from the first to the one after the last, if there is a text.
    key : str
        The name of the list of spans in files.
    others : dict
        The fields "id" and "meta", if there are any.
    """

    tokens: list[str]
    spans: list[Span] | None = None
    text: str | None = None
    places: list[tuple[int, int]] = field(default_factory=list)
    key: str = "spans"
    others: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_text(cls, text: str) -> "SpanText":
        """Return the tokens of a text by `tokenize`."""
        found = tokenize(text)
        return cls([token.text for token in found], None, text, [(token.start, token.end) for token in found])

    def record(self, spans: Sequence[Span]) -> dict[str, Any]:
        """Return a line of a file with these spans: of characters if there is a text, else of tokens."""
        if self.text is None:
            return {**self.others, "tokens": self.tokens, "spans": list(spans)}
        placed = [(self.places[first][0], self.places[stop - 1][1], label) for first, stop, label in spans]
        found: list[Any] = list(placed)
        if self.key in ("spans", "entities"):
            names = ("start", "end") if self.key == "spans" else ("start_offset", "end_offset")
            found = [{names[0]: start, names[1]: end, "label": label} for start, end, label in placed]
        given: dict[str, Any] = {}
        if self.places != [(token.start, token.end) for token in tokenize(self.text)]:
            given["tokens"] = [{"text": self.text[start:end], "start": start, "end": end} for start, end in self.places]
        return {**self.others, "text": self.text, **given, self.key: found}


class _Place(msgspec.Struct):
    """A token or a span with its characters."""

    start: int | None = None
    end: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    text: str | None = None
    label: str | None = None

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        return (self.start, self.end) if self.start_offset is None else (self.start_offset, self.end_offset)


_Spans = list[Span | _Place] | None


class _Line(msgspec.Struct):
    tokens: list[str | _Place] | None = None
    text: str | None = None
    spans: _Spans = None
    label: _Spans = None
    labels: _Spans = None
    entities: _Spans = None
    id: Any = msgspec.UNSET
    meta: Any = msgspec.UNSET


def read_spans(path: FilePath) -> list[SpanText]:
    """Read sentences or texts with labeled spans, one per line.

    Without a text, a line has tokens, and spans of tokens: ``{"tokens": ["Anna", "left"], "spans": [[0, 1, "PER"]]}``.
    With a text, spans are of its characters: ``{"text": "Anna left", "label": [[0, 4, "PER"]]}`` as Doccano writes them
    (also named ``labels``, and ``entities`` with ``start_offset`` and ``end_offset``), or ``"spans": [{"start": 0,
    "end": 4, "label": "PER"}]`` with ``tokens`` as Prodigy does. Without tokens, they are those of `tokenize`.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.

    Returns
    -------
    list of SpanText
        The texts. Spans begin and end with tokens, without surrounding spaces, and do not overlap.
    """
    source = Source.open(path)
    return [_read(line, source) for line in read_records(source, _Line, "tokens or a text, and spans")]


def read_texts(path: FilePath) -> list[SpanText]:
    """Read plain text: each line that is not empty is a text of its own.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.

    Returns
    -------
    list of SpanText
        The texts, with the tokens of `tokenize` and without spans.
    """
    return [SpanText.of_text(text) for text in Source.open(path).texts() if text.strip()]


def write_spans(path: FilePath, texts: Iterable[SpanText], spans: Iterable[Sequence[Span]]) -> None:
    """Write texts with other spans, in the form in which they were read.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    texts : iterable of n SpanText
        The texts.
    spans : iterable of n sequences
        Spans of tokens (first, stop, label) of each text.
    """
    given, found = list(texts), list(spans)
    check_length(found, len(given), "spans", "lists")
    write_records(path, [one.record(some) for one, some in zip(given, found, strict=True)])


def _read(line: _Line, source: Source) -> SpanText:
    """Return a checked line of a file."""
    named = {key: found for key in KEYS if (found := getattr(line, key)) is not None}
    if len(named) > 1:
        source.fail(Description(f"{' and '.join(named)}"), f"one list of spans: {', '.join(KEYS)}")
    key, given = next(iter(named.items()), ("spans", None))
    others = {name: value for name in ("id", "meta") if (value := getattr(line, name)) is not msgspec.UNSET}
    if line.text is None:
        if line.tokens is None or not all(isinstance(token, str) for token in line.tokens):
            source.fail(Description("neither"), "a text, or tokens as a list of words")
        spans = given if given is None else [_triple(span, source) for span in given]
        found = SpanText(list(map(str, line.tokens)), spans, others=others)
    else:
        found = SpanText.of_text(line.text) if line.tokens is None else _placed(line.text, line.tokens, source)
        spans = given if given is None else [_of_tokens(_triple(span, source), found, source) for span in given]
        found = SpanText(found.tokens, spans, found.text, found.places, key, others)
    if not found.tokens:
        source.fail(Description("none"), "tokens")
    taken: set[int] = set()
    for first, stop, _ in found.spans or []:
        inside = range(first, stop)
        if not 0 <= first < stop <= len(found.tokens) or taken.intersection(inside):
            bounds = f"0 ≤ first < stop ≤ {len(found.tokens)}"
            source.fail(Description(f"the span from {first} to {stop}"), f"spans that do not overlap, {bounds}")
        taken.update(inside)
    if found.spans is not None:
        found.spans.sort(key=lambda span: span[0])
    return found


def _triple(span: Span | _Place, source: Source) -> Span:
    """Return the bounds and the label of a span."""
    if not isinstance(span, _Place):
        return span
    start, end = span.bounds
    if start is None or end is None:
        source.fail(Description("a span without"), "spans with start and end, or start_offset and end_offset")
    return start, end, span.label


def _placed(text: str, tokens: Sequence[str | _Place], source: Source) -> SpanText:
    """Return a text with given tokens."""
    places, last = [], 0
    for token in tokens:
        start, end = (None, None) if isinstance(token, str) else token.bounds
        if start is None or end is None or not last <= start < end <= len(text):
            expected = "tokens with start and end, in order and within the text"
            source.fail(Description(f"the token {repr_short(token)}"), expected)
        places.append((start, end))
        last = end
    return SpanText([text[start:end] for start, end in places], None, text, places)


def _of_tokens(span: Span, found: SpanText, source: Source) -> Span:
    """Return a span of characters as one of tokens; spaces around it are left out."""
    start, end, label = span
    assert found.text is not None, "the span is of a text"
    if not 0 <= start < end <= len(found.text):
        bounds = f"0 ≤ start < end ≤ {len(found.text)}"
        source.fail(Description(f"the span from {start} to {end}"), f"spans of characters, {bounds}")
    inside = found.text[start:end]
    start, end = start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())
    firsts, lasts = ({place[side]: t for t, place in enumerate(found.places)} for side in (0, 1))
    if start not in firsts or end not in lasts or not inside.strip():
        got = Description(f"{repr_short(inside)} from {start} to {end}")
        source.fail(got, "spans that begin and end with tokens", "Give `tokens` with `start` and `end` of your own.")
    return firsts[start], lasts[end] + 1, label
