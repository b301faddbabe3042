"""Queries whose documents are about different things of the same name."""

import json
from typing import Any

import numpy as np

from latentstruct.cli.packing import lines_as_bytes

SUBTOPICS = {
    "river": "water bank flood bridge fish",
    "film": "actor scene director camera screen",
    "car": "engine wheel speed road driver",
    "plant": "leaf root flower seed soil",
    "music": "song album singer guitar stage",
    "computer": "program memory screen code network",
    "bird": "wing nest feather egg song",
    "town": "street market mayor bridge road",
}
QUERIES = """
    jaguar mercury amazon python orange saturn delta phoenix mustang java lotus eclipse avalon orion ruby atlas
    cricket bass crane swift beetle falcon harrier tulip pearl shell arrow comet meridian willow
"""
SYLLABLES = "ba do ke li mo nu pe ra si to vu za"
"""Of uninformative names, which make documents look richer than they are."""
N_DOCUMENTS, N_SUBTOPICS, N_WORDS, MOST_NAMES = 12, 6, 3, 9


def make_example(seed: int) -> bytes:
    """Return JSON lines, one per query, with documents, their texts and subtopics."""
    rng = np.random.default_rng(seed)
    lines = []
    for query in QUERIES.split():
        chosen = rng.choice(list(SUBTOPICS), N_SUBTOPICS, replace=False)
        # Most documents are about the same two or three subtopics.
        shares = rng.dirichlet(np.full(N_SUBTOPICS, 0.8)) * 0.7 + 0.3 / N_SUBTOPICS
        subtopics = [str(rng.choice(chosen, p=shares)) for _ in range(N_DOCUMENTS)]
        documents = [
            {"id": f"{query}-{number:02d}", "text": write(query, subtopic, rng), "subtopics": [subtopic]}
            for number, subtopic in enumerate(subtopics, 1)
        ]
        lines.append(json.dumps({"query": query, "documents": documents}))
    return lines_as_bytes(lines)


def write(query: str, subtopic: str, rng: np.random.Generator) -> str:
    """Return the text of a document: words of its subtopic among names."""
    words: list[Any] = [query, *rng.choice(SUBTOPICS[subtopic].split(), N_WORDS, replace=False)]
    names = ["".join(rng.choice(SYLLABLES.split(), 3)).capitalize() for _ in range(rng.integers(MOST_NAMES + 1))]
    words += names
    return " ".join(str(words[k]) for k in rng.permutation(len(words)))
