"""The errors and warnings of the library."""


class InputError(ValueError):
    """What the caller handed in cannot be used; the message names the value, what was expected and the cure."""


class FormatError(InputError):
    """A file does not have the announced format; the message names the file and, where there is one, the line."""


class ConvergenceWarning(UserWarning):
    """Training ended before the asked precision was certified."""
