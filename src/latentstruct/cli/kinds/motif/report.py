"""Report of motifs: logo and weights, and sequences with their predicted sites."""

import numpy as np

from latentstruct.cli.kind import Trained
from latentstruct.cli.kinds.motif.calibration import ScoredSites
from latentstruct.cli.kinds.motif.files import JudgedSequences, KnownSites, is_hit
from latentstruct.cli.kinds.motif.search import MEME_FILE, SITES_FILE, significance_in_words
from latentstruct.io.fasta import read_named_sites
from latentstruct.io.meme import read_meme
from latentstruct.tasks.motif.significance import Enrichment
from latentstruct.tasks.motif.sites import Site, strongest_words
from latentstruct.viz.plots.features import can_write, shorten
from latentstruct.viz.plots.sequences import MOST_SEQUENCES, plot_sites
from latentstruct.viz.report.blocks import Block, Drawing, Examples, FactList, Letters, Mark, TableBlock, Text
from latentstruct.viz.report.motifs import (
    AROUND,
    letter_runs,
    logo_blocks,
    score_remark,
    site_letters,
    starts_block,
    weights_block,
    width_fact,
)

LONGEST_SITE = 80
"""Maximum number of letters that are shown of a known site."""
SITES_SHOWN = WORDS_SHOWN = 20
WHOSE = "the positive sequences of training"


def lead_blocks(model: Trained) -> list[Block]:
    """Return logos, significance and sites of the motifs, from the files next to the model."""
    task, record = model.estimator.task_, model.record
    meme, sites = model.path / MEME_FILE, model.path / SITES_FILE
    tested = None if record.enrichment is None else Enrichment(**record.enrichment)
    significance = significance_in_words(tested, record.e_value)
    if not meme.exists():
        facts = FactList([("consensus", record.consensus), ("significance", significance), width_fact(task)])
        return [facts, Text(f"The logo cannot be drawn: {MEME_FILE} is missing.")]
    found = read_named_sites(sites) if sites.exists() else []
    blocks: list[Block] = []
    for number, motif in enumerate(read_meme(meme)):
        if number and motif.e_value is not None:
            significance = f"E-value {motif.e_value:.2g}"
        blocks += logo_blocks(task, motif, WHOSE, significance)
        own = [site for name, site in found if name == motif.name]
        if own:
            blocks += [_site_table(own), starts_block(own, WHOSE)]
    return blocks if sites.exists() else [*blocks, Text(f"The sites cannot be drawn: {SITES_FILE} is missing.")]


def _site_table(sites: list[Site]) -> Block:
    """Return the sites with the highest scores."""
    best = sorted(sites, key=lambda site: -site.score)[:SITES_SHOWN]
    sided = bool(best[0].strand)
    rows = [
        [shorten(one.sequence), one.site, *([one.sign] if sided else []), one.start + 1, one.end, round(one.score, 2)]
        for one in best
    ]
    columns = ("sequence", "site", *(["strand"] if sided else []), "from", "to", "score")
    title = f"The {len(best)} best of {len(sites)} sites" if len(best) < len(sites) else "Sites"
    counted = "Letters are counted from 1 on the given strand" if sided else "Residues are counted from 1"
    note = f"{counted}. A sequence is predicted positive if the score is above 0."
    return TableBlock(title, columns, rows, note, n_text=2 + sided)


def weight_blocks(model: Trained) -> list[Block]:
    """Return the weights of the letters, and of words beside the motif."""
    words = [(word, round(weight, 3)) for word, weight in strongest_words(model.estimator, WORDS_SHOWN)]
    note = "Wherever they are in a sequence; a dot is a letter that is not read. The logo does not show them."
    table = TableBlock("Words beside the motif", ("word", "weight"), words, note, n_text=1)
    return [weights_block(model.estimator), *([table] if words else [])]


def examples(model: Trained, data: JudgedSequences, found: list[ScoredSites]) -> Examples:
    """Return predictions for sequences, with the predicted site of each."""
    sequences = [*data.positive.sequences, *data.negative.sequences]
    names = [*data.positive.names, *data.negative.names]
    sites = [site for part in found for site in part.sites]
    truth = np.arange(len(sites)) < len(data.positive)
    scores, known = np.concatenate([part.scores for part in found]), data.known
    return Examples(
        [shorten(name) for name in names],
        ((scores > 0) != truth).astype(np.float64),
        "0/1 loss",
        [_remark(site, bool(positive), known) for site, positive in zip(sites, truth, strict=True)],
        lambda i: _draw(model, sequences[i], sites[i], known if truth[i] else None),
        _overview(sites[: len(data.positive)], data.positive.sequences, known),
        np.abs(scores),
    )


def _remark(site: Site, positive: bool, known: KnownSites | None) -> str:
    text = score_remark(site, positive)
    if not positive or known is None or site.sequence not in known:
        return text
    return f"{text}, site {'hit' if is_hit(site, known) else 'missed'}"


def _overview(sites: list[Site], sequences: list[str], known: KnownSites | None) -> list[Block]:
    """Return a picture of positive sequences with their sites, a sample if there are many."""
    if not sites or not can_write(site.sequence for site in sites):
        return []
    chosen = np.linspace(0, len(sites) - 1, min(len(sites), MOST_SEQUENCES)).astype(int).tolist()
    shown, lengths = [sites[i] for i in chosen], [len(sequences[i]) for i in chosen]
    n_positive = sum(site.score > 0 for site in shown)
    some = f"{len(shown)} of the {len(sites)}" if len(shown) < len(sites) else f"The {len(shown)}"
    sides = ": above the line on the given strand, below it on the other" if shown[0].strand else ""
    framed = " Frames are known sites." if known is not None else ""
    return [
        Drawing(
            lambda ax: plot_sites(shown, lengths, ax, known),
            f"{len(shown)} positive sequences as lines with their sites; {n_positive} are predicted positive.",
            f"{some} positive sequences with their sites{sides}, pale where predicted negative.{framed}",
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
    blocks: list[Block] = [site_letters(model.estimator.task_, model.record.consensus, sequence, site, marks)]
    # A missed known site near the predicted one is shown with it.
    for low, high in places[:1] if not hit else []:
        if low >= site.start - AROUND and high <= site.end + AROUND:
            continue
        blocks.append(_cut(sequence, low, high, marks, f"The known site, letters {low + 1} to {high}."))
    return blocks


def _cut(sequence: str, low: int, high: int, marks: list[Mark], caption: str) -> Letters:
    begin, end = max(0, low - AROUND), min(len(sequence), high + AROUND, low + LONGEST_SITE)
    return Letters([(str(begin + 1), letter_runs(sequence, marks, begin, end))], caption)
