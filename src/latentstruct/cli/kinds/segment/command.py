"""Models that label the regions of images."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from latentstruct.cli.common import STANDARD_STREAM, check_folder
from latentstruct.cli.description import largest
from latentstruct.cli.kind import Facts, KindSpec, Loaded, Record, Trained
from latentstruct.cli.options import HeldOut, ImageOptions
from latentstruct.exceptions import InputError
from latentstruct.progress.display import Progress, print_table, show_share

if TYPE_CHECKING:
    from latentstruct.cli.kinds.segment.files import LabelledImages
    from latentstruct.features.images import PatchFeatures

LEGEND_FILE, OVERLAYS = "legend.tsv", "overlays"
STALLED = "stalled"
"""Why training ends where belief propagation is too rough to tell a better objective, as it often is on grids."""
MAX_ITERATIONS, MAX_ENTRIES = 50, 2**12


ESTIMATORS = {"marginal": "MarginalSSVM", "latent": "LatentSSVM", "crf": "HiddenCRF"}


@dataclass(frozen=True, kw_only=True)
class SegmentOptions(ImageOptions):
    """Train on images with label images: PNG with a palette, greys or colours, of which one may mean unknown.

    Both may lie in one folder or zip archive, in its folders images and labels.

    Patches in a grid over the image get texture words and colours as features; neighbours influence each other.

    Ctrl-C saves the best weights so far.

    Example: latentstruct train segment photos masks -o model; latentstruct predict model new -o predicted
    """

    labels: Annotated[
        str | None,
        Argument(
            metavar="LABELS",
            show_default="in DATA",
            help="The same of label images with the same names; without it, DATA has folders images and labels.",
        ),
    ] = None
    model: Annotated[
        Literal["marginal", "latent", "crf"],
        Option(
            metavar="NAME",
            help="Unknown labels are summed out (marginal), guessed (latent), or the likelihood is trained (crf).",
        ),
    ] = "marginal"
    unknown: Annotated[
        str | None,
        Option(metavar="MARK", show_default="0 or #000000", help="Label of unknown pixels; none if all count."),
    ] = None
    patch: Annotated[int, Option(help="Side of a patch in pixels, a multiple of 4.")] = 20
    step: Annotated[int, Option(min=1, help="Distance of neighbouring patches, a multiple of a quarter of it.")] = 10
    words: Annotated[int, Option(min=1, help="Texture words.")] = 500
    names: Annotated[
        str | None,
        Option(
            metavar="FILE",
            show_default="names.txt among the label images, if it is there",
            help="Names of labels: a line such as 3 tree or #ff0000 car for each.",
        ),
    ] = None

    def features(self) -> "PatchFeatures":
        """Return the features to learn."""
        from latentstruct.features.images import PatchFeatures

        features = PatchFeatures(self.patch, self.step, self.words, self.seed)
        try:
            features.check()
        except InputError as error:
            raise InputError("--" + str(error).replace(": set ", ": set --")) from error
        return features


@dataclass(frozen=True, kw_only=True)
class SegmentRecord(Record):
    """What is kept beside a model of images: its features and how label images are read.

    `labels` are those of label images, as `parse_label_image` numbers them, `names` what people call them; `unknown`
    is the number of unknown pixels, −1 if all are known; `other_names` has the names of labels the model does not know.
    """

    features: dict[str, Any]
    labels: list[int]
    names: list[str]
    unknown: int
    n_patches: int
    other_names: dict[str, str] = field(default_factory=dict)

    @property
    def colours(self) -> bool:
        """Whether labels are colours."""
        from latentstruct.data.images import MAX_LABELS

        return self.labels[0] >= MAX_LABELS

    def called(self) -> dict[str, str]:
        """Return the names of labels as people write these."""
        from latentstruct.data.images import label_name

        return self.other_names | dict(zip(map(label_name, self.labels), self.names, strict=True))


class SegmentKind(KindSpec):
    """Labels of the regions of images."""

    name = "segment"
    summary = "Label the regions of images."
    latent = "the labels of pixels that are left unknown"
    reads = (
        "A folder or zip archive with the folders images and labels in it, or one of these for each; label images "
        "are PNG with the same names, 0 is unknown; names.txt among them may say what the others are called."
    )
    example_file = "segment.zip"
    prediction_file = "predicted"
    predicts = (
        "Images: DATA is a folder, zip archive or image, FILE a folder for label images and pictures in overlays."
    )
    judged_by = "Images: the share of pixels that are right, of each label and in all, and intersection over union."
    options = SegmentOptions
    record = SegmentRecord
    tasks = ("Graph",)
    judged_on = frozenset({"data", "labels", "allow_unknown"})
    evaluation_hint = "give images and label images, as latentstruct evaluate MODEL DATA LABELS, or DATA with both"
    score_facts = (
        ("pixels", "{n_pixels} known, {accuracy:%} right"),
        ("images", "{n_examples}, {image_accuracy:%} right in the mean (standard error {image_accuracy_se:%})"),
        ("mean of labels", "{mean_accuracy:%} right"),
        ("mean overlap", "{mean_iou:%} (intersection over union)"),
    )
    headline = (("accuracy", "accuracy"), ("mean overlap", "mean_iou"))
    main = ("accuracy",)
    tables = (("weights", "strongest weights", ("feature", "label", "weight")),)
    expected_stops = (STALLED,)

    def load(self, options: SegmentOptions, progress: Progress) -> Loaded:
        from latentstruct.cli.kinds.segment.files import LabelledImages, read_patches
        from latentstruct.data.images import label_name, read_label_names, require_vision
        from latentstruct.features.images import single_patch_weights
        from latentstruct.tasks import Graph

        require_vision()
        features = options.features()
        files = LabelledImages.open(options.data, options.labels, options.unknown)
        called = files.names_beside() if options.names is None else read_label_names(options.names)
        data = read_patches(files, features, progress)
        record = SegmentRecord(
            features=features.state(),
            labels=data.labels,
            names=[called.get(code, label_name(code)) for code in data.labels],
            unknown=files.unknown,
            n_patches=data.n_patches,
            n_examples=len(data.X),
            other_names={label_name(code): text for code, text in called.items() if code not in data.labels},
        )
        sizes = {"n_examples": len(data.X), "n_patches": data.n_patches, "n_features": features.n_features_}
        sizes["n_labels"] = len(data.labels)
        task = Graph(max_iterations=MAX_ITERATIONS, max_entries=MAX_ENTRIES)
        estimator = options.build(ESTIMATORS[options.model], task, random_state=options.seed)
        first = {"coef_init": single_patch_weights(task, data.X, data.Y, options.C)}
        return Loaded(data.X, data.Y, estimator, sizes, record, features, shown=files, fit_params=first)

    def fits(self, model: Trained) -> bool:
        record = model.record
        same = bool(record.labels) and len(record.labels) == len(record.names)
        return same and set(record.labels) == set(model.estimator.task_.layout_.vocabulary.labels)

    def restore(self, model: Trained) -> "PatchFeatures":
        from latentstruct.features.images import PatchFeatures

        found: PatchFeatures = model.restored(PatchFeatures().restore)
        return found

    def read(self, model: Trained, held_out: HeldOut) -> "LabelledImages":
        from latentstruct.cli.kinds.segment.files import LabelledImages, check_held_out

        data = LabelledImages.open_as(model.record, held_out.data or "", held_out.labels)
        check_held_out(data, model, held_out.allow_unknown)
        return data

    def score(self, model: Trained, data: "LabelledImages") -> dict[str, Any]:
        from latentstruct.cli.kinds.segment.files import score_segments

        return score_segments(model, data)

    def input_files(self, data: str) -> Sequence[str | Path]:
        # What is written is a folder, which `predict` checks.
        return []

    def predict(self, model: Trained, data: str, output: str) -> None:
        import numpy as np
        from PIL import Image

        from latentstruct.cli.kinds.segment.files import open_images, predict_pixels
        from latentstruct.data.images import draw_overlay, label_colours, label_name, require_vision, write_label_image
        from latentstruct.io.text import write_text

        if output == STANDARD_STREAM:
            raise InputError("the output is - (standard output); expected a folder for label images: name it with -o")
        require_vision()
        folder, record = Path(output), model.record
        check_folder(folder, LEGEND_FILE, "label images go into a folder")
        files, colours = open_images(data), label_colours(record.labels)
        (folder / OVERLAYS).mkdir(parents=True, exist_ok=True)
        counts = dict.fromkeys(record.labels, 0)
        legend = "label\tname\tcolour\tpixels\n"
        write_text(folder / LEGEND_FILE, legend)
        for name, image, labels in predict_pixels(model, files):
            places = np.searchsorted(record.labels, labels)
            for code, count in zip(*np.unique(labels, return_counts=True), strict=True):
                counts[int(code)] += int(count)
            write_label_image(folder / f"{name}.png", places, record.labels)
            picture = draw_overlay(image, places, record.names, colours)
            Image.fromarray(picture).save(folder / OVERLAYS / f"{name}.png")
        for code, shown, colour in zip(record.labels, record.names, colours, strict=True):
            legend += f"{label_name(code)}\t{shown}\t#{bytes(colour).hex()}\t{counts[code]}\n"
        write_text(folder / LEGEND_FILE, legend)

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        rows = []
        for one in scores["classes"]:
            shares = map(show_share, (one["accuracy"], one["iou"]))
            rows.append([one["name"], one["label"], *shares, str(one["n_true"]), str(one["n_predicted"])])
        print_table("labels", ("name", "label", "right", "overlap", "true pixels", "predicted"), rows, n_text=2)

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        record, features, task = model.record, model.features, model.estimator.task_
        names = dict(zip(record.labels, record.names, strict=True))
        shown = [names[code] for code in task.layout_.vocabulary.labels]
        values = task.node_weights(model.estimator.coef_).ravel()
        n = len(shown)
        return {
            "patch": features.patch,
            "step": features.step,
            "n_words": len(features.codebook_),
            "n_patches": record.n_patches,
            "names": record.names,
            "weights": [
                {"feature": features.feature_name(k // n), "label": shown[k % n], "weight": float(values[k])}
                for k in largest(values, top)
            ],
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        if "patch" not in result:
            remark = "no step lowers the objective further, as is usual where inference is approximate"
            return [("remark", remark)] if result["stop_reason"] == STALLED else []
        size = f"{result['patch']} × {result['patch']} pixels every {result['step']}, {result['n_words']} texture words"
        return [("patches", f"{result['n_patches']}: {size}"), ("names", ", ".join(result["names"]))]


KIND = SegmentKind()
