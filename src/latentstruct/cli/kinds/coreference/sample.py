"""Short stories with names of people and things, pronouns and nouns."""

import numpy as np

from latentstruct.cli.packing import lines_as_bytes

N_STORIES = 40
CAST = {
    "W": ("Anna Berg", "Mrs. Hale", "Clara Winter", "Lucy Moreau"),
    "M": ("John Brandt", "Mr. Silva", "Otto Lindqvist", "Captain Reed"),
    "T": ("lamp", "boat", "letter", "old clock"),
    "U": ("garden", "picture", "small box", "map"),
}
"""A woman, a man, and two things of a story."""
PARTS = (
    "W met M near the:U .|He:M gave her:W a:T .|She:W put the:T beside the:U .|M saw it:T , and she:W laughed .",
    "M bought a:T .|He:M showed the:T to W .|She:W said that it:T was too old .|M left the:T in the:U .",
    "W waited beside the:U .|When M came , she:W questioned him:M about the:T .|M said that W had it:T .",
    "M wrote to W about the:U .|She:W answered him:M at once .|W loved the:U , but he:M loved the:T .",
)
"""A letter is a name of the cast; the text before a colon replaces it, or is its article."""


def make_example(seed: int) -> bytes:
    """Return documents in CoNLL-2012 columns, mentions and their clusters in brackets in the last."""
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(1, N_STORIES + 1):
        cast = {role: names[rng.integers(len(names))] for role, names in CAST.items()}
        name = f"story{number:02d}"
        lines.append(f"#begin document ({name}); part 000")
        for part in rng.permutation(len(PARTS))[: rng.integers(1, len(PARTS) + 1)]:
            for sentence in PARTS[part].split("|"):
                cells = [cell for word in sentence.split() for cell in mention(word, cast)]
                lines += ["\t".join((name, "0", str(k), *cell)) for k, cell in enumerate(cells)]
                lines.append("")
        lines.append("#end document")
    return lines_as_bytes(lines)


def mention(pattern: str, cast: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return word, part of speech (unknown) and brackets of the tokens for a word of a pattern."""
    said, _, role = pattern.rpartition(":")
    if role not in cast:
        return [(pattern, "-", "-")]
    words = [said] if said.lower() in ("he", "she", "him", "her", "it") else [*said.split(), *cast[role].split()]
    cluster = list(cast).index(role)
    brackets = [""] * len(words)
    brackets[0] += f"({cluster}"
    brackets[-1] += ")" if len(words) == 1 else f"{cluster})"
    return [(word, "-", bracket or "-") for word, bracket in zip(words, brackets, strict=True)]
