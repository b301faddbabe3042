"""
Where does yeast begin to copy its DNA?
=======================================

A cell copies its DNA from many origins. In baker's yeast they are called autonomously replicating sequences, ARS;
each holds a short word that proteins bind to, somewhere, on either strand, rarely without mutations. Given origins
and other stretches of DNA, can we find the word and its place, if nobody tells us either?
"""

# %%
# The data
# --------
# 352 origins and 5 152 stretches between genes (`load_yeast_ars`). For most origins the place of the word is known
# from experiments; we keep that to ourselves until the end. For each origin we cut a stretch of the same length, as
# length alone would tell the classes apart otherwise. Every second origin is held out.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import LinearSVC

from latentstruct import LatentSSVM, Motif
from latentstruct.datasets import load_yeast_ars
from latentstruct.tasks.motif.sites import consensus, find_sites, site_matrix
from latentstruct.viz.plots import plot_logo, plot_sites

data = load_yeast_ars()
rng = np.random.default_rng(0)
origins, names = data.positives.sequences, data.positives.names
pool = [data.negatives.sequences[k] for k in rng.permutation(len(data.negatives.sequences))]


def cut_like(origin):
    """Return a stretch between genes that is as long as an origin, or nearly so if none is long enough."""
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
# background that everything is compared with. We want the windows themselves, so latents are maximised: `LatentSSVM`.
# C = 0.1 is the command's default and was not tuned.

model = LatentSSVM(Motif(width=17, strands=2), C=0.1, restarts=3).fit(X_train, y_train)
print("objectives of the starts:", np.round(model.restart_objectives_, 2))
print(f"{model.n_rounds_} rounds; the last convex problem to within {100 * model.relative_gap_:.2g} %")

# %%
# The word, from the windows of held-out origins
# ----------------------------------------------
# Biologists write the consensus as WTTTAYRTTTW, where W is A or T, Y is C or T, and R is A or G.

sites = find_sites(model, origins[1::2], names[1::2])
matrix = site_matrix([site.site for site in sites])
letters = np.array([sum(map(str.count, others, letter * len(others))) for letter in "ACGT"])

ax = plt.subplots(figsize=(5, 2.6), layout="constrained")[1]
plot_logo(matrix, letters / letters.sum(), ax)
ax.set_title(f"The word of the origins: {consensus(matrix)}", fontsize=10)
plt.show()

# %%
# Is it at the right place?
# -------------------------
# Now the places from experiments. A window hits if its middle is within half a width of that of an annotated site.
# The baseline is a window put down at random.

annotated = [k for k in range(1, len(origins), 2) if data.acs[k]]


def hits(starts):
    """Return for each annotated origin whether a window that begins there hits a known site."""
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
ax.set_title("Windows found, and frames of known sites", fontsize=10)
plt.show()

# %%
# Does it tell origins from other DNA?
# ------------------------------------
# Beside it a linear SVM that counts words of four letters, without places; its C is chosen by cross-validation.

counts = make_pipeline(CountVectorizer(analyzer="char", ngram_range=(4, 4)), MaxAbsScaler(), LinearSVC(dual=False))
words = GridSearchCV(counts, {"linearsvc__C": [0.001, 0.01, 0.1]}, cv=3).fit(X_train, y_train)
print(f"held-out sequences right: {100 * model.score(X_test, y_test):.1f} %")
print(f"counts of words:          {100 * words.score(X_test, y_test):.1f} %")

# %%
# What to keep in mind
# --------------------
# Origins are rich in A and T, and the counts of words profit from that alone: a classifier may be right for a reason
# that has nothing to do with the site. That is why the places matter more here than the share of right answers. Some
# sequences are copies of each other on both sides of our split; ``latentstruct reproduce lssvm-motif`` keeps such
# families together, matches G and C too, and compares with a Gibbs sampler.
