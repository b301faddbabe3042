"""Report of rankings: the first documents of queries."""

from typing import Any

import numpy as np

from latentstruct import io
from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.rank.command import name_document
from latentstruct.viz.plots.features import shorten
from latentstruct.viz.plots.rankings import MOST_DOCUMENTS, plot_ranking
from latentstruct.viz.report.blocks import Block, Drawing, Examples, TableBlock, Text

DOCUMENTS_SHOWN = 12
"""Rows of a table, unless k is more."""
LONGEST_NAME = 60


def examples(model: Trained, queries: "io.Queries", scores: Any) -> Examples:
    """Return the rankings of queries, with the loss that the model was trained for."""
    estimator, k = model.estimator, model.record.k
    latent = bool(estimator.task_.latent)
    return Examples(
        [shorten(f"query {name}", LONGEST_NAME) for name in queries.ids],
        estimator.loss(queries.X, queries.Y),
        f"fraction of irrelevant documents among the first {k}" if latent else "fraction of pairs in the wrong order",
        [_remark(found, grades, k) for found, grades in zip(scores, queries.Y, strict=True)],
        lambda i: _draw(model, queries, i, scores[i]),
    )


def _remark(scores: Any, grades: Any, k: int) -> str:
    first = np.argsort(-scores, kind="stable")[:k]
    n_relevant, hits = int((grades > 0).sum()), int((grades[first] > 0).sum())
    return f"{hits} of the first {len(first)} are relevant, {n_relevant} of all {len(grades)}"


def _draw(model: Trained, queries: "io.Queries", i: int, scores: Any) -> list[Block]:
    """Return the sorted scores, the first documents, and the latent choice."""
    grades, k = queries.Y[i], model.record.k
    order = np.argsort(-scores, kind="stable")
    names = [name_document(text) or f"document {j + 1}" for j, text in enumerate(queries.documents[i])]
    drawing = Drawing(
        lambda ax: plot_ranking(scores, grades, k, ax),
        f"Bars of the scores of {min(len(order), MOST_DOCUMENTS)} documents, the highest first: "
        f"{_remark(scores, grades, k)}.",
        "Scores, the highest first: filled bars are relevant documents, with their grades; the dashed line is after "
        f"rank {k}." + (f" The first {MOST_DOCUMENTS} of {len(order)}." if len(order) > MOST_DOCUMENTS else ""),
        height=2.3,
    )
    chosen = set()
    if model.estimator.task_.latent:
        chosen = set(model.estimator.complete(queries.X[i : i + 1], queries.Y[i : i + 1])[0].tolist())
    shown = order[: max(k, DOCUMENTS_SHOWN)].tolist()
    columns = ("document", *(["latent choice"] if chosen else []), "rank", "grade", "score")
    rows = [
        [
            shorten(names[j], LONGEST_NAME),
            *(["yes" if j in chosen else ""] if chosen else []),
            place,
            grades[j],
            scores[j],
        ]
        for place, j in enumerate(shown, 1)
    ]
    title = f"The first {len(shown)} of {len(order)} documents" if len(shown) < len(order) else "The documents"
    blocks: list[Block] = [drawing, TableBlock(title, columns, rows, n_text=len(columns) - 3)]
    if chosen:
        lower = [names[j] for j in order[len(shown) :].tolist() if j in chosen]
        more = f" Further down: {shorten(', '.join(lower), 300)}." if lower else ""
        chosen_by = "relevant ones before others, by their scores"
        blocks.append(Text(f"The latent choice is what training puts first with these weights: {chosen_by}.{more}"))
    return blocks
