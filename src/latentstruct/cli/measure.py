"""Classifiers of two classes that are trained for the measure they are judged by."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from latentstruct.cli.classes import (
    ClassesRecord,
    ConstantOption,
    LabelColumnOption,
    SamplesArgument,
    ZeroBasedOption,
    name_features,
    read_samples,
)
from latentstruct.cli.common import list_labels, reported_errors, write_lines
from latentstruct.cli.description import show_features, strongest_features
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
    ValidOption,
)
from latentstruct.cli.training import Training, source_of
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, print_facts, print_table

if TYPE_CHECKING:
    from latentstruct.report.blocks import Block, Examples

OptimiseOption = Annotated[
    str,
    typer.Option(
        metavar="MEASURE",
        help="f1, f0.5, f2, …, prbep, rocarea, average_precision, precision@10, recall@10, … or error.",
    ),
]
PositiveOption = Annotated[
    str | None,
    typer.Option(
        "--positive-label",
        metavar="LABEL",
        show_default="the larger of two",
        help="The positive label; all others are negative.",
    ),
]
StrengthOption = Annotated[
    float | None,
    typer.Option(
        "-C",
        metavar="NUMBER",
        show_default="one that compares with C = 1 of a plain SVM",
        help="Weight of the measure against ½‖w‖².",
    ),
]

PLAIN = ("f1", "prbep", "rocarea", "average_precision", "error")
AT_K = re.compile(r"(precision|recall)@([0-9]{1,9})", re.ASCII)
NAMES = {
    "error": "error rate",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "fbeta": "F",
    "prbep": "PRBEP",
    "rocarea": "ROC area",
    "average_precision": "average precision",
}


class Wish(NamedTuple):
    """What to train for: a loss that the task knows, with its β or k; `measure` is its name among the measures."""

    loss: str
    beta: float = 1.0
    k: int | None = None

    @property
    def measure(self) -> str:
        """The name under which `measure_scores` gives it."""
        return self.loss if self.k is None else self.loss.replace("@k", f"@{self.k}")

    def task(self, classes: "Classes", bias: float) -> Any:
        """Return the task of training for it."""
        from latentstruct.tasks import Measure

        return Measure(self.loss, beta=self.beta, k=self.k, positive=classes.positive, bias=bias)


def parse_wish(text: str) -> Wish:
    """Read the value of --optimise."""
    from latentstruct.formats.text import NUMBER, show

    name = text.strip().lower()
    if name in PLAIN:
        return Wish(name)
    at_k = AT_K.fullmatch(name)
    if at_k and int(at_k[2]):
        return Wish(f"{at_k[1]}@k", k=int(at_k[2]))
    if name.startswith("f") and NUMBER.fullmatch(name[1:]) and 0.01 <= float(name[1:]) <= 100:
        beta = float(name[1:])
        return Wish("f1" if beta == 1.0 else "fbeta", beta)
    raise InputError(
        f"--optimise is {show(text)}; expected {', '.join(PLAIN)}, f and a number from 0.01 to 100 such as f0.5, or "
        "precision@ or recall@ and a whole number such as precision@10: choose one of these"
    )


@dataclass(frozen=True)
class MeasureRecord:
    """What the command keeps beside a classifier: how its files were read, and what it was trained for.

    `rest` is whether every label but the positive one is negative, because there were more than two.
    """

    optimised: str
    positive: int | float | str
    negative: int | float | str
    rest: bool
    n_positive: int
    feature_names: list[str] | None
    label: str | None
    zero_based: bool
    n_examples: int
    seconds: float
    kind: Literal["measure"] = "measure"

    @property
    def reading(self) -> ClassesRecord:
        """How the files of a model of classes would be read."""
        return ClassesRecord(self.feature_names, self.label, self.zero_based, self.n_examples, self.seconds)


@reported_errors()
def train_measure(
    data: SamplesArgument,
    output: OutputOption = Path("model"),
    optimise: OptimiseOption = "f1",
    positive: PositiveOption = None,
    C: StrengthOption = None,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    bias: ConstantOption = 1.0,
    label: LabelColumnOption = None,
    zero_based: ZeroBasedOption = False,
    valid: ValidOption = None,
    report: ReportOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Train a classifier of two classes for the measure it will be judged by.

    A conventional SVM counts single mistakes; this one looks at all samples at once.

    Ctrl-C saves the best weights so far. Every --seed gives the same model.

    Example: latentstruct train measure train.svm --optimise f1 --valid valid.svm -o detector
    """
    from latentstruct.formats import read_classes

    wish = parse_wish(optimise)
    limits = (tol, max_rounds, max_seconds, 0)
    LatentChoices(output, 1.0 if C is None else C, *limits).check(data, valid)
    progress = Progress(quiet)
    samples = read_classes(data, label=label, zero_based=zero_based)
    classes = divide_labels(samples.y, positive, data)
    progress.say(f"read {samples.X.shape[0]} samples, {samples.X.shape[1]} features from {data}: {classes}")
    check_k(wish, samples.X.shape[0], data)
    reading = ClassesRecord(samples.feature_names, label, zero_based, samples.X.shape[0], 0.0)
    held_out = None if valid is None else read_judged(valid, record_of(wish, classes, reading), samples.X.shape[1])
    strength = usual_strength(wish, classes) if C is None else C
    estimator = LatentChoices(output, strength, *limits).estimator(wish.task(classes, bias))
    training = prepare_training(output, estimator, samples.X, wish, classes, reading, held_out)
    shown = (samples.X, classes.truth) if held_out is None else held_out
    training.report = report
    training.examples = lambda trained: MeasureKind().examples(trained, shown, source_of(valid, data))
    training.run(progress, json)


class Classes(NamedTuple):
    """The labels of samples, divided in two: `y` has the value `positive` where `truth` is True, else `negative`."""

    positive: Any
    negative: Any
    rest: bool
    y: Any
    truth: Any

    def __str__(self) -> str:
        n = int(self.truth.sum())
        return f"{n} are {self.positive!r}, the positive label, {len(self.truth) - n} {self.negative!r}"


def label_text(label: Any) -> str:
    """Return a label as text, a whole number without decimals."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def find_label(known: list[Any], text: str) -> list[Any]:
    """Return the label that a text means, a number however it is written; nothing if there is none."""
    from latentstruct.formats.text import NUMBER

    exact = [label for label in known if str(label) == text]
    number = label_text(float(text)) if NUMBER.fullmatch(text) else text
    return (exact or [label for label in known if label_text(label) == number])[:1]


def divide_labels(y: Any, positive: str | None, name: str) -> Classes:
    """Find the positive label, and make the others one negative label if there are several."""
    import numpy as np

    from latentstruct.formats.text import show

    known = sorted(set(y.tolist()))
    if len(known) == 1:
        raise InputError(
            f"every sample of {name} has the label {known[0]!r}; expected positive and negative ones: add samples of "
            "the other class"
        )
    if positive is None and len(known) > 2:
        raise InputError(
            f"found {len(known)} labels in {name} ({list_labels(known)}); expected two: name the positive one with "
            "--positive-label, and all others are negative"
        )
    chosen = known[-1:] if positive is None else find_label(known, positive)
    if not chosen:
        raise InputError(
            f"--positive-label is {show(positive)}, but no sample of {name} has that label; expected one of "
            f"{list_labels(known)}: choose one of these"
        )
    truth = y == chosen[0]
    if len(known) == 2:
        return Classes(chosen[0], next(one for one in known if one != chosen[0]), False, y, truth)
    text = label_text(chosen[0])
    return Classes(text, f"not {text}", True, np.where(truth, text, f"not {text}"), truth)


def check_k(wish: Wish, n_samples: int, name: str) -> None:
    """Raise if more samples are to be chosen than there are."""
    if wish.k is not None and wish.k > n_samples:
        raise InputError(
            f"--optimise is {wish.measure}, but {name} has {n_samples} samples; expected at least as many: choose a "
            "smaller number"
        )


def usual_strength(wish: Wish, classes: Classes) -> float:
    """Return the C that compares with C = 1 of a conventional SVM."""
    from latentstruct.strengths import comparable_strength

    return comparable_strength(wish.loss, len(classes.truth), int(classes.truth.sum()), wish.k)


def record_of(wish: Wish, classes: Classes, reading: ClassesRecord, seconds: float = 0.0) -> MeasureRecord:
    """Return what is kept beside the model."""
    how = (reading.feature_names, reading.label, reading.zero_based, reading.n_examples, seconds)
    return MeasureRecord(wish.measure, classes.positive, classes.negative, classes.rest, int(classes.truth.sum()), *how)


def prepare_training(
    output: Path,
    estimator: Any,
    X: Any,
    wish: Wish,
    classes: Classes,
    reading: ClassesRecord,
    held_out: tuple[Any, Any] | None,
) -> Training:
    """Return the training with all that is told and kept of it."""
    record = record_of(wish, classes, reading)

    def tell(_: Any) -> dict[str, Any]:
        told = {"optimised": wish.measure, "positive": record.positive, "negative": record.negative}
        return {**told, "beta": wish.beta, "C": estimator.C}

    def score(trained: Any) -> dict[str, Any]:
        assert held_out is not None
        return score_measure(trained, *held_out, record)

    return Training(
        MeasureKind(),
        output,
        estimator,
        X,
        classes.y,
        {"n_examples": X.shape[0], "n_features": X.shape[1], "n_positive": record.n_positive},
        lambda _, seconds: replace(record, seconds=seconds),
        None if held_out is None else score,
        tell,
    )


def read_judged(name: str, record: MeasureRecord, n_features: int) -> tuple[Any, Any]:
    """Read features of samples, and whether each is positive."""
    import numpy as np

    samples = read_samples(name, record.reading, n_features, labelled=True)
    labels = [label_text(label) for label in samples.y.tolist()]
    positive, negative = label_text(record.positive), label_text(record.negative)
    for number, label in enumerate(labels, 1):
        if not record.rest and label not in (positive, negative):
            raise InputError(
                f"{name}: sample {number} has the unknown label {label!r}; expected {positive} or {negative}: correct "
                "it, or train on data that has it with --positive-label"
            )
    return samples.X, np.array([label == positive for label in labels])


def score_measure(estimator: Any, X: Any, truth: Any, record: MeasureRecord) -> dict[str, Any]:
    """Return the quality of a model's scores."""
    return score_of_values(estimator, truth, positive_scores(estimator, X), record)


def score_of_values(estimator: Any, truth: Any, values: Any, record: MeasureRecord) -> dict[str, Any]:
    """Return all measures of scores above 0 for positive samples, and which of them the model was trained for."""
    from latentstruct.metrics import measure_scores

    task = estimator.task_
    k = task.k if task.k is not None and task.k <= len(truth) else None
    scores = measure_scores(truth, values, beta=task.beta, k=k)
    named = {"optimised": record.optimised, "positive": record.positive, "negative": record.negative}
    return {"n_examples": scores.pop("n_examples"), **named, "beta": task.beta, **scores}


def name_measure(name: str, beta: float) -> str:
    """Return a measure as people write it."""
    return f"F{beta:g}" if name == "fbeta" else NAMES.get(name, name)


def show_value(value: float | None) -> str:
    """Return a measure with four decimals, or a dash if it is not defined."""
    return "–" if value is None else f"{value:.4f}"


def positive_scores(estimator: Any, X: Any) -> Any:
    """Return scores above 0 for the positive label, which may be the first of the classes."""
    scores = estimator.decision_function(X)
    return scores if estimator.task_.positive_ == 1 else -scores


def threshold_of(estimator: Any) -> float:
    """Return the value that the weighted features of a sample must exceed for the positive label."""
    import numpy as np

    return -float(positive_scores(estimator, np.zeros((1, estimator.task_.n_inputs_)))[0]) + 0.0


class MeasureKind(Kind):
    """Two classes, trained for a measure."""

    name = "measure"
    summary = "Tell two classes apart, trained for F1, ROC area or another measure of the whole."
    reads = "A table or svmlight lines as for classes; of two labels the last in their order is the positive one."
    example_file = "measure.csv"
    record = MeasureRecord
    train = staticmethod(train_measure)

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks import Measure

        task, record = model.estimator.task_, model.record
        if not isinstance(task, Measure) or not isinstance(task.chosen_loss, str):
            return False
        wish = Wish(task.chosen_loss, task.beta, task.k if isinstance(task.k, int) else None)
        known = {label_text(label) for label in task.classes_.tolist()}
        return (
            record.reading.names_inputs(task.n_inputs_)
            and known == {label_text(record.positive), label_text(record.negative)}
            and record.optimised == wish.measure
        )

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write label and decision value, one sample a line; a .tsv file names the columns."""
        from latentstruct.formats.text import extension

        samples = read_samples(data, model.record.reading, model.estimator.task_.n_inputs_, labelled=False)
        labels = model.estimator.predict(samples.X).tolist()
        values = positive_scores(model.estimator, samples.X).tolist()
        lines = [f"{label}\t{value!r}" for label, value in zip(labels, values, strict=True)]
        write_lines(output, ["label\tscore", *lines] if extension(output) == ".tsv" else lines)

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return all measures with the contingency table."""
        return score_measure(model.estimator, *self.read_held_out(model, held_out), model.record)

    def read_held_out(self, model: Trained, held_out: HeldOut) -> tuple[Any, Any]:
        """Return features of samples, and whether each is positive."""
        return read_judged(held_out.data or "", model.record, model.estimator.task_.n_inputs_)

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return the strongest weights and the threshold."""
        from latentstruct.cli.reports.measure import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: tuple[Any, Any], source: str) -> "Examples":
        """Return predictions for samples."""
        from latentstruct.cli.reports.measure import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print the measures and the contingency table."""
        table, optimised, beta = scores["contingency"], scores["optimised"], scores["beta"]
        facts = [("samples", f"{scores['n_examples']}, {table['a'] + table['c']} of them {scores['positive']!r}")]
        measures = [name for name in scores if name in NAMES or "@" in name]
        for name in measures:
            mark = " (trained for)" if name == optimised else ""
            facts.append((name_measure(name, beta), show_value(scores[name]) + mark))
        print_facts(facts)
        rows = [
            (str(scores["positive"]), str(table["a"]), str(table["b"])),
            (str(scores["negative"]), str(table["c"]), str(table["d"])),
        ]
        columns = ("predicted", f"truly {scores['positive']}", f"truly {scores['negative']}")
        print_table("contingency table", columns, rows)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the measure the model was trained for."""
        name = scores["optimised"]
        return [(name_measure(name, scores["beta"]), show_value(scores.get(name)))]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the measure the model was trained for, or the share of right labels instead of the error."""
        name = scores["optimised"]
        value = scores.get(name)
        if value is None:
            raise InputError(
                f"--early-stopping needs {name}, but it is not defined for the data of --valid: give others"
            )
        return 1.0 - value if name == "error" else float(value)

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return what the model was trained for, its threshold and the strongest weights."""
        record, task = model.record, model.estimator.task_
        weights, name_of = model.estimator.coef_[: task.n_inputs_], name_features(record.reading)
        return {
            "optimised": record.optimised,
            "positive": record.positive,
            "negative": record.negative,
            "n_positive": record.n_positive,
            "beta": task.beta,
            "C": model.estimator.C,
            "threshold": threshold_of(model.estimator),
            "weights": strongest_features(weights, name_of, top),
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return the measure, the positive label, the weight of the measure and the threshold."""
        facts = [
            ("trained for", f"{name_measure(result['optimised'], result['beta'])}, C {result['C']:.6g}"),
            ("positive", f"{result['positive']!r} ({result['n_positive']} samples), negative {result['negative']!r}"),
        ]
        return facts + ([("threshold", f"{result['threshold']:.6g}")] if "threshold" in result else [])

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the strongest weights."""
        show_features(result, f"strongest weights for {result['positive']!r}")
