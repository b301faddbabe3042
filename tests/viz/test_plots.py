"""Pictures of training: objective, bound, gap and starts."""

import math

import numpy as np
import pytest
from matplotlib import colors, rc_context
from matplotlib.figure import Figure

from error_fields import raises
from latentstruct import LatentMulticlass, LatentSSVM, Multiclass, StructuralSVM
from latentstruct.core.protocols import Iteration
from latentstruct.viz.plots import has_gaps, plot_convergence, plot_gap, plot_restarts


class Trained:
    """What plots look at in a fitted estimator."""

    tol, certified_ = 1e-3, True

    def __init__(self, history, reached=None):
        self.history_ = history
        self.restart_objectives_ = [history[-1].objective] if reached is None else reached


def new_axes():
    return Figure().add_subplot()


def texts(ax):
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def drawn(ax, label):
    """Return the values of the line with a label."""
    (line,) = (line for line in ax.lines if line.get_label() == label)
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


@pytest.fixture(scope="module")
def convex():
    X = np.random.default_rng(0).normal(size=(40, 3))
    return StructuralSVM(Multiclass(), tol=1e-4).fit(X, (X[:, 0] > 0).astype(int))


@pytest.fixture(scope="module")
def latent():
    X = np.random.default_rng(0).normal(size=(40, 3))
    task = LatentMulticlass(n_states=2, weights="state")
    return LatentSSVM(task, restarts=3).fit(X, (X[:, 0] * X[:, 1] > 0).astype(int))


def test_objective_and_bound_of_a_certified_training(convex):
    ax = plot_convergence(convex, new_axes())
    places, bounds = drawn(ax, "lower bound")
    assert places.tolist() == list(range(1, len(convex.history_) + 1))
    assert bounds.tolist() == [line.lower_bound for line in convex.history_]
    estimated = any(line.estimate for line in convex.history_)
    assert texts(ax)[0] == ("objective (estimates between the dots)" if estimated else "objective")
    by_calls, _ = drawn(plot_convergence(convex, new_axes(), by="oracle_calls"), "lower bound")
    assert by_calls.tolist() == [line.oracle_calls for line in convex.history_]


def test_starts_are_lines_of_which_the_kept_one_stands_out(latent):
    kept = int(np.argmin(latent.restart_objectives_))
    ax = plot_convergence(latent, new_axes())
    _, objectives = drawn(ax, "objective of the best start")
    assert objectives.tolist() == [line.objective for line in latent.history_ if line.start == kept]
    assert texts(ax) == ["objective of the best start", "2 other starts", "bound of each iteration's convex problem"]
    widths = {line.get_label(): line.get_linewidth() for line in ax.lines}
    assert widths["objective of the best start"] > widths["2 other starts"]
    marks = {line.get_label(): list(line.get_xdata()) for line in plot_restarts(latent, new_axes()).lines}
    assert marks["best start"] == [kept + 1]
    assert marks["other starts"] == [k + 1 for k in range(3) if k != kept]


def test_seconds_count_from_the_beginning_of_each_start():
    iterations = [Iteration(1, 3.0, 1.0, 2.0, 5, 2.0), Iteration(1, 2.0, 1.0, 1.0, 9, 5.0, start=1)]
    ax = plot_convergence(Trained(iterations, [3.0, 2.0]), new_axes(), by="seconds")
    places, _ = drawn(ax, "objective of the best start")
    assert places.tolist() == [3.0]


def test_one_round_and_no_bound_can_be_drawn():
    model = Trained([Iteration(1, 3.0, -math.inf, math.inf, 5, 0.1)])
    ax = plot_convergence(model, new_axes())
    assert texts(ax) == ["objective"]
    assert not has_gaps(model)
    with raises("model", expected="a solver with lower bounds"):
        plot_gap(model, new_axes())
    assert len(plot_restarts(model, new_axes()).lines) == 2


def test_first_bounds_far_below_do_not_hide_the_objective():
    bounds = [-1e4, 0.0, 9.0]
    iterations = [
        Iteration(k, o, b, o - b, k, k) for k, (o, b) in enumerate(zip([20.0, 12.0, 10.0], bounds, strict=True), 1)
    ]
    low, high = plot_convergence(Trained(iterations), new_axes()).get_ylim()
    assert -100 < low < 9
    assert high >= 20


def test_gaps_are_relative_and_a_gap_of_zero_is_drawn():
    iterations = [Iteration(1, 4.0, 2.0, 2.0, 1, 0.1), Iteration(2, 4.0, 4.0, 0.0, 2, 0.2)]
    ax = plot_gap(Trained(iterations), new_axes())
    assert ax.get_yscale() == "log"
    _, gaps = drawn(ax, "relative gap")
    assert gaps.tolist() == [0.5, 1e-12]
    assert texts(ax) == ["relative gap", "tolerance 0.001"]


@pytest.mark.parametrize("plot", [plot_convergence, plot_gap, plot_restarts])
def test_what_was_not_trained_is_refused(plot):
    with raises("model", expected="a fitted estimator"):
        plot(StructuralSVM(Multiclass()), new_axes())


@pytest.mark.parametrize("plot", [plot_convergence, plot_gap])
def test_unknown_axes_and_empty_histories_are_refused(plot, convex):
    with raises("by", got="days", expected="'iteration', 'oracle_calls' or 'seconds'"):
        plot(convex, new_axes(), by="days")
    empty = Trained([Iteration(1, 1.0, 0.0, 1.0, 1, 0.1)])
    empty.history_ = []
    with raises("model", expected="with a history"):
        plot(empty, new_axes())


@pytest.mark.parametrize("plot", [plot_convergence, plot_gap, plot_restarts])
def test_colors_are_those_of_the_style(plot, latent):
    cycle = ["#123456", "#abcdef"]
    with rc_context({"axes.prop_cycle": f"cycler('color', {cycle})"}):
        ax = plot(latent, new_axes())
        used = {colors.to_hex(line.get_color()) for line in ax.lines}
    assert used <= set(cycle)


def test_a_figure_is_made_where_no_axes_are_given(convex):
    from matplotlib import pyplot

    ax = plot_gap(convex)
    assert ax.figure is pyplot.gcf()
    pyplot.close(ax.figure)
