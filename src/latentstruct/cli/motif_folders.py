"""Sequences of motif models in a folder: prepared from FASTA one by one, and used from there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from latentstruct.cli.motif_files import (
    KnownSites,
    MotifFiles,
    MotifParts,
    read_known_sites,
    room_of,
    share_of_sites_hit,
    too_narrow,
    warn_of_twice,
)
from latentstruct.cli.old_kinds import HeldOut
from latentstruct.cli.prepared import open_prepared, require_labelled
from latentstruct.exceptions import FormatError, InputError

if TYPE_CHECKING:
    from latentstruct.formats import Sequences
    from latentstruct.sharded_data import ShardedData

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
    kind: Literal["motif"] = "motif"

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many sequences there are of each kind."""
        return self.n_positive, self.n_negative, self.n_background


def mixed_kinds(counts: tuple[int, int, int]) -> Any:
    """Return the kinds of sequences in the order of a folder: evenly mixed, so that each of its files has all kinds.

    Training with latent variables begins with the first file.
    """
    import numpy as np

    places = np.concatenate([(np.arange(n) + 0.5) / max(n, 1) for n in counts])
    return np.repeat(np.arange(len(counts)), counts)[np.argsort(places, kind="stable")]


@dataclass
class MotifReading:
    """FASTA that is gone through sequence by sequence: first to learn what is there, then to prepare it.

    Sequences without labels are kept as background, of which no labels are written. `width` is that of the motif that
    must have room in each of them, 0 if that is chosen later.
    """

    files: MotifFiles
    labelled: bool = True
    width: int = 0
    names: list[list[str]] = field(default_factory=lambda: [[], [], []])
    narrow: tuple[int, str] = (2**62, "")
    n_letters: int = 0

    def sources(self) -> list[Iterator[tuple[str, str]]]:
        """Return names and letters of the sequences of each kind."""
        files = self.files
        if not self.labelled:
            return [iter(()), iter(()), _of_file(files.data or "")]
        both = [(files.data, 1), (files.data, -1)]
        labelled = [_of_label(name, label) if name is not None else iter(()) for name, label in both]
        alone = [_of_file(name) if name is not None else iter(()) for name in (files.positive, files.negative)]
        background = iter(()) if files.background is None else _of_file(files.background)
        return [*(alone if files.data is None else labelled), background]

    def learn(self) -> StoredSequences:
        """Read all sequences; return what is kept beside them."""
        positive: dict[bytes, list[str]] = {}
        twice: set[bytes] = set()
        paths = [self.files.data or self.files.positive, self.files.data or self.files.negative, self.files.background]
        for kind, source in enumerate(self.sources()):
            for name, letters in source:
                self.names[kind].append(name)
                self.n_letters += len(letters)
                room = room_of(letters)
                if room < self.width:
                    raise too_narrow(paths[kind] or self.files.data or "", name, room, self.width)
                self.narrow = min(self.narrow, (room, name))
                if kind == POSITIVE:
                    positive.setdefault(_digest(letters), []).append(name)
                elif (digest := _digest(letters)) in positive:
                    twice.add(digest)
        self._check([name for digest, names in positive.items() if digest in twice for name in names])
        n_positive, n_negative, n_background = map(len, self.names)
        counts = n_positive, n_negative, n_background
        waiting = [iter(names) for names in self.names]
        mixed = [next(waiting[kind]) for kind in mixed_kinds(counts).tolist()]
        return StoredSequences(*counts, mixed, *self.narrow)

    def _check(self, twice: list[str]) -> None:
        """Raise unless there are sequences of both kinds that a motif may lie in; some are named that are of both."""
        n_positive, *others = map(len, self.names)
        if self.labelled and not n_positive:
            raise InputError(
                f"{self.files.data} has no sequence with label=1; expected some that hold the motif: add them"
            )
        if not sum(others):
            raise InputError(
                f"{self.files.data} has no sequence with label=-1; expected some that do not hold the motif: add them, "
                "or give many that hardly do as --background"
            )
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


def _digest(letters: str) -> bytes:
    """Return what tells sequences apart."""
    import hashlib

    return hashlib.blake2b(letters.encode(), digest_size=16).digest()


def _of_file(name: str) -> Iterator[tuple[str, str]]:
    """Yield names and letters of all sequences of a file."""
    from latentstruct.formats.fasta import each_sequence

    return ((one.name, one.letters) for one in each_sequence(name))


def _of_label(name: str, wanted: int) -> Iterator[tuple[str, str]]:
    """Yield names and letters of those sequences of a file whose headers have a label."""
    from latentstruct.formats.fasta import each_labelled_sequence

    return ((one.name, one.letters) for one, label in each_labelled_sequence(name) if label == wanted)


@dataclass(frozen=True)
class StoredMotifs(MotifParts):
    """Prepared sequences, opened."""

    data: "ShardedData"
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
        """How many there are of each kind."""
        return self.stored.counts

    @cached_property
    def kinds(self) -> Any:
        """The kind of each sequence, shape (n,)."""
        return mixed_kinds(self.counts)

    def parts(self) -> "Iterator[tuple[Sequences, Any]]":
        """Yield the sequences of each file and their kinds."""
        import numpy as np

        from latentstruct.formats import Sequences
        from latentstruct.tasks.motif import LETTERS

        letters_of = np.frombuffer(LETTERS.encode(), dtype=np.uint8)
        begin = 0
        for batch in self.data.batches:
            text = letters_of[batch.layout.bases].tobytes().decode("ascii")
            end = begin + batch.n_examples
            sequences = [text[start:stop] for start, stop in pairwise(batch.layout.offsets.tolist())]
            yield Sequences(self.stored.names[begin:end], [""] * len(sequences), sequences), self.kinds[begin:end]
            begin = end

    def positives(self) -> "Iterator[Sequences]":
        """Yield the positive sequences of each file."""
        for sequences, kinds in self.parts():
            chosen = sequences.choose((kinds == POSITIVE).tolist())
            if len(chosen):
                yield chosen

    def errors(self, estimator: Any) -> dict[str, float]:
        """Return the share that a model gets wrong of each kind there is."""
        called = estimator.decision_function(self.data) > 0
        parts = zip(("positive", "negative", "background"), range(3), self.counts, strict=True)
        return {name: float((called[self.kinds == k] != (k == POSITIVE)).mean()) for name, k, n in parts if n}

    def training(self, background_weight: float) -> tuple[Any, None, Any]:
        """Return the data and the weights of sequences."""
        import numpy as np

        require_labelled(self.data, str(self.data.folder), "train on")
        return self.data, None, np.where(self.kinds == BACKGROUND, background_weight, 1.0)

    def scores(self, estimator: Any) -> tuple[Any, Any]:
        """Return the scores of the sequences with the motif, and of those without it."""
        scores = estimator.decision_function(self.data)
        return scores[self.kinds == POSITIVE], scores[self.kinds != POSITIVE]

    def known_sites(self, name: str) -> KnownSites:
        """Read known sites of the positive sequences."""
        lengths = {
            title: len(letters)
            for part in self.positives()
            for title, letters in zip(part.names, part.sequences, strict=True)
        }
        return read_known_sites(name, lengths)


def judge_stored(
    estimator: Any, folder: str, held_out: HeldOut, compare: Callable[..., dict[str, Any]]
) -> dict[str, Any]:
    """Return the quality of predictions for prepared sequences; `compare` takes scores of both kinds."""
    from latentstruct.motifs import find_sites

    stored = StoredMotifs.open(folder, estimator.task_.width)
    require_labelled(stored.data, folder, "compare with")
    result = compare(*stored.scores(estimator))
    if held_out.sites is not None:
        known = stored.known_sites(held_out.sites)
        found = [site for part in stored.positives() for site in find_sites(estimator, part)]
        result |= {"n_known_sites": len(known), "sites_hit": share_of_sites_hit(found, known)}
    return result
