"""Report of labeled regions: weights of neighboring labels, and images with their labels."""

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.cli.blocks import label_table
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.segment.command import KIND, SegmentRecord
from latentstruct.cli.kinds.segment.files import LabeledImages, predict_pixels, score_segments
from latentstruct.data.images import Color, label_colors, label_name
from latentstruct.progress.display import show_percent
from latentstruct.viz.plots.features import shorten
from latentstruct.viz.plots.matrices import plot_matrix
from latentstruct.viz.plots.pictures import height_of_swatches, plot_swatches
from latentstruct.viz.region_pictures import draw_regions, fit_image, fit_labels
from latentstruct.viz.report.blocks import Block, Drawing, Examples, Photo, Text

MOST_LABELS = 25
UNKNOWN = -1


def weight_blocks(model: Trained) -> list[Block]:
    """Return the strongest features of each label, and the weights of neighboring labels."""
    task, w = model.estimator.task_, model.estimator.coef_
    record, features = model.record, model.features
    called = dict(zip(record.labels, record.names, strict=True))
    names = [called[code] for code in task.layout_.vocabulary.labels]
    shown = names[:MOST_LABELS]
    blocks: list[Block] = [label_table(names, task.node_weights(w), features.feature_name)]
    for kind, beside in (("horizontal", "the label on the right"), ("vertical", "the label below")):
        weights = task.edge_weights(w, kind)[0][: len(shown), : len(shown)]
        if weights.any():
            blocks.append(_neighbors(weights, shown, beside, len(names)))
        else:
            blocks.append(Text(f"The weights of a label and {beside} are all 0."))
    return blocks


def _neighbors(weights: NDArray[np.float64], names: list[str], beside: str, n_labels: int) -> Drawing:
    def draw(ax: Any) -> None:
        plot_matrix(weights, names, names, ax)
        ax.set_ylabel("label")
        ax.set_xlabel(beside)

    part = "" if len(names) == n_labels else f" The first {len(names)} of {n_labels} labels."
    return Drawing(
        draw,
        f"Heat map of the weights of {len(names)} labels and {beside}.",
        f"Weights of the label of a patch (row) and {beside} (column): red is positive, blue negative.{part}",
        height=2.0 + 0.24 * len(names),
    )


class _Noted:
    """The fraction of wrong pixels of each image, and its most frequent confusions."""

    def __init__(self, record: SegmentRecord) -> None:
        self.losses: list[float] = []
        self.remarks: list[str] = []
        self._names = record.called()

    def _called(self, code: int) -> str:
        text = label_name(int(code))
        return shorten(self._names.get(text, text), 24)

    def __call__(self, truth: NDArray[np.int64], guess: NDArray[np.int64]) -> None:
        """Note the true and predicted labels of the known pixels of an image."""
        if not len(truth):
            self.losses.append(math.nan)
            self.remarks.append("no pixel is known")
            return
        wrong = truth != guess
        self.losses.append(float(wrong.mean()))
        pairs, counts = np.unique(np.stack([truth[wrong], guess[wrong]]), axis=1, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:2]
        shown = []
        for k in order.tolist():
            share = show_percent(float(counts[k]) / len(truth))
            shown.append(f"predicted {self._called(pairs[1, k])}, true {self._called(pairs[0, k])} ({share})")
        self.remarks.append("; ".join(shown) or "all known pixels correct")


def examples(model: Trained, data: LabeledImages, source: str) -> Examples:
    """Return predicted labels of images, with the fractions of wrong pixels."""
    noted = _Noted(model.record)
    scores = score_segments(model, data, noted)
    names = data.images.names
    return Examples(
        source,
        [shorten(name, 60) for name in names],
        np.array(noted.losses),
        "fraction of wrong pixels",
        noted.remarks,
        lambda i: _draw(model, data, names[i]),
        KIND.summarize(scores),
    )


def _draw(model: Trained, data: LabeledImages, name: str) -> list[Block]:
    """Return the image, the predicted and the true labels over it, and a legend."""
    record: SegmentRecord = model.record
    image, truth = data.pair(name)
    [(_, _, guess)] = predict_pixels(model, data.images, [name])
    small = fit_image(image)
    guess, truth = (fit_labels(labels, small.shape) for labels in (guess, truth))
    # Labels that the model does not know come last.
    codes = [*record.labels, *sorted(set(np.unique(truth).tolist()) - {data.unknown, *record.labels})]
    called, colors = record.called(), label_colors(codes)
    names = [called.get(label_name(code), label_name(code)) for code in codes]
    found, true = (_numbered(labels, codes) for labels in (guess, truth))
    used = sorted({*np.unique(found).tolist(), *np.unique(true).tolist()} - {UNKNOWN})
    # A label has the same number in all images.
    numbers = [k + 1 for k in range(len(codes))]
    unknown = float((true == UNKNOWN).mean())
    hatched = f" Hatched: unknown, {show_percent(unknown)} of the pixels." if unknown else ""
    seen = [_areas(labels, names) for labels in (found, true)]
    return [
        Photo(small, f"The image {name}.", "The image"),
        Photo(draw_regions(small, found, colors, numbers), f"Predicted labels: {seen[0]}.", "Predicted labels"),
        Photo(
            draw_regions(small, true, colors, numbers),
            f"True labels: {seen[1]}.{hatched}",
            f"True labels.{hatched}" if hatched else "True labels",
        ),
        _legend([f"{numbers[k]}  {names[k]}" for k in used], [colors[k] for k in used]),
    ]


def _numbered(labels: NDArray[np.int64], codes: list[int]) -> NDArray[np.int64]:
    """Return the index of each label among the codes, −1 if it is not one of them."""
    place = {code: k for k, code in enumerate(codes)}
    found, inverse = np.unique(labels, return_inverse=True)
    numbers = np.array([place.get(code, UNKNOWN) for code in found.tolist()], dtype=np.int64)
    return numbers[inverse].reshape(labels.shape)


def _areas(labels: NDArray[np.int64], names: list[str]) -> str:
    """Return the fraction of the image with each label."""
    known = Counter(labels[labels != UNKNOWN].tolist())
    return ", ".join(f"{names[k]} {show_percent(n / labels.size)}" for k, n in known.most_common()) or "none"


def _legend(names: list[str], colors: list[Color]) -> Drawing:
    return Drawing(
        lambda ax: plot_swatches(names, colors, ax),
        f"The colors of the labels {', '.join(names)}.",
        height=height_of_swatches(len(names)),
    )
