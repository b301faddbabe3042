"""Orders in which the variables of a factor graph are eliminated, and the programs made of them.

Step k of a program eliminates a variable v and leaves a message over its *separator*, the variables that v then shares
a table with. Separators are sorted, the first to be eliminated first: a message then mostly fits the table that uses it
without a permutation.

The table of a step is worked on in blocks of all states of v times INNER rows, a row being a joint state of the
separator: row a·INNER + l and state x are entry x·INNER + l of block a, and entry outer[a] + inner[x·INNER + l] of an
input, so that index lists stay short.
"""

import heapq

import numpy as np

from latentstruct.kernels.jit import njit

# Columns of the array of steps.
VARIABLE, CARD, ROWS, INNER, TABLE, MESSAGE, UNARY, FACTORS, MESSAGES, INPUTS_END, PARENT, SEPARATOR = range(12)
STEP_COLUMNS = 12
# Columns of the array of inputs: where the table or message begins, its size, its index lists and their kind.
SOURCE, SIZE, OUTER_INDEX, INNER_INDEX, KIND = range(5)
INPUT_COLUMNS = 5
# Kinds of inner index lists: any, one entry after the other over the rows, the same entry for all rows.
ANY, CONTIGUOUS, CONSTANT = range(3)

# Rules that choose what to eliminate next: fewest edges added, smallest table, in the order of the variables' numbers,
# and in the reverse of that.
BY_FILL, BY_SIZE, FORWARD, BACKWARD = range(4)

ROWS_WANTED = 16
BLOCK_WANTED = 256
MANY = 64


@njit
def list_neighbours(n, scope_at, scopes):
    """Return start (n,), count (n,) and a pool: who shares a factor with each variable, each once."""
    room = np.zeros(n + 1, dtype=np.int64)
    for f in range(scope_at.shape[0] - 1):
        for k in range(scope_at[f], scope_at[f + 1]):
            room[scopes[k] + 1] += scope_at[f + 1] - scope_at[f] - 1
    start = np.cumsum(room)
    count = np.zeros(n, dtype=np.int64)
    pool = np.empty(max(start[n], 1), dtype=np.int64)
    for f in range(scope_at.shape[0] - 1):
        for k in range(scope_at[f], scope_at[f + 1]):
            v = scopes[k]
            for i in range(scope_at[f], scope_at[f + 1]):
                if i != k:
                    pool[start[v] + count[v]] = scopes[i]
                    count[v] += 1
    seen = np.full(n, -1, dtype=np.int64)
    for v in range(n):
        kept = 0
        for i in range(start[v], start[v] + count[v]):
            if seen[pool[i]] != v:
                seen[pool[i]] = v
                pool[start[v] + kept] = pool[i]
                kept += 1
        count[v] = kept
    return start[:n].copy(), count, pool


@njit
def score_elimination(v, sizes, start, count, pool, mark, rule):
    """Cost of eliminating v next: edges to be added (then size of the table), the size alone in bits, or v's place."""
    if rule >= FORWARD:
        return float(v if rule == FORWARD else -v)
    by_fill = rule == BY_FILL
    pairs = count[v] * (count[v] - 1)
    if count[v] > MANY:
        # Too large to be eliminated soon; counting would make a star of n leaves cost n².
        return float(pairs // 2 if by_fill else count[v])
    size = sizes[v]
    for i in range(start[v], start[v] + count[v]):
        size += sizes[pool[i]]
    if not by_fill:
        return size
    if count[v] > 1:
        for i in range(start[v], start[v] + count[v]):
            mark[pool[i]] = True
        for i in range(start[v], start[v] + count[v]):
            u = pool[i]
            for j in range(start[u], start[u] + count[u]):
                if mark[pool[j]]:
                    pairs -= 1
        for i in range(start[v], start[v] + count[v]):
            mark[pool[i]] = False
    return pairs // 2 + 1e-3 * size


@njit
def append(items, length, source, first, count):
    """Copy source[first … first + count] behind the first `length` items; return the items, maybe in a larger array."""
    if length + count > items.shape[0]:
        larger = np.empty(2 * (length + count), dtype=np.int64)
        for i in range(length):
            larger[i] = items[i]
        items = larger
    for i in range(count):
        items[length + i] = source[first + i]
    return items


@njit
def connect_neighbours(v, start, count, pool, end, mark):
    """Take v out of the graph and make its neighbours adjacent; return the pool, maybe a larger one, and its end."""
    first, n_neighbours = start[v], count[v]
    for i in range(first, first + n_neighbours):
        u = pool[i]
        need = count[u] + n_neighbours
        if end + need > pool.shape[0]:
            larger = np.empty(2 * pool.shape[0] + need, dtype=np.int64)
            for j in range(end):
                larger[j] = pool[j]
            pool = larger
        kept = end
        for j in range(start[u], start[u] + count[u]):
            if pool[j] != v:
                mark[pool[j]] = True
                pool[kept] = pool[j]
                kept += 1
        n_old = kept - end
        for j in range(first, first + n_neighbours):
            if pool[j] != u and not mark[pool[j]]:
                pool[kept] = pool[j]
                kept += 1
        for j in range(end, end + n_old):
            mark[pool[j]] = False
        length = kept - end
        if length <= count[u]:
            for j in range(length):
                pool[start[u] + j] = pool[end + j]
        else:
            start[u] = end
            end = kept
        count[u] = length
    return pool, end


@njit
def choose_order(cards, scope_at, scopes, hidden, rule, max_entries, most_total):
    """Eliminate on paper by a rule, hidden variables first; give up at the first table above the limit.

    An order that the variables' numbers give may begin in the middle of a star; it is given up there, as connecting all
    leaves would cost the square of their number.

    Returns order (n,), separator offsets (n + 1,), separators, number of steps done (below n if it gave up), then the
    most neighbours, the largest table and the sum of tables so far.
    """
    n = cards.shape[0]
    start, count, pool = list_neighbours(n, scope_at, scopes)
    end = pool.shape[0]
    sizes = np.log2(cards.astype(np.float64))
    mark = np.zeros(n, dtype=np.bool_)
    scored = np.full(n, -1, dtype=np.int64)
    alive = np.ones(n, dtype=np.bool_)
    scores = np.zeros(n)
    order = np.empty(n, dtype=np.int64)
    separator_at = np.zeros(n + 1, dtype=np.int64)
    separators = np.empty(4 * n + 4, dtype=np.int64)
    done, width, largest, total = 0, 0, 1.0, 0.0
    for stage in range(2):
        heap = [(0.0, 0)]
        heap.pop()
        for v in range(n):
            if hidden[v] == (stage == 0):
                scores[v] = score_elimination(v, sizes, start, count, pool, mark, rule)
                heapq.heappush(heap, (scores[v], v))
        while len(heap) > 0:
            score, v = heapq.heappop(heap)
            if not alive[v] or score != scores[v]:
                continue
            entries = float(cards[v])
            for i in range(start[v], start[v] + count[v]):
                entries *= cards[pool[i]]
            width, largest, total = max(width, count[v]), max(largest, entries), total + entries
            if entries > max_entries or total > most_total or (rule >= FORWARD and count[v] > MANY):
                return order, separator_at, separators, done, width, largest, total
            separators = append(separators, separator_at[done], pool, start[v], count[v])
            order[done], separator_at[done + 1], alive[v] = v, separator_at[done] + count[v], False
            pool, end = connect_neighbours(v, start, count, pool, end, mark)
            done += 1
            if rule >= FORWARD:
                continue
            for i in range(separator_at[done - 1], separator_at[done]):
                u = separators[i]
                rescore(u, done, stage, hidden, sizes, start, count, pool, mark, rule, scored, scores, heap)
                if rule == BY_FILL and score >= 1.0:
                    for j in range(start[u], start[u] + count[u]):
                        rescore(
                            pool[j], done, stage, hidden, sizes, start, count, pool, mark, rule, scored, scores, heap
                        )
    return order, separator_at, separators, done, width, largest, total


@njit
def rescore(v, step, stage, hidden, sizes, start, count, pool, mark, rule, scored, scores, heap):
    """Put a variable of this stage back on the heap if its score changed; once a step."""
    if hidden[v] == (stage == 0) and scored[v] != step:
        scored[v] = step
        score = score_elimination(v, sizes, start, count, pool, mark, rule)
        if score != scores[v]:
            scores[v] = score
            heapq.heappush(heap, (score, v))


@njit
def lay_out(cards, scope_at, scopes, table_at, order, separator_at, separators):
    """Turn an order into a program.

    Sorts the separators in place and returns steps (n, 12), inputs, index lists,
    separators with strides (K, 2) and the size of the workspace. Positions count from the graph's first variable,
    state and table entry; the k-th row of inputs, separators and index entry from the program's own.
    """
    n, n_factors = cards.shape[0], scope_at.shape[0] - 1
    place = np.empty(n, dtype=np.int64)
    for k in range(n):
        place[order[k]] = k
    state_at = np.zeros(n + 1, dtype=np.int64)
    state_at[1:] = np.cumsum(cards)
    steps = np.zeros((n + 1, STEP_COLUMNS), dtype=np.int64)
    strides = np.empty((separator_at[n], 2), dtype=np.int64)
    position = 0
    for k in range(n):
        v, first, last = order[k], separator_at[k], separator_at[k + 1]
        sort_separator(separators, first, last, place)
        rows = 1
        for i in range(last - 1, first - 1, -1):
            strides[i, 0], strides[i, 1] = separators[i], rows
            rows *= cards[separators[i]]
        inner = 1
        for i in range(last - 1, first - 1, -1):
            if inner >= ROWS_WANTED and inner * cards[separators[i]] * cards[v] > BLOCK_WANTED:
                break
            inner *= cards[separators[i]]
        steps[k, VARIABLE], steps[k, CARD], steps[k, ROWS], steps[k, INNER] = v, cards[v], rows, inner
        steps[k, TABLE], steps[k, MESSAGE] = position, position + rows * cards[v]
        position += rows * (cards[v] + 1)
        steps[k, UNARY], steps[k, SEPARATOR] = state_at[v], first
        steps[k, PARENT] = place[separators[first]] if last > first else -1
    steps[n, SEPARATOR] = separator_at[n]
    home = np.full(n_factors, -1, dtype=np.int64)
    for f in range(n_factors):
        for i in range(scope_at[f], scope_at[f + 1]):
            if home[f] < 0 or place[scopes[i]] < home[f]:
                home[f] = place[scopes[i]]
    inputs = list_inputs(steps, n, home, table_at)
    index = index_inputs(steps, n, inputs, cards, strides, scope_at, scopes)
    return steps, inputs, index, strides, position


@njit
def sort_separator(separators, first, last, place):
    """First eliminated first."""
    for i in range(first + 1, last):
        v = separators[i]
        j = i
        while j > first and place[separators[j - 1]] > place[v]:
            separators[j] = separators[j - 1]
            j -= 1
        separators[j] = v


@njit
def list_inputs(steps, n, home, table_at):
    """Inputs of each step, tables of factors before messages; index positions are counted, not yet filled.

    The column OUTER_INDEX holds the number of the factor or of the sending step until `index_inputs` replaces it.
    """
    counts = np.zeros((n, 2), dtype=np.int64)
    total = 0
    for f in range(home.shape[0]):
        if home[f] >= 0:
            counts[home[f], 0] += 1
            total += 1
    for k in range(n):
        if steps[k, PARENT] >= 0:
            counts[steps[k, PARENT], 1] += 1
            total += 1
    inputs = np.empty((total, INPUT_COLUMNS), dtype=np.int64)
    position = 0
    for k in range(n):
        steps[k, FACTORS] = position
        steps[k, MESSAGES] = position + counts[k, 0]
        position += counts[k, 0] + counts[k, 1]
        steps[k, INPUTS_END] = position
        counts[k, 0], counts[k, 1] = steps[k, FACTORS], steps[k, MESSAGES]
    for f in range(home.shape[0]):
        if home[f] >= 0:
            row = counts[home[f], 0]
            counts[home[f], 0] += 1
            inputs[row, SOURCE], inputs[row, SIZE] = table_at[f] - table_at[0], table_at[f + 1] - table_at[f]
            inputs[row, OUTER_INDEX] = f
    for k in range(n):
        parent = steps[k, PARENT]
        if parent >= 0:
            row = counts[parent, 1]
            counts[parent, 1] += 1
            inputs[row, SOURCE], inputs[row, SIZE], inputs[row, OUTER_INDEX] = steps[k, MESSAGE], steps[k, ROWS], k
    return inputs


@njit
def entry_of(number, first, last, strides, cards, stride_in):
    """Entry of an input at the joint state `number` of the separator's variables first … last."""
    entry = 0
    for i in range(last - 1, first - 1, -1):
        if number == 0:
            break
        v = strides[i, 0]
        entry += number % cards[v] * stride_in[v]
        number //= cards[v]
    return entry


@njit
def set_strides(stride_in, item, is_factor, steps, strides, cards, scope_at, scopes, used):
    """Write down the step of each variable in the table of a factor or in a message; or clear it if not `used`."""
    if is_factor:
        stride = 1
        for i in range(scope_at[item + 1] - 1, scope_at[item] - 1, -1):
            stride_in[scopes[i]] = stride if used else 0
            stride *= cards[scopes[i]]
    else:
        for i in range(steps[item, SEPARATOR], steps[item + 1, SEPARATOR]):
            stride_in[strides[i, 0]] = strides[i, 1] if used else 0


@njit
def kind_of_list(index, first, n_rows):
    """Kind of an inner index list; short runs are no gain."""
    if n_rows < 4:
        return ANY
    step = np.int64(index[first + 1]) - np.int64(index[first])
    for row in range(1, n_rows):
        if np.int64(index[first + row]) - np.int64(index[first + row - 1]) != step:
            return ANY
    return CONTIGUOUS if step == 1 else CONSTANT if step == 0 else ANY


@njit
def index_inputs(steps, n, inputs, cards, strides, scope_at, scopes):
    """Fill the index lists."""
    total = 0
    for k in range(n):
        size = steps[k, ROWS] // steps[k, INNER] + steps[k, INNER] * steps[k, CARD]
        total += size * (steps[k, INPUTS_END] - steps[k, FACTORS])
    index = np.empty(total, dtype=np.uint32)
    stride_in = np.zeros(n, dtype=np.int64)
    position = 0
    for k in range(n):
        first, last = steps[k, SEPARATOR], steps[k + 1, SEPARATOR]
        v, n_inner, n_outer = steps[k, VARIABLE], steps[k, INNER], steps[k, ROWS] // steps[k, INNER]
        split, inner_rows = last, n_inner
        while inner_rows > 1:
            split -= 1
            inner_rows //= cards[strides[split, 0]]
        for i in range(steps[k, FACTORS], steps[k, INPUTS_END]):
            item, is_factor = inputs[i, OUTER_INDEX], i < steps[k, MESSAGES]
            set_strides(stride_in, item, is_factor, steps, strides, cards, scope_at, scopes, True)
            inputs[i, OUTER_INDEX], inputs[i, INNER_INDEX] = position, position + n_outer
            for a in range(n_outer):
                index[position + a] = entry_of(a, first, split, strides, cards, stride_in)
            position += n_outer
            for row in range(n_inner):
                entry = entry_of(row, split, last, strides, cards, stride_in)
                for x in range(cards[v]):
                    index[position + x * n_inner + row] = entry + x * stride_in[v]
            inputs[i, KIND] = kind_of_list(index, position, n_inner)
            position += n_inner * cards[v]
            set_strides(stride_in, item, is_factor, steps, strides, cards, scope_at, scopes, False)
    return index
