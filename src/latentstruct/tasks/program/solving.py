"""Maxima of linear functions over programs: assignments, linear programs, and integer programs with bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import csgraph, optimize, sparse
from latentstruct.core.types import Indices, Vector
from latentstruct.exceptions import missing_package
from latentstruct.tasks.program.inputs import Constraints
from latentstruct.tasks.program.tightening import tightened

INTEGRAL = 1e-6
"""Distance from an integer that counts as rounding of a linear program."""
OPTIMAL = 1e-9
"""Gap, relative to the largest score, that counts as rounding of an integer program."""


class Answer(NamedTuple):
    """A point of a program, and how far the maximum may be above it."""

    x: Vector
    excess: float = 0.0


class Unsolvable(Exception):
    """A program without a maximum; `rows` are constraints that exclude each other, None if it is unbounded."""

    def __init__(self, rows: Sequence[int] | None) -> None:
        super().__init__("unbounded" if rows is None else "infeasible")
        self.rows = rows


@dataclass(frozen=True)
class Limits:
    """Limits of the search of one integer program; None for no limit."""

    gap: float = 0.0
    max_nodes: int | None = None
    max_seconds: float | None = None
    relaxed: bool = False


class Maximizer(Protocol):
    """Finds the maxima of linear functions over one program."""

    def maximize(self, scores: Vector) -> Answer:
        """Return the point with the largest Σ_j x_j s_j that was found."""

    def memory(self) -> NDArray[np.int8]:
        """Return the state that later answers depend on."""

    def recall(self, memory: NDArray[np.int8]) -> None:
        """Restore the result of `memory`."""


_KNOWN: WeakKeyDictionary[Constraints, Constraints] = WeakKeyDictionary()
"""Tightened constraints, which several estimators may need for the same programs."""


def _tightened(c: Constraints) -> Constraints:
    if c not in _KNOWN:
        _KNOWN[c] = tightened(c.scaled())
    return _KNOWN[c]


def _model(constraints: Constraints, integer: bool) -> Any:
    try:
        import highspy
    except ImportError as error:
        raise missing_package("highspy", "solve linear and integer programs", "program") from error
    solver, lp, c = highspy.Highs(), highspy.HighsLp(), constraints
    for option, value in {
        "output_flag": False,
        "threads": 1,
        "random_seed": 0,
        "dual_feasibility_tolerance": 1e-9,
        "primal_feasibility_tolerance": 1e-9,
        "mip_abs_gap": OPTIMAL,
        "iis_strategy": 2,
    }.items():
        solver.setOptionValue(option, value)
    lp.num_row_, lp.num_col_ = c.A.shape
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = np.zeros(len(c.lower)), c.lower, c.upper
    lp.row_lower_, lp.row_upper_ = c.lb, c.ub
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = c.A.indptr, c.A.indices, c.A.data
    lp.sense_ = highspy.ObjSense.kMaximize
    if integer:
        kinds = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
        lp.integrality_ = [kinds[whole] for whole in c.integer.tolist()]
    if solver.passModel(lp) == highspy.HighsStatus.kError:
        raise RuntimeError("HiGHS refused a model")
    return solver


class HighsProgram:
    """A program solved by HiGHS: first its linear relaxation, from the last basis, then by branch and cut."""

    def __init__(self, constraints: Constraints, limits: Limits) -> None:
        self.constraints, self.limits = constraints.scaled(), limits
        self._columns = np.arange(len(constraints.lower), dtype=np.int32)
        self._solved = self.constraints if limits.relaxed else _tightened(constraints)
        self._linear = _model(self._solved, integer=False)
        self._search: Any = None
        self._last: Vector | None = None

    def _run(self, solver: Any, scores: Vector) -> tuple[str, float]:
        """Solve for scores in units of the largest, by which tolerances are relative; return status and unit."""
        unit = float(np.abs(scores).max(initial=0.0)) or 1.0
        solver.changeColsCost(len(scores), self._columns, scores / unit)
        solver.run()
        return solver.getModelStatus().name, unit

    def _point(self, solver: Any) -> Vector:
        x = np.array(solver.getSolution().col_value)
        whole = self.constraints.integer
        x[whole] = np.round(x[whole])
        return np.clip(x, self.constraints.lower, self.constraints.upper)

    def _require_solution(self, status: str) -> None:
        if status in ("kInfeasible", "kUnboundedOrInfeasible", "kUnbounded"):
            # Conflicts are those of the given constraints.
            given = _model(self.constraints, integer=False)
            given.setOptionValue("presolve", "off")
            status, _ = self._run(given, np.zeros(len(self._columns)))
            raise Unsolvable(None if status == "kOptimal" else list(given.getIis()[1].row_index_))

    def maximize(self, scores: Vector) -> Answer:
        """Return the best point found: the maximum, unless limits ended the search."""
        if not len(scores):
            wrong = np.flatnonzero((self.constraints.lb > 1e-6) | (self.constraints.ub < -1e-6))
            if len(wrong):
                raise Unsolvable(wrong.tolist())
            return Answer(np.zeros(0))
        status, unit = self._run(self._linear, scores)
        if status != "kOptimal":
            # A basis from other scores may be numerically poor.
            self._linear.clearSolver()
            status, unit = self._run(self._linear, scores)
            self._require_solution(status)
        x = np.array(self._linear.getSolution().col_value)
        bound = unit * self._linear.getInfo().objective_function_value
        whole = self.constraints.integer
        if self.limits.relaxed or (np.abs(x[whole] - np.round(x[whole])) <= INTEGRAL).all():
            if not self.limits.relaxed:
                x = self._point(self._linear)
                if self.constraints.violation(x) is None:
                    return Answer(x)
            else:
                near = np.round(x)
                return Answer(np.where(np.abs(x - near) <= INTEGRAL, near, x))
        return self._branch(scores, bound)

    def _branch(self, scores: Vector, bound: float) -> Answer:
        """Search from the last solution; `bound` is the value of the linear relaxation."""
        if self._search is None:
            self._search = _model(self._solved, integer=True)
        limits, solver = self.limits, self._search
        solver.clearSolver()
        solver.setOptionValue("mip_rel_gap", float(limits.gap))
        solver.setOptionValue("mip_max_nodes", 2**31 - 1 if limits.max_nodes is None else limits.max_nodes)
        solver.setOptionValue("time_limit", np.inf if limits.max_seconds is None else float(limits.max_seconds))
        solver.setOptionValue("mip_max_improving_sols", 2**31 - 1)
        if self._last is not None:
            self._offer(solver, self._last)
        status, unit = self._run(solver, scores)
        info = solver.getInfo()
        found = info.primal_solution_status == 2
        bound = min(bound, unit * info.mip_dual_bound) if np.isfinite(info.mip_dual_bound) else bound
        if not found:
            if status == "kInfeasible":
                raise Unsolvable([])
            # Some point is needed: the first one, however long that takes.
            for option, value in (("mip_max_nodes", 2**31 - 1), ("time_limit", np.inf), ("mip_max_improving_sols", 1)):
                solver.setOptionValue(option, value)
            status, _ = self._run(solver, scores)
            if solver.getInfo().primal_solution_status != 2:
                raise Unsolvable([])
        x = self._last = self._point(solver)
        excess = bound - float(scores @ x)
        return Answer(x, excess if excess > OPTIMAL * unit * len(x) else 0.0)

    @staticmethod
    def _offer(solver: Any, x: Vector) -> None:
        import highspy

        solution = highspy.HighsSolution()
        solution.col_value = x.tolist()
        solver.setSolution(solution)

    def memory(self) -> NDArray[np.int8]:
        """Return the statuses of the basis of the linear relaxation, nothing before its first solution."""
        basis = self._linear.getBasis()
        statuses = (*basis.col_status, *basis.row_status) if basis.valid else ()
        return np.array([int(status) for status in statuses], dtype=np.int8)

    def recall(self, memory: NDArray[np.int8]) -> None:
        """Restore a basis."""
        import highspy

        n, (m, width) = len(memory), self._solved.A.shape
        self._last = None
        self._linear.clearSolver()
        if n == 0:
            return
        if n != m + width or memory.min() < 0 or memory.max() > 4:
            raise ValueError(f"a basis of {n} statuses for {width} variables and {m} constraints")
        basis = highspy.HighsBasis()
        statuses = [highspy.HighsBasisStatus(int(status)) for status in memory]
        basis.col_status, basis.row_status, basis.valid = statuses[:width], statuses[width:], True
        self._linear.setBasis(basis)


@dataclass
class AssignmentProgram:
    """Programs that choose the cells of a table, in each row and column exactly one or at most one."""

    # (V, 2) row and column of each variable in a table, which has further rows and columns for items that stay single.
    cells: Indices
    # (k, k) 0 where items stay single, −∞ in the cells of variables and where there are none.
    table: NDArray[np.float64]
    fixed: NDArray[np.bool_]  # (V,) variables that must stay 0

    @classmethod
    def of(cls, c: Constraints) -> "AssignmentProgram | None":
        """Return the table of a program, None if it does not have this form."""
        binary = c.integer.all() and (c.lower == 0).all() and (c.upper == 1).all()
        if not binary or (c.A.data != 1).any() or (np.diff(c.A.indptr) != 2).any() or (c.ub != 1).any():
            return None
        if not ((c.lb <= 0) | (c.lb == 1)).all():
            return None
        sides, pairs = _two_colors(c.A), c.A.indices.reshape(-1, 2).astype(np.int64)
        if sides is None:
            return None
        left, right = np.flatnonzero(~sides), np.flatnonzero(sides)
        pairs = np.where(sides[pairs[:, :1]], pairs[:, ::-1], pairs)
        number = np.empty(len(sides), dtype=np.int64)
        number[left], number[right] = np.arange(len(left)), np.arange(len(right))
        cells = number[pairs]
        if len(np.unique(cells, axis=0)) < len(cells):
            return None
        n, m = len(left), len(right)
        optional = c.lb <= 0
        if not optional.any():
            if n != m:
                return None
            return cls(cells, np.full((n, n), -np.inf), np.zeros(len(cells), dtype=bool))
        table = np.full((n + m, n + m), -np.inf)
        table[np.flatnonzero(optional[left]), m + np.flatnonzero(optional[left])] = 0.0
        table[n + np.flatnonzero(optional[right]), np.flatnonzero(optional[right])] = 0.0
        # Rows and columns for single items that are not needed meet each other.
        table[n:, m:] = 0.0
        return cls(cells, table, np.zeros(len(cells), dtype=bool))

    def clamped(self, truth: Vector) -> "AssignmentProgram":
        """Return the program in which known variables have their values."""
        taken = truth == 1
        rows, columns = self.cells[taken].T
        table = self.table.copy()
        table[rows], table[:, columns] = -np.inf, -np.inf
        busy = np.isin(self.cells[:, 0], rows) | np.isin(self.cells[:, 1], columns)
        return AssignmentProgram(self.cells, table, (truth == 0) | (busy & ~taken))

    def maximize(self, scores: Vector) -> Answer:
        """Return the best assignment."""
        table = self.table.copy()
        table[tuple(self.cells.T)] = np.where(self.fixed, -np.inf, scores)
        try:
            rows, columns = optimize.linear_sum_assignment(table, maximize=True)
        except ValueError as error:
            raise Unsolvable([]) from error
        chosen = np.empty(len(table), dtype=np.int64)
        chosen[rows] = columns
        return Answer((chosen[self.cells[:, 0]] == self.cells[:, 1]).astype(np.float64))

    def memory(self) -> NDArray[np.int8]:
        """Return nothing: answers do not depend on earlier ones."""
        return np.zeros(0, dtype=np.int8)

    def recall(self, memory: NDArray[np.int8]) -> None:
        """Do nothing."""


def _two_colors(A: Any) -> NDArray[np.bool_] | None:
    """Return a division of the rows into two sides such that each column has one row on each, None if there is none."""
    m = A.shape[0]
    pairs = A.indices.reshape(-1, 2)
    graph = sparse.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(m, m))
    n_parts, part = csgraph.connected_components(graph, directed=False)
    sides = np.zeros(m, dtype=bool)
    first = np.full(n_parts, m)
    np.minimum.at(first, part, np.arange(m))
    for root in first.tolist():
        order, before = csgraph.breadth_first_order(graph, root, directed=False)
        for node in order[1:].tolist():
            sides[node] = not sides[before[node]]
    return sides if (sides[pairs[:, 0]] != sides[pairs[:, 1]]).all() else None


def maximizer(constraints: Constraints, limits: Limits) -> Maximizer:
    """Return the fastest method for a program."""
    found = AssignmentProgram.of(constraints)
    return HighsProgram(constraints, limits) if found is None else found
