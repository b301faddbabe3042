"""Features of tokens that the user lists or names, as CRFsuite takes them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec
import numpy as np

from latentstruct.core.lazy import sparse
from latentstruct.core.parameters import check_is_fitted
from latentstruct.core.validation import Constraint, check_parameters, integer
from latentstruct.exceptions import Description, InputError
from latentstruct.features.named import HASHED, NamedFeatures, hashed_column
from latentstruct.persistence.saved_features import check_names, require_features
from latentstruct.tasks.inputs import is_finite_number

__all__ = ["DictFeatures"]

SEPARATOR = ":"
LISTS = (list, tuple, set, frozenset)
TOKEN = "a dict such as {'word': 'the', 'length': 3}, or a list of names such as ['word=the', 'short']"

Weighted = list[tuple[str, float]]


class _State(
    msgspec.Struct,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="format",
    tag="latentstruct.DictFeatures 1",
):
    """The saved form of a fitted `DictFeatures`."""

    min_count: int
    names: list[str]
    hashed: int | None = None


class DictFeatures(NamedFeatures):
    """Features of tokens given as dicts or as lists of strings, by the conventions of CRFsuite.

    A token is a dict or a list of names. The entry ``"word": "the"`` of a dict is the feature ``word:the`` with
    value 1, ``"length": 3.0`` the feature ``length`` with value 3, ``"title": True`` the feature ``title`` with value 1
    (False is 0). A list or set of strings as a value has a feature for each, and names of a nested dict are joined by
    colons. A name in a list is a feature with value 1, and a word is a list of one name. Values of repeated names are
    added.

    Parameters
    ----------
    min_count : int, default=1
        The number of tokens of the training data in which a feature must occur.
    hashed : int, optional
        Number of columns to which names are hashed, as for `WindowFeatures`.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        The column of each feature, sorted by frequency and then by name; empty if names are hashed.

    See Also
    --------
    WindowFeatures : Features of words and of those around them.

    Examples
    --------
    >>> from latentstruct import DictFeatures
    >>> features = DictFeatures().fit([[{"word": "the", "title": False}, {"word": "Cat", "title": True}]])
    >>> features.get_feature_names_out().tolist()
    ['title', 'word:Cat', 'word:the']
    >>> features.transform([[{"word": "Cat", "title": True}, ["word:the", "new"]]])[0].toarray()
    array([[1., 1., 0.],
           [0., 0., 1.]])
    """

    state_type = _State
    constraints: ClassVar[Mapping[str, Constraint]] = {"min_count": integer(1), "hashed": HASHED}

    def __init__(self, min_count: int = 1, hashed: int | None = None) -> None:
        self.min_count, self.hashed = min_count, hashed

    def fit(self, sentences: Iterable[Sequence[Any]], y: object = None) -> Self:
        check_parameters(self)
        self._check_hashed()
        counts: Counter[str] = Counter()
        tokens, _ = _tokens(sentences)
        if not tokens:
            raise InputError("sentences", Description("no tokens"), "sentences with at least one token")
        if self.hashed is not None:
            self.vocabulary_ = {}
            return self
        for token in tokens:
            counts.update({name for name, _ in token})
        least = int(self.min_count)
        frequent = sorted((-count, name) for name, count in counts.items() if count >= least)
        require_features(len(frequent), least, len(tokens))
        self.vocabulary_ = {name: column for column, (_, name) in enumerate(frequent)}
        return self

    def extended(self, sentences: Iterable[Sequence[Any]]) -> Self:
        check_is_fitted(self, "vocabulary_")
        more = type(self)(self.min_count, self.hashed).fit(sentences)
        names = dict.fromkeys([*self.vocabulary_, *more.vocabulary_])
        more.vocabulary_ = {name: column for column, name in enumerate(names)}
        return more

    def transform(self, sentences: Iterable[Sequence[Any]]) -> "list[sparse.csr_array]":
        check_is_fitted(self, "vocabulary_")
        tokens, lengths = _tokens(sentences)
        at, lookup = iter(tokens), self._column
        found = []
        for length in lengths:
            rows: list[dict[int, float]] = []
            for token in (next(at) for _ in range(length)):
                row: dict[int, float] = {}
                for name, value in token:
                    column = lookup(name)
                    if column is not None:
                        row[column] = row.get(column, 0.0) + value
                rows.append(row)
            found.append(_matrix(rows, self.n_features_))
        return found

    def _column(self, name: str) -> int | None:
        """Return the column of a name, None if it is unknown."""
        return self.vocabulary_.get(name) if self.hashed is None else hashed_column(name, self.hashed)

    def _state(self) -> _State:
        check_is_fitted(self, "vocabulary_")
        return _State(int(self.min_count), list(self.vocabulary_), self.hashed and int(self.hashed))

    @classmethod
    def _restored(cls, saved: _State) -> Self:
        features = cls(saved.min_count, saved.hashed)
        check_parameters(features)
        features.vocabulary_ = {name: column for column, name in enumerate(saved.names)}
        check_names(_State, saved.names, len(features.vocabulary_), hashed=saved.hashed is not None)
        return features


def _matrix(rows: list[dict[int, float]], n_features: int) -> "sparse.csr_array":
    """Return a matrix from the values of each row by column."""
    ordered = [sorted(row.items()) for row in rows]
    pointers = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum([len(row) for row in ordered], out=pointers[1:])
    columns = np.fromiter((column for row in ordered for column, _ in row), np.int32, pointers[-1])
    values = np.fromiter((value for row in ordered for _, value in row), np.float64, pointers[-1])
    matrix = sparse.csr_array((values, columns, pointers), shape=(len(rows), n_features))
    matrix.has_canonical_format = True
    return matrix


def _tokens(sentences: Any) -> tuple[list[Weighted], list[int]]:
    """Return the names and values of the features of all tokens, and the lengths of sentences."""
    if isinstance(sentences, str | Mapping):
        raise InputError("sentences", sentences, "a list of sentences of tokens")
    tokens: list[Weighted] = []
    lengths = []
    for i, sentence in enumerate(sentences):
        if isinstance(sentence, str | Mapping) or not hasattr(sentence, "__len__"):
            raise InputError(f"sentences[{i}]", sentence, f"a list of tokens, each {TOKEN}")
        tokens += [_features(token, f"sentences[{i}][{j}]") for j, token in enumerate(sentence)]
        lengths.append(len(sentence))
    return tokens, lengths


def _features(token: Any, name: str) -> Weighted:
    """Return the names and values of the features of a token that are not 0."""
    if isinstance(token, str):
        return [(_checked(token, name), 1.0)]
    if isinstance(token, Mapping):
        return [(_checked(feature, name), value) for feature, value in _entries(token, name) if value]
    if isinstance(token, LISTS) and all(isinstance(feature, str) for feature in token):
        return [(_checked(feature, name), 1.0) for feature in token]
    raise InputError(name, token, TOKEN)


def _checked(feature: str, name: str) -> str:
    try:
        feature.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(name, feature, "text without lone surrogates") from error
    return feature


def _entries(token: Mapping[Any, Any], name: str) -> Iterator[tuple[str, float]]:
    """Yield the names and values of the features of a dict."""
    for key, value in token.items():
        where = f"{name}[{key!r}]"
        if not isinstance(key, str):
            raise InputError(name, key, "a dict whose keys are names of features")
        if isinstance(value, str):
            yield f"{key}{SEPARATOR}{value}", 1.0
        elif isinstance(value, Mapping):
            yield from ((f"{key}{SEPARATOR}{inner}", number) for inner, number in _entries(value, where))
        elif isinstance(value, LISTS) and all(isinstance(one, str) for one in value):
            yield from ((f"{key}{SEPARATOR}{one}", 1.0) for one in value)
        elif isinstance(value, np.bool_) or is_finite_number(value):
            yield key, float(value)
        else:
            raise InputError(where, value, "text, a finite number, True or False, a list of texts, or a dict of these")
