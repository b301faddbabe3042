"""Models that find a motif in DNA sequences."""

import math
import sys
import warnings
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct.cli.common import reported_errors
from latentstruct.cli.kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.options import (
    DescentRoundsOption,
    DescentTolOption,
    JsonOption,
    LatentChoices,
    OutputOption,
    QuietOption,
    RestartsOption,
    SecondsOption,
    SeedOption,
)
from latentstruct.cli.training import Training
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, print_facts, print_table, show_percent

if TYPE_CHECKING:
    from latentstruct.formats import Sequences

MEME_FILE, LOGO_FILE, SITES_FILE = "motif.meme", "logo.png", "sites.tsv"
PARTS = ("n_positive", "n_negative", "n_background")
SITE_COLUMNS = ("sequence", "start", "end")
ONE_SIDED = 0.95


class Start(StrEnum):
    """Where training begins."""

    kmers = "kmers"
    random = "random"


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
class MotifData:
    """Sequences to train on, in the order positive, negative, background."""

    positive: "Sequences"
    negative: "Sequences | None"
    background: "Sequences | None"

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many there are of each."""
        parts = (self.positive, self.negative, self.background)
        n_positive, n_negative, n_background = (0 if part is None else len(part.sequences) for part in parts)
        return n_positive, n_negative, n_background

    def errors(self, estimator: Any) -> dict[str, float]:
        """Return the share that a model gets wrong of each part there is."""
        wrong = {}
        for name in ("positive", "negative", "background"):
            part = getattr(self, name)
            if part is not None:
                scores = estimator.decision_function(part.sequences)
                wrong[name] = float(((scores > 0) != (name == "positive")).mean())
        return wrong

    def warn_if_one_sided(self, errors: dict[str, float]) -> None:
        """Warn of a model that calls nearly all sequences positive, or nearly all negative."""
        _, n_negative, n_background = self.counts
        n_mistaken = n_negative * errors.get("negative", 0.0) + n_background * errors.get("background", 0.0)
        mistaken = n_mistaken / (n_negative + n_background)
        if mistaken > ONE_SIDED:
            warnings.warn(
                f"{show_percent(mistaken)} of the negative and background sequences are called positive, so the model "
                "hardly tells them apart: give more negatives (--negative), let them weigh more "
                "(--background-weight) or choose a larger -C",
                stacklevel=2,
            )
        if errors["positive"] > ONE_SIDED:
            warnings.warn(
                f"{show_percent(errors['positive'])} of the positive sequences are called negative, so the model "
                "hardly finds the motif: choose a larger -C, let the background weigh less (--background-weight) or "
                "choose another --width",
                stacklevel=2,
            )

    def training(self, background_weight: float) -> tuple[list[str], list[int], list[float]]:
        """Return sequences, labels and weights."""
        parts = [part for part in (self.positive, self.negative, self.background) if part is not None]
        n_positive, n_negative, n_background = self.counts
        labels = [1] * n_positive + [-1] * (n_negative + n_background)
        weights = [1.0] * (n_positive + n_negative) + [background_weight] * n_background
        return [sequence for part in parts for sequence in part.sequences], labels, weights


@reported_errors()
def train_motif(
    positive: Annotated[str, typer.Option(metavar="FASTA", help="Sequences that hold the motif.")],
    negative: Annotated[
        str | None, typer.Option(metavar="FASTA", help="Sequences that do not, at full weight.")
    ] = None,
    background: Annotated[
        str | None, typer.Option(metavar="FASTA", help="Many sequences that hardly do, at --background-weight.")
    ] = None,
    width: Annotated[int, typer.Option(min=1, help="Letters of the motif.")] = 11,
    order: Annotated[int, typer.Option(min=0, max=5, help="Order of the Markov background.")] = 3,
    strands: Annotated[int, typer.Option(min=1, max=2, help="2 if the motif may lie on the other strand.")] = 1,
    background_weight: Annotated[float, typer.Option(min=0.0, help="Weight of a --background sequence.")] = 0.02,
    output: OutputOption = Path("model"),
    C: Annotated[float, typer.Option("-C", metavar="NUMBER", help="Weight of each sequence against ½‖w‖².")] = 0.1,
    start: Annotated[
        Start, typer.Option(metavar="NAME", help="First sites: kmers (enriched words) or random.")
    ] = Start.kmers,
    restarts: RestartsOption = 3,
    tol: DescentTolOption = None,
    max_rounds: DescentRoundsOption = None,
    max_seconds: SecondsOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Find the motif that tells positive DNA sequences from negative ones, and where it lies in each of them.

    Needs --negative or --background or both, as plain or gzip-compressed FASTA.

    Besides the model, its folder gets motif.meme, logo.png and sites.tsv. Ctrl-C saves the best weights so far.

    Example: latentstruct train motif --positive bound.fa --background intergenic.fa.gz --width 17 --strands 2
    """
    from latentstruct.tasks import Motif

    init = "task" if start is Start.kmers else "random"
    choices = LatentChoices(output, C, tol, max_rounds, max_seconds, seed, restarts, init)
    choices.check(positive, negative, background)
    check_negatives(negative, background, background_weight)
    progress = Progress(quiet, n_starts=restarts)
    data = read_parts(positive, negative, background, width, progress)
    X, Y, weights = data.training(background_weight)

    def record(estimator: Any, seconds: float) -> MotifRecord:
        consensus = find_motif(estimator, data.positive).consensus
        return MotifRecord(consensus, background_weight, *data.counts, len(X), seconds)

    def finish(estimator: Any) -> dict[str, Any]:
        found = find_motif(estimator, data.positive)
        told = {"consensus": found.consensus, "background_weight": background_weight}
        errors = data.errors(estimator)
        data.warn_if_one_sided(errors)
        return {**told, "training": errors, "files": found.write(output)}

    sizes = dict(zip(("n_examples", *PARTS), (len(X), *data.counts), strict=True))
    estimator = choices.estimator(Motif(width, background_order=order, strands=strands))
    training = Training(MotifKind(), output, estimator, X, Y, sizes, record, finish=finish)
    training.fit_params = {"sample_weight": weights}
    training.run(progress, json)


def check_negatives(negative: str | None, background: str | None, background_weight: float) -> None:
    """Raise before anything is read if there is nothing to tell the positive sequences from."""
    if negative is None and background is None:
        raise InputError(
            "there are no negatives: give sequences without the motif as --negative, or many that hardly hold it "
            "as --background"
        )
    if not math.isfinite(background_weight):
        raise InputError(f"--background-weight is {background_weight}; expected a finite number: choose one")
    if negative is None and not background_weight:
        raise InputError(
            "--background-weight is 0 and there are no other negatives, so nothing would count as negative: choose a "
            "larger weight, or give sequences without the motif as --negative"
        )


def read_parts(
    positive: str, negative: str | None, background: str | None, width: int, progress: Progress
) -> MotifData:
    """Read the sequences to train on."""
    return MotifData(
        read_sequences(positive, width, progress),
        None if negative is None else read_sequences(negative, width, progress),
        None if background is None else read_sequences(background, width, progress),
    )


def read_sequences(name: str, width: int, progress: Progress) -> "Sequences":
    """Read sequences that have room for a motif of the given width."""
    from latentstruct.formats import read_fasta

    sequences = read_fasta(name)
    for title, sequence in zip(sequences.names, sequences.sequences, strict=True):
        room = max(map(len, sequence.upper().split("N")))
        if room < width:
            raise InputError(
                f"{name}: the sequence {title!r} has at most {room} letters in a row without N; expected at least "
                f"{width}, the width of the motif: remove it or train with a smaller --width"
            )
    progress.say(f"read {len(sequences.sequences)} sequences from {name}")
    return sequences


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


def find_motif(estimator: Any, positive: "Sequences") -> FoundMotif:
    """Return the best site of each positive sequence, their matrix and its consensus."""
    from latentstruct.motifs import consensus, find_sites, site_matrix

    sites = find_sites(estimator, positive)
    matrix = site_matrix([site.site for site in sites])
    counts = [1 + sum(sequence.upper().count(letter) for sequence in positive.sequences) for letter in "ACGT"]
    background = [count / sum(counts) for count in counts]
    return FoundMotif(sites, matrix, consensus(matrix), background, estimator.task_.strands)


def draw_logo(matrix: Any, background: list[float], path: Path) -> None:
    """Save the logo of a matrix of letter probabilities as a picture."""
    from matplotlib.figure import Figure

    from latentstruct.plots import plot_logo

    figure = Figure(figsize=(1.5 + 0.45 * len(matrix), 2.6), layout="constrained")
    plot_logo(matrix, background, figure.add_subplot())
    figure.savefig(path, dpi=150)


def read_known_sites(name: str, lengths: dict[str, int]) -> dict[str, list[tuple[int, int]]]:
    """Read start and end of known sites in sequences of given lengths from a table with a header line."""
    from latentstruct.formats.text import decode_line, fail, numbered_lines, show, source_name

    shown, columns = source_name(name), None
    sites = defaultdict(list)
    for number, raw in numbered_lines(name):
        cells = decode_line(raw, shown, number).rstrip("\r\n").split("\t")
        if columns is None:
            columns = {column: k for k, column in enumerate(cells)}
            missing = [column for column in SITE_COLUMNS if column not in columns]
            if missing:
                fail(
                    shown,
                    number,
                    f"the column {missing[0]!r} is missing; expected a header line with the columns "
                    f"{', '.join(SITE_COLUMNS)}: add it",
                )
            continue
        try:
            sequence, start, end = (cells[columns[column]] for column in SITE_COLUMNS)
            low, high = int(start), int(end)
        except (IndexError, ValueError):
            fail(
                shown,
                number,
                f"found {show(cells)}; expected a sequence and its site's start and end in whole "
                "numbers from 0: correct the line",
            )
        if sequence not in lengths:
            fail(
                shown,
                number,
                f"the sequence {show(sequence)} is not in the positive file; expected one of its "
                "names: give the sites of these sequences only",
            )
        if not 0 <= low < high:
            fail(shown, number, f"the site is from {low} to {high}; expected 0 ≤ start < end: correct the line")
        if high > lengths[sequence]:
            fail(
                shown,
                number,
                f"the site of the sequence {show(sequence)} ends at {high}, but the sequence has {lengths[sequence]} "
                "letters; expected a site within it: correct the line, and count from 0",
            )
        sites[sequence].append((low, high))
    if not sites:
        raise InputError(f"{shown} has no sites; expected a line for each below the header line: add them")
    return dict(sites)


def share_of_sites_hit(found: list[Any], known: dict[str, list[tuple[int, int]]]) -> float:
    """Return the share of sequences whose site covers half of a known one, or half of it lies in one."""

    def hits(site: Any, low: int, high: int) -> bool:
        overlap = min(site.end, high) - max(site.start, low)
        return 2 * overlap >= min(site.end - site.start, high - low)

    asked = [site for site in found if site.sequence in known]
    return sum(any(hits(site, *place) for place in known[site.sequence]) for site in asked) / len(asked)


def score_motif(estimator: Any, positive: "Sequences", negative: "Sequences") -> dict[str, Any]:
    """Return errors, counts by truth and prediction, and the area under the ROC curve."""
    import numpy as np
    from sklearn.metrics import roc_auc_score

    scores = [estimator.decision_function(part.sequences) for part in (positive, negative)]
    n_positive, n_negative = map(len, scores)
    found, mistaken = (int((part > 0).sum()) for part in scores)
    return {
        "n_examples": n_positive + n_negative,
        "error": (n_positive - found + mistaken) / (n_positive + n_negative),
        "auc": float(roc_auc_score(np.repeat([1, 0], [n_positive, n_negative]), np.concatenate(scores))),
        "true_positives": found,
        "false_negatives": n_positive - found,
        "false_positives": mistaken,
        "true_negatives": n_negative - mistaken,
    }


class MotifKind(Kind):
    """Motifs in DNA."""

    name = "motif"
    record = MotifRecord
    train = staticmethod(train_motif)
    files = (MEME_FILE, LOGO_FILE, SITES_FILE)
    judged_on = frozenset({"positive", "negative", "sites"})
    judged_on_always = frozenset({"positive", "negative"})
    evaluation_hint = "give FASTA files, as latentstruct evaluate MODEL --positive FASTA --negative FASTA"

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks import Motif

        task = model.estimator.task_
        return isinstance(task, Motif) and len(model.record.consensus) == task.width

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write label, score and best site of each sequence as a table."""
        from latentstruct.formats.text import write_text
        from latentstruct.motifs import find_sites

        sequences = read_sequences(data, model.estimator.task_.width, Progress(quiet=True))
        lines = ["sequence\tlabel\tscore\tstart\tend\tstrand\tsite\n"]
        for site in find_sites(model.estimator, sequences):
            label, strand = "+1" if site.score > 0 else "-1", "+" if site.strand > 0 else "-"
            cells = (site.sequence, label, f"{site.score:.6g}", site.start, site.end, strand, site.site)
            lines.append("\t".join(map(str, cells)) + "\n")
        write_text(output, "".join(lines))
        sys.stdout.flush()

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return errors and, if sites are known, the share that was hit."""
        from latentstruct.motifs import find_sites

        width, quiet = model.estimator.task_.width, Progress(quiet=True)
        positive = read_sequences(held_out.positive or "", width, quiet)
        negative = read_sequences(held_out.negative or "", width, quiet)
        known = None
        if held_out.sites is not None:
            lengths = dict(zip(positive.names, map(len, positive.sequences), strict=True))
            known = read_known_sites(held_out.sites, lengths)
        result = score_motif(model.estimator, positive, negative)
        if known is not None:
            found = find_sites(model.estimator, positive)
            result |= {"n_known_sites": len(known), "sites_hit": share_of_sites_hit(found, known)}
        return result

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print errors and a table of truth against prediction."""
        facts = [
            ("sequences", f"{scores['n_examples']}, {show_percent(scores['error'])} wrong"),
            ("AUC", f"{scores['auc']:.4f}"),
        ]
        if "sites_hit" in scores:
            facts.append(("sites hit", f"{show_percent(scores['sites_hit'])} of {scores['n_known_sites']} sequences"))
        print_facts(facts)
        rows = [
            ("positive", str(scores["true_positives"]), str(scores["false_negatives"])),
            ("negative", str(scores["false_positives"]), str(scores["true_negatives"])),
        ]
        print_table("", ("truth", "predicted positive", "predicted negative"), rows)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the error."""
        return [("error", show_percent(scores["error"]))]

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return the consensus and the matrix of weights."""
        from latentstruct.motifs import weight_matrix

        task, record = model.estimator.task_, model.record
        return {
            "consensus": record.consensus,
            "width": task.width,
            "background_order": task.background_order,
            "strands": task.strands,
            **{name: getattr(record, name) for name in (*PARTS, "background_weight")},
            "weight_matrix": weight_matrix(model.estimator).tolist(),
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return the consensus and, after training, errors and files."""
        facts = [("consensus", result["consensus"])]
        if "strands" in result:
            sizes = ", ".join(f"{result[name]} {name[2:]}" for name in PARTS)
            facts += [
                ("sequences", sizes),
                (
                    "motif",
                    f"width {result['width']}, strands {result['strands']}, "
                    f"background order {result['background_order']}",
                ),
            ]
        for part, error in result.get("training", {}).items():
            weight = f" (at weight {result['background_weight']:g})" if part == "background" else ""
            facts.append((f"{part} wrong", show_percent(error) + weight))
        facts += list(result.get("files", {}).items())
        return facts

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the weights of the letters."""
        rows = [
            [str(j), letter, *map(show_weight, weights)]
            for j, (letter, weights) in enumerate(zip(result["consensus"], result["weight_matrix"], strict=True), 1)
        ]
        print_table("weights", ("position", "consensus", *"ACGT"), rows, n_text=2)


def show_weight(value: float) -> str:
    """Return a weight with its sign."""
    return f"{value:+.3f}"
