"""The errors and warnings of the library."""

import re
from collections.abc import Callable
from os import PathLike, fspath

from latentstruct.core.formatting import repr_short

_LONGEST, _END = 4000, 800
"""Most characters of a message, and how many of these are its last ones, where the hint is."""
_NAMES = re.compile(r"`([A-Za-z_]\w*)([^`]*)`")
"""Parameters in the text of an error: a name and what follows it, such as ``X[3]``."""


class Description(str):
    """What an error shows as `got` without quotes: a description instead of the value itself."""

    __slots__ = ()


class InputError(ValueError):
    """A value that the caller passed cannot be used.

    The message is "`parameter` must be `expected`, got `got`. `hint`". It is safe to print: characters that cannot be
    printed are escaped, and a very long message is cut in the middle.

    Parameters
    ----------
    parameter : str
        Name of the parameter, or the part of it that cannot be used, such as ``X[3]``.
    got : object
        The value, shown in a short form. Text that describes it is passed as a `Description`.
    expected : str
        What the parameter must be. It follows "must be", and other parameters in it are put in backticks.
    hint : str, optional
        What to do, in whole sentences, where that is not obvious. Parameters are put in backticks.

    Attributes
    ----------
    parameter, got, expected, hint
        As passed.
    """

    def __init__(self, parameter: str, got: object, expected: str, hint: str | None = None) -> None:
        super().__init__(parameter, got, expected, hint)
        self.parameter, self.got, self.expected, self.hint = parameter, got, expected, hint

    def render(self, name: Callable[[str], str | None]) -> str:
        """Return the message of a command; `name` returns the option of a parameter, None if there is none.

        A hint about a parameter without an option is left out.
        """
        names = (match[1] for match in _NAMES.finditer(self.hint or ""))
        hint = None if any(name(one) is None for one in names) else self.hint
        return _printable(rename_parameters(self._text(hint), name))

    def _text(self, hint: str | None) -> str:
        return _with_hint(f"`{self.parameter}` must be {self.expected}, got {_shown(self.got)}", hint)

    def __str__(self) -> str:
        return _printable(self._text(self.hint))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.parameter, self.got, self.expected, self.hint)


class FormatError(InputError):
    """A file does not have the expected format, or cannot be written.

    The message is "`path`, line `line`: expected `expected`, got `got`. `hint`".

    Parameters
    ----------
    path : str or path-like
        The file, or how messages name it.
    got : object
        What the file has; see `InputError`.
    expected : str
        What was expected instead.
    hint : str, optional
        What to do, where that is not obvious.
    line : int, optional
        The line, from 1.
    """

    def __init__(
        self,
        path: "str | PathLike[str]",
        got: object,
        expected: str,
        hint: str | None = None,
        *,
        line: int | None = None,
    ) -> None:
        super().__init__(fspath(path), got, expected, hint)
        self.path, self.line = fspath(path), line

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.got, self.expected, self.hint), {"line": self.line}

    def _text(self, hint: str | None) -> str:
        place = self.path if self.line is None else f"{self.path}, line {self.line}"
        return _with_hint(f"{place}: expected {self.expected}, got {_shown(self.got)}", hint)


def missing_package(package: str, purpose: str, extra: str) -> InputError:
    """Return the error of a package that is not installed; `extra` is the extra of the distribution that has it."""
    hint = f"Install it by pip install 'latentstruct[{extra}]'."
    return InputError(package, Description("no such package"), f"installed to {purpose}", hint)


class CheckpointError(InputError, OSError):
    """A checkpoint could not be written; the last good one is as it was, and a later fit goes on from it."""


class ConvergenceWarning(UserWarning):
    """Training ended before the requested precision was certified."""


def _shown(got: object) -> str:
    return str(got) if isinstance(got, Description) else repr_short(got)


def _with_hint(text: str, hint: str | None) -> str:
    return f"{text}. {hint}" if hint else text


def rename_parameters(text: str, name: Callable[[str], str | None]) -> str:
    """Return a text in which each parameter in backticks is the option that `name` returns, unless that is None."""

    def named(match: re.Match[str]) -> str:
        option = name(match[1])
        return match[0] if option is None else option + match[2]

    return _NAMES.sub(named, text)


def _printable(text: str) -> str:
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    # Shortened last: escapes are longer than what they stand for.
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - _END - 1]}…{text[-_END:]}"
