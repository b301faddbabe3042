"""
Write your own task: assign jobs to people
==========================================

The library has tasks for chains, graphs, trees, alignments and others. If your structure is none of these, but you
can *list* the possible outputs of an example, a few lines make it a task. Margins, probabilities, latent variables
and certificates then work with it.
"""

# %%
# The problem
# -----------
# Each morning four people get one of four jobs each. Each pair of person and job has three features: skill, distance
# and the time since the person last did it. Given past decisions of a dispatcher, we want to learn the weights behind
# them. The 24 possible assignments can be listed.

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from latentstruct import CRF, CandidateTask, StructuralSVM
from latentstruct.testing import check_task

WAYS = list(permutations(range(4)))


class Assignment(CandidateTask):
    """Assign four jobs; the score of an assignment is the sum of the scores of its pairs."""

    def candidates(self, x):
        """Return all assignments, no latent values, and the features of each assignment."""
        return WAYS, None, np.array([x[range(4), way].sum(axis=0) for way in WAYS])

    def output_loss(self, y, y_hat, h_hat):
        """Return the number of people with a wrong job."""
        return sum(job != other for job, other in zip(y, y_hat, strict=True))


# %%
# Synthetic data: the dispatcher prefers skill, avoids distance, hardly considers the third feature, and is not fully
# consistent.

rng = np.random.default_rng(0)
X = [rng.normal(size=(4, 4, 3)) for _ in range(400)]
taste = np.array([1.0, -0.7, 0.1])
Y = [max(WAYS, key=lambda way: (x @ taste + 0.4 * rng.normal(size=(4, 4)))[range(4), way].sum()) for x in X]
X_train, Y_train, X_test, Y_test = X[:100], Y[:100], X[100:], Y[100:]

# %%
# `check_task` checks the contract of a task: slopes are slopes, the loss of the true output is zero, the best output
# is the best. It prints nothing if the task is correct.

check_task(Assignment(), X_train[:5], Y_train[:5])

# %%
# Training
# --------

model = StructuralSVM(Assignment(), C=0.1).fit(X_train, Y_train)
print("weights:", model.coef_.round(2))
print(f"objective {model.objective_:.3f}, certified gap {100 * model.relative_gap_:.2g} %")

# %%
# A simple baseline classifies each pair separately: was this pair chosen by the dispatcher? Each person then takes
# the most likely job, so two people may get the same job.

pairs = np.concatenate([x.reshape(16, 3) for x in X_train])
chosen = np.concatenate([np.eye(4)[list(y)].ravel() for y in Y_train])
single = LogisticRegression().fit(pairs, chosen)
greedy = [tuple((x @ single.coef_[0]).argmax(axis=1).tolist()) for x in X_test]


def people_right(predicted):
    """Return the fraction of people with the dispatcher's job."""
    return np.mean([np.mean(np.equal(p, y)) for p, y in zip(predicted, Y_test, strict=True)])


results = {"each person\nseparately": people_right(greedy), "whole\nassignment": people_right(model.predict(X_test))}
ax = plt.subplots(figsize=(4.6, 2.8), layout="constrained")[1]
bars = ax.bar(list(results), list(results.values()), color=["0.6", "C0"])
ax.bar_label(bars, fmt="%.2f")
clashes = np.mean([len(set(way)) < 4 for way in greedy])
ax.set(
    ylim=(0, 1),
    ylabel="people with the correct job",
    title=f"{100 * clashes:.0f} % of mornings have conflicts without structure",
)
plt.show()

# %%
# Probabilities
# -------------
# The task does not depend on the estimator. `CRF` trains it by likelihood and provides the probability of each
# assignment.

likelihood = CRF(Assignment(), C=1.0).fit(X_train, Y_train)
print(f"accuracy of the CRF: {people_right(likelihood.predict(X_test)):.3f}")

# %%
# Limitations
# -----------
# Listing is exact, but slow if the list is long: ten people have 3.6 million assignments. Since the score of an
# assignment is the sum over its pairs, a `PartsTask` is faster: you define the pairs and a search for the best sum,
# ``scipy.optimize.linear_sum_assignment`` (see :doc:`/own_task`). If several candidates share an output, return the
# latent values that distinguish them as the second value of ``candidates``; `LatentSSVM`, `MarginalSSVM` and
# `HiddenCRF` then work with the task.
