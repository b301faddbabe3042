"""Signs that the unknown labels of sequences are no random sample."""

from collections.abc import Sequence
from typing import Any

from latentstruct.core.unknown import UNKNOWN, is_skipped, is_unknown
from latentstruct.tasks.labels import is_partial

OUTSIDE = "O"
FEWEST = 5
"""In fewer sequences with unknown labels, nothing is visible but chance."""


def label_warnings(Y: Sequence[list[Any]], declared: Sequence[Any]) -> list[str]:
    """Return texts of warnings about the labels of sequences: tokens outside of entities, and unlabeled sequences.

    A set of labels and a soft label count as O if they contain it.
    """
    # Comparing a list with a number is fast, unlike looking at every label.
    unknown = [UNKNOWN in y for y in Y]
    if sum(unknown) < FEWEST:
        return []
    known = [[label for label in y if not (is_unknown(label) or is_skipped(label))] for y in Y]
    n_empty = sum(some and not labels for some, labels in zip(unknown, known, strict=True))
    found = []
    if n_empty == sum(unknown):
        found.append(f"{n_empty} of {len(Y)} sequences have no known label: they add nothing; leave them out")
    outside = [any(map(_may_be_outside, labels)) for labels in known]
    is_entity = any(not is_partial(label) and str(label).startswith("B-") for labels in known for label in labels)
    if not (OUTSIDE in declared or is_entity or any(outside)):
        return found
    partly = [may_be for may_be, some, labels in zip(outside, unknown, known, strict=True) if some and labels]
    if not any(outside):
        found.append(
            f"no token has the label {OUTSIDE}, so that the model has no reason to predict it; give a hidden CRF "
            "`entity_ratio`, the share of tokens in entities, and declare all `labels`"
        )
    elif len(partly) >= FEWEST and not any(partly):
        found.append(
            f"in sequences with unknown labels no token is labeled {OUTSIDE}, unlike in others: labels are not missing "
            "at random, and the model will find too many entities; train on the labeled tokens alone, or give a hidden "
            "CRF `entity_ratio`"
        )
    return found


def _may_be_outside(label: Any) -> bool:
    return OUTSIDE in label if is_partial(label) else bool(label == OUTSIDE)
