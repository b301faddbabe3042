"""Features whose names are learned from data, or hashed."""

from abc import abstractmethod
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import sparse
from latentstruct.core.parameters import Transformer, check_is_fitted
from latentstruct.core.validation import integer
from latentstruct.exceptions import InputError
from latentstruct.persistence.saved_features import SavedFeatures

HASHED = integer(1, 2**31 - 1) | None
"""Values of the parameter `hashed`."""


class NamedFeatures(SavedFeatures, Transformer):
    """Base of features with one column per name; `vocabulary_` has the columns, unless names are hashed."""

    vocabulary_: dict[str, int]
    hashed: int | None
    min_count: int

    @abstractmethod
    def fit(self, sentences: Any, y: object = None) -> Self:
        """Learn the features that occur in the sentences.

        Parameters
        ----------
        sentences : iterable of sequences of tokens
            The sentences; for tokens see the class.
        y : object
            Not used.

        Returns
        -------
        features
            The object itself.
        """

    @abstractmethod
    def extended(self, sentences: Any) -> Self:
        """Return features that also know those of further sentences, after the own ones.

        Parameters
        ----------
        sentences : iterable of sequences of tokens
            The sentences.

        Returns
        -------
        features
            New features; the first columns of what they return are those of the old ones.
        """

    @abstractmethod
    def transform(self, sentences: Any) -> "list[sparse.csr_array]":
        """Return the features of each sentence; features that `fit` did not see are ignored.

        Parameters
        ----------
        sentences : iterable of sequences of tokens
            The sentences.

        Returns
        -------
        list of csr_array of shape (n_tokens, n_features)
            The features of the tokens of each sentence.
        """

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the features in the order of their columns."""
        check_is_fitted(self, "vocabulary_")
        names = list(self.vocabulary_) if self.hashed is None else [f"hashed[{k}]" for k in range(self.n_features_)]
        return np.array(names, dtype=object)

    @property
    def n_features_(self) -> int:
        """Number of features that `fit` has learned."""
        return self._n_names if self.hashed is None else int(self.hashed)

    @property
    def _n_names(self) -> int:
        """Number of names that are kept."""
        return len(self.vocabulary_)

    def _check_hashed(self) -> None:
        """Raise if names are hashed and others are to be dropped, as they are not counted."""
        if self.hashed is not None and self.min_count > 1:
            raise InputError("min_count", self.min_count, "1 with `hashed`")


def hashed_column(name: str, n_columns: int) -> int:
    """Return the column of a name, which is the same in every process."""
    return crc32(name.encode()) % n_columns
