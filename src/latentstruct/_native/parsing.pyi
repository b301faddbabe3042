import numpy as np
from numpy.typing import NDArray

from latentstruct.tasks.parsing.arrays import Derivations, Rules, Scores, Sentences, Spans

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Kinds of the nodes of derivations: their numbers of children, 0 for words.
LEXICAL: int
UNARY: int
BINARY: int

def score_boundaries(attributes: Indices, spans: Spans, w: Vector, out: Matrix, /) -> None:
    """Add up the weights of each boundary's attributes (b, attributes each) with all labels, (b, L)."""

def best_trees(
    sentences: Sentences,
    spans: Spans,
    rules: Rules,
    scores: Scores,
    rows: Indices,
    costs: Vector,
    gains: Vector,
    values: Vector,
    out: Derivations,
    /,
) -> None:
    """Write the best derivation of each row and its score, −inf and no nodes if there is none.

    Each constituent adds costs[m] and each correct one subtracts gains[m].
    """

def next_trees(
    sentences: Sentences,
    spans: Spans,
    rules: Rules,
    scores: Scores,
    rows: Indices,
    values: Matrix,
    out: Derivations,
    /,
) -> None:
    """Write the best derivations of each row, the best first, and their scores (rows, count), −inf if there are fewer.

    The derivations of a row follow each other; missing ones have no nodes.
    """

def sample_trees(
    sentences: Sentences,
    spans: Spans,
    rules: Rules,
    scores: Scores,
    rows: Indices,
    temperature: float,
    seed: int,
    count: int,
    out: Derivations,
    /,
) -> None:
    """Write `count` independent derivations of each row; those of a row follow each other, without nodes if none."""

def best_f1_trees(
    sentences: Sentences,
    spans: Spans,
    rules: Rules,
    scores: Scores,
    rows: Indices,
    most_steps: int,
    out: Derivations,
    /,
) -> None:
    """Write the derivation of each row that maximizes s + 1 − 2h/(p + g); chains have at most `most_steps` steps."""

def derivation_atoms(
    derivations: Derivations,
    sentences: Sentences,
    spans: Spans,
    rules: Rules,
    rows: Indices,
    pointers: Indices,
    column: Indices,
    /,
) -> int:
    """Write the numbers of the weights that each derivation uses, with repetitions; return their number."""

def count_constituents(
    derivations: Derivations, sentences: Sentences, rules: Rules, rows: Indices, predicted: Vector, right: Vector, /
) -> None:
    """Count each derivation's constituents, and those that are gold."""

def pool_trees(
    sentences: Sentences,
    spans: Spans,
    rules: Rules,
    scores: Scores,
    rows: Indices,
    cost: float,
    gain: float,
    temperature: float,
    weights: Vector,
    together: bool,
    values: Vector,
    expected: Vector,
    slopes: Matrix,
    /,
) -> None:
    """Pool all trees of each row: values = ε log Z, −inf if there is none, and expected = E[cost·p − gain·h].

    Expected features times weights are added to slopes[m], or all to slopes[0] if `together`.
    """

def probable_labels(
    sentences: Sentences,
    spans: Spans,
    rules: Rules,
    scores: Scores,
    k: int,
    temperature: float,
    least: float,
    n_weights: int,
    /,
) -> tuple[Indices, Indices, Vector]:
    """Return cells, labels and probabilities of constituents more probable than `least` in the trees of sentence k.

    All are empty if there is no tree.
    """
