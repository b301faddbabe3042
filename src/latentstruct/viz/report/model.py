"""The report of a trained model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.core.protocols import TransitionWeights
from latentstruct.estimators.pipeline import FeaturePipeline
from latentstruct.exceptions import InputError
from latentstruct.progress.display import show_number, stop_text
from latentstruct.tasks import Motif
from latentstruct.viz.plots import has_gaps, plot_convergence, plot_gap, plot_restarts, plot_states
from latentstruct.viz.report.blocks import Block, Drawing, Examples, FactList, TableBlock, Text
from latentstruct.viz.report.motifs import estimator_motif, weights_block
from latentstruct.viz.report.page import Page, Section
from latentstruct.viz.report.predictions import estimator_examples, prediction_blocks
from latentstruct.viz.report.words import is_perceptron, model_in_words, training_in_words, why_not_certified

if TYPE_CHECKING:
    from latentstruct.cli.kind import KindSpec, Trained
    from latentstruct.estimators.folds import FoldScores

__all__ = ["estimator_page", "model_page"]

LABELS_SHOWN = 30
MOST_TRANSITIONS = 25


@dataclass(frozen=True)
class _Subject:
    """A fitted estimator with its name, task and origin."""

    estimator: Any
    name: str
    task: str
    library: str
    n_examples: int | None = None
    seconds: float | None = None


def model_page(
    kind: "KindSpec | None",
    model: "Trained",
    examples: Examples | None,
    out_of_fold: Sequence[tuple[str, str]] = (),
    choices: "Sequence[FoldScores]" = (),
) -> Page:
    """Return the page of a model trained by the command, or saved from Python if `kind` is None.

    Out-of-fold scores are shown first, then predictions if there are `examples`; `choices` are the scores of folds by
    which parameters were chosen.
    """
    from latentstruct.persistence.models import read_settings

    library = read_settings(model.path).library
    name = model.path.resolve().name
    if kind is None:
        task = type(model.estimator.task_).__name__
        subject = _Subject(model.estimator, name, task, library)
        return _page(subject, _general_weight_blocks(model.estimator), examples)
    record = model.record
    subject = _Subject(model.estimator, name, kind.name, library, record.n_examples, record.seconds)
    return _page(subject, kind.weight_blocks(model), examples, out_of_fold, choices, kind.lead_blocks(model))


def estimator_page(model: Any, X: Any = None, Y: Any = None) -> Page:
    """Return the page of a fitted estimator or pipeline; see `latentstruct.viz.report.write_report`."""
    from latentstruct import __version__

    if isinstance(model, FeaturePipeline):
        model, X = model.fitted, None if X is None else model.transform(X)
    if not (hasattr(model, "coef_") and hasattr(model, "task_")):
        raise InputError("model", model, "a fitted estimator")
    if X is None and Y is not None:
        raise InputError("X", None, "given together with `Y`")
    subject = _Subject(model, type(model).__name__, type(model.task_).__name__, __version__)
    if isinstance(model.task_, Motif):
        return _page(subject, *estimator_motif(model, X, Y))
    examples = None if X is None else estimator_examples(model, X, Y)
    return _page(subject, _general_weight_blocks(model), examples)


def _page(
    subject: _Subject,
    weights: Sequence[Block],
    examples: Examples | None,
    out_of_fold: Sequence[tuple[str, str]] = (),
    choices: "Sequence[FoldScores]" = (),
    lead_blocks: Sequence[Block] = (),
) -> Page:
    # The scores are shown at the top, and again with the predictions.
    scores = [] if examples is None else [(name, f"{value} ({examples.source})") for name, value in examples.scores]
    predictions: Sequence[Block] = [Text("Pass data to see predictions here.")]
    lead = ""
    if examples is not None:
        predictions, lead = prediction_blocks(examples), f"Data: {examples.source}."
    sections = [
        *([Section("Findings", lead_blocks)] if lead_blocks else []),
        Section("Summary", [FactList([*out_of_fold, *scores, *_facts(subject)])]),
        *(Section(f"Choice of {one.parameter}", [_choice_block(one)], f"{one.describe()}.") for one in choices),
        Section("Predictions", predictions, lead),
        Section("Weights", weights or [Text("There are no plots for these weights.")]),
        Section("Timing", _timing_blocks(subject)),
        Section("Training", _training_blocks(subject.estimator), " ".join(training_in_words(subject.estimator))),
    ]
    written = datetime.now().strftime("%Y-%m-%d %H:%M")
    title = f"{subject.name}: {subject.task}"
    return Page(title, f"{type(subject.estimator).__name__} {_sizes(subject)}", sections, [("written", written)])


def _choice_block(choice: "FoldScores") -> Block:
    """Return the plot of held-out scores."""
    alt = f"Mean score of the folds over {choice.parameter}; {choice.describe()}."
    return Drawing(choice.plot, alt, "Mean of the folds and its standard error.")


def _sizes(subject: _Subject) -> str:
    parts = [f"with {len(subject.estimator.coef_)} weights"]
    if subject.n_examples is not None:
        parts.append(f"trained on {subject.n_examples} examples")
    return ", ".join(parts)


def _facts(subject: _Subject) -> list[tuple[str, str]]:
    estimator = subject.estimator
    task = estimator.task_
    params = {name: value for name, value in estimator.get_params(deep=False).items() if name != "task"}
    options = ", ".join(f"{name} {value}" for name, value in params.items() if value is not None and value is not False)
    facts = [("task", f"{subject.task} ({task!r})"), ("model", model_in_words(estimator)), ("options", options)]
    if subject.n_examples is not None:
        facts.append(("examples", str(subject.n_examples)))
    if task.n_inputs_:
        facts.append(("features", str(task.n_inputs_)))
    facts.append(("weights", f"{len(estimator.coef_)}, {int((estimator.coef_ != 0).sum())} nonzero"))
    if hasattr(task, "labels_"):
        # Labels of a motif are a plain pair, those of other tasks are indexed.
        labels = list(getattr(task.labels_, "labels", task.labels_))
        more = ", …" if len(labels) > LABELS_SHOWN else ""
        facts.append((f"{len(labels)} labels", ", ".join(map(str, labels[:LABELS_SHOWN])) + more))
    facts.append(("trained with", f"latentstruct {subject.library}"))
    if subject.seconds is not None:
        facts.append(("training time", _time(subject.seconds)))
    return facts


def _training_blocks(estimator: Any) -> list[Block]:
    """Return objective, bound, stopping reason and training curves."""
    facts = [("objective", show_number(estimator.objective_, 8))]
    if math.isfinite(estimator.lower_bound_) and not is_perceptron(estimator):
        what = "lower bound of the last convex problem" if estimator.task_.latent else "lower bound"
        facts += [
            (what, show_number(estimator.lower_bound_, 8)),
            ("relative gap", show_number(estimator.relative_gap_, 3)),
        ]
        facts.append(("certified", "yes" if estimator.certified_ else f"no, because {why_not_certified(estimator)}"))
    ended = estimator.stop_reason_, estimator.n_iter_, estimator.relative_gap_, estimator.certified_
    facts.append(("stopped", stop_text(*ended)))
    blocks: list[Block] = [FactList(facts)]
    if not estimator.history_:
        blocks.append(Text("The training history was not saved with this model."))
    else:
        blocks += _convergence(estimator)
    if len(estimator.restart_objectives_) > 1:
        blocks += _restarts(estimator)
    return blocks


def _convergence(estimator: Any) -> list[Block]:
    kept = int(np.argmin(estimator.restart_objectives_))
    lines = [line for line in estimator.history_ if line.start == kept] or estimator.history_
    first, last = lines[0], lines[-1]
    bounded = has_gaps(estimator) and not is_perceptron(estimator)
    meet = " They meet at convergence." if estimator.stop_reason_ == "converged" else ""
    if estimator.task_.latent:
        meet = " The bound is that of each iteration's convex problem."
    blocks: list[Block] = [
        Drawing(
            lambda ax: plot_convergence(estimator, ax),
            f"Line plot of the objective over the iterations, from {show_number(first.objective, 4)} in the "
            f"first to {show_number(last.objective, 4)} in the last.",
            f"The objective{' and its lower bound' if bounded else ''} during training.{meet if bounded else ''}",
        )
    ]
    if bounded:
        blocks.append(
            Drawing(
                lambda ax: plot_gap(estimator, ax),
                "Line plot of the relative gap between objective and bound over the iterations, on a "
                f"logarithmic axis, ending at {show_number(estimator.relative_gap_, 3)}.",
                "Gap between objective and lower bound, relative to the objective.",
                height=2.6,
            )
        )
    return blocks


def _restarts(estimator: Any) -> list[Block]:
    reached = estimator.restart_objectives_
    best = int(np.argmin(reached))
    rows = [
        (f"{k + 1}{' (best)' if k == best else ''}", show_number(value, 7), _above(value, reached[best]))
        for k, value in sorted(enumerate(reached), key=lambda pair: pair[1])
    ]
    return [
        Drawing(
            lambda ax: plot_restarts(estimator, ax),
            f"Final objectives of {len(reached)} starts, from {show_number(min(reached))} to "
            f"{show_number(max(reached))}.",
            "Final objective of each start. If starts differ much, more of them may find better weights.",
            height=2.6,
        ),
        TableBlock("Starts by increasing objective", ("start", "objective", "above the best"), rows),
    ]


def _above(value: float, best: float) -> str:
    return f"{show_number(100 * (value - best) / max(abs(best), 1e-12), 3)} %"


def _general_weight_blocks(estimator: Any) -> list[Block]:
    """Return the plots of weights that exist for any estimator."""
    from latentstruct.viz.plots.matrices import plot_transitions

    if isinstance(estimator.task_, Motif):
        return [weights_block(estimator)]
    blocks: list[Block] = []
    if isinstance(estimator.task_, TransitionWeights):
        n_labels = len(estimator.task_.labels_.labels)
        blocks.append(
            Drawing(
                lambda ax: plot_transitions(estimator, ax, MOST_TRANSITIONS),
                f"Heat map of the weights of transitions between {n_labels} labels.",
                "Weights of transitions from a label (row) to the next (column): red is positive, blue negative.",
                height=2.2 + 0.22 * min(n_labels, MOST_TRANSITIONS),
            )
        )
    if getattr(estimator, "states_", None) is not None:
        n_labels, n_states = estimator.states_.shape
        blocks.append(
            Drawing(
                lambda ax: plot_states(estimator, ax=ax),
                f"Bars of the norms of the weights of {n_states} latent states for {n_labels} classes.",
                "Norms of the weights of each latent state; a state with zero weights is not used.",
            )
        )
    return [*blocks, *_spread_of_weights(estimator)]


def _spread_of_weights(estimator: Any) -> list[Block]:
    weights = estimator.coef_[estimator.coef_ != 0]
    if not len(weights):
        return [Text("All weights are 0.")]

    def draw(ax: Any) -> None:
        ax.hist(weights, bins=min(50, max(10, len(weights) // 10)), log=True)
        ax.set_xlabel("weight")
        ax.set_ylabel("number of weights")
        ax.spines[["top", "right"]].set_visible(False)

    low, high = show_number(float(weights.min()), 4), show_number(float(weights.max()), 4)
    alt = f"Histogram of the {len(weights)} nonzero weights, from {low} to {high}, on a logarithmic axis."
    return [Drawing(draw, alt, "Distribution of the nonzero weights.", height=2.6)]


def _timing_blocks(subject: _Subject) -> list[Block]:
    estimator = subject.estimator
    facts = [] if subject.seconds is None else [("training time", _time(subject.seconds))]
    calls = estimator.n_oracle_calls_
    facts.append(("oracle calls", f"{calls} (loss-augmented inference, one per example)"))
    if estimator.history_:
        seconds = estimator.history_[-1].seconds
        facts.append(("time of all iterations", _time(seconds)))
        n_iter = sum({line.start: line.iteration for line in estimator.history_}.values())
        facts.append(("time per iteration", f"{_time(seconds / max(n_iter, 1))} on average over {n_iter}"))
        if calls and seconds:
            facts.append(("oracle calls per second", f"{calls / seconds:.0f}"))
    starts = _starts(estimator.history_)
    blocks: list[Block] = [FactList(facts)]
    if len(starts) > 1:
        columns = ("start", "iterations", "oracle calls", "time (s)", "fraction of time")
        blocks.append(TableBlock("Time per start", columns, starts))
    return blocks


def _starts(history: Sequence[Any]) -> list[tuple[str, int, int, str, str]]:
    """Return iterations, oracle calls and time of each start; a history counts from the first one on."""
    last: dict[int, Any] = {line.start: line for line in history}
    total = max((line.seconds for line in last.values()), default=0.0)
    rows, calls, seconds = [], 0, 0.0
    for start, line in last.items():
        spent = line.seconds - seconds
        share = f"{100 * spent / total:.0f} %" if total else "–"
        rows.append((str(start + 1), line.iteration, line.oracle_calls - calls, f"{spent:.2f}", share))
        calls, seconds = line.oracle_calls, line.seconds
    return rows


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{show_number(1000 * seconds, 3)} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"
