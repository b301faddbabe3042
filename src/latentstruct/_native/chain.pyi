from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.tasks.chain.batch import Blocks, LabelScores

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

def add_label_scores(scores: Matrix, offsets: Indices, added: LabelScores, labels: Indices, /) -> None:
    """Add to the products (N, S) of all sequences terms of label and position only; `labels` (N,) if known."""

def viterbi(scores: Matrix, offsets: Indices, transitions: Matrix, labels: Indices, values: Vector, /) -> None:
    """Write the best labeling of each sequence and its score, 0 if it is empty; ties go to the lowest label."""

def viterbi_by_errors(
    scores: Matrix,
    offsets: Indices,
    transitions: Matrix,
    truth: Indices,
    labels: Indices,
    values: Vector,
    losses: Vector,
    /,
) -> None:
    """Maximize Δ(y)·(1 + s(y) − s(truth)) for the Hamming loss Δ, exactly.

    values[k] is the maximum (≥ 0, reached by the truth) and losses[k] the number of errors of its labeling.
    """

def labeling_atoms(
    labels: Indices, offsets: Indices, tokens: Indices, n_labels: int, blocks: Blocks, pointers: Indices, atoms: Any, /
) -> None:
    """Write the joint features of all sequences' labelings, each from its pointer on.

    `tokens[k]` is the input row of the first token of sequence k. Values of atoms are not changed (1).
    """

def best_planes(
    first: int,
    last: int,
    products: Matrix,
    inputs: tuple[Indices, NDArray[np.int32], Vector],
    weights: Matrix,
    offsets: Indices,
    tokens: Indices,
    truth: Indices,
    added: LabelScores,
    transitions: Matrix,
    blocks: Blocks,
    pointers: Indices,
    atoms: Any,
    found: Matrix,
    /,
) -> None:
    """Find the best labelings of the selected sequences first … last − 1, and write their values, losses and features.

    `products` (N, S) are those of the selected tokens, or empty: then computed from `inputs`, a CSR matrix, and
    `weights`. `truth` has the labels of all tokens of the batch, or none if no terms depend on them; `found` is
    (2, k): values and sums of the terms.
    """

def best_labelings(scores: Vector, offsets: Indices, transitions: Vector, labels: Indices, values: Vector, /) -> None:
    """Write the k best labelings (k, N) of each sequence and their scores (k, K), −inf where there are fewer."""
