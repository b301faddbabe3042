"""The command `latentstruct`: train, predict, evaluate, inspect models, reproduce experiments, and a demonstration.

Nothing heavy is imported before a command runs, so that help and errors of the command line are immediate.
"""

from typing import TYPE_CHECKING, Any

from latentstruct.cli.interrupts import end_on_interrupt

if TYPE_CHECKING:
    from latentstruct.cli.commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command."""
    end_on_interrupt()
    from latentstruct.cli.commands import app

    app()


def __getattr__(name: str) -> Any:
    # The commands are loaded by `main`, where Ctrl-C is handled already.
    if name == "app":
        from latentstruct.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
