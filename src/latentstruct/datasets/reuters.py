"""News stories with their topics: Reuters-21578 in the ModApte split."""

import os
from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from latentstruct.datasets.home import dataset_file
from latentstruct.exceptions import FormatError, InputError
from latentstruct.formats.svmlight import parse_pairs
from latentstruct.formats.text import decode_line, fail, numbered_lines, show
from latentstruct.short_repr import short_repr

__all__ = ["Reuters", "load_reuters"]

_FOLDER = "reuters21578"
_CURE = "fetch the file again"


@dataclass(frozen=True, eq=False)
class Reuters:
    """News stories as weighted words, each with any number of topics.

    Parameters
    ----------
    train_X, test_X : csr_array of shape (n, d)
        Words: (1 + log tf) · idf, rows of length 1; idf is that of the stories to train on.
    train_topics, test_topics : list of n tuples of str
        The topics of each story, none twice; many stories have none.
    train_ids, test_ids : list of n str
        The numbers of the stories in the collection.
    vocabulary : list of d str
        The word of each column.
    """

    train_X: csr_array
    train_topics: list[tuple[str, ...]]
    train_ids: list[str]
    test_X: csr_array
    test_topics: list[tuple[str, ...]]
    test_ids: list[str]
    vocabulary: list[str]

    __repr__ = short_repr

    @property
    def topics(self) -> dict[str, int]:
        """The topics with the number of stories to train on that have them, the most frequent first."""
        counts: dict[str, int] = {}
        for story in self.train_topics:
            for topic in story:
                counts[topic] = counts.get(topic, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def has_topic(self, topic: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Tell which stories have a topic: of those to train on, and of those to test with.

        Parameters
        ----------
        topic : str
            One that some story has.

        Returns
        -------
        train, test : bool arrays of shape (n,)
            Whether each story has it.
        """
        train, test = (
            np.array([topic in story for story in part], dtype=bool) for part in (self.train_topics, self.test_topics)
        )
        if not train.any() and not test.any():
            known = ", ".join(list(self.topics)[:10])
            raise InputError(f"no story has the topic {show(topic)}; expected one such as {known}: choose one of these")
        return train, test


def load_reuters(data_home: str | os.PathLike[str] | None = None) -> Reuters:
    """Load the ModApte split of Reuters-21578 from ``reuters21578`` in the data home.

    The files are ``modapte_train.multilabel.svmlight.gz``, ``modapte_test.multilabel.svmlight.gz`` and
    ``modapte_vocab.txt.gz``. Each line of the first two holds the topics of a story separated by commas, or nothing,
    then a space, index:value pairs with indices from 1, and # with the number of the story; the third holds one word
    a line.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    Reuters
        9603 stories to train on, 3299 to test with, 11 842 words.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If a file is damaged or not of this format.
    """
    vocabulary = _read_words(dataset_file(data_home, f"{_FOLDER}/modapte_vocab.txt.gz"))
    train, test = (
        _read_stories(dataset_file(data_home, f"{_FOLDER}/modapte_{part}.multilabel.svmlight.gz"), len(vocabulary))
        for part in ("train", "test")
    )
    return Reuters(*train, *test, vocabulary)


def _read_words(path: Path) -> list[str]:
    """Return the words, one a line."""
    words: list[str] = []
    for number, raw in numbered_lines(path):
        word = decode_line(raw, str(path), number).strip()
        if not word or len(word.split()) > 1:
            fail(str(path), number, f"found {show(word)}; expected one word: {_CURE}")
        words.append(word)
    if not words:
        raise FormatError(f"{path}:1: found no word; expected one word a line: {_CURE}")
    return words


def _read_stories(path: Path, n_words: int) -> tuple[csr_array, list[tuple[str, ...]], list[str]]:
    """Return words, topics and numbers of the stories of one part."""
    topics: list[tuple[str, ...]] = []
    ids: list[str] = []
    indices, values, pointers = array("i"), array("d"), array("q", [0])
    for number, raw in numbered_lines(path):
        content, _, remark = raw.partition(b"#")
        if not raw.strip():
            continue
        head, _, pairs = content.partition(b" ")
        listed = decode_line(head.strip(), str(path), number)
        names = tuple(dict.fromkeys(listed.split(","))) if listed else ()
        if ":" in listed or not all(names):
            fail(
                str(path),
                number,
                f"found {show(listed)} where the topics should be; expected names separated by commas, or nothing and "
                f"a space: {_CURE}",
            )
        line_indices, line_values = parse_pairs(pairs, str(path), number, 1, n_words)
        topics.append(names)
        ids.append(decode_line(remark, str(path), number).strip())
        indices.extend(line_indices)
        values.extend(line_values)
        pointers.append(len(indices))
    if not topics:
        raise FormatError(f"{path}:1: found no story; expected topics and index:value pairs a line: {_CURE}")
    X = csr_array(
        (np.array(values), np.array(indices) - 1, np.array(pointers, dtype=np.int32)), shape=(len(topics), n_words)
    )
    return X, topics, ids
