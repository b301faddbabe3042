"""The documentation's table of results, made from the JSON files of full runs.

``python -m latentstruct_papers.results`` writes it to ``docs/papers.rst``.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from latentstruct.exceptions import Description, FormatError
from latentstruct_papers import EXPERIMENTS
from latentstruct_papers.figures import FIGURES
from latentstruct_papers.findings import Claim, Verdict

__all__ = ["Saved", "insert", "load", "page", "read"]

REPOSITORY = Path(__file__).parents[2]
FOLDER, PAGE = REPOSITORY / "papers" / "results", REPOSITORY / "docs" / "papers.rst"
BEGIN, END = ".. results of papers/results begin\n", ".. results of papers/results end\n"
WIDTHS = "30 22 32 16"


@dataclass(frozen=True)
class Saved:
    """What the documentation shows of one full run.

    Attributes
    ----------
    name, title, data : str
        As in `Findings`.
    claims : list of Claim
        What the paper says, and what was found.
    command : str
        The command that made the file.
    cpu_seconds : float
        CPU time.
    """

    name: str
    title: str
    data: str
    claims: list[Claim]
    command: str
    cpu_seconds: float

    @property
    def numbers(self) -> str:
        """All text with figures."""
        return "\n".join(f"{claim.what} {claim.paper} {claim.found}" for claim in self.claims)

    def time(self) -> str:
        """Return the CPU time as text."""
        minutes = self.cpu_seconds / 60
        return f"{minutes:.0f} min of CPU time" if minutes >= 2 else f"{self.cpu_seconds:.0f} s of CPU time"


def read(path: Path) -> Saved:
    """Return the file of one run.

    Raises
    ------
    FormatError
        If the file has no results of a full run of a known experiment.
    """
    expected = "results of a full run, as `latentstruct reproduce NAME` saves them"
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        claims = [Claim(**claim) for claim in found["claims"]]
        seconds = float(found["cpu_seconds"])
        saved = Saved(found["name"], found["title"], found["data"], claims, found["command"], seconds)
        fits = saved.name in EXPERIMENTS and path.stem == saved.name and bool(claims) and not found["quick"]
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(path, Description(f"{type(error).__name__}: {error}"), expected) from error
    if not fits:
        raise FormatError(path, Description("a quick run, no claim, or another name"), expected)
    return saved


def load(folder: Path = FOLDER) -> dict[str, Saved]:
    """Return all saved runs by the name of the experiment, in the order of `EXPERIMENTS`."""
    found = {path.stem: read(path) for path in sorted(folder.glob("*.json"))}
    return {name: found[name] for name in EXPERIMENTS if name in found}


def page(saved: Sequence[Saved]) -> str:
    """Return the results as reStructuredText: counts of verdicts, then heading, table and figure of each experiment."""
    counts = Counter(claim.verdict for one in saved for claim in one.claims)
    shown = ", ".join(f"{counts[verdict]} {verdict}" for verdict in get_args(Verdict) if counts[verdict])
    lines = [f"{counts.total()} statements: {shown}.", ""]
    for one in saved:
        lines += [one.name, "~" * len(one.name), "", f"{_escape(one.title)}. Data: {_escape(one.data)}."]
        lines += [f"``{one.command}``: {one.time()}.", "", ".. list-table::", "   :header-rows: 1"]
        lines += [f"   :widths: {WIDTHS}", "", *_row("claim", "paper", "found", "verdict")]
        for claim in one.claims:
            lines += _row(claim.what, claim.paper or "–", claim.found, claim.status)
        lines.append("")
        if one.name in FIGURES:
            caption = _escape(FIGURES[one.name].caption)
            lines += [f".. figure:: generated/papers/{one.name}.svg", f"   :alt: {caption}", "", f"   {caption}", ""]
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> list[str]:
    return [f"   {'*' if k == 0 else ' '} - {_escape(cell)}" for k, cell in enumerate(cells)]


def _escape(text: str) -> str:
    """Return text in which no character has a meaning in reStructuredText; bars of norms would begin substitutions."""
    return "".join(f"\\{one}" if one in "\\*`|_" else one for one in text)


def insert(text: str, results: str) -> str:
    """Return the text of a page with the results in place of those between its two comments."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise FormatError(PAGE, Description("no such comments"), f"the lines {BEGIN.strip()!r} and {END.strip()!r}")
    return f"{before}{begin}\n{results}\n{end}{after}"


def main() -> None:
    """Write the results to the page of the documentation."""
    PAGE.write_text(insert(PAGE.read_text(encoding="utf-8"), page(list(load().values()))), encoding="utf-8")


if __name__ == "__main__":
    main()
