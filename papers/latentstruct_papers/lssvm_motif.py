"""Motif finding with latent structural SVMs: table 1 of Yu & Joachims (2009) on yeast origins of replication."""

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_rel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from latentstruct.datasets import YeastArs, load_uci_promoters, load_yeast_ars
from latentstruct.estimators import LatentSSVM
from latentstruct.progress.eta import Steps
from latentstruct.tasks.motif.background import gc_content, match_negatives
from latentstruct.tasks.motif.sites import consensus, find_sites, reverse_complement, site_matrix
from latentstruct.tasks.motif.starts import letters_of
from latentstruct.tasks.motif.task import Motif
from latentstruct.viz.plots import plot_logo
from latentstruct_papers.findings import Findings, Table
from latentstruct_papers.gibbs import GibbsSampler
from latentstruct_papers.motif_data import fold_groups, related_groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Settings", "run"]

Say = Callable[[str], None]
Errors = NDArray[np.bool_]

ARS_CONSENSUS = "WTTTAYRTTTW"
LETTERS_OF = {"W": "AT", "Y": "CT", "R": "AG", "A": "A", "C": "C", "G": "G", "T": "T"}
PAPER = {("Gibbs", 11): 0.3249, ("Gibbs", 17): 0.3147, ("LSSVM", 11): 0.1109, ("LSSVM", 17): 0.1200}
NEGATIVES = {"length": False, "length and GC": True}


@dataclass(frozen=True)
class Settings:
    """What fixes the experiment, for the record and for doing it again."""

    widths: tuple[int, ...] = (11, 17)
    negatives: tuple[str, ...] = tuple(NEGATIVES)
    background_order: int = 3
    strands: int = 2
    n_folds: int = 10
    grid: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0)
    starts: int = 3
    background_weight: float = 0.02
    most_background: int | None = None
    tol: float = 0.01
    final_tol: float = 0.001
    final_C: float = 0.1
    gibbs_sweeps: int = 100
    gibbs_starts: int = 3
    promoter_grid: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0)
    promoter_repeats: int = 3
    seed: int = 0


QUICK = Settings(
    widths=(17,),
    negatives=("length and GC",),
    n_folds=5,
    grid=(0.1, 0.3),
    most_background=800,
    gibbs_sweeps=30,
    gibbs_starts=1,
    promoter_grid=(0.3,),
    promoter_repeats=1,
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


def make_problem(data: YeastArs, match_gc: bool, settings: Settings) -> Problem:
    """Cut negatives, take all untouched intergenic sequences for background, and form the folds."""
    rng = np.random.default_rng(settings.seed)
    positives, pool = data.positives.sequences, data.negatives.sequences
    matched = match_negatives(positives, pool, match_gc, rng)
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


def grid_errors(
    problem: Problem, task: Motif, grid: tuple[float, ...], settings: Settings, continued: bool
) -> NDArray[np.bool_]:
    """Return which test sequences a latent SSVM gets wrong for each C, shape (len(grid), n_tested).

    Training begins with several enriched words and keeps the best objective; if `continued`, only the smallest C does,
    and each larger one goes on from the windows of the one before.
    """
    wrong = np.zeros((len(grid), problem.n_tested), dtype=bool)
    for fold in range(settings.n_folds):
        train, test = problem.split(fold)
        X, Y, weights = problem.take(train)
        X_test, Y_test, _ = problem.take(test)
        H = None
        for k, C in enumerate(grid):
            restarts = settings.starts if H is None else 1
            model = LatentSSVM(task, C=C, restarts=restarts, tol=settings.tol, random_state=settings.seed)
            model.fit(X, Y, sample_weight=weights, H=H)
            H = model.complete(X, Y) if continued else None
            wrong[k, test] = model.predict(X_test) != Y_test
    return wrong


def chosen_errors(wrong: NDArray[np.bool_], folds: NDArray[np.int64]) -> Errors:
    """Return the errors (n,) with each fold's C chosen by the errors of the other folds."""
    chosen = np.zeros(wrong.shape[1], dtype=bool)
    for fold in np.unique(folds):
        inside = folds == fold
        chosen[inside] = wrong[wrong[:, ~inside].mean(axis=1).argmin()][inside]
    return chosen


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


def gibbs_errors(problem: Problem, task: Motif, settings: Settings) -> tuple[Errors, Errors]:
    """Return the errors of a Gibbs sampler, its threshold chosen on the test fold as in the paper, and in training."""
    on_test, on_training = (np.zeros(problem.n_tested, dtype=bool) for _ in range(2))
    positive = problem.Y[: problem.n_tested] == 1
    for fold in range(settings.n_folds):
        train, test = problem.split(fold)
        X, Y, _ = problem.take(train)
        sampler = GibbsSampler(task, settings.gibbs_sweeps, settings.gibbs_starts, settings.seed).fit(X, Y)
        scores = sampler.scores(problem.X[: problem.n_tested])
        known = np.setdiff1d(np.arange(problem.n_tested), test)
        for wrong, rows in ((on_test, test), (on_training, known)):
            threshold, sign = best_threshold(scores[rows], positive[rows])
            wrong[test] = (sign * scores[test] > sign * threshold) != positive[test]
    return on_test, on_training


def word_frequencies(sequences: list[str], length: int = 4) -> NDArray[np.float64]:
    """Return the frequencies of words of a length, those of both strands together, shape (n, 4^length)."""
    n_words = 4**length
    words = letters_of(np.arange(n_words), length)
    mirror = (3 - words[:, ::-1]) @ (4 ** np.arange(length - 1, -1, -1))
    smaller = np.minimum(np.arange(n_words), mirror)
    lookup = {"".join("ACGT"[a] for a in word): k for word, k in zip(words, smaller, strict=True)}
    counts = np.zeros((len(sequences), n_words))
    for line, sequence in zip(counts, sequences, strict=True):
        for start in range(len(sequence) - length + 1):
            line[lookup.get(sequence[start : start + length], 0)] += 1
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def word_svm_errors(problem: Problem, settings: Settings) -> Errors:
    """Return the errors of a linear SVM on the frequencies of words of four letters, its C chosen in training."""
    features = word_frequencies(problem.X[: problem.n_tested])
    Y, folds = problem.Y[: problem.n_tested], problem.folds[: problem.n_tested]
    wrong = np.zeros(len(Y), dtype=bool)
    pipeline = make_pipeline(StandardScaler(), LinearSVC(dual=False))
    for fold in range(settings.n_folds):
        inside = folds == fold
        search = GridSearchCV(pipeline, {"linearsvc__C": [1e-4, 1e-3, 1e-2, 1e-1]}, cv=5)
        search.fit(features[~inside], Y[~inside])
        wrong[inside] = search.predict(features[inside]) != Y[inside]
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
        task, C=settings.final_C, restarts=settings.starts, tol=settings.final_tol, random_state=settings.seed
    )
    model.fit(X, Y, sample_weight=weights)
    seconds = time.perf_counter() - began
    sites = find_sites(model, positives)
    hit = share_hit([site.start for site in sites], task.width, acs)
    matrix = site_matrix([site.site for site in sites])
    return Whole(task.width, task.strands, model, seconds, hit, matrix, len(X))


# ---- promoters -------------------------------------------------------------------------------------------


def promoter_errors(data_home: Any, settings: Settings) -> dict[str, tuple[NDArray[np.float64], float]]:
    """Return the errors on promoters, width 17, by C and with C chosen on the other folds, for two kinds of folds."""
    data = load_uci_promoters(data_home)
    n = len(data.X)
    ten = replace(settings, n_folds=10)
    task = Motif(17, settings.background_order, strands=1)
    found = {}
    for kind, groups in (("random", np.arange(n)), ("grouped", related_groups(data.X))):
        by_C, chosen = [], []
        for repeat in range(settings.promoter_repeats):
            folds = fold_groups(groups, data.Y, 10, np.random.default_rng([settings.seed, repeat]))
            problem = Problem(data.X, data.Y, np.ones(n), folds, n)
            wrong = grid_errors(problem, task, settings.promoter_grid, ten, continued=False)
            by_C.append(wrong.mean(axis=1))
            chosen.append(chosen_errors(wrong, folds).mean())
        found[kind] = np.mean(by_C, axis=0), float(np.mean(chosen))
    return found


# ---- the whole -------------------------------------------------------------------------------------------


@dataclass
class Results:
    """Errors of all methods on one kind of negatives; keys are (method, width)."""

    folds: NDArray[np.int64]
    by_C: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    errors: dict[tuple[str, int | None], Errors] = field(default_factory=dict)

    def rate(self, method: str, width: int | None) -> float | None:
        """Return an error rate over all tested sequences."""
        wrong = self.errors.get((method, width))
        return None if wrong is None else float(wrong.mean())

    def fold_rates(self, wrong: Errors) -> NDArray[np.float64]:
        """Return the error rates of the folds."""
        return np.array([wrong[self.folds == fold].mean() for fold in np.unique(self.folds)])


def compare_methods(problem: Problem, settings: Settings, steps: Steps) -> Results:
    """Run all methods on one kind of negatives."""
    results = Results(problem.folds[: problem.n_tested])
    tested = problem.X[: problem.n_tested]
    for width in settings.widths:
        task = Motif(width, settings.background_order, settings.strands)
        steps.begin(f"latent SSVM, width {width}")
        results.by_C[width] = grid_errors(problem, task, settings.grid, settings, continued=True)
        results.errors["LSSVM", width] = chosen_errors(results.by_C[width], results.folds)
        steps.begin(f"Gibbs sampler, width {width}")
        on_test, on_training = gibbs_errors(problem, task, settings)
        results.errors["Gibbs", width], results.errors["Gibbs, training", width] = on_test, on_training
    steps.begin("GC threshold, 4-mer SVM and consensus match")
    gc = np.array([gc_content(x) for x in tested])
    results.errors["GC", None] = threshold_errors(problem, gc, settings)
    results.errors["words", None] = word_svm_errors(problem, settings)
    results.errors["consensus", None] = threshold_errors(problem, consensus_matches(tested)[0], settings)
    return results


def error_table(results: dict[str, Results], settings: Settings) -> Table:
    """Table 1 of the paper beside ours."""
    names = {
        "Gibbs": "Gibbs sampler, threshold from the test fold",
        "Gibbs, training": "Gibbs sampler, threshold from training",
        "LSSVM": "latent structural SVM",
        "GC": "threshold on G and C content",
        "words": "linear SVM on 4-mer frequencies",
        "consensus": f"best match to {ARS_CONSENSUS}",
    }
    keys: list[tuple[str, int | None]] = [
        (method, width) for method in ("Gibbs", "Gibbs, training", "LSSVM") for width in settings.widths
    ]
    keys += [("GC", None), ("words", None), ("consensus", None)]
    rows = [
        [
            names[method],
            width,
            PAPER.get((method, width or 0)),
            *(found.rate(method, width) for found in results.values()),
        ]
        for method, width in keys
    ]
    return Table(
        f"Classification error on yeast origins, {settings.n_folds}-fold cross-validation",
        ["method", "width", "paper (other negatives)", *(f"matched in {kind}" for kind in results)],
        rows,
        _significance(results, settings),
    )


def _significance(results: dict[str, Results], settings: Settings) -> str:
    """Say how sure the difference between the latent SSVM and the Gibbs sampler is."""
    found = []
    for kind, result in results.items():
        for width in settings.widths:
            latent = result.fold_rates(result.errors["LSSVM", width])
            gibbs = result.fold_rates(result.errors["Gibbs", width])
            p = ttest_rel(latent, gibbs).pvalue
            found.append(f"{kind}, width {width}: {latent.std(ddof=1):.3f} and {gibbs.std(ddof=1):.3f}, p = {p:.2g}")
    return (
        "Half of the tested sequences are positive. Standard deviations over folds of latent SSVM and Gibbs sampler "
        "(test threshold), and paired t-test: " + "; ".join(found)
    )


def grid_table(results: dict[str, Results], settings: Settings) -> Table:
    """Errors of the latent SSVM by C."""
    rows = [
        [kind, width, C, float(line.mean()), float(found.fold_rates(line).std(ddof=1))]
        for kind, found in results.items()
        for width in settings.widths
        for C, line in zip(settings.grid, found.by_C[width], strict=True)
    ]
    return Table(
        "Latent SSVM by C",
        ["negatives matched in", "width", "C", "error", "s.d. over folds"],
        rows,
        "In the first table, the C of each fold is the one with the fewest errors on the other folds.",
    )


def site_table(data: YeastArs, wholes: list[Whole], samplers: dict[int, float], settings: Settings) -> Table:
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
    rows += [["Gibbs sampler, both strands", width, hit, None, None] for width, hit in samplers.items()]
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
        f"Training on all data, C = {settings.final_C:g}, {settings.starts} starts from enriched words",
        ["width", "strands", "sequences", "seconds", "iterations of the best", "objective", "all starts"],
        rows,
    )


def promoter_table(found: dict[str, tuple[NDArray[np.float64], float]], settings: Settings) -> Table:
    """Errors on promoters."""
    rows: list[list[Any]] = [
        [f"C = {C:g}", *(float(by_C[k]) for by_C, _ in found.values())] for k, C in enumerate(settings.promoter_grid)
    ]
    rows.append(["C chosen on the other folds", *(chosen for _, chosen in found.values())])
    return Table(
        f"E. coli promoters, width 17: error of 10-fold cross-validation, {settings.promoter_repeats} times",
        ["", *(f"{kind} folds" for kind in found)],
        rows,
        "Most negatives of this data set overlap each other, being cut from one region: with random folds, as usual, "
        "parts of the tested negatives are known from training; grouped folds keep sequences that share 20 letters "
        "together.",
    )


def _draw_errors(results: dict[str, Results], settings: Settings) -> "Callable[[Axes], None]":
    def draw(ax: "Axes") -> None:
        for number, (kind, found) in enumerate(results.items()):
            color = f"C{number}"
            for width, line in zip(settings.widths, ("--", "-")[-len(settings.widths) :], strict=True):
                rates = found.by_C[width].mean(axis=1)
                ax.plot(settings.grid, rates, line, color=color, marker="o", label=f"width {width}, {kind}")
            rate = float(found.errors["consensus", None].mean())
            ax.axhline(rate, color=color, linestyle=":", label=f"consensus match, {kind}")
        ax.set_ylim(0.0, 0.6)
        ax.set_xscale("log")
        ax.set_xlabel("C")
        ax.set_ylabel("classification error")
        ax.legend(title="negatives matched in", ncols=len(results), loc="upper left")

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
    "Negatives at full weight are cut from intergenic sequences to match each positive in length, or in length and GC "
    "content; length or GC alone would otherwise separate the classes.",
    "Folds keep sequences together that share 20 letters on either strand.",
    "The motif may lie on either strand, and training begins with enriched words and not at random.",
    "C is the weight of one sequence (the paper divides by the number of sequences). On yeast only the smallest C "
    "begins with several starts, and each larger one goes on from the windows of the one before.",
    "The Gibbs sampler is our own site sampler, not GIMSAN.",
]


def run(data_home: str | os.PathLike[str] | None = None, quick: bool = False, say: Say = print) -> Findings:
    """Repeat table 1 and see which known sites are found.

    Parameters
    ----------
    data_home : path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.
    quick : bool, default=False
        Fewer folds, values of C and background sequences, width 17 only.
    say : function of str, default=print
        Called with lines of progress.
    """
    settings = QUICK if quick else Settings()
    data = load_yeast_ars(data_home)
    results: dict[str, Results] = {}
    n_widths = len(settings.widths)
    steps = Steps(say, len(settings.negatives) * (2 * n_widths + 1) + n_widths + 1, "parts")
    for kind in settings.negatives:
        say(f"negatives matched in {kind}")
        problem = make_problem(data, NEGATIVES[kind], settings)
        results[kind] = compare_methods(problem, settings, steps)
    wholes, samplers = [], {}
    turned, turned_acs = oriented(data)
    for width in settings.widths:
        steps.begin(f"training on all data, width {width}")
        for strands, positives, acs in ((2, data.positives.sequences, data.acs), (1, turned, turned_acs)):
            task = Motif(width, settings.background_order, strands)
            wholes.append(train_whole(positives, acs, problem, task, settings))
        task = Motif(width, settings.background_order, strands=2)
        sampler = GibbsSampler(task, settings.gibbs_sweeps, settings.gibbs_starts, settings.seed)
        sampler.fit(problem.X, problem.Y)
        _, starts, _ = task.best_windows(task.prepare(data.positives.sequences), sampler.coef_)
        samplers[width] = share_hit(starts, width, data.acs)
    steps.begin("promoters")
    promoters = promoter_errors(data_home, settings)
    both = [whole for whole in wholes if whole.strands == 2]
    return Findings(
        name="lssvm-motif",
        title="Latent structural SVM, table 1: motifs in yeast origins of replication",
        data=f"yeast_ars: {len(data.positives)} ARS, {len(data.negatives)} intergenic sequences; uci_promoters: 106",
        differs=DIFFERS + (["Quick look: fewer folds, values of C and background sequences."] if quick else []),
        tables=[
            error_table(results, settings),
            grid_table(results, settings),
            site_table(data, wholes, samplers, settings),
            whole_table(wholes, settings),
            promoter_table(promoters, settings),
        ],
        plots={"logo": _draw_logo(both[-1], data), "error": _draw_errors(results, settings)},
        settings=asdict(settings),
    )
