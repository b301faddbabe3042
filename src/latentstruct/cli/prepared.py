"""Training from a folder that `latentstruct prepare` wrote, and what is told of it."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latentstruct.cli.common import check_folder
from latentstruct.cli.old_kinds import Kind, Trained
from latentstruct.cli.old_options import Choices, Model, SolverName
from latentstruct.cli.training import Training, source_of
from latentstruct.exceptions import FormatError, InputError
from latentstruct.progress import Progress, print_facts, print_json

if TYPE_CHECKING:
    from latentstruct.sharded_data import ShardedData

MANIFEST = "data.json"
WEIGHTS_CHOSEN_LATER = ("classes", "motif")
"""Kinds whose number of weights follows from options of training."""


def is_prepared(name: str | Path) -> bool:
    """Tell whether data are a folder that was prepared."""
    return os.path.isfile(os.path.join(name, MANIFEST))


def check_data_folder(folder: Path) -> None:
    """Raise unless prepared data can be written to the folder: it is new, empty, or holds such data."""
    from latentstruct.shard_writing import folder_to_write

    check_folder(folder, None, "prepared data are a folder")
    folder_to_write(folder)


@dataclass(frozen=True)
class PreparedData:
    """Prepared data, and what the command keeps beside them: the record of a model to be, and sizes to tell of."""

    data: "ShardedData"
    record: Any
    sizes: dict[str, int]


def open_prepared(folder: str, kind: str, record: type) -> PreparedData:
    """Open prepared data, or raise if they are not for this kind of model."""
    import msgspec

    from latentstruct.sharded_data import ShardedData

    data = ShardedData(folder)
    extra = data.extra if isinstance(data.extra, dict) else {}
    found = extra.get("record")
    name = found.get("kind") if isinstance(found, dict) else None
    if name is None:
        raise InputError(
            f"{folder} was not written by latentstruct prepare, so how to read files for it is not known: use it from "
            "Python with ShardedData(folder), or prepare it with the command"
        )
    if name != kind:
        raise InputError(
            f"{folder} was prepared for {name}, not for {kind}: give data prepared for {kind}, or use it with "
            f"latentstruct train {name}"
        )
    try:
        sizes = msgspec.convert(extra.get("sizes"), dict[str, int])
        kept: Any = msgspec.convert(found, record)
    except msgspec.ValidationError as error:
        raise FormatError(f"{folder} is damaged ({error}): prepare the data again") from error
    return PreparedData(data, kept, {"n_examples": data.n_examples, **sizes})


def require_labelled(data: "ShardedData", folder: str, purpose: str) -> None:
    """Raise if prepared data have no labels."""
    if not data.labelled:
        raise InputError(
            f"{folder} was prepared without labels; expected some to {purpose}: prepare labelled data without "
            "--unlabelled"
        )


def open_for(model: Trained, folder: str, labelled: bool = True) -> "ShardedData":
    """Open prepared data for a trained model, or raise if they were not prepared with its features and labels.

    If `labelled`, the data must have labels to compare predictions with.
    """
    from latentstruct.checks import copied
    from latentstruct.estimators.stored import adopt

    prepared = open_prepared(folder, model.record.kind, type(model.record))
    task = copied(model.estimator.task_)
    adopt(task, prepared.data)
    alike = replace(prepared.record, n_examples=model.record.n_examples, seconds=model.record.seconds)
    if alike != model.record or task.learned_state() != model.estimator.task_.learned_state():
        raise InputError(
            f"{folder} was prepared with other features or labels than {model.path} was trained with; expected the "
            f"same: prepare the data again with --like {model.path}, or use the plain file"
        )
    if labelled:
        require_labelled(prepared.data, folder, "compare with")
    return prepared.data


def refuse_prepared(*names: str | None) -> None:
    """Raise if one of the files that are to be read is a folder of prepared data."""
    for name in names:
        if name is not None and is_prepared(name):
            raise InputError(
                f"{name} is a folder of prepared data; expected a plain file here: give the file it was prepared from"
            )


def refuse_options(folder: str, given: dict[str, tuple[Any, Any]]) -> None:
    """Raise if an option is given that prepared data have settled; each is named with its value and the usual one."""
    for name, (value, usual) in given.items():
        if value != usual:
            raise InputError(
                f"{name} is {value or repr(value)}, but {folder} is prepared already; expected it with latentstruct "
                "prepare: leave it out, or prepare the data again"
            )


def describe_prepared(data: "ShardedData") -> dict[str, Any]:
    """Return what prepared data are."""
    extra = data.extra if isinstance(data.extra, dict) else {}
    record, sizes = extra.get("record"), extra.get("sizes")
    name = record.get("kind") if isinstance(record, dict) else None
    return {
        "data": str(data.folder),
        "kind": name,
        "task": type(data.task).__name__,
        "n_examples": data.n_examples,
        **(sizes if isinstance(sizes, dict) else {}),
        **({} if name in WEIGHTS_CHOSEN_LATER else {"n_weights": data.task.n_features}),
        "n_files": len(data.sizes),
        "bytes": data.n_bytes,
        "labelled": data.labelled,
        "digest": data.digest,
    }


def tell_prepared(data: "ShardedData", json: bool) -> None:
    """Print what prepared data are."""
    result = describe_prepared(data)
    if json:
        print_json(result)
        return
    sizes = [f"{value} {name[2:]}" for name, value in result.items() if name.startswith("n_")]
    facts = [
        ("data", f"{result['data']} ({result['kind'] or 'no kind'}, {result['task']})"),
        ("sizes", ", ".join(sizes)),
        ("on disk", f"{result['bytes'] / 2**20:.1f} MB"),
        ("outputs", "known" if result["labelled"] else "not known"),
        ("checksum", result["digest"]),
    ]
    print_facts(facts)


@dataclass(frozen=True)
class PreparedTraining:
    """What a training from a folder is given besides the folder.

    Parameters
    ----------
    kind : Kind
        What is trained.
    choices : Choices
        How.
    score : function of estimator, held-out data and record
        Returns the quality of predictions.
    read_valid : function of PreparedData, name and whether unknown labels are allowed
        Reads held-out data as a model that is trained on the folder would.
    valid : str, optional
        Held-out data.
    allow_unknown : bool
        Whether labels that the model does not know count as wrong.
    report : path, optional
        The page to write.
    """

    kind: Kind
    choices: Choices
    score: Callable[[Any, Any, Any], dict[str, Any]]
    read_valid: Callable[[PreparedData, str, bool], Any]
    valid: str | None
    allow_unknown: bool
    report: Path | None

    def _choices(self, latent: bool) -> Choices:
        """Return how to train: the solver is that for examples in files, whose seed changes nothing."""
        undecided = self.choices.solver is SolverName.auto and self.choices.model is Model.svm and not latent
        return replace(self.choices, seed=0) if undecided else self.choices

    def run(self, folder: str, task: Callable[[PreparedData], Any], progress: Progress, json: bool) -> None:
        """Train, save and report."""
        prepared = open_prepared(folder, self.kind.name, self.kind.record)
        require_labelled(prepared.data, folder, "train on")
        held_out = None
        if self.valid is not None:
            held_out = self.read_valid(prepared, self.valid, self.allow_unknown)
        progress.say(f"found {prepared.data.n_examples} examples in {len(prepared.data.sizes)} files of {folder}")
        latent = bool(prepared.data.task.latent)
        estimator = self._choices(latent).estimator(task(prepared), prepared.data.n_examples, latent)

        def record(_: Any, seconds: float) -> Any:
            return replace(prepared.record, seconds=seconds)

        def examples(trained: Trained) -> Any:
            return self.kind.examples(trained, held_out, source_of(self.valid, folder))

        training = Training(self.kind, self.choices.output, estimator, prepared.data, None, prepared.sizes, record)
        if held_out is not None:
            training.score, training.examples = (
                (lambda trained: self.score(trained, held_out, prepared.record)),
                examples,
            )
        training.report = self.report
        training.run(progress, json)
