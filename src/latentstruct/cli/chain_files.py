"""The files of chain models: sentences to train on, and labelled ones to judge by."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from latentstruct.cli.chain_columns import ChainRecord, choose_columns, count_columns, parse_columns
from latentstruct.cli.common import unknown_label
from latentstruct.cli.half_labels import EMPTY, labelled_runs, mark_unknown, warn_of_marks
from latentstruct.cli.old_kinds import Trained
from latentstruct.cli.prepared import PreparedData, refuse_options, refuse_prepared
from latentstruct.exceptions import FormatError
from latentstruct.progress import Progress

if TYPE_CHECKING:
    from latentstruct.features import WindowFeatures


@dataclass(frozen=True)
class LabelledChains:
    """Labelled sentences: features X, labels Y, and the words where they are to be shown."""

    X: Any
    Y: list[list[str]]
    words: list[list[str]]


@dataclass(frozen=True)
class ChainData:
    """Sentences to train on, with the features learned from them and the columns they came from.

    `labels` are all that occur, `unknown` among them if some are marked so.
    """

    sentences: LabelledChains
    template: "WindowFeatures"
    labels: set[str]
    label_at: int
    n_columns: int
    used: list[int]
    unknown: str | None

    @property
    def known(self) -> set[str]:
        """The labels without the mark of unknown ones."""
        return {label for label in self.labels if label != self.unknown}

    def examples(self, labelled_only: bool, name: str) -> tuple[Any, Any]:
        """Return features and labels to train on, −1 for unknown ones; `name` is that of the file, for messages."""
        X, Y = self.sentences.X, self.sentences.Y
        if self.unknown is None:
            warn_of_marks(Y, name)
            return X, Y
        marked = mark_unknown(Y, self.unknown, name)
        return labelled_runs(X, marked) if labelled_only else (X, marked)

    def sizes(self, Y: list[list[Any]], latent: bool) -> dict[str, int]:
        """Return what to tell of a training on labels Y, of which some are unknown if it is `latent`."""
        return {
            "n_examples": len(Y),
            "n_tokens": sum(map(len, Y)),
            **({"n_unlabelled": sum(labels.count(-1) for labels in Y)} if latent else {}),
            "n_features": len(self.template.vocabulary_),
            "n_labels": len(self.known),
        }

    def record(self, n_examples: int, seconds: float) -> ChainRecord:
        """Return what is kept beside a model that was trained on so many examples."""
        features = self.template.to_state()
        return ChainRecord(features, self.label_at, self.n_columns, self.used, n_examples, seconds, self.unknown)


@dataclass(frozen=True)
class ChainReading:
    """The options that tell how sentences are read, each with its usual value: features, columns, unknown labels."""

    window: int = 2
    affixes: int = 3
    shape: bool = True
    bigrams: bool = True
    min_count: int = 1
    columns: str | None = None
    label_column: int = -1
    unknown: str | None = None

    def refuse_for(self, folder: str) -> None:
        """Raise if one is given for a folder of prepared data, which has settled them all."""
        usual = asdict(ChainReading())
        given = {f"--{name.replace('_', '-')}": (value, usual[name]) for name, value in asdict(self).items()}
        refuse_options(folder, given)

    def read(self, name: str, progress: Progress, keep_words: bool) -> ChainData:
        """Read sentences and learn their features; unless asked words are not kept, as training needs the memory."""
        from latentstruct.features import WindowFeatures
        from latentstruct.formats import ColumnSentences, read_conll

        unknown = EMPTY if self.unknown == "" else self.unknown
        asked = parse_columns(self.columns)
        template = WindowFeatures(self.window, self.affixes, self.shape, self.bigrams, self.min_count)
        sentences = read_conll(name, blank={} if unknown is None else {self.label_column: unknown})
        label_at, used = choose_columns(sentences.n_columns, self.label_column, asked, name)
        progress.say(f"read {len(sentences)} sentences, {sentences.n_tokens} tokens from {name}")
        X = template.fit_transform(ColumnSentences(tuple(sentences.columns[k] for k in used), sentences.offsets))
        words = sentences.column(used[0]) if keep_words else []
        labelled = LabelledChains(X, sentences.column(label_at), words)
        labels = set(sentences.columns[label_at])
        return ChainData(labelled, template, labels, label_at, sentences.n_columns, used, unknown)


def restore_features(model: Trained) -> "WindowFeatures":
    """Return the features a chain model was trained with."""
    from latentstruct.features import WindowFeatures

    template = WindowFeatures.from_state(model.record.features)
    found = len(template.vocabulary_), template.n_columns_
    if found != (model.estimator.task_.n_inputs_, len(model.record.columns)):
        raise model.damaged("its features do not belong to its weights")
    return template


def read_labelled_chains(
    name: str, record: ChainRecord, template: "WindowFeatures", known: set[Any], allow_unknown: bool
) -> LabelledChains:
    """Read features, labels and words of sentences for evaluation."""
    from latentstruct.formats import read_conll

    refuse_prepared(name)
    sentences = read_conll(name, blank=record.blank)
    tokens = record.used_columns(sentences, name)
    if sentences.n_columns != record.n_columns:
        raise FormatError(
            f"{name} has {count_columns(sentences.n_columns)}; expected {record.n_columns} with {record.shown_label}: "
            "give labelled data"
        )
    Y = sentences.column(record.label_column)
    allowed = known | {record.unknown}
    for i, labels in enumerate(Y, 1):
        if not allow_unknown and not allowed.issuperset(labels):
            j, label = next((j, label) for j, label in enumerate(labels, 1) if label not in allowed)
            raise unknown_label(f"{name}: token {j} of sentence {i}", label, known, record.unknown)
    return LabelledChains(template.transform(tokens), Y, tokens.column(0))


def read_as_prepared(prepared: PreparedData, name: str, allow_unknown: bool) -> LabelledChains:
    """Read sentences for evaluation with the features of prepared data."""
    from latentstruct.features import WindowFeatures

    template = WindowFeatures.from_state(prepared.record.features)
    known = set(prepared.data.task.labels_.labels)
    return read_labelled_chains(name, prepared.record, template, known, allow_unknown)
