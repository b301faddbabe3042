"""Sums of planes whose rounding depends on the number of planes only, not on the place or order of computation."""

from collections.abc import Iterable
from dataclasses import replace

from latentstruct.planes.plane import Plane

MOST_GROUPS = 64
"""Maximum number of groups of planes; sums of groups are added in pairs."""


def group_size(n_planes: int) -> int:
    """Return the size of a group of planes that are added sequentially, a power of 2."""
    size = 1
    while size * MOST_GROUPS < n_planes:
        size *= 2
    return size


class PlaneTree:
    """Sum of planes by a binary tree over groups that are added sequentially.

    The sum below a node can be computed by any process that has its planes. Few planes are held at a time. Groups have
    `size` planes; slopes may be overwritten if they are `ours`.
    """

    def __init__(self, size: int = 1, ours: bool = True) -> None:
        self.size, self.ours = size, ours
        self._group: Plane | None = None
        self._in_group = 0
        self._nodes: list[tuple[int, Plane]] = []
        """Sums that wait for their right neighbors, with their heights in the tree, which decrease."""

    def add(self, plane: Plane) -> None:
        """Add the next plane."""
        self._group = plane if self._group is None else _sum(self._group, plane, self.ours or self._in_group > 1)
        self._in_group += 1
        if self._in_group == self.size:
            self._close_group()

    def _close_group(self) -> None:
        assert self._group is not None
        height, node, ours = 0, self._group, self.ours or self.size > 1
        while self._nodes and self._nodes[-1][0] == height:
            node = _sum(self._nodes.pop()[1], node, ours or height > 0)
            height += 1
        self._nodes.append((height, node))
        self._group, self._in_group = None, 0

    def total(self) -> Plane:
        """Return the sum of all planes, at least one; nothing can be added afterwards."""
        if self._group is not None:
            self._close_group()
        _, node = self._nodes.pop()
        while self._nodes:
            height, left = self._nodes.pop()
            node = _sum(left, node, self.ours or self.size > 1 or height > 0)
        return node


def _sum(left: Plane, right: Plane, ours: bool) -> Plane:
    """Return the sum of two planes, in the memory of the first one if it is ours."""
    if not ours:
        return left + right
    left.slope += right.slope
    return replace(
        left,
        offset=left.offset + right.offset,
        entropy=left.entropy + right.entropy,
        exact=left.exact and right.exact,
        excess=left.slack + right.slack,
        below=left.below and right.below,
    )


def add_up(planes: Iterable[Plane], n_planes: int, size: int | None = None, ours: bool = False) -> Plane:
    """Return the sum of at least one plane, added as by `PlaneTree`.

    `size` is the number of planes of a group, by default that of `group_size`; slopes may be overwritten if `ours`.
    """
    tree = PlaneTree(group_size(n_planes) if size is None else size, ours)
    for plane in planes:
        tree.add(plane)
    return tree.total()
