"""Images with boxes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.core.validation import check_length, finite_of
from latentstruct.data.images import PALETTE, Color, Pixels, require_vision
from latentstruct.exceptions import Description, InputError

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

__all__ = ["draw_boxes", "draw_chances"]

LIGHT: Color = (255, 255, 255)
DARK: Color = (25, 25, 25)
PIXELS_A_LINE, PIXELS_A_LETTER = 150, 18
"""Ratio of the shorter side of an image to the width of lines and to the height of letters."""
SMALLEST_LETTERS, LARGEST_LETTERS = 10, 60
DIMMED = 0.25
"""Brightness outside of all boxes."""


def draw_boxes(
    image: Any,
    boxes: Any,
    captions: Sequence[str] | None = None,
    colors: Sequence[Color] | None = None,
    true_boxes: Any = None,
) -> Pixels:
    """Draw boxes (k, 4) with captions over an image, and the true boxes (m, 4) in white.

    An empty caption is not drawn; colors are those of a fixed palette by default. Lines and letters scale with the
    image.
    """
    require_vision()
    from PIL import Image, ImageDraw

    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        got = Description(f"{pixels.dtype} of shape {pixels.shape}")
        raise InputError("image", got, "uint8 of shape (height, width, 3)")
    found = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    texts = [""] * len(found) if captions is None else list(captions)
    shades = [PALETTE[k % len(PALETTE)] for k in range(len(found))] if colors is None else list(colors)
    check_length(texts, len(found), "captions", "captions")
    check_length(shades, len(found), "colors", "colors")
    drawn = pixels.copy()
    width = max(1, round(min(pixels.shape[:2]) / PIXELS_A_LINE))
    if true_boxes is not None:
        for box in np.asarray(true_boxes, dtype=np.float64).reshape(-1, 4):
            _frame(drawn, box, LIGHT, width)
    for box, shade in zip(found, shades, strict=True):
        _frame(drawn, box, shade, 2 * width)
    picture = Image.fromarray(drawn)
    pen = ImageDraw.Draw(picture)
    for box, text, shade in zip(found, texts, shades, strict=True):
        if text:
            _caption(pen, box, text, shade, picture.size)
    return np.array(picture)


def _frame(pixels: Pixels, box: Any, color: Color, width: int) -> None:
    """Draw the border of a box inside it, between thin dark lines that are visible on any background."""
    x0, y0, x1, y1 = np.clip(np.round(box), 0, np.tile(pixels.shape[1::-1], 2)).astype(int)
    for inset, shade in enumerate([DARK, *[color] * width, DARK]):
        left, top, right, bottom = x0 + inset, y0 + inset, x1 - inset, y1 - inset
        if left < right and top < bottom:
            pixels[[top, bottom - 1], left:right] = shade
            pixels[top:bottom, [left, right - 1]] = shade


def _caption(pen: "ImageDraw", box: Any, text: str, color: Color, size: tuple[int, int]) -> None:
    """Write on a background of the box's color: above the box, or inside if it does not fit, within the image."""
    from PIL import ImageFont

    letters = int(np.clip(min(size) / PIXELS_A_LETTER, SMALLEST_LETTERS, LARGEST_LETTERS))
    font = ImageFont.load_default(letters)
    margin = letters // 4
    width, height = int(font.getlength(text)) + 2 * margin, letters + 2 * margin
    left = max(0, min(round(float(box[0])), size[0] - width))
    above = round(float(box[1])) - height
    top = above if above >= 0 else max(0, round(float(box[1])))
    pen.rectangle((left, top, left + width - 1, top + height - 1), fill=color)
    brightness = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]
    pen.text((left + margin, top + margin // 2), text, fill=DARK if brightness > 140 else LIGHT, font=font)


def draw_chances(image: Any, boxes: Any, chances: Any) -> Pixels:
    """Scale the brightness of each pixel by the probability that it lies in an uncertain box.

    `chances` (k,) are those of the candidates (k, 4). Pixels in no probable box keep a quarter of their brightness, the
    most probable all of it.
    """
    pixels, found = np.asarray(image), np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    weights = finite_of(chances, "chances", (len(found),), "one number per box")
    if not len(found):
        raise InputError("boxes", boxes, "at least one box")
    if (weights < 0).any():
        raise InputError("chances", weights.min(), "numbers of at least 0")
    height, width = pixels.shape[:2]
    corners = np.clip(np.round(found), 0, [width, height, width, height]).astype(np.int64)
    inside = np.zeros((height, width))
    for (x0, y0, x1, y1), chance in zip(corners.tolist(), weights.tolist(), strict=True):
        inside[y0:y1, x0:x1] += chance
    light = DIMMED + (1.0 - DIMMED) * inside / (float(inside.max()) or 1.0)
    lit: Pixels = (pixels * light[..., None]).round().astype(np.uint8)
    return lit
