"""A small Markov network: a grid whose neighbours like to agree."""

import numpy as np

from latentstruct.cli.samples.packing import lines_as_bytes

SIDE = 4


def make_example(seed: int) -> bytes:
    """Return a grid of 4 × 4 variables with two states each in the UAI format."""
    rng = np.random.default_rng(seed)
    number = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    across, down = (number[:, :-1], number[:, 1:]), (number[:-1], number[1:])
    edges = [pair for ends in (across, down) for pair in zip(*(part.ravel().tolist() for part in ends), strict=True)]
    fields = rng.uniform(0.3, 1.7, size=number.size)
    bonds = rng.uniform(1.2, 2.5, size=len(edges))
    lines = ["MARKOV", str(number.size), " ".join(["2"] * number.size), str(number.size + len(edges))]
    lines += [f"1 {k}" for k in range(number.size)] + [f"2 {a} {b}" for a, b in edges]
    for value in fields:
        lines += ["", "2", f" {value:.3f} {2 - value:.3f}"]
    for value in bonds:
        lines += ["", "4", f" {value:.3f} 1.000", f" 1.000 {value:.3f}"]
    return lines_as_bytes(lines)
