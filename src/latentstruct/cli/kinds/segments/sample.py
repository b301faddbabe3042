"""Sentences in which names of people, places and companies are marked as spans."""

import json

import numpy as np

from latentstruct.cli.kinds.chain.sample import N_SENTENCES, NAMES, SENTENCES, fill
from latentstruct.cli.packing import lines_as_bytes


def make_example(seed: int) -> bytes:
    """Return JSON lines, one per sentence, with tokens and spans."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(N_SENTENCES):
        tokens: list[str] = []
        spans = []
        for word in SENTENCES[rng.integers(len(SENTENCES))].split():
            said = [token for token, _ in fill(word, rng)]
            if word in NAMES:
                spans.append((len(tokens), len(tokens) + len(said), word))
            tokens += said
        lines.append(json.dumps({"tokens": tokens, "spans": spans}))
    return lines_as_bytes(lines)
