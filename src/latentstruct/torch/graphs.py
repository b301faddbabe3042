"""Graphs whose nodes have labels, on scores of a network."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from latentstruct.core.protocols import Temperature
from latentstruct.core.types import Vector, members, offsets_from_lengths
from latentstruct.exceptions import Description, InputError
from latentstruct.inference.engine import Inference
from latentstruct.inference.forests import GraphForests
from latentstruct.inference.structure import pairwise_graphs
from latentstruct.torch.distributions import PartDistribution
from latentstruct.torch.forest_structure import ForestStructure
from latentstruct.torch.losses import named_part_loss
from latentstruct.torch.parts import PartSums, structured_loss
from latentstruct.torch.tensors import check_tensor, integers, reduce_losses, to_array

UNKNOWN = -1
MAX_ENTRIES = 2**20
"""Maximum size of a table of exact inference."""


class GraphLayout:
    """Graphs of a batch: nodes in their order, edges in the order of their graphs.

    Parameters
    ----------
    edges : Tensor of int of shape (2, E)
        The two nodes of each edge.
    batch : Tensor of int of shape (V,), optional
        The graph of each node, ascending from 0; by default all nodes are one graph.
    n_nodes, n_labels : int
        Numbers of nodes and labels, V and S.
    """

    def __init__(self, edges: Any, batch: Any, n_nodes: int, n_labels: int) -> None:
        shape = (2, edges.shape[1]) if isinstance(edges, Tensor) and edges.dim() == 2 else (2, 0)
        pairs = integers(edges, "edges", shape, 0, n_nodes, "").T
        graph = np.zeros(n_nodes, dtype=np.int64)
        if batch is not None:
            graph = integers(batch, "batch", (n_nodes,), 0, n_nodes, "")
            if (np.diff(graph, prepend=0) < 0).any() or (np.diff(graph, prepend=0) > 1).any():
                raise InputError("batch", Description("other numbers"), "ascending from 0 without gaps")
        for a, b in pairs[graph[pairs[:, 0]] != graph[pairs[:, 1]]][:1].tolist():
            raise InputError("edges", Description(f"an edge of nodes {a} and {b} of different graphs"), "within graphs")
        if n_nodes == 0:
            raise InputError("nodes", Description("no nodes"), "scores of at least one node")
        self.n_graphs, self.n_labels, self.graph = int(graph[-1]) + 1, n_labels, graph
        self.order = np.argsort(graph[pairs[:, 0]], kind="stable")
        sorted_pairs = pairs[self.order]
        nodes_at, edges_at = (
            offsets_from_lengths(np.bincount(owner, minlength=self.n_graphs))
            for owner in (graph, graph[sorted_pairs[:, 0]])
        )
        self.structure = pairwise_graphs(np.full(n_nodes, n_labels), sorted_pairs, nodes_at, edges_at)
        self.n_states = n_nodes * n_labels
        self.owners = np.concatenate([np.repeat(graph, n_labels), np.repeat(graph[sorted_pairs[:, 0]], n_labels**2)])

    def parts(self, nodes: Tensor, pairwise: Tensor) -> Tensor:
        """Return the scores of all parts: of labels of nodes, then of pairs of labels of edges."""
        n, count = self.n_labels, len(self.order)
        if not isinstance(pairwise, Tensor) or tuple(pairwise.shape) not in ((n, n), (count, n, n)):
            got = Description(f"shape {tuple(getattr(pairwise, 'shape', ()))}")
            raise InputError("pairwise", got, f"a tensor of shape {(n, n)} or {(count, n, n)}")
        ordered = pairwise.expand(count, n, n)
        if pairwise.dim() == 3:
            ordered = pairwise[torch.from_numpy(self.order).to(pairwise.device)]
        return torch.cat([nodes.reshape(-1), ordered.reshape(-1).to(nodes.device)])

    def forest(self, known: NDArray[np.int64] | None = None) -> ForestStructure | None:
        """Return the labelings as derivations, with what is known; None if a graph is too wide."""
        found = GraphForests.of(self.structure, np.zeros(self.n_states), MAX_ENTRIES)
        return None if found is None else _graph_forest(found, self, known)


def _graph_forest(found: GraphForests, layout: GraphLayout, known: NDArray[np.int64] | None) -> ForestStructure:
    structure = layout.structure
    starts = structure.state_at[structure.variables_at], structure.table_at[structure.factors_at]
    edges, parts = [], []
    for entries, start, shift in zip(found.entries, starts, (0, layout.n_states), strict=True):
        forest = members(entries.at)[0]
        edges.append(entries.edges + found.forests.edges_at[forest])
        parts.append(entries.entries + start[forest] + shift)
    wrong = np.zeros(len(found.forests.losses), dtype=bool)
    if known is not None:
        node, label = np.divmod(parts[0], layout.n_labels)
        wrong[edges[0]] = (known[node] != UNKNOWN) & (known[node] != label)
    flat = np.concatenate(edges), np.concatenate(parts)
    return ForestStructure(found.forests, *flat, layout.owners, wrong.astype(np.float64), ~wrong)


class GraphStructure:
    """Labeled graphs; parts are the labels of nodes, (V, S), then the pairs of labels of edges, (E, S, S).

    Graphs that are too wide for exact inference are pooled approximately, by belief propagation.

    Parameters
    ----------
    layout : GraphLayout
        The graphs.
    labels : ndarray of int of shape (V,)
        Known labels, −1 where unknown.
    """

    def __init__(self, layout: GraphLayout, labels: NDArray[np.int64]) -> None:
        self.layout, self.labels = layout, labels
        self.n_examples, self.owners = layout.n_graphs, layout.owners

    @cached_property
    def _engine(self) -> Inference:
        return Inference(self.layout.structure, self.labels == UNKNOWN, MAX_ENTRIES)

    @cached_property
    def _forest(self) -> ForestStructure | None:
        return self.layout.forest(self.labels)

    @cached_property
    def _wrong(self) -> NDArray[np.bool_]:
        """Whether states (V·S,) do not agree with what is known."""
        known = self.labels[:, None]
        return ((known != UNKNOWN) & (known != np.arange(self.layout.n_labels))).ravel()

    def pool(self, scores: Vector, temperature: Temperature, margin: float, known: bool) -> PartSums:
        """See `PartStructure`."""
        states, tables = scores[: self.layout.n_states].copy(), scores[self.layout.n_states :]
        if known:
            states[self._wrong] = -np.inf
        else:
            states += margin * self._wrong
        found = self._engine.run(states, tables, temperature)
        return PartSums(found.values, np.concatenate([found.unary, found.tables]))

    def curve(
        self, scores: Vector, temperature: Temperature, margin: float, known: bool, weights: Vector, direction: Vector
    ) -> Vector:
        """See `PartStructure`."""
        hidden = (self.labels == UNKNOWN).any() and temperature.output != temperature.latent
        if self._forest is None or hidden or temperature.output == 0:
            raise NotImplementedError("Second derivatives need exact inference at a single temperature above 0.")
        return self._forest.curve(scores, temperature, margin, known, weights, direction)


class GraphDistribution(PartDistribution):
    """Distribution p(y) ∝ exp s(y) of labelings of graphs that are narrow enough for exact inference.

    Parameters
    ----------
    nodes : Tensor of shape (V, S)
        Scores of labels of all nodes of all graphs; −inf forbids one.
    edges : Tensor of int of shape (2, E)
        The two nodes of each edge.
    pairwise : Tensor of shape (S, S) or (E, S, S)
        Scores of pairs of labels, of all edges or of each one.
    batch : Tensor of int of shape (V,), optional
        The graph of each node, ascending from 0; by default all nodes are one graph.

    See Also
    --------
    GraphLoss : Losses with learned pair scores, for wide graphs too.

    Notes
    -----
    Values are (G,) for G graphs; a labeling is (V,). `log_prob` takes −1 for unknown labels.

    Examples
    --------
    >>> import torch
    >>> from latentstruct.torch import GraphDistribution
    >>> triangle = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> GraphDistribution(torch.zeros(3, 2), triangle, torch.eye(2)).marginals
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000],
            [0.5000, 0.5000]])
    """

    def __init__(self, nodes: Tensor, edges: Tensor, pairwise: Tensor, batch: Tensor | None = None) -> None:
        check_tensor(nodes, "nodes", (None, None), "of shape (V, S)")
        self._layout = GraphLayout(edges, batch, *nodes.shape)
        self._shape, self._blocks = nodes.shape, (nodes, pairwise)
        self._layout.parts(*self._blocks)
        self._structure = self._exact(None)

    @property
    def _scores(self) -> Tensor:
        return self._layout.parts(*self._blocks)

    def _exact(self, known: NDArray[np.int64] | None) -> ForestStructure:
        found = self._layout.forest(known)
        if found is None:
            raise InputError(
                "edges", Description("a graph that is too wide"), "graphs for exact inference", "Use GraphLoss."
            )
        return found

    @property
    def marginals(self) -> Tensor:
        """Return the probabilities of the labels of nodes, (V, S)."""
        return self._part_marginals[: self._layout.n_states].reshape(self._shape)

    def _outputs(self, used: NDArray[np.uint8]) -> Tensor:
        counts = np.stack([self._structure.part_sums(row.astype(np.float64)) for row in used]) if len(used) else used
        states = counts[:, : self._layout.n_states].reshape(len(used), *self._shape)
        return torch.from_numpy(states.argmax(axis=2).astype(np.int64)).to(self._scores.device)

    def _known(self, outputs: Tensor) -> ForestStructure:
        return self._exact(_known_labels(outputs, self._layout))

    def _per_output(self, flags: Tensor) -> Tensor:
        return flags[torch.from_numpy(self._layout.graph).to(flags.device)]

    def _same_outputs(self, other: Any) -> bool:
        own, its = self._layout.structure, other._layout.structure
        pairs = ((own.scopes, its.scopes), (own.cards, its.cards), (own.variables_at, its.variables_at))
        return all(np.array_equal(*pair) for pair in pairs)


class GraphLoss(nn.Module):
    """Loss of labels of the nodes of graphs, on scores of a network and learned scores of pairs.

    Parameters
    ----------
    n_labels : int
        Number of labels, S.
    loss : {"crf", "hinge", "latent_hinge", "marginal"} or Temperature, default="crf"
        As in `ChainLoss`.
    margin : float, optional
        Cost of a wrong label; by default 1, and 0 for "crf".

    Attributes
    ----------
    pairwise : Parameter of shape (S, S)
        Scores of the labels of the two nodes of an edge.

    See Also
    --------
    GraphDistribution : Marginals, samples, the k best labelings and entropy of narrow graphs.
    latentstruct.Graph : The same structure on features.

    Notes
    -----
    Graphs whose elimination needs tables of more than 2²⁰ entries are pooled by belief propagation: losses are then
    approximate, and may be negative.

    Examples
    --------
    >>> import torch
    >>> from latentstruct.torch import GraphLoss
    >>> nodes, edges = torch.zeros(3, 2, requires_grad=True), torch.tensor([[0, 1], [1, 2]])
    >>> GraphLoss(2)(nodes, edges, torch.tensor([0, -1, 1])).backward()  # −1 is unknown
    """

    def __init__(self, n_labels: int, loss: str | Temperature = "crf", margin: float | None = None) -> None:
        super().__init__()
        if not isinstance(n_labels, int) or n_labels < 1:
            raise InputError("n_labels", n_labels, "an integer of at least 1")
        self.n_labels, self.loss = n_labels, loss
        self.temperature, self.margin = named_part_loss(loss, margin, two_temperatures=True)
        self.pairwise = nn.Parameter(torch.zeros(n_labels, n_labels))

    def forward(
        self,
        nodes: Tensor,
        edges: Tensor,
        labels: Tensor,
        pairwise: Tensor | None = None,
        batch: Tensor | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        nodes : Tensor of shape (V, S)
            Scores of labels of all nodes of all graphs.
        edges : Tensor of int of shape (2, E)
            The two nodes of each edge.
        labels : Tensor of int of shape (V,)
            Labels, −1 where unknown.
        pairwise : Tensor of shape (E, S, S), optional
            Scores of pairs of each edge, added to the learned ones.
        batch : Tensor of int of shape (V,), optional
            The graph of each node, ascending from 0; by default all nodes are one graph.
        reduction : {"none", "sum", "mean", "token_mean"}, default="mean"
            One loss per graph, their sum or mean, or the sum divided by the number of nodes.
        """
        layout, parts = self._parts(nodes, edges, pairwise, batch)
        known = _known_labels(labels, layout)
        if self.loss == "hinge" and (known == UNKNOWN).any():
            expected = "known for loss='hinge'"
            raise InputError("labels", Description("unknown labels"), expected, "Use 'latent_hinge' or 'marginal'.")
        losses = structured_loss(GraphStructure(layout, known), parts, self.temperature, self.margin)
        return reduce_losses(losses, reduction, len(known))

    def decode(
        self, nodes: Tensor, edges: Tensor, pairwise: Tensor | None = None, batch: Tensor | None = None
    ) -> Tensor:
        """Return the best labels (V,), by belief propagation in wide graphs; parameters are those of `forward`."""
        layout, parts = self._parts(nodes, edges, pairwise, batch)
        scores = to_array(parts, "scores", forbidding=True)
        engine = Inference(layout.structure, np.zeros(len(nodes), dtype=bool), MAX_ENTRIES)
        found = engine.run(scores[: layout.n_states], scores[layout.n_states :], Temperature(0.0, 0.0))
        return torch.from_numpy(found.states.astype(np.int64)).to(nodes.device)

    def _parts(
        self, nodes: Tensor, edges: Tensor, pairwise: Tensor | None, batch: Tensor | None
    ) -> tuple[GraphLayout, Tensor]:
        check_tensor(nodes, "nodes", (None, self.n_labels), f"of shape (V, {self.n_labels})")
        layout = GraphLayout(edges, batch, *nodes.shape)
        return layout, layout.parts(nodes, self.pairwise if pairwise is None else self.pairwise + pairwise)


def _known_labels(labels: Any, layout: GraphLayout) -> NDArray[np.int64]:
    return integers(labels, "labels", (len(layout.graph),), UNKNOWN, layout.n_labels, "−1 (unknown)")
