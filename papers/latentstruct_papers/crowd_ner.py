"""Named entities labeled by 47 workers: F1 of the labels inferred from them, and of taggers trained on these.

Texts must not be published: results are counts.
"""

import gzip
import time
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.estimators import CRF, AnnotatorCRF, DawidSkene, HiddenCRF, majority_vote
from latentstruct.estimators.folds import assign_folds
from latentstruct.features.windows import WindowFeatures
from latentstruct.tasks import Chain
from latentstruct_papers.datasets.home import dataset_file
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.half_labeled import chunk_f1, count, resample
from latentstruct_papers.trials import Setup

FILE = "crowd_ner/val.txt.gz"
N_WORKERS, N_FOLDS, QUICK_DOCUMENTS, QUICK_FOLDS = 47, 5, 6, 2
VOTES, SKENE, SOFT, JOINT, RULED, TRUE = (
    "majority vote",
    "Dawid-Skene",
    "Dawid-Skene, soft labels",
    "AnnotatorCRF",
    "AnnotatorCRF, rules BIO",
    "true labels",
)
METHODS = (VOTES, SKENE, SOFT, JOINT, RULED, TRUE)
INFERRING = (VOTES, SKENE, JOINT, RULED)


class Crowd(NamedTuple):
    """Sentences with their words, true labels, votes (T, 47) and numbers of documents."""

    words: list[list[tuple[str]]]
    truth: list[list[str]]
    votes: list[list[list[Any]]]
    documents: list[int]

    def take(self, chosen: NDArray[np.bool_]) -> "Crowd":
        """Return some of the sentences."""
        parts: list[Any] = [[part[i] for i in np.flatnonzero(chosen)] for part in self]
        return Crowd(*parts)


def read(path: Path, n_documents: int | None = None) -> Crowd:
    """Return the sentences of documents with votes, of the first ones if a number is given."""
    found, workers, document = Crowd([], [], [], []), [], -1
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for filled, block in groupby((line.rstrip("\n") for line in lines), key=bool):
            rows = list(block) if filled else []
            if rows and rows[0].startswith("# doc "):
                workers = [int(name[1:]) - 1 for name in rows.pop(0).split(" annotators ")[1].split()]
                document += bool(workers)
            if document == n_documents:
                break
            if not (rows and workers):
                continue
            tokens = [row.split("\t") for row in rows]
            votes = np.full((len(tokens), N_WORKERS), -1, dtype=object)
            votes[:, workers] = [[-1 if vote == "?" else vote for vote in given] for _, _, *given in tokens]
            found.words.append([(word,) for word, *_ in tokens])
            found.truth.append([label for _, label, *_ in tokens])
            found.votes.append(votes.tolist())
            found.documents.append(document)
    return found


def train(method: str, X: Any, crowd: Crowd) -> Any:
    """Return a tagger."""
    if method in (JOINT, RULED):
        return AnnotatorCRF(Chain(rules="BIO" if method == RULED else None)).fit(X, crowd.votes)
    skene = DawidSkene().fit(crowd.votes)
    task = Chain(labels=skene.labels_)
    if method == SOFT:
        return HiddenCRF(task).fit(X, skene.soft_labels(crowd.votes))
    if method == TRUE:
        return CRF(task).fit(X, crowd.truth)
    labels = majority_vote(crowd.votes) if method == VOTES else skene.predict(crowd.votes)
    return CRF(task).fit(X, [y.tolist() for y in labels])


def infer(method: str, X: Any, crowd: Crowd) -> list[Any]:
    """Return the labels of sentences by their votes."""
    if method == VOTES:
        return majority_vote(crowd.votes)
    if method == SKENE:
        return DawidSkene().fit(crowd.votes).predict(crowd.votes)
    labels: list[Any] = train(method, X, crowd).infer_labels(X, crowd.votes)
    return labels


def by_document(crowd: Crowd, labels: list[Any]) -> NDArray[np.int64]:
    """Return the counts of `half_labeled.count` for each document."""
    counts = count(crowd.truth, [[str(label) for label in y] for y in labels])
    numbers, owners = np.unique(crowd.documents, return_inverse=True)
    found = np.zeros((len(numbers), counts.shape[1]), dtype=np.int64)
    np.add.at(found, owners, counts)
    return found


def measure_inferred(data_home: str | None, method: str, n_documents: int | None) -> dict[str, Any]:
    """Return the counts of the labels inferred for each document."""
    crowd = read(dataset_file(data_home, FILE), n_documents)
    X, began = WindowFeatures().fit_transform(crowd.words), time.process_time()
    labels = infer(method, X, crowd)
    return {"counts": by_document(crowd, labels), "seconds": time.process_time() - began}


def measure_tagger(
    data_home: str | None, method: str, n_documents: int | None, n_folds: int, fold: int
) -> dict[str, Any]:
    """Return the counts, by document, of a tagger on a fold of documents that was left out in training."""
    crowd = read(dataset_file(data_home, FILE), n_documents)
    held_out = assign_folds(len(crowd.words), n_folds, groups=crowd.documents) == fold
    known, test = crowd.take(~held_out), crowd.take(held_out)
    features = WindowFeatures()
    X, began = features.fit_transform(known.words), time.process_time()
    model = train(method, X, known)
    seconds = time.process_time() - began
    return {"counts": by_document(test, model.predict(features.transform(test.words))), "seconds": seconds}


def show(arguments: tuple[Any, ...], found: dict[str, Any]) -> str:
    """Return the line of a trial."""
    fold = "".join(f", fold {1 + number}" for number in arguments[4:])
    score = 100 * chunk_f1(np.sum(found["counts"], axis=0))
    return f"{arguments[1]}{fold}: F1 {score:.2f}, {found['seconds']:.1f} s"


class Scores:
    """F1 of methods with standard errors over documents.

    Parameters
    ----------
    found : dict of str to dict
        Counts of `half_labeled.count` by document, and CPU seconds, of each method.
    """

    def __init__(self, found: dict[str, dict[str, Any]]) -> None:
        self.counts = {method: np.array(one["counts"]) for method, one in found.items()}
        self.seconds = {method: one["seconds"] for method, one in found.items()}

    def samples(self, method: str) -> tuple[float, NDArray[np.float64]]:
        """Return F1 in %, and that of each sample of documents."""
        counts = self.counts[method]
        return 100 * float(chunk_f1(counts.sum(axis=0))), 100 * chunk_f1(resample(len(counts)) @ counts)

    def show(self, method: str) -> str:
        """Return F1 with its standard error."""
        score, drawn = self.samples(method)
        return f"{score:.2f} ± {drawn.std():.2f}"

    def gain(self, method: str, other: str) -> str:
        """Return a difference with its standard error."""
        (ours, drawn), (theirs, others) = self.samples(method), self.samples(other)
        return f"{ours - theirs:+.2f} ± {(drawn - others).std():.2f}"

    def table(self, title: str) -> Table:
        """Return F1, differences to the majority vote and CPU seconds."""
        rows = [[m, self.show(m), self.gain(m, VOTES), round(self.seconds[m], 1)] for m in self.counts]
        columns = ["labels from", "F1", "− majority vote", "CPU s"]
        return Table(title, columns, rows, "In %, ± the standard error over documents (bootstrap).")

    def claim(self, what: str) -> Claim:
        """Return the figures of all methods."""
        shown = ", ".join(f"{method} {self.show(method)}" for method in self.counts)
        gain = f"AnnotatorCRF minus Dawid-Skene {self.gain(JOINT, SKENE)}"
        return Claim(what, "", f"{shown}; {gain}", "no published figure")


def merged(folds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of all documents, each from the fold that it was left out of."""
    return {
        "counts": np.concatenate([one["counts"] for one in folds]),
        "seconds": sum(one["seconds"] for one in folds),
    }


def run(setup: Setup) -> Findings:
    """Infer labels from those of several workers, and train taggers without the true labels."""
    home, n_documents = setup.data_home, QUICK_DOCUMENTS if setup.quick else None
    n_folds, trials = QUICK_FOLDS if setup.quick else N_FOLDS, setup.trials
    arguments: list[tuple[Any, ...]] = [(home, method, n_documents) for method in INFERRING]
    found = trials.run(measure_inferred, arguments, setup.say, "labelings", show)
    inferred = Scores(dict(zip(INFERRING, found, strict=True)))
    cases = [(method, fold) for fold in range(n_folds) for method in METHODS]
    arguments = [(home, method, n_documents, n_folds, fold) for method, fold in cases]
    found = trials.run(measure_tagger, arguments, setup.say, "taggers", show)
    taggers = Scores({method: merged(found[k :: len(METHODS)]) for k, method in enumerate(METHODS)})
    n_found = len(inferred.counts[VOTES])
    return Findings(
        name="crowd-ner",
        title="Named entities from the labels of 47 workers",
        data=f"{n_found} documents of CoNLL-2003 news, each labeled by about 5 workers",
        differs=[
            "The documents are the validation half of those of Nguyen et al. (2017).",
            *(["Quick: the first documents."] if setup.quick else []),
            "The votes are those of Rodrigues, Pereira & Ribeiro (2014). They and others train on more documents, so "
            "that no published figure is put beside these.",
            f"Taggers are trained on the votes for {n_folds - 1} of {n_folds} folds of the documents, and compared "
            "with the true labels of the fold left out.",
            "A document without votes is left out.",
            "All settings are defaults, C = 1 and WindowFeatures(); true labels are used for scores only.",
        ],
        tables=[inferred.table("F1 of entities, inferred labels"), taggers.table("F1 of entities, taggers")],
        claims=[
            inferred.claim("F1 of labels inferred from the votes"),
            taggers.claim("F1 of taggers, documents held out"),
        ],
        settings={
            "folds": n_folds,
            "inferred": {method: counts.sum(axis=0).tolist() for method, counts in inferred.counts.items()},
            "taggers": {method: counts.sum(axis=0).tolist() for method, counts in taggers.counts.items()},
        },
    )
