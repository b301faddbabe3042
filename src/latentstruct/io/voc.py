"""Boxes in Pascal VOC XML: a file for each image.

Its pixels count from 1 and its right and bottom ones belong to the box, so that x0 = xmin − 1 and x1 = xmax. Nothing is
looked up elsewhere: XML with a document type, and thus with entities, is refused.
"""

import os
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np

from latentstruct.exceptions import FormatError, InputError
from latentstruct.io.annotated import ImageAnnotation, check_distinct
from latentstruct.io.text import NUMBER, FilePath, fail, path_text, read_limited, show

VOC_SIDES = ("xmin", "ymin", "xmax", "ymax")
MAX_XML_BYTES, MAX_DEPTH = 2**24, 40


def read_voc(path: FilePath) -> list[ImageAnnotation]:
    """Read images, their objects and boxes from Pascal VOC XML.

    Parameters
    ----------
    path : path
        One file, or a folder of them; folders within it are not looked into.

    Returns
    -------
    list of ImageAnnotation
        One for each file, sorted by the names of the files. The image is the one the file names, or else one with the
        name of the file.
    """
    text = path_text(path)
    if not os.path.isdir(text):
        return [_VocReader(text).read()]
    files = sorted(entry.path for entry in os.scandir(text) if entry.name.lower().endswith(".xml") and entry.is_file())
    if not files:
        raise FormatError(
            f"{text} has no XML files; expected a folder of Pascal VOC annotations, one file for each image: choose "
            "the folder that has them, or give a .csv or .json file"
        )
    return check_distinct([_VocReader(file).read() for file in files])


class _VocReader:
    """Reads one VOC file; only what stands where VOC has it is looked at."""

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
        """Return what the file says."""
        raw = read_limited(self.file, MAX_XML_BYTES)
        try:
            self.parser.Parse(raw, True)
        except (expat.ExpatError, ValueError, LookupError) as error:
            if isinstance(error, InputError):
                raise
            raise FormatError(
                f"{self.file}:{self.parser.CurrentLineNumber}: the XML cannot be read ({error}); expected a Pascal VOC "
                "annotation: correct it or export it again"
            ) from error
        image = self.image or Path(self.file.removesuffix(".gz")).stem
        labels = tuple(one["name"] for one in self.objects)
        boxes = np.array([self._box(one) for one in self.objects], dtype=np.float64).reshape(-1, 4)
        boxes[:, :2] -= 1.0
        return ImageAnnotation(image, tuple(dict.fromkeys(labels)), boxes, labels, self._size(), self.file)

    def _fail(self, problem: str, line: int | None = None) -> NoReturn:
        fail(self.file, self.parser.CurrentLineNumber if line is None else line, problem)

    def _refuse(self, *_: Any) -> None:
        self._fail("found a document type; expected none, as it can hide anything: remove the line <!DOCTYPE …>")

    def _start(self, tag: str, _: dict[str, str]) -> None:
        if not self.open and tag != "annotation":
            self._fail(f"the file begins with <{tag}>; expected <annotation> as in Pascal VOC: choose another file")
        if len(self.open) >= MAX_DEPTH:
            self._fail(f"elements are nested more than {MAX_DEPTH} deep; expected those of Pascal VOC: export it again")
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
                self._fail("an object has no name; expected <name> with its class: add it, or remove the object")

    def _number(self, text: str, what: str, line: int) -> float:
        if not NUMBER.fullmatch(text) or not isfinite(float(text)):
            self._fail(f"{what} is {show(text)}; expected a finite number: correct it", line)
        return float(text)

    def _box(self, one: dict[str, str]) -> list[float]:
        line = int(one["line"])
        missing = next((side for side in VOC_SIDES if side not in one), None)
        if missing is not None:
            self._fail(f"the object has no {missing}; expected <bndbox> with {', '.join(VOC_SIDES)}: add it", line)
        return [self._number(one[side], side, line) for side in VOC_SIDES]

    def _size(self) -> tuple[int, int] | None:
        """Return width and height, None where they are left out or 0, as many tools do."""
        width, height = (self._number(self.size[side] or "0", side, 1) for side in ("width", "height"))
        return (int(width), int(height)) if width > 0 and height > 0 else None
