"""Options that several commands have."""

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from latentstruct.cli.common import check_folder, check_one_stream
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
    typer.Option("-C", metavar="NUMBER", show_default="1.0", help="Weight of each example against ½‖w‖²."),
]
SolverOption = Annotated[
    SolverName,
    typer.Option(metavar="NAME", help=f"How to train: {', '.join(SolverName)}; auto is the fastest."),
]
TolOption = Annotated[
    float | None,
    typer.Option(metavar="NUMBER", help="Relative gap to certify.", show_default="the solver's own, mostly 0.001"),
]
RoundsOption = Annotated[int | None, typer.Option(help="Stop after so many rounds.", show_default="the solver's own")]
SecondsOption = Annotated[
    float | None, typer.Option(help="Stop after so many seconds; checked between rounds.", show_default="no limit")
]
RescalingOption = Annotated[Rescaling, typer.Option(help="How the loss enters an SVM.")]
ValidOption = Annotated[
    str | None,
    typer.Option("--valid", metavar="FILE", help="Held-out data to evaluate on afterwards."),
]
UnknownOption = Annotated[bool, typer.Option("--allow-unknown", help="Count labels the model does not know as wrong.")]
SkipBadOption = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out images and labels that cannot be used, having told which.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


RestartsOption = Annotated[int, typer.Option(min=1, help="Number of starts; the best objective is kept.")]
DescentTolOption = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER", show_default="0.001", help="Stop when a round lowers the objective by a smaller share."
    ),
]
EitherTolOption = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER",
        show_default="0.001",
        help="Relative gap to certify; latent: stop when a round lowers the objective by a smaller share.",
    ),
]
DescentRoundsOption = Annotated[
    int | None, typer.Option(help="Stop a start after so many rounds.", show_default="the solver's own")
]


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
        check_folder(self.output, "model.json", "a model is a folder")
        if self.model is not Model.svm and self.rescaling is not Rescaling.margin:
            raise InputError(f"--rescaling {self.rescaling} is for --model svm only: leave it out")
        if self.model is Model.perceptron:
            given = {"-C": self.C, "--tol": self.tol, "--solver": self.solver}
            for name, value in given.items():
                if value not in (None, SolverName.auto):
                    raise InputError(f"a perceptron has no {name}: leave it out, or choose another --model")

    def estimator(self, task: Any, n_examples: int, latent: bool = False) -> Any:
        """Return the untrained estimator, one that sums latents out if there are some."""
        from latentstruct.estimators import CRF, HiddenCRF, MarginalSSVM, StructuralSVM, StructuredPerceptron

        if latent and self.model is Model.perceptron:
            raise InputError("--model perceptron needs all labels: choose crf or svm, or leave --unknown out")
        if latent and self.rescaling is not Rescaling.margin:
            raise InputError("--rescaling slack needs all labels: leave it or --unknown out")
        if self.model is Model.perceptron:
            estimator = StructuredPerceptron(task, max_seconds=self.max_seconds, random_state=self.seed)
            return estimator if self.max_rounds is None else estimator.set_params(max_rounds=self.max_rounds)
        common = {
            "C": 1.0 if self.C is None else self.C,
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
        if self.seed and name == "auto" and self.model is Model.svm and n_examples > 1:
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
        if not 0 < self.C < math.inf:
            raise InputError(f"-C must be a finite number above 0, found {self.C}: leave it out for the usual one")
        limits = {"--tol": self.tol, "--max-rounds": self.max_rounds, "--max-seconds": self.max_seconds}
        for name, value in limits.items():
            if value is not None and not value > 0:
                raise InputError(f"{name} must be a number above 0, found {value}: leave it out for the usual one")
        check_folder(self.output, "model.json", "a model is a folder")

    def estimator(self, task: Any) -> Any:
        """Return the untrained estimator: a latent SSVM, or an SSVM if nothing is hidden."""
        from latentstruct.estimators import LatentSSVM, StructuralSVM

        limits = {"tol": self.tol, "max_rounds": self.max_rounds, "max_seconds": self.max_seconds}
        common: dict[str, Any] = {"C": self.C, **limits}
        if not task.latent:
            return StructuralSVM(task, **common)
        return LatentSSVM(task, init=self.init, restarts=self.restarts, random_state=self.seed, **common)
