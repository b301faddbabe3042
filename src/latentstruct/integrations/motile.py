"""Costs of the tracking package motile, learned also from partial labels."""

from typing import Any

import numpy as np

from latentstruct.core.lazy import sparse
from latentstruct.core.types import Vector
from latentstruct.estimators import LatentSSVM, StructuralSVM
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.program.inputs import ProgramInput, ProgramOutput
from latentstruct.tasks.program.task import Program

RELATIONS = {"LessEqual": (False, True), "Equal": (True, True), "GreaterEqual": (True, False)}
"""Whether a constraint has a lower and an upper bound, by its relation."""


def program_of(solver: Any) -> ProgramInput:
    """Return the integer program of a motile solver; scores are its costs times −1."""
    rows: list[tuple[int, int, float]] = []
    lb, ub = [], []
    for r, constraint in enumerate(solver.constraints):
        if constraint.get_quadratic_coefficients():
            raise InputError("solver", Description("a quadratic constraint"), "a solver with linear constraints")
        rows += [(r, int(j), float(a)) for j, a in constraint.get_coefficients().items()]
        low, high = RELATIONS[constraint.get_relation().name]
        lb.append(constraint.get_value() if low else -np.inf)
        ub.append(constraint.get_value() if high else np.inf)
    features = -np.asarray(solver.features.to_ndarray(), dtype=np.float64)
    at = np.array(rows).reshape(-1, 3).T
    places = at[0].astype(np.int64), at[1].astype(np.int64)
    return ProgramInput(features, sparse.csr_array((at[2], places), shape=(len(lb), len(features))), lb, ub)


def labels_of(solver: Any, gt_attribute: str) -> ProgramOutput:
    """Return the values of the variables of a motile solver, NaN where the attribute is missing or None.

    Appearances and disappearances follow from labels: they are 1 where a node is selected but no edge into it, or out
    of it, is. The constraints of motile alone leave them open at some nodes. Only labels count in the loss.
    """
    y, weights = np.full(solver.num_variables, np.nan), np.zeros(solver.num_variables)
    kinds = {kind.__name__: variables for kind, variables in solver.variables.items()}
    nodes, edges = (kinds.get(name, {}) for name in ("NodeSelected", "EdgeSelected"))
    for variables, items in ((nodes, solver.graph.nodes), (edges, solver.graph.edges)):
        for key, index in variables.items():
            value = items[key].get(gt_attribute)
            weights[int(index)] = 1.0
            if value is not None:
                y[int(index)] = float(value)
    for name, side in (("NodeAppear", 1), ("NodeDisappear", 0)):
        ends = {node: int(index) for node, index in kinds.get(name, {}).items()}
        taken = dict.fromkeys(ends, 0.0)
        for edge, index in edges.items():
            value = y[int(index)]
            if value != 0.0 and taken.get(edge[side], 1.0) != 1.0:
                taken[edge[side]] = value
        for node, index in ends.items():
            selected = y[int(nodes[node])] if node in nodes else np.nan
            y[index] = 0.0 if selected == 0.0 or taken[node] == 1.0 else selected - taken[node]
    return ProgramOutput(y, weights)


def fit_weights(
    solver: Any,
    gt_attribute: str,
    regularizer_weight: float = 0.1,
    max_iterations: int | None = None,
    eps: float = 1e-3,
    start: bool = False,
) -> Vector:
    """Learn the weights of a motile solver, set them and return them.

    A replacement of ``motile.Solver.fit_weights`` with the same objective. What has no label is latent instead of 0.
    Appearances and disappearances are derived from labels, and latent where these do not decide them.

    Parameters
    ----------
    solver : motile.Solver
        Solver with costs and constraints.
    gt_attribute : str
        Attribute of nodes and edges: 1 in the ground truth, 0 not, None or missing if unlabeled.
    regularizer_weight : float, default=0.1
        Weight of ½‖w‖².
    max_iterations : int, optional
        Maximum number of iterations.
    eps : float, default=1e-3
        Relative precision.
    start : bool, default=False
        Whether training with unknown labels begins with the completions by the present weights of the solver.

    Returns
    -------
    weights : ndarray of shape (d,)
        The weights.
    """
    x, y = program_of(solver), labels_of(solver, gt_attribute)
    limits: dict[str, Any] = {"C": 1.0 / regularizer_weight, "tol": eps}
    if max_iterations is not None:
        limits["max_iter"] = max_iterations
    y = _completed(x, y)
    model: Any
    if np.isnan(y.values).any():
        initial = np.asarray(solver.weights.to_ndarray(), dtype=np.float64) if start else None
        model = LatentSSVM(Program(), random_state=0, **limits).fit([x], [y], coef_init=initial)
    else:
        model = StructuralSVM(Program(), **limits).fit([x], [y])
    solver.weights.from_ndarray(model.coef_)
    weights: Vector = model.coef_
    return weights


def _completed(x: ProgramInput, y: ProgramOutput) -> ProgramOutput:
    """Return an output with all values if its known ones leave only one vector of features."""
    if not np.isnan(y.values).any():
        return y
    task = Program()
    task.learn([x], [y])
    batch, w = task.prepare([x], [y]), np.random.default_rng(0).normal(size=task.n_features)
    high, low = (task.complete(batch, sign * w)[0] for sign in (1.0, -1.0))
    # The best and the worst completion by random weights agree.
    return ProgramOutput(high, y.weights) if np.allclose(high @ x.features, low @ x.features) else y
