"""PREFAB 4: pairs of proteins aligned by their structures."""

import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latentstruct.datasets.home import dataset_file
from latentstruct.exceptions import FormatError
from latentstruct.formats.alignments import SequencePairs, parse_alignments
from latentstruct.formats.text import NUMBER, decode_line, fail, open_unpacked, show
from latentstruct.short_repr import short_repr

__all__ = ["Prefab", "load_prefab"]

_FILE = "protein_alignments/bench1.0_bali3_ox_sabre_prefab4ref.tar.gz"
_FOLDER = "bench1.0/prefab4/ref/"
_IDENTITIES = "bench1.0/prefab4/info/pctids.txt"
_LARGEST_FILE = 1_000_000
"""Bytes of a member: those of PREFAB have 3 kB at most, and the list of identities 50 kB."""
_MOST_FILES = 10_000


@dataclass(frozen=True)
class Prefab(SequencePairs):
    """Pairs of proteins with their reference alignments.

    Parameters
    ----------
    names, sequences, matches
        As in `SequencePairs`: the proteins' names are those of the Protein Data Bank with a letter for the chain.
    ids : list of n str
        The names of the pairs in PREFAB.
    identities : array of shape (n,)
        Percentage of equal letters among the aligned ones, NaN where it is not listed.
    """

    ids: Sequence[str] = ()
    identities: NDArray[np.float64] | None = None

    __repr__ = short_repr


def load_prefab(data_home: str | os.PathLike[str] | None = None) -> Prefab:
    """Load the 1681 reference pairs of PREFAB 4 from R. Edgar's collection bench 1.0 in the data home.

    The file is ``protein_alignments/bench1.0_bali3_ox_sabre_prefab4ref.tar.gz``. It is read in memory; nothing is
    unpacked. Only columns in upper case are aligned: lower-case letters belong to the sequences, but the reference
    does not say how they are aligned.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    Prefab
        The pairs in the order of their names.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If the file is damaged or not of this format.
    """
    path = dataset_file(data_home, _FILE)
    files = _read_members(path)
    identities = _parse_identities(files.pop(_IDENTITIES, b""), f"{path}:{_IDENTITIES}")
    if not files:
        raise FormatError(f"{path} holds no file {_FOLDER}*; expected the reference alignments there: fetch it again")
    names, sequences, matches = [], [], []
    for member in sorted(files):
        shown = f"{path}:{member}"
        pair = parse_alignments(enumerate(files[member].splitlines(), 1), shown)
        if len(pair) != 1 or pair.matches is None:
            raise FormatError(f"{shown} holds {len(pair)} pairs; expected one: fetch the archive again")
        names += pair.names
        sequences += pair.sequences
        matches += pair.matches
    ids = [member.removeprefix(_FOLDER) for member in sorted(files)]
    return Prefab(names, sequences, matches, ids, np.array([identities.get(one, np.nan) for one in ids]))


def _read_members(path: Path) -> dict[str, bytes]:
    """Return the members that belong to PREFAB by their names."""
    files: dict[str, bytes] = {}
    try:
        with open_unpacked(str(path)) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if not member.isfile() or not (name == _IDENTITIES or name.startswith(_FOLDER)):
                    continue
                if member.size > _LARGEST_FILE or len(files) >= _MOST_FILES:
                    raise ValueError(f"{name} has {member.size} bytes and is number {len(files) + 1} of its kind")
                content = archive.extractfile(member)
                assert content is not None
                files[name] = content.read()
    except Exception as error:
        # A damaged archive fails in as many ways as the format and its compression have parts.
        raise FormatError(
            f"{path} cannot be read ({type(error).__name__}: {error}); expected a complete gzip-compressed tar archive "
            f"with up to {_MOST_FILES} files {_FOLDER}* of at most {_LARGEST_FILE} bytes: fetch it again"
        ) from error
    return files


def _parse_identities(content: bytes, name: str) -> dict[str, float]:
    """Read lines ``pair;percentage``."""
    found: dict[str, float] = {}
    for number, raw in enumerate(content.splitlines(), 1):
        pair, _, percentage = decode_line(raw, name, number).strip().partition(";")
        if not pair:
            continue
        if not NUMBER.fullmatch(percentage) or not 0 <= float(percentage) <= 100:
            fail(name, number, f"found {show(percentage)}; expected a percentage from 0 to 100: fetch the file again")
        found[pair] = float(percentage)
    return found
