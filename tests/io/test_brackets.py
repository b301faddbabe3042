import gzip
import io
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.data.trees import Tree, constituents, is_plain, preterminals, tagged_words, words
from latentstruct.exceptions import FormatError
from latentstruct.io.brackets import format_tree, parse_tree, parse_trees, read_sentences, read_trees, write_trees
from latentstruct.metrics.parses import parse_counts, parse_f1, parse_scores
from latentstruct_papers.datasets.texts import load_cess_esp, simplify_label, simplify_tag

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")

TEXTS = st.text("abcé(-/*)\U0001f600", min_size=1, max_size=4)
PLAIN = st.text("abcé-/*\U0001f600", min_size=1, max_size=4)


def trees(texts=PLAIN, max_leaves=8):
    tags = st.builds(lambda tag, word: Tree(tag, (word,)), texts, texts)
    nodes = lambda below: st.builds(lambda a, b: Tree(a, tuple(b)), texts, st.lists(below, min_size=1, max_size=3))  # noqa: E731
    return st.recursive(tags, nodes, max_leaves=max_leaves)


def parse(text, **options):
    return list(parse_trees(enumerate(text.encode().split(b"\n"), 1), "f", **options))


def parse_one(text):
    (tree,) = parse(text)
    return tree


def broken_lines(text, rng):
    """Put line ends and blanks wherever they change nothing."""
    return "".join(piece + rng.choice(["", " ", "\n", " \t\n"]) if piece in "()" else piece for piece in text)


@given(st.lists(trees(), min_size=1, max_size=4), st.booleans(), st.randoms())
def test_what_is_written_is_read_again(given_trees, wrapped, rng):
    texts = [format_tree(tree) for tree in given_trees]
    text = rng.choice(["", " ", "\n"]).join(f"({text})" if wrapped else text for text in texts)
    assert parse(broken_lines(text, rng)) == given_trees


@given(trees(TEXTS))
def test_brackets_in_words_are_escaped(tree):
    again = parse_one(format_tree(tree))
    assert words(again) == [word.replace("(", "-LRB-").replace(")", "-RRB-") for word in words(tree)]


@given(st.text("() ab\n", max_size=30))
def test_any_text_is_read_or_refused_with_its_line(text):
    lines: list[int] = []
    found = []
    try:
        found = parse(text)
    except FormatError as error:
        lines = [error.line]
    assert all(1 <= line <= text.count("\n") + 1 for line in lines)
    assert [parse_one(format_tree(tree)) for tree in found] == found


def test_files(tmp_path):
    given_trees = [Tree("S", (Tree("N", ("él",)), Tree("V", ("ve",)))), Tree("N", ("sí",))]
    for name in ("trees.mrg", "trees.mrg.gz"):
        write_trees(tmp_path / name, given_trees)
        assert read_trees(tmp_path / name) == given_trees
    assert (tmp_path / "trees.mrg").read_text(encoding="utf-8") == "(S (N él) (V ve))\n(N sí)\n"
    old = tmp_path / "old.mrg"
    old.write_bytes("\n( (S (N él él) (V ve ver)) )\n".encode("latin-1"))
    assert read_trees(old, encoding="latin-1", lemmas=True) == given_trees[:1]
    with raises(expected="UTF-8 text", line=2, error=FormatError):
        read_trees(old)
    with raises("encoding", got="'utf-16'", expected="'utf-8' or 'latin-1'"):
        read_trees(old, encoding="utf-16")
    (tmp_path / "bom.mrg.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf(N a)"))
    assert read_trees(tmp_path / "bom.mrg.gz") == [Tree("N", ("a",))]
    (tmp_path / "empty.mrg").write_text("( (S (-NONE- *)))")
    with raises(expected="brackets such as (S (NP (NN dogs)) (VP (VB bark)))", line=1, error=FormatError):
        read_trees(tmp_path / "empty.mrg")


def test_empty_elements():
    text = "(S (NP (-NONE- *T*)) (VP (V go) (NP (X *0*))))"
    assert format_tree(parse_one(text)) == "(S (VP (V go) (NP (X *0*))))"
    assert [format_tree(tree) for tree in parse(text, empty_words=["*0*"])] == ["(S (VP (V go)))"]
    assert [format_tree(tree) for tree in parse(text, empty_labels=())] == [text]
    assert parse(f"((S (NP (-NONE- *T*))))\n{text}", empty_words=["*0*", "go"]) == []


def test_plain_labels(tmp_path):
    path = tmp_path / "wsj.mrg"
    path.write_text(
        "( (S (NP-SBJ-1 (NNP-X Mary) (-LRB- -LRB-)) (VP=2 (VBZ a-b=c)) (NP-TMP (-NONE- *T*-1)) (NP-PRD (PRP$ its))))\n"
    )
    (plain,), (whole,) = read_trees(path, plain_labels=True), read_trees(path)
    assert format_tree(plain) == "(S (NP (NNP Mary) (-LRB- -LRB-)) (VP (VBZ a-b=c)) (NP (PRP$ its)))"
    assert format_tree(whole).startswith("(S (NP-SBJ-1 (NNP-X Mary)")
    path.write_text("Mary/NNP-X (/-LRB- a-b/NN\n")
    assert read_sentences(path, tagged=True, plain_labels=True) == [
        [("Mary", "NNP"), ("-LRB-", "-LRB-"), ("a-b", "NN")]
    ]


@given(
    trees(st.text("ab\u00a0\u2007\u202f-", min_size=1, max_size=4).filter(is_plain)), st.sampled_from(" \u00a0\u3000")
)
def test_no_break_spaces_belong_to_the_words_around_them(tmp_path_factory, tree, between):
    path = tmp_path_factory.mktemp("s") / "s.txt"
    # At the ends of words they are blanks like others.
    path.write_text(f"{between} {format_tree(tree).replace(')', f'{between})')}\n", encoding="utf-8")
    assert read_trees(path) == [tree]
    path.write_text(f" {between} ".join(words(tree)), encoding="utf-8")
    assert read_sentences(path) == [words(tree)]


@pytest.mark.parametrize(
    ("text", "line", "got", "expected"),
    [
        ("(S (N a)\n", 1, "the last one (S", "balanced brackets"),
        ("(S\n(N a", 2, "the last one (N", "balanced brackets"),
        ("(S (N a)))", 1, "')' without '('", "balanced brackets"),
        ("(S\n(\n(N a)))", 2, "no label", "(LABEL …)"),
        ("(S (N a) ())", 1, "()", "(TAG word) or (LABEL (TAG"),
        ("(S)", 1, "(S)", "(TAG word) or (LABEL (TAG"),
        ("(N a)\nb (N a)", 2, "'b'", "'('"),
        ("(S (N a) b)", 1, "'b'", "words in brackets with their"),
        ("(S a (N b))", 1, "the word 'a'", "brackets or one word in a"),
        ("(N a b)", 1, "'b' after 'a'", "one word in a bracket"),
        ("( (N a) b)", 1, "'b'", "words in brackets with their"),
        ("(S (N\u00a0a))", 1, "(N\u00a0a)", "(TAG word) or (LABEL (TAG"),
        ("\n( (N a) (N b))", 2, "2 trees", "one tree in a bracket without"),
    ],
)
def test_bad_brackets(text, line, got, expected):
    with raises("f", line=line, got=got, expected=expected, error=FormatError):
        parse(text)


def test_lemmas_end_with_the_second():
    with raises("f", expected="one word and its lemma in a bracket", line=1, error=FormatError):
        parse("(N a b c)", lemmas=True)


def test_depth_is_no_limit():
    depth = 20_000
    tree = parse_one("(A " * depth + "(N a)" + ")" * depth)
    assert format_tree(tree).count("(") == depth + 1
    assert parse_scores([tree], [tree]).n_correct == depth
    with raises("f", expected="balanced brackets", line=1, error=FormatError):
        parse("(A " * depth)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (Tree("N", ("a b",)), "a tree whose words have no"),
        (Tree("", ("a",)), "a tree whose labels have no"),
        (Tree("N", ()), "a tree whose leaves are words"),
    ],
)
def test_trees_that_cannot_be_written(tree, expected):
    with raises("tree", expected=expected):
        format_tree(tree)


def test_sentences(tmp_path):
    path = tmp_path / "s.txt"
    path.write_text("the  dogs\n\n 1/2/CD\ta/b\n", encoding="utf-8")
    assert read_sentences(path) == [["the", "dogs"], ["1/2/CD", "a/b"]]
    with raises(got="'the'", expected="a word and its tag such as dogs/NNS", line=1, error=FormatError):
        read_sentences(path, tagged=True)
    path.write_text("1/2/CD\ta/b\n", encoding="utf-8")
    assert read_sentences(path, tagged=True) == [[("1/2", "CD"), ("a", "b")]]
    path.write_bytes("él/N".encode("latin-1"))
    assert read_sentences(path, tagged=True, encoding="latin-1") == [[("él", "N")]]
    with raises("encoding", got="'ascii'", expected="'utf-8' or 'latin-1'"):
        read_sentences(path, encoding="ascii")
    path.write_text("a ( b)/N", encoding="utf-8")
    assert read_sentences(path) == [["a", "-LRB-", "b-RRB-/N"]]
    path.write_text(" \n")
    with raises(got="no word", expected="one sentence per line", line=1, error=FormatError):
        read_sentences(path)
    for bad in ("/N", "a/", "/"):
        path.write_text(bad)
        with raises(expected="a word and its tag such as dogs/NNS", line=1, error=FormatError):
            read_sentences(path, tagged=True)


@given(trees(), st.booleans())
def test_trees_are_not_taken_for_sentences(tmp_path_factory, tree, wrapped):
    path = tmp_path_factory.mktemp("s") / "s.txt"
    whole = format_tree(Tree("S", (tree,)))
    path.write_text(f"a b\n( {whole})" if wrapped else f"a b\n{whole}", encoding="utf-8")
    with raises(expected="a sentence instead of a tree", line=2, error=FormatError):
        read_sentences(path)
    spaced = whole.replace(")", " ) ").replace("(", " ( ")
    path.write_text(f"( {' '.join(words(tree))} )\n(\n) )\n(a b)\n{spaced}\n{whole} x\n", encoding="utf-8")
    assert len(read_sentences(path)) == 6


def listed(tree):
    """Return (label, first, last) of all constituents, by recursion."""

    def walk(node, start):
        if isinstance(node.children[0], str):
            return start + 1, []
        end, found = start, []
        for child in node.children:
            end, below = walk(child, end)
            found += below
        return end, [(node.label, start, end), *found]

    return walk(tree, 0)[1]


def taken(of, among):
    """Return how many of a list find a partner of their own in another."""
    left = list(among)
    return sum(left.remove(one) is None for one in of if one in left)


def pairs_of_trees():
    """Two trees over the same number of words."""

    def cut(tree, n):
        flat = [Tree(tag, (word,)) for word, tag in tagged_words(tree)]
        return Tree("A", tuple((flat * n)[:n]))

    def joined(one, other):
        a, b = len(words(one)), len(words(other))
        return (one, other) if a == b else (Tree("A", (one, cut(one, b))), Tree("B", (cut(other, a), other)))

    letters = st.sampled_from("AB")
    return st.builds(joined, trees(letters), trees(letters))


@given(st.lists(pairs_of_trees(), min_size=1, max_size=3))
def test_scores_against_counting(pairs):
    true, predicted = zip(*pairs, strict=True)
    scores = parse_scores(true, predicted)
    lists = [(listed(a), listed(b)) for a, b in pairs]
    assert scores.n_true == sum(len(a) for a, _ in lists)
    assert scores.n_predicted == sum(len(b) for _, b in lists)
    assert scores.n_correct == sum(taken(b, a) for a, b in lists)
    bare = [([one[1:] for one in a], [one[1:] for one in b]) for a, b in lists]
    assert scores.unlabeled.n_correct == sum(taken(b, a) for a, b in bare)
    crossings = [sum(any(s < a < t < b or a < s < b < t for a, b in one) for s, t in other) for one, other in bare]
    assert scores.crossing == pytest.approx(np.mean(crossings))
    assert scores.no_crossing == pytest.approx(np.mean([n == 0 for n in crossings]))
    assert scores.few_crossing == pytest.approx(np.mean([n <= 2 for n in crossings]))
    assert scores.complete_match == pytest.approx(np.mean([sorted(a) == sorted(b) for a, b in lists]))
    if scores.n_correct:
        harmonic = 2 / (1 / scores.precision + 1 / scores.recall)
        assert scores.f1 == pytest.approx(harmonic)
    each = parse_f1(true, predicted)
    counts = parse_counts(true, predicted)
    assert counts.tolist() == [[len(a), len(b), taken(b, a)] for a, b in lists]
    alone = [parse_scores([a], [b]) for a, b in pairs]
    assert each == pytest.approx([one.f1 if one.n_true + one.n_predicted else 1.0 for one in alone])
    assert scores.sentence_f1 == pytest.approx(each.mean())
    assert sum(one.n_correct for one in scores.by_label.values()) == scores.n_correct
    assert sum(one.n_true for one in scores.by_label.values()) == scores.n_true


@given(st.lists(trees(st.sampled_from("AB")), min_size=1, max_size=3))
def test_a_tree_is_like_itself(given_trees):
    scores = parse_scores(given_trees, given_trees)
    assert scores.n_true == scores.n_predicted == scores.n_correct == scores.unlabeled.n_correct
    assert (scores.complete_match, scores.crossing, scores.tag_accuracy, scores.sentence_f1) == (1.0, 0.0, 1.0, 1.0)


def test_scores_of_known_trees():
    true = parse_one("(TOP (S (NP (D the) (N dog)) (VP (V saw) (NP (N cats))) (. .)))")
    guess = parse_one("(TOP (S (NP (D the)) (VP (N dog) (V saw) (NP (D cats)) (. .))))")
    scores = parse_scores([true], [guess])
    assert (scores.n_true, scores.n_predicted, scores.n_correct) == (4, 4, 2)
    assert (scores.tag_accuracy, scores.n_words, scores.crossing) == (0.8, 5, 1.0)
    with_root = parse_scores([true], [guess], ignored_labels=())
    assert (with_root.n_true, with_root.n_correct) == (5, 3)
    without = parse_scores([true], [guess], ignored_tags=["."])
    assert (without.n_words, without.tag_accuracy, without.unlabeled.n_correct) == (4, 0.75, 2)
    # With the full stop taken out, a bracket that held it ends at the word before.
    late = parse_one("(TOP (S (NP (D the) (N dog)) (VP (V saw) (NP (N cats)) (. .))))")
    assert parse_scores([true], [late]).n_correct == 3
    assert parse_scores([true], [late], ignored_tags=["."]).f1 == 1.0
    assert parse_scores([], []).f1 == 0.0


def test_trees_that_cannot_be_compared():
    one, two = parse("(S (N a)) (S (N a) (N b))")
    with raises("predicted", got="1 trees", expected="a sequence of 2 trees"):
        parse_scores([one, two], [one])
    with raises("predicted[1]", got="2 words", expected="a tree of 1 words"):
        parse_f1([one, one], [one, two])
    with raises("predicted[0]"):
        parse_scores([one], [Tree("S", ("a", "b"))])


@pytest.mark.parametrize(
    ("label", "simple"),
    [
        ("sn-SUJ", "sn"),
        ("snp.co.1n-SUJ", "sn"),
        ("grup.nom.ms", "grup.nom"),
        ("grup.a.co", "grup.a"),
        ("s.a.fp.x", "sa"),
        ("sa.1c", "sa"),
        ("S.F.AComp*.j.1c", "S.F.A"),
        ("S.NF.PA", "S.NF.P"),
        ("S*.co", "S"),
        ("morfema.verbal-PASS", "morfema.verbal"),
        ("sadv", "sadv"),
    ],
)
def test_simple_labels(label, simple):
    assert simplify_label(label) == simple
    assert simplify_label(simple) == simple


def test_simple_tags():
    assert [simplify_tag(tag) for tag in ("vmip3s0", "da0fs0", "Fit", "W", "p0300000")] == [
        "vmi",
        "da",
        "Fit",
        "W",
        "p0",
    ]


def archive(home, files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as handle:
        for name, text in files.items():
            handle.writestr(name, text.encode("latin-1"))
    folder = home / "cess_esp_trees"
    folder.mkdir(exist_ok=True)
    (folder / "cess_esp.zip").write_bytes(buffer.getvalue())
    return home


def test_treebank(tmp_path):
    text = "(\n (S.co\n  (S* (sn.e-SUJ *0*) (grup.verb (vmis3s0 llegó llegar)) (Fp . .))))\n"
    files = {"cess_esp/b.tbf": text * 2, "cess_esp/a.tbf": "(S (sn", "cess_esp/c.tbf": text, "cess_esp/README": "("}
    found = load_cess_esp(archive(tmp_path, files))
    assert {format_tree(tree) for tree in found.trees} == {"(S (grup.verb (vmi llegó)) (Fp .))"}
    assert found.names == ["b", "b", "c"]
    assert len(found) == 3
    assert list(found.skipped) == ["a"]
    assert "a.tbf, line 1: expected balanced brackets" in found.skipped["a"]
    whole = load_cess_esp(tmp_path, simplify=False)
    assert format_tree(whole.trees[0]) == "(S.co (S* (grup.verb (vmis3s0 llegó)) (Fp .)))"


def test_damaged_treebanks(tmp_path):
    with raises(got="no such file", expected="a file of the data set"):
        load_cess_esp(tmp_path)
    for files in ({"README": ""}, {"a.tbf": "(S"}, {"a.tbf": "(S (x *0*))"}):
        with raises(got="none", expected="trees in files *.tbf", error=FormatError):
            load_cess_esp(archive(tmp_path, files))
    whole = archive(tmp_path, {"a.tbf": "(S (x a a))" * 99}) / "cess_esp_trees" / "cess_esp.zip"
    whole.write_bytes(whole.read_bytes()[:-30])
    with raises(expected="a complete zip archive with files *.tbf, up to 10000 files of at most", error=FormatError):
        load_cess_esp(tmp_path)


@needs_data
def test_real_treebank():
    found = load_cess_esp()
    assert (len(found), len(set(found.names)), len(found.skipped)) == (5997, 606, 3)
    sample = found.trees[::10]
    assert len({one.label for tree in sample for one in constituents(tree)}) <= 30
    assert len({node.label for tree in sample for node in preterminals(tree)}) <= 66
    assert {tree.label for tree in sample} == {"S"}
    assert not any("*0*" in words(tree) for tree in sample)


@given(trees())
def test_a_tree_is_parsed_from_a_text(tree):
    assert parse_tree(format_tree(tree)) == tree


@pytest.mark.parametrize(
    ("text", "line", "got", "expected"),
    [
        ("", None, "0 trees", "one tree"),
        ("(A (B c)) (D (E f))", None, "2 trees", "one tree"),
        ("(A (B c)", 1, "the last one (A", "balanced brackets"),
        (3, None, "3", "a string"),
    ],
)
def test_texts_that_are_no_tree(text, line, got, expected):
    with raises("text", line=line, got=got, expected=expected):
        parse_tree(text)
