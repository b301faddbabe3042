// Input rows and the atoms of planes, and their products with vectors.
//
// A plane is a list of atoms (row, column, value). An atom with row r >= 0 stands for value·x_r placed at the weights
// column + place, where x_r is a sparse row of the inputs; an atom with row -1 stands for `value` at the weight `column`.
// Rows, places and columns are not checked here: tasks check inputs when they prepare a batch, and planes of other
// tasks pass `checked_planes` or `atom_fault`.
#pragma once
#include "arrays.hpp"
#include "elementwise.hpp"

namespace latentstruct {

using Column = std::int32_t;

// CSR rows with places = stride·feature; data is null if all values are 1.
struct Rows {
  const Index *indptr;
  const std::uint32_t *places;
  const double *data;
  std::size_t n;

  static Rows read(const Fields &fields) {
    Index n = -1, size = -1;
    const auto *indptr = fields.indices("indptr", {&n, 1});
    const auto *places = fields.get<const std::uint32_t>("places", &size);
    const auto data = fields.array<Vector>("data");
    require(data.shape(0) == 0 || static_cast<Index>(data.shape(0)) == size, "rows must have one value per place, or none");
    return {indptr, places, data.shape(0) ? data.data() : nullptr, static_cast<std::size_t>(n)};
  }

  LATENTSTRUCT_INLINE double value(Index entry) const { return data ? data[entry] : 1.0; }
};

// Flat atoms of many planes; T is const where they are only read.
template <typename Row, typename Value> struct AtomsOf {
  Row *row, *column;
  Value *value;
  std::size_t n;

  static AtomsOf read(const Fields &fields) {
    Index n = -1;
    auto *row = fields.get<Row>("row", &n), *column = fields.get<Row>("column", &n);
    auto *value = fields.get<Value>("value", &n);
    return {row, column, value, static_cast<std::size_t>(n)};
  }

  AtomsOf from(Index start) const { return {row + start, column + start, value + start, n - start}; }
};

using Atoms = AtomsOf<const Column, const double>;
using AtomTable = AtomsOf<Column, double>;

// out[g] = x_row · vector at the weights of columns[g]. Four sums at a time: one alone would wait for each addition to
// finish before the next. Entries of the row are read once for all G columns.
template <int G, bool UNIT>
LATENTSTRUCT_INLINE void dot_columns(const Rows &rows, Index row, const Column *columns, const double *vector, double *out) {
  Index k = rows.indptr[row];
  const Index last = rows.indptr[row + 1];
  double lanes[G][4] = {};
  const double *at[G];
  for (int g = 0; g < G; ++g) at[g] = vector + columns[g];
  const auto step = [&](Index entry, int j) __attribute__((always_inline)) {
    const std::size_t place = rows.places[entry];
    for (int g = 0; g < G; ++g) lanes[g][j] += UNIT ? at[g][place] : rows.data[entry] * at[g][place];
  };
  for (; k + 4 <= last; k += 4) {
    step(k, 0);
    step(k + 1, 1);
    step(k + 2, 2);
    step(k + 3, 3);
  }
  for (; k < last; ++k) step(k, 0);
  for (int g = 0; g < G; ++g) out[g] = (lanes[g][0] + lanes[g][1]) + (lanes[g][2] + lanes[g][3]);
}

// vector += coefficients[g] · x_row at the weights of columns[g], for G columns.
template <int G, bool UNIT>
LATENTSTRUCT_INLINE void add_columns(const Rows &rows, Index row, const Column *columns, const double *coefficients,
                                     double *vector) {
  Index k = rows.indptr[row];
  const Index last = rows.indptr[row + 1];
  double *at[G];
  for (int g = 0; g < G; ++g) at[g] = vector + columns[g];
  const auto step = [&](Index entry) __attribute__((always_inline)) {
    const std::size_t place = rows.places[entry];
    const double value = UNIT ? 1.0 : rows.data[entry];
    for (int g = 0; g < G; ++g) at[g][place] += UNIT ? coefficients[g] : coefficients[g] * value;
  };
  for (; k + 4 <= last; k += 4) {
    step(k);
    step(k + 1);
    step(k + 2);
    step(k + 3);
  }
  for (; k < last; ++k) step(k);
}

// The same for n columns.
LATENTSTRUCT_INLINE void dot_row(const Rows &rows, Index row, const Column *columns, Index n, const double *vector, double *out) {
  const auto all = [&](auto unit) __attribute__((always_inline)) {
    Index g = 0;
    for (; g + 4 <= n; g += 4) dot_columns<4, unit>(rows, row, columns + g, vector, out + g);
    for (; g + 2 <= n; g += 2) dot_columns<2, unit>(rows, row, columns + g, vector, out + g);
    if (g < n) dot_columns<1, unit>(rows, row, columns + g, vector, out + g);
  };
  if (rows.data) all(std::false_type());
  else all(std::true_type());
}

LATENTSTRUCT_INLINE void add_row(const Rows &rows, Index row, const Column *columns, Index n, const double *coefficients,
                                 double *vector) {
  const auto all = [&](auto unit) __attribute__((always_inline)) {
    Index g = 0;
    for (; g + 2 <= n; g += 2) add_columns<2, unit>(rows, row, columns + g, coefficients + g, vector);
    if (g < n) add_columns<1, unit>(rows, row, columns + g, coefficients + g, vector);
  };
  if (rows.data) all(std::false_type());
  else all(std::true_type());
}

// Where the run of atoms from `a` with the same row ends, at most at n.
template <typename A> LATENTSTRUCT_INLINE Index end_of_row(const A &atoms, Index a, Index n) {
  const Column row = atoms.row[a];
  while (++a < n && atoms.row[a] == row) {}
  return a;
}

// products[a] = atom a · vector for n atoms. It is faster if those of one row are neighbors.
template <typename A>
LATENTSTRUCT_INLINE void atom_products(const Rows &rows, const A &atoms, Index n, const double *vector, double *products) {
  for (Index a = 0, end; a < n; a = end) {
    end = end_of_row(atoms, a, n);
    if (atoms.row[a] < 0)
      for (Index b = a; b < end; ++b) products[b] = vector[atoms.column[b]];
    else dot_row(rows, atoms.row[a], atoms.column + a, end - a, vector, products + a);
  }
  for (Index a = 0; a < n; ++a) products[a] *= atoms.value[a];
}

// g · vector for the plane of n atoms.
template <typename A>
LATENTSTRUCT_INLINE double plane_dot(const Rows &rows, const A &atoms, Index n, const double *vector) {
  double total = 0.0;
  for (Index a = 0; a < n; ++a) {
    const Column row = atoms.row[a], column = atoms.column[a];
    double product;
    if (row < 0) product = vector[column];
    else dot_row(rows, row, &column, 1, vector, &product);
    total += atoms.value[a] * product;
  }
  return total;
}

// vector += coefficient · g for the plane of n atoms.
template <typename A>
LATENTSTRUCT_INLINE void plane_add(const Rows &rows, const A &atoms, Index n, double coefficient, double *vector) {
  for (Index a = 0; a < n; ++a) {
    const double step = coefficient * atoms.value[a];
    if (atoms.row[a] < 0) vector[atoms.column[a]] += step;
    else add_row(rows, atoms.row[a], atoms.column + a, 1, &step, vector);
  }
}

// Set `vector` to exact zero wherever the plane of n atoms may be nonzero.
template <typename A> inline void plane_clear(const Rows &rows, const A &atoms, Index n, double *vector) {
  for (Index a = 0; a < n; ++a) {
    double *shifted = vector + atoms.column[a];
    if (atoms.row[a] < 0) *shifted = 0.0;
    else
      for (Index k = rows.indptr[atoms.row[a]]; k < rows.indptr[atoms.row[a] + 1]; ++k) shifted[rows.places[k]] = 0.0;
  }
}

} // namespace latentstruct
