"""Report of boxes: templates of gradients, positions and sizes, and photographs with predictions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.cli.blocks import outcome
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.detect.files import Photographs
from latentstruct.cli.kinds.detect.findings import Finding, Judged
from latentstruct.data.images import label_colors
from latentstruct.features.boxes import ORIENTATIONS
from latentstruct.features.geometry import N_GEOMETRY
from latentstruct.progress.display import show_number, show_percent
from latentstruct.viz.box_pictures import draw_boxes, draw_chances
from latentstruct.viz.plots.features import shorten
from latentstruct.viz.plots.pictures import plot_box_places, plot_template
from latentstruct.viz.region_pictures import fit_image
from latentstruct.viz.report.blocks import Block, Drawing, Examples, Group, Photo, TableBlock, Text

MOST_CLASSES = 8
LONGEST_SIDE = 560
LABELS_SHOWN = 5


def weight_blocks(model: Trained) -> list[Block]:
    """Return the template of each class, and the weights of positions and sizes."""
    features, labels = model.features, [str(label) for label in model.estimator.classes_]
    n_labels, n_inputs = len(labels), model.estimator.task_.n_inputs_
    weights = model.estimator.coef_[: n_inputs * n_labels].reshape(n_inputs, n_labels)
    # What all classes have in common does not separate them, but it does choose the box.
    full, weights = weights, weights - weights.mean(axis=1, keepdims=True)
    order = np.argsort(-np.linalg.norm(weights, axis=0), kind="stable")
    shown = sorted(order[:MOST_CLASSES].tolist())
    n_cells, n_appearance = features.window // features.cell, features.n_appearance_
    blocks: list[Block] = [Text(_explain(features, n_cells))]
    for k in shown:
        parts: list[Block] = []
        if not features.n_given:
            cells = weights[:n_appearance, k].reshape(n_cells, n_cells, ORIENTATIONS)
            parts.append(_template(cells, labels[k]))
        if features.geometry:
            places = features.geometry * full[n_appearance : n_appearance + N_GEOMETRY, k]
            parts.append(_places(places, labels[k]))
        blocks.append(Group(shorten(labels[k], 60), parts))
    if len(shown) < n_labels:
        blocks.append(Text(f"{len(shown)} of {n_labels} labels: those with the largest weights."))
    return blocks


def _explain(features: Any, n_cells: int) -> str:
    """Return what the features of a box are, and which of their weights are shown."""
    first = f"the directions of the edges in {n_cells} × {n_cells} cells"
    found = [f"{features.n_given} given ones" if features.n_given else first]
    found += ["position, size and shape"] * (features.geometry > 0)
    found += ["how well it encloses what stands out"] * (features.saliency > 0)
    shown = [] if features.n_given else ["The weights of edges are shown without their mean over all labels."]
    shown += ["Those of positions include it, as they choose the box."] * (features.geometry > 0)
    return " ".join([f"The features of a box are {'; '.join(found)}.", *shown])


def _template(cells: NDArray[np.float64], label: str) -> Drawing:
    strongest = np.unravel_index(int(np.abs(cells).argmax()), cells.shape)
    side = "for" if cells[strongest] > 0 else "against"
    return Drawing(
        lambda ax: plot_template(cells, ax),
        f"Strokes along the edges for and against {label}; the strongest is {side} it, in row "
        f"{strongest[0] + 1} and column {strongest[1] + 1}.",
        "Edges in a box for and against the label; the width of a stroke is the size of its weight.",
        width=4.3,
        height=2.4,
    )


def _places(weights: NDArray[np.float64], label: str) -> Drawing:
    return Drawing(
        lambda ax: plot_box_places(weights, ax),
        f"Maps of the score of {label} by the position of a small, a medium and a large box.",
        "Score by position, for boxes of 6, 25 and 56 % of the area of the image: the color at a point is the score of "
        "the box (dashed) centered there.",
        height=1.8,
    )


def _loss(truth: str, guess: str, overlap: float | None) -> float:
    """Return 1 for a wrong label, else 1 − overlap."""
    if guess != truth:
        return 1.0
    return 0.0 if overlap is None else 1.0 - overlap


def _remark(truth: str, guess: str, overlap: float | None) -> str:
    box = "no true box is known" if overlap is None else f"overlap {show_percent(overlap)}"
    return f"{outcome(truth, guess)}; {box}"


def examples(model: Trained, data: Photographs, judged: Judged) -> Examples:
    """Return predictions for images."""
    images = list(zip(data.labels, (one.label for one in judged.found), judged.best, strict=True))
    return Examples(
        [shorten(name, 60) for name in data.names],
        np.array([_loss(*one) for one in images]),
        "overlap loss",
        [_remark(*one) for one in images],
        lambda i: _draw(model, data, i, judged.found[i]),
        [
            Text(
                "The loss is 1 if the label is wrong, else 1 − the best overlap (intersection over union) of the box "
                "with a true one. Without a true box, the loss of a correct label is 0."
            )
        ],
    )


def _draw(model: Trained, data: Photographs, i: int, finding: Finding) -> list[Block]:
    """Return the photograph with the predicted box and the true ones, and the distribution over boxes."""
    name, truth = data.names[i], data.labels[i]
    image = data.files.image(name)
    small = fit_image(image, LONGEST_SIDE)
    scale = small.shape[1] / image.shape[1]
    labels = sorted(finding.scores)
    color = label_colors(range(len(labels)))[labels.index(finding.label)]
    picture = draw_boxes(small, scale * finding.box, [finding.label], [color], scale * data.boxes[i])
    n_true = len(data.boxes[i])
    white = {0: " No true box is known.", 1: " The white frame is the true box."}.get(n_true, " White: the true boxes.")
    shown = f"Predicted: {finding.label}" + ("." if finding.label == truth else f", true: {truth}.")
    blocks: list[Block] = [Photo(picture, f"The image {name}. {shown}{white}", f"{shown}{white}")]
    if hasattr(model.estimator, "latent_distribution"):
        blocks.append(_chances(model, data, i, finding, image, small))
    best = sorted(finding.scores.items(), key=lambda one: -one[1])[:LABELS_SHOWN]
    roles = {label: ["predicted"] * (label == finding.label) + ["true"] * (label == truth) for label, _ in best}
    rows = [[shorten(label), ", ".join(roles[label]), show_number(score, 4)] for label, score in best]
    note = "" if len(best) == len(labels) else f"The first {len(best)} of {len(labels)} labels."
    return [
        *blocks,
        TableBlock("Scores of labels, with their best boxes", ("label", "", "score"), rows, note, n_text=2),
    ]


def _chances(model: Trained, data: Photographs, i: int, finding: Finding, image: Any, small: Any) -> Photo:
    """Return the photograph, bright where the box is likely, given the true label if it is known."""
    x = data.describe(model.features, data.names[i], image) if data.described is None else data.described[i]
    classes = {str(label): label for label in model.estimator.classes_}
    label = data.labels[i] if data.labels[i] in classes else finding.label
    chances = model.estimator.latent_distribution([x], [classes[label]])[0]
    best = float(chances.max())
    picture = draw_chances(small, small.shape[1] / image.shape[1] * x.boxes, chances)
    likeliest = f"the most probable of {len(chances)} boxes has {show_percent(best)}"
    return Photo(
        picture,
        f"The same image, bright where the box of {label} is likely: {likeliest}.",
        f"Distribution of the latent box given the label {label}, bright where it is likely; {likeliest}.",
    )
