"""Motifs in real sequences: ChIP-seq peaks of Klf1 against the known matrix, and the known sites of CRP and LexA."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.io import read_meme

COMMAND = "import sys; from latentstruct.cli import main; sys.argv[0] = 'latentstruct'; main()"
CRP_SITE = 22
"""Letters of a site of CRP; the headers have where sites start."""


def command(*arguments: Any) -> str:
    """Run the command and return its output."""
    called = [sys.executable, "-c", COMMAND, *map(str, arguments)]
    return subprocess.run(called, check=True, capture_output=True, text=True).stdout


def likeness(matrix: NDArray[np.float64], known: NDArray[np.float64]) -> tuple[float, int]:
    """Return the largest correlation of two matrices over shifts and strands, and the columns that are compared."""
    best = (-1.0, 0)
    for one in (matrix, matrix[::-1, ::-1]):
        for shift in range(6 - len(known), len(one) - 5):
            low, high = max(0, shift), min(len(one), shift + len(known))
            if high - low < 6:
                continue
            pairs = one[low:high].ravel(), known[low - shift : high - shift].ravel()
            best = max(best, (float(np.corrcoef(*pairs)[0, 1]), high - low))
    return best


def show_peaks(data: Path, folder: Path) -> None:
    """Find motifs in peaks against shuffled peaks."""
    model = folder / "klf1"
    options = ("--skip-bad", "--width", "auto", "--motifs", "auto", "--json", "-q")
    result = json.loads(command("train", "motif", "--positive", data / "Klf1.fna.gz", *options, "-o", model))
    (known,) = read_meme(data / "Klf1.meme.gz")
    for motif, found in zip(read_meme(model / "motif.meme"), result["motifs"], strict=True):
        correlation, columns = likeness(motif.matrix, known.matrix)
        print(f"Klf1 peaks: {found['consensus']}, {found['significance']}; ", end="")
        print(f"correlation with {known.name} {correlation:.2f} over {columns} columns")


def show_sites(data: Path, folder: Path) -> None:
    """Find the sites of CRP and LexA."""
    with gzip.open(data / "crp0.fna.gz", "rt") as file:
        headers = [line[1:].split() for line in file if line.startswith(">")]
    rows = [
        f"{name}\t{int(start) - 1}\t{min(105, int(start) - 1 + CRP_SITE)}"
        for name, *starts in headers
        for start in starts
    ]
    (folder / "sites.tsv").write_text("\n".join(["sequence\tstart\tend", *rows, ""]))
    for name, width in (("crp0", "auto"), ("crp0", 16), ("crp0", 22), ("lex0", "auto")):
        model, sequences = folder / f"{name}{width}", data / f"{name}.fna.gz"
        result = json.loads(command("train", "motif", "--positive", sequences, "--width", width, "--json", "-o", model))
        print(f"{name}, width {width}: {result['motifs'][0]['consensus']}", end="")
        if name == "crp0":
            # Negative sequences are needed, but do not change which sites are hit.
            given = ("--positive", sequences, "--negative", data / "lex0.fna.gz", "--sites", folder / "sites.tsv")
            scores = json.loads(command("evaluate", model, *given, "--json"))
            print(f", {round(scores['sites_hit'] * scores['n_known_sites'])} of {scores['n_known_sites']} hit", end="")
        print()


def main() -> None:
    """Print what is found in the folder motif_fasta of ``LATENTSTRUCT_DATA``."""
    data = Path(os.environ["LATENTSTRUCT_DATA"]) / "motif_fasta"
    with tempfile.TemporaryDirectory() as folder:
        show_peaks(data, Path(folder))
        show_sites(data, Path(folder))


if __name__ == "__main__":
    main()
