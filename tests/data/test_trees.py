"""Trees, their constituents and labels, and their binary form."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing_reference import BANK, tree_of, trees, twin_constituents

from error_fields import raises
from latentstruct.data.trees import (
    Constituent,
    Tree,
    binarize,
    check_tree,
    constituents,
    debinarize,
    is_artificial,
    plain_label,
    preorder,
    tagged_words,
    without_unary_cycles,
    words,
)


@given(trees(most_words=7), st.sampled_from([None, 0, 1, 2, 3]))
@settings(max_examples=80, deadline=None)
def test_binary_form_and_back(tree, markov):
    found = binarize(tree, markov)
    assert debinarize(found) == tree
    assert all(len(node.children) <= 2 for node in preorder(found))
    assert constituents(found) == constituents(tree)
    assert words(found) == words(tree)
    for node in preorder(found):
        if is_artificial(node.label) and markov is not None:
            assert len(node.label.split()) <= 2 + markov


@given(trees(most_words=7))
@settings(max_examples=100, deadline=None)
def test_constituents_are_those_of_the_recursion(tree):
    expected, n_words = twin_constituents(tree)
    assert sorted(constituents(tree)) == sorted(expected)
    assert len(words(tree)) == n_words


@given(trees(most_words=5))
@settings(max_examples=100, deadline=None)
def test_without_unary_cycles_labeled_spans_are_unique(tree):
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
    for form in (binarize(deep), debinarize(deep), without_unary_cycles(deep)):
        assert sum(1 for _ in preorder(form)) == n_nodes
    assert constituents(deep)[0] == Constituent("A19999", 0, 10_001)


@pytest.mark.parametrize(
    ("tree", "got", "expected"),
    [
        ("S", "'S' of type str", "built of Tree(label, children) whose children are"),
        (Tree("S", ()), "", "at least one tree or word"),
        (Tree("", (Tree("t", ("x",)),)), "''", "labels that are not empty, without whitespace"),
        (Tree("A B", (Tree("t", ("x",)),)), "'A B'", "labels that are not empty, without whitespace"),
        (Tree("S", ("x", Tree("t", ("y",)))), "'x' of type str", "built of Tree(label, children) whose children are"),
        (Tree("S", (Tree("t", ("two words",)),)), "", "words that are not empty, without whitespace"),
        (Tree("S", [Tree("t", ("x",))]), "", "a tuple of at least one tree or word"),
    ],
)
def test_malformed_trees_are_refused(tree, got, expected):
    with raises("tree", got=got, expected=expected):
        check_tree(tree)


def test_bad_markov_order():
    with raises("markov", got="-1", expected="an integer of at least 0 or None"):
        binarize(BANK[0], -1)


@pytest.mark.parametrize("space", ["\u00a0", "\u2007", "\u202f"])
def test_no_break_spaces_may_stand_within_words(space):
    check_tree(Tree("Z", (f"10{space}000",)))
    for word in (space, f"10{space}", f"{space}10", f"10{space} 000", f"10\u3000{space}000"):
        with raises("tree", expected="a tree of words that are not empty, without whitespace"):
            check_tree(Tree("Z", (word,)))


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        ("NP", "NP"),
        ("NP-SBJ", "NP"),
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("NP-LOC=2", "NP"),
        ("NP=2-LOC", "NP"),
        ("ADVP|PRT", "ADVP|PRT"),
        ("PRP$", "PRP$"),
        ("-NONE-", "-NONE-"),
        ("-LRB-", "-LRB-"),
        ("-", "-"),
        ("=", "="),
        ("N-", "N"),
        ("", ""),
    ],
)
def test_plain_labels(label, plain):
    assert plain_label(label) == plain


@given(st.text("ab-=", max_size=6))
def test_plain_labels_stay_as_they_are(label):
    plain = plain_label(label)
    assert label.startswith(plain)
    assert plain_label(plain) == plain
    assert bool(plain) == bool(label)
