"""All trees of small sentences by the grammar's lists, and a small treebank, for the tests of parsing."""

from itertools import product
from types import SimpleNamespace

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import reference
from latentstruct.data.trees import Constituent, Tree, tagged_words, without_unary_cycles, words

MOST_DERIVATIONS = 2500
LABELS, TAGS, WORDS = ("A", "B"), ("x", "y"), ("u", "v", "w")


def tree_of(text):
    """Read one bracketed tree."""
    stack = [[]]
    for token in text.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            stack.append([])
        elif token == ")":
            label, *children = stack.pop()
            stack[-1].append(Tree(label, tuple(children)))
        else:
            stack[-1].append(token)
    return stack[0][0]


BANK = [
    tree_of(text)
    for text in (
        "(S (NP (D the) (N dog)) (VP (V barks)))",
        "(S (NP (D the) (A big) (N cat)) (VP (V sees) (NP (N dogs))))",
        "(S (NP (N dogs)) (VP (V sees) (NP (D a) (N cat)) (PP (P in) (NP (N town)))))",
        "(NP (NP (N cat)) (PP (P in) (NP (D the) (N house))))",
        "(S (VP (V sees) (NP (NP (N dogs)) (PP (P in) (NP (N town))))))",
        "(S (NP (D a) (N dog)) (VP (V sees) (NP (D the) (N town)) (PP (P in) (NP (D the) (N house)))))",
    )
]
SENTENCES = [words(tree) for tree in BANK]


@st.composite
def trees(draw, most_words=4, labels=LABELS):
    """Trees over few labels, with single children, and three and more of them, not seldom."""

    def grow(n_words, depth):
        if n_words == 1 and (depth > 3 or draw(st.booleans())):
            return Tree(draw(st.sampled_from(TAGS)), (draw(st.sampled_from(WORDS)),))
        most = 1 if depth < 3 and draw(st.integers(0, 4)) == 0 else n_words
        sizes, left = [], n_words
        while left:
            size = left if most == 1 else draw(st.integers(1, left if sizes else max(1, left - 1)))
            sizes.append(size)
            left -= size
        return Tree(draw(st.sampled_from(labels)), tuple(grow(size, depth + 1) for size in sizes))

    return grow(draw(st.integers(1, most_words)), 0)


def twin_constituents(tree, start=0):
    """All labeled spans above tags, and the number of words, by recursion."""
    if isinstance(tree.children[0], str):
        return [], 1
    found, size = [], 0
    for child in tree.children:
        below, n_words = twin_constituents(child, start + size)
        found += below
        size += n_words
    return [Constituent(tree.label, start, start + size), *found], size


def require_few(count):
    """Leave a case out if it has more than can be listed in a test."""
    if count > MOST_DERIVATIONS:
        assume(False)


def derivations(task, tokens):
    """All derivations of a sentence as nested (symbol, rule kind, rule number, children), by the grammar's lists."""
    grammar, n = task.grammar_, len(tokens)
    unary = {rule: k for k, rule in enumerate(grammar.unary)}
    spans = {}
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length
            found = []
            if length == 1:
                for tag, entry in grammar.lexicon.choices(tokens[i]):
                    if grammar.tag_number(tag) >= 0:
                        found.append((grammar.tag_number(tag), "word", entry, (), i, j))
            for k in range(i + 1, j):
                for number, (parent, left, right) in enumerate(grammar.binary):
                    for one, two in product(spans[i, k], spans[k, j]):
                        if one[0] == left and two[0] == right:
                            found.append((parent, "binary", number, (one, two), i, j))
            above = []
            for chain in grammar.chains:
                for node in found:
                    if node[0] == chain[-1]:
                        for upper, lower in zip(chain[-2::-1], chain[:0:-1], strict=True):
                            node = (upper, "unary", unary[upper, lower], (node,), i, j)
                        above.append(node)
            spans[i, j] = found + above
            require_few(len(spans[i, j]))
    return [node for node in spans[0, n] if node[0] in grammar.roots]


def nodes_of(node):
    """All nodes in preorder."""
    return [node, *(below for child in node[3] for below in nodes_of(child))]


def plain_tree(task, node, tokens):
    """The tree of a derivation, artificial nodes removed, by recursion."""

    def parts(node):
        kind, label = task.grammar_.symbols[node[0]]
        if kind == "tag":
            token = tokens[node[4]]
            return (Tree(label, (token if isinstance(token, str) else token[0],)),)
        children = tuple(part for child in node[3] for part in parts(child))
        return children if " " in label else (Tree(label, children),)

    return parts(node)[0]


def span_names(task, tokens, i, j):
    """The attributes of a span, as documented."""
    key = task.grammar_.lexicon.key
    tagged = [(token, None) if isinstance(token, str) else token for token in tokens]
    padded = [("<edge>", None), *((key(word), tag) for word, tag in tagged), ("<edge>", None)]
    names = []
    for name, tag_name, place in (
        ("first", "first tag", i + 1),
        ("before", "tag before", i),
        ("last", "tag last", j),
        ("after", "tag after", j + 1),
    ):
        word, tag = padded[place]
        names.append(f"{name}={word}")
        if tag is not None:
            names.append(f"{tag_name}={tag}")
    size = sum(j - i > limit for limit in (1, 2, 3, 4, 5, 7, 10, 15, 20))
    return [*names, f"length={size}"]


def features_of(task, node, subs, tokens):
    """φ of a derivation whose nodes, in preorder, have the sub-symbols `subs`."""
    grammar, k = task.grammar_, task.splits
    unary_at = len(grammar.binary) * k**3
    lexical_at = unary_at + len(grammar.unary) * k**2
    root_at = lexical_at + len(grammar.lexicon.entries) * k
    span_at = root_at + len(grammar.roots) * k
    phi = np.zeros(task.n_features)
    order = nodes_of(node)
    sub = {id(one): a for one, a in zip(order, subs, strict=True)}
    phi[root_at + grammar.roots.index(node[0]) * k + subs[0]] += 1
    pairs = {pair: q for q, pair in enumerate(task.spans_.pairs)}
    for one in order:
        symbol, kind, rule, children, i, j = one
        below = [sub[id(child)] for child in children]
        a = sub[id(one)]
        if kind == "word" and rule >= 0:
            phi[lexical_at + rule * k + a] += 1
        elif kind == "unary":
            phi[unary_at + (rule * k + a) * k + below[0]] += 1
        elif kind == "binary":
            phi[((rule * k + a) * k + below[0]) * k + below[1]] += 1
        label = grammar.symbols[symbol][1]
        if grammar.symbols[symbol][0] == "phrase" and " " not in label and task.features == "spans":
            for name in span_names(task, tokens, i, j):
                pair = task.spans_.attributes.index(name) if name in task.spans_.attributes else -1
                at = pairs.get((pair, grammar.labels.index(label)))
                if at is not None:
                    phi[span_at + at] += 1
    return phi


def twin_loss(task, true, found):
    true, found = (set(twin_constituents(tree)[0]) for tree in (true, found))
    if task.chosen_loss == "hamming":
        return len(true - found) + len(found - true)
    return 1 - 2 * len(true & found) / max(len(true) + len(found), 1) if true or found else 0.0


def unshared(node):
    """The derivation with every node an object of its own, so that nodes can be distinguished."""
    return (*node[:3], tuple(unshared(child) for child in node[3]), *node[4:])


def list_trees(task, X, Y):
    """All (tree, sub-symbols) of each sentence."""
    listed = []
    for tokens, tree in zip(X, Y, strict=True):
        features, losses, outputs, items = [], [], [], []
        numbers = {}
        for node in map(unshared, derivations(task, tokens)):
            found = plain_tree(task, node, tokens)
            number = numbers.setdefault(found, len(numbers))
            size = len(nodes_of(node))
            require_few(task.splits**size)
            for subs in product(range(task.splits), repeat=size):
                features.append(features_of(task, node, subs, tokens))
                losses.append(twin_loss(task, without_unary_cycles(tree), found))
                outputs.append(number)
                items.append((found, subs))
                require_few(len(features))
        truth = numbers[without_unary_cycles(tree)]
        listed.append(reference.Listed(np.array(features), np.array(losses), np.array(outputs), truth, items))
    return listed


def learned(task, Y, tagged):
    X = [tagged_words(tree) if tagged else words(tree) for tree in Y]
    task.learn(X, Y)
    return SimpleNamespace(task=task, X=X, Y=Y, batch=task.prepare(X, Y))
