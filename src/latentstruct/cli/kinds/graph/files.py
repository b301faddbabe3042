"""Graphs of a file: whether they can be learned from and judged, and how well their nodes are labelled."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from latentstruct.cli.common import unknown_label
from latentstruct.cli.kind import Trained
from latentstruct.core.unknown import UNKNOWN
from latentstruct.exceptions import InputError
from latentstruct.progress.display import say

if TYPE_CHECKING:
    from latentstruct.cli.kinds.graph.command import GraphOptions
    from latentstruct.io import GraphRecord

EXACT = "exact"
_EXAMPLE = re.compile(r"\b[XY]\[(\d+)\]")


def is_known(node: Any) -> bool:
    """Tell whether a node has a label."""
    return node.label is not None and node.label != UNKNOWN


def graph_name(name: str, k: int, record: "GraphRecord") -> str:
    """Name a graph of a file in messages."""
    return f"{name}: graph {k}" + ("" if record.id is None else f" ({record.id})")


def check_training_labels(records: Sequence["GraphRecord"], options: "GraphOptions") -> int:
    """Raise if labels and hidden types contradict each other or the model; return how many nodes have no label."""
    name = options.data
    types = Counter(node.type for record in records for node in record.nodes)
    for one in options.states:
        if one not in types:
            raise InputError(
                f"--hidden names the type {one!r}, but the nodes of {name} have the types {', '.join(types)}: choose "
                "one of these"
            )
    check_hidden_nodes(records, name, options.states)
    n_unknown = sum(not is_known(node) for record in records for node in record.nodes)
    if n_unknown == sum(types.values()):
        raise InputError(f"no node of {name} has a label; expected some to learn from: add labels")
    if n_unknown and options.model in ("svm", "crf"):
        raise InputError(
            f"{n_unknown} of {sum(types.values())} nodes of {name} have no label, but --model {options.model} "
            "needs all: choose marginal, latent or hidden-crf"
        )
    if not n_unknown and options.restarts > 1:
        raise InputError(
            f"--restarts is {options.restarts}, but every node of {name} has a label, so that all starts end alike; "
            "expected 1: leave it out"
        )
    return n_unknown


def warn_of_unlabelled_types(nodes: Sequence[Any], name: str, hidden: Any) -> None:
    """Tell which types of nodes never have a label, though they are not said to be hidden."""
    said = {*hidden} | {node.type for node in nodes if is_known(node)}
    for one in sorted({node.type for node in nodes} - said):
        say(
            f"warning: no node of the type {one!r} of {name} has a label, so that these are taken to have an unknown "
            f"one of the labels of the others; give --hidden {one}=K if they have K hidden states instead"
        )


def check_hidden_nodes(records: Sequence["GraphRecord"], name: str, hidden: Any) -> None:
    """Raise if a node of a type that is never observed has a label."""
    for k, record in enumerate(records):
        for v, node in enumerate(record.nodes):
            if node.type in hidden and is_known(node):
                raise InputError(
                    f"{graph_name(name, k, record)} has the label {node.label!r} at node {v} of the hidden type "
                    f"{node.type!r}; expected none, as these are never observed: remove the label, or leave the type "
                    "out of --hidden"
                )


def check_held_out_labels(records: Sequence["GraphRecord"], name: str, model: Trained, allow_unknown: bool) -> None:
    """Raise if graphs cannot be judged: a label is missing altogether, or the model does not know it."""
    check_hidden_nodes(records, name, model.estimator.task.hidden or {})
    labelled = False
    for k, record in enumerate(records):
        for v, node in enumerate(record.nodes):
            labelled = labelled or is_known(node)
            if is_known(node) and node.label not in model.labels and not allow_unknown:
                raise unknown_label(f"{graph_name(name, k, record)}, node {v},", node.label, model.labels)
    if not labelled:
        raise InputError(f"no node of {name} has a label; expected some to compare with: give labelled data")


def labels_of_types(records: Sequence["GraphRecord"], hidden: Any) -> dict[str, list[Any]]:
    """Return the labels that nodes of each type have."""
    found: dict[str, set[Any]] = {}
    for record in records:
        for node in record.nodes:
            if node.type not in hidden:
                found.setdefault(node.type, set()).update([node.label] if is_known(node) else [])
    for name, labels in found.items():
        if not labels:
            raise InputError(
                f"no node of the type {name!r} has a label, which --labels-by-type needs: add labels, or say how many "
                f"states these nodes have with --hidden {name}=K"
            )
    return {name: sorted(labels) for name, labels in found.items()}


@contextmanager
def named_graphs(name: str) -> Iterator[None]:
    """Let errors name the graphs of a file instead of examples."""
    try:
        yield
    except InputError as error:
        message = _EXAMPLE.sub(r"graph \1", str(error))
        if message == str(error):
            raise
        message = message.replace("use shared=True", "train without --unshared").replace("shared=False", "--unshared")
        raise InputError(f"{name}: {message}") from error


def compare_graphs(records: Sequence["GraphRecord"], predicted: Sequence[list[Any]]) -> dict[str, Any]:
    """Return the quality of predicted labels, on nodes whose label is known."""
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


def describe_inference(estimator: Any, X: Sequence[Any]) -> str:
    """Tell whether predictions for graphs are exact."""
    from latentstruct.inference.elimination import Elimination

    batch = estimator.task_.prepare(X)
    plan = Elimination(batch.structure, batch.of_hidden_type, estimator.task_.max_entries)
    n_wide = int((~plan.feasible).sum())
    if not n_wide:
        return EXACT
    return f"estimates by belief propagation for {n_wide} of {len(X)} graphs, which are too wide"
