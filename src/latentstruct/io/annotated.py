"""What is said of images: labels and boxes, whatever the file they stand in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import FormatError
from latentstruct.io.text import show

Boxes = NDArray[np.float64]

OVERHANG = 1.0
"""Pixels by which a box may stand out of its image, as roundings and ways to count pixels differ."""
UNREAD_SUFFIXES = (".avif", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".svg", ".tif", ".tiff", ".webp")
"""Of images in formats that are not read: they must not be passed over without a word."""
IMAGE_SUFFIX = re.compile(
    rf"\.(png|jpe?g|bmp|p[gp]m|{'|'.join(suffix[1:] for suffix in UNREAD_SUFFIXES)})", re.IGNORECASE
)


@dataclass(frozen=True)
class ImageAnnotation:
    """What a file says of one image.

    Attributes
    ----------
    file : str
        The file of the image, as it stands there.
    labels : tuple of str
        The different labels, in the order found; none if the file names the image only.
    boxes : float64 array of shape (k, 4)
        x0, y0, x1, y1 of each object.
    box_labels : tuple of k str
        The label of each object.
    size : pair of int, optional
        Width and height of the image, if the file tells them.
    place : str
        Where it stands, for messages.
    """

    file: str
    labels: tuple[str, ...]
    boxes: Boxes
    box_labels: tuple[str, ...]
    size: tuple[int, int] | None = None
    place: str = ""

    @property
    def name(self) -> str:
        """The name of the image without folder and extension, as `ImageFiles` has it."""
        return image_name(self.file)

    @property
    def label(self) -> str:
        """The one label; raise FormatError if there is none or there are several."""
        if len(self.labels) == 1:
            return self.labels[0]
        found = "no label" if not self.labels else f"{len(self.labels)} labels ({show(', '.join(self.labels))})"
        raise FormatError(f"{self.place}: {self.file} has {found}; expected one: label it with one class, or remove it")


def image_name(file: str) -> str:
    """Return the name of an image without folder and extension."""
    base = file.replace("\\", "/").rsplit("/", 1)[-1]
    stem, dot, suffix = base.rpartition(".")
    return stem if IMAGE_SUFFIX.fullmatch(dot + suffix) else base


def fit_boxes(annotation: ImageAnnotation, width: int, height: int) -> Boxes:
    """Return the boxes of an image, cut off at its borders: 0 ≤ x0 < x1 ≤ width and 0 ≤ y0 < y1 ≤ height.

    Boxes may stand out of the image by one pixel. A FormatError is raised if a box is empty, stands out further or lies
    within the first pixel, as boxes do that are given as shares of width and height, or if the file states another
    size of the image.
    """
    where = f"{annotation.place}: {annotation.file}"
    if annotation.size not in (None, (width, height)):
        assert annotation.size is not None
        told = " × ".join(map(str, annotation.size))
        raise FormatError(
            f"{where} is said to have {told} pixels; expected {width} × {height}, those of the image: use the image "
            "that was annotated, or annotate again"
        )
    ends = np.array([width, height, width, height], dtype=np.float64)
    for box in annotation.boxes:
        shown = show(tuple(float(f"{value:.2f}") for value in box))
        if (box[2:] < box[:2]).any():
            raise FormatError(
                f"{where} has the box {shown} (x0, y0, x1, y1), whose width or height is below 0; expected x0 < x1 and "
                "y0 < y1: exchange its ends, add x0 and y0 if these are width and height, or remove it"
            )
        if (box[2:] <= 1.0).all() and (box >= 0.0).all() and min(width, height) > 1:
            raise FormatError(
                f"{where} has the box {shown} (x0, y0, x1, y1), which lies within the first pixel; expected pixels of "
                f"the image of {width} × {height}: multiply shares by its width and height, or remove it"
            )
        if (box < -OVERHANG).any() or (box > ends + OVERHANG).any():
            raise FormatError(
                f"{where} has the box {shown} (x0, y0, x1, y1); expected it within the image of {width} × {height} "
                "pixels: correct it, or remove it"
            )
        if not (np.clip(box, 0.0, ends)[2:] > np.clip(box, 0.0, ends)[:2]).all():
            raise FormatError(
                f"{where} has the box {shown}, which is empty; expected x0 < x1 and y0 < y1: correct it, or remove it"
            )
    return np.clip(annotation.boxes, 0.0, ends)


def check_distinct(annotations: Sequence[ImageAnnotation]) -> list[ImageAnnotation]:
    """Return the annotations; raise if two of them are of one image."""
    seen: dict[str, ImageAnnotation] = {}
    for one in annotations:
        earlier = seen.setdefault(one.name, one)
        if earlier is not one:
            raise FormatError(
                f"{one.place}: {one.file} is named a second time, after {earlier.file} at {earlier.place}; expected "
                "each image once, whatever its folder and extension: remove or rename one"
            )
    return list(annotations)
