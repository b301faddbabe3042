"""Models that put samples into classes."""

from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latentstruct import io, tasks
from latentstruct.cli.common import is_prepared, refuse_prepared, unknown_label, write_lines
from latentstruct.cli.declaring import argument, option
from latentstruct.cli.description import strongest_weights
from latentstruct.cli.kind import LABEL_WEIGHTS, KindSpec, Loaded, Record, Trained, with_calibration
from latentstruct.cli.lazy import aligned_letters, fasta
from latentstruct.cli.options import ConvexOptions, HeldOut, LabelOptions
from latentstruct.cli.parameters import AUTO
from latentstruct.cli.prepared import PrepareOptions, open_for
from latentstruct.core.lazy import np
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.text import FilePath, KeptInput, extension
from latentstruct.metrics.counts import FoundScore
from latentstruct.progress.display import Progress, print_table, show_percent

if TYPE_CHECKING:
    from latentstruct.features.aligned_letters import AlignedLetters

TABLES = (".csv", ".tsv")
FASTA = (".fa", ".fasta", ".fna", ".faa")
bias_option = partial(option, 1.0, "Value of a constant feature; 0 for none.")
label_option = partial(option, None, "Name of the label column of a table.", metavar="NAME", shown="the last")
zero_based_option = partial(option, False, "Svmlight indices start at 0.")
Samples = tuple[Any, list[Any]]


@dataclass(frozen=True, kw_only=True)
class ClassesOptions(ConvexOptions, LabelOptions):
    """Train on samples with one class each.

    The default is a multiclass SVM.

    FASTA of aligned sequences of equal length, such as splice sites, has the class in its headers, as in >name
    label=donor. The features are the letter at each position and the pair of neighbors at each two; C is chosen by
    folds unless it is given.

    Examples: latentstruct train classes train.svm -C 0.1 --valid test.svm -o classifier; latentstruct train classes
    sites.fa -o sites
    """

    data: str = argument(
        "A .csv or .tsv table, FASTA (.fa, .fasta, .fna, .faa), svmlight, or a folder of prepared data; - is standard "
        "input."
    )
    bias: float = bias_option()
    label: str | None = label_option()
    zero_based: bool = zero_based_option()
    single_letters: bool = option(False, "For FASTA: use single letters only, not pairs of neighbors.")

    def __post_init__(self) -> None:
        if extension(self.data) in FASTA and self.C is None and self.model != "perceptron":
            object.__setattr__(self, "C", AUTO)

    def check(self) -> None:
        super().check()
        if self.single_letters and extension(self.data) not in FASTA:
            raise InputError("single_letters", True, "left out unless `data` is FASTA")


@dataclass(frozen=True, kw_only=True)
class ClassesPrepareOptions(PrepareOptions):
    """Prepare samples for latentstruct train classes.

    Svmlight is read twice, part by part: to learn the labels and the number of features, and to write the samples. A
    table is read as a whole, which takes up to 16 bytes of memory per number; training from the folder then needs
    memory for one of its files only.

    With --like MODEL, labels, features and columns are those of the model, for latentstruct evaluate and predict.
    Labels and features that the model does not know are an error.

    Examples: latentstruct prepare classes train.svm -o prepared; latentstruct prepare classes test.csv --like
    classifier -o test
    """

    data: str = argument("File of svmlight lines, which is read twice, or a .csv or .tsv table.")
    label: str | None = label_option()
    zero_based: bool = zero_based_option()


@dataclass(frozen=True, kw_only=True)
class ClassesRecord(Record):
    """The record of a classifier: how its files were read."""

    feature_names: list[str] | None
    label: str | None
    zero_based: bool
    letters: str | None = None
    length: int = 0
    pairs: bool = False

    @property
    def aligned(self) -> "AlignedLetters | None":
        """The features of aligned sequences, if it was trained on such."""
        return None if self.letters is None else aligned_letters.AlignedLetters(self.length, self.letters, self.pairs)

    def names_inputs(self, n_inputs: int) -> bool:
        """Return whether the features have one name each, or none at all."""
        names = self.feature_names
        return names is None or len(set(names)) == n_inputs == len(names)

    def feature_name(self, k: int) -> str:
        """Return the name of an input of the model."""
        return f"feature {k + 1 - self.zero_based}" if self.feature_names is None else self.feature_names[k]


class ClassesKind(KindSpec):
    """One class per sample."""

    name = "classes"
    item = "sample"
    summary = "Put samples into one of several classes."
    reads = (
        "A table (.csv, .tsv) with a header and the class in the last column, svmlight lines such as 2 1:0.5 3:1, or "
        "FASTA of aligned sequences with label=CLASS in the headers."
    )
    example_file = "classes.csv"
    predicts = "Classes: one label per line; a column of labels is ignored and may be missing."
    judged_by = "Classes: accuracy, and precision, recall and the most frequent confusion of each class."
    options = ClassesOptions
    record = ClassesRecord
    tasks = ("Multiclass",)
    calibrates = True
    judged_on = frozenset({"data", "allow_unknown"})
    score_facts = (("samples", "{n_examples}, {accuracy:%} correct"),)
    headline = (("accuracy", "accuracy"),)
    main = ("accuracy",)
    tables = (LABEL_WEIGHTS,)
    prepare_options = ClassesPrepareOptions
    settled_options = ("label", "zero_based")

    def load(self, options: ClassesOptions, progress: Progress) -> Loaded:
        aligned: AlignedLetters | None = None
        if extension(options.data) in FASTA:
            samples, aligned = read_aligned(options)
        else:
            samples = io.read_classes(options.data, label=options.label, zero_based=options.zero_based)
        n_samples, n_features = samples.X.shape
        progress.say(f"read {n_samples} samples, {n_features} features from {options.data}")
        y = samples.y.tolist()
        if len(set(y)) < 2:
            raise FormatError(options.source, Description(f"{y[0]!r} for all samples"), "at least 2 labels")
        record = ClassesRecord(
            feature_names=samples.feature_names,
            label=options.label,
            zero_based=options.zero_based,
            n_examples=n_samples,
            **({} if aligned is None else aligned._asdict()),
        )
        sizes = {"n_examples": n_samples, "n_features": n_features, "n_labels": len(set(y))}
        estimator = options.estimator(tasks.Multiclass(bias=options.bias), n_samples)
        return Loaded(samples.X, samples.y, estimator, sizes, record, n_features, frozenset(y), (samples.X, y))

    def load_prepared(self, options: ClassesOptions, progress: Progress) -> Loaded:
        loaded = super().load_prepared(options, progress)
        loaded.estimator.task.set_params(bias=options.bias)
        return loaded

    def fits(self, model: Trained) -> bool:
        return bool(model.record.names_inputs(model.estimator.task_.n_inputs_))

    def restore(self, model: Trained) -> int:
        return int(model.estimator.task_.n_inputs_)

    def read(self, model: Trained, held_out: HeldOut) -> Samples:
        name = held_out.data or ""
        samples = read_samples(name, model.record, model.features, labeled=True)
        y = as_known(samples.y.tolist(), model.labels)
        for i, label in enumerate(y, 1):
            if not held_out.allow_unknown and label not in model.labels:
                raise unknown_label(f"{name}, sample {i}", label, model.labels)
        return samples.X, y

    def settled_by(self, options: Any, like: Trained) -> dict[str, tuple[Any, Any]]:
        record = like.record
        return {"label": (options.label, record.label), "zero_based": (options.zero_based, record.zero_based)}

    def find(self, model: Trained, data: Samples) -> Any:
        return model.estimator.predict(data[0]).tolist()

    def labeled_examples(self, model: Trained, data: Samples) -> tuple[Any, Any]:
        return data

    def compare(self, model: Trained, data: Samples, found: list[Any]) -> dict[str, Any]:
        truth = data[1]
        confusion = Counter(zip(truth, found, strict=True))
        n_true, n_predicted = Counter(truth), Counter(found)
        classes = []
        for label in dict.fromkeys([*model.estimator.task_.labels_.labels, *truth]):
            wrong = Counter({b: count for (a, b), count in confusion.items() if a == label != b})
            most, count = next(iter(wrong.most_common(1)), (None, 0))
            scores = FoundScore.of_counts(n_true[label], n_predicted[label], confusion[label, label])
            classes.append({"label": label, **asdict(scores), "mostly_taken_for": most, "n_taken_for": count})
        right = sum(confusion[label, label] for label in n_true)
        return {"n_examples": len(truth), "accuracy": right / len(truth), "classes": classes}

    def score_prepared(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        data = open_for(model, self, held_out.data or "")
        truth = [label for batch in data.batches for label in data.task.true_outputs(batch).tolist()]
        stored = data, truth
        return with_calibration(self.score(model, stored), self.reliability(model, stored))

    def predict(self, model: Trained, data: str, output: str) -> None:
        if is_prepared(data):
            X: Any = open_for(model, self, data, labeled=False)
        else:
            X = read_samples(data, model.record, model.features, labeled=False).X
        write_lines(output, [str(label) for label in model.estimator.predict(X).tolist()])

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        rows = []
        for one in scores["classes"]:
            taken = f"{one['mostly_taken_for']} ({one['n_taken_for']}×)" if one["n_taken_for"] else "–"
            ratios = [show_percent(one["precision"]), show_percent(one["recall"])]
            rows.append([str(one["label"]), taken, *ratios, str(one["n_true"]), str(one["n_predicted"])])
        names = ("class", "confused with", "precision", "recall", "true", "predicted")
        print_table("classes", names, rows, n_text=2)

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        return {"weights": strongest_weights(model.estimator, model.record.feature_name, top)}


def read_aligned(options: ClassesOptions) -> "tuple[io.ClassData, AlignedLetters]":
    """Read aligned sequences to train on, and their features."""
    sequences, labels = fasta.read_aligned_fasta(options.data)
    aligned = aligned_letters.AlignedLetters.of(sequences.sequences, not options.single_letters)
    return io.ClassData(aligned.matrix(sequences.sequences), np.array(labels), aligned.names()), aligned


def read_table(name: "FilePath", record: ClassesRecord, labeled: bool) -> "io.ClassData":
    """Read a table by the names of its columns, in any order; without a label column unless `labeled`."""
    wanted = record.feature_names or []
    for label in [record.label] if labeled else [record.label, wanted[-1]]:
        try:
            X, y, names = io.read_csv(name, label)
        except FormatError:
            raise
        except InputError:
            if not (isinstance(name, KeptInput) or Path(name).exists()) or labeled:
                raise
            continue
        if label == wanted[-1]:
            # There is no label column: the last feature was read in its place.
            if y.dtype.kind not in "if":
                raise FormatError(f"{name}, column {label!r}", Description("text"), "numbers")
            X, names = np.column_stack([X, y.astype(np.float64)]), [*names, label]
        order = {column: k for k, column in enumerate(names)}
        if order.keys() == set(wanted):
            return io.ClassData(X[:, [order[column] for column in wanted]], y, wanted)
    listed = ", ".join(wanted[:20]) + (", …" if len(wanted) > 20 else "")
    others = "and the label" if labeled else "and no other column but the label"
    expected = f"the {len(wanted)} features of the model ({listed}) {others}"
    raise FormatError(name, Description("other columns"), expected, line=1)


def read_samples(name: str, record: ClassesRecord, n_features: int, labeled: bool) -> "io.ClassData":
    """Read samples as the training data of the model."""
    from latentstruct.io.tables import keep_samples

    refuse_prepared(data=name)
    aligned = record.aligned
    if aligned is not None:
        sequences, labels = fasta.read_aligned_fasta(name, labeled)
        if len(sequences.sequences[0]) != aligned.length:
            found = Description(f"sequences of {len(sequences.sequences[0])} letters")
            raise FormatError(name, found, f"sequences of {aligned.length} letters, as the model was trained on")
        return io.ClassData(aligned.matrix(sequences.sequences), np.array(labels), record.feature_names)
    source = keep_samples(name)
    if extension(source) not in TABLES:
        return io.read_classes(source, n_features=n_features, zero_based=record.zero_based)
    if record.feature_names is None:
        return io.read_classes(source, n_features=n_features)
    return read_table(source, record, labeled)


def as_known(labels: list[Any], known: frozenset[Any]) -> list[Any]:
    """Return labels as a model has them: a file with only the numbers among the labels is read as numbers."""
    return [str(label) for label in labels] if all(isinstance(label, str) for label in known) else labels


KIND = ClassesKind()
