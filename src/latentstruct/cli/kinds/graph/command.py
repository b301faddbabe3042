"""Models that label the nodes of graphs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from latentstruct import io, tasks
from latentstruct.cli.answers import BEST, RISK, has_probabilities, several
from latentstruct.cli.declaring import argument, option, restarts_option, weight_option
from latentstruct.cli.description import strongest
from latentstruct.cli.kind import Facts, KindSpec, Loaded, Settings, Trained, print_ratios, record_of
from latentstruct.cli.kinds.graph import files
from latentstruct.cli.options import HeldOut, LabelOptions
from latentstruct.cli.parameters import AUTO
from latentstruct.core.lazy import np
from latentstruct.core.parameters import clone
from latentstruct.core.unknown import UNKNOWN
from latentstruct.exceptions import Description, InputError
from latentstruct.progress.display import Progress, say

ESTIMATORS = {
    "marginal": "MarginalSSVM",
    "latent": "LatentSSVM",
    "svm": "StructuralSVM",
    "crf": "CRF",
    "hidden-crf": "HiddenCRF",
}


COMPARED_STATES = (2, 3, 4)
"""Numbers of states of hidden nodes that auto compares."""
WITHOUT_LATENTS = ("svm", "crf")


@dataclass(frozen=True, kw_only=True)
class GraphOptions(LabelOptions):
    """Train on graphs whose nodes have labels, possibly unknown, that depend on each other along edges.

    A line is {"nodes": [{"features": {"size": 2}, "label": "a"}, {"label": null}], "edges": [[0, 1]]}.

    Nodes and edges may have a type; features are named or lists of numbers; a label that is null is unknown.

    Example: latentstruct train graph train.jsonl --hidden topic=3 -C 0.1 --valid test.jsonl -o model
    """

    data: str = argument("Graphs as JSON lines, one per line; - is standard input.", sets="records")
    model: Literal["marginal", "latent", "svm", "crf", "hidden-crf"] = option(
        "marginal",
        "marginal: unknown labels and hidden nodes are summed out; latent: maximized over; svm, crf: all are known; "
        "hidden-crf: likelihood.",
        metavar="NAME",
    )
    C: float = weight_option(1.0, "graph")
    hidden: list[str] | None = option(
        None,
        f"Nodes of this type are never observed and have K states, or {AUTO}: chosen from 2 to 4 by folds, beside 1; "
        "repeatable.",
        metavar="TYPE=K",
    )
    labels_by_type: bool = option(False, "Each type of nodes has its own labels.", sets="labels")
    unshared: bool = option(False, "All graphs are the same; each node and edge has its own weights.", sets="shared")
    no_bias: bool = option(False, "Add no constant feature to nodes, nor to edges with features.")
    min_count: int = option(1, "Minimum number of nodes or edges with a named feature.", min=1)
    max_entries: int = option(2**20, "Largest table for exact inference; beyond it, belief propagation.", min=1)
    wide: Literal["propagation", "bounds", "toulbar2"] = option(
        "propagation",
        "Beyond it, where outputs are maximized: propagation; bounds, with a proven gap; toulbar2.",
        metavar="NAME",
    )
    max_iterations: int = option(200, "Maximum number of sweeps of belief propagation.", min=1)
    restarts: int = restarts_option(1)

    @property
    def chooses(self) -> bool:
        """Whether anything is chosen by folds."""
        return super().chooses or bool(self.auto_type)

    @cached_property
    def auto_type(self) -> str:
        """The type of hidden nodes whose number of states is chosen by folds, empty if there is none."""
        found = [text.removesuffix(f"={AUTO}") for text in self.hidden or [] if text.endswith(f"={AUTO}")]
        if len(found) > 1:
            raise InputError("hidden", Description(f"{AUTO} twice"), f"{AUTO} for one type")
        return "".join(found)

    @cached_property
    def states(self) -> dict[str, int]:
        """The numbers of states of hidden types of nodes."""
        states: dict[str, int] = {}
        for text in self.hidden or []:
            name, equals, count = text.rpartition("=")
            count = str(COMPARED_STATES[0]) if count == AUTO else count
            if not equals or not re.fullmatch("[0-9]{1,9}", count) or int(count) < 1:
                raise InputError("hidden", text, "a type of nodes and its number of states, such as topic=3")
            if name in states:
                raise InputError("hidden", Description(f"{name!r} twice"), "given once per type")
            states[name] = int(count)
        return states

    def estimator(self, records: Sequence["io.GraphRecord"], latent: bool) -> Any:
        """Return the untrained estimator; without latents a latent SSVM is a plain SVM."""
        task = tasks.Graph(
            labels=files.labels_of_types(records, self.states) if self.labels_by_type else None,
            hidden=self.states or None,
            shared=not self.unshared,
            max_entries=self.max_entries,
            wide=self.wide,
            max_iterations=self.max_iterations,
        )
        model = "svm" if self.model == "latent" and not latent else self.model
        restarts = self.restarts if latent else None
        more = {"restarts": restarts, "random_state": self.seed} if model not in WITHOUT_LATENTS else {}
        return self.build(ESTIMATORS[model], task, **more)


class GraphKind(KindSpec):
    """Labels of the nodes of graphs."""

    name = "graph"
    learns_from_part = True
    summary = "Label the nodes of graphs that depend on each other along edges."
    latent = "labels that are null, and nodes of the types given by --hidden"
    reads = 'JSON lines, one per graph: {"nodes": [{"features": {"size": 2}, "label": "a"}, …], "edges": [[0, 1], …]}.'
    example_file = "graph.jsonl"
    prediction_file = "predicted.jsonl"
    predicts = (
        "Graphs: the graphs with predicted labels, their probabilities (not of svm and latent) and hidden states."
    )
    judged_by = "Graphs: accuracy of nodes, and precision and recall of each label."
    options = GraphOptions
    record = record_of(features=dict[str, Any], n_nodes=int, n_edges=int)
    tasks = ("Graph",)
    features = "io.graphs.GraphFeatures"
    judged_on = frozenset({"data", "allow_unknown"})
    answers = frozenset({"topk", "samples", "decode", RISK, "pins"})
    calibrates = True
    item = "graph"
    score_facts = (
        ("graphs", "{n_examples}, {example_accuracy:%} fully correct"),
        ("nodes", "{n_nodes} with known labels, {accuracy:%} correct"),
    )
    headline = (("accuracy", "accuracy"),)
    main = ("accuracy",)
    described = ("record.n_nodes", "record.n_edges")
    tables = (
        ("weights", "strongest weights of nodes", ("type", "feature", "label", "weight")),
        ("edge_weights", "strongest weights of edges", ("type", "feature", "from", "to", "weight")),
    )

    def load(self, options: GraphOptions, progress: Progress) -> Loaded:
        hidden, name = options.states, options.data
        records = io.read_graphs(name)
        nodes = [node for record in records for node in record.nodes]
        n_unknown = files.check_training_labels(records, options)
        files.warn_of_unlabeled_types(nodes, name, hidden)
        labels = frozenset(node.label for node in nodes if files.is_known(node))
        sizes = {"n_examples": len(records), "n_nodes": len(nodes)}
        sizes["n_edges"] = sum(len(record.edges) for record in records)
        progress.say(
            f"read {len(records)} graphs, {len(nodes)} nodes and {sizes['n_edges']} edges from {name}; {n_unknown} "
            "nodes are unlabeled"
        )
        features = io.GraphFeatures(not options.no_bias, options.min_count).fit(records)
        record = self.new_record(sizes, features=features.to_state())
        sizes["n_labels"] = len(labels)
        estimator, X = options.estimator(records, bool(n_unknown)), features.transform(records)
        found = Loaded(X, io.graph_labels(records), estimator, sizes, record, features, labels, records)
        if options.auto_type:
            name = options.auto_type
            sized = {k: {**hidden, name: k} for k in (1, *COMPARED_STATES)}
            # A hidden node with one state leaves nothing to sum out: this is the model without latent variables.
            plain = clone(estimator).set_params(task__hidden=sized.pop(1))
            found.settings = Settings("hidden", "task__hidden", sized, plain)
        return found

    def for_unknown_labels(self, options: GraphOptions, loaded: Loaded) -> Any:
        if options.model in WITHOUT_LATENTS:
            raise InputError("model", options.model, "one for unknown labels, such as marginal")
        estimator = options.estimator(loaded.shown, True)
        return estimator if options.labels_by_type else estimator.set_params(task__labels=sorted(loaded.labels))

    def finish(self, model: Trained, loaded: Loaded) -> dict[str, Any]:
        return {"inference": files.describe_inference(model.estimator, loaded.X)}

    def restore(self, model: Trained) -> "io.GraphFeatures":
        found: io.GraphFeatures = super().restore(model)
        if (found.edges_.n_columns if found.edges_ else 0) != model.estimator.task_.layout_.n_edge_inputs:
            raise model.damaged("its features of edges do not belong to its weights")
        return found

    def known_labels(self, estimator: Any) -> frozenset[Any]:
        return frozenset(estimator.task_.layout_.vocabulary.labels)

    def read(self, model: Trained, held_out: HeldOut) -> "list[io.GraphRecord]":
        name = held_out.data or ""
        records = io.read_graphs(name)
        files.check_held_out_labels(records, name, model, held_out.allow_unknown)
        model.features.transform(records)
        return records

    def find(self, model: Trained, data: "list[io.GraphRecord]") -> list[list[Any]]:
        return [labels.tolist() for labels in self.outputs(model, model.features.transform(data))]

    def labeled_examples(self, model: Trained, data: "list[io.GraphRecord]") -> tuple[Any, Any]:
        labels = [[one if one in model.labels else UNKNOWN for one in item] for item in io.graph_labels(data)]
        return model.features.transform(data), labels

    def compare(self, model: Trained, data: "list[io.GraphRecord]", found: list[list[Any]]) -> dict[str, Any]:
        return files.compare_graphs(data, found)

    def predict(self, model: Trained, data: str, output: str) -> None:
        records, estimator, answers = io.read_graphs(data), model.estimator, model.answers
        X = model.features.transform(records)
        fixed = None
        if answers.pins:
            files.check_known_labels(records, data, model, False)
            fixed = io.graph_labels(records)
        if answers.several:
            ranked = several(estimator, X, answers, fixed)
            graphs, ys = [records[one.example] for one in ranked], [one.y for one in ranked]
            io.write_graphs(output, io.predicted_graphs(graphs, ys, ys, notes=[one.note for one in ranked]))
            return
        confidences = None
        if answers.pins or answers.decode != BEST:
            found: Any = self.outputs(model, X, fixed)
        else:
            found = estimator.predict_latent(X) if estimator.task_.latent else estimator.predict(X)
            confidences = estimator.confidence(X) if has_probabilities(estimator) else None
        inference = files.describe_inference(estimator, X)
        if inference != files.EXACT:
            say(inference)
        hidden = estimator.task_.hidden or {}
        labels = [
            [UNKNOWN if node.type in hidden else label for node, label in zip(record.nodes, one.tolist(), strict=True)]
            for record, one in zip(records, found, strict=True)
        ]
        io.write_graphs(output, io.predicted_graphs(records, labels, found, confidences))

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        print_ratios("labels", "label", [(one["label"], one) for one in scores["classes"]], f1=False)

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        layout = model.estimator.task_.layout_
        types = [
            {"type": name, "hidden": labels is None, "states": states_of(layout, p)}
            for p, (name, labels) in enumerate(zip(layout.node_types, layout.label_sets, strict=True))
        ]
        return {
            **super().describe(model, top),
            "node_types": types,
            "weights": strongest_node_weights(model, top),
            "edge_weights": strongest_edge_weights(model, top),
        }

    def training_facts(self, result: dict[str, Any]) -> Facts:
        return [("inference", result["inference"])]

    def facts(self, result: dict[str, Any]) -> Facts:
        facts = []
        for one in result["node_types"]:
            states = one["states"][:30] + (["…"] if len(one["states"]) > 30 else [])
            shown = f"{len(one['states'])} states" if one["hidden"] else ", ".join(map(str, states))
            facts.append((f"{'hidden ' if one['hidden'] else ''}{one['type']}", shown))
        return facts


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


KIND = GraphKind()
