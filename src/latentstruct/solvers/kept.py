"""Trees of what solvers hand on to later calls: stores and bundles of planes."""

from typing import Any

import numpy as np

from latentstruct.checkpoints import asking
from latentstruct.core.objective import Objective
from latentstruct.core.oracles import FixedTotal
from latentstruct.core.protocols import Result
from latentstruct.kernels.planes import Atoms
from latentstruct.plane_states import check_atoms
from latentstruct.plane_store import PlaneStore
from latentstruct.planes import Plane, Planes
from latentstruct.ragged import Indices, Vector
from latentstruct.state_trees import Saved, Tree, history_tree, restored_history

MOST_PLANES = 10**9


def planes_at_zero(objective: Objective, rows: Indices | None = None) -> Planes:
    """Return planes of f⁻ at w = 0, which a state must fit that holds planes of single examples."""
    if "planes" not in objective.properties:
        raise ValueError("it has planes of single examples, of which this objective knows the sums only")
    with asking():
        return objective.minus.planes(np.zeros(objective.n_features), rows)


def store_tree(store: PlaneStore) -> Tree:
    """Return the planes of single examples."""
    return {"most": store.most, "bytes": store.most_bytes, "planes": store.state()}


def restored_store(saved: Saved, first: Planes, weights: Vector) -> PlaneStore:
    """Undo `store_tree` for the batch that `first` are planes of."""
    most_bytes = saved.real("bytes") if "bytes" in saved else None
    most = saved.whole("most", 2, MOST_PLANES) if "most" in saved else None
    return PlaneStore.restored(saved.tree["planes"], first, weights, most, most_bytes)


def linear_tree(side: Any) -> Tree:
    """Return a linear side of an objective."""
    if isinstance(side, FixedTotal):
        return {"total": plane_tree(side.plane)}
    planes = side.fixed
    return {
        "pointers": planes.pointers,
        "rows": planes.atoms.row,
        "columns": planes.atoms.column,
        "slopes": planes.atoms.value,
        "offsets": planes.offsets,
        "values": planes.values,
        "exact": planes.exact,
    }


def restored_linear(saved: Saved, objective: Objective) -> Objective:
    """Return the objective with the linear side that `linear_tree` was given in place of f⁻."""
    d, n = objective.n_features, objective.n_examples
    if "total" in saved:
        return objective.linearized_with(restored_plane(saved.part("total"), d))
    rows = planes_at_zero(objective, np.zeros(min(n, 1), dtype=np.int64)).rows
    pointers = saved.array("pointers", np.int64, n + 1)
    if pointers[0] != 0 or (np.diff(pointers) < 0).any():
        raise ValueError("pointers of planes do not rise from 0")
    size = int(pointers[-1])
    atoms = Atoms(
        saved.array("rows", np.int32, size), saved.array("columns", np.int32, size), saved.finite("slopes", size)
    )
    check_atoms({"rows": atoms.row, "columns": atoms.column}, rows, d)
    offsets, values = saved.vector("offsets", n), saved.vector("values", n)
    return objective.linearized_with(Planes(rows, pointers, atoms, offsets, values, d, saved.flag("exact")))


def plane_tree(plane: Plane) -> Tree:
    """Return one plane."""
    return {"slope": plane.slope, "offset": plane.offset, "entropy": plane.entropy, "exact": plane.exact}


def restored_plane(saved: Saved, n_features: int) -> Plane:
    """Undo `plane_tree`."""
    slope = saved.vector("slope", n_features)
    return Plane(slope, saved.real("offset"), saved.real("entropy"), saved.flag("exact"))


def result_tree(result: Result) -> Tree:
    """Return what a finished part of a run has reached, without its state."""
    names = ("w", "objective", "lower_bound", "oracle_calls", "n_rounds", "reason", "certified")
    return {**{name: getattr(result, name) for name in names}, "history": history_tree(result.history)}


def restored_result(saved: Saved, n_features: int) -> Result:
    """Undo `result_tree`."""
    return Result(
        saved.vector("w", n_features),
        saved.real("objective"),
        saved.real("lower_bound"),
        saved.whole("oracle_calls"),
        saved.whole("n_rounds"),
        saved.text("reason"),
        saved.flag("certified"),
        restored_history(saved.part("history")),
    )
