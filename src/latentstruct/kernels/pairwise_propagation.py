"""Belief propagation where factors join two variables: mixed products in the log domain, sums in the linear domain.

Variables send in turn. A sweep goes once from the last variable to the first, each sending to earlier neighbours, and
once back, each sending to later ones, so that one sweep is exact on trees at equal temperatures. With weights w_v (ε_h
or ε_y) of variables and w_e (ρ_e·ε_h if an end is hidden, else ρ_e·ε_y) of edges, b_i = unary_i + Σ m_{k→i} and the
message is

    m_{i→j} = w_e·log Σ_{x_i} exp(b_i/w_i + (θ_ij − m_{j→i})/w_e).

See `latentstruct.kernels.propagation` for the layout of what comes in and goes out. Inside, everything lies in the
order in which it is used: *record* a is the connection of a variable v to one neighbour; the message that v gets
through it begins at inner_at[a], so that all messages to v are one stretch, and the table through which it sends at
kernel_at[a]. What a neighbour sends back through the same factor belongs to record back[a]. Positions are counted
from those of the graph's first record, so that memory for the largest graph serves all.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.types import Vector
from latentstruct.kernels.jit import inlined, njit
from latentstruct.kernels.propagation import TIE, largest, settle, shifts_of

Flags = NDArray[np.bool_]

SAFE_SPREAD = 300.0
"""Two numbers of at least exp(−300) have a product that is not yet denormal."""

LINEAR_SPREAD = 600.0
"""A product of messages in the linear domain is at least exp(−600) times the largest."""

TINY = math.exp(-SAFE_SPREAD)

HALF = math.log(0.5)

# Unsigned indices spare numba the check for negative ones in each access, which costs as much as the arithmetic.
U = np.uint64
ONE, FEW = U(1), U(8)

FALL = 0.9
"""A sweep that brings the residual no lower than this share of the lowest so far is one that did not help."""

PATIENCE = 5
"""Damping sets in after so many sweeps that did not help."""


@njit
def finite_spread(values, at, n):
    """Return the largest value, its distance to the smallest finite one and whether some are −inf."""
    low, high, blocked = np.inf, -np.inf, False
    for p in range(at, at + n):
        if values[p] > -np.inf:
            low = min(low, values[p])
            high = max(high, values[p])
        else:
            blocked = True
    return high, high - low if high > -np.inf else 0.0, blocked


@njit
def is_linear(wiring, g, shifts, unary, tables, temperature):
    """Whether no product of potentials and messages at a variable can leave the range of numbers.

    A message varies no more than the table it comes from, and sums to 1. Shares other than 1 would need powers, and a
    table that ranges too widely has no kernel.
    """
    to_unary, to_table, _ = shifts
    if temperature == 0.0:
        return False
    for f in range(wiring.factors_at[g], wiring.factors_at[g + 1]):
        if wiring.shares[f] != 1.0:
            return False
    for v in range(wiring.variables_at[g], wiring.variables_at[g + 1]):
        _, spread, blocked = finite_spread(unary, wiring.state_at[v] + to_unary, wiring.cards[v])
        for a in range(wiring.near_at[v], wiring.near_at[v + 1]):
            f = wiring.factor_of[wiring.near[a]]
            size = wiring.table_at[f + 1] - wiring.table_at[f]
            _, wide, holes = finite_spread(tables, wiring.table_at[f] + to_table, size)
            blocked = blocked or holes or not wide < SAFE_SPREAD * temperature
            spread += wide + temperature * math.log(wiring.cards[v])
        if blocked or not spread < LINEAR_SPREAD * temperature:
            return False
    return True


class Records(NamedTuple):
    """Memory for one graph, by record.

    kernels : exp((θ − max θ)/w_e); one row for each state of the receiver if the sender has few states, else transposed
    logs, linear : messages as logarithms, and as exp(m/w_e), largest 1 (in the linear domain, sum 1)
    weights : w_e
    soft : whether `kernels` are there: not at w_e = 0 or where the table ranges too widely
    healthy : whether all of the message in `linear` is well above 0
    """

    kernels: Vector
    logs: Vector
    linear: Vector
    weights: Vector
    soft: Flags
    healthy: Flags


@njit
def make_records(wiring, asked, wanted):
    """Return memory for the largest of the graphs `wanted`."""
    n_records, n_messages, n_kernels = 1, 1, 1
    for k in range(asked.graphs.shape[0]):
        if wanted[k]:
            g = asked.graphs[k]
            first, last = wiring.near_at[wiring.variables_at[g]], wiring.near_at[wiring.variables_at[g + 1]]
            n_records = max(n_records, last - first)
            n_messages = max(n_messages, wiring.inner_at[last] - wiring.inner_at[first])
            n_kernels = max(n_kernels, wiring.kernel_at[last] - wiring.kernel_at[first])
    return Records(
        np.empty(n_kernels),
        np.empty(n_messages),
        np.empty(n_messages),
        np.empty(n_records),
        np.empty(n_records, dtype=np.bool_),
        np.empty(n_records, dtype=np.bool_),
    )


@njit
def load_records(wiring, g, shifts, tables, messages, hidden, weights, records):
    """Fill the records of graph g from tables and messages."""
    _, to_table, to_message = shifts
    first, last = wiring.near_at[wiring.variables_at[g]], wiring.near_at[wiring.variables_at[g + 1]]
    inner, kernel = wiring.inner_at[first], wiring.kernel_at[first]
    for a in range(first, last):
        e = wiring.near[a]
        f = wiring.factor_of[e]
        slot = e - wiring.scope_at[f]
        v, u = wiring.scopes[e], wiring.scopes[e + 1 - 2 * slot]
        n, m = wiring.cards[v], wiring.cards[u]
        weight = wiring.shares[f] * (weights[1] if hidden[v] or hidden[u] else weights[0])
        records.weights[a - first] = weight
        table = wiring.table_at[f] + to_table
        high, spread, _ = finite_spread(tables, table, n * m)
        soft = high > -np.inf and spread < SAFE_SPREAD * weight
        records.soft[a - first] = soft
        if soft:
            at = wiring.kernel_at[a] - kernel
            across, along = (1, n) if slot else (m, 1)
            row_step, step = (1, n) if n < FEW else (m, 1)
            for x in range(n):
                for z in range(m):
                    value = math.exp((tables[table + across * x + along * z] - high) / weight)
                    records.kernels[at + row_step * x + step * z] = value
        at = wiring.inner_at[a] - inner
        records.logs[at : at + n] = messages[wiring.message_at[e] + to_message : wiring.message_at[e + 1] + to_message]
        records.healthy[a - first] = weight > 0.0
        if weight > 0.0:
            for p in range(at, at + n):
                records.linear[p] = math.exp(records.logs[p] / weight)
                records.healthy[a - first] &= records.linear[p] >= TINY


@njit
def store_records(wiring, g, to_message, records, messages):
    """Copy the messages of graph g to where they are asked for."""
    first, last = wiring.near_at[wiring.variables_at[g]], wiring.near_at[wiring.variables_at[g + 1]]
    inner = wiring.inner_at[first]
    for a in range(first, last):
        e = wiring.near[a]
        begin, end = wiring.inner_at[a] - inner, wiring.inner_at[a + 1] - inner
        messages[wiring.message_at[e] + to_message : wiring.message_at[e + 1] + to_message] = records.logs[begin:end]


@inlined
def mix(shares, n, m, kernels, row, out):
    """Write Σ_x shares[x]·K(x, ·) to `out`."""
    if n < FEW:
        for z in range(m):
            total = 0.0
            for x in range(n):
                total += shares[x] * kernels[row + x]
            out[z] = total
            row += n
        return
    for z in range(m):
        out[z] = 0.0
    for x in range(n):
        share = shares[x]
        for z in range(m):
            out[z] += share * kernels[row + z]
        row += m


@inlined
def sender(wiring, g, step, backward):
    """Return the variable that sends in this step of a sweep and the range of records through which it does."""
    first, last = wiring.variables_at[g], wiring.variables_at[g + 1]
    v = U(wiring.order[U(last - 1 - step if backward else first + step)])
    middle = U(wiring.near_mid[v])
    if backward:
        return v, U(wiring.near_at[v]), middle
    return v, middle, U(wiring.near_at[v + ONE])


@njit
def linear_sweep(wiring, g, backward, to_unary, potentials, records, damping, rooms):
    """Send once in one direction, messages normalised to sum 1; return the largest change of an entry."""
    belief, shares, out = rooms[0], rooms[1], rooms[2]
    kernels, linear = records.kernels, records.linear
    first = U(wiring.near_at[U(wiring.variables_at[g])])
    inner, kernel = U(wiring.inner_at[first]), U(wiring.kernel_at[first])
    residual = 0.0
    for step in range(wiring.variables_at[g + 1] - wiring.variables_at[g]):
        v, lowest, highest = sender(wiring, g, step, backward)
        if lowest == highest:
            continue
        n, at = U(wiring.cards[v]), U(wiring.state_at[v] + to_unary)
        for x in range(n):
            belief[x] = potentials[at + x]
        at = U(wiring.inner_at[U(wiring.near_at[v])]) - inner
        for _ in range(U(wiring.near_at[v]), U(wiring.near_at[v + ONE])):
            for x in range(n):
                belief[x] *= linear[at + x]
            at += n
        for a in range(lowest, highest):
            own, back = U(wiring.inner_at[a]) - inner, U(wiring.back[a])
            to = U(wiring.inner_at[back]) - inner
            m = U(wiring.inner_at[back + ONE]) - inner - to
            for x in range(n):
                shares[x] = belief[x] / linear[own + x]
            mix(shares, n, m, kernels, U(wiring.kernel_at[a]) - kernel, out)
            total = 0.0
            for z in range(m):
                total += out[z]
            scale = (1.0 - damping) / total
            for z in range(m):
                new = scale * out[z] + damping * linear[to + z]
                change = abs(new - linear[to + z])
                residual = change if change > residual else residual
                linear[to + z] = new
    return residual


@njit
def to_linear(wiring, g, to_unary, unary, temperature, potentials, records):
    """Write exp of the unary terms over ε, largest 1, and normalise the messages to sum 1."""
    for v in range(wiring.variables_at[g], wiring.variables_at[g + 1]):
        at = wiring.state_at[v] + to_unary
        high, _, _ = finite_spread(unary, at, wiring.cards[v])
        for p in range(at, at + wiring.cards[v]):
            potentials[p] = math.exp((unary[p] - high) / temperature)
    first, last = wiring.near_at[wiring.variables_at[g]], wiring.near_at[wiring.variables_at[g + 1]]
    for a in range(first, last):
        begin, end = wiring.inner_at[a] - wiring.inner_at[first], wiring.inner_at[a + 1] - wiring.inner_at[first]
        total = 0.0
        for p in range(begin, end):
            # Messages from elsewhere may range more widely than those of these potentials ever do.
            records.linear[p] = max(records.linear[p], TINY)
            total += records.linear[p]
        for p in range(begin, end):
            records.linear[p] /= total


@njit
def from_linear(wiring, g, temperature, records):
    """Write the logarithms of linear messages times ε, largest 0."""
    first, last = wiring.near_at[wiring.variables_at[g]], wiring.near_at[wiring.variables_at[g + 1]]
    for a in range(first, last):
        begin, end = wiring.inner_at[a] - wiring.inner_at[first], wiring.inner_at[a + 1] - wiring.inner_at[first]
        high, _, _ = finite_spread(records.linear, begin, end - begin)
        for p in range(begin, end):
            records.logs[p] = temperature * math.log(records.linear[p] / high)


@njit
def maximise(scores, n, m, weight, tables, at, across, along, out):
    """out[z] = smax_ε over x of scores[x] + tables[at + across·x + along·z], term by term: for any range and ε."""
    for z in range(m):
        top = -np.inf
        for x in range(n):
            top = max(top, scores[x] + tables[at + across * x + along * z])
        if weight > 0.0 and top > -np.inf:
            total = 0.0
            for x in range(n):
                total += math.exp((scores[x] + tables[at + across * x + along * z] - top) / weight)
            top += weight * math.log(total)
        out[z] = top


@njit
def without_one(wiring, v, skipped, term, logs, inner, x):
    """Return `term` + Σ messages of variable v at state x, all but that of record `skipped`."""
    for a in range(wiring.near_at[v], wiring.near_at[v + 1]):
        if a != skipped:
            term += logs[wiring.inner_at[a] - inner + x]
    return term


@inlined
def weigh(n, weight, belief, shares):
    """Write exp((belief − top)/w) to `shares`, at w = 0 whether it ties with the largest.

    Return the largest belief and whether the shares of all possible states are numbers well above 0.
    """
    low, top = np.inf, -np.inf
    for x in range(n):
        top = belief[x] if belief[x] > top else top
        low = belief[x] if -np.inf < belief[x] < low else low
    if weight == 0.0:
        tie = top - TIE * (1.0 + abs(top))
        for x in range(n):
            shares[x] = 1.0 if belief[x] >= tie else 0.0
        return top, top > -np.inf
    if top == -np.inf or not top - low <= SAFE_SPREAD * weight:
        return top, False
    scale = 1.0 / weight
    for x in range(n):
        shares[x] = math.exp((belief[x] - top) * scale)
    return top, True


@njit
def send_slowly(wiring, v, a, shifts, unary, tables, records, inner, hidden, weights, damping, top, rooms):
    """Send the message of variable v through record a term by term: for ε = 0, wide ranges and impossible states."""
    to_unary, to_table, first = shifts
    eps_y, eps_h = weights
    belief, scores, out = rooms[0], rooms[2], rooms[3]
    e = wiring.near[a]
    f = wiring.factor_of[e]
    slot = e - wiring.scope_at[f]
    receiver = wiring.scopes[e + 1 - 2 * slot]
    n, m = wiring.cards[v], wiring.cards[receiver]
    own, to = wiring.inner_at[a] - inner, wiring.inner_at[wiring.back[a]] - inner
    for x in range(n):
        if hidden[receiver] and not hidden[v]:
            if belief[x] == -np.inf or (eps_y == 0.0 and belief[x] < top - TIE * (1.0 + abs(top))):
                scores[x] = -np.inf
            else:
                share = (belief[x] - top) / eps_y if eps_y > 0.0 else 0.0
                scores[x] = wiring.shares[f] * eps_h * share - records.logs[own + x]
        elif records.logs[own + x] > -np.inf:
            scores[x] = wiring.shares[f] * belief[x] - records.logs[own + x]
        else:
            scores[x] = without_one(wiring, v, a, unary[wiring.state_at[v] + to_unary + x], records.logs, inner, x)
    weight = records.weights[a - first]
    maximise(scores, n, m, weight, tables, wiring.table_at[f] + to_table, 1 if slot else m, n if slot else 1, out)
    residual = settle(out, m, records.logs, to, damping)
    healthy = weight > 0.0
    if healthy:
        for p in range(to, to + m):
            records.linear[p] = math.exp(records.logs[p] / weight)
            healthy = healthy and records.linear[p] >= TINY
    records.healthy[wiring.back[a] - first] = healthy
    return residual


@inlined
def take_logs(out, m, weight, damping, logs, linear, to):
    """Store a message given as positive numbers; return the largest change and whether all of it is well above 0."""
    high, low = 0.0, np.inf
    for z in range(m):
        high = out[z] if out[z] > high else high
        low = out[z] if out[z] < low else low
    scale, residual = 0.5 / high if high > 0.0 else 0.0, 0.0
    if damping > 0.0 and low > 0.0:
        for z in range(m):
            new, old = weight * (math.log(scale * out[z]) - HALF), logs[to + z]
            if old > -np.inf:
                new = (1.0 - damping) * new + damping * old
            residual = max(residual, abs(new - old))
            logs[to + z], linear[to + z] = new, math.exp(new / weight)
    else:
        for z in range(m):
            share = scale * out[z]
            # Logarithms near 1 take another path, which processors cannot foresee; below one half there are none.
            new = weight * (math.log(share) - HALF)
            change = abs(new - logs[to + z])
            residual = change if change > residual else residual
            logs[to + z], linear[to + z] = new, 2.0 * share
    return residual, 0.0 < TINY * high <= low


@njit
def log_sweep(wiring, g, backward, shifts, unary, tables, records, hidden, weights, damping, rooms):
    """Send once in one direction, messages as logarithms; return the largest change of an entry.

    A message is exp(b_i/w_i)·K/exp(m_{j→i}/w_e) summed over x_i: with all of these at hand it costs one logarithm for
    each state of the receiver and no exponential.
    """
    belief, shares, scores, out = rooms[0], rooms[1], rooms[2], rooms[3]
    kernels, logs, linear = records.kernels, records.logs, records.linear
    first = U(wiring.near_at[U(wiring.variables_at[g])])
    inner, kernel = U(wiring.inner_at[first]), U(wiring.kernel_at[first])
    slow_shifts = (shifts[0], shifts[1], np.int64(first))
    residual = 0.0
    for step in range(wiring.variables_at[g + 1] - wiring.variables_at[g]):
        v, lowest, highest = sender(wiring, g, step, backward)
        if lowest == highest:
            continue
        n, at = U(wiring.cards[v]), U(wiring.state_at[v] + shifts[0])
        for x in range(n):
            belief[x] = unary[at + x]
        at = U(wiring.inner_at[U(wiring.near_at[v])]) - inner
        for _ in range(U(wiring.near_at[v]), U(wiring.near_at[v + ONE])):
            for x in range(n):
                belief[x] += logs[at + x]
            at += n
        top, safe = weigh(n, weights[1] if hidden[v] else weights[0], belief, shares)
        for a in range(lowest, highest):
            if safe and records.soft[a - first] and records.healthy[a - first]:
                own, back = U(wiring.inner_at[a]) - inner, U(wiring.back[a])
                to = U(wiring.inner_at[back]) - inner
                m = U(wiring.inner_at[back + ONE]) - inner - to
                for x in range(n):
                    scores[x] = shares[x] / linear[own + x]
                mix(scores, n, m, kernels, U(wiring.kernel_at[a]) - kernel, out)
                change, healthy = take_logs(out, m, records.weights[a - first], damping, logs, linear, to)
                records.healthy[back - first] = healthy
            else:
                change = send_slowly(
                    wiring, np.int64(v), np.int64(a), slow_shifts, unary, tables, records, np.int64(inner), hidden,
                    weights, damping, top, rooms,
                )  # fmt: skip
            residual = change if change > residual else residual
    return residual


@njit
def run_pairwise(
    wiring, asked, wanted, unary, tables, messages, hidden, weights, limits, once, sums, sweeps, residuals
):
    """Sweep over each of the graphs `wanted` until its messages rest.

    Parameters
    ----------
    unary, tables : ndarray
        Potentials of the asked graphs, factors of one variable folded into `unary`.
    messages : ndarray
        Where to begin, overwritten by the last messages.
    weights : tuple of float
        ε_y and ε_h; `hidden` is all False where they are equal.
    limits : tuple
        The largest number of sweeps, the damping that sets in when sweeps no longer help, and the tolerance.
    once : ndarray of bool, shape (G,)
        Graphs for which one sweep is exact at these temperatures.
    sums : bool
        Whether sums may be taken in the linear domain where the potentials allow.
    sweeps, residuals : ndarray of shape (k,)
        Sweeps that were made and largest change of a message in the last: of its logarithm, or in the linear domain
        of the message as a distribution.
    """
    max_sweeps, damping, tol = limits
    _, n_states, _ = largest(wiring, asked)
    rooms, potentials = np.empty((4, n_states)), np.empty(unary.shape[0])
    records = make_records(wiring, asked, wanted)
    for k in range(asked.graphs.shape[0]):
        if not wanted[k]:
            continue
        g = asked.graphs[k]
        shifts = shifts_of(wiring, asked, k)
        load_records(wiring, g, shifts, tables, messages, hidden, weights, records)
        in_sums = sums and weights[0] == weights[1] and is_linear(wiring, g, shifts, unary, tables, weights[0])
        if in_sums:
            to_linear(wiring, g, shifts[0], unary, weights[0], potentials, records)
        residual, lowest, stalled, count = np.inf, np.inf, 0, 0
        while count < max_sweeps and residual > tol:
            damp = damping if stalled >= PATIENCE else 0.0
            residual = 0.0
            for backward in (True, False):
                if in_sums:
                    change = linear_sweep(wiring, g, backward, shifts[0], potentials, records, damp, rooms)
                else:
                    change = log_sweep(
                        wiring, g, backward, shifts, unary, tables, records, hidden, weights, damp, rooms
                    )
                residual = max(residual, change)
            count += 1
            if once[g]:
                residual = 0.0
            stalled += residual > FALL * lowest
            lowest = min(lowest, residual)
        if in_sums:
            from_linear(wiring, g, weights[0], records)
        store_records(wiring, g, shifts[2], records, messages)
        sweeps[k], residuals[k] = sweeps[k] + count, residual
