"""The dual point of block solvers: planes of each example, their mass, and w as its image.

For ½‖w‖² + Σ_i c_i f_i(w) − l·w − k with planes (g_ip, b_ip) of f_i and masses α_i in the simplex,
w(α) = l − Σ c_i α_ip g_ip, D(α) = −½‖w(α)‖² + Σ c_i α_ip b_ip − k and, at w = w(α),
P(w) − D(α) = Σ_i c_i [f_i(w) − Σ_p α_ip (b_ip + g_ip·w)].
"""

from dataclasses import InitVar, dataclass, field
from functools import partial

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.core.types import Indices, Vector, Weights
from latentstruct.persistence.state_trees import CONTEXT, load_state_dict, state_dict
from latentstruct.planes.memory import MEGABYTE
from latentstruct.planes.plane import Planes
from latentstruct.planes.store import PlaneStore
from latentstruct.solvers import solver_state  # noqa: F401 - registers how plane stores are stored
from latentstruct.solvers.base import Monitor


@dataclass
class DualPoint:
    """A dual point over the planes found so far, and the oracle that finds more; the state of block solvers."""

    objective: Objective = field(metadata=CONTEXT)  # a convex objective with L2
    # Receives objective and bound. If it continues an earlier run, the state is read from it.
    monitor: Monitor = field(metadata=CONTEXT)
    w0: InitVar[Vector]  # (d,) initial weights, where the oracle is queried unless they are zero or `kept` is given
    # Planes and masses of an earlier call on the same data; they hold for any linear part and any weights c_i.
    kept: InitVar[PlaneStore | None]
    most: InitVar[int | None] = None  # maximum planes kept per example; see `PlaneStore`
    # Maximum megabytes of all planes. An earlier store with another limit is not used.
    cache_mb: InitVar[float | None] = None
    store: PlaneStore = field(init=False)
    w: Weights = field(init=False)
    offset: float = field(init=False)

    def __post_init__(self, w0: Vector, kept: PlaneStore | None, most: int | None, cache_mb: float | None) -> None:
        objective, monitor = self.objective, self.monitor
        most_bytes = None if cache_mb is None else cache_mb * MEGABYTE
        self.oracle, self.linear = objective.plus, objective.minus.total(w0)
        self.every = np.arange(objective.n_examples)
        fresh = False
        if monitor.resumed:
            with monitor.restoring():
                load_state_dict(self, monitor.solver, objective)
            monitor.current = self.w
        else:
            # A plane of the clamped side is below the augmented side too. A linear one is tight at w = 0.
            fresh = kept is None or kept.most_bytes != most_bytes
            if fresh:
                kept = PlaneStore(objective.minus.planes(w0), objective.weights, most, most_bytes=most_bytes)
            assert kept is not None
            self.store, kept.weights = kept, objective.weights
            self.refresh()
        monitor.state, monitor.closing, monitor.model = self.store, self.certify, self.model
        monitor.snapshot = partial(state_dict, self)
        if fresh and w0.any():
            self.query(w0)

    def refresh(self) -> None:
        """Recompute w and Σ c α b from the masses, which removes the rounding errors of many small updates."""
        combined = self.store.combination()
        self.w = np.subtract(self.linear.slope, combined.slope, out=combined.slope)
        self.offset = combined.offset
        self.monitor.current = self.w

    @property
    def value(self) -> float:
        """D(α)."""
        return -0.5 * float(self.w @ self.w) + self.offset - self.linear.offset

    def model(self, w: Vector) -> float:
        """Return the objective at w with f⁺ replaced by the highest kept plane of each example."""
        heights = self.store.highest(w)[1]
        return 0.5 * float(w @ w) + (float(self.oracle.weights @ heights) - self.linear(w))

    def query_rows(self, rows: Indices) -> Planes:
        """Query the oracle for planes of the listed examples at w, and keep them."""
        planes = self.oracle.planes(self.w, rows)
        self.offset += self.store.append(rows, planes, self.w)
        return planes

    def ascend(self, rows: Indices, rule: str = "smo", steps: int = 5) -> tuple[Vector, float]:
        """Increase D over the kept planes of the listed examples; return their gaps before, and the gain."""
        gaps, change, gain = self.store.ascend(rows, self.w, rule, steps)
        self.offset += change
        return gaps, gain

    def query(self, w: Vector) -> None:
        """Query the oracle for all examples at any w, keep their planes, and report P(w) and D(α).

        `w` must not be modified afterwards.
        """
        monitor, size = self.monitor, 0.5 * float(w @ w)
        monitor.require_finite(size)
        planes = self.oracle.planes(w)
        self.offset += self.store.append(self.every, planes, self.w)
        total = float(self.oracle.weights @ planes.values)
        monitor.offer(w, size + (total - self.linear(w)), planes.all_exact, copy=False)
        if monitor.is_small(monitor.objective - self.value):
            self.refresh()
        monitor.bound(self.value, self.store.below)

    def certify(self) -> Vector:
        """Query all examples at one w: true objective and bound; return the examples' weighted gaps."""
        self.refresh()
        bound, heights = self.value, self.store.mean_heights(self.every, self.w)
        w = self.w.copy()
        planes = self.query_rows(self.every)
        values = planes.values if planes.all_exact else np.maximum(planes.values, self.store.highest(w)[1])
        gaps = self.oracle.weights * (values - heights)
        self.monitor.bound(bound, self.store.below)
        self.monitor.offer(w, bound + float(gaps.sum()), planes.all_exact)
        return gaps
