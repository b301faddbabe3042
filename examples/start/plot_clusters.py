"""
Learn to cluster from examples
==============================

Clustering has no right answer by itself: the same photographs may be sorted by person or by place. If some groups
have been clustered by hand, a model can learn from them which features count, and cluster new items, even of types
that were not in the training data.
"""

# %%
# The data
# --------
# Cards with two handwritten digits each (from scikit-learn), in groups of twelve. The cards of a group are clustered
# by their *left* digit; the right digit is irrelevant, but has as many pixels. We train on 60 groups with the left
# digits 0 to 6 and test on 40 groups that also have the left digits 7 to 9, which do not occur in training.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import AgglomerativeClustering
from sklearn.datasets import load_digits

from latentstruct import Coreference, CorrelationClustering, LatentSSVM, StructuralSVM, pair_features
from latentstruct.metrics import cluster_scores

images, digits = load_digits(return_X_y=True)
images = images / 16
rng = np.random.default_rng(0)


def draw_groups(n_groups, allowed, part, size=12):
    """Return groups of cards (size, 128) and their clusters, by left digit."""
    left = part[np.isin(digits[part], allowed)]
    groups, clusters = [], []
    for _ in range(n_groups):
        chosen = rng.choice(left, size, replace=False)
        groups.append(np.hstack([images[chosen], images[rng.choice(part, size)]]))
        clusters.append(digits[chosen])
    return groups, clusters


train_items, train_clusters = draw_groups(60, range(7), np.arange(1000))
test_items, test_clusters = draw_groups(40, range(10), np.arange(1000, 1797))

# %%
# Pair features
# -------------
# Both models use features of pairs of items. `pair_features` computes the difference per pixel, the cosine, the
# distance, and a constant, which acts as a threshold.

relations = ("difference", "cosine", "distance")
train_pairs = [pair_features(items, relations) for items in train_items]
test_pairs = [pair_features(items, relations) for items in test_items]

# %%
# Two models
# ----------
# `CorrelationClustering` counts every pair within a cluster. `Coreference` needs only enough strong links to connect
# a cluster, a spanning forest. *Which* links these are is latent: items far from each other may belong together
# through others. C is chosen on a quarter of the training groups.

models = {
    "all pairs": (StructuralSVM(CorrelationClustering(), tol=0.01), (10.0, 100.0, 1000.0)),
    "spanning forest": (LatentSSVM(Coreference(), tol=0.01), (0.01, 0.1, 1.0)),
}
found = {}
for name, (model, strengths) in models.items():
    held_out = {}
    for C in strengths:
        model.set_params(C=C).fit(train_pairs[:45], train_clusters[:45])
        held_out[C] = cluster_scores(train_clusters[45:], model.predict(train_pairs[45:])).b_cubed.f1
    C = max(held_out, key=held_out.get)
    model.set_params(C=C).fit(train_pairs, train_clusters)
    found[name] = model.predict(test_pairs)
    print(f"{name}: C = {C:g}, certified: {model.certified_}, {model.stop_reason_}")

# %%
# The baseline is average-link clustering with the Euclidean distance. Its threshold is chosen on all training groups.


def cut(items, threshold):
    """Return average-link clusters."""
    tree = AgglomerativeClustering(n_clusters=None, distance_threshold=threshold, linkage="average")
    return tree.fit_predict(items)


thresholds = np.linspace(2.0, 5.0, 31)
best = max(
    thresholds, key=lambda t: cluster_scores(train_clusters, [cut(items, t) for items in train_items]).b_cubed.f1
)
found[f"average link at {best:.1f}"] = [cut(items, best) for items in test_items]

scores = {name: cluster_scores(test_clusters, predicted) for name, predicted in found.items()}
for name, score in scores.items():
    print(f"{name:22s} B³ F1 {100 * score.b_cubed.f1:.1f}, wrong pairs {100 * score.pair_loss:.1f} %")

# %%
# One group
# ---------
# Cards with the same letter are in one cluster; which letter it is does not matter.

items, truth = test_items[0], np.asarray(test_clusters[0])
order = np.argsort(truth, kind="stable")
strip = np.hstack([np.pad(item.reshape(2, 8, 8).transpose(1, 0, 2).reshape(8, 16), 1) for item in items[order]])
fig, (ax, table) = plt.subplots(2, 1, figsize=(5.4, 2.6), layout="constrained", height_ratios=(1, 3))
ax.imshow(strip, cmap="gray_r")
ax.set(xticks=[], yticks=[])
ax.set_title("Twelve cards, sorted by their left digit", fontsize=10)
rows = {"sorted by hand": truth} | {name: np.asarray(predicted[0]) for name, predicted in found.items()}
for line, (name, labels) in enumerate(rows.items()):
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels[order]))}
    table.text(0, -line, name, fontsize=9, va="center")
    for place, label in enumerate(labels[order]):
        letter, color = "abcdefghijkl"[numbers[label]], f"C{numbers[label] % 10}"
        table.text(5.2 + place * 0.75, -line, letter, color=color, fontweight="bold", va="center")
table.set(xlim=(0, 14), ylim=(0.5 - len(rows), 0.5))
table.axis("off")
plt.show()

# %%
# Learned weights
# ---------------
# The weights of the differences, arranged as a card. Where a pixel is orange, cards of one cluster must not differ.
# The title compares the two halves. The model has learned that the right half is irrelevant.

weights = -models["all pairs"][0].coef_[:128].reshape(2, 8, 8).transpose(1, 0, 2).reshape(8, 16)
largest = np.abs(weights).max()
ax = plt.subplots(figsize=(5, 2.6), layout="constrained")[1]
ax.imshow(weights, cmap="PuOr_r", vmin=-largest, vmax=largest)
ax.axvline(7.5, color="black", linewidth=1)
ax.set(xticks=[], yticks=[])
left, right = np.abs(weights[:, :8]).mean(), np.abs(weights[:, 8:]).mean()
ax.set_title(f"Mean size of a weight: {left:.2f} left, {right:.2f} right", fontsize=10)
plt.show()

# %%
# Limitations
# -----------
# The best clustering by all pairs is hard to find: with more than ten items it is searched and not proven optimal,
# and ``certified_`` is False. A learned similarity generalizes to new types of items only as far as they resemble the
# training data. If the plain distance is already right, there is little to learn: always compare with average
# linkage.
#
# Next steps
# ----------
# :ref:`sphx_glr_auto_examples_applications_plot_litbank_coreference.py` clusters the mentions of people in novels.
# The command is ``latentstruct train cluster``.
