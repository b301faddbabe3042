"""Trainings whose weights are compared between threads and processes, in a module that another process loads soon."""

import numpy as np

from latentstruct import CRF, Chain, LatentSSVM, Motif, StructuralSVM


def trained(n_jobs):
    """Return the weights of some models as text, to the last bit."""
    rng = np.random.default_rng(0)
    Y = [[str(label) for label in rng.integers(0, 3, 5)] for _ in range(8)]
    X = [rng.normal(size=(5, 4)) + np.eye(4)[[int(label) for label in y]] for y in Y]
    sequences = ["".join(rng.choice(list("ACGT"), 20)) for _ in range(8)]
    models = (
        StructuralSVM(Chain(), tol=0.05, n_jobs=n_jobs).fit(X, Y),
        CRF(Chain(), tol=0.05, n_jobs=n_jobs).fit(X, Y),
        LatentSSVM(Motif(5), tol=0.1, n_jobs=n_jobs).fit(sequences, [1, -1] * 4),
    )
    return [model.coef_.tobytes().hex() for model in models]
