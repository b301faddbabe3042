"""Read damaged files with all readers: ``python -m fuzz [--inputs N | --minutes N] [--reader NAME] [--seed S]``.

Each reader gets an equal share. The files are made from small good ones by changes that the seed decides, so that a
finding comes again; its input is kept. The end is 1 if there is any finding.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fuzz.parent import Campaign
from fuzz.registry import all_readers, find_reader

AT_ONCE = 500
"""Inputs of a reader between looks at the clock."""
SHOWN = 300


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--inputs", type=int, default=100_000, help="damaged files in all (default: 100000)")
    amount.add_argument("--minutes", type=float, help="time instead")
    names = list(all_readers())
    parser.add_argument("--reader", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to keep the inputs of findings (default: a temporary one)")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="latentstruct-fuzz-"))
    readers = [find_reader(name) for name in arguments.reader or names]
    campaign = Campaign(folder, arguments.seed)
    console = Console()
    if arguments.minutes is None:
        share = -(-arguments.inputs // len(readers))
        for reader in readers:
            tally = campaign.run(reader, share)
            print(f"{reader.name}: {tally.n_inputs} inputs, {sum(tally.findings.values())} findings", file=sys.stderr)
    else:
        until = time.monotonic() + 60.0 * arguments.minutes
        while time.monotonic() < until:
            for reader in readers:
                campaign.run(reader, AT_ONCE)
    table = Table("reader", "inputs", "read", "refused", "findings", "slowest (CPU s)")
    for tally in campaign.tallies.values():
        counts = (tally.n_inputs, tally.n_read, tally.n_refused, sum(tally.findings.values()))
        table.add_row(tally.reader, *map(str, counts), f"{tally.slowest:.2f}")
    tallies = campaign.tallies.values()
    n_findings = sum(sum(tally.findings.values()) for tally in tallies)
    table.add_section()
    totals = (sum(getattr(tally, name) for tally in tallies) for name in ("n_inputs", "n_read", "n_refused"))
    table.add_row("all", *map(str, totals), str(n_findings), f"{max(tally.slowest for tally in tallies):.2f}")
    console.print(table)
    for tally in tallies:
        for reported, times in tally.findings.most_common():
            console.print(f"{tally.reader}: {times} × {reported[:SHOWN]}", markup=False, highlight=False)
    if n_findings:
        console.print(f"the inputs are in {folder / 'findings'}")
    sys.exit(1 if n_findings else 0)


if __name__ == "__main__":
    main()
