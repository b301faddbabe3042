"""Report of clusters of items; its blocks also show clusters of mentions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct import io
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.cluster.command import describe_pairs
from latentstruct.metrics.clusters import number_clusters
from latentstruct.viz.plots.features import can_write, shorten
from latentstruct.viz.plots.forests import HEIGHT_OF_ITEM, called_clusters, lettered_clusters, plot_forest
from latentstruct.viz.report.blocks import Block, Drawing, Examples, TableBlock, Text

WHAT = "items"
FEATURES_SHOWN = 3


def examples(model: Trained, groups: "io.ItemGroups", found: Any) -> Examples:
    """Return predicted clusters of groups, with the forests of links where the model has them."""
    assert groups.clusters is not None

    def names(i: int) -> list[str]:
        return [
            f"row {row + 1}: {', '.join(f'{value:.3g}' for value in values[:FEATURES_SHOWN])}"
            + (" …" if len(values) > FEATURES_SHOWN else "")
            for row, values in zip(groups.rows[i].tolist(), groups.items[i].tolist(), strict=True)
        ]

    X = partial(describe_pairs, groups, model.record.relations)
    parts, losses, loss_name = clusterings(model.estimator, X, groups.clusters, found, names)
    return Examples(
        [shorten(f"group {name}" if name else "all items", 60) for name in groups.names],
        losses,
        loss_name,
        [describe(one, WHAT) for one in parts],
        lambda i: draw(parts[i], WHAT),
    )


ITEMS_SHOWN = 36
"""Number of consecutive items that are shown of an example; of more those with the most errors."""
LONGEST_LIST = 12
FOREST_WIDTH = 4.6


class Clustering(NamedTuple):
    """An example: the names of its items, their predicted and true clusters, and the forest of links if any."""

    names: Sequence[str]
    found: NDArray[np.int64]
    truth: NDArray[np.int64]
    forest: NDArray[np.int64] | None

    def part(self) -> tuple[slice, "Clustering"]:
        """Return the slice of items that are shown, and the clustering of these."""
        errors = self.errors()
        first = 0
        if len(errors) > ITEMS_SHOWN:
            sums = np.convolve(errors, np.ones(ITEMS_SHOWN), mode="valid")
            first = int(sums.argmax())
        window = slice(first, min(first + ITEMS_SHOWN, len(errors)))
        forest = self.forest
        if forest is not None:
            inside = ((forest >= window.start) & (forest < window.stop)).all(axis=1)
            forest = forest[inside] - window.start
        return window, Clustering(self.names[window], self.found[window], self.truth[window], forest)

    def errors(self) -> NDArray[np.bool_]:
        """Return which items follow an item of another true cluster in their predicted one, or wrongly none."""
        wrong = np.zeros(len(self.found), dtype=bool)
        last: dict[int, int] = {}
        begun: set[int] = set()
        for j, (found, truth) in enumerate(zip(self.found.tolist(), self.truth.tolist(), strict=True)):
            before = last.get(found)
            wrong[j] = truth in begun if before is None else self.truth[before] != truth
            last[found] = j
            begun.add(truth)
        return wrong


def clusterings(
    estimator: Any,
    inputs: Callable[[], Sequence[Any]],
    truth: Sequence[Any],
    found: Any,
    names: Callable[[int], Sequence[str]],
) -> tuple[list[Clustering], NDArray[np.float64], str]:
    """Return predicted clusters with their losses, and the name of the loss; forests need the inputs of the task."""
    latent = bool(estimator.task_.latent)
    forests = estimator.predict_latent(inputs()) if latent else [None] * len(found)
    parts = [
        Clustering(names(i), np.asarray(found[i]), number_clusters(truth[i], "the truth"), forests[i])
        for i in range(len(found))
    ]
    if not latent:
        return parts, estimator.task_.loss(truth, found), "fraction of wrong pairs"
    losses = estimator.task_.loss(truth, found, forests)
    penalty = estimator.task_.penalty
    return parts, losses, f"missing links + {'' if penalty == 1 else f'{penalty:g} × '}wrong links"


def describe(one: Clustering, what: str) -> str:
    """Return a short description of a predicted clustering."""
    n_found, n_true = (len(np.unique(clusters)) for clusters in (one.found, one.truth))
    text = f"{len(one.found)} {what}: {n_found} clusters predicted, {n_true} true"
    if one.forest is None or not len(one.forest):
        return text
    crossing = int((one.truth[one.forest[:, 0]] != one.truth[one.forest[:, 1]]).sum())
    return f"{text}; {crossing} of {len(one.forest)} links are wrong"


def draw(one: Clustering, what: str) -> list[Block]:
    """Return the forest of links as arcs, or tables of the clusters where there is no forest."""
    window, part = one.part()
    whole = len(one.found)
    blocks: list[Block] = []
    if len(part.found) < whole:
        blocks.append(
            Text(
                f"The {what} {window.start + 1} to {window.stop} of {whole}, which have the most errors. Clusters are "
                "numbered within this part, and links that leave it are not shown."
            )
        )
    if part.forest is None or not can_write(part.names):
        return [*blocks, cluster_table(part, what)]
    wrong = int((part.truth[part.forest[:, 0]] != part.truth[part.forest[:, 1]]).sum()) if len(part.forest) else 0
    forest = part.forest
    return [
        *blocks,
        Drawing(
            lambda ax: plot_forest(forest, part.found, part.names, part.truth, ax),
            f"{len(part.found)} {what} in a column with {len(forest)} predicted links as arcs, {wrong} of which "
            "join different true clusters.",
            "The latent forest: each arc is a predicted link. Numbers are predicted clusters, letters true ones, a "
            "dash is a cluster of one; dashed red links join different true clusters.",
            width=FOREST_WIDTH,
            height=0.3 + HEIGHT_OF_ITEM * len(part.found),
        ),
    ]


def cluster_table(part: Clustering, what: str) -> TableBlock:
    """Return the predicted clusters with their items and the letters of their true clusters."""
    numbers, letters = called_clusters(part.found), lettered_clusters(part.truth)
    rows = []
    for number in dict.fromkeys(numbers):
        members = [k for k, one in enumerate(numbers) if one == number]
        shown = [f"{shorten(part.names[k])} ({letters[k]})" for k in members[:LONGEST_LIST]]
        more = f" and {len(members) - LONGEST_LIST} more" if len(members) > LONGEST_LIST else ""
        rows.append([number, " · ".join(shown) + more, len(members)])
    note = "The letter is the true cluster; a dash is a cluster of one, predicted or true."
    return TableBlock("Predicted clusters", ("cluster", what, "size"), rows, note, n_text=2)
