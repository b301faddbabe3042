"""Remarks on work that goes on in silence, with the share that is done where it is known."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Event, Thread
from types import TracebackType
from typing import Self, TypeVar

from latentstruct.progress.eta import describe_share, show_seconds

SILENCE = 10.0
"""Seconds of silence after which work is remarked on; each further remark takes twice as long, up to `LONGEST`."""
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
        """Return what is done and how long the rest may take."""
        return describe_share(self.done, self.total, self.what, now - self.began)


class _State:
    """What is known in this process: the outermost count, and when something was told last."""

    count: Count | None = None
    told_at = 0.0
    held = False
    reason = ""


def each(items: Iterable[T], total: int, what: str, size: int = 1) -> Iterator[T]:
    """Yield items, counting them, so that `Remarks` can tell how many are done.

    Parameters
    ----------
    items : iterable
        What is worked on, each item done when the next one is asked for.
    total : int
        How many there are in all.
    what : str
        What they are called with what is done to them, such as "examples decoded".
    size : int, default=1
        How many an item stands for.
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


def told() -> None:
    """Note that something was told just now."""
    _State.told_at = time.perf_counter()


def explain(reason: str) -> None:
    """Add to each remark why it may take long, where nothing is counted; "" is no more of it."""
    _State.reason = reason


def hold(held: bool) -> None:
    """Make no remarks for a while, as something else shows the progress; or make them again."""
    _State.held = held
    told()


class Remarks:
    """Remarks on a block that works in silence; used as a context manager.

    Parameters
    ----------
    say : function of str
        Told the remarks, from a thread of their own.
    quiet : bool, default=False
        Whether to make none.
    silence : float, optional
        Seconds of silence before the first remark; `SILENCE` by default.
    """

    def __init__(self, say: Callable[[str], None], quiet: bool = False, silence: float | None = None) -> None:
        self.say, self.quiet = say, quiet
        self.silence = SILENCE if silence is None else silence
        self._ended = Event()
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        told()
        _State.held = False
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
            wait = _State.told_at + pause - now
            if wait > 0:
                continue
            wait = pause = min(2 * pause, max(LONGEST, self.silence))
            count = _State.count
            why = count.describe(now) if count else _State.reason
            if not _State.held and not self._tell(
                f"still at work after {show_seconds(now - began)}" + (f": {why}" if why else "")
            ):
                return

    def _tell(self, text: str) -> bool:
        """Make a remark; return False if nobody can hear it."""
        try:
            self.say(text)
        except (OSError, ValueError):
            return False
        return True
