"""Models that cluster the items of groups."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from latentstruct import io, metrics, tasks
from latentstruct.cli.common import located
from latentstruct.cli.declaring import argument, option, weight_option
from latentstruct.cli.kind import KindSpec, Loaded, Trained, record_of
from latentstruct.cli.lazy import item_pairs
from latentstruct.cli.options import HeldOut, TrainOptions
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.progress.display import Progress, print_table, show_percent

MEASURES = {
    "muc": "MUC",
    "b_cubed": "B³",
    "ceaf_entity": "CEAF-e",
    "ceaf_mention": "CEAF-m",
    "lea": "LEA",
    "pairs": "pairs",
}


ClusterModel = Literal["latent", "correlation"]


def cluster_model_option(default: ClusterModel) -> Any:
    """Return the option that chooses the model of clusters."""
    return option(default, "latent: hidden forests of links; correlation: all pairs of a cluster.", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(TrainOptions):
    """Train on groups of items with known clusters: a table with the columns group, cluster, and features.

    Clusters are found within each group.

    Example: latentstruct train cluster items.csv --valid more.csv -o clusters
    """

    data: str = argument("Items as .csv or .tsv; - is standard input, with commas.")
    model: ClusterModel = cluster_model_option("correlation")
    relations: str = option(
        "difference,cosine", "Features of a pair: difference, product, cosine, distance.", metavar="NAMES"
    )
    C: float | None = weight_option(None, "group", "100; latent 1")


class ClusteringKind(KindSpec):
    """Common to models of clusters of mentions and of any items."""

    tasks = ("Coreference", "CorrelationClustering")
    weights_mean = "positive weights are for two items being in one cluster"

    def clustering(self, options: Any, latent_C: float, penalty: float = 1.0) -> Any:
        """Return the untrained estimator; the latent loss counts items, that of pairs is a fraction."""
        latent = options.model == "latent"
        C = options.C or (latent_C if latent else 100.0)
        return options.latent_svm(tasks.Coreference(penalty) if latent else tasks.CorrelationClustering(), C=C)

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        rows = [
            [shown, *(show_percent(scores[name][part]) for part in ("precision", "recall", "f1"))]
            for name, shown in MEASURES.items()
        ]
        print_table("", ("measure", "precision", "recall", "F1"), rows)


class ClusterKind(ClusteringKind):
    """Clusters of any items."""

    name = "cluster"
    item = "group"
    summary = "Cluster the items of groups, such as offers of the same product."
    latent = "with --model latent, which links hold a cluster together"
    reads = "A table (.csv, .tsv) with the columns group, cluster and features."
    example_file = "cluster.csv"
    prediction_file = "predicted.csv"
    predicts = "Items: the columns group, if DATA has it, and cluster."
    judged_by = "Items: MUC, B³, CEAF, LEA and pairs."
    options = ClusterOptions
    record = record_of(feature_names=list[str], relations=list[str], n_items=int)
    score_facts = (
        ("groups", "{n_examples}, {n_items} items"),
        ("pair loss", "{pair_loss:%} (mean over groups of the fraction of wrong pairs)"),
    )
    per_example = ("names", "rows", "items", "clusters")
    headline = (("pair F1", "pairs.f1"), ("pair loss", "pair_loss"))
    main = ("pairs.f1",)
    described = ("record.relations", "record.n_items", "estimator.task_.n_features")
    info_facts = (("items", "{n_items}"), ("relations", "{relations}"))

    def load(self, options: ClusterOptions, progress: Progress) -> Loaded:
        relations = parse_relations(options.relations)
        groups = read_labeled(options.data)
        n_items = sum(map(len, groups.rows))
        if n_items == len(groups):
            hint = "Leave out the column group if all items are in one group."
            raise FormatError(options.data, Description("groups of one item only"), "groups with pairs", hint)
        progress.say(f"read {len(groups)} groups, {n_items} items from {options.data}")
        X = describe_pairs(groups, relations)
        sizes = {"n_examples": len(X), "n_items": n_items, "n_pairs": sum(x.shape[0] for x in X)}
        sizes["n_features"] = X[0].shape[1]
        record = self.new_record(sizes, feature_names=groups.feature_names, relations=relations)
        return Loaded(X, groups.clusters, self.clustering(options, 1.0), sizes, record, shown=groups)

    def fits(self, model: Trained) -> bool:
        try:
            return len(pair_names(model.record)) == model.estimator.task_.n_features
        except InputError:
            return False

    def read(self, model: Trained, held_out: HeldOut) -> "io.ItemGroups":
        return read_labeled(held_out.data or "", model.record.feature_names)

    def find(self, model: Trained, data: "io.ItemGroups") -> Any:
        return model.estimator.predict(describe_pairs(data, model.record.relations))

    def compare(self, model: Trained, data: "io.ItemGroups", found: Any) -> dict[str, Any]:
        return compare_clusters(data.clusters or [], found)

    def predict(self, model: Trained, data: str, output: str) -> None:
        groups = read_named(data, model.record.feature_names)
        io.write_groups(output, groups, self.find(model, groups))

    def weight_names(self, model: Trained) -> list[str]:
        return pair_names(model.record)


def parse_relations(text: str) -> list[str]:
    """Return names separated by commas."""
    chosen = [name.strip() for name in text.split(",")]
    if not set(chosen) <= set(item_pairs.RELATIONS) or len(set(chosen)) < len(chosen):
        raise InputError("relations", text, f"some of {', '.join(item_pairs.RELATIONS)}, separated by commas")
    return chosen


def pair_names(record: Any) -> list[str]:
    """Return the names of the features of pairs."""
    return item_pairs.pair_feature_names(record.feature_names, record.relations)


def describe_pairs(groups: "io.ItemGroups", relations: list[str]) -> list[Any]:
    """Return the features of the pairs of each group."""
    found = []
    for name, items in zip(groups.names, groups.items, strict=True):
        try:
            found.append(item_pairs.pair_features(items, relations))
        except InputError as error:
            raise located(error, f"group {name!r}" if name else "the items") from error
    return found


def read_named(name: str, feature_names: list[str] | None = None) -> "io.ItemGroups":
    """Read groups, with the features of a model if they are given."""
    groups = io.read_groups(name)
    if feature_names is not None and groups.feature_names != feature_names:
        found = Description(", ".join(groups.feature_names))
        raise FormatError(name, found, f"the features {', '.join(feature_names)} in this order, as in training")
    return groups


def read_labeled(name: str, feature_names: list[str] | None = None) -> "io.ItemGroups":
    """Read groups with known clusters."""
    groups = read_named(name, feature_names)
    if groups.clusters is None:
        raise FormatError(name, Description("none"), "a column cluster")
    return groups


def compare_clusters(truth: Sequence[Any], found: Sequence[Any]) -> dict[str, Any]:
    """Return the quality of predicted clusters."""
    scores = asdict(metrics.cluster_scores(truth, found))
    return {"n_examples": scores.pop("n_documents"), **scores}


KIND = ClusterKind()
