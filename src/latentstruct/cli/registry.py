"""The kinds of models, each loaded when it is needed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from latentstruct.cli.kind import KindSpec, Trained
from latentstruct.cli.lazy import models
from latentstruct.exceptions import InputError

NAMES = (
    "chain",
    "segments",
    "classes",
    "motif",
    "coreference",
    "rank",
    "segment",
    "detect",
    "graph",
    "measure",
    "align",
    "parse",
    "diverse",
    "cluster",
    "program",
)
"""The folders of `latentstruct.cli.kinds`, in the order of the help."""


class _Kinds(Mapping[str, KindSpec]):
    """Kinds by their names."""

    def __getitem__(self, name: str) -> KindSpec:
        if name not in NAMES:
            raise KeyError(name)
        found: KindSpec = import_module(f"latentstruct.cli.kinds.{name}.command").KIND
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


KINDS = _Kinds()


def find_kind(extra: Any) -> KindSpec | None:
    """Return the kind of model of a record, None if there is none."""
    return KINDS.get(str(extra.get("kind"))) if isinstance(extra, dict) else None


def not_trained(path: Path) -> InputError:
    """Return the error of a model that was saved from Python."""
    hint = "How its files are read is not known. Use it from Python, with latentstruct.load and write_report."
    return InputError("model", str(path), "a model of latentstruct train", hint)


def load_trained(path: Path) -> tuple[KindSpec, Trained]:
    """Read a model that `latentstruct train` wrote."""
    return restore_trained(models.read_files(path))


def restore_trained(files: "models.ModelFiles") -> tuple[KindSpec, Trained]:
    """Return a model that `latentstruct train` wrote and whose files are read."""
    import msgspec

    path, extra = files.folder, files.settings.extra
    kind = find_kind(extra)
    if kind is None:
        raise not_trained(path)
    try:
        record: Any = msgspec.convert(extra, kind.record)
    except msgspec.ValidationError as error:
        raise Trained(path, None, None).damaged(str(error)) from error
    model = Trained(path, models.restore_model(files), record)
    if type(model.estimator.task_).__name__ not in kind.tasks or not kind.fits(model):
        raise model.damaged("its parts do not belong together")
    return kind, replace(model, features=kind.restore(model), labels=kind.known_labels(model.estimator))
