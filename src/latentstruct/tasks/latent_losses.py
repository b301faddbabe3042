"""Losses Δ(y, h, ŷ, ĥ) that compare latents too, for tasks that list their candidates (y, h).

The latent of a known output is one site, whose states are the candidates of that output. Between two of them the loss
is K_i(h', h) = Δ(y_i, h', y_i, h), with h' in the place of the truth.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.levels import highest
from latentstruct.core.pooling import require_labels
from latentstruct.core.protocols import Batch, LatentSites, Query
from latentstruct.core.types import Indices, Vector, offsets_from_lengths
from latentstruct.core.validation import check_length, numbers_of
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.labels import require_costs

if TYPE_CHECKING:
    from latentstruct.tasks.classes.states import StateBatch

PlaneLosses = Callable[[Indices, Indices, Indices], Vector]
"""Losses (p,) of candidates, by the examples and by the rows and columns of the first atoms of their planes."""


@dataclass(frozen=True)
class TrueCandidates:
    """The candidates (y_i, h) of known outputs: places (M,) among all candidates, examples (M,), offsets (n + 1,)."""

    places: Indices
    examples: Indices
    offsets: Indices
    n_candidates: int

    @classmethod
    def of(cls, known: NDArray[np.bool_], example: Indices, n_examples: int) -> "TrueCandidates":
        """Return the true ones among all candidates; `example` are the examples of candidates."""
        places = np.flatnonzero(known)
        owners = example[places]
        return cls(places, owners, offsets_from_lengths(np.bincount(owners, minlength=n_examples)), len(known))


class ListedBatch(Batch, Protocol):
    """Batches of listed candidates."""

    @property
    def true_candidates(self) -> TrueCandidates:
        """The candidates of the true outputs."""


L = TypeVar("L", bound=ListedBatch)


def known_candidates(batch: ListedBatch) -> TrueCandidates:
    """Return the candidates of known outputs; raise if outputs are unknown."""
    require_labels(batch, "clamped")
    return batch.true_candidates


class ListedLatentLosses(Generic[L]):
    """What `LatentLossTask` needs, for listed candidates; subclasses say what the candidates are and how they compare.

    Their batches are data classes with a field `losses`. They define `_parts`, which has the scores and the sum of
    features of all candidates, `_places` of the candidates (y_i, h_i) of given latents, and:

    - `_expected_losses(batch, P)`, Σ_{h'} P(h') Δ(y_i, h', y, h) of all candidates;
    - `_latent_products(batch, P, transposed)`, Σ_{h'} P(h') K_i(h', h) of each state h, (M,), or with K_i(h, h').
    """

    _parts: Callable[..., Any]
    _places: Callable[..., Any]
    _expected_losses: Callable[..., Vector]
    _latent_products: Callable[..., Vector]
    _symmetric: bool = False
    """Whether K_i(h, h') = K_i(h', h) is known to hold everywhere."""

    @staticmethod
    def _require_compared(batch: ListedBatch, **found: Any) -> None:
        """Raise unless outputs are known and there is one item per example of each collection."""
        require_labels(batch, "clamped")
        for name, values in found.items():
            check_length(values, batch.n_examples, name, "items")

    def latent_sites(self, batch: L) -> LatentSites:
        """Return what the latents of the known outputs may be: one site for each example."""
        offsets = known_candidates(batch).offsets
        return LatentSites(np.arange(len(offsets) - 1), offsets)

    def latent_scores(self, batch: L, theta: Vector) -> Vector:
        """Return θ·φ(x_i, y_i, h) of each state, shape (M,)."""
        return self._parts(batch).scores(Query(theta, "free"))[known_candidates(batch).places]

    def latent_pull_back(self, batch: L, coefficients: Vector) -> Vector:
        """Return Σ coefficient·φ(x_i, y_i, h) over all states, shape (d,)."""
        true = known_candidates(batch)
        spread = np.zeros(true.n_candidates)
        spread[true.places] = coefficients
        return self._parts(batch).sum(spread, Query(spread, "free"))

    def with_expected_loss(self, batch: L, P: Vector) -> L:
        """Return the batch whose loss of (y, h) is Σ_{h'} P(h') Δ(y_i, h', y, h)."""
        require_labels(batch, "clamped")
        return replace(batch, losses=self._expected_losses(batch, P))  # type: ignore[type-var]

    def diversity(self, batch: L, P: Vector) -> tuple[Vector, Vector]:
        """Return H_i = Σ_{h,h'} P(h) P(h') K_i(h, h') of each example, (n,), and its derivatives (K + Kᵀ)P, (M,)."""
        offsets, product = known_candidates(batch).offsets, self._latent_products(batch, P)
        other = product if self._symmetric else self._latent_products(batch, P, transposed=True)
        return np.add.reduceat(P * product, offsets[:-1]), product + other

    def point_distribution(self, batch: L, latents: Sequence[Any]) -> Vector:
        """Return the distribution that is certain of the given latent of each example."""
        places = known_candidates(batch).places
        P = np.zeros(len(places))
        P[np.searchsorted(places, self._places(batch, latents))] = 1.0
        return P


class StateLatentLosses(ListedLatentLosses["StateBatch"]):
    """Losses between the states of `LatentMulticlass`: costs[y, ŷ] where the classes differ, else K(h, ĥ)."""

    latent_loss: Any
    latent_loss_: Any
    costs_: NDArray[np.float64]
    labels_: Any
    table_: Any
    _checked_states: Callable[..., Indices]

    def _checked_latent_loss(self) -> Any:
        """Return None, a name, or a matrix (H, H) of finite losses ≥ 0 with a zero diagonal."""
        given = self.latent_loss
        if given is None or (isinstance(given, str) and given == "zero_one"):
            return given
        wanted = "None, 'zero_one' or a matrix (H, H) of losses between states"
        if isinstance(given, str):
            raise InputError("latent_loss", given, wanted)
        matrix = numbers_of(given, "latent_loss", wanted).copy()
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
            raise InputError("latent_loss", Description(f"shape {matrix.shape}"), wanted)
        require_costs(matrix, "latent_loss", lambda h, other: f"at [{h}, {other}]")
        return matrix

    @property
    def _symmetric(self) -> bool:  # type: ignore[override]
        loss = self.latent_loss_
        return not isinstance(loss, np.ndarray) or np.array_equal(loss, loss.T)

    def _check_latent_sizes(self, sizes: Indices) -> None:
        """Raise unless a matrix of losses has a row per state of each example."""
        if not isinstance(self.latent_loss_, np.ndarray):
            return
        other = np.flatnonzero(sizes != len(self.latent_loss_))
        if len(other):
            i = other[0]
            expected = f"{len(self.latent_loss_)} rows, one per row of `latent_loss`"
            raise InputError(f"X[{i}]", Description(f"{sizes[i]} rows"), expected)

    def _latent_products(self, batch: "StateBatch", P: Vector, transposed: bool = False) -> Vector:
        loss, true = self.latent_loss_, batch.true_candidates
        if loss is None:
            return np.zeros(len(P))
        if isinstance(loss, str):
            return np.add.reduceat(P, true.offsets[:-1])[true.examples] - P
        states = batch.cells.h[true.places]
        table = np.zeros((batch.n_examples, len(loss)))
        table[true.examples, states] = P
        return (table @ (loss.T if transposed else loss))[true.examples, states]

    def _latent_columns(self, batch: "StateBatch", states: Indices) -> Vector:
        """Return K_i(h', states[i]) for each state h' of each example i, shape (M,)."""
        loss, true = self.latent_loss_, batch.true_candidates
        if loss is None:
            return np.zeros(len(true.places))
        own, chosen = batch.cells.h[true.places], states[true.examples]
        return (own != chosen).astype(np.float64) if isinstance(loss, str) else loss[own, chosen]

    def _class_costs(self, batch: "StateBatch") -> Vector:
        """Return costs[y_i, y] of all candidates."""
        return batch.cells.by_class(self.costs_[batch.classes()].ravel())

    def _expected_losses(self, batch: "StateBatch", P: Vector) -> Vector:
        """Return costs[y_i, y] if y ≠ y_i, else Σ_{h'} P(h') K_i(h', h)."""
        losses = self._class_costs(batch)
        losses[batch.true_candidates.places] = self._latent_products(batch, P)
        return losses

    def worst_losses(self, batch: "StateBatch", w: Vector) -> Callable[[Vector], tuple[Vector, Vector]]:
        """Return the function P → max_{y,h} [s(y, h) + Δ_i(y, h; P)]: values (n,), derivatives by P (M,).

        The candidates of other classes do not depend on P, so that their maximum is taken once.
        """
        true = known_candidates(batch)
        scores, costs = self._parts(batch).scores(Query(w, "free")), self._class_costs(batch)
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

    def plane_losses(self, batch: "StateBatch") -> PlaneLosses | None:
        """Return the losses of candidates by the first atoms of their planes; nothing if some planes have none."""
        n_states = None if self.table_ is None else self.table_.vector_of.shape[1]
        if self.table_ is not None and not self.table_.complete:
            return None

        def losses(examples: Indices, rows: Indices, columns: Indices) -> Vector:
            y, h = (columns, rows - batch.offsets[examples]) if n_states is None else divmod(columns, n_states)
            assert batch.losses is not None
            return batch.losses[batch.cells.place(examples, y, h)]

        return losses

    def latent_losses(self, batch: "StateBatch", H_true: Sequence[Any], Y_pred: Any, H_pred: Sequence[Any]) -> Vector:
        """Return Δ(y_i, h_i, ŷ_i, ĥ_i) of each example of a labeled batch whose states are known."""
        self._require_compared(batch, H_true=H_true, Y_pred=Y_pred, H_pred=H_pred)
        predicted = self.labels_.encode(Y_pred)
        states, right = self._checked_states(batch, H_true), predicted == batch.truth
        # Predicted states are those of the predicted class, which may have others than the true one.
        compared = np.where(right, self._checked_states(replace(batch, truth=predicted), H_pred), states)
        place = np.searchsorted(batch.true_candidates.places, self._places(batch, H_true))
        return np.where(right, self._latent_columns(batch, compared)[place], self.costs_[batch.truth, predicted])

    def _places(self, batch: "StateBatch", latents: Sequence[Any]) -> Indices:
        """Return the candidates of the true classes with the given states."""
        return batch.cells.place(np.arange(batch.n_examples), batch.classes(), self._checked_states(batch, latents))
