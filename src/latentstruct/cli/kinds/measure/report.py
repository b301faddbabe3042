"""Report of two classes: the strongest weights, the distribution of scores, and contributions to predictions."""

from typing import Any

import numpy as np

from latentstruct.cli.blocks import contribution_table, outcome, row_of, strongest_bars
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.measure.command import KIND, name_measure, threshold_of
from latentstruct.viz.plots.features import plot_scores, shorten
from latentstruct.viz.report.blocks import Block, Drawing, Examples, FactList


def weight_blocks(model: Trained) -> list[Block]:
    """Return the threshold and the strongest weights."""
    record, task = model.record, model.estimator.task_
    weights = model.estimator.coef_[: task.n_inputs_]
    facts = FactList(
        [
            ("trained for", name_measure(record.optimized, task.beta)),
            ("positive", shorten(record.positive)),
            (
                "threshold",
                f"{threshold_of(model.estimator):.4g}: a sample whose weighted features exceed it is positive",
            ),
            ("weights", f"{task.n_inputs_}, {int(np.count_nonzero(weights))} nonzero"),
        ]
    )
    meaning = f"positive weights are for {shorten(record.positive)}, negative ones against it"
    return [facts, strongest_bars(KIND.weight_names(model), weights, meaning)]


def examples(model: Trained, data: tuple[Any, Any], scores: Any) -> Examples:
    """Return predicted classes of samples, with the contributions of features."""
    (X, truth), record = data, model.record
    margins = np.where(truth, scores, -scores)
    # A score of exactly 0 makes a sample negative.
    wrong = (scores > 0) != truth
    names = (shorten(record.positive), shorten(record.negative))
    spread = Drawing(
        lambda ax: plot_scores(scores, truth, names, ax),
        f"Histograms of the scores of {int(truth.sum())} samples that are {names[0]} and {int((~truth).sum())} others.",
        "Scores of the samples of both classes; those to the right of the threshold are predicted positive. Outliers "
        "are counted in the outermost bars.",
        height=2.8,
    )
    return Examples(
        [f"sample {i}" for i in range(1, len(truth) + 1)],
        # A wrong sample on the threshold itself has a tiny loss.
        np.where(wrong, np.maximum(-margins, np.finfo(np.float64).tiny), 0.0),
        "distance on the wrong side",
        [_remark(names, *one) for one in zip(truth.tolist(), wrong.tolist(), scores.tolist(), strict=True)],
        lambda i: _draw(model, X, i, float(scores[i])),
        [spread],
    )


def _remark(names: tuple[str, str], positive: bool, wrong: bool, score: float) -> str:
    truth, other = names if positive else names[::-1]
    return f"{outcome(truth, other if wrong else truth)}, score {score:+.3g}"


def _draw(model: Trained, X: Any, i: int, score: float) -> list[Block]:
    record, estimator = model.record, model.estimator
    columns, values = row_of(X, i)
    name_of = record.feature_name
    threshold = threshold_of(estimator)
    side = "above" if score > 0 else "not above"
    return [
        contribution_table(
            f"Contributions for {shorten(record.positive)} (positive) and against it (negative)",
            [name_of(k) for k in columns.tolist()],
            values,
            estimator.coef_[columns],
            f"The sum is {side} the threshold {threshold:.4g}, so the prediction is "
            f"{shorten(record.positive if score > 0 else record.negative)}.",
        )
    ]
