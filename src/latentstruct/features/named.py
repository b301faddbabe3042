"""Features whose names are learned from data."""

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.parameters import Transformer, check_is_fitted


class NamedFeatures(Transformer):
    """Base of features with one column per name; `vocabulary_` has the columns."""

    vocabulary_: dict[str, int]

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the features in the order of their columns."""
        check_is_fitted(self, "vocabulary_")
        return np.array(list(self.vocabulary_), dtype=object)

    @property
    def n_features_(self) -> int:
        """Number of features that `fit` has learned."""
        return len(self.vocabulary_)
