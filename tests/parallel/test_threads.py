"""Threads: pieces that depend on the work alone, answers that are the same bits for any number of threads, refusals."""

import multiprocessing
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing_reference import BANK, SENTENCES
from scipy import sparse
from sklearn.base import clone
from threads_reference import trained

from error_fields import raises
from latentstruct import (
    CRF,
    Alignment,
    Chain,
    Coreference,
    CorrelationClustering,
    DiverseSubset,
    Graph,
    LatentMulticlass,
    ModLat,
    Motif,
    Multiclass,
    PairwiseRanking,
    Parsing,
    PrecisionAtK,
    StructuralSVM,
)
from latentstruct.core.objective import build_objective
from latentstruct.core.oracles import RenyiOracle, SlackOracle, TaskOracle
from latentstruct.core.protocols import Temperature
from latentstruct.parallel import threads as executors
from latentstruct.parallel.threads import chunk_by_work, effective_jobs, in_worker_process, thread_fold, thread_map
from latentstruct.planes.plane import Planes
from latentstruct.tasks.base import BaseTask
from latentstruct.tasks.graph.task import grid_graph
from latentstruct.testing.solvers import _Candidates

RNG = np.random.default_rng(5)
N = 24
LABELS = np.arange(N) % 3
POINTS = RNG.normal(size=(N, 4))
WORDS = [RNG.integers(0, 3, size) for size in (*RNG.integers(0, 6, N - 1), 3)]
TOKENS = [RNG.normal(size=(len(y), 4)) * (RNG.random((len(y), 4)) < 0.3) for y in WORDS]
HALF = [np.where(RNG.random(len(y)) < 0.4, -1, y) for y in WORDS]
STATES = [RNG.normal(size=(RNG.integers(1, 5), 3)) for _ in range(N)]
LETTERS = ["".join(RNG.choice(list("ACGTN"), 30, p=[0.24] * 4 + [0.04])) for _ in range(N)]
PAIRS = [RNG.normal(size=(10, 3)) for _ in range(N)]
CLUSTERS = [RNG.integers(0, 3, 5) for _ in range(N)]
DOCUMENTS = [RNG.normal(size=(6, 3)) for _ in range(N)]
GRADES = [RNG.permutation([0, 0, 1, 1, 2, 2]) for _ in range(N)]
PROTEINS = [("".join(RNG.choice(list("ACD"), 7)), "".join(RNG.choice(list("ACD"), 6))) for _ in range(N)]
MATCHES = [np.array([[0, 0], [3, 2], [6, 5]])] * N
QUERIES = [RNG.integers(0, 3, (5, 8)).astype(float) for _ in range(N)]
TOPICS = [[set(RNG.integers(0, 4, 2).tolist()) for _ in range(5)] for _ in range(N)]
GRIDS = [grid_graph(RNG.normal(size=(2, 3, 2))) for _ in range(4)]
SEEN = [np.where(RNG.random(6) < 0.3, -1, RNG.integers(0, 2, 6)) for _ in range(4)]

HARD, SOFT, MIXED = Temperature(), Temperature(1.0, 1.0), Temperature(0.0, 0.7)
PROBLEMS = {
    "classes": (Multiclass(bias=1.0), POINTS, LABELS, (HARD, SOFT)),
    "sparse classes": (Multiclass(), sparse.csr_array(POINTS * (POINTS > 0.5)), LABELS, (HARD, SOFT)),
    "chains": (Chain(start=True, end=True, bias=True), TOKENS, WORDS, (HARD, SOFT)),
    "half-labeled chains": (Chain(), TOKENS, HALF, (HARD, SOFT, MIXED)),
    "states": (LatentMulticlass(), STATES, LABELS, (HARD, SOFT, MIXED)),
    "states with weights": (LatentMulticlass(3, weights="state"), POINTS, LABELS, (HARD, SOFT, MIXED)),
    "motifs": (Motif(5, strands=2), LETTERS, LABELS > 0, (HARD, SOFT, MIXED)),
    "candidates": (_Candidates(), POINTS, LABELS % 2, (HARD, SOFT)),
    "coreference": (Coreference(), PAIRS, CLUSTERS, (HARD,)),
    "clusters": (CorrelationClustering(), PAIRS, CLUSTERS, (HARD,)),
    "precision": (PrecisionAtK(2), DOCUMENTS, GRADES, (HARD,)),
    "ranking": (PairwiseRanking(), DOCUMENTS, GRADES, (HARD,)),
    "alignments": (Alignment(), PROTEINS, MATCHES, (HARD, SOFT)),
    "parsing": (Parsing(rare=0), SENTENCES, BANK, (HARD, SOFT)),
    "split parsing": (Parsing(rare=0, splits=2), SENTENCES, BANK, (HARD, SOFT)),
    "diverse": (DiverseSubset(2), QUERIES, TOPICS, (HARD,)),
    "exact graphs": (Graph(), GRIDS, SEEN, (HARD, SOFT, MIXED)),
    "loopy graphs": (Graph(max_entries=4, max_iterations=5), GRIDS, SEEN, (HARD, SOFT, MIXED)),
}


def learned(name):
    task, X, Y, temperatures = PROBLEMS[name]
    task = clone(task)
    task.learn(X, Y)
    return task, X, Y, temperatures


def bits(found):
    """All numbers of planes, to be compared to the last bit."""
    if isinstance(found, Planes):
        return [*found.atoms, found.pointers, found.offsets, found.values, np.array(found.exact)]
    return [found.slope, np.array([found.offset, found.entropy]), np.array(found.exact)]


def assert_same_bits(answers):
    for other in answers[1:]:
        for first, second in zip(answers[0], other, strict=True):
            assert first.tobytes() == second.tobytes()


# ---- pieces ----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1e9), max_size=300),
    st.floats(0, 1e8),
)
def test_pieces_cover_all_examples_in_order_and_are_not_too_small(work, least):
    work = np.array(work, dtype=np.float64)
    bounds = chunk_by_work(work, least)
    assert (bounds[0], bounds[-1]) == (0, len(work))
    assert (np.diff(bounds) > 0).all()
    assert len(bounds) <= executors.MOST_PIECES + 1
    if len(bounds) > 2:
        sizes = np.add.reduceat(work, bounds[:-1])
        even = work.sum() / (len(bounds) - 1)
        # An example is in one piece, so that a piece may exceed its share by that example's work.
        assert sizes.max() <= work.sum() / 2 + work.max() + 1e-6 * work.sum()
        assert even >= max(executors.STEPS_OF_PIECE, least)


def test_even_work_is_cut_evenly_and_small_work_not_at_all():
    assert chunk_by_work(np.full(1000, 8.0 * executors.STEPS_OF_PIECE / 1000)).tolist() == [0, 250, 500, 750, 1000]
    assert chunk_by_work(np.full(1000, 1.9 * executors.STEPS_OF_PIECE / 1000)).tolist() == [0, 1000]
    assert chunk_by_work(np.zeros(5)).tolist() == [0, 5]


# ---- the same bits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_answers_are_the_same_bits_for_any_number_of_threads(name, many_pieces):
    task, X, Y, temperatures = learned(name)
    rng = np.random.default_rng(1)
    weights = rng.random(len(Y))
    w = rng.normal(size=task.n_features)
    # Nearby weights, at which belief propagation begins with the messages of before.
    questions = [w, w * (1 + 1e-5)]
    some = rng.permutation(len(Y))[: len(Y) * 2 // 3]
    for temperature in temperatures:
        for mode in ("free", "augmented", "clamped"):
            answers = []
            for n_jobs in (1, 3):
                # Answers may depend on earlier calls on a batch, but not on the caller.
                batch = task.prepare(X, Y)
                whole = task.total(batch, w, mode, temperature, weights) if n_jobs == 1 else None
                batch = task.prepare(X, Y)
                oracle = TaskOracle(task, batch, weights, mode, temperature, n_jobs=n_jobs)
                if mode != "clamped":
                    assert len(chunk_by_work(oracle.cost.work)) > 2
                found = []
                for v in questions:
                    found += bits(oracle.total(v)) + bits(oracle.planes(v, some)) + bits(oracle.planes(v))
                answers.append(found)
                if whole is not None:
                    total = task.planes(task.prepare(X, Y), w, mode, temperature).total(weights)
                    np.testing.assert_allclose(found[0], whole.slope, rtol=1e-9, atol=1e-9)
                    np.testing.assert_allclose(found[0], total.slope, rtol=1e-9, atol=1e-9)
                    np.testing.assert_allclose(found[1], [whole.offset, whole.entropy], rtol=1e-9, atol=1e-9)
            assert_same_bits(answers)


def test_slack_and_renyi_oracles_divide_their_examples_too(many_pieces):
    task, X, Y, _ = learned("chains")
    weights, rng = np.linspace(0.0, 2.0, N), np.random.default_rng(2)
    w = rng.normal(size=task.n_features)
    batch = task.prepare(X, Y)
    answers = [bits(SlackOracle(task, batch, weights, n_jobs=n).total(w)) for n in (1, 2)]
    assert_same_bits(answers)
    undivided = SlackOracle(task, batch, weights)._planes(w, None).total(weights)
    np.testing.assert_allclose(answers[0][0], undivided.slope, rtol=1e-9, atol=1e-9)
    task, X, Y, _ = learned("states")
    w, batch, pooled = rng.normal(size=task.n_features), task.prepare(X, Y), Temperature(0.5, 1.0)
    answers = [bits(RenyiOracle(task, batch, weights, "augmented", pooled, n_jobs=n).total(w)) for n in (1, 2)]
    assert_same_bits(answers)
    undivided = RenyiOracle(task, batch, weights, "augmented", pooled)._planes(w, None).total(weights)
    np.testing.assert_allclose(answers[0][0], undivided.slope, rtol=1e-9, atol=1e-9)


def test_an_example_asked_twice_stays_in_one_hand_where_answers_are_remembered(many_pieces, monkeypatch):
    task, X, Y, _ = learned("loopy graphs")
    oracle = TaskOracle(task, task.prepare(X, Y), np.ones(len(Y)), "augmented", HARD, n_jobs=2)
    pool, calls = task.pool_batch, []
    monkeypatch.setattr(task, "pool_batch", lambda batch, query: calls.append(query) or pool(batch, query))
    w = np.ones(task.n_features)
    oracle.planes(w, np.array([3, 0, 2, 1]))
    assert len(calls) > 1
    calls.clear()
    oracle.planes(w, np.array([3, 0, 3, 1]))
    assert len(calls) == 1


def test_a_subclass_of_a_chunked_task_may_pool_chunk_by_chunk(many_pieces):
    class Own(Chain):
        def pool_batch(self, batch, query):
            requested.append((len(query.chunks.bounds), len(query.examples(batch))))
            return super().pool_batch(batch, query)

    class Divided(Own):
        def cost(self, batch, mode, temperature):
            return super().cost(batch, mode, temperature)._replace(chunked=False)

    found, calls = [], []
    for task in (Chain(), Own(), Divided()):
        requested = []
        task.learn(TOKENS, WORDS)
        oracle = TaskOracle(task, task.prepare(TOKENS, WORDS), np.ones(N), "augmented", HARD, n_jobs=2)
        found.append(oracle.planes(np.ones(task.n_features)))
        calls.append(requested)
    assert len(calls[1]) == 1
    assert calls[1][0][0] > 2
    assert len(calls[2]) > 2
    assert sum(size for _, size in calls[2]) == N
    assert_same_bits([bits(planes) for planes in found])


def test_python_functions_stay_in_one_piece(many_pieces):
    class Plain(BaseTask):
        n_features = 2

    batch = Multiclass()
    batch.n_examples = 9
    oracle = TaskOracle(Plain(), batch, np.ones(9), "free", HARD, n_jobs=2)
    assert oracle.sum_bounds() is None


ELSEWHERE = """
from latentstruct.parallel import threads as executors
from latentstruct.core import oracles
from threads_reference import trained
executors.STEPS_OF_PIECE, oracles.WORTH = 1.0, 0.0
print(*trained(2))
"""


def test_fits_are_the_same_bits_in_two_processes_and_with_one_or_two_threads(many_pieces):
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": path}
    command = [sys.executable, "-c", ELSEWHERE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.split() == trained(1) == trained(2)


def test_decoding_gives_the_same_outputs_for_any_number_of_threads():
    X, Y = TOKENS * 40, WORDS * 40
    model = StructuralSVM(Chain(), tol=0.5, n_jobs=1).fit(X, Y)
    assert len(X) > 3 * 256
    alone = model.predict(X)
    together = model.set_params(n_jobs=3).predict(X)
    assert all(np.array_equal(first, second) for first, second in zip(alone, together, strict=True))


def test_estimators_hand_their_threads_to_all_oracles():
    task, X, Y, _ = learned("states")
    batch = task.prepare(X, Y)
    objective = build_objective(task, batch, np.ones(N), SOFT).divided(3)
    assert (objective.plus.n_jobs, objective.minus.n_jobs) == (3, 3)
    assert objective.reweighted(np.zeros(N)).smoothed(0.5).plus.n_jobs == 3
    reported = []

    class Reported(ModLat):
        def _solver(self, objective):
            reported.append(objective.blind().plus.n_jobs)
            return super()._solver(objective)

    Reported(LatentMulticlass(), n_jobs=2, max_iter=1, restarts=1).fit(STATES, LABELS)
    assert reported == [2]


# ---- threads ---------------------------------------------------------------------------------------------


def test_answers_come_in_the_order_of_the_items_from_several_threads():
    meet = threading.Barrier(3, timeout=600)
    seen = set()

    def square(k):
        if k < 3:
            # Three threads must be here at the same time.
            meet.wait()
        seen.add(threading.get_ident())
        return k * k

    assert thread_map(square, range(20), 3) == [k * k for k in range(20)]
    assert len(seen) == 3


def test_answers_are_taken_in_order_while_few_are_there(many_pieces):
    def work(k):
        there.append(k)
        most.append(len(there) - len(taken))
        if len(there) >= 2 * n_jobs:
            blocked.set()
        if n_jobs > 1 and k == 0:
            # All that may be begun before the first answer is taken is begun meanwhile.
            assert blocked.wait(600)
        return k

    for n_jobs in (1, 3):
        there, most, taken, blocked = [], [], [], threading.Event()
        thread_fold(work, range(60), taken.append, n_jobs)
        assert taken == list(range(60))
        assert max(most) <= 2 * n_jobs
    # Slopes may be long: those of all pieces together would not fit where a few do.
    task, X, Y, _ = learned("classes")
    oracle = TaskOracle(task, task.prepare(X, Y), np.ones(N), "augmented", HARD, n_jobs=2)
    inner, slopes, counts = oracle._total, [], []

    def total(w, rows):
        found = inner(w, rows)
        slopes.append(weakref.ref(found.slope))
        counts.append(sum(slope() is not None for slope in slopes))
        return found

    oracle._total = total
    oracle.total(np.zeros(task.n_features))
    assert len(counts) >= 8
    assert max(counts) <= 6


def test_an_error_ends_threads_that_wait_for_answers_to_be_taken():
    begun = threading.Event()

    def work(k):
        if k == 0:
            # The others have done all that may be begun, and wait for the first answer.
            assert begun.wait(600)
            raise ValueError("the first one")
        if k == 5:
            begun.set()
        return k

    with pytest.raises(ValueError, match="the first one"):
        thread_fold(work, range(100), lambda answer: None, 3)
    with pytest.raises(ZeroDivisionError):
        thread_fold(abs, range(100), lambda answer: 1 // answer, 3)


def test_threads_inside_threads_work_alone():
    def inner(k):
        return threading.get_ident()

    def outer(k):
        return set(thread_map(inner, range(4), 4)) == {threading.get_ident()}

    assert thread_map(outer, range(6), 2) == [True] * 6
    # Afterwards the caller's thread shares its work again.
    assert thread_map(outer, range(2), 2) == [True, True]


def test_the_first_error_in_the_order_of_items_comes_out_and_the_rest_is_left():
    begun, later = [], threading.Event()

    def work(k):
        begun.append(k)
        if k == 2:
            # With several threads the error of the next item comes first.
            assert n_jobs == 1 or later.wait(600)
            raise ValueError("item 2")
        if k == 3:
            later.set()
            raise ValueError("item 3")
        assert k < 3 or later.wait(600)
        return k

    for n_jobs in (1, 2, 3):
        begun.clear()
        later.clear()
        with pytest.raises(ValueError, match="item 2"):
            thread_map(work, range(10**9), n_jobs)
        assert len(begun) < 10**9
    assert thread_map(abs, [-1, -2], 2) == [1, 2]


def test_an_interrupt_waits_for_what_was_begun():
    running, finished, begun, waits = [], [], threading.Event(), threading.Event()

    class Condition(threading.Condition):
        def wait(self, timeout=None):
            waits.set()
            return super().wait(timeout)

    def work(k):
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(600)
            raise KeyboardInterrupt
        running.append(k)
        begun.set()
        # Only a caller that waits for this item gets it finished.
        assert waits.wait(600)
        finished.append(k)

    shared = executors._Shared(work, range(100), lambda answer: None, 100)
    shared.changed = Condition()
    with pytest.raises(KeyboardInterrupt):
        shared.run(1)
    assert len(running) == 1
    assert running == finished


def test_ctrl_c_inside_a_threaded_fit_keeps_the_best_model(many_pieces, monkeypatch):
    iterations, interrupted = [], []
    inner = Chain.pool_batch

    def pool_batch(self, *question):
        in_main = threading.current_thread() is threading.main_thread()
        if len(iterations) == 3 and in_main and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return inner(self, *question)

    monkeypatch.setattr(Chain, "pool_batch", pool_batch)
    model = StructuralSVM(Chain(), C=1.0, n_jobs=2, tol=1e-9)
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(TOKENS, WORDS, callback=iterations.append)
    assert interrupted
    assert model.stop_reason_ == "interrupted"
    objective = build_objective(model.task_, model.task_.prepare(TOKENS, WORDS), np.ones(N), HARD)
    assert model.objective_ == pytest.approx(objective.value(model.coef_))
    assert model.objective_ < objective.value(np.zeros_like(model.coef_))


def _jobs_and_answer(queue):
    queue.put((effective_jobs(None), in_worker_process(), thread_map(abs, [-1, -2, -3], 2)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_makes_threads_of_its_own_and_is_a_worker():
    thread_map(abs, [-1, -2, -3], 2)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_jobs_and_answer, args=(queue,))
    child.start()
    child.join(600)
    assert child.exitcode == 0
    assert queue.get() == (1, True, [1, 2, 3])


def test_numbers_of_threads():
    assert effective_jobs(None) == effective_jobs(-1) == executors.available_cores() >= 1
    assert effective_jobs(3) == effective_jobs(np.int64(3)) == 3


@pytest.mark.parametrize("wrong", [0, -2, "2", 1.0, True, [2]])
def test_other_numbers_are_refused_before_any_work(wrong):
    with raises("n_jobs", got=wrong):
        effective_jobs(wrong)
    with raises("n_jobs", got=wrong):
        CRF(Chain(), n_jobs=wrong).fit([object()], [object()])
