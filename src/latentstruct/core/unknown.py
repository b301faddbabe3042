"""Marker of unknown labels, in its own module so that file readers need not import the tasks."""

from numbers import Number
from typing import Any

UNKNOWN = -1
"""Unknown label of a token or node in Y, and its index."""


SKIPPED = -100
"""Label of a token that training leaves out, as in PyTorch's ``ignore_index``."""


def is_unknown(label: Any) -> bool:
    """Return whether a label is the marker of an unknown one (also −1.0, for float arrays)."""
    return isinstance(label, Number) and bool(label == UNKNOWN)


def is_skipped(label: Any) -> bool:
    """Return whether a label is the marker of a skipped token."""
    return isinstance(label, Number) and bool(label == SKIPPED)
