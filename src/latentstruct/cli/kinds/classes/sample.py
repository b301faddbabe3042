"""Apples of four varieties, measured."""

import numpy as np

from latentstruct.cli.packing import lines_as_bytes

COLUMNS = ("diameter_cm", "weight_g", "redness", "sugar_brix", "firmness_kg", "variety")
VARIETIES = {
    "Boskoop": (8.2, 210.0, 0.35, 12.5, 8.5),
    "Cox": (6.8, 140.0, 0.45, 13.5, 7.2),
    "Elstar": (7.2, 160.0, 0.55, 13.0, 6.5),
    "Gala": (6.9, 150.0, 0.75, 12.8, 7.6),
}
SPREAD = (0.45, 22.0, 0.09, 0.5, 0.5)
N_EACH = 50


def make_example(seed: int) -> bytes:
    """Return a table with commas, the variety in its last column."""
    rng = np.random.default_rng(seed)
    rows = [
        "{:.1f},{:.0f},{:.2f},{:.1f},{:.1f}".format(*np.maximum(rng.normal(means, SPREAD), 0.0)) + f",{variety}"
        for variety, means in VARIETIES.items()
        for _ in range(N_EACH)
    ]
    return lines_as_bytes([",".join(COLUMNS), *(rows[k] for k in rng.permutation(len(rows)))])
