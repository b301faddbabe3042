"""The strongest weights of models of graphs."""

from typing import Any

from latentstruct.cli.description import largest
from latentstruct.cli.kind import Trained


def states_of(layout: Any, kind: int) -> list[Any]:
    """Return the labels of a type of nodes, or the names of its hidden states."""
    labels = layout.label_sets[kind]
    return [f"state {k}" for k in range(layout.cards[kind])] if labels is None else labels.labels


def strongest_node_weights(model: Trained, top: int) -> list[dict[str, Any]]:
    """Return the strongest weights of nodes' features."""
    import numpy as np

    estimator, names = model.estimator, model.features.nodes_.labels()
    layout = estimator.task_.layout_
    found = []
    for place in largest(estimator.coef_[: layout.node_at[-1]], top):
        block = int(np.searchsorted(layout.node_at, place, side="right")) - 1
        feature, state = divmod(place - int(layout.node_at[block]), int(layout.node_cards[block]))
        kind = block if layout.fixed is None else int(layout.fixed.kinds[block])
        shown = layout.node_types[kind] if layout.fixed is None else f"node {block}"
        weight = float(estimator.coef_[place])
        label = states_of(layout, kind)[state]
        found.append({"type": shown, "feature": names[feature], "label": label, "weight": weight})
    return found


def strongest_edge_weights(model: Trained, top: int) -> list[dict[str, Any]]:
    """Return the strongest weights of pairs of labels."""
    import numpy as np

    estimator, edges = model.estimator, model.features.edges_
    layout, names = estimator.task_.layout_, ["bias"] if edges is None else edges.labels()
    found = []
    for number in largest(estimator.coef_[layout.node_at[-1] :], top):
        place = number + int(layout.node_at[-1])
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
        weight = float(estimator.coef_[place])
        found.append({"type": shown, "feature": names[feature], **ends, "weight": weight})
    return found
