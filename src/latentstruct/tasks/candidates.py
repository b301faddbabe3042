"""A structure whose candidates can be listed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from latentstruct.core.protocols import Mode, Pooled, Prediction, Query, Temperature
from latentstruct.exceptions import InputError
from latentstruct.kernels.candidates import pool_candidates, pool_renyi
from latentstruct.kernels.planes import Atoms, Rows
from latentstruct.planes import Plane, Planes, Slopes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths, positions
from latentstruct.short_repr import show
from latentstruct.tasks.base import BaseTask, by_rows, check_examples, require_labels, require_one_latent_each
from latentstruct.tasks.inputs import as_slice, check_matrix
from latentstruct.tasks.latent_losses import CandidateLatentLosses, PairLosses


@dataclass
class CandidateBatch:
    """Candidates of all examples, flat: features, groups of equal y, losses."""

    features: sparse.csr_array
    rows: Rows
    groups: Indices
    examples: Indices
    losses: Vector
    true_candidates: NDArray[np.bool_]
    outputs: list[Any]
    latents: list[Any]
    labelled: bool
    pairs: PairLosses

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.examples) - 1

    def select(self, rows: Indices | None) -> tuple[Indices, Indices, Indices]:
        """Return the chosen candidates, and groups and examples among them."""
        if rows is None:
            return np.arange(self.groups[-1]), self.groups, self.examples
        chosen_groups, examples = positions(self.examples, rows)
        candidates, groups = positions(self.groups, chosen_groups)
        return candidates, groups, examples

    def scores(self, w: Vector, candidates: Indices) -> Vector:
        """Return φ·w of the chosen candidates."""
        some, features = as_slice(candidates), self.features
        if not isinstance(some, slice):
            return features[candidates] @ w
        if len(candidates) == features.shape[0]:
            return features @ w
        # Scipy would copy the rows of a slice; a matrix made of views does not.
        indptr = features.indptr[some.start : some.stop + 1]
        entries = slice(indptr[0], indptr[-1])
        views = features.data[entries], features.indices[entries], indptr - indptr[0]
        return sparse.csr_array(views, shape=(len(candidates), features.shape[1])) @ w


class CandidateTask(CandidateLatentLosses, BaseTask):
    """A structure whose candidates (y, h) can be listed for each example: everything is then exact.

    Subclasses define `candidates` and, unless the 0/1 loss will do, `output_loss`. With one candidate for each y
    there is nothing latent; several candidates of equal y are its latent completions. `ModLat` trains with
    `pair_loss(x, y, h, y_hat, h_hat)`, a loss that compares latents too.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import CandidateTask, StructuralSVM
    >>> class NearestRank(CandidateTask):
    ...     def candidates(self, x):
    ...         return [0, 1, 2], None, np.outer(np.arange(3) - 1.0, x)
    ...
    ...     def output_loss(self, y, y_hat, h_hat):
    ...         return abs(y - y_hat)
    >>> X = [[-1.0, 0.5], [1.0, 0.2], [-0.8, 0.1], [1.2, 0.9]]
    >>> StructuralSVM(NearestRank(), C=10.0).fit(X, [0, 2, 0, 2]).predict(X)
    [0, 2, 0, 2]
    """

    def candidates(self, x: Any) -> tuple[Sequence[Any], Sequence[Any] | None, Any]:
        """List the candidates of one example.

        Returns
        -------
        outputs : sequence of length K
            y of each candidate.
        latents : sequence of length K or None
            h of each candidate; None if there are no latents.
        features : array or sparse array of shape (K, d)
            φ(x, y, h) of each candidate.
        """
        raise TypeError(f"{type(self).__name__} does not define candidates()")

    def output_loss(self, y: Any, y_hat: Any, h_hat: Any) -> float:
        """Return Δ(y, ŷ, ĥ) ≥ 0; by default 0 if y == ŷ, else 1."""
        return float(y != y_hat)

    def learn(self, X: Any, Y: Any) -> None:
        """Find the number of features and whether anything is latent from the first example."""
        check_examples(X, Y, rows=True)
        X = by_rows(X)
        _, latents, features = self.candidates(X[0])
        self.n_features = check_matrix(features, "features of example 0").shape[1]
        self.latent = latents is not None

    def state(self) -> dict[str, Any] | None:
        """Return what `learn` found, for saving; nothing if a subclass learns more and does not say what."""
        if type(self).learn is not CandidateTask.learn:
            return None
        return {"n_features": int(self.n_features), "latent": bool(self.latent)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        self.n_features, self.latent = int(state["n_features"]), bool(state["latent"])

    def prepare(self, X: Any, Y: Any = None) -> CandidateBatch:
        """List the candidates of all examples and lay them out group by group."""
        check_examples(X, Y, rows=True)
        X = by_rows(X)
        outputs: list[Any] = []
        latents: list[Any] = []
        matrices, group_sizes, groups_per_example = [], [], []
        for i, x in enumerate(X):
            ys, hs, features = self.candidates(x)
            matrix = sparse.csr_array(check_matrix(features, f"features of example {i}"))
            if matrix.shape != (len(ys), self.n_features) or len(ys) == 0:
                raise InputError(
                    f"example {i} lists {len(ys)} candidates with features of shape {matrix.shape}; expected at least "
                    f"one candidate and shape ({len(ys)}, {self.n_features}): give one line for each candidate, with "
                    "the same features for all examples"
                )
            if hs is not None and len(hs) != len(ys):
                raise InputError(
                    f"example {i} lists {len(ys)} outputs but {len(hs)} latents: give one for each candidate"
                )
            order, sizes = self._grouped(ys)
            if (hs is not None) != self.latent or (hs is None and len(sizes) < len(ys)):
                raise InputError(
                    f"the candidates of example {i} are ambiguous: outputs must be distinct where latents is None, "
                    "and latents must be given for all examples or for none: give each candidate a latent, or make "
                    "the outputs differ"
                )
            matrices.append(matrix[order])
            outputs.extend(ys[j] for j in order)
            latents.extend(None if hs is None else hs[j] for j in order)
            group_sizes.extend(sizes)
            groups_per_example.append(len(sizes))
        features = sparse.vstack(matrices, format="csr")
        groups, examples = offsets_from_lengths(group_sizes), offsets_from_lengths(groups_per_example)
        rows = Rows(features.indptr.astype(np.int64), features.indices.astype(np.uint32), np.array(features.data))
        losses, known = self._losses(Y, outputs, latents, groups, examples)
        pairs = PairLosses(list(X), [] if Y is None else list(Y))
        return CandidateBatch(features, rows, groups, examples, losses, known, outputs, latents, Y is not None, pairs)

    @staticmethod
    def _grouped(ys: Sequence[Any]) -> tuple[list[int], list[int]]:
        members: dict[Any, list[int]] = {}
        try:
            for j, y in enumerate(ys):
                members.setdefault(y, []).append(j)
        except TypeError as error:
            raise InputError(f"outputs must be hashable ({error}): use numbers, strings or tuples") from error
        return [j for group in members.values() for j in group], [len(group) for group in members.values()]

    def _losses(
        self, Y: Any, outputs: list[Any], latents: list[Any], groups: Indices, examples: Indices
    ) -> tuple[Vector, NDArray[np.bool_]]:
        losses, known = np.zeros(len(outputs)), np.zeros(len(outputs), dtype=bool)
        for i, y in enumerate([] if Y is None else Y):
            for c in range(groups[examples[i]], groups[examples[i + 1]]):
                losses[c] = self.output_loss(y, outputs[c], latents[c])
                known[c] = outputs[c] == y
            span = slice(groups[examples[i]], groups[examples[i + 1]])
            if not known[span].any():
                raise InputError(
                    f"the output {show(y)} of example {i} is not among its candidates; expected one of them: list it "
                    "in candidates(), or correct Y"
                )
            if not np.isfinite(losses[span]).all() or (losses[span] < 0).any():
                raise InputError(
                    f"the losses of example {i} must be finite and ≥ 0, found {losses[span]}: correct "
                    "output_loss() of the task"
                )
        return losses, known

    def _pooled(
        self, batch: CandidateBatch, w: Vector, mode: Mode, temperature: Temperature, rows: Indices | None
    ) -> tuple[Indices, Indices, Indices, Vector, Vector]:
        require_labels(batch, mode)
        candidates, groups, examples = batch.select(rows)
        scores = batch.scores(w, candidates)
        if mode == "augmented":
            scores = scores + batch.losses[candidates]
        elif mode == "clamped":
            scores = np.where(batch.true_candidates[candidates], scores, -np.inf)
        values, shares = np.empty(len(examples) - 1), np.empty(len(candidates))
        pool_candidates(scores, groups, examples, temperature.output, temperature.latent, values, shares)
        return candidates, groups, examples, values, shares

    def planes(
        self,
        batch: CandidateBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        rows: Indices | None = None,
    ) -> Planes:
        """Return one supporting plane for each asked example: its mean candidate."""
        candidates, groups, examples, values, shares = self._pooled(batch, w, mode, temperature, rows)
        kept = shares > 0.0
        counts = np.add.reduceat(kept.astype(np.int64), groups[examples[:-1]])
        atoms = Atoms(candidates[kept].astype(np.int32), np.zeros(kept.sum(), dtype=np.int32), shares[kept].copy())
        planes = Planes(batch.rows, offsets_from_lengths(counts), atoms, values, values, self.n_features)
        if temperature == Temperature() and mode == "augmented":
            planes.offsets = batch.losses[candidates[kept]]
        elif temperature == Temperature():
            planes.offsets = np.zeros(len(values))
        else:
            planes.offsets = values - planes.dot(w)
        return planes

    def renyi_planes(
        self,
        batch: CandidateBatch,
        w: Vector,
        mode: Mode,
        order: float,
        output_temperature: float = 0.0,
        rows: Indices | None = None,
    ) -> Planes:
        """Return the tangents of smax over y of Δ_i(y) + G_α(y), latents pooled by Rényi entropy of order α."""
        require_labels(batch, mode)
        candidates, groups, examples = batch.select(rows)
        scores = batch.scores(w, candidates)
        first = candidates[groups[:-1]]
        losses = np.zeros(len(first))
        if mode == "augmented":
            losses = batch.losses[first]
            if (np.repeat(losses, np.diff(groups)) != batch.losses[candidates]).any():
                raise InputError("the loss depends on the latent, which Rényi pooling has no place for: use LatentSSVM")
        elif mode == "clamped":
            losses = np.where(batch.true_candidates[first], 0.0, -np.inf)
        values, shares = np.empty(len(examples) - 1), np.empty(len(candidates))
        pool_renyi(scores, losses, groups, examples, output_temperature, order, values, shares)
        kept = shares != 0.0
        counts = np.add.reduceat(kept.astype(np.int64), groups[examples[:-1]])
        atoms = Atoms(candidates[kept].astype(np.int32), np.zeros(kept.sum(), dtype=np.int32), shares[kept])
        planes = Planes(batch.rows, offsets_from_lengths(counts), atoms, values, values, self.n_features, exact=False)
        planes.offsets = values - planes.dot(w)
        return planes

    def renyi_decode(self, batch: CandidateBatch, w: Vector, order: float) -> list[Prediction]:
        """Return argmax_y G_α(y) of each example, and its best h."""
        scores = batch.features @ w
        groups, n_groups = batch.groups, len(batch.groups) - 1
        values, nothing = np.empty(n_groups), np.zeros(n_groups)
        pool_renyi(scores, nothing, groups, np.arange(n_groups + 1), 0.0, order, values, np.empty(len(scores)))
        found = []
        for first, last in pairwise(batch.examples):
            g = int(first + values[first:last].argmax())
            c = int(groups[g] + scores[groups[g] : groups[g + 1]].argmax())
            found.append(Prediction(batch.outputs[c], batch.latents[c], float(values[g])))
        return found

    def work(self, batch: CandidateBatch, mode: Mode, temperature: Temperature) -> Vector:
        """Return about how many nanoseconds each example takes, shape (n,)."""
        ends = batch.groups[batch.examples]
        softness = 10.0 if temperature == Temperature() else 40.0
        return softness * np.diff(ends) + 2.0 * np.diff(batch.features.indptr[ends])

    def total(
        self,
        batch: CandidateBatch,
        w: Vector,
        mode: Mode,
        temperature: Temperature,
        weights: Vector,
        rows: Indices | None = None,
    ) -> Plane:
        """Return the weighted sum of the asked examples' planes."""
        plane = self.planes(batch, w, mode, temperature, rows).total(weights)
        if temperature != Temperature() and mode == "augmented":
            candidates, groups, examples, _, shares = self._pooled(batch, w, mode, temperature, rows)
            expected = np.add.reduceat(shares * batch.losses[candidates], groups[examples[:-1]])
            plane.entropy = plane.offset - float(weights @ expected)
        elif temperature != Temperature():
            plane.entropy = plane.offset
        return plane

    def slack(self, batch: CandidateBatch, query: Query) -> Pooled:
        """Return the candidates that maximize Δ·(1 + s − s_i)."""
        rows = query.examples(batch)
        candidates, groups, examples = batch.select(rows)
        starts = groups[examples[:-1]]
        scores = batch.features[candidates] @ query.w
        true_scores = scores[batch.true_candidates[candidates]]
        sizes = np.diff(groups[examples])
        product = batch.losses[candidates] * (1.0 + scores - np.repeat(true_scores, sizes))
        values, shares = np.empty(len(rows)), np.empty(len(candidates))
        whole = np.append(starts, len(candidates))
        pool_candidates(product, whole, np.arange(len(rows) + 1), 0.0, 0.0, values, shares)
        best = candidates[shares > 0.0]
        atoms = Atoms(best.astype(np.int32), np.zeros(len(best), dtype=np.int32), np.ones(len(best)))
        return Pooled(values, Slopes(batch.rows, np.arange(len(rows) + 1), atoms), batch.losses[best])

    def decode(self, batch: CandidateBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best y of each example (latents pooled at ε_h), and its best h."""
        hard_y = Temperature(0.0, temperature.latent)
        _, groups, examples, values, shares = self._pooled(batch, w, "free", hard_y, None)
        starts = groups[examples]
        best = [int(a + shares[a:b].argmax()) for a, b in pairwise(starts)]
        return [
            Prediction(batch.outputs[c], batch.latents[c], float(value)) for c, value in zip(best, values, strict=True)
        ]

    def complete(self, batch: CandidateBatch, w: Vector) -> list[Any]:
        """Return the best latent of each example's known output."""
        *_, groups, examples, _, shares = self._pooled(batch, w, "clamped", Temperature(), None)
        starts = groups[examples]
        return [batch.latents[a + int(shares[a:b].argmax())] for a, b in pairwise(starts)]

    def completion_planes(self, batch: CandidateBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of the known outputs with the given latents as planes."""
        require_labels(batch, "clamped")
        require_one_latent_each(batch, latents)
        starts = batch.groups[batch.examples]
        chosen = np.empty(batch.n_examples, dtype=np.int32)
        for i, h in enumerate(latents):
            span = range(starts[i], starts[i + 1])
            fitting = [c for c in span if batch.true_candidates[c] and batch.latents[c] == h]
            if not fitting:
                raise InputError(
                    f"the latent {show(h)} of example {i} is not among the candidates of its output; expected one of "
                    "them: take those of candidates()"
                )
            chosen[i] = fitting[0]
        atoms = Atoms(chosen, np.zeros_like(chosen), np.ones(len(chosen)))
        nothing = np.zeros(len(chosen))
        return Planes(batch.rows, np.arange(len(chosen) + 1), atoms, nothing, nothing, self.n_features)

    def random_latents(self, batch: CandidateBatch, rng: np.random.Generator) -> list[Any]:
        """Return for each example a latent drawn uniformly among the candidates of its output."""
        require_labels(batch, "clamped")
        starts = batch.groups[batch.examples]
        fitting = [a + np.flatnonzero(batch.true_candidates[a:b]) for a, b in pairwise(starts)]
        return [batch.latents[rng.choice(candidates)] for candidates in fitting]

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Δ(y_i, ŷ_i, ĥ_i) for each example; latents that are not given are None."""
        latents = [None] * len(Y_true) if H_pred is None else H_pred
        return np.array([self.output_loss(*triple) for triple in zip(Y_true, Y_pred, latents, strict=True)])
