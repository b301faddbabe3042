"""Motifs in real sequences: ChIP-seq peaks of Klf1 against the known matrix, and the known sites of CRP and LexA.

``python -m benchmarks.motif_data`` does everything; ``peaks``, ``sites`` and ``words`` are parts. The last one compares
a motif with words beside it, a motif alone and a linear SVM on words, each on folds of related sequences.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from latentstruct.data.alphabets import DNA
from latentstruct.io import Sequences, read_fasta, read_meme, write_fasta
from latentstruct.io.fasta import FastaRules
from latentstruct.metrics.measures import roc_area
from latentstruct.tasks.motif.background import match_negatives, shuffle_sequences
from latentstruct.tasks.motif.task import numbered_letters
from latentstruct.tasks.motif.words import GappedWords
from latentstruct_papers.datasets import load_uci_promoters, load_yeast_ars
from latentstruct_papers.motif_data import fold_groups, related_groups

COMMAND = "import sys; from latentstruct.cli import main; sys.argv[0] = 'latentstruct'; main()"
N_FOLDS = 3
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


def labeled_sets(data: Path) -> Iterator[tuple[str, list[str], NDArray[np.int64], tuple[Any, ...]]]:
    """Yield names, sequences, labels and options of training."""
    every = read_fasta(data / "Klf1.fna.gz", FastaRules(skip_bad=True)).sequences
    peaks = [x for x in every if DNA.longest_known(x) >= 9]
    y = np.repeat([1, -1], len(peaks))
    yield "Klf1 peaks", peaks + shuffle_sequences(peaks), y, ("--width", 9, "--kmers", 6)
    yeast = load_yeast_ars(None)
    for kind, group in (("length", None), ("length and GC", "CG")):
        positive, pool = yeast.positives.sequences, yeast.negatives.sequences
        matched = match_negatives(positive, pool, group, np.random.default_rng(0)).sequences
        y = np.repeat([1, -1], len(positive))
        yield f"yeast origins, matched in {kind}", positive + matched, y, ("--width", 17, "--kmers", 5)
    promoters = load_uci_promoters(None)
    given = ("--width", 17, "--kmers", 5, "--strands", 1)
    yield "promoters", promoters.X, np.asarray(promoters.Y), given


def write_classes(folder: Path, X: list[str], y: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[Any, ...]:
    """Write the sequences of each class; return the options with their names."""
    given: list[Any] = []
    for option, label in (("--positive", 1), ("--negative", -1)):
        letters = [X[i] for i in rows if y[i] == label]
        write_fasta(
            folder / f"{label}.fa", Sequences([f"s{i}" for i in range(len(letters))], [""] * len(letters), letters)
        )
        given += [option, folder / f"{label}.fa"]
    return tuple(given)


def word_svm(X: list[str], y: NDArray[np.int64], train: NDArray[np.int64], options: dict[str, int]) -> Any:
    """Return the scores of a linear SVM on words, whose C is chosen by folds of the sequences trained on."""
    words = GappedWords(options["--kmers"], 0, options.get("--strands", 2), DNA.letters)
    indptr, places, values = words.rows(*numbered_letters(X, DNA))
    matrix = csr_array((values, places.astype(np.int32), indptr.astype(np.int32)), shape=(len(X), words.n_features))
    model = GridSearchCV(LinearSVC(), {"C": np.logspace(-4, 0, 9)}, cv=5).fit(matrix[train], y[train])
    return model.decision_function(matrix)


def show_words(folder: Path) -> None:
    """Compare words beside a motif with a motif alone and with words alone, each with C chosen by folds."""
    for name, X, y, options in labeled_sets(Path(os.environ["LATENTSTRUCT_DATA"]) / "motif_fasta"):
        folds = fold_groups(related_groups(X), y, N_FOLDS, np.random.default_rng(0))
        found: dict[str, list[tuple[float, float]]] = {"motif with words": [], "motif": [], "words": []}
        chosen = []
        known = dict(zip(options[::2], options[1::2], strict=True))
        for k in range(N_FOLDS):
            train, test = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
            for method, kmers in (("motif with words", known["--kmers"]), ("motif", 0)):
                given = {**known, "--kmers": kmers, "-C": "auto", "-o": folder / "model"}
                files = write_classes(folder, X, y, train)
                flat = [part for pair in given.items() for part in pair]
                result = json.loads(command("train", "motif", *files, *flat, "--json", "-q"))
                if kmers:
                    chosen.append(result["chosen_kmer_weight"]["value"])
                scores = json.loads(command("evaluate", folder / "model", *write_classes(folder, X, y, test), "--json"))
                found[method].append((scores["auc"], scores["error"]))
            scores = word_svm(X, y, train, known)[test]
            found["words"].append((roc_area(y[test] > 0, scores), float(np.mean((scores > 0) != (y[test] > 0)))))
        print(f"{name}, weights of words {', '.join(f'{weight:g}' for weight in chosen)}")
        for method, values in found.items():
            area, error = np.mean(values, axis=0)
            spread = np.std(values, axis=0, ddof=1) / np.sqrt(N_FOLDS)
            print(f"  {method}: AUC {area:.3f} ± {spread[0]:.3f}, error {100 * error:.1f} % ± {100 * spread[1]:.1f}")


def main() -> None:
    """Print what is found in the data sets of ``LATENTSTRUCT_DATA``."""
    data = Path(os.environ["LATENTSTRUCT_DATA"]) / "motif_fasta"
    parts = {"peaks": partial(show_peaks, data), "sites": partial(show_sites, data), "words": show_words}
    with tempfile.TemporaryDirectory() as folder:
        for part in sys.argv[1:] or parts:
            parts[part](Path(folder))


if __name__ == "__main__":
    main()
