"""A demonstration: a motif hidden in random DNA is found from labels of whole sequences alone."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from latentstruct.core.protocols import Callback, Round
    from latentstruct.tasks.motif.sites import Site

INK, MUTED, TRUE, FOUND, WRONG = "#1f2933", "#6b7785", "#9fc5e8", "#14507f", "#c8321e"
START_COLORS = ("#14507f", "#5b9bd0", "#b4bcc6", "#e0a458", "#7a9e7e")
HEADING: dict[str, Any] = {"fontsize": 14, "weight": "bold", "color": INK}


@dataclass(frozen=True)
class DemoResult:
    """The result of the demonstration.

    `planted` and `found` are consensus sequences; `accuracy` is that of held-out sequences; `sites_found` is the
    fraction of planted sites in these that the model finds, up to the common `shift`; `ceiling` the same for a search
    with the planted consensus, as mutations hide some sites. `matrix` (width, 4) has the letter probabilities of the
    sites in training, `starts` and `true_starts` the sites in held-out sequences with the motif.
    """

    planted: str
    found: str
    accuracy: float
    sites_found: float
    ceiling: float
    shift: int
    matrix: NDArray[np.float64]
    starts: NDArray[np.int64]
    true_starts: NDArray[np.int64]
    length: int
    history: "list[Round]"
    restart_objectives: list[float]
    seconds: float

    __repr__ = short_repr

    @property
    def hits(self) -> NDArray[np.bool_]:
        """Which of the planted sites in held-out sequences were found."""
        return self.starts + self.shift == self.true_starts


def run_demo(
    n_train: int = 200,
    n_test: int = 200,
    length: int = 500,
    width: int = 17,
    mutation: float = 0.2,
    C: float = 0.02,
    restarts: int = 3,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
    callback: "Callback | None" = None,
) -> DemoResult:
    """Plant a motif in random DNA, find it, and look for it in held-out sequences.

    There are `n_train` and `n_test` sequences with the motif, and as many without. A letter of a planted site is
    replaced with probability `mutation`. `say` prints a line before long work, `callback` is that of fit.
    """
    from latentstruct.datasets import make_planted_motif
    from latentstruct.estimators import LatentSSVM
    from latentstruct.tasks import Motif
    from latentstruct.tasks.motif.sites import best_matches, common_shift, consensus, find_sites, site_matrix

    total = n_train + n_test
    data = make_planted_motif(total, total, length, width, mutation, random_state=seed)
    positive, negative = data.X[:total], data.X[total:]
    if say is not None:
        say(f"looking for a motif in {n_train} of {2 * n_train} sequences of {length} letters")
    X = positive[:n_train] + negative[:n_train]
    Y = [1] * n_train + [-1] * n_train
    began = time.perf_counter()
    model = LatentSSVM(Motif(width), C=C, restarts=restarts).fit(X, Y, callback=callback)
    seconds = time.perf_counter() - began
    sites: list[Site] = find_sites(model, positive[:n_train])
    matrix = site_matrix([site.site for site in sites])
    held_out = positive[n_train:]
    starts = np.array([site.start for site in find_sites(model, held_out)])
    true_starts = np.array([site[0] for site in data.sites[n_train:total] if site is not None])
    shift = common_shift(starts, true_starts, width // 2)
    return DemoResult(
        data.consensus,
        consensus(matrix),
        model.score(held_out + negative[n_train:], [1] * n_test + [-1] * n_test),
        float((starts + shift == true_starts).mean()),
        float((best_matches(held_out, data.consensus) == true_starts).mean()),
        shift,
        matrix,
        starts,
        true_starts,
        length,
        model.history_,
        model.restart_objectives_,
        seconds,
    )


def draw(result: DemoResult, path: Path, n_sequences: int = 24) -> Path:
    """Write a picture of the motif, its sites in held-out sequences, and the course of training; return its path."""
    from latentstruct.viz.plots import plot_logo, require_plots

    require_plots()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.5, 9.2), facecolor="white")
    figure.text(0.03, 0.955, "A motif found from labels of whole sequences", fontsize=21, weight="bold", color=INK)
    figure.text(
        0.03,
        0.918,
        "The training labels say whether a sequence has the motif. Its position and letters are latent.",
        fontsize=12,
        color=MUTED,
    )
    figure.text(0.03, 0.862, "The motif, from the sites chosen in training", **HEADING)
    plot_logo(result.matrix, ax=figure.add_axes((0.065, 0.6, 0.515, 0.23)))
    _write_consensus(figure.add_axes((0.065, 0.5, 0.515, 0.05)), result)
    figure.text(0.64, 0.862, "Objective of each start by iteration", **HEADING)
    _draw_iterations(figure.add_axes((0.7, 0.56, 0.27, 0.27)), result)
    shown = min(n_sequences, len(result.starts))
    figure.text(0.03, 0.43, f"Sites in the first {shown} of {len(result.starts)} held-out sequences", **HEADING)
    _draw_sites(figure.add_axes((0.065, 0.06, 0.515, 0.34)), result, shown)
    figure.text(0.64, 0.43, "Held-out sequences", **HEADING)
    _draw_shares(figure.add_axes((0.66, 0.1, 0.31, 0.29)), result)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path


def _write_consensus(axes: "Axes", result: DemoResult) -> None:
    """Write the planted consensus under the one that was found, letter under letter."""
    axes.set_axis_off()
    axes.set_xlim(0.4, len(result.found) + 0.6)
    axes.set_ylim(0, 2)
    for line, (name, letters, shift) in enumerate(
        (("found", result.found, 0), ("planted", result.planted, result.shift))
    ):
        y = 1.5 - line
        axes.text(0.3, y, name, ha="right", va="center", fontsize=11, color=MUTED)
        for j, letter in enumerate(letters):
            place = j + 1 + shift
            if 1 <= place <= len(result.found):
                axes.text(place, y, letter, ha="center", va="center", fontsize=13, color=INK, family="monospace")


def _draw_iterations(axes: "Axes", result: DemoResult) -> None:
    """Draw the objective of each start over the iterations."""
    from matplotlib.ticker import MaxNLocator

    best = int(np.argmin(result.restart_objectives))
    for start, reached in enumerate(result.restart_objectives):
        lines = [line for line in result.history if line.start == start]
        axes.plot(
            [line.round for line in lines],
            [line.objective for line in lines],
            marker="o",
            markersize=4,
            color=START_COLORS[start % len(START_COLORS)],
            linewidth=2.2 if start == best else 1.4,
            label=f"start {start + 1}: {reached:.3f}" + (" (kept)" if start == best else ""),
        )
    axes.set_xlabel("iteration", fontsize=10.5, color=MUTED)
    axes.set_ylabel("objective", fontsize=10.5, color=MUTED)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=10, labelcolor=INK)
    axes.tick_params(colors=INK, labelsize=9.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_sites(axes: "Axes", result: DemoResult, n_sequences: int) -> None:
    """Draw sequences as lines, the planted sites as light bars and the found ones as marks."""
    width = len(result.planted)
    for i in range(n_sequences):
        y = n_sequences - 1 - i
        axes.plot([0, result.length], [y, y], color="#dfe3e8", linewidth=1.0, zorder=1)
        axes.barh(y, width, left=result.true_starts[i], height=0.8, color=TRUE, zorder=2)
        hit = bool(result.hits[i])
        centre = result.starts[i] + result.shift + width / 2
        axes.scatter(centre, y, s=26, marker="o" if hit else "X", color=FOUND if hit else WRONG, zorder=3)
    axes.set_xlim(0, result.length)
    axes.set_ylim(-1, n_sequences)
    axes.set_yticks([])
    axes.set_xlabel("bars: planted sites; dots: predicted sites; crosses: predictions elsewhere", color=MUTED)
    axes.tick_params(colors=INK, labelsize=9.5)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)


def _draw_shares(axes: "Axes", result: DemoResult) -> None:
    """Draw the fractions of sequences and of sites that are correct."""
    bars = (
        ("accuracy", result.accuracy, FOUND),
        ("sites found", result.sites_found, FOUND),
        ("sites found if the\nmotif were known", result.ceiling, TRUE),
    )
    for x, (name, share, color) in enumerate(bars):
        axes.bar(x, 100 * share, width=0.62, color=color)
        axes.text(x, 100 * share + 2, f"{100 * share:.0f} %", ha="center", fontsize=12, color=INK)
        axes.text(x, -3, name, ha="center", va="top", fontsize=11, color=INK)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_ylim(0, 110)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
