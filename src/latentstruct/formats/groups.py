"""Groups of items with clusters: delimited tables with the columns ``group``, ``cluster`` and features.

.. code-block:: text

    group,cluster,age,height
    monday,1,30,180
    monday,1,31,181
    tuesday,a,7,120

Items are clustered within their group; a cluster's name means nothing in another group. Rows of a group need not stand
together. Without the column ``cluster`` the clusters are unknown; without ``group`` all items are one group.
"""

import csv
from array import array
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import FormatError, InputError
from latentstruct.formats.text import (
    FilePath,
    decode_line,
    extension,
    fail,
    numbered_lines,
    show,
    source_name,
    write_text,
)
from latentstruct.ragged import Indices
from latentstruct.short_repr import short_repr

__all__ = ["ItemGroups", "read_groups", "write_groups"]

GROUP, CLUSTER = "group", "cluster"


@dataclass(frozen=True)
class ItemGroups:
    """Items in groups.

    Parameters
    ----------
    names : list of n str
        The groups in the order of their first items; one without a name if there is no such column.
    rows : list of n int arrays of shape (m_i,)
        The rows of each group's items among all rows of the file, from 0.
    items : list of n arrays of shape (m_i, d)
        Their features.
    clusters : list of n lists of m_i str, or None
        Their clusters, if known.
    feature_names : list of d str
        The names of the features.
    """

    names: list[str]
    rows: list[Indices]
    items: list[NDArray[np.float64]]
    clusters: list[list[str]] | None
    feature_names: list[str]

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.names)


def read_groups(path: FilePath) -> ItemGroups:
    """Read a table of items in groups.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. The cells are separated by tabs if
        the name ends in ``.tsv``, else by commas; the first row names the columns.

    Raises
    ------
    InputError
        If there is no such file.
    FormatError
        If the file is not of this format.
    """
    name = source_name(path)
    delimiter = _delimiter(path)
    text = (decode_line(raw, name, number) for number, raw in numbered_lines(path))
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    header: list[str] = []
    groups: list[str] = []
    clusters: list[str] = []
    values = array("d")
    try:
        for cells in reader:
            if not any(cells) and len(cells) < 2:
                continue
            cells = [cell.strip() for cell in cells]
            if not header:
                header = _checked_header(cells, name, reader.line_num)
                continue
            row = _parse_row(cells, header, name, reader.line_num)
            groups.append(row[0])
            clusters.append(row[1])
            values.extend(row[2])
    except csv.Error as error:
        fail(
            name, reader.line_num, f"the row cannot be read ({error}); expected quotes doubled in quoted cells: fix it"
        )
    if not groups:
        raise FormatError(f"{name}:1: found no item; expected a header row and a row for each item: check the file")
    features = [column for column in header if column not in (GROUP, CLUSTER)]
    X = np.array(values).reshape(len(groups), len(features))
    rows: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        rows.setdefault(group, []).append(number)
    members = [np.array(own) for own in rows.values()]
    known = [[clusters[j] for j in own] for own in rows.values()] if CLUSTER in header else None
    return ItemGroups(list(rows), members, [X[own] for own in members], known, features)


def _delimiter(path: FilePath) -> str:
    return "\t" if extension(path) == ".tsv" else ","


def _checked_header(cells: list[str], name: str, line: int) -> list[str]:
    """Return the names of the columns."""
    seen: set[str] = set()
    for cell in cells:
        if not cell or cell in seen:
            fail(name, line, f"found the column name {show(cell)} empty or twice; expected different names: rename it")
        seen.add(cell)
        if cell not in (GROUP, CLUSTER) and cell.lower() in (GROUP, CLUSTER):
            fail(
                name, line, f"found the column {show(cell)}; expected {show(cell.lower())} in small letters: rename it"
            )
    if len(cells) == 1 and any(mark in cells[0] for mark in ",;\t"):
        fail(
            name,
            line,
            f"found the single column {show(cells[0])}; expected columns separated by commas in a .csv file and by "
            "tabs in a .tsv file: separate them so, or rename the file",
        )
    if set(cells) <= {GROUP, CLUSTER}:
        fail(
            name,
            line,
            f"found the columns {show(cells)}; expected features besides 'group' and 'cluster', separated by commas in "
            "a .csv file and by tabs in a .tsv file: add them",
        )
    return cells


def _parse_row(cells: list[str], header: list[str], name: str, line: int) -> tuple[str, str, list[float]]:
    """Return group, cluster and features of a row."""
    if len(cells) != len(header):
        fail(name, line, f"found {len(cells)} cells; expected {len(header)} as in the header: complete the row")
    named = {GROUP: "", CLUSTER: ""}
    numbers = []
    for column, cell in zip(header, cells, strict=True):
        if column in named:
            if not cell:
                fail(name, line, f"the {column} is empty; expected a name: fill it in, or remove the column")
            named[column] = cell
            continue
        try:
            value = float(cell)
        except ValueError:
            _refuse(name, line, column, cell)
        if not isfinite(value) or "_" in cell:
            _refuse(name, line, column, cell)
        numbers.append(value)
    return named[GROUP], named[CLUSTER], numbers


def _refuse(name: str, line: int, column: str, cell: str) -> NoReturn:
    fail(
        name,
        line,
        f"the value of {show(column)} is {show(cell)}; expected a finite number: fill it in, code it as a number, or "
        "remove the column",
    )


def write_groups(path: FilePath, groups: ItemGroups, clusters: list[Any]) -> None:
    """Write a table with the columns group and cluster, a row for each item in the order of the items' file.

    The column group is left out if the items' file had none.

    Parameters
    ----------
    path : str or path
        The file, as for `read_groups`.
    groups : ItemGroups
        The items.
    clusters : list of n sequences of m_i labels
        Their clusters.
    """
    if [len(labels) for labels in clusters] != [len(rows) for rows in groups.rows]:
        raise InputError("the clusters do not belong to these groups: give a label for each item of each group")
    delimiter = _delimiter(path)
    grouped = groups.names != [""]
    lines = [""] * sum(map(len, groups.rows))
    for group, rows, labels in zip(groups.names, groups.rows, clusters, strict=True):
        shown = f'"{group.replace(chr(34), 2 * chr(34))}"' if set(group) & {delimiter, '"', "\n", "\r"} else group
        for row, label in zip(rows.tolist(), labels, strict=True):
            lines[row] = f"{shown}{delimiter}{label}\n" if grouped else f"{label}\n"
    header = [GROUP, CLUSTER] if grouped else [CLUSTER]
    write_text(path, delimiter.join(header) + "\n" + "".join(lines))
