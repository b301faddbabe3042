"""Parse trees: words and constituents, binary form and its inverse, chains of single children.

All functions walk trees by explicit stacks, so that depth is limited by memory only.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from latentstruct.core.formatting import repr_short
from latentstruct.core.validation import integer
from latentstruct.exceptions import Description, InputError

SEPARATOR = " "
"""Separator of the parts of an artificial label; labels of treebanks do not contain it."""
NO_BREAK_SPACES = r"\u00a0\u2007\u202f"
"""Whitespace that is allowed within words, for instance between digits, as a regular expression."""
MOST_SHOWN = 60

_WORD = re.compile(rf"[\S{NO_BREAK_SPACES}]+")
_PLAIN_LABEL = re.compile(r"[^-][^-=]*")


class Tree(NamedTuple):
    """A node with its children.

    Attributes
    ----------
    label : str
        The symbol of the node.
    children : tuple of Tree, or tuple of one str
        Trees; one word if the node is a preterminal (a tag over its word).
    """

    label: str
    children: "tuple[Tree | str, ...]"


class Constituent(NamedTuple):
    """A labeled span: the words start … end − 1, counted from 0."""

    label: str
    start: int
    end: int


def is_preterminal(tree: Tree) -> bool:
    """Return whether the node is a tag over one word."""
    return len(tree.children) == 1 and isinstance(tree.children[0], str)


def preorder(tree: Tree) -> Iterator[Tree]:
    """Yield all nodes, each before its children and these from left to right."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(child for child in reversed(node.children) if not isinstance(child, str))


def check_tree(tree: object, name: str = "tree") -> None:
    """Raise InputError about `name` unless `tree` is well-formed and its labels and words hold no whitespace."""
    stack: list[object] = [tree]
    while stack:
        node = stack.pop()
        if not isinstance(node, Tree):
            expected = "built of Tree(label, children) whose children are trees, or one word"
            raise InputError(name, Description(f"{_shown(node)} of type {type(node).__name__}"), expected)
        _check_text(node.label, name, "labels")
        if not isinstance(node.children, tuple) or not node.children:
            got = Description(f"{_shown(node.children)} as children of {repr_short(node.label)}")
            raise InputError(name, got, "built of nodes whose children are a tuple of at least one tree or word")
        if is_preterminal(node):
            _check_text(node.children[0], name, "words")
        else:
            stack.extend(node.children)


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str | int | float | None) else f"{type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…"


def is_plain(text: object) -> bool:
    """Return whether something may be a label or a word: nonempty text without whitespace.

    No-break spaces are allowed between other characters.
    """
    return isinstance(text, str) and _WORD.fullmatch(text) is not None and text.strip() == text


def _check_text(text: object, name: str, items: str) -> None:
    if not is_plain(text):
        raise InputError(name, Description(_shown(text)), f"a tree of {items} that are not empty, without whitespace")


def preterminals(tree: Tree) -> list[Tree]:
    """Return the tags over their words, from left to right."""
    return [node for node in preorder(tree) if is_preterminal(node)]


def words(tree: Tree) -> list[str]:
    """Return the words, from left to right."""
    return [str(node.children[0]) for node in preterminals(tree)]


def tagged_words(tree: Tree) -> list[tuple[str, str]]:
    """Return pairs (word, tag), from left to right."""
    return [(str(node.children[0]), node.label) for node in preterminals(tree)]


def constituents(tree: Tree) -> list[Constituent]:
    """Return the labeled spans of all nodes but preterminals and artificial ones, in preorder, the root included."""
    found: list[Constituent] = []
    position = 0
    # A number on the stack is the index of the constituent that ends here.
    stack: list[Tree | int] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, int):
            found[node] = found[node]._replace(end=position)
        elif is_preterminal(node):
            position += 1
        else:
            if not is_artificial(node.label):
                stack.append(len(found))
                found.append(Constituent(node.label, position, position))
            stack.extend(child for child in reversed(node.children) if isinstance(child, Tree))
    return found


def plain_label(label: str) -> str:
    """Return a label of a treebank without functions and references: what follows the first ``-`` or ``=`` is dropped.

    Labels that begin with ``-``, such as ``-NONE-`` and ``-LRB-``, are not changed.

    Examples
    --------
    >>> [plain_label(label) for label in ("NP-SBJ-1", "NP=2", "PRP$", "-LRB-")]
    ['NP', 'NP', 'PRP$', '-LRB-']
    """
    found = _PLAIN_LABEL.match(label)
    return found[0] if found else label


def is_artificial(label: str) -> bool:
    """Return whether a label was created by `binarize`."""
    return SEPARATOR in label


def _rebuilt(tree: Tree, make: Callable[[str, tuple[Tree, ...]], tuple[Tree, ...]]) -> Tree:
    """Return the tree with every node above preterminals replaced by make(label, new children), bottom up."""
    done: list[tuple[Tree, ...]] = []
    stack: list[tuple[Tree, bool]] = [(tree, False)]
    while stack:
        node, ready = stack.pop()
        if is_preterminal(node):
            done.append((node,))
        elif not ready:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children) if isinstance(child, Tree))
        else:
            count = len(node.children)
            parts = tuple(part for group in done[-count:] for part in group)
            del done[-count:]
            done.append(make(node.label, parts))
    (root,) = done[-1]
    return root


def _binary_node(label: str, children: tuple[Tree, ...], markov: int | None) -> tuple[Tree, ...]:
    if len(children) <= 2:
        return (Tree(label, children),)
    names = [child.label for child in children]
    node = children[-1]
    for at in range(len(children) - 2, 0, -1):
        before = names[0 if markov is None else max(0, at - markov) : at]
        node = Tree(SEPARATOR.join([label, *before, "…"]), (children[at], node))
    return (Tree(label, (children[0], node)),)


def binarize(tree: Tree, markov: int | None = None) -> Tree:
    """Return the tree with at most two children per node, using artificial nodes from left to right.

    A node A over B₁ … B_m with m > 2 becomes A over B₁ and an artificial node that stands for the rest, which is over
    B₂ and the next rest, and so on. The artificial label contains A and the preceding children: all of them, so that
    the binary rules allow no other sequences of children than those seen, or the last `markov` of them. It contains
    spaces, unlike labels of treebanks, so that `debinarize` is the exact inverse.

    Examples
    --------
    >>> tree = Tree("S", (Tree("a", ("x",)), Tree("b", ("y",)), Tree("c", ("z",))))
    >>> binarize(tree, markov=1).children[1].label
    'S a …'
    >>> debinarize(binarize(tree)) == tree
    True
    """
    (integer(0) | None).check(markov, "markov")
    return _rebuilt(tree, lambda label, children: _binary_node(label, children, markov))


def debinarize(tree: Tree) -> Tree:
    """Undo `binarize`: replace artificial nodes by their children."""
    return _rebuilt(tree, lambda label, children: children if is_artificial(label) else (Tree(label, children),))


def unary_chain(tree: Tree) -> tuple[list[str], Tree]:
    """Return the labels from a node down a chain of single children, and the node at the bottom.

    The bottom is a preterminal or has several children; its label is the last one.
    """
    labels = [tree.label]
    while len(tree.children) == 1 and isinstance(child := tree.children[0], Tree):
        tree = child
        labels.append(tree.label)
    return labels, tree


def without_unary_cycles(tree: Tree) -> Tree:
    """Return the tree without chains of single children that return to a label: A over B over A is A.

    Afterwards no two nodes above preterminals have the same label and the same words. A tag is a different label
    from that of a node above tags, even if the text is the same.
    """
    done: list[Tree] = []
    stack: list[tuple[Tree, list[str] | None]] = [(tree, None)]
    while stack:
        node, above = stack.pop()
        if above is None:
            labels, bottom = unary_chain(node)
            if is_preterminal(bottom):
                done.append(_stacked(_acyclic(labels[:-1]), bottom))
            else:
                stack.append((bottom, _acyclic(labels)[:-1]))
                stack.extend((child, None) for child in reversed(bottom.children) if isinstance(child, Tree))
        else:
            children = tuple(done[-len(node.children) :])
            del done[-len(node.children) :]
            done.append(_stacked(above, Tree(node.label, children)))
    return done[0]


def _acyclic(labels: list[str]) -> list[str]:
    """Return the labels without cycles back to an earlier one."""
    places: dict[str, int] = {}
    kept: list[str] = []
    for label in labels:
        if label in places:
            first = places[label]
            for dropped in kept[first:]:
                del places[dropped]
            del kept[first:]
        places[label] = len(kept)
        kept.append(label)
    return kept


def _stacked(labels: list[str], bottom: Tree) -> Tree:
    """Return a chain of single children with these labels over the bottom node."""
    for label in reversed(labels):
        bottom = Tree(label, (bottom,))
    return bottom
