"""Supporting planes of convex functions: f(v) ≥ offset + slope·v for all v.

`Plane` is one plane with a dense slope, usually the weighted sum over all examples. `Planes` are many compact
ones, one for each example that was asked. `PlaneStore` keeps the planes found so far with their dual variables.
This is the only module that knows how a slope is represented.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.exceptions import InputError
from latentstruct.kernels import planes as kernels
from latentstruct.kernels.planes import Atoms, Rows, Scratch, Slots, Tables
from latentstruct.ragged import Indices, Vector, positions
from latentstruct.short_repr import short_repr, show


def no_rows() -> Rows:
    """Return the rows of planes that consist of direct atoms only."""
    return Rows(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint32), np.zeros(0))


@dataclass
class Plane:
    """One supporting plane b + g·w with a dense slope.

    Attributes
    ----------
    slope : ndarray of shape (d,)
        g.
    offset : float
        b.
    entropy : float
        The part of the offset that comes from soft pooling of outputs and latents (ε_y H(y) + ε_h H(h | y)); 0 where
        both are maximised. Without it the plane supports the function that maximises both, because a mean of hard
        planes remains.
    exact : bool
        False if approximate inference gave the answer, so that it may not be a bound.
    """

    slope: Vector
    offset: float
    entropy: float = 0.0
    exact: bool = True

    __repr__ = short_repr

    def __call__(self, w: Vector) -> float:
        """Return the height b + g·w."""
        return float(self.offset + self.slope @ w)

    def __add__(self, other: "Plane") -> "Plane":
        return Plane(
            self.slope + other.slope,
            self.offset + other.offset,
            self.entropy + other.entropy,
            self.exact and other.exact,
        )

    def __mul__(self, factor: float) -> "Plane":
        return Plane(factor * self.slope, factor * self.offset, factor * self.entropy, self.exact)

    __rmul__ = __mul__


@dataclass
class Planes:
    """Compact supporting planes, one for each asked example.

    Attributes
    ----------
    rows : Rows
        Input rows that the atoms refer to (shared by all planes of a batch).
    pointers : ndarray of shape (k + 1,)
        Atoms of plane p are pointers[p] … pointers[p+1].
    atoms : Atoms
        Flat (row, column, value) triples.
    offsets : ndarray of shape (k,)
        b_p.
    values : ndarray of shape (k,)
        f_p(w) at the weights the planes were asked at.
    n_features : int
        d.
    exact : bool
        False if approximate inference gave the answers.
    """

    rows: Rows
    pointers: Indices
    atoms: Atoms
    offsets: Vector
    values: Vector
    n_features: int
    exact: bool = True

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def from_matrix(
        cls,
        slopes: NDArray[np.float64] | sparse.csr_array,
        offsets: Vector,
        values: Vector,
        exact: bool = True,
    ) -> "Planes":
        """Make planes from a dense or CSR matrix of slopes (k, d)."""
        matrix = sparse.csr_array(slopes, dtype=np.float64)
        atoms = Atoms(np.full(matrix.nnz, -1, dtype=np.int32), matrix.indices.astype(np.int32), np.array(matrix.data))
        pointers = matrix.indptr.astype(np.int64)
        return cls(no_rows(), pointers, atoms, offsets, values, matrix.shape[1], exact)

    @classmethod
    def zero(cls, n_planes: int, n_features: int) -> "Planes":
        """Return planes that are 0 everywhere."""
        empty = sparse.csr_array((n_planes, n_features), dtype=np.float64)
        return cls.from_matrix(empty, np.zeros(n_planes), np.zeros(n_planes))

    def take(self, chosen: Indices) -> "Planes":
        """Return the planes at the chosen positions."""
        flat, pointers = positions(self.pointers, chosen)
        return Planes(
            self.rows,
            pointers,
            Atoms(*(part[flat] for part in self.atoms)),
            self.offsets[chosen],
            self.values[chosen],
            self.n_features,
            self.exact,
        )

    def dot(self, w: Vector) -> Vector:
        """Return the products g_p·w, shape (k,)."""
        out = np.empty(len(self))
        kernels.planes_dot(self.rows, self.atoms, self.pointers, w, out)
        return out

    def add_to(self, w: Vector, coefficients: Vector) -> None:
        """Add Σ_p coefficients[p] g_p to `w` in place."""
        kernels.planes_add(self.rows, self.atoms, self.pointers, coefficients, w)

    def total(self, weights: Vector) -> Plane:
        """Return the weighted sum of the planes as one dense plane."""
        slope = np.zeros(self.n_features)
        self.add_to(slope, weights)
        return Plane(slope, float(weights @ self.offsets), exact=self.exact)

    def slopes(self) -> sparse.csr_array:
        """Return the slopes as a CSR matrix (k, d): for inspection and tests, not for training."""
        lines = []
        for p in range(len(self)):
            line = np.zeros(self.n_features)
            self.add_to(line, np.eye(1, len(self), p)[0])
            lines.append(sparse.csr_array(line[None]))
        return sparse.vstack(lines, format="csr") if lines else sparse.csr_array((0, self.n_features))

    def scaled(self, factors: Vector) -> "Planes":
        """Return the planes with plane p multiplied by factors[p]."""
        counts = np.diff(self.pointers)
        atoms = self.atoms._replace(value=self.atoms.value * np.repeat(factors, counts))
        return Planes(
            self.rows,
            self.pointers,
            atoms,
            self.offsets * factors,
            self.values * factors,
            self.n_features,
            self.exact,
        )

    def __add__(self, other: "Planes") -> "Planes":
        """Add plane by plane; both must come from the same batch."""
        counts = np.stack([np.diff(self.pointers), np.diff(other.pointers)])
        pointers = np.zeros(len(self) + 1, dtype=np.int64)
        np.cumsum(counts.sum(axis=0), out=pointers[1:])
        shift_self = np.repeat(pointers[:-1] - self.pointers[:-1], counts[0])
        shift_other = np.repeat(pointers[:-1] + counts[0] - other.pointers[:-1], counts[1])
        merged = []
        for mine, theirs in zip(self.atoms, other.atoms, strict=True):
            flat = np.empty(pointers[-1], dtype=mine.dtype)
            flat[np.arange(len(mine)) + shift_self] = mine
            flat[np.arange(len(theirs)) + shift_other] = theirs
            merged.append(flat)
        rows = self.rows if len(self.rows.indptr) >= len(other.rows.indptr) else other.rows
        return Planes(
            rows,
            pointers,
            Atoms(*merged),
            self.offsets + other.offsets,
            self.values + other.values,
            self.n_features,
            self.exact and other.exact,
        )


RULES = {
    "plain": kernels.PLAIN,
    "away": kernels.AWAY,
    "pairwise": kernels.PAIRWISE,
    "smo": kernels.SMO,
}


@dataclass
class PlaneStore:
    """The planes found so far for each example, their Gram matrices and dual variables.

    The dual point α (Σ_p α_ip = 1 for each example) gives w(α) = l − Σ_i c_i Σ_p α_ip g_ip, where l is the
    slope of the objective's linear part, and the dual value −½‖w(α)‖² + Σ_i c_i Σ_p α_ip b_ip.

    Parameters
    ----------
    first : Planes
        One plane for each of the n examples; it starts with all the dual mass.
    weights : ndarray of shape (n,)
        c_i.
    most : int
        Planes kept for an example. A full example gives up the least useful one.
    idle : int
        A plane without dual mass is replaced once it has not been used for so many rounds (see `tick`).
    """

    first: Planes
    weights: Vector
    most: int = 50
    idle: int = 2
    slots: Slots = field(init=False, repr=False)
    tables: Tables = field(init=False, repr=False)
    scratch: Scratch = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.most < 2:
            raise InputError(
                f"most must be at least 2 planes an example, found {show(self.most)}: choose a larger number"
            )
        n, size = len(self.first), min(8, self.most)
        self.slots = Slots(
            np.zeros((n, size), dtype=np.int64),
            np.zeros((n, size), dtype=np.int32),
            np.zeros((n, size)),
            np.zeros((n, size)),
            np.zeros((n, size), dtype=np.int64),
            np.zeros((n, size, size)),
            np.zeros(n, dtype=np.int32),
        )
        self.rows = self.first.rows
        self.scratch = Scratch(np.zeros(self.first.n_features), np.zeros(1, dtype=np.int64))
        self.tables = self._room(n, 0, 0)
        self.append(np.arange(n), self.first, np.zeros(self.first.n_features))

    @staticmethod
    def _room(n_examples: int, n_atoms: int, n_numbers: int) -> Tables:
        atoms = Atoms(np.empty(n_atoms, dtype=np.int32), np.empty(n_atoms, dtype=np.int32), np.empty(n_atoms))
        start, length, room = (np.zeros(n_examples, dtype=np.int64) for _ in range(3))
        numbers = np.empty(n_numbers, dtype=np.uint32)
        return Tables(atoms, start, length, room, numbers, np.zeros(2, dtype=np.int64))

    def __len__(self) -> int:
        """Return the number of planes kept."""
        return int(self.slots.count.sum())

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.slots.count)

    def _grow(self) -> None:
        size = min(2 * self.slots.start.shape[1], self.most)
        old = self.slots.start.shape[1]

        def wider(array: NDArray) -> NDArray:
            shape = tuple(size if axis else n for axis, n in enumerate(array.shape))
            new = np.zeros(shape, dtype=array.dtype)
            new[tuple(slice(old) if axis else slice(None) for axis in range(array.ndim))] = array
            return new

        self.slots = Slots(*(wider(a) if a.ndim > 1 else a for a in self.slots))

    def _make_room(self, examples: Indices, new_lengths: Indices) -> None:
        tables = self.tables
        needed = tables.length[examples] + new_lengths
        atoms = int(2 * needed[needed > tables.room[examples]].sum())
        numbers = int(new_lengths.sum())
        if tables.end[0] + atoms <= len(tables.atoms.row) and tables.end[1] + numbers <= len(tables.numbers):
            return
        # After compaction no table has spare room, so each that gets a plane may have to move.
        atoms = int(tables.length.sum() + 2 * needed.sum())
        kept = int(self.slots.length.sum())
        target = self._room(self.n_examples, 3 * atoms, 3 * (kept + numbers))
        slots = self.slots._replace(start=self.slots.start.copy())
        kernels.compact(tables, slots, target)
        # Both at once, so that an interrupt finds slots and tables that belong together.
        self.tables, self.slots = target, slots

    def append(self, examples: Indices, planes: Planes, w: Vector) -> None:
        """Keep planes, the k-th for examples[k]; `w` follows if a plane with dual mass has to go."""
        full = self.slots.count[examples].max(initial=0) == self.slots.start.shape[1]
        if full and self.slots.start.shape[1] < self.most:
            self._grow()
        self._make_room(examples, np.diff(planes.pointers))
        kernels.append_planes(
            examples,
            planes.atoms,
            planes.pointers,
            planes.offsets,
            self.weights,
            w,
            self.idle,
            self.rows,
            self.tables,
            self.slots,
            self.scratch,
        )

    def change_offsets(self, offsets: Callable[[Indices, Indices, Indices], Vector]) -> None:
        """Give each plane the offset that its example and the row and column of its first atom have.

        For functions whose planes change in height only, as when another loss is asked for the same candidates.
        """
        examples, places = np.nonzero(np.arange(self.slots.start.shape[1]) < self.slots.count[:, None])
        first = self.tables.start[examples] + self.tables.numbers[self.slots.start[examples, places]]
        rows, columns = (part[first].astype(np.int64) for part in (self.tables.atoms.row, self.tables.atoms.column))
        self.slots.offset[examples, places] = offsets(examples, rows, columns)

    def tick(self) -> None:
        """Begin a new round; planes that stay unused for long may be replaced."""
        self.scratch.clock[0] += 1

    def ascend(self, examples: Indices, w: Vector, rule: str = "smo", steps: int = 5) -> tuple[Vector, float]:
        """Raise the dual over the kept planes of the listed examples in turn; `w` follows in place.

        Returns the examples' weighted gaps before their own update, and the change of Σ c_i α_ip b_ip.
        """
        gaps = np.empty(len(examples))
        change = kernels.ascend(
            RULES[rule],
            steps,
            examples,
            self.weights,
            w,
            self.rows,
            self.tables,
            self.slots,
            self.scratch,
            gaps,
        )
        return gaps, change

    def combination(self) -> Plane:
        """Return Σ_i c_i Σ_p α_ip (b_ip + g_ip·w) as one plane, computed afresh."""
        slope = np.zeros(self.first.n_features)
        offset = kernels.combine(self.weights, self.rows, self.tables, self.slots, slope)
        return Plane(slope, offset, exact=self.first.exact)

    def mean_heights(self, examples: Indices, w: Vector) -> Vector:
        """Return Σ_p α_p (b_p + g_p·w) for the listed examples."""
        out = np.empty(len(examples))
        kernels.mean_heights(examples, w, self.rows, self.tables, self.slots, out)
        return out

    def highest(self, w: Vector) -> tuple[Plane, Vector]:
        """Return the weighted sum of each example's highest kept plane, and their heights (n,)."""
        slope, values = np.zeros(self.first.n_features), np.empty(self.n_examples)
        offset = kernels.add_highest(self.weights, w, self.rows, self.tables, self.slots, self.scratch, slope, values)
        return Plane(slope, offset, exact=self.first.exact), values
