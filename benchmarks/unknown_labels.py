"""When unknown labels help: noun phrases of CoNLL-2000 with labels removed in several ways.

``python -m benchmarks.unknown_labels [--sentences N] [--seeds K] [--plot FILE]`` trains on N sentences whose labels are
partly removed, once with a hidden CRF and once on the labeled tokens alone, and prints F1 of noun phrases on the first
1000 test sentences, means over seeds with standard errors. All settings are defaults.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from latentstruct import CRF, Chain, EntityRatio, HiddenCRF, WindowFeatures
from latentstruct.cli.kinds.chain.files import labeled_runs
from latentstruct.metrics import chunk_scores
from latentstruct_papers.datasets import load_conll2000

LABELS = ["B-NP", "I-NP", "O"]
Labels = list[list[Any]]


def noun_phrases(Y: list[list[str]]) -> Labels:
    return [[label if label in LABELS else "O" for label in y] for y in Y]


def tokens(Y: Labels, rng: np.random.Generator) -> Labels:
    return [[-1 if rng.random() < 0.9 else label for label in y] for y in Y]


def sentences(Y: Labels, rng: np.random.Generator) -> Labels:
    return [[-1] * len(y) if rng.random() < 0.9 else y for y in Y]


def sets(Y: Labels, rng: np.random.Generator) -> Labels:
    def widened(label: str) -> Any:
        others = [other for other in LABELS if other != label]
        return {label, others[rng.integers(2)]} if rng.random() < 0.9 else label

    return [list(map(widened, y)) for y in Y]


def entities(Y: Labels, rng: np.random.Generator) -> Labels:
    return [[-1 if label == "O" else label for label in y] if rng.random() < 0.9 else y for y in Y]


CASES: dict[str, Callable[[Labels, np.random.Generator], Labels]] = {
    "90 % of the tokens unknown": tokens,
    "90 % of the sentences unknown": sentences,
    "90 % of the tokens with two labels": sets,
    "90 % of the sentences with entities only": entities,
}


def ratio_of(Y: Labels) -> EntityRatio:
    """Return the share of entities in sentences without unknown labels."""
    known = [label for y in Y if -1 not in y for label in y]
    return EntityRatio(1.0 - known.count("O") / len(known))


def scores(n_sentences: int, seed: int) -> dict[tuple[str, str], float]:
    """Return F1 by case and model."""
    rng = np.random.default_rng(seed)
    train, test = load_conll2000(subset="train"), load_conll2000(subset="test")
    rows = rng.permutation(len(train.Y))[:n_sentences]
    features = WindowFeatures()
    X = features.fit_transform([train.tokens[i] for i in rows])
    truth = noun_phrases([train.Y[i] for i in rows])
    X_test, Y_test = features.transform(test.tokens[:1000]), noun_phrases(test.Y[:1000])
    task, found = Chain(LABELS), {}

    def judge(case: str, name: str, model: Any) -> None:
        predicted = [y.tolist() for y in model.predict(X_test)]
        found[case, name] = 100 * chunk_scores(Y_test, predicted).f1
        print(f"  seed {seed}, {case}, {name}: F1 {found[case, name]:.2f}", flush=True)

    judge("all labels", "labeled tokens alone", CRF(task, seen_only=True).fit(X, truth))
    for case, remove in CASES.items():
        Y = remove(truth, rng)
        alone_X, alone_Y, _ = labeled_runs(X, Y)
        judge(case, "labeled tokens alone", CRF(task, seen_only=True).fit(alone_X, alone_Y))
        judge(case, "hidden CRF", HiddenCRF(task).fit(X, Y))
        if remove is entities:
            judge(case, "hidden CRF, entity_ratio", HiddenCRF(task, entity_ratio=ratio_of(Y)).fit(X, Y))
    return found


def draw(means: dict[tuple[str, str], list[float]], path: str) -> None:
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for _, name in means))
    cases = list(dict.fromkeys(case for case, _ in means))
    figure, ax = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
    for k, name in enumerate(names):
        places = [i for i, case in enumerate(cases) if (case, name) in means]
        values = [means[cases[i], name] for i in places]
        errors = [np.std(one, ddof=1) / np.sqrt(len(one)) if len(one) > 1 else 0.0 for one in values]
        where = [i + 0.25 * (k - 1) for i in places]
        ax.barh(where, [np.mean(one) for one in values], 0.22, xerr=errors, label=name)
    ax.set_yticks(range(len(cases)), cases)
    ax.invert_yaxis()
    ax.set_xlim(min(map(np.mean, means.values())) - 3, 100)
    ax.set_xlabel("F1 of noun phrases, %")
    ax.legend(loc="lower right", fontsize="small")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plot")
    options = parser.parse_args()
    found: dict[tuple[str, str], list[float]] = {}
    for seed in range(options.seeds):
        for key, value in scores(options.sentences, seed).items():
            found.setdefault(key, []).append(value)
    for (case, name), values in found.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
        print(f"{case}, {name}: F1 {np.mean(values):.2f} ± {error:.2f}")
    if options.plot:
        draw(found, options.plot)


if __name__ == "__main__":
    main()
