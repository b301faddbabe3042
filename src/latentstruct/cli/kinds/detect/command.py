"""Models that find the object of an image, trained on labels of whole images."""

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from latentstruct import tasks
from latentstruct.cli.common import check_folder
from latentstruct.cli.declaring import argument, option, skip_bad_option
from latentstruct.cli.kind import Facts, KindSpec, Loaded, Record, Trained
from latentstruct.cli.lazy import box_features, image_files
from latentstruct.cli.options import HeldOut, ImageOptions
from latentstruct.core.formatting import counted
from latentstruct.core.lazy import LazyModule
from latentstruct.exceptions import InputError
from latentstruct.progress.display import SECONDS_BETWEEN_STEPS, Progress, print_table, say, show_percent, show_share
from latentstruct.progress.eta import describe_share

if TYPE_CHECKING:
    from latentstruct.cli.kinds.detect.files import Photographs
    from latentstruct.cli.kinds.detect.findings import Judged

photographs = LazyModule("latentstruct.cli.kinds.detect.files")
findings = LazyModule("latentstruct.cli.kinds.detect.findings")
PREDICTIONS_FILE, PICTURES, CASES_FILE = "predictions.json", "pictures", "cases.tsv"
MIDDLE = 0.75
"""Fraction of width and height of the central box that predictions are compared with."""
LABELS_SHOWN = 12
"""Number of classes up to which the confusion matrix is shown."""


ESTIMATORS = {"modlat": "ModLat", "iterative": "IterativeLSVM", "latent": "LatentSSVM"}


@dataclass(frozen=True, kw_only=True)
class DetectOptions(ImageOptions):
    """Learn to find objects from labels of whole images, without boxes.

    Candidate boxes, in a grid over the image or around its segments, have as features histograms of gradients or given
    ones, their position and size, and how well they enclose what stands out.

    The labels are the table labels.csv in the folder or archive, or LABELS. Boxes are read from the labels of --valid
    only, to evaluate.

    An image has one label; one whose objects have several is an error, or left out with --skip-bad.

    Example: latentstruct train detect photos labels.csv -o model; latentstruct predict model new -o found
    """

    only_for = (("loss", ("modlat", "iterative")),)

    labels: str | None = argument(
        "Table with the header file,label; or COCO JSON; or a folder of VOC XML. Its boxes are not used.",
        None,
        "labels.csv in DATA",
    )
    model: Literal["modlat", "iterative", "latent"] = option(
        "modlat",
        "modlat: a distribution over boxes; iterative: boxes are guessed and then fixed; latent: boxes only serve to "
        "predict the label.",
        metavar="NAME",
    )
    loss: Literal["overlap", "zero-one"] | None = option(
        None,
        "Loss of a box: overlap, 1 − intersection over union, or zero-one. Not for latent.",
        metavar="NAME",
        shown="overlap",
        sets="latent_loss",
    )
    candidates: Literal["grid", "segments", "objects"] = option(
        "grid",
        "grid: boxes of several sizes and shapes; segments: boxes around regions of similar color and groups of them; "
        "objects: those of segments that most likely show an animal or a person, the best first.",
        metavar="NAME",
    )
    step: int = option(8, "Minimum distance of neighboring boxes of a grid in pixels.", min=1)
    boxes: int | None = option(
        None,
        "Maximum number of candidate boxes per image. With 1 no box is learned.",
        min=1,
        shown="350, or 1 for objects",
        sets="limit",
    )
    geometry: float = option(
        0.5, "Weight of the position and size of a box; 0 if objects are not mostly in the middle.", min=0.0
    )
    saliency: float = option(
        1.0,
        "Weight of how well a box encloses what differs from the border of the image; training begins at these "
        "boxes. 0 if objects do not stand out.",
        min=0.0,
    )
    features: Literal["gradients", "given"] = option(
        "gradients",
        "gradients: histograms of them; given: arrays boxes and features, or map, of NAME.npz beside each image, such "
        "as those of a network.",
        metavar="NAME",
    )
    cache: Path | None = option(
        None, "Folder that stores features for the next training.", metavar="FOLDER", shown="in the user's cache folder"
    )
    no_cache: bool = option(False, "Store no features.")
    skip_bad: bool = skip_bad_option()

    def held_out(self) -> HeldOut:
        return replace(super().held_out(), skip_bad=self.skip_bad)

    def limit(self) -> int:
        """Return the maximum number of candidates of an image."""
        if self.boxes is not None:
            return self.boxes
        return 1 if self.candidates == "objects" else 350

    def estimator(self) -> Any:
        """Return the untrained estimator."""
        chosen: Literal["overlap", "zero_one"] = "zero_one" if self.loss == "zero-one" else "overlap"
        task = tasks.Detection(latent_loss=None if self.model == "latent" else chosen)
        return self.build(ESTIMATORS[self.model], task, random_state=self.seed)


@dataclass(frozen=True, kw_only=True)
class DetectRecord(Record):
    """The record of a model of boxes: the features of boxes, and the sizes of the training data."""

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
        "which only evaluate uses."
    )
    example_file = "detect.zip"
    prediction_file = "predicted"
    predicts = (
        "Boxes: DATA as for images, FILE a folder for predictions.json, coco.json and pictures; a score is the margin "
        "of the label over the next."
    )
    judged_by = (
        "Boxes: accuracy of labels, CorLoc and that of the central box, 0/1 and overlap loss; LABELS as for training, "
        "with true boxes."
    )
    options = DetectOptions
    record = DetectRecord
    tasks = ("Detection",)
    features = "features.boxes.BoxFeatures"
    judged_on = frozenset({"data", "labels", "pictures", "skip_bad", "allow_unknown"})
    evaluation_hint = "Pass images as `data`, and labels as `labels` or as labels.csv in `data`."
    folder_mark = PREDICTIONS_FILE
    answers = frozenset({"skip_bad"})
    score_facts = (
        ("images", "{n_examples}, {n_with_boxes} with true boxes"),
        ("label accuracy", "{accuracy:%} ({commonest:%} for the most frequent label)"),
        ("CorLoc", "{corloc:%} (boxes that overlap a true one by at least half)"),
        ("mean overlap", "{mean_overlap:%}"),
        ("0/1 loss", "{zero_one:.4f} (label wrong, or another candidate better)"),
        ("overlap loss", "{overlap:.4f} (1 if the label is wrong)"),
    )
    headline = (("label accuracy", "accuracy"), ("CorLoc", "corloc"))
    main = ("accuracy",)
    per_example = ("names", "labels", "boxes", "described")
    tables = ()
    described = ("record.n_boxes", "record.n_left_out", "estimator.task_.latent_loss")
    info_facts = (
        ("boxes", "{n_boxes} ({boxes[candidates]}), at most {boxes[limit]} per image"),
        ("window", "{boxes[window]} × {boxes[window]} pixels in cells of {boxes[cell]} × {boxes[cell]}"),
        ("loss of boxes", "{latent_loss}"),
    )

    def load(self, options: DetectOptions, progress: Progress) -> Loaded:
        image_files.require_vision()
        if options.candidates != "grid":
            options.refuse("step", "unless --candidates is grid")
        cache = choose_cache(options.cache, options.no_cache)
        features = box_features.BoxFeatures(
            step=options.step,
            limit=options.limit(),
            geometry=options.geometry,
            candidates=options.candidates,
            saliency=options.saliency,
            cache=cache,
        )
        data = photographs.open_labeled(options.data, options.labels, options.skip_bad)
        data.check_classes()
        if options.features == "given":
            given = data.given(data.names[0])
            features.set_params(n_given=given.get("map", given.get("features")).shape[-1])
        progress.say(f"read {len(data)} images from {options.data}, of {data.describe_labels()}")
        data.warn_of_misspellings()
        record = DetectRecord(features={}, n_boxes=0, n_left_out=data.n_left_out, n_examples=len(data))
        labels = frozenset(data.labels)
        return Loaded(None, data.labels, options.estimator(), {}, record, features, labels, data)

    def encode(self, loaded: Loaded, progress: Progress) -> Loaded:
        features, data = loaded.features, loaded.shown
        X: list[Any] = []
        began = said = time.perf_counter()
        for name, image in zip(data.names, data.images(), strict=True):
            X.append(data.describe(features, name, image))
            if time.perf_counter() - said >= SECONDS_BETWEEN_STEPS:
                said = time.perf_counter()
                progress.say(f"computed features of {describe_share(len(X), len(data), 'images', said - began)}")
        n_boxes = sum(len(x.boxes) for x in X)
        sizes = {"n_examples": len(X), "n_boxes": n_boxes, "n_features": features.n_features_}
        sizes["n_labels"] = len(loaded.labels)
        record = replace(loaded.record, features=features.to_state(), n_boxes=n_boxes)
        first = features.initial_latents(X)
        given = {} if first is None else {"H": first}
        return replace(loaded, X=X, sizes=sizes, record=record, shown=replace(data, described=X), fit_params=given)

    def fits(self, model: Trained) -> bool:
        return len(model.estimator.classes_) > 1

    def known_labels(self, estimator: Any) -> frozenset[Any]:
        return frozenset(str(label) for label in estimator.classes_)

    def read(self, model: Trained, held_out: HeldOut) -> "Photographs":
        data = photographs.open_labeled(held_out.data or "", held_out.labels, held_out.skip_bad)
        data.check_known(model.labels, held_out.allow_unknown)
        return data

    def find(self, model: Trained, data: "Photographs") -> "Judged":
        return findings.judge(model, data)

    def compare(self, model: Trained, data: "Photographs", found: "Judged") -> dict[str, Any]:
        return findings.score_findings(data, found)

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        if held_out.pictures is None:
            return super().evaluate(model, held_out)
        pictures = Path(held_out.pictures)
        check_folder(pictures, CASES_FILE, "pictures")
        data = self.read(model, held_out)
        found = findings.judge_with_pictures(model, data, pictures)
        say(f"wrote pictures of {len(data)} images and {CASES_FILE} to {pictures}")
        return found

    def predict(self, model: Trained, data: str, output: str) -> None:
        image_files.require_vision()
        folder = Path(output)
        if (folder / PICTURES).exists() and not (folder / PICTURES).is_dir():
            raise InputError("output", output, "a folder without a file of this name", f"{PICTURES} is a file.")
        n_images = findings.write_findings(model, photographs.open_unlabeled(data, model.answers.skip_bad), folder)
        written = counted(n_images, "image")
        say(f"wrote the boxes of {written} to {folder}, with pictures of them in {folder / PICTURES}")

    def score_lines(self, scores: dict[str, Any]) -> Facts:
        return [*super().score_lines(scores), *middle_facts(scores)]

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        rows = []
        for one in scores["classes"]:
            shares = [show_share(one[key]) for key in ("accuracy", "corloc", "mean_overlap")]
            rows.append([one["label"], *shares, str(one["n_true"]), str(one["n_predicted"])])
        print_table("labels", ("label", "accuracy", "CorLoc", "mean overlap", "true", "predicted"), rows)
        names = list(scores["confusion"])
        if len(names) <= LABELS_SHOWN:
            counts = [[label, *(str(scores["confusion"][label][guess]) for guess in names)] for label in names]
            print_table("confusion matrix", ("true / predicted", *names), counts)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        return [*super().summarize(scores), *middle_facts(scores)]

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        kept = {name: value for name, value in model.features.to_state().items() if name != "format"}
        return {"boxes": kept, **super().describe(model, top)}


def choose_cache(cache: Path | None, no_cache: bool) -> Path | None:
    """Return the folder that stores features, None for none."""
    if no_cache:
        if cache is not None:
            raise InputError("no_cache", True, "left out with `cache`")
        return None
    if cache is not None:
        check_folder(cache, parameter="cache")
        return cache
    variable = os.environ.get("XDG_CACHE_HOME", "")
    # The standard of the variable ignores relative paths.
    home = Path(variable) if os.path.isabs(variable) else Path.home() / ".cache"
    folder = home / "latentstruct" / "boxes"
    try:
        check_folder(folder, parameter="cache")
    except InputError as error:
        say(f"features are not stored for the next training: {error.render({'cache': '--cache'}.get)}")
        return None
    return folder


def middle_facts(scores: dict[str, Any]) -> Facts:
    """Return how good the central box of each image is, if boxes are known, and whether predicted boxes are better."""
    if not scores["n_with_boxes"]:
        return []
    corloc, overlap = (scores["middle"][key] for key in ("corloc", "mean_overlap"))
    size = f"{100 * MIDDLE:.0f} % of width and height in the middle of each image"
    shown = f"CorLoc {show_percent(corloc)}, mean overlap {show_percent(overlap)}, for a box of {size}"
    better = scores["corloc"] > corloc and scores["mean_overlap"] > overlap
    return [("central box", shown if better else f"{shown}: the predictions are not better")]


KIND = DetectKind()
