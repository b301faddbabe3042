"""What the command shows: progress and remarks on standard error, results on standard output."""

import json
import math
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from latentstruct.protocols import Callback, Round

ROWS_SHOWN = 12
FIRST_LINES = 10
SECONDS_BETWEEN_LINES = 1.0
SECONDS_BETWEEN_REFRESHES = 0.1


def say(text: str) -> None:
    """Write one line to standard error, whatever breaks the text holds."""
    print(" ".join(text.split()), file=sys.stderr, flush=True)


def show_number(value: float, digits: int = 6) -> str:
    """Return a number for people; a dash where there is none."""
    return f"{value:.{digits}g}" if math.isfinite(value) else "–"


def show_percent(share: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * share:.2f} %"


def print_json(value: dict[str, Any]) -> None:
    """Print a result as one JSON object; numbers that JSON cannot hold become null."""
    print(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def make_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], n_text: int = 1) -> "Table":
    """Return a table whose first `n_text` columns are text and the others numbers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
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
    """Print a table to standard output, never cutting a cell off where there is no terminal."""
    from rich.console import Console

    table = make_table(title, columns, rows, n_text)
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, console.measure(table).maximum)
    console.print(table)


@contextmanager
def caught_warnings() -> Iterator[list[str]]:
    """Collect the warnings of a block, each text once, so that they can be told after a live table."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for kind in (DeprecationWarning, PendingDeprecationWarning):
            warnings.simplefilter("ignore", kind)
        yield texts
    texts.extend(dict.fromkeys(str(warning.message) for warning in caught))


class Progress:
    """Shows the rounds of a solver: a live table on a terminal, lines elsewhere.

    Parameters
    ----------
    quiet : bool, default=False
        Whether to show nothing.

    Notes
    -----
    Used as a context manager; `callback` is for an estimator's fit. It works without a thread: the table is
    drawn anew when a round ends, ten times a second at most, so that training is not slowed down.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.rounds: deque[Round] = deque(maxlen=ROWS_SHOWN)
        self._live: Live | None = None
        self._shown_at = -math.inf
        self._shown_round = 0

    def __enter__(self) -> Self:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, get_renderable=self._table)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.rounds and self.rounds[-1].round != self._shown_round:
            self._show()
        if self._live is not None:
            self._live.stop()

    @property
    def callback(self) -> "Callback | None":
        """What to hand to fit."""
        return None if self.quiet else self._take

    def say(self, text: str) -> None:
        """Write a remark unless quiet."""
        if not self.quiet:
            say(text)

    def _take(self, line: "Round") -> None:
        self.rounds.append(line)
        waited = time.perf_counter() - self._shown_at
        if self._live is not None:
            due = waited >= SECONDS_BETWEEN_REFRESHES
        else:
            due = line.round <= FIRST_LINES or waited >= SECONDS_BETWEEN_LINES
        if due:
            self._show()

    def _show(self) -> None:
        self._shown_at, self._shown_round = time.perf_counter(), self.rounds[-1].round
        if self._live is not None:
            self._live.refresh()
        else:
            number, objective, bound, gap, calls, seconds = _round_cells(self.rounds[-1])
            say(
                f"round {number}: objective {objective}, bound {bound}, relative gap {gap}, "
                f"{calls} oracle calls, {seconds}"
            )

    def _table(self) -> "Table":
        columns = ("round", "objective", "bound", "relative gap", "oracle calls", "time")
        return make_table("", columns, [_round_cells(line) for line in self.rounds], n_text=0)


def _round_cells(line: "Round") -> tuple[str, ...]:
    relative = line.gap / max(abs(line.objective), 1e-12)
    return (
        str(line.round),
        f"{'~' if line.estimate else ''}{show_number(line.objective)}",
        show_number(line.lower_bound),
        show_number(relative, 3),
        str(line.oracle_calls),
        f"{line.seconds:.1f} s",
    )


def fit_facts(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what training reached, in words."""
    gap = show_number(result["relative_gap"], 3)
    proof = "certified" if result["certified"] else "an estimate, as inference was not exact"
    facts = [
        ("objective", show_number(result["objective"], 8)),
        ("lower bound", show_number(result["lower_bound"], 8)),
        ("relative gap", gap if gap == "–" else f"{gap} ({proof})"),
        ("oracle calls", str(result["oracle_calls"])),
        ("stopped", f"{result['stop_reason']} after {result['rounds']} rounds"),
    ]
    if result.get("seconds") is not None:
        facts.append(("seconds", f"{result['seconds']:.1f}"))
    return facts


def show_training(result: dict[str, Any]) -> None:
    """Print the result of a training as text."""
    names = ("examples", "tokens", "features", "labels", "weights")
    sizes = [f"{result[f'n_{name}']} {name}" for name in names if f"n_{name}" in result]
    facts = [
        ("model", f"{result['model']} ({result['kind']}, {result['estimator']})"),
        ("sizes", ", ".join(sizes)),
        *fit_facts(result),
    ]
    if "valid" in result:
        valid = result["valid"]
        facts.append(("valid accuracy", show_percent(valid["accuracy"])))
        if "chunks" in valid:
            facts.append(("valid chunk F1", show_percent(valid["chunks"]["f1"])))
    print_facts(facts)


def show_chain_scores(result: dict[str, Any]) -> None:
    """Print the quality of a chain model."""
    print_facts(
        [
            ("sentences", f"{result['n_examples']}, {show_percent(result['example_accuracy'])} wholly right"),
            ("tokens", f"{result['n_tokens']}, {show_percent(result['accuracy'])} right"),
        ]
    )
    chunks = result.get("chunks")
    if chunks is None:
        return
    rows = []
    for kind, score in [("all", chunks), *chunks["by_type"].items()]:
        ratios = [show_percent(score[key]) for key in ("precision", "recall", "f1")]
        rows.append([kind, *ratios, str(score["n_true"]), str(score["n_predicted"])])
    print_table("chunks", ("type", "precision", "recall", "F1", "true", "predicted"), rows)


def show_class_scores(result: dict[str, Any]) -> None:
    """Print the quality of a model of classes."""
    print_facts([("samples", f"{result['n_examples']}, {show_percent(result['accuracy'])} right")])
    rows = []
    for one in result["classes"]:
        taken = f"{one['mostly_taken_for']} ({one['n_taken_for']}×)" if one["n_taken_for"] else "–"
        ratios = [show_percent(one["precision"]), show_percent(one["recall"])]
        rows.append([str(one["label"]), taken, *ratios, str(one["n_true"]), str(one["n_predicted"])])
    names = ("class", "mostly taken for", "precision", "recall", "true", "predicted")
    print_table("classes", names, rows, n_text=2)


def show_info(result: dict[str, Any]) -> None:
    """Print what a model is."""
    params = {key: value for key, value in result["params"].items() if value not in (None, False)}
    labels = ", ".join(str(label) for label in result["labels"][:30])
    print_facts(
        [
            ("model", result["model"]),
            ("trained", f"{result['estimator']} on {result['task']}, latentstruct {result['library']}"),
            ("options", ", ".join(f"{key} {value}" for key, value in params.items())),
            *([("examples", str(result["n_examples"]))] if "n_examples" in result else []),
            ("features", str(result["n_features"])),
            ("weights", f"{result['n_weights']}, {result['n_nonzero']} of them not 0"),
            (f"{result['n_labels']} labels", labels + (", …" if result["n_labels"] > 30 else "")),
            *fit_facts(result),
        ]
    )
    if result.get("transitions"):
        rows = [(str(t["from"]), str(t["to"]), f"{t['weight']:+.4f}") for t in result["transitions"]]
        print_table("strongest transitions", ("from", "to", "weight"), rows, n_text=2)
    if result.get("weights"):
        rows = [(t["feature"], str(t["label"]), f"{t['weight']:+.4f}") for t in result["weights"]]
        print_table("strongest weights", ("feature", "label", "weight"), rows, n_text=2)
