"""Models that label the regions of images."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct.cli.common import STANDARD_STREAM, check_folder, list_labels, reported_errors, unknown_label
from latentstruct.cli.description import largest
from latentstruct.cli.kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.options import (
    DescentRoundsOption,
    DescentTolOption,
    JsonOption,
    LatentChoices,
    OutputOption,
    QuietOption,
    SecondsOption,
    SeedOption,
    UnknownOption,
)
from latentstruct.cli.training import Training
from latentstruct.exceptions import FormatError, InputError
from latentstruct.progress import Progress, print_facts, print_table, show_percent

if TYPE_CHECKING:
    from latentstruct.image_features import PatchFeatures
    from latentstruct.images import ImageFiles

LEGEND_FILE, OVERLAYS = "legend.tsv", "overlays"
STALLED = "stalled"
"""Why training ends where belief propagation is too rough to tell a better objective, as it often is on grids."""
MAX_ITERATIONS, MAX_ENTRIES = 50, 2**12
AT_ONCE = 16
"""Images that are predicted together."""


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
    typer.Option(metavar="LABEL", show_default="0 or #000000", help="Label of unknown pixels; none if all count."),
]
NamesOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="Names of labels: a line such as 3 tree or #ff0000 car for each.")
]
ValidImagesOption = Annotated[
    tuple[str, str] | None,
    typer.Option("--valid", metavar="IMAGES LABELS", help="Held-out data to evaluate on afterwards."),
]


@reported_errors()
def train_segment(
    images: Annotated[str, typer.Argument(metavar="IMAGES", help="Folder or zip archive of images.")],
    labels: Annotated[str, typer.Argument(metavar="LABELS", help="The same of label images with the same names.")],
    output: OutputOption = Path("model"),
    model: SegmentModelOption = SegmentModel.marginal,
    C: Annotated[float, typer.Option("-C", metavar="NUMBER", help="Weight of each image against ½‖w‖².")] = 1.0,
    unknown: UnknownLabelOption = None,
    patch: Annotated[int, typer.Option(help="Side of a patch in pixels, a multiple of 4.")] = 20,
    step: Annotated[int, typer.Option(help="Distance of neighbouring patches, a multiple of a quarter of it.")] = 10,
    words: Annotated[int, typer.Option(min=1, help="Texture words.")] = 500,
    names: NamesOption = None,
    valid: ValidImagesOption = None,
    tol: DescentTolOption = None,
    max_rounds: DescentRoundsOption = None,
    max_seconds: SecondsOption = None,
    allow_unknown: UnknownOption = False,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Train on images with label images: PNG with a palette, greys or colours, of which one may mean unknown.

    Patches in a grid over the image get texture words and colours as features; neighbours influence each other.

    Ctrl-C saves the best weights so far.

    Example: latentstruct train segment photos masks -o model; latentstruct predict model new -o predicted
    """
    from latentstruct.image_features import PatchFeatures, single_patch_weights
    from latentstruct.images import label_name, read_label_names, require_vision
    from latentstruct.tasks import Graph

    choices = LatentChoices(output, C, tol, max_rounds, max_seconds, seed)
    choices.check()
    require_vision()
    progress = Progress(quiet, n_starts=1)
    features = PatchFeatures(patch, step, words, seed)
    check_patches(features)
    called = {} if names is None else read_label_names(names)
    data = read_patches(LabelledImages.open(images, labels, unknown), features, progress)

    def record(_: Any, seconds: float) -> SegmentRecord:
        shown = [called.get(code, default) for code, default in zip(data.labels, data.label_names, strict=True)]
        others = {label_name(code): text for code, text in called.items() if code not in data.labels}
        sizes = (data.n_patches, len(data.X))
        return SegmentRecord(features.state(), data.labels, shown, data.unknown, *sizes, seconds, others)

    score = None
    if valid is not None:
        preliminary = record(None, 0.0)
        held_out = LabelledImages.open_as(preliminary, *valid)
        check_held_out(held_out, features, preliminary, allow_unknown)

        def score(estimator: Any) -> dict[str, Any]:
            return score_segments(estimator, features, preliminary, held_out)

    sizes = {"n_examples": len(data.X), "n_patches": data.n_patches, "n_features": features.n_features_}
    sizes["n_labels"] = len(data.labels)
    task = Graph(max_iterations=MAX_ITERATIONS, max_entries=MAX_ENTRIES)
    estimator = make_estimator(model, task, choices)
    training = Training(SegmentKind(), output, estimator, data.X, data.Y, sizes, record, score)
    training.fit_params = {"coef_init": single_patch_weights(task, data.X, data.Y, C)}
    training.expected_stops = frozenset({STALLED})
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


def parse_unknown(text: str | None) -> int | None:
    """Return the number of unknown pixels, −1 for none, None if the label images decide."""
    from latentstruct.images import label_code

    if text is None:
        return None
    if text.strip().lower() == "none":
        return -1
    try:
        return label_code(text)
    except InputError:
        raise InputError(
            f"--unknown is {text!r}; expected a number from 0 to 255, a colour as '#000000', or none: correct it"
        ) from None


@dataclass(frozen=True)
class LabelledImages:
    """Images and their label images, of which `unknown` is a label that tells nothing; if `asked`, it must occur."""

    images: "ImageFiles"
    labels: "ImageFiles"
    colours: bool
    unknown: int
    asked: bool = False

    @classmethod
    def open(cls, images: str, labels: str, unknown: str | None) -> "LabelledImages":
        """Find the files; the first label image decides whether labels are numbers or colours."""
        from latentstruct.images import MAX_LABELS, ImageFiles

        asked = parse_unknown(unknown)
        files, truth = ImageFiles(images), ImageFiles(labels)
        check_names(files, truth)
        colours = bool((truth.labels(truth.names[0]) >= MAX_LABELS).all())
        if asked is None:
            return cls(files, truth, colours, MAX_LABELS if colours else 0)
        if asked >= 0 and (asked >= MAX_LABELS) != colours:
            kinds = ("colours, not numbers" if colours else "numbers, not colours") + other_kind(truth, asked)
            raise InputError(f"--unknown is {unknown!r}, but the labels of {labels} are {kinds}, or none")
        return cls(files, truth, colours, asked, asked >= 0)

    @classmethod
    def open_as(cls, record: SegmentRecord, images: str, labels: str) -> "LabelledImages":
        """Find the files of images whose labels are to be read as those of a model."""
        from latentstruct.images import ImageFiles

        files, truth = ImageFiles(images), ImageFiles(labels)
        check_names(files, truth)
        return cls(files, truth, record.colours, record.unknown)

    def pairs(self) -> "Iterator[tuple[str, Any, Any]]":
        """Yield name, image and labels of each."""
        for name in self.images:
            image, labels = self.images.image(name), self.labels.labels(name, self.colours)
            if image.shape[:2] != labels.shape:
                height, width = image.shape[:2]
                raise FormatError(
                    f"{self.labels.file(name)} has {labels.shape[1]} × {labels.shape[0]} pixels; expected {width} × "
                    f"{height} as {self.images.file(name)}: export it in the size of the image"
                )
            yield name, image, labels


def other_kind(labels: "ImageFiles", asked: int) -> str:
    """Return what to give instead of a number where labels are colours, or of a colour where they are numbers."""
    from latentstruct.images import MAX_LABELS, label_name

    first = labels.names[0]
    place = labels.palette_place(first, asked) if asked >= MAX_LABELS else None
    if place is None:
        return f": give {'a number from 0 to 255' if asked >= MAX_LABELS else 'a colour as #000000'}"
    counted = ", as images with a palette count by index: give "
    if place < 0:
        return f"{counted}an index from 0 to 255 ({label_name(asked)} is not in the palette of {labels.file(first)})"
    return f"{counted}{place}, the index of {label_name(asked)} in {labels.file(first)}"


def check_names(images: "ImageFiles", labels: "ImageFiles") -> None:
    """Raise unless each image has a label image and each label image an image."""
    for one, other, what in ((images, labels, "label image"), (labels, images, "image")):
        missing = [name for name in one if name not in other]
        if missing:
            raise FormatError(
                f"{one.file(missing[0])} has no {what} in {other.path} ({len(missing)} are missing); expected one with "
                f"the name {missing[0]!r}: add it, or remove the file"
            )


@dataclass(frozen=True)
class PatchData:
    """Graphs X of patches with labels Y, −1 where unknown."""

    X: list[Any]
    Y: list[Any]
    labels: list[int]
    unknown: int
    n_patches: int

    @property
    def label_names(self) -> list[str]:
        """The labels as people write them."""
        from latentstruct.images import label_name

        return [label_name(code) for code in self.labels]


def read_patches(data: LabelledImages, features: "PatchFeatures", progress: Progress) -> PatchData:
    """Read images, learn the features of their patches and return them with their labels."""
    import numpy as np

    from latentstruct.image_features import patch_labels
    from latentstruct.images import MAX_LABELS

    Y: list[Any] = []
    found: set[int] = set()

    def remember(name: str, labels: Any) -> None:
        codes, places = np.unique(labels, return_inverse=True)
        found.update(codes.tolist())
        if len(found) > MAX_LABELS:
            raise FormatError(
                f"{data.labels.file(name)}: there are more than {MAX_LABELS} different labels; expected few, each of "
                "one colour without shades: export the label images without smoothing"
            )
        known = codes != data.unknown
        numbers = np.where(known, np.cumsum(known) - 1, -1)[places].reshape(labels.shape)
        found_patches = patch_labels(numbers, int(known.sum()), features.patch, features.step)
        Y.append(np.append(codes[known], -1)[found_patches])

    def images() -> Iterator[Any]:
        for name, image, labels in data.pairs():
            check_size(image, features, data.images.file(name))
            remember(name, labels)
            yield image
        check_unknown(data, found)

    grids = features.fit_transform(images())
    every = np.concatenate(Y)
    labels = np.unique(every[every >= 0]).tolist()
    if len(labels) < 2:
        raise InputError(
            f"the patches of {data.labels.path} have {len(labels)} different known labels; expected at least 2: label "
            "more pixels, choose smaller patches (--patch) or another --unknown"
        )
    unknown = show_percent((every < 0).mean())
    progress.say(f"read {len(Y)} images, {len(every)} patches from {data.images.path}; {unknown} of these are unknown")
    return PatchData(make_graphs(grids), Y, labels, data.unknown, len(every))


def check_unknown(data: LabelledImages, found: set[int]) -> None:
    """Raise if a label that was said to mean unknown is not among those found."""
    from latentstruct.images import label_name

    if data.asked and data.unknown not in found:
        raise InputError(
            f"--unknown is {label_name(data.unknown)!r}, which labels no pixel of {data.labels.path}; its labels are "
            f"{list_labels(map(label_name, found))}: give one of these, or none if all pixels count"
        )


def check_held_out(data: LabelledImages, features: "PatchFeatures", record: SegmentRecord, allow_unknown: bool) -> None:
    """Raise unless a model can be judged on the data."""
    import numpy as np

    from latentstruct.images import label_name

    found: set[int] = set()
    for name, image, labels in data.pairs():
        check_size(image, features, data.images.file(name))
        found |= set(np.unique(labels).tolist()) - {data.unknown}
        new = found.difference(record.labels)
        if new and not allow_unknown:
            raise unknown_label(data.labels.file(name), label_name(min(new)), set(map(label_name, record.labels)))
    if not found:
        raise InputError(f"{data.labels.path} has no known pixels; expected some to compare with: label them")


def check_size(image: Any, features: "PatchFeatures", file: str) -> None:
    """Raise if an image is smaller than a patch."""
    height, width = image.shape[:2]
    if min(height, width) < features.patch:
        raise FormatError(
            f"{file} has {width} × {height} pixels; expected at least {features.patch} on each side, the size of a "
            "patch: leave it out, or train with a smaller --patch"
        )


def make_graphs(grids: Sequence[Any]) -> list[Any]:
    """Return the graphs of grids of patches: horizontal and vertical neighbours have weights of their own."""
    from latentstruct.tasks import grid_graph

    return [grid_graph(grid.features, edge_types="axis", shape=grid.shape) for grid in grids]


def predict_pixels(estimator: Any, features: "PatchFeatures", files: "ImageFiles") -> "Iterator[tuple[str, Any, Any]]":
    """Yield name, image and predicted label of each pixel."""
    from latentstruct.image_features import spread_patches

    for start in range(0, len(files), AT_ONCE):
        names = files.names[start : start + AT_ONCE]
        images = [files.image(name) for name in names]
        for name, image in zip(names, images, strict=True):
            check_size(image, features, files.file(name))
        predicted = estimator.predict(make_graphs(features.transform(images)))
        for name, image, labels in zip(names, images, predicted, strict=True):
            yield name, image, spread_patches(labels, image.shape[:2], features.patch, features.step)


def score_segments(
    estimator: Any, features: "PatchFeatures", record: SegmentRecord, data: LabelledImages
) -> dict[str, Any]:
    """Return the share of known pixels that are right, of each label and in all, and how labels overlap.

    The data are those that `check_held_out` has seen; labels the model does not know count as wrong.
    """
    import numpy as np

    from latentstruct.images import label_name

    truths = dict.fromkeys(record.labels, 0)
    guesses, right = dict(truths), dict(truths)
    shares, n_unknown = [], 0
    predicted = predict_pixels(estimator, features, data.images)
    for (_, _, truth), (_, _, guess) in zip(data.pairs(), predicted, strict=True):
        counted = truth != data.unknown
        n_unknown += int((~counted).sum())
        truth, guess = truth[counted], np.asarray(guess)[counted]
        for counts, values in ((truths, truth), (guesses, guess), (right, truth[truth == guess])):
            for code, count in zip(*np.unique(values, return_counts=True), strict=True):
                counts[int(code)] = counts.get(int(code), 0) + int(count)
        if len(truth):
            shares.append(float((truth == guess).mean()))
    names = record.called()
    classes = []
    for code in sorted(truths):
        hit, union = right.get(code, 0), truths[code] + guesses.get(code, 0) - right.get(code, 0)
        classes.append(
            {
                "label": label_name(code),
                "name": names.get(label_name(code), label_name(code)),
                "n_true": truths[code],
                "n_predicted": guesses.get(code, 0),
                "accuracy": hit / truths[code] if truths[code] else None,
                "iou": hit / union if union else None,
            }
        )
    judged = [one for one in classes if one["n_true"]]
    return {
        "n_examples": len(data.images),
        "n_pixels": sum(truths.values()),
        "n_unknown_pixels": n_unknown,
        "accuracy": sum(right.values()) / sum(truths.values()),
        "image_accuracy": float(np.mean(shares)),
        "image_accuracy_se": float(np.std(shares, ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else None,
        "mean_accuracy": float(np.mean([one["accuracy"] for one in judged])),
        "mean_iou": float(np.mean([one["iou"] for one in judged])),
        "classes": classes,
    }


def restore_features(model: Trained) -> "PatchFeatures":
    """Return the features a model was trained with."""
    from latentstruct.image_features import PatchFeatures

    found: PatchFeatures = model.restored(PatchFeatures().restore)
    return found


class SegmentKind(Kind):
    """Labels of the regions of images."""

    name = "segment"
    record = SegmentRecord
    train = staticmethod(train_segment)
    judged_on = frozenset({"data", "labels", "allow_unknown"})
    judged_on_always = frozenset({"data", "labels"})
    evaluation_hint = "give images and label images, as latentstruct evaluate MODEL IMAGES LABELS"

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
        from latentstruct.images import ImageFiles, label_name, require_vision

        if output == STANDARD_STREAM:
            raise InputError("label images go into a folder: name it with -o")
        require_vision()
        folder = Path(output)
        check_folder(folder, LEGEND_FILE, "label images go into a folder")
        files, features, record = ImageFiles(data), restore_features(model), model.record
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
        data = LabelledImages.open_as(model.record, held_out.data or "", held_out.labels or "")
        features = restore_features(model)
        check_held_out(data, features, model.record, held_out.allow_unknown)
        return score_segments(model.estimator, features, model.record, data)

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


def show_share(share: float | None) -> str:
    """Return a percentage, a dash where nothing could be counted."""
    return "–" if share is None else show_percent(share)
