"""Cold starts: CPU of the first fit of a structure in the first process that uses it, against a later process.

``python -m benchmarks.cold NAME`` runs a fit twice and prints the CPU seconds of both, the first with imports.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.common import Line

# A first process reads its files from disk, no more.
AT_MOST = 1.3


def motif() -> Any:
    from latentstruct import LatentSSVM, Motif
    from latentstruct.datasets import make_planted_motif

    data = make_planted_motif(30, 30, length=60, width=8, random_state=0)
    return LatentSSVM(Motif(8), C=0.1).fit(data.X, data.Y)


def tagged(known: float) -> tuple[list[Any], list[Any]]:
    """Return sequences with labels that come in pairs, and a share of the labels; −1 marks the others."""
    import numpy as np

    rng = np.random.default_rng(0)
    Y = [rng.integers(0, 3, 12).repeat(2) for _ in range(60)]
    X = [np.eye(3)[y] + rng.normal(size=(24, 3)) for y in Y]
    return X, [np.where(rng.random(24) < known, y, -1) for y in Y]


def chain() -> Any:
    from latentstruct import Chain, StructuralSVM

    return StructuralSVM(Chain(), C=0.1).fit(*tagged(1.0))


def half_labeled_chain() -> Any:
    from latentstruct import Chain, MarginalSSVM

    return MarginalSSVM(Chain(), C=0.1).fit(*tagged(0.4))


def graph() -> Any:
    import numpy as np

    from latentstruct import Graph, HiddenCRF, grid_graph

    rng = np.random.default_rng(0)
    pictures = [np.add.outer(np.arange(6) // 2, np.arange(8) // 4) for _ in range(12)]
    grids = [grid_graph(np.eye(4)[picture] + rng.normal(size=(6, 8, 4))) for picture in pictures]
    labels = [np.where(rng.random(48) < 0.5, -1, picture.ravel()) for picture in pictures]
    return HiddenCRF(Graph(), C=0.1).fit(grids, labels)


def parsing() -> Any:
    import numpy as np

    from latentstruct import CRF, Parsing
    from latentstruct.data.trees import Tree, words

    rng = np.random.default_rng(0)

    def noun_phrase() -> Tree:
        noun = Tree("N", (str(rng.choice(["dogs", "cats", "birds"])),))
        return Tree("NP", (noun, Tree("PP", (Tree("P", ("with",)), noun_phrase())))) if rng.random() < 0.4 else noun

    def sentence() -> Tree:
        verb = Tree("V", (str(rng.choice(["see", "chase"])),))
        return Tree("S", (noun_phrase(), Tree("VP", (verb, noun_phrase()))))

    bank = [sentence() for _ in range(40)]
    return CRF(Parsing(), C=1.0).fit([words(tree) for tree in bank], bank)


def multiclass() -> Any:
    import numpy as np

    from latentstruct import Multiclass, StructuralSVM

    X = np.random.default_rng(0).normal(size=(60, 4))
    return StructuralSVM(Multiclass(), C=1.0).fit(X, np.arange(60) % 3)


FITS: dict[str, tuple[str, Callable[[], Any]]] = {
    "motif": ("LatentSSVM(Motif)", motif),
    "chain": ("StructuralSVM(Chain)", chain),
    "half_labeled_chain": ("MarginalSSVM(Chain), unknown labels", half_labeled_chain),
    "graph": ("HiddenCRF(Graph)", graph),
    "parsing": ("CRF(Parsing)", parsing),
    "multiclass": ("import and first fit of Multiclass, 60 × 4", multiclass),
}


def measure(name: str) -> tuple[float, float]:
    """Return CPU seconds of the first and of the second fit of a new process."""
    command = [sys.executable, "-m", "benchmarks.cold", name]
    first, second = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(first), float(second)


def run(quick: bool = False) -> list[Line]:
    lines = []
    for name, (what, _) in FITS.items():
        cold, _ = measure(name)
        later = [measure(name) for _ in range(1 if quick else 5)]
        # Minima would be compared with a single, noisy first process.
        warm, again = (median(times) for times in zip(*later, strict=True))
        reached = f"second fit of a process {again:.2f} s"
        lines.append(Line(f"first process, {what}", cold, warm, "later process", AT_MOST, reached))
    return lines


if __name__ == "__main__":
    began = 0.0  # The clock of a process begins with it.
    for _ in range(2):
        FITS[sys.argv[1]][1]()
        print(time.process_time() - began)
        began = time.process_time()
