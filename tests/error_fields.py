"""Assertions on the fields of errors instead of their sentences."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from latentstruct.core.formatting import repr_short
from latentstruct.exceptions import Description, FormatError, InputError


@contextmanager
def raises(
    parameter: str | None = None,
    *,
    got: object = "",
    expected: str = "",
    hint: str = "",
    file: str = "",
    line: int | None = None,
    error: type[InputError] = InputError,
) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """Expect an error about a parameter; texts must occur in its fields, any other `got` must be the value itself.

    `file`, the end of the path, and `line` are those of a `FormatError`.
    """
    with pytest.raises(error) as caught:
        yield caught
    if file or line is not None:
        assert isinstance(caught.value, FormatError)
        assert caught.value.path.endswith(file)
        assert line in (None, caught.value.line)
    check_fields(caught.value, parameter, got=got, expected=expected, hint=hint)


def check_fields(
    error: Any, parameter: str | None = None, *, got: object = "", expected: str = "", hint: str = ""
) -> None:
    """Check the fields of an error; see `raises`."""
    assert error.expected, f"an error without fields: {error}"
    assert parameter in (None, error.parameter)
    if isinstance(got, str):
        assert got in (error.got if isinstance(error.got, Description) else repr_short(error.got))
    else:
        assert error.got == got
    assert expected in error.expected
    assert hint in (error.hint or "")
    # Short enough to be read at a glance, even with a long path of a temporary folder or a list of names.
    assert len(str(error)) < 800
