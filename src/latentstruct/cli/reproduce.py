"""Run a published experiment."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from latentstruct.cli.common import NOTHING, check_folder, ended_by_interrupt, say_warnings
from latentstruct.cli.config import suggest
from latentstruct.cli.declaring import argument, json_option, option, quiet_option
from latentstruct.cli.lazy import plots
from latentstruct.exceptions import Description, InputError
from latentstruct.progress.display import Progress, caught_warnings, print_json, print_table, say


def experiments() -> ModuleType:
    """Import the experiments, which are a separate distribution."""
    try:
        return import_module("latentstruct_papers")
    except ModuleNotFoundError as error:
        if error.name != "latentstruct_papers":
            raise
        hint = "Clone the repository of latentstruct and run pip install ./papers in it."
        found = Description("an installation without them")
        raise InputError("name", found, "one of the experiments of the package latentstruct-papers", hint) from None


def complete_experiment(incomplete: str) -> list[tuple[str, str]]:
    """Return the experiments whose names start with `incomplete`, with their summaries, for shell completion."""
    try:
        known = experiments().EXPERIMENTS
    except InputError:
        return []
    return [(name, one.summary) for name, one in known.items() if name.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """Run a published experiment and show the figures of the paper next to those found.

    Writes NAME.json with everything, NAME.txt with the tables, NAME.html to look at and NAME-….png for each plot.

    Example: latentstruct reproduce lssvm-motif --quick
    """

    name: str | None = argument("The experiment; --list names them.", None, complete=complete_experiment)
    show_list: bool = option(False, "List the experiments and the data they need.", "--list")
    quick: bool = option(False, "Less data and fewer repetitions: about a minute.")
    data_home: Path | None = option(None, "Folder of the data sets.", metavar="FOLDER", shown="$LATENTSTRUCT_DATA")
    output: Path = option(Path("results"), "Folder for the results.", "-o", "--output", metavar="FOLDER")
    checkpoint: Path | None = option(
        None, "File of finished trials; they are not run again if it exists.", metavar="FILE", shown="none"
    )
    jobs: int = option(1, "Number of processes that run trials.", metavar="N")
    quiet: bool = quiet_option()
    json: bool = json_option()


def reproduce(options: ReproduceOptions) -> None:
    """Run an experiment."""
    papers, name = experiments(), options.name
    if options.show_list:
        list_experiments(papers.EXPERIMENTS, options.json)
        return
    if name is None or name not in papers.EXPERIMENTS:
        near = None if name is None else suggest(name, papers.EXPERIMENTS)
        raise InputError("name", NOTHING if name is None else name, f"one of {', '.join(papers.EXPERIMENTS)}", near)
    from latentstruct.viz.report import require_pages

    plots.require_plots()
    require_pages()
    check_folder(options.output)
    progress = Progress(options.quiet)
    with caught_warnings() as warned, ended_by_interrupt():
        findings = papers.run_experiment(
            name, options.data_home, options.quick, progress.say, options.checkpoint, options.jobs
        )
        files = findings.save(options.output)
    if not options.quiet:
        say_warnings(warned)
    if options.json:
        print_json({**findings.to_dict(), "files": [str(path) for path in files]})
        return
    findings.show()
    for path in files:
        say(f"wrote {path}")


def list_experiments(known: dict[str, Any], json: bool) -> None:
    """Print the names of the experiments."""
    if json:
        print_json({"experiments": [{"name": name, **one._asdict()} for name, one in known.items()]})
        return
    rows = [(name, one.summary, ", ".join(one.data)) for name, one in known.items()]
    print_table("", ("name", "what", "data sets"), rows, n_text=3)
