"""What an experiment found: tables with the published figures beside ours, plots, and the files they go to."""

import io
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from latentstruct.core.formatting import repr_short
from latentstruct.core.lazy import np
from latentstruct.exceptions import Description, InputError
from latentstruct.persistence.atomic_files import output_errors, remove_left_over, replace_files
from latentstruct.progress.display import make_table, plain, show_number, widen

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from latentstruct.viz.report.page import Page

__all__ = ["Claim", "Findings", "Table", "Verdict", "above"]

PACKAGES = ("latentstruct", "numpy", "scipy", "scikit-learn", "matplotlib")
TEXT_WIDTH = 110
PLOT_SIZE = (7.2, 4.6)
"""Width and height of plots in inches."""

Verdict = Literal["reproduced", "not reproduced", "undecided", "no published figure"]
MOST_FALL = 0.05
"""By which fraction of its value the last third of the iterations may lower an objective for a verdict."""


@dataclass(frozen=True)
class Claim:
    """One published claim, and what was found: a row of the documentation's table of results.

    Parameters
    ----------
    what : str
        What was measured.
    paper : str
        The published figures; empty if there are none.
    found : str
        Our figures.
    verdict : {"reproduced", "not reproduced", "undecided", "no published figure"}
        Whether the claim holds here. It is about the claim, such as the order of methods, not about equal figures.
        Undecided: our precision is too low to tell.
    other_data : bool, default=False
        Whether the data differ from the paper's.
    """

    what: str
    paper: str
    found: str
    verdict: Verdict
    other_data: bool = False

    @property
    def status(self) -> str:
        """The verdict, and whether the data are others."""
        return f"{self.verdict} (different data)" if self.other_data else self.verdict


def above(differences: Any, published: float | None = None) -> Verdict:
    """Return whether the mean of paired differences is above zero.

    Parameters
    ----------
    differences : array-like of shape (n,)
        Differences in favor of the method that the paper found better.
    published : float, optional
        The published difference.

    Returns
    -------
    {"reproduced", "not reproduced", "undecided"}
        Reproduced if the mean is more than twice its standard error above zero; otherwise not reproduced, or undecided
        if the interval of twice the standard error contains the published difference or cannot be computed.
    """
    apart = np.asarray(differences, dtype=np.float64)
    error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.inf
    if apart.mean() > 2 * error:
        return "reproduced"
    possible = not np.isfinite(error) or (published is not None and abs(apart.mean() - published) <= 2 * error)
    return "undecided" if possible else "not reproduced"


def settled(verdict: Verdict, falls: Any) -> Verdict:
    """Return the verdict on trained models, undecided if one of their objectives was still falling.

    Parameters
    ----------
    verdict : {"reproduced", "not reproduced", "undecided"}
        What follows from their figures.
    falls : array-like
        By which fraction the last third of the iterations lowered the objective of each model.
    """
    return verdict if np.max(falls) <= MOST_FALL else "undecided"


@dataclass(frozen=True)
class Table:
    """One table of an experiment.

    Parameters
    ----------
    title : str
        What the table shows.
    columns : sequence of str
        The names of the columns.
    rows : sequence of sequences
        The cells: text is shown as it is, numbers with four digits that count, None as a dash.
    note : str, default=""
        A remark to stand below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                got = Description(f"row {number} with {len(row)} cells in {repr_short(self.title)}")
                raise InputError("rows", got, f"rows of {len(self.columns)} cells, None if missing")

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": plain([list(row) for row in self.rows]),
            "note": self.note,
        }

    def show(self, console: "Console") -> None:
        """Print the table and its remark."""
        rows = [[_show_cell(cell) for cell in row] for row in self.rows]
        table = make_table(self.title, self.columns, rows, n_text=self._count_text_columns())
        widen(console, table)
        console.print(table)
        if self.note:
            console.print(self.note, highlight=False, markup=False)

    def _count_text_columns(self) -> int:
        """Return how many columns from the left hold text without digits or nothing at all."""
        for k in range(len(self.columns)):
            cells = [row[k] for row in self.rows]
            if not all(cell is None or (isinstance(cell, str) and not cell[:1].isdigit()) for cell in cells):
                return max(k, 1)
        return len(self.columns)


@dataclass
class Findings:
    """What an experiment found.

    Parameters
    ----------
    name : str
        The experiment's name; the files it writes begin with it.
    title : str
        What was repeated, with the number of the table or figure.
    data : str
        The data that were used.
    differs : list of str
        In what the experiment differs from the published one, a sentence each.
    tables : list of Table
        The results, the published figures beside ours.
    plots : dict of str to function of Axes
        Each draws one picture.
    settings : dict
        What is needed to do it again: grids, seeds, sizes.
    claims : list of Claim
        What the paper says, and whether it holds here. `latentstruct_papers.results` shows them in the documentation.
    quick : bool, default=False
        Whether less was done than in a full run.
    seconds, cpu_seconds : float, default=0.0
        Elapsed time, and CPU time of all processes.
    """

    name: str
    title: str
    data: str
    differs: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    plots: "dict[str, Callable[[Axes], None]]" = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    quick: bool = False
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return all but the plots as plain values, with the versions of the packages used."""
        return {
            "name": self.name,
            "title": self.title,
            "command": f"latentstruct reproduce {self.name}" + (" --quick" if self.quick else ""),
            "quick": self.quick,
            "data": self.data,
            "differs": list(self.differs),
            "claims": [asdict(claim) for claim in self.claims],
            "tables": [table.to_dict() for table in self.tables],
            "plots": [self._plot_file(plot) for plot in self.plots],
            "settings": plain(self.settings),
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "versions": _versions(),
        }

    def show(self, console: "Console | None" = None) -> None:
        """Print the tables for people.

        Parameters
        ----------
        console : rich.console.Console, optional
            Where to; standard output by default.
        """
        from rich.console import Console

        console = Console(highlight=False) if console is None else console
        console.print(self.title, style="bold", highlight=False, markup=False)
        console.print(f"data: {self.data}", highlight=False, markup=False)
        for difference in self.differs:
            console.print(f"differs: {difference}", highlight=False, markup=False)
        for table in self.tables:
            console.print()
            table.show(console)
        if self.claims:
            console.print()
            self._claim_table().show(console)
        if self.seconds:
            console.print(f"\n{self._time()}", highlight=False)

    def _claim_table(self) -> Table:
        rows = [[claim.what, claim.paper or None, claim.found, claim.status] for claim in self.claims]
        return Table("What the paper says", ["what", "paper", "found", "verdict"], rows)

    def _time(self) -> str:
        return f"{self.seconds:.1f} s, {self.cpu_seconds:.1f} s of CPU time"

    def save(self, folder: str | Path) -> list[Path]:
        """Write NAME.json (everything), NAME.txt (the tables), NAME.html (a page) and NAME-PLOT.png for each plot.

        Parameters
        ----------
        folder : path
            The folder to write to, made if needed; earlier files of the same names are replaced.

        Returns
        -------
        list of Path
            The files. All are drawn and written aside first, so that a failure leaves earlier files as they were.
        """
        contents = {
            f"{self.name}.json": json.dumps(self.to_dict(), ensure_ascii=False, indent=2).encode() + b"\n",
            f"{self.name}.txt": self._text().encode(),
            f"{self.name}.html": self.page().html().encode("utf-8", "replace"),
        }
        for plot, draw in self.plots.items():
            contents[self._plot_file(plot)] = _draw(draw)
        return _write_all(Path(folder), contents)

    def page(self) -> "Page":
        """Return tables and plots as a page."""
        from latentstruct.viz.report.blocks import Block, Drawing, FactList, TableBlock, Text
        from latentstruct.viz.report.page import Page, Section

        tables: list[Block] = [
            TableBlock(table.title, table.columns, table.rows, table.note, table._count_text_columns())
            for table in [*self.tables, *([self._claim_table()] if self.claims else [])]
        ]
        plots: list[Block] = [
            Drawing(draw, f"Plot {plot} of {self.title}; the tables have the figures.", plot, *PLOT_SIZE)
            for plot, draw in self.plots.items()
        ]
        differs: list[Block] = [Text(difference) for difference in self.differs]
        settings = [(name, _show_setting(value)) for name, value in plain(self.settings).items()]
        sections = [
            Section("Results", tables),
            Section("Plots", plots),
            Section("How it differs from what was published", differs),
            Section("To do it again", [FactList([("latentstruct reproduce", self.name), *settings])]),
            Section("Versions", [FactList([*_versions().items(), ("time", self._time())])]),
        ]
        return Page(self.title, f"Data: {self.data}", [section for section in sections if section.blocks])

    def _plot_file(self, plot: str) -> str:
        return f"{self.name}-{plot}.png"

    def _text(self) -> str:
        from rich.console import Console

        stream = io.StringIO()
        self.show(Console(file=stream, width=TEXT_WIDTH, highlight=False))
        return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def _show_cell(cell: Any) -> str:
    cell = plain(cell)
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return show_number(cell, 4)
    return str(cell)


def _show_setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _draw(draw: "Callable[[Axes], None]") -> bytes:
    """Return a picture as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=PLOT_SIZE, layout="constrained")
    draw(figure.add_subplot())
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=130)
    return stream.getvalue()


def _write_all(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    """Write files that appear whole, once all of them could be written."""
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        remove_left_over(folder)
        replace_files({folder / name: [content] for name, content in contents.items()})
    return [folder / name for name in contents]
