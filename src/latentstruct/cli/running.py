"""How a training is run: threads, memory, checkpoints, early stopping and other machines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from latentstruct.exceptions import InputError

SECONDS_BETWEEN_CHECKPOINTS = 30.0
USUAL_PATIENCE = 5
PARAMETERS = {"n_jobs": "--jobs", "cache_mb": "--cache-mb", "executor": "--executor"}
"""Parameters of estimators that options set."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of every training that say how it is run; `valid` is the held-out data, which a subclass declares."""

    jobs: Annotated[
        int | None, Option(show_default="one for each core", help="Threads; results do not depend on their number.")
    ] = None
    cache_mb: Annotated[
        float | None, Option(show_default="the solver's own", help="Megabytes that planes may be kept in.")
    ] = None
    checkpoint: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            show_default="none is written",
            help="File to go on from if it is there, and to write the state of the training to.",
        ),
    ] = None
    checkpoint_every: Annotated[
        float | None,
        Option(
            show_default=f"{SECONDS_BETWEEN_CHECKPOINTS:g}",
            help="Seconds between two checkpoints; 0 for one after each round.",
        ),
    ] = None
    executor: Annotated[
        Literal["dask"] | None,
        Option(
            metavar="NAME",
            show_default="threads of this process",
            help="dask trains on its workers, of this machine unless --scheduler names others.",
        ),
    ] = None
    scheduler: Annotated[
        str | None, Option(metavar="ADDRESS", help="Dask scheduler such as tcp://host:8786, for --executor dask.")
    ] = None
    early_stopping: Annotated[
        bool,
        Option(
            "--early-stopping", help="Stop when the score on --valid no longer improves, and keep the best model seen."
        ),
    ] = False
    patience: Annotated[
        int | None,
        Option(
            show_default=f"{USUAL_PATIENCE}", help="Evaluations without improvement after which --early-stopping stops."
        ),
    ] = None

    def check_run(self, valid: str | None) -> None:
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

    @contextmanager
    def configured(self, estimator: Any, score: Callable[[Any], float]) -> Iterator[dict[str, Any]]:
        """Set the parameters of an estimator and yield further arguments of fit; `score` evaluates a fitted model."""
        wanted = {"n_jobs": self.jobs, "cache_mb": self.cache_mb, "executor": self.executor}
        given = {name: value for name, value in wanted.items() if value is not None}
        for name in given.keys() - estimator.get_params(deep=False).keys():
            raise InputError(
                f"{PARAMETERS[name]} is given, but {type(estimator).__name__} has no use for it; expected another "
                "model: leave it out"
            )
        given.pop("executor", None)
        estimator.set_params(**given)
        with self._connected(estimator):
            yield {**self._checkpoint(), **self._stopping(estimator, score)}

    @contextmanager
    def _connected(self, estimator: Any) -> Iterator[None]:
        if self.executor is None:
            yield
            return
        from latentstruct.parallel.dask_shards import connect

        found = connect(self.executor, self.scheduler)
        estimator.set_params(executor=found)
        try:
            yield
        finally:
            if self.scheduler is not None:
                found.close()

    def _checkpoint(self) -> dict[str, Any]:
        if self.checkpoint is None:
            return {}
        from latentstruct.persistence.checkpoints import Checkpoint

        every = SECONDS_BETWEEN_CHECKPOINTS if self.checkpoint_every is None else self.checkpoint_every
        return {"checkpoint": Checkpoint(self.checkpoint, every)}

    def _stopping(self, estimator: Any, score: Callable[[Any], float]) -> dict[str, Any]:
        if not self.early_stopping:
            return {}
        from latentstruct.estimators import EarlyStopping

        if "early_stopping" not in signature(estimator.fit).parameters:
            raise InputError(
                f"--early-stopping is given, but {type(estimator).__name__} does not support it: choose another "
                "--model, or leave it out"
            )
        return {"early_stopping": EarlyStopping(score, USUAL_PATIENCE if self.patience is None else self.patience)}
