"""Input rows of any form as one matrix, and tasks that read something else in their place."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from latentstruct.ragged import Indices


@dataclass
class RowLayout:
    """All input rows of X as one matrix, and how values of them go back into the form of X.

    Attributes
    ----------
    matrix : ndarray or csr_array of shape (N, d)
        The rows.
    counts : ndarray of shape (n,) or None
        Rows of each example, where X has a matrix for each.
    """

    matrix: Any
    counts: Indices | None = None

    def rebuilt(self, values: NDArray[np.float64]) -> Any:
        """Return values (N, k) of the rows in the form of X."""
        if self.counts is None:
            return values
        if (self.counts == self.counts[0]).all():
            return values.reshape(len(self.counts), self.counts[0], -1)
        return np.split(values, np.cumsum(self.counts)[:-1])


def n_vectors(task: Any) -> int:
    """Return V: weight number f·V + v of a task that has learned belongs to input f and weight vector v."""
    return task.n_features // (task.n_inputs_ + task.biased_)


def with_inputs(task: Any, n_inputs: int, **params: Any) -> Any:
    """Return a task that knows what another one has learned, for another number of inputs."""
    other = clone(task).set_params(**params)
    other.restore({**task.state(), "n_inputs": n_inputs})
    return other
