"""Starts the processes that read damaged files, and keeps what they find."""

import faulthandler
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fuzz.child import COUNTERS, make_input, read_damaged
from fuzz.registry import Reader

KEPT = 3
"""Inputs that are kept of findings that look the same."""
HANGS = (signal.SIGPROF, signal.SIGALRM)
REPORTED = 2000
"""Letters of what a process said at last."""


def in_child(work: Callable[[], None], log: Path) -> tuple[int, str]:
    """Call a function in a process of its own; return how it ended, and what it said at last.

    The process has all modules of this one from the start, so that many can be started. This one has no threads.
    """
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), sys.stderr.fileno())
            faulthandler.enable()
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return ended, log.read_text(errors="replace")[-REPORTED:]


@dataclass
class Tally:
    """What came of the inputs of one reader."""

    reader: str
    n_inputs: int = 0
    n_read: int = 0
    n_refused: int = 0
    slowest: float = 0.0
    findings: Counter[str] = field(default_factory=Counter)


class Campaign:
    """Damaged files of one seed, reader by reader.

    Parameters
    ----------
    folder : Path
        Scratch files, and the inputs of findings in ``findings``.
    seed : int
        Decides all damage.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.tallies: dict[str, Tally] = {}

    def corpus(self, reader: Reader) -> Path:
        """Return the folder of the good files of a reader, made at first use."""
        place = self.folder / "corpus" / reader.name
        if not place.exists():
            ended, reported = in_child(lambda: self._make_corpus(reader, place), self.folder / "stderr")
            if ended:
                raise RuntimeError(f"the good files of {reader.name} cannot be made:\n{reported}")
        return place

    def _make_corpus(self, reader: Reader, place: Path) -> None:
        beside = reader.beside() if reader.beside is not None else {}
        for name, content in beside.items():
            path = self.folder / "scratch" / reader.name / "work" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        seeds = reader.seeds()
        place.mkdir(parents=True)
        for k, good in enumerate(seeds):
            (place / f"{k:03d}").write_bytes(good)

    def run(self, reader: Reader, n_inputs: int) -> Tally:
        """Try more damaged files of a reader."""
        tally = self.tallies.setdefault(reader.name, Tally(reader.name))
        scratch = self.folder / "scratch" / reader.name
        scratch.mkdir(parents=True, exist_ok=True)
        (scratch / "findings").write_text("")
        corpus = self.corpus(reader)
        first, last = tally.n_inputs, tally.n_inputs + n_inputs
        while first < last:
            (scratch / "counters").write_bytes(COUNTERS.pack(first - 1, 0, 0, 0))
            work = partial(read_damaged, reader, corpus, scratch, self.seed, first, last)
            ended, reported = in_child(work, scratch / "stderr")
            reached, n_read, n_refused, slowest = COUNTERS.unpack((scratch / "counters").read_bytes())
            if reached < first:
                raise RuntimeError(f"the files of {reader.name} cannot be read undamaged:\n{reported}")
            tally.n_read, tally.n_refused = tally.n_read + n_read, tally.n_refused + n_refused
            tally.slowest = max(tally.slowest, slowest / 1e6)
            if ended:
                hangs = -ended in HANGS
                self._keep(tally, reader, reached, "hang" if hangs else "crash", f"exit {ended} {reported[-REPORTED:]}")
                reached += 1
            first = reached
        tally.n_inputs = last
        for line in (scratch / "findings").read_text().splitlines():
            self._keep(tally, reader, *json.loads(line))
        return tally

    def _keep(self, tally: Tally, reader: Reader, number: int, kind: str, detail: str) -> None:
        reported = f"{kind}: {detail}"
        tally.findings[reported] += 1
        if tally.findings[reported] > KEPT:
            return
        seeds = [path.read_bytes() for path in sorted(self.corpus(reader).iterdir())]
        place = self.folder / "findings" / reader.name
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{self.seed}-{number}.input").write_bytes(make_input(reader, seeds, self.seed, number))
        (place / f"{self.seed}-{number}.txt").write_text(reported + "\n", errors="backslashreplace")
