"""
Find the motif of replication origins in yeast
==============================================

A cell copies its DNA from many origins. In baker's yeast they are called autonomously replicating sequences (ARS).
Each contains a short word that proteins bind to, at any position and on either strand, usually with mutations. Given
origins and other DNA sequences, can we find the word and its positions?
"""

# %%
# The data
# --------
# 352 origins and 5 152 intergenic sequences (`load_yeast_ars`). For most origins the position of the word is known
# from experiments; we use it for evaluation only. For each origin we cut an intergenic sequence of the same length,
# because length alone would separate the classes. Every second origin is held out.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import LinearSVC

from latentstruct import LatentSSVM, Motif
from latentstruct.tasks.motif.sites import consensus, find_sites, site_matrix
from latentstruct.viz.plots import plot_logo, plot_sites
from latentstruct_papers.datasets import load_yeast_ars

data = load_yeast_ars()
rng = np.random.default_rng(0)
origins, names = data.positives.sequences, data.positives.names
pool = [data.negatives.sequences[k] for k in rng.permutation(len(data.negatives.sequences))]


def cut_like(origin):
    """Return an intergenic sequence as long as an origin, or nearly so if none is long enough."""
    source = next((k for k, stretch in enumerate(pool) if len(stretch) >= len(origin)), None)
    stretch = pool.pop(source) if source is not None else pool.pop(int(np.argmax([len(s) for s in pool])))
    start = rng.integers(len(stretch) - len(origin) + 1) if len(stretch) > len(origin) else 0
    return stretch[start : start + len(origin)]


others = [cut_like(origin) for origin in origins]
X_train = origins[0::2] + others[0::2]
X_test = origins[1::2] + others[1::2]
y_train = np.repeat([1, -1], [len(origins[0::2]), len(others[0::2])])
y_test = np.repeat([1, -1], [len(origins[1::2]), len(others[1::2])])

# %%
# The model
# ---------
# `Motif` with windows of 17 letters; start and strand of the window are latent, and words of four letters are the
# background. We need the windows themselves, so latent values are maximized: `LatentSSVM`. C = 0.1 is the default of
# the command and was not tuned.

model = LatentSSVM(Motif(width=17, strands=2), C=0.1, restarts=3).fit(X_train, y_train)
print("objectives of the starts:", np.round(model.restart_objectives_, 2))
print(f"{model.n_iter_} iterations; relative gap of the last convex problem {100 * model.relative_gap_:.2g} %")

# %%
# The motif of held-out origins
# -----------------------------
# The known consensus is WTTTAYRTTTW, where W is A or T, Y is C or T, and R is A or G.

sites = find_sites(model, origins[1::2], names[1::2])
matrix = site_matrix([site.site for site in sites])
letters = np.array([sum(map(str.count, others, letter * len(others))) for letter in "ACGT"])

ax = plt.subplots(figsize=(5, 2.6), layout="constrained")[1]
plot_logo(matrix, letters / letters.sum(), ax)
ax.set_title(f"Motif of the origins: {consensus(matrix)}", fontsize=10)
plt.show()

# %%
# Known sites
# -----------
# A window hits if its center is within half a width of that of an annotated site. The baseline is a random window.

annotated = [k for k in range(1, len(origins), 2) if data.acs[k]]


def hits(starts):
    """Return for each annotated origin whether a window that starts there hits a known site."""
    middles = np.asarray(starts) + 17 / 2
    known = [[(low + high) / 2 for low, high, _ in data.acs[k]] for k in annotated]
    return [
        any(abs(middle - place) <= 17 / 2 for place in places) for middle, places in zip(middles, known, strict=True)
    ]


found = {site.sequence: site for site in sites}
random = [hits([rng.integers(len(origins[k]) - 16) for k in annotated]) for _ in range(50)]
share = np.mean(hits([found[names[k]].start for k in annotated]))
print(f"known sites hit in {len(annotated)} held-out origins: {100 * share:.0f} %")
print(f"by random windows: {100 * np.mean(random):.0f} %")

shown = annotated[:14]
ax = plt.subplots(figsize=(5, 3.6), layout="constrained")[1]
plot_sites(
    [found[names[k]] for k in shown],
    [len(origins[k]) for k in shown],
    ax,
    {names[k]: [(low, high) for low, high, _ in data.acs[k]] for k in shown},
)
ax.set_title("Predicted windows, and known sites (frames)", fontsize=10)
plt.show()

# %%
# Held-out accuracy
# -----------------
# The baseline is a linear SVM on counts of words of four letters, without positions; its C is chosen by
# cross-validation.

counts = make_pipeline(CountVectorizer(analyzer="char", ngram_range=(4, 4)), MaxAbsScaler(), LinearSVC(dual=False))
words = GridSearchCV(counts, {"linearsvc__C": [0.001, 0.01, 0.1]}, cv=3).fit(X_train, y_train)
print(f"held-out accuracy: {100 * model.score(X_test, y_test):.1f} %")
print(f"counts of words:   {100 * words.score(X_test, y_test):.1f} %")

# %%
# Limitations
# -----------
# Origins are rich in A and T, and the counts of words profit from that alone: a classifier may be correct for a
# reason that has nothing to do with the site. Therefore the positions matter more here than the accuracy. Some
# sequences are similar on both sides of our split; ``latentstruct reproduce lssvm-motif`` keeps such families
# together, matches the GC content too, and compares with a Gibbs sampler. The command is ``latentstruct train
# motif``.
