"""Fit, save and report: the same for every kind of model."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from latentstruct.cli.common import STANDARD_STREAM, say_warnings
from latentstruct.cli.interrupts import exit_code, interrupt, on_interrupt, remember
from latentstruct.cli.old_kinds import Kind, Trained
from latentstruct.cli.old_running import PRESENT
from latentstruct.cli.run import describe_fit, files_beside, show_training
from latentstruct.cli.wording import in_words_of_the_command
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, caught_warnings, print_json, say

if TYPE_CHECKING:
    from latentstruct.report.blocks import Examples


@dataclass
class Training:
    """One training of the command.

    Parameters
    ----------
    kind : Kind
        What is trained.
    output : Path
        The folder of the model.
    estimator : estimator
        Not yet trained.
    X, Y : examples
        As its task takes them.
    sizes : dict of str to int
        What to tell about the data, with "n_examples".
    record : function of estimator and seconds
        Returns what is kept beside the trained model.
    score : function of estimator, optional
        Returns the quality on held-out data.
    finish : function of estimator, optional
        Called when the model is saved; writes what else goes into its folder and returns what to tell of it.
    fit_params : dict
        Further arguments of fit.
    expected_stops : set of str
        Reasons for a stop that are no cause for a warning, as the command cannot do better.
    report : Path, optional
        The page to write about the trained model.
    examples : function of Trained, optional
        Returns predictions for that page: of held-out data if there are some, else of the training data.
    """

    kind: Kind
    output: Path
    estimator: Any
    X: Any
    Y: Any
    sizes: dict[str, int]
    record: Callable[[Any, float], Any]
    score: Callable[[Any], dict[str, Any]] | None = None
    finish: Callable[[Any], dict[str, Any]] | None = None
    fit_params: dict[str, Any] = field(default_factory=dict)
    expected_stops: frozenset[str] = frozenset()
    report: Path | None = None
    examples: "Callable[[Trained], Examples] | None" = None

    def run(self, progress: Progress, json: bool) -> None:
        """Fit, save, evaluate and report; after Ctrl-C or SIGTERM too, then with the exit code of that signal."""
        from latentstruct.persistence import save_model

        name = type(self.estimator).__name__
        progress.say(f"training {name}: " + ", ".join(f"{self.sizes[k]} {k[2:]}" for k in self.sizes))
        began = time.perf_counter()
        # A signal stops training early; nothing but a failure keeps the best weights from being saved then.
        with caught_warnings() as warned, on_interrupt(remember):
            with on_interrupt(interrupt), progress, PRESENT.get().prepared(self.estimator) as further:
                further |= PRESENT.get().stopping(self.estimator, self._validation_score)
                self.estimator.fit(self.X, self.Y, callback=progress.callback, **self.fit_params, **further)
            seconds = time.perf_counter() - began
            interrupted = self.estimator.stop_reason_ == "interrupted"
            if interrupted:
                say(f"interrupted: saving the best weights so far to {self.output}")
            record = self.record(self.estimator, seconds)
            earlier = files_beside(self.output)
            try:
                save_model(self.output, self.estimator, asdict(record))
            except InputError as error:
                raise InputError(
                    f"training is over, but its model was not saved, as {error}; a run with --checkpoint FILE can be "
                    "repeated without training: give one"
                ) from error
            for file in earlier:
                file.unlink(missing_ok=True)
            told = {} if self.finish is None else self.finish(self.estimator)
        result = {
            "model": str(self.output),
            "kind": self.kind.name,
            "estimator": name,
            **describe_fit(self.estimator),
            "seconds": seconds,
            **self.sizes,
            "n_weights": len(self.estimator.coef_),
            **told,
        }
        if self.estimator.validation_scores_:
            result["validation_scores"] = self.estimator.validation_scores_
        if self.score is not None:
            result["valid"] = self._afterwards(self.score, "it was not evaluated")
        if self.report is not None:
            trained = Trained(self.output, self.estimator, record)
            result["report"] = self._afterwards(lambda _: self._write_report(trained), "no report was written")
        if json:
            print_json(result)
        else:
            show_training(self.kind, result)
        if interrupted:
            raise typer.Exit(exit_code())
        expected = tuple(f"training stopped early ({reason})" for reason in self.expected_stops)
        say_warnings(text for text in warned if not text.startswith(expected))

    def _validation_score(self, estimator: Any) -> float:
        assert self.score is not None
        return self.kind.main_score(self.score(estimator))

    def _write_report(self, trained: Trained) -> str:
        from latentstruct.report.model import model_page
        from latentstruct.report.page import write_page

        assert self.report is not None
        with caught_warnings() as warned:
            examples = None if self.examples is None else self.examples(trained)
            write_page(model_page(self.kind, trained, examples), self.report)
        say_warnings(warned)
        return str(self.report)

    def _afterwards(self, work: Callable[[Any], Any], undone: str) -> Any:
        """Do what follows once the model is saved; what stops it says so."""
        try:
            with on_interrupt(interrupt):
                return work(self.estimator)
        except KeyboardInterrupt as error:
            say(f"interrupted: the model is in {self.output}, but {undone}")
            raise typer.Exit(exit_code()) from error
        except (InputError, OSError) as error:
            why = in_words_of_the_command(str(error))
            raise InputError(f"the model is saved in {self.output}, but {undone}: {why}") from error


def source_of(valid: str | None, train: str) -> str:
    """Return what the data are that a report shows predictions for."""
    name, what = (train, "the training data") if valid is None else (valid, "held out from training")
    return f"{'standard input' if name == STANDARD_STREAM else name}, {what}"
