"""What the command must know of a kind of model: how it is trained, used, judged and described.

A new application is one module with a subclass of `Kind` and one line in `latentstruct.cli.registry`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from latentstruct.cli.common import check_one_stream
from latentstruct.exceptions import FormatError, InputError

if TYPE_CHECKING:
    from latentstruct.report.blocks import Block, Examples

Facts = list[tuple[str, str]]


@dataclass(frozen=True)
class Trained:
    """A model that `latentstruct train` wrote: its folder, the estimator, and what the command kept beside it."""

    path: Path
    estimator: Any
    record: Any

    def damaged(self, why: str) -> FormatError:
        """Return the error of a model whose parts contradict each other."""
        # What went wrong inside may name the same cure.
        return FormatError(f"{self.path} is damaged ({why.removesuffix(': train again')}): train again")

    def restored(self, restore: Callable[[Any], Any]) -> Any:
        """Return the features a model was trained with, made from their record; raise if they are not its own."""
        try:
            features = restore(self.record.features)
        except InputError as error:
            raise self.damaged(str(error)) from error
        if features.n_features_ != self.estimator.task_.n_inputs_:
            raise self.damaged("its features do not belong to its weights")
        return features


@dataclass(frozen=True)
class HeldOut:
    """The labelled data `latentstruct evaluate` was given; None or False is an option that was not."""

    data: str | None = None
    labels: str | None = None
    positive: str | None = None
    negative: str | None = None
    sites: str | None = None
    allow_unknown: bool = False
    pictures: str | None = None
    skip_bad: bool = False

    def check(self, kind: "Kind", by_name: bool = False) -> None:
        """Raise if the kind of model needs other options, or more than one file is standard input.

        `by_name` tells that data and labels are options too, as in `latentstruct report`.
        """
        check_one_stream(self.data, self.labels, self.positive, self.negative, self.sites)
        hint = _hint_by_name(kind.evaluation_hint) if by_name else kind.evaluation_hint
        names = [option.name for option in fields(self)]
        given = [name for name in names if getattr(self, name) not in (None, False)]

        def shown(name: str) -> str:
            argument = name in ("data", "labels") and not by_name
            return name.upper() if argument else "--" + name.replace("_", "-")

        for name in given:
            if name not in kind.judged_on:
                raise InputError(f"a {kind.name} model is not evaluated with {shown(name)}: {hint}")
        for name in names:
            if name in kind.judged_on_always and name not in given:
                raise InputError(f"{shown(name)} is missing: {hint}")


def _hint_by_name(hint: str) -> str:
    """Return how `latentstruct report` is given what a hint says of `latentstruct evaluate`."""
    hint = hint.replace("latentstruct evaluate MODEL", "latentstruct report MODEL")
    return hint.replace("MODEL DATA LABELS", "MODEL --data DATA --labels LABELS").replace(
        "MODEL DATA", "MODEL --data DATA"
    )


class Kind(ABC):
    """One application of the command.

    `name` stands in `latentstruct train NAME` and in the record that is kept beside a model; `record` is the
    dataclass of that record with the fields `kind`, `n_examples` and `seconds`; `judged_on` are the fields of
    `HeldOut` that evaluation looks at, `judged_on_always` those it cannot do without; `files` are those that training
    writes into the model's folder besides the model.

    What `latentstruct tasks` tells: `summary`, what it is for; `latent`, what training is not told; `reads`, the form
    of its files; `example_file`, what a file of example data is called, made by the module of the same name in
    `latentstruct.cli.samples`; `prediction_file`, what to call predictions for it.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    latent: ClassVar[str] = "nothing"
    reads: ClassVar[str]
    example_file: ClassVar[str]
    prediction_file: ClassVar[str] = "predicted.txt"
    record: ClassVar[type]
    train: ClassVar[Callable[..., None]]
    files: ClassVar[tuple[str, ...]] = ()
    judged_on: ClassVar[frozenset[str]] = frozenset({"data"})
    judged_on_always: ClassVar[frozenset[str]] = frozenset({"data"})
    misses_labels: ClassVar[bool] = False
    evaluation_hint: ClassVar[str] = "give one labelled file, as latentstruct evaluate MODEL DATA"

    def example(self, seed: int = 0, missing: float = 0.0) -> bytes:
        """Return the file of a small data set to train on, the same for the same seed.

        `missing` is the share of labels to leave out, for kinds that say so by `misses_labels`.
        """
        if missing and not self.misses_labels:
            raise InputError(f"--missing is {missing:g}, but an example of {self.name} has all labels: leave it out")
        options = {"missing": missing} if missing else {}
        made: bytes = import_module(f"latentstruct.cli.samples.{self.name}").make_example(seed, **options)
        return made

    @abstractmethod
    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""

    def input_files(self, data: str) -> Sequence[str | Path]:
        """Return the files that `predict` reads."""
        return [data]

    @abstractmethod
    def predict(self, model: Trained, data: str, output: str) -> None:
        """Predict for a file and write the result to another."""

    def predict_usable(self, model: Trained, data: str, output: str) -> None:
        """Do so for what can be used of the file, leaving out the rest; by default that is refused."""
        raise InputError(f"a {self.name} model does not leave anything out: leave --skip-bad out")

    def predict_with_confidence(self, model: Trained, data: str, output: str) -> None:
        """Tell of each label how probable it is; by default that is refused."""
        raise InputError(
            f"--confidence is given, but {model.path} is a {self.name} model; expected chain: leave it out"
        )

    @abstractmethod
    def read_held_out(self, model: Trained, held_out: HeldOut) -> Any:
        """Return labelled data in the form that `evaluate` and `examples` work with."""

    @abstractmethod
    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return what a report shows of the weights."""

    @abstractmethod
    def examples(self, model: Trained, data: Any, source: str) -> "Examples":
        """Return predictions for what `read_held_out` returned, or for training data in that form, to be shown.

        `source` says what the data are.
        """

    @abstractmethod
    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return the quality of predictions on labelled data."""

    @abstractmethod
    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print what `evaluate` returned."""

    @abstractmethod
    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the one or two figures of `evaluate` that count most."""

    @abstractmethod
    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the figure of `evaluate` that early stopping looks at; higher is better."""

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return what is to be known of a model besides what all models have."""
        return {}

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return the lines to show of a training's result or of a description."""
        return []

    @abstractmethod
    def show_details(self, result: dict[str, Any]) -> None:
        """Print the tables of a description."""
