"""The reader of delimited tables: rows of cells below a header, and the types of labels."""

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import counted, repr_short
from latentstruct.exceptions import Description
from latentstruct.io.text import INTEGER, NOT_FINITE, NUMBER, FilePath, Source, extension

MAX_LABEL = 1000
"""Most characters of a label: each entry of an array of labels takes the memory of the longest."""
DELIMITERS = {".csv": ",", ".tsv": "\t"}
SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons"}


def delimiter_of(path: FilePath) -> str:
    """Return the delimiter of a file: tabs if its name ends in .tsv, else commas."""
    return DELIMITERS.get(extension(path), ",")


class Table:
    """A delimited table with a header; errors name the line where a row begins.

    Empty lines are skipped and, with `skip_empty`, rows of empty cells. `header` has the names of the columns, none if
    there is no row; `rows` yields the cells of the rows that are not read yet, as many as there are names.
    """

    def __init__(self, source: Source, delimiter: str, skip_empty: bool = False) -> None:
        self.source, self.delimiter, self.skip_empty = source, delimiter, skip_empty
        self.rows = self._read()
        self.header = [cell.strip() for cell in next(self.rows, [])]

    @classmethod
    def open(cls, path: FilePath, skip_empty: bool = False) -> "Table":
        """Open a file whose extension says what separates the cells."""
        return cls(Source.open(path), delimiter_of(path), skip_empty)

    def _read(self) -> Iterator[list[str]]:
        source, line, width = self.source, 1, 0
        reader = csv.reader(self._lines(), delimiter=self.delimiter, strict=True)
        try:
            for cells in reader:
                source.line, line = line, reader.line_num + 1
                if not (any(map(str.strip, cells)) if self.skip_empty else any(cells) or len(cells) > 1):
                    continue
                width = width or len(cells)
                if len(cells) != width:
                    source.fail(Description(counted(len(cells), "cell")), f"{counted(width, 'cell')} as in the header")
                yield cells
        except csv.Error as error:
            expected = f"cells separated by {SEPARATORS[self.delimiter]}, quoted ones with closed and doubled quotes"
            source.fail(Description(str(error)), expected, line=line)

    def _lines(self) -> Iterator[str]:
        for raw in self.source:
            if b"\0" in raw:
                self.source.fail(Description("a null character"), "a table in UTF-8")
            try:
                yield raw.decode()
            except UnicodeDecodeError:
                self.source.decode(raw)

    def check_names(self) -> None:
        """Raise unless all columns have distinct names."""
        for k, column in enumerate(self.header):
            if not column:
                self.source.fail(Description(f"no name for column {k + 1}"), "a name per column")
            if column in self.header[:k]:
                self.source.fail(column, "distinct column names")

    def split(self, texts: Mapping[int, str]) -> Iterator[tuple[list[str], list[float]]]:
        """Yield the texts and the other cells, finite numbers, of each row.

        `texts` are positions of the columns of text, in increasing order, and their names in messages. None of their
        cells may be empty.
        """
        names = [column for k, column in enumerate(self.header) if k not in texts]
        taken = sorted(texts, reverse=True)
        for cells in self.rows:
            words = [cells.pop(k).strip() for k in taken]
            if not all(words):
                self.fail_empty(texts[taken[words.index("")]])
            try:
                numbers = list(map(float, cells))
            except ValueError:
                self._explain(cells, names)
            if not all(map(isfinite, numbers)) or "_" in "".join(cells):
                self._explain(cells, names)
            yield words[::-1], numbers

    def fail_empty(self, what: str) -> NoReturn:
        """Raise the error of an empty cell."""
        self.source.fail(Description("an empty cell"), f"a {what}")

    def _explain(self, cells: list[str], names: Collection[str]) -> NoReturn:
        """Find the cell that is not a finite number, and raise the error."""
        for cell, name in zip(cells, names, strict=True):
            text = cell.strip(" \t\r\n")
            try:
                valid = isfinite(float(text)) and "_" not in text
            except ValueError:
                valid = False
            if not valid:
                self.source.fail(text, f"a finite number in column {repr_short(name)}")
        raise AssertionError("the row is well formed")


def typed_labels(labels: list[str], lines: Sequence[int], source: Source) -> NDArray[Any]:
    """Return an array of the labels: integers if all are, else numbers if all are, else text."""
    distinct = set(labels)
    if all(INTEGER.fullmatch(label) for label in distinct):
        # Labels outside the range of 64-bit integers remain distinct as text.
        integers = {label: int(label) for label in distinct if len(label) <= 20}
        if len(integers) == len(distinct) and all(-(2**63) <= value < 2**63 for value in integers.values()):
            return np.array([integers[label] for label in labels], dtype=np.int64)
    elif any(NUMBER.fullmatch(label) for label in distinct) and all(
        NUMBER.fullmatch(label) or NOT_FINITE.fullmatch(label) for label in distinct
    ):
        numbers = {label: float(label) for label in distinct}
        for label, line in zip(labels, lines, strict=True):
            if not isfinite(numbers[label]):
                source.fail(label, "a finite number as in the other lines", line=line)
        return np.array([numbers[label] for label in labels], dtype=np.float64)
    for label, line in zip(labels, lines, strict=True):
        if len(label) > MAX_LABEL:
            got = Description(f"{repr_short(label)} of {len(label)} characters")
            expected = f"a label of at most {MAX_LABEL} characters"
            source.fail(got, expected, "Check that quotes are closed.", line=line)
    return np.array(labels, dtype=np.str_)
