"""Forests, graphs, rankings and pictures: the drawings hold what they should."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot

from error_fields import raises
from latentstruct.tasks.clustering import chronological_forest
from latentstruct.tasks.graph.inputs import grid_edges
from latentstruct.viz.box_pictures import draw_chances
from latentstruct.viz.plots.colors import WRONG
from latentstruct.viz.plots.forests import called_clusters, lettered_clusters, plot_forest
from latentstruct.viz.plots.graphs import lay_out_graph, plot_graph
from latentstruct.viz.plots.pictures import plot_box_places, plot_swatches, plot_template
from latentstruct.viz.plots.rankings import plot_benefits, plot_ranking
from latentstruct.viz.region_pictures import draw_regions, fit_image, fit_labels


@pytest.fixture
def ax():
    figure, axes = pyplot.subplots()
    yield axes
    pyplot.close(figure)


def texts(axes):
    return [text.get_text() for text in axes.texts]


# ---- forests ----------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(clusters=st.lists(st.integers(0, 5), min_size=1, max_size=12), data=st.data())
def test_a_forest_has_an_arc_for_each_link_and_a_dashed_one_for_each_that_crosses(clusters, data):
    truth = data.draw(st.lists(st.integers(0, 3), min_size=len(clusters), max_size=len(clusters)))
    edges = chronological_forest(np.array(clusters))
    figure, axes = pyplot.subplots()
    try:
        plot_forest(edges, clusters, truth=truth, ax=axes)
        arcs = [line for line in axes.lines if len(line.get_xdata()) > 1]
        assert len(arcs) == len(edges)
        crossing = sum(truth[i] != truth[j] for i, j in edges.tolist())
        assert sum(line.get_linestyle() == "--" and line.get_color() == WRONG for line in arcs) == crossing
        ends = {frozenset(np.round(line.get_ydata()[[0, -1]], 6)) for line in arcs}
        assert ends == {frozenset(map(float, edge)) for edge in edges.tolist()}
    finally:
        pyplot.close(figure)


def test_items_have_numbers_letters_and_names(ax):
    plot_forest([[0, 2]], ["a", "b", "a", "c"], ["she", "it", "x" * 60, "$5 and $6"], ["p", "q", "p", "q"], ax)
    shown = texts(ax)
    assert shown.count("1") == 2  # the numbers of one cluster; the others are alone
    assert shown.count("–") == 2
    assert (shown.count("A"), shown.count("B")) == (2, 2)
    assert "she" in shown
    assert r"\$5 and \$6" in shown
    assert max(map(len, shown)) == 40
    assert called_clusters([7, 8, 8, 9, 9]) == ["–", "1", "1", "2", "2"]
    assert lettered_clusters(np.repeat(np.arange(30), 2))[-1] == "AD"


def test_forests_refuse_what_does_not_fit(ax):
    with raises("edges", got=3, expected="items from 0 to 1"):
        plot_forest([[0, 3]], [1, 1], ax=ax)
    with raises("edges", got="shape (2,)"):
        plot_forest([0, 1], [1, 1], ax=ax)
    with raises("names", got="1 names"):
        plot_forest([], [1, 1], ["x"], ax=ax)
    with raises("truth", got="1 labels"):
        plot_forest([], [1, 1], truth=[1], ax=ax)


# ---- graphs -----------------------------------------------------------------------------------------------------


def test_a_grid_is_laid_out_as_a_grid():
    edges, _ = grid_edges(4, 6, 4)
    places = lay_out_graph(24, edges)
    along = places[edges[:, 1]] - places[edges[:, 0]]
    lengths = np.linalg.norm(along, axis=1)
    assert lengths.min() > 0.7 * lengths.max()
    assert np.abs(along).min(axis=1).max() < 0.25 * lengths.min()  # along one axis or the other
    assert np.array_equal(places, lay_out_graph(24, edges))


@settings(max_examples=25, deadline=None)
@given(n_nodes=st.integers(1, 12), data=st.data())
def test_nodes_of_any_graph_have_places_of_their_own(n_nodes, data):
    pairs = st.tuples(st.integers(0, n_nodes - 1), st.integers(0, n_nodes - 1))
    edges = [pair for pair in data.draw(st.lists(pairs, max_size=20)) if pair[0] != pair[1]]
    places = lay_out_graph(n_nodes, np.array(edges, dtype=np.int64).reshape(-1, 2))
    assert np.isfinite(places).all()
    distances = np.linalg.norm(places[:, None] - places, axis=2) + 10 * np.eye(n_nodes)
    assert distances.min() > 0.05


def test_a_graph_shows_labels_errors_and_hidden_nodes(ax):
    labels = ["noun", "verb", "noun", "h1"]
    plot_graph([[0, 1], [1, 2], [1, 3]], labels, ["noun", "noun", None, None], [False, False, False, True], ax=ax)
    lines, *nodes = ax.collections
    assert len(lines.get_segments()) == 3
    assert [len(one.get_offsets()) for one in nodes] == [2, 1, 1, 1, 1]  # noun, verb, hidden; wrong, unknown
    assert sorted(texts(ax)) == ["1", "1", "2", "h1"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["1  noun", "2  verb"]
    ringed = nodes[3].get_offsets()[0]
    assert np.allclose(ringed, nodes[1].get_offsets()[0])


def test_short_labels_need_no_legend_and_large_graphs_no_texts(ax):
    plot_graph([[0, 1]], ["a", "b"], ax=ax)
    assert ax.get_legend() is None
    ax.clear()
    places = np.random.default_rng(0).normal(size=(1000, 2))
    plot_graph([], ["a", "b"] * 500, places=places, ax=ax)
    assert not ax.texts
    assert len(ax.get_legend().get_texts()) == 2
    with raises("n_nodes", got=1000, expected="at most 300"):
        plot_graph([], ["a"] * 1000, ax=ax)
    with raises("labels", expected="at least one"):
        plot_graph([], [], ax=ax)
    with raises("hidden", got="1 nodes"):
        plot_graph([], ["a", "b"], hidden=[True], ax=ax)
    with raises("edges", got=2, expected="nodes from 0 to 1"):
        plot_graph([[0, 2]], ["a", "b"], ax=ax)
    with raises("places", got="shape"):
        plot_graph([], ["a", "b"], places=[[0, 0]], ax=ax)


# ---- rankings and diversity -------------------------------------------------------------------------------------


def test_a_ranking_has_the_highest_score_first_and_the_relevant_filled(ax):
    plot_ranking([0.1, 0.9, 0.5, 0.3], [1, 0, 2, 0], 2, ax)
    relevant, others = ax.containers
    assert [bar.get_x() + bar.get_width() / 2 for bar in relevant] == [2, 4]
    assert [bar.get_x() + bar.get_width() / 2 for bar in others] == [1, 3]
    assert texts(ax) == ["2", "1"]
    assert [line.get_xdata()[0] for line in ax.lines] == [2.5]
    assert all(bar.get_facecolor()[3] == 0 for bar in others)


def test_long_rankings_are_cut_and_bad_ones_refused(ax):
    plot_ranking(np.arange(500.0), np.zeros(500), ax=ax)
    assert sum(len(bars) for bars in ax.containers) == 40
    for scores, grades in (([], []), ([1.0], [1, 2]), ([np.nan], [1])):
        with raises():
            plot_ranking(scores, grades, ax=ax)


def test_benefits_are_steps_between_thresholds(ax):
    plot_benefits([0.0, 0.1, 0.5], [[1.0, 3.0, 2.0], [0.0, 0.5, 0.5]], ["words", "titles"], ax)
    steps = [patch.get_data() for patch in ax.patches]
    assert [step.values.tolist() for step in steps] == [[1.0, 3.0, 2.0], [0.0, 0.5, 0.5]]
    assert steps[0].edges.tolist() == [0.0, 10.0, 50.0, 100.0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["words", "titles"]
    with raises("benefits", got="shape (1, 2)", expected="shape (1, 3)"):
        plot_benefits([0.0, 0.1, 0.5], [[1.0, 3.0]], ["words"], ax)


# ---- pictures ---------------------------------------------------------------------------------------------------


def test_strokes_of_a_template_lie_along_the_edges(ax):
    cells = np.zeros((2, 3, 9))
    cells[1, 2, 0] = 2.0  # gradients from left to right
    cells[0, 0, 4] = -1.0  # from top to bottom
    plot_template(cells, ax)
    positive, negative = (collection.get_segments() for collection in ax.collections)
    assert (len(positive), len(negative)) == (1, 1)
    upright, flat = positive[0], negative[0]
    assert np.allclose(upright.mean(axis=0), [2.5, 1.5])
    assert np.allclose(flat.mean(axis=0), [4.5, 0.5])
    assert abs(np.diff(upright[:, 0])[0]) < 0.2 < 0.8 < abs(np.diff(upright[:, 1])[0])
    assert abs(np.diff(flat[:, 1])[0]) < 0.2 < 0.8 < abs(np.diff(flat[:, 0])[0])
    assert texts(ax) == ["for", "against"]
    with raises("weights", got="shape (6, 9)"):
        plot_template(np.zeros((6, 9)), ax)


def test_places_of_boxes_show_where_the_score_is_high(ax):
    weights = np.zeros(14)
    weights[0] = 1.0  # to the right
    plot_box_places(weights, ax)
    maps = [image.get_array() for image in ax.images]
    assert len(maps) == 3
    for scores in maps:
        row = scores[15].compressed() if hasattr(scores[15], "compressed") else scores[15][~np.isnan(scores[15])]
        assert len(row) > 2
        assert (np.diff(row) > 0).all()
    assert [np.isfinite(np.ma.filled(scores, np.nan)).sum() for scores in maps] == sorted(
        (np.isfinite(np.ma.filled(scores, np.nan)).sum() for scores in maps), reverse=True
    )
    with raises("weights", expected="shape (14,)"):
        plot_box_places(np.zeros(3), ax)


def test_swatches_have_all_names(ax):
    plot_swatches(["grass", "sky", "a"], [(0, 255, 0), (0, 0, 255), (9, 9, 9)], ax)
    assert texts(ax) == ["grass", "sky", "a"]
    assert [patch.get_facecolor()[:3] for patch in ax.patches][:2] == [(0, 1, 0), (0, 0, 1)]
    with raises("colors", got="1 colors"):
        plot_swatches(["a", "b"], [(0, 0, 0)], ax)


def test_regions_are_colored_numbered_and_hatched_where_unknown():
    image = np.full((60, 90, 3), 100, dtype=np.uint8)
    labels = np.repeat([[0] * 30 + [1] * 30 + [-1] * 30], 60, axis=0)
    drawn = draw_regions(image, labels, [(255, 0, 0), (0, 0, 255)], [1, 2])
    assert drawn.shape == image.shape
    assert drawn[2, 2].tolist() == [178, 50, 50]
    assert drawn[2, 40].tolist() == [50, 50, 178]
    hatched = {tuple(pixel) for pixel in drawn[:, 62:].reshape(-1, 3).tolist()}
    assert hatched == {(25, 25, 25), (255, 255, 255), (100, 100, 100)}
    assert not np.array_equal(drawn, draw_regions(image, labels, [(255, 0, 0), (0, 0, 255)], [3, 2]))  # the numbers
    with raises("labels", expected="one label per pixel"):
        draw_regions(image, labels[:5], [(0, 0, 0)] * 2, [1, 2])


def test_large_images_and_their_labels_shrink_alike_and_tiny_ones_grow():
    image = np.zeros((3000, 4000, 3), dtype=np.uint8)
    image[:, 2000:] = 255
    small = fit_image(image)
    assert small.shape == (360, 480, 3)
    labels = fit_labels(image[..., 0], small.shape)
    assert labels.shape == (360, 480)
    assert np.array_equal(labels[:, :230], np.zeros((360, 230)))
    assert (labels[:, 250:] == 255).all()
    assert fit_image(image[:300, :400]).shape == (300, 400, 3)
    tiny = fit_image(image[:10, 1990:2010])
    assert tiny.shape == (160, 320, 3)
    assert np.array_equal(fit_labels(image[:10, 1990:2010, 0], tiny.shape), tiny[..., 0])
    with raises("image", expected="uint8 of shape"):
        fit_image(image[..., 0])


@settings(max_examples=25, deadline=None)
@given(
    corners=arrays.arrays(np.int64, (5, 4), elements=st.integers(0, 20)),
    chances=st.lists(st.floats(0, 1), min_size=5, max_size=5),
)
def test_pixels_are_as_bright_as_they_are_likely_to_be_inside(corners, chances):
    boxes = np.column_stack([np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])])
    image = np.full((20, 20, 3), 200, dtype=np.uint8)
    y, x = np.indices((20, 20, 1))[:2]
    holds = (x >= boxes[:, 0]) & (x < boxes[:, 2]) & (y >= boxes[:, 1]) & (y < boxes[:, 3])
    inside = holds @ np.array(chances)
    expected = 200 * (0.25 + 0.75 * inside / (inside.max() or 1.0))
    assert np.abs(draw_chances(image, boxes, chances)[..., 0] - expected).max() <= 1.0


def test_chances_belong_to_boxes():
    image = np.zeros((4, 4, 3), dtype=np.uint8)
    with raises("chances", got="shape (2,)"):
        draw_chances(image, [[0, 0, 2, 2]], [0.5, 0.5])
    with raises("chances", expected="numbers of at least 0"):
        draw_chances(image, [[0, 0, 2, 2]], [-1.0])
