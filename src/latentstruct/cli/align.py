"""Models that align pairs of sequences."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct.cli.common import STANDARD_STREAM, reported_errors
from latentstruct.cli.old_kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.old_options import (
    Choices,
    JsonOption,
    Model,
    ModelOption,
    OutputOption,
    QuietOption,
    ReportOption,
    Rescaling,
    RoundsOption,
    SecondsOption,
    SeedOption,
    SolverName,
    SolverOption,
    TolOption,
    ValidOption,
)
from latentstruct.cli.training import Training, source_of
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, print_facts, print_table, show_percent

if TYPE_CHECKING:
    from latentstruct.formats.alignments import SequencePairs
    from latentstruct.report.blocks import Block, Examples

MATRIX_FILE, PICTURE_FILE = "matrix.txt", "matrix.png"
TRACKS = ("structure", "accessibility")
USUAL_TOLERANCES = (0, 4)
USUAL_C = {Model.svm: 0.01, Model.crf: 0.1}
"""The features of a pair are counts of a hundred matches and more, so that weights are small."""
OTHER_SCORES = "The model scores other features of matches too, which are left out here."


class Features(StrEnum):
    """What the score of a match looks at."""

    simple = "simple"
    anova2 = "anova2"
    tensor = "tensor"
    window = "window"


class Mode(StrEnum):
    """What part of the sequences is aligned."""

    local = "local"
    whole = "global"


@dataclass(frozen=True)
class AlignRecord:
    """What the command keeps beside a model of alignments: which tracks its sequences have, and how files are read."""

    tracks: list[str]
    lower_case: bool
    n_matches: int
    n_examples: int
    seconds: float
    kind: Literal["align"] = "align"


FeaturesOption = Annotated[
    Features, typer.Option(metavar="NAME", help=f"What a match's score looks at: {', '.join(Features)}.")
]
StructureOption = Annotated[
    str | None, typer.Option(metavar="FASTA", show_default="DATA.structure", help="Secondary structure, by names.")
]
AccessibilityOption = Annotated[
    str | None,
    typer.Option(metavar="FASTA", show_default="DATA.accessibility", help="Solvent accessibility, by names."),
]
PairWeightOption = Annotated[
    float | None,
    typer.Option("-C", metavar="NUMBER", show_default="0.01, crf 0.1", help="Weight of each pair against ½‖w‖²."),
]


@reported_errors()
def train_align(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Aligned pairs as gapped FASTA or PIR; - is standard input.")
    ],
    output: OutputOption = Path("model"),
    model: ModelOption = Model.svm,
    features: FeaturesOption = Features.simple,
    mode: Annotated[Mode, typer.Option(help="Align parts of the sequences, or the whole.")] = Mode.local,
    tolerance: Annotated[int, typer.Option(min=0, max=10**9, help="Shift up to which a match counts as right.")] = 4,
    derived: Annotated[
        bool, typer.Option("--derived", help="Guess tracks that are not given from the letters.")
    ] = False,
    structure: StructureOption = None,
    accessibility: AccessibilityOption = None,
    lower_case: Annotated[
        bool, typer.Option("--lower-case", help="Columns with lower-case letters count as aligned too.")
    ] = False,
    C: PairWeightOption = None,
    solver: SolverOption = SolverName.auto,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    valid: ValidOption = None,
    report: ReportOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Learn to align proteins from aligned pairs: records two by two, '-' and '.' for gaps.

    Columns of two upper-case letters are aligned. Lower-case letters belong to the sequences and are taken for not
    aligned, unless --lower-case says otherwise.

    Secondary structure and accessibility have a character for each letter, in FASTA files with the names of the
    sequences: --structure and --accessibility, or files beside the data, such as pairs.fa.structure for pairs.fa. For
    a model that has them, predict and evaluate look for the files beside their data.

    Besides the model, its folder gets matrix.txt, the substitution matrix in NCBI's format with the costs of gaps, and
    matrix.png. Ctrl-C saves the best weights so far.

    Example: latentstruct train align pairs.fa --mode global --valid more.fa -o aligner
    """
    from latentstruct.tasks.alignment import Alignment

    weight = USUAL_C.get(model) if C is None else C
    choices = Choices(output, model, weight, solver, tol, max_rounds, max_seconds, Rescaling.margin, seed)
    choices.check(data, structure, accessibility, valid)
    task = Alignment(features=features.value, mode=mode.value, tolerance=tolerance, derived=derived)
    tracks = {"structure": structure, "accessibility": accessibility}
    progress = Progress(quiet)
    training = make_training(choices, task, data, tracks, lower_case, valid, progress)
    training.report = report
    training.run(progress, json)


def make_training(
    choices: Choices,
    task: Any,
    data: str,
    given: dict[str, str | None],
    lower_case: bool,
    valid: str | None,
    progress: Progress,
) -> Training:
    """Read the pairs and return the training of a task on them."""
    files = {track: given[track] or beside(data, track) for track in TRACKS}
    tracks = {track: file for track, file in files.items() if file is not None}
    pairs, X = read_aligned(data, tracks, lower_case)
    n_matches = count_matches(pairs)
    progress.say(f"read {len(pairs)} pairs, {n_matches} aligned letters from {data}")
    for track, file in tracks.items():
        progress.say(f"read {track} from {file}")

    def record(_: Any, seconds: float) -> AlignRecord:
        return AlignRecord(list(tracks), lower_case, n_matches, len(pairs), seconds)

    score, shown = None, (pairs, X)
    if valid is not None:
        shown = read_aligned(valid, tracks_beside(valid, list(tracks)), lower_case)

        def score(estimator: Any) -> dict[str, Any]:
            return score_alignments(estimator, *shown)

    def finish(estimator: Any) -> dict[str, Any]:
        return {**describe_gaps(estimator), "files": write_matrix(estimator, choices.output)}

    sizes = {"n_examples": len(pairs), "n_matches": n_matches}
    estimator = choices.estimator(task, len(pairs))
    training = Training(AlignKind(), choices.output, estimator, X, pairs.matches, sizes, record, score, finish)
    training.examples = lambda trained: AlignKind().examples(trained, shown, source_of(valid, data))
    return training


def count_matches(pairs: "SequencePairs") -> int:
    """Return the number of aligned letters."""
    return sum(map(len, pairs.matches or []))


def beside(data: str, track: str) -> str | None:
    """Return the file of a track that stands beside the data, None if there is none."""
    if data == STANDARD_STREAM:
        return None
    name = f"{data.removesuffix('.gz')}.{track}"
    return next((file for file in (name, f"{name}.gz") if os.path.isfile(file)), None)


def tracks_beside(data: str, tracks: Sequence[str]) -> dict[str, str]:
    """Return the files of the tracks that a model needs; raise if one is missing."""
    found = {}
    for track in tracks:
        file = beside(data, track)
        if file is None:
            where, cure = (
                ("beside a file of pairs", f"give FILE in place of -, and FILE.{track}")
                if data == STANDARD_STREAM
                else (f"in the file {data.removesuffix('.gz')}.{track}", "put it there")
            )
            raise InputError(
                f"the model looks at the {track} of sequences, but {data} has none; expected it {where}: {cure}"
            )
        found[track] = file
    return found


def read_aligned(data: str, tracks: dict[str, str], lower_case: bool) -> tuple["SequencePairs", list[Any]]:
    """Read aligned pairs and return them, also as the task takes them."""
    from latentstruct.formats.alignments import read_alignments

    pairs = read_alignments(data, lower_case)
    check_letters(pairs, data)
    return pairs, with_tracks(pairs, tracks)


def check_letters(pairs: "SequencePairs", data: str) -> None:
    """Raise if a sequence has letters that are not known, naming it."""
    from latentstruct.sequences import AMINO_ACIDS

    for names, sequences in zip(pairs.names, pairs.sequences, strict=True):
        for name, letters in zip(names, sequences, strict=True):
            strange = letters.translate({ord(letter): None for letter in AMINO_ACIDS})
            if strange:
                raise InputError(
                    f"{data}: letter {letters.index(strange[0]) + 1} of the sequence {name!r} is {strange[0]!r}; "
                    f"expected amino acids ({AMINO_ACIDS}): write X for others"
                )


def with_tracks(pairs: "SequencePairs", tracks: dict[str, str]) -> list[Any]:
    """Return pairs of sequences with the tracks that files give for their names."""
    from latentstruct.formats.alignments import read_tracks
    from latentstruct.sequences import SequenceTracks

    states = {track: read_tracks(file) for track, file in tracks.items()}

    def sequence(name: str, letters: str) -> SequenceTracks:
        found = {}
        for track, by_name in states.items():
            if name not in by_name:
                raise InputError(
                    f"{tracks[track]} has no record {name!r}; expected the {track} of every sequence: add it"
                )
            if len(by_name[name]) != len(letters):
                raise InputError(
                    f"{tracks[track]}: the record {name!r} has {len(by_name[name])} characters; expected "
                    f"{len(letters)}, one for each letter of the sequence: correct it"
                )
            found[track] = by_name[name]
        return SequenceTracks(letters, found.get("structure"), found.get("accessibility"))

    return [
        tuple(sequence(name, letters) for name, letters in zip(names, sequences, strict=True))
        for names, sequences in zip(pairs.names, pairs.sequences, strict=True)
    ]


def score_alignments(estimator: Any, pairs: "SequencePairs", X: list[Any]) -> dict[str, Any]:
    """Return the quality of a model's alignments."""
    return compare_alignments(int(estimator.task_.tolerance), pairs, estimator.predict(X))


def compare_alignments(tolerance: int, pairs: "SequencePairs", predicted: Sequence[Any]) -> dict[str, Any]:
    """Return Q-scores and the share of predicted matches that are true."""
    from latentstruct.metrics.alignments import alignment_scores

    tolerances = sorted({*USUAL_TOLERANCES, tolerance})
    scores = alignment_scores(pairs.matches or [], predicted, tolerances)
    return {"n_examples": scores.pop("n_pairs"), "tolerance": tolerance, **scores}


def describe_gaps(estimator: Any) -> dict[str, float]:
    """Return what the first and each further letter against a gap costs."""
    first, further = estimator.task_.gap_costs(estimator.coef_)
    return {"gap_open": float(first), "gap_extend": float(further)}


def write_matrix(estimator: Any, folder: Path) -> dict[str, str]:
    """Write the substitution matrix and its picture; without matplotlib there is no picture."""
    import numpy as np

    from latentstruct.formats.ncbi_matrix import write_ncbi_matrix
    from latentstruct.plots import can_plot

    task = estimator.task_
    letters, scores = task.substitution_matrix(estimator.coef_)
    files = {"matrix": folder / MATRIX_FILE}
    more = task.n_features - 2 > np.unique(task.features_.letter_numbers()).size
    remark = OTHER_SCORES if more else ""
    write_ncbi_matrix(files["matrix"], letters, scores, **describe_gaps(estimator), remark=remark)
    if can_plot():
        files["picture"] = folder / PICTURE_FILE
        draw_matrix(letters, scores, files["picture"])
    return {what: str(path) for what, path in files.items()}


def draw_matrix(letters: str, scores: Any, path: Path) -> None:
    """Save a picture of a substitution matrix."""
    from matplotlib.figure import Figure

    from latentstruct.plots import plot_substitutions

    figure = Figure(figsize=(7.2, 6.2), layout="constrained")
    plot_substitutions(scores, letters, figure.add_subplot())
    figure.savefig(path, dpi=150)


class AlignKind(Kind):
    """Alignments of two sequences."""

    name = "align"
    summary = "Align pairs of protein sequences, with costs learned from aligned ones."
    reads = "Gapped FASTA or PIR: records two by two, - for gaps."
    example_file = "align.fa"
    prediction_file = "predicted.fa"
    record = AlignRecord
    train = staticmethod(train_align)
    files = (MATRIX_FILE, PICTURE_FILE)

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks.alignment import Alignment

        return isinstance(model.estimator.task_, Alignment) and set(TRACKS) >= set(model.record.tracks)

    def input_files(self, data: str) -> Sequence[str | Path]:
        """Return the pairs and the tracks beside them."""
        return [data, *(file for track in TRACKS if (file := beside(data, track)) is not None)]

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write the pairs aligned, as gapped FASTA."""
        from dataclasses import replace

        from latentstruct.formats.alignments import read_sequence_pairs, write_alignments

        tracks = tracks_beside(data, model.record.tracks)
        pairs = read_sequence_pairs(data)
        check_letters(pairs, data)
        matches = list(model.estimator.predict(with_tracks(pairs, tracks)))
        write_alignments(output, replace(pairs, matches=matches))
        sys.stdout.flush()

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return Q-scores."""
        return score_alignments(model.estimator, *self.read_held_out(model, held_out))

    def read_held_out(self, model: Trained, held_out: HeldOut) -> tuple["SequencePairs", list[Any]]:
        """Return aligned pairs, also as the task takes them."""
        data, record = held_out.data or "", model.record
        return read_aligned(data, tracks_beside(data, record.tracks), record.lower_case)

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return the substitution matrix and the costs of gaps."""
        from latentstruct.cli.reports.align import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: tuple["SequencePairs", list[Any]], source: str) -> "Examples":
        """Return alignments of pairs."""
        from latentstruct.cli.reports.align import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print the share of matches that were found at each shift."""
        facts = [("pairs", f"{scores['n_examples']}, {scores['n_matches']} aligned letters")]
        for shift, share in scores["q"].items():
            name, how = ("Q", "exactly") if int(shift) == 0 else (f"Q{shift}", f"up to a shift of {shift}")
            facts.append((name, f"{show_percent(share)} of the aligned letters found {how}, mean over pairs"))
        facts.append(
            ("modeler", f"{show_percent(scores['modeler'])} of the predicted matches are right, mean over pairs")
        )
        print_facts(facts)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the Q-scores without a shift and at that of the model."""
        q = scores["q"]
        facts = [("Q", show_percent(q[0]))]
        tolerance = scores["tolerance"]
        return facts if tolerance == 0 else [*facts, (f"Q{tolerance}", show_percent(q[tolerance]))]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the Q-score without a shift."""
        value: float = scores["q"][0]
        return value

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return the costs of gaps and the strongest substitutions."""
        import numpy as np

        from latentstruct.cli.description import largest

        task = model.estimator.task_
        letters, scores = task.substitution_matrix(model.estimator.coef_)
        rows, columns = np.indices(scores.shape).reshape(2, -1)
        if np.array_equal(scores, scores.T):
            rows, columns = np.triu_indices(len(letters))
        values = scores[rows, columns]
        strongest = [
            {"first": letters[rows[k]], "second": letters[columns[k]], "score": float(values[k])}
            for k in largest(values, top)
        ]
        return {
            "features": task.features,
            "mode": task.mode,
            "tolerance": task.tolerance,
            "tracks": model.record.tracks,
            "n_matches": model.record.n_matches,
            **describe_gaps(model.estimator),
            "substitutions": strongest,
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return the costs of gaps and, after training, the files."""
        facts = [("gaps", f"first letter {result['gap_open']:.4g}, each further one {result['gap_extend']:.4g}")]
        if "mode" in result:
            tracks = ", ".join(["letters", *result["tracks"]])
            facts.insert(0, ("alignment", f"{result['mode']}, {result['features']} features of {tracks}"))
        return facts + list(result.get("files", {}).items())

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the strongest substitutions."""
        rows = [(one["first"], one["second"], f"{one['score']:+.4f}") for one in result["substitutions"]]
        print_table("strongest substitutions", ("letter", "by", "score"), rows, n_text=2)
