"""Models that find motifs in DNA sequences."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from latentstruct.cli.common import NOTHING, is_prepared, refuse_prepared, say_warnings
from latentstruct.cli.declaring import argument, option, restarts_option, skip_bad_option, weight_option
from latentstruct.cli.kind import Facts, KindSpec, Loaded, Record, Trained
from latentstruct.cli.kinds.motif.files import (
    PARTS,
    JudgedSequences,
    MotifData,
    MotifFileOptions,
    MotifParts,
    Reader,
    check_negatives,
    check_one_form,
    no_negatives,
    read_judged,
    read_known_sites,
    site_scores,
)
from latentstruct.cli.lazy import similar
from latentstruct.cli.options import HeldOut, LeftOut, TrainOptions
from latentstruct.cli.parameters import AUTO
from latentstruct.cli.prepared import PrepareOptions
from latentstruct.exceptions import InputError
from latentstruct.progress.display import Progress, caught_warnings, print_table, show_percent

if TYPE_CHECKING:
    from latentstruct.cli.kinds.motif.calibration import ScoredSites
    from latentstruct.io import Sequences
    from latentstruct.viz.report.blocks import Block

FILES = ("motif.meme", "logo.png", "sites.bed")
AUTO_WIDTHS, MOST_MOTIFS = (6, 18), 10
_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class MotifOptions(MotifFileOptions, TrainOptions):
    """Find a motif that separates positive sequences from negative ones, its sites and its significance.

    Plain or gzip-compressed FASTA: either DATA with headers such as >name label=1 and >name label=-1, or --positive,
    alone or with --negative or --background or both. --background may be used with DATA too. Without negative
    sequences, shuffled copies of the positive ones are used, which have the same dinucleotides. RNA is read as DNA, and
    letters such as R are read as N; --alphabet protein is for proteins.

    A third of the sequences, at most 1000 of each class, is held out. The motif is first found in the others and tested
    on those held out; the p-value includes the choice of a threshold, and the E-value is the p-value times the number
    of motifs tested. The model is then trained on all sequences. A motif with an E-value above 0.05 is not significant.

    The folder of the model also gets motif.meme, logo.png and sites.bed. With --motifs, further motifs are found where
    the sites of earlier ones are masked; they are in these files, and the model is that of the first motif.

    The training error is no estimate of the error on other sequences: use --valid, or evaluate on other data.

    Examples: latentstruct train motif --positive peaks.fa --width auto --motifs auto; latentstruct train motif
    --positive bound.fa --background intergenic.fa.gz --match --width 17
    """

    files: ClassVar[tuple[str, ...]] = (*MotifFileOptions.files, "valid_positive", "valid_negative")
    left_out = (
        *TrainOptions.left_out,
        LeftOut("gaps kmer_weight", without="kmers"),
        LeftOut("shuffle match", given="negative"),
        LeftOut("shuffle", given="background"),
    )

    data: str | None = argument(
        "FASTA with label=1 or label=-1 in its headers, or a folder of prepared data; - is standard input.",
        None,
        "--positive and others",
    )
    width: str = option(
        "11",
        "Number of letters of the motif; from a range such as 8-14, or auto for "
        f"{AUTO_WIDTHS[0]}-{AUTO_WIDTHS[1]}, it is chosen by cross-validation.",
        metavar="N|FROM-TO|auto",
    )
    motifs: int = option(
        1,
        f"Number of motifs to find; auto for as many as are significant, up to {MOST_MOTIFS}.",
        auto=int,
        min=1,
        max=MOST_MOTIFS,
    )
    order: int | None = option(
        None, "Order of the Markov background.", shown="3, 0 for proteins", min=0, max=5, sets="background_order"
    )
    strands: int | None = option(
        None, "1 to read the given strand only, as for RNA.", shown="2, 1 for proteins", min=1, max=2
    )
    kmers: int = option(
        0, "Use words of this many letters, wherever they are, as features beside the motif.", metavar="K", min=0, max=8
    )
    gaps: int = option(0, "Letters that a word of --kmers may skip.", min=0, max=8)
    kmer_weight: float = option(
        AUTO, "Weight of the words of --kmers; auto chooses 0, 0.25, 1 or 4 by cross-validation.", auto=float, min=0.0
    )
    shuffle: int | None = option(
        None,
        "Use shuffled positive sequences as negative ones, with the same number of each word of this many letters.",
        metavar="K",
        shown="2, 1 for proteins, if there are no others",
        min=1,
        max=6,
    )
    match: bool = option(
        False,
        "Choose negatives from --background by length and GC content, or hydrophobic residues, one per positive one.",
    )
    test_share: float | None = option(
        None,
        "Share of the sequences to hold out for the test of the motif; 0 for no test.",
        "--held-out",
        metavar="SHARE",
        shown="a third, at most 1000 of each class, if there are 24 or more",
        min=0.0,
        max=0.9,
    )
    name: str | None = option(None, "Name of the motif in all files.", "--motif-name", shown="that of the file")
    skip_bad: bool = skip_bad_option()
    mask_repeats: bool = option(False, "Read letters in lower case, such as masked repeats, as unknown.")
    valid_positive: str | None = option(None, "Held-out sequences with the motif.", metavar="FASTA")
    valid_negative: str | None = option(None, "Held-out sequences without the motif.", metavar="FASTA")
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

    @property
    def valid_source(self) -> str | None:
        return self.valid or self.valid_positive

    def held_out(self) -> HeldOut:
        return HeldOut(self.valid, None, self.valid_positive, self.valid_negative, skip_bad=self.skip_bad)

    @property
    def width_range(self) -> tuple[int, int]:
        """The least and the largest width."""
        if self.width == AUTO:
            return AUTO_WIDTHS
        found = _RANGE.fullmatch(self.width)
        low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= low <= high:
            raise InputError("width", self.width, "a number of at least 1, a range such as 8-14, or auto")
        return low, high

    @property
    def most_motifs(self) -> int:
        """The largest number of motifs."""
        return MOST_MOTIFS if str(self.motifs) == AUTO else self.motifs

    @property
    def motif_name(self) -> str:
        """The name of the motif."""
        stem = Path(self.source).name.split(".")[0]
        return self.name or re.sub(r"\W+", "_", stem) or "motif"

    def motif(self, width: int, kmer_weight: float = 0.0) -> Any:
        """Return the task of a motif alone, or with words beside it."""
        from latentstruct.tasks import Motif

        strands = self.letters.strands if self.strands is None else self.strands
        order = self.letters.order if self.order is None else self.order
        words: dict[str, Any] = (
            {"kmers": self.kmers, "gaps": self.gaps, "kmer_weight": kmer_weight} if kmer_weight else {}
        )
        return Motif(width, order, strands, alphabet=self.alphabet, **words)

    def motif_svm(self, width: int, restarts: int, C: Any, kmer_weight: float) -> Any:
        """Return an untrained model."""
        init = "task" if self.start == "kmers" else "random"
        return self.latent_svm(self.motif(width, kmer_weight), init=init, restarts=restarts, C=C)

    def check(self) -> None:
        super().check()
        self.check_files()
        _ = self.width_range
        if self.most_motifs > 1 and self.test_share == 0.0:
            raise InputError("motifs", self.motifs, "1 if no sequences are held out")
        if self.most_motifs > 1 and self.kmers:
            raise InputError("kmers", self.kmers, "0 with several motifs")
        if self.name is not None and len(self.name.split()) != 1:
            raise InputError("name", self.name, "one word")
        if self.match and self.background is None:
            raise InputError("background", NOTHING, "given with `match`")
        check_one_form(self.valid, self.valid_positive, self.valid_negative)
        if (self.valid_positive is None) != (self.valid_negative is None):
            missing = "valid_positive" if self.valid_positive is None else "valid_negative"
            raise InputError(missing, NOTHING, "given, as the other class is")
        if self.negative or self.background or self.data:
            check_negatives(bool(self.negative or self.data), bool(self.background), self.background_weight)

    def read_parts(self, progress: Progress) -> MotifData:
        """Read the sequences, and shuffle or choose negative ones if there are none."""
        from latentstruct.io.fasta import FastaRules

        low, high = self.width_range
        rules = FastaRules(self.skip_bad, self.mask_repeats, self.letters)
        parts = self.read(Reader(high if self.skip_bad else low, rules, progress))
        if self.match:
            parts = parts.with_matched(self.seed)
            progress.say(f"chose {parts.counts[1]} negative sequences by length and letters from {self.background}")
        elif parts.negative is None and parts.background is None:
            if self.data is not None and self.shuffle is None:
                raise no_negatives(self.data)
            k = self.letters.shuffled if self.shuffle is None else self.shuffle
            parts = parts.with_shuffled(k, self.seed)
            progress.say(f"shuffled the positive sequences as negative ones; words of length {k} are kept")
        return parts


@dataclass(frozen=True, kw_only=True)
class MotifPrepareOptions(MotifFileOptions, PrepareOptions):
    """Prepare sequences for latentstruct train motif.

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
        self.check_files()
        check_negatives(bool(self.negative or self.data), bool(self.background), None)
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
    name: str = "motif"
    calibration: dict[str, Any] | None = None
    e_value: float | None = None
    enrichment: dict[str, Any] | None = None


class MotifKind(KindSpec):
    """Motifs in DNA and proteins."""

    name = "motif"
    group = "family"
    summary = "Find the motif that separates some sequences of DNA or proteins from others."
    latent = "the site of the motif, and its strand"
    reads = (
        "FASTA with label=1 or label=-1 in the headers, after the name; or separate files for --positive, --negative "
        "and --background."
    )
    example_file = "motif.fa"
    prediction_file = "predicted.tsv"
    predicts = (
        "Motifs: the best site of each sequence with its score as BED, with the columns site, label and p_value (of "
        "the best score of a random sequence of this length) added."
    )
    judged_by = (
        "Motifs: error, AUC and, with --sites, the fraction of sequences with known sites in which one is hit. A "
        "site is hit if the predicted one overlaps it by at least half of the shorter of both."
    )
    options = MotifOptions
    prepare_options = MotifPrepareOptions
    settled_options = ("background",)
    record = MotifRecord
    tasks = ("Motif",)
    files = FILES
    judged_on = frozenset({"data", "positive", "negative", "sites", "skip_bad"})
    answers = frozenset({"skip_bad"})
    judged_on_always = frozenset()
    evaluation_hint = "Pass FASTA with label=1 or label=-1 in its headers as `data`, or `positive` and `negative`."
    score_facts = (
        ("sequences", "{n_examples}, {error:%} wrong"),
        ("AUC", "{auc:.4f}"),
        ("p-value", "{p_value_text}"),
        ("sites hit", "{sites_hit:%} of {n_known_sites} sequences"),
    )
    headline = (("error", "error"),)
    report_facts = (("AUC", "{auc:.4f}"), ("sites hit", "{sites_hit:%} of {n_known_sites} sequences"))
    # Not the AUC: it may be the same for all C, even where the threshold is wrong for all sequences.
    main = ("accuracy",)
    described = (
        *(f"estimator.task_.{name}" for name in ("alphabet", "width", "background_order", "strands")),
        *(f"record.{name}" for name in ("consensus", "e_value", "background_weight")),
        *(f"record.n_{part}" for part in PARTS),
    )
    info_facts = (
        ("consensus", "{consensus}"),
        ("sequences", ", ".join(f"{{n_{part}}} {part}" for part in PARTS)),
        ("motif", "{alphabet}, width {width}, strands {strands}, background order {background_order}"),
    )

    def load(self, options: MotifOptions, progress: Progress) -> Loaded:
        refuse_prepared(positive=options.positive, negative=options.negative, background=options.background)
        with caught_warnings() as warned:
            parts = options.read_parts(progress)
            parts.check_apart()
            parts.warn_of_differences()
        say_warnings(warned)
        return self._loaded(options, parts)

    def load_prepared(self, options: MotifOptions, progress: Progress) -> Loaded:
        low, high = options.width_range
        if low != high:
            raise InputError("width", options.width, "a number if `data` is prepared")
        if options.kmers and options.kmer_weight == AUTO:
            raise InputError("kmer_weight", AUTO, "a number if `data` is prepared")
        stored = self._module("prepare").StoredMotifs.open(options.source, low, options.letters)
        _, n_negative, n_background = stored.counts
        check_negatives(bool(n_negative), bool(n_background), options.background_weight)
        progress.say(f"found {sum(stored.counts)} sequences in {len(stored.data.sizes)} files of {options.data}")
        return self._loaded(options, stored)

    def _loaded(self, options: MotifOptions, parts: MotifParts) -> Loaded:
        weight = parts.even_weight() if options.background_weight is None else options.background_weight
        X, Y, weights = parts.training(weight)
        counts = {f"n_{name}": n for name, n in zip(PARTS, parts.counts, strict=True)}
        sizes: dict[str, Any] = {"n_examples": sum(parts.counts), **counts}
        shown = parts.judged() if isinstance(parts, MotifData) else None
        record = MotifRecord(consensus="", background_weight=weight, name=options.motif_name, **sizes)
        low, _ = options.width_range
        search = self._module("search").MotifSearch(options, parts, weight, low)
        # The search replaces this estimator, of which held-out data need the width and the letters.
        estimator = options.motif_svm(low, options.restarts, options.C, 0.0)
        found = Loaded(X, Y, estimator, sizes, record, search, shown=shown, fit_params={"sample_weight": weights})
        if options.divides:
            found.groups = similar.similar_sequences(X).tolist()
        return found

    def encode(self, loaded: Loaded, progress: Progress) -> Loaded:
        """Find motifs in a part of the sequences and test them on the others; training starts from the first one."""
        search = loaded.features
        with caught_warnings() as warned:
            search.run(progress)
        say_warnings(warned)
        fit_params = {**loaded.fit_params, **search.beginning()}
        return replace(loaded, estimator=search.model(), choices=search.choices, fit_params=fit_params)

    def final_record(self, model: Trained, loaded: Loaded) -> MotifRecord:
        search = loaded.features
        first = search.collect(model.estimator)[0]
        enrichment = None if first.enrichment is None else asdict(first.enrichment)
        facts = first.describe()
        known = {"consensus": facts["consensus"], "e_value": facts["e_value"], "enrichment": enrichment}
        negatives, longest = search.parts.negatives()
        found = self._module("calibration").Calibration.of(model.estimator, negatives, longest, search.options.seed)
        return replace(model.record, calibration=None if found is None else asdict(found), **known)

    def finish(self, model: Trained, loaded: Loaded) -> dict[str, Any]:
        search = loaded.features
        motifs = [found.describe() for found in search.collect(model.estimator)]
        known = {"consensus": motifs[0]["consensus"], "background_weight": model.record.background_weight}
        errors = search.parts.errors(model.estimator)
        search.parts.warn_if_one_sided(errors)
        return {**known, "motifs": motifs, "training": errors, "files": search.write(model.path)}

    def fits(self, model: Trained) -> bool:
        return len(model.record.consensus) == model.estimator.task_.width

    def read(self, model: Trained, held_out: HeldOut) -> JudgedSequences:
        with caught_warnings() as warned:
            judged = read_judged(held_out, model.estimator.task, self.evaluation_hint)
        say_warnings(warned)
        return judged

    def choose(self, data: JudgedSequences, rows: Sequence[int]) -> JudgedSequences:
        split, wanted = len(data.positive), set(rows)
        kept = [i in wanted for i in range(split + len(data.negative))]
        return replace(data, positive=data.positive.choose(kept[:split]), negative=data.negative.choose(kept[split:]))

    def scored(self, model: Trained, parts: "Iterable[Sequences]") -> "list[ScoredSites]":
        """Return the best sites of the sequences of each part, and warn of long sequences."""
        module = self._module("calibration")
        known = None if model.record.calibration is None else module.Calibration(**model.record.calibration)
        found: list[ScoredSites] = [module.score_sites(model.estimator, known, part) for part in parts]
        with caught_warnings() as warned:
            module.warn_of_length(sum(part.n_longer for part in found), sum(len(part.sites) for part in found), known)
        say_warnings(warned)
        return found

    def find(self, model: Trained, data: JudgedSequences) -> "list[ScoredSites]":
        return self.scored(model, [data.positive, data.negative])

    def compare(self, model: Trained, data: JudgedSequences, found: "list[ScoredSites]") -> dict[str, Any]:
        positive, negative = found
        return {**compare_scores(positive.scores, negative.scores), **site_scores(positive.sites, data.known)}

    def score_prepared(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        check_one_form(held_out.data, held_out.positive, held_out.negative)
        stored = self._module("prepare").StoredMotifs.of(held_out.data or "", model.estimator.task_)
        known = None if held_out.sites is None else read_known_sites(held_out.sites, list(stored.positives()))
        sites = [site for part in self.scored(model, stored.labeled_parts()) for site in part.sites]
        kinds = [
            [site for site, own in zip(sites, stored.positive, strict=True) if own == kind] for kind in (True, False)
        ]
        positive, negative = ([site.score for site in part] for part in kinds)
        return {**compare_scores(positive, negative), **site_scores(kinds[0], known)}

    def predict(self, model: Trained, data: str, output: str) -> None:
        from latentstruct.io.text import write_text

        task = model.estimator.task_
        parts: Iterable[Sequences]
        if is_prepared(data):
            parts = (sequences for sequences, _ in self._module("prepare").StoredMotifs.of(data, task).parts())
        else:
            with caught_warnings() as warned:
                parts = [Reader.of(model.estimator.task, model.answers.skip_bad).read(data)]
            say_warnings(warned)
        lines = ["#sequence\tstart\tend\tmotif\tscore\tstrand\tsite\tlabel\tp_value\n"]
        for found in self.scored(model, parts):
            p_values = ["."] * len(found.sites) if found.p_values is None else [f"{p:.3g}" for p in found.p_values]
            for site, p_value in zip(found.sites, p_values, strict=True):
                place = (site.sequence, site.start, site.end, model.record.name)
                label = "+1" if site.score > 0 else "-1"
                cells = (*place, f"{site.score:.6g}", site.sign, site.site, label, p_value)
                lines.append("\t".join(map(str, cells)) + "\n")
        write_text(output, "".join(lines))

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        rows = [
            ("positive", str(scores["true_positives"]), str(scores["false_negatives"])),
            ("negative", str(scores["false_positives"]), str(scores["true_negatives"])),
        ]
        print_table("", ("true", "predicted positive", "predicted negative"), rows)

    def lead_blocks(self, model: Trained) -> "list[Block]":
        blocks: list[Block] = self._module("report").lead_blocks(model)
        return blocks

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        from latentstruct.tasks.motif.sites import strongest_words, weight_matrix

        matrix = weight_matrix(model.estimator).tolist()
        letters = model.estimator.task_.alphabet_.letters
        words = strongest_words(model.estimator, top)
        return {**super().describe(model, top), "letters": letters, "weight_matrix": matrix, "words": words}

    def training_facts(self, result: dict[str, Any]) -> Facts:
        facts, motifs = [], result["motifs"]
        for number, motif in enumerate(motifs, 1):
            number_shown = f"motif {number}" if len(motifs) > 1 else "motif"
            sites = f"{motif['n_sites']} sites, {motif['information']:.1f} bits"
            facts.append((number_shown, f"{motif['consensus']} ({motif['name']}, {sites})"))
            facts.append(("significance", motif["significance"]))
        for part, error in result["training"].items():
            weight = f" (weight {result['background_weight']:g})" if part == "background" else ""
            facts.append((f"{part} wrong", f"{show_percent(error)} of the training data{weight}"))
        return facts

    def show_details(self, result: dict[str, Any]) -> None:
        pairs = zip(result["consensus"], result["weight_matrix"], strict=True)
        rows = [
            [str(j), letter, *(f"{value:+.3f}" for value in weights)] for j, (letter, weights) in enumerate(pairs, 1)
        ]
        print_table("weights", ("position", "consensus", *result["letters"]), rows, n_text=2)
        if result["words"]:
            words = [(word, f"{weight:+.3f}") for word, weight in result["words"]]
            print_table("words beside the motif", ("word", "weight"), words)


def compare_scores(*scores: Any) -> dict[str, Any]:
    """Return errors, counts and the area under the ROC curve of scores of positive and of negative sequences."""
    import numpy as np

    from latentstruct.metrics.measures import roc_area
    from latentstruct.tasks.motif.significance import score_enrichment

    n_positive, n_negative = map(len, scores)
    found, mistaken = (int((np.asarray(part) > 0).sum()) for part in scores)
    return {
        "n_examples": n_positive + n_negative,
        "error": (error := (n_positive - found + mistaken) / (n_positive + n_negative)),
        "accuracy": 1.0 - error,
        "auc": roc_area(np.arange(n_positive + n_negative) < n_positive, np.concatenate(scores)),
        "p_value": (p_value := score_enrichment(*scores).p_value),
        "p_value_text": f"{p_value:.2g}",
        "true_positives": found,
        "false_negatives": n_positive - found,
        "false_positives": mistaken,
        "true_negatives": n_negative - mistaken,
    }


KIND = MotifKind()
