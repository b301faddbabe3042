"""Origins of replication of yeast, with the known places of their motif, and intergenic sequences."""

import os
import re
from dataclasses import dataclass

from latentstruct.datasets.home import dataset_file
from latentstruct.exceptions import FormatError
from latentstruct.formats.fasta import Sequences, read_fasta
from latentstruct.short_repr import short_repr

__all__ = ["YeastArs", "load_yeast_ars"]

_POSITIVES = "yeast_ars/ars_positive.fa"
_NEGATIVES = "yeast_ars/intergenic_negative.fa.gz"
_ACS = re.compile(r"(?:^|\s)acs=(\S*)")
_SITE = re.compile(r"(\d{1,9})-(\d{1,9})([+-])", re.ASCII)


@dataclass(frozen=True)
class YeastArs:
    """Autonomously replicating sequences (ARS) of baker's yeast.

    Parameters
    ----------
    positives : Sequences
        The ARS.
    acs : list of list of (int, int, int)
        Start, end (one past the last letter) and strand (+1 or −1) of the annotated ARS consensus sequences of each
        positive: one for most, several for a few, none where the place is not known.
    negatives : Sequences
        Intergenic sequences away from all known origins.
    """

    positives: Sequences
    acs: list[list[tuple[int, int, int]]]
    negatives: Sequences

    __repr__ = short_repr


def load_yeast_ars(data_home: str | os.PathLike[str] | None = None) -> YeastArs:
    """Load the origins of replication from ``yeast_ars`` in the data home.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    YeastArs
        Positive sequences, annotated sites and negative sequences.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If a file is damaged or a header does not say where the site is.
    """
    path = dataset_file(data_home, _POSITIVES)
    positives = read_fasta(path)
    acs = [
        _sites(f"{path}: the header of {name}", description, len(letters))
        for name, description, letters in zip(positives.names, positives.descriptions, positives.sequences, strict=True)
    ]
    return YeastArs(positives, acs, read_fasta(dataset_file(data_home, _NEGATIVES)))


def _sites(where: str, description: str, length: int) -> list[tuple[int, int, int]]:
    """Return the annotated sites that a header names."""
    entry = _ACS.search(description)
    listed = [] if entry is None or entry[1] == "none" else entry[1].split(",")
    found = [_SITE.fullmatch(site) for site in listed]
    if entry is None or None in found:
        shown = "nothing" if entry is None else repr(entry[1])
        raise FormatError(
            f"{where} has {shown} as acs; expected acs=none, or sites such as acs=157-174+: fetch the file again"
        )
    sites = [(int(one[1]), int(one[2]), 1 if one[3] == "+" else -1) for one in found if one is not None]
    for start, end, _ in sites:
        if not start < end <= length:
            raise FormatError(
                f"{where} places a site at {start}-{end}; expected a place within {length} letters: fetch the file "
                "again"
            )
    return sites
