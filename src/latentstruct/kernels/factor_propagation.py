"""Belief propagation through factors of any number of variables, in the log domain.

A sweep takes the factors from the last to the first and back; each sends to all its variables.
"""

from latentstruct._native.propagation import run_factors

__all__ = ["run_factors"]
