"""Generators of simulated fields and images: exact frequencies, layouts, seeds, refusals."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from error_fields import raises
from latentstruct_papers.simulated import draw_truth, make_hidden_field, make_noisy_images

layouts = st.one_of(
    st.integers(2, 9).map(lambda n: {"layout": "chain", "n_nodes": n}),
    st.tuples(st.integers(1, 4), st.integers(2, 4)).map(lambda shape: {"layout": "grid", "shape": shape}),
)


def all_states(weights, edges):
    """List the states of all nodes, and their probabilities with the inputs summed out."""
    n_nodes = len(weights.states)
    states = np.array(list(itertools.product(range(4), repeat=n_nodes)))
    inputs = np.log(np.exp(weights.inputs[:, :, None] + weights.emissions).sum(axis=1))
    scores = (weights.states + inputs)[np.arange(n_nodes), states].sum(axis=1)
    for pair, (p, q) in zip(weights.pairs, edges, strict=True):
        scores += pair[states[:, p], states[:, q]]
    chances = np.exp(scores - scores.max())
    return states, chances / chances.sum()


def p_value(codes, chances):
    """Test drawn numbers against their chances; rare ones are counted together."""
    counts, expected = np.bincount(codes, minlength=len(chances)), len(codes) * chances
    rare = expected < 8
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return chisquare(counts, expected * counts.sum() / expected.sum()).pvalue


@pytest.mark.parametrize(
    "layout",
    [
        {"layout": "chain", "n_nodes": 4},
        {"layout": "grid", "shape": (2, 2)},
        {"layout": "grid", "shape": (2, 3)},
        {"layout": "grid", "shape": (3, 2)},
        {"layout": "grid", "shape": (1, 4)},
    ],
)
@pytest.mark.parametrize("reading", ["variance", "deviation"])
def test_examples_have_the_frequencies_of_the_field(layout, reading):
    field = make_hidden_field(
        n_train=1, n_test=20000, sigma_x=1.0, sigma_y=0.5, sigma_h=0.7, reading=reading, random_state=5, **layout
    )
    states, chances = all_states(field.weights, field.edges)
    codes = field.states_test @ 4 ** np.arange(states.shape[1])[::-1]
    assert p_value(codes, chances) > 1e-4
    inputs = np.array([x.features.argmax(axis=1) for x in field.X_test])
    joint = np.exp(field.weights.inputs[:, :, None] + field.weights.emissions)
    given_state = joint / joint.sum(axis=1, keepdims=True)
    for v, t in itertools.product(range(states.shape[1]), range(4)):
        of_state = field.states_test[:, v] == t
        if of_state.sum() > 100:
            assert p_value(inputs[of_state, v], given_state[v, :, t]) > 1e-5


@given(layouts, st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3))
@settings(deadline=None, max_examples=40)
def test_layout_of_a_field(layout, seed, n_train, n_test):
    field = make_hidden_field(n_train=n_train, n_test=n_test, random_state=seed, **layout)
    n_nodes = len(field.hidden)
    assert len(field.X_train) == len(field.Y_train) == len(field.states_train) == n_train
    assert len(field.X_test) == len(field.Y_test) == len(field.states_test) == n_test
    assert not field.hidden[0]
    # Every edge joins an output and a hidden node, and neighbors on the lattice only.
    assert (field.hidden[field.edges[:, 0]] != field.hidden[field.edges[:, 1]]).all()
    if layout["layout"] == "chain":
        assert field.edges.tolist() == [[v, v + 1] for v in range(n_nodes - 1)]
    else:
        rows, columns = layout["shape"]
        assert len({tuple(edge) for edge in field.edges.tolist()}) == (rows - 1) * columns + rows * (columns - 1)
        assert set(np.diff(field.edges, axis=1).ravel().tolist()) <= {1, columns}
    for x, y, states in zip(field.X_train, field.Y_train, field.states_train, strict=True):
        assert x.features.shape == (n_nodes, 4)
        assert (x.features.sum(axis=1) == 1).all()
        assert list(x.node_types) == ["h" if hidden else "y" for hidden in field.hidden]
        np.testing.assert_array_equal(y, np.where(field.hidden, -1, states))
        assert 0 <= states.min() <= states.max() < 4
    again = make_hidden_field(n_train=n_train, n_test=n_test, random_state=seed, **layout)
    np.testing.assert_array_equal(again.states_test, field.states_test)
    np.testing.assert_array_equal(again.X_test[-1].features, field.X_test[-1].features)


def test_spreads_are_variances_or_deviations():
    sizes = {"n_nodes": 1000, "n_train": 1, "n_test": 1, "sigma_x": 0.1, "sigma_y": 0.4, "sigma_h": 9.0}
    by_variance = make_hidden_field(**sizes)
    by_deviation = make_hidden_field(**sizes, reading="deviation")
    for field, power in ((by_variance, 0.5), (by_deviation, 1.0)):
        weights, hidden = field.weights, field.hidden
        for found, spread in (
            (weights.inputs, 0.1),
            (weights.states[~hidden], 0.4),
            (weights.states[hidden], 9.0),
            (weights.emissions, 2.0),
            (weights.pairs, 2.0),
        ):
            assert found.std() == pytest.approx(spread**power, rel=0.08)
            assert abs(found.mean()) < 0.1 * spread**power
    # The same seed gives the same numbers, scaled.
    np.testing.assert_allclose(by_deviation.weights.pairs, by_variance.weights.pairs * np.sqrt(2.0))


def test_many_examples_and_wide_grids():
    field = make_hidden_field(n_train=2**10, n_test=500, n_nodes=20)
    assert len(field.X_train) == 1024
    assert len(make_hidden_field("grid", shape=(9, 8), n_train=2, n_test=1).hidden) == 72


@pytest.mark.parametrize(
    ("changes", "parameter", "got", "expected"),
    [
        ({"layout": "tree"}, "layout", "", "'chain' or 'grid'"),
        ({"n_nodes": 1}, "n_nodes", "", "at least 2"),
        ({"layout": "grid", "shape": (3, 9)}, "shape", "", "at most 8 columns"),
        ({"layout": "grid", "shape": (1, 1)}, "shape", "", "at least 2 in all"),
        ({"layout": "grid", "shape": (3,)}, "shape", "(3,)", ""),
        ({"n_train": 0}, "n_train", "0", ""),
        ({"n_test": -1}, "n_test", "-1", ""),
        ({"sigma_pair": -2.0}, "sigma_pair", "-2.0", ""),
        ({"sigma_h": np.nan}, "sigma_h", "nan", ""),
        ({"reading": "sd"}, "reading", "", "'variance' or 'deviation'"),
    ],
)
def test_impossible_fields_are_refused(changes, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        make_hidden_field(**changes)


@given(st.tuples(st.integers(2, 8), st.integers(2, 8)), st.floats(0, 0.99), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_images_lack_the_asked_share_of_labels(shape, missing, seed):
    images = make_noisy_images(2, 3, shape, missing=missing, random_state=seed)
    truth = draw_truth(shape).ravel()
    assert [len(part) for part in (images.X_train, images.Y_train, images.X_test, images.Y_test)] == [2, 2, 3, 3]
    for labels in images.Y_train:
        known = labels != -1
        assert (~known).sum() == round(missing * truth.size)
        np.testing.assert_array_equal(labels[known], truth[known])
    for labels in images.Y_test:
        np.testing.assert_array_equal(labels, truth)
    fewer = make_noisy_images(2, 3, shape, missing=missing / 2, random_state=seed)
    for less, more, a, b in zip(fewer.Y_train, images.Y_train, fewer.X_train, images.X_train, strict=True):
        assert (more[less == -1] == -1).all()
        np.testing.assert_array_equal(a.features, b.features)
    assert len(images.X_train[0].edges) == (shape[0] - 1) * shape[1] + shape[0] * (shape[1] - 1)


def test_noise_is_a_variance_or_a_deviation():
    for reading, deviation in (("variance", np.sqrt(5.0)), ("deviation", 5.0)):
        images = make_noisy_images(10, 1, missing=0.0, reading=reading)
        noise = np.array([x.features[:, 0] for x in images.X_train]) - images.truth.ravel()
        assert noise.std() == pytest.approx(deviation, rel=0.05)
        assert all((x.features[:, 1] == 1).all() for x in images.X_train)
    still = make_noisy_images(1, 1, noise=0.0)
    np.testing.assert_array_equal(still.X_test[0].features[:, 0], still.truth.ravel())


def test_truth_has_five_labels():
    truth = draw_truth()
    assert truth.shape == (20, 40)
    labels, counts = np.unique(truth, return_counts=True)
    assert labels.tolist() == [1, 2, 3, 4, 5]
    assert counts.min() > 50


@pytest.mark.parametrize(
    ("changes", "parameter", "got"),
    [
        ({"n_train": 0}, "n_train", "0"),
        ({"n_test": 0}, "n_test", "0"),
        ({"shape": (1, 9)}, "shape", "(1, 9)"),
        ({"noise": -1.0}, "noise", "-1.0"),
        ({"noise": np.inf}, "noise", "inf"),
        ({"missing": 1.0}, "missing", "1.0"),
        ({"missing": np.nan}, "missing", "nan"),
        ({"reading": "sd"}, "reading", "'sd'"),
    ],
)
def test_impossible_images_are_refused(changes, parameter, got):
    with raises(parameter, got=got):
        make_noisy_images(**changes)
