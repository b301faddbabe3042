"""Which labels of a sequence may follow each other."""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import check_shape
from latentstruct.exceptions import Description, InputError

SCHEMES = {"BIO": ("B", "I", "", ""), "BIOES": ("B", "I", "E", "S"), "BILOU": ("B", "I", "L", "U")}
"""Prefixes of the first, inner, last and only token of a span; schemes without the last two mark beginnings only."""


class TransitionRules(NamedTuple):
    """What is allowed in a sequence of labels.

    Attributes
    ----------
    transitions : ndarray of bool of shape (S, S)
        Whether the label of a column may follow that of a row.
    start, end : ndarray of bool of shape (S,)
        Whether a sequence may begin and end with a label.
    """

    transitions: NDArray[np.bool_]
    start: NDArray[np.bool_]
    end: NDArray[np.bool_]


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
        The rules, for `Chain`.

    Examples
    --------
    >>> from latentstruct.tasks import tagging_rules
    >>> tagging_rules(["O", "B-PER", "I-PER"]).start.tolist()
    [True, True, False]
    """
    if scheme not in SCHEMES:
        raise InputError("scheme", scheme, f"one of {', '.join(map(repr, SCHEMES))}")
    first, inner, last, single = SCHEMES[scheme]
    parts = []
    for k, label in enumerate(labels):
        prefix, _, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
        if label != "O" and (prefix not in (first, inner, last, single) or not kind):
            expected = ", ".join(f"'{one}-…'" for one in (first, inner, last, single) if one)
            raise InputError(f"labels[{k}]", label, f"'O' or one of {expected} in the scheme {scheme}")
        parts.append((prefix, kind))

    def is_open(prefix: str) -> bool:
        """Return whether a span must continue after a label."""
        return bool(last) and prefix in (first, inner)

    def follows(before: tuple[str, str], here: tuple[str, str]) -> bool:
        if here[0] in (inner, last) and here[0]:
            return before[0] in (first, inner) and before[1] == here[1]
        return not is_open(before[0])

    table = np.array([follows(*pair) for pair in product(parts, repeat=2)]).reshape(len(parts), len(parts))
    start = np.array([follows(("O", ""), here) for here in parts])
    return TransitionRules(table, start, np.array([not is_open(prefix) for prefix, _ in parts]))


def forbidden_pairs(labels: Sequence[Any], pairs: Sequence[tuple[Any, Any]]) -> TransitionRules:
    """Return the rules by which the second label of a pair may not follow the first; None is the begin or the end."""
    places = {label: k for k, label in enumerate(labels)}
    n = len(labels)
    table = np.ones((n + 1, n + 1), dtype=bool)
    for k, pair in enumerate(pairs):
        known = isinstance(pair, list | tuple) and len(pair) == 2 and all(one is None or one in places for one in pair)
        if not known or tuple(pair) == (None, None):
            raise InputError(f"rules[{k}]", pair, "a pair of labels, one of which may be None for the begin or the end")
        table[tuple(places.get(one, n) for one in pair)] = False
    return TransitionRules(table[:n, :n], table[n, :n], table[:n, n])


def rules_of(rules: Any, labels: Sequence[Any]) -> TransitionRules:
    """Return what is allowed by the name of a tagging scheme, forbidden pairs or TransitionRules."""
    if isinstance(rules, str):
        return tagging_rules(labels, rules)
    if isinstance(rules, list):
        return forbidden_pairs(labels, rules)
    if not isinstance(rules, tuple) or len(rules) != 3:
        raise InputError("rules", rules, "the name of a tagging scheme, a list of forbidden pairs, or TransitionRules")
    n, tables = len(labels), TransitionRules(*map(np.asarray, rules))
    for name, table, shape in zip(TransitionRules._fields, tables, ((n, n), (n,), (n,)), strict=True):
        check_shape(table, shape, f"rules.{name}", "one entry per label")
        if table.dtype != bool:
            raise InputError(f"rules.{name}", Description(f"an array of {table.dtype}"), "an array of bool")
    return tables


def scores_of_rules(rules: Any, labels: Sequence[Any]) -> tuple[NDArray[np.float64], ...]:
    """Return 0 for what is allowed and −inf for what is not: of transitions (S, S), of the first and the last label."""
    tables = rules_of(rules, labels)
    reachable: Any = tables.start
    for length in range(1, 2 * len(labels) + 2):
        if not (reachable & tables.end).any():
            got = Description(f"rules that allow no sequence of {length} labels")
            raise InputError("rules", got, "rules that allow sequences of every length")
        reachable = tables.transitions[reachable].any(axis=0)
    return tuple(np.where(table, 0.0, -np.inf) for table in tables)
