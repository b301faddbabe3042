"""A sign of life during long work without output, with the fraction done where it is known."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Event, Thread
from types import TracebackType
from typing import Self, TypeVar

from latentstruct.progress.eta import describe_share, show_seconds

SILENCE = 10.0
"""Seconds without output before the first message; the interval doubles with each further one, up to `LONGEST`."""
LONGEST = 60.0

T = TypeVar("T")


@dataclass
class Count:
    """How much of counted work is done."""

    total: int
    what: str
    began: float
    done: int = 0

    def describe(self, now: float) -> str:
        """Return what is done and the estimated time left."""
        return describe_share(self.done, self.total, self.what, now - self.began)


class _State:
    """State of this process: the outermost count, and the time of the last output."""

    count: Count | None = None
    touched_at = 0.0
    suspended = False
    reason = ""


def each(items: Iterable[T], total: int, what: str, size: int = 1) -> Iterator[T]:
    """Yield `total` items and count them for `Heartbeat`; one is done when the next one is requested.

    `what` is their name with what is done to them, such as "examples decoded"; an item counts `size` of these.
    """
    if _State.count is not None:
        # Parts of what is counted already.
        yield from items
        return
    count = _State.count = Count(total, what, time.perf_counter())
    try:
        for item in items:
            yield item
            count.done = min(count.done + size, total)
    finally:
        _State.count = None


def touch() -> None:
    """Record that there was output just now."""
    _State.touched_at = time.perf_counter()


def explain(reason: str) -> None:
    """Set what each message adds where nothing is counted."""
    _State.reason = reason


def suspend(suspended: bool) -> None:
    """Print no messages, as something else shows the progress; or print them again."""
    _State.suspended = suspended
    touch()


class Heartbeat:
    """Context manager that prints a message when its block has been without output for some time, unless `quiet`.

    `say` prints it, called from another thread; `silence` are the seconds before the first one, by default `SILENCE`.
    """

    def __init__(self, say: Callable[[str], None], quiet: bool = False, silence: float | None = None) -> None:
        self.say, self.quiet = say, quiet
        self.silence = SILENCE if silence is None else silence
        self._ended = Event()
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        suspend(False)
        if not self.quiet:
            self._thread = Thread(target=self._watch, args=(time.perf_counter(),), daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, began: float) -> None:
        pause = wait = self.silence
        while not self._ended.wait(wait):
            now = time.perf_counter()
            wait = _State.touched_at + pause - now
            if wait > 0:
                continue
            wait = pause = min(2 * pause, max(LONGEST, self.silence))
            count = _State.count
            why = count.describe(now) if count else _State.reason
            text = f"still running after {show_seconds(now - began)}" + (f": {why}" if why else "")
            if not _State.suspended and not self._print(text):
                return

    def _print(self, text: str) -> bool:
        """Print a message; return False if the stream is closed."""
        try:
            self.say(text)
        except (OSError, ValueError):
            return False
        return True
