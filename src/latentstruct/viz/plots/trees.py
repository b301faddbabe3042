"""Parse trees."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from latentstruct.core.validation import check_length
from latentstruct.data.trees import Constituent, Tree, check_tree, is_preterminal, words
from latentstruct.exceptions import Description, InputError
from latentstruct.viz.plots.axes import new_axes, on_axes
from latentstruct.viz.plots.colors import SINGLE, WRONG
from latentstruct.viz.plots.features import drawn_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_WORDS = 60
LONGEST_WORD = 16
SIGN = 0.065
"""Width of a character of a word in inches."""
LABEL_SIZES = {False: (8, 0.065), True: (7, 0.055)}
"""Font size of the labels in points, and width of a character in inches, for vertical and sideways trees."""
LABEL_FRACTION = 0.38
"""Fraction of a level on each side of its center that the label occupies; lines run in the rest."""


class _Node(NamedTuple):
    """A node or a word: its label or text, its depth, the words it covers, and the number of its parent.

    `inner` distinguishes nodes from words, `branches` constituents from tags.
    """

    label: str
    depth: int
    start: int
    end: int
    parent: int
    inner: bool
    branches: bool


@on_axes
def plot_tree(
    tree: Tree,
    ax: "Axes | None" = None,
    marked: Iterable[Constituent] = (),
    names: Sequence[str] | None = None,
    sideways: bool | None = None,
) -> "Axes":
    """Draw a tree, its words in a line below it or, sideways, in a column to the right of it.

    Parameters
    ----------
    tree : Tree
        The tree, of at most 60 words.
    marked : iterable of Constituent, optional
        Constituents to frame, for instance wrong ones; one that occurs twice is framed as often as it is given.
    names : sequence of str, optional
        Texts of the nodes in preorder, including tags, instead of their labels.
    sideways : bool, optional
        Whether the root is on the left, with the words below each other; by default if the words do not fit side
        by side.
    """
    check_tree(tree)
    if len(words(tree)) > MOST_WORDS:
        raise InputError("tree", Description(f"{len(words(tree))} words"), f"a tree of at most {MOST_WORDS} words")
    nodes, left = _laid_out(tree), Counter(marked)
    inner = [node for node in nodes if node.inner]
    if names is not None:
        check_length(names, len(inner), "names", "names")
    texts = iter([node.label for node in inner] if names is None else names)
    ax = new_axes(tree_height(tree)) if ax is None else ax
    box = ax.get_window_extent()
    width = box.width / ax.figure.dpi
    if sideways is None:
        sideways = width < SIGN * sum(min(len(word), LONGEST_WORD) + 2 for word in words(tree))
    deepest, (points, sign) = max(node.depth for node in nodes), LABEL_SIZES[sideways]
    level = width / (deepest + 2.5) if sideways else width / nodes[0].end
    for node in nodes:
        if node.parent >= 0:
            _draw_line(ax, nodes[node.parent], node, deepest, sideways)
        if not node.inner:
            _write_word(ax, node, deepest, sideways)
            continue
        here = Constituent(node.label, node.start, node.end)
        framed = node.branches and left[here] > 0
        left[here] -= framed
        text = drawn_text(next(texts), max(4, int(2 * LABEL_FRACTION * level / sign)))
        frame = {"boxstyle": "round,pad=0.15", "facecolor": "none", "edgecolor": WRONG} if framed else None
        ax.text(*_place(node, deepest, sideways), text, fontsize=points, ha="center", va="center", bbox=frame)
    across, along = (-0.6, deepest + (1.8 if sideways else 0.5)), (-0.6, nodes[0].end - 0.4)
    ax.set_xlim(across if sideways else along)
    ax.set_ylim((along if sideways else across)[::-1])
    ax.set_axis_off()
    return ax


def tree_height(tree: Tree) -> float:
    """Return a suitable height in inches for a plot of a tree in either orientation."""
    nodes = _laid_out(tree)
    return 0.4 + max(0.24 * nodes[0].end, 0.36 * (1 + max(node.depth for node in nodes)))


def _place(node: _Node, deepest: int, sideways: bool) -> tuple[float, float]:
    middle, depth = (node.start + node.end - 1) / 2, float(node.depth if node.inner else deepest)
    return (depth, middle) if sideways else (middle, depth)


def _draw_line(ax: "Axes", parent: _Node, node: _Node, deepest: int, sideways: bool) -> None:
    """Draw the line from a label to one below it, through the free space between levels."""
    (x, y), (to_x, to_y) = (_place(one, deepest, sideways) for one in (parent, node))
    if sideways:
        begin, end = x + LABEL_FRACTION, to_x - (LABEL_FRACTION if node.inner else 0.1)
        ax.plot([begin, x + 0.5, x + 0.5, end], [y, y, to_y, to_y], color=SINGLE, linewidth=0.8)
    else:
        ax.plot([x, to_x], [y + LABEL_FRACTION, to_y - LABEL_FRACTION], color=SINGLE, linewidth=0.8)


def _write_word(ax: "Axes", node: _Node, deepest: int, sideways: bool) -> None:
    text, aside = drawn_text(node.label, LONGEST_WORD), "left" if sideways else "center"
    ax.text(*_place(node, deepest, sideways), text, fontsize=9, style="italic", ha=aside, va="center")


def _laid_out(tree: Tree) -> list[_Node]:
    """Return the nodes and words of a tree, each after its parent; the first is the root."""
    found: list[_Node] = []
    position = 0
    # A number on the stack is the index of the node that ends here.
    stack: list[tuple[Tree, int, int] | int] = [(tree, 0, -1)]
    while stack:
        top = stack.pop()
        if isinstance(top, int):
            found[top] = found[top]._replace(end=position)
            continue
        node, depth, parent = top
        number = len(found)
        found.append(_Node(node.label, depth, position, position + 1, parent, True, not is_preterminal(node)))
        if is_preterminal(node):
            found.append(_Node(str(node.children[0]), depth + 1, position, position + 1, number, False, False))
            position += 1
        else:
            stack.append(number)
            stack.extend((child, depth + 1, number) for child in reversed(node.children) if isinstance(child, Tree))
    return found
