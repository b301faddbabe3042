"""Images: MNIST, handwritten words, MSRC version 2, animals with bounding boxes, and snakes in grids."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.lazy import ndimage
from latentstruct.core.validation import listed
from latentstruct.data.boxes import Boxes, check_boxes
from latentstruct.data.images import ImageFiles, parse_image
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.text import Source
from latentstruct_papers.datasets.home import Home, check_range, loader, read_archive, read_integers
from latentstruct_papers.datasets.idx import read_idx

SIDE = 28
N_PIXELS, N_LETTERS = 128, 26
N_SNAKE_LABELS = 11
ANIMALS = ("bird", "cat", "cow", "dog", "sheep")
"""MSRC has too few images of other animals: 3 photographs show a horse."""
SMALLEST_REGION = 0.05
"""Fraction of the pixels of an animal below which a region is an occluded part of it, not another animal."""

_WORDS = {"pixels": 2, "labels": 1, "lengths": 1, "folds": 1}
_GRIDS = {"shapes": 2, "pixels": 2, "label_shapes": 2, "labels": 1}


@dataclass(frozen=True, eq=False)
class Mnist:
    """Images of handwritten digits, in the order of the files.

    Parameters
    ----------
    train_images, test_images : uint8 arrays of shape (n, 28, 28)
        Gray values, 0 for the background and 255 for full ink.
    train_labels, test_labels : int64 arrays of shape (n,)
        The digits, 0 to 9.
    """

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]

    __repr__ = short_repr


@loader(*(f"mnist/{part}-{kind}-ubyte[.gz]" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")))
def load_mnist(paths: list[Path]) -> Mnist:
    """Load MNIST from the four idx files in ``mnist`` in the data home.

    They are ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte`` and
    ``t10k-labels-idx1-ubyte``, each optionally with ``.gz`` at the end.

    Returns
    -------
    Mnist
        60 000 training images and 10 000 test images.
    """
    return Mnist(*_read_digits(*paths[:2]), *_read_digits(*paths[2:]))


def _read_digits(image_file: Path, label_file: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images and labels of one part."""
    images, labels = read_idx(image_file), read_idx(label_file)
    if len(images) == 0 or images.shape[1:] != (SIDE, SIDE):
        raise _wrong_array(image_file, images, f"(n, {SIDE}, {SIDE})")
    for path, array, shape in ((image_file, images, images.shape), (label_file, labels, (len(images),))):
        if array.dtype != np.uint8 or array.shape != shape:
            raise _wrong_array(path, array, str(shape))
    digits = labels.astype(np.int64)
    check_range(label_file, "labels", digits, 9)
    return images, digits


def _wrong_array(path: Path, array: NDArray[Any], shape: str) -> FormatError:
    return FormatError(path, Description(f"{array.dtype} of shape {array.shape}"), f"uint8 of shape {shape}")


@dataclass(frozen=True, eq=False)
class OcrLetters:
    """Handwritten words, each a sequence of binary images of its letters.

    Parameters
    ----------
    X : list of arrays of shape (n_letters, 128)
        The 16 x 8 pixels of the letters of each word, views of one array.
    Y : list of arrays of shape (n_letters,)
        The letters of each word, 0 for a to 25 for z, views of one array.
    folds : array of shape (n_words,)
        The fold of each word.
    """

    X: list[NDArray[np.float64]]
    Y: list[NDArray[np.int64]]
    folds: NDArray[np.int64]

    __repr__ = short_repr


@loader("ocr_letters/letters.npz")
def load_ocr_letters(paths: list[Path]) -> OcrLetters:
    """Load the handwritten words from ``ocr_letters/letters.npz`` in the data home.

    The file has the arrays ``pixels`` (n, 128), ``labels`` (n,), ``lengths`` (n_words,) and ``folds`` (n_words,) of
    integers; the letters of a word are consecutive rows.

    Returns
    -------
    OcrLetters
        The words.
    """
    (path,) = paths
    pixels, labels, lengths, folds = read_integers(path, _WORDS, ", ".join(_WORDS)).values()
    if pixels.shape != (len(labels), N_PIXELS):
        got = Description(f"shape {pixels.shape}")
        raise FormatError(path, got, f"pixels of shape {(len(labels), N_PIXELS)}, one row per label")
    if len(lengths) == 0 or lengths.min() < 1 or lengths.max() > len(labels) or lengths.sum() != len(labels):
        raise FormatError(path, lengths, f"positive lengths with the sum {len(labels)}, the number of letters")
    if len(folds) != len(lengths):
        raise FormatError(path, Description(f"{len(folds)}"), f"{len(lengths)} folds, one per word")
    for name, values, top in (("pixels", pixels, 1), ("labels", labels, N_LETTERS - 1), ("folds", folds, 127)):
        check_range(path, name, values, top)
    ends = np.cumsum(lengths)[:-1]
    return OcrLetters(np.split(pixels.astype(np.float64), ends), np.split(labels, ends), folds)


class _Lazy(Sequence[NDArray[Any]]):
    """Images that are decoded on access."""

    def __init__(self, read: Callable[[Any], NDArray[Any]], places: Sequence[Any]) -> None:
        self._read, self._places = read, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, k):  # type: ignore[no-untyped-def]
        return _Lazy(self._read, self._places[k]) if isinstance(k, slice) else self._read(self._places[k])

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return map(self._read, self._places)


@dataclass(frozen=True, eq=False)
class Msrc:
    """Photographs with one class per pixel.

    Parameters
    ----------
    names : list of str
        Names of the photographs such as 7_12_s; the number before the first underscore is the series.
    images : sequence of uint8 arrays of shape (height, width, 3)
        The photographs, decoded on access.
    labels : sequence of int64 arrays of shape (height, width)
        The class of each pixel, 0 for void; decoded on access.
    classes : list of str
        The names of the classes, void first.
    """

    names: list[str]
    images: Sequence[NDArray[np.generic]]
    labels: Sequence[NDArray[np.generic]]
    classes: list[str]

    __repr__ = short_repr


@loader("msrc_v2/images_jpg.zip", "msrc_v2/labels_png.zip", "msrc_v2/classes.txt")
def load_msrc(paths: list[Path]) -> Msrc:
    """Load MSRC version 2 from ``images_jpg.zip``, ``labels_png.zip`` and ``classes.txt`` in ``msrc_v2``.

    Returns
    -------
    Msrc
        The photographs, whose pixels are read on access.
    """
    images, labels = map(ImageFiles, paths[:2])
    classes = _read_classes(Source.open(paths[2]))
    for one, other in ((images, labels), (labels, images)):
        missing = [name for name in one.names if name not in other]
        if missing:
            raise FormatError(other.path, Description("none"), f"an image {missing[0]} as in {one.path}")

    def read_labels(name: str) -> NDArray[np.int64]:
        found = labels.labels(name, colors=False)
        if found.max() >= len(classes):
            raise FormatError(labels.file(name), found.max(), f"labels of at most {len(classes) - 1}, the last class")
        return found

    return Msrc(images.names, _Lazy(images.image, images.names), _Lazy(read_labels, labels.names), classes)


def _read_classes(source: Source) -> list[str]:
    classes: list[str] = []
    for parts in map(str.split, source.texts()):
        if parts and (len(parts) != 2 or parts[0] != str(len(classes))):
            source.fail(" ".join(parts), f"{len(classes)} and the name of this class")
        classes += parts[1:]
    if len(classes) < 2:
        raise FormatError(source.name, Description(f"{len(classes)} classes"), "void and at least one other class")
    return classes


@dataclass(frozen=True, eq=False)
class Photographs:
    """Photographs of animals of one class each.

    Parameters
    ----------
    names : list of str
        Names of the n photographs.
    images : sequence of n uint8 arrays of shape (height, width, 3)
        The photographs, decoded on access.
    labels : list of str
        The class of each photograph.
    boxes : list of n float64 arrays of shape (k, 4)
        x0, y0, x1, y1 of the animals in each, right and bottom exclusive, the largest first.
    """

    names: list[str]
    images: Sequence[NDArray[np.uint8]]
    labels: list[str]
    boxes: list[Boxes]

    __repr__ = short_repr


class _Annotation(msgspec.Struct):
    """A photograph in boxes.json."""

    file: str
    cls: str
    size: tuple[int, int]
    boxes: list[tuple[float, float, float, float]]


@loader("mammals_boxes/boxes.json", "mammals_boxes/images_max400.zip")
def load_mammals(paths: list[Path], several: bool = False) -> Photographs:
    """Load photographs of kangaroos and raccoons from ``boxes.json`` and ``images_max400.zip`` in ``mammals_boxes``.

    Parameters
    ----------
    several : bool, default=False
        Whether to include photographs of several animals.

    Returns
    -------
    Photographs
        The photographs in the order of the file. Boxes are clipped to the image.
    """
    path, files = paths[0], ImageFiles(paths[1])
    try:
        annotations = msgspec.json.decode(path.read_bytes(), type=list[_Annotation])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        expected = "a list of photographs with file, cls, size and boxes"
        raise FormatError(path, Description(str(error).replace("`", "")), expected) from error
    kept = [item for item in annotations if several or len(item.boxes) == 1]
    if not kept:
        raise FormatError(path, Description("none"), "photographs of one animal")
    names = [os.path.splitext(item.file)[0] for item in kept]
    for name in names:
        if name not in files:
            raise FormatError(files.path, Description("none"), f"an image {name} as in {path}")
    boxes = [_inside(item, path) for item in kept]
    return Photographs(names, _Lazy(files.image, names), [item.cls for item in kept], boxes)


def _inside(item: _Annotation, path: Path) -> Boxes:
    """Return the boxes of a photograph, clipped to its size, the largest first."""
    try:
        return _largest_first(check_boxes(np.clip(item.boxes or np.zeros((0, 4)), 0.0, 2 * item.size), item.file))
    except InputError as error:
        raise FormatError(path, item.boxes, f"boxes within the image {item.file}") from error


def _largest_first(boxes: Boxes) -> Boxes:
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return boxes[np.argsort(-areas, kind="stable")]


class _Object(msgspec.Struct):
    """A photograph of one object in boxes.json or actions.json; further fields are ignored."""

    file: str
    label: str
    size: tuple[int, int]
    box: tuple[float, float, float, float]

    def boxes(self, path: Path) -> Boxes:
        """Return the box, clipped to the photograph."""
        try:
            return check_boxes(np.clip([self.box], 0.0, 2 * self.size), self.file)
        except InputError as error:
            raise FormatError(path, self.box, f"a box within the image {self.file}") from error


class _Objects(msgspec.Struct):
    images: list[_Object]


def _photographs_of_objects(paths: list[Path], classes: Sequence[str] | None = None) -> Photographs:
    """Return photographs of one object each from a file of boxes and an archive."""
    path, packed = paths
    try:
        items = msgspec.json.decode(path.read_bytes(), type=_Objects).images
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        expected = "images with file, label, size and box"
        raise FormatError(path, Description(str(error).replace("`", "")), expected) from error
    known = sorted({item.label for item in items})
    wanted = known if classes is None else listed(classes, "classes")
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise InputError("classes", classes, f"some of {', '.join(known)}")
    kept = [item for item in items if item.label in wanted]
    names = [item.file for item in kept]
    chosen = set(names)
    contents = read_archive(packed, chosen.__contains__, f"the photographs of {path}")
    missing = sorted(chosen - set(contents))
    if missing:
        raise FormatError(packed, Description("none"), f"an image {missing[0]} as in {path}")
    images = _Lazy(partial(_parse_member, contents), names)
    return Photographs(names, images, [item.label for item in kept], [item.boxes(path) for item in kept])


def _parse_member(contents: dict[str, bytes], name: str) -> NDArray[np.uint8]:
    return parse_image(contents[name], name)


@loader("voc2012_mammals/boxes.json", "voc2012_mammals/images.zip")
def load_voc_mammals(paths: list[Path]) -> Photographs:
    """Load photographs of one mammal of PASCAL VOC 2012, ``voc2012_mammals/boxes.json`` and ``images.zip``.

    Returns
    -------
    Photographs
        300 photographs of a cat, cow, dog, horse or sheep, 60 each.
    """
    return _photographs_of_objects(paths)


@loader("caltech_animals/boxes.json", "caltech_animals/images.zip")
def load_caltech_animals(paths: list[Path], classes: Sequence[str] | None = None) -> Photographs:
    """Load photographs of animals of Caltech 101, ``caltech_animals/boxes.json`` and ``images.zip`` in the data home.

    Parameters
    ----------
    classes : sequence of str, optional
        The animals to load, all 12 by default.

    Returns
    -------
    Photographs
        Up to 687 photographs of one animal each, most of them large in the photograph.
    """
    return _photographs_of_objects(paths, classes)


@loader("voc2012_actions/actions.json", "voc2012_actions/images.zip")
def load_voc_actions(paths: list[Path]) -> Photographs:
    """Load photographs of one person in action of PASCAL VOC 2012, ``voc2012_actions/actions.json`` and ``images.zip``.

    Returns
    -------
    Photographs
        784 photographs; the classes are 10 actions, the box is that of the person.
    """
    return _photographs_of_objects(paths)


def load_msrc_animals(data_home: Home = None) -> Photographs:
    """Load the photographs of MSRC version 2 that show birds, cats, cows, dogs or sheep, but only one of these classes.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA``.

    Returns
    -------
    Photographs
        The photographs in the order of their names. Each connected region of the pixels of the class is an animal if it
        has at least a twentieth of them; its box is the extent of the region. Overlapping animals are one region.

    Raises
    ------
    InputError
        If there is no data home.
    FormatError
        If a file is missing or damaged, or files do not match; also when a damaged photograph is accessed.
    """
    data = load_msrc(data_home)
    missing = [animal for animal in ANIMALS if animal not in data.classes]
    if missing:
        raise FormatError("classes.txt", Description(f"no {missing[0]}"), f"the classes {', '.join(ANIMALS)}")
    numbers = {data.classes.index(animal): animal for animal in ANIMALS}
    places, labels, boxes = [], [], []
    for place, pixels in enumerate(data.labels):
        present = [number for number in np.unique(pixels).tolist() if number in numbers]
        if len(present) == 1:
            places.append(place)
            labels.append(numbers[present[0]])
            boxes.append(_region_boxes(pixels == present[0]))
    if not places:
        raise FormatError("MSRC", Description("none"), "photographs of animals of one class")
    names = [data.names[place] for place in places]
    return Photographs(names, _Lazy(data.images.__getitem__, places), labels, boxes)


def _region_boxes(mask: NDArray[np.bool_]) -> Boxes:
    """Return the extents of the connected regions of a mask that are not relatively small."""
    regions, n_regions = ndimage.label(mask, np.ones((3, 3)))
    shares = np.bincount(regions.ravel(), minlength=n_regions + 1)[1:] / mask.sum()
    extents = [
        (across.start, down.start, across.stop, down.stop)
        for (down, across), share in zip(ndimage.find_objects(regions), shares, strict=True)
        if share >= min(SMALLEST_REGION, shares.max())
    ]
    return _largest_first(np.array(extents, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Snakes:
    """Grids with one snake of ten cells each, whose colors indicate the direction to the next cell.

    Parameters
    ----------
    X_train, X_test : list of uint8 arrays of shape (height, width, 3)
        The colors of the cells; blue is the background.
    Y_train, Y_test : list of int64 arrays of shape (height, width)
        The labels: 0 for the background, 1 to 10 from one end of the snake to the other.
    """

    X_train: list[NDArray[np.uint8]]
    Y_train: list[NDArray[np.int64]]
    X_test: list[NDArray[np.uint8]]
    Y_test: list[NDArray[np.int64]]

    __repr__ = short_repr


@loader("snakes/snakes.npz")
def load_snakes(paths: list[Path]) -> Snakes:
    """Load the snakes from ``snakes/snakes.npz`` in the data home.

    The file has, for train and test, the arrays ``_shapes`` (n, 2) of the grids, ``_pixels`` (cells of all grids, 3),
    ``_label_shapes`` (n, 2) and ``_labels`` (all labels). Grids may be larger than their labels by the same number of
    cells on all sides; this border is removed.

    Returns
    -------
    Snakes
        200 training grids and 100 test grids.
    """
    (path,) = paths
    dimensions = {f"{part}_{name}": wanted for part in ("train", "test") for name, wanted in _GRIDS.items()}
    arrays = read_integers(path, dimensions, f"{', '.join(_GRIDS)} of train and test")
    return Snakes(*_cut(path, arrays, "train"), *_cut(path, arrays, "test"))


def _cut(
    path: Path, arrays: dict[str, NDArray[np.int64]], part: str
) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.int64]]]:
    """Return the grids and labels of one part."""
    shapes, pixels, label_shapes, labels = (arrays[f"{part}_{name}"] for name in _GRIDS)
    for name, sizes, cells in (("shapes", shapes, pixels), ("label_shapes", label_shapes, labels)):
        if sizes.shape[1] != 2 or len(sizes) == 0 or sizes.min() < 1 or sizes.max() > len(cells):
            raise FormatError(path, sizes, f"heights and widths in {part}_{name}")
        if sizes.prod(axis=1).sum() != len(cells):
            got = Description(f"{sizes.prod(axis=1).sum()}")
            raise FormatError(path, got, f"{len(cells)} cells in {part}_{name}")
    border = shapes - label_shapes if shapes.shape == label_shapes.shape else np.array([[-1, 0]])
    if (border < 0).any() or (border % 2).any():
        expected = f"{part}_shapes equal to {part}_label_shapes, or larger by the same border on all sides"
        raise FormatError(path, shapes, expected)
    for name, values, top in (("pixels", pixels, 255), ("labels", labels, N_SNAKE_LABELS - 1)):
        check_range(path, f"{part}_{name}", values, top)
    if pixels.shape[1] != 3:
        raise FormatError(path, Description(f"{pixels.shape[1]}"), f"3 channels of {part}_pixels")
    grids = np.split(pixels.astype(np.uint8), np.cumsum(shapes.prod(axis=1))[:-1])
    truths = np.split(labels, np.cumsum(label_shapes.prod(axis=1))[:-1])
    X = [
        grid.reshape(height, width, 3)[top // 2 : height - top // 2, left // 2 : width - left // 2]
        for grid, (height, width), (top, left) in zip(grids, shapes.tolist(), border.tolist(), strict=True)
    ]
    return X, [truth.reshape(shape) for truth, shape in zip(truths, label_shapes.tolist(), strict=True)]
