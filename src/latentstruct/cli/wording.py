"""Messages of the library in the words of the command: its options instead of the arguments of functions."""

import re
from collections.abc import Callable

OPTIONS = {
    "C": "-C",
    "affixes": "--affixes",
    "bias": "--bias",
    "cache_mb": "--cache-mb",
    "checkpoint": "--checkpoint",
    "label": "--label",
    "markov": "--markov",
    "max_rounds": "--max-rounds",
    "max_seconds": "--max-seconds",
    "min_count": "--min-count",
    "n_jobs": "--jobs",
    "penalty": "--penalty",
    "splits": "--splits",
    "tol": "--tol",
    "window": "--window",
    "zero_based": "--zero-based",
}

_NAME = rf"(?P<name>{'|'.join(OPTIONS)})"


def _option(match: re.Match[str]) -> str:
    return match[0].replace(match["name"], OPTIONS[match["name"]])


REWORDINGS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (rf"^{_NAME}(?= must | is -?\d| is '.*', but | was asked for)", _option),
        (rf"\b(?:set|expected) {_NAME} to\b", _option),
        (r"give a larger n_features or remove the feature$", "remove the feature, or train on data that has it"),
        (r"give the features, or n_features if all of them are zero$", "give the features"),
        (r"or ask for zero_based=True$", "or, for classes, train with --zero-based"),
        (r"\b(give|correct) data_home\b", r"\1 --data-home"),
        (
            r"or put the sequences of each label into a file of their own$",
            "or give a file of each kind, as --positive FASTA --negative FASTA",
        ),
        (
            r"(is a file, .* model: give the folder that training wrote)$",
            r"\1, before the data if there are any",
        ),
        (r"or choose another folder or None$", "or choose another --cache, or --no-cache"),
        (r"\bsolver='(\w+)'", r"--solver \1"),
        (r"^features='(\w+)' combines\b", r"--features \1 combines"),
        (r"give further tracks, or derived=True$", "give --structure or --accessibility, or --derived"),
        (r"or ask for lemmas if these are such$", "or train with --lemmas if these are such"),
        (r"or give blank=\{-1: '\?'\} if\b", "or train with --unknown '' if"),
        (r"the inputs or C are too large", "the inputs or -C are too large"),
        (r"^no document in Y has\b", "no document has"),
        (
            r"more than most_bytes=\S+: choose 'cosine' or 'distance' only, form smaller groups, or raise most_bytes$",
            "more than is made: choose --relations cosine or distance, or form smaller groups",
        ),
        (r"^training stopped early \(max_", "training stopped early (--max-"),
        (r"or lower C\.$", "or lower -C."),
        (
            r"try more restarts, better initial latents \(init, H or coef_init\) or a larger C$",
            "try a larger -C or, for a motif, more --restarts or another --start",
        ),
    )
)


def in_words_of_the_command(message: str) -> str:
    """Return a message of the library with options instead of arguments."""
    for pattern, words in REWORDINGS:
        message = pattern.sub(words, message)
    return message
