"""Belief propagation on a grid and forward-backward on chains, one thread: messages and chains a second."""

import importlib.util
from typing import Any

import numpy as np

from benchmarks.common import Line, cpu
from latentstruct._native.propagation import run_pairwise
from latentstruct.core.protocols import Temperature
from latentstruct.inference.propagation import Propagation
from latentstruct.inference.structure import FactorGraphs, pairwise_graphs
from latentstruct.tasks.chain.batch import NO_LABELS, TOGETHER, Selection, pool

SIDE, STATES, SWEEPS = 50, 5, 20
CHAINS, LENGTH, LABELS = 1000, 50, 20


def grid() -> FactorGraphs:
    numbers = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    across = np.stack([numbers[:, :-1].ravel(), numbers[:, 1:].ravel()], axis=1)
    down = np.stack([numbers[:-1].ravel(), numbers[1:].ravel()], axis=1)
    edges = np.concatenate([across, down])
    return pairwise_graphs(np.full(numbers.size, STATES), edges, [0, numbers.size], [0, len(edges)])


def seconds_a_message(structure: FactorGraphs, unary: Any, tables: Any, linear: bool, repeats: int) -> float:
    """CPU time of one undamped message of sum-product, sweeps alone."""
    propagation = Propagation(structure, np.zeros(len(structure.cards), dtype=bool))
    task = propagation.begin(unary, tables, np.arange(1), None)
    every, never = np.ones(1, dtype=bool), np.zeros(1, dtype=bool)

    def sweep(n_sweeps: int) -> None:
        run_pairwise(
            propagation.wiring,
            task.selected,
            every,
            task.folded,
            task.tables,
            task.messages,
            propagation.hidden,
            (1.0, 1.0),
            (n_sweeps, 0.0, 0.0),
            never,
            linear,
            task.sweeps,
            task.residuals,
        )

    sweep(1)
    # Tables are exponentiated once a run, however long it is.
    short, long = (cpu(lambda n=n: sweep(n), repeats)[0] for n in (1, 1 + SWEEPS))  # type: ignore[misc]
    return (long - short) / (SWEEPS * len(structure.scopes))


def seconds_a_pgmax_message(structure: FactorGraphs, unary: Any, tables: Any, repeats: int) -> float:
    """The same of pgmax, both directions counted alike; compiled before the clock runs."""
    import jax
    import jax.extend.backend
    from pgmax import fgraph, fgroup, infer, vgroup

    if not hasattr(jax.lib, "xla_bridge"):
        # Pgmax looks for the backend where newer versions of jax no longer keep it.
        jax.lib.xla_bridge = jax.extend.backend
    variables = vgroup.NDVarArray(num_states=STATES, shape=(len(structure.cards),))
    graph = fgraph.FactorGraph(variable_groups=variables)
    pairs = structure.scopes.reshape(-1, 2)
    graph.add_factors(
        fgroup.PairwiseFactorGroup(
            variables_for_factors=[[variables[int(a)], variables[int(b)]] for a, b in pairs],
            log_potential_matrix=tables.reshape(-1, STATES, STATES),
        )
    )
    bp = infer.build_inferer(graph.bp_state, backend="bp")
    arrays = bp.init(evidence_updates={variables: unary.reshape(-1, STATES)})

    run_compiled = jax.jit(bp.run, static_argnames=("num_iters", "damping", "temperature"))

    def sweep(n_sweeps: int) -> Any:
        return jax.block_until_ready(run_compiled(arrays, num_iters=n_sweeps, damping=0.0, temperature=1.0).ftov_msgs)

    for n in (1, 1 + SWEEPS):
        sweep(n)
    short, long = (cpu(lambda n=n: sweep(n), repeats)[0] for n in (1, 1 + SWEEPS))  # type: ignore[misc]
    return (long - short) / (SWEEPS * len(structure.scopes))


def forward_backward(scores: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """Pair expectations of all chains together, as the chain task computes them; `scores` become the marginals."""
    offsets = np.arange(0, len(scores) + 1, LENGTH)
    chosen = Selection(np.arange(CHAINS), None, offsets, NO_LABELS, scores)
    return pool(chosen, transitions, Temperature(1.0, 1.0), np.ones(CHAINS), TOGETHER).pairs[0]


def seconds_a_torch_chain(scores: np.ndarray, transitions: np.ndarray) -> float:
    """The same of torch-struct, on fewer chains: pair marginals are the derivatives it returns."""
    import torch
    from torch_struct import LinearChainCRF

    torch.set_num_threads(1)
    few = 100
    tokens = torch.tensor(scores.reshape(CHAINS, LENGTH, LABELS)[:few])
    # Edge t → t + 1 is (to, from); the first token joins the first edge.
    edges = tokens[:, 1:, :, None] + torch.tensor(transitions).T
    edges[:, 0] += tokens[:, 0, None, :]
    seconds, _ = cpu(lambda: LinearChainCRF(edges).marginals.sum(dim=(0, 1)), repeats=2)
    return seconds / few


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def grid_lines(repeats: int) -> list[Line]:
    rng = np.random.default_rng(0)
    structure = grid()
    unary, tables = rng.normal(size=int(structure.state_at[-1])), 0.5 * rng.normal(size=int(structure.table_at[-1]))
    linear, logs = (seconds_a_message(structure, unary, tables, kind, repeats) for kind in (True, False))
    what = f"sum-product on a {SIDE}×{SIDE} grid, {STATES} states, one message"
    lines = [
        Line(f"{what}, linear domain", linear, 1e-7, "target", 1.0, f"{1 / linear:.3g} messages/s"),
        Line(f"{what}, log domain", logs, 1.25e-7, "target", 1.0, f"{1 / logs:.3g} messages/s"),
    ]
    if installed("pgmax"):
        peer = seconds_a_pgmax_message(structure, unary, tables, repeats)
        lines.append(Line(what, linear, peer, "pgmax", 1 / 1.5, f"pgmax {1 / peer:.3g} messages/s"))
    else:
        print("pgmax is not installed: its line is left out")
    return lines


def chain_lines(repeats: int) -> list[Line]:
    rng = np.random.default_rng(0)
    scores, transitions = rng.normal(size=(CHAINS * LENGTH, LABELS)), rng.normal(size=(LABELS, LABELS))
    copies = [scores.copy() for _ in range(repeats + 1)]
    forward_backward(copies.pop(), transitions)
    ours, pairs = cpu(lambda: forward_backward(copies.pop(), transitions), repeats)
    ours /= CHAINS
    what = f"forward-backward with pair expectations, one chain of {LENGTH}, {LABELS} labels"
    reached = f"{1 / ours:.3g} chains/s"
    lines = [Line(what, ours, 2e-5, "target", 1.0, reached)]
    if installed("torch_struct"):
        peer = seconds_a_torch_chain(scores, transitions)
        lines.append(Line(what, ours, peer, "torch-struct", 0.01, f"torch-struct {1 / peer:.3g} chains/s"))
    else:
        print("torch-struct is not installed: its line is left out")
    assert abs(pairs.sum() - CHAINS * (LENGTH - 1)) < 1e-6 * pairs.sum()
    return lines


def run(quick: bool = False) -> list[Line]:
    repeats = 10 if quick else 40
    return grid_lines(repeats) + chain_lines(repeats)
