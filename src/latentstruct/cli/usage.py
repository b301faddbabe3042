"""Mistakes of the command line in one line each: what was found, what was expected, what to do."""

from collections.abc import Sequence
from typing import Any

from latentstruct.cli.config import format_value, suggest
from latentstruct.cli.parameters import CHOICE, Parameter, describe_parameter, list_parameters
from latentstruct.exceptions import InputError


def usage_error(error: Any, context: Any, args: Sequence[str]) -> InputError:
    """Return typer's complaint about the arguments of a command in the words of all other errors.

    Parameters
    ----------
    error : TyperException
        What typer raised.
    context : typer.Context
        That of the command.
    args : sequence of str
        The arguments as they were given.
    """
    called = context.command_path
    more = f"{called} --help tells more"
    name = type(error).__name__
    if name == "NoSuchOption":
        owners = commands_with(error.option_name, context.command)
        if owners:
            return InputError(
                f"{called} has no option {error.option_name}; expected a command before it, one of "
                f"{', '.join(owners)}: write {called} {owners[0]} {error.option_name} …"
            )
        known = [option for param in context.command.params for option in (*param.opts, *param.secondary_opts)]
        options = [option for option in known if option.startswith("-")]
        near = suggest(error.option_name, options)
        return InputError(
            f"{called} has no option {error.option_name}; expected one that its help lists: correct it or leave it "
            f"out{near or f' ({more})'}"
        )
    if name == "BadOptionUsage":
        return InputError(f"{option_usage(error, context)} ({more})")
    if name == "MissingParameter":
        missing = parameter_of(error.param, context)
        form = usage_line(context) if missing.is_argument else missing.usage()
        return InputError(
            f"{missing.shown} is missing ({missing.help.rstrip('.')}); expected {form}: give it here, or as "
            f"{missing.key} = … in a file for --config ({more})"
        )
    if name == "BadParameter" and error.param is not None:
        return bad_value(error, context, args)
    _, left_over, _ = context.command.make_parser(context).parse_args(args=list(args))
    found = f"{' '.join(left_over)} is too much" if left_over else error.format_message().rstrip(".")
    return InputError(f"{found}; expected {usage_line(context)}: {cure_of_too_much(left_over, context)} ({more})")


def commands_with(option: str, group: Any) -> list[str]:
    """Return the commands of a group that have an option; a command that is no group has none."""
    commands = getattr(group, "commands", {})
    return [name for name, one in commands.items() if any(option in param.opts for param in one.params)]


def cure_of_too_much(left_over: Sequence[str], context: Any) -> str:
    """Return what to do with arguments that a command does not take: some take files by name."""
    options = {option for param in context.command.params for option in param.opts}
    if left_over and "--data" in options:
        return f"give data by name, as --data {left_over[0]}"
    if left_over and {"--positive", "--negative"} <= options:
        return "give a file of each kind by name, as --positive FASTA --negative FASTA"
    return "correct it"


def usage_line(context: Any) -> str:
    """Return how a command is called."""
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])


def parameter_of(param: Any, context: Any) -> Parameter:
    """Return typer's parameter as plain data."""
    found = {one.name: one for one in list_parameters(context.command)}
    return found.get(param.name) or describe_parameter(param, str)


def option_usage(error: Any, context: Any) -> str:
    """Return what is wrong with an option that has no value, or one too many."""
    for one in list_parameters(context.command):
        if error.option_name in (*one.options, *one.opposites):
            if not one.metavar:
                return f"{error.option_name} has a value; expected none, as it is a switch: leave the value out"
            count = "a value" if one.size in (None, 1) else f"{one.size} values"
            return f"{error.option_name} lacks {count}; expected {one.metavar} after it: give it"
    return str(error.format_message())


def bad_value(error: Any, context: Any, args: Sequence[str]) -> InputError:
    """Return the error of a value that its parameter does not take."""
    one = parameter_of(error.param, context)
    found = given_value(error.param, context, args)
    source = context.get_parameter_source(error.param.name)
    if source is not None and source.name == "DEFAULT_MAP":
        named = f"{context.meta.get('config', 'the file')} has {one.key} = {format_value(found)}"
    else:
        named = f"{one.shown} is {' '.join(map(str, found)) if isinstance(found, list | tuple) else found}"
    near = ""
    if one.type == CHOICE:
        wrong = [text for text in (found if isinstance(found, list | tuple) else [found]) if text not in one.choices]
        near = suggest(str(wrong[0]), one.choices) if wrong else ""
    cure = "correct it" if one.required else "correct it or leave it out"
    return InputError(f"{named}; expected {one.expected}: {cure}{near}")


def given_value(param: Any, context: Any, args: Sequence[str]) -> Any:
    """Return what the command line or a file says for a parameter, before it is looked at."""
    given, _, _ = context.command.make_parser(context).parse_args(args=list(args))
    value = given.get(param.name)
    return (context.default_map or {}).get(param.name) if value is None else value
