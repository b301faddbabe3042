"""Planes as lists of atoms: their scores and sums.

A plane is a list of *atoms* (row, column, value). An atom with row r ≥ 0 stands for `value · x_r` placed at
the weights `column + place`, where x_r is a sparse row of the inputs; an atom with row −1 stands
for `value` at the weight `column`. g_p is the slope of plane p.
"""

from typing import NamedTuple

import numpy as np

from latentstruct.kernels.jit import inlined, njit


class Rows(NamedTuple):
    """Input rows shared by planes: CSR with `places` = stride · feature; no `data` means that all values are 1.

    One-hot inputs are the rule in text, and need no second array.
    """

    indptr: np.ndarray
    places: np.ndarray
    data: np.ndarray


class Atoms(NamedTuple):
    """Flat atoms of many planes."""

    row: np.ndarray
    column: np.ndarray
    value: np.ndarray


# Inner loops run over unsigned positions: a signed index costs a check for negative values at each access.
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@inlined
def row_dot(indptr, places, data, row, column, vector):
    """Return x_row · vector at the weights of `column`.

    Four sums at a time: one alone would wait for each addition to finish before the next.
    """
    shift = np.uint64(column)
    k, last = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
    a = b = c = d = 0.0
    if len(data) == 0:
        while k + FOUR <= last:
            a += vector[shift + places[k]]
            b += vector[shift + places[k + ONE]]
            c += vector[shift + places[k + TWO]]
            d += vector[shift + places[k + THREE]]
            k += FOUR
        while k < last:
            a += vector[shift + places[k]]
            k += ONE
        return (a + b) + (c + d)
    while k + FOUR <= last:
        a += data[k] * vector[shift + places[k]]
        b += data[k + ONE] * vector[shift + places[k + ONE]]
        c += data[k + TWO] * vector[shift + places[k + TWO]]
        d += data[k + THREE] * vector[shift + places[k + THREE]]
        k += FOUR
    while k < last:
        a += data[k] * vector[shift + places[k]]
        k += ONE
    return (a + b) + (c + d)


@inlined
def row_add(indptr, places, data, row, column, coefficient, vector):
    """Add coefficient · x_row to `vector` at the weights of `column`."""
    shift = np.uint64(column)
    k, last = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
    if len(data) == 0:
        while k < last:
            vector[shift + places[k]] += coefficient
            k += ONE
        return
    while k < last:
        vector[shift + places[k]] += coefficient * data[k]
        k += ONE


@njit
def atoms_dot(rows, atoms, start, stop, vector):
    """Return g · vector for the plane made of atoms start … stop."""
    total = 0.0
    for a in range(start, stop):
        if atoms.row[a] < 0:
            total += atoms.value[a] * vector[atoms.column[a]]
        else:
            total += atoms.value[a] * row_dot(
                rows.indptr, rows.places, rows.data, atoms.row[a], atoms.column[a], vector
            )
    return total


@njit
def atoms_add(rows, atoms, start, stop, coefficient, vector):
    """Add coefficient · g to `vector` for the plane made of atoms start … stop."""
    for a in range(start, stop):
        step = coefficient * atoms.value[a]
        if atoms.row[a] < 0:
            vector[atoms.column[a]] += step
        else:
            row_add(rows.indptr, rows.places, rows.data, atoms.row[a], atoms.column[a], step, vector)


@njit
def atoms_clear(rows, atoms, start, stop, vector):
    """Set `vector` to exact zero wherever the plane made of atoms start … stop may be non-zero."""
    for a in range(start, stop):
        row, column = atoms.row[a], atoms.column[a]
        if row < 0:
            vector[column] = 0.0
        else:
            for k in range(rows.indptr[row], rows.indptr[row + 1]):
                vector[column + rows.places[k]] = 0.0


@njit
def planes_dot(rows, atoms, pointers, vector, out):
    """out[p] = g_p · vector for all planes; pointers is (k + 1,)."""
    for p in range(out.shape[0]):
        out[p] = atoms_dot(rows, atoms, pointers[p], pointers[p + 1], vector)


@njit
def planes_add(rows, atoms, pointers, coefficients, vector):
    """Vector += Σ_p coefficients[p] g_p; pointers is (k + 1,)."""
    for p in range(coefficients.shape[0]):
        if coefficients[p] != 0.0:
            atoms_add(rows, atoms, pointers[p], pointers[p + 1], coefficients[p], vector)
