"""Results of a trained motif: sites, matrix and consensus."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.parameters import check_is_fitted
from latentstruct.core.validation import check_length, real
from latentstruct.data.alphabets import DNA, Alphabet
from latentstruct.exceptions import Description, InputError
from latentstruct.io.fasta import STRANDS, Sequences
from latentstruct.io.meme import check_probabilities
from latentstruct.tasks.motif.task import Motif

__all__ = [
    "Site",
    "best_matches",
    "common_shift",
    "consensus",
    "find_sites",
    "mask_sites",
    "reverse_complement",
    "site_matrix",
    "strongest_words",
    "weight_matrix",
]

_COMPLEMENT = str.maketrans("ACGTNacgtn", "TGCANtgcan")


class Site(NamedTuple):
    """The best window of a sequence.

    Attributes
    ----------
    sequence : str
        Name of the sequence.
    start, end : int
        The window has the letters start … end − 1, counted from 0 on the given strand.
    strand : int
        +1 if the motif is read on the given strand, −1 if on the other one; 0 for proteins.
    score : float
        w·φ'(x, +1, h); the sequence is predicted positive if it is above 0.
    site : str
        The letters of the window as the motif reads them.
    """

    sequence: str
    start: int
    end: int
    strand: int
    score: float
    site: str

    @property
    def sign(self) -> str:
        """The strand in files."""
        return STRANDS[self.strand]


def reverse_complement(sequence: str) -> str:
    """Return the other strand of a DNA sequence, in its own reading direction."""
    return sequence.translate(_COMPLEMENT)[::-1]


def _motif_task(model: Any) -> Motif:
    check_is_fitted(model, "coef_")
    task = getattr(model, "task_", None)
    if not isinstance(task, Motif):
        raise InputError("model", model, "an estimator with a Motif task, such as LatentSSVM(Motif(width=11))")
    return task


def find_sites(model: Any, sequences: Sequence[str] | Sequences, names: Sequence[str] | None = None) -> list[Site]:
    """Return the best window of each sequence, whether the sequence is predicted positive or not.

    Parameters
    ----------
    model : estimator
        A trained estimator with a `Motif` task.
    sequences : list of str or Sequences
        The sequences.
    names : list of str, optional
        Their names; by default those of `sequences`, or their numbers from 1.

    Returns
    -------
    list of Site
        One per sequence, in the same order.
    """
    task = _motif_task(model)
    if isinstance(sequences, Sequences):
        names = sequences.names if names is None else names
        sequences = sequences.sequences
    if names is None:
        names = [str(i) for i in range(1, len(sequences) + 1)]
    check_length(names, len(sequences), "names", "names")
    batch = task.prepare(sequences)
    scores, starts, strands = task.best_windows(batch, model.coef_)
    scores += task.word_scores(batch, model.coef_)
    sites = []
    for i, (score, start, strand) in enumerate(zip(scores.tolist(), starts.tolist(), strands.tolist(), strict=True)):
        end = start + int(task.width)
        window = sequences[i][start:end].upper()
        letters = window if strand > 0 else reverse_complement(window)
        sites.append(Site(names[i], start, end, strand if task.alphabet_.strands == 2 else 0, score, letters))
    return sites


def mask_sites(model: Any, sequences: Sequence[str], threshold: float = 0.0) -> list[str]:
    """Return the sequences with the unknown letter in place of all windows that score above a threshold.

    A sequence that would have no window left is not changed.
    """
    task = _motif_task(model)
    width, alphabet = int(task.width), task.alphabet_
    masked = []
    for sequence, scores in zip(sequences, task.window_scores(task.prepare(sequences), model.coef_), strict=True):
        letters = np.frombuffer(sequence.encode("ascii"), dtype=np.uint8).copy()
        for start in np.flatnonzero((scores > threshold).any(axis=0)).tolist():
            letters[start : start + width] = ord(alphabet.unknown)
        text = letters.tobytes().decode("ascii")
        masked.append(text if alphabet.longest_known(text) >= width else sequence)
    return masked


def site_matrix(
    site_sequences: Sequence[str], pseudocount: float = 1.0, alphabet: Alphabet = DNA
) -> NDArray[np.float64]:
    """Return the letter probabilities (width, a) of aligned sites: (counts + pseudocount/a) / (n + pseudocount).

    Parameters
    ----------
    site_sequences : list of str
        Sites of equal length; an unknown letter counts for none.
    pseudocount : float, default=1.0
        Letters added to each position, as many of each of the a kinds.
    alphabet : Alphabet
        The letters, by default those of DNA.
    """
    if len(site_sequences) == 0:
        raise InputError("site_sequences", Description("none"), "at least one site")
    real(0.0).check(pseudocount, "pseudocount")
    width, size = len(site_sequences[0]), alphabet.size
    counts, given = np.zeros((width, size + 1)), alphabet.letters + alphabet.unknown
    for i, site in enumerate(site_sequences):
        if len(site) != width or width == 0:
            raise InputError(f"site_sequences[{i}]", site, f"as long as the first site ({width} letters), not empty")
        letters = [given.find(letter) for letter in site.upper()]
        if -1 in letters:
            hint = f"Replace other letters by {alphabet.unknown}."
            raise InputError(f"site_sequences[{i}]", site, f"a string of the letters {given}", hint)
        counts[np.arange(width), letters] += 1
    smoothed = counts[:, :size] + pseudocount / size
    return smoothed / smoothed.sum(axis=1, keepdims=True)


def consensus(matrix: Any) -> str:
    """Return the consensus of letter probabilities (width, 4) or (width, 20) in IUPAC letters.

    A letter stands alone if its probability is above a half and more than twice the next one's. Two letters that have
    more than three quarters between them are one if there is a letter for both, such as R of DNA or B of proteins.
    Everything else is N or X (Cavener 1987).
    """
    letters = []
    rows, alphabet = check_probabilities(matrix, "matrix")
    for row in rows:
        order = np.argsort(-row, kind="stable")
        first, second = row[order[0]], row[order[1]]
        if first > 0.5 and first > 2 * second:
            letters.append(alphabet.letters[order[0]])
        else:
            pair = "".join(sorted(alphabet.letters[k] for k in order[:2]))
            letters.append(alphabet.pairs.get(pair, alphabet.unknown) if first + second > 0.75 else alphabet.unknown)
    return "".join(letters)


def strongest_words(model: Any, top: int = 10) -> list[tuple[str, float]]:
    """Return words beside the motif with the largest weights, and these weights; a dot is a letter that is not read."""
    task = _motif_task(model)
    weights = model.coef_[task.first_word_ :]
    chosen = np.argsort(-np.abs(weights), kind="stable")[:top]
    return [(task.words_.name(k), float(weights[k])) for k in chosen.tolist() if weights[k] != 0]


def weight_matrix(model: Any) -> NDArray[np.float64]:
    """Return the position-specific weights of a trained motif, shape (width, letters of the alphabet)."""
    return _motif_task(model).matrix(model.coef_).copy()


def common_shift(starts: NDArray[np.int64], true_starts: NDArray[np.int64], widest: int) -> int:
    """Return the shift of at most `widest` letters that brings most starts to the true ones.

    A window one letter further on describes the same motif equally well, so a model may converge to either.
    """
    shifts = sorted(range(-widest, widest + 1), key=abs)
    return max(shifts, key=lambda shift: int((starts + shift == true_starts).sum()))


def best_matches(sequences: list[str], word: str) -> NDArray[np.int64]:
    """Return where each sequence agrees with a word in most letters."""
    letters = np.frombuffer(word.encode(), dtype=np.uint8)
    places = []
    for sequence in sequences:
        text = np.frombuffer(sequence.encode(), dtype=np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(text, len(word))
        places.append(int((windows == letters).sum(axis=1).argmax()))
    return np.array(places)
