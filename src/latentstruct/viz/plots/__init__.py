"""Plots of models and predictions; matplotlib is imported when the first one is drawn.

Each function draws on the given axes, or creates a new figure.
"""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
    from latentstruct.viz.plots.axes import can_plot, require_plots
    from latentstruct.viz.plots.calibration import plot_reliability
    from latentstruct.viz.plots.features import plot_scores, plot_weights
    from latentstruct.viz.plots.forests import plot_forest
    from latentstruct.viz.plots.graphs import lay_out_graph, plot_graph
    from latentstruct.viz.plots.logos import plot_logo
    from latentstruct.viz.plots.matrices import plot_matrix, plot_substitutions, plot_transitions
    from latentstruct.viz.plots.pictures import plot_box_places, plot_swatches, plot_template
    from latentstruct.viz.plots.rankings import plot_benefits, plot_ranking
    from latentstruct.viz.plots.sequences import plot_sites, plot_starts
    from latentstruct.viz.plots.states import plot_path, plot_states
    from latentstruct.viz.plots.training import has_gaps, plot_convergence, plot_gap, plot_restarts
    from latentstruct.viz.plots.trees import plot_tree

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
