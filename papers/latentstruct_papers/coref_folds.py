"""Coreference of LitBank by folds, mentions given: clusters of the latent SVM beside those of simple rules."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from latentstruct import Coreference, LatentSSVM
from latentstruct.estimators.folds import take
from latentstruct.features.mentions import MentionPairFeatures, baseline_clusters
from latentstruct.metrics import cluster_scores
from latentstruct_papers.datasets import load_litbank
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.mssvm_simulation import show_mean
from latentstruct_papers.trials import Setup

C = 0.01
PENALTIES = (1.0, 0.1)
"""Loss of a wrong cluster per mention, r; 1 is the paper's first setting."""
SCORES = ("muc", "b_cubed", "ceaf_entity", "lea")


class Setting(NamedTuple):
    """Documents (None is all), folds, penalties."""

    n_documents: int | None
    n_folds: int
    penalties: tuple[float, ...]


FULL = Setting(None, 10, PENALTIES)
QUICK = Setting(8, 2, PENALTIES)


class Texts(NamedTuple):
    """Features of pairs of mentions, true clusters, and the clusters of each rule."""

    X: list[Any]
    Y: list[Any]
    rules: dict[str, list[Any]]


@lru_cache(maxsize=1)
def load(n_documents: int | None, data_home: str | None) -> Texts:
    """Return the documents in the order of their names."""
    documents = sorted(load_litbank(data_home), key=lambda document: document.name)[:n_documents]
    found = [baseline_clusters(document) for document in documents]
    rules = {name: [one[name] for one in found] for name in found[0]}
    return Texts(MentionPairFeatures().transform(documents), [document.clusters for document in documents], rules)


def measure(
    n_documents: int | None, n_folds: int, penalty: float, fold: int, data_home: str | None
) -> dict[str, list[list[int]]]:
    """Return the clusters of the documents `fold`, `fold` + n_folds, … by a model of the others."""
    texts = load(n_documents, data_home)
    n = len(texts.Y)
    test = list(range(fold, n, n_folds))
    train = [k for k in range(n) if k % n_folds != fold]
    model = LatentSSVM(Coreference(penalty=penalty), C=C, restarts=1)
    model.fit(take(texts.X, train), take(texts.Y, train))
    found = model.predict(take(texts.X, test))
    return {str(k): np.asarray(clusters).tolist() for k, clusters in zip(test, found, strict=True)}


def score(truth: Sequence[Any], found: Sequence[Any]) -> dict[str, float]:
    """Return CoNLL F1 and the F1 of its parts over documents."""
    scores = cluster_scores(truth, found)
    return {"conll": scores.conll_f1} | {name: getattr(scores, name).f1 for name in SCORES}


def of_folds(truth: Sequence[Any], found: Sequence[Any], n_folds: int) -> Any:
    """Return the CoNLL F1 of each fold."""
    parts = [range(fold, len(truth), n_folds) for fold in range(n_folds)]
    return np.array([score(take(truth, list(part)), take(found, list(part)))["conll"] for part in parts])


def _show(arguments: tuple[Any, ...], found: dict[str, Any]) -> str:
    return f"penalty {arguments[2]:g}, fold {arguments[3] + 1}: {len(found)} documents"


def run(setup: Setup) -> Findings:
    """Compare penalties of the latent SVM with each other and with rules, over folds of documents."""
    n_documents, n_folds, penalties = setting = QUICK if setup.quick else FULL
    plan = [(n_documents, n_folds, penalty, fold, setup.data_home) for penalty in penalties for fold in range(n_folds)]
    measured = setup.trials.run(measure, plan, setup.say, "trainings", _show)
    texts = load(n_documents, setup.data_home)
    by_name: dict[str, list[Any]] = dict(texts.rules)
    for penalty in penalties:
        chosen = [one for arguments, one in zip(plan, measured, strict=True) if arguments[2] == penalty]
        clusters = {int(k): value for one in chosen for k, value in one.items()}
        by_name[f"penalty {penalty:g}"] = [np.array(clusters[k]) for k in range(len(texts.Y))]
    rows = [
        [name, *(f"{100 * value:.1f}" for value in score(texts.Y, found).values())] for name, found in by_name.items()
    ]
    folds = {name: of_folds(texts.Y, found, n_folds) for name, found in by_name.items()}
    best = f"penalty {penalties[-1]:g}"
    claims = []
    for other in (name for name in by_name if name != best):
        first, second = (100 * score(texts.Y, by_name[name])["conll"] for name in (best, other))
        apart = show_mean(folds[best] - folds[other], signed=True)
        shown = f"{first:.1f}, {second:.1f}: {apart} over {n_folds} folds"
        claims.append(Claim(f"CoNLL F1, {best} against {other}", "", shown, "no published figure", True))
    return Findings(
        name="coref-folds",
        title="Clustering noun phrases of LitBank by folds",
        data=f"LitBank, {len(texts.Y)} documents with given mentions, {n_folds} folds",
        differs=["Not in the paper: it has MUC-6 and other scores."],
        tables=[Table("F1 in %", ["clusters", "CoNLL", "MUC", "B³", "CEAF-e", "LEA"], rows)],
        claims=claims,
        settings={"C": C, **setting._asdict(), "folds": {name: values.tolist() for name, values in folds.items()}},
    )
