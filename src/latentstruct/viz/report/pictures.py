"""Plots as SVG that follows the colors of the page, and photographs as data."""

import base64
import io
import re
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from latentstruct.viz.plots import require_plots
from latentstruct.viz.report.blocks import Drawing

if TYPE_CHECKING:
    from latentstruct.data.images import Pixels

NARROW_WIDTH = 3.6
"""Width of plots on phones in inches."""
LONGEST_SIDE = 900
"""Maximum pixels of a photograph's longer side."""
SMALLEST_SIDE = 160
"""Pixels of the longer side below which a photograph is enlarged, each pixel to a square."""
JPEG_QUALITY = 85
FEW_COLORS = 256

# Plots are drawn with these colors, which the page replaces by its own, light or dark.
INK, MUTED, RULE = "#1d2127", "#58616c", "#d8dbd9"
SERIES = ("#1f5e8d", "#b4531f", "#2f7a4d", "#7a4b9d", "#9a7310", "#a03a63", "#3f7f86", "#6b6f2a")
VARIABLES = {
    INK: "--ink",
    "#000000": "--ink",
    MUTED: "--muted",
    "#808080": "--muted",
    RULE: "--rule",
    "#d3d3d3": "--rule",
    **{color: f"--series-{k}" for k, color in enumerate(SERIES, 1)},
}
COLOR = re.compile("|".join(VARIABLES))
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
STYLE = re.compile(r"<style[^>]*>.*?</style>", re.DOTALL)
NAME = re.compile(r'(\bid="|\bhref="#|url\(#)')
COLLAPSED = re.compile("constrained_layout not applied")
"""A plot of many panels that does not fit on a phone: the wide one is scaled down there."""
MISSING_SIGN = re.compile(r"Glyph \d+ .* missing from", re.DOTALL)
SIZE = re.compile(r'<svg [^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>')


class Picture(NamedTuple):
    """The svg elements of a plot, the wide one and, if that is too wide for a phone, a narrow one."""

    elements: tuple[str, ...]
    complete: bool
    """Whether the font has all characters of its texts."""


def draw_svg(drawing: Drawing, prefix: str) -> Picture:
    """Draw a plot in the colors of the page; `prefix` makes the ids of its elements unique in the page."""
    require_plots()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        elements = [_draw(drawing, drawing.width, prefix)]
    if drawing.width > NARROW_WIDTH * 1.2:
        # The wide one has already issued the warnings.
        with warnings.catch_warnings(record=True) as narrow:
            warnings.simplefilter("always")
            element = _draw(drawing, NARROW_WIDTH, f"{prefix}n-")
        if not any(COLLAPSED.match(str(one.message)) for one in narrow):
            elements.append(element)
    lacking = [one for one in caught if MISSING_SIGN.match(str(one.message))]
    for one in caught:
        if one not in lacking:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return Picture(tuple(elements), not lacking)


def _draw(drawing: Drawing, width: float, prefix: str) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    stream = io.StringIO()
    with rc_context(_settings(prefix)):
        figure = Figure(figsize=(width, drawing.height), layout="constrained")
        drawing.draw(figure.add_subplot())
        _take_texts_literally(figure)
        figure.savefig(stream, format="svg", bbox_inches="tight", pad_inches=0.04, metadata={"Date": None})
    return _fit_for_page(stream.getvalue(), prefix)


def _take_texts_literally(figure: Any) -> None:
    """Draw texts with dollar signs literally; only the numbers of axes are formulas."""
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    for text in figure.findobj(Text):
        text.set_parse_math(False)
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), LogFormatter):
                for text in axis.get_ticklabels(which="both"):
                    text.set_parse_math(True)


def _settings(prefix: str) -> Any:
    """Return the settings of matplotlib that give a plot the colors of the page."""
    from cycler import cycler

    inked = ("text.color", "axes.labelcolor", "axes.titlecolor", "lines.color", "boxplot.flierprops.color")
    muted = ("axes.edgecolor", "xtick.color", "ytick.color", "patch.edgecolor", "hatch.color")
    bare = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "savefig.edgecolor", "legend.facecolor")
    return {
        **dict.fromkeys(inked, INK),
        **dict.fromkeys(muted, MUTED),
        **dict.fromkeys(("grid.color", "legend.edgecolor"), RULE),
        **dict.fromkeys(bare, "none"),
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "axes.prop_cycle": cycler(color=SERIES),
        "legend.framealpha": 0.0,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9.5,
        "text.parse_math": False,
        "svg.fonttype": "path",
        "svg.hashsalt": prefix,
        "svg.image_inline": True,
        "path.simplify": True,
    }


def _fit_for_page(text: str, prefix: str) -> str:
    """Return the svg element of a file for embedding in a page."""
    text = text[text.index("<svg") :]
    # A style element would apply to the whole page, which has these rules itself; comments repeat the texts.
    for unwanted in (COMMENT, METADATA, STYLE):
        text = unwanted.sub("", text)
    text = NAME.sub(lambda match: match[0] + prefix, text)
    text = COLOR.sub(lambda match: f"var({VARIABLES[match[0]]})", text)
    size = SIZE.search(text)
    assert size is not None, "matplotlib writes a view box"
    # Points are 4/3 of the page's pixels.
    width = float(size[1]) * 4 / 3
    begin = f'<svg viewBox="0 0 {size[1]} {size[2]}" style="width: {width:.0f}px" aria-hidden="true" focusable="false">'
    return begin + "".join(line.strip() + "\n" for line in text[size.end() :].splitlines() if line.strip())


def encode_photo(pixels: "Pixels") -> str:
    """Return an image as a data URL, reduced if it is large."""
    from PIL import Image

    image = Image.fromarray(pixels)
    longest = max(image.size)
    if longest > LONGEST_SIDE:
        image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    elif longest < SMALLEST_SIDE:
        times = -(-SMALLEST_SIDE // longest)
        image = image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
    stream = io.BytesIO()
    if image.getcolors(FEW_COLORS) is not None:
        kind = "png"
        image.save(stream, "PNG", optimize=True)
    else:
        kind = "jpeg"
        image.save(stream, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return f"data:image/{kind};base64,{base64.b64encode(stream.getvalue()).decode()}"
