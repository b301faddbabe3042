"""The columns of files of tokens, and what is kept of them beside a model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from latentstruct.exceptions import FormatError, InputError

if TYPE_CHECKING:
    from latentstruct.formats import ColumnSentences


@dataclass(frozen=True)
class ChainRecord:
    """What the command keeps beside a chain model: its features and the columns of its files.

    Columns are counted from 0; `columns` are those the features use, the word first. `unknown` stands in the files
    for labels that are not known.
    """

    features: dict[str, Any]
    label_column: int
    n_columns: int
    columns: list[int]
    n_examples: int
    seconds: float
    unknown: str | None = None
    kind: Literal["chain"] = "chain"

    def used_columns(self, sentences: "ColumnSentences", name: str) -> "ColumnSentences":
        """Return the columns the features use, from a file with or without the labels."""
        from latentstruct.formats import ColumnSentences

        found = sentences.n_columns
        if found not in (self.n_columns, self.n_columns - 1):
            raise FormatError(
                f"{name} has {count_columns(found)}; expected {self.n_columns} as in training, or "
                f"{self.n_columns - 1} without {self.shown_label}: give one token a line, with the columns of the "
                "training data"
            )
        shift = self.n_columns - found
        positions = [k - shift * (k > self.label_column) for k in self.columns]
        return ColumnSentences(tuple(sentences.columns[k] for k in positions), sentences.offsets)

    def place(self, column: int) -> int:
        """Return a column that may be counted back from −1 as it is counted from 0."""
        return column + self.n_columns if column < 0 else column

    @property
    def shown_label(self) -> str:
        """Where the labels are."""
        last = self.label_column == self.n_columns - 1
        return "the labels, which are in the last" if last else f"the labels in column {self.label_column} (from 0)"

    @property
    def blank(self) -> dict[int, str]:
        """What empty labels are read as: unknown ones, if the model was trained with such."""
        return {} if self.unknown is None else {self.label_column: self.unknown}


def count_columns(n: int) -> str:
    """Return a number of columns in words."""
    return "1 column" if n == 1 else f"{n} columns"


def parse_columns(text: str | None) -> list[int] | None:
    """Read a list of column numbers such as 0,1."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--columns is {text!r}; expected numbers such as 0,1: correct it") from None


def choose_columns(n_columns: int, label: int, asked: list[int] | None, name: str) -> tuple[int, list[int]]:
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
    at = position(label, "--label-column")
    used = [k for k in range(n_columns) if k != at]
    if asked is not None:
        used = [position(column, "--columns") for column in asked]
    if at in used:
        raise InputError(
            f"--columns holds the label column {at}, which is to be predicted; expected others: leave it out"
        )
    return at, used
