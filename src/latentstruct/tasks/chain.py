"""Chains: sequences of tokens, one label a token, neighbouring labels depend on each other."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain as concatenate
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.checks import can_be_stacked, check_sparse
from latentstruct.core.protocols import Mode, Pooled, Prediction, Query, Temperature
from latentstruct.exceptions import InputError
from latentstruct.executors import share
from latentstruct.kernels import chain as kernels
from latentstruct.kernels import half_chain
from latentstruct.kernels.modes import MODES
from latentstruct.kernels.planes import Atoms
from latentstruct.memory import WEIGHT_COPIES, require_label_pairs
from latentstruct.planes import Plane, Planes, Slopes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths, positions
from latentstruct.short_repr import show
from latentstruct.tasks.base import BaseTask, check_examples, require_labels, require_one_latent_each
from latentstruct.tasks.chain_batch import ChainBatch, Selection
from latentstruct.tasks.chain_pooling import ChainSums, pool, pool_latents_first
from latentstruct.tasks.inputs import InputRows, check_matrix
from latentstruct.tasks.labels import COST_TABLES, LabelSet, as_list, distinct_labels
from latentstruct.tasks.packing import Arrays, PackedArrays
from latentstruct.unknown import UNKNOWN, is_unknown

NO_LABELS = np.zeros(0, dtype=np.int64)


class Chain(BaseTask):
    """Sequence labelling: s(y) = Σ_t w_{y_t}·x_t + Σ_t A[y_{t−1}, y_t] [+ start + end + bias].

    Parameters
    ----------
    labels : sequence of hashable, optional
        All labels that may occur, in the order of the model; by default those of the training data.
    costs : None, mapping or array of shape (S, S), default=None
        Cost of labelling one token wrongly: 1 each (Hamming loss), the cost of missing each true label, or a
        matrix (true, predicted). The loss of a sequence is the sum over its tokens.
    start, end : bool, default=False
        Weights for the label of the first and of the last token.
    bias : bool, default=False
        A weight for each label on its own.

    Notes
    -----
    X is a list of arrays or CSR arrays (T, d), Y a list of label sequences of length T (T may be 0). Weight number
    f·S + y belongs to input f and label y; then come the S² transitions (from, to) and the optional start, end
    and bias weights, S each.

    The number −1 (`latentstruct.unknown.UNKNOWN`) in Y marks a token whose label is unknown, whatever the type of
    the other labels; in a numpy array of strings it would become the string "-1", so use lists there. If the training
    data have such tokens, `latent` is True: the output y_i is what is known, the latent h the labels of the unknown
    tokens. These cost nothing; the clamped side pools the labellings that agree with y_i. Latents are written as
    whole labellings, and `decode` returns its labelling both as y and as h.

    Inference is exact at all temperatures. Where ε_y ≠ ε_h, unknown tokens are eliminated first at ε_h: a run of
    them between two known tokens becomes a matrix (S, S), at a cost of up to S³ a token, one at an end of the
    sequence a vector; then the chain of known tokens is pooled at ε_y. In `decode`, and wherever no labels were
    given, all tokens are outputs.

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

    decodes_in_threads = True
    late_parameters = ("costs", "start", "end", "bias")

    def __init__(
        self,
        labels: Sequence[Hashable] | None = None,
        costs: Any = None,
        start: bool = False,
        end: bool = False,
        bias: bool = False,
    ) -> None:
        self.labels = labels
        self.costs = costs
        self.start = start
        self.end = end
        self.bias = bias

    def learn(self, X: Any, Y: Any) -> None:
        """Find the labels and the number of inputs."""
        self.learn_blocks([(X, Y)])

    def learn_blocks(self, blocks: Iterable[tuple[Any, Any]]) -> None:
        """Find the labels and the number of inputs of examples that come block by block."""
        seen: dict[Any, None] = {}
        n_inputs = -1
        for X, Y in blocks:
            check_examples(X, Y)
            sequences = (self._labels(y, k) for k, y in enumerate(Y))
            seen.update(distinct_labels(concatenate.from_iterable(sequences)))
            n_inputs = check_matrix(X[0], "X[0]").shape[1] if n_inputs < 0 else n_inputs
        if not seen:
            raise InputError("all sequences are empty: at least one token is needed to train; give some")
        labels = LabelSet.learn(seen)
        for slip in (None, str(UNKNOWN)):
            if self.labels is None and slip in labels.index:
                raise InputError(
                    f"Y has the label {show(slip)}; expected the number -1 where a label is unknown: write -1, in "
                    "lists rather than arrays of strings, or declare it in labels"
                )
        latent = UNKNOWN in labels.index
        known = [label for label in labels.labels if not is_unknown(label)]
        if not known:
            raise InputError(
                "all labels are -1, which marks unknown ones; expected at least one known label: label some of the "
                "tokens"
            )
        if latent or self.labels is not None:
            labels = LabelSet.learn(known, self.labels)
        require_label_pairs(len(labels), COST_TABLES + WEIGHT_COPIES)
        self._set(labels, n_inputs, latent)

    def _set(self, labels: LabelSet, n_inputs: int, latent: bool) -> None:
        if UNKNOWN in labels.index:
            raise InputError(
                "labels has -1, which is reserved for tokens whose label is unknown, found "
                f"{show(labels.labels[:10])}: rename this label, or leave it out if it stands for unknown ones"
            )
        self._check_blocks()
        n = len(labels)
        self.labels_, self.n_inputs_, self.latent = labels, n_inputs, latent
        self.numbers_ = {**labels.index, UNKNOWN: UNKNOWN}
        self.costs_ = labels.costs(self.costs)
        # Row −1 is that of unknown labels, which cost nothing.
        self.costs_or_nothing_ = np.vstack([self.costs_, np.zeros(n)])
        self.transitions_at_ = n_inputs * n
        end = self.transitions_at_ + n * n
        blocks = []
        for wanted in (self.start, self.end, self.bias):
            blocks.append(end if wanted else -1)
            end += n if wanted else 0
        self.start_at_, self.end_at_, self.bias_at_ = blocks
        self.n_features = end

    def _check_blocks(self) -> None:
        for name in ("start", "end", "bias"):
            wanted = getattr(self, name)
            if not isinstance(wanted, int | float | np.bool_ | np.number) or wanted not in (0, 1):
                raise InputError(
                    f"{name} must be True or False, found {show(wanted)}: say whether there are such weights"
                )

    def state(self) -> dict[str, Any]:
        """Return what `learn` found, for saving."""
        return {"labels": self.labels_.labels, "n_inputs": self.n_inputs_, "latent": self.latent}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        self._set(LabelSet(state["labels"]), int(state["n_inputs"]), bool(state.get("latent", False)))

    @staticmethod
    def _labels(y: Any, k: int, name: str = "Y") -> list[Any]:
        if isinstance(y, str) or not hasattr(y, "__len__") or getattr(y, "ndim", 1) != 1:
            raise InputError(
                f"{name}[{k}] must be a sequence of labels, one for each token, found {show(y)}: give a list of labels"
            )
        return as_list(y)

    def prepare(self, X: Any, Y: Any = None) -> ChainBatch:
        """Validate sequences and lay all tokens out in one matrix."""
        check_examples(X, Y)
        tokens, offsets = self._stack(X)
        truth = None if Y is None else self._encode(Y, offsets)
        return ChainBatch(InputRows(tokens, len(self.labels_)), offsets, truth)

    def pack(self, batch: ChainBatch) -> Arrays:
        """Return a batch as arrays that can be stored."""
        known = {} if batch.truth is None else {"truth": batch.truth}
        return {**batch.inputs.packed(), "offsets": batch.offsets, **known}

    def unpack(self, arrays: Arrays) -> ChainBatch:
        """Return the batch of stored arrays, which are checked and not copied."""
        found, n_labels = PackedArrays(arrays), len(self.labels_)
        inputs = InputRows.unpacked(found, self.n_inputs_, n_labels)
        truth = None
        if "truth" in found:
            truth = found.numbers("truth", UNKNOWN if self.latent else 0, n_labels, inputs.shape[0])
        return ChainBatch(inputs, found.pointers("offsets", inputs.shape[0]), truth)

    def true_outputs(self, batch: ChainBatch) -> list[list[Any]]:
        """Return the labels that a batch was prepared with, a list for each sequence."""
        require_labels(batch, "clamped")
        assert batch.truth is not None
        # The number −1 of unknown labels finds the last of these.
        labels = [*self.labels_.labels, UNKNOWN]
        flat = [labels[number] for number in batch.truth.tolist()]
        return [flat[start:end] for start, end in pairwise(batch.offsets.tolist())]

    def _stack(self, X: Any) -> tuple[Any, Indices]:
        """Return all tokens as one checked matrix and the sequences' offsets."""
        matrices = [
            x if type(x) is np.ndarray or sparse.issparse(x) else check_matrix(x, f"X[{k}]") for k, x in enumerate(X)
        ]
        if not all(type(x) is not np.ndarray and can_be_stacked(x) for x in matrices):
            for k, x in enumerate(matrices):
                if sparse.issparse(x):
                    check_sparse(x, f"X[{k}]")
        shapes = [x.shape for x in matrices]
        odd = next((k for k, shape in enumerate(shapes) if shape[1:] != (self.n_inputs_,)), None)
        if odd is not None:
            width = check_matrix(matrices[odd], f"X[{odd}]").shape[1]
            raise InputError(
                f"X[{odd}] has {width} features but the model has {self.n_inputs_}: every sequence needs the same "
                "features as in training; give these"
            )
        stack = sparse.vstack if any(type(x) is not np.ndarray for x in matrices) else np.concatenate
        try:
            return check_matrix(stack(matrices), "X"), offsets_from_lengths([shape[0] for shape in shapes])
        except (InputError, TypeError, ValueError):
            # Checked one by one, the sequence at fault is named.
            for k, x in enumerate(matrices):
                check_matrix(x, f"X[{k}]")
            raise

    def _encode(self, Y: Any, offsets: Indices, name: str = "Y") -> NDArray[np.int64]:
        sequences = [self._labels(y, k, name) for k, y in enumerate(Y)]
        for k, y in enumerate(sequences):
            if len(y) != offsets[k + 1] - offsets[k]:
                raise InputError(
                    f"{name}[{k}] has {len(y)} labels but X[{k}] has {offsets[k + 1] - offsets[k]} tokens: give one "
                    "label for each token"
                )
        flat, numbers = list(concatenate.from_iterable(sequences)), self.numbers_
        try:
            return np.fromiter((numbers[label] for label in flat), dtype=np.int64, count=len(flat))
        except (KeyError, TypeError):
            return np.array([UNKNOWN if is_unknown(label) else self.labels_.number(label) for label in flat])

    def _transitions(self, w: Vector) -> NDArray[np.float64]:
        n = len(self.labels_)
        return w[self.transitions_at_ : self.transitions_at_ + n * n].reshape(n, n)

    def _select(
        self, batch: ChainBatch, w: Vector, mode: Mode, rows: Indices | None, out: NDArray | None = None
    ) -> Selection:
        require_labels(batch, mode)
        n = len(self.labels_)
        if rows is None:
            rows, tokens, offsets, truth = np.arange(batch.n_examples), None, batch.offsets, batch.truth
        else:
            tokens, offsets = positions(batch.offsets, rows)
            truth = None if batch.truth is None else batch.truth[tokens]
        scores = batch.inputs.times(w[: self.transitions_at_].reshape(-1, n), tokens, out)
        kernels.add_all_label_scores(
            scores, offsets, self._label_scores(w, mode), NO_LABELS if truth is None else truth
        )
        return Selection(rows, offsets, truth, scores)

    def _label_scores(self, w: Vector, mode: Mode) -> kernels.LabelScores:
        n = len(self.labels_)
        bias, start, end = (w[at : at + n] if at >= 0 else w[:0] for at in self._blocks[1:])
        return kernels.LabelScores(bias, start, end, self.costs_, MODES[mode])

    @property
    def _blocks(self) -> kernels.Blocks:
        return kernels.Blocks(self.transitions_at_, self.bias_at_, self.start_at_, self.end_at_)

    def _labelling_room(self, offsets: Indices) -> tuple[Indices, Atoms]:
        """Return where the features of each sequence's labelling begin, and space for them."""
        lengths = np.diff(offsets)
        ends = (self.start_at_ >= 0) + (self.end_at_ >= 0)
        per_token = 2 + (self.bias_at_ >= 0)
        pointers = offsets_from_lengths(per_token * lengths + (ends - 1) * (lengths > 0))
        size = int(pointers[-1])
        return pointers, Atoms(np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32), np.ones(size))

    def _labelling_planes(
        self, batch: ChainBatch, chosen: Selection, labels: NDArray[np.int64], offsets: Vector, values: Vector
    ) -> Planes:
        pointers, atoms = self._labelling_room(chosen.offsets)
        tokens = batch.offsets[chosen.rows]
        kernels.labelling_atoms(labels, chosen.offsets, tokens, len(self.labels_), self._blocks, pointers, atoms)
        return Planes(batch.inputs.rows, pointers, atoms, offsets, values, self.n_features)

    def _best(self, chosen: Selection, w: Vector) -> tuple[NDArray[np.int64], Vector]:
        labels = np.empty(len(chosen.scores), dtype=np.int64)
        values = np.empty(len(chosen.rows))
        kernels.viterbi(chosen.scores, chosen.offsets, self._transitions(w), labels, values)
        return labels, values

    def planes(
        self,
        batch: ChainBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        rows: Indices | None = None,
    ) -> Planes:
        """Return one supporting plane for each asked sequence.

        Where all is maximised, threads share the sequences; see `latentstruct.executors.share`.
        """
        if mode == "clamped" and not batch.half_labelled:
            return self._known_planes(batch, w, rows)
        temperature = self._effective(batch, mode, temperature)
        if temperature != Temperature():
            return self._soft_planes(batch, w, self._select(batch, w, mode, rows), temperature)
        return self._best_planes(batch, w, mode, rows)

    def shares_planes(self, batch: ChainBatch, mode: Mode, temperature: Temperature) -> bool:
        """Tell whether `planes` shares its work."""
        known = mode == "clamped" and not batch.half_labelled
        return not known and self._effective(batch, mode, temperature) == Temperature()

    def _best_planes(self, batch: ChainBatch, w: Vector, mode: Mode, rows: Indices | None) -> Planes:
        require_labels(batch, mode)
        rows = np.arange(batch.n_examples) if rows is None else rows
        tokens = batch.offsets[rows]
        offsets = offsets_from_lengths(batch.offsets[rows + 1] - tokens)
        pointers, atoms = self._labelling_room(offsets)
        found, weights = np.empty((2, len(rows))), w[: self.transitions_at_].reshape(-1, len(self.labels_))
        inputs, compressed, added, blocks = (
            batch.inputs,
            batch.inputs.compressed,
            self._label_scores(w, mode),
            self._blocks,
        )
        truth, transitions = NO_LABELS if batch.truth is None else batch.truth, self._transitions(w)
        products = np.empty((offsets[-1] if inputs.dense else 0, len(self.labels_)))

        def label(first: int, last: int) -> None:
            if inputs.dense:
                asked, _ = positions(batch.offsets, rows[first:last])
                inputs.times(weights, asked, products[offsets[first] : offsets[last]])
            kernels.best_planes(
                first,
                last,
                products,
                compressed,
                weights,
                offsets,
                tokens,
                truth,
                added,
                transitions,
                blocks,
                pointers,
                atoms,
                found,
            )

        share(label, len(rows))
        return Planes(inputs.rows, pointers, atoms, found[1], found[0], self.n_features)

    @staticmethod
    def _effective(batch: ChainBatch, mode: Mode, temperature: Temperature) -> Temperature:
        """Return the temperatures with both equal where only one of outputs and latents is there to be pooled."""
        if not batch.half_labelled:
            return Temperature(temperature.output, temperature.output)
        return Temperature(temperature.latent, temperature.latent) if mode == "clamped" else temperature

    def _known_planes(self, batch: ChainBatch, w: Vector, rows: Indices | None) -> Planes:
        """Return the planes of the true labellings, all of whose labels are known."""
        require_labels(batch, "clamped")
        assert batch.truth is not None
        rows = np.arange(batch.n_examples) if rows is None else rows
        tokens, offsets = positions(batch.offsets, rows)
        nothing = np.zeros((0, len(self.labels_)))
        chosen = Selection(rows, offsets, batch.truth[tokens], nothing)
        planes = self._labelling_planes(batch, chosen, batch.truth[tokens], np.zeros(len(rows)), np.zeros(len(rows)))
        planes.values = planes.dot(w)
        return planes

    def _soft_planes(self, batch: ChainBatch, w: Vector, chosen: Selection, temperature: Temperature) -> Planes:
        pooled = pool(chosen, self._transitions(w), temperature, np.ones(len(chosen.rows)), together=False)
        n = len(self.labels_)
        per_token = n * (1 + (self.bias_at_ >= 0))
        room = per_token * len(pooled.marginals) + (n * n + 2 * n) * len(chosen.rows)
        atoms = Atoms(np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32), np.empty(room))
        pointers = np.empty(len(chosen.rows) + 1, dtype=np.int64)
        kernels.expected_atoms(
            pooled.marginals,
            pooled.pairs,
            chosen.offsets,
            batch.offsets[chosen.rows],
            self._blocks,
            pointers,
            atoms,
        )
        atoms = Atoms(*(part[: pointers[-1]] for part in atoms))
        planes = Planes(batch.inputs.rows, pointers, atoms, pooled.values, pooled.values, self.n_features)
        planes.offsets = pooled.values - planes.dot(w)
        return planes

    def _fill_label_blocks(self, slope: Vector, marginals: NDArray, pairs: NDArray, offsets: Indices) -> None:
        n = len(self.labels_)
        slope[self.transitions_at_ : self.transitions_at_ + n * n] = pairs.ravel()
        filled = offsets[:-1][np.diff(offsets) > 0], offsets[1:][np.diff(offsets) > 0] - 1
        if self.start_at_ >= 0:
            slope[self.start_at_ : self.start_at_ + n] = marginals[filled[0]].sum(axis=0)
        if self.end_at_ >= 0:
            slope[self.end_at_ : self.end_at_ + n] = marginals[filled[1]].sum(axis=0)
        if self.bias_at_ >= 0:
            slope[self.bias_at_ : self.bias_at_ + n] = marginals.sum(axis=0)

    def work(self, batch: ChainBatch, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each sequence takes, shape (n,)."""
        n = len(self.labels_)
        if mode == "clamped" and not batch.half_labelled:
            return 20.0 * np.diff(batch.offsets)
        products = n * batch.inputs.product_time
        hard = self._effective(batch, mode, temperature) == Temperature()
        return (0.3 * n * n + products if hard else 0.5 * n * n + 10.0 * n + 2.0 * products) * np.diff(batch.offsets)

    def total(
        self,
        batch: ChainBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        weights: Vector,
        rows: Indices | None = None,
    ) -> Plane:
        """Return the weighted sum of the planes of all sequences, or of consecutive ones."""
        alone = mode == "clamped" and not batch.half_labelled
        effective = self._effective(batch, mode, temperature)
        if alone or effective == Temperature():
            return super().total(batch, w, mode, temperature, weights, rows)
        pooled, chosen, loss = self._pool_together(batch, w, mode, effective, weights, rows)
        tokens = None
        if rows is not None:
            tokens = np.arange(batch.offsets[rows[0]], batch.offsets[rows[-1] + 1])
        slope = np.zeros(self.n_features)
        block = slope[: self.transitions_at_].reshape(-1, len(self.labels_))
        batch.inputs.transposed_times(pooled.marginals, block, tokens)
        self._fill_label_blocks(slope, pooled.marginals, pooled.pairs[0], chosen.offsets)
        offset = float(weights @ pooled.values) - float(slope @ w)
        return Plane(slope, offset, entropy=offset - loss)

    def _pool_together(
        self,
        batch: ChainBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        weights: Vector,
        rows: Indices | None,
    ) -> tuple[ChainSums, Selection, float]:
        """Pool all or consecutive sequences in the batch's tables; return also their scores and the expected loss."""
        first, last = (0, batch.n_examples) if rows is None else (rows[0], rows[-1] + 1)
        table, *room = (whole[batch.offsets[first] : batch.offsets[last]] for whole in batch.tables)
        chosen = self._select(batch, w, mode, rows, out=table)
        pooled = pool(chosen, self._transitions(w), temperature, weights, together=True, room=room)
        loss = 0.0
        if mode == "augmented":
            loss = float(kernels.expected_costs(pooled.marginals, chosen.truth, self.costs_or_nothing_))
        return pooled, chosen, loss

    def slack(self, batch: ChainBatch, query: Query) -> Pooled | None:
        """Return the labelings that maximize Δ·(1 + s − s_i) for the Hamming loss; others are searched."""
        if not np.array_equal(self.costs_, 1.0 - np.eye(len(self.labels_))):
            return None
        rows = query.examples(batch)
        chosen = self._select(batch, query.w, "free", rows)
        labels = np.empty(len(chosen.scores), dtype=np.int64)
        values, losses = np.empty(len(rows)), np.empty(len(rows))
        kernels.viterbi_by_errors(
            chosen.scores, chosen.offsets, self._transitions(query.w), chosen.truth, labels, values, losses
        )
        planes = self._labelling_planes(batch, chosen, labels, losses, values)
        return Pooled(values, Slopes(planes.rows, planes.pointers, planes.atoms), losses)

    def decode(self, batch: ChainBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best labelling of each sequence: y, and h too if training had unknown labels."""
        labels, values = self._best(self._select(batch, w, "free", None), w)
        return [
            Prediction(labelling, labelling if self.latent else None, value)
            for labelling, value in zip(self._decoded(labels, batch.offsets), values.tolist(), strict=True)
        ]

    def _decoded(self, numbers: NDArray[np.int64], offsets: Indices) -> list[NDArray]:
        """Return flat label numbers as one array of labels for each sequence."""
        labels = self.labels_.decode(numbers)
        return [labels[start:end] for start, end in pairwise(offsets.tolist())]

    def complete(self, batch: ChainBatch, w: Vector) -> list[NDArray]:
        """Return the best labelling of each sequence among those that agree with its known labels."""
        labels, _ = self._best(self._select(batch, w, "clamped", None), w)
        return self._decoded(labels, batch.offsets)

    def completion_planes(self, batch: ChainBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of whole labellings, which must agree with the known labels, as planes."""
        require_labels(batch, "clamped")
        require_one_latent_each(batch, latents)
        assert batch.truth is not None
        labels = self._encode(latents, batch.offsets, "latents")
        wrong = np.flatnonzero((labels == UNKNOWN) | ((batch.truth != UNKNOWN) & (labels != batch.truth)))
        if len(wrong):
            k = int(np.searchsorted(batch.offsets, wrong[0], side="right")) - 1
            known, found = (numbers[wrong[0]] for numbers in (batch.truth, labels))
            wanted = "one of the labels" if known == UNKNOWN else f"the known label {self.labels_.labels[known]!r}"
            shown = UNKNOWN if found == UNKNOWN else self.labels_.labels[found]
            raise InputError(
                f"latents[{k}] has {show(shown)} at token {wrong[0] - batch.offsets[k]}, expected {wanted}: give a "
                "whole labelling that agrees with what is known"
            )
        rows, nothing = np.arange(batch.n_examples), np.zeros(batch.n_examples)
        chosen = Selection(rows, batch.offsets, batch.truth, np.zeros((0, len(self.labels_))))
        return self._labelling_planes(batch, chosen, labels, nothing, nothing.copy())

    def random_latents(self, batch: ChainBatch, rng: np.random.Generator) -> list[NDArray]:
        """Return the known labels with unknown ones drawn uniformly, one labelling for each sequence."""
        require_labels(batch, "clamped")
        assert batch.truth is not None
        drawn = rng.integers(0, len(self.labels_), len(batch.truth))
        return self._decoded(np.where(batch.truth == UNKNOWN, drawn, batch.truth), batch.offsets)

    def initial_latents(self, batch: ChainBatch, rng: np.random.Generator, attempt: int) -> list[NDArray]:
        """Return the completions by what known labels tell on their own.

        The weights are the first gradient, at w = 0, of the log-likelihood of the known labels: label means of the
        inputs and counts of transitions against those of uniform labels. Later attempts weight the sequences at random.
        """
        require_labels(batch, "clamped")
        weights = rng.exponential(size=batch.n_examples) if attempt else np.ones(batch.n_examples)
        nothing, soft = np.zeros(self.n_features), Temperature(1.0, 1.0)
        known, uniform = (self.total(batch, nothing, mode, soft, weights).slope for mode in ("clamped", "free"))
        return self.complete(batch, known - uniform)

    def marginals(self, batch: ChainBatch, w: Vector, temperature: Temperature) -> list[NDArray[np.float64]]:
        """Return the label probabilities of each token, a list of arrays (T, S).

        Tokens without a known label are latent if the batch has labels; in a batch without labels all are outputs.
        """
        chosen, temperature = self._select(batch, w, "free", None), self._effective(batch, "free", temperature)
        pooled = pool(chosen, self._transitions(w), temperature, np.ones(batch.n_examples), together=True)
        return np.split(pooled.marginals, batch.offsets[1:-1])

    def pair_marginals(self, batch: ChainBatch, w: Vector, temperature: Temperature) -> list[NDArray[np.float64]]:
        """Return the probabilities of the labels of neighbours, a list of arrays (T − 1, S, S): (from, to)."""
        chosen, temperature = self._select(batch, w, "free", None), self._effective(batch, "free", temperature)
        pooled = pool_latents_first(
            chosen, self._transitions(w), temperature, np.ones(batch.n_examples), half_chain.BY_TOKEN
        )
        return [pooled.pairs[start + 1 : end] for start, end in pairwise(batch.offsets.tolist())]

    def confidence(
        self, batch: ChainBatch, w: Vector, temperature: Temperature, predictions: Sequence[Any]
    ) -> list[Vector]:
        """Return the probability of the predicted label of each token, a list of arrays (T,).

        `predictions` are those of `decode`, or label sequences.
        """
        outputs = [found.y if isinstance(found, Prediction) else found for found in predictions]
        check_examples(outputs, batch.offsets[1:])
        labels = self._encode(outputs, batch.offsets, "predictions")
        if (labels == UNKNOWN).any():
            raise InputError("predictions have -1 (unknown), expected a label for each token: take those of decode")
        marginals = np.concatenate(self.marginals(batch, w, temperature))
        return np.split(marginals[np.arange(len(labels)), labels], batch.offsets[1:-1])

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return the sum of each sequence's token costs; tokens without a known label cost nothing, latents neither."""
        truth, predicted, offsets = self._aligned(Y_true, Y_pred)
        out = np.empty(len(offsets) - 1)
        kernels.labelling_costs(predicted, truth, offsets, self.costs_, out)
        return out

    def _aligned(self, Y_true: Any, Y_pred: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], Indices]:
        check_examples(Y_pred, Y_true)
        offsets = offsets_from_lengths(len(y) for y in Y_pred)
        truth, predicted = self._encode(Y_true, offsets), self._encode(Y_pred, offsets)
        if ((predicted == UNKNOWN) & (truth != UNKNOWN)).any():
            raise InputError("Y_pred has -1 (unknown) where the true label is known: predict a label for each token")
        return truth, predicted, offsets

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return the share of tokens with the right label among those whose label is known."""
        truth, predicted, offsets = self._aligned(Y_true, Y_pred)
        known = truth != UNKNOWN
        if len(known) and not known.any():
            raise InputError("Y_true has no known label, only -1; expected at least one: give labels to compare with")
        weights = None if sample_weight is None else np.repeat(sample_weight, np.diff(offsets))[known]
        return float(np.average((truth == predicted)[known], weights=weights))
