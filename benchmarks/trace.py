"""Functions and files of the library that a fit goes through, and the depth of their calls.

``python -m benchmarks.trace [--list]`` fits a latent SVM to 60 planted sequences. Functions are counted once each,
however often they are called, without comprehensions; the depth is the largest number that are active at once.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import latentstruct
from latentstruct import LatentSSVM, Motif
from latentstruct.datasets import make_planted_motif

FOLDER = str(Path(latentstruct.__file__).parent)
# Later versions of Python run most of these as part of the function around them.
INLINE = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")


class Trace:
    """A profile function that collects the functions of the library."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.depth = self._active = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(FOLDER) or code.co_name in INLINE:
            return
        if event == "call":
            self.calls[code] += 1
            self._active += 1
            self.depth = max(self.depth, self._active)
        elif event == "return":
            self._active -= 1


def traced() -> Trace:
    """Return the trace of the second of two equal fits; the first one imports modules."""
    data = make_planted_motif(30, 30, random_state=0)
    LatentSSVM(Motif(8), C=0.1).fit(data.X, data.Y)
    trace = Trace()
    sys.setprofile(trace)
    try:
        LatentSSVM(Motif(8), C=0.1).fit(data.X, data.Y)
    finally:
        sys.setprofile(None)
    return trace


def main() -> None:
    """Print the counts, and with `--list` all functions by file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="all functions, with the numbers of their calls")
    listed, trace = parser.parse_args().list, traced()
    files = {code.co_filename for code in trace.calls}
    print(f"{len(trace.calls)} functions in {len(files)} files, depth {trace.depth}")
    for name in sorted(files) if listed else ():
        inside = sorted((c for c in trace.calls if c.co_filename == name), key=lambda code: code.co_firstlineno)
        print(f"\n{Path(name).relative_to(FOLDER)}  {len(inside)}")
        for code in inside:
            print(f"  {code.co_firstlineno:4} {code.co_qualname} × {trace.calls[code]}")


if __name__ == "__main__":
    main()
