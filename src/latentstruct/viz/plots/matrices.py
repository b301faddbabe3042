"""Heat maps of weights."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import TransitionWeights
from latentstruct.core.validation import check_lists, finite_of, integer
from latentstruct.exceptions import InputError
from latentstruct.viz.plots.axes import new_axes, on_axes
from latentstruct.viz.plots.features import drawn_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LABELS = 25
LONGEST_LABEL = 12
MOST_NUMBERS = 20
"""Maximum columns with numbers on narrow axes."""
NARROW = 4.0
"""Width in inches below which axes have no color bar."""


@on_axes
def plot_matrix(
    matrix: Any, rows: Sequence[Any], columns: Sequence[Any], ax: "Axes | None" = None, name: str = "weight"
) -> "Axes":
    """Draw a matrix of signed numbers, red above 0 and blue below.

    Parameters
    ----------
    matrix : array of shape (R, C)
        The numbers.
    rows, columns : sequences of length R and C
        Labels of rows and columns; long ones are shortened.
    name : str, default="weight"
        Label of the color bar.
    """
    check_lists(rows=rows, columns=columns)
    values = _check_matrix(matrix, (len(rows), len(columns)), "one row and one column per name")
    ax = new_axes(6.2) if ax is None else ax
    largest = float(np.abs(values).max()) or 1.0
    image = ax.imshow(values, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
    texts = [[drawn_text(one, LONGEST_LABEL) for one in names] for names in (columns, rows)]
    narrow = ax.get_window_extent().width < NARROW * ax.figure.dpi
    # Consecutive numbers need not all be written if there is too little space.
    steps = (2 if narrow and isinstance(columns, range) and len(columns) > MOST_NUMBERS else 1, 1)
    for side, names, step in zip((ax.xaxis, ax.yaxis), texts, steps, strict=True):
        side.set_ticks(range(0, len(names), step), names[::step])
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0, labelsize="small" if max(map(len, texts)) <= MOST_LABELS else "x-small")
    if max(map(len, texts[0])) > 2:
        ax.tick_params(axis="x", labelrotation=90)
    where: dict[str, Any] = {"location": "bottom", "aspect": 40, "pad": 0.02} if narrow else {"shrink": 0.8}
    ax.figure.colorbar(image, ax=ax, label=name, **where)
    return ax


def _check_matrix(matrix: Any, shape: tuple[int, int], meaning: str) -> NDArray[np.float64]:
    """Return finite numbers of the given shape, at least one, or raise."""
    if 0 in shape:
        raise InputError("matrix", matrix, f"at least one number, {meaning}")
    return finite_of(matrix, "matrix", shape, meaning)


@on_axes
def plot_transitions(model: Any, ax: "Axes | None" = None, most: int = MOST_LABELS) -> "Axes":
    """Draw the weights of a chain's transitions from each label (rows) to the next one (columns).

    Parameters
    ----------
    model : estimator
        Fitted on a `Chain`.
    most : int, default=25
        Maximum number of labels; of more, those with the largest weights of transitions are shown.
    """
    task = getattr(model, "task_", None)
    if not isinstance(task, TransitionWeights):
        raise InputError("model", model, "an estimator fitted on a Chain")
    integer(1).check(most, "most")
    weights, labels = transition_weights(model)
    shown = strongest_labels(weights, most)
    names = [str(labels[k]) for k in shown]
    ax = plot_matrix(weights[np.ix_(shown, shown)], names, names, ax)
    ax.set_xlabel("to label")
    ax.set_ylabel("from label")
    return ax


def transition_weights(model: Any) -> tuple[NDArray[np.float64], list[Any]]:
    """Return the weights (S, S) of a chain's transitions, from and to, and its labels."""
    labels, start = list(model.task_.labels_.labels), model.task_.transitions_at_
    size = len(labels)
    return model.coef_[start : start + size * size].reshape(size, size), labels


def strongest_labels(weights: NDArray[np.float64], most: int) -> list[int]:
    """Return the labels with the largest weights from or to them, in the order of the model, at most `most`."""
    size = np.abs(weights)
    strength = np.maximum(size.max(axis=0), size.max(axis=1))
    return sorted(np.argsort(-strength, kind="stable")[:most].tolist())


def strongest_transition_rows(model: Any, most: int = MOST_LABELS) -> list[tuple[Any, Any, float]]:
    """Return the labels (from, to) of the strongest transitions of a chain, and their weights."""
    weights, labels = transition_weights(model)
    order = np.argsort(-np.abs(weights), axis=None, kind="stable")[:most]
    found = zip(*np.unravel_index(order, weights.shape), strict=True)
    return [(labels[a], labels[b], float(weights[a, b])) for a, b in found if weights[a, b]]


@on_axes
def plot_substitutions(matrix: Any, letters: str, ax: "Axes | None" = None) -> "Axes":
    """Draw a substitution matrix, red for positive and blue for negative scores.

    Parameters
    ----------
    matrix : array of shape (K, K)
        The score of each pair of letters.
    letters : str of length K
        The letters of rows and columns.
    """
    check_lists(letters=letters)
    shape = (len(letters), len(letters))
    scores = _check_matrix(matrix, shape, f"one row and one column per letter of {letters!r}")
    return plot_matrix(scores, list(letters), list(letters), ax, "score")
