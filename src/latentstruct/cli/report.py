"""Write the page of a trained model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from latentstruct.cli.common import STANDARD_STREAM, reported_errors, say_warnings
from latentstruct.cli.kind import KindSpec, Trained
from latentstruct.cli.options import (
    HeldOut,
    JsonOption,
    ModelArgument,
    NegativeOption,
    PositiveOption,
    QuietOption,
    SitesOption,
    SkipBadOption,
    UnknownOption,
    check_report,
)
from latentstruct.cli.registry import find_kind, restore_trained
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, caught_warnings, print_facts, print_json


@reported_errors()
def report(
    model: ModelArgument,
    data: Annotated[
        str | None, typer.Option(metavar="FILE", help="Labelled file as for training; - is standard input.")
    ] = None,
    labels: Annotated[str | None, typer.Option(metavar="FILE", help="Images: their label images, or labels.")] = None,
    positive: PositiveOption = None,
    negative: NegativeOption = None,
    sites: SitesOption = None,
    skip_bad: SkipBadOption = False,
    allow_unknown: UnknownOption = False,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.html", help="Page to write; replaces an earlier one.")
    ] = Path("report.html"),
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Write a page to look at: what was trained, how that went, what the weights say, predictions and errors.

    The page is one HTML file that needs no network. Without data it shows no predictions; data are given as for
    evaluate, but by name.

    Examples: latentstruct report MODEL; latentstruct report MODEL --data test.txt -o report.html
    """
    check_report(output)
    held_out = HeldOut(data, labels, positive, negative, sites, allow_unknown, skip_bad=skip_bad)
    progress = Progress(quiet)
    with caught_warnings() as warned:
        kind, trained = load_any(model, held_out)
        examples = None
        if kind is not None and held_out != HeldOut():
            held_out.check(kind, by_name=True)
            progress.say(f"predicting for {shown_source(held_out)}")
            examples = kind.examples(trained, kind.read(trained, held_out), shown_source(held_out))
        progress.say("drawing")
        result = {"report": str(output), "model": str(model), **draw_page(kind, trained, examples, output)}
    if not quiet:
        say_warnings(warned)
    if json:
        print_json(result)
        return
    shown = "no predictions, as no data were given" if examples is None else f"{result['n_examples']} predictions"
    print_facts([("report", str(output)), ("sections", ", ".join(result["sections"])), ("shows", shown)])


def load_any(path: Path, held_out: HeldOut) -> tuple[KindSpec | None, Trained]:
    """Read a model that the command trained or, if no data are given, that was saved from Python."""
    from latentstruct.persistence import read_files, restore_model

    files = read_files(path)
    if find_kind(files.settings.extra) is not None:
        return restore_trained(files)
    if held_out != HeldOut():
        raise InputError(
            f"{path} was not written by latentstruct train, so how to read files for it is not known: leave the data "
            "out, or call latentstruct.report.write_report(model, path, X, Y) from Python"
        )
    return None, Trained(path, restore_model(files), None)


def shown_source(held_out: HeldOut) -> str:
    """Return the names of the files that predictions are shown for."""
    names = (held_out.data, held_out.labels, held_out.positive, held_out.negative, held_out.sites)
    return ", ".join("standard input" if name == STANDARD_STREAM else name for name in names if name is not None)


def draw_page(kind: KindSpec | None, trained: Trained, examples: Any, output: Path) -> dict[str, Any]:
    """Write the page; return what it holds."""
    from latentstruct.report.model import model_page
    from latentstruct.report.page import write_page

    page = model_page(kind, trained, examples)
    write_page(page, output)
    return {
        "kind": None if kind is None else kind.name,
        "sections": [section.title for section in page.sections],
        "n_examples": None if examples is None else len(examples.names),
        "bytes": output.stat().st_size,
    }
