"""Losses on the hidden nodes of graphs, and the distributions over their states that `ModLat` needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.protocols import LatentSites, Temperature
from latentstruct.exceptions import InputError
from latentstruct.ragged import Indices, Vector, locate, offsets_from_lengths
from latentstruct.tasks.base import require_labels, require_one_latent_each
from latentstruct.tasks.graph_batch import GraphBatch
from latentstruct.tasks.graph_layout import GraphLayout, flat_labels
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
        """List the hidden nodes of a labelled batch; raise InputError if two of them are joined by an edge."""
        assert batch.truth is not None
        structure, hidden = batch.structure, batch.truth == UNKNOWN
        ends = structure.scopes.reshape(-1, 2)
        _refuse_joined(batch, ends, hidden)
        nodes = np.flatnonzero(hidden)
        cards = structure.cards[nodes]
        offsets = offsets_from_lengths(cards)
        places = np.zeros(len(hidden), dtype=np.int64)
        places[nodes] = offsets[:-1]
        found = []
        for here, there in ((0, 1), (1, 0)):
            edges = np.flatnonzero(hidden[ends[:, here]])
            node, known = ends[edges, here], ends[edges, there]
            step = structure.cards[ends[edges, 1]] if here == 0 else np.ones(len(edges), dtype=np.int64)
            fixed = batch.truth[known] * (1 if here == 0 else structure.cards[node])
            found.append(
                (
                    _steps(structure.table_at[edges] + fixed, structure.cards[node], step),
                    _steps(places[node], structure.cards[node]),
                )
            )
        graphs = np.searchsorted(structure.variables_at, nodes, side="right") - 1
        return cls(
            nodes,
            LatentSites(graphs, offsets),
            _steps(structure.state_at[nodes], cards),
            np.concatenate([entries for entries, _ in found]),
            np.concatenate([targets for _, targets in found]),
        )

    def sums(self, P: Vector) -> Vector:
        """Return the sum of P at the site of each state, 1 for a distribution."""
        starts, sizes = self.sites.offsets[:-1], np.diff(self.sites.offsets)
        return np.repeat(np.add.reduceat(P, starts), sizes) if len(starts) else np.zeros(0)

    def by_graph(self, values: Vector, n_graphs: int) -> Vector:
        """Return the sums over each graph of values of states."""
        graphs = np.repeat(self.sites.examples, np.diff(self.sites.offsets))
        return np.bincount(graphs, weights=values, minlength=n_graphs).astype(np.float64)


def _steps(first: Indices, lengths: Indices, step: Indices | int = 1) -> Indices:
    """first[0], first[0] + step[0], … (lengths[0] of them), first[1], …"""
    at = offsets_from_lengths(lengths)
    number = np.arange(at[-1]) - np.repeat(at[:-1], lengths)
    return np.repeat(first, lengths) + number * np.repeat(np.broadcast_to(step, len(first)), lengths)


def _refuse_joined(batch: GraphBatch, ends: Indices, hidden: NDArray[np.bool_]) -> None:
    joined = np.flatnonzero(hidden[ends].all(axis=1))
    if len(joined):
        k, first = locate(batch.structure.variables_at, ends[joined[0], 0])
        _, second = locate(batch.structure.variables_at, ends[joined[0], 1])
        raise InputError(
            f"X[{k}] has an edge between the nodes {first} and {second}, neither of which has a known label, but a "
            "loss on hidden nodes (ModLat, IterativeLSVM) needs hidden nodes and unknown labels that touch known "
            "labels only: leave such edges out, or use LatentSSVM, MarginalSSVM or HiddenCRF"
        )


class GraphLosses:
    """What `ModLat` asks of a graph: Δ = Σ_v cost(y_v, ŷ_v) + γ Σ_j [h_j ≠ ĥ_j], j over nodes that are not known.

    Given the known labels, nodes that touch no other unknown node are independent of each other: each is a site with
    P_θ(h_j = k) ∝ exp θ·(features of node j in state k and of its edges to known neighbours).
    """

    hidden_loss: float
    layout_: GraphLayout
    n_features: int

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
        unary, tables = batch.scores(theta, "free")
        scores = unary[hidden.own]
        np.add.at(scores, hidden.targets, tables[hidden.entries])
        return scores

    def latent_pull_back(self, batch: GraphBatch, coefficients: Vector) -> Vector:
        """Return Σ coefficient·features over all states, shape (d,)."""
        hidden, structure = self._hidden_nodes(batch), batch.structure
        unary, tables = np.zeros(int(structure.state_at[-1])), np.zeros(int(structure.table_at[-1]))
        unary[hidden.own] = coefficients
        tables[hidden.entries] = np.asarray(coefficients)[hidden.targets]
        return batch.pull_back(unary, tables, np.ones(batch.n_examples), self.n_features)

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
        return hidden.by_graph(P * others, batch.n_examples), 2.0 * others

    def worst_losses(self, batch: GraphBatch, w: Vector) -> Callable[[Vector], tuple[Vector, Vector]]:
        """Return the function P → max over assignments of s + Δ_i(·; P): values (n,), derivatives (M,).

        The derivative by P_jk is γ for all but the state k that node j has in the maximum.
        """
        hidden = self._hidden_nodes(batch)
        starts = hidden.sites.offsets[:-1]

        def worst(P: Vector) -> tuple[Vector, Vector]:
            found = self.with_expected_loss(batch, P).beliefs(w, "augmented", Temperature())
            slopes = np.full(len(P), self.hidden_loss)
            slopes[starts + found.states[hidden.nodes]] = 0.0
            return found.values, slopes

        return worst

    def latent_losses(self, batch: GraphBatch, H_true: Sequence[Any], Y_pred: Any, H_pred: Sequence[Any]) -> Vector:
        """Return Σ_v cost(y_v, ŷ_v) + γ Σ_j [h_j ≠ ĥ_j] of each graph; latents are whole assignments."""
        hidden, structure = self._hidden_nodes(batch), batch.structure
        assert batch.losses is not None
        known, predicted = self._known_states(batch, Y_pred)
        wrong = self._hidden_states(batch, H_true, "H_true") != self._hidden_states(batch, H_pred, "H_pred")
        graphs = np.repeat(batch.everything, np.diff(structure.variables_at))
        costs = batch.losses[structure.state_at[known] + predicted]
        out = np.bincount(graphs[known], weights=costs, minlength=batch.n_examples)
        return out + self.hidden_loss * np.bincount(hidden.sites.examples[wrong], minlength=batch.n_examples)

    def point_distribution(self, batch: GraphBatch, latents: Sequence[Any]) -> Vector:
        """Return the distribution, shape (M,), that is sure of the given assignments."""
        states = self._hidden_states(batch, latents, "latents")
        offsets = self._hidden_nodes(batch).sites.offsets
        P = np.zeros(int(offsets[-1]))
        P[offsets[:-1] + states] = 1.0
        return P

    def _known_states(self, batch: GraphBatch, Y_pred: Any) -> tuple[Indices, Indices]:
        """Return the nodes with a known label, and the states predicted there."""
        assert batch.truth is not None
        nodes_at = batch.structure.variables_at
        _, predicted = self.layout_.encode(flat_labels(Y_pred, nodes_at, "Y_pred"), batch.kinds, nodes_at, "Y_pred")
        known = np.flatnonzero(batch.truth != UNKNOWN)
        for v in known[predicted[known] == UNKNOWN][:1]:
            k, node = locate(nodes_at, v)
            raise InputError(
                f"Y_pred[{k}] has -1 (unknown) at node {node}, where the true label is known: predict a label for each "
                "output node"
            )
        return known, predicted[known]

    def _hidden_states(self, batch: GraphBatch, latents: Sequence[Any], name: str) -> Indices:
        """Return what whole assignments say of the nodes without a known label."""
        require_one_latent_each(batch, latents)
        nodes, nodes_at = self._hidden_nodes(batch).nodes, batch.structure.variables_at
        states = self.layout_.encode_assignment(flat_labels(latents, nodes_at, name), batch.kinds, nodes_at, name)
        for v in nodes[states[nodes] == UNKNOWN][:1]:
            k, node = locate(nodes_at, v)
            raise InputError(f"{name}[{k}] has -1 (unknown) at node {node}: give a whole assignment")
        return states[nodes]
