"""Whole assignments of factor graphs: choosing them from messages, improving them, their scores and indicators.

See `latentstruct.kernels.propagation` for the layout.
"""

import numpy as np

from latentstruct.kernels.jit import inlined, njit
from latentstruct.kernels.propagation import gather, group_outputs, largest, send, shifts_of, sum_messages


@inlined
def entry_of(wiring, f, chosen, first):
    """Return the number of the table entry of factor f that the assignment meets."""
    entry = 0
    for e in range(wiring.scope_at[f], wiring.scope_at[f + 1]):
        v = wiring.scopes[e]
        entry = entry * wiring.cards[v] + chosen[v - first]
    return entry


@njit
def remaining_message(wiring, e, shifts, tables, messages, hidden, eps_h, sums, chosen, fixed, first, rooms, out):
    """Write what the factor of entry e says to its variable given those of its variables that are fixed."""
    to_unary, to_table, to_message = shifts
    total, blocked = sums
    work, group, incoming, incoming_at = rooms
    f = wiring.factor_of[e]
    begin, end = wiring.scope_at[f], wiring.scope_at[f + 1]
    any_fixed = False
    for other in range(begin, end):
        any_fixed = any_fixed or fixed[wiring.scopes[other] - first]
    if not any_fixed:
        for x in range(wiring.cards[wiring.scopes[e]]):
            out[x] = messages[wiring.message_at[e] + to_message + x]
        return
    gather(wiring, f, to_unary, messages, to_message, total, blocked, incoming, incoming_at)
    for other in range(begin, end):
        u, at = wiring.scopes[other], incoming_at[other - begin]
        if fixed[u - first]:
            incoming[at : at + wiring.cards[u]] = -np.inf
            incoming[at + chosen[u - first]] = 0.0
    factor = (f, wiring.table_at[f] + to_table, group_outputs(wiring, f, hidden, group))
    send(wiring, factor, tables, incoming, incoming_at, group, hidden, e - begin, (0.0, eps_h), work, out)


@njit
def decode(wiring, asked, wanted, unary, tables, messages, hidden, eps_h, states):
    """Choose the outputs of the graphs `wanted` one after the other, each the best given those chosen before.

    An output takes the argmax of its unary term plus messages, where a factor with chosen variables sends what remains
    of it (maximised over other outputs, pooled at ε_h over hidden ones). On forests where max-product is exact this
    is exact even where states tie. `states` of other graphs and of hidden variables stay as they are.
    """
    size, n_states, arity = largest(wiring, asked)
    rooms = (
        np.empty((3, size)),
        np.empty(size, dtype=np.int64),
        np.empty(n_states),
        np.empty(arity, dtype=np.int64),
    )
    scores, out = np.empty(n_states), np.empty(n_states)
    sums = (np.empty(unary.shape[0]), np.empty(unary.shape[0], dtype=np.int64))
    for k in range(asked.graphs.shape[0]):
        if not wanted[k]:
            continue
        g = asked.graphs[k]
        first, last = wiring.variables_at[g], wiring.variables_at[g + 1]
        shifts = shifts_of(wiring, asked, k)
        chosen = states[asked.variables_at[k] : asked.variables_at[k + 1]]
        fixed = np.zeros(last - first, dtype=np.bool_)
        for v in range(first, last):
            sum_messages(wiring, v, shifts, unary, messages, sums[0], sums[1])
        for place in range(first, last):
            v = wiring.order[place]
            if hidden[v]:
                continue
            n = wiring.cards[v]
            for x in range(n):
                scores[x] = unary[wiring.state_at[v] + shifts[0] + x]
            for a in range(wiring.near_at[v], wiring.near_at[v + 1]):
                remaining_message(
                    wiring, wiring.near[a], shifts, tables, messages, hidden, eps_h, sums, chosen, fixed, first, rooms,
                    out,
                )  # fmt: skip
                for x in range(n):
                    scores[x] += out[x]
            chosen[v - first] = np.argmax(scores[:n])
            fixed[v - first] = True


@njit
def best_state(wiring, v, shifts, unary, tables, chosen, first, scores):
    """Return the state of v that scores best with all others as chosen; the chosen one unless another is better."""
    n, old = wiring.cards[v], chosen[v - first]
    for x in range(n):
        scores[x] = unary[wiring.state_at[v] + shifts[0] + x]
    chosen[v - first] = 0
    for a in range(wiring.near_at[v], wiring.near_at[v + 1]):
        e = wiring.near[a]
        f = wiring.factor_of[e]
        stride = 1
        for later in range(e + 1, wiring.scope_at[f + 1]):
            stride *= wiring.cards[wiring.scopes[later]]
        at = wiring.table_at[f] + shifts[1] + entry_of(wiring, f, chosen, first)
        for x in range(n):
            scores[x] += tables[at + x * stride]
    best = old
    for x in range(n):
        # Rounding must not make two states take turns.
        least = 1e-12 * abs(scores[best]) if scores[best] > -np.inf else 0.0
        if scores[x] > scores[best] + least:
            best = x
    chosen[v - first] = old
    return best


@njit
def climb(wiring, asked, wanted, unary, tables, states, max_sweeps):
    """Improve the assignments of the graphs `wanted`, one variable at a time, until no change of one helps."""
    _, n_states, _ = largest(wiring, asked)
    scores = np.empty(n_states)
    for k in range(asked.graphs.shape[0]):
        if not wanted[k]:
            continue
        g = asked.graphs[k]
        first = wiring.variables_at[g]
        shifts = shifts_of(wiring, asked, k)
        chosen = states[asked.variables_at[k] : asked.variables_at[k + 1]]
        for _ in range(max_sweeps):
            changed = False
            for v in range(first, wiring.variables_at[g + 1]):
                best = best_state(wiring, v, shifts, unary, tables, chosen, first, scores)
                changed = changed or best != chosen[v - first]
                chosen[v - first] = best
            if not changed:
                break


@njit
def score(wiring, asked, unary, tables, states, values):
    """values[k] += the score of graph k's assignment, where `unary` has the factors of one variable folded in."""
    for k in range(asked.graphs.shape[0]):
        g = asked.graphs[k]
        first = wiring.variables_at[g]
        to_unary, to_table, _ = shifts_of(wiring, asked, k)
        chosen = states[asked.variables_at[k] : asked.variables_at[k + 1]]
        for v in range(first, wiring.variables_at[g + 1]):
            values[k] += unary[wiring.state_at[v] + to_unary + chosen[v - first]]
        for f in range(wiring.factors_at[g], wiring.factors_at[g + 1]):
            if wiring.scope_at[f + 1] - wiring.scope_at[f] >= 2:
                values[k] += tables[wiring.table_at[f] + to_table + entry_of(wiring, f, chosen, first)]


@njit
def indicate(wiring, asked, states, values, marginals, table_marginals):
    """Write the indicators of the assignments, none where the value is −inf; both outputs are zero on entry."""
    for k in range(asked.graphs.shape[0]):
        g = asked.graphs[k]
        if values[k] == -np.inf:
            continue
        first = wiring.variables_at[g]
        to_unary, to_table, _ = shifts_of(wiring, asked, k)
        chosen = states[asked.variables_at[k] : asked.variables_at[k + 1]]
        for v in range(first, wiring.variables_at[g + 1]):
            marginals[wiring.state_at[v] + to_unary + chosen[v - first]] = 1.0
        for f in range(wiring.factors_at[g], wiring.factors_at[g + 1]):
            table_marginals[wiring.table_at[f] + to_table + entry_of(wiring, f, chosen, first)] = 1.0
