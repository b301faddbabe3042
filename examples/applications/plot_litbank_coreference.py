"""
Coreference in novels
=====================

"Emma … she … Miss Woodhouse … her father": which of these refer to the same person? A cluster of mentions can be
connected by a few reliable links, such as name to name and pronoun to the nearest name. *Which* links these are is
not annotated. They are latent.
"""

# %%
# The data
# --------
# LitBank: English fiction with annotated mentions (`load_litbank`). We use 8 documents for training, 4 to choose C,
# and 8 for testing. The mentions are given; detecting them is another task. `MentionPairFeatures` computes features
# of pairs: same words, types of pronouns, distance, gender, number.

import matplotlib.pyplot as plt
import numpy as np

from latentstruct import Coreference, CorrelationClustering, LatentSSVM, StructuralSVM
from latentstruct.features.mentions import MentionPairFeatures
from latentstruct.metrics import cluster_scores
from latentstruct.viz.plots import plot_forest, plot_weights
from latentstruct_papers.datasets import load_litbank

documents = load_litbank()[:20]
features = MentionPairFeatures()
X = features.transform(documents)
Y = [document.clusters for document in documents]
print(f"{len(documents)} documents, {sum(map(len, Y))} mentions, {sum(x.shape[0] for x in X)} pairs")

# %%
# Two models
# ----------
# `Coreference` scores a clustering by its best spanning forest: each mention needs one good link, and training finds
# both the weights and the forests (`LatentSSVM`, initialized with links in the order of the text).
# `CorrelationClustering` scores all pairs of a cluster, so "Emma" and a "her" ten pages later must look similar too;
# nothing is latent there. C is chosen on documents 9 to 12.


def choose_and_fit(model, strengths):
    """Return the model trained on twelve documents at the C that is best on the last four when they are held out."""
    losses = {}
    for C in strengths:
        model.set_params(C=C).fit(X[:8], Y[:8])
        losses[C] = 1 - cluster_scores(Y[8:12], model.predict(X[8:12])).conll_f1
    return model.set_params(C=min(losses, key=losses.get)).fit(X[:12], Y[:12])


forest = choose_and_fit(LatentSSVM(Coreference(), tol=0.01), (0.001, 0.01, 0.1))
pairs = choose_and_fit(StructuralSVM(CorrelationClustering(), tol=0.02), (10.0, 100.0))
print("C:", forest.C, pairs.C, "- iterations of CCCP:", forest.n_iter_, "-", forest.stop_reason_)
print(f"the last convex problem of the forests was solved to within {100 * forest.relative_gap_:.2g} %")

# %%
# Held-out novels
# ---------------
# Two baselines need no training.

test_X, test_Y = X[12:], Y[12:]
answers = {
    "forests": forest.predict(test_X),
    "all pairs": pairs.predict(test_X),
    "every mention alone": [list(range(len(y))) for y in test_Y],
    "all together": [[0] * len(y) for y in test_Y],
}
scores = {name: cluster_scores(test_Y, found) for name, found in answers.items()}
for name, score in scores.items():
    shares = (score.muc.f1, score.b_cubed.f1, score.conll_f1)
    print(f"{name:20s} MUC, B³ and CoNLL F1:", " ".join(f"{100 * share:5.1f}" for share in shares))

# %%
# The scores emphasize different errors: MUC counts links and tolerates clusters that are too large, B³ counts
# mentions. Eight documents are few, so we compare per document:

by_document = np.array(
    [
        [cluster_scores([y], [answers[name][k]]).conll_f1 for name in ("forests", "all pairs")]
        for k, y in enumerate(test_Y)
    ]
)
gains = 100 * (by_document[:, 0] - by_document[:, 1])
error = gains.std(ddof=1) / np.sqrt(len(gains))
print(f"CoNLL F1, forests minus all pairs: {gains.mean():+.1f} ± {error:.1f} points")

# %%
# The links behind a clustering
# -----------------------------
# The first mentions of a test document, with the forest that connects the predicted clusters:

document, found, links = documents[12], answers["forests"][0], forest.predict_latent(test_X[:1])[0]
first = 16
inside = np.array([link for link in links if max(link) < first])
names = [" ".join(document.words(mention))[:24] for mention in document.mentions[:first]]
ax = plt.subplots(figsize=(5, 4.6), layout="constrained")[1]
plot_forest(inside, list(found[:first]), names, test_Y[0][:first], ax)
ax.set_title("Links that hold the clusters together", fontsize=10)
plt.show()

# %%
# Learned weights
# ---------------

order = np.argsort(-np.abs(forest.coef_))[:12]
ax = plt.subplots(figsize=(5, 3.6), layout="constrained")[1]
plot_weights([features.feature_names[k] for k in order], forest.coef_[order], ax)
ax.figure.suptitle("The strongest reasons for and against a link", fontsize=10)
plt.show()

# %%
# Limitations
# -----------
# Clustering by all pairs is searched, not solved exactly, in documents of more than ten mentions, so ``certified_``
# is False. The forests are found exactly, but their training is not convex. Surface features do not represent that a
# duke is a man or that a ship may be called she. The full comparison is ``latentstruct reproduce lssvm-coref``, and
# the command is ``latentstruct train coreference``.
