"""Start-up: CPU of imports, help, a first prediction and a first training, against scikit-learn's import."""

import resource
import subprocess
import sys
import tempfile

from benchmarks.common import Line

PEER = "import sklearn.svm"
FIT = """
import numpy as np, latentstruct as ls
X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
X[np.arange(60), y] += 2.0
model = ls.StructuralSVM(ls.Multiclass()).fit(X, y)
"""


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
    help_text = "import sys; sys.argv = ['latentstruct', '--help']; from latentstruct.cli import main; main()"
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", f"{FIT}\nmodel.save({folder!r})"], check=True)
        prediction = f"import numpy, latentstruct; latentstruct.load({folder!r}).predict(numpy.zeros((2, 4)))"
        for what, code, limit in (
            ("import latentstruct", "import latentstruct", 0.1),
            ("import of all public names", "from latentstruct import *", 0.7),
            ("latentstruct --help", help_text, 0.3),
            ("load a model and predict", prediction, 0.5),
            ("first training, 60 examples of 3 classes", FIT, 0.7),
        ):
            seconds = measure(code, repeats)
            lines.append(Line(what, seconds, peer, PEER, limit, f"{seconds:.2f} s of CPU, warm"))
    return lines
