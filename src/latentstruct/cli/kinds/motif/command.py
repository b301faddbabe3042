"""Models that find a motif in DNA sequences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from latentstruct.cli.common import is_prepared, refuse_prepared, say_warnings
from latentstruct.cli.declaring import argument, option, restarts_option, weight_option
from latentstruct.cli.kind import Facts, KindSpec, Loaded, Record, Trained
from latentstruct.cli.kinds.motif.files import (
    PARTS,
    JudgedSequences,
    MotifData,
    MotifFileOptions,
    MotifParts,
    check_negatives,
    check_one_form,
    read_judged,
    read_known_sites,
    read_sequences,
    site_scores,
)
from latentstruct.cli.options import HeldOut, TrainOptions
from latentstruct.cli.prepared import PrepareOptions
from latentstruct.exceptions import InputError
from latentstruct.progress.display import Progress, caught_warnings, print_table, show_percent

if TYPE_CHECKING:
    from latentstruct.io import Sequences

MEME_FILE, LOGO_FILE, SITES_FILE = "motif.meme", "logo.png", "sites.tsv"


@dataclass(frozen=True, kw_only=True)
class MotifOptions(MotifFileOptions, TrainOptions):
    """Find the motif that separates positive DNA sequences from negative ones, and its site in each of them.

    Plain or gzip-compressed FASTA: either DATA with headers such as >name label=1 and >name label=-1, or --positive
    with --negative or --background or both. --background may be used with DATA too. The file of --valid has labels in
    its headers.

    The folder of the model also gets motif.meme, logo.png and sites.tsv, in which a site begins at start, counted from
    0, and ends before end. Ctrl-C saves the best weights so far.

    The training error is no estimate of the error on other sequences: use --valid, or evaluate on other data.

    Examples: latentstruct train motif labeled.fa --width 13; latentstruct train motif --positive bound.fa
    --background intergenic.fa.gz --width 17 --strands 2
    """

    data: str | None = argument(
        "FASTA with label=1 or label=-1 in its headers, or a folder of prepared data; - is standard input.",
        None,
        "--positive and others",
    )
    width: int = option(11, "Number of letters of the motif.", min=1)
    order: int = option(3, "Order of the Markov background.", min=0, max=5, sets="background_order")
    strands: int = option(1, "2 if the motif may be on the other strand.", min=1, max=2)
    background_weight: float | None = option(
        None,
        "Weight of a --background sequence.",
        shown="such that all of them weigh as much as the positives, at most 1",
        min=0.0,
    )
    C: float = weight_option(0.1, "sequence")
    start: Literal["kmers", "random"] = option(
        "kmers", "Initial sites: kmers (enriched words) or random.", metavar="NAME", sets="init"
    )
    restarts: int = restarts_option(3)

    @property
    def source(self) -> str:
        return self.data or self.positive or ""

    def check(self) -> None:
        super().check()
        self.check_files(self.background_weight)


@dataclass(frozen=True, kw_only=True)
class MotifPrepareOptions(MotifFileOptions, PrepareOptions):
    """Prepare DNA sequences for latentstruct train motif.

    The files are those of train motif. They are read twice, sequence by sequence, and written with positive, negative
    and background sequences evenly mixed. The names of all sequences are held in memory. Width, order and strands of
    the motif, and the weight of the background, are chosen later, so that any motif model can use the folder for
    evaluate and predict.

    With --like MODEL, each sequence must be long enough for the motif of the model. With --unlabeled as well, DATA is
    any FASTA to predict for.

    Examples: latentstruct prepare motif --positive bound.fa --background intergenic.fa.gz -o prepared; latentstruct
    prepare motif genome.fa.gz --like MODEL --unlabeled -o genome
    """

    files: ClassVar[tuple[str, ...]] = ("data", "positive", "negative", "background")

    data: str | None = argument(
        "FASTA with label=1 or label=-1 in its headers, which is read twice.", None, "--positive and others"
    )

    def check(self) -> None:
        self.check_files(None)
        if self.unlabeled and (self.data is None or self.background is not None):
            raise InputError("unlabeled", True, f"left out with `{'background' if self.data else 'positive'}`")
        super().check()


@dataclass(frozen=True, kw_only=True)
class MotifRecord(Record):
    """The record of a motif model."""

    consensus: str
    background_weight: float
    n_positive: int
    n_negative: int
    n_background: int


class MotifKind(KindSpec):
    """Motifs in DNA."""

    name = "motif"
    summary = "Find the motif that separates some DNA sequences from others."
    latent = "the site of the motif, and its strand"
    reads = (
        "FASTA with label=1 or label=-1 in the headers, after the name; or separate files for --positive, --negative "
        "and --background."
    )
    example_file = "motif.fa"
    prediction_file = "predicted.tsv"
    predicts = "Motifs: a table with label, score and best site of each sequence."
    judged_by = (
        "Motifs: error, AUC and, with --sites, the fraction of sequences with known sites in which one is hit. A "
        "site is hit if the predicted one overlaps it by at least half of the shorter of both."
    )
    options = MotifOptions
    prepare_options = MotifPrepareOptions
    settled_options = ("background",)
    record = MotifRecord
    tasks = ("Motif",)
    files = (MEME_FILE, LOGO_FILE, SITES_FILE)
    judged_on = frozenset({"data", "positive", "negative", "sites"})
    judged_on_always = frozenset()
    evaluation_hint = "Pass FASTA with label=1 or label=-1 in its headers as `data`, or `positive` and `negative`."
    score_facts = (
        ("sequences", "{n_examples}, {error:%} wrong"),
        ("AUC", "{auc:.4f}"),
        ("sites hit", "{sites_hit:%} of {n_known_sites} sequences"),
    )
    headline = (("error", "error"),)
    main = ("auc",)

    def load(self, options: MotifOptions, progress: Progress) -> Loaded:
        refuse_prepared(positive=options.positive, negative=options.negative, background=options.background)
        parts = options.read(options.width, progress)
        with caught_warnings() as warned:
            parts.check_apart()
        say_warnings(warned)
        return self._loaded(options, parts)

    def load_prepared(self, options: MotifOptions, progress: Progress) -> Loaded:
        stored = self._module("prepare").StoredMotifs.open(options.source, options.width)
        _, n_negative, n_background = stored.counts
        check_negatives(bool(n_negative), bool(n_background), options.background_weight)
        progress.say(f"found {sum(stored.counts)} sequences in {len(stored.data.sizes)} files of {options.data}")
        return self._loaded(options, stored)

    def _loaded(self, options: MotifOptions, parts: MotifParts) -> Loaded:
        from latentstruct.tasks import Motif

        weight = parts.even_weight() if options.background_weight is None else options.background_weight
        X, Y, weights = parts.training(weight)
        counts = {f"n_{name}": n for name, n in zip(PARTS, parts.counts, strict=True)}
        sizes = {"n_examples": sum(parts.counts), **counts}
        task = Motif(options.width, background_order=options.order, strands=options.strands)
        init = "task" if options.start == "kmers" else "random"
        estimator = options.latent_svm(task, init=init, restarts=options.restarts)
        record = MotifRecord(consensus="", background_weight=weight, **sizes)
        shown = parts.judged() if isinstance(parts, MotifData) else None
        return Loaded(X, Y, estimator, sizes, record, parts, shown=shown, fit_params={"sample_weight": weights})

    def final_record(self, model: Trained, loaded: Loaded) -> MotifRecord:
        return replace(model.record, consensus=find_motif(model.estimator, model.features).consensus)

    def finish(self, model: Trained, loaded: Loaded) -> dict[str, Any]:
        found, parts = find_motif(model.estimator, model.features), model.features
        known = {"consensus": found.consensus, "background_weight": model.record.background_weight}
        errors = parts.errors(model.estimator)
        parts.warn_if_one_sided(errors)
        return {**known, "training": errors, "files": found.write(model.path)}

    def fits(self, model: Trained) -> bool:
        return len(model.record.consensus) == model.estimator.task_.width

    def read(self, model: Trained, held_out: HeldOut) -> JudgedSequences:
        return read_judged(held_out, model.estimator.task.width, self.evaluation_hint)

    def choose(self, data: JudgedSequences, rows: Sequence[int]) -> JudgedSequences:
        split, wanted = len(data.positive), set(rows)
        kept = [i in wanted for i in range(split + len(data.negative))]
        return replace(data, positive=data.positive.choose(kept[:split]), negative=data.negative.choose(kept[split:]))

    def score(self, model: Trained, data: JudgedSequences) -> dict[str, Any]:
        from latentstruct.tasks.motif.sites import find_sites

        estimator = model.estimator
        scores = [estimator.decision_function(part.sequences) for part in (data.positive, data.negative)]
        found = [] if data.known is None else find_sites(estimator, data.positive)
        return {**compare_scores(*scores), **site_scores(found, data.known)}

    def score_prepared(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        from latentstruct.tasks.motif.sites import find_sites

        check_one_form(held_out.data, held_out.positive, held_out.negative)
        stored = self._module("prepare").StoredMotifs.open(held_out.data or "", model.estimator.task_.width)
        result = compare_scores(*stored.scores(model.estimator))
        if held_out.sites is None:
            return result
        known = read_known_sites(held_out.sites, list(stored.positives()))
        found = [site for part in stored.positives() for site in find_sites(model.estimator, part)]
        return {**result, **site_scores(found, known)}

    def predict(self, model: Trained, data: str, output: str) -> None:
        from latentstruct.io.text import write_text
        from latentstruct.tasks.motif.sites import find_sites

        width = model.estimator.task_.width
        parts: Iterable[Sequences]
        if is_prepared(data):
            parts = (sequences for sequences, _ in self._module("prepare").StoredMotifs.open(data, width).parts())
        else:
            parts = [read_sequences(data, width, Progress(quiet=True))]
        lines = ["sequence\tlabel\tscore\tstart\tend\tstrand\tsite\n"]
        for site in (site for sequences in parts for site in find_sites(model.estimator, sequences)):
            label, strand = "+1" if site.score > 0 else "-1", "+" if site.strand > 0 else "-"
            cells = (site.sequence, label, f"{site.score:.6g}", site.start, site.end, strand, site.site)
            lines.append("\t".join(map(str, cells)) + "\n")
        write_text(output, "".join(lines))

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        rows = [
            ("positive", str(scores["true_positives"]), str(scores["false_negatives"])),
            ("negative", str(scores["false_positives"]), str(scores["true_negatives"])),
        ]
        print_table("", ("true", "predicted positive", "predicted negative"), rows)

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        from latentstruct.tasks.motif.sites import weight_matrix

        task, record = model.estimator.task_, model.record
        return {
            "consensus": record.consensus,
            "width": task.width,
            "background_order": task.background_order,
            "strands": task.strands,
            **{name: getattr(record, name) for name in (*(f"n_{part}" for part in PARTS), "background_weight")},
            "weight_matrix": weight_matrix(model.estimator).tolist(),
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        facts = [("consensus", result["consensus"])]
        if "strands" in result:
            sizes = f"width {result['width']}, strands {result['strands']}"
            facts += [
                ("sequences", ", ".join(f"{result[f'n_{part}']} {part}" for part in PARTS)),
                ("motif", f"{sizes}, background order {result['background_order']}"),
            ]
        for part, error in result.get("training", {}).items():
            weight = f" (weight {result['background_weight']:g})" if part == "background" else ""
            facts.append((f"{part} wrong", f"{show_percent(error)} of the training data{weight}"))
        return facts + list(result.get("files", {}).items())

    def show_details(self, result: dict[str, Any]) -> None:
        pairs = zip(result["consensus"], result["weight_matrix"], strict=True)
        rows = [
            [str(j), letter, *(f"{value:+.3f}" for value in weights)] for j, (letter, weights) in enumerate(pairs, 1)
        ]
        print_table("weights", ("position", "consensus", *"ACGT"), rows, n_text=2)


def compare_scores(*scores: Any) -> dict[str, Any]:
    """Return errors, counts and the area under the ROC curve of scores of positive and of negative sequences."""
    import numpy as np

    from latentstruct.metrics.measures import roc_area

    n_positive, n_negative = map(len, scores)
    found, mistaken = (int((part > 0).sum()) for part in scores)
    return {
        "n_examples": n_positive + n_negative,
        "error": (n_positive - found + mistaken) / (n_positive + n_negative),
        "auc": roc_area(np.arange(n_positive + n_negative) < n_positive, np.concatenate(scores)),
        "true_positives": found,
        "false_negatives": n_positive - found,
        "false_positives": mistaken,
        "true_negatives": n_negative - mistaken,
    }


@dataclass(frozen=True)
class FoundMotif:
    """The sites of a motif in positive sequences, their matrix and its consensus."""

    sites: list[Any]
    matrix: Any
    consensus: str
    background: list[float]
    strands: int

    def write(self, folder: Path) -> dict[str, str]:
        """Write the matrix, its logo and the sites; without matplotlib there is no logo."""
        from latentstruct.io import write_meme, write_sites
        from latentstruct.viz.plots import can_plot, plot_logo

        files = {"matrix": folder / MEME_FILE, "sites": folder / SITES_FILE}
        write_meme(files["matrix"], self.matrix, self.background, "motif", len(self.sites), self.strands)
        write_sites(files["sites"], self.sites)
        if can_plot():
            from matplotlib.figure import Figure

            files["logo"] = folder / LOGO_FILE
            figure = Figure(figsize=(1.5 + 0.45 * len(self.matrix), 2.6), layout="constrained")
            plot_logo(self.matrix, self.background, figure.add_subplot())
            figure.savefig(files["logo"], dpi=150)
        return {what: str(path) for what, path in files.items()}


def find_motif(estimator: Any, parts: MotifParts) -> FoundMotif:
    """Return the best site of each positive sequence, their matrix and its consensus."""
    from latentstruct.tasks.motif.sites import consensus, find_sites, site_matrix

    sites, counts = [], [1, 1, 1, 1]
    for positive in parts.positives():
        sites += find_sites(estimator, positive)
        for k, letter in enumerate("ACGT"):
            counts[k] += sum(sequence.upper().count(letter) for sequence in positive.sequences)
    matrix = site_matrix([site.site for site in sites])
    background = [count / sum(counts) for count in counts]
    return FoundMotif(sites, matrix, consensus(matrix), background, estimator.task_.strands)


KIND = MotifKind()
