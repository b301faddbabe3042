"""Groups of items with clusters: delimited tables with the columns ``group``, ``cluster`` and features.

.. code-block:: text

    group,cluster,age,height
    monday,1,30,180
    monday,1,31,181
    tuesday,a,7,120

Items are clustered within their group; names of clusters are local to a group. Rows of a group need not be
adjacent. Without the column ``cluster`` the clusters are unknown; without ``group`` all items are one group.
"""

from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short, short_repr
from latentstruct.core.types import Indices
from latentstruct.exceptions import Description, InputError
from latentstruct.io.delimited import SEPARATORS, Table, delimiter_of
from latentstruct.io.text import FilePath, write_text

GROUP, CLUSTER = "group", "cluster"


@dataclass(frozen=True)
class ItemGroups:
    """Items in groups.

    Parameters
    ----------
    names : list of n str
        The groups in the order of their first items; one without a name if there is no such column.
    rows : list of n int arrays of shape (m_i,)
        The rows of the items of each group in the file, from 0.
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
    """
    table = Table.open(path)
    header, source = table.header, table.source
    texts = {k: column for k, column in enumerate(header) if column in (GROUP, CLUSTER)}
    named: list[list[str]] = []
    values = array("d")
    if header:
        _check_header(table)
        for words, numbers in table.split(texts):
            named.append(words)
            values.extend(numbers)
    if not named:
        source.fail(Description("no item"), "a header row and one row per item", line=1)
    columns = dict(zip(texts.values(), zip(*named, strict=True), strict=True))
    groups = columns.get(GROUP, ("",) * len(named))
    features = [column for column in header if column not in texts.values()]
    X = np.array(values).reshape(len(named), len(features))
    rows: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        rows.setdefault(group, []).append(number)
    members = [np.array(own) for own in rows.values()]
    clusters = columns.get(CLUSTER)
    known = None if clusters is None else [[clusters[j] for j in own] for own in rows.values()]
    return ItemGroups(list(rows), members, [X[own] for own in members], known, features)


def _check_header(table: Table) -> None:
    """Check the names of the columns."""
    header, source = table.header, table.source
    table.check_names()
    for column in header:
        if column not in (GROUP, CLUSTER) and column.lower() in (GROUP, CLUSTER):
            source.fail(column, f"the column name {column.lower()!r} in lower case")
    separated = "separated by commas in a .csv file and by tabs in a .tsv file"
    if len(header) == 1 and any(mark in header[0] for mark in SEPARATORS):
        source.fail(header, f"columns {separated}")
    if set(header) <= {GROUP, CLUSTER}:
        source.fail(header, f"columns of features, {separated}")


def write_groups(path: FilePath, groups: ItemGroups, clusters: list[Any]) -> None:
    """Write a table with the columns group and cluster, one row per item in the order of the file of items.

    The column group is omitted if that file has none.

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
        got = Description(f"{repr_short([len(labels) for labels in clusters])} labels")
        raise InputError("clusters", got, f"{repr_short([len(rows) for rows in groups.rows])} labels, one per item")
    delimiter = delimiter_of(path)
    grouped = groups.names != [""]
    lines = [""] * sum(map(len, groups.rows))
    for group, rows, labels in zip(groups.names, groups.rows, clusters, strict=True):
        shown = f'"{group.replace(chr(34), 2 * chr(34))}"' if set(group) & {delimiter, '"', "\n", "\r"} else group
        for row, label in zip(rows.tolist(), labels, strict=True):
            lines[row] = f"{shown}{delimiter}{label}\n" if grouped else f"{label}\n"
    header = [GROUP, CLUSTER] if grouped else [CLUSTER]
    write_text(path, delimiter.join(header) + "\n" + "".join(lines))
