"""What all tasks share."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from latentstruct.checks import check_sparse, check_unmasked, is_ordered
from latentstruct.core.pooling import planes_of, require_hard_max, require_labels, total_of
from latentstruct.core.protocols import Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.exceptions import InputError
from latentstruct.planes import Plane, Planes
from latentstruct.ragged import Indices, Vector
from latentstruct.short_repr import show

__all__ = [
    "BaseTask",
    "by_rows",
    "check_examples",
    "require_hard_max",
    "require_labels",
    "require_methods",
    "require_one_latent_each",
]


def check_examples(X: Any, Y: Any, rows: bool = False) -> None:
    """Raise unless X is a non-empty collection and Y, if given, has as many items.

    A sparse matrix is a collection only where its `rows` are the examples.
    """
    if not (is_ordered(X) or (rows and issparse(X))):
        raise InputError(
            f"X must be a collection of examples, found {type(X).__name__}: give a list or an array of them"
        )
    if issparse(X):
        check_sparse(X, "X")
    check_unmasked(X, "X")
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if n == 0:
        raise InputError("X is empty: at least one example is needed; give some")
    if Y is None:
        return
    if not is_ordered(Y) or isinstance(Y, str):
        raise InputError(
            f"Y must be a collection of outputs, found {type(Y).__name__}: give a list or an array with one for each "
            "example"
        )
    check_unmasked(Y, "Y")
    if n != len(Y):
        raise InputError(f"X has {n} examples but Y has {len(Y)} outputs: give one output for each example")


def by_rows(X: Any) -> Any:
    """Return a collection of examples; the rows of a sparse matrix in a format in which they can be taken."""
    return X.tocsr() if issparse(X) else X


def require_methods(task: Any, kind: type, *names: str) -> None:
    """Raise TypeError for the first of the named methods of `kind` that its subclass does not define."""
    for name in names:
        if getattr(type(task), name) is getattr(kind, name):
            raise TypeError(f"{type(task).__name__} does not define {name}(), which every {kind.__name__} needs")


def require_one_latent_each(batch: Any, latents: Sequence[Any]) -> None:
    """Raise unless there is one latent for each example."""
    if not is_ordered(latents):
        raise InputError(
            f"latents must be a collection with one for each example, found {show(latents)}: give a list of them"
        )
    check_unmasked(latents, "latents")
    if len(latents) != batch.n_examples:
        raise InputError(
            f"{len(latents)} latents are given; expected {batch.n_examples}, one for each example: give as many"
        )


class BaseTask(BaseEstimator):
    """Defaults for tasks; parameters are kept as given, what `learn` finds ends in an underscore."""

    tags: ClassVar[TaskTags] = TaskTags()
    """What tasks of this class can do."""
    latent: bool = False
    classifies: bool = False
    """Whether an output is one label an example, so that scikit-learn may treat estimators as classifiers."""
    binary: bool = False
    """Whether there are two classes only."""
    whole_set: bool = False
    """Whether all rows together are one example, so that they have no weights of their own."""
    decodes_in_threads: bool = False
    """Whether preparing and decoding spend their time outside the interpreter's lock."""
    late_parameters: tuple[str, ...] = ()
    """Parameters that prepared batches do not depend on, so that they may be chosen later."""
    n_features: int

    @property
    def judges_scores(self) -> bool:
        """Whether losses and scores are taken from `scores` instead of predictions, as for rankings."""
        return False

    def work(self, batch: Any, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each example takes, shape (n,).

        By this alone a batch is divided among threads. 0, as here, are examples that threads cannot share because they
        take the interpreter's lock, as Python functions do. A task that says more takes `rows` in `total`, and writes
        to nothing that belongs to the whole batch.
        """
        return np.zeros(batch.n_examples)

    def chunked(self, batch: Any, mode: Mode, temperature: Temperature) -> bool:
        """Return whether `pool_batch` splits its work by `Query.chunks`.

        If not, as here, threads call it with some of the examples each.
        """
        return False

    def overhead(self, batch: Any) -> float:
        """Return about how many nanoseconds `planes` and `total` take however few examples are asked."""
        return 0.0

    def pool_batch(self, batch: Any, query: Query) -> Pooled:
        """Pool the outputs and latents of the examples of a query."""
        raise TypeError(f"{type(self).__name__} does not define pool_batch()")

    def slack(self, batch: Any, query: Query) -> Pooled | None:
        """Return the features and losses of the outputs that maximize Δ·(1 + s − s_i), or None.

        None, as here, means that they are searched among the answers of `pool_batch` for scaled losses.
        """
        return None

    def planes(
        self, batch: Any, w: Vector, mode: Mode, temperature: Temperature, rows: Indices | None = None
    ) -> Planes:
        """Return one supporting plane per example, by default of all."""
        return planes_of(self, batch, Query(w, mode, temperature, rows))

    def total(
        self,
        batch: Any,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        weights: Vector,
        rows: Indices | None = None,
    ) -> Plane:
        """Return the weighted sum of the planes of some examples, by default of all; `weights` are theirs."""
        if type(self).planes is not BaseTask.planes:
            return self.planes(batch, w, mode, temperature, rows).total(weights)
        return total_of(self, batch, Query(w, mode, temperature, rows, weights))

    def plane_losses(self, batch: Any) -> Any:
        """Return the losses that planes found with other losses have now; None, as here, if they are not known."""
        return None

    def decode_augmented(self, batch: Any, w: Vector) -> Sequence[Prediction] | None:
        """Return the outputs, and latents, that maximize s + Δ, with this value as score.

        None, as here, means that they are not decoded: then `check_task` cannot compare their losses with `loss`. If
        the task has latents, `loss` takes those of the predictions as its third argument.
        """
        return None

    def random_latents(self, batch: Any, rng: np.random.Generator) -> Sequence[Any]:
        """Return random latents that fit the known outputs."""
        raise TypeError(f"{type(self).__name__} does not define random_latents()")

    def initial_latents(self, batch: Any, rng: np.random.Generator, attempt: int) -> Sequence[Any]:
        """Return latents to begin training with: random ones, for want of a better rule."""
        return self.random_latents(batch, rng)

    def loss(self, Y_true: Any, Y_pred: Any) -> Vector:
        """Return Δ(y_i, ŷ_i) for each example."""
        raise TypeError(f"{type(self).__name__} does not define loss()")

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return 1 − the mean loss: 1 is perfect, and a mean loss above 1 makes it negative."""
        return 1.0 - float(np.average(self.loss(Y_true, Y_pred), weights=sample_weight))
