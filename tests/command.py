"""The command as tests run it: within the process, or as a child that can be interrupted."""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from typer.testing import CliRunner

from latentstruct.cli import app
from latentstruct.progress.display import Progress

# A child of a shell's background job would ignore Ctrl-C, as such jobs do. Remarks would depend on the machine's speed.
COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from latentstruct.progress import heartbeat; heartbeat.SILENCE = 1e6; from latentstruct.cli import main; main()"
)
# Seconds after which a child is taken to hang, however slow the machine is.
HANGS = 600


def run(*args, code=0, stdin=None):
    result = CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result


def fail(*args, stdin=None):
    """Return the one line of an error."""
    result = run(*args, code=2, stdin=stdin)
    lines = result.stderr.splitlines()
    assert lines[-1].startswith("error: ")
    assert not any(line.startswith("error") for line in lines[:-1])
    return lines[-1]


@contextmanager
def default_interrupts():
    """Take Ctrl-C as a command in the foreground does, and check that it is taken so again afterwards."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def run_interrupted(*args, at):
    """Run the command in this process, with Ctrl-C when `at` is true of an iteration."""
    take = Progress.__call__

    def take_and_interrupt(self, line):
        take(self, line)
        if at(line):
            os.kill(os.getpid(), signal.SIGINT)

    with default_interrupts(), patch.object(Progress, "__call__", take_and_interrupt):
        return run(*args, code=128 + signal.SIGINT)


def start(*args, **streams):
    return subprocess.Popen([sys.executable, "-c", COMMAND, *map(str, args)], **streams)


def interrupt(process, when):
    """Send Ctrl-C once a line of progress starts with `when`; return what was shown."""
    shown = io.StringIO()
    for line in process.stderr:
        shown.write(line)
        if line.startswith(when):
            process.send_signal(signal.SIGINT)
            break
    out, rest = process.communicate(timeout=HANGS)
    return out, shown.getvalue() + rest


def watch(*args):
    """Run the command with standard error on a terminal; return standard output and what the terminal got."""
    terminal, child = os.openpty()
    with open(terminal, "rb", buffering=0) as screen:
        env = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
        process = start(*args, stderr=child, stdout=subprocess.PIPE, env=env)
        os.close(child)
        shown = b""
        try:
            while part := screen.read(4096):
                shown += part
        except OSError:
            pass  # the terminal is gone when its last writer has ended
        out, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 0
    return out, shown.decode()


def run_session(text):
    """Run the lines that begin with $; what follows one must be among the lines it prints, figures aside."""
    printed = set()
    for line in text.splitlines():
        if line.startswith("$ "):
            printed = {without_figures(shown) for shown in run_line(line.removeprefix("$ ")).splitlines()}
        else:
            assert without_figures(line) in printed, line


def without_figures(line):
    return " ".join(re.sub(r"\d+(\.\d+)?(e-\d+)?", "#", line).split())


def run_line(line):
    """Run commands joined by | as a shell would, the last one's output perhaps going to a file, and return it."""
    line, _, target = line.partition(" > ")
    passed = None
    for part in line.split(" | "):
        command, *arguments = shlex.split(part)
        assert command == "latentstruct", line
        result = CliRunner().invoke(app, arguments, input=passed)
        assert result.exit_code == 0, (line, result.output, result.exception)
        passed = result.stdout_bytes
    if target:
        Path(target.strip()).write_bytes(passed)
        return ""
    return passed.decode()


def weights_file(folder):
    """Return the one file of weights of a model folder."""
    (found,) = Path(folder).glob("weights*.safetensors")
    return found
