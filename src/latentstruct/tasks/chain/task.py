"""Chains: sequences of tokens with one label per token, where neighboring labels depend on each other."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain as concatenate
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from latentstruct._native import chain as kernels
from latentstruct._native.chain_distributions import covariances, expected_atoms, expected_terms, sample_labelings
from latentstruct.core.formatting import repr_short
from latentstruct.core.lazy import issparse, sparse
from latentstruct.core.levels import LossLevels
from latentstruct.core.memory import WEIGHT_COPIES, require_label_pairs
from latentstruct.core.pooling import pool_known, require_labels
from latentstruct.core.protocols import HARD, Cost, Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, positions, split
from latentstruct.core.unknown import SKIPPED, UNKNOWN, is_unknown
from latentstruct.core.validation import boolean, can_be_stacked, check_parameters, check_sparse, copied
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Atoms, Slopes, empty_atoms
from latentstruct.tasks.base import BaseTask, check_examples, outputs_of
from latentstruct.tasks.chain.batch import (
    BY_SEQUENCE,
    BY_TOKEN,
    LINEAR_DOMAIN_SPREAD,
    NO_LABELS,
    TOGETHER,
    Blocks,
    ChainBatch,
    ChainSums,
    LabelScores,
    Selection,
    pool,
)
from latentstruct.tasks.chain.examples import by_token_weights, is_nested, without_skipped
from latentstruct.tasks.chain.missing import label_warnings
from latentstruct.tasks.chain.rules import scores_of_rules
from latentstruct.tasks.chain.seen import SeenWeights, seen_pairs
from latentstruct.tasks.inputs import InputRows, check_matrix, joined_units
from latentstruct.tasks.item_labels import ItemLabels, flat_labels, label_lists
from latentstruct.tasks.labels import (
    COST_TABLES,
    LabelSet,
    PartialLabels,
    distinct_labels,
    partial_label,
    single_labels,
)
from latentstruct.tasks.packing import Arrays, PackedArrays
from latentstruct.tasks.rows import check_rows

Table = NDArray[np.float64]
Products = Callable[[Indices | None], Table]
"""Products of the inputs of some tokens with weights."""
AddTransposed = Callable[[Table, Indices | None], None]
"""Adds the products of the transposed inputs of some tokens with marginals."""


@dataclass(eq=False, repr=False)
class Chain(ItemLabels[ChainBatch]):
    """Sequence labeling: s(y) = Σ_t w_{y_t}·x_t + Σ_t A[y_{t−1}, y_t] [+ start + end + bias].

    Parameters
    ----------
    labels : sequence of hashable, optional
        All labels that may occur, in the order of the model; by default those of the training data.
    costs : None, mapping or array of shape (S, S), default=None
        Cost of a wrong label: 1 each (Hamming loss), the cost of missing each true label, or a matrix (true,
        predicted). The loss of a sequence is the sum over its tokens.
    start, end : bool, default=False
        Weights for the label of the first and of the last token.
    bias : bool, default=False
        A weight per label that does not depend on the input.
    rules : None, {"BIO", "BIOES", "BILOU"}, list of pairs or TransitionRules, default=None
        Which labels may follow each other, in training and prediction: a tagging scheme (see `tagging_rules`), or pairs
        (a, b) of labels of which b may not follow a, None being the begin or the end. The rules of a trained model are
        changed by `with_task`.

    Notes
    -----
    X is a list of arrays or CSR arrays (T, d), Y a list of label sequences of length T (T may be 0). Weight number
    f·S + y belongs to input f and label y; then come the S² transitions (from, to) and the optional start, end
    and bias weights, S each.

    The number −1 (`latentstruct.core.unknown.UNKNOWN`) in Y marks a token whose label is unknown; use lists, because it
    becomes the string "-1" in an array of strings. If the training data have such tokens, `latent` is True: the output
    y_i is what is known, the latent h the labels of the unknown tokens. Their loss is 0; clamped inference pools the
    labelings that agree with y_i. Latents are whole labelings, and `decode` returns its labeling both as y and as h.

    A set of labels in Y marks a token that has one of them, a dict from labels to weights a soft label. Both make the
    token latent: labels outside the set, or without weight, are not allowed in clamped inference, and the logarithms of
    the normalized weights are added to the scores of the others. The loss is that of the cheapest allowed label.

    Training leaves out tokens with the label −100 (`latentstruct.core.unknown.SKIPPED`), as if their sequence did not
    have them. Elsewhere this label is like −1.

    Tokens may have weights: `fit` then takes one array per sequence as `sample_weight`. With the different weights
    a_1 < a_2 < … of a sequence, it counts as several examples: example j has the weight a_j − a_{j−1}, where a_0 = 0,
    and tokens with a weight below a_j are unknown in it. So tokens of weight 0 are unknown, and equal weights are
    that of the sequence; with k different weights training takes k times as long.

    Inference is exact at all temperatures. Where ε_y ≠ ε_h, unknown tokens are eliminated first at ε_h: a run of
    them between two known tokens becomes a matrix (S, S), at a cost of up to S³ per token, one at an end of the
    sequence a vector; then the chain of known tokens is pooled at ε_y. In `decode`, and in batches without labels,
    all tokens are outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import Chain, StructuralSVM
    >>> rng = np.random.default_rng(0)
    >>> Y = [["DET", "NOUN", "VERB"]] * 20
    >>> X = [np.eye(3) + 0.3 * rng.normal(size=(3, 3)) for _ in Y]  # a row of features for each token
    >>> StructuralSVM(Chain(), C=0.1).fit(X, Y).predict(X[:1])[0].tolist()
    ['DET', 'NOUN', 'VERB']
    """

    item = "token"
    tags = TaskTags(
        latent="possible",
        soft=True,
        two_temperatures=True,
        partial_outputs=True,
        threaded_decoding=True,
        refit_parameters=("costs", "start", "end", "bias", "rules"),
    )
    constraints: ClassVar = {"start": boolean, "end": boolean, "bias": boolean}
    _earlier_labels: Sequence[Hashable] = field(default=(), init=False)

    labels: Sequence[Hashable] | None = None
    costs: Any = None
    start: bool = False
    end: bool = False
    bias: bool = False
    rules: Any = None

    def learn_blocks(self, blocks: Iterable[tuple[Any, Any]]) -> None:
        """Find the labels and the number of inputs of examples that come block by block."""
        seen: dict[Any, None] = {}
        n_inputs = -1
        for X, Y in blocks:
            check_examples(X, Y)
            seen.update(distinct_labels(single_labels(concatenate.from_iterable(label_lists(Y, "Y", self.item)))))
            n_inputs = check_matrix(X[0], "X[0]").shape[1] if n_inputs < 0 else n_inputs
        if not seen:
            raise InputError("X", Description("empty sequences only"), "sequences with at least one token")
        if SKIPPED in seen:
            del seen[SKIPPED]
            seen[UNKNOWN] = None
        for mistaken in (None, str(UNKNOWN)):
            if self.labels is None and mistaken in seen:
                hint = "Use lists instead of arrays of strings, or declare this label in `labels`."
                raise InputError("Y", mistaken, "the integer -1 where a label is unknown", hint)
        known = [label for label in seen if not is_unknown(label)]
        if not known:
            raise InputError("Y", Description("-1 (unknown) only"), "labels with at least one known label")
        labels = LabelSet.learn(known, self.labels, self._earlier_labels)
        require_label_pairs(len(labels), COST_TABLES + WEIGHT_COPIES)
        self._set(labels, n_inputs, len(known) < len(seen))

    def follow(self, earlier: BaseTask) -> None:
        """Keep the labels of an earlier chain, before new ones, unless labels are declared."""
        assert isinstance(earlier, Chain)
        self._earlier_labels = earlier.labels_.labels

    def weights_from(self, earlier: BaseTask, w: Vector) -> Vector:
        """Return the weights of an earlier chain with zeros for new labels and inputs, which are further columns."""
        assert isinstance(earlier, Chain)
        if earlier.n_inputs_ > self.n_inputs_:
            got = Description(f"{self.n_inputs_} columns")
            raise InputError("X", got, f"at least the {earlier.n_inputs_} columns of `init`, and new ones after them")
        if any(label not in self.labels_.index for label in earlier.labels_.labels):
            raise InputError("labels", self.labels, "with all labels of `init`")
        places, n = self.labels_.encode(earlier.labels_.labels), len(self.labels_)
        found, n_before = np.zeros(self.n_features), len(places)
        inputs = found[: self.transitions_at_].reshape(-1, n)
        inputs[: earlier.n_inputs_, places] = w[: earlier.transitions_at_].reshape(-1, n_before)
        table = found[self.transitions_at_ : self.transitions_at_ + n * n].reshape(n, n)
        table[np.ix_(places, places)] = earlier._transition_weights(w)
        for at, before in zip(self._blocks[1:], earlier._blocks[1:], strict=True):
            if at >= 0 and before >= 0:
                found[at + places] = w[before : before + n_before]
        return found

    def _transition_weights(self, w: Vector) -> Table:
        n = len(self.labels_)
        return np.ascontiguousarray(w[self.transitions_at_ : self.transitions_at_ + n * n]).reshape(n, n)

    def training_examples(self, X: Any, Y: Any, weights: Any) -> tuple[Any, Any, Any]:
        """Return sequences without skipped tokens; several ones with unknown labels where tokens have weights."""
        check_examples(X, Y)
        X, Y, weights = without_skipped(X, Y, weights, self.item)
        return by_token_weights(X, Y, weights, self.item) if is_nested(weights) else (X, Y, weights)

    def label_warnings(self, Y: Any) -> list[str]:
        """Return texts of warnings where unknown labels are visibly no random sample."""
        declared = () if self.labels is None else list(self.labels)
        return label_warnings(list(label_lists(Y, "Y", self.item)), declared)

    def _set(self, labels: LabelSet, n_inputs: int, latent: bool) -> None:
        if {UNKNOWN, SKIPPED} & labels.index.keys():
            raise InputError("labels", labels.labels[:10], "different from -1 and -100, the marks of unknown labels")
        n = len(labels)
        self.labels_, self.n_inputs_, self.latent = labels, n_inputs, latent
        self._set_costs(labels, self.costs)
        self.transitions_at_ = n_inputs * n
        check_parameters(self)
        self._allowed = None if self.rules is None else scores_of_rules(self.rules, labels.labels)
        wanted = self.start, self.end, self.bias
        ends = self.transitions_at_ + n * n + n * offsets_from_lengths(map(int, wanted))
        *starts, self.n_features = ends.tolist()
        self.start_at_, self.end_at_, self.bias_at_ = np.where(wanted, starts, -1).tolist()
        self._blocks = Blocks(self.transitions_at_, self.bias_at_, self.start_at_, self.end_at_)

    def state(self) -> dict[str, Any]:
        return {"labels": self.labels_.labels, "n_inputs": self.n_inputs_, "latent": self.latent}

    def restore(self, state: dict[str, Any]) -> None:
        self._set(LabelSet(state["labels"]), int(state["n_inputs"]), bool(state.get("latent", False)))

    def prepare(self, X: Any, Y: Any = None) -> ChainBatch:
        check_examples(X, Y)
        inputs, offsets = self._stack(X)
        if Y is None:
            return self._batch(inputs, offsets, None, None)
        (truth,), partial = self._partial_numbers({"Y": Y}, offsets)
        batch = self._batch(inputs, offsets, truth, partial)
        self._check_rules(batch, Y)
        return batch

    def _check_rules(self, batch: ChainBatch, Y: Any) -> None:
        """Raise if no labeling of a sequence agrees with both its known labels and the rules."""
        if self._allowed is None:
            return
        values = self._best_of(batch, np.zeros((batch.offsets[-1], len(self.labels_))))[1]
        for k in np.flatnonzero(values == -np.inf)[:1].tolist():
            hint = f"Correct these labels, or change `rules`, now {repr_short(self.rules)}."
            raise InputError(f"Y[{k}]", Y[k], "labels that the rules allow", hint)

    def _batch(self, inputs: InputRows, offsets: Indices, truth: Indices | None, partial: Table | None) -> ChainBatch:
        return ChainBatch(inputs, offsets, truth, np.empty((0, len(self.labels_))) if partial is None else partial)

    def pack(self, batch: ChainBatch) -> Arrays:
        known = {} if batch.truth is None else {"truth": batch.truth, "partial": batch.partial}
        return {**batch.inputs.packed(), "offsets": batch.offsets, **known}

    def unpack(self, arrays: Arrays) -> ChainBatch:
        found, n_labels = PackedArrays(arrays), len(self.labels_)
        inputs = InputRows.unpacked(found, self.n_inputs_, n_labels)
        truth = partial = None
        if "truth" in found:
            partial = found.take("partial", np.float64, 2)
            if partial.shape[1] != n_labels or not (partial <= 0.0).all() or not np.isfinite(partial).any(axis=1).all():
                raise found.error("partial", "other values", f"logarithms of weights of {n_labels} labels")
            least = UNKNOWN - len(partial) if self.latent else 0
            truth = found.numbers("truth", least, n_labels, inputs.shape[0])
        return self._batch(inputs, found.pointers("offsets", inputs.shape[0]), truth, partial)

    def true_outputs(self, batch: ChainBatch) -> list[list[Any]]:
        require_labels(batch, "clamped")
        # Negative numbers count from the last one.
        labels = [*self.labels_.labels, *(partial_label(row, self.labels_.labels) for row in batch.partial), UNKNOWN]
        flat = [labels[number] for number in batch.known(None).tolist()]
        return [flat[start:end] for start, end in pairwise(batch.offsets.tolist())]

    def _stack(self, X: Any) -> tuple[InputRows, Indices]:
        """Return all tokens as checked rows and the sequences' offsets."""
        # Types are compared all at once: a Python loop over short sequences takes as long as their products.
        matrices = list(X)
        if set(map(type, matrices)) != {np.ndarray}:
            for k, x in enumerate(X):
                if not (type(x) is np.ndarray or issparse(x)):
                    matrices[k] = check_matrix(x, f"X[{k}]")
            if not all(map(can_be_stacked, matrices)):
                for k, x in enumerate(matrices):
                    if issparse(x):
                        check_sparse(x, f"X[{k}]")
        shapes = [x.shape for x in matrices]
        for k, shape in enumerate(shapes):
            if shape[1:] != (self.n_inputs_,):
                check_rows(matrices[k], self.n_inputs_, f"X[{k}]")
        offsets, n_labels = offsets_from_lengths([shape[0] for shape in shapes]), len(self.labels_)
        stack = np.concatenate if set(map(type, matrices)) == {np.ndarray} else sparse.vstack
        try:
            units = joined_units(matrices, "X")
            if units is not None:
                return InputRows.of_compressed(units, self.n_inputs_, n_labels), offsets
            tokens = matrices[0] if len(matrices) == 1 else stack(matrices)
            return InputRows(check_matrix(tokens, "X"), n_labels), offsets
        except (InputError, TypeError, ValueError):
            # Checked one by one, the sequence at fault is named.
            for k, x in enumerate(matrices):
                check_matrix(x, f"X[{k}]")
            raise

    def _label_numbers(self, Y: Any, offsets: Indices, name: str) -> Indices:
        return self.labels_.encode_items(flat_labels(Y, offsets, name, self.item), offsets, name)

    def _partial_numbers(self, named: dict[str, Any], offsets: Indices) -> tuple[list[Indices], Table]:
        partial, encode = PartialLabels(self.labels_), self.labels_.encode_items
        flat = {name: flat_labels(Y, offsets, name, self.item) for name, Y in named.items()}
        return [encode(labels, offsets, name, partial) for name, labels in flat.items()], partial.table()

    def _allowed_states(self, batch: ChainBatch, states: Indices, rng: np.random.Generator) -> Indices:
        if not np.isinf(self._evidence(batch, states)).any():
            return states
        return self._best_of(batch, rng.random((len(states), len(self.labels_))))[0]

    def _evidence(self, batch: ChainBatch, states: Indices) -> Vector:
        evidence = batch.allowed[batch.known(None), states]
        if self._allowed is not None:
            transitions, start, end = self._allowed
            starts, ends = batch.offsets[:-1], batch.offsets[1:]
            filled = starts < ends
            steps = transitions[states[:-1], states[1:]]
            steps[ends[filled][:-1] - 1] = 0.0
            evidence[1:] += steps
            evidence[starts[filled]] += start[states[starts[filled]]]
            evidence[ends[filled] - 1] += end[states[ends[filled] - 1]]
        return evidence

    def _best_of(self, batch: ChainBatch, scores: Table) -> tuple[Indices, Vector]:
        """Return the best labelings among those that agree with known labels and rules, and their scores."""
        labels, values = np.empty(len(scores), dtype=np.int64), np.empty(batch.n_examples)
        nothing = Query(np.zeros(self.n_features), "clamped")
        kernels.add_label_scores(scores, batch.offsets, self._label_scores(batch, nothing), batch.known(None))
        kernels.viterbi(scores, batch.offsets, self._transitions(nothing.w), labels, values)
        return labels, values

    def _latent_states(self, batch: ChainBatch, latents: Sequence[Any], name: str) -> Indices:
        return self._label_numbers(latents, batch.offsets, name)

    def _labelings(self, batch: ChainBatch, states: Indices) -> list[NDArray]:
        return split(self.labels_.decode(states), batch.offsets)

    def _transitions(self, w: Vector) -> NDArray[np.float64]:
        found = self._transition_weights(w)
        return found if self._allowed is None else found + self._allowed[0]

    def _input_weights(self, w: Vector) -> NDArray[np.float64]:
        return np.ascontiguousarray(w[: self.transitions_at_]).reshape(-1, len(self.labels_))

    def _terms(self, batch: ChainBatch, mode: Mode) -> Table:
        """Return what the true label of a token adds to the scores of its labels; see `LabelScores`."""
        if mode == "clamped":
            return batch.allowed
        return batch.costs(self.costs_) if mode == "augmented" else np.empty((0, len(self.labels_)))

    def _label_scores(self, batch: ChainBatch, query: Query) -> LabelScores:
        n, w = len(self.labels_), np.ascontiguousarray(query.w)
        bias, start, end = [w[at : at + n] if at >= 0 else w[:0] for at in self._blocks[1:]]
        if self._allowed is not None:
            start, end = (
                allowed + weights if len(weights) else allowed
                for allowed, weights in zip(self._allowed[1:], (start, end), strict=True)
            )
        return LabelScores(bias, start, end, self._terms(batch, query.mode))

    def _select(self, batch: ChainBatch, query: Query, products: Products | None = None) -> Selection:
        """Return the sequences of a query with their scores."""
        tokens, offsets, rows = None, batch.offsets, query.examples(batch)
        truth = NO_LABELS if batch.truth is None else batch.truth
        if query.rows is not None:
            tokens, offsets = positions(batch.offsets, rows)
            truth = truth[tokens] if batch.labeled else truth
        if products is None:
            scores = batch.inputs.times(self._input_weights(query.w), tokens)
        else:
            scores = products(tokens)
        kernels.add_label_scores(scores, offsets, self._label_scores(batch, query), truth)
        return Selection(rows, tokens, offsets, truth, scores)

    def _labeling_memory(self, offsets: Indices) -> tuple[Indices, Atoms]:
        """Return the offsets of the features of each sequence's labeling, and memory for them."""
        pointers = (2 + (self.bias_at_ >= 0)) * offsets
        # There is one transition fewer than tokens, unless there are none.
        pointers[1:] += ((self.start_at_ >= 0) + (self.end_at_ >= 0) - 1) * (offsets[1:] > offsets[:-1]).cumsum()
        size = int(pointers[-1])
        return pointers, Atoms(np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32), np.ones(size))

    def _labeling_slopes(self, batch: ChainBatch, states: Indices, rows: Indices | None = None) -> Slopes:
        tokens = batch.offsets[:-1] if rows is None else batch.offsets[rows]
        offsets = batch.offsets if rows is None else offsets_from_lengths(batch.offsets[rows + 1] - tokens)
        pointers, atoms = self._labeling_memory(offsets)
        kernels.labeling_atoms(states, offsets, tokens, len(self.labels_), self._blocks, pointers, atoms)
        return Slopes(batch.inputs.rows, pointers, atoms)

    def _expected_slopes(self, batch: ChainBatch, chosen: Selection, sums: ChainSums) -> Slopes:
        n, n_rows = len(self.labels_), len(chosen.rows)
        per_token = n * (1 + (self.bias_at_ >= 0))
        atoms = empty_atoms(per_token * len(sums.marginals) + (n * n + 2 * n) * n_rows)
        pointers, tokens = np.empty(n_rows + 1, dtype=np.int64), batch.offsets[chosen.rows]
        expected_atoms(sums.marginals, sums.pairs, chosen.offsets, tokens, self._blocks, pointers, atoms)
        return Slopes(batch.inputs.rows, pointers, Atoms(*(part[: pointers[-1]] for part in atoms)))

    def _pull_back(self, batch: ChainBatch, chosen: Selection, sums: ChainSums) -> Vector:
        """Return the weighted sum of the expected features, from weighted marginals."""
        slope = self._pull_back_rest(chosen, sums)
        inputs = slope[: self.transitions_at_].reshape(-1, len(self.labels_))
        batch.inputs.transposed_times(sums.marginals, inputs, chosen.tokens)
        return slope

    def _pull_back_rest(self, chosen: Selection, sums: ChainSums) -> Vector:
        """Return the weighted sum of the expected features that do not depend on inputs, 0 for the others."""
        n, slope, marginals = len(self.labels_), np.zeros(self.n_features), sums.marginals
        slope[self.transitions_at_ : self.transitions_at_ + n * n] = sums.pairs.ravel()
        starts, ends = chosen.offsets[:-1], chosen.offsets[1:]
        for at, rows in (
            (self.start_at_, starts[starts < ends]),
            (self.end_at_, ends[starts < ends] - 1),
            (self.bias_at_, slice(None)),
        ):
            if at >= 0:
                slope[at : at + n] = marginals[rows].sum(axis=0)
        return slope

    @staticmethod
    def _effective(batch: ChainBatch, mode: Mode, temperature: Temperature) -> Temperature:
        """Return the temperatures, made equal if there are only outputs or only latents to be pooled."""
        if temperature.output == temperature.latent:
            return temperature
        if not batch.half_labeled:
            return Temperature(temperature.output, temperature.output)
        return Temperature(temperature.latent, temperature.latent) if mode == "clamped" else temperature

    def pool_batch(self, batch: ChainBatch, query: Query) -> Pooled:
        if query.mode == "clamped" and not batch.half_labeled:
            return pool_known(batch, query, lambda rows: self._labeling_slopes(batch, batch.known(rows), rows))
        if self._effective(batch, query.mode, query.temperature) == HARD:
            return self._pool_hard(batch, query)
        chosen, sums = self._pool_soft(batch, query, BY_SEQUENCE if query.weights is None else TOGETHER)
        losses = self._expected_terms(batch, query, chosen, sums)
        if query.weights is None:
            return Pooled(sums.values, self._expected_slopes(batch, chosen, sums), losses, soft=True)
        return Pooled(sums.values, self._pull_back(batch, chosen, sums), float(losses.sum()), soft=True)

    def _expected_terms(self, batch: ChainBatch, query: Query, chosen: Selection, sums: ChainSums) -> Vector:
        """Return the expected sum of `_terms` of each sequence, times its weight if marginals are."""
        terms, losses = self._terms(batch, query.mode), np.zeros(len(chosen.rows))
        if len(terms):
            # Labels that are not allowed have no mass.
            finite = np.where(np.isfinite(terms), terms, 0.0)
            expected_terms(sums.marginals, chosen.truth, chosen.offsets, finite, losses)
        return losses

    def seen_weights(self, batch: ChainBatch) -> SeenWeights:
        """Return the weights of pairs of a feature and a label that occur together, and those of labels alone.

        A token whose label is not known occurs with all labels that it may have.
        """
        require_labels(batch, "clamped")
        allowed = np.isfinite(batch.allowed)
        rest = copied(self)
        rest.n_inputs_ = 0
        rest._set(self.labels_, 0, self.latent)
        return SeenWeights(self, rest, seen_pairs(batch.inputs.compressed, allowed, batch.known(None), self.n_inputs_))

    def add_products(
        self, batch: ChainBatch, query: Query, products: Products, add_transposed: AddTransposed, slope: Vector
    ) -> tuple[float, float]:
        """Add the slopes of the planes of a soft query of a task without inputs; return values and expected losses.

        All are summed with the weights of the query. `products` returns the products of inputs and weights,
        `add_transposed` adds those of inputs and marginals elsewhere.
        """
        assert query.weights is not None
        chosen, sums = self._pool_soft(batch, query, TOGETHER, products)
        add_transposed(sums.marginals, chosen.tokens)
        slope += self._pull_back_rest(chosen, sums)
        return float(query.weights @ sums.values), float(self._expected_terms(batch, query, chosen, sums).sum())

    def _pool_hard(self, batch: ChainBatch, query: Query) -> Pooled:
        """Find the best labelings; threads share the sequences."""
        rows, inputs = query.examples(batch), batch.inputs
        tokens = batch.offsets[rows]
        offsets = offsets_from_lengths(batch.offsets[rows + 1] - tokens)
        pointers, atoms = self._labeling_memory(offsets)
        found, weights = np.empty((2, len(rows))), self._input_weights(query.w)
        products = np.empty((offsets[-1] if inputs.dense else 0, len(self.labels_)))
        truth, transitions = NO_LABELS if batch.truth is None else batch.truth, self._transitions(query.w)
        data = (
            products,
            inputs.compressed,
            weights,
            offsets,
            tokens,
            truth,
            self._label_scores(batch, query),
            transitions,
        )

        def label(first: int, last: int) -> None:
            if inputs.dense:
                some, _ = positions(batch.offsets, rows[first:last])
                inputs.times(weights, some, products[offsets[first] : offsets[last]])
            kernels.best_planes(first, last, *data, self._blocks, pointers, atoms, found)

        query.chunks.run(label, len(rows))
        return Pooled(found[0], Slopes(inputs.rows, pointers, atoms), found[1])

    def _pool_soft(
        self, batch: ChainBatch, query: Query, by: int, products: Products | None = None
    ) -> tuple[Selection, ChainSums]:
        """Return the sequences of a query, and their marginals and pair marginals; see `chain_batch.pool`."""
        chosen = self._select(batch, query, products)
        temperature = self._effective(batch, query.mode, query.temperature)
        weights = np.ones(len(chosen.rows)) if query.weights is None else query.weights
        return chosen, pool(chosen, self._transitions(query.w), temperature, weights, by)

    def renyi_pool(self, batch: ChainBatch, query: Query, order: float) -> Pooled:
        """Pool the labels of unknown tokens by Rényi entropy of order α ≠ 1 and the others at ε_y: tangents only."""
        chosen, transitions = self._select(batch, query), self._transitions(query.w)
        n, lengths = len(self.labels_), np.diff(chosen.offsets)
        tables = self._pair_tables(chosen, transitions)
        found = batch.elimination.run_renyi(chosen.scores.ravel(), tables, order, query.temperature.output, chosen.rows)
        owner = np.repeat(np.arange(len(lengths)), np.maximum(lengths - 1, 0))
        pairs = np.zeros((len(lengths), n, n))
        np.add.at(pairs, owner, found.tables.reshape(-1, n, n))
        sums = ChainSums(found.values, found.unary.reshape(-1, n), pairs)
        losses = self._expected_terms(batch, query, chosen, sums)
        return Pooled(sums.values, self._expected_slopes(batch, chosen, sums), losses, soft=True, exact=False)

    def renyi_decode(self, batch: ChainBatch, w: Vector, order: float) -> list[Prediction]:
        """Return the best labeling of each sequence: all tokens are outputs, so that no latents are left."""
        return self.decode(batch, w, HARD)

    def cost(self, batch: ChainBatch, mode: Mode, temperature: Temperature) -> Cost:
        """Return the approximate cost per sequence; maxima over all labels are split by `Query.chunks`."""
        n, lengths = len(self.labels_), np.diff(batch.offsets)
        if mode == "clamped" and not batch.half_labeled:
            return Cost(20.0 * lengths)
        products = n * batch.inputs.product_time
        hard = self._effective(batch, mode, temperature) == HARD
        steps = 0.3 * n * n + products if hard else 0.5 * n * n + 10.0 * n + 2.0 * products
        return Cost(steps * lengths, chunked=hard)

    def loss_levels(self, batch: ChainBatch, query: Query) -> LossLevels | None:
        """Return the best labelings of each loss, if costs are multiples of a unit."""
        chosen, transitions = self._select(batch, replace(query, mode="free")), self._transitions(query.w)
        if not np.array_equal(self.costs_, 1.0 - np.eye(len(self.labels_))):
            forests, tables = batch.forests(self.costs_), self._pair_tables(chosen, transitions)
            if forests is None:
                return None

            def counted_slopes(counts: tuple[Vector, Vector]) -> Slopes:
                labels = counts[0].reshape(chosen.scores.shape).argmax(axis=1)
                return self._labeling_slopes(batch, labels, chosen.rows)

            return forests.levels(chosen.rows, (chosen.scores.ravel(), tables), counted_slopes)
        # The Hamming loss has a kernel that returns the maximizers of Δ·(1 + s − s_i) themselves.
        labels, (values, losses) = np.empty(len(chosen.scores), dtype=np.int64), np.empty((2, len(chosen.rows)))
        kernels.viterbi_by_errors(chosen.scores, chosen.offsets, transitions, chosen.truth, labels, values, losses)
        slopes = self._labeling_slopes(batch, labels, chosen.rows)
        return LossLevels(np.arange(len(losses) + 1), losses, slopes.dot(query.w), lambda places: slopes)

    @staticmethod
    def _pair_tables(chosen: Selection, transitions: NDArray[np.float64]) -> Vector:
        """Return the scores of the labels of all neighbors of some sequences, one after the other."""
        return np.tile(transitions.ravel(), int(np.maximum(np.diff(chosen.offsets) - 1, 0).sum()))

    def _best(self, batch: ChainBatch, query: Query) -> tuple[Indices, Vector]:
        chosen = self._select(batch, query)
        labels, values = np.empty(len(chosen.scores), dtype=np.int64), np.empty(len(chosen.rows))
        kernels.viterbi(chosen.scores, chosen.offsets, self._transitions(query.w), labels, values)
        return labels, values

    def decode(self, batch: ChainBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best labeling of each sequence: y, and h too if training had unknown labels."""
        labels, values = self._best(batch, Query(w, "free"))
        return self._whole_predictions(self._labelings(batch, labels), values.tolist())

    def topk(self, batch: ChainBatch, w: Vector, k: int) -> list[list[Prediction]]:
        """Return the k best labelings of each sequence, the best first; fewer if there are not as many.

        Those of a labeled batch agree with its labels, as do those of `sample`.
        """
        chosen = self._select(batch, Query(w, "clamped" if batch.labeled else "free"))
        labels, values = np.zeros((k, len(chosen.scores)), dtype=np.int64), np.empty((k, batch.n_examples))
        kernels.best_labelings(chosen.scores, chosen.offsets, self._transitions(w), labels, values)
        ranked = zip(*(self._labelings(batch, row) for row in labels), strict=True)
        return self._ranked_predictions(ranked, values.T)

    def sample(
        self, batch: ChainBatch, w: Vector, temperature: Temperature, n_samples: int, rng: np.random.Generator
    ) -> list[list[NDArray]]:
        """Return labelings of each sequence, drawn independently from P(y | x)."""
        chosen = self._select(batch, Query(w, "clamped" if batch.labeled else "free"))
        drawn = rng.random((n_samples, len(chosen.scores)))
        labels = np.empty(drawn.shape, dtype=np.int64)
        problem = chosen.scores, chosen.offsets, self._transitions(w), temperature.output, LINEAR_DOMAIN_SPREAD
        sample_labelings(*problem, drawn, labels)
        return [list(one) for one in zip(*(self._labelings(batch, row) for row in labels), strict=True)]

    def complete(self, batch: ChainBatch, w: Vector) -> list[NDArray]:
        """Return the best labeling of each sequence among those that agree with its known labels."""
        require_labels(batch, "clamped")
        return self._labelings(batch, self._best(batch, Query(w, "clamped"))[0])

    def marginals(
        self, batch: ChainBatch, w: Vector, temperature: Temperature, mode: Mode = "free"
    ) -> list[NDArray[np.float64]]:
        """Return the label probabilities of each token, a list of arrays (T, S); given what is known if "clamped".

        Tokens without a known label are latent if the batch has labels; in a batch without labels all are outputs.
        """
        return split(self._pool_soft(batch, Query(w, mode, temperature), TOGETHER)[1].marginals, batch.offsets)

    def min_risk(self, batch: ChainBatch, w: Vector, temperature: Temperature) -> list[NDArray]:
        """Return the labeling of least expected loss of each sequence, among those that the rules allow."""
        nothing, labels = Query(np.zeros(self.n_features), "free"), np.empty(batch.offsets[-1], dtype=np.int64)
        scores = -self._pool_soft(batch, Query(w, "free", temperature), TOGETHER)[1].marginals @ self.costs_
        kernels.add_label_scores(scores, batch.offsets, self._label_scores(batch, nothing), NO_LABELS)
        kernels.viterbi(scores, batch.offsets, self._transitions(nothing.w), labels, np.empty(batch.n_examples))
        return self._labelings(batch, labels)

    def expected_count(
        self, batch: ChainBatch, w: Vector, temperature: Temperature, labels: Sequence[Any], weights: Vector
    ) -> tuple[float, float, Vector]:
        """Return Σ_i c_i times the expected number of tokens with other labels, Σ_i c_i T_i, and the first's gradient.

        Labels of all tokens are summed over, known ones too.
        """
        chosen, transitions = self._select(batch, Query(w, "free")), self._transitions(w)
        shape, n = chosen.scores.shape, len(self.labels_)
        counted = np.ones(n)
        counted[self.labels_.encode(list(labels))] = 0.0
        unary, steps = np.zeros(shape), np.zeros((n, n))
        problem = chosen.scores, chosen.offsets, transitions, temperature.output, LINEAR_DOMAIN_SPREAD, weights
        covariances(*problem, np.tile(counted, (shape[0], 1)), np.zeros((n, n)), unary, steps)
        every = Temperature(temperature.output, temperature.output)
        marginals = pool(chosen._replace(truth=NO_LABELS), transitions, every, weights, TOGETHER).marginals
        sums = ChainSums(np.empty(0), unary, steps)
        total = float(weights @ np.diff(batch.offsets))
        return float((marginals @ counted).sum()), total, self._pull_back(batch, chosen, sums)

    def pair_marginals(self, batch: ChainBatch, w: Vector, temperature: Temperature) -> list[NDArray[np.float64]]:
        """Return the probabilities of the labels of neighbors, a list of arrays (T − 1, S, S): (from, to)."""
        pairs = self._pool_soft(batch, Query(w, "free", temperature), BY_TOKEN)[1].pairs
        return [pairs[start + 1 : end] for start, end in pairwise(batch.offsets.tolist())]

    def confidence(
        self, batch: ChainBatch, w: Vector, temperature: Temperature, predictions: Sequence[Any]
    ) -> list[Vector]:
        """Return the probability of the predicted label of each token, a list of arrays (T,).

        `predictions` are those of `decode`, or label sequences.
        """
        labels = self._label_numbers(outputs_of(predictions), batch.offsets, "predictions")
        if (labels == UNKNOWN).any():
            raise InputError("predictions", Description("-1 (unknown)"), "a label per token")
        sums = self._pool_soft(batch, Query(w, "free", temperature), TOGETHER)[1]
        return split(sums.marginals[np.arange(len(labels)), labels], batch.offsets)
