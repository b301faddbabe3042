"""What a report shows of motifs: their logo and weights, and sequences with the sites that were found in them."""

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from latentstruct.cli.kinds import Trained
from latentstruct.cli.motif import MEME_FILE, SITES_FILE, MotifKind, compare_scores
from latentstruct.cli.motif_files import JudgedSequences, KnownSites, is_hit, share_of_sites_hit
from latentstruct.formats.fasta import read_sites
from latentstruct.formats.meme import read_meme
from latentstruct.motifs import Site, find_sites, reverse_complement, weight_matrix
from latentstruct.plots import plot_logo
from latentstruct.plots.features import can_write, shorten
from latentstruct.plots.matrices import plot_matrix
from latentstruct.plots.sequences import MOST_SEQUENCES, plot_sites, plot_starts
from latentstruct.report.blocks import Block, Drawing, Examples, FactList, Letters, Mark, Text

AROUND = 12
"""Letters that are shown on either side of a site."""
LONGEST_SITE = 80
"""Letters that are shown of a known site at most."""


def weight_blocks(model: Trained) -> list[Block]:
    """Return the logo, the weights of the letters, and where the sites of the training data lie."""
    task, weights = model.estimator.task_, weight_matrix(model.estimator)
    weights = weights - weights.mean(axis=1, keepdims=True)
    consensus = model.record.consensus
    matrix = Drawing(
        lambda ax: plot_matrix(weights.T, "ACGT", range(1, task.width + 1), ax),
        f"Heat map of the weights of four letters at {task.width} positions; the consensus is {consensus}.",
        "Weights of the letters at each position, against their mean there: red speaks for the motif, blue against it.",
        height=2.2,
    )
    return [*_logo(model), matrix, *_starts(model.path / SITES_FILE)]


def _logo(model: Trained) -> list[Block]:
    """Return the logo of the sites that training found, from the file that it wrote beside the model."""
    path, task = model.path / MEME_FILE, model.estimator.task_
    facts = [
        ("consensus", model.record.consensus),
        ("width", f"{task.width} letters, on {'either strand' if task.strands == 2 else 'the given strand'}"),
    ]
    if not path.exists():
        return [FactList(facts), Text(f"There is no {MEME_FILE} beside the model, so its logo cannot be drawn.")]
    motif = read_meme(path)[0]
    bits = np.sum(motif.matrix * np.log2(np.maximum(motif.matrix, 1e-300) / motif.background), axis=1)
    facts.append(("information", f"{bits.sum():.1f} bits over {len(bits)} positions, against the letters elsewhere"))
    facts.append(("sites", f"{motif.n_sites}, one in each positive sequence"))
    logo = Drawing(
        lambda ax: plot_logo(motif.matrix, motif.background, ax),
        f"Sequence logo of {model.record.consensus}: the most informative position is {int(bits.argmax()) + 1}, with "
        f"{bits.max():.2f} bits.",
        "The letters of the sites found in the positive sequences of training; the higher, the more a position tells.",
        height=2.6,
    )
    return [logo, FactList(facts)]


def _starts(path: Path) -> list[Block]:
    if not path.exists():
        return [Text(f"There is no {SITES_FILE} beside the model, so the places of its sites cannot be drawn.")]
    sites = read_sites(path)
    starts, strands = [site.start for site in sites], [site.strand for site in sites]
    low, high = min(starts), max(starts)
    return [
        Drawing(
            lambda ax: plot_starts(starts, strands, ax),
            f"Histogram of the first letters of {len(sites)} sites, from {low} to {high}.",
            "Where the sites begin in the positive sequences of training, counted from 0.",
            height=2.2,
        )
    ]


def examples(model: Trained, data: JudgedSequences, source: str) -> Examples:
    """Return predictions for sequences, with the site that was found in each."""
    sequences = [*data.positive.sequences, *data.negative.sequences]
    names = [*data.positive.names, *data.negative.names]
    sites = find_sites(model.estimator, sequences, names)
    truth = np.arange(len(sites)) < len(data.positive)
    scores = np.array([site.score for site in sites])
    known = data.known
    told = compare_scores(scores[truth], scores[~truth])
    if known is not None:
        told |= {"n_known_sites": len(known), "sites_hit": share_of_sites_hit(sites[: len(data.positive)], known)}
    return Examples(
        source,
        [shorten(name) for name in names],
        ((scores > 0) != truth).astype(np.float64),
        "0/1 loss",
        [_remark(site, bool(positive), known) for site, positive in zip(sites, truth, strict=True)],
        lambda i: _draw(model, sequences[i], sites[i], known if truth[i] else None),
        [*MotifKind().summarize(told), *_more_scores(told)],
        _overview(sites[: len(data.positive)], data.positive.sequences, known),
    )


def _more_scores(scores: dict[str, Any]) -> list[tuple[str, str]]:
    more = [("AUC", f"{scores['auc']:.4f}")]
    if "sites_hit" in scores:
        more.append(("sites hit", f"{100 * scores['sites_hit']:.1f} % of {scores['n_known_sites']} sequences"))
    return more


def _remark(site: Site, positive: bool, known: KnownSites | None) -> str:
    names = ("positive", "negative") if positive else ("negative", "positive")
    right = (site.score > 0) == positive
    text = f"{names[0]}, rightly" if right else f"{names[0]} taken for {names[1]}"
    text = f"{text}, score {site.score:+.3g}"
    if not positive or known is None or site.sequence not in known:
        return text
    return f"{text}, site {'hit' if is_hit(site, known) else 'missed'}"


def _overview(sites: list[Site], sequences: list[str], known: KnownSites | None) -> list[Block]:
    """Return a picture of positive sequences with their sites, spread over the data if there are many."""
    if not sites or not can_write(site.sequence for site in sites):
        return []
    chosen = np.linspace(0, len(sites) - 1, min(len(sites), MOST_SEQUENCES)).astype(int).tolist()
    shown, lengths = [sites[i] for i in chosen], [len(sequences[i]) for i in chosen]
    n_positive = sum(site.score > 0 for site in shown)
    some = f"{len(shown)} of the {len(sites)}" if len(shown) < len(sites) else f"The {len(shown)}"
    framed = " Frames are known sites." if known is not None else ""
    return [
        Drawing(
            lambda ax: plot_sites(shown, lengths, ax, known),
            f"{len(shown)} positive sequences as lines with the sites found on them; {n_positive} are called positive.",
            f"{some} positive sequences with their sites: above the line on the given strand, below it on the other, "
            f"pale where the sequence is called negative.{framed}",
            height=0.9 + 0.17 * len(shown),
        )
    ]


def _draw(model: Trained, sequence: str, site: Site, known: KnownSites | None) -> list[Block]:
    """Return the letters around the site, and around known sites that were missed."""
    places = [] if known is None else known.get(site.sequence, [])
    hit = known is not None and is_hit(site, known)
    marks: list[Mark] = [""] * len(sequence)
    for low, high in places:
        marks[low:high] = ["" if hit else "missed"] * (high - low)
    found: Mark = "latent" if not places else ("right" if hit else "wrong")
    marks[site.start : site.end] = [found] * (site.end - site.start)
    strand = "given" if site.strand > 0 else "other"
    told = f"The site is letters {site.start + 1} to {site.end} of {len(sequence)} on the {strand} strand, score "
    blocks: list[Block] = [_around(model, sequence, site, marks, f"{told}{site.score:+.3g}.")]
    # A known site that was missed may lie beside the one found, and is shown with it then.
    for low, high in places[:1] if not hit else []:
        if low >= site.start - AROUND and high <= site.end + AROUND:
            continue
        blocks.append(_cut(sequence, low, high, marks, f"The known site, letters {low + 1} to {high}."))
    return blocks


def _cut(sequence: str, low: int, high: int, marks: list[Mark], caption: str) -> Letters:
    begin, end = max(0, low - AROUND), min(len(sequence), high + AROUND, low + LONGEST_SITE)
    return Letters([(str(begin + 1), _runs(sequence, marks, begin, end))], caption)


def _around(model: Trained, sequence: str, site: Site, marks: list[Mark], caption: str) -> Letters:
    """Return the letters around the site, on both strands if the motif may lie on either, and the consensus below."""
    begin, end = max(0, site.start - AROUND), min(len(sequence), site.end + AROUND)
    consensus = model.record.consensus
    plain: list[Mark] = [""] * len(sequence)
    given: tuple[str, list[tuple[str, Mark]]] = ("5′", _runs(sequence, marks if site.strand > 0 else plain, begin, end))
    below = " " * (site.start - begin + (begin > 0))
    if model.estimator.task_.strands == 1:
        return Letters([given, ("motif", [(below + consensus, "")])], caption)
    # The other strand is read from right to left.
    opposite = reverse_complement(sequence)[::-1]
    other = ("3′", _runs(opposite, plain if site.strand > 0 else marks, begin, end))
    motif: tuple[str, list[tuple[str, Mark]]] = (
        "motif",
        [(below + (consensus if site.strand > 0 else consensus[::-1]), "")],
    )
    return Letters([motif, given, other] if site.strand > 0 else [given, other, motif], caption)


def _runs(letters: str, marks: list[Mark], begin: int, end: int) -> list[tuple[str, Mark]]:
    """Return the letters begin … end − 1 in runs that are marked alike, with … where something is left out."""
    grouped = groupby(range(begin, end), key=lambda k: marks[k])
    runs: list[tuple[str, Mark]] = [("".join(letters[k] for k in group), mark) for mark, group in grouped]
    more: list[tuple[str, Mark]] = [("…", "")]
    return more * (begin > 0) + runs + more * (end < len(letters))
