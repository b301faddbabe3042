"""The options of commands: dataclasses whose annotated fields declare flags, types, limits, defaults and help."""

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import typer
from typer import Argument, Option

from latentstruct.cli.common import check_folder, check_one_stream, reported_errors
from latentstruct.cli.parameters import CHOICE, split_annotation
from latentstruct.cli.running import RunOptions
from latentstruct.exceptions import InputError

if TYPE_CHECKING:
    from latentstruct.cli.kind import KindSpec

PAGE_SUFFIXES = (".html", ".htm")
PAGE_BEGINNINGS = (b"<!doctype html", b"<html")


SolverName = Literal[
    "auto", "block_ascent", "bundle", "cutting_plane", "frank_wolfe", "subgradient", "lbfgs", "proximal"
]
ModelOption = Annotated[
    Literal["svm", "crf", "perceptron"], Option(metavar="NAME", help="What to train: svm, crf or perceptron.")
]
ModelArgument = Annotated[Path, Argument(metavar="MODEL", help="Folder of a trained model.")]
UnknownOption = Annotated[bool, Option("--allow-unknown", help="Count labels the model does not know as wrong.")]
SkipBadOption = Annotated[
    bool, Option("--skip-bad", help="Leave out images and labels that cannot be used, and list them.")
]
SeedOption = Annotated[int, Option(min=0, help="Seed of everything random.")]
QuietOption = Annotated[bool, Option("-q", "--quiet", help="Show no progress.")]
JsonOption = Annotated[bool, Option("--json", help="Print the result as JSON.")]
OutputFileOption = Annotated[str, Option("-o", "--output", metavar="FILE", help="File to write; - is standard output.")]


def weight_of(what: str, show_default: str | bool = True) -> Any:
    """Return the option -C of trainings whose examples are called `what`."""
    return Option("-C", metavar="NUMBER", show_default=show_default, help=f"Weight of each {what} against ½‖w‖².")


def check_report(path: Path) -> None:
    """Raise unless a page can be drawn and written to the file later on.

    A file that is there may be replaced if it is a page itself: no file that a command reads is one.
    """
    from latentstruct.viz.plots import require_plots
    from latentstruct.viz.report import require_pages

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


def check_model_folder(folder: Path) -> None:
    """Raise unless a model can be written to the folder: it is new, empty, or holds one of this library."""
    if folder.is_dir() and any(folder.iterdir()):
        from latentstruct.persistence.models import require_own

        require_own(folder)
    check_folder(folder, None, "a model is a folder")


def _with_choices(hint: Any) -> Any:
    """Return an annotation in which an enumeration, which typer takes, stands for a Literal."""
    metadata = getattr(hint, "__metadata__", None)
    if metadata is None:
        return hint
    one, _ = split_annotation(hint.__origin__)
    if get_origin(one) is not Literal:
        return hint
    choices = StrEnum(CHOICE, {text: text for text in get_args(one)})  # type: ignore[misc]
    return Annotated[choices | None if one is not hint.__origin__ else choices, *metadata]


def command_of(options: type[Any], run: Callable[[Any], None]) -> Callable[..., None]:
    """Return the function of a command from the dataclass of its options, whose docstring is the help.

    Arguments come first, then --output, then the fields of the most derived class, last those of its bases.
    """
    hints = {name: _with_choices(hint) for name, hint in get_type_hints(options, include_extras=True).items()}
    known = {one.name: one for one in fields(options)}

    def place(name: str) -> int:
        if isinstance(hints[name].__metadata__[0], typer.models.ArgumentInfo):
            return 0 if known[name].default is MISSING else 1
        return 2 if name == "output" else 3

    derived_first = dict.fromkeys(name for base in options.__mro__ for name in vars(base).get("__annotations__", ()))
    declared = [name for name in derived_first if name in known and get_origin(hints[name]) is Annotated]
    names = sorted(declared, key=place)
    parameters = [Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for name in names:
        default, chosen = known[name].default, split_annotation(hints[name].__origin__)[0]
        default = Parameter.empty if default is MISSING else default
        if isinstance(default, str) and issubclass(chosen, StrEnum):
            default = chosen(default)
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name]))

    @reported_errors()
    def call(ctx: typer.Context, **values: Any) -> None:
        sources = {name: ctx.get_parameter_source(name) for name in values}
        given = frozenset(name for name, source in sources.items() if source is not None and source.name != "DEFAULT")
        plain = {name: value.value if isinstance(value, StrEnum) else value for name, value in values.items()}
        run(options(**plain, given=given))

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {"ctx": typer.Context, **{name: hints[name] for name in names}}
    call.__doc__ = options.__doc__
    return call


@dataclass(frozen=True)
class HeldOut:
    """Labelled data to judge a model by; None or False is an option that was not given."""

    data: str | None = None
    labels: str | None = None
    positive: Annotated[
        str | None, Option(metavar="FASTA", help="Motifs: sequences that hold the motif, in a file of their own.")
    ] = None
    negative: Annotated[
        str | None, Option(metavar="FASTA", help="Motifs: sequences that do not, in a file of their own.")
    ] = None
    sites: Annotated[
        str | None,
        Option(
            metavar="TSV",
            help="Motifs: known sites of positive sequences, a table whose header line names the columns sequence, "
            "start (from 0) and end (exclusive).",
        ),
    ] = None
    allow_unknown: UnknownOption = False
    pictures: str | None = None
    skip_bad: SkipBadOption = False

    @property
    def values(self) -> dict[str, Any]:
        """The options that were given."""
        values = {one.name: getattr(self, one.name) for one in fields(HeldOut)}
        return {name: value for name, value in values.items() if value not in (None, False)}

    @property
    def files(self) -> list[str]:
        """The files that are read."""
        named = (self.data, self.labels, self.positive, self.negative, self.sites)
        return [name for name in named if name is not None]

    def check(self, kind: "KindSpec", by_name: bool = False) -> None:
        """Raise if the kind of model needs other options, or more than one file is standard input.

        `by_name` says that data and labels are options too, as in `latentstruct report`.
        """
        check_one_stream(*self.files)
        hint = kind.evaluation_hint
        if by_name:
            hint = hint.replace("latentstruct evaluate MODEL", "latentstruct report MODEL")
            hint = hint.replace("MODEL DATA LABELS", "MODEL --data DATA --labels LABELS")
            hint = hint.replace("MODEL DATA", "MODEL --data DATA")

        def shown(name: str) -> str:
            argument = name in ("data", "labels") and not by_name
            return name.upper() if argument else "--" + name.replace("_", "-")

        for name in self.values:
            if name not in kind.judged_on:
                raise InputError(f"a {kind.name} model is not evaluated with {shown(name)}: {hint}")
        for name in kind.judged_on_always - self.values.keys():
            raise InputError(f"{shown(name)} is missing: {hint}")


@dataclass(frozen=True, kw_only=True)
class TrainOptions(RunOptions):
    """The options of every training; `files` names those that are read, `given` those that were given."""

    files: ClassVar[tuple[str, ...]] = ("data", "valid")

    data: str | None
    output: Annotated[
        Path, Option("-o", "--output", metavar="MODEL", help="Folder to write; replaces an earlier model.")
    ] = Path("model")
    C: Annotated[float | None, weight_of("example", "that of the estimator, 0.1 or 1")] = None
    tol: Annotated[
        float | None,
        Option(
            show_default="0.001, of some solvers another",
            help="Relative gap to certify; latent: stop when a round lowers the objective by a smaller share.",
        ),
    ] = None
    max_rounds: Annotated[
        int | None, Option(show_default="the solver's own", help="Maximum number of rounds per start.")
    ] = None
    max_seconds: Annotated[
        float | None, Option(help="Time limit in seconds, checked between rounds.", show_default="no limit")
    ] = None
    valid: Annotated[str | None, Option("--valid", metavar="FILE", help="Held-out data to evaluate on afterwards.")] = (
        None
    )
    report: Annotated[
        Path | None,
        Option(
            "--report",
            metavar="FILE.html",
            callback=checked_report,
            show_default="no page is written",
            help="Page to write: the training, the weights, and predictions for the data of --valid or those trained "
            "on.",
        ),
    ] = None
    seed: SeedOption = 0
    quiet: QuietOption = False
    json: JsonOption = False
    given: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def source(self) -> str:
        """The file that is trained on."""
        return self.data or ""

    def held_out(self) -> HeldOut:
        """Return the data to evaluate on."""
        return HeldOut(self.valid)

    def check(self) -> None:
        """Raise before anything is read if the options do not fit together or the model cannot be written."""
        self.check_run(self.valid)
        check_one_stream(*(getattr(self, name) for name in self.files))
        if self.C is not None and not 0 < self.C < math.inf:
            raise InputError(f"-C must be a finite number above 0, found {self.C}: leave it out for the usual one")
        limits = {"--tol": self.tol, "--max-rounds": self.max_rounds, "--max-seconds": self.max_seconds}
        for name, value in limits.items():
            if value is not None and not value > 0:
                raise InputError(f"{name} must be a number above 0, found {value}: leave it out for the usual one")
        check_model_folder(self.output)

    def build(self, estimator: str, task: Any, **parameters: Any) -> Any:
        """Return an untrained estimator with the limits of the training; what is None keeps its default."""
        from latentstruct import estimators

        limits = {"C": self.C, "tol": self.tol, "max_rounds": self.max_rounds, "max_seconds": self.max_seconds}
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

    allow_unknown: UnknownOption = False

    def held_out(self) -> HeldOut:
        """Return the data to evaluate on."""
        return HeldOut(self.valid, allow_unknown=self.allow_unknown)


RestartsOption = Annotated[int, Option(min=1, help="Number of starts; the best objective is kept.")]


@dataclass(frozen=True, kw_only=True)
class ConvexOptions(TrainOptions):
    """The options of trainings with a choice of SVM, CRF and perceptron, and of the solver."""

    model: ModelOption = "svm"
    solver: Annotated[
        SolverName,
        Option(metavar="NAME", help=f"How to train: {', '.join(get_args(SolverName))}; auto is the fastest."),
    ] = "auto"
    rescaling: Annotated[Literal["margin", "slack"], Option(help="How the loss enters an SVM.")] = "margin"

    def check(self) -> None:
        """Raise before anything is read if the options do not fit together or the model cannot be written."""
        super().check()
        if self.model != "svm" and self.rescaling != "margin":
            raise InputError(
                f"--rescaling is {self.rescaling}, but --model {self.model} has none; expected svm: leave it out"
            )
        if self.model == "perceptron":
            given = {"-C": self.C, "--tol": self.tol, "--solver": self.solver}
            for name, value in given.items():
                if value not in (None, "auto"):
                    raise InputError(
                        f"{name} is {value}, but a perceptron has none; expected svm or crf for it: leave it out, or "
                        "choose another --model"
                    )

    def estimator(self, task: Any, n_examples: int, latent: bool = False, stored: bool = False) -> Any:
        """Return the untrained estimator, which sums latents out if there are some; `stored` examples are in files."""
        if latent and self.model == "perceptron":
            raise InputError(
                "--model is perceptron, which needs all labels; expected crf or svm with --unknown: choose one of these"
            )
        if latent and self.rescaling != "margin":
            raise InputError(
                "--rescaling is slack, which needs all labels; expected margin with --unknown: leave one of them out"
            )
        if self.model == "perceptron":
            return self.build("StructuredPerceptron", task, random_state=self.seed)
        # The solver for examples in files sums over them, which no seed has a part in.
        fixed = stored and self.solver == "auto" and self.model == "svm" and not latent
        solver = self._solver(n_examples, 0 if fixed else self.seed)
        if latent:
            name = "HiddenCRF" if self.model == "crf" else "MarginalSSVM"
            return self.build(name, task, random_state=self.seed, solver=solver)
        if self.model == "crf":
            return self.build("CRF", task, solver=solver)
        return self.build("StructuralSVM", task, rescaling=self.rescaling, solver=solver)

    def _solver(self, n_examples: int, seed: int) -> Any:
        """Return the solver with the seed; by name where the seed changes nothing."""
        from latentstruct import solvers
        from latentstruct.solvers.selection import SOLVERS

        name: str = self.solver
        # Workers of a cluster return sums over examples, which no seed has a part in.
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

    data: Annotated[str, Argument(metavar="DATA", help="Folder or zip archive of images; - is one on standard input.")]
    C: Annotated[float, weight_of("image")] = 1.0
    valid_labels: Annotated[
        str | None,
        Option(metavar="FILE", show_default="in the data of --valid", help="Labels of the images of --valid."),
    ] = None

    def check(self) -> None:
        """Raise before anything is read if the options do not fit together or the model cannot be written."""
        super().check()
        if self.valid is None and self.valid_labels is not None:
            raise InputError(
                f"--valid-labels is {self.valid_labels}, but --valid is missing; expected both: give the images with "
                "--valid"
            )

    def held_out(self) -> HeldOut:
        """Return the data to evaluate on."""
        return HeldOut(self.valid, self.valid_labels, allow_unknown=self.allow_unknown)
