"""Sentences and trees in flat arrays for the parsing kernels, trees of derivations, losses and memory."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.parsing import BINARY, LEXICAL, UNARY
from latentstruct.core.formatting import repr_short
from latentstruct.core.lazy import sparse
from latentstruct.core.pooling import require_labels
from latentstruct.core.types import Indices, Vector, offsets_from_lengths, positions
from latentstruct.core.validation import is_ordered
from latentstruct.data.trees import Constituent, Tree, check_tree, constituents, debinarize, is_plain, tagged_words
from latentstruct.data.trees import without_unary_cycles as without_cycles
from latentstruct.exceptions import Description, InputError
from latentstruct.planes.plane import Slopes
from latentstruct.tasks.base import check_examples
from latentstruct.tasks.parsing.arrays import Derivations, Sentences, Spans
from latentstruct.tasks.parsing.grammar import GoldTrees, Grammar, Layout, Token, weight_layout

ITERATIONS = 4
"""Number of linearizations of F1 at the best tree so far, after the first three."""
LARGE_CHART = 2**30
"""Size of one sentence's chart in bytes above which there is a warning."""
LARGEST_COUNTS = 2**32
"""Maximum size of one sentence's chart of counts in bytes."""

Answer = tuple["sparse.csr_array", Vector, Vector]


@dataclass
class ParsingBatch:
    """Sentences laid out for the kernels, and their trees if they are known."""

    tokens: list[list[Token]]
    sentences: Sentences
    spans: Spans
    gold: GoldTrees | None
    known_slopes: Slopes | None = None  # features of the known trees

    def __post_init__(self) -> None:
        self.n_examples, self.labeled = len(self.tokens), self.gold is not None
        # Numbers of words and of gold constituents.
        self.lengths = np.diff(self.sentences.offsets)
        self.n_gold = np.diff(self.sentences.gold_start).astype(np.float64)

    def trees(self) -> GoldTrees:
        """Return the known trees, or raise if there are none."""
        require_labels(self, "clamped")
        assert self.gold is not None
        return self.gold


def check_sentences(X: Any) -> list[list[Token]]:
    """Return sentences as lists of words or pairs (word, tag), or raise."""
    return [_check_sentence(sentence, f"X[{k}]") for k, sentence in enumerate(X)]


def _check_sentence(sentence: Any, name: str) -> list[Token]:
    if not is_ordered(sentence) or isinstance(sentence, str | Tree):
        raise InputError(name, sentence, "a list of words or of pairs (word, tag)")
    tokens: list[Token] = []
    for place, token in enumerate(sentence):
        parts = (token,) if isinstance(token, str) else token
        whole = isinstance(parts, list | tuple | np.ndarray) and is_ordered(parts) and len(parts) in (1, 2)
        if not whole or not all(map(is_plain, parts)):
            raise InputError(f"{name}[{place}]", token, "a word or a pair (word, tag), not empty and without spaces")
        word, *tag = (str(part) for part in parts)
        tokens.append((word, tag[0]) if tag else word)
    if not tokens:
        raise InputError(name, Description("none"), "a list of at least one word")
    return tokens


def check_trees(Y: Any, sentences: Sequence[Sequence[Token]]) -> list[Tree]:
    """Return the trees if they are well formed and have the words, and tags where given, of the sentences."""
    trees = list(Y)
    for k, (tree, tokens) in enumerate(zip(trees, sentences, strict=True)):
        check_tree(tree, f"Y[{k}]")
        found = tagged_words(tree)
        if len(found) != len(tokens):
            got = Description(f"{len(found)} words")
            raise InputError(f"Y[{k}]", got, f"a tree with the {len(tokens)} words of `X[{k}]`")
        for place, (pair, token) in enumerate(zip(found, tokens, strict=True)):
            if (pair[0] if isinstance(token, str) else pair) != token:
                got = Description(f"{repr_short(pair)} at position {place}")
                raise InputError(
                    f"Y[{k}]", got, f"a tree with the words of `X[{k}]`, {repr_short(token)} at this position"
                )
    return trees


def gold_spans(grammar: Grammar, trees: Sequence[Tree]) -> list[list[tuple[int, int, int]]]:
    """Return (start, end, number of the label) of the constituents of each tree."""
    numbers = {label: k for k, label in enumerate(grammar.labels)}
    found = [constituents(without_cycles(tree)) for tree in trees]
    return [[(one.start, one.end, numbers[one.label]) for one in row] for row in found]


def lay_out_sentences(
    grammar: Grammar, splits: int, tokens: Sequence[Sequence[Token]], gold: Sequence[Sequence[tuple[int, int, int]]]
) -> Sentences:
    """Return the words with the symbols they may have, and the gold constituents."""
    layout = weight_layout(grammar, splits)
    choices = [
        [(number, entry) for tag, entry in grammar.lexicon.choices(token) if (number := grammar.tag_number(tag)) >= 0]
        for sentence in tokens
        for token in sentence
    ]
    pairs = np.array([pair for found in choices for pair in found], dtype=np.int64).reshape(-1, 2)
    subs, (symbol, entry) = np.tile(np.arange(splits), len(pairs)), np.repeat(pairs, splits, axis=0).T
    spans = np.array([span for row in gold for span in row], dtype=np.int64).reshape(-1, 3)
    return Sentences(
        offsets_from_lengths(len(sentence) for sentence in tokens),
        offsets_from_lengths(len(found) * splits for found in choices),
        symbol * splits + subs,
        np.where(entry >= 0, layout.lexical + entry * splits + subs, -1),
        offsets_from_lengths(len(row) for row in gold) if gold else np.zeros(len(tokens) + 1, dtype=np.int64),
        *spans.T.copy(),
    )


def lay_out_trees(grammar: Grammar, derivations: Sequence[Indices]) -> GoldTrees:
    """Return derivations, as `Grammar.derive` returns them, as flat arrays."""
    offsets = offsets_from_lengths(one.shape[1] for one in derivations)
    kind, rule, symbol, right, start, end = np.concatenate(derivations, axis=1)
    right += np.repeat(offsets[:-1], np.diff(offsets))
    root = np.array([grammar.roots.index(top) for top in symbol[offsets[:-1]].tolist()], dtype=np.int64)
    return GoldTrees(offsets, kind, rule, symbol, right, start, end, root)


def annotate(trees: GoldTrees, rows: Indices, chosen: Indices, splits: int, layout: Layout) -> Derivations:
    """Return the derivations of some known trees whose nodes have the given sub-symbols, (nodes of all trees,)."""
    nodes, offsets = positions(trees.offsets, rows)
    k, kind, rule, own = splits, trees.kind[nodes], trees.rule[nodes], chosen[nodes]
    # Words have no children: what is looked up for them is not used.
    below = chosen[np.minimum(nodes + 1, len(chosen) - 1)]
    right = chosen[trees.right[nodes]]
    weight = np.select(
        [kind == BINARY, kind == UNARY, rule >= 0],
        [
            ((rule * k + own) * k + below) * k + right,
            layout.unary + (rule * k + own) * k + below,
            layout.lexical + rule * k + own,
        ],
        -1,
    )
    return Derivations(offsets, kind, trees.symbol[nodes] * k + own, weight, trees.start[nodes], trees.end[nodes])


def derived_tree(grammar: Grammar, nodes: Sequence[tuple[int, int]], tokens: Sequence[Token]) -> Tree:
    """Return the tree of the kinds and symbols of a derivation in preorder, with artificial nodes removed.

    Without a derivation it is flat: the most frequent root over the words, which have their first tags.
    """
    words = [token if isinstance(token, str) else token[0] for token in tokens]
    if not nodes:
        tags = (grammar.lexicon.choices(token)[0][0] for token in tokens)
        leaves = tuple(Tree(tag, (word,)) for tag, word in zip(tags, words, strict=True))
        return Tree(grammar.symbols[grammar.roots[0]][1], leaves)
    stack: list[Tree] = []
    for kind, symbol in reversed(nodes):
        # The kind is the number of children, 0 for words.
        children = [words.pop()] if kind == LEXICAL else [stack.pop() for _ in range(kind)]
        stack.append(Tree(grammar.symbols[symbol][1], tuple(children)))
    return debinarize(stack[0])


def probable_constituents(
    labels: Sequence[str], n_words: int, cells: Indices, numbers: Indices, probabilities: Vector
) -> dict[Constituent, float]:
    """Return the probabilities of constituents by first words, and the longest ones first.

    Cells of the chart are numbered by first words and then by ends; each comes with a label and its probability.
    """
    starts, ends = (places[cells] for places in np.triu_indices(n_words))
    order = np.lexsort((-ends, starts))
    columns = (column[order].tolist() for column in (numbers, starts, ends + 1, np.minimum(probabilities, 1.0)))
    return {Constituent(labels[number], start, end): share for number, start, end, share in zip(*columns, strict=True)}


# ---- losses ----------------------------------------------------------------------------------------------


def f1_loss(predicted: Vector, right: Vector, gold: Vector) -> NDArray[np.float64]:
    """Return Δ = 1 − 2h/(p + g), 0 where neither tree has a constituent."""
    both = predicted + gold
    return np.where(both > 0, 1.0 - 2.0 * right / np.maximum(both, 1.0), 0.0)


def search_f1(
    search: Callable[[Indices, Vector, Vector], Answer], truth: "sparse.csr_array", gold: Vector, w: Vector
) -> "tuple[sparse.csr_array, Vector]":
    """Return features (k, d) and losses (k,) of good answers to max s + Δ for each of k sentences.

    Δ = 1 − 2h/(p + g) falls by gain = 2/(p + g) with each right constituent and rises by cost = 2h/(p + g)² with each
    predicted one. It is linearized where all, half and none of the constituents are right, and then repeatedly at the
    best tree so far; the known tree, with features `truth`, is compared, too. `search` returns features, p
    and h of the trees that maximize s + cost·p − gain·h for some of the sentences (places, costs, gains).
    """
    found, places, size = [truth], np.arange(len(gold)), len(gold)
    best, losses, values = places.copy(), np.zeros(size), truth @ w
    predicted, right = gold.copy(), gold.copy()
    points: list[tuple[Vector, Vector]] = []
    for attempt in range(3 + ITERATIONS):
        point, among = (gold, gold * (1.0 - attempt / 2.0)), places
        if attempt >= 3:
            point = (predicted.copy(), right.copy())
            seen = [(p == point[0]) & (h == point[1]) for p, h in points]
            among = np.flatnonzero(~np.any(seen, axis=0))
        if len(among) == 0:
            break
        points.append(point)
        both = np.maximum(point[0] + gold, 1.0)[among]
        features, p, h = search(among, 2.0 * point[1][among] / both**2, 2.0 / both)
        loss = f1_loss(p, h, gold[among])
        value = features @ w + loss
        better = value > values[among]
        chosen = among[better]
        best[chosen] = size + np.flatnonzero(better)
        losses[chosen], values[chosen] = loss[better], value[better]
        predicted[chosen], right[chosen] = p[better], h[better]
        found.append(features)
        size += len(among)
    return sparse.vstack(found, format="csr")[best], losses


def compare_trees(Y_true: Any, Y_pred: Any) -> tuple[Vector, Vector, Vector]:
    """Return the numbers of true, predicted and right constituents, each of shape (n,), unary cycles cut short."""
    check_examples(Y_true, Y_pred)
    numbers = []
    for k, pair in enumerate(zip(Y_true, Y_pred, strict=True)):
        for name, tree in zip(("Y_true", "Y_pred"), pair, strict=True):
            check_tree(tree, f"{name}[{k}]")
        true, found = (set(constituents(without_cycles(tree))) for tree in pair)
        numbers.append((len(true), len(found), len(true & found)))
    gold, predicted, right = np.array(numbers, dtype=np.float64).T
    return gold, predicted, right


# ---- memory ----------------------------------------------------------------------------------------------


def warn_of_size(longest: int, n_symbols: int) -> None:
    """Warn if the chart of the longest sentence is large."""
    size = 20 * longest**2 * n_symbols
    if size > LARGE_CHART:
        warnings.warn(
            f"The chart of a sentence of {longest} words takes {size / 2**30:.1f} GiB with {n_symbols} symbols of the "
            "grammar, and sums over trees nearly three times as much. Remove or split long sentences.",
            stacklevel=4,
        )


@contextmanager
def memory_errors(lengths: Indices, n_symbols: int) -> Iterator[None]:
    """Raise InputError instead of MemoryError."""
    try:
        yield
    except MemoryError as error:
        raise InputError(
            "X",
            Description(f"a sentence of {lengths.max()} words with {n_symbols} symbols of the grammar"),
            "sentences whose charts fit into memory",
            "Remove long sentences, or use a smaller `markov` or `splits`.",
        ) from error


def check_counts(lengths: Indices, n_gold: Vector, n_symbols: int, most_steps: int, exact_words: int) -> None:
    """Raise InputError if the charts of counts of sentences with at most `exact_words` words are too large.

    `lengths` and `n_gold` are their numbers of words and gold constituents; `most_steps` are those of a chain.
    """
    n = lengths.astype(np.float64)
    sizes = 16.0 * (n * (n + 1) / 2) * n_symbols * (n_gold + 1) * (n + (2 * n - 1) * most_steps)
    worst = int(sizes.argmax())
    if sizes[worst] > LARGEST_COUNTS:
        size = f"{lengths[worst]} words take {sizes[worst] / 2**30:.1f} GiB"
        expected = f"small enough for charts of at most {LARGEST_COUNTS // 2**30} GiB ({size})"
        raise InputError("exact_words", exact_words, expected)
