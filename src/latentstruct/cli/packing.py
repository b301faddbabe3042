"""Text and archives as reproducible bytes."""

import io
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

DATE = (2000, 1, 1, 0, 0, 0)
"""Date of the files in an archive, which is fixed for reproducible bytes."""
FILE_MODE = 0o644 << 16


def lines_as_bytes(lines: Iterable[str]) -> bytes:
    """Return lines of text as the bytes of a file."""
    return "".join(f"{line}\n" for line in lines).encode()


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return a zip archive of files, in the order given."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, DATE)
            info.external_attr = FILE_MODE
            archive.writestr(info, content)
    return made.getvalue()


def image_as_bytes(pixels: Any) -> bytes:
    """Return an image, uint8 of shape (height, width, 3) or (height, width), as PNG."""
    from PIL import Image

    made = io.BytesIO()
    Image.fromarray(pixels).save(made, format="PNG")
    return made.getvalue()
