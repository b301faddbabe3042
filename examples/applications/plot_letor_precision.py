"""
Ranking for precision at k
==========================

Few users read the second page of search results. So the model should learn which documents come first rather than the
whole order, and among many relevant documents it does not matter *which* come first. This choice is latent.
"""

# %%
# The data
# --------
# LETOR 4.0 MQ2008, fold 1 (`load_letor_mq2008`): queries with documents, each with 46 features and a grade from 0 to
# 2 assigned by people. Grades above 0 are relevant. We use all training, validation and test queries.

import matplotlib.pyplot as plt
import numpy as np

from latentstruct import LatentSSVM, PairwiseRanking, PrecisionAtK, StructuralSVM
from latentstruct.metrics import precision_at_k
from latentstruct.viz.plots import plot_ranking
from latentstruct_papers.datasets import load_letor_mq2008

train, validation, test = (load_letor_mq2008(1, part) for part in ("train", "validation", "test"))
print(len(train), "training queries;", sum(map(len, test.Y)), "documents in", len(test), "test queries")

# %%
# The models
# ----------
# `PrecisionAtK` with k = 5: the output is a set of five documents, and the loss is the difference between the best
# possible precision and theirs. The grades only say which documents are relevant; which five of them *should* come
# first is latent. `LatentSSVM` starts with a classifier of single documents and alternates between choosing these
# documents and training the weights. `PairwiseRanking` is the usual Ranking SVM: every relevant document should be
# above every other one. Both have 46 weights. C is chosen on the validation queries.

K = 5


def precision(model, queries):
    """Return the precision at K of each query."""
    return np.array([precision_at_k(y, x @ model.coef_, K) for x, y in zip(queries.X, queries.Y, strict=True)])


def best_of(models):
    """Return the model with the best precision on the validation queries."""
    return max((model.fit(train.X, train.Y) for model in models), key=lambda model: precision(model, validation).mean())


latent = best_of([LatentSSVM(PrecisionAtK(K), C=C) for C in (1.0, 100.0, 1000.0)])
pairwise = best_of([StructuralSVM(PairwiseRanking(), C=C, solver="bundle") for C in (1e-4, 1e-3, 1e-2)])
print(f"C = {latent.C:g} and {pairwise.C:g}")
print(f"pairs: certified {pairwise.certified_}, gap {100 * pairwise.relative_gap_:.2g} %")
print(f"precision at {K}: {latent.n_iter_} iterations, {latent.stop_reason_}")

# %%
# The pairwise problem is convex, so its gap is a proof. The bound of the other holds for the last choice of documents
# only.
#
# Held-out queries
# ----------------
# The baselines are the best single feature, chosen on the training queries, and a random order.

columns = range(train.X[0].shape[1])
means = [np.mean([precision_at_k(y, x[:, j], K) for x, y in zip(train.X, train.Y, strict=True)]) for j in columns]
one = int(np.argmax(means))
found = {
    "precision at 5": precision(latent, test),
    "all pairs": precision(pairwise, test),
    f"feature {one + 1}": np.array([precision_at_k(y, x[:, one], K) for x, y in zip(test.X, test.Y, strict=True)]),
    "random order": np.array([np.mean(y > 0) for y in test.Y]),
}
for name, values in found.items():
    print(f"{name:15s} {values.mean():.3f}")
difference = found["precision at 5"] - found["all pairs"]
error = difference.std(ddof=1) / np.sqrt(len(difference))

ax = plt.subplots(figsize=(5, 2.8), layout="constrained")[1]
bars = ax.barh(list(found), [values.mean() for values in found.values()], color=["C0", "C0", "0.6", "0.6"])
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.invert_yaxis()
ax.set(xlim=(0, 0.5), xlabel=f"precision at {K}, test queries")
ax.set_title(f"Latent minus pairs: {difference.mean():+.3f} ± {error:.3f}", fontsize=10)
plt.show()

# %%
# A difference below twice its standard error is not significant. On all five folds, with C chosen by
# validation, ``latentstruct reproduce lssvm-precision`` found no such gain over the initial classifier.
#
# One query
# ---------

query = int(np.argmax([y.sum() for y in test.Y]))
ax = plt.subplots(figsize=(5, 2.8), layout="constrained")[1]
plot_ranking(test.X[query] @ latent.coef_, test.Y[query], K, ax)
ax.set_title(f"Query {test.ids[query]}: relevant documents are filled", fontsize=10)
plt.show()

# %%
# Initialization
# --------------
# From random relevant documents training usually ends at w = 0, a local optimum where all documents tie, and a
# warning is issued. The initialization of the task avoids it. The command is ``latentstruct train rank``.
