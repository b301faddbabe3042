"""Named entities labeled by 47 workers: F1 of the labels inferred from them, and of taggers trained on these."""

import gzip
import time
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.datasets.home import dataset_file
from latentstruct.estimators import CRF, AnnotatorCRF, DawidSkene, HiddenCRF, majority_vote
from latentstruct.features.windows import WindowFeatures
from latentstruct.tasks import Chain
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.half_labeled import chunk_f1, count, resample
from latentstruct_papers.trials import Trials

N_WORKERS, QUICK_DOCUMENTS = 47, 6
VOTES, SKENE, SOFT, JOINT, RULED, TRUE = (
    "majority vote",
    "Dawid-Skene",
    "Dawid-Skene, soft labels",
    "AnnotatorCRF",
    "AnnotatorCRF, rules BIO",
    "true labels",
)
METHODS = (VOTES, SKENE, SOFT, JOINT, RULED, TRUE)


class Crowd(NamedTuple):
    """Sentences with their words, true labels, votes (T, 47) and numbers of documents."""

    words: list[list[tuple[str]]]
    truth: list[list[str]]
    votes: list[list[list[Any]]]
    documents: list[int]


def read(path: Path, n_documents: int | None = None) -> Crowd:
    """Return the sentences of a file, of its first documents if a number is given."""
    found, workers, document = Crowd([], [], [], []), [], -1
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for filled, block in groupby((line.rstrip("\n") for line in lines), key=bool):
            rows = list(block) if filled else []
            if rows and rows[0].startswith("# doc "):
                document += 1
                workers = [int(name[1:]) - 1 for name in rows.pop(0).split(" annotators ")[1].split()]
            if document == n_documents:
                break
            if not rows:
                continue
            tokens = [row.split("\t") for row in rows]
            votes = np.full((len(tokens), N_WORKERS), -1, dtype=object)
            votes[:, workers] = [[-1 if vote == "?" else vote for vote in given] for _, _, *given in tokens]
            found.words.append([(word,) for word, *_ in tokens])
            found.truth.append([label for _, label, *_ in tokens])
            found.votes.append(votes.tolist())
            found.documents.append(document)
    return found


def train(method: str, X: Any, crowd: Crowd) -> tuple[Any, list[Any] | None]:
    """Return a tagger and the labels it was trained on, None for the true ones."""
    if method in (JOINT, RULED):
        model = AnnotatorCRF(Chain(rules="BIO" if method == RULED else None)).fit(X, crowd.votes)
        return model, model.infer_labels(X, crowd.votes)
    skene = DawidSkene().fit(crowd.votes)
    task = Chain(labels=skene.labels_)
    if method == SOFT:
        return HiddenCRF(task).fit(X, skene.soft_labels(crowd.votes)), skene.predict(crowd.votes)
    if method == TRUE:
        return CRF(task).fit(X, crowd.truth), None
    labels = majority_vote(crowd.votes) if method == VOTES else skene.predict(crowd.votes)
    return CRF(task).fit(X, [y.tolist() for y in labels]), labels


def by_document(crowd: Crowd, labels: list[Any]) -> NDArray[np.int64]:
    """Return the counts of `half_labeled.count` for each document."""
    counts = count(crowd.truth, [[str(label) for label in y] for y in labels])
    found = np.zeros((crowd.documents[-1] + 1, counts.shape[1]), dtype=np.int64)
    np.add.at(found, crowd.documents, counts)
    return found


def measure(data_home: str | None, method: str, n_documents: int | None) -> dict[str, Any]:
    """Train one tagger on the first file; return its counts on the second, and those of the labels inferred."""
    crowd, test = (read(dataset_file(data_home, f"crowd_ner/{name}.txt.gz"), n_documents) for name in ("val", "test"))
    features = WindowFeatures()
    X = features.fit_transform(crowd.words)
    began = time.process_time()
    model, labels = train(method, X, crowd)
    seconds = time.process_time() - began
    return {
        "inferred": None if labels is None else by_document(crowd, labels),
        "predicted": by_document(test, model.predict(features.transform(test.words))),
        "seconds": seconds,
    }


def _show(arguments: tuple[Any, ...], found: dict[str, Any]) -> str:
    shown = [
        f"{name} {100 * chunk_f1(np.sum(found[part], axis=0)):.2f}"
        for name, part in (("inferred labels", "inferred"), ("tagger", "predicted"))
        if found[part] is not None
    ]
    return f"{arguments[1]}: F1 of {', '.join(shown)}, {found['seconds']:.1f} s"


class Scores:
    """F1 of all methods with standard errors over documents."""

    def __init__(self, found: dict[str, dict[str, Any]]) -> None:
        self.found = found

    def values(self, part: str, method: str) -> tuple[float, NDArray[np.float64]] | None:
        """Return F1 in %, and that of each sample of documents; None if the method infers no labels."""
        if self.found[method][part] is None:
            return None
        counts = np.array(self.found[method][part])
        return 100 * float(chunk_f1(counts.sum(axis=0))), 100 * chunk_f1(resample(len(counts)) @ counts)

    def cell(self, part: str, method: str, minus: str | None = None) -> str | None:
        """Return F1 or a difference of two with its standard error."""
        found, other = self.values(part, method), None if minus is None else self.values(part, minus)
        if found is None or (minus is not None and other is None):
            return None
        if other is None:
            return f"{found[0]:.2f} ± {found[1].std():.2f}"
        return f"{found[0] - other[0]:+.2f} ± {(found[1] - other[1]).std():.2f}"

    def table(self) -> Table:
        """Return F1, differences to the majority vote and CPU seconds."""
        parts = "inferred", "predicted"
        rows = [
            [
                method,
                *(cell for part in parts for cell in (self.cell(part, method), self.cell(part, method, VOTES))),
                round(self.found[method]["seconds"], 1),
            ]
            for method in self.found
        ]
        columns = ["labels from", "inferred, F1", "− majority", "tagger, F1", "− majority", "CPU s"]
        return Table("F1 of entities", columns, rows, "In %, ± the standard error over documents (bootstrap).")

    def claims(self) -> list[Claim]:
        """Return the figures of both tasks."""
        inferred = ", ".join(f"{method} {self.cell('inferred', method)}" for method in (VOTES, SKENE, JOINT, RULED))
        predicted = ", ".join(f"{method} {self.cell('predicted', method)}" for method in self.found)
        gains = self.cell("inferred", JOINT, SKENE), self.cell("predicted", JOINT, SKENE)
        gain = f"AnnotatorCRF minus Dawid-Skene: {gains[0]} for inferred labels, {gains[1]} for taggers"
        return [
            Claim("F1 of labels inferred from the votes", "", inferred, "no published figure"),
            Claim("F1 of taggers on other documents", "", predicted, "no published figure"),
            Claim("gain of learning tagger and confusions together", "", gain, "no published figure"),
        ]


def run(
    data_home: str | Path | None = None,
    quick: bool = False,
    say: Callable[[str], None] = print,
    trials: Trials | None = None,
) -> Findings:
    """Infer labels from those of several workers, and train taggers without the true labels.

    Parameters
    ----------
    data_home : path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.
    quick : bool, default=False
        Whether to take few documents.
    say : function of str, default=print
        Called with lines of progress.
    trials : Trials, optional
        Runs the trials; by default in this process.

    Returns
    -------
    Findings
        F1 of inferred labels and of taggers.
    """
    home, n_documents = None if data_home is None else str(data_home), QUICK_DOCUMENTS if quick else None
    arguments: list[tuple[Any, ...]] = [(home, method, n_documents) for method in METHODS]
    measured = (trials or Trials()).run(measure, arguments, say, "methods", _show)
    scores = Scores(dict(zip(METHODS, measured, strict=True)))
    sizes = partial(len, measured[0]["inferred"]), partial(len, measured[0]["predicted"])
    return Findings(
        name="crowd-ner",
        title="Named entities from the labels of 47 workers",
        data=f"CoNLL-2003 news labeled by about 5 workers per document, {sizes[0]()} documents to learn from and "
        f"{sizes[1]()} others to test taggers on",
        differs=[
            "The votes are those of Rodrigues, Pereira & Ribeiro (2014). They and others train on other parts of the "
            "documents, so that no published figure is put beside these.",
            "All settings are defaults, C = 1 and WindowFeatures(); true labels are used for scores only.",
        ],
        tables=[scores.table()],
        claims=scores.claims(),
        settings={
            "methods": {
                method: {
                    part: None if found[part] is None else np.sum(found[part], axis=0).tolist()
                    for part in ("inferred", "predicted")
                }
                for method, found in scores.found.items()
            }
        },
    )
