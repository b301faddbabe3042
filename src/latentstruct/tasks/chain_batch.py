"""Sequences of tokens laid end to end, and some of them with their scores."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from latentstruct.ragged import Indices
from latentstruct.tasks.inputs import InputRows
from latentstruct.unknown import UNKNOWN


@dataclass
class ChainBatch:
    """All tokens of all sequences, flat: inputs (N, d), offsets (n + 1,), label numbers (N,), −1 where unknown."""

    inputs: InputRows
    offsets: Indices
    truth: NDArray[np.int64] | None

    @cached_property
    def tables(self) -> list[NDArray[np.float64]]:
        """Three tables (N, S) that every sum over sequences overwrites: new memory costs as much as the work on it."""
        return [np.empty((self.inputs.shape[0], self.inputs.n_labels)) for _ in range(3)]

    @property
    def n_examples(self) -> int:
        """Number of sequences."""
        return len(self.offsets) - 1

    @property
    def cards(self) -> int:
        """Number of labels that a token may have."""
        return self.inputs.n_labels

    @property
    def labelled(self) -> bool:
        """Whether true labels are given."""
        return self.truth is not None

    @property
    def known(self) -> NDArray[np.int64]:
        """The true labels of a labeled batch."""
        assert self.truth is not None
        return self.truth

    @cached_property
    def half_labelled(self) -> bool:
        """Whether some of the true labels are unknown."""
        return self.truth is not None and bool((self.truth == UNKNOWN).any())


@dataclass
class Selection:
    """Some sequences of a batch with their scores, compact: what the kernels work on.

    `tokens` are their positions in the batch, None for all. `room` are two more tables (N, S) to work in, if there are.
    """

    rows: Indices
    tokens: Indices | None
    offsets: Indices
    truth: NDArray[np.int64] | None
    scores: NDArray[np.float64]
    room: list[NDArray[np.float64]] | None
