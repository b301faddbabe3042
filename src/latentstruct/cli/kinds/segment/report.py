"""Report of labeled regions: weights of neighboring labels, and images with their labels."""

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.cli.blocks import label_table
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.segment.command import SegmentRecord
from latentstruct.cli.kinds.segment.files import Judged, LabeledImages, predict_pixels
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


def examples(model: Trained, data: LabeledImages, judged: Judged) -> Examples:
    """Return predicted labels of images, with the fractions of wrong pixels and the most frequent confusions."""
    names, called = data.images.names, model.record.called()
    images = list(zip(judged.wrong, judged.n_known, strict=True))
    return Examples(
        [shorten(name, 60) for name in names],
        np.array([sum(wrong.values()) / n if n else math.nan for wrong, n in images]),
        "fraction of wrong pixels",
        [_remark(wrong, n, called) for wrong, n in images],
        lambda i: _draw(model, data, names[i]),
    )


def _remark(wrong: dict[tuple[int, int], int], n_known: int, called: dict[str, str]) -> str:
    def shown(code: int) -> str:
        return shorten(called.get(label_name(code), label_name(code)), 24)

    if not n_known:
        return "no pixel is known"
    often = [
        f"predicted {shown(guess)}, true {shown(truth)} ({show_percent(n / n_known)})"
        for (truth, guess), n in Counter(wrong).most_common(2)
    ]
    return "; ".join(often) or "all known pixels correct"


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
    known = [Counter(labels[labels != UNKNOWN].tolist()).most_common() for labels in (found, true)]
    seen = [", ".join(f"{names[k]} {show_percent(n / true.size)}" for k, n in areas) or "none" for areas in known]
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


def _legend(names: list[str], colors: list[Color]) -> Drawing:
    return Drawing(
        lambda ax: plot_swatches(names, colors, ax),
        f"The colors of the labels {', '.join(names)}.",
        height=height_of_swatches(len(names)),
    )
