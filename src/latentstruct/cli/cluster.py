"""Models that put the items of a group into clusters, whatever the items are."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct.cli.clusterings import (
    ClusterModel,
    ClusterModelOption,
    is_cluster_task,
    measure_clusters,
    show_measures,
)
from latentstruct.cli.common import reported_errors
from latentstruct.cli.description import show_features, strongest_features
from latentstruct.cli.old_kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.old_options import (
    JsonOption,
    LatentChoices,
    OutputOption,
    QuietOption,
    ReportOption,
    RoundsOption,
    SecondsOption,
    SeedOption,
    TolOption,
    ValidOption,
)
from latentstruct.cli.training import Training, source_of
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, print_facts, show_percent

if TYPE_CHECKING:
    from latentstruct.formats.groups import ItemGroups
    from latentstruct.report.blocks import Block, Examples


@dataclass(frozen=True)
class ClusterRecord:
    """What the command keeps beside a model of clusters: how pairs are described."""

    feature_names: list[str]
    relations: list[str]
    n_items: int
    n_examples: int
    seconds: float
    kind: Literal["cluster"] = "cluster"


@reported_errors()
def train_cluster(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Items as .csv or .tsv; - is standard input, with commas.")
    ],
    output: OutputOption = Path("model"),
    model: ClusterModelOption = ClusterModel.correlation,
    relations: Annotated[
        str, typer.Option(metavar="NAMES", help="What is said of a pair: difference, product, cosine, distance.")
    ] = "difference,cosine",
    C: Annotated[
        float | None,
        typer.Option("-C", metavar="NUMBER", show_default="100; latent 1", help="Weight of each group against ½‖w‖²."),
    ] = None,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    valid: ValidOption = None,
    report: ReportOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Train on groups of items with known clusters: a table with the columns group, cluster, and features.

    Clusters are found within each group; new groups have clusters of their own. Ctrl-C saves the best weights so far.

    Example: latentstruct train cluster items.csv --valid more.csv -o clusters
    """
    from latentstruct.tasks import Coreference, CorrelationClustering

    latent = model is ClusterModel.latent
    # The latent loss counts items, that of pairs is a share.
    default = 1.0 if latent else 100.0
    choices = LatentChoices(output, default if C is None else C, tol, max_rounds, max_seconds, seed)
    choices.check(data, valid)
    chosen = parse_relations(relations)
    progress = Progress(quiet, n_starts=int(latent))
    groups = read_labelled(data)
    held_out = None if valid is None else read_labelled(valid, groups.feature_names)
    n_items = sum(map(len, groups.rows))
    if n_items == len(groups):
        raise InputError(
            f"every group of {data} has a single item; expected pairs to learn from: check the column group, or leave "
            "it out if all items are one group"
        )
    progress.say(f"read {len(groups)} groups, {n_items} items from {data}")
    X = describe_pairs(groups, chosen)

    def record(_: Any, seconds: float) -> ClusterRecord:
        return ClusterRecord(groups.feature_names, chosen, n_items, len(groups), seconds)

    score = None
    if held_out is not None:

        def score(estimator: Any) -> dict[str, Any]:
            return score_clusters(estimator, held_out, chosen)

    def examples(trained: Trained) -> "Examples":
        return ClusterKind().examples(trained, held_out or groups, source_of(valid, data))

    n_pairs, n_features = sum(x.shape[0] for x in X), X[0].shape[1]
    sizes = {"n_examples": len(X), "n_items": n_items, "n_pairs": n_pairs, "n_features": n_features}
    estimator = choices.estimator(Coreference() if latent else CorrelationClustering())
    training = Training(ClusterKind(), output, estimator, X, groups.clusters, sizes, record, score)
    training.report, training.examples = report, examples
    training.run(progress, json)


def parse_relations(text: str) -> list[str]:
    """Return names separated by commas."""
    from latentstruct.pairing import RELATIONS

    chosen = [name.strip() for name in text.split(",")]
    if not set(chosen) <= set(RELATIONS) or len(set(chosen)) < len(chosen):
        raise InputError(
            f"--relations is {text!r}; expected some of {', '.join(RELATIONS)}, separated by commas and each once: "
            "correct it"
        )
    return chosen


def describe_pairs(groups: "ItemGroups", relations: list[str]) -> list[Any]:
    """Return the features of the pairs of each group."""
    from latentstruct.pairing import pair_features

    found = []
    for name, items in zip(groups.names, groups.items, strict=True):
        try:
            found.append(pair_features(items, relations))
        except InputError as error:
            raise InputError(f"{f'group {name!r}: ' if name else ''}{error}") from error
    return found


def read_named(name: str, feature_names: list[str] | None = None) -> "ItemGroups":
    """Read groups, with the features of a model if they are given."""
    from latentstruct.formats.groups import read_groups

    groups = read_groups(name)
    if feature_names is not None and groups.feature_names != feature_names:
        raise InputError(
            f"{name} has the features {', '.join(groups.feature_names)}; expected {', '.join(feature_names)} in this "
            "order, as in training: correct the columns"
        )
    return groups


def read_labelled(name: str, feature_names: list[str] | None = None) -> "ItemGroups":
    """Read groups with known clusters."""
    groups = read_named(name, feature_names)
    if groups.clusters is None:
        raise InputError(f"{name} has no column cluster; expected the cluster of each item: add the column")
    return groups


def score_clusters(estimator: Any, groups: "ItemGroups", relations: list[str]) -> dict[str, Any]:
    """Return the quality of predicted clusters."""
    assert groups.clusters is not None
    return measure_clusters(estimator, describe_pairs(groups, relations), groups.clusters)


class ClusterKind(Kind):
    """Clusters of any items."""

    name = "cluster"
    summary = "Cluster the items of groups, such as offers of the same product."
    latent = "with --model latent, which links hold a cluster together"
    reads = "A table (.csv, .tsv) with the columns group, cluster and features."
    example_file = "cluster.csv"
    prediction_file = "predicted.csv"
    record = ClusterRecord
    train = staticmethod(train_cluster)

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.pairing import pair_feature_names

        task, record = model.estimator.task_, model.record
        if not is_cluster_task(task):
            return False
        try:
            return len(pair_feature_names(record.feature_names, record.relations)) == task.n_features
        except InputError:
            return False

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write the cluster of each item beside its group, in the order of the file."""
        from latentstruct.formats.groups import write_groups

        groups = read_named(data, model.record.feature_names)
        write_groups(output, groups, model.estimator.predict(describe_pairs(groups, model.record.relations)))
        sys.stdout.flush()

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return the measures of clusters."""
        return score_clusters(model.estimator, self.read_held_out(model, held_out), model.record.relations)

    def read_held_out(self, model: Trained, held_out: HeldOut) -> "ItemGroups":
        """Return groups with known clusters."""
        return read_labelled(held_out.data or "", model.record.feature_names)

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return the strongest features of pairs."""
        from latentstruct.cli.reports.cluster import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: "ItemGroups", source: str) -> "Examples":
        """Return predicted clusters, with their forests where the model has them."""
        from latentstruct.cli.reports.cluster import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print a table of the measures."""
        print_facts(
            [
                ("groups", f"{scores['n_examples']}, {scores['n_items']} items"),
                ("pair loss", f"{show_percent(scores['pair_loss'])} (mean over groups of the share of wrong pairs)"),
            ]
        )
        show_measures(scores)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the F1 of pairs and the pair loss."""
        return [("pair F1", show_percent(scores["pairs"]["f1"])), ("pair loss", show_percent(scores["pair_loss"]))]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the F1 of pairs."""
        value: float = scores["pairs"]["f1"]
        return value

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return how pairs are described, and the strongest weights."""
        from latentstruct.pairing import pair_feature_names

        names, weights = pair_feature_names(model.record.feature_names, model.record.relations), model.estimator.coef_
        strongest = strongest_features(weights, names.__getitem__, top)
        return {
            "relations": model.record.relations,
            "n_items": model.record.n_items,
            "n_features": len(names),
            "weights": strongest,
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return the number of items and what is said of pairs, of a model's description."""
        if "relations" not in result:
            return []
        return [("items", str(result["n_items"])), ("relations", ", ".join(result["relations"]))]

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the strongest weights."""
        show_features(result)
