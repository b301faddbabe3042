"""Write the page of a trained model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from latentstruct.cli.common import say_warnings
from latentstruct.cli.kind import KindSpec, Trained
from latentstruct.cli.options import HeldOut, JsonOption, ModelArgument, QuietOption, check_report
from latentstruct.cli.registry import find_kind, restore_trained
from latentstruct.cli.run import shown_name
from latentstruct.exceptions import InputError
from latentstruct.progress.display import Progress, caught_warnings, print_facts, print_json


@dataclass(frozen=True, kw_only=True)
class ReportOptions(HeldOut):
    """Write a page to look at: what was trained, how that went, what the weights say, predictions and errors.

    The page is one HTML file that needs no network. Without data it shows no predictions; data are given as for
    evaluate, but by name.

    Examples: latentstruct report MODEL; latentstruct report MODEL --data test.txt -o report.html
    """

    model: ModelArgument
    data: Annotated[str | None, Option(metavar="FILE", help="Labelled file as for training; - is standard input.")] = (
        None
    )
    labels: Annotated[str | None, Option(metavar="FILE", help="Images: their label images, or labels.")] = None
    output: Annotated[
        Path, Option("-o", "--output", metavar="FILE.html", help="Page to write; replaces an earlier one.")
    ] = Path("report.html")
    quiet: QuietOption = False
    json: JsonOption = False
    given: frozenset[str] = frozenset()


def report(options: ReportOptions) -> None:
    """Write the page of a model."""
    check_report(options.output)
    source = ", ".join(map(shown_name, options.files))
    progress = Progress(options.quiet)
    with caught_warnings() as warned:
        kind, trained = load_any(options)
        examples = None
        if kind is not None and options.values:
            options.check(kind, by_name=True)
            progress.say(f"predicting for {source}")
            examples = kind.examples(trained, kind.read(trained, options), source)
        progress.say("drawing")
        drawn = draw_page(kind, trained, examples, options.output)
    result = {"report": str(options.output), "model": str(options.model), **drawn}
    if not options.quiet:
        say_warnings(warned)
    if options.json:
        print_json(result)
        return
    shown = "no predictions, as no data were given" if examples is None else f"{result['n_examples']} predictions"
    print_facts([("report", result["report"]), ("sections", ", ".join(result["sections"])), ("shows", shown)])


def load_any(options: ReportOptions) -> tuple[KindSpec | None, Trained]:
    """Read a model that the command trained or, if no data are given, that was saved from Python."""
    from latentstruct.persistence.models import read_files, restore_model

    path, files = options.model, read_files(options.model)
    if find_kind(files.settings.extra) is not None:
        return restore_trained(files)
    if options.values:
        raise InputError(
            f"{path} was not written by latentstruct train, so how to read files for it is not known: leave the data "
            "out, or call latentstruct.viz.report.write_report(model, path, X, Y) from Python"
        )
    return None, Trained(path, restore_model(files), None)


def draw_page(kind: KindSpec | None, trained: Trained, examples: Any, output: Path) -> dict[str, Any]:
    """Write the page; return what it holds."""
    from latentstruct.viz.report.model import model_page
    from latentstruct.viz.report.page import write_page

    page = model_page(kind, trained, examples)
    write_page(page, output)
    return {
        "kind": None if kind is None else kind.name,
        "sections": [section.title for section in page.sections],
        "n_examples": None if examples is None else len(examples.names),
        "bytes": output.stat().st_size,
    }
