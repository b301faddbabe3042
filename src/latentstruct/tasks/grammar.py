"""Grammars read off trees: symbols, rules, chains of single children, and the tags of words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
    without_unary_cycles,
)

Unknown = Literal["suffix", "class", "one"]
Token = str | tuple[str, str]
Symbol = tuple[str, str]

PHRASE, TAG = "phrase", "tag"
KNOWN, SHARED = "=", "~"
MOST_SPLIT_CHAINS = 100_000
ROWS = ("symbols", "binary", "unary", "chains")
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


class BinaryForm(NamedTuple):
    """The nodes of a tree in binary form without unary cycles, in preorder, as lists of equal length.

    Each node has its tree, its symbol, the number of its children (0 for words), the place of the right child among
    the nodes (its own place where there is none; the left or only child is the next node), and its span.
    """

    nodes: list[Tree]
    symbols: list[Symbol]
    kinds: list[int]
    rights: list[int]
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, tree: Tree, markov: int | None) -> "BinaryForm":
        """Bring a checked tree to binary form."""
        nodes = list(preorder(binarise(without_unary_cycles(tree), markov)))
        kinds = [LEXICAL if is_preterminal(node) else len(node.children) for node in nodes]
        symbols = [(PHRASE if kind else TAG, node.label) for node, kind in zip(nodes, kinds, strict=True)]
        return cls(nodes, symbols, kinds, *_layout(kinds))

    def rules(self) -> list[tuple[Symbol, ...]]:
        """Return the symbols of each node and its children."""
        return [
            tuple(self.symbols[place] for place in (v, v + 1, self.rights[v])[: 1 + kind])
            for v, kind in enumerate(self.kinds)
        ]

    def chains(self) -> Iterator[tuple[Symbol, ...]]:
        """Yield the chains of single children, whole."""
        chain: list[Symbol] = []
        for symbol, kind in zip(self.symbols, self.kinds, strict=True):
            # The next node is the only child of a unary one.
            chain.append(symbol)
            if kind != UNARY:
                if len(chain) > 1:
                    yield tuple(chain)
                chain = []


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

    symbols: list[Symbol]
    binary: list[tuple[int, int, int]]
    unary: list[tuple[int, int]]
    chains: list[tuple[int, ...]]
    roots: list[int]
    lexicon: Lexicon
    markov: int | None

    @cached_property
    def symbol_numbers(self) -> dict[Symbol, int]:
        """Number of each symbol."""
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    @cached_property
    def rule_numbers(self) -> dict[tuple[int, ...], int]:
        """Number of each rule among the binary or among the unary ones."""
        return {rule: number for rules in (self.binary, self.unary) for number, rule in enumerate(rules)}

    @cached_property
    def chain_set(self) -> frozenset[tuple[int, ...]]:
        """The chains, to be looked up."""
        return frozenset(self.chains)

    @classmethod
    def learn(cls, trees: Sequence[Tree], markov: int | None, rare: int, unknown: Unknown) -> "Grammar":
        """Read the grammar off checked trees."""
        lexicon = Lexicon.learn([tagged_words(tree) for tree in trees], rare, unknown)
        rules: set[tuple[Symbol, ...]] = set()
        chains: set[tuple[Symbol, ...]] = set()
        roots: Counter[Symbol] = Counter()
        for tree in trees:
            form = BinaryForm.of(tree, markov)
            roots[form.symbols[0]] += 1
            rules.update(form.rules())
            chains.update(form.chains())
        symbols = sorted({rule[0] for rule in rules})
        number = {symbol: k for k, symbol in enumerate(symbols)}
        numbered: Any = sorted(tuple(number[symbol] for symbol in rule) for rule in rules)
        return cls(
            symbols,
            [rule for rule in numbered if len(rule) == 3],
            [rule for rule in numbered if len(rule) == 2],
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
        return self.symbol_numbers.get((TAG, tag), -1)

    def state(self) -> dict[str, Any]:
        """Return all of it as plain lists."""
        return {
            **{name: [list(row) for row in getattr(self, name)] for name in ROWS},
            "roots": list(self.roots),
            "entries": [list(entry) for entry in self.lexicon.entries],
            "unknown": self.lexicon.unknown,
            "markov": self.markov,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Grammar":
        """Undo `state`; raise InputError if it is no grammar, as a file may have anything."""
        rows: dict[str, Any] = {name: [tuple(row) for row in state[name]] for name in ROWS}
        lexicon = Lexicon([(key, tag) for key, tag in state["entries"]], state["unknown"])
        grammar = cls(**rows, roots=list(state["roots"]), lexicon=lexicon, markov=state["markov"])
        grammar.check()
        return grammar

    def check(self) -> None:
        """Raise InputError unless rules, chains and roots are made of symbols, and chains of unary rules."""
        known, labels, unary = range(len(self.symbols)), self.label_numbers, set(self.unary)
        sound = all(
            number in known for rows in (self.binary, self.unary, self.chains) for row in rows for number in row
        )
        # A root is a phrase of the treebank, or the tag of a sentence of one word.
        sound &= bool(self.roots) and all(
            number in known and (labels[number] >= 0 or self.symbols[number][0] == TAG) for number in self.roots
        )
        sound &= all(len(chain) > 1 and unary.issuperset(pairwise(chain)) for chain in self.chains)
        if not sound or any(labels[upper] < 0 for chain in self.chains for upper in chain[:-1]):
            raise InputError(
                f"the rules do not fit the {len(self.symbols)} symbols; expected rules, chains and roots made of them: "
                "the state is damaged, train again"
            )

    def derive(self, tree: Tree, tokens: Sequence[Token], name: str) -> NDArray[np.int64]:
        """Return the derivation of a checked tree of a sentence; raise InputError if the grammar does not have it.

        It has six rows, with one number for each node of the `BinaryForm`: kind, rule or lexical entry, symbol, place
        of the right child, start and end.
        """
        form = BinaryForm.of(tree, self.markov)
        for kind, label in form.symbols:
            if (kind, label) not in self.symbol_numbers:
                raise InputError(_unseen(name, f"{kind} {show(label)}"))
        for chain in form.chains():
            if self._numbered(chain) not in self.chain_set:
                raise InputError(_unseen(name, "chain " + " → ".join(label for _, label in chain)))
        symbols = self._numbered(form.symbols)
        if symbols[0] not in self.roots:
            raise InputError(_unseen(name, f"root {show(form.symbols[0][1])}"))
        rules: list[int] = []
        left = iter(tokens)
        for node, rule in zip(form.nodes, form.rules(), strict=True):
            if is_preterminal(node):
                found = dict(self.lexicon.choices(next(left))).get(node.label)
            else:
                found = self.rule_numbers.get(self._numbered(rule))
            if found is None:
                raise InputError(_unseen(name, _rule_name(node)))
            rules.append(found)
        return np.array([form.kinds, rules, symbols, form.rights, form.starts, form.ends], dtype=np.int64)

    def _numbered(self, symbols: Iterable[Symbol]) -> tuple[int, ...]:
        return tuple(self.symbol_numbers[symbol] for symbol in symbols)


def _rule_name(node: Tree) -> str:
    if is_preterminal(node):
        return f"tag {show(node.label)} of the word {show(node.children[0])}"
    return f"rule {node.label} → {' '.join(child.label for child in node.children if isinstance(child, Tree))}"


def _unseen(name: str, what: str) -> str:
    return (
        f"{name} has the {what}, which is in no tree of training: predict its sentence without giving the tree, or "
        "train on trees that have it"
    )


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
    chains = _compile_chains(grammar, splits, layout.unary)
    bottom, top = (np.array([chain[end] for chain in chains], dtype=np.int64) for end in (0, 1))
    top_start, by_top = _grouped(top, n_symbols)
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
        offsets_from_lengths(np.bincount(bottom, minlength=n_symbols)),
        bottom,
        top,
        top_start,
        by_top,
        offsets_from_lengths(len(chain[2]) for chain in chains),
        np.concatenate([nothing, *(chain[2] for chain in chains)]),
        np.concatenate([nothing, *(chain[3] for chain in chains)]),
        root,
        np.repeat(grammar.label_numbers, splits),
    )


def _compile_chains(grammar: Grammar, splits: int, unary_at: int) -> list[tuple[int, int, Indices, Indices]]:
    """Return bottom and top of split chains sorted by bottoms, and weights and upper symbols of the steps upwards."""
    longest = max((len(chain) for chain in grammar.chains), default=0)
    if splits > 1 and splits**longest > MOST_SPLIT_CHAINS:
        raise InputError(
            f"splits is {splits}, but a chain of {longest} single children is in the trees, which then has "
            f"{splits}^{longest} forms; expected at most {MOST_SPLIT_CHAINS}: choose fewer splits, or shorten the chain"
        )
    found: list[tuple[int, int, Indices, Indices]] = []
    for chain in grammar.chains:
        steps = np.array([grammar.rule_numbers[pair] for pair in pairwise(chain)])
        symbols, subs = _split(np.array([chain]), splits)
        weights = unary_at + steps * splits**2 + subs[:, :-1] * splits + subs[:, 1:]
        ends = (symbols[:, -1].tolist(), symbols[:, 0].tolist())
        found.extend(zip(*ends, weights[:, ::-1], symbols[:, -2::-1], strict=True))
    return sorted(found, key=lambda chain: chain[0])


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
