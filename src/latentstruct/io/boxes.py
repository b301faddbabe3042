"""Labels of images and boxes in them: a table, COCO JSON, or Pascal VOC XML.

Inside the library a box is x0, y0, x1, y1 in pixels, where x0 and y0 belong to it and x1 and y1 do not.

- The table has the columns ``file`` and ``label``, separated by commas (tabs if the name ends in ``.tsv``), and
  ``x0``, ``y0``, ``x1``, ``y1`` if there are boxes. An image with several boxes has one row per box; the four cells
  are empty where no box is known.
- COCO JSON has ``images``, ``categories`` and ``annotations`` with ``bbox`` = x0, y0, width, height. Annotations of
  crowds are ignored.
- VOC XML has one file per image, see `latentstruct.io.voc`.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec
import numpy as np

from latentstruct.core.formatting import repr_short
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.annotated import IMAGE_SUFFIX, ImageAnnotation, check_distinct, fit_boxes, image_name
from latentstruct.io.delimited import SEPARATORS, Table
from latentstruct.io.text import (
    BOM,
    NUMBER,
    STANDARD_STREAM,
    FilePath,
    Source,
    extension,
    path_text,
    read_limited,
    write_text,
)
from latentstruct.io.voc import read_voc

__all__ = [
    "ImageAnnotation",
    "fit_boxes",
    "image_name",
    "parse_label_table",
    "read_annotations",
    "read_coco",
    "read_label_table",
    "read_voc",
    "write_coco",
]

SIDES = ("x0", "y0", "x1", "y1")
COLUMNS_SHOWN = 6
MAX_JSON_BYTES = 2**30


def read_annotations(path: FilePath) -> list[ImageAnnotation]:
    """Read labels of images, and boxes if there are any; the reader is chosen by name and content.

    Parameters
    ----------
    path : path
        A folder of VOC XML files or one of these, a COCO JSON file, or a table. ``.gz`` may follow the name of a file.

    Returns
    -------
    list of ImageAnnotation
        One per image, in the order of the file or of the names of the XML files.
    """
    text = path_text(path)
    if os.path.isdir(text):
        return read_voc(text)
    by_extension: dict[str, Callable[[FilePath], list[ImageAnnotation]]] = {
        ".xml": read_voc,
        ".json": read_coco,
        ".csv": read_label_table,
        ".tsv": read_label_table,
    }
    kind = extension(text)
    if kind in (".zip", ".tar"):
        raise InputError("path", path, "a folder of VOC XML, COCO JSON or a table", "Unpack archives first.")
    if kind in by_extension or text == STANDARD_STREAM:
        return by_extension.get(kind, read_label_table)(text)
    start = read_limited(text, 2**12, whole=False).removeprefix(BOM).lstrip()[:1]
    return {b"{": read_coco, b"[": read_coco, b"<": read_voc}.get(start, read_label_table)(text)


# Tables


def read_label_table(path: FilePath) -> list[ImageAnnotation]:
    """Read a table with the columns file and label, and x0, y0, x1, y1 if there are boxes.

    Parameters
    ----------
    path : path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.

    Returns
    -------
    list of ImageAnnotation
        One per image, in the order of first rows.
    """
    return _annotations(Table.open(path, skip_empty=True))


def parse_label_table(raw: bytes, name: str) -> list[ImageAnnotation]:
    """Read such a table with commas from the content of a file; messages use `name` as its name."""
    return _annotations(Table(Source.of(raw.removeprefix(BOM), name), ",", skip_empty=True))


def _check_header(table: Table) -> None:
    """Check the names of the columns, and convert them to lower case."""
    first, source = table.header[0], table.source
    header = table.header = [column.lower() for column in table.header]
    other = next((sign for sign in SEPARATORS if sign != table.delimiter and sign in header[0]), None)
    if len(header) == 1 and other is not None:
        source.fail(Description(SEPARATORS[other]), f"{SEPARATORS[table.delimiter]} between the cells")
    expected = f"the columns file and label, and {', '.join(SIDES)} if there are boxes"
    other_columns = [column for column in header if column not in ("file", "label", *SIDES)]
    if other_columns and any(IMAGE_SUFFIX.fullmatch(os.path.splitext(cell)[1]) for cell in header):
        source.fail(first, f"a header with {expected}")
    if other_columns:
        source.fail(Description(", ".join(map(repr_short, other_columns[:COLUMNS_SHOWN]))), expected)
    table.check_names()
    for column in ("file", "label", *(SIDES if set(SIDES) & set(header) else ())):
        if column not in header:
            source.fail(Description(f"no column {column}"), expected)


def _annotations(table: Table) -> list[ImageAnnotation]:
    """Return the annotation of each image from the rows of a table."""
    source = table.source
    if table.header:
        _check_header(table)
    lines: dict[str, dict[tuple[str, tuple[float, ...] | None], int]] = {}
    for cells in table.rows:
        row = dict(zip(table.header, map(str.strip, cells), strict=True))
        for what in ("file", "label"):
            if not row[what]:
                table.fail_empty(what)
        file, box = row["file"], _box(row, source)
        earlier = lines.setdefault(file, {}).setdefault((row["label"], box), source.line)
        if earlier != source.line:
            source.fail(Description(f"the row of line {earlier} again"), "distinct rows")
    if not lines:
        source.fail(Description("no label"), f"the header file{table.delimiter}label and a row per image")
    annotations = []
    for file, rows in lines.items():
        boxes = [(label, box) for label, box in rows if box is not None]
        labels = tuple(dict.fromkeys(label for label, _ in rows))
        line = next(iter(rows.values()))
        values = np.array([box for _, box in boxes], dtype=np.float64).reshape(-1, 4)
        box_labels = tuple(label for label, _ in boxes)
        annotations.append(ImageAnnotation(file, labels, values, box_labels, None, source.name, line))
    return check_distinct(annotations)


def _box(row: Mapping[str, str], source: Source) -> tuple[float, ...] | None:
    """Return the box of a row, None if its cells are empty."""
    texts = [row.get(side, "") for side in SIDES]
    if not any(texts):
        return None
    for side, text in zip(SIDES, texts, strict=True):
        if not NUMBER.fullmatch(text) or not isfinite(float(text)):
            source.fail(text, f"a finite number as {side}, or four empty cells where no box is known")
    return tuple(map(float, texts))


# COCO


class CocoImage(msgspec.Struct):
    """An image of a COCO file."""

    id: int | str
    file_name: str
    width: int = 0
    height: int = 0


class CocoCategory(msgspec.Struct):
    """A class of a COCO file."""

    id: int
    name: str


class CocoAnnotation(msgspec.Struct, omit_defaults=True):
    """An object of a COCO file; the score is that of a prediction and is not used."""

    image_id: int | str
    category_id: int
    bbox: tuple[float, float, float, float] | None = None
    iscrowd: int | bool = 0
    id: int | str | None = None
    area: float | None = None
    score: float | None = None


class CocoFile(msgspec.Struct):
    """A COCO file."""

    images: list[CocoImage]
    categories: list[CocoCategory]
    annotations: list[CocoAnnotation]


def read_coco(path: FilePath) -> list[ImageAnnotation]:
    """Read images, their objects and boxes from COCO JSON.

    Parameters
    ----------
    path : path
        The file; decompressed if its name ends in ``.gz``.

    Returns
    -------
    list of ImageAnnotation
        One per image, in the order of the file.
    """
    name = path_text(path)
    raw = read_limited(name, MAX_JSON_BYTES).removeprefix(BOM)
    try:
        file = msgspec.json.decode(raw, type=CocoFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        got = Description(repr_short(str(error).replace("`", ""), 160))
        expected = "COCO JSON, an object with the lists images, categories and annotations"
        raise FormatError(name, got, expected) from error
    if not file.images:
        raise FormatError(name, Description("none"), "at least one image in the list images")
    categories = _by_id(file.categories, name, "categories")
    images = _by_id(file.images, name, "images")
    objects: dict[Any, list[CocoAnnotation]] = defaultdict(list)
    for k, one in enumerate(file.annotations):
        for known, number, field in ((images, one.image_id, "image_id"), (categories, one.category_id, "category_id")):
            if number not in known:
                raise FormatError(name, number, f"an id in the file as {field} of annotations[{k}]")
        if not one.iscrowd:
            objects[one.image_id].append(one)
    return check_distinct([_from_coco(image, objects[image.id], categories, name) for image in file.images])


def _by_id(records: Sequence[Any], name: str, what: str) -> dict[Any, Any]:
    found = {record.id: record for record in records}
    if len(found) < len(records):
        repeated = next(one.id for one in records if found[one.id] is not one)
        raise FormatError(name, Description(f"{repr_short(repeated)} twice"), f"distinct ids of {what}")
    return found


def _from_coco(
    image: CocoImage, objects: Sequence[CocoAnnotation], categories: dict[Any, Any], name: str
) -> ImageAnnotation:
    labels = [categories[one.category_id].name.strip() for one in objects]
    if not all(labels) or not image.file_name.strip():
        got = Description(f"an empty name at image {repr_short(image.id)}")
        raise FormatError(name, got, "names of images and categories")
    boxed = [(label, one.bbox) for label, one in zip(labels, objects, strict=True) if one.bbox is not None]
    boxes = np.array([box for _, box in boxed], dtype=np.float64).reshape(-1, 4)
    with np.errstate(over="ignore"):
        boxes[:, 2:] += boxes[:, :2]
    size = (image.width, image.height) if image.width > 0 and image.height > 0 else None
    box_labels = tuple(label for label, _ in boxed)
    return ImageAnnotation(image.file_name, tuple(dict.fromkeys(labels)), boxes, box_labels, size, name)


def write_coco(path: FilePath, annotations: Sequence[ImageAnnotation], scores: Sequence[float] | None = None) -> None:
    """Write boxes as COCO JSON, which `read_coco` reads back.

    Parameters
    ----------
    path : path
        The file.
    annotations : sequence of ImageAnnotation
        Images with boxes. A label without a box becomes an annotation without one.
    scores : sequence of float, optional
        The score of each box, image by image.
    """
    names = sorted({label for one in annotations for label in one.labels})
    categories = {label: number for number, label in enumerate(names, 1)}
    left: Iterator[float] = iter(() if scores is None else scores)
    images: list[CocoImage] = []
    objects: list[CocoAnnotation] = []
    for number, one in enumerate(annotations, 1):
        width, height = one.size or (0, 0)
        images.append(CocoImage(number, one.file, width, height))
        for label, box in zip(one.box_labels, one.boxes.tolist(), strict=True):
            size = (box[2] - box[0], box[3] - box[1])
            at = CocoAnnotation(number, categories[label], (box[0], box[1], *size), id=len(objects) + 1)
            at.area, at.score = size[0] * size[1], next(left, None)
            objects.append(at)
        for label in one.labels:
            if label not in one.box_labels:
                objects.append(CocoAnnotation(number, categories[label], id=len(objects) + 1))
    listed = [CocoCategory(number, label) for label, number in categories.items()]
    lists: dict[str, Sequence[Any]] = {"images": images, "categories": listed, "annotations": objects}
    write_text(path, record_lines(lists))


def record_lines(lists: Mapping[str, Sequence[Any]]) -> str:
    """Return lists of records by name as JSON, one record per line."""
    parts = []
    for name, records in lists.items():
        lines = ",\n ".join(msgspec.json.encode(record).decode() for record in records)
        parts.append(f'"{name}": [\n {lines}\n]' if lines else f'"{name}": []')
    return "{" + ", ".join(parts) + "}\n"
