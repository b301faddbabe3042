"""Objectness: how likely boxes of segments enclose an animal or a person, of any class."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import integer
from latentstruct.data.boxes import LIMIT, Boxes, overlaps
from latentstruct.features.geometry import N_GEOMETRY, box_geometry
from latentstruct.features.regions import segment_boxes
from latentstruct.features.saliency import N_SALIENCY, box_saliency, saliency_map

__all__ = ["N_CUES", "WEIGHTS", "box_cues", "object_boxes"]

Values = NDArray[np.float64]

SCORED = 100
"""Number of boxes of segments of an image that are compared."""
NEAR = 0.01
"""Distance from the border, relative to the side of the image, up to which a box touches it."""
LEVELS = (0.5, 0.7)
N_CUES = N_SALIENCY + N_GEOMETRY + 4 + 1 + len(LEVELS)
WEIGHTS = np.array(
    [
        *(-0.912, -1.296, 0.299, 0.472, 0.406, 0.264, -0.059, 0.857),
        *(-0.134, 0.534, 0.722, -1.573, -0.345, 0.243, 0.105, -0.117, -1.078, -0.295, -0.303, -0.217, 0.319, -0.406),
        *(-1.921, -0.453, -1.201, -0.083),
        *(1.13, 0.68, 0.162),
    ]
)
"""Learned by `latentstruct_papers.objectness` on photographs of persons, kangaroos and raccoons."""


def box_cues(saliency: Values, boxes: Boxes, width: float, height: float) -> Values:
    """Return what shows whether a box encloses an object, relative to the other boxes of the image.

    The values of a box are: its saliency (see `box_saliency`), position and size (see `box_geometry`); whether it
    touches the left, upper, right and lower border of the image; its mean overlap with the boxes; and the fraction of
    them that overlap with it by at least 0.5 and 0.7, as an object is enclosed by many groups of segments.

    Parameters
    ----------
    saliency : array of shape (h, w)
        As `saliency_map` returns it.
    boxes : array of shape (m, 4)
        Boxes inside the image.
    width, height : float
        Size of the image.

    Returns
    -------
    array of shape (m, 29)
        The values with mean 0 and, unless all are equal, variance 1 over the boxes.
    """
    ends = np.array([0.0, 0.0, width, height])
    touching = np.abs(boxes - ends) <= NEAR * np.array([width, height, width, height])
    table = overlaps(boxes, boxes)
    shares = [(table >= level).mean(axis=1) for level in LEVELS]
    placed = [box_saliency(saliency, boxes, width, height), box_geometry(boxes, width, height)]
    values = np.column_stack([*placed, touching, table.mean(axis=1), *shares])
    values -= values.mean(axis=0)
    spread = values.std(axis=0)
    found: Values = values / np.where(spread > 1e-9, spread, 1.0)
    return found


def object_boxes(image: Any, limit: int = LIMIT) -> Boxes:
    """Return the boxes of segments that most likely enclose an animal or a person, the best first.

    Of at most 100 boxes of segments (see `segment_boxes`) those are returned whose values (see `box_cues`) have the
    largest sum, weighted by `WEIGHTS`. The weights were learned on photographs of persons, kangaroos and raccoons with
    known boxes, such that the overlap of the best box is large on average.

    Parameters
    ----------
    image : uint8 array of shape (height, width, 3)
        The image.
    limit : int
        Maximum number of boxes.
    """
    integer(1).check(limit, "limit")
    boxes = segment_boxes(image, SCORED)
    cues = box_cues(saliency_map(image), boxes, image.shape[1], image.shape[0])
    order = np.argsort(-(cues @ WEIGHTS), kind="stable")
    found: Boxes = boxes[order[:limit]]
    return found
