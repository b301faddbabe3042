"""Features of tokens from a window around them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from numbers import Integral
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import show
from latentstruct.core.lazy import sparse
from latentstruct.core.parameters import Transformer, check_is_fitted
from latentstruct.exceptions import InputError

__all__ = ["WindowFeatures"]

MAX_REACH = 100
"""The largest window and the longest affix."""

NO_TOKEN = (
    "there is no token in the sentences; expected at least one to learn features from: give sentences with tokens"
)
_STATE_FORMAT = "latentstruct.WindowFeatures"
_STATE_VERSION = 1
_NAME_ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|"})

Sentences = Iterable[Sequence[Sequence[str]]]


class _State(msgspec.Struct, forbid_unknown_fields=True):
    """The saved form of a fitted `WindowFeatures`."""

    format: str
    version: int
    window: int
    affixes: int
    shape: bool
    bigrams: bool
    min_count: int
    n_columns: int
    names: list[str]


class _Attribute(NamedTuple):
    """The values of one attribute of the template for all tokens.

    `codes` numbers the distinct values at each token, or is -1 where the token has none; `names` are the
    feature names of the distinct values and `counts` how many tokens have each.
    """

    names: list[str]
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]


class _Column(NamedTuple):
    """One column of all sentences, its distinct values numbered, with markers around each sentence."""

    values: list[str]
    shown: list[str]
    padded: NDArray[np.int64]


def _word_shape(word: str) -> str:
    """Return the classes of a word's characters, runs of one class collapsed."""
    shape = ""
    for character in word:
        if character.isupper() or character.istitle():
            kind = "X"
        elif character.islower():
            kind = "x"
        # Letters that also mean a number (京) are letters; which ones do changes between versions of Unicode.
        elif character.isdigit():
            kind = "d"
        elif character.isalpha():
            kind = "c"
        else:
            kind = "."
        if not shape.endswith(kind):
            shape += kind
    return shape


def _check_number(name: str, value: object, low: int, high: int | None) -> int:
    """Return a parameter as a whole number within its range."""
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or number < low or (high is not None and number > high):
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise InputError(f"{name} is {show(value)}; expected a whole number {bounds}: set {name} to one")
    return number


def _check_switch(name: str, value: object) -> bool:
    """Return a parameter that is true or false."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {show(value)}; expected True or False: set {name} to one of them")
    return bool(value)


class WindowFeatures(Transformer):
    r"""Binary features of each token from the words and further columns around it.

    For the word, column 0, these are its values at the offsets ``-window`` to ``window`` (``0[-1]=the``), the
    pairs at ``(-1, 0)`` and ``(0, 1)`` (``0[-1,0]=the|cat``), its prefixes and suffixes (``prefix2=ca``) and
    its shape (``shape=Xx.d``). For each further column, such as the part of speech, these are its values at
    all offsets and all pairs and triples of adjacent offsets that lie within the window and within 2
    (``1[-2,-1,0]=DT|JJ|NN``). Each token also has the feature ``bias``. With the defaults this is the
    template commonly used for the CoNLL-2000 chunking task, extended by affixes and shape.

    Before the first token of a sentence come the markers ``\B1``, ``\B2`` and so on, after the last one
    ``\E1``, ``\E2``. In names a backslash and a bar within a value are preceded by a backslash, so that
    different values never share a name.

    Parameters
    ----------
    window : int, default=2
        The largest offset.
    affixes : int, default=3
        The length of the longest prefix and suffix; 0 for none.
    shape : bool, default=True
        Whether to use the shape of the word: capitals are X, other letters x (c without case), digits d, all
        else a dot, with runs of the same class collapsed.
    bigrams : bool, default=True
        Whether to use pairs and triples.
    min_count : int, default=1
        The number of tokens of the training sentences that must have a feature for it to be kept.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        The column of each feature: frequent ones first, those that are equally frequent in the order of their names.
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
        sentences : iterable of sequences of token tuples
            The sentences; each token is a tuple of its word and any further columns, without the label.
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
        """Return the features of each sentence; features that were not seen by `fit` are left out.

        Parameters
        ----------
        sentences : iterable of sequences of token tuples
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
        sentences : iterable of sequences of token tuples
            The sentences.

        Returns
        -------
        X : csr_array of shape (n_tokens, n_features)
            The features of all tokens.
        offsets : array of shape (n_sentences + 1,)
            Sentence `i` has the rows `offsets[i]` to `offsets[i + 1]`.
        """
        check_is_fitted(self, "vocabulary_")
        columns, offsets = _flatten(sentences, self.n_columns_)
        return self._matrix(list(self._attributes(columns, offsets)), offsets), offsets

    def fit_transform(self, sentences: Sentences, y: object = None) -> "list[sparse.csr_array]":
        """Learn the features of the sentences and return them.

        Parameters
        ----------
        sentences : iterable of sequences of token tuples
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
        sentences : iterable of sequences of token tuples
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

    def to_state(self) -> dict[str, Any]:
        """Return the fitted template in values that JSON can hold.

        Returns
        -------
        dict
            What `from_state` takes.
        """
        check_is_fitted(self, "vocabulary_")
        window, affixes, shape, bigrams, min_count = self._parameters()
        return {
            "format": _STATE_FORMAT,
            "version": _STATE_VERSION,
            "window": window,
            "affixes": affixes,
            "shape": shape,
            "bigrams": bigrams,
            "min_count": min_count,
            "n_columns": self.n_columns_,
            "names": list(self.vocabulary_),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "WindowFeatures":
        """Rebuild a fitted template from what `to_state` returned.

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
            If the state is not one that `to_state` could have returned.
        """
        cure = "give what WindowFeatures.to_state returned, unchanged"
        try:
            saved = msgspec.convert(state, _State)
        except msgspec.ValidationError as error:
            raise InputError(
                f"the state of the window features is malformed ({error}); expected a saved one: {cure}"
            ) from error
        if saved.format != _STATE_FORMAT or saved.version != _STATE_VERSION:
            raise InputError(
                f"the state has the format {show(saved.format)}, version {saved.version}; expected "
                f"{show(_STATE_FORMAT)}, version {_STATE_VERSION}: {cure}"
            )
        template = cls(saved.window, saved.affixes, saved.shape, saved.bigrams, saved.min_count)
        template._parameters()
        template.n_columns_ = _check_number("n_columns", saved.n_columns, 1, None)
        if not saved.names:
            raise InputError(f"the state has no feature names; expected at least one: {cure}")
        template.vocabulary_ = {name: index for index, name in enumerate(saved.names)}
        if len(template.vocabulary_) < len(saved.names):
            repeated = next(name for name, times in Counter(saved.names).items() if times > 1)
            raise InputError(
                f"the feature name {show(repeated)} of the state is repeated; expected distinct names: {cure}"
            )
        return template

    def _parameters(self) -> tuple[int, int, bool, bool, int]:
        """Return the checked parameters in the order of the constructor."""
        return (
            _check_number("window", self.window, 0, MAX_REACH),
            _check_number("affixes", self.affixes, 0, MAX_REACH),
            _check_switch("shape", self.shape),
            _check_switch("bigrams", self.bigrams),
            _check_number("min_count", self.min_count, 1, None),
        )

    def _fit(self, sentences: Sentences) -> tuple[list[_Attribute], NDArray[np.int64]]:
        """Set the vocabulary and return the attributes of the sentences with the offsets."""
        self._parameters()
        columns, offsets = _flatten(sentences, None)
        if offsets[-1] == 0:
            raise InputError(NO_TOKEN)
        attributes = list(self._attributes(columns, offsets))
        counts = (zip(attribute.names, attribute.counts.tolist(), strict=True) for attribute in attributes)
        self._keep_frequent(chain.from_iterable(counts), int(offsets[-1]), len(columns))
        return attributes, offsets

    def fit_blocks(self, blocks: Iterable[Sentences]) -> "WindowFeatures":
        """Learn the features of sentences that come in blocks and need not fit into memory together.

        Parameters
        ----------
        blocks : iterable of blocks of sentences
            What `fit` would be given at once; the features are the same.

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
            raise InputError(NO_TOKEN)
        self._keep_frequent(counts.items(), n_tokens, n_columns)
        return self

    def _keep_frequent(self, counts: Iterable[tuple[str, int]], n_tokens: int, n_columns: int) -> None:
        """Set the vocabulary to the names that occur often enough."""
        min_count = self._parameters()[-1]
        counted = [(-count, name) for name, count in counts if count >= min_count]
        if not counted:
            raise InputError(
                f"no feature occurs in {min_count} tokens or more, as there are only {n_tokens} tokens; "
                f"expected min_count to leave some feature: set it to {n_tokens} or less"
            )
        # Frequent features first: their weights then share few pages of memory, which makes products with them
        # faster by a quarter on chunking.
        counted.sort()
        self.n_columns_ = n_columns
        self.vocabulary_ = {name: index for index, (_, name) in enumerate(counted)}

    def _attributes(self, columns: list[list[str]], offsets: NDArray[np.int64]) -> Iterator[_Attribute]:
        """Yield the attributes of the template for all tokens."""
        window, affixes, shape, bigrams, _ = self._parameters()
        n_tokens = int(offsets[-1])
        lengths = np.diff(offsets)
        centre = np.arange(n_tokens) + window * (2 * np.repeat(np.arange(len(lengths)), lengths) + 1)
        yield _Attribute(["bias"], np.zeros(n_tokens, dtype=np.int64), np.array([n_tokens]))
        for k, values in enumerate(columns):
            column = _number_values(values, offsets, centre, window)
            groups = [(offset,) for offset in range(-window, window + 1)]
            yield from (_window_attribute(k, column, centre, group) for group in groups)
            if bigrams:
                reach = min(window, 1 if k == 0 else 2)
                sizes = (2,) if k == 0 else (2, 3)
                for size in sizes:
                    for start in range(-reach, reach - size + 2):
                        yield _window_attribute(k, column, centre, tuple(range(start, start + size)))
            if k == 0:
                words = column.padded[centre]
                for length in range(1, affixes + 1):
                    long_enough = [word if len(word) >= length else None for word in column.values]
                    prefixes = [None if word is None else word[:length] for word in long_enough]
                    suffixes = [None if word is None else word[-length:] for word in long_enough]
                    yield _word_attribute(f"prefix{length}", prefixes, words)
                    yield _word_attribute(f"suffix{length}", suffixes, words)
                if shape:
                    yield _word_attribute("shape", list(map(_word_shape, column.values)), words)

    def _matrix(self, attributes: list[_Attribute], offsets: NDArray[np.int64]) -> "sparse.csr_array":
        """Look the attributes up in the vocabulary and put them into one matrix."""
        n_tokens = int(offsets[-1])
        found = np.empty((n_tokens, len(attributes)), dtype=np.int32)
        lookup = self.vocabulary_.get
        for position, attribute in enumerate(attributes):
            # The extra last entry serves the code -1.
            columns = chain((lookup(name, -1) for name in attribute.names), (-1,))
            index = np.fromiter(columns, np.int32, len(attribute.names) + 1)
            found[:, position] = index[attribute.codes]
        found.sort(axis=1)
        known = found >= 0
        pointers = np.zeros(n_tokens + 1, dtype=np.int64)
        np.cumsum(known.sum(axis=1), out=pointers[1:])
        if pointers[-1] <= np.iinfo(np.int32).max:
            pointers = pointers.astype(np.int32)
        indices = found[known]
        matrix = sparse.csr_array((np.ones(len(indices)), indices, pointers), shape=(n_tokens, len(self.vocabulary_)))
        matrix.has_canonical_format = True
        return matrix


def _flatten(sentences: Sentences, n_columns: int | None) -> tuple[list[list[str]], NDArray[np.int64]]:
    """Return the columns of all tokens as flat lists, and where each sentence begins."""
    if isinstance(sentences, str):
        raise InputError("the sentences are one string; expected a list of sentences of token tuples: split it")
    given = list(sentences)
    for i, sentence in enumerate(given):
        if isinstance(sentence, str) or not hasattr(sentence, "__len__"):
            raise InputError(
                f"sentence {i} is {show(sentence)}; expected a sequence of token tuples such as "
                "[('The', 'DT'), ('cat', 'NN')]: give a list of sentences"
            )
    offsets = np.zeros(len(given) + 1, dtype=np.int64)
    np.cumsum([len(sentence) for sentence in given], out=offsets[1:])
    tokens = list(chain.from_iterable(given))

    def fail(position: int, problem: str) -> InputError:
        sentence = int(np.searchsorted(offsets, position, side="right")) - 1
        return InputError(f"token {position - int(offsets[sentence])} of sentence {sentence} {problem}")

    for kind in set(map(type, tokens)):
        if issubclass(kind, str) or not issubclass(kind, Sequence | np.ndarray):
            position = next(p for p, token in enumerate(tokens) if type(token) is kind)
            raise fail(
                position,
                f"is {show(tokens[position])}; expected a tuple of columns without the label: write the word "
                "alone as a tuple of one, such as ('The',)",
            )
    if not tokens:
        return [], offsets
    expected = len(tokens[0]) if n_columns is None else n_columns
    if not expected or set(map(len, tokens)) != {expected}:
        position = next((p for p, token in enumerate(tokens) if len(token) != expected), 0)
        raise fail(
            position,
            f"has {len(tokens[position])} columns; expected {max(expected, 1)} as in the "
            f"{'first token' if n_columns is None else 'training sentences'}: give every token the same "
            "columns",
        )
    columns = [[token[k] for token in tokens] for k in range(expected)]
    for k, column in enumerate(columns):
        if any(not issubclass(kind, str) for kind in set(map(type, column))):
            position = next(p for p, value in enumerate(column) if not isinstance(value, str))
            raise fail(position, f"has {show(column[position])} in column {k}; expected text: convert it to str")
    return columns, offsets


def _number_values(values: list[str], offsets: NDArray[np.int64], centre: NDArray[np.int64], window: int) -> _Column:
    """Number the distinct values of a column and put the markers around the sentences."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    distinct = list(numbers)
    try:
        "".join(distinct).encode("utf-8")
    except UnicodeEncodeError as error:
        bad = error.object[error.start]
        value = next(value for value in distinct if bad in value)
        raise InputError(
            f"a token has the value {show(value)}, which has no UTF-8 form; expected Unicode text: "
            "remove the lone surrogates"
        ) from error
    markers = [f"\\B{distance}" for distance in range(window, 0, -1)]
    markers += [f"\\E{distance}" for distance in range(1, window + 1)]
    n_sentences = len(offsets) - 1
    padded = np.empty(len(values) + 2 * window * n_sentences, dtype=np.int64)
    padded[centre] = np.fromiter(map(numbers.__getitem__, values), np.int64, len(values))
    steps = np.arange(window)
    begins = offsets[:-1] + 2 * window * np.arange(n_sentences)
    ends = begins + np.diff(offsets) + window
    padded[begins[:, None] + steps] = len(distinct) + steps
    padded[ends[:, None] + steps] = len(distinct) + window + steps
    return _Column(distinct, [value.translate(_NAME_ESCAPES) for value in distinct] + markers, padded)


def _window_attribute(k: int, column: _Column, centre: NDArray[np.int64], group: tuple[int, ...]) -> _Attribute:
    """Return the attribute of a column's values at a group of offsets."""
    codes = column.padded[centre + group[0]]
    for offset in group[1:]:
        # Numbering the distinct combinations anew keeps the product within 64 bits.
        codes = np.unique(codes, return_inverse=True)[1] * len(column.shown) + column.padded[centre + offset]
    _, first, codes, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    shown = column.shown
    parts = [[shown[number] for number in column.padded[centre[first] + offset].tolist()] for offset in group]
    prefix = f"{k}[{','.join(map(str, group))}]="
    return _Attribute([prefix + "|".join(values) for values in zip(*parts, strict=True)], codes, counts)


def _word_attribute(kind: str, of_word: Sequence[str | None], words: NDArray[np.int64]) -> _Attribute:
    """Return an attribute that each distinct word has, or not, by itself."""
    present = dict.fromkeys(value for value in of_word if value is not None)
    distinct = {value: number for number, value in enumerate(present)}
    table = np.array([-1 if value is None else distinct[value] for value in of_word], dtype=np.int64)
    codes = table[words]
    counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
    return _Attribute([f"{kind}={value.translate(_NAME_ESCAPES)}" for value in distinct], codes, counts)


def _split_rows(matrix: "sparse.csr_array", offsets: NDArray[np.int64]) -> "list[sparse.csr_array]":
    """Cut a matrix into those of the sentences, which share its memory."""
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
