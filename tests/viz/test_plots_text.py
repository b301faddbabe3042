"""Plots of weights, scores, sites and trees: what is drawn, and what is refused."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from parsing_reference import trees

from error_fields import raises
from latentstruct import CRF, Chain
from latentstruct.data.trees import Constituent, Tree, constituents, preorder, words
from latentstruct.tasks.motif.sites import Site
from latentstruct.viz.plots import (
    plot_matrix,
    plot_scores,
    plot_sites,
    plot_starts,
    plot_substitutions,
    plot_transitions,
    plot_tree,
    plot_weights,
)
from latentstruct.viz.plots.colors import AGAINST, FOR
from latentstruct.viz.plots.features import can_write, drawn_text, shorten
from latentstruct.viz.plots.trees import tree_height


def new_axes(width=6.0, height=3.0):
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def texts(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def draw(ax):
    """Lay everything out, as saving does; formulas and signs without a glyph would show here."""
    ax.figure.draw_without_rendering()
    return ax


def test_weights():
    ax = new_axes()
    names = ["a long name, " * 5, "$x$ and $", "b\tc\n", "d"]
    assert plot_weights(names, [3.0, -2.0, 0.5, 0.0], ax) is ax
    draw(ax)
    assert [bar.get_width() for bar in ax.patches] == [3.0, -2.0, 0.5, 0.0]
    assert [to_hex(bar.get_facecolor()) for bar in ax.patches[:3]] == [FOR, AGAINST, FOR]
    assert texts(ax.yaxis) == ["a long name, a long name, a lon…", r"\$x\$ and \$", "b␣c␣", "d"]
    assert ax.yaxis_inverted()
    assert ax.get_xlabel() == "weight"
    for wrong in ([1.0], [1.0, 2.0, 3.0, np.nan], [[1.0] * 4]):
        with raises("values"):
            plot_weights(names, wrong)
    with raises("names", expected="at least one"):
        plot_weights([], [])


@given(st.text(max_size=60), st.integers(2, 40))
def test_shortened_texts_are_short_and_can_be_seen(text, longest):
    shown = shorten(text, longest)
    assert len(shown) <= longest
    assert shown.isprintable()
    assert shown == text or not text.isprintable() or (shown.endswith("…") and text.startswith(shown[:-1]))
    assert drawn_text(text, longest).replace(r"\$", "$") == shown


def test_signs_the_font_has_not():
    assert can_write(["word −1", "Electricité", "␣"])
    assert not can_write(["word", "言葉"])
    assert can_write([])


def test_scores_of_two_classes():
    scores, truth = np.array([-2.0, -1.0, 0.5, 1.0, 2.0, 1e6]), np.array([0, 0, 0, 1, 1, 1], dtype=bool)
    ax = draw(plot_scores(scores, truth, ("yes", "no"), new_axes()))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["truly yes (3)", "truly no (3)", "threshold"]
    for outline in ax.patches[1::2]:
        heights = outline.get_xy()[:, 1]
        assert np.isclose(heights[1:-1:2].sum(), 1.0)
    one_class = plot_scores([1.0, 1.0], [True, True], ("yes", "no"), new_axes())
    assert len(one_class.get_legend().get_texts()) == 2
    for scores, truth in (([], []), ([1.0], [True, False]), ([np.inf], [True])):
        with raises():
            plot_scores(scores, truth, ("yes", "no"))


def test_matrices():
    values = np.array([[1.0, -2.0, 0.0], [0.5, 0.0, 0.0]])
    ax = draw(plot_matrix(values, ["a", "b"], ["x", "y", "a long column's name"], new_axes(), "score"))
    assert (texts(ax.yaxis), texts(ax.xaxis)) == (["a", "b"], ["x", "y", "a long colu…"])
    np.testing.assert_array_equal(ax.images[0].get_array(), values)
    assert ax.images[0].get_clim() == (-2.0, 2.0)
    assert ax.figure.axes[1].get_ylabel() == "score"
    narrow = draw(plot_matrix(values, "ab", "xyz", new_axes(3.6)))
    assert narrow.figure.axes[1].get_xlabel() == "weight"
    many = np.ones((1, 21))
    assert texts(draw(plot_matrix(many, "a", range(1, 22), new_axes(3.6))).xaxis) == [str(k) for k in range(1, 22, 2)]
    assert len(texts(draw(plot_matrix(many, "a", range(1, 22), new_axes())).xaxis)) == 21
    assert len(texts(draw(plot_matrix(many, "a", "x" * 21, new_axes(3.6))).xaxis)) == 21
    with raises("matrix", got="shape (2, 3)", expected="shape (3, 3)"):
        plot_substitutions(values, "ACG")
    with raises("matrix", expected="at least one number"):
        plot_matrix(np.zeros((0, 0)), [], [])


def test_transitions():
    X = [np.eye(3), np.eye(3)[::-1].copy()]
    model = CRF(Chain()).fit(X, [["A", "B$", "C"], ["C", "B$", "A"]])
    ax = draw(plot_transitions(model, new_axes()))
    assert texts(ax.xaxis) == texts(ax.yaxis) == ["A", r"B\$", "C"]
    start = model.task_.transitions_at_
    np.testing.assert_array_equal(ax.images[0].get_array(), model.coef_[start : start + 9].reshape(3, 3))
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("from label", "to label")
    with raises("most", got=0):
        plot_transitions(model, most=0)
    with raises("model", got=3, expected="fitted on a Chain"):
        plot_transitions(3)


def test_transitions_between_many_labels():
    labels = [f"label {k}" for k in range(200)]
    weights = np.zeros((200, 200))
    weights[150, 7], weights[30, 30], weights[7, 199] = -5.0, 2.0, 1.0
    task = SimpleNamespace(labels_=SimpleNamespace(labels=labels), transitions_at_=4)
    model = SimpleNamespace(task_=task, coef_=np.concatenate([np.ones(4), weights.ravel()]))
    ax = plot_transitions(model, new_axes(), most=4)
    assert texts(ax.yaxis) == ["label 7", "label 30", "label 150", "label 199"]
    assert ax.images[0].get_array()[2, 0] == -5.0
    assert len(texts(plot_transitions(model, new_axes()).yaxis)) == 25


def site(name, start, strand=1, score=1.0):
    return Site(name, start, start + 5, strand, score, "ACGTA")


def test_sites_on_sequences():
    found = [site("one", 3), site("two", 90, -1, -2.0), site("three$", 0)]
    ax = draw(plot_sites(found, [20, 100, 5], new_axes(), {"one": [(2, 9), (12, 20)], "absent": [(0, 1)]}))
    framed = [patch for patch in ax.patches if not patch.get_fill()]
    solid = [patch for patch in ax.patches if patch.get_fill()]
    assert [(frame.get_x(), frame.get_width()) for frame in framed] == [(2, 7), (12, 8)]
    assert [(box.get_x(), box.get_width()) for box in solid] == [(3, 5), (90, 5), (0, 5)]
    # Above the line of the sequence means a smaller y, as the first sequence is on top.
    assert [box.get_y() < row for row, box in enumerate(solid)] == [True, False, True]
    assert solid[1].get_alpha() < solid[0].get_alpha()
    assert [line.get_xdata()[1] for line in ax.lines] == [20, 100, 5]
    assert texts(ax.yaxis) == ["one", "two", r"three\$"]
    with raises("lengths", got="2 lengths"):
        plot_sites(found, [20, 100])
    with raises("sites", got="90 to 95 in 'two'", expected="94 letters"):
        plot_sites(found, [20, 94, 5])


@given(st.lists(st.tuples(st.integers(0, 5000), st.sampled_from([1, -1])), min_size=1, max_size=60))
@settings(max_examples=25, deadline=None)
def test_starts_are_counted_once(found):
    starts, strands = zip(*found, strict=True)
    ax = plot_starts(starts, strands, new_axes())
    boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert sum(box.get_height() for box in boxes) == len(starts)
    assert (ax.get_legend() is not None) == (len(set(strands)) == 2)


def test_starts_that_are_refused():
    for starts, strands in (([], []), ([1, 2], [1]), ([0.5], [1])):
        with raises("starts"):
            plot_starts(starts, strands)


@given(trees(most_words=7), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_trees(tree, sideways, random):
    spans = constituents(tree)
    marked = random.sample(spans, random.randint(0, len(spans)))
    ax = plot_tree(tree, new_axes(20.0, tree_height(tree)), marked, sideways=sideways)
    labels = [node.label for node in preorder(tree)]
    shown = [text.get_text() for text in ax.texts]
    assert sorted(shown) == sorted([*labels, *words(tree)])
    frames = [text for text in ax.texts if isinstance(text.get_bbox_patch(), FancyBboxPatch)]
    assert sorted(text.get_text() for text in frames) == sorted(one.label for one in marked)
    assert len(ax.lines) == len(shown) - 1
    at = {text.get_text(): text.get_position() for text in ax.texts}
    order = [at[word][1 if sideways else 0] for word in words(tree) if words(tree).count(word) == 1]
    assert order == sorted(order)


def test_trees_turn_where_words_have_no_room():
    tree = Tree("S", tuple(Tree("N$", (f"word{k}",)) for k in range(9)))
    wide, narrow = (draw(plot_tree(tree, new_axes(width))) for width in (7.2, 3.0))
    places = [[text.get_position() for text in ax.texts if "word" in text.get_text()] for ax in (wide, narrow)]
    assert len({y for _, y in places[0]}) == 1
    assert len({x for x, _ in places[1]}) == 1
    assert r"N\$" in [text.get_text() for text in wide.texts]
    named = plot_tree(tree, new_axes(), names=["S#1", *["N#0"] * 9])
    assert "S#1" in [text.get_text() for text in named.texts]
    with raises("names", got="1 names"):
        plot_tree(tree, names=["S"])
    with raises("tree", got="61 words", expected="at most 60 words"):
        plot_tree(Tree("S", tuple(Tree("N", ("w",)) for _ in range(61))))
    with raises("tree", got="3 of type int"):
        plot_tree(3)


def test_constituents_that_are_there_twice_are_framed_as_often_as_given():
    tree = Tree("NP", (Tree("NP", (Tree("N", ("dogs",)),)),))
    for n in range(3):
        ax = plot_tree(tree, new_axes(), [Constituent("NP", 0, 1)] * n)
        assert sum(text.get_bbox_patch() is not None for text in ax.texts) == n


def test_pictures_without_axes_get_figures():
    from matplotlib import pyplot

    tree = Tree("S", (Tree("N", ("dogs",)),))
    assert plot_weights(["a"], [1.0]).figure is not plot_tree(tree).figure
    assert plot_starts([1], [1]).figure is not plot_sites([site("one", 3)], [20]).figure
    assert plot_scores([1.0], [True], ("a", "b")).figure is not plot_matrix([[1.0]], "a", "b").figure
    pyplot.close("all")
