"""Processes that run cases."""

import multiprocessing
from multiprocessing.connection import Connection

from soak.cases import Outcome, run_case


def work(pipe: Connection) -> None:
    """Answer seeds with outcomes until the pipe closes."""
    while True:
        try:
            seed = pipe.recv()
        except EOFError:
            return
        pipe.send(run_case(seed))


class Worker:
    """A process for cases, so that one that hangs or crashes ends alone."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def run(self, seed: int, limit: float) -> Outcome | str:
        """Return the outcome of a case, or in words how the process failed."""
        try:
            self.pipe.send(seed)
            if not self.pipe.poll(limit):
                self.process.kill()
                self.process.join()
                return f"it hangs: no answer after {limit:g} s"
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return f"its process died with exit code {self.process.exitcode}"

    def close(self) -> None:
        """Let the process end."""
        self.pipe.close()
        self.process.join(5.0)
