"""State of planes that solvers keep: plane stores, bundles, and linear sides of objectives."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from latentstruct.core.objective import Objective
from latentstruct.core.oracles import FixedTotal
from latentstruct.core.types import Array, Indices, Vector
from latentstruct.persistence.checkpoints import task_errors
from latentstruct.persistence.state_trees import CODECS, Codec, PerExample, Range, Tree, from_state_dict, state_dict
from latentstruct.planes.plane import Atoms, Plane, Planes
from latentstruct.planes.serialization import StoreState, check_atoms
from latentstruct.planes.store import PlaneStore

MOST_PLANES = 10**9


def planes_at_zero(objective: Objective, rows: Indices | None = None) -> Planes:
    """Return planes of f⁻ at w = 0, whose layout stored planes of single examples must match."""
    if "planes" not in objective.properties:
        raise ValueError("it has planes of single examples, but this objective provides sums only")
    with task_errors():
        return objective.minus.planes(np.zeros(objective.n_features), rows)


@dataclass
class StoredPlanes:
    """A `PlaneStore` as a state."""

    most: Annotated[int, Range(2, MOST_PLANES)] | None
    bytes: float | None
    planes: StoreState


def _read_store(tree: Tree, objective: Objective) -> PlaneStore:
    found = from_state_dict(StoredPlanes, tree, objective)
    weights = objective.plus.weights
    return PlaneStore.restored(found.planes, planes_at_zero(objective), weights, found.most, found.bytes)


@dataclass
class LinearSide:
    """The planes of a linear side as a state, one per example."""

    pointers: Annotated[Indices, Array(("offsets",), np.int64)]
    rows: Annotated[Indices, Array(("k",), np.int32)]
    columns: Annotated[Indices, Array(("k",), np.int32)]
    slopes: Annotated[Vector, Array(("k",))]
    offsets: PerExample
    values: PerExample
    exact: bool
    below: bool


def _write_linear(convex: Objective) -> Tree:
    """Return the linear side of a convex objective."""
    side: Any = convex.minus
    if isinstance(side, FixedTotal):
        return {"total": state_dict(side.plane)}
    fixed = side.fixed
    row, column, value = fixed.atoms
    numbers = fixed.offsets, fixed.values, fixed.all_exact, fixed.below
    return state_dict(LinearSide(fixed.pointers, row, column, value, *numbers))


def _read_linear(tree: Tree, objective: Objective) -> Objective:
    """Return the objective with f⁻ replaced by a stored linear side."""
    if "total" in tree:
        return objective.linearized_with(from_state_dict(Plane, tree["total"], objective))
    found = from_state_dict(LinearSide, tree, objective)
    n = objective.n_examples
    ends = found.pointers
    if len(ends) != n + 1 or ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] != len(found.rows):
        raise ValueError("pointers of planes do not increase from 0 to the number of atoms")
    rows = planes_at_zero(objective, np.zeros(min(n, 1), dtype=np.int64)).rows
    atoms = Atoms(found.rows, found.columns, found.slopes)
    check_atoms(atoms, rows, objective.n_features)
    values = found.offsets, found.values, objective.n_features, found.exact, found.below
    return objective.linearized_with(Planes(rows, ends, atoms, *values))


CODECS[PlaneStore] = Codec(
    lambda store: state_dict(StoredPlanes(store.most, store.most_bytes, store.state())), _read_store
)
CODECS[Objective] = Codec(_write_linear, _read_linear)
