"""Objects in images whose class is known and whose box is not."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.measures import overlap_table, overlaps_with
from latentstruct.core.formatting import short_repr
from latentstruct.core.lazy import issparse
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import array_of, check_length, check_lists, is_integer, options
from latentstruct.data.boxes import Boxes, check_boxes, nearest_box
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.base import check_examples
from latentstruct.tasks.classes.latent_multiclass import LatentMulticlass
from latentstruct.tasks.classes.states import StateBatch
from latentstruct.tasks.packing import Arrays, PackedArrays

MOST_KEPT = 2**26
"""Maximum number of cached overlaps, 8 bytes each; others are computed each time they are needed."""


class DetectionInput(NamedTuple):
    """The candidates of one image.

    Attributes
    ----------
    boxes : array of shape (H, 4)
        x0, y0, x1, y1 of each in pixels; right and bottom ends are exclusive.
    features : array of shape (H, d)
        Their features.
    """

    boxes: Any
    features: Any

    def __repr__(self) -> str:
        return short_repr(self)


class OverlapTables:
    """Overlaps of the candidates (M, 4) of each example with each other; examples with equal boxes share a table."""

    def __init__(self, boxes: Boxes, offsets: Indices) -> None:
        self.boxes, self.offsets = boxes, offsets
        self._kept: list[NDArray[np.float64]] = []

    def of(self, i: int) -> Boxes:
        """Return the candidates of an example, whose numbers are offsets[i] … offsets[i + 1]."""
        return self.boxes[self.offsets[i] : self.offsets[i + 1]]

    @cached_property
    def _groups(self) -> list[Indices]:
        """Examples with equal boxes."""
        members: dict[bytes, list[int]] = {}
        for i in range(len(self.offsets) - 1):
            members.setdefault(self.of(i).tobytes(), []).append(i)
        return [np.array(group) for group in members.values()]

    def _table(self, k: int) -> NDArray[np.float64]:
        """Return the overlaps (H, H) of the k-th group; the groups are taken in order."""
        if k < len(self._kept):
            return self._kept[k]
        boxes = self.of(self._groups[k][0])
        table = np.empty((len(boxes), len(boxes)))
        overlap_table(boxes, boxes, table)
        if k == len(self._kept) and sum(kept.size for kept in self._kept) + table.size <= MOST_KEPT:
            self._kept.append(table)
        return table

    def products(self, P: Vector) -> Vector:
        """Return Σ_{h'} overlap(h', h)·P(h') of each candidate, shape (M,)."""
        found = np.empty(len(P))
        for k, members in enumerate(self._groups):
            table = self._table(k)
            places = self.offsets[members][:, None] + np.arange(len(table))
            found[places] = P[places] @ table
        return found

    def columns(self, states: Indices) -> Vector:
        """Return the overlap of each candidate with the one of number states[i] of its example, shape (M,)."""
        chosen = np.repeat(self.boxes[self.offsets[:-1] + states], np.diff(self.offsets), axis=0)
        found = np.empty(len(self.boxes))
        overlaps_with(self.boxes, chosen, found)
        return found


@dataclass
class BoxBatch(StateBatch):
    """Images with the boxes of their candidates, and their overlaps once they are needed."""

    tables: OverlapTables | None = None


def _tables(batch: StateBatch) -> OverlapTables:
    """Return the boxes of a batch of `Detection`."""
    assert isinstance(batch, BoxBatch)
    assert batch.tables is not None
    return batch.tables


class Detection(LatentMulticlass):
    """Images with an object of a known class somewhere in a latent box: s(y, h) = w_y·x(h).

    Parameters
    ----------
    latent_loss : {"overlap", "zero_one"} or None, default="overlap"
        Loss of a wrong box where the class is right: Δ = 1 − |h ∩ ĥ| / |h ∪ ĥ|, Δ = 1, or 0. Only used by estimators
        that compare boxes, such as `ModLat` and `IterativeLSVM`.
    labels : sequence of hashable, optional
        All classes that may occur, in the order of the model; by default those of the training data.
    costs : None, mapping or array of shape (S, S), default=None
        Δ of a wrong class: 1, the cost of missing each true class, or a matrix (true, predicted).
    bias : float, default=1.0
        Value of a constant feature of each class; 0 for none.

    Notes
    -----
    X is a sequence of `DetectionInput` or of other pairs (boxes, features) with one row per candidate, as
    `BoxFeatures` computes them. Y is a sequence of classes. Latents are indices of candidates from 0; see
    `chosen_boxes`. Weight f·S + y belongs to feature f and class y, the bias weights come last.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import Detection, DetectionInput, ModLat
    >>> from latentstruct.tasks import chosen_boxes
    >>> boxes = np.array([[0, 0, 8, 8], [8, 0, 16, 8], [0, 8, 8, 16], [8, 8, 16, 16]])  # x0, y0, x1, y1
    >>> rng = np.random.default_rng(0)
    >>> X, y = [], np.array(["cat", "dog"] * 20)
    >>> for label in y:
    ...     features = rng.normal(size=(4, 2))
    ...     features[rng.integers(4)] += [6, 0] if label == "cat" else [0, 6]  # one box shows the animal
    ...     X.append(DetectionInput(boxes, features))
    >>> model = ModLat(Detection("overlap"), C=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> chosen_boxes(X[:1], model.predict_latent(X[:1])).shape
    (1, 4)
    """

    constraints: ClassVar = {"latent_loss": options("overlap", "zero_one") | None}
    n_states = None
    # An example is a pair of boxes and their features.
    tags = replace(LatentMulticlass.tags, row_examples=False)
    weights: Literal["class", "state"] = "class"

    def __init__(
        self,
        latent_loss: Literal["overlap", "zero_one"] | None = "overlap",
        labels: Sequence[Hashable] | None = None,
        costs: Any = None,
        bias: float = 1.0,
    ) -> None:
        self.latent_loss = latent_loss
        self.labels = labels
        self.costs = costs
        self.bias = bias

    def _checked_latent_loss(self) -> str | None:
        return self.latent_loss

    def learn_blocks(self, blocks: Iterable[tuple[Any, Any]]) -> None:
        """Find the classes and the number of features of examples that come block by block."""
        super().learn_blocks((_candidates(X, Y)[1], Y) for X, Y in blocks)

    def prepare(self, X: Any, Y: Any = None) -> BoxBatch:
        """Validate boxes and features, lay them out flat and number the classes."""
        boxes, features = _candidates(X, Y)
        return _with_boxes(super().prepare(features, Y), np.concatenate(boxes))

    def pack(self, batch: StateBatch) -> Arrays:
        return {**super().pack(batch), "boxes": _tables(batch).boxes}

    def unpack(self, arrays: Arrays) -> BoxBatch:
        batch = super().unpack(arrays)
        found = PackedArrays(arrays)
        boxes = check_boxes(found.finite("boxes", 2), "arrays['boxes']")
        if len(boxes) != batch.inputs.shape[0]:
            raise found.error("boxes", f"{len(boxes)} boxes", f"{batch.inputs.shape[0]} boxes")
        return _with_boxes(batch, boxes)

    def _latent_products(self, batch: StateBatch, P: Vector, transposed: bool = False) -> Vector:
        """Return Σ_{h'} P(h')·(1 − overlap(h', h)) of each candidate."""
        if self.latent_loss_ != "overlap":
            return super()._latent_products(batch, P, transposed)
        masses = np.add.reduceat(P, batch.offsets[:-1])
        return np.repeat(masses, batch.sizes) - _tables(batch).products(P)

    def _latent_columns(self, batch: StateBatch, states: Indices) -> Vector:
        """Return 1 − overlap of each candidate with the one of number states[i]."""
        if self.latent_loss_ != "overlap":
            return super()._latent_columns(batch, states)
        return 1.0 - _tables(batch).columns(states)

    def initial_latents(self, batch: StateBatch, rng: np.random.Generator, attempt: int) -> list[int]:
        """Return candidates to begin with: at first the one nearest to a central box, in later attempts random ones.

        The central box has the middle and the proportions of what all candidates of the image cover, and half its area,
        as people hold what they photograph in the middle.
        """
        if attempt:
            return self.random_latents(batch, rng)
        return [_most_central(_tables(batch).of(i)) for i in range(batch.n_examples)]


def _with_boxes(batch: StateBatch, boxes: Boxes) -> BoxBatch:
    common = {part.name: getattr(batch, part.name) for part in fields(batch)}
    return BoxBatch(**common, tables=OverlapTables(boxes, batch.offsets))


def _candidates(X: Any, Y: Any) -> tuple[list[Boxes], list[Any]]:
    """Return boxes and features of all examples after checking that they belong together."""
    check_examples(X, Y)
    all_boxes, all_features = [], []
    for i, x in enumerate(X):
        if not isinstance(x, tuple | list) or len(x) != 2:
            raise InputError(f"X[{i}]", x, "a DetectionInput or another pair (boxes, features)")
        boxes, features = check_boxes(x[0], f"X[{i}].boxes"), x[1]
        shape = features.shape if issparse(features) else array_of(features, f"X[{i}].features").shape
        if shape[:1] != (len(boxes),):
            raise InputError(f"X[{i}].features", Description(f"shape {shape}"), f"{len(boxes)} rows, one per box")
        all_boxes.append(boxes)
        all_features.append(features)
    return all_boxes, all_features


def _most_central(boxes: Boxes) -> int:
    """Return the box nearest to a central one of half the area that all boxes cover."""
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    middle, reach = 0.5 * (low + high), np.sqrt(0.125) * (high - low)
    return nearest_box(boxes, np.concatenate([middle - reach, middle + reach]))


def chosen_boxes(X: Sequence[DetectionInput], latents: Sequence[int]) -> Boxes:
    """Return the boxes (n, 4) of chosen candidates.

    Parameters
    ----------
    X : sequence of n DetectionInput
        The images.
    latents : sequence of n int
        The index of a candidate of each image, as returned by `predict_latent` and `complete`.
    """
    check_lists(X=X, latents=latents)
    check_length(latents, len(X), "latents", "latents")
    found = np.empty((len(X), 4))
    for i, (x, h) in enumerate(zip(X, latents, strict=True)):
        boxes = check_boxes(x[0], f"X[{i}].boxes")
        if not is_integer(h) or not 0 <= h < len(boxes):
            raise InputError(f"latents[{i}]", h, f"the index of a candidate from 0 to {len(boxes) - 1}")
        found[i] = boxes[h]
    return found
