"""State of solvers as dataclasses, and as trees of plain values that a file can hold and a reader can check.

A tree consists of dicts with string keys and lists, whose leaves are None, bools, integers, floats, strings and arrays
of numbers. `state_dict` and `from_state_dict` convert dataclasses by the types of their fields: the leaves of a tree,
`Annotated` arrays, random generators, lists, deques, optional values, unions of classes and other dataclasses. A union
is stored with the name of the class. Classes with `CODECS` are converted by these functions. Fields
with the metadata `CONTEXT` are not part of the state.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.protocols import ITERATION_COLUMNS, Iteration, Problem
from latentstruct.core.types import Array, Indices, Vector

Tree = Any
"""See the module."""
T = TypeVar("T")
ARRAY = "$array"
"""Placeholder for an array in a tree that is written as text."""


def split_tree(tree: Tree, path: str = "") -> tuple[Any, dict[str, NDArray[Any]]]:
    """Return a tree with its arrays replaced by their names, and the arrays by name.

    Raises TypeError for values that a tree cannot contain.
    """
    if isinstance(tree, np.ndarray):
        if tree.dtype.kind not in "biuf":
            raise TypeError(f"{path} is an array of {tree.dtype}")
        return {ARRAY: path}, {path: tree}
    if isinstance(tree, np.generic):
        tree = tree.item()
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree, {}
    if isinstance(tree, dict):
        if not all(isinstance(key, str) and key != ARRAY for key in tree):
            raise TypeError(f"{path} has the keys {repr_short(list(tree))}")
        named: Iterable[tuple[Any, Any]] = tree.items()
    elif isinstance(tree, list):
        named = enumerate(tree)
    else:
        raise TypeError(f"{path} is {repr_short(tree)}")
    arrays: dict[str, NDArray[Any]] = {}
    plain = {}
    for key, part in named:
        plain[key], found = split_tree(part, f"{path}.{key}" if path else str(key))
        arrays |= found
    return (plain if isinstance(tree, dict) else list(plain.values())), arrays


def join_tree(plain: Any, arrays: dict[str, NDArray[Any]]) -> Tree:
    """Undo `split_tree`; raise KeyError or TypeError for anything that it cannot return."""
    if isinstance(plain, list):
        return [join_tree(part, arrays) for part in plain]
    if not isinstance(plain, dict):
        return plain
    if ARRAY in plain:
        return arrays[plain[ARRAY]]
    return {key: join_tree(part, arrays) for key, part in plain.items()}


class Range(NamedTuple):
    """Bounds of an integer, both included."""

    least: int
    most: int = 2**62


class Sizes(dict[str, int]):
    """Lengths by letter, and the objective that a state belongs to."""

    def __init__(self, objective: Problem | None = None) -> None:
        known = {} if objective is None else {"d": objective.n_features, "n": objective.n_examples}
        super().__init__(known)
        self.objective = objective


class Codec(NamedTuple):
    """Functions that convert objects of a class to a tree, and back for an objective."""

    write: Callable[[Any], Tree]
    read: Callable[[Tree, Any], Any]


CODECS: dict[Any, Codec] = {}
COLUMNS = {int: np.int64, float: np.float64, bool: np.bool_}
COUNT = Range(0)
CONTEXT = {"context": True}
"""Metadata of fields that are not part of the state."""
PerExample = Annotated[Vector, Array(("n",))]
"""One finite number per example."""
Numbers = Annotated[Vector, Array(("k",))]
"""Finite numbers, with the same length as other arrays of this type in the dataclass."""
Counts = Annotated[Indices, Array(("k",), np.int64)]


@cache
def _state_fields(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: hints[one.name] for one in fields(kind) if not one.metadata.get("context")}


def state_dict(state: Any) -> Tree:
    """Return the state of a dataclass as a tree."""
    kinds: Any = type(state)
    return {name: _write(kind, getattr(state, name)) for name, kind in _state_fields(kinds).items()}


def _write(kind: Any, value: Any) -> Tree:
    origin, inside = get_origin(kind), get_args(kind)
    if value is None or kind is Any:
        return value
    if kind in CODECS:
        return CODECS[kind].write(value)
    if origin in (Union, UnionType):
        classes = [one for one in inside if one is not NoneType]
        chosen = classes[0] if len(classes) == 1 else type(value)
        return _write(chosen, value) if len(classes) == 1 else {chosen.__name__: _write(chosen, value)}
    if kind == list[Iteration]:
        return {
            one.name: np.array([getattr(line, one.name) for line in value], dtype=COLUMNS[one.type])  # type: ignore[index]
            for one in ITERATION_COLUMNS
        }
    if origin in (list, deque):
        return np.array(value, dtype=np.float64) if inside[0] is float else [_write(inside[0], one) for one in value]
    if kind is np.random.Generator:
        return value.bit_generator.state
    return state_dict(value) if is_dataclass(kind) else value


def from_state_dict(kind: type[T], tree: Tree, objective: Problem | None = None) -> T:
    """Return the dataclass of a `state_dict`, for an objective of the same sizes.

    Raises LookupError, TypeError or ValueError for anything else: a tree from a file may hold anything. A field that
    is not part of the state keeps its default.
    """
    return kind(**_read_fields(kind, tree, Sizes(objective)))


def load_state_dict(state: Any, tree: Tree, objective: Problem | None = None) -> None:
    """Set the fields of a dataclass from a `state_dict`; see `from_state_dict`."""
    for name, value in _read_fields(type(state), tree, Sizes(objective)).items():
        setattr(state, name, value)


def _read_fields(kind: type, tree: Tree, sizes: Sizes) -> dict[str, Any]:
    found = checked_dict(tree)
    return {name: _read(of, found[name], name, sizes) for name, of in _state_fields(kind).items()}


def checked_dict(tree: Tree) -> dict[str, Tree]:
    """Return a tree that is a dict, or raise TypeError."""
    if not isinstance(tree, dict):
        raise TypeError(f"found {repr_short(tree)} in place of a dict")
    return tree


def _read(kind: Any, tree: Tree, name: str, sizes: Sizes) -> Any:
    origin, inside = get_origin(kind), get_args(kind)
    if kind is Any:
        return tree
    if kind in CODECS:
        return CODECS[kind].read(tree, sizes.objective)
    if origin in (Union, UnionType):
        return _read_union(inside, tree, name, sizes)
    if origin is Annotated:
        how = inside[1]
        return _read_array(how, tree, name, sizes) if isinstance(how, Array) else _read_integer(how, tree, name)
    if kind is int:
        return _read_integer(COUNT, tree, name)
    if kind == list[Iteration]:
        columns = checked_dict(tree)
        kinds = [(one.name, Array((name,), COLUMNS[one.type], finite=False)) for one in ITERATION_COLUMNS]  # type: ignore[index]
        parts = [_read_array(wanted, columns[column], column, sizes).tolist() for column, wanted in kinds]
        return [Iteration(*line) for line in zip(*parts, strict=True)]
    if origin in (list, deque):
        return _read_list(origin, inside[0], tree, name, sizes)
    if kind is np.random.Generator:
        rng = np.random.default_rng()
        rng.bit_generator.state = tree
        return rng
    if is_dataclass(kind):
        return from_state_dict(kind, tree, sizes.objective)  # type: ignore[arg-type]
    wrong = isinstance(tree, bool) != (kind is bool) or not isinstance(tree, int | float if kind is float else kind)
    if wrong or tree != tree:
        raise TypeError(f"{name} is {repr_short(tree)}, not a value of type {kind.__name__}")
    return kind(tree)


def _read_union(inside: tuple[Any, ...], tree: Tree, name: str, sizes: Sizes) -> Any:
    classes = {one.__name__ if isinstance(one, type) else "": one for one in inside if one is not NoneType}
    if tree is None and NoneType in inside:
        return None
    if len(classes) == 1:
        return _read(next(iter(classes.values())), tree, name, sizes)
    ((chosen, part),) = checked_dict(tree).items()
    return _read(classes[chosen], part, name, sizes)


def _read_integer(bounds: Range, tree: Tree, name: str) -> int:
    if isinstance(tree, bool) or not isinstance(tree, int) or not bounds.least <= tree <= bounds.most:
        raise ValueError(f"{name} is {repr_short(tree)}, not an integer from {bounds.least} to {bounds.most}")
    return tree


def _read_array(wanted: Array, tree: Tree, name: str, sizes: Sizes) -> NDArray[Any]:
    if not isinstance(tree, np.ndarray) or tree.dtype != np.dtype(wanted.kind) or tree.ndim != len(wanted.shape):
        raise ValueError(
            f"{name} is {repr_short(tree)}, not an array of {np.dtype(wanted.kind)} of shape {wanted.shape}"
        )
    for letter, length in zip(wanted.shape, tree.shape, strict=True):
        if sizes.setdefault(letter, length) != length:
            raise ValueError(f"{name} has shape {tree.shape}, but {letter} is {sizes[letter]}")
    if wanted.finite and not np.isfinite(tree).all():
        raise ValueError(f"{name} has numbers that are not finite")
    return np.array(tree)


def _read_list(origin: Any, inside: Any, tree: Tree, name: str, sizes: Sizes) -> Any:
    if inside is float:
        return origin(_read_array(Array((name,), finite=False), tree, name, sizes).tolist())
    if not isinstance(tree, list):
        raise TypeError(f"{name} is {repr_short(tree)}, not a list")
    return origin(_read(inside, part, name, sizes) for part in tree)
