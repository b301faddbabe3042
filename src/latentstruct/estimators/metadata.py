"""Which metadata, such as sample weights, scikit-learn's pipelines and searches pass to an estimator."""

import inspect
from copy import deepcopy
from typing import Any, Self

from latentstruct.core.lazy import metadata_routing, sklearn
from latentstruct.core.parameters import Parametrized

DATA = ("self", "X", "y")
"""Arguments of methods that are not metadata."""


class MetadataRequests(Parametrized):
    """The part of estimators that takes part in the metadata routing of scikit-learn."""

    def get_metadata_routing(self) -> Any:
        """Return which metadata `fit` and `score` request."""
        if hasattr(self, "_metadata_request"):
            return metadata_routing.get_routing_for_object(self._metadata_request)
        requests = metadata_routing.MetadataRequest(owner=type(self).__name__)
        for method in ("fit", "score"):
            for name in self._metadata_of(method):
                getattr(requests, method).add_request(param=name, alias=None)
        return requests

    def set_fit_request(self, **requests: bool | str | None) -> Self:
        """Request metadata of `fit`, as ``sample_weight=True``; scikit-learn's metadata routing must be enabled."""
        return self._set_request("fit", requests)

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Request metadata of `score`, as ``sample_weight=True``; scikit-learn's metadata routing must be enabled."""
        return self._set_request("score", requests)

    def _metadata_of(self, method: str) -> list[str]:
        return [name for name in inspect.signature(getattr(type(self), method)).parameters if name not in DATA]

    def _set_request(self, method: str, requests: dict[str, bool | str | None]) -> Self:
        if not sklearn.get_config()["enable_metadata_routing"]:
            raise RuntimeError("metadata routing is not enabled: call sklearn.set_config(enable_metadata_routing=True)")
        unknown = requests.keys() - self._metadata_of(method)
        if unknown:
            raise TypeError(f"{method}() has no argument {min(unknown)}: it has {', '.join(self._metadata_of(method))}")
        found = self.get_metadata_routing()
        for name, alias in requests.items():
            getattr(found, method).add_request(param=name, alias=alias)
        self._metadata_request = found
        return self

    def __sklearn_clone__(self) -> Self:
        cloned = super().__sklearn_clone__()
        if hasattr(self, "_metadata_request"):
            cloned._metadata_request = deepcopy(self._metadata_request)
        return cloned
