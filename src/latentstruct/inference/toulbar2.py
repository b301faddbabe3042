"""Maxima of graphs by branch and bound with the solver toulbar2, of the package pytoulbar2."""

import math
from itertools import pairwise
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike

from latentstruct.core.validation import real
from latentstruct.exceptions import InputError, missing_package
from latentstruct.inference.bounds import Bounds
from latentstruct.inference.elimination import Layout
from latentstruct.inference.structure import FactorGraphs, assignment_entries

DECIMALS = 6
"""Decimals of the costs that the solver sees."""

ONE_AT_A_TIME = Lock()
"""The solver has one state per process."""


def maximize(structure: FactorGraphs, unary: ArrayLike, tables: ArrayLike, max_seconds: float | None = None) -> Bounds:
    """Return the best assignment of one graph, and bounds of its score.

    Parameters
    ----------
    structure : FactorGraphs
        One graph.
    unary, tables : array-like
        Its potentials; finite or −inf.
    max_seconds : float, optional
        CPU time in seconds, rounded up, after which the best assignment so far is returned; by default none.

    Returns
    -------
    Bounds
        `states` is the best assignment found, `lower` its score, and `upper` a bound of all scores.

    Notes
    -----
    The solver rounds potentials to 6 decimals. The upper bound includes the largest possible error of this rounding.
    """
    try:
        import pytoulbar2
    except ImportError as error:
        raise missing_package("pytoulbar2", "maximize by toulbar2", "toulbar2") from error
    if structure.n_graphs != 1:
        raise InputError("structure", structure.n_graphs, "one graph")
    if max_seconds is not None:
        real(0.0, closed="neither").check(max_seconds, "max_seconds")
    layout = Layout.of(structure, np.zeros(1, dtype=np.int64))
    unary, tables = layout.check(unary, tables)
    n_variables, n_factors = len(structure.cards), len(structure.scope_at) - 1
    impossible = Bounds(-math.inf, -math.inf, np.zeros(n_variables, dtype=np.int64))
    rounding = 0.5 * 10.0**-DECIMALS * (n_variables + n_factors)
    scopes = [[v] for v in range(n_variables)]
    scopes += [structure.scopes[a:b].tolist() for a, b in pairwise(structure.scope_at.tolist())]
    parts = [-part for part in np.split(unary, structure.state_at[1:-1])] if n_variables else []
    parts += [-part for part in np.split(tables, structure.table_at[1:-1])] if n_factors else []
    with ONE_AT_A_TIME:
        # Options of the solver belong to a thread.
        pytoulbar2.pytb2.init()
        model = pytoulbar2.CFN(resolution=DECIMALS)
        try:
            for v, card in enumerate(structure.cards.tolist()):
                model.AddVariable(f"x{v}", range(card))
            for scope, costs in zip(scopes, parts, strict=True):
                model.AddFunction(scope, costs.tolist())
            found = model.Solve(timeLimit=0 if max_seconds is None else math.ceil(max_seconds))
        except model.Contradiction:
            return impossible
        bound = -model.GetDDualBound()
    if found is None and max_seconds is None:
        return impossible
    upper = bound + rounding
    if found is None:
        return Bounds(-math.inf, upper, impossible.states)
    states = np.array(found[0], dtype=np.int64)
    in_unary, in_tables = assignment_entries(structure, states)
    value = float(unary[in_unary].sum() + tables[in_tables].sum())
    return Bounds(value, max(value, upper), states)
