"""The command `latentstruct`: train, predict, evaluate, look into models, run experiments anew, and a demonstration.

Nothing heavy is imported before a command runs, so that help and mistyped options are answered at once.
"""

from latentstruct.cli.commands import app, main

__all__ = ["app", "main"]
