"""Cutting planes for kernels whose cuts consist of few sampled rows, so that no N × N matrix is needed."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.simplex_qp import solve_simplex_qp
from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Result
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import integer, real
from latentstruct.estimators.kernel_maps import KernelRows
from latentstruct.exceptions import Description, InputError
from latentstruct.solvers.base import BaseSolver, Monitor
from latentstruct.solvers.bundle import Progress

Table = NDArray[np.float64]
"""Numbers of all rows and weight vectors, (N, V)."""
CUT_BYTES = 1e9
FEWEST_CUTS, MOST_CUTS = 20, 200
QP_SHARE = 1e-3


@dataclass
class Function:
    """w = Σ_r κ(x_r, ·) ⊗ a_r: one function of the inputs per weight vector."""

    coefficients: Table  # (N, V) a_r
    scores: Table  # (N, V) values of the functions at all rows, K a

    @property
    def half_square(self) -> float:
        """½‖w‖²."""
        return 0.5 * float(np.vdot(self.coefficients, self.scores))


@dataclass
class Cut:
    """The slope g = Σ κ(x_r, ·) ⊗ a_r of a plane, over few rows."""

    rows: Indices  # (r,)
    coefficients: Table  # (r, V) a_r
    scores: Table  # (N, V) values of g at all rows

    def product(self, scores: Table) -> float:
        """Return ⟨g, w⟩ for the w that has these scores at all rows."""
        return float(np.vdot(self.coefficients, scores[self.rows]))


class CutModel:
    """The cuts found so far, their inner products, and the minimum of the model near a center v.

    The model is ½‖w‖² + max_k (b_k + ⟨g_k, w⟩); see `latentstruct.solvers.bundle.PlaneBundle` for the same with dense
    slopes, the term ρ/2‖w − v‖² and a maximum number of planes. Products with v and with the minimizer follow from
    those of the cuts.
    """

    def __init__(self, proximity: float, most: int) -> None:
        self.proximity, self.most = proximity, most
        self.cuts: list[Cut] = []
        self.gram = np.zeros((0, 0))
        self.offsets, self.at_center, self.near, self.far = np.zeros((4, 0))

    def add(self, cut: Cut, offset: float, at_center: float) -> None:
        """Add a cut with its height at zero and its product with v; if full, the one with the least mass is dropped."""
        if len(self.cuts) == self.most:
            self._drop(int((self.near + self.far).argmin()))
        products = np.array([cut.product(other.scores) for other in [*self.cuts, cut]])
        if products[-1] < -1e-9 * np.abs(products).max():
            got = Description(f"a function of squared norm {products[-1]:.3g}")
            raise InputError("kernel", got, "positive semidefinite", "Use 'rbf', 'poly' or another inner product.")
        k = len(self.cuts)
        wider = np.zeros((k + 1, k + 1))
        wider[:k, :k] = self.gram
        wider[k, :], wider[:, k] = products, products
        self.cuts.append(cut)
        self.gram = wider
        self.offsets, self.at_center = np.append(self.offsets, offset), np.append(self.at_center, at_center)
        self.near, self.far = (np.append(alpha, float(k == 0)) for alpha in (self.near, self.far))

    def _drop(self, gone: int) -> None:
        del self.cuts[gone]
        self.gram = np.delete(np.delete(self.gram, gone, axis=0), gone, axis=1)
        self.offsets, self.at_center = np.delete(self.offsets, gone), np.delete(self.at_center, gone)
        self.near, self.far = (_normalized(np.delete(alpha, gone)) for alpha in (self.near, self.far))

    def solve(self, precision: float) -> None:
        """Find the masses of the model's minimum, with and without the proximal term."""
        pull = self.at_center * self.proximity / (1.0 + self.proximity)
        self._solve(self.far, self.gram, self.offsets, precision)
        self._solve(self.near, self.gram / (1.0 + self.proximity), self.offsets + pull, precision)

    @staticmethod
    def _solve(alpha: Vector, gram: Table, gains: Vector, precision: float) -> None:
        scale = max(np.abs(gains).max(), np.diag(gram).max(), 1e-300)
        solve_simplex_qp(gram, gains, alpha, min(1e-10 * scale, precision), 100 * len(alpha) + 1000)

    def point(self, center: Function) -> Function:
        """Return the model's minimizer near the center."""
        coefficients, scores = self.proximity * center.coefficients, self.proximity * center.scores
        for cut, mass in zip(self.cuts, self.near, strict=True):
            if mass > 0:
                coefficients[cut.rows] -= mass * cut.coefficients
                scores -= mass * cut.scores
        return Function(coefficients / (1.0 + self.proximity), scores / (1.0 + self.proximity))

    def at_point(self) -> Vector:
        """Return the products of all cuts with the minimizer near the center."""
        return (self.proximity * self.at_center - self.gram @ self.near) / (1.0 + self.proximity)

    def lower_to(self, value: float) -> None:
        """Lower the cuts that are above the true loss at the minimizer near the center, as true planes never are."""
        self.offsets = np.minimum(self.offsets, value - self.at_point())

    def lowest(self) -> float:
        """Return the model's minimum."""
        return float(self.far @ self.offsets - 0.5 * self.far @ self.gram @ self.far)


def _normalized(alpha: Vector) -> Vector:
    return alpha / alpha.sum() if alpha.sum() > 0 else np.full(len(alpha), 1.0 / max(len(alpha), 1))


def sample_rows(coefficients: Table, count: int, rng: np.random.Generator) -> tuple[Indices, Table]:
    """Sample about `count` rows of a table, with values whose expectation is the table.

    Row r is sampled with a probability proportional to its norm, at most 1, and divided by it. Tables with no more
    nonzero rows are returned unchanged.
    """
    norms = np.linalg.norm(coefficients, axis=1)
    filled = np.flatnonzero(norms)
    if len(filled) <= count:
        return filled, coefficients[filled]
    order = rng.permutation(filled)
    steps = np.cumsum(norms[order]) * (count / norms.sum())
    hits = np.diff(np.floor(steps + rng.random()), prepend=0.0)
    expected = norms[order] * (count / norms.sum())
    taken = hits > 0
    rows = order[taken]
    return rows, coefficients[rows] * (hits[taken] / expected[taken])[:, None]


@dataclass(eq=False, repr=False)
class SampledCuts(BaseSolver):
    """One-slack cutting planes with a proximal term, each cut with few sampled rows.

    The weights of the objective are the scores of all N rows, whose metric is that of a kernel. The loss and its slope
    are computed from all rows; of the slope, a table (N, V) of coefficients, only `sample` rows are kept, so that a
    iteration costs N · sample kernel values and the solution needs few rows. A cut is tight at its point, and is
    lowered if the true loss is later found to be below it.

    Parameters
    ----------
    rows : KernelRows
        The training rows.
    sample : int, default=500
        Rows of one cut.
    constant : float, default=0.0
        Constant added to the kernel: the square of a constant feature.
    tol : float, default=1e-2
        Relative gap at which to stop. Sampled cuts are no bounds, so it is an estimate, and results are not certified.
    max_iter, max_seconds : number
        Limits.
    proximity : float, default=30.0
        Weight ρ of the term ρ/2‖w − v‖², where v are the best weights.
    random_state : int, default=0
        Seed of the samples.

    Notes
    -----
    Yu & Joachims (2008), "Training structural SVMs with kernels using sampled cuts", without the proximal term and with
    loss and violation estimated from samples too.
    """

    needs = frozenset({"convex", "l2"})
    constraints: ClassVar = {"sample": integer(1), "max_iter": integer(1), "proximity": real(0.0, closed="left")}

    rows: KernelRows
    sample: int = 500
    constant: float = 0.0
    tol: float = 1e-2
    max_iter: int = 1000
    max_seconds: float = float("inf")
    proximity: float = 30.0
    random_state: int | None = 0

    def minimize(self, objective: Objective, w0: Vector | None = None, *, state: Any = None, **given: Any) -> Result:
        """Minimize a function of the scores (N · V) of all rows, from the `Function` in the state of an earlier result.

        The regularizer of the objective is not used. Scores w0 alone do not determine the coefficients.
        """
        if given.get("checkpointer") is not None:
            raise InputError("checkpoint", given["checkpointer"], "None for sampled cuts, whose state is not stored")
        if w0 is not None and w0.any() and state is None:
            raise InputError("w0", w0, "None for sampled cuts without a `state`")
        kept = state if w0 is None or w0.any() else None
        return super().minimize(objective, None, state=kept, **given)

    @staticmethod
    def _loss(objective: Objective, at: Function) -> tuple[float, Table]:
        """Return Σ_i c_i [f⁺_i − f⁻_i] and its slope by the scores."""
        w = at.scores.ravel()
        plus, minus = objective.plus.total(w), objective.minus.total(w)
        return plus(w) - minus(w), (plus.slope - minus.slope).reshape(at.scores.shape)

    def _cut(self, slope: Table, rng: np.random.Generator) -> Cut:
        """Return a cut of few rows whose expectation is the slope."""
        rows, coefficients = sample_rows(slope, self.sample, rng)
        scores = self.rows.products(rows, coefficients) + self.constant * coefficients.sum(axis=0)
        return Cut(rows, coefficients, scores)

    def _run(self, objective: Objective, monitor: Monitor, w: Vector, state: Function | None) -> None:
        """Build models until a new one, independent of earlier samples, finds no improvement."""
        rng = np.random.default_rng(self.random_state)
        monitor.bounded = False
        nothing = np.zeros((self.rows.n_rows, objective.n_features // self.rows.n_rows))
        best = Function(nothing, nothing.copy()) if state is None else state
        loss, slope = self._loss(objective, best)
        monitor.state = best
        monitor.offer(best.scores.ravel(), best.half_square + loss, True)
        while not monitor.reason:
            before = monitor.objective
            loss, slope = self._one_model(objective, monitor, rng, loss, slope)
            if monitor.reason == "converged" and before - monitor.objective > self.tol * abs(monitor.objective):
                monitor.reason = ""

    def _one_model(
        self, objective: Objective, monitor: Monitor, rng: np.random.Generator, loss: float, slope: Table
    ) -> tuple[float, Table]:
        """Descend from the best weights, given their loss and slope, with a new model; return loss and slope."""
        affordable = int(min(MOST_CUTS, max(FEWEST_CUTS, CUT_BYTES / (8 * objective.n_features))))
        model, progress = CutModel(self.proximity, affordable), Progress()
        best: Function = monitor.state
        at, at_loss, at_slope = best, loss, slope
        while True:
            cut = self._cut(at_slope, rng)
            at_center = cut.product(best.scores)
            # Tight at its point, unless that is above the true loss at the center.
            model.add(cut, min(at_loss - cut.product(at.scores), loss - at_center), at_center)
            model.solve(QP_SHARE * self.tol * abs(monitor.objective))
            monitor.lower_bound = min(model.lowest(), monitor.objective)
            if monitor.close_iteration():
                return loss, slope
            if progress.stalled(monitor.gap):
                monitor.reason = "stalled"
                return loss, slope
            at, products = model.point(best), model.at_point()
            predicted = at.half_square + float((model.offsets + products).max())
            at_loss, at_slope = self._loss(objective, at)
            model.lower_to(at_loss)
            found, reached = at.half_square + at_loss, monitor.objective
            if found < reached and reached - found >= 0.1 * (reached - predicted):
                best, loss, slope, model.at_center = at, at_loss, at_slope, products
                monitor.state = best
                monitor.offer(at.scores.ravel(), found, True)
