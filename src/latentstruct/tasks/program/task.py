"""Outputs that linear constraints describe: matchings, flows, tracks, coverings and other integer programs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import linalg
from latentstruct.core.pooling import latent_planes, pool_known, require_labels
from latentstruct.core.protocols import Cost, Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector, split
from latentstruct.core.validation import check_parameters, check_shape, integer, numbers_of, options, real
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Planes, Slopes
from latentstruct.tasks.base import BaseTask, check_examples, require_hard_max
from latentstruct.tasks.inputs import InputRows, check_matrix
from latentstruct.tasks.program.inputs import Constraints, ProgramInput, ProgramOutput, output_arrays
from latentstruct.tasks.program.solving import Answer, AssignmentProgram, HighsProgram, Limits, Maximizer, Unsolvable
from latentstruct.tasks.program.solving import maximizer as fastest
from latentstruct.tasks.row_parts import FlatBatch, RowParts, require_latents, stack_examples

NOTHING = np.zeros(0, dtype=np.int8)
"""State of a solver before its first answer."""


@dataclass
class ProgramBatch(FlatBatch):
    """The variables of all programs, flat; `truth` has their values, NaN where unknown, and `weights` their costs."""

    inputs: InputRows
    programs: list[ProgramInput]
    weights: Vector
    limits: Limits
    hidden: bool  # whether unknown variables have features
    known_slopes: Slopes | None = None
    maximizers: dict[tuple[int, Mode], Maximizer] = field(default_factory=dict)

    def between(self, k: int) -> Indices:
        """Return the variables of an example whose known value is strictly between their bounds."""
        if not self.labeled:
            return np.zeros(0, dtype=np.int64)
        c, y = self.programs[k].constraints, self.truth[self.offsets[k] : self.offsets[k + 1]]
        costly = self.weights[self.offsets[k] : self.offsets[k + 1]] > 0
        return np.flatnonzero((y > c.lower) & (y < c.upper) & costly)

    def maximizer(self, k: int, mode: Mode) -> Maximizer:
        """Return the maximizer of an example. Only distances from values between bounds need one of their own."""
        if mode == "augmented" and not len(self.between(k)):
            mode = "free"
        if (k, mode) not in self.maximizers:
            self.maximizers[k, mode] = self._new_maximizer(k, mode)
        return self.maximizers[k, mode]

    def _new_maximizer(self, k: int, mode: Mode) -> Maximizer:
        c = self.programs[k].constraints
        if mode == "free":
            return fastest(c, self.limits)
        if mode == "augmented":
            at = self.between(k)
            return fastest(c.with_distances(at, self.truth[self.offsets[k] + at]), self.limits)
        y = self.truth[self.offsets[k] : self.offsets[k + 1]]
        table = AssignmentProgram.of(c)
        return HighsProgram(c.without(~np.isnan(y), y), self.limits) if table is None else table.clamped(y)

    def memory(self) -> list[list[Any]]:
        """Return the state of all solvers."""
        return [[k, mode, one.memory()] for (k, mode), one in sorted(self.maximizers.items())]

    def recall(self, memory: Any) -> None:
        """Restore the state of all solvers."""
        self.maximizers.clear()
        for k, mode, state in memory:
            self.maximizer(k, mode).recall(np.asarray(state, dtype=np.int8))


@dataclass(eq=False, repr=False)
class Program(BaseTask[ProgramBatch]):
    """Outputs that linear constraints describe: s(y) = Σ_j y_j w·x_j over integers y with lb ≤ A y ≤ ub.

    Parameters
    ----------
    relaxation : {"none", "lp"}, default="none"
        What the maximum is taken over. "lp" trains with linear relaxations instead of integer programs (Finley and
        Joachims 2008): outputs may be fractional, of which there are more, so that the objective is larger. Bounds and
        gaps are those of the relaxed objective. Fractional predictions are replaced by the best integer ones.
    gap : float, default=0.0
        Relative gap at which the search for an integer output may end.
    max_nodes : int, optional
        Maximum number of nodes of a search.
    max_seconds : float, optional
        Maximum time of a search. Unlike `max_nodes`, it makes results depend on the speed of the machine.

    Attributes
    ----------
    n_fractional_ : int
        Number of examples with a fractional relaxation when outputs were last predicted with ``relaxation="lp"``.

    Notes
    -----
    X is a list of `ProgramInput`, Y a list of vectors (V,) of values of the variables, in which −1 and NaN are unknown:
    unknown and auxiliary variables are latent. Latents are whole vectors. The loss is the sum of |y_j − ŷ_j| over all
    known variables. A `ProgramOutput` gives them weights, and may have the value −1.

    Assignments are solved by the Hungarian method. All other programs need the package highspy (``pip install
    'latentstruct[program]'``) and are solved by HiGHS, which keeps a model of each example. Constraints between binary
    variables are tightened first. An integral solution of the linear relaxation is the maximum; otherwise branch and
    cut starts from the last solution. If a limit ends the search, its best output gives a plane below the objective and
    its bound an upper bound of the objective, so that `lower_bound_` and `objective_` enclose the minimum in any case.

    See Also
    --------
    PartsTask : Parts with a search of your own.
    latentstruct.tasks.program.builders : Programs of assignments, tracks, trees and other outputs.

    References
    ----------
    T. Finley and T. Joachims, Training structural SVMs when exact inference is intractable, ICML 2008.

    Examples
    --------
    Matchings of three workers and three jobs:

    >>> import numpy as np
    >>> from latentstruct import Program, StructuralSVM
    >>> from latentstruct.tasks.program.builders import assignment
    >>> rng = np.random.default_rng(0)
    >>> Y = [np.eye(3)[rng.permutation(3)].ravel() for _ in range(20)]
    >>> X = [assignment(np.stack([y, rng.normal(size=9)], axis=1).reshape(3, 3, 2)) for y in Y]
    >>> StructuralSVM(Program(), C=1.0).fit(X, Y).score(X, Y)
    1.0
    """

    tags = TaskTags(latent="possible", exact=False, upper_bounds=True, threaded_decoding=True)
    constraints: ClassVar = {
        "relaxation": options("none", "lp"),
        "gap": real(0.0, closed="left"),
        "max_nodes": integer(0) | None,
        "max_seconds": real(0.0) | None,
    }

    relaxation: Literal["none", "lp"] = "none"
    gap: float = 0.0
    max_nodes: int | None = None
    max_seconds: float | None = None

    def learn(self, X: Any, Y: Any) -> None:
        """Find the number of features, and whether anything is unknown."""
        check_examples(X, Y)
        check_parameters(self)
        self.n_features = self.n_inputs_ = check_matrix(_program(X[0], "X[0]").features, "X[0].features").shape[1]
        truths = [self._truth(x, y, k)[0] for k, (x, y) in enumerate(zip(X, Y, strict=True))]
        # Unknown variables without features do not change the score of an output.
        self.latent = any((np.isnan(y) & _scored(x)).any() for x, y in zip(X, truths, strict=True))
        if all(np.isnan(y).all() for y in truths):
            raise InputError("Y", Description("none"), "outputs with at least one known value")

    def state(self) -> dict[str, Any]:
        return {"n_features": self.n_features, "latent": self.latent}

    def restore(self, state: dict[str, Any]) -> None:
        check_parameters(self)
        self.n_features = self.n_inputs_ = int(state["n_features"])
        self.latent = bool(state["latent"])

    def _limits(self, relaxed: bool) -> Limits:
        return Limits(float(self.gap), self.max_nodes, self.max_seconds, relaxed)

    @staticmethod
    def _truth(x: Any, y: Any, k: int) -> tuple[Vector, Vector]:
        """Return the values of an output, NaN where unknown, and their weights."""
        c, name = _constraints(x, k), f"Y[{k}]"
        values, weights = output_arrays(y, len(c.lower), name)
        for j in np.flatnonzero(c.integer & (values != np.round(values)) & ~np.isnan(values))[:1]:
            raise InputError(name, Description(f"{values[j]:g} for {x.variable(j)}"), "integers for integer variables")
        for j in np.flatnonzero((values < c.lower) | (values > c.upper))[:1]:
            got = Description(f"{values[j]:g} for {x.variable(j)}")
            raise InputError(name, got, f"values between the bounds {c.lower[j]:g} and {c.upper[j]:g}")
        return values, weights

    def prepare(self, X: Any, Y: Any = None) -> ProgramBatch:
        """Validate programs; with outputs also that these satisfy the constraints, and can be completed."""
        check_examples(X, Y)
        check_parameters(self)
        programs = [_program(x, f"X[{k}]") for k, x in enumerate(X)]
        inputs, offsets = stack_examples([x.features for x in programs], self.n_features, 1)
        found = (
            [self._truth(x, y, k) for k, (x, y) in enumerate(zip(programs, Y, strict=True))] if Y is not None else []
        )
        truth, weights = (np.concatenate(part) for part in zip(*found, strict=True)) if found else (None, np.zeros(0))
        relaxed = self.relaxation == "lp"
        hidden = any((np.isnan(y) & _scored(x)).any() for x, (y, _) in zip(programs, found, strict=False))
        batch = ProgramBatch(offsets, truth, inputs, programs, weights, self._limits(relaxed), hidden)
        for k, x in enumerate(programs):
            _check_bounded(x, _constraints(x, k), k)
            if truth is not None:
                self._check_truth(batch, k)
                at, c = batch.between(k), x.constraints
                for j in at[~np.isfinite(c.upper[at] - c.lower[at]) | relaxed][:1]:
                    got = Description(f"a value of {x.variable(j)} between its bounds")
                    expected = "a value at a bound" + (" with `relaxation`='lp'" if relaxed else "")
                    raise InputError(f"Y[{k}]", got, expected, None if relaxed else "Set `lower` and `upper`.")
        return batch

    def _check_truth(self, batch: ProgramBatch, k: int) -> None:
        """Raise if the known variables of an example violate the constraints, or exclude any values of the others."""
        x, y = batch.programs[k], batch.truth[batch.offsets[k] : batch.offsets[k + 1]]
        if np.isnan(y).any():
            try:
                y = self._filled(y, self._maximize(batch, k, np.zeros(len(y)), "clamped").x)
            except InputError:
                # A program without any point is the cause, if it has none.
                self._maximize(batch, k, np.zeros(len(y)), "free")
                raise
        violation = x.constraints.violation(y)
        if violation is not None:
            row, activity, (low, high), amount = violation
            got = Description(f"{activity:g} in {x.constraint(row)}, which violates it by {amount:g}")
            raise InputError(f"Y[{k}]", got, f"values that satisfy {x.constraint(row)}, {low:g} to {high:g}")

    @staticmethod
    def _filled(truth: Vector, values: Vector) -> Vector:
        """Return a vector of all variables from those of the unknown ones, or from one of all."""
        if len(values) == len(truth):
            return np.where(np.isnan(truth), values, truth)
        filled = truth.copy()
        filled[np.isnan(truth)] = values
        return filled

    def _maximize(self, batch: ProgramBatch, k: int, scores: Vector, mode: Mode) -> Answer:
        """Return the best values of the variables of an example."""
        x, clamped = batch.programs[k], mode == "clamped"
        begin, end = batch.offsets[k], batch.offsets[k + 1]
        truth = batch.truth[begin:end] if batch.labeled else np.zeros(0)
        one = batch.maximizer(k, mode)
        if clamped and not isinstance(one, AssignmentProgram):
            scores = scores[np.isnan(truth)]
        elif mode == "augmented":
            at, weights = batch.between(k), batch.weights[begin:end]
            slopes = np.where(truth <= x.constraints.lower, weights, -weights)
            slopes[np.isnan(truth)] = slopes[at] = 0.0
            scores = np.concatenate([scores + slopes, weights[at], np.zeros(len(at))])
        try:
            answer = one.maximize(scores)
        except Unsolvable as error:
            raise _unsolvable(x, k, error, clamped) from error
        return Answer(self._filled(truth, answer.x) if clamped else answer.x[: end - begin], answer.excess)

    def _answers(self, batch: ProgramBatch, query: Query) -> tuple[RowParts, Vector, Vector, Vector]:
        """Return the variables of a query, their scores and best values, and how far maxima may be above these."""
        parts = RowParts.of(batch.inputs, batch.offsets, query.rows)
        scores = parts.scores(query)
        examples = query.examples(batch).tolist()
        if not query.w.any():
            # Many outputs are equally good: which one is found must not depend on earlier queries.
            for k in examples:
                batch.maximizer(k, query.mode).recall(NOTHING)
        pieces = zip(examples, split(scores, parts.offsets), strict=True)
        answers = [self._maximize(batch, k, piece, query.mode) for k, piece in pieces]
        return parts, scores, np.concatenate([one.x for one in answers]), np.array([one.excess for one in answers])

    def pool_batch(self, batch: ProgramBatch, query: Query) -> Pooled:
        if query.mode == "clamped" and not batch.hidden:
            return pool_known(batch, query, lambda rows: self._slopes(batch, np.nan_to_num(batch.truth), rows))
        parts, scores, counts, excess = self._answers(batch, query)
        losses = np.zeros(len(excess))
        if query.augmented:
            losses = parts.sums(_differences(parts.of_all(batch.truth), parts.of_all(batch.weights), counts))
        values = parts.sums(scores * counts) + losses
        return Pooled(values, parts.slopes(counts, query), losses, exact=excess == 0.0, excess=excess)

    def scores_of_variables(self, batch: ProgramBatch, query: Query) -> Vector:
        """Return the scores of the variables of the examples of a query."""
        return RowParts.of(batch.inputs, batch.offsets, query.rows).scores(query)

    def maximize_scores(self, batch: ProgramBatch, k: int, scores: Vector) -> Vector:
        """Return the best output of example k for given scores of its variables."""
        return self._maximize(batch, k, scores, "free").x

    def _slopes(self, batch: ProgramBatch, values: Vector, rows: Indices | None = None) -> Slopes:
        """Return the features of the values of all variables, for some examples."""
        parts = RowParts.of(batch.inputs, batch.offsets, rows)
        return parts.slopes(parts.of_all(values), Query(np.zeros(0), "clamped", rows=rows))

    def cost(self, batch: ProgramBatch, mode: Mode, temperature: Temperature) -> Cost:
        if mode == "clamped" and not batch.hidden:
            return Cost(np.diff(batch.offsets).astype(np.float64))
        return Cost(np.array([1e5 + 50.0 * x.constraints.A.nnz for x in batch.programs]))

    def decode(self, batch: ProgramBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best output of each example: y, and h too if something was unknown in training."""
        require_hard_max(self, temperature)
        return self._predictions(batch, Query(w, "free"))

    def decode_augmented(self, batch: ProgramBatch, w: Vector) -> list[Prediction] | None:
        """Return the output of each example that maximizes s + Δ; None for relaxed ones, which may be fractional."""
        return None if self.relaxation == "lp" else self._predictions(batch, Query(w, "augmented"))

    def _predictions(self, batch: ProgramBatch, query: Query) -> list[Prediction]:
        parts, scores, counts, _ = self._answers(batch, query)
        values = split(counts, batch.offsets)
        if self.relaxation == "lp":
            self.n_fractional_ = self._make_integral(batch, values, split(scores, parts.offsets))
            counts = np.concatenate(values)
        heights = parts.sums(scores * counts)
        if query.augmented:
            heights += parts.sums(_differences(batch.truth, batch.weights, counts))
        outputs = [
            y.astype(np.int64) if x.constraints.integer.all() else y
            for x, y in zip(batch.programs, values, strict=True)
        ]
        return self._whole_predictions(outputs, heights.tolist())

    def _make_integral(self, batch: ProgramBatch, values: list[Vector], scores: list[Vector]) -> int:
        """Replace fractional outputs by the best integer ones, in place; return their number."""
        found = 0
        for k, (x, y) in enumerate(zip(batch.programs, values, strict=True)):
            whole = x.constraints.integer
            if (y[whole] != np.round(y[whole])).any():
                found += 1
                values[k] = HighsProgram(x.constraints, self._limits(relaxed=False)).maximize(scores[k]).x
        return found

    def complete(self, batch: ProgramBatch, w: Vector) -> list[NDArray[Any]]:
        """Return the best values of all variables of each example that agree with the known ones."""
        require_labels(batch, "clamped")
        return split(self._answers(batch, Query(w, "clamped"))[2], batch.offsets)

    def completion_planes(self, batch: ProgramBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of whole outputs, which must agree with known values, as planes."""
        require_latents(batch, latents)
        found = []
        for k, (x, h, y) in enumerate(zip(batch.programs, latents, split(batch.truth, batch.offsets), strict=True)):
            values = numbers_of(h, f"latents[{k}]")
            check_shape(values, y.shape, f"latents[{k}]", "one value per variable")
            for j in np.flatnonzero((values != y) & ~np.isnan(y))[:1]:
                got = Description(f"{values[j]:g} for {x.variable(j)}")
                raise InputError(f"latents[{k}]", got, f"the known value {y[j]:g}")
            c = x.constraints
            if (c.integer & (values != np.round(values))).any() and self.relaxation == "none":
                raise InputError(f"latents[{k}]", Description("fractions"), "integers for integer variables")
            violation = c.violation(values)
            if violation is not None or ((values < c.lower) | (values > c.upper)).any():
                shown = "a bound" if violation is None else x.constraint(violation.row)
                raise InputError(f"latents[{k}]", Description(f"values that violate {shown}"), "within the constraints")
            found.append(values)
        return latent_planes(self, self._slopes(batch, np.concatenate(found)))

    def random_latents(self, batch: ProgramBatch, rng: np.random.Generator) -> list[Vector]:
        """Return the outputs that agree with what is known and are best by random scores."""
        require_labels(batch, "clamped")
        sizes = np.diff(batch.offsets).tolist()
        return [self._maximize(batch, k, rng.normal(size=size), "clamped").x for k, size in enumerate(sizes)]

    def initial_latents(self, batch: ProgramBatch, rng: np.random.Generator, attempt: int) -> list[Vector]:
        """Return the completions by weights that tell known values above the lower bound from those at it.

        The weights are those of a ridge regression. Later attempts weight the examples at random.
        """
        require_labels(batch, "clamped")
        weights = rng.exponential(size=batch.n_examples) if attempt else np.ones(batch.n_examples)
        known = np.flatnonzero(~np.isnan(batch.truth))
        high = batch.truth[known] > np.concatenate([x.constraints.lower for x in batch.programs])[known]
        # Both kinds have the same total weight.
        share = np.repeat(weights, np.diff(batch.offsets))[known]
        for kind in (high, ~high):
            share[kind] /= max(share[kind].sum(), 1e-300)
        rows = batch.inputs.matrix[known]
        scaled = rows.multiply(share[:, None]).tocsr() if batch.inputs.dense is False else rows * share[:, None]
        normal = scaled.T @ rows
        normal = np.asarray(normal if batch.inputs.dense else normal.todense())
        ridge = 1e-3 * max(float(np.trace(normal)), 1e-300) / self.n_features
        w = linalg.solve(normal + ridge * np.eye(self.n_features), scaled.T @ np.where(high, 1.0, -1.0), assume_a="pos")
        return self.complete(batch, w)

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Σ_j c_j |y_j − ŷ_j| over the known variables of each example."""
        return np.array([float(_differences(*pair).sum()) for pair in self._pairs(Y_true, Y_pred)])

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the share of known variables with the right value."""
        pairs = self._pairs(Y_true, Y_pred)
        shares = np.ones(len(pairs)) if sample_weight is None else np.asarray(sample_weight)
        right = [share * np.sum(y == found) for share, (y, _, found) in zip(shares, pairs, strict=True)]
        known = [share * np.sum(~np.isnan(y)) for share, (y, _, _) in zip(shares, pairs, strict=True)]
        return float(np.sum(right) / max(np.sum(known), 1e-300))

    @staticmethod
    def _pairs(Y_true: Any, Y_pred: Any) -> list[tuple[Vector, Vector, Vector]]:
        """Return the values, weights and predicted values of each example."""
        check_examples(Y_pred, Y_true)
        found = []
        for k, (y, predicted) in enumerate(zip(Y_true, Y_pred, strict=True)):
            found_values = predicted.values if isinstance(predicted, ProgramOutput) else predicted
            values = numbers_of(found_values, f"Y_pred[{k}]")
            truth, weights = output_arrays(y, len(values), f"Y_true[{k}]")
            found.append((truth, weights, values))
        return found


def _differences(truth: Vector, weights: Vector, values: Vector) -> Vector:
    """Return the loss of each variable, 0 where the truth is unknown."""
    return np.where(np.isnan(truth), 0.0, weights * np.abs(truth - values))


def _scored(x: ProgramInput) -> NDArray[np.bool_]:
    """Return whether each variable has features other than 0."""
    return np.asarray(abs(check_matrix(x.features, "features")).sum(axis=1)).ravel() > 0


def _program(x: Any, name: str) -> ProgramInput:
    if not isinstance(x, ProgramInput):
        raise InputError(name, x, "a ProgramInput")
    return x


def _constraints(x: Any, k: int) -> Constraints:
    """Return the constraints of an example; errors name it."""
    try:
        return _program(x, f"X[{k}]").constraints
    except InputError as error:
        if error.parameter.startswith("X["):
            raise
        raise InputError(f"X[{k}].{error.parameter}", error.got, error.expected, error.hint) from error


def _unsolvable(x: ProgramInput, k: int, error: Unsolvable, clamped: bool) -> InputError:
    """Return the error of an example without a maximum."""
    if error.rows is None:
        return InputError(f"X[{k}]", Description("an unbounded program"), "bounded", "Set `lower` and `upper`.")
    rows = [x.constraint(row) for row in error.rows]
    shown = ", ".join(rows[:5]) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
    conflict = f": {shown} cannot hold{' together' if len(rows) > 1 else ''}" if rows else ""
    if clamped:
        got = Description(f"known values that no output has{conflict}")
        return InputError(f"Y[{k}]", got, "part of an output that satisfies all constraints")
    return InputError(f"X[{k}]", Description(f"constraints that no output satisfies{conflict}"), "feasible")


def _check_bounded(x: ProgramInput, c: Constraints, k: int) -> None:
    """Raise if a variable without bounds is not bounded by the constraints."""
    infinite = np.isinf(c.lower), np.isinf(c.upper)
    if not (infinite[0] | infinite[1]).any():
        return
    one = HighsProgram(c, Limits(relaxed=True))
    for sign, unbounded in zip((-1.0, 1.0), infinite, strict=True):
        for j in np.flatnonzero(unbounded).tolist():
            try:
                one.maximize(sign * np.eye(1, len(c.lower), j)[0])
            except Unsolvable as error:
                if error.rows is not None:
                    raise _unsolvable(x, k, error, clamped=False) from error
                got = Description(f"{x.variable(j)} without {'a lower' if sign < 0 else 'an upper'} bound")
                raise InputError(f"X[{k}]", got, "bounded", "Set `lower` and `upper`.") from error
