"""Answers of structures whose outputs are the derivations of forests: the best outputs, and random ones."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Prediction, Temperature
from latentstruct.core.types import Vector
from latentstruct.inference.forests import Forests


class Derivable(NamedTuple):
    """All outputs of some consecutive examples as derivations."""

    forests: Forests  # one per example
    scores: Vector  # (E,) scores of their edges
    # Returns one output per example, given 1 for each edge (E,) that they use and 0 for others.
    outputs: Callable[[NDArray[np.uint8]], list[Any]]


class DerivedAnswers(ABC):
    """`topk` and `sample` of tasks that define `derivations`."""

    _ranked_predictions: Callable[..., list[list[Prediction]]]

    @abstractmethod
    def derivations(self, batch: Any, w: Vector) -> Iterable[Derivable]:
        """Return all outputs of the examples of a batch, in their order; if it is labeled, those that agree with it."""

    def topk(self, batch: Any, w: Vector, k: int) -> list[list[Prediction]]:
        """Return the k best outputs of each example, the best first; fewer if there are not as many."""
        found: list[list[Prediction]] = []
        for some in self.derivations(batch, w):
            values, used = some.forests.best(some.scores, k)
            found += self._ranked_predictions(zip(*map(some.outputs, used), strict=True), values.T)
        return found

    def sample(
        self, batch: Any, w: Vector, temperature: Temperature, n_samples: int, rng: np.random.Generator
    ) -> list[list[Any]]:
        """Return outputs of each example, drawn independently from P(y | x)."""
        drawn: list[list[Any]] = []
        for some in self.derivations(batch, w):
            seed = int(rng.integers(2**62))
            used = some.forests.sample(some.scores, temperature.output, n_samples, seed)
            drawn += map(list, zip(*map(some.outputs, used), strict=True))
        return drawn
