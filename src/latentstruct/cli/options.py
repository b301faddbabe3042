"""The options that trainings share, and those of held-out data."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args

from latentstruct.cli.common import NOTHING, check_folder, check_one_stream
from latentstruct.cli.declaring import (
    allow_unknown_option,
    argument,
    json_option,
    option,
    quiet_option,
    seed_option,
    skip_bad_option,
    weight_option,
)
from latentstruct.cli.lazy import plots
from latentstruct.cli.parameters import AUTO
from latentstruct.cli.running import RunOptions
from latentstruct.exceptions import InputError

if TYPE_CHECKING:
    from latentstruct.cli.kind import KindSpec

PAGE_SUFFIXES = (".html", ".htm")
PAGE_BEGINNINGS = (b"<!doctype html", b"<html")
SolverName = Literal[
    "auto", "block_ascent", "bundle", "cutting_plane", "frank_wolfe", "subgradient", "lbfgs", "owlqn", "proximal"
]
ConvexModel = Literal["svm", "crf", "perceptron"]


def check_report(path: Path, parameter: str) -> None:
    """Raise unless a page can be drawn and written to the file later on; only a page is overwritten."""
    from latentstruct.viz.report import require_pages

    plots.require_plots()
    require_pages()
    if path.suffix.lower() not in PAGE_SUFFIXES or path.is_dir():
        raise InputError(parameter, str(path), "a file whose name ends in .html")
    if path.exists():
        with open(path, "rb") as file:
            begin = file.read(64).lstrip().lower()
        if begin and not begin.startswith(PAGE_BEGINNINGS):
            raise InputError(parameter, str(path), "a new file or an HTML page", "Its contents would be lost.")
    check_folder(path.parent, parameter=parameter)


class LeftOut(NamedTuple):
    """Options that have no effect if some of others are given, or without any of these; names are joined by spaces."""

    names: str
    given: str = ""
    without: str = ""

    def check(self, options: "TrainOptions") -> None:
        """Raise if one of the options has no effect, but not its default."""
        others = (self.given or self.without).split()
        if any(getattr(options, name) not in (None, 0) for name in others) == bool(self.given):
            shown = " or ".join(f"`{name}`" for name in others)
            for name in self.names.split():
                options.refuse(name, f"{'with' if self.given else 'without'} {shown}")


@dataclass(frozen=True)
class HeldOut:
    """Labeled data to evaluate a model on; None or False is an option that was not given."""

    data: str | None = None
    labels: str | None = None
    positive: str | None = option(None, "Motifs: FASTA of sequences with the motif.", metavar="FASTA")
    negative: str | None = option(None, "Motifs: FASTA of sequences without the motif.", metavar="FASTA")
    sites: str | None = option(
        None,
        "Motifs: known sites of positive sequences, a table whose header names the columns sequence, start (from 0) "
        "and end (exclusive).",
        metavar="TSV",
    )
    allow_unknown: bool = allow_unknown_option()
    pictures: str | None = None
    skip_bad: bool = skip_bad_option()

    @property
    def values(self) -> dict[str, Any]:
        """The options that were given."""
        values = {one.name: getattr(self, one.name) for one in fields(HeldOut)}
        return {name: value for name, value in values.items() if value not in (None, False)}

    @property
    def files(self) -> dict[str, str]:
        """The files that are read."""
        return {
            name: self.values[name] for name in self.values if name not in ("allow_unknown", "skip_bad", "pictures")
        }

    def check(self, kind: "KindSpec") -> None:
        """Raise if the kind of model needs other options, or more than one file is standard input."""
        check_one_stream(**self.files)
        for name, value in self.values.items():
            if name not in kind.judged_on:
                raise InputError(name, value, f"left out for a {kind.name} model", kind.evaluation_hint)
        for name in kind.judged_on_always - self.values.keys():
            raise InputError(name, NOTHING, "given", kind.evaluation_hint)


@dataclass(frozen=True, kw_only=True)
class TrainOptions(RunOptions):
    """The options of every training.

    `files` names those that are read, `only_for` those that have an effect for some values of --model only, and
    `left_out` those that have none with or without others.
    """

    files: ClassVar[tuple[str, ...]] = ("data", "valid")
    only_for: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    left_out: ClassVar[tuple[LeftOut, ...]] = (LeftOut("fold_predictions", without="folds"),)

    data: str | None
    model: str = ""
    output: Path = option(
        Path("model"), "Folder to write; replaces an earlier model.", "-o", "--output", metavar="MODEL", sets="path"
    )
    C: float | None = weight_option(None, "example", "that of the estimator, 0.1 or 1")
    tol: float | None = option(
        None,
        "Relative gap to certify; latent: stop when an iteration lowers the objective by a smaller fraction.",
        shown="0.001, differs for some solvers",
    )
    max_iter: int | None = option(None, "Maximum number of iterations per start.", shown="chosen by the solver")
    max_seconds: float | None = option(
        None,
        "Time limit in seconds, checked between iterations; like Ctrl-C, it keeps the best weights.",
        shown="no limit",
    )
    valid: str | None = option(None, "Held-out data to evaluate on afterwards.", metavar="FILE")
    calibrate: bool = option(
        False, "Fit the temperature of probabilities to the data of --valid; predictions stay as they are."
    )
    report: Path | None = option(
        None,
        "HTML report to write: training, weights, and predictions for the data of --valid or the training data.",
        metavar="FILE.html",
        shown="none",
    )
    compact: bool = option(
        False, "Store only weights that are not zero, in single precision, and the features they belong to."
    )
    folds: int | None = option(
        None, "Number of folds: prints out-of-fold scores, and chooses what is auto.", min=2, shown="none; 5 for auto"
    )
    fold_predictions: str | None = option(
        None, "File for out-of-fold predictions, one JSON object per line.", metavar="FILE", shown="none"
    )
    groups: str | None = option(
        None, "File with one line per example: examples with equal lines stay in one fold.", metavar="FILE"
    )
    one_standard_error: bool = option(
        False, "Choose the smallest value within one standard error of the best, for auto."
    )
    seed: int = seed_option(sets="random_state")
    quiet: bool = quiet_option()
    json: bool = json_option()

    @property
    def chooses_C(self) -> bool:
        """Whether C is chosen by folds."""
        return str(self.C) == AUTO

    @property
    def chooses(self) -> bool:
        """Whether anything is chosen by folds."""
        return self.chooses_C

    @property
    def divides(self) -> bool:
        """Whether examples are divided into folds."""
        return self.folds is not None or self.chooses

    @property
    def source(self) -> str:
        """The file that is trained on."""
        return self.data or ""

    @property
    def valid_source(self) -> str | None:
        """The file that is evaluated on, None if there is none."""
        return self.valid

    def held_out(self) -> HeldOut:
        """Return the data to evaluate on."""
        return HeldOut(self.valid)

    def check(self) -> None:
        """Raise before anything is read if options contradict each other or the results cannot be written."""
        self.check_run(self.valid_source)
        check_one_stream(**{name: getattr(self, name) for name in self.files})
        if self.C is not None and not self.chooses_C and not 0 < self.C < math.inf:
            raise InputError("C", self.C, "a finite number above 0")
        for name, models in self.only_for:
            if self.model not in models:
                self.refuse(name, f"for `model` {self.model}")
        for rule in self.left_out:
            rule.check(self)
        if self.valid_source is None:
            self.refuse("calibrate", "without `valid`")
        if not self.divides:
            self.refuse("groups", f"without `folds` or {AUTO}")
        if not self.chooses:
            self.refuse("one_standard_error", f"unless `C` is {AUTO}")
        for name in ("tol", "max_iter", "max_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(name, value, "a number above 0")
        self.check_results()

    def check_results(self) -> None:
        """Raise before anything is read if the results cannot be written."""
        if self.report is not None:
            check_report(self.report, "report")
        if self.output.is_dir() and any(self.output.iterdir()):
            from latentstruct.persistence.models import require_own

            require_own(self.output)
        check_folder(self.output)

    def refuse(self, name: str, unless: str) -> None:
        """Raise the error of an option that has no effect here, unless it has its default."""
        default = next(one.default for one in fields(self) if one.name == name)
        if getattr(self, name) != default:
            got = getattr(self, name)
            raise InputError(name, str(got) if isinstance(got, Path) else got, f"left out {unless}")

    def build(self, estimator: str, task: Any, **parameters: Any) -> Any:
        """Return an untrained estimator with the limits of the training; what is None keeps its default."""
        from latentstruct import estimators

        limits = {"C": self.C, "tol": self.tol, "max_iter": self.max_iter, "max_seconds": self.max_seconds}
        wanted = {name: value for name, value in {**limits, **parameters}.items() if value is not None}
        return getattr(estimators, estimator)(task, **wanted)

    def latent_svm(self, task: Any, **parameters: Any) -> Any:
        """Return a latent SSVM, or an SSVM if nothing is latent."""
        if not task.latent:
            return self.build("StructuralSVM", task, C=parameters.get("C", self.C))
        return self.build("LatentSSVM", task, **{"restarts": 1, "random_state": self.seed, **parameters})


@dataclass(frozen=True, kw_only=True)
class LabelOptions(TrainOptions):
    """The options of trainings whose held-out data may have labels that the model does not know."""

    allow_unknown: bool = allow_unknown_option()

    def held_out(self) -> HeldOut:
        """Return the data to evaluate on."""
        return HeldOut(self.valid, allow_unknown=self.allow_unknown)


def convex_model_option(default: ConvexModel) -> Any:
    """Return the option that chooses between SVM, CRF and perceptron."""
    return option(default, "Model to train: svm, crf or perceptron.", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class ConvexOptions(TrainOptions):
    """The options of trainings with a choice of SVM, CRF and perceptron, and of the solver."""

    only_for = (
        ("rescaling", ("svm",)),
        ("l1", ("crf",)),
        *((name, ("svm", "crf")) for name in ("C", "tol", "solver")),
    )

    model: ConvexModel = convex_model_option("svm")
    solver: SolverName = option(
        "auto", f"Solver: {', '.join(get_args(SolverName))}; auto chooses the fastest.", metavar="NAME"
    )
    rescaling: Literal["margin", "slack"] = option("margin", "How the loss enters an SVM.")
    l1: float = option(
        0.0,
        "Weight of ‖w‖₁ for a CRF: above 0, many weights are zero; then --tol is 0.01 if not given.",
        min=0,
    )

    def estimator(self, task: Any, n_examples: int, latent: bool = False, stored: bool = False) -> Any:
        """Return the untrained estimator, which sums latents out if there are some; `stored` examples are in files."""
        if latent and self.model == "perceptron":
            raise InputError("model", self.model, "crf or svm if labels are unknown")
        if latent:
            self.refuse("rescaling", "if labels are unknown")
        if self.model == "perceptron":
            return self.build("StructuredPerceptron", task, random_state=self.seed)
        # The solver for examples in files sums over them, so that the seed has no effect.
        fixed = stored and self.solver == "auto" and self.model == "svm" and not latent
        solver = self._solver(n_examples, 0 if fixed else self.seed)
        sparse = {"l1": self.l1} if self.l1 else {}
        if latent:
            name = "HiddenCRF" if self.model == "crf" else "MarginalSSVM"
            return self.build(name, task, random_state=self.seed, solver=solver, **sparse)
        if self.model == "crf":
            return self.build("CRF", task, solver=solver, **sparse)
        return self.build("StructuralSVM", task, rescaling=self.rescaling, solver=solver)

    def _solver(self, n_examples: int, seed: int) -> Any:
        """Return the solver with the seed; by name where the seed changes nothing."""
        from latentstruct import solvers
        from latentstruct.solvers.selection import SOLVERS

        name: str = self.solver
        # Workers of a cluster return sums over examples, so that the seed has no effect.
        if seed and name == "auto" and self.model == "svm" and n_examples > 1 and self.executor is None:
            name = "block_ascent"
        if not seed or name == "auto":
            return name
        solver = getattr(solvers, SOLVERS[name])()
        return solver.set_params(random_state=seed) if "random_state" in solver.get_params() else name


@dataclass(frozen=True, kw_only=True)
class ImageOptions(LabelOptions):
    """The options of trainings on images."""

    files: ClassVar[tuple[str, ...]] = ("data", "labels", "valid", "valid_labels")
    left_out = (*TrainOptions.left_out, LeftOut("valid_labels", without="valid"))

    data: str = argument("Folder or zip archive of images; - is a zip archive on standard input.")
    C: float = weight_option(1.0, "image")
    valid_labels: str | None = option(
        None, "Labels of the images of --valid.", metavar="FILE", shown="in the data of --valid"
    )

    def held_out(self) -> HeldOut:
        """Return the data to evaluate on."""
        return HeldOut(self.valid, self.valid_labels, allow_unknown=self.allow_unknown)
