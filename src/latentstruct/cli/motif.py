"""Models that find a motif in DNA sequences."""

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentstruct.cli.common import reported_errors, say_warnings
from latentstruct.cli.found_motif import LOGO_FILE, MEME_FILE, PARTS, SITES_FILE, MotifOutcome, MotifRecord
from latentstruct.cli.motif_files import (
    JudgedSequences,
    MotifData,
    MotifFiles,
    MotifParts,
    check_negatives,
    check_one_form,
    read_judged,
    read_known_sites,
    read_sequences,
    share_of_sites_hit,
)
from latentstruct.cli.motif_folders import StoredMotifs, judge_stored
from latentstruct.cli.old_kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.old_options import (
    JsonOption,
    LatentChoices,
    OutputOption,
    QuietOption,
    ReportOption,
    RestartsOption,
    RoundsOption,
    SecondsOption,
    SeedOption,
    TolOption,
    ValidOption,
)
from latentstruct.cli.prepared import is_prepared, refuse_options, refuse_prepared
from latentstruct.cli.training import Training, source_of
from latentstruct.progress import Progress, caught_warnings, print_facts, print_table, show_percent

if TYPE_CHECKING:
    from latentstruct.formats import Sequences
    from latentstruct.report.blocks import Block, Examples


class Start(StrEnum):
    """Where training begins."""

    kmers = "kmers"
    random = "random"


PositivesOption = Annotated[str | None, typer.Option(metavar="FASTA", help="Sequences that hold the motif.")]
NegativesOption = Annotated[str | None, typer.Option(metavar="FASTA", help="Sequences that do not, at full weight.")]
BackgroundOption = Annotated[
    str | None, typer.Option(metavar="FASTA", help="Many sequences that hardly do, at --background-weight.")
]


@reported_errors()
def train_motif(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            show_default="--positive and others",
            help="FASTA with label=1 or label=-1 in its headers, or a folder of prepared sequences; - is standard "
            "input.",
        ),
    ] = None,
    positive: PositivesOption = None,
    negative: NegativesOption = None,
    background: BackgroundOption = None,
    width: Annotated[int, typer.Option(min=1, help="Letters of the motif.")] = 11,
    order: Annotated[int, typer.Option(min=0, max=5, help="Order of the Markov background.")] = 3,
    strands: Annotated[int, typer.Option(min=1, max=2, help="2 if the motif may lie on the other strand.")] = 1,
    background_weight: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            show_default="so that all of them weigh as much as the positives, at most 1",
            help="Weight of a --background sequence.",
        ),
    ] = None,
    output: OutputOption = Path("model"),
    C: Annotated[float, typer.Option("-C", metavar="NUMBER", help="Weight of each sequence against ½‖w‖².")] = 0.1,
    start: Annotated[
        Start, typer.Option(metavar="NAME", help="First sites: kmers (enriched words) or random.")
    ] = Start.kmers,
    restarts: RestartsOption = 3,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    valid: ValidOption = None,
    report: ReportOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Find the motif that tells positive DNA sequences from negative ones, and where it lies in each of them.

    Plain or gzip-compressed FASTA: either DATA, whose headers such as >name label=1 and >name label=-1 tell what is
    positive, or --positive with --negative or --background or both. --background may go with DATA too. The file of
    --valid has labels in its headers.

    Besides the model, its folder gets motif.meme, logo.png and sites.tsv, in which a site begins at start, counted
    from 0, and ends before end. Ctrl-C saves the best weights so far.

    What is wrong of the sequences trained on says little of others: give --valid, or evaluate on others.

    Examples: latentstruct train motif labelled.fa --width 13; latentstruct train motif --positive bound.fa
    --background intergenic.fa.gz --width 17 --strands 2
    """
    from latentstruct.tasks import Motif

    init = "task" if start is Start.kmers else "random"
    choices = LatentChoices(output, C, tol, max_rounds, max_seconds, seed, restarts, init)
    files = MotifFiles(data, positive, negative, background)
    choices.check(data, positive, negative, background, valid)
    progress = Progress(quiet, n_starts=restarts)
    parts = read_parts(files, background_weight, width, progress)
    weight = parts.even_weight() if background_weight is None else background_weight
    X, Y, weights = parts.training(weight)
    shown = sequences_to_show(parts, valid, width)
    outcome = MotifOutcome(parts, weight, output)
    estimator = choices.estimator(Motif(width, background_order=order, strands=strands))
    training = Training(MotifKind(), output, estimator, X, Y, outcome.sizes, outcome.record, finish=outcome.finish)
    training.fit_params = {"sample_weight": weights}
    training.report = report
    if shown is not None:
        source = source_of(valid, data or positive or "")
        training.score = None if valid is None else lambda trained: score_motif(trained, shown)
        training.examples = lambda trained: MotifKind().examples(trained, shown, source)
    training.run(progress, json)


def read_parts(files: MotifFiles, background_weight: float | None, width: int, progress: Progress) -> MotifParts:
    """Read the sequences to train on, or open a folder of them."""
    files.check(background_weight)
    if files.data is not None and is_prepared(files.data):
        refuse_options(files.data, {"--background": (files.background, None)})
        stored = StoredMotifs.open(files.data, width)
        _, n_negative, n_background = stored.counts
        there = files.data
        check_negatives(there if n_negative else None, there if n_background else None, background_weight)
        progress.say(f"found {sum(stored.counts)} sequences in {len(stored.data.sizes)} files of {files.data}")
        return stored
    refuse_prepared(files.positive, files.negative, files.background)
    parts = files.read(width, progress)
    with caught_warnings() as warned:
        parts.check_apart()
    say_warnings(warned)
    return parts


def sequences_to_show(parts: MotifParts, valid: str | None, width: int) -> JudgedSequences | None:
    """Return the held-out sequences, else those trained on if they are in memory."""
    if valid is not None:
        return JudgedSequences(*read_judged(HeldOut(valid), width, "give --valid FASTA"))
    return parts.judged() if isinstance(parts, MotifData) else None


def score_motif(estimator: Any, data: JudgedSequences) -> dict[str, Any]:
    """Return errors, counts by truth and prediction, the area under the ROC curve, and the share of sites hit."""
    from latentstruct.motifs import find_sites

    scores = [estimator.decision_function(part.sequences) for part in (data.positive, data.negative)]
    result = compare_scores(*scores)
    if data.known is not None:
        hit = share_of_sites_hit(find_sites(estimator, data.positive), data.known)
        result |= {"n_known_sites": len(data.known), "sites_hit": hit}
    return result


def compare_scores(*scores: Any) -> dict[str, Any]:
    """Return errors, counts and the area under the ROC curve of scores of positive and of negative sequences."""
    import numpy as np
    from sklearn.metrics import roc_auc_score

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
    summary = "Find the motif that tells some DNA sequences from others."
    latent = "where the motif lies, and on which strand"
    reads = (
        "FASTA whose header lines say label=1 or label=-1 after the name; or a file each for --positive, "
        "--negative and --background."
    )
    example_file = "motif.fa"
    prediction_file = "predicted.tsv"
    record = MotifRecord
    train = staticmethod(train_motif)
    files = (MEME_FILE, LOGO_FILE, SITES_FILE)
    judged_on = frozenset({"data", "positive", "negative", "sites"})
    judged_on_always = frozenset()
    evaluation_hint = (
        "give FASTA with label=1 or label=-1 in its headers, as latentstruct evaluate MODEL DATA, or a file each, as "
        "latentstruct evaluate MODEL --positive FASTA --negative FASTA"
    )

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks import Motif

        task = model.estimator.task_
        return isinstance(task, Motif) and len(model.record.consensus) == task.width

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write label, score and best site of each sequence as a table."""
        from latentstruct.formats.text import write_text
        from latentstruct.motifs import find_sites

        width = model.estimator.task_.width
        parts: Iterator[Sequences]
        if is_prepared(data):
            parts = (sequences for sequences, _ in StoredMotifs.open(data, width).parts())
        else:
            parts = iter([read_sequences(data, width, Progress(quiet=True))])
        lines = ["sequence\tlabel\tscore\tstart\tend\tstrand\tsite\n"]
        for site in (site for sequences in parts for site in find_sites(model.estimator, sequences)):
            label, strand = "+1" if site.score > 0 else "-1", "+" if site.strand > 0 else "-"
            cells = (site.sequence, label, f"{site.score:.6g}", site.start, site.end, strand, site.site)
            lines.append("\t".join(map(str, cells)) + "\n")
        write_text(output, "".join(lines))
        sys.stdout.flush()

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return errors and, if sites are known, the share that was hit."""
        if held_out.data is not None and is_prepared(held_out.data):
            check_one_form(held_out.data, held_out.positive, held_out.negative)
            return judge_stored(model.estimator, held_out.data, held_out, compare_scores)
        return score_motif(model.estimator, self.read_held_out(model, held_out))

    def read_held_out(self, model: Trained, held_out: HeldOut) -> JudgedSequences:
        """Return sequences with the motif and without it, and their known sites."""
        positive, negative = read_judged(held_out, model.estimator.task_.width, self.evaluation_hint)
        known = None
        if held_out.sites is not None:
            lengths = dict(zip(positive.names, map(len, positive.sequences), strict=True))
            known = read_known_sites(held_out.sites, lengths)
        return JudgedSequences(positive, negative, known)

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return the logo, the weights and where the sites of training lie."""
        from latentstruct.cli.reports.motif import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: JudgedSequences, source: str) -> "Examples":
        """Return predictions for sequences, with their sites."""
        from latentstruct.cli.reports.motif import examples

        return examples(model, data, source)

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

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the area under the ROC curve."""
        value: float = scores["auc"]
        return value

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
            facts.append((f"{part} wrong", f"{show_percent(error)} of those trained on{weight}"))
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
