"""Write the HTML report of a trained model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latentstruct.cli.common import refuse_prepared, say_warnings
from latentstruct.cli.declaring import json_option, model_argument, option, quiet_option
from latentstruct.cli.kind import KindSpec, Trained
from latentstruct.cli.lazy import models
from latentstruct.cli.options import HeldOut, check_report
from latentstruct.cli.registry import find_kind, not_trained, restore_trained
from latentstruct.cli.run import shown_name
from latentstruct.progress.display import Progress, caught_warnings, print_facts, print_json


@dataclass(frozen=True, kw_only=True)
class ReportOptions(HeldOut):
    """Write an HTML report: what was trained, the course of training, the weights, predictions and errors.

    The report is one HTML file that needs no network. Without data it shows no predictions. The data are those of
    evaluate, given as options.

    Examples: latentstruct report MODEL; latentstruct report MODEL --data test.txt -o report.html
    """

    model: Path = model_argument()
    data: str | None = option(None, "Labeled file as for training; - is standard input.", metavar="FILE")
    labels: str | None = option(None, "Images: their label images, or labels.", metavar="FILE")
    output: Path = option(
        Path("report.html"), "Report to write; replaces an earlier one.", "-o", "--output", metavar="FILE.html"
    )
    quiet: bool = quiet_option()
    json: bool = json_option()


def report(options: ReportOptions) -> None:
    """Write the report of a model."""
    from latentstruct.viz.report.model import model_page
    from latentstruct.viz.report.page import write_page

    check_report(options.output, "output")
    source = ", ".join(map(shown_name, options.files.values()))
    progress = Progress(options.quiet)
    with caught_warnings() as warned:
        kind, trained = load_any(options)
        examples = None
        if kind is not None and options.values:
            options.check(kind)
            refuse_prepared(**options.files)
            progress.say(f"predicting for {source}")
            with kind.naming(source):
                examples = kind.examples(trained, kind.read(trained, options), source)
        progress.say("drawing")
        page = model_page(kind, trained, examples)
        write_page(page, options.output)
    if not options.quiet:
        say_warnings(warned)
    result: dict[str, Any] = {
        "report": str(options.output),
        "model": str(options.model),
        "kind": None if kind is None else kind.name,
        "sections": [section.title for section in page.sections],
        "n_examples": None if examples is None else len(examples.names),
        "bytes": options.output.stat().st_size,
    }
    if options.json:
        print_json(result)
        return
    shown = "no predictions, as there are no data" if examples is None else f"{len(examples.names)} predictions"
    print_facts([("report", str(options.output)), ("sections", ", ".join(result["sections"])), ("shows", shown)])


def load_any(options: ReportOptions) -> tuple[KindSpec | None, Trained]:
    """Read a model that the command trained or, if no data are given, that was saved from Python."""
    path, files = options.model, models.read_files(options.model)
    if find_kind(files.settings.extra) is not None:
        return restore_trained(files)
    if options.values:
        raise not_trained(path)
    return None, Trained(path, models.restore_model(files), None)
