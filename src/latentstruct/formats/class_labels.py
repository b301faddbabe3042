"""Labels of classes as they are written in files, and the arrays made of them."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.formats.text import INTEGER, NOT_FINITE, NUMBER, fail, show

MAX_LABEL = 1000
"""Letters above which a label is refused: an array of labels has room for the longest in each row."""


def typed_labels(labels: list[str], lines: Sequence[int], name: str) -> NDArray[Any]:
    """Make an array of the labels: integers if all are, else numbers if all are, else text."""
    distinct = set(labels)
    if all(INTEGER.fullmatch(label) for label in distinct):
        # Longer than the longest 64-bit integer, or outside the range: text keeps such labels apart.
        integers = {label: int(label) for label in distinct if len(label) <= 20}
        if len(integers) == len(distinct) and all(-(2**63) <= value < 2**63 for value in integers.values()):
            return np.array([integers[label] for label in labels], dtype=np.int64)
    elif any(NUMBER.fullmatch(label) for label in distinct) and all(
        NUMBER.fullmatch(label) or NOT_FINITE.fullmatch(label) for label in distinct
    ):
        numbers = {label: float(label) for label in distinct}
        for label, line in zip(labels, lines, strict=True):
            if not isfinite(numbers[label]):
                fail(
                    name,
                    line,
                    f"the label is {show(label)}; expected a finite number as in the other lines: give the "
                    "row a label or remove it",
                )
        return np.array([numbers[label] for label in labels], dtype=np.float64)
    for label, line in zip(labels, lines, strict=True):
        if len(label) > MAX_LABEL:
            fail(
                name,
                line,
                f"the label {show(label)} has {len(label)} letters; expected at most {MAX_LABEL}: shorten it, and "
                "check that quotes are closed",
            )
    return np.array(labels, dtype=np.str_)
