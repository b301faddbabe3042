"""Records as JSON lines: one a line, each decoded as a type of msgspec."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from latentstruct.io.text import FilePath, Source, write_text

Record = TypeVar("Record")

_PLACE = re.compile(r"(?P<what>.*) - at `\$\.?(?P<where>.*)`")


def read_records(
    source: Source, kind: type[Record], expected: str, explain: Callable[[bytes, str, str], str]
) -> Iterator[Record]:
    """Yield the records of a text; empty lines are skipped.

    Parameters
    ----------
    source : Source
        The lines.
    kind : type
        What a line is decoded as: its fields and their types are declared there.
    expected : str
        What a message expects if a line is not JSON, such as "a whole graph on each line".
    explain : function of bytes, str and str
        Given a line of JSON that is no such record, what is wrong and at which path, returns what to say of it.
    """
    decoder = msgspec.json.Decoder(kind)
    for raw in source:
        if not raw.strip():
            continue
        try:
            record = decoder.decode(raw)
        except msgspec.ValidationError as error:
            match = _PLACE.fullmatch(str(error))
            what, where = (match["what"], match["where"]) if match else (str(error), "")
            source.fail(f"{explain(raw, what.replace('`', ''), where)}: correct it")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            source.decode(raw)
            source.fail(f"the line is not JSON ({error}); expected {expected}: correct it")
        yield record


def write_records(path: FilePath, records: Iterable[Any]) -> None:
    """Write records, one a line."""
    encoder = msgspec.json.Encoder()
    write_text(path, b"".join(encoder.encode(record) + b"\n" for record in records).decode())
