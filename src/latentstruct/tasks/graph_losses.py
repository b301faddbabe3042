"""Losses on the hidden nodes of graphs, and the distributions over their states that `ModLat` needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.pooling import require_labels
from latentstruct.core.protocols import LatentSites, Query
from latentstruct.exceptions import InputError
from latentstruct.planes import Slopes
from latentstruct.ragged import Indices, Vector, locate, offsets_from_lengths, split
from latentstruct.tasks.base import require_one_latent_each
from latentstruct.tasks.graph_batch import GraphBatch
from latentstruct.tasks.graph_layout import GraphLayout, flat_labels
from latentstruct.tasks.item_labels import ItemLabels
from latentstruct.unknown import UNKNOWN


@dataclass(frozen=True)
class HiddenNodes:
    """The nodes whose states are not known, each of which touches known nodes only.

    Attributes
    ----------
    nodes : ndarray of shape (G,)
        Their numbers in the batch.
    sites : LatentSites
        Their graphs, and where their states lie among all M.
    own : ndarray of shape (M,)
        The entry of each state among the scores of nodes.
    entries, targets : ndarray
        Entries of edges' tables that join a hidden and a known node, and the state of 0 … M−1 that each belongs to.
    """

    nodes: Indices
    sites: LatentSites
    own: Indices
    entries: Indices
    targets: Indices

    @classmethod
    def of(cls, batch: GraphBatch) -> "HiddenNodes":
        """List the hidden nodes of a labeled batch; raise InputError if two of them are joined by an edge."""
        assert batch.truth is not None
        structure, cards, truth, hidden = batch.structure, batch.cards, batch.truth, batch.truth == UNKNOWN
        ends = structure.scopes.reshape(-1, 2)
        _refuse_joined(batch, ends, hidden)
        nodes = np.flatnonzero(hidden)
        offsets = offsets_from_lengths(cards[nodes])
        places = np.zeros(len(hidden), dtype=np.int64)
        places[nodes] = offsets[:-1]
        entries, targets = [], []
        for here in (0, 1):
            edges = np.flatnonzero(hidden[ends[:, here]])
            node, known = ends[edges, here], ends[edges, 1 - here]
            # The states of the second node are next to each other in a table.
            step, fixed = (cards[known], truth[known]) if here == 0 else (1, truth[known] * cards[node])
            entries.append(_steps(structure.table_at[edges] + fixed, cards[node], step))
            targets.append(_steps(places[node], cards[node]))
        graphs = np.searchsorted(batch.offsets, nodes, side="right") - 1
        own = _steps(structure.state_at[nodes], cards[nodes])
        return cls(nodes, LatentSites(graphs, offsets), own, np.concatenate(entries), np.concatenate(targets))

    def sums(self, P: Vector) -> Vector:
        """Return the sum of P at the site of each state, 1 for a distribution."""
        starts, sizes = self.sites.offsets[:-1], np.diff(self.sites.offsets)
        return np.repeat(np.add.reduceat(P, starts), sizes) if len(starts) else np.zeros(0)


def _steps(first: Indices, lengths: Indices, step: Indices | int = 1) -> Indices:
    """first[0], first[0] + step[0], … (lengths[0] of them), first[1], …"""
    at = offsets_from_lengths(lengths)
    number = np.arange(at[-1]) - np.repeat(at[:-1], lengths)
    return np.repeat(first, lengths) + number * np.repeat(np.broadcast_to(step, len(first)), lengths)


def _refuse_joined(batch: GraphBatch, ends: Indices, hidden: NDArray[np.bool_]) -> None:
    joined = np.flatnonzero(hidden[ends].all(axis=1))
    if len(joined):
        k, first = locate(batch.offsets, ends[joined[0], 0])
        _, second = locate(batch.offsets, ends[joined[0], 1])
        raise InputError(
            f"X[{k}] has an edge between the nodes {first} and {second}, neither of which has a known label, but a "
            "loss on hidden nodes (ModLat, IterativeLSVM) needs hidden nodes and unknown labels that touch known "
            "labels only: leave such edges out, or use LatentSSVM, MarginalSSVM or HiddenCRF"
        )


class GraphLosses(ItemLabels):
    """What `ModLat` needs of a graph: Δ = Σ_v cost(y_v, ŷ_v) + γ Σ_j [h_j ≠ ĥ_j], j over nodes that are not known.

    Given the known labels, nodes that touch no other unknown node are independent of each other: each is a site with
    P_θ(h_j = k) ∝ exp θ·(features of node j in state k and of its edges to known neighbors).
    """

    item = "node"
    hidden_loss: float
    layout_: GraphLayout

    def _label_numbers(self, Y: Any, offsets: Indices, name: str) -> Indices:
        return self.layout_.label_numbers(flat_labels(Y, offsets, name), offsets, name)

    def _latent_states(self, batch: GraphBatch, latents: Sequence[Any], name: str) -> Indices:
        flat = flat_labels(latents, batch.offsets, name)
        return self.layout_.encode_assignment(flat, batch.kinds, batch.offsets, name)

    def _labelings(self, batch: GraphBatch, states: Indices) -> list[NDArray]:
        return split(self.layout_.decode(states, batch.kinds, states), batch.offsets)

    def _labeling_slopes(self, batch: GraphBatch, states: Indices) -> Slopes:
        return batch.slopes(states, Query(np.zeros(self.n_features), "free"))

    def _hidden_nodes(self, batch: GraphBatch) -> HiddenNodes:
        require_labels(batch, "clamped")
        found: HiddenNodes = batch.once("hidden nodes", lambda: HiddenNodes.of(batch))
        return found

    def latent_sites(self, batch: GraphBatch) -> LatentSites:
        """Return the states of hidden nodes and unknown labels, a site each."""
        return self._hidden_nodes(batch).sites

    def latent_scores(self, batch: GraphBatch, theta: Vector) -> Vector:
        """Return θ·(features of node j in state k, with those of its edges), shape (M,)."""
        hidden = self._hidden_nodes(batch)
        unary, tables = batch.scores(Query(theta, "free"))
        scores = unary[hidden.own]
        np.add.at(scores, hidden.targets, tables[hidden.entries])
        return scores

    def latent_pull_back(self, batch: GraphBatch, coefficients: Vector) -> Vector:
        """Return Σ coefficient·features over all states, shape (d,)."""
        hidden, structure = self._hidden_nodes(batch), batch.structure
        unary, tables = np.zeros(int(structure.state_at[-1])), np.zeros(int(structure.table_at[-1]))
        unary[hidden.own] = coefficients
        tables[hidden.entries] = np.asarray(coefficients)[hidden.targets]
        query = Query(np.zeros(self.n_features), "free", weights=np.ones(batch.n_examples))
        return batch.pull_back((unary, tables), query)

    def with_expected_loss(self, batch: GraphBatch, P: Vector) -> GraphBatch:
        """Return the batch in which state k of a node j that is not known costs γ(1 − P_jk)."""
        hidden = self._hidden_nodes(batch)
        assert batch.losses is not None
        losses = batch.losses.copy()
        losses[hidden.own] = self.hidden_loss * (hidden.sums(P) - P)
        # Messages that were kept belong to other losses.
        return replace(batch, losses=losses, kept={})

    def diversity(self, batch: GraphBatch, P: Vector) -> tuple[Vector, Vector]:
        """Return γ Σ_j (1 − Σ_k P_jk²) of each graph, shape (n,), and the derivatives 2γ(1 − P_jk), shape (M,)."""
        hidden = self._hidden_nodes(batch)
        others = self.hidden_loss * (hidden.sums(P) - P)
        graphs = np.repeat(hidden.sites.examples, np.diff(hidden.sites.offsets))
        return np.bincount(graphs, P * others, batch.n_examples).astype(np.float64, copy=False), 2.0 * others

    def worst_losses(self, batch: GraphBatch, w: Vector) -> Callable[[Vector], tuple[Vector, Vector]]:
        """Return the function P → max over assignments of s + Δ_i(·; P): values (n,), derivatives (M,).

        The derivative by P_jk is γ for all but the state k that node j has in the maximum.
        """
        hidden = self._hidden_nodes(batch)

        def worst(P: Vector) -> tuple[Vector, Vector]:
            found = self.with_expected_loss(batch, P).beliefs(Query(w, "augmented"))
            slopes = np.full(len(P), self.hidden_loss)
            slopes[hidden.sites.offsets[:-1] + found.states[hidden.nodes]] = 0.0
            return found.values, slopes

        return worst

    def latent_losses(self, batch: GraphBatch, H_true: Sequence[Any], Y_pred: Any, H_pred: Sequence[Any]) -> Vector:
        """Return Σ_v cost(y_v, ŷ_v) + γ Σ_j [h_j ≠ ĥ_j] of each graph; latents are whole assignments."""
        hidden, offsets = self._hidden_nodes(batch), batch.offsets
        assert batch.truth is not None
        assert batch.losses is not None
        flat = flat_labels(Y_pred, offsets, "Y_pred")
        _, predicted = self.layout_.encode(flat, batch.kinds, offsets, "Y_pred")
        self._require_predictions(batch.truth, predicted, offsets)
        wrong = self._hidden_states(batch, H_true, "H_true") != self._hidden_states(batch, H_pred, "H_pred")
        known = np.flatnonzero(batch.truth != UNKNOWN)
        costs = batch.losses[batch.structure.state_at[known] + predicted[known]]
        graphs = np.repeat(np.arange(batch.n_examples), np.diff(offsets))
        out = np.bincount(graphs[known], costs, batch.n_examples)
        return out + self.hidden_loss * np.bincount(hidden.sites.examples[wrong], minlength=batch.n_examples)

    def point_distribution(self, batch: GraphBatch, latents: Sequence[Any]) -> Vector:
        """Return the distribution, shape (M,), that is sure of the given assignments."""
        states = self._hidden_states(batch, latents, "latents")
        offsets = self._hidden_nodes(batch).sites.offsets
        P = np.zeros(int(offsets[-1]))
        P[offsets[:-1] + states] = 1.0
        return P

    def _hidden_states(self, batch: GraphBatch, latents: Sequence[Any], name: str) -> Indices:
        """Return the states that whole assignments have at nodes without a known label."""
        require_one_latent_each(batch, latents)
        nodes, states = self._hidden_nodes(batch).nodes, self._latent_states(batch, latents, name)
        for v in nodes[states[nodes] == UNKNOWN][:1]:
            k, node = locate(batch.offsets, v)
            raise InputError(f"{name}[{k}] has -1 (unknown) at node {node}: give a whole assignment")
        return states[nodes]
