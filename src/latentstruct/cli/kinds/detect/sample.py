"""Photographs of a beach with a flag somewhere: bars, bands or checks."""

from typing import Any

import numpy as np

from latentstruct.cli.packing import image_as_bytes, lines_as_bytes, pack

LABELS = ("bands", "bars", "checks")
N_IMAGES, HEIGHT, WIDTH, STRIPE = 24, 64, 80, 5
SIDES = (34, 42)
"""The smallest and the largest flag."""


def make_example(seed: int) -> bytes:
    """Return a zip archive of images and labels.csv with boxes, which only evaluation uses."""
    rng = np.random.default_rng(seed)
    files, rows = {}, ["file,label,x0,y0,x1,y1"]
    for number in range(1, N_IMAGES + 1):
        label = LABELS[number % len(LABELS)]
        pixels, box = photograph(label, rng)
        files[f"photo{number:02d}.png"] = image_as_bytes(pixels)
        rows.append(f"photo{number:02d}.png,{label}," + ",".join(map(str, box)))
    return pack({"labels.csv": lines_as_bytes(rows), **files})


def photograph(label: str, rng: np.random.Generator) -> tuple[Any, list[int]]:
    """Return sand with a flag somewhere, and the box of the flag."""
    side = int(rng.integers(SIDES[0], SIDES[1] + 1))
    top, left = int(rng.integers(0, HEIGHT - side + 1)), int(rng.integers(0, WIDTH - side + 1))
    down, across = np.mgrid[:side, :side] // STRIPE % 2
    flag = {"bands": down, "bars": across, "checks": down ^ across}[label]
    pixels = rng.normal((150, 135, 105), 6.0, size=(HEIGHT, WIDTH, 3))
    colors = rng.integers((140, 20, 20), (220, 110, 110)), rng.integers(200, 256, size=3)
    pixels[top : top + side, left : left + side] += np.array(colors)[flag] - (150, 135, 105)
    return pixels.clip(0, 255).astype(np.uint8), [left, top, left + side, top + side]
