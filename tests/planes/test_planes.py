"""Compact planes and their store against dense matrices, and the oracles that wrap them."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import reference
from error_fields import raises
from latentstruct.core.objective import Objective
from latentstruct.core.oracles import FixedOracle, SlackOracle, TaskOracle
from latentstruct.core.protocols import Temperature
from latentstruct.core.regularizers import L2
from latentstruct.exceptions import InputError
from latentstruct.persistence.state_trees import from_state_dict, state_dict
from latentstruct.planes.memory import least_useful
from latentstruct.planes.plane import Atoms, Plane, Planes, Rows, no_rows
from latentstruct.planes.serialization import StoreState
from latentstruct.planes.store import RULES, PlaneStore
from latentstruct.solvers.bundle import remembered_total
from latentstruct.tasks import Chain, Multiclass

N_FEATURES = 12
N_COLUMNS = 3
N_ROWS = 5
# Row, column and value of atoms that most planes have.
FREQUENT = np.array([[0.0, 1.0, 1.0], [2.0, 0.0, 1.0], [-1.0, 5.0, 1.0]])


def close(found, expected, precision=1e-9):
    np.testing.assert_allclose(found, expected, rtol=precision, atol=precision)


# ---- planes -----------------------------------------------------------------------------------------------


def random_rows(rng, one_hot=False):
    """Sparse input rows at every third weight, and the same as a dense matrix (N_ROWS, N_FEATURES − 3)."""
    matrix = rng.normal(size=(N_ROWS, 3)) * (rng.random((N_ROWS, 3)) < 0.7)
    matrix = 1.0 * (matrix != 0) if one_hot else matrix
    compressed = sparse.csr_array(matrix)
    data = np.zeros(0) if one_hot else np.array(compressed.data)
    rows = Rows(compressed.indptr.astype(np.int64), (N_COLUMNS * compressed.indices).astype(np.uint32), data)
    return rows, matrix


def random_planes(rng, rows, matrix, n_planes, values=(-1.0, 0.5, 1.0, 2.0), frequent=False):
    """Planes of a few atoms each, or of some that most planes have too, and the same as a dense matrix of slopes."""
    counts = rng.integers(0, 5, n_planes)
    n_atoms = int(counts.sum())
    row = rng.integers(-1, N_ROWS, n_atoms)
    column = np.where(row < 0, rng.integers(0, N_FEATURES, n_atoms), rng.integers(0, N_COLUMNS, n_atoms))
    value = rng.choice(values, n_atoms)
    if frequent:
        plane, which = np.nonzero(rng.random((n_planes, len(FREQUENT))) < 0.8)
        order = np.argsort(np.concatenate([np.repeat(np.arange(n_planes), counts), plane]), kind="stable")
        joined = [np.concatenate(pair)[order] for pair in zip((row, column, value), FREQUENT[which].T, strict=True)]
        row, column, value = joined[0].astype(np.int64), joined[1].astype(np.int64), joined[2]
        counts += np.bincount(plane, minlength=n_planes)
    pointers = np.concatenate([[0], np.cumsum(counts)])
    dense = np.zeros((n_planes, N_FEATURES))
    for p in range(n_planes):
        for a in range(pointers[p], pointers[p + 1]):
            if row[a] < 0:
                dense[p, column[a]] += value[a]
            else:
                dense[p, column[a] + N_COLUMNS * np.arange(3)] += value[a] * matrix[row[a]]
    atoms = Atoms(row.astype(np.int32), column.astype(np.int32), value)
    offsets, heights = rng.normal(size=n_planes), rng.normal(size=n_planes)
    return Planes(rows, pointers, atoms, offsets, heights, N_FEATURES), dense


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6), n_planes=st.integers(1, 6), one_hot=st.booleans())
def test_planes_are_their_dense_matrix(seed, n_planes, one_hot):
    rng = np.random.default_rng(seed)
    rows, matrix = random_rows(rng, one_hot)
    planes, dense = random_planes(rng, rows, matrix, n_planes)
    w, factors = rng.normal(size=N_FEATURES), rng.normal(size=n_planes)
    assert len(planes) == n_planes
    close(planes.slopes().toarray(), dense)
    close(planes.dot(w), dense @ w)
    moved = w.copy()
    planes.add_to(moved, factors)
    close(moved, w + factors @ dense)
    total = planes.total(factors)
    close(total.slope, factors @ dense)
    close(total.offset, factors @ planes.offsets)
    close(total(w), factors @ (planes.offsets + dense @ w))
    scaled = planes.scaled(factors)
    close(scaled.slopes().toarray(), factors[:, None] * dense)
    close(scaled.offsets, factors * planes.offsets)
    close(scaled.values, factors * planes.values)
    chosen = rng.integers(0, n_planes, 4)
    taken = planes.take(chosen)
    close(taken.slopes().toarray(), dense[chosen])
    close(taken.offsets, planes.offsets[chosen])
    close(taken.values, planes.values[chosen])


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), n_planes=st.integers(1, 6))
def test_planes_of_one_batch_add_up(seed, n_planes):
    rng = np.random.default_rng(seed)
    rows, matrix = random_rows(rng)
    first, a = random_planes(rng, rows, matrix, n_planes)
    second, b = random_planes(rng, rows, matrix, n_planes)
    direct = Planes.from_matrix(b, second.offsets, second.values, exact=False)
    for other in (second, direct):
        for left, right in ((first, other), (other, first)):
            both = left + right
            close(both.slopes().toarray(), a + b)
            close(both.offsets, first.offsets + second.offsets)
            close(both.values, first.values + second.values)
            assert both.exact == other.exact


def test_planes_of_inputs_without_any_value_add_up():
    """Rows without entries are still rows that atoms point to."""
    empty = Rows(np.zeros(4, dtype=np.int64), np.zeros(0, dtype=np.uint32), np.zeros(0))
    atoms = Atoms(np.array([2], dtype=np.int32), np.zeros(1, dtype=np.int32), np.ones(1))
    planes = Planes(empty, np.array([0, 1]), atoms, np.zeros(1), np.zeros(1), 3)
    nothing = Planes.zero(1, 3)
    for both in (planes + nothing, nothing + planes):
        assert len(both.rows.indptr) == 4
        assert not both.slopes().toarray().any()


def test_planes_from_matrices():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(3, 5)) * (rng.random((3, 5)) < 0.5)
    for matrix in (dense, sparse.csr_array(dense)):
        planes = Planes.from_matrix(matrix, np.arange(3.0), np.ones(3))
        close(planes.slopes().toarray(), dense)
        assert planes.n_features == 5
        assert planes.all_exact
        assert len(planes.rows.places) == len(no_rows().places) == 0
    nothing = Planes.zero(2, 5)
    assert nothing.slopes().shape == (2, 5)
    assert not nothing.slopes().nnz
    assert Planes.zero(0, 5).slopes().shape == (0, 5)


def test_single_planes_add_and_scale():
    a = Plane(np.array([1.0, 2.0]), 3.0, entropy=0.5)
    b = Plane(np.array([0.0, -1.0]), 1.0, entropy=0.25, exact=False)
    w = np.array([2.0, 1.0])
    assert a(w) == 7.0
    both = a + b
    assert (both(w), both.entropy, both.exact) == (7.0, 0.75, False)
    assert ((2.0 * a)(w), (a * 2.0).entropy, (2.0 * a).exact) == (14.0, 1.0, True)


# ---- the store --------------------------------------------------------------------------------------------


def kept(store, example):
    """The kept planes of one example as dense slopes, offsets and masses."""
    count, base = store.slots.count[example], store.tables.start[example]
    slopes = np.zeros((count, N_FEATURES))
    for p in range(count):
        start = store.slots.start[example, p]
        numbers = store.tables.numbers[start : start + store.slots.length[example, p]].astype(np.int64)
        assert (numbers < store.tables.length[example]).all()
        # Common atoms come last, once in each plane.
        common = np.arange(store.tables.varied[example], store.tables.length[example])
        assert sorted(numbers[len(numbers) - len(common) :]) == common.tolist()
        atoms = Atoms(*(part[base + numbers] for part in store.tables.atoms))
        one = Planes(store.rows, np.array([0, len(numbers)]), atoms, np.zeros(1), np.zeros(1), N_FEATURES)
        slopes[p] = one.slopes().toarray()[0]
    return slopes, store.slots.offset[example, :count], store.slots.alpha[example, :count]


def gram(store, example):
    """The Gram matrix of the kept planes of one example."""
    slots = store.slots
    side, corner, count = slots.side[example], slots.corner[example], slots.count[example]
    return slots.gram[corner : corner + side * side].reshape(side, side)[:count, :count]


def dual_value(store, w):
    """−½‖w‖² + Σ c α b."""
    return -0.5 * w @ w + store.combination().offset


class Trial:
    """A store put through random steps, with the weights that should follow it and all planes it got."""

    def __init__(self, seed, n_examples=3, most=4, idle=2, one_hot=False, most_bytes=None, frequent=False):
        self.rng, self.frequent = np.random.default_rng(seed), frequent
        self.rows, self.matrix = random_rows(self.rng, one_hot)
        self.weights = self.rng.uniform(0.2, 2.0, n_examples)
        self.linear = self.rng.normal(size=N_FEATURES)
        first, dense = random_planes(self.rng, self.rows, self.matrix, n_examples, frequent=frequent)
        self.given = [[(slope, b)] for slope, b in zip(dense, first.offsets, strict=True)]
        self.store = PlaneStore(first, self.weights, most, idle, most_bytes)
        self.w = self.linear - self.store.combination().slope

    def append(self):
        n = self.store.n_examples
        examples = self.rng.permutation(n)[: self.rng.integers(1, n + 1)]
        planes, dense = random_planes(self.rng, self.rows, self.matrix, len(examples), frequent=self.frequent)
        # High planes have something to gain, so that masses move to them.
        planes.offsets += 2.0
        offset, value = self.store.combination().offset, dual_value(self.store, self.w)
        change = self.store.append(examples, planes, self.w)
        close(offset + change, self.store.combination().offset)
        if self.store.most_bytes is None:
            # Only a bound on the bytes makes planes go that have dual mass.
            close(dual_value(self.store, self.w), value)
        for k, i in enumerate(examples):
            self.given[i].append((dense[k], planes.offsets[k]))

    def ascend(self, rule, steps=5):
        before = dual_value(self.store, self.w)
        offset = self.store.combination().offset
        examples = self.rng.permutation(self.store.n_examples)
        gaps, change, gain = self.store.ascend(examples, self.w, rule, steps)
        close(offset + change, self.store.combination().offset)
        close(before + gain, dual_value(self.store, self.w))
        assert gain >= 0.0
        assert (gaps >= -1e-9).all()

    def check(self):
        store, slope, offset = self.store, np.zeros(N_FEATURES), 0.0
        v = self.rng.normal(size=N_FEATURES)
        tops, means = [], []
        for i in range(store.n_examples):
            slopes, offsets, alpha = kept(store, i)
            assert 1 <= len(alpha) <= store.most
            assert (alpha >= 0.0).all()
            close(alpha.sum(), 1.0)
            close(gram(store, i), slopes @ slopes.T)
            mixed = store.slots.mixed[i]
            for p, (g, b) in enumerate(zip(slopes, offsets, strict=True)):
                assert mixed[p] or any(b == b0 and np.allclose(g, g0, atol=1e-12) for g0, b0 in self.given[i])
                # A mean of planes is nowhere above the highest of them.
                tops_of_given = max(b0 + g0 @ v for g0, b0 in self.given[i])
                assert b + g @ v <= tops_of_given + 1e-9 * (1.0 + abs(tops_of_given))
            slope += self.weights[i] * alpha @ slopes
            offset += self.weights[i] * alpha @ offsets
            tops.append((offsets + slopes @ v).max())
            means.append(alpha @ (offsets + slopes @ v))
        combined = store.combination()
        close(combined.slope, slope)
        close(combined.offset, offset)
        close(self.w, self.linear - slope)
        close(store.mean_heights(np.arange(store.n_examples), v), means)
        plane, values = store.highest(v)
        close(values, tops)
        close(plane(v), self.weights @ tops)
        assert not store.scratch.vector.any()


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    most=st.sampled_from((2, 3, 9, 50)),
    idle=st.sampled_from((0, 1, 10)),
    one_hot=st.booleans(),
    frequent=st.booleans(),
    steps=st.lists(st.sampled_from(("append", "append", "tick", *RULES)), min_size=5, max_size=40),
)
def test_store_stays_a_dual_point_through_any_steps(seed, most, idle, one_hot, frequent, steps):
    trial = Trial(seed, most=most, idle=idle, one_hot=one_hot, frequent=frequent)
    trial.check()
    for step in steps:
        if step == "append":
            trial.append()
        elif step == "tick":
            trial.store.tick()
        else:
            trial.ascend(step)
    trial.check()


@pytest.mark.parametrize("rule", RULES)
def test_ascent_reaches_the_optimum_over_the_kept_planes(rule):
    """With planes fixed, all rules must close the gap max_p s_p − Σ α_p s_p."""
    trial = Trial(seed=1, most=20)
    for _ in range(5):
        trial.append()
    values = []
    for _ in range(3000):
        trial.ascend(rule)
        values.append(dual_value(trial.store, trial.w))
    trial.check()
    gaps, _, _ = trial.store.ascend(np.arange(3), trial.w, rule)
    # Plain Frank-Wolfe steps converge at O(1/t) only.
    assert gaps.sum() <= (1e-2 if rule == "plain" else 1e-8) * abs(values[-1])


def test_growth_keeps_everything():
    trial = Trial(seed=2, most=40, idle=1000)
    for _ in range(60):
        trial.append()
        trial.ascend("smo")
    trial.check()
    assert trial.store.slots.count.max() > 16
    assert trial.store.slots.count.max() <= 40
    assert len(trial.store) == trial.store.slots.count.sum()


@pytest.mark.parametrize("seed", range(8))
def test_extrapolated_masses_stay_in_the_simplices_and_increase_the_dual(seed):
    # A store this small drops planes and merges them, between two moments too.
    trial = Trial(seed, n_examples=5, most=4)
    earlier, moved = None, 0
    for step in range(60):
        trial.append()
        trial.store.tick()
        trial.ascend("smo", steps=1)
        latest = trial.store.masses()
        if step % 3 == 0 and earlier is not None:
            before, offset = dual_value(trial.store, trial.w), trial.store.combination().offset
            change, gain = trial.store.extrapolate(earlier, trial.w)
            close(offset + change, trial.store.combination().offset)
            close(before + gain, dual_value(trial.store, trial.w))
            assert gain >= 0.0
            moved += gain > 0.0
            trial.check()
        earlier = latest
    assert moved > 0


def test_rounding_errors_of_sums_are_not_amplified():
    trial = Trial(seed=3, n_examples=8)
    for _ in range(10):
        trial.append()
    earlier = trial.store.masses()
    for _ in range(60):
        trial.ascend("smo", steps=1)
        latest = trial.store.masses()
        trial.store.extrapolate(earlier, trial.w)
        earlier = latest
        masses = trial.store.masses().alpha
        kept = np.arange(masses.shape[1]) < trial.store.slots.count[:, None]
        np.testing.assert_allclose(np.where(kept, masses, 0.0).sum(axis=1), 1.0, rtol=0, atol=1e-13)


def test_extrapolation_along_rounding_errors_changes_nothing():
    trial = Trial(seed=0, n_examples=5)
    for _ in range(20):
        trial.append()
        trial.ascend("smo")
    earlier = trial.store.masses()
    earlier.alpha[:] = np.nextafter(earlier.alpha, 0.5)
    assert trial.store.extrapolate(earlier, trial.w) == (0.0, 0.0)
    trial.check()


def test_masses_of_earlier_times_are_mixed_and_their_planes_kept():
    rng, oracle, first_planes, _ = class_oracle()
    every, store = np.arange(oracle.n_examples), PlaneStore(first_planes, oracle.weights, idle=0)
    w, known = np.zeros(oracle.n_features), []
    for _ in range(4):
        store.tick()
        store.append(every, oracle.planes(rng.normal(size=oracle.n_features)), w)
        store.ascend(every, w)
        known.append((store.masses(), store.combination()))
        store.mix([(known[-1][0], 1.0)], [masses for masses, _ in known])
    (first, low), (last, high) = known[0], known[-1]
    store.mix([(first, 0.25), (last, 0.75)], [first])
    mixed = store.combination()
    np.testing.assert_allclose(mixed.slope, 0.25 * low.slope + 0.75 * high.slope, atol=1e-12)
    assert mixed.offset == pytest.approx(0.25 * low.offset + 0.75 * high.offset)
    np.testing.assert_allclose(store.slots.alpha.sum(axis=1), 1.0)


def test_planes_without_mass_are_replaced_when_idle():
    trial = Trial(seed=3, most=50, idle=1)
    for _ in range(40):
        trial.append()
        trial.store.tick()
    # Nothing ever got mass, so only the first plane and those of the last iterations are worth keeping.
    assert trial.store.slots.count.max() <= 5
    trial.check()


def test_a_full_example_merges_its_lightest_planes():
    offsets = np.zeros(1)
    slopes = [np.eye(1, N_FEATURES, k) for k in range(4)]
    first = Planes.from_matrix(slopes[0], offsets, offsets)
    store = PlaneStore(first, np.ones(1), most=3)
    for slope in slopes[1:3]:
        store.append(np.array([0]), Planes.from_matrix(slope, offsets, offsets), np.zeros(N_FEATURES))
    store.slots.alpha[0, :3] = 0.5, 0.2, 0.3
    w = -store.combination().slope
    close(w[:4], [-0.5, -0.2, -0.3, 0.0])
    store.append(np.array([0]), Planes.from_matrix(slopes[3], offsets, offsets), w)
    close(w[:4], [-0.5, -0.2, -0.3, 0.0])
    close(w, -store.combination().slope)
    found, _, alpha = kept(store, 0)
    close(sorted(alpha), [0.0, 0.5, 0.5])
    close(found[alpha == 0.0][0], slopes[3][0])
    close(found[store.slots.mixed[0, :3]][0], 0.4 * slopes[1][0] + 0.6 * slopes[2][0])


def test_means_of_planes_go_when_offsets_change():
    """Their atoms do not say which planes they are made of."""
    trial = Trial(seed=7, most=3, idle=10)
    for _ in range(12):
        trial.append()
        trial.ascend("smo")
    assert trial.store.slots.mixed.any()
    trial.store.change_offsets(lambda examples, rows, columns: 10.0 * examples + columns)
    slots = trial.store.slots
    assert slots.count.min() >= 1
    for i in range(trial.store.n_examples):
        assert not slots.mixed[i, : slots.count[i]].any()
        close(slots.alpha[i, : slots.count[i]].sum(), 1.0)
        assert (slots.offset[i, : slots.count[i]] >= 10.0 * i).all()


def test_a_bound_on_the_bytes_lets_mass_go_where_least_is_lost():
    """Planes of two examples along one axis: of those left, the one beside the plane that goes takes its mass."""
    offsets = np.zeros(1)
    at = [0.0, 1.0, 5.0]
    first = Planes.from_matrix(np.eye(1, N_FEATURES) * at[0], offsets, offsets)
    store = PlaneStore(first, np.ones(1), most=3, most_bytes=1e6)
    for place in at[1:]:
        planes = Planes.from_matrix(np.eye(1, N_FEATURES) * place, offsets, offsets)
        store.append(np.array([0]), planes, np.zeros(N_FEATURES))
    store.slots.alpha[0, :3] = 0.5, 0.1, 0.4
    w = -store.combination().slope
    planes = Planes.from_matrix(np.eye(1, N_FEATURES) * 7.0, offsets, offsets)
    store.append(np.array([0]), planes, w)
    close(w, -store.combination().slope)
    close(store.slots.alpha[0, :3], [0.6, 0.0, 0.4])


def test_a_plane_that_is_there_already_is_not_kept_twice():
    trial = Trial(seed=4)
    planes, _ = random_planes(trial.rng, trial.rows, trial.matrix, 3)
    trial.store.append(np.arange(3), planes, trial.w)
    size = len(trial.store)
    for _ in range(5):
        trial.store.append(np.arange(3), planes, trial.w)
    assert len(trial.store) == size
    # A different offset makes it another plane.
    planes.offsets = planes.offsets + 1.0
    trial.store.append(np.arange(3), planes, trial.w)
    assert len(trial.store) == size + 3


def test_a_plane_is_recognized_whatever_the_order_of_its_atoms():
    trial = Trial(seed=4, n_examples=1, most=50)
    sizes = []
    for value in (1.0, np.nextafter(1.0, 2.0)):
        atoms = Atoms(np.array([0, -1, 3, 3], np.int32), np.array([1, 7, 2, 2], np.int32), np.array([value, 2.0, 1, 1]))
        for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]):
            planes = Planes(
                trial.rows,
                np.array([0, 4]),
                Atoms(*(part[order] for part in atoms)),
                np.ones(1),
                np.ones(1),
                N_FEATURES,
            )
            trial.store.append(np.zeros(1, dtype=np.int64), planes, trial.w)
            sizes.append(len(trial.store))
    # Another value, however close, makes it another plane.
    assert sizes == [2, 2, 2, 3, 3, 3]


def test_only_atoms_that_differ_between_planes_are_compared():
    """Two labelings that differ in one place have all other atoms in common, but for the first."""
    n_tokens = 6
    row = np.arange(n_tokens, dtype=np.int32)
    rows = Rows(np.arange(n_tokens + 1), np.zeros(n_tokens, dtype=np.uint32), np.zeros(0))
    columns = np.zeros((3, n_tokens), dtype=np.int32)
    columns[1, 2] = columns[2, 4] = 1
    store, found = None, []
    for column in columns:
        atoms = Atoms(row, column, np.ones(n_tokens))
        planes = Planes(rows, np.array([0, n_tokens]), atoms, np.zeros(1), np.zeros(1), 2)
        if store is None:
            store = PlaneStore(planes, np.ones(1))
        else:
            store.append(np.zeros(1, dtype=np.int64), planes, np.zeros(2))
        found.append((int(store.tables.length[0]), int(store.tables.varied[0])))
    assert found == [(6, 1), (7, 3), (8, 5)]


def test_unused_atoms_are_dropped():
    """Planes come and go: the tables must stay as small as what is kept."""
    trial = Trial(seed=5, most=3, idle=0)
    for _ in range(300):
        trial.append()
        trial.ascend("smo")
        trial.store.tick()
        # At most 3 planes of 4 atoms for each of 3 examples, and means of planes with each row and column once.
        tables = trial.store.tables
        for start, length in zip(tables.start, tables.length, strict=True):
            part = slice(start, start + length)
            distinct = len(set(zip(tables.atoms.row[part], tables.atoms.column[part], strict=True)))
            assert length <= 3 * distinct + 12
    trial.check()
    assert len(trial.store.tables.atoms.row) <= 1000
    assert len(trial.store.tables.numbers) <= 1000


def test_examples_without_weight_are_passed_over():
    trial = Trial(seed=6)
    trial.weights[:] = 0.0
    trial.w = trial.linear.copy()
    trial.append()
    gaps, change, gain = trial.store.ascend(np.arange(3), trial.w)
    assert not gaps.any()
    assert change == gain == 0.0
    trial.check()


def test_a_store_of_one_plane_an_example_is_refused():
    with raises("most", got=1):
        PlaneStore(Planes.zero(2, 3), np.ones(2), most=1)


# ---- bounds in bytes ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    most_bytes=st.integers(12_000, 60_000),
    steps=st.lists(st.sampled_from(("append", "append", "tick", "smo", "pairwise")), min_size=5, max_size=60),
)
def test_a_bounded_store_stays_a_dual_point_within_its_bytes(seed, most_bytes, steps):
    trial = Trial(seed, n_examples=20, most=50, idle=50, most_bytes=most_bytes)
    for step in steps:
        if step == "append":
            trial.append()
        elif step == "tick":
            trial.store.tick()
        else:
            trial.ascend(step)
        assert trial.store.nbytes <= most_bytes
    trial.check()
    assert trial.store.slots.count.min() >= 1


def test_planes_idle_for_longest_go_first_then_light_ones():
    trial = Trial(seed=8, n_examples=4, most=10, idle=1000)
    for _ in range(5):
        trial.append()
        trial.store.tick()
    slots = trial.store.slots
    slots.alpha[:] = 0.0
    slots.alpha[:, 1], slots.alpha[:, 2] = 0.7, 0.3
    examples, places = least_useful(slots)
    left = [sorted(set(range(slots.count[i])) - set(places[examples == i])) for i in range(4)]
    assert [sorted(slots.alpha[i, left[i]])[-2:] for i in range(4) if len(left[i]) >= 2] == [[0.3, 0.7]] * 4
    examples, places = least_useful(slots, 1.0)
    assert (slots.alpha[examples, places] == 0).all()
    kept_used = slots.used[:, :][(np.arange(slots.used.shape[1]) < slots.count[:, None]) & (slots.alpha == 0)]
    assert slots.used[examples, places].min() == kept_used.min()
    slots.alpha[:] = 1.0 / slots.count[:, None]
    slots.alpha[2, 1] = 0.01
    examples, places = least_useful(slots, 1.0)
    assert (2, 1) in zip(examples.tolist(), places.tolist(), strict=True)


def test_slots_become_fewer_where_planes_grow():
    """The first planes determine how many fit; larger ones need other memory."""
    rng = np.random.default_rng(9)
    nothing = np.zeros(50)
    most_bytes = 700_000
    store = PlaneStore(Planes.zero(50, 200), np.ones(50), 50, 50, most_bytes)
    before, w, given = store.budget.slots, np.zeros(200), []
    for _ in range(60):
        given.append(rng.normal(size=(50, 200)))
        store.append(np.arange(50), Planes.from_matrix(given[-1], nothing, nothing), w)
        store.ascend(np.arange(50), w)
        store.tick()
        assert store.nbytes <= most_bytes
    assert 2 <= store.budget.slots < before
    assert store.slots.start.shape[1] == store.budget.slots
    close(w, -store.combination().slope, 1e-6)


def test_a_bound_below_two_planes_an_example_is_refused_with_what_is_needed():
    first = Planes.from_matrix(np.ones((100, 50)), np.zeros(100), np.zeros(100))
    with raises("cache_mb", got="0.01 MB", expected="two planes per example (100 examples, 0."):
        PlaneStore(first, np.ones(100), most_bytes=10_000)
    # Larger planes than the first ones may need more than there is later.
    store = PlaneStore(Planes.zero(100, 50), np.ones(100), most_bytes=80_000)
    with raises("cache_mb", got="MB too little"):
        store.append(np.arange(100), first, np.zeros(50))


# ---- the state of a store -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    most=st.sampled_from((2, 3, 20)),
    most_bytes=st.sampled_from((None, 4_000, 6_000)),
    one_hot=st.booleans(),
    frequent=st.booleans(),
    before=st.integers(0, 20),
    steps=st.lists(st.sampled_from(("append", "append", "tick", "highest", *RULES)), min_size=1, max_size=25),
)
def test_a_restored_store_goes_on_bit_for_bit(seed, most, most_bytes, one_hot, frequent, before, steps):
    trial = Trial(seed, most=most, one_hot=one_hot, most_bytes=most_bytes, frequent=frequent)
    for _ in range(before):
        trial.append()
        trial.ascend("smo")
        trial.store.tick()
    twin = copy.deepcopy(trial)
    twin.store = PlaneStore.restored(trial.store.state(), trial.store.first, trial.weights, most, most_bytes)
    for step in steps:
        for each in (trial, twin):
            if step == "append":
                each.append()
            elif step == "tick":
                each.store.tick()
            elif step == "highest":
                each.store.highest(each.w)
            else:
                each.ascend(step)
        np.testing.assert_array_equal(trial.w, twin.w)
    for name, value in vars(trial.store.state()).items():
        np.testing.assert_array_equal(vars(twin.store.state())[name], value)
    twin.check()


def spoiled(state, name, value, place=0):
    """The state of a store with one entry changed."""
    array = state[name].copy()
    array[place] = value
    return state | {name: array}


def test_states_that_lead_out_of_the_arrays_are_refused():
    trial = Trial(seed=7, most=9)
    for _ in range(6):
        trial.append()
        trial.ascend("smo")
        trial.store.tick()
    state = state_dict(trial.store.state())
    direct, indirect = np.flatnonzero(state["rows"] < 0)[0], np.flatnonzero(state["rows"] >= 0)[0]
    bad = [
        (spoiled(state, "numbers", 999), "an atom numbered 999"),
        (spoiled(state, "rows", N_ROWS), "input rows"),
        (spoiled(state, "rows", -2), "input rows"),
        (spoiled(state, "columns", N_FEATURES, direct), "weights"),
        (spoiled(state, "columns", N_FEATURES - 1, indirect), "weights"),
        (spoiled(state, "columns", -1), "weights"),
        (spoiled(state, "count", 0), "count has values from 0 "),
        (spoiled(state, "count", 2**31 - 1), "count has values"),
        (spoiled(state, "count", state["count"][0] + 1), "lengths has"),
        (spoiled(state, "lengths", -1), "lengths has values from -1 "),
        (spoiled(state, "lengths", state["lengths"][0] + 1), "numbers has"),
        (spoiled(state, "table_lengths", 2**62), "table_lengths has values"),
        (spoiled(state, "table_lengths", state["table_lengths"][0] + 1), "rows has"),
        (spoiled(state, "used", 10**6), "used has values"),
        (spoiled(state, "masses", -0.5), "masses"),
        (spoiled(state, "masses", 1.5), "masses"),
        (spoiled(state, "values", np.nan), "values has numbers that are not finite"),
        (spoiled(state, "gram", np.inf), "gram has numbers that are not finite"),
        (state | {"gram": state["gram"][1:]}, "gram has"),
        (state | {"numbers": state["numbers"].astype(np.int64)}, "numbers is"),
        (state | {"gram": state["gram"][:, None]}, "gram is"),
        (state | {"offsets": state["offsets"][:-1]}, "offsets has shape"),
        (state | {"clock": -1}, "clock is -1"),
        (state | {"idle": None}, "idle is None"),
        ({}, "clock"),
        ([state], "in place of a dict"),
    ]
    for tree, words in bad:
        with pytest.raises((LookupError, TypeError, ValueError)) as caught:
            PlaneStore.restored(from_state_dict(StoreState, tree), trial.store.first, trial.weights, 9)
        assert words in str(caught.value)
    known = trial.store.state()
    for first, most, words in (
        (trial.store.first, 2, "count has values"),
        (trial.store.first.take(np.arange(2)), 9, "count has 3 entries, not 2"),
        (Planes.zero(3, N_FEATURES), 9, "input rows"),
    ):
        with pytest.raises(ValueError) as caught:
            PlaneStore.restored(known, first, trial.weights[: len(first)], most)
        assert words in str(caught.value)


# ---- oracles ----------------------------------------------------------------------------------------------


def class_oracle(temperature=0.0):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(8, 3)), np.arange(8) % 3
    task = Multiclass()
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    weights = rng.uniform(0.5, 2.0, 8)
    oracle = TaskOracle(task, batch, weights, "augmented", Temperature(temperature))
    first = task.planes(batch, np.zeros(task.n_features), "clamped", Temperature())
    return rng, oracle, first, reference.list_classes(X, Y, 3, 1.0 - np.eye(3))


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_remembered_totals_are_below_the_exact_one(temperature):
    rng, oracle, first, listed = class_oracle(temperature)
    store = PlaneStore(first, oracle.weights, 4)
    for _ in range(30):
        w = rng.normal(size=oracle.n_features)
        exact = oracle.weights @ [reference.pool(e, w, "augmented", temperature).value for e in listed]
        assert store.highest(w)[0](w) <= exact + 1e-9
        close(remembered_total(oracle, store, w)(w), exact)
        # What was just found is remembered.
        close(store.highest(w)[0](w), exact)
    assert store.slots.count.max() <= 4


def test_remembered_totals_of_chains():
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(t, 2)) for t in (3, 0, 1, 5)]
    Y = [rng.integers(0, 3, len(x)).tolist() for x in X]
    task = Chain(labels=[0, 1, 2], start=True, bias=True)
    task.learn(X, Y)
    batch = task.prepare(X, Y)
    oracle = TaskOracle(task, batch, np.ones(4), "augmented")
    first = task.planes(batch, np.zeros(task.n_features), "clamped", Temperature())
    store = PlaneStore(first, oracle.weights, 10)
    for _ in range(30):
        w = rng.normal(size=task.n_features)
        assert store.highest(w)[0](w) <= oracle.total(w)(w) + 1e-9
        remembered_total(oracle, store, w)
        close(store.highest(w)[0](w), oracle.total(w)(w))


def test_oracles_are_counted_by_examples():
    _, oracle, first, _ = class_oracle()
    objective = Objective(L2(), oracle, FixedOracle(first, oracle.weights))
    counted = objective.plus
    w = np.zeros(oracle.n_features)
    counted.total(w)
    assert counted.tally.calls == 8
    counted.planes(w)
    counted.planes(w, np.array([1, 4]))
    assert counted.tally.calls == 18
    soft = objective.smoothed(1.0).plus
    assert soft.smooth
    assert not counted.smooth
    soft.total(w)
    assert counted.tally.calls == 26
    assert (counted.n_examples, counted.n_features) == (oracle.n_examples, oracle.n_features)
    with raises("solver", expected="no soft form"):
        SlackOracle(oracle.task, oracle.batch, oracle.weights).smoothed(1.0)


def test_fixed_oracles_answer_with_the_same_planes():
    rng, oracle, first, _ = class_oracle()
    fixed = FixedOracle(first, oracle.weights)
    dense = first.slopes().toarray()
    assert fixed.smooth
    for _ in range(3):
        w = rng.normal(size=oracle.n_features)
        close(fixed.total(w).slope, oracle.weights @ dense)
        close(fixed.planes(w).values, dense @ w)
        rows = np.array([5, 2])
        close(fixed.planes(w, rows).slopes().toarray(), dense[rows])
        close(fixed.planes(w, rows).values, (dense @ w)[rows])


def test_planes_of_one_example_that_come_together_have_room():
    rng = np.random.default_rng(0)
    store = PlaneStore(Planes.from_matrix(np.eye(10, 50), np.zeros(10), np.zeros(10)), np.ones(10), 20)
    twin = copy.deepcopy(store)
    for _ in range(5):
        examples, w = rng.integers(0, 2, 40), np.zeros(50)
        planes = Planes.from_matrix(rng.normal(size=(40, 50)), rng.normal(size=40), np.zeros(40))
        store.append(examples, planes, w)
        for place in np.argsort(examples, kind="stable"):
            twin.append(examples[[place]], planes.take(np.array([place])), w)
        assert (store.tables.end <= [len(store.tables.atoms.value), len(store.tables.numbers)]).all()
    assert store.slots.count.tolist() == [20, 20] + 8 * [1]
    for name, kept in vars(store.state()).items():
        np.testing.assert_array_equal(kept, vars(twin.state())[name], err_msg=name)


def test_a_store_is_restored_whatever_planes_tell_the_batch():
    small, large = (Planes.from_matrix(slopes, *np.zeros((2, 5))) for slopes in (np.eye(5, 50), np.ones((5, 50))))
    least = next(size for size in range(1000, 10**6, 100) if fits(small, size))
    store = PlaneStore(small, np.ones(5), 4, most_bytes=least)
    assert not fits(large, least)
    twin = PlaneStore.restored(store.state(), large, np.ones(5), 4, least)
    assert twin.budget == store.budget


def fits(first, most_bytes):
    """Return whether a store can begin with these planes."""
    try:
        PlaneStore(first, np.ones(len(first)), 4, most_bytes=most_bytes)
    except InputError:
        return False
    return True


def test_kernels_refuse_examples_that_do_not_exist():
    planes = Planes.from_matrix(np.eye(3), np.zeros(3), np.zeros(3))
    store = PlaneStore(planes, np.ones(3))
    for example in (-1, 3):
        with pytest.raises(ValueError, match="kept examples"):
            store.ascend(np.array([example]), np.zeros(3))
    with pytest.raises(ValueError, match="lengths"):
        store.ascend(np.arange(3), np.zeros(2))


@pytest.mark.parametrize("rule", ["plain", "away", "pairwise", "smo"])
def test_weights_that_are_no_numbers_move_no_mass(rule):
    store = PlaneStore(Planes.from_matrix(np.eye(3), np.zeros(3), np.zeros(3)), np.ones(3))
    store.append(np.arange(3), Planes.from_matrix(2.0 * np.eye(3), np.ones(3), np.zeros(3)), np.zeros(3))
    gaps, _, gain = store.ascend(np.arange(3), np.full(3, np.nan), rule)
    assert np.isnan(gaps).all()
    assert gain == 0.0
    assert store.slots.alpha[:, 0].tolist() == [1.0, 1.0, 1.0]
