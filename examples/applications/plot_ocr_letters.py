"""
Handwritten words: SVM, CRF and certificates
============================================

A handwritten letter alone is hard to read. Between its neighbors it is easier, because some letters follow each other
more often than others. Nothing is latent here. This tutorial shows what a certificate is, and how an SVM and a CRF
differ on the same chain.
"""

# %%
# The data
# --------
# Handwritten words as images of their letters, 16 × 8 pixels each (`load_ocr_letters`). The first letters, mostly
# capitals, are removed. As usual, we train on fold 0, and test on 1 000 words of the others.

import matplotlib.pyplot as plt
import numpy as np

from latentstruct import CRF, Chain, Multiclass, StructuralSVM
from latentstruct.viz.plots import plot_convergence, plot_transitions
from latentstruct_papers.datasets import load_ocr_letters

data = load_ocr_letters()
train = np.flatnonzero(data.folds == 0)
test = np.flatnonzero(data.folds != 0)[:1000]
X_train, Y_train = [data.X[k] for k in train], [data.Y[k] for k in train]
X_test, Y_test = [data.X[k] for k in test], [data.Y[k] for k in test]
print(len(train), "training words,", len(test), "test words")

# %%
# Three models
# ------------
# The first model classifies each letter separately. The other two also have weights for pairs of neighbors; one is
# trained with a margin and one by likelihood. C = 0.1 for the margin and C = 1 for the likelihood are the defaults.

alone = StructuralSVM(Multiclass(bias=1.0), C=0.1).fit(np.vstack(X_train), np.concatenate(Y_train))
margin = StructuralSVM(Chain(), C=0.1).fit(X_train, Y_train)
likelihood = CRF(Chain(), C=1.0).fit(X_train, Y_train)

for name, model in (("margin", margin), ("likelihood", likelihood)):
    print(
        f"{name}: objective {model.objective_:.2f}, lower bound {model.lower_bound_:.2f}, certified: {model.certified_}"
    )

# %%
# The certificate
# ---------------
# Both problems are convex. During training, each solver maintains a lower bound of the minimum, and stops when the
# objective is within 0.1 % of it. So larger differences between two programs are not due to incomplete convergence.

ax = plt.subplots(figsize=(5, 3), layout="constrained")[1]
plot_convergence(margin, ax)
ax.set_title(f"Objective and bound: {100 * margin.relative_gap_:.2g} % gap", fontsize=10)
plt.show()

# %%
# Held-out words
# --------------

letters = np.concatenate(Y_test)
scores = {"each letter alone": np.mean(alone.predict(np.vstack(X_test)) == letters)}
scores |= {"chain, margin": margin.score(X_test, Y_test), "chain, likelihood": likelihood.score(X_test, Y_test)}
for name, score in scores.items():
    print(f"{name:18s} {100 * score:.1f} % of the letters correct")
error = 100 * np.sqrt(0.8 * 0.2 / len(letters))
print(f"(standard error about {error:.1f} points, if letters were independent)")

# %%
# A word that the chain reads better than the classifier of single letters:


def spell(numbers):
    """Return letters for their numbers."""
    return "".join("abcdefghijklmnopqrstuvwxyz"[k] for k in numbers)


gains = [
    np.sum(margin.predict([x])[0] == y) - np.sum(alone.predict(x) == y)
    for x, y in zip(X_test[:200], Y_test, strict=False)
]
# sphinx_gallery_thumbnail_number = 2
best = int(np.argmax(gains))
picture = np.hstack([pixels.reshape(16, 8) for pixels in X_test[best]])
ax = plt.subplots(figsize=(5, 1.9), layout="constrained")[1]
ax.imshow(picture, cmap="gray_r")
ax.set(xticks=[], yticks=[])
single, chained = spell(alone.predict(X_test[best])), spell(margin.predict([X_test[best]])[0])
ax.set_title(f"{spell(Y_test[best])}: alone “{single}”, in the chain “{chained}”", fontsize=9)
plt.show()

# %%
# The letters with the strongest transitions:

ax = plt.subplots(figsize=(5, 4.2), layout="constrained")[1]
plot_transitions(margin, ax, most=14)
shown = [label.get_text() for label in ax.get_yticklabels()]
ax.set_yticklabels([spell([int(text)]) for text in shown])
ax.set_xticklabels([spell([int(label.get_text())]) for label in ax.get_xticklabels()])
ax.set_title("Weights of letter transitions", fontsize=10)
plt.show()

# %%
# Probabilities
# -------------
# Only the likelihood provides probabilities. The confidence in each letter of this word:

print(
    [
        f"{letter} {p:.2f}"
        for letter, p in zip(
            spell(likelihood.predict([X_test[best]])[0]), likelihood.confidence([X_test[best]])[0], strict=True
        )
    ]
)

# %%
# The likelihood provides probabilities, the margin supports any loss. Choose C on held-out words, separately for
# each; both work in scikit-learn's `GridSearchCV`.
