"""Linear and integer programs: variables with features, bounds and constraints, and their outputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.types import Indices, Vector
from latentstruct.core.unknown import UNKNOWN
from latentstruct.core.validation import check_length, check_shape, numbers_of
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.inputs import check_matrix

LARGEST = 2**31
"""Largest bound of an integer variable: solvers count in floating point with a tolerance."""
TOLERANCE = 1e-6
"""Relative violation of a constraint that counts as rounding."""


RANGE = 1e9
"""Largest ratio of two coefficients of a constraint: solvers take smaller ones as 0."""


class Violation(NamedTuple):
    """The constraint that a point violates most: its number, what the row is there, its bounds, and the distance."""

    row: int
    activity: float
    bounds: tuple[float, float]
    amount: float


def row_sizes(A: "sparse.csc_array") -> tuple[Vector, Vector]:
    """Return the smallest and the largest absolute coefficient of each row that are not 0; 1 if there is none."""
    sizes, used = np.abs(A.data), A.data != 0
    small, large = np.full(A.shape[0], np.inf), np.zeros(A.shape[0])
    np.minimum.at(small, A.indices[used], sizes[used])
    np.maximum.at(large, A.indices[used], sizes[used])
    return np.where(large > 0, small, 1.0), np.where(large > 0, large, 1.0)


@dataclass(eq=False)
class Constraints:
    """The points lower ≤ x ≤ upper, lb ≤ A x ≤ ub, with x integer where `integer` is True."""

    A: "sparse.csc_array"
    lb: Vector
    ub: Vector
    lower: Vector
    upper: Vector
    integer: NDArray[np.bool_]

    @cached_property
    def largest(self) -> Vector:
        """The largest absolute coefficient of each row, 1 if there is none."""
        return row_sizes(self.A)[1]

    def scaled(self) -> "Constraints":
        """Return the same constraints in units that suit a solver: rows in very small or large ones are scaled to 1."""
        extreme = (self.largest < 1e-3) | (self.largest > 1e6)
        scale = np.where(extreme, np.ldexp(1.0, -np.frexp(self.largest)[1]), 1.0)
        A = self.A.copy()
        A.data = A.data * scale[A.indices]
        return Constraints(A, self.lb * scale, self.ub * scale, self.lower, self.upper, self.integer)

    def violation(self, x: Vector) -> Violation | None:
        """Return the constraint that a point violates most, None if there is none beyond rounding."""
        if not len(self.lb):
            return None
        rows = self.A @ x
        amount = np.maximum(self.lb - rows, rows - self.ub)
        excess = amount - TOLERANCE * (self.largest + abs(self.A) @ np.abs(x))
        worst = int(excess.argmax())
        bounds = float(self.lb[worst]), float(self.ub[worst])
        return Violation(worst, float(rows[worst]), bounds, float(amount[worst])) if excess[worst] > 0 else None

    def without(self, known: NDArray[np.bool_], values: Vector) -> "Constraints":
        """Return the constraints of the other variables where those that are `known` have these values."""
        given, free = self.A @ np.where(known, values, 0.0), np.flatnonzero(~known)
        bounds = self.lb - given, self.ub - given
        return Constraints(self.A[:, free], *bounds, self.lower[free], self.upper[free], self.integer[free])

    def with_distances(self, at: Indices, values: Vector) -> "Constraints":
        """Add variables t and b for each variable in `at`: t is at most its distance from a value between its bounds.

        With b = 0, t ≤ x − v; with b = 1, t ≤ v − x.
        """
        n, (m, width) = len(at), self.A.shape
        below, above = 2.0 * (values - self.lower[at]), 2.0 * (self.upper[at] - values)
        chosen = sparse.csr_array((np.ones(n), (np.arange(n), at)), shape=(n, width))
        one = sparse.eye_array(n)
        A = sparse.block_array(
            [
                [self.A, sparse.csr_array((m, n)), sparse.csr_array((m, n))],
                [-chosen, one, -sparse.diags_array(below)],
                [chosen, one, sparse.diags_array(above)],
            ]
        )
        return Constraints(
            sparse.csc_array(A),
            np.concatenate([self.lb, np.full(2 * n, -np.inf)]),
            np.concatenate([self.ub, -values, values + above]),
            np.append(self.lower, np.zeros(2 * n)),
            np.concatenate([self.upper, np.maximum(below, above) / 2.0, np.ones(n)]),
            np.concatenate([self.integer, np.zeros(n, dtype=bool), np.ones(n, dtype=bool)]),
        )


@dataclass(eq=False)
class ProgramInput:
    """One program: V variables with features, and linear constraints between them.

    Attributes
    ----------
    features : array or CSR array of shape (V, d)
        Features of the variables. The score of an output y is Σ_j y_j w·x_j.
    A : array or sparse array of shape (m, V), optional
        Coefficients of the constraints lb ≤ A y ≤ ub; no constraints if None.
    lb, ub : float or array of shape (m,)
        Bounds of the constraints, which may be infinite.
    lower, upper : float or array of shape (V,)
        Bounds of the variables, 0 and 1 by default.
    integer : bool or array of bool of shape (V,)
        Whether variables must be integers, True by default.
    names : sequence of V str, optional
        Names of the variables, for messages and files.
    constraint_names : sequence of m str, optional
        Names of the constraints, for messages.
    """

    features: Any
    A: Any = None
    lb: Any = -np.inf
    ub: Any = np.inf
    lower: Any = 0.0
    upper: Any = 1.0
    integer: Any = True
    names: Sequence[str] | None = None
    constraint_names: Sequence[str] | None = None

    __repr__ = short_repr

    @cached_property
    def constraints(self) -> Constraints:
        """The validated constraints.

        Raises
        ------
        InputError
            If arrays do not fit, are not numbers, or bounds exclude each other.
        """
        n = check_matrix(self.features, "features").shape[0]
        if n == 0:
            raise InputError("features", Description("none"), "rows of at least one variable")
        A = check_matrix(np.zeros((0, n)) if self.A is None else self.A, "A")
        if A.shape[1] != n:
            raise InputError("A", Description(f"{A.shape[1]} columns"), f"a matrix with {n} columns, one per variable")
        m = A.shape[0]
        lb, ub = (_bounds(values, m, name) for name, values in (("lb", self.lb), ("ub", self.ub)))
        lower, upper = (_bounds(values, n, name) for name, values in (("lower", self.lower), ("upper", self.upper)))
        integer = np.broadcast_to(np.asarray(self.integer, dtype=bool), (n,)) if np.ndim(self.integer) == 0 else None
        if integer is None:
            integer = numbers_of(self.integer, "integer") != 0
            check_shape(integer, (n,), "integer")
        for names, size, name in ((self.names, n, "names"), (self.constraint_names, m, "constraint_names")):
            if names is not None:
                check_length(names, size, name, name)
        for low, high, kind in ((lower, upper, "variable"), (lb, ub, "constraint")):
            for wrong in np.flatnonzero((low > high) | (low == np.inf) | (high == -np.inf))[:1]:
                shown = self.variable(wrong) if kind == "variable" else self.constraint(wrong)
                got = Description(f"bounds from {low[wrong]:g} to {high[wrong]:g} of {shown}")
                raise InputError("lower" if kind == "variable" else "lb", got, "at most the upper bound")
        matrix = sparse.csc_array(A)
        small, large = row_sizes(matrix)
        for wrong in np.flatnonzero(large / RANGE > small)[:1]:
            got = Description(f"coefficients from {small[wrong]:g} to {large[wrong]:g} in {self.constraint(wrong)}")
            expected = f"coefficients whose sizes differ by a factor of {RANGE:g} at most"
            raise InputError("A", got, expected, "Use other units.")
        # Without −0, which would be shown.
        lower = np.where(integer, np.ceil(lower - 1e-9), lower) + 0.0
        upper = np.where(integer, np.floor(upper + 1e-9), upper) + 0.0
        sizes = np.maximum(*(np.where(np.isfinite(bound), np.abs(bound), 0.0) for bound in (lower, upper)))
        for wrong in np.flatnonzero(integer & (sizes > LARGEST))[:1]:
            got = Description(f"{sizes[wrong]:g} for {self.variable(wrong)}")
            raise InputError("upper", got, "at most 2**31 in size for integer variables", "Use other units.")
        return Constraints(matrix, lb, ub, lower, upper, np.array(integer))

    def variable(self, j: int) -> str:
        """Return how messages name a variable."""
        return f"variable {j}" if self.names is None else f"variable {self.names[j]!r}"

    def constraint(self, row: int) -> str:
        """Return how messages name a constraint."""
        return f"constraint {row}" if self.constraint_names is None else f"constraint {self.constraint_names[row]!r}"


def _bounds(values: Any, n: int, name: str) -> Vector:
    found = numbers_of(values, name)
    if found.ndim == 0:
        found = np.full(n, float(found))
    check_shape(found, (n,), name)
    if np.isnan(found).any():
        raise InputError(name, Description("NaN"), "free of NaN")
    return found


@dataclass(eq=False)
class ProgramOutput:
    """An output whose variables have different costs, or may be negative.

    Attributes
    ----------
    values : array of shape (V,)
        Values of the variables; NaN is unknown. Unlike in a plain vector, −1 is a value.
    weights : array of shape (V,), optional
        Cost ≥ 0 of each unit of difference from the value; 1 for all by default.
    """

    values: Any
    weights: Any = None

    __repr__ = short_repr


def output_arrays(y: Any, n: int, name: str) -> tuple[Vector, Vector]:
    """Return the values of an output, NaN where unknown, and their weights."""
    given, weights = (y.values, y.weights) if isinstance(y, ProgramOutput) else (y, None)
    if issparse(given):
        given = given.toarray().ravel()
    values = np.full(n, np.nan) if given is None else numbers_of(given, name)
    check_shape(values, (n,), name, "one value per variable")
    if np.isinf(values).any():
        raise InputError(name, Description("infinity"), "finite, or NaN where unknown")
    if not isinstance(y, ProgramOutput):
        values = np.where(values == UNKNOWN, np.nan, values)
    if weights is None:
        return values, np.ones(len(values))
    weights = numbers_of(weights, f"{name}.weights")
    check_shape(weights, values.shape, f"{name}.weights")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise InputError(f"{name}.weights", Description("negative or infinite costs"), "finite and at least 0")
    return values, weights
