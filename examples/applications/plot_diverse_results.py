"""
Diverse search results
======================

A user who searches for "cotton" may be interested in prices, in weather or in textile mills. Five documents about the
same subtopic serve one of these interests; five different ones serve all. How should a search engine choose if it
does not know the subtopics?
"""

# %%
# The data
# --------
# Queries constructed from Reuters-21578 (`load_reuters`): a query is a word, its candidates are the 25 stories with
# the largest weights of the word, and the topics assigned by editors are the subtopics. They are known in training
# only. Training and test queries share neither words nor stories.

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csc_array

from latentstruct import DiverseSubset, StructuralSVM
from latentstruct.metrics import expected_random_loss, subtopic_loss
from latentstruct.viz.plots import plot_benefits
from latentstruct_papers.datasets import load_reuters

stories = load_reuters()
words = np.random.default_rng(0).permutation(len(stories.vocabulary))


def make_queries(matrix, topics, words, most):
    """Return words, candidates and subtopics of queries whose candidates have at least six topics."""
    with_topic = np.flatnonzero([len(story) > 0 for story in topics])
    lines = matrix[with_topic]
    columns = csc_array(lines)
    names, X, Y = [], [], []
    for word in words:
        holders = columns.indices[columns.indptr[word] : columns.indptr[word + 1]]
        weights = columns.data[columns.indptr[word] : columns.indptr[word + 1]]
        if len(X) == most or not 25 <= len(holders) <= 300:
            continue
        chosen = holders[np.argsort(-weights, kind="stable")[:25]]
        subtopics = [topics[k] for k in with_topic[chosen]]
        if len({topic for story in subtopics for topic in story}) >= 6:
            names.append(stories.vocabulary[word])
            X.append(lines[chosen])
            Y.append(subtopics)
    return names, X, Y


_, X_train, Y_train = make_queries(stories.train_X, stories.train_topics, words[::2], 80)
names, X_test, Y_test = make_queries(stories.test_X, stories.test_topics, words[1::2], 80)
print(len(X_train), "training queries,", len(X_test), "test queries, such as", names[:5])

# %%
# The model
# ---------
# `DiverseSubset` chooses five documents that together cover many important words. The importance of a word depends on
# how common it is among the candidates, not on the word itself, so it applies to new queries. The loss is the
# fraction of missed subtopics, weighted by their size. Nothing is latent. C = 10 was not tuned.

task = DiverseSubset(k=5)
model = StructuralSVM(task, C=10.0).fit(X_train, Y_train)
print(f"objective {model.objective_:.3f}, gap {100 * model.relative_gap_:.2g} %, certified: {model.certified_}")

# %%
# Baselines: random documents; the five that cover most words; and a fixed rule in the style of Essential Pages, by
# which a word is worth most if about a third of the candidates contain it. For comparison, the best five documents
# given the subtopics.

choices = {
    "learned": model.predict(X_test),
    "a fixed rule": task.choose_by(X_test, lambda share: -share * np.log2(share)),
    "most words": task.choose_by(X_test, np.ones_like),
}
losses = {name: model.task_.loss(Y_test, chosen) for name, chosen in choices.items()}
losses["random"] = np.array([expected_random_loss(y, 5) for y in Y_test])
losses["best possible"] = model.task_.loss(Y_test, Y_test)
for name, values in losses.items():
    print(f"{name:14s} {100 * values.mean():.1f} % of the subtopics missed")
gain = 100 * (losses["a fixed rule"] - losses["learned"])
error = gain.std(ddof=1) / np.sqrt(len(gain))

ax = plt.subplots(figsize=(5, 2.8), layout="constrained")[1]
bars = ax.barh(
    list(losses), [100 * values.mean() for values in losses.values()], color=["C0", "0.6", "0.6", "0.6", "0.8"]
)
ax.bar_label(bars, fmt="%.1f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="subtopics missed by five documents, %", xlim=(0, 60))
ax.set_title(f"The fixed rule misses {gain.mean():+.1f} ± {error:.1f} points more", fontsize=10)
plt.show()

# %%
# The standard error assumes independent queries. They share stories, so it is too small.
#
# Benefit of a word
# -----------------

benefits = np.cumsum(model.coef_)
ax = plt.subplots(figsize=(5, 2.8), layout="constrained")[1]
plot_benefits(model.task_.shares_, benefits[None], ["learned"], ax)
ax.set_title("Benefit of a word by frequency", fontsize=10)
plt.show()

# %%
# One query, with the topics of the five chosen stories:

query = int(np.argmax(losses["a fixed rule"] - losses["learned"]))
for name in ("learned", "a fixed rule"):
    chosen = choices[name][query]
    topics = " | ".join(", ".join(Y_test[query][k]) for k in chosen)
    print(f"{names[query]}, {name}: {topics} - missed {subtopic_loss(Y_test[query], chosen):.2f}")

# %%
# Limitations
# -----------
# This is the query with the largest gain, not a typical one. The queries are constructed from topics; the subtopics
# of real queries are judged by people. The full experiment is ``latentstruct reproduce ssvm-diversity``; the command
# is ``latentstruct train diverse``.
