"""The commands: train, prepare, curve, predict, evaluate, report, info, tasks, example, infer, scan and others."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer

from latentstruct import __version__
from latentstruct.cli.answers import Answers, Decoding
from latentstruct.cli.common import check_folder, check_output, ended_by_interrupt, is_prepared, say_warnings
from latentstruct.cli.curve import curve, curve_options
from latentstruct.cli.declaring import (
    argument,
    command_of,
    json_option,
    model_argument,
    option,
    output_file_option,
    quiet_option,
    seed_option,
)
from latentstruct.cli.description import describe_model, show_info, strongest_transitions
from latentstruct.cli.grammar import App, Command, commands_of, lazy_group
from latentstruct.cli.infer import InferOptions, infer
from latentstruct.cli.kind import KindSpec
from latentstruct.cli.lazy import models, plots, sharded
from latentstruct.cli.options import HeldOut
from latentstruct.cli.prepared import prepare, show_prepared
from latentstruct.cli.registry import KINDS, find_kind, load_trained, restore_trained
from latentstruct.cli.report import ReportOptions, report
from latentstruct.cli.reproduce import ReproduceOptions, reproduce
from latentstruct.cli.run import train
from latentstruct.cli.scan import ScanOptions, scan
from latentstruct.cli.tasks import ExampleOptions, TasksOptions, example, tasks
from latentstruct.progress.display import Progress, caught_warnings, print_facts, print_json, show_percent

app = App(name="latentstruct")


def kinds_command(attribute: str) -> type[Command]:
    """Return a command whose help has the attribute of each kind as a paragraph in place of KINDS."""

    class KindsCommand(Command):
        """A command whose help is completed when it is shown."""

        def full_help(self) -> str:
            """Return the help with the paragraphs of the kinds."""
            paragraphs = "\n\n".join(getattr(kind, attribute) for kind in KINDS.values())
            return inspect.cleandoc(self.help or "").replace("KINDS", paragraphs)

    return KindsCommand


def add_group(run: Callable[[KindSpec, Any], None], help: str, options: Callable[[KindSpec], type[Any] | None]) -> None:
    """Add a command of the name of `run` that has one command per kind, if the kind has options for it."""

    @cache
    def commands() -> dict[str, Any]:
        found = App()
        for name, kind in KINDS.items():
            declared = options(kind)
            if declared is not None:
                found.command(name)(command_of(declared, partial(run, kind)))
        return commands_of(found)

    app.add_typer(App(), name=run.__name__, cls=lazy_group(commands), help=help)


add_group(train, "Train a model and save it.", lambda kind: kind.options)
PREPARING = "Prepare data that need not fit into memory, for training or for a trained model."
add_group(prepare, PREPARING, lambda kind: kind.prepare_options)
add_group(curve, "Draw a learning curve: held-out scores against the number of training examples.", curve_options)


def print_version(wanted: bool) -> None:
    """Print the version and exit, if wanted."""
    if wanted:
        print(f"latentstruct {__version__}")
        raise typer.Exit()


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Structured prediction with certified training: structural SVMs, CRFs and models with latent variables.

    Every command can take its options from a TOML file, named by --config: a key is a long option without dashes
    (max-iter = 5, C = 0.1, shape = false) or an argument (data = "train.txt"). Keys at the top of the file are for
    the command that reads it; a file for several commands has tables such as [train], [train.chain] and [predict], of
    which the longest name wins. The command line wins over the file; --save-config writes one.

    Example: latentstruct train chain train.txt -o tagger
    """


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Answers):
    """Predict labels, sites, clusters, boxes, alignments, trees, documents or scores for a file.

    KINDS

    Classes and motifs: DATA may be a folder of latentstruct prepare, if the model was trained on it or it was
    prepared with --like MODEL.

    Example: latentstruct predict MODEL new.fa -o sites.tsv
    """

    model: Path = model_argument()
    data: str = argument("File as for training; - is standard input.", sets="records")
    output: str = output_file_option()


def predict(options: PredictOptions) -> None:
    """Write predictions."""
    model, output = options.model, options.output
    check_output(output, [model / "model.json", *model.glob("weights*.safetensors")])
    kind, trained = load_trained(model)
    kind.check_output(output, options.data)
    trained = kind.answering(trained, options)
    with kind.naming(options.data):
        kind.predict(trained, options.data, output)
    sys.stdout.flush()


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(Decoding, HeldOut):
    """Compare predictions with the truth.

    KINDS

    Chains, classes and motifs: DATA may be a folder of latentstruct prepare, if the model was trained on it or
    it was prepared with --like MODEL.

    Examples: latentstruct evaluate MODEL test.txt; latentstruct evaluate MODEL --positive p.fa --negative n.fa
    """

    model: Path = model_argument()
    data: str | None = argument("Labeled file as for training; - is standard input.", None, sets="records")
    labels: str | None = argument("Images: their label images, or labels.", None)
    pictures: str | None = option(None, "Boxes: folder for pictures with predicted and true boxes.", metavar="FOLDER")
    json: bool = json_option()


def evaluate(options: EvaluateOptions) -> None:
    """Print the quality of predictions."""
    kind, trained = load_trained(options.model)
    options.check(kind)
    trained = kind.answering(trained, options)
    named = {name: value for name, value in options.values.items() if isinstance(value, str)}
    with kind.naming(options.data or ""):
        scores = kind.evaluate(trained, options)
    result = {"model": str(options.model), **named, "kind": kind.name, **scores}
    if options.json:
        print_json(result)
    else:
        kind.show_scores(result)
        if "calibration" in result:
            print_facts([("calibration error", show_percent(result["calibration"]["error"]))])


@dataclass(frozen=True, kw_only=True)
class InfoOptions:
    """Show what a model is: how it was trained, how well the training is certified, its strongest weights.

    MODEL may also be a folder of latentstruct prepare, of which the sizes are shown.

    Example: latentstruct info MODEL --top 20
    """

    model: Path = model_argument()
    top: int = option(10, "Number of strongest weights to show.", min=0)
    json: bool = json_option()


def info(options: InfoOptions) -> None:
    """Print what a model is."""
    from latentstruct.core.protocols import TransitionWeights

    if is_prepared(options.model):
        show_prepared(sharded.ShardedData(options.model), options.json)
        return
    files = models.read_files(options.model)
    result: dict[str, Any] = {"model": str(options.model)}
    kind = find_kind(files.settings.extra)
    if kind is not None:
        _, trained = restore_trained(files)
        record = trained.record
        result |= describe_model(files.settings, trained.estimator)
        result |= {"kind": kind.name, "n_examples": record.n_examples, "seconds": record.seconds}
        result |= kind.describe(trained, options.top)
    else:
        estimator = models.restore_model(files)
        result |= describe_model(files.settings, estimator)
        if isinstance(estimator.task_, TransitionWeights):
            result["transitions"] = strongest_transitions(estimator, options.top)
    if options.json:
        print_json(result)
    else:
        show_info(kind, result)


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Find a motif in random DNA from labels of whole sequences: its position is latent.

    Takes less than a minute, downloads nothing and saves a picture.

    Example: latentstruct demo -o demo
    """

    output: Path = option(Path("demo"), "Folder for the picture demo.png.", "-o", "--output", metavar="FOLDER")
    seed: int = seed_option()
    quiet: bool = quiet_option()
    json: bool = json_option()


def demo(options: DemoOptions) -> None:
    """Run the demonstration."""
    from latentstruct.cli.demo import draw, run_demo

    plots.require_plots()
    check_folder(options.output)
    progress = Progress(options.quiet)
    with caught_warnings() as warned, ended_by_interrupt(), progress:
        result = run_demo(seed=options.seed, say=progress.say, callback=progress.callback)
    say_warnings(warned)
    picture = draw(result, options.output / "demo.png")
    if options.json:
        names = ("planted", "found", "accuracy", "sites_found", "ceiling", "seconds")
        found = {name: getattr(result, name) for name in names}
        print_json({"picture": str(picture), **found, "restart_objectives": result.model.restart_objectives_})
        return
    print_facts(
        [
            ("planted motif", result.planted),
            ("found motif", result.found),
            ("held-out accuracy", show_percent(result.accuracy)),
            ("held-out sites found", show_percent(result.sites_found)),
            ("found if the motif were known", show_percent(result.ceiling)),
            ("training time", f"{result.seconds:.1f} s"),
            ("picture", str(picture)),
        ]
    )


app.command("predict", cls=kinds_command("predicts"))(command_of(PredictOptions, predict))
app.command("evaluate", cls=kinds_command("judged_by"))(command_of(EvaluateOptions, evaluate))
_COMMANDS: tuple[tuple[type[Any], Any], ...] = (
    (ReportOptions, report),
    (InfoOptions, info),
    (TasksOptions, tasks),
    (ExampleOptions, example),
    (InferOptions, infer),
    (ScanOptions, scan),
    (ReproduceOptions, reproduce),
    (DemoOptions, demo),
)
for _options, _run in _COMMANDS:
    app.command(_run.__name__)(command_of(_options, _run))
