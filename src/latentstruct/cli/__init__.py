"""The command `latentstruct`: train, predict, evaluate, look into models, run experiments anew, and a demonstration.

Nothing heavy is imported before a command runs, so that help and mistyped options are answered at once.
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
    # The commands are loaded by `main`, where Ctrl-C is taken care of already.
    if name == "app":
        from latentstruct.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
