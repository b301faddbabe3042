"""Latent states: the norms of their weights, and selection by a group norm."""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.core.validation import check_length
from latentstruct.exceptions import InputError
from latentstruct.viz.plots.axes import hide_frame, new_axes, on_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@on_axes
def plot_states(model: Any, names: Any = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the norm of the weights of each latent state, one bar per class.

    Parameters
    ----------
    model : estimator
        Fitted, with ``states_``: its task has weights per state.
    names : sequence of length H, optional
        Labels of the states, such as angles; by default their numbers.
    """
    norms = getattr(model, "states_", None)
    if norms is None:
        raise InputError("model", model, "fitted with LatentMulticlass(weights='state')")
    n_labels, n_states = norms.shape
    shown = list(range(n_states)) if names is None else list(names)
    check_length(shown, n_states, "names", "names")
    ax = new_axes(3.2) if ax is None else ax
    width, places = 0.8 / n_labels, np.arange(n_states)
    for y, label in enumerate(model.classes_):
        ax.bar(places + (y - (n_labels - 1) / 2) * width, norms[y], width, label=str(label))
    ax.set_xticks(places, [_short(name) for name in shown])
    ax.set_xlabel("state")
    ax.set_ylabel("norm of the weights")
    _legend_of_classes(ax, n_labels)
    return ax


def plot_path(path: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw the norm of each state's weights against the strength λ of the group norm, and the number of states kept.

    Parameters
    ----------
    path : GroupNormPath
        Of `latentstruct.estimators.paths.groupnorm_path`.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure. The number of states has its own axis on the right.

    Returns
    -------
    matplotlib Axes
        The axes that the norms are drawn on.
    """
    if not all(hasattr(path, name) for name in ("strengths", "norms", "n_states", "model")):
        raise InputError("path", path, "a GroupNormPath")
    ax = new_axes(3.6) if ax is None else ax
    norms, classes = path.norms, path.model(0).classes_
    for y, label in enumerate(classes):
        lines = ax.plot(path.strengths, norms[:, y], color=f"C{y % 10}", linewidth=1.0)
        lines[0].set_label(str(label))
    ax.set_xscale("log")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("strength λ of the group norm")
    ax.set_ylabel("norm of each state's weights")
    _legend_of_classes(ax, len(classes))
    counts = ax.twinx()
    counts.plot(path.strengths, path.n_states, color="black", linestyle="--", drawstyle="steps-mid")
    counts.set_ylim(0.0, norms.shape[1] * norms.shape[2] + 0.5)
    counts.locator_params(axis="y", integer=True)
    counts.set_ylabel("states kept (dashed)")
    counts.spines["top"].set_visible(False)
    return ax


def _short(name: Any) -> str:
    return f"{name:g}" if isinstance(name, float | np.floating) else str(name)


def _legend_of_classes(ax: "Axes", n_labels: int) -> None:
    ax.legend(title="class", frameon=False, ncols=1 if n_labels <= 4 else 2, fontsize="small")
    hide_frame(ax)
