"""Training curves: objective and bound, the gap between them, and the objectives of several starts."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import counted
from latentstruct.core.validation import options
from latentstruct.exceptions import InputError
from latentstruct.viz.plots.axes import hide_frame, new_axes, on_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from latentstruct.core.protocols import Iteration

AXES = {"iteration": "iteration", "oracle_calls": "oracle calls", "seconds": "time (s)"}
FEW_ITERATIONS = 30
"""Maximum number of iterations with individual markers."""
WIDE_RANGE = 20.0
"""Ratio of the largest to the smallest value above which the axis is logarithmic."""
VANISHING = 1e-12
"""Drawn value of a relative gap of zero, for the logarithmic axis."""
SAME = 1e-3
"""Minimum range of the axis of starts, relative to the objective."""
FAINT = 0.45


@on_axes
def plot_convergence(model: Any, ax: "Axes | None" = None, by: str = "iteration") -> "Axes":
    """Draw the objective and its lower bound during training, one line per start, that of the best start thicker.

    With latent variables the bound is that of each iteration's convex problem, and only drawn for the best start.
    Some solvers compute the true objective in some iterations only; values between the dots are estimates.

    Parameters
    ----------
    model : estimator
        Fitted, with ``history_``.
    by : {"iteration", "oracle_calls", "seconds"}, default="iteration"
        Quantity of the horizontal axis, counted from the beginning of each start.
    """
    options(*AXES).check(by, "by")
    starts, kept = _rounds_of_starts(model)
    ax = new_axes(3.2) if ax is None else ax
    for start, iterations in starts.items():
        if start != kept:
            ax.plot(_places(starts, start, by), _objectives(iterations), color="C0", alpha=FAINT, linewidth=1.0)
    places, iterations = _places(starts, kept, by), starts[kept]
    objectives, bounds = _objectives(iterations), _finite(line.lower_bound for line in iterations)
    _draw_line(
        ax, places, objectives, iterations, "C0", "objective" if len(starts) == 1 else "objective of the best start"
    )
    if len(starts) > 1:
        others = len(starts) - 1
        ax.plot([], [], color="C0", alpha=FAINT, linewidth=1.0, label=counted(others, "other start"))
    if np.isfinite(bounds).any():
        ax.plot(places, bounds, color="C1", linestyle="--", marker="." if len(iterations) <= FEW_ITERATIONS else None)
        ax.lines[-1].set_label(_name_of_bound(model))
    _choose_scale(ax, np.concatenate([_objectives(lines) for lines in starts.values()]), bounds)
    _finish(ax, AXES[by], "objective", whole=by == "iteration")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _choose_scale(ax: "Axes", objectives: NDArray, bounds: NDArray) -> None:
    """Choose an axis on which the first bounds, which may be very low, do not hide the rest."""
    objectives, bounds = objectives[np.isfinite(objectives)], bounds[np.isfinite(bounds)]
    if not len(objectives):
        return
    lowest = min(objectives.min(), bounds.min(initial=np.inf))
    if lowest > 0 and objectives.max() > WIDE_RANGE * lowest:
        ax.set_yscale("log")
        return
    span = float(np.ptp(objectives)) or abs(float(objectives[0])) or 1.0
    if lowest < objectives.min() - span:
        ax.set_ylim(objectives.min() - 0.5 * span, objectives.max() + 0.05 * span)


@on_axes
def plot_gap(model: Any, ax: "Axes | None" = None, by: str = "iteration") -> "Axes":
    """Draw the relative gap between objective and bound during training, on a logarithmic axis.

    It is that of the best start; the dotted line is the tolerance, if any.

    Parameters
    ----------
    model : estimator
        Fitted, with ``history_``, by a solver that has bounds; see `has_gaps`.
    by : {"iteration", "oracle_calls", "seconds"}, default="iteration"
        Quantity of the horizontal axis.
    """
    options(*AXES).check(by, "by")
    starts, kept = _rounds_of_starts(model)
    gaps = _relative_gaps(starts[kept])
    if not np.isfinite(gaps).any():
        raise InputError("model", model, "trained by a solver with lower bounds", "Use plot_convergence.")
    ax = new_axes(2.6) if ax is None else ax
    _draw_line(ax, _places(starts, kept, by), np.maximum(gaps, VANISHING), starts[kept], "C0", "relative gap")
    tol = getattr(model, "tol", None)
    if tol:
        ax.axhline(tol, color="C1", linestyle=":", label=f"tolerance {tol:g}")
    ax.set_yscale("log")
    _finish(ax, AXES[by], "relative gap", whole=by == "iteration")
    if len(ax.get_legend_handles_labels()[0]) > 1:
        ax.legend(frameon=False, fontsize="small")
    return ax


def has_gaps(model: Any) -> bool:
    """Return whether `plot_gap` can draw a model's training."""
    if not getattr(model, "history_", None):
        return False
    starts, kept = _rounds_of_starts(model)
    return bool(np.isfinite(_relative_gaps(starts[kept])).any())


@on_axes
def plot_restarts(model: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw the final objective of each start, the best one marked.

    Parameters
    ----------
    model : estimator
        Fitted, with ``restart_objectives_``.
    """
    reached = np.asarray(getattr(model, "restart_objectives_", ()), dtype=np.float64)
    if not len(reached):
        raise InputError("model", model, "a fitted estimator")
    kept = _kept_start(model)
    ax = new_axes(2.6) if ax is None else ax
    numbers = np.arange(1, len(reached) + 1)
    others = numbers != kept + 1
    if others.any():
        ax.plot(numbers[others], reached[others], "o", color="C0", alpha=0.6, label="other starts")
    ax.plot(numbers[kept], reached[kept], "D", color="C1", markersize=8, label="best start")
    ax.axhline(reached[kept], color="C1", linestyle=":", linewidth=1.0)
    ax.set_xlim(0.5, len(reached) + 0.5)
    # Starts that differ only by rounding must look equal.
    half = max(0.6 * float(np.ptp(reached)), SAME * abs(float(reached[kept])), VANISHING)
    middle = 0.5 * float(reached.min() + reached.max())
    ax.set_ylim(middle - half, middle + half)
    ax.ticklabel_format(axis="y", useOffset=False)
    _finish(ax, "start", "final objective", whole=True)
    ax.legend(frameon=False, fontsize="small")
    return ax


def _rounds_of_starts(model: Any) -> "tuple[dict[int, list[Iteration]], int]":
    """Return the iterations of each start, and the best start."""
    history = getattr(model, "history_", None)
    if not history:
        raise InputError("model", model, "a fitted estimator with a history")
    starts: dict[int, list[Iteration]] = {}
    for line in history:
        starts.setdefault(line.start, []).append(line)
    kept = _kept_start(model)
    return starts, kept if kept in starts else max(starts)


def _kept_start(model: Any) -> int:
    reached = getattr(model, "restart_objectives_", None)
    return int(np.argmin(reached)) if reached else 0


def _places(starts: "dict[int, list[Iteration]]", start: int, by: str) -> NDArray:
    """Return the horizontal positions of the iterations of a start, counted from the end of the one before."""
    if by == "iteration":
        # Long histories are thinned out when a model is saved.
        return np.array([line.iteration for line in starts[start]])
    earlier = [getattr(iterations[-1], by) for number, iterations in starts.items() if number < start]
    return np.array([getattr(line, by) for line in starts[start]]) - max(earlier, default=0)


def _objectives(iterations: "Sequence[Iteration]") -> NDArray:
    return _finite(line.objective for line in iterations)


def _relative_gaps(iterations: "Sequence[Iteration]") -> NDArray:
    return _finite(line.gap / max(abs(line.objective), VANISHING) for line in iterations)


def _finite(values: Iterable[float]) -> NDArray:
    """Return the values, NaN if not finite, so that nothing is drawn."""
    found = np.array(list(values), dtype=np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def _draw_line(
    ax: "Axes", places: NDArray, values: NDArray, iterations: "Sequence[Iteration]", color: str, label: str
) -> None:
    """Draw a line with dots at values that are no estimates, and at all of few values."""
    true = np.array([not line.estimate for line in iterations])
    dots = bool(len(iterations) <= FEW_ITERATIONS or not true.all())
    name = label if true.all() else f"{label} (estimates between the dots)"
    ax.plot(places, values, color=color, linewidth=2.0, label=name)
    if dots:
        ax.plot(places[true], values[true], ".", color=color, markersize=7)


def _name_of_bound(model: Any) -> str:
    if getattr(getattr(model, "task_", None), "latent", False):
        return "bound of each iteration's convex problem"
    return "lower bound" if getattr(model, "certified_", True) else "lower bound (estimate, not certified)"


def _finish(ax: "Axes", x: str, y: str, whole: bool) -> None:
    """Label the axes and hide unused sides of the frame."""
    from matplotlib.ticker import MaxNLocator

    if whole:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    hide_frame(ax)


def plot_regularization_path(path: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw objective and lower bound of a `RegularizationPath` over C, with held-out scores on a second axis."""
    ax = new_axes(3.2) if ax is None else ax
    ax.plot(path.Cs, path.objectives, color="C0", label="objective")
    bounded = np.isfinite(path.lower_bounds)
    if path.certified:
        ax.plot(path.Cs[bounded], path.lower_bounds[bounded], color="C0", linestyle=":", label="lower bound")
    ax.set(xscale="log", yscale="log", xlabel="regularization parameter C", ylabel="objective")
    hide_frame(ax)
    if not np.isnan(path.scores).all():
        right = ax.twinx()
        right.plot(path.Cs, path.scores, color="C1", marker=".", label="held-out score")
        right.set_ylabel("held-out score", color="C1")
        ax.axvline(path.best_C, color="C1", linewidth=0.8, linestyle="--")
    ax.legend(frameon=False)
    return ax


def plot_fold_scores(result: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw the mean scores of a `FoldScores` with their standard errors, the scores of a baseline beside them."""
    ax = new_axes(3.2) if ax is None else ax
    numeric = all(isinstance(value, int | float) for value in result.values)
    places = result.values if numeric else range(len(result.values))
    ax.errorbar(places, result.means, result.standard_errors, color="C0", marker=".", capsize=2, label="mean of folds")
    ax.axvline(places[result.chosen], color="C1", linewidth=0.8, linestyle="--", label="chosen")
    if result.baseline is not None:
        ax.axhline(result.baseline.mean(), color="C2", linewidth=0.8, label="baseline")
    if numeric:
        ax.set_xscale("log" if min(places) > 0 and max(places) >= 20 * min(places) else "linear")
    else:
        ax.set_xticks(places, [str(value) for value in result.values])
    ax.set(xlabel=result.parameter, ylabel="held-out score")
    hide_frame(ax)
    ax.legend(frameon=False)
    return ax
