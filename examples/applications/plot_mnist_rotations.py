"""
Rotated digits: selecting latent states
=======================================

A 7 that leans to the left looks like a 1. If a classifier may rotate each image before it scores it, the angle is a
latent variable. Eleven angles per digit are many; a group norm selects the angles that are needed.
"""

# %%
# The data
# --------
# 2s and 7s of MNIST (`load_mnist`), the first 1 000 of the training and of the test images. `RotatedViews` rotates
# each image by eleven angles and keeps ten principal components per view.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from latentstruct import GroupNorm, LatentMulticlass, LatentSSVM, RotatedViews
from latentstruct.viz.plots import plot_states
from latentstruct_papers.datasets import load_mnist

DIGITS = (2, 7)
data = load_mnist()
train = np.flatnonzero(np.isin(data.train_labels, DIGITS))[:1000]
test = np.flatnonzero(np.isin(data.test_labels, DIGITS))[:1000]
views = RotatedViews(n_components=10).fit(data.train_images[train])
X_train, y_train = views.transform(data.train_images[train]), data.train_labels[train]
X_test, y_test = views.transform(data.test_images[test]), data.test_labels[test]
angles = np.array(views.angles)
print("angles:", angles.astype(int), "- an example has the shape", X_train[0].shape)

# %%
# The models
# ----------
# ``LatentMulticlass(weights="state")`` has weights per digit and angle, 22 groups in total. The score of a digit is
# that of its best angle. The first model has the usual ½‖w‖², which keeps all groups. The second has `GroupNorm`, the
# sum of the norms of the groups, which sets unneeded groups to exactly zero. C was not tuned.

C = 100.0 / len(y_train)
task = LatentMulticlass(n_states=len(angles), weights="state")
usual = LatentSSVM(task, C=C, tol=0.01).fit(X_train, y_train)
sparse = LatentSSVM(task, C=C, regularizer=GroupNorm("states")).fit(X_train, y_train)
print(
    "angles in use:", int((usual.states_ > 0).sum()), "and", int((sparse.states_ > 0).sum()), "of", usual.states_.size
)

ax = plt.subplots(figsize=(5, 3), layout="constrained")[1]
plot_states(sparse, angles.astype(int).tolist(), ax)
ax.set(xlabel="angle in degrees")
ax.set_title(f"The group norm keeps {int((sparse.states_ > 0).sum())} of {sparse.states_.size} templates", fontsize=10)
plt.show()

# %%
# A smaller model
# ---------------
# ``prune`` removes the zero groups; the pruned model needs only the remaining views of new images. The baseline is
# logistic regression on the upright view.

small = sparse.prune()
needed = small.task_.needed_states_
upright = int(np.flatnonzero(angles == 0)[0])
baseline = LogisticRegression(max_iter=1000).fit(X_train[:, upright], y_train)
accuracy = {
    "all angles": usual.score(X_test, y_test),
    f"{len(needed)} angles": small.score(X_test[:, needed], y_test),
    "upright only": baseline.score(X_test[:, upright], y_test),
}
error = np.sqrt(0.02 * 0.98 / len(y_test))
for name, value in accuracy.items():
    print(f"{name:13s} {100 * value:.1f} % accuracy (± {100 * error:.1f})")

# %%
# Predicted angles
# ----------------
# Test images (top), and the same images rotated by the predicted angle (bottom):

chosen = [np.flatnonzero(y_test == digit)[k] for k in range(4) for digit in DIGITS]
latents = usual.predict_latent(X_test[chosen])
fig, axes = plt.subplots(2, len(chosen), figsize=(5, 1.9), layout="constrained")
for (above, below), k, h in zip(axes.T, chosen, latents, strict=True):
    image = data.test_images[test[k]]
    above.imshow(image, cmap="gray_r")
    below.imshow(views.rotate(image[None], h)[0], cmap="gray_r")
    below.set_xlabel(f"{angles[h]:.0f}°", fontsize=8)
for ax in axes.ravel():
    ax.set(xticks=[], yticks=[])
fig.suptitle("Predicted angle per image", fontsize=10)
plt.show()

# %%
# The model need not turn digits upright: it selects the angle at which its templates fit best.
#
# Limitations
# -----------
# Training is not convex, and the selected angles depend on the initial values and on the strength of the norm.
# ``groupnorm_path`` varies the strength from many states to none. The paper's experiment on four pairs is
# ``latentstruct reproduce groupnorm-digits``. The states are angles here, but may be any components of a class.
