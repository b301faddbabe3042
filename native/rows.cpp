// Products of selected rows of a CSR matrix with feature-major weights, and their transposes. No data means that all
// values are 1. Row pointers and features were checked when the inputs were prepared.
#include "atoms.hpp"

#include <nanobind/stl/tuple.h>

#include <memory>

using namespace latentstruct;

namespace {

using Indices = In<Index, 1>;
using Vector = In<double, 1>;
using Features = In<std::int32_t, 1>;

// A CSR matrix (n, d), and the rows of it that are selected.
struct Selection {
  const Index *indptr;
  const std::int32_t *features;
  const double *data;
  const Index *selected;
  std::size_t n;

  Selection(const Indices &indptr, const Features &features, const Vector &data, const Indices &selected)
      : indptr(indptr.data()), features(features.data()), data(data.shape(0) ? data.data() : nullptr),
        selected(selected.data()), n(selected.shape(0)) {
    require(data.shape(0) == 0 || data.shape(0) == features.shape(0), "rows must have one value per feature, or none");
    bool inside = indptr.shape(0) > 0;
    for (std::size_t k = 0; k < n; ++k) inside &= static_cast<std::size_t>(selected(k)) < indptr.shape(0) - 1;
    require(inside, "selected rows must exist");
  }
  double value(Index entry) const { return data ? data[entry] : 1.0; }
};

// Sums of W labels at a time stay in registers; each label's terms are added in the order of the row's entries.
template <int W>
LATENTSTRUCT_INLINE void times_block(const Selection &rows, Index row, const double *weights, std::size_t n_labels, double *out) {
  double sums[W] = {};
  for (Index entry = rows.indptr[row]; entry < rows.indptr[row + 1]; ++entry) {
    const double value = rows.value(entry), *chosen = weights + rows.features[entry] * n_labels;
    for (int j = 0; j < W; ++j) sums[j] += value * chosen[j];
  }
  for (int j = 0; j < W; ++j) out[j] = sums[j];
}

LATENTSTRUCT_CLONES void times(const Selection &rows, const double *weights, std::size_t n_labels, double *out) {
  for (std::size_t k = 0; k < rows.n; ++k, out += n_labels) {
    const Index row = rows.selected[k];
    std::size_t label = 0;
    for (; label + 16 <= n_labels; label += 16) times_block<16>(rows, row, weights + label, n_labels, out + label);
    for (; label + 8 <= n_labels; label += 8) times_block<8>(rows, row, weights + label, n_labels, out + label);
    for (; label + 4 <= n_labels; label += 4) times_block<4>(rows, row, weights + label, n_labels, out + label);
    for (; label < n_labels; ++label) times_block<1>(rows, row, weights + label, n_labels, out + label);
  }
}

LATENTSTRUCT_CLONES void add_transposed(const Selection &rows, const double *coefficients, std::size_t n_labels, double *out) {
  for (std::size_t k = 0; k < rows.n; ++k, coefficients += n_labels) {
    for (Index entry = rows.indptr[rows.selected[k]]; entry < rows.indptr[rows.selected[k] + 1]; ++entry) {
      const double value = rows.value(entry);
      double *__restrict sums = out + rows.features[entry] * n_labels;
      for (std::size_t label = 0; label < n_labels; ++label) sums[label] += value * coefficients[label];
    }
  }
}

// out[k] = x_{selected[k]} W; weights is (d, S), out is (k, S).
void rows_times_weights(Indices indptr, Features features, Vector data, Indices selected, In<double, 2> weights,
                        Out<double, 2> out) {
  require_length(selected.shape(0), out);
  require(weights.shape(1) == out.shape(1), "weights and out must have as many columns");
  times(Selection(indptr, features, data, selected), weights.data(), weights.shape(1), out.data());
}

// out += Σ_k x_{selected[k]}ᵀ coefficients[k]; coefficients is (k, S), out is (d, S).
void add_rows_transposed(Indices indptr, Features features, Vector data, Indices selected, In<double, 2> coefficients,
                         Out<double, 2> out) {
  require_length(selected.shape(0), coefficients);
  require(coefficients.shape(1) == out.shape(1), "coefficients and out must have as many columns");
  add_transposed(Selection(indptr, features, data, selected), coefficients.data(), out.shape(1), out.data());
}

// out[k] = x_{selected[k]} · vector.
void rows_dot(Rows rows, Indices selected, Vector vector, Out<double, 1> out) {
  require_length(selected.shape(0), out);
  for (std::size_t k = 0; k < selected.shape(0); ++k) {
    require(static_cast<std::size_t>(selected(k)) < rows.n, "selected rows must exist");
    const Column column = 0;
    dot_row(rows, selected(k), &column, 1, vector.data(), &out(k));
  }
}

// Row pointers, features and values of the entries of a dense matrix that are not zero; no values if all are 1.
auto compress_matrix(In<double, 2> matrix) {
  const std::size_t n = matrix.shape(0), width = matrix.shape(1);
  std::size_t size = 0;
  bool unit = true;
  for (std::size_t k = 0; k < n * width; ++k) size += matrix.data()[k] != 0.0;
  auto indptr = std::make_unique<Index[]>(n + 1);
  // One entry more than is kept: zeros are written too, and overwritten by what follows.
  auto features = std::make_unique<std::int32_t[]>(size + 1);
  auto data = std::make_unique<double[]>(size + 1);
  std::size_t end = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double *row = matrix.data() + i * width;
    for (std::size_t j = 0; j < width; ++j) {
      features[end] = static_cast<std::int32_t>(j);
      data[end] = row[j];
      unit &= (row[j] == 0.0) | (row[j] == 1.0);
      end += row[j] != 0.0;
    }
    indptr[i + 1] = static_cast<Index>(end);
  }
  return std::tuple(owned(indptr.release(), {n + 1}), owned(features.release(), {size}), owned(data.release(), {unit ? 0 : size}));
}

} // namespace

NB_MODULE(rows, m) {
  m.def("compress_matrix", compress_matrix, nb::arg().noconvert());
  bind(m, "rows_times_weights", rows_times_weights);
  bind(m, "add_rows_transposed", add_rows_transposed);
  bind(m, "rows_dot", rows_dot);
}
