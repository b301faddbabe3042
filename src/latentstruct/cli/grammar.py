"""Common to all commands: `--config`, help, errors of the command line, and a description of them all."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from latentstruct.cli.common import reported_errors
from latentstruct.cli.config import check_saving, read_options, suggest, write_options
from latentstruct.cli.parameters import Parameter, list_parameters, walk_commands
from latentstruct.cli.usage import usage_error
from latentstruct.exceptions import FormatError
from latentstruct.progress.display import say
from latentstruct.progress.heartbeat import Heartbeat

EXAMPLES = re.compile(r"Examples?: ")
WIDEST_NAME, LEAST_WIDTH = 26, 20
HELP = ("-h, --help", "Show this message and exit.")


def words_of(context: Any) -> tuple[str, ...]:
    """Return the words that call a command, such as ("train", "chain")."""
    return () if context.parent is None else (*words_of(context.parent), context.info_name)


def take_config(ctx: typer.Context, value: Path | None) -> None:
    """Use the options of a file for those that are not given."""
    if value is not None and not ctx.resilient_parsing:
        ctx.meta["config"] = value
        ctx.default_map = read_options(value, words_of(ctx), ctx.find_root().command)


def take_saving(ctx: typer.Context, value: Path | None) -> None:
    """Remember where the options are to be saved."""
    if value is not None and not ctx.resilient_parsing:
        check_saving(value, ctx.meta.get("config"))
        ctx.meta["save_config"] = value


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=take_config,
        help="TOML file with further options, as max-iter = 5 or, for one of several commands, below a line such as "
        "[train.chain]; options of the command line win.",
    ),
]
SaveConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--save-config",
        metavar="FILE",
        expose_value=False,
        callback=take_saving,
        help="Write all options of this run, for --config.",
    ),
]


@cache
def shared_parameters() -> tuple[Any, ...]:
    """Return the options of every command."""
    probe = typer.Typer(add_completion=False)

    @probe.command()
    def common(config: ConfigOption = None, save_config: SaveConfigOption = None) -> None:
        """Have the options that every command has."""

    return tuple(typer.main.get_command(probe).params)


def option_namer(command: Any) -> Callable[[str], str | None]:
    """Return a function from parameters to options of a command, by their names or by what they are said to set."""

    def name(parameter: str) -> str | None:
        # The parameters are described when there is an error to print, which is rare.
        known = {one.name: one.shown for one in list_parameters(command)}
        return known.get(getattr(command.callback, "aliases", {}).get(parameter, parameter))

    return name


@contextmanager
def reported_mistakes(context: Any, args: Sequence[str]) -> Iterator[None]:
    """Report errors of the command line as all other errors."""
    with reported_errors(option_namer(context.command)):
        try:
            yield
        except typer.TyperException as error:
            # Help instead of missing arguments is no error, and completion tries what is not finished.
            if context.resilient_parsing or type(error).__name__ == "NoArgsIsHelpError":
                raise
            raise usage_error(error, context, args) from error


def write_wrapped(formatter: Any, text: str, indent: int, first: str = "") -> None:
    """Write a text in lines of the terminal's width, without breaks in the names of options."""
    begin = first.ljust(indent)
    if len(begin) > indent:
        formatter.write(f"{first}\n")
        begin = " " * indent
    wrapper = textwrap.TextWrapper(max(formatter.width, indent + LEAST_WIDTH), begin, " " * indent)
    wrapper.break_on_hyphens = wrapper.break_long_words = False
    formatter.write(f"{wrapper.fill(text).rstrip()}\n")


def write_rows(formatter: Any, title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Write names and their meanings."""
    if rows:
        formatter.write(f"\n{title}:\n")
        indent = min(max(len(name) for name, _ in rows), WIDEST_NAME) + 4
        for name, text in rows:
            write_wrapped(formatter, text, indent, f"  {name}  ")


def write_parameters(formatter: Any, parameters: Sequence[Parameter]) -> None:
    """Write arguments and options."""
    arguments, options = (
        [(one.usage(), one.explanation()) for one in parameters if one.is_argument is wanted]
        for wanted in (True, False)
    )
    write_rows(formatter, "Arguments", arguments)
    write_rows(formatter, "Options", [*options, HELP])


class _Reporting:
    """Common to commands and groups."""

    help: str | None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments."""
        with reported_mistakes(ctx, list(args)):
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return rest

    def full_help(self) -> str:
        """Return what the command does."""
        return self.help or ""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does."""
        for paragraph in inspect.cleandoc(self.full_help()).split("\n\n"):
            formatter.write("\n")
            write_wrapped(formatter, " ".join(paragraph.split()), 2)


class Command(_Reporting, TyperCommand):
    """A command whose options may be in a file."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params = [*self.params, *shared_parameters()]

    def invoke(self, ctx: Any) -> Any:
        """Run the command, then save its options if requested."""
        with reported_errors(option_namer(self)):
            with Heartbeat(say, quiet=bool(ctx.params.get("quiet"))):
                result = super().invoke(ctx)
            if "save_config" in ctx.meta:
                write_options(ctx.meta["save_config"], words_of(ctx), self, ctx.params)
        return result

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what follows the name in the usage line."""
        arguments = [one for one in list_parameters(self) if one.is_argument]
        return ["[OPTIONS]", *(one.metavar if one.required else f"[{one.metavar}]" for one in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options."""
        write_parameters(formatter, list_parameters(self))


class Group(_Reporting, TyperGroup):
    """Commands under one name; those that have commands of their own come first."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the named command."""
        with reported_mistakes(ctx, args):
            if args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
                inner = [name for name, one in self.commands.items() if args[0] in getattr(one, "commands", ())]
                near = f"Did you mean {ctx.command_path} {inner[0]} {args[0]}?" if inner else None
                expected = f"a command ({', '.join(self.list_commands(ctx))})"
                raise FormatError(ctx.command_path, args[0], expected, near or suggest(args[0], self.commands))
            found = super().resolve_command(ctx, args)
        return found

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return sorted(self.commands, key=lambda name: not isinstance(self.commands[name], TyperGroup))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options and commands."""
        write_parameters(formatter, list_parameters(self))
        summaries = {name: (self.commands[name].help or "").split("\n\n")[0] for name in self.list_commands(ctx)}
        write_rows(formatter, "Commands", [(name, " ".join(text.split())) for name, text in summaries.items()])


def lazy_group(build: Callable[[], dict[str, Any]]) -> type[Group]:
    """Return a group whose commands are built when they are needed."""

    class LazyGroup(Group):
        """Commands under one name."""

        @property
        def commands(self) -> MutableMapping[str, Any]:
            """The commands by their names."""
            return build()

        @commands.setter
        def commands(self, registered: MutableMapping[str, Any]) -> None:
            """Ignore that nothing is registered."""

    return LazyGroup


def commands_of(app: "App") -> dict[str, Any]:
    """Return the commands of a group by their names."""
    return dict(typer.main.get_group(app).commands)


class App(typer.Typer):
    """Commands that all take `--config`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            cls=Group,
            no_args_is_help=True,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
            **settings,
        )

    def command(self, *args: Any, **settings: Any) -> Callable[..., Any]:
        """Add a command."""
        return super().command(*args, **{"cls": Command, **settings})


@dataclass(frozen=True)
class CommandHelp:
    """The help of one command: the words that call it, and whole command lines as examples."""

    words: tuple[str, ...]
    usage: str
    summary: str
    paragraphs: tuple[str, ...]
    examples: tuple[str, ...]
    parameters: tuple[Parameter, ...]


def describe_commands() -> list[CommandHelp]:
    """Return the help of all commands, in its order, for the documentation."""
    from latentstruct.cli.commands import app

    return [describe_command(words, command) for words, command in walk_commands(typer.main.get_command(app))]


def describe_command(words: tuple[str, ...], command: Any) -> CommandHelp:
    """Return the help of a command."""
    summary, *paragraphs = (" ".join(text.split()) for text in inspect.cleandoc(command.full_help()).split("\n\n"))
    examples: list[str] = []
    if paragraphs and EXAMPLES.match(paragraphs[-1]):
        examples = EXAMPLES.sub("", paragraphs.pop()).split("; ")
    usage = " ".join(["latentstruct", *words, *command.collect_usage_pieces(None)])
    return CommandHelp(words, usage, summary, tuple(paragraphs), tuple(examples), tuple(list_parameters(command)))
