"""Output of the command: progress and messages on standard error, results on standard output."""

import json
import math
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from latentstruct.progress import heartbeat
from latentstruct.progress.eta import StoppingRule, TrainingTime

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    from latentstruct.core.protocols import Callback, Iteration

ROWS_SHOWN = 12
WIDEST = 1000
SECONDS_BETWEEN_LINES = 2.0
SECONDS_BETWEEN_STEPS = 5.0
SECONDS_BETWEEN_REFRESHES = 0.1
WAITING = "waiting for the first iteration"


def say(text: str) -> None:
    """Write one line to standard error, without the line breaks and control characters of the text."""
    line = " ".join(part.strip() for part in text.splitlines())
    print("".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in line), file=sys.stderr, flush=True)
    heartbeat.touch()


def show_number(value: float, digits: int = 6) -> str:
    """Return a number with some significant digits; a dash if it is not finite."""
    return f"{value:.{digits}g}" if math.isfinite(value) else "–"


def show_count(number: int) -> str:
    """Return a count as 9876, 12.3k or 4.5M."""
    for size, unit in ((10**6, "M"), (10**3, "k")):
        if number >= 10 * size or (unit == "M" and number >= size):
            return f"{number / size:.1f}{unit}"
    return str(number)


def show_percent(share: float) -> str:
    """Return a fraction as a percentage."""
    return f"{100 * share:.2f} %"


def show_share(share: float | None) -> str:
    """Return a percentage, a dash for None."""
    return "–" if share is None else show_percent(share)


def print_json(value: dict[str, Any]) -> None:
    """Print a result as one JSON object."""
    print(json.dumps(plain(value), ensure_ascii=False, allow_nan=False, indent=2))


def plain(value: Any) -> Any:
    """Return a value for JSON: arrays and sets as lists, numbers that are not finite as None, other objects as text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def make_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], n_text: int = 1) -> "Table":
    """Return a table whose first `n_text` columns are text and the others numbers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Text(title, style="bold") if title else None
    table = Table(title=shown, box=box.SIMPLE_HEAD, title_justify="left")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k < n_text else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    lines = list(facts)
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        print(f"{name:<{width}}  {value}".rstrip())


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], n_text: int = 1) -> None:
    """Print a table to standard output; cells are never cut where there is no terminal."""
    from rich.console import Console

    table = make_table(title, columns, rows, n_text)
    console = Console(file=sys.stdout, highlight=False)
    widen(console, table)
    console.print(table)


def widen(console: "Console", table: "Table") -> None:
    """Widen a console for a table where no terminal limits it."""
    if not console.is_terminal:
        # Measured within the present width, no table would need more than that.
        options = console.options.update(max_width=WIDEST)
        console.width = max(console.width, console.measure(table, options=options).maximum)


@contextmanager
def caught_warnings() -> Iterator[list[str]]:
    """Collect the warnings of a block, each text once, to print them after a live table."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        _show_all()
        yield texts
    texts.extend(dict.fromkeys(str(warning.message) for warning in caught))


@contextmanager
def printed_warnings(say: Callable[[str], None]) -> Iterator[None]:
    """Print the warnings of a block as they come, each text once."""
    printed: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in printed:
            printed.add(str(message))
            say(str(message))

    with warnings.catch_warnings():
        _show_all()
        warnings.showwarning = show
        yield


def _show_all() -> None:
    """Show all warnings except those for programmers."""
    warnings.simplefilter("always")
    for kind in (DeprecationWarning, PendingDeprecationWarning):
        warnings.simplefilter("ignore", kind)


class Progress:
    """Shows the iterations of a solver: a live table on a terminal, elsewhere a line every two seconds.

    `n_starts` is the number of starts of a training that solves many convex problems. Lines marked as estimates are
    then steps within an iteration, and only the latest is shown. `begin` sets it too.

    Used as a context manager; `callback` is passed to fit, which reports what ends the training, so that the remaining
    time can be estimated. It works without a thread: the table is redrawn when an iteration ends, at most ten times per
    second, so that training is not slowed down.
    """

    def __init__(self, quiet: bool = False, n_starts: int = 0) -> None:
        self.quiet = quiet
        self.n_starts = n_starts
        self.iterations: deque[Iteration] = deque(maxlen=ROWS_SHOWN)
        self._live: Live | None = None
        self._shown_at = -math.inf
        self._shown: Iteration | None = None
        self._n_trainings = 0
        self._time = TrainingTime(StoppingRule())
        self._eta = ""
        self._estimated_at = -math.inf

    def __enter__(self) -> Self:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, get_renderable=self._table)
            self._live.start()
            heartbeat.suspend(True)
        heartbeat.explain(WAITING)
        if self.n_starts:
            # The first step within the first iteration need not be shown at once.
            self._shown_at = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        heartbeat.explain("")
        # No time is left.
        self._eta, self._estimated_at = "", math.inf
        if self.iterations and (self._live is not None or self.iterations[-1] is not self._shown):
            self._show()
        if self._live is not None:
            self._live.stop()
            heartbeat.suspend(False)

    @property
    def callback(self) -> "Callback | None":
        """The callback of fit."""
        return None if self.quiet else self

    def begin(self, stopping: StoppingRule) -> None:
        """Take what is known of a training before its first iteration; lines name the training from the second on."""
        self._time = TrainingTime(stopping)
        self._n_trainings += 1
        if stopping.rule == "iteration" or stopping.n_starts > 1:
            self.n_starts = stopping.n_starts
            self._shown_at = time.perf_counter()

    def go_on(self, name: str, n_iter: int) -> None:
        """Print that training resumes from a checkpoint."""
        self.say(f"resuming from {name} after {n_iter} iterations")

    def say(self, text: str) -> None:
        """Print a message unless quiet."""
        if not self.quiet:
            say(text)

    def __call__(self, line: "Iteration") -> None:
        """Take an iteration, and show it if it is due."""
        heartbeat.explain("")
        self._time.add(line)
        within = bool(self.n_starts) and line.estimate
        if self.n_starts and self.iterations and self.iterations[-1].estimate:
            self.iterations.pop()
        # Iterations that wait to be shown would keep weights in memory.
        self.iterations.append(replace(line, w=None))
        waited = time.perf_counter() - self._shown_at
        if self._live is not None:
            due = waited >= SECONDS_BETWEEN_REFRESHES
        else:
            # The trainings within one, such as those that alternate with errors of annotators, may be short and many.
            first = line.iteration == 1 and not within and self._n_trainings < 2
            due = first or waited >= (SECONDS_BETWEEN_STEPS if within else SECONDS_BETWEEN_LINES)
        if due:
            self._show()

    def _show(self) -> None:
        self._shown_at, self._shown = time.perf_counter(), self.iterations[-1]
        if self._shown_at - self._estimated_at >= SECONDS_BETWEEN_LINES:
            self._estimated_at, self._eta = self._shown_at, self._time.describe()
        if self._live is not None:
            self._live.refresh()
        else:
            start = f"start {self._start_cell(self._shown)}" if self.n_starts > 1 else ""
            say("  ".join(filter(None, (self._training, start, iteration_text(self._shown), self._eta))))

    @property
    def _training(self) -> str:
        return f"training {self._n_trainings}" if self._n_trainings > 1 else ""

    def _start_cell(self, line: "Iteration") -> str:
        return f"{line.start + 1}/{self.n_starts}"

    def _table(self) -> "Table":
        columns: tuple[str, ...] = ("iter", "objective", "bound", "gap", "oracle calls", "time")
        rows = [_cells(line) for line in self.iterations]
        if any(line.validation_score is not None for line in self.iterations):
            scores = [line.validation_score for line in self.iterations]
            columns = (*columns, "validation score")
            rows = [(*row, "" if score is None else f"{score:.4f}") for row, score in zip(rows, scores, strict=True)]
        if self.n_starts > 1:
            columns = ("start", *columns)
            rows = [(self._start_cell(line), *row) for line, row in zip(self.iterations, rows, strict=True)]
        table = make_table(self._training, columns, rows, n_text=0)
        waiting = not self.iterations and self._estimated_at < math.inf
        table.caption, table.caption_justify = WAITING if waiting else self._eta or None, "left"
        return table


def _cells(line: "Iteration") -> tuple[str, ...]:
    gap = 100 * line.gap / max(abs(line.objective), 1e-12)
    return (
        str(line.iteration),
        f"{'~' if line.estimate else ''}{show_number(line.objective)}",
        show_number(line.lower_bound),
        f"{show_number(gap, 2)}%" if math.isfinite(gap) else "–",
        show_count(line.oracle_calls),
        f"{line.seconds:.1f} s",
    )


def iteration_text(line: "Iteration") -> str:
    """Return an iteration as one line of text."""
    number, objective, bound, gap, calls, seconds = _cells(line)
    score = "" if line.validation_score is None else f"  validation score {line.validation_score:.4f}"
    return f"iter {number}  objective {objective}  bound {bound}  gap {gap}  {calls} oracle calls  {seconds}{score}"


def stop_text(reason: str, n_iter: int, relative_gap: float, certified: bool) -> str:
    """Return why a training stopped and after how many iterations; a certified gap of 0 leaves only rounding errors."""
    precise = " to machine precision" if reason == "converged" and certified and relative_gap == 0.0 else ""
    return f"{reason}{precise} after {n_iter} iteration{'' if n_iter == 1 else 's'}"


def fit_facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the result of training."""
    gap = show_number(result["relative_gap"], 3)
    proof = "certified" if result["certified"] else "estimated, as inference was not exact"
    if result["latent"]:
        proof = "of the last convex problem"
    if result["relative_gap"] >= 1.0:
        proof = "too large to prove anything"
    facts = [
        ("objective", show_number(result["objective"], 8)),
        *_start_facts(result["restart_objectives"]),
        ("lower bound", show_number(result["lower_bound"], 8)),
        ("relative gap", gap if gap == "–" else f"{gap} ({proof})"),
        ("oracle calls", str(result["oracle_calls"])),
        (
            "stopped",
            stop_text(result["stop_reason"], result["iterations"], result["relative_gap"], result["certified"]),
        ),
    ]
    if result.get("seconds") is not None:
        facts.append(("seconds", f"{result['seconds']:.1f}"))
    return facts


def _start_facts(objectives: Sequence[float]) -> list[tuple[str, str]]:
    """Return the objectives of several starts."""
    if len(objectives) < 2:
        return []
    shown = ", ".join(show_number(value) for value in objectives[:ROWS_SHOWN])
    return [(f"{len(objectives)} starts", shown + (", …" if len(objectives) > ROWS_SHOWN else ""))]
