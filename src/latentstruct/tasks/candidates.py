"""A structure whose candidates can be listed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.checks import is_ordered
from latentstruct.core.pooling import PooledParts, pool_linear
from latentstruct.core.protocols import Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.exceptions import InputError
from latentstruct.kernels.candidates import pool_candidates, pool_renyi
from latentstruct.planes import Planes
from latentstruct.ragged import Indices, Vector, offsets_from_lengths, positions
from latentstruct.short_repr import show
from latentstruct.tasks.base import (
    BaseTask,
    by_rows,
    check_examples,
    require_labels,
    require_methods,
    require_one_latent_each,
)
from latentstruct.tasks.inputs import InputRows, check_matrix
from latentstruct.tasks.latent_losses import CandidateLatentLosses, PairLosses, highest
from latentstruct.tasks.row_parts import RowLoss, RowParts, RowStack, checked_losses


@dataclass
class CandidateBatch:
    """Candidates of all examples, flat: features, groups of equal y, losses."""

    inputs: InputRows
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

    @property
    def offsets(self) -> Indices:
        """The candidates of example i are offsets[i] … offsets[i + 1]."""
        return self.groups[self.examples]

    def parts(self, rows: Indices | None = None) -> "CandidateParts":
        """Return the candidates of some examples, by default of all."""
        if rows is None:
            return CandidateParts(self.inputs, None, self.offsets, self, self.groups, self.examples)
        chosen_groups, examples = positions(self.examples, rows)
        chosen, groups = positions(self.groups, chosen_groups)
        return CandidateParts(self.inputs, chosen, groups[examples], self, groups, examples)


@dataclass
class CandidateParts(RowParts):
    """Candidates of the examples of a query: groups of equal y and examples are numbered among them."""

    batch: CandidateBatch
    groups: Indices
    examples: Indices


def one_each(chosen: Sequence[int] | Indices, n: int) -> Vector:
    """Return counts of 1 for the chosen candidates and 0 for the others of n."""
    counts = np.zeros(n)
    counts[chosen] = 1.0
    return counts


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

    tags = TaskTags(
        latent="possible",
        soft=True,
        two_temperatures=True,
    )

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

    def _listed(self, x: Any, i: int) -> tuple[Sequence[Any], Sequence[Any] | None, Any]:
        """Return the candidates of example i, three values."""
        found = self.candidates(x)
        if not (isinstance(found, tuple | list) and len(found) == 3 and is_ordered(found[0])):
            raise InputError(
                f"candidates of example {i} must return three values (outputs, latents or None, features), got "
                f"{show(found)}: correct {type(self).__name__}.candidates"
            )
        ys, hs, _ = found
        if hs is not None and not (is_ordered(hs) and len(hs) == len(ys)):
            shown = f"{len(hs)} latents" if is_ordered(hs) else f"{show(hs)} as latents"
            raise InputError(f"example {i} lists {len(ys)} outputs but {shown}: give one for each candidate")
        return found

    def learn(self, X: Any, Y: Any) -> None:
        """Find the number of features and whether anything is latent from the first example."""
        require_methods(self, CandidateTask, "candidates")
        check_examples(X, Y, rows=True)
        X = by_rows(X)
        _, latents, features = self._listed(X[0], 0)
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
        X, truth = list(by_rows(X)), None if Y is None else list(Y)
        outputs: list[Any] = []
        latents: list[Any] = []
        losses: list[Any] = []
        group_sizes: list[int] = []
        true_groups: list[int] = []
        groups_per_example, stack = [], RowStack(self.n_features, "features")
        for i, x in enumerate(X):
            ys, hs, features = self._listed(x, i)
            rows = stack.rows(features)
            if rows.shape != (len(ys), self.n_features) or len(ys) == 0:
                raise InputError(
                    f"example {i} lists {len(ys)} candidates with features of shape {rows.shape}; expected at least "
                    f"one candidate and shape ({len(ys)}, {self.n_features}): give one line for each candidate, with "
                    "the same features for all examples"
                )
            members = self._grouped(ys)
            if (hs is not None) != self.latent or (hs is None and len(members) < len(ys)):
                raise InputError(
                    f"the candidates of example {i} are ambiguous: outputs must be distinct where latents is None, "
                    "and latents must be given for all examples or for none: give each candidate a latent, or make "
                    "the outputs differ"
                )
            order = [j for group in members.values() for j in group]
            in_order = order == list(range(len(ys)))
            stack.append(rows if in_order else check_matrix(rows, f"features of example {i}")[order])
            listed = [ys[j] for j in order]
            hidden = [None] * len(ys) if hs is None else [hs[j] for j in order]
            if truth is not None:
                true_groups.append(len(group_sizes) + self._true_group(members, truth[i], i))
                losses += [self.output_loss(truth[i], y, h) for y, h in zip(listed, hidden, strict=True)]
            outputs += listed
            latents += hidden
            group_sizes += map(len, members.values())
            groups_per_example.append(len(members))
        groups, examples = offsets_from_lengths(group_sizes), offsets_from_lengths(groups_per_example)
        known = np.zeros(len(group_sizes), dtype=bool)
        known[true_groups] = True
        owners = np.repeat(np.arange(len(X)), stack.lengths).tolist()
        return CandidateBatch(
            stack.inputs(),
            groups,
            examples,
            np.zeros(len(outputs)) if truth is None else checked_losses(losses, "output_loss", owners),
            np.repeat(known, group_sizes),
            outputs,
            latents,
            truth is not None,
            PairLosses(X, truth or []),
        )

    @staticmethod
    def _grouped(ys: Sequence[Any]) -> dict[Any, list[int]]:
        """Return the candidates of each distinct output."""
        members: dict[Any, list[int]] = {}
        try:
            for j, y in enumerate(ys):
                members.setdefault(y, []).append(j)
        except TypeError as error:
            raise InputError(f"outputs must be hashable ({error}): use numbers, strings or tuples") from error
        return members

    @staticmethod
    def _true_group(members: dict[Any, list[int]], y: Any, i: int) -> int:
        """Return the number of the known output of example i among its distinct outputs."""
        try:
            if y in members:
                return list(members).index(y)
        except TypeError as error:
            raise InputError(
                f"the output {show(y)} of example {i} must be hashable ({error}): give it as the candidates have it"
            ) from error
        raise InputError(
            f"the output {show(y)} of example {i} is not among its candidates; expected one of them: list it in "
            "candidates(), or correct Y"
        )

    def _pooled(self, parts: CandidateParts, scores: Vector, query: Query) -> PooledParts:
        """Pool scores; counts are the probabilities of candidates."""
        if query.mode == "clamped":
            scores[~parts.of_all(parts.batch.true_candidates)] = -np.inf
        values, shares = np.empty(len(parts.offsets) - 1), np.empty(len(scores))
        pool_candidates(scores, parts.groups, parts.examples, *query.temperature, values, shares)
        pooled = query.temperature if query.mode != "clamped" else query.temperature[1:]
        return PooledParts(values, shares, soft=any(pooled))

    def pool_batch(self, batch: CandidateBatch, query: Query) -> Pooled:
        """Pool the candidates of the examples of a query."""
        parts = batch.parts(query.rows)
        loss = RowLoss(parts, parts.of_all(batch.losses))
        return pool_linear(parts, loss, query, lambda scores: self._pooled(parts, scores, query))

    def renyi_pool(self, batch: CandidateBatch, query: Query, order: float) -> Pooled:
        """Pool Δ_i(y) + G_α(y) over outputs, where latents are pooled by Rényi entropy of order α: tangents only."""
        parts = batch.parts(query.rows)
        scores, candidate_losses = parts.scores(query), parts.of_all(batch.losses)
        first = parts.groups[:-1]
        losses = np.zeros(len(first))
        if query.augmented:
            losses = candidate_losses[first]
            if (np.repeat(losses, np.diff(parts.groups)) != candidate_losses).any():
                raise InputError("the loss depends on the latent, which Rényi pooling has no place for: use LatentSSVM")
        elif query.mode == "clamped":
            losses = np.where(parts.of_all(batch.true_candidates)[first], 0.0, -np.inf)
        values, shares = np.empty(len(parts.offsets) - 1), np.empty(len(scores))
        pool_renyi(scores, losses, parts.groups, parts.examples, query.temperature.output, order, values, shares)
        expected = parts.sums(shares * candidate_losses) if query.augmented else np.zeros(len(values))
        return Pooled(values, parts.slopes(shares, query), expected, soft=True, exact=False)

    def renyi_decode(self, batch: CandidateBatch, w: Vector, order: float) -> list[Prediction]:
        """Return argmax_y G_α(y) of each example, and its best h."""
        scores = batch.parts().times(w)
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
        softness = 10.0 if temperature == Temperature() else 40.0
        return (softness + batch.inputs.product_time) * np.diff(batch.offsets)

    def slack(self, batch: CandidateBatch, query: Query) -> Pooled:
        """Return the candidates that maximize Δ·(1 + s − s_i)."""
        parts = batch.parts(query.rows)
        scores, losses = parts.scores(query), parts.of_all(batch.losses)
        true_scores = scores[parts.of_all(batch.true_candidates)]
        values, best = highest(losses * (1.0 + scores - np.repeat(true_scores, np.diff(parts.offsets))), parts.offsets)
        return Pooled(values, parts.slopes(one_each(best, len(scores)), query), losses[best])

    def _best(self, batch: CandidateBatch, query: Query) -> tuple[Vector, list[int]]:
        """Return the pooled value and the likeliest candidate of each example of a batch."""
        parts = batch.parts()
        scores = parts.scores(query)
        if query.augmented:
            scores += batch.losses
        values, shares, *_ = self._pooled(parts, scores, query)
        return values, highest(shares, batch.offsets)[1].tolist()

    def _predictions(self, batch: CandidateBatch, query: Query) -> list[Prediction]:
        found = zip(*self._best(batch, query), strict=True)
        return [Prediction(batch.outputs[c], batch.latents[c], float(value)) for value, c in found]

    def decode(self, batch: CandidateBatch, w: Vector, temperature: Temperature) -> list[Prediction]:
        """Return the best y of each example (latents pooled at ε_h), and its best h."""
        return self._predictions(batch, Query(w, "free", Temperature(0.0, temperature.latent)))

    def decode_augmented(self, batch: CandidateBatch, w: Vector) -> list[Prediction]:
        """Return the candidate of each example that maximizes s + Δ."""
        return self._predictions(batch, Query(w, "augmented"))

    def marginals(self, batch: CandidateBatch, w: Vector, temperature: Temperature) -> list[dict[Any, float]]:
        """Return the probability of each output y of each example, latents summed out."""
        parts, query = batch.parts(), Query(w, "free", temperature)
        shares = self._pooled(parts, parts.scores(query), query).counts
        probabilities, first = np.add.reduceat(shares, batch.groups[:-1]).tolist(), batch.groups.tolist()
        return [
            {batch.outputs[first[g]]: probabilities[g] for g in range(begin, end)}
            for begin, end in pairwise(batch.examples.tolist())
        ]

    def complete(self, batch: CandidateBatch, w: Vector) -> list[Any]:
        """Return the best latent of each example's known output."""
        require_labels(batch, "clamped")
        return [batch.latents[c] for c in self._best(batch, Query(w, "clamped"))[1]]

    def completion_planes(self, batch: CandidateBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of the known outputs with the given latents as planes."""
        require_labels(batch, "clamped")
        require_one_latent_each(batch, latents)
        chosen = []
        for i, (h, (a, b)) in enumerate(zip(latents, pairwise(batch.offsets.tolist()), strict=True)):
            fitting = (c for c in range(a, b) if batch.true_candidates[c] and batch.latents[c] == h)
            chosen.append(next(fitting, -1))
            if chosen[-1] < 0:
                raise InputError(
                    f"the latent {show(h)} of example {i} is not among the candidates of its output; expected one of "
                    "them: take those of candidates()"
                )
        query, nothing = Query(np.zeros(self.n_features), "clamped"), np.zeros(len(chosen))
        slopes = batch.parts().slopes(one_each(chosen, len(batch.outputs)), query)
        return Planes(*slopes, nothing, nothing, self.n_features)

    def random_latents(self, batch: CandidateBatch, rng: np.random.Generator) -> list[Any]:
        """Return for each example a latent drawn uniformly among the candidates of its output."""
        require_labels(batch, "clamped")
        starts = batch.groups[batch.examples]
        fitting = [a + np.flatnonzero(batch.true_candidates[a:b]) for a, b in pairwise(starts)]
        return [batch.latents[rng.choice(candidates)] for candidates in fitting]

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Δ(y_i, ŷ_i, ĥ_i) for each example; latents that are not given are None."""
        latents = [None] * len(Y_true) if H_pred is None else H_pred
        found = [self.output_loss(*triple) for triple in zip(Y_true, Y_pred, latents, strict=True)]
        return checked_losses(found, "output_loss")
