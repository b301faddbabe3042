"""What the command must know of a kind of model: how it is trained, used, judged and described.

A new application is one module with a subclass of `Kind` and one line in `latentstruct.cli.registry`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from latentstruct.cli.common import check_one_stream
from latentstruct.exceptions import FormatError, InputError

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

    def check(self, kind: "Kind") -> None:
        """Raise if the kind of model needs other options, or more than one file is standard input."""
        check_one_stream(self.data, self.labels, self.positive, self.negative, self.sites)
        for option in fields(self):
            given = getattr(self, option.name) not in (None, False)
            argument = option.name in ("data", "labels")
            shown = option.name.upper() if argument else "--" + option.name.replace("_", "-")
            if given and option.name not in kind.judged_on:
                raise InputError(f"a {kind.name} model is not evaluated with {shown}: {kind.evaluation_hint}")
            if not given and option.name in kind.judged_on_always:
                raise InputError(f"{shown} is missing: {kind.evaluation_hint}")


class Kind(ABC):
    """One application of the command.

    `name` stands in `latentstruct train NAME` and in the record that is kept beside a model; `record` is the
    dataclass of that record with the fields `kind`, `n_examples` and `seconds`; `judged_on` are the fields of
    `HeldOut` that evaluation looks at, `judged_on_always` those it cannot do without; `files` are those that training
    writes into the model's folder besides the model.
    """

    name: ClassVar[str]
    record: ClassVar[type]
    train: ClassVar[Callable[..., None]]
    files: ClassVar[tuple[str, ...]] = ()
    judged_on: ClassVar[frozenset[str]] = frozenset({"data"})
    judged_on_always: ClassVar[frozenset[str]] = frozenset({"data"})
    evaluation_hint: ClassVar[str] = "give one labelled file, as latentstruct evaluate MODEL DATA"

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

    @abstractmethod
    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return the quality of predictions on labelled data."""

    @abstractmethod
    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print what `evaluate` returned."""

    @abstractmethod
    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the one or two figures of `evaluate` that count most."""

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return what is to be known of a model besides what all models have."""
        return {}

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return the lines to show of a training's result or of a description."""
        return []

    @abstractmethod
    def show_details(self, result: dict[str, Any]) -> None:
        """Print the tables of a description."""
