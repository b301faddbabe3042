"""
Text with missing tags
======================

Tagging text by hand is slow, and annotators often skip uncertain words. Here we train on sentences in which only some
of the words are tagged. Untagged words are not useless: their neighbors are tagged, and tags follow each other in
patterns.
"""

# %%
# The data
# --------
# Chunks of CoNLL-2000 (`load_conll2000`): each word is at the beginning (B), inside (I) or outside (O) of a noun
# phrase, verb phrase and so on. We use 300 training and 300 test sentences, and remove tags at random.

import matplotlib.pyplot as plt
import numpy as np

from latentstruct import CRF, Chain, HiddenCRF, WindowFeatures
from latentstruct.metrics import chunk_scores
from latentstruct.viz.plots import plot_transitions
from latentstruct_papers.datasets import load_conll2000

train, test = load_conll2000(subset="train"), load_conll2000(subset="test")
features = WindowFeatures(window=1, affixes=0, shape=False)
X_train, Y_train = features.fit_transform(train.tokens[:300]), train.Y[:300]
X_test, Y_test = features.transform(test.tokens[:300]), test.Y[:300]
labels = sorted({tag for y in Y_train for tag in y})
print(" ".join(f"{word}/{tag}" for (word, _), tag in zip(train.tokens[0][:9], Y_train[0], strict=False)))

rng = np.random.default_rng(0)
drawn = [rng.random(len(y)) for y in Y_train]


def with_gaps(share):
    """Return the tags with a fraction of them replaced by −1 (unknown)."""
    return [
        [-1 if u < share else tag for u, tag in zip(us, y, strict=True)] for us, y in zip(drawn, Y_train, strict=True)
    ]


def tagged_pieces(share):
    """Return each run of tagged words as a separate sentence, the approach without latent variables."""
    X, Y = [], []
    for x, y in zip(X_train, with_gaps(share), strict=True):
        known = np.flatnonzero([tag != -1 for tag in y])
        for run in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
            if len(run):
                X.append(x[run])
                Y.append([y[t] for t in run])
    return X, Y


# %%
# Two models
# ----------
# Both are chains with the same features. `HiddenCRF` sums over the unknown tags of a sentence. `CRF` is trained on
# the tagged pieces only. C = 1, the default, for both; it was not tuned.

shares = [0.3, 0.6, 0.9]
models, f1 = {}, {"untagged words summed out": [], "tagged pieces only": []}
for share in shares:
    models[share] = HiddenCRF(Chain(labels=labels), tol=0.01).fit(X_train, with_gaps(share))
    pieces = CRF(Chain(labels=labels), tol=0.01).fit(*tagged_pieces(share))
    for name, model in zip(f1, (models[share], pieces), strict=True):
        f1[name].append(100 * chunk_scores(Y_test, model.predict(X_test)).f1)
        print(f"{100 * share:.0f} % removed, {name}: chunk F1 {f1[name][-1]:.1f}")
complete = CRF(Chain(labels=labels), tol=0.01).fit(X_train, Y_train)
ceiling = 100 * chunk_scores(Y_test, complete.predict(X_test)).f1

ax = plt.subplots(figsize=(5, 3), layout="constrained")[1]
for (name, line), style in zip(f1.items(), ("o-", "s--"), strict=True):
    ax.plot([100 * share for share in shares], line, style, label=name)
ax.axhline(ceiling, color="grey", linestyle=":", label=f"all tags ({ceiling:.1f})")
gains = [a - b for a, b in zip(*f1.values(), strict=True)]
ax.set(
    xlabel="% of tags removed",
    ylabel="F1 of chunks",
    title=f"Gain by summing out: {min(gains):+.1f} to {max(gains):+.1f} points",
)
ax.legend(fontsize=9)
plt.show()

# %%
# A negative gain is a loss. It can occur if few tags are left: the model then sums over its own guesses, and errors
# reinforce each other. Compare both lines before you rely on untagged words.
#
# Completed tags
# --------------
# The model can also complete the training tags: ``complete`` returns the best tags that agree with the known ones.

model, half = models[0.6], with_gaps(0.6)[:1]
filled = model.complete(X_train[:1], half)[0]
for t, (word, _) in enumerate(train.tokens[0][:12]):
    known, true = half[0][t], Y_train[0][t]
    print(f"{word:12s} {'?' if known == -1 else known:6s} {filled[t]:6s} {'' if filled[t] == true else 'not ' + true}")

# %%
# Transitions
# -----------

ax = plt.subplots(figsize=(5, 4.4), layout="constrained")[1]
plot_transitions(model, ax, most=9)
ax.set_title("Weights of tag transitions", fontsize=10)
plt.show()

# %%
# Limitations
# -----------
# With unknown tags the objective is not convex, so there is no certificate: `certified_` is

print(model.certified_, "and training stopped:", model.stop_reason_)

# %%
# The gain depends on how informative neighbors are, and on the number of tags: with 3 000 sentences instead of 300,
# summing improves the result also with 90 % removed. The comparison on all sentences, also with sets of tags and with
# chunks alone, is ``latentstruct reproduce half-labeled``. The command is
# ``latentstruct train chain half.txt --unknown '?'``.
