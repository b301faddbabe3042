"""Belief propagation over factor graphs: wiring, sweeps of messages, beliefs and values read from them, decoding.

All arrays are flat. Messages m_{f→v} run from factors to variables; scope entry e stands for the pair (factor_of[e],
scopes[e]) and its message has the entries message_at[e] … message_at[e + 1]. Only factors of two or more variables
send messages: smaller ones are folded into the unary terms beforehand. Potentials and messages of the selected graphs
are compact: those of selected graph k begin at unary_at[k], tables_at[k] and messages_at[k].

ε_y is the temperature of outputs, ε_h that of hidden variables. Where both are equal, callers pass `hidden` all False,
so that every variable is pooled alike; where they differ, ε_h > 0 is required. A message of −inf marks an impossible
state; no sum or maximum becomes NaN.
"""

from typing import NamedTuple

from latentstruct._native.propagation import fold, most_probable, read_out, traverse
from latentstruct.core.types import Indices, Vector

__all__ = ["Asked", "Wiring", "fold", "most_probable", "read_out", "traverse"]


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
