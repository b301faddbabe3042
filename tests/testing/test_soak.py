"""The soak target: its cases are made from seeds alone, and it finds what it looks for."""

import numpy as np
import pytest
from soak import __main__ as command
from soak import cases
from soak.cases import Outcome, draw_case, run_case
from soak.checks import same
from soak.problems import KINDS, draw_problem
from soak.trainings import draw_training
from soak.workers import Worker


def test_every_kind_of_problem_is_drawn_and_can_be_repeated():
    names = set()
    for seed in range(150):
        first, second = (draw_problem(np.random.default_rng(seed)) for _ in range(2))
        assert repr(first.task) == repr(second.task)
        assert same(list(first.Y), list(second.Y))
        names.add(first.name)
    assert names == set(KINDS)


@pytest.mark.parametrize(
    ("task", "fault"),
    [("LatentMulticlass", "Ctrl-C at any time"), ("Options", "oracle raises"), ("Multiclass", "cut and resumed")],
)
# The interrupt may come while a library runs a callback of the garbage collector, where it is only reported.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_cases_pass(task, fault):
    for seed in range(5000):
        names = draw_case(seed)[3].names
        if (names["task"], names["fault"]) == (task, fault):
            break
    outcome = run_case(seed)
    assert outcome.names == names
    assert (outcome.end, outcome.message) == ("passed", "")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_passes(kind):
    seeds = (seed for seed in range(5000) if draw_case(seed)[3].names["task"] == kind)
    # Some drawn data are refused, such as motifs without negative sequences.
    outcome = next(outcome for outcome in map(run_case, seeds) if outcome.end != "refused")
    assert (outcome.end, outcome.message) == ("passed", "")


def test_a_broken_invariant_is_found(monkeypatch, capsys):
    seed = next(s for s in range(500) if is_plain(s))
    save = cases.check_saved
    monkeypatch.setattr(cases, "check_saved", lambda problem, model, folder: save(problem, forgetful(model), folder))
    assert command.main(["--seed", str(seed)]) == 1
    assert "weights change when a model is saved and loaded" in capsys.readouterr().out


def is_plain(seed):
    """Return whether a case trains a small task without a fault."""
    _, problem, _, case = draw_case(seed)
    return problem.name == "Multiclass" and case.names["fault"] == "few iterations" and not problem.twists


def forgetful(model):
    """Return a model that forgets what it was saved with."""
    save = model.save

    def forget(path):
        save(path)
        model.coef_ = model.coef_ + 1.0

    model.save = forget
    return model


def test_a_process_that_dies_is_told():
    worker = Worker()
    worker.process.kill()
    worker.process.join()
    assert "died with exit code" in worker.run(0, 20.0)


def test_counts_are_told(capsys):
    names = {"task": "Chain", "estimator": "CRF", "solver": "auto", "fault": "none"}
    outcomes = [Outcome(k, names, "", end, "why") for k, end in enumerate(("passed", "passed", "failed", "refused"))]
    command.show_counts(outcomes)
    shown = capsys.readouterr().out
    assert [line.split()[-3:] for line in shown.splitlines() if line.startswith("  Chain")] == [["2", "1", "1"]]
    assert "why" in shown


def test_losses_of_latents_are_drawn_for_those_who_need_them():
    found = {draw_training(rng, draw_problem(rng)).estimator for rng in map(np.random.default_rng, range(300))}
    assert {"ModLat", "IterativeLSVM", "LatentSSVM", "MarginalSSVM", "HiddenCRF", "CRF", "StructuralSVM"} <= found
