"""Constraints between binary variables with tighter linear relaxations and the same integer points."""

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import sparse
from latentstruct.core.types import Indices
from latentstruct.tasks.program.inputs import Constraints

EQUAL = 1e-9
"""Difference that counts as rounding."""

Row = tuple[list[int], list[float], float]
"""Columns, coefficients and upper bound."""


class _Groups(NamedTuple):
    """Sets of variables of which at most one is 1, by the row Σ x ≤ 1 that says so."""

    rows: Indices  # the rows
    at: Indices  # where the rows of each variable begin in `of`
    of: Indices

    @classmethod
    def find(cls, c: Constraints, binary: NDArray[np.bool_]) -> "_Groups":
        """Find the rows Σ x ≤ 1."""
        rows = sparse.csr_array(c.A)
        sizes = np.diff(rows.indptr)
        fits = (rows.data == 1.0) & binary[rows.indices]
        whole = np.bincount(np.repeat(np.arange(len(sizes)), sizes), fits, len(sizes)) == sizes
        chosen = whole & (sizes > 1) & (c.ub >= 1.0) & (c.ub < 2.0)
        found = sparse.csc_array(rows * chosen[:, None].astype(np.float64))
        found.eliminate_zeros()
        return cls(np.flatnonzero(chosen), found.indptr.astype(np.int64), found.indices.astype(np.int64))

    def divide(self, columns: list[int]) -> list[list[int]]:
        """Divide variables into parts of which at most one variable is 1, large parts first."""
        if len(columns) < 2:
            return [columns] if columns else []
        left = {j: self.of[self.at[j] : self.at[j + 1]].tolist() for j in columns}
        parts: list[list[int]] = []
        while left:
            counts = Counter(group for groups in left.values() for group in groups)
            most, size = counts.most_common(1)[0] if counts else (-1, 0)
            part = [j for j, groups in left.items() if most in groups] if size > 1 else [next(iter(left))]
            parts.append(part)
            for j in part:
                del left[j]
        return parts


def tightened(c: Constraints) -> Constraints:
    """Return constraints with the same integer points whose linear relaxation is smaller, or the same ones.

    Two steps are made for each row a·x ≤ b of binary variables whose coefficients differ in size. A variable that makes
    the row redundant at 0 gets the smallest coefficient for which it does. A variable that fixes all others at 1
    implies one row for each of these, or for each set of which at most one can be 1. Then Σ x ≤ 1 becomes Σ x ≤ z if
    all x imply z.
    """
    binary = c.integer & (c.lower == 0.0) & (c.upper == 1.0)
    rows = sparse.csr_array(c.A)
    wanted = _candidates(c, rows, binary)
    if not len(wanted):
        return c
    groups = _Groups.find(c, binary)
    kept, new = np.ones(len(c.lb), dtype=np.bool_), list[Row]()
    for r in wanted.tolist():
        inside = slice(rows.indptr[r], rows.indptr[r + 1])
        sign, bound = (1.0, c.ub[r]) if np.isfinite(c.ub[r]) else (-1.0, -c.lb[r])
        columns, values = rows.indices[inside].tolist(), (sign * rows.data[inside]).tolist()
        found = _strengthen(columns, values, float(bound), groups)
        if found is not None:
            kept[r] = False
            new += found
    implied = _implications(new)
    for r in groups.rows.tolist():
        members = rows.indices[rows.indptr[r] : rows.indptr[r + 1]].tolist()
        common = set.intersection(*(implied.get(j, set()) for j in members))
        new += [([*members, k], [*(1.0 for _ in members), -1.0], 0.0) for k in sorted(common)]
        kept[r] &= not common
    return c if kept.all() else _replaced(c, rows, kept, new)


def _implications(rows: list[Row]) -> dict[int, set[int]]:
    """Return the variables that each one implies by a row x ≤ z."""
    implied: dict[int, set[int]] = {}
    for columns, values, bound in rows:
        if values == [-1.0, 1.0] and bound == 0.0:
            implied.setdefault(columns[1], set()).add(columns[0])
    return implied


def _replaced(c: Constraints, rows: "sparse.csr_array", kept: NDArray[np.bool_], new: list[Row]) -> Constraints:
    """Return constraints with new rows in place of those that are not kept."""
    number = np.repeat(np.arange(len(new)), [len(columns) for columns, _, _ in new])
    columns = np.array([j for row in new for j in row[0]], dtype=np.int64)
    values = np.array([value for row in new for value in row[1]], dtype=np.float64)
    more = sparse.csr_array((values, (number, columns)), shape=(len(new), rows.shape[1]))
    return Constraints(
        sparse.csc_array(sparse.vstack([rows[np.flatnonzero(kept)], more])),
        np.append(c.lb[kept], np.full(len(new), -np.inf)),
        np.append(c.ub[kept], [bound for _, _, bound in new]),
        c.lower,
        c.upper,
        c.integer,
    )


def _candidates(c: Constraints, rows: "sparse.csr_array", binary: NDArray[np.bool_]) -> Indices:
    """Return the rows with one bound, of binary variables only, whose coefficients differ in size."""
    at = np.flatnonzero((np.diff(rows.indptr) > 1) & (np.isfinite(c.lb) != np.isfinite(c.ub)))
    if not len(at):
        return at
    starts = rows.indptr[:-1][np.diff(rows.indptr) > 0]
    size, low, high = (np.zeros(len(c.lb)) for _ in range(3))
    filled = np.diff(rows.indptr) > 0
    size[filled] = np.logical_and.reduceat(binary[rows.indices], starts)
    low[filled] = np.minimum.reduceat(abs(rows.data), starts)
    high[filled] = np.maximum.reduceat(abs(rows.data), starts)
    return at[(size[at] > 0) & (low[at] > 0) & (high[at] > low[at] * (1 + EQUAL))]


def _strengthen(columns: list[int], values: list[float], bound: float, groups: _Groups) -> list[Row] | None:
    """Return tighter rows in place of a row, None if there are none."""
    value = dict(zip(columns, values, strict=True))
    own = max(value, key=lambda k: abs(value[k]))
    size, up = abs(value[own]), value.pop(own) > 0
    # The row is size·z + rest ≤ b, where z is x or 1 − x of the variable `own`.
    b = bound if up else bound + size
    parts = groups.divide([k for k, a in value.items() if a > 0])
    most, least = sum(max(value[k] for k in part) for part in parts), sum(a for a in value.values() if a < 0)
    slack = b - most
    if slack < -EQUAL:
        return None
    if size <= slack + EQUAL:
        return []
    left = most - (size - slack)
    if left < least - EQUAL:
        return [_row([], [], 0.0, own, 1.0, up)]
    if left > least + EQUAL:
        return [_row(list(value), list(value.values()), most, own, size - slack, up)] if slack > EQUAL else None
    below = [_row([k], [-1.0], 0.0, own, 1.0, up) for k, a in value.items() if a < 0]
    return below + [_row(part, [1.0] * len(part), 1.0, own, 1.0, up) for part in parts]


def _row(columns: list[int], values: list[float], bound: float, own: int, size: float, up: bool) -> Row:
    """Return the row size·z + Σ values·x ≤ bound, where z is x or 1 − x of the variable `own`."""
    return [*columns, own], [*values, size if up else -size], bound if up else bound - size
