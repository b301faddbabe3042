"""Belief propagation where factors join two variables: mixed products in the log domain, sums in the linear domain.

Variables send in turn. A sweep goes once from the last variable to the first, each sending to earlier neighbors, and
once back, each sending to later ones, so that one sweep is exact on trees at equal temperatures. With weights w_v (ε_h
or ε_y) of variables and w_e (ρ_e·ε_h if an end is hidden, else ρ_e·ε_y) of edges, b_i = unary_i + Σ m_{k→i} and the
message is

    m_{i→j} = w_e·log Σ_{x_i} exp(b_i/w_i + (θ_ij − m_{j→i})/w_e).

Where all weights at a variable are equal, exp(b_i/w_i) is a product of messages exp(m/w) and no exponential is needed.
See `latentstruct.kernels.propagation` for the layout.
"""

from latentstruct._native.propagation import run_pairwise

__all__ = ["run_pairwise"]
