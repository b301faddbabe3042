"""Features of tokens from a window around them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import sparse
from latentstruct.core.parameters import Transformer, check_is_fitted
from latentstruct.core.validation import Constraint, boolean, check_parameters, integer
from latentstruct.exceptions import Description, InputError
from latentstruct.persistence.saved_features import frequent_names, read_state, saved_names

__all__ = ["WindowFeatures"]

MAX_REACH = 100
"""The largest window and the longest affix."""

FEW_TOKENS = 400
"""Number of tokens up to which features are looked up one by one, which is faster than numbering distinct values."""

_NAME_ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|"})

Sentences = Iterable[Sequence[Sequence[str] | str]]


class _State(msgspec.Struct, forbid_unknown_fields=True, tag_field="format", tag="latentstruct.WindowFeatures 1"):
    """The saved form of a fitted `WindowFeatures`."""

    window: int
    affixes: int
    shape: bool
    bigrams: bool
    min_count: int
    n_columns: int
    names: list[str]


class _Attribute(NamedTuple):
    """The values of an attribute of the template for all tokens.

    `codes` are the numbers of the distinct values at each token, -1 where the token has none; `names` are the feature
    names of the distinct values and `counts` their numbers of tokens.
    """

    names: list[str]
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]


class _Column(NamedTuple):
    """A column of all sentences with numbered distinct values, and markers around each sentence."""

    values: list[str]
    shown: list[str]
    padded: NDArray[np.int64]


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


def _prefix(length: int, word: str) -> str | None:
    return word[:length] if len(word) >= length else None


def _suffix(length: int, word: str) -> str | None:
    return word[-length:] if len(word) >= length else None


class WindowFeatures(Transformer):
    r"""Binary features of each token from the words and further columns around it.

    For the word, column 0, these are its values at the offsets ``-window`` to ``window`` (``0[-1]=the``), the
    pairs at ``(-1, 0)`` and ``(0, 1)`` (``0[-1,0]=the|cat``), its prefixes and suffixes (``prefix2=ca``) and
    its shape (``shape=Xx.d``). For each further column, such as the part of speech, these are its values at
    all offsets and all pairs and triples of adjacent offsets within the window and within 2
    (``1[-2,-1,0]=DT|JJ|NN``). Each token also has the feature ``bias``. With the defaults this is the
    template commonly used for the CoNLL-2000 chunking task, extended by affixes and shape.

    The markers ``\B1``, ``\B2``, … precede the first token of a sentence, and ``\E1``, ``\E2``, … follow the last
    one. Backslashes and bars in values are escaped by a backslash, so that distinct values have distinct names.

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

    Attributes
    ----------
    vocabulary_ : dict of str to int
        The column of each feature, sorted by frequency and then by name.
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

    vocabulary_: dict[str, int]
    n_columns_: int
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "window": integer(0, MAX_REACH),
        "affixes": integer(0, MAX_REACH),
        "shape": boolean,
        "bigrams": boolean,
        "min_count": integer(1),
    }

    def __init__(
        self,
        window: int = 2,
        affixes: int = 3,
        shape: bool = True,
        bigrams: bool = True,
        min_count: int = 1,
    ) -> None:
        self.window = window
        self.affixes = affixes
        self.shape = shape
        self.bigrams = bigrams
        self.min_count = min_count

    def fit(self, sentences: Sentences, y: object = None) -> "WindowFeatures":
        """Learn the features that occur in the sentences.

        Parameters
        ----------
        sentences : iterable of sequences of tokens
            The sentences; each token is a tuple of its word and any further columns, without the label, or all are
            words.
        y : object
            Not used.

        Returns
        -------
        WindowFeatures
            The template itself.
        """
        self._fit(sentences)
        return self

    def transform(self, sentences: Sentences) -> "list[sparse.csr_array]":
        """Return the features of each sentence; features that `fit` did not see are ignored.

        Parameters
        ----------
        sentences : iterable of sequences of tokens
            The sentences.

        Returns
        -------
        list of csr_array of shape (n_tokens, n_features)
            The features of the tokens of each sentence.
        """
        return _split_rows(*self.transform_flat(sentences))

    def transform_flat(self, sentences: Sentences) -> "tuple[sparse.csr_array, NDArray[np.int64]]":
        """Return the features of the tokens of all sentences in one matrix.

        Parameters
        ----------
        sentences : iterable of sequences of tokens
            The sentences.

        Returns
        -------
        X : csr_array of shape (n_tokens, n_features)
            The features of all tokens.
        offsets : array of shape (n_sentences + 1,)
            Sentence `i` has the rows `offsets[i]` to `offsets[i + 1]`.
        """
        check_is_fitted(self, "vocabulary_")
        check_parameters(self)
        columns, offsets = _flatten(sentences, self.n_columns_)
        if offsets[-1] <= FEW_TOKENS:
            return self._binary(self._find(columns, offsets)), offsets
        return self._matrix(list(self._attributes(columns, offsets)), offsets), offsets

    def fit_transform(self, sentences: Sentences, y: object = None) -> "list[sparse.csr_array]":
        """Learn the features of the sentences and return them.

        Parameters
        ----------
        sentences : iterable of sequences of tokens
            The sentences.
        y : object
            Not used.

        Returns
        -------
        list of csr_array of shape (n_tokens, n_features)
            The features of the tokens of each sentence.
        """
        return _split_rows(*self.fit_transform_flat(sentences))

    def fit_transform_flat(self, sentences: Sentences) -> "tuple[sparse.csr_array, NDArray[np.int64]]":
        """Learn the features of the sentences and return them in one matrix.

        Parameters
        ----------
        sentences : iterable of sequences of tokens
            The sentences.

        Returns
        -------
        X : csr_array of shape (n_tokens, n_features)
            The features of all tokens.
        offsets : array of shape (n_sentences + 1,)
            Sentence `i` has the rows `offsets[i]` to `offsets[i + 1]`.
        """
        attributes, offsets = self._fit(sentences)
        return self._matrix(attributes, offsets), offsets

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the features in the order of their columns.

        Parameters
        ----------
        input_features : object
            Not used.

        Returns
        -------
        array of shape (n_features,)
            The names.
        """
        check_is_fitted(self, "vocabulary_")
        return np.array(list(self.vocabulary_), dtype=object)

    @property
    def n_features_(self) -> int:
        """Number of features that `fit` has learned."""
        return len(self.vocabulary_)

    def to_state(self) -> dict[str, Any]:
        """Return the fitted template as JSON values.

        Returns
        -------
        dict
            The argument of `from_state`.
        """
        check_is_fitted(self, "vocabulary_")
        state: dict[str, Any] = msgspec.to_builtins(
            _State(*self._parameters(), self.n_columns_, list(self.vocabulary_))
        )
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "WindowFeatures":
        """Restore a fitted template from the result of `to_state`.

        Parameters
        ----------
        state : dict
            The state.

        Returns
        -------
        WindowFeatures
            The fitted template.

        Raises
        ------
        InputError
            If `to_state` cannot have returned the state.
        """
        saved = read_state(_State, state)
        template = cls(saved.window, saved.affixes, saved.shape, saved.bigrams, saved.min_count)
        template._parameters()
        integer(1).check(saved.n_columns, "n_columns")
        template.n_columns_ = saved.n_columns
        template.vocabulary_ = saved_names(_State, saved.names)
        return template

    def _parameters(self) -> tuple[int, int, bool, bool, int]:
        """Return the checked parameters in the order of the constructor."""
        check_parameters(self)
        return int(self.window), int(self.affixes), bool(self.shape), bool(self.bigrams), int(self.min_count)

    def _fit(self, sentences: Sentences) -> tuple[list[_Attribute], NDArray[np.int64]]:
        """Set the vocabulary and return the attributes of the sentences with the offsets."""
        self._parameters()
        columns, offsets = _flatten(sentences, None)
        if offsets[-1] == 0:
            raise _no_tokens()
        attributes = list(self._attributes(columns, offsets))
        counts = (zip(attribute.names, attribute.counts.tolist(), strict=True) for attribute in attributes)
        self._keep_frequent(chain.from_iterable(counts), int(offsets[-1]), len(columns))
        return attributes, offsets

    def fit_blocks(self, blocks: Iterable[Sentences]) -> "WindowFeatures":
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
        counts: Counter[str] = Counter()
        n_columns, n_tokens = None, 0
        for sentences in blocks:
            columns, offsets = _flatten(sentences, n_columns)
            if offsets[-1]:
                n_columns, n_tokens = len(columns), n_tokens + int(offsets[-1])
                for attribute in self._attributes(columns, offsets):
                    counts.update(dict(zip(attribute.names, attribute.counts.tolist(), strict=True)))
        if n_columns is None:
            raise _no_tokens()
        self._keep_frequent(counts.items(), n_tokens, n_columns)
        return self

    def _keep_frequent(self, counts: Iterable[tuple[str, int]], n_tokens: int, n_columns: int) -> None:
        """Set the vocabulary to the names that are frequent enough."""
        self.vocabulary_ = frequent_names(counts, int(self.min_count), n_tokens)
        self.n_columns_ = n_columns

    def _attributes(self, columns: list[list[str]], offsets: NDArray[np.int64]) -> Iterator[_Attribute]:
        """Yield the attributes of the template for all tokens."""
        window, n_tokens = int(self.window), int(offsets[-1])
        center = _centers(offsets, window)
        yield _Attribute(["bias"], np.zeros(n_tokens, dtype=np.int64), np.array([n_tokens]))
        for k, values in enumerate(columns):
            column = _number_values(values, offsets, center, window)
            for group in self._groups(k):
                yield _window_attribute(k, column, center, group)
            if k == 0:
                words = column.padded[center]
                for kind, part in self._parts_of_words():
                    yield _word_attribute(kind, list(map(part, column.values)), words)

    def _groups(self, k: int) -> list[tuple[int, ...]]:
        """Return the groups of adjacent offsets whose values of column `k` are features."""
        window, reach = int(self.window), min(int(self.window), 1 if k == 0 else 2)
        groups: list[tuple[int, ...]] = [(offset,) for offset in range(-window, window + 1)]
        for size in () if not self.bigrams else (2,) if k == 0 else (2, 3):
            groups += [tuple(range(start, start + size)) for start in range(-reach, reach - size + 2)]
        return groups

    def _parts_of_words(self) -> list[tuple[str, Callable[[str], str | None]]]:
        """Return the names of the features of single words, and functions that return their values or None."""
        parts: list[tuple[str, Callable[[str], str | None]]] = []
        for length in range(1, int(self.affixes) + 1):
            parts.append((f"prefix{length}", partial(_prefix, length)))
            parts.append((f"suffix{length}", partial(_suffix, length)))
        return [*parts, ("shape", _word_shape)] if self.shape else parts

    def _matrix(self, attributes: list[_Attribute], offsets: NDArray[np.int64]) -> "sparse.csr_array":
        """Return the matrix of the attributes in the vocabulary."""
        found = np.empty((int(offsets[-1]), len(attributes)), dtype=np.int32)
        lookup = self.vocabulary_.get
        for position, attribute in enumerate(attributes):
            # The additional last entry is for the code -1.
            columns = chain((lookup(name, -1) for name in attribute.names), (-1,))
            index = np.fromiter(columns, np.int32, len(attribute.names) + 1)
            found[:, position] = index[attribute.codes]
        return self._binary(found)

    def _binary(self, found: NDArray[np.int32]) -> "sparse.csr_array":
        """Return the matrix of rows with ones in the columns of `found`, where -1 is none."""
        found.sort(axis=1)
        known = found >= 0
        pointers = np.zeros(len(found) + 1, dtype=np.int64)
        np.cumsum(known.sum(axis=1), out=pointers[1:])
        if pointers[-1] <= np.iinfo(np.int32).max:
            pointers = pointers.astype(np.int32)
        indices = found[known]
        matrix = sparse.csr_array((np.ones(len(indices)), indices, pointers), shape=(len(found), len(self.vocabulary_)))
        matrix.has_canonical_format = True
        return matrix

    def _find(self, columns: list[list[str]], offsets: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the columns of the features of each token, -1 for those outside the vocabulary.

        They are those of `_attributes`, looked up one by one.
        """
        window, lookup, n_tokens = int(self.window), self.vocabulary_.get, int(offsets[-1])
        found, centers, bounds = [[lookup("bias", -1)] * n_tokens], _centers(offsets, window).tolist(), offsets.tolist()
        before, after = _markers(window)
        for k, values in enumerate(columns):
            _check_text(values)
            shown, groups = [value.translate(_NAME_ESCAPES) for value in values], self._groups(k)
            padded = list(chain.from_iterable((*before, *shown[a:b], *after) for a, b in pairwise(bounds)))
            joined = {size: list(map("|".join, _runs(padded, size))) for size in set(map(len, groups))}
            for group in groups:
                prefix, texts, first = _group_name(k, group), joined[len(group)], group[0]
                found.append([lookup(prefix + texts[center + first], -1) for center in centers])
            for kind, part in self._parts_of_words() if k == 0 else ():
                prefix, parts = f"{kind}=", map(part, values)
                found.append(
                    [-1 if one is None else lookup(prefix + one.translate(_NAME_ESCAPES), -1) for one in parts]
                )
        return np.array(found, dtype=np.int32).T.copy()


def _no_tokens() -> InputError:
    return InputError("sentences", Description("no tokens"), "sentences with at least one token")


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
        return [tokens], offsets
    for kind in kinds:
        if issubclass(kind, str) or not issubclass(kind, Sequence | np.ndarray):
            position = next(p for p, token in enumerate(tokens) if type(token) is kind)
            raise wrong(position, tokens[position], _form_of_token(n_columns))
    if not tokens:
        return [], offsets
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
    return columns, offsets


def _form_of_token(n_columns: int | None) -> str:
    """Return how a token is given."""
    if n_columns is None:
        return "a tuple of columns without the label, such as ('The', 'DT'), or each token a word"
    return "a word or a tuple of it" if n_columns == 1 else f"a tuple of the {n_columns} columns of training"


def _centers(offsets: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    """Return the places of all tokens among tokens and markers."""
    lengths = np.diff(offsets)
    return np.arange(offsets[-1]) + window * (2 * np.repeat(np.arange(len(lengths)), lengths) + 1)


def _markers(window: int) -> tuple[list[str], list[str]]:
    """Return the markers before and after a sentence."""
    return [f"\\B{k}" for k in range(window, 0, -1)], [f"\\E{k}" for k in range(1, window + 1)]


def _group_name(k: int, group: tuple[int, ...]) -> str:
    """Return how the names of the features of a group of offsets begin."""
    return f"{k}[{','.join(map(str, group))}]="


def _runs(values: Sequence[str], size: int) -> Iterable[tuple[str, ...]]:
    """Return all runs of adjacent values."""
    return zip(*(values[i : len(values) - size + 1 + i] for i in range(size)), strict=True)


def _check_text(values: Sequence[str]) -> None:
    """Raise if a value is no Unicode text."""
    try:
        "".join(values).encode("utf-8")
    except UnicodeEncodeError as error:
        bad = error.object[error.start]
        value = next(value for value in values if bad in value)
        raise InputError("sentences", value, "text without lone surrogates") from error


def _number_values(values: list[str], offsets: NDArray[np.int64], center: NDArray[np.int64], window: int) -> _Column:
    """Number the distinct values of a column and add the markers around sentences."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    distinct = list(numbers)
    _check_text(distinct)
    markers = chain.from_iterable(_markers(window))
    n_sentences = len(offsets) - 1
    padded = np.empty(len(values) + 2 * window * n_sentences, dtype=np.int64)
    padded[center] = np.fromiter(map(numbers.__getitem__, values), np.int64, len(values))
    steps = np.arange(window)
    begins = offsets[:-1] + 2 * window * np.arange(n_sentences)
    ends = begins + np.diff(offsets) + window
    padded[begins[:, None] + steps] = len(distinct) + steps
    padded[ends[:, None] + steps] = len(distinct) + window + steps
    return _Column(distinct, [*(value.translate(_NAME_ESCAPES) for value in distinct), *markers], padded)


def _window_attribute(k: int, column: _Column, center: NDArray[np.int64], group: tuple[int, ...]) -> _Attribute:
    """Return the attribute of the values of a column at a group of offsets."""
    codes = column.padded[center + group[0]]
    for offset in group[1:]:
        # Renumbering the distinct combinations keeps the product within 64 bits.
        codes = np.unique(codes, return_inverse=True)[1] * len(column.shown) + column.padded[center + offset]
    _, first, codes, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    shown = column.shown
    parts = [[shown[number] for number in column.padded[center[first] + offset].tolist()] for offset in group]
    prefix = _group_name(k, group)
    return _Attribute([prefix + "|".join(values) for values in zip(*parts, strict=True)], codes, counts)


def _word_attribute(kind: str, of_word: Sequence[str | None], words: NDArray[np.int64]) -> _Attribute:
    """Return an attribute of single words, which some may not have."""
    present = dict.fromkeys(value for value in of_word if value is not None)
    distinct = {value: number for number, value in enumerate(present)}
    table = np.array([-1 if value is None else distinct[value] for value in of_word], dtype=np.int64)
    codes = table[words]
    counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
    return _Attribute([f"{kind}={value.translate(_NAME_ESCAPES)}" for value in distinct], codes, counts)


def _split_rows(matrix: "sparse.csr_array", offsets: NDArray[np.int64]) -> "list[sparse.csr_array]":
    """Split a matrix into those of the sentences, which share its memory."""
    bounds = matrix.indptr[offsets].tolist()
    rows = offsets.tolist()
    parts = []
    for i, (start, stop) in enumerate(pairwise(bounds)):
        pointers = matrix.indptr[rows[i] : rows[i + 1] + 1] - start
        part = sparse.csr_array(
            (matrix.data[start:stop], matrix.indices[start:stop], pointers),
            shape=(rows[i + 1] - rows[i], matrix.shape[1]),
        )
        part.has_canonical_format = True
        parts.append(part)
    return parts
