"""Scores of predicted trees, by the rules of the program EVALB."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import check_length, listed, names_of
from latentstruct.data.trees import Constituent, Tree, check_tree, constituents, preterminals
from latentstruct.exceptions import Description, InputError
from latentstruct.metrics.counts import FoundScore

__all__ = ["BracketScore", "ParseScores", "parse_counts", "parse_f1", "parse_scores"]

ROOT_LABELS = ("TOP", "ROOT", "S1", "")
FEW_CROSSINGS = 2


@dataclass(frozen=True)
class BracketScore(FoundScore):
    """Scores of constituents: precision, recall, f1, n_true, n_predicted and n_correct."""


@dataclass(frozen=True)
class ParseScores(BracketScore):
    """Scores of predicted trees.

    Parameters
    ----------
    precision, recall, f1, n_true, n_predicted, n_correct
        As for `BracketScore`, over the labeled constituents of all sentences.
    unlabeled : BracketScore
        The same regardless of labels.
    sentence_f1 : float
        The mean of the labeled F1 of each sentence.
    complete_match : float
        The fraction of the sentences whose labeled constituents are all correct.
    crossing : float
        The mean number of predicted constituents of a sentence that cross a true one.
    no_crossing, few_crossing : float
        The fractions of the sentences with no such constituent, and with at most two.
    tag_accuracy : float
        The fraction of the words whose tag is correct.
    n_sentences, n_words : int
        The numbers of sentences, and of words that count.
    by_label : dict of str to BracketScore
        The scores of each label that occurs, in alphabetical order.
    """

    unlabeled: BracketScore
    sentence_f1: float
    complete_match: float
    crossing: float
    no_crossing: float
    few_crossing: float
    tag_accuracy: float
    n_sentences: int
    n_words: int
    by_label: dict[str, BracketScore]


class _Compared(NamedTuple):
    """The constituents of a sentence by label, first and last word, with counts in tree and prediction."""

    true: Counter[Constituent]
    predicted: Counter[Constituent]
    n_words: int
    n_right_tags: int

    def f1(self) -> float:
        """Return the labeled F1, 1 if neither tree has a constituent."""
        total = self.true.total() + self.predicted.total()
        return 2 * (self.true & self.predicted).total() / total if total else 1.0

    def n_crossing(self) -> int:
        """Return the number of predicted constituents that cross a true one."""
        if not self.true or not self.predicted:
            return 0
        predicted = _without_labels(self.predicted)
        (a, b), (s, t) = np.array(list(_without_labels(self.true))).T, np.array(list(predicted)).T[:, :, None]
        crosses = ((s < a) & (a < t) & (t < b) | (a < s) & (s < b) & (b < t)).any(axis=1)
        return int(crosses @ np.array(list(predicted.values())))


def _counted(brackets: list[Constituent], positions: list[int], ignored: frozenset[str]) -> Counter[Constituent]:
    """Return the scored constituents with scored words, by their positions among these words."""
    found = (Constituent(one.label, positions[one.start], positions[one.end]) for one in brackets)
    return Counter(one for one in found if one.label not in ignored and one.start < one.end)


def _compare(
    true: Iterable[Tree], predicted: Iterable[Tree], ignored_labels: Collection[str], ignored_tags: Collection[str]
) -> list[_Compared]:
    """Compare trees by pairs."""
    true_trees, predicted_trees = listed(true, "true"), listed(predicted, "predicted")
    check_length(predicted_trees, len(true_trees), "predicted", "trees")
    labels, unread = names_of(ignored_labels, "ignored_labels"), names_of(ignored_tags, "ignored_tags")
    found = []
    for i, (tree, guess) in enumerate(zip(true_trees, predicted_trees, strict=True)):
        check_tree(tree, f"true[{i}]")
        check_tree(guess, f"predicted[{i}]")
        tags, guessed = ([node.label for node in preterminals(one)] for one in (tree, guess))
        if len(tags) != len(guessed):
            got, expected = Description(f"{len(guessed)} words"), f"a tree of {len(tags)} words, as `true[{i}]`"
            raise InputError(f"predicted[{i}]", got, expected)
        counts = [tag not in unread for tag in tags]
        positions = list(accumulate(counts, initial=0))
        right = sum(a == b and c for a, b, c in zip(tags, guessed, counts, strict=True))
        true_ones, predicted_ones = (_counted(constituents(one), positions, labels) for one in (tree, guess))
        found.append(_Compared(true_ones, predicted_ones, sum(counts), right))
    return found


def _without_labels(brackets: Counter[Constituent]) -> Counter[tuple[int, int]]:
    """Return the count of each pair of ends."""
    ends: Counter[tuple[int, int]] = Counter()
    for (_, start, end), n in brackets.items():
        ends[start, end] += n
    return ends


def _by_label(compared: list[_Compared]) -> dict[str, BracketScore]:
    """Return the scores of each label."""
    n_true, n_predicted, n_correct = Counter[str](), Counter[str](), Counter[str]()
    for one in compared:
        for total, part in ((n_true, one.true), (n_predicted, one.predicted), (n_correct, one.true & one.predicted)):
            for (label, _, _), n in part.items():
                total[label] += n
    return BracketScore.of_each(n_true, n_predicted, n_correct)


def parse_scores(
    true: Iterable[Tree],
    predicted: Iterable[Tree],
    ignored_labels: Collection[str] = ROOT_LABELS,
    ignored_tags: Collection[str] = (),
) -> ParseScores:
    """Compare predicted trees with the true ones; a constituent is correct if its label and both its ends are.

    Precision is n_correct / n_predicted, recall n_correct / n_true and F1 = 2 n_correct / (n_true + n_predicted),
    over the constituents of all sentences. Preterminals are not constituents, but determine the accuracy of tags. A
    constituent that occurs twice, as in (NP (NP …)), counts twice.

    Parameters
    ----------
    true, predicted : iterables of Tree
        The true trees, and the predicted ones of the same sentences.
    ignored_labels : collection of str, default=("TOP", "ROOT", "S1", "")
        Labels of constituents that do not count.
    ignored_tags : collection of str, default=()
        True tags of words, such as punctuation, that are removed from both trees before they are compared.

    Returns
    -------
    ParseScores
        The scores over all constituents and per label.

    Raises
    ------
    InputError
        If the numbers of trees or words differ, or a word has siblings.

    Examples
    --------
    >>> dogs, bark = Tree("N", ("dogs",)), Tree("V", ("bark",))
    >>> true = Tree("S", (Tree("NP", (dogs,)), Tree("VP", (bark,))))
    >>> scores = parse_scores([true], [Tree("S", (Tree("NP", (dogs,)), bark))])
    >>> scores.precision, round(scores.recall, 3), scores.tag_accuracy
    (1.0, 0.667, 1.0)
    """
    compared = _compare(true, predicted, ignored_labels, ignored_tags)
    n = max(len(compared), 1)
    n_words = sum(one.n_words for one in compared)
    crossings = [one.n_crossing() for one in compared]
    ends = [(_without_labels(one.true), _without_labels(one.predicted)) for one in compared]
    n_true, n_predicted = sum(one.true.total() for one in compared), sum(one.predicted.total() for one in compared)
    n_correct = sum((one.true & one.predicted).total() for one in compared)
    return ParseScores(
        **vars(BracketScore.of_counts(n_true, n_predicted, n_correct)),
        unlabeled=BracketScore.of_counts(n_true, n_predicted, sum((a & b).total() for a, b in ends)),
        sentence_f1=sum(one.f1() for one in compared) / n,
        complete_match=sum(one.true == one.predicted for one in compared) / n,
        crossing=sum(crossings) / n,
        no_crossing=sum(number == 0 for number in crossings) / n,
        few_crossing=sum(number <= FEW_CROSSINGS for number in crossings) / n,
        tag_accuracy=sum(one.n_right_tags for one in compared) / max(n_words, 1),
        n_sentences=len(compared),
        n_words=n_words,
        by_label=_by_label(compared),
    )


def parse_counts(
    true: Iterable[Tree],
    predicted: Iterable[Tree],
    ignored_labels: Collection[str] = ROOT_LABELS,
    ignored_tags: Collection[str] = (),
) -> NDArray[np.int64]:
    """Return the numbers of true, predicted and correct labeled constituents per sentence, for paired tests.

    Parameters
    ----------
    true, predicted, ignored_labels, ignored_tags
        As for `parse_scores`.

    Returns
    -------
    array of shape (n, 3)
        n_true, n_predicted and n_correct of each sentence.
    """
    compared = _compare(true, predicted, ignored_labels, ignored_tags)
    counts = [(one.true.total(), one.predicted.total(), (one.true & one.predicted).total()) for one in compared]
    return np.array(counts, dtype=np.int64).reshape(-1, 3)


def parse_f1(
    true: Iterable[Tree],
    predicted: Iterable[Tree],
    ignored_labels: Collection[str] = ROOT_LABELS,
    ignored_tags: Collection[str] = (),
) -> NDArray[np.float64]:
    """Return the labeled F1 of each sentence.

    Parameters
    ----------
    true, predicted, ignored_labels, ignored_tags
        As for `parse_scores`.

    Returns
    -------
    array of shape (n,)
        2 n_correct / (n_true + n_predicted) of each sentence, and 1 if neither tree has a constituent.
    """
    return np.array([one.f1() for one in _compare(true, predicted, ignored_labels, ignored_tags)], dtype=np.float64)
