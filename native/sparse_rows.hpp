// Products of sparse rows with feature-major weights (d, S).
#pragma once
#include "arrays.hpp"
#include "padded_rows.hpp"

namespace latentstruct {

// A CSR matrix by its row pointers, features and values; no values if all are 1. Features were checked with the batch.
struct SparseRows {
  const Index *pointers;
  const std::int32_t *features;
  const double *values;
  std::size_t n;

  static SparseRows read(const Fields &fields) {
    const auto pointers = fields.array<Indices>(0);
    const auto features = fields.array<In<std::int32_t, 1>>(1);
    const auto values = fields.array<Vector>(2);
    const std::size_t size = features.shape(0);
    require(pointers.shape(0) > 0 && pointers(pointers.shape(0) - 1) <= static_cast<Index>(size), "rows must end inside");
    require(values.shape(0) == 0 || values.shape(0) == size, "rows must have one value per feature, or none");
    return {pointers.data(), features.data(), values.shape(0) ? values.data() : nullptr, pointers.shape(0) - 1};
  }

  LATENTSTRUCT_INLINE double value(Index entry) const { return values ? values[entry] : 1.0; }
};

// A row of weights, and its factor.
struct Entry {
  const double *weights;
  double value;
};

// C vectors of the sum of the entries read(begin) … read(end - 1), from `place` on. The last vector ends with the row, so
// that it overlaps the one before it and no number beyond the weights is read.
template <int C, typename F>
LATENTSTRUCT_INLINE void sum_block(Index begin, Index end, std::size_t n, std::size_t place, double *out, F read) {
  Lanes sums[C];
  std::size_t places[C];
  for (int c = 0; c < C; ++c) {
    places[c] = std::min(place + c * WIDTH, n - WIDTH);
    sums[c] = all_lanes(0.0);
  }
  for (Index at = begin; at < end; ++at) {
    const Entry entry = read(at);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sums[c] += entry.value * load(entry.weights + places[c]);
  }
  for (int c = 0; c < C; ++c) lanes(out + places[c]) = sums[c];
}

// out = the sum of the entries read(begin) … read(end - 1), shape (S,).
template <typename F>
LATENTSTRUCT_INLINE void sum_entries(Index begin, Index end, std::size_t n, double *out, F read) {
  if (n < WIDTH) {
    double sums[WIDTH] = {};
    for (Index at = begin; at < end; ++at) {
      const Entry entry = read(at);
      for (std::size_t y = 0; y < n; ++y) sums[y] += entry.value * entry.weights[y];
    }
    std::copy_n(sums, n, out);
    return;
  }
  std::size_t place = 0;
  for (; place + 4 * WIDTH <= n; place += 4 * WIDTH) sum_block<4>(begin, end, n, place, out, read);
  switch ((n - place + WIDTH - 1) / WIDTH) {
  case 4: sum_block<4>(begin, end, n, place, out, read); break;
  case 3: sum_block<3>(begin, end, n, place, out, read); break;
  case 2: sum_block<2>(begin, end, n, place, out, read); break;
  case 1: sum_block<1>(begin, end, n, place, out, read); break;
  default: break;
  }
}

// out = x_row W for weights (d, S), shape (S,).
LATENTSTRUCT_INLINE void row_times_weights(const SparseRows &rows, Index row, const double *weights, std::size_t n, double *out) {
  sum_entries(rows.pointers[row], rows.pointers[row + 1], n, out, [&](Index entry) {
    return Entry{weights + static_cast<std::size_t>(rows.features[entry]) * n, rows.value(entry)};
  });
}

} // namespace latentstruct
