"""Measuring and reporting."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Line:
    """One comparison: CPU seconds of ours and of the peer, and what was reached."""

    what: str
    ours: float
    peer: float
    peer_name: str
    at_most: float | None
    reached: str

    @property
    def ratio(self) -> float:
        return self.ours / self.peer


def cpu(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the least CPU time of some repeats, in seconds, and the last result."""
    best = np.inf
    for _ in range(repeats):
        began = time.process_time()
        result = work()
        best = min(best, time.process_time() - began)
    return best, result


def crfsuite_train(X: list[np.ndarray], Y: list[Any], names: Any, options: dict[str, Any]) -> tuple[float, Any]:
    """Train python-crfsuite's L-BFGS; return CPU seconds of training alone and its last iteration's log."""
    import tempfile

    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(names(x), [str(label) for label in y])
    trainer.select("lbfgs")
    trainer.set_params({"c1": 0.0, "c2": 1.0, **options})
    with tempfile.NamedTemporaryFile(suffix=".crfsuite") as file:
        seconds, _ = cpu(lambda: trainer.train(file.name))
    return seconds, trainer.logparser.last_iteration
