"""Ragged data as flat values and offsets: item k of n holds the positions offsets[k] … offsets[k+1]."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class Array(NamedTuple):
    """Shape and type of a stored array; "d" and "n" are the numbers of weights and examples.

    Other letters stand for any length, the same in all arrays of one object.
    """

    shape: tuple[str, ...]
    kind: Any = np.float64
    finite: bool = True


Weights = Annotated[Vector, Array(("d",))]
"""One finite number per weight."""


def offsets_from_lengths(lengths: Iterable[int]) -> Indices:
    """Return the offsets (n + 1,) of items with the given lengths."""
    sizes = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, dtype=np.int64)
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def joined_offsets(parts: Sequence[Indices]) -> Indices:
    """Return the offsets of the items of several concatenated ragged arrays."""
    starts = np.cumsum([0, *(int(part[-1]) for part in parts)])
    return np.concatenate([*(part[:-1] + start for part, start in zip(parts, starts[:-1], strict=True)), starts[-1:]])


def runs(starts: NDArray[Any], lengths: NDArray[Any]) -> tuple[Indices, Indices]:
    """Return the positions of runs with given starts and lengths, one after the other, and the offsets of the runs."""
    offsets = offsets_from_lengths(lengths)
    flat = np.arange(offsets[-1], dtype=np.int64)
    flat += np.repeat(starts - offsets[:-1], lengths)
    return flat, offsets


def positions(offsets: Indices, items: Indices) -> tuple[Indices, Indices]:
    """Return the flat positions of the chosen items, in their order, and the offsets among them."""
    return runs(offsets[items], offsets[items + 1] - offsets[items])


def members(offsets: Indices) -> tuple[Indices, Indices]:
    """Return the item of each flat position, and the position inside it."""
    items = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return items, np.arange(len(items)) - offsets[items]


def locate(offsets: Indices, position: int) -> tuple[int, int]:
    """Return the item that a flat position belongs to, and the position inside it."""
    k = int(np.searchsorted(offsets, position, side="right")) - 1
    return k, int(position - offsets[k])


def split(flat: NDArray, offsets: Indices) -> list[NDArray]:
    """Return the part of each item of a flat array, as views."""
    return [flat[start:end] for start, end in pairwise(offsets.tolist())]


def sums_by(items: Indices, values: Vector, n: int) -> Vector:
    """Return the sum of the values of each of n items."""
    # The sums of an empty array would be integers.
    return np.bincount(items, values, n).astype(np.float64, copy=False)
