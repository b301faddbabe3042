"""The chunking data of the CoNLL-2000 shared task."""

import os
import zipfile
from dataclasses import dataclass

from latentstruct.datasets.home import dataset_file
from latentstruct.exceptions import FormatError, InputError
from latentstruct.formats import parse_conll
from latentstruct.short_repr import short_repr, show

__all__ = ["Conll2000", "load_conll2000"]

_FILE = "conll2000/conll2000.zip"
_SUBSETS = ("train", "test")
_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True)
class Conll2000:
    """Sentences with their chunks.

    Parameters
    ----------
    tokens : list of list of (str, str)
        The word and the part of speech of the tokens of each sentence.
    Y : list of list of str
        The chunk tags of each sentence in the IOB2 scheme.
    """

    tokens: list[list[tuple[str, ...]]]
    Y: list[list[str]]

    __repr__ = short_repr


def load_conll2000(data_home: str | os.PathLike[str] | None = None, subset: str = "train") -> Conll2000:
    """Load one part of the CoNLL-2000 chunking data from ``conll2000/conll2000.zip`` in the data home.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.
    subset : {"train", "test"}, default="train"
        The part.

    Returns
    -------
    Conll2000
        The sentences and their chunk tags.

    Raises
    ------
    InputError
        If there is no such part, no data home or no such file in it.
    FormatError
        If the file is damaged or not of this format.
    """
    if subset not in _SUBSETS:
        raise InputError(f"subset is {show(subset)}; expected 'train' or 'test': choose one of these")
    path = dataset_file(data_home, _FILE)
    wanted = f"{subset}.txt"
    try:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.rpartition("/")[2] == wanted]
            size = sum(archive.getinfo(name).file_size for name in members)
            if size > _LARGEST:
                raise ValueError(f"its files have {size} bytes")
            contents = [archive.read(name) for name in members]
    except Exception as error:
        # A damaged archive fails in as many ways as the format and its compressions have parts.
        raise FormatError(
            f"{path} cannot be read ({type(error).__name__}: {error}); expected a complete zip archive with "
            f"{wanted} of {_LARGEST} bytes at most: fetch it again"
        ) from error
    if len(members) != 1:
        raise FormatError(f"{path} holds {len(members)} files {wanted}; expected one: fetch it again")
    source = f"{path}:{members[0]}"
    sentences = parse_conll(enumerate(contents[0].split(b"\n"), 1), source)
    if sentences.n_columns != 3:
        raise FormatError(
            f"{source}:1: found {sentences.n_columns} columns; expected 3, the word, its part of "
            "speech and its chunk tag: fetch the archive again"
        )
    tokens, labels = sentences.split_labels()
    return Conll2000(tokens, labels)
