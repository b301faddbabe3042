"""Features of all pairs of mentions of a document."""

from collections.abc import Callable, Iterable, Sequence, Sized
from itertools import pairwise, product
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import sparse
from latentstruct.core.parameters import Transformer
from latentstruct.data.documents import Document, Mention
from latentstruct.exceptions import Description, InputError
from latentstruct.persistence.saved_features import SavedFeatures, bad_state
from latentstruct.progress.heartbeat import each

__all__ = ["Document", "Mention", "MentionPairFeatures"]

Codes = NDArray[np.int16]
"""The class of each mention or pair, −1 for none."""


_CLASSES = ("I", "we", "you", "he", "she", "it", "they", "who")
_MALE, _FEMALE, _NEUTER, _UNKNOWN = range(4)
_PRONOUN_GENDER = {"he": _MALE, "she": _FEMALE, "it": _NEUTER}
_ARTICLES = ("none", "definite", "demonstrative", "indefinite", "possessive", "quantity")


def _word_set(*lists: str) -> frozenset[str]:
    return frozenset(word for words in lists for word in words.split())


def _numbers_of(names: tuple[str, ...], lists: dict[str, str]) -> dict[str, int]:
    """Return the number of the class of each word."""
    return {word: names.index(name) for name, words in lists.items() for word in words.split()}


_PRONOUN = _numbers_of(
    _CLASSES,
    {
        "I": "i me my mine myself",
        "we": "we us our ours ourselves ourself",
        "you": "you your yours yourself yourselves thou thee thy thine thyself ye",
        "he": "he him his himself",
        "she": "she her hers herself",
        "it": "it its itself",
        "they": "they them their theirs themselves 'em",
        "who": "who whom whose which that one oneself",
    },
)
_REFLEXIVE = frozenset(form for form in _PRONOUN if form.endswith(("self", "selves")))
_MALE_WORDS = _word_set(
    "mr mr. sir lord master monsieur don count duke baron prince king emperor esq esq. uncle father papa brother son",
    "grandfather nephew husband widower man men boy boys gentleman gentlemen lad fellow bachelor priest monk",
)
_FEMALE_WORDS = _word_set(
    "mrs mrs. ms ms. miss lady madam madame ma'am mademoiselle countess duchess baroness princess queen empress aunt",
    "mother mamma mama sister daughter grandmother niece wife widow woman women girl girls maid spinster nun",
)
_TITLES = _word_set(
    "mr mr. mrs mrs. ms ms. miss sir lady lord dr dr. doctor captain colonel major general professor rev rev. reverend",
    "st st. master madame monsieur uncle aunt king queen prince princess count countess duke duchess",
)
_HEAD_ENDS = _word_set(
    "of in on at by for from with without to into upon about over under between among near behind beside beyond",
    "through who whom whose which that where when as , ; : - -- — ( ) [ ] “ ” ‘ `` '' \"",
)
_ARTICLE = _numbers_of(
    _ARTICLES,
    {
        "definite": "the",
        "demonstrative": "this that these those such",
        "indefinite": "a an another",
        "possessive": "my our your thy his her its their whose one's",
        "quantity": "some any no every each all both many several few two three four five six seven eight nine ten",
    },
)
_PLURAL_WORDS = _word_set("these those all both many several few two three four five six seven eight nine ten")
_PLURAL_HEADS = _word_set("men women people children folk gentlemen ladies feet police parents")
_STOP_WORDS = _HEAD_ENDS | _TITLES | _word_set("and 's ’s ' ’ . ! ?") | _ARTICLE.keys()
_COPULAS = _word_set("is was are were am be been being 's")
_PROPER, _NOMINAL, _PRONOMINAL = range(3)
_KINDS = ("name", "noun", "pronoun")
_ENTITY_TYPES = ("PER", "FAC", "LOC", "GPE", "VEH", "ORG")
_SENTENCE_BINS = np.array([1, 2, 3, 4, 6, 10, 20, 40])
_MENTION_BINS = np.array([2, 3, 4, 6, 9, 16, 31, 61, 121])


def _head(words: Sequence[str]) -> int:
    """Return the position of the last word before a preposition, a relative word or a comma."""
    for position, word in enumerate(words):
        if position > 0 and word.lower() in _HEAD_ENDS:
            return position - 1
    return len(words) - 1


def baseline_clusters(document: Document) -> dict[str, list[Any]]:
    """Return clusters of mentions by simple rules: each alone, those with the same words, those with the same head.

    Parameters
    ----------
    document : Document
        The document; its clusters are not used.

    Returns
    -------
    dict of str to list
        For the rules "singletons", "same words" and "same head", a label of the cluster of each mention. Case is
        ignored.

    Examples
    --------
    >>> from latentstruct.data import Document, Mention
    >>> text = Document("a", [["Anna", "and", "old", "Anna"]], [Mention(0, 0, 1, "1"), Mention(0, 2, 4, "1")])
    >>> baseline_clusters(text)
    {'singletons': [0, 1], 'same words': ['anna', 'old anna'], 'same head': ['anna', 'anna']}
    """
    words = [[word.lower() for word in document.words(mention)] for mention in document.mentions]
    return {
        "singletons": list(range(len(words))),
        "same words": [" ".join(part) for part in words],
        "same head": [part[_head(part)] for part in words],
    }


def _is_plural(words: Sequence[str], head: str, proper: bool) -> bool:
    lower = [word.lower() for word in words]
    if "and" in lower or lower[0] in _PLURAL_WORDS or head in _PLURAL_HEADS:
        return True
    return not proper and len(head) > 3 and head.endswith("s") and not head.endswith(("ss", "us", "'s", "’s"))


def _gender(lower: Sequence[str]) -> int:
    for word in lower:
        if word in _MALE_WORDS or word in _FEMALE_WORDS:
            return _MALE if word in _MALE_WORDS else _FEMALE
    return _UNKNOWN


class _Speech(NamedTuple):
    """The number of the direct speech of each word, −1 outside, by sentence."""

    of_word: list[list[int]]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]]) -> "_Speech":
        numbers, inside, speeches = [], False, 0
        for words in sentences:
            line = []
            for word in words:
                opens = word in ("“", "``") or (word == '"' and not inside)
                if opens and not inside:
                    speeches += 1
                line.append(speeches if inside or opens else -1)
                inside = opens or (inside and word not in ("”", "''", '"'))
            numbers.append(line)
        return cls(numbers)


class _Mentions:
    """Properties of single mentions: arrays of length m."""

    def __init__(self, document: Document, entity_types: bool) -> None:
        speech = _Speech.of(document.sentences)
        mentions = document.mentions
        first_words = np.concatenate([[0], np.cumsum([len(words) for words in document.sentences])])
        self.sentence = np.array([mention.sentence for mention in mentions])
        self.start = first_words[self.sentence] + [mention.start for mention in mentions]
        self.end = first_words[self.sentence] + [mention.end for mention in mentions]
        self.flat = [word.lower() for words in document.sentences for word in words]
        self.speech = np.array([speech.of_word[mention.sentence][mention.start] for mention in mentions])
        words = [document.words(mention) for mention in mentions]
        self.text = _numbered(" ".join(part).lower() for part in words)
        lower = [[word.lower() for word in part] for part in words]
        heads = [_head(part) for part in words]
        self.head = _numbered(part[at] for part, at in zip(lower, heads, strict=True))
        self.pronoun = np.array([_PRONOUN.get(part[0], -1) if len(part) == 1 else -1 for part in lower], dtype=np.int16)
        self.reflexive = np.array([len(part) == 1 and part[0] in _REFLEXIVE for part in lower])
        self.kind = np.array(
            [
                _PRONOMINAL if pronoun >= 0 else _PROPER if part[at][:1].isupper() else _NOMINAL
                for pronoun, part, at in zip(self.pronoun, words, heads, strict=True)
            ],
            dtype=np.int16,
        )
        self._agreement(words, lower, heads)
        self.article = np.array([_ARTICLE.get(part[0], 0) for part in lower], dtype=np.int16)
        self.content = self._content(words, heads)
        types = [mention.entity_type if entity_types else None for mention in mentions]
        self.type = np.array([_type_number(kind) for kind in types], dtype=np.int16)

    def _agreement(self, words: list[list[str]], lower: list[list[str]], heads: list[int]) -> None:
        """Determine gender and number of each mention from its pronoun, title, article and ending."""
        gender, plural = [], []
        for k, (part, small, at) in enumerate(zip(words, lower, heads, strict=True)):
            if self.pronoun[k] >= 0:
                name = _CLASSES[self.pronoun[k]]
                gender.append(_PRONOUN_GENDER.get(name, _UNKNOWN))
                plural.append(name in ("we", "they"))
            else:
                gender.append(_gender(small[: at + 1]))
                plural.append(_is_plural(part[: at + 1], small[at], bool(self.kind[k] == _PROPER)))
        self.gender, self.plural = np.array(gender, dtype=np.int16), np.array(plural)

    def _content(self, words: list[list[str]], heads: list[int]) -> "sparse.csr_array":
        """Return the words of each name or noun up to its head without articles and titles, shape (m, words)."""
        number: dict[str, int] = {}
        entries: list[tuple[int, int]] = []
        for k, (part, at) in enumerate(zip(words, heads, strict=True)):
            if self.pronoun[k] < 0:
                kept = ({word.lower() for word in part[:at]} - _STOP_WORDS) | {part[at].lower()}
                entries.extend((k, number.setdefault(word, len(number))) for word in kept)
        rows, columns = np.array(entries, dtype=np.int64).reshape(-1, 2).T
        shape = (len(words), max(1, len(number)))
        return sparse.csr_array((np.ones(len(rows), dtype=np.int32), (rows, columns)), shape=shape)


def _numbered(values: Iterable[str]) -> NDArray[np.int64]:
    number: dict[str, int] = {}
    return np.array([number.setdefault(value, len(number)) for value in values], dtype=np.int64)


def _type_number(name: str | None) -> int:
    """Return the number of an entity type: the same for all types that are not listed, −1 if none is given."""
    if name is None:
        return -1
    return _ENTITY_TYPES.index(name) if name in _ENTITY_TYPES else len(_ENTITY_TYPES)


class _Pairs:
    """Properties of pairs of mentions: arrays of length m(m − 1)/2 in condensed order."""

    def __init__(self, mentions: _Mentions) -> None:
        self.m = mentions
        size = len(mentions.kind)
        self.i, self.j = (part.astype(np.int32) for part in np.triu_indices(size, 1))
        overlap = (mentions.content @ mentions.content.T).toarray()
        words = np.diff(mentions.content.indptr)
        self.shared = overlap[self.i, self.j]
        self.fewer, self.more = np.minimum(words[self.i], words[self.j]), np.maximum(words[self.i], words[self.j])
        self.kinds = self.of("kind")
        self.group = (2 * (self.kinds[0] == _PRONOMINAL) + (self.kinds[1] == _PRONOMINAL)).astype(np.int16)
        self.full = self.group == 0
        self.same_head = self.full & self.same("head")
        self.same_text = self.same("text")
        self.speaking = tuple(part >= 0 for part in self.of("speech"))

    def of(self, name: str) -> tuple[NDArray, NDArray]:
        """Return a property of single mentions for the first and the second of each pair."""
        values = getattr(self.m, name)
        return values[self.i], values[self.j]

    def same(self, name: str) -> NDArray[np.bool_]:
        """Return whether both mentions have the same property."""
        first, second = self.of(name)
        return first == second

    def agreement(self) -> tuple[Codes, Codes]:
        """Return the agreement in gender (same, different, unknown) and in number (same, different)."""
        first, second = self.of("gender")
        gender = np.where((first == _UNKNOWN) | (second == _UNKNOWN), 2, (first != second).astype(np.int16))
        return gender.astype(np.int16), (~self.same("plural")).astype(np.int16)

    def nearest(self, fits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each pair (i, j) whether i is the last mention before j that fits j."""
        size = len(self.m.kind)
        last = np.full(size, -1, dtype=np.int32)
        # Pairs are sorted by i: the last assignment remains.
        last[self.j[fits]] = self.i[fits]
        return fits & (last[self.j] == self.i)


def _where(condition: NDArray[np.bool_], codes: NDArray) -> Codes:
    return np.where(condition, codes, -1).astype(np.int16)


def _flag(condition: NDArray[np.bool_]) -> Codes:
    return condition.astype(np.int16) - np.int16(1)


class _Template(NamedTuple):
    """A group of mutually exclusive features."""

    names: list[str]
    codes: Callable[[_Pairs], Codes]


def _names(prefix: str, *parts: Sequence[str]) -> list[str]:
    return [f"{prefix}={','.join(values)}" for values in product(*parts)]


def _bins(edges: NDArray[np.int64], first: int) -> list[str]:
    bounds = [first, *edges.tolist()]
    closed = [str(low) if high == low + 1 else f"{low}–{high - 1}" for low, high in pairwise(bounds)]
    return [*closed, f"{bounds[-1]}+"]


_GROUPS = ("full-full", "full-pronoun", "pronoun-full", "pronoun-pronoun")
_GENDERS = ("male", "female", "neuter", "unknown")
_NUMBERS = ("singular", "plural")
_PLACES = ("outside", "second inside", "first inside", "inside")
_TYPE_NAMES = (*_ENTITY_TYPES, "other")


def _spoken(p: _Pairs) -> Codes:
    first, second = p.speaking
    return 2 * first.astype(np.int16) + second


def _match(p: _Pairs) -> Codes:
    """Return how much the words agree: all, the head and all of one, the head, one in the other, some, none."""
    contained = (p.shared == p.fewer) & (p.fewer > 0)
    levels = [p.same_text, p.same_head & contained, p.same_head, contained, p.shared > 0]
    return np.select(levels, range(len(levels)), len(levels)).astype(np.int16)


_MATCHES = ("text", "head and contained", "head", "contained", "word", "nothing")


def _full_match(p: _Pairs) -> Codes:
    return _where(p.full, (_match(p) * 2 + p.kinds[0]) * 2 + p.kinds[1])


def _pronoun_pair(p: _Pairs) -> Codes:
    first, second = p.of("pronoun")
    n = len(_CLASSES)
    return _where((first >= 0) & (second >= 0), (first * n + second) * 4 + _spoken(p))


def _one_pronoun(p: _Pairs, which: int) -> Codes:
    """Return the pronoun with gender and number of the other mention, a name or noun."""
    pronoun, gender, plural = (p.of(name) for name in ("pronoun", "gender", "plural"))
    other = 1 - which
    codes = (pronoun[which] * 4 + gender[other]) * 2 + plural[other]
    return _where((pronoun[which] >= 0) & (pronoun[other] < 0), codes * 3 + _kind_or_quoted(p, other))


def _kind_or_quoted(p: _Pairs, other: int) -> NDArray:
    """Return whether the other mention is a name, a noun, or within a speech that does not include the pronoun."""
    apart = p.speaking[other] & ~p.same("speech")
    return np.where(apart, 2, p.kinds[other])


def _same_speech(p: _Pairs) -> Codes:
    """Return who is spoken of by two mentions in speeches: the same person in one speech or in several."""
    first, second = p.of("pronoun")
    person = [np.where((part >= 0) & (part < 3), part, 3) for part in (first, second)]
    return _where(p.speaking[0] & p.speaking[1], (person[0] * 4 + person[1]) * 2 + p.same("speech"))


def _speaker(p: _Pairs) -> Codes:
    """Return persons of pronouns in and out of speech."""
    first, second = p.of("pronoun")
    person = [np.where(part < 0, 3, np.select([part < 2, part == 2], [0, 1], 2)) for part in (first, second)]
    return (_spoken(p) * 16 + person[0] * 4 + person[1]).astype(np.int16)


def _sentence_distance(p: _Pairs) -> Codes:
    first, second = p.of("sentence")
    return (np.digitize(second - first, _SENTENCE_BINS) * 4 + p.group).astype(np.int16)


def _mention_distance(p: _Pairs) -> Codes:
    return (np.digitize(p.j - p.i, _MENTION_BINS) * 4 + p.group).astype(np.int16)


def _article_match(p: _Pairs) -> Codes:
    return _where(p.full & (p.kinds[1] == _NOMINAL), p.of("article")[1] * 2 + p.same_head)


def _agreement(p: _Pairs) -> Codes:
    gender, number = p.agreement()
    return (p.group * 3 + gender) * 2 + number


def _adjacent(p: _Pairs) -> Codes:
    """Return apposition ("Ahab, the captain"), copula ("Ahab was captain") or immediate adjacency."""
    between = p.of("start")[1] - p.of("end")[0]
    words = np.array([*p.m.flat, ""])
    middle = words[np.minimum(p.of("end")[0], len(words) - 1)]
    one = p.full & (between == 1)
    comma, copula = one & (middle == ","), one & np.isin(middle, list(_COPULAS))
    joined = one & ((middle == "and") | (middle == "or"))
    return np.select([comma, copula, joined, p.full & (between == 0)], [0, 1, 2, 3], -1).astype(np.int16)


def _nested(p: _Pairs) -> Codes:
    inside = p.of("end")[0] >= p.of("end")[1]
    return _where(inside, np.where(p.kinds[1] == _PRONOMINAL, 0, 1 + p.same_head))


def _reflexive(p: _Pairs) -> Codes:
    return _where(p.m.reflexive[p.j] & p.same("sentence"), p.nearest(~p.m.reflexive[p.i]))


def _nearest_like(p: _Pairs) -> Codes:
    """Return whether the first is the last mention before the second with the same words, head or pronoun."""
    pronoun = p.of("pronoun")
    alike = (p.same("pronoun") & (pronoun[0] >= 0)) | p.same_head
    return _where(p.nearest(alike), np.where(p.full, p.kinds[1], 2))


def _nearest_fitting(p: _Pairs) -> Codes:
    """Return the class of a pronoun whose last fitting antecedent is the first mention."""
    gender, number = p.agreement()
    fits = (gender == 0) & (number == 0)
    pronoun = p.of("pronoun")[1]
    return _where((pronoun >= 3) & p.nearest(fits), pronoun)


def _nearest_full(p: _Pairs) -> Codes:
    """Return the class of a pronoun whose last preceding name or noun without contradiction is the first mention."""
    gender, number = p.agreement()
    pronoun = p.of("pronoun")[1]
    fits = (p.group == 1) & (gender != 1) & (number == 0) & (p.of("end")[0] <= p.of("start")[1])
    return _where((pronoun >= 0) & p.nearest(fits), pronoun)


def _type_pair(p: _Pairs) -> Codes:
    first, second = p.of("type")
    n = len(_TYPE_NAMES)
    return _where((first >= 0) & (second >= 0), np.where(first == second, first, n) * 4 + p.group)


def _type_pronoun(p: _Pairs) -> Codes:
    kind, pronoun = p.of("type")[0], p.of("pronoun")[1]
    return _where((kind >= 0) & (pronoun >= 0), pronoun * len(_TYPE_NAMES) + kind)


_PERSONS = ("1st", "2nd", "3rd", "full")
_TEMPLATES = (
    _Template(["bias"], lambda p: np.zeros(len(p.i), dtype=np.int16)),
    _Template(_names("kinds", _KINDS, _KINDS), lambda p: p.kinds[0] * 3 + p.kinds[1]),
    _Template(_names("match", _MATCHES, _KINDS[:2], _KINDS[:2]), _full_match),
    _Template(_names("pronouns", _CLASSES, _CLASSES, _PLACES), _pronoun_pair),
    _Template(["same pronoun"], lambda p: _flag(p.same_text & (p.group == 3))),
    _Template(
        _names("pronoun after", _CLASSES, _GENDERS, _NUMBERS, ("name", "noun", "quoted")), lambda p: _one_pronoun(p, 1)
    ),
    _Template(
        _names("pronoun before", _CLASSES, _GENDERS, _NUMBERS, ("name", "noun", "quoted")), lambda p: _one_pronoun(p, 0)
    ),
    _Template(_names("agreement", _GROUPS, ("same", "different", "unknown"), ("same", "different")), _agreement),
    _Template(_names("article", _ARTICLES, ("other head", "same head")), _article_match),
    _Template(
        _names("articles", _ARTICLES, _ARTICLES),
        lambda p: _where(p.full & (p.kinds[0] == _NOMINAL) & (p.kinds[1] == _NOMINAL), _articles(p)),
    ),
    _Template(_names("sentences", _bins(_SENTENCE_BINS, 0), _GROUPS), _sentence_distance),
    _Template(_names("mentions", _bins(_MENTION_BINS, 1), _GROUPS), _mention_distance),
    _Template(["apposition", "copula", "conjunction", "neighbors"], _adjacent),
    _Template(_names("nested", ("pronoun", "full", "same head")), _nested),
    _Template(_names("reflexive", ("farther", "nearest")), _reflexive),
    _Template(_names("nearest alike", _KINDS), _nearest_like),
    _Template(_names("nearest fitting", _CLASSES), _nearest_fitting),
    _Template(_names("nearest full", _CLASSES), _nearest_full),
    _Template(_names("speech", _PLACES, _PERSONS, _PERSONS), _speaker),
    _Template(
        _names("speeches", ("I", "we", "you", "other"), ("I", "we", "you", "other"), ("two", "one")), _same_speech
    ),
    _Template(_names("type", (*_TYPE_NAMES, "different"), _GROUPS), _type_pair),
    _Template(_names("pronoun of type", _CLASSES, _TYPE_NAMES), _type_pronoun),
)


def _articles(p: _Pairs) -> NDArray:
    first, second = p.of("article")
    return first * len(_ARTICLES) + second


class _State(msgspec.Struct, forbid_unknown_fields=True, tag_field="format", tag="latentstruct.MentionPairFeatures 1"):
    """The saved form of `MentionPairFeatures`."""

    entity_types: bool
    n_features: int


class MentionPairFeatures(SavedFeatures, Transformer):
    """Binary features of all pairs of mentions of a document, for `Coreference` and `CorrelationClustering`.

    They are computed from words only: agreement of strings, heads and contained words; articles, titles and endings as
    cues of gender and number; classes of pronouns; direct speech; distance in sentences and mentions; apposition,
    nesting, and whether a mention is the nearest that fits. Nothing is learned; word lists are only those of closed
    classes (pronouns, articles, prepositions, titles and words of kinship). Clusters are not used.

    Parameters
    ----------
    entity_types : bool, default=True
        Whether to use the entity types of mentions where they are given.

    Examples
    --------
    >>> words = ["Alice", "lost", "her", "key"]
    >>> document = Document("a", [words], [Mention(0, 0, 1, "0"), Mention(0, 2, 3, "0"), Mention(0, 2, 4, "1")])
    >>> MentionPairFeatures().transform([document])[0].shape[0]
    3
    """

    state_type = _State

    def __init__(self, entity_types: bool = True) -> None:
        self.entity_types = entity_types

    def fit(self, documents: Any = None, y: Any = None) -> "MentionPairFeatures":
        """Return the object unchanged: nothing is learned."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def feature_names(self) -> list[str]:
        """The names of the d features."""
        return [name for template in _TEMPLATES for name in template.names]

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the d features."""
        return np.array(self.feature_names, dtype=object)

    def transform(self, documents: Iterable[Document]) -> "list[sparse.csr_array]":
        """Return the features of the pairs (0,1), (0,2), …, (1,2), … of the mentions of documents, (m(m − 1)/2, d)."""
        counted = each(documents, len(documents), "documents processed") if isinstance(documents, Sized) else documents
        return [self._document(document, k) for k, document in enumerate(counted)]

    def _document(self, document: Any, k: int) -> "sparse.csr_array":
        if not isinstance(document, Document):
            raise InputError(f"documents[{k}]", document, "a Document")
        if not document.mentions:
            raise InputError(f"documents[{k}]", Description("no mentions"), "a Document with at least one mention")
        pairs = _Pairs(_Mentions(document, bool(self.entity_types)))
        firsts = np.cumsum([0, *(len(template.names) for template in _TEMPLATES)])
        columns = np.empty((len(pairs.i), len(_TEMPLATES)), dtype=np.int32)
        for t, template in enumerate(_TEMPLATES):
            codes = template.codes(pairs)
            columns[:, t] = np.where(codes >= 0, codes + firsts[t], -1)
        present = columns >= 0
        indptr = np.zeros(len(columns) + 1, dtype=np.int32)
        np.cumsum(np.count_nonzero(present, axis=1), out=indptr[1:])
        indices = columns[present]
        matrix = sparse.csr_array((np.ones(len(indices), dtype=np.int8), indices, indptr), (len(columns), firsts[-1]))
        # Templates are in the order of their columns.
        matrix.has_canonical_format = True
        return matrix

    def _state(self) -> _State:
        return _State(bool(self.entity_types), self.n_features_)

    @classmethod
    def _restored(cls, saved: _State) -> Self:
        found = cls(saved.entity_types)
        if saved.n_features != found.n_features_:
            raise bad_state(_State, f"{saved.n_features} features instead of {found.n_features_}")
        return found

    @property
    def n_features_(self) -> int:
        """Number of features."""
        return len(self.feature_names)
