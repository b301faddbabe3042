"""Start-up: CPU of importing the library, and of the command's help, against scikit-learn's import."""

import resource
import subprocess
import sys

from benchmarks.common import Line

PEER = "import sklearn.svm"


def measure(code: str, repeats: int) -> float:
    """Return the least CPU time of processes that run some code, files being in the cache of the system."""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    times = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def run(quick: bool = False) -> list[Line]:
    repeats = 2 if quick else 5
    peer = measure(PEER, repeats)
    names = "from latentstruct import *"
    help_text = "import sys; sys.argv = ['latentstruct', '--help']; from latentstruct.cli import main; main()"
    lines = []
    for what, code, limit in (
        ("import latentstruct", "import latentstruct", 0.2),
        ("import of all public names", names, 2.0),
        ("latentstruct --help", help_text, 0.7),
    ):
        seconds = measure(code, repeats)
        lines.append(Line(what, seconds, peer, PEER, limit, f"{seconds:.2f} s of CPU, warm"))
    return lines
