"""One case: a problem, a training and a fault, all drawn from one seed, and the checks of what comes out."""

import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from latentstruct import FormatError, InputError
from latentstruct.testing import check_task
from soak.checks import ALTERNATING, check_objective, check_predictions, check_reached, check_saved
from soak.faults import FAULTS
from soak.problems import Problem, draw_problem
from soak.trainings import Training, draw_training

CHECKED_EXAMPLES, CHECKED_FEATURES = 6, 400
"""Most examples and weights of a task whose whole contract is checked."""
CHECKED_SHARE = 0.25
WITHOUT_CONTRACT = ("Measure", "DiverseSubset", "PairwiseRanking")
"""`check_task` is not for them: the whole set is one example, true outputs have a loss, or nothing is free of Y."""
MISTAKES = ("not maxima",)
"""What messages of `InputError` say that blame the library, not the data."""


class Refused(Exception):
    """The library did not want the data or settings of a case, and said so."""


@dataclass
class Outcome:
    """What became of a case."""

    seed: int
    names: dict[str, str]
    description: str
    end: str
    """"passed", "refused" or "failed"."""
    message: str = ""
    details: str = field(default="", repr=False)


def describe(problem: Problem, training: Training, fault: str) -> str:
    """Return a line from which a person can make the case again."""
    weights = "" if training.sample_weight is None else ", with sample weights"
    data = f"{len(problem.Y)} examples ({', '.join(problem.twists) or 'ordinary'}{weights})"
    return f"{training.model!r} on {data}, {training.jobs} threads, fault: {fault}"


def draw_case(seed: int) -> tuple[np.random.Generator, Problem, Training, Outcome]:
    """Return what a seed stands for, as a case that has passed so far."""
    rng = np.random.default_rng(seed)
    problem = draw_problem(rng)
    training = draw_training(rng, problem)
    fault = list(FAULTS)[rng.integers(len(FAULTS))]
    names = {"task": problem.name, "estimator": training.estimator, "solver": training.solver, "fault": fault}
    return rng, problem, training, Outcome(seed, names, describe(problem, training, fault), "passed")


def run_case(seed: int) -> Outcome:
    """Run the case of a seed."""
    rng, problem, training, outcome = draw_case(seed)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _run(rng, problem, training, outcome.names["fault"], Path(folder))
    except Refused as error:
        outcome.end, outcome.message, outcome.details = "refused", str(error), traceback.format_exc()
    except Exception as error:
        outcome.end, outcome.message = "failed", f"{type(error).__name__}: {error}"
        outcome.details = traceback.format_exc()
    return outcome


def _run(rng: np.random.Generator, problem: Problem, training: Training, fault: str, folder: Path) -> None:
    try:
        model = _trained(rng, problem, training, fault, folder)
    except InputError as error:
        # Files that the library wrote itself, and answers that are no maxima, are its own mistakes.
        if isinstance(error, FormatError) or any(words in str(error) for words in MISTAKES):
            raise
        raise Refused(str(error)) from error
    check_reached(model)
    if training.estimator not in ALTERNATING:
        check_objective(problem, training, model, rng)
    check_predictions(problem, model)
    check_saved(problem, model, folder)


def _trained(rng: np.random.Generator, problem: Problem, training: Training, fault: str, folder: Path) -> Any:
    """Check the task, in some of the cases, and train the model."""
    # Finite differences need features of ordinary size, and propagation goes on from its last messages.
    unfit = any("scale" in twist or twist == "approximate" for twist in problem.twists)
    fitting = problem.name not in WITHOUT_CONTRACT and not unfit
    if rng.random() < CHECKED_SHARE and fitting:
        X, Y = problem.first(CHECKED_EXAMPLES)
        learned = training.new(1).task
        learned.learn(X, Y)
        if learned.n_features <= CHECKED_FEATURES:
            check_task(problem.task, X, Y, seed=int(rng.integers(100)))
    return FAULTS[fault](rng, problem, training, folder)
