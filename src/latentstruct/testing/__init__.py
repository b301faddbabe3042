"""Checks for custom tasks and solvers.

`check_task` queries a task at random weights and compares its results with each other: planes, totals, decoding,
loss and derivatives must all describe the same functions. `check_solver` minimizes small random problems and
compares the result with the contract of `latentstruct.core.protocols.Result`. Both raise AssertionError with the
wrong values and a hint; neither needs pytest.
"""

from latentstruct.testing.solvers import check_solver
from latentstruct.testing.tasks import check_task

__all__ = ["check_solver", "check_task"]
