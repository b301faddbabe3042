"""Costs of the tracking package motile, learned also from partial labels."""

from typing import Any

import numpy as np

from latentstruct.core.lazy import sparse
from latentstruct.core.types import Vector
from latentstruct.estimators import LatentSSVM, StructuralSVM
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.program.inputs import ProgramInput
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


def labels_of(solver: Any, gt_attribute: str) -> Vector:
    """Return the values of the variables of a motile solver, NaN where the attribute is missing or None."""
    y = np.full(solver.num_variables, np.nan)
    for kind, variables in solver.variables.items():
        items: Any = {"NodeSelected": solver.graph.nodes, "EdgeSelected": solver.graph.edges}.get(kind.__name__)
        for key, index in variables.items() if items is not None else ():
            value = items[key].get(gt_attribute)
            if value is not None:
                y[int(index)] = float(value)
    return y


def fit_weights(
    solver: Any,
    gt_attribute: str,
    regularizer_weight: float = 0.1,
    max_iterations: int | None = None,
    eps: float = 1e-3,
    start: bool = False,
) -> Vector:
    """Learn the weights of a motile solver, set them and return them.

    A replacement of ``motile.Solver.fit_weights`` with the same objective. What has no label, and variables that only
    follow from others, such as appearances, are latent instead of 0.

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
    task = Program()
    task.learn([x], [y])
    batch, scores = task.prepare([x], [y]), np.random.default_rng(0).normal(size=len(y))
    ends = [task._maximize(batch, 0, sign * scores, "clamped").x for sign in (1.0, -1.0)]
    limits: dict[str, Any] = {} if max_iterations is None else {"max_iter": max_iterations}
    if np.array_equal(ends[0], ends[1]):
        # The largest and the smallest random score agree: the labels leave one output.
        model: Any = StructuralSVM(Program(), C=1.0 / regularizer_weight, tol=eps, **limits).fit([x], ends[:1])
    else:
        initial = np.asarray(solver.weights.to_ndarray(), dtype=np.float64) if start else None
        model = LatentSSVM(Program(), C=1.0 / regularizer_weight, tol=eps, random_state=0, **limits)
        model.fit([x], [y], coef_init=initial)
    solver.weights.from_ndarray(model.coef_)
    weights: Vector = model.coef_
    return weights
