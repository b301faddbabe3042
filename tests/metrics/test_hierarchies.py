import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from error_fields import raises
from latentstruct import Multiclass, StructuralSVM, Temperature, build_objective
from latentstruct.exceptions import InputError
from latentstruct.metrics.hierarchies import tree_costs

PARENTS = {"football": "sport", "tennis": "sport", "opera": "music", "sport": "all", "music": "all", "all": None}


@st.composite
def trees(draw):
    """A tree over 0 … n−1 with root 0, in random order, and some of its nodes."""
    n = draw(st.integers(1, 12))
    parents = {child: draw(st.integers(0, child - 1)) for child in range(1, n)}
    parents = {child: parents[child] for child in draw(st.permutations(sorted(parents)))} or {0: None}
    labels = draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
    return parents, labels


def way_up(node, parents):
    way = [node]
    while parents.get(way[-1]) is not None:
        way.append(parents[way[-1]])
    return way


@settings(deadline=None)
@given(trees())
def test_costs_by_their_definition(tree):
    parents, labels = tree
    paths = tree_costs(parents, labels, normalize=False)
    heights = tree_costs(parents, labels, cost="height", normalize=False)
    ways = [way_up(label, parents) for label in labels]
    for i, a in enumerate(ways):
        for j, b in enumerate(ways):
            common = next(node for node in a if node in b)
            assert paths[i, j] == a.index(common) + b.index(common)
            below = max(way.index(common) for way in ways if common in way)
            assert heights[i, j] == (0 if i == j else below)


@settings(deadline=None)
@given(trees(), st.booleans())
def test_costs_are_distances(tree, normalize):
    for cost in ("path", "height"):
        costs = tree_costs(*tree, cost=cost, normalize=normalize)
        assert_array_equal(costs, costs.T)
        assert_array_equal(costs == 0, np.eye(len(costs), dtype=bool))
        through = costs[:, :, None], costs[None, :, :]
        most = np.maximum(*through) if cost == "height" else through[0] + through[1]
        assert (costs[:, None, :] <= most + 1e-12).all()
        assert not normalize or costs.max() == (1 if len(costs) > 1 else 0)


@settings(deadline=None)
@given(trees())
def test_paths_and_parents_describe_the_same_tree(tree):
    parents, labels = tree
    paths = {node: tuple(way_up(node, parents)[::-1]) for node in [*parents, 0]}
    texts = {node: "/".join(map(str, path)) for node, path in paths.items()}
    expected = tree_costs(parents, labels)
    assert_array_equal(tree_costs(list(paths.values()), [paths[label] for label in labels]), expected)
    assert_array_equal(tree_costs(set(texts.values()), [texts[label] for label in labels]), expected)


def test_paths_without_a_common_top():
    labels = ["sport/football", "sport/tennis", "music/opera"]
    assert_allclose(tree_costs(labels, labels), [[0, 0.5, 1], [0.5, 0, 1], [1, 1, 0]])
    assert_allclose(tree_costs(["a.x", "b.x"], ["a.x", "b.x", "b"], separator=".", normalize=False)[1], [4, 0, 1])


def test_a_deep_tree():
    parents = {number: number - 1 for number in range(1, 5_001)}
    assert tree_costs(parents, [5_000, 3], normalize=False)[0, 1] == 4_997


def test_training_with_the_costs_of_a_tree():
    labels = ["football", "tennis", "opera"]
    # Tennis looks like football as often as like opera: only the costs can tell which mistake is the lesser one.
    rng = np.random.default_rng(0)
    Y = np.array(["football", "tennis", "opera"] * 60)
    centers = {"football": -1.0, "opera": 1.0}
    X = np.array([[centers.get(y, 0.0) + 0.7 * rng.normal()] for y in Y])
    equal, tree = (
        StructuralSVM(Multiclass(labels, costs=costs, bias=1.0), C=1.0, tol=1e-5).fit(X, Y)
        for costs in (None, tree_costs(PARENTS, labels))
    )
    # Either model is the best one for its own costs, and not for those of the other.
    for one, other in ((equal, tree), (tree, equal)):
        objective = build_objective(one.task_, one.task_.prepare(X, Y), np.ones(len(Y)), Temperature())
        assert objective.value(other.coef_) > 1.01 * one.objective_
        assert one.lower_bound_ >= (1 - 1e-5) * one.objective_
    # Mistakes are cheap by the costs trained with.
    assert tree.loss(X, Y).mean() < tree.task_.loss(Y, np.full(len(Y), "opera")).mean()


@pytest.mark.parametrize(
    ("tree", "labels", "message"),
    [
        ({"a": "b", "b": "c", "c": "a"}, ["a"], "got a cycle through 'a'"),
        ({"a": "a"}, ["a"], "got a cycle through 'a'"),
        ({"a": "x", "b": "y"}, ["a", "b"], "got 2 roots ('x', 'y')"),
        ({"a": "x"}, ["a", "b"], "`labels` must be nodes of `tree`"),
        (["a/b"], ["b"], "`labels` must be paths of `tree`"),
        (["a//b"], ["a"], "none of them empty, got 'a//b'"),
        ([""], ["a"], "none of them empty, got ''"),
        ([3], ["a"], "none of them empty, got 3"),
        ("a/b", ["a"], "`tree` must be a list of paths"),
        ({"a": "x"}, "a", "`labels` must be a sequence of classes"),
        ({"a": "x"}, [], "`labels` must be at least one label"),
        ({"a": "x"}, ["a", "a"], "got 2 labels, 1 of them different"),
        ({"a": "x"}, [["a"]], "`labels` must be hashable"),
        ({"a": ["x"]}, ["a"], "got unhashable type: 'list'"),
        ([("a", ["x"])], ["a"], "got unhashable type: 'list'"),
        (None, ["a"], "`tree` must be a mapping from child to parent or a list of paths"),
    ],
)
def test_bad_trees(tree, labels, message):
    with pytest.raises(InputError) as error:
        tree_costs(tree, labels)
    assert message in str(error.value)


def test_unknown_cost():
    with raises("cost", got="'depth'", expected="'path' or 'height'"):
        tree_costs(PARENTS, ["opera"], cost="depth")
