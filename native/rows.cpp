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

// Which labels features have weights for, see the Python class SeenPairs: feature f has the weights at[f] … at[f + 1] - 1,
// which are those of labels[k]. Features with all S labels have them in their order.
struct Pairs {
  const Index *at;
  const std::int32_t *labels;
  Index size;
  std::size_t features;

  static Pairs read(const Fields &fields) {
    const auto at = fields.array<Indices>(0);
    const auto labels = fields.array<In<std::int32_t, 1>>(1);
    require(at.shape(0) > 0, "pairs must have offsets");
    return {at.data(), labels.data(), static_cast<Index>(labels.shape(0)), at.shape(0) - 1};
  }
  // Require that pairs are of labels below n, and that there is a weight for each.
  void check(std::size_t n, std::size_t weights) const {
    bool valid = at[0] == 0 && at[features] == size;
    for (std::size_t f = 0; f < features; ++f) valid &= at[f] <= at[f + 1];
    for (Index k = 0; k < size; ++k) valid &= labels[k] >= 0 && labels[k] < static_cast<std::int32_t>(n);
    require(valid, "pairs must have labels below S");
    require(weights == static_cast<std::size_t>(size), "there must be one weight per pair");
  }
  LATENTSTRUCT_INLINE bool full(Index feature, std::size_t n) const {
    return static_cast<std::size_t>(at[feature + 1] - at[feature]) == n;
  }
};

// out[k] = x_{selected[k]} W for weights of some pairs of a feature and a label, the others are 0.
LATENTSTRUCT_CLONES void rows_times_pairs(SparseRows rows, Indices selected, Pairs pairs, Vector weights,
                                          Out<double, 2> out) {
  const std::size_t n = out.shape(1);
  pairs.check(n, weights.shape(0));
  require_rows(selected, rows.n);
  require_length(selected.shape(0), out);
  // The entries of a row whose features have all labels, whose sums stay in registers, and the other ones.
  std::size_t longest = 0;
  for (std::size_t r = 0; r < rows.n; ++r) longest = std::max<std::size_t>(longest, rows.pointers[r + 1] - rows.pointers[r]);
  std::vector<Entry> full(longest);
  std::vector<Index> others(longest);
  for (std::size_t k = 0; k < selected.shape(0); ++k) {
    double *__restrict sums = out.data() + k * n;
    Index n_full = 0, n_others = 0;
    for (Index entry = rows.pointers[selected(k)]; entry < rows.pointers[selected(k) + 1]; ++entry) {
      const Index feature = rows.features[entry];
      const bool whole = pairs.full(feature, n);
      full[n_full] = {weights.data() + pairs.at[feature], rows.value(entry)};
      others[n_others] = entry;
      n_full += whole;
      n_others += !whole;
    }
    sum_entries(0, n_full, n, sums, [&](Index at) { return full[at]; });
    for (Index at = 0; at < n_others; ++at) {
      const Index feature = rows.features[others[at]], last = pairs.at[feature + 1];
      const double value = rows.value(others[at]);
      for (Index j = pairs.at[feature]; j < last; ++j) sums[pairs.labels[j]] += value * weights(j);
    }
  }
}

// out += the entries of Σ_k x_{selected[k]}ᵀ coefficients[k] of these pairs.
LATENTSTRUCT_CLONES void add_pairs_transposed(SparseRows rows, Indices selected, Pairs pairs,
                                              In<double, 2> coefficients, Values out) {
  const std::size_t n = coefficients.shape(1), whole = n / WIDTH * WIDTH;
  pairs.check(n, out.shape(0));
  require_rows(selected, rows.n);
  require_length(selected.shape(0), coefficients);
  for (std::size_t k = 0; k < selected.shape(0); ++k) {
    const double *__restrict own = coefficients.data() + k * n;
    for (Index entry = rows.pointers[selected(k)]; entry < rows.pointers[selected(k) + 1]; ++entry) {
      const Index first = pairs.at[rows.features[entry]], last = pairs.at[rows.features[entry] + 1];
      const double value = rows.value(entry);
      double *__restrict sums = out.data() + first;
      if (static_cast<std::size_t>(last - first) < n) {
        for (Index j = first; j < last; ++j) sums[j - first] += value * own[pairs.labels[j]];
        continue;
      }
      for (std::size_t y = 0; y < whole; y += WIDTH) lanes(sums + y) = load(sums + y) + value * load(own + y);
      for (std::size_t y = whole; y < n; ++y) sums[y] += value * own[y];
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

LATENTSTRUCT_MODULE(rows, compress_matrix, rows_times_weights, add_rows_transposed, rows_dot, rows_times_pairs,
                    add_pairs_transposed)
