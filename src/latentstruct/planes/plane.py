"""Supporting planes of convex functions: f(v) ≥ offset + slope·v for all v.

`Plane` is one plane with a dense slope, usually the weighted sum over all examples. `Planes` are many compact
ones, one per queried example. This module, `store`, which keeps them, and their kernels are the only ones
that depend on the representation of a slope.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.planes import planes_add, planes_dot
from latentstruct.core.formatting import short_repr
from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.types import Indices, Vector, Weights, joined_offsets, positions
from latentstruct.core.validation import check_sparse
from latentstruct.exceptions import Description, InputError

ARRAY_TYPES = ("int64", "int64", "uint32", "float64", "int32", "int32", "float64")
"""Types of the pointers, rows and atoms of planes, as kernels need them."""


class Rows(NamedTuple):
    """Input rows shared by planes: CSR with `places` = stride · feature; no `data` means that all values are 1.

    One-hot inputs are common in text and need no second array.
    """

    indptr: np.ndarray  # int64
    places: np.ndarray  # uint32
    data: np.ndarray  # float64


class Atoms(NamedTuple):
    """Flat atoms of many planes, arrays of equal length.

    An atom with row r ≥ 0 stands for `value · x_r` placed at the weights `column + place`, where x_r is a sparse row
    of the inputs; an atom with row −1 stands for `value` at the weight `column`.
    """

    row: np.ndarray  # int32
    column: np.ndarray  # int32
    value: np.ndarray  # float64


def no_rows() -> Rows:
    """Return the rows of planes that consist of direct atoms only."""
    return Rows(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint32), np.zeros(0))


def empty_atoms(count: int) -> Atoms:
    """Allocate memory for this many atoms."""
    return Atoms(np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32), np.empty(count))


class Slopes(NamedTuple):
    """Compact slopes of several planes."""

    rows: Rows  # input rows that the atoms refer to (shared by all planes of a batch)
    pointers: Indices  # (k + 1,) atoms of plane p are pointers[p] … pointers[p+1]
    atoms: Atoms  # flat (row, column, value) triples

    @classmethod
    def from_matrix(cls, slopes: "NDArray[np.float64] | sparse.csr_array") -> "Slopes":
        """Return the rows of a dense or sparse matrix (k, d)."""
        if issparse(slopes):
            check_sparse(slopes, "slopes")
        matrix = sparse.csr_array(slopes, dtype=np.float64)
        atoms = Atoms(np.full(matrix.nnz, -1, dtype=np.int32), matrix.indices.astype(np.int32), np.array(matrix.data))
        return cls(no_rows(), matrix.indptr.astype(np.int64), atoms)

    def dot(self, w: Vector) -> Vector:
        """Return the products g_p·w, shape (k,)."""
        out = np.empty(len(self.pointers) - 1)
        planes_dot(self.rows, self.atoms, self.pointers, w, out)
        return out


@dataclass
class Plane:
    """One supporting plane b + g·w with a dense slope."""

    slope: Weights  # (d,) g
    offset: float  # b
    # The part of the offset that comes from soft pooling of outputs and latents (ε_y H(y) + ε_h H(h | y)); 0 where both
    # are maximized. Without it the plane supports the function that maximizes both, because a mean of hard planes
    # remains.
    entropy: float = 0.0
    # Whether the plane is tight: its height at w is the value of the function. False after approximate inference.
    exact: bool = True
    below: bool = True  # whether the plane is known to be below the function everywhere, tight or not. Oracles set it.
    excess: float = math.inf  # how far the function at w may be above the plane if it is not tight; infinite if unknown

    __repr__ = short_repr

    @property
    def slack(self) -> float:
        """How far the function at w may be above the plane: 0 if the plane is tight."""
        return 0.0 if self.exact else self.excess

    def __call__(self, w: Vector) -> float:
        """Return the height b + g·w."""
        return float(self.offset + self.slope @ w)

    def __add__(self, other: "Plane") -> "Plane":
        return Plane(
            self.slope + other.slope,
            self.offset + other.offset,
            self.entropy + other.entropy,
            self.exact and other.exact,
            self.below and other.below,
            self.slack + other.slack,
        )

    def __mul__(self, factor: float) -> "Plane":
        excess = float(_scaled(np.array([self.slack]), np.array([factor]))[0])
        return Plane(factor * self.slope, factor * self.offset, factor * self.entropy, self.exact, self.below, excess)

    __rmul__ = __mul__


@dataclass
class Planes:
    """Compact supporting planes, one per queried example."""

    rows: Rows  # input rows that the atoms refer to (shared by all planes of a batch)
    pointers: Indices  # (k + 1,) atoms of plane p are pointers[p] … pointers[p+1]
    atoms: Atoms  # flat (row, column, value) triples
    offsets: Vector  # (k,) b_p
    values: Vector  # (k,) f_p(w) at the weights of the query
    n_features: int  # d
    # (k,) whether the planes are tight, one flag for all or one per plane: see `Plane`.
    exact: bool | NDArray[np.bool_] = True
    # Whether all planes are known to be below their functions everywhere, tight or not. Oracles set it.
    below: bool = True
    # (k,) how far f_p(w) may be above a plane that is not tight, one number for all or one per plane; infinite if
    # unknown.
    excess: float | Vector = math.inf

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def all_exact(self) -> bool:
        """Whether all planes are tight."""
        return self.exact if isinstance(self.exact, bool) else bool(self.exact.all())

    @property
    def each_exact(self) -> NDArray[np.bool_]:
        """Whether each plane is tight, shape (k,)."""
        return np.broadcast_to(self.exact, len(self))

    @property
    def each_slack(self) -> Vector:
        """How far each function at w may be above its plane, shape (k,): 0 where the plane is tight."""
        return np.where(self.each_exact, 0.0, self.excess)

    def _exact_of(self, chosen: Indices | slice) -> bool | NDArray[np.bool_]:
        return self.exact[chosen] if isinstance(self.exact, np.ndarray) else self.exact

    def _excess_of(self, chosen: Indices | slice) -> float | Vector:
        return self.excess[chosen] if isinstance(self.excess, np.ndarray) else self.excess

    @classmethod
    def from_matrix(
        cls,
        slopes: "NDArray[np.float64] | sparse.csr_array",
        offsets: Vector,
        values: Vector,
        exact: bool | NDArray[np.bool_] = True,
    ) -> "Planes":
        """Make planes from a dense or sparse matrix of slopes (k, d)."""
        return cls(*Slopes.from_matrix(slopes), offsets, values, slopes.shape[1], exact)

    @classmethod
    def zero(cls, n_planes: int, n_features: int) -> "Planes":
        """Return planes that are 0 everywhere."""
        empty = sparse.csr_array((n_planes, n_features), dtype=np.float64)
        return cls.from_matrix(empty, np.zeros(n_planes), np.zeros(n_planes))

    @classmethod
    def joined(cls, parts: "list[Planes]") -> "Planes":
        """Concatenate planes of one batch that were queried in several parts."""
        return cls(
            parts[0].rows,
            joined_offsets([part.pointers for part in parts]),
            Atoms(*map(np.concatenate, zip(*(part.atoms for part in parts), strict=True))),
            np.concatenate([part.offsets for part in parts]),
            np.concatenate([part.values for part in parts]),
            parts[0].n_features,
            all(part.all_exact for part in parts) or np.concatenate([part.each_exact for part in parts]),
            all(part.below for part in parts),
            math.inf if all(part.all_exact for part in parts) else np.concatenate([part.each_slack for part in parts]),
        )

    def between(self, begin: int, end: int) -> "Planes":
        """Return consecutive planes without a copy."""
        return replace(
            self,
            pointers=self.pointers[begin : end + 1],
            offsets=self.offsets[begin:end],
            values=self.values[begin:end],
            exact=self._exact_of(slice(begin, end)),
            excess=self._excess_of(slice(begin, end)),
        )

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
            self._exact_of(chosen),
            self.below,
            self._excess_of(chosen),
        )

    def replaced(self, places: Indices, others: "Planes") -> "Planes":
        """Return the planes with those at some places replaced by others of the same batch."""
        order = np.arange(len(self))
        order[places] = len(self) + np.arange(len(places))
        return Planes.joined([self, others]).take(order)

    def dot(self, w: Vector) -> Vector:
        """Return the products g_p·w, shape (k,)."""
        return Slopes(self.rows, self.pointers, self.atoms).dot(w)

    def add_to(self, w: Vector, coefficients: Vector) -> None:
        """Add Σ_p coefficients[p] g_p to `w` in place."""
        planes_add(self.rows, self.atoms, self.pointers, coefficients, w)

    def total(self, weights: Vector) -> Plane:
        """Return the weighted sum of the planes as one dense plane."""
        slope = np.zeros(self.n_features)
        self.add_to(slope, weights)
        exact = self.all_exact
        excess = math.inf if exact else float(_scaled(self.each_slack, weights).sum())
        return Plane(slope, float(weights @ self.offsets), exact=exact, below=self.below, excess=excess)

    def slopes(self) -> "sparse.csr_array":
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
        offsets, values = self.offsets * factors, self.values * factors
        return replace(self, atoms=atoms, offsets=offsets, values=values, excess=_scaled(self.each_slack, factors))

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
            self.exact & other.exact,
            self.below and other.below,
            self.each_slack + other.each_slack,
        )


def _scaled(slack: Vector, factors: Vector) -> Vector:
    """Return how far functions times factors may be above their planes, unknown for negative factors."""
    scaled = np.where(factors < 0, math.inf, 0.0)
    np.multiply(slack, factors, out=scaled, where=factors > 0)
    return scaled


def atom_fault(atoms: Atoms, rows: Rows, n_features: int) -> str:
    """Return how atoms refer to rows or weights that do not exist; "" if they do not."""
    row, column = atoms.row.astype(np.int64), atoms.column.astype(np.int64)
    n_rows = len(rows.indptr) - 1
    if len(row) and not (row.min() >= -1 and row.max() < n_rows):
        return f"input rows from {row.min()} to {row.max()} where -1 to {n_rows - 1} are allowed"
    used = np.unique(row[row >= 0])
    starts, stops, n_places = rows.indptr[used], rows.indptr[used + 1], len(rows.places)
    if len(rows.data) not in (0, n_places) or (starts < 0).any() or (stops < starts).any() or (stops > n_places).any():
        return f"input rows that do not lie within {n_places} entries"
    # Atoms of row -1 take the last entry, which is 0: they refer to weights directly.
    furthest = np.zeros(n_rows + 1, dtype=np.int64)
    filled = used[stops > starts]
    if len(filled):
        entries, offsets = positions(rows.indptr, filled)
        furthest[filled] = np.maximum.reduceat(rows.places[entries], offsets[:-1])
    last = column + furthest[row]
    if len(column) and not (column.min() >= 0 and last.max() < n_features):
        return f"weights from {column.min()} to {last.max()} where 0 to {n_features - 1} are allowed"
    return ""


class Weighted(Protocol):
    """The task of planes; only the number of weights is read."""

    n_features: int


def checked_planes(planes: Planes, task: Weighted, method: str, n_planes: int) -> Planes:
    """Return planes of a method of a task; raise InputError if they refer to rows or weights that do not exist.

    Kernels do not check indices. Methods of the library are trusted.
    """
    if getattr(task, method).__module__.startswith("latentstruct."):
        return planes
    pointers, n_atoms = planes.pointers, {len(part) for part in planes.atoms}
    arrays = (pointers, *planes.rows, *planes.atoms)
    if any(type(array) is not np.ndarray or array.ndim != 1 for array in arrays):
        fault = "arrays that are not flat"
    elif (found := tuple(array.dtype.name for array in arrays)) != ARRAY_TYPES:
        fault = f"arrays of types {', '.join(found)}, not {', '.join(ARRAY_TYPES)}"
    elif planes.n_features != task.n_features or not len(planes.offsets) == len(planes.values) == n_planes:
        fault = f"{len(planes.offsets)} planes of {planes.n_features} weights"
    elif len(pointers) != n_planes + 1 or len(n_atoms) != 1 or not _ascends(pointers, *n_atoms):
        fault = f"{len(pointers)} pointers that do not ascend within the atoms"
    else:
        fault = atom_fault(planes.atoms, planes.rows, planes.n_features)
    if fault:
        expected = f"{n_planes} planes of {task.n_features} weights with valid indices"
        raise InputError(f"{type(task).__name__}.{method}", Description(fault), expected)
    return planes


def _ascends(pointers: Indices, limit: int) -> bool:
    return bool(pointers[0] >= 0 and pointers[-1] <= limit and (pointers[1:] >= pointers[:-1]).all())
