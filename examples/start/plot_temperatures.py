"""
One objective, two temperatures
===============================

Latent SVM, marginal SVM and hidden CRF are one objective at different temperatures. This tutorial shows on a small
problem how the objectives converge, and that predictions need not differ.
"""

# %%
# The objective
# -------------
# For each example with output :math:`y_i` and latent value :math:`h`,
#
# .. math::
#
#    \tfrac12\|w\|^2 + C\sum_i \Big[\operatorname{pool}_{y}^{\varepsilon_y}\operatorname{pool}_{h}^{\varepsilon_h}
#    \big(\Delta(y_i, y) + w\cdot\varphi(x_i, y, h)\big)
#    - \operatorname{pool}_{h}^{\varepsilon_h} w\cdot\varphi(x_i, y_i, h)\Big],
#
# where :math:`\operatorname{pool}^{\varepsilon} s = \varepsilon\log\sum\exp(s/\varepsilon)`, and the maximum at
# :math:`\varepsilon = 0`. `LatentSSVM` has (0, 0), `MarginalSSVM` (0, 1), `HiddenCRF` (1, 1) without the loss
# :math:`\Delta`. `StructuredEstimator` takes any pair.
#
# The data
# --------
# Each example has six views. One of them is informative; which one is latent.

import matplotlib.pyplot as plt
import numpy as np

from latentstruct import (
    HiddenCRF,
    LatentMulticlass,
    LatentSSVM,
    MarginalSSVM,
    StructuredEstimator,
    Temperature,
    build_objective,
)

rng = np.random.default_rng(0)
y = rng.integers(0, 2, 400)
X = rng.normal(size=(400, 6, 3))
X[np.arange(400), rng.integers(0, 6, 400)] += 2.5 * np.eye(3)[y]
X_train, y_train, X_test, y_test = X[:200], y[:200], X[200:], y[200:]

# %%
# The same weights at decreasing temperatures
# -------------------------------------------
# We train the latent SVM, keep its weights, and evaluate the objective at other temperatures.

model = LatentSSVM(LatentMulticlass(), C=0.05, restarts=3).fit(X_train, y_train)
task = model.task_
batch = task.prepare(X_train, y_train)


def value(output, latent):
    """Return the objective of the trained weights at two temperatures."""
    weights = np.full(len(y_train), model.C)
    return build_objective(task, batch, weights, Temperature(output, latent)).value(model.coef_)


temperatures = np.logspace(-3, 0, 10)
hard = value(0.0, 0.0)
ax = plt.subplots(figsize=(5, 3.2), layout="constrained")[1]
for name, pair, marker in (
    ("latent values (0, ε)", lambda e: (0.0, e), "o"),
    ("outputs (ε, 0)", lambda e: (e, 0.0), "s"),
    ("both (ε, ε)", lambda e: (e, e), "^"),
):
    ax.loglog(temperatures, [abs(value(*pair(e)) - hard) for e in temperatures], marker=marker, label=name)
ax.set(xlabel="temperature ε", ylabel="difference to the latent SVM", title="All objectives converge as ε → 0")
ax.legend(fontsize=8)
plt.show()

# %%
# The difference is at most C times the number of examples times ε times the logarithm of the number of pooled values,
# twice, so it vanishes with ε. It vanishes faster if the best value is clearly ahead of the others.
#
# Training at each temperature
# ----------------------------
# Similar objectives do not imply similar models: with latent variables the objectives are not convex, and training
# ends at local optima. So we compare the scores on the held-out half:

estimators = {
    "LatentSSVM": LatentSSVM(LatentMulticlass(), C=0.05, restarts=3),
    "(0.01, 0.01)": StructuredEstimator(LatentMulticlass(), C=0.05, temperature=(0.01, 0.01), restarts=3),
    "(0, 0.3)": StructuredEstimator(LatentMulticlass(), C=0.05, temperature=(0.0, 0.3), restarts=3),
    "MarginalSSVM": MarginalSSVM(LatentMulticlass(), C=0.05, restarts=3),
    "HiddenCRF": HiddenCRF(LatentMulticlass(), C=0.05, restarts=3),
}
scores = {}
for name, estimator in estimators.items():
    fitted = estimator.fit(X_train, y_train)
    scores[name] = fitted.score(X_test, y_test)
    print(f"{name:13s} objective {fitted.objective_:7.3f}, held-out accuracy {scores[name]:.3f}")
mean_view = np.mean(X_test.mean(axis=1)[:, :2].argmax(axis=1) == y_test)
print(f"mean of the views, without training: {mean_view:.3f}")

# %%
# Objectives at different temperatures are different functions and cannot be compared. The standard error of such an
# accuracy is about

error = np.sqrt(np.mean(list(scores.values())) * (1 - np.mean(list(scores.values()))) / len(y_test))
print(f"{error:.3f}, the best and the worst differ by {max(scores.values()) - min(scores.values()):.3f}")

# %%
# Which one to use
# ----------------
# If you need the latent values themselves (a site, a box), use the hard maximum. If they remain uncertain (missing
# labels), sum over them. If you need probabilities, use the hidden CRF. Try several: on the real data of the other
# tutorials the order is not always the same.
