// Input rows and the atoms of planes, and their products with vectors.
//
// A plane is a list of atoms (row, column, value). An atom with row r >= 0 stands for value·x_r placed at the weights
// column + place, where x_r is a sparse row of the inputs; an atom with row -1 stands for `value` at the weight `column`.
// Rows, places and columns are not checked here: tasks check inputs when they prepare a batch, and planes of other
// tasks pass `checked_planes` or `atom_fault`.
#pragma once
#include "binding.hpp"
#include "elementwise.hpp"

namespace latentstruct {

using Column = std::int32_t;

// CSR rows with places = stride·feature; data is null if all values are 1.
struct Rows {
  const Index *indptr;
  const std::uint32_t *places;
  const double *data;
  std::size_t n;

  static Rows read(nb::handle source) {
    const auto indptr = array<In<Index, 1>>(source, "indptr");
    const auto places = array<In<std::uint32_t, 1>>(source, "places");
    const auto data = array<In<double, 1>>(source, "data");
    require(indptr.shape(0) > 0 && (data.shape(0) == 0 || data.shape(0) == places.shape(0)),
            "rows must have one value per place, or none");
    return {indptr.data(), places.data(), data.shape(0) ? data.data() : nullptr, indptr.shape(0) - 1};
  }
};

// Flat atoms of many planes; T is const where they are only read.
template <typename Row, typename Value> struct AtomsOf {
  Row *row, *column;
  Value *value;
  std::size_t n;

  static AtomsOf read(nb::handle source) {
    using Rows = nb::ndarray<Row, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    const auto row = array<Rows>(source, "row"), column = array<Rows>(source, "column");
    const auto value = array<nb::ndarray<Value, nb::ndim<1>, nb::c_contig, nb::device::cpu>>(source, "value");
    require_length(value.shape(0), row, column);
    return {row.data(), column.data(), value.data(), value.shape(0)};
  }

  AtomsOf from(Index start) const { return {row + start, column + start, value + start, n - start}; }
};

using Atoms = AtomsOf<const Column, const double>;
using AtomTable = AtomsOf<Column, double>;

// out[g] = x_row · vector at the weights of columns[g]. Four sums at a time: one alone would wait for each addition to
// finish before the next. Entries of the row are read once for all G columns.
template <int G, bool UNIT>
LATENTSTRUCT_INLINE void row_dots(const Rows &rows, Index row, const Column *columns, const double *vector, double *out) {
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

template <int G>
LATENTSTRUCT_INLINE void row_dots(const Rows &rows, Index row, const Column *columns, const double *vector, double *out) {
  if (rows.data) row_dots<G, false>(rows, row, columns, vector, out);
  else row_dots<G, true>(rows, row, columns, vector, out);
}

// x_row · vector at the weights of `column`.
LATENTSTRUCT_INLINE double row_dot(const Rows &rows, Index row, Column column, const double *vector) {
  double product;
  row_dots<1>(rows, row, &column, vector, &product);
  return product;
}

// vector += coefficient · x_row at the weights of `column`.
LATENTSTRUCT_INLINE void row_add(const Rows &rows, Index row, Column column, double coefficient, double *vector) {
  double *shifted = vector + column;
  const std::uint32_t *places = rows.places;
  const double *data = rows.data;
  Index k = rows.indptr[row];
  const Index last = rows.indptr[row + 1];
  const auto step = [&](Index entry) __attribute__((always_inline)) {
    shifted[places[entry]] += data ? coefficient * data[entry] : coefficient;
  };
  for (; k + 4 <= last; k += 4) {
    step(k);
    step(k + 1);
    step(k + 2);
    step(k + 3);
  }
  for (; k < last; ++k) step(k);
}

// products[a] = atom a · vector for n atoms. Neighbors often share their row, as those of the classes of an example do.
template <typename A>
LATENTSTRUCT_INLINE void atom_products(const Rows &rows, const A &atoms, Index n, const double *vector, double *products) {
  for (Index a = 0; a < n;) {
    const Column row = atoms.row[a];
    if (row < 0) {
      products[a] = vector[atoms.column[a]];
      ++a;
    } else if (a + 1 < n && atoms.row[a + 1] == row) {
      row_dots<2>(rows, row, atoms.column + a, vector, products + a);
      a += 2;
    } else {
      row_dots<1>(rows, row, atoms.column + a, vector, products + a);
      ++a;
    }
  }
  for (Index a = 0; a < n; ++a) products[a] *= atoms.value[a];
}

// g · vector for the plane made of n atoms.
template <typename A>
LATENTSTRUCT_INLINE double plane_dot(const Rows &rows, const A &atoms, Index n, const double *vector) {
  double total = 0.0;
  for (Index a = 0; a < n; ++a) {
    const Column row = atoms.row[a], column = atoms.column[a];
    total += atoms.value[a] * (row < 0 ? vector[column] : row_dot(rows, row, column, vector));
  }
  return total;
}

// vector += coefficient · g for the plane made of n atoms.
template <typename A>
LATENTSTRUCT_INLINE void plane_add(const Rows &rows, const A &atoms, Index n, double coefficient, double *vector) {
  for (Index a = 0; a < n; ++a) {
    const double step = coefficient * atoms.value[a];
    if (atoms.row[a] < 0) vector[atoms.column[a]] += step;
    else row_add(rows, atoms.row[a], atoms.column[a], step, vector);
  }
}

// Set `vector` to exact zero wherever the plane made of n atoms may be non-zero.
template <typename A> inline void plane_clear(const Rows &rows, const A &atoms, Index n, double *vector) {
  for (Index a = 0; a < n; ++a) {
    double *shifted = vector + atoms.column[a];
    if (atoms.row[a] < 0) *shifted = 0.0;
    else
      for (Index k = rows.indptr[atoms.row[a]]; k < rows.indptr[atoms.row[a] + 1]; ++k) shifted[rows.places[k]] = 0.0;
  }
}

} // namespace latentstruct
