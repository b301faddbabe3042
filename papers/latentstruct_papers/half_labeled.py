"""CoNLL-2000 with tags removed: unknown tags as latent variables, against the tagged tokens alone."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.core.ratios import EntityRatio
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

MARGINAL, LATENT, HIDDEN, RATIO = "marginal SSVM", "latent SSVM", "hidden CRF", "hidden CRF, entity ratio"
PIECES_SVM, PIECES_CRF = "pieces, SSVM", "pieces, CRF"
TOKENS_SVM, TOKENS_CRF = "tokens, SVM", "tokens, logistic"

HIDDEN_TOL, LATENT_TOL = 1e-1, 1e-2

ESTIMATORS: dict[str, Any] = {
    HIDDEN: partial(HiddenCRF, tol=HIDDEN_TOL),
    MARGINAL: partial(MarginalSSVM, tol=LATENT_TOL),
    # With this many weights a bundle of dense planes, to which the default solver turns in the end, takes too long.
    LATENT: partial(LatentSSVM, solver=CCCP(BlockAscent(max_iter=50), max_iter=30), tol=LATENT_TOL),
    PIECES_SVM: StructuralSVM,
    PIECES_CRF: CRF,
    TOKENS_SVM: StructuralSVM,
    TOKENS_CRF: CRF,
}
LATENT_METHODS, PIECES = (MARGINAL, LATENT, HIDDEN, RATIO), (PIECES_SVM, PIECES_CRF)
LIKELIHOODS: tuple[str, ...] = (HIDDEN, PIECES_CRF, TOKENS_CRF)

# Likelihoods want weaker regularization than margins.
LIKELIHOOD_FACTOR = 10.0

CHOSEN_AT = 0.5
RESAMPLES = 1000
OUTSIDE = "O"


class Sizes(NamedTuple):
    """How much of everything is taken; None for all.

    Features of fewer than `min_count` tokens are left out. `methods` are those for unknown tags; for sets of tags and
    for chunks alone, these are the likelihoods among them.
    """

    train: int | None
    test: int | None
    shares: tuple[float, ...]
    grid: tuple[float, ...]
    choosing: int
    min_count: int
    methods: tuple[str, ...]


FULL = Sizes(None, None, (0.5, 0.9), (0.03, 0.1, 0.3), 500, 3, LIKELIHOODS)
QUICK = Sizes(250, 300, (0.5, 0.9), (0.03, 0.1), 100, 1, tuple(ESTIMATORS))


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

    form: str
    share: float
    method: str
    C: float
    counts: NDArray[np.int64]
    seconds: float
    iterations: int

    @property
    def case(self) -> tuple[str, float]:
        """What is unknown, and how much of it."""
        return self.form, self.share


class Removal(Protocol):
    """Removes a share of the tags of sentences."""

    def __call__(self, sentences: Sentences, share: float, seed: int, /) -> Sentences:
        """Return the sentences with less known about their tags."""


def _drawn(sentences: Sentences, seed: int) -> list[NDArray[np.float64]]:
    """Return a number from 0 to 1 per token: what is removed at a share is so at all larger ones."""
    drawn = np.random.default_rng(seed).random(sum(map(len, sentences.Y)))
    return np.split(drawn, offsets_from_lengths(map(len, sentences.Y))[1:-1])


def remove_tags(sentences: Sentences, share: float, seed: int) -> Sentences:
    """Return the sentences with a share of their tags unknown."""
    lines = zip(_drawn(sentences, seed), sentences.Y, strict=True)
    return sentences._replace(
        Y=[[UNKNOWN if u < share else tag for u, tag in zip(line, y, strict=True)] for line, y in lines]
    )


def widen_tags(sentences: Sentences, share: float, seed: int) -> Sentences:
    """Return the sentences with a second tag, drawn from all others, allowed at a share of their tokens."""
    tags = sorted({tag for y in sentences.Y for tag in y})
    places = {tag: k for k, tag in enumerate(tags)}

    def widened(u: float, other: float, tag: str) -> Any:
        # Another tag is at a distance of 1 to len(tags) - 1.
        step = 1 + int(other * (len(tags) - 1))
        return {tag, tags[(places[tag] + step) % len(tags)]} if u < share else tag

    lines = zip(_drawn(sentences, seed), _drawn(sentences, seed + 1), sentences.Y, strict=True)
    return sentences._replace(Y=[[widened(*one) for one in zip(*line, strict=True)] for line in lines])


def keep_chunks(sentences: Sentences, share: float, seed: int) -> Sentences:
    """Return the sentences with tokens outside of chunks unknown in a share of the sentences."""
    drawn = np.random.default_rng(seed).random(len(sentences.Y))
    return sentences._replace(
        Y=[
            [UNKNOWN if u < share and tag == OUTSIDE else tag for tag in y]
            for u, y in zip(drawn, sentences.Y, strict=True)
        ]
    )


REMOVED = "tags unknown"
FORMS: dict[str, Removal] = {
    REMOVED: remove_tags,
    "two tags allowed": widen_tags,
    "chunks only": keep_chunks,
}


def labeled_pieces(sentences: Sentences) -> Sentences:
    """Return each longest run of tagged tokens as a sequence of its own."""
    pieces = Sentences([], [])
    for x, y in zip(*sentences, strict=True):
        known = np.flatnonzero([isinstance(tag, str) for tag in y])
        for run in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
            if len(run):
                pieces.X.append(x[run[0] : run[-1] + 1])
                pieces.Y.append([y[t] for t in run])
    return pieces


def fit(method: str, C: float, sentences: Sentences, labels: Sequence[str]) -> Any:
    """Train one of `ESTIMATORS` on half-tagged sentences in the form it takes."""
    if method in LATENT_METHODS:
        if method == RATIO:
            model = ESTIMATORS[HIDDEN](Chain(labels=labels), C=C, entity_ratio=ratio_of(sentences.Y))
        else:
            model = ESTIMATORS[method](Chain(labels=labels), C=C)
        with warnings.catch_warnings():
            # Iterations of the latent SSVM are limited, which is stated with the findings.
            warnings.simplefilter("ignore", ConvergenceWarning)
            # Labels of entities alone are what is compared.
            warnings.filterwarnings("ignore", "in sequences with unknown labels no token")
            return model.fit(*sentences)
    pieces = labeled_pieces(sentences)
    if method in PIECES:
        return ESTIMATORS[method](Chain(labels=labels), C=C).fit(*pieces)
    tags = [tag for y in pieces.Y for tag in y]
    return ESTIMATORS[method](Multiclass(labels=labels), C=C).fit(sparse.vstack(pieces.X, format="csr"), tags)


def ratio_of(Y: list[list[Any]]) -> EntityRatio:
    """Return the share of tokens in chunks of sentences without unknown tags."""
    known = [tag for y in Y if UNKNOWN not in y for tag in y]
    return EntityRatio(1.0 - known.count(OUTSIDE) / len(known))


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
    steps = Steps(say, len(sizes.methods), "methods")
    for method in sizes.methods:
        scores, grid = [], [C * (LIKELIHOOD_FACTOR if method in LIKELIHOODS else 1.0) for C in sizes.grid]
        for C in grid:
            model = fit(method, C, fitted, labels)
            scores.append(float(accuracy(count(held.Y, predict(model, held.X)).sum(axis=0))))
        chosen[method] = grid[int(np.argmax(scores))]
        shown = ", ".join(f"{C:g}: {100 * score:.2f}" for C, score in zip(grid, scores, strict=True))
        steps.done(f"{method}: C = {chosen[method]:g} of {shown}")
    return chosen


def measure(
    form: str, share: float, method: str, C: float, train: Sentences, test: Sentences, labels: Sequence[str]
) -> Measured:
    """Train one model with less known about a share of the tags, and try it on the test sentences."""
    half = FORMS[form](train, share, 0)
    began = time.process_time()
    model = fit(method, C, half, labels)
    seconds = time.process_time() - began
    return Measured(form, share, method, C, count(test.Y, predict(model, test.X)), seconds, model.n_iter_)


def measure_loaded(
    data_home: str | None, form: str, share: float, method: str, C: float, sizes: Sequence[Any]
) -> dict[str, Any]:
    """Return `measure` on the sentences of CoNLL-2000 as plain values."""
    found = measure(form, share, method, C, *load(data_home, Sizes(*sizes)))
    return {**vars(found), "counts": found.counts}


def _show_trial(arguments: tuple[Any, ...], found: dict[str, Any]) -> str:
    sums = np.sum(found["counts"], axis=0)
    name = case_name((arguments[1], arguments[2]))
    figures = f"accuracy {100 * accuracy(sums):.2f}, F1 {100 * chunk_f1(sums):.2f}, {found['seconds']:.1f} s"
    return f"{name}, {arguments[3]}: {figures}"


def case_name(case: tuple[str, float]) -> str:
    """Return what a column is called."""
    return f"{100 * case[1]:.0f} % {case[0]}"


def cases_of(measured: list[Measured]) -> list[tuple[str, float]]:
    """Return what was removed, in the order in which it was measured."""
    return list(dict.fromkeys(m.case for m in measured))


def by_case(measured: list[Measured]) -> dict[str, dict[tuple[str, float], Measured]]:
    """Return the models of each method by case."""
    return {
        method: {m.case: m for m in measured if m.method == method}
        for method in dict.fromkeys(m.method for m in measured)
    }


def score_table(measured: list[Measured], draws: NDArray, value: Callable, title: str) -> Table:
    """Return one measure in % of all methods in all cases, with standard errors."""
    cases = cases_of(measured)
    rows: list[list[Any]] = []
    for method, models in by_case(measured).items():
        row: list[Any] = [method, next(f"{m.C:g}" for m in models.values())]
        for m in map(models.get, cases):
            row.append(None if m is None else _shown(value(m.counts.sum(axis=0)), value(draws @ m.counts).std()))
        rows.append(row)
    columns = ["method", "C", *map(case_name, cases)]
    return Table(title, columns, rows, "In %, ± the standard error over test sentences (bootstrap).")


def _shown(value: float, error: float) -> str:
    return f"{100 * value:.2f} ± {100 * error:.2f}"


def gain_table(measured: list[Measured], draws: NDArray) -> Table:
    """Return the gains of the hidden CRF over each method with standard errors of the differences."""
    models = by_case(measured)
    rows: list[list[Any]] = []
    for case in cases_of(measured):
        for method, by in models.items():
            if method == HIDDEN or case not in by:
                continue
            row: list[Any] = [case_name(case), method]
            for value in (accuracy, chunk_f1):
                ours, theirs = models[HIDDEN][case].counts, by[case].counts
                gains = value(draws @ ours) - value(draws @ theirs)
                row.append(_shown(value(ours.sum(axis=0)) - value(theirs.sum(axis=0)), gains.std()))
            rows.append(row)
    return Table(
        "Hidden CRF minus the others, in %",
        ["known", "method", "token accuracy", "chunk F1"],
        rows,
        "± the standard error of the difference on the same test sentences: a gain below twice of it proves nothing.",
    )


def claims(measured: list[Measured], draws: NDArray) -> list[Claim]:
    """Return the chunk F1 of all methods in each case, and how far the best is above the next."""
    found = []
    for case in cases_of(measured):
        here = sorted((m for m in measured if m.case == case), key=lambda m: -float(chunk_f1(m.counts.sum(axis=0))))
        figures = ", ".join(f"{m.method} {100 * float(chunk_f1(m.counts.sum(axis=0))):.1f}" for m in here)
        apart = chunk_f1(draws @ here[0].counts) - chunk_f1(draws @ here[1].counts)
        shown = f"{figures}; first minus second {100 * apart.mean():.1f} ± {100 * apart.std():.1f}"
        found.append(Claim(f"chunk F1, {case_name(case)}", "", shown, "no published figure"))
    return found


def time_table(measured: list[Measured]) -> Table:
    """Return CPU seconds and iterations of training."""
    cases = cases_of(measured)
    rows = [
        [method, *(None if m is None else f"{m.seconds:.1f} s, {m.iterations}" for m in map(models.get, cases))]
        for method, models in by_case(measured).items()
    ]
    return Table("Training: CPU seconds and iterations", ["method", *map(case_name, cases)], rows)


def bars(measured: list[Measured], draws: NDArray) -> "Callable[[Axes], None]":
    """Return a plot of chunk F1 of all methods in each case, with standard errors."""

    def draw(axes: "Axes") -> None:
        cases, methods = cases_of(measured), by_case(measured)
        height = 0.8 / len(methods)
        for k, (method, models) in enumerate(methods.items()):
            places = [cases.index(case) + height * (k - 0.5 * (len(methods) - 1)) for case in models]
            values = [100 * float(chunk_f1(m.counts.sum(axis=0))) for m in models.values()]
            errors = [100 * chunk_f1(draws @ m.counts).std() for m in models.values()]
            axes.barh(places, values, 0.9 * height, xerr=errors, label=method)
        axes.set_yticks(range(len(cases)), list(map(case_name, cases)))
        axes.invert_yaxis()
        values = [100 * float(chunk_f1(m.counts.sum(axis=0))) for m in measured]
        axes.set(xlabel="F1 of chunks, %", xlim=(min(values) - 3, max(values) + 1))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=4, fontsize=8, frameon=False)

    return draw


@lru_cache(maxsize=1)
def load(data_home: str | Path | None, sizes: Sizes) -> tuple[Sentences, Sentences, list[str]]:
    """Return training and test sentences as features, and all tags of the training part."""
    parts = [load_conll2000(data_home, subset) for subset in ("train", "test")]
    train, test = (
        (part.tokens[:limit], part.Y[:limit]) for part, limit in zip(parts, (sizes.train, sizes.test), strict=True)
    )
    features = WindowFeatures(affixes=0, shape=False, min_count=sizes.min_count)
    labels = sorted({tag for y in parts[0].Y for tag in y})
    return (
        Sentences(features.fit_transform(train[0]), train[1]),
        Sentences(features.transform(test[0]), test[1]),
        labels,
    )


def arguments_of(home: str | None, chosen: dict[str, float], sizes: Sizes) -> list[tuple[Any, ...]]:
    """Return the arguments of all trainings: what is unknown, how much, the method and its C."""
    found = []
    for form in FORMS:
        methods = {method: C for method, C in chosen.items() if form == REMOVED or method in LIKELIHOODS}
        if FORMS[form] is keep_chunks and HIDDEN in methods:
            methods[RATIO] = methods[HIDDEN]
        found += [(home, form, share, method, C, sizes) for share in sizes.shares for method, C in methods.items()]
    return found


def run(setup: Setup, sizes: Sizes | None = None) -> Findings:
    """Train on CoNLL-2000 with tags removed at random, with two tags allowed, and with chunks only."""
    sizes = (QUICK if setup.quick else FULL) if sizes is None else sizes
    home = setup.data_home
    train, test, labels = load(home, sizes)
    chosen = choose_strengths(train, labels, sizes, setup.say)
    arguments = arguments_of(home, chosen, sizes)
    found = setup.trials.run(measure_loaded, arguments, setup.say, "trainings", _show_trial)
    measured = [Measured(**{**one, "counts": np.array(one["counts"])}) for one in found]
    draws = resample(len(test.X))
    return Findings(
        name="half-labeled",
        title="Chunking with tags unknown, in sets of two, or for chunks only: latent tags against known tags alone",
        data=f"CoNLL-2000, {len(train.X)} training and {len(test.X)} test sentences, {len(labels)} tags",
        differs=_differences(sizes),
        tables=[
            score_table(measured, draws, accuracy, "Token accuracy"),
            score_table(measured, draws, chunk_f1, "F1 of chunks"),
            gain_table(measured, draws),
            time_table(measured),
        ],
        plots={"f1": bars(measured, draws)},
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
        "Pieces: each longest run of tokens with one known tag is a sequence of its own. Tokens: each of these tokens "
        "is an example. Features reach beyond pieces, since the words are all known.",
        f"Chunks only: in a share of the sentences the tag {OUTSIDE} is unknown. The entity ratio is that of the other "
        "sentences.",
        f"Hidden CRFs are trained to a relative tolerance of {HIDDEN_TOL:g}, other methods with latent tags of "
        f"{LATENT_TOL:g}, those without to that of their solvers, 0.001.",
        "Tolerances, limits of iterations and the grid of C were set after test figures of smaller runs had been seen "
        "to save time and to converge.",
        "One draw of removed tags: standard errors are over test sentences, not over draws or training sentences.",
    ]
    if LATENT in sizes.methods:
        differences.append("The latent SSVM stops after 30 iterations of CCCP with 50 of block ascent each.")
    if sizes.min_count > 1:
        differences.append(f"Features of fewer than {sizes.min_count} training tokens are left out, which saves time.")
    if set(sizes.methods) != set(ESTIMATORS):
        left = ", ".join(method for method in ESTIMATORS if method not in sizes.methods)
        differences.append(f"Not run on this many sentences, to save time: {left}.")
    whole = sizes.train is None
    return differences if whole else [*differences, f"The first {sizes.train} training sentences only."]
