"""Exact elimination of the variables of factor graphs, one after the other, at any pair of temperatures.

Step k of a program eliminates a variable v. With t the sum of all that is known about its separator's joint state s
and v (unary of v, tables whose first eliminated variable is v, messages of earlier steps) and ε the temperature of v,

    m_k(s) = smax_{ε, v} t(s, v),   p_k(v | s) = exp((t(s, v) − m_k(s)) / ε).

A row s in which nothing is possible has m_k = −inf and p_k = 0. At ε = 0 the first maximizer is kept instead of p_k. On
the way back the belief in s comes from the step that used m_k, and b(s, v) = b(s)·p_k(v | s); sums of these are the
derivatives by all potentials. `elimination_program` says how tables, messages and index lists are laid out.
"""

from latentstruct._native.elimination import pool_graphs

__all__ = ["PROGRAM_COLUMNS", "pool_graphs"]

# Columns of the array of programs.
FIRST_STEP, FIRST_OUTPUT, LAST_STEP, WORKSPACE, WIDEST_BLOCK, STATES, CONSTANTS, CONSTANTS_END = range(8)
PROGRAM_COLUMNS = 8
