"""Pictures of models and of what they predict; matplotlib is loaded when the first one is drawn.

Each function takes the axes to draw on, and makes a figure of its own if there are none.
"""

from latentstruct.plots.axes import can_plot, require_plots
from latentstruct.plots.logos import plot_logo
from latentstruct.plots.matrices import plot_substitutions
from latentstruct.plots.states import plot_path, plot_states

__all__ = ["can_plot", "plot_logo", "plot_path", "plot_states", "plot_substitutions", "require_plots"]
