"""New planes for the store: their atoms are numbered by the example's table, and they get a slot."""

import numpy as np

from latentstruct.kernels.jit import inlined, njit
from latentstruct.kernels.plane_room import free_slot, hand_over, lightest, sort_table, widen_table
from latentstruct.kernels.plane_store import atom_key, gram_of, score_slots
from latentstruct.kernels.planes import atoms_add, atoms_clear


@inlined
def hash_place(row, column, value, places, atoms, start, mask):
    """Return the place of an atom in the open hash table: where it is, or the free place where it belongs."""
    place = (row * 1000003 + column * 7919 + int(value * 1024.0) * 31) & mask
    while places[place] >= 0:
        a = start + places[place]
        if atoms.row[a] == row and atoms.column[a] == column and atoms.value[a] == value:
            return place
        place = (place + 1) & mask
    return place


@inlined
def number_atoms(example, new, first, last, tables, places, numbers):
    """Find the atoms first … last of `new` in the example's table, adding those that are not there.

    `places` is work space for at least four times as many as the table will have.
    """
    start, length = tables.start[example], tables.length[example]
    size = 16
    while size < 2 * (length + last - first):
        size *= 2
    places[:size] = -1
    for a in range(length):
        row, column = tables.atoms.row[start + a], tables.atoms.column[start + a]
        value = tables.atoms.value[start + a]
        places[hash_place(row, column, value, places, tables.atoms, start, size - 1)] = a
    for k in range(first, last):
        row, column, value = new.row[k], new.column[k], new.value[k]
        place = hash_place(row, column, value, places, tables.atoms, start, size - 1)
        if places[place] < 0:
            places[place] = length
            tables.atoms.row[start + length] = row
            tables.atoms.column[start + length] = column
            tables.atoms.value[start + length] = value
            length += 1
        numbers[k - first] = places[place]
    tables.length[example] = length


@inlined
def find_slot(example, key, offset, length, slots):
    """Return the slot that already holds this plane, or −1."""
    for p in range(slots.count[example]):
        if slots.key[example, p] == key and slots.offset[example, p] == offset and slots.length[example, p] == length:
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
    most = 0
    for k in range(examples.shape[0]):
        most = max(most, tables.length[examples[k]] + pointers[k + 1] - pointers[k])
    memo, places = np.empty(most), np.empty(max(16, 4 * most), dtype=np.int32)
    now = scratch.clock[0]
    for k in range(examples.shape[0]):
        example, first, last = examples[k], pointers[k], pointers[k + 1]
        key = np.uint64(0)
        for a in range(first, last):
            key += atom_key(new.row[a], new.column[a], new.value[a])
        p = find_slot(example, key, offsets[k], last - first, slots)
        if p >= 0:
            slots.used[example, p] = now
            continue
        count = slots.count[example]
        p = free_slot(example, now - idle, slots)
        if p < 0:
            p, _ = lightest(example, slots)
            change += hand_over(example, p, weights[example], w, rows, tables, slots, memo)
        widen_table(example, tables.length[example] + last - first, tables)
        start = tables.end[1]
        tables.end[1] += last - first
        number_atoms(example, new, first, last, tables, places, tables.numbers[start : tables.end[1]])
        slots.start[example, p] = start
        slots.length[example, p] = last - first
        slots.offset[example, p] = offsets[k]
        slots.alpha[example, p] = 1.0 if count == 0 else 0.0
        slots.used[example, p] = now
        slots.key[example, p] = key
        slots.mixed[example, p] = False
        sort_table(example, tables, slots)
        atoms_add(rows, new, first, last, 1.0, scratch.vector)
        score_slots(example, tables.length[example], scratch.vector, rows, tables, slots, memo, heights)
        atoms_clear(rows, new, first, last, scratch.vector)
        gram = gram_of(example, slots)
        for q in range(slots.count[example]):
            gram[p, q] = heights[q]
            gram[q, p] = heights[q]
    return change
