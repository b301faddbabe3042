"""The structure of factor graphs in the layout of the kernels of belief propagation."""

from typing import NamedTuple

from latentstruct.core.types import Indices, Vector


class Wiring(NamedTuple):
    """Structure of all graphs (see `FactorGraphs`) with lookup tables of the kernels.

    near_at, near : entries of each variable in factors of two or more, those of earlier neighbors first
    near_mid : start of the entries of later neighbors
    back : for each place in `near`, that of the other variable of the factor
    order : variables of each graph in the order of sweeps; in forests each after the one through which it is reached
    factor_order : factors of each graph in the order in which they were reached
    shares : ρ_f of each factor, 1 except in tree-reweighted propagation, which supports factors of two variables only

    `near_mid` and `back` are used only in graphs without factors of more than two variables.
    """

    cards: Indices
    scope_at: Indices
    scopes: Indices
    variables_at: Indices
    factors_at: Indices
    state_at: Indices
    table_at: Indices
    message_at: Indices
    factor_of: Indices
    near_at: Indices
    near: Indices
    near_mid: Indices
    back: Indices
    order: Indices
    factor_order: Indices
    shares: Vector


class Selected(NamedTuple):
    """The selected graphs and the starts of their compact entries, each array but `graphs` of shape (k + 1,)."""

    graphs: Indices
    unary_at: Indices
    tables_at: Indices
    messages_at: Indices
    variables_at: Indices
