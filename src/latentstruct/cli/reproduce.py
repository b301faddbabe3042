"""Run a published experiment."""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from latentstruct.cli.common import check_folder, ended_by_interrupt, reported_errors, say_warnings
from latentstruct.cli.config import suggest
from latentstruct.cli.options import JsonOption, QuietOption
from latentstruct.exceptions import InputError
from latentstruct.progress.display import Progress, caught_warnings, print_json, print_table, say


def experiments() -> ModuleType:
    """Import the experiments, which are a distribution of their own."""
    try:
        return import_module("latentstruct_papers")
    except ModuleNotFoundError as error:
        if error.name != "latentstruct_papers":
            raise
        raise InputError(
            "the experiments are not installed; expected the package latentstruct-papers: "
            "fetch the repository of latentstruct and run `pip install ./papers` in it"
        ) from None


def complete_experiment(incomplete: str) -> list[tuple[str, str]]:
    """Return the experiments whose names start with `incomplete`, with their summaries, for shell completion."""
    try:
        known = experiments().EXPERIMENTS
    except InputError:
        return []
    return [(name, one.summary) for name, one in known.items() if name.startswith(incomplete)]


@reported_errors()
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", autocompletion=complete_experiment, help="The experiment; --list names them."),
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the experiments and the data they need.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Less data and fewer repetitions: about a minute.")] = False,
    data_home: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", show_default="$LATENTSTRUCT_DATA", help="Folder of the data sets."),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the results.")] = Path(
        "results"
    ),
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Run a published experiment and show the paper's figures beside those found.

    Writes NAME.json with everything, NAME.txt with the tables, NAME.html to look at and NAME-….png for each plot.

    Example: latentstruct reproduce lssvm-motif --quick
    """
    papers = experiments()
    if show_list:
        list_experiments(papers.EXPERIMENTS, json)
        return
    if name is None or name not in papers.EXPERIMENTS:
        found = "no experiment is named" if name is None else f"there is no experiment {name!r}"
        near = "" if name is None else suggest(name, papers.EXPERIMENTS)
        raise InputError(f"{found}; expected one of {', '.join(papers.EXPERIMENTS)}: choose one of these{near}")
    from latentstruct.viz.plots import require_plots
    from latentstruct.viz.report import require_pages

    require_plots()
    require_pages()
    check_folder(output, None, "the results go into a folder")
    progress = Progress(quiet)
    with caught_warnings() as warned, ended_by_interrupt():
        findings = papers.run_experiment(name, data_home, quick, progress.say)
        files = findings.save(output)
    if not quiet:
        say_warnings(warned)
    if json:
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
