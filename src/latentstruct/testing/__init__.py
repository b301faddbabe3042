"""Checks for people who write their own tasks and solvers.

`check_task` puts a task to random weights and compares its answers with each other: planes, totals, decoding,
loss and derivatives must all describe the same functions. `check_solver` minimizes small random problems and
holds the result against the contract of `latentstruct.core.protocols.Result`. Both raise AssertionError with the
values at fault and what to look at; neither needs pytest.
"""

from latentstruct.testing.solvers import check_solver
from latentstruct.testing.tasks import check_task

__all__ = ["check_solver", "check_task"]
