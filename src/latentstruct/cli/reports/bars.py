"""The strongest weights of features as bars."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from latentstruct.cli.description import largest
from latentstruct.plots.features import can_write, plot_weights
from latentstruct.report.blocks import Block, Drawing, TableBlock, Text

TOP_FEATURES = 20


def strongest_bars(name_of: Callable[[int], str], weights: NDArray[np.float64], meaning: str) -> Block:
    """Return the strongest weights as bars; as a table where the font of plots lacks letters of their names.

    `meaning` says what weights above and below 0 speak for.
    """
    shown = largest(weights, TOP_FEATURES)
    if not shown:
        return Text("All weights are 0.")
    names, values = [name_of(k) for k in shown], weights[shown]
    caption = f"The {len(shown)} strongest of {len(weights)} weights: {meaning}."
    if not can_write(names):
        rows = [[name, value] for name, value in zip(names, values.tolist(), strict=True)]
        return TableBlock("Strongest weights", ("feature", "weight"), rows, caption)
    alt = f"Bars of the {len(shown)} strongest weights; the strongest is that of {names[0]}, {values[0]:+.3g}."
    return Drawing(lambda ax: plot_weights(names, values, ax), alt, caption, height=0.9 + 0.24 * len(shown))
