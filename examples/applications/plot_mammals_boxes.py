"""
Boxes learned from image labels
===============================

Labeling a photograph as "kangaroo" takes a second; drawing a box around the kangaroo takes longer. Can a model that
is trained on the labels of photographs locate the animals? This tutorial also shows how to recognize that the answer
is: hardly.
"""

# %%
# The data
# --------
# Photographs of kangaroos and raccoons with one animal each (`load_mammals`). We use every third one, half of them
# for training. The true boxes are used for evaluation only.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from latentstruct import BoxFeatures, Detection, LatentSSVM, ModLat
from latentstruct.data.boxes import overlaps
from latentstruct.metrics import box_scores
from latentstruct.tasks import chosen_boxes
from latentstruct_papers.datasets import load_mammals

data = load_mammals()
chosen = range(0, len(data.names), 3)
images, labels = [data.images[k] for k in chosen], [data.labels[k] for k in chosen]
truth = [data.boxes[k] for k in chosen]
train, test = range(0, len(images), 2), range(1, len(images), 2)
print({label: labels.count(label) for label in sorted(set(labels))})

# %%
# Candidates
# ----------
# Each photograph has 40 candidate boxes, described by their gradients (`BoxFeatures`). By default the position and
# size of a box are features too, because animals are rarely in a corner. The box is latent.

X = BoxFeatures(limit=40).transform(images)
X_train, y_train = [X[k] for k in train], [labels[k] for k in train]
X_test, y_test = [X[k] for k in test], [labels[k] for k in test]
best = [overlaps(X[k].boxes, truth[k]).max() for k in test]
print(f"the best candidate overlaps the animal by {np.mean(best):.2f} on average")

# %%
# Models
# ------
# The loss of a latent SSVM depends on the label only, so it may use any box that helps to predict the label. `ModLat`
# has a loss for boxes too: in addition to the predictor it learns a distribution over the true box, and makes the two
# agree. It gets five iterations. C was not tuned.

models = {
    "ModLat": ModLat(Detection("overlap"), C=1.0, max_iter=5),
    "latent SSVM": LatentSSVM(Detection(None), C=1.0),
}
truth_test = [truth[k] for k in test]
boxes = {}
for name, model in models.items():
    model.fit(X_train, y_train)
    boxes[name] = chosen_boxes(X_test, model.predict_latent(X_test))
    scores = box_scores(y_test, truth_test, model.predict(X_test), boxes[name])
    print(f"{name:12s} label accuracy {scores['accuracy']:.2f}, CorLoc {scores['corloc']:.2f}")
majority = max(y_test.count(label) for label in set(y_test)) / len(y_test)
print(f"most frequent label: {majority:.2f}")

# %%
# The baselines are fixed: central boxes that cover a half or three quarters of width and height.

sizes = np.array([images[k].shape[1::-1] for k in test])
for share in (0.5, 0.75):
    boxes[f"central {share}"] = np.hstack([0.5 * (1 - share) * sizes, 0.5 * (1 + share) * sizes])
overlap = {
    name: np.array([overlaps(box[None], true).max() for box, true in zip(found, truth_test, strict=True)])
    for name, found in boxes.items()
}
for name, values in overlap.items():
    print(f"{name:12s} mean overlap {values.mean():.2f} ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}")

order = np.argsort(-overlap["ModLat"])
shown = [order[0], order[len(order) // 4], order[len(order) // 2], order[-1]]
fig, axes = plt.subplots(2, 2, figsize=(5, 4.2), layout="constrained")
for ax, k in zip(axes.ravel(), shown, strict=True):
    ax.imshow(images[test[k]])
    for box, color, style in ((truth_test[k][0], "white", "--"), (boxes["ModLat"][k], "#E69F00", "-")):
        x0, y0, x1, y1 = box
        ax.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=color, linestyle=style, linewidth=2))
    ax.set_title(f"overlap {overlap['ModLat'][k]:.2f}", fontsize=9)
    ax.axis("off")
fig.suptitle("Best, good, median and worst box; true box in white", fontsize=10)
plt.show()

# %%
# Uncertainty of boxes
# --------------------
# The distribution learned by ModLat shows how many boxes are still likely:

distributions = models["ModLat"].latent_distribution(X_train, y_train)
effective = [np.exp(-np.sum(p[p > 0] * np.log(p[p > 0]))) for p in distributions]
print(f"effective number of boxes of a training photograph: {np.median(effective):.1f} of 40")

# %%
# Discussion
# ----------
# Compare a detector that was trained without boxes with the central box and with the most frequent label.
# Photographers place animals in the center, and gradients of a few dozen photographs carry little information.
# Whatever separates the *labels*, such as bushes or roads, reduces the loss as well as the animal does. More
# photographs, better features (pass your own `DetectionInput`) or a few true boxes help. The full experiment is
# ``latentstruct reproduce modlat-detection``, and the command is ``latentstruct train detect``.
