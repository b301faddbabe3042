"""Losses Δ(y, h, ŷ, ĥ) that compare latents too, for tasks that list their candidates (y, h).

The latent of a known output is one site, whose states are the candidates of that output. Between two of them the loss
is K_i(h', h) = Δ(y_i, h', y_i, h), with h' in the place of the truth.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.checks import as_reals
from latentstruct.core.protocols import LatentSites, Query
from latentstruct.exceptions import InputError
from latentstruct.kernels.candidates import pool_candidates
from latentstruct.planes import Planes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths
from latentstruct.short_repr import show
from latentstruct.tasks.labels import require_costs

PlaneLosses = Callable[[Indices, Indices, Indices], Vector]
"""Losses (p,) of candidates, by the examples and by the rows and columns of the first atoms of their planes."""


def highest(scores: Vector, offsets: Indices) -> tuple[Vector, Indices]:
    """Return the highest score of each item, and its place; −1 where all are −∞."""
    n = len(offsets) - 1
    values, shares, places = np.empty(n), np.empty(len(scores)), np.full(n, -1)
    pool_candidates(scores, offsets, np.arange(n + 1), 0.0, 0.0, values, shares)
    found = np.flatnonzero(shares)
    places[np.searchsorted(offsets, found, side="right") - 1] = found
    return values, places


@dataclass(frozen=True)
class TrueCandidates:
    """The candidates (y_i, h) of known outputs: places (M,) among all candidates, examples (M,), offsets (n + 1,)."""

    places: Indices
    examples: Indices
    offsets: Indices

    @classmethod
    def of(cls, known: NDArray[np.bool_], example: Indices, n_examples: int) -> "TrueCandidates":
        """Take the known ones of all candidates, of which `example` tells whose they are."""
        places = np.flatnonzero(known)
        owners = example[places]
        return cls(places, owners, offsets_from_lengths(np.bincount(owners, minlength=n_examples)))


class ListedLatentLosses:
    """What `LatentLossTask` asks, for listed candidates; subclasses say what the candidates are and how they compare.

    They define `_true_candidates`, `_candidate_scores`, `_candidate_total`, `_latent_products`, `with_expected_loss`,
    `worst_losses`, `latent_losses` and `point_distribution`.
    """

    def _true_candidates(self, batch: Any) -> TrueCandidates:
        raise TypeError(f"{type(self).__name__} does not define _true_candidates()")

    def _candidate_scores(self, batch: Any, w: Vector) -> Vector:
        """Return w·φ of all candidates."""
        raise TypeError(f"{type(self).__name__} does not define _candidate_scores()")

    def _candidate_total(self, batch: Any, coefficients: Vector) -> Vector:
        """Return the sum of coefficient·φ over all candidates, shape (d,)."""
        raise TypeError(f"{type(self).__name__} does not define _candidate_total()")

    def _latent_products(self, batch: Any, P: Vector, transposed: bool = False) -> Vector:
        """Return Σ_{h'} P(h') K_i(h', h) of each state h, shape (M,), or with K_i(h, h') if transposed."""
        raise TypeError(f"{type(self).__name__} does not define _latent_products()")

    def latent_sites(self, batch: Any) -> LatentSites:
        """Return what the latents of the known outputs may be: one site for each example."""
        offsets = self._true_candidates(_labelled(batch)).offsets
        return LatentSites(np.arange(len(offsets) - 1), offsets)

    def latent_scores(self, batch: Any, theta: Vector) -> Vector:
        """Return θ·φ(x_i, y_i, h) of each state, shape (M,)."""
        return self._candidate_scores(batch, theta)[self._true_candidates(_labelled(batch)).places]

    def latent_pull_back(self, batch: Any, coefficients: Vector) -> Vector:
        """Return Σ coefficient·φ(x_i, y_i, h) over all states, shape (d,)."""
        true = self._true_candidates(_labelled(batch))
        spread = np.zeros(self._n_candidates(batch))
        spread[true.places] = coefficients
        return self._candidate_total(batch, spread)

    def _n_candidates(self, batch: Any) -> int:
        raise TypeError(f"{type(self).__name__} does not define _n_candidates()")

    def diversity(self, batch: Any, P: Vector) -> tuple[Vector, Vector]:
        """Return H_i = Σ_{h,h'} P(h) P(h') K_i(h, h') of each example, (n,), and its derivatives (K + Kᵀ)P, (M,)."""
        offsets = self._true_candidates(_labelled(batch)).offsets
        product = self._latent_products(batch, P)
        values = np.add.reduceat(P * product, offsets[:-1])
        if self._symmetric:
            return values, 2.0 * product
        return values, product + self._latent_products(batch, P, transposed=True)

    @property
    def _symmetric(self) -> bool:
        """Whether K_i(h, h') = K_i(h', h) is known to hold everywhere."""
        return False


def _labelled(batch: Any) -> Any:
    if not batch.labelled:
        raise InputError("the latents of known outputs were asked, but the batch has none: prepare it with Y")
    return batch


class StateLatentLosses(ListedLatentLosses):
    """Losses between the states of `LatentMulticlass`: costs[y, ŷ] where the classes differ, else K(h, ĥ)."""

    latent_loss: Any
    latent_loss_: Any
    costs_: NDArray[np.float64]
    labels_: Any
    table_: Any
    _checked_states: Callable[..., Indices]
    _parts: Callable[..., Any]

    def _checked_latent_loss(self) -> Any:
        """Return None, a name, or a matrix (H, H) of finite losses ≥ 0 with a zero diagonal."""
        given = self.latent_loss
        if given is None or (isinstance(given, str) and given == "zero_one"):
            return given
        wanted = "None, 'zero_one' or a matrix (H, H) of losses between states"
        if isinstance(given, str):
            raise InputError(f"latent_loss must be {wanted}, found {show(given)}: give one of these")
        try:
            matrix = as_reals(given).copy()
        except (TypeError, ValueError) as error:
            raise InputError(f"latent_loss must be {wanted} ({error}): give one of these") from error
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
            raise InputError(f"latent_loss must be {wanted}, found shape {matrix.shape}: give as many rows as columns")
        require_costs(matrix, "latent_loss", lambda h, other: f"at [{h}, {other}]")
        return matrix

    @property
    def _symmetric(self) -> bool:
        loss = self.latent_loss_
        return not isinstance(loss, np.ndarray) or np.array_equal(loss, loss.T)

    def _check_latent_sizes(self, sizes: Indices) -> None:
        """Raise unless a matrix of losses has a line for each state of each example."""
        if not isinstance(self.latent_loss_, np.ndarray):
            return
        other = np.flatnonzero(sizes != len(self.latent_loss_))
        if len(other):
            i = other[0]
            raise InputError(
                f"example {i} of X has {sizes[i]} states, but latent_loss has shape {self.latent_loss_.shape}: give "
                "one line and column for each state"
            )

    def _true_candidates(self, batch: Any) -> TrueCandidates:
        return batch.true_candidates

    def _candidate_scores(self, batch: Any, w: Vector) -> Vector:
        return self._parts(batch).scores(Query(w, "free"))

    def _candidate_total(self, batch: Any, coefficients: Vector) -> Vector:
        return self._parts(batch).sum(coefficients, Query(coefficients, "free"))

    def _n_candidates(self, batch: Any) -> int:
        return len(batch.cells.y)

    def _latent_products(self, batch: Any, P: Vector, transposed: bool = False) -> Vector:
        loss, true = self.latent_loss_, batch.true_candidates
        if loss is None:
            return np.zeros(len(P))
        if isinstance(loss, str):
            return np.add.reduceat(P, true.offsets[:-1])[true.examples] - P
        states = batch.cells.h[true.places]
        table = np.zeros((batch.n_examples, len(loss)))
        table[true.examples, states] = P
        return (table @ (loss.T if transposed else loss))[true.examples, states]

    def _latent_columns(self, batch: Any, states: Indices) -> Vector:
        """Return K_i(h', states[i]) for each state h' of each example i, shape (M,)."""
        loss, true = self.latent_loss_, batch.true_candidates
        if loss is None:
            return np.zeros(len(true.places))
        own, chosen = batch.cells.h[true.places], states[true.examples]
        return (own != chosen).astype(np.float64) if isinstance(loss, str) else loss[own, chosen]

    def _class_costs(self, batch: Any) -> Vector:
        """Return costs[y_i, y] of all candidates."""
        return batch.cells.by_class(self.costs_[batch.classes()].ravel())

    def with_expected_loss(self, batch: Any, P: Vector) -> Any:
        """Return the batch whose loss of (y, h) is costs[y_i, y] if y ≠ y_i, else Σ_{h'} P(h') K_i(h', h)."""
        losses = self._class_costs(_labelled(batch))
        losses[batch.true_candidates.places] = self._latent_products(batch, P)
        return replace(batch, losses=losses)

    def worst_losses(self, batch: Any, w: Vector) -> Callable[[Vector], tuple[Vector, Vector]]:
        """Return the function P → max_{y,h} [s(y, h) + Δ_i(y, h; P)]: values (n,), derivatives by P (M,).

        The candidates of other classes do not depend on P, so that their maximum is taken once.
        """
        true = _labelled(batch).true_candidates
        scores, costs = self._candidate_scores(batch, w), self._class_costs(batch)
        states, own_scores = batch.cells.h[true.places], scores[true.places]
        scores += costs
        scores[true.places] = -np.inf
        others, places = highest(scores, batch.cells.bounds)
        other_costs = np.where(places < 0, 0.0, costs[places])

        def worst(P: Vector) -> tuple[Vector, Vector]:
            own, found = highest(own_scores + self._latent_products(batch, P), true.offsets)
            inside = (own >= others)[true.examples]
            derivatives = np.where(inside, self._latent_columns(batch, states[found]), other_costs[true.examples])
            return np.maximum(own, others), derivatives

        return worst

    def plane_losses(self, batch: Any) -> PlaneLosses | None:
        """Return the losses of candidates by the first atoms of their planes; nothing if some planes have none."""
        n_states = None if self.table_ is None else self.table_.vector_of.shape[1]
        if self.table_ is not None and not self.table_.complete:
            return None

        def losses(examples: Indices, rows: Indices, columns: Indices) -> Vector:
            y, h = (columns, rows - batch.offsets[examples]) if n_states is None else divmod(columns, n_states)
            return batch.losses[batch.cells.place(examples, y, h)]

        return losses

    def latent_losses(self, batch: Any, H_true: Sequence[Any], Y_pred: Any, H_pred: Sequence[Any]) -> Vector:
        """Return Δ(y_i, h_i, ŷ_i, ĥ_i) of each example of a labelled batch whose states are known."""
        predicted = self.labels_.encode(Y_pred)
        if len(predicted) != _labelled(batch).n_examples:
            raise InputError(
                f"{len(predicted)} outputs are given; expected {batch.n_examples}, one for each example: give as many"
            )
        states, right = self._checked_states(batch, H_true), predicted == batch.truth
        # Predicted states are those of the predicted class, which may have others than the true one.
        compared = np.where(right, self._checked_states(replace(batch, truth=predicted), H_pred), states)
        within = self._latent_columns(batch, compared)[self._places(batch, states)]
        return np.where(right, within, self.costs_[batch.truth, predicted])

    def _places(self, batch: Any, states: Indices) -> Indices:
        """Return the place in a distribution of one state of each true class."""
        places = batch.cells.place(np.arange(batch.n_examples), batch.truth, states)
        return np.searchsorted(batch.true_candidates.places, places)

    def point_distribution(self, batch: Any, latents: Sequence[Any]) -> Vector:
        """Return the distribution that is certain of the given state of each example."""
        P = np.zeros(len(_labelled(batch).true_candidates.places))
        P[self._places(batch, self._checked_states(batch, latents))] = 1.0
        return P


@dataclass
class PairLosses:
    """Δ(y_i, h', y, h) of the examples of a `CandidateTask`, worked out when it is first asked.

    Attributes
    ----------
    X, Y : list
        The examples.
    tables : list of ndarray of shape (M_i, K_i), optional
        One line for each candidate (y_i, h') in the place of the truth, one column for each candidate (y, h).
    """

    X: list[Any]
    Y: list[Any]
    tables: list[NDArray[np.float64]] | None = None


class CandidateLatentLosses(ListedLatentLosses):
    """Losses between the candidates of `CandidateTask` by its function `pair_loss`."""

    output_loss: Callable[..., float]
    completion_planes: Callable[..., Planes]

    def pair_loss(self, x: Any, y: Any, h: Any, y_hat: Any, h_hat: Any) -> float:
        """Return Δ(y, h, ŷ, ĥ) ≥ 0, which is 0 for equal pairs; by default `output_loss`, whatever h is."""
        return self.output_loss(y, y_hat, h_hat)

    def _tables(self, batch: Any) -> list[NDArray[np.float64]]:
        pairs: PairLosses = _labelled(batch).pairs
        if pairs.tables is None:
            starts = batch.offsets
            pairs.tables = [self._table(batch, i, range(a, b)) for i, (a, b) in enumerate(pairwise(starts))]
        return pairs.tables

    def _checked_loss(self, i: int, x: Any, y: Any, h: Any, y_hat: Any, h_hat: Any) -> float:
        """Return `pair_loss`, or raise if it is no loss."""
        found = self.pair_loss(x, y, h, y_hat, h_hat)
        loss: Any = found[()] if isinstance(found, np.ndarray) and found.ndim == 0 else found
        # A flag is a number here: whether two latents differ is a loss.
        if isinstance(loss, (int, float, np.integer, np.floating, np.bool_)) and 0 <= loss < np.inf:
            return float(loss)
        raise InputError(
            f"the losses of pair_loss at example {i} must be finite and ≥ 0, found {show(found)} for the output "
            f"{show(y)} with the latent {show(h)} against {show(y_hat)} with {show(h_hat)}: correct pair_loss"
        )

    def _table(self, batch: Any, i: int, span: range) -> NDArray[np.float64]:
        x, y = batch.pairs.X[i], batch.pairs.Y[i]
        true = [c for c in span if batch.true_candidates[c]]
        outputs, latents = batch.outputs, batch.latents
        table = np.empty((len(true), len(span)))
        for row, t in enumerate(true):
            for column, c in enumerate(span):
                table[row, column] = self._checked_loss(i, x, y, latents[t], outputs[c], latents[c])
        own = type(self).pair_loss is not CandidateLatentLosses.pair_loss
        equal = table[np.arange(len(true)), np.array(true) - span.start]
        if own and equal.any():
            wrong = int(np.flatnonzero(equal)[0])
            raise InputError(
                f"pair_loss of equal pairs must be 0, but at example {i} it is {equal[wrong]} for the output "
                f"{show(y)} and the latent {show(latents[true[wrong]])}: correct pair_loss"
            )
        return table

    def _true_candidates(self, batch: Any) -> TrueCandidates:
        sizes = np.diff(batch.offsets)
        example = np.repeat(np.arange(batch.n_examples), sizes)
        return TrueCandidates.of(batch.true_candidates, example, batch.n_examples)

    def _candidate_scores(self, batch: Any, w: Vector) -> Vector:
        return batch.parts().times(w)

    def _candidate_total(self, batch: Any, coefficients: Vector) -> Vector:
        return batch.parts().transposed_times(coefficients)

    def _n_candidates(self, batch: Any) -> int:
        return len(batch.outputs)

    def _expected_losses(self, batch: Any, P: Vector) -> Vector:
        """Return Σ_{h'} P(h') Δ(y_i, h', y, h) of all candidates."""
        offsets = self._true_candidates(batch).offsets
        parts = zip(pairwise(offsets), self._tables(batch), strict=True)
        return np.concatenate([P[a:b] @ table for (a, b), table in parts])

    def _latent_products(self, batch: Any, P: Vector, transposed: bool = False) -> Vector:
        true = self._true_candidates(batch)
        if not transposed:
            return self._expected_losses(batch, P)[true.places]
        starts, parts = batch.offsets, []
        for i, (a, b) in enumerate(pairwise(true.offsets)):
            parts.append(self._tables(batch)[i][:, true.places[a:b] - starts[i]] @ P[a:b])
        return np.concatenate(parts)

    def with_expected_loss(self, batch: Any, P: Vector) -> Any:
        """Return the batch whose loss of (y, h) is Σ_{h'} P(h') Δ(y_i, h', y, h)."""
        return replace(batch, losses=self._expected_losses(batch, P))

    def worst_losses(self, batch: Any, w: Vector) -> Callable[[Vector], tuple[Vector, Vector]]:
        """Return the function P → max_{y,h} [s(y, h) + Δ_i(y, h; P)]: values (n,), derivatives by P (M,)."""
        scores, starts, tables = self._candidate_scores(batch, w), batch.offsets, self._tables(batch)

        def worst(P: Vector) -> tuple[Vector, Vector]:
            values, places = highest(scores + self._expected_losses(batch, P), starts)
            columns = places - starts[:-1]
            return values, np.concatenate([table[:, c] for table, c in zip(tables, columns, strict=True)])

        return worst

    def plane_losses(self, batch: Any) -> PlaneLosses:
        """Return the losses of candidates by the first atoms of their planes."""
        return lambda examples, rows, columns: batch.losses[rows]

    def latent_losses(self, batch: Any, H_true: Sequence[Any], Y_pred: Any, H_pred: Sequence[Any]) -> Vector:
        """Return Δ(y_i, h_i, ŷ_i, ĥ_i) of each example of a labelled batch whose latents are known."""
        pairs = _labelled(batch).pairs
        for found in (H_true, Y_pred, H_pred):
            if len(found) != batch.n_examples:
                raise InputError(
                    f"{len(found)} outputs or latents are given; expected {batch.n_examples}, one for each example: "
                    "give as many"
                )
        given = zip(pairs.X, pairs.Y, H_true, Y_pred, H_pred, strict=True)
        return np.array([self._checked_loss(i, *one) for i, one in enumerate(given)])

    def point_distribution(self, batch: Any, latents: Sequence[Any]) -> Vector:
        """Return the distribution that has each example's given latent for certain."""
        places = self._true_candidates(_labelled(batch)).places
        P = np.zeros(len(places))
        P[np.searchsorted(places, self.completion_planes(batch, latents).atoms.row)] = 1.0
        return P
