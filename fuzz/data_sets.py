"""Readers of the data sets: arrays and archives as they lie in the data home."""

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.registry import Reader, through_file
from fuzz.texts import CONLL, GAPPED, LITBANK, TREES
from latentstruct_papers import datasets
from latentstruct_papers.datasets.idx import read_idx

ANN = "coref/tsv/a"
PAIR = "bench1.0/prefab4/ref/a"
MAMMALS = b'[{"file": "a.png", "cls": "kangaroo", "size": [7, 9], "boxes": [[1, 1, 5, 6.5]]}]'


def idx_files() -> list[bytes]:
    """Return arrays in the idx format, one of them compressed."""
    whole = b"\0\0\x08\x03" + struct.pack(">3I", 2, 3, 2) + bytes(range(12))
    reals = b"\0\0\x0d\x01" + struct.pack(">I2f", 2, 0.5, -1.0)
    return [whole, reals, gzip.compress(whole, mtime=0)]


def letters() -> list[bytes]:
    """Return an archive of handwritten words."""
    stream = io.BytesIO()
    np.savez(
        stream,
        pixels=np.zeros((3, 128), dtype=np.uint8),
        labels=np.array([0, 1, 25]),
        lengths=np.array([2, 1]),
        folds=np.array([0, 1]),
    )
    return [stream.getvalue()]


def zipped(name: str, content: bytes) -> Callable[[], list[bytes]]:
    """Return a function that packs one file, stored so that damage reaches it, and compressed."""

    def make() -> list[bytes]:
        made = []
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w", method) as archive:
                archive.writestr(name, content)
            made.append(stream.getvalue())
        return made

    return make


def tarred(files: dict[str, bytes]) -> Callable[[], list[bytes]]:
    """Return a function that makes a tar archive, not compressed yet."""

    def make() -> list[bytes]:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return [stream.getvalue()]

    return make


def compress(data: bytes, rng: Random) -> bytes:
    """Compress a damaged archive, so that the damage reaches its members; damage some of that too."""
    packed = bytearray(gzip.compress(data, 1, mtime=0))
    if rng.random() < 0.1:
        packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
    return bytes(packed)


def at_home(name: str, load: Callable[[Path], Any]) -> Callable[[Path, bytes], Any]:
    """Return a function that puts a file into a data home and loads the data set."""
    levels = name.count("/")
    return through_file(name, lambda path: load(path.parents[levels]))


def load_mammals(home: Path) -> Any:
    """Load photographs whose archive is whole."""
    from fuzz.pictures import archives

    (home / "mammals_boxes/images_max400.zip").write_bytes(archives()[0])
    return datasets.load_mammals(home)


def read_packed(load: Callable[[Path, bytes], Any]) -> Callable[[Path, bytes], Any]:
    """Return a function that also takes an archive that is not compressed, as good files are."""

    def read(folder: Path, data: bytes) -> Any:
        return load(folder, data if data[:2] == b"\x1f\x8b" else gzip.compress(data, 1, mtime=0))

    return read


READERS = (
    Reader("idx", idx_files, through_file("a-ubyte", read_idx), (b"\0\0\x08\x02", b"\xff\xff\xff\xff")),
    Reader(
        "letters",
        letters,
        at_home("ocr_letters/letters.npz", datasets.load_ocr_letters),
        (b"'shape': (3, 128)", b"'descr': '|O'", b"99999999999", b"<i8", b"PK\1\2"),
    ),
    Reader(
        "chunks", zipped("train.txt", CONLL), at_home("conll2000/conll2000.zip", datasets.load_conll2000), (b"PK\1\2",)
    ),
    Reader(
        "cess", zipped("a.tbf", TREES), at_home("cess_esp_trees/cess_esp.zip", datasets.load_cess_esp), (b"(", b")")
    ),
    Reader(
        "novels",
        tarred({f"{ANN}.ann": LITBANK, f"{ANN}.txt": b"the dog ran\nIt barked .\n"}),
        read_packed(at_home("litbank_coref/litbank_coref_conll_tsv.tar.gz", datasets.load_litbank)),
        (b"../", b"00000000000", b"ustar"),
        compress,
    ),
    Reader(
        "proteins",
        tarred({PAIR: GAPPED.partition(b">c")[0], "bench1.0/prefab4/info/pctids.txt": b"a;12.5\n"}),
        read_packed(at_home("protein_alignments/bench1.0_bali3_ox_sabre_prefab4ref.tar.gz", datasets.load_prefab)),
        (b"../", b"77777777777", b"ustar"),
        compress,
    ),
    Reader("mammals", lambda: [MAMMALS], at_home("mammals_boxes/boxes.json", load_mammals), (b"[[[", b'"boxes": []')),
    Reader(
        "promoters",
        lambda: [b"+,S10,\ttactagcaatacgctt\n-,AMPC,  tgctatcctgac\n"],
        at_home("uci_promoters/promoters.data", datasets.load_uci_promoters),
        (b"+,", b"\t"),
    ),
)
