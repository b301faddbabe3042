"""What is printed during long work: iterations, steps, silence, and the time that is left."""

import math
import re
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command import HANGS, run
from error_fields import raises
from latentstruct import CCCP, CRF, LBFGS, Chain, LatentMulticlass, LatentSSVM, Multiclass, StructuralSVM
from latentstruct.core.objective import build_objective
from latentstruct.core.protocols import Iteration, Temperature
from latentstruct.estimators.reports import estimate_end
from latentstruct.progress import eta as time_left
from latentstruct.progress import heartbeat
from latentstruct.progress.display import WAITING, Progress, say
from latentstruct.progress.eta import (
    Estimate,
    Steps,
    StoppingRule,
    TrainingTime,
    describe_share,
    extrapolate,
    show_seconds,
)
from latentstruct.progress.heartbeat import Heartbeat, each
from latentstruct.solvers import Perceptron


def iterations_of(gaps, seconds, start=0, begun=0.0):
    """Return iterations of a solver whose objective is 1 + gap and whose bound is 1."""
    return [
        Iteration(k, 1.0 + gap, 1.0, gap, k, begun + at, start=start)
        for k, (gap, at) in enumerate(zip(gaps, seconds, strict=True), 1)
    ]


def watch(stopping, iterations):
    """Return the seconds and the estimate after each iteration."""
    clock, seen = TrainingTime(stopping), []
    for line in iterations:
        clock.add(line)
        seen.append((line.seconds, clock.estimate()))
    return seen


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "5 s"),
        (12.0, "10 s"),
        (43.0, "45 s"),
        (89.0, "90 s"),
        (90.0, "2 min"),
        (1000.0, "17 min"),
        (5399.0, "90 min"),
        (5400.0, "1.5 h"),
        (86400.0, "24 h"),
        (3 * 86400.0, "3 days"),
    ],
)
def test_times_are_told_as_roughly_as_they_are_known(seconds, text):
    assert show_seconds(seconds) == text


@settings(deadline=None)
@given(st.floats(0.0, 1e7), st.floats(1.0, 10.0))
def test_longer_times_never_look_shorter(seconds, factor):
    def unfold(text):
        number, unit = text.split()
        return float(number) * {"s": 1, "min": 60, "h": 3600, "days": 86400}[unit]

    shown, longer = unfold(show_seconds(seconds)), unfold(show_seconds(factor * seconds))
    assert shown <= longer + 1e-9
    assert shown == 5 or 0.7 * seconds <= shown <= 1.4 * seconds


@settings(deadline=None)
@given(
    st.floats(0.02, 2.0),
    st.sampled_from(["geometric", "power"]),
    st.floats(0.0, 0.15),
    st.integers(0, 2**32 - 1),
)
def test_the_end_of_a_falling_gap_is_estimated_within_a_factor_of_three(pace, law, noise, seed):
    n, goal = 120, 1e-3
    k = np.arange(1, n + 1)
    # Both laws reach the goal with the last iteration.
    gaps = 0.9 * (goal / 0.9) ** (k / n) if law == "geometric" else 0.9 * k ** (math.log(goal / 0.9) / math.log(n))
    gaps = gaps * np.exp(noise * np.random.default_rng(seed).standard_normal(n))
    seconds = np.maximum(pace * k, 1e-6) + time_left.SHORT
    seen = watch(StoppingRule("gap", goal), iterations_of(gaps, seconds))
    later = [(seconds[-1] - at, estimate) for at, estimate in seen[n // 2 : -n // 10]]
    reported = [(left, estimate.seconds) for left, estimate in later if estimate is not None]
    assert len(reported) >= 0.5 * len(later)
    slack = 0.05 * seconds[-1]
    good = [1 / 3 <= (found + slack) / (left + slack) <= 3 for left, found in reported]
    assert np.mean(good) >= 0.9


def test_nothing_is_estimated_on_a_plateau_or_from_few_iterations():
    seconds = np.arange(1.0, 61.0)
    falling = np.geomspace(0.9, 2e-3, 30)
    plateau = np.concatenate([falling, np.full(30, 2e-3)])
    assert extrapolate(seconds[:7], falling[:7], 1e-3) is None
    assert extrapolate(seconds, plateau, 1e-3) is None
    assert extrapolate(seconds, np.linspace(1.0, 2.0, 60), 1e-3) is None
    assert extrapolate(seconds[:30], falling, 1e-3) is not None


def test_the_limit_is_told_where_it_comes_first_or_nothing_else_is_known():
    seconds = np.arange(1.0, 31.0)
    slow = iterations_of(np.geomspace(0.9, 0.5, 30), seconds)
    assert watch(StoppingRule("gap", 1e-3, max_seconds=40.0), slow)[-1][1] == Estimate(10.0, is_limit=True)
    assert str(Estimate(10.0, is_limit=True)) == "at most 10 s left"
    unbounded = [Iteration(k, 1.0, -math.inf, math.inf, k, float(k)) for k in range(1, 21)]
    assert watch(StoppingRule("", max_iter=50), unbounded)[-1][1] == Estimate(30.0, is_limit=True)
    assert watch(StoppingRule(""), unbounded)[-1][1] is None
    by_iterations = watch(StoppingRule("gap", 1e-6, max_iter=32), iterations_of(np.geomspace(0.9, 1e-2, 30), seconds))[
        -1
    ][1]
    assert by_iterations.seconds == pytest.approx(2.0)


def test_nothing_is_left_once_the_goal_is_reached_and_before_two_seconds():
    seconds = np.arange(1.0, 31.0)
    seen = watch(StoppingRule("gap", 1e-3), iterations_of(np.geomspace(0.9, 0.9e-3, 30), seconds))
    assert seen[0][1] is None
    assert seen[-2][1] is not None
    assert seen[-1][1] is None


def test_starts_to_come_take_as_long_as_those_before():
    first, second = (iterations_of([0.5, 0.2, 0.1], [2.0, 6.0, 10.0], k, 10.0 * k) for k in (0, 1))
    seen = watch(StoppingRule("iteration", 1e-3, n_starts=4), first + second)
    assert [estimate for _, estimate in seen[:3]] == [None] * 3
    # Eight seconds of the second start and ten of each of the other two.
    assert seen[3][1] == Estimate(28.0)
    # A start that takes longer than those before is given a quarter of their time.
    assert seen[5][1] == Estimate(22.5)


def test_irregular_rounds_tell_how_far_the_last_one_was_from_the_end():
    clock = TrainingTime(StoppingRule("iteration", 1e-3))
    for line in iterations_of([1.0, 0.5, 0.25], [2.0, 4.0, 6.0]):
        clock.add(line)
    assert clock.describe() == "last decrease 20%, tolerance 0.1%"


def test_a_fall_over_ten_rounds_is_extrapolated():
    k = np.arange(1, 81)
    iterations = [Iteration(int(n), 1.0 + 2.0 * 0.9**n, -math.inf, math.inf, int(n), 0.5 * n) for n in k]
    stopping = StoppingRule("fall", 1e-5, span=10)
    falls = [(iterations[n - 10].objective - iterations[n].objective) / iterations[n].objective for n in range(10, 80)]
    # The falls reach the goal after about this many more iterations.
    end = 0.5 * (80 + math.log(falls[-1] / 1e-5) / -math.log(0.9))
    at, estimate = watch(stopping, iterations)[-1]
    assert 1 / 3 <= estimate.seconds / (end - at) <= 3


@pytest.mark.parametrize(
    ("solver", "temperature", "latent", "stopping"),
    [
        (LBFGS(tol=0.01), Temperature(1.0, 1.0), False, ("gap", 0.01, 1)),
        (LBFGS(tol=0.01, restarts=3), Temperature(1.0, 1.0), True, ("fall", 1e-4, 3)),
        (CCCP(tol=0.01, restarts=3), Temperature(), True, ("iteration", 0.01, 3)),
        (CCCP(tol=0.01, restarts=3), Temperature(), False, ("gap", 0.01, 1)),
        (Perceptron(), Temperature(), False, ("", 0.0, 1)),
    ],
)
def test_solvers_end_by_their_rules(solver, temperature, latent, stopping):
    task = LatentMulticlass(n_states=2, weights="state") if latent else Multiclass()
    X, Y = np.eye(4), [0, 1, 0, 1]
    task.learn(X, Y)
    objective = build_objective(task, task.prepare(X, Y), np.ones(4), temperature)
    found = estimate_end(solver, objective, several=True)
    assert (found.rule, pytest.approx(found.goal), found.n_starts) == stopping
    assert found.max_iter == solver.max_iter


def test_estimators_tell_callbacks_what_ends_the_training():
    reported = []

    class Watching:
        def begin(self, stopping):
            reported.append(stopping)

        def __call__(self, line):
            reported.append(line.iteration)

    X, Y = [np.eye(3), np.eye(3)], [[0, 1, 0], [1, 0, 1]]
    StructuralSVM(Chain(), tol=0.02, max_seconds=50).fit(X, Y, callback=Watching())
    assert (reported[0].rule, reported[0].goal, reported[0].max_seconds) == ("gap", 0.02, 50)
    assert reported[1] == 1
    reported.clear()
    states = LatentMulticlass(n_states=2, weights="state")
    LatentSSVM(states, restarts=2).fit(np.eye(4), [0, 1, 0, 1], callback=Watching())
    assert (reported[0].rule, reported[0].n_starts) == ("iteration", 2)


def test_lines_of_progress_end_with_the_time_left(capsys, monkeypatch):
    monkeypatch.setattr("latentstruct.progress.display.SECONDS_BETWEEN_LINES", 0.0)
    with Progress() as progress:
        progress.begin(StoppingRule("gap", 1e-3))
        for line in iterations_of(np.geomspace(0.9, 0.005, 30), np.arange(1.0, 31.0)):
            progress.callback(line)
        assert str(progress._table().caption).startswith("about ")
    assert progress._table().caption is None
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("1.0 s")
    assert lines[-1].endswith("s left")


def test_verbose_training_prints_iterations(capsys):
    CRF(Multiclass(), verbose=True).fit(np.eye(4), [0, 1, 0, 1])
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("iter 1  objective")
    assert first.endswith(" s")


def test_steps_tell_how_many_there_are_and_how_long_the_rest_takes():
    now, said = [0.0], []
    steps = Steps(said.append, 4, "trials", clock=lambda: now[0])
    for text in ("a", "b", "c", "d"):
        now[0] += 30.0
        steps.done(text)
    assert said == [
        "1 of 4 trials, about 2 min left: a",
        "2 of 4 trials, about 60 s left: b",
        "3 of 4 trials, about 30 s left: c",
        "4 of 4 trials: d",
    ]


def test_steps_may_differ_in_cost_begin_and_be_left_out():
    now, said = [0.0], []
    steps = Steps(said.append, 3, "parts", [1.0, 3.0, 2.0], clock=lambda: now[0])
    steps.begin("small")
    now[0] = 10.0
    steps.begin("large")
    steps.skip()
    assert said == ["1 of 3 parts: small", "2 of 3 parts, about 50 s left: large"]
    assert steps.seconds_left() is None
    with raises("costs", got="1 numbers", expected="3 numbers (one for each of parts)"):
        Steps(said.append, 3, "parts", [1.0])


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(1, 50), st.floats(2.0, 100.0))
def test_a_share_of_equal_steps_tells_the_rest(done, more, seconds):
    total = done + more
    left = f", {Estimate(seconds * more / done)}"
    assert describe_share(done, total, "images", seconds) == f"{done} of {total} images{left}"
    assert describe_share(total, total, "images", seconds) == f"{total} of {total} images"
    assert describe_share(done, total, "images", 0.5) == f"{done} of {total} images"


def test_silent_work_is_remarked_on_with_what_is_done():
    said, heard = [], threading.Event()

    def say(text):
        said.append(text)
        if "2 of 3" in text:
            heard.set()

    with Heartbeat(say, silence=0.02):
        for item in each(range(3), 3, "things made"):
            assert list(each("ab", 2, "parts")) == ["a", "b"]
            if item == 2:
                assert heard.wait(HANGS)
    assert re.fullmatch(
        r"still running after \d+ (s|min): 2 of 3 things made(, .*)?", next(text for text in said if "2 of 3" in text)
    )
    assert heartbeat._State.count is None


def test_silence_before_the_first_round_is_explained():
    said, heard = [], threading.Event()

    def say(text):
        said.append(text)
        if WAITING in text:
            heard.set()

    with Heartbeat(say, silence=0.02), Progress():
        assert heard.wait(HANGS)
    assert any(text.startswith("still running after") and text.endswith(f": {WAITING}") for text in said)
    assert heartbeat._State.reason == ""
    progress = Progress()
    assert progress._table().caption == WAITING
    with progress:
        pass
    assert progress._table().caption is None


def test_work_that_is_quiet_gets_no_remarks():
    with Heartbeat(print, quiet=True, silence=0.0) as remarks:
        assert remarks._thread is None


@pytest.mark.parametrize("held", [True, False])
def test_work_that_is_shown_elsewhere_gets_no_remarks(held):
    class Turns:
        """Ends a loop that waits after three turns, without any time."""

        left = 3

        def wait(self, seconds):
            self.left -= 1
            return self.left < 0

    said = []
    remarks = Heartbeat(said.append, silence=0.0)
    remarks._ended = Turns()
    heartbeat.suspend(held)
    try:
        remarks._watch(time.perf_counter())
    finally:
        heartbeat.suspend(False)
    assert len(said) == (0 if held else 3)


def test_remarks_that_nobody_can_hear_end_in_silence():
    heard = []

    def closed(text):
        heard.append(text)
        raise BrokenPipeError

    with Heartbeat(closed, silence=0.005) as remarks:
        remarks._thread.join(HANGS)
        assert not remarks._thread.is_alive()
    assert len(heard) == 1


def test_commands_are_remarked_on_unless_quiet(monkeypatch, tmp_path):
    data = tmp_path / "data.txt"
    data.write_text("1 1:1 2:0.5\n1 1:0.8\n-1 2:1 3:0.2\n-1 3:1\n" * 5)
    monkeypatch.setattr(heartbeat, "SILENCE", 1e-4)
    train = ("train", "classes", data, "-o", tmp_path / "model")
    assert run(*train, "--quiet").stderr == ""
    remarked, say, predict = threading.Event(), heartbeat.Heartbeat._print, StructuralSVM.predict

    def tell(self, text):
        remarked.set()
        return say(self, text)

    def predict_late(self, X):
        # The command goes on when it was remarked on.
        assert remarked.wait(HANGS)
        return predict(self, X)

    monkeypatch.setattr(heartbeat.Heartbeat, "_print", tell)
    monkeypatch.setattr(StructuralSVM, "predict", predict_late)
    shown = run("evaluate", train[-1], data).stderr.splitlines()
    assert shown
    assert all(line.startswith("still running after") for line in shown)


def test_decoded_examples_are_counted(monkeypatch):
    model = CRF(Chain()).fit([np.eye(2)] * 2, [[0, 1]] * 2)
    seen = []

    def decode(block, decode_block=model._decode_block):
        seen.append(heartbeat._State.count.describe(heartbeat._State.count.began))
        return decode_block(block)

    monkeypatch.setattr(model, "_decode_block", decode)
    monkeypatch.setattr(type(model.task_), "tags", replace(model.task_.tags, threaded_decoding=False))
    assert len(model.predict([np.eye(2)] * 600)) == 600
    assert seen == [f"{done} of 600 examples decoded" for done in (0, 256, 512)]
    assert heartbeat._State.count is None


def test_remarks_hold_nothing_that_a_terminal_obeys(capsys):
    say("a\x1b]0;name\x07 b\nc é")
    assert capsys.readouterr().err == "a\\x1b]0;name\\x07 b c é\n"


def test_starts_that_make_no_sense_are_left_to_the_solver():
    with raises("restarts", got="'x'", expected="an integer of at least 1 or None"):
        LatentSSVM(LatentMulticlass(n_states=2, weights="state"), restarts="x", verbose=True).fit(
            np.eye(4), [0, 1, 0, 1]
        )
