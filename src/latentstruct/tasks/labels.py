"""Label sets: any hashable labels as the numbers 0 … S−1, and the costs of confusing them."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.memory import require_label_pairs
from latentstruct.core.types import Indices, Vector, locate
from latentstruct.core.unknown import UNKNOWN, is_skipped, is_unknown
from latentstruct.core.validation import check_shape, check_unmasked, is_ordered, numbers_of
from latentstruct.exceptions import Description, InputError

HASHABLE = "hashable, such as numbers, strings or tuples"
MOST_LETTERS = 2**26
"""Number of characters in an array of labels above which they are kept as objects."""

COST_TABLES = 3
"""Number of tables of label pairs in memory while a cost matrix is computed."""


def as_list(values: Any) -> list[Any]:
    """Return a sequence of labels as a list of plain Python objects."""
    if not isinstance(values, np.ndarray):
        return list(values)
    check_unmasked(values, "the labels")
    return values.tolist()


def distinct_labels(seen: Iterable[Any]) -> dict[Any, None]:
    """Return the labels that occur, each once, in the order of their first appearance."""
    try:
        return dict.fromkeys(seen)
    except TypeError as error:
        raise InputError("labels", Description(str(error)), HASHABLE) from error


def label_list(Y: Any) -> list[Any]:
    """Return one label per example; raise InputError if there is more than one."""
    if hasattr(Y, "ndim") and Y.ndim != 1:
        raise InputError("Y", Description(f"shape {Y.shape}"), "one-dimensional, one class per example")
    return Y.tolist() if hasattr(Y, "tolist") else list(Y)


class LabelSet:
    """An ordered set of labels; `values` (S,) are of a natural type where NumPy has one, else objects."""

    def __init__(self, labels: Sequence[Hashable]) -> None:
        if not is_ordered(labels) or isinstance(labels, str):
            raise InputError("labels", labels, "a list of labels")
        self.labels = [label.item() if isinstance(label, np.generic) else label for label in as_list(labels)]
        self.index = {label: number for number, label in enumerate(distinct_labels(self.labels))}
        if len(self.index) != len(self.labels):
            raise InputError("labels", self.labels, "distinct")
        self.values: NDArray = np.empty(len(self.labels), dtype=object)
        for number, label in enumerate(self.labels):
            # One by one: NumPy would read a list of tuples as a matrix.
            self.values[number] = label
        kinds = {type(label) for label in self.labels}
        # In an array each text takes as much memory as the longest.
        small = kinds != {str} or len(self.labels) * max(map(len, self.labels)) <= MOST_LETTERS
        if len(kinds) == 1 and kinds <= {int, float, str, bool} and small:
            natural = np.array(self.labels)
            # It may lose something: digits of huge numbers, a zero character at the end of a string.
            self.values = natural if natural.tolist() == self.labels else self.values

    @classmethod
    def learn(
        cls, seen: Iterable[Hashable], declared: Sequence[Hashable] | None = None, earlier: Sequence[Hashable] = ()
    ) -> "LabelSet":
        """Collect the labels of the training data after earlier ones, or check that the declared ones include them."""
        found = distinct_labels(seen)
        if any(label != label for label in found):
            raise InputError("labels", Description("NaN"), "equal to themselves", "Relabel or remove these items.")
        if None in found and (declared is None or None not in as_list(declared)):
            hint = "None usually stands for a missing label. Leave these items out, or declare None in `labels`."
            raise InputError("Y", None, "labels", hint)
        if declared is not None:
            labels = cls(declared)
            for label in found:
                labels.number(label)
            return labels
        if earlier:
            known = set(earlier)
            return cls([*earlier, *(one for one in cls.learn(found).labels if one not in known)])
        try:
            return cls(sorted(found))
        except TypeError:
            # Labels of mixed kinds have no order of their own: that of first appearance.
            return cls(list(found))

    def __len__(self) -> int:
        return len(self.labels)

    def number(self, label: Hashable) -> int:
        """Return the number of one label."""
        try:
            return self.index[label]
        except KeyError:
            shown = ", ".join(repr_short(known) for known in self.labels[:10])
            more = f", … ({len(self)} in total)" if len(self) > 10 else ""
            hint = "Declare every label that may occur in `labels` of the task."
            raise InputError("label", label, f"one of the known labels {shown}{more}", hint) from None
        except TypeError:
            raise InputError("label", label, HASHABLE) from None

    def encode(self, labels: Any) -> NDArray[np.int64]:
        """Return the numbers of a sequence of labels."""
        plain = as_list(labels)
        try:
            return np.fromiter((self.index[label] for label in plain), dtype=np.int64, count=len(plain))
        except (KeyError, TypeError):
            return np.array([self.number(label) for label in plain], dtype=np.int64)

    def encode_items(
        self, flat: Sequence[Any], offsets: Indices, name: str, partial: "PartialLabels | None" = None
    ) -> NDArray[np.int64]:
        """Return the numbers of the labels of all items of examples, −1 where unknown; errors name the item.

        Sets of labels and soft labels are accepted where `partial` is given, which numbers them; skipped items are then
        unknown.
        """
        known = {**self.index, UNKNOWN: UNKNOWN}
        try:
            return np.fromiter((known[label] for label in flat), dtype=np.int64, count=len(flat))
        except (KeyError, TypeError):
            numbers = np.full(len(flat), UNKNOWN)
        for i, label in enumerate(flat):
            try:
                if partial is not None and is_partial(label):
                    numbers[i] = partial.number(label)
                else:
                    skipped = partial is not None and is_skipped(label)
                    numbers[i] = UNKNOWN if skipped or is_unknown(label) else self.number(label)
            except InputError as error:
                k, at = locate(offsets, i)
                raise InputError(f"{name}[{k}][{at}]", error.got, error.expected, error.hint) from None
        return numbers

    def decode(self, numbers: NDArray[np.int64]) -> NDArray:
        """Return the labels of an array of numbers."""
        return self.values[numbers]

    def costs(self, costs: Any) -> NDArray[np.float64]:
        """Return the cost matrix (true, predicted): 0/1 if None; a mapping has the cost of missing a label, else 1."""
        n = len(self)
        require_label_pairs(n, COST_TABLES)
        if costs is None:
            return 1.0 - np.eye(n)
        missed = isinstance(costs, Mapping)
        if missed:
            given = {self.number(label): cost for label, cost in costs.items()}
            costs = [given.get(number, 1.0) for number in range(n)]
        matrix = numbers_of(costs, "costs", "real numbers, one row and column per label").copy()
        if missed:
            matrix = np.where(np.eye(n, dtype=bool), 0.0, matrix.reshape(n, -1))
        order = f"The labels are {repr_short(self.labels[:10])}."
        check_shape(matrix, (n, n), "costs", "one row per true and one column per predicted label", order)
        require_costs(
            matrix,
            "costs",
            lambda i, j: f"for the labels {repr_short(self.labels[i])} and {repr_short(self.labels[j])}",
        )
        return matrix


class LearnedLabels:
    """What tasks share that learn a set of labels."""

    labels_: LabelSet

    @property
    def classes_(self) -> NDArray:
        """The labels in the order of the model, which is that of the columns of `marginals`."""
        return self.labels_.values


def is_partial(label: Any) -> bool:
    """Return whether a label of an item is a set of labels or a soft label, a mapping from labels to weights.

    A frozenset is hashable, and a label as any other.
    """
    return isinstance(label, set | Mapping)


def single_labels(seen: Iterable[Any]) -> Iterator[Any]:
    """Yield labels, those in sets and soft labels one by one, and the marker of unknown ones before these.

    Repeated labels are yielded once if all are hashable.
    """
    labels = list(seen)
    with suppress(TypeError):
        labels = list(dict.fromkeys(labels))
    for label in labels:
        if is_partial(label):
            yield UNKNOWN
            yield from label
        else:
            yield label


def costs_with(costs: NDArray[np.float64], partial: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the costs of labels, of the rows of `partial`, and of unknown labels: (S + P + 1, S).

    A partly known label costs as much as the cheapest of those it allows; an unknown one costs nothing. Negative
    numbers of labels count from the last row.
    """
    least = [costs[np.isfinite(row)].min(axis=0) for row in partial]
    return np.vstack([costs, *least, np.zeros(len(costs))])


class PartialLabels:
    """Distinct sets of labels and soft labels of items, with the numbers −2, −3, …

    A soft label allows the labels with a positive weight.
    """

    def __init__(self, labels: LabelSet) -> None:
        self.labels = labels
        self._rows: dict[bytes, tuple[int, Vector]] = {}

    def number(self, label: Any) -> int:
        """Return the number of a set or of a soft label."""
        weights = label if isinstance(label, Mapping) else dict.fromkeys(label, 1.0)
        row = np.zeros(len(self.labels))
        for one, weight in weights.items():
            if isinstance(weight, bool) or not isinstance(weight, Real) or not 0.0 <= float(weight) < math.inf:
                raise InputError("label", label, "soft labels with finite weights ≥ 0")
            row[self.labels.number(one)] = weight
        if not row.any():
            raise InputError("label", label, "a set of at least one label, or a soft label with a positive weight")
        if isinstance(label, Mapping):
            row /= row.sum()
        return self._rows.setdefault(row.tobytes(), (UNKNOWN - 1 - len(self._rows), row))[0]

    def table(self) -> NDArray[np.float64]:
        """Return the logarithms of the weights, −inf for labels that are not allowed; the last row is number −2."""
        rows = [row for _, row in reversed(self._rows.values())]
        with np.errstate(divide="ignore"):
            return np.log(np.array(rows).reshape(len(rows), len(self.labels)))


def partial_label(row: NDArray[np.float64], labels: Sequence[Any]) -> Any:
    """Return the set or the soft label of a row of the table of `PartialLabels`."""
    allowed = np.flatnonzero(np.isfinite(row)).tolist()
    if not row[allowed].any():
        return {labels[number] for number in allowed}
    return {labels[number]: math.exp(row[number]) for number in allowed}


def require_costs(matrix: NDArray[np.float64], name: str, place: Callable[[int, int], str]) -> None:
    """Raise unless a matrix is finite and non-negative with zeros on its diagonal; `place` names an entry."""
    wrong = ~np.isfinite(matrix) | (matrix < 0) | (np.eye(len(matrix), dtype=bool) & (matrix != 0))
    if wrong.any():
        i, j = np.argwhere(wrong)[0].tolist()
        got = Description(f"{matrix[i, j]} {place(i, j)}")
        raise InputError(name, got, "finite and non-negative with zeros on the diagonal")
