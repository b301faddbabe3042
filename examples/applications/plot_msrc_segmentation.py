"""
Segment partially labeled photographs
=====================================

Outlining every object in a photograph takes minutes, so annotators outline some objects and leave the rest. Can
grass, sky and cars be found in new photographs if the training photographs are only partially labeled?
"""

# %%
# The data
# --------
# MSRC (`load_msrc`): photographs with at most one class per pixel. We use five classes and 9 photographs of each of
# four series; all other classes, and void pixels, count as unlabeled. Two thirds are for training.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from latentstruct import ConvergenceWarning, Graph, HiddenCRF, Subgradient, grid_graph
from latentstruct.data.images import draw_overlay
from latentstruct.features.images import PatchFeatures, patch_labels, single_patch_weights, spread_patches
from latentstruct_papers.datasets import load_msrc

NAMES = ["building", "grass", "sky", "tree", "car"]
COLORS = [(204, 121, 167), (240, 228, 66), (86, 180, 233), (0, 114, 178), (213, 94, 0)]
PATCH, STEP = 24, 12

data = load_msrc()
chosen = [k for series in (2, 3, 6, 7) for k in [k for k, n in enumerate(data.names) if n.startswith(f"{series}_")][:9]]
images = [data.images[k] for k in chosen]
numbers = np.full(len(data.classes), -1)
numbers[[data.classes.index(name) for name in NAMES]] = np.arange(len(NAMES))
pixels = [numbers[data.labels[k]] for k in chosen]
train, test = np.arange(len(chosen)) % 3 != 2, np.arange(len(chosen)) % 3 == 2
unlabeled = np.mean([np.mean(y < 0) for y in pixels])
print(f"{train.sum()} training photographs, {100 * unlabeled:.0f} % of the pixels without a label")

# %%
# Patches
# -------
# Each photograph becomes a grid of patches. A patch has texture and color features, and an edge to each neighbor. A
# patch without a label is latent: `HiddenCRF` sums over its labels.

describe = PatchFeatures(patch=PATCH, step=STEP, words=60)
grids = describe.fit([image for image, known in zip(images, train, strict=True) if known]).transform(images)
X = [grid_graph(grid.features, edge_types="axis", shape=grid.shape) for grid in grids]
Y = [patch_labels(y, len(NAMES), PATCH, STEP) for y in pixels]
X_train, Y_train = ([part[k] for k in np.flatnonzero(train)] for part in (X, Y))
X_test, Y_test = ([part[k] for k in np.flatnonzero(test)] for part in (X, Y))

# %%
# Exact sums on such grids are intractable, so inference is belief propagation, and the objective is an estimate.
# Training to convergence may then follow errors of inference. Here we start from a model of single patches and take a
# fixed number of plain steps. The model of single patches is also the baseline.

C = 1.0
task = Graph(max_iterations=15)
start = single_patch_weights(task, X_train, Y_train, C)
rate = 4.0 / (C * sum(len(y) for y in Y_train))
solver = Subgradient(step="plain", learning_rate=rate, max_iter=6)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # six iterations are intended
    model = HiddenCRF(task, C=C, solver=solver).fit(X_train, Y_train, coef_init=start)
print("certified:", model.certified_, "-", model.stop_reason_, "after", model.n_iter_, "iterations")

# %%
# Held-out photographs
# --------------------
# Only patches with a known class are counted.

alone = [np.asarray(x.features @ task.node_weights(start)).argmax(axis=1) for x in X_test]
found = model.predict(X_test)
right = {
    name: np.array([[np.sum((p == y) & (y >= 0)), np.sum(y >= 0)] for p, y in zip(answers, Y_test, strict=True)])
    for name, answers in (("single patches", alone), ("with neighbors", found))
}
share = {name: counts[:, 0].sum() / counts[:, 1].sum() for name, counts in right.items()}
for name, value in share.items():
    print(f"{name:16s} {100 * value:.1f} % of the labeled test patches correct")
before, after = (counts[:, 0] / counts[:, 1].mean() for counts in right.values())
error = np.std(after - before, ddof=1) / np.sqrt(len(before))
print(f"gain by neighbors: {100 * np.mean(after - before):+.1f} ± {100 * error:.1f} points over photographs")

shown = np.argsort([-np.ptp(y[y >= 0]) if (y >= 0).any() else 0 for y in Y_test], kind="stable")[:3]
fig, axes = plt.subplots(len(shown), 3, figsize=(5, 4.3), layout="constrained")
for line, k in zip(axes, shown, strict=True):
    picture = np.flatnonzero(test)[k]
    size = images[picture].shape[:2]
    layers = [pixels[picture], *(spread_patches(answer[k], size, PATCH, STEP) for answer in (alone, found))]
    for ax, layer in zip(line, layers, strict=True):
        ax.imshow(draw_overlay(images[picture], layer, NAMES, COLORS, 0.6))
        ax.set(xticks=[], yticks=[])
for ax, title in zip(
    axes[0], ("annotation", *(f"{name}\n{100 * value:.0f} %" for name, value in share.items())), strict=True
):
    ax.set_title(title, fontsize=9)
plt.show()

# %%
# Limitations
# -----------
# Photographs of one series are similar in subject and light, and are in both parts of our split. Nothing is
# certified, because inference is approximate. With two folds of 208 photographs, 500 texture words and C chosen on
# held-out photographs, ``latentstruct reproduce mssvm-msrc`` compares maxima, sums and margins. The command is
# ``latentstruct train segment``.
