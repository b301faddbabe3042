"""Offers of shops, of which several are for the same product."""

import numpy as np

from latentstruct.cli.packing import lines_as_bytes

COLUMNS = ("group", "cluster", "width_cm", "height_cm", "depth_cm", "weight_kg")
GROUPS = ("kettles", "lamps", "radios", "clocks", "fans", "scales", "toasters", "mixers", "heaters", "speakers")
N_PRODUCTS, MOST_OFFERS = 5, 4
MEASURING = 1.2
"""Standard deviation of the measurements of a product."""


def make_example(seed: int) -> bytes:
    """Return a table with commas: a group of offers, the product each is for, and its measures."""
    rng = np.random.default_rng(seed)
    lines = [",".join(COLUMNS)]
    for group in GROUPS:
        rows = []
        for product in range(N_PRODUCTS):
            measures = rng.uniform(5.0, 25.0, size=4)
            for _ in range(rng.integers(1, MOST_OFFERS + 1)):
                seen = np.maximum(measures + rng.normal(0.0, MEASURING, 4), 0.1)
                rows.append(f"{group},{'ABCDE'[product]}," + ",".join(f"{value:.1f}" for value in seen))
        lines += [rows[k] for k in rng.permutation(len(rows))]
    return lines_as_bytes(lines)
