"""Planes that are kept for each example: how they lie in arrays, their heights and their sums.

Planes of one example share most atoms. Kept planes are therefore lists of numbers into the example's table of
distinct atoms: each atom is multiplied with w once, and what cancels between planes never touches w.

Atoms that are in all planes of an example, once in each, are *common*. They come last in the table, and their numbers
last in each plane. They add the same to all heights, so that dual ascent, which compares heights, leaves them out.

Symbols: c weight of an example, g_p slope and b_p offset of its plane p, α_p its dual variable (Σ_p α_p = 1),
s_p = b_p + g_p·w the plane's height at w = l − Σ_i c_i Σ_p α_ip g_ip, K_pq = g_p·g_q.
"""

from typing import NamedTuple

import numpy as np

from latentstruct.kernels.jit import inlined, njit
from latentstruct.kernels.planes import ONE, TWO, Atoms, row_add, row_dot


class Slots(NamedTuple):
    """Planes kept for each of n examples in up to K slots; `count` of them are in use."""

    start: np.ndarray  # (n, K) first number of the plane
    length: np.ndarray  # (n, K) how many numbers
    offset: np.ndarray  # (n, K) b_p
    alpha: np.ndarray  # (n, K)
    used: np.ndarray  # (n, K) clock of the last use
    key: np.ndarray  # (n, K) hash of the atoms, in any order
    mixed: np.ndarray  # (n, K) whether it is a convex combination of planes of the oracle
    gram: np.ndarray  # flat: the Gram matrices of the examples
    corner: np.ndarray  # (n,) where the example's matrix begins
    side: np.ndarray  # (n,) its rows and columns: slots that the example may use, at most K
    count: np.ndarray  # type: ignore[assignment]  # (n,); hides tuple.count, which nobody needs here


class Tables(NamedTuple):
    """Distinct atoms of each example (flat, with a start, a length and room), and the planes' numbers."""

    atoms: Atoms
    start: np.ndarray  # (n,)
    length: np.ndarray  # (n,)
    varied: np.ndarray  # (n,): atoms that are not common
    room: np.ndarray  # (n,)
    numbers: np.ndarray
    end: np.ndarray  # (2,): used atoms, used numbers


class Scratch(NamedTuple):
    """Work space; `vector` is all zero between calls."""

    vector: np.ndarray  # (d,)
    clock: np.ndarray  # (1,): rounds so far


@inlined
def gram_of(example, slots):
    """Return the Gram matrix of the example's slots."""
    side = slots.side[example]
    return slots.gram[slots.corner[example] : slots.corner[example] + side * side].reshape(side, side)


@inlined
def atom_key(row, column, value):
    """Return a hash of an atom; that of a plane is their sum."""
    place = (np.uint64(np.uint32(row)) << np.uint64(32)) | np.uint64(np.uint32(column))
    key = (place + np.uint64(np.float64(value).view(np.int64))) * np.uint64(0x9E3779B97F4A7C15) ^ place
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


@inlined
def score_atoms(example, n_atoms, vector, rows, tables, memo):
    """memo[a] = atom a · vector for the first atoms of the example's table."""
    indptr, places, data = rows.indptr, rows.places, rows.data
    row_of, column_of, value_of = tables.atoms.row, tables.atoms.column, tables.atoms.value
    start = tables.start[example]
    for a in range(n_atoms):
        row, column = row_of[start + a], column_of[start + a]
        product = vector[column] if row < 0 else row_dot(indptr, places, data, row, column, vector)
        memo[a] = value_of[start + a] * product


@inlined
def score_slots(example, n_atoms, vector, rows, tables, slots, memo, out):
    """out[p] = g_p · vector for the kept planes of one example.

    `n_atoms` is the length of its table; or `varied`, which leaves common atoms out.
    """
    score_atoms(example, n_atoms, vector, rows, tables, memo)
    numbers, left_out = tables.numbers, tables.length[example] - n_atoms
    for p in range(slots.count[example]):
        k = np.uint64(slots.start[example, p])
        last = k + np.uint64(slots.length[example, p] - left_out)
        a = b = 0.0
        while k + TWO <= last:
            a += memo[numbers[k]]
            b += memo[numbers[k + ONE]]
            k += TWO
        if k < last:
            a += memo[numbers[k]]
        out[p] = a + b


@inlined
def add_slots(example, n_atoms, coefficients, scale, vector, rows, tables, slots, memo):
    """Vector += Σ_p coefficients[p] g_p for the kept planes of one example.

    `n_atoms` is the length of its table; or `varied` if the coefficients sum to 0, so that common atoms cancel.
    `scale` is the size of the numbers whose differences the coefficients are, and so of their rounding errors.
    """
    numbers, left_out = tables.numbers, tables.length[example] - n_atoms
    for a in range(n_atoms):
        memo[a] = 0.0
    for p in range(slots.count[example]):
        coefficient = coefficients[p]
        if coefficient == 0.0:
            continue
        k = np.uint64(slots.start[example, p])
        last = k + np.uint64(slots.length[example, p] - left_out)
        while k < last:
            memo[numbers[k]] += coefficient
            k += ONE
    indptr, places, data = rows.indptr, rows.places, rows.data
    row_of, column_of, value_of = tables.atoms.row, tables.atoms.column, tables.atoms.value
    base = tables.start[example]
    for a in range(n_atoms):
        # Coefficients that sum to zero leave rounding errors on shared atoms, not worth a pass over a row.
        if abs(memo[a]) > 1e-14 * scale:
            step = memo[a] * value_of[base + a]
            row, column = row_of[base + a], column_of[base + a]
            if row < 0:
                vector[column] += step
            else:
                row_add(indptr, places, data, row, column, step, vector)


@njit
def combine(weights, rows, tables, slots, vector):
    """Vector += Σ_i c_i Σ_p α_ip g_ip; return Σ_i c_i Σ_p α_ip b_ip."""
    offset = 0.0
    memo = np.empty(tables.length.max())
    coefficients = np.empty(slots.start.shape[1])
    for example in range(slots.count.shape[0]):
        for p in range(slots.count[example]):
            coefficients[p] = weights[example] * slots.alpha[example, p]
            offset += coefficients[p] * slots.offset[example, p]
        add_slots(example, tables.length[example], coefficients, weights[example], vector, rows, tables, slots, memo)
    return offset


@njit
def mean_heights(examples, w, rows, tables, slots, out):
    """out[k] = Σ_p α_p s_p at w for the listed examples."""
    heights = np.empty(slots.start.shape[1])
    memo = np.empty(tables.length.max())
    for k in range(examples.shape[0]):
        example = examples[k]
        score_slots(example, tables.length[example], w, rows, tables, slots, memo, heights)
        out[k] = 0.0
        for p in range(slots.count[example]):
            out[k] += slots.alpha[example, p] * (heights[p] + slots.offset[example, p])


@njit
def add_highest(weights, w, rows, tables, slots, scratch, slope, values):
    """values[i] = height of example i's highest kept plane at w; slope += c_i times its slope.

    Returns Σ_i c_i times the planes' offsets.
    """
    size = slots.start.shape[1]
    heights, coefficients = np.empty(size), np.zeros(size)
    memo = np.empty(tables.length.max())
    offset = 0.0
    for example in range(slots.count.shape[0]):
        score_slots(example, tables.length[example], w, rows, tables, slots, memo, heights)
        best = 0
        for p in range(slots.count[example]):
            heights[p] += slots.offset[example, p]
            if heights[p] > heights[best]:
                best = p
        values[example] = heights[best]
        slots.used[example, best] = scratch.clock[0]
        offset += weights[example] * slots.offset[example, best]
        coefficients[best] = weights[example]
        add_slots(example, tables.length[example], coefficients, weights[example], slope, rows, tables, slots, memo)
        coefficients[best] = 0.0
    return offset
