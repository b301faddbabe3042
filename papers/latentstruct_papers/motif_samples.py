"""Latent SVM and matrices by expectation maximization on motifs: errors by the number of training sequences."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.metrics.measures import roc_area
from latentstruct.tasks.motif.background import shuffle_sequences
from latentstruct.tasks.motif.sites import reverse_complement, site_matrix
from latentstruct.tasks.motif.task import Motif
from latentstruct_papers import lssvm_motif
from latentstruct_papers.datasets import YeastArs, load_yeast_ars
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.lssvm_motif import Problem, best_threshold, fit_grid, inner_folds
from latentstruct_papers.pwm_em import PwmEM
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Settings", "run"]

Judged = dict[str, dict[str, float]]

SVM, PLAIN, MATRIX, TRUE = "latent SVM", "latent SVM, background of letters", "matrix by EM", "matrix of the sites"
YEAST, PLANTED, STRONG = "yeast", "planted", "planted, strong"
SITE_WIDTH, LENGTH = 17, 250
SHOWN = {"auc": "AUC", "own": "errors, own threshold", "best": "errors, best threshold of the test part"}


@dataclass(frozen=True)
class Settings:
    """What fixes the experiment."""

    yeast_sizes: tuple[int, ...] = (70, 140, 280)
    planted_sizes: tuple[int, ...] = (70, 280, 1120)
    n_test: int = 500
    strengths: tuple[str, ...] = (PLANTED, STRONG)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


QUICK = Settings((70,), (70, 280), 200, (PLANTED,), (0, 1))
TRAINING = lssvm_motif.Settings(grid=(0.03, 0.1, 0.3), n_folds=5, starts=(1,), most_background=0)


def yeast_problem(data: YeastArs, n: int, seed: int) -> Problem:
    """Return n origins and as many negatives matched in length and GC to train on; fold 0 is the test part."""
    settings = replace(TRAINING, seed=seed)
    problem = lssvm_motif.make_problem(data, lssvm_motif.NEGATIVES["length and GC"], settings)
    rng = np.random.default_rng(seed)
    kept = [np.flatnonzero(problem.folds == 0)]
    for sign in (1, -1):
        kept.append(rng.permutation(np.flatnonzero((problem.folds > 0) & (sign == problem.Y)))[:n])
    rows = np.sort(np.concatenate(kept))
    X, Y, weights = problem.take(rows)
    return Problem(X, Y, weights, problem.folds[rows], len(rows))


def known_matrix(data: YeastArs, power: float) -> NDArray[np.float64]:
    """Return the matrix of the annotated sites; its probabilities to a power, which sharpens them, sum to 1."""
    sites = []
    for sequence, places in zip(data.positives.sequences, data.acs, strict=True):
        for low, high, strand in places[:1]:
            start = (low + high - SITE_WIDTH) // 2
            site = sequence[max(0, start) : start + SITE_WIDTH]
            if len(site) == SITE_WIDTH:
                sites.append(site if strand > 0 else reverse_complement(site))
    sharper = site_matrix(sites) ** power
    found: NDArray[np.float64] = sharper / sharper.sum(axis=1, keepdims=True)
    return found


def planted_problem(data: YeastArs, kind: str, n: int, n_test: int, seed: int) -> tuple[Problem, NDArray[np.float64]]:
    """Return shuffled parts of intergenic sequences, half of them with one site of a matrix, and the matrix."""
    rng = np.random.default_rng(seed)
    matrix = known_matrix(data, 2.0 if kind == STRONG else 1.0)
    pool = [sequence for sequence in data.negatives.sequences if len(sequence) >= LENGTH]
    total = 2 * (n + n_test)
    sources = rng.integers(0, len(pool), total).tolist()
    starts = [int(rng.integers(0, len(pool[k]) - LENGTH + 1)) for k in sources]
    X = shuffle_sequences([pool[k][s : s + LENGTH] for k, s in zip(sources, starts, strict=True)], 2, seed)
    Y = np.tile([1, -1], n + n_test)
    for i in np.flatnonzero(Y == 1).tolist():
        letters = "".join("ACGT"[rng.choice(4, p=row)] for row in matrix)
        site = letters if rng.random() < 0.5 else reverse_complement(letters)
        at = int(rng.integers(0, LENGTH - SITE_WIDTH + 1))
        X[i] = X[i][:at] + site + X[i][at + SITE_WIDTH :]
    folds = 1 + np.arange(total) // 2 % (TRAINING.n_folds - 1)
    folds[2 * n :] = 0
    return Problem(X, Y, np.ones(total), folds, total), matrix


def judge_scores(scores: NDArray[np.float64], positive: NDArray[np.bool_], threshold: float) -> dict[str, float]:
    """Return the area under the ROC curve and the errors with a threshold and with the best one of these data."""
    best, sign = best_threshold(scores, positive)
    own, lowest = (scores > threshold) != positive, (sign * scores > sign * best) != positive
    return {"auc": roc_area(positive, scores), "own": float(own.mean()), "best": float(lowest.mean())}


def judge_svm(problem: Problem, task: Motif, seed: int) -> dict[str, float]:
    """Train a latent SVM, whose C two folds choose, and judge it on fold 0."""
    settings = replace(TRAINING, seed=seed)
    inner, mistakes = inner_folds(problem, 0, settings), dict.fromkeys(settings.grid, 0)
    for k in range(settings.n_inner):
        X, Y, _ = problem.take(np.flatnonzero(inner == k))
        rows = np.flatnonzero((inner != k) & (inner != -2))
        for (C, _), model in fit_grid(problem, task, rows, settings, settings.starts):
            mistakes[C] += int((model.predict(X) != Y).sum())
    best = min(mistakes, key=lambda C: mistakes[C])
    until = replace(settings, grid=tuple(C for C in settings.grid if best >= C))
    train, test = problem.split(0)
    *_, (_, model) = fit_grid(problem, task, train, until, settings.starts)
    return judge_scores(model.decision_function([problem.X[i] for i in test]), problem.Y[test] == 1, 0.0)


def judge_matrix(
    problem: Problem, score: Callable[[list[str]], NDArray[np.float64]], rows: NDArray[np.int64]
) -> dict[str, float]:
    """Judge the scores of a matrix on fold 0, with the best threshold of the training part as its own."""
    _, test = problem.split(0)
    (known, is_site), (scores, positive) = (
        (score([problem.X[i] for i in part]), problem.Y[part] == 1) for part in (rows, test)
    )
    threshold, _ = best_threshold(known, is_site)
    return judge_scores(scores, positive, threshold)


def measure(data_home: str | None, kind: str, n: int, n_test: int, seed: int) -> Judged:
    """Return the quality of all methods with n training sequences of each class."""
    data, matrix = yeast(data_home), None
    if kind == YEAST:
        problem = yeast_problem(data, n, seed)
    else:
        problem, matrix = planted_problem(data, kind, n, n_test, seed)
    train, _ = problem.split(0)
    task = Motif(SITE_WIDTH, strands=2)
    X, Y, _ = problem.take(train)
    fitted = PwmEM(task).fit(X, Y)
    found = {
        SVM: judge_svm(problem, Motif(SITE_WIDTH, strands=2), seed),
        PLAIN: judge_svm(problem, Motif(SITE_WIDTH, 0, strands=2), seed),
        MATRIX: judge_matrix(problem, fitted.scores, train),
    }
    if matrix is not None:
        weights = fitted.coef_.copy()
        weights[: matrix.size] = np.log(matrix).ravel()
        known = PwmEM(task)
        known.coef_ = weights
        found[TRUE] = judge_matrix(problem, known.scores, train)
    return found


@lru_cache(1)
def yeast(data_home: str | None) -> YeastArs:
    """Return the origins of replication."""
    return load_yeast_ars(data_home)


def show(arguments: tuple[Any, ...], found: Judged) -> str:
    """Return the errors of one trial."""
    _, kind, n, _, seed = arguments
    errors = ", ".join(f"{method} {100 * values['own']:.1f}" for method, values in found.items())
    return f"{kind}, {n} sequences of each class, seed {seed}, errors in %: {errors}"


Found = dict[tuple[str, int], list[Judged]]


def tables(found: Found) -> list[Table]:
    """Return one table for each measure."""
    methods = (SVM, PLAIN, MATRIX, TRUE)
    made = []
    for key, shown in SHOWN.items():
        rows = [
            [kind, n, *(None if method not in trials[0] else mean(trials, method, key) for method in methods)]
            for (kind, n), trials in found.items()
        ]
        note = "Means over seeds. The own threshold of a latent SVM is 0, that of a matrix the best in training."
        made.append(Table(shown, ["data", "sequences of each class", *methods], rows, note))
    return made


def mean(trials: list[Judged], method: str, key: str) -> float:
    """Return the mean of a measure over seeds."""
    return float(np.mean([one[method][key] for one in trials]))


def compare(trials: list[Judged], key: str) -> str:
    """Return a measure in words: both latent SVMs, each with its difference from the matrix by EM, and the matrix."""
    shown = []
    for method in (SVM, PLAIN):
        differences = np.array([100 * (one[method][key] - one[MATRIX][key]) for one in trials])
        error = differences.std(ddof=1) / np.sqrt(len(differences))
        shown.append(f"{100 * mean(trials, method, key):.1f} ({differences.mean():+.1f} ± {error:.1f})")
    return f"{shown[0]}, {shown[1]}, {100 * mean(trials, MATRIX, key):.1f}"


def claims(found: Found) -> list[Claim]:
    """Return the errors of the methods with few and with many sequences."""
    made = []
    for kind in dict.fromkeys(kind for kind, _ in found):
        sizes = [n for one, n in found if one == kind]
        for n in dict.fromkeys((sizes[0], sizes[-1])):
            own, best, auc = (compare(found[kind, n], key) for key in ("own", "best", "auc"))
            true = (
                ""
                if TRUE not in found[kind, n][0]
                else f"; matrix of the sites {100 * mean(found[kind, n], TRUE, 'own'):.1f}"
            )
            made.append(
                Claim(
                    f"{kind}, {n} sequences of each class: latent SVM with a background of four letters, of single "
                    "letters (difference from the matrix), matrix by EM, %",
                    "",
                    f"errors {own}{true}; with thresholds of the test part {best}; AUC {auc}",
                    "no published figure",
                    other_data=True,
                )
            )
    return made


def run(setup: Setup) -> Findings:
    """Compare latent SVM and matrices on parts of the yeast data, and on sequences with planted sites of its matrix."""
    settings, home = QUICK if setup.quick else Settings(), setup.data_home
    data = yeast(home)
    plan = [(YEAST, n) for n in settings.yeast_sizes]
    plan += [(kind, n) for kind in settings.strengths for n in settings.planted_sizes]
    arguments = [(home, kind, n, settings.n_test, seed) for kind, n in plan for seed in settings.seeds]
    results = setup.trials.run(measure, arguments, setup.say, "trials", show)
    found: Found = {}
    for (_, kind, n, _, _), one in zip(arguments, results, strict=True):
        found.setdefault((kind, n), []).append(one)
    return Findings(
        name="lssvm-motif-samples",
        title="Motifs by latent SVM and by expectation maximization: errors by the number of sequences",
        data=f"yeast_ars: {len(data.positives)} ARS, {len(data.negatives)} intergenic sequences; planted sites",
        differs=[
            "Not an experiment of a paper: it shows why the latent SVM is no better than a matrix on the yeast data.",
            "Planted sites are drawn from the matrix of the annotated sites of the yeast data, position by position, "
            "or from its squared probabilities (strong), one in each positive sequence, on either strand. All else is "
            "shuffled intergenic sequences that keep their dinucleotides, so that a matrix by EM is the right model.",
            *(["Quick look: two sizes and seeds."] if setup.quick else []),
        ],
        tables=tables(found),
        plots={"errors": lambda ax: draw(ax, found)},
        settings=asdict(settings),
        claims=claims(found),
    )


def draw(ax: "Axes", found: Found) -> None:
    """Draw the errors against the number of sequences."""
    for kind in dict.fromkeys(kind for kind, _ in found):
        sizes = [n for one, n in found if one == kind]
        for method, style in ((SVM, "-o"), (MATRIX, "--s")):
            ax.plot(sizes, [mean(found[kind, n], method, "own") for n in sizes], style, label=f"{method}, {kind}")
    ax.set_xscale("log")
    ax.set_xlabel("training sequences of each class")
    ax.set_ylabel("error")
    ax.legend(fontsize=8)
