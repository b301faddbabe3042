"""Kumar, Packer & Koller (2012), section 6.1 and figure 1: objects found with the classes of images alone."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedShuffleSplit

from latentstruct.core.types import Vector
from latentstruct.data.boxes import Boxes, nearest_box, overlaps
from latentstruct.estimators import LatentSSVM
from latentstruct.estimators.uncertain import IterativeLSVM, ModLat
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.features.boxes import BoxFeatures
from latentstruct.metrics.boxes import box_scores
from latentstruct.tasks.detection import Detection, DetectionInput, chosen_boxes
from latentstruct_papers import modlat_tables as tables
from latentstruct_papers.datasets import (
    Photographs,
    load_caltech_animals,
    load_mammals,
    load_msrc_animals,
    load_voc_actions,
    load_voc_mammals,
)
from latentstruct_papers.findings import Findings
from latentstruct_papers.modlat_tables import (
    BLIND,
    HELD_OUT,
    ILSVM,
    LOSSES,
    LSVM,
    MODLAT,
    TEST,
    Trial,
)
from latentstruct_papers.trials import Setup

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2)
"""The paper's C, which it divides by the number of images."""
CALTECH_SIX = ("beaver", "dolphin", "elephant", "emu", "kangaroo", "panda")
TEST_SHARE, HELD_OUT_SHARE = 0.4, 0.25
J, BETA, TOLERANCE = 0.1, 0.1, 1e-3
LENGTH = 5.0
"""Length of the features of a box: that of 25 normalized blocks, which a window of 6 × 6 cells has."""


SIDE = 200
"""Pixels of the longer side to which photographs are shrunk for boxes of one size."""
GRID, MOST_BOXES = 8, 350
N_JITTERED = 20

Load = Callable[[Any], Photographs]


class Setting(NamedTuple):
    """How much is done.

    Attributes
    ----------
    protocol : str
        How candidates are made: see `candidates`.
    n_each : int or None
        Photographs of each class; None is all.
    n_splits : int
        Random splits.
    strengths : tuple of float
        Values of C.
    n_boxes : int
        Most candidates of a photograph.
    """

    protocol: str
    n_each: int | None
    n_splits: int
    strengths: tuple[float, ...]
    n_boxes: int


SEVERAL_SIZES, ONE_SIZE, JITTER = "several sizes", "one size", "jitter"
FULL = Setting(SEVERAL_SIZES, None, 5, STRENGTHS, 100)
QUICK = Setting(SEVERAL_SIZES, 8, 2, (1e-2, 1.0, 1e2), 30)
SOURCES: dict[str, Load] = {
    "mammals": load_mammals,
    "msrc animals": load_msrc_animals,
    "voc mammals": load_voc_mammals,
    "caltech animals": lambda home: load_caltech_animals(home, classes=CALTECH_SIX),
    "voc actions": load_voc_actions,
}


@dataclass(frozen=True)
class Scenes:
    """Photographs of one data set with their candidates."""

    name: str
    photographs: Photographs
    X: list[DetectionInput]

    @property
    def Y(self) -> list[str]:
        """The class of each photograph."""
        return self.photographs.labels

    def part(self, chosen: Sequence[int]) -> tuple[list[DetectionInput], list[str]]:
        """Return candidates and classes of some photographs."""
        return [self.X[k] for k in chosen], [self.Y[k] for k in chosen]

    def scores(self, chosen: Sequence[int], Y_pred: Sequence[str], boxes: Sequence[Vector]) -> dict[str, float]:
        """Return the scores of predictions for some photographs."""
        truth = [self.photographs.boxes[k] for k in chosen]
        candidates = [self.X[k].boxes for k in chosen]
        return box_scores([self.Y[k] for k in chosen], truth, Y_pred, boxes, candidates)


class Split(NamedTuple):
    """Numbers of photographs to train and to test with; some of the former may be held out to choose C."""

    train: list[int]
    test: list[int]
    inner: list[int]
    held_out: list[int]


def first_of_each(photographs: Photographs, n_each: int | None) -> Photographs:
    """Return the first photographs of each class; None is all."""
    if n_each is None:
        return photographs
    taken: dict[str, int] = {}
    chosen = []
    for k, label in enumerate(photographs.labels):
        taken[label] = taken.get(label, 0) + 1
        if taken[label] <= n_each:
            chosen.append(k)
    names, labels, boxes = (
        [values[k] for k in chosen] for values in (photographs.names, photographs.labels, photographs.boxes)
    )
    return Photographs(names, [photographs.images[k] for k in chosen], labels, boxes)  # type: ignore[arg-type]


def one_size_boxes(width: int, height: int, box: Vector, most: int = MOST_BOXES) -> Boxes:
    """Return boxes of the size of a given one on a grid of 8 pixels, on a coarser one if they were more than `most`."""
    w, h = np.round(box[2:] - box[:2]).clip(1, (width, height))
    step = GRID
    while True:
        x, y = np.arange(0.0, width - w + 1, step), np.arange(0.0, height - h + 1, step)
        if len(x) * len(y) <= most:
            break
        step += 1
    top, left = (grid.ravel() for grid in np.meshgrid(y, x, indexing="ij"))
    return np.stack([left, top, left + w, top + h], axis=1)


def jittered_boxes(width: int, height: int, box: Vector, n_boxes: int, rng: np.random.Generator) -> Boxes:
    """Return the true box among boxes elsewhere of half to twice its area, in random order."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    found = [box]
    while len(found) < n_boxes:
        aspect = (box[2] - box[0]) / (box[3] - box[1]) * 2 ** rng.uniform(-0.5, 0.5)
        size = area * 2 ** rng.uniform(-1, 1)
        w, h = min(np.sqrt(size * aspect), width), min(np.sqrt(size / aspect), height)
        x, y = rng.uniform(0, width - w), rng.uniform(0, height - h)
        found.append(np.array([x, y, x + w, y + h]))
    return np.array(found)[rng.permutation(n_boxes)]


def shrink(image: NDArray[np.uint8], boxes: Boxes, side: int = SIDE) -> tuple[NDArray[np.uint8], Boxes]:
    """Return a photograph of at most `side` pixels, and its boxes."""
    from skimage.transform import resize

    height, width = image.shape[:2]
    factor = min(1.0, side / max(height, width))
    size = max(round(height * factor), 1), max(round(width * factor), 1)
    pixels = np.round(255 * resize(image, size, anti_aliasing=True)).astype(np.uint8)
    return pixels, boxes * np.tile([size[1] / width, size[0] / height], 2)


def candidates(photographs: Photographs, protocol: str, n_boxes: int) -> tuple[Photographs, list[DetectionInput]]:
    """Return photographs with the features of their candidate boxes.

    Parameters
    ----------
    photographs : Photographs
        The photographs.
    protocol : {"several sizes", "one size", "jitter"}
        Several sizes: a grid of boxes of several sizes and shapes. One size: photographs are shrunk, the size of the
        true box is known, its place on a grid is not, and the nearest candidate is the truth. Jitter: the true box and
        others at random places.
    n_boxes : int
        Most candidates of a photograph.
    """
    features = BoxFeatures(limit=n_boxes, geometry=0.0)
    if protocol == SEVERAL_SIZES:
        return photographs, features.transform(photographs.images)
    images, truth, given = [], [], []
    rng = np.random.default_rng(0)
    for image, boxes in zip(photographs.images, photographs.boxes, strict=True):
        if protocol == JITTER:
            images.append(image)
            truth.append(boxes)
            given.append(jittered_boxes(image.shape[1], image.shape[0], boxes[0], min(n_boxes, N_JITTERED), rng))
            continue
        small, scaled = shrink(image, boxes)
        found = one_size_boxes(small.shape[1], small.shape[0], scaled[0], n_boxes)
        images.append(small)
        truth.append(found[[nearest_box(found, scaled[0])]])
        given.append(found)
    kept = Photographs(photographs.names, images, photographs.labels, truth)
    return kept, features.transform(images, given)


def describe(name: str, photographs: Photographs, n_boxes: int, protocol: str = SEVERAL_SIZES) -> Scenes:
    """Return photographs with the features of their candidate boxes, of a fixed length."""
    kept, described = candidates(photographs, protocol, n_boxes)
    return Scenes(name, kept, [DetectionInput(x.boxes, np.float32(LENGTH) * x.features) for x in described])


@lru_cache(maxsize=1)
def load_scenes(name: str, setting: Setting, data_home: str | None) -> Scenes:
    """Return the photographs of a data set with their candidates."""
    photographs = first_of_each(SOURCES[name](data_home), setting.n_each)
    return describe(name, photographs, setting.n_boxes, setting.protocol)


def make_splits(Y: Sequence[str], n_splits: int) -> list[Split]:
    """Return random splits, 60 % of each class to train with, of which a quarter is held out where C is chosen."""
    labels = np.asarray(Y)
    halves = StratifiedShuffleSplit(n_splits, test_size=TEST_SHARE, random_state=0)
    found = []
    for number, (train, test) in enumerate(halves.split(labels, labels)):
        parts = StratifiedShuffleSplit(1, test_size=HELD_OUT_SHARE, random_state=number)
        inner, held_out = next(parts.split(train, labels[train]))
        found.append(Split(*(np.sort(part).tolist() for part in (train, test, train[inner], train[held_out]))))
    return found


def make_model(method: str, loss: str, C: float, n_images: int, seed: int) -> Any:
    """Return an estimator; C is the paper's, to be divided by the number of images."""
    options: dict[str, Any] = {"C": C / n_images, "random_state": seed}
    task = Detection(latent_loss=None if method == BLIND else loss)  # type: ignore[arg-type]
    if method == BLIND:
        return LatentSSVM(task, **options)
    if method == MODLAT:
        return ModLat(task, J=J, beta=BETA, tol=TOLERANCE, **options)
    return IterativeLSVM(task, inner={LSVM: "convex", ILSVM: "cccp"}[method], tol=TOLERANCE, **options)


def measure(
    data: str, setting: Sequence[Any], data_home: str | None, number: int, C: float, part: str
) -> list[dict[str, Any]]:
    """Train all methods on photographs of one split and predict others: test ones, or those held out to choose C.

    A latent SSVM whose loss is that of the class alone is trained first; the others begin with its weights.
    """
    wanted = Setting(*setting)
    scenes = load_scenes(data, wanted, data_home)
    split = make_splits(scenes.Y, wanted.n_splits)[number]
    train, test = (split.train, split.test) if part == TEST else (split.inner, split.held_out)
    X, Y = scenes.part(train)
    unseen, _ = scenes.part(test)
    found, start = [], None
    for method in (BLIND, LSVM, ILSVM, MODLAT):
        for loss in LOSSES if method != BLIND else ("overlap",):
            began = time.process_time()
            model = make_model(method, loss, C, len(train), number)
            with warnings.catch_warnings():
                # Limits of iterations are part of the setting.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(X, Y, coef_init=start)
            start = model.coef_ if method == BLIND else start
            predicted = [str(y) for y in model.predict(unseen)]
            boxes = chosen_boxes(unseen, model.predict_latent(unseen))
            one = {
                "loss": loss,
                "method": method,
                "scores": scenes.scores(test, predicted, list(boxes)),
                "photographs": test,
                "Y_pred": predicted,
                "boxes": np.round(boxes, 3).tolist(),
                "seconds": time.process_time() - began,
            }
            # To a method that sees no boxes both losses are the same training.
            found += [one, {**one, "loss": "zero_one"}] if method == BLIND else [one]
    return found


def make_plan(setting: Setting, data: str, home: str | None) -> list[tuple[Any, ...]]:
    """Return the arguments of all trials on one data set."""
    return [
        (data, tuple(setting), home, number, C, part)
        for number in range(setting.n_splits)
        for C in setting.strengths
        for part in (TEST, HELD_OUT)
    ]


def to_trials(plan: Sequence[tuple[Any, ...]], measured: Sequence[list[dict[str, Any]]]) -> list[Trial]:
    """Return what was measured, one entry for each model."""
    return [
        Trial(data=data, split=number, C=C, part=part, **{**one, "boxes": np.array(one["boxes"])})
        for (data, _, _, number, C, part), found in zip(plan, measured, strict=True)
        for one in found
    ]


def _show(arguments: tuple[Any, ...], found: list[dict[str, Any]]) -> str:
    data, _, _, number, C, part = arguments
    losses = ", ".join(f"{one['method']} {LOSSES[one['loss']]} {100 * one['scores'][one['loss']]:.1f}" for one in found)
    return f"{data}, split {number + 1}, C = {C:g}, {part}: {losses}"


def best_possible(scenes: Scenes) -> tuple[float, float]:
    """Return the mean overlap of the true boxes with the best candidates, and the share that is at least 0.5."""
    pairs = zip(scenes.X, scenes.photographs.boxes, strict=True)
    found = np.array([overlaps(x.boxes, truth).max() for x, truth in pairs])
    return float(found.mean()), float(np.mean(found >= 0.5))


def whole_image(scenes: Scenes) -> float:
    """Return the mean overlap of the true boxes with the whole photograph."""
    whole = [np.array([[0.0, 0.0, image.shape[1], image.shape[0]]]) for image in scenes.photographs.images]
    pairs = zip(whole, scenes.photographs.boxes, strict=True)
    return float(np.mean([overlaps(box, truth).max() for box, truth in pairs]))


def data_rows(scenes: Sequence[Scenes]) -> list[list[Any]]:
    """Return what each data set has, and what its candidates allow."""
    rows = []
    for one in scenes:
        mean, share = best_possible(one)
        counts = ", ".join(f"{label} {one.Y.count(label)}" for label in sorted(set(one.Y)))
        n_boxes = float(np.mean([len(x.boxes) for x in one.X]))
        rows.append([one.name, counts, n_boxes, 100 * mean, 100 * share, 100 * whole_image(one)])
    return rows


def run_on(
    data: Sequence[str],
    name: str,
    title: str,
    differs: list[str],
    setting: Setting,
    setup: Setup,
) -> Findings:
    """Train all methods on some of `SOURCES` and return losses, tests and pictures."""
    home = setup.data_home
    plan = [arguments for one in data for arguments in make_plan(setting, one, home)]
    measured = to_trials(plan, setup.trials.run(measure, plan, setup.say, "trials", _show))
    scenes = [load_scenes(one, setting, home) for one in data]
    plots = tables.loss_plots(measured)
    for one in scenes:
        plots |= tables.case_plots(one.name, one.photographs, measured)
    return Findings(
        name=name,
        title=title,
        data="; ".join(f"{one.name}, {len(one.X)} photographs" for one in scenes),
        differs=differs,
        tables=[
            tables.best_table(measured),
            tables.held_out_table(measured),
            tables.test_table(measured),
            tables.quality_table(measured),
            tables.curve_table(measured),
            tables.data_table(data_rows(scenes)),
            tables.time_table(measured),
        ],
        plots=plots,
        claims=tables.claims(measured),
        settings={
            **setting._asdict(),
            "J": J,
            "beta": BETA,
            "tolerance": TOLERANCE,
            "length": LENGTH,
            "losses": tables.to_plain(measured),
        },
    )


def run(setup: Setup) -> Findings:
    """Repeat figure 1 with boxes of several sizes: test losses of LSVM, ILSVM and ModLat against C."""
    setting = QUICK if setup.quick else FULL
    differs = [
        "The paper's photographs of six mammals are not available. Mammals here are 291 photographs of one kangaroo or "
        "raccoon; msrc animals are those of MSRC version 2 with birds, cats, cows, dogs or sheep, whose boxes are the "
        "extents of regions of that class. If there are several, a box has to match one of them.",
        f"Candidates are at most {setting.n_boxes} boxes of several sizes and shapes (the paper: 350). The 0/1 loss "
        "asks for the one that is nearest to the true box; modlat-one-size has boxes that differ in place only.",
        *common_differences(setup.quick),
    ]
    title = "Kumar, Packer & Koller (2012), figure 1: detection with latent boxes of several sizes"
    names = ["mammals", "msrc animals"]
    return run_on(names, "modlat-detection", title, differs, setting, setup)


def common_differences(quick: bool) -> list[str]:
    """Return in what all experiments with boxes differ from the paper's."""
    differences = [
        f"Features are histograms of oriented gradients of length {LENGTH:g}, that of 25 normalized blocks: the paper "
        "does not state its scale, on which the meaning of C depends. It was chosen by the accuracy on training "
        "photographs of kangaroos and raccoons: at length 1 no C of the grid learns them, at length 18 nearly all are "
        "learned at C = 1.",
        "LSVM is read as the paper describes it in section 6.1: the best latents, then a convex problem whose loss is "
        "measured against them, in turn; ILSVM solves a latent SSVM instead of the convex problem. "
        "All three begin with the weights that a latent SSVM finds by the loss of the class alone; the paper does not "
        "tell where its methods begin. "
        f"{BLIND} is beside the paper: its loss is that of the class alone.",
        "The best loss over C is chosen with the test photographs, as in the paper. Verdicts belong to C chosen by "
        "a quarter of the training photographs, whose boxes are known for this alone.",
        "Splits are drawn at random and overlap, so that paired tests over them are too sure of themselves.",
    ]
    return [*differences, "Quick: few photographs, candidates, splits and values of C."] if quick else differences
