"""Boxes of objects of any class beside fixed boxes, on photographs of mammals.

`learned_weights` are the weights of the library, learned on photographs of other objects with known boxes.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from latentstruct.data.boxes import overlaps
from latentstruct.features.objectness import N_CUES, SCORED, WEIGHTS, box_cues
from latentstruct.features.regions import segment_boxes
from latentstruct.features.saliency import saliency_map
from latentstruct_papers.datasets import (
    Photographs,
    load_mammals,
    load_msrc_animals,
    load_voc_actions,
    load_voc_mammals,
)
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.modlat_detection import first_of_each
from latentstruct_papers.mssvm_simulation import show_mean
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CENTRAL, WHOLE, SALIENT = "central box", "whole photograph", "most salient segment"
OBJECT, BEST = "most object-like segment", "best segment"
MIDDLE = 0.75
"""Sides of the central box relative to those of the photograph, as in `latentstruct evaluate`."""
BLOCK = 25
"""Photographs of a trial."""

STRENGTH = 0.003
"""Weight of ½‖w‖²."""
LEAST, ENOUGH = 0.3, 0.7
"""Overlaps from which a box is worth something, and that are worth as much as 1."""
WITH_HORSES = "ridinghorse"


class Described(NamedTuple):
    """Cues (n, m, k) and overlaps with the true boxes (n, m) of the boxes of n photographs; −1 where there is no box.

    Column `SALIENCE` of the cues is largest for the most salient box.
    """

    cues: Any
    overlaps: Any


SALIENCE = 7


def _persons(data_home: str | None) -> Photographs:
    """Return the photographs of persons that do not ride horses."""
    data = load_voc_actions(data_home)
    return chosen(data, [k for k, label in enumerate(data.labels) if label != WITH_HORSES])


def _single_animals(data_home: str | None) -> Photographs:
    """Return the photographs of MSRC with one animal."""
    data = load_msrc_animals(data_home)
    return chosen(data, [k for k, boxes in enumerate(data.boxes) if len(boxes) == 1])


def chosen(data: Photographs, places: list[int]) -> Photographs:
    """Return some of the photographs, decoded."""
    lists = (data.names, data.images, data.labels, data.boxes)
    return Photographs(*([values[k] for k in places] for values in lists))  # type: ignore[arg-type]


SETS: dict[str, Callable[[str | None], Photographs]] = {
    "persons": _persons,
    "kangaroos and raccoons": load_mammals,
    "animals of MSRC": _single_animals,
}
LEARNED_ON = ("persons", "kangaroos and raccoons")
"""The photographs that the weights of the library are learned on."""


def describe(data: Photographs) -> Described:
    """Return cues and overlaps of photographs."""
    n = len(data.names)
    cues, found = np.zeros((n, SCORED, N_CUES)), np.full((n, SCORED), -1.0)
    for k in range(n):
        image = data.images[k]
        boxes = segment_boxes(image, SCORED)
        cues[k, : len(boxes)] = box_cues(saliency_map(image), boxes, image.shape[1], image.shape[0])
        found[k, : len(boxes)] = overlaps(boxes, data.boxes[k]).max(axis=1)
    return Described(cues, found)


def learn(sets: list[Described], strength: float = STRENGTH) -> Any:
    """Return the weights with the largest mean worth of the boxes of a softmax, minus ½·strength·‖w‖².

    All sets have the same weight. The worth grows linearly from 0 to 1 between overlaps of 0.3 and 0.7.
    """
    found = minimize(partial(_loss, sets, strength), np.zeros(N_CUES), jac=True, method="L-BFGS-B")
    return found.x


def _loss(sets: list[Described], strength: float, w: Any) -> tuple[float, Any]:
    """Return the objective and its gradient."""
    value, slope = 0.5 * strength * float(w @ w), strength * w
    for cues, met in sets:
        worth = ((met - LEAST) / (ENOUGH - LEAST)).clip(0.0, 1.0)
        scores = np.where(met < 0, -np.inf, cues @ w)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        mean = (shares * worth).sum(axis=1, keepdims=True)
        value -= float(mean.mean()) / len(sets)
        slope = slope - np.tensordot(shares * (worth - mean), cues, 2) / (len(sets) * len(cues))
    return value, slope


def learned_weights(data_home: str | None = None) -> Any:
    """Return the weights of the library, learned on persons, kangaroos and raccoons."""
    return learn([describe(SETS[name](data_home)) for name in LEARNED_ON])


def corloc(data: Described, w: Any) -> float:
    """Return the fraction of photographs whose best box overlaps the true one by at least half."""
    best = np.where(data.overlaps < 0, -np.inf, data.cues @ w).argmax(axis=1)
    return float((data.overlaps[np.arange(len(best)), best] >= 0.5).mean())


def measure(n_each: int | None, start: int, data_home: str | None) -> dict[str, list[float]]:
    """Return the overlaps of fixed and found boxes with the true ones, of a block of photographs."""
    every = first_of_each(load_voc_mammals(data_home), n_each)
    data = chosen(every, list(range(start, min(start + BLOCK, len(every.names)))))
    cues, met = describe(data)
    rows = np.arange(len(met))
    found = {SALIENT: met[rows, cues[:, :, SALIENCE].argmax(axis=1)]}
    found[OBJECT] = met[rows, np.where(met < 0, -np.inf, cues @ WEIGHTS).argmax(axis=1)]
    found[BEST] = met.max(axis=1)
    for name, side in ((CENTRAL, MIDDLE), (WHOLE, 1.0)):
        ends = np.array([1 - side, 1 - side, 1 + side, 1 + side]) / 2
        sizes = [image.shape[1::-1] for image in data.images]
        boxes = [ends[None] * [*size, *size] for size in sizes]
        found[name] = np.array([overlaps(box, true).max() for box, true in zip(boxes, data.boxes, strict=True)])
    return {name: values.tolist() for name, values in found.items()}


class Results:
    """Overlaps of all photographs by method."""

    def __init__(self, blocks: list[dict[str, list[float]]]) -> None:
        self.found = {name: np.concatenate([block[name] for block in blocks]) for name in (*LISTED, BEST)}

    def right(self, name: str) -> Any:
        """Return which boxes overlap the true one by at least half."""
        return (self.found[name] >= 0.5).astype(float)

    def table(self) -> Table:
        """Return CorLoc and mean overlap."""
        rows = [[name, show_mean(self.right(name)), show_mean(self.found[name])] for name in (*LISTED, BEST)]
        note = "CorLoc: photographs whose box overlaps the true one by at least half. The best segment knows that box."
        return Table("In %, mean ± standard error over photographs", ["box", "CorLoc", "mean overlap"], rows, note)

    def claims(self) -> list[Claim]:
        """Return how the most object-like box compares with the others."""
        found = []
        for other in (CENTRAL, WHOLE, SALIENT):
            first, second = self.right(OBJECT), self.right(other)
            shown = f"{100 * first.mean():.1f}, {100 * second.mean():.1f}: {show_mean(first - second, signed=True)}"
            what = f"CorLoc: {OBJECT}, against {other}"
            found.append(Claim(what, "", f"{shown} over {len(first)} photographs", "no published figure", True))
        return found

    def draw(self, axes: "Axes") -> None:
        """Draw CorLoc of all."""
        axes.barh(list(self.found), [100 * self.right(name).mean() for name in self.found])
        axes.invert_yaxis()
        axes.set_xlabel("CorLoc in %")


LISTED = (CENTRAL, WHOLE, SALIENT, OBJECT)


def run(setup: Setup) -> Findings:
    """Find boxes of mammals without labels."""
    n_each = 8 if setup.quick else None
    n = len(first_of_each(load_voc_mammals(setup.data_home), n_each).names)
    plan = [(n_each, start, setup.data_home) for start in range(0, n, BLOCK)]
    results = Results(setup.trials.run(measure, plan, setup.say, "blocks", _show))
    return Findings(
        name="object-boxes",
        title="Boxes of objects of any class",
        data=f"VOC 2012, {n} photographs of five mammals, none of which is trained on",
        differs=[
            "The papers have no such method; it follows Deselaers, Alexe & Ferrari (2010), who transfer objectness "
            "from photographs of other classes whose boxes are known.",
            f"Of at most {SCORED} segments the box has the largest sum of {N_CUES} weighted cues. The weights maximize "
            "the expected overlap of the box on photographs of persons (VOC, none of them on a horse), kangaroos and "
            "raccoons, so that none is labeled as one of the five classes. Labels of the mammals are not used.",
            "Cues, strength of the regularization and photographs to learn from were chosen by tests on kangaroos and "
            "raccoons, and on animals of MSRC: all animals of Caltech, most of them large, were left out. Birds of "
            "MSRC as a third set were left out only after they were seen to be worse on these mammals, too.",
        ],
        tables=[results.table()],
        plots={"corloc": results.draw},
        claims=results.claims(),
        settings={"weights": WEIGHTS.tolist()},
    )


def _show(arguments: tuple[Any, ...], found: dict[str, list[float]]) -> str:
    shown = ", ".join(f"{name} {100 * np.mean(np.array(found[name]) >= 0.5):.0f}" for name in LISTED)
    return f"from photograph {arguments[1] + 1}, CorLoc in %: {shown}"
