"""Photographs of animals with the boxes around them: kangaroos and raccoons, and the animals of MSRC version 2."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct.boxes import Boxes, check_boxes
from latentstruct.datasets.home import dataset_file
from latentstruct.datasets.msrc import load_msrc
from latentstruct.exceptions import FormatError, InputError
from latentstruct.images import ImageFiles
from latentstruct.short_repr import short_repr, show

__all__ = ["Photographs", "load_mammals", "load_msrc_animals"]

ANIMALS = ("bird", "cat", "cow", "dog", "sheep")
"""Of the other animals of MSRC there are too few: 3 photographs show a horse."""
SMALLEST_REGION = 0.05
"""Share of an animal's pixels below which a region is a part cut off by something in front, not another animal."""

_BOXES, _IMAGES = "mammals_boxes/boxes.json", "mammals_boxes/images_max400.zip"


class _Chosen(Sequence[NDArray[np.uint8]]):
    """Some of a collection's photographs, decoded when they are asked for."""

    def __init__(self, read: Any, places: Sequence[Any]) -> None:
        self._read, self._places = read, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, k):  # type: ignore[no-untyped-def]
        if isinstance(k, slice):
            return _Chosen(self._read, self._places[k])
        return self._read(self._places[k])

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (self._read(place) for place in self._places)


@dataclass(frozen=True, eq=False)
class Photographs:
    """Photographs of animals of one class each.

    Parameters
    ----------
    names : list of str
        Names of the n photographs.
    images : sequence of n uint8 arrays of shape (height, width, 3)
        The photographs, decoded when they are asked for.
    labels : list of str
        The class of each.
    boxes : list of n float64 arrays of shape (k, 4)
        x0, y0, x1, y1 of the animals in each, right and bottom exclusive, the largest first.
    """

    names: list[str]
    images: Sequence[NDArray[np.uint8]]
    labels: list[str]
    boxes: list[Boxes]

    __repr__ = short_repr


class _Annotation(msgspec.Struct):
    """One photograph in boxes.json."""

    file: str
    cls: str
    size: tuple[int, int]
    boxes: list[tuple[float, float, float, float]]


def load_mammals(data_home: str | os.PathLike[str] | None = None, several: bool = False) -> Photographs:
    """Load photographs of kangaroos and raccoons from ``boxes.json`` and ``images_max400.zip`` in ``mammals_boxes``.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.
    several : bool, default=False
        Whether to take photographs of several animals too.

    Returns
    -------
    Photographs
        In the order of the file. Boxes are cut to the image.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If a file is damaged or they do not fit together, also when a damaged photograph is asked for.
    """
    path = dataset_file(data_home, _BOXES)
    files = ImageFiles(dataset_file(data_home, _IMAGES))
    try:
        annotations = msgspec.json.decode(path.read_bytes(), type=list[_Annotation])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(
            f"{path} cannot be read ({error}); expected a list of photographs with file, cls, size and boxes: fetch it "
            "again"
        ) from error
    kept = [item for item in annotations if several or len(item.boxes) == 1]
    if not kept:
        raise FormatError(f"{path} has no photographs of an animal; expected some: fetch it again")
    names = [os.path.splitext(item.file)[0] for item in kept]
    for name in names:
        if name not in files:
            raise FormatError(f"{path} has {show(name)}, but {files.path} does not: fetch both again")
    boxes = [_inside(item, f"the boxes of {item.file} in {path}") for item in kept]
    return Photographs(names, _Chosen(files.image, names), [item.cls for item in kept], boxes)


def _inside(item: _Annotation, name: str) -> Boxes:
    """Return the boxes of a photograph, cut to its size, the largest first."""
    try:
        return _largest_first(check_boxes(np.clip(item.boxes or np.zeros((0, 4)), 0.0, 2 * item.size), name))
    except InputError as error:
        raise FormatError(
            f"{name} cannot be used ({error}); expected boxes in the image: fetch the file again"
        ) from error


def _largest_first(boxes: Boxes) -> Boxes:
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return boxes[np.argsort(-areas, kind="stable")]


def load_msrc_animals(data_home: str | os.PathLike[str] | None = None) -> Photographs:
    """Load the photographs of MSRC version 2 that show birds, cats, cows, dogs or sheep, but not two of these.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    Photographs
        In the order of their names. Each connected region of the pixels of the class is an animal, unless it has less
        than a twentieth of them: its box is the extent of the region. Animals in front of each other are one region.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If a file is damaged or they do not fit together, also when a damaged photograph is asked for.
    """
    data = load_msrc(data_home)
    missing = [animal for animal in ANIMALS if animal not in data.classes]
    if missing:
        raise FormatError(
            f"the classes of MSRC have no {show(missing[0])}; expected {', '.join(ANIMALS)}: fetch them again"
        )
    numbers = {data.classes.index(animal): animal for animal in ANIMALS}
    places, labels, boxes = [], [], []
    for place, pixels in enumerate(data.labels):
        present = [number for number in np.unique(pixels).tolist() if number in numbers]
        if len(present) == 1:
            places.append(place)
            labels.append(numbers[present[0]])
            boxes.append(_region_boxes(pixels == present[0]))
    if not places:
        raise FormatError("MSRC has no photograph of one animal's kind; expected some: fetch the archives again")
    names = [data.names[place] for place in places]
    return Photographs(names, _Chosen(data.images.__getitem__, places), labels, boxes)


def _region_boxes(mask: NDArray[np.bool_]) -> Boxes:
    """Return the extents of the connected regions of a mask that are not small against the whole."""
    from scipy import ndimage

    regions, n_regions = ndimage.label(mask, np.ones((3, 3)))
    shares = np.bincount(regions.ravel(), minlength=n_regions + 1)[1:] / mask.sum()
    extents = [
        (across.start, down.start, across.stop, down.stop)
        for (down, across), share in zip(ndimage.find_objects(regions), shares, strict=True)
        if share >= min(SMALLEST_REGION, shares.max())
    ]
    return _largest_first(np.array(extents, dtype=np.float64))
