"""Structures whose outputs are the derivations of forests: trees, alignments and narrow graphs."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.derivations import covariances
from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices, Vector, sums_by
from latentstruct.exceptions import InputError
from latentstruct.inference.forests import Forests
from latentstruct.torch.parts import PartSums


class ForestStructure:
    """Outputs as derivations of one forest per example, whose edges (E,) are sums of parts (P,).

    Edge edges[k] has the part parts[k], k from 0 to K − 1, and `owners` (P,) are the examples of parts. Edges have
    `losses`, and may agree with what is known.
    """

    def __init__(
        self,
        forests: Forests,
        edges: Indices,
        parts: Indices,
        owners: Indices,
        losses: Vector,
        agreeing: NDArray[np.bool_],
    ) -> None:
        self.forests, self.edges, self.parts, self.owners = forests, edges, parts, owners
        self.losses, self.agreeing = losses, agreeing
        self.n_examples, self.n_edges = len(forests.items_at) - 1, len(forests.losses)

    @cached_property
    def closed(self) -> Vector:
        """−inf for edges that do not agree with what is known."""
        return np.where(self.agreeing, 0.0, -np.inf)

    def edge_sums(self, values: Vector) -> Vector:
        """Return the sum of each edge's parts, (E,)."""
        return sums_by(self.edges, values[self.parts], self.n_edges)

    def part_sums(self, values: Vector) -> Vector:
        """Return the sum over the edges of each part, (P,)."""
        return sums_by(self.parts, values[self.edges], len(self.owners))

    def _scores(self, scores: Vector, margin: float, known: bool) -> Vector:
        found = self.edge_sums(scores)
        if known:
            found += self.closed
        elif margin > 0:
            found += margin * self.losses
        return found

    def pool(self, scores: Vector, temperature: Temperature, margin: float, known: bool) -> PartSums:
        """See `PartStructure`."""
        values, counts = self.forests.pool(self._scores(scores, margin, known), self._single(temperature))
        return PartSums(values, self.part_sums(counts))

    def curve(
        self, scores: Vector, temperature: Temperature, margin: float, known: bool, weights: Vector, direction: Vector
    ) -> Vector:
        """See `PartStructure`."""
        epsilon, out = self._single(temperature), np.zeros(self.n_edges)
        if epsilon == 0:
            raise NotImplementedError("Second derivatives need a temperature above 0.")
        edge_scores = self._scores(scores, margin, known)
        covariances(self.forests, edge_scores, epsilon, weights, self.edge_sums(direction), out)
        return self.part_sums(out)

    def best(self, scores: Vector, k: int) -> tuple[Vector, NDArray[np.uint8]]:
        """Return the scores (k, n) of the k best outputs, −inf where there are fewer, and their edges (k, E)."""
        return self.forests.best(self._scores(scores, 0.0, False), k)

    def sample(self, scores: Vector, n: int, seed: int) -> NDArray[np.uint8]:
        """Return the edges (n, E) of independent outputs."""
        return self.forests.sample(self._scores(scores, 0.0, False), 1.0, n, seed)

    def _single(self, temperature: Temperature) -> float:
        if temperature.output != temperature.latent:
            got = tuple(temperature)
            raise InputError("temperature", got, f"the same for outputs and latents of {type(self).__name__}")
        return temperature.output
