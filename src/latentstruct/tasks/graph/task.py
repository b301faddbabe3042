"""Graphs: labels of nodes that depend on each other along edges, with hidden nodes and unknown labels."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.levels import LossLevels
from latentstruct.core.pooling import PooledParts, pool_known, pool_linear, require_labels
from latentstruct.core.protocols import Cost, LatentSites, Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector, locate, members, split, sums_by
from latentstruct.core.unknown import UNKNOWN
from latentstruct.core.validation import boolean, check_parameters, integer, options, real
from latentstruct.exceptions import Description, InputError
from latentstruct.inference.engine import Wide
from latentstruct.inference.forests import GraphForests
from latentstruct.inference.propagation import Counting
from latentstruct.inference.structure import Beliefs, pairwise_graphs
from latentstruct.planes.plane import Slopes
from latentstruct.tasks.base import check_examples, require_one_latent_each
from latentstruct.tasks.derived import Derivable, DerivedAnswers
from latentstruct.tasks.graph.batch import GraphBatch, HiddenNodes
from latentstruct.tasks.graph.inputs import GraphInput as GraphInput
from latentstruct.tasks.graph.inputs import grid_graph as grid_graph
from latentstruct.tasks.graph.inputs import stack_graphs
from latentstruct.tasks.graph.layout import GraphLayout, GraphState, flat_labels, hidden_states, learn_layout
from latentstruct.tasks.item_labels import ItemLabels

MESSAGE_ITERATIONS = 30
"""Number of iterations of belief propagation assumed in estimates of work."""


class GraphMarginals(NamedTuple):
    """Probabilities of one graph.

    Attributes
    ----------
    nodes : ndarray of shape (V, S), or list of V vectors if numbers of states differ
        P(y_v).
    edges : ndarray of shape (E, S, S), or list of E matrices
        P(y_p, y_q) for each edge (p, q).
    """

    nodes: Any
    edges: Any


@dataclass(eq=False, repr=False)
class Graph(DerivedAnswers, ItemLabels[GraphBatch]):
    """Labels on graphs: s(y, h) = Σ_v w_{type(v), x_v}·f_v + Σ_e w_{type(e), x_p, x_q}·f_e, x = (y, h).

    f_v are the features of node v, f_e those of edge e = (p, q), a constant 1 if none are given.

    Parameters
    ----------
    labels : sequence of hashable, or mapping of node type to such a sequence, optional
        All labels that may occur, for all output types or for each; by default those of the training data.
    hidden : mapping of node type to number of states, optional
        Types of nodes that are never observed; their states are 0 … k−1.
    costs : None, mapping or array of shape (S, S), default=None
        Cost of a wrong label: 1 each (Hamming loss), the cost of missing each true label, or a matrix (true, predicted)
        where all types have the same labels. The loss of a graph is the sum over its known output nodes.
    shared : bool, default=True
        Whether nodes and edges of equal type share their weights. If not, all examples must have the same graph.
    max_entries : int, default=2**20
        Inference is exact by elimination if no table needs more entries than this. Otherwise it is belief propagation,
        and planes are marked as approximate.
    max_iterations : int, default=200
        Maximum number of sweeps of belief propagation over a graph.
    damping : float, default=0.5
        Share of the old message in the new one if messages do not converge, at least 0 and below 1.
    counting : {"auto", "bethe", "trees"}, default="auto"
        Entropy approximation of belief propagation. "bethe" is fast, but its values may jump as weights change; "trees"
        (tree-reweighted) is smooth, which is needed to train on large loopy graphs. "auto" is "trees" at positive
        output temperatures and "bethe" if outputs are maximized: see `latentstruct.inference.propagation.Propagation`.
    hidden_loss : float, default=0.0
        Cost γ of each node without a known label whose state differs from that of another assignment, for `ModLat` and
        `IterativeLSVM`.
    wide : {"propagation", "bounds", "toulbar2"}, default="propagation"
        How maxima are found where elimination is not possible and both temperatures are 0. "bounds" replaces belief
        propagation by reweighted messages, which give upper bounds, and eliminates the states that these leave;
        "toulbar2" is branch and bound (``pip install 'latentstruct[toulbar2]'``). The gap of training is then proven.

    Notes
    -----
    X is a list of graphs, each a `GraphInput`, a tuple (features, edges[, edge_features]) or a dict with the names of
    `GraphInput`; Y is a list of label sequences, one label per node.

    A type of edges is the triple of the given edge type and of the types of the first and the second node; only triples
    of the training data have weights. Weights of node types come first, f·S + y for feature f and label y, then those
    of edge types, (f·S_p + s)·S_q + t for edge feature f and labels s and t: see `node_weights` and `edge_weights`.
    Types are in sorted order.

    The number −1 in Y marks a node whose label is unknown: it is latent in training, summed out at ε_h like the nodes
    of hidden types, whose entry is always −1. The loss of unknown labels is 0. Use lists, because −1 becomes the string
    "-1" in an array of strings. Prediction maximizes over all output nodes and sums out those of hidden types only (see
    `roles`). Latents are whole assignments: labels at outputs, states at nodes of hidden types.

    Messages of belief propagation are cached in a batch, so that inference at nearly the same weights is faster, but
    need not give exactly the same result as with a new batch.

    `ModLat` uses Δ = Σ_v cost(y_v, ŷ_v) + γ Σ_j [h_j ≠ ĥ_j], j over unknown nodes. Each of these must be adjacent to
    known nodes only: given the known labels it is then a site with P_θ(h_j = k) ∝ exp θ·(features of node j in state k
    and of its edges), independent of the others.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import CRF, Graph, grid_graph
    >>> rng = np.random.default_rng(0)
    >>> images = [np.repeat([[0, 1, 2]], 4, axis=0) for _ in range(5)]
    >>> X = [grid_graph(np.eye(3)[image] + 0.5 * rng.normal(size=(4, 3, 3))) for image in images]
    >>> model = CRF(Graph()).fit(X, [image.ravel() for image in images])
    >>> model.predict(X)[0].reshape(4, 3).tolist()
    [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]]
    """

    item = "node"
    state_type = GraphState
    tags = TaskTags(
        latent="possible",
        soft=True,
        two_temperatures=True,
        exact=False,
        above_truth=True,
        upper_bounds=True,
        partial_outputs=True,
    )
    constraints: ClassVar = {
        "max_entries": integer(1),
        "max_iterations": integer(1),
        "damping": real(0.0, 1.0, closed="left"),
        "counting": options("auto", "bethe", "trees"),
        "wide": options("propagation", "bounds", "toulbar2"),
        "shared": boolean,
        "hidden_loss": real(0.0, closed="left"),
    }

    labels: Any = None
    hidden: Mapping[Any, int] | None = None
    costs: Any = None
    shared: bool = True
    max_entries: int = 2**20
    max_iterations: int = 200
    damping: float = 0.5
    counting: Counting = "auto"
    hidden_loss: float = 0.0
    wide: Wide = "propagation"

    def learn(self, X: Any, Y: Any) -> None:
        """Find types, labels and numbers of features."""
        check_examples(X, Y)
        check_parameters(self)
        stacked = stack_graphs(X)
        if stacked.nodes_at[-1] == 0:
            raise InputError("X", Description("empty graphs only"), "graphs with at least one node")
        flat = flat_labels(Y, stacked.nodes_at, "Y")
        layout, latent = learn_layout(stacked, flat, self.labels, self.hidden, self.shared)
        self._set(layout, latent)
        kinds = layout.kinds(stacked)
        layout.blocks(stacked, kinds)
        layout.encode(flat, kinds, stacked.nodes_at, "Y")

    def _set(self, layout: GraphLayout, latent: bool) -> None:
        self.layout_, self.latent = layout, latent
        self.n_inputs_, self.n_features = layout.n_inputs, layout.n_features
        if isinstance(self.labels, Mapping) and not (self.costs is None or isinstance(self.costs, Mapping)):
            raise InputError("costs", self.costs, "None or a mapping if `labels` is a mapping")
        self._set_costs(layout.vocabulary, self.costs)

    def state(self) -> dict[str, Any]:
        return {**self.layout_.state(), "latent": self.latent}

    def restore(self, state: dict[str, Any]) -> None:
        check_parameters(self)
        layout = GraphLayout.restored(state)
        hidden_states(self.hidden, layout.node_types)
        self._set(layout, bool(state["latent"]))

    def node_weights(self, w: Vector, type: Any = None) -> NDArray[np.float64]:
        """Return the weights of a node type, shape (d, S).

        `type` is the name of a node type, or the number of a node if weights are not shared; None is the only type.
        """
        block = self.layout_.node_block(type)
        start, end = self.layout_.node_at[block : block + 2]
        return np.asarray(w)[start:end].reshape(-1, self.layout_.node_cards[block])

    def edge_weights(self, w: Vector, type: Any = None) -> NDArray[np.float64]:
        """Return the weights of an edge type, shape (d_e, S_p, S_q); d_e = 1 without edge features.

        `type` is the name of an edge type, a triple (edge type, first node's type, second node's type) where nodes of
        several types have such edges, or the number of an edge if weights are not shared; None is the only type.
        """
        block = self.layout_.edge_block(type)
        start, end = self.layout_.edge_at[block : block + 2]
        return np.asarray(w)[start:end].reshape(-1, *self.layout_.edge_cards[block])

    def prepare(self, X: Any, Y: Any = None) -> GraphBatch:
        check_examples(X, Y)
        layout, stacked = self.layout_, stack_graphs(X)
        kinds = layout.kinds(stacked)
        node_blocks, edge_blocks = layout.blocks(stacked, kinds)
        structure = pairwise_graphs(layout.cards[kinds], stacked.edges, stacked.nodes_at, stacked.edges_at)
        truth = losses = None
        if Y is not None:
            labels, truth = layout.encode(flat_labels(Y, stacked.nodes_at, "Y"), kinds, stacked.nodes_at, "Y")
            nodes, states = members(structure.state_at)
            losses = self.costs_or_nothing_[labels[nodes], layout.label_of[kinds[nodes], states]]
        return GraphBatch(
            structure,
            layout.rows(stacked, node_blocks, edge_blocks),
            edge_blocks if stacked.edge_features is None else np.zeros(0, dtype=np.int64),
            layout.edge_at,
            kinds,
            layout.hidden[kinds],
            truth,
            losses,
            {name: getattr(self, name) for name in ("max_entries", "max_iterations", "damping", "counting", "wide")},
        )

    def _label_numbers(self, Y: Any, offsets: Indices, name: str) -> Indices:
        return self.layout_.label_numbers(flat_labels(Y, offsets, name), offsets, name)

    def _latent_states(self, batch: GraphBatch, latents: Sequence[Any], name: str) -> Indices:
        flat = flat_labels(latents, batch.offsets, name)
        return self.layout_.encode_assignment(flat, batch.kinds, batch.offsets, name)

    def _labelings(self, batch: GraphBatch, states: Indices) -> list[NDArray]:
        return split(self.layout_.decode(states, batch.kinds, states), batch.offsets)

    def _labeling_slopes(self, batch: GraphBatch, states: Indices) -> Slopes:
        return batch.slopes(states, Query(np.zeros(self.n_features), "free"))

    def roles(self, X: Any) -> list[NDArray]:
        """Return for each node whether prediction has it "maximized" or "summed out"."""
        check_examples(X, None)
        stacked = stack_graphs(X)
        hidden = self.layout_.hidden[self.layout_.kinds(stacked)]
        return split(np.where(hidden, "summed out", "maximized"), stacked.nodes_at)

    def pool_batch(self, batch: GraphBatch, query: Query) -> Pooled:
        if query.mode == "clamped" and not batch.half_labeled:
            return pool_known(batch, query, lambda rows: batch.slopes(batch.states_of(rows), query))
        soft = query.temperature.latent > 0 or (query.mode != "clamped" and query.temperature.output > 0)

        def pool(scores: tuple[Vector, Vector]) -> PooledParts:
            found = batch.pool(scores, query)
            counts = (found.unary, found.tables) if soft else found.states
            excess = math.inf if found.excess is None else found.excess
            return PooledParts(found.values, counts, soft, found.exact, excess=excess)

        return pool_linear(batch, batch, query, pool)

    def renyi_pool(self, batch: GraphBatch, query: Query, order: float) -> Pooled:
        """Pool latents by Rényi entropy of order α: smax_{ε_y} over y of Δ(y) + G_α(y), which is not convex.

        G_α(y) = [log Σ_h exp α s(y, h) − log Σ_h exp s(y, h)]/(α − 1); graphs must be within `max_entries`.
        """

        def pool(scores: tuple[Vector, Vector]) -> PooledParts:
            found = batch.pool_renyi(scores, query, order)
            return PooledParts(found.values, (found.unary, found.tables), soft=True, exact=False)

        return pool_linear(batch, batch, query, pool)

    def loss_levels(self, batch: GraphBatch, query: Query) -> LossLevels | None:
        """Return the best assignments of each loss, for narrow graphs and costs that are multiples of a unit."""
        rows, forests = batch.graphs(query), batch.forests()
        if forests is None:
            return None
        return forests.levels(rows, batch.scores(query), lambda counts: batch.slopes(counts, query))

    def cost(self, batch: GraphBatch, mode: Mode, temperature: Temperature) -> Cost:
        entries = np.diff(batch.entries_at).sum(axis=0)
        if mode == "clamped":
            return Cost((20.0 if batch.half_labeled else 5.0) * entries)
        engine = batch.made[batch.pooling(temperature, False)[0]]
        return Cost(5.0 * np.where(engine.exact, engine.elimination.totals, MESSAGE_ITERATIONS * entries))

    def decode(self, batch: GraphBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best labels of each graph, nodes of hidden types pooled at ε_h.

        y has the labels, and −1 at nodes of hidden types; h, if training had latents, is the whole assignment with the
        best or most probable states there.
        """
        query = Query(w, "free", Temperature(0.0, temperature.latent))
        return self._predictions(batch, batch.beliefs(query, predicting=True))

    def renyi_decode(self, batch: GraphBatch, w: Vector, alpha: float) -> list[Prediction]:
        """Return the outputs with the largest G_α of each graph."""
        query = Query(w, "free")
        return self._predictions(batch, batch.pool_renyi(batch.scores(query), query, alpha, predicting=True))

    def _predictions(self, batch: GraphBatch, found: Beliefs) -> list[Prediction]:
        unknown = np.full(len(found.states), UNKNOWN)
        outputs = split(self.layout_.decode(found.states, batch.kinds, unknown), batch.offsets)
        latents: Sequence[Any] = self._labelings(batch, found.states) if self.latent else [None] * len(outputs)
        return [Prediction(*triple) for triple in zip(outputs, latents, found.values.tolist(), strict=True)]

    def derivations(self, batch: GraphBatch, w: Vector) -> list[Derivable]:
        """Return all assignments as derivations; raise InputError if a graph is too wide for elimination."""
        forests = GraphForests.of(batch.structure, np.zeros(batch.structure.state_at[-1]), self.max_entries)
        if forests is None:
            raise InputError(
                "X",
                Description("a graph that is too wide for exact answers"),
                f"graphs that elimination solves with tables of at most {self.max_entries} entries",
                "Increase `max_entries`, or use `marginals`, which belief propagation approximates.",
            )
        every, (node, state) = np.arange(batch.n_examples), members(batch.structure.state_at)
        nothing = np.full(len(batch.kinds), UNKNOWN)

        def outputs(used: NDArray[np.uint8]) -> list[NDArray]:
            chosen, states = forests.counts(every, used)[0] > 0, np.zeros(len(batch.kinds), dtype=np.int64)
            states[node[chosen]] = state[chosen]
            return split(self.layout_.decode(states, batch.kinds, nothing), batch.offsets)

        unary, tables = batch.scores(Query(w, "free"))
        if batch.truth is not None:
            known = batch.truth[node]
            unary = np.where((known != UNKNOWN) & (known != state), -np.inf, unary)
        scores = forests.scores(every, (unary, tables))
        return [Derivable(forests.forests, scores, outputs)]

    def topk(self, batch: GraphBatch, w: Vector, k: int) -> list[list[Prediction]]:
        """Return the k best labelings of each graph, the best first; fewer if there are not as many."""
        for node in np.flatnonzero(batch.of_hidden_type)[:1]:
            got = Description(f"node {locate(batch.offsets, node)[1]} of a hidden type")
            expected = "graphs without hidden types for the best labelings"
            name = f"X[{locate(batch.offsets, node)[0]}]"
            raise InputError(name, got, expected, "States of hidden types are summed out; use `sample`.")
        return super().topk(batch, w, k)

    def complete(self, batch: GraphBatch, w: Vector) -> list[NDArray]:
        """Return the best assignment of each graph among those that agree with its known labels."""
        require_labels(batch, "clamped")
        return self._labelings(batch, batch.beliefs(Query(w, "clamped")).states)

    def initial_latents(self, batch: GraphBatch, rng: np.random.Generator, attempt: int) -> list[NDArray]:
        """Return completions of unknown labels at weights that follow from known ones, and random hidden states.

        States of hidden types are equivalent at w = 0, so that only random values distinguish them.
        """
        random = self.random_latents(batch, rng)
        if not ((batch.truth == UNKNOWN) & ~batch.of_hidden_type).any():
            return random
        found = super().initial_latents(batch, rng, attempt)
        hidden = split(batch.of_hidden_type, batch.offsets)
        return [np.where(*three) for three in zip(hidden, random, found, strict=True)]

    def marginals(self, batch: GraphBatch, w: Vector, temperature: Temperature) -> list[GraphMarginals]:
        """Return the probabilities of nodes' states and of edges' pairs of states at the temperatures (ε_y, ε_h)."""
        found = batch.beliefs(Query(w, "free", temperature), predicting=True)
        structure, cards = batch.structure, self.layout_.cards
        nodes: Any
        edges: Any
        if (cards == cards[0]).all():
            nodes, edges = found.unary.reshape(-1, cards[0]), found.tables.reshape(-1, cards[0], cards[0])
        else:
            shapes = batch.cards[structure.scopes.reshape(-1, 2)].tolist()
            tables = zip(split(found.tables, structure.table_at), shapes, strict=True)
            nodes, edges = split(found.unary, structure.state_at), [table.reshape(shape) for table, shape in tables]
        spans = zip(pairwise(batch.offsets.tolist()), pairwise(structure.factors_at.tolist()), strict=True)
        return [GraphMarginals(nodes[a:b], edges[c:d]) for (a, b), (c, d) in spans]

    def min_risk(self, batch: GraphBatch, w: Vector, temperature: Temperature) -> list[NDArray]:
        """Return the labels of least expected cost of each node, -1 at nodes of hidden types."""
        unary = batch.beliefs(Query(w, "free", temperature), predicting=True).unary
        layout, state_at = self.layout_, batch.structure.state_at
        states = np.zeros(len(batch.kinds), dtype=np.int64)
        for kind in np.unique(batch.kinds[~batch.of_hidden_type]).tolist():
            nodes, card = np.flatnonzero(batch.kinds == kind), int(layout.cards[kind])
            labels = layout.label_of[kind, :card]
            shares = unary[state_at[nodes][:, None] + np.arange(card)]
            states[nodes] = (shares @ self.costs_[np.ix_(labels, labels)]).argmin(axis=1)
        nothing = np.full(len(states), UNKNOWN)
        return split(layout.decode(states, batch.kinds, nothing), batch.offsets)

    def confidence(
        self, batch: GraphBatch, w: Vector, temperature: Temperature, predictions: Sequence[Prediction]
    ) -> list[Vector]:
        """Return the probability of each node's predicted label, NaN at nodes of hidden types."""
        found = batch.beliefs(Query(w, "free", temperature), predicting=True)
        flat = flat_labels([prediction.y for prediction in predictions], batch.offsets, "predictions")
        _, states = self.layout_.encode(flat, batch.kinds, batch.offsets, "predictions")
        probability = found.unary[batch.structure.state_at[:-1] + np.maximum(states, 0)]
        return split(np.where(states == UNKNOWN, np.nan, probability), batch.offsets)

    def _hidden_nodes(self, batch: GraphBatch) -> HiddenNodes:
        require_labels(batch, "clamped")
        return batch.once("hidden nodes", lambda: HiddenNodes.of(batch))

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
        hidden = self._hidden_nodes(batch)
        unary, tables = (np.zeros(int(at[-1])) for at in batch.entries_at)
        unary[hidden.own] = coefficients
        tables[hidden.entries] = np.asarray(coefficients)[hidden.targets]
        query = Query(np.zeros(self.n_features), "free", weights=np.ones(batch.n_examples))
        return batch.pull_back((unary, tables), query)

    def with_expected_loss(self, batch: GraphBatch, P: Vector) -> GraphBatch:
        """Return the batch in which state k of a node j that is not known costs γ(1 − P_jk)."""
        hidden = self._hidden_nodes(batch)
        assert batch.losses is not None
        losses = batch.losses.copy()
        losses[hidden.own] = self.hidden_loss * hidden.others(P)
        # Cached messages belong to other losses.
        return replace(batch, losses=losses, kept={})

    def diversity(self, batch: GraphBatch, P: Vector) -> tuple[Vector, Vector]:
        """Return γ Σ_j (1 − Σ_k P_jk²) of each graph, shape (n,), and the derivatives 2γ(1 − P_jk), shape (M,)."""
        hidden = self._hidden_nodes(batch)
        others = self.hidden_loss * hidden.others(P)
        graphs = hidden.sites.examples[members(hidden.sites.offsets)[0]]
        return sums_by(graphs, P * others, batch.n_examples), 2.0 * others

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
        out = np.bincount(members(offsets)[0][known], costs, batch.n_examples)
        return out + self.hidden_loss * np.bincount(hidden.sites.examples[wrong], minlength=batch.n_examples)

    def point_distribution(self, batch: GraphBatch, latents: Sequence[Any]) -> Vector:
        """Return the distribution, shape (M,), with probability 1 of the given assignments."""
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
            raise InputError(f"{name}[{k}][{node}]", Description("-1 (unknown)"), "a state or label")
        return states[nodes]
