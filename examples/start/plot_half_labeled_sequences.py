"""
Sequences with missing labels
=============================

Labeling a whole sequence is expensive; labeling some of its positions is cheap. How useful are sequences in which
most labels are missing? One can cut them into labeled pieces and discard the rest, or treat the missing labels as
latent.
"""

# %%
# The data
# --------
# Synthetic data: three labels that tend to stay the same (with probability 0.9), observed through noise that makes
# single positions hard to classify. −1 is a missing label.

import matplotlib.pyplot as plt
import numpy as np

from latentstruct import Chain, HiddenCRF, LatentSSVM, MarginalSSVM, StructuralSVM

rng = np.random.default_rng(0)


def draw_sequence(length=30, stay=0.9):
    """Return features (length, 3) and labels of one sequence."""
    y = np.zeros(length, dtype=int)
    for t in range(length):
        y[t] = y[t - 1] if t and rng.random() < stay else rng.integers(3)
    return np.eye(3)[y] + 1.2 * rng.normal(size=(length, 3)), y


X, Y = zip(*(draw_sequence() for _ in range(240)), strict=True)
X_train, Y_train, X_test, Y_test = X[:40], Y[:40], X[40:], Y[40:]
hidden = [rng.random(len(y)) for y in Y_train]


def with_gaps(share):
    """Return the training labels with a fraction of them missing."""
    return [np.where(u < share, -1, y) for u, y in zip(hidden, Y_train, strict=True)]


def labeled_pieces(share):
    """Return each run of labeled positions as a separate sequence."""
    pieces = []
    for x, y in zip(X_train, with_gaps(share), strict=True):
        known = np.flatnonzero(y >= 0)
        for run in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
            if len(run):
                pieces.append((x[run], y[run]))
    return zip(*pieces, strict=True)


# %%
# Four models
# -----------
# All models use the same `Chain`: weights from features to labels, and from label to label. They differ in how they
# treat a missing label. `LatentSSVM` fills in the best one, `MarginalSSVM` and `HiddenCRF` sum over all of them, and
# the labeled pieces have none. C = 0.1 for all, not tuned; a larger C would suit the likelihood better.

shares = [0.0, 0.5, 0.7, 0.8, 0.9]
accuracy = {"labeled pieces": [], "LatentSSVM": [], "MarginalSSVM": [], "HiddenCRF": []}
for share in shares:
    pieces = StructuralSVM(Chain(labels=[0, 1, 2]), C=0.1).fit(*map(list, labeled_pieces(share)))
    accuracy["labeled pieces"].append(pieces.score(X_test, Y_test))
    for estimator in (LatentSSVM, MarginalSSVM, HiddenCRF):
        model = estimator(Chain(labels=[0, 1, 2]), C=0.1).fit(X_train, with_gaps(share))
        accuracy[estimator.__name__].append(model.score(X_test, Y_test))

ax = plt.subplots(figsize=(5, 3.2), layout="constrained")[1]
for (name, line), marker in zip(accuracy.items(), "sov^", strict=True):
    ax.plot(shares, line, marker=marker, linestyle="--" if name == "labeled pieces" else "-", label=name)
alone = np.mean([np.mean(x.argmax(axis=1) == y) for x, y in zip(X_test, Y_test, strict=True)])
ax.axhline(alone, color="grey", linestyle=":", label="each position alone")
ax.set(xlabel="fraction of missing labels", ylabel="held-out accuracy", title="Training with missing labels")
ax.legend(fontsize=8)
plt.show()

# %%
# With no label missing, the first three are the same model, `StructuralSVM`, and agree. At the right end, pieces of
# one or two positions carry no information on how long labels stay, but sequences with gaps still do. The gain
# depends on how informative neighbors are; with independent labels there would be none. If a line rises at first, the
# reason is that fewer labels weigh less against ½‖w‖², as with a smaller C.

for name, line in accuracy.items():
    print(f"{name:16s}", " ".join(f"{value:.3f}" for value in line))

# %%
# Confidence
# ----------
# Models that sum over labels also provide probabilities. There is no certificate: with missing labels the problem is
# not convex, so `certified_` is False and training ends at a local optimum.

model = HiddenCRF(Chain(labels=[0, 1, 2]), C=0.1).fit(X_train, with_gaps(0.8))
print("certified:", model.certified_, "- objective:", round(model.objective_, 3))
confidence = np.concatenate(model.confidence(X_test))
right = np.concatenate([p == y for p, y in zip(model.predict(X_test), Y_test, strict=True)])
for low, high in ((0.3, 0.6), (0.6, 0.8), (0.8, 1.0)):
    inside = (confidence > low) & (confidence <= high)
    print(f"confidence {low} to {high}: {inside.sum()} positions, {100 * right[inside].mean():.0f} % correct")

# %%
# Next steps
# ----------
# :ref:`sphx_glr_auto_examples_applications_plot_half_tagged_text.py` uses real sentences. The command is
# ``latentstruct train chain FILE --unknown '?'``.
