"""Data that need not fit into memory: prepared once, part by part, and used from a folder."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from typer import Option

from latentstruct.cli.common import check_folder, list_labels
from latentstruct.cli.kind import KindSpec, Loaded, Trained
from latentstruct.cli.options import ConvexOptions, JsonOption, QuietOption
from latentstruct.cli.run import sizes_in_words
from latentstruct.exceptions import FormatError, InputError
from latentstruct.progress.display import Progress, print_facts, print_json

if TYPE_CHECKING:
    from latentstruct.data.sharded import ShardedData

MANIFEST = "data.json"
Blocks = Iterator[tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """The options of preparing data for any kind; `files` names those that are read."""

    files: ClassVar[tuple[str, ...]] = ("data",)

    data: str | None
    output: Annotated[
        Path, Option("-o", "--output", metavar="FOLDER", help="Folder to write; replaces earlier prepared data.")
    ] = Path("prepared")
    like: Annotated[
        Path | None,
        Option(
            metavar="MODEL",
            help="Prepare with the labels and features of this trained model, for evaluate and predict.",
        ),
    ] = None
    unlabelled: Annotated[bool, Option("--unlabelled", help="With --like: leave labels out, which DATA may lack.")] = (
        False
    )
    shard_mb: Annotated[float, Option(min=0.1, help="Megabytes of a file in it.")] = 16.0
    quiet: QuietOption = False
    json: JsonOption = False
    given: frozenset[str] = field(default=frozenset(), repr=False)

    def check(self) -> None:
        """Raise before anything is read if the options do not fit together or a file cannot be read twice."""
        from latentstruct.data.shard_writing import folder_to_write
        from latentstruct.io.blocks import refuse_stream

        if self.unlabelled and self.like is None:
            raise InputError(
                "--unlabelled is given without --like; expected a trained model, which knows the labels: add --like "
                "MODEL, or leave it out"
            )
        names = [name for name in (getattr(self, file) for file in self.files) if name is not None]
        refuse_prepared(*names)
        for name in names:
            refuse_stream(name)
        check_folder(self.output, None, "prepared data are a folder")
        folder_to_write(self.output)


@dataclass(frozen=True)
class ToPrepare:
    """Data that were looked through: the task, what is kept beside them, their sizes, and the examples to write."""

    task: Any
    record: Any
    sizes: dict[str, int]
    blocks: Blocks


def prepare(kind: KindSpec, options: PrepareOptions) -> None:
    """Prepare data as the options say."""
    from latentstruct.data.sharded import ShardedData

    options.check()
    like = None if options.like is None else load_like(options.like, kind)
    if like is not None:
        refuse_other_options(options, like, kind.settled_by(options, like))
    found: ToPrepare = kind.prepare(options, like, Progress(options.quiet))
    extra = {"record": {"kind": kind.name, **asdict(found.record)}, "sizes": found.sizes}
    tell_prepared(ShardedData.write(options.output, found.task, found.blocks, options.shard_mb, extra), options.json)


def load_like(path: Path, kind: KindSpec) -> Trained:
    """Read the model that data are prepared for, or raise if it is none of the given kind."""
    from latentstruct.cli.registry import load_trained

    if path.is_file() or is_prepared(path):
        what = "a file" if path.is_file() else "a folder of prepared data"
        raise InputError(
            f"--like is {path}, {what}; expected a trained model: give the folder that latentstruct train wrote"
        )
    found, model = load_trained(path)
    if found.name != kind.name:
        other = f", or use latentstruct prepare {found.name}" if found.prepare_options is not None else ""
        raise InputError(f"--like is {path}, a {found.name} model; expected a {kind.name} model: give one{other}")
    return model


def refuse_other_options(options: PrepareOptions, model: Trained, settled: Mapping[str, tuple[Any, Any]]) -> None:
    """Raise if an option says something else than the model was trained with; each with its value and the model's."""
    for name, (said, known) in settled.items():
        if name in options.given and said != known:
            how = "without it" if known is None else f"with {known!r}"
            raise InputError(
                f"--{name.replace('_', '-')} is {getattr(options, name)!r}, but {model.path} was trained {how}, which "
                "--like takes over; expected the same: leave it out, or prepare the data without --like"
            )


def unknown_to(model: Trained, where: str, label: Any, mark: str | None = None) -> InputError:
    """Return the error of a label that a model does not know; `mark` is what stands for unknown ones."""
    marked = "" if mark is None else f", or {mark!r} where it is not known"
    return InputError(
        f"{where} has the label {label!r}, which {model.path} does not know; expected one of "
        f"{list_labels(model.labels)}{marked}: correct it, leave all labels out with --unlabelled, or evaluate on the "
        "plain file with --allow-unknown"
    )


def is_prepared(name: str | Path) -> bool:
    """Tell whether data are a folder that was prepared."""
    return os.path.isfile(os.path.join(name, MANIFEST))


@dataclass(frozen=True)
class PreparedData:
    """Prepared data, and what the command keeps beside them: the record of a model to be, and sizes to tell of."""

    data: "ShardedData"
    record: Any
    sizes: dict[str, int]


def open_prepared(folder: str, kind: str, record: type[Any]) -> PreparedData:
    """Open prepared data, or raise if they are not for this kind of model."""
    import msgspec

    from latentstruct.data.sharded import ShardedData

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


def require_labelled(data: "ShardedData", purpose: str) -> None:
    """Raise if prepared data have no labels."""
    if not data.labelled:
        raise InputError(
            f"{data.folder} was prepared without labels; expected some to {purpose}: prepare labelled data without "
            "--unlabelled"
        )


def load_prepared(kind: KindSpec, options: ConvexOptions, progress: Progress) -> Loaded:
    """Open a folder to train on."""
    prepared = open_prepared(options.source, kind.name, kind.record)
    data = prepared.data
    require_labelled(data, "train on")
    progress.say(f"found {data.n_examples} examples in {len(data.sizes)} files of {options.data}")
    task: Any = data.task
    estimator = options.estimator(task, data.n_examples, bool(task.latent), stored=True)
    labels = frozenset(task.labels_.labels)
    return Loaded(data, None, estimator, prepared.sizes, prepared.record, task.n_inputs_, labels)


def open_for(model: Trained, kind: KindSpec, folder: str, labelled: bool = True) -> "ShardedData":
    """Open prepared data for a trained model, or raise if they were not prepared with its features and labels.

    If `labelled`, the data must have labels to compare predictions with.
    """
    from latentstruct.core.validation import copied
    from latentstruct.estimators.stored import adopt

    prepared = open_prepared(folder, kind.name, kind.record)
    task = copied(model.estimator.task_)
    adopt(task, prepared.data)
    alike = replace(prepared.record, n_examples=model.record.n_examples, seconds=model.record.seconds)
    if alike != model.record or task.learned_state() != model.estimator.task_.learned_state():
        raise InputError(
            f"{folder} was prepared with other features or labels than {model.path} was trained with; expected the "
            f"same: prepare the data again with --like {model.path}, or use the plain file"
        )
    if labelled:
        require_labelled(prepared.data, "compare with")
    return prepared.data


def refuse_prepared(*names: str | None) -> None:
    """Raise if one of the files that are to be read is a folder of prepared data."""
    for name in names:
        if name is not None and is_prepared(name):
            raise InputError(
                f"{name} is a folder of prepared data; expected a plain file here: give the file it was prepared from"
            )


def refuse_options(options: Any, names: Sequence[str]) -> None:
    """Raise if an option is given that the prepared data to train on have settled."""
    usual = {one.name: one.default for one in fields(options)}
    for name in names:
        value = getattr(options, name)
        if value != usual[name]:
            raise InputError(
                f"--{name.replace('_', '-')} is {value or repr(value)}, but {options.data} is prepared already; "
                "expected it with latentstruct prepare: leave it out, or prepare the data again"
            )


def describe_prepared(data: "ShardedData") -> dict[str, Any]:
    """Return what prepared data are."""
    from latentstruct.cli.registry import find_kind

    extra = data.extra if isinstance(data.extra, dict) else {}
    record, sizes = extra.get("record"), extra.get("sizes")
    kind = find_kind(record)
    counted = kind is None or kind.weights_follow_from_data
    return {
        "data": str(data.folder),
        "kind": record.get("kind") if isinstance(record, dict) else None,
        "task": type(data.task).__name__,
        "n_examples": data.n_examples,
        **(sizes if isinstance(sizes, dict) else {}),
        **({"n_weights": data.task.n_features} if counted else {}),
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
    print_facts(
        [
            ("data", f"{result['data']} ({result['kind'] or 'no kind'}, {result['task']})"),
            ("sizes", sizes_in_words(result)),
            ("on disk", f"{result['bytes'] / 2**20:.1f} MB"),
            ("outputs", "known" if result["labelled"] else "not known"),
            ("checksum", result["digest"]),
        ]
    )
