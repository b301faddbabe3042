"""What all tasks share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar, Generic

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import issparse
from latentstruct.core.levels import LossLevels
from latentstruct.core.parameters import Parametrized
from latentstruct.core.pooling import planes_of, require_hard_max, require_labels, total_of
from latentstruct.core.protocols import (
    B,
    Batch,
    Cost,
    LatentLossTask,
    Mode,
    Pooled,
    Prediction,
    Query,
    RenyiTask,
    TaskTags,
    Temperature,
)
from latentstruct.core.types import Indices, Vector
from latentstruct.core.validation import (
    Constraint,
    check_length,
    check_lists,
    check_sparse,
    check_unmasked,
    is_ordered,
)
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Plane, Planes

__all__ = [
    "BaseTask",
    "by_rows",
    "check_examples",
    "require_hard_max",
    "require_labels",
    "require_methods",
    "require_one_latent_each",
]


def check_examples(X: Any, Y: Any, rows: bool = False) -> None:
    """Raise unless X is a non-empty collection and Y, if given, has as many items.

    A sparse matrix is a collection only where its `rows` are the examples.
    """
    if not (is_ordered(X) or (rows and issparse(X))):
        raise InputError("X", X, "a list or an array of examples")
    if issparse(X):
        check_sparse(X, "X")
    check_unmasked(X, "X")
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if n == 0:
        raise InputError("X", Description("none"), "at least one example")
    if Y is None:
        return
    if not is_ordered(Y) or isinstance(Y, str):
        raise InputError("Y", Y, "a list or an array with one output per example")
    check_unmasked(Y, "Y")
    check_length(Y, n, "Y", "outputs")


def by_rows(X: Any) -> Any:
    """Return a collection of examples; the rows of a sparse matrix in a format in which they can be taken."""
    return X.tocsr() if issparse(X) else X


def require_methods(task: "BaseTask", kind: type, *names: str, optional: Sequence[str] = ()) -> None:
    """Raise TypeError for the first named method of `kind` that its subclass does not define, or not as it is called.

    Methods in `optional` need not be defined.
    """
    own = type(task)
    for name in names:
        if getattr(own, name) is getattr(kind, name):
            raise TypeError(f"{own.__name__} does not define {name}(), which every {kind.__name__} needs")
    for name in (*names, *optional):
        if getattr(own, name) is not getattr(kind, name):
            _require_arguments(getattr(task, name), f"{own.__name__}.{name}", getattr(kind, name), task.latent)


def _require_arguments(method: Callable[..., Any], title: str, base: Callable[..., Any], latent: bool) -> None:
    """Raise TypeError unless a method can be called as the one of its base class, in the same order of arguments."""
    _, *parameters = signature(base).parameters.values()
    # An argument after * is for latents.
    wanted = [one.name for one in parameters if latent or one.kind != one.VAR_POSITIONAL]
    found = list(signature(method).parameters)
    fault = "has them in another order" if sorted(found) == sorted(wanted) and found != wanted else ""
    try:
        signature(method).bind(*wanted)
    except TypeError as error:
        fault = str(error)
    if fault:
        raise TypeError(f"{title}({', '.join(found)}) must take the arguments ({', '.join(wanted)}): {fault}")


def require_one_latent_each(batch: Batch, latents: Sequence[Any]) -> None:
    """Raise unless there is one latent per example."""
    check_lists(latents=latents)
    check_unmasked(latents, "latents")
    check_length(latents, batch.n_examples, "latents", "latents")


def outputs_of(predictions: Sequence[Any]) -> list[Any]:
    """Return the outputs of predictions; what is no `Prediction` is an output."""
    return [found.y if isinstance(found, Prediction) else found for found in predictions]


OPTIONAL = {
    **{name: name for name in ("marginals", "pair_marginals", "confidence", "scores", "topk", "sample", "min_risk")},
    "storable": "unpack",
    "exact_slack": "loss_levels",
    "renyi": "renyi_pool",
    "latent_loss": "with_expected_loss",
}
"""Tags that follow from a method that a class defines, unless its kind of tasks says otherwise."""


def defines(task: "BaseTask", method: str) -> bool:
    """Return whether a task defines an optional method of `BaseTask`."""
    return getattr(type(task), method) is not getattr(BaseTask, method)


def _missing(method: str, doc: str = "") -> Any:
    """Return the default of an optional method, with the documentation of further interfaces if none is given."""

    def undefined(self: Any, *arguments: Any, **named: Any) -> Any:
        raise TypeError(f"{type(self).__name__} does not define {method}()")

    undefined.__doc__ = doc or getattr(LatentLossTask if hasattr(LatentLossTask, method) else RenyiTask, method).__doc__
    return undefined


class BaseTask(Parametrized, Generic[B]):
    """Defaults for tasks; parameters are kept as given, what `learn` finds ends in an underscore.

    A structure defines `learn` or `learn_blocks`, `prepare`, `pool_batch`, `decode` and `loss`; planes, their sums,
    entropies, slack rescaling and threads follow from `pool_batch`. With latents it also defines `complete`,
    `completion_planes` and `random_latents`. All other methods have defaults, or are optional.
    """

    tags: ClassVar[TaskTags] = TaskTags()
    """What tasks of this class can do. Tags for optional methods follow from the methods that a class defines."""
    state_type: ClassVar[Any] = dict
    """Type that `state` is checked against when a model is loaded."""
    tag_methods: ClassVar[dict[str, str]] = OPTIONAL
    """The methods that these tags follow from."""
    constraints: ClassVar[Mapping[str, Constraint]] = {}
    """The values that parameters may have, in addition to those that base classes declare; see `check_parameters`."""
    latent: bool = False
    n_features: int
    n_inputs_: int = 0
    """Number of columns of X, where X is a matrix or has one for each example."""

    decode: Any
    # Optional methods without a default.
    learn_blocks: Any = _missing("learn_blocks", "Look at training data that come block by block.")
    pack: Any = _missing("pack", "Return a batch as arrays that can be stored.")
    unpack: Any = _missing("unpack", "Return the batch of stored arrays, which are checked and not copied.")
    true_outputs: Any = _missing("true_outputs", "Return the outputs that a batch was prepared with.")
    scores: Any = _missing("scores", "Return the scores by which the task decides, in its own shape.")
    marginals: Any = _missing("marginals", "Return the probabilities of the labels or parts of outputs.")
    pair_marginals: Any = _missing("pair_marginals", "Return the probabilities of the labels of neighbors.")
    confidence: Any = _missing("confidence", "Return the probability of each predicted label or part.")
    topk: Any = _missing(
        "topk", "Return the k best outputs of each example, the best first; fewer if there are not as many."
    )
    sample: Any = _missing("sample", "Return outputs of each example, drawn independently from P(y | x).")
    min_risk: Any = _missing("min_risk", "Return the outputs of least expected loss.")
    complete: Any = _missing("complete")
    completion_planes: Any = _missing("completion_planes")
    renyi_pool: Any = _missing("renyi_pool")
    renyi_scores: Any = _missing("renyi_scores")
    renyi_decode: Any = _missing("renyi_decode")
    latent_sites: Any = _missing("latent_sites")
    latent_scores: Any = _missing("latent_scores")
    latent_pull_back: Any = _missing("latent_pull_back")
    with_expected_loss: Any = _missing("with_expected_loss")
    diversity: Any = _missing("diversity")
    worst_losses: Any = _missing("worst_losses")
    latent_losses: Any = _missing("latent_losses")
    point_distribution: Any = _missing("point_distribution")
    outputs: Any = _missing("outputs", "Return all outputs of an example.")

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name in ("planes", "total"):
            if name in vars(cls):
                raise TypeError(f"{cls.__name__} defines {name}(), which follows from pool_batch(): define that")
        methods = cls.tag_methods.items()
        found: Any = {tag: getattr(cls, method) is not getattr(BaseTask, method) for tag, method in methods}
        cls.tags = replace(cls.tags, **found)

    def learn(self, X: Any, Y: Any) -> None:
        """Look at the training data; raise InputError if it cannot be used."""
        self.learn_blocks([(X, Y)])

    def training_examples(self, X: Any, Y: Any, weights: Any) -> tuple[Any, Any, Any]:
        """Return what `fit` trains on, given examples, outputs and weights; one number per example, or None for 1."""
        return X, Y, weights

    def label_warnings(self, Y: Any) -> list[str]:
        """Return texts of warnings about valid outputs, as where unknown parts of them are no random sample."""
        return []

    def comparable_C(self, Y: Any) -> float:
        """Return the C for outputs Y that is comparable to C = 1 of a conventional SVM."""
        return 1.0

    def prepare(self, X: Any, Y: Any = None) -> B:
        """Validate examples and lay them out in flat arrays."""
        raise TypeError(f"{type(self).__name__} does not define prepare()")

    @property
    def scores_ranking(self) -> bool:
        """Whether losses and scores are taken from `scores` instead of predictions, as for rankings."""
        return False

    def cost(self, batch: B, mode: Mode, temperature: Temperature) -> Cost:
        """Return the approximate cost of `pool_batch`; by default threads cannot share examples."""
        return Cost(np.zeros(batch.n_examples))

    def pool_batch(self, batch: B, query: Query) -> Pooled:
        """Pool the outputs and latents of the examples of a query."""
        raise TypeError(f"{type(self).__name__} does not define pool_batch()")

    def loss_levels(self, batch: B, query: Query) -> LossLevels | None:
        """Return the best outputs of each loss, by scores without losses, for exact slack rescaling.

        None, as here, means that they are not known: slack rescaling then searches answers for scaled losses.
        """
        return None

    def planes(self, batch: B, w: Vector, mode: Mode, temperature: Temperature, rows: Indices | None = None) -> Planes:
        """Return one supporting plane per example, by default of all."""
        return planes_of(self, batch, Query(w, mode, temperature, rows))

    def total(
        self, batch: B, w: Vector, mode: Mode, temperature: Temperature, weights: Vector, rows: Indices | None = None
    ) -> Plane:
        """Return the weighted sum of the planes of some examples, by default of all; `weights` are theirs."""
        return total_of(self, batch, Query(w, mode, temperature, rows, weights))

    def plane_losses(self, batch: B) -> Any:
        """Return the losses that planes found with other losses have now; None, as here, if they are not known."""
        return None

    def decode_augmented(self, batch: B, w: Vector) -> Sequence[Prediction] | None:
        """Return the outputs, and latents, that maximize s + Δ, with this value as score.

        None, as here, means that they are not decoded: then `check_task` cannot compare their losses with `loss`. If
        the task has latents, `loss` takes those of the predictions as its third argument.
        """
        return None

    def finalize(self, batch: B, w: Vector) -> None:
        """Set what training leaves open, for instance the threshold of a ranking."""

    def collect(self, outputs: list[Any]) -> Any:
        """Return predicted outputs in the form that `predict` returns."""
        return outputs

    def state(self) -> dict[str, Any] | None:
        """Return what `learn` found, for saving; None, as here, if it cannot be saved."""
        return None

    def learned_state(self) -> dict[str, Any] | None:
        """Return what fixes the meaning of the weights."""
        return self.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found."""
        raise TypeError(f"{type(self).__name__} does not define restore()")

    def follow(self, earlier: "BaseTask") -> None:
        """Keep what an earlier task has learned when this one learns; by default nothing is kept."""

    def weights_from(self, earlier: "BaseTask", w: Vector) -> Vector:
        """Return initial weights of this task from weights of an earlier one; raise if they do not correspond."""
        if self.learned_state() != earlier.learned_state():
            got = Description("a model that has learned other labels or features")
            raise InputError("init", got, "a model of the same labels and features")
        return w.copy()

    def adopt(self, state: dict[str, Any]) -> None:
        """Take over what an earlier `learn` found with other values of the parameters in `tags.refit_parameters`."""
        self.restore(state)

    def _whole_predictions(self, outputs: Iterable[Any], scores: Iterable[float]) -> list[Prediction]:
        """Return predictions of a task whose latents are whole outputs, one per example."""
        pairs = zip(outputs, scores, strict=True)
        return [Prediction(y, y if self.latent else None, score) for y, score in pairs]

    def _ranked_predictions(
        self, outputs: Iterable[Iterable[Any]], scores: NDArray[np.float64]
    ) -> list[list[Prediction]]:
        """Return such predictions of each example by scores (n, k), without those that are impossible."""
        every = (self._whole_predictions(*one) for one in zip(outputs, scores.tolist(), strict=True))
        return [[one for one in some if one.score > -np.inf] for some in every]

    def random_latents(self, batch: B, rng: np.random.Generator) -> Sequence[Any]:
        """Return random latents that fit the known outputs."""
        raise TypeError(f"{type(self).__name__} does not define random_latents()")

    def initial_latents(self, batch: B, rng: np.random.Generator, attempt: int) -> Sequence[Any]:
        """Return latents to begin training with: random ones, for want of a better rule."""
        return self.random_latents(batch, rng)

    def loss(self, Y_true: Any, Y_pred: Any) -> Vector:
        """Return Δ(y_i, ŷ_i) for each example."""
        raise TypeError(f"{type(self).__name__} does not define loss()")

    def score(self, Y_true: Any, Y_pred: Any, sample_weight: Vector | None = None) -> float:
        """Return 1 − the mean loss: 1 is perfect, and a mean loss above 1 makes it negative."""
        return 1.0 - float(np.average(self.loss(Y_true, Y_pred), weights=sample_weight))


class LikelyLatents(Generic[B]):
    """Initial latents of tasks with soft pools."""

    n_features: int
    total: Callable[..., Plane]
    complete: Any

    def initial_latents(self, batch: B, rng: np.random.Generator, attempt: int) -> Any:
        """Return the completions at weights that follow from what is known of the outputs.

        The weights are the first gradient, at w = 0, of the log-likelihood: features of known parts less those of
        uniform ones. Later attempts weight the examples at random.
        """
        weights = rng.exponential(size=batch.n_examples) if attempt else np.ones(batch.n_examples)
        nothing, soft = np.zeros(self.n_features), Temperature(1.0, 1.0)
        known, uniform = (self.total(batch, nothing, mode, soft, weights).slope for mode in ("clamped", "free"))
        return self.complete(batch, known - uniform)
