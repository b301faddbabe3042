"""
Handwritten words with a convolutional network
==============================================

A chain over fixed pixels reads about six of seven letters of a handwritten word
(:ref:`sphx_glr_auto_examples_applications_plot_ocr_letters.py`). A small convolutional network sees shapes instead of
pixels; with a chain on top of it, both are trained together.
"""

# %%
# The data
# --------
# Handwritten words, of which we train on one of ten folds and test on 1 000 words of the others. Words are padded to
# the longest; −100 marks positions that are no letters, as in other losses of PyTorch.

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from latentstruct.torch import ChainLoss
from latentstruct_papers.datasets import load_ocr_letters

data = load_ocr_letters()
N_LETTERS, LONGEST = 26, max(map(len, data.X))


def padded(rows):
    """Return images (B, T, 16, 8) and letters (B, T) of some words."""
    images, letters = torch.zeros(len(rows), LONGEST, 16, 8), torch.full((len(rows), LONGEST), -100)
    for k, row in enumerate(rows):
        size = len(data.X[row])
        images[k, :size] = torch.from_numpy(data.X[row]).float().reshape(size, 16, 8)
        letters[k, :size] = torch.from_numpy(data.Y[row])
    return images, letters


train_images, train_letters = padded(np.flatnonzero(data.folds == 0))
test_images, test_letters = padded(np.flatnonzero(data.folds != 0)[:1000])
print(len(train_images), "training words,", len(test_images), "test words")

# %%
# The network
# -----------
# Two convolutions, applied to all letters of a batch at a time; scores of padding stay 0 and are not used.


def make_network():
    """Return a network from images (N, 1, 16, 8) to scores of letters."""
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.2), nn.Linear(24 * 8, N_LETTERS)),
    )


def emissions_of(network, images, letters):
    """Return the scores (B, T, S) of letters."""
    scores = torch.zeros(*letters.shape, N_LETTERS)
    scores[letters != -100] = network(images[letters != -100].unsqueeze(1))
    return scores


# %%
# Training
# --------
# The same network twice: with `ChainLoss`, and with cross-entropy per letter.


def train(with_chain, epochs=12):
    """Return a trained network and its chain."""
    network, chain = make_network(), ChainLoss(N_LETTERS)
    optimizer = torch.optim.Adam([*network.parameters(), *chain.parameters()], lr=0.006)
    for _ in range(epochs):
        for some in torch.randperm(len(train_images)).split(32):
            letters = train_letters[some]
            emissions = emissions_of(network, train_images[some], letters)
            if with_chain:
                loss = chain(emissions, letters, reduction="token_mean")
            else:
                loss = nn.functional.cross_entropy(emissions.flatten(0, 1), letters.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network.eval(), chain


alone, _ = train(with_chain=False)
network, chain = train(with_chain=True)

# %%
# Results
# -------
# Decoding needs a mask of the letters; it may have holes.

real = test_letters != -100
with torch.no_grad():
    by_letter = emissions_of(alone, test_images, test_letters).argmax(2)
    by_chain = chain.decode(emissions_of(network, test_images, test_letters), real)
for name, found in (("letter by letter", by_letter), ("with a chain", by_chain)):
    print(f"{name}: {(found != test_letters)[real].double().mean():.3f} of the letters are wrong")

# %%
# Words that the chain reads
# --------------------------
# Three words that only the network with a chain reads without an error.

helped = (((by_chain == test_letters) | ~real).all(1) & ((by_letter != test_letters) & real).any(1)).nonzero()[:3, 0]
fig, axes = plt.subplots(3, 1, figsize=(6, 4.5), layout="constrained", squeeze=False)
for ax, k in zip(axes[:, 0], helped.tolist(), strict=False):
    size = int(real[k].sum())
    ax.imshow(torch.cat(list(test_images[k, :size]), dim=1), cmap="gray_r")
    words = ("".join(chr(97 + y) for y in found[k, :size].tolist()) for found in (by_letter, by_chain))
    ax.set_title("letter by letter: {}, with a chain: {}".format(*words))
    ax.axis("off")
plt.show()
