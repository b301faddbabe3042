"""Blocks of a page: text, facts, tables, drawings, images, tokens and letters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from latentstruct.data.images import Pixels

__all__ = [
    "Block",
    "Drawing",
    "Examples",
    "FactList",
    "Group",
    "Letters",
    "Mark",
    "Photo",
    "TableBlock",
    "Text",
    "Token",
    "Tokens",
]

Mark = Literal["", "right", "wrong", "missed", "unknown", "latent"]
"""How a token or a run of letters is shown: plain, correct, wrong, missed, without a true value, or latent."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class FactList:
    """Names and values."""

    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class TableBlock:
    """A table whose first `n_text` columns are text and the others numbers; None is shown as a dash."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    n_text: int = 1


@dataclass(frozen=True)
class Drawing:
    """A plot: `draw` is called with axes of `width` by `height` inches, `alt` describes it.

    A wide plot is drawn a second time with narrower axes, for phones.
    """

    draw: "Callable[[Axes], Any]"
    alt: str
    caption: str = ""
    width: float = 7.2
    height: float = 3.2


@dataclass(frozen=True)
class Photo:
    """An image of shape (height, width, 3) with values from 0 to 255."""

    pixels: "Pixels"
    alt: str
    caption: str = ""


class Token(NamedTuple):
    """A word with its predicted label, and the true one if it differs."""

    text: str
    label: str = ""
    truth: str = ""
    mark: Mark = ""


@dataclass(frozen=True)
class Tokens:
    """Words with their labels below them, in wrapped lines."""

    tokens: Sequence[Token]
    caption: str = ""


@dataclass(frozen=True)
class Letters:
    """Lines of monospaced letters in marked runs, such as sequences with sites or aligned pairs.

    A line is its name and its runs; lines are aligned letter by letter.
    """

    lines: Sequence[tuple[str, Sequence[tuple[str, Mark]]]]
    caption: str = ""


@dataclass(frozen=True)
class Group:
    """Blocks under a common heading."""

    title: str
    blocks: "Sequence[Block]"


Block = Text | FactList | TableBlock | Drawing | Photo | Tokens | Letters | Group


@dataclass(frozen=True)
class Examples:
    """Predictions for n examples; a page shows a few and sorts all by loss."""

    names: Sequence[str]
    losses: NDArray | None  # the loss of each prediction (n,), None if true outputs are unknown
    loss_name: str  # such as "fraction of wrong labels"
    remarks: Sequence[str]  # short ones, such as "predicted I-NP, true B-NP"
    draw: Callable[[int], Sequence[Block]]  # returns the blocks that show one example; called for those that are shown
    overview: Sequence[Block] = ()  # blocks about all examples together, before single ones
    # Order of predictions with the same loss (n,), such as the distance of a score from the threshold.
    severity: NDArray | None = None
    source: str = ""  # description of the data, such as the name of their file
    scores: Sequence[tuple[str, str]] = ()  # the main scores of `latentstruct evaluate` by their names
