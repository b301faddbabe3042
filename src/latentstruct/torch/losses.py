"""Names of losses: temperatures of outputs and latents, and margins."""

from typing import Any

import numpy as np

from latentstruct.core.protocols import Temperature
from latentstruct.exceptions import InputError

LOSSES = {
    "crf": (Temperature(1.0, 1.0), 0.0),
    "hinge": (Temperature(0.0, 0.0), 1.0),
    "latent_hinge": (Temperature(0.0, 0.0), 1.0),
    "marginal": (Temperature(0.0, 1.0), 1.0),
}
"""Temperatures and margins of named losses. Only "hinge" refuses unknown outputs."""


def named_loss(loss: Any, margin: Any = None, two_temperatures: bool = True) -> tuple[Temperature, Any]:
    """Return the temperatures and the margin of a loss; raise InputError if there is no such loss."""
    names = [name for name, ((output, latent), _) in LOSSES.items() if two_temperatures or output == latent]
    if isinstance(loss, str) and loss in names:
        temperature, default = LOSSES[loss]
    elif isinstance(loss, Temperature) and min(loss) >= 0 and max(loss) < np.inf:
        temperature, default = loss, 1.0
        if not two_temperatures and loss.output != loss.latent:
            raise InputError("loss", loss, "a Temperature that is the same for outputs and latents")
    else:
        raise InputError("loss", loss, f"one of {', '.join(map(repr, names))} or a Temperature of at least 0")
    return temperature, default if margin is None else margin


def named_part_loss(loss: Any, margin: Any, two_temperatures: bool = False) -> tuple[Temperature, float]:
    """Return the temperatures and the margin, a number, of a loss."""
    temperature, found = named_loss(loss, margin, two_temperatures)
    if not isinstance(found, int | float) or not 0 <= found < np.inf:
        raise InputError("margin", margin, "a number of at least 0")
    return temperature, float(found)
