"""Choice of the solver for an objective, by name or by default."""

from typing import Any

from latentstruct import solvers
from latentstruct.core.objective import Objective
from latentstruct.core.regularizers import ElasticNet
from latentstruct.core.validation import copied, options
from latentstruct.exceptions import InputError
from latentstruct.solvers.base import SOLVER, BaseSolver

SOLVERS = {
    "block_ascent": "BlockAscent",
    "bundle": "Bundle",
    "cutting_plane": "CuttingPlane",
    "frank_wolfe": "FrankWolfe",
    "subgradient": "Subgradient",
    "lbfgs": "LBFGS",
    "owlqn": "OWLQN",
    "proximal": "Proximal",
}
"""Classes of the solvers by their names in estimators."""
CHOICES = options("auto", *SOLVERS) | SOLVER
LONG = 50_000
"""Number of weights from which the dense planes of a bundle are long."""


def choose_solver(objective: Objective, repeated: bool = False) -> BaseSolver:
    """Return the solver that was fastest in benchmarks for this kind of objective.

    If it is one of many similar problems, block ascent ends soon with kept planes; otherwise the bundle makes better
    use of them.

    `Proximal` for nonsmooth regularizers, `OWLQN` for `ElasticNet` if all else is smooth. If the objective is convex:
    L-BFGS if everything is smooth; block ascent for the hinge (with the bundle as fallback); the bundle if there is a
    single example. Otherwise L-BFGS on the difference itself if the latents are summed out, and CCCP if they are
    maximized, because f⁻ is then nonsmooth even if outputs are smoothed. CCCP also if outputs are maximized by
    approximate inference: the planes of the outputs it finds are bounds if latents are summed exactly, while soft
    approximations have other minima.
    """
    properties = objective.properties
    if not objective.regularizer.smooth:
        sparse = isinstance(objective.regularizer, ElasticNet) and "smooth" in properties
        return solvers.OWLQN() if sparse else solvers.Proximal()
    if "convex" in properties:
        if "smooth" in properties:
            return solvers.LBFGS()
        if objective.n_examples == 1 or "planes" not in properties:
            return solvers.Bundle()
        if not repeated:
            return solvers.HingeSolver()
        return solvers.HingeSolver(patience=40 if objective.n_features <= LONG else 1000, hopeless=0.0)
    if not objective.minus.smooth:
        return solvers.CCCP()
    decoded = "smooth" not in properties and "difference" in properties
    return solvers.CCCP() if decoded and objective.plus.approximate else solvers.LBFGS()


def named_solver(solver: Any) -> Any:
    """Return the solver that a parameter names, None for other names; what is no name is returned as it is."""
    if not isinstance(solver, str):
        return solver
    return getattr(solvers, SOLVERS[solver])() if solver in SOLVERS else None


def select_solver(solver: Any, objective: Objective, restarts: int | None = None, **limits: Any) -> BaseSolver:
    """Return the solver for an objective, with its parameters.

    A chosen solver that does not support a difference of convex functions becomes the inner solver of CCCP. A convex
    objective needs one of the `restarts` only. `limits` are `tol`, `max_iter`, `max_seconds` and `cache_mb`; None keeps
    the solver's own.
    """
    CHOICES.check(solver, "solver")
    found = named_solver(solver)
    found = choose_solver(objective) if found is None else copied(found)
    if {"convex", "difference"} & objective.properties == {"difference"}:
        beyond = "convex" in found.needs or (isinstance(found, solvers.LBFGS) and not objective.minus.smooth)
        found = solvers.CCCP(found) if beyond else found
        if isinstance(found, solvers.CCCP | solvers.SelfPaced) and not objective.regularizer.smooth:
            expected = f"'auto' for latent variables with {type(objective.regularizer).__name__}"
            raise InputError("solver", solver, expected, "CCCP needs the regularizer ½‖w‖².")
    if restarts is not None and "convex" not in objective.properties:
        found.set_restarts(restarts)
    for name, value in limits.items():
        if value is not None:
            setattr(found, name, value)
    return found
