"""What stands on a page: text, facts, tables, drawings, pictures, tokens and letters."""

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
"""How a token or a run of letters is shown: plain, right, wrong, a missed truth, of unknown truth, or latent."""


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
    """A table whose first `n_text` columns are text and the others numbers; None is a dash."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    n_text: int = 1


@dataclass(frozen=True)
class Drawing:
    """A plot: `draw` is called with axes of `width` by `height` inches, `alt` tells what is to be seen.

    A wide plot is drawn a second time with narrower axes, for telephones.
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
    """A word with what was predicted for it, and the truth where that is another."""

    text: str
    label: str = ""
    truth: str = ""
    mark: Mark = ""


@dataclass(frozen=True)
class Tokens:
    """Words with their labels below them, in lines that break where the page ends."""

    tokens: Sequence[Token]
    caption: str = ""


@dataclass(frozen=True)
class Letters:
    """Lines of letters of one width, in marked runs, such as sequences with sites or aligned pairs.

    A line is its name and its runs; lines stand below each other letter by letter.
    """

    lines: Sequence[tuple[str, Sequence[tuple[str, Mark]]]]
    caption: str = ""


@dataclass(frozen=True)
class Group:
    """Blocks that belong together, below a heading of their own."""

    title: str
    blocks: "Sequence[Block]"


Block = Text | FactList | TableBlock | Drawing | Photo | Tokens | Letters | Group


@dataclass(frozen=True)
class Examples:
    """Predictions for data, of which a page shows a few and sorts all by loss.

    Parameters
    ----------
    source : str
        What the data are, such as the name of their file.
    names : sequence of n str
        What each example is called.
    losses : array of shape (n,) or None
        The loss of each prediction; None if the truth is not known.
    loss_name : str
        What the loss is, such as "share of wrong labels".
    remarks : sequence of n str
        A few words on each prediction, such as "B-NP taken for I-NP".
    draw : function of int
        Returns the blocks that show one example; called for those that are shown only.
    scores : sequence of (name, value)
        The figures of `latentstruct evaluate` that count most.
    overview : sequence of Block
        What is shown of all examples together, before the single ones.
    severity : array of shape (n,) or None
        How bad each prediction is among others of the same loss, such as how far a score is on the wrong side.
    """

    source: str
    names: Sequence[str]
    losses: NDArray | None
    loss_name: str
    remarks: Sequence[str]
    draw: Callable[[int], Sequence[Block]]
    scores: Sequence[tuple[str, str]] = ()
    overview: Sequence[Block] = ()
    severity: NDArray | None = None
