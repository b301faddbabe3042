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

// C vectors of Σ x_e W over the entries between two bounds, from `place` on. The last vector ends with the row, so that it overlaps the one before it and no
// number beyond the weights is read.
template <int C>
LATENTSTRUCT_INLINE void times_weights_block(const SparseRows &rows, const Index *bounds, const double *weights, std::size_t n,
                                             std::size_t place, double *out) {
  Lanes sums[C];
  std::size_t places[C];
  for (int c = 0; c < C; ++c) {
    places[c] = std::min(place + c * WIDTH, n - WIDTH);
    sums[c] = all_lanes(0.0);
  }
  for (Index entry = bounds[0]; entry < bounds[1]; ++entry) {
    const double value = rows.value(entry);
    const double *chosen = weights + static_cast<std::size_t>(rows.features[entry]) * n;
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sums[c] += value * load(chosen + places[c]);
  }
  for (int c = 0; c < C; ++c) lanes(out + places[c]) = sums[c];
}

// out = Σ x_e W over the entries between two bounds, shape (S,).
LATENTSTRUCT_INLINE void row_times_weights(const SparseRows &rows, const Index *bounds, const double *weights, std::size_t n,
                                           double *out) {
  if (n < WIDTH) {
    double sums[WIDTH] = {};
    for (Index entry = bounds[0]; entry < bounds[1]; ++entry) {
      const double value = rows.value(entry);
      const double *chosen = weights + static_cast<std::size_t>(rows.features[entry]) * n;
      for (std::size_t y = 0; y < n; ++y) sums[y] += value * chosen[y];
    }
    std::copy_n(sums, n, out);
    return;
  }
  std::size_t place = 0;
  for (; place + 4 * WIDTH <= n; place += 4 * WIDTH) times_weights_block<4>(rows, bounds, weights, n, place, out);
  switch ((n - place + WIDTH - 1) / WIDTH) {
  case 4: times_weights_block<4>(rows, bounds, weights, n, place, out); break;
  case 3: times_weights_block<3>(rows, bounds, weights, n, place, out); break;
  case 2: times_weights_block<2>(rows, bounds, weights, n, place, out); break;
  case 1: times_weights_block<1>(rows, bounds, weights, n, place, out); break;
  default: break;
  }
}

} // namespace latentstruct
