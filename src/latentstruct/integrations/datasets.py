"""Tagged sentences of data sets as Hugging Face's package `datasets` has them."""

from collections.abc import Iterable, Mapping
from typing import Any

from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.labels import as_list


def tagged_sentences(
    rows: Iterable[Mapping[str, Any]], tokens: str = "tokens", labels: str = "ner_tags", names: Any = None
) -> tuple[list[list[str]], list[list[Any]]]:
    """Return the words and the labels of a data set, for `FeaturePipeline.fit`.

    Parameters
    ----------
    rows : datasets.Dataset or iterable of mappings
        The sentences: one split, each row a mapping from columns to lists or arrays.
    tokens, labels : str
        The columns of words and of labels.
    names : sequence of str, optional
        The names of labels that are numbers. By default those that a data set declares (``ClassLabel``), else the
        numbers stay as they are. -100 marks tokens that training leaves out, -1 unknown labels.

    Returns
    -------
    X : list of list of str
        The words.
    y : list of list
        The labels.

    Examples
    --------
    >>> rows = [{"tokens": ["Mara", "left"], "ner_tags": [1, 0]}]
    >>> tagged_sentences(rows, names=["O", "B-PER"])
    ([['Mara', 'left']], [['B-PER', 'O']])
    """
    if names is None and hasattr(rows, "features"):
        feature = rows.features.get(labels)
        # A sequence of class labels names them in its inner feature.
        names = getattr(getattr(feature, "feature", feature), "names", None)
    X: list[list[str]] = []
    y: list[list[Any]] = []
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            hint = "Take one split of a DatasetDict, and rows in the format numpy or none."
            raise InputError(f"rows[{i}]", row, f"a mapping with the columns {tokens!r} and {labels!r}", hint)
        for column in (tokens, labels):
            if column not in row:
                raise InputError(f"rows[{i}]", Description(", ".join(row)), f"a mapping with the column {column!r}")
        words, tags = as_list(row[tokens]), as_list(row[labels])
        if len(words) != len(tags):
            raise InputError(f"rows[{i}]", Description(f"{len(tags)} labels"), f"{len(words)} labels, one per token")
        X.append(words)
        y.append(tags if names is None else [_named(tag, names, f"rows[{i}]") for tag in tags])
    return X, y


def _named(tag: Any, names: Any, where: str) -> Any:
    if not isinstance(tag, int) or tag in (-1, -100):
        return tag
    if not 0 <= tag < len(names):
        raise InputError(where, tag, f"labels from 0 to {len(names) - 1}, -1 or -100")
    return names[tag]
