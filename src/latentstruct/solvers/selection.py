"""Which solver an objective gets: by name, by default, and by what solvers declare."""

from typing import Any

from latentstruct import solvers
from latentstruct.core.objective import Objective
from latentstruct.core.validation import copied, options
from latentstruct.exceptions import InputError
from latentstruct.solvers.base import SOLVER, BaseSolver
from latentstruct.solvers.caches import affordable_planes, bounded

SOLVERS = {
    "block_ascent": "BlockAscent",
    "bundle": "Bundle",
    "cutting_plane": "CuttingPlane",
    "frank_wolfe": "FrankWolfe",
    "subgradient": "Subgradient",
    "lbfgs": "LBFGS",
    "proximal": "Proximal",
}
"""Classes of the solvers by the names that estimators take."""


def choose_solver(objective: Objective) -> BaseSolver:
    """Return the solver that was fastest in measurements for objectives of this kind.

    `Proximal` for regularizers with kinks. If the objective is convex: L-BFGS where everything is smooth; block ascent
    for the hinge (with the bundle in reserve); the bundle where there is one example only, so that blocks mean nothing.
    Otherwise L-BFGS on the difference itself where the latents are summed out, and CCCP where they are maximized, since
    there f⁻ has kinks that no smoothing of the outputs takes away. CCCP also where outputs are maximized by approximate
    inference: the planes of the outputs it finds are bounds wherever latents are summed exactly, while soft answers
    have other minima.
    """
    properties = objective.properties
    if not objective.regularizer.smooth:
        return solvers.Proximal()
    if "convex" in properties:
        if "smooth" in properties:
            return solvers.LBFGS()
        if objective.n_examples == 1 or "planes" not in properties:
            return solvers.Bundle(max_planes=affordable_planes(objective))
        return solvers.HingeSolver()
    if not objective.minus.smooth:
        return solvers.CCCP()
    decoded = "smooth" not in properties and "difference" in properties
    return solvers.CCCP() if decoded and objective.plus.approximate else solvers.LBFGS()


def named_solver(solver: Any, objective: Objective) -> BaseSolver:
    """Return the solver of a name or a copy of a given one."""
    (options("auto", *SOLVERS) | SOLVER).check(solver, "solver")
    if not isinstance(solver, str):
        return copied(solver)
    return choose_solver(objective) if solver == "auto" else getattr(solvers, SOLVERS[solver])()


def select_solver(
    solver: Any, objective: Objective, restarts: int | None = None, cache_mb: float | None = None, **limits: Any
) -> BaseSolver:
    """Return the solver for an objective, with its parameters.

    Parameters
    ----------
    solver : str or solver
        What the user chose. Where the difference of convex functions is beyond it, it is put into CCCP.
    objective : Objective
        What is to be minimized.
    restarts : int, optional
        Number of starts. A convex objective has one minimum, wherever one starts.
    cache_mb : float, optional
        Memory for planes.
    limits
        `tol`, `max_rounds` and `max_seconds`; None leaves the solver's own.
    """
    found = named_solver(solver, objective)
    if {"convex", "difference"} & objective.properties == {"difference"}:
        beyond = "convex" in found.needs or (isinstance(found, solvers.LBFGS) and not objective.minus.smooth)
        found = solvers.CCCP(found) if beyond else found
        if isinstance(found, solvers.CCCP | solvers.SelfPaced) and not objective.regularizer.smooth:
            expected = f"'auto' for latent variables with {type(objective.regularizer).__name__}"
            raise InputError("solver", solver, expected, "CCCP needs the regularizer ½‖w‖².")
    if restarts is not None and "convex" not in objective.properties:
        found.set_restarts(restarts)
    found.set_params(**{name: value for name, value in limits.items() if value is not None})
    return bounded(found, cache_mb)
