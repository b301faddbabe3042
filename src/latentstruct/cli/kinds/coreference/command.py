"""Models that cluster the mentions of a text."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from latentstruct import io, metrics
from latentstruct.cli.declaring import argument, option, skip_bad_option, weight_option
from latentstruct.cli.kind import Loaded, Trained, record_of
from latentstruct.cli.kinds.cluster.command import ClusteringKind, ClusterModel, cluster_model_option, compare_clusters
from latentstruct.cli.lazy import mentions
from latentstruct.cli.options import HeldOut, TrainOptions
from latentstruct.core.lazy import np
from latentstruct.exceptions import ConvergenceWarning, Description, FormatError
from latentstruct.io.coreference import coreference_files
from latentstruct.progress.display import Progress, print_table, say, show_percent

PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01)
FEWEST_DOCUMENTS = 4
"""Fewest documents by which a penalty is chosen; with fewer it is the first."""


@dataclass(frozen=True, kw_only=True)
class CoreferenceOptions(TrainOptions):
    """Train on documents whose mentions and clusters are marked in the last column, as (3 … 3) is.

    Mentions are given, for training and for prediction.

    Example: latentstruct train coreference train.conll --valid dev.conll -o clusters
    """

    only_for = (("penalty", ("latent",)),)

    data: str = argument("A CoNLL-2012 file or a folder of them; - is standard input.")
    model: ClusterModel = cluster_model_option("latent")
    penalty: float | None = option(
        None,
        "Cost of a link between clusters; one inside gains 1. A smaller cost, such as 0.01, merges more: better MUC "
        "and MITRE, worse pairs. It is chosen by the CoNLL F1 of two folds of the training data.",
        metavar="NUMBER",
        shown="chosen by folds",
    )
    C: float | None = weight_option(None, "document", "0.01; correlation 100")
    skip_bad: bool = skip_bad_option()

    def held_out(self) -> HeldOut:
        return replace(super().held_out(), skip_bad=self.skip_bad)


@dataclass
class LoadedDocuments(Loaded):
    """Documents to train on; the penalty is to be chosen if `open_penalty`."""

    open_penalty: bool = False


class CoreferenceKind(ClusteringKind):
    """Clusters of mentions."""

    name = "coreference"
    group = "text"
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
    record = record_of(features=dict[str, Any], n_mentions=int)
    features = "features.mentions.MentionPairFeatures"
    score_facts = (
        ("documents", "{n_examples}, {n_mentions} mentions"),
        ("CoNLL F1", "{conll_f1:%} (mean of MUC, B³ and CEAF-e)"),
        ("MITRE loss", "{mitre_loss:%} (mean over documents of 1 − MUC F1)"),
        ("pair loss", "{pair_loss:%} (mean over documents of the fraction of wrong pairs)"),
    )
    headline = (("CoNLL F1", "conll_f1"), ("pair loss", "pair_loss"))
    main = ("conll_f1",)
    judged_on = frozenset({"data", "skip_bad"})
    answers = frozenset({"skip_bad"})
    described = ("features.n_features_", "record.n_mentions")
    info_facts = (("penalty", "{penalty:g}"),)

    def load(self, options: CoreferenceOptions, progress: Progress) -> Loaded:
        documents = read_documents(options.data, options.skip_bad)
        n_mentions = sum(len(document.mentions) for document in documents)
        progress.say(f"read {len(documents)} documents with mentions, {n_mentions} mentions from {options.data}")
        features = mentions.MentionPairFeatures()
        X = features.transform(documents)
        sizes = {"n_examples": len(X), "n_mentions": n_mentions, "n_pairs": sum(x.shape[0] for x in X)}
        sizes["n_features"] = X[0].shape[1]
        record = self.new_record(sizes, features=features.to_state())
        estimator = self.clustering(options, 0.01, 1.0 if options.penalty is None else options.penalty)
        Y = [document.clusters for document in documents]
        is_open = options.penalty is None and options.model == "latent"
        # Parts of one text have equal names, and share speakers and entities.
        texts = [document.name or f"{k}" for k, document in enumerate(documents)]
        return LoadedDocuments(
            X, Y, estimator, sizes, record, features, shown=documents, groups=texts, open_penalty=is_open
        )

    def encode(self, loaded: Loaded, progress: Progress) -> Loaded:
        if isinstance(loaded, LoadedDocuments) and loaded.open_penalty:
            penalty = choose_penalty(loaded.estimator, loaded.X, loaded.Y, progress)
            loaded.estimator.set_params(task__penalty=penalty)
        return loaded

    def read(self, model: Trained, held_out: HeldOut) -> "list[mentions.Document]":
        return read_documents(held_out.data or "", held_out.skip_bad)

    def find(self, model: Trained, data: "list[mentions.Document]") -> Any:
        return model.estimator.predict(model.features.transform(data))

    def compare(self, model: Trained, data: "list[mentions.Document]", found: Any) -> dict[str, Any]:
        truth = [document.clusters for document in data]
        scores = compare_clusters(truth, found)
        by_rules = [mentions.baseline_clusters(document) for document in data]
        baselines = {name: compare_clusters(truth, [one[name] for one in by_rules]) for name in by_rules[0]}
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
        documents = read_parts(data, model.answers.skip_bad)
        marked = [document for document in documents if len(document.mentions)]
        predicted = iter(self.find(model, marked) if marked else [])
        clusters = [next(predicted).tolist() if len(document.mentions) else [] for document in documents]
        io.write_coreference(output, documents, clusters)

    def weight_names(self, model: Trained) -> list[str]:
        return list(model.features.feature_names)

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        task = model.estimator.task_
        return {"penalty": task.penalty if task.latent else None, **super().describe(model, top)}


def choose_penalty(estimator: Any, X: Sequence[Any], Y: Sequence[Any], progress: Progress) -> float:
    """Return the penalty with the best CoNLL F1 of held-out documents; each is in one of two folds."""
    from latentstruct.core.validation import copied
    from latentstruct.estimators.folds import assign_folds, take

    if len(Y) < FEWEST_DOCUMENTS:
        progress.say(f"penalty {PENALTIES[0]:g}, as {len(Y)} documents are too few to choose it")
        return PENALTIES[0]
    of_document, scores = assign_folds(len(Y), 2), []
    for penalty in PENALTIES:
        model, found = copied(estimator).set_params(task__penalty=penalty), [None] * len(Y)
        for fold in range(2):
            train, test = (np.flatnonzero((of_document == fold) == held_out).tolist() for held_out in (False, True))
            with warnings.catch_warnings():
                # Only the scores of these models are used.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(take(X, train), take(Y, train))
            for k, clusters in zip(test, model.predict(take(X, test)), strict=True):
                found[k] = clusters
        scores.append(metrics.cluster_scores(Y, found).conll_f1)
        progress.say(f"penalty {penalty:g}: CoNLL F1 {show_percent(scores[-1])} of held-out training documents")
    return PENALTIES[scores.index(max(scores))]


def read_parts(name: str, skip_bad: bool) -> "list[mentions.Document]":
    """Read documents; report and leave out those that cannot be read if `skip_bad`."""
    problems: list[FormatError] = []
    documents = io.read_coreference(name, problems if skip_bad else None)
    for problem in problems:
        say(f"left out: {problem}")
    return documents


def read_documents(name: str, skip_bad: bool) -> "list[mentions.Document]":
    """Read the documents that have mentions."""
    documents = [document for document in read_parts(name, skip_bad) if len(document.mentions)]
    if not documents:
        raise FormatError(name, Description("none"), "mentions, marked as (3 … 3) in the last column")
    return documents


KIND = CoreferenceKind()
