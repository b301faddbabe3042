import numpy as np
from numpy.typing import NDArray

def distinct_rows(
    indptr: NDArray[np.int64],
    places: NDArray[np.uint32],
    bits: NDArray[np.uint64],
    row_of: NDArray[np.int32],
    first: NDArray[np.int32],
    /,
) -> int:
    """Number the distinct rows of a CSR matrix by first appearance.

    row_of[r] is the number of row r, and first[u] the first row with number u; `bits` are the values as integers, empty
    if all are 1. Returns their number.
    """
