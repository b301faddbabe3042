"""Graphs too wide for a small table: how far the best assignment is from its bound, and branch and bound by toulbar2.

Six families of random models. Where elimination fits into a table of 2**22 entries, log Z is known, and the bounds are
compared with it. toulbar2 has ten seconds per model.
"""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.common import Line, cpu
from latentstruct.core.protocols import Temperature
from latentstruct.inference.bounds import BoundedInference
from latentstruct.inference.elimination import Elimination
from latentstruct.inference.pruning import Pruned
from latentstruct.inference.structure import FactorGraphs, pairwise_graphs
from latentstruct.inference.toulbar2 import maximize

ENTRIES = 2**10
"""Largest table for bounds."""
EXACT = 2**22
SECONDS = 10.0

Model = tuple[FactorGraphs, np.ndarray, np.ndarray]


def grid(rows: int, columns: int, states: int, strength: float, attractive: bool, seed: int) -> Model:
    """Return a grid with normal unary potentials and a coupling per edge for equal states."""
    rng = np.random.default_rng(seed)
    number = np.arange(rows * columns).reshape(rows, columns)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs])
    structure = pairwise_graphs([states] * number.size, edges, [0, number.size], [0, len(edges)])
    couplings = rng.uniform(0, 1, len(edges)) if attractive else rng.normal(size=len(edges))
    tables = strength * couplings[:, None, None] * np.eye(states)
    return structure, rng.normal(size=number.size * states), tables.ravel()


def regions(seed: int, n: int = 300, states: int = 7) -> Model:
    """Return a planar graph of regions, as superpixels of an image have, with couplings by contrast."""
    from scipy.spatial import Delaunay

    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    triangles = Delaunay(points).simplices
    edges = np.unique(
        np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [0, 2]]])), axis=0
    )
    structure = pairwise_graphs([states] * n, edges, [0, n], [0, len(edges)])
    costs = rng.uniform(0.2, 1.0, (states, states))
    contrast = 2.0 * np.exp(-rng.exponential(size=len(edges)))
    tables = -contrast[:, None, None] * (costs + costs.T) * (1 - np.eye(states))
    return structure, 1.5 * rng.normal(size=n * states), tables.ravel()


def pedigree(seed: int, generations: int = 6, size: int = 16, alleles: int = 3, observed: float = 0.4) -> Model:
    """Return genotypes of a random pedigree, ordered pairs of alleles that are inherited, some of them observed."""
    rng = np.random.default_rng(seed)
    n_states = alleles**2
    inherit = np.zeros((n_states, n_states, n_states))
    for m in range(n_states):
        for f in range(n_states):
            for a in divmod(m, alleles):
                for b in divmod(f, alleles):
                    inherit[m, f, a * alleles + b] += 0.25
    prior = rng.dirichlet(np.ones(alleles))
    prior = np.outer(prior, prior).ravel()
    unary, scopes, true = [], [], []
    for v in range(generations * size):
        if v < size:
            true.append(rng.choice(n_states, p=prior))
            unary.append(np.log(prior))
        else:
            first = (v // size - 1) * size
            mother, father = (first + rng.choice(size, 2, replace=False)).tolist()
            scopes.append([mother, father, v])
            true.append(rng.choice(n_states, p=inherit[true[mother], true[father]]))
            unary.append(np.zeros(n_states))
        if rng.random() < observed:
            a, b = divmod(true[-1], alleles)
            seen = np.full(n_states, -np.inf)
            seen[[a * alleles + b, b * alleles + a]] = 0.0
            unary[-1] = unary[-1] + seen
    with np.errstate(divide="ignore"):
        table = np.log(inherit).ravel()
    n = len(true)
    ends = np.array([0, n]), np.array([0, len(scopes)])
    structure = FactorGraphs(
        np.full(n, n_states), 3 * np.arange(len(scopes) + 1), np.concatenate(scopes), *ends
    ).check()
    return structure, np.concatenate(unary), np.tile(table, len(scopes))


def dynamic(seed: int, steps: int = 20, chains: int = 12) -> Model:
    """Return coupled chains of binary variables: each depends on itself and two others of the step before."""
    rng = np.random.default_rng(seed)
    scopes, tables = [], []
    for t in range(1, steps):
        for c in range(chains):
            parents = (t - 1) * chains + np.array([c, *rng.choice(np.delete(np.arange(chains), c), 2, replace=False)])
            scopes.append([*parents, t * chains + c])
            p = rng.beta(0.5, 0.5, (2, 2, 2))
            tables.append(np.log(np.clip(np.stack([p, 1 - p], axis=-1), 1e-6, 1.0)).ravel())
    n = steps * chains
    ends = np.array([0, n]), np.array([0, len(scopes)])
    structure = FactorGraphs(np.full(n, 2), 4 * np.arange(len(scopes) + 1), np.concatenate(scopes), *ends).check()
    return structure, 2.0 * rng.normal(size=2 * n), np.concatenate(tables)


FAMILIES: list[tuple[str, Callable[[int], Model]]] = [
    ("10 × 10 grids, 2 states, strong", lambda seed: grid(10, 10, 2, 3.0, False, seed)),
    ("20 × 20 grids, 2 states, strong", lambda seed: grid(20, 20, 2, 3.0, False, seed)),
    ("50 × 50 grids, 5 states, attractive", lambda seed: grid(50, 50, 5, 1.0, True, seed)),
    ("50 × 50 grids, 5 states, mixed", lambda seed: grid(50, 50, 5, 1.0, False, seed)),
    ("300 regions, 7 states", regions),
    ("pedigrees of 96, 9 genotypes", pedigree),
    ("240 variables of dynamic networks", dynamic),
]


def measure(model: Model) -> Iterator[float]:
    """Yield CPU seconds and gap of the maximum, distance to that of toulbar2, CPU seconds and gap of this, gap of Z."""
    structure, unary, tables = model
    pruned = Pruned(structure, unary, tables)
    graph, unary, tables = pruned.rest, pruned.unary, pruned.tables
    exact = Elimination(graph, np.zeros(len(graph.cards), dtype=np.bool_), EXACT)
    engine = BoundedInference(graph, ENTRIES)
    seconds, best = cpu(lambda: engine.run(unary, tables))
    peer_seconds, peer = cpu(lambda: maximize(graph, unary, tables, SECONDS))
    scale = max(1.0, abs(peer.lower))
    yield from (seconds, best.gap / scale, (peer.lower - best.lower) / scale, peer_seconds, peer.gap / scale)
    bounds = engine.run(unary, tables, 1.0)
    assert bounds.lower <= bounds.upper
    yield (bounds.upper - bounds.lower) / len(graph.cards)
    if exact.feasible[0]:
        value = float(exact.run(unary, tables, Temperature(1.0, 1.0)).values[0])
        assert bounds.lower - 1e-6 <= value <= bounds.upper + 1e-6


def run(quick: bool = False) -> list[Line]:
    lines = []
    for name, make in FAMILIES:
        found = np.array([list(measure(make(seed))) for seed in range(1 if quick else 3)])
        ours, gap, behind, peer, peer_gap, width = found.T
        reached = (
            f"gap {gap.max():.1e} (toulbar2 {peer_gap.max():.1e}), behind toulbar2 by {behind.max():.1e} at most; "
            f"bounds of log Z {width.max():.2g} apart per variable"
        )
        lines.append(Line(name, float(ours.sum()), float(peer.sum()), f"toulbar2, {SECONDS:g} s", None, reached))
    return lines
