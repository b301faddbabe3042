"""Boxes learned from labels of photographs beside boxes that need no learning, by candidates and features."""

import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentstruct.data.boxes import grid_boxes, overlaps
from latentstruct.estimators.uncertain import ModLat
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.features.boxes import BoxFeatures
from latentstruct.features.regions import segment_boxes
from latentstruct.metrics.boxes import box_scores
from latentstruct.tasks.detection import Detection, DetectionInput, chosen_boxes
from latentstruct_papers.datasets import Photographs, load_voc_mammals
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.modlat_detection import first_of_each, make_splits
from latentstruct_papers.mssvm_simulation import show_mean
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CENTRAL, WHOLE, BEST = "central box", "whole photograph", "best candidate"
MIDDLE = 0.75
"""Sides of the central box relative to those of the photograph, as in `latentstruct evaluate`."""


class Variant(NamedTuple):
    """Candidates, and the weight of position and size among the features."""

    candidates: str
    geometry: float

    @property
    def name(self) -> str:
        """What is shown of it."""
        return f"{self.candidates}, {'with' if self.geometry else 'without'} position and size"


VARIANTS = tuple(Variant(name, weight) for name in ("grid", "segments") for weight in (0.5, 0.0))


class Setting(NamedTuple):
    """Photographs of each class (None is all), splits, candidates of a photograph, values of C, variants."""

    n_each: int | None
    n_splits: int
    n_boxes: int
    strengths: tuple[float, ...]
    variants: tuple[Variant, ...]


FULL = Setting(None, 4, 100, (0.1, 1.0), VARIANTS)
QUICK = Setting(8, 2, 60, (0.1,), (VARIANTS[0], VARIANTS[2]))


@lru_cache(maxsize=1)
def load(n_each: int | None, data_home: str | None) -> Photographs:
    """Return the photographs, decoded."""
    found = first_of_each(load_voc_mammals(data_home), n_each)
    return Photographs(found.names, list(found.images), found.labels, found.boxes)


@lru_cache(maxsize=1)
def describe(
    n_each: int | None, n_boxes: int, candidates: str, geometry: float, data_home: str | None
) -> list[DetectionInput]:
    """Return candidates and features of all photographs."""
    features = BoxFeatures(limit=n_boxes, geometry=geometry, candidates=candidates)  # type: ignore[arg-type]
    return features.transform(load(n_each, data_home).images)


def fixed_boxes(photographs: Photographs, k: int) -> dict[str, Any]:
    """Return the boxes of a photograph that need no learning."""
    height, width = photographs.images[k].shape[:2]
    whole = np.array([[0.0, 0.0, width, height]])
    margin = 0.5 * (1 - MIDDLE) * np.array([width, height])
    return {CENTRAL: whole + np.concatenate([margin, -margin]), WHOLE: whole}


def measure_fixed(setting: tuple[Any, ...], number: int, data_home: str | None) -> dict[str, dict[str, float]]:
    """Return CorLoc and mean overlap of fixed boxes and of the best candidates on the test photographs of a split."""
    n_each, n_splits, n_boxes = setting
    photographs = load(n_each, data_home)
    test = make_splits(photographs.labels, n_splits)[number].test
    met: dict[str, list[float]] = {}
    for k in test:
        given = fixed_boxes(photographs, k)
        image = photographs.images[k]
        given[f"{BEST}, grid"] = grid_boxes(image.shape[1], image.shape[0], limit=n_boxes)
        given[f"{BEST}, segments"] = segment_boxes(image, n_boxes)
        for name, boxes in given.items():
            met.setdefault(name, []).append(float(overlaps(boxes, photographs.boxes[k]).max()))
    return {
        name: {"corloc": float(np.mean(np.array(values) >= 0.5)), "overlap": float(np.mean(values))}
        for name, values in met.items()
    }


def measure(
    setting: tuple[Any, ...], variant: tuple[Any, ...], number: int, C: float, data_home: str | None
) -> dict[str, float]:
    """Return the scores of ModLat on test photographs, and the accuracy of labels on those held out to choose C."""
    n_each, n_splits, n_boxes = setting
    photographs, X = load(n_each, data_home), describe(n_each, n_boxes, *variant, data_home)
    split = make_splits(photographs.labels, n_splits)[number]
    found = {}
    for train, test in ((split.inner, split.held_out), (split.train, split.test)):
        model = ModLat(Detection("overlap"), C=C, random_state=number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit([X[k] for k in train], [photographs.labels[k] for k in train])
        unseen, labels = [X[k] for k in test], [photographs.labels[k] for k in test]
        boxes = chosen_boxes(unseen, model.predict_latent(unseen))
        scores = box_scores(labels, [photographs.boxes[k] for k in test], model.predict(unseen), list(boxes))
        if test is split.held_out:
            found["held_out"] = scores["accuracy"]
            continue
        met = [overlaps(box, photographs.boxes[k]).max() for k, box in zip(test, boxes, strict=True)]
        found |= {"corloc": scores["corloc"], "accuracy": scores["accuracy"], "overlap": float(np.mean(met))}
    return found


class Results:
    """Scores over splits by method; C of learned ones has the best accuracy of labels on photographs held out."""

    def __init__(self) -> None:
        self.found: dict[str, list[dict[str, float]]] = {}

    def values(self, name: str, score: str) -> Any:
        """Return a score over the splits."""
        return np.array([one[score] for one in self.found[name]])

    def table(self) -> Table:
        """Return all scores."""
        rows: list[list[Any]] = []
        for name, scores in self.found.items():
            shown = [show_mean(self.values(name, key)) if key in scores[0] else None for key in SCORES]
            rows.append([name, *shown])
        note = (
            "CorLoc: test photographs whose box overlaps the true one by at least 0.5. C of learned boxes has the best "
            "accuracy of labels on photographs held out; no true box was used to choose anything."
        )
        return Table("Test photographs in %, mean ± standard error over splits", ["box", *SCORES.values()], rows, note)

    def claims(self) -> list[Claim]:
        """Return how learned boxes compare with the better fixed box, and segments with a grid."""
        fixed = max((CENTRAL, WHOLE), key=lambda name: self.values(name, "corloc").mean())
        pairs = [(name, fixed) for name in self.found if name.startswith(("grid", "segments"))]
        found = []
        for ours, other in [*pairs, (f"{BEST}, segments", f"{BEST}, grid")]:
            first, second = (self.values(name, "corloc") for name in (ours, other))
            shown = f"{100 * first.mean():.1f}, {100 * second.mean():.1f}: {show_mean(first - second, signed=True)}"
            what = f"CorLoc: {ours}, against {other}"
            found.append(Claim(what, "", f"{shown} over {len(first)} splits", "no published figure", True))
        return found

    def draw(self, axes: "Axes") -> None:
        """Draw CorLoc of all."""
        names = list(self.found)
        axes.barh(names, [100 * self.values(name, "corloc").mean() for name in names])
        axes.invert_yaxis()
        axes.set_xlabel("CorLoc on test photographs in %")


SCORES = {"corloc": "CorLoc", "overlap": "mean overlap", "accuracy": "label accuracy"}


def run(setup: Setup) -> Findings:
    """Learn boxes of five mammals from labels, with candidates of a grid and of segments."""
    setting = QUICK if setup.quick else FULL
    home = setup.data_home
    sizes = (setting.n_each, setting.n_splits, setting.n_boxes)
    splits = range(setting.n_splits)
    results = Results()
    fixed = [(sizes, number, home) for number in splits]
    for found in setup.trials.run(measure_fixed, fixed, setup.say, "splits", _show_fixed):
        for name, scores in found.items():
            results.found.setdefault(name, []).append(scores)
    plan: list[tuple[Any, ...]] = [
        (sizes, tuple(variant), number, C, home)
        for variant in setting.variants
        for number in splits
        for C in setting.strengths
    ]
    measured = setup.trials.run(measure, plan, setup.say, "trainings", _show)
    n_each = len(setting.strengths)
    for start in range(0, len(plan), n_each):
        best = max(measured[start : start + n_each], key=lambda one: one["held_out"])
        results.found.setdefault(Variant(*plan[start][1]).name, []).append(best)
    differs = [
        "The paper does not report CorLoc. Photographs are those of PASCAL VOC 2012 with one mammal.",
        f"Learned boxes are those of ModLat with the overlap loss and at most {setting.n_boxes} candidates of a "
        f"photograph. The central box has {100 * MIDDLE:.0f} % of width and height.",
        "Best candidates are chosen by the true box: the limit of what could be learned.",
        *(["Quick: few photographs, candidates and splits."] if setup.quick else []),
    ]
    return Findings(
        name="modlat-corloc",
        title="Boxes learned from labels beside fixed ones",
        data=f"VOC 2012, {len(load(setting.n_each, home).labels)} photographs of five mammals, 60 % to train with",
        differs=differs,
        tables=[results.table()],
        plots={"corloc": results.draw},
        claims=results.claims(),
        settings={"strengths": list(setting.strengths), "n_splits": setting.n_splits, "n_boxes": setting.n_boxes},
    )


def _show_fixed(arguments: tuple[Any, ...], found: dict[str, dict[str, float]]) -> str:
    shown = ", ".join(f"{name} {100 * scores['corloc']:.1f}" for name, scores in found.items())
    return f"split {arguments[1] + 1}, CorLoc in %: {shown}"


def _show(arguments: tuple[Any, ...], found: dict[str, float]) -> str:
    shown = ", ".join(f"{name} {100 * value:.1f}" for name, value in found.items())
    return f"{Variant(*arguments[1]).name}, split {arguments[2] + 1}, C = {arguments[3]:g}: {shown}"
