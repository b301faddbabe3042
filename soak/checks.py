"""What must hold of every trained model, whatever ended its training."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from latentstruct import SelfPaced, load
from soak.problems import Options, Problem
from soak.trainings import Training

PRECISION = 1e-8
"""Relative error of sums that are taken in another order."""
DISTANCES = (1e-3, 1.0)
"""How far from the trained weights planes are compared with the function, relative to the weights."""
ALTERNATING = ("ModLat", "IterativeLSVM")


class BrokenInvariant(AssertionError):
    """Something that must hold does not."""


def require(holds: bool, message: str) -> None:
    """Raise unless a condition holds."""
    if not holds:
        raise BrokenInvariant(message)


def objective_of(problem: Problem, training: Training, model: Any) -> Any:
    """Return the objective that a model was trained on, made again."""
    batch = model.task_.prepare(problem.X, problem.Y)
    return model._objective(model.task_, batch, model._weights(batch.n_examples, training.sample_weight))


def points_near(w: Any, rng: np.random.Generator) -> list[Any]:
    """Return other weights: zero, and some near the trained ones and far from them."""
    size = 1.0 + float(np.abs(w).max(initial=0.0))
    return [np.zeros_like(w), *(w + distance * size * rng.normal(size=w.shape) for distance in DISTANCES)]


def goes_down(model: Any) -> bool:
    """Return whether the objective of each iteration is that of the best weights so far, of all examples."""
    some_examples = isinstance(getattr(model, "solver", None), SelfPaced)
    return not some_examples and type(model).__name__ not in (*ALTERNATING, "StructuredPerceptron")


def check_reached(model: Any) -> None:
    """Check what the model says of its training."""
    require(bool(np.isfinite(model.coef_).all()), "weights are not finite")
    require(math.isfinite(model.objective_), f"the objective is {model.objective_}")
    if model.certified_:
        allowance = PRECISION * max(abs(model.objective_), abs(model.lower_bound_)) + 1e-9
        require(model.gap_ >= -allowance, f"the gap is {model.gap_:g} at the objective {model.objective_:g}")
    require(
        len(model.history_) >= model.n_iter_,
        f"{len(model.history_)} iterations in the history, {model.n_iter_} counted",
    )
    for before, after in zip(model.history_, model.history_[1:], strict=False):
        require(after.oracle_calls >= before.oracle_calls, f"oracle calls fall at iteration {after.iteration}")
        same_start = after.start == before.start and not (before.estimate or after.estimate)
        allowance = PRECISION * abs(before.objective) + 1e-12
        if same_start and goes_down(model):
            require(
                after.objective <= before.objective + allowance,
                f"the objective rises from {before.objective!r} to {after.objective!r} at iteration {after.iteration}",
            )


def check_objective(problem: Problem, training: Training, model: Any, rng: np.random.Generator) -> None:
    """Check the objective against one made again, and the planes of its two sides at other weights."""
    objective = objective_of(problem, training, model)
    w = model.coef_
    plus, minus = objective.plus.total(w), objective.minus.total(w)
    parts = (objective.regularizer.value(w), plus(w), -minus(w))
    exact = plus.exact and minus.exact
    if exact:
        allowance = PRECISION * (sum(map(abs, parts)) + float(np.abs(plus.slope) @ np.abs(w))) + 1e-9
        require(
            abs(sum(parts) - model.objective_) <= allowance,
            f"objective_ is {model.objective_!r}, but that of coef_ is {sum(parts)!r}",
        )
    points = points_near(w, rng)
    for name, side in (("plus", objective.plus), ("minus", objective.minus)):
        check_planes(name, side, w, points)
    if model.certified_ and exact:
        for v in points:
            value = objective.value(v)
            allowance = PRECISION * (abs(value) + sum(map(abs, parts))) + 1e-9
            require(
                model.lower_bound_ <= value + allowance,
                f"the bound {model.lower_bound_!r} is above {value!r}, a value of w",
            )


def check_planes(name: str, side: Any, w: Any, points: list[Any]) -> None:
    """Check that the planes at w are tight there, and those that are exact below the function at other weights."""
    found = side.planes(w)
    sizes = np.abs(found.offsets) + abs(found.slopes()) @ np.abs(w)
    beyond = np.abs(found.offsets + found.dot(w) - found.values) - PRECISION * sizes - 1e-9
    i = int(np.argmax(beyond))
    require(beyond[i] <= 0, f"the {name} plane of example {i} is {beyond[i]:g} off its value {found.values[i]:g}")
    for k, v in enumerate(points):
        there = side.planes(v)
        heights = found.offsets + found.dot(v)
        allowance = PRECISION * (np.abs(found.offsets) + abs(found.slopes()) @ np.abs(v) + np.abs(there.values)) + 1e-9
        # An inexact result may be below a plane from elsewhere, and an inexact plane above the function.
        above = np.where(found.each_exact & there.each_exact, heights - there.values - allowance, -np.inf)
        i = int(np.argmax(above))
        require(
            above[i] <= 0,
            f"the {name} plane of example {i} has height {heights[i]!r} at point {k}, above {there.values[i]!r}",
        )


def check_predictions(problem: Problem, model: Any) -> Any:
    """Check losses and scores, and return the predictions."""
    predicted = model.predict(problem.X)
    require(len(predicted) == len(problem.Y), f"{len(predicted)} predictions for {len(problem.Y)} examples")
    score = model.score(problem.X, problem.Y)
    require(-1e-9 <= score <= 1 + 1e-9 or math.isnan(score), f"the score is {score!r}")
    if type(problem.task).__name__ != "Measure":
        losses = np.asarray(model.loss(problem.X, problem.Y), dtype=float)
        require(bool((losses >= 0).all()), f"a loss is {losses.min()!r}")
    return predicted


def check_saved(problem: Problem, model: Any, folder: Path) -> None:
    """Check that a saved model predicts what it did before."""
    model.save(folder / "model")
    again = load(folder / "model", **({"task": problem.task} if isinstance(problem.task, Options) else {}))
    require(bool(np.array_equal(model.coef_, again.coef_)), "weights change when a model is saved and loaded")
    require(
        same(model.predict(problem.X), again.predict(problem.X)),
        "predictions change when a model is saved and loaded",
    )


def same(first: Any, second: Any) -> bool:
    """Return whether two predictions are equal in every part."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        first, second = np.asarray(first), np.asarray(second)
        if first.dtype == object:
            return same(first.tolist(), second.tolist())
        return first.dtype == second.dtype and np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)
