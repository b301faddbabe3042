"""Pooling over listed candidates (y, h): max or soft max over h inside a group of equal y, then over y.

Candidates are flat; group j holds the candidates groups[j] … groups[j+1] (one y), example i the groups
examples[i] … examples[i+1]. ε_h and ε_y are the temperatures; exactly 0 is the hard max.
"""

from latentstruct._native.candidates import pool_candidates, pool_renyi

__all__ = ["pool_candidates", "pool_renyi"]
