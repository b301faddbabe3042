"""How a training is run: threads, memory, checkpoints, early stopping and other machines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from latentstruct.cli.common import NOTHING
from latentstruct.cli.declaring import option
from latentstruct.exceptions import InputError

SECONDS_BETWEEN_CHECKPOINTS = 30.0
USUAL_PATIENCE = 5


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of every training that say how it is run."""

    jobs: int | None = option(
        None, "Number of threads; results do not depend on it.", shown="one per core", sets="n_jobs"
    )
    cache_mb: float | None = option(None, "Maximum size of the plane cache in megabytes.", shown="chosen by the solver")
    checkpoint: Path | None = option(
        None, "File for the state of training; training resumes from it if it exists.", metavar="FILE", shown="none"
    )
    checkpoint_every: float | None = option(
        None, "Seconds between checkpoints; 0 for one per iteration.", shown=f"{SECONDS_BETWEEN_CHECKPOINTS:g}"
    )
    executor: Literal["dask"] | None = option(
        None,
        "dask trains on Dask workers, of this machine unless --scheduler is given.",
        metavar="NAME",
        shown="threads of this process",
    )
    scheduler: str | None = option(
        None, "Dask scheduler such as tcp://host:8786, for --executor dask.", metavar="ADDRESS"
    )
    early_stopping: bool = option(
        False, "Stop when the score on --valid no longer improves, and keep the best model seen."
    )
    patience: int | None = option(
        None, "Evaluations without improvement before --early-stopping stops.", shown=f"{USUAL_PATIENCE}", min=1
    )

    def check_run(self, valid: str | None) -> None:
        """Raise before anything is read if the options contradict each other; `valid` is the held-out data."""
        if self.jobs is not None and not (self.jobs == -1 or self.jobs >= 1):
            raise InputError("jobs", self.jobs, "a positive integer, or -1 for one thread per core")
        if self.cache_mb is not None and not self.cache_mb > 0:
            raise InputError("cache_mb", self.cache_mb, "a number above 0")
        if self.checkpoint_every is not None and not self.checkpoint_every >= 0:
            raise InputError("checkpoint_every", self.checkpoint_every, "a number of at least 0")
        needed = {
            "checkpoint_every": ("checkpoint", self.checkpoint),
            "scheduler": ("executor", self.executor),
            "patience": ("early_stopping", self.early_stopping or None),
            "early_stopping": ("valid", valid),
        }
        for name, (other, value) in needed.items():
            if getattr(self, name) not in (None, False) and value is None:
                raise InputError(other, NOTHING, f"given with `{name}`")
        if self.early_stopping and self.checkpoint is not None:
            expected = "left out with `early_stopping`"
            raise InputError("checkpoint", str(self.checkpoint), expected, "It does not hold validation scores.")

    @contextmanager
    def configured(self, estimator: Any) -> Iterator[dict[str, Any]]:
        """Set the parameters of an estimator and yield further arguments of fit."""
        wanted = {"n_jobs": self.jobs, "cache_mb": self.cache_mb, "executor": self.executor}
        given = {name: value for name, value in wanted.items() if value is not None}
        for name in given.keys() - estimator.get_params(deep=False).keys():
            raise InputError(name, given[name], f"left out for {type(estimator).__name__}")
        given.pop("executor", None)
        estimator.set_params(**given)
        with self._connected(estimator):
            yield self._checkpoint()

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

    def stopping(self, estimator: Any, score: Callable[[Any], float]) -> dict[str, Any]:
        """Return the arguments of fit for early stopping; `score` evaluates a fitted model."""
        if not self.early_stopping:
            return {}
        from latentstruct.estimators import EarlyStopping

        if "early_stopping" not in signature(estimator.fit).parameters:
            expected = f"left out for {type(estimator).__name__}"
            raise InputError("early_stopping", True, expected, "Or choose another `model`.")
        return {"early_stopping": EarlyStopping(score, USUAL_PATIENCE if self.patience is None else self.patience)}
