"""Scores of graphs' nodes and edges from feature rows, the way back to the weights, and planes.

Items are the nodes, or the edges, of graphs that are laid out one after the other: those of graph g are items_at[g] …
items_at[g + 1], and item i has entries_at[i + 1] − entries_at[i] entries, one for each (joint) state. Row shift + i of
`rows` has its features; a feature's place is the first of its weights, one for each entry. Arrays of scores, beliefs
and states are compact: those of the selected `graphs` one after the other.
"""

from latentstruct._native.graph import (
    add_expected,
    add_losses,
    belief_atoms,
    expected_losses,
    score_items,
    state_atoms,
    state_losses,
)

__all__ = [
    "add_expected",
    "add_losses",
    "belief_atoms",
    "expected_losses",
    "score_items",
    "state_atoms",
    "state_losses",
]
