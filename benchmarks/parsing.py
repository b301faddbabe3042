"""CKY on sentences of 25 words with the grammar of a whole treebank, against a limit and against CKY in NumPy."""

from typing import Any

import numpy as np

from benchmarks.common import Line, cpu
from latentstruct.core.protocols import Temperature
from latentstruct.data.trees import tagged_words
from latentstruct.tasks.parsing.arrays import Rules
from latentstruct.tasks.parsing.task import Parsing
from latentstruct_papers.datasets import load_cess_esp

WORDS = 25
LIMIT_SECONDS = 0.020


def numpy_cky(task: Parsing, batch: Any, w: np.ndarray, k: int) -> float:
    """Return the best score of sentence k: all splits of a span and all rules in one array, chains one by one."""
    rules: Rules = task.rules_
    sentences, n_symbols = batch.sentences, len(rules.root)
    first = sentences.offsets[k]
    n = sentences.offsets[k + 1] - first
    order = np.argsort(rules.parent, kind="stable")
    left, right, parent, score = rules.left[order], rules.right[order], rules.parent[order], w[rules.weight][order]
    starts = np.flatnonzero(np.diff(parent, prepend=-1))
    chains = np.add.reduceat(w[rules.step_weight], rules.step_start[:-1])
    full = np.full((n, n + 1, n_symbols), -np.inf)
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length
            base = np.full(n_symbols, -np.inf)
            if length == 1:
                chosen = slice(sentences.choice_start[first + i], sentences.choice_start[first + i + 1])
                weight = sentences.choice_weight[chosen]
                base[sentences.choice_symbol[chosen]] = np.where(weight >= 0, w[weight], 0.0)
            else:
                both = full[i, i + 1 : j][:, left] + full[i + 1 : j, j][:, right]
                base[parent[starts]] = np.maximum.reduceat(both.max(axis=0) + score, starts)
            full[i, j] = base
            np.maximum.at(full[i, j], rules.top, base[rules.bottom] + chains)
    roots = rules.root >= 0
    return float((full[0, n, roots] + w[rules.root[roots]]).max())


def run(quick: bool = False) -> list[Line]:
    """Compare one sentence's time."""
    trees = load_cess_esp().trees
    sentences = [tagged_words(tree) for tree in trees]
    task = Parsing()
    task.learn(sentences, trees)
    w = task.pcfg_weights(sentences, trees)
    chosen = [sentence for sentence in sentences if len(sentence) == WORDS][: 10 if quick else 50]
    batch = task.prepare(chosen)
    ones, soft = np.ones(len(chosen)), Temperature(1.0)
    task.decode(batch, w, Temperature())
    task.total(batch, w, "free", soft, ones)
    seconds, found = cpu(lambda: task.decode(batch, w, Temperature()), repeats=3)
    pooling, _ = cpu(lambda: task.total(batch, w, "free", soft, ones), repeats=3)
    few = min(5, len(chosen))
    peer, scores = cpu(lambda: [numpy_cky(task, batch, w, k) for k in range(few)])
    apart = max(abs(one.score - score) for one, score in zip(found, scores, strict=False))
    grammar = task.grammar_
    size = f"{len(grammar.binary)} binary rules, {len(grammar.symbols)} symbols, {len(grammar.chains)} chains"
    each = seconds / len(chosen)
    reached = f"{1e3 * each:.1f} ms; {size}; scores of the peer differ by {apart:.1g}"
    return [
        Line(f"CKY, {WORDS} words", each, LIMIT_SECONDS, "limit", 1.0, reached),
        Line(f"CKY, {WORDS} words", each, peer / few, "NumPy CKY", None, reached),
        Line(
            f"inside-outside, {WORDS} words", pooling / len(chosen), each, "our CKY", None, "expected features of all"
        ),
    ]
