"""Reliability curves against their definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.metrics import reliability
from latentstruct.viz.plots import plot_reliability


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1), st.integers(1, 12))
def test_bins_are_their_definition(pairs, n_bins):
    found = reliability([a for a, _ in pairs], [b for _, b in pairs], n_bins)
    bins = {}
    for hit, share in pairs:
        bins.setdefault(min(int(share * n_bins), n_bins - 1), []).append((hit, share))
    assert found.n.tolist() == [len(bins[k]) for k in sorted(bins)]
    means = [np.mean(bins[k], axis=0) for k in sorted(bins)]
    np.testing.assert_allclose(np.column_stack([found.accuracy, found.confidence]), means, atol=1e-12)
    total = sum(len(bins[k]) * abs(np.subtract(*np.mean(bins[k], axis=0))) for k in bins)
    assert found.error == pytest.approx(total / len(pairs), abs=1e-12)


def test_curves_are_drawn_and_bad_probabilities_refused():
    ax = plot_reliability(reliability([True, False, True], [0.9, 0.2, 0.4]))
    assert ax.get_xlabel() == "probability"
    with raises("confidence", got=1.5):
        reliability([True], [1.5])
    with raises("confidence"):
        reliability([True, False], [0.5])
