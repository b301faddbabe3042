"""Tables of detections and of true tracks."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import FormatError
from latentstruct.io.text import open_unpacked
from latentstruct_papers.datasets.home import Home, dataset_file

MOT_SEQUENCES = (
    "TUD-Campus",
    "TUD-Stadtmitte",
    "KITTI-13",
    "ETH-Bahnhof",
    "ADL-Rundle-6",
    "PETS09-S2L1",
    "ETH-Sunnyday",
)
CELL_LEVELS = (1, 2, 3, 4, 5)


class Tracks(NamedTuple):
    """Detections of one video and true tracks.

    Attributes
    ----------
    detections : ndarray of shape (n, …)
        Frame, then left, top, width, height and confidence of pedestrians, or x, y and the probabilities of a normal
        cell, a new cell and clutter.
    truth : ndarray of shape (m, …)
        Frame and number of the track, then left, top, width and height, or x and y.
    parents : dict of int to int
        The track of which each track is a part after a division.
    """

    detections: NDArray[np.float64]
    truth: NDArray[np.float64]
    parents: dict[int, int]


def load_pedestrians(name: str, data_home: Home = None) -> Tracks:
    """Load one of `MOT_SEQUENCES` from ``mot_tracks`` in the data home."""
    found, truth = (
        _read(dataset_file(data_home, f"mot_tracks/mot15/{name}_{kind}.txt.gz"), 0) for kind in ("det", "gt")
    )
    return Tracks(found[:, [0, 2, 3, 4, 5, 6]], truth[:, :6], {})


def load_cells(level: int, data_home: Home = None) -> Tracks:
    """Load dividing cells from ``cell_tracks`` in the data home, with detections of one of `CELL_LEVELS` of noise."""
    found = _read(dataset_file(data_home, f"cell_tracks/detections_{level}.csv.gz"), 1)
    truth = _read(dataset_file(data_home, "cell_tracks/truth.csv.gz"), 1)[:, [0, 1, 2, 4]]
    lineage = np.loadtxt(dataset_file(data_home, "cell_tracks/man_track.txt"), dtype=np.int64, ndmin=2)
    return Tracks(found, truth, {track: parent for track, _, _, parent in lineage.tolist() if parent})


def _read(path: Path, skipped: int) -> NDArray[np.float64]:
    with open_unpacked(str(path)) as file:
        try:
            return np.loadtxt(file, delimiter=",", skiprows=skipped, ndmin=2)
        except ValueError as error:
            raise FormatError(path, error, "a table of numbers") from error
