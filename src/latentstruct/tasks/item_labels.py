"""Outputs with one label per item: tokens of a sequence, nodes of a graph. The label −1 marks an unknown one."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain as concatenate
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.pooling import latent_planes, require_labels
from latentstruct.core.protocols import Batch
from latentstruct.core.types import Indices, Vector, locate, offsets_from_lengths, sums_by
from latentstruct.core.unknown import UNKNOWN
from latentstruct.core.validation import check_length
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Planes, Slopes
from latentstruct.tasks.base import BaseTask, LikelyLatents, check_examples
from latentstruct.tasks.labels import LabelSet, LearnedLabels, as_list, costs_with
from latentstruct.tasks.row_parts import require_latents


def label_lists(Y: Any, name: str, item: str) -> Iterator[list[Any]]:
    """Yield the labels of each example as a list."""
    for k, y in enumerate(Y):
        if isinstance(y, str) or not hasattr(y, "__len__") or getattr(y, "ndim", 1) != 1:
            raise InputError(f"{name}[{k}]", y, f"a list of labels, one per {item}")
        yield as_list(y)


def flat_labels(Y: Any, offsets: Indices, name: str, item: str) -> list[Any]:
    """Return the labels of all examples as one list, with one entry per item."""
    check_length(Y, len(offsets) - 1, name, "items")
    lists = list(label_lists(Y, name, item))
    for k, (y, expected) in enumerate(zip(lists, np.diff(offsets).tolist(), strict=True)):
        if len(y) != expected:
            got = Description(f"{len(y)} labels")
            raise InputError(f"{name}[{k}]", got, f"{expected} labels, one per {item}", "Use -1 for unknown labels.")
    return list(concatenate.from_iterable(lists))


def known_accuracy(
    truth: Indices,
    predicted: Indices,
    offsets: Indices,
    sample_weight: Vector | None,
    partial: NDArray[np.float64],
) -> float:
    """Return the share of items with a correct or allowed label among those with any information about it."""
    known, right = truth != UNKNOWN, truth == predicted
    partly = np.flatnonzero(truth < UNKNOWN)
    right[partly] |= np.isfinite(partial[truth[partly] + 1, np.maximum(predicted[partly], 0)])
    if not known.any():
        raise InputError("Y_true", Description("unknown labels only"), "at least one known label")
    weights = None if sample_weight is None else np.repeat(sample_weight, np.diff(offsets))[known]
    return float(np.average(right[known], weights=weights))


class ItemBatch(Batch, Protocol):
    """Batches of examples with one label per item."""

    @property
    def truth(self) -> Indices | None:
        """The number of each item's state, −1 where unknown."""

    @property
    def offsets(self) -> Indices:
        """Where the items of each example begin."""

    @property
    def cards(self) -> Indices | int:
        """Number of states of each item, or of all items alike."""


I = TypeVar("I", bound=ItemBatch)


class ItemLabels(LearnedLabels, LikelyLatents[I], BaseTask[I]):
    """Base of tasks whose outputs have one label per item."""

    item: str
    """Name of an item in messages."""
    costs_or_nothing_: NDArray[np.float64]
    """Costs (true, predicted) of labels; the last row, number −1, is that of unknown labels, which cost nothing."""

    def _set_costs(self, labels: LabelSet, costs: Any) -> None:
        self.costs_ = labels.costs(costs)
        self.costs_or_nothing_ = costs_with(self.costs_, np.empty((0, len(labels))))

    # What subclasses define: numbers of the labels of all items (−1 where unknown), states of given labelings,
    # labelings of states, and the features of one labeling per example.
    _label_numbers: Callable[[Any, Indices, str], Indices]
    _latent_states: Callable[[Any, Sequence[Any], str], Indices]
    _labelings: Callable[[Any, Indices], list[NDArray]]
    _labeling_slopes: Callable[[Any, Indices], Slopes]

    def _partial_numbers(self, named: dict[str, Any], offsets: Indices) -> tuple[list[Indices], NDArray[np.float64]]:
        """Return the numbers of the labels of arguments by their names, and the table of partly known labels."""
        return [self._label_numbers(Y, offsets, name) for name, Y in named.items()], np.empty((0, len(self.costs_)))

    def _allowed_states(self, batch: I, states: Indices, rng: np.random.Generator) -> Indices:
        """Return states, those that partly known labels do not allow drawn uniformly from the allowed ones."""
        return states

    def _evidence(self, batch: I, states: Indices) -> Vector:
        """Return what partly known labels add to the score of the state of each item, −inf if it is not allowed."""
        return np.zeros(len(states))

    def completion_planes(self, batch: I, latents: Sequence[Any]) -> Planes:
        """Return the features of whole labelings, which must agree with the known labels, as planes."""
        require_latents(batch, latents)
        states, truth = self._latent_states(batch, latents, "latents"), batch.truth
        assert truth is not None
        evidence = self._evidence(batch, states)
        for i in np.flatnonzero((states < 0) | ((truth >= 0) & (states != truth)) | (evidence == -np.inf))[:1]:
            k, at = locate(batch.offsets, i)
            wanted = "one of the labels" if truth[i] == UNKNOWN else "one of the labels that its true label allows"
            if truth[i] >= 0:
                known = self._labelings(batch, np.maximum(truth, 0))[k].tolist()[at]
                wanted = f"the known label {known!r}"
            raise InputError(f"latents[{k}][{at}]", as_list(latents[k])[at], wanted)
        planes = latent_planes(self, self._labeling_slopes(batch, states))
        planes.offsets = np.add.reduceat(np.append(evidence, 0.0), batch.offsets[:-1]) * (np.diff(batch.offsets) > 0)
        return planes

    def random_latents(self, batch: I, rng: np.random.Generator) -> list[NDArray]:
        """Return the known labels with all other states drawn uniformly, one labeling per example."""
        require_labels(batch, "clamped")
        assert batch.truth is not None
        drawn = rng.integers(0, batch.cards, len(batch.truth))
        states = np.where(batch.truth < 0, drawn, batch.truth)
        return self._labelings(batch, self._allowed_states(batch, states, rng))

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return the sum of the costs of each example's items.

        Items whose label is unknown cost nothing, and neither do latents.
        """
        truth, predicted, offsets, partial = self._aligned(Y_true, Y_pred)
        examples = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        # What is not predicted agrees with the truth.
        costs = np.where(predicted < 0, 0.0, costs_with(self.costs_, partial)[truth, np.maximum(predicted, 0)])
        return sums_by(examples, costs, len(offsets) - 1)

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the share of items with a correct or allowed label among those with any information about it."""
        truth, predicted, offsets, partial = self._aligned(Y_true, Y_pred)
        return known_accuracy(truth, predicted, offsets, sample_weight, partial)

    def _aligned(self, Y_true: Any, Y_pred: Any) -> tuple[Indices, Indices, Indices, NDArray[np.float64]]:
        """Return the numbers of true and predicted labels, the offsets of the examples, and partly known labels."""
        check_examples(Y_pred, Y_true)
        offsets = offsets_from_lengths(len(y) for y in Y_pred)
        (truth, predicted), partial = self._partial_numbers({"Y_true": Y_true, "Y_pred": Y_pred}, offsets)
        self._require_predictions(truth, predicted, offsets)
        return truth, predicted, offsets, partial

    def _require_predictions(self, truth: Indices, predicted: Indices, offsets: Indices) -> None:
        """Raise if there is no prediction for an item whose true label is known."""
        for i in np.flatnonzero((predicted < 0) & (truth != UNKNOWN) & (predicted != truth))[:1]:
            k, at = locate(offsets, i)
            got = Description("-1 (unknown)" if predicted[i] == UNKNOWN else "several labels")
            raise InputError(f"Y_pred[{k}][{at}]", got, "a label where the true label is known")
