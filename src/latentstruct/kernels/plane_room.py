"""Room for kept planes: wider tables, slots that become free, gaps that are closed, and planes that are given up."""

import numpy as np

from latentstruct.kernels.jit import njit
from latentstruct.kernels.plane_store import add_slots


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
def close_up(tables, slots, table_order, examples, places):
    """Move tables and planes to the left until no gap is between them.

    `table_order` lists the examples, (examples, places) the kept planes, both by where they begin now. The order of
    atoms within a table stays, so that sums over them do too.
    """
    end = 0
    for example in table_order:
        start, length = tables.start[example], tables.length[example]
        for a in range(length):
            tables.atoms.row[end + a] = tables.atoms.row[start + a]
            tables.atoms.column[end + a] = tables.atoms.column[start + a]
            tables.atoms.value[end + a] = tables.atoms.value[start + a]
        tables.start[example] = end
        tables.room[example] = length
        end += length
    tables.end[0] = end
    end = 0
    for k in range(examples.shape[0]):
        start, length = slots.start[examples[k], places[k]], slots.length[examples[k], places[k]]
        for a in range(length):
            tables.numbers[end + a] = tables.numbers[start + a]
        slots.start[examples[k], places[k]] = end
        end += length
    tables.end[1] = end


@njit
def drop_planes(examples, places, weights, w, rows, tables, slots):
    """Give up the planes (examples, places), the places of one example falling; it must keep at least one.

    The last plane of the example takes the place that becomes free.
    """
    memo = np.empty(tables.length.max())
    for k in range(examples.shape[0]):
        example, p = examples[k], places[k]
        hand_over(example, p, weights[example], w, rows, tables, slots, memo)
        last = slots.count[example] - 1
        slots.start[example, p] = slots.start[example, last]
        slots.length[example, p] = slots.length[example, last]
        slots.offset[example, p] = slots.offset[example, last]
        slots.alpha[example, p] = slots.alpha[example, last]
        slots.used[example, p] = slots.used[example, last]
        for q in range(last):
            slots.gram[example, p, q] = slots.gram[example, last, q]
            slots.gram[example, q, p] = slots.gram[example, q, last]
        slots.gram[example, p, p] = slots.gram[example, last, last]
        slots.count[example] = last
        if k + 1 == examples.shape[0] or examples[k + 1] != example:
            prune_table(example, tables, slots)
