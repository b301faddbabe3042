"""Kernels between input rows, and explicit coordinates in which rows have a kernel's inner products."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.lazy import issparse, linalg, sklearn
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import check_shape, numbers_of, options, real
from latentstruct.exceptions import Description, InputError

NAMES = ("linear", "poly", "rbf", "sigmoid", "precomputed")
Matrix = Any
"""An ndarray or csr_array of input rows (n, d)."""

BLOCK = 64
"""Pivots that are looked at together: large enough for matrix products, small enough to choose well."""
ROWS_TOGETHER = 4096
"""Rows whose kernel values are held at one time when only their products are wanted."""
CHECKED_ROWS = 256
"""Rows on which a kernel of unknown origin is tested for symmetry and for being positive semi-definite."""
LEAST_REMAINDER = 1e-13
"""Share of the largest κ(x, x) below which a remainder is rounding, whatever the tolerance is."""
ROUNDING = 1e-7
"""Share of the largest κ(x, x) that a positive semi-definite matrix may miss by rounding."""
GAMMA = options("scale", "auto") | real(0.0)
INNER_PRODUCT = "Use 'rbf' or 'poly', or add a constant to the diagonal of a precomputed kernel."
FAIR_SHARE = 0.3
"""Of the largest remainder, what a pivot must have when its turn comes; the others wait for a better choice."""


@dataclass(frozen=True)
class Kernel:
    """κ(x, x') between input rows."""

    # "linear" x·x', "poly" (γ x·x' + c₀)^degree, "rbf" exp(−γ‖x − x'‖²), "sigmoid" tanh(γ x·x' + c₀), or a function of
    # two matrices (n, d) and (m, d) that returns the matrix (n, m)
    kind: str | Callable[[Matrix, Matrix], Any]
    # γ, degree and c₀.
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 1.0

    def between(self, A: Matrix, B: Matrix) -> NDArray[np.float64]:
        """Return κ of all pairs of rows of A (n, d) and B (m, d), shape (n, m)."""
        pairwise = sklearn.metrics.pairwise
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kind == "linear":
                values = pairwise.linear_kernel(A, B)
            elif self.kind == "poly":
                values = pairwise.polynomial_kernel(A, B, self.degree, self.gamma, self.coef0)
            elif self.kind == "rbf":
                values = pairwise.rbf_kernel(A, B, self.gamma)
            elif self.kind == "sigmoid":
                values = pairwise.sigmoid_kernel(A, B, self.gamma, self.coef0)
            else:
                values = self._called(A, B)
        if not np.isfinite(values.sum()) and not np.isfinite(values).all():
            got = Description(f"a value that is not finite from {repr_short(self.kind)}")
            raise InputError("kernel", got, "finite", "Scale the inputs, or decrease `gamma` or `degree`.")
        return values

    def _called(self, A: Matrix, B: Matrix) -> NDArray[np.float64]:
        assert callable(self.kind)
        values = numbers_of(self.kind(A, B), "kernel", "a function that returns real numbers")
        check_shape(values, (A.shape[0], B.shape[0]), "kernel", "one value per pair of rows")
        return values

    def diagonal(self, A: Matrix) -> Vector:
        """Return κ(x, x) of each row, shape (n,)."""
        if self.kind == "rbf":
            return np.ones(A.shape[0])
        parts = range(0, A.shape[0], BLOCK)
        return np.concatenate([np.diag(self.between(A[k : k + BLOCK], A[k : k + BLOCK])) for k in parts])


@dataclass
class FeatureRows:
    """Training rows (N, d) with a kernel between them."""

    matrix: Matrix
    kernel: Kernel

    @property
    def n_rows(self) -> int:
        """Number of rows, N."""
        return self.matrix.shape[0]

    @property
    def trusted(self) -> bool:
        """Whether the kernel is known to be symmetric and positive semi-definite."""
        whole = isinstance(self.kernel.degree, int | np.integer) and self.kernel.coef0 >= 0
        return self.kernel.kind in ("linear", "rbf") or (self.kernel.kind == "poly" and whole)

    def diagonal(self) -> Vector:
        """Return κ(x_r, x_r) of all rows, shape (N,)."""
        return self.kernel.diagonal(self.matrix)

    def columns(self, chosen: Indices) -> NDArray[np.float64]:
        """Return κ(x_r, x_c) of all rows r and the chosen rows c, shape (N, len(chosen))."""
        return self.kernel.between(self.matrix, self.matrix[chosen])

    def products(self, chosen: Indices, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Σ_c κ(x_r, x_c) a_c of all rows, shape (N, V) for coefficients (len(chosen), V)."""
        return expand(self.kernel, self.matrix, self.matrix[chosen], coefficients)

    def subset(self, chosen: Indices) -> "FeatureRows":
        """Return the chosen rows alone."""
        return FeatureRows(self.matrix[chosen], self.kernel)


@dataclass
class GramRows:
    """Rows whose inner products (N, N) were computed beforehand."""

    gram: NDArray[np.float64]
    trusted: bool = False

    @classmethod
    def checked(cls, gram: Matrix) -> "GramRows":
        """Take a symmetric matrix (N, N), or raise."""
        if gram.shape[0] != gram.shape[1]:
            expected = "the square kernel matrix of the training rows for a precomputed `kernel`"
            raise InputError("X", Description(f"shape {gram.shape}"), expected)
        values = gram.toarray() if issparse(gram) else gram
        allowed = 1e-8 * max(float(np.abs(np.diag(values)).max()), 1e-300)
        for start in range(0, len(values), ROWS_TOGETHER):
            part = slice(start, start + ROWS_TOGETHER)
            differences = np.abs(values[part] - values[:, part].T)
            if differences.max() > allowed:
                r, c = np.unravel_index(differences.argmax(), differences.shape)
                here, there = f"[{start + r}, {c}]", f"[{c}, {start + r}]"
                got = f"{values[start + r, c]:.6g} at {here} and {values[c, start + r]:.6g} at {there}"
                raise InputError("X", Description(got), "a symmetric kernel matrix", "Use (K + K.T) / 2.")
        return cls(values)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.gram)

    def diagonal(self) -> Vector:
        """Return κ(x_r, x_r) of all rows."""
        return np.array(np.diag(self.gram))

    def columns(self, chosen: Indices) -> NDArray[np.float64]:
        """Return κ between all rows and the chosen ones."""
        return self.gram[:, chosen]

    def products(self, chosen: Indices, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Σ_c κ(x_r, x_c) a_c of all rows."""
        return self.gram[:, chosen] @ coefficients

    def subset(self, chosen: Indices) -> "GramRows":
        """Return the chosen rows alone."""
        return GramRows(self.gram[np.ix_(chosen, chosen)], self.trusted)


KernelRows = FeatureRows | GramRows
"""Training rows that are known by their inner products only."""


def expand(kernel: Kernel, rows: Matrix, support: Matrix, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Σ_s κ(x_r, z_s) a_s of rows (n, d), support (B, d) and coefficients (B, V): shape (n, V).

    Kernel values are held for some rows at a time only; without support rows all sums are 0.
    """
    if len(coefficients) == 0:
        return np.zeros((rows.shape[0], coefficients.shape[1]))
    out = np.empty((rows.shape[0], coefficients.shape[1]))
    for start in range(0, len(out), ROWS_TOGETHER):
        part = slice(start, start + ROWS_TOGETHER)
        out[part] = kernel.between(rows[part], support) @ coefficients
    return out


def resolve_gamma(gamma: Any, matrix: Matrix) -> float:
    """Return γ: a number as it is, "scale" as 1/(d·variance of X), "auto" as 1/d, as scikit-learn's SVC does."""
    named = isinstance(gamma, str)
    if named and gamma == "scale":
        with np.errstate(over="ignore", invalid="ignore"):
            mean_square = (matrix.multiply(matrix) if issparse(matrix) else matrix**2).mean()
            variance = float(mean_square - matrix.mean() ** 2)
        if not np.isfinite(variance):
            got = Description(f"values up to {float(abs(matrix).max()):.3g}")
            raise InputError("X", got, "small enough for finite squares", "Standardize the features.")
        return 1.0 / (matrix.shape[1] * variance) if variance > 0 else 1.0
    if named and gamma == "auto":
        return 1.0 / matrix.shape[1]
    GAMMA.check(gamma, "gamma")
    return float(gamma)


@dataclass
class Coordinates:
    """An incomplete Cholesky factor: rows L (N, r) with L Lᵀ ≈ K, exact in the rows and columns of the pivots.

    Weights v in these coordinates are the function x ↦ Σ_p κ(x, x_p) a_p with a = L_P⁻ᵀ v, of the same norm. Its
    values at all N rows are L v exactly: what L lacks is orthogonal to the pivots.
    """

    rows: NDArray[np.float64]  # (N, r) L
    pivots: Indices  # (r,) rows that span the coordinates; L_P, their rows in this order, is lower triangular
    remainders: Vector  # (N,) diagonal of K − L Lᵀ, not below 0

    @property
    def error(self) -> float:
        """Trace of K − L Lᵀ."""
        return float(self.remainders.sum())

    def expansion(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients a (r, V) of the pivots for weights (r, V)."""
        if len(self.pivots) == 0:
            return np.zeros((0, weights.shape[1]))
        return linalg.solve_triangular(self.rows[self.pivots], weights, lower=True, trans="T")


def factorize(rows: KernelRows, tolerance: float, most: int | None = None, most_bytes: float = np.inf) -> Coordinates:
    """Return the incomplete Cholesky factor of a kernel by pivots with the largest remainders (Fine & Scheinberg 2001).

    It ends when no remainder of the N rows is above the share `tolerance` of the largest κ(x, x), or with `most` pivots
    or `most_bytes` of L. Pivots are taken in blocks, so that the work, N r² multiplications, is that of matrix
    products; N × N values are never held at one time.
    """
    remainders = rows.diagonal()
    scale = _checked_scale(remainders)
    enough = max(tolerance, LEAST_REMAINDER) * scale
    n, most = rows.n_rows, rows.n_rows if most is None else min(most, rows.n_rows)
    L, pivots = np.zeros((n, min(2 * BLOCK, n))), np.zeros(0, dtype=np.int64)
    while len(pivots) < most and remainders.max() > enough:
        candidates = _largest(remainders, min(BLOCK, most - len(pivots), n))
        columns = rows.columns(candidates) - L[:, : len(pivots)] @ L[candidates, : len(pivots)].T
        chosen, block = _block_factor(candidates, columns, max(enough, FAIR_SHARE * remainders.max()))
        if len(chosen) == 0:
            # What was left of them was rounding.
            remainders[candidates] = np.minimum(columns[candidates].diagonal(), 0.5 * remainders[candidates])
            continue
        block[pivots] = 0.0
        end = len(pivots) + len(chosen)
        if end > L.shape[1]:
            L = _widened(L, min(max(end, 2 * L.shape[1]), n), most_bytes)
        L[:, len(pivots) : end] = block
        pivots = np.concatenate([pivots, chosen])
        remainders = remainders - np.einsum("ij,ij->i", block, block)
        remainders[pivots] = 0.0
        _refuse_negative(remainders, scale)
    found = Coordinates(np.ascontiguousarray(L[:, : len(pivots)]), pivots, np.maximum(remainders, 0.0))
    if not rows.trusted:
        _check_remainder(rows, found, scale)
    return found


def check_kernel(rows: KernelRows) -> None:
    """Raise unless some of the rows have a symmetric positive semi-definite kernel matrix."""
    if not rows.trusted:
        chosen = np.unique(np.linspace(0, rows.n_rows - 1, CHECKED_ROWS).astype(np.int64))
        factorize(rows.subset(chosen), 1e-10)


def _checked_scale(diagonal: Vector) -> float:
    lowest, scale = float(diagonal.min()), float(diagonal.max())
    _refuse_negative(diagonal, max(scale, -lowest))
    return scale


def _refuse_negative(remainders: Vector, scale: float) -> None:
    if remainders.min() < -ROUNDING * scale:
        r = int(remainders.argmin())
        got = Description(f"a squared norm of {remainders[r]:.3g} for the rest of row {r}")
        raise InputError("kernel", got, "positive semidefinite", INNER_PRODUCT)


def _largest(remainders: Vector, count: int) -> Indices:
    chosen = np.argpartition(-remainders, count - 1)[:count]
    return chosen[np.argsort(-remainders[chosen], kind="stable")]


def _block_factor(
    candidates: Indices, columns: NDArray[np.float64], least: float
) -> tuple[Indices, NDArray[np.float64]]:
    """Return which candidates become pivots, in their order, and their columns (N, k) of the factor."""
    inner = columns[candidates]
    factor, order, rank, _ = linalg.lapack.dpstrf(0.5 * (inner + inner.T), tol=least, lower=1)
    order = order[: int(rank)] - 1
    corner = np.tril(factor[: int(rank), : int(rank)])
    block = linalg.solve_triangular(corner, columns[:, order].T, lower=True).T
    block[candidates[order]] = corner
    return candidates[order], block


def _widened(L: NDArray[np.float64], width: int, most_bytes: float) -> NDArray[np.float64]:
    if 8.0 * len(L) * width > most_bytes:
        raise InputError(
            "X",
            Description(f"{len(L)} rows that need more than {L.shape[1]} coordinates each"),
            f"small enough for the coordinates of the kernel to fit in {most_bytes / 1e9:.3g} GB",
            "Set `cuts` to a number such as 500, set `max_basis`, or increase `basis_tol`.",
        )
    wider = np.zeros((len(L), width))
    wider[:, : L.shape[1]] = L
    return wider


def _check_remainder(rows: KernelRows, found: Coordinates, scale: float) -> None:
    """Raise if what is left of the kernel matrix cannot be one: |R_rc| > √(R_rr R_cc), or it is not symmetric."""
    chosen = np.unique(np.linspace(0, rows.n_rows - 1, CHECKED_ROWS).astype(np.int64))
    columns = rows.columns(chosen)
    scale = max(scale, float(np.abs(columns).max()))
    if np.abs(columns[chosen] - columns[chosen].T).max() > ROUNDING * scale:
        raise InputError("kernel", Description("κ(x, x') ≠ κ(x', x)"), "symmetric")
    left = np.abs(columns - found.rows @ found.rows[chosen].T)
    excess = left - np.sqrt(np.outer(found.remainders, found.remainders[chosen])) - 10 * ROUNDING * scale
    if excess.max() > 0:
        r, c = np.unravel_index(excess.argmax(), excess.shape)
        got = Description(f"a product of rows {r} and {chosen[c]} that exceeds their norms")
        raise InputError("kernel", got, "positive semidefinite", INNER_PRODUCT)
