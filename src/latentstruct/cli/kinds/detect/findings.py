"""Predictions for photographs, their quality, and pictures of them."""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from PIL import Image

from latentstruct.cli.interrupts import interrupt, on_interrupt, remember
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.detect.command import CASES_FILE, MIDDLE, PICTURES, PREDICTIONS_FILE
from latentstruct.cli.kinds.detect.files import Photographs
from latentstruct.data.boxes import overlaps
from latentstruct.data.images import label_colors
from latentstruct.io.boxes import ImageAnnotation, record_lines, write_coco
from latentstruct.io.text import write_text
from latentstruct.metrics.boxes import FOUND, box_scores
from latentstruct.persistence.atomic_files import PREFIX
from latentstruct.progress.display import SECONDS_BETWEEN_STEPS, show_number
from latentstruct.progress.eta import describe_share
from latentstruct.viz.box_pictures import draw_boxes

COCO_FILE = "coco.json"
AT_ONCE = 8
"""Number of images that are predicted together, small enough for large photographs."""
QUALITY = 90
"""Of JPEG pictures."""


class Finding(NamedTuple):
    """A prediction for an image: its candidates, the label, the score of each label, and the box."""

    name: str
    image: Any
    candidates: Any
    label: str
    scores: dict[str, float]
    box: Any

    @property
    def lead(self) -> float:
        """The margin of the label over the next."""
        best, second = sorted(self.scores.values(), reverse=True)[:2]
        return best - second


def find_objects(model: Trained, data: Photographs) -> Iterator[Finding]:
    """Yield the prediction for each image, and print the progress if it takes long."""
    estimator, labels = model.estimator, [str(label) for label in model.estimator.classes_]
    began = said = time.perf_counter()
    for start in range(0, len(data), AT_ONCE):
        if time.perf_counter() - said >= SECONDS_BETWEEN_STEPS:
            said = time.perf_counter()
            model.say(f"predicted {describe_share(start, len(data), 'images', said - began)}")
        names = data.names[start : start + AT_ONCE]
        images = list(data.images(names))
        X = [] if data.described is None else data.described[start : start + AT_ONCE]
        if not X:
            X = [data.describe(model.features, name, image) for name, image in zip(names, images, strict=True)]
        found = zip(estimator.predict(X), estimator.predict_latent(X), estimator.class_scores(X).tolist(), strict=True)
        for name, image, x, (label, state, scores) in zip(names, images, X, found, strict=True):
            by_label = dict(zip(labels, scores, strict=True))
            yield Finding(name, image, x.boxes, str(label), by_label, x.boxes[state])


class Judged(NamedTuple):
    """The predictions for all images, without pixels, and their best overlaps with true boxes, None if none is known.

    `middle` has the overlaps of the central boxes.
    """

    found: list[Finding]
    best: list[float | None]
    middle: list[float | None]


def judge(model: Trained, data: Photographs, draw: Callable[[int, Finding], None] | None = None) -> Judged:
    """Return the predictions for images; `draw` is called with the number of each image and its prediction."""
    judged = Judged([], [], [])
    for i, (finding, truth) in enumerate(zip(find_objects(model, data), data.boxes, strict=True)):
        judged.found.append(finding._replace(image=None))
        judged.best.append(best_overlap(finding.box, truth))
        judged.middle.append(best_overlap(middle_box(finding.image), truth))
        if draw is not None:
            draw(i, finding)
    return judged


def score_findings(data: Photographs, judged: Judged) -> dict[str, Any]:
    """Return the quality of labels and boxes; box measures are None if no true box is known."""
    guesses = [one.label for one in judged.found]
    boxed = [k for k, truth in enumerate(data.boxes) if len(truth)]
    of_boxes: dict[str, Any] = {"zero_one": None, "overlap": None}
    if boxed:
        truth, labels = [data.boxes[k] for k in boxed], [data.labels[k] for k in boxed]
        found = [judged.found[k] for k in boxed]
        parts = zip(*((one.label, one.box, one.candidates) for one in found), strict=True)
        scores = box_scores(labels, truth, *map(list, parts))
        of_boxes = {name: float(scores[name]) for name in of_boxes}
    right = sum(guess == label for guess, label in zip(guesses, data.labels, strict=True))
    return {
        "n_examples": len(data),
        "n_with_boxes": len(boxed),
        "n_left_out": data.n_left_out,
        "accuracy": right / len(data),
        "commonest": Counter(data.labels).most_common(1)[0][1] / len(data),
        **of_boxes,
        **over_all(judged.best),
        "middle": over_all(judged.middle),
        **count_classes(data.labels, guesses, judged.best),
    }


def best_overlap(box: Any, truth: Any) -> float | None:
    """Return the best overlap of a box with a true one, None if none is known."""
    return float(overlaps(box[None], truth).max()) if len(truth) else None


def middle_box(image: Any) -> Any:
    """Return the central box of an image, a prediction that ignores the pixels."""
    size = np.array(image.shape[1::-1], dtype=np.float64)
    return np.concatenate([0.5 * (1.0 - MIDDLE) * size, 0.5 * (1.0 + MIDDLE) * size])


def over_all(best: Sequence[float | None]) -> dict[str, float | None]:
    """Return CorLoc and the mean overlap, None if no true box is known."""
    known = [overlap for overlap in best if overlap is not None]
    if not known:
        return {"corloc": None, "mean_overlap": None}
    return {"corloc": sum(overlap >= FOUND for overlap in known) / len(known), "mean_overlap": sum(known) / len(known)}


def count_classes(labels: Sequence[str], guesses: Sequence[str], best: Sequence[float | None]) -> dict[str, Any]:
    """Return the quality of each class, and the confusion matrix; `best` are overlaps, None if unknown."""
    names = sorted({*labels, *guesses})
    classes = []
    for name in names:
        members = [k for k, label in enumerate(labels) if label == name]
        classes.append(
            {
                "label": name,
                "n_true": len(members),
                "n_predicted": sum(guess == name for guess in guesses),
                "accuracy": sum(guesses[k] == name for k in members) / len(members) if members else None,
                **over_all([best[k] for k in members]),
            }
        )
    counts = Counter(zip(labels, guesses, strict=True))
    confusion = {label: {guess: counts[label, guess] for guess in names} for label in names}
    return {"classes": classes, "confusion": confusion}


def draw_finding(folder: Path, finding: Finding, truth: Any, remark: str) -> None:
    """Write the picture of an image with the predicted box, and the true ones in white."""
    labels = sorted(finding.scores)
    color = label_colors(range(len(labels)))[labels.index(finding.label)]
    caption = f"{finding.label} {show_number(finding.lead, 2)}{remark}"
    picture = draw_boxes(finding.image, finding.box, [caption], [color], truth)
    Image.fromarray(picture).save(folder / picture_name(finding.name), quality=QUALITY)


def picture_name(name: str) -> str:
    """Return the file of the picture of an image."""
    return f"{name}.jpg"


def write_cases(folder: Path, data: Photographs, judged: Judged) -> None:
    """Write a table of all images, the best overlap first."""
    found, best = judged.found, judged.best
    order = sorted(range(len(data)), key=lambda k: (best[k] is None, -(best[k] or 0.0), data.names[k]))
    rows = [
        f"{data.files.member(data.names[k])}\t{data.labels[k]}\t{found[k].label}\t{found[k].lead:.6g}\t"
        + ("" if best[k] is None else f"{best[k]:.4f}")
        for k in order
    ]
    write_text(folder / CASES_FILE, "\n".join(["file\tlabel\tpredicted\tscore\toverlap", *rows]) + "\n")


def write_findings(model: Trained, photographs: Photographs, folder: Path) -> int:
    """Write label and box of each image as JSON and as COCO, and pictures; return the number of images."""
    rows: list[dict[str, Any]] = []
    annotations = []
    with results_in(folder, PREDICTIONS_FILE, earlier_pictures(folder)) as made:
        (made / PICTURES).mkdir()
        for finding in find_objects(model, photographs):
            file, (height, width) = photographs.files.member(finding.name), finding.image.shape[:2]
            draw_finding(made / PICTURES, finding, None, "")
            one = {"file": file, "label": finding.label, "score": finding.lead, "box": finding.box.tolist()}
            rows.append({**one, "scores": finding.scores})
            label = (finding.label,)
            annotations.append(ImageAnnotation(file, label, finding.box[None], label, (width, height)))
        write_coco(made / COCO_FILE, annotations, [row["score"] for row in rows])
        write_text(made / PREDICTIONS_FILE, record_lines({"images": rows}))
    return len(rows)


def judge_with_pictures(model: Trained, data: Photographs, folder: Path) -> dict[str, Any]:
    """Evaluate predictions, and draw predicted and true boxes of all images into a folder, with a table."""
    with results_in(folder, CASES_FILE, earlier_cases(folder)) as made:

        def draw(i: int, finding: Finding) -> None:
            label = data.labels[i]
            draw_finding(made, finding, data.boxes[i], "" if finding.label == label else f", true {label}")

        judged = judge(model, data, draw)
        write_cases(made, data, judged)
    return score_findings(data, judged)


def earlier_pictures(folder: Path) -> list[Path]:
    """Return the pictures of an earlier prediction, as listed in its file."""
    try:
        raw = (folder / PREDICTIONS_FILE).read_bytes()
        rows = msgspec.json.decode(raw, type=dict[str, list[dict[str, Any]]]).get("images", [])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    return [Path(PICTURES, picture_name(Path(str(row["file"])).stem)) for row in rows if "file" in row]


def earlier_cases(folder: Path) -> list[Path]:
    """Return the pictures of an earlier evaluation, as listed in its table."""
    try:
        rows = (folder / CASES_FILE).read_text(encoding="utf-8").splitlines()[1:]
    except (OSError, UnicodeDecodeError):
        return []
    return [Path(picture_name(Path(row.partition("\t")[0]).stem)) for row in rows]


@contextmanager
def results_in(folder: Path, mark: str, earlier: Sequence[Path]) -> Iterator[Path]:
    """Yield an empty folder for the block to fill; its contents are then moved to `folder`.

    If the block fails or Ctrl-C ends it, nothing is changed.

    Parameters
    ----------
    folder : Path
        Created if needed; it may have files of an earlier run.
    mark : str
        The file that identifies the folder. It is moved first, so that a partly filled folder is recognized.
    earlier : sequence of Path
        Files of an earlier run, relative to `folder`; those that the block does not replace are removed.
    """
    # On the same disk, so that moving a file is atomic.
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    with on_interrupt(interrupt), tempfile.TemporaryDirectory(prefix=PREFIX, dir=nearest) as made:
        yield Path(made)
        with on_interrupt(remember):
            files = [path.relative_to(made) for path in sorted(Path(made).rglob("*")) if path.is_file()]
            for file in sorted(files, key=lambda file: file != Path(mark)):
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(made) / file, folder / file)
            for file in set(earlier) - set(files):
                # A picture that cannot be removed does no harm; its name comes from a file that anybody may edit.
                with suppress(OSError, ValueError):
                    (folder / file).unlink()
