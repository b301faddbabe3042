"""Binary classifiers that are trained for the measure they are evaluated by."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from latentstruct import io, metrics, tasks
from latentstruct.cli.common import NOTHING, list_labels, write_lines
from latentstruct.cli.declaring import argument, option
from latentstruct.cli.kind import Facts, KindSpec, Loaded, Trained
from latentstruct.cli.kinds.classes.command import (
    ClassesRecord,
    bias_option,
    label_option,
    read_samples,
    zero_based_option,
)
from latentstruct.cli.options import HeldOut, TrainOptions
from latentstruct.core.lazy import np
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.text import NUMBER, extension
from latentstruct.progress.display import Progress, print_table

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


@dataclass(frozen=True, kw_only=True)
class MeasureOptions(TrainOptions):
    """Train a binary classifier for the measure it will be evaluated by.

    A conventional SVM counts single errors; this one optimizes a measure of all samples together.

    The model does not depend on --seed.

    Example: latentstruct train measure train.svm --optimize f1 --valid valid.svm -o detector
    """

    data: str = argument("A .csv or .tsv table, or svmlight; - is standard input, of either form.")
    optimize: str = option(
        "f1",
        "f1, f0.5, f2, …, prbep, rocarea, average_precision, precision@10, recall@10, … or error.",
        metavar="MEASURE",
        sets="loss",
    )
    positive: str | None = option(
        None,
        "The positive label; all others are negative.",
        "--positive-label",
        metavar="LABEL",
        shown="the larger of two",
    )
    C: float | None = option(
        None,
        "Weight of the measure against ½‖w‖²; auto chooses it by folds.",
        "-C",
        "--C",
        auto=float,
        shown="comparable with C = 1 of a plain SVM",
    )
    bias: float = bias_option()
    label: str | None = label_option()
    zero_based: bool = zero_based_option()

    def check(self) -> None:
        parse_wish(self.optimize)
        super().check()


class Wish(NamedTuple):
    """What to train for: a loss that the task knows, with its β or k."""

    loss: str
    beta: float = 1.0
    k: int | None = None

    @property
    def measure(self) -> str:
        """Its name in `measure_scores`."""
        return self.loss if self.k is None else self.loss.replace("@k", f"@{self.k}")


def parse_wish(text: str) -> Wish:
    """Read the value of --optimize."""
    name = text.strip().lower()
    if name in PLAIN:
        return Wish(name)
    at_k = AT_K.fullmatch(name)
    if at_k and int(at_k[2]):
        return Wish(f"{at_k[1]}@k", k=int(at_k[2]))
    if name.startswith("f") and NUMBER.fullmatch(name[1:]) and 0.01 <= float(name[1:]) <= 100:
        beta = float(name[1:])
        return Wish("f1" if beta == 1.0 else "fbeta", beta)
    further = "f0.5 or another F measure from f0.01 to f100, precision@10 or recall@10 or another positive integer"
    raise InputError("optimize", text, f"{', '.join(PLAIN)}, {further}")


@dataclass(frozen=True, kw_only=True)
class MeasureRecord(ClassesRecord):
    """The record of a classifier: how its files were read, and what it was trained for.

    `rest` is whether every label but the positive one is negative, because there were more than two.
    """

    optimized: str
    positive: int | float | str
    negative: int | float | str
    rest: bool
    n_positive: int


class MeasureKind(KindSpec):
    """Two classes, trained for a measure."""

    name = "measure"
    item = "sample"
    summary = "Separate two classes, trained for F1, ROC area or another measure of all samples together."
    reads = "A table or svmlight lines as for classes; the larger of two labels is the positive one."
    example_file = "measure.csv"
    predicts = "Measures: label and score of each sample, one per line."
    judged_by = "Measures: F1, break-even point, ROC area and others, with the contingency table."
    options = MeasureOptions
    record = MeasureRecord
    tasks = ("Measure",)
    described = ("record.n_positive", "estimator.C")

    def load(self, options: MeasureOptions, progress: Progress) -> Loaded:
        from latentstruct.metrics.strengths import suggest_C

        wish = parse_wish(options.optimize)
        samples = io.read_classes(options.data, label=options.label, zero_based=options.zero_based)
        n_samples, n_features = samples.X.shape
        classes = divide_labels(samples.y, options.positive, options.data)
        n_positive = int(classes.truth.sum())
        parts = f"{n_positive} positive ({classes.positive!r}), {n_samples - n_positive} {classes.negative!r}"
        progress.say(f"read {n_samples} samples, {n_features} features from {options.data}: {parts}")
        if wish.k is not None and wish.k > n_samples:
            expected = f"a measure of at most {n_samples} samples"
            raise InputError("optimize", wish.measure, expected, f"{options.data} has no more.")
        C = suggest_C(wish.loss, n_samples, n_positive, wish.k) if options.C is None else options.C
        task = tasks.Measure(wish.loss, beta=wish.beta, k=wish.k, positive=classes.positive, bias=options.bias)
        record = MeasureRecord(
            optimized=wish.measure,
            positive=classes.positive,
            negative=classes.negative,
            rest=classes.rest,
            n_positive=n_positive,
            feature_names=samples.feature_names,
            label=options.label,
            zero_based=options.zero_based,
            n_examples=n_samples,
        )
        sizes = {"n_examples": n_samples, "n_features": n_features, "n_positive": n_positive}
        shown = (samples.X, classes.truth)
        return Loaded(samples.X, classes.y, options.latent_svm(task, C=C), sizes, record, n_features, shown=shown)

    def finish(self, model: Trained, loaded: Loaded) -> dict[str, Any]:
        return {**self._named(model), "C": model.estimator.C}

    def weight_names(self, model: Trained) -> Sequence[str]:
        return [model.record.feature_name(k) for k in range(model.features)]

    def _named(self, model: Trained) -> dict[str, Any]:
        record = model.record
        named = {"optimized": record.optimized, "positive": record.positive, "negative": record.negative}
        return {**named, "beta": model.estimator.task_.beta}

    def fits(self, model: Trained) -> bool:
        task, record = model.estimator.task_, model.record
        if not isinstance(task.chosen_loss, str):
            return False
        wish = Wish(task.chosen_loss, task.beta, task.k if isinstance(task.k, int) else None)
        known = {label_text(label) for label in task.classes_.tolist()}
        labels = {label_text(record.positive), label_text(record.negative)}
        return record.names_inputs(task.n_inputs_) and known == labels and record.optimized == wish.measure

    def restore(self, model: Trained) -> int:
        return int(model.estimator.task_.n_inputs_)

    def read(self, model: Trained, held_out: HeldOut) -> tuple[Any, Any]:
        name, record = held_out.data or "", model.record
        samples = read_samples(name, record, model.features, labeled=True)
        labels = [label_text(label) for label in samples.y.tolist()]
        positive, negative = label_text(record.positive), label_text(record.negative)
        for number, label in enumerate(labels, 1):
            if not record.rest and label not in (positive, negative):
                raise FormatError(f"{name}, sample {number}", label, f"the label {positive} or {negative}")
        return samples.X, np.array([label == positive for label in labels])

    def find(self, model: Trained, data: tuple[Any, Any]) -> Any:
        return positive_scores(model.estimator, data[0])

    def compare(self, model: Trained, data: tuple[Any, Any], found: Any) -> dict[str, Any]:
        task, truth = model.estimator.task_, data[1]
        k = task.k if task.k is not None and task.k <= len(truth) else None
        scores = metrics.measure_scores(truth, found, beta=task.beta, k=k)
        return {"n_examples": scores.pop("n_examples"), **self._named(model), **scores}

    def predict(self, model: Trained, data: str, output: str) -> None:
        X = read_samples(data, model.record, model.features, labeled=False).X
        labels, values = model.estimator.predict(X).tolist(), positive_scores(model.estimator, X).tolist()
        lines = [f"{label}\t{value!r}" for label, value in zip(labels, values, strict=True)]
        write_lines(output, ["label\tscore", *lines] if extension(output) == ".tsv" else lines)

    def score_lines(self, scores: dict[str, Any]) -> Facts:
        table, optimized = scores["contingency"], scores["optimized"]
        facts = [("samples", f"{scores['n_examples']}, {table['a'] + table['c']} of them {scores['positive']!r}")]
        for name in (name for name in scores if name in NAMES or "@" in name):
            mark = " (trained for)" if name == optimized else ""
            facts.append((name_measure(name, scores["beta"]), show_value(scores[name]) + mark))
        return facts

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        table = scores["contingency"]
        rows = [
            (str(scores["positive"]), str(table["a"]), str(table["b"])),
            (str(scores["negative"]), str(table["c"]), str(table["d"])),
        ]
        columns = ("predicted", f"true {scores['positive']}", f"true {scores['negative']}")
        print_table("contingency table", columns, rows)

    def show_figure(self, value: float | None) -> str:
        return show_value(value)

    def figures(self, scores: dict[str, Any]) -> dict[str, Any]:
        return {name_measure(scores["optimized"], scores["beta"]): scores.get(scores["optimized"])}

    def main_score(self, scores: dict[str, Any]) -> float:
        name = scores["optimized"]
        value = scores.get(name)
        if value is None:
            expected = f"data for which {name} is defined, with `early_stopping`"
            raise InputError("valid", Description("others"), expected)
        return 1.0 - value if name == "error" else float(value)

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        return {**self._named(model), "threshold": threshold_of(model.estimator), **super().describe(model, top)}

    def training_facts(self, result: dict[str, Any]) -> Facts:
        return [
            ("trained for", f"{name_measure(result['optimized'], result['beta'])}, C {result['C']:.6g}"),
            ("positive", f"{result['positive']!r} ({result['n_positive']} samples), negative {result['negative']!r}"),
        ]

    def facts(self, result: dict[str, Any]) -> Facts:
        return [*self.training_facts(result), ("threshold", f"{result['threshold']:.6g}")]


class Classes(NamedTuple):
    """The labels of samples, divided in two: `y` has the value `positive` where `truth` is True, else `negative`."""

    positive: Any
    negative: Any
    rest: bool
    y: Any
    truth: Any


def label_text(label: Any) -> str:
    """Return a label as text, an integer without decimals."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def find_label(known: list[Any], text: str) -> list[Any]:
    """Return the label of a text, a number in any form; an empty list if there is none."""
    exact = [label for label in known if str(label) == text]
    number = label_text(float(text)) if NUMBER.fullmatch(text) else text
    return (exact or [label for label in known if label_text(label) == number])[:1]


def divide_labels(y: Any, positive: str | None, name: str) -> Classes:
    """Find the positive label, and make the others one negative label if there are several."""
    known = sorted(set(y.tolist()))
    if len(known) == 1:
        raise FormatError(name, Description(f"the label {known[0]!r} at every sample"), "samples of two classes")
    if positive is None and len(known) > 2:
        hint = "All others are then negative."
        raise InputError("positive", NOTHING, f"one of the {len(known)} labels of {name} ({list_labels(known)})", hint)
    chosen = known[-1:] if positive is None else find_label(known, positive)
    if not chosen:
        raise InputError("positive", positive, f"a label of {name} ({list_labels(known)})")
    truth = y == chosen[0]
    if len(known) == 2:
        return Classes(chosen[0], next(one for one in known if one != chosen[0]), False, y, truth)
    text = label_text(chosen[0])
    return Classes(text, f"not {text}", True, np.where(truth, text, f"not {text}"), truth)


def name_measure(name: str, beta: float) -> str:
    """Return the usual name of a measure."""
    return f"F{beta:g}" if name == "fbeta" else NAMES.get(name, name)


def show_value(value: float | None) -> str:
    """Return a measure with four decimals, or a dash if it is not defined."""
    return "–" if value is None else f"{value:.4f}"


def positive_scores(estimator: Any, X: Any) -> Any:
    """Return scores above 0 for the positive label, which may be the first of the classes."""
    scores = estimator.decision_function(X)
    return scores if estimator.task_.positive_ == 1 else -scores


def threshold_of(estimator: Any) -> float:
    """Return the threshold that the weighted features of a positive sample exceed."""
    return -float(positive_scores(estimator, np.zeros((1, estimator.task_.n_inputs_)))[0]) + 0.0


KIND = MeasureKind()
