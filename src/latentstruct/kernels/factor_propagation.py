"""Belief propagation through factors of any number of variables, in the log domain.

A sweep takes the factors from the last to the first and back; each sends to all its variables (see
`latentstruct.kernels.propagation.send`).
"""

import numpy as np

from latentstruct.kernels.jit import inlined, njit
from latentstruct.kernels.pairwise_propagation import FALL, PATIENCE
from latentstruct.kernels.propagation import gather, group_outputs, largest, send, settle, shifts_of, sum_messages


@inlined
def count_message(messages, message_at, n, sign, total, blocked, at):
    """Put a message into the sums of its variable (sign 1), or take it out of them (−1)."""
    for x in range(n):
        if messages[message_at + x] > -np.inf:
            total[at + x] += sign * messages[message_at + x]
        else:
            blocked[at + x] += sign


@njit
def factor_sweep(wiring, g, backward, shifts, tables, messages, hidden, weights, damping, total, blocked, rooms):
    """Send once from each factor of graph g to all its variables; return the largest change of an entry."""
    to_unary, to_table, to_message = shifts
    work, group, incoming, incoming_at, out = rooms
    residual = 0.0
    first, last = wiring.factors_at[g], wiring.factors_at[g + 1]
    for step in range(last - first):
        f = wiring.factor_order[last - 1 - step] if backward else wiring.factor_order[first + step]
        scope, arity = wiring.scope_at[f], wiring.scope_at[f + 1] - wiring.scope_at[f]
        if arity < 2:
            continue
        gather(wiring, f, to_unary, messages, to_message, total, blocked, incoming, incoming_at)
        n_groups = group_outputs(wiring, f, hidden, group)
        factor = (f, wiring.table_at[f] + to_table, n_groups)
        for slot in range(arity):
            send(wiring, factor, tables, incoming, incoming_at, group, hidden, slot, weights, work, out)
            v = wiring.scopes[scope + slot]
            n, at, to = wiring.cards[v], wiring.state_at[v] + to_unary, wiring.message_at[scope + slot] + to_message
            count_message(messages, to, n, -1, total, blocked, at)
            residual = max(residual, settle(out, n, messages, to, damping))
            count_message(messages, to, n, 1, total, blocked, at)
    return residual


@njit
def run_factors(wiring, asked, wanted, unary, tables, messages, hidden, weights, limits, once, sweeps, residuals):
    """Sweep over each of the graphs `wanted` until its messages rest; arguments as in `run_pairwise`."""
    max_sweeps, damping, tol = limits
    size, states, arity = largest(wiring, asked)
    rooms = (
        np.empty((3, size)),
        np.empty(size, dtype=np.int64),
        np.empty(states),
        np.empty(arity, dtype=np.int64),
        np.empty(states),
    )
    total, blocked = np.empty(unary.shape[0]), np.empty(unary.shape[0], dtype=np.int64)
    for k in range(asked.graphs.shape[0]):
        if not wanted[k]:
            continue
        g = asked.graphs[k]
        shifts = shifts_of(wiring, asked, k)
        residual, lowest, stalled, count = np.inf, np.inf, 0, 0
        while count < max_sweeps and residual > tol:
            damp = damping if stalled >= PATIENCE else 0.0
            for v in range(wiring.variables_at[g], wiring.variables_at[g + 1]):
                sum_messages(wiring, v, shifts, unary, messages, total, blocked)
            residual = 0.0
            for backward in (True, False):
                change = factor_sweep(
                    wiring, g, backward, shifts, tables, messages, hidden, weights, damp, total, blocked, rooms
                )
                residual = max(residual, change)
            count += 1
            if once[g]:
                residual = 0.0
            stalled += residual > FALL * lowest
            lowest = min(lowest, residual)
        sweeps[k], residuals[k] = sweeps[k] + count, residual
