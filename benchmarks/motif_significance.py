"""Significance of motifs: p-values of random sequences, and how often planted motifs are found.

``python -m benchmarks.motif_significance`` does everything; ``null``, ``two`` and sizes such as ``150x100`` are parts.
With ``--docs`` the rows of the table of the documentation, one for each size, are replaced by the results.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
from scipy import stats

from latentstruct.cli.kinds.motif.command import MotifOptions
from latentstruct.cli.kinds.motif.files import MotifData
from latentstruct.cli.kinds.motif.search import SIGNIFICANT, MotifSearch
from latentstruct.data.alphabets import DNA
from latentstruct.io import Sequences
from latentstruct.progress.display import Progress
from latentstruct.tasks.motif.sites import reverse_complement

WIDTH, MUTATION = 10, 0.1
NULL_SETS, SETS = 500, 20
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
SIZES = ((50, 100), (150, 50), (150, 100), (150, 200), (500, 100))
"""Numbers of sequences of each class, and their lengths."""
TABLE = Path(__file__).parents[1] / "docs" / "kinds" / "motif_power.csv"


def make_data(rng: np.random.Generator, n: int, length: int, share: float) -> MotifData:
    """Return random sequences; a share of the positive ones has a motif with some mutations on either strand."""
    X = ["".join(rng.choice(list("ACGT"), length)) for _ in range(2 * n)]
    motif = rng.choice(list("ACGT"), WIDTH)
    for i in range(round(share * n)):
        letters = np.where(rng.random(WIDTH) < MUTATION, rng.choice(list("ACGT"), WIDTH), motif)
        site = "".join(letters) if rng.random() < 0.5 else reverse_complement("".join(letters))
        at = int(rng.integers(0, length - WIDTH + 1))
        X[i] = X[i][:at] + site + X[i][at + WIDTH :]
    positive, negative = (
        Sequences([f"{name}{i}" for i in range(n)], [""] * n, part) for name, part in (("p", X[:n]), ("n", X[n:]))
    )
    return MotifData(positive, negative, None, DNA)


def p_values(n: int, length: int, share: float, n_sets: int) -> np.ndarray:
    """Return the p-values of the motifs found in some data sets, by the defaults of the command."""
    found = []
    for seed in range(n_sets):
        data = make_data(np.random.default_rng([seed, n, length, round(100 * share)]), n, length, share)
        search = MotifSearch(MotifOptions(data=None, positive="planted.fa", seed=seed), data, 1.0)
        search.run(Progress(quiet=True))
        found.append(search.tests[0].enrichment.p_value)
    return np.array(found)


def show_null() -> None:
    """Print the distribution of the p-values without a motif."""
    null = p_values(300, 40, 0.0, NULL_SETS)
    test = stats.kstest(null, "uniform")
    print(f"no motif, {NULL_SETS} sets of 300 + 300 x 40: KS {test.statistic:.3f}, p {test.pvalue:.2f},", end=" ")
    print(", ".join(f"{100 * np.mean(null <= level):.1f} % <= {level}" for level in (0.01, 0.05, 0.1, 0.5)), flush=True)


def show_power(n: int, length: int) -> list[str]:
    """Print the share of significant motifs for each share of sequences with a site; return the row of the table."""
    began = time.process_time()
    found = [f"{np.mean(p_values(n, length, share, SETS) <= SIGNIFICANT):.2f}" for share in SHARES]
    shown = ", ".join(f"{100 * share:g} %: {power}" for share, power in zip(SHARES, found, strict=True))
    print(f"{n} + {n} x {length}: {shown} ({time.process_time() - began:.0f} CPU s)", flush=True)
    return [size_name(n, length), *found]


def size_name(n: int, length: int) -> str:
    """Return the first column of the table."""
    return f"{n} + {n}, {length} letters"


def write_row(row: list[str]) -> None:
    """Replace one row of the table of the documentation."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        known = {cells[0]: cells for cells in csv.reader(file)}
    known[row[0]] = row
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows(known[name] for size in SIZES if (name := size_name(*size)) in known)


def two_motifs(seed: int, n: int = 500, length: int = 100, share: float = 0.3) -> list[str]:
    """Return how much of each of two planted motifs is found, each in its own share of the positive sequences."""
    rng = np.random.default_rng([seed, 2])
    data = make_data(rng, n, length, 0.0)
    motifs = [rng.choice(list("ACGT"), WIDTH) for _ in range(2)]
    X = data.positive.sequences
    for i in range(round(2 * share * n)):
        letters = np.where(rng.random(WIDTH) < MUTATION, rng.choice(list("ACGT"), WIDTH), motifs[i % 2])
        site = "".join(letters) if rng.random() < 0.5 else reverse_complement("".join(letters))
        at = int(rng.integers(0, length - WIDTH + 1))
        X[i] = X[i][:at] + site + X[i][at + WIDTH :]
    options = MotifOptions(data=None, positive="planted.fa", motifs="auto", seed=seed)
    search = MotifSearch(options, data, 1.0)
    search.run(Progress(quiet=True))
    significant = [test for test in search.tests if test.e_value(search.n_tests) <= SIGNIFICANT]
    return ["".join(motif) for motif in motifs if any(_agree(motif, test.consensus) for test in significant)]


def _agree(motif: np.ndarray, letters: str) -> bool:
    """Whether at least seven letters of a motif stand in a consensus at one shift, on either strand."""
    word = "".join(motif)
    padded = "-" * WIDTH + letters + "-" * WIDTH
    return any(
        sum(a == b for a, b in zip(one, padded[shift:], strict=False)) >= WIDTH - 3
        for one in (word, reverse_complement(word))
        for shift in range(len(padded) - WIDTH + 1)
    )


def show_two() -> None:
    """Print in how many of ten data sets both of two motifs are found."""
    counts = [len(two_motifs(seed)) for seed in range(10)]
    print(f"two motifs, 30 % each of 500 + 500 x 100: both found in {counts.count(2)} of 10 sets", flush=True)


def main() -> None:
    """Print all results, or some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["null", "two", *(f"{n}x{length}" for n, length in SIZES)])
    parser.add_argument("--docs", action="store_true")
    given = parser.parse_args()
    for part in given.parts:
        if part == "null":
            show_null()
        elif part == "two":
            show_two()
        else:
            n, length = map(int, part.split("x"))
            row = show_power(n, length)
            if given.docs:
                write_row(row)


if __name__ == "__main__":
    main()
