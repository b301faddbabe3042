"""Grammars, sentences, scores and derivations as flat arrays, which the compiled kernels read.

Words are counted from 0; the span (i, j) holds the words i … j − 1. A derivation of a span is a *base*, made by a
binary rule or, for one word, by a tag, and then at most one unary *chain* above it. Rules with the same two children
form a *pair*.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.types import Indices, Vector


class Rules(NamedTuple):
    """A grammar over S symbols: R binary rules sorted by left and right child, K chains sorted by bottom symbol."""

    left_start: Indices  # (S + 1,) pairs with this left child
    pair_right: Indices  # (Q,) right child of a pair
    pair_start: Indices  # (Q + 1,) rules of a pair
    left: Indices  # (R,)
    right: Indices  # (R,)
    parent: Indices  # (R,)
    weight: Indices  # (R,) number of the rule's weight
    parent_start: Indices  # (S + 1,)
    by_parent: Indices  # (R,) rules sorted by parent
    bottom_start: Indices  # (S + 1,) chains with this bottom
    bottom: Indices  # (K,)
    top: Indices  # (K,)
    top_start: Indices  # (S + 1,)
    by_top: Indices  # (K,) chains sorted by top
    step_start: Indices  # (K + 1,) steps of a chain, from its bottom up
    step_weight: Indices  # number of the weight of the unary rule
    step_symbol: Indices  # the upper symbol of the step
    root: Indices  # (S,) number of the weight of the symbol as root, −1 where it cannot be one
    label: Indices  # (S,) number of the constituent label, −1 for tags and artificial symbols


class Sentences(NamedTuple):
    """Words of all sentences with the symbols they may have, and the gold constituents."""

    offsets: Indices  # (n + 1,) words
    choice_start: Indices  # (T + 1,)
    choice_symbol: Indices
    choice_weight: Indices  # number of the lexical weight, −1 if there is none
    gold_start: Indices  # (n + 1,)
    gold_first: Indices
    gold_stop: Indices
    gold_label: Indices


class Spans(NamedTuple):
    """Features of labeled spans: attributes of their ends and their length.

    Sentence k has the boundaries offsets[k] + k + p, p from 0 to its number of words.
    """

    starts: Indices  # (boundaries, attributes each) attribute of a span that starts here, −1 if unknown
    ends: Indices  # likewise of a span that ends here
    lengths: Indices  # (C,) attribute of each class of lengths
    classes: Indices  # class of each length; longer spans have the last
    label_start: Indices  # (attributes + 1,)
    label: Indices  # labels that have a weight with this attribute
    weight: Indices  # its number


class Scores(NamedTuple):
    """What derivations are made of, scored."""

    rule: Vector  # (R,)
    chain: Vector  # (K,)
    root: Vector  # (S,) −inf where a symbol cannot be the root
    choice: Vector
    start: NDArray[np.float64]  # (boundaries, L), or (0, L) without span features
    end: NDArray[np.float64]
    length: NDArray[np.float64]  # (C, L)


class Derivations(NamedTuple):
    """Derivations as nodes in preorder, one sentence after the other."""

    offsets: Indices  # (k + 1,)
    kind: Indices
    symbol: Indices
    weight: Indices  # −1 where there is none
    start: Indices
    end: Indices
