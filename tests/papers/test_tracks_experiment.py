import gzip
import os

import numpy as np
import pytest

from error_fields import raises
from latentstruct_papers import Setup, tracks
from latentstruct_papers.datasets.tracks import Tracks, load_cells

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")


def dividing_cell(n=6, clutter=True):
    """Return a cell that divides halfway, another one, and false detections far from both."""
    truth = []
    for t in range(n):
        if t < n // 2:
            truth.append([t, 1, 100.0, 100.0 + 2 * t])
        else:
            apart = 6.0 * (t - n // 2 + 1)
            truth += [[t, 2, 100.0 - apart, 100.0 + 2 * t], [t, 3, 100.0 + apart, 100.0 + 2 * t]]
        truth.append([t, 4, 300.0 + 3 * t, 300.0])
    truth = np.array(truth)
    found = np.column_stack([truth[:, 0], truth[:, 2:], np.full((len(truth), 3), [0.9, 0.1, 0.1])])
    if clutter:
        false = np.column_stack([np.arange(n), np.full((n, 2), 600.0), np.full((n, 3), [0.2, 0.1, 0.1])])
        found = np.concatenate([found, false])
    return Tracks(found, truth, {2: 1, 3: 1})


def test_true_tracks_have_no_errors():
    video = tracks.make_video("cells", dividing_cell(), (0, 100))
    y = video.output()
    assert not np.isnan(y).any()
    assert video.program.constraints.violation(y) is None
    scores = video.judge(y)
    assert tracks.identity_f1(scores) == 1.0
    assert tracks.mota(scores) == 1.0
    assert scores.divisions == (1, 1, 1)


def test_errors_are_counted():
    video = tracks.make_video("cells", dividing_cell(), (0, 100))
    y = video.output()
    n = len(video.frame)
    false = np.flatnonzero(video.owner < 0)
    y[false[0]] = 1.0
    missing = np.flatnonzero(video.owner == 4)[-1]
    y[missing] = 0.0
    y[n + np.flatnonzero(video.edges[:, 1] == missing)] = 0.0
    broken = np.flatnonzero((video.edges == np.flatnonzero(video.owner == 4)[1:3]).all(axis=1))[0]
    y[n + broken] = 0.0
    scores = video.judge(y)
    assert (scores.false, scores.missed, scores.switches) == (1, 1, 1)
    # Of the six boxes of that cell one is missing, and two are in the shorter part.
    assert scores.identified == scores.true - 1 - 2
    assert tracks.mota(scores) == pytest.approx(1 - 3 / scores.true)


def test_near_detections_are_linked_frame_by_frame():
    video = tracks.make_video("cells", dividing_cell(clutter=False), (0, 100))
    scores = video.judge(video.hungarian(0.5, 0.5))
    # One daughter continues the track of the mother, and the other one is new.
    assert scores.divisions == (0, 0, 1)
    assert (scores.false, scores.missed) == (0, 0)


def test_costs_are_learned_from_some_of_the_labels():
    part = tracks.Part("cells", "cells", [tracks.make_video("cells", dividing_cell(), (0, 100))] * 2, [], [])
    part = part._replace(held_out=part.train, test=part.train)
    scores = tracks.measure(part, 1)
    for method in (tracks.ALL, tracks.SOME):
        assert tracks.identity_f1(scores[method][0][0]) >= tracks.identity_f1(scores[tracks.FRAME][0][0])
    table = tracks.result_table({part.name: scores})
    assert len(table.rows) == 4


def test_damaged_tables_are_named(tmp_path):
    folder = tmp_path / "cell_tracks"
    folder.mkdir()
    with gzip.open(folder / "detections_1.csv.gz", "wt") as file:
        file.write("frame,x\n1,nothing\n")
    with raises(file="detections_1.csv.gz", expected="a table of numbers"):
        load_cells(1, tmp_path)


@needs_data
def test_learned_costs_beat_linking_frame_by_frame():
    findings = tracks.run(Setup(None, True, lambda line: None))
    (table,) = findings.tables
    f1 = {(row[0], row[1]): float(row[2].split()[0]) for row in table.rows}
    for name in ("pedestrians", "cells, noise 1"):
        assert f1[name, tracks.ALL] > f1[name, tracks.FRAME]
