"""The output of least expected loss among samples."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from latentstruct.core.types import Vector

Losses = Callable[[Sequence[Any], Sequence[Any]], Any]
"""Returns Δ(y, ŷ) of sequences of true and of predicted outputs."""


def _key(y: Any) -> Any:
    """Return what equal outputs have in common."""
    return tuple(np.ravel(y).tolist()) if isinstance(y, np.ndarray) else tuple(y) if isinstance(y, list) else y


def least_risk(samples: Sequence[Any], best: Any, losses: Losses) -> Any:
    """Return the output ŷ of the smallest mean loss Δ(y, ŷ) over samples y, among these and the best output.

    Of equal ones it is the best output, or the one that was drawn first.
    """
    counts = Counter(map(_key, samples))
    distinct = list({_key(y): y for y in reversed(samples)}.items())[::-1]
    weights = np.array([counts[key] for key, _ in distinct], dtype=float)
    truth = [y for _, y in distinct]
    candidates = [best, *(y for key, y in distinct if key != _key(best))]
    pairs = [(y, guess) for guess in candidates for y in truth]
    found: Vector = np.asarray(losses(*map(list, zip(*pairs, strict=True))), dtype=float)
    return candidates[int(np.argmin(found.reshape(len(candidates), len(truth)) @ weights))]
