"""The files of motif models: sequences with a motif and without, and known sites."""

import math
import warnings
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from latentstruct.cli.common import NOTHING, refuse_prepared
from latentstruct.cli.declaring import option
from latentstruct.cli.options import HeldOut
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.progress.display import Progress, show_percent

if TYPE_CHECKING:
    from latentstruct.data.alphabets import Alphabet
    from latentstruct.io import Sequences
    from latentstruct.io.fasta import FastaRules
    from latentstruct.tasks.motif.sites import Site

SITE_COLUMNS = ("sequence", "start", "end")
ONE_SIDED = 0.95
LEAST_SHUFFLED = 50
MOST_POOL = 20
"""Background sequences per positive one from which matched ones are chosen."""
PARTS = ("positive", "negative", "background")
KnownSites = dict[str, list[tuple[int, int]]]


@dataclass(frozen=True, kw_only=True)
class MotifFileOptions:
    """The files to train on: one with labels in its headers, or one per part; background may be used with both."""

    files: ClassVar[tuple[str, ...]] = ("data", "positive", "negative", "background", "valid")

    data: str | None
    positive: str | None = option(None, "Sequences with the motif.", metavar="FASTA")
    negative: str | None = option(None, "Sequences without the motif, at full weight.", metavar="FASTA")
    background: str | None = option(
        None, "Many sequences mostly without the motif, at --background-weight.", metavar="FASTA"
    )
    alphabet: Literal["dna", "protein"] = option(
        "dna", "Letters of the sequences: dna (also RNA) or protein.", metavar="NAME"
    )

    @property
    def letters(self) -> "Alphabet":
        """The letters of the sequences."""
        from latentstruct.data.alphabets import ALPHABETS

        return ALPHABETS[self.alphabet]

    def check_files(self) -> None:
        """Raise before anything is read if the files contradict each other."""
        check_one_form(self.data, self.positive, self.negative)
        if self.data is None and self.positive is None:
            raise InputError("positive", NOTHING, "given if there is no `data` with label=1 or label=-1 in its headers")

    def read(self, reader: "Reader") -> "MotifData":
        """Read the sequences; there may be only positive ones."""

        def read(name: str | None) -> "Sequences | None":
            return None if name is None else reader.read(name)

        if self.data is None:
            parts = reader.read(self.positive or ""), read(self.negative)
        else:
            positive, others = reader.read_both(self.data)
            parts = positive, others if len(others) else None
        return MotifData(*parts, read(self.background), self.letters)


@dataclass(frozen=True)
class Reader:
    """Reads sequences that are long enough for a motif of the given width."""

    width: int
    rules: "FastaRules"
    progress: Progress = field(default_factory=lambda: Progress(quiet=True))

    @classmethod
    def of(cls, task: Any, skip_bad: bool) -> "Reader":
        """Return the reader of sequences for a task."""
        from latentstruct.data.alphabets import ALPHABETS
        from latentstruct.io.fasta import FastaRules

        return cls(task.width, FastaRules(skip_bad, alphabet=ALPHABETS[task.alphabet]))

    def read(self, name: str) -> "Sequences":
        """Read sequences from a file."""
        from latentstruct.io import read_fasta

        sequences = read_fasta(name, self.rules)
        return sequences.choose(self._usable(sequences, name))

    def read_both(self, name: str) -> "tuple[Sequences, Sequences]":
        """Read sequences with the motif and without it from one file with labels in its headers."""
        from latentstruct.io.fasta import read_labeled_fasta

        sequences, labels = read_labeled_fasta(name, self.rules)
        usable = self._usable(sequences, name)
        positive, negative = (
            sequences.choose([fits and sign * label > 0 for fits, label in zip(usable, labels, strict=True)])
            for sign in (1, -1)
        )
        if not len(positive):
            raise no_positives(name)
        return positive, negative

    def _usable(self, sequences: "Sequences", name: str) -> list[bool]:
        """Return which sequences are long enough; raise if one is not, unless such sequences are left out."""
        alphabet = self.rules.alphabet
        widest = [alphabet.longest_known(sequence) for sequence in sequences]
        usable = [longest >= self.width for longest in widest]
        if not all(usable):
            first = usable.index(False)
            hint = None if self.rules.skip_bad else "Or leave it out with `skip_bad`."
            error = too_narrow(name, sequences.names[first], widest[first], self.width, alphabet, hint)
            if not self.rules.skip_bad or not any(usable):
                raise error
            warnings.warn(
                f"{usable.count(False)} of {len(usable)} sequences left out; the first: {error}", stacklevel=2
            )
        self.progress.say(f"read {usable.count(True)} sequences from {name}")
        return usable


def no_negatives(name: str | None) -> FormatError:
    """Return the error of a file without negative sequences."""
    return FormatError(str(name), Description("none"), "sequences with label=-1", "Or pass `background`.")


def no_positives(name: str | None) -> FormatError:
    """Return the error of a file without positive sequences."""
    return FormatError(str(name), Description("none"), "sequences with label=1")


class MotifParts(ABC):
    """Sequences to train on: positive ones, negative ones and background."""

    @property
    @abstractmethod
    def counts(self) -> tuple[int, int, int]:
        """The numbers of sequences of the parts."""

    @abstractmethod
    def positives(self) -> "Iterator[Sequences]":
        """Yield the positive sequences in one or several parts."""

    @abstractmethod
    def negatives(self) -> tuple[list[str], int]:
        """Return negative and background sequences, some of them if there are many, and the length of the longest."""

    @abstractmethod
    def errors(self, estimator: Any) -> dict[str, float]:
        """Return the error of a model on each part."""

    @abstractmethod
    def training(self, background_weight: float) -> tuple[Any, Any, Any]:
        """Return sequences, labels and weights."""

    def even_weight(self) -> float:
        """Return the weight of a background sequence such that all of them weigh as much as the positive ones."""
        n_positive, _, n_background = self.counts
        return min(1.0, n_positive / max(n_background, 1))

    def warn_if_one_sided(self, errors: dict[str, float]) -> None:
        """Warn of a model that predicts one class for nearly all sequences."""
        _, n_negative, n_background = self.counts
        n_mistaken = n_negative * errors.get("negative", 0.0) + n_background * errors.get("background", 0.0)
        mistaken = n_mistaken / (n_negative + n_background)
        if mistaken > ONE_SIDED:
            warnings.warn(
                f"{show_percent(mistaken)} of the negative and background sequences are predicted positive. Use more "
                "negatives (--negative), a larger --background-weight or a larger -C.",
                stacklevel=2,
            )
        if errors["positive"] > ONE_SIDED:
            warnings.warn(
                f"{show_percent(errors['positive'])} of the positive sequences are predicted negative. Use a larger "
                "-C, a smaller --background-weight or another --width.",
                stacklevel=2,
            )


@dataclass(frozen=True)
class MotifData(MotifParts):
    """Sequences in memory, in the order positive, negative, background."""

    positive: "Sequences"
    negative: "Sequences | None"
    background: "Sequences | None"
    alphabet: "Alphabet"

    @property
    def parts(self) -> dict[str, "Sequences"]:
        """The nonempty parts by their names."""
        found = zip(PARTS, (self.positive, self.negative, self.background), strict=True)
        return {name: part for name, part in found if part is not None}

    @property
    def counts(self) -> tuple[int, int, int]:
        n_positive, n_negative, n_background = (len(self.parts.get(name, ())) for name in PARTS)
        return n_positive, n_negative, n_background

    def positives(self) -> "Iterator[Sequences]":
        yield self.positive

    def negatives(self) -> tuple[list[str], int]:
        longest = max(len(sequence) for part in self.parts.values() for sequence in part.sequences)
        return self.judged().negative.sequences, longest

    def errors(self, estimator: Any) -> dict[str, float]:
        called = {name: estimator.decision_function(part.sequences) > 0 for name, part in self.parts.items()}
        return {name: float((found != (name == "positive")).mean()) for name, found in called.items()}

    def judged(self) -> "JudgedSequences":
        """Return sequences with the motif and without it, background among the latter."""
        from latentstruct.io import Sequences

        others = [part for part in (self.negative, self.background) if part is not None]
        return JudgedSequences(self.positive, sum(others, Sequences([], [], [])))

    def with_shuffled(self, k: int, seed: int) -> "MotifData":
        """Return the positive sequences with shuffled copies as negative ones.

        There is one copy of each sequence. Of few sequences there are more, which are background: chance decides less
        then about the motif and its width.
        """
        from latentstruct.io import Sequences
        from latentstruct.tasks.motif.background import shuffle_sequences

        n_copies = -(-LEAST_SHUFFLED // len(self.positive))
        names, shuffled = [], []
        for copy in range(n_copies):
            shuffled += shuffle_sequences(self.positive.sequences, k, seed + copy, self.alphabet)
            names += [f"{name}_shuffled{copy + 1}" for name in self.positive.names]
        made = Sequences(names, [""] * len(names), shuffled)
        return replace(self, background=made) if n_copies > 1 else replace(self, negative=made)

    def with_matched(self, seed: int) -> "MotifData":
        """Return the positive sequences with one part of the background for each as negative ones."""
        import numpy as np

        from latentstruct.io import Sequences
        from latentstruct.tasks.motif.background import match_negatives

        assert self.background is not None
        if len(self.background) < len(self.positive):
            found = Description(f"{len(self.background)} sequences")
            raise InputError("background", found, f"at least {len(self.positive)} with `match`, one per positive")
        rng = np.random.default_rng(seed)
        pool = self.background
        if len(pool) > MOST_POOL * len(self.positive):
            kept = set(rng.choice(len(pool), MOST_POOL * len(self.positive), replace=False).tolist())
            pool = pool.choose([i in kept for i in range(len(pool))])
        group = next(iter(self.alphabet.contrasts.values()))
        matched = match_negatives(self.positive.sequences, pool.sequences, group, rng)
        names = [pool.names[i] for i in matched.sources]
        return replace(self, negative=Sequences(names, [""] * len(names), matched.sequences), background=None)

    def warn_of_differences(self) -> None:
        """Warn if positive and negative sequences differ in letters, length or repeats."""
        from latentstruct.tasks.motif.background import describe_differences

        judged = self.judged()
        found = describe_differences(judged.positive.sequences, judged.negative.sequences, self.alphabet)
        if found:
            warnings.warn(
                f"positive and negative sequences differ in {', '.join(found)}. The model may learn this instead of a "
                "motif: use --shuffle, or --background with --match.",
                stacklevel=2,
            )

    def check_apart(self) -> None:
        """Warn of sequences that are both positive and negative; raise if all positive ones are."""
        both = {sequence.upper() for part in (self.negative, self.background) if part for sequence in part.sequences}
        pairs = zip(self.positive.names, self.positive.sequences, strict=True)
        warn_of_twice([name for name, sequence in pairs if sequence.upper() in both], len(self.positive))

    def training(self, background_weight: float) -> tuple[list[str], list[int], list[float]]:
        n_positive, n_negative, n_background = self.counts
        labels = [1] * n_positive + [-1] * (n_negative + n_background)
        weights = [1.0] * (n_positive + n_negative) + [background_weight] * n_background
        return [sequence for part in self.parts.values() for sequence in part.sequences], labels, weights


def warn_of_twice(twice: Sequence[str], n_positive: int) -> None:
    """Warn of positive sequences that are negative too; raise if all positive ones are."""
    if len(twice) == n_positive:
        found = Description(f"all {len(twice)} positive sequences")
        raise InputError("negative", found, "other sequences than the positive ones")
    if twice:
        warnings.warn(
            f"{len(twice)} of {n_positive} positive sequences are also negative, the first is {twice[0]!r}",
            stacklevel=2,
        )


@dataclass(frozen=True)
class JudgedSequences:
    """Sequences with the motif and without it, and the known sites of the former by their names."""

    positive: "Sequences"
    negative: "Sequences"
    known: KnownSites | None = None


def check_one_form(data: str | None, positive: str | None, negative: str | None) -> None:
    """Raise if there is a file with labels in its headers, and files of one class as well."""
    for name, value in (("positive", positive), ("negative", negative)):
        if data is not None and value is not None:
            raise InputError(name, value, "left out with `data`, which has labels in its headers")


def check_negatives(negative: bool, background: bool, background_weight: float | None) -> None:
    """Raise if there are no negative sequences."""
    if not negative and not background:
        raise InputError("negative", NOTHING, "given, or `background`")
    if background_weight is None:
        return
    if not math.isfinite(background_weight) or (not negative and not background_weight):
        expected = "finite, and above 0 without `negative`"
        raise InputError("background_weight", background_weight, expected)


def too_narrow(
    name: str, title: str, widest: int, width: int, alphabet: "Alphabet", hint: str | None = None
) -> FormatError:
    """Return the error of a sequence that is too short for a motif."""
    expected = f"at least {width} consecutive letters without {alphabet.unknown}, the width of the motif"
    return FormatError(f"{name}, sequence {title!r}", Description(f"at most {widest}"), expected, hint)


def read_judged(held_out: HeldOut, task: Any, hint: str) -> JudgedSequences:
    """Read sequences with the motif and without it, and known sites; `hint` is for missing files."""
    check_one_form(held_out.data, held_out.positive, held_out.negative)
    refuse_prepared(data=held_out.data, positive=held_out.positive, negative=held_out.negative)
    reader = Reader.of(task, held_out.skip_bad)
    if held_out.data is not None:
        positive, negative = reader.read_both(held_out.data)
        if not len(negative):
            raise FormatError(held_out.data, Description("none"), "sequences with label=-1")
    elif held_out.positive is None or held_out.negative is None:
        missing = "data" if held_out.positive == held_out.negative else "positive"
        raise InputError(missing if held_out.positive is None else "negative", NOTHING, "given", hint)
    else:
        positive, negative = reader.read(held_out.positive), reader.read(held_out.negative)
    known = None if held_out.sites is None else read_known_sites(held_out.sites, [positive])
    return JudgedSequences(positive, negative, known)


def read_known_sites(name: str, positive: "Sequence[Sequences]") -> KnownSites:
    """Read start and end of known sites in positive sequences from a table with a header."""
    from latentstruct.io.delimited import Table
    from latentstruct.io.text import Source

    pairs = (zip(part.names, part.sequences, strict=True) for part in positive)
    lengths = {title: len(letters) for part in pairs for title, letters in part}
    table, sites = Table(Source.open(name), "\t"), defaultdict(list)
    fail, columns = table.source.fail, {column.removeprefix("#"): k for k, column in enumerate(table.header)}
    if not columns.keys() >= set(SITE_COLUMNS):
        fail(table.header, f"a header with the columns {', '.join(SITE_COLUMNS)}")
    for cells in table.rows:
        sequence, *ends = (cells[columns[column]] for column in SITE_COLUMNS)
        try:
            low, high = map(int, ends)
        except ValueError:
            fail(cells, "a sequence, and start and end as integers")
        if sequence not in lengths:
            fail(sequence, "the name of a positive sequence")
        if not 0 <= low < high <= lengths[sequence]:
            found = Description(f"a site from {low} to {high}")
            fail(found, f"0 ≤ start < end ≤ {lengths[sequence]}, counted from 0")
        sites[sequence].append((low, high))
    if not sites:
        fail(Description("none"), "sites, one per line below the header")
    return dict(sites)


def is_hit(site: "Site", known: KnownSites) -> bool:
    """Return whether a site overlaps a known one of its sequence by half of the shorter of both."""

    def hits(low: int, high: int) -> bool:
        overlap = min(site.end, high) - max(site.start, low)
        return 2 * overlap >= min(site.end - site.start, high - low)

    return any(hits(*place) for place in known.get(site.sequence, ()))


def site_scores(found: list[Any], known: KnownSites | None) -> dict[str, Any]:
    """Return the fraction of sequences with known sites in which one is hit; nothing if no sites are known."""
    if known is None:
        return {}
    judged = [site for site in found if site.sequence in known]
    hit = sum(is_hit(site, known) for site in judged) / len(judged)
    return {"n_known_sites": len(known), "sites_hit": hit}
