"""Sequences and scores as the kernels of windows take them."""

from typing import NamedTuple

import numpy as np


class Layout(NamedTuple):
    """Sequences laid end to end; sequence i holds the positions offsets[i] … offsets[i+1].

    Windows lie in runs of known letters: run r has the windows that start at first[r] … stop[r] − 1, sequence i the
    runs runs[i] … runs[i+1] and windows[i+1] − windows[i] windows on each strand.
    """

    bases: np.ndarray  # (N,) uint8, the number of letters for an unknown one
    codes: np.ndarray  # (N,) uint8: the f letters from here on, with A in place of unknown ones and past the end
    contexts: np.ndarray  # (N,) uint16: number of the (o+1)-mer that ends here, a^(o+1) if it is incomplete
    offsets: np.ndarray  # (n + 1,)
    runs: np.ndarray  # (n + 1,)
    first: np.ndarray
    stop: np.ndarray
    windows: np.ndarray  # (n + 1,)
    sizes: np.ndarray  # (3,): windows of the longest run, windows of the longest sequence, letters of the alphabet a


class Tables(NamedTuple):
    """Scores looked up while scanning; `reverse` has no rows if only one strand is read."""

    forward: np.ndarray  # (⌈l/f⌉, a^f), with f letters looked up at once
    reverse: np.ndarray  # (⌈l/f⌉, a^f) or (0, a^f)
    background: np.ndarray  # (a^(o+1) + 1,), the last is 0
