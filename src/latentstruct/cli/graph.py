"""Models that label the nodes of graphs."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct.cli.common import check_one_stream, reported_errors
from latentstruct.cli.graph_files import (
    EXACT,
    check_training_labels,
    describe_inference,
    is_known,
    labels_of_types,
    named_graphs,
    read_labelled_graphs,
    score_graphs,
    warn_of_unlabelled_types,
)
from latentstruct.cli.graph_weights import states_of, strongest_edge_weights, strongest_node_weights
from latentstruct.cli.old_kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.old_options import (
    JsonOption,
    OutputOption,
    QuietOption,
    ReportOption,
    RestartsOption,
    RoundsOption,
    SecondsOption,
    SeedOption,
    TolOption,
    UnknownOption,
    ValidOption,
    check_model_folder,
)
from latentstruct.cli.training import Training, source_of
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, print_facts, print_table, say, show_percent
from latentstruct.unknown import UNKNOWN

if TYPE_CHECKING:
    from latentstruct.formats import GraphFeatures, GraphRecord
    from latentstruct.report.blocks import Block, Examples


class GraphModel(StrEnum):
    """What to train."""

    marginal = "marginal"
    latent = "latent"
    svm = "svm"
    crf = "crf"
    hidden_crf = "hidden-crf"

    @property
    def estimator(self) -> str:
        """The name of the estimator."""
        names = {"marginal": "MarginalSSVM", "latent": "LatentSSVM", "svm": "StructuralSVM", "crf": "CRF"}
        return names.get(self.value, "HiddenCRF")

    @property
    def takes_latents(self) -> bool:
        """Whether labels may be unknown and nodes hidden."""
        return self not in (GraphModel.svm, GraphModel.crf)


@dataclass(frozen=True)
class GraphModelRecord:
    """What the command keeps beside a model of graphs: its features and the sizes of the training data."""

    features: dict[str, Any]
    n_nodes: int
    n_edges: int
    n_examples: int
    seconds: float
    kind: Literal["graph"] = "graph"


@dataclass(frozen=True)
class GraphChoices:
    """The options of a training."""

    output: Path
    model: GraphModel
    C: float
    hidden: dict[str, int]
    labels_by_type: bool
    shared: bool
    max_entries: int
    max_iterations: int
    restarts: int
    tol: float | None
    max_rounds: int | None
    max_seconds: float | None
    seed: int

    def n_starts(self) -> int:
        """Return how many starts there will be to tell of."""
        return self.restarts if self.model.takes_latents else 0

    def task(self, records: Sequence["GraphRecord"]) -> Any:
        """Return the task."""
        from latentstruct.tasks import Graph

        return Graph(
            labels=labels_of_types(records, self.hidden) if self.labels_by_type else None,
            hidden=self.hidden or None,
            shared=self.shared,
            max_entries=self.max_entries,
            max_iterations=self.max_iterations,
        )

    def estimator(self, task: Any, latent: bool) -> Any:
        """Return the untrained estimator; what completes latents is a plain SVM if there are none."""
        from latentstruct import estimators

        model = GraphModel.svm if self.model is GraphModel.latent and not latent else self.model
        options: dict[str, Any] = {"C": self.C, "tol": self.tol}
        options |= {"max_rounds": self.max_rounds, "max_seconds": self.max_seconds}
        if model.takes_latents:
            options |= {"restarts": self.restarts if latent else None, "random_state": self.seed}
        return getattr(estimators, model.estimator)(task, **options)


TrainArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="Graphs as JSON lines, one a line; - is standard input.")
]
GraphModelOption = Annotated[
    GraphModel,
    typer.Option(
        metavar="NAME",
        help="marginal: unknown labels and hidden nodes are summed out; latent: guessed; svm, crf: there are none; "
        "hidden-crf: of likelihood.",
    ),
]
HiddenOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TYPE=K", help="Nodes of this type are never observed and have K states; repeatable."),
]
OwnLabelsOption = Annotated[bool, typer.Option("--labels-by-type", help="Each type of nodes has labels of its own.")]
UnsharedOption = Annotated[
    bool, typer.Option("--unshared", help="All graphs are the same; each node and edge has its own weights.")
]
BiasOption = Annotated[
    bool, typer.Option("--no-bias", help="Add no constant feature to nodes, nor to edges with features.")
]
MinCountOption = Annotated[
    int, typer.Option(min=1, help="Nodes or edges that must have a named feature for it to be kept.")
]
MaxEntriesOption = Annotated[
    int, typer.Option(min=1, help="Largest table for exact inference; beyond it, belief propagation.")
]
MaxIterationsOption = Annotated[int, typer.Option(min=1, help="Sweeps of belief propagation.")]


@reported_errors()
def train_graph(
    data: TrainArgument,
    output: OutputOption = Path("model"),
    model: GraphModelOption = GraphModel.marginal,
    C: Annotated[float, typer.Option("-C", metavar="NUMBER", help="Weight of each graph against ½‖w‖².")] = 1.0,
    hidden: HiddenOption = None,
    labels_by_type: OwnLabelsOption = False,
    unshared: UnsharedOption = False,
    no_bias: BiasOption = False,
    min_count: MinCountOption = 1,
    max_entries: MaxEntriesOption = 2**20,
    max_iterations: MaxIterationsOption = 200,
    restarts: RestartsOption = 1,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    valid: ValidOption = None,
    allow_unknown: UnknownOption = False,
    report: ReportOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Train on graphs whose nodes have labels, some of them unknown, and depend on each other along edges.

    A line is {"nodes": [{"features": {"size": 2}, "label": "a"}, {"label": null}], "edges": [[0, 1]]}.

    Nodes and edges may have a type; features are named or lists of numbers; a label that is null is unknown.

    Ctrl-C saves the best weights so far.

    Example: latentstruct train graph train.jsonl --hidden topic=3 -C 0.1 --valid test.jsonl -o model
    """
    from latentstruct.formats import GraphFeatures

    check_one_stream(data, valid)
    structure = (parse_hidden(hidden or []), labels_by_type, not unshared, max_entries, max_iterations)
    choices = GraphChoices(output, model, C, *structure, restarts, tol, max_rounds, max_seconds, seed)
    progress = Progress(quiet, n_starts=choices.n_starts())
    features = GraphFeatures(not no_bias, min_count)
    train = read_graphs_to_train(data, choices, features, progress)
    score, shown = None, train.records
    if valid is not None:
        shown = read_labelled_graphs(valid, features, train.labels, choices.hidden, allow_unknown)

        def score(estimator: Any) -> dict[str, Any]:
            return score_graphs(estimator, features, shown, valid)

    def examples(trained: Trained) -> "Examples":
        return GraphKind().examples(trained, shown, source_of(valid, data))

    with named_graphs(data):
        training = make_training(train, choices, features, score)
        training.report, training.examples = report, examples
        training.run(progress, json)


@dataclass(frozen=True)
class GraphsToTrain:
    """Graphs, the labels of their nodes, and how many of these have none."""

    records: list["GraphRecord"]
    n_nodes: int
    n_edges: int
    n_unknown: int
    labels: set[Any]


def read_graphs_to_train(
    name: str, choices: GraphChoices, features: "GraphFeatures", progress: Progress
) -> GraphsToTrain:
    """Read graphs and learn their features."""
    from latentstruct.formats import read_graphs

    check_model_folder(choices.output)
    records = read_graphs(name)
    nodes = [node for record in records for node in record.nodes]
    n_edges = sum(len(record.edges) for record in records)
    n_unknown = check_training_labels(records, name, choices)
    warn_of_unlabelled_types(records, name, choices)
    progress.say(
        f"read {len(records)} graphs, {len(nodes)} nodes and {n_edges} edges from {name}; {n_unknown} nodes have no "
        "known label"
    )
    features.fit(records)
    return GraphsToTrain(records, len(nodes), n_edges, n_unknown, {node.label for node in nodes if is_known(node)})


def make_training(
    train: GraphsToTrain,
    choices: GraphChoices,
    features: "GraphFeatures",
    score: Callable[[Any], dict[str, Any]] | None,
) -> Training:
    """Return the training of graphs whose features are learned."""
    from latentstruct.formats import graph_labels

    X, Y = features.transform(train.records), graph_labels(train.records)
    sizes = {"n_examples": len(X), "n_nodes": train.n_nodes, "n_edges": train.n_edges, "n_labels": len(train.labels)}
    estimator = choices.estimator(choices.task(train.records), bool(train.n_unknown))

    def record(_: Any, seconds: float) -> GraphModelRecord:
        return GraphModelRecord(features.to_state(), train.n_nodes, train.n_edges, len(X), seconds)

    def finish(trained: Any) -> dict[str, Any]:
        return {"inference": describe_inference(trained, X)}

    return Training(GraphKind(), choices.output, estimator, X, Y, sizes, record, score, finish)


def parse_hidden(given: Sequence[str]) -> dict[str, int]:
    """Read TYPE=K options."""
    states: dict[str, int] = {}
    for text in given:
        name, equals, count = text.rpartition("=")
        if not equals or not re.fullmatch("[0-9]{1,9}", count) or int(count) < 1:
            raise InputError(
                f"--hidden is {text!r}; expected a type of nodes and its number of states, such as topic=3: correct it"
            )
        if name in states:
            raise InputError(f"--hidden names the type {name!r} twice; expected each type once: leave one of them out")
        states[name] = int(count)
    return states


def restore_features(model: Trained) -> "GraphFeatures":
    """Return the features a model was trained with."""
    from latentstruct.formats import GraphFeatures

    try:
        features = GraphFeatures.from_state(model.record.features)
    except InputError as error:
        raise model.damaged(str(error)) from error
    layout = model.estimator.task_.layout_
    widths = tuple(0 if columns is None else columns.n_columns for columns in (features.nodes_, features.edges_))
    if widths != (layout.n_inputs, layout.n_edge_inputs):
        raise model.damaged("its features do not belong to its weights")
    return features


class GraphKind(Kind):
    """Labels of the nodes of graphs."""

    name = "graph"
    summary = "Label the nodes of graphs that depend on each other along edges."
    latent = "the labels of nodes that are null, and nodes of the types that --hidden names"
    reads = (
        'JSON lines, one for each graph: {"nodes": [{"features": {"size": 2}, "label": "a"}, …], "edges": [[0, 1], …]}.'
    )
    example_file = "graph.jsonl"
    prediction_file = "predicted.jsonl"
    record = GraphModelRecord
    train = staticmethod(train_graph)
    judged_on = frozenset({"data", "allow_unknown"})

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks import Graph

        return isinstance(model.estimator.task_, Graph)

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write the graphs with predicted labels, their confidence and the states of hidden nodes."""
        from latentstruct.formats import predicted_graphs, read_graphs, write_graphs

        features, estimator = restore_features(model), model.estimator
        records = read_graphs(data)
        hidden = estimator.task_.hidden or {}
        with named_graphs(data):
            X = features.transform(records)
            found = estimator.predict_latent(X) if estimator.task_.latent else estimator.predict(X)
            confidences = estimator.confidence(X) if has_probabilities(estimator) else None
            inference = describe_inference(estimator, X)
        if inference != EXACT:
            say(inference)
        labels = [
            [UNKNOWN if node.type in hidden else label for node, label in zip(record.nodes, one.tolist(), strict=True)]
            for record, one in zip(records, found, strict=True)
        ]
        write_graphs(output, predicted_graphs(records, labels, found, confidences))
        sys.stdout.flush()

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return accuracies and the quality of each label."""
        records = self.read_held_out(model, held_out)
        return score_graphs(model.estimator, restore_features(model), records, held_out.data or "")

    def read_held_out(self, model: Trained, held_out: HeldOut) -> "list[GraphRecord]":
        """Return graphs some of whose nodes have labels."""
        features, task = restore_features(model), model.estimator.task_
        known = set(task.layout_.vocabulary.labels)
        name, allow_unknown = held_out.data or "", held_out.allow_unknown
        return read_labelled_graphs(name, features, known, task.hidden or {}, allow_unknown)

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return the strongest weights, pairs of labels and hidden states."""
        from latentstruct.cli.reports.graph import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: "list[GraphRecord]", source: str) -> "Examples":
        """Return predicted labels of graphs."""
        from latentstruct.cli.reports.graph import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print accuracies and a table of the labels."""
        print_facts(
            [
                ("graphs", f"{scores['n_examples']}, {show_percent(scores['example_accuracy'])} wholly right"),
                ("nodes", f"{scores['n_nodes']} with known labels, {show_percent(scores['accuracy'])} right"),
            ]
        )
        rows = [
            [
                str(one["label"]),
                *("–" if one[key] is None else show_percent(one[key]) for key in ("precision", "recall")),
                str(one["n_true"]),
                str(one["n_predicted"]),
            ]
            for one in scores["classes"]
        ]
        print_table("labels", ("label", "precision", "recall", "true", "predicted"), rows)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the accuracy."""
        return [("accuracy", show_percent(scores["accuracy"]))]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the accuracy."""
        value: float = scores["accuracy"]
        return value

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return types, labels and the strongest weights."""
        layout, features = model.estimator.task_.layout_, restore_features(model)
        types = [
            {"type": name, "hidden": labels is None, "states": states_of(layout, p)}
            for p, (name, labels) in enumerate(zip(layout.node_types, layout.label_sets, strict=True))
        ]
        return {
            "n_nodes": model.record.n_nodes,
            "n_edges": model.record.n_edges,
            "node_types": types,
            "weights": strongest_node_weights(model.estimator, features, top),
            "edge_weights": strongest_edge_weights(model.estimator, features, top),
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return the types of nodes and, after training, how inference is done."""
        facts = [("inference", result["inference"])] if "inference" in result else []
        for one in result.get("node_types", []):
            states = one["states"][:30] + (["…"] if len(one["states"]) > 30 else [])
            shown = f"{len(one['states'])} states" if one["hidden"] else ", ".join(map(str, states))
            facts.append((f"{'hidden ' if one['hidden'] else ''}{one['type']}", shown))
        return facts

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the strongest weights."""
        rows = [(one["type"], one["feature"], str(one["label"]), f"{one['weight']:+.4f}") for one in result["weights"]]
        print_table("strongest weights of nodes", ("type", "feature", "label", "weight"), rows, n_text=3)
        rows = [
            (one["type"], one["feature"], f"{one['from']} – {one['to']}", f"{one['weight']:+.4f}")
            for one in result["edge_weights"]
        ]
        if rows:
            print_table("strongest weights of edges", ("type", "feature", "labels", "weight"), rows, n_text=3)


def has_probabilities(estimator: Any) -> bool:
    """Tell whether a model sums over labels or hidden states, so that its labels have probabilities."""
    return type(estimator).__name__ not in ("LatentSSVM", "StructuralSVM")
