"""Landscapes with label images that leave many pixels unlabeled."""

from typing import Any

import numpy as np

from latentstruct.cli.packing import image_as_bytes, lines_as_bytes, pack

N_IMAGES, HEIGHT, WIDTH = 10, 50, 70
UNKNOWN, GRASS, SKY, HOUSE = range(4)
NAMES = {GRASS: "grass", SKY: "sky", HOUSE: "house"}
COLORS = np.array([[0, 0, 0], [70, 130, 60], [130, 170, 220], [165, 85, 70]])
LABELED_WITHIN = 4
"""Unlabeled pixels along borders."""


def make_example(seed: int) -> bytes:
    """Return a zip archive with the folders images and labels; label 0 is unknown."""
    rng = np.random.default_rng(seed)
    images, labels = {}, {}
    for number in range(1, N_IMAGES + 1):
        truth = draw_scene(rng)
        images[f"images/scene{number:02d}.png"] = image_as_bytes(paint(truth, rng))
        labels[f"labels/scene{number:02d}.png"] = image_as_bytes(forget(truth, rng))
    names = lines_as_bytes(f"{label} {name}" for label, name in NAMES.items())
    return pack({**images, **labels, "labels/names.txt": names})


def draw_scene(rng: np.random.Generator) -> Any:
    """Return the label of each pixel: sky over grass, and a house in most scenes."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    horizon = HEIGHT * rng.uniform(0.4, 0.6) + rng.uniform(-0.15, 0.15) * (columns - WIDTH / 2)
    truth = np.where(rows > horizon, GRASS, SKY)
    if rng.random() < 0.8:
        top, left = int(HEIGHT * rng.uniform(0.3, 0.45)), int(rng.integers(3, WIDTH - 32))
        truth[top : top + 26, left : left + 29] = HOUSE
    return truth


def paint(truth: Any, rng: np.random.Generator) -> Any:
    """Return an image of a scene: overlapping colors, bricks on houses, blades in the grass."""
    rows, columns = np.mgrid[: truth.shape[0], : truth.shape[1]]
    bricks = np.where((rows % 8 < 2) | ((columns + 8 * (rows // 8 % 2)) % 16 < 2), 45, 0)
    blades = np.where(columns % 4 < 2, 25, -10)
    texture = np.select([truth == HOUSE, truth == GRASS], [bricks, blades])
    light = rng.normal(0.0, 18.0) + rng.normal(0.0, 22.0, size=(*truth.shape, 3))
    return (COLORS[truth] + texture[..., None] + light).clip(0, 255).astype(np.uint8)


def forget(truth: Any, rng: np.random.Generator) -> Any:
    """Return the labels with borders and a fifth of the picture unknown."""
    kept = truth.astype(np.uint8)
    for axis in (0, 1):
        for shift in range(1, LABELED_WITHIN):
            changes = truth != np.roll(truth, shift, axis=axis)
            kept[changes | np.roll(changes, -shift, axis=axis)] = UNKNOWN
    left = int(rng.integers(0, WIDTH * 4 // 5))
    kept[:, left : left + WIDTH // 5] = UNKNOWN
    return kept
