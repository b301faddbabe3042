"""State trees: what a run needs to go on later, as plain values that a file can hold and a reader can check.

A tree is made of dicts with string keys and lists, whose leaves are None, bools, whole and real numbers, strings and
arrays of numbers.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from latentstruct.core.protocols import ROUND_COLUMNS, Round
from latentstruct.ragged import Vector
from latentstruct.short_repr import show

Tree = Any
"""See the module."""
ARRAY = "$array"
"""Stands for an array where a tree is written as text."""


def split_tree(tree: Tree, path: str = "") -> tuple[Any, dict[str, NDArray[Any]]]:
    """Return a tree with its arrays replaced by their names, and the arrays by name.

    Raises TypeError for what no tree may hold.
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
            raise TypeError(f"{path} has the keys {show(list(tree))}")
        named: Iterable[tuple[Any, Any]] = tree.items()
    elif isinstance(tree, list):
        named = enumerate(tree)
    else:
        raise TypeError(f"{path} is {show(tree)}")
    arrays: dict[str, NDArray[Any]] = {}
    plain = {}
    for key, part in named:
        plain[key], found = split_tree(part, f"{path}.{key}" if path else str(key))
        arrays |= found
    return (plain if isinstance(tree, dict) else list(plain.values())), arrays


def join_tree(plain: Any, arrays: dict[str, NDArray[Any]]) -> Tree:
    """Undo `split_tree`; raise KeyError or TypeError for what it cannot have returned."""
    if isinstance(plain, list):
        return [join_tree(part, arrays) for part in plain]
    if not isinstance(plain, dict):
        return plain
    if ARRAY in plain:
        return arrays[plain[ARRAY]]
    return {key: join_tree(part, arrays) for key, part in plain.items()}


class Saved:
    """Reads a dict of a tree and checks what it finds; raises LookupError, TypeError or ValueError.

    Parameters
    ----------
    tree : dict
        From a file, so that it may hold anything.
    """

    def __init__(self, tree: Tree) -> None:
        if not isinstance(tree, dict):
            raise TypeError(f"found {show(tree)} in place of a dict")
        self.tree = tree

    def __contains__(self, name: str) -> bool:
        return self.tree.get(name) is not None

    def part(self, name: str) -> "Saved":
        """Return the dict of this name."""
        return Saved(self.tree[name])

    def parts(self, name: str) -> list["Saved"]:
        """Return the dicts of a list."""
        if not isinstance(self.tree[name], list):
            raise TypeError(f"{name} is {show(self.tree[name])}, not a list")
        return [Saved(part) for part in self.tree[name]]

    def real(self, name: str) -> float:
        """Return a number, which may be infinite."""
        value = self.tree[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise TypeError(f"{name} is {show(value)}, not a number")
        return float(value)

    def whole(self, name: str, least: int = 0, most: int = 2**62) -> int:
        """Return a whole number."""
        value = self.tree[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"{name} is {show(value)}, not a whole number from {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        """Return True or False."""
        value = self.tree[name]
        if not isinstance(value, bool):
            raise TypeError(f"{name} is {show(value)}, not true or false")
        return value

    def text(self, name: str) -> str:
        """Return a string."""
        value = self.tree[name]
        if not isinstance(value, str):
            raise TypeError(f"{name} is {show(value)}, not a string")
        return value

    def array(self, name: str, dtype: DTypeLike, *shape: int | None) -> NDArray[Any]:
        """Return an array of its own of this type and shape, in which None stands for any length."""
        value = self.tree[name]
        fits = isinstance(value, np.ndarray) and value.dtype == np.dtype(dtype) and value.ndim == len(shape)
        if not fits or any(wanted not in (None, found) for wanted, found in zip(shape, value.shape, strict=True)):
            raise ValueError(f"{name} is {show(value)}, not an array of {np.dtype(dtype)} of shape {shape}")
        return np.array(value)

    def finite(self, name: str, *shape: int | None) -> NDArray[np.float64]:
        """Return an array of finite real numbers."""
        found = self.array(name, np.float64, *shape)
        if not np.isfinite(found).all():
            raise ValueError(f"{name} has numbers that are not finite")
        return found

    def vector(self, name: str, length: int | None = None) -> Vector:
        """Return a vector of finite real numbers."""
        return self.finite(name, length)

    def numbers(self, name: str) -> list[float]:
        """Return a list of real numbers."""
        return [float(value) for value in self.array(name, np.float64, None)]


def generator_tree(rng: np.random.Generator) -> Tree:
    """Return where a random generator is."""
    return rng.bit_generator.state


def restored_generator(tree: Tree) -> np.random.Generator:
    """Return the generator that goes on where another one was."""
    rng = np.random.default_rng()
    rng.bit_generator.state = tree
    return rng


def history_tree(history: list[Round]) -> Tree:
    """Return rounds in columns."""
    kinds = {int: np.int64, float: np.float64, bool: np.bool_}
    return {
        one.name: np.array([getattr(line, one.name) for line in history], dtype=kinds[one.type])  # type: ignore[index]
        for one in ROUND_COLUMNS
    }


def restored_history(saved: Saved) -> list[Round]:
    """Undo `history_tree`."""
    kinds = {int: np.int64, float: np.float64, bool: np.bool_}
    columns = [saved.array(one.name, kinds[one.type], None).tolist() for one in ROUND_COLUMNS]  # type: ignore[index]
    return [Round(*line) for line in zip(*columns, strict=True)]
