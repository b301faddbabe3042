"""How work grows with the number of examples: time of block ascent, planes of the bundle."""

import numpy as np

from benchmarks.common import Line, cpu
from latentstruct import Bundle, Chain, StructuralSVM
from latentstruct_papers.datasets import load_ocr_letters


def run(quick: bool = False) -> list[Line]:
    letters = load_ocr_letters()
    order = np.random.default_rng(0).permutation(len(letters.X))
    lines: list[Line] = []
    base = None
    for n in (400, 800, 1600) if quick else (400, 800, 1600, 3200):
        X, Y = [letters.X[i] for i in order[:n]], [letters.Y[i] for i in order[:n]]
        seconds, _ = cpu(lambda X=X, Y=Y: StructuralSVM(Chain(), C=0.1, tol=0.01).fit(X, Y))
        # The same weight on the whole data set: only then is the problem the same one, sampled more finely.
        bundle = StructuralSVM(Chain(), C=40.0 / n, tol=0.01, solver=Bundle()).fit(X, Y)
        base = base or (seconds, n)
        reached = f"bundle at equal total weight: {bundle.n_iter_} planes"
        linear = base[0] * n / base[1]
        lines.append(Line(f"{n} words: time against linear growth", seconds, linear, "linear", 1.5, reached))
    return lines
