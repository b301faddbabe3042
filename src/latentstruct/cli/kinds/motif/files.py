"""The files of motif models: sequences with a motif and without, and known sites."""

import math
import warnings
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from typer import Option

from latentstruct.cli.options import HeldOut
from latentstruct.cli.prepared import refuse_prepared
from latentstruct.exceptions import InputError
from latentstruct.progress.display import Progress, show_percent

if TYPE_CHECKING:
    from latentstruct.io import Sequences
    from latentstruct.tasks.motif.sites import Site

SITE_COLUMNS = ("sequence", "start", "end")
ONE_SIDED = 0.95
PARTS = ("positive", "negative", "background")
KnownSites = dict[str, list[tuple[int, int]]]


@dataclass(frozen=True, kw_only=True)
class MotifFileOptions:
    """The files to train on: one whose headers have labels, or one for each part; background may go with both."""

    files: ClassVar[tuple[str, ...]] = ("data", "positive", "negative", "background", "valid")

    data: str | None
    positive: Annotated[str | None, Option(metavar="FASTA", help="Sequences that hold the motif.")] = None
    negative: Annotated[str | None, Option(metavar="FASTA", help="Sequences that do not, at full weight.")] = None
    background: Annotated[
        str | None, Option(metavar="FASTA", help="Many sequences that hardly do, at --background-weight.")
    ] = None

    def check_files(self, background_weight: float | None) -> None:
        """Raise before anything is read if the files do not go together or nothing is to be told from anything."""
        check_one_form(self.data, self.positive, self.negative)
        if self.data is None and self.positive is None:
            raise InputError(
                "there are no sequences; expected FASTA with label=1 or label=-1 in the headers, or --positive: give "
                "one of these"
            )
        check_negatives(bool(self.negative or self.data), bool(self.background), background_weight)

    def read(self, width: int, progress: Progress) -> "MotifData":
        """Read the sequences, which must have room for a motif of the given width."""

        def read(name: str | None) -> "Sequences | None":
            return None if name is None else read_sequences(name, width, progress)

        if self.data is None:
            positive = read_sequences(self.positive or "", width, progress)
            return MotifData(positive, read(self.negative), read(self.background))
        positive, others = read_both(self.data, width, progress)
        if not len(others) and self.background is None:
            raise no_negatives(self.data)
        return MotifData(positive, others if len(others) else None, read(self.background))


def no_negatives(name: str | None) -> InputError:
    """Return the error of a file without negative sequences."""
    return InputError(
        f"{name} has no sequence with label=-1; expected some that do not hold the motif: add them, or give many that "
        "hardly do as --background"
    )


class MotifParts(ABC):
    """Sequences to train on: positive ones, negative ones and background."""

    @property
    @abstractmethod
    def counts(self) -> tuple[int, int, int]:
        """How many there are of each."""

    @abstractmethod
    def positives(self) -> "Iterator[Sequences]":
        """Yield the positive sequences, all at once or some at a time."""

    @abstractmethod
    def errors(self, estimator: Any) -> dict[str, float]:
        """Return the share that a model gets wrong of each part there is."""

    @abstractmethod
    def training(self, background_weight: float) -> tuple[Any, Any, Any]:
        """Return sequences, labels and weights."""

    def even_weight(self) -> float:
        """Return the weight of a background sequence with which all of them weigh as much as the positive ones."""
        n_positive, _, n_background = self.counts
        return min(1.0, n_positive / max(n_background, 1))

    def warn_if_one_sided(self, errors: dict[str, float]) -> None:
        """Warn of a model that calls nearly all sequences positive, or nearly all negative."""
        _, n_negative, n_background = self.counts
        n_mistaken = n_negative * errors.get("negative", 0.0) + n_background * errors.get("background", 0.0)
        mistaken = n_mistaken / (n_negative + n_background)
        if mistaken > ONE_SIDED:
            warnings.warn(
                f"{show_percent(mistaken)} of the negative and background sequences are called positive, so the model "
                "hardly tells them apart: give more negatives (--negative), let them weigh more "
                "(--background-weight) or choose a larger -C",
                stacklevel=2,
            )
        if errors["positive"] > ONE_SIDED:
            warnings.warn(
                f"{show_percent(errors['positive'])} of the positive sequences are called negative, so the model "
                "hardly finds the motif: choose a larger -C, let the background weigh less (--background-weight) or "
                "choose another --width",
                stacklevel=2,
            )


@dataclass(frozen=True)
class MotifData(MotifParts):
    """Sequences in memory, in the order positive, negative, background."""

    positive: "Sequences"
    negative: "Sequences | None"
    background: "Sequences | None"

    @property
    def parts(self) -> dict[str, "Sequences"]:
        """The parts that there are, by their names."""
        found = zip(PARTS, (self.positive, self.negative, self.background), strict=True)
        return {name: part for name, part in found if part is not None}

    @property
    def counts(self) -> tuple[int, int, int]:
        n_positive, n_negative, n_background = (len(self.parts.get(name, ())) for name in PARTS)
        return n_positive, n_negative, n_background

    def positives(self) -> "Iterator[Sequences]":
        yield self.positive

    def errors(self, estimator: Any) -> dict[str, float]:
        called = {name: estimator.decision_function(part.sequences) > 0 for name, part in self.parts.items()}
        return {name: float((found != (name == "positive")).mean()) for name, found in called.items()}

    def judged(self) -> "JudgedSequences":
        """Return them as sequences with the motif and without it, background among the latter."""
        from latentstruct.io import Sequences

        others = [part for part in (self.negative, self.background) if part is not None]
        names, descriptions, sequences = (
            [value for part in others for value in getattr(part, field)]
            for field in ("names", "descriptions", "sequences")
        )
        return JudgedSequences(self.positive, Sequences(names, descriptions, sequences))

    def check_apart(self) -> None:
        """Warn of sequences that are positive and negative at once; raise if all positive ones are."""
        both = {sequence.upper() for part in (self.negative, self.background) if part for sequence in part.sequences}
        pairs = zip(self.positive.names, self.positive.sequences, strict=True)
        warn_of_twice([name for name, sequence in pairs if sequence.upper() in both], len(self.positive))

    def training(self, background_weight: float) -> tuple[list[str], list[int], list[float]]:
        n_positive, n_negative, n_background = self.counts
        labels = [1] * n_positive + [-1] * (n_negative + n_background)
        weights = [1.0] * (n_positive + n_negative) + [background_weight] * n_background
        return [sequence for part in self.parts.values() for sequence in part.sequences], labels, weights


def warn_of_twice(twice: Sequence[str], n_positive: int) -> None:
    """Warn of the named positive sequences that are negative too; raise if all positive ones are."""
    if len(twice) == n_positive:
        raise InputError(
            f"all {len(twice)} positive sequences are among the negative ones too; expected other sequences there: "
            "give another file if the same one is given twice"
        )
    if twice:
        warnings.warn(
            f"{len(twice)} of {n_positive} positive sequences are among the negative ones too, the first is "
            f"{twice[0]!r}: remove them from one of the two",
            stacklevel=2,
        )


@dataclass(frozen=True)
class JudgedSequences:
    """Sequences with the motif and without it, and the known sites of the former by their names."""

    positive: "Sequences"
    negative: "Sequences"
    known: KnownSites | None = None


def check_one_form(data: str | None, positive: str | None, negative: str | None) -> None:
    """Raise if there is a file with labels in its headers, and others that are wholly of one kind as well."""
    given = [name for name, value in (("--positive", positive), ("--negative", negative)) if value is not None]
    if data is not None and given:
        raise InputError(
            f"{data} and {' and '.join(given)} are given; expected either one file with label=1 or label=-1 in its "
            "headers, or a file for each: leave one of them out"
        )


def check_negatives(negative: bool, background: bool, background_weight: float | None) -> None:
    """Raise if there is nothing to tell the positive sequences from."""
    if not negative and not background:
        raise InputError(
            "there are no negatives: give sequences without the motif as --negative, or many that hardly hold it "
            "as --background"
        )
    if background_weight is None:
        return
    if not math.isfinite(background_weight):
        raise InputError(f"--background-weight is {background_weight}; expected a finite number: choose one")
    if not negative and not background_weight:
        raise InputError(
            "--background-weight is 0 and there are no other negatives, so nothing would count as negative: choose a "
            "larger weight, or give sequences without the motif as --negative"
        )


def read_sequences(name: str, width: int, progress: Progress) -> "Sequences":
    """Read sequences that have room for a motif of the given width."""
    from latentstruct.io import read_fasta

    return checked(read_fasta(name), name, width, progress)


def read_both(name: str, width: int, progress: Progress) -> "tuple[Sequences, Sequences]":
    """Read sequences with the motif and without it from one file with labels in its headers."""
    from latentstruct.io.fasta import read_labelled_fasta

    sequences, labels = read_labelled_fasta(name)
    checked(sequences, name, width, progress)
    if 1 not in labels:
        raise InputError(f"{name} has no sequence with label=1; expected some that hold the motif: add them")
    return sequences.choose([label > 0 for label in labels]), sequences.choose([label < 0 for label in labels])


def checked(sequences: "Sequences", name: str, width: int, progress: Progress) -> "Sequences":
    """Return sequences; raise if a motif of the given width has no room in one."""
    for title, sequence in zip(sequences.names, sequences.sequences, strict=True):
        room = room_of(sequence)
        if room < width:
            raise too_narrow(name, title, room, width)
    progress.say(f"read {len(sequences)} sequences from {name}")
    return sequences


def room_of(sequence: str) -> int:
    """Return the width of the widest motif that a sequence has room for."""
    return max(map(len, sequence.upper().split("N")))


def too_narrow(name: str, title: str, room: int, width: int) -> InputError:
    """Return the error of a sequence that has no room for a motif."""
    return InputError(
        f"{name}: the sequence {title!r} has at most {room} letters in a row without N; expected at least {width}, the "
        "width of the motif: remove it or train with a smaller --width"
    )


def read_judged(held_out: HeldOut, width: int, hint: str) -> JudgedSequences:
    """Read sequences with the motif and without it, and known sites; `hint` says what to give."""
    check_one_form(held_out.data, held_out.positive, held_out.negative)
    refuse_prepared(held_out.data, held_out.positive, held_out.negative)
    quiet = Progress(quiet=True)
    if held_out.data is not None:
        positive, negative = read_both(held_out.data, width, quiet)
        if not len(negative):
            raise InputError(f"{held_out.data} has no sequence with label=-1; expected some to compare with: add them")
    elif held_out.positive is None or held_out.negative is None:
        missing = "DATA" if held_out.positive == held_out.negative else "--positive"
        raise InputError(f"{missing if held_out.positive is None else '--negative'} is missing: {hint}")
    else:
        positive, negative = (read_sequences(name, width, quiet) for name in (held_out.positive, held_out.negative))
    known = None if held_out.sites is None else read_known_sites(held_out.sites, [positive])
    return JudgedSequences(positive, negative, known)


def read_known_sites(name: str, positive: "Sequence[Sequences]") -> KnownSites:
    """Read start and end of known sites in positive sequences from a table with a header line."""
    from latentstruct.io.text import decode_line, fail, numbered_lines, show, source_name

    lengths = {
        title: len(letters) for part in positive for title, letters in zip(part.names, part.sequences, strict=True)
    }
    shown, columns = source_name(name), None
    sites = defaultdict(list)
    for number, raw in numbered_lines(name):
        cells = decode_line(raw, shown, number).rstrip("\r\n").split("\t")
        if columns is None:
            columns = {column: k for k, column in enumerate(cells)}
            for column in SITE_COLUMNS:
                if column not in columns:
                    found, wanted = f"the column {column!r} is missing", ", ".join(SITE_COLUMNS)
                    fail(shown, number, f"{found}; expected a header line with the columns {wanted}: add it")
            continue
        try:
            sequence, start, end = (cells[columns[column]] for column in SITE_COLUMNS)
            low, high = int(start), int(end)
        except (IndexError, ValueError):
            wanted = "a sequence and its site's start and end in whole numbers from 0"
            fail(shown, number, f"found {show(cells)}; expected {wanted}: correct the line")
        if sequence not in lengths:
            found = f"the sequence {show(sequence)} is not in the positive file"
            fail(shown, number, f"{found}; expected one of its names: give the sites of these sequences only")
        if not 0 <= low < high:
            fail(shown, number, f"the site is from {low} to {high}; expected 0 ≤ start < end: correct the line")
        if high > lengths[sequence]:
            found = f"the site of the sequence {show(sequence)} ends at {high}"
            there = f"but the sequence has {lengths[sequence]} letters"
            fail(shown, number, f"{found}, {there}; expected a site within it: correct the line, and count from 0")
        sites[sequence].append((low, high))
    if not sites:
        raise InputError(f"{shown} has no sites; expected a line for each below the header line: add them")
    return dict(sites)


def is_hit(site: "Site", known: KnownSites) -> bool:
    """Tell whether a site covers half of a known one of its sequence, or half of it lies in one."""

    def hits(low: int, high: int) -> bool:
        overlap = min(site.end, high) - max(site.start, low)
        return 2 * overlap >= min(site.end - site.start, high - low)

    return any(hits(*place) for place in known.get(site.sequence, ()))


def site_scores(found: list[Any], known: KnownSites | None) -> dict[str, Any]:
    """Return the share of the sequences with known sites in which one is hit; nothing if no sites are known."""
    if known is None:
        return {}
    asked = [site for site in found if site.sequence in known]
    hit = sum(is_hit(site, known) for site in asked) / len(asked)
    return {"n_known_sites": len(known), "sites_hit": hit}
