"""Cross-validation of a kind of model: out-of-fold scores and predictions, and the choice of C."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.cli.common import is_prepared, write_lines
from latentstruct.cli.kind import KindSpec, Loaded, Trained
from latentstruct.cli.options import TrainOptions
from latentstruct.core.formatting import counted
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.progress.display import Progress, plain

if TYPE_CHECKING:
    from latentstruct.estimators import AutoC, FoldScores

USUAL_FOLDS = 5


@dataclass
class CrossValidation:
    """The folds of the training data of a kind."""

    kind: KindSpec
    options: TrainOptions
    loaded: Loaded
    model: Trained
    progress: Progress

    def __post_init__(self) -> None:
        if self.loaded.shown is None or is_prepared(self.options.data or ""):
            parameter = "C" if self.options.folds is None else "folds"
            raise InputError(parameter, getattr(self.options, parameter), "left out if `data` is prepared")
        self.n_examples = len(self.loaded.Y)
        origins = self.loaded.origins
        self.origins = np.arange(self.n_examples) if origins is None else np.array(origins)
        self.groups = None if origins is None else self.origins
        if self.options.groups is not None:
            self.groups = self._read_groups(self.options.groups)
        elif self.loaded.groups is not None:
            shared = np.unique(np.array(self.loaded.groups, dtype=object).astype(str), return_inverse=True)[1]
            if len(shared) > int(shared.max()) + 1:
                self.groups = shared[self.origins]
                what, of_all = self.kind.group, counted(int(shared.max()) + 1, self.kind.group)
                self.progress.say(f"examples of one {what} stay in one fold: {len(shared)} in {of_all}")

    def _read_groups(self, name: str) -> Any:
        from latentstruct.io.text import Source

        source, n_expected = Source.open(name), int(self.origins.max()) + 1
        lines = list(source.texts())
        if len(lines) != n_expected:
            found = Description(counted(len(lines), "line"))
            raise FormatError(source.name, found, f"{counted(n_expected, 'line')}, one per example")
        return np.array(lines, dtype=object)[self.origins]

    def scores(self, estimator: Any, rows: Any) -> dict[str, Any]:
        """Return the quality of a model on some of the examples."""
        places = np.unique(self.origins[rows]).tolist()
        model, chosen = replace(self.model, estimator=estimator), self.kind.choose(self.loaded.shown, places)
        with self.kind.naming(self.options.source, places):
            return self.kind.score(model, chosen)

    def choose_setting(self, rows: Any = None) -> "FoldScores":
        """Return the scores of all values of the option that is auto, and of the baseline, on some or all examples."""
        from latentstruct.core.parameters import clone
        from latentstruct.estimators.folds import FoldScores, score_on_folds

        settings = self.loaded.settings
        assert settings is not None
        rows = np.arange(self.n_examples) if rows is None else rows

        def score(estimator: Any, train: Any, test: Any) -> float:
            fitted = self._fit(estimator, rows[train])
            return self.kind.main_score(self.scores(fitted, rows[test]))

        candidates = [settings.choose(clone(self.loaded.estimator), value) for value in settings.values]
        found = score_on_folds([*candidates, settings.baseline], self.assign(rows), score, 1, self.progress.say)
        names, cautious = list(settings.values), self.options.one_standard_error
        return FoldScores(settings.option, names, found[:-1], cautious, found[-1])

    def choose_C(self, checkpoint: Any = None, rows: Any = None, estimator: Any = None) -> "FoldScores":
        """Return the scores of all values of C by the main score of the kind, on some or all examples."""
        from latentstruct.estimators.base import FitInputs

        rows = np.arange(self.n_examples) if rows is None else rows
        X, Y, further = self._part(rows)
        given = FitInputs(X, Y, further.get("sample_weight"), checkpoint=checkpoint, init=further.get("init"))

        def score(model: Any, test: Any) -> float:
            return self.kind.main_score(self.scores(model, rows[test]))

        groups = None if self.groups is None else self.groups[rows]
        say = self.progress.say
        estimator = self.loaded.estimator if estimator is None else estimator
        return self._auto().choose(estimator, given._replace(groups=groups), score, say)

    def _auto(self) -> "AutoC":
        from latentstruct import AutoC

        options = self.options
        return AutoC(
            n_folds=options.folds or USUAL_FOLDS,
            one_standard_error=options.one_standard_error,
            random_state=options.seed,
        )

    def _part(self, rows: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Return some examples, their outputs and further arguments of fit; initial weights are those of all data."""
        from latentstruct.estimators.folds import take

        further = {name: value for name, value in self.loaded.fit_params.items() if name != "coef_init"}
        chosen = {name: value if name == "init" else take(value, rows) for name, value in further.items()}
        return take(self.loaded.X, rows), take(self.loaded.Y, rows), chosen

    @property
    def classes(self) -> Any:
        """The class of each example, None if the outputs are no classes."""
        return self.loaded.Y if self.loaded.estimator.task.tags.classifier else None

    def assign(self, rows: Any = None) -> Any:
        """Return the fold of each example, or of some of them."""
        from latentstruct import assign_folds
        from latentstruct.estimators.folds import take

        rows = np.arange(self.n_examples) if rows is None else rows
        n_folds, seed = self.options.folds or USUAL_FOLDS, self.options.seed
        groups = None if self.groups is None else self.groups[rows]
        return assign_folds(len(rows), n_folds, labels=take(self.classes, rows), groups=groups, random_state=seed)

    def fit(self, rows: Any) -> Any:
        """Return a model of some of the examples; what is auto is chosen from these alone."""
        from latentstruct.core.parameters import clone

        estimator = self.loaded.estimator
        if self.loaded.settings is not None:
            estimator = self.loaded.settings.choose(clone(estimator), self.choose_setting(rows).value)
        return self._fit(estimator, rows)

    def _fit(self, estimator: Any, rows: Any) -> Any:
        """Return an estimator trained on some of the examples; C is chosen from these alone, if it is auto."""
        from latentstruct.core.parameters import clone

        model = clone(estimator)
        if self.options.chooses_C:
            model.set_params(C=self.choose_C(rows=rows, estimator=estimator).value)
        X, Y, further = self._part(rows)
        with self.kind.naming(self.options.source, self.origins[rows]):
            return model.fit(X, Y, **further)

    def figures(self, estimator: Any, rows: Any) -> dict[str, float]:
        """Return the main score of a model on some of the examples, as "score", and its figures."""
        scores = self.scores(estimator, rows)
        figures = {name: value for name, value in self.kind.figures(scores).items() if value is not None}
        return {"score": self.kind.main_score(scores), **figures}

    def out_of_fold(self) -> dict[str, Any]:
        """Return mean and standard error of the figures over the folds; write the predictions if wanted."""
        folds = self.assign()
        n_folds = int(folds.max()) + 1
        found: list[dict[str, float]] = []
        lines: dict[int, str] = {}
        for k in range(n_folds):
            train, test = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
            model = self.fit(train)
            found.append(self.figures(model, test))
            self.progress.say(f"fold {k + 1} of {n_folds}: score {found[-1]['score']:.4f}")
            if self.options.fold_predictions is not None:
                X, Y, _ = self._part(test)
                for i, true, guess in zip(test.tolist(), Y, model.predict(X), strict=True):
                    known = {"example": i, "fold": k, "true": plain(true), "predicted": plain(guess)}
                    lines[i] = json.dumps(known, ensure_ascii=False)
        if self.options.fold_predictions is not None:
            write_lines(self.options.fold_predictions, [lines[i] for i in range(self.n_examples)])
        return summarize_folds(found)


def summarize_folds(found: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return mean and standard error of the figures that all folds have."""
    names = [name for name in found[0] if all(name in one for one in found)]
    return {name: mean_and_error([one[name] for one in found]) for name in names}


def mean_and_error(values: Sequence[float]) -> dict[str, Any]:
    """Return the mean of the values of all folds and its standard error."""
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return {"mean": float(np.mean(values)), "standard_error": error, "folds": list(values)}
