"""All sites of a motif in a genome: letters per second and memory of the command, against a scan with NumPy."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import Line, cpu
from latentstruct.io import MemeMotif, write_meme
from latentstruct.io.fasta import sequence_blocks
from latentstruct.tasks.motif.scanning import MatrixScanner

WIDTH, P_VALUE, PIECE = 12, 1e-5, 600_000
LETTERS = np.frombuffer(b"ACGT", dtype=np.uint8)
SCAN = "import sys; from latentstruct.cli import main; sys.argv[0] = 'latentstruct'; main()"


def write_genome(path: Path, n_letters: int, rng: np.random.Generator) -> None:
    """Write one random chromosome in lines of 60 letters, piece by piece: processes inherit the peak of memory."""
    with path.open("wb") as file:
        file.write(b">chr1\n")
        for _ in range(n_letters // PIECE):
            lines = LETTERS[rng.integers(0, 4, (PIECE // 60, 60), dtype=np.uint8)]
            file.write(np.hstack([lines, np.full((len(lines), 1), ord("\n"), dtype=np.uint8)]).tobytes())


def scan_with_numpy(scanner: MatrixScanner, path: Path) -> int:
    """Return the number of hits, found with one addition of arrays per position and strand."""
    found = 0
    for block in sequence_blocks(path, scanner.width - 1):
        letters = np.minimum(block.letters, 3)
        n = len(letters) - scanner.width + 1
        for matrix in (scanner.scores, scanner.scores[::-1, ::-1]):
            sums = np.zeros(n, dtype=np.int64)
            for j, row in enumerate(matrix):
                sums += row[letters[j : j + n]]
            found += int(np.count_nonzero(sums >= scanner.least))
    return found


def command_memory(meme: Path, genome: Path) -> float:
    """Return the largest memory of the command, in MB."""
    arguments = [sys.executable, "-c", SCAN, "scan", meme, genome, "-o", genome.with_suffix(".bed"), "-q"]
    process = subprocess.Popen([*map(str, arguments), "--p-value", str(P_VALUE)])
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"scan ended with status {status}")
    return usage.ru_maxrss / 1024


def run(quick: bool = False) -> list[Line]:
    """Compare the scan of both strands, and the memory for genomes of different sizes."""
    sizes = (3_000_000, 12_000_000) if quick else (12_000_000, 120_000_000)
    rng = np.random.default_rng(0)
    motif = MemeMotif("m", rng.dirichlet(0.3 * np.ones(4), WIDTH), np.full(4, 0.25), 100)
    with tempfile.TemporaryDirectory() as folder:
        meme, genome = Path(folder) / "m.meme", Path(folder) / "genome.fa"
        write_meme(meme, [motif], 2)
        memory = []
        for size in sizes:
            write_genome(genome, size, rng)
            memory.append(command_memory(meme, genome))
        # The peer on the smaller genome, both per letter.
        write_genome(genome, sizes[0], rng)
        scanner = MatrixScanner(motif, P_VALUE)
        ours, hits = cpu(
            lambda: sum(1 for _ in MatrixScanner(motif, P_VALUE).scan(sequence_blocks(genome, WIDTH - 1))), 3
        )
        peer, expected = cpu(lambda: scan_with_numpy(scanner, genome))
        assert hits == expected, (hits, expected)
    speed = f"{sizes[0] / 1e6 / ours:.0f} Mb/s, both strands, {hits} sites"
    used = ", ".join(f"{size / 1e6:g} Mb: {found:.0f} MB" for size, found in zip(sizes, memory, strict=True))
    return [Line("scan of a genome for a motif", ours, peer, "NumPy", 0.2, f"{speed}; memory of the command {used}")]
