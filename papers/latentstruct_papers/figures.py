"""Figures with the axes of the papers, drawn from the tables of saved results; the documentation shows them."""

import json
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "Bars", "Lines", "draw_all", "read_cell"]

PANEL = 3.4, 2.7
"""Width and height of a panel in inches."""
COLUMNS = 2

Tables = list[dict[str, Any]]


def read_cell(cell: Any) -> tuple[float, float | None]:
    """Return value and spread of a cell, such as "69.9 ± 0.3 (C 1)", "30%" or 4."""
    text = str(cell).partition(" (")[0].replace("%", "").removeprefix("×")
    value, _, spread = text.partition(" ± ")
    return float(value), float(spread) if spread else None


@dataclass(frozen=True)
class Lines:
    """Columns of tables against another column; missing cells are left out.

    Parameters
    ----------
    caption : str
        What the figure shows, with the paper's number.
    x, y : str
        Names of the axes.
    names : tuple of str
        The columns to draw.
    at : str
        The column on the horizontal axis.
    tables : tuple of int, default=(0,)
        Numbers of the tables; each is a panel.
    by : tuple of str, default=()
        Columns whose values divide the rows of a table into panels.
    log : tuple of str, default=()
        Logarithmic axes, "x" and "y".
    """

    caption: str
    x: str
    y: str
    names: tuple[str, ...]
    at: str
    tables: tuple[int, ...] = (0,)
    by: tuple[str, ...] = ()
    log: tuple[str, ...] = ()

    def panels(self, tables: Tables) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of each panel by its title; rows without a number on the horizontal axis are left out."""
        found: dict[str, list[dict[str, Any]]] = {}
        for number in self.tables:
            table = tables[number]
            for cells in table["rows"]:
                row = dict(zip(table["columns"], cells, strict=True))
                title = ", ".join(str(row[name]) for name in self.by) if self.by else table["title"].partition(":")[0]
                if str(row[self.at])[:1].isdigit():
                    found.setdefault(title, []).append(row)
        return found

    def draw(self, figure: "Figure", tables: Tables) -> None:
        """Draw all panels."""
        panels = self.panels(tables)
        for axes, (title, rows) in zip(_grid(figure, len(panels)), panels.items(), strict=True):
            for marker, name in zip(cycle("osd^v"), self.names, strict=False):
                cells = [(row[self.at], row[name]) for row in rows if row[name] is not None]
                at, values = ([read_cell(cell) for cell in column] for column in zip(*cells, strict=True))
                spreads = [0.0 if spread is None else spread for _, spread in values]
                points = [x for x, _ in at], [value for value, _ in values]
                axes.errorbar(*points, spreads, marker=marker, capsize=2, label=name)
            axes.set(xlabel=self.x, ylabel=self.y, title=title if len(panels) > 1 else "")
            for axis in self.log:
                getattr(axes, f"set_{axis}scale")("log")
        _add_legend(figure)


@dataclass(frozen=True)
class Bars:
    """Cells of a table as groups of bars; missing cells have none.

    Parameters
    ----------
    caption : str
        What the figure shows, with the paper's number.
    y : str
        Name of the axis of values.
    label : str
        The column with the names of the rows.
    names : tuple of str
        The columns to draw.
    table : int, default=0
        Number of the table.
    by_column : bool, default=False
        Whether columns are the groups, and rows the bars of each.
    least : float, default=0.0
        Where the axis begins.
    """

    caption: str
    y: str
    label: str
    names: tuple[str, ...]
    table: int = 0
    by_column: bool = False
    least: float = 0.0

    def values(self, tables: Tables) -> dict[str, dict[str, Any]]:
        """Return the cells by bar and group."""
        table = tables[self.table]
        rows = [dict(zip(table["columns"], cells, strict=True)) for cells in table["rows"]]
        if self.by_column:
            return {str(row[self.label]): {name: row[name] for name in self.names} for row in rows}
        return {name: {str(row[self.label]): row[name] for row in rows} for name in self.names}

    def draw(self, figure: "Figure", tables: Tables) -> None:
        """Draw all bars."""
        (axes,) = _grid(figure, 1)
        bars = self.values(tables)
        groups = list(next(iter(bars.values())))
        figure.set_size_inches(2 * PANEL[0], 1.2 + 0.16 * len(groups) * (len(bars) + 1))
        height = 0.8 / len(bars)
        for number, (name, cells) in enumerate(bars.items()):
            shown = [
                (place, *read_cell(cells[group])) for place, group in enumerate(groups) if cells[group] is not None
            ]
            places = [place + height * number for place, _, _ in shown]
            spreads = [0.0 if spread is None else spread for *_, spread in shown]
            axes.barh(places, [value for _, value, _ in shown], height, xerr=spreads, label=name)
        axes.set_yticks([place + 0.4 - height / 2 for place in range(len(groups))], groups)
        axes.invert_yaxis()
        axes.set_xlim(left=self.least)
        axes.set_xlabel(self.y)
        _add_legend(figure)


def _grid(figure: "Figure", n_panels: int) -> list[Any]:
    """Return axes of panels, side by side."""
    columns = min(COLUMNS, n_panels)
    rows = -(-n_panels // columns)
    figure.set_size_inches(PANEL[0] * max(columns, 1.6), PANEL[1] * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for empty in grid[n_panels:]:
        empty.set_axis_off()
    return grid[:n_panels]


def _add_legend(figure: "Figure") -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3), fontsize="small")


FIELDS = ("MSSVM", "LSSVM", "HCRF")
BOXES = ("LSVM", "ILSVM", "ModLat")


def box_losses(source: str) -> Lines:
    """Return the figure of losses of boxes against C, as a figure of the paper shows them."""
    return Lines(
        f"{source} of Kumar, Packer & Koller (2012): test loss against C, mean and standard deviation over splits.",
        "C",
        "test loss in %",
        BOXES,
        at="C",
        tables=(4,),
        by=("data", "loss"),
        log=("x",),
    )


FIGURES: dict[str, Lines | Bars] = {
    "lssvm-iterations": Lines(
        "Figure 3 of Yu & Joachims (2009): iterations of CCCP against C, means over folds.",
        "C",
        "iterations of CCCP",
        ("motif, width 11", "coreference", "precision@5"),
        at="C",
        log=("x",),
    ),
    "mssvm-convergence": Lines(
        "Figure 2 of Ping, Liu & Ihler (2014): norm of the (sub)gradient in descent.",
        "steps",
        "norm of the (sub)gradient",
        FIELDS,
        at="step",
        log=("y",),
    ),
    "mssvm-samples": Lines(
        "Figure 3 of Ping, Liu & Ihler (2014): test error against the number of training examples.",
        "training examples",
        "test error in %",
        FIELDS,
        at="examples",
        log=("x",),
    ),
    "mssvm-table3": Lines(
        "Table 3 of Ping, Liu & Ihler (2014): accuracy against the spread of the weights of hidden nodes.",
        "σ_h",
        "test accuracy in %",
        (*FIELDS, "M3E, α = 2", "ModLat"),
        at="σ_h",
        log=("x",),
    ),
    "mssvm-segmentation": Lines(
        "Figure 4 of Ping, Liu & Ihler (2014): error against the share of missing labels.",
        "missing labels in %",
        "test error in %",
        FIELDS,
        at="missing",
    ),
    "modlat-detection": box_losses("Figure 1"),
    "modlat-one-size": box_losses("Figure 1"),
    "modlat-action": box_losses("Figure 2"),
    "groupnorm-digits": Lines(
        "Figure 2 of Chen et al. (2012): accuracy against the angles that each digit may use.",
        "angles of each digit",
        "test accuracy in %",
        ("by norm", "random, shared", "random, separate"),
        at="angles",
        tables=(5,),
        by=("pair",),
    ),
    "ssvm-structure": Bars(
        "Figure 6 of Joachims et al. (2009): share of aligned letters that are found.",
        "Q in %, mean over families",
        "model",
        ("Q, families", "Q4, families"),
    ),
    "ssvm-diversity": Bars(
        "Figure 4 of Joachims et al. (2009): share of subtopics that five documents leave uncovered.",
        "weighted share of subtopics",
        "method",
        ("test",),
    ),
    "half-labeled": Bars(
        "F1 of the chunks of CoNLL-2000 with labels removed in three ways, with standard errors over test sentences.",
        "F1 of chunks in %",
        "method",
        tuple(
            f"{share} % {known}" for known in ("tags unknown", "two tags allowed", "chunks only") for share in (50, 90)
        ),
        table=1,
        by_column=True,
        least=87.0,
    ),
}
"""The figure of each experiment; those of experiments without saved results are not drawn."""


def draw_all(results: Path, folder: Path) -> list[Path]:
    """Draw the figure of each saved experiment that has one as NAME.svg; return the files."""
    import matplotlib
    from matplotlib.figure import Figure

    folder.mkdir(exist_ok=True)
    written = []
    for name, one in FIGURES.items():
        path = results / f"{name}.json"
        if path.is_file():
            saved = json.loads(path.read_text(encoding="utf-8"))
            with matplotlib.rc_context({"svg.hashsalt": name, "font.size": 9}):
                figure = Figure(layout="constrained")
                one.draw(figure, saved["tables"])
                written.append(folder / f"{name}.svg")
                figure.savefig(written[-1], metadata={"Date": None})
    return written
