// Products of selected rows of a CSR matrix with feature-major weights, and their transposes. Row pointers and features were checked when the inputs were prepared.
#include "atoms.hpp"
#include "sparse_rows.hpp"

#include <nanobind/stl/tuple.h>

using namespace latentstruct;

namespace {
void require_rows(const Indices &selected, std::size_t n) {
  bool inside = true;
  for (std::size_t k = 0; k < selected.shape(0); ++k) inside &= static_cast<std::size_t>(selected(k)) < n;
  require(inside, "selected rows must exist");
}

// out[k] = x_{selected[k]} W; weights is (d, S), out is (k, S).
LATENTSTRUCT_CLONES void rows_times_weights(SparseRows rows, Indices selected, In<double, 2> weights, Out<double, 2> out) {
  require_rows(selected, rows.n);
  require_length(selected.shape(0), out);
  require(weights.shape(1) == out.shape(1), "weights and out must have as many columns");
  const std::size_t n = weights.shape(1);
  for (std::size_t k = 0; k < selected.shape(0); ++k) row_times_weights(rows, selected(k), weights.data(), n, out.data() + k * n);
}

// out += Σ_k x_{selected[k]}ᵀ coefficients[k]; coefficients is (k, S), out is (d, S).
LATENTSTRUCT_CLONES void add_rows_transposed(SparseRows rows, Indices selected, In<double, 2> coefficients, Out<double, 2> out) {
  require_rows(selected, rows.n);
  require_length(selected.shape(0), coefficients);
  require(coefficients.shape(1) == out.shape(1), "coefficients and out must have as many columns");
  const std::size_t n = out.shape(1);
  for (std::size_t k = 0; k < selected.shape(0); ++k) {
    const double *own = coefficients.data() + k * n;
    for (Index entry = rows.pointers[selected(k)]; entry < rows.pointers[selected(k) + 1]; ++entry) {
      const double value = rows.value(entry);
      double *__restrict sums = out.data() + rows.features[entry] * n;
      for (std::size_t label = 0; label < n; ++label) sums[label] += value * own[label];
    }
  }
}

// out[k] = x_{selected[k]} · vector.
void rows_dot(Rows rows, Indices selected, Vector vector, Values out) {
  require_rows(selected, rows.n);
  require_length(selected.shape(0), out);
  const Column column = 0;
  for (std::size_t k = 0; k < selected.shape(0); ++k) dot_row(rows, selected(k), &column, 1, vector.data(), &out(k));
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
  return std::tuple(New<Index>{std::move(indptr), {n + 1}}, New<std::int32_t>{std::move(features), {size}},
                    New<double>{std::move(data), {unit ? 0 : size}});
}

} // namespace

LATENTSTRUCT_MODULE(rows, compress_matrix, rows_times_weights, add_rows_transposed, rows_dot)
