"""Models that put samples into classes."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct.cli.common import reported_errors, unknown_label, write_lines
from latentstruct.cli.description import show_weights, strongest_weights
from latentstruct.cli.old_kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.old_options import (
    Choices,
    COption,
    JsonOption,
    Model,
    ModelOption,
    OutputOption,
    QuietOption,
    ReportOption,
    Rescaling,
    RescalingOption,
    RoundsOption,
    SecondsOption,
    SeedOption,
    SolverName,
    SolverOption,
    TolOption,
    UnknownOption,
    ValidOption,
)
from latentstruct.cli.prepared import (
    PreparedData,
    PreparedTraining,
    is_prepared,
    open_for,
    refuse_options,
    refuse_prepared,
)
from latentstruct.cli.training import Training, source_of
from latentstruct.exceptions import FormatError, InputError
from latentstruct.progress import Progress, print_facts, print_table, show_percent

if TYPE_CHECKING:
    from latentstruct.formats import ClassData
    from latentstruct.formats.text import FilePath
    from latentstruct.report.blocks import Block, Examples


SamplesArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="A .csv or .tsv table, or svmlight; - is standard input, of either form.")
]
ConstantOption = Annotated[float, typer.Option("--bias", help="Value of a constant feature; 0 for none.")]
LabelColumnOption = Annotated[
    str | None, typer.Option(metavar="NAME", show_default="the last", help="Name of a table's column of labels.")
]
ZeroBasedOption = Annotated[bool, typer.Option("--zero-based", help="Svmlight indices start at 0.")]


@dataclass(frozen=True)
class ClassesRecord:
    """What the command keeps beside a model of classes: how its files were read."""

    feature_names: list[str] | None
    label: str | None
    zero_based: bool
    n_examples: int
    seconds: float
    kind: Literal["classes"] = "classes"

    def names_inputs(self, n_inputs: int) -> bool:
        """Tell whether the features have one name each, or none at all."""
        names = self.feature_names
        return names is None or len(set(names)) == n_inputs == len(names)


@reported_errors()
def train_classes(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A .csv or .tsv table, svmlight, or a folder of prepared samples; - is standard input."
        ),
    ],
    output: OutputOption = Path("model"),
    model: ModelOption = Model.svm,
    C: COption = None,
    solver: SolverOption = SolverName.auto,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    rescaling: RescalingOption = Rescaling.margin,
    bias: ConstantOption = 1.0,
    label: LabelColumnOption = None,
    zero_based: ZeroBasedOption = False,
    valid: ValidOption = None,
    allow_unknown: UnknownOption = False,
    report: ReportOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Train on samples with one class each.

    The default is a multiclass SVM. Ctrl-C saves the best weights so far.

    Example: latentstruct train classes train.svm -C 0.1 --valid test.svm -o classifier
    """
    from latentstruct.formats import read_classes
    from latentstruct.tasks import Multiclass

    choices = Choices(output, model, C, solver, tol, max_rounds, max_seconds, rescaling, seed)
    choices.check(data, valid)
    progress = Progress(quiet)
    if is_prepared(data):
        refuse_options(data, {"--label": (label, None), "--zero-based": (zero_based, False)})
        folder = PreparedTraining(
            ClassesKind(), choices, score_as_prepared, read_as_prepared, valid, allow_unknown, report
        )
        folder.run(data, lambda prepared: prepared.data.task.set_params(bias=bias), progress, json)
        return
    samples = read_classes(data, label=label, zero_based=zero_based)
    n_samples, n_features = samples.X.shape
    progress.say(f"read {n_samples} samples, {n_features} features from {data}")
    labels = set(samples.y.tolist())

    def record(_: Any, seconds: float) -> ClassesRecord:
        return ClassesRecord(samples.feature_names, label, zero_based, n_samples, seconds)

    score, shown = None, (samples.X, samples.y.tolist())
    if valid is not None:
        shown = read_labelled_classes(valid, record(None, 0.0), n_features, labels, allow_unknown)

        def score(estimator: Any) -> dict[str, Any]:
            return score_classes(estimator, *shown)

    def examples(trained: Trained) -> "Examples":
        return ClassesKind().examples(trained, shown, source_of(valid, data))

    sizes = {"n_examples": n_samples, "n_features": n_features, "n_labels": len(labels)}
    estimator = choices.estimator(Multiclass(bias=bias), n_samples)
    training = Training(ClassesKind(), output, estimator, samples.X, samples.y, sizes, record, score)
    training.report, training.examples = report, examples
    training.run(progress, json)


def read_table(name: "FilePath", record: ClassesRecord, labelled: bool) -> "ClassData":
    """Read a table by the names of its columns, in any order; without a label column unless `labelled`."""
    import numpy as np

    from latentstruct.formats import ClassData, read_csv
    from latentstruct.formats.text import KeptInput

    wanted = record.feature_names or []

    def arrange(X: Any, y: Any, names: list[str]) -> ClassData | None:
        order = {column: k for k, column in enumerate(names)}
        if order.keys() != set(wanted):
            return None
        return ClassData(X[:, [order[column] for column in wanted]], y, wanted)

    attempts = [record.label] if labelled else [record.label, wanted[-1]]
    for label in attempts:
        try:
            X, y, names = read_csv(name, label)
        except FormatError:
            raise
        except InputError:
            if not (isinstance(name, KeptInput) or Path(name).exists()) or labelled:
                raise
            continue
        if label == wanted[-1]:
            # There is no label column: the last feature was read in its place.
            if y.dtype.kind not in "if":
                raise FormatError(f"{name}: column {label!r} holds text; expected numbers: correct the column")
            X, names = np.column_stack([X, y.astype(np.float64)]), [*names, label]
        found = arrange(X, y, names)
        if found is not None:
            return found
    listed = ", ".join(wanted[:20]) + (", …" if len(wanted) > 20 else "")
    raise FormatError(
        f"{name}:1: the columns do not fit the model; expected {len(wanted)} features ({listed}) and "
        f"{'the label' if labelled else 'no other but the label'}: give the columns of the training data"
    )


def read_samples(name: str, record: ClassesRecord, n_features: int, labelled: bool) -> "ClassData":
    """Read samples the way the model's training data were read."""
    from latentstruct.formats import read_classes
    from latentstruct.formats.tables import keep_samples
    from latentstruct.formats.text import extension

    refuse_prepared(name)
    source = keep_samples(name)
    is_table = extension(source) in (".csv", ".tsv")
    if is_table and record.feature_names is not None:
        return read_table(source, record, labelled)
    if is_table:
        return read_classes(source, n_features=n_features)
    return read_classes(source, n_features=n_features, zero_based=record.zero_based)


def read_labelled_classes(
    name: str, record: ClassesRecord, n_features: int, known: set[Any], allow_unknown: bool
) -> tuple[Any, list[Any]]:
    """Read features and classes of samples for evaluation."""
    samples = read_samples(name, record, n_features, labelled=True)
    y = as_known(samples.y.tolist(), known)
    for i, label in enumerate(y, 1):
        if not allow_unknown and label not in known:
            raise unknown_label(f"{name}: sample {i}", label, known)
    return samples.X, y


def as_known(labels: list[Any], known: set[Any]) -> list[Any]:
    """Return labels of a file as a model has them.

    A file that happens to hold only the numbers among the labels is read as numbers.
    """
    return [str(label) for label in labels] if all(isinstance(label, str) for label in known) else labels


def row_blocks(X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """Yield samples that are in memory some at a time; y is None where classes are not known."""
    from latentstruct.formats.blocks import SAMPLES

    for start in range(0, X.shape[0], SAMPLES):
        part = slice(start, start + SAMPLES)
        yield X[part], None if y is None else y[part]


def read_as_prepared(prepared: PreparedData, name: str, allow_unknown: bool) -> tuple[Any, list[Any]]:
    """Read samples for evaluation the way prepared data were read."""
    task = prepared.data.task
    return read_labelled_classes(name, prepared.record, task.n_inputs_, set(task.labels_.labels), allow_unknown)


def score_as_prepared(estimator: Any, data: tuple[Any, list[Any]], _: ClassesRecord) -> dict[str, Any]:
    """Return the quality of predictions of a model that was trained on prepared data."""
    return score_classes(estimator, *data)


def score_classes(estimator: Any, X: Any, y: list[Any]) -> dict[str, Any]:
    """Return the quality of a model's predictions."""
    return compare_classes(estimator, y, estimator.predict(X).tolist())


def compare_classes(estimator: Any, y: list[Any], predicted: list[Any]) -> dict[str, Any]:
    """Return the quality of predicted classes, with what each class is mostly taken for."""
    confusion = Counter(zip(y, predicted, strict=True))
    n_true, n_predicted = Counter(y), Counter(predicted)
    classes = []
    for label in dict.fromkeys([*estimator.task_.labels_.labels, *y]):
        right = confusion[label, label]
        wrong = Counter({b: count for (a, b), count in confusion.items() if a == label != b})
        most = wrong.most_common(1)
        classes.append(
            {
                "label": label,
                "n_true": n_true[label],
                "n_predicted": n_predicted[label],
                "n_correct": right,
                "precision": right / n_predicted[label] if n_predicted[label] else 0.0,
                "recall": right / n_true[label] if n_true[label] else 0.0,
                "mostly_taken_for": most[0][0] if most else None,
                "n_taken_for": most[0][1] if most else 0,
            }
        )
    right = sum(confusion[label, label] for label in n_true)
    return {"n_examples": len(y), "accuracy": right / len(y), "classes": classes}


class ClassesKind(Kind):
    """One class a sample."""

    name = "classes"
    summary = "Put samples into one of several classes."
    reads = (
        "A table (.csv, .tsv) with a header line whose last column is the class, or svmlight lines such as 2 1:0.5 3:1."
    )
    example_file = "classes.csv"
    record = ClassesRecord
    train = staticmethod(train_classes)
    judged_on = frozenset({"data", "allow_unknown"})

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks import Multiclass

        task = model.estimator.task_
        return isinstance(task, Multiclass) and model.record.names_inputs(task.n_inputs_)

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write one label a line."""
        X: Any
        if is_prepared(data):
            X = open_for(model, data, labelled=False)
        else:
            X = read_samples(data, model.record, model.estimator.task_.n_inputs_, labelled=False).X
        write_lines(output, [str(label) for label in model.estimator.predict(X).tolist()])

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return the accuracy, and precision and recall of each class."""
        if held_out.data is not None and is_prepared(held_out.data):
            data = open_for(model, held_out.data)
            truth = [label for batch in data.batches for label in data.task.true_outputs(batch).tolist()]
            return score_classes(model.estimator, data, truth)
        return score_classes(model.estimator, *self.read_held_out(model, held_out))

    def read_held_out(self, model: Trained, held_out: HeldOut) -> tuple[Any, list[Any]]:
        """Return features and classes of samples."""
        task, name = model.estimator.task_, held_out.data or ""
        known = set(task.labels_.labels)
        return read_labelled_classes(name, model.record, task.n_inputs_, known, held_out.allow_unknown)

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return what speaks for each class."""
        from latentstruct.cli.reports.classes import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: tuple[Any, list[Any]], source: str) -> "Examples":
        """Return predictions for samples."""
        from latentstruct.cli.reports.classes import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print the accuracy and a table of the classes."""
        print_facts([("samples", f"{scores['n_examples']}, {show_percent(scores['accuracy'])} right")])
        rows = []
        for one in scores["classes"]:
            taken = f"{one['mostly_taken_for']} ({one['n_taken_for']}×)" if one["n_taken_for"] else "–"
            ratios = [show_percent(one["precision"]), show_percent(one["recall"])]
            rows.append([str(one["label"]), taken, *ratios, str(one["n_true"]), str(one["n_predicted"])])
        names = ("class", "mostly taken for", "precision", "recall", "true", "predicted")
        print_table("classes", names, rows, n_text=2)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the accuracy."""
        return [("accuracy", show_percent(scores["accuracy"]))]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the accuracy."""
        value: float = scores["accuracy"]
        return value

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return the strongest weights."""
        return {"weights": strongest_weights(model.estimator, name_features(model.record), top)}

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the strongest weights."""
        show_weights(result)


def name_features(record: ClassesRecord) -> Callable[[int], str]:
    """Return a function that names the inputs of a model."""
    if record.feature_names is not None:
        return record.feature_names.__getitem__
    first = 0 if record.zero_based else 1
    return lambda k: f"feature {k + first}"
