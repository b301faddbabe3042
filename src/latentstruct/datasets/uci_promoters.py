"""Promoters of E. coli."""

import os
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentstruct.datasets.home import dataset_file
from latentstruct.exceptions import FormatError
from latentstruct.formats.text import decode_line, fail, numbered_lines, show
from latentstruct.short_repr import short_repr

__all__ = ["UciPromoters", "load_uci_promoters"]

_FILE = "uci_promoters/promoters.data"
_LINE = re.compile(r"([+-])\s*,\s*([^,\s]+)\s*,\s*([acgtACGT]+)")


@dataclass(frozen=True, eq=False)
class UciPromoters:
    """Sequences of E. coli of which half are promoters.

    Parameters
    ----------
    names : list of str
        Names of the sequences.
    X : list of str
        Their letters, in upper case.
    Y : array of shape (n,)
        +1 for promoters, −1 for others.
    """

    names: list[str]
    X: list[str]
    Y: NDArray[np.int64]

    __repr__ = short_repr


def load_uci_promoters(data_home: str | os.PathLike[str] | None = None) -> UciPromoters:
    """Load the promoters from ``uci_promoters/promoters.data`` in the data home.

    Each line of the file holds ``+`` or ``-``, a name and letters, separated by commas.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    UciPromoters
        Names, sequences and labels.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If the file is damaged or not of this format.
    """
    path = dataset_file(data_home, _FILE)
    names: list[str] = []
    X: list[str] = []
    labels: list[int] = []
    for number, raw in numbered_lines(path):
        text = decode_line(raw, str(path), number).strip()
        if not text:
            continue
        found = _LINE.fullmatch(text)
        if found is None:
            fail(str(path), number, f"found {show(text)}; expected '+,name,letters': fetch the file again")
        labels.append(1 if found[1] == "+" else -1)
        names.append(found[2])
        X.append(found[3].upper())
    if not names:
        raise FormatError(f"{path} holds no sequences; expected lines '+,name,letters': fetch the file again")
    return UciPromoters(names, X, np.array(labels))
