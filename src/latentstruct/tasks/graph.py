"""Graphs: labels of nodes that depend on each other along edges, with hidden nodes and unknown labels."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.checks import check_choice, check_flag, check_integer
from latentstruct.core.pooling import PooledParts, pool_linear, require_labels
from latentstruct.core.protocols import Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.exceptions import InputError
from latentstruct.inference.propagation import Counting
from latentstruct.inference.structure import Beliefs, pairwise_graphs
from latentstruct.ragged import Indices, Vector, split
from latentstruct.short_repr import show
from latentstruct.tasks.base import check_examples
from latentstruct.tasks.graph_batch import GraphBatch, NodeLoss
from latentstruct.tasks.graph_inputs import GraphInput as GraphInput
from latentstruct.tasks.graph_inputs import grid_graph as grid_graph
from latentstruct.tasks.graph_inputs import stack_graphs
from latentstruct.tasks.graph_layout import GraphLayout, flat_labels, hidden_states, learn_layout
from latentstruct.tasks.graph_losses import GraphLosses
from latentstruct.unknown import UNKNOWN

MAXIMISED, SUMMED_OUT = "maximised", "summed out"


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


class Graph(GraphLosses):
    """Labels on graphs: s(y, h) = Σ_v w_{type(v), x_v}·f_v + Σ_e w_{type(e), x_p, x_q}·f_e, x = (y, h).

    f_v are the features of node v, f_e those of edge e = (p, q), a constant 1 if none are given.

    Parameters
    ----------
    labels : sequence of hashable, or mapping of node type to such a sequence, optional
        All labels that may occur, in the order of the model, for all output types together or for each on its own; by
        default those of the training data, together.
    hidden : mapping of node type to number of states, optional
        Types of nodes that are never observed; their states are 0 … k−1.
    costs : None, mapping or array of shape (S, S), default=None
        Cost of labelling one node wrongly: 1 each (Hamming loss), the cost of missing each true label, or a matrix
        (true, predicted) where all types have the same labels. The loss of a graph is the sum over its known output
        nodes.
    shared : bool, default=True
        Whether nodes and edges of equal type share their weights. If not, each node and each edge has weights of its
        own, and all examples must have the same graph.
    max_entries : int, default=2**20
        Inference is exact by elimination where no table needs more entries than this, and belief propagation elsewhere:
        planes are then marked as approximate.
    max_iterations : int, default=200
        Most sweeps of belief propagation over a graph.
    damping : float, default=0.5
        Share of the old message in the new one where messages do not come to rest, at least 0 and below 1.
    counting : {"auto", "bethe", "trees"}, default="auto"
        How belief propagation counts entropies. "bethe" is the ordinary, fast way, whose values may jump as weights
        change; "trees" (tree-reweighted) takes more sweeps, but its values are a smooth function of the weights,
        without which training on large loopy graphs gets stuck. "auto" is "trees" at positive output temperatures, so
        for marginals too, and "bethe" where outputs are maximised: see
        `latentstruct.inference.propagation.Propagation`.
    hidden_loss : float, default=0.0
        Cost γ of each node without a known label whose state differs from that of another assignment. Only `ModLat` and
        `IterativeLSVM`, which have such an assignment or a distribution over them, take it into their loss.

    Notes
    -----
    X is a list of graphs, each a `GraphInput`, a tuple (features, edges[, edge_features]) or a dict with the names of
    `GraphInput`; Y is a list of label sequences, one label a node.

    A type of edges is the triple of the given edge type and of the types of the first and the second node; only triples
    of the training data have weights. Weights of node types come first, f·S + y for feature f and label y, then those
    of edge types, (f·S_p + s)·S_q + t for edge feature f and labels s of the first and t of the second node: see
    `node_weights` and `edge_weights`. Types are in sorted order.

    The number −1 in Y marks a node whose label is unknown: it is latent in training, summed out at ε_h like the nodes
    of hidden types, whose entry is always −1. Unknown labels cost nothing. In a numpy array of strings −1 would become
    the string "-1", so use lists there. Prediction maximises over all output nodes and sums out those of hidden types
    only (see `roles`). Latents are whole assignments: labels at outputs, states at nodes of hidden types.

    Messages of belief propagation are kept with a batch: a question at nearly the same weights is answered sooner, but
    need not have exactly the same answer as one to a fresh batch.

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

    tags = TaskTags(
        latent="possible",
        soft=True,
        two_temperatures=True,
        exact=False,
        above_truth=True,
    )

    def __init__(
        self,
        labels: Any = None,
        hidden: Mapping[Any, int] | None = None,
        costs: Any = None,
        shared: bool = True,
        max_entries: int = 2**20,
        max_iterations: int = 200,
        damping: float = 0.5,
        counting: Counting = "auto",
        hidden_loss: float = 0.0,
    ) -> None:
        self.labels = labels
        self.hidden = hidden
        self.costs = costs
        self.shared = shared
        self.max_entries = max_entries
        self.max_iterations = max_iterations
        self.damping = damping
        self.counting = counting
        self.hidden_loss = hidden_loss

    # ---- what training data tell -------------------------------------------------------------------------

    def learn(self, X: Any, Y: Any) -> None:
        """Find types, labels and numbers of features."""
        check_examples(X, Y)
        self._check_limits()
        stacked = stack_graphs(X)
        if stacked.nodes_at[-1] == 0:
            raise InputError("all graphs are empty: at least one node is needed to train; give some")
        flat = flat_labels(Y, stacked.nodes_at, "Y")
        layout, latent = learn_layout(stacked, flat, self.labels, self.hidden, self.shared)
        self._set(layout, latent)
        kinds = layout.kinds(stacked)
        layout.blocks(stacked, kinds)
        layout.encode(flat, kinds, stacked.nodes_at, "Y")

    def _check_limits(self) -> None:
        check_integer(self.max_entries, "max_entries", 1)
        check_integer(self.max_iterations, "max_iterations", 1)
        if not (isinstance(self.damping, (int, float, np.number)) and 0 <= self.damping < 1):
            raise InputError(
                f"damping must be a number of at least 0 and below 1, found {show(self.damping)}: choose one such as "
                "0.5"
            )
        check_choice(self.counting, ("auto", "bethe", "trees"), "counting")
        check_flag(self.shared, "shared")
        if not (isinstance(self.hidden_loss, (int, float, np.number)) and 0 <= self.hidden_loss < np.inf):
            raise InputError(
                f"hidden_loss must be a finite number of at least 0, found {show(self.hidden_loss)}: choose 0 for none"
            )

    def _set(self, layout: GraphLayout, latent: bool) -> None:
        self.layout_, self.latent = layout, latent
        self.n_inputs_, self.n_features = layout.n_inputs, layout.n_features
        if isinstance(self.labels, Mapping) and not (self.costs is None or isinstance(self.costs, Mapping)):
            raise InputError(
                f"costs is a {type(self.costs).__name__}, but labels differ by node type: give None or a mapping of "
                "each true label to the cost of missing it"
            )
        self._set_costs(layout.vocabulary, self.costs)

    def state(self) -> dict[str, Any]:
        """Return what `learn` found, for saving."""
        return {**self.layout_.state(), "latent": self.latent}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        self._check_limits()
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

    # ---- examples ----------------------------------------------------------------------------------------

    def prepare(self, X: Any, Y: Any = None) -> GraphBatch:
        """Validate graphs and lay them out in flat arrays."""
        check_examples(X, Y)
        layout, stacked = self.layout_, stack_graphs(X)
        kinds = layout.kinds(stacked)
        node_blocks, edge_blocks = layout.blocks(stacked, kinds)
        cards = layout.cards[kinds]
        structure = pairwise_graphs(cards, stacked.edges, stacked.nodes_at, stacked.edges_at)
        truth = losses = None
        if Y is not None:
            flat = flat_labels(Y, stacked.nodes_at, "Y")
            labels, truth = layout.encode(flat, kinds, stacked.nodes_at, "Y")
            losses = self._state_losses(labels, kinds, cards, structure.state_at)
        return GraphBatch(
            structure,
            layout.rows(stacked, node_blocks, edge_blocks),
            edge_blocks if stacked.edge_features is None else np.zeros(0, dtype=np.int64),
            layout.edge_at,
            kinds,
            layout.hidden[kinds],
            truth,
            losses,
            {name: getattr(self, name) for name in ("max_entries", "max_iterations", "damping", "counting")},
        )

    def _state_losses(self, labels: Indices, kinds: Indices, cards: Indices, state_at: Indices) -> Vector:
        """Return Δ of each state of each node; nodes without a known label cost nothing."""
        nodes = np.repeat(np.arange(len(cards)), cards)
        states = np.arange(state_at[-1]) - state_at[nodes]
        return self.costs_or_nothing_[labels[nodes], self.layout_.label_of[kinds[nodes], states]]

    def roles(self, X: Any) -> list[NDArray]:
        """Return for each node whether prediction has it "maximised" or "summed out"."""
        check_examples(X, None)
        stacked = stack_graphs(X)
        hidden = self.layout_.hidden[self.layout_.kinds(stacked)]
        return split(np.where(hidden, SUMMED_OUT, MAXIMISED), stacked.nodes_at)

    # ---- inference ---------------------------------------------------------------------------------------

    def pool_batch(self, batch: GraphBatch, query: Query) -> Pooled:
        """Pool the assignments of the graphs of a query."""
        if query.mode == "clamped" and not batch.half_labelled:
            slopes = batch.slopes(batch.states_of(query.rows), query)
            return Pooled(slopes.dot(query.w), slopes, np.zeros(len(query.examples(batch))))
        soft = query.temperature.latent > 0 or (query.mode != "clamped" and query.temperature.output > 0)

        def pool(scores: tuple[Vector, Vector]) -> PooledParts:
            found = batch.pool(scores, query)
            counts = (found.unary, found.tables) if soft else found.states
            return PooledParts(found.values, counts, soft, found.exact)

        return pool_linear(batch, NodeLoss(batch), query, pool)

    def renyi_pool(self, batch: GraphBatch, query: Query, order: float) -> Pooled:
        """Pool latents by Rényi entropy of order α: smax_{ε_y} over y of Δ(y) + G_α(y), which is not convex.

        G_α(y) = [log Σ_h exp α s(y, h) − log Σ_h exp s(y, h)]/(α − 1); graphs must be within `max_entries`.
        """

        def pool(scores: tuple[Vector, Vector]) -> PooledParts:
            found = batch.pool_renyi(scores, query, order)
            return PooledParts(found.values, (found.unary, found.tables), soft=True, exact=False)

        return pool_linear(batch, NodeLoss(batch), query, pool)

    def work(self, batch: GraphBatch, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each graph takes, shape (n,)."""
        return batch.work(mode, temperature)

    # ---- predictions -------------------------------------------------------------------------------------

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

    def complete(self, batch: GraphBatch, w: Vector) -> list[NDArray]:
        """Return the best assignment of each graph among those that agree with its known labels."""
        require_labels(batch, "clamped")
        return self._labelings(batch, batch.beliefs(Query(w, "clamped")).states)

    def initial_latents(self, batch: GraphBatch, rng: np.random.Generator, attempt: int) -> list[NDArray]:
        """Return completions of unknown labels by what known ones tell on their own, and random hidden states.

        The weights for unknown labels are the first gradient, at w = 0, of the log-likelihood of the known labels.
        Nodes of hidden types are alike there, so that only chance can tell their states apart. Later attempts weight
        the graphs at random.
        """
        require_labels(batch, "clamped")
        assert batch.truth is not None
        weights = rng.exponential(size=batch.n_examples) if attempt else np.ones(batch.n_examples)
        states = rng.integers(0, batch.cards)
        if ((batch.truth == UNKNOWN) & ~batch.of_hidden_type).any():
            query = Query(np.zeros(self.n_features), "free", weights=weights)
            known, uniform = (
                batch.pull_back(self._guess(batch, guess), query)
                for guess in (batch.truth, np.full(len(states), UNKNOWN))
            )
            found = batch.beliefs(Query(known - uniform, "clamped")).states
            states = np.where(batch.of_hidden_type, states, found)
        return self._labelings(batch, np.where(batch.truth == UNKNOWN, states, batch.truth))

    @staticmethod
    def _guess(batch: GraphBatch, states: Indices) -> tuple[Vector, Vector]:
        """Return beliefs of nodes and edges at w = 0: certain where a state is given, uniform elsewhere."""
        structure = batch.structure
        nodes = np.repeat(np.arange(len(states)), structure.cards)
        own = np.arange(structure.state_at[-1]) - structure.state_at[nodes]
        unary = np.where(states[nodes] == UNKNOWN, 1.0 / structure.cards[nodes], states[nodes] == own)
        edges = np.repeat(np.arange(len(structure.scopes) // 2), np.diff(structure.table_at))
        first, second = structure.scopes.reshape(-1, 2)[edges].T
        joint = np.arange(structure.table_at[-1]) - structure.table_at[edges]
        s, t = np.divmod(joint, structure.cards[second])
        return unary, unary[structure.state_at[first] + s] * unary[structure.state_at[second] + t]

    def marginals(self, batch: GraphBatch, w: Vector, temperature: Temperature) -> list[GraphMarginals]:
        """Return the probabilities of nodes' states and of edges' pairs of states at the temperatures (ε_y, ε_h)."""
        found = batch.beliefs(Query(w, "free", temperature), predicting=True)
        structure, cards = batch.structure, self.layout_.cards
        nodes: Any = found.unary
        edges: Any = found.tables
        if (cards == cards[0]).all():
            nodes, edges = nodes.reshape(-1, cards[0]), edges.reshape(-1, cards[0], cards[0])
        else:
            nodes = split(nodes, structure.state_at)
            shapes = structure.cards[structure.scopes.reshape(-1, 2)].tolist()
            parts = zip(split(edges, structure.table_at), shapes, strict=True)
            edges = [part.reshape(shape) for part, shape in parts]
        spans = zip(pairwise(batch.offsets.tolist()), pairwise(structure.factors_at.tolist()), strict=True)
        return [GraphMarginals(nodes[a:b], edges[c:d]) for (a, b), (c, d) in spans]

    def confidence(
        self, batch: GraphBatch, w: Vector, temperature: Temperature, predictions: Sequence[Prediction]
    ) -> list[Vector]:
        """Return the probability of each node's predicted label, NaN at nodes of hidden types."""
        found = batch.beliefs(Query(w, "free", temperature), predicting=True)
        flat = flat_labels([prediction.y for prediction in predictions], batch.offsets, "predictions")
        _, states = self.layout_.encode(flat, batch.kinds, batch.offsets, "predictions")
        probability = found.unary[batch.structure.state_at[:-1] + np.maximum(states, 0)]
        return split(np.where(states == UNKNOWN, np.nan, probability), batch.offsets)
