"""Readers of images and of archives of these."""

import io
import struct
import zipfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.registry import Reader, through_file
from latentstruct.data.images import ImageFiles, parse_image, parse_label_image

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MARKS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND", b"iCCP", b"zTXt", b"acTL", b"eXIf")


def pictures() -> list[bytes]:
    """Return small images of all formats that are read."""
    from PIL import Image

    rng = np.random.default_rng(0)
    colors = Image.fromarray(rng.integers(0, 256, (9, 7, 3), dtype=np.uint8))
    numbers = Image.fromarray(rng.integers(0, 4, (9, 7), dtype=np.uint8))
    made = []
    for image, kind, options in (
        (colors, "PNG", {}),
        (colors.convert("P"), "PNG", {}),
        (numbers, "PNG", {}),
        (numbers.convert("1"), "PNG", {}),
        (Image.fromarray(rng.integers(0, 2**16, (9, 7), dtype=np.uint16)), "PNG", {}),
        (colors, "JPEG", {}),
        (colors, "JPEG", {"progressive": True}),
        (colors, "BMP", {}),
        (numbers, "BMP", {}),
        (colors, "PPM", {}),
        (numbers, "PPM", {}),
    ):
        stream = io.BytesIO()
        image.save(stream, kind, **options)
        made.append(stream.getvalue())
    return [
        *made,
        b"P3\n2 2\n255\n0 1 2 3 4 5 6 7 8 9 10 11\n",
        b"P5\n2 2\n1000\n\0\1\0\2\0\3\0\4",
        b"P1\n3 2\n101010\n",
    ]


def mend_checksums(data: bytes, rng: Random) -> bytes:
    """Return a PNG with right checksums, as far as its chunks can be followed; one in two is left as it is."""
    if not data.startswith(SIGNATURE) or rng.random() < 0.5:
        return data
    parts, at = [SIGNATURE], len(SIGNATURE)
    while at + 12 <= len(data):
        size = struct.unpack(">I", data[at : at + 4])[0]
        if at + 12 + size > len(data):
            break
        body = data[at + 4 : at + 8 + size]
        parts += [data[at : at + 4], body, struct.pack(">I", zlib.crc32(body))]
        at += 12 + size
    return b"".join([*parts, data[at:]])


def read_image(folder: Path, data: bytes) -> Any:
    """Decode an image in memory."""
    return parse_image(data)


def read_labels(folder: Path, data: bytes) -> Any:
    """Decode a label image in memory."""
    return parse_label_image(data)


def archives() -> list[bytes]:
    """Return archives of images: packed, stored, in folders and with a file that is none."""
    made = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as archive:
            images = pictures()
            archive.writestr("images/a.png", images[0])
            archive.writestr("images/b.jpg", images[5])
            archive.writestr("labels/names.txt", "0 void\n")
        made.append(stream.getvalue())
    return made


def read_archive(path: Path) -> Any:
    """Read all images of an archive, and its text."""
    files = ImageFiles(path)
    files.beside("names.txt", 1 << 16)
    return [files.image(name) for name in files]


READERS = (
    Reader("image", pictures, read_image, MARKS, mend_checksums),
    Reader("label-image", pictures, read_labels, MARKS, mend_checksums),
    Reader("archive", archives, through_file("a.zip", read_archive), (b"../", b"/etc/x.png", b"PK\1\2", b"PK\3\4")),
)
