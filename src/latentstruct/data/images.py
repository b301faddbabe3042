"""Images and label images: safe reading, and writing predictions and overlays.

Pillow is loaded when the first image is read or written.
"""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.exceptions import Description, FormatError, InputError, missing_package
from latentstruct.io.annotated import UNREAD_SUFFIXES
from latentstruct.io.file_sources import FileSource
from latentstruct.io.text import BOM, FilePath, decode_line, fail, numbered_lines, path_text

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

__all__ = [
    "ImageFiles",
    "draw_overlay",
    "label_code",
    "label_colors",
    "label_name",
    "parse_image",
    "parse_label_image",
    "parse_label_names",
    "read_label_names",
    "require_vision",
    "write_label_image",
]

Pixels = NDArray[np.uint8]
Color = tuple[int, int, int]

JPEGS = ("JPEG", "MPO")
"""Pillow's name for a JPEG that contains further images."""
FORMATS = ("PNG", "JPEG", "BMP", "PPM")
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm")
MAX_PIXELS = 50_000_000
"""Maximum number of pixels, checked before decoding."""
MAX_SIDE = 65_535
"""Maximum pixels of a side: that of formats with 16-bit headers."""
MAX_SCANS, SCAN = 100, b"\xff\xda"
"""Maximum scans of a progressive JPEG, each as slow as the whole image, and their marker."""
MAX_BYTES = 2**28
"""Maximum bytes of a compressed image, checked before reading."""
MAX_LABELS = 256
COLOR_NAME = re.compile(r"#[0-9a-f]{6}")
BUFFER = re.compile(r" *<_io\.BytesIO[^>]*>")

PALETTE: tuple[Color, ...] = (
    (42, 157, 63),
    (36, 100, 196),
    (232, 163, 23),
    (204, 43, 43),
    (128, 72, 176),
    (20, 170, 180),
    (233, 109, 170),
    (140, 98, 57),
    (170, 200, 40),
    (95, 105, 118),
)


def require_vision() -> None:
    """Raise unless images can be read."""
    for module, package in (("PIL", "pillow"), ("skimage", "scikit-image")):
        if find_spec(module) is None:
            raise missing_package(package, "read images", "vision")


def _decode(raw: bytes, name: str) -> "tuple[PillowImage, str | None]":
    """Return a decoded image and its format, checking the header before its pixels are decoded."""
    require_vision()
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            # Pillow warns of decompression bombs below our limit and of odd metadata, which is not used.
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(raw), formats=FORMATS)
            width, height = image.size
            n_scans = raw.count(SCAN) if image.format in JPEGS else 0
            fits = min(width, height) > 0 and max(width, height) <= MAX_SIDE and width * height <= MAX_PIXELS
            if fits and n_scans <= MAX_SCANS:
                image.load()
                return ImageOps.exif_transpose(image), image.format
    except Image.DecompressionBombError as error:
        raise FormatError(name, Description(str(error)), f"an image of at most {MAX_PIXELS} pixels") from error
    except Exception as error:
        # Decoders raise many types of errors for damaged images.
        # Pillow names the buffer, which means nothing to users.
        got = Description(f"{type(error).__name__}: {repr_short(BUFFER.sub('', str(error)), 120)}")
        expected = f"a complete {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image"
        raise FormatError(name, got, expected) from error
    if fits:
        raise FormatError(name, Description(f"{n_scans} scans"), f"a JPEG of at most {MAX_SCANS} scans")
    expected = f"an image of at most {MAX_PIXELS} pixels, and 1 to {MAX_SIDE} on each side"
    raise FormatError(name, Description(f"{width} × {height} pixels"), expected)


def parse_image(raw: bytes, name: str = "the image") -> Pixels:
    """Decode a PNG, JPEG, BMP or PPM file as red, green and blue, (height, width, 3); `name` is that of the file.

    Transparency is dropped, grays are repeated, 16 bits are scaled to 8.
    """
    image, _ = _decode(raw, name)
    if image.mode.startswith("I"):
        return np.repeat((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)[..., None], 3, axis=2)
    return np.array(image.convert("RGB"), dtype=np.uint8)


def parse_label_image(raw: bytes, name: str = "the label image", colors: bool | None = None) -> NDArray[np.int64]:
    """Decode a PNG, BMP or PPM file whose pixels are labels, (height, width); `name` is that of the file.

    Labels are the numbers of a palette or gray values, 0 to 255, or colors as 256 + 65536 red + 256 green + blue; see
    `label_name`. With `colors`, a palette is applied. By default the file determines it.
    """
    image, kind = _decode(raw, name)
    if kind in JPEGS:
        raise FormatError(name, Description("a JPEG, which blurs labels"), "a lossless image such as PNG")
    numbered = image.mode in ("1", "L", "P")
    if not numbered and image.mode not in ("RGB", "RGBA", "PA"):
        raise FormatError(name, Description(f"pixels of type {image.mode!r}"), "a palette, 8-bit grays or RGB")
    if colors is False and not numbered:
        raise FormatError(name, Description("colors"), "a palette or grays, as in the other label images")
    if colors and image.mode in ("1", "L"):
        raise FormatError(name, Description("grays"), "colors, as in the other label images")
    if numbered and not colors:
        return np.array(image).astype(np.int64)
    rgb = np.array(image.convert("RGB")).astype(np.int64)
    found: NDArray[np.int64] = MAX_LABELS + rgb[..., 0] * 65536 + rgb[..., 1] * 256 + rgb[..., 2]
    return found


def label_name(code: int) -> str:
    """Return the text of a label: a number, or a color such as #ff8000."""
    return str(code) if code < MAX_LABELS else f"#{code - MAX_LABELS:06x}"


def label_code(name: str) -> int:
    """Return the code in a label image of the text of a label."""
    text = name.strip().lower()
    if COLOR_NAME.fullmatch(text):
        return MAX_LABELS + int(text[1:], 16)
    if re.fullmatch(r"[0-9]{1,3}", text, re.ASCII) and int(text) < MAX_LABELS:
        return int(text)
    raise InputError("label", name, "a number from 0 to 255 or a color such as #000000")


def read_label_names(path: FilePath) -> dict[int, str]:
    """Read the names of labels by their codes, from lines such as ``3 tree`` or ``#ff0000 car``, or empty ones."""
    file = path_text(path)
    return _label_names(numbered_lines(file), file)


def parse_label_names(raw: bytes, file: str) -> dict[int, str]:
    """Read names from the contents of a file; `file` is its name in error messages."""
    return _label_names(enumerate(io.BytesIO(raw.removeprefix(BOM)), 1), file)


def _label_names(lines: Iterable[tuple[int, bytes]], file: str) -> dict[int, str]:
    called = {}
    for number, raw in lines:
        line = decode_line(raw, file, number).strip()
        if not line:
            continue
        label, _, shown = line.partition("\t" if "\t" in line else " ")
        try:
            code = label_code(label)
        except InputError:
            fail(file, number, label, "a label such as 3 or #ff0000 and its name")
        if not shown.strip():
            fail(file, number, label, "a label such as 3 or #ff0000 and its name")
        called[code] = shown.strip()
    return called


def label_colors(codes: Sequence[int]) -> list[Color]:
    """Return the display colors of labels: their own, or those of a fixed palette in the given order."""
    return [
        _unpack(code) if code >= MAX_LABELS else _vary(PALETTE[k % len(PALETTE)], k // len(PALETTE))
        for k, code in enumerate(codes)
    ]


def _unpack(code: int) -> Color:
    rgb = code - MAX_LABELS
    return rgb >> 16, rgb >> 8 & 255, rgb & 255


def _vary(color: Color, turn: int) -> Color:
    """Return a color that is lighter after each cycle through the palette."""
    share = 1.0 - 0.8**turn
    red, green, blue = (round(value + share * (255 - value)) for value in color)
    return red, green, blue


class ImageFiles:
    """The images of a folder or of a zip archive, or a single one, read on access.

    Subfolders of a folder are ignored; those of an archive are included. ``-`` is a zip archive on standard input.
    `names` are the sorted names of the images without their extensions, `unread` has the names and files of other
    images, of unsupported types.
    """

    def __init__(self, path: FilePath | FileSource) -> None:
        self._source = path if isinstance(path, FileSource) else FileSource(path)
        self.path = self._source.path
        self._members: dict[str, str] = {}
        self.unread: dict[str, str] = {}
        for member in self._source.members:
            base = Path(member)
            if base.suffix.lower() in UNREAD_SUFFIXES:
                self.unread[base.stem] = member
            if base.suffix.lower() not in SUFFIXES:
                continue
            if base.stem in self._members:
                got = Description(f"{self._members[base.stem]} and {member}")
                raise FormatError(self.path, got, "one image per name")
            self._members[base.stem] = member
        # The same image may also exist in a supported type.
        self.unread = {name: member for name, member in self.unread.items() if name not in self._members}
        self.names = sorted(self._members)
        if not self.names:
            raise self._without_images()

    def _without_images(self) -> FormatError:
        source = self._source
        if self.unread:
            return FormatError(self.path, Description(self.why_unread(next(iter(self.unread)))), "images")
        if not source.several:
            expected = f"a folder or zip archive of images, or an image ({', '.join(SUFFIXES)})"
            return FormatError(self.path, Description("another file"), expected, "Labels come after the images.")
        hint = None if source.packed else "Images in subfolders are not read."
        return FormatError(self.path, Description("no images"), f"files that end in {', '.join(SUFFIXES)}", hint)

    def why_unread(self, name: str) -> str:
        """Return the message for an image of an unsupported type."""
        return (
            f"{self._source.shown(self.unread[name])} has an unsupported type, not one of "
            f"({', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]})"
        )

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def file(self, name: str) -> str:
        """Return the file of an image for error messages."""
        return self._source.shown(self._members[name])

    def member(self, name: str) -> str:
        """Return the file of an image within the folder or archive."""
        return self._members[name]

    def beside(self, file: str, limit: int) -> tuple[str, bytes] | None:
        """Return the path and contents of another file in the folder; None if it does not exist."""
        member = self._source.find(file)
        return None if member is None else (self._source.shown(member), self._source.read(member, limit))

    def raw(self, name: str) -> bytes:
        """Return the contents of the file of an image."""
        return self._source.read(self._members[name], MAX_BYTES)

    def image(self, name: str) -> Pixels:
        """Return an image as uint8 array of shape (height, width, 3)."""
        return parse_image(self.raw(name), self.file(name))

    def labels(self, name: str, colors: bool | None = None) -> NDArray[np.int64]:
        """Return a label image as `parse_label_image` does."""
        return parse_label_image(self.raw(name), self.file(name), colors)

    def palette_place(self, name: str, code: int) -> int | None:
        """Return the index of a color in the palette of an image, −1 if none, None without a palette.

        `code` is that of `label_code`. Of several indices one that occurs is preferred.
        """
        image, _ = _decode(self.raw(name), self.file(name))
        if image.mode != "P":
            return None
        table = np.array(image.getpalette("RGB")).reshape(-1, 3)
        places = np.flatnonzero((table == _unpack(code)).all(axis=1))
        used = places[np.isin(places, np.asarray(image))]
        return int((used if len(used) else places)[0]) if len(places) else -1


def write_label_image(path: FilePath, labels: Any, codes: Sequence[int]) -> None:
    """Write a label image as PNG with a palette; `parse_label_image` is the inverse.

    `labels` (height, width) are positions in `codes`. Codes below 256 become the numbers of the file; colors become its
    palette.
    """
    require_vision()
    from PIL import Image

    values = np.asarray(codes, dtype=np.int64)
    table = np.zeros((MAX_LABELS, 3), dtype=np.uint8)
    places = np.arange(len(values)) if (values >= MAX_LABELS).all() else values
    table[places] = label_colors(codes)
    image = Image.fromarray(places[np.asarray(labels)].astype(np.uint8))
    image.putpalette(table.tobytes())
    image.save(path_text(path), format="PNG", optimize=True)


def draw_overlay(
    image: Any, labels: Any, names: Sequence[str], colors: Sequence[Color], opacity: float = 0.5
) -> Pixels:
    """Draw labels over an image, with a legend of their names and colors below.

    `labels` (height, width) are indices, −1 for none; `opacity` is the weight of the colors relative to the image.
    """
    places = np.asarray(labels)
    known = places >= 0
    table = np.asarray(colors, dtype=np.float64).reshape(-1, 3)
    picture = np.asarray(image, dtype=np.float64).copy()
    picture[known] = (1.0 - opacity) * picture[known] + opacity * table[places[known]]
    border = np.zeros(places.shape, dtype=bool)
    border[1:] |= places[1:] != places[:-1]
    border[:, 1:] |= places[:, 1:] != places[:, :-1]
    picture[border] = 255.0
    found = np.unique(places[known])
    legend = _draw_legend(places.shape[1], [names[k] for k in found], [colors[k] for k in found])
    return np.vstack([picture.round().astype(np.uint8), legend])


def _draw_legend(width: int, names: Sequence[str], colors: Sequence[Color]) -> Pixels:
    """Draw swatches with names, in as many lines as needed."""
    require_vision()
    from PIL import Image, ImageDraw, ImageFont

    size, margin, swatch = 12, 5, 12
    font = ImageFont.load_default(size)
    line, places, x, y = size + 2 * margin, [], margin, 0
    for name in names:
        needed = swatch + 4 + int(font.getlength(name)) + 2 * margin
        if x > margin and x + needed > width:
            x, y = margin, y + line
        places.append((x, y))
        x += needed
    image = Image.new("RGB", (width, y + line), (255, 255, 255))
    pen = ImageDraw.Draw(image)
    for name, color, (left, top) in zip(names, colors, places, strict=True):
        pen.rectangle((left, top + margin, left + swatch, top + margin + swatch), fill=color, outline=(60, 60, 60))
        pen.text((left + swatch + 4, top + margin - 1), name, fill=(30, 30, 30), font=font)
    return np.array(image)
