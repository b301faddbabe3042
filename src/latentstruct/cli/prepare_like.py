"""Data that are prepared with the labels and features of a trained model, to be judged or labelled by it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentstruct.cli.chain_columns import ChainRecord, count_columns
from latentstruct.cli.chain_files import restore_features
from latentstruct.cli.classes import ClassesRecord, as_known, read_samples, row_blocks
from latentstruct.cli.common import list_labels
from latentstruct.cli.old_kinds import Trained
from latentstruct.cli.prepared import is_prepared
from latentstruct.cli.registry import load_trained
from latentstruct.exceptions import FormatError, InputError
from latentstruct.progress import Progress

if TYPE_CHECKING:
    from latentstruct.formats import ClassData, ColumnSentences

Blocks = Iterator[tuple[Any, Any]]
KINDS_PREPARED = ("chain", "classes", "motif")

LikeOption = Annotated[
    Path | None,
    typer.Option(
        "--like",
        metavar="MODEL",
        help="Prepare with the labels and features of this trained model, for evaluate and predict.",
    ),
]
UnlabelledOption = Annotated[
    bool, typer.Option("--unlabelled", help="With --like: leave labels out, which DATA may lack.")
]


def check_unlabelled(like: Path | None, unlabelled: bool) -> None:
    """Raise if labels are to be left out where nothing else tells which there are."""
    if unlabelled and like is None:
        raise InputError(
            "--unlabelled is given without --like; expected a trained model, which knows the labels: add --like MODEL, "
            "or leave it out"
        )


def load_like(path: Path, kind: str) -> Trained:
    """Read the model that data are prepared for, or raise if it is none of the given kind."""
    if path.is_file() or is_prepared(path):
        what = "a file" if path.is_file() else "a folder of prepared data"
        raise InputError(
            f"--like is {path}, {what}; expected a trained model: give the folder that latentstruct train wrote"
        )
    found, model = load_trained(path)
    if found.name != kind:
        other = f", or use latentstruct prepare {found.name}" if found.name in KINDS_PREPARED else ""
        raise InputError(f"--like is {path}, a {found.name} model; expected a {kind} model: give one{other}")
    return model


def refuse_other_options(ctx: typer.Context, model: Trained, settled: Mapping[str, tuple[Any, Any]]) -> None:
    """Raise if an option is given that says something else than the model was trained with.

    Each is named with what it says and with what holds for the model.
    """
    for name, (said, known) in settled.items():
        source = ctx.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT" and said != known:
            how = "without it" if known is None else f"with {known!r}"
            raise InputError(
                f"--{name.replace('_', '-')} is {ctx.params[name]!r}, but {model.path} was trained {how}, which --like "
                "takes over; expected the same: leave it out, or prepare the data without --like"
            )


def unknown_to(model: Trained, where: str, label: Any, mark: str | None = None) -> InputError:
    """Return the error of a label that a model does not know; `mark` is what stands for unknown ones."""
    marked = "" if mark is None else f", or {mark!r} where it is not known"
    return InputError(
        f"{where} has the label {label!r}, which {model.path} does not know; expected one of "
        f"{list_labels(model.estimator.task_.labels_.labels)}{marked}: correct it, leave all labels out with "
        "--unlabelled, or evaluate on the plain file with --allow-unknown"
    )


@dataclass(frozen=True)
class LikeModel:
    """Data that were looked through for a trained model: what is kept beside them, and the examples to write."""

    extra: dict[str, Any]
    blocks: Blocks


@dataclass(frozen=True)
class ChainLike:
    """A file of sentences that is gone through part by part with the columns and features of a model."""

    name: str
    model: Trained
    labelled: bool

    @property
    def record(self) -> ChainRecord:
        """What is kept beside the model."""
        found: ChainRecord = self.model.record
        return found

    def parts(self) -> "Iterator[ColumnSentences]":
        """Read the file."""
        from latentstruct.formats.blocks import read_conll_blocks

        record = self.record
        # Without its labels a file has other columns at their place, unless that is the last.
        by_place = self.labelled or record.label_column == record.n_columns - 1
        return read_conll_blocks(self.name, record.blank if by_place else {})

    def survey(self, progress: Progress) -> LikeModel:
        """Look through the file, or raise if it is not what the model reads."""
        n_examples = n_tokens = 0
        counts: Counter[str] = Counter()
        for part in self.parts():
            self.record.used_columns(part, self.name)
            if self.labelled:
                self._check_labels(part, n_examples)
                counts.update(part.columns[self.record.label_column])
            n_examples, n_tokens = n_examples + len(part), n_tokens + part.n_tokens
        unknown = self.record.unknown
        if self.labelled and counts.keys() == {unknown}:
            raise InputError(
                f"all labels of {self.name} are {unknown!r}, which stands for unknown ones; expected some known ones: "
                "label some tokens, or leave the labels out with --unlabelled"
            )
        progress.say(f"read {n_examples} sentences, {n_tokens} tokens from {self.name}: writing their features")
        task = self.model.estimator.task_
        sizes = {"n_tokens": n_tokens, "n_features": task.n_inputs_, "n_labels": len(task.labels_)}
        sizes |= {"n_unlabelled": counts[unknown]} if self.labelled and unknown is not None else {}
        record = replace(self.record, n_examples=n_examples, seconds=0.0)
        return LikeModel({"record": asdict(record), "sizes": sizes}, self._examples())

    def _check_labels(self, part: "ColumnSentences", n_before: int) -> None:
        """Raise unless the model knows all labels of some sentences, or that they are not known."""
        record, task = self.record, self.model.estimator.task_
        if part.n_columns != record.n_columns:
            raise FormatError(
                f"{self.name} has {count_columns(part.n_columns)}; expected {record.n_columns} with "
                f"{record.shown_label}: give labelled data, or add --unlabelled"
            )
        allowed = set(task.labels_.labels) | ({record.unknown} if task.latent else set())
        if allowed.issuperset(part.columns[record.label_column]):
            return
        for i, labels in enumerate(part.column(record.label_column), n_before + 1):
            for j, label in enumerate(labels, 1):
                if label in allowed:
                    continue
                where = f"{self.name}: token {j} of sentence {i}"
                if label == record.unknown:
                    raise InputError(
                        f"{where} is marked {label!r} as unknown, but {self.model.path} was trained with "
                        "--labelled-only, and a folder for it has known labels only; expected these: leave all labels "
                        "out with --unlabelled, or evaluate on the plain file"
                    )
                raise unknown_to(self.model, where, label, record.unknown)

    def _examples(self) -> Blocks:
        """Yield features and labels, −1 for unknown ones."""
        record, template = self.record, restore_features(self.model)
        for part in self.parts():
            labels: Any = None
            if self.labelled:
                lines = part.column(record.label_column)
                labels = [[-1 if label == record.unknown else label for label in line] for line in lines]
            yield template.transform(record.used_columns(part, self.name)), labels


def survey_classes(name: str, model: Trained, labelled: bool, progress: Progress) -> LikeModel:
    """Look through samples for a model of classes, or raise if they are not what it reads.

    A table is read whole, svmlight part by part.
    """
    from latentstruct.formats.text import extension

    record: ClassesRecord = model.record
    task = model.estimator.task_
    known, n_features = set(task.labels_.labels), task.n_inputs_
    if extension(name) in (".csv", ".tsv"):
        samples = read_table_like(name, model, labelled)
        n_samples, y = len(samples.y), None
        if labelled:
            y = as_known(samples.y.tolist(), known)
            wrong = next((i for i, label in enumerate(y) if label not in known), None)
            if wrong is not None:
                raise unknown_to(model, f"{name}: sample {wrong + 1}", y[wrong])
        blocks: Blocks = row_blocks(samples.X, y)
    else:
        n_samples, blocks = survey_svmlight_like(name, model, labelled)
    progress.say(f"read {n_samples} samples, {n_features} features from {name}: writing them")
    extra = {
        "record": asdict(replace(record, n_examples=n_samples, seconds=0.0)),
        "sizes": {"n_features": n_features, "n_labels": len(known)},
    }
    return LikeModel(extra, blocks)


def read_table_like(name: str, model: Trained, labelled: bool) -> "ClassData":
    """Read a table for a model of classes; what is wrong with one that lacks labels alone is said so."""
    n_features = model.estimator.task_.n_inputs_
    try:
        return read_samples(name, model.record, n_features, labelled)
    except InputError as error:
        try:
            read_samples(name, model.record, n_features, labelled=False)
        except InputError:
            raise error from None
        raise FormatError(
            f"{name} has the features of {model.path} and no labels; expected a column of these too: give labelled "
            "data, or add --unlabelled"
        ) from error


def survey_svmlight_like(name: str, model: Trained, labelled: bool) -> tuple[int, Blocks]:
    """Return how many samples svmlight lines have for a model of classes, and the samples."""
    from latentstruct.formats.blocks import read_svmlight_blocks, survey_svmlight

    task, zero_based = model.estimator.task_, model.record.zero_based
    known = set(task.labels_.labels)
    n_found, written, n_samples = survey_svmlight(name, zero_based)
    labels = dict(zip(written, as_known(list(written.values()), known), strict=True))

    def parts() -> Blocks:
        return read_svmlight_blocks(name, task.n_inputs_, labels, zero_based)

    if n_found > task.n_inputs_ or (labelled and not known.issuperset(labels.values())):
        # Once more through the file, to name the line of a feature or the sample of a label.
        for i, label in enumerate((label for _, some in parts() for label in some), 1):
            if labelled and label not in known:
                raise unknown_to(model, f"{name}: sample {i}", label)
    return n_samples, ((X, y if labelled else None) for X, y in parts())
