"""Handwritten words: chain models against python-crfsuite's L-BFGS on the same data."""

import numpy as np

from benchmarks.common import Line, cpu, crfsuite_train
from latentstruct import CRF, Chain, StructuralSVM
from latentstruct_papers.datasets import load_ocr_letters

PEER = "CRFsuite L-BFGS"
# All label × pixel and label × label weights, as in our models.
OPTIONS = {"feature.possible_states": True, "feature.possible_transitions": True}


def pixel_names(x: np.ndarray) -> list[list[str]]:
    return [[str(pixel) for pixel in np.flatnonzero(row)] for row in x]


def split(letters, chosen):
    rows = np.flatnonzero(chosen)
    return [letters.X[i] for i in rows], [letters.Y[i] for i in rows]


def run(quick: bool = False) -> list[Line]:
    letters = load_ocr_letters()
    train, rest = split(letters, letters.folds == 1), split(letters, letters.folds != 1)
    StructuralSVM(Chain(), C=0.1, tol=0.9).fit(*train)
    CRF(Chain(), tol=0.9).fit(*train)
    lines = []
    peer, log = crfsuite_train(*train, pixel_names, OPTIONS)

    ours, model = cpu(lambda: StructuralSVM(Chain(), C=0.1).fit(*train), 3)
    inside = model.objective_ >= 246.174 and model.lower_bound_ <= 246.177
    reached = (
        f"objective {model.objective_:.3f}, gap {model.relative_gap_:.1e}, optimum in bounds: {inside}, accuracy "
        f"{model.score(*rest):.4f}, {model.n_oracle_calls_ / len(train[0]):.0f} passes"
    )
    lines.append(Line("letters, 704 words: SVM C=0.1 to 0.1 %", ours, peer, PEER, 0.35, reached))

    ours, model = cpu(lambda: StructuralSVM(Chain(), C=1.0, tol=0.01).fit(*train), 3)
    reached = f"gap {model.relative_gap_:.1e}, accuracy {model.score(*rest):.4f}"
    lines.append(Line("letters, 704 words: SVM C=1 to 1 %", ours, peer, PEER, 0.7, reached))

    # CRFsuite minimizes c2‖w‖² − log-likelihood: twice our objective at C = 1/(2·c2).
    ours, model = cpu(lambda: CRF(Chain(), C=0.5).fit(*train), 3)
    reached = f"2·objective {2 * model.objective_:.2f} against {log['loss']:.2f}, accuracy {model.score(*rest):.4f}"
    lines.append(Line("letters, 704 words: CRF, whole fit", ours, peer, PEER, 0.45, reached))

    if not quick:
        many = split(letters, letters.folds != 0)
        peer, _ = crfsuite_train(*many, pixel_names, OPTIONS)
        ours, model = cpu(lambda: StructuralSVM(Chain(), C=0.1).fit(*many))
        held_out = split(letters, letters.folds == 0)
        reached = f"gap {model.relative_gap_:.1e}, accuracy {model.score(*held_out):.4f}"
        lines.append(Line(f"letters, {len(many[0])} words: SVM C=0.1 to 0.1 %", ours, peer, PEER, 0.25, reached))
    return lines
