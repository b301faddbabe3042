"""Early stopping on validation data: which weights are kept, when training stops, and what is refused."""

import itertools
import json
import math
import warnings

import numpy as np
import pytest

import latentstruct
from command import fail, run, run_interrupted
from error_fields import raises
from latentstruct import (
    CCCP,
    CRF,
    LBFGS,
    BlockAscent,
    Bundle,
    Chain,
    ConvergenceWarning,
    CuttingPlane,
    EarlyStopping,
    FrankWolfe,
    HingeSolver,
    LatentMulticlass,
    LatentSSVM,
    Measure,
    ModLat,
    Multiclass,
    SelfPaced,
    StructuralSVM,
    StructuredPerceptron,
    Temperature,
    build_objective,
)
from latentstruct.cli.registry import KINDS
from latentstruct.viz.report.words import training_in_words

rng = np.random.default_rng(0)
Y = rng.integers(0, 3, 90)
X = rng.normal(size=(90, 6)) + 0.7 * np.eye(3)[Y].repeat(2, axis=1)
LABELS = rng.integers(0, 2, 40)
STATES = rng.normal(size=(40, 4, 3))
STATES[np.arange(40), rng.integers(0, 4, 40)] += 1.5 * (2 * LABELS[:, None] - 1)


class Peaked:
    """A validation score that rises to evaluation `peak`, counted from 1, and then falls; it notes the weights."""

    def __init__(self, peak):
        self.peak = peak
        self.weights = []

    def __call__(self, model):
        self.weights.append(model.coef_.copy())
        return -abs(len(self.weights) - self.peak)


SOLVERS = {
    "lbfgs": (CRF, LBFGS(tol=1e-12)),
    "block_ascent": (StructuralSVM, BlockAscent(tol=1e-12)),
    "hinge": (StructuralSVM, HingeSolver(tol=1e-12)),
    "handover": (StructuralSVM, HingeSolver(tol=1e-12, patience=1, hopeless=0.0)),
    "bundle": (StructuralSVM, Bundle(tol=1e-12)),
    "cutting_plane": (StructuralSVM, CuttingPlane(tol=1e-12)),
    "frank_wolfe": (StructuralSVM, FrankWolfe(tol=1e-12, certify_every=1)),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_the_best_validation_weights_are_kept(name):
    estimator, solver = SOLVERS[name]
    score = Peaked(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = estimator(Multiclass(), C=5.0, solver=solver)
        model.fit(X, Y, early_stopping=EarlyStopping(score, patience=2))
    assert model.stop_reason_ == "early_stopping"
    assert len(score.weights) == 4
    assert np.array_equal(model.coef_, score.weights[1])
    assert not np.array_equal(model.coef_, score.weights[-1])
    assert [value for _, value in model.validation_scores_] == [-1, 0, -1, -2]
    numbers = [number for number, _ in model.validation_scores_]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == model.n_iter_
    assert model.gap_ == model.objective_ - model.lower_bound_ >= 0
    # The objective is that of the weights kept, not of the last ones.
    batch = model.task_.prepare(X, Y)
    objective = build_objective(
        model.task_, batch, np.full(len(Y), 5.0), Temperature(float(estimator is CRF)), margin=estimator is not CRF
    )
    assert model.objective_ == pytest.approx(objective.value(model.coef_), rel=1e-9)
    assert model.objective_ > model.history_[-1].objective >= model.lower_bound_


def test_every_and_min_delta():
    score = Peaked(100)
    stop = EarlyStopping(score, patience=3, every=2)
    model = CRF(Multiclass(), C=5.0, max_iter=9, tol=1e-15)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, Y, early_stopping=stop)
    # The weights reached last are evaluated too.
    assert [number for number, _ in model.validation_scores_] == [2, 4, 6, 8, 9]
    # Each score is better by 1, which is too little.
    model = CRF(Multiclass(), C=5.0, tol=1e-15)
    model.fit(X, Y, early_stopping=EarlyStopping(Peaked(100), patience=3, min_delta=1.0))
    assert model.stop_reason_ == "early_stopping"
    assert len(model.validation_scores_) == 4
    # What is kept is the best one nevertheless.
    assert model.validation_scores_[-1][1] == max(score for _, score in model.validation_scores_)
    assert model.objective_ == model.history_[-1].objective


def test_of_equal_scores_the_lowest_objective_is_kept():
    model = CRF(Multiclass(), C=5.0, tol=1e-15).fit(X, Y, early_stopping=EarlyStopping(lambda model: 1.0, patience=3))
    assert len(model.validation_scores_) == 4
    assert model.objective_ == model.history_[-1].objective


def test_without_a_stop_the_best_weights_are_kept_too():
    score = Peaked(2)
    model = CRF(Multiclass(), C=5.0).fit(X, Y, early_stopping=EarlyStopping(score, patience=10_000))
    assert model.stop_reason_ == "converged"
    assert np.array_equal(model.coef_, score.weights[1])
    assert CRF(Multiclass(), C=5.0).fit(X, Y).validation_scores_ == []


@pytest.mark.parametrize(
    "solver", [CCCP(tol=1e-12), SelfPaced(tol=1e-12), LBFGS(tol=1e-12)], ids=lambda s: type(s).__name__
)
def test_latent_variables(solver):
    score = Peaked(1)
    model = LatentSSVM(LatentMulticlass(), C=1.0, solver=solver)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(STATES, LABELS, early_stopping=EarlyStopping(score, patience=1))
    assert np.array_equal(model.coef_, score.weights[0])
    assert len(score.weights) == 2
    assert model.stop_reason_ == "early_stopping"
    assert model.gap_ == model.objective_ - model.lower_bound_ >= 0


def test_cccp_is_evaluated_after_outer_iterations():
    score = Peaked(100)
    model = LatentSSVM(LatentMulticlass(), C=1.0)
    model.fit(STATES, LABELS, early_stopping=EarlyStopping(score, patience=100))
    outer = {line.iteration for line in model.history_}
    assert {number for number, _ in model.validation_scores_} <= outer


def test_each_start_has_its_own_patience():
    starts = []

    def note(line):
        if line.validation_score is not None:
            starts.append(line.start)

    falling = itertools.count(0, -1)
    model = LatentSSVM(LatentMulticlass(), C=1.0, restarts=3, tol=1e-9, init="random")
    stop = EarlyStopping(lambda model: next(falling), patience=1)
    model.fit(STATES, LABELS, early_stopping=stop, callback=note)
    assert set(starts) == {0, 1, 2}
    assert len(model.restart_objectives_) == 3
    assert max(starts.count(start) for start in range(3)) <= 2


def test_a_perceptron_and_a_task_that_settles():
    model = StructuredPerceptron(Multiclass(), max_iter=20).fit(X, Y, early_stopping=EarlyStopping(Peaked(3), 2))
    assert (model.stop_reason_, model.n_iter_) in {("early_stopping", 5), ("converged", model.n_iter_)}
    two = Y > 0
    seen = []
    stop = EarlyStopping(lambda model: seen.append(model.score(X, two)) or seen[-1], patience=2)
    model = StructuralSVM(Measure("f1"), C=20.0).fit(X, two, early_stopping=stop)
    assert model.score(X, two) == max(seen)


def test_callbacks_see_scores_and_can_stop():
    lines = []
    model = CRF(Multiclass(), C=5.0, tol=1e-15)
    stop = EarlyStopping(Peaked(100))
    model.fit(X, Y, early_stopping=stop, callback=lambda line: lines.append(line) or line.iteration == 3)
    assert model.stop_reason_ == "callback"
    assert [(line.iteration, line.validation_score) for line in lines] == model.validation_scores_
    assert all(line.w is None for line in [*lines, *model.history_])


def test_rounds_give_the_best_weights_to_callbacks():
    found = []
    model = CRF(Multiclass(), C=5.0).fit(X, Y, callback=lambda line: found.append((line.objective, line.w)))
    best = min(found, key=lambda one: one[0])[1]
    assert np.array_equal(best, model.coef_)


def test_verbose_shows_the_score(capsys):
    CRF(Multiclass(), C=5.0, verbose=True).fit(X, Y, early_stopping=EarlyStopping(lambda model: 0.25, patience=2))
    assert "validation score 0.2500" in capsys.readouterr().out


@pytest.mark.parametrize("estimator", [CRF, StructuralSVM])
def test_threads_change_no_weight(estimator):
    half = len(X) // 2

    def fitted(n_jobs):
        stop = EarlyStopping(lambda model: model.score(X[half:], Y[half:]), patience=2)
        return estimator(Multiclass(), C=5.0, tol=1e-9, n_jobs=n_jobs).fit(X[:half], Y[:half], early_stopping=stop)

    one, two = fitted(1), fitted(2)
    assert np.array_equal(one.coef_, two.coef_)
    assert one.validation_scores_ == two.validation_scores_


@pytest.mark.parametrize("at", [1, 3])
def test_interrupts_during_an_evaluation(at):
    calls = itertools.count(1)
    weights = []

    def score(model):
        if next(calls) == at:
            raise KeyboardInterrupt
        weights.append(model.coef_.copy())
        return -len(weights)

    model = CRF(Multiclass(), C=5.0, tol=1e-15)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, Y, early_stopping=EarlyStopping(score))
    assert model.stop_reason_ == "interrupted"
    assert len(model.validation_scores_) == at - 1
    if weights:
        assert np.array_equal(model.coef_, weights[0])
    assert model.predict(X).shape == Y.shape


def test_an_interrupt_of_the_last_evaluation_keeps_the_model():
    def score(model):
        raise KeyboardInterrupt

    model = CRF(Multiclass(), C=5.0)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, Y, early_stopping=EarlyStopping(score, every=10_000))
    assert model.stop_reason_ == "interrupted"
    assert model.relative_gap_ <= 1e-3


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("score", 3), ("patience", 0), ("patience", True), ("every", 0.5), ("min_delta", -1), ("min_delta", math.nan)],
)
def test_settings_that_make_no_sense(parameter, value):
    with raises(parameter, got=repr(value)):
        EarlyStopping(**{"score": len, parameter: value})


class OwnSolver:
    needs = frozenset()
    tol = 1.0

    def set_params(self, **params):
        return self

    def get_params(self, deep=True):
        return {}

    def minimize(self, objective, w0=None, *, state=None, callback=None, checkpointer=None):
        raise AssertionError("is not reached")


def test_what_is_refused(tmp_path):
    stop = EarlyStopping(lambda model: 1.0)
    with raises("early_stopping", got=5):
        CRF(Multiclass()).fit(X, Y, early_stopping=5)
    with raises("checkpoint", expected="None with `early_stopping`"):
        CRF(Multiclass()).fit(X, Y, early_stopping=stop, checkpoint=tmp_path / "run.ckpt")
    assert not list(tmp_path.iterdir())
    with raises("early_stopping", expected="BaseSolver"):
        CRF(Multiclass(), solver=OwnSolver()).fit(X, Y, early_stopping=stop)
    with pytest.raises(TypeError, match="early_stopping"):
        ModLat(LatentMulticlass(latent_loss="zero_one")).fit(STATES, LABELS, early_stopping=stop)


@pytest.mark.parametrize("value", [math.nan, None, "high"])
def test_scores_that_are_no_numbers(value):
    with raises("EarlyStopping.score", got=repr(value), expected="a finite number"):
        CRF(Multiclass()).fit(X, Y, early_stopping=EarlyStopping(lambda model: value))


# --- the command ---


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return files of sentences to train on and to validate with: words that are only partly a sign of their tag."""
    folder = tmp_path_factory.mktemp("early")
    made = np.random.default_rng(1)
    for name, n_sentences in {"train.txt": 60, "dev.txt": 30}.items():
        lines = []
        for _ in range(n_sentences):
            for tag in made.choice(["O", "B-X", "I-X"], size=8):
                word = tag if made.random() < 0.6 else made.choice(["O", "B-X", "I-X"])
                lines.append(f"{word.lower()}{made.integers(40)} {tag}\n")
            lines.append("\n")
        (folder / name).write_text("".join(lines))
    return folder / "train.txt", folder / "dev.txt"


@pytest.mark.parametrize("model", ["crf", "svm", "perceptron"])
def test_a_chain_by_the_command(files, tmp_path, model):
    train, dev = files
    limits = [] if model == "perceptron" else ["-C", "10", "--tol", "1e-9"]
    command = ["train", "chain", train, "--valid", dev, "--model", model, *limits]
    stopping = ["--early-stopping", "--patience", "2"]
    reported = run(*command, *stopping, "-o", tmp_path / "model", "--json")
    result = json.loads(reported.stdout)
    scores = [score for _, score in result["validation_scores"]]
    assert result["valid"]["chunks"]["f1"] == max(scores)
    assert "validation score" in reported.stderr
    if result["stop_reason"] == "early_stopping":
        assert len(scores) - 1 - max(k for k, score in enumerate(scores) if score > max(scores[:k], default=-1)) == 2
    assert latentstruct.load(tmp_path / "model").model_.stop_reason_ == result["stop_reason"]
    shown = run(*command, *stopping, "-o", tmp_path / "again", "-q", "--jobs", "1").stdout
    assert "best validation score" in shown
    weights = [latentstruct.load(tmp_path / name).model_.coef_ for name in ("model", "again")]
    assert np.array_equal(*weights)
    plain = json.loads(run(*command, "-o", tmp_path / "plain", "-q", "--json", "--max-iter", "3").stdout)
    assert "validation_scores" not in plain


def test_a_report_of_a_training_that_stopped_early(files, tmp_path):
    model = CRF(Chain(), C=1.0, tol=1e-15)
    sentences, labels = [np.eye(3)[[0, 1, 2]], np.eye(3)[[2, 1]]], [[0, 1, 2], [2, 1]]
    model.fit(sentences, labels, early_stopping=EarlyStopping(Peaked(1), patience=1))
    assert "validation score no longer improved" in training_in_words(model)[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--early-stopping"], "--valid must be given with --early-stopping"),
        (["--patience", "3"], "--early-stopping must be given with --patience"),
        (["--early-stopping", "--valid", "dev.txt", "--patience", "0"], "--patience must be an integer of at"),
        (
            ["--early-stopping", "--valid", "dev.txt", "--checkpoint", "x"],
            "--checkpoint must be left out with --early-stopping",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(files, tmp_path, options, message):
    # Options are checked before anything is read.
    assert message in fail("train", "chain", tmp_path / "missing.txt", "-o", tmp_path / "model", "-q", *options)
    assert not (tmp_path / "model").exists()


def test_an_interrupted_command_saves_the_best_weights(files, tmp_path):
    train, dev = files
    command = ["train", "chain", train, "--valid", dev, "--model", "crf", "-C", "10", "--tol", "1e-9"]
    run_interrupted(*command, "--early-stopping", "-o", tmp_path / "model", at=lambda line: line.iteration == 2)
    assert latentstruct.load(tmp_path / "model").model_.stop_reason_ == "interrupted"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_has_a_score_to_stop_by(kind, tmp_path):
    data = tmp_path / kind.example_file
    run("example", kind.name, "-o", data)
    command = ["train", kind.name, data, "--valid", data, "--early-stopping", "-o", tmp_path / "model", "-q", "--json"]
    if kind.name == "detect":
        # The default there improves weights and a distribution over boxes in turn.
        assert "--early-stopping must be left out for ModLat" in fail(*command)
        command += ["--model", "latent"]
    result = json.loads(run(*command, "--max-iter", "2").stdout)
    scores = [score for _, score in result["validation_scores"]]
    assert scores
    assert all(0 <= score <= 1 for score in scores)
    assert kind.main_score(read_keys(result["valid"])) == max(scores)


def read_keys(scores):
    """Return scores whose keys are numbers again, as they were before they were JSON."""
    if not isinstance(scores, dict):
        return scores
    return {int(key) if key.isdigit() else key: read_keys(value) for key, value in scores.items()}
