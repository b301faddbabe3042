"""Sentences and trees laid out flat for the parsing kernels, and derivations turned back into trees."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentstruct.checks import is_ordered
from latentstruct.core.pooling import require_labels
from latentstruct.exceptions import InputError
from latentstruct.kernels.annotations import GoldTrees
from latentstruct.kernels.parsing import BINARY, LEXICAL, UNARY, Derivations, Sentences, Spans
from latentstruct.ragged import Indices, Vector, offsets_from_lengths, positions
from latentstruct.short_repr import show
from latentstruct.tasks.grammar import Grammar, Layout, Token, weight_layout
from latentstruct.trees import (
    Constituent,
    Tree,
    check_tree,
    constituents,
    debinarise,
    is_plain,
    tagged_words,
    without_unary_cycles,
)


@dataclass
class ParsingBatch:
    """Sentences laid out for the kernels, and their trees if they are known."""

    tokens: list[list[Token]]
    sentences: Sentences
    spans: Spans
    gold: GoldTrees | None

    @property
    def n_examples(self) -> int:
        """Number of sentences."""
        return len(self.tokens)

    @property
    def labelled(self) -> bool:
        """Whether the trees are known."""
        return self.gold is not None

    @property
    def n_gold(self) -> Vector:
        """Number of gold constituents of each sentence, shape (n,)."""
        return np.diff(self.sentences.gold_start).astype(np.float64)

    @property
    def lengths(self) -> Indices:
        """Number of words of each sentence, shape (n,)."""
        return np.diff(self.sentences.offsets)

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
        raise InputError(
            f"{name} is of type {type(sentence).__name__}; expected a list of words or of pairs (word, tag): split a "
            "sentence into its words"
        )
    tokens: list[Token] = []
    for place, token in enumerate(sentence):
        parts = (token,) if isinstance(token, str) else token
        whole = isinstance(parts, list | tuple | np.ndarray) and is_ordered(parts) and len(parts) in (1, 2)
        if not whole or not all(map(is_plain, parts)):
            raise InputError(
                f"{name} has {show(token)} at place {place}; expected a word or a pair (word, tag), neither of them "
                "empty or with whitespace in it: correct it"
            )
        word, *tag = (str(part) for part in parts)
        tokens.append((word, tag[0]) if tag else word)
    if not tokens:
        raise InputError(f"{name} has no words; expected at least one: leave empty sentences out")
    return tokens


def check_trees(Y: Any, sentences: Sequence[Sequence[Token]]) -> list[Tree]:
    """Return the trees if they are well formed and have the words, and tags where given, of the sentences."""
    trees = list(Y)
    for k, (tree, tokens) in enumerate(zip(trees, sentences, strict=True)):
        check_tree(tree, f"Y[{k}]")
        found = tagged_words(tree)
        if len(found) != len(tokens):
            raise InputError(
                f"Y[{k}] has {len(found)} words but X[{k}] has {len(tokens)}: give each sentence its own tree"
            )
        for place, (pair, token) in enumerate(zip(found, tokens, strict=True)):
            if (pair[0] if isinstance(token, str) else pair) != token:
                raise InputError(
                    f"Y[{k}] has {show(pair)} at place {place}, but X[{k}] has {show(token)}: give each sentence its "
                    "own tree"
                )
    return trees


def gold_spans(grammar: Grammar, trees: Sequence[Tree]) -> list[list[tuple[int, int, int]]]:
    """Return (start, end, number of the label) of the constituents of each tree."""
    numbers = {label: k for k, label in enumerate(grammar.labels)}
    found = [constituents(without_unary_cycles(tree)) for tree in trees]
    return [[(one.start, one.end, numbers[one.label]) for one in row] for row in found]


def lay_out_sentences(
    grammar: Grammar, splits: int, tokens: Sequence[Sequence[Token]], gold: Sequence[Sequence[tuple[int, int, int]]]
) -> Sentences:
    """Return the words with the symbols they may have, and the gold constituents."""
    layout = weight_layout(grammar, splits)
    symbols: list[int] = []
    entries: list[int] = []
    counts: list[int] = []
    for sentence in tokens:
        for token in sentence:
            found = [(grammar.tag_number(tag), entry) for tag, entry in grammar.lexicon.choices(token)]
            found = [pair for pair in found if pair[0] >= 0]
            symbols.extend(symbol for symbol, _ in found)
            entries.extend(entry for _, entry in found)
            counts.append(len(found) * splits)
    subs = np.tile(np.arange(splits), len(symbols))
    entry = np.repeat(np.array(entries, dtype=np.int64), splits)
    spans = np.array([span for row in gold for span in row], dtype=np.int64).reshape(-1, 3)
    return Sentences(
        offsets_from_lengths(len(sentence) for sentence in tokens),
        offsets_from_lengths(counts),
        np.repeat(np.array(symbols, dtype=np.int64), splits) * splits + subs,
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


def derived_tree(grammar: Grammar, kinds: Sequence[int], symbols: Sequence[int], words: Sequence[str]) -> Tree:
    """Return the tree of a derivation in preorder, with artificial nodes removed."""
    stack: list[Tree] = []
    position = len(words)
    for kind, symbol in zip(reversed(kinds), reversed(symbols), strict=True):
        label = grammar.symbols[symbol][1]
        if kind == LEXICAL:
            position -= 1
            stack.append(Tree(label, (words[position],)))
        elif kind == UNARY:
            stack.append(Tree(label, (stack.pop(),)))
        else:
            stack.append(Tree(label, (stack.pop(), stack.pop())))
    return debinarise(stack[0])


def flat_tree(grammar: Grammar, tokens: Sequence[Token]) -> Tree:
    """Return the answer where the grammar has none: the most frequent label of roots over all words.

    Words keep a given tag and have the first tag of the lexicon otherwise.
    """
    leaves = tuple(
        Tree(grammar.lexicon.choices(token)[0][0], (token if isinstance(token, str) else token[0],)) for token in tokens
    )
    return Tree(grammar.symbols[grammar.roots[0]][1], leaves)


def probable_constituents(
    labels: Sequence[str], n_words: int, cells: Indices, numbers: Indices, probabilities: Vector
) -> dict[Constituent, float]:
    """Return the probabilities of constituents by first words, and the longest ones first.

    Parameters
    ----------
    labels : sequence of str
        Names of the labels.
    n_words : int
        Number of words of the sentence.
    cells, numbers, probabilities : ndarrays of shape (m,)
        Cells of the chart, which are numbered by first words and then by ends, labels, and their probabilities.
    """
    starts, ends = (places[cells] for places in np.triu_indices(n_words))
    order = np.lexsort((-ends, starts))
    columns = (column[order].tolist() for column in (numbers, starts, ends + 1, np.minimum(probabilities, 1.0)))
    return {Constituent(labels[number], start, end): share for number, start, end, share in zip(*columns, strict=True)}
