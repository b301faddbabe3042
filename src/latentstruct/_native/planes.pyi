from typing import Final

import numpy as np
from numpy.typing import NDArray

from latentstruct.planes.memory import Slots, Tables
from latentstruct.planes.plane import Atoms, Rows
from latentstruct.planes.store import PlaneStore

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]

PLAIN: Final[int]
AWAY: Final[int]
PAIRWISE: Final[int]
SMO: Final[int]

# Symbols as in native/kept_planes.hpp. Of a store, `rows`, `tables`, `slots`, `scratch` and `weights` are read.

def planes_dot(rows: Rows, atoms: Atoms, pointers: Indices, vector: Vector, out: Vector, /) -> None:
    """out[p] = g_p · vector for all planes; pointers is (k + 1,)."""

def planes_add(rows: Rows, atoms: Atoms, pointers: Indices, coefficients: Vector, vector: Vector, /) -> None:
    """Vector += Σ_p coefficients[p] g_p; pointers is (k + 1,)."""

def combine(store: PlaneStore, vector: Vector, /) -> float:
    """Vector += Σ_i c_i Σ_p α_ip g_ip; return Σ_i c_i Σ_p α_ip b_ip."""

def mean_heights(store: PlaneStore, examples: Indices, w: Vector, out: Vector, /) -> None:
    """out[k] = Σ_p α_p s_p at w for the listed examples."""

def add_highest(store: PlaneStore, w: Vector, slope: Vector, values: Vector, /) -> float:
    """values[i] = height of example i's highest kept plane at w; slope += c_i times its slope.

    Return Σ_i c_i times the planes' offsets.
    """

def ascend(
    store: PlaneStore, rule: int, steps: int, examples: Indices, w: Vector, gaps: Vector, /
) -> tuple[float, float]:
    """Update the listed examples one after the other, and `w`.

    gaps[k] is the weighted gap of example k over its kept planes, before its own update. Return the change of
    Σ_i c_i Σ_p α_ip b_ip and the gain of the dual value.
    """

def extrapolate(
    store: PlaneStore, keys: NDArray[np.uint64], earlier: NDArray[np.float64], w: Vector, /
) -> tuple[float, float]:
    """Move all dual variables on along the line from earlier ones as far as is best, and project them on the simplices.

    Update `w`. Return the change of Σ_i c_i Σ_p α_ip b_ip and the gain of the dual value; (0, 0) if that would not
    increase it. `keys` are those of the planes of `earlier`, (n, K).
    """

def append_planes(
    store: PlaneStore, examples: Indices, atoms: Atoms, pointers: Indices, offsets: Vector, idle: int, w: Vector, /
) -> float:
    """Append new planes, one per listed example; the caller has allocated space.

    A plane that exists already is only marked as used. New planes get α = 0, or α = 1 when they are the example's
    first. `w` changes only if a plane with mass is dropped. Return the change of Σ c α b.
    """

def drop_planes(store: PlaneStore, examples: Indices, places: Indices, w: Vector, /) -> float:
    """Drop the planes (examples, places), the places of one example decreasing; it must keep at least one.

    Their masses are moved to other planes, and `w` is updated. Return the change of Σ c α b.
    """

def merge_lightest(examples: Indices, tables: Tables, slots: Slots, /) -> None:
    """Replace the two lightest planes of each listed example by their mean, which does not change the dual point.

    A mean of planes below a function is below it too. The caller has allocated space for all atoms of both planes.
    """

def complete(tables: Tables, slots: Slots, /) -> None:
    """Compute derived fields of the planes: their keys, and the common atoms."""

def move_matrices(corners: Indices, sides: Indices, slots: Slots, target: Vector, /) -> None:
    """Copy the Gram matrices of all examples to other corners of `target`, where they have other sides."""

def compact(tables: Tables, slots: Slots, table_order: Indices, examples: Indices, places: Indices, /) -> None:
    """Move tables and planes to the left until there are no gaps.

    `table_order` lists the examples, (examples, places) the kept planes, both by where they begin now. The order of
    atoms within a table does not change, so sums over them do not either.
    """
