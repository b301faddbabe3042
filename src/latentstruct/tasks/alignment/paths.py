"""All alignments of two sequences as derivations of forests."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.types import Indices, offsets_from_lengths
from latentstruct.inference.forests import Forests

MATCH, DELETE, INSERT, ANY = range(4)
"""States of a path at a cell: its last step is a match, a gap of the second or first sequence, or any of them."""
OPEN, EXTEND, FREE = range(3)
STEPS = (
    (MATCH, ANY, FREE),
    (DELETE, MATCH, OPEN),
    (DELETE, DELETE, EXTEND),
    (INSERT, MATCH, OPEN),
    (INSERT, DELETE, OPEN),
    (INSERT, INSERT, EXTEND),
    (ANY, MATCH, FREE),
    (ANY, DELETE, FREE),
    (ANY, INSERT, FREE),
)
"""Steps to a state of a cell from a state of the cell before, by how gaps are scored. Where deletions and insertions
meet, deletions come first, so that each set of matches has one path."""


class Paths(NamedTuple):
    """All paths of m by n positions (less than 2²⁸ cells), and the kind, row, column and gap of each edge."""

    forest: Forests  # four items per cell (i, j) of prefixes, row by row, and one for the ends of local paths
    state: NDArray[np.int32]  # (E,) MATCH, DELETE, INSERT or ANY
    # (E,) the positions that a match uses, of the first sequence also a deletion, of the second also an insertion. A
    # match at row −1 is the begin of a path.
    row: NDArray[np.int32]
    column: NDArray[np.int32]
    gap: NDArray[np.int32]  # (E,) OPEN, EXTEND or FREE

    def contradicts(self, known: NDArray[np.int64], m: int, n: int) -> NDArray[np.bool_]:
        """Return whether each edge contradicts known matches (k, 2), which are in order."""
        partner, owner = np.full(m + 1, -1), np.full(n + 1, -1)
        partner[known[:, 0]], owner[known[:, 1]] = known[:, 1], known[:, 0]
        other = partner[self.row], owner[self.column]
        matched = ((other[0] >= 0) & (other[0] != self.column)) | ((other[1] >= 0) & (other[1] != self.row))
        wrong = np.select(
            [self.state == MATCH, self.state == DELETE, self.state == INSERT],
            [matched, other[0] >= 0, other[1] >= 0],
            False,
        )
        if len(known):
            # Local paths must not begin behind a known match, or end before one.
            starts = (np.diff(self.forest.tail_at) == 0) & (self.state == MATCH)
            ends = np.arange(len(wrong)) >= self.forest.edge_at[-2]
            wrong |= (starts & (self.row > known[0, 0])) | (ends & (self.row < known[-1, 0]))
        return wrong

    @property
    def matches(self) -> Indices:
        """The edges that are matches."""
        return np.flatnonzero((self.state == MATCH) & (self.row >= 0))


def all_paths(m: int, n: int, local: bool = False) -> Paths:
    """Lay out all alignments; local ones begin and end with any match, or have none."""
    cells = np.arange((m + 1) * (n + 1))
    i, j = np.divmod(cells, n + 1)
    back = np.array([n + 2, n + 1, 1, 0])  # from a cell to that before, by states
    state, source, gap = np.array(STEPS).T
    cell, step = np.nonzero(np.stack([(i > 0) & (j > 0), i > 0, j > 0, i >= 0], axis=1)[:, state])
    # Columns are items, tails (−1: none), states, rows, columns and gaps.
    steps = 4 * cell + state[step], 4 * (cell - back[state[step]]) + source[step], state[step], i[cell] - 1, j[cell] - 1
    blocks = [np.array([*steps, gap[step]], dtype=np.int32)]
    inner, last = np.flatnonzero((i > 0) & (j > 0)) if local else np.zeros(1, dtype=np.int64), 4 * len(cells)
    zeros = np.zeros(len(inner), dtype=np.int64)
    # Global paths begin with a match of nothing.
    blocks.append(
        np.array(
            [4 * inner + MATCH, zeros - 1, zeros + MATCH, i[inner] - 1, j[inner] - 1, zeros + FREE], dtype=np.int32
        )
    )
    if local:
        ends = np.append(4 * inner + MATCH, -1)
        zeros = np.zeros(len(ends), dtype=np.int64)
        stops = (np.append(part[inner], 0) - 1 for part in (i, j))
        blocks.append(np.array([zeros + last, ends, zeros + ANY, *stops, zeros + FREE], dtype=np.int32))
        last += 1
    edges = np.concatenate(blocks, axis=1)
    item, tail, *meaning = edges[:, np.argsort(edges[0], kind="stable")]
    forest = Forests(
        np.array([0, last]),
        offsets_from_lengths(np.bincount(item, minlength=last)),
        offsets_from_lengths(1 * (tail >= 0)),
        tail[tail >= 0].astype(np.int64),
        np.zeros(len(item), dtype=np.int64),
    )
    return Paths(forest, *meaning)
