"""Images with label images: reading and checking them, predicting pixels and evaluating predictions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentstruct.cli.common import NOTHING, list_labels, unknown_label
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.segment.command import SegmentRecord
from latentstruct.data.images import MAX_LABELS, ImageFiles, label_code, label_name, parse_label_names
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.features.images import PatchFeatures, patch_labels, spread_patches
from latentstruct.io.file_sources import FileSource
from latentstruct.progress.display import Progress, show_percent
from latentstruct.tasks import grid_graph

AT_ONCE = 16
"""Number of images that are predicted together."""


def parse_unknown(text: str | None) -> int | None:
    """Return the label of unknown pixels, −1 for none, None if the label images decide."""
    if text is None:
        return None
    if text.strip().lower() == "none":
        return -1
    try:
        return label_code(text)
    except InputError:
        raise InputError("unknown", text, "an integer from 0 to 255, a color as '#000000', or none") from None


@dataclass(frozen=True)
class LabeledImages:
    """Images and their label images; `unknown` is the label of unknown pixels, which must occur if `required`.

    If some images are `chosen`, `pairs` yields these only.
    """

    images: ImageFiles
    labels: ImageFiles
    colors: bool
    unknown: int
    required: bool = False
    chosen: list[str] | None = None

    @classmethod
    def open(cls, images: str, labels: str | None, unknown: str | None) -> "LabeledImages":
        """Find the files; the first label image decides whether labels are integers or colors."""
        code = parse_unknown(unknown)
        files, truth = open_both(images, labels)
        colors = bool((truth.labels(truth.names[0]) >= MAX_LABELS).all())
        if code is None:
            return cls(files, truth, colors, MAX_LABELS if colors else 0)
        if code >= 0 and (code >= MAX_LABELS) != colors:
            expected = "a color as #000000" if colors else "an integer from 0 to 255"
            expected += f", as are the labels of {truth.path}, or none"
            raise InputError("unknown", unknown, expected, palette_hint(truth, code))
        return cls(files, truth, colors, code, code >= 0)

    @classmethod
    def open_as(cls, record: SegmentRecord, images: str, labels: str | None) -> "LabeledImages":
        """Find the files of images with labels as those of a model."""
        return cls(*open_both(images, labels), record.colors, record.unknown)

    def names_beside(self) -> dict[int, str]:
        """Return the names of labels from a file among the label images, nothing if there is none."""
        found = self.labels.beside(NAMES, MAX_NAMES_BYTES)
        return {} if found is None else parse_label_names(found[1], found[0])

    def pair(self, name: str) -> tuple[Any, Any]:
        """Return an image and its labels."""
        image, labels = self.images.image(name), self.labels.labels(name, self.colors)
        if image.shape[:2] != labels.shape:
            height, width = image.shape[:2]
            found = Description(f"{labels.shape[1]} × {labels.shape[0]} pixels")
            raise FormatError(self.labels.file(name), found, f"{width} × {height} as {self.images.file(name)}")
        return image, labels

    def pairs(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield name, image and labels of each."""
        for name in self.images if self.chosen is None else self.chosen:
            yield name, *self.pair(name)


IMAGES, LABELS, NAMES = "images", "labels", "names.txt"
"""Folders of images and label images where both are in one, and the file of names among the latter."""
MAX_NAMES_BYTES = 2**20


def open_both(images: str, labels: str | None) -> tuple[ImageFiles, ImageFiles]:
    """Find images and label images, which are in the same folder or archive if `labels` is None."""
    source = FileSource(images)
    if labels is None:
        inner = source.within(LABELS)
        if inner is None or source.within(IMAGES) is None:
            expected = f"given if `data` ({source.path}) has no folders {IMAGES} and {LABELS}"
            raise InputError("labels", NOTHING, expected)
        truth = ImageFiles(inner)
    else:
        truth = ImageFiles(labels)
    files = ImageFiles(images_of(source))
    check_names(files, truth)
    return files, truth


def open_images(images: str) -> ImageFiles:
    """Find images to predict for; label images are ignored."""
    return ImageFiles(images_of(FileSource(images)))


def images_of(source: FileSource) -> FileSource:
    """Return the images of a folder or archive, which may be in one of its folders."""
    inner = source.within(IMAGES)
    return source if inner is None or source.within(LABELS) is None else inner


def palette_hint(labels: ImageFiles, code: int) -> str | None:
    """Return the index of a color in the palette of the first label image, if it has a palette."""
    first = labels.names[0]
    place = labels.palette_place(first, code) if code >= MAX_LABELS else None
    if place is None:
        return None
    if place < 0:
        return f"{label_name(code)} is not in the palette of {labels.file(first)}."
    return f"The index of {label_name(code)} in the palette of {labels.file(first)} is {place}."


def check_names(images: ImageFiles, labels: ImageFiles) -> None:
    """Raise unless each image has a label image and each label image an image."""
    for one, other, what in ((images, labels, "a label image"), (labels, images, "an image")):
        missing = [name for name in one if name not in other]
        if missing:
            found = Description(f"none ({len(missing)} are missing)")
            raise FormatError(one.file(missing[0]), found, f"{what} {missing[0]!r} in {other.path}")


@dataclass(frozen=True)
class PatchData:
    """Graphs X of patches with labels Y, −1 if unknown."""

    X: list[Any]
    Y: list[Any]
    labels: list[int]
    n_patches: int


def read_patches(data: LabeledImages, features: PatchFeatures, progress: Progress) -> PatchData:
    """Read images, learn the features of their patches and return them with their labels."""
    Y: list[Any] = []
    found: set[int] = set()

    def remember(name: str, labels: Any) -> None:
        codes, places = np.unique(labels, return_inverse=True)
        found.update(codes.tolist())
        if len(found) > MAX_LABELS:
            got, hint = Description(f"more than {MAX_LABELS}"), "Export the label images without smoothing."
            raise FormatError(data.labels.file(name), got, "few different labels, each of one color", hint)
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
        got, hint = Description(f"{len(labels)}"), "Label more pixels, or change --patch or --unknown."
        raise FormatError(data.labels.path, got, "at least 2 different labels of patches", hint)
    unknown = show_percent((every < 0).mean())
    progress.say(f"read {len(Y)} images, {len(every)} patches from {data.images.path}; {unknown} of them unlabeled")
    return PatchData(make_graphs(grids), Y, labels, len(every))


def check_unknown(data: LabeledImages, found: set[int]) -> None:
    """Raise if the label of unknown pixels does not occur."""
    if data.required and data.unknown not in found:
        expected = f"a label of {data.labels.path} ({list_labels(map(label_name, found))}), or none"
        raise InputError("unknown", label_name(data.unknown), expected)


def check_held_out(data: LabeledImages, model: Trained, allow_unknown: bool) -> None:
    """Raise unless a model can be evaluated on the data."""
    found: set[int] = set()
    for name, image, labels in data.pairs():
        check_size(image, model.features, data.images.file(name))
        found |= set(np.unique(labels).tolist()) - {data.unknown}
        new = found.difference(model.record.labels)
        if new and not allow_unknown:
            raise unknown_label(data.labels.file(name), label_name(min(new)), set(map(label_name, model.record.labels)))
    if not found:
        raise FormatError(data.labels.path, Description("none"), "labeled pixels")


def check_size(image: Any, features: PatchFeatures, file: str) -> None:
    """Raise if an image is smaller than a patch."""
    height, width = image.shape[:2]
    if min(height, width) < features.patch:
        expected = f"at least {features.patch} on each side, the size of a patch"
        raise FormatError(file, Description(f"{width} × {height} pixels"), expected)


def make_graphs(grids: Sequence[Any]) -> list[Any]:
    """Return the graphs of grids of patches, with weights for horizontal and for vertical neighbors."""
    return [grid_graph(grid.features, edge_types="axis", shape=grid.shape) for grid in grids]


def predict_pixels(
    model: Trained, files: ImageFiles, names: Sequence[str] | None = None
) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, image and predicted label of each pixel, of all images or some."""
    features, wanted = model.features, files.names if names is None else names
    for start in range(0, len(wanted), AT_ONCE):
        part = wanted[start : start + AT_ONCE]
        images = [files.image(name) for name in part]
        for name, image in zip(part, images, strict=True):
            check_size(image, features, files.file(name))
        predicted = model.estimator.predict(make_graphs(features.transform(images)))
        for name, image, labels in zip(part, images, predicted, strict=True):
            yield name, image, spread_patches(labels, image.shape[:2], features.patch, features.step)


@dataclass(frozen=True)
class Judged:
    """The scores of predicted pixels, and of each image the pairs of true and wrong labels with their frequencies.

    The images are compared one by one, as the predicted pixels of all would need much memory.
    """

    scores: dict[str, Any]
    wrong: list[dict[tuple[int, int], int]]
    n_known: list[int]


def judge(model: Trained, data: LabeledImages) -> Judged:
    """Return accuracy and intersection over union of known pixels, overall and per label, and the errors per image.

    Labels the model does not know count as wrong.
    """
    truths = dict.fromkeys(model.record.labels, 0)
    guesses, right = dict(truths), dict(truths)
    errors, known, n_unknown = [], [], 0
    predicted = predict_pixels(model, data.images, data.chosen)
    for (_, _, truth), (_, _, guess) in zip(data.pairs(), predicted, strict=True):
        counted = truth != data.unknown
        n_unknown += int((~counted).sum())
        truth, guess = truth[counted], np.asarray(guess)[counted]
        missed = truth != guess
        pairs, often = np.unique(np.stack([truth[missed], guess[missed]]), axis=1, return_counts=True)
        errors.append(dict(zip(map(tuple, pairs.T.tolist()), often.tolist(), strict=True)))
        known.append(len(truth))
        for counts, values in ((truths, truth), (guesses, guess), (right, truth[truth == guess])):
            for code, count in zip(*np.unique(values, return_counts=True), strict=True):
                counts[int(code)] = counts.get(int(code), 0) + int(count)
    shares = [1 - sum(wrong.values()) / n for wrong, n in zip(errors, known, strict=True) if n]
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
    scores = {
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
    return Judged(scores, errors, known)
