"""Models that put the mentions of a text into clusters."""

import sys
from collections.abc import Sequence
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
    from latentstruct.mentions import Document, MentionPairFeatures
    from latentstruct.report.blocks import Block, Examples

PenaltyOption = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER",
        show_default="1.0",
        help="Cost of a link between clusters; one inside gains 1. Less, such as 0.01, merges more: better MUC and "
        "MITRE, worse pairs.",
    ),
]
DocumentWeightOption = Annotated[
    float | None,
    typer.Option(
        "-C", metavar="NUMBER", show_default="0.01; correlation 100", help="Weight of each document against ½‖w‖²."
    ),
]


@dataclass(frozen=True)
class CoreferenceRecord:
    """What the command keeps beside a coreference model: the state of its features."""

    features: dict[str, Any]
    n_mentions: int
    n_examples: int
    seconds: float
    kind: Literal["coreference"] = "coreference"


@reported_errors()
def train_coreference(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A CoNLL-2012 file or a folder of them; - is standard input.")
    ],
    output: OutputOption = Path("model"),
    model: ClusterModelOption = ClusterModel.latent,
    penalty: PenaltyOption = None,
    C: DocumentWeightOption = None,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    valid: ValidOption = None,
    report: ReportOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Train on documents whose mentions and clusters are marked in the last column, as (3 … 3) is.

    Mentions are taken as given, here and for prediction. Ctrl-C saves the best weights so far.

    Example: latentstruct train coreference train.conll --valid dev.conll -o clusters
    """
    from latentstruct.mentions import MentionPairFeatures
    from latentstruct.tasks import Coreference, CorrelationClustering

    latent = model is ClusterModel.latent
    # The latent loss counts mentions, that of pairs is a share.
    default = 0.01 if latent else 100.0
    choices = LatentChoices(output, default if C is None else C, tol, max_rounds, max_seconds, seed)
    choices.check(data, valid)
    if penalty is not None and not latent:
        raise InputError(f"--penalty is {penalty}, but --model {model.value} has none; expected latent: leave it out")
    progress = Progress(quiet, n_starts=int(latent))
    documents = read_documents(data)
    n_mentions = sum(len(document.mentions) for document in documents)
    progress.say(f"read {len(documents)} documents with mentions, {n_mentions} mentions from {data}")
    held_out = None if valid is None else read_documents(valid)
    features = MentionPairFeatures()
    X = features.transform(documents)

    def record(_: Any, seconds: float) -> CoreferenceRecord:
        return CoreferenceRecord(features.state(), n_mentions, len(documents), seconds)

    score = None
    if held_out is not None:

        def score(estimator: Any) -> dict[str, Any]:
            return score_clusters(estimator, features, held_out)

    def examples(trained: Trained) -> "Examples":
        return CoreferenceKind().examples(trained, held_out or documents, source_of(valid, data))

    n_pairs, n_features = sum(x.shape[0] for x in X), X[0].shape[1]
    sizes = {"n_examples": len(X), "n_mentions": n_mentions, "n_pairs": n_pairs, "n_features": n_features}
    task = Coreference(1.0 if penalty is None else penalty) if latent else CorrelationClustering()
    Y = [document.clusters for document in documents]
    training = Training(CoreferenceKind(), output, choices.estimator(task), X, Y, sizes, record, score)
    training.report, training.examples = report, examples
    training.run(progress, json)


def read_documents(name: str) -> "list[Document]":
    """Read the documents that have mentions."""
    from latentstruct.formats import read_coreference

    documents = [document for document in read_coreference(name) if len(document.mentions)]
    if not documents:
        raise InputError(f"{name} has no mentions; expected brackets such as (3 … 3) in the last column: mark them")
    return documents


def score_clusters(estimator: Any, features: "MentionPairFeatures", documents: "list[Document]") -> dict[str, Any]:
    """Return the quality of predicted clusters."""
    truth = [document.clusters for document in documents]
    scores = measure_clusters(estimator, features.transform(documents), truth)
    return {"n_examples": scores.pop("n_examples"), "n_mentions": scores.pop("n_items"), **scores}


def restore_features(model: Trained) -> "MentionPairFeatures":
    """Return the features a model was trained with."""
    from latentstruct.mentions import MentionPairFeatures

    features = MentionPairFeatures()
    try:
        features.restore(model.record.features)
    except (LookupError, TypeError) as error:
        raise model.damaged("the state of its features cannot be read") from error
    if len(features.feature_names) != model.estimator.task_.n_features:
        raise model.damaged("its features do not belong to its weights")
    return features


class CoreferenceKind(Kind):
    """Clusters of mentions."""

    name = "coreference"
    summary = "Find which mentions of a text are of the same person or thing."
    latent = "which links between mentions hold a cluster together"
    reads = (
        "CoNLL-2012 columns: the word in the fourth, mentions and their clusters in brackets in the last, as (3 … 3)."
    )
    example_file = "coreference.conll"
    prediction_file = "predicted.conll"
    record = CoreferenceRecord
    train = staticmethod(train_coreference)

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        return is_cluster_task(model.estimator.task_)

    def input_files(self, data: str) -> Sequence[str | Path]:
        """Return the files of the documents, the texts of annotations among them."""
        from latentstruct.formats.coreference import coreference_files

        files = coreference_files(data)
        texts = [Path(name).with_suffix(".txt") for name in files if Path(name).suffix.lower() == ".ann"]
        return [*files, *texts]

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write CoNLL-2012 with the mentions of the file in predicted clusters."""
        from latentstruct.formats import read_coreference, write_coreference

        features = restore_features(model)
        documents = read_coreference(data)
        marked = [document for document in documents if len(document.mentions)]
        predicted = iter(model.estimator.predict(features.transform(marked)) if marked else [])
        clusters = [next(predicted).tolist() if len(document.mentions) else [] for document in documents]
        write_coreference(output, documents, clusters)
        sys.stdout.flush()

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return the measures of coreference resolution."""
        return score_clusters(model.estimator, restore_features(model), self.read_held_out(model, held_out))

    def read_held_out(self, model: Trained, held_out: HeldOut) -> "list[Document]":
        """Return documents with known clusters."""
        return read_documents(held_out.data or "")

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return the strongest features of pairs."""
        from latentstruct.cli.reports.coreference import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: "list[Document]", source: str) -> "Examples":
        """Return predicted clusters with their forests."""
        from latentstruct.cli.reports.coreference import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print a table of the measures."""
        print_facts(
            [
                ("documents", f"{scores['n_examples']}, {scores['n_mentions']} mentions"),
                ("CoNLL F1", f"{show_percent(scores['conll_f1'])} (mean of MUC, B³ and CEAF-e)"),
                ("MITRE loss", f"{show_percent(scores['mitre_loss'])} (mean over documents of 1 − MUC F1)"),
                ("pair loss", f"{show_percent(scores['pair_loss'])} (mean over documents of the share of wrong pairs)"),
            ]
        )
        show_measures(scores)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the mean F1 and the pair loss."""
        return [("CoNLL F1", show_percent(scores["conll_f1"])), ("pair loss", show_percent(scores["pair_loss"]))]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the mean F1."""
        value: float = scores["conll_f1"]
        return value

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return the penalty of wrong links and the strongest weights."""
        names, weights = restore_features(model).feature_names, model.estimator.coef_
        return {
            "penalty": getattr(model.estimator.task_, "penalty", None),
            "n_features": len(names),
            "n_mentions": model.record.n_mentions,
            "weights": strongest_features(weights, names.__getitem__, top),
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return the penalty."""
        return [("penalty", f"{result['penalty']:g}")] if result.get("penalty") is not None else []

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the strongest weights."""
        show_features(result)
