"""Reliability curves: how often predictions are right at each level of their probability."""

from typing import TYPE_CHECKING

from latentstruct.metrics.calibration import Reliability
from latentstruct.viz.plots.axes import hide_frame, new_axes, on_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@on_axes
def plot_reliability(result: Reliability, ax: "Axes | None" = None) -> "Axes":
    """Draw the share of right predictions against their mean probability; on the diagonal both are equal.

    Parameters
    ----------
    result : Reliability
        What `latentstruct.metrics.reliability` returned. The area of a dot grows with the number of predictions.
    """
    ax = new_axes(3.2) if ax is None else ax
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
    ax.plot(result.confidence, result.accuracy, color="C0", linewidth=1.0)
    ax.scatter(result.confidence, result.accuracy, 8 + 90 * result.n / result.n.max(), color="C0")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="probability", ylabel="share of right predictions")
    hide_frame(ax)
    return ax
