"""Learning curves: the held-out score of a kind of model against the number of training examples or of labels."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latentstruct.cli.common import check_folder, check_output, ended_by_interrupt, refuse_prepared, say_warnings
from latentstruct.cli.declaring import option
from latentstruct.cli.kind import KindSpec, Trained
from latentstruct.cli.lazy import plots
from latentstruct.cli.options import PAGE_SUFFIXES, TrainOptions, check_report
from latentstruct.cli.run import shown_name
from latentstruct.core.lazy import np
from latentstruct.core.unknown import UNKNOWN, is_unknown
from latentstruct.exceptions import InputError
from latentstruct.io.text import NUMBER
from latentstruct.progress.display import Progress, caught_warnings, print_facts, print_json, print_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from latentstruct.cli.folds import CrossValidation

PICTURE_SUFFIXES = (".png", ".svg", ".pdf")
WITHOUT_EFFECT = frozenset(
    {"valid", "valid_labels", "valid_positive", "valid_negative", "allow_unknown", "early_stopping", "patience"}
    | {"report", "fold_predictions", "checkpoint", "checkpoint_every"}
)
"""Options of trainings that are no options of curves: those of held-out data, and those of one model."""
WIDE_RANGE = 20
"""Ratio of the largest to the smallest number of examples above which their axis is logarithmic."""
HELP = """Draw a learning curve: the held-out score of {name} models against the number of training examples.

In each fold, models are trained on growing shares of the training examples and scored on the examples held out. No
model is saved. With --label-fractions, all examples are used, and growing shares of their labels are known.

Example: latentstruct curve {name} {file} --fractions 0.1,0.3,1 --folds 5 -o curve.png
"""


@dataclass(frozen=True, kw_only=True)
class CurveOptions:
    """The options of curves in place of those of trainings."""

    fractions: str = option("0.1,0.3,1", "Increasing shares of the training examples of a fold.", metavar="NUMBERS")
    label_fractions: str | None = option(
        None, "Increasing shares of the labels of tokens or nodes; others are unknown.", metavar="NUMBERS"
    )
    folds: int = option(5, "Number of folds, each of which is held out once.", min=2)
    output: Path | None = option(
        None, "Plot to write: .png, .svg, .pdf, or a page, .html.", "-o", "--output", metavar="FILE", shown="none"
    )

    def check_results(self) -> None:
        """Raise before anything is read if the plot cannot be written."""
        if self.output is None:
            return
        suffix = self.output.suffix.lower()
        if suffix in PAGE_SUFFIXES:
            check_report(self.output, "output")
            return
        if suffix not in PICTURE_SUFFIXES or self.output.is_dir():
            expected = f"a file whose name ends in {', '.join(PICTURE_SUFFIXES)} or .html"
            raise InputError("output", str(self.output), expected)
        plots.require_plots()
        check_folder(self.output.parent)


def curve_options(kind: KindSpec) -> type[Any]:
    """Return the options of the curves of a kind: those of its trainings that have an effect, and `CurveOptions`."""
    # A field that is not declared as an option keeps its default.
    hidden = [(one.name, one.type, field(default=one.default)) for one in fields(kind.options)]
    return make_dataclass(
        f"{kind.options.__name__}OfCurve",
        [one for one in hidden if one[0] in WITHOUT_EFFECT],
        bases=(CurveOptions, kind.options),
        namespace={"__doc__": HELP.format(name=kind.name, file=kind.example_file)},
        frozen=True,
        kw_only=True,
    )


def parse_fractions(text: str, name: str = "fractions") -> list[float]:
    """Read the value of an option with fractions."""
    parts = [part.strip() for part in text.split(",")]
    values = [float(part) for part in parts if NUMBER.fullmatch(part)]
    increasing = all(low < high for low, high in zip([0.0, *values], values, strict=False))
    if len(values) != len(parts) or len(values) < 2 or not increasing or values[-1] > 1.0:
        expected = "at least two increasing numbers above 0 and at most 1, separated by commas"
        raise InputError(name, text, expected)
    return values


def check_label_fractions(kind: KindSpec, options: Any) -> None:
    """Raise if a curve over the share of labels is not possible."""
    if not kind.learns_from_part:
        expected = f"left out for {kind.name} models, which need all labels"
        raise InputError("label_fractions", options.label_fractions, expected)
    reason = "with `label_fractions`"
    options.refuse("fractions", reason)
    if options.chooses:
        expected = f"a number {reason}"
        raise InputError("C", options.C, expected, "It would be chosen with labels that are unknown in training.")


def curve(kind: KindSpec, options: Any) -> None:
    """Compute a learning curve, print it and draw it."""
    from latentstruct.cli.folds import CrossValidation

    options.check()
    fractions = parse_fractions(options.fractions)
    if options.label_fractions is not None:
        fractions = parse_fractions(options.label_fractions, "label_fractions")
        check_label_fractions(kind, options)
    if options.output is not None:
        check_output(str(options.output), filter(None, (getattr(options, name) for name in options.files)))
    refuse_prepared(data=options.data)
    progress = Progress(options.quiet)
    with caught_warnings() as warned, ended_by_interrupt(), kind.naming(options.source):
        loaded = kind.encode(kind.load(options, progress), progress)
        model = Trained(Path(), loaded.estimator, loaded.record, loaded.features, loaded.labels, progress.say)
        with options.configured(loaded.estimator):
            curve_of = LearningCurve if options.label_fractions is None else LabelCurve
            result = curve_of(kind, CrossValidation(kind, options, loaded, model, progress), fractions)
        if options.output is not None:
            result.write(options.output, shown_name(options.source))
    expected = tuple(f"training stopped early ({reason})" for reason in kind.expected_stops)
    say_warnings(text for text in warned if not text.startswith(expected))
    written = {} if options.output is None else {"plot": str(options.output)}
    if options.json:
        found = {name: getattr(result, name) for name in ("main", "points", "gain", "conclusion")}
        print_json({"kind": kind.name, "folds": options.folds, **found, **written})
        return
    print_table("", result.columns, result.cells())
    print_facts([("result", result.conclusion), *written.items()])


Sized = tuple[int, "list[tuple[CrossValidation, Any]]"]
"""Mean number of units of the training sets of all folds, and the examples of each."""


class LearningCurve:
    """Scores of models of growing training sets.

    Each of `points` has the fraction, the mean number of training examples, and mean and standard error of each figure.
    `unit` is what is counted, `more` what the conclusion calls it. `main` is the name of the main score: that of the
    figure that it is, otherwise "score".
    """

    unit, more = "examples", "data"

    def __init__(self, kind: KindSpec, validation: "CrossValidation", fractions: Sequence[float]) -> None:
        from latentstruct.cli.folds import mean_and_error, summarize_folds
        from latentstruct.progress.eta import describe_share

        self.kind = kind
        folds = validation.assign()
        self.points: list[dict[str, Any]] = []
        began = time.perf_counter()
        for fraction, (size, sets) in zip(fractions, self.training(validation, folds, fractions), strict=True):
            found = [
                validation.figures(one.fit(rows), np.flatnonzero(folds == k)) for k, (one, rows) in enumerate(sets)
            ]
            self.points.append({"fraction": fraction, f"n_{self.unit}": size, "scores": summarize_folds(found)})
            mean = self.points[-1]["scores"]["score"]["mean"]
            share = describe_share(len(self.points), len(fractions), "sizes", time.perf_counter() - began)
            validation.progress.say(f"{size} training {self.unit}: score {mean:.4f}; {share}")
        scores = [one["scores"] for one in self.points]
        names = [name for name in scores[0] if all(name in one for one in scores)]
        declared = [name for path in kind.main for name, known in kind.headline if known == path and name in names]
        # "score" itself comes last.
        candidates = [*declared, *names[1:], names[0]]
        self.main = next(name for name in candidates if all(one[name] == one["score"] for one in scores))
        self.names = [self.main, *(name for name in names[1:] if name != self.main)]
        self.columns = ["fraction", f"training {self.unit}", *self.names]
        before, last = (np.array(one["score"]["folds"]) for one in scores[-2:])
        self.gain = mean_and_error((last - before).tolist())

    def training(self, validation: "CrossValidation", folds: Any, fractions: Sequence[float]) -> Iterator[Sized]:
        """Yield the training sets of each fraction."""
        for sets in training_sets(validation, folds, fractions):
            size = round(np.mean([len(np.unique(validation.origins[rows])) for rows in sets]))
            yield size, [(validation, rows) for rows in sets]

    def cells(self) -> list[list[str]]:
        """Return the rows of the table."""

        def shown(one: dict[str, Any]) -> str:
            return f"{self.kind.show_figure(one['mean'])} ± {self.kind.show_figure(one['standard_error'])}"

        return [
            [f"{one['fraction']:g}", str(one[f"n_{self.unit}"]), *(shown(one["scores"][name]) for name in self.names)]
            for one in self.points
        ]

    @property
    def conclusion(self) -> str:
        """Whether more data still helps, by the differences of the last two points in the same folds."""
        from latentstruct.estimators.folds import CLEARLY

        gain, error = self.gain["mean"], self.gain["standard_error"]
        clear = abs(gain) > CLEARLY * error
        begin = f"No clear gain from more {self.more}"
        if clear:
            helps, not_ = ("help", "do not help") if self.more == "labels" else ("helps", "does not help")
            begin = f"More {self.more} still {helps}" if gain > 0 else f"More {self.more} {not_}"
        first, last = (one[f"n_{self.unit}"] for one in self.points[-2:])
        change = f"{'rises' if gain >= 0 else 'falls'} by {self.kind.show_figure(abs(gain))}"
        where = f"from {first} to {last} training {self.unit}, {self.main} {change} ± {self.kind.show_figure(error)}"
        return f"{begin}: {where}, {'more than' if clear else 'within'} {CLEARLY:g} standard errors."

    def draw(self, ax: "Axes") -> None:
        """Draw the main score with its standard errors."""
        from latentstruct.viz.plots.axes import hide_frame

        sizes, scores = [one[f"n_{self.unit}"] for one in self.points], [one["scores"]["score"] for one in self.points]
        means, errors = ([one[name] for one in scores] for name in ("mean", "standard_error"))
        ax.errorbar(sizes, means, errors, color="C0", marker="o", capsize=3)
        ax.set_xscale("log" if sizes[-1] >= WIDE_RANGE * sizes[0] else "linear")
        ax.set(xlabel=f"training {self.unit}", ylabel=f"held-out {self.main}")
        hide_frame(ax)

    def write(self, path: Path, source: str) -> None:
        """Write the plot as a picture or as a page."""
        from latentstruct.persistence.atomic_files import write_output

        if path.suffix.lower() in PAGE_SUFFIXES:
            from latentstruct.viz.report.blocks import Drawing, TableBlock
            from latentstruct.viz.report.page import Page, Section, write_page

            drawing = Drawing(self.draw, f"Held-out {self.main} against the number of training {self.unit}.")
            table = TableBlock("means and standard errors", self.columns, self.cells())
            section = Section("Held-out scores", [drawing, table], self.conclusion)
            write_page(Page("Learning curve", f"{self.kind.name}, {source}", [section]), path)
            return
        from matplotlib.figure import Figure

        figure, stream = Figure(figsize=(7.2, 3.6), layout="constrained"), BytesIO()
        self.draw(figure.subplots())
        figure.savefig(stream, format=path.suffix[1:].lower(), dpi=150)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, stream.getvalue())


class LabelCurve(LearningCurve):
    """Scores of models of growing shares of the labels; all training examples are used.

    The labels that are known at one fraction are known at all larger ones.
    """

    unit = more = "labels"

    def training(self, validation: "CrossValidation", folds: Any, fractions: Sequence[float]) -> Iterator[Sized]:
        """Yield the training sets of each fraction, whose further labels are unknown."""
        loaded, options = validation.loaded, validation.options
        estimator = self.kind.for_unknown_labels(options, loaded)
        known = [[not is_unknown(label) for label in y] for y in loaded.Y]
        ends = np.cumsum([0, *map(len, known)])
        places = np.flatnonzero(np.concatenate([np.array(one, dtype=bool) for one in known]))
        order = np.random.default_rng(options.seed).permutation(places)
        for fraction in fractions:
            hidden = np.ones(ends[-1], dtype=bool)
            hidden[order[: round(fraction * len(order))]] = False
            parts = [hidden[first:last].tolist() for first, last in pairwise(ends)]
            Y = [
                [UNKNOWN if away else label for label, away in zip(y, part, strict=True)]
                for y, part in zip(loaded.Y, parts, strict=True)
            ]
            counts = np.array([part.count(False) for part in parts])
            partial = replace(validation, loaded=replace(loaded, Y=Y, estimator=estimator))
            train = [np.flatnonzero(folds != k) for k in range(int(folds.max()) + 1)]
            if min(counts[rows].sum() for rows in train) == 0:
                raise InputError("label_fractions", fraction, "large enough for a label in each fold")
            yield round(np.mean([counts[rows].sum() for rows in train])), [(partial, rows) for rows in train]


def training_sets(validation: "CrossValidation", folds: Any, fractions: Sequence[float]) -> list[list[Any]]:
    """Return the training examples of each fraction and fold; those of a smaller fraction are a part of the others."""
    from latentstruct.estimators.folds import take

    parts = [np.flatnonzero(folds != k) for k in range(int(folds.max()) + 1)]
    ranks = [rank_examples(validation, rows, k) for k, rows in enumerate(parts)]
    counts = [int(one.max()) + 1 for one in ranks]
    options: TrainOptions = validation.options
    least = (options.folds or 1) if options.chooses_C else 1
    sets = []
    for fraction in fractions:
        sizes = [round(fraction * n) for n in counts]
        if min(sizes) < least:
            what = "examples" if validation.groups is None else "groups"
            expected = f"large enough for {least} of {min(counts)} training {what}"
            raise InputError("fractions", fraction, expected, "Each fraction needs more than the one before.")
        least = min(sizes) + 1
        sets.append([rows[rank < m] for rows, rank, m in zip(parts, ranks, sizes, strict=True)])
        if validation.classes is not None and any(
            len(np.unique(take(validation.classes, one))) < 2 for one in sets[-1]
        ):
            raise InputError("fractions", fraction, "large enough for training examples of two classes in each fold")
    return sets


def rank_examples(validation: "CrossValidation", rows: Any, fold: int) -> Any:
    """Return the rank of the group of each example: a training set of m groups has those of ranks below m.

    Without groups, each example is one, and classes alternate in proportion to their sizes, so that small training sets
    have all of them.
    """
    from latentstruct.estimators.folds import take

    groups, classes = validation.groups, validation.classes
    units = np.arange(len(rows)) if groups is None else np.unique(groups[rows], return_inverse=True)[1]
    order = np.random.default_rng([validation.options.seed, fold]).permutation(int(units.max()) + 1)
    if groups is None and classes is not None:
        labels = np.unique(take(classes, rows), return_inverse=True)[1][order]
        places = np.empty(len(rows))
        for label in range(labels.max() + 1):
            members = np.flatnonzero(labels == label)
            places[members] = np.arange(len(members)) / len(members)
        order = order[np.argsort(places, kind="stable")]
    return np.argsort(order)[units]
