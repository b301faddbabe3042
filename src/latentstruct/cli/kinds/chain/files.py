"""The files of chain models: columns of tokens, possibly with labels that are unknown or partly known."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from operator import eq
from typing import Any

from latentstruct import io
from latentstruct.cli.common import located, say_warnings
from latentstruct.cli.declaring import option, rules_option
from latentstruct.cli.kind import Record
from latentstruct.cli.lazy import conllu, windows
from latentstruct.core.formatting import counted
from latentstruct.core.unknown import SKIPPED, UNKNOWN
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.text import FilePath, Source, extension, kept_input, source_name

EMPTY = "_"
"""What an empty label is read as if nothing else marks unknown labels."""
BEGIN, END = "<s>", "</s>"
"""The begin and the end of a sentence in files of rules."""
USUAL_MARKS = frozenset({"?", "??", "???", EMPTY, "unk", "<unk>", "[unk]", "unknown", "nan", "n/a"})
LABELS_SHOWN = 10
CONLLU = ".conllu"
MANY_LABELS = 200


@dataclass(frozen=True)
class LabeledChains:
    """Labeled sentences: features X, labels Y, and the words if they are to be shown.

    Sets of labels and soft labels are sets and dicts; unknown labels are as in the file.
    """

    X: Any
    Y: list[list[Any]]
    words: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """The features of tokens."""

    window: int = option(2, "Number of words on each side that features look at.")
    affixes: int = option(3, "Length of the longest prefix and suffix; 0 for none.")
    shape: bool = option(True, "Use the shape of the word.")
    bigrams: bool = option(True, "Use pairs and triples of neighboring words.")
    min_count: int = option(1, "Minimum number of tokens with a feature.", min=1)
    hashed: int | None = option(
        None, "Number of columns to which names of features are hashed, which are then not stored.", min=1, shown="none"
    )

    def template(self) -> "windows.WindowFeatures":
        """Return the features to learn."""
        return windows.WindowFeatures(**{one.name: getattr(self, one.name) for one in fields(FeatureOptions)})


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(FeatureOptions):
    """How the columns of tokens are read, and the features of tokens."""

    label_column: int | None = option(
        None, "Column of the labels, from 0; -1 is the last.", shown="the last; of CoNLL-U 3, UPOS"
    )
    columns: str | None = option(
        None,
        "Columns to use, as 0,1; the word first.",
        metavar="LIST",
        shown="all but the labels; of CoNLL-U 1, the word",
    )
    unknown: str | None = option(
        None,
        "Mark of an unknown label; '' if there is nothing after the tab.",
        metavar="MARK",
        shown="all labels are known",
        sets="blank",
    )
    label_sets: bool = option(False, "Labels may be sets such as A|B, or have weights as in A:0.7|B:0.3.")
    rules: str | None = rules_option()

    @cached_property
    def allowed(self) -> Any:
        """The rules as `Chain` takes them."""
        return read_rules(self.rules)

    @property
    def mark(self) -> str | None:
        """The mark of unknown labels."""
        return EMPTY if self.unknown == "" else self.unknown

    @property
    def blank(self) -> dict[int, str]:
        """What empty labels are read as."""
        return {} if self.mark is None else {-1 if self.label_column is None else self.label_column: self.mark}

    def chosen_columns(self) -> list[int] | None:
        """Return the indices of the columns to use."""
        try:
            return None if self.columns is None else [int(part) for part in self.columns.split(",")]
        except ValueError:
            raise InputError("columns", self.columns, "integers such as 0,1") from None

    def places(self, sentences: "io.ColumnSentences", name: str) -> tuple[int, list[int]]:
        """Return the indices of the label column and of the columns the features use."""
        n_columns, conllu_file = sentences.n_columns, is_conllu(sentences)

        def position(column: int, parameter: str) -> int:
            if not -n_columns <= column < n_columns:
                expected = f"from 0 to {n_columns - 1}, or from -{n_columns} to -1"
                raise InputError(parameter, column, expected, f"{name} has {n_columns} columns.")
            return column % n_columns

        if n_columns < 2:
            raise FormatError(name, Description("one column"), "at least two, a word and its label")
        usual = conllu.UPOS if conllu_file else -1
        at = position(usual if self.label_column is None else self.label_column, "label_column")
        chosen = [conllu.FORM] if conllu_file and self.columns is None else self.chosen_columns()
        if chosen is None:
            return at, [k for k in range(n_columns) if k != at]
        used = [position(column, "columns") for column in chosen]
        if at in used:
            raise InputError("columns", self.columns, f"without the label column {at}, which is predicted")
        return at, used


@dataclass(frozen=True, kw_only=True)
class ChainRecord(Record):
    """The record of a chain model: its features and the columns of its files.

    Columns are counted from 0; `columns` are those the features use, the word first. `unknown` marks unknown labels,
    and `label_sets` is True if labels may be sets; `skipped` marks tokens that are left out; `conllu` is True if the
    files are CoNLL-U.
    """

    features: dict[str, Any]
    label_column: int
    n_columns: int
    columns: list[int]
    unknown: str | None = None
    label_sets: bool = False
    skipped: str | None = None
    conllu: bool = False

    def read(self, path: str, with_labels: bool = True) -> "io.ColumnSentences":
        """Read sentences as those of the training were read."""
        if self.conllu:
            return io.read_conllu(path)
        if extension(path) == CONLLU:
            raise FormatError(path, Description("CoNLL-U"), "columns as in training", "Train on CoNLL-U to label it.")
        # In a file without labels other columns move, unless the labels are in the last one.
        return read_columns(path, self.blank if with_labels or self.label_is_last else None)

    def read_text(self, path: str) -> "io.ColumnSentences":
        """Read plain text, each line of which is a sentence."""
        from latentstruct.core.types import offsets_from_lengths

        if len(self.columns) > 1:
            expected = "left out, as the model was trained on other columns beside the words"
            raise InputError("text", True, expected, "Or train with --columns of the words alone.")
        sentences = [one.tokens for one in io.read_texts(path) if one.tokens]
        if not sentences:
            raise FormatError(path, Description("no word"), "text")
        return io.ColumnSentences(([*chain.from_iterable(sentences)],), offsets_from_lengths(list(map(len, sentences))))

    def judged(self, Y: list[list[Any]]) -> list[list[Any]]:
        """Return labels in which skipped tokens are unknown, as neither is counted."""
        if self.skipped is None:
            return Y
        return [[self.unknown if label == self.skipped else label for label in labels] for labels in Y]

    def used_columns(self, sentences: "io.ColumnSentences", name: str) -> "io.ColumnSentences":
        """Return the columns the features use, from a file with or without the labels."""
        found = sentences.n_columns
        if found not in (self.n_columns, self.n_columns - 1):
            expected = f"{self.n_columns} columns as in training, or {self.n_columns - 1} without {self._shown_label}"
            raise FormatError(name, Description(counted(found, "column")), expected)
        shift = self.n_columns - found
        return choose(sentences, [k - shift * (k > self.label_column) for k in self.columns])

    def check_labeled(self, sentences: "io.ColumnSentences", name: str, hint: str | None = None) -> None:
        """Raise if the labels are missing."""
        if sentences.n_columns != self.n_columns:
            expected = f"{self.n_columns} columns with {self._shown_label}"
            raise FormatError(name, Description(counted(sentences.n_columns, "column")), expected, hint)

    def place(self, column: int | None) -> int:
        """Return the index from 0 of a column that may be counted from the end; None is that of the labels."""
        column = self.label_column if column is None else column
        return column + self.n_columns if column < 0 else column

    @property
    def label_is_last(self) -> bool:
        """Whether the labels are in the last column, so that other columns keep their indices without them."""
        return self.label_column == self.n_columns - 1

    def labels_of(self, sentences: "io.ColumnSentences", name: str, n_before: int = 0) -> list[list[Any]]:
        """Return the labels of sentences, with sets of labels and soft labels; `n_before` sentences precede."""
        if not self.label_sets:
            return sentences.column(self.label_column)
        known = {}
        for text in dict.fromkeys(sentences.columns[self.label_column]):
            try:
                known[text] = text if text == self.unknown else parse_label(text, self.unknown)
            except InputError as error:
                column = sentences.column(self.label_column)
                i, labels = next((i, labels) for i, labels in enumerate(column, n_before + 1) if text in labels)
                raise located(error, f"{name}, token {labels.index(text) + 1} of sentence {i}") from error
        return [[known[text] for text in labels] for labels in sentences.column(self.label_column)]

    @property
    def _shown_label(self) -> str:
        where = f"the labels in column {self.label_column} (from 0)"
        return "the labels in the last one" if self.label_is_last else where

    @property
    def blank(self) -> dict[int, str]:
        """What empty labels are read as: unknown ones, if the model was trained with these."""
        return {} if self.unknown is None else {self.label_column: self.unknown}


def read_sentences(path: str, blank: Mapping[int, str]) -> "io.ColumnSentences":
    """Read the training data: CoNLL-U by its name, or on standard input by its beginning, else columns."""
    source = kept_input(path, lambda content: CONLLU if conllu.looks_like_conllu(content) else "")
    return io.read_conllu(source) if extension(source) == CONLLU else read_columns(source, blank)


def read_columns(path: FilePath, blank: Mapping[int, str] | None) -> "io.ColumnSentences":
    """Read columns; raise if commas separate them, as each line would be a word."""
    sentences = io.read_conll(path, blank=blank)
    if sentences.n_columns == 1 and all("," in word.strip(",") for word in sentences.columns[0]):
        raise FormatError(source_name(path), Description("commas"), "columns separated by spaces or tabs")
    return sentences


def is_conllu(sentences: "io.ColumnSentences") -> bool:
    """Return whether sentences were read from CoNLL-U."""
    return isinstance(sentences, io.ConlluSentences)


def refuse_conllu(path: str, model: ChainRecord | None) -> None:
    """Raise unless a file has plain columns, which can be read in blocks."""
    if extension(path) == CONLLU or (model is not None and model.conllu):
        raise InputError("data", path, "tokens in columns", "CoNLL-U cannot be prepared; train on the file itself.")


def check_labels(sentences: "io.ColumnSentences", label_at: int, word_at: int, name: str) -> None:
    """Warn if a column hardly has labels: one or very many different values, or often the word itself."""
    labels, words = sentences.columns[label_at], sentences.columns[word_at]
    n_labels, n_same = len(set(labels)), sum(map(eq, labels, words))
    if n_labels == 1:
        what = f"is {labels[0]!r} at every token"
    elif n_labels >= MANY_LABELS:
        what = f"has {n_labels} different labels"
    elif len(set(words)) > 1 and n_same > len(words) / 2:
        what = f"is the word itself at {n_same} of {len(words)} tokens"
    else:
        return
    say_warnings([f"column {label_at} (from 0) of {name} {what}; use --label-column if another column has the labels"])


def no_known_labels(name: str, unknown: Any) -> FormatError:
    """Return the error of data all of whose labels are unknown."""
    return FormatError(name, Description(f"the mark of unknown labels, {unknown!r}, at every token"), "some labels")


def choose(sentences: "io.ColumnSentences", used: Iterable[int]) -> "io.ColumnSentences":
    """Return some columns of sentences."""
    return io.ColumnSentences(tuple(sentences.columns[k] for k in used), sentences.offsets)


def check_marks(counts: Counter[str], unknown: str | None, name: str) -> None:
    """Raise unless some labels are unknown and some are known; warn of usual marks if `unknown` is None."""
    if unknown is None:
        say_warnings(
            f"{n} of {counts.total()} tokens of {name} have the label {label!r}; use --unknown '{label}' if it marks "
            "unknown labels"
            for label, n in counts.most_common()
            if label.lower() in USUAL_MARKS
        )
    elif unknown not in counts:
        shown = ", ".join(label for label, _ in counts.most_common(LABELS_SHOWN))
        expected = f"a label of {name} ({shown}{', …' if len(counts) > LABELS_SHOWN else ''})"
        raise InputError("unknown", unknown, expected, "A shell may replace ? and *: quote them as '?'.")
    elif len(counts) == 1:
        raise no_known_labels(name, unknown)


def parse_label(text: str, unknown: str | None) -> Any:
    """Return a label, the set of ``A|B`` or the dict of ``A:0.7|B:0.3``; a single possible label is a label."""
    parts = text.split("|")
    weighted = [part.rpartition(":") for part in parts] if ":" in text else [(part, "", "1") for part in parts]
    weights: dict[str, float] = {}
    for label, _, number in weighted:
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not label or label in weights or label == unknown or ":" in label or not 0.0 <= weight < math.inf:
            raise InputError(
                "label", text, "a label, different labels as A|B, or labels with weights ≥ 0 as A:0.7|B:0.3"
            )
        weights[label] = weight
    possible = {label: weight for label, weight in weights.items() if weight > 0}
    if not possible:
        raise InputError("label", text, "at least one weight above 0")
    if len(possible) == 1:
        return next(iter(possible))
    return possible if ":" in text else set(possible)


def is_set(label: Any) -> bool:
    """Return whether a label is a set of labels or a soft label."""
    return isinstance(label, set | dict)


def possible_labels(label: Any) -> Iterable[Any]:
    """Return the labels of a set or of a soft label, and a label itself."""
    return label if is_set(label) else (label,)


def single_labels(Y: Iterable[Iterable[Any]]) -> frozenset[Any]:
    """Return the known labels that occur, also in sets."""
    found = frozenset(one for labels in Y for label in labels for one in possible_labels(label))
    return found - {UNKNOWN, SKIPPED}


def has_sets(Y: Iterable[Iterable[Any]]) -> bool:
    """Return whether some labels are sets or soft labels."""
    return any(map(is_set, chain.from_iterable(Y)))


def check_sets(wanted: bool, found: bool, name: str) -> None:
    """Raise if sets of labels were announced and there are none."""
    if wanted and not found:
        raise InputError("label_sets", True, f"left out for {name}, where each token has one label or an unknown one")


def resolved(Y: Iterable[Sequence[Any]], guessed: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Return true labels; a set is the predicted label if it has this, else its labels as text."""

    def resolve(label: Any, guess: Any) -> Any:
        if not is_set(label):
            return label
        return guess if guess in label else "|".join(sorted(map(str, label)))

    return [[*map(resolve, truth, guess)] for truth, guess in zip(Y, guessed, strict=True)]


def marked(Y: Sequence[Sequence[Any]], unknown: str | None, skipped: str | None = None) -> Sequence[Sequence[Any]]:
    """Return labels with −1 for those that are unknown, and −100 for tokens that training leaves out."""
    codes = {mark: code for mark, code in ((skipped, SKIPPED), (unknown, UNKNOWN)) if mark is not None}
    if not codes:
        return Y
    return [[label if is_set(label) else codes.get(label, label) for label in labels] for labels in Y]


def labeled_runs(X: Sequence[Any], Y: Sequence[Sequence[Any]]) -> tuple[list[Any], list[list[Any]], list[int]]:
    """Return each run of labeled tokens as a sequence of its own, and the number of its sentence; −1 is unknown.

    Tokens with sets of labels are left out too.
    """
    runs, labels, origins = [], [], []
    for number, (x, y) in enumerate(zip(X, Y, strict=True)):
        start = 0
        for stop in range(len(y) + 1):
            if stop == len(y) or y[stop] == -1 or is_set(y[stop]):
                if stop > start:
                    runs.append(x[start:stop])
                    labels.append(list(y[start:stop]))
                    origins.append(number)
                start = stop + 1
    return runs, labels, origins


def read_rules(rules: str | None) -> Any:
    """Return the rules of an option: the name of a scheme, or the forbidden pairs of a file."""
    if rules is None or rules.upper() in ("BIO", "BIOES", "BILOU"):
        return rules and rules.upper()
    source, pairs = Source.open(rules), []
    for line in source.texts():
        pair = line.split()
        if len(pair) == 2 and pair != [BEGIN, END] and pair[1] != BEGIN and pair[0] != END:
            pairs.append((None if pair[0] == BEGIN else pair[0], None if pair[1] == END else pair[1]))
        elif pair:
            source.fail(line.strip(), f"two labels, the first of which may be {BEGIN}, or the second {END}")
    if not pairs:
        raise FormatError(rules, Description("none"), "pairs of labels")
    return pairs


def check_rules(scheme: Any, labels: Iterable[str], Y: Iterable[Sequence[Any]], name: str, n_before: int) -> None:
    """Raise if the labels of a sentence break the rules; −1 is unknown, `n_before` sentences precede."""
    from latentstruct.tasks.chain.rules import rules_of

    if scheme is None:
        return
    known = sorted(labels)
    try:
        rules = rules_of(scheme, known)
    except InputError as error:
        raise located(error, name) from error
    first, last, *rows = (
        frozenset(label for label, allowed in zip(known, table, strict=True) if allowed)
        for table in (rules.start, rules.end, *rules.transitions)
    )
    following = dict(zip(known, rows, strict=True))
    for i, y in enumerate(Y, n_before + 1):
        possible = first
        for j, label in enumerate(y, 1):
            here = possible if label == -1 else possible.intersection(possible_labels(label))
            here = here & last if j == len(y) else here
            if not here:
                shown = scheme if isinstance(scheme, str) else "the file of rules"
                hint = f"Correct the labels, or leave `rules` out, now {shown}."
                where = f"{name}, token {j} of sentence {i}"
                raise FormatError(where, label, f"a label that {shown} allows here", hint)
            possible = frozenset().union(*(following[one] for one in here))
