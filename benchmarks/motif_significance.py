"""Significance of motifs: p-values of random sequences, and how often planted motifs are found."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from latentstruct.cli.kinds.motif.command import MotifOptions
from latentstruct.cli.kinds.motif.files import MotifData
from latentstruct.cli.kinds.motif.search import SIGNIFICANT, MotifSearch
from latentstruct.io import Sequences
from latentstruct.progress.display import Progress
from latentstruct.tasks.motif.sites import reverse_complement

WIDTH, MUTATION = 10, 0.1
NULL_SETS, SETS = 500, 20
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
SIZES = ((150, 100), (500, 100), (500, 500))
"""Numbers of sequences of each class, and their lengths."""


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
    return MotifData(positive, negative, None)


def p_values(n: int, length: int, share: float, n_sets: int) -> np.ndarray:
    """Return the p-values of the motifs found in some data sets, by the defaults of the command."""
    found = []
    for seed in range(n_sets):
        data = make_data(np.random.default_rng([seed, n, length, round(100 * share)]), n, length, share)
        search = MotifSearch(MotifOptions(data=None, positive="planted.fa", seed=seed), data, 1.0)
        search.run(Progress(quiet=True))
        found.append(search.tests[0].enrichment.p_value)
    return np.array(found)


def main(sizes: Sequence[tuple[int, int]] = SIZES) -> None:
    """Print the distribution of p-values without a motif, and the share of significant motifs."""
    null = p_values(300, 40, 0.0, NULL_SETS)
    test = stats.kstest(null, "uniform")
    print(f"no motif, {NULL_SETS} sets of 300 + 300 x 40: KS {test.statistic:.3f}, p {test.pvalue:.2f},", end=" ")
    print(", ".join(f"{100 * np.mean(null <= level):.1f} % <= {level}" for level in (0.01, 0.05, 0.1, 0.5)))
    for n, length in sizes:
        shares = [
            f"{100 * share:g} %: {np.mean(p_values(n, length, share, SETS) <= SIGNIFICANT):.2f}" for share in SHARES
        ]
        print(f"{n} + {n} x {length}: {', '.join(shares)}", flush=True)


if __name__ == "__main__":
    main()
