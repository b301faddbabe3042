"""Named entities from several annotators: F1 of inferred labels, and of taggers trained on them.

``python -m benchmarks.annotators [--documents N]`` reads ``crowd_ner/val.txt.gz`` in the data home: 200 documents
labeled by 47 workers, about 5 each, and the true labels. It prints F1 of the labels that are inferred for all
documents. It also prints F1 of taggers that are trained without true labels and compared with these on 5 folds of
documents, with standard errors over folds. All settings are defaults.
"""

import argparse
import gzip
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentstruct import CRF, AnnotatorCRF, Chain, DawidSkene, HiddenCRF, WindowFeatures, assign_folds, majority_vote
from latentstruct.metrics import chunk_scores
from latentstruct_papers.datasets.home import dataset_file

N_WORKERS, N_FOLDS = 47, 5


class Crowd(NamedTuple):
    """Sentences with their words, true labels, votes (T, 47) and documents."""

    words: list[list[tuple[str]]]
    truth: list[list[str]]
    votes: list[list[list[Any]]]
    documents: list[int]

    def at(self, rows: np.ndarray) -> "Crowd":
        return Crowd(*([part[i] for i in rows] for part in self))


def read(path: Path, n_documents: int) -> Crowd:
    found, workers, document = Crowd([], [], [], []), [], -1
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for block in lines.read().split("\n\n"):
            rows = block.strip("\n").split("\n")
            if rows[0].startswith("# doc "):
                document += 1
                workers = [int(name[1:]) - 1 for name in rows.pop(0).split(" annotators ")[1].split()]
            if document >= n_documents:
                break
            fields = [row.split("\t") for row in rows if row]
            if not fields:
                continue
            found.words.append([(word,) for word, *_ in fields])
            found.truth.append([label for _, label, *_ in fields])
            found.votes.append([])
            for _, _, *given in fields:
                row: list[Any] = [-1] * N_WORKERS
                for worker, vote in zip(workers, given, strict=True):
                    row[worker] = -1 if vote == "?" else vote
                found.votes[-1].append(row)
            found.documents.append(document)
    return found


def inferred(crowd: Crowd, X: Any) -> dict[str, list[Any]]:
    """Return labels of the documents that the votes are for."""
    skene = DawidSkene().fit(crowd.votes)
    joint = AnnotatorCRF(Chain()).fit(X, crowd.votes)
    ruled = AnnotatorCRF(Chain(rules="BIO")).fit(X, crowd.votes)
    return {
        "majority vote": majority_vote(crowd.votes),
        "Dawid-Skene": skene.predict(crowd.votes),
        "AnnotatorCRF": joint.infer_labels(X, crowd.votes),
        "AnnotatorCRF, rules='BIO'": ruled.infer_labels(X, crowd.votes),
    }


def taggers(crowd: Crowd, X: Any) -> dict[str, Any]:
    """Return trained taggers."""
    skene = DawidSkene().fit(crowd.votes)
    labels = Chain(labels=skene.labels_)
    return {
        "majority vote": CRF(labels).fit(X, [y.tolist() for y in majority_vote(crowd.votes)]),
        "Dawid-Skene": CRF(labels).fit(X, [y.tolist() for y in skene.predict(crowd.votes)]),
        "Dawid-Skene, soft labels": HiddenCRF(labels).fit(X, skene.soft_labels(crowd.votes)),
        "AnnotatorCRF": AnnotatorCRF(Chain()).fit(X, crowd.votes),
        "AnnotatorCRF, rules='BIO'": AnnotatorCRF(Chain(rules="BIO")).fit(X, crowd.votes),
        "true labels": CRF(labels).fit(X, crowd.truth),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=200)
    options = parser.parse_args()
    crowd = read(dataset_file(None, "crowd_ner/val.txt.gz"), options.documents)
    began = time.process_time()
    X = WindowFeatures().fit_transform(crowd.words)
    print(f"{len(X)} sentences, inferred labels:", flush=True)
    for name, labels in inferred(crowd, X).items():
        print(f"  {name}: F1 {100 * chunk_scores(crowd.truth, [y.tolist() for y in labels]).f1:.2f}", flush=True)
    folds = assign_folds(len(X), N_FOLDS, groups=crowd.documents)
    found: dict[str, list[float]] = {}
    for k in range(N_FOLDS):
        train, test = (crowd.at(np.flatnonzero(chosen)) for chosen in (folds != k, folds == k))
        features = WindowFeatures()
        X_train = features.fit_transform(train.words)
        X_test = features.transform(test.words)
        for name, model in taggers(train, X_train).items():
            predicted = [y.tolist() for y in model.predict(X_test)]
            found.setdefault(name, []).append(100 * chunk_scores(test.truth, predicted).f1)
        print(f"  fold {k + 1}: {time.process_time() - began:.0f} CPU s", flush=True)
    print(f"taggers, {N_FOLDS} folds of documents:")
    for name, values in found.items():
        error = np.std(values, ddof=1) / np.sqrt(N_FOLDS)
        print(f"  {name}: F1 {np.mean(values):.2f} ± {error:.2f}")


if __name__ == "__main__":
    main()
