"""The contracts between the parts of the library.

A *task* knows one structure and no solver; a *solver* knows objectives and planes and no structure; an estimator
only composes them. `latentstruct.testing` checks these contracts for custom tasks and solvers.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import repeat
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.formatting import short_repr
from latentstruct.core.levels import LossLevels
from latentstruct.core.types import Indices, Vector, Weights
from latentstruct.parallel.threads import Chunks
from latentstruct.planes.plane import Plane, Planes, Slopes

Mode = Literal["free", "augmented", "clamped"]
MODES: dict[Mode, int] = {"free": 0, "augmented": 1, "clamped": 2}
"""Codes of the modes in kernels."""


class Temperature(NamedTuple):
    """Temperatures of the pooling: ε_y over outputs and ε_h over latents; exactly 0 is the hard max."""

    output: float = 0.0
    latent: float = 0.0


HARD = Temperature()
ONE_CHUNK = Chunks()


class Prediction(NamedTuple):
    """Decoded output y, latent h (None if there is none) and score of one example."""

    y: Any
    h: Any
    score: float


@dataclass(eq=False)
class ArrayPredictions(Sequence[Prediction]):
    """Predictions of many examples as arrays (n,), which is faster than a prediction for each."""

    outputs: NDArray[Any]
    latents: Indices | None
    scores: Vector

    def __len__(self) -> int:
        return len(self.outputs)

    def __getitem__(self, place: Any) -> Any:
        latents: Any = None if self.latents is None else self.latents[place]
        if isinstance(place, slice):
            return ArrayPredictions(self.outputs[place], latents, self.scores[place])
        return Prediction(self.outputs[place], None if latents is None else int(latents), float(self.scores[place]))

    def __iter__(self) -> Iterator[Prediction]:
        latents = repeat(None) if self.latents is None else self.latents.tolist()
        return map(Prediction, self.outputs, latents, self.scores.tolist())


@runtime_checkable
class Batch(Protocol):
    """Examples prepared once by a task; only that task reads its other attributes."""

    @property
    def n_examples(self) -> int:
        """Number of examples."""

    @property
    def labeled(self) -> bool:
        """Whether the true outputs are known."""


@runtime_checkable
class RememberingBatch(Protocol):
    """A batch whose results depend on earlier calls, such as messages that inference starts from."""

    def memory(self) -> Any:
        """Return the state on which later results depend, as a tree; see `latentstruct.persistence.state_trees`."""

    def recall(self, memory: Any) -> None:
        """Restore the result of `memory`; raise LookupError, TypeError or ValueError for anything else."""


@runtime_checkable
class KnownBatch(Protocol):
    """A batch that keeps the features of its true outputs."""

    known_slopes: Slopes | None
    """None before the first use."""


@runtime_checkable
class ApproximateBatch(Protocol):
    """A batch for which inference may be approximate."""

    def is_approximate(self, temperature: Temperature) -> bool:
        """Return whether results at a temperature are known to be inexact."""


@dataclass
class Query:
    """One function of each example, to be pooled at one point.

    Modes: *free* pools s(y, h); *augmented* pools s(y, h) + Δ_i(y, h); *clamped* pools s(y_i, h).
    """

    w: Vector  # (d,)
    mode: Mode
    temperature: Temperature = HARD  # ε_y and ε_h
    rows: Indices | None = None  # the examples, all of them by default
    # If given, one weight per example of the query: only the weighted sum of the slopes is needed.
    weights: Vector | None = None
    # How the examples are split among threads, for tasks that split the work themselves; see `Cost`.
    chunks: Chunks = ONE_CHUNK

    @property
    def augmented(self) -> bool:
        """Whether losses are part of the function."""
        return self.mode == "augmented"

    def examples(self, batch: Batch) -> Indices:
        """Return the numbers of the examples."""
        return np.arange(batch.n_examples) if self.rows is None else self.rows


@dataclass
class Pooled:
    """The result of a query for k examples."""

    values: Vector  # (k,) the pooled functions at w
    # Expected features of each example, or of the best output if the pool is hard. For a query with weights, their
    # weighted sum (d,) may replace them.
    slopes: Slopes | Vector
    # Expected loss (k,) of each example, 0 outside augmented mode; the weighted sum if `slopes` is one.
    losses: Vector | float
    soft: bool = False  # whether the pool is soft. The value of a hard pool is the score and the loss of one output.
    # Whether all results are, or each one (k,) is, the true maximum or sum. Inexact results of a hard pool are the
    # score and loss of some output, so that their planes are below the function; those of a soft pool are arbitrary.
    exact: bool | NDArray[np.bool_] = True
    # How far the true maximum may be above an inexact value, infinite if unknown.
    excess: float | Vector = math.inf

    @property
    def all_exact(self) -> bool:
        """Whether all results are exact."""
        return self.exact if isinstance(self.exact, bool) else bool(self.exact.all())


class Cost(NamedTuple):
    """Approximate cost of `Task.pool_batch`, by which alone a batch is split among threads."""

    work: Vector  # (n,) nanoseconds per example; 0 if threads cannot share them, because they hold the interpreter lock
    overhead: float = 0.0  # nanoseconds of any call, however few examples there are
    # Whether `pool_batch` splits its work by `Query.chunks`; otherwise threads call it with a few examples.
    chunked: bool = False


class LinearMap(Protocol):
    """Parts of the examples of a batch, whose scores are linear in w.

    Scores and counts of parts are arrays in a layout that the structure chooses. Counts are those of one output per
    example (a hard pool) or expected ones (a soft pool).
    """

    def scores(self, query: Query) -> Any:
        """Return the scores of the parts of the examples of a query, in memory that may be overwritten."""

    def slopes(self, counts: Any, query: Query) -> Slopes:
        """Return the features of the parts times their counts, summed per example."""

    def pull_back(self, counts: Any, query: Query) -> Vector:
        """Return the features of the parts times their counts and the weights of the query, summed over all, (d,)."""


class PartLoss(Protocol):
    """A loss that is a sum over parts, Δ_i(y, h) = a_i + Σ_p u_p l_p."""

    def add_to(self, scores: Any, query: Query) -> Any:
        """Add the losses of parts to their scores, in place where possible; return the sums."""

    def of(self, counts: Any, query: Query) -> Vector | float:
        """Return the loss of each example; the weighted sum is enough if counts are already weighted."""


@dataclass(frozen=True)
class TaskTags:
    """Capabilities of a task, for estimators, commands and documentation."""

    # Whether something may stay hidden when the output is known.
    latent: Literal["never", "possible", "always"] = "never"
    soft: bool = False  # whether pools at temperatures above 0 are implemented
    two_temperatures: bool = False  # whether ε_y and ε_h may differ
    exact: bool = True  # whether inference is exact for every input
    # Whether inexact results are never below those of the true output; otherwise the oracle takes the larger of both.
    above_truth: bool = False
    # Whether inexact results of hard pools come with upper bounds, `Pooled.excess`, so that gaps stay proven.
    upper_bounds: bool = False
    exact_slack: bool = False  # whether `loss_levels` finds outputs by their loss, so that slack rescaling is exact
    renyi: bool = False  # whether `renyi_pool` pools latents by Rényi entropy, as `MinEntropySSVM` needs
    latent_loss: bool = False  # whether the methods of `LatentLossTask` are implemented, as `ModLat` needs
    # Whether an output is one label per example, and whether there are only two.
    classifier: bool = False
    binary: bool = False
    partial_outputs: bool = False  # whether outputs may be known in part, so that `complete` fills in the rest
    # Whether X may be a matrix with one row of numbers per example; the task then provides `WeightedInputs`.
    row_examples: bool = False
    state_weights: bool = False  # whether latent states may have separate weights, as in `StateWeights`
    single_example: bool = False  # whether all rows together are one example, so that rows have no weights
    # Whether these methods are implemented.
    marginals: bool = False
    pair_marginals: bool = False
    confidence: bool = False
    scores: bool = False
    topk: bool = False
    sample: bool = False
    min_risk: bool = False
    storable: bool = False  # whether batches can be stored by `pack` and `unpack`
    threaded_decoding: bool = False  # whether `prepare` and `decode` release the interpreter lock
    # Parameters that stored batches do not depend on, so that they may be changed later.
    refit_parameters: tuple[str, ...] = ()
    # Why the structure does not support a method, or only by a search, by the names of
    # `latentstruct.core.capabilities`. Reasons that hold for all structures need not be given.
    reasons: Mapping[str, str] = field(default_factory=dict)


B = TypeVar("B", bound=Batch)
"""The batches of a task."""


class Task(Protocol[B]):
    """One structure: features, loss and inference.

    `learn` is called once with the training data and fixes what the structure needs to know (labels, number of
    features); `prepare` turns examples into a batch any number of times afterwards. Everything that solvers need
    follows from `pool_batch`.
    """

    latent: bool
    """Whether something stays hidden when y is known, so that the clamped side is not linear."""
    n_features: int

    @property
    def tags(self) -> TaskTags:
        """Capabilities of the task."""

    def learn(self, X: Any, Y: Any) -> None:
        """Learn labels and sizes from the training data; raise InputError if it cannot be used."""

    def prepare(self, X: Any, Y: Any = None) -> B:
        """Validate examples and lay them out in flat arrays."""

    def pool_batch(self, batch: B, query: Query) -> Pooled:
        """Pool the outputs and latents of the examples of a query."""

    def loss_levels(self, batch: B, query: Query) -> LossLevels | None:
        """Return the best outputs of each loss, by scores without losses; None if unknown."""

    def plane_losses(self, batch: B) -> Any:
        """Return the current losses of planes found with other losses; None if unknown."""

    def cost(self, batch: B, mode: Mode, temperature: Temperature) -> Cost:
        """Return the approximate cost of `pool_batch`."""

    def decode(self, batch: B, w: Vector, temperature: Temperature) -> Sequence[Prediction]:
        """Return the best output of each example."""

    def decode_augmented(self, batch: B, w: Vector) -> Sequence[Prediction] | None:
        """Return the outputs that maximize s + Δ, or None if they are not decoded."""

    def loss(self, Y_true: Any, Y_pred: Any) -> Vector:
        """Return Δ(y_i, ŷ_i) per example."""

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return a score of at most 1, by the convention of the field (accuracy for labels)."""


class RowBatch(Protocol):
    """Further interface of batches of a task with `WeightedInputs`."""

    inputs: Any
    offsets: Indices
    shared: bool


@runtime_checkable
class Classifier(Protocol):
    """Further interface of tasks with one label per example, token or node."""

    classes_: NDArray


class WeightedInputs(Protocol):
    """Further interface of tasks with `tags.row_examples`: weight vectors for the rows of a matrix."""

    n_inputs_: int
    bias: float
    biased_: bool


@runtime_checkable
class TransitionWeights(Protocol):
    """Further interface of tasks with weights of transitions between S labels."""

    labels_: Any
    transitions_at_: int
    """Index of the first of these S² weights."""


@runtime_checkable
class StateGroups(Protocol):
    """Further interface of tasks with `tags.state_weights` for regularizers."""

    def state_groups(self, shared: bool = False) -> Indices:
        """Return the group of each weight by latent states; classes share those of equal states if `shared`."""

    def n_state_groups(self, shared: bool = False) -> int:
        """Return the number of groups of `state_groups`."""


class StateWeights(StateGroups, Protocol):
    """Further interface of tasks whose latent states have separate weights."""

    weights: str
    states: Any
    table_: Any
    vector_of_: NDArray[np.int64]
    n_vectors_: int
    needed_states_: Indices
    costs_: NDArray[np.float64]


class StateBatch(Protocol):
    """Further interface of batches of a task with `StateWeights`."""

    truth: Indices

    def rows_of_state(self, state: int, examples: Indices) -> Any:
        """Return the inputs of some examples in a latent state, one row each."""


class LatentTask(Task[B], Protocol[B]):
    """Further interface of tasks with ``latent = True``: the completions (y_i, h) of known outputs."""

    def complete(self, batch: B, w: Vector) -> Sequence[Any]:
        """Return argmax_h s(y_i, h) per example of a labeled batch."""

    def completion_planes(self, batch: B, latents: Sequence[Any]) -> Planes:
        """Return the planes φ(x_i, y_i, h_i)·w of given latents; raise InputError if one is not compatible with y_i.

        They are below the clamped side everywhere.
        """

    def random_latents(self, batch: B, rng: np.random.Generator) -> Sequence[Any]:
        """Return one latent per example, drawn uniformly among those compatible with y_i if possible."""

    def initial_latents(self, batch: B, rng: np.random.Generator, attempt: int) -> Sequence[Any]:
        """Return initial latents for training, by the best rule known for this structure.

        `attempt` counts restarts from 0; attempts should differ if the rule allows.
        """

    def loss(self, Y_true: Any, Y_pred: Any, H_pred: Sequence[Any] | None = None) -> Vector:
        """Return Δ(y_i, ŷ_i, ĥ_i) per example."""


@dataclass(frozen=True)
class LatentSites:
    """The unknown latents of known outputs, by *sites* that are independent of each other given y_i.

    A box in an image is one site; a graph whose hidden nodes touch outputs only has one site per hidden node.
    """

    examples: Indices  # (G,) the example each site belongs to, ascending
    # (G + 1,) the states of site g are offsets[g] … offsets[g + 1] of M in all. A *distribution* is a vector (M,) of
    # numbers ≥ 0 that sum to 1 at each site.
    offsets: Indices


class LatentLossTask(LatentTask[B], Protocol[B]):
    """Further interface of tasks whose loss Δ(y, h, ŷ, ĥ) compares latents too, for `ModLat`.

    P is a distribution over the states of the sites of a labeled batch, in the order of `latent_sites`. A task may
    also define ``plane_losses(batch)``, which returns the current losses of planes found with other losses: then
    planes are kept while P changes.
    """

    def latent_sites(self, batch: B) -> LatentSites:
        """Return the sites and states of the latents of the known outputs."""

    def latent_scores(self, batch: B, theta: Vector) -> Vector:
        """Return θ·Φ(x_i, y_i, h) of each state, shape (M,), where Φ are the task's own features φ."""

    def latent_pull_back(self, batch: B, coefficients: Vector) -> Vector:
        """Return Σ coefficient·Φ over all states, shape (d,)."""

    def with_expected_loss(self, batch: B, P: Vector) -> B:
        """Return the batch whose augmented side has the loss Δ_i(y, h) = E_{h' ~ P}[Δ(y_i, h', y, h)]."""

    def diversity(self, batch: B, P: Vector) -> tuple[Vector, Vector]:
        """Return H_i = E_{h, h' ~ P}[Δ(y_i, h, y_i, h')] of each example, (n,), and its derivatives by P, (M,)."""

    def worst_losses(self, batch: B, w: Vector) -> Callable[[Vector], tuple[Vector, Vector]]:
        """Return the function P → max_{y,h} [s(y, h) + Δ_i(y, h; P)] at fixed w: values (n,), derivatives by P (M,)."""

    def latent_losses(self, batch: B, H_true: Sequence[Any], Y_pred: Any, H_pred: Sequence[Any]) -> Vector:
        """Return Δ(y_i, h_i, ŷ_i, ĥ_i) of each example of a labeled batch whose latents are known."""

    def point_distribution(self, batch: B, latents: Sequence[Any]) -> Vector:
        """Return the distribution concentrated on the given latents, for `IterativeLSVM`."""


class RenyiTask(LatentTask[B], Protocol[B]):
    """Further interface of tasks with `tags.renyi`: latents pooled by Rényi entropy, for `MinEntropySSVM`."""

    def renyi_pool(self, batch: B, query: Query, order: float) -> Pooled:
        """Pool outputs at ε_y by Δ_i(y) + G_α(y) with α = `order`; see `MinEntropySSVM` for G_α."""

    def renyi_decode(self, batch: B, w: Vector, order: float) -> Sequence[Prediction]:
        """Return argmax_y G_α(y) of each example."""

    def renyi_scores(self, batch: B, w: Vector, order: float) -> Any:
        """Return G_α of the outputs, for tasks with `tags.scores`."""


@dataclass
class Tally:
    """Count of oracle calls, one per example, shared by all oracles that are derived from one another."""

    calls: int = 0


@dataclass(frozen=True)
class Iteration:
    """One entry of a solver's history.

    `objective` and `gap` are those of the best weights so far. They are marked as an estimate while the solver has
    only queried its oracles at changing weights; the last entry never is.

    Attributes
    ----------
    iteration : int
        Number of the iteration within its start, from 1.
    objective, lower_bound, gap : float
        The objective, its lower bound (−inf if the solver has none), and their difference.
    oracle_calls : int
        Number of examples queried at the augmented oracle since training began.
    seconds : float
        Time since training began.
    estimate : bool
        Whether objective and gap are estimates.
    start : int
        Number of the start, from 0.
    w : ndarray of shape (d,), optional
        The best weights so far, with the value `objective`. Passed to callbacks only, and not with estimates. A
        history holds no weights; a callback must not modify them, and should drop them from entries it collects.
    validation_score : float, optional
        Validation score of `w`, in iterations after which `EarlyStopping` evaluated it. Passed to callbacks only.
    """

    iteration: int
    objective: float
    lower_bound: float
    gap: float
    oracle_calls: int
    seconds: float
    estimate: bool = False
    start: int = 0
    w: Vector | None = field(default=None, compare=False, repr=False)
    validation_score: float | None = field(default=None, compare=False)


ITERATION_COLUMNS = tuple(one for one in fields(Iteration) if one.compare)
"""Fields of an `Iteration` that are kept in a history and in files."""


@dataclass
class Result:
    """Result of a solver.

    Attributes
    ----------
    w : ndarray of shape (d,)
        The best weights found.
    objective : float
        Their objective; a lower bound of it if inference was inexact.
    lower_bound : float
        A lower bound of the objective, −inf if the solver has none. For a non-convex objective it is that of the last
        convex problem, which lies above the objective: the gap is then the precision of its solution. If sums
        over outputs or latents were approximated, it is an estimate. Never above the objective.
    oracle_calls : int
        Number of examples queried at the augmented oracle.
    n_iter : int
        Number of iterations.
    reason : str
        Why it stopped: "converged" (the gap met the tolerance, which is a proof only if certified), "max_iter",
        "max_seconds", "stalled", "interrupted", "callback", "early_stopping".
    certified : bool
        Whether the minimum lies between bound and objective: the problem is convex, the objective was found by exact
        inference, and the bound by planes that are all below.
    history : list of Iteration
        One entry per iteration.
    state : object
        State from which a later call can continue.
    start_objectives : list of float
        Final objective of each start; empty if the solver has a single start only.
    """

    w: Weights
    objective: float
    lower_bound: float
    oracle_calls: int
    n_iter: int
    reason: str
    certified: bool
    history: list[Iteration]
    state: Any = field(default=None, metadata={"context": True})
    start_objectives: list[float] = field(default_factory=list)

    __repr__ = short_repr

    @property
    def gap(self) -> float:
        """Absolute gap between objective and bound."""
        return self.objective - self.lower_bound


Callback = Callable[[Iteration], bool | str | None]
"""Called after each iteration, and with estimates during long ones. If it returns True, training stops.

If it returns "early_stopping", only the present start ends. It may also be a `BegunCallback` or a `ResumedCallback`.
"""


@runtime_checkable
class BegunCallback(Protocol):
    """A callback that learns before the first iteration how training ends."""

    def begin(self, stopping: Any) -> None:
        """Take a `latentstruct.progress.eta.StoppingRule`."""


@runtime_checkable
class ResumedCallback(Protocol):
    """A callback that learns that training resumes from a checkpoint."""

    def go_on(self, name: str, n_iter: int) -> None:
        """Take the name of the checkpoint, and the number of iterations in it."""


class Checkpointer(Protocol):
    """Where a solver stores its state, as a tree; see `latentstruct.persistence.state_trees`."""

    saved: Any
    """The state to continue from, or None."""

    @property
    def name(self) -> str:
        """Origin of the state."""

    def save(self, make_tree: Callable[[], Any], ended: str = "") -> None:
        """Store the state if it is due, and always if the run ends here, for the reason `ended`.

        To be called where a run can continue from the state alone.
        """


class Starts(Protocol):
    """Initialization of training with latent variables if no weights are known."""

    def planes(self, attempt: int) -> Planes | Plane:
        """Return planes below the clamped side, one per example or their sum, for a start, counted from 0."""


class LatentStart(Starts, Protocol):
    """Starts whose latents are known too."""

    def latents(self, attempt: int) -> Sequence[Any]:
        """Return the initial latents of a start."""

    def complete(self, latents: Sequence[Any]) -> Planes:
        """Return the planes of latents."""


class Problem(Protocol):
    """Interface of objectives that all solvers use.

    `properties` is a subset of {"convex", "difference", "smooth", "planes", "l2"}.
    """

    n_examples: int
    n_features: int
    properties: frozenset[str]

    @property
    def starts(self) -> Starts | None:
        """Initial planes if no weights are known."""

    @property
    def remembering(self) -> list[RememberingBatch]:
        """The batches whose results depend on earlier calls, each once."""
