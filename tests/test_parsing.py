"""Parsing: trees and their binary form, grammars, and the task against all trees of small sentences."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import reference
from latentstruct import CRF, HiddenCRF, LatentSSVM, MarginalSSVM, StructuralSVM, load
from latentstruct.exceptions import InputError
from latentstruct.protocols import Temperature
from latentstruct.tasks.grammar import Grammar, Lexicon
from latentstruct.tasks.parsing import Parsing
from latentstruct.testing import check_task
from latentstruct.trees import (
    Constituent,
    Tree,
    binarise,
    check_tree,
    constituents,
    debinarise,
    is_artificial,
    preorder,
    tagged_words,
    without_unary_cycles,
    words,
)
from test_tasks import close, compare

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


# ---- trees -----------------------------------------------------------------------------------------------


@given(trees(most_words=7), st.sampled_from([None, 0, 1, 2, 3]))
@settings(max_examples=80, deadline=None)
def test_binary_form_and_back(tree, markov):
    found = binarise(tree, markov)
    assert debinarise(found) == tree
    assert all(len(node.children) <= 2 for node in preorder(found))
    assert constituents(found) == constituents(tree)
    assert words(found) == words(tree)
    for node in preorder(found):
        if is_artificial(node.label) and markov is not None:
            assert len(node.label.split()) <= 2 + markov


def twin_constituents(tree, start=0):
    """All labelled spans above tags, and the number of words, by recursion."""
    if isinstance(tree.children[0], str):
        return [], 1
    found, size = [], 0
    for child in tree.children:
        below, n_words = twin_constituents(child, start + size)
        found += below
        size += n_words
    return [Constituent(tree.label, start, start + size), *found], size


@given(trees(most_words=7))
@settings(max_examples=100, deadline=None)
def test_constituents_are_those_of_the_recursion(tree):
    expected, n_words = twin_constituents(tree)
    assert sorted(constituents(tree)) == sorted(expected)
    assert len(words(tree)) == n_words


@given(trees(most_words=5))
@settings(max_examples=100, deadline=None)
def test_without_unary_cycles_labelled_spans_are_unique(tree):
    short = without_unary_cycles(tree)
    found = constituents(short)
    assert len(set(found)) == len(found)
    assert set(found) <= set(constituents(tree))
    assert {(s, e) for _, s, e in found} == {(s, e) for _, s, e in constituents(tree)}
    assert tagged_words(short) == tagged_words(tree)
    assert without_unary_cycles(short) == short


def test_unary_cycles_are_cut_to_the_upper_label():
    assert without_unary_cycles(tree_of("(A (B (A (C (t x)))))")) == tree_of("(A (C (t x)))")
    assert without_unary_cycles(tree_of("(A (B (A (t x) (t y))))")) == tree_of("(A (t x) (t y))")
    assert without_unary_cycles(tree_of("(t (t x))")) == tree_of("(t (t x))")


def test_depth_is_no_limit():
    deep = Tree("t", ("x",))
    for k in range(20_000):
        deep = Tree(f"A{k}", (deep,)) if k % 2 else Tree("B", (deep, Tree("t", ("y",))))
    check_tree(deep)
    n_nodes = sum(1 for _ in preorder(deep))
    assert n_nodes == 30_001
    for form in (binarise(deep), debinarise(deep), without_unary_cycles(deep)):
        assert sum(1 for _ in preorder(form)) == n_nodes
    assert constituents(deep)[0] == Constituent("A19999", 0, 10_001)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("S", "str where a Tree"),
        (Tree("S", ()), "at least one tree or word"),
        (Tree("", (Tree("t", ("x",)),)), "a label of tree is ''"),
        (Tree("A B", (Tree("t", ("x",)),)), "no whitespace"),
        (Tree("S", ("x", Tree("t", ("y",)))), "'x' of type str where a Tree"),
        (Tree("S", (Tree("t", ("two words",)),)), "a word of tree"),
        (Tree("S", [Tree("t", ("x",))]), "expected a tuple"),
    ],
)
def test_malformed_trees_are_refused(tree, message):
    with pytest.raises(InputError, match=message):
        check_tree(tree)


def test_bad_markov_order():
    with pytest.raises(InputError, match="markov is -1"):
        binarise(BANK[0], -1)


# ---- the twin --------------------------------------------------------------------------------------------


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
    """The derivation with every node an object of its own, so that nodes can be told apart."""
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


# ---- the task against all trees ----------------------------------------------------------------------------


@given(
    st.lists(trees(), min_size=1, max_size=3),
    st.sampled_from(["rules", "spans"]),
    st.sampled_from([None, 0, 1]),
    st.booleans(),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.sampled_from([0.0, 1.0, 40.0, 200.0]),
    st.integers(0, 2**31),
)
@settings(max_examples=60, deadline=None)
def test_task_is_the_enumeration(Y, features, markov, tagged, temperature, scale, seed):
    case = learned(Parsing(features, markov=markov, rare=0), Y, tagged)
    listed = list_trees(case.task, case.X, Y)
    assert all(len({item[0] for item in one.items}) == len(one.items) for one in listed)
    w = scale * np.random.default_rng(seed).normal(size=case.task.n_features)
    if scale or temperature:
        compare(case.task, case.batch, listed, w, Temperature(temperature, temperature))
    for found, one in zip(case.task.decode(case.batch, w, Temperature()), listed, strict=True):
        scores = one.features @ w
        close(found.score, scores.max())
        close(scores[[item[0] for item in one.items].index(found.y)], scores.max())


@given(
    st.lists(trees(most_words=3, labels=("A",)), min_size=1, max_size=2),
    st.sampled_from(["rules", "spans"]),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.sampled_from([(2, True), (2, False), (3, True)]),
    st.integers(0, 2**31),
)
@settings(max_examples=30, deadline=None)
def test_split_symbols_are_the_enumeration(Y, features, temperature, splits_and_tagged, seed):
    splits, tagged = splits_and_tagged
    case = learned(Parsing(features, splits=splits, rare=0), Y, tagged)
    listed = list_trees(case.task, case.X, Y)
    w = np.random.default_rng(seed).normal(size=case.task.n_features)
    compare(case.task, case.batch, listed, w, Temperature(temperature, temperature))
    for latent, one in zip(case.task.complete(case.batch, w), listed, strict=True):
        known = one.outputs == one.true_output
        scores = np.where(known, one.features @ w, -np.inf)
        assert one.items[int(scores.argmax())][1] == tuple(latent)


@given(
    st.lists(trees(), min_size=1, max_size=3),
    st.lists(
        st.sampled_from(["u", "v", "w", "unknown", "7", ("u", "x"), ("unknown", "y"), ("w", "unseen")]),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["rules", "spans"]),
    st.integers(0, 1),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(1, 2),
    st.integers(0, 2**31),
)
@settings(max_examples=60, deadline=None)
def test_sentences_that_were_not_trained_on_are_the_enumeration(Y, tokens, features, rare, temperature, splits, seed):
    case = learned(Parsing(features, splits=splits, rare=rare), Y, tagged=False)
    w = np.random.default_rng(seed).normal(size=case.task.n_features)
    # The second sentence has a chart of its own after that of the longer first one.
    batch = case.task.prepare([["u"] * 5, tokens])
    planes = case.task.planes(batch, w, "free", Temperature(temperature, temperature))
    found = case.task.decode(batch, w, Temperature())[1]
    nodes = [unshared(node) for node in derivations(case.task, tokens)]
    require_few(sum(splits ** len(nodes_of(node)) for node in nodes))
    if not nodes:
        assert planes.values[1] == found.score == -np.inf
        assert words(found.y) == [token if isinstance(token, str) else token[0] for token in tokens]
        assert not planes.slopes().toarray()[1].any()
        return
    chosen = [(node, subs) for node in nodes for subs in product(range(splits), repeat=len(nodes_of(node)))]
    phi = np.array([features_of(case.task, node, subs, tokens) for node, subs in chosen])
    scores = phi @ w
    best = scores.max()
    shares = np.exp((scores - best) / temperature) if temperature else (scores == best).astype(float)
    close(planes.values[1], best + temperature * np.log(shares.sum()))
    close(found.score, best)
    equally_good = [node for (node, _), score in zip(chosen, scores, strict=True) if score > best - 1e-9]
    assert found.y in [plain_tree(case.task, node, tokens) for node in equally_good]
    if temperature:
        close(planes.slopes().toarray()[1], shares @ phi / shares.sum())


@given(st.lists(trees(), min_size=1, max_size=3), st.integers(0, 2**31), st.sampled_from([0.1, 1.0]))
@settings(max_examples=40, deadline=None)
def test_f1_search_answers_with_trees_and_at_most_the_maximum(Y, seed, scale):
    case = learned(Parsing(loss="f1", rare=0), Y, tagged=False)
    w = scale * np.random.default_rng(seed).normal(size=case.task.n_features)
    planes = case.task.planes(case.batch, w, "augmented", Temperature())
    assert not planes.exact
    assert len(case.task.planes(case.batch, w, "augmented", Temperature(), np.zeros(0, dtype=np.int64))) == 0
    for k, one in enumerate(list_trees(case.task, case.X, Y)):
        best = reference.pool(one, w, "augmented")
        floor = reference.pool(one, w, "clamped").value
        assert floor - 1e-9 <= planes.values[k] <= best.value + 1e-9
        slope = planes.slopes().toarray()[k]
        same = np.abs(one.features - slope).max(axis=1) + np.abs(one.losses - planes.offsets[k])
        assert same.min() < 1e-9


@given(st.lists(trees(), min_size=1, max_size=3), st.integers(0, 2**31), st.sampled_from([0.1, 1.0]), st.integers(1, 2))
@settings(max_examples=25, deadline=None)
def test_f1_of_short_sentences_is_the_maximum(Y, seed, scale, splits):
    case = learned(Parsing("spans", loss="f1", rare=0, exact_words=4, splits=splits), Y, tagged=splits == 2)
    listed = list_trees(case.task, case.X, Y)
    w = scale * np.random.default_rng(seed).normal(size=case.task.n_features)
    assert case.task.planes(case.batch, w, "augmented", Temperature()).exact
    compare(case.task, case.batch, listed, w, Temperature())


def test_f1_search_mostly_finds_the_maximum():
    hits = 0
    for seed in range(20):
        case = learned(Parsing(loss="f1"), BANK[:4], tagged=False)
        w = 0.3 * np.random.default_rng(seed).normal(size=case.task.n_features)
        values = case.task.planes(case.batch, w, "augmented", Temperature()).values
        best = [reference.pool(one, w, "augmented").value for one in list_trees(case.task, case.X, BANK[:4])]
        hits += int((values > np.array(best) - 1e-9).sum())
    assert hits >= 70


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize(
    "task",
    [
        Parsing(),
        Parsing("spans", markov=None),
        Parsing(loss="f1"),
        Parsing(splits=2),
        Parsing("spans", splits=3, markov=0),
        Parsing(loss="f1", splits=2),
        Parsing(loss="f1", exact_words=4),
        Parsing("spans", loss="f1", exact_words=9),
    ],
)
def test_contract(task, tagged):
    check_task(task, [tagged_words(tree) for tree in BANK] if tagged else SENTENCES, BANK)


# ---- grammars and words --------------------------------------------------------------------------------------


def test_rare_words_stand_for_unknown_ones():
    pairs = [[(word, "N") for word in ("nation", "station", "ration", "motion", "lotion")], [("7", "Z"), (",", "F")]]
    lexicon = Lexicon.learn(pairs, rare=1, unknown="suffix")
    assert lexicon.choices("caution") == [("N", lexicon.numbers["~lower-ion"]["N"])]
    assert [tag for tag, _ in lexicon.choices("1914")] == ["Z"]
    assert [tag for tag, _ in lexicon.choices(";")] == ["F"]
    # Nothing was seen of capitals: any tag is possible, and none has a weight.
    assert lexicon.choices("Paris") == [("F", -1), ("N", -1), ("Z", -1)]
    assert lexicon.choices(("Paris", "Z")) == [("Z", -1)]
    together = Lexicon.learn(pairs, rare=1, unknown="one")
    assert {tag for tag, _ in together.choices("Paris")} == {"N", "Z", "F"}
    known = Lexicon.learn(pairs, rare=0, unknown="class")
    assert known.choices("nation") == [("N", known.numbers["=nation"]["N"])]


def test_grammar_reads_rules_chains_and_roots():
    grammar = Grammar.learn(BANK, markov=1, rare=0, unknown="class")

    def names(numbers):
        return tuple(grammar.symbols[number][1] for number in numbers)

    assert {names(chain) for chain in grammar.chains} == {("NP", "N"), ("VP", "V"), ("S", "VP")}
    assert ("VP", "V", "VP V …") in {names(rule) for rule in grammar.binary}
    assert names(grammar.roots) == ("S", "NP")
    assert grammar.labels == ["NP", "PP", "S", "VP"]
    assert Grammar.from_state(grammar.state()).state() == grammar.state()


def test_pcfg_weights_are_log_relative_frequencies():
    task = Parsing(rare=0)
    task.learn(SENTENCES, BANK)
    w = task.pcfg_weights(SENTENCES, BANK)
    by_parent = {}
    grammar = task.grammar_
    at = 0
    for parents in (
        [rule[0] for rule in grammar.binary],
        [rule[0] for rule in grammar.unary],
        [grammar.tag_number(tag) for _, tag in grammar.lexicon.entries],
    ):
        for parent in parents:
            by_parent[parent] = by_parent.get(parent, 0.0) + np.exp(w[at])
            at += 1
    close(list(by_parent.values()), np.ones(len(by_parent)))
    close(np.exp(w[at:]), [5 / 6, 1 / 6])
    split = Parsing(rare=0, splits=2)
    split.learn(SENTENCES, BANK)
    # Equal shares of sub-symbols: sums over them are the plain grammar's, scores of trees differ by nothing else.
    soft = Temperature(1.0, 1.0)
    plain, shared = (
        one.planes(one.prepare(SENTENCES, BANK), weights, "free", soft).values
        for one, weights in ((task, w), (split, split.pcfg_weights(SENTENCES, BANK)))
    )
    close(shared, plain)


def test_sentence_without_a_derivation_has_the_flat_tree():
    task = Parsing()
    task.learn(SENTENCES, BANK)
    w = task.pcfg_weights(SENTENCES, BANK)
    X = [["barks", "the"], [("Zebra", "NEW"), ("dogs", "N")], ["the", "dog", "barks"]]
    batch = task.prepare(X)
    first, second, third = task.decode(batch, w, Temperature())
    assert words(first.y) == X[0]
    assert first.y.label == second.y.label == "S"
    assert second.y.children == (Tree("NEW", ("Zebra",)), Tree("N", ("dogs",)))
    assert first.score == second.score == -np.inf
    assert third.y == BANK[0]
    for temperature in (0.0, 1.0):
        planes = task.planes(batch, w, "free", Temperature(temperature))
        assert planes.values[0] == planes.offsets[0] == -np.inf
        assert np.isfinite(planes.values[2])
        assert not np.isnan(planes.dot(w)).any()


def test_given_tags_need_not_be_those_of_training():
    task = Parsing("spans")
    task.learn(SENTENCES, BANK)
    tree = tree_of("(S (NP (D the) (N barks)) (VP (V dog)))")
    batch = task.prepare([tagged_words(tree)], [tree])
    w = np.random.default_rng(0).normal(size=task.n_features)
    clamped, free = (task.planes(batch, w, mode, Temperature()).values[0] for mode in ("clamped", "free"))
    assert np.isfinite(clamped)
    assert clamped <= free + 1e-12
    with pytest.raises(InputError, match="tag 'N' of the word 'barks'"):
        task.prepare([words(tree)], [tree])


def test_memory_that_is_not_there_is_told(monkeypatch):
    task = Parsing(loss="f1", exact_words=60)
    task.learn(SENTENCES, BANK)
    batch = task.prepare(SENTENCES, BANK)
    w = np.zeros(task.n_features)
    long = Tree("S", (BANK[0].children[0], Tree("VP", (Tree("V", ("sees",)), BANK[0].children[0]))))
    for _ in range(40):
        long = Tree("S", (Tree("NP", (Tree("N", ("dogs",)),)), Tree("VP", (Tree("V", ("sees",)), Tree("NP", (long,))))))
    other = Parsing(loss="f1", exact_words=200)
    other.learn([words(long)], [long])
    with pytest.raises(InputError, match=r"exact_words is 200, but a sentence of 85 words takes \d+\.\d GiB then"):
        other.planes(other.prepare([words(long)], [long]), np.zeros(other.n_features), "augmented", Temperature())

    def no_memory(*_):
        raise MemoryError

    monkeypatch.setattr("latentstruct.kernels.parsing.best_trees", no_memory)
    monkeypatch.setattr("latentstruct.kernels.inside_outside.pool_trees", no_memory)
    for call in (
        lambda: task.decode(batch, w, Temperature()),
        lambda: task.planes(batch, w, "free", Temperature()),
    ):
        with pytest.raises(InputError, match="no memory for the chart of a sentence of 8 words"):
            call()
    task.chosen_loss = "hamming"
    with pytest.raises(InputError, match="no memory for the chart"):
        task.total(batch, w, "free", Temperature(1.0), np.ones(len(BANK)))


def test_long_sentences_tell_what_memory_they_take():
    task = Parsing()
    task.learn(SENTENCES, BANK)
    with pytest.warns(UserWarning, match=r"a sentence has 3000 words, whose chart takes \d+\.\d GiB"):
        task.prepare([["dog"] * 3000])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"features": "words"}, "features is 'words'; expected one of rules, spans"),
        ({"loss": "zero-one"}, "loss is 'zero-one'; expected one of hamming, f1"),
        ({"unknown": "all"}, "unknown is 'all'"),
        ({"splits": 0}, "splits is 0"),
        ({"splits": 2.5}, "splits is 2.5"),
        ({"markov": -1}, "markov is -1"),
        ({"rare": True}, "rare is True"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(InputError, match=message):
        Parsing(**parameters).learn(SENTENCES, BANK)


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (["the dog barks"], BANK[:1], r"X\[0\] is of type str"),
        ([[]], BANK[:1], r"X\[0\] has no words"),
        ([["the", 3, "barks"]], BANK[:1], r"X\[0\] has 3 at place 1"),
        ([["the", ("dog", ""), "barks"]], BANK[:1], "neither of them empty"),
        ([["the", "old dog", "barks"]], BANK[:1], "or with whitespace in it"),
        ([{"the", "dog", "barks"}], BANK[:1], r"X\[0\] is of type set"),
        ([["the", "dog"]], BANK[:1], r"Y\[0\] has 3 words but X\[0\] has 2"),
        ([["the", "cat", "barks"]], BANK[:1], r"\('dog', 'N'\) at place 1, but X\[0\] has 'cat'"),
        ([["the", ("dog", "V"), "barks"]], BANK[:1], r"X\[0\] has \('dog', 'V'\)"),
        (SENTENCES[:1], ["(S x)"], "where a Tree was expected"),
        (SENTENCES[:1], [tree_of("(S (NP (D the) (N dog)) (XP (V barks)))")], r"Y\[0\] has the phrase 'XP'"),
        (SENTENCES[:1], [tree_of("(S (NP (D the)) (VP (N dog) (V barks)))")], "chain NP → D"),
        (SENTENCES[:1], [tree_of("(VP (NP (D the) (N dog)) (VP (V barks)))")], "root 'VP'"),
        (SENTENCES[:1], [tree_of("(S (NP (D the) (N dog)) (VP (P barks)))")], "chain VP → P"),
        (SENTENCES[:1], [tree_of("(S (NP (D the) (N dog)) (VP (V barks) (NP (N the))))")], "4 words but"),
        ([["in", "dog"]], [tree_of("(NP (D in) (N dog))")], "tag 'D' of the word 'in'"),
        (SENTENCES[:1], [tree_of("(S (S (D the) (N dog)) (VP (V barks)))")], "rule S → S VP"),
    ],
)
def test_bad_examples(X, Y, message):
    task = Parsing(rare=0)
    task.learn(SENTENCES, BANK)
    with pytest.raises(InputError, match=message):
        task.prepare(X, Y)


def test_temperatures_that_have_no_inference_are_refused():
    with pytest.raises(InputError, match="use equal ones"):
        MarginalSSVM(Parsing(splits=2)).fit(SENTENCES, BANK)
    with pytest.raises(InputError, match="hard max only"):
        CRF(Parsing(loss="f1")).fit(SENTENCES, BANK)


def test_latents_that_do_not_fit_are_refused():
    task = Parsing(splits=2)
    task.learn(SENTENCES, BANK)
    batch = task.prepare(SENTENCES, BANK)
    latents = task.random_latents(batch, np.random.default_rng(0))
    for wrong in (latents[0][:-1], latents[0] + 2, latents[0] * 0.5):
        with pytest.raises(InputError, match=r"latents\[0\]"):
            task.completion_planes(batch, [wrong, *latents[1:]])


# ---- training --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        StructuralSVM(Parsing(), C=10.0),
        StructuralSVM(Parsing("spans", loss="f1"), C=10.0),
        CRF(Parsing("spans"), C=10.0),
        LatentSSVM(Parsing(splits=2), C=10.0, max_rounds=10, restarts=1),
        HiddenCRF(Parsing(splits=2), C=10.0, restarts=1),
    ],
    ids=lambda model: type(model).__name__ + repr(model.task),
)
@pytest.mark.filterwarnings("ignore::latentstruct.exceptions.ConvergenceWarning")
def test_training_finds_the_trees_and_keeps_them(model, tmp_path):
    # Without the tree whose phrase is attached elsewhere than in all others, which no weights of rules can tell.
    X, Y = SENTENCES[:4] + SENTENCES[5:], BANK[:4] + BANK[5:]
    model.fit(X, Y)
    assert model.predict(X) == Y
    assert model.score(X, Y) == 1.0
    assert not model.loss(X, Y).any()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    strange = [["a", "cat", "jumps"], ["the", "big", "dog", "sees", "town"]]
    assert again.predict(strange) == model.predict(strange)
    assert again.task_.get_params() == model.task_.get_params()


def test_damaged_states_are_refused():
    task = Parsing("spans")
    task.learn(SENTENCES, BANK)
    for part, name, wrong in (
        ("grammar", "binary", [[0, 1, 10_000]]),
        ("grammar", "roots", []),
        ("grammar", "chains", [[0, 1, 0]]),
        ("grammar", "unary", []),
        ("spans", "pairs", [[0, 99]]),
        ("spans", "pairs", [[0, 0]] * 50),
    ):
        state = task.state()
        state[part][name] = wrong
        with pytest.raises(InputError, match="the state is damaged"):
            Parsing("spans").restore(state)


def test_long_chains_have_too_many_sub_symbols():
    deep = Tree("t", ("x",))
    for k in range(40):
        deep = Tree(f"A{k}", (deep,))
    Parsing().learn([["x"]], [deep])
    with pytest.raises(InputError, match="a chain of 41 single children"):
        Parsing(splits=2).learn([["x"]], [deep])


def test_score_is_the_f1_of_all_constituents():
    task = Parsing()
    true = [tree_of("(S (A (t x) (t y)) (t z))"), tree_of("(S (t x))")]
    found = [tree_of("(S (t x) (A (t y) (t z)))"), tree_of("(B (S (t x)))")]
    # 3 true, 4 predicted, 2 right.
    close(task.score(true, found), 4 / 7)
    close(task.score(true, found, np.array([1.0, 0.0])), 0.5)
    close(task.loss(true, found), [2.0, 1.0])
    close(Parsing(loss="f1").loss(true, found), [0.5, 1 / 3])
