"""The command `latentstruct`: train, predict, evaluate, look into models, and a demonstration.

Nothing heavy is imported before a command runs, so that help and mistyped options are answered at once.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct import __version__
from latentstruct.exceptions import FormatError, InputError
from latentstruct.progress import (
    Progress,
    caught_warnings,
    print_json,
    print_table,
    say,
    show_chain_scores,
    show_class_scores,
    show_info,
    show_percent,
    show_training,
)

if TYPE_CHECKING:
    from latentstruct.features import WindowFeatures
    from latentstruct.formats import ClassData, ColumnSentences

STANDARD_STREAM = "-"
BAD_INPUT, INTERRUPTED = 2, 130

app = typer.Typer(
    name="latentstruct",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
train_app = typer.Typer(no_args_is_help=True)
app.add_typer(train_app, name="train", help="Train a model and save it.")


class Model(StrEnum):
    """What to train."""

    svm = "svm"
    crf = "crf"
    perceptron = "perceptron"


class SolverName(StrEnum):
    """How to train it."""

    auto = "auto"
    block_ascent = "block_ascent"
    bundle = "bundle"
    cutting_plane = "cutting_plane"
    frank_wolfe = "frank_wolfe"
    subgradient = "subgradient"
    lbfgs = "lbfgs"


class Rescaling(StrEnum):
    """How the loss enters an SVM."""

    margin = "margin"
    slack = "slack"


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")]
OutputOption = Annotated[
    Path,
    typer.Option("-o", "--output", metavar="MODEL", help="Folder to write; replaces an earlier model."),
]
ModelOption = Annotated[Model, typer.Option("--model", metavar="NAME", help="What to train: svm, crf or perceptron.")]
COption = Annotated[
    float | None,
    typer.Option("-C", metavar="NUMBER", show_default="1.0", help="Weight of each example against ½‖w‖²."),
]
SolverOption = Annotated[
    SolverName,
    typer.Option(metavar="NAME", help=f"How to train: {', '.join(SolverName)}; auto is the fastest."),
]
TolOption = Annotated[
    float | None,
    typer.Option(metavar="NUMBER", help="Relative gap to certify.", show_default="the solver's own, mostly 0.001"),
]
RoundsOption = Annotated[int | None, typer.Option(help="Stop after so many rounds.", show_default="the solver's own")]
SecondsOption = Annotated[float | None, typer.Option(help="Stop after so many seconds.", show_default="no limit")]
RescalingOption = Annotated[Rescaling, typer.Option(help="How the loss enters an SVM.")]
ValidOption = Annotated[
    str | None,
    typer.Option("--valid", metavar="FILE", help="Held-out data to evaluate on afterwards."),
]
UnknownOption = Annotated[bool, typer.Option("--allow-unknown", help="Count labels the model does not know as wrong.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@dataclass(frozen=True)
class Choices:
    """The options that all trainings share."""

    output: Path
    model: Model
    C: float | None
    solver: SolverName
    tol: float | None
    max_rounds: int | None
    max_seconds: float | None
    rescaling: Rescaling
    seed: int
    quiet: bool
    json: bool

    def check(self) -> None:
        """Raise before anything is read if the options do not fit together or the model cannot be written."""
        check_folder(self.output, "model.json", "a model is a folder")
        if self.model is not Model.svm and self.rescaling is not Rescaling.margin:
            raise InputError(f"--rescaling {self.rescaling} is for --model svm only: leave it out")
        if self.model is Model.perceptron:
            given = {"-C": self.C, "--tol": self.tol, "--solver": self.solver}
            for name, value in given.items():
                if value not in (None, SolverName.auto):
                    raise InputError(f"a perceptron has no {name}: leave it out, or choose another --model")

    def estimator(self, task: Any, n_examples: int) -> Any:
        """Return the untrained estimator."""
        from latentstruct.estimators import CRF, StructuralSVM, StructuredPerceptron

        if self.model is Model.perceptron:
            estimator = StructuredPerceptron(task, max_seconds=self.max_seconds, random_state=self.seed)
            return estimator if self.max_rounds is None else estimator.set_params(max_rounds=self.max_rounds)
        common = {
            "C": 1.0 if self.C is None else self.C,
            "solver": self._solver(n_examples),
            "tol": self.tol,
            "max_rounds": self.max_rounds,
            "max_seconds": self.max_seconds,
        }
        if self.model is Model.crf:
            return CRF(task, **common)
        return StructuralSVM(task, rescaling=self.rescaling.value, **common)

    def _solver(self, n_examples: int) -> Any:
        """Return the solver with the seed; by name where the seed changes nothing."""
        from latentstruct.estimators import SOLVERS

        name = self.solver.value
        if self.seed and name == "auto" and self.model is Model.svm and n_examples > 1:
            name = "block_ascent"
        if not self.seed or name == "auto":
            return name
        solver = SOLVERS[name]()
        return solver.set_params(random_state=self.seed) if "random_state" in solver.get_params() else name


@dataclass(frozen=True)
class ChainRecord:
    """What the command keeps beside a chain model: its features and the columns of its files.

    Columns are counted from 0; `columns` are those the features use, the word first.
    """

    features: dict[str, Any]
    label_column: int
    n_columns: int
    columns: list[int]
    n_examples: int
    seconds: float
    kind: Literal["chain"] = "chain"

    def used_columns(self, sentences: "ColumnSentences", name: str) -> "ColumnSentences":
        """Return the columns the features use, from a file with or without the labels."""
        from latentstruct.formats import ColumnSentences

        found = sentences.n_columns
        if found not in (self.n_columns, self.n_columns - 1):
            raise FormatError(
                f"{name} has {found} columns; expected {self.n_columns} as in training, or "
                f"{self.n_columns - 1} without the labels (column {self.label_column}): give the columns of "
                "the training data"
            )
        shift = self.n_columns - found
        positions = [k - shift * (k > self.label_column) for k in self.columns]
        return ColumnSentences(tuple(sentences.columns[k] for k in positions), sentences.offsets)


@dataclass(frozen=True)
class ClassesRecord:
    """What the command keeps beside a model of classes: how its files were read."""

    feature_names: list[str] | None
    label: str | None
    zero_based: bool
    n_examples: int
    seconds: float
    kind: Literal["classes"] = "classes"


@contextmanager
def reported_errors() -> Iterator[None]:
    """Turn errors of the input and of the system into one line and an exit code."""
    try:
        yield
    except BrokenPipeError:
        # The reader of a pipe went away; typer ends the command without a word.
        raise
    except InputError as error:
        say(f"error: {error}")
        raise typer.Exit(BAD_INPUT) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(f"error: {where}{error.strerror or error}")
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as error:
        say("interrupted: nothing was written")
        raise typer.Exit(INTERRUPTED) from error


def check_folder(folder: Path, mark: str | None, what: str) -> None:
    """Raise unless results can be written to the folder later on.

    `mark` is a file that must be there if the folder holds anything.
    """
    if folder.exists():
        if not folder.is_dir():
            raise InputError(f"{folder} is a file, but {what}: choose another name")
        if mark is not None and any(folder.iterdir()) and not (folder / mark).exists():
            raise InputError(f"{folder} holds other files and no {mark}: choose a new or empty folder")
    ancestor = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not ancestor.is_dir():
        raise InputError(f"{folder} cannot be made, as {ancestor} is a file: choose another name")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written (no permission in {ancestor}): choose another place")


def parse_columns(text: str | None) -> list[int] | None:
    """Read a list of column numbers such as 0,1."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--columns is {text!r}; expected numbers such as 0,1: correct it") from None


def choose_columns(n_columns: int, label: int, asked: list[int] | None, name: str) -> tuple[int, list[int]]:
    """Return the positions of the label column and of the columns the features use."""

    def position(column: int, option: str) -> int:
        if not -n_columns <= column < n_columns:
            raise InputError(
                f"{option} names column {column}, but {name} has {n_columns} columns: choose from 0 to "
                f"{n_columns - 1}, or count back from -1"
            )
        return column % n_columns

    if n_columns < 2:
        raise FormatError(f"{name} has one column; expected at least the word and its label: add the labels")
    at = position(label, "--label-column")
    used = [k for k in range(n_columns) if k != at]
    if asked is not None:
        used = [position(column, "--columns") for column in asked]
    if at in used:
        raise InputError(f"--columns holds the label column {at}, which is to be predicted: leave it out")
    return at, used


def print_version(asked: bool) -> None:
    """Print the version and end, if asked to."""
    if asked:
        print(f"latentstruct {__version__}")
        raise typer.Exit()


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Structured prediction with certified training: structural SVMs and CRFs for sequences and classes."""


@train_app.command("chain")
@reported_errors()
def train_chain(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="Tokens in columns; - is standard input.")],
    output: OutputOption = Path("model"),
    model: ModelOption = Model.crf,
    C: COption = None,
    solver: SolverOption = SolverName.auto,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    rescaling: RescalingOption = Rescaling.margin,
    window: Annotated[int, typer.Option(help="Words on each side that features look at.")] = 2,
    affixes: Annotated[int, typer.Option(help="Length of the longest prefix and suffix; 0 for none.")] = 3,
    shape: Annotated[bool, typer.Option(help="Use the shape of the word.")] = True,
    bigrams: Annotated[bool, typer.Option(help="Use pairs and triples of neighbours.")] = True,
    min_count: Annotated[int, typer.Option(help="Tokens that must have a feature for it to be kept.")] = 1,
    label_column: Annotated[int, typer.Option(help="Column of the labels, from 0; -1 is the last.")] = -1,
    columns: Annotated[
        str | None,
        typer.Option(metavar="LIST", show_default="all but the labels", help="Columns to use, as 0,1; word first."),
    ] = None,
    valid: ValidOption = None,
    allow_unknown: UnknownOption = False,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Train on sentences: one token a line, its label in one column, a blank line after each sentence.

    The default is a CRF, as its chunks were the best: F1 93.8 on CoNLL-2000, against 93.5 of the others.

    Ctrl-C saves the best weights so far.
    """
    from latentstruct.features import WindowFeatures
    from latentstruct.formats import ColumnSentences, read_conll
    from latentstruct.tasks import Chain

    choices = Choices(output, model, C, solver, tol, max_rounds, max_seconds, rescaling, seed, quiet, json)
    choices.check()
    asked = parse_columns(columns)
    progress = Progress(quiet)
    sentences = read_conll(train)
    n_columns, n_tokens = sentences.n_columns, sentences.n_tokens
    label_at, used = choose_columns(n_columns, label_column, asked, train)
    progress.say(f"read {len(sentences)} sentences, {n_tokens} tokens from {train}")
    template = WindowFeatures(window, affixes, shape, bigrams, min_count)
    X = template.fit_transform(ColumnSentences(tuple(sentences.columns[k] for k in used), sentences.offsets))
    Y = sentences.column(label_at)
    labels = set(sentences.columns[label_at])
    # The text is no longer needed, and training needs the memory.
    del sentences

    def record(seconds: float) -> ChainRecord:
        return ChainRecord(template.to_state(), label_at, n_columns, used, len(X), seconds)

    score = None
    if valid is not None:
        held_out = read_labelled_chains(valid, record(0.0), template, labels, allow_unknown)

        def score(estimator: Any) -> dict[str, Any]:
            return score_chains(estimator, *held_out)

    sizes = {
        "n_examples": len(X),
        "n_tokens": n_tokens,
        "n_features": len(template.vocabulary_),
        "n_labels": len(labels),
    }
    run_training(choices, progress, Chain(), X, Y, sizes, record, score)


@train_app.command("classes")
@reported_errors()
def train_classes(
    data: Annotated[
        str, typer.Argument(metavar="TRAIN", help="A .csv or .tsv table, else svmlight; - is standard input.")
    ],
    output: OutputOption = Path("model"),
    model: ModelOption = Model.svm,
    C: COption = None,
    solver: SolverOption = SolverName.auto,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    rescaling: RescalingOption = Rescaling.margin,
    bias: Annotated[float, typer.Option(help="Value of a constant feature; 0 for none.")] = 1.0,
    label: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default="the last", help="Name of a table's column of labels."),
    ] = None,
    zero_based: Annotated[bool, typer.Option("--zero-based", help="Svmlight indices start at 0.")] = False,
    valid: ValidOption = None,
    allow_unknown: UnknownOption = False,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Train on samples with one class each.

    The default is a multiclass SVM. Ctrl-C saves the best weights so far.
    """
    from latentstruct.formats import read_classes
    from latentstruct.tasks import Multiclass

    choices = Choices(output, model, C, solver, tol, max_rounds, max_seconds, rescaling, seed, quiet, json)
    choices.check()
    progress = Progress(quiet)
    samples = read_classes(data, label=label, zero_based=zero_based)
    n_samples, n_features = samples.X.shape
    progress.say(f"read {n_samples} samples, {n_features} features from {data}")
    labels = set(samples.y.tolist())

    def record(seconds: float) -> ClassesRecord:
        return ClassesRecord(samples.feature_names, label, zero_based, n_samples, seconds)

    score = None
    if valid is not None:
        held_out = read_labelled_classes(valid, record(0.0), n_features, labels, allow_unknown)

        def score(estimator: Any) -> dict[str, Any]:
            return score_classes(estimator, *held_out)

    sizes = {"n_examples": n_samples, "n_features": n_features, "n_labels": len(labels)}
    run_training(choices, progress, Multiclass(bias=bias), samples.X, samples.y, sizes, record, score)


def run_training(
    choices: Choices,
    progress: Progress,
    task: Any,
    X: Any,
    Y: Any,
    sizes: dict[str, int],
    record: Callable[[float], ChainRecord | ClassesRecord],
    score: Callable[[Any], dict[str, Any]] | None,
) -> None:
    """Fit, save and report; after Ctrl-C too, then with its exit code."""
    from latentstruct.persistence import save_model

    estimator = choices.estimator(task, sizes["n_examples"])
    progress.say(f"training {type(estimator).__name__}: " + ", ".join(f"{sizes[k]} {k[2:]}" for k in sizes))
    began = time.perf_counter()
    with caught_warnings() as warned, progress:
        estimator.fit(X, Y, callback=progress.callback)
    seconds = time.perf_counter() - began
    interrupted = estimator.stop_reason_ == "interrupted"
    if interrupted:
        say(f"interrupted: saving the best weights so far to {choices.output}")
    kept = record(seconds)
    save_model(choices.output, estimator, asdict(kept))
    result = {
        "model": str(choices.output),
        "kind": kept.kind,
        "estimator": type(estimator).__name__,
        **describe_fit(estimator),
        "seconds": seconds,
        **sizes,
        "n_weights": len(estimator.coef_),
    }
    if score is not None and not interrupted:
        result["valid"] = score(estimator)
    if choices.json:
        print_json(result)
    else:
        show_training(result)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    for text in warned:
        say(f"warning: {text}")


def describe_fit(estimator: Any) -> dict[str, Any]:
    """Return what training reached."""
    return {
        "objective": estimator.objective_,
        "lower_bound": estimator.lower_bound_,
        "relative_gap": estimator.relative_gap_,
        "certified": estimator.certified_,
        "oracle_calls": estimator.n_oracle_calls_,
        "rounds": estimator.n_rounds_,
        "stop_reason": estimator.stop_reason_,
    }


# Trained models and the data they are used on


def load_trained(path: Path) -> tuple[Any, ChainRecord | ClassesRecord]:
    """Read a model that `latentstruct train` wrote."""
    import msgspec

    from latentstruct.persistence import load, read_settings

    extra = read_settings(path).extra
    kinds = {"chain": ChainRecord, "classes": ClassesRecord}
    kind = kinds.get(str(extra.get("kind"))) if isinstance(extra, dict) else None
    if kind is None:
        raise InputError(
            f"{path} was not written by latentstruct train, so how to read files for it is not known: "
            "use it from Python with latentstruct.load, or train it with the command"
        )
    try:
        record: ChainRecord | ClassesRecord = msgspec.convert(extra, kind)
    except msgspec.ValidationError as error:
        raise FormatError(f"{path} is damaged ({error}): copy the model again or train again") from error
    estimator = load(path)
    _check_record(estimator, record, path)
    return estimator, record


def _check_record(estimator: Any, record: ChainRecord | ClassesRecord, path: Path) -> None:
    """Raise unless model and record belong together."""
    from latentstruct.tasks import Chain, Multiclass

    if isinstance(record, ChainRecord):
        others = set(range(record.n_columns)) - {record.label_column}
        fits = isinstance(estimator.task_, Chain) and bool(record.columns) and others >= set(record.columns)
    else:
        names = record.feature_names
        fits = isinstance(estimator.task_, Multiclass)
        fits = fits and (names is None or len(set(names)) == estimator.task_.n_inputs_ == len(names))
    if not fits:
        raise FormatError(f"{path} is damaged (its parts do not belong together): train again")


def restore_features(estimator: Any, record: ChainRecord, path: Path) -> "WindowFeatures":
    """Return the features a chain model was trained with."""
    from latentstruct.features import WindowFeatures

    template = WindowFeatures.from_state(record.features)
    found = len(template.vocabulary_), template.n_columns_
    if found != (estimator.task_.n_inputs_, len(record.columns)):
        raise FormatError(f"{path} is damaged (its features do not belong to its weights): train again")
    return template


def read_labelled_chains(
    name: str, record: ChainRecord, template: "WindowFeatures", known: set[Any], allow_unknown: bool
) -> tuple[Any, list[list[str]]]:
    """Read features and labels of sentences for evaluation."""
    from latentstruct.formats import read_conll

    sentences = read_conll(name)
    tokens = record.used_columns(sentences, name)
    if sentences.n_columns != record.n_columns:
        raise FormatError(
            f"{name} has {sentences.n_columns} columns; expected {record.n_columns} with the labels in "
            f"column {record.label_column}: give labelled data"
        )
    Y = sentences.column(record.label_column)
    for i, labels in enumerate(Y, 1):
        if not allow_unknown and not known.issuperset(labels):
            j, label = next((j, label) for j, label in enumerate(labels, 1) if label not in known)
            raise unknown_label(f"{name}: token {j} of sentence {i}", label, known)
    return template.transform(tokens), Y


def unknown_label(where: str, label: Any, known: set[Any]) -> InputError:
    """Return the error of a label that was not in the training data."""
    shown = [str(one) for one in sorted(known, key=str)]
    listed = ", ".join(shown[:30]) + (f", … ({len(shown)} in all)" if len(shown) > 30 else "")
    return InputError(
        f"{where} has the unknown label {label!r}; expected one of {listed}: correct it, train on data that "
        "has it, or count it as wrong with --allow-unknown"
    )


def read_table(name: str, record: ClassesRecord, labelled: bool) -> "ClassData":
    """Read a table by the names of its columns, in any order; without a label column unless `labelled`."""
    import numpy as np

    from latentstruct.formats import ClassData, read_csv

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
            if not Path(name).exists() or labelled:
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

    is_table = Path(name.lower().removesuffix(".gz")).suffix in (".csv", ".tsv")
    if is_table and record.feature_names is not None:
        return read_table(name, record, labelled)
    if is_table:
        return read_classes(name, n_features=n_features)
    return read_classes(name, n_features=n_features, zero_based=record.zero_based)


def read_labelled_classes(
    name: str, record: ClassesRecord, n_features: int, known: set[Any], allow_unknown: bool
) -> tuple[Any, list[Any]]:
    """Read features and classes of samples for evaluation."""
    samples = read_samples(name, record, n_features, labelled=True)
    y = samples.y.tolist()
    if all(isinstance(label, str) for label in known):
        # A file that happens to hold only the numbers among the labels is read as numbers.
        y = [str(label) for label in y]
    for i, label in enumerate(y, 1):
        if not allow_unknown and label not in known:
            raise unknown_label(f"{name}: sample {i}", label, known)
    return samples.X, y


@app.command()
@reported_errors()
def predict(
    model: ModelArgument,
    data: Annotated[str, typer.Argument(metavar="DATA", help="File as for training; - is standard input.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="File to write; - is standard output.")
    ] = STANDARD_STREAM,
) -> None:
    """Predict labels: for chains the columns and one more with the prediction, for classes one label a line.

    The data may lack the column of labels; if it has one, it is not looked at.
    """
    from latentstruct.formats import read_conll, write_conll

    estimator, record = load_trained(model)
    if isinstance(record, ChainRecord):
        sentences = read_conll(data)
        tokens = record.used_columns(sentences, data)
        template = restore_features(estimator, record, model)
        predicted = [labels.tolist() for labels in estimator.predict(template.transform(tokens))]
        write_conll(output, sentences, predicted)
    else:
        samples = read_samples(data, record, estimator.task_.n_inputs_, labelled=False)
        write_lines(output, [str(label) for label in estimator.predict(samples.X).tolist()])
    sys.stdout.flush()


def write_lines(name: str, lines: Sequence[str]) -> None:
    """Write lines to a file or to standard output."""
    text = "".join(f"{line}\n" for line in lines)
    if name == STANDARD_STREAM:
        sys.stdout.write(text)
    else:
        Path(name).write_text(text, encoding="utf-8", newline="\n")


@app.command()
@reported_errors()
def evaluate(
    model: ModelArgument,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled file as for training; - is standard input.")],
    allow_unknown: UnknownOption = False,
    json: JsonOption = False,
) -> None:
    """Compare predictions with true labels.

    Chains: accuracy, and precision, recall and F1 of chunks if the labels are BIO tags. Classes: accuracy,
    and for each class precision, recall and what it is mostly taken for.
    """
    estimator, record = load_trained(model)
    known = set(estimator.task_.labels_.labels)
    result = {"model": str(model), "data": data, "kind": record.kind}
    if isinstance(record, ChainRecord):
        template = restore_features(estimator, record, model)
        X, Y = read_labelled_chains(data, record, template, known, allow_unknown)
        result |= score_chains(estimator, X, Y)
        show = show_chain_scores
    else:
        X, y = read_labelled_classes(data, record, estimator.task_.n_inputs_, known, allow_unknown)
        result |= score_classes(estimator, X, y)
        show = show_class_scores
    if json:
        print_json(result)
    else:
        show(result)


def are_chunk_tags(labels: Sequence[Any]) -> bool:
    """Tell whether labels look like BIO tags: O, or a position and a type, at least one of the latter."""
    typed = [str(label) for label in labels if label != "O"]
    return bool(typed) and all(len(tag) > 2 and tag[0] in "BIES" and tag[1] == "-" for tag in typed)


def score_chains(estimator: Any, X: Any, Y: list[list[str]]) -> dict[str, Any]:
    """Return the quality of a chain model's predictions."""
    from latentstruct.metrics import chunk_scores

    guessed = [labels.tolist() for labels in estimator.predict(X)]
    pairs = list(zip(Y, guessed, strict=True))
    n_tokens = sum(map(len, Y))
    right = sum(a == b for truth, guess in pairs for a, b in zip(truth, guess, strict=True))
    result = {
        "n_examples": len(Y),
        "n_tokens": n_tokens,
        "accuracy": right / n_tokens,
        "example_accuracy": sum(truth == guess for truth, guess in pairs) / len(Y),
    }
    if are_chunk_tags(estimator.task_.labels_.labels):
        scores = asdict(chunk_scores(Y, guessed))
        result["chunks"] = {key: scores[key] for key in scores if key not in ("accuracy", "n_tokens")}
    return result


def score_classes(estimator: Any, X: Any, y: list[Any]) -> dict[str, Any]:
    """Return the quality of predicted classes, with what each class is mostly taken for."""
    from collections import Counter

    predicted = estimator.predict(X).tolist()
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


@app.command()
@reported_errors()
def info(
    model: ModelArgument,
    top: Annotated[int, typer.Option(min=0, help="How many of the strongest weights to show.")] = 10,
    json: JsonOption = False,
) -> None:
    """Show what a model is: how it was trained, how well the training is certified, its strongest weights."""
    from latentstruct.persistence import load, read_settings

    settings = read_settings(model)
    extra = settings.extra if isinstance(settings.extra, dict) else {}
    if extra.get("kind") in ("chain", "classes"):
        estimator, record = load_trained(model)
        known = {"kind": record.kind, "n_examples": record.n_examples, "seconds": record.seconds}
        name_of = feature_namer(estimator, record, model)
    else:
        estimator, known, name_of = load(model), {}, None
    params = {key: value for key, value in estimator.get_params(deep=False).items() if key != "task"}
    result = {
        "model": str(model),
        "estimator": settings.estimator,
        "task": settings.task,
        "library": settings.library,
        **known,
        "params": {
            key: value if isinstance(value, bool | int | float | str | None) else repr(value)
            for key, value in params.items()
        },
        "labels": estimator.task_.labels_.labels,
        "n_labels": len(estimator.task_.labels_),
        "n_features": estimator.task_.n_inputs_,
        "n_weights": len(estimator.coef_),
        "n_nonzero": int((estimator.coef_ != 0).sum()),
        **describe_fit(estimator),
    }
    if hasattr(estimator.task_, "transitions_at_"):
        result["transitions"] = strongest_transitions(estimator, top)
    if name_of is not None:
        result["weights"] = strongest_weights(estimator, name_of, top)
    if json:
        print_json(result)
    else:
        show_info(result)


def feature_namer(estimator: Any, record: ChainRecord | ClassesRecord, path: Path) -> Callable[[int], str]:
    """Return a function that names the inputs of a model."""
    if isinstance(record, ChainRecord):
        names = list(restore_features(estimator, record, path).vocabulary_)
    elif record.feature_names is not None:
        names = record.feature_names
    else:
        first = 0 if record.zero_based else 1
        return lambda k: f"feature {k + first}"
    return names.__getitem__


def largest(values: Any, top: int) -> list[int]:
    """Return the positions of the values of largest size, the largest first, zeros left out."""
    import numpy as np

    size = np.abs(values)
    top = min(top, len(size))
    if not top:
        return []
    found = np.argpartition(size, len(size) - top)[len(size) - top :]
    found = found[np.argsort(-size[found], kind="stable")]
    return found[size[found] > 0].tolist()


def strongest_transitions(estimator: Any, top: int) -> list[dict[str, Any]]:
    """Return the strongest transitions of a chain."""
    labels, start = estimator.task_.labels_.labels, estimator.task_.transitions_at_
    n = len(labels)
    values = estimator.coef_[start : start + n * n]
    return [{"from": labels[k // n], "to": labels[k % n], "weight": float(values[k])} for k in largest(values, top)]


def strongest_weights(estimator: Any, name_of: Callable[[int], str], top: int) -> list[dict[str, Any]]:
    """Return the strongest weights of inputs."""
    labels = estimator.task_.labels_.labels
    n = len(labels)
    values = estimator.coef_[: estimator.task_.n_inputs_ * n]
    return [
        {"feature": name_of(k // n), "label": labels[k % n], "weight": float(values[k])} for k in largest(values, top)
    ]


@app.command()
@reported_errors()
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the picture demo.png.")
    ] = Path("demo"),
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Read words of noisy digits that follow a grammar: labels chosen alone against labels chosen together.

    Takes less than a minute, downloads nothing and saves a picture.
    """
    from latentstruct.demo import draw, require_plots, run_demo

    require_plots()
    check_folder(output, None, "the picture goes into a folder")
    progress = Progress(quiet)
    with caught_warnings() as warned:
        result = run_demo(seed=seed, tell=progress.say)
    for text in warned:
        say(f"warning: {text}")
    picture = draw(result, output / "demo.png")
    if json:
        print_json({"picture": str(picture), "models": [asdict(score) for score in result.scores]})
        return
    rows = [
        (
            score.name,
            show_percent(score.token_accuracy),
            show_percent(score.word_accuracy),
            f"{score.relative_gap:.1e}" if score.certified else "–",
            f"{score.seconds:.1f} s",
        )
        for score in result.scores
    ]
    columns = ("model", "digits right", "words right", "certified gap", "time")
    print_table(f"{len(result.words)} held-out words", columns, rows)
    print(f"picture: {picture}")


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    main()
