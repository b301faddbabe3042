"""Which latent states a trained model uses, and the smaller model without the others."""

from copy import copy
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.parameters import clone
from latentstruct.core.protocols import StateWeights
from latentstruct.core.types import Vector
from latentstruct.core.validation import integer, options, real
from latentstruct.estimators.predicting import check_weights
from latentstruct.exceptions import InputError
from latentstruct.tasks.base import BaseTask

Zeros = Literal["keep", "drop"]


class StateSelection:
    """The part of estimators that is for tasks whose states have weights of their own, such as `LatentMulticlass`."""

    task: BaseTask
    task_: BaseTask
    executor: Any
    coef_: Vector
    _per_weight: tuple[str, ...] = ("coef_", "theta_")
    """Fitted vectors, where an estimator has them, that hold one number for each weight of the task."""

    @property
    def states_(self) -> NDArray[np.float64]:
        """Norm of the weights of each state, (S, H), one row per class; 0 for states without weights."""
        task = state_task(self.task_) if hasattr(self, "task_") else None
        if task is None:
            raise AttributeError(
                f"this {type(self).__name__} has no states_: it is not fitted, or its task is not one whose states "
                "have weights of their own, as LatentMulticlass(weights='state')"
            )
        norms = np.zeros(task.vector_of_.shape)
        norms[task.vector_of_ >= 0] = np.sqrt((self.coef_.reshape(-1, task.n_vectors_) ** 2).sum(axis=0))
        return norms

    def prune(
        self,
        n_states: int | None = None,
        tolerance: float | None = None,
        per_class: bool = False,
        zeros: Zeros = "keep",
    ) -> Self:
        """Return a model with fewer states, whose predictions do no work for the others; this one is not changed.

        Each class keeps its largest state, whatever the limits say.

        Parameters
        ----------
        n_states : int, optional
            Number of states to keep, those with the largest norms of all classes (`states_`), or of each class.
        tolerance : float, optional
            Keep the states whose norm is above this share of the largest one of all classes, or of their class. By
            default 0: states with weights that are exactly zero go.
        per_class : bool, default=False
            Whether the limit holds for each class.
        zeros : {"keep", "drop"}, default="keep"
            A state with zero weights scores 0, and so may be the best of its class. "keep" keeps such
            states at no cost, so that predictions stay exactly the same if no others go; where one is the best, the
            first of its class is reported as the latent. "drop" forgets them too, as choosing the angles to look at
            does; scores can then only fall. States with weights that go are always forgotten.

        Returns
        -------
        estimator
            A fitted estimator of the same kind. Its ``task_.needed_states_`` are the inputs it reads: X may hold
            those of all states or only these; latents keep their numbers. Fitted again, it trains with the kept states
            only. What is known of its training (``objective_``, ``history_`` …) is that of this model. Its task has
            fewer weights: a `GroupNorm` whose groups are an array (d,) or lists of weights fits no more when it is
            fitted again (the names "states" and "shared_states" do), and a `ModLat` wants ``latent_features`` of the
            kept states only.
        """
        check_weights(self)
        task = state_task(self.task_)
        if task is None:
            raise InputError("task", self.task_, "LatentMulticlass(weights='state'), whose states can be pruned")
        norms = self.states_
        options("keep", "drop").check(zeros, "zeros")
        kept = _largest_of_class(norms) | _chosen(norms, n_states, tolerance, bool(per_class))
        vector_of = task.vector_of_
        constant = (vector_of == -1) | ((vector_of >= 0) & (norms == 0))
        rest = np.where(constant, 0, -1) if zeros == "keep" else np.full(norms.shape, -1)
        pruned = copy(self)
        pruned.executor = self.executor
        pruned.task = clone(self.task).set_params(states=np.where(kept, 1, rest))
        pruned.task_ = clone(pruned.task)
        pruned.task_.restore(self.task_.state())  # type: ignore[arg-type]
        for name in self._per_weight:
            vector = getattr(self, name, None)
            if vector is not None and len(vector) == self.task_.n_features:
                setattr(pruned, name, vector.reshape(-1, task.n_vectors_)[:, vector_of[kept]].ravel())
        # The planes that a solver kept for going on are those of the larger model.
        pruned.__dict__.pop("_state", None)
        return pruned


def state_task(task: BaseTask) -> StateWeights | None:
    """Return a task whose states have weights of their own, None for others."""
    states = cast(StateWeights, task)
    return states if task.tags.state_weights and states.table_ is not None else None


def _largest_of_class(norms: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark the largest state of each class."""
    return np.arange(norms.shape[1]) == norms.argmax(axis=1)[:, None]


def _chosen(
    norms: NDArray[np.float64], n_states: int | None, tolerance: float | None, per_class: bool
) -> NDArray[np.bool_]:
    """Mark the states to keep, of those whose weights are not zero."""
    if n_states is not None and tolerance is not None:
        raise InputError("tolerance", tolerance, "None if `n_states` is given")
    if n_states is not None:
        return (norms > 0) & _first_of(norms, n_states, per_class)
    share = 0.0 if tolerance is None else tolerance
    real(0.0, 1.0, closed="left").check(share, "tolerance")
    return norms > share * norms.max(axis=1 if per_class else None, keepdims=True)


def _first_of(norms: NDArray[np.float64], n_states: int, per_class: bool) -> NDArray[np.bool_]:
    """Mark the n_states largest, the largest of each class among them; the first of equal ones."""
    n_labels, most = norms.shape
    fewest, most = (1, most) if per_class else (n_labels, norms.size)
    integer(fewest, most).check(n_states, "n_states")
    ranked = np.where(_largest_of_class(norms), np.inf, norms)
    ranked = ranked if per_class else ranked.reshape(1, -1)
    marked = np.zeros(ranked.shape, dtype=bool)
    np.put_along_axis(marked, np.argsort(-ranked, axis=1, kind="stable")[:, :n_states], True, axis=1)
    return marked.reshape(norms.shape)
