"""Simulated data with hidden variables: random fields with hidden nodes, and noisy images with missing labels."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.types import Indices, Vector
from latentstruct.core.unknown import UNKNOWN
from latentstruct.exceptions import InputError

if TYPE_CHECKING:
    from latentstruct.tasks.graph.inputs import GraphInput

__all__ = ["FieldWeights", "HiddenField", "NoisyImages", "draw_truth", "make_hidden_field", "make_noisy_images"]

Layout = Literal["chain", "grid"]
Reading = Literal["variance", "deviation"]
States = NDArray[np.int64]

N_STATES = 4
MAX_COLUMNS = 8
"""Width of a grid that can still be sampled exactly: 4^8 sums for each node."""


class FieldWeights(NamedTuple):
    """Weights of p(x, s) ∝ exp(Σ_v [a_v(x_v) + b_v(s_v) + c_v(x_v, s_v)] + Σ_(p,q) d_pq(s_p, s_q)), s = (y, h).

    Attributes
    ----------
    inputs : ndarray of shape (V, 4)
        a, by the value of x.
    states : ndarray of shape (V, 4)
        b, by the state of the node.
    emissions : ndarray of shape (V, 4, 4)
        c, by the value of x and the state of the node.
    pairs : ndarray of shape (E, 4, 4)
        d, by the states of the first and the second node of each edge.
    """

    inputs: Vector
    states: Vector
    emissions: Vector
    pairs: Vector

    def __repr__(self) -> str:
        return short_repr(self)


class Lattice(NamedTuple):
    """Sites in rows, each linked to the one above and the one to the left; a chain is a lattice of one column.

    Attributes
    ----------
    n_rows, n_columns : int
        Sites are numbered row by row.
    edges : ndarray of shape (E, 2)
        Pairs of neighbors, the lower number first.
    above, left : ndarray of shape (V,)
        The edge to the site above and to the left, −1 where there is none.
    """

    n_rows: int
    n_columns: int
    edges: Indices
    above: Indices
    left: Indices


@dataclass(frozen=True)
class HiddenField:
    """Examples drawn from one random field whose output and hidden nodes alternate.

    Attributes
    ----------
    X_train, X_test : list of GraphInput
        Node features are the one-hot codes of x, 4 wide; node types are "y" and "h".
    Y_train, Y_test : list of ndarray of shape (V,)
        Labels 0 … 3 of the outputs, −1 at hidden nodes.
    states_train, states_test : ndarray of shape (n, V)
        The true states of all nodes, hidden ones too.
    weights : FieldWeights
        The weights of the field.
    edges : ndarray of shape (E, 2)
        The edges, each between an output and a hidden node.
    hidden : ndarray of bool, shape (V,)
        Which nodes are hidden.
    """

    X_train: "list[GraphInput]"
    Y_train: list[States]
    states_train: States
    X_test: "list[GraphInput]"
    Y_test: list[States]
    states_test: States
    weights: FieldWeights
    edges: Indices
    hidden: NDArray[np.bool_]

    __repr__ = short_repr


def make_hidden_field(
    layout: Layout = "chain",
    n_train: int = 20,
    n_test: int = 100,
    n_nodes: int = 40,
    shape: tuple[int, int] = (6, 6),
    sigma_x: float = 0.1,
    sigma_y: float = 0.1,
    sigma_h: float = 0.1,
    sigma_pair: float = 2.0,
    reading: Reading = "variance",
    random_state: int | None = 0,
) -> HiddenField:
    """Draw a random field with 4 states a node, and examples from it, exactly.

    Outputs y and hidden nodes h alternate along a chain, y first, or like the squares of a chessboard on a grid with
    four neighbors; each node has an input x of its own. No two outputs and no two hidden nodes are linked. All
    weights are drawn from normal distributions, independently for each node and edge.

    Parameters
    ----------
    layout : {"chain", "grid"}, default="chain"
        The graph.
    n_train, n_test : int
        Numbers of examples.
    n_nodes : int, default=40
        Outputs and hidden nodes of the chain together.
    shape : (int, int), default=(6, 6)
        Rows and columns of the grid, at most 8 columns.
    sigma_x, sigma_y, sigma_h : float, default=0.1
        Spread of the weights of single inputs, outputs and hidden nodes.
    sigma_pair : float, default=2.0
        Spread of the weights of pairs (x, y), (x, h) and (y, h).
    reading : {"variance", "deviation"}, default="variance"
        Whether these spreads are variances or standard deviations.
    random_state : int or None, default=0
        Seed; None for other data at each call.

    Returns
    -------
    HiddenField
        Training and test examples, true states and weights.

    Notes
    -----
    Ping, Liu & Ihler (2014), section 7.1. The inputs are summed out, nodes are drawn one after the other given those
    before them, and the inputs last, so that examples are independent of each other.
    """
    lattice = _lattice(layout, n_nodes, shape)
    for name, count in (("n_train", n_train), ("n_test", n_test)):
        if count < 1:
            raise InputError(name, count, "at least 1")
    spreads = {"sigma_x": sigma_x, "sigma_y": sigma_y, "sigma_h": sigma_h, "sigma_pair": sigma_pair}
    deviations = {name: _deviation(name, spread, reading) for name, spread in spreads.items()}
    site = np.arange(lattice.n_rows * lattice.n_columns)
    hidden = (site // lattice.n_columns + site % lattice.n_columns) % 2 == 1
    rng = np.random.default_rng(random_state)
    by_node = np.where(hidden, deviations["sigma_h"], deviations["sigma_y"])
    weights = FieldWeights(
        deviations["sigma_x"] * rng.standard_normal((len(site), N_STATES)),
        by_node[:, None] * rng.standard_normal((len(site), N_STATES)),
        deviations["sigma_pair"] * rng.standard_normal((len(site), N_STATES, N_STATES)),
        deviations["sigma_pair"] * rng.standard_normal((len(lattice.edges), N_STATES, N_STATES)),
    )
    states, inputs = _sample(lattice, weights, n_train + n_test, rng)
    X, Y = _examples(inputs, states, lattice.edges, hidden)
    return HiddenField(
        X_train=X[:n_train],
        Y_train=Y[:n_train],
        states_train=states[:n_train],
        X_test=X[n_train:],
        Y_test=Y[n_train:],
        states_test=states[n_train:],
        weights=weights,
        edges=lattice.edges,
        hidden=hidden,
    )


def _deviation(name: str, spread: float, reading: Reading) -> float:
    """Return the standard deviation that a spread stands for."""
    if not (math.isfinite(spread) and spread >= 0):
        raise InputError(name, spread, "a finite number of at least 0")
    if reading not in ("variance", "deviation"):
        raise InputError("reading", reading, "'variance' or 'deviation'")
    return math.sqrt(spread) if reading == "variance" else spread


def _lattice(layout: Layout, n_nodes: int, shape: tuple[int, int]) -> Lattice:
    """Return the sites and edges of a layout."""
    if layout not in ("chain", "grid"):
        raise InputError("layout", layout, "'chain' or 'grid'")
    if layout == "chain":
        if n_nodes < 2:
            raise InputError("n_nodes", n_nodes, "at least 2, an output and a hidden node")
        n_rows, n_columns = n_nodes, 1
    else:
        if len(shape) != 2 or min(shape) < 1 or max(shape) < 2:
            raise InputError("shape", shape, "two numbers of sites, at least 2 in all")
        if shape[1] > MAX_COLUMNS:
            raise InputError("shape", shape, f"at most {MAX_COLUMNS} columns wide, to be sampled exactly")
        n_rows, n_columns = shape
    site = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    down = np.stack([site[:-1].ravel(), site[1:].ravel()], axis=1)
    right = np.stack([site[:, :-1].ravel(), site[:, 1:].ravel()], axis=1)
    above, left = np.full((2, site.size), -1)
    above[down[:, 1]] = np.arange(len(down))
    left[right[:, 1]] = len(down) + np.arange(len(right))
    return Lattice(n_rows, n_columns, np.concatenate([down, right]), above, left)


def _sample(lattice: Lattice, weights: FieldWeights, n: int, rng: np.random.Generator) -> tuple[States, States]:
    """Draw n examples; return the states and the inputs of all sites, shape (n, V) each."""
    joint = weights.inputs[:, :, None] + weights.emissions
    single = weights.states + _logsumexp(joint, axis=1)
    ahead = _sums_ahead(lattice, single, weights.pairs)
    width, n_fronts = lattice.n_columns, N_STATES**lattice.n_columns
    states = np.zeros((n, len(single)), dtype=np.int64)
    front = np.zeros(n, dtype=np.int64)
    for v in range(len(single)):
        kept = front * N_STATES % n_fronts
        scores = single[v] + ahead[v + 1][kept[:, None] + np.arange(N_STATES)]
        if lattice.above[v] >= 0:
            scores += weights.pairs[lattice.above[v]][states[:, v - width]]
        if lattice.left[v] >= 0:
            scores += weights.pairs[lattice.left[v]][states[:, v - 1]]
        states[:, v] = _draw(scores, rng)
        front = kept + states[:, v]
    inputs = np.stack([_draw(joint[v].T[states[:, v]], rng) for v in range(len(single))], axis=1)
    return states, inputs


def _sums_ahead(lattice: Lattice, single: Vector, pairs: Vector) -> list[Vector]:
    """Return, for each site, the log of the sum over it and all later sites given the sites just before.

    Entry v has shape (4^W,), W the number of columns: the states of sites v − W … v − 1 are the digits of the index,
    the last one changing fastest. Digits of sites that do not exist count for nothing.
    """
    n_fronts = N_STATES**lattice.n_columns
    first, rest = np.divmod(np.arange(n_fronts), n_fronts // N_STATES)
    last = np.arange(n_fronts) % N_STATES
    ahead = [np.zeros(n_fronts)]
    for v in reversed(range(len(single))):
        scores = single[v] + ahead[-1].reshape(-1, N_STATES)[rest]
        if lattice.above[v] >= 0:
            scores += pairs[lattice.above[v]][first]
        if lattice.left[v] >= 0:
            scores += pairs[lattice.left[v]][last]
        ahead.append(_logsumexp(scores, axis=1))
    return ahead[::-1]


def _logsumexp(scores: Vector, axis: int) -> Vector:
    most = scores.max(axis=axis, keepdims=True)
    return np.log(np.exp(scores - most).sum(axis=axis)) + most.squeeze(axis)


def _draw(scores: Vector, rng: np.random.Generator) -> States:
    """Draw one column for each row with probabilities proportional to exp(scores)."""
    return np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def _examples(
    inputs: States, states: States, edges: Indices, hidden: NDArray[np.bool_]
) -> "tuple[list[GraphInput], list[States]]":
    from latentstruct.tasks.graph.inputs import GraphInput

    node_types = np.where(hidden, "h", "y")
    features = np.eye(N_STATES)[inputs]
    X = [GraphInput(features=one, edges=edges, node_types=node_types) for one in features]
    return X, list(np.where(hidden, UNKNOWN, states))


@dataclass(frozen=True)
class NoisyImages:
    """Noisy copies of one labeled image, with labels missing in the copies to train on.

    Attributes
    ----------
    truth : ndarray of shape (rows, columns)
        Labels 1 … 5.
    X_train, X_test : list of GraphInput
        Grids with four neighbors, row by row; the features of a pixel are its value and a constant 1. All edges are
        of one type.
    Y_train : list of ndarray of shape (rows · columns,)
        Labels, −1 where they are missing.
    Y_test : list of ndarray
        Labels without gaps.
    """

    truth: States
    X_train: "list[GraphInput]"
    Y_train: list[States]
    X_test: "list[GraphInput]"
    Y_test: list[States]

    __repr__ = short_repr


def draw_truth(shape: tuple[int, int] = (20, 40)) -> States:
    """Return an image of labels 1 … 5: three layers, the middle one stepped, with a disc and two blocks upon them.

    Parameters
    ----------
    shape : (int, int), default=(20, 40)
        Rows and columns, at least 2 each.
    """
    if len(shape) != 2 or min(shape) < 2:
        raise InputError("shape", shape, "two numbers of pixels of at least 2 each")
    down = (np.arange(shape[0])[:, None] + 0.5) / shape[0]
    across = (np.arange(shape[1])[None, :] + 0.5) / shape[1]
    image = np.where(down < np.where(across < 0.45, 0.35, 0.5), 1, np.where(down < 0.75, 3, 5))
    image[(across - 0.72) ** 2 / 0.12**2 + (down - 0.3) ** 2 / 0.24**2 < 1] = 4
    image[(np.abs(across - 0.2) < 0.1) & (np.abs(down - 0.55) < 0.3)] = 2
    image[(np.abs(across - 0.6) < 0.2) & (np.abs(down - 0.88) < 0.08)] = 2
    return image


def make_noisy_images(
    n_train: int = 10,
    n_test: int = 10,
    shape: tuple[int, int] = (20, 40),
    noise: float = 5.0,
    missing: float = 0.5,
    reading: Reading = "variance",
    random_state: int | None = 0,
) -> NoisyImages:
    """Make noisy copies of `draw_truth` and remove labels of the training copies at random.

    Parameters
    ----------
    n_train, n_test : int, default=10
        Numbers of copies.
    shape : (int, int), default=(20, 40)
        Rows and columns.
    noise : float, default=5.0
        Spread of the normal noise upon the labels 1 … 5.
    missing : float, default=0.5
        Share of pixels of each training image without a label, from 0 to below 1. With the same seed the noise is the
        same, and what is missing at a smaller share is missing at a larger one.
    reading : {"variance", "deviation"}, default="variance"
        Whether `noise` is the variance or the standard deviation.
    random_state : int or None, default=0
        Seed; None for other data at each call.

    Returns
    -------
    NoisyImages
        Images as grids, and their labels.

    Notes
    -----
    Ping, Liu & Ihler (2014), section 7.2; the image is not theirs, which is not published as numbers.
    """
    from latentstruct.tasks.graph.inputs import grid_graph

    for name, count in (("n_train", n_train), ("n_test", n_test)):
        if count < 1:
            raise InputError(name, count, "at least 1")
    if not 0 <= missing < 1:
        raise InputError("missing", missing, "a fraction of at least 0 and below 1")
    deviation = _deviation("noise", noise, reading)
    truth = draw_truth(shape)
    rng = np.random.default_rng(random_state)
    values = truth + deviation * rng.standard_normal((n_train + n_test, *shape))
    X = [grid_graph(np.stack([image, np.ones(shape)], axis=-1), neighbors=4, edge_types=None) for image in values]
    labels = np.tile(truth.ravel(), (n_train + n_test, 1))
    order = np.argsort(rng.random((n_train, truth.size)), axis=1)
    np.put_along_axis(labels[:n_train], order[:, : round(missing * truth.size)], UNKNOWN, axis=1)
    return NoisyImages(truth, X[:n_train], list(labels[:n_train]), X[n_train:], list(labels[n_train:]))
