"""Models that align pairs of sequences."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from latentstruct import io, metrics, tasks
from latentstruct.cli.answers import RISK, several
from latentstruct.cli.common import STANDARD_STREAM
from latentstruct.cli.declaring import argument, option, weight_option
from latentstruct.cli.description import largest
from latentstruct.cli.kind import Facts, KindSpec, Loaded, Trained, record_of
from latentstruct.cli.lazy import plots, similar
from latentstruct.cli.options import ConvexOptions, HeldOut
from latentstruct.core.lazy import np
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.progress.display import Progress, show_percent

MATRIX_FILE, PICTURE_FILE = "matrix.txt", "matrix.png"
TRACKS = ("structure", "accessibility")
USUAL_TOLERANCES = (0, 4)
USUAL_C = {"svm": 0.01, "crf": 0.1}
"""The features of a pair are counts of at least a hundred matches, so that weights are small."""
OTHER_SCORES = "The model also scores other features of matches, which are not in this matrix."
Pairs = tuple["io.SequencePairs", list[Any]]


@dataclass(frozen=True, kw_only=True)
class AlignOptions(ConvexOptions):
    """Learn to align proteins from aligned pairs: two records per pair, '-' and '.' for gaps.

    Columns of two upper-case letters are aligned. Lower-case letters belong to the sequences but are not aligned,
    unless --lower-case is given.

    Secondary structure and accessibility have one character per letter, in FASTA files with the names of the sequences:
    --structure and --accessibility, or files next to the data, such as pairs.fa.structure for pairs.fa. For a model
    that uses them, predict and evaluate read the files next to their data.

    The folder of the model also gets matrix.txt, the substitution matrix in NCBI's format with the costs of gaps, and
    matrix.png.

    Example: latentstruct train align pairs.fa --mode global --valid more.fa -o aligner
    """

    files: ClassVar[tuple[str, ...]] = ("data", *TRACKS, "valid")

    data: str = argument("Aligned pairs as gapped FASTA or PIR; - is standard input.")
    features: Literal["simple", "anova2", "tensor", "window"] = option(
        "simple", "Features of a match: simple, anova2, tensor, window.", metavar="NAME"
    )
    mode: Literal["local", "global"] = option("local", "Align parts of the sequences, or whole sequences.")
    tolerance: int = option(4, "Shift up to which a match counts as correct.", min=0, max=10**9)
    derived: bool = option(False, "Derive missing tracks from the letters.")
    structure: str | None = option(None, "Secondary structure, by names.", metavar="FASTA", shown="DATA.structure")
    accessibility: str | None = option(
        None, "Solvent accessibility, by names.", metavar="FASTA", shown="DATA.accessibility"
    )
    lower_case: bool = option(False, "Columns with lower-case letters count as aligned too.")
    C: float | None = weight_option(None, "pair", "0.01, crf 0.1")


class AlignKind(KindSpec):
    """Alignments of two sequences."""

    name = "align"
    item = "pair"
    group = "family"
    summary = "Align pairs of protein sequences, with costs learned from aligned ones."
    reads = "Gapped FASTA or PIR: two records per pair, - for gaps."
    example_file = "align.fa"
    prediction_file = "predicted.fa"
    predicts = "Alignments: the pairs aligned, as gapped FASTA."
    judged_by = "Alignments: Q, Q4 and modeler scores."
    options = AlignOptions
    record = record_of(tracks=list[str], lower_case=bool, n_matches=int)
    tasks = ("Alignment",)
    per_example = ("names", "sequences", "matches")
    files = (MATRIX_FILE, PICTURE_FILE)
    tables = (("substitutions", "strongest substitutions", ("letter", "by", "score")),)
    answers = frozenset({"topk", "samples", "decode", RISK, "pins"})
    calibrates = True
    described = (
        *(f"estimator.task_.{name}" for name in ("features", "mode", "tolerance")),
        "record.tracks",
        "record.n_matches",
    )

    def load(self, options: AlignOptions, progress: Progress) -> Loaded:
        task = tasks.Alignment(
            features=options.features, mode=options.mode, tolerance=options.tolerance, derived=options.derived
        )
        data, given = options.data, (options.structure, options.accessibility)
        files = {track: name or beside(data, track) for track, name in zip(TRACKS, given, strict=True)}
        tracks = {track: file for track, file in files.items() if file is not None}
        pairs, X = read_aligned(data, tracks, options.lower_case)
        sizes = {"n_examples": len(pairs), "n_matches": sum(map(len, pairs.matches or []))}
        progress.say(f"read {len(pairs)} pairs, {sizes['n_matches']} aligned letters from {data}")
        for track, file in tracks.items():
            progress.say(f"read {track} from {file}")
        record = self.new_record(sizes, tracks=list(tracks), lower_case=options.lower_case)
        weight = USUAL_C.get(options.model) if options.C is None else options.C
        estimator = replace(options, C=weight).estimator(task, len(pairs))
        groups = similar.similar_pairs(pairs.sequences).tolist() if options.divides else None
        return Loaded(X, pairs.matches, estimator, sizes, record, shown=(pairs, X), groups=groups)

    def finish(self, model: Trained, loaded: Loaded) -> dict[str, Any]:
        return {**describe_gaps(model.estimator), "files": write_matrix(model.estimator, model.path)}

    def fits(self, model: Trained) -> bool:
        return set(TRACKS) >= set(model.record.tracks)

    def read(self, model: Trained, held_out: HeldOut) -> Pairs:
        data, record = held_out.data or "", model.record
        return read_aligned(data, tracks_beside(data, record.tracks), record.lower_case)

    def find(self, model: Trained, data: Pairs) -> list[Any]:
        return list(self.outputs(model, data[1]))

    def labeled_examples(self, model: Trained, data: Pairs) -> tuple[Any, Any]:
        return data[1], data[0].matches

    def is_right(self, truth: Any, guess: Any) -> list[bool | None]:
        known = set(map(tuple, truth.tolist()))
        return [tuple(match) in known for match in guess.tolist()]

    def compare(self, model: Trained, data: Pairs, found: list[Any]) -> dict[str, Any]:
        tolerance = int(model.estimator.task_.tolerance)
        scores = metrics.alignment_scores(data[0].matches or [], found, sorted({*USUAL_TOLERANCES, tolerance}))
        return {"n_examples": scores.pop("n_pairs"), "tolerance": tolerance, **scores}

    def input_files(self, data: str) -> Sequence[str | Path]:
        return [data, *(file for track in TRACKS if (file := beside(data, track)) is not None)]

    def predict(self, model: Trained, data: str, output: str) -> None:
        tracks = tracks_beside(data, model.record.tracks)
        pairs = io.read_sequence_pairs(data)
        check_letters(pairs, data)
        X, answers = with_tracks(pairs, tracks), model.answers
        if answers.several and answers.pins:
            raise InputError("pins", True, "left out with several alignments of a pair")
        if answers.several:
            found = several(model.estimator, X, answers)
            notes = [" ".join(f"{name}={value}" for name, value in one.note.items()) for one in found]
            names, letters = ([side[one.example] for one in found] for side in (pairs.names, pairs.sequences))
            io.write_alignments(output, io.SequencePairs(names, letters, [one.y for one in found]), notes=notes)
            return
        fixed = io.read_alignments(data, model.record.lower_case).matches if answers.pins else None
        io.write_alignments(output, replace(pairs, matches=list(self.outputs(model, X, fixed))))

    def score_lines(self, scores: dict[str, Any]) -> Facts:
        facts = [("pairs", f"{scores['n_examples']}, {scores['n_matches']} aligned letters")]
        for shift, share in scores["q"].items():
            name, how = ("Q", "exactly") if int(shift) == 0 else (f"Q{shift}", f"up to a shift of {shift}")
            facts.append((name, f"{show_percent(share)} of the aligned letters found {how}, mean over pairs"))
        modeler = f"{show_percent(scores['modeler'])} of the predicted matches correct, mean over pairs"
        return [*facts, ("modeler", modeler)]

    def figures(self, scores: dict[str, Any]) -> dict[str, float]:
        return {f"Q{shift}" if shift else "Q": scores["q"][shift] for shift in (0, scores["tolerance"])}

    def main_score(self, scores: dict[str, Any]) -> float:
        return float(scores["q"][0])

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
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
        return {**super().describe(model, top), **describe_gaps(model.estimator), "substitutions": strongest}

    def training_facts(self, result: dict[str, Any]) -> Facts:
        return [("gaps", f"first letter {result['gap_open']:.4g}, each further one {result['gap_extend']:.4g}")]

    def facts(self, result: dict[str, Any]) -> Facts:
        tracks = ", ".join(["letters", *result["tracks"]])
        alignment = f"{result['mode']}, {result['features']} features of {tracks}"
        return [("alignment", alignment), *self.training_facts(result)]


def beside(data: str, track: str) -> str | None:
    """Return the file of a track next to the data, None if there is none."""
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
            name = "FILE" if data == STANDARD_STREAM else data.removesuffix(".gz")
            expected = f"a file with the {track} of its sequences in {name}.{track}"
            raise InputError("data", data, expected, "The model needs it.")
        found[track] = file
    return found


def read_aligned(data: str, tracks: dict[str, str], lower_case: bool) -> Pairs:
    """Read aligned pairs, also in the form that the task takes."""
    pairs = io.read_alignments(data, lower_case)
    check_letters(pairs, data)
    return pairs, with_tracks(pairs, tracks)


def check_letters(pairs: "io.SequencePairs", data: str) -> None:
    """Raise if a sequence has unknown letters."""
    from latentstruct.data.sequences import AMINO_ACIDS

    for names, sequences in zip(pairs.names, pairs.sequences, strict=True):
        for name, letters in zip(names, sequences, strict=True):
            strange = letters.translate({ord(letter): None for letter in AMINO_ACIDS})
            if strange:
                where = f"{data}, letter {letters.index(strange[0]) + 1} of the sequence {name!r}"
                raise FormatError(where, strange[0], f"an amino acid ({AMINO_ACIDS})", "Write X for others.")


def with_tracks(pairs: "io.SequencePairs", tracks: dict[str, str]) -> list[Any]:
    """Return pairs of sequences with the tracks of files."""
    from latentstruct.data.sequences import SequenceTracks

    states = {track: io.read_tracks(file) for track, file in tracks.items()}

    def sequence(name: str, letters: str) -> SequenceTracks:
        for track, by_name in states.items():
            if name not in by_name:
                raise FormatError(tracks[track], Description("none"), f"a record {name!r}, the {track} of a sequence")
            if len(by_name[name]) != len(letters):
                size = Description(f"{len(by_name[name])} characters")
                expected = f"{len(letters)}, one per letter of the sequence"
                raise FormatError(f"{tracks[track]}, record {name!r}", size, expected)
        found: Any = {track: by_name[name] for track, by_name in states.items()}
        return SequenceTracks(letters, **found)

    return [tuple(map(sequence, *pair)) for pair in zip(pairs.names, pairs.sequences, strict=True)]


def describe_gaps(estimator: Any) -> dict[str, float]:
    """Return the costs of the first and of each further letter of a gap."""
    first, further = estimator.task_.gap_costs(estimator.coef_)
    return {"gap_open": float(first), "gap_extend": float(further)}


def write_matrix(estimator: Any, folder: Path) -> dict[str, str]:
    """Write the substitution matrix and its picture; without matplotlib there is no picture."""
    task = estimator.task_
    letters, scores = task.substitution_matrix(estimator.coef_)
    files = {"matrix": folder / MATRIX_FILE}
    more = task.n_features - 2 > np.unique(task.features_.letter_numbers()).size
    io.write_ncbi_matrix(
        files["matrix"], letters, scores, **describe_gaps(estimator), remark=OTHER_SCORES if more else ""
    )
    if plots.can_plot():
        from matplotlib.figure import Figure

        files["picture"] = folder / PICTURE_FILE
        figure = Figure(figsize=(7.2, 6.2), layout="constrained")
        plots.plot_substitutions(scores, letters, figure.add_subplot())
        figure.savefig(files["picture"], dpi=150)
    return {what: str(path) for what, path in files.items()}


KIND = AlignKind()
