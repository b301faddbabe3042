"""Labeled regions drawn over images."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import ndimage
from latentstruct.core.validation import check_shape
from latentstruct.data.images import Color, Pixels, draw_overlay, require_vision
from latentstruct.exceptions import Description, InputError

__all__ = ["draw_regions", "fit_image", "fit_labels"]

LONGEST_SIDE, SMALL_SIDE = 480, 320
LETTERS = 22
"""Height of the numbers in pixels."""
STRIPE = 6
"""Width of the stripes of hatched regions in pixels."""
LIGHT, DARK = (255, 255, 255), (25, 25, 25)


def fit_image(image: Any, longest: int = LONGEST_SIDE) -> Pixels:
    """Return a resized image whose longer side has at most `longest` pixels, and not much less than 320.

    A small image is enlarged, each pixel to a square.
    """
    require_vision()
    from PIL import Image

    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        got = Description(f"{pixels.dtype} of shape {pixels.shape}")
        raise InputError("image", got, "uint8 of shape (height, width, 3), not empty")
    times = min(-(-SMALL_SIDE // max(pixels.shape)), longest // max(pixels.shape))
    if times > 1:
        return pixels.repeat(times, axis=0).repeat(times, axis=1)
    if max(pixels.shape) <= longest:
        return pixels
    picture = Image.fromarray(pixels)
    picture.thumbnail((longest, longest))
    return np.array(picture)


def fit_labels(labels: Any, size: Sequence[int]) -> NDArray[np.int64]:
    """Return the labels (height, width) at the centers of the pixels of a smaller copy of a size (height', width')."""
    values = np.asarray(labels)
    rows, columns = (
        ((np.arange(small) + 0.5) * large / small).astype(np.int64)
        for small, large in zip(size[:2], values.shape, strict=True)
    )
    found: NDArray[np.int64] = values[np.ix_(rows, columns)]
    return found


def draw_regions(image: Any, labels: Any, colors: Sequence[Color], numbers: Sequence[int]) -> Pixels:
    """Draw labeled regions over an image: their colors, and a number in the largest region of each label.

    `labels` (height, width) are indices, −1 if unknown; such regions are hatched.
    """
    from PIL import Image, ImageDraw, ImageFont

    pixels, places = np.asarray(image), np.asarray(labels)
    check_shape(places, pixels.shape[:2], "labels", "one label per pixel")
    drawn = draw_overlay(pixels, places, [""] * len(colors), colors)[: len(pixels)]
    rows, columns = np.indices(places.shape)
    stripe = (rows + columns) // STRIPE % 3
    drawn[(places < 0) & (stripe == 0)] = DARK
    drawn[(places < 0) & (stripe == 1)] = LIGHT
    picture = Image.fromarray(drawn)
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(LETTERS)
    for k in np.unique(places[places >= 0]).tolist():
        middle = _middle(places == k)
        if middle is not None:
            pen.text(middle, str(numbers[k]), fill=LIGHT, font=font, anchor="mm", stroke_width=2, stroke_fill=DARK)
    return np.array(picture)


def _middle(region: NDArray[np.bool_]) -> tuple[int, int] | None:
    """Return x and y of the innermost point of a region, None if a number does not fit there."""
    depth = ndimage.distance_transform_edt(np.pad(region, 1))[1:-1, 1:-1]
    y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    return (int(x), int(y)) if depth[y, x] >= LETTERS / 3 else None
