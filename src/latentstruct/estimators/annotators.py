"""Labels from several annotators: majority votes, Dawid & Skene's model of their errors, and a hidden CRF with it."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.callers import user_stacklevel
from latentstruct.core.parameters import Parametrized, check_is_fitted
from latentstruct.core.protocols import Callback
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, split
from latentstruct.core.unknown import UNKNOWN
from latentstruct.core.validation import check_length, check_parameters, check_shape, integer, is_ordered, real
from latentstruct.estimators.base import FitInputs
from latentstruct.estimators.latent import HiddenCRF
from latentstruct.exceptions import ConvergenceWarning, Description, InputError
from latentstruct.tasks.chain.task import Chain
from latentstruct.tasks.labels import LabelSet, distinct_labels

__all__ = ["AnnotatorCRF", "DawidSkene", "majority_vote"]

Table = NDArray[np.float64]


class Votes(NamedTuple):
    """The votes for all tokens; tokens with equal votes are one pattern.

    `patterns` (P, A) are numbers of labels, −1 where an annotator has no vote; `pattern_of` (N,) that of each token.
    """

    labels: LabelSet
    patterns: NDArray[np.int64]
    pattern_of: Indices
    counts: Vector
    offsets: Indices

    @property
    def n_annotators(self) -> int:
        """Number of annotators."""
        return self.patterns.shape[1]

    @property
    def shares(self) -> Table:
        """Share of votes of each label per pattern, (P, S); uniform without votes."""
        n = len(self.labels)
        counts = np.stack([(self.patterns == y).sum(axis=1) for y in range(n)], axis=1).astype(np.float64)
        totals = counts.sum(axis=1, keepdims=True)
        return np.where(totals > 0, counts / np.maximum(totals, 1.0), 1.0 / n)

    def majority(self) -> Indices:
        """Return the label with the most votes per pattern; of equal ones that with more votes in all."""
        shares = self.shares
        in_all = self.counts @ shares
        return (shares + 1e-9 * in_all / in_all.sum()).argmax(axis=1)

    def evidence(self, confusions: Table) -> Table:
        """Return Σ_a log π_a(v_a | y) of each pattern and label y, (P, S)."""
        logs = np.log(confusions)
        found = np.zeros((len(self.patterns), len(self.labels)))
        for a, votes in enumerate(self.patterns.T):
            voted = votes >= 0
            found[voted] += logs[a][:, votes[voted]].T
        return found

    def confusion_counts(self, shares: Table) -> Table:
        """Return how often each annotator gave each label to tokens of each label, (A, S, S): (true, given).

        `shares` (P, S) are probabilities of labels, summed over the tokens of each pattern.
        """
        n = len(self.labels)
        counts = np.zeros((self.n_annotators, n, n))
        for a, votes in enumerate(self.patterns.T):
            voted = votes >= 0
            np.add.at(counts[a].T, votes[voted], shares[voted])
        return counts

    def prior(self, strength: float) -> Table:
        """Return pseudo-counts (S, S) of `strength` votes per true label, as the average annotator gives them."""
        n = len(self.labels)
        shares = np.eye(n)[self.majority()] * self.counts[:, None]
        # One vote in a hundred is anything, so that no vote is impossible.
        counts = self.confusion_counts(shares).sum(axis=0) + 0.01 / n + 0.01 * np.eye(n)
        return strength * (0.99 * counts / counts.sum(axis=1, keepdims=True) + 0.01 / n)

    def split(self, by_pattern: NDArray) -> list[NDArray]:
        """Return values of patterns as those of the tokens of each sequence."""
        return split(by_pattern[self.pattern_of], self.offsets)


def read_votes(votes: Any, labels: Sequence[Any] | LabelSet | None = None, n_annotators: int | None = None) -> Votes:
    """Return the votes (T, A) of sequences with their numbers."""
    if not is_ordered(votes) or not len(votes):
        raise InputError("votes", votes, "a list of sequences, each with one row of votes per token")
    rows: list[list[Any]] = []
    lengths = []
    for k, sequence in enumerate(votes):
        tokens = sequence.tolist() if isinstance(sequence, np.ndarray) else list(sequence)
        lengths.append(len(tokens))
        for t, row in enumerate(tokens):
            n_annotators = len(row) if n_annotators is None and is_ordered(row) else n_annotators
            if not is_ordered(row) or isinstance(row, str) or len(row) != n_annotators:
                raise InputError(f"votes[{k}][{t}]", row, f"{n_annotators or 'some'} votes, -1 where there is none")
            if any(vote is None or vote != vote for vote in row):
                raise InputError(f"votes[{k}][{t}]", row, "labels, and -1 where there is none")
            rows.append(list(row))
    if not isinstance(labels, LabelSet):
        seen = distinct_labels(label for row in rows for label in row)
        known = [label for label in seen if label != UNKNOWN]
        if not known:
            raise InputError("votes", Description("none"), "at least one vote")
        labels = LabelSet.learn(known, labels)
    offsets = offsets_from_lengths(lengths)
    width = n_annotators or 0
    flat = labels.encode_items([label for row in rows for label in row], width * offsets, "votes")
    patterns, pattern_of = np.unique(flat.reshape(len(rows), width), axis=0, return_inverse=True)
    counts = np.bincount(pattern_of.ravel(), minlength=len(patterns)).astype(np.float64)
    return Votes(labels, patterns, pattern_of.ravel(), counts, offsets)


def majority_vote(votes: Any, labels: Sequence[Any] | None = None) -> list[NDArray]:
    """Return the label with the most votes of each token.

    Parameters
    ----------
    votes : sequence of length n
        An array or a list of rows (T, A) per sequence: the label that each annotator gave to each token, −1 for none.
    labels : sequence, optional
        All labels that may occur.

    Returns
    -------
    list of ndarray of shape (T,)
        The labels. If labels of a token have equal votes, the one with more votes in the whole data is taken.

    See Also
    --------
    DawidSkene : Weighs annotators by their errors.

    Examples
    --------
    >>> from latentstruct import majority_vote
    >>> majority_vote([[["O", "O", "B"], ["B", -1, "B"]]])[0].tolist()
    ['O', 'B']
    """
    found = read_votes(votes, labels)
    return found.split(found.labels.decode(found.majority()))


def _updated(counts: Table, prior: Table) -> Table:
    """Return confusion matrices that maximize the posterior."""
    found = counts + prior
    return found / found.sum(axis=-1, keepdims=True)


class DawidSkene(Parametrized):
    """Labels and annotators' errors from votes alone: each annotator confuses labels with probabilities of their own.

    A label y has the prior probability p(y), and annotator a gives it as v with probability π_a(v | y), independently
    of other annotators and tokens. Both are estimated by EM from the majority votes on.

    Parameters
    ----------
    labels : sequence, optional
        All labels that may occur, by default those among the votes.
    smoothing : float, default=5.0
        Number of votes per true label that each annotator is assumed to have given as the average annotator did.
    tol : float, default=1e-6
        EM stops when the log-posterior grows by less than this fraction.
    max_iter : int, default=200
        Maximum number of iterations.

    Attributes
    ----------
    labels_ : list
        The labels, in the order of the arrays.
    confusions_ : ndarray of shape (A, S, S)
        π_a(v | y), rows are true labels y.
    prior_ : ndarray of shape (S,)
        p(y).
    objectives_ : list of float
        The negative log-posterior after each iteration, which never increases.

    Notes
    -----
    Dawid & Skene (1979).

    See Also
    --------
    AnnotatorCRF : Also uses the tokens, and their order.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import DawidSkene
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 3, 500)
    >>> right = rng.random((500, 4)) < [0.9, 0.9, 0.4, 0.4]  # two annotators are good, two are not
    >>> votes = [np.where(right, truth[:, None], rng.integers(0, 3, (500, 4)))]
    >>> model = DawidSkene().fit(votes)
    >>> bool(np.mean(model.predict(votes)[0] == truth) > 0.9)
    True
    """

    constraints: ClassVar = {
        "smoothing": real(0.0),
        "tol": real(0.0, closed="left"),
        "max_iter": integer(1),
    }

    def __init__(
        self, labels: Sequence[Any] | None = None, smoothing: float = 5.0, tol: float = 1e-6, max_iter: int = 200
    ) -> None:
        self.labels, self.smoothing, self.tol, self.max_iter = labels, smoothing, tol, max_iter

    def fit(self, votes: Any) -> Self:
        """Estimate errors and labels.

        Parameters
        ----------
        votes : sequence of length n
            An array or a list of rows (T, A) per sequence: the label that each annotator gave to each token, −1 for
            none.

        Returns
        -------
        self
        """
        check_parameters(self)
        self._fit(read_votes(votes, self.labels))
        return self

    def _fit(self, found: Votes) -> Table:
        """Estimate everything; return the probabilities of the labels of each pattern, (P, S)."""
        n, pseudo = len(found.labels), found.prior(self.smoothing)
        shares = np.eye(n)[found.majority()]
        self._label_set, self.labels_, self.objectives_ = found.labels, found.labels.labels, []
        for _ in range(self.max_iter):
            weighted = shares * found.counts[:, None]
            self.prior_ = (weighted.sum(axis=0) + 1.0) / (weighted.sum() + n)
            self.confusions_ = _updated(found.confusion_counts(weighted), pseudo)
            joint = np.log(self.prior_) + found.evidence(self.confusions_)
            totals = np.logaddexp.reduce(joint, axis=1)
            shares = np.exp(joint - totals[:, None])
            penalty = np.log(self.prior_).sum() + (pseudo * np.log(self.confusions_)).sum()
            self.objectives_.append(-float(found.counts @ totals + penalty))
            if len(self.objectives_) > 1:
                before, now = self.objectives_[-2:]
                if before - now <= self.tol * abs(now):
                    break
        return shares

    def marginals(self, votes: Any) -> list[Table]:
        """Return the probability of each label of each token given its votes, a list of arrays (T, S)."""
        check_is_fitted(self, "confusions_")
        found = read_votes(votes, self._label_set, len(self.confusions_))
        joint = np.log(self.prior_) + found.evidence(self.confusions_)
        return found.split(np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None]))

    def predict(self, votes: Any) -> list[NDArray]:
        """Return the most probable label of each token given its votes."""
        return [self._label_set.decode(shares.argmax(axis=1)) for shares in self.marginals(votes)]

    def soft_labels(self, votes: Any) -> list[list[dict[Any, float]]]:
        """Return the probabilities of labels as soft labels, which `Chain` takes in training."""
        return [
            [dict(zip(self.labels_, row, strict=True)) for row in shares.tolist()] for shares in self.marginals(votes)
        ]


@dataclass(eq=False, repr=False, kw_only=True)
class AnnotatorCRF(HiddenCRF):
    """Hidden CRF for sequences labeled by several annotators, each with confusions of their own.

    The true labels y are hidden: P(y | x) is a CRF, and annotator a gives label v to a token of label y_t with
    probability π_a(v | y_t). Training maximizes Σ_i log Σ_y P(y | x_i) Π_{t,a} π_a(v_ta | y_t) plus pseudo-counts for
    π, and C weighs this against ½‖w‖². It alternates between w, as `HiddenCRF` with soft labels Π_a π_a(v_ta | y), and
    π.

    Parameters
    ----------
    task : Chain
        The structure. Without `labels` of its own it has those among the votes.
    smoothing : float, default=5.0
        Number of votes per true label that each annotator is assumed to have given as the average annotator did.
    em_iter : int, default=10
        Maximum number of alternations.
    em_tol : float, default=1e-3
        Training stops when an alternation lowers the objective by less than this fraction.
    C, init, restarts, random_state, solver, tol, max_iter, max_seconds, regularizer, entity_ratio, l1, seen_only
        See `HiddenCRF`.
    warm_start, verbose, n_jobs, executor, cache_mb
        See `HiddenCRF`.

    Attributes
    ----------
    confusions_ : ndarray of shape (A, S, S)
        π_a(v | y), rows are true labels y.
    em_objectives_ : list of float
        The objective after each alternation. It never increases by more than the tolerance of the solver.

    Notes
    -----
    Confusions begin with those of `DawidSkene`. The other attributes are those of the last training of w.

    See Also
    --------
    DawidSkene : Uses the votes alone.

    Examples
    --------
    >>> import numpy as np
    >>> from latentstruct import AnnotatorCRF, Chain
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 3, 5).repeat(2) for _ in range(30)]  # labels that come in pairs
    >>> X = [np.eye(3)[y] + rng.normal(size=(10, 3)) for y in Y]
    >>> right = [rng.random((10, 3)) < 0.7 for _ in Y]  # three annotators, right for 70 % of the tokens or by chance
    >>> votes = [np.where(r, y[:, None], rng.integers(0, 3, (10, 3))) for r, y in zip(right, Y)]
    >>> model = AnnotatorCRF(Chain(), C=0.1).fit(X, votes)
    >>> bool(np.mean(np.concatenate(model.infer_labels(X, votes)) == np.concatenate(Y)) > 0.9)
    True
    """

    online = False

    smoothing: float = 5.0
    em_iter: int = 10
    em_tol: float = 1e-3
    constraints: ClassVar = {"smoothing": real(0.0), "em_iter": integer(1), "em_tol": real(0.0, closed="left")}

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        callback: Callback | None = None,
        coef_init: Any = None,
    ) -> Self:
        """Train on sequences X with votes y.

        Parameters
        ----------
        X : sequence of length n
            Sequences, as `Chain` takes them.
        y : sequence of length n
            An array or a list of rows (T, A) per sequence: the label that each annotator gave to each token, −1 for
            none.
        sample_weight : array of shape (n,), optional
            Factors of C for the sequences.
        callback : callable, optional
            Called after each iteration of the solver. If it returns True, training stops.
        coef_init : array of shape (d,), optional
            Initial weights.

        Returns
        -------
        self
        """
        check_parameters(self)
        own = self.task
        if not isinstance(own, Chain):
            raise InputError("task", own, "a Chain, whose tokens have votes")
        if not isinstance(self.C, Real):
            raise InputError("C", self.C, "a number", "Folds cannot be scored, as votes are not the true labels.")
        found = read_votes(y, own.labels)
        check_length(found.offsets[1:], len(X), "y", "sequences with votes")
        start = DawidSkene(smoothing=self.smoothing)
        start._fit(found)
        self.confusions_, pseudo = start.confusions_, found.prior(self.smoothing)
        weights = self._token_weights(found, sample_weight)
        self.em_objectives_: list[float] = []
        try:
            self.task = _with_labels(own, found.labels.labels)
            for number in range(self.em_iter):
                evidence = found.evidence(self.confusions_)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    given = FitInputs(X, self._soft(found, evidence), sample_weight, callback, coef_init=coef_init)
                    self._fit(self._read(given))
                self.em_objectives_.append(self._joint(found, evidence, pseudo, weights))
                if self._settled(number, caught):
                    break
                coef_init = self.coef_
                shares = np.concatenate(self._posteriors(X, found, evidence)) * weights[:, None]
                by_pattern = np.zeros_like(evidence)
                np.add.at(by_pattern, found.pattern_of, shares)
                self.confusions_ = _updated(found.confusion_counts(by_pattern), pseudo)
        finally:
            self.task = own
        return self

    def _settled(self, number: int, caught: list[Any]) -> bool:
        """Return whether to stop; repeat the warnings of the last training."""
        falls = self.em_objectives_[-2:]
        done = len(falls) == 2 and falls[0] - falls[1] <= self.em_tol * abs(falls[1])
        stop = done or number + 1 == self.em_iter or self.stop_reason_ in ("interrupted", "callback")
        for one in caught if stop else ():
            warnings.warn(one.message, one.category, stacklevel=user_stacklevel())
        if stop and not done and number + 1 == self.em_iter > 1 and self.stop_reason_ == "converged":
            text = f"{self.em_iter} alternations did not settle; increase `em_iter`"
            warnings.warn(text, ConvergenceWarning, stacklevel=user_stacklevel())
        return stop

    def _token_weights(self, found: Votes, sample_weight: Any) -> Vector:
        """Return the factor of C of each token."""
        if sample_weight is None:
            return np.ones(len(found.pattern_of))
        weights = np.asarray(sample_weight, dtype=np.float64)
        check_shape(weights, (len(found.offsets) - 1,), "sample_weight", "one weight per sequence")
        return np.repeat(weights, np.diff(found.offsets))

    def _soft(self, found: Votes, evidence: Table) -> list[list[Any]]:
        """Return the soft labels of tokens; those of equal votes are one object."""
        names = found.labels.labels
        shares = np.exp(evidence - evidence.max(axis=1, keepdims=True))
        rows: list[Any] = [
            dict(zip(names, row, strict=True)) if max(votes) >= 0 else UNKNOWN
            for row, votes in zip(shares.tolist(), found.patterns.tolist(), strict=True)
        ]
        flat = [rows[pattern] for pattern in found.pattern_of.tolist()]
        return [flat[start:end] for start, end in pairwise(found.offsets.tolist())]

    def _joint(self, found: Votes, evidence: Table, pseudo: Table, weights: Vector) -> float:
        """Return the objective of w and π: that of soft labels, which are normalized, less what this took away."""
        totals = np.logaddexp.reduce(evidence, axis=1) * (found.patterns >= 0).any(axis=1)
        constant = float(weights @ totals[found.pattern_of]) + float((pseudo * np.log(self.confusions_)).sum())
        return self.objective_ - self.C_ * constant

    def _posteriors(self, X: Any, found: Votes, evidence: Table) -> list[Table]:
        batch = self._prepared(X, self._soft(found, evidence))
        marginals: list[Table] = self.task_.marginals(batch, self.coef_, self._soft_temperature(), "clamped")
        return marginals

    def _labels(self) -> LabelSet:
        chain = self.task_
        assert isinstance(chain, Chain)
        return chain.labels_

    def _read_again(self, X: Any, votes: Any) -> tuple[Votes, Table]:
        check_is_fitted(self, "confusions_")
        found = read_votes(votes, self._labels(), len(self.confusions_))
        check_length(found.offsets[1:], len(X), "votes", "sequences with votes")
        return found, found.evidence(self.confusions_)

    def infer_labels(self, X: Any, votes: Any) -> list[NDArray]:
        """Return the most probable labeling of each sequence given its tokens and its votes, as in `fit`."""
        return self.complete(X, self._soft(*self._read_again(X, votes)))

    def infer_marginals(self, X: Any, votes: Any) -> list[Table]:
        """Return the probabilities of labels given tokens and votes, a list of arrays (T, S)."""
        return self._posteriors(X, *self._read_again(X, votes))

    def _saved_parts(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what a model file needs in addition to weights: arrays, and plain values."""
        return {"confusions": self.confusions_}, {"em_objectives_": self.em_objectives_}

    def _restore_parts(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Restore what `_saved_parts` returned; raise InputError unless it fits the weights."""
        confusions, n = np.asarray(arrays["confusions"]), len(self._labels())
        valid = confusions.dtype == np.float64 and confusions.ndim == 3 and confusions.shape[1:] == (n, n)
        if not valid or not (confusions > 0).all() or not np.allclose(confusions.sum(axis=2), 1.0):
            raise InputError("confusions", Description("other arrays"), f"probabilities of {n} labels per annotator")
        self.confusions_, self.em_objectives_ = confusions, [float(value) for value in values["em_objectives_"]]


def _with_labels(task: Chain, labels: list[Any]) -> Chain:
    """Return a chain with declared labels, so that all votes are among them."""
    params = task.get_params(deep=False)
    return type(task)(**{**params, "labels": labels})
