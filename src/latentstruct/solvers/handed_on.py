"""Trees of the state that a solver's result hands on to the next call."""

from typing import Any

from latentstruct.core.objective import Objective
from latentstruct.plane_store import PlaneStore
from latentstruct.solvers.bundle import PlaneBundle
from latentstruct.solvers.kept import planes_at_zero, restored_store, store_tree
from latentstruct.solvers.plane_model import PlaneModel
from latentstruct.state_trees import Saved, Tree


def is_known(state: Any) -> bool:
    """Tell whether a state can be kept in a file; those of solvers of the user's own cannot."""
    return state is None or isinstance(state, PlaneStore | PlaneBundle | PlaneModel)


def state_tree(state: Any) -> Tree:
    """Return a state that is known."""
    if isinstance(state, PlaneStore):
        return {"store": store_tree(state)}
    if isinstance(state, PlaneBundle):
        return {"bundle": state.tree()}
    return None if state is None else {"model": state.tree()}


def restored_state(tree: Tree, convex: Objective) -> Any:
    """Undo `state_tree` for a convex objective of the same batch."""
    if tree is None:
        return None
    saved = Saved(tree)
    if "store" in saved:
        return restored_store(saved.part("store"), planes_at_zero(convex), convex.plus.weights)
    if "bundle" in saved:
        return PlaneBundle.restored(saved.part("bundle"), convex)
    return PlaneModel.restored(saved.part("model"), convex.n_examples, convex.n_features)
