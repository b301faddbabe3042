"""The contents of a plane store as plain arrays, and their restoration with every index checked.

The kernels check no index, so indices from a file must be checked. Unused capacity is not stored: positions of tables
change no result.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.planes import complete
from latentstruct.core.formatting import repr_short
from latentstruct.core.types import Indices, offsets_from_lengths
from latentstruct.core.validation import integer
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.memory import FIRST_SLOTS, Slots, Tables
from latentstruct.planes.plane import Atoms, Rows, atom_fault

State = dict[str, Any]
# Type, and the unit of one entry.
ARRAYS: dict[str, tuple[type, str]] = {
    "count": (np.int32, "example"),
    "table_lengths": (np.int64, "example"),
    "lengths": (np.int32, "plane"),
    "offsets": (np.float64, "plane"),
    "masses": (np.float64, "plane"),
    "used": (np.int64, "plane"),
    "mixed": (np.bool_, "plane"),
    "gram": (np.float64, "pair of planes"),
    "numbers": (np.uint32, "atom of a plane"),
    "rows": (np.int32, "atom"),
    "columns": (np.int32, "atom"),
    "values": (np.float64, "atom"),
}
# Masses are updated thousands of times, each time with a rounding error.
MASS_ERROR = 1e-6
RESTART = "Start the training again."


def pack_store(slots: Slots, tables: Tables) -> State:
    """Return the planes of a store, example by example, as flat arrays."""
    kept = np.arange(slots.start.shape[1]) < slots.count[:, None]
    lengths = slots.length[kept]
    flat = _runs(slots.start[kept], lengths)
    atoms = _runs(tables.start, tables.length)
    return {
        "count": slots.count.copy(),
        "table_lengths": tables.length.copy(),
        "lengths": lengths,
        "offsets": slots.offset[kept],
        "masses": slots.alpha[kept],
        "used": slots.used[kept],
        "mixed": slots.mixed[kept],
        "gram": slots.gram[_matrices(slots.corner, slots.side, slots.count)],
        "numbers": tables.numbers[flat],
        "rows": tables.atoms.row[atoms],
        "columns": tables.atoms.column[atoms],
        "values": tables.atoms.value[atoms],
    }


def unpack_store(state: State, rows: Rows, n_features: int, n_examples: int, most: int) -> tuple[Slots, Tables]:
    """Return the slots and tables of a packed store, or raise InputError if indices are out of range."""
    _check_arrays(state, n_examples)
    _check_planes(state, most)
    check_atoms(state, rows, n_features)
    count = state["count"].astype(np.int64)
    sides = np.full(n_examples, min(FIRST_SLOTS, most), dtype=np.int64)
    while (narrow := sides < count).any():
        sides[narrow] = np.minimum(2 * sides[narrow], most)
    kept = np.arange(sides.max(initial=0)) < count[:, None]
    corners = offsets_from_lengths(sides**2)
    gram = np.zeros(corners[-1])
    gram[_matrices(corners[:-1], sides, state["count"])] = state["gram"]
    starts = offsets_from_lengths(state["lengths"])
    slots = Slots(
        _spread(kept, starts[:-1]),
        _spread(kept, state["lengths"]),
        _spread(kept, state["offsets"]),
        _spread(kept, state["masses"]),
        _spread(kept, state["used"]),
        np.zeros(kept.shape, dtype=np.uint64),
        _spread(kept, state["mixed"]),
        gram,
        corners[:-1].copy(),
        sides,
        state["count"].copy(),
    )
    lengths = state["table_lengths"].copy()
    begins = offsets_from_lengths(lengths)
    atoms = Atoms(state["rows"].copy(), state["columns"].copy(), state["values"].copy())
    end = np.array([begins[-1], starts[-1]])
    start, varied, numbers = begins[:-1].copy(), np.zeros_like(lengths), state["numbers"].copy()
    tables = Tables(atoms, start, lengths, varied, lengths.copy(), numbers, end)
    complete(tables, slots)
    return slots, tables


def check_whole_number(state: State, name: str, least: int) -> int:
    """Return a number of the state, or raise unless it is an integer of at least `least`."""
    value: Any = state.get(name)
    integer(least, 2**62).check(value, f"state[{name!r}]", RESTART)
    return int(value)


def _runs(starts: NDArray[Any], lengths: NDArray[Any]) -> Indices:
    """Return the positions of runs with given starts and lengths, one after the other."""
    offsets = offsets_from_lengths(lengths)
    flat = np.arange(offsets[-1])
    flat += np.repeat(starts - offsets[:-1], lengths)
    return flat


def _matrices(corners: NDArray[Any], sides: NDArray[Any], count: NDArray[Any]) -> Indices:
    """Return where the entries of the used corners of square matrices lie, row by row."""
    starts = _runs(np.zeros(len(count), dtype=np.int64), count) * np.repeat(sides, count) + np.repeat(corners, count)
    return _runs(starts, np.repeat(count, count))


def _spread(kept: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[Any]:
    """Return values at the kept places of an array that is 0 elsewhere."""
    out = np.zeros(kept.shape, dtype=values.dtype)
    out[kept] = values
    return out


def _error(name: str, got: str, expected: str) -> InputError:
    return InputError(f"state[{name!r}]", Description(got), expected, RESTART)


def _check_arrays(state: State, n_examples: int) -> None:
    """Raise unless all arrays exist with their types and with consistent numbers of entries."""
    for name, (kind, _) in ARRAYS.items():
        array = state.get(name)
        if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != 1:
            raise _error(name, repr_short(array), f"a flat array of {np.dtype(kind).name}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise _error(name, "NaN or infinity", "finite")
    count, lengths, tables = (state[name].astype(np.int64) for name in ("count", "lengths", "table_lengths"))
    for name, sizes, least in (("count", count, 1), ("lengths", lengths, 0), ("table_lengths", tables, 0)):
        # Sums of sizes must not wrap around.
        for size in sizes[(sizes < least) | (sizes > 2**31)][:1]:
            raise _error(name, str(size), f"from {least} to {2**31}")
    n_planes = int(count.sum())
    wanted = {
        "example": n_examples,
        "plane": n_planes,
        "pair of planes": int(np.square(count).sum()),
        "atom of a plane": int(lengths.sum()),
        "atom": int(tables.sum()),
    }
    for name, (_, unit) in ARRAYS.items():
        if len(state[name]) != wanted[unit]:
            raise _error(name, f"{len(state[name])} entries", f"an array of {wanted[unit]} entries (one per {unit})")


def _check_planes(state: State, most: int) -> None:
    """Raise unless the planes' numbers point into their tables and their masses are a distribution."""
    count = state["count"].astype(np.int64)
    if count.max(initial=0) > most:
        raise _error("count", str(count.max()), f"at most {most}")
    clock = check_whole_number(state, "clock", 0)
    if (state["used"] > clock).any() or (state["used"] < 0).any():
        raise _error("used", f"iteration {state['used'].max()}", f"iterations from 0 to {clock}")
    example_of = np.repeat(np.arange(len(count)), count)
    limits = np.repeat(state["table_lengths"][example_of], state["lengths"])
    if (state["numbers"] >= limits).any():
        raise _error("numbers", f"an atom numbered {state['numbers'].max()}", "numbers within the example's table")
    masses = state["masses"]
    sums = np.bincount(example_of, weights=masses, minlength=len(count))
    if (masses < 0).any() or (np.abs(sums - 1.0) > MASS_ERROR).any():
        raise _error("masses", f"values from {masses.min()} with sums up to {sums.max()}", "values ≥ 0 that sum to 1")


def check_atoms(state: State, rows: Rows, n_features: int) -> None:
    """Raise unless the atoms point to existing rows and weights."""
    fault = atom_fault(Atoms(state["rows"], state["columns"], np.zeros(0)), rows, n_features)
    if fault:
        raise _error("rows", fault, "indices of existing rows and weights")
