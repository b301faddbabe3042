"""Latent states to begin training with: random ones, or clusters of the inputs."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning as NotConverged

from latentstruct.tasks.base import require_labels
from latentstruct.tasks.inputs import tamed
from latentstruct.tasks.states import StateBatch, StateTable


def random_states(table: StateTable | None, batch: StateBatch, rng: np.random.Generator) -> list[int]:
    """Return a random state for each example, of those that its class has weights for if some are lacking."""
    if table is None or table.complete:
        return rng.integers(0, batch.sizes).tolist()
    require_labels(batch, "clamped")
    assert batch.truth is not None
    choices = [table.choices(y) for y in range(len(table.vector_of))]
    numbers = rng.integers(0, np.array([len(choice) for choice in choices])[batch.truth])
    return [int(choices[y][k]) for y, k in zip(batch.truth, numbers, strict=True)]


def clustered_states(table: StateTable, batch: StateBatch, rng: np.random.Generator, attempt: int) -> list[int]:
    """Return the cluster of each example among those of its class, a state of that class.

    The first attempt keeps the best of ten clusterings; later ones take the first they find, for variety.
    """
    # Loading it takes longer than most predictions.
    from sklearn.cluster import KMeans

    require_labels(batch, "clamped")
    assert batch.truth is not None
    states = np.zeros(batch.n_examples, dtype=np.int64)
    for y in range(len(table.vector_of)):
        members = np.flatnonzero(batch.truth == y)
        seed = (int(rng.integers(2**31)) + attempt) % 2**31
        if len(members) == 0:
            continue
        choices = table.choices(y)
        n_clusters = min(len(choices), len(members))
        means = KMeans(n_clusters, n_init=10 if attempt == 0 else 1, random_state=seed)
        with warnings.catch_warnings():
            # Equal inputs may leave fewer clusters than asked for, which is no harm here.
            warnings.simplefilter("ignore", NotConverged)
            states[members] = choices[means.fit_predict(tamed(batch.inputs.matrix[members]))]
    return states.tolist()
