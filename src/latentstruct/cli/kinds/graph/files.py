"""Graphs of a file: checks of their labels, and the quality of predicted labels."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from latentstruct import io
from latentstruct.cli.common import unknown_label
from latentstruct.cli.kind import Trained
from latentstruct.core.unknown import UNKNOWN
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.progress.display import say

if TYPE_CHECKING:
    from latentstruct.cli.kinds.graph.command import GraphOptions

EXACT = "exact"


def is_known(node: Any) -> bool:
    """Return whether a node has a label."""
    return node.label is not None and node.label != UNKNOWN


def graph_name(name: str, k: int, record: "io.GraphRecord") -> str:
    """Name a graph of a file, counted from 1, in messages."""
    return f"{name}, graph {k}" + ("" if record.id is None else f" ({record.id})")


def check_training_labels(records: Sequence["io.GraphRecord"], options: "GraphOptions") -> int:
    """Raise if labels contradict the options; return the number of unlabeled nodes."""
    name = options.data
    types = Counter(node.type for record in records for node in record.nodes)
    for one in options.states:
        if one not in types:
            raise InputError("hidden", one, f"a type of the nodes of {name} ({', '.join(types)})")
    check_hidden_nodes(records, name, options.states)
    n_unknown = sum(not is_known(node) for record in records for node in record.nodes)
    if n_unknown == sum(types.values()):
        raise no_labels(name)
    if n_unknown and options.model in ("svm", "crf"):
        why = f"{n_unknown} of {sum(types.values())} nodes of {name} are unlabeled."
        raise InputError("model", options.model, "marginal, latent or hidden-crf", why)
    if not n_unknown:
        options.refuse("restarts", "if every node has a label")
    return n_unknown


def no_labels(name: str) -> FormatError:
    """Return the error of a file without labels."""
    return FormatError(name, Description("none"), "some nodes with labels")


def warn_of_unlabeled_types(nodes: Sequence[Any], name: str, hidden: Any) -> None:
    """Warn of types of nodes that never have a label, though they are not hidden."""
    known = {*hidden} | {node.type for node in nodes if is_known(node)}
    for one in sorted({node.type for node in nodes} - known):
        say(
            f"warning: all nodes of the type {one!r} of {name} are unlabeled; they have the labels of the other nodes, "
            f"unless --hidden {one}=K gives them K hidden states"
        )


def check_hidden_nodes(records: Sequence["io.GraphRecord"], name: str, hidden: Any) -> None:
    """Raise if a node of a type that is never observed has a label."""
    for k, record in enumerate(records, 1):
        for v, node in enumerate(record.nodes):
            if node.type in hidden and is_known(node):
                where = f"{graph_name(name, k, record)}, node {v}"
                raise FormatError(where, node.label, f"no label, as the type {node.type!r} is hidden")


def check_held_out_labels(records: Sequence["io.GraphRecord"], name: str, model: Trained, allow_unknown: bool) -> None:
    """Raise if graphs cannot be evaluated: all labels are missing, or the model does not know one."""
    if not check_known_labels(records, name, model, allow_unknown):
        raise no_labels(name)


def check_known_labels(records: Sequence["io.GraphRecord"], name: str, model: Trained, allow_unknown: bool) -> bool:
    """Raise if the model does not know a label; return whether there are any labels."""
    check_hidden_nodes(records, name, model.estimator.task.hidden or {})
    labeled = False
    for k, record in enumerate(records, 1):
        for v, node in enumerate(record.nodes):
            labeled = labeled or is_known(node)
            if is_known(node) and node.label not in model.labels and not allow_unknown:
                raise unknown_label(f"{graph_name(name, k, record)}, node {v}", node.label, model.labels)
    return labeled


def labels_of_types(records: Sequence["io.GraphRecord"], hidden: Any) -> dict[str, list[Any]]:
    """Return the labels that nodes of each type have."""
    found: dict[str, set[Any]] = {}
    for record in records:
        for node in record.nodes:
            if node.type not in hidden:
                found.setdefault(node.type, set()).update([node.label] if is_known(node) else [])
    for name, labels in found.items():
        if not labels:
            expected = f"left out if all nodes of a type ({name!r}) are unlabeled"
            raise InputError("labels_by_type", True, expected, f"Or declare the type as `hidden` {name}=K.")
    return {name: sorted(labels) for name, labels in found.items()}


def compare_graphs(records: Sequence["io.GraphRecord"], predicted: Sequence[list[Any]]) -> dict[str, Any]:
    """Return the quality of predicted labels, on labeled nodes."""
    truths: Counter[Any] = Counter()
    guesses: Counter[Any] = Counter()
    right: Counter[Any] = Counter()
    n_judged = n_whole = 0
    for record, labels in zip(records, predicted, strict=True):
        pairs = [(node.label, label) for node, label in zip(record.nodes, labels, strict=True) if is_known(node)]
        truths.update(truth for truth, _ in pairs)
        guesses.update(guess for _, guess in pairs)
        right.update(truth for truth, guess in pairs if truth == guess)
        n_judged += bool(pairs)
        n_whole += bool(pairs) and all(truth == guess for truth, guess in pairs)
    classes = [
        {
            "label": label,
            "n_true": truths[label],
            "n_predicted": guesses[label],
            "precision": right[label] / guesses[label] if guesses[label] else None,
            "recall": right[label] / truths[label] if truths[label] else None,
        }
        for label in sorted(truths | guesses)
    ]
    return {
        "n_examples": len(records),
        "n_nodes": sum(truths.values()),
        "accuracy": sum(right.values()) / sum(truths.values()),
        "example_accuracy": n_whole / n_judged,
        "classes": classes,
    }


WIDE_METHODS = {
    "propagation": "{sums}",
    "bounds": "maxima with upper bounds, sums by {sums}",
    "toulbar2": "maxima by toulbar2, sums by {sums}",
}


def describe_inference(estimator: Any, X: Sequence[Any]) -> str:
    """Return whether predictions for graphs are exact."""
    from latentstruct.inference.elimination import Elimination

    batch = estimator.task_.prepare(X)
    plan = Elimination(batch.structure, batch.of_hidden_type, estimator.task_.max_entries)
    n_wide = int((~plan.feasible).sum())
    if not n_wide:
        return EXACT
    sums = "belief propagation (not exact)"
    method = WIDE_METHODS[estimator.task_.wide].format(sums=sums)
    return f"{method} for {n_wide} of {len(X)} graphs, whose width is too large"
