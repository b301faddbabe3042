"""Assignments of factor graphs: choosing them from messages, improving them, their scores and indicators.

See `latentstruct.kernels.propagation` for the layout.
"""

from latentstruct._native.assignments import climb, decode, indicate, score

__all__ = ["climb", "decode", "indicate", "score"]
