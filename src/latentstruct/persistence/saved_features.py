"""Saved states of features: structs that msgspec checks, tagged with the class and the version of the format."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from latentstruct.core.formatting import repr_short
from latentstruct.exceptions import Description, InputError

S = TypeVar("S", bound=msgspec.Struct)
MODULES = {
    "BoxFeatures": "boxes",
    "DictFeatures": "dicts",
    "MentionPairFeatures": "mentions",
    "WindowFeatures": "windows",
}
"""The modules of features that are the inputs of a task; a module is imported when it is needed."""


class SavedFeatures(ABC):
    """Base of features whose state is saved as a struct of the type `state_type`."""

    state_type: ClassVar[type[msgspec.Struct]]

    def to_state(self) -> dict[str, Any]:
        """Return the fitted features as JSON values, for `from_state`."""
        state: dict[str, Any] = msgspec.to_builtins(self._state())
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Restore fitted features from the result of `to_state`.

        Raises
        ------
        InputError
            If `to_state` of this class cannot have returned the state.
        """
        return cls._restored(read_state(cls.state_type, state))

    @abstractmethod
    def _state(self) -> msgspec.Struct:
        """Return the state of fitted features."""

    @classmethod
    @abstractmethod
    def _restored(cls, saved: Any) -> Self:
        """Return the features of a state whose types are checked; raise an InputError if it contradicts itself."""


def restore_features(state: Any) -> Any:
    """Return the features of a state, of the class that it names; None if it names none of the library."""
    name = str(state.get("format")).split(" ")[0].removeprefix("latentstruct.") if isinstance(state, dict) else ""
    if name not in MODULES:
        return None
    return getattr(import_module(f"latentstruct.features.{MODULES[name]}"), name).from_state(state)


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


def require_features(n_features: int, min_count: int, n_tokens: int) -> None:
    """Raise unless some features occur often enough."""
    if not n_features:
        raise InputError("min_count", min_count, f"at most {n_tokens}, the number of tokens")


def check_names(kind: type[msgspec.Struct], names: Sequence[str], n_distinct: int, hashed: bool = False) -> None:
    """Raise unless there are names of features in a state, or none if they are hashed, and they are distinct."""
    if hashed:
        if names:
            raise bad_state(kind, "names of hashed features")
        return
    if not names:
        raise bad_state(kind, "no feature names")
    if n_distinct < len(names):
        repeated = next(name for name, times in Counter(names).items() if times > 1)
        raise bad_state(kind, f"the feature name {repr_short(repeated)} twice")
