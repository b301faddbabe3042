"""Train a model of any kind: read, fit, save, evaluate and report."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from latentstruct.cli.common import STANDARD_STREAM, is_prepared, refuse_prepared, say_warnings
from latentstruct.cli.interrupts import exit_code, interrupt, on_interrupt, remember
from latentstruct.cli.kind import Facts, KindSpec, Loaded, Trained
from latentstruct.cli.lazy import models
from latentstruct.cli.options import TrainOptions
from latentstruct.exceptions import InputError
from latentstruct.progress.display import Progress, caught_warnings, fit_facts, print_facts, print_json, say


def train(kind: KindSpec, options: TrainOptions) -> None:
    """Train a model."""
    options.check()
    if not kind.calibrates:
        options.refuse("calibrate", f"for {kind.name}")
    progress = Progress(options.quiet)
    refuse_prepared(**options.held_out().files)
    if kind.prepare_options is not None and options.data is not None and is_prepared(options.data):
        for name in kind.settled_options:
            options.refuse(name, "if `data` is prepared")
        loaded = kind.load_prepared(options, progress)
    else:
        with kind.naming(options.source):
            loaded = kind.load(options, progress)
    model = Trained(options.output, loaded.estimator, loaded.record, loaded.features, loaded.labels, progress.say)
    held_out = None
    if options.valid_source is not None:
        with kind.naming(options.valid_source):
            held_out = kind.read(model, options.held_out())
    with kind.naming(options.source, loaded.origins):
        loaded = kind.encode(loaded, progress)
        model = replace(model, estimator=loaded.estimator, record=loaded.record)
        Training(kind, options, loaded, model, held_out, progress).run()


@dataclass
class Training:
    """One training; `held_out` is None if there are no such data."""

    kind: KindSpec
    options: TrainOptions
    loaded: Loaded
    model: Trained
    held_out: Any
    progress: Progress
    out_of_fold: Facts = field(default_factory=list)

    def run(self) -> None:
        """Fit, save, evaluate and report; after Ctrl-C or SIGTERM exit with the code of that signal."""
        loaded, options, estimator = self.loaded, self.options, self.loaded.estimator
        self.progress.say(f"training {type(estimator).__name__}: {sizes_in_words(loaded.sizes)}")
        began = time.perf_counter()
        # A signal stops training early; the best weights are then saved all the same.
        with caught_warnings() as warned, on_interrupt(remember):
            with on_interrupt(interrupt), options.configured(estimator) as further:
                further |= options.stopping(estimator, self._main_score)
                validated = self._cross_validate(further.get("checkpoint"))
                further |= loaded.fit_params
                with self.progress:
                    estimator.fit(loaded.X, loaded.Y, callback=self.progress.callback, **further)
            seconds = time.perf_counter() - began
            interrupted = estimator.stop_reason_ == "interrupted"
            if interrupted:
                say(f"interrupted: saving the best weights so far to {options.output}")
            calibrated = self._calibrate()
            details = self._save(seconds)
        result = {
            "model": str(options.output),
            "kind": self.kind.name,
            "estimator": type(estimator).__name__,
            **describe_fit(estimator),
            "seconds": seconds,
            **loaded.sizes,
            "n_weights": len(estimator.coef_),
            **details,
            **calibrated,
            **validated,
        }
        if estimator.validation_scores_:
            result["validation_scores"] = estimator.validation_scores_
        if self.held_out is not None:
            result["valid"] = self._afterwards(self._scores, "it was not evaluated")
        if options.report is not None:
            result["report"] = self._afterwards(self._write_report, "no report was written")
        if options.json:
            print_json(result)
        else:
            show_training(self.kind, result)
        if interrupted:
            raise typer.Exit(exit_code())
        expected = tuple(f"training stopped early ({reason})" for reason in self.kind.expected_stops)
        say_warnings(text for text in warned if not text.startswith(expected))

    def _cross_validate(self, checkpoint: Any) -> dict[str, Any]:
        """Compute out-of-fold scores and choose C, where that is wanted; return what to report."""
        result: dict[str, Any] = {}
        choices = self.loaded.choices
        if self.options.divides:
            from latentstruct.cli.folds import CrossValidation

            validation = CrossValidation(self.kind, self.options, self.loaded, self.model, self.progress)
            if self.options.folds is not None:
                result["out_of_fold"] = validation.out_of_fold()
            if self.loaded.settings is not None:
                choices.append(validation.choose_setting())
                self.loaded.settings.choose(self.loaded.estimator, choices[-1].value)
            if self.options.chooses_C:
                choices.append(validation.choose_C(checkpoint))
                self.loaded.estimator.set_params(C=choices[-1].value)
        for one in choices:
            known = {name: getattr(one, name) for name in ("values", "means", "standard_errors", "value")}
            compared = {} if one.baseline is None else {"baseline": one.baseline.mean(), "gain": one.gain}
            result[f"chosen_{one.parameter}"] = {**known, **compared, "description": one.describe()}
        self.out_of_fold = self.kind.fold_facts(result.get("out_of_fold", {}))
        return result

    def _calibrate(self) -> dict[str, Any]:
        """Fit the temperature of probabilities, if that is wanted; return what to report."""
        if not self.options.calibrate:
            return {}
        estimator = self.loaded.estimator
        with self.kind.naming(self.options.valid_source or ""):
            estimator.calibrate(*self.kind.labeled_examples(self.model, self.held_out))
        return {"calibrated_temperature": estimator.calibrated_temperature_}

    def _save(self, seconds: float) -> dict[str, Any]:
        """Save the model and what belongs to it; return what to report."""
        record = replace(self.kind.final_record(self.model, self.loaded), seconds=seconds)
        self.model = replace(self.model, record=record)
        earlier = files_beside(self.options.output)
        written = self.kind.compacted(self.model) if self.options.compact else self.model
        extra = {"kind": self.kind.name, **asdict(written.record)}
        try:
            models.save_model(self.options.output, written.estimator, extra, self.options.compact)
        except InputError:
            say("training is finished, but its model was not saved; with --checkpoint FILE no training is lost")
            raise
        for file in earlier:
            file.unlink(missing_ok=True)
        return self.kind.finish(self.model, self.loaded)

    def _scores(self) -> dict[str, Any]:
        with self.kind.naming(self.options.valid_source or ""):
            return self.kind.score(self.model, self.held_out)

    def _main_score(self, estimator: Any) -> float:
        return self.kind.main_score(self.kind.score(replace(self.model, estimator=estimator), self.held_out))

    def _write_report(self) -> str:
        from latentstruct.viz.report.model import model_page
        from latentstruct.viz.report.page import write_page

        assert self.options.report is not None
        data, source = self.held_out, f"{shown_name(self.options.valid_source)}, held out from training"
        if data is None:
            data, source = self.loaded.shown, f"{shown_name(self.options.source)}, the training data"
        with caught_warnings() as warned:
            with self.kind.naming(source):
                examples = None if data is None else self.kind.examples(self.model, data, source)
            page = model_page(self.kind, self.model, examples, self.out_of_fold, self.loaded.choices)
            write_page(page, self.options.report)
        say_warnings(warned)
        return str(self.options.report)

    def _afterwards(self, work: Callable[[], Any], undone: str) -> Any:
        """Do what follows once the model is saved; if that fails, print what is missing."""
        try:
            with on_interrupt(interrupt):
                return work()
        except KeyboardInterrupt as error:
            say(f"interrupted: the model is saved in {self.options.output}, but {undone}")
            raise typer.Exit(exit_code()) from error
        except (InputError, OSError):
            say(f"the model is saved in {self.options.output}, but {undone}")
            raise


def shown_name(name: str | None) -> str:
    """Return the name of a file in messages."""
    return "standard input" if name == STANDARD_STREAM else name or ""


def sizes_in_words(result: dict[str, Any]) -> str:
    """Return the counts of a result, such as "30 examples, 12 features"."""
    return ", ".join(f"{value} {name[2:]}" for name, value in result.items() if name.startswith("n_"))


def files_beside(folder: Path) -> list[Path]:
    """Return the files that an earlier training wrote into the folder with its model."""
    from latentstruct.cli.registry import find_kind

    try:
        kind = find_kind(models.read_settings(folder).extra)
    except InputError:
        return []
    return [] if kind is None else [folder / name for name in kind.files]


def describe_fit(estimator: Any) -> dict[str, Any]:
    """Return what training reached."""
    return {
        "objective": estimator.objective_,
        "lower_bound": estimator.lower_bound_,
        "relative_gap": estimator.relative_gap_,
        "certified": estimator.certified_,
        "oracle_calls": estimator.n_oracle_calls_,
        "iterations": estimator.n_iter_,
        "stop_reason": estimator.stop_reason_,
        "latent": estimator.task_.latent,
        "restart_objectives": list(estimator.restart_objectives_),
    }


def show_training(kind: KindSpec, result: dict[str, Any]) -> None:
    """Print the result of a training as text."""
    facts = [
        *kind.fold_facts(result.get("out_of_fold", {})),
        *(("chosen by folds", one["description"]) for name, one in result.items() if name.startswith("chosen_")),
        ("model", f"{result['model']} ({result['kind']}, {result['estimator']})"),
        ("sizes", sizes_in_words(result)),
        *fit_facts(result),
        *kind.training_facts(result),
        *result.get("files", {}).items(),
    ]
    if "validation_scores" in result:
        scores = [score for _, score in result["validation_scores"]]
        facts.append(("best validation score", f"{max(scores):.4f} of {len(scores)} evaluations"))
    if "calibrated_temperature" in result:
        facts.append(("calibration", f"temperature {result['calibrated_temperature']:.4g}"))
    if "valid" in result:
        facts += [(f"valid {name}", text) for name, text in kind.summarize(result["valid"])]
    if "report" in result:
        facts.append(("report", result["report"]))
    print_facts(facts)
