"""Photographs with a class for each pixel: MSRC version 2."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentstruct.datasets.home import dataset_file
from latentstruct.exceptions import FormatError
from latentstruct.formats.text import decode_line, fail, numbered_lines, show
from latentstruct.images import ImageFiles
from latentstruct.short_repr import short_repr

__all__ = ["Msrc", "load_msrc"]

_IMAGES, _LABELS, _CLASSES = "msrc_v2/images_jpg.zip", "msrc_v2/labels_png.zip", "msrc_v2/classes.txt"


class _Lazy(Sequence[NDArray[np.generic]]):
    """Arrays that are decoded when they are asked for."""

    def __init__(self, files: ImageFiles, labels: bool, top: int = 255) -> None:
        self._files, self._labels, self._top = files, labels, top

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, k):  # type: ignore[no-untyped-def]
        if isinstance(k, slice):
            return [self[j] for j in range(*k.indices(len(self)))]
        name = self._files.names[k]
        if not self._labels:
            return self._files.image(name)
        labels = self._files.labels(name, colours=False)
        if labels.max() > self._top:
            raise FormatError(
                f"{self._files.file(name)} has the label {labels.max()}; expected at most {self._top}, the last of the "
                "classes: fetch the archive again"
            )
        return labels

    def __iter__(self) -> Iterator[NDArray[np.generic]]:
        return (self[k] for k in range(len(self)))


@dataclass(frozen=True, eq=False)
class Msrc:
    """Photographs with a class for each pixel.

    Parameters
    ----------
    names : list of str
        Names of the photographs such as 7_12_s; the number before the first underscore is that of its series.
    images : sequence of uint8 arrays of shape (height, width, 3)
        The photographs, decoded when they are asked for.
    labels : sequence of int64 arrays of shape (height, width)
        The number of the class of each pixel, 0 for void; decoded when they are asked for.
    classes : list of str
        The names of the classes, void first.
    """

    names: list[str]
    images: Sequence[NDArray[np.generic]]
    labels: Sequence[NDArray[np.generic]]
    classes: list[str]

    __repr__ = short_repr


def load_msrc(data_home: str | os.PathLike[str] | None = None) -> Msrc:
    """Load MSRC version 2 from ``images_jpg.zip``, ``labels_png.zip`` and ``classes.txt`` in ``msrc_v2``.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    Msrc
        The photographs, whose pixels are read when they are asked for.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If a file is damaged or they do not fit together, also when a damaged photograph is asked for.
    """
    images, labels = (ImageFiles(dataset_file(data_home, file)) for file in (_IMAGES, _LABELS))
    classes = _read_classes(str(dataset_file(data_home, _CLASSES)))
    for one, other in ((images, labels), (labels, images)):
        missing = [name for name in one.names if name not in other]
        if missing:
            raise FormatError(
                f"{one.path} has {show(missing[0])}, but {other.path} does not; expected the same names in both: "
                "fetch the archives again"
            )
    return Msrc(images.names, _Lazy(images, False), _Lazy(labels, True, len(classes) - 1), classes)


def _read_classes(name: str) -> list[str]:
    classes: list[str] = []
    for number, raw in numbered_lines(name):
        parts = decode_line(raw, name, number).split()
        if not parts:
            continue
        if len(parts) != 2 or parts[0] != str(len(classes)):
            fail(
                name,
                number,
                f"found {show(' '.join(parts))}; expected {len(classes)} and the name of this class: fetch the file "
                "again",
            )
        classes.append(parts[1])
    if len(classes) < 2:
        raise FormatError(f"{name} has {len(classes)} classes; expected void and at least one: fetch the file again")
    return classes
