"""
Find a word hidden in random letters
====================================

Two hundred random DNA sequences, half of which hold a mutated copy of one word. We are told which half, but not the
word and not where its copies lie. Can we find both?

A copy's place is a *latent* variable: it belongs to the answer, it is never seen in training, and it must be found
together with the weights. This is the smallest problem that shows what the library is for.
"""

# %%
# The data
# --------
# The word has 13 letters; each letter of a copy is replaced by another one with probability 0.15. We train on 200
# sequences and keep 200 more to see whether what was learned holds.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from latentstruct import LatentSSVM, Motif
from latentstruct.datasets import make_planted_motif
from latentstruct.tasks.motif.sites import common_shift, consensus, find_sites, site_matrix
from latentstruct.viz.plots import plot_convergence, plot_logo

data = make_planted_motif(n_positive=200, n_negative=200, length=200, width=13, mutation=0.15)
sequences, labels = np.array(data.X), data.Y
train, test = np.arange(400) % 2 == 0, np.arange(400) % 2 == 1
print(sequences[0][:60], "…", labels[0])

# %%
# The model
# ---------
# `Motif` scores each window of 13 letters by the sum of a weight for each letter at each position, against a
# background of frequent short words. A sequence is called positive if its best window scores above 0. `LatentSSVM`
# trains it: it takes the best window of each positive sequence for its site, solves the convex problem that is left,
# and repeats. As the result depends on where it begins, we begin three times and keep the best objective. ``C`` is
# small because each sequence counts; it was not tuned.

model = LatentSSVM(Motif(width=13), C=0.02, restarts=3).fit(sequences[train], labels[train])

print("rounds:", model.n_rounds_, "because", model.stop_reason_)
print("objectives of the three starts:", np.round(model.restart_objectives_, 3))
print(f"the last convex problem was solved to within {100 * model.relative_gap_:.2g} %")

# %%
# The last line is the certificate. It speaks of the last convex problem only: no weights are better for *these* sites
# by more than that. Whether other sites would be better still, nobody can say without trying them; the three starts
# are the answer that can be given. If they differ much, begin more often.
#
# What was found
# --------------
# The sites of the held-out sequences that the model calls positive, and the letters in them:

unseen, truth = sequences[test], labels[test]
predicted = model.predict(unseen)
sites = [site for site, called in zip(find_sites(model, list(unseen)), predicted, strict=True) if called == 1]
matrix = site_matrix([site.site for site in sites])

ax = plt.subplots(figsize=(5, 2.6), layout="constrained")[1]
plot_logo(matrix, ax=ax)
ax.set_title(f"planted {data.consensus}\nfound {consensus(matrix)}", family="monospace")
plt.show()

# %%
# How good is that?
# -----------------
# Beside it a classifier that needs no latent variable: a linear SVM on the counts of all words of four letters. It
# can tell the classes to some degree, but it cannot say where anything lies.

words = make_pipeline(CountVectorizer(analyzer="char", ngram_range=(4, 4)), LinearSVC(C=0.01))
words.fit(sequences[train], labels[train])
print(f"held-out sequences right: {100 * model.score(unseen, truth):.1f} %")
print(f"counts of four letters:   {100 * words.score(unseen, truth):.1f} %")

positive = np.flatnonzero(truth == 1)
planted = np.array([data.sites[i][0] for i in np.flatnonzero(test)[positive]])
found = np.array([site.start for site in find_sites(model, list(unseen[positive]))])
shift = common_shift(found, planted, widest=3)
print(f"sites at the planted place: {100 * np.mean(found + shift == planted):.1f} %, windows shifted by {shift}")

# %%
# A window one letter further along describes the same word nearly as well, so a model may settle on either; the last
# line allows for one shift that is common to all sites.
#
# What the starts did
# -------------------
# The objective of each start, round by round: it never rises. The thick line is the start that was kept.

ax = plt.subplots(figsize=(5, 2.8), layout="constrained")[1]
plot_convergence(model, ax)
ax.set_title("Three starts, each descends", fontsize=10)
plt.show()

# %%
# Where to go on
# --------------
# :ref:`sphx_glr_auto_examples_applications_plot_yeast_motif.py` does the same with origins of replication of yeast,
# where the truth is known from experiments. On the command line it is ``latentstruct train motif``.
