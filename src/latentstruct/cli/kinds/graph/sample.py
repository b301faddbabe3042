"""Pages of web sites that link to each other; the subject of many is unknown."""

import json
from typing import Any

import numpy as np

from latentstruct.cli.packing import lines_as_bytes

WORDS = {
    "sport": ("match", "team", "score", "coach"),
    "music": ("song", "band", "stage", "choir"),
    "travel": ("train", "hotel", "coast", "map"),
}
N_SITES, N_PAGES = 40, 12
OWN_WORDS, UNKNOWN, LINKS_WITHIN = 0.4, 0.4, 0.85


def make_example(seed: int) -> bytes:
    """Return JSON lines, one per site: pages with words and subjects, null if unknown, and links as edges."""
    rng = np.random.default_rng(seed)
    sites = (make_site(f"site{k:02d}", rng) for k in range(1, N_SITES + 1))
    return lines_as_bytes(json.dumps(site) for site in sites)


def make_site(name: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return one site; pages that link to each other mostly have one subject."""
    subjects = list(WORDS)
    of_page = np.sort(rng.integers(0, len(subjects), N_PAGES))
    everything = [word for words in WORDS.values() for word in words]
    nodes = []
    for subject in of_page:
        counts: dict[str, int] = {}
        for _ in range(3):
            words = WORDS[subjects[subject]] if rng.random() < OWN_WORDS else everything
            word = words[rng.integers(len(words))]
            counts[word] = counts.get(word, 0) + 1
        nodes.append({"features": counts, "label": None if rng.random() < UNKNOWN else subjects[subject]})
    edges = set()
    for page in range(1, N_PAGES):
        like = np.flatnonzero(of_page[:page] == of_page[page])
        others = like if len(like) and rng.random() < LINKS_WITHIN else np.arange(page)
        edges.add((int(rng.choice(others)), page))
    return {"id": name, "nodes": nodes, "edges": sorted(map(list, edges))}
