"""
Half-tagged text with a recurrent network
=========================================

Scores of labels may come from a network instead of fixed features. `ChainLoss` is a layer on top of it: it knows which
labels follow each other, and it sums out labels that are unknown. Here an embedding and a bidirectional LSTM learn to
tag sentences of which half of the tags are missing.
"""

# %%
# The data
# --------
# Forty synthetic sentences of twelve words with five tags. Most words are ambiguous, and some tags follow each other
# far more often than others. In the training sentences a tag is unknown with probability ½, which −1 marks.

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from latentstruct.torch import ChainLoss

N_WORDS, N_TAGS, LENGTH = 60, 5, 12
rng = np.random.default_rng(0)
follows = rng.dirichlet(np.full(N_TAGS, 0.15), size=N_TAGS)
emits = rng.dirichlet(np.full(N_WORDS, 0.2), size=N_TAGS)


def draw_sentences(n):
    """Return words and tags, both (n, LENGTH)."""
    tags = np.zeros((n, LENGTH), dtype=np.int64)
    tags[:, 0] = rng.integers(N_TAGS, size=n)
    for t in range(1, LENGTH):
        for k in range(n):
            tags[k, t] = rng.choice(N_TAGS, p=follows[tags[k, t - 1]])
    words = np.array([[rng.choice(N_WORDS, p=emits[tag]) for tag in row] for row in tags])
    return torch.from_numpy(words), torch.from_numpy(tags)


train_words, train_tags = draw_sentences(40)
test_words, test_tags = draw_sentences(150)
known = torch.from_numpy(rng.random(train_tags.shape) < 0.5)
half_tags = torch.where(known, train_tags, -1)
print(half_tags[0].tolist())

# %%
# The network
# -----------
# It has one score per word and tag, *emissions* (B, T, S).


def make_network():
    """Return a tagger that is the same each time."""
    torch.manual_seed(0)
    return nn.ModuleList([nn.Embedding(N_WORDS, 16), nn.LSTM(16, 16, bidirectional=True, batch_first=True)]).append(
        nn.Linear(32, N_TAGS)
    )


def emissions_of(network, words):
    """Return the scores of tags."""
    embedding, lstm, linear = network
    return linear(lstm(embedding(words))[0])


# %%
# Two losses
# ----------
# The first tagger is trained on the known tags one by one, by cross-entropy. The second one has `ChainLoss`: the
# negative log-likelihood of the known tags, summed over all values of the unknown ones. Both see the same network, data
# and optimizer.


def train(with_chain, epochs=12):
    """Return a network, its chain and the loss of each epoch."""
    network, chain, losses = make_network(), ChainLoss(N_TAGS), []
    optimizer = torch.optim.Adam([*network.parameters(), *chain.parameters()], lr=0.02)
    for _ in range(epochs):
        for some in torch.randperm(len(train_words)).split(10):
            emissions, tags = emissions_of(network, train_words[some]), half_tags[some]
            if with_chain:
                loss = chain(emissions, tags, reduction="token_mean")
            else:
                loss = nn.functional.cross_entropy(emissions.flatten(0, 1), tags.flatten(), ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return network, chain, losses


alone, _, _ = train(with_chain=False)
network, chain, losses = train(with_chain=True)

# %%
# Results
# -------
# `ChainLoss.decode` returns the best tags of whole sentences as a tensor. The LSTM sees the neighbors of a word, too,
# so the chain adds little; it helps most with few sentences.

with torch.no_grad():
    accuracies = {
        "cross-entropy": (emissions_of(alone, test_words).argmax(2) == test_tags).double().mean().item(),
        "with a chain": (chain.decode(emissions_of(network, test_words)) == test_tags).double().mean().item(),
    }
    transitions = torch.softmax(chain.transitions, dim=1).numpy()
for name, accuracy in accuracies.items():
    print(f"{name}: {accuracy:.3f} of the tags are right")

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for ax, matrix, title in ((left, follows, "True transitions"), (right, transitions, "Learned transitions")):
    ax.imshow(matrix, vmin=0, vmax=1)
    ax.set(title=title, xlabel="next tag", ylabel="tag")
plt.show()

# %%
# Other losses
# ------------
# ``ChainLoss(N_TAGS, "marginal")`` sums the unknown tags out but separates the known ones by a margin, and
# ``"latent_hinge"`` maximizes over the unknown ones. Marginal probabilities, samples and the k best taggings are those
# of `ChainLoss.distribution`.

with torch.no_grad():
    distribution = chain.distribution(emissions_of(network, test_words[:1]))
    best = distribution.topk(3)
for tags, log_prob in zip(best.outputs[:, 0].tolist(), best.log_probs[:, 0].tolist(), strict=True):
    print(f"probability {np.exp(log_prob):.3f}: {tags}")
