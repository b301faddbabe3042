"""Coreference of LitBank by ten folds, mentions given: ``python -m benchmarks.litbank_folds [--penalty 1 0.1]``.

Fold k has the documents k, k + 10, … in the order of their names. Without penalties, each training chooses its own.
"""

import argparse
import time
from typing import Any

from latentstruct import Coreference, LatentSSVM
from latentstruct.cli.kinds.coreference.command import choose_penalty
from latentstruct.estimators.folds import take
from latentstruct.features.mentions import MentionPairFeatures, baseline_clusters
from latentstruct.metrics import cluster_scores
from latentstruct.progress.display import Progress
from latentstruct_papers.datasets import load_litbank

FOLDS = 10


def show(name: str, truth: list[Any], found: list[Any]) -> None:
    scores = cluster_scores(truth, found)
    shown = [f"{part} {100 * getattr(scores, part).f1:.2f}" for part in ("muc", "b_cubed", "ceaf_entity", "lea")]
    print(f"{name}: CoNLL F1 {100 * scores.conll_f1:.2f}, {', '.join(shown)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--penalty", type=float, nargs="*", default=[], help="penalties, each for all folds")
    penalties = parser.parse_args().penalty or [None]
    documents = sorted(load_litbank(), key=lambda document: document.name)
    X, Y = MentionPairFeatures().transform(documents), [document.clusters for document in documents]
    rules = [baseline_clusters(document) for document in documents]
    for name in rules[0]:
        show(name, Y, [one[name] for one in rules])
    for penalty in penalties:
        found: list[Any] = [None] * len(Y)
        for fold in range(FOLDS):
            began = time.process_time()
            test = list(range(fold, len(Y), FOLDS))
            train = [k for k in range(len(Y)) if k % FOLDS != fold]
            model = LatentSSVM(Coreference(), C=0.01, restarts=1)
            chosen = penalty or choose_penalty(model, take(X, train), take(Y, train), Progress(quiet=True))
            model.set_params(task__penalty=chosen).fit(take(X, train), take(Y, train))
            for k, clusters in zip(test, model.predict(take(X, test)), strict=True):
                found[k] = clusters
            seconds = time.process_time() - began
            show(f"fold {fold}, penalty {chosen:g}, {seconds:.0f} CPU s", take(Y, test), take(found, test))
        show(f"all folds, penalty {penalty or 'chosen in each'}", Y, found)


if __name__ == "__main__":
    main()
