"""Small generated pictures: two or three regions that differ in color and texture, with label images."""

import io
import zipfile

import numpy as np
from PIL import Image

COLORS = np.array([[60, 140, 60], [120, 160, 220], [160, 60, 60]])


def make_picture(rng, height=48, width=64):
    """Return an image and its classes 0 to 2: ground, sky above a slanted horizon, perhaps a box on the ground."""
    rows, columns = np.mgrid[:height, :width]
    horizon = height * rng.uniform(0.35, 0.6) + rng.uniform(-0.2, 0.2) * (columns - width / 2)
    classes = np.where(rows > horizon, 0, 1)
    if rng.random() < 0.8:
        top, left = int(height * 0.55), int(rng.integers(0, width - 24))
        classes[top : top + 20, left : left + 24] = 2
    stripes = 30 * ((columns + rows) % 6 < 3)
    noise = rng.normal(scale=25, size=(height, width, 3))
    pixels = COLORS[classes] + np.where(classes == 2, stripes, 0)[..., None] + noise
    return pixels.clip(0, 255).astype(np.uint8), classes


def encode(pixels, kind="PNG", palette=None):
    """Return an image file's contents."""
    image = Image.fromarray(pixels)
    if palette is not None:
        image.putpalette(palette)
    buffer = io.BytesIO()
    image.save(buffer, format=kind)
    return buffer.getvalue()


def hide(classes, rng, share=0.3):
    """Return labels 1 to 3, with 0 for unknown in squares and along borders."""
    labels = classes + 1
    for top in range(0, labels.shape[0], 16):
        for left in range(0, labels.shape[1], 16):
            if rng.random() < share:
                labels[top : top + 16, left : left + 16] = 0
    return labels.astype(np.uint8)


def write_pictures(folder, n, seed, share=0.3, as_labels=encode):
    """Write images and label images into two folders; return the folders."""
    rng = np.random.default_rng(seed)
    images, labels = folder / "images", folder / "labels"
    for place in (images, labels):
        place.mkdir(parents=True)
    for k in range(n):
        pixels, classes = make_picture(rng)
        (images / f"p{k}.{'png' if k % 2 else 'bmp'}").write_bytes(encode(pixels, "PNG" if k % 2 else "BMP"))
        (labels / f"p{k}.png").write_bytes(as_labels(hide(classes, rng, share)))
    return images, labels


def pack(folder, target):
    """Write the files of a folder as a zip archive."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"inner/{path.name}")
    return target
