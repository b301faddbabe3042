"""Small data for kernels: three classes in the plane, two of them as one, views of them, and digits."""

import numpy as np
from sklearn.datasets import load_digits

_RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = _RNG.normal(size=(60, 2)) + 1.5 * np.eye(3, 2)[Y]
TWO = (Y == 1).astype(int)
VIEWS = np.stack([X, _RNG.normal(size=X.shape), _RNG.normal(size=X.shape)], axis=1)


def digits(n):
    data = load_digits()
    return data.data[:n] / 16.0, data.target[:n]
