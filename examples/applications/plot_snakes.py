"""
Snakes: inference on grids
==========================

A snake of ten cells lies on a grid; its cells are numbered from head to tail. The color of each cell indicates the
direction of the next one. No cell contains its own number, so the model has to follow the snake. This data set tests
graph models and edge features.
"""

# %%
# The data
# --------
# Grids with one snake each (`load_snakes`), 150 for training and 40 for testing. The features of a cell are the
# colors of the 3 × 3 cells around it.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from latentstruct import ConvergenceWarning, Graph, Multiclass, StructuralSVM, grid_graph
from latentstruct_papers.datasets import load_snakes

data = load_snakes()
X_train, Y_train, X_test, Y_test = data.X_train[:150], data.Y_train[:150], data.X_test[:40], data.Y_test[:40]
COLORS = np.unique(np.concatenate([grid.reshape(-1, 3) for grid in X_train]), axis=0)


def cell_features(grid):
    """Return the colors of the 3 × 3 cells around each cell, shape (height, width, 45)."""
    height, width = grid.shape[:2]
    known = (grid[:, :, None] == COLORS).all(axis=3).astype(float)
    padded = np.pad(known, ((1, 1), (1, 1), (0, 0)))
    return np.concatenate([padded[i : i + height, j : j + width] for i in range(3) for j in range(3)], axis=2)


# %%
# Three models
# ------------
# The first model labels each cell separately. The second has edges with a direction (right or down). In the third
# each edge also has the features of both ends, so that it can express "this cell points at that one, so their numbers
# differ by one". Nothing is latent. Training is limited to six iterations to keep the tutorial short; C was not
# tuned.


def plain(grid):
    """Return a grid whose edges have a direction."""
    return grid_graph(cell_features(grid), edge_types="direction")


def with_ends(grid):
    """Return the same, each edge with the features of both its ends."""
    graph = plain(grid)
    ends = [graph.features[graph.edges[:, side]] for side in (0, 1)]
    return grid_graph(cell_features(grid), edge_types="direction", edge_features=np.hstack(ends))


cells = StructuralSVM(Multiclass(), C=0.1).fit(
    np.vstack([cell_features(x).reshape(-1, 45) for x in X_train]), np.concatenate([y.ravel() for y in Y_train])
)
found = {"cells alone": [cells.predict(cell_features(x).reshape(-1, 45)) for x in X_test]}
for name, make in (("edges by direction", plain), ("edges with features", with_ends)):
    model = StructuralSVM(Graph(max_iterations=15), C=0.1, solver="block_ascent", max_iter=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # six iterations are intended
        model.fit([make(x) for x in X_train], [y.ravel() for y in Y_train])
    found[name] = model.predict([make(x) for x in X_test])
    print(f"{name}: {model.n_iter_} iterations, {model.stop_reason_}, certified: {model.certified_}")

# %%
# Test grids
# ----------
# Most cells are background, so a model that never predicts a snake has a high accuracy. The cells of snakes are what
# counts. Wrong numbers are circled in the picture.

truth = np.concatenate([y.ravel() for y in Y_test])
print(f"background everywhere: {100 * np.mean(truth == 0):.1f} % of all cells")
share = {}
for name, answers in found.items():
    right = np.concatenate(answers) == truth
    share[name] = right[truth > 0].mean()
    print(f"{name:20s} {100 * right.mean():5.1f} % of all cells correct, {100 * share[name]:5.1f} % of the snakes")

fig, axes = plt.subplots(2, 2, figsize=(5, 4.6), layout="constrained")
panels = [("true labels", Y_test[0].ravel()), *((name, answers[0]) for name, answers in found.items())]
for ax, (name, labels) in zip(axes.ravel(), panels, strict=True):
    ax.imshow(X_test[0])
    for place, label in enumerate(np.asarray(labels)):
        row, column = divmod(place, X_test[0].shape[1])
        if label:
            wrong = label != Y_test[0].ravel()[place]
            ax.text(
                column,
                row,
                label,
                ha="center",
                va="center",
                fontsize=8,
                fontweight="bold",
                color="black",
                bbox={"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": "red" if wrong else "white"},
            )
    ax.set(xticks=[], yticks=[])
    ax.set_title(name if name not in share else f"{name}: {100 * share[name]:.0f} %", fontsize=9)
plt.show()

# %%
# Limitations
# -----------
# The grids have loops. Where they are too wide for exact elimination, inference is belief propagation, objectives are
# estimates, and ``certified_`` is False. Trained longer on all 200 grids, the third model is correct nearly
# everywhere: ``latentstruct reproduce snakes``. If some nodes of your graphs have no label, use −1 for them and
# `MarginalSSVM` or `HiddenCRF`. The command is ``latentstruct train graph``.
