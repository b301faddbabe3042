"""Features of tokens from a window around them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct._native.windows import FeatureNames
from latentstruct.core.lazy import sparse
from latentstruct.core.parameters import check_is_fitted
from latentstruct.core.validation import Constraint, boolean, check_parameters, integer
from latentstruct.exceptions import Description, InputError
from latentstruct.features.named import HASHED, NamedFeatures, hashed_column
from latentstruct.persistence.saved_features import check_names, require_features

__all__ = ["WindowFeatures"]

MAX_REACH = 100
"""The largest window and the longest affix."""

Sentences = Iterable[Sequence[Sequence[str] | str]]


class _State(
    msgspec.Struct,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="format",
    tag="latentstruct.WindowFeatures 1",
):
    """The saved form of a fitted `WindowFeatures`."""

    window: int
    affixes: int
    shape: bool
    bigrams: bool
    min_count: int
    n_columns: int
    names: list[str]
    hashed: int | None = None


@lru_cache(maxsize=2**16)
def _word_shape(word: str) -> str:
    """Return the classes of the characters of a word, with runs collapsed."""
    shape = ""
    for character in word:
        if character.isupper() or character.istitle():
            kind = "X"
        elif character.islower():
            kind = "x"
        # Letters with a numeric value (京) are letters: which have one differs between versions of Unicode.
        elif character.isdigit():
            kind = "d"
        elif character.isalpha():
            kind = "c"
        else:
            kind = "."
        if not shape.endswith(kind):
            shape += kind
    return shape


class WindowFeatures(NamedFeatures):
    r"""Binary features of each token from the words and further columns around it.

    For the word, column 0, these are its values at the offsets ``-window`` to ``window`` (``0[-1]=the``), the
    pairs at ``(-1, 0)`` and ``(0, 1)`` (``0[-1,0]=the|cat``), its prefixes and suffixes (``prefix2=ca``) and
    its shape (``shape=Xx.d``). For each further column, such as the part of speech, these are its values at
    all offsets and all pairs and triples of adjacent offsets within the window and within 2
    (``1[-2,-1,0]=DT|JJ|NN``). Each token also has the feature ``bias``. With the defaults this is the
    template commonly used for the CoNLL-2000 chunking task, extended by affixes and shape.

    The markers ``\B1``, ``\B2``, … precede the first token of a sentence, and ``\E1``, ``\E2``, … follow the last
    one. Backslashes and bars in values are escaped by a backslash, so that distinct values have distinct names.

    A token is a tuple of its word and any further columns, without the label, or all tokens are words.

    Parameters
    ----------
    window : int, default=2
        The largest offset.
    affixes : int, default=3
        The length of the longest prefix and suffix; 0 for none.
    shape : bool, default=True
        Whether to use the shape of the word: capitals are X, other letters x (c without case), digits d, other
        characters a dot, with runs of the same class collapsed.
    bigrams : bool, default=True
        Whether to use pairs and triples.
    min_count : int, default=1
        The number of tokens of the training sentences in which a feature must occur.
    hashed : int, optional
        Number of columns. A hash of its name gives the column of a feature: names are neither learned nor stored, and
        new text has no new columns. Features with the same column share their weights.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        The column of each feature, sorted by frequency and then by name; empty if names are hashed.
    n_columns_ : int
        The number of columns of a token.

    Examples
    --------
    >>> template = WindowFeatures(window=1, affixes=0, shape=False, bigrams=False)
    >>> features = template.fit_transform([[("the",), ("cat",)]])
    >>> [name for name in template.get_feature_names_out()]
    ['bias', '0[-1]=\\B1', '0[-1]=the', '0[0]=cat', '0[0]=the', '0[1]=\\E1', '0[1]=cat']
    >>> features[0].toarray()
    array([[1., 1., 0., 0., 1., 0., 1.],
           [1., 0., 1., 1., 0., 1., 0.]])
    """

    state_type = _State
    n_columns_: int
    _names: FeatureNames
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "window": integer(0, MAX_REACH),
        "affixes": integer(0, MAX_REACH),
        "shape": boolean,
        "bigrams": boolean,
        "min_count": integer(1),
        "hashed": HASHED,
    }

    def __init__(
        self,
        window: int = 2,
        affixes: int = 3,
        shape: bool = True,
        bigrams: bool = True,
        min_count: int = 1,
        hashed: int | None = None,
    ) -> None:
        self.window = window
        self.affixes = affixes
        self.shape = shape
        self.bigrams = bigrams
        self.min_count = min_count
        self.hashed = hashed

    def fit(self, sentences: Sentences, y: object = None) -> Self:
        return self.fit_blocks([sentences])

    def extended(self, sentences: Sentences) -> Self:
        check_is_fitted(self, "_names")
        more = type(self)(**self._parameters()).fit(sentences)
        if more.n_columns_ != self.n_columns_:
            got = Description(f"{more.n_columns_} columns")
            raise InputError("sentences", got, f"tokens with {self.n_columns_} columns, as the first ones")
        more._names = FeatureNames(list(dict.fromkeys([*self._names.names(), *more._names.names()])))
        return more

    def transform(self, sentences: Sentences) -> "list[sparse.csr_array]":
        found, pointers, offsets = self._find(sentences)
        bounds, rows = pointers[offsets].tolist(), offsets.tolist()
        # Matrices share their values, and training reads the indices of all without a copy of them.
        ones = np.ones(int(np.diff(pointers[offsets]).max(initial=0)))
        ones.flags.writeable = found.flags.writeable = False
        parts = []
        for (start, stop), (first, last) in zip(pairwise(bounds), pairwise(rows), strict=True):
            part = _matrix(
                ones[: stop - start], found[start:stop], pointers[first : last + 1] - start, self.n_features_
            )
            # SciPy has copied views of much larger arrays.
            part.data, part.indices = ones[: stop - start], found[start:stop]
            parts.append(part)
        return parts

    def transform_flat(self, sentences: Sentences) -> "tuple[sparse.csr_array, NDArray[np.int64]]":
        """Return the features of the tokens of all sentences in one matrix, and the row where each sentence begins.

        Sentence `i` has the rows `offsets[i]` to `offsets[i + 1]`.
        """
        found, pointers, offsets = self._find(sentences)
        return _matrix(np.ones(len(found)), found, pointers, self.n_features_), offsets

    def _find(self, sentences: Sentences) -> tuple[NDArray[np.int32], NDArray[Any], NDArray[np.int64]]:
        """Return the features of all tokens, where those of each token begin, and where each sentence begins."""
        check_is_fitted(self, "_names")
        check_parameters(self)
        columns, offsets = _flatten(sentences, self.n_columns_)
        template = self._template(columns)
        most = 1 + len(template[0]) + 2 * int(self.affixes) + bool(self.shape)
        found = np.empty(offsets[-1] * most, dtype=np.int32)
        pointers = np.empty(offsets[-1] + 1, dtype=np.int64)
        names = self._names
        if self.hashed is not None:
            names = FeatureNames([])
            names.count(*template, columns, offsets, int(self.window))
        count = names.find(*template, columns, offsets, int(self.window), found, pointers)
        found.resize(count, refcheck=False)
        if self.hashed is not None:
            places = [hashed_column(name, self.n_features_) for name in names.names()]
            found, pointers = _hashed(np.array(places, dtype=np.int64)[found], pointers)
            count = len(found)
        return found, pointers.astype(np.int32) if count <= np.iinfo(np.int32).max else pointers, offsets

    def fit_transform(self, sentences: Sentences, y: object = None) -> "list[sparse.csr_array]":
        given = list(sentences)
        return self.fit(given).transform(given)

    def fit_transform_flat(self, sentences: Sentences) -> "tuple[sparse.csr_array, NDArray[np.int64]]":
        """Learn the features of the sentences and return them in one matrix; see `fit` and `transform_flat`."""
        given = list(sentences)
        return self.fit(given).transform_flat(given)

    def _state(self) -> _State:
        check_is_fitted(self, "_names")
        return _State(**self._parameters(), n_columns=self.n_columns_, names=self._names.names())

    @classmethod
    def _restored(cls, saved: _State) -> Self:
        template = cls(saved.window, saved.affixes, saved.shape, saved.bigrams, saved.min_count, saved.hashed)
        template._parameters()
        integer(1).check(saved.n_columns, "n_columns")
        template.n_columns_ = saved.n_columns
        template._names = FeatureNames(saved.names)
        check_names(_State, saved.names, len(template._names), hashed=saved.hashed is not None)
        return template

    def _parameters(self) -> dict[str, Any]:
        """Return the checked parameters."""
        check_parameters(self)
        self._check_hashed()
        return {
            **{name: int(getattr(self, name)) for name in ("window", "affixes", "min_count")},
            **{name: bool(getattr(self, name)) for name in ("shape", "bigrams")},
            "hashed": None if self.hashed is None else int(self.hashed),
        }

    def fit_blocks(self, blocks: Iterable[Sentences]) -> Self:
        """Learn the features of sentences in blocks, which need not fit into memory together.

        Parameters
        ----------
        blocks : iterable of blocks of sentences
            The sentences; the features are those of `fit` for all of them.

        Returns
        -------
        WindowFeatures
            The template itself.
        """
        self._parameters()
        names, n_columns, n_tokens = FeatureNames([]), None, 0
        for sentences in blocks:
            columns, offsets = _flatten(sentences, n_columns)
            if offsets[-1]:
                n_columns, n_tokens = len(columns), n_tokens + int(offsets[-1])
                if self.hashed is None:
                    names.count(*self._template(columns), columns, offsets, int(self.window))
        if n_columns is None:
            raise InputError("sentences", Description("no tokens"), "sentences with at least one token")
        self._names = names.frequent(int(self.min_count))
        require_features(self.n_features_, int(self.min_count), n_tokens)
        self.n_columns_ = n_columns
        return self

    @property
    def vocabulary_(self) -> dict[str, int]:  # type: ignore[override]
        """The column of each feature; made at each use, as it takes much more memory than the names alone."""
        return {name: column for column, name in enumerate(self._names.names())}

    @property
    def _n_names(self) -> int:
        return len(self._names)

    def __getstate__(self) -> dict[str, Any]:
        fitted = {"_names": self._names.names()} if hasattr(self, "_names") else {}
        return {**vars(self), **fitted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        fitted = {"_names": FeatureNames(state["_names"])} if "_names" in state else {}
        vars(self).update({**state, **fitted})

    def _template(self, columns: list[list[str]]) -> tuple[NDArray[np.int64], list[str], int, list[str]]:
        """Return the groups of adjacent offsets, how their features are named, and affixes and shapes of words."""
        groups, names = _groups(len(columns), int(self.window), bool(self.bigrams))
        shapes = list(map(_word_shape, columns[0])) if self.shape else []
        return groups, names, int(self.affixes), shapes


@lru_cache(maxsize=64)
def _groups(n_columns: int, window: int, bigrams: bool) -> tuple[NDArray[np.int64], list[str]]:
    """Return the groups (column, first offset, number of offsets), and what the names of their features begin with."""
    groups: list[tuple[int, int, int]] = []
    for k in range(n_columns):
        groups += [(k, offset, 1) for offset in range(-window, window + 1)]
        reach = min(window, 1 if k == 0 else 2)
        for size in () if not bigrams else (2,) if k == 0 else (2, 3):
            groups += [(k, start, size) for start in range(-reach, reach - size + 2)]
    names = [f"{k}[{','.join(map(str, range(first, first + size)))}]=" for k, first, size in groups]
    return np.array(groups, dtype=np.int64).reshape(-1, 3), names


def _flatten(sentences: Sentences, n_columns: int | None) -> tuple[list[list[str]], NDArray[np.int64]]:
    """Return the columns of all tokens as flat lists, and the offsets of sentences."""
    if isinstance(sentences, str):
        raise InputError("sentences", sentences, "a list of sentences of tokens")
    given = list(sentences)
    for i, sentence in enumerate(given):
        if isinstance(sentence, str) or not hasattr(sentence, "__len__"):
            expected = "a sequence of tokens such as ['The', 'cat'] or [('The', 'DT'), ('cat', 'NN')]"
            raise InputError(f"sentences[{i}]", sentence, expected)
    offsets = np.zeros(len(given) + 1, dtype=np.int64)
    np.cumsum([len(sentence) for sentence in given], out=offsets[1:])
    tokens: list[Any] = list(chain.from_iterable(given))

    def wrong(position: int, got: object, expected: str) -> InputError:
        sentence = int(np.searchsorted(offsets, position, side="right")) - 1
        return InputError(f"sentences[{sentence}][{position - int(offsets[sentence])}]", got, expected)

    kinds = set(map(type, tokens))
    if kinds == {str} and n_columns in (None, 1):
        _check_text(tokens)
        return [tokens], offsets
    for kind in kinds:
        if issubclass(kind, str) or not issubclass(kind, Sequence | np.ndarray):
            position = next(p for p, token in enumerate(tokens) if type(token) is kind)
            raise wrong(position, tokens[position], _form_of_token(n_columns))
    if not tokens:
        return [[]] * (n_columns or 1), offsets
    width = len(tokens[0]) if n_columns is None else n_columns
    if not width or set(map(len, tokens)) != {width}:
        position = next((p for p, token in enumerate(tokens) if len(token) != width), 0)
        others = "the first token" if n_columns is None else "the training sentences"
        got = Description(f"{len(tokens[position])} columns")
        raise wrong(position, got, f"a token of {max(width, 1)} columns as in {others}")
    columns = [[token[k] for token in tokens] for k in range(width)]
    for k, column in enumerate(columns):
        if any(not issubclass(kind, str) for kind in set(map(type, column))):
            position = next(p for p, value in enumerate(column) if not isinstance(value, str))
            raise wrong(position, column[position], f"a token with text in column {k}")
        _check_text(column)
    return columns, offsets


def _form_of_token(n_columns: int | None) -> str:
    """Return how a token is given."""
    if n_columns is None:
        return "a tuple of columns without the label, such as ('The', 'DT'), or each token a word"
    return "a word or a tuple of it" if n_columns == 1 else f"a tuple of the {n_columns} columns of training"


def _check_text(values: Sequence[str]) -> None:
    """Raise if a value is no Unicode text."""
    try:
        "".join(values).encode("utf-8")
    except UnicodeEncodeError as error:
        bad = error.object[error.start]
        value = next(value for value in values if bad in value)
        raise InputError("sentences", value, "text without lone surrogates") from error


def _hashed(columns: NDArray[np.int64], pointers: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the sorted columns of each row, each at most once, and where those of each row begin."""
    rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    pairs = np.unique((rows << 32) | columns)
    found = np.searchsorted(pairs, np.arange(len(pointers), dtype=np.int64) << 32)
    return (pairs & (2**32 - 1)).astype(np.int32), found


def _matrix(
    data: NDArray[np.float64], found: NDArray[np.int32], pointers: NDArray[Any], n_features: int
) -> "sparse.csr_array":
    """Return a matrix of sorted features, each at most once per token."""
    matrix = sparse.csr_array((data, found, pointers), shape=(len(pointers) - 1, n_features))
    matrix.has_canonical_format = True
    return matrix
