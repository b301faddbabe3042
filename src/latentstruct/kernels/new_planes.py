"""New planes for the store: their atoms are numbered by the example's table, and they get a slot."""

import numpy as np

from latentstruct.kernels.jit import njit
from latentstruct.kernels.plane_room import free_slot, hand_over, lightest, prune_table, widen_table
from latentstruct.kernels.plane_store import gram_of, score_slots
from latentstruct.kernels.planes import atoms_add, atoms_clear


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
def append_planes(examples, new, pointers, offsets, weights, w, idle, rows, tables, slots, scratch):
    """Keep new planes, one for each listed example; the caller has made room.

    A plane that is there already is only marked as used. New planes get α = 0, or α = 1 when they are the
    example's first. `w` changes only where a plane with weight had to be given up. Returns the change of Σ c α b.
    """
    change = 0.0
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
        p = free_slot(example, now - idle, slots)
        if p < 0:
            p, _ = lightest(example, slots)
            change += hand_over(example, p, weights[example], w, rows, tables, slots, memo)
        tables.end[1] += last - first
        slots.start[example, p] = start
        slots.length[example, p] = last - first
        slots.offset[example, p] = offsets[k]
        slots.alpha[example, p] = 1.0 if count == 0 else 0.0
        slots.used[example, p] = now
        slots.mixed[example, p] = False
        if p < count:
            prune_table(example, tables, slots)
        atoms_add(rows, new, first, last, 1.0, scratch.vector)
        score_slots(example, scratch.vector, rows, tables, slots, memo, heights)
        atoms_clear(rows, new, first, last, scratch.vector)
        gram = gram_of(example, slots)
        for q in range(slots.count[example]):
            gram[p, q] = heights[q]
            gram[q, p] = heights[q]
    return change
