"""Block ascent that changes to the bundle where blocks make no progress."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from latentstruct.checkpoints import NestedCheckpointer, restoring
from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Callback, Checkpointer, Result, Round
from latentstruct.ragged import Vector
from latentstruct.solvers.base import GIVEN_UP, BaseSolver, checked_bound
from latentstruct.solvers.block_ascent import BlockAscent
from latentstruct.solvers.bundle import Bundle, PlaneBundle
from latentstruct.solvers.caches import shared_out
from latentstruct.state_trees import Tree, from_state_dict, state_dict

BUNDLE_BYTES, MOST_PLANES = 1e9, 200
CACHED_PLANES = 50
# Spells of `patience` iterations, each as good as the last, that block ascent may still need.
MOST_SPELLS = 5
# Times the patience with more weights than examples, where a bundle may need as many planes as there are weights.
MORE_PATIENCE = 10
# Iterations of block ascent in one of many similar problems, and where the dense planes of the bundle are long.
PATIENCE, LONG_PATIENCE = 40, 1000
LONG = 50_000


def affordable_planes(objective: Objective) -> int:
    """Return how many dense planes a bundle may keep without taking too much memory."""
    return int(min(MOST_PLANES, max(10, BUNDLE_BYTES / (8 * objective.n_features))))


@dataclass
class Handover:
    """The state of `HingeSolver`: the gaps of block ascent, or what it reached before the bundle took over."""

    gaps: list[float] | None
    first: Result | None
    rounds_before: int
    inner: Any


@dataclass(eq=False, repr=False)
class HingeSolver(BaseSolver):
    """What ``solver="auto"`` uses for the hinge: `BlockAscent`, and `Bundle` where that makes little progress.

    Block ascent is fastest where examples share little. With strongly correlated examples of large scale (features in
    the thousands, a very large C) or few weights that all examples share (alignments) each example's step undoes those
    of the others; a bundle, which moves all at once and adapts its proximal term, then needs far fewer oracle calls.
    It continues from the weights, the dual point and the planes of block ascent, so that neither objective nor bound
    gets worse. If 200 dense planes take more than 1 GB, block ascent continues to the end.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap (P − D)/P to certify.
    max_rounds, max_seconds : number
        Limits: rounds of each of the two, seconds of both together.
    patience : int, default=40
        Iterations of block ascent before it is judged, ten times as many if there are more weights than examples.
        After twice as many it is also given up if the gap, falling as in the last `patience` iterations, would take
        five times as many more.
    hopeless : float, default=0.5
        Relative gap that says, after so many rounds, that examples undo each other's steps.
    cache_mb : float, optional
        Megabytes that all kept planes may take; up to half is left to the bundle. Less costs rounds. By default
        there is no bound but 1 GB for the bundle, and 50 planes an example.
    """

    needs = BlockAscent.needs

    tol: float = 1e-3
    max_rounds: int = 10000
    max_seconds: float = float("inf")
    patience: int = 40
    hopeless: float = 0.5
    cache_mb: float | None = None

    def check(self, objective: Objective) -> None:
        """Raise unless objective and parameters fit."""
        super().check(objective)
        self._check_at_least(1, "patience")

    def repeated(self, objective: Objective) -> Self:
        """Return the solver with parameters for one of many similar problems.

        With kept planes block ascent ends soon; where it does not, the bundle makes more of them.
        """
        patience = PATIENCE if objective.n_features <= LONG else LONG_PATIENCE
        return self.set_params(patience=patience, hopeless=0.0)

    def minimize(
        self,
        objective: Objective,
        w0: Vector | None = None,
        *,
        state: Any = None,
        callback: Callback | None = None,
        checkpointer: Checkpointer | None = None,
    ) -> Result:
        """Minimize the objective; see `BaseSolver.minimize`."""
        self._check_cache()
        saved = None
        if checkpointer is not None and checkpointer.saved is not None:
            with restoring(checkpointer):
                saved = from_state_dict(Handover, checkpointer.saved, objective)
        if isinstance(state, PlaneBundle) if saved is None else saved.gaps is None and saved.first is None:
            nested = self._nested(checkpointer, saved, lambda: None)
            return self._bundle(objective).minimize(objective, w0, state=state, callback=callback, checkpointer=nested)
        first = None if saved is None else saved.first
        if first is not None:
            return self._go_on(objective, first, callback, checkpointer, saved)
        first = self._block_ascent(objective, w0, state, callback, checkpointer, saved)
        return self._go_on(objective, first, callback, checkpointer, None) if first.reason == GIVEN_UP else first

    @staticmethod
    def _nested(
        checkpointer: Checkpointer | None, saved: Handover | None, own: Callable[[], Result | list[float] | None]
    ) -> NestedCheckpointer | None:
        """Return the checkpointer of one of the two solvers; `own` gives what is stored with its state."""
        if checkpointer is None:
            return None

        def wrap(tree: Tree) -> Tree:
            more = own()
            first, gaps = (more, None) if isinstance(more, Result) else (None, more)
            return state_dict(Handover(gaps, first, 0 if first is None else first.n_rounds, tree))

        return NestedCheckpointer(checkpointer, wrap, None if saved is None else saved.inner, lasting=True)

    def _block_ascent(
        self,
        objective: Objective,
        w0: Vector | None,
        state: Any,
        callback: Callback | None,
        checkpointer: Checkpointer | None,
        saved: Handover | None,
    ) -> Result:
        """Return what block ascent reached; its reason is `GIVEN_UP` if the bundle is to continue."""
        gaps = [] if saved is None or saved.gaps is None else saved.gaps
        bundle_fits = affordable_planes(objective) == MOST_PLANES
        patience = self.patience * (1 if objective.n_features <= objective.n_examples else MORE_PATIENCE)

        def watch(line: Round) -> Any:
            answer = None if callback is None else callback(line)
            gaps.append(line.gap)
            return answer or (GIVEN_UP if bundle_fits and self._crawls(gaps, abs(line.objective), patience) else False)

        store_mb = shared_out(self.cache_mb, objective.n_features, self._most_planes(objective)).store_mb
        solver = BlockAscent(self.tol, self.max_rounds, self.max_seconds, cache_mb=store_mb)
        nested = self._nested(checkpointer, saved, lambda: gaps)
        return solver.minimize(objective, w0, state=state, callback=watch, checkpointer=nested)

    def _crawls(self, gaps: list[float], objective: float, patience: int) -> bool:
        """Return whether to give up block ascent: far from the goal after long, or so slow that it stays far."""
        if len(gaps) < patience:
            return False
        if gaps[-1] > self.hopeless * objective:
            return True
        goal = self.tol * objective
        if len(gaps) < 2 * patience or not gaps[-1] > goal > 0:
            return False
        fall = math.log(gaps[-1 - patience] / gaps[-1])
        return math.log(gaps[-1] / goal) > MOST_SPELLS * fall

    def _most_planes(self, objective: Objective) -> int:
        return MOST_PLANES if self.cache_mb is not None else affordable_planes(objective)

    def _bundle(self, objective: Objective, seconds: float = 0.0) -> Bundle:
        left = max(self.max_seconds - seconds, 1e-3)
        most = self._most_planes(objective)
        # Blocks crawl where the loss outweighs ½‖w‖², so that no fixed proximal term is right.
        return Bundle(
            self.tol,
            self.max_rounds,
            left,
            max_planes=most,
            cached_planes=CACHED_PLANES,
            adaptive=True,
            cache_mb=self.cache_mb,
        )

    def _go_on(
        self,
        objective: Objective,
        first: Result,
        callback: Callback | None,
        checkpointer: Checkpointer | None,
        saved: Handover | None,
    ) -> Result:
        """Let the bundle go on from what block ascent reached."""
        rounds, seconds = first.n_rounds, first.history[-1].seconds

        def renumbered(line: Round) -> Round:
            value, bound = line.objective, line.lower_bound
            if first.certified:
                value, bound = min(first.objective, value), max(first.lower_bound, bound)
            return replace(
                line,
                objective=value,
                lower_bound=bound,
                gap=value - bound,
                round=rounds + line.round,
                oracle_calls=first.oracle_calls + line.oracle_calls,
                seconds=seconds + line.seconds,
                w=line.w if line.w is None or line.objective <= value else first.w,
            )

        solver = self._bundle(objective, seconds)
        second = solver.minimize(
            objective,
            first.w,
            state=solver.inheriting(objective, first.state) if saved is None else None,
            callback=None if callback is None else lambda line: callback(renumbered(line)),
            checkpointer=self._nested(checkpointer, saved, lambda: first),
        )
        best = second
        if first.certified:
            # Where the first objective is not exact, the bundle has begun with the planes and weights that say more.
            bound = max(first.lower_bound, second.lower_bound)
            best = (
                second if second.objective <= first.objective else replace(second, w=first.w, objective=first.objective)
            )
            if second.certified:
                bound = checked_bound(objective, best.w, best.objective, bound)
            best = replace(best, objective=max(best.objective, bound), lower_bound=bound)
        history = first.history + [renumbered(line) for line in second.history]
        history[-1] = replace(
            history[-1], objective=best.objective, lower_bound=best.lower_bound, gap=best.gap, estimate=False
        )
        return replace(
            best,
            oracle_calls=first.oracle_calls + second.oracle_calls,
            n_rounds=rounds + second.n_rounds,
            history=history,
        )
