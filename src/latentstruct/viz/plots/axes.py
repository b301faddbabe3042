"""Availability of matplotlib, and new axes."""

from collections.abc import Callable
from importlib.util import find_spec
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeVar

from latentstruct.exceptions import missing_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Plot = TypeVar("Plot", bound=Callable[..., Any])
_SHARED = """
ax : matplotlib Axes, optional
    Axes to draw on; by default those of a new figure.

Returns
-------
matplotlib Axes
    The axes drawn on.
"""


def on_axes(plot: Plot) -> Plot:
    """Add to the documentation of a plot, which ends with its parameters, what its parameter `ax` is and is returned.

    Python that runs without docstrings has nothing to add to.
    """
    if plot.__doc__ is not None:
        plot.__doc__ = f"{cleandoc(plot.__doc__)}{_SHARED}"
    return plot


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
