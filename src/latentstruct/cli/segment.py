"""Models that label the regions of images."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct.cli.common import STANDARD_STREAM, check_folder, reported_errors
from latentstruct.cli.description import largest
from latentstruct.cli.label_images import (
    LabelledImages,
    check_held_out,
    open_images,
    predict_pixels,
    read_patches,
    score_segments,
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
    TolOption,
    UnknownOption,
    ValidLabelsOption,
    ValidOption,
    check_valid_labels,
)
from latentstruct.cli.training import Training, source_of
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, print_facts, print_table, show_percent, show_share

if TYPE_CHECKING:
    from latentstruct.image_features import PatchFeatures
    from latentstruct.report.blocks import Block, Examples

LEGEND_FILE, OVERLAYS = "legend.tsv", "overlays"
STALLED = "stalled"
"""Why training ends where belief propagation is too rough to tell a better objective, as it often is on grids."""
MAX_ITERATIONS, MAX_ENTRIES = 50, 2**12


class SegmentModel(StrEnum):
    """What to train."""

    marginal = "marginal"
    latent = "latent"
    crf = "crf"


@dataclass(frozen=True)
class SegmentRecord:
    """What the command keeps beside a model of images: its features and how label images are read.

    `labels` are those of label images, as `parse_label_image` numbers them, `names` what people call them; `unknown`
    is the number of unknown pixels, −1 if all are known; `other_names` has the names of labels the model does not know.
    """

    features: dict[str, Any]
    labels: list[int]
    names: list[str]
    unknown: int
    n_patches: int
    n_examples: int
    seconds: float
    other_names: dict[str, str] = field(default_factory=dict)
    kind: Literal["segment"] = "segment"

    @property
    def colours(self) -> bool:
        """Whether labels are colours."""
        from latentstruct.images import MAX_LABELS

        return self.labels[0] >= MAX_LABELS

    def called(self) -> dict[str, str]:
        """Return the names of labels as people write these."""
        from latentstruct.images import label_name

        return self.other_names | dict(zip(map(label_name, self.labels), self.names, strict=True))


SegmentModelOption = Annotated[
    SegmentModel,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Unknown labels are summed out (marginal), guessed (latent), or the likelihood is trained (crf).",
    ),
]
UnknownLabelOption = Annotated[
    str | None,
    typer.Option(metavar="MARK", show_default="0 or #000000", help="Label of unknown pixels; none if all count."),
]
NamesOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        show_default="names.txt among the label images, if it is there",
        help="Names of labels: a line such as 3 tree or #ff0000 car for each.",
    ),
]


@reported_errors()
def train_segment(
    images: Annotated[
        str, typer.Argument(metavar="DATA", help="Folder or zip archive of images; - is one on standard input.")
    ],
    labels: Annotated[
        str | None,
        typer.Argument(
            metavar="LABELS",
            show_default="in DATA",
            help="The same of label images with the same names; without it, DATA has folders images and labels.",
        ),
    ] = None,
    output: OutputOption = Path("model"),
    model: SegmentModelOption = SegmentModel.marginal,
    C: Annotated[float, typer.Option("-C", metavar="NUMBER", help="Weight of each image against ½‖w‖².")] = 1.0,
    unknown: UnknownLabelOption = None,
    patch: Annotated[int, typer.Option(help="Side of a patch in pixels, a multiple of 4.")] = 20,
    step: Annotated[
        int, typer.Option(min=1, help="Distance of neighbouring patches, a multiple of a quarter of it.")
    ] = 10,
    words: Annotated[int, typer.Option(min=1, help="Texture words.")] = 500,
    names: NamesOption = None,
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
    """Train on images with label images: PNG with a palette, greys or colours, of which one may mean unknown.

    Both may lie in one folder or zip archive, in its folders images and labels.

    Patches in a grid over the image get texture words and colours as features; neighbours influence each other.

    Ctrl-C saves the best weights so far.

    Example: latentstruct train segment photos masks -o model; latentstruct predict model new -o predicted
    """
    from latentstruct.image_features import PatchFeatures, single_patch_weights
    from latentstruct.images import label_name, read_label_names, require_vision
    from latentstruct.tasks import Graph

    choices = LatentChoices(output, C, tol, max_rounds, max_seconds, seed)
    choices.check(images, labels, valid, valid_labels)
    check_valid_labels(valid, valid_labels)
    require_vision()
    progress = Progress(quiet, n_starts=1)
    features = PatchFeatures(patch, step, words, seed)
    check_patches(features)
    files = LabelledImages.open(images, labels, unknown)
    called = files.names_beside() if names is None else read_label_names(names)
    data = read_patches(files, features, progress)

    def record(_: Any, seconds: float) -> SegmentRecord:
        shown = [called.get(code, default) for code, default in zip(data.labels, data.label_names, strict=True)]
        others = {label_name(code): text for code, text in called.items() if code not in data.labels}
        sizes = (data.n_patches, len(data.X))
        return SegmentRecord(features.state(), data.labels, shown, data.unknown, *sizes, seconds, others)

    score, shown = None, files
    if valid is not None:
        preliminary = record(None, 0.0)
        shown = LabelledImages.open_as(preliminary, valid, valid_labels)
        check_held_out(shown, features, preliminary, allow_unknown)

        def score(estimator: Any) -> dict[str, Any]:
            return score_segments(estimator, features, preliminary, shown)

    def examples(trained: Trained) -> "Examples":
        return SegmentKind().examples(trained, shown, source_of(valid, images))

    sizes = {"n_examples": len(data.X), "n_patches": data.n_patches, "n_features": features.n_features_}
    sizes["n_labels"] = len(data.labels)
    task = Graph(max_iterations=MAX_ITERATIONS, max_entries=MAX_ENTRIES)
    estimator = make_estimator(model, task, choices)
    training = Training(SegmentKind(), output, estimator, data.X, data.Y, sizes, record, score)
    training.fit_params = {"coef_init": single_patch_weights(task, data.X, data.Y, C)}
    training.expected_stops = frozenset({STALLED})
    training.report, training.examples = report, examples
    training.run(progress, json)


def check_patches(features: "PatchFeatures") -> None:
    """Raise, in the words of the command, unless the sizes of patches fit together."""
    try:
        features.check()
    except InputError as error:
        raise InputError("--" + str(error).replace(": set ", ": set --")) from error


def make_estimator(model: SegmentModel, task: Any, choices: LatentChoices) -> Any:
    """Return the untrained estimator."""
    from latentstruct import estimators

    kinds = {
        SegmentModel.marginal: estimators.MarginalSSVM,
        SegmentModel.latent: estimators.LatentSSVM,
        SegmentModel.crf: estimators.HiddenCRF,
    }
    common: dict[str, Any] = {"C": choices.C, "tol": choices.tol, "random_state": choices.seed}
    return kinds[model](task, max_rounds=choices.max_rounds, max_seconds=choices.max_seconds, **common)


def restore_features(model: Trained) -> "PatchFeatures":
    """Return the features a model was trained with."""
    from latentstruct.image_features import PatchFeatures

    found: PatchFeatures = model.restored(PatchFeatures().restore)
    return found


class SegmentKind(Kind):
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
    record = SegmentRecord
    train = staticmethod(train_segment)
    judged_on = frozenset({"data", "labels", "allow_unknown"})
    evaluation_hint = "give images and label images, as latentstruct evaluate MODEL DATA LABELS, or DATA with both"

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks import Graph

        record, task = model.record, model.estimator.task_
        same = bool(record.labels) and len(record.labels) == len(record.names)
        return isinstance(task, Graph) and same and set(record.labels) == set(task.layout_.vocabulary.labels)

    def input_files(self, data: str) -> Sequence[str | Path]:
        """Return nothing: what is written is a folder, which `predict` checks."""
        return []

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write a label image of each image, a picture with the labels over it, and a table of the labels."""
        from latentstruct.formats.text import write_text
        from latentstruct.images import label_name, require_vision

        if output == STANDARD_STREAM:
            raise InputError("the output is - (standard output); expected a folder for label images: name it with -o")
        require_vision()
        folder = Path(output)
        check_folder(folder, LEGEND_FILE, "label images go into a folder")
        files, features, record = open_images(data), restore_features(model), model.record
        (folder / OVERLAYS).mkdir(parents=True, exist_ok=True)
        counts = dict.fromkeys(record.labels, 0)
        write_text(folder / LEGEND_FILE, "label\tname\tcolour\tpixels\n")
        for name, image, labels in predict_pixels(model.estimator, features, files):
            self._write(folder, name, image, labels, record, counts)
        rows = [
            f"{label_name(code)}\t{shown}\t{colour}\t{counts[code]}\n"
            for code, shown, colour in zip(record.labels, record.names, shown_colours(record), strict=True)
        ]
        write_text(folder / LEGEND_FILE, "label\tname\tcolour\tpixels\n" + "".join(rows))

    def _write(
        self, folder: Path, name: str, image: Any, labels: Any, record: SegmentRecord, counts: dict[int, int]
    ) -> None:
        import numpy as np
        from PIL import Image

        from latentstruct.images import draw_overlay, label_colours, write_label_image

        places = np.searchsorted(record.labels, labels)
        for code, count in zip(*np.unique(labels, return_counts=True), strict=True):
            counts[int(code)] += int(count)
        write_label_image(folder / f"{name}.png", places, record.labels)
        picture = draw_overlay(image, places, record.names, label_colours(record.labels))
        Image.fromarray(picture).save(folder / OVERLAYS / f"{name}.png")

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return accuracy and overlap of the predicted labels."""
        data = self.read_held_out(model, held_out)
        return score_segments(model.estimator, restore_features(model), model.record, data)

    def read_held_out(self, model: Trained, held_out: HeldOut) -> LabelledImages:
        """Return images with label images, which are read again where they are looked at."""
        data = LabelledImages.open_as(model.record, held_out.data or "", held_out.labels)
        check_held_out(data, restore_features(model), model.record, held_out.allow_unknown)
        return data

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return what speaks for each label, and which labels lie beside each other."""
        from latentstruct.cli.reports.segment import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: LabelledImages, source: str) -> "Examples":
        """Return predicted labels of images."""
        from latentstruct.cli.reports.segment import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print accuracies and a table of the labels."""
        spread = scores["image_accuracy_se"]
        print_facts(
            [
                ("pixels", f"{scores['n_pixels']} known, {show_percent(scores['accuracy'])} right"),
                (
                    "images",
                    f"{scores['n_examples']}, {show_percent(scores['image_accuracy'])} right in the mean"
                    + ("" if spread is None else f" (standard error {show_percent(spread)})"),
                ),
                ("mean of labels", f"{show_percent(scores['mean_accuracy'])} right"),
                ("mean overlap", f"{show_percent(scores['mean_iou'])} (intersection over union)"),
            ]
        )
        rows = []
        for one in scores["classes"]:
            shares = map(show_share, (one["accuracy"], one["iou"]))
            rows.append([one["name"], one["label"], *shares, str(one["n_true"]), str(one["n_predicted"])])
        print_table("labels", ("name", "label", "right", "overlap", "true pixels", "predicted"), rows, n_text=2)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return accuracy and mean overlap."""
        return [("accuracy", show_percent(scores["accuracy"])), ("mean overlap", show_percent(scores["mean_iou"]))]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the accuracy."""
        value: float = scores["accuracy"]
        return value

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return the patches, the labels and the strongest weights."""
        features, estimator = restore_features(model), model.estimator
        names = dict(zip(model.record.labels, model.record.names, strict=True))
        shown = [names[code] for code in estimator.task_.layout_.vocabulary.labels]
        values = estimator.task_.node_weights(estimator.coef_)
        n = len(shown)
        strongest = [
            {"feature": features.feature_name(k // n), "label": shown[k % n], "weight": float(values.ravel()[k])}
            for k in largest(values.ravel(), top)
        ]
        return {
            "patch": features.patch,
            "step": features.step,
            "n_words": len(features.codebook_),
            "n_patches": model.record.n_patches,
            "names": model.record.names,
            "weights": strongest,
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return patches and names of the labels."""
        if "patch" not in result:
            remark = "no step lowers the objective further, as is usual where inference is approximate"
            return [("remark", remark)] if result["stop_reason"] == STALLED else []
        size = f"{result['patch']} × {result['patch']} pixels every {result['step']}, {result['n_words']} texture words"
        return [("patches", f"{result['n_patches']}: {size}"), ("names", ", ".join(result["names"]))]

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the strongest weights."""
        rows = [(one["feature"], one["label"], f"{one['weight']:+.4f}") for one in result["weights"]]
        print_table("strongest weights", ("feature", "label", "weight"), rows, n_text=2)


def shown_colours(record: SegmentRecord) -> list[str]:
    """Return the colours of the labels in predicted label images."""
    from latentstruct.images import label_colours

    return ["#{:02x}{:02x}{:02x}".format(*colour) for colour in label_colours(record.labels)]
