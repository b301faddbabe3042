"""Models that find the object of an image, trained on labels of whole images."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct.cli.common import STANDARD_STREAM, check_folder, reported_errors
from latentstruct.cli.found_boxes import (
    CASES_FILE,
    MIDDLE,
    Finding,
    draw_finding,
    find_objects,
    judge,
    picture_name,
    write_cases,
)
from latentstruct.cli.old_kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.old_options import (
    JsonOption,
    LatentChoices,
    OutputOption,
    QuietOption,
    ReportOption,
    RoundsOption,
    SecondsOption,
    SeedOption,
    SkipBadOption,
    TolOption,
    UnknownOption,
    ValidLabelsOption,
    ValidOption,
    check_valid_labels,
)
from latentstruct.cli.photographs import Photographs, open_labelled, open_unlabelled
from latentstruct.cli.results import results_in
from latentstruct.cli.training import Training, source_of
from latentstruct.exceptions import InputError
from latentstruct.progress import (
    SECONDS_BETWEEN_STEPS,
    Progress,
    print_facts,
    print_table,
    say,
    show_percent,
    show_share,
)
from latentstruct.time_left import describe_share

if TYPE_CHECKING:
    from latentstruct.box_features import BoxFeatures
    from latentstruct.report.blocks import Block, Examples

PREDICTIONS_FILE, COCO_FILE, PICTURES = "predictions.json", "coco.json", "pictures"
LABELS_SHOWN = 12
"""Classes up to which a table shows what each is taken for."""


class DetectModel(StrEnum):
    """What to train."""

    modlat = "modlat"
    iterative = "iterative"
    latent = "latent"


class DetectLoss(StrEnum):
    """What a wrong box costs."""

    overlap = "overlap"
    zero_one = "zero-one"


@dataclass(frozen=True)
class DetectRecord:
    """What the command keeps beside a model of boxes: how boxes are described, and what it was trained on."""

    features: dict[str, Any]
    n_boxes: int
    n_left_out: int
    n_examples: int
    seconds: float
    kind: Literal["detect"] = "detect"


LabelsArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="LABELS",
        show_default="labels.csv in DATA",
        help="Table with the header file,label; or COCO JSON; or a folder of VOC XML. Its boxes are not learned from.",
    ),
]
DetectModelOption = Annotated[
    DetectModel,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Boxes are uncertain (modlat), guessed and then taken for true (iterative), or only serve to tell the "
        "label (latent).",
    ),
]
DetectLossOption = Annotated[
    DetectLoss | None,
    typer.Option(
        metavar="NAME",
        show_default="overlap",
        help="What a wrong box costs: overlap, 1 − intersection over union, or zero-one. Not for latent.",
    ),
]
GeometryOption = Annotated[
    float,
    typer.Option(
        min=0.0, help="Weight of place and size of a box: photographs show things in the middle; 0 if yours do not."
    ),
]
CacheOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        show_default="in the user's cache folder",
        help="Where features are kept for the next training.",
    ),
]


@reported_errors()
def train_detect(
    images: Annotated[
        str, typer.Argument(metavar="DATA", help="Folder or zip archive of images; - is one on standard input.")
    ],
    labels: LabelsArgument = None,
    output: OutputOption = Path("model"),
    model: DetectModelOption = DetectModel.modlat,
    loss: DetectLossOption = None,
    C: Annotated[float, typer.Option("-C", metavar="NUMBER", help="Weight of each image against ½‖w‖².")] = 1.0,
    step: Annotated[int, typer.Option(min=1, help="Least distance of neighbouring boxes in pixels.")] = 8,
    boxes: Annotated[int, typer.Option(min=2, help="Most candidate boxes an image.")] = 350,
    geometry: GeometryOption = 0.5,
    cache: CacheOption = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep no features.")] = False,
    skip_bad: SkipBadOption = False,
    valid: ValidOption = None,
    valid_labels: ValidLabelsOption = None,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    allow_unknown: UnknownOption = False,
    report: ReportOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Learn to find objects from labels that only say what is seen in each image, not where.

    Candidate boxes of several sizes and shapes in a grid over the image get histograms of gradients, their place and
    their size as features.

    The labels are the table labels.csv in the folder or archive, or LABELS. Boxes are looked at in the
    labels of --valid only, to judge by them.

    An image has one label; one whose objects have several is refused, or left out with --skip-bad.

    Ctrl-C saves the best weights so far.

    Example: latentstruct train detect photos labels.csv -o model; latentstruct predict model new -o found
    """
    from latentstruct.box_features import BoxFeatures
    from latentstruct.images import require_vision

    choices = LatentChoices(output, C, tol, max_rounds, max_seconds, seed)
    choices.check(images, labels, valid, valid_labels)
    check_valid_labels(valid, valid_labels)
    require_vision()
    features = BoxFeatures(step=step, limit=boxes, geometry=geometry, cache=choose_cache(cache, no_cache))
    estimator = make_estimator(model, loss, choices)
    progress = Progress(quiet, n_starts=1)
    data = open_labelled(images, labels, skip_bad)
    data.check_classes()
    progress.say(f"read {len(data)} images from {images}, of {data.describe_labels()}")
    data.tell_of_misspellings()
    score, held_out = None, None
    if valid is not None:
        held_out = open_labelled(valid, valid_labels, skip_bad)
        held_out.check_known(set(data.labels), allow_unknown)

        def score(estimator: Any) -> dict[str, Any]:
            return judge(estimator, features, held_out, tell=progress.say)

    X = describe_all(features, data, progress)
    n_boxes = sum(len(x.boxes) for x in X)

    def examples(trained: Trained) -> "Examples":
        shown = replace(data, described=X) if held_out is None else held_out
        return DetectKind().examples(trained, shown, source_of(valid, images))

    def record(_: Any, seconds: float) -> DetectRecord:
        return DetectRecord(features.state(), n_boxes, data.n_left_out, len(X), seconds)

    sizes = {"n_examples": len(X), "n_boxes": n_boxes, "n_features": features.n_features_}
    sizes["n_labels"] = len(set(data.labels))
    training = Training(DetectKind(), output, estimator, X, data.labels, sizes, record, score)
    training.report, training.examples = report, examples
    training.run(progress, json)


def choose_cache(cache: Path | None, no_cache: bool) -> Path | None:
    """Return the folder that keeps features, None for none."""
    if no_cache:
        if cache is not None:
            raise InputError("--cache and --no-cache are both given; expected one of them: leave one out")
        return None
    if cache is not None:
        check_folder(cache, None, "features are kept in a folder")
        return cache
    told = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path is to be taken for none, says the standard of the variable.
    home = Path(told) if os.path.isabs(told) else Path.home() / ".cache"
    folder = home / "latentstruct" / "boxes"
    try:
        check_folder(folder, None, "features are kept in a folder")
    except InputError as error:
        say(f"features are not kept for the next training: {error} with --cache")
        return None
    return folder


def make_estimator(model: DetectModel, loss: DetectLoss | None, choices: LatentChoices) -> Any:
    """Return the untrained estimator."""
    from latentstruct.estimators import LatentSSVM
    from latentstruct.estimators.uncertain import IterativeLSVM, ModLat
    from latentstruct.tasks.detection import Detection

    if model is DetectModel.latent and loss is not None:
        raise InputError(
            f"--loss is {loss.value}, but --model latent does not compare boxes; expected modlat or iterative for it: "
            "leave it out"
        )
    kinds = {DetectModel.modlat: ModLat, DetectModel.iterative: IterativeLSVM, DetectModel.latent: LatentSSVM}
    chosen: Literal["overlap", "zero_one"] = "zero_one" if loss is DetectLoss.zero_one else "overlap"
    task = Detection(latent_loss=None if model is DetectModel.latent else chosen)
    estimator = kinds[model](task, C=choices.C, random_state=choices.seed)
    limits = {"tol": choices.tol, "max_rounds": choices.max_rounds, "max_seconds": choices.max_seconds}
    return estimator.set_params(**{name: value for name, value in limits.items() if value is not None})


def describe_all(features: "BoxFeatures", data: Photographs, progress: Progress) -> list[Any]:
    """Return the candidates of all images with their features, telling how far this is."""
    found: list[Any] = []
    began = told = time.perf_counter()
    for name, image in zip(data.names, data.images(), strict=True):
        found.append(features.describe(image, key=data.files.file(name)))
        if time.perf_counter() - told >= SECONDS_BETWEEN_STEPS:
            told = time.perf_counter()
            shown = describe_share(len(found), len(data), "images", told - began)
            progress.say(f"described the boxes of {shown}")
    return found


def judge_with_pictures(estimator: Any, features: "BoxFeatures", data: Photographs, folder: Path) -> dict[str, Any]:
    """Judge predictions, and draw predicted and true boxes of all images into a folder, with a table of them."""
    cases: list[tuple[str, float | None, float]] = []

    def draw(finding: Finding, overlap: float | None) -> None:
        label, truth = data.labels[len(cases)], data.boxes[len(cases)]
        draw_finding(folder, finding, truth, "" if finding.label == label else f", not {label}")
        cases.append((finding.label, overlap, finding.lead))

    found = judge(estimator, features, data, note=draw)
    write_cases(folder, data, *map(list, zip(*cases, strict=True)))
    return found


def restore_features(model: Trained) -> "BoxFeatures":
    """Return the features a model was trained with."""
    from latentstruct.box_features import BoxFeatures

    found: BoxFeatures = model.restored(BoxFeatures.from_state)
    return found


class DetectKind(Kind):
    """Boxes of objects in images."""

    name = "detect"
    summary = "Find the object of an image, told only what is seen in each, not where."
    latent = "the box of the object"
    reads = (
        "A folder or zip archive of images with labels.csv in it: file,label, and x0,y0,x1,y1 if boxes are known, "
        "which only evaluate looks at."
    )
    example_file = "detect.zip"
    prediction_file = "predicted"
    record = DetectRecord
    train = staticmethod(train_detect)
    judged_on = frozenset({"data", "labels", "pictures", "skip_bad", "allow_unknown"})
    evaluation_hint = "give images and labels, as latentstruct evaluate MODEL DATA LABELS, or labels.csv in DATA"

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks.detection import Detection

        return isinstance(model.estimator.task_, Detection) and len(model.estimator.classes_) > 1

    def input_files(self, data: str) -> Sequence[str | Path]:
        """Return nothing: what is written is a folder, which `predict` checks."""
        return []

    predict_flags = frozenset({"skip_bad"})

    def predict(self, model: Trained, data: str, output: str, skip_bad: bool = False) -> None:
        """Write label and box of each image as JSON and as COCO, and pictures of them."""
        self._predict(model, data, output, skip_bad)

    def _predict(self, model: Trained, data: str, output: str, skip_bad: bool) -> None:
        from latentstruct.formats.boxes import ImageAnnotation, write_coco
        from latentstruct.images import require_vision

        if output == STANDARD_STREAM:
            raise InputError(
                "the output is - (standard output); expected a folder for boxes and pictures: name it with -o"
            )
        require_vision()
        folder = Path(output)
        check_folder(folder, PREDICTIONS_FILE, "boxes and pictures go into a folder")
        if (folder / PICTURES).exists() and not (folder / PICTURES).is_dir():
            raise InputError(
                f"{folder / PICTURES} is a file; expected a folder or nothing, as pictures go there: rename the file, "
                "or choose another folder with -o"
            )
        features, photographs = restore_features(model), open_unlabelled(data, skip_bad)
        rows: list[dict[str, Any]] = []
        annotations = []
        with results_in(folder, PREDICTIONS_FILE, earlier_pictures(folder)) as made:
            (made / PICTURES).mkdir()
            for finding in find_objects(model.estimator, features, photographs):
                file, (height, width) = photographs.files.member(finding.name), finding.image.shape[:2]
                draw_finding(made / PICTURES, finding, None, "")
                one = {"file": file, "label": finding.label, "score": finding.lead, "box": finding.box.tolist()}
                rows.append({**one, "scores": finding.scores})
                label = (finding.label,)
                annotations.append(ImageAnnotation(file, label, finding.box[None], label, (width, height)))
            write_coco(made / COCO_FILE, annotations, [row["score"] for row in rows])
            write_predictions(made, rows)
        written = f"{len(rows)} image{'' if len(rows) == 1 else 's'}"
        say(f"wrote the boxes of {written} to {folder}, with pictures of them in {folder / PICTURES}")

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return how many labels and boxes are right."""
        pictures = None if held_out.pictures is None else Path(held_out.pictures)
        if pictures is not None:
            check_folder(pictures, CASES_FILE, "pictures go into a folder")
        features, data = restore_features(model), self.read_held_out(model, held_out)
        if pictures is None:
            return judge(model.estimator, features, data)
        with results_in(pictures, CASES_FILE, earlier_cases(pictures)) as made:
            found = judge_with_pictures(model.estimator, features, data, made)
        say(f"wrote pictures of {len(data)} images and {CASES_FILE} to {pictures}")
        return found

    def read_held_out(self, model: Trained, held_out: HeldOut) -> Photographs:
        """Return images with labels and, where they are known, boxes."""
        data = open_labelled(held_out.data or "", held_out.labels, held_out.skip_bad)
        data.check_known({str(label) for label in model.estimator.classes_}, held_out.allow_unknown)
        return data

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return the templates of the classes, and the places and sizes they prefer."""
        from latentstruct.cli.reports.detect import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: Photographs, source: str) -> "Examples":
        """Return boxes found in images."""
        from latentstruct.cli.reports.detect import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print losses and shares, a table of the classes and what they are taken for."""
        facts = [
            ("images", f"{scores['n_examples']}, {scores['n_with_boxes']} with true boxes"),
            (
                "labels right",
                f"{show_percent(scores['accuracy'])} ({show_percent(scores['commonest'])} have the commonest label)",
            ),
        ]
        if scores["n_with_boxes"]:
            facts += [
                ("CorLoc", f"{show_percent(scores['corloc'])} (boxes that overlap a true one by half)"),
                ("mean overlap", show_percent(scores["mean_overlap"])),
                ("middle box", describe_middle(scores)),
                ("0/1 loss", f"{scores['zero_one']:.4f} (label wrong, or a candidate is better)"),
                ("overlap loss", f"{scores['overlap']:.4f} (1 if the label is wrong)"),
            ]
        print_facts(facts)
        rows = []
        for one in scores["classes"]:
            shares = [show_share(one[key]) for key in ("accuracy", "corloc", "mean_overlap")]
            rows.append([one["label"], *shares, str(one["n_true"]), str(one["n_predicted"])])
        print_table("labels", ("label", "right", "CorLoc", "mean overlap", "true", "predicted"), rows)
        names = list(scores["confusion"])
        if len(names) <= LABELS_SHOWN:
            counts = [[label, *(str(scores["confusion"][label][guess]) for guess in names)] for label in names]
            print_table("taken for", ("label", *names), counts)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the shares of right labels and boxes."""
        facts = [("labels right", show_percent(scores["accuracy"]))]
        if not scores["n_with_boxes"]:
            return facts
        return [*facts, ("CorLoc", show_percent(scores["corloc"])), ("middle box", describe_middle(scores))]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the share of right labels."""
        value: float = scores["accuracy"]
        return value

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return how boxes are made and described, and what a wrong one cost."""
        features, record = restore_features(model), model.record
        kept = {name: value for name, value in features.state().items() if name not in ("format", "version")}
        loss = model.estimator.task_.latent_loss
        return {"boxes": kept, "latent_loss": loss, "n_boxes": record.n_boxes, "n_left_out": record.n_left_out}

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return boxes and their description."""
        if "boxes" not in result:
            return []
        kept = result["boxes"]
        size = f"{kept['window']} × {kept['window']} pixels in cells of {kept['cell']} × {kept['cell']}"
        return [
            ("boxes", f"{result['n_boxes']}, at most {kept['limit']} an image, {kept['step']} pixels apart or more"),
            ("window", size),
            ("loss of boxes", str(result["latent_loss"] or "none")),
        ]

    def show_details(self, result: dict[str, Any]) -> None:
        """Print nothing: single weights of gradients tell nothing."""


def write_predictions(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write what was found as JSON, an image a line."""
    from latentstruct.formats.boxes import record_lines
    from latentstruct.formats.text import write_text

    write_text(folder / PREDICTIONS_FILE, record_lines({"images": rows}))


def earlier_pictures(folder: Path) -> list[Path]:
    """Return the pictures that an earlier prediction wrote, as far as its file tells."""
    import msgspec

    try:
        raw = (folder / PREDICTIONS_FILE).read_bytes()
        rows = msgspec.json.decode(raw, type=dict[str, list[dict[str, Any]]]).get("images", [])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    return [Path(PICTURES, picture_name(Path(str(row["file"])).stem)) for row in rows if "file" in row]


def earlier_cases(folder: Path) -> list[Path]:
    """Return the pictures that an earlier evaluation wrote, as far as its table tells."""
    try:
        rows = (folder / CASES_FILE).read_text(encoding="utf-8").splitlines()[1:]
    except (OSError, UnicodeDecodeError):
        return []
    return [Path(picture_name(Path(row.partition("\t")[0]).stem)) for row in rows]


def describe_middle(scores: dict[str, Any]) -> str:
    """Return how good a box is that stands in the middle of each image, and whether predicted ones are better."""
    corloc, overlap = (scores["middle"][key] for key in ("corloc", "mean_overlap"))
    told = (
        f"CorLoc {show_percent(corloc)}, mean overlap {show_percent(overlap)}, by a box of "
        f"{100 * MIDDLE:.0f} % of width and height in the middle of each image"
    )
    better = scores["corloc"] > corloc and scores["mean_overlap"] > overlap
    return told if better else f"{told}: those found are not better than this guess"
