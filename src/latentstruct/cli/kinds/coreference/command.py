"""Models that cluster the mentions of a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latentstruct import io
from latentstruct.cli.declaring import argument, option, weight_option
from latentstruct.cli.kind import Loaded, Record, Trained
from latentstruct.cli.kinds.cluster.command import ClusteringKind, ClusterModel, cluster_model_option, compare_clusters
from latentstruct.cli.lazy import mentions
from latentstruct.cli.options import HeldOut, TrainOptions
from latentstruct.exceptions import Description, FormatError
from latentstruct.io.coreference import coreference_files
from latentstruct.progress.display import Progress, print_table, show_percent


@dataclass(frozen=True, kw_only=True)
class CoreferenceOptions(TrainOptions):
    """Train on documents whose mentions and clusters are marked in the last column, as (3 … 3) is.

    Mentions are given, for training and for prediction. Ctrl-C saves the best weights so far.

    Example: latentstruct train coreference train.conll --valid dev.conll -o clusters
    """

    data: str = argument("A CoNLL-2012 file or a folder of them; - is standard input.")
    model: ClusterModel = cluster_model_option("latent")
    penalty: float | None = option(
        None,
        "Cost of a link between clusters; one inside gains 1. A smaller cost, such as 0.01, merges more: better MUC "
        "and MITRE, worse pairs.",
        metavar="NUMBER",
        shown="1.0",
    )
    C: float | None = weight_option(None, "document", "0.01; correlation 100")

    def check(self) -> None:
        super().check()
        if self.model != "latent":
            self.refuse("penalty", f"for `model` {self.model}")


@dataclass(frozen=True, kw_only=True)
class CoreferenceRecord(Record):
    """The record of a coreference model: the state of its features."""

    features: dict[str, Any]
    n_mentions: int


class CoreferenceKind(ClusteringKind):
    """Clusters of mentions."""

    name = "coreference"
    summary = "Find which mentions of a text refer to the same person or thing."
    latent = "the links between the mentions of a cluster"
    reads = (
        "CoNLL-2012 columns: the word in the fourth, mentions and their clusters in brackets in the last, as (3 … 3)."
    )
    example_file = "coreference.conll"
    prediction_file = "predicted.conll"
    predicts = "Coreference: CoNLL-2012 with the mentions of the file in predicted clusters and its other columns."
    judged_by = "Coreference: MUC, B³, CEAF, LEA and pairs, beside simple rules."
    options = CoreferenceOptions
    record = CoreferenceRecord
    score_facts = (
        ("documents", "{n_examples}, {n_mentions} mentions"),
        ("CoNLL F1", "{conll_f1:%} (mean of MUC, B³ and CEAF-e)"),
        ("MITRE loss", "{mitre_loss:%} (mean over documents of 1 − MUC F1)"),
        ("pair loss", "{pair_loss:%} (mean over documents of the fraction of wrong pairs)"),
    )
    headline = (("CoNLL F1", "conll_f1"), ("pair loss", "pair_loss"))
    main = ("conll_f1",)
    described = ("features.n_features_", "record.n_mentions")
    info_facts = (("penalty", "{penalty:g}"),)

    def load(self, options: CoreferenceOptions, progress: Progress) -> Loaded:
        documents = read_documents(options.data)
        n_mentions = sum(len(document.mentions) for document in documents)
        progress.say(f"read {len(documents)} documents with mentions, {n_mentions} mentions from {options.data}")
        features = mentions.MentionPairFeatures()
        X = features.transform(documents)
        sizes = {"n_examples": len(X), "n_mentions": n_mentions, "n_pairs": sum(x.shape[0] for x in X)}
        sizes["n_features"] = X[0].shape[1]
        record = CoreferenceRecord(features=features.to_state(), n_mentions=n_mentions, n_examples=len(X))
        estimator = self.clustering(options, 0.01, 1.0 if options.penalty is None else options.penalty)
        Y = [document.clusters for document in documents]
        return Loaded(X, Y, estimator, sizes, record, features, shown=documents)

    def features_class(self) -> Any:
        return mentions.MentionPairFeatures

    def read(self, model: Trained, held_out: HeldOut) -> "list[mentions.Document]":
        return read_documents(held_out.data or "")

    def find(self, model: Trained, data: "list[mentions.Document]") -> Any:
        return model.estimator.predict(model.features.transform(data))

    def compare(self, model: Trained, data: "list[mentions.Document]", found: Any) -> dict[str, Any]:
        truth = [document.clusters for document in data]
        scores = compare_clusters(truth, found)
        baselines = {name: compare_clusters(truth, clusters) for name, clusters in _baselines(data).items()}
        sizes = {"n_examples": scores.pop("n_examples"), "n_mentions": scores.pop("n_items")}
        return {**sizes, **scores, "baselines": {name: one["conll_f1"] for name, one in baselines.items()}}

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        super().show_score_tables(scores)
        rows = [[name, show_percent(score)] for name, score in scores["baselines"].items()]
        print_table("without a model", ("clusters", "CoNLL F1"), rows)

    def input_files(self, data: str) -> Sequence[str | Path]:
        files = coreference_files(data)
        texts = [Path(name).with_suffix(".txt") for name in files if Path(name).suffix.lower() == ".ann"]
        return [*files, *texts]

    def predict(self, model: Trained, data: str, output: str) -> None:
        documents = io.read_coreference(data)
        marked = [document for document in documents if len(document.mentions)]
        predicted = iter(self.find(model, marked) if marked else [])
        clusters = [next(predicted).tolist() if len(document.mentions) else [] for document in documents]
        io.write_coreference(output, documents, clusters)

    def weight_names(self, model: Trained) -> list[str]:
        names: list[str] = model.features.feature_names
        return names

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        task = model.estimator.task_
        return {"penalty": task.penalty if task.latent else None, **super().describe(model, top)}


def _baselines(documents: "list[mentions.Document]") -> dict[str, list[Any]]:
    """Return the clusters of all documents by each simple rule."""
    found = [mentions.baseline_clusters(document) for document in documents]
    return {name: [one[name] for one in found] for name in found[0]}


def read_documents(name: str) -> "list[mentions.Document]":
    """Read the documents that have mentions."""
    documents = [document for document in io.read_coreference(name) if len(document.mentions)]
    if not documents:
        raise FormatError(name, Description("none"), "mentions, marked as (3 … 3) in the last column")
    return documents


KIND = CoreferenceKind()
