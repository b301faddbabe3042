"""What can be trained, and example data for it."""

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from latentstruct.cli.common import STANDARD_STREAM
from latentstruct.cli.config import suggest
from latentstruct.cli.declaring import argument, json_option, option, output_file_option, seed_option
from latentstruct.cli.registry import KINDS
from latentstruct.exceptions import Description, InputError
from latentstruct.persistence.atomic_files import write_output
from latentstruct.progress.display import print_facts, print_json

MODEL = "model"
LINES_SHOWN, LETTERS_SHOWN = 8, 100
INFER = "infer"


@dataclass(frozen=True)
class TaskGuide:
    """A task; `commands` can be run one after the other in an empty folder."""

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
    "Inference in a graphical model: partition function, marginals, best states.",
    "nothing; variables outside the query are summed out",
    "A Markov or Bayesian network in the UAI format; evidence and query in separate files.",
    "infer.uai",
    (
        f"latentstruct example {INFER} > infer.uai",
        "latentstruct infer infer.uai --task MAR -o infer.MAR",
        "latentstruct infer infer.uai --task MAP",
    ),
)


def guide_to_kind(name: str) -> TaskGuide:
    """Return the guide to a kind of model."""
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
    """Return the guides to all tasks."""
    return [*map(guide_to_kind, KINDS), INFERENCE]


def find_guide(name: str) -> TaskGuide:
    """Return the guide to a task."""
    names = (*KINDS, INFER)
    if name not in names:
        raise InputError("task", name, f"one of {', '.join(names)}", suggest(name, names))
    return INFERENCE if name == INFER else guide_to_kind(name)


def make_example(name: str, seed: int = 0, missing: float = 0.0) -> bytes:
    """Return the file of example data of a task."""
    if find_guide(name) is not INFERENCE:
        return KINDS[name].example(seed, missing)
    if missing:
        raise InputError("missing", missing, f"left out for {name}")
    from latentstruct.cli.infer import make_example as make_network

    return make_network(seed)


def names_of_tasks(incomplete: str) -> list[str]:
    """Return the tasks whose names begin with `incomplete`, for shell completion."""
    return [name for name in (*KINDS, INFER) if name.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class TasksOptions:
    """List what can be trained: what it is for, what is latent, the files it reads, and an example.

    Example: latentstruct tasks motif
    """

    task: str | None = argument("Show this task in full.", None, "all", names_of_tasks)
    json: bool = json_option()
    matrix: bool = option(False, "Show which structures support which estimators, and why not.")


def tasks(options: TasksOptions) -> None:
    """Print what can be trained."""
    if options.matrix and options.task is not None:
        raise InputError("matrix", True, "left out if `task` is given")
    if options.matrix:
        show_matrix(options.json)
    elif options.task is None:
        show_all(list_guides(), options.json)
    elif options.json:
        print_json(asdict(find_guide(options.task)))
    else:
        show_one(find_guide(options.task))


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
    """Print a paragraph per task."""
    if json:
        print_json({"tasks": [asdict(guide) for guide in guides]})
        return
    width = max(shutil.get_terminal_size().columns, 60)
    for guide in guides:
        print(guide.name)
        for name, text in guide.facts:
            print(textwrap.fill(text, width, initial_indent=f"  {name:<9}", subsequent_indent=" " * 11))
        # A command stays in one line so that it can be copied.
        print(f"  {'example':<9}{guide.commands[0]}\n  {'run':<9}{guide.commands[1]}\n")
    print("Example: latentstruct example motif > motif.fa; latentstruct train motif motif.fa -o model")
    print("Details of a task: latentstruct tasks motif")


def show_one(guide: TaskGuide) -> None:
    """Print the facts of a task, its commands and the beginning of its example."""
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


@dataclass(frozen=True, kw_only=True)
class ExampleOptions:
    """Write a small file of synthetic data for a task, which can be trained on and shows what such files look like.

    Example: latentstruct example motif > motif.fa; latentstruct train motif motif.fa -o model
    """

    task: str = argument("The task, as latentstruct tasks lists it.", complete=names_of_tasks)
    output: str = output_file_option()
    seed: int = seed_option()
    missing: float = option(
        0.0, "Chains: fraction of labels to leave out, written as ?.", metavar="FRACTION", min=0.0, max=1.0
    )


def example(options: ExampleOptions) -> None:
    """Write example data."""
    guide, output = find_guide(options.task), options.output
    if guide.packed:
        from latentstruct.data.images import require_vision

        require_vision()
        if output == STANDARD_STREAM and sys.stdout.isatty():
            hint = f"Write latentstruct example {guide.name} > {guide.example_file}"
            raise InputError("output", Description("a terminal"), "a file, as the example is a zip archive", hint)
    content = make_example(guide.name, options.seed, options.missing)
    if output == STANDARD_STREAM:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    elif os.path.isdir(output):
        raise InputError("output", output, "a file", "This is a folder.")
    else:
        write_output(output, content)
