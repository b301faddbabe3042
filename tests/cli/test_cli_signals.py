"""Ctrl-C and SIGTERM: the best model so far is saved, evaluated and reported."""

import json
import os
import signal

import pytest

from command import run
from latentstruct import load
from latentstruct.cli import interrupts
from latentstruct.solvers.base import Monitor

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def default_signals():
    """Handle signals as a command in the foreground does, and check that nothing is left changed."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    for number, handler in defaults.items():
        signal.signal(number, handler)
    try:
        yield
        assert {number: signal.getsignal(number) for number in SIGNALS} == defaults
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.fixture
def chains(tmp_path):
    path = tmp_path / "chains.txt"
    path.write_text("the D\ndog N\nbarks V\n\na D\ncat N\n\nthe N\ndog V\nbarks D\n\n" * 3)
    return path


def signalled(number, monkeypatch, n_iter=2):
    """Send a signal to this process when the second iteration of a training is closed."""
    close = Monitor.close_iteration

    def close_iteration(self, *args):
        ended = close(self, *args)
        if len(self.history) == n_iter:
            os.kill(os.getpid(), number)
        return ended

    monkeypatch.setattr(Monitor, "close_iteration", close_iteration)


@pytest.mark.parametrize("number", SIGNALS)
def test_what_follows_training_is_done_after_a_signal(number, chains, tmp_path, monkeypatch):
    signalled(number, monkeypatch)
    out, page = tmp_path / "model", tmp_path / "page.html"
    options = ("--model", "svm", "--tol", "1e-12", "--valid", chains, "--report", page, "--json")
    result = run("train", "chain", chains, "-o", out, *options, code=128 + number)
    assert f"interrupted: saving the best weights so far to {out}" in result.stderr
    reported = json.loads(result.stdout)
    assert reported["stop_reason"] == load(out).model_.stop_reason_ == "interrupted"
    assert 0.0 <= reported["valid"]["accuracy"] <= 1.0
    assert "<html" in page.read_text()


def test_signals_while_saving_are_no_interruption(chains, tmp_path, monkeypatch):
    from latentstruct.persistence import models as persistence

    save = persistence.save_model

    def interrupted_save(*args):
        for number in SIGNALS:
            os.kill(os.getpid(), number)
        save(*args)

    monkeypatch.setattr(persistence, "save_model", interrupted_save)
    run("train", "chain", chains, "-o", tmp_path / "model", "--quiet")
    assert load(tmp_path / "model").model_.stop_reason_ == "converged"


def test_a_second_signal_ends_the_evaluation(chains, tmp_path, monkeypatch):
    from latentstruct.cli.kinds.chain.command import ChainKind

    signalled(signal.SIGINT, monkeypatch)
    monkeypatch.setattr(ChainKind, "score", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    options = ("--model", "svm", "--tol", "1e-12", "--valid", chains, "--quiet")
    result = run("train", "chain", chains, "-o", tmp_path / "model", *options, code=128 + signal.SIGTERM)
    assert f"interrupted: the model is saved in {tmp_path / 'model'}, but it was not evaluated" in result.stderr
    assert load(tmp_path / "model").model_.stop_reason_ == "interrupted"


@pytest.mark.parametrize("number", SIGNALS)
def test_ignored_signals_stay_ignored(number):
    signal.signal(number, signal.SIG_IGN)
    try:
        with interrupts.on_interrupt(interrupts.interrupt):
            assert signal.getsignal(number) is signal.SIG_IGN
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
