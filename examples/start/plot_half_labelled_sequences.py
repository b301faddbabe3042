"""
Learn from sequences with gaps in their labels
==============================================

Labelling a whole sequence is dear; labelling some of its places is cheap. What are sequences worth in which most
labels are missing? One can cut them into labelled pieces and throw the rest away, or take the missing labels as
latent.
"""

# %%
# The data
# --------
# Made up, so that we know how much the neighbours tell: three labels that tend to stay (with probability 0.9), seen
# through noise that makes a single place hard to tell. −1 is a label that is missing.

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
    """Return the training labels with a share of them missing."""
    return [np.where(u < share, -1, y) for u, y in zip(hidden, Y_train, strict=True)]


def labelled_pieces(share):
    """Return each run of labelled places as a sequence of its own."""
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
# All have the same `Chain`: weights from features to labels, and from label to label. They differ in what they do
# with a missing label. `LatentSSVM` fills in the best one, `MarginalSSVM` and `HiddenCRF` sum over all of them; the
# pieces know no missing ones. C = 0.1 is not tuned, and the same for all; a likelihood would like a larger one.

shares = [0.0, 0.5, 0.7, 0.8, 0.9]
accuracy = {"labelled pieces": [], "LatentSSVM": [], "MarginalSSVM": [], "HiddenCRF": []}
for share in shares:
    pieces = StructuralSVM(Chain(labels=[0, 1, 2]), C=0.1).fit(*map(list, labelled_pieces(share)))
    accuracy["labelled pieces"].append(pieces.score(X_test, Y_test))
    for estimator in (LatentSSVM, MarginalSSVM, HiddenCRF):
        model = estimator(Chain(labels=[0, 1, 2]), C=0.1).fit(X_train, with_gaps(share))
        accuracy[estimator.__name__].append(model.score(X_test, Y_test))

ax = plt.subplots(figsize=(5, 3.2), layout="constrained")[1]
for (name, line), marker in zip(accuracy.items(), "sov^", strict=True):
    ax.plot(shares, line, marker=marker, linestyle="--" if name == "labelled pieces" else "-", label=name)
alone = np.mean([np.mean(x.argmax(axis=1) == y) for x, y in zip(X_test, Y_test, strict=True)])
ax.axhline(alone, color="grey", linestyle=":", label="each place alone")
ax.set(xlabel="share of missing labels", ylabel="held-out places right", title="What the gaps still tell")
ax.legend(fontsize=8)
plt.show()

# %%
# With nothing missing, the first three are one model, `StructuralSVM`, and agree. Look at the right end: pieces of
# one or two places say nothing of how long labels stay, sequences with gaps still do. How much that is worth depends
# on how much neighbours tell; with independent labels it would be nothing. If a line rises at first, that is no
# wonder: fewer labels weigh less against ½‖w‖², as if C were smaller.

for name, line in accuracy.items():
    print(f"{name:16s}", " ".join(f"{value:.3f}" for value in line))

# %%
# How sure is it?
# ---------------
# A model with sums also says how sure it is of each place. The certificate is another matter: with missing labels the
# problem is not convex, so `certified_` is False and training ends at a local optimum.

model = HiddenCRF(Chain(labels=[0, 1, 2]), C=0.1).fit(X_train, with_gaps(0.8))
print("certified:", model.certified_, "- objective:", round(model.objective_, 3))
confidence = np.concatenate(model.confidence(X_test))
right = np.concatenate([p == y for p, y in zip(model.predict(X_test), Y_test, strict=True)])
for low, high in ((0.3, 0.6), (0.6, 0.8), (0.8, 1.0)):
    inside = (confidence > low) & (confidence <= high)
    print(f"confidence {low} to {high}: {inside.sum()} places, {100 * right[inside].mean():.0f} % right")

# %%
# Where to go on
# --------------
# :ref:`sphx_glr_auto_examples_applications_plot_half_tagged_text.py` does this with real sentences. On the command
# line it is ``latentstruct train chain FILE --unknown '?'``.
