"""The process that reads damaged files: under limits of memory and time, watched by another that outlives it."""

import json
import mmap
import random
import resource
import signal
import struct
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from fuzz.mutations import mutate
from fuzz.registry import Reader
from latentstruct.exceptions import InputError

COUNTERS = struct.Struct("=4q")
"""In a file that outlives the process: the next input, how many were read and refused, and the slowest in µs."""
MEMORY = 2 << 30
"""Bytes beyond those of the process at its start."""
CPU_SECONDS, WALL_SECONDS = 10.0, 120.0
LONGEST_MESSAGE = 4000
FORBIDDEN = (
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pickle.find_class",
    "socket.connect",
    "subprocess.Popen",
)
"""Beginnings of the names of what no file may bring about."""


class ForbiddenError(BaseException):
    """A file made the library do what no file may."""


def make_input(reader: Reader, seeds: list[bytes], seed: int, number: int) -> bytes:
    """Return the damaged file of a number: the same for the same seed."""
    rng = random.Random(f"{seed}:{reader.name}:{number}")
    data = mutate(seeds, reader.words, rng)
    return reader.repair(data, rng) if reader.repair is not None else data


class Watch:
    """Notices what a file makes the process do, while it is on."""

    def __init__(self) -> None:
        self.on = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event.startswith(FORBIDDEN):
            raise ForbiddenError(f"{event}{arguments!r:.200}")


def describe(error: BaseException) -> str:
    """Return the kind of an exception and the two places nearest to it, by which findings are distinguished."""
    frames = traceback.extract_tb(error.__traceback__)[-2:]
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places}: {str(error)[:200]!r}"


def judge(reader: Reader, folder: Path, data: bytes) -> tuple[str, str]:
    """Read one file; return what came of it and, of a finding, what is to be known."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(folder, data)
    except InputError as error:
        text = str(error)
        if len(text) > LONGEST_MESSAGE or not text.isprintable():
            return "message", f"{describe(error)} ({len(text)} letters)"
        return "refused", ""
    except MemoryError as error:
        return "memory", describe(error)
    except ForbiddenError as error:
        return "forbidden", describe(error)
    except Exception as error:
        return "foreign", describe(error)
    return "read", ""


def is_read(reader: Reader, folder: Path, data: bytes) -> bool:
    """Return whether a good file is read: of images some are no labels, but not all of them."""
    try:
        reader.read(folder, data)
    except InputError as error:
        print(error, file=sys.stderr)
        return False
    return True


def limit() -> None:
    """Bound memory; time is bounded for each file."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Their default is to end the process: also where only compiled code runs, which looks at no flag.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def read_damaged(reader: Reader, corpus: Path, scratch: Path, seed: int, first: int, last: int) -> None:
    """Read the damaged files of some numbers; to be called in a process of its own."""
    seeds = [path.read_bytes() for path in sorted(corpus.iterdir())]
    work = scratch / "work"
    work.mkdir(exist_ok=True)
    watch = Watch()
    # Kernels are compiled and modules are loaded before anything is limited.
    if not sum(is_read(reader, work, good) for good in seeds):
        sys.exit(f"{reader.name} refuses all good files")
    warnings.simplefilter("error")
    limit()
    with open(scratch / "counters", "r+b") as counters, open(scratch / "findings", "a") as findings:
        shared = mmap.mmap(counters.fileno(), COUNTERS.size)
        for number in range(first, last):
            _, n_read, n_refused, slowest = COUNTERS.unpack(shared[:])
            shared[:] = COUNTERS.pack(number, n_read, n_refused, slowest)
            data = make_input(reader, seeds, seed, number)
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
            begun = time.process_time()
            watch.on = True
            outcome, detail = judge(reader, work, data)
            watch.on = False
            slowest = max(slowest, int(1e6 * (time.process_time() - begun)))
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            n_read, n_refused = n_read + (outcome == "read"), n_refused + (outcome == "refused")
            if outcome not in ("read", "refused"):
                findings.write(json.dumps([number, outcome, detail]) + "\n")
                findings.flush()
            shared[:] = COUNTERS.pack(number + 1, n_read, n_refused, slowest)
