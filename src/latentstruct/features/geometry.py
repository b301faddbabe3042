"""Position, size and shape of boxes as features."""

import numpy as np
from numpy.typing import NDArray

from latentstruct.data.boxes import Boxes

__all__ = ["N_GEOMETRY", "box_geometry"]

N_GEOMETRY = 14
"""Position, size and shape of a box (four values), and the products of any two of them."""


def box_geometry(boxes: Boxes, width: float, height: float) -> NDArray[np.float64]:
    """Return position, size and shape of boxes (m, 4) relative to their image, and the products of these, (m, 14).

    With the center (c_x, c_y), the width w and the height h of a box in an image of W × H, g = (2c_x/W − 1, 2c_y/H − 1,
    ½log₂(wh/WH), log₂(w/h)), and a row is (g_j, …, g_j g_k for j ≤ k, …)/√14. Weights of these can prefer any position,
    size and shape, more or less strictly. Rows of typical candidates have length of about 1, and do not depend on the
    scale of image and box.
    """
    sides = boxes[:, 2:] - boxes[:, :2]
    size = np.array([width, height], dtype=np.float64)
    places = (boxes[:, :2] + boxes[:, 2:]) / size - 1.0
    scale = 0.5 * np.log2(sides / size).sum(axis=1)
    shape = np.log2(sides[:, 0] / sides[:, 1])
    single = np.column_stack([places, scale, shape])
    first, second = np.triu_indices(single.shape[1])
    rows: NDArray[np.float64] = np.hstack([single, single[:, first] * single[:, second]]) / np.sqrt(N_GEOMETRY)
    return rows
