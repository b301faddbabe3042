"""How a training is run: threads, memory, checkpoints, other machines. The same options for every kind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from latentstruct.exceptions import InputError

SECONDS_BETWEEN_CHECKPOINTS = 30.0
USUAL_PATIENCE = 5


class ExecutorName(StrEnum):
    """Where examples are put to the oracle."""

    dask = "dask"


JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", show_default="one for each core", help="Threads; results do not depend on their number."),
]
CacheOption = Annotated[
    float | None,
    typer.Option("--cache-mb", show_default="the solver's own", help="Megabytes that planes may be kept in."),
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        show_default="none is written",
        help="File to go on from if it is there, and to write the state of the training to.",
    ),
]
EveryOption = Annotated[
    float | None,
    typer.Option(
        "--checkpoint-every",
        show_default=f"{SECONDS_BETWEEN_CHECKPOINTS:g}",
        help="Seconds between two checkpoints; 0 for one after each round.",
    ),
]
ExecutorOption = Annotated[
    ExecutorName | None,
    typer.Option(
        "--executor",
        metavar="NAME",
        show_default="threads of this process",
        help="dask trains on its workers, of this machine unless --scheduler names others.",
    ),
]
EarlyStoppingOption = Annotated[
    bool,
    typer.Option(
        "--early-stopping", help="Stop when the score on --valid no longer improves, and keep the best model seen."
    ),
]
PatienceOption = Annotated[
    int | None,
    typer.Option(
        "--patience",
        show_default=f"{USUAL_PATIENCE}",
        help="Evaluations without improvement after which --early-stopping stops.",
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="Dask scheduler such as tcp://host:8786, for --executor dask."),
]


@dataclass(frozen=True)
class Running:
    """What the options say."""

    jobs: int | None = None
    cache_mb: float | None = None
    checkpoint: Path | None = None
    checkpoint_every: float | None = None
    executor: ExecutorName | None = None
    scheduler: str | None = None
    early_stopping: bool = False
    patience: int | None = None

    def check(self, valid: str | None) -> None:
        """Raise before anything is read if the options do not fit together; `valid` is the held-out data."""
        self._check_stopping(valid)
        if self.jobs is not None and not (self.jobs == -1 or self.jobs >= 1):
            raise InputError(
                f"--jobs is {self.jobs}; expected a number of threads from 1, or -1 for one each core: leave it out "
                "for all cores"
            )
        if self.cache_mb is not None and not self.cache_mb > 0:
            raise InputError(f"--cache-mb must be a number above 0, found {self.cache_mb}: leave it out")
        if self.checkpoint_every is not None and not self.checkpoint_every >= 0:
            raise InputError(f"--checkpoint-every must be 0 or above, found {self.checkpoint_every}: leave it out")
        if self.checkpoint_every is not None and self.checkpoint is None:
            raise InputError(
                f"--checkpoint-every is {self.checkpoint_every}, but --checkpoint is missing; expected both: name a "
                "file"
            )
        if self.scheduler is not None and self.executor is None:
            raise InputError(
                f"--scheduler is {self.scheduler}, but --executor is missing; expected --executor dask with it: add it"
            )

    def _check_stopping(self, valid: str | None) -> None:
        if self.patience is not None and not self.early_stopping:
            raise InputError(
                f"--patience is {self.patience}, but --early-stopping is missing; expected both: add --early-stopping"
            )
        if self.patience is not None and self.patience < 1:
            raise InputError(f"--patience must be at least 1, got {self.patience}: leave it out for {USUAL_PATIENCE}")
        if self.early_stopping and valid is None:
            raise InputError("--early-stopping needs validation data, but --valid is missing: add --valid FILE")
        if self.early_stopping and self.checkpoint is not None:
            raise InputError(
                "--early-stopping and --checkpoint are both given, but a checkpoint does not hold validation scores: "
                "leave one out"
            )

    def stopping(self, estimator: Any, score: Callable[[Any], float]) -> dict[str, Any]:
        """Return what fit is to be given for early stopping by a score of a fitted model."""
        if not self.early_stopping:
            return {}
        from latentstruct.estimators import EarlyStopping

        if "early_stopping" not in signature(estimator.fit).parameters:
            raise InputError(
                f"--early-stopping is given, but {type(estimator).__name__} does not support it: choose another "
                "--model, or leave it out"
            )
        patience = USUAL_PATIENCE if self.patience is None else self.patience
        return {"early_stopping": EarlyStopping(score, patience)}

    @contextmanager
    def prepared(self, estimator: Any) -> Iterator[dict[str, Any]]:
        """Set an estimator up, and yield what its fit is to be given besides."""
        wanted = {"n_jobs": self.jobs, "cache_mb": self.cache_mb}
        known = estimator.get_params(deep=False)
        given = {name: value for name, value in wanted.items() if value is not None}
        for name in [*given, *(["executor"] if self.executor else [])]:
            if name not in known:
                option = {"n_jobs": "--jobs", "cache_mb": "--cache-mb", "executor": "--executor"}[name]
                raise InputError(
                    f"{option} is given, but {type(estimator).__name__} has no use for it; expected another model: "
                    "leave it out"
                )
        estimator.set_params(**given)
        with self._executor(estimator):
            yield self._fit_parameters()

    @contextmanager
    def _executor(self, estimator: Any) -> Iterator[None]:
        if self.executor is None:
            yield
            return
        from latentstruct.dask_shards import connect

        found = connect(self.executor.value, self.scheduler)
        estimator.set_params(executor=found)
        try:
            yield
        finally:
            if self.scheduler is not None:
                found.close()

    def _fit_parameters(self) -> dict[str, Any]:
        if self.checkpoint is None:
            return {}
        from latentstruct.checkpoints import Checkpoint

        every = SECONDS_BETWEEN_CHECKPOINTS if self.checkpoint_every is None else self.checkpoint_every
        return {"checkpoint": Checkpoint(self.checkpoint, every)}


AS_USUAL = Running()
PRESENT: ContextVar[Running] = ContextVar("running", default=AS_USUAL)
"""The options of the training that runs now."""


def declare(
    jobs: JobsOption = None,
    cache_mb: CacheOption = None,
    checkpoint: CheckpointOption = None,
    checkpoint_every: EveryOption = None,
    executor: ExecutorOption = None,
    scheduler: SchedulerOption = None,
    early_stopping: EarlyStoppingOption = False,
    patience: PatienceOption = None,
) -> None:
    """Have the options that every training has."""


@contextmanager
def running(options: dict[str, Any], valid: str | None) -> Iterator[None]:
    """Let trainings within the block run as the options say; `valid` is the held-out data."""
    present = Running(**options)
    present.check(valid)
    token = PRESENT.set(present)
    try:
        yield
    finally:
        PRESENT.reset(token)
