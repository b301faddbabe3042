"""Planted boxes: how they are drawn, what is compared, and the finding of a quick run."""

import numpy as np
import pytest

from latentstruct_papers import modlat_planted, run_experiment
from latentstruct_papers.modlat_planted import LSVM, MODLAT, Grid, draw
from latentstruct_papers.modlat_tables import ILSVM


def test_the_signal_is_highest_at_the_true_box():
    for range_ in (0.3, 2.0):
        X, Y, truth = draw(20, range_, 0.0, np.random.default_rng(0))
        for x, y, box in zip(X, Y, truth, strict=True):
            signal = x.features[:, int(y.removeprefix("class "))]
            place = int(np.flatnonzero((x.boxes == box).all(axis=1))[0])
            assert signal[place] == signal.max() == 1.0
            assert np.count_nonzero(x.features) == np.count_nonzero(signal)
            apart = np.linalg.norm(x.boxes[:, :2] - box[:2], axis=1) / modlat_planted.STEP
            np.testing.assert_allclose(signal, np.exp(-(apart**2) / (2 * range_**2)), atol=1e-12)


def test_modlat_is_compared_with_the_better_of_the_others():
    results = Grid((1.0,), (0.2,))
    for ours, first, second in ((0.3, 0.4, 0.5), (0.2, 0.4, 0.3)):
        values = {MODLAT: [ours, 1.0], LSVM: [first, 1.0], ILSVM: [second, 10.0]}
        results.add(1.0, 0.2, {"zero_one": values, "overlap": values})
    assert results.claims()[0].found.startswith("lower by +10.0 ± 0.0 over 2 trials")
    assert results.claims()[0].verdict == "reproduced"
    assert results.table("zero_one").rows[0][-2:] == ["+15.0 ± 5.0", "+15.0 ± 5.0"]


def test_modeling_uncertainty_pays_where_the_box_is_uncertain(monkeypatch, tmp_path):
    monkeypatch.setattr(modlat_planted, "QUICK_TRIALS", 3)
    findings = run_experiment("modlat-planted", quick=True, say=lambda line: None)
    certain, uncertain = (
        next(claim for claim in findings.claims if claim.what.startswith(f"range {range_:g}, 0/1")).found
        for range_ in modlat_planted.QUICK_RANGES
    )
    gains = [float(text.removeprefix("lower by ").partition(" ")[0]) for text in (certain, uncertain)]
    assert gains[1] > max(gains[0], 0.0)
    findings.save(tmp_path)


@pytest.mark.parametrize("loss", ["zero_one", "overlap"])
def test_c_is_chosen_by_validation(loss):
    found = modlat_planted.measure(0.3, 0.2, 1, (0.001, 10.0))
    # At so small a C weights are near zero, and nothing is found.
    assert all(C == 10.0 for _, C in found[loss].values())
