"""What Ctrl-C does: end the command with one line, except where training or saving must not be cut off.

Only modules that load at once are imported here, as Ctrl-C may come while the others are loaded.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
NOTHING_WRITTEN = "interrupted: nothing was written"

Handler = Callable[[int, FrameType | None], object] | signal.Handlers


def end_at_once(*_: object) -> None:
    """End the process; an exception could be lost in the import of a module or show where it was raised."""
    os.write(2, f"{NOTHING_WRITTEN}\n".encode())
    os._exit(INTERRUPTED)


def end_on_interrupt() -> None:
    """Let Ctrl-C end the process at once from now on, unless it is ignored or somebody else takes it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_at_once)


@contextmanager
def on_interrupt(handler: Handler) -> Iterator[None]:
    """Let Ctrl-C do something else within the block, unless it is ignored or somebody else takes it."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not in_main_thread or before not in (signal.default_int_handler, end_at_once):
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
