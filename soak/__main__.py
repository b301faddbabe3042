"""Run cases until the time is over, and tell what was found."""

import argparse
import os
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from soak.cases import Outcome, draw_case, run_case
from soak.workers import Worker

LIMIT = 300.0
"""Seconds that a case may take before it counts as hanging: the first ones may compile kernels on a busy machine."""


def soak(minutes: float, start: int, limit: float) -> list[Outcome]:
    """Run the cases from a seed on until the time is over."""
    until, seed, outcomes = time.monotonic() + 60.0 * minutes, start, []
    worker = Worker()
    while time.monotonic() < until:
        found = worker.run(seed, limit)
        if isinstance(found, str):
            found = replace(draw_case(seed)[-1], end="failed", message=found)
            worker = Worker()
        outcomes.append(found)
        if found.end == "failed":
            show_failure(found)
        seed += 1
    worker.close()
    return outcomes


def show_failure(outcome: Outcome) -> None:
    """Print a failure."""
    print(f"FAILED seed {outcome.seed}: {outcome.message}\n    {outcome.description}", flush=True)


def show_counts(outcomes: list[Outcome]) -> None:
    """Print how many cases there were of everything."""
    for subject in ("task", "estimator", "solver", "fault"):
        counts: dict[str, Counter[str]] = {}
        for outcome in outcomes:
            if subject in outcome.names:
                counts.setdefault(outcome.names[subject], Counter())[outcome.end] += 1
        print(f"\n{subject:26s} passed  refused   failed")
        for name, ends in sorted(counts.items()):
            print(f"  {name:24s} {ends['passed']:6d}   {ends['refused']:6d}   {ends['failed']:6d}")
    refusals = Counter(outcome.message[:100] for outcome in outcomes if outcome.end == "refused")
    print("\nrefused most often:")
    for message, count in refusals.most_common(8):
        print(f"  {count:6d}  {message}")


def repeat(seed: int) -> int:
    """Run one case here, where a debugger can look at it."""
    outcome = run_case(seed)
    print(f"seed {seed}: {outcome.end} {outcome.message}\n{outcome.description}")
    if outcome.end == "failed":
        print(outcome.details)
    return int(outcome.end == "failed")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("--seed", type=int, help="run the case of this seed only, and tell all of it")
    parser.add_argument("--start", type=int, help="the first seed (default: a random one)")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds a case may take (default: {LIMIT:g})")
    chosen: Any = parser.parse_args(arguments)
    # Processes on one core each: threads of BLAS would only wait.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if chosen.seed is not None:
        return repeat(chosen.seed)
    start = int(np.random.default_rng().integers(10**9)) if chosen.start is None else chosen.start
    print(f"cases from seed {start} on; python -m soak --seed S repeats one of them", flush=True)
    outcomes = soak(chosen.minutes, start, chosen.limit)
    show_counts(outcomes)
    failures = [outcome for outcome in outcomes if outcome.end == "failed"]
    print(f"\n{len(outcomes)} cases, {len(failures)} failed")
    for outcome in failures:
        show_failure(outcome)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
