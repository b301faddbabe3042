"""The files of chain models: columns of tokens, some of whose labels may be unknown."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from latentstruct.cli.common import say_warnings
from latentstruct.cli.kind import Record
from latentstruct.exceptions import FormatError, InputError

if TYPE_CHECKING:
    from latentstruct.features.windows import WindowFeatures
    from latentstruct.io import ColumnSentences

EMPTY = "_"
"""What an empty label is read as if nothing else marks unknown ones."""
USUAL_MARKS = frozenset({"?", "??", "???", EMPTY, "unk", "<unk>", "[unk]", "unknown", "nan", "n/a"})
LABELS_SHOWN = 10


@dataclass(frozen=True)
class LabelledChains:
    """Labelled sentences: features X, labels Y, and the words where they are to be shown."""

    X: Any
    Y: list[list[str]]
    words: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """What features are made of tokens."""

    window: Annotated[int, Option(help="Words on each side that features look at.")] = 2
    affixes: Annotated[int, Option(help="Length of the longest prefix and suffix; 0 for none.")] = 3
    shape: Annotated[bool, Option(help="Use the shape of the word.")] = True
    bigrams: Annotated[bool, Option(help="Use pairs and triples of neighbours.")] = True
    min_count: Annotated[int, Option(min=1, help="Tokens that must have a feature for it to be kept.")] = 1

    def template(self) -> "WindowFeatures":
        """Return the features to learn."""
        from latentstruct.features.windows import WindowFeatures

        return WindowFeatures(self.window, self.affixes, self.shape, self.bigrams, self.min_count)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(FeatureOptions):
    """How the columns of tokens are read and what features are made of them."""

    label_column: Annotated[int, Option(help="Column of the labels, from 0; -1 is the last.")] = -1
    columns: Annotated[
        str | None,
        Option(metavar="LIST", show_default="all but the labels", help="Columns to use, as 0,1; word first."),
    ] = None
    unknown: Annotated[
        str | None,
        Option(
            metavar="MARK",
            show_default="all labels are known",
            help="What stands for an unknown label; '' if there is nothing after the tab.",
        ),
    ] = None

    @property
    def mark(self) -> str | None:
        """What stands for unknown labels."""
        return EMPTY if self.unknown == "" else self.unknown

    @property
    def blank(self) -> dict[int, str]:
        """What empty labels are read as."""
        return {} if self.mark is None else {self.label_column: self.mark}

    def chosen_columns(self) -> list[int] | None:
        """Return the numbers of the columns to use."""
        try:
            return None if self.columns is None else [int(part) for part in self.columns.split(",")]
        except ValueError:
            raise InputError(f"--columns is {self.columns!r}; expected numbers such as 0,1: correct it") from None

    def places(self, n_columns: int, name: str) -> tuple[int, list[int]]:
        """Return the positions of the label column and of the columns the features use."""

        def position(column: int, option: str) -> int:
            if not -n_columns <= column < n_columns:
                raise InputError(
                    f"{option} names column {column}, but {name} has {n_columns} columns: choose from 0 to "
                    f"{n_columns - 1}, or count back from -1"
                )
            return column % n_columns

        if n_columns < 2:
            raise FormatError(f"{name} has one column; expected at least the word and its label: add the labels")
        at, asked = position(self.label_column, "--label-column"), self.chosen_columns()
        if asked is None:
            return at, [k for k in range(n_columns) if k != at]
        used = [position(column, "--columns") for column in asked]
        if at in used:
            raise InputError(
                f"--columns holds the label column {at}, which is to be predicted; expected others: leave it out"
            )
        return at, used


@dataclass(frozen=True, kw_only=True)
class ChainRecord(Record):
    """What is kept beside a chain model: its features and the columns of its files.

    Columns are counted from 0; `columns` are those the features use, the word first. `unknown` stands in the files
    for labels that are not known.
    """

    features: dict[str, Any]
    label_column: int
    n_columns: int
    columns: list[int]
    unknown: str | None = None

    def used_columns(self, sentences: "ColumnSentences", name: str) -> "ColumnSentences":
        """Return the columns the features use, from a file with or without the labels."""
        found = sentences.n_columns
        if found not in (self.n_columns, self.n_columns - 1):
            raise FormatError(
                f"{name} has {_count(found)}; expected {self.n_columns} as in training, or {self.n_columns - 1} "
                f"without {self._shown_label}: give one token a line, with the columns of the training data"
            )
        shift = self.n_columns - found
        return choose(sentences, [k - shift * (k > self.label_column) for k in self.columns])

    def check_labelled(self, sentences: "ColumnSentences", name: str, cure: str = "") -> None:
        """Raise if the labels are missing."""
        if sentences.n_columns != self.n_columns:
            raise FormatError(
                f"{name} has {_count(sentences.n_columns)}; expected {self.n_columns} with {self._shown_label}: give "
                f"labelled data{cure}"
            )

    def place(self, column: int) -> int:
        """Return a column that may be counted back from −1 as it is counted from 0."""
        return column + self.n_columns if column < 0 else column

    @property
    def label_is_last(self) -> bool:
        """Whether the labels are in the last column, so that other columns keep their place without them."""
        return self.label_column == self.n_columns - 1

    @property
    def _shown_label(self) -> str:
        where = f"the labels in column {self.label_column} (from 0)"
        return "the labels, which are in the last" if self.label_is_last else where

    @property
    def blank(self) -> dict[int, str]:
        """What empty labels are read as: unknown ones, if the model was trained with such."""
        return {} if self.unknown is None else {self.label_column: self.unknown}


def _count(n: int) -> str:
    return "1 column" if n == 1 else f"{n} columns"


def choose(sentences: "ColumnSentences", used: Iterable[int]) -> "ColumnSentences":
    """Return some columns of sentences."""
    from latentstruct.io import ColumnSentences

    return ColumnSentences(tuple(sentences.columns[k] for k in used), sentences.offsets)


def check_marks(counts: Counter[str], unknown: str | None, name: str) -> None:
    """Raise unless some labels are marked as unknown and some are not; warn of marks if no label is said to be one."""
    if unknown is None:
        say_warnings(
            f"{n} of {counts.total()} tokens of {name} are labelled {label!r}, which is taken for a label like any "
            f"other: add --unknown '{label}' if it marks labels that are not known"
            for label, n in counts.most_common()
            if label.lower() in USUAL_MARKS
        )
    elif unknown not in counts:
        shown = ", ".join(label for label, _ in counts.most_common(LABELS_SHOWN))
        raise InputError(
            f"--unknown is {unknown!r}, which labels nothing in {name}; its labels are, the most frequent first, "
            f"{shown}{', …' if len(counts) > LABELS_SHOWN else ''}: correct it (a shell may replace ? and *, so quote "
            "them as '?'), or leave it out"
        )
    elif len(counts) == 1:
        raise InputError(f"all labels of {name} are {unknown!r}, which stands for unknown ones: label some tokens")


def count_labels(Y: Sequence[Sequence[Any]]) -> Counter[Any]:
    """Return how often each label occurs."""
    return Counter(chain.from_iterable(Y))


def marked(Y: Sequence[Sequence[str]], unknown: str | None) -> list[list[Any]]:
    """Return the labels with −1 for unknown ones."""
    return [[-1 if label == unknown else label for label in labels] for labels in Y]


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
