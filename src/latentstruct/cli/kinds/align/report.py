"""Report of alignments: scores of letters and gaps, and pairs with correct and wrong matches."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from latentstruct.cli.kind import Trained
from latentstruct.io.alignments import SequencePairs
from latentstruct.viz.plots.features import shorten
from latentstruct.viz.plots.matrices import plot_substitutions
from latentstruct.viz.report.blocks import Block, Drawing, Examples, FactList, Letters, Mark, TableBlock, Text

PER_LINE = 60
MOST_LINES = 12
AROUND = 10
"""Number of letters that are shown on either side of the aligned part."""
LONGEST_NAME = 16
TOP_PAIRS = 12
CAPTION = (
    "Between the sequences, | is a match of the reference, : one within the shift that counts as correct, × a wrong "
    "match, and ? a match of letters that the reference does not align."
)


Line = tuple[str, list[tuple[str, Mark]]]
MISSED: tuple[Mark, Mark] = "", "missed"
"""Marks of a letter against a gap: whether the reference aligns it."""


class Column(NamedTuple):
    """A column of an alignment: the letters or gaps of both sequences, the sign between them and its mark."""

    first: str
    sign: str
    second: str
    mark: Mark
    first_at: int | None
    second_at: int | None


def weight_blocks(model: Trained) -> list[Block]:
    """Return the substitution matrix, the strongest substitutions, and the costs of gaps."""
    task, w = model.estimator.task_, model.estimator.coef_
    letters, scores = task.substitution_matrix(w)
    opening, further = task.gap_costs(w)
    facts = FactList(
        [
            ("first letter against a gap", f"costs {opening:.4g}"),
            ("each further letter", f"costs {further:.4g}"),
            ("a letter against itself", f"scores {float(np.diag(scores).mean()):.4g} on average"),
        ]
    )
    best = letters[int(np.diag(scores).argmax())]
    matrix = Drawing(
        lambda ax: plot_substitutions(scores, letters, ax),
        f"Heat map of the scores of {len(letters)} letters against each other; {best} against itself is the highest of "
        "the diagonal.",
        "Scores of letters against each other: red is positive, blue negative.",
        width=6.0,
        height=5.0,
    )
    return [matrix, facts, _strongest(letters, scores)]


def _strongest(letters: str, scores: Any) -> TableBlock:
    """Return the pairs of different letters with the highest and lowest scores."""
    means = (scores + scores.T) / 2
    rows, columns = np.triu_indices(len(letters), 1)
    order = np.argsort(-means[rows, columns], kind="stable")
    shown = [*order[: TOP_PAIRS // 2], *order[-(TOP_PAIRS // 2) :]] if len(order) > TOP_PAIRS else order
    table = [[f"{letters[rows[k]]} and {letters[columns[k]]}", f"{means[rows[k], columns[k]]:+.4g}"] for k in shown]
    return TableBlock("Highest and lowest scores of different letters", ("letters", "score"), table)


def examples(model: Trained, data: tuple[SequencePairs, list[Any]], predicted: list[Any]) -> Examples:
    """Return predicted alignments of pairs, with correct, wrong and missed matches."""
    pairs, task = data[0], model.estimator.task_
    truths, shift = pairs.matches or [], int(task.tolerance)
    return Examples(
        [f"{shorten(a)} and {shorten(b)}" for a, b in pairs.names],
        task.loss(truths, predicted),
        "fraction of matches not found",
        [
            f"{len(truth)} matches in the reference, {len(found)} predicted"
            for truth, found in zip(truths, predicted, strict=True)
        ],
        lambda i: _draw(pairs.names[i], pairs.sequences[i], truths[i], predicted[i], shift),
    )


def _draw(names: tuple[str, str], sequences: tuple[str, str], truth: Any, found: Any, shift: int) -> list[Block]:
    columns = list(align_columns(sequences, truth, found, shift))
    marked = [k for k, column in enumerate(columns) if column.mark]
    if not marked:
        return [Text("Neither the prediction nor the reference aligns anything.")]
    columns = columns[max(0, marked[0] - AROUND) : marked[-1] + 1 + AROUND]
    n_shown = min(len(columns), PER_LINE * MOST_LINES)
    lines = [line for k in range(0, n_shown, PER_LINE) for line in _lines(names, columns[k : k + PER_LINE])]
    more = f" {len(columns) - n_shown} further columns are not shown." if len(columns) > n_shown else ""
    return [Letters(lines[:-1], CAPTION + more)]


def align_columns(sequences: tuple[str, str], truth: Any, found: Any, shift: int) -> Iterator[Column]:
    """Yield the columns of a predicted alignment; letters between matches are opposite gaps."""
    partner = dict(truth.tolist())
    partners = (partner, {j: i for i, j in partner.items()})
    at = [0, 0]
    for match in [*found.tolist(), [len(one) for one in sequences]]:
        for side in (0, 1):
            for k in range(at[side], match[side]):
                letter, mark = sequences[side][k], MISSED[k in partners[side]]
                yield Column("-", " ", letter, mark, None, k) if side else Column(letter, " ", "-", mark, k, None)
        at = [match[0] + 1, match[1] + 1]
        if match[0] < len(sequences[0]):
            yield _matched(sequences, match[0], match[1], partners, shift)


def _matched(sequences: tuple[str, str], i: int, j: int, partners: tuple[dict, dict], shift: int) -> Column:
    true_j = partners[0].get(i)
    mark: Mark = "wrong"
    sign = "×"
    if true_j is not None and abs(true_j - j) <= shift:
        sign, mark = "|" if true_j == j else ":", "right"
    elif true_j is None and j not in partners[1]:
        sign, mark = "?", "unknown"
    return Column(sequences[0][i], sign, sequences[1][j], mark, i, j)


def _lines(names: tuple[str, str], columns: list[Column]) -> list[Line]:
    """Return both sequences, the signs between them, and an empty line.

    Names are followed by the number of the first letter, from 1.
    """
    lines: list[Line] = []
    for name, letters, places in (
        (names[0], [one.first for one in columns], [one.first_at for one in columns]),
        (None, [one.sign for one in columns], []),
        (names[1], [one.second for one in columns], [one.second_at for one in columns]),
    ):
        first = next((k + 1 for k in places if k is not None), None)
        head = "" if name is None else f"{shorten(name, LONGEST_NAME)} {first or ''}".rstrip()
        lines.append((head, _runs(letters, columns if name is not None else None)))
    return [*lines, ("", [(" ", "")])]


def _runs(letters: list[str], columns: list[Column] | None) -> list[tuple[str, Mark]]:
    """Join letters with the same mark; gaps and signs have none."""
    marks: list[Mark] = ["" if columns is None or one == "-" else columns[k].mark for k, one in enumerate(letters)]
    grouped = groupby(zip(letters, marks, strict=True), key=lambda one: one[1])
    return [("".join(letter for letter, _ in group), mark) for mark, group in grouped]
