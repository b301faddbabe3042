"""
Where is the animal? Boxes learned from names of photographs
============================================================

"This one shows a kangaroo" is quickly said; a box around the kangaroo is not. Can a model that is only told the name
of the animal in each photograph find out where it is? This tutorial also shows what to do when the answer is: hardly.
"""

# %%
# The data
# --------
# Photographs of kangaroos and raccoons with one animal each (`load_mammals`); every third one, half to train on. The
# true boxes are there, but only to judge by.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from latentstruct import BoxFeatures, Detection, LatentSSVM, ModLat
from latentstruct.data.boxes import overlaps
from latentstruct.datasets import load_mammals
from latentstruct.metrics import box_scores
from latentstruct.tasks import chosen_boxes

data = load_mammals()
chosen = range(0, len(data.names), 3)
images, labels = [data.images[k] for k in chosen], [data.labels[k] for k in chosen]
truth = [data.boxes[k] for k in chosen]
train, test = range(0, len(images), 2), range(1, len(images), 2)
print({label: labels.count(label) for label in sorted(set(labels))})

# %%
# Candidates
# ----------
# Each photograph has 40 candidate boxes, described by their gradients (`BoxFeatures`). By default place and size of a
# box are features too, because animals are rarely in a corner. The box is latent.

X = BoxFeatures(limit=40).transform(images)
X_train, y_train = [X[k] for k in train], [labels[k] for k in train]
X_test, y_test = [X[k] for k in test], [labels[k] for k in test]
best = [overlaps(X[k].boxes, truth[k]).max() for k in test]
print(f"the best candidate overlaps the animal by {np.mean(best):.2f} on average: no choice can do better")

# %%
# Models
# ------
# A latent SSVM is only punished for a wrong name, and may take any box that helps to tell the name. `ModLat` has a
# loss for boxes too: beside the predictor it learns a distribution over what the box may have been, and makes the two
# agree. It gets five rounds. C was not tuned.

models = {
    "ModLat": ModLat(Detection("overlap"), C=1.0, max_rounds=5),
    "latent SSVM": LatentSSVM(Detection(None), C=1.0),
}
truth_test = [truth[k] for k in test]
boxes = {}
for name, model in models.items():
    model.fit(X_train, y_train)
    boxes[name] = chosen_boxes(X_test, model.predict_latent(X_test))
    scores = box_scores(y_test, truth_test, model.predict(X_test), boxes[name])
    print(f"{name:12s} names right {scores['accuracy']:.2f}, boxes that overlap by half {scores['corloc']:.2f}")
commoner = max(y_test.count(label) for label in set(y_test)) / len(y_test)
print(f"always naming the commoner animal: {commoner:.2f}")

# %%
# The baselines are not learned at all: boxes in the middle that cover a half or three quarters of width and height.

sizes = np.array([images[k].shape[1::-1] for k in test])
for share in (0.5, 0.75):
    boxes[f"middle {share}"] = np.hstack([0.5 * (1 - share) * sizes, 0.5 * (1 + share) * sizes])
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
    for box, colour, style in ((truth_test[k][0], "white", "--"), (boxes["ModLat"][k], "#E69F00", "-")):
        x0, y0, x1, y1 = box
        ax.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=colour, linestyle=style, linewidth=2))
    ax.set_title(f"overlap {overlap['ModLat'][k]:.2f}", fontsize=9)
    ax.axis("off")
fig.suptitle("Best, good, middling and worst box; white is the truth", fontsize=10)
plt.show()

# %%
# How sure is it?
# ---------------
# The distribution that ModLat learned says how many boxes it still thinks possible:

distributions = models["ModLat"].latent_distribution(X_train, y_train)
effective = [np.exp(-np.sum(p[p > 0] * np.log(p[p > 0]))) for p in distributions]
print(f"effective number of boxes of a training photograph: {np.median(effective):.1f} of 40")

# %%
# What went wrong
# ---------------
# Compare with the middle of the picture, and with always naming the commoner animal, before you believe a detector
# trained without boxes. Photographers put animals in the middle, and gradients of some tens of photographs tell
# little; whatever separates the *names*, such as bushes or roads, serves the loss as well as the animal does. The
# remedies are the usual ones: more photographs, better features (give `DetectionInput` your own), or a few true
# boxes. The whole experiment is ``latentstruct reproduce modlat-detection``, and on the command line it is
# ``latentstruct train detect``.
