"""Pooling of segmentations: all ways to divide sequences into labeled segments, in time O(T·(S² + S·L)).

A segment of tokens a … b − 1 with label y scores
begin[a] + Σ_{a<t<b} inside[t] + Σ_{a≤t<b} token[t, y] + length[b − a − 1, y],
and two neighbors score transition[y', y]. Any of these may be −∞.
"""

from typing import NamedTuple

import numpy as np

from latentstruct._native.segments import pool

__all__ = ["SegmentCounts", "SegmentScores", "pool"]


class SegmentScores(NamedTuple):
    """Scores of the parts of segmentations, of sequences laid end to end."""

    token: np.ndarray  # (N, S)
    begin: np.ndarray  # (N,)
    inside: np.ndarray  # (N,)
    transition: np.ndarray  # (S, S)
    length: np.ndarray  # (L, S)


class SegmentCounts(NamedTuple):
    """Counts of the parts; those of transitions and lengths are summed by sequence, or over all (k = 1)."""

    token: np.ndarray  # (N, S)
    begin: np.ndarray  # (N,)
    transition: np.ndarray  # (k, S, S)
    length: np.ndarray  # (k, L, S)
