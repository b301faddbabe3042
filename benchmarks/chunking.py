"""CoNLL-2000 chunking: CPU of a CRF iteration against python-crfsuite, same template."""

import resource

import numpy as np

from benchmarks.common import Line, cpu, crfsuite_train
from latentstruct import CRF, Chain, WindowFeatures
from latentstruct.datasets import load_conll2000
from latentstruct.metrics import chunk_scores


def run(quick: bool = False) -> list[Line]:
    rounds = 10 if quick else 30
    train, test = load_conll2000(subset="train"), load_conll2000(subset="test")
    features = WindowFeatures(affixes=0, shape=False)
    X = features.fit_transform(train.tokens)
    names = np.array(features.get_feature_names_out(), dtype=object)
    CRF(Chain(), tol=0.9).fit(X[:50], train.Y[:50])

    def attributes(x):
        return [names[x.indices[a:b]].tolist() for a, b in zip(x.indptr[:-1], x.indptr[1:], strict=True)]

    def fit():
        return CRF(Chain(), C=0.5).fit(X, train.Y, callback=lambda line: line.round >= rounds)

    ours, model = cpu(fit)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    f1 = chunk_scores(test.Y, model.predict(features.transform(test.tokens))).f1
    peer, log = crfsuite_train(X, train.Y, attributes, {"max_iterations": rounds})
    per_round, peer_per_round = ours / model.n_rounds_, peer / log["num"]
    reached = (
        f"{len(model.coef_):,} weights (CRFsuite: observed ones only), F1 {100 * f1:.2f} after {model.n_rounds_} "
        f"rounds, {memory:.2f} GB"
    )
    what = "CoNLL-2000 CRF, one iteration"
    return [Line(what, per_round, peer_per_round, "CRFsuite L-BFGS", 0.8, reached)]
