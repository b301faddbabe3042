"""Options of commands, declared as fields of dataclasses: ``k: int = option(5, "Number of documents.", min=1)``."""

import math
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from enum import StrEnum
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from latentstruct.cli.parameters import AUTO, CHOICE, split_annotation

TYPER, SETS = "typer", "sets"


def option(
    default: Any,
    help: str,
    *flags: str,
    shown: str | None = None,
    metavar: str | None = None,
    min: float | None = None,
    max: float | None = None,
    sets: str | None = None,
    auto: type | None = None,
) -> Any:
    """Return a field that is an option of a command.

    Its names `flags` follow from that of the field if they are not given; a switch that is off has no opposite. The
    help has `shown` as the default and `metavar` as the value. `min` and `max` limit a number, which may also be "auto"
    if its type is given as `auto`. `sets` is the parameter of the library that it sets if that has another name: errors
    of the library then name the option. The default of an option that is required is MISSING.
    """
    show_default = True if shown is None else shown
    limits: dict[str, Any] = {"min": min, "max": max, "case_sensitive": False}
    if auto is not None:
        metavar, limits["parser"] = f"NUMBER|{AUTO}", partial(_number_or_auto, auto, min, max)
    info: Any = typer.Option(*flags, help=help, metavar=metavar, show_default=show_default, **limits)
    return field(default=default, metadata={TYPER: info, SETS: sets})


def _number_or_auto(kind: type, low: float | None, high: float | None, value: Any) -> Any:
    """Return the value of an option that may be "auto"; raise ValueError if it is neither that nor a number."""
    if value is None or value == AUTO:
        return value
    number = kind(value)
    # NaN is left to the parameter that the option sets, as for other numbers.
    if number < (-math.inf if low is None else low) or number > (math.inf if high is None else high):
        raise ValueError(number)
    return number


def argument(
    help: str,
    default: Any = MISSING,
    shown: str | None = None,
    complete: Callable[[str], Any] | None = None,
    sets: str | None = None,
) -> Any:
    """Return a field that is an argument of a command; `complete` returns its values for shell completion.

    For `sets` see `option`.
    """
    info = typer.Argument(help=help, show_default=True if shown is None else shown, autocompletion=complete)
    return field(default=default, metadata={TYPER: info, SETS: sets})


model_argument = partial(argument, "Folder of a trained model.")
seed_option = partial(option, 0, "Random seed.", min=0)
quiet_option = partial(option, False, "Show no progress.", "-q", "--quiet")
json_option = partial(option, False, "Print the result as JSON.")
allow_unknown_option = partial(option, False, "Count labels the model does not know as wrong.")
skip_bad_option = partial(
    option, False, "Leave out images, labels, sequences and documents that cannot be used, and report them."
)
rules_option = partial(
    option,
    None,
    "Tagging scheme (BIO, BIOES or BILOU), or a file of pairs of labels of which the second may not follow the first; "
    "<s> is the begin and </s> the end. Labels that this forbids are not predicted.",
    metavar="SCHEME|FILE",
    shown="any label may follow any other",
)
output_file_option = partial(
    option, "-", "File to write; - is standard output.", "-o", "--output", metavar="FILE", shown="-"
)
restarts_option = partial(option, help="Number of starts; the best objective is kept.", min=1)


def weight_option(default: float | None, what: str, shown: str | None = None) -> Any:
    """Return the option -C of trainings whose examples are called `what`."""
    help = f"Weight of each {what} against ½‖w‖²; {AUTO} chooses it by folds."
    return option(default, help, "-C", "--C", shown=shown, auto=float)


def command_of(options: type[Any], run: Callable[[Any], None]) -> Callable[..., None]:
    """Return the function of a command from the dataclass of its options, whose docstring is the help.

    Arguments come first, then --output, then the fields of the most derived class, last those of its bases.
    """
    hints, known = get_type_hints(options), {one.name: one for one in fields(options) if TYPER in one.metadata}

    def place(name: str) -> int:
        if isinstance(known[name].metadata[TYPER], ArgumentInfo):
            return 0 if known[name].default is MISSING else 1
        return 2 if name == "output" else 3

    derived_first = dict.fromkeys(name for base in options.__mro__ for name in vars(base).get("__annotations__", ()))
    parameters = [Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for name in sorted((name for name in derived_first if name in known), key=place):
        parameters.append(_parameter(name, hints[name], known[name]))

    def call(ctx: typer.Context, **values: Any) -> None:
        plain = {name: value.value if isinstance(value, StrEnum) else value for name, value in values.items()}
        if "given" in hints:
            sources = {name: ctx.get_parameter_source(name) for name in values}
            plain["given"] = frozenset(name for name, one in sources.items() if one and one.name != "DEFAULT")
        run(options(**plain))

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    call.__doc__ = options.__doc__
    aliases = {one.metadata[SETS]: name for name, one in known.items() if one.metadata.get(SETS)}
    call.aliases = aliases  # type: ignore[attr-defined]
    return call


def _parameter(name: str, hint: Any, declared: Any) -> Parameter:
    """Return the parameter of a function for a field; typer takes an enumeration in place of a Literal."""
    info, default = declared.metadata[TYPER], declared.default
    one, _ = split_annotation(hint)
    if get_origin(one) is Literal:
        choices: Any = StrEnum(CHOICE, {text: text for text in get_args(one)})  # type: ignore[misc]
        hint = choices if hint is one else choices | None
        default = choices(default) if isinstance(default, str) else default
    if hint is bool and not info.param_decls and info.default is ...:
        info = typer.Option(f"--{name.replace('_', '-')}", help=info.help) if not default else info
    default = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, info])
