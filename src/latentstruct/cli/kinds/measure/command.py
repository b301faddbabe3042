"""Classifiers of two classes that are trained for the measure they are judged by."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from typer import Argument, Option

from latentstruct.cli.common import list_labels, write_lines
from latentstruct.cli.description import show_features, strongest_features
from latentstruct.cli.kind import Facts, KindSpec, Loaded, Trained
from latentstruct.cli.kinds.classes.command import (
    ClassesRecord,
    ConstantOption,
    LabelColumnOption,
    ZeroBasedOption,
    read_samples,
)
from latentstruct.cli.options import HeldOut, TrainOptions
from latentstruct.exceptions import InputError
from latentstruct.progress.display import Progress, print_facts, print_table

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
    """Train a classifier of two classes for the measure it will be judged by.

    A conventional SVM counts single mistakes; this one looks at all samples at once.

    Ctrl-C saves the best weights so far. Every --seed gives the same model.

    Example: latentstruct train measure train.svm --optimise f1 --valid valid.svm -o detector
    """

    data: Annotated[
        str, Argument(metavar="DATA", help="A .csv or .tsv table, or svmlight; - is standard input, of either form.")
    ]
    optimise: Annotated[
        str,
        Option(
            metavar="MEASURE",
            help="f1, f0.5, f2, …, prbep, rocarea, average_precision, precision@10, recall@10, … or error.",
        ),
    ] = "f1"
    positive: Annotated[
        str | None,
        Option(
            "--positive-label",
            metavar="LABEL",
            show_default="the larger of two",
            help="The positive label; all others are negative.",
        ),
    ] = None
    C: Annotated[
        float | None,
        Option(
            "-C",
            metavar="NUMBER",
            show_default="one that compares with C = 1 of a plain SVM",
            help="Weight of the measure against ½‖w‖².",
        ),
    ] = None
    bias: ConstantOption = 1.0
    label: LabelColumnOption = None
    zero_based: ZeroBasedOption = False

    def check(self) -> None:
        parse_wish(self.optimise)
        super().check()


class Wish(NamedTuple):
    """What to train for: a loss that the task knows, with its β or k."""

    loss: str
    beta: float = 1.0
    k: int | None = None

    @property
    def measure(self) -> str:
        """The name under which `measure_scores` gives it."""
        return self.loss if self.k is None else self.loss.replace("@k", f"@{self.k}")


def parse_wish(text: str) -> Wish:
    """Read the value of --optimise."""
    from latentstruct.io.text import NUMBER, show

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


@dataclass(frozen=True, kw_only=True)
class MeasureRecord(ClassesRecord):
    """What is kept beside a classifier: how its files were read, and what it was trained for.

    `rest` is whether every label but the positive one is negative, because there were more than two.
    """

    optimised: str
    positive: int | float | str
    negative: int | float | str
    rest: bool
    n_positive: int


class MeasureKind(KindSpec):
    """Two classes, trained for a measure."""

    name = "measure"
    summary = "Tell two classes apart, trained for F1, ROC area or another measure of the whole."
    reads = "A table or svmlight lines as for classes; of two labels the last in their order is the positive one."
    example_file = "measure.csv"
    predicts = "Measures: label and score of each sample, one a line."
    judged_by = "Measures: F1, break-even point, ROC area and others, with the table of right and wrong ones."
    options = MeasureOptions
    record = MeasureRecord
    tasks = ("Measure",)

    def load(self, options: MeasureOptions, progress: Progress) -> Loaded:
        from latentstruct.io import read_classes
        from latentstruct.metrics.strengths import comparable_strength
        from latentstruct.tasks import Measure

        wish = parse_wish(options.optimise)
        samples = read_classes(options.data, label=options.label, zero_based=options.zero_based)
        n_samples, n_features = samples.X.shape
        classes = divide_labels(samples.y, options.positive, options.data)
        n_positive = int(classes.truth.sum())
        told = (
            f"{n_positive} are {classes.positive!r}, the positive label, {n_samples - n_positive} {classes.negative!r}"
        )
        progress.say(f"read {n_samples} samples, {n_features} features from {options.data}: {told}")
        if wish.k is not None and wish.k > n_samples:
            raise InputError(
                f"--optimise is {wish.measure}, but {options.data} has {n_samples} samples; expected at least as many: "
                "choose a smaller number"
            )
        C = comparable_strength(wish.loss, n_samples, n_positive, wish.k) if options.C is None else options.C
        task = Measure(wish.loss, beta=wish.beta, k=wish.k, positive=classes.positive, bias=options.bias)
        record = MeasureRecord(
            optimised=wish.measure,
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

    def _named(self, model: Trained) -> dict[str, Any]:
        record = model.record
        named = {"optimised": record.optimised, "positive": record.positive, "negative": record.negative}
        return {**named, "beta": model.estimator.task_.beta}

    def fits(self, model: Trained) -> bool:
        task, record = model.estimator.task_, model.record
        if not isinstance(task.chosen_loss, str):
            return False
        wish = Wish(task.chosen_loss, task.beta, task.k if isinstance(task.k, int) else None)
        known = {label_text(label) for label in task.classes_.tolist()}
        labels = {label_text(record.positive), label_text(record.negative)}
        return record.names_inputs(task.n_inputs_) and known == labels and record.optimised == wish.measure

    def restore(self, model: Trained) -> int:
        return int(model.estimator.task_.n_inputs_)

    def read(self, model: Trained, held_out: HeldOut) -> tuple[Any, Any]:
        import numpy as np

        name, record = held_out.data or "", model.record
        samples = read_samples(name, record, model.features, labelled=True)
        labels = [label_text(label) for label in samples.y.tolist()]
        positive, negative = label_text(record.positive), label_text(record.negative)
        for number, label in enumerate(labels, 1):
            if not record.rest and label not in (positive, negative):
                raise InputError(
                    f"{name}: sample {number} has the unknown label {label!r}; expected {positive} or {negative}: "
                    "correct it, or train on data that has it with --positive-label"
                )
        return samples.X, np.array([label == positive for label in labels])

    def score(self, model: Trained, data: tuple[Any, Any]) -> dict[str, Any]:
        return score_of_values(model, data[1], positive_scores(model.estimator, data[0]))

    def predict(self, model: Trained, data: str, output: str) -> None:
        from latentstruct.io.text import extension

        X = read_samples(data, model.record, model.features, labelled=False).X
        labels, values = model.estimator.predict(X).tolist(), positive_scores(model.estimator, X).tolist()
        lines = [f"{label}\t{value!r}" for label, value in zip(labels, values, strict=True)]
        write_lines(output, ["label\tscore", *lines] if extension(output) == ".tsv" else lines)

    def show_scores(self, scores: dict[str, Any]) -> None:
        table, optimised = scores["contingency"], scores["optimised"]
        facts = [("samples", f"{scores['n_examples']}, {table['a'] + table['c']} of them {scores['positive']!r}")]
        for name in (name for name in scores if name in NAMES or "@" in name):
            mark = " (trained for)" if name == optimised else ""
            facts.append((name_measure(name, scores["beta"]), show_value(scores[name]) + mark))
        print_facts(facts)
        rows = [
            (str(scores["positive"]), str(table["a"]), str(table["b"])),
            (str(scores["negative"]), str(table["c"]), str(table["d"])),
        ]
        columns = ("predicted", f"truly {scores['positive']}", f"truly {scores['negative']}")
        print_table("contingency table", columns, rows)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        name = scores["optimised"]
        return [(name_measure(name, scores["beta"]), show_value(scores.get(name)))]

    def main_score(self, scores: dict[str, Any]) -> float:
        name = scores["optimised"]
        value = scores.get(name)
        if value is None:
            raise InputError(
                f"--early-stopping needs {name}, but it is not defined for the data of --valid: give others"
            )
        return 1.0 - value if name == "error" else float(value)

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        record, weights = model.record, model.estimator.coef_[: model.features]
        return {
            **self._named(model),
            "n_positive": record.n_positive,
            "C": model.estimator.C,
            "threshold": threshold_of(model.estimator),
            "weights": strongest_features(weights, record.feature_name, top),
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        facts = [
            ("trained for", f"{name_measure(result['optimised'], result['beta'])}, C {result['C']:.6g}"),
            ("positive", f"{result['positive']!r} ({result['n_positive']} samples), negative {result['negative']!r}"),
        ]
        return facts + ([("threshold", f"{result['threshold']:.6g}")] if "threshold" in result else [])

    def show_details(self, result: dict[str, Any]) -> None:
        show_features(result, f"strongest weights for {result['positive']!r}")


class Classes(NamedTuple):
    """The labels of samples, divided in two: `y` has the value `positive` where `truth` is True, else `negative`."""

    positive: Any
    negative: Any
    rest: bool
    y: Any
    truth: Any


def label_text(label: Any) -> str:
    """Return a label as text, a whole number without decimals."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def find_label(known: list[Any], text: str) -> list[Any]:
    """Return the label that a text means, a number however it is written; nothing if there is none."""
    from latentstruct.io.text import NUMBER

    exact = [label for label in known if str(label) == text]
    number = label_text(float(text)) if NUMBER.fullmatch(text) else text
    return (exact or [label for label in known if label_text(label) == number])[:1]


def divide_labels(y: Any, positive: str | None, name: str) -> Classes:
    """Find the positive label, and make the others one negative label if there are several."""
    import numpy as np

    from latentstruct.io.text import show

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


def score_of_values(model: Trained, truth: Any, values: Any) -> dict[str, Any]:
    """Return all measures of scores above 0 for positive samples, and which of them the model was trained for."""
    from latentstruct.metrics import measure_scores

    task = model.estimator.task_
    k = task.k if task.k is not None and task.k <= len(truth) else None
    scores = measure_scores(truth, values, beta=task.beta, k=k)
    return {"n_examples": scores.pop("n_examples"), **KIND._named(model), **scores}


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


KIND = MeasureKind()
