"""What may go wrong while a model is trained, and what must hold all the same."""

import os
import signal
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from latentstruct import ConvergenceWarning, InputError, load
from latentstruct.persistence.checkpoints import Checkpoint
from soak.checks import require
from soak.problems import Options, Problem
from soak.trainings import Training


class Broken(RuntimeError):
    """Raised on purpose."""


def fit(problem: Problem, training: Training, model: Any, **more: Any) -> Any:
    """Train a model; warnings that it did not converge are expected, all others are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Ctrl-C may come while a file is being read.
        warnings.simplefilter("ignore", ResourceWarning)
        return model.fit(problem.X, problem.Y, sample_weight=training.sample_weight, **more)


def require_equal(first: Any, second: Any, what: str) -> None:
    """Raise unless two models have the same weights, bit for bit."""
    a, b = first.coef_, second.coef_
    if not np.array_equal(a, b):
        k = int(np.argmax(a != b))
        require(False, f"{what}: weight {k} is {a[k]!r} and {b[k]!r} of {len(a)}")


def nothing(rng: np.random.Generator, problem: Problem, training: Training, folder: Path) -> Any:
    """Train twice, perhaps with other numbers of threads: the weights are the same."""
    first, second = (fit(problem, training, training.new(jobs)) for jobs in training.jobs)
    require_equal(first, second, f"the same training with {training.jobs} threads")
    return first


def callback_stops(rng: np.random.Generator, problem: Problem, training: Training, folder: Path) -> Any:
    """Stop by the callback."""
    last = int(rng.integers(1, 8))
    seen: list[Any] = []

    def stop(reported: Any) -> bool:
        seen.append(reported)
        return len(seen) >= last

    model = fit(problem, training, training.new(training.jobs[0]), callback=stop)
    require(len(seen) < last or model.stop_reason_ in ("callback", "converged"), f"it went on: {model.stop_reason_}")
    return model


def callback_interrupts(rng: np.random.Generator, problem: Problem, training: Training, folder: Path) -> Any:
    """Press Ctrl-C in the callback."""
    last = int(rng.integers(1, 8))
    seen: list[Any] = []

    def press(reported: Any) -> None:
        seen.append(reported)
        if len(seen) == last:
            raise KeyboardInterrupt

    model = fit(problem, training, training.new(training.jobs[0]), callback=press)
    require(len(seen) < last or model.stop_reason_ == "interrupted", f"Ctrl-C was lost: {model.stop_reason_}")
    return model


def signal_interrupts(rng: np.random.Generator, problem: Problem, training: Training, folder: Path) -> Any:
    """Press Ctrl-C at any moment."""
    armed = True

    def handle(number: int, frame: Any) -> None:
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    timer = threading.Timer(float(rng.uniform(0.0, 0.3)), lambda: os.kill(os.getpid(), signal.SIGINT))
    model = training.new(training.jobs[0])
    try:
        # Before the first iteration there is nothing to keep, and the interrupt comes through.
        with suppress(KeyboardInterrupt):
            timer.start()
            fit(problem, training, model)
    finally:
        armed = False
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGINT, before)
    return model if hasattr(model, "coef_") else fit(problem, training, model)


def no_time(rng: np.random.Generator, problem: Problem, training: Training, folder: Path) -> Any:
    """Leave hardly any time."""
    return fit(problem, training, training.new(training.jobs[0], max_seconds=float(10.0 ** rng.uniform(-6, -1))))


def few_iterations(rng: np.random.Generator, problem: Problem, training: Training, folder: Path) -> Any:
    """Leave hardly any iterations."""
    return fit(problem, training, training.new(training.jobs[0], max_iter=int(rng.integers(1, 3))))


def faulty(task: Any, after: int) -> tuple[Any, Callable[[], int]]:
    """Return a task whose answers fail once after a number of calls, and the number of calls."""
    requested = [0]

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*args: Any, **options: Any) -> Any:
            requested[0] += 1
            if requested[0] == after:
                raise Broken("once")
            return method(*args, **options)

        return answer

    kind = type(task)
    methods = {name: counted(getattr(kind, name)) for name in ("pool_batch",)}
    broken = type(kind.__name__, (kind,), {**methods, "__init__": kind.__init__, "__module__": kind.__module__})
    return broken(**task.get_params(deep=False)) if hasattr(task, "get_params") else broken(), lambda: requested[0]


def oracle_raises(rng: np.random.Generator, problem: Problem, training: Training, folder: Path) -> Any:
    """Let an answer fail once: the error comes through, and the next training is as if it had not been."""
    after = int(rng.integers(1, 30))
    task, requested = faulty(problem.task, after)
    model = training.new(training.jobs[0], task=task)
    try:
        fit(problem, training, model)
        require(requested() < after, "an error of the task was lost")
    except Broken:
        require(not hasattr(model, "coef_"), "a training that failed left weights")
        fit(problem, training, model)
    clean = fit(problem, training, training.new(training.jobs[0]))
    require_equal(model, clean, "a training after one that failed")
    return clean


def resumes(rng: np.random.Generator, problem: Problem, training: Training, folder: Path) -> Any:
    """Cut a training with checkpoints, and go on: the weights are those of one that was not cut."""
    undisturbed = fit(problem, training, training.new(training.jobs[0]))
    place = Checkpoint(folder / "run.checkpoint", every=0.0)
    last = int(rng.integers(1, 8))
    seen: list[Any] = []

    def cut(reported: Any) -> None:
        seen.append(reported)
        if len(seen) == last:
            raise Broken("cut")

    with suppress(Broken):
        fit(problem, training, training.new(training.jobs[0]), checkpoint=place, callback=cut)
    resumed = fit(problem, training, training.new(training.jobs[1]), checkpoint=place)
    require_equal(undisturbed, resumed, f"a training cut in iteration {last} and resumed")
    again = fit(problem, training, training.new(training.jobs[1]), checkpoint=place)
    require_equal(undisturbed, again, "a training that had ended")
    return resumed


def damaged_file(rng: np.random.Generator, problem: Problem, training: Training, folder: Path) -> Any:
    """Damage a byte of a saved model, or cut it: it is refused, or nothing has changed."""
    model = fit(problem, training, training.new(training.jobs[0]))
    model.save(folder / "damaged")
    path = sorted((folder / "damaged").iterdir())[int(rng.integers(2))]
    content = bytearray(path.read_bytes())
    place = int(rng.integers(len(content)))
    if rng.random() < 0.5:
        content[place] ^= int(rng.integers(1, 256))
    else:
        del content[place:]
    path.write_bytes(content)
    options = {"task": problem.task} if isinstance(problem.task, Options) else {}
    # FormatError is an InputError.
    with suppress(InputError):
        require_equal(model, load(folder / "damaged", **options), "a damaged model was loaded")
    return model


def warm_start(rng: np.random.Generator, problem: Problem, training: Training, folder: Path) -> Any:
    """Train again from the weights that were reached, perhaps with another C."""
    model = fit(problem, training, training.new(training.jobs[0], warm_start=True))
    if "C" in model.get_params(deep=False) and rng.random() < 0.5:
        model.set_params(C=float(model.C * 10.0 ** rng.uniform(-1, 1)))
    return fit(problem, training, model)


FAULTS: dict[str, Callable[..., Any]] = {
    "none": nothing,
    "callback stops": callback_stops,
    "Ctrl-C in a callback": callback_interrupts,
    "Ctrl-C at any time": signal_interrupts,
    "no time": no_time,
    "few iterations": few_iterations,
    "oracle raises": oracle_raises,
    "cut and resumed": resumes,
    "damaged model": damaged_file,
    "warm start": warm_start,
}
