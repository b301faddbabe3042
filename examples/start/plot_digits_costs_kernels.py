"""
Digits: certificates, costs and kernels
=======================================

Handwritten digits with one label each; nothing is latent. This tutorial shows three features of all models of the
library: a certificate, a custom loss, and scikit-learn conventions. It also shows kernels, which some models support.
"""

# %%
# The data
# --------
# The 1 797 digits of scikit-learn, 8 × 8 pixels each. We train on the first 1 000; the others are mostly by other
# writers.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import GridSearchCV

from latentstruct import KernelStructuralSVM, Multiclass, StructuralSVM

X, y = load_digits(return_X_y=True)
X = X / 16
X_train, y_train, X_test, y_test = X[:1000], y[:1000], X[1000:], y[1000:]

# %%
# A structural SVM with ten outputs is Crammer and Singer's multiclass SVM. C is chosen by cross-validation on the
# training digits with scikit-learn's ``GridSearchCV``.

search = GridSearchCV(StructuralSVM(Multiclass(bias=1.0)), {"C": [0.03, 0.1, 0.3, 1.0]}, cv=3)
plain = search.fit(X_train, y_train).best_estimator_
baseline = LogisticRegression(C=1.0, max_iter=1000).fit(X_train, y_train)
print("chosen:", search.best_params_)
print(f"objective {plain.objective_:.4f}, lower bound {plain.lower_bound_:.4f}")
print(f"held-out accuracy: {plain.score(X_test, y_test):.3f}")
print(f"logistic regression: {baseline.score(X_test, y_test):.3f}")

# %%
# The second line is a proof: the problem is convex, and the lower bound comes from the dual problem. A gap of 0.1 %
# (the default ``tol``) means that more training cannot improve the objective by more than that.
#
# Costs of mistakes
# -----------------
# Suppose the digits are read from electricity meters. Customers complain if they pay too much, but not if they pay
# too little. So reading a digit as a larger one should cost five times as much as reading it as a smaller one. The
# loss is a table:

digits = np.arange(10)
costs = np.where(digits[None, :] > digits[:, None], 5.0, 1.0)  # rows: true digit, columns: predicted digit
np.fill_diagonal(costs, 0.0)
careful = StructuralSVM(Multiclass(bias=1.0, costs=costs), C=plain.C).fit(X_train, y_train)

fig, axes = plt.subplots(1, 2, figsize=(5.4, 3.6), layout="constrained", sharey=True)
for ax, model, name in zip(axes, (plain, careful), ("equal costs", "too large costs more"), strict=True):
    read = model.predict(X_test)
    table = confusion_matrix(y_test, read) * (1 - np.eye(10, dtype=int))
    ax.imshow(table, cmap="Blues", vmax=15)
    for (row, column), count in np.ndenumerate(table):
        if count:
            ax.text(column, row, count, ha="center", va="center", fontsize=7, color="white" if count > 8 else "black")
    ax.plot([-0.5, 9.5], [-0.5, 9.5], color="grey", linewidth=1)
    ax.set_xticks(range(10))
    ax.set_yticks(range(10))
    ax.set_xlabel("predicted digit")
    ax.set_title(f"{name}:\n{(read > y_test).sum()} too large, {(read < y_test).sum()} too small", fontsize=9)
    print(f"{name}: mean cost {costs[y_test, read].mean():.3f}, wrong {100 * np.mean(read != y_test):.1f} %")
axes[0].set_ylabel("true digit")
plt.show()

# %%
# Above the gray line, on the right, a customer pays too much. The second model makes more mistakes, but cheaper ones,
# as intended. ``tree_costs`` makes such tables from a hierarchy of classes, where nearby classes cost less.
#
# Kernels
# -------
# With a kernel, classes need not be linearly separable. `KernelStructuralSVM` supports `Multiclass`,
# `LatentMulticlass` and `Measure`. It takes more time, and the certificate is for the kernel problem.

kernel = KernelStructuralSVM(Multiclass(), kernel="rbf", C=5.0).fit(X_train, y_train)
print(f"held-out accuracy: {kernel.score(X_test, y_test):.3f}, {len(kernel.support_)} support vectors")

# %%
# Next steps
# ----------
# For two classes and a measure of the whole data set, such as F1, see
# :ref:`sphx_glr_auto_examples_applications_plot_reuters_f1.py`. If the digits are rotated, the angle is latent:
# :ref:`sphx_glr_auto_examples_applications_plot_mnist_rotations.py`.
