"""CoNLL-2000 chunking: CPU of a CRF iteration against python-crfsuite, same template."""

import resource

import numpy as np

from benchmarks.common import Line, cpu, crfsuite_train
from latentstruct import CRF, Chain, WindowFeatures
from latentstruct.core.objective import build_objective
from latentstruct.core.protocols import Temperature
from latentstruct.metrics import chunk_scores
from latentstruct.solvers.lbfgs import evaluate
from latentstruct_papers.datasets import load_conll2000


def seconds_of_evaluation(model: CRF, X, Y) -> float:
    """CPU seconds of the objective and its gradient at the weights of a model: an iteration without L-BFGS."""
    task = model.task_
    objective = build_objective(
        task, task.prepare(X, Y), np.full(len(X), model.C_), Temperature(1.0, 1.0), margin=False
    )
    return cpu(lambda: evaluate(objective.divided(1), model.coef_), 5)[0]


def run(quick: bool = False) -> list[Line]:
    iterations = 10 if quick else 30
    train, test = load_conll2000(subset="train"), load_conll2000(subset="test")
    features = WindowFeatures(affixes=0, shape=False)
    X = features.fit_transform(train.tokens)
    names = np.array(features.get_feature_names_out(), dtype=object)
    CRF(Chain(), tol=0.9).fit(X[:50], train.Y[:50])

    def attributes(x):
        return [names[x.indices[a:b]].tolist() for a, b in zip(x.indptr[:-1], x.indptr[1:], strict=True)]

    def fit():
        return CRF(Chain(), C=0.5).fit(X, train.Y, callback=lambda line: line.iteration >= iterations)

    ours, model = cpu(fit)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    f1 = chunk_scores(test.Y, model.predict(features.transform(test.tokens))).f1
    per_round = ours / model.n_iter_
    reached = f"{len(model.coef_):,} weights, F1 {100 * f1:.2f} after {model.n_iter_} iterations, {memory:.2f} GB"
    lines = []
    # CRFsuite's default has weights only for pairs (feature, label) seen in training: a smaller model than ours.
    for what, options, limit in (
        ("the same weights", {"feature.possible_states": True, "feature.possible_transitions": True}, 0.8),
        ("CRFsuite with observed pairs only", {}, None),
    ):
        peer, log = crfsuite_train(X, train.Y, attributes, {"max_iterations": iterations, **options})
        name = f"CoNLL-2000 CRF, one iteration, {what}"
        lines.append(Line(name, per_round, peer / log["num"], "CRFsuite L-BFGS", limit, reached))
    evaluation = seconds_of_evaluation(model, X, train.Y)
    name = "CoNLL-2000 CRF, one evaluation against one iteration of CRFsuite with observed pairs only"
    lines.append(Line(name, evaluation, lines[-1].peer, "CRFsuite L-BFGS", 0.5, f"{evaluation:.3f} CPU s"))
    return lines
