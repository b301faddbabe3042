"""Regularizers Ω(w)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from latentstruct.core.parameters import Parametrized, clone
from latentstruct.core.protocols import StateGroups, Task
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import (
    Constraint,
    check_parameters,
    check_shape,
    integers_of,
    is_ordered,
    numbers_of,
    options,
    real,
)
from latentstruct.exceptions import Description, InputError

SMALLEST_SQUARE = 1e-280
STATE_GROUPS = {"states": False, "shared_states": True}


def _is_list(groups: object) -> bool:
    return is_ordered(groups) and not isinstance(groups, str)


NONNEGATIVE = real(0.0, closed="left")


class BaseRegularizer(Parametrized):
    """A convex Ω(w). Subclasses define `value`, `gradient` and `prox`."""

    # Allowed values of parameters, in addition to those of base classes.
    constraints: ClassVar[Mapping[str, Constraint]] = {}
    half_square: bool = False  # whether Ω is ½‖w‖²
    smooth: bool = False  # whether Ω is differentiable

    def value(self, w: Vector) -> float:
        """Return Ω(w)."""
        raise TypeError(f"{type(self).__name__} does not define value()")

    def gradient(self, w: Vector) -> Vector:
        """Return a subgradient of Ω at w."""
        raise TypeError(f"{type(self).__name__} does not define gradient()")

    def prox(self, w: Vector, step: float) -> Vector:
        """Return argmin_v ½‖v − w‖² + step·Ω(v)."""
        raise TypeError(f"{type(self).__name__} does not define prox()")

    def bind(self, task: Task) -> Self:
        """Return the regularizer for the weights of a task that has learned its data."""
        return self

    def lower_bound(self, slope: Vector, offset: float) -> float:
        """Return a value not above min_w Ω(w) + max(0, offset + slope·w); −inf, as here, if none is known."""
        return -math.inf


class L2(BaseRegularizer):
    """Ω(w) = ½‖w‖²."""

    half_square = True
    smooth = True

    def value(self, w: Vector) -> float:
        """Return ½‖w‖²."""
        return 0.5 * float(w @ w)

    def gradient(self, w: Vector) -> Vector:
        """Return w."""
        return w

    def prox(self, w: Vector, step: float) -> Vector:
        """Return argmin_v ½‖v − w‖² + step·½‖v‖² = w / (1 + step)."""
        return w / (1.0 + step)

    def lower_bound(self, slope: Vector, offset: float) -> float:
        """Return min_w ½‖w‖² + max(0, offset + slope·w) = max over t in [0, 1] of t·offset − ½t²‖slope‖²."""
        square = float(slope @ slope)
        share = 1.0 if square <= offset else max(offset, 0.0) / square
        return share * offset - 0.5 * share * share * square


class ElasticNet(BaseRegularizer):
    """Ω(w) = l1 ‖w‖₁ + ½ l2 ‖w‖²: many weights become exactly zero, so that models are small.

    Parameters
    ----------
    l1 : float, default=1.0
        Weight of ‖w‖₁.
    l2 : float, default=1.0
        Weight of ½‖w‖²; above 0, a convex training has a certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import CRF, Chain
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 2, 8) for _ in range(30)]
    >>> X = [np.column_stack([y, rng.normal(size=(8, 20))]) for y in Y]  # one of 21 features depends on the label
    >>> model = CRF(Chain(), C=0.1, l1=1.0).fit(X, Y)  # the same as StructuredEstimator with ElasticNet(1.0)
    >>> bool((model.coef_ == 0).mean() > 0.5), model.certified_
    (True, True)
    """

    constraints: ClassVar = {"l1": NONNEGATIVE, "l2": NONNEGATIVE}

    def __init__(self, l1: float = 1.0, l2: float = 1.0) -> None:
        self.l1, self.l2 = l1, l2

    def bind(self, task: Task) -> Self:
        """Return this regularizer, with checked parameters."""
        check_parameters(self)
        return self

    def value(self, w: Vector) -> float:
        """Return l1 ‖w‖₁ + ½ l2 ‖w‖²."""
        return self.l1 * float(np.abs(w).sum()) + 0.5 * self.l2 * float(w @ w)

    def gradient(self, w: Vector) -> Vector:
        """Return a subgradient, with 0 for the norm of zeros."""
        return self.l1 * np.sign(w) + self.l2 * w

    def prox(self, w: Vector, step: float) -> Vector:
        """Return argmin_v ½‖v − w‖² + step·Ω(v): shrunk by step·l1, exactly zero below it, and scaled."""
        return shrunk(w, step * self.l1) / (1.0 + step * self.l2)

    def least(self, slope: Vector) -> float:
        """Return min_w Ω(w) + slope·w, −inf if there is none."""
        beyond = shrunk(slope, self.l1)
        if not self.l2:
            return -math.inf if beyond.any() else 0.0
        return -0.5 * float(beyond @ beyond) / self.l2

    def lower_bound(self, slope: Vector, offset: float) -> float:
        """Return a value not above min_w Ω(w) + max(0, offset + slope·w), as t·offset + least(t·slope) for some t."""
        return max(0.0, *(t * offset + self.least(t * slope) for t in np.linspace(0.1, 1.0, 10)))


def shrunk(w: Vector, by: float) -> Vector:
    """Return numbers moved toward zero by an amount, those below it to zero."""
    return np.sign(w) * np.maximum(np.abs(w) - by, 0.0)


class NoRegularizer(BaseRegularizer):
    """Ω(w) = 0, for the perceptron."""

    smooth = True

    def value(self, w: Vector) -> float:
        """Return 0."""
        return 0.0

    def gradient(self, w: Vector) -> Vector:
        """Return the zero vector."""
        return 0.0 * w

    def prox(self, w: Vector, step: float) -> Vector:
        """Return w unchanged."""
        return w


class GroupNorm(BaseRegularizer):
    """Ω(w) = Σ_p λ_p‖w^p‖₂: whole groups of weights become exactly zero, which selects latent states.

    Parameters
    ----------
    groups : "states", "shared_states", array of shape (d,) or list of index arrays, default="states"
        Groups of weights. "states": one group per class and latent state; "shared_states": one per
        latent state, over all classes. An array gives the group of each weight, from 0, and −1 for weights that are
        not penalized. A list gives the weights of each group; those in none are not penalized.
    weights : float or array of shape (P,), default=1.0
        λ_p ≥ 0.

    Attributes
    ----------
    index_ : ndarray of shape (d,)
        Group of each weight, −1 for none. Set by `bind`, which training calls.
    weights_ : ndarray of shape (P,)
        λ_p.

    Notes
    -----
    Chen, Batra, Freeman & Johnson (2012), equation (2). Train with `Proximal`, which ``solver="auto"`` chooses. An
    array (d,) or lists of weights are for one task only: a pruned one has fewer weights, while the names apply to both.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import GroupNorm, LatentMulticlass, LatentSSVM
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4, 3)), rng.integers(0, 2, 80)
    >>> X[np.arange(80), rng.choice([1, 3], 80)] += 4.0 * np.eye(3)[y]  # two of four views depend on the class
    >>> task = LatentMulticlass(weights="state")
    >>> model = LatentSSVM(task, C=0.1, regularizer=GroupNorm("states"), tol=0.01).fit(X, y)
    >>> np.flatnonzero(model.states_.any(axis=0)).tolist()
    [1, 3]
    """

    constraints: ClassVar = {
        "groups": options(*STATE_GROUPS) | Constraint(_is_list, "an array of shape (d,)", "a list of index arrays"),
        "weights": NONNEGATIVE | Constraint(is_ordered, "an array of such numbers"),
    }
    index_: Indices
    weights_: Vector

    def __init__(self, groups: Any = "states", weights: float | ArrayLike = 1.0) -> None:
        self.groups = groups
        self.weights = weights

    def bind(self, task: Task) -> Self:
        """Return this norm for the weights of a task that has learned its data, as a new object."""
        check_parameters(self)
        bound = clone(self)
        bound.index_ = _index(self.groups, task)
        n_groups = int(bound.index_.max(initial=-1)) + 1
        if isinstance(self.groups, str) and isinstance(task, StateGroups):
            # Pruned states have no weights, but keep their numbers.
            n_groups = task.n_state_groups(STATE_GROUPS[self.groups])
        bound.weights_ = _group_weights(self.weights, n_groups)
        return bound

    @property
    def n_groups(self) -> int:
        """Number of groups, P."""
        return len(self._bound().weights_)

    def _bound(self) -> Self:
        if not hasattr(self, "index_"):
            raise InputError("GroupNorm", self, "bound to the weights of a task", "Call bind(task) first.")
        return self

    def norms(self, w: Vector) -> Vector:
        """Return ‖w^p‖₂ of each group, shape (P,)."""
        index, size = self._bound().index_ + 1, 1.0
        with np.errstate(over="ignore"):
            products = w * w
        # Group −1 is counted first and dropped.
        squares = np.bincount(index, weights=products, minlength=len(self.weights_) + 1)[1:]
        if not SMALLEST_SQUARE < squares.max(initial=0.0) < math.inf and w.any():
            # Squares may overflow or underflow even if the weights do not.
            size = float(np.abs(w).max())
            squares = np.bincount(index, weights=(w / size) ** 2, minlength=len(self.weights_) + 1)[1:]
        return size * np.sqrt(squares)

    def _scaled(self, w: Vector, factors: Vector, others: float) -> Vector:
        """Return w with group p multiplied by factors[p], weights in no group by `others`."""
        return w * np.append(factors, others)[self.index_]

    def value(self, w: Vector) -> float:
        """Return Σ_p λ_p‖w^p‖₂."""
        return float(self.norms(w) @ self.weights_)

    def gradient(self, w: Vector) -> Vector:
        """Return λ_p w^p/‖w^p‖₂ for each group, and the subgradient 0 for groups that are zero."""
        norms = self.norms(w)
        return self._scaled(w, np.divide(self.weights_, norms, out=np.zeros_like(norms), where=norms > 0), 0.0)

    def prox(self, w: Vector, step: float) -> Vector:
        """Return argmin_v ½‖v − w‖² + step·Ω(v): w^p·max(0, 1 − step·λ_p/‖w^p‖), exactly zero if that is 0."""
        norms, shrinkage = self.norms(w), step * self.weights_
        # One more for weights in no group, which are not shrunk. Solvers call this very often.
        taken = np.ones(len(norms) + 1)
        np.divide(shrinkage, norms, out=taken[:-1], where=norms > shrinkage)
        # A norm that underflows is zero, but without a penalty the group must not be shrunk.
        taken[:-1][shrinkage == 0] = 0.0
        taken[-1] = 0.0
        return w * (1.0 - taken)[self.index_]

    def lower_bound(self, slope: Vector, offset: float) -> float:
        """Return a value not above min_w Ω(w) + max(0, offset + slope·w); −inf if unpenalized weights have a slope.

        For t in [0, 1] the maximum is at least t·(offset + slope·w), and Ω(w) + t·slope·w ≥ 0 for all w if
        t‖slope^p‖ ≤ λ_p for every group and slope is 0 elsewhere; then t·offset is below the minimum.
        """
        if slope[self._bound().index_ < 0].any():
            return -math.inf
        norms = self.norms(slope)
        pulled = norms > 0
        return max(offset, 0.0) * min(1.0, float((self.weights_[pulled] / norms[pulled]).min(initial=1.0)))


def _index(groups: Any, task: Task) -> Indices:
    """Return the group of each weight of a task, −1 for none."""
    d = task.n_features
    if isinstance(groups, str):
        if not (task.tags.state_weights and isinstance(task, StateGroups)):
            raise InputError(
                "groups",
                groups,
                f"an array of shape ({d},) for {type(task).__name__}, whose latent states have no separate weights",
                "Or use LatentMulticlass(weights='state').",
            )
        return task.state_groups(STATE_GROUPS[groups])
    if isinstance(groups, list | tuple) and any(np.ndim(group) for group in groups):
        return _index_of_lists(groups, d)
    index = integers_of(groups, "groups")
    check_shape(index, (d,), "groups", "the group of each weight")
    outside = index[(index < -1) | (index >= d)]
    if len(outside):
        raise InputError("groups", outside[0], f"group numbers from 0 to {d - 1}, or −1 for no group")
    return index


def _index_of_lists(groups: Sequence[Any], d: int) -> Indices:
    index = np.full(d, -1, dtype=np.int64)
    for number, members in enumerate(groups):
        members = integers_of(members, f"groups[{number}]").ravel()
        outside = members[(members < 0) | (members >= d)]
        if len(outside):
            raise InputError(f"groups[{number}]", outside[0], f"weights from 0 to {d - 1}")
        taken = members[index[members] >= 0]
        twice = np.flatnonzero(np.bincount(members, minlength=1) > 1)
        if len(taken) or len(twice):
            weight = taken[0] if len(taken) else twice[0]
            other = index[weight] if len(taken) else number
            raise InputError("groups", Description(f"weight {weight} in groups {other} and {number}"), "disjoint")
        index[members] = number
    return index


def _group_weights(weights: Any, n_groups: int) -> Vector:
    """Return the validated λ of each group."""
    found = numbers_of(weights, "weights")
    if found.ndim:
        check_shape(found, (n_groups,), "weights", "one number per group")
    for value in found.ravel().tolist():
        NONNEGATIVE.check(value, "weights")
    return np.array(np.broadcast_to(found, (n_groups,)))
