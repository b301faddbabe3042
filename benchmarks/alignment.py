"""Alignment of protein-like pairs by BLOSUM62: cells a second against Biopython's PairwiseAligner, scores only."""

import numpy as np

from benchmarks.common import Line, cpu
from latentstruct.core.protocols import Temperature
from latentstruct.exceptions import missing_package
from latentstruct.io.ncbi_matrix import blosum62
from latentstruct.tasks.alignment.task import Alignment

LETTERS = "ARNDCQEGHILKMFPSTWYV"
GAP_OPEN, GAP_EXTEND = 12.0, 1.0
LENGTH = 300


def related_pairs(n: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Return pairs of which one is the other with half of its letters changed and a piece moved to the end."""
    pairs = []
    for _ in range(n):
        a = rng.choice(list(LETTERS), LENGTH)
        b = np.where(rng.random(LENGTH) < 0.5, a, rng.choice(list(LETTERS), LENGTH))
        pairs.append(("".join(a), "".join(np.roll(b, int(rng.integers(0, 30))))))
    return pairs


def run(quick: bool = False) -> list[Line]:
    try:
        from Bio.Align import PairwiseAligner, substitution_matrices
    except ImportError as error:
        raise missing_package("Biopython", "align sequences", "bench") from error
    pairs = related_pairs(20 if quick else 100, np.random.default_rng(0))
    cells = LENGTH * LENGTH * len(pairs)
    matrix = substitution_matrices.load("BLOSUM62")
    soft, weights = Temperature(3.0, 0.0), np.ones(len(pairs))
    lines = []
    for mode in ("local", "global"):
        task = Alignment(mode=mode)
        task.learn(pairs, [np.array([[0, 0]])] * len(pairs))
        batch = task.prepare(pairs)
        w = task.fixed_weights(blosum62(), GAP_OPEN, GAP_EXTEND)
        task.align_scores(batch, w)
        ours, scores = cpu(lambda task=task, batch=batch, w=w: task.align_scores(batch, w), repeats=5)
        task.align(batch, w)
        traced, _ = cpu(lambda task=task, batch=batch, w=w: task.align(batch, w), repeats=3)
        task.total(batch, w, "free", soft, weights)
        summed, _ = cpu(lambda task=task, batch=batch, w=w: task.total(batch, w, "free", soft, weights), repeats=3)
        aligner = PairwiseAligner(
            mode=mode, substitution_matrix=matrix, open_gap_score=-GAP_OPEN, extend_gap_score=-GAP_EXTEND
        )
        peer, expected = cpu(lambda aligner=aligner: [aligner.score(a, b) for a, b in pairs], repeats=5)
        same = "same scores" if np.allclose(scores, expected) else "OTHER SCORES"
        rates = [f"{cells / seconds / 1e6:.0f}" for seconds in (ours, peer, traced, summed)]
        reached = (
            f"{rates[0]} and {rates[1]} million cells/s, {same}; with path {rates[2]}, forward-backward {rates[3]}"
        )
        lines.append(Line(f"alignment scores, {mode}, 300 × 300", ours, peer, "Biopython", 2.0, reached))
    return lines
