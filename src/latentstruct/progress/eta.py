"""Estimates of the remaining time of long work; none while too little is known."""

import math
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

from latentstruct.exceptions import Description, InputError

if TYPE_CHECKING:
    from latentstruct.core.protocols import Iteration

FEWEST_POINTS = 8
"""Fewest points to fit a trend to."""
SHORT = 2.0
"""Seconds before the first estimate."""
WIDEST_DOUBT = 8.0
"""Ratio of the two extrapolations of a trend above which there is no estimate."""
WIDEST_CHANGE = 3.0
"""Ratio of the estimates from the recent half and the last quarter of the points above which there is none."""
SMALLEST_WAY = 0.05
"""Lower bound on the remaining log-gap."""
MOST_POINTS = 4000
MOST_FITTED = 200
LEAST_OF_A_START = 0.25
"""Fraction of the mean time of earlier starts that remains for a start which took longer."""
TINY = 1e-12
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

Rule = Literal["gap", "fall", "iteration", ""]


class StoppingRule(NamedTuple):
    """What ends a training, as far as it is known before it begins."""

    # A small relative gap; a small relative decrease of the objective over `span` iterations; the same in one iteration
    # of many convex problems, which is too irregular to extrapolate; or something else.
    rule: Rule = ""
    goal: float = 0.0  # the tolerance
    span: int = 1  # number of iterations over which the decrease is taken
    max_iter: float = math.inf  # maximum number of iterations per start
    max_seconds: float = math.inf  # time limit of all starts
    n_starts: int = 1


class Estimate(NamedTuple):
    """Seconds left, and whether that is only an upper limit."""

    seconds: float
    is_limit: bool = False

    def __str__(self) -> str:
        return f"{'at most' if self.is_limit else 'about'} {show_seconds(self.seconds)} left"


def show_seconds(seconds: float) -> str:
    """Return a rounded time: multiples of five seconds, then minutes, hours and days."""
    if seconds < 1.5 * MINUTE:
        return f"{max(5, 5 * round(seconds / 5))} s"
    if seconds < 1.5 * HOUR:
        return f"{round(seconds / MINUTE)} min"
    if seconds < 2 * DAY:
        return f"{round(2 * seconds / HOUR) / 2:g} h"
    return f"{round(seconds / DAY)} days"


def describe_share(done: int, total: int, what: str, seconds: float) -> str:
    """Return how many of equal steps are done after some seconds, and the estimated time left."""
    known = 0 < done < total and seconds >= SHORT
    left = f", {Estimate(seconds * (total - done) / done)}" if known else ""
    return f"{done} of {total} {what}{left}"


def extrapolate(times: Sequence[float], values: Sequence[float], goal: float) -> float | None:
    """Return the time until a decreasing positive quantity reaches its goal; None if its trend is unclear.

    The trend is fitted to the recent half of the points. Where the last quarter alone differs much, as on a plateau,
    there is no estimate.
    """
    if len(times) < FEWEST_POINTS or times[len(times) // 2] <= 0:
        return None
    half, quarter = (_extend(times, values, goal, len(times) - len(times) // part) for part in (2, 4))
    if half is None or quarter is None or max(half, quarter) > WIDEST_CHANGE * min(half, quarter):
        return None
    return half


def _extend(times: Sequence[float], values: Sequence[float], goal: float, first: int) -> float | None:
    """Extrapolate the points from `first` on.

    Gaps decrease geometrically at best, log v ~ −at, and like a power of the time at worst, log v ~ −p log t. The
    geometric mean of both estimates is returned, unless they differ widely.
    """
    shown = range(first, len(times), max(1, (len(times) - first) // MOST_FITTED))
    t, v = [times[k] for k in shown], [math.log(max(values[k], TINY)) for k in shown]
    line = _fit_line(t, v, times[-1])
    curve = _fit_line([math.log(one) for one in t], v, math.log(times[-1]))
    if line is None or curve is None:
        return None
    # Lines through points that bend end too low.
    present, target = median(v[-max(3, len(v) // 10) :]), math.log(max(goal, TINY))
    optimistic = max(max(line[0], present) - target, SMALLEST_WAY) / line[1]
    pessimistic = times[-1] * math.expm1(min(max(max(curve[0], present) - target, SMALLEST_WAY) / curve[1], 50.0))
    return math.sqrt(optimistic * pessimistic) if pessimistic < WIDEST_DOUBT * optimistic else None


def _fit_line(x: Sequence[float], y: Sequence[float], at: float) -> tuple[float, float] | None:
    """Return the value of the least-squares line at a point and its rate of decrease; None unless it decreases."""
    middle, height = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - middle) ** 2 for a in x)
    if spread <= 0:
        return None
    fall = -sum((a - middle) * (b - height) for a, b in zip(x, y, strict=True)) / spread
    return (height - fall * (at - middle), fall) if fall > 0 else None


class TrainingTime:
    """Estimates the end of a training from its iterations, and from what is known before the first one."""

    def __init__(self, stopping: StoppingRule) -> None:
        self.stopping = stopping
        self.last: Iteration | None = None
        self._begun = 0.0
        self._started: list[float] = []
        self._objectives: list[float] = []
        self._times: list[float] = []
        self._values: list[float] = []

    def add(self, line: "Iteration") -> None:
        """Take the next iteration, or a step within it."""
        if self.last is not None and line.start != self.last.start:
            self._started.append(self.last.seconds - self._begun)
            self._begun = self.last.seconds
            self._objectives, self._times, self._values = [], [], []
        self.last = line
        if self.stopping.rule == "gap":
            self._add_point(line.seconds, line.gap / max(abs(line.objective), TINY))
        elif not line.estimate:
            self._objectives.append(line.objective)
            if self.stopping.rule == "fall" and len(self._objectives) > self.stopping.span:
                self._add_point(line.seconds, self._fall())

    def _add_point(self, seconds: float, value: float) -> None:
        if math.isfinite(value):
            self._times.append(seconds - self._begun)
            self._values.append(value)
        if len(self._times) > MOST_POINTS:
            del self._times[::2], self._values[::2]

    def _fall(self) -> float:
        before, now = self._objectives[-1 - self.stopping.span], self._objectives[-1]
        return (before - now) / max(abs(now), TINY)

    def estimate(self) -> Estimate | None:
        """Return the time left; None while too little is known."""
        if self.last is None or self.last.seconds < SHORT or self._is_over():
            return None
        limit = self.stopping.max_seconds - self.last.seconds
        left = self._of_all_starts()
        if left is not None and left < limit:
            return Estimate(left)
        if math.isfinite(limit):
            return Estimate(max(limit, 0.0), is_limit=True)
        return self._limit_of_iterations()

    def _is_over(self) -> bool:
        """Return whether the last iteration reached the goal."""
        assert self.last is not None
        reached = bool(self._values) and self._values[-1] <= self.stopping.goal
        return self.stopping.rule == "gap" and reached and not self.last.estimate

    def _of_all_starts(self) -> float | None:
        """Return the time left of the present start and those to come."""
        assert self.last is not None
        present = self._of_present_start()
        if not self._started:
            return present if self.stopping.n_starts == 1 else None
        mean = sum(self._started) / len(self._started)
        if present is None:
            present = max(mean - (self.last.seconds - self._begun), LEAST_OF_A_START * mean)
        return present + mean * max(self.stopping.n_starts - 1 - self.last.start, 0)

    def _of_present_start(self) -> float | None:
        assert self.last is not None
        left = extrapolate(self._times, self._values, self.stopping.goal)
        iterations = self.stopping.max_iter - self.last.iteration
        if left is None or not math.isfinite(iterations):
            return left
        return min(left, iterations * self._seconds_per_iteration())

    def _seconds_per_iteration(self) -> float:
        assert self.last is not None
        return (self.last.seconds - self._begun) / max(self.last.iteration, 1)

    def _limit_of_iterations(self) -> Estimate | None:
        """Return the limit that follows from the maximum number of iterations if nothing else is known."""
        assert self.last is not None
        unknown = self.stopping.rule == "" and self.stopping.n_starts == 1 and not self.last.estimate
        if not unknown or not math.isfinite(self.stopping.max_iter) or self.last.iteration < FEWEST_POINTS:
            return None
        return Estimate((self.stopping.max_iter - self.last.iteration) * self._seconds_per_iteration(), is_limit=True)

    def describe(self) -> str:
        """Return the time left, or else the last decrease of the objective and its tolerance."""
        estimate = self.estimate()
        if self.stopping.rule != "iteration" or (estimate is not None and not estimate.is_limit):
            return "" if estimate is None else str(estimate)
        known = [] if estimate is None else [str(estimate)]
        if len(self._objectives) > 1:
            fall = max(self._fall(), 0.0)
            known.insert(0, f"last decrease {100 * fall:.2g}%, tolerance {100 * self.stopping.goal:.2g}%")
        return ", ".join(known)


class Steps:
    """Prints the steps of long work as they are done, with their number and the estimated time left.

    `say` prints a line, `what` names the steps in the plural, and `costs` are their relative durations, equal by
    default. `clock` returns the time in seconds.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        total: int,
        what: str = "steps",
        costs: Sequence[float] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if costs is not None and len(costs) != total:
            raise InputError("costs", Description(f"{len(costs)} numbers"), f"{total} numbers (one for each of {what})")
        self.say, self.total, self.what, self.clock = say, total, what, clock
        self.costs = [1.0] * total if costs is None else [float(cost) for cost in costs]
        self.n_done = 0
        self._began = clock()

    def done(self, text: str) -> None:
        """Print that a step is done, and its result."""
        self.n_done += 1
        self._print(text)

    def begin(self, text: str) -> None:
        """Print that a step begins; it is done when the next one begins."""
        self._print(text, ahead=1)
        self.n_done += 1

    def skip(self, count: int = 1) -> None:
        """Skip steps that are not needed."""
        self.n_done += count

    def _print(self, text: str, ahead: int = 0) -> None:
        left = self.seconds_left()
        shown = "" if left is None else f", {Estimate(left)}"
        self.say(f"{self.n_done + ahead} of {self.total} {self.what}{shown}: {text}")

    def seconds_left(self) -> float | None:
        """Return the estimated time of the remaining steps; None if there is none, or too little is known."""
        spent, passed = self.clock() - self._began, sum(self.costs[: self.n_done])
        if spent < SHORT or passed <= 0 or self.n_done >= self.total:
            return None
        return spent * sum(self.costs[self.n_done :]) / passed
