"""Scores of graphs' nodes and edges from feature rows, the way back to the weights, and planes.

Items are the nodes, or the edges, of graphs that are laid out one after the other: those of graph g are items_at[g] …
items_at[g + 1], and item i has entries_at[i + 1] − entries_at[i] entries, one for each (joint) state. Row shift + i of
`rows` has its features; a feature's place is the first of its weights, one for each entry. Arrays of scores, beliefs
and states are compact: those of the asked `graphs` one after the other.
"""

import numpy as np

from latentstruct.kernels.jit import njit


@njit
def score_items(rows, graphs, items_at, shift, entries_at, w, out):
    """Write to `out` the scores of all states of the asked graphs' items."""
    at = 0
    plain = len(rows.data) == 0
    for g in graphs:
        for i in range(items_at[g], items_at[g + 1]):
            size = entries_at[i + 1] - entries_at[i]
            scores = out[at : at + size]
            scores[:] = 0.0
            for k in range(rows.indptr[shift + i], rows.indptr[shift + i + 1]):
                value = 1.0 if plain else rows.data[k]
                place = np.int64(rows.places[k])
                block = w[place : place + size]
                for s in range(size):
                    scores[s] += value * block[s]
            at += size


@njit
def add_expected(rows, graphs, items_at, shift, entries_at, beliefs, weights, slope):
    """Add Σ_k weights[k] times the expected features of graph k's items to `slope`."""
    at = 0
    plain = len(rows.data) == 0
    for k in range(graphs.shape[0]):
        g = graphs[k]
        for i in range(items_at[g], items_at[g + 1]):
            size = entries_at[i + 1] - entries_at[i]
            shares = beliefs[at : at + size]
            at += size
            if weights[k] == 0.0:
                continue
            for r in range(rows.indptr[shift + i], rows.indptr[shift + i + 1]):
                value = weights[k] if plain else weights[k] * rows.data[r]
                place = np.int64(rows.places[r])
                block = slope[place : place + size]
                for s in range(size):
                    block[s] += value * shares[s]


@njit
def add_losses(graphs, variables_at, state_at, losses, unary):
    """Add the losses of the asked graphs' states to their compact scores."""
    at = 0
    for g in graphs:
        for entry in range(state_at[variables_at[g]], state_at[variables_at[g + 1]]):
            unary[at] += losses[entry]
            at += 1


@njit
def expected_losses(graphs, variables_at, state_at, losses, beliefs, out):
    """out[k] = expected loss of graph k under its nodes' beliefs."""
    at = 0
    for k in range(graphs.shape[0]):
        g = graphs[k]
        out[k] = 0.0
        for entry in range(state_at[variables_at[g]], state_at[variables_at[g + 1]]):
            out[k] += beliefs[at] * losses[entry]
            at += 1


@njit
def state_losses(graphs, variables_at, state_at, losses, states, out):
    """out[k] = loss of graph k's assignment."""
    at = 0
    for k in range(graphs.shape[0]):
        g = graphs[k]
        out[k] = 0.0
        for v in range(variables_at[g], variables_at[g + 1]):
            out[k] += losses[state_at[v] + states[at]]
            at += 1


@njit
def put_sums(blocks, touched, block_at, edge_sizes, sums, atoms, end):
    """Append the sums of the touched blocks as direct atoms, and clear them; return the new end."""
    origin = block_at[0]
    for b in range(touched):
        start = block_at[blocks[b]]
        for j in range(edge_sizes[blocks[b]]):
            value = sums[start - origin + j]
            if value != 0.0:
                atoms.row[end] = -1
                atoms.column[end] = start + j
                atoms.value[end] = value
                sums[start - origin + j] = 0.0
                end += 1
    return end


@njit
def belief_atoms(
    graphs, variables_at, state_at, factors_at, table_at, edge_blocks, block_at, unary, tables, pointers, atoms
):
    """Write each asked graph's expected features as atoms: those of nodes, then those of edges.

    Edges without features (`edge_blocks` has their blocks; it is empty otherwise) are summed block by block.
    """
    n_nodes = state_at.shape[0] - 1
    constant = len(edge_blocks) > 0
    sizes = block_at[1:] - block_at[:-1]
    sums = np.zeros(block_at[-1] - block_at[0] if constant else 0)
    stamps = np.full(len(sizes), -1)
    touched_blocks = np.empty(len(sizes), dtype=np.int64)
    end = at = table = 0
    pointers[0] = 0
    for k in range(graphs.shape[0]):
        g = graphs[k]
        for v in range(variables_at[g], variables_at[g + 1]):
            for s in range(state_at[v + 1] - state_at[v]):
                if unary[at] != 0.0:
                    atoms.row[end] = v
                    atoms.column[end] = s
                    atoms.value[end] = unary[at]
                    end += 1
                at += 1
        touched = 0
        for e in range(factors_at[g], factors_at[g + 1]):
            size = table_at[e + 1] - table_at[e]
            if constant:
                block = edge_blocks[e]
                if stamps[block] != k:
                    stamps[block] = k
                    touched_blocks[touched] = block
                    touched += 1
                start = block_at[block] - block_at[0]
                for j in range(size):
                    sums[start + j] += tables[table + j]
            else:
                for j in range(size):
                    if tables[table + j] != 0.0:
                        atoms.row[end] = n_nodes + e
                        atoms.column[end] = j
                        atoms.value[end] = tables[table + j]
                        end += 1
            table += size
        end = put_sums(touched_blocks, touched, block_at, sizes, sums, atoms, end)
        pointers[k + 1] = end


@njit
def state_atoms(graphs, variables_at, state_at, factors_at, scopes, edge_blocks, block_at, states, pointers, atoms):
    """Write the features of each asked graph's assignment as atoms, as `belief_atoms` does."""
    n_nodes = state_at.shape[0] - 1
    constant = len(edge_blocks) > 0
    sizes = block_at[1:] - block_at[:-1]
    sums = np.zeros(block_at[-1] - block_at[0] if constant else 0)
    stamps = np.full(len(sizes), -1)
    touched_blocks = np.empty(len(sizes), dtype=np.int64)
    end = at = 0
    pointers[0] = 0
    for k in range(graphs.shape[0]):
        g = graphs[k]
        first = variables_at[g]
        for v in range(first, variables_at[g + 1]):
            atoms.row[end] = v
            atoms.column[end] = states[at + v - first]
            atoms.value[end] = 1.0
            end += 1
        touched = 0
        for e in range(factors_at[g], factors_at[g + 1]):
            p, q = scopes[2 * e], scopes[2 * e + 1]
            joint = states[at + p - first] * (state_at[q + 1] - state_at[q]) + states[at + q - first]
            if constant:
                block = edge_blocks[e]
                if stamps[block] != k:
                    stamps[block] = k
                    touched_blocks[touched] = block
                    touched += 1
                sums[block_at[block] - block_at[0] + joint] += 1.0
            else:
                atoms.row[end] = n_nodes + e
                atoms.column[end] = joint
                atoms.value[end] = 1.0
                end += 1
        at += variables_at[g + 1] - first
        end = put_sums(touched_blocks, touched, block_at, sizes, sums, atoms, end)
        pointers[k + 1] = end
