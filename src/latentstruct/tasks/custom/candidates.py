"""A structure whose candidates can be listed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import repr_short
from latentstruct.core.levels import LossLevels, highest, pool_groups
from latentstruct.core.pooling import PooledParts, latent_planes, pool_linear, pool_scores
from latentstruct.core.protocols import Cost, Mode, Pooled, Prediction, Query, TaskTags, Temperature
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, positions, split
from latentstruct.core.validation import is_ordered
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Planes
from latentstruct.tasks.base import by_rows, check_examples, require_labels, require_methods
from latentstruct.tasks.inputs import InputRows, check_matrix
from latentstruct.tasks.labels import HASHABLE
from latentstruct.tasks.latent_losses import ListedLatentLosses, PlaneLosses, TrueCandidates, known_candidates
from latentstruct.tasks.row_parts import (
    ExampleBatch,
    RowLoss,
    RowParts,
    RowStack,
    WrittenTask,
    checked_losses,
    loss_of_latents,
    require_latents,
)


@dataclass
class CandidateBatch(ExampleBatch):
    """Candidates of all examples, flat: features, groups of equal y, losses, and which have the true y.

    `pair_tables` are the losses Δ(y_i, h', y, h) of each example, (M_i, K_i), computed at first use: one row per
    candidate (y_i, h') of the true output, one column per candidate (y, h).
    """

    inputs: InputRows
    groups: Indices
    examples: Indices
    losses: Vector
    fitting: NDArray[np.bool_]
    outputs: list[Any]
    latents: list[Any]
    pair_tables: list[NDArray[np.float64]] = field(default_factory=list)

    @property
    def offsets(self) -> Indices:
        """The candidates of example i are offsets[i] … offsets[i + 1]."""
        return self.groups[self.examples]

    @cached_property
    def true_candidates(self) -> TrueCandidates:
        """The candidates of the true outputs."""
        examples = np.repeat(np.arange(self.n_examples), np.diff(self.offsets))
        return TrueCandidates.of(self.fitting, examples, self.n_examples)


@dataclass
class CandidateParts(RowParts):
    """Candidates of the examples of a query: groups of equal y and examples are numbered among them."""

    groups: Indices
    examples: Indices


def one_each(chosen: Sequence[int] | Indices, n: int) -> Vector:
    """Return counts of 1 for the chosen candidates and 0 for the others of n."""
    counts = np.zeros(n)
    counts[chosen] = 1.0
    return counts


class CandidateTask(ListedLatentLosses[CandidateBatch], WrittenTask[CandidateBatch]):
    """A structure whose candidates (y, h) can be listed for each example: everything is then exact.

    Subclasses define `candidates` and, unless the 0/1 loss is used, `output_loss`. With one candidate per y there are
    no latents; several candidates of equal y are its latent completions. `ModLat` trains with
    `pair_loss(x, y, h, y_hat, h_hat)`, a loss that also compares latents.

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

    tags = TaskTags(latent="possible", soft=True, two_temperatures=True)
    feature_method = "features"

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
            expected = "three values (outputs, latents or None, features)"
            raise InputError(f"{type(self).__name__}.candidates of example {i}", found, expected)
        ys, hs, _ = found
        if len(ys) == 0:
            raise InputError(f"outputs of example {i}", ys, "at least one candidate")
        if hs is not None and not (is_ordered(hs) and len(hs) == len(ys)):
            got = Description(f"{len(hs)} latents") if is_ordered(hs) else hs
            raise InputError(f"latents of example {i}", got, f"a list of {len(ys)} latents, one per output")
        return found

    def pair_loss(self, x: Any, y: Any, h: Any, y_hat: Any, h_hat: Any) -> float:
        """Return Δ(y, h, ŷ, ĥ) ≥ 0, which is 0 for equal pairs; by default `output_loss`, whatever h is."""
        return self.output_loss(y, y_hat, h_hat)

    def _first_features(self, X: Any, Y: Any) -> Any:
        require_methods(self, CandidateTask, "candidates", optional=("output_loss", "pair_loss"))
        _, latents, features = self._listed(X[0], 0)
        self.latent = latents is not None
        return features

    def prepare(self, X: Any, Y: Any = None) -> CandidateBatch:
        """List the candidates of all examples and lay them out group by group."""
        check_examples(X, Y, rows=True)
        X, truth, stack = list(by_rows(X)), None if Y is None else list(Y), RowStack(self.n_features, "features")
        outputs: list[Any] = []
        latents: list[Any] = []
        group_sizes: list[int] = []
        groups_per_example, true_groups = [], []
        for i, x in enumerate(X):
            ys, hs, features = self._listed(x, i)
            rows = stack.rows(features)
            if rows.shape != (len(ys), self.n_features):
                expected = f"an array of shape ({len(ys)}, {self.n_features}), one row per candidate"
                raise InputError(f"features of example {i}", Description(f"shape {rows.shape}"), expected)
            members, known_group = self._grouped(ys, [] if truth is None else truth[i : i + 1], i)
            if (hs is not None) != self.latent or (hs is None and len(members) < len(ys)):
                raise InputError(
                    f"candidates of example {i}",
                    Description("latents" if hs is not None else "no latents"),
                    "distinct outputs without latents, or outputs with latents in all examples",
                )
            order = [j for group in members.values() for j in group]
            in_order = order == list(range(len(ys)))
            stack.append(rows if in_order else check_matrix(rows, f"features of example {i}")[order])
            true_groups.append(len(group_sizes) + known_group)
            outputs += [ys[j] for j in order]
            latents += [None] * len(ys) if hs is None else [hs[j] for j in order]
            group_sizes += map(len, members.values())
            groups_per_example.append(len(members))
        known = np.zeros(len(group_sizes), dtype=bool)
        known[true_groups] = truth is not None
        losses, owners = np.zeros(len(outputs)), np.repeat(np.arange(len(X)), stack.lengths).tolist()
        if truth is not None:
            losses = self._losses([truth[i] for i in owners], outputs, latents, name=owners.__getitem__)
        groups, examples = offsets_from_lengths(group_sizes), offsets_from_lengths(groups_per_example)
        fitting = np.repeat(known, group_sizes)
        return CandidateBatch(X, truth, stack.inputs(), groups, examples, losses, fitting, outputs, latents)

    @staticmethod
    def _grouped(ys: Sequence[Any], known: list[Any], i: int) -> tuple[dict[Any, list[int]], int]:
        """Return the candidates of each distinct output, and the number of the known one among these, if any."""
        members: dict[Any, list[int]] = {}
        try:
            for j, y in enumerate(ys):
                members.setdefault(y, []).append(j)
            if not known or known[0] in members:
                return members, list(members).index(known[0]) if known else 0
        except TypeError as error:
            raise InputError(f"outputs of example {i}", Description(str(error)), HASHABLE) from error
        raise InputError(f"Y[{i}]", known[0], "one of the outputs that candidates() lists")

    def _parts(self, batch: CandidateBatch, rows: Indices | None = None) -> CandidateParts:
        """Return the candidates of some examples, by default of all."""
        if rows is None:
            return CandidateParts(batch.inputs, None, batch.offsets, batch.groups, batch.examples)
        chosen_groups, examples = positions(batch.examples, rows)
        chosen, groups = positions(batch.groups, chosen_groups)
        return CandidateParts(batch.inputs, chosen, groups[examples], groups, examples)

    def _linear(self, batch: CandidateBatch, query: Query) -> tuple[CandidateParts, RowLoss, Query, Any]:
        """Return the candidates of a query, their losses, and their pool, whose counts are probabilities."""
        parts = self._parts(batch, query.rows)

        def pool(scores: Vector) -> PooledParts:
            if query.mode == "clamped":
                scores[~parts.of_all(batch.fitting)] = -np.inf
            values, shares = pool_groups(scores, parts.groups, parts.examples, *query.temperature)
            pooled = query.temperature if query.mode != "clamped" else query.temperature[1:]
            return PooledParts(values, shares, soft=any(pooled))

        return parts, RowLoss(parts, parts.of_all(batch.losses)), query, pool

    def pool_batch(self, batch: CandidateBatch, query: Query) -> Pooled:
        return pool_linear(*self._linear(batch, query))

    def renyi_pool(self, batch: CandidateBatch, query: Query, order: float) -> Pooled:
        """Pool Δ_i(y) + G_α(y) over outputs, where latents are pooled by Rényi entropy of order α: tangents only."""
        parts = self._parts(batch, query.rows)
        scores, candidate_losses = parts.scores(query), parts.of_all(batch.losses)
        first = parts.groups[:-1]
        losses = np.zeros(len(first))
        if query.augmented:
            losses = candidate_losses[first]
            if (np.repeat(losses, np.diff(parts.groups)) != candidate_losses).any():
                raise loss_of_latents()
        elif query.mode == "clamped":
            losses = np.where(parts.of_all(batch.fitting)[first], 0.0, -np.inf)
        values, shares = pool_groups(scores, parts.groups, parts.examples, *query.temperature, order, losses)
        expected = parts.sums(shares * candidate_losses) if query.augmented else np.zeros(len(values))
        return Pooled(values, parts.slopes(shares, query), expected, soft=True, exact=False)

    def renyi_decode(self, batch: CandidateBatch, w: Vector, order: float) -> list[Prediction]:
        """Return argmax_y G_α(y) of each example, and its best h."""
        scores = self._parts(batch).scores(Query(w, "free"))
        groups = batch.groups
        values, _ = pool_groups(scores, groups, np.arange(len(groups)), 0.0, 0.0, order)
        best, (_, best_groups) = highest(scores, groups)[1], highest(values, batch.examples)
        return self._listed_predictions(batch, values[best_groups], best[best_groups])

    def cost(self, batch: CandidateBatch, mode: Mode, temperature: Temperature) -> Cost:
        softness = 10.0 if temperature == Temperature() else 40.0
        return Cost((softness + batch.inputs.product_time) * np.diff(batch.offsets))

    def loss_levels(self, batch: CandidateBatch, query: Query) -> LossLevels:
        """Return all candidates."""
        parts = self._parts(batch, query.rows)
        scores = parts.scores(query)
        return LossLevels(
            parts.offsets,
            parts.of_all(batch.losses),
            scores,
            lambda places: parts.slopes(one_each(places, len(scores)), query),
        )

    def _predictions(self, batch: CandidateBatch, query: Query) -> list[Prediction]:
        values, shares, *_ = pool_scores(*self._linear(batch, query))
        return self._listed_predictions(batch, values, highest(shares, batch.offsets)[1])

    @staticmethod
    def _listed_predictions(batch: CandidateBatch, values: Vector, chosen: Indices) -> list[Prediction]:
        found = zip(values.tolist(), chosen.tolist(), strict=True)
        return [Prediction(batch.outputs[c], batch.latents[c], value) for value, c in found]

    def marginals(self, batch: CandidateBatch, w: Vector, temperature: Temperature) -> list[dict[Any, float]]:
        """Return the probability of each output y of each example, latents summed out."""
        shares = pool_scores(*self._linear(batch, Query(w, "free", temperature))).counts
        probabilities = zip(
            batch.groups[:-1].tolist(), np.add.reduceat(shares, batch.groups[:-1]).tolist(), strict=True
        )
        outputs = [(batch.outputs[first], probability) for first, probability in probabilities]
        return [dict(outputs[begin:end]) for begin, end in pairwise(batch.examples.tolist())]

    def _places(self, batch: CandidateBatch, latents: Sequence[Any]) -> list[int]:
        """Return the candidates of the known outputs with the given latents."""
        require_latents(batch, latents)
        true, found = known_candidates(batch), []
        for i, (h, fitting) in enumerate(zip(latents, split(true.places, true.offsets), strict=True)):
            found += [c for c in fitting.tolist() if batch.latents[c] == h][:1]
            if len(found) == i:
                raise InputError(f"latents[{i}]", h, f"a latent of the candidates with the output `Y[{i}]`")
        return found

    def completion_planes(self, batch: CandidateBatch, latents: Sequence[Any]) -> Planes:
        """Return the features of the known outputs with the given latents as planes."""
        counts = one_each(self._places(batch, latents), len(batch.outputs))
        return latent_planes(self, self._parts(batch).slopes(counts, Query(counts, "clamped")))

    def random_latents(self, batch: CandidateBatch, rng: np.random.Generator) -> list[Any]:
        """Return for each example a latent drawn uniformly among the candidates of its output."""
        true = known_candidates(batch)
        return [batch.latents[rng.choice(fitting)] for fitting in split(true.places, true.offsets)]

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Any = None) -> Vector:
        """Return Δ(y_i, ŷ_i, ĥ_i) for each example; latents that are not given are None."""
        return self._losses(Y_true, Y_pred, [None] * len(Y_true) if H_pred is None else H_pred)

    def _pair_losses(self, i: int, x: Any, y: Any, h: Any, Y_hat: Any, H_hat: Any) -> Vector:
        """Return `pair_loss` of a known pair against others, or raise if it is no loss."""
        found = [self.pair_loss(x, y, h, *one) for one in zip(Y_hat, H_hat, strict=True)]
        shown = "{} for the output {} with the latent {} against {} with {}".format
        return checked_losses(found, "pair_loss", lambda k: shown(i, *map(repr_short, (y, h, Y_hat[k], H_hat[k]))))

    def _tables(self, batch: CandidateBatch) -> list[NDArray[np.float64]]:
        if not batch.pair_tables:
            batch.pair_tables += [self._table(batch, i, a, b) for i, (a, b) in enumerate(pairwise(batch.offsets))]
        return batch.pair_tables

    def _table(self, batch: CandidateBatch, i: int, start: int, end: int) -> NDArray[np.float64]:
        y, outputs, latents = batch.Y[i], batch.outputs[start:end], batch.latents[start:end]
        true = np.flatnonzero(batch.fitting[start:end])
        table = np.array([self._pair_losses(i, batch.X[i], y, latents[t], outputs, latents) for t in true])
        equal = table[np.arange(len(true)), true]
        if type(self).pair_loss is not CandidateTask.pair_loss and equal.any():
            wrong = int(np.flatnonzero(equal)[0])
            pair = f"the output {repr_short(y)} with the latent {repr_short(latents[true[wrong]])}"
            raise InputError(f"pair_loss of example {i}", equal[wrong], f"0 for equal pairs such as {pair}")
        return table

    def _expected_losses(self, batch: CandidateBatch, P: Vector) -> Vector:
        shares = split(P, batch.true_candidates.offsets)
        return np.concatenate([p @ table for p, table in zip(shares, self._tables(batch), strict=True)])

    def _latent_products(self, batch: CandidateBatch, P: Vector, transposed: bool = False) -> Vector:
        true, places = batch.true_candidates, batch.true_candidates.places
        if not transposed:
            return self._expected_losses(batch, P)[places]
        columns = split(places - batch.offsets[true.examples], true.offsets)
        found = zip(self._tables(batch), columns, split(P, true.offsets), strict=True)
        return np.concatenate([table[:, own] @ p for table, own, p in found])

    def worst_losses(self, batch: CandidateBatch, w: Vector) -> Callable[[Vector], tuple[Vector, Vector]]:
        """Return the function P → max_{y,h} [s(y, h) + Δ_i(y, h; P)]: values (n,), derivatives by P (M,)."""
        require_labels(batch, "clamped")
        scores, starts, tables = self._parts(batch).scores(Query(w, "free")), batch.offsets, self._tables(batch)

        def worst(P: Vector) -> tuple[Vector, Vector]:
            values, places = highest(scores + self._expected_losses(batch, P), starts)
            columns = places - starts[:-1]
            return values, np.concatenate([table[:, c] for table, c in zip(tables, columns, strict=True)])

        return worst

    def plane_losses(self, batch: CandidateBatch) -> PlaneLosses:
        """Return the losses of candidates by the first atoms of their planes."""
        return lambda examples, rows, columns: batch.losses[rows]

    def latent_losses(self, batch: CandidateBatch, H_true: Sequence[Any], Y_pred: Any, H_pred: Sequence[Any]) -> Vector:
        """Return Δ(y_i, h_i, ŷ_i, ĥ_i) of each example of a labeled batch whose latents are known."""
        self._require_compared(batch, H_true=H_true, Y_pred=Y_pred, H_pred=H_pred)
        known = zip(batch.X, batch.Y, H_true, strict=True)
        return np.concatenate([self._pair_losses(i, *one, [Y_pred[i]], [H_pred[i]]) for i, one in enumerate(known)])
