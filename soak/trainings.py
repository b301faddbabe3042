"""Random estimators with random solvers and parameters for a problem."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from latentstruct import (
    CCCP,
    CRF,
    LBFGS,
    BlockAscent,
    Bundle,
    CuttingPlane,
    FrankWolfe,
    GroupNorm,
    HiddenCRF,
    IterativeLSVM,
    LatentSSVM,
    MarginalSSVM,
    MinEntropySSVM,
    ModLat,
    SelfPaced,
    StructuralSVM,
    StructuredEstimator,
    StructuredPerceptron,
    Subgradient,
)
from soak.problems import Problem

HINGE = (BlockAscent, Bundle, CuttingPlane, FrankWolfe, Subgradient, LBFGS)
HARD_ONLY = HINGE[:-1]
SMOOTH = (LBFGS, Subgradient)
ITERATIONS = 60
"""Most iterations of a training, so that a case takes seconds."""
COMPARES_LATENTS = ("Detection", "LatentMulticlass")


@dataclass(frozen=True)
class Training:
    """An estimator for a problem, and further arguments of its `fit`."""

    model: Any
    sample_weight: Any
    jobs: tuple[int, int]

    @property
    def estimator(self) -> str:
        """The name of the estimator."""
        return type(self.model).__name__

    @property
    def solver(self) -> str:
        """The name of the solver, and of the one inside."""
        solver = getattr(self.model, "solver", None)
        if solver is None or isinstance(solver, str):
            return str(solver)
        inner = getattr(solver, "inner", None)
        return type(solver).__name__ + ("" if inner is None else f"({type(inner).__name__})")

    def new(self, n_jobs: int, **changed: Any) -> Any:
        """Return an unfitted model."""
        return clone(self.model).set_params(n_jobs=n_jobs, **changed)


def convex_solver(rng: np.random.Generator, kinds: tuple[Any, ...]) -> Any:
    """Return a solver of convex objectives with some of its parameters changed."""
    kind = kinds[rng.integers(len(kinds))]
    if kind is Bundle:
        return Bundle(cached_planes=int(rng.choice([0, 3])), max_planes=int(rng.choice([5, 200])))
    if kind is FrankWolfe:
        return FrankWolfe(step=str(rng.choice(["pairwise", "away", "plain"])), gap_sampling=bool(rng.random() < 0.3))
    if kind is BlockAscent:
        return BlockAscent(steps=int(rng.integers(1, 9)), max_planes=int(rng.choice([3, 50])))
    if kind is Subgradient:
        return Subgradient(batch_size=None if rng.random() < 0.5 else int(rng.integers(1, 5)))
    return kind()


def latent_solver(rng: np.random.Generator, kinds: tuple[Any, ...]) -> Any:
    """Return a solver of objectives with latent variables."""
    # Without a limit some of them crawl on features of large scale.
    inner = None if rng.random() < 0.4 else convex_solver(rng, kinds).set_params(max_iter=ITERATIONS)
    found = CCCP(inner, keep_planes=bool(rng.random() < 0.8), max_iter=20)
    return SelfPaced(found, max_iter=20) if rng.random() < 0.3 else found


def temperature_of(rng: np.random.Generator) -> float:
    """Return a temperature, often 0 or 1."""
    return float(rng.choice([0.0, 1.0, 0.1, 10.0], p=[0.4, 0.3, 0.2, 0.1]))


def latent_estimators(problem: Problem) -> list[Any]:
    """Return the estimators for a task with latent variables."""
    found: list[Any] = [LatentSSVM, LatentSSVM]
    if problem.soft:
        found += [MarginalSSVM, HiddenCRF, StructuredEstimator]
        found += [MinEntropySSVM] * problem.task.tags.renyi
    compares = problem.name in COMPARES_LATENTS and problem.task.latent_loss is not None
    return found + [ModLat, IterativeLSVM] * compares


def plain_estimators(problem: Problem) -> list[Any]:
    """Return the estimators for a task without latent variables."""
    return [StructuralSVM, StructuralSVM, StructuredPerceptron] + [CRF, StructuredEstimator] * problem.soft


def draw_training(rng: np.random.Generator, problem: Problem) -> Training:
    """Draw an estimator, its solver and parameters, weights of the examples and numbers of threads."""
    kinds = latent_estimators(problem) if problem.latent else plain_estimators(problem)
    kind = kinds[rng.integers(len(kinds))]
    settings: dict[str, Any] = {"max_iter": int(rng.integers(3, ITERATIONS))}
    if kind is not StructuredPerceptron:
        settings |= {"C": float(10.0 ** rng.uniform(-3, 2)), "tol": float(rng.choice([1e-1, 1e-2, 1e-3]))}
    if kind is StructuredEstimator:
        latent = temperature_of(rng) if problem.latent else 0.0
        settings |= {"temperature": (temperature_of(rng), latent), "margin": bool(rng.random() < 0.7)}
    if problem.latent:
        settings |= {"restarts": int(rng.choice([1, 1, 2])), "init": str(rng.choice(["task", "task", "random"]))}
    if kind not in (StructuredPerceptron, MinEntropySSVM, ModLat, IterativeLSVM) and rng.random() < 0.6:
        softly = kind in (CRF, HiddenCRF) or (kind is StructuredEstimator and settings["temperature"][0] > 0)
        choose = latent_solver if problem.latent else convex_solver
        settings["solver"] = choose(rng, SMOOTH if softly else HINGE if problem.soft else HARD_ONLY)
    if kind is LatentSSVM and "solver" not in settings and rng.random() < 0.1:
        settings["regularizer"] = GroupNorm("states") if problem.name == "LatentMulticlass" else None
    weights = None
    if problem.name != "Measure" and rng.random() < 0.3:
        weights = rng.uniform(0.1, 2.0, len(problem.Y)) * (rng.random(len(problem.Y)) < 0.8)
        weights[0] = 1.0
    jobs = tuple(int(count) for count in rng.choice([1, 2], 2))
    return Training(kind(problem.task, **settings), weights, (jobs[0], jobs[1]))
