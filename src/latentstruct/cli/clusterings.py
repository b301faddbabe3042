"""What models of clusters share, whether of mentions or of any items."""

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer

from latentstruct.progress import print_table, show_percent

MEASURES = {"muc": "MUC", "b_cubed": "B³", "ceaf_entity": "CEAF-e", "ceaf_mention": "CEAF-m", "pairs": "pairs"}


class ClusterModel(StrEnum):
    """What to train."""

    latent = "latent"
    correlation = "correlation"


ClusterModelOption = Annotated[
    ClusterModel,
    typer.Option(metavar="NAME", help="latent: hidden forests of links; correlation: all pairs of a cluster."),
]


def is_cluster_task(task: Any) -> bool:
    """Tell whether a task is one of those that the models are trained on."""
    from latentstruct.tasks import Coreference, CorrelationClustering

    return isinstance(task, Coreference | CorrelationClustering)


def measure_clusters(estimator: Any, X: Sequence[Any], truth: Sequence[Any]) -> dict[str, Any]:
    """Return the quality of the clusters that a model predicts."""
    return compare_clusters(truth, estimator.predict(X))


def compare_clusters(truth: Sequence[Any], found: Sequence[Any]) -> dict[str, Any]:
    """Return the quality of predicted clusters."""
    from latentstruct.metrics import cluster_scores

    scores = asdict(cluster_scores(truth, found))
    return {"n_examples": scores.pop("n_documents"), **scores}


def show_measures(scores: dict[str, Any]) -> None:
    """Print a table of the measures."""
    rows = [
        [shown, *(show_percent(scores[name][part]) for part in ("precision", "recall", "f1"))]
        for name, shown in MEASURES.items()
    ]
    print_table("", ("measure", "precision", "recall", "F1"), rows)
