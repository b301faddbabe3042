"""Annotations of images, whatever the file they are read from: labels and boxes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import Description, FormatError

Boxes = NDArray[np.float64]

OVERHANG = 1.0
"""Pixels by which a box may exceed its image, as rounding and conventions for pixels differ."""
UNREAD_SUFFIXES = (".avif", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".svg", ".tif", ".tiff", ".webp")
"""Extensions of images in formats that are not supported: they are reported instead of ignored."""
IMAGE_SUFFIX = re.compile(
    rf"\.(png|jpe?g|bmp|p[gp]m|{'|'.join(suffix[1:] for suffix in UNREAD_SUFFIXES)})", re.IGNORECASE
)


@dataclass(frozen=True)
class ImageAnnotation:
    """The annotation of an image.

    Attributes
    ----------
    file : str
        The file of the image, as written in the annotation.
    labels : tuple of str
        The distinct labels, in the order found; none if the file only names the image.
    boxes : float64 array of shape (k, 4)
        x0, y0, x1, y1 of each object.
    box_labels : tuple of k str
        The label of each object.
    size : pair of int, optional
        Width and height of the image, if the file states them.
    place : str
        The file of the annotation.
    line : int, optional
        The line of the annotation.
    """

    file: str
    labels: tuple[str, ...]
    boxes: Boxes
    box_labels: tuple[str, ...]
    size: tuple[int, int] | None = None
    place: str = ""
    line: int | None = None

    @property
    def name(self) -> str:
        """The name of the image without folder and extension, as in `ImageFiles`."""
        return image_name(self.file)

    @property
    def label(self) -> str:
        """The label; raise FormatError unless there is exactly one."""
        if len(self.labels) == 1:
            return self.labels[0]
        raise self.error(Description(", ".join(self.labels) or "none"), f"one label of {self.file}")

    def error(self, got: object, expected: str, hint: str | None = None) -> FormatError:
        """Return the error of this annotation."""
        return FormatError(self.place, got, expected, hint, line=self.line)


def image_name(file: str) -> str:
    """Return the name of an image without folder and extension."""
    base = file.replace("\\", "/").rsplit("/", 1)[-1]
    stem, dot, suffix = base.rpartition(".")
    return stem if IMAGE_SUFFIX.fullmatch(dot + suffix) else base


def fit_boxes(annotation: ImageAnnotation, width: int, height: int) -> Boxes:
    """Return the boxes of an image, clipped to it: 0 ≤ x0 < x1 ≤ width and 0 ≤ y0 < y1 ≤ height.

    Boxes may exceed the image by one pixel. A FormatError is raised if a box is empty, exceeds the image further or is
    within the first pixel, as are boxes in fractions of width and height, or if the annotation states another size of
    the image.
    """
    image = f"the image {annotation.file} of {width} × {height} pixels"
    if annotation.size not in (None, (width, height)):
        raise annotation.error(annotation.size, f"the size of {image}")
    ends = np.array([width, height, width, height], dtype=np.float64)
    for box in annotation.boxes:
        clipped, hint = np.clip(box, 0.0, ends), None
        if (box[2:] < box[:2]).any():
            expected = f"a box x0, y0, x1, y1 of {image} with x0 < x1 and y0 < y1"
            hint = "Add x0 and y0 to the last values if these are width and height."
        elif (box[2:] <= 1.0).all() and (box >= 0.0).all() and min(width, height) > 1:
            expected = f"a box in pixels of {image}"
            hint = "Multiply fractions by width and height."
        elif (box < -OVERHANG).any() or (box > ends + OVERHANG).any():
            expected = f"a box within {image}"
        elif not (clipped[2:] > clipped[:2]).all():
            expected = f"a box of {image} that is not empty"
        else:
            continue
        raise annotation.error(tuple(float(f"{value:.2f}") for value in box), expected, hint)
    return np.clip(annotation.boxes, 0.0, ends)


def check_distinct(annotations: Sequence[ImageAnnotation]) -> list[ImageAnnotation]:
    """Return the annotations; raise if an image has two of them."""
    seen: dict[str, ImageAnnotation] = {}
    for one in annotations:
        earlier = seen.setdefault(one.name, one)
        if earlier is not one:
            raise one.error(Description(f"{earlier.file} and {one.file}"), "one annotation per image name")
    return list(annotations)
