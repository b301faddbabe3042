"""Self-paced learning: easy examples first."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from latentstruct.checkpoints import Keeper, Nested, restoring
from latentstruct.checks import is_real
from latentstruct.core.objective import Objective
from latentstruct.core.protocols import Callback, Result, Round
from latentstruct.exceptions import InputError
from latentstruct.ragged import Vector
from latentstruct.short_repr import show
from latentstruct.solvers.base import LAST, BaseSolver
from latentstruct.solvers.caches import bounded
from latentstruct.solvers.cccp import CCCP
from latentstruct.solvers.kept import restored_result, result_tree
from latentstruct.state_trees import Saved, Tree, history_tree, restored_history

# What a start does: one loose round with all examples, rounds with some of them, and CCCP with all.
LOOSE, PACING, WHOLE = PHASES = ("loose", "pacing", "whole")


class SelfPaced(BaseSolver):
    """Self-paced learning around `CCCP`: examples enter when their loss has become small.

    With v_i ∈ {0, 1} it alternates over Ω(w) + Σ_i v_i c_i [f⁺_i(w) − f⁻_i(w)] − (1/K) Σ_i v_i: given w, the
    example i is in if c_i [f⁺_i(w) − f⁻_i(w)] ≤ 1/K; given v, CCCP goes on from w. 1/K grows by `growth` in each round
    until all examples are in, and the last round is CCCP on the whole objective, which is what is reported. Examples of
    little weight c_i enter early, as the formula says.

    Parameters
    ----------
    inner : CCCP, optional
        Solver of each round; its `tol` and `max_seconds` are replaced by those given here.
    tol : float, default=1e-3
        Relative decrease at which CCCP stops.
    max_seconds : float
        Limit of all together.
    max_rounds : int, default=50
        Rounds of self-pacing at most; then all examples are in.
    first_share : float, default=0.5
        Share of the examples with a loss above 0 that the first round begins with, besides those without one.
    growth : float, default=1.3
        Factor of 1/K.
    cache_mb : float, optional
        Megabytes that the inner solver may keep planes in; by default its own bound.

    Notes
    -----
    Kumar, Packer & Koller (2010). The weights that choose the first examples come from one loosely solved round with
    all of them, as all losses are equal at w = 0. Planes are kept between rounds.
    """

    needs = frozenset({"difference", "planes"})
    # More rounds of self-pacing would come before the last one, so that they lead elsewhere.
    limits = ("max_seconds",)

    def __init__(
        self,
        inner: Any = None,
        tol: float = 1e-3,
        max_rounds: int = 50,
        max_seconds: float = float("inf"),
        first_share: float = 0.5,
        growth: float = 1.3,
        cache_mb: float | None = None,
    ) -> None:
        self.inner = inner
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.first_share = first_share
        self.growth = growth
        self.cache_mb = cache_mb

    def check(self, objective: Objective) -> None:
        """Raise unless the objective has what is needed and the parameters make sense."""
        super().check(objective)
        if self.inner is not None and not isinstance(self.inner, CCCP):
            raise InputError(f"inner must be a CCCP solver, found {show(self.inner)}: give one such as CCCP(Bundle())")
        if not (is_real(self.first_share) and 0 < self.first_share <= 1):
            raise InputError(
                f"first_share must be above 0 and at most 1, found {show(self.first_share)}: choose one such as 0.5"
            )
        if not (is_real(self.growth) and self.growth > 1):
            raise InputError(f"growth must be above 1, found {show(self.growth)}: choose one such as 1.3")
        self._check_at_least(1, "max_rounds")
        self._cccp().check(objective)

    def _cccp(self) -> CCCP:
        cccp = CCCP() if self.inner is None else clone(self.inner)
        return bounded(cccp, self.cache_mb).set_params(tol=self.tol, max_seconds=self.max_seconds)

    def minimize(
        self,
        objective: Objective,
        w0: Vector | None = None,
        *,
        state: Any = None,
        callback: Callback | None = None,
        keeper: Keeper | None = None,
    ) -> Result:
        """Minimise the objective; see `CCCP.minimize`. Each restart of the inner CCCP is paced on its own."""
        self.check(objective)
        cccp = self._cccp()
        several = w0 is None and objective.first is not None
        best: Result | None = None
        past: list[Round] = []
        reached: list[float] = []
        begins, saved = 0, None
        if keeper is not None and keeper.saved is not None:
            with restoring(keeper):
                saved = Saved(keeper.saved)
                best = restored_result(saved.part("best"), objective.n_features) if "best" in saved else None
                begins, reached = saved.whole("start", 0, cccp.restarts - 1), saved.numbers("reached")
        n_starts = cccp.restarts if several else 1
        for start in range(begins, n_starts):
            run = _Pacing(self, clone(cccp).set_params(restarts=1), past, start, callback)
            run.keep_in(keeper, best, reached, last=start + 1 == n_starts)
            if saved is not None and keeper is not None:
                with restoring(keeper):
                    run.restore(saved, objective)
                saved = None
            found = run.minimize(_only(objective, start), w0, state)
            past, state = found.history, found.state
            reached.append(found.objective)
            if best is None or found.objective < best.objective:
                best = found
            if found.reason in LAST:
                best = replace(best, reason=found.reason)
                break
        assert best is not None
        calls = past[-1].oracle_calls if past else best.oracle_calls
        return replace(best, history=past, oracle_calls=calls, start_objectives=reached, state=state)


def _only(objective: Objective, start: int) -> Objective:
    """Return the objective whose only start is the given one."""
    first = objective.first
    return objective if first is None else replace(objective, first=lambda _: first(start))


class _Pacing:
    """One start of self-paced learning, with the history of the starts before it."""

    def __init__(
        self, settings: SelfPaced, cccp: CCCP, past: list[Round], start: int, callback: Callback | None
    ) -> None:
        self.settings, self.cccp, self.start, self.callback = settings, cccp, start, callback
        self.history = list(past)
        self.n_rounds = 0
        self.calls = past[-1].oracle_calls if past else 0
        self.phase, self.paces, self.limit = LOOSE, 0, 0.0
        self.found: Result | None = None
        self.losses = np.zeros(0)
        self.keeper: Keeper | None = None
        self.is_last = True
        self.inner: Tree = None

    def keep_in(self, keeper: Keeper | None, best: Result | None, reached: list[float], last: bool) -> None:
        """Offer states to a keeper, together with what earlier starts reached."""
        self.keeper, self.best, self.reached, self.is_last = keeper, best, list(reached), last

    def _tree(self, inner: Tree) -> Tree:
        """Return the state while CCCP runs, whose own state is given."""
        return {
            "start": self.start,
            "best": None if self.best is None else result_tree(replace(self.best, history=[])),
            "reached": np.array(self.reached),
            "history": history_tree(self.history),
            "phase": self.phase,
            "paces": self.paces,
            "limit": self.limit,
            "losses": self.losses,
            "found": None if self.found is None else result_tree(replace(self.found, history=[])),
            "n_rounds": self.n_rounds,
            "calls": self.calls,
            "rounds_before": len(self.history),
            "inner": inner,
        }

    def restore(self, saved: Saved, objective: Objective) -> None:
        """Undo `_tree`."""
        self.history = restored_history(saved.part("history"))
        self.phase, self.paces, self.limit = saved.text("phase"), saved.whole("paces"), saved.real("limit")
        if self.phase not in PHASES:
            raise ValueError(f"the phase is {show(self.phase)}")
        self.losses = saved.vector("losses", 0 if self.phase == LOOSE else objective.n_examples)
        self.found = None if self.phase == LOOSE else restored_result(saved.part("found"), objective.n_features)
        self.n_rounds, self.calls, self.inner = saved.whole("n_rounds"), saved.whole("calls"), saved.tree["inner"]

    def minimize(self, objective: Objective, w0: Vector | None, state: Any) -> Result:
        weights = objective.plus.weights
        if self.phase == LOOSE:
            self._call(clone(self.cccp).set_params(max_rounds=1), objective, w0, state)
            self.losses = self._losses(objective)
            positive = self.losses[self.losses > 0]
            self.limit = float(np.quantile(positive, self.settings.first_share)) if len(positive) else 0.0
            self.phase = PACING
        assert self.found is not None
        while self.phase == PACING and self.paces < self.settings.max_rounds:
            chosen = self.losses <= self.limit
            if chosen.all() or self.found.reason in LAST:
                break
            if chosen.any() and (weights * chosen).any():
                self._call(self.cccp, objective.reweighted(weights * chosen), self.found.w, self.found.state)
                self.losses = self._losses(objective)
            self.limit *= self.settings.growth
            self.paces += 1
        if self.found.reason not in LAST:
            self.phase = WHOLE
            self._call(self.cccp, objective, self.found.w, self.found.state)
        else:
            # The objective of the chosen examples only says nothing about all of them.
            value = objective.value(self.found.w)
            self.found = replace(self.found, objective=value, lower_bound=-math.inf)
            if self.history:
                self.history[-1] = replace(self.history[-1], objective=value, lower_bound=-math.inf, gap=math.inf)
        return replace(self.found, history=self.history, n_rounds=self.n_rounds)

    def _losses(self, objective: Objective) -> Vector:
        found = self.found
        assert found is not None
        self.calls += objective.n_examples
        plus, minus = objective.plus.planes(found.w).values, objective.minus.planes(found.w).values
        return objective.plus.weights * (plus - minus)

    def _call(self, cccp: CCCP, objective: Objective, w: Vector | None, state: Any) -> None:
        """Let CCCP run, and note what it found."""
        seconds = self.history[-1].seconds if self.history else 0.0
        rounds, calls = self.n_rounds, self.calls
        cccp.set_params(max_seconds=max(self.settings.max_seconds - seconds, 1e-3))

        def renumbered(line: Round) -> Round:
            return replace(
                line,
                round=rounds + line.round,
                oracle_calls=calls + line.oracle_calls,
                seconds=seconds + line.seconds,
                start=self.start,
                # Objectives of chosen examples say nothing about the weights for all of them.
                w=None if self.phase == PACING else line.w,
            )

        callback = self.callback
        keeper = None
        if self.keeper is not None:
            keeper = Nested(self.keeper, self._tree, self.inner, lasting=self.is_last and self.phase == WHOLE)
        self.inner = None
        found = cccp.minimize(
            objective,
            w,
            state=state,
            callback=None if callback is None else lambda line: callback(renumbered(line)),
            keeper=keeper,
        )
        self.history += [renumbered(line) for line in found.history]
        self.n_rounds = rounds + found.n_rounds
        self.calls = calls + found.oracle_calls
        self.found = found
