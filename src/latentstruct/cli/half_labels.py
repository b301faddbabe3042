"""Sentences of which some labels are unknown: the mark that says so, and what is left without such tokens."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from latentstruct.cli.common import say_warnings
from latentstruct.exceptions import InputError

EMPTY = "_"
"""What an empty label is read as if nothing else marks unknown ones."""
USUAL_MARKS = frozenset({"?", "??", "???", EMPTY, "unk", "<unk>", "[unk]", "unknown", "nan", "n/a"})
LABELS_SHOWN = 10


def warn_of_marks(Y: Sequence[Sequence[str]], name: str) -> None:
    """Tell of labels that look like marks of unknown ones, though training takes them for labels."""
    warn_of_counts(Counter(chain.from_iterable(Y)), name)


def warn_of_counts(counts: Counter[str], name: str) -> None:
    """Do so for labels of which is known how often they occur."""
    total = counts.total()
    say_warnings(
        f"{n} of {total} tokens of {name} are labelled {label!r}, which is taken for a label like any other: add "
        f"--unknown '{label}' if it marks labels that are not known"
        for label, n in counts.most_common()
        if label.lower() in USUAL_MARKS
    )


def mark_unknown(Y: Sequence[Sequence[str]], unknown: str, name: str) -> list[list[Any]]:
    """Return the labels with −1 for unknown ones."""
    check_mark(Counter(chain.from_iterable(Y)), unknown, name)
    return [[-1 if label == unknown else label for label in labels] for labels in Y]


def check_mark(counts: Counter[str], unknown: str, name: str) -> None:
    """Raise unless some labels are marked as unknown, and some are not."""
    if unknown not in counts:
        shown = ", ".join(label for label, _ in counts.most_common(LABELS_SHOWN))
        raise InputError(
            f"--unknown is {unknown!r}, which labels nothing in {name}; its labels are, the most frequent first, "
            f"{shown}{', …' if len(counts) > LABELS_SHOWN else ''}: correct it (a shell may replace ? and *, so quote "
            "them as '?'), or leave it out"
        )
    if len(counts) == 1:
        raise InputError(f"all labels of {name} are {unknown!r}, which stands for unknown ones: label some tokens")


def labelled_runs(X: Sequence[Any], Y: Sequence[Sequence[Any]]) -> tuple[list[Any], list[list[Any]]]:
    """Return each run of tokens with known labels as a sequence of its own.

    Parameters
    ----------
    X : sequence of matrices
        The features of the tokens of each sentence.
    Y : sequence of sequences
        Their labels, −1 for unknown ones.

    Returns
    -------
    X : list of matrices
        The features of each run; they still tell of the words around it.
    Y : list of list
        Its labels.
    """
    runs, labels = [], []
    for x, y in zip(X, Y, strict=True):
        start = 0
        for stop in range(len(y) + 1):
            if stop == len(y) or y[stop] == -1:
                if stop > start:
                    runs.append(x[start:stop])
                    labels.append(list(y[start:stop]))
                start = stop + 1
    return runs, labels
