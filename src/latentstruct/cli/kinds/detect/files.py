"""Photographs with one label each, which are all checked before training, prediction or evaluation."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from latentstruct.cli.common import NOTHING, unknown_label
from latentstruct.core.formatting import counted
from latentstruct.data.images import ImageFiles
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.boxes import ImageAnnotation, fit_boxes, parse_label_table, read_annotations
from latentstruct.io.file_sources import FileSource
from latentstruct.io.npz import parse_arrays
from latentstruct.progress.display import say

PROBLEMS_SHOWN = 20
LABELS_SHOWN = 12
RARE = 5
"""A label may be a misspelling of one that is at least this many times as frequent."""
ALIKE = 0.8
"""Similarity of the two, as defined by `difflib`."""
TABLE = "labels.csv"
MAX_TABLE_BYTES = 2**28
MAX_GIVEN_BYTES = 2**31


@dataclass(frozen=True)
class Photographs:
    """Images that can be read: their names, labels, and true boxes, arrays (k, 4) that may be empty.

    Without labels, `labels` and `boxes` are empty. `n_left_out` counts what cannot be used. `source` is the file of the
    labels, `described` the candidates of the images with their features, if these have been computed.
    """

    files: ImageFiles
    names: list[str]
    labels: list[str]
    boxes: list[Any]
    n_left_out: int = 0
    source: str = ""
    described: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def images(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the pixels of some images, by default of all."""
        for name in self.names if names is None else names:
            yield self.files.image(name)

    def describe(self, features: Any, name: str, image: Any) -> Any:
        """Return the candidates of an image and their features, those in NAME.npz beside it if they are given."""
        key = self.files.file(name)
        given = self.given(name) if features.n_given else {}
        return features.describe(image, given.get("boxes"), key, given.get("map", given.get("features")))

    def given(self, name: str) -> dict[str, Any]:
        """Return the arrays "boxes" and "features", or "map" and perhaps "boxes", beside an image."""
        found = self.files.beside(f"{name}.npz", MAX_GIVEN_BYTES)
        expected = "an archive of numpy.savez with the arrays boxes and features, or map"
        if found is None:
            raise FormatError(self.files.file(name), Description(f"no file {name}.npz beside it"), expected)
        path, raw = found
        try:
            arrays = parse_arrays(raw, ("boxes", "features", "map"))
        except Exception as error:
            # A damaged archive raises exceptions of many types.
            raise FormatError(path, Description(f"another file ({error})"), expected) from error
        shapes = {name: values.shape for name, values in arrays.items()}
        wanted = {"map": 3} if "map" in shapes else {"features": 2, "boxes": 2}
        fits = all(len(shapes.get(name, ())) == n and shapes[name][-1] for name, n in wanted.items())
        if not fits or {"map", "features"} <= shapes.keys():
            got = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
            raise FormatError(path, Description(got or "arrays of other names"), expected)
        return arrays

    def check_classes(self) -> None:
        """Raise unless there are at least two classes."""
        found = Counter(self.labels)
        if len(found) < 2:
            one = Description(f"{self.labels[0]!r} for all {len(self)} images")
            raise FormatError(self.source, one, "at least 2 labels", "Add images without the object.")

    def describe_labels(self) -> str:
        """Return the number of labels and of images of each, the rarest first."""
        counts = sorted(Counter(self.labels).items(), key=lambda one: (one[1], one[0]))
        shown = ", ".join(f"{label} {n}" for label, n in counts[:LABELS_SHOWN])
        return f"{len(counts)} labels: {shown}{', …' if len(counts) > LABELS_SHOWN else ''}"

    def warn_of_misspellings(self) -> None:
        """Warn of labels that differ in case only, or are rare and similar to a frequent one."""
        counts = Counter(self.labels)
        for label, n in sorted(counts.items()):
            others = {
                other.casefold(): other for other in counts if other != label and may_stand_for(counts, other, label)
            }
            near = get_close_matches(label.casefold(), others, 1, ALIKE)
            if near:
                other = others[near[0]]
                say(
                    f"warning: {self.source} has the label {label!r} for {counted(n, 'image')} and {other!r} for "
                    f"{counts[other]}; is one of them misspelled?"
                )

    def check_known(self, known: Set[Any], allow_unknown: bool) -> None:
        """Raise if a label is not among those a model knows, unless that is allowed."""
        for name, label in zip(self.names, self.labels, strict=True):
            if label not in known and not allow_unknown:
                raise unknown_label(f"{self.source}, {self.files.file(name)}", label, known)


def may_stand_for(counts: Counter[str], frequent: str, rare: str) -> bool:
    """Return whether a label is so much more frequent than another that this may be a misspelling of it."""
    if frequent.casefold() == rare.casefold():
        return (counts[frequent], frequent) > (counts[rare], rare)
    return counts[frequent] >= RARE * counts[rare]


def open_labeled(images: str, labels: str | None, skip_bad: bool) -> Photographs:
    """Find images and their labels and read each image once.

    Parameters
    ----------
    images : str
        Folder or archive of images; - is an archive on standard input.
    labels : str or None
        Table, COCO JSON or folder of VOC XML; None for the file labels.csv among the images.
    skip_bad : bool
        Whether to leave out what cannot be used: images that are damaged, missing, or without exactly one label, and
        boxes outside their image.

    Returns
    -------
    Photographs
        Those that can be used.
    """
    source = FileSource(images)
    files = ImageFiles(source)
    table, annotations = read_table_within(source) if labels is None else (labels, read_annotations(labels))
    by_name = {one.name: one for one in annotations}
    problems = [missing_image(one, files) for one in by_name.values() if one.name not in files]
    problems += [files.why_unread(name) for name in files.unread if name not in by_name]
    found = Photographs(files, [], [], [], source=table)
    for name in files:
        try:
            if name not in by_name:
                raise FormatError(files.file(name), Description("none"), f"a label in {table}")
            label = by_name[name].label
            height, width = files.image(name).shape[:2]
            boxes = fit_boxes(by_name[name], width, height)
        except FormatError as error:
            problems.append(str(error))
        else:
            found.names.append(name)
            found.labels.append(label)
            found.boxes.append(boxes)
    return finalize(found, problems, skip_bad)


def read_table_within(source: FileSource) -> tuple[str, list[ImageAnnotation]]:
    """Read the labels among the images; return the name of their file, and its contents."""
    member = source.find(TABLE)
    if member is None:
        raise InputError("labels", NOTHING, f"given if `data` ({source.path}) has no {TABLE}")
    shown = source.shown(member)
    return shown, parse_label_table(source.read(member, MAX_TABLE_BYTES), shown)


def open_unlabeled(images: str, skip_bad: bool) -> Photographs:
    """Find images and read each once; list those of unknown types."""
    files = ImageFiles(images)
    if files.unread:
        more = f" (the first of {len(files.unread)} such files)" if len(files.unread) > 1 else ""
        say(f"left out: {files.why_unread(next(iter(files.unread)))}{more}")
    found, problems = Photographs(files, [], [], []), []
    for name in files:
        try:
            files.image(name)
        except FormatError as error:
            problems.append(str(error))
        else:
            found.names.append(name)
    return finalize(found, problems, skip_bad)


def missing_image(one: ImageAnnotation, files: ImageFiles) -> str:
    """Return the problem of a label whose image is missing or of an unknown type."""
    if one.name in files.unread:
        return f"{one.place}: {files.why_unread(one.name)}"
    return str(one.error(Description("none"), f"an image {one.file} in {files.path}"))


def finalize(found: Photographs, problems: Sequence[str], skip_bad: bool) -> Photographs:
    """Return the images that can be used, and list the others; raise if these may not be left out."""
    if not problems:
        return found
    for problem in problems[:PROBLEMS_SHOWN]:
        say(f"{'left out' if skip_bad else 'bad'}: {problem}")
    if len(problems) > PROBLEMS_SHOWN:
        say(f"… and {len(problems) - PROBLEMS_SHOWN} more")
    if not skip_bad:
        bad = Description(f"{len(problems)} that cannot be used, listed above, and {len(found)} that can")
        raise FormatError(found.files.path, bad, "images and labels", "Correct them, or use --skip-bad.")
    if not len(found):
        raise FormatError(found.files.path, Description("none"), "images that can be used")
    return replace(found, n_left_out=len(problems))
