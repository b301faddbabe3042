"""The choice of a convex solver, and block ascent that hands over to the bundle where blocks make no progress."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from latentstruct.checkpoints import Keeper, Nested, restoring
from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Callback, Result, Round
from latentstruct.ragged import Vector
from latentstruct.solvers.base import GIVEN_UP, BaseSolver, checked_bound
from latentstruct.solvers.block_ascent import BlockAscent
from latentstruct.solvers.bundle import Bundle, PlaneBundle
from latentstruct.solvers.caches import shared_out
from latentstruct.solvers.kept import restored_result, result_tree
from latentstruct.solvers.lbfgs import LBFGS
from latentstruct.solvers.proximal import Proximal, wants_proximal
from latentstruct.state_trees import Saved, Tree

BUNDLE_BYTES, MOST_PLANES = 1e9, 200
CACHED_PLANES = 50
# Spells of `patience` iterations, each as good as the last, that block ascent may still need.
MOST_SPELLS = 5
# Times the patience with more weights than examples, where a bundle may need as many planes as there are weights.
MORE_PATIENCE = 10


def affordable_planes(objective: Objective) -> int:
    """Return how many dense planes a bundle may keep without taking too much memory."""
    return int(min(MOST_PLANES, max(10, BUNDLE_BYTES / (8 * objective.n_features))))


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

    def __init__(
        self,
        tol: float = 1e-3,
        max_rounds: int = 10000,
        max_seconds: float = float("inf"),
        patience: int = 40,
        hopeless: float = 0.5,
        cache_mb: float | None = None,
    ) -> None:
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.patience = patience
        self.hopeless = hopeless
        self.cache_mb = cache_mb

    def minimize(
        self,
        objective: Objective,
        w0: Vector | None = None,
        *,
        state: Any = None,
        callback: Callback | None = None,
        keeper: Keeper | None = None,
    ) -> Result:
        """Minimise the objective; see `BaseSolver.minimize`."""
        self._check_cache()
        saved = None if keeper is None or keeper.saved is None else self._saved(keeper)
        if saved is None:
            handed_on = isinstance(state, PlaneBundle)
        else:
            handed_on = "gaps" not in saved and "first" not in saved
        if handed_on:
            kept = self._keeper(keeper, saved, dict)
            return self._bundle(objective).minimize(objective, w0, state=state, callback=callback, keeper=kept)
        if keeper is not None and saved is not None and "first" in saved:
            with restoring(keeper):
                first = restored_result(saved.part("first"), objective.n_features)
            return self._go_on(objective, first, callback, keeper, saved)
        first, gave_up = self._block_ascent(objective, w0, state, callback, keeper, saved)
        return self._go_on(objective, first, callback, keeper, None) if gave_up else first

    @staticmethod
    def _saved(keeper: Keeper) -> Saved:
        with restoring(keeper):
            return Saved(keeper.saved)

    @staticmethod
    def _keeper(keeper: Keeper | None, saved: Saved | None, own: Callable[[], Tree]) -> Nested | None:
        """Return the keeper of one of the two solvers; `own` gives what is kept besides its state."""
        if keeper is None:
            return None
        inner = None if saved is None else saved.tree.get("inner")
        return Nested(keeper, lambda tree: {**own(), "inner": tree}, inner, lasting=True)

    def _block_ascent(
        self,
        objective: Objective,
        w0: Vector | None,
        state: Any,
        callback: Callback | None,
        keeper: Keeper | None,
        saved: Saved | None,
    ) -> tuple[Result, bool]:
        """Return what block ascent reached, and whether it was given up."""
        gaps: list[float] = []
        if saved is not None and keeper is not None:
            with restoring(keeper):
                gaps = saved.numbers("gaps")

        bundle_fits = affordable_planes(objective) == MOST_PLANES
        patience = self.patience * (1 if objective.n_features <= objective.n_examples else MORE_PATIENCE)

        def watch(line: Round) -> Any:
            answer = None if callback is None else callback(line)
            gaps.append(line.gap)
            return answer or (GIVEN_UP if bundle_fits and self._crawls(gaps, abs(line.objective), patience) else False)

        kept = self._keeper(keeper, saved, lambda: {"gaps": np.array(gaps)})
        room = shared_out(self.cache_mb, objective.n_features, self._most_planes(objective)).store_mb
        solver = BlockAscent(self.tol, self.max_rounds, self.max_seconds, cache_mb=room)
        found = solver.minimize(objective, w0, state=state, callback=watch, keeper=kept)
        return found, found.reason == GIVEN_UP

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
        keeper: Keeper | None,
        saved: Saved | None,
    ) -> Result:
        """Let the bundle go on from what block ascent reached."""
        rounds, seconds = first.n_rounds, first.history[-1].seconds

        def renumbered(line: Round) -> Round:
            value, bound = min(first.objective, line.objective), max(first.lower_bound, line.lower_bound)
            return replace(
                line,
                objective=value,
                lower_bound=bound,
                gap=value - bound,
                round=rounds + line.round,
                oracle_calls=first.oracle_calls + line.oracle_calls,
                seconds=seconds + line.seconds,
                w=line.w if line.w is None or line.objective <= first.objective else first.w,
            )

        solver = self._bundle(objective, seconds)
        second = solver.minimize(
            objective,
            first.w,
            state=solver.inheriting(objective, first.state) if saved is None else None,
            callback=None if callback is None else lambda line: callback(renumbered(line)),
            keeper=self._keeper(keeper, saved, lambda: {"first": result_tree(first), "rounds_before": rounds}),
        )
        best = second if second.objective <= first.objective else first
        bound = max(first.lower_bound, second.lower_bound)
        if first.certified and second.certified:
            bound = checked_bound(objective, best.w, best.objective, bound)
        history = first.history + [renumbered(line) for line in second.history]
        history[-1] = replace(
            history[-1], objective=best.objective, lower_bound=bound, gap=best.objective - bound, estimate=False
        )
        return replace(
            second,
            w=best.w,
            objective=best.objective,
            lower_bound=bound,
            oracle_calls=first.oracle_calls + second.oracle_calls,
            n_rounds=rounds + second.n_rounds,
            certified=first.certified and second.certified,
            history=history,
        )


def choose_solver(objective: Objective) -> BaseSolver:
    """Return the solver that was fastest in measurements for convex objectives of this kind.

    L-BFGS where everything is smooth; block ascent for the hinge (with the bundle in reserve); the bundle where there
    is one example only, so that blocks mean nothing. `Proximal` for other regularisers than ½‖w‖².
    """
    if wants_proximal(objective):
        return Proximal()
    if "smooth" in objective.properties:
        return LBFGS()
    if objective.n_examples == 1 or "planes" not in objective.properties:
        return Bundle(max_planes=affordable_planes(objective))
    return HingeSolver()
