"""Arithmetic on compact planes: scores, sums, Gram matrices and dual ascent inside an example.

A plane is a list of *atoms* (row, column, value). An atom with row r ≥ 0 stands for `value · x_r` placed at
the weights `column + place`, where x_r is a sparse row of the inputs; an atom with row −1 stands
for `value` at the weight `column`.

Planes of one example share most atoms. Kept planes are therefore lists of numbers into the example's table of
distinct atoms: each atom is multiplied with w once, and what cancels between planes never touches w.

Symbols: c weight of an example, g_p slope and b_p offset of its plane p, α_p its dual variable (Σ_p α_p = 1),
s_p = b_p + g_p·w the plane's height at w = l − Σ_i c_i Σ_p α_ip g_ip, K_pq = g_p·g_q.
"""

from typing import NamedTuple

import numpy as np

from latentstruct.kernels.jit import inlined, njit

PLAIN, AWAY, PAIRWISE, SMO = 0, 1, 2, 3


class Rows(NamedTuple):
    """Input rows shared by planes: CSR with `places` = stride · feature; no `data` means that all values are 1.

    One-hot inputs are the rule in text, and need no second array.
    """

    indptr: np.ndarray
    places: np.ndarray
    data: np.ndarray


class Atoms(NamedTuple):
    """Flat atoms of many planes."""

    row: np.ndarray
    column: np.ndarray
    value: np.ndarray


class Slots(NamedTuple):
    """Planes kept for each of n examples in up to K slots; `count` of them are in use."""

    start: np.ndarray  # (n, K) first number of the plane
    length: np.ndarray  # (n, K) how many numbers
    offset: np.ndarray  # (n, K) b_p
    alpha: np.ndarray  # (n, K)
    used: np.ndarray  # (n, K) clock of the last use
    gram: np.ndarray  # (n, K, K)
    count: np.ndarray  # type: ignore[assignment]  # (n,); hides tuple.count, which nobody needs here


class Tables(NamedTuple):
    """Distinct atoms of each example (flat, with a start, a length and room), and the planes' numbers."""

    atoms: Atoms
    start: np.ndarray  # (n,)
    length: np.ndarray  # (n,)
    room: np.ndarray  # (n,)
    numbers: np.ndarray
    end: np.ndarray  # (2,): used atoms, used numbers


class Scratch(NamedTuple):
    """Work space; `vector` is all zero between calls."""

    vector: np.ndarray  # (d,)
    clock: np.ndarray  # (1,): rounds so far


# Inner loops run over unsigned positions: a signed index costs a check for negative values at each access.
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@inlined
def row_dot(indptr, places, data, row, column, vector):
    """Return x_row · vector at the weights of `column`.

    Four sums at a time: one alone would wait for each addition to finish before the next.
    """
    shift = np.uint64(column)
    k, last = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
    a = b = c = d = 0.0
    if len(data) == 0:
        while k + FOUR <= last:
            a += vector[shift + places[k]]
            b += vector[shift + places[k + ONE]]
            c += vector[shift + places[k + TWO]]
            d += vector[shift + places[k + THREE]]
            k += FOUR
        while k < last:
            a += vector[shift + places[k]]
            k += ONE
        return (a + b) + (c + d)
    while k + FOUR <= last:
        a += data[k] * vector[shift + places[k]]
        b += data[k + ONE] * vector[shift + places[k + ONE]]
        c += data[k + TWO] * vector[shift + places[k + TWO]]
        d += data[k + THREE] * vector[shift + places[k + THREE]]
        k += FOUR
    while k < last:
        a += data[k] * vector[shift + places[k]]
        k += ONE
    return (a + b) + (c + d)


@inlined
def row_add(indptr, places, data, row, column, coefficient, vector):
    """Add coefficient · x_row to `vector` at the weights of `column`."""
    shift = np.uint64(column)
    k, last = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
    if len(data) == 0:
        while k < last:
            vector[shift + places[k]] += coefficient
            k += ONE
        return
    while k < last:
        vector[shift + places[k]] += coefficient * data[k]
        k += ONE


@njit
def atoms_dot(rows, atoms, start, stop, vector):
    """Return g · vector for the plane made of atoms start … stop."""
    total = 0.0
    for a in range(start, stop):
        if atoms.row[a] < 0:
            total += atoms.value[a] * vector[atoms.column[a]]
        else:
            total += atoms.value[a] * row_dot(
                rows.indptr, rows.places, rows.data, atoms.row[a], atoms.column[a], vector
            )
    return total


@njit
def atoms_add(rows, atoms, start, stop, coefficient, vector):
    """Add coefficient · g to `vector` for the plane made of atoms start … stop."""
    for a in range(start, stop):
        step = coefficient * atoms.value[a]
        if atoms.row[a] < 0:
            vector[atoms.column[a]] += step
        else:
            row_add(rows.indptr, rows.places, rows.data, atoms.row[a], atoms.column[a], step, vector)


@njit
def atoms_clear(rows, atoms, start, stop, vector):
    """Set `vector` to exact zero wherever the plane made of atoms start … stop may be non-zero."""
    for a in range(start, stop):
        row, column = atoms.row[a], atoms.column[a]
        if row < 0:
            vector[column] = 0.0
        else:
            for k in range(rows.indptr[row], rows.indptr[row + 1]):
                vector[column + rows.places[k]] = 0.0


@njit
def planes_dot(rows, atoms, pointers, vector, out):
    """out[p] = g_p · vector for all planes; pointers is (k + 1,)."""
    for p in range(out.shape[0]):
        out[p] = atoms_dot(rows, atoms, pointers[p], pointers[p + 1], vector)


@njit
def planes_add(rows, atoms, pointers, coefficients, vector):
    """Vector += Σ_p coefficients[p] g_p; pointers is (k + 1,)."""
    for p in range(coefficients.shape[0]):
        if coefficients[p] != 0.0:
            atoms_add(rows, atoms, pointers[p], pointers[p + 1], coefficients[p], vector)


@njit
def score_atoms(example, vector, rows, tables, memo):
    """memo[a] = atom a of the example's table · vector."""
    indptr, places, data = rows.indptr, rows.places, rows.data
    row_of, column_of, value_of = tables.atoms.row, tables.atoms.column, tables.atoms.value
    start = tables.start[example]
    for a in range(tables.length[example]):
        row, column = row_of[start + a], column_of[start + a]
        product = vector[column] if row < 0 else row_dot(indptr, places, data, row, column, vector)
        memo[a] = value_of[start + a] * product


@njit
def score_slots(example, vector, rows, tables, slots, memo, out):
    """out[p] = g_p · vector for the kept planes of one example."""
    score_atoms(example, vector, rows, tables, memo)
    numbers = tables.numbers
    for p in range(slots.count[example]):
        k = np.uint64(slots.start[example, p])
        last = k + np.uint64(slots.length[example, p])
        a = b = 0.0
        while k + TWO <= last:
            a += memo[numbers[k]]
            b += memo[numbers[k + ONE]]
            k += TWO
        if k < last:
            a += memo[numbers[k]]
        out[p] = a + b


@njit
def add_slots(example, coefficients, vector, rows, tables, slots, memo):
    """Vector += Σ_p coefficients[p] g_p for the kept planes of one example."""
    numbers, length = tables.numbers, tables.length[example]
    for a in range(length):
        memo[a] = 0.0
    largest = 0.0
    for p in range(slots.count[example]):
        coefficient = coefficients[p]
        if coefficient == 0.0:
            continue
        largest = max(largest, abs(coefficient))
        k = np.uint64(slots.start[example, p])
        last = k + np.uint64(slots.length[example, p])
        while k < last:
            memo[numbers[k]] += coefficient
            k += ONE
    indptr, places, data = rows.indptr, rows.places, rows.data
    row_of, column_of, value_of = tables.atoms.row, tables.atoms.column, tables.atoms.value
    base = tables.start[example]
    for a in range(length):
        # Coefficients that sum to zero leave rounding errors on shared atoms, not worth a pass over a row.
        if abs(memo[a]) > 1e-14 * largest:
            step = memo[a] * value_of[base + a]
            row, column = row_of[base + a], column_of[base + a]
            if row < 0:
                vector[column] += step
            else:
                row_add(indptr, places, data, row, column, step, vector)


@njit
def hash_place(row, column, value, table, atoms, start, mask):
    """Return the place of an atom in the open hash table: where it is, or the free place where it belongs."""
    place = (row * 1000003 + column * 7919 + int(value * 1024.0) * 31) & mask
    while table[place] >= 0:
        a = start + table[place]
        if atoms.row[a] == row and atoms.column[a] == column and atoms.value[a] == value:
            return place
        place = (place + 1) & mask
    return place


@njit
def number_atoms(example, new, first, last, tables, numbers):
    """Find the atoms first … last of `new` in the example's table, adding those that are not there."""
    start, length = tables.start[example], tables.length[example]
    size = 16
    while size < 2 * (length + last - first):
        size *= 2
    table = np.full(size, -1, dtype=np.int32)
    for a in range(length):
        row, column = tables.atoms.row[start + a], tables.atoms.column[start + a]
        value = tables.atoms.value[start + a]
        table[hash_place(row, column, value, table, tables.atoms, start, size - 1)] = a
    for k in range(first, last):
        row, column, value = new.row[k], new.column[k], new.value[k]
        place = hash_place(row, column, value, table, tables.atoms, start, size - 1)
        if table[place] < 0:
            table[place] = length
            tables.atoms.row[start + length] = row
            tables.atoms.column[start + length] = column
            tables.atoms.value[start + length] = value
            length += 1
        numbers[k - first] = table[place]
    tables.length[example] = length


@njit
def widen_table(example, needed, tables):
    """Move the example's table to the end of the used atoms if it lacks room for `needed` atoms."""
    if needed <= tables.room[example]:
        return
    old, new = tables.start[example], tables.end[0]
    for a in range(tables.length[example]):
        tables.atoms.row[new + a] = tables.atoms.row[old + a]
        tables.atoms.column[new + a] = tables.atoms.column[old + a]
        tables.atoms.value[new + a] = tables.atoms.value[old + a]
    tables.start[example] = new
    tables.room[example] = needed
    tables.end[0] += needed


@njit
def find_slot(example, offset, numbers, length, tables, slots):
    """Return the slot that already holds this plane, or −1."""
    for p in range(slots.count[example]):
        if slots.offset[example, p] != offset or slots.length[example, p] != length:
            continue
        start = slots.start[example, p]
        same = True
        for k in range(length):
            if tables.numbers[start + k] != numbers[k]:
                same = False
                break
        if same:
            return p
    return -1


@njit
def hand_over(example, p, weight, w, rows, tables, slots, memo):
    """Give the dual mass of plane p to the heaviest of the example's other planes; `w` follows."""
    moved = slots.alpha[example, p]
    if moved == 0.0:
        return
    count = slots.count[example]
    heaviest = 0 if p != 0 else 1
    for q in range(count):
        if q != p and slots.alpha[example, q] > slots.alpha[example, heaviest]:
            heaviest = q
    coefficients = np.zeros(count)
    coefficients[heaviest] = -weight * moved
    coefficients[p] = weight * moved
    add_slots(example, coefficients, w, rows, tables, slots, memo)
    slots.alpha[example, heaviest] += moved
    slots.alpha[example, p] = 0.0


@njit
def free_slot(example, weight, w, oldest, rows, tables, slots, memo):
    """Return a slot for a new plane: one whose plane is no longer useful, an empty one, or the least useful.

    A plane without weight costs nothing to drop; it goes when it was last used before `oldest`, or when all slots
    are taken. If all have weight, the lightest hands its own to the heaviest; the dual value may then fall a
    little, which no bound relies on.
    """
    count = slots.count[example]
    victim, heaviest = -1, 0
    for p in range(count):
        if slots.alpha[example, p] == 0.0 and (victim < 0 or slots.used[example, p] < slots.used[example, victim]):
            victim = p
        if slots.alpha[example, p] > slots.alpha[example, heaviest]:
            heaviest = p
    if count < slots.start.shape[1] and (victim < 0 or slots.used[example, victim] >= oldest):
        slots.count[example] = count + 1
        return count
    if victim >= 0:
        return victim
    victim = 0 if heaviest != 0 else 1
    for p in range(count):
        if p != heaviest and slots.alpha[example, p] < slots.alpha[example, victim]:
            victim = p
    hand_over(example, victim, weight, w, rows, tables, slots, memo)
    return victim


@njit
def prune_table(example, tables, slots):
    """Take atoms that no kept plane uses out of the example's table."""
    base, length = tables.start[example], tables.length[example]
    renumbered = np.full(length, -1, dtype=np.int32)
    for p in range(slots.count[example]):
        start = slots.start[example, p]
        for k in range(start, start + slots.length[example, p]):
            renumbered[tables.numbers[k]] = 0
    kept = 0
    for a in range(length):
        if renumbered[a] == 0:
            renumbered[a] = kept
            tables.atoms.row[base + kept] = tables.atoms.row[base + a]
            tables.atoms.column[base + kept] = tables.atoms.column[base + a]
            tables.atoms.value[base + kept] = tables.atoms.value[base + a]
            kept += 1
    tables.length[example] = kept
    for p in range(slots.count[example]):
        start = slots.start[example, p]
        for k in range(start, start + slots.length[example, p]):
            tables.numbers[k] = renumbered[tables.numbers[k]]


@njit
def append_planes(examples, new, pointers, offsets, weights, w, idle, rows, tables, slots, scratch):
    """Keep new planes, one for each listed example; the caller has made room.

    A plane that is there already is only marked as used. New planes get α = 0, or α = 1 when they are the
    example's first. `w` changes only where a plane with weight had to be given up.
    """
    heights = np.empty(slots.start.shape[1])
    now = scratch.clock[0]
    for k in range(examples.shape[0]):
        example, first, last = examples[k], pointers[k], pointers[k + 1]
        widen_table(example, tables.length[example] + last - first, tables)
        start = tables.end[1]
        number_atoms(example, new, first, last, tables, tables.numbers[start : start + last - first])
        memo = np.empty(tables.length[example])
        p = find_slot(example, offsets[k], tables.numbers[start:], last - first, tables, slots)
        if p >= 0:
            slots.used[example, p] = now
            continue
        count = slots.count[example]
        p = free_slot(example, weights[example], w, now - idle, rows, tables, slots, memo)
        tables.end[1] += last - first
        slots.start[example, p] = start
        slots.length[example, p] = last - first
        slots.offset[example, p] = offsets[k]
        slots.alpha[example, p] = 1.0 if count == 0 else 0.0
        slots.used[example, p] = now
        if p < count:
            prune_table(example, tables, slots)
        atoms_add(rows, new, first, last, 1.0, scratch.vector)
        score_slots(example, scratch.vector, rows, tables, slots, memo, heights)
        atoms_clear(rows, new, first, last, scratch.vector)
        for q in range(slots.count[example]):
            slots.gram[example, p, q] = heights[q]
            slots.gram[example, q, p] = heights[q]


@njit
def block_gap(count, alpha, heights):
    """Return max_p s_p − Σ_p α_p s_p, the example's duality gap over its kept planes (per unit weight)."""
    best = heights[0]
    mean = 0.0
    for p in range(count):
        best = max(best, heights[p])
        mean += alpha[p] * heights[p]
    return best - mean


@njit
def move_mass(count, source, target, weight, limit, alpha, heights, gram):
    """Move the best part (≤ limit) of dual mass from plane `source` to `target`; return the gain."""
    slope = heights[target] - heights[source]
    curvature = weight * (gram[target, target] - 2.0 * gram[target, source] + gram[source, source])
    # Two planes of equal slope: the higher one takes all.
    moved = limit if slope >= curvature * limit else slope / curvature
    if moved <= 0.0:
        return 0.0
    # Exact zeros matter: a plane without weight may be dropped.
    alpha[source] = alpha[source] - moved if moved < alpha[source] else 0.0
    alpha[target] += moved
    gain = weight * moved * (slope - 0.5 * curvature * moved)
    for p in range(count):
        heights[p] -= weight * moved * (gram[target, p] - gram[source, p])
    return gain


@njit
def best_and_worst(count, alpha, heights):
    """Return the highest plane and the lowest one that has weight."""
    best, worst = 0, -1
    for p in range(count):
        if heights[p] > heights[best]:
            best = p
        if alpha[p] > 0.0 and (worst < 0 or heights[p] < heights[worst]):
            worst = p
    return best, worst


@njit
def toward_vertex(count, vertex, away, weight, alpha, heights, gram):
    """Frank-Wolfe step with exact line search toward a plane, or away from it."""
    cross, square, mean = 0.0, 0.0, 0.0
    for p in range(count):
        if alpha[p] == 0.0:
            continue
        mean += alpha[p] * heights[p]
        cross += alpha[p] * gram[vertex, p]
        for q in range(count):
            square += alpha[p] * alpha[q] * gram[p, q]
    sign = -1.0 if away else 1.0
    slope = sign * (heights[vertex] - mean)
    limit = 1.0
    if away:
        limit = alpha[vertex] / (1.0 - alpha[vertex]) if alpha[vertex] < 1.0 else 0.0
    curvature = weight * (gram[vertex, vertex] - 2.0 * cross + square)
    step = limit if slope >= curvature * limit else slope / curvature
    if step <= 0.0:
        return
    for p in range(count):
        alpha[p] *= 1.0 - sign * step
    alpha[vertex] += sign * step
    if (away and step == limit) or alpha[vertex] < 0.0:
        alpha[vertex] = 0.0
    if not away and step == 1.0:
        alpha[:count] = 0.0
        alpha[vertex] = 1.0


@njit
def update_block(rule, count, weight, steps, alpha, heights, gram):
    """Raise the dual over one example's kept planes by the asked rule."""
    if rule == SMO:
        first = 0.0
        for step in range(steps):
            best, source = best_and_worst(count, alpha, heights)
            if heights[best] <= heights[source]:
                return
            gain = move_mass(count, source, best, weight, alpha[source], alpha, heights, gram)
            if step == 0:
                first = gain
            # More precision on planes that will soon be joined by better ones is wasted.
            elif gain < 0.1 * first:
                return
        return
    best, worst = best_and_worst(count, alpha, heights)
    if rule == PAIRWISE:
        if heights[best] > heights[worst]:
            move_mass(count, worst, best, weight, alpha[worst], alpha, heights, gram)
        return
    mean = 0.0
    for p in range(count):
        mean += alpha[p] * heights[p]
    if rule == AWAY and mean - heights[worst] > heights[best] - mean:
        toward_vertex(count, worst, True, weight, alpha, heights, gram)
    else:
        toward_vertex(count, best, False, weight, alpha, heights, gram)


@njit
def ascend(rule, steps, examples, weights, w, rows, tables, slots, scratch, gaps):
    """Update the listed examples one after the other; `w` follows.

    gaps[k] is the weighted gap of example k over its kept planes, before its own update. The result is the
    change of Σ_i c_i Σ_p α_ip b_ip.
    """
    size = slots.start.shape[1]
    heights = np.empty(size)
    before = np.empty(size)
    memo = np.empty(tables.length.max())
    now = scratch.clock[0]
    change = 0.0
    for k in range(examples.shape[0]):
        example = examples[k]
        weight = weights[example]
        count = slots.count[example]
        alpha = slots.alpha[example]
        if weight == 0.0:
            gaps[k] = 0.0
            continue
        score_slots(example, w, rows, tables, slots, memo, heights)
        for p in range(count):
            heights[p] += slots.offset[example, p]
            before[p] = alpha[p]
        gaps[k] = weight * block_gap(count, alpha, heights)
        if gaps[k] <= 0.0:
            continue
        update_block(rule, count, weight, steps, alpha, heights, slots.gram[example])
        moved = False
        for p in range(count):
            if alpha[p] > 0.0:
                slots.used[example, p] = now
            # The change of w is −c (α − α_before).
            before[p] = weight * (before[p] - alpha[p])
            change -= before[p] * slots.offset[example, p]
            moved = moved or before[p] != 0.0
        if moved:
            add_slots(example, before, w, rows, tables, slots, memo)
    return change


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
        add_slots(example, coefficients, vector, rows, tables, slots, memo)
    return offset


@njit
def mean_heights(examples, w, rows, tables, slots, out):
    """out[k] = Σ_p α_p s_p at w for the listed examples."""
    heights = np.empty(slots.start.shape[1])
    memo = np.empty(tables.length.max())
    for k in range(examples.shape[0]):
        example = examples[k]
        score_slots(example, w, rows, tables, slots, memo, heights)
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
        score_slots(example, w, rows, tables, slots, memo, heights)
        best = 0
        for p in range(slots.count[example]):
            heights[p] += slots.offset[example, p]
            if heights[p] > heights[best]:
                best = p
        values[example] = heights[best]
        slots.used[example, best] = scratch.clock[0]
        offset += weights[example] * slots.offset[example, best]
        coefficients[best] = weights[example]
        add_slots(example, coefficients, slope, rows, tables, slots, memo)
        coefficients[best] = 0.0
    return offset
