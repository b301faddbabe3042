"""Exact elimination of the variables of factor graphs, one after the other, at any pair of temperatures.

Step k of a program eliminates a variable v. With t the sum of all that is known about its separator's joint state s
and v (unary of v, tables whose first eliminated variable is v, messages of earlier steps) and ε the temperature of v,

    m_k(s) = smax_{ε, v} t(s, v),   p_k(v | s) = exp((t(s, v) − m_k(s)) / ε).

A row s in which nothing is possible has m_k = −inf and p_k = 0. At ε = 0 the first maximiser is kept instead of p_k. On
the way back the belief in s comes from the step that used m_k, and b(s, v) = b(s)·p_k(v | s); sums of these are the
derivatives by all potentials. `elimination_program` says how tables, messages and index lists are laid out.
"""

import math

import numpy as np

from latentstruct.kernels.elimination_program import (
    ANY,
    CARD,
    CONTIGUOUS,
    FACTORS,
    INNER,
    INNER_INDEX,
    INPUTS_END,
    KIND,
    MESSAGE,
    MESSAGES,
    OUTER_INDEX,
    PARENT,
    ROWS,
    SEPARATOR,
    SIZE,
    SOURCE,
    TABLE,
    UNARY,
    VARIABLE,
)
from latentstruct.kernels.jit import inlined, njit

# Columns of the array of programs.
FIRST_STEP, FIRST_OUTPUT, LAST_STEP, WORKSPACE, WIDEST_BLOCK, STATES, CONSTANTS, CONSTANTS_END = range(8)
PROGRAM_COLUMNS = 8

# exp(x) = 2^n·exp(r): adding 1.5·2^52 rounds n to a whole number in the low bits; |r| ≤ ½ log 2 leaves the Taylor
# polynomial of degree 13 with an error below one rounding. Below the lowest x results would not be normal numbers.
ROUNDER = 6755399441055744.0
LOG2_E = 1.4426950408889634
LOG_2_HIGH, LOG_2_LOW = 0.6931471803691238, 1.9082149292705877e-10
LOWEST = -708.0
EXPONENT_BIAS, MANTISSA_BITS = 1023, 52
FEW = 12


@njit
def exponentiate(values, count, shifted, shifted_bits, powers, power_bits):
    """values[: count] = exp(values), all at most 0 and maybe −inf, several at a time; 0 below exp(−708).

    The last four are scratch: two arrays, each also seen as integers.
    """
    if count < FEW:
        for j in range(count):
            values[j] = math.exp(values[j]) if values[j] > LOWEST else 0.0
        return
    for j in range(count):
        x = values[j] if values[j] > LOWEST else LOWEST
        shifted[j] = x * LOG2_E + ROUNDER
    for j in range(count):
        power_bits[j] = (shifted_bits[j] << MANTISSA_BITS) + (EXPONENT_BIAS << MANTISSA_BITS)
    for j in range(count):
        x = values[j] if values[j] > LOWEST else LOWEST
        n = shifted[j] - ROUNDER
        r = (x - n * LOG_2_HIGH) - n * LOG_2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        values[j] = p * powers[j] if values[j] > LOWEST else 0.0


# Loops below run over slices from 0 on: numba would test every computed index for being negative, which keeps loops
# from being vectorised. Index lists are unsigned for the same reason.


@inlined
def gather(block, card, n_rows, base, index, inner, kind, source, scale):
    """Add an input to a block."""
    if kind == ANY:
        entries, shifted = index[inner : inner + card * n_rows], source[base:]
        for j in range(card * n_rows):
            block[j] += scale * shifted[entries[j]]
        return
    for x in range(card):
        entry = base + index[inner + x * n_rows]
        part = block[x * n_rows : (x + 1) * n_rows]
        if kind == CONTIGUOUS:
            run = source[entry : entry + n_rows]
            for row in range(n_rows):
                part[row] += scale * run[row]
        else:
            value = scale * source[entry]
            for row in range(n_rows):
                part[row] += value


@inlined
def scatter(block, card, n_rows, base, index, inner, kind, target):
    """Add a block to an input's beliefs."""
    if kind == ANY:
        entries, shifted = index[inner : inner + card * n_rows], target[base:]
        for j in range(card * n_rows):
            shifted[entries[j]] += block[j]
        return
    for x in range(card):
        entry = base + index[inner + x * n_rows]
        part = block[x * n_rows : (x + 1) * n_rows]
        if kind == CONTIGUOUS:
            run = target[entry : entry + n_rows]
            for row in range(n_rows):
                run[row] += part[row]
        else:
            target[entry] += add_up(part)


@inlined
def add_up(values):
    """Sum in four parts, since one sum alone would wait for each addition."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    n_fours = values.shape[0] // 4
    for i in range(n_fours):
        a += values[4 * i]
        b += values[4 * i + 1]
        c += values[4 * i + 2]
        d += values[4 * i + 3]
    for i in range(4 * n_fours, values.shape[0]):
        a += values[i]
    return (a + b) + (c + d)


@inlined
def find_tops(block, card, n_rows, tops):
    """Largest entry of each row."""
    for row in range(n_rows):
        tops[row] = block[row]
    for x in range(1, card):
        part = block[x * n_rows : (x + 1) * n_rows]
        for row in range(n_rows):
            tops[row] = part[row] if part[row] > tops[row] else tops[row]


@inlined
def pool_hard(block, card, n_rows, tops, best, table, message):
    """Maximum of each row to its message, the first maximiser to the table; −1 if all is −inf."""
    find_tops(block, card, n_rows, tops)
    for row in range(n_rows):
        message[row] = tops[row]
        best[row] = 0.0
    for x in range(card - 1, 0, -1):
        part, number = block[x * n_rows : (x + 1) * n_rows], float(x)
        for row in range(n_rows):
            best[row] = number if part[row] == tops[row] else best[row]
    for row in range(n_rows):
        first = 0.0 if block[row] == tops[row] else best[row]
        table[row] = first if tops[row] > -np.inf else -1.0


@inlined
def pool_soft(block, card, n_rows, tops, temperature, table, message, shifted, shifted_bits, powers, power_bits):
    """Pooled value of each row to its message, shares p to the table."""
    find_tops(block, card, n_rows, tops)
    for row in range(n_rows):
        tops[row] = tops[row] if tops[row] > -np.inf else 0.0
    inverse = 1.0 / temperature
    for x in range(card):
        part = block[x * n_rows : (x + 1) * n_rows]
        for row in range(n_rows):
            part[row] = (part[row] - tops[row]) * inverse
    exponentiate(block, card * n_rows, shifted, shifted_bits, powers, power_bits)
    for row in range(n_rows):
        shifted[row] = block[row]
    for x in range(1, card):
        part = block[x * n_rows : (x + 1) * n_rows]
        for row in range(n_rows):
            shifted[row] += part[row]
    for row in range(n_rows):
        message[row] = tops[row] + temperature * math.log(shifted[row])
        powers[row] = 1.0 / shifted[row] if shifted[row] > 0.0 else 0.0
    for x in range(card):
        part, shares = block[x * n_rows : (x + 1) * n_rows], table[x * n_rows : (x + 1) * n_rows]
        for row in range(n_rows):
            shares[row] = part[row] * powers[row]


@njit
def eliminate(
    steps, first, last, inputs, index, unary, unary_at, tables, tables_at, scale, temperature, work, scratch, bits
):  # fmt: skip
    """Forward pass over steps first … last: leave p_k (or maximisers) and m_k in the workspace.

    Potentials are taken times `scale`. `scratch` has four rows as long as the widest block, `bits` is the
    same seen as integers.
    """
    block, tops, shifted, powers = scratch[0], scratch[1], scratch[2], scratch[3]
    for k in range(first, last):
        card, n_rows = steps[k, CARD], steps[k, INNER]
        count = card * n_rows
        own = unary_at + steps[k, UNARY]
        for a in range(steps[k, ROWS] // n_rows):
            for x in range(card):
                part, value = block[x * n_rows : (x + 1) * n_rows], scale * unary[own + x]
                for row in range(n_rows):
                    part[row] = value
            for i in range(steps[k, FACTORS], steps[k, MESSAGES]):
                base = tables_at + inputs[i, SOURCE] + index[inputs[i, OUTER_INDEX] + a]
                gather(block, card, n_rows, base, index, inputs[i, INNER_INDEX], inputs[i, KIND], tables, scale)
            for i in range(steps[k, MESSAGES], steps[k, INPUTS_END]):
                base = inputs[i, SOURCE] + index[inputs[i, OUTER_INDEX] + a]
                gather(block, card, n_rows, base, index, inputs[i, INNER_INDEX], inputs[i, KIND], work, 1.0)
            at, message_at = steps[k, TABLE] + a * count, steps[k, MESSAGE] + a * n_rows
            table, message = work[at : at + count], work[message_at : message_at + n_rows]
            if temperature == 0.0:
                pool_hard(block, card, n_rows, tops, shifted, table, message)
            else:
                pool_soft(
                    block, card, n_rows, tops, temperature, table, message,
                    shifted, bits[2], powers, bits[3],
                )  # fmt: skip


@njit
def distribute(
    steps, first, last, inputs, index, unary_at, tables_at, temperature, work, scratch, unary_out, tables_out
):  # fmt: skip
    """Backward pass over steps last … first: add beliefs to the derivatives and hand them on to the messages.

    Derivatives by tables are left out if `tables_out` is empty. Rows without belief are passed over; where there are
    few others, as under the maximum over later variables, work is done by the row.
    """
    block = scratch[0]
    for k in range(last - 1, first - 1, -1):
        card, n_rows = steps[k, CARD], steps[k, INNER]
        own = unary_at + steps[k, UNARY]
        for i in range(steps[k, MESSAGES], steps[k, INPUTS_END]):
            for x in range(inputs[i, SOURCE], inputs[i, SOURCE] + inputs[i, SIZE]):
                work[x] = 0.0
        for a in range(steps[k, ROWS] // n_rows):
            at, message_at = steps[k, TABLE] + a * n_rows * card, steps[k, MESSAGE] + a * n_rows
            table, message = work[at : at + n_rows * card], work[message_at : message_at + n_rows]
            n_believed = 0
            for row in range(n_rows):
                n_believed += message[row] != 0.0
            if temperature > 0.0 and 4 * n_believed > n_rows:
                weigh_block(table, message, card, n_rows, own, block, unary_out)
                if tables_out.shape[0] > 0:
                    for i in range(steps[k, FACTORS], steps[k, MESSAGES]):
                        base = tables_at + inputs[i, SOURCE] + index[inputs[i, OUTER_INDEX] + a]
                        scatter(block, card, n_rows, base, index, inputs[i, INNER_INDEX], inputs[i, KIND], tables_out)
                for i in range(steps[k, MESSAGES], steps[k, INPUTS_END]):
                    base = inputs[i, SOURCE] + index[inputs[i, OUTER_INDEX] + a]
                    scatter(block, card, n_rows, base, index, inputs[i, INNER_INDEX], inputs[i, KIND], work)
            elif n_believed > 0:
                for row in range(n_rows):
                    share = message[row]
                    if share != 0.0 and temperature > 0.0:
                        for x in range(card):
                            belief = share * table[x * n_rows + row]
                            believe(
                                steps, k, inputs, index, a, x, x * n_rows + row, belief, own, tables_at, work,
                                unary_out, tables_out,
                            )  # fmt: skip
                    elif share != 0.0 and table[row] >= 0.0:
                        x = int(table[row])
                        believe(
                            steps, k, inputs, index, a, x, x * n_rows + row, share, own, tables_at, work,
                            unary_out, tables_out,
                        )  # fmt: skip


@inlined
def weigh_block(table, message, card, n_rows, own, block, unary_out):
    """Beliefs b(s, v) = b(s)·p(v | s) of a block, with their sums over s."""
    for x in range(card):
        part, shares = block[x * n_rows : (x + 1) * n_rows], table[x * n_rows : (x + 1) * n_rows]
        for row in range(n_rows):
            part[row] = message[row] * shares[row]
        unary_out[own + x] += add_up(part)


@njit
def believe(steps, k, inputs, index, a, x, j, belief, own, tables_at, work, unary_out, tables_out):
    """Add the belief in entry j of block a of step k, where v has state x, to all inputs."""
    unary_out[own + x] += belief
    if tables_out.shape[0] > 0:
        for i in range(steps[k, FACTORS], steps[k, MESSAGES]):
            entry = index[inputs[i, OUTER_INDEX] + a] + index[inputs[i, INNER_INDEX] + j]
            tables_out[tables_at + inputs[i, SOURCE] + entry] += belief
    for i in range(steps[k, MESSAGES], steps[k, INPUTS_END]):
        entry = index[inputs[i, OUTER_INDEX] + a] + index[inputs[i, INNER_INDEX] + j]
        work[inputs[i, SOURCE] + entry] += belief


@njit
def pool_roots(steps, first, last, constants, tables, tables_at, work):
    """Value of a graph: messages of steps without a separator and factors without variables."""
    value = 0.0
    for k in range(first, last):
        if steps[k, PARENT] < 0:
            value += work[steps[k, MESSAGE]]
    for i in range(constants.shape[0]):
        value += tables[tables_at + constants[i]]
    return value


@njit
def believe_roots(steps, first, last, constants, tables_at, work, tables_out):
    """Begin the backward pass: belief 1."""
    for k in range(first, last):
        if steps[k, PARENT] < 0:
            work[steps[k, MESSAGE]] = 1.0
    for i in range(constants.shape[0]):
        tables_out[tables_at + constants[i]] = 1.0


@njit
def take_ratio(steps, first, middle, alpha, work, sharp):
    """Put (m_α − m_1)/(α − 1) for the messages that hidden variables send to outputs; −inf stays."""
    for k in range(first, middle):
        if steps[k, PARENT] < 0 or steps[k, PARENT] >= middle:
            for x in range(steps[k, MESSAGE], steps[k, MESSAGE] + steps[k, ROWS]):
                if work[x] > -np.inf:
                    work[x] = (sharp[x] - work[x]) / (alpha - 1.0)


@njit
def split_ratio(steps, first, middle, alpha, work, sharp):
    """Beliefs times α/(α − 1) to the pass of α·s, times −1/(α − 1) to that of s."""
    for k in range(first, middle):
        if steps[k, PARENT] < 0 or steps[k, PARENT] >= middle:
            for x in range(steps[k, MESSAGE], steps[k, MESSAGE] + steps[k, ROWS]):
                sharp[x] = work[x] * alpha / (alpha - 1.0)
                work[x] /= 1.0 - alpha


@njit
def back_substitute(steps, first, last, strides, work, states, states_at):
    """Best state of each step's variable given those eliminated later."""
    for k in range(last - 1, first - 1, -1):
        row = separator_state(steps, k, strides, states, states_at)
        block, row = divmod(row, steps[k, INNER])
        best = work[steps[k, TABLE] + block * steps[k, INNER] * steps[k, CARD] + row]
        states[states_at + steps[k, VARIABLE]] = max(0, int(best))


@inlined
def separator_state(steps, k, strides, states, states_at):
    """Number of the joint state that the variables of a step's separator have."""
    row = 0
    for i in range(steps[k, SEPARATOR], steps[k + 1, SEPARATOR]):
        row += states[states_at + strides[i, 0]] * strides[i, 1]
    return row


@njit
def read_states(steps, first, last, unary_out, unary_at, states, states_at):
    """Most probable state of each step's variable; the first of several."""
    for k in range(first, last):
        at, best = unary_at + steps[k, UNARY], 0
        for x in range(1, steps[k, CARD]):
            if unary_out[at + x] > unary_out[at + best]:
                best = x
        states[states_at + steps[k, VARIABLE]] = best


@njit
def condition_roots(steps, first, middle, strides, work, states, states_at):
    """Begin a backward pass through the hidden variables: all belief on the outputs' states."""
    for k in range(first, middle):
        if steps[k, PARENT] < 0 or steps[k, PARENT] >= middle:
            for x in range(steps[k, MESSAGE], steps[k, MESSAGE] + steps[k, ROWS]):
                work[x] = 0.0
            work[steps[k, MESSAGE] + separator_state(steps, k, strides, states, states_at)] = 1.0


@njit
def pool_graphs(
    programs, steps, inputs, index, strides, constants, program_of,
    unary, unary_at, tables, tables_at, states_at, output_temperature, latent_temperature, alpha,
    values, unary_out, tables_out, states,
):  # fmt: skip
    """Value, derivatives (added to zeros) and decoded states of each graph; alpha = 0 is ordinary pooling.

    Derivatives and states stay as they are, 0, where nothing is possible.

    States of outputs are the best ones jointly at ε_y = 0, else those of the largest marginals; of hidden variables
    the best ones given these at ε_h = 0, else those of the largest P(h_v | ŷ).
    """
    most, widest = 1, 1
    for g in range(program_of.shape[0]):
        most = max(most, programs[program_of[g], WORKSPACE])
        widest = max(widest, programs[program_of[g], WIDEST_BLOCK])
    work, sharp = np.empty(most), np.empty(most if alpha > 0.0 else 0)
    scratch = np.empty((4, widest))
    bits = scratch.view(np.int64)
    nothing = np.empty(0)
    # Always 0; a literal would have functions compiled once more.
    start = unary_at[0]
    for g in range(program_of.shape[0]):
        program = programs[program_of[g]]
        first, middle, last = program[FIRST_STEP], program[FIRST_OUTPUT], program[LAST_STEP]
        fixed = constants[program[CONSTANTS] : program[CONSTANTS_END]]
        at, tables_from, states_from = unary_at[g], tables_at[g], states_at[g]
        w_y, w_h = output_temperature, latent_temperature
        eliminate(steps, first, middle, inputs, index, unary, at, tables, tables_from, 1.0, w_h, work, scratch, bits)
        if alpha > 0.0:
            eliminate(
                steps, first, middle, inputs, index, unary, at, tables, tables_from, alpha, w_h, sharp, scratch, bits
            )
            take_ratio(steps, first, middle, alpha, work, sharp)
        eliminate(steps, middle, last, inputs, index, unary, at, tables, tables_from, 1.0, w_y, work, scratch, bits)
        values[g] = pool_roots(steps, first, last, fixed, tables, tables_from, work)
        if values[g] == -np.inf:
            continue
        believe_roots(steps, first, last, fixed, tables_from, work, tables_out)
        distribute(steps, middle, last, inputs, index, at, tables_from, w_y, work, scratch, unary_out, tables_out)
        if alpha > 0.0:
            split_ratio(steps, first, middle, alpha, work, sharp)
            distribute(steps, first, middle, inputs, index, at, tables_from, w_h, sharp, scratch, unary_out, tables_out)
        distribute(steps, first, middle, inputs, index, at, tables_from, w_h, work, scratch, unary_out, tables_out)
        if w_y == 0.0:
            back_substitute(steps, middle, last, strides, work, states, states_from)
        else:
            read_states(steps, middle, last, unary_out, at, states, states_from)
        if w_h == 0.0:
            back_substitute(steps, first, middle, strides, work, states, states_from)
        elif w_y == 0.0 and alpha == 0.0:
            read_states(steps, first, middle, unary_out, at, states, states_from)
        elif middle > first:
            given = np.zeros(program[STATES])
            condition_roots(steps, first, middle, strides, work, states, states_from)
            distribute(steps, first, middle, inputs, index, start, start, w_h, work, scratch, given, nothing)
            read_states(steps, first, middle, given, start, states, states_from)
