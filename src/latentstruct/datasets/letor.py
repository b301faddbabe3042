"""The MQ2008 queries of LETOR 4.0."""

import os

from latentstruct.datasets.home import dataset_file
from latentstruct.exceptions import InputError
from latentstruct.formats import Queries, read_queries
from latentstruct.short_repr import show

__all__ = ["load_letor_mq2008"]

_N_PARTS = 5
_N_FEATURES = 46
_SUBSETS = {"train": (0, 1, 2), "validation": (3,), "test": (4,)}


def load_letor_mq2008(fold: int, subset: str, data_home: str | os.PathLike[str] | None = None) -> Queries:
    """Load one part of a fold of LETOR 4.0 MQ2008 from ``letor_mq2008/S1.txt.gz`` … ``S5.txt.gz`` in the data home.

    Parameters
    ----------
    fold : {1, 2, 3, 4, 5}
        Fold 1 trains on S1, S2 and S3, validates on S4 and tests on S5; each further fold moves on by one.
    subset : {"train", "validation", "test"}
        The part.
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    Queries
        Documents with 46 features, each scaled to [0, 1] within its query, and grades 0, 1 and 2.

    Raises
    ------
    InputError
        If there is no such fold or part, no data home or no such file in it.
    FormatError
        If a file is damaged or not of this format.
    """
    if isinstance(fold, bool) or fold not in range(1, _N_PARTS + 1):
        raise InputError(f"fold is {show(fold)}; expected a whole number from 1 to {_N_PARTS}: choose one of these")
    if subset not in _SUBSETS:
        raise InputError(f"subset is {show(subset)}; expected 'train', 'validation' or 'test': choose one of these")
    numbers = [(fold - 1 + shift) % _N_PARTS + 1 for shift in _SUBSETS[subset]]
    parts = [read_queries(dataset_file(data_home, f"letor_mq2008/S{s}.txt.gz"), _N_FEATURES) for s in numbers]
    return Queries(
        [query for part in parts for query in part.ids],
        [x for part in parts for x in part.X],
        [y for part in parts for y in part.Y],
        [names for part in parts for names in part.documents],
    )
