"""Sequences: promoters, origins of replication and aligned proteins."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short, short_repr
from latentstruct.exceptions import Description, FormatError
from latentstruct.io.alignments import SequencePairs, parse_alignments
from latentstruct.io.fasta import Sequences, read_fasta
from latentstruct.io.text import NUMBER, Source
from latentstruct_papers.datasets.home import loader, read_archive

_PROMOTER = re.compile(r"([+-])\s*,\s*([^,\s]+)\s*,\s*([acgtACGT]+)")
_ACS = re.compile(r"(?:^|\s)acs=(\S*)")
_SITE = re.compile(r"(\d{1,9})-(\d{1,9})([+-])", re.ASCII)
_PREFAB = "bench1.0/prefab4/ref/"
_IDENTITIES = "bench1.0/prefab4/info/pctids.txt"
_LARGEST_FILE = 1_000_000
"""Largest size of a member: those of PREFAB have at most 3 kB, and the list of identities 50 kB."""


@dataclass(frozen=True, eq=False)
class UciPromoters:
    """Sequences of E. coli; half of them are promoters.

    Parameters
    ----------
    names : list of str
        Names of the sequences.
    X : list of str
        Their letters, in upper case.
    Y : array of shape (n,)
        +1 for promoters, −1 for others.
    """

    names: list[str]
    X: list[str]
    Y: NDArray[np.int64]

    __repr__ = short_repr


@loader("uci_promoters/promoters.data")
def load_uci_promoters(paths: list[Path]) -> UciPromoters:
    """Load the promoters from ``uci_promoters/promoters.data`` in the data home.

    Each line of the file has ``+`` or ``-``, a name and letters, separated by commas.

    Returns
    -------
    UciPromoters
        Names, sequences and labels.
    """
    source, rows = Source.open(paths[0]), []
    for text in map(str.strip, source.texts()):
        if text:
            found = _PROMOTER.fullmatch(text)
            if found is None:
                source.fail(text, "'+,name,letters'")
            rows.append(found.groups())
    if not rows:
        raise FormatError(source.name, Description("no sequences"), "lines '+,name,letters'")
    labels, names, letters = zip(*rows, strict=True)
    return UciPromoters(list(names), list(map(str.upper, letters)), np.array([int(f"{sign}1") for sign in labels]))


@dataclass(frozen=True)
class YeastArs:
    """Autonomously replicating sequences (ARS) of baker's yeast.

    Parameters
    ----------
    positives : Sequences
        The ARS.
    acs : list of list of (int, int, int)
        Start, end (one past the last letter) and strand (+1 or −1) of the annotated ARS consensus sequences of each
        positive: one for most, several for a few, none where the position is unknown.
    negatives : Sequences
        Intergenic sequences away from all known origins.
    """

    positives: Sequences
    acs: list[list[tuple[int, int, int]]]
    negatives: Sequences

    __repr__ = short_repr


@loader("yeast_ars/ars_positive.fa", "yeast_ars/intergenic_negative.fa.gz")
def load_yeast_ars(paths: list[Path]) -> YeastArs:
    """Load the origins of replication from ``yeast_ars`` in the data home.

    Returns
    -------
    YeastArs
        Positive sequences, annotated sites and negative sequences.
    """
    positives, negatives = map(read_fasta, paths)
    acs = [
        _sites(paths[0], f"the header of {repr_short(name)}", description, len(letters))
        for name, description, letters in zip(positives.names, positives.descriptions, positives.sequences, strict=True)
    ]
    return YeastArs(positives, acs, negatives)


def _sites(path: Path, where: str, description: str, length: int) -> list[tuple[int, int, int]]:
    """Return the annotated sites in a header."""
    entry = _ACS.search(description)
    listed = [] if entry is None or entry[1] == "none" else entry[1].split(",")
    found = [_SITE.fullmatch(site) for site in listed]
    if entry is None or None in found:
        got = Description("nothing") if entry is None else entry[0].strip()
        raise FormatError(path, got, f"acs=none, or sites such as acs=157-174+, in {where}")
    sites = [(int(one[1]), int(one[2]), 1 if one[3] == "+" else -1) for one in found if one is not None]
    for start, end, _ in sites:
        if not start < end <= length:
            raise FormatError(path, Description(f"{start}-{end}"), f"sites within the {length} letters in {where}")
    return sites


@dataclass(frozen=True)
class Prefab(SequencePairs):
    """Pairs of proteins with their reference alignments.

    Parameters
    ----------
    names, sequences, matches
        As in `SequencePairs`: names of proteins are those of the Protein Data Bank with a letter for the chain.
    ids : list of n str
        The names of the pairs in PREFAB.
    identities : array of shape (n,)
        Percentage of equal letters among the aligned ones, NaN if it is not listed.
    """

    ids: Sequence[str] = ()
    identities: NDArray[np.float64] | None = None

    __repr__ = short_repr


@loader("protein_alignments/bench1.0_bali3_ox_sabre_prefab4ref.tar.gz")
def load_prefab(paths: list[Path]) -> Prefab:
    """Load the 1681 reference pairs of PREFAB 4 from R. Edgar's collection bench 1.0 in the data home.

    The file is ``protein_alignments/bench1.0_bali3_ox_sabre_prefab4ref.tar.gz``. It is read in memory; nothing is
    unpacked. Only columns in upper case are aligned: lower-case letters belong to the sequences, but their alignment
    is unknown.

    Returns
    -------
    Prefab
        The pairs in the order of their names.
    """
    (path,) = paths
    files = read_archive(
        path, lambda name: name == _IDENTITIES or name.startswith(_PREFAB), f"files {_PREFAB}*", _LARGEST_FILE
    )
    listed = Source(enumerate(files.pop(_IDENTITIES, b"").splitlines(), 1), f"{path}:{_IDENTITIES}")
    identities = _parse_identities(listed)
    if not files:
        raise FormatError(path, Description("none"), f"files {_PREFAB}*")
    names, sequences, matches = [], [], []
    for member, content in files.items():
        pair = parse_alignments(Source(enumerate(content.splitlines(), 1), f"{path}:{member}"))
        if len(pair) != 1 or pair.matches is None:
            raise FormatError(f"{path}:{member}", Description(f"{len(pair)} pairs"), "one pair")
        names += pair.names
        sequences += pair.sequences
        matches += pair.matches
    ids = [member.removeprefix(_PREFAB) for member in files]
    return Prefab(names, sequences, matches, ids, np.array([identities.get(one, np.nan) for one in ids]))


def _parse_identities(source: Source) -> dict[str, float]:
    """Read lines ``pair;percentage``."""
    found: dict[str, float] = {}
    for text in source.texts():
        pair, _, percentage = text.strip().partition(";")
        if pair:
            if not NUMBER.fullmatch(percentage) or not 0 <= float(percentage) <= 100:
                source.fail(percentage, "a percentage from 0 to 100")
            found[pair] = float(percentage)
    return found


@dataclass(frozen=True)
class ProteinStructures(SequencePairs):
    """Pairs of proteins with reference alignments and the secondary structure of both.

    Parameters
    ----------
    names, sequences, matches
        As in `SequencePairs`.
    structures : list of n (str, str)
        H (helix), E (strand), C (coil) or - (unknown) of each letter of both proteins.
    sets : list of n str
        The reference set of each pair. Pairs of one set are related.
    identities : array of shape (n,)
        Percentage of equal letters among the aligned ones.
    """

    structures: Sequence[tuple[str, str]] = ()
    sets: Sequence[str] = ()
    identities: NDArray[np.float64] | None = None

    __repr__ = short_repr


class _StructurePair(msgspec.Struct):
    """A line of pairs_ss.jsonl; further fields are ignored."""

    id: str
    a: str
    b: str
    row_a: str
    row_b: str
    ss_a: str
    ss_b: str
    core_identity: float


@loader("protein_pairs_ss/pairs_ss.jsonl[.gz]")
def load_protein_structures(paths: list[Path]) -> ProteinStructures:
    """Load pairs of proteins with secondary structure from ``protein_pairs_ss/pairs_ss.jsonl.gz`` in the data home.

    Each line is a JSON object with ``id`` (collection/set/…), the names ``a`` and ``b``, the aligned rows ``row_a`` and
    ``row_b`` with core columns in upper case, the structures ``ss_a`` and ``ss_b`` along the sequences without gaps,
    and ``core_identity`` from 0 to 1.

    Returns
    -------
    ProteinStructures
        The pairs in the order of the file.
    """
    source = Source.open(paths[0])
    found: list[tuple[_StructurePair, SequencePairs]] = []
    for line in source:
        try:
            pair = msgspec.json.decode(line, type=_StructurePair)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            expected = "an object with id, a, b, row_a, row_b, ss_a, ss_b and core_identity"
            source.fail(Description(str(error).replace("`", "")), expected)
        records = [f">{pair.a}", pair.row_a, f">{pair.b}", pair.row_b]
        lines = ((source.line, record.encode()) for record in records)
        aligned = parse_alignments(Source(lines, source.name))
        lengths = tuple(map(len, aligned.sequences[0]))
        given = (len(pair.ss_a), len(pair.ss_b))
        if given != lengths or not set(pair.ss_a + pair.ss_b) <= set("HEC-"):
            expected = f"structures of {lengths[0]} and {lengths[1]} letters H, E, C and -"
            source.fail(Description(f"{given[0]} and {given[1]}"), expected)
        found.append((pair, aligned))
    if not found:
        source.fail(Description("none"), "one pair per line", line=1)
    return ProteinStructures(
        [one.names[0] for _, one in found],
        [one.sequences[0] for _, one in found],
        [one.matches[0] for _, one in found if one.matches is not None],
        [(pair.ss_a, pair.ss_b) for pair, _ in found],
        ["/".join(pair.id.split("/")[:2]) for pair, _ in found],
        np.array([100.0 * pair.core_identity for pair, _ in found]),
    )
