import json

import numpy as np
import pytest
from typer.testing import CliRunner

from error_fields import raises
from latentstruct.cli import app
from latentstruct.cli.demo import draw, run_demo
from latentstruct.tasks.motif.sites import best_matches, common_shift


@pytest.fixture(scope="module")
def result():
    return run_demo(n_train=120, n_test=80, length=200, width=13, mutation=0.1)


def test_the_planted_motif_is_found(result):
    # The motif may be found some letters to one side.
    found = dict(enumerate(result.found, -result.shift))
    same = [found[j] == letter for j, letter in enumerate(result.planted) if j in found]
    assert len(same) >= 10
    assert sum(same) >= len(same) - 2
    assert result.sites_found > 0.8
    assert result.accuracy > 0.85
    assert result.ceiling >= result.sites_found - 0.05


def test_shares_are_those_of_the_sites(result):
    starts = np.array([site.start for site in result.sites])
    assert result.sites_found == (starts + result.shift == result.true_starts).mean()
    assert len(starts) == len(result.true_starts) == 80
    assert np.allclose(result.matrix.sum(axis=1), 1)
    model = result.model
    assert min(model.restart_objectives_) == pytest.approx(min(line.objective for line in model.history_), rel=1e-9)


def test_a_common_shift_is_allowed_for():
    starts = np.array([4, 9, 20, 7])
    assert common_shift(starts, starts, 5) == 0
    assert common_shift(starts, np.array([6, 11, 22, 100]), 5) == 2
    assert common_shift(starts, starts - 9, 5) != -9


def test_best_matches_count_letters():
    assert best_matches(["AAACGTAA", "CGTTTTTT"], "CGT").tolist() == [3, 0]
    assert best_matches(["AAAACGAA"], "CGT").tolist() == [4]


def test_picture(result, tmp_path):
    path = draw(result, tmp_path / "new" / "demo.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 50_000


def test_command(monkeypatch, tmp_path, result):
    monkeypatch.setattr("latentstruct.cli.demo.run_demo", lambda **_: result)
    shown = CliRunner().invoke(app, ["demo", "-o", str(tmp_path)])
    assert shown.exit_code == 0
    assert result.planted in shown.stdout
    assert (tmp_path / "demo.png").exists()
    shown = CliRunner().invoke(app, ["demo", "-o", str(tmp_path), "--json", "--quiet"])
    assert json.loads(shown.stdout)["found"] == result.found
    assert shown.stderr == ""


def test_missing_matplotlib_is_told_before_the_work(monkeypatch, tmp_path, result):
    monkeypatch.setattr("latentstruct.viz.plots.axes.find_spec", lambda name: None)
    shown = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "demo")])
    assert shown.exit_code == 2
    assert "latentstruct[plot]" in shown.stderr
    with raises("matplotlib", got="no such package", expected="installed to draw plots"):
        draw(result, tmp_path / "demo.png")


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "demo").write_text("mine")
    shown = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "demo")])
    assert shown.exit_code == 2
    assert "is a file" in shown.stderr
