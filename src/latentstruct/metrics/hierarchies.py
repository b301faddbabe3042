"""Hierarchical classification: costs of confusing classes of a tree."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.validation import boolean, options
from latentstruct.exceptions import Description, InputError

__all__ = ["tree_costs"]


def tree_costs(
    tree: Mapping[Hashable, Hashable] | Iterable[Any],
    labels: Sequence[Hashable],
    *,
    cost: Literal["path", "height"] = "path",
    separator: str = "/",
    normalize: bool = True,
) -> NDArray[np.float64]:
    """Return the costs of confusing classes that are nodes of a tree, for ``Multiclass(costs=...)``.

    Parameters
    ----------
    tree : mapping from child to parent, or collection of paths
        The tree. A mapping names the parent of every node but the root, which may be omitted or have the parent None.
        A path leads from the top to a class: a text such as "sport/football", or a tuple of nodes; the whole path is
        the class, so that two classes may end with the same node. A root above all paths is added.
    labels : sequence of S hashables
        The classes in the order of the matrix; inner nodes may be among them.
    cost : {"path", "height"}, default="path"
        "path": the number of edges from y to ŷ. "height": the most edges from their lowest common ancestor down to a
        label, so that classes of one family cost the same at any depth.
    separator : str, default="/"
        What stands between the nodes of a path that is a text.
    normalize : bool, default=True
        Whether to divide by the largest cost, so that costs are in [0, 1].

    Returns
    -------
    ndarray of shape (S, S)
        Δ(y, ŷ): symmetric, 0 on the diagonal and above 0 elsewhere ("height": 1 edge at least). "path" obeys the
        triangle inequality and "height" the ultrametric one, Δ(a, c) ≤ max(Δ(a, b), Δ(b, c)).

    Raises
    ------
    InputError
        If the tree has a cycle or several roots, or a label is not in it.

    References
    ----------
    I. Tsochantaridis, T. Joachims, T. Hofmann and Y. Altun, Large margin methods for structured and interdependent
    output variables, JMLR 2005, section 4.4 (the height as loss).

    Examples
    --------
    >>> from latentstruct import Multiclass
    >>> labels = ["football", "tennis", "opera"]
    >>> parents = {"football": "sport", "tennis": "sport", "opera": "music", "sport": "all", "music": "all"}
    >>> tree_costs(parents, labels)
    array([[0. , 0.5, 1. ],
           [0.5, 0. , 1. ],
           [1. , 1. , 0. ]])
    >>> task = Multiclass(labels, costs=tree_costs(parents, labels))
    """
    options("path", "height").check(cost, "cost")
    boolean.check(normalize, "normalize")
    wanted = _checked_labels(labels)
    try:
        numbers = _below_parents(tree, wanted) if isinstance(tree, Mapping) else _below_paths(tree, wanted, separator)
    except TypeError as error:
        expected = "a mapping from child to parent or a list of paths, with nodes that are numbers, strings or tuples"
        raise InputError("tree", Description(str(error)), expected) from error
    costs = _costs(numbers, cost)
    most = costs.max(initial=0.0)
    return costs / most if normalize and most > 0 else costs


def _checked_labels(labels: Sequence[Hashable]) -> list[Hashable]:
    if isinstance(labels, str) or not hasattr(labels, "__len__"):
        raise InputError("labels", labels, "a sequence of classes")
    wanted = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    try:
        distinct = len(set(wanted))
    except TypeError as error:
        raise InputError("labels", Description(str(error)), "hashable, such as numbers or strings") from error
    if not wanted or distinct != len(wanted):
        got = Description(f"{len(wanted)} labels, {distinct} of them different")
        raise InputError("labels", got, "at least one label, without repetitions")
    return wanted


def _below_parents(parents: Mapping[Hashable, Hashable], labels: list[Hashable]) -> list[list[int]]:
    """Return the numbers of the nodes from the root down to each label; all nodes are checked."""
    roots: dict[Hashable, Hashable] = {}
    for node in parents:
        _find_root(node, parents, roots)
    ends = dict.fromkeys(roots.values())
    if len(ends) > 1:
        shown = ", ".join(repr(root) for root in list(ends)[:5])
        raise InputError("tree", Description(f"{len(ends)} roots ({shown})"), "a tree with one root")
    numbers = {node: number for number, node in enumerate(roots)}
    found = []
    for label in labels:
        if label not in numbers:
            raise InputError("labels", label, "nodes of `tree`")
        way, node = [], label
        while node is not None:
            way.append(numbers[node])
            node = parents.get(node)
        found.append(way[::-1])
    return found


def _find_root(node: Hashable, parents: Mapping[Hashable, Hashable], roots: dict[Hashable, Hashable]) -> None:
    """Find the root of a node and of all its ancestors, without recursion: a tree from a file may be deep."""
    way: dict[Hashable, None] = {}
    current, last = node, node
    while current is not None and current not in roots:
        if current in way:
            raise InputError("tree", Description(f"a cycle through {repr_short(current)}"), "a tree, without cycles")
        way[current] = None
        current, last = parents.get(current), current
    root = last if current is None else roots[current]
    roots.update(dict.fromkeys(way, root))


def _below_paths(paths: Iterable[Any], labels: list[Hashable], separator: str) -> list[list[int]]:
    """Return the numbers of the nodes from the added root, which is 0, down to each label."""
    if isinstance(paths, str):
        raise InputError("tree", paths, "a list of paths")
    # A node is identified by its ancestors: nodes of the same name below different ones are different.
    children: dict[tuple[int, Hashable], int] = {}
    for path in paths:
        node = 0
        for part in _parts(path, separator):
            node = children.setdefault((node, part), len(children) + 1)
    found = []
    for label in labels:
        way = [0]
        for part in _parts(label, separator):
            if (way[-1], part) not in children:
                raise InputError("labels", label, "paths of `tree`")
            way.append(children[way[-1], part])
        found.append(way)
    return found


def _parts(path: Any, separator: str) -> tuple[Hashable, ...]:
    parts = tuple(path.split(separator)) if isinstance(path, str) and separator else path
    if (
        not isinstance(parts, tuple)
        or not parts
        or any(part is None or (isinstance(part, str) and not part) for part in parts)
    ):
        expected = f"paths such as 'sport{separator}football' or tuples of nodes, none of them empty"
        raise InputError("tree", path, expected)
    return parts


def _costs(ways: list[list[int]], cost: str) -> NDArray[np.float64]:
    """Return the costs (S, S) of labels whose nodes from the root down are given."""
    depths = np.array([len(way) for way in ways])
    nodes = np.full((len(ways), depths.max()), -1)
    for number, way in enumerate(ways):
        nodes[number, : len(way)] = way
    shared = np.zeros((len(ways), len(ways)), dtype=np.int64)
    for column in nodes.T:
        # Each node of a tree has one path from the root, so that a shared node has all its ancestors in common.
        shared += (column[:, None] == column[None, :]) & (column[:, None] >= 0)
    if cost == "path":
        return (depths[:, None] + depths[None, :] - 2 * shared).astype(np.float64)
    heights = np.zeros(nodes.max() + 1, dtype=np.int64)
    for way in ways:
        np.maximum.at(heights, way, len(way) - 1 - np.arange(len(way)))
    costs = heights[nodes[np.arange(len(ways))[:, None], shared - 1]].astype(np.float64)
    # A label that is an inner node has a height of its own.
    np.fill_diagonal(costs, 0.0)
    return costs
