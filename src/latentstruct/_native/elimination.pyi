import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]

def choose_order(
    cards: Indices,
    scope_at: Indices,
    scopes: Indices,
    hidden: NDArray[np.bool_],
    rule: int,
    max_entries: float,
    most_total: float,
) -> tuple[Indices, Indices, Indices, int, int, float, float]:
    """Eliminate symbolically by a rule, hidden variables first; stop at the first table above the limit.

    Returns the order, separator offsets, separators, number of steps done (below n if it stopped), then the maximum
    number of neighbors, the largest table and the sum of tables so far.
    """

def lay_out(
    cards: Indices,
    scope_at: Indices,
    scopes: Indices,
    table_at: Indices,
    order: Indices,
    separator_at: Indices,
    separators: Indices,
) -> tuple[Indices, Indices, NDArray[np.uint32], Indices, int]:
    """Convert an order to a program.

    Returns steps (n + 1, 12), inputs (·, 5), index lists, separators with strides (K, 2) and the size of the workspace.
    Positions count from the graph's first variable, state and table entry; those of inputs, separators and index
    entries from the program's own.
    """

def pool_graphs(
    programs: Indices,
    steps: Indices,
    inputs: Indices,
    index: NDArray[np.uint32],
    strides: Indices,
    constants: Indices,
    program_of: Indices,
    unary: Vector,
    unary_at: Indices,
    tables: Vector,
    tables_at: Indices,
    states_at: Indices,
    output_temperature: float,
    latent_temperature: float,
    alpha: float,
    values: Vector,
    unary_out: Vector,
    tables_out: Vector,
    states: Indices,
) -> None:
    """Value, derivatives (added to zeros) and decoded states of each graph; alpha = 0 is ordinary pooling.

    Derivatives and states stay 0 if no assignment is possible.

    States of outputs are the best ones jointly at ε_y = 0, else those of the largest marginals; of hidden variables
    the best ones given these at ε_h = 0, otherwise those of the largest P(h_v | ŷ).
    """
