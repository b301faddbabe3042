"""Run all benchmarks, or those named: ``python -m benchmarks [--quick] [letters decoding latent …]``."""

import argparse
import importlib
from pathlib import Path

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.common import Line
from benchmarks.page import PAGE, keep_results, write_tables
from latentstruct.exceptions import InputError

SUITES = (
    "auto_c",
    "digits",
    "letters",
    "convergence",
    "decoding",
    "growth",
    "paths",
    "chunking",
    "sparse_chunking",
    "latent",
    "starts",
    "propagation",
    "groups",
    "measures",
    "alignment",
    "parsing",
    "motif_scan",
    "own_tasks",
    "programs",
    "tracking",
    "wide_graphs",
    "startup",
    "serving",
    "cold",
    "threads",
    "peers",
    "neural",
    "sweeps",
    "memory_curves",
    "larger_than_memory",
    "dask_scaling",
    "hard_cases",
    "counts",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="which to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="leave out the largest problems")
    parser.add_argument("--write", action="store_true", help="write the counts of the suite counts down again")
    parser.add_argument("--docs", action="store_true", help="write the tables of docs/ from all results so far")
    arguments = parser.parse_args()
    if arguments.write:
        importlib.import_module("benchmarks.counts").write()
    console = Console()
    table = Table("work", "ours (CPU s)", "peer (CPU s)", "ratio", "at most", "reached", title="ours / peer, one run")
    results: dict[str, list[Line]] = {}
    # With --docs alone, only the tables are written.
    for name in arguments.suites or (() if arguments.docs else SUITES):
        suite = importlib.import_module(f"benchmarks.{name}")
        try:
            # CPU time is compared, so idle waiting of BLAS threads must not count; decoding is wall clock.
            with threadpool_limits(limits=None if name == "decoding" else 1):
                lines = suite.run(quick=arguments.quick)
        except InputError as error:
            console.print(f"{name}: left out ({error})")
            continue
        results[name] = lines
        for line in lines:
            mark = "" if line.at_most is None or line.ratio <= line.at_most else " !"
            limit = "–" if line.at_most is None else f"{line.at_most:g}"
            table.add_row(
                line.what,
                f"{line.ours:.3g}",
                f"{line.peer:.3g} ({line.peer_name})",
                f"{line.ratio:.3f}{mark}",
                limit,
                line.reached,
            )
            console.print(f"{line.what}: {line.ratio:.3f} (at most {limit}) {line.reached}")
    console.print(table)
    folder = Path("results")
    kept = keep_results(folder, results)
    if arguments.docs:
        write_tables(kept, Path("docs"))
    console.print(f"all results so far, with the machine described: {folder / PAGE}")


if __name__ == "__main__":
    main()
