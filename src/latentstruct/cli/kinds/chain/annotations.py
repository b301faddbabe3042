"""Labels of chain models beyond one per token: votes of annotators, weights, skipped tokens, entities alone."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from latentstruct import io
from latentstruct.cli.declaring import option
from latentstruct.cli.description import largest
from latentstruct.cli.kinds.chain.files import choose, is_set
from latentstruct.cli.lazy import annotators
from latentstruct.core.lazy import np
from latentstruct.core.unknown import SKIPPED, UNKNOWN
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.progress.display import Progress

OUTSIDE = "O"
ANNOTATOR_ERRORS = ("annotator", "true", "given", "share")


@dataclass(frozen=True, kw_only=True)
class AnnotationOptions:
    """How the labels of the training data are read."""

    labels: str | None = option(
        None, "All labels, as O,B-PER,I-PER, if some never occur.", metavar="LIST", shown="those of the data"
    )
    skipped: str | None = option(
        None, "Mark of tokens that training leaves out.", metavar="MARK", shown="no token is left out"
    )
    weight_column: int | None = option(
        None, "Column with a weight ≥ 0 per token; needs a model with unknown labels.", shown="all are 1"
    )
    annotators: str | None = option(
        None,
        "Columns of labels by several annotators, as 2,3,4, instead of a label column; --unknown marks missing ones.",
        metavar="LIST",
        shown="one label column",
    )
    entity_ratio: float | None = option(
        None, "Expected share of tokens that are not O, if only entities are labeled.", metavar="SHARE", shown="free"
    )

    @property
    def declared(self) -> list[str] | None:
        """The declared labels."""
        return None if self.labels is None else self.labels.split(",")

    def check_declared(self, found: Collection[str]) -> Collection[str]:
        """Return the declared labels, which must include those that occur; these if none are declared."""
        if self.declared is None:
            return found
        for label in sorted(set(found) - set(self.declared)):
            raise InputError("labels", self.labels, f"with {label}, which occurs in the data")
        return self.declared

    def extra_columns(self, n_columns: int, name: str) -> tuple[int | None, list[int]]:
        """Return the column of weights, and those of the annotators."""

        def place(column: int, parameter: str) -> int:
            if not -n_columns <= column < n_columns:
                raise InputError(parameter, column, f"from {-n_columns} to {n_columns - 1}", f"{name} has {n_columns}.")
            return column % n_columns

        try:
            wanted = [] if self.annotators is None else [int(part) for part in self.annotators.split(",")]
        except ValueError:
            raise InputError("annotators", self.annotators, "integers such as 2,3,4") from None
        weights = None if self.weight_column is None else place(self.weight_column, "weight_column")
        columns = [place(column, "annotators") for column in wanted]
        if len({*columns, weights}) != len(columns) + 1:
            raise InputError("annotators", self.annotators, "different columns, without that of weights")
        return weights, columns


def without_columns(sentences: "io.ColumnSentences", left_out: Collection[int | None]) -> "io.ColumnSentences":
    """Return sentences without some columns."""
    if set(left_out) == {None}:
        return sentences
    return choose(sentences, [k for k in range(len(sentences.columns)) if k not in left_out])


def votes_of(sentences: "io.ColumnSentences", columns: Iterable[int], unknown: str | None) -> list[list[list[Any]]]:
    """Return the votes of annotators, one row per token; −1 where there is none."""
    chosen = choose(sentences, columns)
    return [[[UNKNOWN if vote == unknown else vote for vote in token] for token in tokens] for tokens in chosen]


def weights_of(sentences: "io.ColumnSentences", column: int, name: str) -> list[list[float]]:
    """Return the weights of the tokens of each sentence."""
    found: list[list[float]] = []
    for i, texts in enumerate(sentences.column(column), 1):
        found.append([])
        for j, text in enumerate(texts, 1):
            try:
                weight = float(text)
            except ValueError:
                weight = -1.0
            if not 0.0 <= weight < float("inf"):
                raise FormatError(f"{name}, token {j} of sentence {i}", text, "a weight of at least 0")
            found[-1].append(weight)
    return found


def is_labeled(labels: Iterable[Any]) -> bool:
    """Return whether anything is known about the labels of a sentence."""
    return any(label not in (UNKNOWN, SKIPPED) if not is_set(label) else True for label in labels)


def labeled_sentences(
    X: Sequence[Any], Y: Sequence[Sequence[Any]], progress: Progress, name: str
) -> tuple[Sequence[Any], Sequence[Any], list[int] | None]:
    """Return the sentences with some known label, and their numbers, None for all; others add nothing to training."""
    kept = [k for k, labels in enumerate(Y) if is_labeled(labels) or not labels]
    if len(kept) == len(Y):
        return X, Y, None
    progress.say(
        f"left out {len(Y) - len(kept)} sentences of {name} without any known label, which add nothing to training"
    )
    return [X[k] for k in kept], [Y[k] for k in kept], kept


def check_ratio(ratio: float | None, labels: Collection[str]) -> None:
    """Raise unless the labels have one for tokens outside of entities."""
    if ratio is not None and OUTSIDE not in labels:
        hint = "Declare all labels if it never occurs."
        raise InputError("labels", Description(", ".join(sorted(labels))), f"labels with {OUTSIDE}", hint)


def annotator_recall(estimator: Any) -> dict[str, Any]:
    """Return the share of right labels per annotator, if all labels were equally frequent; nothing without votes."""
    if not isinstance(estimator, annotators.AnnotatorCRF):
        return {}
    rights = estimator.confusions_.diagonal(axis1=1, axis2=2).mean(axis=1)
    return {"annotator_recall": [round(float(right), 4) for right in rights]}


def annotator_errors(estimator: Any, top: int) -> list[dict[str, Any]]:
    """Return the wrong labels that annotators give most often, as shares of the true label; nothing without votes."""
    if not annotator_recall(estimator):
        return []
    labels, tables = estimator.task_.labels_.labels, estimator.confusions_
    wrong = tables * ~np.eye(len(labels), dtype=bool)
    places = zip(*np.unravel_index(largest(wrong.ravel(), top), tables.shape), strict=True)
    return [
        {"annotator": int(a) + 1, "label": labels[y], "given": labels[v], "share": float(tables[a, y, v])}
        for a, y, v in places
    ]
