"""
A task of your own: who does which job
======================================

The library knows chains, graphs, trees, alignments. If your structure is none of these but you can *list* the
possible answers of an example, a few lines make it a task, and everything else comes with it: margins, probabilities,
latent variables, certificates.
"""

# %%
# The question
# ------------
# Each morning four people and four jobs; each person gets one job. For each pair we know three figures: skill,
# distance and how long ago the person did it last. A dispatcher has decided for years; we would like to learn what
# she goes by. The twenty-four ways to deal out the jobs can be listed.

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from latentstruct import CRF, CandidateTask, StructuralSVM
from latentstruct.testing import check_task

WAYS = list(permutations(range(4)))


class Assignment(CandidateTask):
    """Deal out four jobs: the score of a way is the sum of its pairs' scores."""

    def candidates(self, x):
        """Return all ways, no latents, and the features of each way."""
        return WAYS, None, np.array([x[range(4), way].sum(axis=0) for way in WAYS])

    def output_loss(self, y, y_hat, h_hat):
        """Return how many people got another job than they should."""
        return sum(job != other for job, other in zip(y, y_hat, strict=True))


# %%
# The data are made up: the dispatcher likes skill, dislikes distance, cares little for the third figure, and is not
# quite consistent.

rng = np.random.default_rng(0)
X = [rng.normal(size=(4, 4, 3)) for _ in range(400)]
taste = np.array([1.0, -0.7, 0.1])
Y = [max(WAYS, key=lambda way: (x @ taste + 0.4 * rng.normal(size=(4, 4)))[range(4), way].sum()) for x in X]
X_train, Y_train, X_test, Y_test = X[:100], Y[:100], X[100:], Y[100:]

# %%
# `check_task` tries what every task must keep: that slopes are slopes, that losses are zero for the truth, that the
# best answer is the best. It says nothing if all is well.

check_task(Assignment(), X_train[:5], Y_train[:5])

# %%
# Training
# --------

model = StructuralSVM(Assignment(), C=0.1).fit(X_train, Y_train)
print("weights:", model.coef_.round(2))
print(f"objective {model.objective_:.3f}, proven to be within {100 * model.relative_gap_:.2g} % of the best")

# %%
# A natural baseline judges each pair for itself: is this pair one of the dispatcher's? Then each person takes the
# likeliest job. Nothing keeps two people from the same job.

pairs = np.concatenate([x.reshape(16, 3) for x in X_train])
chosen = np.concatenate([np.eye(4)[list(y)].ravel() for y in Y_train])
single = LogisticRegression().fit(pairs, chosen)
greedy = [tuple((x @ single.coef_[0]).argmax(axis=1).tolist()) for x in X_test]


def people_right(predicted):
    """Return the share of people with the dispatcher's job."""
    return np.mean([np.mean(np.equal(p, y)) for p, y in zip(predicted, Y_test, strict=True)])


results = {"each person\nfor itself": people_right(greedy), "the whole\nmorning": people_right(model.predict(X_test))}
ax = plt.subplots(figsize=(4.6, 2.8), layout="constrained")[1]
bars = ax.bar(list(results), list(results.values()), color=["0.6", "C0"])
ax.bar_label(bars, fmt="%.2f")
clashes = np.mean([len(set(way)) < 4 for way in greedy])
ax.set(
    ylim=(0, 1), ylabel="people with the right job", title=f"{100 * clashes:.0f} % of mornings clash without structure"
)
plt.show()

# %%
# Probabilities for the same task
# -------------------------------
# The task knows nothing of estimators. `CRF` gives the same weights another meaning: the probability of each way.

likelihood = CRF(Assignment(), C=1.0).fit(X_train, Y_train)
print(f"people right by the CRF: {people_right(likelihood.predict(X_test)):.3f}")

# %%
# What is limited
# ---------------
# Listing is exact, and slow when the list is long: ten people have 3.6 million ways. But the score of a way is
# the sum over its pairs, so write a `PartsTask`: you give the pairs and a search for the best sum,
# ``scipy.optimize.linear_sum_assignment``; :doc:`/own_task` has it whole. If several candidates share an output, return
# what tells them apart as the second value of ``candidates``: these are latent variables, and `LatentSSVM`,
# `MarginalSSVM` and `HiddenCRF` take the task as it is.
