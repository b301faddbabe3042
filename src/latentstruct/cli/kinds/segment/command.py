"""Models that label the regions of images."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from latentstruct import tasks
from latentstruct.cli.declaring import argument, option
from latentstruct.cli.description import strongest
from latentstruct.cli.kind import LABEL_WEIGHTS, Facts, KindSpec, Loaded, Record, Trained
from latentstruct.cli.lazy import image_files, patches
from latentstruct.cli.options import HeldOut, ImageOptions
from latentstruct.core.lazy import LazyModule, np
from latentstruct.io.text import write_text
from latentstruct.progress.display import Progress, print_table, show_share

if TYPE_CHECKING:
    from latentstruct.cli.kinds.segment.files import Judged, LabeledImages

labeled = LazyModule("latentstruct.cli.kinds.segment.files")

LEGEND_FILE, OVERLAYS = "legend.tsv", "overlays"
STALLED = "stalled"
"""Stop reason where belief propagation is too inexact to find a better objective, which is usual on grids."""
MAX_ITERATIONS, MAX_ENTRIES = 50, 2**12


ESTIMATORS = {"marginal": "MarginalSSVM", "latent": "LatentSSVM", "crf": "HiddenCRF"}


@dataclass(frozen=True, kw_only=True)
class SegmentOptions(ImageOptions):
    """Train on images with label images: PNG with a palette, grays or colors, of which one may mean unknown.

    Both may be in one folder or zip archive, in its folders images and labels.

    Patches in a grid over the image get texture words and colors as features; neighbors influence each other.

    Example: latentstruct train segment photos masks -o model; latentstruct predict model new -o predicted
    """

    labels: str | None = argument(
        "Folder or zip archive of label images with the same names; without it, DATA has folders images and labels.",
        None,
        "in DATA",
    )
    model: Literal["marginal", "latent", "crf"] = option(
        "marginal", "Unknown labels are summed out (marginal, crf) or maximized over (latent).", metavar="NAME"
    )
    unknown: str | None = option(
        None, "Label of unknown pixels; none if all are known.", metavar="MARK", shown="0 or #000000"
    )
    patch: int = option(20, "Side of a patch in pixels, a multiple of 4.")
    step: int = option(10, "Distance of neighboring patches, a multiple of a quarter of their side.", min=1)
    words: int = option(500, "Number of texture words.", min=1)
    names: str | None = option(
        None,
        "Names of labels, one per line, as 3 tree or #ff0000 car.",
        metavar="FILE",
        shown="names.txt among the label images, if it exists",
    )

    def features(self) -> "patches.PatchFeatures":
        """Return the features to learn."""
        features = patches.PatchFeatures(self.patch, self.step, self.words, self.seed)
        features.check()
        return features


@dataclass(frozen=True, kw_only=True)
class SegmentRecord(Record):
    """The record of a model of images: its features and how label images are read.

    `labels` are those of label images, as `parse_label_image` numbers them, `names` their names; `unknown` is the label
    of unknown pixels, −1 if all are known; `other_names` has the names of labels the model does not know.
    """

    features: dict[str, Any]
    labels: list[int]
    names: list[str]
    unknown: int
    n_patches: int
    other_names: dict[str, str] = field(default_factory=dict)

    @property
    def colors(self) -> bool:
        """Whether labels are colors."""
        return self.labels[0] >= image_files.MAX_LABELS

    def called(self) -> dict[str, str]:
        """Return the names of labels."""
        return self.other_names | dict(zip(map(image_files.label_name, self.labels), self.names, strict=True))


class SegmentKind(KindSpec):
    """Labels of the regions of images."""

    name = "segment"
    summary = "Label the regions of images."
    latent = "the labels of unknown pixels"
    reads = (
        "A folder or zip archive with the folders images and labels, or one for each; label images are PNG with the "
        "same names, 0 is unknown; names.txt among them may have the names of labels."
    )
    example_file = "segment.zip"
    prediction_file = "predicted"
    predicts = (
        "Images: DATA is a folder, zip archive or image, FILE a folder for label images and pictures in overlays."
    )
    judged_by = "Images: accuracy of pixels and intersection over union, overall and per label."
    options = SegmentOptions
    record = SegmentRecord
    tasks = ("Graph",)
    features = "features.images.PatchFeatures"
    judged_on = frozenset({"data", "labels", "allow_unknown"})
    folder_mark = LEGEND_FILE
    evaluation_hint = "Pass images as `data` and label images as `labels`, or `data` with both."
    score_facts = (
        ("pixels", "{n_pixels} known, {accuracy:%} correct"),
        ("images", "{n_examples}, {image_accuracy:%} correct on average (standard error {image_accuracy_se:%})"),
        ("mean over labels", "{mean_accuracy:%} correct"),
        ("mean overlap", "{mean_iou:%} (intersection over union)"),
    )
    headline = (("accuracy", "accuracy"), ("mean overlap", "mean_iou"))
    main = ("accuracy",)
    tables = (LABEL_WEIGHTS,)
    expected_stops = (STALLED,)
    described = ("features.patch", "features.step", "record.n_patches", "record.names")
    info_facts = (
        ("patches", "{n_patches}: {patch} × {patch} pixels every {step}, {n_words} texture words"),
        ("names", "{names}"),
    )

    def load(self, options: SegmentOptions, progress: Progress) -> Loaded:
        image_files.require_vision()
        features = options.features()
        files = labeled.LabeledImages.open(options.data, options.labels, options.unknown)
        called = files.names_beside() if options.names is None else image_files.read_label_names(options.names)
        data = labeled.read_patches(files, features, progress)
        record = SegmentRecord(
            features=features.to_state(),
            labels=data.labels,
            names=[called.get(code, image_files.label_name(code)) for code in data.labels],
            unknown=files.unknown,
            n_patches=data.n_patches,
            n_examples=len(data.X),
            other_names={
                image_files.label_name(code): text for code, text in called.items() if code not in data.labels
            },
        )
        sizes = {"n_examples": len(data.X), "n_patches": data.n_patches, "n_features": features.n_features_}
        sizes["n_labels"] = len(data.labels)
        task = tasks.Graph(max_iterations=MAX_ITERATIONS, max_entries=MAX_ENTRIES)
        estimator = options.build(ESTIMATORS[options.model], task, random_state=options.seed)
        C = 1.0 if options.chooses_C else options.C
        first = {"coef_init": patches.single_patch_weights(task, data.X, data.Y, C)}
        return Loaded(data.X, data.Y, estimator, sizes, record, features, shown=files, fit_params=first)

    def fits(self, model: Trained) -> bool:
        record = model.record
        same = bool(record.labels) and len(record.labels) == len(record.names)
        return same and set(record.labels) == set(model.estimator.task_.layout_.vocabulary.labels)

    def known_labels(self, estimator: Any) -> frozenset[Any]:
        # Label images are compared with the record, which has their labels as numbers.
        return frozenset()

    def read(self, model: Trained, held_out: HeldOut) -> "LabeledImages":
        data = labeled.LabeledImages.open_as(model.record, held_out.data or "", held_out.labels)
        labeled.check_held_out(data, model, held_out.allow_unknown)
        return data

    def choose(self, data: "LabeledImages", rows: Sequence[int]) -> "LabeledImages":
        names = list(data.images)
        return replace(data, chosen=[names[i] for i in rows])

    def find(self, model: Trained, data: "LabeledImages") -> "Judged":
        return labeled.judge(model, data)

    def compare(self, model: Trained, data: "LabeledImages", found: "Judged") -> dict[str, Any]:
        return found.scores

    def predict(self, model: Trained, data: str, output: str) -> None:
        from PIL import Image

        image_files.require_vision()
        folder, record = Path(output), model.record
        files, colors = labeled.open_images(data), image_files.label_colors(record.labels)
        (folder / OVERLAYS).mkdir(parents=True, exist_ok=True)
        counts = dict.fromkeys(record.labels, 0)
        legend = "label\tname\tcolor\tpixels\n"
        write_text(folder / LEGEND_FILE, legend)
        for name, image, labels in labeled.predict_pixels(model, files):
            places = np.searchsorted(record.labels, labels)
            for code, count in zip(*np.unique(labels, return_counts=True), strict=True):
                counts[int(code)] += int(count)
            image_files.write_label_image(folder / f"{name}.png", places, record.labels)
            picture = image_files.draw_overlay(image, places, record.names, colors)
            Image.fromarray(picture).save(folder / OVERLAYS / f"{name}.png")
        for code, shown, color in zip(record.labels, record.names, colors, strict=True):
            legend += f"{image_files.label_name(code)}\t{shown}\t#{bytes(color).hex()}\t{counts[code]}\n"
        write_text(folder / LEGEND_FILE, legend)

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        rows = []
        for one in scores["classes"]:
            shares = map(show_share, (one["accuracy"], one["iou"]))
            rows.append([one["name"], one["label"], *shares, str(one["n_true"]), str(one["n_predicted"])])
        print_table("labels", ("name", "label", "accuracy", "overlap", "true pixels", "predicted"), rows, n_text=2)

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        record, features, task = model.record, model.features, model.estimator.task_
        names = dict(zip(record.labels, record.names, strict=True))
        shown = [names[code] for code in task.layout_.vocabulary.labels]
        values = task.node_weights(model.estimator.coef_).ravel()
        n = len(shown)
        return {
            **super().describe(model, top),
            "n_words": len(features.codebook_),
            "weights": strongest(
                values, top, lambda k: {"feature": features.feature_name(k // n), "label": shown[k % n]}
            ),
        }

    def training_facts(self, result: dict[str, Any]) -> Facts:
        note = "no step decreases the objective further, which is usual for approximate inference"
        return [("note", note)] if result["stop_reason"] == STALLED else []


KIND = SegmentKind()
