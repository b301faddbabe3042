"""Sparse matrices and index arrays from outside: used right or refused, never a crash."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from error_fields import raises
from latentstruct import (
    Chain,
    DiverseSubset,
    KernelStructuralSVM,
    Measure,
    Multiclass,
    ShardedData,
    StructuralSVM,
    grid_graph,
    pair_features,
)
from latentstruct.core.validation import check_sparse
from latentstruct.planes.plane import Atoms, Planes, Rows, Slopes
from latentstruct.planes.store import PlaneStore
from latentstruct.tasks.inputs import check_matrix

ROOT = Path(__file__).parents[2]
FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dia", "dok")
X = sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 5.0, 0.0], [0.0, 0.0, 6.0]]))
Y = [0, 1, 0, 1]


def changed(**arrays):
    """Return X with some of its arrays replaced."""
    matrix = X.copy()
    for name, array in arrays.items():
        setattr(matrix, name, array)
    return matrix


def with_entry(name, place, value):
    array = getattr(X, name).copy()
    array[place] = value
    return changed(**{name: array})


BROKEN = {
    "column 3": with_entry("indices", 2, 3),
    "column -1": with_entry("indices", 2, -1),
    "column 10**9": with_entry("indices", 2, 10**9),
    "pointer 10**9": with_entry("indptr", 2, 10**9),
    "pointer -1": with_entry("indptr", 1, -1),
    "first pointer": with_entry("indptr", 0, 1),
    "last pointer": with_entry("indptr", 4, 5),
    "pointers that fall": with_entry("indptr", 2, 1),
    "few pointers": changed(indptr=X.indptr[:-1]),
    "few indices": changed(indices=X.indices[:-1]),
    "few values": changed(data=X.data[:-1]),
    "float indices": changed(indices=X.indices.astype(float)),
    "masked indices": changed(indices=np.ma.array(X.indices, mask=X.indices == 0)),
    "masked values": changed(data=np.ma.array(X.data, mask=X.data > 5)),
    "text values": changed(data=X.data.astype(str)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_matrix_is_refused_by_name(name):
    matrix = BROKEN[name]
    for model in (StructuralSVM(Multiclass()), StructuralSVM(Measure("f1")), KernelStructuralSVM(Multiclass())):
        with raises("X", expected="a valid sparse matrix"):
            model.fit(matrix, Y)
    trained = StructuralSVM(Multiclass()).fit(X, Y)
    with raises("X", expected="a valid sparse matrix"):
        trained.predict(matrix)
    with raises("X[1]", expected="a valid sparse matrix"):
        StructuralSVM(Chain()).fit([X, matrix], [Y, Y])
    with raises("Y[0]", expected="a valid sparse matrix"):
        StructuralSVM(DiverseSubset(k=1)).fit([abs(X)], [matrix])
    with raises("items", expected="a valid sparse matrix"):
        pair_features(matrix)
    with raises("slopes", expected="a valid sparse matrix"):
        Planes.from_matrix(matrix, np.zeros(4), np.zeros(4))


def test_a_broken_block_is_refused_before_blocks_are_joined(tmp_path):
    with raises("X of block 1", expected="a valid sparse matrix"):
        ShardedData.write(tmp_path, Multiclass(), [(X, Y), (BROKEN["few indices"], Y)])


@pytest.mark.parametrize("kind", FORMATS)
def test_valid_matrices_of_all_formats_are_taken_and_left_alone(kind):
    matrix = X.asformat(kind)
    for array in vars(matrix).values():
        # SciPy cannot convert lists of rows that are read-only.
        if isinstance(array, np.ndarray) and array.dtype != object:
            array.flags.writeable = False
    check_sparse(matrix, "X")
    np.testing.assert_array_equal(check_matrix(matrix, "X").toarray(), X.toarray())


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(("csr", "csc", "coo")))
def test_duplicates_and_unsorted_indices_add_up(seed, kind):
    rng = np.random.default_rng(seed)
    n, d, size = 5, 4, int(rng.integers(0, 30))
    row, column, value = rng.integers(0, n, size), rng.integers(0, d, size), rng.normal(size=size)
    dense = np.zeros((n, d))
    np.add.at(dense, (row, column), value)
    matrix = sparse.coo_array((value, (row, column)), (n, d))
    if kind != "coo":
        major = row if kind == "csr" else column
        order = np.argsort(major, kind="stable")
        minor = (column if kind == "csr" else row)[order]
        pointers = np.concatenate([[0], np.cumsum(np.bincount(major, minlength=n if kind == "csr" else d))])
        matrix = (sparse.csr_array if kind == "csr" else sparse.csc_array)((value[order], minor, pointers), (n, d))
    before = matrix.nnz
    found = check_matrix(matrix, "X")
    assert found.has_canonical_format
    np.testing.assert_allclose(found.toarray(), dense, rtol=0, atol=1e-12)
    assert matrix.nnz == before


def test_index_arrays_that_change_during_training_are_not_used():
    for model in (StructuralSVM(Multiclass()), StructuralSVM(Measure("error"))):
        matrix = X.copy()

        def break_it(line, matrix=matrix):
            matrix.indices[:] = 10**9
            matrix.indptr[1:] = 10**9

        model.fit(matrix, Y, callback=break_it)
        kept = type(model)(model.task).fit(X, Y)
        np.testing.assert_array_equal(model.predict(X), kept.predict(X))


MASKED = np.ma.array(X.toarray(), mask=X.toarray() > 5)


@pytest.mark.parametrize(
    "fit",
    [
        lambda: StructuralSVM(Multiclass()).fit(MASKED, Y),
        lambda: StructuralSVM(Multiclass()).fit(list(MASKED), Y),
        lambda: StructuralSVM(Multiclass()).fit(X, np.ma.array(Y, mask=[True, False, False, False])),
        lambda: StructuralSVM(Multiclass()).fit(X, Y, sample_weight=np.ma.array(np.ones(4), mask=[1, 0, 0, 0])),
        lambda: StructuralSVM(Multiclass(costs=np.ma.array(1.0 - np.eye(2), mask=np.eye(2)))).fit(X, Y),
        lambda: StructuralSVM(Chain()).fit([MASKED], [Y]),
        lambda: StructuralSVM(Chain()).fit([X], [np.ma.array(Y, mask=[True, False, False, False])]),
        lambda: grid_graph(MASKED[:, :, None]),
        lambda: pair_features(MASKED),
    ],
)
def test_masked_values_are_refused(fit):
    with raises(got="masked values", expected="free of masked values"):
        fit()


def test_a_masked_array_without_masked_values_is_an_array():
    model = StructuralSVM(Multiclass())
    plain = model.fit(X.toarray(), Y).coef_
    np.testing.assert_array_equal(model.fit(np.ma.array(X.toarray()), Y).coef_, plain)


@pytest.mark.parametrize("kind", [str, bytes, object])
def test_text_is_not_taken_for_numbers_but_for_labels(kind):
    text = X.toarray().astype(str).astype(kind)
    for model, data in (
        (StructuralSVM(Multiclass()), (text, Y)),
        (StructuralSVM(Chain()), ([text], [Y])),
        (StructuralSVM(Measure("f1")), (text, Y)),
    ):
        with raises(expected="a matrix of real numbers"):
            model.fit(*data)
    assert StructuralSVM(Multiclass()).fit(X, np.array(["1", "2", "1", "2"])).predict(X[:1]).tolist() in (["1"], ["2"])


class Users(Multiclass):
    """A task with answers of its own, one array of which is changed."""

    def __init__(self, change=None):
        super().__init__()
        self.change = change

    def pool_batch(self, batch, query):
        found = super().pool_batch(batch, query)
        return replace(found, slopes=self.change(found.slopes))


def moved(slopes, **arrays):
    atoms = slopes.atoms._replace(**{name: array for name, array in arrays.items() if name in Atoms._fields})
    rows = slopes.rows._replace(**{name: array for name, array in arrays.items() if name in Rows._fields})
    return Slopes(rows, arrays.get("pointers", slopes.pointers), atoms)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: moved(p, row=p.atoms.row + np.int32(100)),
        lambda p: moved(p, row=p.atoms.row - np.int32(100)),
        lambda p: moved(p, row=p.atoms.row.astype(np.int64)),
        lambda p: moved(p, column=p.atoms.column + np.int32(10**6)),
        lambda p: moved(p, column=p.atoms.column - np.int32(10)),
        lambda p: moved(p, column=p.atoms.column[:-1]),
        lambda p: moved(p, pointers=p.pointers * 1000),
        lambda p: moved(p, pointers=p.pointers[:-1]),
        lambda p: moved(p, places=p.rows.places + np.uint32(10**6)),
        lambda p: moved(p, indptr=p.rows.indptr + 10**6),
    ],
)
def test_planes_of_a_users_task_are_checked(change):
    StructuralSVM(Users(lambda slopes: slopes)).fit(X, Y)
    with raises("Users.pool_batch", expected="4 planes of 6 weights with valid indices"):
        StructuralSVM(Users(change)).fit(X, Y)


def test_planes_must_fit_the_rows_of_their_store():
    rows = Rows(np.array([0, 1]), np.zeros(1, dtype=np.uint32), np.ones(1))
    more = Rows(np.array([0, 1, 2]), np.zeros(2, dtype=np.uint32), np.ones(2))
    one, column = np.array([0, 1]), np.zeros(1, dtype=np.int32)
    first = Planes(rows, one, Atoms(np.zeros(1, dtype=np.int32), column, np.ones(1)), np.zeros(1), np.zeros(1), 2)
    other = Planes(more, one, Atoms(np.ones(1, dtype=np.int32), column, np.ones(1)), np.zeros(1), np.zeros(1), 2)
    store = PlaneStore(first, np.ones(1))
    with raises("planes", expected="the rows of the batch"):
        store.append(np.array([0]), other, np.zeros(2))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is read from /proc")
def test_damaged_matrices_and_index_arrays_end_no_process():
    """A few mutants of every task; ``python -m fuzz.matrices`` runs 20 000 and more."""
    command = [sys.executable, "-m", "fuzz.matrices", "--mutants", "1500", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 kinds of findings" in done.stdout
