"""
Segments of different lengths
=============================

Some events look the same token by token and differ only in their duration. `Chain` labels tokens and has no weights
for lengths. `SemiMarkov` labels whole segments and has a weight per length.
"""

# %%
# The data
# --------
# Calls and echoes have the same loudness. A call lasts four to six steps, an echo one or two; between them is
# silence.

import matplotlib.pyplot as plt
import numpy as np

from latentstruct import Chain, SemiMarkov, StructuralSVM

rng = np.random.default_rng(0)
LENGTHS = {"silence": (1, 4), "call": (4, 7), "echo": (1, 3)}


def draw_recording(n_events=5):
    """Return the loudness (T, 2) of one recording and its segments (first, stop, label)."""
    at, segments = 0, []
    for _ in range(n_events):
        for label in ("silence", rng.choice(["call", "echo"])):
            size = int(rng.integers(*LENGTHS[label]))
            segments.append((at, at + size, str(label)))
            at += size
    loud = np.array([label != "silence" for a, b, label in segments for _ in range(a, b)])
    return np.column_stack([loud + 0.3 * rng.normal(size=at), np.ones(at)]), segments


X, Y = zip(*(draw_recording() for _ in range(120)), strict=True)
X_train, Y_train, X_test, Y_test = list(X[:40]), list(Y[:40]), list(X[40:]), list(Y[40:])

# %%
# Two models
# ----------
# `Chain` takes one label per token, `SemiMarkov` the segments themselves. The same estimator trains both, with a
# certified gap.


def per_token(segments):
    """Return the label of each token."""
    return [label for a, b, label in segments for _ in range(a, b)]


segmental = StructuralSVM(SemiMarkov(), C=0.1).fit(X_train, Y_train)
tokens = StructuralSVM(Chain(start=True, end=True), C=0.1).fit(X_train, [per_token(y) for y in Y_train])
print("certified:", segmental.certified_, tokens.certified_)
print(f"SemiMarkov: {segmental.score(X_test, Y_test):.3f} held-out accuracy of tokens")
print(f"Chain:      {tokens.score(X_test, [per_token(y) for y in Y_test]):.3f}")

# %%
# Learned weights
# ---------------
# The last weights are those of lengths, one row per length: long loud segments are calls, short ones are echoes.

labels = segmental.task_.labels_.labels
weights = segmental.coef_[-segmental.task_.longest_ * len(labels) :].reshape(-1, len(labels))
ax = plt.subplots(figsize=(5, 3.2), layout="constrained")[1]
for label, line, marker in zip(labels, weights.T, "osv", strict=True):
    ax.plot(np.arange(1, len(line) + 1), line, marker=marker, label=label)
ax.set(xlabel="length of the segment", ylabel="weight", title="Weights of segment lengths")
ax.legend()
plt.show()

# %%
# Next steps
# ----------
# Segments whose label is -1, and tokens in no segment, are latent. Train them with `LatentSSVM` or `HiddenCRF`, as
# :ref:`sphx_glr_auto_examples_start_plot_half_labeled_sequences.py` does for tokens.
