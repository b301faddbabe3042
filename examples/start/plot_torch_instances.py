"""
Multiple instances with a network
=================================

A molecule has many shapes, and it smells of musk if *one* of them fits a receptor: a label belongs to a bag of
instances, and which instance is responsible is latent. `LatentClassLoss` trains a network on such bags.
"""

# %%
# The data
# --------
# Synthetic bags of three to ten instances with two features. A bag is positive if at least one of its instances lies in
# a ring around the origin; all other instances lie elsewhere. A linear model cannot separate a ring.
# Sizes and settings were chosen such that the example is quick and shows a difference; results vary with them.

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from latentstruct.torch import LatentClassLoss

rng = np.random.default_rng(0)


def is_inside(points):
    """Return whether points lie in the ring."""
    return np.abs(np.hypot(*points.T) - 1.0) < 0.25


def draw_bags(n):
    """Return instances (N, 2), the bag of each one, and the classes (n,)."""
    instances, bags, classes = [], [], []
    for k in range(n):
        points = rng.uniform(-2, 2, size=(rng.integers(3, 11), 2))
        if k % 2 == 0:
            points = points[~is_inside(points)]
        if len(points) == 0:
            points = np.array([[0.0, 0.0]])
        instances.append(points)
        bags += [k] * len(points)
        classes.append(int(is_inside(points).any()))
    stacked = torch.from_numpy(np.vstack(instances)).float()
    return stacked, torch.tensor(bags), torch.tensor(classes)


train_instances, train_bags, train_classes = draw_bags(300)
test_instances, test_bags, test_classes = draw_bags(300)
print(len(train_instances), "instances in", len(train_classes), "bags")

# %%
# The network
# -----------
# It gives each instance a score. The score of the class "nothing" is 0 for every instance, that of the class "musk" is
# the score of the network.


def train(loss, epochs=300):
    """Return a trained network and the loss layer."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
    layer = LatentClassLoss(loss)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    for _ in range(epochs):
        value = layer(scores_of(network, train_instances), train_bags, train_classes)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return network, layer


def scores_of(network, instances):
    """Return scores (N, 2) of both classes."""
    own = network(instances)
    return torch.cat([torch.zeros_like(own), own], dim=1)


# %%
# Three ways to pool
# ------------------
# A latent SVM ("latent_hinge") takes the best instance of a bag, a hidden CRF ("crf") sums over all of them, and
# "marginal" sums over instances but separates the classes by a margin. The sum is the easiest one to train here: a
# maximum has derivatives by a single instance of each bag.

models = {loss: train(loss) for loss in ("latent_hinge", "crf", "marginal")}
for name, (network, layer) in models.items():
    with torch.no_grad():
        pooled = layer.class_scores(scores_of(network, test_instances), test_bags, len(test_classes))
    print(f"{name}: {(pooled.argmax(1) == test_classes).double().mean():.3f} of the test bags are right")

# %%
# The responsible instances
# -------------------------
# No instance was ever labeled. The network of the hidden CRF still finds the ring.

network, _ = models["crf"]
axis = torch.linspace(-2, 2, 80)
grid = torch.cartesian_prod(axis, axis)
with torch.no_grad():
    heights = network(grid).reshape(80, 80).T
fig, ax = plt.subplots(figsize=(4.4, 4), layout="constrained")
ax.contourf(axis, axis, heights, levels=[-1e9, 0, 1e9], colors=["#dddddd", "#f6c667"])
inside = is_inside(test_instances.numpy())
ax.scatter(*test_instances[~inside].T, s=4, color="gray", label="other instances")
ax.scatter(*test_instances[inside].T, s=6, color="black", label="instances in the ring")
ax.set(title="Instances that make a bag positive", aspect="equal")
ax.legend(loc="lower right", fontsize=7)
plt.show()
