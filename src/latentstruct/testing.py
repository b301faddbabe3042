"""Checks for people who write their own tasks and solvers.

`check_task` puts a task to random weights and compares its answers with each other: planes, totals, decoding,
loss and derivatives must all describe the same functions. `check_solver` minimises small random problems and
holds the result against the contract of `latentstruct.protocols.Result`. Both raise AssertionError with the
values at fault and what to look at; neither needs pytest.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from latentstruct.exceptions import InputError
from latentstruct.objective import Objective, build_objective
from latentstruct.planes import Plane, Planes
from latentstruct.protocols import Mode, Result, Round, Solver, Task, Temperature
from latentstruct.ragged import Vector
from latentstruct.regularizers import NoRegularizer
from latentstruct.tasks import CandidateTask, Chain, Multiclass

__all__ = ["check_solver", "check_task"]

MODES: tuple[Mode, ...] = get_args(Mode)
HARD = Temperature()
PRECISION = 1e-8
"""Relative difference that is taken for rounding."""
SCALES = (0.0, 0.1, 1.0, 1.0, 3.0)
"""Standard deviations of the random weights a task is asked at."""


def check_task(
    task: Task,
    X: Any,
    Y: Any,
    *,
    temperatures: Sequence[float] = (0.0, 0.3, 1.0),
    seed: int = 0,
) -> None:
    """Check that a task keeps the contract of `latentstruct.protocols.Task`.

    The task is copied, learns `X` and `Y`, and is asked at several random weights w, in every mode and at
    every temperature it supports. A task may refuse soft temperatures with `InputError`; the hard max must
    work.

    Parameters
    ----------
    task : Task
        The task; it is copied and not changed.
    X, Y : collections of n examples and their outputs
        Real or made-up training data. A few small examples are enough, and quickest: slopes are compared as
        dense matrices (n, d).
    temperatures : sequence of float, default=(0.0, 0.3, 1.0)
        Values of ε_y, and of ε_h if the task has latents (then all pairs are checked).
    seed : int, default=0
        Seed of weights and directions.

    Raises
    ------
    AssertionError
        The message says what is wrong, for which example and values, and what to look at.

    Notes
    -----
    Checked are, in this order: planes are well formed, the same when asked twice, and leave w as it was; each
    is tight (value = offset + slope·w) and, where the task calls itself exact, below the function at all
    other weights; a task without latents has a linear clamped side; clamped ≤ free ≤ augmented, and no output
    of the augmented mode scores above the free value; the planes of some rows are those of the full call;
    `total` is their weighted sum, its slope agrees with finite differences where the function is smooth, and
    without its entropy it is below the hard function; `decode` reaches the free value; losses are ≥ 0, zero
    between equal outputs, and part of the augmented value; `slack_planes`, if there is one, is at least as
    good as the answers of the augmented mode.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import Multiclass
    >>> rng = np.random.default_rng(0)
    >>> check_task(Multiclass(), rng.normal(size=(6, 3)), [0, 1, 2, 0, 1, 2])
    """
    TaskCheck.prepared(task, X, Y, temperatures, seed).run()


def copied(task: Any) -> Any:
    """Return an unlearned copy of a task."""
    return clone(task) if hasattr(task, "get_params") else deepcopy(task)


def fail(who: object, what: str, look: str) -> NoReturn:
    """Raise with what is wrong and where to look."""
    raise AssertionError(f"{type(who).__name__}: {what}. Look at: {look}")


def first_beyond(difference: NDArray, allowed: NDArray | float) -> int | None:
    """Return the index of the first entry that is above what is allowed (or not a number)."""
    beyond = np.flatnonzero(~(difference <= allowed))
    return int(beyond[0]) if len(beyond) else None


def rounding(*values: Any) -> Any:
    """Return the difference that rounding may make among values of this size, entry by entry."""
    return PRECISION * (1.0 + sum(np.abs(value) for value in values))


@dataclass
class Answers:
    """A task's planes in one mode at one temperature, for each of the weights."""

    mode: Mode
    temperature: Temperature
    planes: list[Planes]

    @property
    def exact(self) -> bool:
        """Whether all of them claim to be bounds."""
        return all(planes.exact for planes in self.planes)

    @property
    def where(self) -> str:
        """Mode and temperatures, for messages."""
        return f"mode {self.mode!r}, temperature ({self.temperature.output}, {self.temperature.latent})"


@dataclass
class TaskCheck:
    """One run of `check_task`."""

    task: Any
    X: Any
    Y: Any
    batch: Any
    points: list[Vector]
    weights: Vector
    rng: np.random.Generator
    temperatures: Sequence[float]
    hard: dict[Mode, Answers] = field(default_factory=dict)

    @classmethod
    def prepared(cls, task: Any, X: Any, Y: Any, temperatures: Sequence[float], seed: int) -> "TaskCheck":
        """Let a copy of the task learn and prepare the examples, and draw weights."""
        rng = np.random.default_rng(seed)
        task = copied(task)
        task.learn(X, Y)
        batch = task.prepare(X, Y)
        d, n = task.n_features, batch.n_examples
        if n != len(Y):
            fail(task, f"prepare() made a batch of {n} examples from {len(Y)}", "n_examples of the batch")
        if not batch.labelled:
            fail(task, "prepare(X, Y) made a batch that is not labelled", "`labelled` of the batch")
        points = [scale * rng.normal(size=d) for scale in SCALES]
        return cls(task, X, Y, batch, points, rng.uniform(0.1, 2.0, n), rng, temperatures)

    def run(self) -> None:
        """Make all checks."""
        for mode in MODES:
            self.hard[mode] = self._ask(mode, HARD)
        for temperature in self._supported():
            answers = {mode: self._ask(mode, temperature) for mode in MODES}
            for found in answers.values():
                self._check_tight(found)
                self._check_below(found)
                self._check_rows(found)
                self._check_total(found)
                self._check_entropy(found)
                self._check_gradient(found)
            self._check_clamped_is_linear(answers["clamped"])
            self._check_order(answers)
            self._check_outputs(answers["augmented"])
            self._check_unlabelled(answers["free"])
            if temperature.output == 0:
                self._check_decode(answers["free"])
        self._check_loss()
        self._check_slack()

    def _supported(self) -> Iterator[Temperature]:
        """Yield the temperatures the task answers at, the hard max first."""
        yield HARD
        for output in self.temperatures:
            for latent in self.temperatures if self.task.latent else (0.0,):
                temperature = Temperature(float(output), float(latent))
                if temperature == HARD:
                    continue
                try:
                    self.task.planes(self.batch, self.points[0], "free", temperature)
                except InputError:
                    continue
                yield temperature

    def _ask(self, mode: Mode, temperature: Temperature) -> Answers:
        answers = Answers(mode, temperature, [])
        for w in self.points:
            given = w.copy()
            try:
                planes = self.task.planes(self.batch, given, mode, temperature)
            except InputError as error:
                fail(
                    self.task,
                    f"{answers.where} was refused: {error}",
                    "planes(): the hard max must work in all modes, and a soft temperature in all modes or in none",
                )
            if not np.array_equal(given, w):
                fail(
                    self.task,
                    f"planes() changed w in place ({answers.where})",
                    "operations like w += … or out=w",
                )
            self._check_form(answers, planes)
            again = self.task.planes(self.batch, given, mode, temperature)
            self._compare(
                answers,
                again,
                planes,
                np.arange(len(planes)),
                0.0,
                "planes() answers differently when asked twice",
            )
            answers.planes.append(planes)
        return answers

    def _check_form(self, answers: Answers, planes: Planes) -> None:
        n, d = self.batch.n_examples, self.task.n_features
        shapes = len(planes.pointers) - 1, planes.offsets.shape, planes.values.shape, planes.n_features
        if shapes != (n, (n,), (n,), d):
            fail(
                self.task,
                f"expected {n} planes with {d} features, found {shapes[0]} with offsets of shape "
                f"{shapes[1]}, values of shape {shapes[2]} and {shapes[3]} features ({answers.where})",
                "planes() must return one plane for each asked example",
            )
        i = first_beyond(np.abs(planes.offsets) + np.abs(planes.values), np.finfo(float).max)
        if i is not None:
            fail(
                self.task,
                f"example {i} has offset {planes.offsets[i]} and value {planes.values[i]} ({answers.where})",
                "logarithms of zero, maxima over nothing, overflow of exp",
            )

    def _check_tight(self, answers: Answers) -> None:
        for k, (w, planes) in enumerate(zip(self.points, answers.planes, strict=True)):
            heights = planes.offsets + planes.dot(w)
            i = first_beyond(np.abs(planes.values - heights), rounding(planes.values, planes.offsets))
            if i is not None:
                fail(
                    self.task,
                    f"the plane of example {i} is not tight at the weights it was asked at (point {k}, "
                    f"{answers.where}): value {planes.values[i]:.10g}, but offset + slope·w = "
                    f"{planes.offsets[i]:.10g} + {heights[i] - planes.offsets[i]:.10g} = {heights[i]:.10g}",
                    "the slope must be the (mean) feature vector of what was chosen, and the offset its "
                    "(mean) loss plus, for a soft max, ε times the entropy",
                )

    def _check_below(self, answers: Answers) -> None:
        if not answers.exact:
            return
        for j, v in enumerate(self.points):
            values = answers.planes[j].values
            for k, planes in enumerate(answers.planes):
                heights = planes.offsets + planes.dot(v)
                i = first_beyond(heights - values, rounding(heights, values, planes.offsets))
                if i is not None:
                    fail(
                        self.task,
                        f"the plane of example {i} asked at point {k} has height {heights[i]:.10g} at point "
                        f"{j}, above the value {values[i]:.10g} found there ({answers.where})",
                        "inference that misses the maximum (then set exact to False), features or losses "
                        "that depend on w, or a slope that is not the mean of the features",
                    )

    def _check_clamped_is_linear(self, answers: Answers) -> None:
        if self.task.latent:
            return
        first = answers.planes[0]
        for planes in answers.planes[1:]:
            self._compare(
                answers,
                planes,
                first,
                np.arange(len(first)),
                PRECISION,
                "`latent` is False, yet the clamped plane depends on w",
                "set latent = True if something stays hidden when y is known; else the clamped plane is φ(x_i, y_i)",
            )

    def _check_order(self, answers: dict[Mode, Answers]) -> None:
        for low, high in (("clamped", "free"), ("free", "augmented")):
            below, above = answers[low], answers[high]  # type: ignore[index]
            if not (below.exact and above.exact):
                continue
            for k, (lower, upper) in enumerate(zip(below.planes, above.planes, strict=True)):
                i = first_beyond(lower.values - upper.values, rounding(lower.values, upper.values))
                if i is not None:
                    fail(
                        self.task,
                        f"the {low} value {lower.values[i]:.10g} of example {i} is above its {high} value "
                        f"{upper.values[i]:.10g} (point {k}, temperature {tuple(above.temperature)})",
                        "the true output must be among the free ones, and the loss must be ≥ 0"
                        if high == "augmented"
                        else "the true output must be among the outputs that the free mode chooses from",
                    )

    def _check_outputs(self, answers: Answers) -> None:
        """Check that what a mode chooses scores no more than the free mode's best, at all weights."""
        free = self.hard["free"]
        if not (answers.exact and free.exact):
            return
        for j, v in enumerate(self.points):
            values = free.planes[j].values
            for k, planes in enumerate(answers.planes):
                scores = planes.dot(v)
                i = first_beyond(scores - values, rounding(scores, values))
                if i is not None:
                    fail(
                        self.task,
                        f"what was chosen for example {i} at point {k} ({answers.where}) scores "
                        f"{scores[i]:.10g} at point {j}, above the hard free value {values[i]:.10g} there",
                        "all modes must choose among the same outputs with the same features",
                    )

    def _check_rows(self, answers: Answers) -> None:
        n = self.batch.n_examples
        rows = self.rng.permutation(n)[: max(1, n // 2)]
        for w, planes in zip(self.points, answers.planes, strict=True):
            some = self.task.planes(self.batch, w, answers.mode, answers.temperature, rows)
            what = "planes() with rows= differs from the same rows of the full call"
            if len(some) != len(rows):
                fail(self.task, f"{what}: {len(some)} planes for {len(rows)} rows ({answers.where})", "rows")
            self._compare(answers, some, planes.take(rows), rows, PRECISION, what, "the use of `rows`, and its order")

    def _compare(
        self,
        answers: Answers,
        found: Planes,
        expected: Planes,
        examples: NDArray,
        precision: float,
        what: str,
        look: str = "hidden state, random numbers, or arrays that are changed in place",
    ) -> None:
        """Raise if two sets of planes differ in slopes or offsets."""
        slopes, wanted = found.slopes().toarray(), expected.slopes().toarray()
        beyond = np.abs(slopes - wanted) - precision * (1.0 + np.abs(wanted))
        apart = np.abs(found.offsets - expected.offsets) - precision * (1.0 + np.abs(expected.offsets))
        k = first_beyond(np.maximum(beyond.max(axis=1, initial=-np.inf), apart), 0.0)
        if k is None:
            return
        f = int(np.argmax(beyond[k])) if beyond.size else 0
        detail = f"slope[{f}] is {slopes[k, f]:.10g} and {wanted[k, f]:.10g}, " if beyond.size else ""
        fail(
            self.task,
            f"{what} ({answers.where}): for example {examples[k]} {detail}the offset is "
            f"{found.offsets[k]:.10g} and {expected.offsets[k]:.10g}",
            look,
        )

    def _check_unlabelled(self, answers: Answers) -> None:
        batch = self.task.prepare(self.X)
        for w, planes in zip(self.points, answers.planes, strict=True):
            found = self.task.planes(batch, w, "free", answers.temperature)
            self._compare(
                answers,
                found,
                planes,
                np.arange(len(planes)),
                PRECISION,
                "the free planes of a batch prepared without Y differ from those with Y",
                "prepare(X) and the free mode, which must not use the true outputs",
            )

    def _total(self, answers: Answers, w: Vector) -> Plane:
        return self.task.total(self.batch, w, answers.mode, answers.temperature, self.weights)

    def _check_total(self, answers: Answers) -> None:
        look = "total(): each example's plane enters times its weight"
        for k, (w, planes) in enumerate(zip(self.points, answers.planes, strict=True)):
            found, expected = self._total(answers, w), planes.total(self.weights)
            sizes = Planes.from_matrix(abs(planes.slopes()), np.abs(planes.offsets), planes.values).total(self.weights)
            f = first_beyond(np.abs(found.slope - expected.slope), rounding(sizes.slope))
            if f is not None:
                fail(
                    self.task,
                    f"slope[{f}] of total() is {found.slope[f]:.10g}, but the weighted sum of the planes "
                    f"has {expected.slope[f]:.10g} (point {k}, {answers.where})",
                    look,
                )
            if not abs(found.offset - expected.offset) <= rounding(sizes.offset, planes.values.sum()):
                fail(
                    self.task,
                    f"total() has offset {found.offset:.10g}, but the weighted sum of the planes has "
                    f"{expected.offset:.10g} (point {k}, {answers.where})",
                    look,
                )
            if found.exact and not planes.exact:
                fail(self.task, f"total() calls itself exact, planes() does not ({answers.where})", "exact")

    def _check_entropy(self, answers: Answers) -> None:
        """Check that a total without its entropy is below the hard function everywhere."""
        hard = self.hard[answers.mode]
        for k, w in enumerate(self.points):
            plane = self._total(answers, w)
            if not plane.entropy >= -rounding(plane.offset):
                fail(
                    self.task,
                    f"the entropy of total() is {plane.entropy:.10g}, below 0 (point {k}, {answers.where})",
                    "entropy = offset − the expected loss (augmented), offset (free and clamped)",
                )
            if not (plane.exact and hard.exact):
                continue
            for j, v in enumerate(self.points):
                height = plane(v) - plane.entropy
                value = float(self.weights @ hard.planes[j].values)
                if not height <= value + rounding(height, value, plane.offset):
                    fail(
                        self.task,
                        f"total() at point {k} without its entropy {plane.entropy:.10g} has height "
                        f"{height:.10g} at point {j}, above the hard function {value:.10g} ({answers.where})",
                        "the entropy that total() reports: the part of the offset that is not expected loss",
                    )

    def _check_gradient(self, answers: Answers) -> None:
        """Compare the slope of a smooth total with central differences along random directions."""
        soft = [answers.temperature.output] if answers.mode != "clamped" else []
        soft += [answers.temperature.latent] if self.task.latent else []
        if not soft or min(soft) == 0:
            return
        for k, (w, planes) in enumerate(zip(self.points, answers.planes, strict=True)):
            slope = self._total(answers, w).slope
            direction = self.rng.normal(size=len(w))
            bend = 1.0 + float(np.abs(planes.dot(direction)).max())
            step = 1e-3 * min(soft) / bend
            high, low = (self._total(answers, v)(v) for v in (w + step * direction, w - step * direction))
            found, expected = float(slope @ direction), (high - low) / (2.0 * step)
            allowed = 1e-4 * bend * self.weights.sum() + 1e-12 * (abs(high) + abs(low)) / step
            if not abs(found - expected) <= allowed:
                fail(
                    self.task,
                    f"along a random direction the slope of total() is {found:.10g}, but finite differences "
                    f"give {expected:.10g} ± {allowed:.1g} (point {k}, {answers.where})",
                    "the expected features of total()",
                )

    def _check_decode(self, free: Answers) -> None:
        for k, (w, planes) in enumerate(zip(self.points, free.planes, strict=True)):
            decoded = self.task.decode(self.batch, w, free.temperature)
            if len(decoded) != len(planes):
                fail(
                    self.task,
                    f"decode() returned {len(decoded)} predictions for {len(planes)} examples",
                    "decode()",
                )
            scores = np.array([prediction.score for prediction in decoded], dtype=float)
            i = first_beyond(np.abs(scores - planes.values), rounding(planes.values))
            if i is not None and free.exact:
                fail(
                    self.task,
                    f"decode() scores example {i} with {scores[i]:.10g}, but its free value is "
                    f"{planes.values[i]:.10g} (point {k}, {free.where})",
                    "decode() must return the output that the free mode finds, with its score",
                )

    def _check_loss(self) -> None:
        self._check_no_loss(self.Y, "the true outputs")
        for k, w in enumerate(self.points):
            decoded = self.task.decode(self.batch, w, HARD)
            outputs = [prediction.y for prediction in decoded]
            self._check_no_loss(outputs, f"what decode() found at point {k}")
            losses = self._losses(self.Y, outputs)
            i = first_beyond(-losses, 0.0)
            if i is not None:
                fail(self.task, f"loss() of example {i} is {losses[i]:.10g}, expected ≥ 0", "loss()")
            augmented = self.hard["augmented"]
            if self.task.latent or not augmented.exact:
                continue
            reached = np.array([prediction.score for prediction in decoded]) + losses
            values = augmented.planes[k].values
            i = first_beyond(reached - values, rounding(reached, values))
            if i is not None:
                fail(
                    self.task,
                    f"the decoded output of example {i} has score {decoded[i].score:.10g} and loss "
                    f"{losses[i]:.10g}, together above the augmented value {values[i]:.10g} (point {k})",
                    "loss() and the loss of the augmented mode: they must be the same Δ",
                )

    def _losses(self, truth: Any, outputs: Any) -> NDArray[np.float64]:
        losses = np.asarray(self.task.loss(truth, outputs), dtype=float)
        if losses.shape != (self.batch.n_examples,):
            fail(self.task, f"loss() has shape {losses.shape}, expected ({self.batch.n_examples},)", "loss()")
        return losses

    def _check_no_loss(self, outputs: Any, name: str) -> None:
        losses = self._losses(outputs, outputs)
        i = first_beyond(np.abs(losses), 0.0)
        if i is not None:
            fail(
                self.task,
                f"the loss between equal outputs ({name}) is {losses[i]:.10g} for example {i}",
                "loss()",
            )

    def _check_slack(self) -> None:
        direct = getattr(self.task, "slack_planes", None)
        if direct is None or self.task.latent:
            return
        rows = np.arange(self.batch.n_examples)
        for k, w in enumerate(self.points):
            try:
                found = direct(self.batch, w, rows)
            except InputError:
                return
            true_scores = self.hard["clamped"].planes[k].values
            rival = self.hard["augmented"].planes[k]
            reached, expected = (p.offsets * (1.0 + p.dot(w) - true_scores) for p in (found, rival))
            i = first_beyond(np.maximum(expected, 0.0) - reached, rounding(reached, expected))
            if i is not None:
                fail(
                    self.task,
                    f"slack_planes() reaches Δ·(1 + s − s_i) = {reached[i]:.10g} for example {i}, but the "
                    f"augmented mode finds {expected[i]:.10g} and the true output gives 0 (point {k})",
                    "slack_planes(): slopes φ(ŷ) and offsets Δ(ŷ) of the maximiser",
                )


REASONS = ("converged", "max_rounds", "max_seconds", "stalled", "interrupted", "callback")


def check_solver(solver: Solver, *, objective: Objective | None = None, seed: int = 0) -> None:
    """Check that a solver keeps the contract of `latentstruct.protocols.Solver`.

    Small random problems are minimised: multiclass and chain hinges, a multiclass CRF, and hard and soft
    latent candidates, as far as they have what the solver says it `needs`. Objectives that lack a need must
    be refused with `InputError`; a solver may refuse others too, but not all.

    Parameters
    ----------
    solver : Solver
        With limits that end a run on a dozen examples within seconds.
    objective : Objective, optional
        Check on this objective instead of the random problems, for solvers that serve others.
    seed : int, default=0
        Seed of the problems and of the weights that bounds are compared at.

    Raises
    ------
    AssertionError
        The message says what is wrong, on which problem and with which values, and what to look at.

    Notes
    -----
    Checked are: shape and finiteness of w; the reported objective is that of w; the lower bound, if
    certified, is not above the objective at w, at zero or at random weights; "converged" means a gap within
    `tol`; the reason is a known one; the history has the rounds 1, 2, …, each shown to the callback, and ends
    with a line that is no estimate and says what the result says; a callback that answers true stops the
    solver; oracle calls are counted; the same call gives the same result; w0 is left as it was; the returned
    state can be handed in again.

    Examples
    --------
    >>> from latentstruct import BlockAscent
    >>> check_solver(BlockAscent())
    """
    problems = random_problems(seed) if objective is None else {"the given objective": objective}
    fitting = None
    for name, problem in problems.items():
        if not solver.needs <= problem.properties:
            check_refusal(solver, name, problem)
        elif accepts(solver, problem):
            SolverCheck(solver, name, problem, np.random.default_rng(seed)).run()
            fitting = problem if fitting is None else fitting
    if fitting is None:
        fail(
            solver,
            f"none of the problems ({', '.join(problems)}) has what the solver needs, "
            f"{sorted(solver.needs)}, or it refused them all",
            "hand in one that fits: check_solver(solver, objective=…)",
        )
    for name, problem in without_one_property(fitting).items():
        if not solver.needs <= problem.properties:
            check_refusal(solver, name, problem)


def accepts(solver: Solver, objective: Objective) -> bool:
    """Tell whether a solver takes on an objective; it may refuse more than `needs` can say."""
    try:
        solver.minimize(objective, callback=lambda line: True)
    except InputError:
        return False
    return True


class _Candidates(CandidateTask):
    """Two outputs with three latents each, for problems that are not convex."""

    def candidates(self, x: Any) -> tuple[Sequence[Any], Sequence[Any] | None, Any]:
        features = np.zeros((6, 8))
        for c in range(6):
            features[c, 4 * (c // 3) : 4 * (c // 3) + 4] = np.roll(x, c % 3)
        return [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], features


def random_problems(seed: int) -> dict[str, Objective]:
    """Return small objectives of all kinds by name."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(12, 3)), np.arange(12) % 3
    lengths = [4, 1, 3, 2, 0, 3]
    sequences = [rng.normal(size=(length, 3)) for length in lengths]
    labels = [rng.integers(0, 3, length).tolist() for length in lengths]
    pictures, kinds = rng.normal(size=(10, 4)), np.arange(10) % 2
    weights = 1.0 + rng.random(12)
    soft = Temperature(1.0, 1.0)
    return {
        "multiclass hinge": problem_of(Multiclass(bias=1.0), X, Y, weights, HARD),
        "chain hinge": problem_of(Chain(labels=[0, 1, 2], start=True), sequences, labels, weights, HARD),
        "multiclass CRF": problem_of(Multiclass(), X, Y, weights, Temperature(1.0), margin=False),
        "hard latent candidates": problem_of(_Candidates(), pictures, kinds, weights, HARD),
        "soft latent candidates": problem_of(_Candidates(), pictures, kinds, weights, soft, margin=False),
    }


def problem_of(task: Task, X: Any, Y: Any, weights: Vector, temperature: Temperature, margin: bool = True) -> Objective:
    """Return the objective of a task on some examples."""
    task.learn(X, Y)
    return build_objective(task, task.prepare(X, Y), weights[: len(Y)], temperature, margin)


class _TotalOnly:
    """An oracle that answers with totals only."""

    def __init__(self, oracle: Any) -> None:
        self.n_examples, self.n_features = oracle.n_examples, oracle.n_features
        self.weights, self.smooth, self.total = oracle.weights, oracle.smooth, oracle.total


def without_one_property(objective: Objective) -> dict[str, Objective]:
    """Return variants of an objective that each lack a property."""
    return {
        "an objective without ½‖w‖²": replace(objective, regularizer=NoRegularizer()),
        "an objective without planes": replace(objective, plus=_TotalOnly(objective.plus)),
    }


def check_refusal(solver: Any, name: str, objective: Objective) -> None:
    """Raise unless the solver refuses an objective that lacks what it needs."""
    missing = sorted(solver.needs - objective.properties)
    try:
        solver.minimize(objective)
    except InputError:
        return
    except Exception as error:
        raise AssertionError(
            f"{type(solver).__name__}: {name} lacks {missing}, which the solver needs, and minimize() "
            f"raised {error!r} instead of InputError. Look at: needs must be checked before the first round"
        ) from error
    fail(
        solver,
        f"{name} lacks {missing}, which the solver needs, and was not refused with InputError",
        "needs must be checked before the first round",
    )


@dataclass
class SolverCheck:
    """One problem of `check_solver`."""

    solver: Any
    name: str
    objective: Objective
    rng: np.random.Generator

    def run(self) -> None:
        """Make all checks."""
        seen: list[Round] = []

        def note(line: Round) -> None:
            seen.append(line)

        result = self.solver.minimize(self.objective, callback=note)
        self._check_result(result)
        if [line.round for line in seen] != [line.round for line in result.history]:
            self._fail(
                f"the callback saw {len(seen)} rounds that are not the {len(result.history)} of the history",
                "the callback must get each Round once",
            )
        self._check_repeatable(result)
        self._check_callback_stops()
        self._check_start()
        self._check_result(self.solver.minimize(self.objective, state=result.state))

    def _fail(self, what: str, look: str) -> NoReturn:
        fail(self.solver, f"on {self.name}, {what}", look)

    def _check_result(self, result: Result) -> None:
        d = self.objective.n_features
        if result.w.shape != (d,) or not np.isfinite(result.w).all():
            self._fail(f"w has shape {result.w.shape} or is not finite, expected ({d},)", "Result.w")
        value = self.objective.value(result.w)
        if not abs(value - result.objective) <= rounding(value):
            self._fail(
                f"the reported objective is {result.objective:.10g}, but objective.value(w) = {value:.10g}",
                "Result.objective must belong to Result.w",
            )
        if result.reason not in REASONS:
            self._fail(f"the reason is {result.reason!r}", f"Result.reason, one of {', '.join(REASONS)}")
        if not result.oracle_calls > 0:
            self._fail(f"oracle_calls is {result.oracle_calls}", "objective.counted() counts them")
        self._check_bound(result, value)
        self._check_history(result)

    def _check_bound(self, result: Result, value: float) -> None:
        bound = result.lower_bound
        tol = getattr(self.solver, "tol", None)
        if result.reason == "converged" and tol is not None:
            allowed = tol * max(abs(result.objective), 1e-12)
            if not result.gap <= allowed + rounding(0.0):
                self._fail(
                    f"the reason is 'converged' but the gap {result.gap:.10g} is above tol·|objective| = "
                    f"{allowed:.10g}",
                    "the stopping rule",
                )
        if not bound <= value + rounding(value):
            self._fail(f"the lower bound {bound:.10g} is above the objective {value:.10g}", "Result.lower_bound")
        if not result.certified:
            return
        for v in self._rivals(result.w):
            rival = self.objective.value(v)
            if not bound <= rival + rounding(rival):
                self._fail(
                    f"the lower bound {bound:.10g} is above the objective {rival:.10g} at other weights",
                    "the bound (a dual value is one only if the problem is convex), or certified must be False",
                )

    def _rivals(self, w: Vector) -> Iterator[Vector]:
        """Yield weights whose objective no bound may exceed: near w, at random, and a walk downhill."""
        yield np.zeros_like(w)
        for scale in (0.01, 0.1, 1.0):
            for _ in range(5):
                yield w + scale * self.rng.normal(size=len(w))
                yield scale * self.rng.normal(size=len(w))
        for _ in range(3):
            v = self.rng.normal(size=len(w))
            for t in range(100):
                v = v - self.objective.value_and_gradient(v)[1] / (t + 2)
            yield v

    def _check_history(self, result: Result) -> None:
        numbers = [line.round for line in result.history]
        if not numbers or numbers != list(range(1, len(numbers) + 1)) or result.n_rounds != len(numbers):
            self._fail(
                f"n_rounds is {result.n_rounds} and the rounds of the history are {numbers[:10]}",
                "the history must have the rounds 1, 2, …, n_rounds",
            )
        for before, after in zip(result.history[:-1], result.history[1:], strict=True):
            if after.oracle_calls < before.oracle_calls or after.seconds < before.seconds:
                self._fail(f"oracle calls or seconds fall from {before} to {after}", "they count from the start")
        last = result.history[-1]
        if last.estimate:
            self._fail(f"the last round of the history is an estimate ({last})", "the last line must be certain")
        if (last.objective, last.lower_bound) != (result.objective, result.lower_bound):
            self._fail(
                f"the last round shows {last.objective:.10g} and {last.lower_bound:.10g}, the result "
                f"{result.objective:.10g} and {result.lower_bound:.10g}",
                "the last line of the history must show what the result says",
            )

    def _check_repeatable(self, first: Result) -> None:
        again = self.solver.minimize(self.objective)
        same = np.array_equal(first.w, again.w) and first.lower_bound == again.lower_bound
        if not same or (first.reason, first.n_rounds) != (again.reason, again.n_rounds):
            self._fail(
                f"the same call gave two results: objective {first.objective:.10g} and "
                f"{again.objective:.10g}, reason {first.reason!r} and {again.reason!r}, {first.n_rounds} "
                f"and {again.n_rounds} rounds",
                "the random generator must be made anew from its seed, and nothing be kept between calls",
            )

    def _check_callback_stops(self) -> None:
        result = self.solver.minimize(self.objective, callback=lambda line: True)
        self._check_result(result)
        if result.n_rounds != 1 or result.reason not in ("callback", "converged"):
            self._fail(
                f"a callback that answers true at once led to {result.n_rounds} rounds and reason {result.reason!r}",
                "the callback's answer after each round",
            )

    def _check_start(self) -> None:
        w0 = self.rng.normal(size=self.objective.n_features)
        given = w0.copy()
        self._check_result(self.solver.minimize(self.objective, given))
        if not np.array_equal(given, w0):
            self._fail("w0 was changed in place", "copy w0 before the first step")
