"""Prepare samples with one class each."""

from dataclasses import replace
from typing import Any

from latentstruct import io
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.classes.command import TABLES, ClassesPrepareOptions, ClassesRecord, as_known, read_samples
from latentstruct.cli.prepared import Blocks, ToPrepare, unknown_to
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io import blocks as parts_of_files
from latentstruct.io import read_classes
from latentstruct.io.blocks import read_svmlight_blocks, survey_svmlight
from latentstruct.io.text import extension
from latentstruct.progress.display import Progress
from latentstruct.tasks import Multiclass
from latentstruct.tasks.labels import LabelSet


def prepare(options: ClassesPrepareOptions, like: Trained | None, progress: Progress) -> ToPrepare:
    """Survey samples: a table is read as a whole, svmlight part by part."""
    if like is not None:
        return _prepare_like(options, like, progress)
    names, (data, label, zero_based) = None, (options.data, options.label, options.zero_based)
    if label is not None or extension(data) in TABLES:
        samples = read_classes(data, label=label, zero_based=zero_based)
        names, y, (n_samples, n_features) = samples.feature_names, samples.y.tolist(), samples.X.shape
        labels, blocks = dict.fromkeys(y), _row_blocks(samples.X, y)
    else:
        n_features, written, n_samples = survey_svmlight(data, zero_based)
        labels, blocks = dict.fromkeys(written.values()), read_svmlight_blocks(data, n_features, written, zero_based)
    progress.say(f"read {n_samples} samples, {n_features} features from {data}: writing them")
    task = Multiclass()
    task.restore({"labels": LabelSet.learn(labels).labels, "n_inputs": n_features})
    record = ClassesRecord(feature_names=names, label=label, zero_based=zero_based, n_examples=n_samples)
    return ToPrepare(task, record, {"n_features": n_features, "n_labels": len(labels)}, blocks)


def _row_blocks(X: Any, y: Any) -> Blocks:
    """Yield samples that are in memory block by block; y is None if classes are unknown."""
    for start in range(0, X.shape[0], parts_of_files.SAMPLES):
        part = slice(start, start + parts_of_files.SAMPLES)
        yield X[part], None if y is None else y[part]


def _prepare_like(options: ClassesPrepareOptions, model: Trained, progress: Progress) -> ToPrepare:
    """Survey samples for a model; raise if it cannot read them."""
    name, labeled = options.data, not options.unlabeled
    if extension(name) in TABLES:
        samples = _read_table_like(name, model, labeled)
        n_samples, y = len(samples.y), None
        if labeled:
            y = as_known(samples.y.tolist(), model.labels)
            wrong = next((i for i, label in enumerate(y) if label not in model.labels), None)
            if wrong is not None:
                raise unknown_to(model, f"{name}, sample {wrong + 1}", y[wrong])
        blocks = _row_blocks(samples.X, y)
    else:
        n_samples, blocks = _survey_svmlight_like(name, model, labeled)
    progress.say(f"read {n_samples} samples, {model.features} features from {name}: writing them")
    sizes = {"n_features": model.features, "n_labels": len(model.labels)}
    return ToPrepare(model.estimator.task_, replace(model.record, n_examples=n_samples, seconds=0.0), sizes, blocks)


def _read_table_like(name: str, model: Trained, labeled: bool) -> "io.ClassData":
    """Read a table for a model, with an error of its own for one that only lacks labels."""
    try:
        return read_samples(name, model.record, model.features, labeled)
    except InputError as error:
        try:
            read_samples(name, model.record, model.features, labeled=False)
        except InputError:
            raise error from None
        expected = "a column of labels, as in training"
        raise FormatError(name, Description("features only"), expected, "Add labels, or use `unlabeled`.") from error


def _survey_svmlight_like(name: str, model: Trained, labeled: bool) -> tuple[int, Blocks]:
    """Return the number of svmlight samples for a model, and the samples."""
    zero_based, known = model.record.zero_based, model.labels
    n_found, written, n_samples = survey_svmlight(name, zero_based)
    labels = dict(zip(written, as_known(list(written.values()), known), strict=True))

    def parts() -> Blocks:
        return read_svmlight_blocks(name, model.features, labels, zero_based)

    if n_found > model.features or (labeled and not known.issuperset(labels.values())):
        # Read the file again to name the line of a feature or the sample of a label.
        for i, label in enumerate((label for _, some in parts() for label in some), 1):
            if labeled and label not in known:
                raise unknown_to(model, f"{name}, sample {i}", label)
    return n_samples, ((X, y if labeled else None) for X, y in parts())
