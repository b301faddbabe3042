"""What is known of the labels of chains, and the losses that follow from it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Indices
from latentstruct.core.unknown import UNKNOWN
from latentstruct.exceptions import Description, InputError
from latentstruct.torch.chain_pools import ChainProblem, Labels, Layout, Pool, SoftLabels, Table

SKIPPED = -100
"""Label of positions that are no tokens."""


@dataclass
class Truth:
    """What is known of the labels of tokens: one of three."""

    n_labels: int  # number of labels, S
    labels: Indices | None = None  # (N,) labels, −1 where unknown
    allowed: NDArray[np.bool_] | None = None  # (N, S) possible labels
    shares: Table | None = None  # (N, S) distributions

    def hidden(self) -> NDArray[np.bool_]:
        """Return which tokens are not known."""
        if self.labels is not None:
            return self.labels == UNKNOWN
        return np.zeros(0, dtype=bool) if self.allowed is None else self.allowed.sum(axis=1) != 1

    def sets(self) -> NDArray[np.bool_]:
        """Return the possible labels (N, S)."""
        if self.allowed is not None:
            return self.allowed
        assert self.labels is not None
        return (self.labels[:, None] == np.arange(self.n_labels)) | (self.labels == UNKNOWN)[:, None]

    def costs(self, table: Table) -> Table:
        """Return the costs (N, S) of labels from costs (true, predicted): the lowest one for a set, 0 if unknown."""
        if self.shares is not None:
            return self.shares @ table
        if self.labels is not None:
            return np.concatenate([table, np.zeros((1, len(table)))])[self.labels]
        assert self.allowed is not None
        lowest = np.full(self.allowed.shape, np.inf)
        for label, row in enumerate(table):
            chosen = self.allowed[:, label]
            lowest[chosen] = np.minimum(lowest[chosen], row)
        return lowest

    def problem(self, layout: Layout, temperature: Temperature, costs: Table | None = None) -> ChainProblem:
        """Return the pool of all labelings, with costs (true, predicted), minus the pool of those that agree."""
        hidden = self.hidden()
        known: Labels | SoftLabels | None = None
        if self.shares is not None:
            known = SoftLabels(self.shares)
        elif self.labels is not None and not hidden.any():
            known = Labels(self.labels)
        if not hidden.any():
            temperature = Temperature(temperature.output, temperature.output)
        pools = [Pool(temperature, added=None if costs is None else self.costs(costs))]
        if known is None:
            if temperature.output != temperature.latent:
                pools[0].known = np.where(hidden, UNKNOWN, 0)
            clamped = np.where(self.sets(), 0.0, -np.inf)
            pools.append(Pool(Temperature(temperature.latent, temperature.latent), -1.0, clamped))
        return ChainProblem(layout, pools, known)


def without_skipped(kept: NDArray[np.bool_] | None, given: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Return where there are tokens: where a mask and labels (B, T) have them."""
    if given.ndim != 2 or not (skipped := given == SKIPPED).any():
        return kept
    return ~skipped if kept is None else kept & ~skipped


def read_truth(given: NDArray[Any], layout: Layout, n: int, batch_first: bool = True) -> Truth:
    """Return what tags (B, T) or (B, T, S) say of the labels of tokens; raise InputError if they cannot be used.

    If they were not given with the `batch_first`, errors name their places as they were given.
    """
    if given.ndim == 2 and given.dtype.kind in "iu":
        labels = layout.gather(given).astype(np.int64)
        for k in np.flatnonzero((labels < UNKNOWN) | (labels >= n))[:1].tolist():
            place = divmod(k if layout.places is None else int(layout.places[k]), layout.shape[1])
            name = "tags[{}, {}]".format(*(place if batch_first else place[::-1]))
            raise InputError(name, int(labels[k]), f"a label from 0 to {n - 1}, −1 (unknown) or −100 (no token)")
        return Truth(n, labels=labels)
    if given.ndim == 3 and given.shape[2] == n and given.dtype.kind in "bf":
        values = layout.gather(given)
        if given.dtype.kind == "b":
            if not values.any(axis=1).all():
                raise InputError("tags", Description("a token without a possible label"), "true for at least one label")
            return Truth(n, allowed=values)
        shares = values.astype(np.float64)
        if not ((shares >= 0).all() and np.allclose(shares.sum(axis=1), 1.0, atol=1e-4)):
            raise InputError(
                "tags", Description("numbers that are negative or not 1 in sum"), "distributions of labels"
            )
        return Truth(n, shares=shares)
    got = Description(f"{given.dtype} of shape {given.shape}")
    raise InputError("tags", got, f"integers (B, T), booleans (B, T, {n}) or real numbers (B, T, {n})")
