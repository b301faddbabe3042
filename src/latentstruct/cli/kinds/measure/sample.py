"""Payments, few of which are fraud."""

import numpy as np

from latentstruct.cli.packing import lines_as_bytes

COLUMNS = ("amount", "hour", "distance_km", "new_device", "failed_pins", "account_years", "fraud")
N_PAYMENTS, N_FRAUDS = 600, 48


def make_example(seed: int) -> bytes:
    """Return a table with commas whose last column says yes to fraud and no to the rest."""
    rng = np.random.default_rng(seed)
    fraud = rng.permutation(np.arange(N_PAYMENTS) < N_FRAUDS)
    amounts = np.exp(rng.normal(3.2 + 1.2 * fraud, 0.7))
    hours = np.where(fraud, rng.normal(25, 4, N_PAYMENTS), rng.normal(14, 4, N_PAYMENTS)) % 24
    distances = np.exp(rng.normal(1.5 + 1.6 * fraud, 1.0))
    devices = rng.random(N_PAYMENTS) < np.where(fraud, 0.7, 0.08)
    failures = rng.poisson(np.where(fraud, 1.2, 0.1))
    years = rng.gamma(2.0, np.where(fraud, 1.0, 2.5))
    rows = [
        f"{amount:.2f},{hour:.1f},{distance:.1f},{device:d},{failed:d},{age:.1f},{'yes' if label else 'no'}"
        for amount, hour, distance, device, failed, age, label in zip(
            amounts, hours, distances, devices, failures, years, fraud, strict=True
        )
    ]
    return lines_as_bytes([",".join(COLUMNS), *rows])
