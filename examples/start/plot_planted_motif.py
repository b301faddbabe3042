"""
Find a motif in random DNA
==========================

Half of 200 random DNA sequences contain a mutated copy of one word. The labels say which half, but neither the word
nor the positions of its copies are known. Can both be found?

The position of a copy is a *latent* variable: it is part of the output, it is not observed in training, and it is
found together with the weights.
"""

# %%
# The data
# --------
# The word has 13 letters; each letter of a copy is replaced by another one with probability 0.15. We train on 200
# sequences and hold out 200 more.

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
# `Motif` scores each window of 13 letters by the sum of a weight per letter and position, relative to a background of
# frequent short words. A sequence is positive if its best window scores above 0. `LatentSSVM` takes the best window
# of each positive sequence as its site, solves the resulting convex problem, and repeats. As the result depends on
# the initial sites, we use three starts and keep the lowest objective. ``C`` was not tuned.

model = LatentSSVM(Motif(width=13), C=0.02, restarts=3).fit(sequences[train], labels[train])

print("iterations:", model.n_iter_, "-", model.stop_reason_)
print("objectives of the three starts:", np.round(model.restart_objectives_, 3))
print(f"relative gap of the last convex problem: {100 * model.relative_gap_:.2g} %")

# %%
# The last line is the certificate. It applies to the last convex problem only: no weights are better for *these*
# sites by more than that. Other sites may have a lower objective. If the three starts differ much, use more of them.
#
# The motif
# ---------
# The sites of the held-out sequences that are predicted as positive, as a sequence logo:

unseen, truth = sequences[test], labels[test]
predicted = model.predict(unseen)
sites = [site for site, called in zip(find_sites(model, list(unseen)), predicted, strict=True) if called == 1]
matrix = site_matrix([site.site for site in sites])

ax = plt.subplots(figsize=(5, 2.6), layout="constrained")[1]
plot_logo(matrix, ax=ax)
ax.set_title(f"planted {data.consensus}\nfound {consensus(matrix)}", family="monospace")
plt.show()

# %%
# Held-out accuracy
# -----------------
# The baseline has no latent variables: a linear SVM on the counts of all words of four letters. It separates the
# classes to some degree, but does not locate anything.

words = make_pipeline(CountVectorizer(analyzer="char", ngram_range=(4, 4)), LinearSVC(C=0.01))
words.fit(sequences[train], labels[train])
print(f"held-out accuracy:     {100 * model.score(unseen, truth):.1f} %")
print(f"counts of four letters: {100 * words.score(unseen, truth):.1f} %")

positive = np.flatnonzero(truth == 1)
planted = np.array([data.sites[i][0] for i in np.flatnonzero(test)[positive]])
found = np.array([site.start for site in find_sites(model, list(unseen[positive]))])
shift = common_shift(found, planted, widest=3)
print(f"sites at the planted position: {100 * np.mean(found + shift == planted):.1f} %, windows shifted by {shift}")

# %%
# A window shifted by one letter describes the same word nearly as well, so a model may converge to either. The last
# line allows for one shift that is common to all sites.
#
# Convergence
# -----------
# The objective of each start per iteration. It never increases. The thick line is the start that was kept.

ax = plt.subplots(figsize=(5, 2.8), layout="constrained")[1]
plot_convergence(model, ax)
ax.set_title("Objective of three starts", fontsize=10)
plt.show()

# %%
# Next steps
# ----------
# :ref:`sphx_glr_auto_examples_applications_plot_yeast_motif.py` finds motifs in origins of replication of yeast,
# where the true sites are known from experiments. The command is ``latentstruct train motif``.
