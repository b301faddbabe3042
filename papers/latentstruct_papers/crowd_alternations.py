"""Why a hidden CRF with the errors of annotators infers worse labels than the votes alone: F1 by alternation and C."""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from latentstruct.estimators import AnnotatorCRF, DawidSkene
from latentstruct.estimators.folds import assign_folds
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.features.windows import WindowFeatures
from latentstruct.tasks import Chain
from latentstruct_papers import crowd_ner
from latentstruct_papers.crowd_ner import SKENE, Crowd, Scores
from latentstruct_papers.datasets.home import dataset_file
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.trials import Setup

LIKELIHOOD = "votes without prior"
ALTERNATIONS, VALUES, HELD_OUT_C, N_FOLDS, QUICK_FOLDS = (1, 2, 4), (0.1, 1.0), 0.1, 5, 2


def without_prior(crowd: Crowd) -> list[Any]:
    """Return the labels y with the largest Π_a π_a(v_a | y), by the errors that Dawid-Skene finds."""
    model = DawidSkene().fit(crowd.votes)
    names = np.array(model.labels_, dtype=object)
    return [names[(shares / model.prior_).argmax(axis=1)] for shares in model.marginals(crowd.votes)]


def trained(task: Chain, C: float, n_alternations: int, X: Any, votes: Any) -> AnnotatorCRF:
    """Return a hidden CRF after some alternations."""
    with warnings.catch_warnings():
        # Most trainings end before the alternations settle.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return AnnotatorCRF(task, C=C, em_iter=n_alternations, em_tol=0.0).fit(X, votes)


def own_labels(C: float, n_alternations: int, crowd: Crowd) -> list[Any]:
    """Return the labels that a hidden CRF infers for the sentences that it is trained on."""
    X = WindowFeatures().fit_transform(crowd.words)
    return trained(Chain(), C, n_alternations, X, crowd.votes).infer_labels(X, crowd.votes)


def others_labels(C: float, n_alternations: int, n_folds: int, crowd: Crowd) -> list[Any]:
    """Return the labels that hidden CRFs infer for the fold of documents that they are not trained on."""
    folds = assign_folds(len(crowd.words), n_folds, groups=crowd.documents)
    task = Chain(labels=DawidSkene().fit(crowd.votes).labels_)
    found: dict[int, Any] = {}
    for fold in range(n_folds):
        known, rest = crowd.take(folds != fold), crowd.take(folds == fold)
        features = WindowFeatures()
        model = trained(task, C, n_alternations, features.fit_transform(known.words), known.votes)
        inferred = model.infer_labels(features.transform(rest.words), rest.votes)
        found.update(zip(np.flatnonzero(folds == fold).tolist(), inferred, strict=True))
    return [found[i] for i in range(len(found))]


def methods(n_folds: int) -> dict[str, Callable[[Crowd], list[Any]]]:
    """Return what infers the labels of sentences, by name."""
    found: dict[str, Callable[[Crowd], list[Any]]] = {
        SKENE: lambda crowd: DawidSkene().fit(crowd.votes).predict(crowd.votes),
        LIKELIHOOD: without_prior,
    }
    for C in VALUES:
        for n in ALTERNATIONS:
            found[f"C = {C:g}, alternations: {n}"] = partial(own_labels, C, n)
    for n in ALTERNATIONS:
        found[f"C = {HELD_OUT_C:g}, alternations: {n}, held out"] = partial(others_labels, HELD_OUT_C, n, n_folds)
    return found


def measure(data_home: str | None, method: str, n_documents: int | None, n_folds: int) -> dict[str, Any]:
    """Return the counts of the inferred labels for each document."""
    crowd, began = crowd_ner.read(dataset_file(data_home, crowd_ner.FILE), n_documents), time.process_time()
    counts = crowd_ner.by_document(crowd, methods(n_folds)[method](crowd))
    return {"counts": counts, "seconds": time.process_time() - began}


def run(setup: Setup) -> Findings:
    """Infer labels from the votes after each of some alternations."""
    n_documents, n_folds = (crowd_ner.QUICK_DOCUMENTS, QUICK_FOLDS) if setup.quick else (None, N_FOLDS)
    names = list(methods(n_folds))
    arguments: list[tuple[Any, ...]] = [(setup.data_home, name, n_documents, n_folds) for name in names]
    found = setup.trials.run(measure, arguments, setup.say, "labelings", crowd_ner.show)
    scores = Scores(dict(zip(names, found, strict=True)))
    columns = ["labels from", "F1", f"− {SKENE}", "entities", "CPU s"]
    rows = [
        [name, scores.show(name), scores.gain(name, SKENE), int(scores.counts[name].sum(axis=0)[3]), seconds]
        for name, seconds in ((name, round(scores.seconds[name], 1)) for name in names)
    ]
    n_true = int(scores.counts[SKENE].sum(axis=0)[2])
    note = f"In %, ± the standard error over documents (bootstrap). {n_true} entities are true."
    shown = ", ".join(f"{name} {scores.show(name)}" for name in names)
    return Findings(
        name="crowd-alternations",
        title="A hidden CRF with the errors of 47 workers, by alternation",
        data=f"{len(scores.counts[SKENE])} documents of CoNLL-2003 news, each labeled by about 5 workers",
        differs=[
            "As in crowd-ner. C and the number of alternations are set by hand, to see what they change.",
            f"Held out: the weights and errors are those of the other {n_folds - 1} of {n_folds} folds of documents.",
            *(["Quick: the first documents."] if setup.quick else []),
        ],
        tables=[Table("F1 of entities, inferred labels", columns, rows, note)],
        claims=[Claim("F1 of labels inferred from the votes", "", shown, "no published figure")],
        settings={"folds": n_folds},
    )
