"""Sets of topics of news stories, with scores of pairs of topics and without, which are independent classifiers."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.estimators import StructuralSVM
from latentstruct.tasks.program.builders import label_set, label_set_output
from latentstruct.tasks.program.task import Program
from latentstruct_papers.datasets import load_reuters
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.ratios import difference, pooled_share
from latentstruct_papers.trials import Setup

PAIRS, SINGLE = "with pairs", "without pairs"
N_TOPICS, SIZES, QUICK_SIZES = 10, (1500, 500, 1500), (200, 100, 200)
"""Stories to train on, held out and to test on."""
LEAST_PAIR = (10, 3)
"""Stories in training that have both topics of a pair, in full and quick."""
STRENGTHS = (0.3, 1.0, 3.0)
TOL, CONSTANT = 1e-2, 0.2

Array = NDArray[Any]


class Stories(NamedTuple):
    """Words of stories, and which of the topics they have."""

    X: Array
    Y: Array


def choose(X: Any, topics: list[Any], names: list[str], n: int, rng: np.random.Generator) -> Stories:
    """Return words and a constant of some stories that have one of the topics."""
    Y = np.array([[float(name in some) for name in names] for some in topics])
    chosen = rng.permutation(np.flatnonzero(Y.any(axis=1)))[:n]
    words = X[chosen].toarray()
    return Stories(np.hstack([words, np.full((len(words), 1), CONSTANT)]), Y[chosen])


def train(stories: Stories, pairs: Array, C: float) -> StructuralSVM:
    """Return a structural SVM for sets of topics with scores of some pairs."""
    programs = [label_set(x, N_TOPICS, pairs) for x in stories.X]
    outputs = [label_set_output(y, N_TOPICS, pairs) for y in stories.Y]
    return StructuralSVM(Program(), C=C, tol=TOL).fit(programs, outputs)


def predict(model: StructuralSVM, X: Array, pairs: Array) -> Array:
    """Return the best sets of topics."""
    return np.array([y[:N_TOPICS] for y in model.predict([label_set(x, N_TOPICS, pairs) for x in X])])


def f1(Y: Array, found: Array) -> float:
    """Return F1 over all topics together."""
    return float(2 * (Y * found).sum() / (Y + found).sum())


def mean_f1(Y: Array, found: Array) -> float:
    """Return the mean of the F1 of topics."""
    return float(np.mean(2 * (Y * found).sum(axis=0) / np.maximum((Y + found).sum(axis=0), 1)))


def run(setup: Setup) -> Findings:
    """Compare sets of topics with scores of pairs and without."""
    data, rng = load_reuters(setup.data_home), np.random.default_rng(0)
    n_train, n_held_out, n_test = QUICK_SIZES if setup.quick else SIZES
    counts = Counter(name for some in data.train_topics for name in some)
    names = [name for name, _ in counts.most_common(N_TOPICS)]
    X, Y = choose(data.train_X, data.train_topics, names, n_train + n_held_out, rng)
    test = choose(data.test_X, data.test_topics, names, n_test, rng)
    first, held_out = Stories(X[:n_train], Y[:n_train]), Stories(X[n_train:], Y[n_train:])
    together, least = first.Y.T @ first.Y, LEAST_PAIR[setup.quick]
    pairs = np.argwhere(np.triu(together >= least, 1))
    found, rows = {}, list[list[Any]]()
    for kind, some in ((PAIRS, pairs), (SINGLE, pairs[:0])):
        tried = {C: f1(held_out.Y, predict(train(first, some, C), held_out.X, some)) for C in STRENGTHS}
        C = max(tried, key=tried.__getitem__)
        model = train(Stories(X, Y), some, C)
        found[kind] = predict(model, test.X, some)
        wrong, ones = (found[kind] != test.Y).sum(axis=1), np.ones(len(test.Y))
        shares = [pooled_share(*one).percent() for one in ((wrong == 0, ones), (wrong, N_TOPICS * ones))]
        quality = f"{f1(test.Y, found[kind]):.3f}", f"{mean_f1(test.Y, found[kind]):.3f}"
        gap = f"{model.relative_gap_:.4f}" if model.certified_ else "not proved"
        rows.append([kind, f"{C:g}", *quality, *shares, gap])
        setup.say(f"{kind}: C = {C:g}, F1 {quality[0]}")
    columns = ["model", "C", "F1", "mean F1 of topics", "right sets %", "wrong topics %", "gap"]
    together_right, alone_right = ((found[kind] == test.Y).all(axis=1) for kind in (PAIRS, SINGLE))
    note = f"{len(pairs)} pairs of topics, those of {least} or more stories in training."
    scores = ", ".join(f"{kind} {f1(test.Y, one):.3f}" for kind, one in found.items())
    return Findings(
        name="topics",
        title="Sets of topics with scores of pairs, by integer programs",
        data=f"Reuters-21578, the {N_TOPICS} most frequent topics, {len(X)} training and {len(test.X)} test stories",
        differs=[
            "No paper has this model on these data.",
            f"C is chosen by the F1 of {n_held_out} stories of training among {', '.join(map(str, STRENGTHS))}.",
            *(["Quick: fewer stories."] if setup.quick else []),
        ],
        tables=[Table("Topics of test stories, ± standard error over stories", columns, rows, note)],
        claims=[
            Claim("F1 over all topics", "", scores, "no published figure"),
            Claim(
                "right sets of topics, with pairs against without",
                "",
                f"{difference(together_right, alone_right, np.ones(len(test.Y))).percent()} % of the stories",
                "no published figure",
            ),
        ],
        settings={"strengths": list(STRENGTHS), "pairs": [[names[a], names[b]] for a, b in pairs.tolist()]},
    )
