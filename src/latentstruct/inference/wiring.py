"""The structure of factor graphs as the kernels of belief propagation look it up."""

from typing import NamedTuple

from latentstruct.core.types import Indices, Vector


class Wiring(NamedTuple):
    """Structure of all graphs (see `FactorGraphs`) with what the kernels look up.

    near_at, near : entries of each variable in factors of two or more, those of earlier neighbours first
    near_mid : where the entries of later neighbours begin
    back : for each place a in `near`, that of the other variable of the factor
    order : variables of each graph in the order of sweeps; in forests each after the one through which it is reached
    factor_order : factors of each graph in the order in which they were reached
    shares : ρ_f of each factor, 1 but for tree-reweighted propagation, which takes factors of two variables only

    `near_mid` and `back` are of use only in graphs without factors of more than two variables.
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


class Asked(NamedTuple):
    """The selected graphs and where their compact entries begin, each array but `graphs` of shape (k + 1,)."""

    graphs: Indices
    unary_at: Indices
    tables_at: Indices
    messages_at: Indices
    variables_at: Indices
