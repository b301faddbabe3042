"""Parse trees: constituents of a sentence by a grammar that is read off trees."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import annotations
from latentstruct._native import parsing as kernels
from latentstruct.core.lazy import sparse
from latentstruct.core.pooling import check_query, latent_planes, pool_known
from latentstruct.core.protocols import Cost, Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import check_parameters, integer, options
from latentstruct.data.trees import Constituent, Tree
from latentstruct.exceptions import InputError
from latentstruct.planes.plane import Planes, Slopes
from latentstruct.tasks.base import check_examples, require_one_latent_each
from latentstruct.tasks.chosen_loss import ChosenLossTask
from latentstruct.tasks.parsing import batch as layouts
from latentstruct.tasks.parsing.arrays import Derivations, Scores
from latentstruct.tasks.parsing.batch import Answer, ParsingBatch, annotate, compare_trees, f1_loss, memory_errors
from latentstruct.tasks.parsing.grammar import (
    Grammar,
    GrammarState,
    Unknown,
    compile_rules,
    relative_frequencies,
    weight_layout,
)
from latentstruct.tasks.parsing.span_features import SpanFeatures, SpanState

CHUNK = 64
"""Number of sentences whose dense slopes are in memory at a time."""
MOST_SPLITS = 8
LEAST_PROBABILITY = 1e-6
"""Largest probability of a constituent that is left out."""


class ParsingState(TypedDict):
    """What `Parsing` learns, as stored in files."""

    grammar: GrammarState
    spans: SpanState


class Parsing(ChosenLossTask):
    """Constituency parsing: s(y) = Σ of the weights of the rules, words and spans of a tree y.

    The grammar is read off the training trees: after chains of single children that come back to a label are cut
    short (A over B over A is A), trees are brought to binary form (see `latentstruct.data.trees.binarize`), and every
    binary rule, unary rule, pair of word and tag, and root symbol has a weight. A span may have one of the chains of
    single children seen in training above it, or none, so that a tree has one derivation. Inference is CKY, and
    inside-outside for sums.

    Parameters
    ----------
    features : {"rules", "spans"}, default="rules"
        "spans" adds weights for each constituent's label with the first and last word, the words just outside, their
        tags if tags are given, and the class of its length, for pairs that occur in training.
    loss : {"hamming", "f1"}, default="hamming"
        Constituents are labeled spans; tags and artificial nodes do not count, the root does. With p predicted, g true
        and h right ones, "hamming" is Δ = p + g − 2h, the number of wrong and of missing constituents, and "f1" is
        Δ = 1 − 2h/(p + g).
    splits : int, default=1
        k sub-symbols of each symbol, if above 1: y is the tree with plain labels, and the latent h its sub-symbols.
    markov : int or None, default=1
        Number of preceding children in the name of an artificial symbol; None for all.
    rare : int, default=1
        Words that occur at most this often share their weights with unknown ones.
    unknown : {"suffix", "class", "one"}, default="suffix"
        How unknown words are distinguished: by class of spelling (number, mark, capital, lower) and suffix, by class,
        or not at all.
    exact_words : int, default=0
        Maximum number of words of sentences with exact inference for the loss "f1", whose cost grows fast.

    Notes
    -----
    X is a list of sentences, each a list of words or of pairs (word, tag) with a fixed tag; Y is a list of
    `latentstruct.data.trees.Tree`. The prediction for a sentence without a derivation is a flat tree: the most frequent
    root label over its words, with the score −inf.

    "f1" is maximized among the best trees for linear losses cost·p − gain·h, found by repeated linearization; planes
    are then marked inexact, and only the hard max is available. Sub-symbols are pooled with trees, at ε_y = ε_h. A
    tree is predicted with its best sub-symbols at all temperatures: the sum over them has no efficient maximum.

    A latent is an array of sub-symbol numbers, one for each node of the tree in binary form, in preorder.

    Weights are those of binary rules, unary rules, lexical entries, roots and spans, in this order; rule r over
    sub-symbols a → b c has number ((r·k + a)·k + b)·k + c in its block, and likewise for the others.

    Examples
    --------
    >>> from latentstruct.data.trees import Tree
    >>> tree = Tree("S", (Tree("N", ("dogs",)), Tree("V", ("bark",))))
    >>> task = Parsing()
    >>> task.learn([["dogs", "bark"]], [tree])
    >>> task.n_features
    4
    """

    state_type = ParsingState
    tags = TaskTags(
        latent="possible",
        soft=True,
        exact=False,
        above_truth=True,
        threaded_decoding=True,
        reasons={
            "StructuralSVM, slack rescaling": "charts by numbers of wrong constituents take time O(n⁵) per rule",
            **dict.fromkeys(
                ("MarginalSSVM", "MinEntropySSVM"),
                "the tree with the largest sum over its sub-symbols, or over its derivations, is NP-hard to find",
            ),
        },
    )
    constraints: ClassVar = {
        "features": options("rules", "spans"),
        "splits": integer(1, MOST_SPLITS),
        "markov": integer(0) | None,
        "rare": integer(0),
        "unknown": options("suffix", "class", "one"),
        "exact_words": integer(0),
    }

    def __init__(
        self,
        features: Literal["rules", "spans"] = "rules",
        loss: Literal["hamming", "f1"] = "hamming",
        splits: int = 1,
        markov: int | None = 1,
        rare: int = 1,
        unknown: Unknown = "suffix",
        exact_words: int = 0,
    ) -> None:
        self.features, self.chosen_loss, self.splits, self.markov = features, loss, splits, markov
        self.rare, self.unknown, self.exact_words = rare, unknown, exact_words

    def _check_parameters(self) -> None:
        check_parameters(self)
        options("hamming", "f1").check(self.chosen_loss, "loss")

    def learn(self, X: Any, Y: Any) -> None:
        """Read the grammar, and what features there are, off the trees."""
        self._check_parameters()
        check_examples(X, Y)
        tokens = layouts.check_sentences(X)
        trees = layouts.check_trees(Y, tokens)
        grammar = Grammar.learn(trees, None if self.markov is None else int(self.markov), self.rare, self.unknown)
        spans = SpanFeatures([], [])
        if self.features == "spans":
            spans = SpanFeatures.learn(grammar, tokens, layouts.gold_spans(grammar, trees))
        self._set(grammar, spans)

    def _set(self, grammar: Grammar, spans: SpanFeatures) -> None:
        spans.check(len(grammar.labels))
        self.grammar_, self.spans_ = grammar, spans
        self.rules_ = compile_rules(grammar, self.splits)
        self.layout_ = weight_layout(grammar, self.splits)
        self.most_steps_ = max((len(chain) - 1 for chain in grammar.chains), default=0)
        self.n_features = self.layout_.end + len(spans.pairs)
        self.latent = self.splits > 1

    def state(self) -> dict[str, Any]:
        return {"grammar": self.grammar_.state(), "spans": self.spans_.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self._check_parameters()
        self._set(Grammar.from_state(state["grammar"]), SpanFeatures.from_state(state["spans"]))

    def prepare(self, X: Any, Y: Any = None) -> ParsingBatch:
        check_examples(X, Y)
        tokens = layouts.check_sentences(X)
        trees = None if Y is None else layouts.check_trees(Y, tokens)
        layouts.warn_of_size(max(len(sentence) for sentence in tokens), len(self.rules_.root))
        gold = None
        if trees is not None:
            pairs = enumerate(zip(trees, tokens, strict=True))
            gold = layouts.lay_out_trees(self.grammar_, [self.grammar_.derive(*pair, f"Y[{k}]") for k, pair in pairs])
        spans = layouts.gold_spans(self.grammar_, trees or ())
        sentences = layouts.lay_out_sentences(self.grammar_, self.splits, tokens, spans)
        return ParsingBatch(tokens, sentences, self.spans_.lay_out(self.grammar_, tokens, self.layout_.end), gold)

    def _scores(self, batch: ParsingBatch, w: Vector) -> Scores:
        rules, sentences, spans, w = self.rules_, batch.sentences, batch.spans, np.ascontiguousarray(w)
        chain, tables = np.add.reduceat(w[rules.step_weight], rules.step_start[:-1]), []
        for attributes in (spans.starts, spans.ends, spans.lengths.reshape(-1, 1)):
            tables.append(np.zeros((len(attributes), len(self.grammar_.labels))))
            if len(spans.starts):
                kernels.score_boundaries(attributes, spans, w, tables[-1])
        roots = np.where(rules.root >= 0, w[rules.root], -np.inf)
        words = np.where(sentences.choice_weight >= 0, w[sentences.choice_weight], 0.0)
        return Scores(w[rules.weight], chain, roots, words, *tables)

    def _best(
        self, batch: ParsingBatch, scores: Scores, rows: Indices, costs: Vector, gains: Vector
    ) -> tuple[Vector, Derivations]:
        """Return values and best derivations with cost·p − gain·h added to the scores."""
        found, values = self._empty_derivations(batch, rows), np.empty(len(rows))
        with memory_errors(batch.lengths, len(self.rules_.root)):
            kernels.best_trees(batch.sentences, batch.spans, self.rules_, scores, rows, costs, gains, values, found)
        return values, found

    def _empty_derivations(self, batch: ParsingBatch, rows: Indices) -> Derivations:
        """Return no derivations, in arrays for the largest ones that some sentences may have."""
        size = int(((2 * batch.lengths[rows] - 1) * (1 + self.most_steps_)).sum())
        return Derivations(np.zeros(len(rows) + 1, dtype=np.int64), *(np.empty(size, dtype=np.int64) for _ in range(5)))

    def _features_of(self, batch: ParsingBatch, derivations: Derivations, rows: Indices) -> "sparse.csr_array":
        """Return the features of derivations as CSR rows (k, d)."""
        widest = 1 + batch.spans.starts.shape[1] + batch.spans.ends.shape[1] + 1
        column = np.empty(len(rows) + widest * int(derivations.offsets[-1]), dtype=np.int64)
        pointers = np.empty(len(rows) + 1, dtype=np.int64)
        size = kernels.derivation_atoms(derivations, batch.sentences, batch.spans, self.rules_, rows, pointers, column)
        matrix = sparse.csr_array((np.ones(size), column[:size].copy(), pointers), shape=(len(rows), self.n_features))
        matrix.sum_duplicates()
        return matrix

    def _answer(self, batch: ParsingBatch, derivations: Derivations, rows: Indices) -> Answer:
        """Return the features of derivations, and their numbers of predicted and of right constituents."""
        predicted, right = np.empty(len(rows)), np.empty(len(rows))
        kernels.count_constituents(derivations, batch.sentences, self.rules_, rows, predicted, right)
        return self._features_of(batch, derivations, rows), predicted, right

    def _pooling(self, temperature: Temperature) -> float:
        """Return the one temperature of trees and sub-symbols, or raise if it does not suit the loss."""
        if temperature.output > 0 and self.chosen_loss == "f1":
            raise InputError("temperature", temperature.output, "0 if `loss` is 'f1'")
        return temperature.output

    def pool_batch(self, batch: ParsingBatch, query: Query) -> Pooled:
        soft, rows, scale = self._pooling(query.temperature) > 0, query.examples(batch), float(query.augmented)
        if query.mode == "clamped":
            if soft and self.latent:
                return self._sum(query, rows, lambda *some: self._pool_known(batch, query, *some))
            if not self.latent:
                return pool_known(batch, query, lambda _: self._known_slopes(batch, query.w, rows))
            known = self._known_slopes(batch, query.w, rows)
            return Pooled(known.dot(query.w), known, np.zeros(len(rows)))
        scores = self._scores(batch, query.w)
        if soft:
            return self._sum(query, rows, lambda *some: self._pool_trees(batch, query, scores, *some))
        if query.augmented and self.chosen_loss == "f1":
            return self._pool_f1(batch, query.w, scores, rows)
        values, found = self._best(batch, scores, rows, np.full(len(rows), scale), np.full(len(rows), 2.0 * scale))
        features, predicted, right = self._answer(batch, found, rows)
        gold = scale * batch.n_gold[rows]
        # The plane of a sentence without a derivation is −inf everywhere.
        losses = np.where(values > -np.inf, scale * (predicted - 2.0 * right) + gold, -np.inf)
        return Pooled(values + gold, Slopes.from_matrix(features), losses)

    def _pool_f1(self, batch: ParsingBatch, w: Vector, scores: Scores, rows: Indices) -> Pooled:
        """Search max s + Δ for Δ = 1 − 2h/(p + g), exactly where sentences are short."""
        exact = batch.lengths[rows] <= self.exact_words
        short, long, gold = rows[exact], rows[~exact], batch.n_gold
        found = self._empty_derivations(batch, short)
        if len(short):
            n_symbols, n_steps = len(self.rules_.root), self.most_steps_
            layouts.check_counts(batch.lengths[short], gold[short], n_symbols, n_steps, self.exact_words)
            data = (batch.sentences, batch.spans, self.rules_, scores, short)
            kernels.best_f1_trees(*data, n_steps, found)
        features, predicted, right = self._answer(batch, found, short)

        def search(places: Indices, costs: Vector, gains: Vector) -> Answer:
            return self._answer(batch, self._best(batch, scores, long[places], costs, gains)[1], long[places])

        truth = self._known_features(batch, self._chosen(batch, w, long), long)
        searched, losses = layouts.search_f1(search, truth, gold[long], w)
        back = np.argsort(np.argsort(~exact, kind="stable"))
        slopes = sparse.vstack([features, searched], format="csr")[back]
        losses = np.concatenate([f1_loss(predicted, right, gold[short]), losses])[back]
        return Pooled(slopes @ w + losses, Slopes.from_matrix(slopes), losses, exact=exact)

    def _sum(
        self, query: Query, rows: Indices, pool: Callable[[Indices, Vector, NDArray], tuple[Vector, Vector]]
    ) -> Pooled:
        """Pool softly by a function that adds to dense slopes (one per sentence, or one for all if there are weights).

        It is given sentences, their weights and the slopes, and returns values and losses.
        """
        if query.weights is not None:
            slope = np.zeros((1, self.n_features))
            values, losses = pool(rows, query.weights, slope)
            return Pooled(values, slope[0], losses, soft=True)
        parts = []
        for some in np.split(rows, range(CHUNK, len(rows), CHUNK)):
            slopes = np.zeros((len(some), self.n_features))
            parts.append((*pool(some, np.ones(len(some)), slopes), sparse.csr_array(slopes)))
        each = list(zip(*parts, strict=True))
        matrix = sparse.vstack(each[2], format="csr")
        return Pooled(np.concatenate(each[0]), Slopes.from_matrix(matrix), np.concatenate(each[1]), soft=True)

    def _pool_trees(
        self, batch: ParsingBatch, query: Query, scores: Scores, rows: Indices, weights: Vector, slopes: NDArray
    ) -> tuple[Vector, Vector]:
        """Return ε log Z and expected losses of some sentences; add their expected features to slopes."""
        values, losses, scale = np.empty(len(rows)), np.empty(len(rows)), float(query.augmented)
        data = (batch.sentences, batch.spans, self.rules_, scores, rows, scale, 2.0 * scale, query.temperature.output)
        with memory_errors(batch.lengths, len(self.rules_.root)):
            kernels.pool_trees(*data, weights, query.weights is not None, values, losses, slopes)
        return values + scale * batch.n_gold[rows], losses + scale * batch.n_gold[rows]

    def _pool_known(
        self, batch: ParsingBatch, query: Query, rows: Indices, weights: Vector, slopes: NDArray
    ) -> tuple[Vector, Vector]:
        """Return ε log Z over the sub-symbols of known trees, and losses of 0; add expected features to slopes."""
        values, together, trees, first = np.empty(len(rows)), query.weights is not None, batch.trees(), self.layout_.end
        w = np.ascontiguousarray(query.w)
        data = (trees, rows, self.splits, self.layout_, w, query.temperature.output, weights, together)
        annotations.pool_annotations(*data, values, slopes)
        # Features of spans do not depend on sub-symbols.
        spans = self._known_features(batch, np.zeros(len(trees.kind), dtype=np.int64), rows)[:, first:]
        slopes[:, first:] = weights @ spans if together else spans.toarray()
        return values + spans @ w[first:], np.zeros(len(rows))

    def _chosen(self, batch: ParsingBatch, w: Vector, rows: Indices) -> NDArray[np.int64]:
        """Return the best sub-symbols of the known trees of some rows, at the places of all nodes."""
        trees = batch.trees()
        chosen = np.zeros(len(trees.kind), dtype=np.int64)
        if self.latent:
            values = np.empty(len(rows))
            annotations.best_annotations(
                trees, rows, self.splits, self.layout_, np.ascontiguousarray(w), values, chosen
            )
        return chosen

    def _known_slopes(self, batch: ParsingBatch, w: Vector, rows: Indices) -> Slopes:
        return Slopes.from_matrix(self._known_features(batch, self._chosen(batch, w, rows), rows))

    def _known_features(self, batch: ParsingBatch, chosen: Indices, rows: Indices) -> "sparse.csr_array":
        """Return the features of known trees with the given sub-symbols of the nodes of all trees."""
        return self._features_of(batch, annotate(batch.trees(), rows, chosen, self.splits, self.layout_), rows)

    def cost(self, batch: ParsingBatch, mode: Mode, temperature: Temperature) -> Cost:
        """Return the approximate cost per sentence; the scores of rules and words are computed first."""
        spans = sum(attributes.size for attributes in (batch.spans.starts, batch.spans.ends))
        words = 5 * len(batch.sentences.choice_weight)
        scores = float(len(self.rules_.weight) + words + spans * len(self.grammar_.labels))
        lengths = batch.lengths.astype(np.float64)
        if mode == "clamped":
            return Cost(100.0 * self.splits**3 * lengths, scores)
        steps = len(self.rules_.weight) * lengths**3 / 100.0
        return Cost(steps if temperature.output == 0 else 3.0 * steps, scores)

    def decode(self, batch: ParsingBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best tree of each sentence with original labels, and its sub-symbols if there are several.

        A sentence without a derivation has the flat tree of the most frequent root label, no sub-symbols and the score
        −inf.
        """
        rows, nothing = np.arange(batch.n_examples), np.zeros(batch.n_examples)
        return self._predictions(batch, rows, *self._best(batch, self._scores(batch, w), rows, nothing, nothing))

    def _predictions(self, batch: ParsingBatch, rows: Indices, values: Vector, found: Derivations) -> list[Prediction]:
        """Return the trees of derivations of some sentences."""
        answers = []
        for row, value, (start, end) in zip(rows, values.tolist(), pairwise(found.offsets.tolist()), strict=True):
            symbols, latent = np.divmod(found.symbol[start:end], self.splits)
            nodes = list(zip(found.kind[start:end].tolist(), symbols.tolist(), strict=True))
            tree = layouts.derived_tree(self.grammar_, nodes, batch.tokens[row])
            answers.append(Prediction(tree, latent if self.latent and nodes else None, value))
        return answers

    def topk(self, batch: ParsingBatch, w: Vector, k: int) -> list[list[Prediction]]:
        """Return the k best trees of each sentence, the best first; fewer if there are not as many.

        With sub-symbols, these are the best pairs of a tree and its sub-symbols: trees may occur repeatedly.
        """
        rows, values = np.arange(batch.n_examples), np.empty((batch.n_examples, k))
        found = self._empty_derivations(batch, np.repeat(rows, k))
        with memory_errors(batch.lengths, len(self.rules_.root)):
            kernels.next_trees(batch.sentences, batch.spans, self.rules_, self._scores(batch, w), rows, values, found)
        trees = self._predictions(batch, np.repeat(rows, k), values.ravel(), found)
        return [[one for one in trees[i * k : i * k + k] if one.score > -np.inf] for i in rows.tolist()]

    def sample(
        self, batch: ParsingBatch, w: Vector, temperature: Temperature, n_samples: int, rng: np.random.Generator
    ) -> list[list[Tree]]:
        """Return trees of each sentence, drawn independently from P(y | x); flat ones if there is no derivation."""
        check_query(self, batch, "free", temperature)
        rows = np.arange(batch.n_examples)
        each = np.repeat(rows, n_samples)
        found, seed = self._empty_derivations(batch, each), int(rng.integers(2**62))
        data = batch.sentences, batch.spans, self.rules_, self._scores(batch, w), rows
        with memory_errors(batch.lengths, len(self.rules_.root)):
            kernels.sample_trees(*data, self._pooling(temperature), seed, n_samples, found)
        trees = [one.y for one in self._predictions(batch, each, np.zeros(len(each)), found)]
        return [trees[i * n_samples : i * n_samples + n_samples] for i in rows.tolist()]

    def marginals(self, batch: ParsingBatch, w: Vector, temperature: Temperature) -> list[dict[Constituent, float]]:
        """Return the probabilities of the constituents of each sentence under P(y | x) ∝ Σ_h exp(s(y, h)/ε).

        Constituents are those of `latentstruct.data.trees.constituents`; those of probability 10⁻⁶ and below are left
        out. A sentence without a derivation has none.
        """
        check_query(self, batch, "free", temperature)
        if self._pooling(temperature) <= 0:
            raise InputError("temperature", temperature.output, "above 0 for marginals")
        data = (batch.sentences, batch.spans, self.rules_, self._scores(batch, w))
        answers = []
        with memory_errors(batch.lengths, len(self.rules_.root)):
            for k, n_words in enumerate(batch.lengths.tolist()):
                found = kernels.probable_labels(*data, k, temperature.output, LEAST_PROBABILITY, self.n_features)
                answers.append(layouts.probable_constituents(self.grammar_.labels, n_words, *found))
        return answers

    def complete(self, batch: ParsingBatch, w: Vector) -> list[NDArray[np.int64]]:
        """Return the best sub-symbols of each known tree."""
        chosen = self._chosen(batch, w, np.arange(batch.n_examples))
        return np.split(chosen, batch.trees().offsets[1:-1])

    def completion_planes(self, batch: ParsingBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of the known trees with the given sub-symbols as planes."""
        sizes = np.diff(batch.trees().offsets).tolist()
        require_one_latent_each(batch, latents)
        for k, (latent, size) in enumerate(zip(latents, sizes, strict=True)):
            given = np.asarray(latent)
            fits = given.shape == (size,) and given.dtype.kind in "iu"
            if not fits or given.min() < 0 or given.max() >= self.splits:
                expected = f"{size} integers from 0 to {self.splits - 1}, one per node of the tree in binary form"
                raise InputError(f"latents[{k}]", latent, expected)
        chosen, rows = np.concatenate(latents).astype(np.int64), np.arange(batch.n_examples)
        return latent_planes(self, Slopes.from_matrix(self._known_features(batch, chosen, rows)))

    def random_latents(self, batch: ParsingBatch, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """Return sub-symbols drawn uniformly for each node of each known tree."""
        trees = batch.trees()
        return np.split(rng.integers(0, self.splits, len(trees.kind)), trees.offsets[1:-1])

    def pcfg_weights(self, X: Any, Y: Any) -> Vector:
        """Return the weights of the probabilistic grammar by counts: log P(rule | parent), shape (d,).

        Rules, chains of single children taken step by step, words given tags, and roots have their relative
        frequencies in the given sentences X and trees Y, which the grammar must derive; what was never counted has the
        frequency of half an occurrence. Weights of spans are 0. Tags of rare words, and sub-symbols, share equally.
        """
        return relative_frequencies(self.grammar_, self.prepare(X, Y).trees(), self.splits, self.n_features)

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Δ(y_i, ŷ_i) for each sentence; it does not depend on sub-symbols."""
        gold, predicted, right = compare_trees(Y_true, Y_pred)
        if self.chosen_loss == "f1":
            return f1_loss(predicted, right, gold)
        return predicted + gold - 2.0 * right

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the labeled F1 over the constituents of all sentences: 2 Σh/Σ(p + g), 1 if there are none."""
        gold, predicted, right = compare_trees(Y_true, Y_pred)
        weights = np.ones(len(gold)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        both = float(weights @ (gold + predicted))
        return 2.0 * float(weights @ right) / both if both > 0 else 1.0
