"""Integer programs: assignments trained to 0.1 %, and pedestrian tracks of MOT15 by learned costs and by hand.

The data set `mot_tracks` has detections and true tracks as tables. Tracks are judged by the identity F1, for all true
boxes of sequences that were not trained on. The peer of tracks links detections frame by frame (Hungarian method).
"""

import gzip
import os
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.common import Line, cpu
from latentstruct import LatentSSVM, Program, StructuralSVM
from latentstruct.tasks.program.builders import assignment, tracking, tracking_output

TRAIN = ("TUD-Campus", "TUD-Stadtmitte", "KITTI-13")
TEST = ("PETS09-S2L1", "ETH-Sunnyday")
FRAMES = 60
"""Frames of one program of training."""
HAND = np.array([0.05, -1.0, 4.0, -2.0, -0.5, -1.0, -1.0])
"""Costs by hand, not tuned: confidence and constant of detections, overlap, gap and constant of links, both ends."""


def matchings(n: int, size: int, seed: int = 0) -> tuple[list, list]:
    """Return assignments with ten features, three of which tell the true pairs."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        y = np.eye(size)[rng.permutation(size)].ravel()
        features = rng.normal(size=(size * size, 10))
        features[:, :3] += y[:, None] * np.array([1.5, 1.0, 0.5])
        X.append(assignment(features.reshape(size, size, 10)))
        Y.append(y)
    return X, Y


def overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return intersection over union of boxes (left, top, width, height)."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum((a[:, :2] + a[:, 2:])[:, None], (b[:, :2] + b[:, 2:])[None])
    common = np.clip(high - low, 0, None).prod(axis=2)
    return common / (a[:, 2:].prod(axis=1)[:, None] + b[:, 2:].prod(axis=1)[None] - common)


def read_boxes(path: Path) -> np.ndarray:
    with gzip.open(path, "rt") as file:
        return np.loadtxt(file, delimiter=",", usecols=range(7), ndmin=2)


class Video:
    """Detections of some frames, their true tracks (−1 if false), and possible links between successive frames."""

    def __init__(self, found: np.ndarray, truth: np.ndarray) -> None:
        self.found, self.truth = found, truth
        self.owner = np.full(len(found), -1)
        for frame in np.unique(found[:, 0]):
            mine, true = np.flatnonzero(found[:, 0] == frame), np.flatnonzero(truth[:, 0] == frame)
            both = overlaps(found[mine, 2:6], truth[true, 2:6])
            for i, j in zip(*linear_sum_assignment(-both), strict=True):
                if both[i, j] > 0.5:
                    self.owner[mine[i]] = truth[true[j], 1]
        pairs = [np.zeros((0, 2), dtype=np.int64)]
        for frame in np.unique(found[:, 0]):
            first = np.flatnonzero(found[:, 0] == frame)
            for gap in (1, 2):
                second = np.flatnonzero(found[:, 0] == frame + gap)
                both = overlaps(found[first, 2:6], found[second, 2:6])
                i, j = np.nonzero(both > 0.1)
                pairs.append(np.column_stack([first[i], second[j]]))
        self.edges = np.concatenate(pairs)
        a, b = found[self.edges[:, 0]], found[self.edges[:, 1]]
        low, high = np.maximum(a[:, 2:4], b[:, 2:4]), np.minimum(a[:, 2:4] + a[:, 4:6], b[:, 2:4] + b[:, 4:6])
        common = np.clip(high - low, 0, None).prod(axis=1)
        self.overlap = common / (a[:, 4:6].prod(axis=1) + b[:, 4:6].prod(axis=1) - common)
        self.gap = b[:, 0] - a[:, 0] - 1
        links = np.column_stack([self.overlap, self.gap, np.ones(len(a))])
        confidence = np.tanh(found[:, 6] / 50.0)
        self.program = tracking(np.column_stack([confidence, np.ones(len(found))]), self.edges, links)

    def output(self) -> np.ndarray:
        """Return the true values: a track links each detection to its next one, if that is possible."""
        start, stop = self.edges.T
        same = (self.owner[start] == self.owner[stop]) & (self.owner[start] >= 0)
        chosen, used = np.zeros(len(self.edges)), set()
        for e in np.flatnonzero(same)[np.argsort(self.gap[same], kind="stable")]:
            if ("out", start[e]) not in used and ("in", stop[e]) not in used:
                chosen[e] = 1
                used |= {("out", start[e]), ("in", stop[e])}
        return tracking_output(self.owner >= 0, self.edges, chosen)

    def tracks(self, y: np.ndarray) -> np.ndarray:
        """Return the number of the track of each detection, −1 for none."""
        number = np.where(y[: len(self.found)] > 0, np.arange(len(self.found)), -1)
        for e in np.argsort(self.edges[:, 0], kind="stable"):
            if y[len(self.found) + e] > 0:
                number[self.edges[e, 1]] = number[self.edges[e, 0]]
        return number

    def hungarian(self, least: float = 0.3) -> np.ndarray:
        """Return tracks of confident detections linked frame by frame by their overlap."""
        y = np.zeros(len(self.found) + len(self.edges))
        y[: len(self.found)] = self.found[:, 6] > 0
        start, stop = self.edges.T
        for frame in np.unique(self.found[:, 0]):
            now = (self.found[start, 0] == frame) & (self.gap == 0) & (self.overlap > least)
            now &= (y[start] > 0) & (y[stop] > 0)
            rows, i = np.unique(start[now], return_inverse=True)
            columns, j = np.unique(stop[now], return_inverse=True)
            table, place = np.zeros((len(rows), len(columns))), np.full((len(rows), len(columns)), -1)
            table[i, j], place[i, j] = self.overlap[now], np.flatnonzero(now)
            chosen = place[linear_sum_assignment(-table)]
            y[len(self.found) + chosen[chosen >= 0]] = 1
        return self.tracks(y)

    def identity_f1(self, number: np.ndarray) -> float:
        """Return F1 of boxes under the best assignment of predicted to true tracks."""
        kept = (number >= 0) & (self.owner >= 0)
        true, i = np.unique(self.owner[kept], return_inverse=True)
        found, j = np.unique(number[kept], return_inverse=True)
        counts = np.zeros((len(true), len(found)))
        np.add.at(counts, (i, j), 1)
        right = counts[linear_sum_assignment(-counts)].sum()
        return float(2 * right / (len(self.truth) + (number >= 0).sum()))


def read_videos(folder: Path, name: str, frames: int | None = None) -> list[Video]:
    found, truth = (read_boxes(folder / "mot15" / f"{name}_{kind}.txt.gz") for kind in ("det", "gt"))
    last = int(max(found[:, 0].max(), truth[:, 0].max()))
    step = frames or last
    return [
        Video(*(boxes[(boxes[:, 0] > k) & (boxes[:, 0] <= k + step)] for boxes in (found, truth)))
        for k in range(0, last, step)
        if ((found[:, 0] > k) & (found[:, 0] <= k + step)).any()
    ]


def tracks(folder: Path) -> list[Line]:
    """Return the identity F1 of learned costs with all labels and a fifth of them."""
    videos = [one for name in TRAIN for one in read_videos(folder, name, FRAMES)]
    tests = [one for name in TEST for one in read_videos(folder, name)]
    X, Y, rng = [one.program for one in videos], [one.output() for one in videos], np.random.default_rng(0)
    masked = [np.where(rng.random(len(y)) < 0.8, -1, y) for y in Y]

    def judged(outputs: list) -> float:
        return float(np.mean([one.identity_f1(number) for one, number in zip(tests, outputs, strict=True)]))

    frames, plain = cpu(lambda: judged([one.hungarian() for one in tests]))
    by_hand = Program()
    by_hand.learn(X, Y)
    batch = by_hand.prepare([one.program for one in tests])
    hand = [one.tracks(found.y) for one, found in zip(tests, by_hand.decode(batch, HAND, (0.0, 0.0)), strict=True)]
    lines = []
    for what, model, labels in (
        ("all labels", StructuralSVM(Program(), C=0.01), Y),
        ("a fifth of the labels", LatentSSVM(Program(), C=0.05, random_state=0), masked),
    ):
        seconds, model = cpu(lambda model=model, labels=labels: model.fit(X, labels))
        outputs = model.predict([one.program for one in tests])
        learned = judged([one.tracks(y) for one, y in zip(tests, outputs, strict=True)])
        reached = f"identity F1 {learned:.3f}, untuned costs by hand {judged(hand):.3f}, frame by frame {plain:.3f}"
        lines.append(Line(f"MOT15 tracks, {what}", seconds, frames, "Hungarian", None, reached))
    return lines


def run(quick: bool = False) -> list[Line]:
    X, Y = matchings(200, 20 if quick else 50)
    seconds, model = cpu(lambda: StructuralSVM(Program(), C=0.01, tol=1e-3).fit(X, Y))
    n = int(np.sqrt(len(Y[0])))
    costs = [x.features @ model.coef_ for x in X]
    peer, _ = cpu(lambda: [linear_sum_assignment(-cost.reshape(n, n)) for cost in costs])
    reached = f"gap {model.relative_gap_:.1e}, certified {model.certified_}"
    lines = [Line(f"200 assignments {n} × {n} to 0.1 %", seconds, peer, "one pass of SciPy", None, reached)]
    folder = Path(os.environ.get("LATENTSTRUCT_DATA", ""), "mot_tracks")
    return lines + (tracks(folder) if folder.is_dir() and not quick else [])
