"""Boxes in Pascal VOC XML: one file per image.

Pixels are numbered from 1 and the right and bottom ones belong to the box, so that x0 = xmin − 1 and x1 = xmax. XML
with a document type, and thus with entities, is rejected.
"""

import os
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np

from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.annotated import ImageAnnotation, check_distinct
from latentstruct.io.text import NUMBER, FilePath, fail, path_text, read_limited

VOC_SIDES = ("xmin", "ymin", "xmax", "ymax")
MAX_XML_BYTES, MAX_DEPTH = 2**24, 40


def read_voc(path: FilePath) -> list[ImageAnnotation]:
    """Read images, their objects and boxes from Pascal VOC XML.

    Parameters
    ----------
    path : path
        One file, or a folder of them; subfolders are ignored.

    Returns
    -------
    list of ImageAnnotation
        One per file, sorted by the names of the files. The image is the one that the file names, else one with the
        name of the file.
    """
    text = path_text(path)
    if not os.path.isdir(text):
        return [_VocReader(text).read()]
    files = sorted(entry.path for entry in os.scandir(text) if entry.name.lower().endswith(".xml") and entry.is_file())
    if not files:
        raise FormatError(text, Description("no XML files"), "Pascal VOC annotations, or a .csv or .json file")
    return check_distinct([_VocReader(file).read() for file in files])


class _VocReader:
    """Reads one VOC file; elements that VOC does not define are ignored."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.open: list[str] = []
        self.text: list[str] = []
        self.image, self.size = "", {"width": "", "height": ""}
        self.objects: list[dict[str, str]] = []
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.CharacterDataHandler = self.text.append
        self.parser.EndElementHandler = self._end

    def read(self) -> ImageAnnotation:
        """Return the annotation."""
        raw = read_limited(self.file, MAX_XML_BYTES)
        try:
            self.parser.Parse(raw, True)
        except (expat.ExpatError, ValueError, LookupError) as error:
            if isinstance(error, InputError):
                raise
            got, line = Description(str(error)), self.parser.CurrentLineNumber
            raise FormatError(self.file, got, "a Pascal VOC annotation", line=line) from error
        image = self.image or Path(self.file.removesuffix(".gz")).stem
        labels = tuple(one["name"] for one in self.objects)
        boxes = np.array([self._box(one) for one in self.objects], dtype=np.float64).reshape(-1, 4)
        boxes[:, :2] -= 1.0
        return ImageAnnotation(image, tuple(dict.fromkeys(labels)), boxes, labels, self._size(), self.file)

    def _fail(self, got: object, expected: str, line: int | None = None) -> NoReturn:
        fail(self.file, self.parser.CurrentLineNumber if line is None else line, got, expected)

    def _refuse(self, *_: Any) -> None:
        self._fail(Description("<!DOCTYPE …>"), "XML without a document type")

    def _start(self, tag: str, _: dict[str, str]) -> None:
        if not self.open and tag != "annotation":
            self._fail(Description(f"<{tag}>"), "<annotation> as in Pascal VOC")
        if len(self.open) >= MAX_DEPTH:
            self._fail(Description("deeper ones"), f"elements nested at most {MAX_DEPTH} deep")
        self.open.append(tag)
        if self.open[1:] == ["object"]:
            self.objects.append({"line": str(self.parser.CurrentLineNumber)})
        self.text.clear()

    def _end(self, tag: str) -> None:
        value, place = "".join(self.text).strip(), self.open[1:]
        self.text.clear()
        self.open.pop()
        match place:
            case ["filename"]:
                self.image = value
            case ["size", "width" | "height"]:
                self.size[tag] = value
            case ["object", "name"] | ["object", "bndbox", "xmin" | "ymin" | "xmax" | "ymax"]:
                self.objects[-1][tag] = value
            case ["object"] if not self.objects[-1].get("name"):
                self._fail(Description("none"), "a <name> with the class of the object")

    def _number(self, text: str, what: str, line: int) -> float:
        if not NUMBER.fullmatch(text) or not isfinite(float(text)):
            self._fail(text, f"a finite number as {what}", line)
        return float(text)

    def _box(self, one: dict[str, str]) -> list[float]:
        line = int(one["line"])
        missing = next((side for side in VOC_SIDES if side not in one), None)
        if missing is not None:
            self._fail(Description(f"no {missing}"), f"a <bndbox> with {', '.join(VOC_SIDES)}", line)
        return [self._number(one[side], side, line) for side in VOC_SIDES]

    def _size(self) -> tuple[int, int] | None:
        """Return width and height; None if they are missing or 0, as many tools write."""
        width, height = (self._number(self.size[side] or "0", side, 1) for side in ("width", "height"))
        return (int(width), int(height)) if width > 0 and height > 0 else None
