"""The errors and warnings of the library."""

_LONGEST, _END = 4000, 800
"""Letters of a message, and how many of these are its last ones, where the cure stands."""


class InputError(ValueError):
    """What the caller handed in cannot be used; the message names the value, what was expected and the cure.

    The message is safe to print whatever the file that it speaks of holds: signs that cannot be printed are escaped,
    and what is very long is cut in the middle.
    """

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST - _END - 1]}…{text[-_END:]}"
        return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class FormatError(InputError):
    """A file does not have the announced format; the message names the file and, where there is one, the line."""


class CheckpointError(InputError, OSError):
    """A checkpoint could not be written; the last good one is as it was, and a later fit goes on from it."""


class ConvergenceWarning(UserWarning):
    """Training ended before the asked precision was certified."""
