"""Sentences with names of people, places and companies, labeled token by token."""

import numpy as np

from latentstruct.cli.packing import lines_as_bytes

N_SENTENCES = 160
UNKNOWN = "?"
NAMES = {
    "PER": ["Anna Berg", "Jordan Hale", "Jordan", "Paris", "Lincoln Brandt", "Mara Silva", "Otto Lindqvist", "Ines"],
    "LOC": ["Porto", "Paris", "Lincoln", "Jordan", "New Haven", "Lake Vesna", "Oslo", "Berg"],
    "ORG": ["Hale Motors", "Silva & Sons", "Northern Rail", "Vesna Foods", "Lindqvist Group", "Porto Bank"],
}
"""Some words are names of persons and of places; most sentences disambiguate them."""
SENTENCES = [
    "PER moved to LOC last TIME .",
    "PER , who works for ORG , was born in LOC .",
    "Shares of ORG rose after TIME .",
    "ORG will open an office in LOC next TIME .",
    "The mayor of LOC met PER on TIME .",
    "PER informed ORG that the TIME was too short .",
    "Trains from LOC to LOC are run by ORG .",
    "In LOC , PER bought a house .",
    "ORG named PER its new head .",
    "It rained in LOC all TIME .",
    "PER and PER left ORG in TIME .",
    "Nobody expected such a TIME .",
    "PER was in the news .",
    "LOC was in the news .",
    "ORG was in the news .",
]
TIMES = ["spring", "Monday", "winter", "week", "June", "year", "summer", "Friday"]


def make_example(seed: int, missing: float = 0.0) -> bytes:
    """Return sentences in columns: a token and its BIO label per line, a blank line after each sentence.

    A fraction `missing` of the labels is replaced by `UNKNOWN`.
    """
    rng = np.random.default_rng(seed)
    # The sentences do not depend on what is left out.
    blanks = np.random.default_rng([seed, 1])
    lines: list[str] = []
    for _ in range(N_SENTENCES):
        for word in SENTENCES[rng.integers(len(SENTENCES))].split():
            for token, label in fill(word, rng):
                lines.append(f"{token} {UNKNOWN if blanks.random() < missing else label}")
        lines.append("")
    return lines_as_bytes(lines)


def fill(word: str, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Return the tokens for a word of a pattern, with their labels."""
    if word == "TIME":
        return [(TIMES[rng.integers(len(TIMES))], "O")]
    if word not in NAMES:
        return [(word, "O")]
    tokens = NAMES[word][rng.integers(len(NAMES[word]))].split()
    return [(token, f"{'I' if k else 'B'}-{word}") for k, token in enumerate(tokens)]
