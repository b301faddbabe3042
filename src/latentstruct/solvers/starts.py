"""Initialization of training with latent variables: initial latents, their planes, and weights derived from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from latentstruct.core.objective import Objective, build_objective
from latentstruct.core.oracles import BaseOracle
from latentstruct.core.protocols import Batch, LatentTask, Temperature
from latentstruct.core.types import Vector
from latentstruct.exceptions import InputError
from latentstruct.planes.plane import Plane, Planes, checked_planes
from latentstruct.solvers.lbfgs import LBFGS
from latentstruct.tasks.base import require_one_latent_each

INITS = ("task", "random", "marginal")
# Precision and iterations of the soft problem whose weights complete the latents, and of that of the first shard.
MARGINAL_TOL, MARGINAL_ITERATIONS = 0.1, 50
SAMPLE_TOL = 0.1


@dataclass
class LatentStarts:
    """Initial latents of each start."""

    # A task that has learned its data, and examples with their outputs.
    task: LatentTask
    batch: Batch
    init: str = "task"  # by the rule of the task, at random, or by weights that were trained with latents summed out
    H: Any = None  # latents of the first start
    seed: int | None = 0  # seed of the latents; None for different ones in each call
    weights: Vector | None = None  # (n,) c_i, needed for "marginal"

    def __post_init__(self) -> None:
        if self.H is not None:
            require_one_latent_each(self.batch, self.H)

    def latents(self, attempt: int) -> Sequence[Any]:
        """Return the initial latents of a start."""
        if attempt == 0 and self.H is not None:
            return self.H
        rng = np.random.default_rng(None if self.seed is None else [self.seed, attempt])
        if self.init == "random":
            return self.task.random_latents(self.batch, rng)
        found = self.task.initial_latents(self.batch, rng, attempt)
        return found if self.init == "task" else self.task.complete(self.batch, self._marginal_weights(found))

    def planes(self, attempt: int) -> Planes:
        """Return the planes of the initial latents of a start."""
        return self.given if attempt == 0 and self.H is not None else self.complete(self.latents(attempt))

    @cached_property
    def given(self) -> Planes:
        """The planes of H."""
        return self.complete(self.H)

    def complete(self, latents: Sequence[Any]) -> Planes:
        """Return the planes of latents."""
        found = self.task.completion_planes(self.batch, latents)
        return checked_planes(found, self.task, "completion_planes", self.batch.n_examples)

    def _marginal_weights(self, latents: Sequence[Any]) -> Vector:
        """Return weights trained loosely with outputs and latents summed out at temperature 1.

        The descent begins with a step derived from given latents: at w = 0 latents with equal scores would stay equal.
        """
        assert self.weights is not None
        try:
            soft = build_objective(self.task, self.batch, self.weights, Temperature(1.0, 1.0))
            soft.minus.total(np.zeros(self.task.n_features))
        except InputError as error:
            expected = f"'task' or 'random' for {type(self.task).__name__}, which has no soft inference"
            raise InputError("init", self.init, expected) from error
        soft.starts = GivenPlanes(self.complete(latents))
        return LBFGS(MARGINAL_TOL, MARGINAL_ITERATIONS).minimize(soft).w


@dataclass
class GivenPlanes:
    """The same initial planes for each start."""

    given: Planes | Plane

    def planes(self, attempt: int) -> Planes | Plane:
        """Return the planes."""
        return self.given


@dataclass
class OneStart:
    """One of several starts as the only one."""

    starts: Any
    number: int

    def planes(self, attempt: int) -> Planes | Plane:
        """Return the planes of this start."""
        return self.starts.planes(self.number)


@dataclass
class SummedStarts:
    """Initial latents of examples in shards that are also available in this process: the sum of their planes."""

    starts: LatentStarts
    side: BaseOracle

    def planes(self, attempt: int) -> Plane:
        """Return the sum of the planes of the initial latents of a start."""
        known = attempt == 0 and self.starts.H is not None
        return self.given if known else self.side.latents_total(self.starts.latents(attempt))

    @cached_property
    def given(self) -> Plane:
        """The sum of the planes of H."""
        return self.side.latents_total(self.starts.H)


@dataclass
class SampledStarts:
    """Initial planes of examples in shards that no process holds together.

    The rule is applied to the first shard only: its problem is solved loosely, and its weights complete all
    shards.
    """

    objective: Objective  # objective of all shards
    first: Callable[[], Objective]  # objective of the first shard, with its own starts

    def planes(self, attempt: int) -> Plane:
        """Return the sum of the planes of the initial latents of a start."""
        # Imported here, because the module of all solvers imports those that use starts.
        from latentstruct.solvers.selection import choose_solver

        sample = self.first()
        assert sample.starts is not None
        guessed = sample.linearized_with(sample.starts.planes(attempt))
        found = choose_solver(guessed).set_params(tol=SAMPLE_TOL).minimize(guessed)
        return self.objective.minus.total(found.w)
