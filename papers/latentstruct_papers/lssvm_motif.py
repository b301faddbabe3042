"""Motif finding with latent structural SVMs: table 1 of Yu & Joachims (2009) on yeast origins of replication."""

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import t as student_t
from sklearn.svm import LinearSVC

from latentstruct.data.alphabets import DNA
from latentstruct.estimators import LatentSSVM
from latentstruct.progress.eta import Steps
from latentstruct.tasks.motif.background import match_negatives
from latentstruct.tasks.motif.sites import consensus, find_sites, reverse_complement, site_matrix
from latentstruct.tasks.motif.task import Motif, numbered_letters
from latentstruct.tasks.motif.words import GappedWords
from latentstruct.viz.plots import plot_logo
from latentstruct_papers.datasets import YeastArs, load_uci_promoters, load_yeast_ars
from latentstruct_papers.findings import Claim, Findings, Table, Verdict
from latentstruct_papers.gibbs import GibbsSampler
from latentstruct_papers.motif_data import fold_groups, related_groups
from latentstruct_papers.pwm_em import PwmEM
from latentstruct_papers.trials import Say, Setup, Trials

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Settings", "run"]

Errors = NDArray[np.bool_]
Setting = tuple[float, int]
"""C and the number of starts."""

ARS_CONSENSUS = "WTTTAYRTTTW"
LETTERS_OF = {"W": "AT", "Y": "CT", "R": "AG", "A": "A", "C": "C", "G": "G", "T": "T"}
PAPER = {("Gibbs", 11): 0.3249, ("Gibbs", 17): 0.3147, ("LSSVM", 11): 0.1109, ("LSSVM", 17): 0.1200}
NEGATIVES = {"length": None, "length and GC": "CG"}
MATCHED = "matched in "
PROMOTERS = {"promoters, random": False, "promoters, grouped": True}


@dataclass(frozen=True)
class Settings:
    """What fixes the experiment, for the record and for doing it again."""

    widths: tuple[int, ...] = (11, 17)
    negatives: tuple[str, ...] = tuple(NEGATIVES)
    background_order: int = 3
    strands: int = 2
    n_folds: int = 10
    n_inner: int = 2
    grid: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0)
    starts: tuple[int, ...] = (1, 3)
    words: tuple[tuple[int, int], ...] = ((4, 0), (6, 0), (4, 4))
    word_grid: tuple[float, ...] = (0.01, 0.1, 1.0)
    beside: tuple[int, int] = (5, 0)
    background_weight: float = 0.02
    most_background: int | None = None
    tol: float = 0.01
    final_tol: float = 0.001
    final_C: float = 0.1
    gibbs_sweeps: int = 100
    gibbs_starts: int = 3
    seeds: tuple[int, ...] = (0,)
    seed: int = 0


QUICK = Settings(
    widths=(17,),
    negatives=("length and GC",),
    n_folds=5,
    grid=(0.1, 0.3),
    starts=(1,),
    words=((4, 0),),
    most_background=800,
    gibbs_sweeps=30,
    gibbs_starts=1,
    seeds=(0,),
)


@dataclass
class Problem:
    """Positives and matched negatives in folds, and background negatives that are trained on only.

    Sequences come in this order; a background sequence related to one of a fold has that fold too, others have −1.
    """

    X: list[str]
    Y: NDArray[np.int64]
    weights: NDArray[np.float64]
    folds: NDArray[np.int64]
    n_tested: int

    def split(self, fold: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of the sequences to train on and to test on."""
        return np.flatnonzero(self.folds != fold), np.flatnonzero(self.folds[: self.n_tested] == fold)

    def take(self, rows: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64], NDArray[np.float64]]:
        """Return sequences, labels and weights."""
        return [self.X[i] for i in rows], self.Y[rows], self.weights[rows]


def make_problem(data: YeastArs, group: str | None, settings: Settings) -> Problem:
    """Cut negatives, take all untouched intergenic sequences for background, and form the folds."""
    rng = np.random.default_rng(settings.seed)
    positives, pool = data.positives.sequences, data.negatives.sequences
    matched = match_negatives(positives, pool, group, rng)
    background = np.setdiff1d(np.arange(len(pool)), matched.sources)
    if settings.most_background is not None:
        background = np.sort(rng.permutation(background)[: settings.most_background])
    X = positives + matched.sequences + [pool[i] for i in background]
    sizes = [len(positives), len(positives), len(background)]
    Y = np.repeat([1, -1, -1], sizes)
    n_tested = 2 * len(positives)
    groups = related_groups(X)
    folds = np.full(len(X), -1)
    folds[:n_tested] = fold_groups(groups[:n_tested], Y[:n_tested], settings.n_folds, rng)
    fold_of = dict(zip(groups[:n_tested].tolist(), folds[:n_tested].tolist(), strict=True))
    folds[n_tested:] = [fold_of.get(group, -1) for group in groups[n_tested:].tolist()]
    weights = np.repeat([1.0, 1.0, settings.background_weight], sizes)
    return Problem(X, Y, weights, folds, n_tested)


# ---- classification --------------------------------------------------------------------------------------


def inner_folds(problem: Problem, fold: int, settings: Settings) -> NDArray[np.int64]:
    """Return the fold inside the training part of a fold, for all sequences; −1 is always trained on, −2 never."""
    others = np.unique(problem.folds[(problem.folds >= 0) & (problem.folds != fold)])
    number = np.full(max(settings.n_folds, int(problem.folds.max()) + 1), -1)
    number[others] = np.arange(len(others)) % settings.n_inner
    return np.where(problem.folds == fold, -2, np.where(problem.folds < 0, -1, number[problem.folds]))


def fit_grid(
    problem: Problem, task: Motif, rows: NDArray[np.int64], settings: Settings, restarts: tuple[int, ...]
) -> Iterator[tuple[Setting, LatentSSVM]]:
    """Yield the models of all values of C and numbers of starts.

    The smallest C has the starts; each larger one starts from the windows of the one before.
    """
    X, Y, weights = problem.take(rows)
    for n in restarts:
        H = None
        for C in settings.grid:
            model = LatentSSVM(task, C=C, restarts=n if H is None else 1, tol=settings.tol, random_state=settings.seed)
            model.fit(X, Y, sample_weight=weights, H=H)
            H = model.complete(X, Y)
            yield (C, n), model


def latent_errors(
    problem: Problem, task: Motif, settings: Settings, restarts: tuple[int, ...]
) -> tuple[Errors, Errors, list[Setting]]:
    """Return the errors of a latent SSVM with its own threshold and with one chosen on the test fold, and the settings.

    C and the number of starts are chosen inside each training part.
    """
    wrong, on_test, chosen = *(np.zeros(problem.n_tested, dtype=bool) for _ in range(2)), []
    for fold in range(settings.n_folds):
        inner = inner_folds(problem, fold, settings)
        mistakes: dict[Setting, int] = {}
        for k in range(settings.n_inner):
            judged = np.flatnonzero(inner[: problem.n_tested] == k)
            X, Y, _ = problem.take(judged)
            for setting, model in fit_grid(
                problem, task, np.flatnonzero((inner != k) & (inner != -2)), settings, restarts
            ):
                mistakes[setting] = mistakes.get(setting, 0) + int((model.predict(X) != Y).sum())
        best = min(mistakes, key=lambda setting: mistakes[setting])
        train, test = problem.split(fold)
        until = replace(settings, grid=tuple(C for C in settings.grid if best[0] >= C))
        *_, (_, model) = fit_grid(problem, task, train, until, (best[1],))
        X, Y, _ = problem.take(test)
        scores, positive = model.decision_function(X), Y == 1
        threshold, sign = best_threshold(scores, positive)
        wrong[test] = (scores > 0) != positive
        on_test[test] = (sign * scores > sign * threshold) != positive
        chosen.append(best)
    return wrong, on_test, chosen


def best_threshold(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> tuple[float, int]:
    """Return threshold t and sign s with the fewest errors of "s·score > s·t means positive"."""
    values = np.unique(scores)
    middles = np.concatenate([[values[0] - 1], (values[1:] + values[:-1]) / 2, [values[-1] + 1]])
    above = np.array([((scores > t) != positive).sum() for t in middles])
    below = len(scores) - above
    if above.min() <= below.min():
        return float(middles[above.argmin()]), 1
    return float(middles[below.argmin()]), -1


def threshold_errors(problem: Problem, scores: NDArray[np.float64], settings: Settings) -> Errors:
    """Return the errors of a threshold on given scores, chosen in training."""
    positive = problem.Y[: problem.n_tested] == 1
    wrong = np.zeros(problem.n_tested, dtype=bool)
    for fold in range(settings.n_folds):
        inside = problem.folds[: problem.n_tested] == fold
        threshold, sign = best_threshold(scores[~inside], positive[~inside])
        wrong[inside] = (sign * scores[inside] > sign * threshold) != positive[inside]
    return wrong


def sampler_errors(
    problem: Problem, settings: Settings, fit: Callable[[list[str], NDArray[np.int64]], "GibbsSampler | PwmEM"]
) -> tuple[Errors, Errors]:
    """Return the errors of a matrix with its threshold chosen on the test fold, as in the paper, and in training."""
    on_test, on_training = (np.zeros(problem.n_tested, dtype=bool) for _ in range(2))
    positive = problem.Y[: problem.n_tested] == 1
    for fold in range(settings.n_folds):
        train, test = problem.split(fold)
        X, Y, _ = problem.take(train)
        scores = fit(X, Y).scores(problem.X[: problem.n_tested])
        known = np.setdiff1d(np.arange(problem.n_tested), test)
        for wrong, rows in ((on_test, test), (on_training, known)):
            threshold, sign = best_threshold(scores[rows], positive[rows])
            wrong[test] = (sign * scores[test] > sign * threshold) != positive[test]
    return on_test, on_training


def word_svm_errors(problem: Problem, strands: int, settings: Settings) -> Errors:
    """Return the errors of a linear SVM on (gapped) words; length, gaps and C are chosen inside each training part."""
    n, Y = problem.n_tested, problem.Y[: problem.n_tested]
    letters = numbered_letters(problem.X[:n], DNA)
    matrices = []
    for length, gaps in settings.words:
        words = GappedWords(length, gaps, strands, "ACGT")
        indptr, places, data = words.rows(*letters)
        shape = n, words.n_features
        matrices.append(csr_array((data, places.astype(np.int32), indptr.astype(np.int32)), shape=shape))

    def wrong_on(matrix: csr_array, C: float, train: NDArray[np.int64], test: NDArray[np.int64]) -> Errors:
        found: Errors = LinearSVC(C=C).fit(matrix[train], Y[train]).predict(matrix[test]) != Y[test]
        return found

    wrong = np.zeros(n, dtype=bool)
    for fold in range(settings.n_folds):
        inner = inner_folds(problem, fold, settings)[:n]
        splits = [
            (np.flatnonzero((inner != k) & (inner != -2)), np.flatnonzero(inner == k)) for k in range(settings.n_inner)
        ]
        tried = [(matrix, C) for matrix in matrices for C in settings.word_grid]
        mistakes = [sum(int(wrong_on(*one, *split).sum()) for split in splits) for one in tried]
        test = np.flatnonzero(inner == -2)
        wrong[test] = wrong_on(*tried[int(np.argmin(mistakes))], np.flatnonzero(inner != -2), test)
    return wrong


def consensus_matches(sequences: list[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return how many letters of the best window agree with the ARS consensus, on either strand, and its start."""
    allowed = np.array([[letter in LETTERS_OF[code] for letter in "ACGTN"] for code in ARS_CONSENSUS])
    width = len(allowed)
    scores, starts = np.zeros(len(sequences)), np.zeros(len(sequences), dtype=np.int64)
    for i, sequence in enumerate(sequences):
        by_strand = []
        for strand in (sequence, reverse_complement(sequence)):
            letters = np.array(["ACGTN".index(letter) for letter in strand])
            size = len(letters) - width + 1
            by_strand.append(sum(allowed[j][letters[j : j + size]].astype(int) for j in range(width)))
        both = np.maximum(by_strand[0], by_strand[1][::-1])
        scores[i], starts[i] = both.max(), both.argmax()
    return scores, starts


# ---- known sites -----------------------------------------------------------------------------------------


def share_hit(starts: Any, width: int, acs: list[list[tuple[int, int, int]]]) -> float:
    """Return the share of annotated sequences whose window hits an annotated site.

    It does if its center is within half a width of the site's center, whatever its strand and phase.
    """
    hits = [
        any(abs(start + width / 2 - (low + high) / 2) <= width / 2 for low, high, _ in sites)
        for start, sites in zip(starts, acs, strict=True)
        if sites
    ]
    return float(np.mean(hits))


def oriented(data: YeastArs) -> tuple[list[str], list[list[tuple[int, int, int]]]]:
    """Return the annotated positives with their first site on the given strand, and the sites in them."""
    sequences, acs = [], []
    for sequence, sites in zip(data.positives.sequences, data.acs, strict=True):
        if not sites:
            continue
        turn = sites[0][2] < 0
        size = len(sequence)
        sequences.append(reverse_complement(sequence) if turn else sequence)
        acs.append([(size - high, size - low, -strand) if turn else (low, high, strand) for low, high, strand in sites])
    return sequences, acs


@dataclass
class Whole:
    """A model trained on all data, and what it found."""

    width: int
    strands: int
    model: LatentSSVM
    seconds: float
    hit: float
    matrix: NDArray[np.float64]
    n_sequences: int


def train_whole(
    positives: list[str], acs: list[list[tuple[int, int, int]]], problem: Problem, task: Motif, settings: Settings
) -> Whole:
    """Train on positives, matched negatives and background together, and see which known sites the windows hit."""
    negatives = problem.Y == -1
    X = positives + [x for x, negative in zip(problem.X, negatives, strict=True) if negative]
    weights = np.concatenate([np.ones(len(positives)), problem.weights[negatives]])
    Y = np.repeat([1, -1], [len(positives), int(negatives.sum())])
    began = time.perf_counter()
    model = LatentSSVM(
        task, C=settings.final_C, restarts=settings.starts[-1], tol=settings.final_tol, random_state=settings.seed
    )
    model.fit(X, Y, sample_weight=weights)
    seconds = time.perf_counter() - began
    sites = find_sites(model, positives)
    hit = share_hit([site.start for site in sites], task.width, acs)
    matrix = site_matrix([site.site for site in sites])
    return Whole(task.width, task.strands, model, seconds, hit, matrix, len(X))


# ---- the whole -------------------------------------------------------------------------------------------


@dataclass
class Results:
    """Errors of all methods on one kind of data, one array per seed; keys are (method, width)."""

    folds: list[NDArray[np.int64]] = field(default_factory=list)
    errors: dict[tuple[str, int | None], list[Errors]] = field(default_factory=dict)
    chosen: dict[int, list[Setting]] = field(default_factory=dict)

    def add(self, method: str, width: int | None, wrong: Errors) -> None:
        """Add the errors for one more seed."""
        self.errors.setdefault((method, width), []).append(wrong)

    def rate(self, method: str, width: int | None) -> float | None:
        """Return an error rate over all tested sequences and seeds."""
        found = self.errors.get((method, width))
        return None if found is None else float(np.mean([wrong.mean() for wrong in found]))

    def fold_rates(self, method: str, width: int | None) -> NDArray[np.float64]:
        """Return the error rates of the folds of all seeds."""
        pairs = zip(self.errors[method, width], self.folds, strict=True)
        return np.array([wrong[folds == fold].mean() for wrong, folds in pairs for fold in np.unique(folds)])

    def compare(self, method: str, other: str, width: int | None, other_width: int | None) -> tuple[float, float]:
        """Return the mean difference of two methods and its p-value by the corrected resampled t-test.

        Training parts overlap, so the variance of the mean over k folds and seeds is (1/k + test/training) times that
        of the differences (Nadeau and Bengio 2003).
        """
        difference = self.fold_rates(method, width) - self.fold_rates(other, other_width)
        k, n_folds = len(difference), len(np.unique(self.folds[0]))
        spread = math.sqrt((1 / k + 1 / (n_folds - 1)) * difference.var(ddof=1))
        mean = float(difference.mean())
        return mean, float(2 * student_t.sf(abs(mean) / spread, k - 1)) if spread > 0 else 1.0


Part = dict[str, Any]
"""Errors of methods by their names, and chosen settings, as JSON has them."""


def judge_latent(problem: Problem, task: Motif, settings: Settings) -> Part:
    """Judge latent SSVMs."""
    wrong, on_test, chosen = latent_errors(problem, task, settings, settings.starts)
    return {"wrong": {"LSSVM": wrong, "LSSVM, test": on_test}, "chosen": chosen}


def judge_samplers(problem: Problem, task: Motif, settings: Settings) -> Part:
    """Judge matrices by the Gibbs sampler and by expectation maximization."""
    sampler = GibbsSampler(task, settings.gibbs_sweeps, settings.gibbs_starts, settings.seed)
    wrong = {}
    for method, fitted in (("Gibbs", sampler), ("EM", PwmEM(task))):
        wrong[method], wrong[f"{method}, training"] = sampler_errors(problem, settings, fitted.fit)
    return {"wrong": wrong}


def judge_beside(problem: Problem, task: Motif, settings: Settings) -> Part:
    """Judge latent SSVMs with words beside the motif."""
    with_words = Motif(task.width, task.background_order, task.strands, *settings.beside)
    return {"wrong": {"LSSVM with words": latent_errors(problem, with_words, settings, settings.starts[-1:])[0]}}


def judge_words(problem: Problem, task: Motif, settings: Settings) -> Part:
    """Judge SVMs on words, and GC content."""
    content = np.array([DNA.share(x, "CG") for x in problem.X[: problem.n_tested]])
    return {
        "wrong": {
            "words": word_svm_errors(problem, task.strands, settings),
            "GC": threshold_errors(problem, content, settings),
        }
    }


def judge_consensus(problem: Problem, task: Motif, settings: Settings) -> Part:
    """Judge the known consensus of the origins."""
    matches, _ = consensus_matches(problem.X[: problem.n_tested])
    return {"wrong": {"consensus": threshold_errors(problem, matches, settings)}}


ANY_DATA = {"latent SSVM": judge_latent, "matrices": judge_samplers, "words beside": judge_beside, "words": judge_words}
JUDGES = {**ANY_DATA, "consensus": judge_consensus}
WITHOUT_WIDTH = ("words", "consensus")


@lru_cache(1)
def problem_of(data_home: str | None, kind: str, settings: Settings) -> Problem:
    """Return the sequences of one kind of data for the seed of the settings."""
    if kind in PROMOTERS:
        return promoter_problem(data_home, PROMOTERS[kind], settings)
    return make_problem(load_yeast_ars(data_home), NEGATIVES[kind.removeprefix(MATCHED)], settings)


def judge(data_home: str | None, quick: bool, kind: str, part: str, width: int, seed: int) -> Part:
    """Return the errors of some methods on one kind of data with one seed."""
    settings = replace(QUICK if quick else Settings(), seed=seed)
    problem = problem_of(data_home, kind, settings)
    task = Motif(width, settings.background_order, 1 if kind in PROMOTERS else settings.strands)
    found = JUDGES[part](problem, task, settings)
    found["wrong"] = {method: wrong.astype(int).tolist() for method, wrong in found["wrong"].items()}
    return {**found, "folds": problem.folds[: problem.n_tested].tolist()}


METHODS = {
    "Gibbs": "Gibbs sampler, threshold from the test fold",
    "Gibbs, training": "Gibbs sampler, threshold from training",
    "EM": "matrix by EM, threshold from the test fold",
    "EM, training": "matrix by EM, threshold from training",
    "LSSVM, test": "latent structural SVM, threshold from the test fold",
    "LSSVM": "latent structural SVM",
    "LSSVM with words": "latent structural SVM with words",
    "words": "linear SVM on gapped words",
    "GC": "threshold on G and C content",
    "consensus": f"best match to {ARS_CONSENSUS}",
}


def error_table(results: dict[str, Results], settings: Settings) -> Table:
    """Table 1 of the paper beside ours."""
    keys = list(dict.fromkeys(key for found in results.values() for key in found.errors))
    keys.sort(key=lambda key: (list(METHODS).index(key[0]), key[1] or 0))
    rows = [
        [
            METHODS[method],
            width,
            PAPER.get((method, width or 0)),
            *(found.rate(method, width) for found in results.values()),
        ]
        for method, width in keys
    ]
    return Table(
        f"Classification error, {settings.n_folds}-fold cross-validation, mean of {len(settings.seeds)} seeds",
        ["method", "width", "paper (other data)", *results],
        rows,
        "Half of the tested sequences are positive. Seeds choose negatives and folds. Most negatives of the promoters "
        "overlap each other, being cut from one region: grouped folds keep sequences together that share 20 letters; "
        "random folds, as usual, do not.",
    )


def difference_table(results: dict[str, Results]) -> Table:
    """Differences of the latent SSVM and other methods over folds and seeds."""
    rows = []
    for kind, found in results.items():
        widths = [width for method, width in found.errors if method == "LSSVM"]
        for width in widths:
            for method, other_width in found.errors:
                if method == "LSSVM" or other_width not in (None, width):
                    continue
                mean, p_value = found.compare("LSSVM", method, width, other_width)
                rows.append([kind, width, METHODS[method], mean, p_value])
    return Table(
        "Error of the latent SSVM minus that of other methods",
        ["data", "width", "other method", "difference", "p-value"],
        rows,
        "Corrected resampled t-test over folds and seeds (Nadeau and Bengio 2003).",
    )


def make_claims(results: dict[str, Results], wholes: list[Whole], settings: Settings) -> list[Claim]:
    """Return the published claims beside what was found."""
    width, kind = settings.widths[-1], MATCHED + settings.negatives[-1]
    found = results[kind]
    rates = {method: 100 * found.fold_rates(method, width).mean() for method, one in found.errors if one == width}
    mean, p_value = found.compare("LSSVM", "Gibbs, training", width, width)
    verdict: Verdict = "not reproduced" if p_value >= 0.05 or mean >= 0 else "reproduced"
    hits = ", ".join(
        f"{100 * whole.hit:.0f} % {'with both strands latent' if whole.strands == 2 else 'oriented'}"
        for whole in wholes
        if whole.width == width
    )
    return [
        Claim(
            f"error of the latent SVM below that of the Gibbs sampler, width {width}, negatives {kind}, %",
            "12.0; 31.5",
            f"{rates['LSSVM']:.1f}; Gibbs sampler {rates['Gibbs, training']:.1f} (p = {p_value:.2g}), matrix by EM "
            f"{rates['EM, training']:.1f}, with thresholds from training; {rates['LSSVM, test']:.1f}, "
            f"{rates['Gibbs']:.1f}, {rates['EM']:.1f} with thresholds from the test fold",
            verdict,
            other_data=True,
        ),
        Claim(
            "error on promoters, random folds; folds of related sequences, %",
            "",
            ", ".join(f"{METHODS[method]} {errors}" for method, errors in promoter_errors(results, width).items()),
            "no published figure",
            other_data=True,
        ),
        Claim("known sites hit", "", hits, "no published figure", other_data=True),
    ]


def promoter_errors(results: dict[str, Results], width: int) -> dict[str, str]:
    """Return the errors of the methods on promoters in random folds and in folds of related sequences."""
    keys = [(method, width) for method in ("LSSVM", "LSSVM with words", "Gibbs, training", "EM, training")]
    return {
        method: "; ".join(f"{100 * results[kind].fold_rates(method, one).mean():.1f}" for kind in PROMOTERS)
        for method, one in [*keys, ("words", None)]
    }


def chosen_table(results: dict[str, Results]) -> Table:
    """How often each C and number of starts was chosen."""
    rows = [
        [kind, width, C, starts, settings_.count((C, starts))]
        for kind, found in results.items()
        for width, settings_ in found.chosen.items()
        for C, starts in sorted(set(settings_))
    ]
    return Table("C and starts chosen inside the training parts", ["data", "width", "C", "starts", "folds"], rows)


def site_table(
    data: YeastArs, wholes: list[Whole], samplers: dict[tuple[str, int], float], settings: Settings
) -> Table:
    """Shares of known sites that are hit."""
    rows: list[list[Any]] = [
        [
            f"latent SSVM, {'both strands latent' if whole.strands == 2 else 'oriented'}",
            whole.width,
            whole.hit,
            consensus(whole.matrix),
            reverse_complement_code(consensus(whole.matrix)),
        ]
        for whole in wholes
    ]
    rows += [[f"{name}, both strands", width, hit, None, None] for (name, width), hit in samplers.items()]
    width = len(ARS_CONSENSUS)
    _, starts = consensus_matches(data.positives.sequences)
    rows.append([f"best match to {ARS_CONSENSUS}", width, share_hit(starts, width, data.acs), None, None])
    rng = np.random.default_rng(settings.seed)
    sizes = np.array([len(x) for x in data.positives.sequences]) - settings.widths[-1] + 1
    random = [share_hit((rng.random(len(sizes)) * sizes).astype(int), settings.widths[-1], data.acs) for _ in range(50)]
    rows.append(["random windows", settings.widths[-1], float(np.mean(random)), None, None])
    return Table(
        "Annotated ACS sites hit by the windows of models trained on all data",
        ["method", "width", "share hit", "consensus of the windows", "its mirror image"],
        rows,
        f"Of {sum(map(bool, data.acs))} annotated sequences; a hit has its center within half a width of an annotated "
        "site's center, on either strand. Oriented: annotated sequences only, turned so that their site is on the "
        "strand that is read.",
    )


def reverse_complement_code(text: str) -> str:
    """Return the mirror image of a consensus in IUPAC letters."""
    return text.translate(str.maketrans("ACGTMRWSYKN", "TGCAKYWSRMN"))[::-1]


def whole_table(wholes: list[Whole], settings: Settings) -> Table:
    """Facts about the trainings on all data."""
    rows = [
        [
            whole.width,
            whole.strands,
            whole.n_sequences,
            whole.seconds,
            whole.model.n_iter_,
            whole.model.objective_,
            ", ".join(f"{value:.4g}" for value in whole.model.restart_objectives_),
        ]
        for whole in wholes
    ]
    return Table(
        f"Training on all data, C = {settings.final_C:g}, {settings.starts[-1]} starts from enriched words",
        ["width", "strands", "sequences", "seconds", "iterations of the best", "objective", "all starts"],
        rows,
    )


def _draw_errors(results: dict[str, Results]) -> "Callable[[Axes], None]":
    def draw(ax: "Axes") -> None:
        keys = list(dict.fromkeys(key for found in results.values() for key in found.errors))[::-1]
        for number, (kind, found) in enumerate(results.items()):
            own = [key for key in keys if key in found.errors]
            places = [keys.index(key) - 0.15 * number for key in own]
            ax.plot([found.fold_rates(*key).mean() for key in own], places, "o", label=kind)
        ax.set_yticks(range(len(keys)), [f"{METHODS[method]} {width or ''}" for method, width in keys], fontsize=8)
        ax.set_xlabel("classification error")
        ax.legend(fontsize=8)

    return draw


def _draw_logo(whole: Whole, data: YeastArs) -> "Callable[[Axes], None]":
    letters = np.array([sum(x.count(letter) for x in data.negatives.sequences) for letter in "ACGT"])

    def draw(ax: "Axes") -> None:
        plot_logo(whole.matrix, letters / letters.sum(), ax)
        ax.set_title(f"yeast ARS, width {whole.width}, both strands")

    return draw


DIFFERS = [
    "The paper's 197 ARS sequences and its negatives are not public; here are 352 ARS of the SGD annotation and 5152 "
    "intergenic sequences of the same yeast. Its 11-12 % belong to other negatives and cannot be compared as such.",
    "Negatives at full weight are cut from intergenic sequences, as the paper's are, and have the lengths of the "
    "positives; or they are matched in GC content too, which alone would otherwise separate the classes in part.",
    "Folds keep sequences together that share 20 letters on either strand.",
    "The motif may lie on either strand, and training begins with enriched words and not at random.",
    "C is the weight of one sequence (the paper divides by the number of sequences). C and the number of starts are "
    "chosen inside the training parts. Only the smallest C has several starts, and each larger one goes on from the "
    "windows of the one before.",
    "The Gibbs sampler is our own site sampler, not GIMSAN; the matrix by EM has at most one site per sequence, as the "
    "zoops model of MEME, and starts from enriched words.",
]


def promoter_problem(data_home: Any, grouped: bool, settings: Settings) -> Problem:
    """Return the promoters in random folds, or in folds of related sequences."""
    data = load_uci_promoters(data_home)
    n = len(data.X)
    groups = related_groups(data.X) if grouped else np.arange(n)
    folds = fold_groups(groups, data.Y, settings.n_folds, np.random.default_rng(settings.seed))
    return Problem(data.X, data.Y, np.ones(n), folds, n)


def run_data(data_home: str | None, quick: bool, trials: Trials, say: Say) -> dict[str, Results]:
    """Run all methods on all kinds of data with all seeds."""
    settings = QUICK if quick else Settings()
    widths, last = settings.widths, settings.widths[-1]
    parts = [(part, width) for width in widths for part in ("latent SSVM", "matrices")]
    parts += [(part, last) for part in ("words beside", *WITHOUT_WIDTH)]
    plan = [(MATCHED + kind, parts) for kind in settings.negatives]
    plan += [(kind, [(part, last) for part in ANY_DATA]) for kind in PROMOTERS]
    arguments = [
        (data_home, quick, kind, part, width, seed)
        for seed in settings.seeds
        for kind, wanted in plan
        for part, width in wanted
    ]
    results = {kind: Results() for kind, _ in plan}
    for (_, _, kind, part, width, _), found in zip(
        arguments, trials.run(judge, arguments, say, "parts", _show), strict=True
    ):
        own = results[kind]
        for method, wrong in found["wrong"].items():
            own.add(method, None if part in WITHOUT_WIDTH else width, np.array(wrong, dtype=bool))
        if part == "latent SSVM":
            own.chosen.setdefault(width, []).extend((C, starts) for C, starts in found["chosen"])
        if part == "words":
            own.folds.append(np.array(found["folds"]))
    return results


def _show(arguments: tuple[Any, ...], found: Part) -> str:
    """Return the error rates of one part."""
    _, _, kind, _, width, seed = arguments
    rates = ", ".join(f"{method} {100 * float(np.mean(wrong)):.1f}" for method, wrong in found["wrong"].items())
    return f"{kind}, seed {seed}, width {width}, errors in %: {rates}"


def run(setup: Setup) -> Findings:
    """Repeat table 1 and see which known sites are found."""
    settings = QUICK if setup.quick else Settings()
    data = load_yeast_ars(setup.data_home)
    home = None if setup.data_home is None else os.fspath(setup.data_home)
    results = run_data(home, setup.quick, setup.trials, setup.say)
    problem = make_problem(data, NEGATIVES[settings.negatives[-1]], settings)
    wholes, samplers = [], {}
    turned, turned_acs = oriented(data)
    steps = Steps(setup.say, len(settings.widths), "parts")
    for width in settings.widths:
        steps.begin(f"training on all data, width {width}")
        for strands, positives, acs in ((2, data.positives.sequences, data.acs), (1, turned, turned_acs)):
            task = Motif(width, settings.background_order, strands)
            wholes.append(train_whole(positives, acs, problem, task, settings))
        task = Motif(width, settings.background_order, strands=2)
        sampler = GibbsSampler(task, settings.gibbs_sweeps, settings.gibbs_starts, settings.seed)
        sampler.fit(problem.X, problem.Y)
        for name, fitted in (("Gibbs sampler", sampler), ("matrix by EM", PwmEM(task).fit(problem.X, problem.Y))):
            _, starts, _ = task.best_windows(task.prepare(data.positives.sequences), fitted.coef_)
            samplers[name, width] = share_hit(starts, width, data.acs)
    both = [whole for whole in wholes if whole.strands == 2]
    return Findings(
        name="lssvm-motif",
        title="Latent structural SVM, table 1: motifs in yeast origins of replication",
        data=f"yeast_ars: {len(data.positives)} ARS, {len(data.negatives)} intergenic sequences; uci_promoters: 106",
        differs=DIFFERS + (["Quick look: fewer folds, values of C and background sequences."] if setup.quick else []),
        tables=[
            error_table(results, settings),
            difference_table(results),
            chosen_table(results),
            site_table(data, wholes, samplers, settings),
            whole_table(wholes, settings),
        ],
        plots={"logo": _draw_logo(both[-1], data), "error": _draw_errors(results)},
        settings=asdict(settings),
        claims=make_claims(results, wholes, settings),
    )
