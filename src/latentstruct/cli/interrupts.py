"""Effect of Ctrl-C and SIGTERM: they end the command with one line, except during training and saving.

Only modules that load at once are imported here, as a signal may come while the others are loaded.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

NOTHING_WRITTEN = "interrupted: nothing was written"
SIGNALS = (signal.SIGINT, signal.SIGTERM)

Handler = Callable[[int, FrameType | None], object]

_received: int = signal.SIGINT


def exit_code() -> int:
    """Return the exit code of a command that the last signal has stopped."""
    return 128 + _received


def end_at_once(number: int, _: FrameType | None) -> None:
    """End the process; an exception could be lost in the import of a module or show where it was raised."""
    os.write(2, f"{NOTHING_WRITTEN}\n".encode())
    os._exit(128 + number)


def remember(number: int, _: FrameType | None) -> None:
    """Go on, but keep the signal for `exit_code`."""
    global _received
    _received = number


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, whichever of the signals it is."""
    remember(number, frame)
    raise KeyboardInterrupt


def _is_free(number: int) -> bool:
    """Return whether a signal is neither ignored nor handled by somebody else."""
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    return signal.getsignal(number) in (default, end_at_once, remember, interrupt)


def end_on_interrupt() -> None:
    """Let the signals end the process at once from now on, unless they are ignored or handled by somebody else."""
    for number in filter(_is_free, SIGNALS):
        signal.signal(number, end_at_once)


@contextmanager
def on_interrupt(handler: Handler) -> Iterator[None]:
    """Let the signals do something else within the block, unless they are ignored or handled by somebody else."""
    with ExitStack() as undo:
        if threading.current_thread() is threading.main_thread():
            for number in filter(_is_free, SIGNALS):
                undo.callback(signal.signal, number, signal.getsignal(number))
                signal.signal(number, handler)
        yield
