"""What the command can do, and a file to try each of it with."""

import os
import shutil
import sys
import textwrap
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from latentstruct.atomic_files import write_output
from latentstruct.cli.common import STANDARD_STREAM, reported_errors
from latentstruct.cli.config import suggest
from latentstruct.cli.options import JsonOption, OutputFileOption, SeedOption
from latentstruct.cli.registry import KINDS
from latentstruct.exceptions import InputError
from latentstruct.progress import print_facts, print_json

MODEL = "model"
LINES_SHOWN, LETTERS_SHOWN = 8, 100
INFER = "infer"


@dataclass(frozen=True)
class TaskGuide:
    """What is to be known of a task before it is tried.

    `commands` are lines of a shell that can be run one after the other in an empty folder.
    """

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
    def train(self) -> str:
        """The line that does the work."""
        return self.commands[1]


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


def guide_to_inference() -> TaskGuide:
    """Return what is to be known of inference in graphical models, for which nothing is trained."""
    return TaskGuide(
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


def list_guides() -> list[TaskGuide]:
    """Return what is to be known of all tasks."""
    return [*map(guide_to_kind, KINDS), guide_to_inference()]


def find_guide(name: str) -> TaskGuide:
    """Return what is to be known of the task of a name."""
    found = {guide.name: guide for guide in list_guides()}
    if name not in found:
        raise InputError(
            f"the task is {name!r}; expected one of {', '.join(found)}: latentstruct tasks tells what they are "
            f"for{suggest(name, found)}"
        )
    return found[name]


def make_example(name: str, seed: int = 0, missing: float = 0.0) -> bytes:
    """Return the file of example data of a task."""
    if name == INFER and missing:
        raise InputError(f"--missing is {missing:g}, but an example of {name} has no labels: leave it out")
    if name == INFER:
        from latentstruct.cli.infer import make_example as make_network

        return make_network(seed)
    return KINDS[find_guide(name).name].example(seed, missing)


def names_of_tasks(incomplete: str) -> list[str]:
    """Return the tasks whose names begin with what was typed, for the completion of the shell."""
    return [name for name in (*KINDS, INFER) if name.startswith(incomplete)]


TaskArgument = Annotated[
    str | None,
    typer.Argument(metavar="TASK", help="Show this one in full.", autocompletion=names_of_tasks, show_default="all"),
]


MatrixOption = Annotated[
    bool, typer.Option("--matrix", help="Show which structures support which estimators, and why not.")
]


@reported_errors()
def tasks(task: TaskArgument = None, json: JsonOption = False, matrix: MatrixOption = False) -> None:
    """List what can be trained: what it is for, what is latent, the files it reads, and an example of these.

    Example: latentstruct tasks motif
    """
    if matrix:
        if task is not None:
            raise InputError(f"--matrix is for all structures, but the task {task!r} is given: leave out one of them")
        show_matrix(json)
        return
    guides = list_guides() if task is None else [find_guide(task)]
    if json:
        described: Any = [asdict(guide) for guide in guides]
        print_json({"tasks": described} if task is None else described[0])
    elif task is None:
        show_all(guides)
    else:
        show_one(guides[0])


def show_matrix(json: bool) -> None:
    """Print which structures support which estimators."""
    from latentstruct.core.capabilities import CAPABILITIES, capability_matrix

    rows = capability_matrix()
    if json:
        print_json({"structures": rows, "reasons": {one.name: one.reason for one in CAPABILITIES}})
        return
    width = max(map(len, rows))
    for number, one in enumerate(CAPABILITIES, 1):
        print(f"{number}  {one.name}")
    print("\n" + " " * width + "".join(f"  {number:<9}" for number in range(1, len(CAPABILITIES) + 1)).rstrip())
    for name, supported in rows.items():
        print((f"{name:<{width}}" + "".join(f"  {support or '-':<9}" for support in supported.values())).rstrip())
    print("\n- because")
    for number, one in enumerate(CAPABILITIES, 1):
        print(f"{number}  {one.reason}")


def show_all(guides: list[TaskGuide]) -> None:
    """Print a paragraph for each task."""
    for guide in guides:
        print(guide.name)
        show_facts(guide)
        print()
    print("An example: latentstruct example motif > motif.fa; latentstruct train motif motif.fa -o model")
    print("More of one task: latentstruct tasks motif")


def show_facts(guide: TaskGuide) -> None:
    """Print what is to be known of a task, long texts in several lines."""
    facts = [
        ("for", guide.summary),
        ("latent", guide.latent),
        ("reads", guide.reads),
        ("example", guide.commands[0]),
        ("run", guide.train),
    ]
    indent, label = "  ", 9
    width = max(shutil.get_terminal_size().columns, 60)
    for name, text in facts:
        first, later = f"{indent}{name:<{label}}", " " * (len(indent) + label)
        # A command must stay in one line so that it can be copied.
        command = name in ("example", "run")
        print(first + text if command else textwrap.fill(text, width, initial_indent=first, subsequent_indent=later))


def show_one(guide: TaskGuide) -> None:
    """Print all of a task: its facts, the commands and the beginning of its example."""
    print_facts(
        [
            ("task", guide.name),
            ("for", guide.summary),
            ("latent", guide.latent),
            ("reads", guide.reads),
            ("example", guide.example_file),
        ]
    )
    print("\nfrom an empty folder:")
    for command in guide.commands:
        print(f"  {command}")
    print(f"\nall options: latentstruct {'infer' if guide.name == INFER else f'train {guide.name}'} --help")
    print(f"\n{guide.example_file} {'holds' if guide.packed else 'begins'}:")
    for line in beginning(guide):
        print(f"  {line}")


def beginning(guide: TaskGuide) -> list[str]:
    """Return the first lines of an example, long ones cut; of an archive what is in it."""
    raw = make_example(guide.name)
    lines = archive_contents(raw) if guide.packed else raw.decode().splitlines()
    shown = [line if len(line) <= LETTERS_SHOWN else f"{line[: LETTERS_SHOWN - 1]}…" for line in lines[:LINES_SHOWN]]
    return [*(line.expandtabs(4) for line in shown), *(["…"] if len(lines) > LINES_SHOWN else [])]


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
        from latentstruct.images import require_vision

        require_vision()
        check_stream_takes_bytes(output, guide)
    write_bytes(output, make_example(guide.name, seed, missing))


def check_stream_takes_bytes(output: str, guide: TaskGuide) -> None:
    """Raise if an archive would be shown on a terminal."""
    if output == STANDARD_STREAM and sys.stdout.isatty():
        raise InputError(
            f"the example of {guide.name} is a zip archive, which a terminal cannot show; expected a file: "
            f"latentstruct example {guide.name} > {guide.example_file}"
        )


def write_bytes(output: str, content: bytes) -> None:
    """Write a file, or to standard output."""
    if output == STANDARD_STREAM:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    if os.path.isdir(output):
        raise InputError(f"{output} is a folder, but the example is a file: give the file's name with -o")
    write_output(output, content)
