"""Motifs in reports: logo, weights, positions, letters around a site."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from latentstruct.core.validation import check_length
from latentstruct.io.meme import MemeMotif
from latentstruct.progress.display import show_number
from latentstruct.tasks.motif.sites import Site, consensus, find_sites, reverse_complement, site_matrix, weight_matrix
from latentstruct.tasks.motif.task import Motif
from latentstruct.viz.plots import plot_logo
from latentstruct.viz.plots.matrices import plot_matrix
from latentstruct.viz.plots.sequences import plot_starts
from latentstruct.viz.report.blocks import Block, Drawing, Examples, FactList, Letters, Mark

AROUND = 12
"""Number of letters shown on either side of a site."""

Strip = tuple[str, list[tuple[str, Mark]]]


def width_fact(task: Motif) -> tuple[str, str]:
    """Return the width and strands of a motif."""
    strands = {2: ", on either strand", 1: ", on the given strand" if task.alphabet_.strands == 2 else ""}
    return "width", f"{task.width} letters{strands[task.strands]}"


def logo_blocks(task: Motif, motif: MemeMotif, whose: str, significance: str | None = None) -> list[Block]:
    """Return the logo of sites and its facts; `whose` describes their sequences."""
    letters, bits = consensus(motif.matrix), motif.bits
    facts = [
        (motif.name, letters),
        *([] if significance is None else [("significance", significance)]),
        width_fact(task),
        ("information", f"{bits.sum():.1f} bits over {len(bits)} positions, relative to the background"),
        ("sites", f"{motif.n_sites} in {whose}"),
    ]
    logo = Drawing(
        lambda ax: plot_logo(motif.matrix, motif.background, ax),
        f"Sequence logo of {letters}: the most informative position is {int(bits.argmax()) + 1}, with "
        f"{bits.max():.2f} bits.",
        f"The letters of the sites found in {whose}; the height is the information of a position.",
        height=2.6,
    )
    return [logo, FactList(facts)]


def weights_block(estimator: Any) -> Block:
    """Return the weights of the letters."""
    weights = weight_matrix(estimator)
    weights = weights - weights.mean(axis=1, keepdims=True)
    width, letters = len(weights), estimator.task_.alphabet_.letters
    best = "".join(letters[k] for k in weights.argmax(axis=1))
    return Drawing(
        lambda ax: plot_matrix(weights.T, letters, range(1, width + 1), ax),
        f"Heat map of the weights of {len(letters)} letters at {width} positions; the largest are those of {best}.",
        "Weights of the letters at each position, relative to their mean: red is for the motif, blue against it.",
        height=1.4 + 0.2 * len(letters),
    )


def starts_block(sites: Sequence[Site], whose: str) -> Block:
    """Return the histogram of the starts of sites."""
    starts, strands = [site.start + 1 for site in sites], [site.strand for site in sites]
    return Drawing(
        lambda ax: plot_starts(starts, strands, ax),
        f"Histogram of the starts of {len(sites)} sites, from {min(starts)} to {max(starts)}.",
        f"Starts of the sites in {whose}, counted from 1.",
        height=2.2,
    )


def score_remark(site: Site, positive: bool) -> str:
    """Return the prediction, the truth and the score of a sequence."""
    true, other = ("positive", "negative") if positive else ("negative", "positive")
    correct = (site.score > 0) == positive
    text = f"{true}, correct" if correct else f"predicted {other}, true {true}"
    return f"{text}, score {site.score:+.3g}"


def site_letters(task: Motif, motif: str, sequence: str, site: Site, marks: list[Mark]) -> Letters:
    """Return the letters around a site, on both strands if the motif may be on either, aligned with the motif."""
    begin, end = max(0, site.start - AROUND), min(len(sequence), site.end + AROUND)
    strand = {1: " on the given strand", -1: " on the other strand", 0: ""}[site.strand]
    caption = f"The site is letters {site.start + 1} to {site.end} of {len(sequence)}{strand}, score {site.score:+.3g}."
    plain: list[Mark] = [""] * len(sequence)
    first = "5′" if site.strand else "N"
    given: Strip = (first, letter_runs(sequence, marks if site.strand >= 0 else plain, begin, end))
    below = " " * (site.start - begin + (begin > 0))
    if task.strands == 1:
        return Letters([given, ("motif", [(below + motif, "")])], caption)
    # The other strand is read from right to left.
    opposite = reverse_complement(sequence)[::-1]
    other: Strip = ("3′", letter_runs(opposite, plain if site.strand > 0 else marks, begin, end))
    found: Strip = ("motif", [(below + (motif if site.strand > 0 else motif[::-1]), "")])
    return Letters([found, given, other] if site.strand > 0 else [given, other, found], caption)


def letter_runs(letters: str, marks: list[Mark], begin: int, end: int) -> list[tuple[str, Mark]]:
    """Return the letters begin … end − 1 in runs of equal marks, with … for omitted letters."""
    grouped = groupby(range(begin, end), key=lambda k: marks[k])
    runs: list[tuple[str, Mark]] = [("".join(letters[k] for k in group), mark) for mark, group in grouped]
    more: list[tuple[str, Mark]] = [("…", "")]
    return more * (begin > 0) + runs + more * (end < len(letters))


def estimator_motif(estimator: Any, X: Any, Y: Any) -> tuple[list[Block], Examples | None]:
    """Return the weights and predictions of a motif that was trained in Python, for sequences X if there are some.

    The logo is that of the positive sequences; without labels Y, that of those predicted positive.
    """
    if X is None:
        return [weights_block(estimator)], None
    sequences, task = list(X), estimator.task_
    names = getattr(X, "names", None) or [f"sequence {k}" for k in range(1, len(sequences) + 1)]
    sites = find_sites(estimator, sequences, names)
    scores = np.array([site.score for site in sites])
    positive = scores > 0 if Y is None else np.asarray(Y) == task.classes_[1]
    check_length(positive, len(sites), "Y", "labels")
    chosen = [site for site, one in zip(sites, positive, strict=True) if one]
    blocks, motif = [weights_block(estimator)], ""
    if chosen:
        whose = "the given positive sequences"
        alphabet = task.alphabet_
        matrix = site_matrix([site.site for site in chosen], alphabet=alphabet)
        counts = [1 + sum(sequence.upper().count(letter) for sequence in sequences) for letter in alphabet.letters]
        motif = consensus(matrix)
        logo = logo_blocks(task, MemeMotif("motif", matrix, np.array(counts) / sum(counts), len(chosen)), whose)
        blocks = [*logo, *blocks, starts_block(chosen, whose)]

    def draw(i: int) -> list[Block]:
        marks: list[Mark] = [""] * len(sequences[i])
        marks[sites[i].start : sites[i].end] = ["latent"] * task.width
        return [site_letters(task, motif, sequences[i], sites[i], marks)]

    losses = None if Y is None else ((scores > 0) != positive).astype(np.float64)
    shown = [] if Y is None else [("score", show_number(estimator.score(sequences, Y), 4))]
    remarks = [
        f"score {site.score:+.3g}" if Y is None else score_remark(site, bool(one))
        for site, one in zip(sites, positive, strict=True)
    ]
    found = Examples(names, losses, "0/1 loss", remarks, draw, (), np.abs(scores), "the given sequences", shown)
    return blocks, found
