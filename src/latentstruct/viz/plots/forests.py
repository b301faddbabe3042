"""Spanning forests as arcs between items."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import check_length
from latentstruct.metrics.clusters import number_clusters
from latentstruct.viz.plots.axes import new_axes, on_axes
from latentstruct.viz.plots.colors import SINGLE, WRONG, shade
from latentstruct.viz.plots.features import drawn_text
from latentstruct.viz.plots.graphs import check_graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT_OF_ITEM = 0.24
"""Height of an item in inches."""
LETTERS = 40
"""Maximum characters of an item's name."""
ARCS_WIDTH, NAMES_WIDTH = 3.4, 9.6
"""Margins left and right of the items, in widths of a cluster number."""


@on_axes
def plot_forest(
    edges: Any, clusters: Any, names: Sequence[str] | None = None, truth: Any = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw items below each other, with the links between them as arcs and the number of each one's cluster.

    Clusters have colors too, which repeat after some; a single item in a cluster is gray and has a dash instead of
    a number. With `truth`, the letters of the true clusters precede the names, and links between different true
    clusters are dashed and red.

    Parameters
    ----------
    edges : int array of shape (E, 2)
        The links, by the positions of their items.
    clusters : sequence of m hashables
        The cluster of each item.
    names : sequence of m str, optional
        Labels of the items; by default their positions.
    truth : sequence of m hashables, optional
        The true clusters.
    """
    numbers = _numbered(clusters, "clusters")
    true_numbers = None if truth is None else _numbered(truth, "truth", len(numbers))
    links = check_graph(len(numbers), edges, "item")
    shown = [str(k) for k in range(len(numbers))] if names is None else [str(name) for name in names]
    check_length(shown, len(numbers), "names", "names")
    ax = new_axes(0.4 + HEIGHT_OF_ITEM * len(numbers)) if ax is None else ax
    _draw_arcs(ax, links, numbers, true_numbers)
    for k, (number, name) in enumerate(zip(numbers, shown, strict=True)):
        ax.plot([0.0], [k], marker="o", markersize=5, color=_color(number), zorder=3)
        columns: list[tuple[float, str, dict[str, Any]]] = [
            (0.3, _called(number), {"fontweight": "bold"}),
            (2.0, drawn_text(name, LETTERS), {}),
        ]
        if true_numbers is not None:
            columns.append((1.1, _lettered(true_numbers[k]), {"fontstyle": "italic"}))
        for x, text, look in columns:
            ax.text(x, k, text, ha="left", va="center", fontsize="small", **look)
    ax.set_xlim(-ARCS_WIDTH, NAMES_WIDTH)
    ax.set_ylim(len(numbers) - 0.4, -0.6)
    ax.set_axis_off()
    return ax


def called_clusters(clusters: Any) -> list[str]:
    """Return the label of each item's cluster in `plot_forest`: a number, or a dash for single items."""
    return [_called(number) for number in _numbered(clusters, "clusters")]


def lettered_clusters(truth: Any) -> list[str]:
    """Return the label of each item's true cluster in `plot_forest`: a letter, or a dash for single items."""
    return [_lettered(number) for number in _numbered(truth, "truth")]


def _numbered(clusters: Any, name: str, n_items: int | None = None) -> list[int]:
    """Return cluster numbers from 0 by first appearance, −1 for single items."""
    found = number_clusters(clusters, name).tolist()
    if n_items is not None:
        check_length(found, n_items, name, "labels")
    sizes = Counter(found)
    order = {cluster: k for k, cluster in enumerate(dict.fromkeys(c for c in found if sizes[c] > 1))}
    return [order.get(cluster, -1) for cluster in found]


def _color(number: int) -> str:
    return SINGLE if number < 0 else shade(number)


def _called(number: int) -> str:
    return "–" if number < 0 else str(number + 1)


def _lettered(number: int) -> str:
    """Return A, B, …, Z, AA, AB, … for a cluster, a dash for none."""
    text, rest = "", number + 1
    while rest > 0:
        rest, digit = divmod(rest - 1, 26)
        text = chr(ord("A") + digit) + text
    return text or "–"


def _draw_arcs(ax: "Axes", links: NDArray[np.int64], numbers: list[int], truth: list[int] | None) -> None:
    """Draw half ellipses to the left of the items, wider for distant items."""
    lengths = np.abs(links[:, 1] - links[:, 0])
    longest = max(1, int(lengths.max())) if len(lengths) else 1
    turn = np.linspace(0.0, np.pi, 25)
    for (i, j), length in zip(links.tolist(), lengths.tolist(), strict=True):
        across = truth is not None and (truth[i] != truth[j] or truth[i] < 0)
        width = 0.95 * ARCS_WIDTH * max(0.12, (length / longest) ** 0.6)
        color, style = (WRONG, "--") if across else (_color(numbers[i]), "-")
        x, y = -width * np.sin(turn), (i + j) / 2 + (j - i) / 2 * np.cos(turn)
        ax.plot(x, y, linewidth=1.3, linestyle=style, color=color, zorder=2)
