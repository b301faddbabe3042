"""The mark of labels that are not known; apart from the tasks, so that readers of files need not load these."""

from numbers import Number
from typing import Any

UNKNOWN = -1
"""Stands in Y for the label of a token or node that is not known; it is also the number of such a label."""


def is_unknown(label: Any) -> bool:
    """Whether a label is the marker of an unknown one (−1.0 too, as arrays of floats have it)."""
    return isinstance(label, Number) and bool(label == UNKNOWN)
