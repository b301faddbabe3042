"""The contents of a plane store as plain arrays, and their restoration with every index checked.

The kernels check no index, so indices from a file must be checked. Unused capacity is not stored: positions of tables
change no result.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.planes import complete
from latentstruct.core.types import Array, Indices, Vector, offsets_from_lengths, runs
from latentstruct.persistence.state_trees import Range
from latentstruct.planes.memory import FIRST_SLOTS, Slots, Tables
from latentstruct.planes.plane import Atoms, Rows, atom_fault

# Masses are updated thousands of times, each time with a rounding error.
MASS_ERROR = 1e-6
LARGEST = 2**31
"""Largest size of a table or a plane, so that their sums do not wrap around."""


@dataclass
class StoreState:
    """The planes of a store, example by example: the input rows, the weights and unused capacity are not part of it."""

    clock: Annotated[int, Range(0)]
    idle: Annotated[int, Range(0)]
    slots: Annotated[int, Range(2)]
    # Planes and atoms of each example.
    count: Annotated[NDArray[np.int32], Array(("n",), np.int32)]
    table_lengths: Annotated[Indices, Array(("n",), np.int64)]
    lengths: Annotated[NDArray[np.int32], Array(("planes",), np.int32)]
    offsets: Annotated[Vector, Array(("planes",))]
    masses: Annotated[Vector, Array(("planes",))]
    used: Annotated[Indices, Array(("planes",), np.int64)]
    mixed: Annotated[NDArray[np.bool_], Array(("planes",), np.bool_)]
    gram: Annotated[Vector, Array(("pairs of planes",))]
    numbers: Annotated[NDArray[np.uint32], Array(("atoms of planes",), np.uint32)]
    rows: Annotated[NDArray[np.int32], Array(("atoms",), np.int32)]
    columns: Annotated[NDArray[np.int32], Array(("atoms",), np.int32)]
    values: Annotated[Vector, Array(("atoms",))]

    @classmethod
    def of(cls, slots: Slots, tables: Tables, clock: int, idle: int, most: int) -> "StoreState":
        """Return the planes of a store as flat arrays."""
        kept = np.arange(slots.start.shape[1]) < slots.count[:, None]
        lengths = slots.length[kept]
        atoms = runs(tables.start, tables.length)[0]
        gram = slots.gram[_matrices(slots.corner, slots.side, slots.count)]
        numbers = tables.numbers[runs(slots.start[kept], lengths)[0]]
        sizes = clock, idle, most, slots.count.copy(), tables.length.copy(), lengths
        planes = slots.offset[kept], slots.alpha[kept], slots.used[kept], slots.mixed[kept]
        row, column, value = (part[atoms] for part in tables.atoms)
        return cls(*sizes, *planes, gram, numbers, row, column, value)

    def unpacked(self, rows: Rows, n_features: int, n_examples: int, most: int) -> tuple[Slots, Tables]:
        """Return the slots and tables of a store; raise ValueError if indices are out of range."""
        self._check(n_examples, most)
        check_atoms(Atoms(self.rows, self.columns, self.values), rows, n_features)
        count = self.count.astype(np.int64)
        sides = np.full(n_examples, min(FIRST_SLOTS, most), dtype=np.int64)
        while (narrow := sides < count).any():
            sides[narrow] = np.minimum(2 * sides[narrow], most)
        kept = np.arange(sides.max(initial=0)) < count[:, None]
        corners = offsets_from_lengths(sides**2)
        gram = np.zeros(corners[-1])
        gram[_matrices(corners[:-1], sides, self.count)] = self.gram
        starts, begins = offsets_from_lengths(self.lengths), offsets_from_lengths(self.table_lengths)
        planes = starts[:-1], self.lengths, self.offsets, self.masses, self.used
        keys, mixed = np.zeros(kept.shape, dtype=np.uint64), _spread(kept, self.mixed)
        spread = (_spread(kept, part) for part in planes)
        slots = Slots._make((*spread, keys, mixed, gram, corners[:-1].copy(), sides, self.count.copy()))
        lengths, end = self.table_lengths, np.array([begins[-1], starts[-1]])
        atoms = Atoms(self.rows.copy(), self.columns.copy(), self.values.copy())
        start, varied, capacity = begins[:-1].copy(), np.zeros_like(lengths), lengths.copy()
        tables = Tables(atoms, start, lengths.copy(), varied, capacity, self.numbers.copy(), end)
        complete(tables, slots)
        return slots, tables

    def _check(self, n_examples: int, most: int) -> None:
        """Raise unless sizes agree, numbers of atoms are within their tables, and masses are a distribution."""
        sizes = (("count", 1, most), ("lengths", 0, LARGEST), ("table_lengths", 0, LARGEST), ("used", 0, self.clock))
        for name, least, largest in sizes:
            array = getattr(self, name)
            if len(array) and not least <= array.min() <= array.max() <= largest:
                raise ValueError(f"{name} has values from {array.min()} to {array.max()}, not {least} to {largest}")
        count = self.count.astype(np.int64)
        pairs, numbers = int(np.square(count).sum()), int(self.lengths.sum(dtype=np.int64))
        wanted = {"count": n_examples, "lengths": int(count.sum()), "gram": pairs, "numbers": numbers}
        wanted["rows"] = int(self.table_lengths.sum())
        for name, size in wanted.items():
            if len(getattr(self, name)) != size:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries, not {size}")
        example_of = np.repeat(np.arange(n_examples), count)
        if (self.numbers >= np.repeat(self.table_lengths[example_of], self.lengths)).any():
            raise ValueError(f"numbers has an atom numbered {self.numbers.max()}, beyond the table of its example")
        sums = np.bincount(example_of, weights=self.masses, minlength=n_examples)
        if (self.masses < 0).any() or (np.abs(sums - 1.0) > MASS_ERROR).any():
            raise ValueError(f"masses are values from {self.masses.min()} with sums up to {sums.max()}, not to 1")


def _matrices(corners: NDArray[Any], sides: NDArray[Any], count: NDArray[Any]) -> Indices:
    """Return where the entries of the used corners of square matrices lie, row by row."""
    starts = runs(np.zeros(len(count), dtype=np.int64), count)[0] * np.repeat(sides, count) + np.repeat(corners, count)
    return runs(starts, np.repeat(count, count))[0]


def _spread(kept: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[Any]:
    """Return values at the kept places of an array that is 0 elsewhere."""
    out = np.zeros(kept.shape, dtype=values.dtype)
    out[kept] = values
    return out


def check_atoms(atoms: Atoms, rows: Rows, n_features: int) -> None:
    """Raise ValueError unless atoms point to existing rows and weights."""
    fault = atom_fault(atoms, rows, n_features)
    if fault:
        raise ValueError(f"planes have {fault}")
