"""Overlaps of boxes (x0, y0, x1, y1): |A ∩ B| / |A ∪ B|."""

from latentstruct.kernels.jit import inlined, njit


@inlined
def overlap(a0, b0, a1, b1, area, c0, d0, c1, d1):
    """Return the overlap of the box a0, b0, a1, b1 of a known area with the box c0, d0, c1, d1."""
    width = max(min(a1, c1) - max(a0, c0), 0.0)
    height = max(min(b1, d1) - max(b0, d0), 0.0)
    common = width * height
    return common / (area + (c1 - c0) * (d1 - d0) - common)


@njit
def overlap_table(A, B, out):
    """Write the overlaps of all pairs of A (a, 4) and B (b, 4) to `out` (a, b)."""
    for i in range(A.shape[0]):
        x0, y0, x1, y1 = A[i, 0], A[i, 1], A[i, 2], A[i, 3]
        area = (x1 - x0) * (y1 - y0)
        for j in range(B.shape[0]):
            out[i, j] = overlap(x0, y0, x1, y1, area, B[j, 0], B[j, 1], B[j, 2], B[j, 3])


@njit
def overlaps_with(boxes, others, out):
    """Write the overlap of each box (m, 4) with the other of the same number (m, 4) to `out` (m,)."""
    for i in range(boxes.shape[0]):
        x0, y0, x1, y1 = boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3]
        area = (x1 - x0) * (y1 - y0)
        out[i] = overlap(x0, y0, x1, y1, area, others[i, 0], others[i, 1], others[i, 2], others[i, 3])
