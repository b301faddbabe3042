"""Samples with classes, topics or grades: optdigits, adult, Reuters-21578, LETOR MQ2008 and OHSUMED."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.lazy import sparse
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.ranking import Queries, read_queries
from latentstruct.io.svmlight import SparseRows, read_svmlight
from latentstruct.io.tables import read_csv
from latentstruct.io.text import Source
from latentstruct_papers.datasets.home import Home, dataset_file, loader

DIGIT_FEATURES, HIGHEST_COUNT, ADULT_FEATURES = 64, 16, 122
_N_PARTS = 5
_SUBSETS = {"train": (0, 1, 2), "validation": (3,), "test": (4,)}


@dataclass(frozen=True, eq=False)
class SplitSamples:
    """Training samples and test samples, in the order of the files.

    Parameters
    ----------
    train_X, test_X : float arrays or csr_arrays of shape (n, d)
        The features.
    train_y, test_y : int64 arrays of shape (n,)
        The classes.
    """

    train_X: "NDArray[np.float64] | sparse.csr_array"
    train_y: NDArray[np.int64]
    test_X: "NDArray[np.float64] | sparse.csr_array"
    test_y: NDArray[np.int64]

    __repr__ = short_repr


@loader("optdigits/optdigits.tra", "optdigits/optdigits.tes")
def load_optdigits(paths: list[Path]) -> SplitSamples:
    """Load the handwritten digits from ``optdigits/optdigits.tra`` and ``optdigits/optdigits.tes`` in the data home.

    Both have a header line, then 64 counts of ink from 0 to 16 and the digit, separated by commas.

    Returns
    -------
    SplitSamples
        3823 training and 1797 test samples, dense, with the classes 0 to 9.
    """
    parts: list[Any] = []
    for path in paths:
        X, y, _ = read_csv(path)
        if X.shape[1] != DIGIT_FEATURES:
            raise FormatError(path, Description(f"{X.shape[1]} features"), f"{DIGIT_FEATURES} features", line=1)
        if X.min() < 0 or X.max() > HIGHEST_COUNT:
            got = Description(f"{X.min():g} to {X.max():g}")
            raise FormatError(path, got, f"counts from 0 to {HIGHEST_COUNT}")
        parts += [X, _checked_classes(path, y, 9)]
    return SplitSamples(*parts)


@loader("adult_a9a/a9a.gz", "adult_a9a/a9a.t.gz")
def load_adult(paths: list[Path]) -> SplitSamples:
    """Load the incomes of adults from ``adult_a9a/a9a.gz`` and ``adult_a9a/a9a.t.gz`` in the data home.

    Both are svmlight files with 122 features that are 0 or 1 and the class 1 for an income above 50 000 dollars.

    Returns
    -------
    SplitSamples
        32 560 training and 16 281 test samples, sparse, with the classes 0 and 1.
    """
    parts: list[Any] = []
    for path in paths:
        X, y = read_svmlight(path, ADULT_FEATURES)
        parts += [X, _checked_classes(path, y, 1)]
    return SplitSamples(*parts)


def _checked_classes(path: Path, y: NDArray[Any], highest: int) -> NDArray[np.int64]:
    """Return classes that are integers from 0 to the highest."""
    wrong = y[~np.isin(y, np.arange(highest + 1))] if y.dtype.kind == "i" else y
    if len(wrong):
        raise FormatError(path, wrong[0], f"classes from 0 to {highest}")
    return y


@dataclass(frozen=True, eq=False)
class Reuters:
    """News stories as weighted words, each with any number of topics.

    Parameters
    ----------
    train_X, test_X : csr_array of shape (n, d)
        Words: (1 + log tf) · idf, rows of length 1; idf is that of the training stories.
    train_topics, test_topics : list of n tuples of str
        The distinct topics of each story; many stories have none.
    train_ids, test_ids : list of n str
        The numbers of the stories in the collection.
    vocabulary : list of d str
        The word of each column.
    """

    train_X: "sparse.csr_array"
    train_topics: list[tuple[str, ...]]
    train_ids: list[str]
    test_X: "sparse.csr_array"
    test_topics: list[tuple[str, ...]]
    test_ids: list[str]
    vocabulary: list[str]

    __repr__ = short_repr

    @property
    def topics(self) -> dict[str, int]:
        """The topics with the number of training stories that have them, the most frequent first."""
        counts = Counter(topic for story in self.train_topics for topic in story)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def has_topic(self, topic: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which training stories and which test stories have a topic.

        Parameters
        ----------
        topic : str
            A topic of at least one story.

        Returns
        -------
        train, test : bool arrays of shape (n,)
            Whether each story has it.
        """
        train, test = (
            np.array([topic in story for story in part], dtype=bool) for part in (self.train_topics, self.test_topics)
        )
        if not train.any() and not test.any():
            raise InputError("topic", topic, f"a topic such as {', '.join(list(self.topics)[:10])}")
        return train, test


@loader(
    "reuters21578/modapte_vocab.txt.gz",
    "reuters21578/modapte_train.multilabel.svmlight.gz",
    "reuters21578/modapte_test.multilabel.svmlight.gz",
)
def load_reuters(paths: list[Path]) -> Reuters:
    """Load the ModApte split of Reuters-21578 from ``reuters21578`` in the data home.

    The files are ``modapte_train.multilabel.svmlight.gz``, ``modapte_test.multilabel.svmlight.gz`` and
    ``modapte_vocab.txt.gz``. Each line of the first two has the topics of a story separated by commas, which may be
    none, then a space, index:value pairs with indices from 1, and # with the number of the story; the third has one
    word per line.

    Returns
    -------
    Reuters
        9603 training stories, 3299 test stories, 11 842 words.
    """
    source = Source.open(paths[0])
    vocabulary = []
    for word in map(str.strip, source.texts()):
        if not word or len(word.split()) > 1:
            source.fail(word, "one word per line")
        vocabulary.append(word)
    if not vocabulary:
        source.fail(Description("no word"), "one word per line", line=1)
    train, test = (_read_stories(Source.open(path), len(vocabulary)) for path in paths[1:])
    return Reuters(*train, *test, vocabulary)


def _read_stories(source: Source, n_words: int) -> "tuple[sparse.csr_array, list[tuple[str, ...]], list[str]]":
    """Return words, topics and numbers of the stories of one part."""
    rows = SparseRows(source, n_words)
    topics: list[tuple[str, ...]] = []
    ids: list[str] = []
    for raw in source:
        if not raw.strip():
            continue
        content, _, remark = raw.partition(b"#")
        head, _, pairs = content.partition(b" ")
        listed = source.decode(head.strip())
        names = tuple(dict.fromkeys(listed.split(","))) if listed else ()
        if ":" in listed or not all(names):
            source.fail(listed, "topics separated by commas, or nothing, then a space")
        rows.add(pairs)
        topics.append(names)
        ids.append(source.decode(remark).strip())
    if not topics:
        source.fail(Description("no story"), "topics and index:value pairs per line", line=1)
    return rows.matrix(), topics, ids


def load_letor_mq2008(fold: int, subset: str, data_home: Home = None) -> Queries:
    """Load one part of a fold of LETOR 4.0 MQ2008 from ``letor_mq2008/S1.txt.gz`` … ``S5.txt.gz`` in the data home.

    Parameters
    ----------
    fold : {1, 2, 3, 4, 5}
        Fold 1 trains on S1, S2 and S3, validates on S4 and tests on S5; each further fold is shifted by one.
    subset : {"train", "validation", "test"}
        The part.
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA``.

    Returns
    -------
    Queries
        Documents with 46 features, each scaled to [0, 1] within its query, and grades 0, 1 and 2.

    Raises
    ------
    InputError
        If there is no such fold or part, or no data home.
    FormatError
        If a file is missing, damaged or of another format.
    """
    return _read_letor("letor_mq2008", 46, fold, subset, data_home)


def load_letor_ohsumed(fold: int, subset: str, data_home: Home = None) -> Queries:
    """Load one part of a fold of LETOR 3.0 OHSUMED from ``letor3_ohsumed/S1.txt.gz`` … ``S5.txt.gz`` in the data home.

    The files have raw features. They are scaled to [0, 1] within each query; a feature that is equal for all documents
    of a query becomes 0.

    Parameters
    ----------
    fold, subset, data_home
        As for `load_letor_mq2008`.

    Returns
    -------
    Queries
        Documents with 45 features and grades 0, 1 and 2.
    """
    found = _read_letor("letor3_ohsumed", 45, fold, subset, data_home)
    scaled: list[NDArray[np.float64]] = []
    for x in found.X:
        dense = x if isinstance(x, np.ndarray) else x.toarray()
        lowest, range_ = dense.min(axis=0), np.ptp(dense, axis=0)
        scaled.append((dense - lowest) / np.where(range_ > 0, range_, 1.0))
    return Queries(found.ids, scaled, found.Y, found.documents)


def _read_letor(name: str, n_features: int, fold: int, subset: str, data_home: Home) -> Queries:
    """Return one part of a fold of a data set in five files."""
    if isinstance(fold, bool) or fold not in range(1, _N_PARTS + 1):
        raise InputError("fold", fold, f"an integer from 1 to {_N_PARTS}")
    if subset not in _SUBSETS:
        raise InputError("subset", subset, "'train', 'validation' or 'test'")
    numbers = [(fold - 1 + shift) % _N_PARTS + 1 for shift in _SUBSETS[subset]]
    parts = [read_queries(dataset_file(data_home, f"{name}/S{s}.txt.gz"), n_features) for s in numbers]
    return Queries(
        [query for part in parts for query in part.ids],
        [x for part in parts for x in part.X],
        [y for part in parts for y in part.Y],
        [names for part in parts for names in part.documents],
    )
