"""The commands: train, predict, evaluate, info, report, infer, reproduce and demo."""

import inspect
import sys
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from latentstruct import __version__
from latentstruct.cli.common import (
    STANDARD_STREAM,
    check_folder,
    check_output,
    ended_by_interrupt,
    reported_errors,
    say_warnings,
)
from latentstruct.cli.description import describe_model, show_info, strongest_transitions
from latentstruct.cli.grammar import App, Command, commands_of, lazy_group
from latentstruct.cli.infer import infer
from latentstruct.cli.options import (
    HeldOut,
    JsonOption,
    ModelArgument,
    OutputFileOption,
    QuietOption,
    SeedOption,
    SkipBadOption,
    command_of,
)
from latentstruct.cli.prepared import is_prepared, prepare, tell_prepared
from latentstruct.cli.registry import KINDS, find_kind, load_trained, restore_trained
from latentstruct.cli.report import ReportOptions, report
from latentstruct.cli.reproduce import reproduce
from latentstruct.cli.run import train
from latentstruct.cli.tasks import example, tasks
from latentstruct.exceptions import InputError
from latentstruct.progress.display import Progress, caught_warnings, print_facts, print_json, show_percent

app = App(name="latentstruct")


def kinds_command(attribute: str) -> type[Command]:
    """Return a command whose help has the attribute of each kind as a paragraph in place of KINDS."""

    class KindsCommand(Command):
        """A command whose help is completed when it is shown."""

        def full_help(self) -> str:
            """Return the help, with what kinds say."""
            told = "\n\n".join(getattr(kind, attribute) for kind in KINDS.values())
            return inspect.cleandoc(self.help or "").replace("KINDS", told)

    return KindsCommand


@cache
def train_commands() -> dict[str, Any]:
    """Return the trainings."""
    found = App()
    for name, kind in KINDS.items():
        found.command(name)(command_of(kind.options, partial(train, kind)))
    return commands_of(found)


@cache
def prepare_commands() -> dict[str, Any]:
    """Return the commands that prepare data."""
    found = App()
    for name, kind in KINDS.items():
        if kind.prepare_options is not None:
            found.command(name)(command_of(kind.prepare_options, partial(prepare, kind)))
    return commands_of(found)


app.add_typer(App(), name="train", cls=lazy_group(train_commands), help="Train a model and save it.")
app.add_typer(
    App(),
    name="prepare",
    cls=lazy_group(prepare_commands),
    help="Prepare data that need not fit into memory, for training or for a trained model.",
)


def print_version(asked: bool) -> None:
    """Print the version and end, if asked to."""
    if asked:
        print(f"latentstruct {__version__}")
        raise typer.Exit()


@app.callback()
def common(
    version: Annotated[
        bool, Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Structured prediction with certified training: structural SVMs, CRFs and models with latent variables.

    Every command takes its options from a TOML file too, which --config names: a key is a long option without dashes
    (max-rounds = 5, C = 0.1, shape = false) or an argument (data = "train.txt"). Keys at the top of the file are for
    the command that reads it; a file for several commands has tables such as [train], [train.chain] and [predict], of
    which the longest name wins. What the command line says wins over the file; --save-config writes one.

    Example: latentstruct train chain train.txt -o tagger
    """


@reported_errors()
def predict(
    model: ModelArgument,
    data: Annotated[str, Argument(metavar="DATA", help="File as for training; - is standard input.")],
    output: OutputFileOption = STANDARD_STREAM,
    confidence: Annotated[
        bool, Option("--confidence", help="Chains: a further column with how probable each label is.")
    ] = False,
    skip_bad: SkipBadOption = False,
) -> None:
    """Predict labels, sites, clusters, boxes, alignments, trees, documents or scores for a file.

    KINDS

    Classes and motifs: DATA may be a folder of latentstruct prepare, if the model was trained on it or it was
    prepared with --like MODEL.

    Example: latentstruct predict MODEL new.fa -o sites.tsv
    """
    check_output(output, [model / "model.json", *model.glob("weights*.safetensors")])
    kind, trained = load_trained(model)
    check_output(output, kind.input_files(data))
    if confidence and skip_bad:
        raise InputError(
            "--confidence and --skip-bad are given; expected the one for chains, the other for images: leave one out"
        )
    flags = {name: True for name, given in (("confidence", confidence), ("skip_bad", skip_bad)) if given}
    kind.check_flags(flags)
    kind.predict(trained, data, output, **flags)
    sys.stdout.flush()


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(HeldOut):
    """Compare predictions with the truth.

    KINDS

    Chains, classes and motifs: DATA may be a folder of latentstruct prepare, if the model was trained on it or
    it was prepared with --like MODEL.

    Examples: latentstruct evaluate MODEL test.txt; latentstruct evaluate MODEL --positive p.fa --negative n.fa
    """

    model: ModelArgument
    data: Annotated[
        str | None, Argument(metavar="DATA", help="Labelled file as for training; - is standard input.")
    ] = None
    labels: Annotated[str | None, Argument(metavar="LABELS", help="Images: their label images, or labels.")] = None
    pictures: Annotated[
        str | None, Option(metavar="FOLDER", help="Boxes: folder for pictures with predicted and true boxes.")
    ] = None
    json: JsonOption = False
    given: frozenset[str] = frozenset()


def evaluate(options: EvaluateOptions) -> None:
    """Print the quality of predictions."""
    kind, trained = load_trained(options.model)
    options.check(kind)
    named = {name: value for name, value in options.values.items() if isinstance(value, str)}
    result = {"model": str(options.model), **named, "kind": kind.name, **kind.evaluate(trained, options)}
    if options.json:
        print_json(result)
    else:
        kind.show_scores(result)


@reported_errors()
def info(
    model: ModelArgument,
    top: Annotated[int, Option(min=0, help="How many of the strongest weights to show.")] = 10,
    json: JsonOption = False,
) -> None:
    """Show what a model is: how it was trained, how well the training is certified, its strongest weights.

    MODEL may also be a folder of latentstruct prepare, of which its sizes are shown.

    Example: latentstruct info MODEL --top 20
    """
    from latentstruct.core.protocols import TransitionWeights
    from latentstruct.data.sharded import ShardedData
    from latentstruct.persistence.models import read_files, restore_model

    if is_prepared(model):
        tell_prepared(ShardedData(model), json)
        return
    files = read_files(model)
    settings = files.settings
    result: dict[str, Any] = {"model": str(model)}
    kind = find_kind(settings.extra)
    if kind is not None:
        _, trained = restore_trained(files)
        record = trained.record
        result |= describe_model(settings, trained.estimator)
        result |= {"kind": kind.name, "n_examples": record.n_examples, "seconds": record.seconds}
        result |= kind.describe(trained, top)
    else:
        estimator = restore_model(files)
        result |= describe_model(settings, estimator)
        if isinstance(estimator.task_, TransitionWeights):
            result["transitions"] = strongest_transitions(estimator, top)
    if json:
        print_json(result)
    else:
        show_info(kind, result)


@reported_errors()
def demo(
    output: Annotated[Path, Option("-o", "--output", metavar="FOLDER", help="Folder for the picture demo.png.")] = Path(
        "demo"
    ),
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Find a motif in random DNA from labels of whole sequences: where it lies is latent.

    Takes less than a minute, downloads nothing and saves a picture.

    Example: latentstruct demo -o demo
    """
    from latentstruct.cli.demo import draw, run_demo
    from latentstruct.viz.plots import require_plots

    require_plots()
    check_folder(output, None, "the picture goes into a folder")
    progress = Progress(quiet)
    with caught_warnings() as warned, ended_by_interrupt(), progress:
        result = run_demo(seed=seed, tell=progress.say, callback=progress.callback)
    say_warnings(warned)
    picture = draw(result, output / "demo.png")
    if json:
        names = ("planted", "found", "accuracy", "sites_found", "ceiling", "restart_objectives", "seconds")
        print_json({"picture": str(picture), **{name: getattr(result, name) for name in names}})
        return
    print_facts(
        [
            ("planted motif", result.planted),
            ("found motif", result.found),
            ("held-out sequences called right", show_percent(result.accuracy)),
            ("held-out sites found", show_percent(result.sites_found)),
            ("found if the motif were known", show_percent(result.ceiling)),
            ("time of training", f"{result.seconds:.1f} s"),
            ("picture", str(picture)),
        ]
    )


app.command(cls=kinds_command("predicts"))(predict)
app.command("evaluate", cls=kinds_command("judged_by"))(command_of(EvaluateOptions, evaluate))
app.command("report")(command_of(ReportOptions, report))
for _command in (info, tasks, example, infer, reproduce, demo):
    app.command()(_command)
