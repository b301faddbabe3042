"""Random problems: a built-in task with random parameters, and small random data that may be awkward."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from latentstruct import (
    Alignment,
    CandidateTask,
    Chain,
    Coreference,
    CorrelationClustering,
    Detection,
    DetectionInput,
    DiverseSubset,
    Graph,
    GraphInput,
    LatentMulticlass,
    Measure,
    Motif,
    Multiclass,
    PairwiseRanking,
    Parsing,
    PrecisionAtK,
    pair_features,
)
from latentstruct.data.trees import Tree, words

SIZES = ((1, 3, 0.15), (4, 20, 0.65), (30, 200, 0.2))
"""Fewest and most examples, and how often."""
SCALES = (1.0, 1.0, 1.0, 1.0, 1e-6, 1e3, 1e6)
UNKNOWN = -1


@dataclass
class Draw:
    """The random numbers of one problem, and what is awkward about its data."""

    rng: np.random.Generator
    n: int
    scale: float
    one_label: bool
    twists: list[str] = field(default_factory=list)

    @classmethod
    def new(cls, rng: np.random.Generator) -> "Draw":
        """Draw size, scale and whether there is one label only."""
        low, high, _ = SIZES[rng.choice(len(SIZES), p=[share for _, _, share in SIZES])]
        found = cls(rng, int(rng.integers(low, high + 1)), float(rng.choice(SCALES)), bool(rng.random() < 0.08))
        found.twists += [f"scale {found.scale:g}"] * (found.scale != 1.0) + ["one label"] * found.one_label
        return found

    def chance(self, share: float) -> bool:
        """Return True so often."""
        return bool(self.rng.random() < share)

    def whole(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def one_of(self, *options: Any) -> Any:
        """Return one of the options."""
        return options[self.rng.integers(len(options))]

    def labels(self, n: int, n_labels: int) -> Any:
        """Return n label numbers."""
        return np.zeros(n, dtype=int) if self.one_label else self.rng.integers(0, n_labels, n)

    def rows(self, n: int, d: int, shift: Any = 0.0) -> Any:
        """Return features (n, d), in some problems rounded, so that scores tie, or zero."""
        found = self.rng.normal(size=(n, d)) + shift
        if "ties" in self.twists:
            found = np.round(found)
        if "zeros" in self.twists:
            found *= 0.0
        return self.scale * found

    def input_rows(self, n: int, d: int, shift: Any = 0.0) -> Any:
        """Return features as an array or a sparse one."""
        dense = self.rows(n, d, shift)
        return sparse.csr_array(dense) if "sparse" in self.twists else dense


@dataclass(frozen=True)
class Problem:
    """A task with data.

    `soft` tells whether temperatures above 0 are known to the task.
    """

    task: Any
    X: Any
    Y: Any
    latent: bool
    soft: bool
    twists: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the task."""
        return type(self.task).__name__

    def first(self, n: int) -> tuple[Any, Any]:
        """Return the first examples."""
        return self.X[:n], self.Y[:n]


class Options(CandidateTask):
    """Candidates that can be listed, in groups of which the true one is known: which of a group is latent."""

    latent = True

    def candidates(self, x: Any) -> tuple[list[int], list[int], Any]:
        """Return groups, numbers within them and features of the rows of x, whose first column is the group."""
        groups = x[:, 0].astype(int).tolist()
        return groups, list(range(len(groups))), x[:, 1:]


def costs_of(draw: Draw, n_labels: int) -> Any:
    """Return costs of wrong labels, or None."""
    if draw.chance(0.7):
        return None
    costs = draw.rng.uniform(0.0, 3.0, (n_labels, n_labels)).round(1)
    np.fill_diagonal(costs, 0.0)
    return costs


def multiclass(draw: Draw) -> Problem:
    """Draw classes with features around their centers."""
    S, d = draw.whole(2, 5), draw.whole(1, 6)
    y = draw.labels(draw.n, S)
    X = draw.input_rows(draw.n, d, draw.rng.normal(size=(S, d))[y])
    task = Multiclass(labels=list(range(S)), costs=costs_of(draw, S), bias=draw.one_of(0.0, 1.0))
    return Problem(task, X, y, False, True, tuple(draw.twists))


def chain(draw: Draw) -> Problem:
    """Draw sequences, some of them empty, and in some problems with unknown labels."""
    S, d, half = draw.whole(1, 4), draw.whole(1, 4), draw.chance(0.5)
    lengths = draw.rng.integers(0, draw.one_of(3, 9), draw.n)
    lengths[0] = max(lengths[0], 1)
    truth = [draw.labels(int(length), S) for length in lengths]
    X = [draw.input_rows(len(y), d, np.eye(S, d)[y]) for y in truth]
    Y = [np.where(draw.rng.random(len(y)) < 0.4 * half, UNKNOWN, y) for y in truth]
    flags = {name: draw.chance(0.3) for name in ("start", "end", "bias")}
    task = Chain(labels=list(range(S)), costs=costs_of(draw, S), **flags)
    return Problem(task, X, Y, any((y == UNKNOWN).any() for y in Y), True, tuple(draw.twists))


def graph(draw: Draw) -> Problem:
    """Draw trees, loops and single nodes, some with hidden nodes or unknown labels, some beyond exact inference."""
    S, d = draw.whole(2, 3), draw.whole(1, 3)
    hidden, half = draw.chance(0.3), draw.chance(0.4)
    X, Y = [], []
    for _ in range(min(draw.n, 60)):
        size = draw.whole(1, 6)
        parents = [(draw.whole(0, v - 1), v) for v in range(1, size)]
        loops = [(u, v) for u in range(size) for v in range(u + 1, size) if draw.chance(0.2) and (u, v) not in parents]
        edges = np.array(parents + loops, dtype=np.int64).reshape(-1, 2)
        y = draw.labels(size, S)
        types = np.where(draw.rng.random(size) < 0.4, "hidden", "seen") if hidden else None
        X.append(GraphInput(draw.input_rows(size, d, np.eye(S, d)[y]), edges, node_types=types))
        unknown = draw.rng.random(size) < 0.4 * half
        Y.append(np.where(unknown if types is None else (types == "hidden") | unknown, UNKNOWN, y))
    if all((y == UNKNOWN).all() for y in Y):
        X, Y = [GraphInput(draw.input_rows(1, d), np.zeros((0, 2), dtype=np.int64))], [np.array([0])]
        hidden = False
    settings: dict[str, Any] = {"hidden": {"hidden": 2}} if hidden else {}
    if draw.chance(0.2):
        settings |= {"max_entries": 4, "counting": draw.one_of("auto", "bethe", "trees")}
        draw.twists.append("approximate")
    task = Graph(labels=list(range(S)), **settings)
    return Problem(task, X, Y, any((y == UNKNOWN).any() for y in Y), True, tuple(draw.twists))


def motif(draw: Draw) -> Problem:
    """Draw DNA with a planted motif in the positive sequences."""
    width = draw.whole(2, 5)
    planted = "".join(draw.rng.choice(list("ACGT"), width))
    y = np.where(draw.labels(draw.n, 2) == 0, 1, -1)
    X = []
    for label in y:
        letters = "".join(draw.rng.choice(list("ACGT") + ["N"] * draw.chance(0.1), draw.whole(width, 25)))
        at = draw.whole(0, len(letters) - width)
        # Every sequence needs a window without N.
        middle = planted if label > 0 else "".join(draw.rng.choice(list("ACGT"), width))
        X.append(letters[:at] + middle + letters[at + width :])
    task = Motif(width, background_order=draw.whole(0, 2), strands=draw.whole(1, 2))
    return Problem(task, X, y, True, True, tuple(draw.twists))


def alignment(draw: Draw) -> Problem:
    """Draw pairs of short strings with an increasing set of matches."""
    partial = draw.chance(0.3)
    X, Y = [], []
    for _ in range(min(draw.n, 40)):
        a, b = ("".join(draw.rng.choice(list("ARND"), draw.whole(1, 8))) for _ in range(2))
        most = min(len(a), len(b))
        size = draw.whole(0 if draw.chance(0.1) else 1, most)
        pairs = [np.sort(draw.rng.choice(len(one), size, replace=False)) for one in (a, b)]
        X.append((a, b))
        Y.append(np.stack(pairs, axis=1).astype(np.int64))
    task = Alignment(
        features=draw.one_of("simple", "simple", "window"),
        mode=draw.one_of("local", "global"),
        alphabet="ARND",
        tolerance=draw.whole(0, 4),
        symmetric=draw.chance(0.5),
        partial=partial,
    )
    return Problem(task, X, Y, partial, True, tuple(draw.twists))


def random_tree(draw: Draw, most: int) -> Tree:
    """Return a tree over a limited number of words."""
    if most <= 1 or draw.chance(0.25):
        return Tree(draw.one_of("N", "V"), (draw.one_of("dog", "cat", "runs", "sees", f"w{draw.whole(0, 99)}"),))
    children = tuple(random_tree(draw, most // 2) for _ in range(draw.whole(1, 3)))
    return Tree(draw.one_of("A", "B"), children)


def parsing(draw: Draw) -> Problem:
    """Draw trees over short sentences."""
    Y = [Tree("S", (random_tree(draw, 4), random_tree(draw, 2))) for _ in range(min(draw.n, 20))]
    splits = draw.one_of(1, 1, 2)
    loss = draw.one_of("hamming", "hamming", "f1") if splits == 1 else "hamming"
    features, unknown = draw.one_of("rules", "spans"), draw.one_of("suffix", "class", "one")
    task = Parsing(features=features, loss=loss, splits=splits, unknown=unknown)
    return Problem(task, [words(tree) for tree in Y], Y, splits > 1, loss == "hamming", tuple(draw.twists))


def diversity(draw: Draw) -> Problem:
    """Draw documents with words and subtopics."""
    X, Y = [], []
    for _ in range(min(draw.n, 40)):
        size = draw.whole(3, 7)
        X.append(draw.rng.poisson(0.7, (size, draw.whole(2, 8))).astype(float))
        Y.append([draw.rng.choice(list("abcd"), draw.whole(0, 2), replace=False).tolist() for _ in range(size)])
    return Problem(DiverseSubset(k=draw.whole(1, 3)), X, Y, False, False, tuple(draw.twists))


def clusters(draw: Draw) -> tuple[Any, Any]:
    """Draw items in clusters and the features of their pairs."""
    Y = [draw.labels(draw.whole(1, 6), 3) for _ in range(min(draw.n, 60))]
    Y[0] = np.array([0, 1, 0])
    d = draw.whole(1, 3)
    X = [pair_features(draw.rows(len(y), d, np.eye(3, d)[y])) for y in Y]
    return X, Y


def coreference(draw: Draw) -> Problem:
    """Draw clusters that are held together by latent links."""
    task = Coreference(penalty=draw.one_of(0.01, 0.3, 1.0))
    return Problem(task, *clusters(draw), True, False, tuple(draw.twists))


def correlation(draw: Draw) -> Problem:
    """Draw clusters of which all pairs count."""
    return Problem(CorrelationClustering(), *clusters(draw), False, False, tuple(draw.twists))


def queries(draw: Draw) -> tuple[Any, Any]:
    """Draw documents with grades."""
    sizes = draw.rng.integers(1, 8, draw.n)
    d = draw.whole(1, 4)
    Y = [draw.labels(int(size), 3) for size in sizes]
    return [draw.input_rows(len(y), d, y[:, None]) for y in Y], Y


def precision(draw: Draw) -> Problem:
    """Draw queries of which the first k documents count."""
    return Problem(PrecisionAtK(draw.whole(1, 4)), *queries(draw), True, False, tuple(draw.twists))


def ranking(draw: Draw) -> Problem:
    """Draw queries of which all pairs of documents count."""
    return Problem(PairwiseRanking(draw.chance(0.5)), *queries(draw), False, False, tuple(draw.twists))


def measure(draw: Draw) -> Problem:
    """Draw two classes for a measure of the whole set."""
    n = max(draw.n, 4)
    y = draw.labels(n, 2)
    y[:2] = (0, 1)
    X = draw.input_rows(n, draw.whole(1, 4), y[:, None])
    loss = draw.one_of("f1", "rocarea", "prbep", "precision@k", "recall@k", "error")
    settings = {"k": draw.whole(1, 2)} if loss.endswith("@k") else {}
    return Problem(Measure(loss, bias=draw.one_of(0.0, 1.0), **settings), X, y, False, False, tuple(draw.twists))


def detection(draw: Draw) -> Problem:
    """Draw boxes with features, one of which shows the class."""
    d, y = draw.whole(1, 3), draw.labels(draw.n, 2)
    X = []
    for label in y:
        H = draw.whole(1, 4)
        corners = draw.rng.integers(0, 10, (H, 2))
        boxes = np.concatenate([corners, corners + draw.rng.integers(1, 8, (H, 2))], axis=1)
        shift = np.zeros((H, d))
        shift[draw.whole(0, H - 1)] = 3.0 * (2 * label - 1)
        X.append(DetectionInput(boxes, draw.rows(H, d, shift)))
    task = Detection(draw.one_of("overlap", "zero_one", None), labels=[0, 1], bias=draw.one_of(0.0, 1.0))
    return Problem(task, X, y, True, True, tuple(draw.twists))


def latent_multiclass(draw: Draw) -> Problem:
    """Draw classes with views of their inputs, or with weights for each state."""
    S, H, d = draw.whole(2, 3), draw.whole(1, 4), draw.whole(1, 3)
    y = draw.labels(draw.n, S)
    weights = draw.one_of("class", "state")
    X = draw.rows(draw.n * H, d).reshape(draw.n, H, d) + draw.scale * np.eye(S, d)[y][:, None]
    task = LatentMulticlass(
        n_states=H,
        weights=weights,
        labels=list(range(S)),
        costs=costs_of(draw, S),
        latent_loss=draw.one_of(None, "zero_one"),
    )
    return Problem(task, X, y, True, True, tuple(draw.twists))


def candidates(draw: Draw) -> Problem:
    """Draw candidates of a task that lists them."""
    X, Y, d = [], [], draw.whole(1, 3)
    for _ in range(min(draw.n, 40)):
        groups = draw.labels(draw.whole(1, 5), 3)
        X.append(np.column_stack([groups, draw.rows(len(groups), d)]))
        Y.append(int(draw.one_of(*groups)))
    return Problem(Options(), X, Y, True, True, tuple(draw.twists))


KINDS: dict[str, Callable[[Draw], Problem]] = {
    "Alignment": alignment,
    "Options": candidates,
    "Chain": chain,
    "Coreference": coreference,
    "CorrelationClustering": correlation,
    "Detection": detection,
    "DiverseSubset": diversity,
    "Graph": graph,
    "LatentMulticlass": latent_multiclass,
    "Measure": measure,
    "Motif": motif,
    "Multiclass": multiclass,
    "PairwiseRanking": ranking,
    "Parsing": parsing,
    "PrecisionAtK": precision,
}
TWISTS = {"ties": 0.12, "zeros": 0.03, "sparse": 0.2}


def draw_problem(rng: np.random.Generator) -> Problem:
    """Draw a task and data; in some problems every example is there twice."""
    draw = Draw.new(rng)
    draw.twists += [name for name, share in TWISTS.items() if draw.chance(share)]
    twice = draw.chance(0.1)
    found = KINDS[draw.one_of(*KINDS)](draw)
    if not twice:
        return found
    twists = (*found.twists, "duplicates")
    return Problem(found.task, doubled(found.X), doubled(found.Y), found.latent, found.soft, twists)


def doubled(examples: Any) -> Any:
    """Return every example twice."""
    if sparse.issparse(examples):
        return sparse.vstack([examples, examples], format="csr")
    return np.concatenate([examples, examples]) if isinstance(examples, np.ndarray) else [*examples, *examples]
