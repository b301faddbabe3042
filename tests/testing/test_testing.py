"""The public checks themselves: every solver of the library passes, broken ones do not."""

import numpy as np
import pytest

from latentstruct import LBFGS, BlockAscent, Bundle, CuttingPlane, FrankWolfe, Subgradient
from latentstruct.testing import check_solver

SOLVERS = [
    BlockAscent(),
    Bundle(),
    Bundle(proximity=0.0),
    Bundle(cached_planes=5),
    CuttingPlane(),
    FrankWolfe(),
    FrankWolfe(step="away"),
    FrankWolfe(step="plain", gap_sampling=True, average=True, max_iter=100),
    LBFGS(),
    Subgradient(max_iter=50),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_the_library_s_solvers_keep_their_contract(solver):
    check_solver(solver)


class FalseBound(BlockAscent):
    """Claims more than it knows."""

    def _run(self, objective, monitor, w, state):
        super()._run(objective, monitor, w, state)
        monitor.lower_bound = monitor.objective + 1.0


class FalseObjective(BlockAscent):
    """Reports an objective that is not that of its weights."""

    def _run(self, objective, monitor, w, state):
        super()._run(objective, monitor, w, state)
        monitor.best += 0.1


class Forgetful(BlockAscent):
    """Gives another answer at each call."""

    calls = 0

    def _run(self, objective, monitor, w, state):
        Forgetful.calls += 1
        super()._run(objective, monitor, w + 1e-3 * np.arange(len(w)) * Forgetful.calls, state)


@pytest.mark.parametrize("kind", [FalseBound, FalseObjective, Forgetful])
def test_broken_solvers_are_caught(kind):
    with pytest.raises(AssertionError):
        check_solver(kind())
