"""A page: sections of blocks, written as one self-contained HTML file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from latentstruct.exceptions import Description, InputError
from latentstruct.persistence.atomic_files import output_errors, write_output
from latentstruct.progress.display import plain, show_number
from latentstruct.viz.report import require_pages
from latentstruct.viz.report.blocks import (
    Block,
    Drawing,
    FactList,
    Group,
    Letters,
    Mark,
    Photo,
    TableBlock,
    Text,
    Tokens,
)
from latentstruct.viz.report.pictures import draw_svg, encode_photo

__all__ = ["Page", "Section", "write_page"]

MOST_PICTURE_BYTES = 12_000_000
"""Maximum bytes of images in a page; further ones are omitted with a note."""
MARKS: dict[Mark, str] = {
    "right": "right",
    "wrong": "wrong",
    "missed": "true, but not predicted",
    "unknown": "true value unknown",
    "latent": "latent: inferred by the model",
}
"""What the marks of tokens and letters mean, in the order of the legend."""


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading; `lead` is its first paragraph."""

    title: str
    blocks: Sequence[Block]
    lead: str = ""


@dataclass(frozen=True)
class Page:
    """A page with a title, a line below it, sections, and a few facts such as the date at its end."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    facts: Sequence[tuple[str, str]] = ()

    def html(self) -> str:
        """Return the page as the text of one HTML file."""
        from latentstruct import __version__

        views = _Views()
        sections = [
            {"id": f"s{k}", "title": section.title, "lead": section.lead, "blocks": views.of(section.blocks)}
            for k, section in enumerate(self.sections, 1)
        ]
        text = _template().render(page=self, sections=sections, left_out=views.left_out, version=__version__)
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if line.strip())


def write_page(page: Page, path: str | Path) -> None:
    """Write a page to a file, which appears complete or not at all; its folder is created if needed."""
    target = Path(path)
    if target.is_dir():
        raise InputError("path", Description(f"the folder {target}"), "a file")
    raw = page.html().encode("utf-8", "replace")
    with output_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    write_output(target, raw)


@dataclass
class _Views:
    """Views of blocks for the template; counts figures and the bytes of images."""

    n_figures: int = 0
    n_bytes: int = 0
    left_out: int = 0
    kinds: dict[type, str] = field(
        default_factory=lambda: {
            Text: "text",
            FactList: "facts",
            TableBlock: "table",
            Drawing: "drawing",
            Photo: "photo",
            Tokens: "tokens",
            Letters: "letters",
            Group: "group",
        }
    )

    def of(self, blocks: Sequence[Block]) -> list[dict[str, Any]]:
        """Return the views of blocks; those of photographs mark where a row of them begins and ends."""
        views = [{"kind": self.kinds[type(block)], "block": block, **self._besides(block)} for block in blocks]
        photos = [False, *(isinstance(block, Photo) for block in blocks), False]
        for k, view in enumerate(views, 1):
            view |= {"begins": not photos[k - 1], "ends": not photos[k + 1]}
        return views

    def _besides(self, block: Block) -> dict[str, Any]:
        """Return data of a block for the template in addition to its fields."""
        if isinstance(block, Group):
            return {"blocks": self.of(block.blocks)}
        if isinstance(block, TableBlock):
            return {"rows": [[_cell(value) for value in row] for row in block.rows]}
        if isinstance(block, Drawing):
            self.n_figures += 1
            picture = draw_svg(block, f"f{self.n_figures}-")
            fits = self._fits(sum(map(len, picture.elements)))
            return {"pictures": picture.elements if fits else (), "complete": picture.complete}
        if isinstance(block, Photo):
            source = encode_photo(block.pixels)
            return {"source": source if self._fits(len(source)) else ""}
        if isinstance(block, Tokens | Letters):
            used = set(_marks(block))
            return {"legend": [(mark, words) for mark, words in MARKS.items() if mark in used]}
        return {}

    def _fits(self, n_bytes: int) -> bool:
        """Return whether an image fits into the page, and count those that do not."""
        if self.n_bytes + n_bytes > MOST_PICTURE_BYTES:
            self.left_out += 1
            return False
        self.n_bytes += n_bytes
        return True


def _marks(block: Tokens | Letters) -> Iterator[Mark]:
    if isinstance(block, Tokens):
        yield from (token.mark for token in block.tokens)
    else:
        yield from (mark for _, runs in block.lines for _, mark in runs)


def _cell(value: Any) -> str:
    """Return a cell of a table as text: numbers with four significant digits, None as a dash."""
    value = plain(value)
    if value is None:
        return "–"
    return show_number(value, 4) if isinstance(value, float) else str(value)


@cache
def _template() -> Any:
    require_pages()
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files("latentstruct.viz.report")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    # The style and the images are generated here; all other text may come from untrusted files and is escaped.
    environment.globals["style"] = Markup((folder / "style.css").read_text(encoding="utf-8"))
    environment.filters["trusted"] = Markup
    return environment.from_string((folder / "page.html.jinja").read_text(encoding="utf-8"))
