"""Room for kept planes: wider tables, slots that become free, gaps that are closed, and planes that are given up."""

import numpy as np

from latentstruct.kernels.jit import inlined, njit
from latentstruct.kernels.plane_store import add_slots, atom_key, gram_of, score_slots


@inlined
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
    """Give the dual mass of plane p to the other plane where the dual value falls least; `w` follows.

    Returns the change of Σ c α b.
    """
    moved = slots.alpha[example, p]
    if moved == 0.0:
        return 0.0
    count, gram = slots.count[example], gram_of(example, slots)
    heights = np.empty(slots.start.shape[1])
    score_slots(example, tables.varied[example], w, rows, tables, slots, memo, heights)
    best, least = -1, np.inf
    for q in range(count):
        if q != p:
            curvature = weight * moved * (gram[p, p] - 2.0 * gram[p, q] + gram[q, q])
            loss = 0.5 * curvature - heights[q] - slots.offset[example, q]
            if loss < least:
                best, least = q, loss
    coefficients = np.zeros(count)
    coefficients[best] = -weight * moved
    coefficients[p] = weight * moved
    add_slots(example, tables.varied[example], coefficients, weight, w, rows, tables, slots, memo)
    slots.alpha[example, best] += moved
    slots.alpha[example, p] = 0.0
    return weight * moved * (slots.offset[example, best] - slots.offset[example, p])


@inlined
def free_slot(example, oldest, slots):
    """Return a slot for a new plane: one whose plane is no longer useful, an empty one, or −1 if there is none.

    A plane without weight costs nothing to drop; it goes when it was last used before `oldest`, or when all slots
    are taken.
    """
    count = slots.count[example]
    victim = -1
    for p in range(count):
        if slots.alpha[example, p] == 0.0 and (victim < 0 or slots.used[example, p] < slots.used[example, victim]):
            victim = p
    if count < slots.side[example] and (victim < 0 or slots.used[example, victim] >= oldest):
        slots.count[example] = count + 1
        return count
    return victim


@njit
def lightest(example, slots):
    """Return the two planes of the example with the least dual mass."""
    first, second = 0, 1
    if slots.alpha[example, 1] < slots.alpha[example, 0]:
        first, second = 1, 0
    for p in range(2, slots.count[example]):
        if slots.alpha[example, p] < slots.alpha[example, first]:
            first, second = p, first
        elif slots.alpha[example, p] < slots.alpha[example, second]:
            second = p
    return first, second


@njit
def add_shares(example, shares, tables):
    """Append the atoms of the example's table times their shares to the table, and the plane of them to the numbers.

    Atoms of the same row and column become one, so that means of means do not grow without end. Those with a share of 1
    stay as they are.
    """
    base, length, end = tables.start[example], tables.length[example], tables.end[1]
    size = 16
    while size < 2 * length:
        size *= 2
    places = np.full(size, -1, dtype=np.int64)
    added = length
    for a in range(length):
        if shares[a] == 0.0:
            continue
        if shares[a] == 1.0:
            tables.numbers[end] = a
            end += 1
            continue
        row, column = tables.atoms.row[base + a], tables.atoms.column[base + a]
        place = (row * 1000003 + column * 7919) & (size - 1)
        while places[place] >= 0:
            other = base + places[place]
            if tables.atoms.row[other] == row and tables.atoms.column[other] == column:
                break
            place = (place + 1) & (size - 1)
        if places[place] < 0:
            places[place] = added
            tables.atoms.row[base + added] = row
            tables.atoms.column[base + added] = column
            tables.atoms.value[base + added] = 0.0
            tables.numbers[end] = added
            end, added = end + 1, added + 1
        tables.atoms.value[base + places[place]] += shares[a] * tables.atoms.value[base + a]
    tables.length[example], tables.end[1] = added, end


@njit
def merge_lightest(examples, tables, slots):
    """Replace the two lightest planes of each listed example by their mean, which leaves the dual point as it is.

    A mean of planes below a function is below it too. The caller has made space for all atoms of both planes.
    """
    for example in examples:
        p, q = lightest(example, slots)
        mass = slots.alpha[example, p] + slots.alpha[example, q]
        part = slots.alpha[example, p] / mass
        shares = np.zeros(tables.length[example])
        for plane, share in ((p, part), (q, 1.0 - part)):
            start = slots.start[example, plane]
            for k in range(start, start + slots.length[example, plane]):
                shares[tables.numbers[k]] += share
        most = tables.length[example] + slots.length[example, p] + slots.length[example, q]
        widen_table(example, most, tables)
        start = tables.end[1]
        add_shares(example, shares, tables)
        slots.offset[example, p] = part * slots.offset[example, p] + (1.0 - part) * slots.offset[example, q]
        slots.start[example, p], slots.length[example, p] = start, tables.end[1] - start
        slots.alpha[example, p], slots.mixed[example, p] = mass, True
        slots.used[example, p] = max(slots.used[example, p], slots.used[example, q])
        gram = gram_of(example, slots)
        square = part * part * gram[p, p] + 2.0 * part * (1.0 - part) * gram[p, q] + (1.0 - part) ** 2 * gram[q, q]
        for r in range(slots.count[example]):
            gram[p, r] = part * gram[p, r] + (1.0 - part) * gram[q, r]
            gram[r, p] = gram[p, r]
        gram[p, p] = square
        slots.key[example, p] = plane_key(example, p, tables, slots)
        remove_slot(example, q, slots)
        sort_table(example, tables, slots)


@njit
def remove_slot(example, p, slots):
    """Let the last plane of the example take the place of plane p."""
    last, gram = slots.count[example] - 1, gram_of(example, slots)
    slots.start[example, p] = slots.start[example, last]
    slots.length[example, p] = slots.length[example, last]
    slots.offset[example, p] = slots.offset[example, last]
    slots.alpha[example, p] = slots.alpha[example, last]
    slots.used[example, p] = slots.used[example, last]
    slots.key[example, p] = slots.key[example, last]
    slots.mixed[example, p] = slots.mixed[example, last]
    for q in range(last):
        gram[p, q] = gram[last, q]
        gram[q, p] = gram[q, last]
    gram[p, p] = gram[last, last]
    slots.count[example] = last


@njit
def move_matrices(examples, corners, sides, slots, target):
    """Copy the Gram matrices of the listed examples to other corners of `target`, where they have other sides."""
    for k in range(examples.shape[0]):
        example, side = examples[k], sides[k]
        gram, count = gram_of(example, slots), slots.count[example]
        for p in range(count):
            for q in range(count):
                target[corners[k] + p * side + q] = gram[p, q]
        slots.corner[example], slots.side[example] = corners[k], side


@njit
def plane_key(example, p, tables, slots):
    """Return the hash of the atoms of a kept plane."""
    base, start, atoms = tables.start[example], slots.start[example, p], tables.atoms
    key = np.uint64(0)
    for k in range(start, start + slots.length[example, p]):
        a = base + tables.numbers[k]
        key += atom_key(atoms.row[a], atoms.column[a], atoms.value[a])
    return key


@inlined
def sort_table(example, tables, slots):
    """Take atoms that no kept plane uses out of the example's table, and put common ones last.

    The first atom of a plane stays first, because callers know planes by it; it does not count as common. All else
    stays in order.
    """
    base, length, count, numbers = tables.start[example], tables.length[example], slots.count[example], tables.numbers
    users, last_user = np.zeros(length, dtype=np.int32), np.full(length, -1, dtype=np.int32)
    for p in range(count):
        start = slots.start[example, p]
        for k in range(start, start + slots.length[example, p]):
            a = numbers[k]
            # More users than there are planes stand for an atom that is first, or repeated.
            users[a] = users[a] + 1 if last_user[a] != p and k > start else count + 1
            last_user[a] = p
    varied, kept = 0, 0
    for a in range(length):
        varied += users[a] > 0 and users[a] != count
        kept += users[a] > 0
    moved = np.empty(kept, dtype=np.int64)
    next_varied, next_common = 0, varied
    for a in range(length):
        if users[a] == count:
            moved[next_common], users[a] = base + a, next_common
            next_common += 1
        elif users[a] > 0:
            moved[next_varied], users[a] = base + a, next_varied
            next_varied += 1
    row, column, value = tables.atoms.row[moved], tables.atoms.column[moved], tables.atoms.value[moved]
    tables.atoms.row[base : base + kept] = row
    tables.atoms.column[base : base + kept] = column
    tables.atoms.value[base : base + kept] = value
    tables.length[example], tables.varied[example] = kept, varied
    common = np.empty(kept - varied, dtype=np.uint32)
    for p in range(count):
        start, stop = slots.start[example, p], slots.start[example, p] + slots.length[example, p]
        end, n_common = start, 0
        for k in range(start, stop):
            number = users[numbers[k]]
            if number < varied:
                numbers[end] = number
                end += 1
            else:
                common[n_common] = number
                n_common += 1
        numbers[end:stop] = common[:n_common]


@njit
def complete(tables, slots):
    """Fill in what follows from the planes themselves: their keys, and which atoms are common."""
    for example in range(slots.count.shape[0]):
        for p in range(slots.count[example]):
            slots.key[example, p] = plane_key(example, p, tables, slots)
        sort_table(example, tables, slots)


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

    Returns the change of Σ c α b.
    """
    memo = np.empty(tables.length.max())
    change = 0.0
    for k in range(examples.shape[0]):
        example, p = examples[k], places[k]
        change += hand_over(example, p, weights[example], w, rows, tables, slots, memo)
        remove_slot(example, p, slots)
        if k + 1 == examples.shape[0] or examples[k + 1] != example:
            sort_table(example, tables, slots)
    return change
