"""Room for kept planes: closing gaps between them, and giving planes up."""

import numpy as np

from latentstruct.kernels.jit import njit
from latentstruct.kernels.planes import hand_over, prune_table


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
