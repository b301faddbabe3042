"""A demonstration: words of noisy digits that follow a grammar, read digit by digit and as a whole."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_DIGITS = 10
SIDE = 8
# After each digit d come d + 1, d + 4 and d + 7 (modulo 10), with these probabilities.
STEPS = {1: 0.5, 4: 0.3, 7: 0.2}

INK, MUTED, WRONG = "#1f2933", "#6b7785", "#c8321e"
MODEL_COLOURS = ("#b4bcc6", "#5b9bd0", "#14507f")
HEADING: dict[str, Any] = {"fontsize": 14, "weight": "bold", "color": INK}
SHORT_NAMES = ("alone", "chain SVM", "chain CRF")


@dataclass(frozen=True)
class Words:
    """Words of digits: a list of images (T, 64) in [0, 1] and a list of labels (T,)."""

    images: list[NDArray[np.float64]]
    labels: list[NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class ModelScore:
    """How well one model reads held-out words.

    Parameters
    ----------
    name : str
        The model.
    token_accuracy, word_accuracy : float
        The share of digits, and of words as a whole, that are right.
    relative_gap : float
        How far the training objective is from the best possible one at most.
    certified : bool
        Whether that is proved.
    seconds : float
        Time of training.
    """

    name: str
    token_accuracy: float
    word_accuracy: float
    relative_gap: float
    certified: bool
    seconds: float


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration found.

    Parameters
    ----------
    scores : list of ModelScore
        The independent classifier, the chain SVM and the chain CRF.
    words : Words
        The held-out words.
    predictions : list of list of array
        The labels each model chose for each held-out word.
    grammar : array of shape (10, 10)
        The probability of each digit (column) after each digit (row).
    transitions : array of shape (10, 10)
        The transition weights the chain CRF has learned.
    """

    scores: list[ModelScore]
    words: Words
    predictions: list[list[NDArray[np.int64]]]
    grammar: NDArray[np.float64]
    transitions: NDArray[np.float64]


def require_plots() -> None:
    """Raise unless pictures can be drawn."""
    if find_spec("matplotlib") is None:
        raise InputError('the picture needs matplotlib, which is not installed: pip install "latentstruct[plot]"')


def make_grammar() -> NDArray[np.float64]:
    """Return the probability of each digit (column) after each digit (row): only three can follow."""
    grammar = np.zeros((N_DIGITS, N_DIGITS))
    for step, probability in STEPS.items():
        grammar[np.arange(N_DIGITS), (np.arange(N_DIGITS) + step) % N_DIGITS] = probability
    return grammar


def make_words(
    images: NDArray[np.float64],
    labels: NDArray[np.int64],
    n_words: int,
    length: int,
    noise: float,
    rng: np.random.Generator,
) -> Words:
    """Draw words from the grammar, an image of the pool for each digit, and add noise to the pixels."""
    grammar = make_grammar()
    pools = [np.flatnonzero(labels == digit) for digit in range(N_DIGITS)]
    words = Words([], [])
    for _ in range(n_words):
        digits = [int(rng.integers(N_DIGITS))]
        while len(digits) < length:
            digits.append(int(rng.choice(N_DIGITS, p=grammar[digits[-1]])))
        chosen = images[[rng.choice(pools[digit]) for digit in digits]]
        words.images.append(np.clip(chosen + noise * rng.standard_normal(chosen.shape), 0.0, 1.0))
        words.labels.append(np.array(digits))
    return words


def load_words(n_train: int, n_test: int, length: int, noise: float, seed: int) -> tuple[Words, Words]:
    """Make words for training and testing from different images.

    The digits of scikit-learn lie in the order in which they were collected: the first half is for training
    and the second for testing, so that no image is in both.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images / 16.0
    half = len(images) // 2
    rng = np.random.default_rng(seed)
    train = make_words(images[:half], labels[:half], n_train, length, noise, rng)
    return train, make_words(images[half:], labels[half:], n_test, length, noise, rng)


def score_words(
    name: str, estimator: Any, words: Words, predicted: list[NDArray[np.int64]], seconds: float
) -> ModelScore:
    """Compare the labels of one model with the truth."""
    right = np.array([a == b for a, b in zip(predicted, words.labels, strict=True)])
    return ModelScore(
        name,
        float(right.mean()),
        float(right.all(axis=1).mean()),
        float(estimator.relative_gap_),
        bool(estimator.certified_),
        seconds,
    )


def run_demo(
    n_train: int = 400,
    n_test: int = 500,
    length: int = 8,
    noise: float = 0.35,
    C: float = 0.1,
    seed: int = 0,
    tell: Callable[[str], None] | None = None,
) -> DemoResult:
    """Train three models on words of noisy digits and read held-out words with them.

    Parameters
    ----------
    n_train, n_test : int
        Numbers of words.
    length : int, default=8
        Digits in a word.
    noise : float
        Standard deviation of the noise, where ink is 1 and paper 0.
    C : float
        Weight of the examples in training, the same for all models.
    seed : int, default=0
        Seed of the words.
    tell : callable, optional
        Called with a line of text before each model is trained.

    Returns
    -------
    DemoResult
        Scores, labels and what was learned.
    """
    from latentstruct.estimators import CRF, StructuralSVM
    from latentstruct.tasks import Chain, Multiclass

    train, test = load_words(n_train, n_test, length, noise, seed)
    models = {
        "each digit alone (SVM)": StructuralSVM(Multiclass(bias=1.0), C=C),
        "chain SVM": StructuralSVM(Chain(bias=True), C=C),
        "chain CRF": CRF(Chain(bias=True), C=C),
    }
    scores, predictions = [], []
    for name, estimator in models.items():
        if tell is not None:
            tell(f"training on {n_train} words: {name}")
        alone = isinstance(estimator.task, Multiclass)
        began = time.perf_counter()
        if alone:
            estimator.fit(np.concatenate(train.images), np.concatenate(train.labels))
        else:
            estimator.fit(train.images, train.labels)
        seconds = time.perf_counter() - began
        flat = estimator.predict(np.concatenate(test.images)) if alone else None
        predicted = estimator.predict(test.images) if flat is None else np.split(flat, len(test))
        scores.append(score_words(name, estimator, test, predicted, seconds))
        predictions.append(predicted)
    start = estimator.task_.transitions_at_
    transitions = estimator.coef_[start : start + N_DIGITS**2].reshape(N_DIGITS, N_DIGITS)
    return DemoResult(scores, test, predictions, make_grammar(), transitions)


def draw(result: DemoResult, path: Path, n_words: int = 5) -> Path:
    """Draw the first held-out words as read, the accuracies, and the grammar beside what was learned.

    Parameters
    ----------
    result : DemoResult
        What `run_demo` returned.
    path : path
        The picture to write; its folder is made if needed.
    n_words : int, default=5
        How many words to show.

    Returns
    -------
    Path
        The picture.
    """
    require_plots()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.5, 9.2), facecolor="white")
    figure.text(0.03, 0.955, "Reading noisy digits: alone, and together", fontsize=21, weight="bold", color=INK)
    figure.text(
        0.03,
        0.918,
        "After each digit only three others can follow. A chain learns this rule together with the look "
        "of the digits, from labelled words alone.",
        fontsize=12,
        color=MUTED,
    )
    left = figure.add_gridspec(n_words, 1, left=0.085, right=0.53, top=0.855, bottom=0.02, hspace=0.1)
    for k in range(n_words):
        _draw_word(figure.add_subplot(left[k]), result, k)
    figure.text(0.03, 0.875, f"The first {n_words} of {len(result.words)} held-out words", **HEADING)
    figure.text(0.53, 0.875, "\u2717 wrong", fontsize=11, color=WRONG, ha="right", weight="bold")
    _draw_accuracies(figure.add_axes((0.6, 0.6, 0.375, 0.25)), result)
    figure.text(0.585, 0.875, "Held-out accuracy", **HEADING)
    figure.text(0.585, 0.475, "What the chain CRF learned", **HEADING)
    figure.text(0.585, 0.447, "circles mark what the grammar allows; red weights forbid", fontsize=11, color=MUTED)
    true_axes, learned_axes = (figure.add_axes((x, 0.06, 0.172, 0.34)) for x in (0.605, 0.808))
    _draw_matrix(true_axes, result.grammar, "true grammar: P(next | digit)", "Blues")
    allowed = result.grammar > 0
    _draw_matrix(learned_axes, result.transitions, "learned transition weights", "RdBu", allowed)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path


def _draw_word(axes: "Axes", result: DemoResult, k: int) -> None:
    """Draw one word's images, and under each what was read alone, what by the chain CRF, and the truth."""
    images, truth = result.words.images[k], result.words.labels[k]
    gap = 1
    for t, image in enumerate(images):
        left = t * (SIDE + gap)
        axes.imshow(image.reshape(SIDE, SIDE), cmap="Greys", vmin=0, vmax=1, extent=(left, left + SIDE, 0, SIDE))
    rows = [("alone", result.predictions[0][k]), ("chain", result.predictions[-1][k]), ("truth", truth)]
    for line, (name, labels) in enumerate(rows):
        y = -1.6 - 2.25 * line
        axes.text(-1.4, y, name, ha="right", va="center", fontsize=11, color=MUTED)
        for t, label in enumerate(labels):
            wrong = label != truth[t]
            axes.text(
                t * (SIDE + gap) + SIDE / 2,
                y,
                f"{label} \u2717" if wrong else str(label),
                ha="center",
                va="center",
                fontsize=12.5,
                color=WRONG if wrong else INK if name != "truth" else MUTED,
                weight="bold" if wrong else "normal",
            )
    axes.set_xlim(0, len(images) * (SIDE + gap) - gap)
    axes.set_ylim(-7.4, SIDE)
    axes.set_axis_off()


def _draw_accuracies(axes: "Axes", result: DemoResult) -> None:
    """Draw the shares of digits and of whole words that are right."""
    for k, score in enumerate(result.scores):
        for group, share in enumerate((score.token_accuracy, score.word_accuracy)):
            x = group + 0.27 * (k - 1)
            axes.bar(x, 100 * share, width=0.25, color=MODEL_COLOURS[k])
            axes.text(x, 100 * share + 2, f"{100 * share:.0f} %", ha="center", fontsize=11, color=INK)
            axes.text(x, -4, SHORT_NAMES[k].replace(" ", "\n"), ha="center", va="top", fontsize=9.5, color=MUTED)
    axes.set_xticks([0, 1], ["digits right", "whole words right"], fontsize=12, color=INK)
    axes.tick_params(axis="x", length=0, pad=30)
    axes.set_yticks([])
    axes.set_ylim(0, 108)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)


def _draw_matrix(
    axes: "Axes",
    values: NDArray[np.float64],
    title: str,
    colours: str,
    allowed: NDArray[np.bool_] | None = None,
) -> None:
    """Draw a matrix of digits after digits; `allowed` marks the pairs the true grammar has."""
    largest = float(np.abs(values).max())
    axes.imshow(values, cmap=colours, vmin=-largest if allowed is not None else 0.0, vmax=largest)
    if allowed is not None:
        rows, columns = np.nonzero(allowed)
        axes.scatter(columns, rows, s=26, facecolors="none", edgecolors="white", linewidths=1.3)
    axes.set_title(title, fontsize=11.5, color=INK, pad=8)
    axes.set_xlabel("next digit", fontsize=10.5, color=MUTED)
    axes.set_ylabel("digit", fontsize=10.5, color=MUTED)
    digits = list(map(str, range(N_DIGITS)))
    axes.set_xticks(range(N_DIGITS), digits, fontsize=9.5, color=INK)
    axes.set_yticks(range(N_DIGITS), digits, fontsize=9.5, color=INK)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
