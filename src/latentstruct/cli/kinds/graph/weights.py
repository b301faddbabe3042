"""The strongest weights of models of graphs."""

from typing import Any

from latentstruct.cli.description import strongest
from latentstruct.cli.kind import Trained
from latentstruct.core.lazy import np


def states_of(layout: Any, kind: int) -> list[Any]:
    """Return the labels of a type of nodes, or the names of its hidden states."""
    labels = layout.label_sets[kind]
    return [f"state {k}" for k in range(layout.cards[kind])] if labels is None else labels.labels


def strongest_node_weights(model: Trained, top: int) -> list[dict[str, Any]]:
    """Return the strongest weights of nodes' features."""
    layout, names = model.estimator.task_.layout_, model.features.nodes_.labels()

    def describe(place: int) -> dict[str, Any]:
        block = int(np.searchsorted(layout.node_at, place, side="right")) - 1
        feature, state = divmod(place - int(layout.node_at[block]), int(layout.node_cards[block]))
        kind = block if layout.fixed is None else int(layout.fixed.kinds[block])
        shown = layout.node_types[kind] if layout.fixed is None else f"node {block}"
        return {"type": shown, "feature": names[feature], "label": states_of(layout, kind)[state]}

    return strongest(model.estimator.coef_[: layout.node_at[-1]], top, describe)


def strongest_edge_weights(model: Trained, top: int) -> list[dict[str, Any]]:
    """Return the strongest weights of pairs of labels."""
    layout, edges = model.estimator.task_.layout_, model.features.edges_
    names, first_edge = ["bias"] if edges is None else edges.labels(), int(layout.node_at[-1])

    def describe(number: int) -> dict[str, Any]:
        place = number + first_edge
        block = int(np.searchsorted(layout.edge_at, place, side="right")) - 1
        rest, second = divmod(place - int(layout.edge_at[block]), int(layout.edge_cards[block, 1]))
        feature, first = divmod(rest, int(layout.edge_cards[block, 0]))
        if layout.fixed is None:
            name, p, q = layout.edge_types[block]
            shown = f"{name} ({layout.node_types[p]} – {layout.node_types[q]})"
        else:
            p, q = layout.fixed.kinds[layout.fixed.edges[block]].tolist()
            shown = " – ".join(f"node {v}" for v in layout.fixed.edges[block].tolist())
        ends = {"from": states_of(layout, p)[first], "to": states_of(layout, q)[second]}
        return {"type": shown, "feature": names[feature], **ends}

    return strongest(model.estimator.coef_[first_edge:], top, describe)
