"""Structures of parts: the same as listing their outputs, checked, saved, and refused where they are wrong."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp, softmax

from error_fields import raises
from latentstruct import (
    CRF,
    CandidateTask,
    HiddenCRF,
    LatentSSVM,
    MarginalSSVM,
    MinEntropySSVM,
    PartsTask,
    StructuralSVM,
    load,
)
from latentstruct.core.protocols import Temperature
from latentstruct.testing import check_task

HARD = Temperature()


class Matching(PartsTask):
    """Which of n rows goes with which column: x has the features (n, n, d) of the pairs, y is a tuple of columns."""

    def parts(self, x):
        return x.reshape(-1, x.shape[2])

    def counts(self, x, y):
        return np.eye(len(y))[list(y)].ravel()

    def best(self, x, scores):
        chosen = np.zeros((len(x), len(x)))
        chosen[linear_sum_assignment(scores.reshape(len(x), len(x)), maximize=True)] = 1.0
        return chosen.ravel()

    def output(self, x, counts):
        return tuple(np.asarray(counts).reshape(len(x), len(x)).argmax(axis=1).tolist())

    def output_loss(self, y, y_hat):
        return sum(a != b for a, b in zip(y, y_hat, strict=True))

    def part_losses(self, x, y):
        return len(y), -self.counts(x, y)

    def pool(self, x, scores, temperature):
        every = np.array([self.counts(x, y) for y in itertools.permutations(range(len(x)))])
        heights = every @ scores / temperature
        value = logsumexp(heights)
        return temperature * value, np.exp(heights - value) @ every


class ListedMatching(CandidateTask):
    """The same by enumeration."""

    def candidates(self, x):
        outputs = list(itertools.permutations(range(len(x))))
        return outputs, None, np.array([x[np.arange(len(x)), list(y)].sum(axis=0) for y in outputs])

    def output_loss(self, y, y_hat, h_hat):
        return sum(a != b for a, b in zip(y, y_hat, strict=True))


class Sides(PartsTask):
    """Which items are taken, each from a hidden side: x has the features (n, 2, d) of items and sides."""

    latent = True

    def parts(self, x):
        return sparse.csr_array(x.reshape(-1, x.shape[2]))

    def counts(self, x, y, h):
        return (np.eye(2)[list(h)] * np.array(y)[:, None]).ravel()

    def best(self, x, scores):
        table = scores.reshape(-1, 2)
        return (np.eye(2)[table.argmax(axis=1)] * (table.max(axis=1) > 0)[:, None]).ravel()

    def best_completion(self, x, y, scores):
        return self.counts(x, y, scores.reshape(-1, 2).argmax(axis=1))

    def output(self, x, counts):
        table = np.asarray(counts).reshape(-1, 2)
        taken = table.sum(axis=1)
        return tuple(taken.astype(int).tolist()), tuple(np.where(taken, table.argmax(axis=1), 0).tolist())

    def output_loss(self, y, y_hat, h_hat):
        return sum(a != b for a, b in zip(y, y_hat, strict=True))

    def part_losses(self, x, y):
        return sum(y), np.repeat(1.0 - 2.0 * np.array(y), 2)

    def random_latent(self, x, y, rng):
        return tuple((rng.integers(0, 2, len(y)) * np.array(y)).tolist())

    def pool(self, x, scores, temperature):
        heights = np.hstack([np.zeros((len(x), 1)), scores.reshape(-1, 2)]) / temperature
        return temperature * logsumexp(heights, axis=1).sum(), softmax(heights, axis=1)[:, 1:].ravel()

    def pool_completion(self, x, y, scores, temperature):
        heights, taken = scores.reshape(-1, 2) / temperature, np.array(y)
        shares = softmax(heights, axis=1) * taken[:, None]
        return temperature * (logsumexp(heights, axis=1) @ taken), shares.ravel()


class ListedSides(Sides):
    def outputs(self, x):
        return list(itertools.product((0, 1), repeat=len(x)))


def side_data(seed, sizes=(3, 1, 4, 2)):
    rng = np.random.default_rng(seed)
    Y = [tuple(rng.integers(0, 2, n).tolist()) for n in sizes]
    return rng, [rng.normal(size=(len(y), 2, 3)) for y in Y], Y


def matchings(n_examples, seed, d=4):
    rng = np.random.default_rng(seed)
    Y = [tuple(rng.permutation(rng.integers(1, 5)).tolist()) for _ in range(n_examples)]
    return [rng.normal(size=(len(y), len(y), d)) + 0.7 * np.eye(len(y))[list(y)][:, :, None] for y in Y], Y


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    mode=st.sampled_from(["free", "augmented", "clamped"]),
    output=st.sampled_from([0.0, 0.2, 1.0]),
)
def test_parts_answer_as_the_listed_outputs_do(seed, mode, output):
    X, Y = matchings(4, seed)
    w = np.random.default_rng(seed).normal(size=4)
    weights, rows = np.array([0.5, 1.0, 2.0, 0.0]), np.array([2, 0])
    answers = []
    for task in (Matching(), ListedMatching()):
        task.learn(X, Y)
        batch = task.prepare(X, Y)
        temperature = Temperature(output)
        planes = task.planes(batch, w, mode, temperature)
        some = task.planes(batch, w, mode, temperature, rows)
        total = task.total(batch, w, mode, temperature, weights)
        answers.append((planes.values, planes.offsets, planes.slopes().toarray(), total.slope, total.offset))
        answers[-1] += (total.entropy, some.values, some.slopes().toarray())
        found = task.decode(batch, w, temperature)
        answers[-1] += ([p.y for p in found] == Y, [p.score for p in found])
    for ours, listed in zip(*answers, strict=True):
        np.testing.assert_allclose(ours, listed, atol=1e-9)


def test_parts_keep_the_contract_of_tasks():
    check_task(Matching(), *matchings(5, 0))
    rng = np.random.default_rng(1)
    Y = [tuple(rng.integers(0, 2, n).tolist()) for n in (3, 1, 4, 2)]
    check_task(Sides(), [rng.normal(size=(len(y), 2, 3)) for y in Y], Y)


def test_training_reaches_the_same_certified_objective():
    X, Y = matchings(30, 3)
    for estimator in (StructuralSVM, CRF):
        ours = estimator(Matching(), C=0.3, tol=1e-6).fit(X, Y)
        listed = estimator(ListedMatching(), C=0.3, tol=1e-6).fit(X, Y)
        assert ours.objective_ == pytest.approx(listed.objective_, rel=1e-5)
        assert ours.predict(X) == listed.predict(X)
    assert ours.score(X, Y) == pytest.approx(listed.score(X, Y))
    for x, shares in zip(X, ours.marginals(X), strict=True):
        np.testing.assert_allclose(shares.reshape(len(x), len(x)).sum(axis=1), 1.0)


def test_latents_are_trained_and_completed(tmp_path):
    rng = np.random.default_rng(2)
    Y = [tuple(rng.integers(0, 2, 6).tolist()) for _ in range(40)]
    X = [rng.normal(size=(6, 2, 3)) for _ in Y]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(6), rng.integers(0, 2, 6), 0] += np.where(y, 5.0, -5.0)
        x[:, :, 2] = 1.0
    model = LatentSSVM(Sides(), C=1.0, restarts=3).fit(X, Y)
    assert model.score(X, Y) > 0.5
    assert [len(h) for h in model.complete(X[:2], Y[:2])] == [6, 6]
    model.save(tmp_path / "model")
    assert load(tmp_path / "model", task=Sides()).predict(X) == model.predict(X)


def test_soft_maxima_are_refused_where_there_are_none():
    class HardMatching(Matching):
        pool = PartsTask.pool

    X, Y = matchings(3, 0)
    with raises(
        "temperature",
        expected="(0, 0) for HardMatching,",
        hint="Use StructuralSVM or LatentSSVM, define pool() of a PartsTask, or use",
    ):
        CRF(HardMatching()).fit(X, Y)
    check_task(HardMatching(), X, Y)
    task = Sides()
    task.learn([np.ones((1, 2, 3))], [(1,)])
    batch = task.prepare([np.ones((1, 2, 3))], [(1,)])
    with raises("temperature", got=(1.0, 0.0), expected="the same for outputs and latents"):
        task.planes(batch, np.zeros(3), "free", Temperature(1.0, 0.0))

    class HardSides(Sides):
        pool_completion = PartsTask.pool_completion

    with raises("temperature", got="1.0", expected="0 because HardSides does not define pool_completion()"):
        HiddenCRF(HardSides()).fit([np.ones((1, 2, 3))], [(1,)])


@pytest.mark.parametrize(
    ("wrong", "parameter", "got", "expected"),
    [
        ({"parts": lambda self, x: x.reshape(-1, 4)[:, : 3 + len(x) % 2]}, "parts of example 1", "", "rows with 4"),
        ({"best": lambda self, x, scores: np.ones(1 + len(scores))}, "Wrong.best of example 0", "", "an array of"),
        (
            {"best": lambda self, x, scores: ["a"] * len(scores)},
            "Wrong.best of example 0",
            "",
            "9 numbers, one per part",
        ),
        (
            {
                "counts": lambda self, x, y: np.full(len(x) ** 2, np.nan),
                "part_losses": lambda self, x, y: (0.0, np.zeros(len(x) ** 2)),
            },
            "Wrong.counts of example 0",
            "NaN or infinity",
            "finite",
        ),
        (
            {"part_losses": lambda self, x, y: (np.inf, np.zeros(len(x) ** 2))},
            "Wrong.part_losses of example 0",
            "",
            "two values, first a finite number",
        ),
        (
            {"part_losses": lambda self, x, y: (0.0, np.zeros(3))},
            "Wrong.part_losses of example 0",
            "",
            "an array of shape (9,), one number per part",
        ),
    ],
)
def test_functions_that_return_nonsense_are_named(wrong, parameter, got, expected):
    X, Y = matchings(6, 5)
    task = type("Wrong", (Matching,), wrong)()
    with raises(parameter, got=got, expected=expected):
        StructuralSVM(task).fit(X, Y)


def test_a_latent_output_must_be_a_pair():
    class Alone(Sides):
        def output(self, x, counts):
            return 1

    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(2, 2, 3)) for _ in range(2)], [(1, 0), (0, 1)]
    with raises("Alone.output of example 0", got="1", expected="a pair (y, h) because `latent` is True"):
        LatentSSVM(Alone()).fit(X, Y).predict(X)


def test_listed_outputs_keep_the_contract_of_tasks():
    _, X, Y = side_data(1)
    check_task(ListedSides(), X, Y)


def test_predictions_with_listed_outputs_sum_latents_out_first():
    rng, X, Y = side_data(3)
    task = ListedSides()
    task.learn(X, Y)
    batch, w, order = task.prepare(X), rng.normal(size=3), 2.0
    marginal, entropy = task.decode(batch, w, Temperature(0.0, 1.0)), task.renyi_decode(batch, w, order)
    for x, ours, other in zip(X, marginal, entropy, strict=True):
        sides = x @ w
        sums = {y: logsumexp(sides, axis=1) @ np.array(y) for y in task.outputs(x)}
        sharp = {y: (logsumexp(order * sides, axis=1) @ np.array(y) - sums[y]) / (order - 1.0) for y in sums}
        for found, values in ((ours, sums), (other, sharp)):
            assert found.y == max(values, key=values.get)
            assert found.score == pytest.approx(max(values.values()))
            assert found.h == tuple((sides.argmax(axis=1) * np.array(found.y)).tolist())


def test_training_with_listed_outputs():
    rng = np.random.default_rng(2)
    Y = [tuple(rng.integers(0, 2, 3).tolist()) for _ in range(30)]
    X = [rng.normal(size=(3, 2, 3)) for _ in Y]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(3), rng.integers(0, 2, 3), 0] += np.where(y, 5.0, -5.0)
        x[:, :, 2] = 1.0
    for make in (MarginalSSVM, MinEntropySSVM):
        assert make(ListedSides(), C=1.0).fit(X, Y).score(X, Y) > 0.5
    with raises("alpha", got="1.0", expected="different from 1 for ListedSides"):
        MinEntropySSVM(ListedSides(), alpha=1.0).fit(X, Y)


@pytest.mark.parametrize(
    ("outputs", "got", "expected"),
    [
        (lambda self, x: None, "None", "a list of hashable outputs"),
        (lambda self, x: [[0]], "[[0]]", "a list of hashable outputs"),
        (lambda self, x: [], "", "a list of at least one output, without"),
        (lambda self, x: [(0,) * len(x)] * 2, "", "a list of at least one output"),
        (lambda self, x: [(9,)], "", "a list with the known output (1, 1, 0)"),
    ],
)
def test_wrong_lists_of_outputs_are_named(outputs, got, expected):
    _, X, Y = side_data(5)
    with raises("Wrong.outputs of example 0", got=got, expected=expected):
        MarginalSSVM(type("Wrong", (Sides,), {"outputs": outputs})()).fit(X, Y)
