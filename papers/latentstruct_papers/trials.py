"""Trials of an experiment: run in several processes, and kept in a file so that an interrupted experiment resumes."""

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from latentstruct.core.formatting import repr_short
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.persistence.atomic_files import output_errors
from latentstruct.progress.display import plain
from latentstruct.progress.eta import Steps

__all__ = ["Say", "Setup", "Trials"]

Say = Callable[[str], None]
"""Called with lines of progress."""


class Trials:
    """Runs the trials of one experiment.

    Parameters
    ----------
    experiment : str, default=""
        What the trials belong to; a file of other trials is refused.
    path : path, optional
        File of finished trials, one line of JSON each. Trials in it are not run again.
    jobs : int, default=1
        Number of processes.

    Attributes
    ----------
    cpu_seconds : float
        CPU time of all trials, also of those from the file and of other processes.
    own_seconds : float
        The part of it that this process spent.
    """

    def __init__(self, experiment: str = "", path: str | Path | None = None, jobs: int = 1) -> None:
        if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
            raise InputError("jobs", jobs, "a positive integer")
        self.experiment, self.path, self.jobs = experiment, None if path is None else Path(path), jobs
        self.cpu_seconds = self.own_seconds = 0.0
        self._known: dict[str, list[Any]] = {}
        if self.path is not None:
            self._open(self.path)

    def _open(self, path: Path) -> None:
        """Read finished trials, or begin a new file."""
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
        # The last line may be cut off by whatever ended the process.
        complete = [line for line in lines if line.endswith("\n")]
        try:
            found = [json.loads(line) for line in complete]
            head = found[0]["experiment"] if found else self.experiment
            self._known = {json.dumps(one["trial"]): [one["result"], one["cpu_seconds"]] for one in found[1:]}
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError(
                path, Description("other content"), "finished trials, one JSON object per line"
            ) from error
        if head != self.experiment:
            hint = "Remove the file, or choose another one."
            raise InputError("checkpoint", head, f"a file of {repr_short(self.experiment)}", hint)
        with output_errors(path), path.open("w", encoding="utf-8") as file:
            file.writelines(complete or [json.dumps({"experiment": self.experiment}) + "\n"])

    def run(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        say: Callable[[str], None],
        what: str,
        show: Callable[[tuple[Any, ...], Any], str],
    ) -> list[Any]:
        """Return the results of a function, one for each tuple of arguments and in their order.

        Parameters
        ----------
        function : callable
            A function of a module; arguments and results consist of what JSON has.
        arguments : sequence of tuples
            The arguments of the trials.
        say : function of str
            Called with a line for each trial.
        what : str
            Name of the trials, in the plural.
        show : function of arguments and result
            Returns the text of that line.
        """
        keys = [json.dumps([function.__qualname__, *plain(list(one))]) for one in arguments]
        missing = [k for k, key in enumerate(keys) if key not in self._known]
        steps = Steps(say, len(arguments), what)
        steps.skip(len(arguments) - len(missing))
        for k, result, seconds in self._results(function, arguments, missing):
            self._keep(keys[k], plain(result), seconds)
            steps.done(show(arguments[k], self._known[keys[k]][0]))
        self.cpu_seconds += sum(self._known[key][1] for key in keys)
        return [self._known[key][0] for key in keys]

    def _results(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], missing: Sequence[int]
    ) -> Iterator[tuple[int, Any, float]]:
        """Yield number, result and CPU time of missing trials in the order in which they end."""
        if self.jobs == 1:
            for k in missing:
                result, seconds = _timed(function, arguments[k])
                self.own_seconds += seconds
                yield k, result, seconds
            return
        with ExitStack() as stack:
            pool = ProcessPoolExecutor(self.jobs, get_context("spawn"), _ignore_interrupts)
            stack.callback(pool.shutdown, cancel_futures=True)
            waiting = {pool.submit(_timed, function, arguments[k]): k for k in missing}
            for future in as_completed(waiting):
                yield (waiting[future], *future.result())

    def _keep(self, key: str, result: Any, seconds: float) -> None:
        self._known[key] = [result, seconds]
        if self.path is not None:
            line = {"trial": json.loads(key), "result": result, "cpu_seconds": seconds}
            with output_errors(self.path), self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


@dataclass(frozen=True)
class Setup:
    """How an experiment is run.

    Parameters
    ----------
    data_home : str, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.
    quick : bool, default=False
        Whether to take less data and fewer repetitions.
    say : function of str, default=print
        Called with lines of progress.
    trials : Trials, optional
        Runs the trials, for experiments in trials; by default in this process.
    """

    data_home: str | None = None
    quick: bool = False
    say: Say = print
    trials: Trials = field(default_factory=Trials)


def _timed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, float]:
    began = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - began


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that waits for the results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
