"""Settings of all tests."""

import signal

import pytest
from hypothesis import settings

from latentstruct.core import oracles
from latentstruct.parallel import threads as executors
from latentstruct.progress import heartbeat
from latentstruct.viz.report import pictures

# No test may depend on how busy the machine is: neither on the time of an example nor on remarks about slow commands.
settings.register_profile("untimed", deadline=None, max_examples=50)
settings.load_profile("untimed")
heartbeat.SILENCE = 1e6
# Shells ignore Ctrl-C in commands that they start in the background, where tests of it would wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Plots for narrow screens take as long as the others: only tests of them draw both.
pictures.NARROW_WIDTH = 100.0


@pytest.fixture
def many_pieces(monkeypatch):
    """Cut even the smallest batches."""
    monkeypatch.setattr(executors, "STEPS_OF_PIECE", 1.0)
    monkeypatch.setattr(oracles, "WORTH", 0.0)
