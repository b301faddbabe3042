"""Sequences in a folder: prepared from FASTA one by one, and used from there."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from latentstruct.cli.common import say_warnings
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.motif.command import MotifPrepareOptions
from latentstruct.cli.kinds.motif.files import (
    PARTS,
    MotifParts,
    no_negatives,
    no_positives,
    too_narrow,
    warn_of_twice,
)
from latentstruct.cli.prepared import ToPrepare, damaged_data, open_prepared, require_labels
from latentstruct.data.alphabets import Alphabet
from latentstruct.data.sharded import ShardedData
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io import Sequences
from latentstruct.io.fasta import FastaRules, each_labeled_sequence, each_sequence
from latentstruct.progress.display import Progress, caught_warnings
from latentstruct.tasks import Motif

POSITIVE, NEGATIVE, BACKGROUND = range(3)
MOST_NEGATIVES = 1000
LETTERS_TOGETHER = 200_000
"""Number of letters that are prepared at a time."""


@dataclass(frozen=True)
class StoredSequences:
    """The record of prepared sequences: their names in the order of the folder, and the narrowest one."""

    n_positive: int
    n_negative: int
    n_background: int
    names: list[str]
    least_room: int
    narrowest: str

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of sequences of the parts."""
        return self.n_positive, self.n_negative, self.n_background


def prepare(options: MotifPrepareOptions, like: Trained | None, progress: Progress) -> ToPrepare:
    """Survey sequences; letters are stored, not windows, for motifs of any width."""
    task = Motif(1, background_order=0, alphabet=options.alphabet)
    if like is not None and like.estimator.task_.alphabet != options.alphabet:
        raise InputError("alphabet", options.alphabet, f"{like.estimator.task_.alphabet}, as the model has")
    reading = MotifReading(
        options, FastaRules(alphabet=options.letters), 0 if like is None else like.estimator.task_.width
    )
    with caught_warnings() as warned:
        stored = reading.learn()
    say_warnings(warned)
    progress.say(f"read {len(stored.names)} sequences, {reading.n_letters} letters: writing them")
    task.learn(["A", "A"], [1, -1])
    counts = {} if options.unlabeled else {f"n_{name}": n for name, n in zip(PARTS, stored.counts, strict=True)}
    sizes = {**counts, "n_letters": reading.n_letters}
    return ToPrepare(task, stored, sizes, reading.blocks(mixed_kinds(stored.counts)))


def mixed_kinds(counts: tuple[int, int, int]) -> Any:
    """Return the parts of sequences in the order of a folder: evenly mixed, so that each of its files has all.

    Training with latent variables begins with the first file.
    """
    places = np.concatenate([(np.arange(n) + 0.5) / max(n, 1) for n in counts])
    return np.repeat(np.arange(len(counts)), counts)[np.argsort(places, kind="stable")]


@dataclass
class MotifReading:
    """FASTA that is read twice, sequence by sequence: to survey it, and to prepare it.

    Sequences without labels are background, of which no labels are written. `width` is that of the motif, 0 if it is
    chosen later.
    """

    files: MotifPrepareOptions
    rules: FastaRules
    width: int = 0
    names: list[list[str]] = field(default_factory=lambda: [[], [], []])
    narrow: tuple[int, str] = (2**62, "")
    n_letters: int = 0

    @property
    def labeled(self) -> bool:
        """Whether it is known which sequences are positive."""
        return not self.files.unlabeled

    def sources(self) -> list[Iterator[tuple[str, str]]]:
        """Return names and letters of the sequences of each part."""
        files = self.files
        if not self.labeled:
            return [iter(()), iter(()), self._of_file(files.data)]
        background = self._of_file(files.background)
        if files.data is None:
            return [self._of_file(files.positive), self._of_file(files.negative), background]
        return [self._of_label(files.data, 1), self._of_label(files.data, -1), background]

    def _of_file(self, name: str | None) -> Iterator[tuple[str, str]]:
        return iter(()) if name is None else ((one.name, one.letters) for one in each_sequence(name, self.rules))

    def _of_label(self, name: str, wanted: int) -> Iterator[tuple[str, str]]:
        return ((one.name, one.letters) for one, label in each_labeled_sequence(name, self.rules) if label == wanted)

    def learn(self) -> StoredSequences:
        """Read all sequences; return their record."""
        positive: dict[bytes, list[str]] = {}
        twice: set[bytes] = set()
        data = self.files.data
        paths = [data or self.files.positive, data or self.files.negative, self.files.background or data]
        for kind, source in enumerate(self.sources()):
            for name, letters in source:
                self.names[kind].append(name)
                self.n_letters += len(letters)
                widest = self.rules.alphabet.longest_known(letters)
                digest = hashlib.blake2b(letters.encode(), digest_size=16).digest()
                if widest < self.width:
                    raise too_narrow(paths[kind] or "", name, widest, self.width, self.rules.alphabet)
                self.narrow = min(self.narrow, (widest, name))
                if kind == POSITIVE:
                    positive.setdefault(digest, []).append(name)
                elif digest in positive:
                    twice.add(digest)
        self._check([name for digest, names in positive.items() if digest in twice for name in names])
        n_positive, n_negative, n_background = map(len, self.names)
        waiting = [iter(names) for names in self.names]
        kinds = mixed_kinds((n_positive, n_negative, n_background)).tolist()
        mixed = [next(waiting[kind]) for kind in kinds]
        return StoredSequences(n_positive, n_negative, n_background, mixed, *self.narrow)

    def _check(self, twice: list[str]) -> None:
        """Raise unless there are positive and negative sequences with letters; warn of those that are both."""
        n_positive, *others = map(len, self.names)
        if self.labeled and not n_positive:
            raise no_positives(self.files.data)
        if not sum(others):
            raise no_negatives(self.files.data)
        widest, name = self.narrow
        if not widest:
            alphabet = self.rules.alphabet
            raise FormatError(
                f"sequence {name!r}", Description(f"no letter but {alphabet.unknown}"), f"letters of {alphabet.kinds}"
            )
        if self.labeled:
            warn_of_twice(twice, n_positive)

    def blocks(self, kinds: Any) -> Iterator[tuple[list[str], list[int] | None]]:
        """Yield sequences and labels in the order of the folder."""
        sources = self.sources()
        X: list[str] = []
        Y: list[int] = []
        n_letters = 0
        for kind in kinds.tolist():
            found = next(sources[kind], None)
            if found is None:
                expected = f"the {len(self.names[kind])} sequences that were found before"
                raise FormatError("the data", Description("fewer"), expected, "Another process changed a file.")
            X.append(found[1])
            Y.append(1 if kind == POSITIVE else -1)
            n_letters += len(found[1])
            if n_letters >= LETTERS_TOGETHER:
                yield X, Y if self.labeled else None
                X, Y, n_letters = [], [], 0
        if X:
            yield X, Y if self.labeled else None


@dataclass(frozen=True)
class StoredMotifs(MotifParts):
    """Prepared sequences, opened."""

    data: ShardedData
    stored: StoredSequences
    alphabet: Alphabet

    @classmethod
    def open(cls, folder: str, width: int, alphabet: Alphabet) -> "StoredMotifs":
        """Open a folder whose sequences have an alphabet and are long enough for a motif of the given width."""
        found = open_prepared(folder, "motif", StoredSequences)
        stored: StoredSequences = found.record
        if not len(stored.names) == sum(stored.counts) == found.data.n_examples or min(stored.counts) < 0:
            raise damaged_data(folder, "its names do not belong to its sequences")
        task: Any = found.data.task
        if task.alphabet != alphabet.name:
            raise InputError("alphabet", alphabet.name, f"{task.alphabet}, with which {folder} was prepared")
        if stored.least_room < width:
            raise too_narrow(folder, stored.narrowest, stored.least_room, width, alphabet)
        return cls(found.data, stored, alphabet)

    @classmethod
    def of(cls, folder: str, task: Any) -> "StoredMotifs":
        """Open a folder for a trained task."""
        return cls.open(folder, task.width, task.alphabet_)

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.stored.counts

    @cached_property
    def kinds(self) -> Any:
        """The part of each sequence, shape (n,)."""
        return mixed_kinds(self.counts)

    def parts(self) -> Iterator[tuple[Sequences, Any]]:
        """Yield the sequences of each file and their parts."""
        begin = 0
        for batch in self.data.batches:
            text = self.alphabet.text(batch.layout.bases)
            end = begin + batch.n_examples
            sequences = [text[start:stop] for start, stop in pairwise(batch.layout.offsets.tolist())]
            yield Sequences(self.stored.names[begin:end], [""] * len(sequences), sequences), self.kinds[begin:end]
            begin = end

    def positives(self) -> Iterator[Sequences]:
        for sequences, kinds in self.parts():
            chosen = sequences.choose((kinds == POSITIVE).tolist())
            if len(chosen):
                yield chosen

    def errors(self, estimator: Any) -> dict[str, float]:
        called = estimator.decision_function(self.data) > 0
        parts = zip(PARTS, range(3), self.counts, strict=True)
        return {name: float((called[self.kinds == k] != (k == POSITIVE)).mean()) for name, k, n in parts if n}

    def training(self, background_weight: float) -> tuple[Any, None, Any]:
        require_labels(self.data)
        return self.data, None, np.where(self.kinds == BACKGROUND, background_weight, 1.0)

    def labeled_parts(self) -> Iterator[Sequences]:
        """Yield the sequences of each file; raise if they have no labels."""
        require_labels(self.data)
        return (sequences for sequences, _ in self.parts())

    @property
    def positive(self) -> list[bool]:
        """Whether each sequence is positive."""
        return (self.kinds == POSITIVE).tolist()

    def negatives(self) -> tuple[list[str], int]:
        found: list[str] = []
        longest = 0
        for sequences, kinds in self.parts():
            longest = max(longest, *map(len, sequences.sequences))
            if len(found) < MOST_NEGATIVES:
                found += sequences.choose((kinds != POSITIVE).tolist()).sequences
        return found, longest
