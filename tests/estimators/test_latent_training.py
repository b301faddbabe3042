"""Training of the built-in latent tasks: the objective never rises, seeds and threads do not matter."""

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from latentstruct import CCCP, Coreference, LatentMulticlass, LatentSSVM, Motif, PrecisionAtK, SelfPaced
from latentstruct.datasets import make_planted_motif


def motifs(rng):
    data = make_planted_motif(15, 15, length=40, width=6, random_state=int(rng.integers(1000)))
    return data.X, data.Y


def documents(rng):
    sizes = [int(rng.integers(2, 9)) for _ in range(12)]
    Y = [rng.integers(0, 3, m) for m in sizes]
    X = []
    for m, y in zip(sizes, Y, strict=True):
        i, j = np.triu_indices(m, 1)
        same = (y[i] == y[j]).astype(float)
        X.append(
            np.column_stack([same + 0.7 * rng.normal(size=len(same)), rng.normal(size=len(same)), np.ones(len(same))])
        )
    return X, [y.tolist() for y in Y]


def queries(rng):
    X = [rng.normal(size=(int(rng.integers(3, 12)), 4)) for _ in range(25)]
    return X, [(x[:, 0] + rng.normal(size=len(x)) > 0.3).astype(int) for x in X]


def views(rng):
    X, y = rng.normal(size=(40, 4, 5)), rng.integers(0, 3, 40)
    X[np.arange(40), rng.integers(0, 4, 40), y] += 2.0
    return X, y


TASKS = {
    "motif": (Motif(6, background_order=1), motifs),
    "both strands": (Motif(6, background_order=0, strands=2), motifs),
    "coreference": (Coreference(), documents),
    "lenient coreference": (Coreference(penalty=0.01), documents),
    "precision": (PrecisionAtK(2), queries),
    "views": (LatentMulticlass(), views),
    "states": (LatentMulticlass(weights="state"), views),
}


@pytest.mark.parametrize("solver", [CCCP(), SelfPaced()], ids=["cccp", "self-paced"])
@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("name", TASKS)
def test_the_objective_never_rises(name, C, solver):
    task, make = TASKS[name]
    X, Y = make(np.random.default_rng(3))
    model = LatentSSVM(task, C=C, solver=solver, restarts=2).fit(X, Y)
    if isinstance(solver, CCCP):
        for start in (0, 1):
            values = [line.objective for line in model.history_ if line.start == start]
            assert all(np.diff(values) <= 1e-9 * abs(values[0]))
    batch = model.task_.prepare(X, Y)
    weights = np.full(batch.n_examples, C)
    value = model._objective(model.task_, batch, weights).value(model.coef_)
    assert model.objective_ == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("name", TASKS)
def test_a_seed_gives_the_same_model_whatever_the_threads(name):
    task, make = TASKS[name]
    X, Y = make(np.random.default_rng(5))
    found = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            found.append(LatentSSVM(task, C=0.3, init="random", restarts=2, random_state=7).fit(X, Y))
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)
    assert found[0].restart_objectives_ == found[1].restart_objectives_
    other = LatentSSVM(task, C=0.3, init="random", restarts=2, random_state=8).fit(X, Y)
    # A start that tells nothing ends at w = 0 whatever the seed was.
    assert other.restart_objectives_ != found[0].restart_objectives_ or not found[0].coef_.any()


@pytest.mark.filterwarnings("ignore:training ended at w = 0")
@pytest.mark.parametrize("name", TASKS)
def test_completions_fit_what_is_known(name):
    task, make = TASKS[name]
    X, Y = make(np.random.default_rng(6))
    model = LatentSSVM(task, C=0.3, solver=CCCP(first_tol=1e-3), tol=1e-3).fit(X, Y)
    completed, batch = model.complete(X, Y), model.task_.prepare(X, Y)
    # Given back as first latents they are accepted, and the first convex problem has a point as good as the model.
    again = clone(model).fit(X, Y, H=completed)
    assert len(completed) == batch.n_examples
    assert again.objective_ <= model.objective_ * (1 + 2e-3)
