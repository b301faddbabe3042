"""The kinds of models the command knows."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latentstruct.cli.align import AlignKind
from latentstruct.cli.chain import ChainKind
from latentstruct.cli.classes import ClassesKind
from latentstruct.cli.cluster import ClusterKind
from latentstruct.cli.coreference import CoreferenceKind
from latentstruct.cli.detect import DetectKind
from latentstruct.cli.diverse import DiverseKind
from latentstruct.cli.graph import GraphKind
from latentstruct.cli.kind import KindSpec, Trained
from latentstruct.cli.kinds.rank.command import KIND as RANK
from latentstruct.cli.measure import MeasureKind
from latentstruct.cli.motif import MotifKind
from latentstruct.cli.old_kinds import Kind
from latentstruct.cli.parse import ParseKind
from latentstruct.cli.segment import SegmentKind
from latentstruct.exceptions import FormatError, InputError

if TYPE_CHECKING:
    from latentstruct.persistence import ModelFiles

KINDS: dict[str, KindSpec] = {
    kind.name: kind
    for kind in (
        ChainKind(),
        ClassesKind(),
        MotifKind(),
        CoreferenceKind(),
        RANK,
        SegmentKind(),
        DetectKind(),
        GraphKind(),
        MeasureKind(),
        AlignKind(),
        ParseKind(),
        DiverseKind(),
        ClusterKind(),
    )
}


def find_kind(extra: Any) -> KindSpec | None:
    """Return the kind of model a record beside it names, None if there is no such record."""
    return KINDS.get(str(extra.get("kind"))) if isinstance(extra, dict) else None


def load_trained(path: Path) -> tuple[KindSpec, Trained]:
    """Read a model that `latentstruct train` wrote."""
    from latentstruct.persistence import read_files

    return restore_trained(read_files(path))


def restore_trained(files: "ModelFiles") -> tuple[KindSpec, Trained]:
    """Return a model that `latentstruct train` wrote and whose files are read."""
    import msgspec

    from latentstruct.persistence import restore_model

    path, extra = files.folder, files.settings.extra
    kind = find_kind(extra)
    if kind is None:
        raise InputError(
            f"{path} was not written by latentstruct train, so how to read files for it is not known: "
            "use it from Python with latentstruct.load, or train it with the command"
        )
    try:
        record: Any = msgspec.convert(extra, kind.record)
    except msgspec.ValidationError as error:
        raise FormatError(f"{path} is damaged ({error}): copy the model again or train again") from error
    model = Trained(path, restore_model(files), record)
    if not _fits(kind, model):
        raise model.damaged("its parts do not belong together")
    return kind, replace(model, features=kind.restore(model), labels=kind.known_labels(model.estimator))


def _fits(kind: KindSpec, model: Trained) -> bool:
    """Tell whether estimator and record belong together."""
    if isinstance(kind, Kind):
        return kind.fits(model)
    return type(model.estimator.task_).__name__ in kind.tasks and kind.fits(model)
