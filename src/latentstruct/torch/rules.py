"""Which labels of a tagging scheme may follow each other."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from latentstruct.exceptions import InputError

SCHEMES = {"BIO": ("B", "I", "", ""), "BIOES": ("B", "I", "E", "S"), "BILOU": ("B", "I", "L", "U")}
"""Prefixes of the first, inner, last and only token of a span; schemes without the last two mark beginnings only."""


class TransitionRules(NamedTuple):
    """What is allowed in a sequence of labels.

    Attributes
    ----------
    transitions : Tensor of bool of shape (S, S)
        Whether the label of a column may follow that of a row.
    start, end : Tensor of bool of shape (S,)
        Whether a sequence may begin and end with a label.
    """

    transitions: Tensor
    start: Tensor
    end: Tensor


def tagging_rules(labels: Sequence[str], scheme: str = "BIO") -> TransitionRules:
    """Return which labels may follow each other in a tagging scheme.

    Parameters
    ----------
    labels : sequence of str
        The labels in the order of their numbers, such as ``["O", "B-PER", "I-PER"]``.
    scheme : {"BIO", "BIOES", "BILOU"}, default="BIO"
        BIO: a span begins with B. BIOES: it also ends with E, or is a single S. BILOU: the same with L and U.

    Returns
    -------
    TransitionRules
        The rules, for `ChainLoss`.

    Examples
    --------
    >>> from latentstruct.torch import tagging_rules
    >>> tagging_rules(["O", "B-PER", "I-PER"]).start
    tensor([ True,  True, False])
    """
    if scheme not in SCHEMES:
        raise InputError("scheme", scheme, f"one of {', '.join(map(repr, SCHEMES))}")
    first, inner, last, single = SCHEMES[scheme]
    parts = []
    for k, label in enumerate(labels):
        prefix, _, kind = label.partition("-")
        if label != "O" and (prefix not in (first, inner, last, single) or not kind):
            expected = ", ".join(f"'{one}-…'" for one in (first, inner, last, single) if one)
            raise InputError(f"labels[{k}]", label, f"'O' or one of {expected} in the scheme {scheme}")
        parts.append((prefix, kind))
    closing = bool(last)

    def is_open(prefix: str) -> bool:
        """Return whether a span must go on after a label."""
        return closing and prefix in (first, inner)

    def follows(before: tuple[str, str], here: tuple[str, str]) -> bool:
        if here[0] in (inner, last) and here[0]:
            return before[0] in (first, inner) and before[1] == here[1]
        return not is_open(before[0])

    table = [[follows(before, here) for here in parts] for before in parts]
    return TransitionRules(
        torch.tensor(table, dtype=torch.bool).reshape(len(parts), len(parts)),
        torch.tensor([follows(("O", ""), here) for here in parts], dtype=torch.bool),
        torch.tensor([not is_open(prefix) for prefix, _ in parts], dtype=torch.bool),
    )
