"""A term that holds the expected share of entity tokens near a given one, for text where only entities are labeled."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.core.oracles import BaseOracle, TaskOracle
from latentstruct.core.parameters import Parametrized
from latentstruct.core.protocols import Batch, Temperature
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import check_parameters, real
from latentstruct.exceptions import InputError
from latentstruct.planes.plane import Plane


@runtime_checkable
class CountedLabels(Protocol):
    """Further interface of tasks whose tokens with certain labels can be counted."""

    def expected_count(
        self, batch: Batch, w: Vector, temperature: Temperature, labels: Sequence[Any], weights: Vector
    ) -> tuple[float, float, Vector]:
        """Return Σ_i c_i times the expected number of tokens with other labels, its gradient after Σ_i c_i T_i."""


class EntityRatio(Parametrized):
    """Expected share of tokens that are entities, for `HiddenCRF` on text where only entities are labeled.

    If no token has the label "O", the model cannot learn it: labelings without O explain the entities as well. This
    term of the objective keeps the expected share ρ̂(w) of tokens in entities near a given one. For N tokens, weighted
    as examples are, it is strength · N · max(0, abs(ρ̂(w) − ratio) − margin)².

    Parameters
    ----------
    ratio : float
        Share of tokens in entities, for instance 0.15; counted in a few sentences, or known from other text.
    margin : float, default=0.05
        Deviation from it that costs nothing.
    strength : float, default=100.0
        Weight of larger deviations.
    outside : hashable, default="O"
        The label of tokens outside of entities. It has to be declared in `labels` of the task if it never occurs.

    Notes
    -----
    Effland & Collins (2021) penalize the deviation itself, 10 · max(0, abs(ρ̂ − ratio) − margin) per token. The square
    is used here because L-BFGS needs a smooth objective. The objective is not convex, and has no lower bound.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import Chain, EntityRatio, HiddenCRF
    >>> rng = np.random.default_rng(0)
    >>> truth = [rng.choice(["O", "B"], 10, p=[0.7, 0.3]) for _ in range(40)]
    >>> X = [np.column_stack([y == "B", np.ones(10)]) + 0.3 * rng.normal(size=(10, 2)) for y in truth]
    >>> Y = [[label if label == "B" and rng.random() < 0.7 else -1 for label in y] for y in truth]  # no O is known
    >>> model = HiddenCRF(Chain(labels=["O", "B"]), entity_ratio=EntityRatio(0.3)).fit(X, Y)
    >>> model.score(X, [y.tolist() for y in truth]) > 0.9
    True
    """

    constraints: ClassVar = {
        "ratio": real(0.0, 1.0, closed="neither"),
        "margin": real(0.0, closed="left"),
        "strength": real(0.0),
    }

    def __init__(self, ratio: float, margin: float = 0.05, strength: float = 100.0, outside: Any = "O") -> None:
        self.ratio, self.margin, self.strength, self.outside = ratio, margin, strength, outside

    def added_to(self, objective: Objective) -> Objective:
        """Return an objective with this term."""
        check_parameters(self)
        plus = objective.plus
        if not isinstance(plus, TaskOracle) or not isinstance(plus.task, CountedLabels):
            expected = "None for examples in shards, and for structures other than Chain"
            raise InputError("entity_ratio", self, expected)
        return replace(objective, plus=RatioOracle(plus, self))


@dataclass
class RatioOracle(BaseOracle):
    """A side of an objective with the term of an `EntityRatio`: sums only, which support no convex function."""

    side: TaskOracle
    ratio: EntityRatio
    weights: Vector = field(init=False)
    supporting = separable = False

    def __post_init__(self) -> None:
        self.weights, self.tally = self.side.weights, self.side.tally
        self.n_examples, self.n_features = self.side.n_examples, self.side.n_features
        self.smooth, self.batch = self.side.smooth, self.side.batch

    def total(self, w: Vector) -> Plane:
        """Return the tangent of side and term at w."""
        found, ratio, side = self.side.total(w), self.ratio, self.side
        task = side.task
        assert isinstance(task, CountedLabels)
        count, n_tokens, gradient = task.expected_count(side.batch, w, side.temperature, [ratio.outside], side.weights)
        if not n_tokens:
            return found
        deviation = count / n_tokens - ratio.ratio
        excess = max(0.0, abs(deviation) - ratio.margin)
        slope = 2.0 * ratio.strength * excess * float(np.sign(deviation)) * gradient
        value = ratio.strength * n_tokens * excess**2
        return Plane(found.slope + slope, found.offset + value - float(slope @ w), found.entropy, below=False)

    def reweighted(self, weights: Vector) -> "RatioOracle":
        return replace(self, side=self.side.reweighted(weights))

    def divided(self, n_jobs: int, chunk_bounds: Indices | None = None) -> "RatioOracle":
        return replace(self, side=self.side.divided(n_jobs, chunk_bounds))
