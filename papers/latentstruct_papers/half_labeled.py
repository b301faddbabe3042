"""CoNLL-2000 with tags removed at random: unknown tags as latent variables, against the tagged tokens alone."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.core.types import offsets_from_lengths
from latentstruct.core.unknown import UNKNOWN
from latentstruct.estimators import CRF, HiddenCRF, LatentSSVM, MarginalSSVM, StructuralSVM
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.features.windows import WindowFeatures
from latentstruct.metrics import chunk_spans
from latentstruct.progress.eta import Steps
from latentstruct.solvers import CCCP, BlockAscent
from latentstruct.tasks import Chain, Multiclass
from latentstruct_papers.datasets import load_conll2000
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGINAL, LATENT, HIDDEN = "marginal SSVM", "latent SSVM", "hidden CRF"
PIECES_SVM, PIECES_CRF = "pieces, SSVM", "pieces, CRF"
TOKENS_SVM, TOKENS_CRF = "tokens, SVM", "tokens, logistic"

LATENT_TOL = 1e-2

ESTIMATORS: dict[str, Any] = {
    MARGINAL: partial(MarginalSSVM, tol=LATENT_TOL),
    # With this many weights a bundle of dense planes, to which the default solver turns in the end, takes too long.
    LATENT: partial(LatentSSVM, solver=CCCP(BlockAscent(max_iter=50), max_iter=30), tol=LATENT_TOL),
    HIDDEN: partial(HiddenCRF, tol=LATENT_TOL),
    PIECES_SVM: StructuralSVM,
    PIECES_CRF: CRF,
    TOKENS_SVM: StructuralSVM,
    TOKENS_CRF: CRF,
}
LATENT_METHODS, PIECES, TOKENS = (MARGINAL, LATENT, HIDDEN), (PIECES_SVM, PIECES_CRF), (TOKENS_SVM, TOKENS_CRF)
CONTROLS = (*PIECES, *TOKENS)

# Likelihoods want weaker regularization than margins.
LIKELIHOODS, LIKELIHOOD_FACTOR = (HIDDEN, PIECES_CRF, TOKENS_CRF), 10.0

CHOSEN_AT = 0.5
RESAMPLES = 1000


class Sizes(NamedTuple):
    """How much of everything is taken; None for all."""

    train: int | None
    test: int | None
    shares: tuple[float, ...]
    grid: tuple[float, ...]
    choosing: int


FULL = Sizes(3000, None, (0.1, 0.3, 0.5, 0.7, 0.9), (0.03, 0.1, 0.3), 500)
QUICK = Sizes(250, 300, (0.5, 0.9), (0.03, 0.1), 100)


class Sentences(NamedTuple):
    """Sentences as features (T, d) of their tokens, with their tags; UNKNOWN for those removed."""

    X: list[Any]
    Y: list[list[Any]]

    def take(self, chosen: Any) -> "Sentences":
        """Return the chosen sentences."""
        return Sentences([self.X[k] for k in chosen], [self.Y[k] for k in chosen])


@dataclass(frozen=True)
class Measured:
    """One trained model on the test sentences."""

    share: float
    method: str
    C: float
    counts: NDArray[np.int64]
    seconds: float
    iterations: int


def remove_tags(sentences: Sentences, share: float, seed: int) -> Sentences:
    """Return the sentences with a share of their tags unknown; those unknown at a share are so at all larger ones."""
    drawn = np.random.default_rng(seed).random(sum(map(len, sentences.Y)))
    starts = offsets_from_lengths(map(len, sentences.Y))
    lines = (drawn[start : start + len(y)] for start, y in zip(starts, sentences.Y, strict=False))
    return Sentences(
        sentences.X,
        [
            [UNKNOWN if u < share else tag for u, tag in zip(line, y, strict=True)]
            for line, y in zip(lines, sentences.Y, strict=True)
        ],
    )


def labeled_pieces(sentences: Sentences) -> Sentences:
    """Return each longest run of tagged tokens as a sequence of its own."""
    pieces = Sentences([], [])
    for x, y in zip(*sentences, strict=True):
        known = np.flatnonzero([tag != UNKNOWN for tag in y])
        for run in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
            if len(run):
                pieces.X.append(x[run[0] : run[-1] + 1])
                pieces.Y.append([y[t] for t in run])
    return pieces


def fit(method: str, C: float, sentences: Sentences, labels: Sequence[str]) -> Any:
    """Train one of `ESTIMATORS` on half-tagged sentences in the form it takes."""
    if method in LATENT_METHODS:
        model = ESTIMATORS[method](Chain(labels=labels), C=C)
        with warnings.catch_warnings():
            # Iterations of the latent SSVM are limited, which is stated with the findings.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(*sentences)
    pieces = labeled_pieces(sentences)
    if method in PIECES:
        return ESTIMATORS[method](Chain(labels=labels), C=C).fit(*pieces)
    tags = [tag for y in pieces.Y for tag in y]
    return ESTIMATORS[method](Multiclass(labels=labels), C=C).fit(sparse.vstack(pieces.X, format="csr"), tags)


def predict(model: Any, X: list[Any]) -> list[Sequence[str]]:
    """Return the tags of each sentence, also by a model of single tokens."""
    if isinstance(model.task_, Chain):
        return model.predict(X)
    tags = model.predict(sparse.vstack(X, format="csr"))
    return [tags[start:end] for start, end in zip(*_ends(X), strict=True)]


def _ends(X: list[Any]) -> tuple[list[int], list[int]]:
    offsets = offsets_from_lengths(x.shape[0] for x in X).tolist()
    return offsets[:-1], offsets[1:]


def count(true: Sequence[Sequence[Any]], predicted: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Return for each sentence: tagged tokens, right ones, chunks, predicted chunks and those that are both.

    Chunks are counted in sentences without unknown tags only.
    """
    rows = []
    for y, found in zip(true, predicted, strict=True):
        known = [(tag, other) for tag, other in zip(y, found, strict=True) if tag != UNKNOWN]
        row = [len(known), sum(tag == other for tag, other in known), 0, 0, 0]
        if len(known) == len(y):
            chunks, others = set(chunk_spans(list(y))), set(chunk_spans([str(tag) for tag in found]))
            row[2:] = len(chunks), len(others), len(chunks & others)
        rows.append(row)
    return np.array(rows, dtype=np.int64).reshape(-1, 5)


def accuracy(sums: NDArray) -> Any:
    """Return the share of right tokens from counts (…, 5)."""
    return sums[..., 1] / sums[..., 0]


def chunk_f1(sums: NDArray) -> Any:
    """Return F1 of chunks from counts (…, 5)."""
    return 2.0 * sums[..., 4] / np.maximum(sums[..., 2] + sums[..., 3], 1)


def resample(n_sentences: int, seed: int = 0) -> NDArray[np.int64]:
    """Return how often each sentence is drawn in each of `RESAMPLES` samples of as many with replacement."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n_sentences, np.full(n_sentences, 1.0 / n_sentences), size=RESAMPLES)


def choose_strengths(sentences: Sentences, labels: Sequence[str], sizes: Sizes, say: Callable) -> dict[str, float]:
    """Return C of each method by the accuracy on tagged tokens of training sentences that were held out."""
    half = remove_tags(sentences, CHOSEN_AT, seed=1)
    order = np.random.default_rng(2).permutation(len(half.X))
    fitted, held = half.take(order[: sizes.choosing]), half.take(order[sizes.choosing : 2 * sizes.choosing])
    chosen = {}
    steps = Steps(say, len(ESTIMATORS), "methods")
    for method in ESTIMATORS:
        scores, grid = [], [C * (LIKELIHOOD_FACTOR if method in LIKELIHOODS else 1.0) for C in sizes.grid]
        for C in grid:
            model = fit(method, C, fitted, labels)
            scores.append(float(accuracy(count(held.Y, predict(model, held.X)).sum(axis=0))))
        chosen[method] = grid[int(np.argmax(scores))]
        shown = ", ".join(f"{C:g}: {100 * score:.2f}" for C, score in zip(grid, scores, strict=True))
        steps.done(f"{method}: C = {chosen[method]:g} of {shown}")
    return chosen


def measure(share: float, method: str, C: float, train: Sentences, test: Sentences, labels: Sequence[str]) -> Measured:
    """Train one model with a share of the tags removed and try it on the test sentences."""
    half = remove_tags(train, share, seed=0)
    began = time.process_time()
    model = fit(method, C, half, labels)
    seconds = time.process_time() - began
    return Measured(share, method, C, count(test.Y, predict(model, test.X)), seconds, model.n_iter_)


def score_table(measured: list[Measured], draws: NDArray, value: Callable, title: str) -> Table:
    """Return one measure in % of all methods at all shares, with standard errors."""
    shares = sorted({m.share for m in measured})
    rows: list[list[Any]] = []
    for method in ESTIMATORS:
        row: list[Any] = [method, next(f"{m.C:g}" for m in measured if m.method == method)]
        for share in shares:
            found = next(m for m in measured if (m.share, m.method) == (share, method))
            row += [_shown(value(found.counts.sum(axis=0)), value(draws @ found.counts).std())]
        rows.append(row)
    columns = ["method", "C", *(f"{100 * share:.0f} % missing" for share in shares)]
    return Table(title, columns, rows, "In %, ± the standard error over test sentences (bootstrap).")


def _shown(value: float, error: float) -> str:
    return f"{100 * value:.2f} ± {100 * error:.2f}"


def gain_table(measured: list[Measured], draws: NDArray) -> Table:
    """Return the gains of the marginal SSVM over each method with standard errors of the differences."""
    by = {(m.share, m.method): m.counts for m in measured}
    rows: list[list[Any]] = []
    for share in sorted({m.share for m in measured}):
        for method in ESTIMATORS:
            if method == MARGINAL:
                continue
            row: list[Any] = [f"{100 * share:.0f} %", method]
            for value in (accuracy, chunk_f1):
                ours, theirs = by[share, MARGINAL], by[share, method]
                gains = value(draws @ ours) - value(draws @ theirs)
                row.append(_shown(value(ours.sum(axis=0)) - value(theirs.sum(axis=0)), gains.std()))
            rows.append(row)
    return Table(
        "Marginal SSVM minus the others, in %",
        ["missing", "method", "token accuracy", "chunk F1"],
        rows,
        "± the standard error of the difference on the same test sentences: a gain below twice of it proves nothing.",
    )


def claims(measured: list[Measured], draws: NDArray) -> list[Claim]:
    """Return the chunk F1 of all methods at each share, and how far the best is above the next."""
    found = []
    for share in sorted({m.share for m in measured}):
        here = sorted((m for m in measured if m.share == share), key=lambda m: -float(chunk_f1(m.counts.sum(axis=0))))
        figures = ", ".join(f"{m.method} {100 * float(chunk_f1(m.counts.sum(axis=0))):.1f}" for m in here)
        apart = chunk_f1(draws @ here[0].counts) - chunk_f1(draws @ here[1].counts)
        shown = f"{figures}; first minus second {100 * apart.mean():.1f} ± {100 * apart.std():.1f}"
        found.append(Claim(f"chunk F1, {100 * share:.0f} % of the tags removed", "", shown, "no published figure"))
    return found


def time_table(measured: list[Measured]) -> Table:
    """Return CPU seconds and iterations of training."""
    shares = sorted({m.share for m in measured})
    by = {(m.share, m.method): m for m in measured}
    rows = [
        [method, *(f"{by[share, method].seconds:.1f} s, {by[share, method].iterations}" for share in shares)]
        for method in ESTIMATORS
    ]
    columns = ["method", *(f"{100 * share:.0f} % missing" for share in shares)]
    return Table("Training: CPU seconds and iterations", columns, rows)


def curves(measured: list[Measured]) -> "Callable[[Axes], None]":
    """Return a plot of chunk F1 against the share of missing tags."""

    def draw(axes: "Axes") -> None:
        for method in ESTIMATORS:
            chosen = sorted(
                (m.share, 100 * float(chunk_f1(m.counts.sum(axis=0)))) for m in measured if m.method == method
            )
            style = "-" if method in LATENT_METHODS else "--"
            axes.plot(*zip(*chosen, strict=True), style, marker="o", markersize=3, label=method)
        axes.set(xlabel="share of tags removed", ylabel="F1 of chunks, %")
        axes.legend(fontsize=8)

    return draw


def load(data_home: str | Path | None, sizes: Sizes) -> tuple[Sentences, Sentences, list[str]]:
    """Return training and test sentences as features, and all tags of the training part."""
    parts = [load_conll2000(data_home, subset) for subset in ("train", "test")]
    train, test = (
        (part.tokens[:limit], part.Y[:limit]) for part, limit in zip(parts, (sizes.train, sizes.test), strict=True)
    )
    features = WindowFeatures(affixes=0, shape=False)
    labels = sorted({tag for y in parts[0].Y for tag in y})
    return (
        Sentences(features.fit_transform(train[0]), train[1]),
        Sentences(features.transform(test[0]), test[1]),
        labels,
    )


def run(setup: Setup, sizes: Any = None) -> Findings:
    """Train on CoNLL-2000 with 10 to 90 % of the tags removed at random."""
    sizes = (QUICK if setup.quick else FULL) if sizes is None else sizes
    train, test, labels = load(setup.data_home, sizes)
    chosen = choose_strengths(train, labels, sizes, setup.say)
    measured = []
    steps = Steps(setup.say, len(sizes.shares) * len(chosen), "trainings")
    for share in sizes.shares:
        for method, C in chosen.items():
            measured.append(measure(share, method, C, train, test, labels))
            sums = measured[-1].counts.sum(axis=0)
            steps.done(
                f"{100 * share:.0f} % missing, {method}: accuracy {100 * accuracy(sums):.2f}, F1 "
                f"{100 * chunk_f1(sums):.2f}, {measured[-1].seconds:.1f} s"
            )
    draws = resample(len(test.X))
    return Findings(
        name="half-labeled",
        title="Chunking with tags removed at random: latent tags against the tagged tokens alone",
        data=f"CoNLL-2000, {len(train.X)} training and {len(test.X)} test sentences, {len(labels)} tags",
        differs=_differences(sizes),
        tables=[
            score_table(measured, draws, accuracy, "Token accuracy"),
            score_table(measured, draws, chunk_f1, "F1 of chunks"),
            gain_table(measured, draws),
            time_table(measured),
        ],
        plots={"f1": curves(measured)},
        claims=claims(measured, draws),
        settings={
            "sizes": sizes._asdict(),
            "chosen": chosen,
            "measured": [{**vars(m), "counts": m.counts.sum(axis=0).tolist()} for m in measured],
        },
    )


def _differences(sizes: Sizes) -> list[str]:
    differences = [
        "No published figures: the Marginal SSVM paper hides labels of simulated chains and of images.",
        f"C was chosen once for each method among {', '.join(f'{C:g}' for C in sizes.grid)} "
        f"({LIKELIHOOD_FACTOR:g} times as much for CRFs): with "
        f"{100 * CHOSEN_AT:.0f} % of the tags removed, {sizes.choosing} training sentences fitted and as many others "
        "of the training part held out, by the accuracy on their remaining tags; no test sentence was looked at.",
        "Pieces: each longest run of tagged tokens is a sequence of its own. Tokens: each tagged token is an example. "
        "Features reach beyond pieces, since the words are all known.",
        f"Methods with latent tags are trained to a relative tolerance of {LATENT_TOL:g}, the others to that of their "
        "solvers, 0.001; the latent SSVM stops after 30 iterations of CCCP with 50 of block ascent each.",
        "Tolerances, limits of iterations and the grid of C were set after test figures of smaller runs had been seen "
        "to save time and to converge.",
        "One draw of removed tags: standard errors are over test sentences, not over draws or training sentences.",
    ]
    whole = sizes.train is None
    return differences if whole else [*differences, f"The first {sizes.train} training sentences only."]
