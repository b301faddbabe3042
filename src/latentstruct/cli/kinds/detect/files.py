"""Photographs with a label each, checked as a whole before anything is trained, predicted or judged."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from latentstruct.cli.common import unknown_label
from latentstruct.data.images import ImageFiles
from latentstruct.exceptions import FormatError, InputError
from latentstruct.io.boxes import ImageAnnotation, fit_boxes, parse_label_table, read_annotations
from latentstruct.io.file_sources import FileSource
from latentstruct.progress.display import say

PROBLEMS_SHOWN = 20
LABELS_SHOWN = 12
RARE = 5
"""A label may be a misspelling of one that is so many times as frequent."""
ALIKE = 0.8
"""How alike the two must be, as `difflib` counts."""
TABLE = "labels.csv"
MAX_TABLE_BYTES = 2**28


@dataclass(frozen=True)
class Photographs:
    """Images that can be read: their names, labels, and true boxes, arrays (k, 4) that may be empty.

    Where there are no labels, `labels` and `boxes` are empty. `n_left_out` counts what could not be used. `told_in` is
    what messages call the file of the labels, `described` the candidates of the images with their features, where they
    have been found already.
    """

    files: ImageFiles
    names: list[str]
    labels: list[str]
    boxes: list[Any]
    n_left_out: int = 0
    told_in: str = ""
    described: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def images(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the pixels of some images, by default of all."""
        for name in self.names if names is None else names:
            yield self.files.image(name)

    def check_classes(self) -> None:
        """Raise unless there are classes to tell apart."""
        found = Counter(self.labels)
        if len(found) < 2:
            raise InputError(
                f"all {len(self)} images have the label {self.labels[0]!r} in {self.told_in}; expected at least 2 "
                "different labels: add images of what else may be seen, such as empty scenes"
            )

    def describe_labels(self) -> str:
        """Return how many labels there are and how many images have each, the rarest first."""
        counts = sorted(Counter(self.labels).items(), key=lambda one: (one[1], one[0]))
        shown = ", ".join(f"{label} {n}" for label, n in counts[:LABELS_SHOWN])
        return f"{len(counts)} labels: {shown}{', …' if len(counts) > LABELS_SHOWN else ''}"

    def tell_of_misspellings(self) -> None:
        """Tell of labels that differ in case only, or are rare and look much like a frequent one."""
        counts = Counter(self.labels)
        for label, n in sorted(counts.items()):
            others = {
                other.casefold(): other for other in counts if other != label and may_stand_for(counts, other, label)
            }
            near = get_close_matches(label.casefold(), others, 1, ALIKE)
            if near:
                other = others[near[0]]
                say(
                    f"{self.told_in}: {n} of the images {'has' if n == 1 else 'have'} the label {label!r} and "
                    f"{counts[other]} {other!r}; they are taken for different things: correct the label if they are not"
                )

    def check_known(self, known: Set[Any], allow_unknown: bool) -> None:
        """Raise if a label is not among those a model knows, unless that is allowed."""
        for name, label in zip(self.names, self.labels, strict=True):
            if label not in known and not allow_unknown:
                raise unknown_label(f"{self.told_in}: {self.files.file(name)}", label, known)


def may_stand_for(counts: Counter[str], frequent: str, rare: str) -> bool:
    """Tell whether one label is so much more frequent than another that this may be a misspelling of it."""
    if frequent.casefold() == rare.casefold():
        return (counts[frequent], frequent) > (counts[rare], rare)
    return counts[frequent] >= RARE * counts[rare]


def open_labelled(images: str, labels: str | None, skip_bad: bool) -> Photographs:
    """Find images and their labels and read each image once.

    Parameters
    ----------
    images : str
        Folder or archive of images; - is an archive on standard input.
    labels : str or None
        Table, COCO JSON or folder of VOC XML; None for the file labels.csv among the images.
    skip_bad : bool
        Whether to leave out what cannot be used: images that are damaged, missing or without label or with several,
        and boxes outside their image.

    Returns
    -------
    Photographs
        Those that can be used.
    """
    source = FileSource(images)
    files = ImageFiles(source)
    told_in, annotations = read_table_within(source) if labels is None else (labels, read_annotations(labels))
    told = {one.name: one for one in annotations}
    problems = [missing_image(one, files) for one in told.values() if one.name not in files]
    problems += [files.why_unread(name) for name in files.unread if name not in told]
    found = Photographs(files, [], [], [], told_in=told_in)
    for name in files:
        try:
            if name not in told:
                raise FormatError(f"{files.file(name)} has no label in {told_in}; expected one: add it")
            label = told[name].label
            height, width = files.image(name).shape[:2]
            boxes = fit_boxes(told[name], width, height)
        except FormatError as error:
            problems.append(str(error))
        else:
            found.names.append(name)
            found.labels.append(label)
            found.boxes.append(boxes)
    return settle(found, problems, skip_bad)


def read_table_within(source: FileSource) -> tuple[str, list[ImageAnnotation]]:
    """Read the labels that lie among the images; return what messages call their file, and what it says."""
    member = source.find(TABLE)
    if member is None:
        raise InputError(
            f"{source.path} does not hold {TABLE}, and LABELS is not given; expected one of both: add a table with "
            "the header file,label, or give the file of the labels as well"
        )
    shown = source.shown(member)
    return shown, parse_label_table(source.read(member, MAX_TABLE_BYTES), shown)


def open_unlabelled(images: str, skip_bad: bool) -> Photographs:
    """Find images and read each once, telling of those that are of types that are not read."""
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
    return settle(found, problems, skip_bad)


def missing_image(one: ImageAnnotation, files: ImageFiles) -> str:
    """Return what is wrong with the label of an image that is not there, or is of a type that is not read."""
    if one.name in files.unread:
        return f"{one.place}: {files.why_unread(one.name)}"
    return (
        f"{one.place}: there is no image {one.file} in {files.path}; expected one for each label: add the image, or "
        "remove its label"
    )


def settle(found: Photographs, problems: Sequence[str], skip_bad: bool) -> Photographs:
    """Return the images that can be used, having told of the others; raise if these may not be left out."""
    if not problems:
        return found
    if not skip_bad and len(problems) == 1:
        raise FormatError(f"{problems[0]}, or go on without it with --skip-bad")
    for problem in problems[:PROBLEMS_SHOWN]:
        say(f"{'left out' if skip_bad else 'bad'}: {problem}")
    if len(problems) > PROBLEMS_SHOWN:
        say(f"… and {len(problems) - PROBLEMS_SHOWN} more")
    if not skip_bad:
        raise FormatError(
            f"{len(problems)} images or labels of {found.files.path} cannot be used, as said above, and "
            f"{len(found)} images can: mend them, or go on without them with --skip-bad"
        )
    if not len(found):
        raise FormatError(f"{found.files.path} has no image that can be used; expected some: mend them")
    return replace(found, n_left_out=len(problems))
