"""Records as JSON lines: one a line, each decoded as a type of msgspec."""

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from latentstruct.formats.text import FilePath, decode_line, fail, numbered_lines, source_name

Record = TypeVar("Record")

_PLACE = re.compile(r"(?P<what>.*) - at `\$\.?(?P<where>.*)`")


def numbered_records(
    path: FilePath, kind: type[Record], expected: str, explain: Callable[[bytes, str, str], str]
) -> Iterator[tuple[int, Record]]:
    """Yield the records of a file with the numbers of their lines, counted from 1; empty lines are skipped.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.
    kind : type
        What a line is decoded as.
    expected : str
        What a message expects of the file if a line is not JSON, such as "a whole graph on each line".
    explain : function of bytes, str and str
        Given a line of JSON that is no such record, what is wrong and at which path in it, returns what to say of it.

    Yields
    ------
    (int, record)
        The number of the line and what it holds.

    Raises
    ------
    InputError
        If there is no such file.
    FormatError
        If a line is not JSON or not such a record.
    """
    name, decoder = source_name(path), msgspec.json.Decoder(kind)
    for number, raw in numbered_lines(path):
        if not raw.strip():
            continue
        try:
            record = decoder.decode(raw)
        except msgspec.ValidationError as error:
            match = _PLACE.fullmatch(str(error))
            what, where = (match["what"], match["where"]) if match else (str(error), "")
            fail(name, number, f"{explain(raw, what.replace('`', ''), where)}: correct it")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            decode_line(raw, name, number)
            fail(name, number, f"the line is not JSON ({error}); expected {expected}: correct it")
        yield number, record
