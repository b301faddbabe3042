"""
Ten classes, costs of mistakes, and a kernel
============================================

Nothing is latent here: handwritten digits, one label each. It shows three things that every other model of the
library has too: a certificate, a loss of your own, and scikit-learn's manners. And one that only some have, a kernel.
"""

# %%
# The data
# --------
# The 1 797 digits of scikit-learn, 8 × 8 pixels each. We train on the first 1 000; the others are mostly of other
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
# training digits; the estimator is scikit-learn's in form, so its tools serve.

search = GridSearchCV(StructuralSVM(Multiclass(bias=1.0)), {"C": [0.03, 0.1, 0.3, 1.0]}, cv=3)
plain = search.fit(X_train, y_train).best_estimator_
baseline = LogisticRegression(C=1.0, max_iter=1000).fit(X_train, y_train)
print("chosen:", search.best_params_)
print(f"objective {plain.objective_:.4f}, no weights can be below {plain.lower_bound_:.4f}")
print(f"held-out digits right: {plain.score(X_test, y_test):.3f}")
print(f"logistic regression:   {baseline.score(X_test, y_test):.3f}")

# %%
# The second line is a proof, not a belief: the problem is convex, and the lower bound comes from the dual. A gap of
# 0.1 % (the default ``tol``) means that more training cannot improve the objective by more than that.
#
# Mistakes that cost more
# -----------------------
# Say that the digits are read off electricity meters. Whoever pays too little keeps quiet; whoever pays too much
# complains. So reading a digit as a larger one is to cost five times as much as reading it as a smaller one. The loss
# is a table:

digits = np.arange(10)
costs = np.where(digits[None, :] > digits[:, None], 5.0, 1.0)  # the true digit in rows, what is read in columns
np.fill_diagonal(costs, 0.0)
careful = StructuralSVM(Multiclass(bias=1.0, costs=costs), C=plain.C).fit(X_train, y_train)

fig, axes = plt.subplots(1, 2, figsize=(5.4, 3.6), layout="constrained", sharey=True)
for ax, model, name in zip(axes, (plain, careful), ("all mistakes alike", "too much costs more"), strict=True):
    read = model.predict(X_test)
    table = confusion_matrix(y_test, read) * (1 - np.eye(10, dtype=int))
    ax.imshow(table, cmap="Blues", vmax=15)
    for (row, column), count in np.ndenumerate(table):
        if count:
            ax.text(column, row, count, ha="center", va="center", fontsize=7, color="white" if count > 8 else "black")
    ax.plot([-0.5, 9.5], [-0.5, 9.5], color="grey", linewidth=1)
    ax.set_xticks(range(10))
    ax.set_yticks(range(10))
    ax.set_xlabel("read as")
    ax.set_title(f"{name}:\n{(read > y_test).sum()} too large, {(read < y_test).sum()} too small", fontsize=9)
    print(f"{name}: mean cost {costs[y_test, read].mean():.3f}, wrong {100 * np.mean(read != y_test):.1f} %")
axes[0].set_ylabel("true digit")
plt.show()

# %%
# To the upper right of the grey line a customer pays too much. The careful model makes more mistakes, and cheaper
# ones: that is what it was asked for. ``tree_costs`` makes such tables from a hierarchy of classes, where a near miss
# costs less than a far one.
#
# A kernel
# --------
# With a kernel the classes need not be separable by planes. `KernelStructuralSVM` takes `Multiclass`,
# `LatentMulticlass` and `Measure`; it costs more time, and the certificate is that of the kernel's problem.

kernel = KernelStructuralSVM(Multiclass(), kernel="rbf", C=5.0).fit(X_train, y_train)
print(f"held-out digits right: {kernel.score(X_test, y_test):.3f}, {len(kernel.support_)} support vectors")

# %%
# Where to go on
# --------------
# If you have only two classes and a measure of the whole set, such as F1, see
# :ref:`sphx_glr_auto_examples_applications_plot_reuters_f1.py`. If the digits are rotated, the angle is latent:
# :ref:`sphx_glr_auto_examples_applications_plot_mnist_rotations.py`.
