"""Availability of matplotlib, and new axes."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from latentstruct.exceptions import missing_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def can_plot() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def require_plots() -> None:
    """Raise unless matplotlib is installed."""
    if not can_plot():
        raise missing_package("matplotlib", "draw plots", "plot")


def new_axes(height: float = 2.6) -> "Axes":
    """Return the axes of a new figure."""
    require_plots()
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(7.2, height), layout="constrained")[1]


def hide_frame(ax: "Axes", *sides: str) -> None:
    """Hide sides of the frame, by default the top and right ones."""
    for side in sides or ("top", "right"):
        ax.spines[side].set_visible(False)
