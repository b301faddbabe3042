"""The planes found so far for each example, with their dual variables."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import planes as kernels
from latentstruct.core.types import Array, Indices, Vector
from latentstruct.core.validation import integer
from latentstruct.exceptions import Description, InputError
from latentstruct.planes import memory
from latentstruct.planes.plane import Plane, Planes, Rows, atom_fault
from latentstruct.planes.serialization import StoreState

# Clock of planes that must not be replaced.
FOREVER = 2**62
MOST = integer(2) | None
RULES = {"plain": kernels.PLAIN, "away": kernels.AWAY, "pairwise": kernels.PAIRWISE, "smo": kernels.SMO}


class Scratch(NamedTuple):
    """Work space; `vector` is all zero between calls."""

    vector: Vector  # (d,)
    clock: Indices  # (1,): number of iterations


@dataclass(frozen=True)
class Masses:
    """The dual variables of a store at one time, with the keys of their planes."""

    key: Annotated[NDArray[np.uint64], Array(("n", "k"), np.uint64)]
    alpha: Annotated[NDArray[np.float64], Array(("n", "k"))]
    """0 beyond the planes of an example."""


@dataclass
class PlaneStore:
    """The planes found so far for each example, their Gram matrices and dual variables.

    The dual point α (Σ_p α_ip = 1 for each example) gives w(α) = l − Σ_i c_i Σ_p α_ip g_ip, where l is the
    slope of the objective's linear part, and the dual value −½‖w(α)‖² + Σ_i c_i Σ_p α_ip b_ip.
    """

    first: Planes  # one plane per example; it starts with all the dual mass
    weights: Vector  # (n,) c_i
    # Maximum planes per example. A full example drops a plane without dual mass, or replaces the two of least mass by
    # their mean. By default as many as keep the Gram matrices below 1 GB, from 50 to 1000.
    most: int | None = None
    idle: int = 2  # number of iterations without use after which a plane without dual mass is replaced (see `tick`)
    # Maximum bytes of the store; `most` is lowered accordingly. If new planes do not fit, those without dual mass that
    # were unused for longest are dropped, then those of little mass, down to two per example. The dual value may then
    # decrease.
    most_bytes: float | None = None
    rows: Rows = field(init=False, repr=False)
    slots: memory.Slots = field(init=False, repr=False)
    tables: memory.Tables = field(init=False, repr=False)
    scratch: Scratch = field(init=False, repr=False)
    budget: memory.Budget = field(init=False, repr=False)
    below: bool = field(init=False, default=True, repr=False)
    """Whether all planes are known to be below their functions."""

    def __post_init__(self) -> None:
        MOST.check(self.most, "most")
        self._lay_out()
        n, n_atoms = len(self.first), float(self.first.pointers[-1])
        if self.most_bytes is not None:
            self.budget.check(n_atoms)
            self.budget = self.budget.shared_out(n_atoms)
        self.slots = memory.empty_slots(n, min(memory.FIRST_SLOTS, self.budget.slots))
        self.tables = memory.empty_tables(n)
        self.append(np.arange(n), self.first, np.zeros(self.first.n_features))

    def _lay_out(self) -> None:
        """Set up everything except slots and tables."""
        self.n_examples = len(self.first)
        d, most_bytes = self.first.n_features, math.inf if self.most_bytes is None else self.most_bytes
        most = self.most
        if most is None:
            # So few that Gram matrices stay small even if all are used.
            affordable = math.sqrt(memory.GRAM_BYTES / (memory.PAIR_BYTES * max(len(self.first), 1)))
            most = int(np.clip(affordable, *memory.SLOT_RANGE))
        self.budget = memory.Budget(len(self.first), d, most, most_bytes)
        self.rows, self.scratch = self.first.rows, Scratch(np.zeros(d), np.zeros(1, dtype=np.int64))

    @classmethod
    def restored(
        cls, state: StoreState, first: Planes, weights: Vector, most: int | None = None, most_bytes: float | None = None
    ) -> "PlaneStore":
        """Return the store of a `state`, which continues bit for bit; raise ValueError for indices out of range.

        `first` has one plane per example of the same batch; only its rows, size and exactness are used.
        """
        store = cls.__new__(cls)
        store.first, store.weights, store.idle = first, weights, state.idle
        store.most, store.most_bytes = most, most_bytes
        store._lay_out()
        store.budget = replace(store.budget, slots=min(state.slots, store.budget.slots))
        store.slots, store.tables = state.unpacked(first.rows, first.n_features, len(first), store.budget.slots)
        store.scratch.clock[0] = state.clock
        return store

    def state(self) -> StoreState:
        """Return the contents as numbers and flat arrays, without the input rows and the weights."""
        return StoreState.of(self.slots, self.tables, int(self.scratch.clock[0]), self.idle, self.budget.slots)

    def __len__(self) -> int:
        """Return the number of planes kept."""
        return int(self.slots.count.sum())

    @property
    def nbytes(self) -> int:
        """Bytes taken, without the input rows and the weights."""
        arrays = (*self.slots, *self.tables.atoms, *self.tables[1:], *self.scratch)
        return sum(array.nbytes for array in arrays)

    def _make_slots(self, examples: Indices) -> None:
        """Add slots to examples whose slots are all in use; those at the maximum merge two planes."""
        slots, most = self.slots, self.budget.slots
        full = examples[slots.count[examples] == slots.side[examples]]
        if not len(full):
            return
        idle = (slots.alpha[full] == 0.0) & (slots.used[full] < self.scratch.clock[0] - self.idle)
        full = full[~(idle & (np.arange(slots.start.shape[1]) < slots.side[full, None])).any(axis=1)]
        growing = full[slots.side[full] < most]
        if len(growing) and self.most_bytes is not None:
            # Bytes are counted for equal numbers of slots of all examples.
            growing = np.arange(self.n_examples)
        if len(growing):
            self.slots = memory.with_sides(slots, growing, np.minimum(2 * slots.side[growing], most))
        crowded = full[slots.side[full] == most]
        if self.most_bytes is None and len(crowded):
            crowded = crowded[(self.slots.alpha[crowded] > 0.0).all(axis=1)]
            lengths = np.sort(self.slots.length[crowded], axis=1)[:, -2:].sum(axis=1)
            self._reserve(crowded, lengths, np.empty(0))
            kernels.merge_lightest(crowded, self.tables, self.slots)

    def _needed(self, examples: Indices, new_lengths: Indices) -> tuple[int, int, int]:
        """Return the atoms and numbers to allocate before planes are appended, and their bytes."""
        tables = self.tables
        needed = tables.length[examples] + new_lengths
        atoms = int(tables.end[0] + needed[needed > tables.capacity[examples]].sum())
        numbers = int(tables.end[1] + new_lengths.sum())
        return atoms, numbers, memory.ATOM_BYTES * atoms + memory.NUMBER_BYTES * numbers

    def _reserve(self, examples: Indices, new_lengths: Indices, w: Vector) -> float:
        """Make space in the tables. If planes are dropped, update `w` and return the change of Σ c α b."""
        tables, change = self.tables, 0.0
        atoms, numbers, _ = self._needed(examples, new_lengths)
        if atoms <= len(tables.atoms.value) and numbers <= len(tables.numbers):
            return change
        memory.compact(self.slots, tables)
        atoms, numbers, n_bytes = self._needed(examples, new_lengths)
        while (excess := n_bytes - self.budget.table_bytes) > 0:
            change += self._give_up(excess, float(new_lengths.mean()), w)
            atoms, numbers, n_bytes = self._needed(examples, new_lengths)
        spare = min(memory.SPARE, self.budget.table_bytes / max(n_bytes, 1))
        # In place: there are no other references to the arrays, and `refcheck` would count the local names.
        for part, size in (*((part, atoms) for part in tables.atoms), (tables.numbers, numbers)):
            part.resize(int(spare * size), refcheck=False)
        return change

    def _give_up(self, excess: float, new_length: float, w: Vector) -> float:
        """Drop planes of this many bytes, and slots if planes have become large; see `_drop`."""
        length = max(float(self.tables.end[1]) / max(len(self), 1), new_length)
        budget = self.budget.tightened(self.n_examples * length)
        if budget.slots < self.budget.slots:
            change = self._drop(memory.least_useful(self.slots, kept=budget.slots), w)
            size = min(budget.slots, self.slots.start.shape[1])
            every = np.arange(self.n_examples)
            self.slots, self.budget = memory.with_sides(self.slots, every, np.full(len(every), size)), budget
            return change
        chosen = memory.least_useful(self.slots, excess + memory.FREED * self.budget.table_bytes)
        if not len(chosen[0]):
            raise InputError(
                "cache_mb",
                Description(f"{excess / memory.MEGABYTE:.3g} MB too little"),
                f"large enough for two planes per example ({self.n_examples} examples)",
                memory.SMALLER_SOLVERS,
            )
        return self._drop(chosen, w)

    def _drop(self, chosen: tuple[Indices, Indices], w: Vector) -> float:
        """Drop planes, update `w` for those with mass, and return the change of Σ c α b."""
        change = kernels.drop_planes(self, *chosen, w)
        memory.compact(self.slots, self.tables)
        return change

    def append(self, examples: Indices, planes: Planes, w: Vector) -> float:
        """Append planes, the k-th for examples[k].

        Only a store with a limit on its bytes drops planes with dual mass for them. Then `w` is updated, and the change
        of Σ c_i α_ip b_ip is returned.
        """
        listed = np.zeros(self.n_examples, dtype=np.bool_)
        listed[examples] = True
        if np.count_nonzero(listed) < len(examples):
            # Space is made for one plane per example.
            return sum(
                self.append(examples[chosen], planes.take(chosen), w) for chosen in memory.without_repeats(examples)
            )
        self.below = self.below and planes.below
        if planes.rows.indptr is not self.rows.indptr and len(planes.rows.indptr) > 1:
            # Kernels look up atoms in the rows of the store.
            fault = atom_fault(planes.atoms, self.rows, self.first.n_features)
            if fault:
                expected = "planes that refer to the rows of the batch, as those of all calls"
                raise InputError("planes", Description(fault), expected)
        self._make_slots(examples)
        change = 0.0
        step = len(examples) if self.most_bytes is None else -(-self.n_examples // memory.PARTS)
        for first in range(0, len(examples), max(step, 1)):
            part = slice(first, first + step)
            pointers = planes.pointers[first : first + step + 1]
            change += self._reserve(examples[part], np.diff(pointers), w)
            change += kernels.append_planes(
                self, examples[part], planes.atoms, pointers, planes.offsets[part], self.idle, w
            )
        return change

    def change_offsets(self, offsets: Callable[[Indices, Indices, Indices], Vector]) -> None:
        """Set the offset of each plane by its example and the row and column of its first atom.

        For functions whose planes change in height only, as when another loss is used for the same candidates. Means of
        several planes are dropped.
        """
        examples, places = memory.kept_places(self.slots)
        mixed = self.slots.mixed[examples, places]
        if mixed.any():
            order = np.lexsort((-places[mixed], examples[mixed]))
            self._drop((examples[mixed][order], places[mixed][order]), np.zeros(self.first.n_features))
            examples, places = memory.kept_places(self.slots)
        first = self.tables.start[examples] + self.tables.numbers[self.slots.start[examples, places]]
        rows, columns = (part[first].astype(np.int64) for part in (self.tables.atoms.row, self.tables.atoms.column))
        self.slots.offset[examples, places] = offsets(examples, rows, columns)

    def masses(self) -> Masses:
        """Return the dual variables, to be restored later by `mix`."""
        used = np.arange(self.slots.alpha.shape[1]) < self.slots.count[:, None]
        return Masses(self.slots.key.copy(), np.where(used, self.slots.alpha, 0.0))

    def mix(self, parts: Sequence[tuple[Masses, float]], pinned: Sequence[Masses]) -> None:
        """Set the dual variables to a sum of earlier ones, times the second entries of `parts`, whose sum is 1.

        Mass of planes that were dropped since then goes to the others of their example. Planes with mass in `pinned`
        are not replaced until the next call; others that have not been used for long are dropped.
        """
        slots, now = self.slots, self.scratch.clock[0]
        used = np.arange(slots.alpha.shape[1]) < slots.count[:, None]
        mean = np.zeros_like(slots.alpha)
        for masses, share in parts:
            mean += share * self._aligned(masses)
        mean[~used] = 0.0
        lost = mean.sum(axis=1) <= 0.0
        mean[lost] = slots.alpha[lost]
        slots.alpha[used] = (mean / mean.sum(axis=1, keepdims=True))[used]
        np.minimum(slots.used, now, out=slots.used)
        for masses in pinned:
            slots.used[used & (self._aligned(masses) > 0.0)] = FOREVER
        examples, places = np.nonzero(used & (slots.alpha == 0.0) & (slots.used < now - self.idle))
        order = np.lexsort((-places, examples))
        self._drop((examples[order], places[order]), np.zeros(self.first.n_features))

    def _aligned(self, masses: Masses) -> NDArray[np.float64]:
        """Return dual variables in the present slots."""
        key, alpha = self.slots.key, np.zeros_like(self.slots.alpha)
        for old_key, old_alpha in zip(masses.key.T, masses.alpha.T, strict=True):
            rows = np.flatnonzero(old_alpha)
            alpha[rows] += np.where(key[rows] == old_key[rows, None], old_alpha[rows, None], 0.0)
        return alpha

    def tick(self) -> None:
        """Begin a new iteration; planes that stay unused for long may be replaced."""
        self.scratch.clock[0] += 1

    def ascend(self, examples: Indices, w: Vector, rule: str = "smo", steps: int = 5) -> tuple[Vector, float, float]:
        """Increase the dual over the kept planes of the listed examples, one by one, and update `w` in place.

        Returns the examples' weighted gaps before their own update, the change of Σ c_i α_ip b_ip, and the gain of the
        dual value.
        """
        gaps = np.empty(len(examples))
        change, gain = kernels.ascend(self, RULES[rule], steps, examples, w, gaps)
        return gaps, change, gain

    def extrapolate(self, earlier: Masses, w: Vector) -> tuple[float, float]:
        """Move the dual variables on along the line from earlier ones, and update `w` in place.

        Variables that would be negative are projected on the simplex of their example. Returns the change of
        Σ c_i α_ip b_ip and the gain of the dual value, 0 if they do not move.
        """
        return kernels.extrapolate(self, earlier.key, earlier.alpha, w)

    def combination(self) -> Plane:
        """Return Σ_i c_i Σ_p α_ip (b_ip + g_ip·w) as one plane, recomputed."""
        slope = np.zeros(self.first.n_features)
        offset = kernels.combine(self, slope)
        return Plane(slope, offset, exact=False, below=self.below)

    def mean_heights(self, examples: Indices, w: Vector) -> Vector:
        """Return Σ_p α_p (b_p + g_p·w) for the listed examples."""
        out = np.empty(len(examples))
        kernels.mean_heights(self, examples, w, out)
        return out

    def highest(self, w: Vector) -> tuple[Plane, Vector]:
        """Return the weighted sum of each example's highest kept plane, and their heights (n,)."""
        slope, values = np.zeros(self.first.n_features), np.empty(self.n_examples)
        offset = kernels.add_highest(self, w, slope, values)
        return Plane(slope, offset, exact=False, below=self.below), values
