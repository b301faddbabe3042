"""Joachims et al. (2009), sections 1 and 2: a weighted grammar learned by a structural SVM beside a PCFG by counts."""

import re
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import Prediction, Temperature
from latentstruct.core.types import Vector
from latentstruct.data.trees import Tree, tagged_words, words
from latentstruct.estimators import CRF, LatentSSVM, StructuralSVM
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.io.brackets import format_tree, parse_tree
from latentstruct.metrics.parses import ParseScores, parse_counts, parse_scores
from latentstruct.tasks.parsing.task import Parsing
from latentstruct_papers.datasets import CessEsp, load_cess_esp
from latentstruct_papers.findings import Claim, Findings, Table, Verdict
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARES = (0.6, 0.15, 0.25)
MARKOV = 1
RESAMPLES = 2000
LENGTHS = (1, 6, 11, 16, 21, 26)


class Parser(NamedTuple):
    """One model: its name, its estimator (None for counts), the values of C to try, and the options of its task."""

    name: str
    estimator: Any
    strengths: tuple[float, ...] = ()
    features: Literal["rules", "spans"] = "rules"
    loss: Literal["hamming", "f1"] = "hamming"
    splits: int = 1


COUNTS = Parser("PCFG by counts", None)
HAMMING = Parser("SSVM, Hamming loss", StructuralSVM, (0.1, 1.0, 10.0))
# A loss of 1 at most in place of a number of constituents makes the same weights smaller, at a smaller C.
F1_LOSS = Parser("SSVM, F1 loss", StructuralSVM, (0.001, 0.01, 0.1), loss="f1")
LIKELIHOOD = Parser("CRF", CRF, (0.1, 1.0, 10.0))
SPANS = Parser("SSVM, spans", StructuralSVM, (0.01, 0.1, 1.0), features="spans")
SPANS_LIKELIHOOD = Parser("CRF, spans", CRF, (0.1, 1.0), features="spans")
SPLIT = Parser("latent SSVM, labels in two variants", LatentSSVM, (0.1, 1.0), splits=2)


class Setting(NamedTuple):
    """How much of everything is taken.

    Attributes
    ----------
    longest : int
        The most words of a sentence.
    most : tuple of three int
        The most sentences of training, validation and test.
    parsers : tuple of Parser
        What is compared, beside the counts.
    tol : float
        Relative gap to which models are trained.
    max_iter : int
        Limit of training.
    """

    longest: int
    most: tuple[int, int, int]
    parsers: tuple[Parser, ...]
    tol: float
    max_iter: int


FULL = Setting(
    25, (1000, 250, 500), (HAMMING, F1_LOSS, LIKELIHOOD, SPANS, SPANS_LIKELIHOOD, SPLIT), tol=0.02, max_iter=60
)
QUICK = Setting(
    15,
    (400, 100, 200),
    tuple(parser._replace(strengths=(parser.strengths[1],)) for parser in (HAMMING, F1_LOSS, LIKELIHOOD, SPANS)),
    tol=0.05,
    max_iter=30,
)


class Part(NamedTuple):
    """Sentences, words with their tags, and their trees."""

    X: list[list[tuple[str, str]]]
    Y: list[Tree]


@dataclass(frozen=True)
class Fitted:
    """One trained model and what it predicts."""

    parser: Parser
    C: float | None
    validation: float
    seconds: float
    iterations: int
    predicted: list[Tree]


@dataclass(frozen=True)
class Tested:
    """The model of a kind that was best on the validation sentences, on the test sentences."""

    fitted: Fitted
    scores: ParseScores
    counts: NDArray[np.int64]


def document(name: str) -> str:
    """Return the document that a file of the treebank is a part of."""
    return re.split("[-_]", name)[0]


def divide(treebank: CessEsp, setting: Setting, seed: int = 0) -> list[Part]:
    """Return training, validation and test sentences; the files of one document are never divided."""
    names = [document(name) for name in treebank.names]
    rng = np.random.default_rng(seed)
    order = rng.permutation(sorted(set(names))).tolist()
    ends = np.cumsum(np.array(SHARES) * len(order)).round().astype(int)
    part_of = {name: int(np.searchsorted(ends, place, side="right")) for place, name in enumerate(order)}
    short = [i for i, tree in enumerate(treebank.trees) if len(words(tree)) <= setting.longest]
    parts = []
    for number, most in enumerate(setting.most):
        inside = [i for i in short if part_of[names[i]] == number]
        chosen = np.sort(rng.permutation(inside)[:most]).tolist()
        trees = [treebank.trees[i] for i in chosen]
        parts.append(Part([tagged_words(tree) for tree in trees], trees))
    return parts


def task_of(parser: Parser) -> Parsing:
    """Return the task of a model."""
    return Parsing(features=parser.features, loss=parser.loss, splits=parser.splits, markov=MARKOV)


def parse_by_counts(train: Part, X: Sequence[Any]) -> list[Prediction]:
    """Return the most probable trees by the relative frequencies of rules, with their log-probabilities."""
    task = task_of(COUNTS)
    task.learn(train.X, train.Y)
    weights = task.pcfg_weights(train.X, train.Y)
    return task.decode(task.prepare(X), weights, Temperature())


def fit(parser: Parser, C: float, train: Part, setting: Setting) -> Any:
    """Train one model."""
    model = parser.estimator(task_of(parser), C=C, tol=setting.tol, max_iter=setting.max_iter)
    with warnings.catch_warnings():
        # Iterations are limited on purpose; the table tells how many there were.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(train.X, train.Y)


@lru_cache(maxsize=1)
def load(quick: bool, data_home: str | None) -> list[Part]:
    """Return training, validation and test sentences of the treebank."""
    return divide(load_cess_esp(data_home), QUICK if quick else FULL)


def measure(number: int, C: float, quick: bool, data_home: str | None) -> dict[str, Any]:
    """Train a model and return its F1 on validation sentences and the trees of test sentences in brackets."""
    setting = QUICK if quick else FULL
    train, validation, test = load(quick, data_home)
    began = time.process_time()
    model = fit(setting.parsers[number], C, train, setting)
    return {
        "seconds": time.process_time() - began,
        "iterations": int(model.n_iter_),
        "validation": parse_scores(validation.Y, model.predict(validation.X)).f1,
        "predicted": [format_tree(tree) for tree in model.predict(test.X)],
    }


def count(parts: Sequence[Part], say: Callable[[str], None]) -> tuple[Fitted, int]:
    """Return what the grammar by counts predicts, and how many test sentences it cannot derive."""
    train, validation, test = parts
    tried, found = parse_by_counts(train, validation.X), parse_by_counts(train, test.X)
    f1 = parse_scores(validation.Y, [prediction.y for prediction in tried]).f1
    n_failed = sum(not np.isfinite(prediction.score) for prediction in found)
    say(f"{COUNTS.name}: F1 {100 * f1:.2f} on validation; {n_failed} test sentences cannot be derived")
    return Fitted(COUNTS, None, f1, 0.0, 0, [prediction.y for prediction in found]), n_failed


def f1_of(counts: NDArray[Any]) -> Any:
    """Return F1 of sums of (true, predicted, correct) in the last axis."""
    return 2.0 * counts[..., 2] / np.maximum(counts[..., 0] + counts[..., 1], 1)


def exchange_test(one: NDArray[np.int64], other: NDArray[np.int64], seed: int = 0) -> float:
    """Return the p-value of a difference in F1 by exchanging the models on each sentence at random.

    Parameters
    ----------
    one, other : int arrays of shape (n, 3)
        Constituents of each sentence that are true, predicted and both, for two models.
    seed : int, default=0
        Seed of the exchanges.

    Returns
    -------
    float
        (1 + the number of `RESAMPLES` exchanges with a difference at least as large) / (1 + `RESAMPLES`).
    """
    swaps = np.random.default_rng(seed).integers(0, 2, size=(RESAMPLES, len(one)))
    difference = swaps @ (other - one)
    exchanged = f1_of(one.sum(axis=0) + difference) - f1_of(other.sum(axis=0) - difference)
    observed = f1_of(one.sum(axis=0)) - f1_of(other.sum(axis=0))
    return float((1 + (np.abs(exchanged) >= abs(observed) - 1e-12).sum()) / (1 + RESAMPLES))


def standard_error(one: NDArray[np.int64], other: NDArray[np.int64], seed: int = 0) -> float:
    """Return the standard error of a difference in F1 on the same sentences, by the bootstrap."""
    n = len(one)
    draws = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=RESAMPLES)
    return float((f1_of(draws @ one) - f1_of(draws @ other)).std())


def score_table(tested: Sequence[Tested], n_failed: int) -> Table:
    """Return the scores of all models."""
    rows: list[list[Any]] = []
    for one in tested:
        scores, fitted = one.scores, one.fitted
        shares = (scores.precision, scores.recall, scores.f1, scores.unlabeled.f1, scores.complete_match)
        strength = None if fitted.C is None else f"{fitted.C:g}"
        rows.append(
            [fitted.parser.name, strength, *(f"{100 * share:.2f}" for share in shares), f"{scores.crossing:.2f}"]
        )
    columns = ["model", "C", "precision", "recall", "F1", "unlabeled F1", "wholly right", "crossing"]
    return Table(
        "Test sentences",
        columns,
        rows,
        "In %, over constituents of all sentences as EVALB counts them, punctuation and root included; crossing: "
        "constituents a sentence that cross a true one. C by the validation sentences. The grammar, the same for all "
        f"models, cannot derive {n_failed} of {len(tested[0].counts)} sentences: these have flat trees.",
    )


def gain_table(tested: Sequence[Tested]) -> Table:
    """Return the gains of all models over the counts, with paired tests."""
    counts = tested[0].counts
    rows: list[list[Any]] = []
    for one in tested[1:]:
        gain = f1_of(one.counts.sum(axis=0)) - f1_of(counts.sum(axis=0))
        each = f1_of(one.counts) - f1_of(counts)
        rows.append(
            [
                one.fitted.parser.name,
                f"{100 * gain:+.2f}",
                f"{100 * standard_error(one.counts, counts):.2f}",
                exchange_test(one.counts, counts),
                f"{(each > 0).sum()}, {(each < 0).sum()}",
            ]
        )
    return Table(
        f"F1 minus that of the {COUNTS.name}, on the same {len(counts)} test sentences",
        ["model", "gain", "s.e.", "p", "better, worse"],
        rows,
        f"s.e. by the bootstrap over sentences, p by {RESAMPLES} random exchanges of the two models on each sentence; "
        "better, worse: numbers of sentences.",
    )


def claims(tested: Sequence[Tested]) -> list[Claim]:
    """Return whether each model has a higher F1 than the counts."""
    counts, found = tested[0].counts, []
    base = f1_of(counts.sum(axis=0))
    for one in tested[1:]:
        f1 = f1_of(one.counts.sum(axis=0))
        error = standard_error(one.counts, counts)
        shown = f"{100 * f1:.1f}, {100 * base:.1f}: {100 * (f1 - base):+.1f} ± {100 * error:.1f}"
        verdict: Verdict = "reproduced" if f1 - base > 2 * error else "not reproduced"
        what = f"labeled F1 of {one.fitted.parser.name} above {COUNTS.name}"
        found.append(Claim(what, "no figures", shown, verdict, other_data=True))
    return found


def strength_table(fitted: Sequence[Fitted]) -> Table:
    """Return validation scores at all strengths, and what training took."""
    rows = [
        [
            one.parser.name,
            None if one.C is None else f"{one.C:g}",
            f"{100 * one.validation:.2f}",
            one.iterations or None,
            f"{one.seconds:.1f}" if one.iterations else None,
        ]
        for one in fitted
    ]
    return Table("Validation", ["model", "C", "F1", "iterations", "CPU seconds"], rows)


def length_plot(tested: Sequence[Tested], lengths: Vector) -> "Callable[[Axes], None]":
    """Return a plot of F1 against the length of sentences."""

    def draw(axes: "Axes") -> None:
        bins = [(a, b, (lengths >= a) & (lengths < b)) for a, b in pairwise(LENGTHS)]
        shown = [(f"{a}–{b - 1}", inside) for a, b, inside in bins if inside.any()]
        for one in tested:
            values = [100 * f1_of(one.counts[inside].sum(axis=0)) for _, inside in shown]
            axes.plot([text for text, _ in shown], values, marker="o", label=one.fitted.parser.name)
        axes.set(xlabel="words of the sentence", ylabel="labeled F1 in %")
        axes.legend(fontsize=8)

    return draw


def run(setup: Setup) -> Findings:
    """Compare a grammar learned by a structural SVM with one by counts, on Spanish sentences."""
    setting = QUICK if setup.quick else FULL
    parts = load(setup.quick, setup.data_home)
    sizes = [len(part.X) for part in parts]
    setup.say(f"{sizes[0]} sentences for training, {sizes[1]} for validation, {sizes[2]} for test")
    counted, n_failed = count(parts, setup.say)
    plan: list[tuple[Any, ...]] = [
        (number, C, setup.quick, setup.data_home)
        for number, parser in enumerate(setting.parsers)
        for C in parser.strengths
    ]

    def show(arguments: tuple[Any, ...], found: dict[str, Any]) -> str:
        shown = f"F1 {100 * found['validation']:.2f} on validation, {found['seconds']:.0f} s of training"
        return f"{setting.parsers[arguments[0]].name}, C = {arguments[1]:g}: {shown}"

    measured = setup.trials.run(measure, plan, setup.say, "trainings", show)
    fitted = [counted]
    for (number, C, *_), one in zip(plan, measured, strict=True):
        predicted = [parse_tree(text) for text in one["predicted"]]
        fitted.append(
            Fitted(setting.parsers[number], C, one["validation"], one["seconds"], one["iterations"], predicted)
        )
    best = [counted]
    for parser in setting.parsers:
        best.append(max((one for one in fitted if one.parser is parser), key=lambda one: one.validation))
    true = parts[2].Y
    tested = [Tested(one, parse_scores(true, one.predicted), parse_counts(true, one.predicted)) for one in best]
    lengths = np.array([len(x) for x in parts[2].X])
    return Findings(
        name="ssvm-parsing",
        title="Joachims et al. (2009), sections 1 and 2: weights of a grammar by structural SVMs and by counts",
        data=f"CESS-ESP, sentences of {setting.longest} words at most: {sizes[0]} for training, {sizes[1]} for "
        f"validation, {sizes[2]} for test, divided by documents",
        differs=_differences(setup.quick),
        tables=[score_table(tested, n_failed), gain_table(tested), strength_table(fitted)],
        claims=claims(tested),
        plots={"lengths": length_plot(tested, lengths)},
        settings={
            **setting._asdict(),
            "parsers": {parser.name: parser.strengths for parser in setting.parsers},
            "markov": MARKOV,
            "shares": SHARES,
            "sizes": sizes,
            "n_failed": n_failed,
            "f1": {one.fitted.parser.name: one.scores.f1 for one in tested},
        },
    )


def _differences(quick: bool) -> list[str]:
    differences = [
        "The paper names parsing as an example and gives no figures for it; these are Spanish sentences, as the Penn "
        "Treebank is not among the data here.",
        "The tags of the words are given, in training and test, to all models alike.",
        "All models have the rules of the training trees, binarised with the sister to the left kept; the PCFG has "
        "their relative frequencies.",
        "Labels and tags are simplified: functions, gender and number are left out.",
        "Spans look at words and tags at their ends and just outside, which the rules of the PCFG cannot.",
    ]
    return [*differences, "Quick: few short sentences and one value of C."] if quick else differences
