"""The dual point that block solvers share: planes of each example, their mass, and w as its image.

For ½‖w‖² + Σ_i c_i f_i(w) − l·w − k with planes (g_ip, b_ip) of f_i and masses α_i in the simplex,
w(α) = l − Σ c_i α_ip g_ip, D(α) = −½‖w(α)‖² + Σ c_i α_ip b_ip − k and, at w = w(α),
P(w) − D(α) = Σ_i c_i [f_i(w) − Σ_p α_ip (b_ip + g_ip·w)].
"""

from dataclasses import dataclass

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.plane_store import PlaneStore
from latentstruct.planes import Planes
from latentstruct.ragged import Indices, Vector, Weights
from latentstruct.solvers import solver_state  # noqa: F401 - registers how plane stores are stored
from latentstruct.solvers.base import Monitor


@dataclass
class StoredPoint:
    """The state of a `DualPoint`."""

    store: PlaneStore
    w: Weights
    offset: float


class DualPoint:
    """A dual point over the planes found so far, and the oracle that finds more.

    Parameters
    ----------
    objective : Objective
        A convex objective with L2.
    monitor : Monitor
        Told of objective and bound.
    w0 : ndarray of shape (d,)
        If not zero, planes at w0 are added at once, unless an earlier store is given.
    store : PlaneStore, optional
        Planes and masses of an earlier call on the same data; they hold for any linear part and any weights c_i.
    most : int, optional
        Planes kept for an example; see `PlaneStore`.
    most_bytes : float, optional
        Bytes that all of them may take. An earlier store with another bound is left aside.
    """

    def __init__(
        self,
        objective: Objective,
        monitor: Monitor,
        w0: Vector,
        store: PlaneStore | None,
        most: int | None = None,
        most_bytes: float | None = None,
    ) -> None:
        self.oracle = objective.plus
        self.monitor = monitor
        self.every = np.arange(objective.n_examples)
        self.linear = objective.minus.total(w0)
        if store is not None and store.most_bytes != most_bytes:
            store = None
        ask_at_start = store is None and bool(w0.any())
        if store is None:
            # A plane of the clamped side is below the augmented side too, and starts at w = 0 when it is linear.
            store = PlaneStore(objective.minus.planes(w0), self.oracle.weights, most, most_bytes=most_bytes)
        else:
            store.weights = self.oracle.weights
        self.store = monitor.state = store
        self.w = np.empty(0)
        self.refresh()
        monitor.closing, monitor.model = self.certify, self.model
        if ask_at_start:
            self.ask(self.every, w0)

    def state(self) -> StoredPoint:
        """Return the state, with w as many small updates have left it."""
        return StoredPoint(self.store, self.w, self.offset)

    @classmethod
    def restored(cls, objective: Objective, monitor: Monitor, saved: StoredPoint) -> "DualPoint":
        """Return the point that `state` was taken from."""
        nothing, store = np.zeros(objective.n_features), saved.store
        point = cls(objective, monitor, nothing, store, store.most, store.most_bytes)
        point.w, point.offset = saved.w, saved.offset
        monitor.current = point.w
        return point

    def refresh(self) -> None:
        """Compute w and Σ c α b afresh from the masses, clearing the rounding of many small updates."""
        combined = self.store.combination()
        self.w = np.subtract(self.linear.slope, combined.slope, out=combined.slope)
        self.offset = combined.offset
        self.monitor.current = self.w

    @property
    def value(self) -> float:
        """D(α)."""
        return -0.5 * float(self.w @ self.w) + self.offset - self.linear.offset

    def model(self, w: Vector) -> float:
        """Return the objective at w with the highest kept plane of each example in place of f⁺."""
        heights = self.store.highest(w)[1]
        return 0.5 * float(w @ w) + (float(self.oracle.weights @ heights) - self.linear(w))

    def ask(self, rows: Indices, at: Vector | None = None) -> Planes:
        """Query the oracle for planes of the listed examples, by default at w, and keep them."""
        planes = self.oracle.planes(self.w if at is None else at, rows)
        self.offset += self.store.append(rows, planes, self.w)
        return planes

    def ascend(self, rows: Indices, rule: str = "smo", steps: int = 5) -> tuple[Vector, float]:
        """Raise D over the kept planes of the listed examples; return their gaps before, and the gain."""
        gaps, change, gain = self.store.ascend(rows, self.w, rule, steps)
        self.offset += change
        return gaps, gain

    def query(self, w: Vector) -> None:
        """Query the oracle for all examples at any w, keep their planes, and report P(w) and D(α).

        `w` must not be changed afterwards.
        """
        size = 0.5 * float(w @ w)
        self.monitor.require_finite(size)
        planes = self.ask(self.every, w)
        total = float(self.oracle.weights @ planes.values)
        self.monitor.offer(w, size + (total - self.linear(w)), planes.all_exact, copy=False)
        value = self.value
        if self.monitor.is_small(self.monitor.objective - value):
            self.refresh()
            value = self.value
        self.monitor.bound(value, self.store.below)

    def certify(self) -> Vector:
        """Ask all examples at one w: true objective and bound; return the examples' weighted gaps."""
        self.refresh()
        bound, heights = self.value, self.store.mean_heights(self.every, self.w)
        w = self.w.copy()
        planes = self.ask(self.every)
        values = planes.values if planes.all_exact else np.maximum(planes.values, self.store.highest(w)[1])
        gaps = self.oracle.weights * (values - heights)
        self.monitor.bound(bound, self.store.below)
        self.monitor.offer(w, bound + float(gaps.sum()), planes.all_exact)
        return gaps

    def shuffled_parts(self, rng: np.random.Generator, parts: int) -> list[Indices]:
        """Split the examples into random parts of nearly equal size."""
        order = rng.permutation(len(self.every))
        return [part for part in np.array_split(order, min(parts, len(order))) if len(part)]
