"""Contract checks of tasks."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.parameters import clone
from latentstruct.core.pooling import as_planes
from latentstruct.core.protocols import Mode, Pooled, Query, Task, Temperature
from latentstruct.core.types import Vector
from latentstruct.exceptions import InputError
from latentstruct.planes.plane import Plane, Planes
from latentstruct.tasks.custom.parts import PartsTask
from latentstruct.testing.common import HARD, MODES, PRECISION, SCALES, fail, first_beyond, rounding


def check_task(task: Task, X: Any, Y: Any, *, temperatures: Sequence[float] = (0.0, 0.3, 1.0), seed: int = 0) -> None:
    """Check that a task satisfies the contract of `latentstruct.core.protocols.Task`.

    The task is copied, learns `X` and `Y`, and is queried at several random weights w, in every mode and at
    every temperature it supports. A task may reject soft temperatures by `InputError`; the hard max must
    work.

    Parameters
    ----------
    task : Task
        The task; it is not modified.
    X, Y : collections of n examples and their outputs
        Real or synthetic training data. A few small examples are enough: slopes are compared as
        dense matrices (n, d).
    temperatures : sequence of float, default=(0.0, 0.3, 1.0)
        Values of ε_y, and of ε_h if the task has latents (then all pairs are checked).
    seed : int, default=0
        Seed of weights and directions.

    Raises
    ------
    AssertionError
        The message names the failure, the example, the values and a hint.

    Notes
    -----
    The checks are, in this order: the true outputs have no loss; planes are well formed, the same when queried twice,
    and do not modify w; each is tight (value = offset + slope·w) and, if the task is marked exact, below the
    function at all other weights; soft maxima scale with the temperature; a task without latents has a linear clamped
    side; clamped ≤ free ≤ augmented, and no output of the augmented mode scores above the free value; the planes of
    some rows are those of the full call; `total` is their weighted sum, its slope agrees with finite differences if
    the function is smooth, and without its entropy it is below the hard function; `decode` reaches the free value;
    losses are ≥ 0, zero between equal outputs, and part of the augmented value, with equality if `decode_augmented`
    returns the outputs of the augmented mode; no output found elsewhere has a larger sum of score and loss;
    `loss_levels`, if known, contain an output that is at least as good for slack rescaling as those of the
    augmented mode; with latents, `complete` reaches the clamped value, and the completions of random and initial
    latents are below it.

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


@dataclass
class Answers:
    """A task's planes in one mode at one temperature, for each of the weights."""

    mode: Mode
    temperature: Temperature
    planes: list[Planes]

    @property
    def exact(self) -> bool:
        """Whether all of them claim to be bounds."""
        return all(planes.all_exact for planes in self.planes)

    @property
    def where(self) -> str:
        """Mode and temperatures for error messages."""
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
            fail(task, f"prepare() returned a batch of {n} examples from {len(Y)}", "n_examples of the batch")
        if not batch.labeled:
            fail(task, "prepare(X, Y) returned a batch that is not labeled", "`labeled` of the batch")
        points = [scale * rng.normal(size=d) for scale in SCALES]
        return cls(task, X, Y, batch, points, rng.uniform(0.1, 2.0, n), rng, temperatures)

    def _fail(self, what: str, look: str) -> NoReturn:
        fail(self.task, what, look)

    def run(self) -> None:
        """Run all checks."""
        self._check_no_loss(self.Y, "the true outputs")
        for mode in MODES:
            self.hard[mode] = self._ask(mode, HARD)
        self._check_pairs()
        for temperature in self._supported():
            answers = {mode: self._ask(mode, temperature) for mode in MODES}
            for found in answers.values():
                self._check_tight(found)
                self._check_below(found)
                self._check_rows(found)
                self._check_total(found)
                self._check_entropy(found)
                self._check_gradient(found)
            self._check_scale(answers["free"])
            self._check_clamped_is_linear(answers["clamped"])
            self._check_order(answers)
            self._check_outputs(answers["augmented"])
            # Only Y determines which labels are unknown, and so pooled at another temperature.
            needs_outputs = getattr(self.batch, "half_labeled", False) and temperature.output != temperature.latent
            if not needs_outputs:
                self._check_unlabeled(answers["free"])
            if temperature.output == 0 and not needs_outputs:
                self._check_decode(answers["free"])
        self._check_loss()
        self._check_augmented_losses()
        self._check_search()
        self._check_slack()
        if self.task.latent:
            self._check_completions()

    def _supported(self) -> Iterator[Temperature]:
        """Yield the temperatures that the task supports, the hard max first."""
        yield HARD
        for output in self.temperatures:
            for latent in self.temperatures if self.task.latent else (0.0,):
                temperature = Temperature(float(output), float(latent))
                if temperature == HARD:
                    continue
                try:
                    self.task.planes(self.batch, self.points[0], "free", temperature)
                except InputError as error:
                    together = not self.task.latent or output == latent
                    if isinstance(self.task, PartsTask) and self.task.tags.soft and together:
                        self._fail(f"the temperature {tuple(temperature)} was rejected: {error}", "pool()")
                    continue
                yield temperature

    def _ask(self, mode: Mode, temperature: Temperature) -> Answers:
        answers = Answers(mode, temperature, [])
        for w in self.points:
            given = w.copy()
            try:
                planes = self.task.planes(self.batch, given, mode, temperature)
            except InputError as error:
                self._fail(
                    f"{answers.where} was rejected: {error}",
                    "planes(): the hard max must work in all modes, and a soft temperature in all modes or in none",
                )
            if not np.array_equal(given, w):
                self._fail(f"planes() changed w in place ({answers.where})", "operations like w += … or out=w")
            self._check_form(answers, planes)
            again = self.task.planes(self.batch, given, mode, temperature)
            self._compare(
                answers, again, planes, "planes() returns different results for the same query", precision=0.0
            )
            answers.planes.append(planes)
        return answers

    def _check_form(self, answers: Answers, planes: Planes) -> None:
        n, d = self.batch.n_examples, self.task.n_features
        shapes = len(planes.pointers) - 1, planes.offsets.shape, planes.values.shape, planes.n_features
        if shapes != (n, (n,), (n,), d):
            self._fail(
                f"expected {n} planes with {d} features, found {shapes[0]} with offsets of shape "
                f"{shapes[1]}, values of shape {shapes[2]} and {shapes[3]} features ({answers.where})",
                "planes() must return one plane per queried example",
            )
        for i in first_beyond(np.abs(planes.offsets) + np.abs(planes.values), np.finfo(float).max):
            self._fail(
                f"example {i} has offset {planes.offsets[i]} and value {planes.values[i]} ({answers.where})",
                "logarithms of zero, maxima over nothing, overflow of exp",
            )

    def _check_tight(self, answers: Answers) -> None:
        for k, (w, planes) in enumerate(zip(self.points, answers.planes, strict=True)):
            heights = planes.offsets + planes.dot(w)
            for i in first_beyond(np.abs(planes.values - heights), rounding(planes.values, planes.offsets)):
                self._fail(
                    f"the plane of example {i} is not tight at the weights of the query (point {k}, "
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
                for i in first_beyond(heights - values, rounding(heights, values, planes.offsets)):
                    # The free mode, which has no loss, was checked before.
                    look = "the loss in the search: is it output_loss(), with the same sign and normalization? Or "
                    self._fail(
                        f"the plane of example {i} queried at point {k} has height {heights[i]:.10g} at point "
                        f"{j}, above the value {values[i]:.10g} found there ({answers.where})",
                        f"{look if answers.mode == 'augmented' else ''}inference that misses the maximum (then set "
                        "exact to False), features or losses that depend on w, or a slope that is not the mean of the "
                        "features",
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
                "`latent` is False, yet the clamped plane depends on w",
                "set latent = True if something stays hidden when y is known; else the clamped plane is φ(x_i, y_i)",
            )

    def _check_order(self, answers: dict[Mode, Answers]) -> None:
        for low, high in (("clamped", "free"), ("free", "augmented")):
            below, above = answers[low], answers[high]  # type: ignore[index]
            if not (below.exact and above.exact):
                continue
            for k, (lower, upper) in enumerate(zip(below.planes, above.planes, strict=True)):
                for i in first_beyond(lower.values - upper.values, rounding(lower.values, upper.values)):
                    self._fail(
                        f"the {low} value {lower.values[i]:.10g} of example {i} is above its {high} value "
                        f"{upper.values[i]:.10g} (point {k}, temperature {tuple(above.temperature)})",
                        "the true output must be among the free ones, and the loss must be ≥ 0"
                        if high == "augmented"
                        else "the true output must be among the outputs that the free mode chooses from",
                    )

    def _check_outputs(self, answers: Answers) -> None:
        """Check that outputs chosen in a mode score no more than the best of the free mode, at all weights."""
        free = self.hard["free"]
        if not (answers.exact and free.exact):
            return
        for j, v in enumerate(self.points):
            values = free.planes[j].values
            for k, planes in enumerate(answers.planes):
                scores = planes.dot(v)
                for i in first_beyond(scores - values, rounding(scores, values)):
                    self._fail(
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
                self._fail(f"{what}: {len(some)} planes for {len(rows)} rows ({answers.where})", "rows")
            self._compare(answers, some, planes.take(rows), what, "the use of `rows`, and its order", rows)

    def _compare(
        self,
        answers: Answers,
        found: Planes,
        expected: Planes,
        what: str,
        look: str = "hidden state, random numbers, or arrays that are modified in place",
        rows: NDArray | None = None,
        precision: float = PRECISION,
    ) -> None:
        """Raise if two sets of planes, of all examples or of some rows, differ in slopes or offsets."""
        slopes, wanted = found.slopes().toarray(), expected.slopes().toarray()
        beyond = np.abs(slopes - wanted) - precision * (1.0 + np.abs(wanted))
        apart = np.abs(found.offsets - expected.offsets) - precision * (1.0 + np.abs(expected.offsets))
        for k in first_beyond(np.maximum(beyond.max(axis=1, initial=-np.inf), apart), 0.0):
            f = int(np.argmax(beyond[k])) if beyond.size else 0
            detail = f"slope[{f}] is {slopes[k, f]:.10g} and {wanted[k, f]:.10g}, " if beyond.size else ""
            self._fail(
                f"{what} ({answers.where}): for example {k if rows is None else rows[k]} {detail}the offset is "
                f"{found.offsets[k]:.10g} and {expected.offsets[k]:.10g}",
                look,
            )

    def _check_unlabeled(self, answers: Answers) -> None:
        batch = self.task.prepare(self.X)
        for w, planes in zip(self.points, answers.planes, strict=True):
            found = self.task.planes(batch, w, "free", answers.temperature)
            self._compare(
                answers,
                found,
                planes,
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
            for f in first_beyond(np.abs(found.slope - expected.slope), rounding(sizes.slope)):
                self._fail(
                    f"slope[{f}] of total() is {found.slope[f]:.10g}, but the weighted sum of the planes "
                    f"has {expected.slope[f]:.10g} (point {k}, {answers.where})",
                    look,
                )
            if not abs(found.offset - expected.offset) <= rounding(sizes.offset, planes.values.sum()):
                self._fail(
                    f"total() has offset {found.offset:.10g}, but the weighted sum of the planes has "
                    f"{expected.offset:.10g} (point {k}, {answers.where})",
                    look,
                )
            if found.exact and not planes.all_exact:
                self._fail(f"total() is marked exact, planes() is not ({answers.where})", "exact")

    def _check_entropy(self, answers: Answers) -> None:
        """Check that a total without its entropy is below the hard function everywhere."""
        hard = self.hard[answers.mode]
        for k, w in enumerate(self.points):
            plane = self._total(answers, w)
            if not plane.entropy >= -rounding(plane.offset):
                self._fail(
                    f"the entropy of total() is {plane.entropy:.10g}, below 0 (point {k}, {answers.where})",
                    "entropy = offset − the expected loss (augmented), offset (free and clamped)",
                )
            if not (plane.exact and hard.exact):
                continue
            for j, v in enumerate(self.points):
                height = plane(v) - plane.entropy
                value = float(self.weights @ hard.planes[j].values)
                if not height <= value + rounding(height, value, plane.offset):
                    self._fail(
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
                self._fail(
                    f"along a random direction the slope of total() is {found:.10g}, but finite differences "
                    f"give {expected:.10g} ± {allowed:.1g} (point {k}, {answers.where})",
                    "the expected features of total()",
                )

    def _check_scale(self, answers: Answers) -> None:
        """Compare soft maxima with those of scaled scores: smax_ε(s) = c·smax_{ε/c}(s/c)."""
        highest = max(self.temperatures, default=0.0)
        scale = max(answers.temperature) / highest if highest > 0 else 0.0
        if scale in (0.0, 1.0) or not answers.exact:
            return
        temperature = Temperature(*(value / scale for value in answers.temperature))
        for k, (w, planes) in enumerate(zip(self.points, answers.planes, strict=True)):
            expected = scale * self.task.planes(self.batch, w / scale, "free", temperature).values
            for i in first_beyond(np.abs(planes.values - expected), rounding(planes.values)):
                self._fail(
                    f"the value of example {i} is {planes.values[i]:.10g}, but {scale:g} times the value for "
                    f"scores and temperatures divided by {scale:g} is {expected[i]:.10g} (point {k}, {answers.where})",
                    "the use of the temperature: ε·log Σ exp(s/ε)",
                )

    def _check_decode(self, free: Answers) -> None:
        for k, (w, planes) in enumerate(zip(self.points, free.planes, strict=True)):
            decoded = self.task.decode(self.batch, w, free.temperature)
            if len(decoded) != len(planes):
                self._fail(f"decode() returned {len(decoded)} predictions for {len(planes)} examples", "decode()")
            scores = np.array([prediction.score for prediction in decoded], dtype=float)
            for i in first_beyond(np.abs(scores - planes.values), rounding(planes.values)) if free.exact else ():
                self._fail(
                    f"decode() scores example {i} with {scores[i]:.10g}, but its free value is "
                    f"{planes.values[i]:.10g} (point {k}, {free.where})",
                    "decode() must return the output that the free mode finds, with its score",
                )

    def _check_loss(self) -> None:
        for k, w in enumerate(self.points):
            decoded = self.task.decode(self.batch, w, HARD)
            outputs = [prediction.y for prediction in decoded]
            self._check_no_loss(outputs, f"what decode() found at point {k}")
            losses = self._losses(self.Y, outputs)
            for i in first_beyond(-losses, 0.0):
                self._fail(f"loss() of example {i} is {losses[i]:.10g}, expected ≥ 0", "loss()")
            augmented = self.hard["augmented"]
            if self.task.latent or not augmented.exact:
                continue
            reached = np.array([prediction.score for prediction in decoded]) + losses
            values = augmented.planes[k].values
            for i in first_beyond(reached - values, rounding(reached, values)):
                self._fail(
                    f"the decoded output of example {i} has score {decoded[i].score:.10g} and loss "
                    f"{losses[i]:.10g}, together above the augmented value {values[i]:.10g} (point {k})",
                    "loss() and the loss of the augmented mode: they must be the same Δ",
                )

    def _check_augmented_losses(self) -> None:
        """Compare the losses that the augmented mode adds with `loss`, if its outputs can be decoded."""
        for k, (w, planes) in enumerate(zip(self.points, self.hard["augmented"].planes, strict=True)):
            decoded = self.task.decode_augmented(self.batch, w)
            if decoded is None:
                return
            scores = np.array([prediction.score for prediction in decoded], dtype=float)
            if scores.shape != planes.values.shape:
                self._fail(
                    f"decode_augmented() returned {len(scores)} predictions for {len(planes)} examples",
                    "decode_augmented()",
                )
            for i in first_beyond(np.abs(scores - planes.values), rounding(planes.values)):
                self._fail(
                    f"decode_augmented() scores example {i} with {scores[i]:.10g}, but its augmented value is "
                    f"{planes.values[i]:.10g} (point {k})",
                    "decode_augmented() must return what the augmented mode finds, with score + loss as score",
                )
            latents = ([prediction.h for prediction in decoded],) if self.task.latent else ()
            losses = self._losses(self.Y, [prediction.y for prediction in decoded], *latents)
            for i in first_beyond(np.abs(losses - planes.offsets), rounding(losses, planes.offsets)):
                self._fail(
                    f"the augmented mode uses the loss {planes.offsets[i]:.10g} for the output "
                    f"{repr_short(decoded[i].y)} of example {i}, but loss() is {losses[i]:.10g} (point {k})",
                    "output_loss() and the loss in the search (part_losses() of a PartsTask): sign, normalization "
                    "and the order of arguments; counts() and output() must be inverse to each other",
                )

    def _balanced_points(self) -> list[Vector]:
        """Return weights at which differences of scores are of the size of losses."""
        nothing = np.zeros(self.task.n_features)
        loss = float(self.task.planes(self.batch, nothing, "augmented", HARD).values.mean())
        points = []
        for _ in range(4):
            w = self.rng.normal(size=len(nothing))
            free, clamped = (self.task.planes(self.batch, w, mode, HARD).values for mode in ("free", "clamped"))
            margin = float((free - clamped).mean())
            if loss > 0 and margin > 0:
                points += [scale * loss / margin * w for scale in (0.3, 0.6, 1.2, 2.4)]
        return points

    def _check_search(self) -> None:
        """Search for outputs that are better than those of the augmented mode."""
        if not self.hard["augmented"].exact:
            return
        points = self._balanced_points()
        found = [self.task.planes(self.batch, w, "augmented", HARD) for w in points]
        rivals = [(planes, planes.offsets) for planes in found]
        if not self.task.latent and self.task.decode_augmented(self.batch, self.points[0]) is not None:
            for w in points:
                outputs = [prediction.y for prediction in self.task.decode(self.batch, w, HARD)]
                known = self.task.planes(self.task.prepare(self.X, outputs), w, "clamped", HARD)
                rivals.append((known, self._losses(self.Y, outputs)))
        for w, planes in zip(points, found, strict=True):
            for rival, losses in rivals:
                scores = rival.dot(w)
                for i in first_beyond(scores + losses - planes.values, rounding(scores, losses, planes.values)):
                    self._fail(
                        f"an output of example {i} with score {scores[i]:.10g} and loss {losses[i]:.10g} is above the "
                        f"augmented value {planes.values[i]:.10g}",
                        "the search of the augmented mode must maximize score + loss, with the loss of loss()",
                    )

    def _losses(self, truth: Any, outputs: Any, *latents: Any) -> NDArray[np.float64]:
        losses = np.asarray(self.task.loss(truth, outputs, *latents), dtype=float)
        if losses.shape != (self.batch.n_examples,):
            self._fail(f"loss() has shape {losses.shape}, expected ({self.batch.n_examples},)", "loss()")
        return losses

    def _check_pairs(self) -> None:
        """Raise if pairs are predicted although outputs are not pairs and there are no latents."""
        for i, (y, found) in enumerate(zip(self.Y, self.task.decode(self.batch, self.points[0], HARD), strict=False)):
            if not self.task.latent and isinstance(found.y, tuple) and len(found.y) == 2 and not isinstance(y, tuple):
                self._fail(
                    f"decode() returned the pair {repr_short(found.y)} for example {i}, which has {repr_short(y)}",
                    "the search must return y alone, or pairs (y, h) if latent is True",
                )

    def _check_no_loss(self, outputs: Any, name: str) -> None:
        losses = self._losses(outputs, outputs)
        for i in first_beyond(np.abs(losses), 0.0):
            self._fail(f"the loss between equal outputs ({name}) is {losses[i]:.10g} for example {i}", "loss()")

    def _check_slack(self) -> None:
        if self.task.latent:
            return
        for k, w in enumerate(self.points):
            query = Query(w, "augmented")
            levels = self.task.loss_levels(self.batch, query)
            if levels is None:
                return
            true_scores = self.hard["clamped"].planes[k].values
            found = as_planes(self.task, self.batch, query, Pooled(*levels.best(true_scores)), "loss_levels")
            rival = self.hard["augmented"].planes[k]
            reached, expected = (p.offsets * (1.0 + p.dot(w) - true_scores) for p in (found, rival))
            for i in first_beyond(np.maximum(expected, 0.0) - reached, rounding(reached, expected)):
                self._fail(
                    f"loss_levels() reaches Δ·(1 + s − s_i) = {reached[i]:.10g} for example {i}, but the "
                    f"augmented mode finds {expected[i]:.10g} and the true output gives 0 (point {k})",
                    "loss_levels(): losses, scores and slopes of the best outputs",
                )

    def _check_completions(self) -> None:
        """Compare the planes of single completions with the clamped side."""
        for w, clamped in zip(self.points, self.hard["clamped"].planes, strict=True):
            planes = self.task.completion_planes(self.batch, self.task.complete(self.batch, w))
            best = planes.dot(w) + planes.offsets
            for i in first_beyond(np.abs(best - clamped.values), rounding(clamped.values)) if clamped.all_exact else ():
                self._fail(
                    f"the completion of example {i} scores {best[i]:.10g}, the clamped side {clamped.values[i]:.10g}",
                    "complete() and completion_planes()",
                )
        rules = {
            "random_latents": lambda: self.task.random_latents(self.batch, np.random.default_rng(0)),
            "initial_latents": lambda: self.task.initial_latents(self.batch, np.random.default_rng(0), 0),
        }
        for name, rule in rules.items():
            planes = self.task.completion_planes(self.batch, rule())
            for w, clamped in zip(self.points, self.hard["clamped"].planes, strict=True):
                above = planes.dot(w) + planes.offsets - clamped.values
                for i in first_beyond(above, rounding(clamped.values)) if clamped.all_exact else ():
                    self._fail(
                        f"a completion of example {i} scores above the clamped side, {clamped.values[i]:.10g}",
                        f"{name}(): latents must be compatible with the known output",
                    )
