"""Tasks with one weight per input feature, which learn the number of features only."""

from collections.abc import Iterable
from typing import Any

from latentstruct.core.validation import check_parameters
from latentstruct.tasks.base import BaseTask, check_examples
from latentstruct.tasks.inputs import check_matrix, require_width


def check_rows(x: Any, n_features: int, name: str) -> Any:
    """Return a matrix with this number of features, or raise an error that names `name`."""
    matrix = check_matrix(x, name)
    require_width(matrix, n_features, name)
    return matrix


class RowTask(BaseTask):
    """What tasks share whose examples are matrices, one row per item or pair of items."""

    def learn_blocks(self, blocks: Iterable[tuple[Any, Any]]) -> None:
        """Find the number of features of examples that come block by block."""
        outputs: list[Any] = []
        for number, (X, Y) in enumerate(blocks):
            check_examples(X, Y)
            if not number:
                self._set(check_matrix(X[0], "X[0]").shape[1])
            outputs += self._learn_outputs(Y)
        self._check_training(outputs)

    def _learn_outputs(self, Y: Any) -> list[Any]:
        """Return what is needed of the outputs to check them, one item per example."""
        return []

    def _check_training(self, outputs: list[Any]) -> None:
        """Raise if nothing can be learned from the outputs."""

    def _set(self, n_features: int) -> None:
        """Check the parameters and set the number of features."""
        check_parameters(self)
        self.n_features = n_features

    def state(self) -> dict[str, Any]:
        return {"n_features": self.n_features}

    def restore(self, state: dict[str, Any]) -> None:
        self._set(int(state["n_features"]))
