"""Data that need not fit into memory: prepared once, part by part, and used from a folder."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from latentstruct.cli.common import NOTHING, check_folder, is_prepared, list_labels, refuse_prepared
from latentstruct.cli.declaring import json_option, option, quiet_option
from latentstruct.cli.kind import KindSpec, Loaded, Trained, damage
from latentstruct.cli.lazy import sharded
from latentstruct.cli.options import ConvexOptions
from latentstruct.cli.run import sizes_in_words
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.progress.display import Progress, print_facts, print_json

Blocks = Iterator[tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """The options of preparing data for any kind; `files` names those that are read."""

    files: ClassVar[tuple[str, ...]] = ("data",)

    data: str | None
    output: Path = option(
        Path("prepared"),
        "Folder to write; replaces earlier prepared data.",
        "-o",
        "--output",
        metavar="FOLDER",
        sets="folder",
    )
    like: Path | None = option(
        None,
        "Use the labels and features of this trained model, for evaluate and predict.",
        metavar="MODEL",
        sets="model",
    )
    unlabeled: bool = option(False, "With --like: leave labels out, which DATA may lack.")
    shard_mb: float = option(16.0, "Size of a file of the folder in megabytes.", min=0.1)
    quiet: bool = quiet_option()
    json: bool = json_option()
    given: frozenset[str] = field(default=frozenset(), repr=False)

    def check(self) -> None:
        """Raise before anything is read if options contradict each other or a file cannot be read twice."""
        from latentstruct.data.shard_writing import folder_to_write
        from latentstruct.io.blocks import refuse_stream

        if self.unlabeled and self.like is None:
            raise InputError("like", NOTHING, "given with `unlabeled`")
        files = {name: getattr(self, name) for name in self.files if getattr(self, name) is not None}
        refuse_prepared(**files)
        for file in files.values():
            refuse_stream(file)
        check_folder(self.output)
        folder_to_write(self.output)


@dataclass(frozen=True)
class ToPrepare:
    """Data that were surveyed: the task, what is saved beside them, their sizes, and the examples to write."""

    task: Any
    record: Any
    sizes: dict[str, int]
    blocks: Blocks


def prepare(kind: KindSpec, options: PrepareOptions) -> None:
    """Prepare data."""
    options.check()
    like = None if options.like is None else _load_like(options.like, kind)
    if like is not None:
        _refuse_other_options(options, like, kind.settled_by(options, like))
    found: ToPrepare = kind.prepare(options, like, Progress(options.quiet))
    extra = {"record": {"kind": kind.name, **asdict(found.record)}, "sizes": found.sizes}
    show_prepared(
        sharded.ShardedData.write(options.output, found.task, found.blocks, options.shard_mb, extra), options.json
    )


def _load_like(path: Path, kind: KindSpec) -> Trained:
    """Read the model that data are prepared for, or raise if it is of another kind."""
    from latentstruct.cli.registry import load_trained

    if path.is_file() or is_prepared(path):
        raise InputError("like", str(path), "the folder of a trained model")
    found, model = load_trained(path)
    if found.name != kind.name:
        raise InputError("like", Description(f"a {found.name} model, {path}"), f"a {kind.name} model")
    return model


def _refuse_other_options(options: PrepareOptions, model: Trained, settled: Mapping[str, tuple[Any, Any]]) -> None:
    """Raise if an option differs from what the model was trained with."""
    for name, (given, known) in settled.items():
        if name in options.given and given != known:
            expected = "left out with `like`" if known is None else f"left out with `like`, or {known!r}"
            hint = f"{model.path} was trained {'without it' if known is None else 'with that'}."
            raise InputError(name, getattr(options, name), expected, hint)


def unknown_to(model: Trained, where: str, label: Any, mark: str | None = None) -> FormatError:
    """Return the error of a label that a model does not know; `mark` marks unknown labels."""
    marked = "" if mark is None else f" or {mark!r}"
    hint = "Correct it, leave labels out with `unlabeled`, or evaluate on the plain file with --allow-unknown."
    return FormatError(where, label, f"a label of {model.path} ({list_labels(model.labels)}){marked}", hint)


@dataclass(frozen=True)
class PreparedData:
    """Prepared data, the record of a model trained on them, and their sizes."""

    data: "sharded.ShardedData"
    record: Any
    sizes: dict[str, int]


def open_prepared(folder: str, kind: str, record: type[Any]) -> PreparedData:
    """Open prepared data, or raise if they are not for this kind of model."""
    import msgspec

    data = sharded.ShardedData(folder)
    extra = data.extra if isinstance(data.extra, dict) else {}
    found = extra.get("record")
    name = found.get("kind") if isinstance(found, dict) else None
    if name != kind:
        got = "data that were written from Python" if name is None else f"data prepared for {name}"
        raise InputError("data", Description(f"{got}, {folder}"), f"data of latentstruct prepare {kind}")
    try:
        sizes = msgspec.convert(extra.get("sizes"), dict[str, int])
        kept: Any = msgspec.convert(found, record)
    except msgspec.ValidationError as error:
        raise damaged_data(folder, str(error)) from error
    return PreparedData(data, kept, {"n_examples": data.n_examples, **sizes})


def damaged_data(folder: str, why: str) -> FormatError:
    """Return the error of prepared data whose parts contradict each other."""
    return FormatError(folder, damage("damaged ones", why), "prepared data", "Prepare the data again.")


def require_labels(data: "sharded.ShardedData") -> None:
    """Raise if prepared data have no labels."""
    if not data.labeled:
        hint = "The data were prepared with --unlabeled."
        raise InputError("data", str(data.folder), "prepared data with labels", hint)


def load_prepared(kind: KindSpec, options: ConvexOptions, progress: Progress) -> Loaded:
    """Open a folder to train on."""
    prepared = open_prepared(options.source, kind.name, kind.record)
    data = prepared.data
    require_labels(data)
    progress.say(f"found {data.n_examples} examples in {len(data.sizes)} files of {options.data}")
    task: Any = data.task
    estimator = options.estimator(task, data.n_examples, bool(task.latent), stored=True)
    labels = frozenset(task.labels_.labels)
    return Loaded(data, None, estimator, prepared.sizes, prepared.record, task.n_inputs_, labels)


def open_for(model: Trained, kind: KindSpec, folder: str, labeled: bool = True) -> "sharded.ShardedData":
    """Open prepared data for a trained model, or raise if they were not prepared with its features and labels.

    If `labeled`, the data must have labels to compare predictions with.
    """
    from latentstruct.core.validation import copied
    from latentstruct.estimators.stored import adopt

    prepared = open_prepared(folder, kind.name, kind.record)
    task = copied(model.estimator.task_)
    adopt(task, prepared.data)
    alike = replace(prepared.record, n_examples=model.record.n_examples, seconds=model.record.seconds)
    if alike != model.record or task.learned_state() != model.estimator.task_.learned_state():
        expected = f"data prepared with the features and labels of {model.path}"
        raise InputError("data", folder, expected, f"Prepare the data again with --like {model.path}.")
    if labeled:
        require_labels(prepared.data)
    return prepared.data


def describe_prepared(data: "sharded.ShardedData") -> dict[str, Any]:
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
        "labeled": data.labeled,
        "digest": data.digest,
    }


def show_prepared(data: "sharded.ShardedData", json: bool) -> None:
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
            ("outputs", "known" if result["labeled"] else "not known"),
            ("checksum", result["digest"]),
        ]
    )
