"""What the command can do, and a file to try each of it with."""

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from latentstruct.cli.common import STANDARD_STREAM, reported_errors
from latentstruct.cli.config import suggest
from latentstruct.cli.options import JsonOption, OutputFileOption, SeedOption
from latentstruct.cli.registry import KINDS
from latentstruct.exceptions import InputError
from latentstruct.persistence.atomic_files import write_output
from latentstruct.progress.display import print_facts, print_json

MODEL = "model"
LINES_SHOWN, LETTERS_SHOWN = 8, 100
INFER = "infer"


@dataclass(frozen=True)
class TaskGuide:
    """What is to be known of a task; `commands` can be run one after the other in an empty folder."""

    name: str
    summary: str
    latent: str
    reads: str
    example_file: str
    commands: tuple[str, ...]

    @property
    def packed(self) -> bool:
        """Whether the example is an archive."""
        return self.example_file.endswith(".zip")

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What it is for, what is latent and what it reads."""
        return [("for", self.summary), ("latent", self.latent), ("reads", self.reads)]


INFERENCE = TaskGuide(
    INFER,
    "Answer questions about a graphical model: partition function, marginals, best states.",
    "nothing; variables that are not asked for are summed out",
    "A Markov or Bayesian network in the UAI format; evidence and query in files of their own.",
    "infer.uai",
    (
        f"latentstruct example {INFER} > infer.uai",
        "latentstruct infer infer.uai --task MAR -o infer.MAR",
        "latentstruct infer infer.uai --task MAP",
    ),
)


def guide_to_kind(name: str) -> TaskGuide:
    """Return what is to be known of a kind of model."""
    kind = KINDS[name]
    file = kind.example_file
    commands = (
        f"latentstruct example {name} > {file}",
        f"latentstruct train {name} {file} -o {MODEL}",
        f"latentstruct predict {MODEL} {file} -o {kind.prediction_file}",
        f"latentstruct evaluate {MODEL} {file}",
        f"latentstruct report {MODEL} --data {file} -o report.html",
    )
    return TaskGuide(name, kind.summary, kind.latent, kind.reads, file, commands)


def list_guides() -> list[TaskGuide]:
    """Return what is to be known of all tasks."""
    return [*map(guide_to_kind, KINDS), INFERENCE]


def find_guide(name: str) -> TaskGuide:
    """Return what is to be known of the task of a name."""
    names = (*KINDS, INFER)
    if name not in names:
        raise InputError(
            f"the task is {name!r}; expected one of {', '.join(names)}: latentstruct tasks tells what they are "
            f"for{suggest(name, names)}"
        )
    return INFERENCE if name == INFER else guide_to_kind(name)


def make_example(name: str, seed: int = 0, missing: float = 0.0) -> bytes:
    """Return the file of example data of a task."""
    if find_guide(name) is not INFERENCE:
        return KINDS[name].example(seed, missing)
    if missing:
        raise InputError(f"--missing is {missing:g}, but an example of {name} has no labels: leave it out")
    from latentstruct.cli.infer import make_example as make_network

    return make_network(seed)


def names_of_tasks(incomplete: str) -> list[str]:
    """Return the tasks whose names begin with what was typed, for the completion of the shell."""
    return [name for name in (*KINDS, INFER) if name.startswith(incomplete)]


@reported_errors()
def tasks(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK", help="Show this one in full.", autocompletion=names_of_tasks, show_default="all"
        ),
    ] = None,
    json: JsonOption = False,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Show which structures support which estimators, and why not.")
    ] = False,
) -> None:
    """List what can be trained: what it is for, what is latent, the files it reads, and an example of these.

    Example: latentstruct tasks motif
    """
    if matrix and task is not None:
        raise InputError(f"--matrix is for all structures, but the task {task!r} is given: leave out one of them")
    if matrix:
        show_matrix(json)
    elif task is None:
        show_all(list_guides(), json)
    elif json:
        print_json(asdict(find_guide(task)))
    else:
        show_one(find_guide(task))


def show_matrix(json: bool) -> None:
    """Print which structures support which estimators."""
    from latentstruct.core.capabilities import CAPABILITIES, capabilities, reasons, shared_reasons, task_tags

    rows = {name: capabilities(tags) for name, tags in task_tags().items()}
    if json:
        print_json({"structures": rows, "reasons": {name: reasons(tags) for name, tags in task_tags().items()}})
        return
    width = max(map(len, rows))
    for number, one in enumerate(CAPABILITIES, 1):
        print(f"{number}  {one.name}")
    print("\n" + " " * width + "".join(f"  {number:<9}" for number in range(1, len(CAPABILITIES) + 1)).rstrip())
    for name, supported in rows.items():
        print((f"{name:<{width}}" + "".join(f"  {support or '-':<9}" for support in supported.values())).rstrip())
    width = max(shutil.get_terminal_size().columns, 60)
    for number, found in enumerate(shared_reasons().values(), 1):
        for reason, names in found.items():
            text = f"{', '.join(names)}: {reason}"
            print("\n" + textwrap.fill(text, width, initial_indent=f"{number}  ", subsequent_indent="   "))


def show_all(guides: Sequence[TaskGuide], json: bool) -> None:
    """Print a paragraph for each task, long texts in several lines."""
    if json:
        print_json({"tasks": [asdict(guide) for guide in guides]})
        return
    width = max(shutil.get_terminal_size().columns, 60)
    for guide in guides:
        print(guide.name)
        for name, text in guide.facts:
            print(textwrap.fill(text, width, initial_indent=f"  {name:<9}", subsequent_indent=" " * 11))
        # A command must stay in one line so that it can be copied.
        print(f"  {'example':<9}{guide.commands[0]}\n  {'run':<9}{guide.commands[1]}\n")
    print("An example: latentstruct example motif > motif.fa; latentstruct train motif motif.fa -o model")
    print("More of one task: latentstruct tasks motif")


def show_one(guide: TaskGuide) -> None:
    """Print all of a task: its facts, the commands and the beginning of its example."""
    print_facts([("task", guide.name), *guide.facts, ("example", guide.example_file)])
    print("\nfrom an empty folder:")
    for command in guide.commands:
        print(f"  {command}")
    print(f"\nall options: latentstruct {guide.name if guide is INFERENCE else f'train {guide.name}'} --help")
    print(f"\n{guide.example_file} {'holds' if guide.packed else 'begins'}:")
    raw = make_example(guide.name)
    lines = archive_contents(raw) if guide.packed else raw.decode().splitlines()
    for line in lines[:LINES_SHOWN]:
        shown = line if len(line) <= LETTERS_SHOWN else f"{line[: LETTERS_SHOWN - 1]}…"
        print(f"  {shown.expandtabs(4)}")
    if len(lines) > LINES_SHOWN:
        print("  …")


def archive_contents(raw: bytes) -> list[str]:
    """Return the first image of each folder of an archive, how many more there are, and the text of its tables."""
    import io
    import zipfile

    images: dict[str, list[str]] = {}
    lines: list[str] = []
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for name in archive.namelist():
            if name.endswith((".csv", ".txt")):
                lines += [f"{name}: {line}" for line in archive.read(name).decode().splitlines()]
            else:
                images.setdefault(name.rpartition("/")[0], []).append(name)
    return [*(f"{names[0]} and {len(names) - 1} more" for names in images.values()), *lines]


@reported_errors()
def example(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="What to try, as latentstruct tasks lists it.", autocompletion=names_of_tasks
        ),
    ],
    output: OutputFileOption = STANDARD_STREAM,
    seed: SeedOption = 0,
    missing: Annotated[
        float, typer.Option(metavar="SHARE", min=0.0, max=1.0, help="Of chain: labels to leave out, written as ?.")
    ] = 0.0,
) -> None:
    """Write a small file of made-up data for a task, to be trained on at once and to see what such files look like.

    Example: latentstruct example motif > motif.fa; latentstruct train motif motif.fa -o model
    """
    guide = find_guide(task)
    if guide.packed:
        from latentstruct.data.images import require_vision

        require_vision()
        if output == STANDARD_STREAM and sys.stdout.isatty():
            raise InputError(
                f"the example of {guide.name} is a zip archive, which a terminal cannot show; expected a file: "
                f"latentstruct example {guide.name} > {guide.example_file}"
            )
    content = make_example(guide.name, seed, missing)
    if output == STANDARD_STREAM:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    elif os.path.isdir(output):
        raise InputError(f"{output} is a folder, but the example is a file: give the file's name with -o")
    else:
        write_output(output, content)
