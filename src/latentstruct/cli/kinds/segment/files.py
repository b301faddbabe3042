"""Images with label images: reading and checking them, predicting their pixels and judging these."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentstruct.cli.common import list_labels, unknown_label
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.segment.command import SegmentRecord
from latentstruct.data.images import MAX_LABELS, ImageFiles, label_code, label_name, parse_label_names
from latentstruct.exceptions import FormatError, InputError
from latentstruct.features.images import PatchFeatures, patch_labels, spread_patches
from latentstruct.io.file_sources import FileSource
from latentstruct.progress.display import Progress, show_percent
from latentstruct.tasks import grid_graph

AT_ONCE = 16
"""Images that are predicted together."""


def parse_unknown(text: str | None) -> int | None:
    """Return the number of unknown pixels, −1 for none, None if the label images decide."""
    if text is None:
        return None
    if text.strip().lower() == "none":
        return -1
    try:
        return label_code(text)
    except InputError:
        raise InputError(
            f"--unknown is {text!r}; expected a number from 0 to 255, a colour as '#000000', or none: correct it"
        ) from None


@dataclass(frozen=True)
class LabelledImages:
    """Images and their label images, of which `unknown` is a label that tells nothing; if `asked`, it must occur."""

    images: ImageFiles
    labels: ImageFiles
    colours: bool
    unknown: int
    asked: bool = False

    @classmethod
    def open(cls, images: str, labels: str | None, unknown: str | None) -> "LabelledImages":
        """Find the files; the first label image decides whether labels are numbers or colours."""
        asked = parse_unknown(unknown)
        files, truth = open_both(images, labels)
        colours = bool((truth.labels(truth.names[0]) >= MAX_LABELS).all())
        if asked is None:
            return cls(files, truth, colours, MAX_LABELS if colours else 0)
        if asked >= 0 and (asked >= MAX_LABELS) != colours:
            kinds = ("colours, not numbers" if colours else "numbers, not colours") + other_kind(truth, asked)
            raise InputError(f"--unknown is {unknown!r}, but the labels of {truth.path} are {kinds}, or none")
        return cls(files, truth, colours, asked, asked >= 0)

    @classmethod
    def open_as(cls, record: SegmentRecord, images: str, labels: str | None) -> "LabelledImages":
        """Find the files of images whose labels are to be read as those of a model."""
        return cls(*open_both(images, labels), record.colours, record.unknown)

    def names_beside(self) -> dict[int, str]:
        """Return what a file among the label images calls the labels, nothing if there is none."""
        found = self.labels.beside(NAMES, MAX_NAMES_BYTES)
        return {} if found is None else parse_label_names(found[1], found[0])

    def pair(self, name: str) -> tuple[Any, Any]:
        """Return an image and its labels."""
        image, labels = self.images.image(name), self.labels.labels(name, self.colours)
        if image.shape[:2] != labels.shape:
            height, width = image.shape[:2]
            raise FormatError(
                f"{self.labels.file(name)} has {labels.shape[1]} × {labels.shape[0]} pixels; expected {width} × "
                f"{height} as {self.images.file(name)}: export it in the size of the image"
            )
        return image, labels

    def pairs(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield name, image and labels of each."""
        for name in self.images:
            yield name, *self.pair(name)


IMAGES, LABELS, NAMES = "images", "labels", "names.txt"
"""Folders of images and of their label images where both lie in one, and the file of names among the latter."""
MAX_NAMES_BYTES = 2**20


def open_both(images: str, labels: str | None) -> tuple[ImageFiles, ImageFiles]:
    """Find images and label images, which lie beside them in the folder or archive if no other place is given."""
    source = FileSource(images)
    if labels is None:
        inner = source.within(LABELS)
        if inner is None or source.within(IMAGES) is None:
            raise InputError(
                f"{source.path} does not hold the folders {IMAGES} and {LABELS}, and LABELS is not given; expected one "
                f"of both: put images and label images into folders of these names, or give the place of the label "
                "images as well"
            )
        truth = ImageFiles(inner)
    else:
        truth = ImageFiles(labels)
    files = ImageFiles(images_of(source))
    check_names(files, truth)
    return files, truth


def open_images(images: str) -> ImageFiles:
    """Find images to be labelled; label images that lie beside them are not looked at."""
    return ImageFiles(images_of(FileSource(images)))


def images_of(source: FileSource) -> FileSource:
    """Return where the images of a folder or archive are: in one of its folders if another has label images."""
    inner = source.within(IMAGES)
    return source if inner is None or source.within(LABELS) is None else inner


def other_kind(labels: ImageFiles, asked: int) -> str:
    """Return what to give instead of a number where labels are colours, or of a colour where they are numbers."""
    first = labels.names[0]
    place = labels.palette_place(first, asked) if asked >= MAX_LABELS else None
    if place is None:
        return f": give {'a number from 0 to 255' if asked >= MAX_LABELS else 'a colour as #000000'}"
    counted = ", as images with a palette count by index: give "
    if place < 0:
        return f"{counted}an index from 0 to 255 ({label_name(asked)} is not in the palette of {labels.file(first)})"
    return f"{counted}{place}, the index of {label_name(asked)} in {labels.file(first)}"


def check_names(images: ImageFiles, labels: ImageFiles) -> None:
    """Raise unless each image has a label image and each label image an image."""
    for one, other, what in ((images, labels, "label image"), (labels, images, "image")):
        missing = [name for name in one if name not in other]
        if missing:
            raise FormatError(
                f"{one.file(missing[0])} has no {what} in {other.path} ({len(missing)} are missing); expected one with "
                f"the name {missing[0]!r}: add it, or remove the file"
            )


@dataclass(frozen=True)
class PatchData:
    """Graphs X of patches with labels Y, −1 where unknown."""

    X: list[Any]
    Y: list[Any]
    labels: list[int]
    n_patches: int


def read_patches(data: LabelledImages, features: PatchFeatures, progress: Progress) -> PatchData:
    """Read images, learn the features of their patches and return them with their labels."""
    Y: list[Any] = []
    found: set[int] = set()

    def remember(name: str, labels: Any) -> None:
        codes, places = np.unique(labels, return_inverse=True)
        found.update(codes.tolist())
        if len(found) > MAX_LABELS:
            raise FormatError(
                f"{data.labels.file(name)}: there are more than {MAX_LABELS} different labels; expected few, each of "
                "one colour without shades: export the label images without smoothing"
            )
        known = codes != data.unknown
        numbers = np.where(known, np.cumsum(known) - 1, -1)[places].reshape(labels.shape)
        found_patches = patch_labels(numbers, int(known.sum()), features.patch, features.step)
        Y.append(np.append(codes[known], -1)[found_patches])

    def images() -> Iterator[Any]:
        for name, image, labels in data.pairs():
            check_size(image, features, data.images.file(name))
            remember(name, labels)
            yield image
        check_unknown(data, found)

    grids = features.fit_transform(images())
    every = np.concatenate(Y)
    labels = np.unique(every[every >= 0]).tolist()
    if len(labels) < 2:
        raise InputError(
            f"the patches of {data.labels.path} have {len(labels)} different known labels; expected at least 2: label "
            "more pixels, choose smaller patches (--patch) or another --unknown"
        )
    unknown = show_percent((every < 0).mean())
    progress.say(f"read {len(Y)} images, {len(every)} patches from {data.images.path}; {unknown} of these are unknown")
    return PatchData(make_graphs(grids), Y, labels, len(every))


def check_unknown(data: LabelledImages, found: set[int]) -> None:
    """Raise if a label that was said to mean unknown is not among those found."""
    if data.asked and data.unknown not in found:
        raise InputError(
            f"--unknown is {label_name(data.unknown)!r}, which labels no pixel of {data.labels.path}; its labels are "
            f"{list_labels(map(label_name, found))}: give one of these, or none if all pixels count"
        )


def check_held_out(data: LabelledImages, model: Trained, allow_unknown: bool) -> None:
    """Raise unless a model can be judged on the data."""
    found: set[int] = set()
    for name, image, labels in data.pairs():
        check_size(image, model.features, data.images.file(name))
        found |= set(np.unique(labels).tolist()) - {data.unknown}
        new = found.difference(model.record.labels)
        if new and not allow_unknown:
            raise unknown_label(data.labels.file(name), label_name(min(new)), set(map(label_name, model.record.labels)))
    if not found:
        raise InputError(f"{data.labels.path} has no known pixels; expected some to compare with: label them")


def check_size(image: Any, features: PatchFeatures, file: str) -> None:
    """Raise if an image is smaller than a patch."""
    height, width = image.shape[:2]
    if min(height, width) < features.patch:
        raise FormatError(
            f"{file} has {width} × {height} pixels; expected at least {features.patch} on each side, the size of a "
            "patch: leave it out, or train with a smaller --patch"
        )


def make_graphs(grids: Sequence[Any]) -> list[Any]:
    """Return the graphs of grids of patches: horizontal and vertical neighbours have weights of their own."""
    return [grid_graph(grid.features, edge_types="axis", shape=grid.shape) for grid in grids]


def predict_pixels(
    model: Trained, files: ImageFiles, asked: Sequence[str] | None = None
) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, image and predicted label of each pixel, of all images or those that are asked for."""
    features, wanted = model.features, files.names if asked is None else asked
    for start in range(0, len(wanted), AT_ONCE):
        names = wanted[start : start + AT_ONCE]
        images = [files.image(name) for name in names]
        for name, image in zip(names, images, strict=True):
            check_size(image, features, files.file(name))
        predicted = model.estimator.predict(make_graphs(features.transform(images)))
        for name, image, labels in zip(names, images, predicted, strict=True):
            yield name, image, spread_patches(labels, image.shape[:2], features.patch, features.step)


def score_segments(
    model: Trained, data: LabelledImages, note: Callable[[Any, Any], None] | None = None
) -> dict[str, Any]:
    """Return the share of known pixels that are right, of each label and in all, and how labels overlap.

    The data are those that `check_held_out` has seen; labels the model does not know count as wrong. `note` is told
    the true and the predicted labels of the known pixels of each image.
    """
    truths = dict.fromkeys(model.record.labels, 0)
    guesses, right = dict(truths), dict(truths)
    shares, n_unknown = [], 0
    predicted = predict_pixels(model, data.images)
    for (_, _, truth), (_, _, guess) in zip(data.pairs(), predicted, strict=True):
        counted = truth != data.unknown
        n_unknown += int((~counted).sum())
        truth, guess = truth[counted], np.asarray(guess)[counted]
        if note is not None:
            note(truth, guess)
        for counts, values in ((truths, truth), (guesses, guess), (right, truth[truth == guess])):
            for code, count in zip(*np.unique(values, return_counts=True), strict=True):
                counts[int(code)] = counts.get(int(code), 0) + int(count)
        if len(truth):
            shares.append(float((truth == guess).mean()))
    names = model.record.called()
    classes = []
    for code in sorted(truths):
        hit, union = right.get(code, 0), truths[code] + guesses.get(code, 0) - right.get(code, 0)
        classes.append(
            {
                "label": label_name(code),
                "name": names.get(label_name(code), label_name(code)),
                "n_true": truths[code],
                "n_predicted": guesses.get(code, 0),
                "accuracy": hit / truths[code] if truths[code] else None,
                "iou": hit / union if union else None,
            }
        )
    judged = [one for one in classes if one["n_true"]]
    return {
        "n_examples": len(data.images),
        "n_pixels": sum(truths.values()),
        "n_unknown_pixels": n_unknown,
        "accuracy": sum(right.values()) / sum(truths.values()),
        "image_accuracy": float(np.mean(shares)),
        "image_accuracy_se": float(np.std(shares, ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else None,
        "mean_accuracy": float(np.mean([one["accuracy"] for one in judged])),
        "mean_iou": float(np.mean([one["iou"] for one in judged])),
        "classes": classes,
    }
