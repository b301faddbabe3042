"""Kinds that are not declared yet."""

from abc import abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

from latentstruct.cli.kind import Facts, KindSpec, Loaded, Trained
from latentstruct.cli.options import HeldOut
from latentstruct.progress import Progress

__all__ = ["Facts", "HeldOut", "Kind", "Trained"]


class Kind(KindSpec):
    """A kind with a train function of its own."""

    train: ClassVar[Callable[..., None]]

    def load(self, options: Any, progress: Progress) -> Loaded:
        """Not used."""
        raise NotImplementedError

    def score(self, model: Trained, data: Any) -> dict[str, Any]:
        """Not used."""
        raise NotImplementedError

    @abstractmethod
    def read_held_out(self, model: Trained, held_out: HeldOut) -> Any:
        """Return labelled data."""

    def read(self, model: Trained, held_out: HeldOut) -> Any:
        """Return labelled data."""
        return self.read_held_out(model, held_out)

    def example(self, seed: int = 0, missing: float = 0.0) -> bytes:
        """Return example data."""
        if missing and not self.misses_labels:
            return super().example(seed, missing)
        options = {"missing": missing} if missing else {}
        made: bytes = import_module(f"latentstruct.cli.samples.{self.name}").make_example(seed, **options)
        return made
