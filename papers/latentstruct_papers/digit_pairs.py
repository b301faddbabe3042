"""What the experiments on pairs of digits share: views of a pair, scores of states, and accuracies."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import ConvergenceWarning
from latentstruct.features.rotated_views import ANGLES, RotatedViews
from latentstruct_papers.datasets import Mnist, load_mnist
from latentstruct_papers.ratios import Share, difference, pooled_share

PAIRS = ((1, 7), (2, 7), (3, 8), (8, 9))
"""The pairs of digits that Chen et al. (2012) and Kumar et al. (2010) tell apart."""
N_ANGLES = len(ANGLES)

Hits = NDArray[np.bool_]
"""Whether each test image was named right."""


class DigitPair(NamedTuple):
    """The images of some digits as features (n, angles, k + 1) of their rotated copies."""

    digits: tuple[int, ...]
    views: RotatedViews
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.int64]

    @property
    def name(self) -> str:
        """The digits, such as 1-7."""
        return "-".join(map(str, self.digits))

    def scaled(self, scale: float) -> "DigitPair":
        """Return the pair with all features times a factor."""
        views = copy(self.views).set_params(scale=scale * self.views.scale)
        return self._replace(views=views, X=scale * self.X, X_test=scale * self.X_test)


def make_pair(
    data: Mnist,
    digits: Sequence[int],
    n_train: int | None = None,
    n_test: int | None = None,
    n_components: int = 10,
) -> DigitPair:
    """Return the images of the digits, principal components fitted on all rotated copies of their training images.

    Parameters
    ----------
    data : Mnist
        The images.
    digits : sequence of int
        Those to tell apart.
    n_train, n_test : int, optional
        How many of their images to take at most, the first ones.
    n_components : int, default=10
        Principal components.
    """
    train = np.flatnonzero(np.isin(data.train_labels, digits))[:n_train]
    test = np.flatnonzero(np.isin(data.test_labels, digits))[:n_test]
    views = RotatedViews(n_components=n_components).fit(data.train_images[train])
    test_images = data.test_images[test]
    return DigitPair(
        tuple(digits),
        views,
        views.transform(data.train_images[train]),
        data.train_labels[train],
        test_images,
        views.transform(test_images),
        data.test_labels[test],
    )


def load_pairs(
    data_home: str | Path | None, pairs: Sequence[Sequence[int]], n_train: int | None, n_test: int | None
) -> list[DigitPair]:
    """Return each of some pairs of digits of MNIST."""
    data = load_mnist(data_home)
    return [make_pair(data, digits, n_train, n_test) for digits in pairs]


def describe_pairs(pairs: Sequence[DigitPair]) -> str:
    """Return one line about the data."""
    sizes = "; ".join(f"{pair.name}: {len(pair.y)} training and {len(pair.y_test)} test images" for pair in pairs)
    return f"MNIST, {sizes}"


@contextmanager
def limits_on_purpose() -> Iterator[None]:
    """Keep quiet about limits of iterations or seconds that were met; experiments report them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def fit_quietly(model: Any, X: Any, y: Any, **start: Any) -> Any:
    """Train a model whose limits of iterations or seconds are set on purpose."""
    with limits_on_purpose():
        return model.fit(X, y, **start)


def weights_of_states(model: Any) -> NDArray[np.float64]:
    """Return the weight vectors (classes, states, d) of a model of a task with weights for each state."""
    task = model.task_
    vectors = model.coef_.reshape(-1, len(task.labels_), task.n_states_)
    return np.moveaxis(vectors, 0, 2)


def scores_of_states(model: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return s(y, h) of all examples: (n, classes, states), for weights of classes or of states."""
    task = model.task_
    if task.n_states_ is None:
        vectors = model.coef_.reshape(-1, len(task.labels_))
        return np.moveaxis(X @ vectors, 1, 2)
    return np.einsum("nhd,yhd->nyh", X, weights_of_states(model), optimize=True)


def hits(model: Any, scores: NDArray[np.float64], y: Any, chosen: Any = None) -> Hits:
    """Return which examples are named right if classes have only their chosen states.

    Parameters
    ----------
    model : estimator
        The model the scores come from.
    scores : ndarray of shape (n, classes, states)
        s(y, h).
    y : array of shape (n,)
        The true digits.
    chosen : bool array of shape (classes, states), optional
        States that take part; by default all.
    """
    kept = scores if chosen is None else np.where(chosen, scores, -np.inf)
    found: Hits = np.asarray(model.classes_)[kept.max(axis=2).argmax(axis=1)] == y
    return found


def share(right: Hits) -> Share:
    """Return the accuracy with its standard error over test images."""
    return pooled_share(right, np.ones(len(right)))


def show_share(right: Hits, decimals: int = 2) -> str:
    """Return the accuracy in % with its standard error."""
    found = share(right)
    return f"{100 * found.value:.{decimals}f} ± {100 * (found.error or 0.0):.{decimals}f}"


def show_difference(right: Hits, other: Hits, decimals: int = 2) -> str:
    """Return the paired difference of two accuracies in points, with its standard error."""
    found = difference(right, other, np.ones(len(right)))
    return f"{100 * found.value:+.{decimals}f} ± {100 * (found.error or 0.0):.{decimals}f}"


def cpu_seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """Return the least CPU time of some runs of a function."""
    found = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def random_selection(n_classes: int, budget: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return some states of each class, drawn at random without repetition: bool (classes, states)."""
    order = rng.permuted(np.tile(np.arange(N_ANGLES), (n_classes, 1)), axis=1)
    return order < budget


def strongest_selection(norms: NDArray[np.float64], budget: int) -> NDArray[np.bool_]:
    """Return the states of largest norm of each class: bool (classes, states).

    States of norm 0 come last; they score 0 and need no features.
    """
    order = np.argsort(-norms, axis=1, kind="stable")
    return np.argsort(order, axis=1) < budget
