from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.tasks.chain.batch import Blocks

Indices = NDArray[np.int64]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

def pool_labelings(
    scores: Matrix,
    offsets: Indices,
    labels: Indices,
    transitions: Matrix,
    output_temperature: float,
    latent_temperature: float,
    limit: float,
    weights: Vector,
    by: int,
    values: Vector,
    pairs: NDArray[np.float64],
    /,
) -> None:
    """Pool each sequence over its hidden tokens, those with the label −1, at ε_h and then over the others at ε_y.

    values[k] is the pooled value. `scores` become weights[k] times the derivatives of values[k] with respect to them;
    the derivatives with respect to the transitions are added to `pairs`: to pairs[0] if `by` is TOGETHER, pairs[k] if
    BY_SEQUENCE and pairs[t] if BY_TOKEN, for tokens t − 1 and t. Without labels all tokens are outputs. Sequences whose
    scores spread by less than limit·ε are pooled without logarithms at each token.
    """

def expected_terms(marginals: Matrix, truth: Indices, offsets: Indices, terms: Matrix, out: Vector, /) -> None:
    """out[k] = Σ marginals[t, s] terms[truth[t], s] over the tokens of sequence k; see `LabelScores`."""

def expected_atoms(
    marginals: Matrix,
    pairs: NDArray[np.float64],
    offsets: Indices,
    tokens: Indices,
    blocks: Blocks,
    pointers: Indices,
    atoms: Any,
    /,
) -> None:
    """Write the expected joint features of each sequence as atoms, and the pointers; see `labeling_atoms`."""

def covariances(
    scores: Vector,
    offsets: Indices,
    transitions: Vector,
    temperature: float,
    limit: float,
    weights: Vector,
    unary: Vector,
    steps: Vector,
    out: Vector,
    out_steps: Vector,
    /,
) -> None:
    """Add weights·(second derivatives of ε log Z)·(unary, steps) to `out` (N, S) and, summed, to `out_steps` (S, S)."""

def sample_labelings(
    scores: Vector,
    offsets: Indices,
    transitions: Vector,
    temperature: float,
    limit: float,
    uniform: Vector,
    labels: Indices,
    /,
) -> None:
    """Draw labelings (draws, N) from numbers `uniform` (draws, N) in [0, 1)."""
