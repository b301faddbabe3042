"""What belief propagation needs besides its messages: wiring, beliefs and values read from messages, decoding.

All arrays are flat. Messages m_{f→v} run from factors to variables; scope entry e stands for the pair (factor_of[e],
scopes[e]) and its message has the entries message_at[e] … message_at[e + 1]. Only factors of two or more variables
send messages: smaller ones are folded into the unary terms beforehand. Potentials and messages of the asked graphs are
compact: those of asked graph k begin at unary_at[k], tables_at[k] and messages_at[k].

ε_y is the temperature of outputs, ε_h that of hidden variables. Where both are equal, callers pass `hidden` all False,
so that every variable is pooled alike; where they differ, ε_h > 0 is required. A message of −inf marks an impossible
state; no sum or maximum here becomes NaN.
"""

import math
from typing import NamedTuple

import numpy as np

from latentstruct.core.types import Indices, Vector
from latentstruct.kernels.jit import inlined, njit

TIE = 1e-9
"""Beliefs of outputs that are closer than this to the largest share the place of the maximum at ε_y = 0."""


class Wiring(NamedTuple):
    """Structure of all graphs (see `FactorGraphs`) with what the kernels look up.

    near_at, near : entries of each variable in factors of two or more, those of earlier neighbours first
    near_mid : where the entries of later neighbours begin
    back : for each place a in `near`, that of the other variable of the factor
    inner_at, kernel_at : for each place a in `near`, where its message and its table begin if all are laid out so
    order : variables of each graph in the order of sweeps; in forests each after the one through which it is reached
    factor_order : factors of each graph in the order in which they were reached
    shares : ρ_f of each factor, 1 but for tree-reweighted propagation, which takes factors of two variables only

    `near_mid`, `back` and `kernel_at` are of use only in graphs without factors of more than two variables.
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
    inner_at: Indices
    kernel_at: Indices
    order: Indices
    factor_order: Indices
    shares: Vector


class Asked(NamedTuple):
    """The asked graphs and where their compact entries begin, each array but `graphs` of shape (k + 1,)."""

    graphs: Indices
    unary_at: Indices
    tables_at: Indices
    messages_at: Indices
    variables_at: Indices


@njit
def traverse(variables_at, factors_at, scope_at, scopes, near_at, near, factor_of, order, factor_order, forest):
    """Reach the variables of each graph breadth first; forest[g] is whether no variable was reached twice."""
    seen = np.zeros(near_at.shape[0] - 1, dtype=np.bool_)
    used = np.zeros(scope_at.shape[0] - 1, dtype=np.bool_)
    for g in range(variables_at.shape[0] - 1):
        forest[g] = True
        done, reached = variables_at[g], variables_at[g]
        factors = factors_at[g]
        for root in range(variables_at[g], variables_at[g + 1]):
            if seen[root]:
                continue
            seen[root] = True
            order[reached] = root
            reached += 1
            while done < reached:
                v = order[done]
                done += 1
                for a in range(near_at[v], near_at[v + 1]):
                    f = factor_of[near[a]]
                    if used[f]:
                        continue
                    used[f] = True
                    factor_order[factors] = f
                    factors += 1
                    for e in range(scope_at[f], scope_at[f + 1]):
                        u = scopes[e]
                        if seen[u]:
                            if u != v:
                                forest[g] = False
                        else:
                            seen[u] = True
                            order[reached] = u
                            reached += 1
        for f in range(factors_at[g], factors_at[g + 1]):
            if not used[f]:
                factor_order[factors] = f
                factors += 1
        if not forest[g]:
            # Neighbours in memory are then neighbours in time; no order is exact anyway.
            for v in range(variables_at[g], variables_at[g + 1]):
                order[v] = v


@njit
def fold(wiring, asked, tables, unary, constants):
    """Add factors of one variable to `unary` and those of none to constants[k]."""
    for k in range(asked.graphs.shape[0]):
        g = asked.graphs[k]
        constants[k] = 0.0
        to_unary = asked.unary_at[k] - wiring.state_at[wiring.variables_at[g]]
        to_table = asked.tables_at[k] - wiring.table_at[wiring.factors_at[g]]
        for f in range(wiring.factors_at[g], wiring.factors_at[g + 1]):
            arity = wiring.scope_at[f + 1] - wiring.scope_at[f]
            at = wiring.table_at[f] + to_table
            if arity == 0:
                constants[k] += tables[at]
            elif arity == 1:
                v = wiring.scopes[wiring.scope_at[f]]
                for x in range(wiring.cards[v]):
                    unary[wiring.state_at[v] + to_unary + x] += tables[at + x]


@inlined
def add_along(values, table, at, outer, card, inner):
    """table[o, x, i] += values[at + x] for a table of shape (outer, card, inner)."""
    p = 0
    for _ in range(outer):
        for x in range(card):
            value = values[at + x]
            for _ in range(inner):
                table[p] += value
                p += 1


@njit
def smax(values, n, temperature):
    """ε·log Σ exp(values/ε) of the first n values; the maximum at ε = 0; −inf if all are."""
    top = -np.inf
    for p in range(n):
        top = max(top, values[p])
    if top == -np.inf or temperature == 0.0:
        return top
    total = 0.0
    for p in range(n):
        total += math.exp((values[p] - top) / temperature)
    return top + temperature * math.log(total)


@njit
def pool_hidden(table, size, group, n_groups, temperature, pooled):
    """pooled[y] = smax_ε of the entries of `table` with group y."""
    for y in range(n_groups):
        pooled[y] = -np.inf
    for p in range(size):
        pooled[group[p]] = max(pooled[group[p]], table[p])
    if temperature == 0.0 or n_groups == size:
        return
    sums = np.zeros(n_groups)
    for p in range(size):
        top = pooled[group[p]]
        if top > -np.inf:
            sums[group[p]] += math.exp((table[p] - top) / temperature)
    for y in range(n_groups):
        if pooled[y] > -np.inf:
            pooled[y] += temperature * math.log(sums[y])


@njit
def group_outputs(wiring, f, hidden, group):
    """Number the joint states of the outputs of factor f: group[p] is that of table entry p; return how many."""
    size = wiring.table_at[f + 1] - wiring.table_at[f]
    group[:size] = 0
    n_groups, inner = 1, 1
    for e in range(wiring.scope_at[f + 1] - 1, wiring.scope_at[f] - 1, -1):
        v = wiring.scopes[e]
        card = wiring.cards[v]
        if not hidden[v]:
            p = 0
            for _ in range(size // (card * inner)):
                for x in range(card):
                    for _ in range(inner):
                        group[p] += x * n_groups
                        p += 1
            n_groups *= card
        inner *= card
    return n_groups


@inlined
def shifts_of(wiring, asked, k):
    """Return what leads from places among all graphs to those in the compact arrays: unary, tables, messages."""
    g = asked.graphs[k]
    factor = wiring.factors_at[g]
    return (
        asked.unary_at[k] - wiring.state_at[wiring.variables_at[g]],
        asked.tables_at[k] - wiring.table_at[factor],
        asked.messages_at[k] - wiring.message_at[wiring.scope_at[factor]],
    )


@njit
def sum_messages(wiring, v, shifts, unary, messages, total, blocked):
    """Write unary + Σ finite messages of variable v to `total`; `blocked` counts the terms of −inf."""
    to_unary, _, to_message = shifts
    begin, end = wiring.state_at[v] + to_unary, wiring.state_at[v + 1] + to_unary
    for p in range(begin, end):
        blocked[p] = 0 if unary[p] > -np.inf else 1
        total[p] = unary[p] if unary[p] > -np.inf else 0.0
    for a in range(wiring.near_at[v], wiring.near_at[v + 1]):
        at = wiring.message_at[wiring.near[a]] + to_message - begin
        for p in range(begin, end):
            if messages[at + p] > -np.inf:
                total[p] += messages[at + p]
            else:
                blocked[p] += 1


@inlined
def settle(out, m, messages, to, damping):
    """Normalise a new message to maximum 0, mix it with the old one and store it; return the largest change.

    Impossible states are never mixed. A message that says that nothing is possible is stored as it is.
    """
    high = -np.inf
    for z in range(m):
        high = max(high, out[z])
    residual = 0.0
    for z in range(m):
        new, old = out[z] - high if out[z] > -np.inf else -np.inf, messages[to + z]
        if damping > 0.0 and new > -np.inf and old > -np.inf:
            new = (1.0 - damping) * new + damping * old
        if new != old:
            residual = max(residual, abs(new - old))
        messages[to + z] = new
    return residual


@inlined
def without(total, blocked, message):
    """One entry of the sum of all messages but one."""
    if message > -np.inf:
        return total - message if blocked == 0 else -np.inf
    return total if blocked == 1 else -np.inf


@njit
def send(wiring, factor, tables, incoming, incoming_at, group, hidden, slot, temperatures, work, out):
    """Compute the message to the variable in `slot` of a factor (number, place in `tables`, number of groups).

    With t = θ_f + Σ_k n_{k→f}, v(y) = smax_{ε_h} over h of t and b(y) = softmax(v/ε_y), uniform on the maxima at
    ε_y = 0: to an output, smax_{ε_y} over the other outputs of v without its own n; to a hidden variable,
    ε_h·log Σ b(y)·exp((t − v(y))/ε_h) over all but its own states, without its own n. Nothing is divided by n, so that
    impossible states do no harm. `work` has room for three tables.
    """
    eps_y, eps_h = temperatures
    f, at, n_groups = factor
    first, arity = wiring.scope_at[f], wiring.scope_at[f + 1] - wiring.scope_at[f]
    size = wiring.table_at[f + 1] - wiring.table_at[f]
    others, pooled = work[0], work[1]
    for p in range(size):
        others[p] = tables[at + p]
    outer, own_outer, own_inner = 1, 1, 1
    for s in range(arity):
        card = wiring.cards[wiring.scopes[first + s]]
        inner = size // (outer * card)
        if s == slot:
            own_outer, own_inner = outer, inner
        else:
            add_along(incoming, others, incoming_at[s], outer, card, inner)
        outer *= card
    variable = wiring.scopes[first + slot]
    card = wiring.cards[variable]
    if hidden[variable]:
        whole = work[2]
        whole[:size] = others[:size]
        add_along(incoming, whole, incoming_at[slot], own_outer, card, own_inner)
        pool_hidden(whole, size, group, n_groups, eps_h, pooled)
        top = smax(pooled, n_groups, eps_y)
        tie = top - TIE * (1.0 + abs(top))
        for p in range(size):
            v = pooled[group[p]]
            if v == -np.inf or (eps_y == 0.0 and v < tie):
                others[p] = -np.inf
            else:
                share = (v - top) / eps_y if eps_y > 0.0 else 0.0
                others[p] += eps_h * share - v
        collect(others, own_outer, card, own_inner, eps_h, out)
    elif n_groups == size:
        collect(others, own_outer, card, own_inner, eps_y, out)
    else:
        # The groups lie in the table as the outputs do, so the table of v has the same shape without the hidden axes.
        pool_hidden(others, size, group, n_groups, eps_h, pooled)
        inner = 1
        for s in range(slot + 1, arity):
            if not hidden[wiring.scopes[first + s]]:
                inner *= wiring.cards[wiring.scopes[first + s]]
        collect(pooled, n_groups // (card * inner), card, inner, eps_y, out)


@njit
def collect(table, outer, card, inner, temperature, out):
    """out[x] = smax_ε over o and i of table[o, x, i]."""
    for x in range(card):
        top = -np.inf
        for o in range(outer):
            for p in range((o * card + x) * inner, (o * card + x + 1) * inner):
                top = max(top, table[p])
        if top > -np.inf and temperature > 0.0:
            total = 0.0
            for o in range(outer):
                for p in range((o * card + x) * inner, (o * card + x + 1) * inner):
                    total += math.exp((table[p] - top) / temperature)
            top += temperature * math.log(total)
        out[x] = top


@njit
def gather(wiring, f, to_unary, messages, to_message, total, blocked, incoming, incoming_at):
    """Write n_{v→f} of each variable of factor f to `incoming`; those of slot s begin at incoming_at[s]."""
    at, share = 0, wiring.shares[f]
    for e in range(wiring.scope_at[f], wiring.scope_at[f + 1]):
        v = wiring.scopes[e]
        begin, own = wiring.state_at[v] + to_unary, wiring.message_at[e] + to_message
        incoming_at[e - wiring.scope_at[f]] = at
        for x in range(wiring.cards[v]):
            incoming[at + x] = without(total[begin + x], blocked[begin + x], messages[own + x] / share)
        at += wiring.cards[v]


@njit
def largest(wiring, asked):
    """Return the largest table, the longest list of states of a factor's variables and the largest arity."""
    size, states, arity = 1, 1, 1
    for k in range(asked.graphs.shape[0]):
        g = asked.graphs[k]
        for f in range(wiring.factors_at[g], wiring.factors_at[g + 1]):
            size = max(size, wiring.table_at[f + 1] - wiring.table_at[f])
            arity = max(arity, wiring.scope_at[f + 1] - wiring.scope_at[f])
            states = max(states, wiring.message_at[wiring.scope_at[f + 1]] - wiring.message_at[wiring.scope_at[f]])
        for v in range(wiring.variables_at[g], wiring.variables_at[g + 1]):
            states = max(states, wiring.cards[v])
    return size, states, arity


@njit
def node_beliefs(wiring, v, eps, total, blocked, at, out):
    """Write softmax(b_v/ε) of b_v = total, 0 where blocked; return ε·log Σ exp(b_v/ε), −inf if all is blocked."""
    top = -np.inf
    for p in range(at, at + wiring.cards[v]):
        if blocked[p] == 0:
            top = max(top, total[p])
    mass = 0.0
    for p in range(at, at + wiring.cards[v]):
        out[p] = math.exp((total[p] - top) / eps) if blocked[p] == 0 else 0.0
        mass += out[p]
    if mass == 0.0:
        return -np.inf
    for p in range(at, at + wiring.cards[v]):
        out[p] /= mass
    return top + eps * math.log(mass)


@njit
def factor_beliefs(size, group, n_groups, temperatures, whole, pooled, out, out_at):
    """Write b(y)·b(h | y) of the table `whole` of one factor to `out`; return its pooled value."""
    eps_y, eps_h = temperatures
    pool_hidden(whole, size, group, n_groups, eps_h, pooled)
    top = -np.inf
    for y in range(n_groups):
        top = max(top, pooled[y])
    if top == -np.inf:
        out[out_at : out_at + size] = 0.0
        return top
    # Shares are divided by their own sums: from large pooled values they could not be told precisely enough.
    mass, sums = 0.0, np.zeros(n_groups)
    for y in range(n_groups):
        mass += math.exp((pooled[y] - top) / eps_y)
    for p in range(size):
        v = pooled[group[p]]
        out[out_at + p] = math.exp((whole[p] - v) / eps_h) if v > -np.inf and n_groups < size else 1.0
        sums[group[p]] += out[out_at + p]
    for p in range(size):
        out[out_at + p] *= math.exp((pooled[group[p]] - top) / eps_y) / (mass * sums[group[p]])
    return top + eps_y * math.log(mass)


@njit
def read_factor(wiring, f, shifts, tables, messages, hidden, temperatures, total, blocked, rooms, table_marginals):
    """Write the beliefs of factor f of two or more variables; return its pooled value."""
    whole, pooled, group, incoming, incoming_at = rooms
    to_unary, to_table, to_message = shifts
    first, at, size = wiring.scope_at[f], wiring.table_at[f] + to_table, wiring.table_at[f + 1] - wiring.table_at[f]
    gather(wiring, f, to_unary, messages, to_message, total, blocked, incoming, incoming_at)
    for p in range(size):
        whole[p] = tables[at + p] / wiring.shares[f]
    outer = 1
    for e in range(first, wiring.scope_at[f + 1]):
        card = wiring.cards[wiring.scopes[e]]
        add_along(incoming, whole, incoming_at[e - first], outer, card, size // (outer * card))
        outer *= card
    n_groups = group_outputs(wiring, f, hidden, group)
    return factor_beliefs(size, group, n_groups, temperatures, whole, pooled, table_marginals, at)


@njit
def read_out(wiring, asked, unary, tables, messages, hidden, temperatures, values, marginals, table_marginals):
    """Beliefs of all variables and factors, and the Bethe value, at positive temperatures.

    With b_v = unary + Σ m, n_{v→f} = b_v − m_{f→v}/ρ_f and t_f = θ_f/ρ_f + Σ n, the value is
    Σ_f ρ_f·smax_{ε_y} smax_{ε_h} t_f − Σ_v (Σ_f ρ_f − 1)·smax_{ε_v} b_v: at a fixed point the Bethe form (ρ = 1) of
    ⟨θ, τ⟩ + ε_h·H(h | y) + ε_y·H(y), and stationary in the messages, so that small errors in these hardly count. Values
    hold the constants on entry; a graph without a possible state gets −inf and beliefs 0.
    """
    size, states, arity = largest(wiring, asked)
    rooms = (
        np.empty(size),
        np.empty(size),
        np.empty(size, dtype=np.int64),
        np.empty(states),
        np.empty(arity, dtype=np.int64),
    )
    total, blocked = np.empty(unary.shape[0]), np.empty(unary.shape[0], dtype=np.int64)
    for k in range(asked.graphs.shape[0]):
        g = asked.graphs[k]
        shifts = shifts_of(wiring, asked, k)
        value = values[k]
        for v in range(wiring.variables_at[g], wiring.variables_at[g + 1]):
            sum_messages(wiring, v, shifts, unary, messages, total, blocked)
            eps = temperatures[1] if hidden[v] else temperatures[0]
            part = node_beliefs(wiring, v, eps, total, blocked, wiring.state_at[v] + shifts[0], marginals)
            possible = part > -np.inf and value > -np.inf
            surplus = -1.0
            for a in range(wiring.near_at[v], wiring.near_at[v + 1]):
                surplus += wiring.shares[wiring.factor_of[wiring.near[a]]]
            value = value - surplus * part if possible else -np.inf
        for f in range(wiring.factors_at[g], wiring.factors_at[g + 1]):
            if wiring.scope_at[f + 1] - wiring.scope_at[f] < 2:
                copy_small(wiring, f, marginals, shifts[0], table_marginals, wiring.table_at[f] + shifts[1])
            else:
                value += wiring.shares[f] * read_factor(
                    wiring, f, shifts, tables, messages, hidden, temperatures, total, blocked, rooms, table_marginals
                )
        values[k] = value
        if value == -np.inf:
            marginals[asked.unary_at[k] : asked.unary_at[k + 1]] = 0.0
            table_marginals[asked.tables_at[k] : asked.tables_at[k + 1]] = 0.0


@njit
def copy_small(wiring, f, marginals, to_unary, table_marginals, at):
    """Write the beliefs of a factor of one variable, which are that variable's, or of none."""
    if wiring.scope_at[f + 1] == wiring.scope_at[f]:
        table_marginals[at] = 1.0
    else:
        v = wiring.scopes[wiring.scope_at[f]]
        for x in range(wiring.cards[v]):
            table_marginals[at + x] = marginals[wiring.state_at[v] + to_unary + x]


@njit
def most_probable(wiring, asked, marginals, states):
    """Write the argmax of each variable's marginals to `states`, the lowest state where they tie."""
    for k in range(asked.graphs.shape[0]):
        g = asked.graphs[k]
        first = wiring.variables_at[g]
        to_unary, _, _ = shifts_of(wiring, asked, k)
        for v in range(first, wiring.variables_at[g + 1]):
            at, best = wiring.state_at[v] + to_unary, 0
            for x in range(1, wiring.cards[v]):
                if marginals[at + x] > marginals[at + best]:
                    best = x
            states[asked.variables_at[k] + v - first] = best
