"""Records as JSON lines: one per line, each decoded as a msgspec type."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from latentstruct.core.formatting import repr_short
from latentstruct.exceptions import Description
from latentstruct.io.text import FilePath, Source, write_text

Record = TypeVar("Record")

MOST_SHOWN = 60
"""Most characters of a wrong value in a message."""
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<where>.*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected (?P<type>.*?)(, got .*)?", re.DOTALL)
_FIELDS = {"Object contains unknown field": "the unknown field", "Object missing required field": "no field"}
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]")


def read_records(source: Source, kind: type[Record], expected: str) -> Iterator[Record]:
    """Yield the records of a text, which declares their fields; empty lines are skipped.

    `expected` is what a line must be, such as "a graph".
    """
    decoder = msgspec.json.Decoder(kind)
    for raw in source:
        if not raw.strip():
            continue
        try:
            record = decoder.decode(raw)
        except msgspec.ValidationError as error:
            match = _PLACE.fullmatch(str(error))
            assert match is not None, "the pattern matches any message"
            what, where = match["what"].replace("`", ""), match["where"] or ""
            for found, shown in _FIELDS.items():
                what = what.replace(found, shown)
            wrong = _EXPECTED.fullmatch(what)
            if wrong is None:
                source.fail(Description(f"{what[:1].lower()}{what[1:]}{f' at {where}' if where else ''}"), expected)
            place, value = _find_value(raw, where)
            source.fail(Description(value), f"{wrong['type']} at {place}" if place else f"{expected} ({wrong['type']})")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            text, why = source.decode(raw).strip(), str(error).removeprefix("JSON is malformed: ")
            source.fail(Description(f"{repr_short(text)}, {why}"), f"{expected} as JSON on each line")
        yield record


def _find_value(raw: bytes, where: str) -> tuple[str, str]:
    """Return the place of a wrong value, whose path has `...` for any name, and the value as JSON."""
    place = ""
    try:
        value = json.loads(raw)
        for name, number in _STEP.findall(where):
            if number == "...":
                key = next(key for key, one in value.items() if not _is_scalar(one))
                place, value = f"{place}[{json.dumps(key)}]", value[key]
            elif number:
                place, value = f"{place}[{number}]", value[int(number)]
            else:
                place, value = f"{place}.{name}" if place else name, value[name]
    except (LookupError, TypeError, AttributeError, ValueError, StopIteration, RecursionError):
        # A name that occurs twice in an object leads to another value.
        return where, "another value"
    text = json.dumps(value, ensure_ascii=False)
    return place, text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def write_records(path: FilePath, records: Iterable[Any]) -> None:
    """Write records, one per line."""
    encoder = msgspec.json.Encoder()
    write_text(path, b"".join(encoder.encode(record) + b"\n" for record in records).decode())
