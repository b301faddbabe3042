"""What models answer beside their best outputs: the k best ones, samples, completions, outputs of least risk."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from latentstruct.cli.declaring import option, rules_option, seed_option, skip_bad_option
from latentstruct.exceptions import InputError

BEST, RISK, F1 = "best", "risk", "f1"
FREE = frozenset({"confidence", "text", "rules", "skip_bad", "seed"})
"""Options of answers that may be combined with all others."""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How outputs are chosen."""

    decode: Literal["best", "risk", "f1"] = option(
        BEST,
        "Outputs that are the best ones, have the least expected loss (exact for tokens and nodes, of other kinds the "
        "best among 100 samples), or the largest expected F1 of spans or constituents (the best among 100 samples).",
    )
    seed: int = seed_option()

    @property
    def given_answers(self) -> dict[str, Any]:
        """The options of answers that differ from their defaults, by their names."""
        names = {one.name for one in fields(Answers)}
        values = ((one.name, getattr(self, one.name), one.default) for one in fields(self) if one.name in names)
        return {name: value for name, value, default in values if value != default}


@dataclass(frozen=True, kw_only=True)
class Answers(Decoding):
    """What is predicted."""

    confidence: bool = option(False, "Chains, spans: add the probability of each label or span.")
    text: bool = option(
        False, "Chains, spans: DATA is plain text, a sentence on each line, which is divided into tokens."
    )
    rules: str | None = rules_option()
    skip_bad: bool = skip_bad_option()
    topk: int | None = option(
        None,
        "Number of best outputs of each example to write, with their probabilities.",
        metavar="K",
        min=1,
        shown="1",
    )
    samples: int | None = option(
        None, "Number of outputs to draw for each example by their probabilities.", metavar="N", min=1, shown="none"
    )
    pins: bool = option(
        False, "Labels, spans or aligned columns in DATA are fixed, and the rest is predicted; ? is an unknown label."
    )

    @property
    def several(self) -> bool:
        """Whether there are several outputs of an example."""
        return self.topk is not None or self.samples is not None

    def refuse_confidence(self, estimator: Any) -> None:
        """Raise if probabilities of parts cannot be written: with other answers, or of a model without them."""
        for name in self.given_answers:
            if name not in FREE - {"seed"}:
                raise InputError("confidence", True, f"left out with `{name}`")
        require_probabilities(estimator, "confidence", True)


def check_answers(given: Mapping[str, Any], supported: frozenset[str], name: str) -> None:
    """Raise unless a kind of model supports the options of answers that are given, and they can be combined."""
    for key, value in given.items():
        if key not in supported | {"seed"} or (key == "decode" and value not in supported):
            raise InputError(key, value, f"left out for a {name} model")
    chosen = {key: value for key, value in given.items() if key not in FREE}
    if chosen.keys() >= {"pins", "decode"} or len(chosen.keys() - {"pins"}) > 1:
        (key, value), *_, (other, _) = chosen.items()
        raise InputError(key, value, f"left out with `{other}`")


def has_probabilities(estimator: Any) -> bool:
    """Return whether a model has probabilities, or only scores."""
    temperature = estimator._temperature()
    return estimator.calibrated_temperature_ is not None or bool(temperature.output > 0 or temperature.latent > 0)


def judged(estimator: Any, X: Any, Y: Any, is_right: Callable[[Any, Any], list[bool | None]]) -> tuple[Any, Any]:
    """Return whether each part of the predictions is right, and its probability; unknown parts are left out."""
    predicted = estimator.predict(X)
    if estimator.task_.tags.classifier:
        places = {label: k for k, label in enumerate(estimator.task_.classes_.tolist())}
        chosen = [places[label] for label in predicted.tolist()]
        return [a == b for a, b in zip(Y, predicted.tolist(), strict=True)], estimator.marginals(X)[
            range(len(Y)), chosen
        ]
    right = [flag for pair in zip(Y, predicted, strict=True) for flag in is_right(*pair)]
    shares = [share for one in estimator.confidence(X) for share in one.tolist()]
    known = [(flag, share) for flag, share in zip(right, shares, strict=True) if flag is not None and share == share]
    return [flag for flag, _ in known], [share for _, share in known]


class Answer(NamedTuple):
    """One of several outputs of an example, with its rank from 1 and its probability or score, None for samples."""

    example: int
    y: Any
    rank: int
    measure: str
    value: float | None

    @property
    def note(self) -> dict[str, float | int]:
        """Rank and value by their names."""
        return {"rank": self.rank, **({} if self.value is None else {self.measure: float(f"{self.value:.6g}")})}


def several(estimator: Any, X: Any, answers: Answers, fixed: Sequence[Any] | None = None) -> list[Answer]:
    """Return the k best outputs of each example with their probabilities, or else scores; or samples.

    Parts of outputs may be fixed; probabilities are those given these parts.
    """
    if answers.samples is not None:
        require_probabilities(estimator, "samples", answers.samples)
        drawn = estimator.sample(X, answers.samples, random_state=answers.seed, y=fixed)
        return [Answer(i, y, rank, "sample", None) for i, ys in enumerate(drawn) for rank, y in enumerate(ys, 1)]
    best = estimator.predict_topk(X, answers.topk, y=fixed)
    found = [(i, one, rank) for i, some in enumerate(best) for rank, one in enumerate(some, 1)]
    measure, values = "score", [one.score for _, one, _ in found]
    if has_probabilities(estimator) and found:
        inputs = [X[i] for i, _, _ in found]
        measure, values = "probability", estimator.log_probability(inputs, [one.y for _, one, _ in found]).tolist()
        if fixed is not None:
            given = estimator.log_probability(X, fixed).tolist()
            values = [value - given[i] for value, (i, *_) in zip(values, found, strict=True)]
        values = [min(1.0, math.exp(value)) for value in values]
    return [Answer(i, one.y, rank, measure, value) for (i, one, rank), value in zip(found, values, strict=True)]


def chosen(estimator: Any, X: Any, answers: Decoding, loss: Callable[..., Any] | None) -> Sequence[Any]:
    """Return one output of each example; `loss` is that of the least risk, by default the one of the task."""
    if answers.decode == BEST:
        return list(estimator.predict(X))
    require_probabilities(estimator, "decode", answers.decode)
    return list(estimator.predict_min_risk(X, loss, random_state=answers.seed))


def require_probabilities(estimator: Any, name: str, value: Any) -> None:
    """Raise if a model has no probabilities."""
    if not has_probabilities(estimator):
        expected = f"left out for a {type(estimator).__name__}, which has no probabilities"
        raise InputError(name, value, expected, "Or train with --calibrate.")
