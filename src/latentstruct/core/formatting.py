"""One-line representations of large objects."""

from dataclasses import fields, is_dataclass
from reprlib import Repr
from typing import Any

LONGEST = 80
"""Maximum length of a value that is shown in full."""
HEAD = 24
"""Number of characters shown of a longer string."""
MOST_BITS = 128
"""Maximum bits of an integer in a message."""
MOST_ENTRIES = 10
"""Maximum entries of a collection in a message."""


def counted(n: int, noun: str) -> str:
    """Return a number and what is counted, such as "1 column" or "2 families"."""
    if n == 1:
        return f"1 {noun}"
    return f"{n} {noun[:-1]}ies" if noun.endswith("y") else f"{n} {noun}s"


def short_repr(holder: Any) -> str:
    """Return the fields of a dataclass or named tuple, long ones by their sizes.

    For use as the method ``__repr__`` of a class with arrays, data or long texts.
    """
    names = [one.name for one in fields(holder) if one.repr] if is_dataclass(holder) else holder._fields
    return f"{type(holder).__name__}({', '.join(f'{name}={format_value(getattr(holder, name))}' for name in names)})"


def format_value(value: Any) -> str:
    """Return a value in one line: in full if short, otherwise its type and size."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        small = len(shape) == 1 and hasattr(value, "tolist") and shape[0] <= 4
        if shape == () or (small and len(repr(value)) <= LONGEST):
            return repr(value)
        kind = f" of {value.dtype}," if hasattr(value, "dtype") else ","
        return f"<{type(value).__name__}{kind} shape {shape}>"
    if isinstance(value, str) and len(value) > LONGEST:
        return f"<{value[:HEAD]!r}…, {len(value)} characters>"
    if isinstance(value, list | tuple | dict | set | frozenset | range) and not hasattr(value, "_fields"):
        # Do not create the text of a long list only to discard it.
        shown = repr(value) if len(value) <= 3 and all(_is_plain(one) for one in value) else ""
        return shown if 0 < len(shown) <= LONGEST else f"<{type(value).__name__} of {len(value)}>"
    shown = repr(value)
    return shown if len(shown) <= 3 * LONGEST and "\n" not in shown else f"<{type(value).__name__}>"


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= LONGEST)


def repr_short(value: object, limit: int = 60) -> str:
    """Return a value for error messages: in one line of limited length.

    Long collections are not formatted in full. Numbers and strings of NumPy are shown as those of
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
    """Representations of collections with entries as in `repr_short`."""

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, int) and x.bit_length() > self.maxlong:
            # Python raises an error for very long integers.
            return f"<{type(x).__name__} of {x.bit_length()} bits>"
        return repr_short(x, self.maxother) if hasattr(x, "shape") else super().repr1(x, level)


def _reader(limit: int) -> _Entries:
    reader = _Entries()
    reader.fillvalue = "…"
    reader.maxlevel, reader.maxstring, reader.maxother, reader.maxlong = 3, limit, limit, MOST_BITS
    reader.maxlist = reader.maxtuple = reader.maxdict = reader.maxset = reader.maxfrozenset = MOST_ENTRIES
    return reader
