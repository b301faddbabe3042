"""Grammars read off trees: symbols, rules, chains of single children, and the tags of words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from latentstruct.exceptions import InputError
from latentstruct.kernels.annotations import GoldTrees
from latentstruct.kernels.parsing import BINARY, LEXICAL, UNARY, Rules
from latentstruct.ragged import Indices, Vector, offsets_from_lengths
from latentstruct.short_repr import show
from latentstruct.trees import (
    Tree,
    binarise,
    is_artificial,
    is_preterminal,
    preorder,
    tagged_words,
    unary_chain,
    without_unary_cycles,
)

Unknown = Literal["suffix", "class", "one"]
Token = str | tuple[str, str]

PHRASE, TAG = "phrase", "tag"
KNOWN, SHARED = "=", "~"
MOST_SPLIT_CHAINS = 100_000
LEAST_SHARED = 5
"""Rare words of training that must have a suffix in common before it stands for them."""


def word_class(word: str) -> str:
    """Return a coarse class of a word's spelling: number, mark, capital or lower."""
    if any(letter.isdigit() for letter in word):
        return "number"
    if not any(letter.isalpha() for letter in word):
        return "mark"
    return "capital" if word[0].isupper() else "lower"


def signatures(word: str, unknown: Unknown) -> list[str]:
    """Return what may stand for an unknown word, from the most special to the one that stands for all."""
    kind = word_class(word)
    found = [SHARED + kind] if unknown != "one" else []
    if unknown == "suffix" and kind in ("capital", "lower"):
        found = [f"{SHARED}{kind}-{word[-size:].lower()}" for size in (3, 2) if len(word) > size + 1] + found
    return [*found, SHARED]


@dataclass
class Lexicon:
    """Which tags a word may have.

    Words seen at most `rare` times in training share their entries with unknown words: those of a suffix, of a class
    of spelling, or of all rare words together.

    Attributes
    ----------
    entries : list of (key, tag)
        A key is "=" and a known word, or "~" and what rare words have in common. Each entry has a weight.
    """

    entries: list[tuple[str, str]]
    unknown: Unknown

    @classmethod
    def learn(cls, sentences: Sequence[Sequence[tuple[str, str]]], rare: int, unknown: Unknown) -> "Lexicon":
        """Read the lexicon off words with tags."""
        counts = Counter(word for sentence in sentences for word, _ in sentence)
        shared = Counter(
            key
            for sentence in sentences
            for word, _ in sentence
            if counts[word] <= rare
            for key in signatures(word, unknown)
        )
        keys = {KNOWN + word for word, count in counts.items() if count > rare}
        keys |= {key for key, count in shared.items() if "-" not in key or count >= LEAST_SHARED}
        draft = cls([(key, "") for key in keys], unknown)
        entries = {(draft.key(word), tag) for sentence in sentences for word, tag in sentence}
        return cls(sorted(entries), unknown)

    @cached_property
    def numbers(self) -> dict[str, dict[str, int]]:
        """The entries of each key, by tag."""
        found: dict[str, dict[str, int]] = {}
        for number, (key, tag) in enumerate(self.entries):
            found.setdefault(key, {})[tag] = number
        return found

    @cached_property
    def all_tags(self) -> list[str]:
        """All tags of training."""
        return sorted({tag for _, tag in self.entries})

    def key(self, word: str) -> str:
        """Return the key by which a word is looked up."""
        if KNOWN + word in self.numbers:
            return KNOWN + word
        return next((key for key in signatures(word, self.unknown) if key in self.numbers), SHARED)

    def choices(self, token: Token) -> list[tuple[str, int]]:
        """Return the tags a word may have with the number of the entry, −1 where there is none.

        A word with a given tag has that one only. A word nothing is known of may have any tag.
        """
        if not isinstance(token, str):
            word, tag = token
            return [(tag, self.numbers.get(self.key(word), {}).get(tag, -1))]
        known = self.numbers.get(self.key(token))
        return [(tag, -1) for tag in self.all_tags] if known is None else list(known.items())


class GrammarState(TypedDict):
    """A grammar as plain lists, as files have it."""

    symbols: list[tuple[Literal["phrase", "tag"], str]]
    binary: list[tuple[int, int, int]]
    unary: list[tuple[int, int]]
    chains: list[list[int]]
    roots: list[int]
    entries: list[tuple[str, str]]
    unknown: Unknown
    markov: int | None


class Derivation(NamedTuple):
    """The nodes of a tree in binary form, in preorder.

    kind, rule, symbol, right, start and end are lists of equal length: of each node whether it is a word, unary or
    binary, the number of the rule or lexical entry, its symbol, the place of the right child among the nodes (its own
    place where there is none; the left or only child is the next node), and its span.
    """

    kind: list[int]
    rule: list[int]
    symbol: list[int]
    right: list[int]
    start: list[int]
    end: list[int]


@dataclass
class Grammar:
    """Rules read off trees, over symbols that are pairs (kind, label) with kind "phrase" or "tag".

    Attributes
    ----------
    symbols : list of (kind, label)
        Tags are symbols of their own, even where a phrase is spelled alike.
    binary : list of (parent, left, right)
        Binary rules, by symbol numbers.
    unary : list of (parent, child)
        Unary rules.
    chains : list of tuple of int
        The chains of single children seen in training, as symbols from top to bottom. A derivation may have these and
        no others, whole: their unary rules cannot be put together anew.
    roots : list of int
        Symbols seen at the root, the most frequent one first.
    lexicon : Lexicon
        Tags of words.
    markov : int or None
        How many children before an artificial symbol tells.
    """

    symbols: list[tuple[str, str]]
    binary: list[tuple[int, int, int]]
    unary: list[tuple[int, int]]
    chains: list[tuple[int, ...]]
    roots: list[int]
    lexicon: Lexicon
    markov: int | None
    _numbers: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._numbers = {
            "symbols": {symbol: number for number, symbol in enumerate(self.symbols)},
            "binary": {rule: number for number, rule in enumerate(self.binary)},
            "unary": {rule: number for number, rule in enumerate(self.unary)},
            "chains": set(self.chains),
        }

    @classmethod
    def learn(cls, trees: Sequence[Tree], markov: int | None, rare: int, unknown: Unknown) -> "Grammar":
        """Read the grammar off checked trees."""
        lexicon = Lexicon.learn([tagged_words(tree) for tree in trees], rare, unknown)
        binary: set[tuple[Any, ...]] = set()
        chains: set[tuple[Any, ...]] = set()
        roots: Counter[tuple[str, str]] = Counter()
        symbols: set[tuple[str, str]] = set()
        for tree in trees:
            prepared = binary_form(tree, markov)
            roots[symbol_of(prepared)] += 1
            symbols.update(symbol_of(node) for node in preorder(prepared))
            binary.update(
                (symbol_of(node), *(symbol_of(child) for child in node.children if isinstance(child, Tree)))
                for node in preorder(prepared)
                if len(node.children) == 2
            )
            chains.update(_chains(prepared))
        names = sorted(symbols)
        number = {symbol: k for k, symbol in enumerate(names)}
        unary = {pair for chain in chains for pair in pairwise(chain)}
        return cls(
            names,
            sorted((number[a], number[b], number[c]) for a, b, c in binary),
            sorted((number[a], number[b]) for a, b in unary),
            sorted(tuple(number[symbol] for symbol in chain) for chain in chains),
            [number[symbol] for symbol, _ in sorted(roots.items(), key=lambda item: (-item[1], item[0]))],
            lexicon,
            markov,
        )

    @cached_property
    def labels(self) -> list[str]:
        """The labels of constituents: phrases that are not artificial."""
        return [label for kind, label in self.symbols if kind == PHRASE and not is_artificial(label)]

    @cached_property
    def label_numbers(self) -> NDArray[np.int64]:
        """Number of each symbol's label, −1 for tags and artificial symbols, shape (symbols,)."""
        counted = np.array([kind == PHRASE and not is_artificial(label) for kind, label in self.symbols], dtype=bool)
        return np.where(counted, np.cumsum(counted) - 1, -1)

    def tag_number(self, tag: str) -> int:
        """Return the symbol of a tag, −1 if it was never seen."""
        return self._numbers["symbols"].get((TAG, tag), -1)

    def state(self) -> dict[str, Any]:
        """Return all of it as plain lists."""
        return {
            "symbols": [list(symbol) for symbol in self.symbols],
            "binary": [list(rule) for rule in self.binary],
            "unary": [list(rule) for rule in self.unary],
            "chains": [list(chain) for chain in self.chains],
            "roots": list(self.roots),
            "entries": [list(entry) for entry in self.lexicon.entries],
            "unknown": self.lexicon.unknown,
            "markov": self.markov,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Grammar":
        """Undo `state`; raise InputError if it is no grammar, as a file may have anything."""
        grammar = cls(
            [(kind, label) for kind, label in state["symbols"]],
            [(a, b, c) for a, b, c in state["binary"]],
            [(a, b) for a, b in state["unary"]],
            [tuple(chain) for chain in state["chains"]],
            list(state["roots"]),
            Lexicon([(key, tag) for key, tag in state["entries"]], state["unknown"]),
            state["markov"],
        )
        grammar.check()
        return grammar

    def check(self) -> None:
        """Raise InputError unless rules, chains and roots are made of symbols, and chains of unary rules."""
        unary, labels = set(self.unary), self.label_numbers
        known = range(len(self.symbols))
        sound = all(
            number in known for rows in (self.binary, self.unary, self.chains) for row in rows for number in row
        )
        # A root is a phrase of the treebank, or the tag of a sentence of one word.
        sound &= bool(self.roots) and all(
            number in known and (labels[number] >= 0 or self.symbols[number][0] == TAG) for number in self.roots
        )
        sound = sound and all(
            len(chain) > 1 and all(pair in unary for pair in pairwise(chain)) for chain in self.chains
        )
        if not sound or any(labels[upper] < 0 for chain in self.chains for upper in chain[:-1]):
            raise InputError(
                f"the rules do not fit the {len(self.symbols)} symbols; expected rules, chains and roots made of them: "
                "the state is damaged, train again"
            )

    def derive(self, tree: Tree, tokens: Sequence[Token], name: str) -> Derivation:
        """Return the derivation of a checked tree of a sentence; raise InputError if the grammar does not have it."""
        prepared = binary_form(tree, self.markov)
        for chain in _chains(prepared):
            if tuple(self._symbol(symbol, name) for symbol in chain) not in self._numbers["chains"]:
                raise InputError(_unseen(name, "chain " + " → ".join(label for _, label in chain)))
        if self._symbol(symbol_of(prepared), name) not in self.roots:
            raise InputError(_unseen(name, f"root {show(prepared.label)}"))
        kind: list[int] = []
        rule: list[int] = []
        symbol: list[int] = []
        left = iter(tokens)
        for node in preorder(prepared):
            symbol.append(self._symbol(symbol_of(node), name))
            if is_preterminal(node):
                kind.append(LEXICAL)
                rule.append(self._entry(node, next(left), name))
            else:
                kind.append(len(node.children))
                rule.append(self._rule(node, name))
        return Derivation(kind, rule, symbol, *_layout(kind))

    def _symbol(self, symbol: tuple[str, str], name: str) -> int:
        found = self._numbers["symbols"].get(symbol)
        if found is None:
            raise InputError(_unseen(name, f"{symbol[0]} {show(symbol[1])}"))
        return found

    def _entry(self, node: Tree, token: Token, name: str) -> int:
        choices = dict(self.lexicon.choices(token))
        if node.label not in choices:
            raise InputError(_unseen(name, f"tag {show(node.label)} of the word {show(node.children[0])}"))
        return choices[node.label]

    def _rule(self, node: Tree, name: str) -> int:
        numbers = tuple(
            self._symbol(symbol_of(part), name) for part in (node, *node.children) if isinstance(part, Tree)
        )
        found = self._numbers["unary" if len(numbers) == 2 else "binary"].get(numbers)
        if found is None:
            labels = [part.label for part in node.children if isinstance(part, Tree)]
            raise InputError(_unseen(name, f"rule {node.label} → {' '.join(labels)}"))
        return found


def _unseen(name: str, what: str) -> str:
    return (
        f"{name} has the {what}, which is in no tree of training: predict its sentence without giving the tree, or "
        "train on trees that have it"
    )


def binary_form(tree: Tree, markov: int | None) -> Tree:
    """Return the tree as grammars are read off it: without unary cycles, at most two children a node."""
    return binarise(without_unary_cycles(tree), markov)


def symbol_of(node: Tree) -> tuple[str, str]:
    """Return the symbol of a node of a tree in binary form."""
    return (TAG if is_preterminal(node) else PHRASE), node.label


def _chains(tree: Tree) -> Iterable[tuple[tuple[str, str], ...]]:
    """Yield the chains of single children, whole."""
    below: set[int] = set()
    for node in preorder(tree):
        if len(node.children) == 1 and not is_preterminal(node) and id(node) not in below:
            labels, bottom = unary_chain(node)
            yield (*((PHRASE, label) for label in labels[:-1]), symbol_of(bottom))
            inner: Any = node.children[0]
            while inner is not bottom:
                below.add(id(inner))
                inner = inner.children[0]


def _layout(kind: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Return right child, start and end of nodes in preorder from their kinds."""
    size = len(kind)
    right, start, end = list(range(size)), [0] * size, [0] * size
    position = kind.count(LEXICAL)
    stack: list[int] = []
    for node in range(size - 1, -1, -1):
        if kind[node] == LEXICAL:
            start[node], end[node] = position - 1, position
            position -= 1
        else:
            left = stack.pop()
            last = stack.pop() if kind[node] == BINARY else left
            right[node] = last if kind[node] == BINARY else node
            start[node], end[node] = start[left], end[last]
        stack.append(node)
    return right, start, end


class Layout(NamedTuple):
    """Numbers of the first weight of each block; a rule's weights differ by the sub-symbols of its symbols."""

    unary: int
    lexical: int
    root: int
    end: int


def weight_layout(grammar: Grammar, splits: int) -> Layout:
    """Return where unary, lexical and root weights begin; binary ones begin at 0.

    Weight (r·k + a)·k² + b·k + c belongs to binary rule r with sub-symbols a, b, c of k, and likewise for the others.
    """
    unary = len(grammar.binary) * splits**3
    lexical = unary + len(grammar.unary) * splits**2
    root = lexical + len(grammar.lexicon.entries) * splits
    return Layout(unary, lexical, root, root + len(grammar.roots) * splits)


def _grouped(values: Indices, size: int) -> tuple[Indices, Indices]:
    """Return offsets (size + 1,) and the order that sorts the values."""
    return offsets_from_lengths(np.bincount(values, minlength=size)), np.argsort(values, kind="stable")


def _split(symbols: Indices, splits: int) -> tuple[Indices, Indices]:
    """Return all ways to give sub-symbols to rows of symbols (m, q): split symbols (m·k^q, q), sub-symbols likewise."""
    q = symbols.shape[1]
    subs = np.indices((splits,) * q).reshape(q, -1).T
    subs = np.tile(subs, (len(symbols), 1))
    return np.repeat(symbols, splits**q, axis=0) * splits + subs, subs


def compile_rules(grammar: Grammar, splits: int) -> Rules:
    """Lay a grammar out for the kernels; symbol number s becomes s·k … s·k + k − 1."""
    layout, n_symbols = weight_layout(grammar, splits), len(grammar.symbols) * splits
    rules, _ = _split(np.array(grammar.binary, dtype=np.int64).reshape(-1, 3), splits)
    order = np.lexsort((rules[:, 2], rules[:, 1]))
    parent, left, right = rules[order].T.copy()
    first = np.flatnonzero(np.diff(left, prepend=-1) | np.diff(right, prepend=-1))
    left_start = offsets_from_lengths(np.bincount(left[first], minlength=n_symbols))
    parent_start, by_parent = _grouped(parent, n_symbols)
    bottoms, tops, weights, uppers = _compile_chains(grammar, splits, layout.unary)
    bottom_start, chain_order = _grouped(bottoms, n_symbols)
    bottom, top = bottoms[chain_order], tops[chain_order]
    top_start, by_top = _grouped(top, n_symbols)
    weights, uppers = [weights[c] for c in chain_order], [uppers[c] for c in chain_order]
    root = np.full(n_symbols, -1)
    for number, symbol in enumerate(grammar.roots):
        root[symbol * splits : (symbol + 1) * splits] = layout.root + number * splits + np.arange(splits)
    nothing = np.zeros(0, dtype=np.int64)
    return Rules(
        left_start,
        right[first],
        np.append(first, len(left)),
        left,
        right,
        parent,
        order,
        parent_start,
        by_parent,
        bottom_start,
        bottom,
        top,
        top_start,
        by_top,
        offsets_from_lengths(len(steps) for steps in weights),
        np.concatenate([nothing, *weights]),
        np.concatenate([nothing, *uppers]),
        root,
        np.repeat(grammar.label_numbers, splits),
    )


def _compile_chains(
    grammar: Grammar, splits: int, unary_at: int
) -> tuple[Indices, Indices, list[Indices], list[Indices]]:
    """Return bottom and top of all split chains, and weights and upper symbols of their steps from the bottom up."""
    numbers = {rule: k for k, rule in enumerate(grammar.unary)}
    longest = max((len(chain) for chain in grammar.chains), default=0)
    if splits > 1 and splits**longest > MOST_SPLIT_CHAINS:
        raise InputError(
            f"splits is {splits}, but a chain of {longest} single children is in the trees, which then has "
            f"{splits}^{longest} forms; expected at most {MOST_SPLIT_CHAINS}: choose fewer splits, or shorten the chain"
        )
    bottoms: list[int] = []
    tops: list[int] = []
    weights: list[Indices] = []
    uppers: list[Indices] = []
    for chain in grammar.chains:
        steps = np.array([numbers[pair] for pair in pairwise(chain)])
        symbols, subs = _split(np.array([chain]), splits)
        at = unary_at + steps * splits**2 + subs[:, :-1] * splits + subs[:, 1:]
        bottoms.extend(symbols[:, -1].tolist())
        tops.extend(symbols[:, 0].tolist())
        weights.extend(at[:, ::-1])
        uppers.extend(symbols[:, -2::-1])
    return np.array(bottoms, dtype=np.int64), np.array(tops, dtype=np.int64), weights, uppers


def relative_frequencies(grammar: Grammar, trees: GoldTrees, splits: int, n_features: int) -> Vector:
    """Return the log relative frequencies of rules, words and roots in trees as weights, shape (d,).

    What does not occur in the trees counts as half an occurrence; sub-symbols share equally.
    """
    layout, k, w = weight_layout(grammar, splits), splits, np.zeros(n_features)
    tags = np.array([grammar.tag_number(tag) for _, tag in grammar.lexicon.entries], dtype=np.int64)
    binary, unary = (np.array([rule[0] for rule in rules], dtype=np.int64) for rules in (grammar.binary, grammar.unary))
    # Kind, first weight, parent of each rule, weights of a rule, and of one with the parent's sub-symbol.
    blocks = (
        (BINARY, 0, binary, k**3, k**2),
        (UNARY, layout.unary, unary, k**2, k),
        (LEXICAL, layout.lexical, tags, k, 1),
    )
    totals = np.zeros(len(grammar.symbols))
    counts = []
    for kind, _, parents, _, _ in blocks:
        count = np.bincount(trees.rule[(trees.kind == kind) & (trees.rule >= 0)], minlength=len(parents))
        counts.append(np.maximum(count, 0.5))
        np.add.at(totals, parents, counts[-1])
    for (_, at, parents, copies, ways), count in zip(blocks, counts, strict=True):
        w[at : at + len(parents) * copies] = np.repeat(np.log(count / totals[parents] / ways), copies)
    roots = np.maximum(np.bincount(trees.root, minlength=len(grammar.roots)), 0.5)
    w[layout.root : layout.end] = np.repeat(np.log(roots / roots.sum() / k), k)
    return w
