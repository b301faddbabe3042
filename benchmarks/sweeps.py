"""How one pass over the data grows with the number of tokens and of features: sums of a CRF and of an SVM.

Data are like those of text: each token has a few features out of many, all of value 1. The smallest problem is what
the others are compared with, so that the figures are ratios.
"""

import tracemalloc
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.common import Line, cpu
from latentstruct import Chain
from latentstruct.core.protocols import Mode, Temperature

LENGTH, PER_TOKEN, N_LABELS = 100, 20, 9
TOKENS, FEATURES = (10_000, 100_000, 1_000_000), (1_000, 10_000, 100_000, 1_000_000)
# While the features vary, and while the tokens do.
FIXED_TOKENS, FIXED_FEATURES = 100_000, 10_000
SUMS: dict[str, tuple[Mode, Temperature]] = {
    "CRF": ("free", Temperature(1.0)),
    "SVM": ("augmented", Temperature()),
}


class Pass(NamedTuple):
    """What one pass took: CPU seconds, and bytes beside the data at most."""

    seconds: float
    bytes: int


def text(n_tokens: int, n_features: int, length: int = LENGTH) -> tuple[list[sparse.csr_array], list[np.ndarray]]:
    """Return sequences of tokens with features of which the first are frequent, as words are, and their labels."""
    rng = np.random.default_rng(0)
    # Zipf's law, by inversion; twice the same feature of a token is one feature of twice the value.
    features = np.minimum(n_features ** rng.random((n_tokens, PER_TOKEN)), n_features) - 1
    indptr = np.arange(n_tokens + 1) * PER_TOKEN
    data = np.ones(n_tokens * PER_TOKEN)
    rows = sparse.csr_array((data, features.astype(np.int32).ravel(), indptr), shape=(n_tokens, n_features))
    rows.sum_duplicates()
    rows.data[:] = 1.0
    labels = rng.integers(0, N_LABELS, n_tokens)
    starts = range(0, n_tokens, length)
    return [rows[at : at + length] for at in starts], [labels[at : at + length] for at in starts]


def measure(n_tokens: int, n_features: int, repeats: int) -> dict[str, Pass]:
    """Return what a pass takes for either sum."""
    X, Y = text(n_tokens, n_features)
    task = Chain(labels=list(range(N_LABELS)))
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    w = 0.1 * np.random.default_rng(1).normal(size=task.n_features)
    weights = np.ones(batch.n_examples)
    found = {}
    for name, (mode, temperature) in SUMS.items():

        def work(mode: Mode = mode, temperature: Temperature = temperature) -> Any:
            return task.total(batch, w, mode, temperature, weights)

        work()
        seconds, _ = cpu(work, repeats)
        tracemalloc.start()
        work()
        found[name] = Pass(seconds, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return found


def compared(what: str, found: Pass, base: Pass, growth: float, at_most: float | None) -> Line:
    """Return a pass against the smallest one, whose time is taken to grow by a factor."""
    reached = f"{found.bytes / 1e6:.0f} MB beside the data, {found.bytes / base.bytes:.1f} times those of the smallest"
    return Line(what, found.seconds, growth * base.seconds, "growth in proportion", at_most, reached)


def run(quick: bool = False) -> list[Line]:
    lines: list[Line] = []
    sizes = TOKENS[:2] if quick else TOKENS
    by_tokens = {n: measure(n, FIXED_FEATURES, max(1, 200_000 // n)) for n in sizes}
    for name in SUMS:
        base = by_tokens[sizes[0]][name]
        for n in sizes[1:]:
            lines.append(compared(f"{name}, {n} tokens", by_tokens[n][name], base, n / sizes[0], 2.0))
    dimensions = FEATURES[:3] if quick else FEATURES
    by_features = {d: measure(FIXED_TOKENS, d, 3) for d in dimensions}
    for name in SUMS:
        base = by_features[dimensions[0]][name]
        for d in dimensions[1:]:
            # The features of a token are as many as before: weights that are further apart are all that is new.
            lines.append(compared(f"{name}, {d} features", by_features[d][name], base, 1.0, None))
    return lines
