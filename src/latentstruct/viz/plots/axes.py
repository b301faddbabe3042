"""Whether pictures can be drawn, and the axes to draw on."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from latentstruct.exceptions import missing_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def can_plot() -> bool:
    """Tell whether pictures can be drawn."""
    return find_spec("matplotlib") is not None


def require_plots() -> None:
    """Raise unless pictures can be drawn."""
    if not can_plot():
        raise missing_package("matplotlib", "draw plots", "plot")


def new_axes(height: float = 2.6) -> "Axes":
    """Return the axes of a new figure."""
    require_plots()
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(7.2, height), layout="constrained")[1]


def hide_frame(ax: "Axes", *sides: str) -> None:
    """Hide sides of the frame, those at the top and on the right by default."""
    for side in sides or ("top", "right"):
        ax.spines[side].set_visible(False)
