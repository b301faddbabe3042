"""Report of clusters of items."""

from latentstruct import io
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.cluster import clusterings
from latentstruct.cli.kinds.cluster.command import KIND, compare_clusters, describe_pairs, pair_names
from latentstruct.viz.plots.features import shorten
from latentstruct.viz.report.blocks import Block, Examples

WHAT = "items"
FEATURES_SHOWN = 3


def weight_blocks(model: Trained) -> list[Block]:
    """Return the strongest features of pairs of items."""
    return clusterings.weight_blocks(
        pair_names(model.record), model.estimator.coef_, bool(model.estimator.task_.latent)
    )


def examples(model: Trained, groups: "io.ItemGroups", source: str) -> Examples:
    """Return predicted clusters of groups, with the forests of links where the model has them."""
    assert groups.clusters is not None
    X = describe_pairs(groups, model.record.relations)

    def names(i: int) -> list[str]:
        return [
            f"row {row + 1}: {', '.join(f'{value:.3g}' for value in values[:FEATURES_SHOWN])}"
            + (" …" if len(values) > FEATURES_SHOWN else "")
            for row, values in zip(groups.rows[i].tolist(), groups.items[i].tolist(), strict=True)
        ]

    found, losses, loss_name = clusterings.predict_clusterings(model.estimator, X, groups.clusters, names)
    return Examples(
        source,
        [shorten(f"group {name}" if name else "all items", 60) for name in groups.names],
        losses,
        loss_name,
        [clusterings.describe(one, WHAT) for one in found],
        lambda i: clusterings.draw(found[i], WHAT),
        KIND.summarize(compare_clusters(groups.clusters, [one.found for one in found])),
    )
