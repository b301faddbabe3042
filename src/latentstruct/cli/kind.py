"""What the commands know of a kind of model.

A kind is a folder `latentstruct.cli.kinds.NAME` and its name in `latentstruct.cli.registry`. Its module `command`
declares a subclass of `KindSpec`; `report`, `sample` and `prepare` are loaded when they are needed.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any, ClassVar

from latentstruct import metrics
from latentstruct.cli.answers import F1, Answers, Decoding, check_answers, chosen, has_probabilities, judged
from latentstruct.cli.common import STANDARD_STREAM, check_folder, check_output, is_prepared, located
from latentstruct.cli.options import HeldOut, TrainOptions
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.progress.display import Progress, print_facts, print_table, say, show_percent, show_share

if TYPE_CHECKING:
    from latentstruct.estimators import FoldScores
    from latentstruct.viz.report.blocks import Block, Examples

Facts = list[tuple[str, str]]
DeclaredFacts = tuple[tuple[str, str], ...]
"""Names and format strings of facts, each of which is shown if its first field is known; see `format_facts`."""
WeightTable = tuple[str, str, tuple[str, ...]]
"""The key of weights in a description, with the title and the columns of their table."""
TRANSITIONS: WeightTable = ("transitions", "strongest transitions", ("from", "to", "weight"))
LABEL_WEIGHTS: WeightTable = ("weights", "strongest weights", ("feature", "label", "weight"))
_EXAMPLE = re.compile(r"(?:[XY]|records)\[(\d+)\]")


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is saved beside every model, together with the name of its kind."""

    n_examples: int
    seconds: float = 0.0


def record_of(**types: Any) -> type[Any]:
    """Return the class of what is saved beside the models of a kind: `Record` with further fields of these types."""
    return make_dataclass("KindRecord", types.items(), bases=(Record,), frozen=True, kw_only=True)


@dataclass(frozen=True)
class Trained:
    """A model of the command: its folder, estimator and record, its features, and the labels that it knows.

    While the data of --valid are read, the estimator is not trained. `say` prints the progress of long predictions.
    """

    path: Path
    estimator: Any
    record: Any
    features: Any = None
    labels: frozenset[Any] = frozenset()
    say: Callable[[str], None] = say
    answers: Answers = Answers()

    def damaged(self, why: str) -> FormatError:
        """Return the error of a model whose parts contradict each other."""
        return FormatError(self.path, damage("a damaged one", why), "a complete model", "Train again.")


@dataclass(frozen=True)
class Settings:
    """The values of an option that is auto, such as numbers of latent states; they are compared by folds."""

    option: str  # the name of the option
    parameter: str  # the parameter of the estimator that it sets
    values: Mapping[Any, Any]  # the values of the parameter by those of the option, simpler models first
    baseline: Any  # the same model without latent variables

    def choose(self, estimator: Any, value: Any) -> Any:
        """Set the parameter of an estimator to a value of the option; return the estimator."""
        return estimator.set_params(**{self.parameter: self.values[value]})


@dataclass
class Loaded:
    """Data to train on, and the estimator to fit."""

    X: Any
    Y: Any  # examples as the task takes them
    estimator: Any  # not trained yet
    sizes: dict[str, int]  # counts to report, with "n_examples"
    record: Any  # what is saved beside the model, with 0 seconds
    features: Any = None
    labels: frozenset[Any] = frozenset()  # as `Trained` has them
    shown: Any = None  # the data in the form that `KindSpec.read` returns, for a report
    fit_params: dict[str, Any] = field(default_factory=dict)  # further arguments of fit
    # Which example of `shown` each one of X is a part of, if X does not have the same examples.
    origins: Sequence[int] | None = None
    # What examples of `shown` have in common, such as a document; those of one group stay in one fold.
    groups: Sequence[Any] | None = None
    settings: Settings | None = None  # the values of an option that is auto
    choices: "list[FoldScores]" = field(default_factory=list)  # what `encode` chose by folds


def damage(what: str, why: str) -> Description:
    """Return what an error shows of damaged files; the backticks of msgspec do not mark parameters."""
    return Description(f"{what} ({why.replace('`', '')})")


class _FactFormatter(Formatter):
    """Format strings of facts.

    {share:%} is a percentage, and a dash for None; {switch:text if true|text if false} is one of two texts; a list is
    its items, each in the given format.
    """

    def format_field(self, value: Any, spec: str) -> Any:
        """Return a value as text."""
        if isinstance(value, list | tuple):
            return ", ".join(self.format_field(item, spec) for item in value)
        if isinstance(value, bool):
            return spec.split("|")[not value] if spec else str(value)
        return show_share(value) if spec == "%" else super().format_field(value, spec)

    def first_field(self, text: str) -> str:
        """Return the name of the first field."""
        return next(iter(self.parse(text)))[1] or ""


def format_facts(declared: DeclaredFacts, values: Mapping[str, Any]) -> Facts:
    """Return declared facts as text; those whose first field is None or missing are left out."""
    formatter = _FactFormatter()
    known = [(name, text) for name, text in declared if value_at(values, formatter.first_field(text)) is not None]
    return [(name, formatter.format(text, **values)) for name, text in known]


def print_ratios(title: str, first: str, items: Iterable[tuple[Any, Mapping[str, Any]]], f1: bool = True) -> None:
    """Print a table of precision, recall, F1 if wanted, and counts of true and predicted ones."""
    names = {"precision": "precision", "recall": "recall", **({"f1": "F1"} if f1 else {})}
    rows = [
        [str(label), *(show_share(one[key]) for key in names), str(one["n_true"]), str(one["n_predicted"])]
        for label, one in items
    ]
    print_table(title, (first, *names.values(), "true", "predicted"), rows)


def show_weights(result: Mapping[str, Any], tables: Iterable[WeightTable]) -> None:
    """Print the tables of weights that a description has."""
    for key, title, columns in tables:
        rows = [[_shown_cell(*cell) for cell in one.items()] for one in result.get(key, ())]
        if rows:
            print_table(title, columns, rows, n_text=len(columns) - 1)


def _shown_cell(name: str, value: Any) -> str:
    if isinstance(value, float):
        return show_percent(value) if name == "share" else f"{value:+.4f}"
    return str(value)


def value_at(scores: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as "pairs.f1", None if there is none."""
    value: Any = scores
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def with_calibration(scores: dict[str, Any], found: "metrics.Reliability | None") -> dict[str, Any]:
    """Return scores with a reliability curve as JSON values, if there is one."""
    if found is None:
        return scores
    columns = (found.confidence.tolist(), found.accuracy.tolist(), found.n.tolist())
    bins = [dict(zip(("confidence", "accuracy", "n"), row, strict=True)) for row in zip(*columns, strict=True)]
    return {**scores, "calibration": {"error": found.error, "bins": bins}}


class KindSpec(ABC):
    """One kind of model: declarations, and the steps that differ from kind to kind."""

    name: ClassVar[str]  # its name, that of its folder
    summary: ClassVar[str]  # what it is for
    latent: ClassVar[str] = "nothing"  # what is latent
    reads: ClassVar[str]  # the form of its files
    example_file: ClassVar[str]  # name of example data
    prediction_file: ClassVar[str] = "predicted.txt"  # name of predictions for example data
    predicts: ClassVar[str]  # its paragraph in the help of predict
    judged_by: ClassVar[str]  # its paragraph in the help of evaluate
    # The dataclass of the options of its training, whose docstring is the help of the command.
    options: ClassVar[type[TrainOptions]]
    record: ClassVar[type[Any]]  # the dataclass of what is saved beside a model, such as ``record_of(n_nodes=int)``
    tasks: ClassVar[tuple[str, ...]]  # the classes of tasks that its models have
    # The class of the features whose state the record has, such as "features.windows.WindowFeatures"; empty if there
    # are none.
    features: ClassVar[str] = ""
    files: ClassVar[tuple[str, ...]] = ()  # files that `finish` writes into the folder of the model
    judged_on: ClassVar[frozenset[str]] = frozenset({"data"})  # fields of `HeldOut` that evaluation reads
    judged_on_always: ClassVar[frozenset[str]] = frozenset({"data"})  # those that it needs
    # What to pass to evaluate, with parameters in backticks.
    evaluation_hint: ClassVar[str] = "Pass labeled data as `data`."
    # The file that identifies the folder that `predict` writes, empty if it writes a file.
    folder_mark: ClassVar[str] = ""
    # Fields of `Answers` that `predict` follows, with the values of `decode` other than "best".
    answers: ClassVar[frozenset[str]] = frozenset()
    # Whether `labeled_examples` is defined, so that probabilities are compared with the truth.
    calibrates: ClassVar[bool] = False
    # What the files call an example, such as "graph", if examples have their order; errors then name its number.
    item: ClassVar[str] = ""
    # Names and format strings of the scores that evaluate prints; see `format_facts`.
    score_facts: ClassVar[DeclaredFacts] = ()
    # Attributes of `Trained` that `describe` returns, such as "record.n_nodes".
    described: ClassVar[tuple[str, ...]] = ()
    info_facts: ClassVar[DeclaredFacts] = ()  # names and format strings of the lines that info shows of a description
    # What positive and negative weights mean, for a report of weights with one name each (`weight_names`).
    weights_mean: ClassVar[str] = ""
    # Names and paths of the scores to print after a training, as percentages; those that are None are left out.
    headline: ClassVar[tuple[tuple[str, str], ...]] = ()
    report_facts: ClassVar[DeclaredFacts] = ()  # names and format strings of further scores that reports show
    main: ClassVar[tuple[str, ...]] = ()  # paths of the score that early stopping maximizes: the first that there is
    # The tables of weights in what `describe` returns.
    tables: ClassVar[tuple[WeightTable, ...]] = (("weights", "strongest weights", ("feature", "weight")),)
    per_example: ClassVar[tuple[str, ...]] = ()  # fields with one item per example, if `read` returns a dataclass
    expected_stops: ClassVar[tuple[str, ...]] = ()  # stop reasons that need no warning
    # Whether its models learn from outputs of which only a part of the labels is known (`for_unknown_labels`).
    learns_from_part: ClassVar[bool] = False
    group: ClassVar[str] = ""  # what examples of its files may share, such as "document"; empty if files do not say
    misses_labels: ClassVar[bool] = False  # whether its example data can leave labels out
    # The dataclass of the options of `latentstruct prepare`, None if data cannot be prepared.
    prepare_options: ClassVar[type[Any] | None] = None
    settled_options: ClassVar[tuple[str, ...]] = ()  # options of training that prepared data settle
    weights_follow_from_data: ClassVar[bool] = False  # whether prepared data determine the number of weights

    @abstractmethod
    def load(self, options: Any, progress: Progress) -> Loaded:
        """Read the training data, learn features, and build the estimator."""

    def new_record(self, sizes: Mapping[str, int], **facts: Any) -> Any:
        """Return what is saved beside a model: facts, and those of the sizes that have a field."""
        names = {one.name for one in fields(self.record)}
        return self.record(**{name: size for name, size in sizes.items() if name in names}, **facts)

    def load_prepared(self, options: Any, progress: Progress) -> Loaded:
        """Open prepared data to train on, and build the estimator."""
        from latentstruct.cli.prepared import load_prepared

        return load_prepared(self, options, progress)

    def settled_by(self, options: Any, like: Trained) -> dict[str, tuple[Any, Any]]:
        """Return the options of preparing that a model settles: their values, and those of the model."""
        return {}

    def prepare(self, options: Any, like: Trained | None, progress: Progress) -> Any:
        """Survey data to prepare, with the features and labels of a model if one is given."""
        return self._module("prepare").prepare(options, like, progress)

    def for_unknown_labels(self, options: Any, loaded: Loaded) -> Any:
        """Return the untrained estimator for outputs of which a part of the labels is unknown (−1)."""
        raise NotImplementedError

    def encode(self, loaded: Loaded, progress: Progress) -> Loaded:
        """Compute what takes long, once the held-out data have been checked."""
        return loaded

    @contextmanager
    def naming(self, data: str, origins: Sequence[int] | None = None) -> Iterator[None]:
        """Let errors of the library name what the file holds instead of an example of X or Y, counted from 1.

        `origins` are the numbers of the examples in the file, from 0; by default they are in the order of the file.
        """
        try:
            yield
        except FormatError:
            raise
        except InputError as error:
            example = _EXAMPLE.match(error.parameter)
            if not self.item or example is None:
                raise
            number = int(example[1]) if origins is None else int(origins[int(example[1])])
            raise located(error, f"{data}, {self.item} {number + 1}") from error

    def final_record(self, model: Trained, loaded: Loaded) -> Any:
        """Return what is saved beside the trained model."""
        return model.record

    def compacted(self, model: Trained) -> Trained:
        """Return the model to store if it is to be small, without features that have no weights; by default itself."""
        return model

    def finish(self, model: Trained, loaded: Loaded) -> dict[str, Any]:
        """Write further files when the model is saved; return what to report of them."""
        return {}

    def fits(self, model: Trained) -> bool:
        """Return whether estimator and record belong together; the class of the task has been checked."""
        return True

    def restore(self, model: Trained) -> Any:
        """Return the features of a trained model; raise if they do not fit its weights."""
        task = model.estimator.task_
        if not self.features:
            return None
        module, _, name = self.features.rpartition(".")
        try:
            features = getattr(import_module(f"latentstruct.{module}"), name).from_state(model.record.features)
        except InputError as error:
            raise model.damaged(str(error)) from error
        except (LookupError, TypeError) as error:
            raise model.damaged("the state of its features cannot be read") from error
        # Tasks of pairs have one weight per feature, and no inputs.
        if features.n_features_ != (task.n_inputs_ or task.n_features):
            raise model.damaged("its features do not belong to its weights")
        return features

    def known_labels(self, estimator: Any) -> frozenset[Any]:
        """Return the labels that a trained model knows, if its files may have others."""
        return frozenset(estimator.task_.labels_.labels if "allow_unknown" in self.judged_on else ())

    @abstractmethod
    def read(self, model: Trained, held_out: HeldOut) -> Any:
        """Read labeled data, with the features and labels of a model."""

    @abstractmethod
    def find(self, model: Trained, data: Any) -> Any:
        """Return predictions for what `read` returned, in any form that `compare` and the report take."""

    @abstractmethod
    def compare(self, model: Trained, data: Any, found: Any) -> dict[str, Any]:
        """Return the quality of predictions."""

    def score(self, model: Trained, data: Any) -> dict[str, Any]:
        """Return the quality of predictions for what `read` returned."""
        return self.compare(model, data, self.find(model, data))

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return the quality of predictions for labeled data."""
        if held_out.data is not None and self.prepare_options is not None and is_prepared(held_out.data):
            return self.score_prepared(model, held_out)
        data = self.read(model, held_out)
        return with_calibration(self.score(model, data), self.reliability(model, data))

    def labeled_examples(self, model: Trained, data: Any) -> tuple[Any, Any]:
        """Return inputs and true outputs (−1 for what is unknown) of what `read` returned, for kinds that calibrate."""
        raise NotImplementedError

    def is_right(self, truth: Any, guess: Any) -> list[bool | None]:
        """Return whether each part of a prediction is right, None if that is unknown; by default labels of items."""
        return [None if a == -1 or isinstance(a, set | dict) else a == b for a, b in zip(truth, guess, strict=True)]

    def reliability(self, model: Trained, data: Any) -> "metrics.Reliability | None":
        """Compare the probabilities of predictions with the truth, None if there are none."""
        if not self.calibrates or not has_probabilities(model.estimator):
            return None
        found = judged(model.estimator, *self.labeled_examples(model, data), self.is_right)
        return metrics.reliability(*found) if len(found[0]) else None

    def score_prepared(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return the quality of predictions for prepared data, if data can be prepared."""
        raise NotImplementedError

    def input_files(self, data: str) -> Sequence[str | Path]:
        """Return the files that `predict` reads."""
        return [data]

    def check_output(self, output: str, data: str) -> None:
        """Raise unless predictions can be written."""
        if not self.folder_mark:
            check_output(output, self.input_files(data))
        elif output == STANDARD_STREAM:
            raise InputError("output", output, "a folder")
        else:
            check_folder(Path(output), self.folder_mark)

    def f1_loss(self, model: Trained) -> Callable[..., Any] | None:
        """Return the function of 1 − F1 of true and predicted outputs for --decode f1."""
        return None

    def answering(self, model: Trained, options: Decoding) -> Trained:
        """Return a model that answers what the options of a command ask for; raise if its kind does not support it."""
        given = options.given_answers
        check_answers(given, self.answers, self.name)
        return replace(model, answers=Answers(**given))

    def outputs(self, model: Trained, X: Any, fixed: Any = None) -> Sequence[Any]:
        """Return one output of each example: the best one, with `fixed` parts if there are, or what the options say."""
        if fixed is not None:
            completed: Sequence[Any] = model.estimator.complete(X, fixed)
            return completed
        loss = self.f1_loss(model) if model.answers.decode == F1 else None
        return chosen(model.estimator, X, model.answers, loss)

    @abstractmethod
    def predict(self, model: Trained, data: str, output: str) -> None:
        """Predict for a file and write the result to another, as `model.answers` say."""

    def score_lines(self, scores: dict[str, Any]) -> Facts:
        """Return the lines that evaluate prints of what `score` returned."""
        return format_facts(self.score_facts, scores)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print what `score` returned."""
        print_facts(self.score_lines(scores))
        self.show_score_tables(scores)

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        """Print further scores as tables; by default there are none."""
        return

    def show_figure(self, value: float) -> str:
        """Return one of `figures` as text."""
        return show_percent(value)

    def figures(self, scores: dict[str, Any]) -> dict[str, float]:
        """Return the one or two most important figures of `score`."""
        found = {name: value_at(scores, path) for name, path in self.headline}
        return {name: value for name, value in found.items() if value is not None}

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the figures of `score` as text."""
        facts = [(name, self.show_figure(value)) for name, value in self.figures(scores).items()]
        if "calibration" in scores:
            facts.append(("calibration error", show_percent(scores["calibration"]["error"])))
        return facts

    def fold_facts(self, out_of_fold: Mapping[str, Any]) -> Facts:
        """Return the lines to show of out-of-fold figures; without any, that of the main score."""
        return [
            (f"out-of-fold {name}", f"{self.show_figure(one['mean'])} ± {self.show_figure(one['standard_error'])}")
            for name, one in out_of_fold.items()
            if name != "score" or len(out_of_fold) == 1
        ]

    def choose(self, data: Any, rows: Sequence[int]) -> Any:
        """Return some of the examples that `read` returned."""
        from latentstruct.estimators.folds import take

        if isinstance(data, tuple):
            return tuple(self.choose(part, rows) for part in data)
        if not is_dataclass(data):
            return take(data, rows)
        parts = {name: getattr(data, name) for name in self.per_example}
        chosen = {name: take(values, rows) for name, values in parts.items() if values is not None and len(values)}
        return replace(data, **chosen)  # type: ignore[type-var]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the figure of `score` that early stopping maximizes."""
        return float(next(value for path in self.main if (value := value_at(scores, path)) is not None))

    def weight_names(self, model: Trained) -> Sequence[str]:
        """Return the names of the weights, if each is that of one feature; of others none."""
        return ()

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return what `latentstruct info` shows of a model in addition to what all models have."""
        found = {path.rpartition(".")[2].rstrip("_"): attrgetter(path)(model) for path in self.described}
        names = self.weight_names(model)
        if names:
            from latentstruct.cli.description import strongest_features

            found["weights"] = strongest_features(model.estimator.coef_[: len(names)], names.__getitem__, top)
        return found

    def training_facts(self, result: dict[str, Any]) -> Facts:
        """Return the lines to show of a training's result."""
        return []

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return the lines to show of a description."""
        return format_facts(self.info_facts, result)

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the tables of a description."""
        show_weights(result, self.tables)

    def _module(self, name: str) -> Any:
        return import_module(f"latentstruct.cli.kinds.{self.name}.{name}")

    def lead_blocks(self, model: Trained) -> "list[Block]":
        """Return what a report shows first; by default nothing."""
        return []

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return what a report shows of the weights: by default the strongest ones."""
        if self.weights_mean:
            from latentstruct.cli.blocks import strongest_bars

            return [strongest_bars(self.weight_names(model), model.estimator.coef_, self.weights_mean)]
        blocks: list[Block] = self._module("report").weight_blocks(model)
        return blocks

    def examples(self, model: Trained, data: Any, source: str) -> "Examples":
        """Return predictions for what `read` returned, to be shown; `source` describes the data."""
        found = self.find(model, data)
        curve = self.reliability(model, data)
        scores = with_calibration(self.compare(model, data, found), curve)
        shown: Examples = self._module("report").examples(model, data, found)
        facts = [*self.summarize(scores), *format_facts(self.report_facts, scores)]
        if curve is not None:
            from latentstruct.cli.blocks import reliability_drawing

            shown = replace(shown, overview=[*shown.overview, reliability_drawing(curve)])
        return replace(shown, source=source, scores=facts)

    def example(self, seed: int = 0, missing: float = 0.0) -> bytes:
        """Return the file of a small data set; `missing` is the share of labels to leave out."""
        if missing and not self.misses_labels:
            raise InputError("missing", missing, f"left out for {self.name}")
        options = {"missing": missing} if missing else {}
        made: bytes = self._module("sample").make_example(seed, **options)
        return made
