"""Arrays of kept planes, their memory, and the choice of planes to drop when the memory is used up."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import planes as kernels
from latentstruct.core.types import Indices, Vector
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Atoms

MEGABYTE = 1e6
# Bytes of one plane in its slot, of a pair of planes in the Gram matrix, of an example, of an atom and of a number.
SLOT_BYTES, PAIR_BYTES, EXAMPLE_BYTES, ATOM_BYTES, NUMBER_BYTES = 45, 8, 52, 16, 4
# Bytes per plane while all are listed, to close gaps or to choose planes to drop.
LISTED_BYTES = 80
# Initial number of slots of an example; it is doubled when all are in use.
FIRST_SLOTS = 8
# Maximum memory of Gram matrices if no other bound is given, and range of slots per example.
GRAM_BYTES, SLOT_RANGE = 1e9, (50, 1000)
# Factor by which allocations exceed what is needed now.
SPARE = 3.0
# If bytes are counted, planes are added in this many parts, so that little additional memory is needed.
PARTS = 16
# Expected fraction of the atoms of a further plane that are not yet in the example's table.
NEW_ATOMS = 0.5
# Minimum fraction of the bytes that dropping planes frees, so that not every call has to drop some.
FREED = 0.05
SMALLER_SOLVERS = "Increase it, or use a solver that keeps no planes of single examples, such as Bundle or Subgradient."


class Slots(NamedTuple):
    """Planes of each of n examples in up to K slots; `count` of them are in use."""

    start: NDArray[np.int64]  # (n, K) first number of the plane
    length: NDArray[np.int32]  # (n, K) number of numbers
    offset: NDArray[np.float64]  # (n, K) b_p
    alpha: NDArray[np.float64]  # (n, K)
    used: NDArray[np.int64]  # (n, K) clock of the last use
    key: NDArray[np.uint64]  # (n, K) hash of the atoms, in any order
    mixed: NDArray[np.bool_]  # (n, K) whether it is a convex combination of planes of the oracle
    gram: Vector  # flat: the Gram matrices of the examples
    corner: Indices  # (n,) start of the example's matrix
    side: Indices  # (n,) its rows and columns: slots that the example may use, at most K
    count: NDArray[np.int32]  # type: ignore[assignment]  # (n,); hides tuple.count, which is not used


class Tables(NamedTuple):
    """Distinct atoms of each example (flat, with a start, a length and a capacity), and the planes' numbers."""

    atoms: Atoms
    start: Indices  # (n,)
    length: Indices  # (n,)
    varied: Indices  # (n,): atoms that are not in all planes
    capacity: Indices  # (n,)
    numbers: NDArray[np.uint32]
    end: Indices  # (2,): used atoms, used numbers


def slot_bytes(n_examples: int, size: int) -> int:
    """Return the bytes of this many slots per example."""
    return n_examples * size * (SLOT_BYTES + PAIR_BYTES * size)


def slots_before(size: int) -> int:
    """Return the slots of an example before they grew to `size`; 0 if that is the initial number."""
    if size <= FIRST_SLOTS:
        return 0
    before = FIRST_SLOTS
    while 2 * before < size:
        before *= 2
    return before


@dataclass(frozen=True)
class Budget:
    """Memory limits of a store of planes."""

    # n and d.
    n_examples: int
    n_features: int
    slots: int  # maximum number of planes per example
    most_bytes: float  # maximum bytes of the store, infinity if not bounded

    @property
    def table_bytes(self) -> float:
        """Bytes of tables and numbers together."""
        if math.isinf(self.most_bytes):
            return math.inf
        return self.most_bytes - self._taken(self.slots)

    def _taken(self, size: int) -> int:
        """Return the bytes of all but tables and numbers, including temporary arrays."""
        n = self.n_examples
        passing = max(slot_bytes(n, slots_before(size)), LISTED_BYTES * n * size)
        return n * EXAMPLE_BYTES + 8 * self.n_features + 64 + slot_bytes(n, size) + passing

    def _with_tables(self, size: int, n_atoms: float, share: float) -> float:
        """Return the bytes of this many planes per example, with this fraction of new atoms per plane."""
        on_its_way = n_atoms / min(PARTS, max(self.n_examples, 1))
        atoms = (1.0 + share * (size - 1)) * (n_atoms + on_its_way) + on_its_way
        return self._taken(size) + ATOM_BYTES * atoms + NUMBER_BYTES * (size * n_atoms + on_its_way)

    def check(self, n_atoms: float) -> None:
        """Raise unless two planes per example fit, given the atoms of one."""
        least = self._with_tables(2, n_atoms, 1.0)
        if least > self.most_bytes:
            raise InputError(
                "cache_mb",
                Description(f"{self.most_bytes / MEGABYTE:.3g} MB for planes"),
                f"large enough for two planes per example ({self.n_examples} examples, {least / MEGABYTE:.3g} MB)",
                SMALLER_SOLVERS,
            )

    def shared_out(self, n_atoms: float) -> "Budget":
        """Return the budget with as many slots as leave memory for tables, given the atoms of one plane per example."""
        if math.isinf(self.most_bytes):
            return self
        size = 2
        while size < self.slots and self._with_tables(size + 1, n_atoms, NEW_ATOMS) <= self.most_bytes:
            size += 1
        return replace(self, slots=size)

    def tightened(self, n_atoms: float) -> "Budget":
        """Return a budget with fewer slots if planes have become too large for the present number."""
        shared = self.shared_out(n_atoms)
        # So few that the new slots fit beside the old ones during the copy.
        fewer = slots_before(self.slots) or 3 * self.slots // 4
        return self if shared.slots == self.slots else replace(self, slots=max(2, min(shared.slots, fewer)))


def empty_slots(n_examples: int, size: int) -> Slots:
    """Return slots without any plane."""
    n, shape = n_examples, (n_examples, size)
    return Slots(
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape, dtype=np.int32),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape, dtype=np.uint64),
        np.zeros(shape, dtype=np.bool_),
        np.zeros(n * size * size),
        np.arange(n, dtype=np.int64) * size * size,
        np.full(n, size, dtype=np.int64),
        np.zeros(n, dtype=np.int32),
    )


def with_sides(slots: Slots, examples: Indices, sides: Indices) -> Slots:
    """Return slots with other numbers of slots for the listed examples and unchanged ones for the others."""
    wanted = slots.side.copy()
    wanted[examples] = sides
    size = int(wanted.max(initial=0))
    corners = np.concatenate(([0], np.cumsum(wanted**2)))
    gram = np.zeros(corners[-1])
    kernels.move_matrices(corners[:-1], wanted, slots, gram)

    before = slots.start.shape[1]
    if size != before:
        added = ((0, 0), (0, max(0, size - before)))
        slots = Slots._make(part if part.ndim == 1 else np.pad(part[:, :size], added) for part in slots)
    return slots._replace(gram=gram)


def empty_tables(n_examples: int) -> Tables:
    """Return tables without any atom."""
    atoms = Atoms(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32), np.empty(0))
    start, length, varied, capacity = (np.zeros(n_examples, dtype=np.int64) for _ in range(4))
    return Tables(atoms, start, length, varied, capacity, np.empty(0, dtype=np.uint32), np.zeros(2, dtype=np.int64))


def kept_places(slots: Slots) -> tuple[Indices, Indices]:
    """Return the examples and places of all kept planes."""
    examples, places = np.nonzero(np.arange(slots.start.shape[1]) < slots.count[:, None])
    return examples.astype(np.int64, copy=False), places.astype(np.int64, copy=False)


def without_repeats(examples: Indices) -> list[Indices]:
    """Return the places of the examples in groups that contain each example at most once, in order."""
    order = np.argsort(examples, kind="stable")
    begins = np.searchsorted(examples[order], examples[order])
    turns = np.empty(len(examples), dtype=np.int64)
    turns[order] = np.arange(len(examples)) - begins
    return [np.flatnonzero(turns == turn) for turn in range(int(turns.max(initial=-1)) + 1)]


def compact(slots: Slots, tables: Tables) -> None:
    """Remove the gaps between tables and between planes."""
    examples, places = kept_places(slots)
    order = np.argsort(slots.start[examples, places])
    kernels.compact(tables, slots, np.argsort(tables.start), examples[order], places[order])


def least_useful(slots: Slots, n_bytes: float = math.inf, kept: int = 2) -> tuple[Indices, Indices]:
    """Return planes to drop that free about this many bytes; each example keeps at least `kept`.

    Planes without dual mass come first, the longest unused before others; then those of little mass.
    """
    examples, places = kept_places(slots)
    masses, used = slots.alpha[examples, places], slots.used[examples, places]
    order = np.lexsort((np.where(masses > 0, 0, used), masses, masses > 0))
    examples, places = examples[order], places[order]
    # Rank of a plane among those of its example, in this order.
    grouped = np.argsort(examples, kind="stable")
    begins = np.cumsum(slots.count) - slots.count
    rank = np.empty(len(examples), dtype=np.int64)
    rank[grouped] = np.arange(len(examples)) - begins[examples[grouped]]
    free = rank < slots.count[examples] - kept
    examples, places = examples[free], places[free]
    freed = np.cumsum((NUMBER_BYTES + NEW_ATOMS * ATOM_BYTES) * slots.length[examples, places])
    chosen = slice(int(np.searchsorted(freed, n_bytes)) + 1)
    examples, places = examples[chosen], places[chosen]
    by_example = np.lexsort((-places, examples))
    return examples[by_example], places[by_example]
