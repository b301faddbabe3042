"""Parsing: grammars and their weights, what is refused, training and saving."""

import numpy as np
import pytest
from parsing_reference import BANK, SENTENCES, tree_of
from test_tasks import close

from error_fields import raises
from latentstruct import CRF, HiddenCRF, LatentSSVM, MarginalSSVM, StructuralSVM, load
from latentstruct.core.protocols import Temperature
from latentstruct.data.trees import Tree, tagged_words, words
from latentstruct.tasks.parsing.grammar import Grammar, Lexicon
from latentstruct.tasks.parsing.task import Parsing


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
    with raises("Y[0]", expected="a tree with symbols and rules of the training data"):
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
    with raises("exact_words", expected="small enough for charts of at most 4 GiB (85 words take 13.7 GiB)"):
        other.planes(other.prepare([words(long)], [long]), np.zeros(other.n_features), "augmented", Temperature())

    def no_memory(*_):
        raise MemoryError

    monkeypatch.setattr("latentstruct._native.parsing.best_trees", no_memory)
    monkeypatch.setattr("latentstruct._native.parsing.pool_trees", no_memory)
    monkeypatch.setattr("latentstruct._native.parsing.probable_labels", no_memory)
    for call in (
        lambda: task.decode(batch, w, Temperature()),
        lambda: task.planes(batch, w, "free", Temperature()),
    ):
        with raises("X", got="a sentence of 8 words", expected="fit into memory"):
            call()
    task.chosen_loss = "hamming"
    with raises("X", expected="fit into memory"):
        task.total(batch, w, "free", Temperature(1.0), np.ones(len(BANK)))
    with raises("X", expected="fit into memory"):
        task.marginals(batch, w, Temperature(1.0))


def test_long_sentences_tell_what_memory_they_take():
    task = Parsing()
    task.learn(SENTENCES, BANK)
    with pytest.warns(UserWarning, match=r"3000 words takes \d+\.\d GiB"):
        task.prepare([["dog"] * 3000])


@pytest.mark.parametrize(
    ("parameters", "parameter", "got", "expected"),
    [
        ({"features": "words"}, "features", "'words'", "'rules' or 'spans'"),
        ({"loss": "zero-one"}, "loss", "'zero-one'", "'hamming' or 'f1'"),
        ({"unknown": "all"}, "unknown", "'all'", "'suffix', 'class' or 'one'"),
        ({"splits": 0}, "splits", "0", "an integer from 1 to 8"),
        ({"splits": 2.5}, "splits", "2.5", "an integer from 1 to 8"),
        ({"markov": -1}, "markov", "-1", "an integer of at least 0 or None"),
        ({"rare": True}, "rare", "True", "an integer of at least 0"),
        ({"exact_words": -1}, "exact_words", "-1", "an integer of at least 0"),
    ],
)
def test_bad_parameters(parameters, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        Parsing(**parameters).learn(SENTENCES, BANK)


@pytest.mark.parametrize(
    ("X", "Y", "parameter", "got", "expected"),
    [
        (["the dog barks"], BANK[:1], "X[0]", "", "a list of words or of pairs (word, tag)"),
        ([[]], BANK[:1], "X[0]", "none", "a list of at least one word"),
        ([["the", 3, "barks"]], BANK[:1], "X[0][1]", "", "a word or a pair (word, tag), not empty and"),
        ([["the", ("dog", ""), "barks"]], BANK[:1], "X[0][1]", "", "a word or a pair (word, tag), not"),
        ([["the", "old dog", "barks"]], BANK[:1], "X[0][1]", "", "without spaces"),
        ([{"the", "dog", "barks"}], BANK[:1], "X[0]", "", "a list of words or of pairs (word, tag)"),
        ([["the", "dog"]], BANK[:1], "Y[0]", "", "a tree with the 2 words of `X[0]`"),
        ([["the", "cat", "barks"]], BANK[:1], "Y[0]", "", "a tree with the words of `X[0]`, 'cat' at"),
        ([["the", ("dog", "V"), "barks"]], BANK[:1], "Y[0]", "", "a tree with the words of `X[0]`"),
        (SENTENCES[:1], ["(S x)"], "Y[0]", "", "built of Tree(label, children) whose"),
        (SENTENCES[:1], [tree_of("(S (NP (D the) (N dog)) (XP (V barks)))")], "Y[0]", "", "a tree with"),
        (
            SENTENCES[:1],
            [tree_of("(S (NP (D the)) (VP (N dog) (V barks)))")],
            "Y[0]",
            "chain NP → D",
            "a tree with symbols and rules of the training data",
        ),
        (
            SENTENCES[:1],
            [tree_of("(VP (NP (D the) (N dog)) (VP (V barks)))")],
            "Y[0]",
            "root 'VP'",
            "a tree with symbols and rules of the training data",
        ),
        (
            SENTENCES[:1],
            [tree_of("(S (NP (D the) (N dog)) (VP (P barks)))")],
            "Y[0]",
            "chain VP → P",
            "a tree with symbols and rules of the training data",
        ),
        (
            SENTENCES[:1],
            [tree_of("(S (NP (D the) (N dog)) (VP (V barks) (NP (N the))))")],
            "Y[0]",
            "",
            "a tree with the 3 words of `X[0]`",
        ),
        ([["in", "dog"]], [tree_of("(NP (D in) (N dog))")], "Y[0]", "tag 'D' of the word 'in'", ""),
        (
            SENTENCES[:1],
            [tree_of("(S (S (D the) (N dog)) (VP (V barks)))")],
            "Y[0]",
            "rule S → S VP",
            "a tree with symbols and rules of the training data",
        ),
    ],
)
def test_bad_examples(X, Y, parameter, got, expected):
    task = Parsing(rare=0)
    task.learn(SENTENCES, BANK)
    with raises(parameter, got=got, expected=expected):
        task.prepare(X, Y)


def test_temperatures_that_have_no_inference_are_refused():
    with raises("temperature", hint="LatentSSVM or HiddenCRF"):
        MarginalSSVM(Parsing(splits=2)).fit(SENTENCES, BANK)
    with raises("temperature", got="1.0", expected="0 if `loss` is 'f1'"):
        CRF(Parsing(loss="f1")).fit(SENTENCES, BANK)


def test_latents_that_do_not_fit_are_refused():
    task = Parsing(splits=2)
    task.learn(SENTENCES, BANK)
    batch = task.prepare(SENTENCES, BANK)
    latents = task.random_latents(batch, np.random.default_rng(0))
    for wrong in (latents[0][:-1], latents[0] + 2, latents[0] * 0.5):
        with raises("latents[0]", expected="6 integers from 0 to 1, one per node of the tree in binary form"):
            task.completion_planes(batch, [wrong, *latents[1:]])


# ---- training --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        StructuralSVM(Parsing(), C=10.0),
        StructuralSVM(Parsing("spans", loss="f1"), C=10.0),
        CRF(Parsing("spans"), C=10.0),
        LatentSSVM(Parsing(splits=2), C=10.0, max_iter=10, restarts=1),
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


def test_slack_rescaling_trains():
    X, Y = SENTENCES[:4] + SENTENCES[5:], BANK[:4] + BANK[5:]
    for task in (Parsing(), Parsing("spans", loss="f1")):
        model = StructuralSVM(task, C=10.0, rescaling="slack", max_iter=1000).fit(X, Y)
        assert model.predict(X) == Y


def test_words_with_no_break_spaces():
    tree = Tree("S", (Tree("Z", ("10\u00a0000",)), Tree("N", ("dogs",))))
    model = StructuralSVM(Parsing(rare=0)).fit([words(tree)], [tree])
    assert model.predict([words(tree)]) == [tree]


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
        with raises(hint="Train again") as caught:
            Parsing("spans").restore(state)
        assert caught.value.parameter.startswith("state")
        assert caught.value.expected.startswith(("consistent", "sorted distinct pairs"))


def test_long_chains_have_too_many_sub_symbols():
    deep = Tree("t", ("x",))
    for k in range(40):
        deep = Tree(f"A{k}", (deep,))
    Parsing().learn([["x"]], [deep])
    with raises("splits", got="2", expected="small enough for at most 100000 forms of a chain of 41 single children"):
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
