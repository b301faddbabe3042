"""Messages of the library in the words of the command: its options instead of the arguments of functions."""

import re
from collections.abc import Callable

OPTIONS = {
    "C": "-C",
    "affixes": "--affixes",
    "bias": "--bias",
    "label": "--label",
    "max_rounds": "--max-rounds",
    "max_seconds": "--max-seconds",
    "min_count": "--min-count",
    "penalty": "--penalty",
    "tol": "--tol",
    "window": "--window",
    "zero_based": "--zero-based",
}
PROTEIN_ONLY = "EFIJLOPQZ*"
AMBIGUOUS = "BDHKMRSVWY"

_NAME = rf"(?P<name>{'|'.join(OPTIONS)})"


def _option(match: re.Match[str]) -> str:
    return match[0].replace(match["name"], OPTIONS[match["name"]])


def _letter(match: re.Match[str]) -> str:
    """Return the cure for a letter that DNA has not."""
    letter = match["letter"].upper()
    cure = "replace other letters by N"
    if letter in PROTEIN_ONLY:
        cure = "is this protein? Motifs are found in DNA only"
    elif letter == "U":
        cure = "is this RNA? Replace U by T"
    elif letter in AMBIGUOUS:
        cure = f"replace ambiguous letters such as {letter} by N, and if this is protein, give DNA instead"
    return match["found"] + cure


REWORDINGS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (rf"^{_NAME}(?= must | is -?\d| is '.*', but | was asked for)", _option),
        (rf"\b(?:set|expected) {_NAME} to\b", _option),
        (r"give a larger n_features or remove the feature$", "remove the feature, or train on data that has it"),
        (r"give the features, or n_features if all of them are zero$", "give the features"),
        (r"or ask for zero_based=True$", "or, for classes, train with --zero-based"),
        (r"\b(give|correct) data_home\b", r"\1 --data-home"),
        (r"use solver='auto'", "use --solver auto"),
        (r"the inputs or C are too large", "the inputs or -C are too large"),
        (r"^training stopped early \(max_", "training stopped early (--max-"),
        (r"or lower C\.$", "or lower -C."),
        (
            r"try more restarts, better first latents \(init, H or coef_init\) or a larger C$",
            "try a larger -C or, for a motif, more --restarts or another --start",
        ),
        (
            r"(?P<found>found '(?P<letter>.)' in column \d+; expected the letters ACGTN of either case: )"
            r"replace other letters by N$",
            _letter,
        ),
    )
)


def in_words_of_the_command(message: str) -> str:
    """Return a message of the library with options instead of arguments."""
    for pattern, words in REWORDINGS:
        message = pattern.sub(words, message)
    return message
