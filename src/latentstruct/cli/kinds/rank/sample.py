"""Queries of a library's catalogue with the books that were found."""

import numpy as np

from latentstruct.cli.packing import lines_as_bytes

THINGS = {
    "baking": ("bread", "cake", "salt", "bean", "honey", "apple"),
    "history": ("whale", "bridge", "silk", "tea", "clock", "glass"),
    "keeping": ("bee", "sheep", "dog", "fish", "bird", "horse"),
    "maps": ("river", "road", "star", "city", "coast", "mine"),
}
N_BOOKS = 16
N_FEATURES = 6
"""Words in the title, in the text, in the subject; year, loans, length: each between 0 and 1."""
TELLING = (2.0, 1.4, 1.2, 0.0, 0.5, 0.0)


def make_example(seed: int) -> bytes:
    """Return svmlight lines: the grade, qid, features, and query and book in a comment."""
    rng = np.random.default_rng(seed)
    lines = []
    queries = [f"{thing} {what}" for what, things in THINGS.items() for thing in things]
    for number, query in enumerate(queries, 1):
        values = rng.beta(1.2, 2.0, size=(N_BOOKS, N_FEATURES))
        appeal = values @ TELLING + rng.normal(0.0, 0.25, N_BOOKS)
        order = np.argsort(-appeal)
        grades = np.zeros(N_BOOKS, dtype=int)
        grades[order[:5]], grades[order[:2]] = 1, 2
        for book in range(N_BOOKS):
            pairs = " ".join(f"{k}:{value:.3f}" for k, value in enumerate(values[book], 1))
            comment = f"# docid = book{number:02d}-{book + 1:02d} query = {query}"
            lines.append(f"{grades[book]} qid:{number} {pairs} {comment}")
    return lines_as_bytes(lines)
