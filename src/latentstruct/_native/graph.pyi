from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]

def score_items(
    rows: Any, graphs: Indices, items_at: Indices, shift: int, entries_at: Indices, w: Vector, out: Vector
) -> None:
    """Write to `out` the scores of all states of the selected graphs' items."""

def add_expected(
    rows: Any,
    graphs: Indices,
    items_at: Indices,
    shift: int,
    entries_at: Indices,
    beliefs: Vector,
    weights: Vector,
    slope: Vector,
) -> None:
    """Add Σ_k weights[k] times the expected features of graph k's items to `slope`."""

def add_losses(graphs: Indices, variables_at: Indices, state_at: Indices, losses: Vector, unary: Vector) -> None:
    """Add the losses of the selected graphs' states to their compact scores."""

def expected_losses(
    graphs: Indices, variables_at: Indices, state_at: Indices, losses: Vector, beliefs: Vector, out: Vector
) -> None:
    """out[k] = expected loss of graph k under its nodes' beliefs."""

def state_losses(
    graphs: Indices, variables_at: Indices, state_at: Indices, losses: Vector, states: Indices, out: Vector
) -> None:
    """out[k] = loss of graph k's assignment."""

def belief_atoms(
    graphs: Indices,
    variables_at: Indices,
    state_at: Indices,
    factors_at: Indices,
    table_at: Indices,
    edge_blocks: Indices,
    block_at: Indices,
    unary: Vector,
    tables: Vector,
    pointers: Indices,
    atoms: Any,
) -> None:
    """Write each selected graph's expected features as atoms: those of nodes, then those of edges.

    Edges without features (`edge_blocks` has their blocks; it is empty otherwise) are summed block by block.
    """

def state_atoms(
    graphs: Indices,
    variables_at: Indices,
    state_at: Indices,
    factors_at: Indices,
    scopes: Indices,
    edge_blocks: Indices,
    block_at: Indices,
    states: Indices,
    pointers: Indices,
    atoms: Any,
) -> None:
    """Write the features of each selected graph's assignment as atoms, as `belief_atoms` does."""
