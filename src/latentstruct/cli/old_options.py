"""Options that several commands have."""

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from latentstruct.cli.common import check_folder, check_one_stream, reported_errors
from latentstruct.cli.old_running import PRESENT
from latentstruct.exceptions import InputError


class Model(StrEnum):
    """What to train."""

    svm = "svm"
    crf = "crf"
    perceptron = "perceptron"


class SolverName(StrEnum):
    """How to train it."""

    auto = "auto"
    block_ascent = "block_ascent"
    bundle = "bundle"
    cutting_plane = "cutting_plane"
    frank_wolfe = "frank_wolfe"
    subgradient = "subgradient"
    lbfgs = "lbfgs"
    proximal = "proximal"


class Rescaling(StrEnum):
    """How the loss enters an SVM."""

    margin = "margin"
    slack = "slack"


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")]
OutputOption = Annotated[
    Path,
    typer.Option("-o", "--output", metavar="MODEL", help="Folder to write; replaces an earlier model."),
]
ModelOption = Annotated[Model, typer.Option("--model", metavar="NAME", help="What to train: svm, crf or perceptron.")]
COption = Annotated[
    float | None,
    typer.Option(
        "-C",
        metavar="NUMBER",
        show_default="that of the estimator, 0.1 or 1",
        help="Weight of each example against ½‖w‖².",
    ),
]
SolverOption = Annotated[
    SolverName,
    typer.Option(metavar="NAME", help=f"How to train: {', '.join(SolverName)}; auto is the fastest."),
]
TolOption = Annotated[
    float | None,
    typer.Option(
        show_default="0.001, of some solvers another",
        help="Relative gap to certify; latent: stop when a round lowers the objective by a smaller share.",
    ),
]
RoundsOption = Annotated[
    int | None, typer.Option(show_default="the solver's own", help="Stop each start after so many rounds.")
]
SecondsOption = Annotated[
    float | None, typer.Option(help="Stop after so many seconds; checked between rounds.", show_default="no limit")
]
RescalingOption = Annotated[Rescaling, typer.Option(help="How the loss enters an SVM.")]
ValidOption = Annotated[
    str | None,
    typer.Option("--valid", metavar="FILE", help="Held-out data to evaluate on afterwards."),
]
ValidLabelsOption = Annotated[
    str | None,
    typer.Option(
        "--valid-labels", metavar="FILE", show_default="in the data of --valid", help="Labels of the images of --valid."
    ),
]
UnknownOption = Annotated[bool, typer.Option("--allow-unknown", help="Count labels the model does not know as wrong.")]
SkipBadOption = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out images and labels that cannot be used, having told which.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


PAGE_SUFFIXES = (".html", ".htm")
PAGE_BEGINNINGS = (b"<!doctype html", b"<html")


def check_report(path: Path) -> None:
    """Raise unless a page can be drawn and written to the file later on.

    A file that is there may be replaced if it is a page itself: no file that a command reads is one.
    """
    from latentstruct.plots import require_plots
    from latentstruct.report import require_pages

    require_plots()
    require_pages()
    if path.suffix.lower() not in PAGE_SUFFIXES:
        raise InputError(f"the report is to be written to {path}; expected a name that ends in .html: add it")
    if path.is_dir():
        raise InputError(f"{path} is a folder, but a report is a file: choose another name")
    if path.exists():
        with open(path, "rb") as file:
            begin = file.read(64).lstrip().lower()
        if begin and not begin.startswith(PAGE_BEGINNINGS):
            raise InputError(f"{path} is there and is no HTML page, so it would be lost: choose another name")
    check_folder(path.parent, None, "the report is to be written into it")


@reported_errors()
def checked_report(path: Path | None) -> Path | None:
    """Return the file of a report; raise before anything is read if it cannot be written."""
    if path is not None:
        check_report(path)
    return path


PositiveOption = Annotated[
    str | None, typer.Option(metavar="FASTA", help="Motifs: sequences that hold the motif, in a file of their own.")
]
NegativeOption = Annotated[
    str | None, typer.Option(metavar="FASTA", help="Motifs: sequences that do not, in a file of their own.")
]
SitesOption = Annotated[
    str | None,
    typer.Option(
        metavar="TSV",
        help="Motifs: known sites of positive sequences, a table whose header line names the columns sequence, "
        "start (from 0) and end (exclusive).",
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        callback=checked_report,
        show_default="no page is written",
        help="Page to write: the training, the weights, and predictions for the data of --valid or those trained on.",
    ),
]


RestartsOption = Annotated[int, typer.Option(min=1, help="Number of starts; the best objective is kept.")]


def check_valid_labels(valid: str | None, valid_labels: str | None) -> None:
    """Raise if there are labels of held-out images, but not the images."""
    if valid is None and valid_labels is not None:
        raise InputError(
            f"--valid-labels is {valid_labels}, but --valid is missing; expected both: give the images with --valid"
        )


def check_model_folder(folder: Path) -> None:
    """Raise unless a model can be written to the folder: it is new, empty, or holds one of this library."""
    if folder.is_dir() and any(folder.iterdir()):
        from latentstruct.persistence import require_own

        require_own(folder)
    check_folder(folder, None, "a model is a folder")


def check_numbers(C: float | None, tol: float | None, max_rounds: int | None, max_seconds: float | None) -> None:
    """Raise if a number that is given makes no sense for training."""
    if C is not None and not 0 < C < math.inf:
        raise InputError(f"-C must be a finite number above 0, found {C}: leave it out for the usual one")
    for name, value in {"--tol": tol, "--max-rounds": max_rounds, "--max-seconds": max_seconds}.items():
        if value is not None and not value > 0:
            raise InputError(f"{name} must be a number above 0, found {value}: leave it out for the usual one")


@dataclass(frozen=True)
class Choices:
    """The options that trainings of classes and sequences share."""

    output: Path
    model: Model
    C: float | None
    solver: SolverName
    tol: float | None
    max_rounds: int | None
    max_seconds: float | None
    rescaling: Rescaling
    seed: int

    def check(self, *files: str | None) -> None:
        """Raise before `files` are read if the options do not fit together or the model cannot be written."""
        check_one_stream(*files)
        check_numbers(self.C, self.tol, self.max_rounds, self.max_seconds)
        check_model_folder(self.output)
        if self.model is not Model.svm and self.rescaling is not Rescaling.margin:
            raise InputError(
                f"--rescaling is {self.rescaling}, but --model {self.model} has none; expected svm: leave it out"
            )
        if self.model is Model.perceptron:
            given = {"-C": self.C, "--tol": self.tol, "--solver": self.solver}
            for name, value in given.items():
                if value not in (None, SolverName.auto):
                    raise InputError(
                        f"{name} is {value}, but a perceptron has none; expected svm or crf for it: leave it out, or "
                        "choose another --model"
                    )

    def estimator(self, task: Any, n_examples: int, latent: bool = False) -> Any:
        """Return the untrained estimator, one that sums latents out if there are some."""
        from latentstruct.estimators import CRF, HiddenCRF, MarginalSSVM, StructuralSVM, StructuredPerceptron

        if latent and self.model is Model.perceptron:
            raise InputError(
                "--model is perceptron, which needs all labels; expected crf or svm with --unknown: choose one of these"
            )
        if latent and self.rescaling is not Rescaling.margin:
            raise InputError(
                "--rescaling is slack, which needs all labels; expected margin with --unknown: leave one of them out"
            )
        if self.model is Model.perceptron:
            estimator = StructuredPerceptron(task, max_seconds=self.max_seconds, random_state=self.seed)
            return estimator if self.max_rounds is None else estimator.set_params(max_rounds=self.max_rounds)
        common = {
            **({} if self.C is None else {"C": self.C}),
            "solver": self._solver(n_examples),
            "tol": self.tol,
            "max_rounds": self.max_rounds,
            "max_seconds": self.max_seconds,
        }
        if latent:
            return (HiddenCRF if self.model is Model.crf else MarginalSSVM)(task, random_state=self.seed, **common)
        if self.model is Model.crf:
            return CRF(task, **common)
        return StructuralSVM(task, rescaling=self.rescaling.value, **common)

    def _solver(self, n_examples: int) -> Any:
        """Return the solver with the seed; by name where the seed changes nothing."""
        from latentstruct.estimators import SOLVERS

        name = self.solver.value
        # On a cluster there are sums over examples only, which no seed has a part in.
        whole = PRESENT.get().executor is None
        if self.seed and name == "auto" and self.model is Model.svm and n_examples > 1 and whole:
            name = "block_ascent"
        if not self.seed or name == "auto":
            return name
        solver = SOLVERS[name]()
        return solver.set_params(random_state=self.seed) if "random_state" in solver.get_params() else name


@dataclass(frozen=True)
class LatentChoices:
    """The options that trainings with latent variables share."""

    output: Path
    C: float
    tol: float | None
    max_rounds: int | None
    max_seconds: float | None
    seed: int
    restarts: int = 1
    init: str = "task"

    def check(self, *files: str | None) -> None:
        """Raise before `files` are read if a number makes no sense or the model cannot be written."""
        check_one_stream(*files)
        check_numbers(self.C, self.tol, self.max_rounds, self.max_seconds)
        check_model_folder(self.output)

    def estimator(self, task: Any) -> Any:
        """Return the untrained estimator: a latent SSVM, or an SSVM if nothing is hidden."""
        from latentstruct.estimators import LatentSSVM, StructuralSVM

        limits = {"tol": self.tol, "max_rounds": self.max_rounds, "max_seconds": self.max_seconds}
        common: dict[str, Any] = {"C": self.C, **limits}
        if not task.latent:
            return StructuralSVM(task, **common)
        return LatentSSVM(task, init=self.init, restarts=self.restarts, random_state=self.seed, **common)
