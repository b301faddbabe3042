"""The motif that a training found, the files that show it, and what is kept of it beside the model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from latentstruct.cli.motif_files import MotifParts

MEME_FILE, LOGO_FILE, SITES_FILE = "motif.meme", "logo.png", "sites.tsv"
PARTS = ("n_positive", "n_negative", "n_background")


@dataclass(frozen=True)
class MotifRecord:
    """What the command keeps beside a motif model."""

    consensus: str
    background_weight: float
    n_positive: int
    n_negative: int
    n_background: int
    n_examples: int
    seconds: float
    kind: Literal["motif"] = "motif"


@dataclass(frozen=True)
class MotifOutcome:
    """What a training on some sequences leaves behind: its record, and files in its folder."""

    parts: MotifParts
    background_weight: float
    output: Path

    @property
    def sizes(self) -> dict[str, int]:
        """How many sequences there are, and of each part."""
        counts = self.parts.counts
        return dict(zip(("n_examples", *PARTS), (sum(counts), *counts), strict=True))

    def record(self, estimator: Any, seconds: float) -> MotifRecord:
        """Return what is kept beside the trained model."""
        consensus, counts = find_motif(estimator, self.parts).consensus, self.parts.counts
        return MotifRecord(consensus, self.background_weight, *counts, sum(counts), seconds)

    def finish(self, estimator: Any) -> dict[str, Any]:
        """Write the files; return what to tell of the motif, having warned of a model that is one-sided."""
        found = find_motif(estimator, self.parts)
        told = {"consensus": found.consensus, "background_weight": self.background_weight}
        errors = self.parts.errors(estimator)
        self.parts.warn_if_one_sided(errors)
        return {**told, "training": errors, "files": found.write(self.output)}


@dataclass(frozen=True)
class FoundMotif:
    """The sites of a motif in positive sequences and what they have in common."""

    sites: list[Any]
    matrix: Any
    consensus: str
    background: list[float]
    strands: int

    def write(self, folder: Path) -> dict[str, str]:
        """Write the matrix, its logo and the sites; without matplotlib there is no logo."""
        from latentstruct.formats import write_meme, write_sites
        from latentstruct.plots import can_plot

        files = {"matrix": folder / MEME_FILE, "sites": folder / SITES_FILE}
        write_meme(files["matrix"], self.matrix, self.background, "motif", len(self.sites), self.strands)
        write_sites(files["sites"], self.sites)
        if can_plot():
            files["logo"] = folder / LOGO_FILE
            draw_logo(self.matrix, self.background, files["logo"])
        return {what: str(path) for what, path in files.items()}


def find_motif(estimator: Any, parts: MotifParts) -> FoundMotif:
    """Return the best site of each positive sequence, their matrix and its consensus."""
    from latentstruct.motifs import consensus, find_sites, site_matrix

    sites, counts = [], [1, 1, 1, 1]
    for positive in parts.positives():
        sites += find_sites(estimator, positive)
        for k, letter in enumerate("ACGT"):
            counts[k] += sum(sequence.upper().count(letter) for sequence in positive.sequences)
    matrix = site_matrix([site.site for site in sites])
    background = [count / sum(counts) for count in counts]
    return FoundMotif(sites, matrix, consensus(matrix), background, estimator.task_.strands)


def draw_logo(matrix: Any, background: list[float], path: Path) -> None:
    """Save the logo of a matrix of letter probabilities as a picture."""
    from matplotlib.figure import Figure

    from latentstruct.plots import plot_logo

    figure = Figure(figsize=(1.5 + 0.45 * len(matrix), 2.6), layout="constrained")
    plot_logo(matrix, background, figure.add_subplot())
    figure.savefig(path, dpi=150)
