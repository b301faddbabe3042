"""Sentences of a small grammar with their trees."""

import numpy as np

from latentstruct.cli.packing import lines_as_bytes

N_TREES = 80
MOST_WORDS = 14
RULES: dict[str, list[tuple[float, str]]] = {
    "S": [(1.0, "NP VP")],
    "NP": [(0.45, "DT NN"), (0.2, "DT JJ NN"), (0.2, "NNP"), (0.15, "NP PP")],
    "VP": [(0.35, "VBD NP"), (0.25, "VBD NP PP"), (0.2, "VBD"), (0.2, "VBD SBAR")],
    "PP": [(1.0, "IN NP")],
    "SBAR": [(1.0, "C S")],
}
WORDS = {
    "DT": "the a every",
    "NN": "dog cat garden telescope child road neighbor picture",
    "JJ": "old small quiet green",
    "NNP": "Anna Otto Clara",
    "VBD": "saw liked painted knew said heard",
    "IN": "with in near behind",
    "C": "that",
}


def make_example(seed: int) -> bytes:
    """Return trees in brackets, one per line."""
    rng = np.random.default_rng(seed)
    trees: list[str] = []
    while len(trees) < N_TREES:
        tree, n_words = derive("S", rng)
        if n_words <= MOST_WORDS:
            trees.append(tree)
    return lines_as_bytes(trees)


def derive(symbol: str, rng: np.random.Generator) -> tuple[str, int]:
    """Return a random tree of a symbol and the number of its words."""
    if symbol in WORDS:
        words = WORDS[symbol].split()
        return f"({symbol} {words[rng.integers(len(words))]})", 1
    chances, bodies = zip(*RULES[symbol], strict=True)
    children = [derive(child, rng) for child in bodies[rng.choice(len(bodies), p=chances)].split()]
    return f"({symbol} {' '.join(text for text, _ in children)})", sum(n for _, n in children)
