"""Models that find the object of an image, trained on labels of whole images."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from latentstruct.cli.common import STANDARD_STREAM, check_folder
from latentstruct.cli.kind import Facts, KindSpec, Loaded, Record, Trained
from latentstruct.cli.options import HeldOut, ImageOptions, SkipBadOption
from latentstruct.exceptions import InputError
from latentstruct.progress.display import (
    SECONDS_BETWEEN_STEPS,
    Progress,
    print_facts,
    print_table,
    say,
    show_percent,
    show_share,
)
from latentstruct.progress.eta import describe_share

if TYPE_CHECKING:
    from latentstruct.cli.kinds.detect.files import Photographs
    from latentstruct.features.boxes import BoxFeatures

PREDICTIONS_FILE, PICTURES, CASES_FILE = "predictions.json", "pictures", "cases.tsv"
MIDDLE = 0.75
"""Share of width and height of the box in the middle of an image that predictions are compared with."""
LABELS_SHOWN = 12
"""Classes up to which a table shows what each is taken for."""


ESTIMATORS = {"modlat": "ModLat", "iterative": "IterativeLSVM", "latent": "LatentSSVM"}


@dataclass(frozen=True, kw_only=True)
class DetectOptions(ImageOptions):
    """Learn to find objects from labels that only say what is seen in each image, not where.

    Candidate boxes of several sizes and shapes in a grid over the image get histograms of gradients, their place and
    their size as features.

    The labels are the table labels.csv in the folder or archive, or LABELS. Boxes are looked at in the
    labels of --valid only, to judge by them.

    An image has one label; one whose objects have several is refused, or left out with --skip-bad.

    Ctrl-C saves the best weights so far.

    Example: latentstruct train detect photos labels.csv -o model; latentstruct predict model new -o found
    """

    labels: Annotated[
        str | None,
        Argument(
            metavar="LABELS",
            show_default="labels.csv in DATA",
            help="Table with the header file,label; or COCO JSON; or a folder of VOC XML. Its boxes are not learned "
            "from.",
        ),
    ] = None
    model: Annotated[
        Literal["modlat", "iterative", "latent"],
        Option(
            metavar="NAME",
            help="Boxes are uncertain (modlat), guessed and then taken for true (iterative), or only serve to tell the "
            "label (latent).",
        ),
    ] = "modlat"
    loss: Annotated[
        Literal["overlap", "zero-one"] | None,
        Option(
            metavar="NAME",
            show_default="overlap",
            help="What a wrong box costs: overlap, 1 − intersection over union, or zero-one. Not for latent.",
        ),
    ] = None
    step: Annotated[int, Option(min=1, help="Least distance of neighbouring boxes in pixels.")] = 8
    boxes: Annotated[int, Option(min=2, help="Most candidate boxes an image.")] = 350
    geometry: Annotated[
        float,
        Option(
            min=0.0, help="Weight of place and size of a box: photographs show things in the middle; 0 if yours do not."
        ),
    ] = 0.5
    cache: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            show_default="in the user's cache folder",
            help="Where features are kept for the next training.",
        ),
    ] = None
    no_cache: Annotated[bool, Option("--no-cache", help="Keep no features.")] = False
    skip_bad: SkipBadOption = False

    def held_out(self) -> HeldOut:
        return replace(super().held_out(), skip_bad=self.skip_bad)

    def check(self) -> None:
        super().check()
        if self.model == "latent" and self.loss is not None:
            raise InputError(
                f"--loss is {self.loss}, but --model latent does not compare boxes; expected modlat or iterative "
                "for it: leave it out"
            )

    def estimator(self) -> Any:
        """Return the untrained estimator."""
        from latentstruct.tasks.detection import Detection

        chosen: Literal["overlap", "zero_one"] = "zero_one" if self.loss == "zero-one" else "overlap"
        task = Detection(latent_loss=None if self.model == "latent" else chosen)
        return self.build(ESTIMATORS[self.model], task, random_state=self.seed)


@dataclass(frozen=True, kw_only=True)
class DetectRecord(Record):
    """What is kept beside a model of boxes: how boxes are described, and what it was trained on."""

    features: dict[str, Any]
    n_boxes: int
    n_left_out: int


class DetectKind(KindSpec):
    """Boxes of objects in images."""

    name = "detect"
    summary = "Find the object of an image, trained on labels of whole images without boxes."
    latent = "the box of the object"
    reads = (
        "A folder or zip archive of images with labels.csv in it: file,label, and x0,y0,x1,y1 if boxes are known, "
        "which only evaluate looks at."
    )
    example_file = "detect.zip"
    prediction_file = "predicted"
    predicts = (
        "Boxes: DATA as for images, FILE a folder for predictions.json, coco.json and pictures; a score is the lead "
        "of the label over the next."
    )
    judged_by = (
        "Boxes: labels that are right, CorLoc, beside that of the middle of the image, 0/1 and overlap loss; LABELS "
        "as for training, with true boxes."
    )
    options = DetectOptions
    record = DetectRecord
    tasks = ("Detection",)
    judged_on = frozenset({"data", "labels", "pictures", "skip_bad", "allow_unknown"})
    evaluation_hint = "give images and labels, as latentstruct evaluate MODEL DATA LABELS, or labels.csv in DATA"
    predict_flags = frozenset({"skip_bad"})
    main = ("accuracy",)
    tables = ()

    def load(self, options: DetectOptions, progress: Progress) -> Loaded:
        from latentstruct.cli.kinds.detect.files import open_labelled
        from latentstruct.data.images import require_vision
        from latentstruct.features.boxes import BoxFeatures

        require_vision()
        cache = choose_cache(options.cache, options.no_cache)
        features = BoxFeatures(step=options.step, limit=options.boxes, geometry=options.geometry, cache=cache)
        data = open_labelled(options.data, options.labels, options.skip_bad)
        data.check_classes()
        progress.say(f"read {len(data)} images from {options.data}, of {data.describe_labels()}")
        data.tell_of_misspellings()
        record = DetectRecord(features={}, n_boxes=0, n_left_out=data.n_left_out, n_examples=len(data))
        labels = frozenset(data.labels)
        return Loaded(None, data.labels, options.estimator(), {}, record, features, labels, data)

    def encode(self, loaded: Loaded, progress: Progress) -> Loaded:
        features, data = loaded.features, loaded.shown
        X: list[Any] = []
        began = told = time.perf_counter()
        for name, image in zip(data.names, data.images(), strict=True):
            X.append(features.describe(image, key=data.files.file(name)))
            if time.perf_counter() - told >= SECONDS_BETWEEN_STEPS:
                told = time.perf_counter()
                progress.say(f"described the boxes of {describe_share(len(X), len(data), 'images', told - began)}")
        n_boxes = sum(len(x.boxes) for x in X)
        sizes = {"n_examples": len(X), "n_boxes": n_boxes, "n_features": features.n_features_}
        sizes["n_labels"] = len(loaded.labels)
        record = replace(loaded.record, features=features.state(), n_boxes=n_boxes)
        return replace(loaded, X=X, sizes=sizes, record=record, shown=replace(data, described=X))

    def fits(self, model: Trained) -> bool:
        return len(model.estimator.classes_) > 1

    def restore(self, model: Trained) -> "BoxFeatures":
        from latentstruct.features.boxes import BoxFeatures

        found: BoxFeatures = model.restored(BoxFeatures.from_state)
        return found

    def known_labels(self, estimator: Any) -> frozenset[Any]:
        return frozenset(str(label) for label in estimator.classes_)

    def read(self, model: Trained, held_out: HeldOut) -> "Photographs":
        from latentstruct.cli.kinds.detect.files import open_labelled

        data = open_labelled(held_out.data or "", held_out.labels, held_out.skip_bad)
        data.check_known(model.labels, held_out.allow_unknown)
        return data

    def score(self, model: Trained, data: "Photographs") -> dict[str, Any]:
        from latentstruct.cli.kinds.detect.findings import judge

        return judge(model, data)

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        from latentstruct.cli.kinds.detect.findings import judge_with_pictures

        if held_out.pictures is None:
            return super().evaluate(model, held_out)
        pictures = Path(held_out.pictures)
        check_folder(pictures, CASES_FILE, "pictures go into a folder")
        data = self.read(model, held_out)
        found = judge_with_pictures(model, data, pictures)
        say(f"wrote pictures of {len(data)} images and {CASES_FILE} to {pictures}")
        return found

    def input_files(self, data: str) -> Sequence[str | Path]:
        # What is written is a folder, which `predict` checks.
        return []

    def predict(self, model: Trained, data: str, output: str, skip_bad: bool = False) -> None:
        from latentstruct.cli.kinds.detect.files import open_unlabelled
        from latentstruct.cli.kinds.detect.findings import write_findings
        from latentstruct.data.images import require_vision

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
        n_images = write_findings(model, open_unlabelled(data, skip_bad), folder)
        written = f"{n_images} image{'' if n_images == 1 else 's'}"
        say(f"wrote the boxes of {written} to {folder}, with pictures of them in {folder / PICTURES}")

    def show_scores(self, scores: dict[str, Any]) -> None:
        commonest = f"({show_percent(scores['commonest'])} have the commonest label)"
        facts = [
            ("images", f"{scores['n_examples']}, {scores['n_with_boxes']} with true boxes"),
            ("labels right", f"{show_percent(scores['accuracy'])} {commonest}"),
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
        facts = [("labels right", show_percent(scores["accuracy"]))]
        if not scores["n_with_boxes"]:
            return facts
        return [*facts, ("CorLoc", show_percent(scores["corloc"])), ("middle box", describe_middle(scores))]

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        record, loss = model.record, model.estimator.task_.latent_loss
        kept = {name: value for name, value in model.features.state().items() if name not in ("format", "version")}
        return {"boxes": kept, "latent_loss": loss, "n_boxes": record.n_boxes, "n_left_out": record.n_left_out}

    def facts(self, result: dict[str, Any]) -> Facts:
        if "boxes" not in result:
            return []
        kept = result["boxes"]
        size = f"{kept['window']} × {kept['window']} pixels in cells of {kept['cell']} × {kept['cell']}"
        return [
            ("boxes", f"{result['n_boxes']}, at most {kept['limit']} an image, {kept['step']} pixels apart or more"),
            ("window", size),
            ("loss of boxes", str(result["latent_loss"] or "none")),
        ]


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


def describe_middle(scores: dict[str, Any]) -> str:
    """Return how good a box is that stands in the middle of each image, and whether predicted ones are better."""
    corloc, overlap = (scores["middle"][key] for key in ("corloc", "mean_overlap"))
    told = (
        f"CorLoc {show_percent(corloc)}, mean overlap {show_percent(overlap)}, by a box of "
        f"{100 * MIDDLE:.0f} % of width and height in the middle of each image"
    )
    better = scores["corloc"] > corloc and scores["mean_overlap"] > overlap
    return told if better else f"{told}: those found are not better than this guess"


KIND = DetectKind()
