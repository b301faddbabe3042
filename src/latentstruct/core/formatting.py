"""One-line texts of objects that hold much: what is in them, not all of it."""

from dataclasses import fields, is_dataclass
from reprlib import Repr
from typing import Any

LONGEST = 80
"""Letters of a value that is shown as it is."""
HEAD = 24
"""Letters that are shown of a longer string."""
MOST_BITS = 128
"""Bits of a whole number that a message writes out."""
MOST_ENTRIES = 10
"""Entries of a collection that a message shows."""


def short_repr(holder: Any) -> str:
    """Return the fields of a dataclass or named tuple, long ones by their sizes only.

    To be used as the method ``__repr__`` of a class that holds arrays, data or long texts.
    """
    names = [one.name for one in fields(holder) if one.repr] if is_dataclass(holder) else holder._fields
    return f"{type(holder).__name__}({', '.join(f'{name}={format_value(getattr(holder, name))}' for name in names)})"


def format_value(value: Any) -> str:
    """Return a value in one line: as it is if that is short, else by its type and size."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        small = len(shape) == 1 and hasattr(value, "tolist") and shape[0] <= 4
        if shape == () or (small and len(repr(value)) <= LONGEST):
            return repr(value)
        kind = f" of {value.dtype}," if hasattr(value, "dtype") else ","
        return f"<{type(value).__name__}{kind} shape {shape}>"
    if isinstance(value, str) and len(value) > LONGEST:
        return f"<{value[:HEAD]!r}…, {len(value)} letters>"
    if isinstance(value, list | tuple | dict | set | frozenset | range) and not hasattr(value, "_fields"):
        # The text of a long list is not made only to be thrown away.
        shown = repr(value) if len(value) <= 3 and all(_is_plain(one) for one in value) else ""
        return shown if 0 < len(shown) <= LONGEST else f"<{type(value).__name__} of {len(value)}>"
    shown = repr(value)
    return shown if len(shown) <= 3 * LONGEST and "\n" not in shown else f"<{type(value).__name__}>"


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= LONGEST)


def show(value: object, limit: int = 60) -> str:
    """Return a value as a message shows it: in one line, and cut to a readable length.

    The text of a long collection is not made only to be cut. Numbers and strings of numpy are shown as those of
    Python, arrays and tables by their type and shape.
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        text = repr(value.item()) if shape == () and hasattr(value, "item") else format_value(value)
    elif isinstance(value, str | bytes):
        text = repr(value[: limit + 1])
    elif isinstance(value, list | tuple | dict | set | frozenset | int):
        text = _reader(limit).repr(value)
    else:
        text = repr(value)
    if "\n" in text:
        text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[:limit]}…"


class _Entries(Repr):
    """Texts of collections whose entries are shown as messages show them."""

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, int) and x.bit_length() > self.maxlong:
            # Python refuses to write out very long numbers.
            return f"<{type(x).__name__} of {x.bit_length()} bits>"
        return show(x, self.maxother) if hasattr(x, "shape") else super().repr1(x, level)


def _reader(limit: int) -> _Entries:
    reader = _Entries()
    reader.fillvalue = "…"
    reader.maxlevel, reader.maxstring, reader.maxother, reader.maxlong = 3, limit, limit, MOST_BITS
    reader.maxlist = reader.maxtuple = reader.maxdict = reader.maxset = reader.maxfrozenset = MOST_ENTRIES
    return reader
