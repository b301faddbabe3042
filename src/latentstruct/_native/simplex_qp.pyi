import numpy as np
from numpy.typing import NDArray

def solve_simplex_qp(
    H: NDArray[np.float64],
    b: NDArray[np.float64],
    alpha: NDArray[np.float64],
    tolerance: float,
    max_steps: int,
    /,
) -> float:
    """Minimize ``½ αᵀHα − bᵀα`` over the unit simplex, from a warm start.

    Parameters
    ----------
    H : (k, k) array
        Symmetric positive semidefinite, C-contiguous; may be singular and have equal rows.
    b : (k,) array
    alpha : (k,) array
        On entry a feasible point; on return the solution, with α ≥ 0 and Σα = 1 to rounding. Its objective is
        never above that of the start, except for rounding of the objective itself.
    tolerance : float
        The gap at which to stop. It is absolute; see the notes for a scale.
    max_steps : int
        The largest number of active-set and SMO steps together.

    Returns
    -------
    gap : float
        ``αᵀ(Hα − b) − min_k (Hα − b)_k`` at the returned `alpha`, computed from H, b and `alpha` alone. It
        bounds the distance of the objective from its minimum.

    Notes
    -----
    Take the tolerance relative to ``max(|f(α)|, max|b|, Σ_i α_i H_ii)``. The last term is the size of the terms that
    cancel in αᵀHα, hence of its rounding; 1e-8 of this scale was reached on every fuzzed problem, with
    dependent and duplicate planes and diagonals from 1e-8 to 1e8. The kernel stops above the tolerance when
    the gap is down to the rounding of the gradient or no longer decreases, so a tolerance of 0 is allowed.

    A start whose support is far larger than the rank only costs time: it is reduced during factorization.
    """
