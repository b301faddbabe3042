"""Saved states of features: structs that msgspec checks, tagged with the class and the version of the format."""

from typing import Any, TypeVar

import msgspec

from latentstruct.exceptions import Description, InputError

S = TypeVar("S", bound=msgspec.Struct)


def read_state(kind: type[S], state: Any) -> S:
    """Return a state as a struct; raise if `to_state` of the class of its tag cannot have returned it."""
    try:
        return msgspec.convert(state, kind)
    except msgspec.ValidationError as error:
        raise bad_state(kind, str(error).replace("`", "")) from error


def bad_state(kind: type[msgspec.Struct], why: str) -> InputError:
    """Return the error of a state that is none of a class of features."""
    tag = str(kind.__struct_config__.tag)
    return InputError("state", Description(why), f"a state of format {tag!r}, returned by `to_state`")
