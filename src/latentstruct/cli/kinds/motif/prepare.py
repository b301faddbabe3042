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
from latentstruct.cli.kinds.motif.files import PARTS, MotifParts, no_negatives, room_of, too_narrow, warn_of_twice
from latentstruct.cli.prepared import ToPrepare, open_prepared, require_labelled
from latentstruct.data.sharded import ShardedData
from latentstruct.exceptions import FormatError, InputError
from latentstruct.io import Sequences
from latentstruct.io.fasta import each_labelled_sequence, each_sequence
from latentstruct.progress.display import Progress, caught_warnings
from latentstruct.tasks import Motif
from latentstruct.tasks.motif.task import LETTERS

POSITIVE, NEGATIVE, BACKGROUND = range(3)
LETTERS_TOGETHER = 200_000
"""Letters of the sequences that are prepared at a time."""


@dataclass(frozen=True)
class StoredSequences:
    """What is kept beside prepared sequences: their names in the order of the folder, and the least room in one."""

    n_positive: int
    n_negative: int
    n_background: int
    names: list[str]
    least_room: int
    narrowest: str

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many sequences there are of each kind."""
        return self.n_positive, self.n_negative, self.n_background


def prepare(options: MotifPrepareOptions, like: Trained | None, progress: Progress) -> ToPrepare:
    """Look through sequences; letters are stored, not windows, so that any width serves."""
    reading = MotifReading(options, 0 if like is None else like.estimator.task_.width)
    with caught_warnings() as warned:
        stored = reading.learn()
    say_warnings(warned)
    progress.say(f"read {len(stored.names)} sequences, {reading.n_letters} letters: writing them")
    task = Motif(1, background_order=0)
    task.learn(["A", "A"], [1, -1])
    counts = {} if options.unlabelled else {f"n_{name}": n for name, n in zip(PARTS, stored.counts, strict=True)}
    sizes = {**counts, "n_letters": reading.n_letters}
    return ToPrepare(task, stored, sizes, reading.blocks(mixed_kinds(stored.counts)))


def mixed_kinds(counts: tuple[int, int, int]) -> Any:
    """Return the kinds of sequences in the order of a folder: evenly mixed, so that each of its files has all kinds.

    Training with latent variables begins with the first file.
    """
    places = np.concatenate([(np.arange(n) + 0.5) / max(n, 1) for n in counts])
    return np.repeat(np.arange(len(counts)), counts)[np.argsort(places, kind="stable")]


@dataclass
class MotifReading:
    """FASTA that is gone through sequence by sequence: first to learn what is there, then to prepare it.

    Sequences without labels are kept as background, of which no labels are written. `width` is that of the motif that
    must have room in each of them, 0 if that is chosen later.
    """

    files: MotifPrepareOptions
    width: int = 0
    names: list[list[str]] = field(default_factory=lambda: [[], [], []])
    narrow: tuple[int, str] = (2**62, "")
    n_letters: int = 0

    @property
    def labelled(self) -> bool:
        """Whether it is known which sequences are positive."""
        return not self.files.unlabelled

    def sources(self) -> list[Iterator[tuple[str, str]]]:
        """Return names and letters of the sequences of each kind."""
        files = self.files
        if not self.labelled:
            return [iter(()), iter(()), _of_file(files.data)]
        background = _of_file(files.background)
        if files.data is None:
            return [_of_file(files.positive), _of_file(files.negative), background]
        return [_of_label(files.data, 1), _of_label(files.data, -1), background]

    def learn(self) -> StoredSequences:
        """Read all sequences; return what is kept beside them."""
        positive: dict[bytes, list[str]] = {}
        twice: set[bytes] = set()
        data = self.files.data
        paths = [data or self.files.positive, data or self.files.negative, self.files.background or data]
        for kind, source in enumerate(self.sources()):
            for name, letters in source:
                self.names[kind].append(name)
                self.n_letters += len(letters)
                room, digest = room_of(letters), hashlib.blake2b(letters.encode(), digest_size=16).digest()
                if room < self.width:
                    raise too_narrow(paths[kind] or "", name, room, self.width)
                self.narrow = min(self.narrow, (room, name))
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
        """Raise unless there are sequences of both kinds that a motif may lie in; some are named that are of both."""
        n_positive, *others = map(len, self.names)
        if self.labelled and not n_positive:
            raise InputError(
                f"{self.files.data} has no sequence with label=1; expected some that hold the motif: add them"
            )
        if not sum(others):
            raise no_negatives(self.files.data)
        room, name = self.narrow
        if not room:
            raise InputError(f"the sequence {name!r} has no letter but N; expected A, C, G or T too: remove it")
        if self.labelled:
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
                raise InputError(
                    f"a file has fewer sequences than the {len(self.names[kind])} that were found before; expected it "
                    "to stay as it is: prepare it again when nobody writes to it"
                )
            X.append(found[1])
            Y.append(1 if kind == POSITIVE else -1)
            n_letters += len(found[1])
            if n_letters >= LETTERS_TOGETHER:
                yield X, Y if self.labelled else None
                X, Y, n_letters = [], [], 0
        if X:
            yield X, Y if self.labelled else None


def _of_file(name: str | None) -> Iterator[tuple[str, str]]:
    return iter(()) if name is None else ((one.name, one.letters) for one in each_sequence(name))


def _of_label(name: str, wanted: int) -> Iterator[tuple[str, str]]:
    return ((one.name, one.letters) for one, label in each_labelled_sequence(name) if label == wanted)


@dataclass(frozen=True)
class StoredMotifs(MotifParts):
    """Prepared sequences, opened."""

    data: ShardedData
    stored: StoredSequences

    @classmethod
    def open(cls, folder: str, width: int) -> "StoredMotifs":
        """Open a folder whose sequences have room for a motif of the given width."""
        found = open_prepared(folder, "motif", StoredSequences)
        stored: StoredSequences = found.record
        if not len(stored.names) == sum(stored.counts) == found.data.n_examples or min(stored.counts) < 0:
            raise FormatError(f"{folder} is damaged (its names do not belong to its sequences): prepare the data again")
        if stored.least_room < width:
            raise too_narrow(folder, stored.narrowest, stored.least_room, width)
        return cls(found.data, stored)

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.stored.counts

    @cached_property
    def kinds(self) -> Any:
        """The kind of each sequence, shape (n,)."""
        return mixed_kinds(self.counts)

    def parts(self) -> Iterator[tuple[Sequences, Any]]:
        """Yield the sequences of each file and their kinds."""
        letters_of = np.frombuffer(LETTERS.encode(), dtype=np.uint8)
        begin = 0
        for batch in self.data.batches:
            text = letters_of[batch.layout.bases].tobytes().decode("ascii")
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
        require_labelled(self.data, "train on")
        return self.data, None, np.where(self.kinds == BACKGROUND, background_weight, 1.0)

    def scores(self, estimator: Any) -> tuple[Any, Any]:
        """Return the scores of the sequences with the motif, and of those without it."""
        require_labelled(self.data, "compare with")
        scores = estimator.decision_function(self.data)
        return scores[self.kinds == POSITIVE], scores[self.kinds != POSITIVE]
