// Rows of numbers padded to whole vectors, and small products of them over (+, ·) and (max, +).
#pragma once
#include "domains.hpp"

namespace latentstruct {

// A growing workspace of padded rows, aligned to vectors.
class Table {
  struct alignas(8 * WIDTH) Block {
    double numbers[WIDTH];
  };
  std::vector<Block> blocks;

public:
  std::size_t width = 0;
  Table() = default;
  Table(std::size_t rows, std::size_t width) : width(width) { reserve(rows); }
  // Allocate a number of rows; existing ones are kept.
  void reserve(std::size_t rows) {
    if (rows * width > blocks.size() * WIDTH) blocks.resize(rows * width / WIDTH);
  }
  double *operator[](std::size_t row) { return reinterpret_cast<double *>(blocks.data()) + row * width; }
  const double *operator[](std::size_t row) const { return reinterpret_cast<const double *>(blocks.data()) + row * width; }
};

// Copy rows of n numbers to padded ones. Whole vectors are read where they end inside of the rows.
LATENTSTRUCT_INLINE void pad_rows(const double *rows, std::size_t count, std::size_t n, double padding, double *out) {
  const std::size_t width = padded(n), size = count * n;
  for (std::size_t t = 0; t < count; ++t, rows += n, out += width) {
    if (t * n + width <= size)
      for (std::size_t y = 0; y < width; y += WIDTH) lanes(out + y) = load(rows + y);
    else
      for (std::size_t y = 0; y < n; ++y) out[y] = rows[y];
    for (std::size_t y = n; y < width; ++y) out[y] = padding;
  }
}

// Copy padded rows times a factor to rows of n numbers; what a vector writes beyond its row, the next row overwrites.
LATENTSTRUCT_INLINE void trim_rows(const double *rows, std::size_t count, std::size_t n, double factor, double *out) {
  const std::size_t width = padded(n), size = count * n;
  for (std::size_t t = 0; t < count; ++t, rows += width, out += n) {
    if (t * n + width <= size)
      for (std::size_t y = 0; y < width; y += WIDTH) lanes(out + y) = factor * load(rows + y);
    else
      for (std::size_t y = 0; y < n; ++y) out[y] = factor * rows[y];
  }
}

// The coefficients of R x K products, by the distances of their rows and columns.
struct Coefficients {
  const double *data;
  std::size_t row, column;
};

// R rows and C vectors of a product, in registers; finish(row, place of the vector, result) takes the results.
//
// With few sums, two partial sums of each alternate, so that additions need not wait for each other.
template <typename S, int R, int C, typename Finish>
LATENTSTRUCT_INLINE void multiply_block(Coefficients left, std::size_t count, const double *right, std::size_t width,
                                        std::size_t place, Finish finish) {
  constexpr int U = R * C > 4 ? 1 : 2;
  Lanes sums[U][R][C];
  for (auto &some : sums)
    for (auto &row : some)
      for (auto &sum : row) sum = all_lanes(S::zero);
  const auto add = [&](int u, std::size_t k) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const double coefficient = left.data[r * left.row + k * left.column];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        sums[u][r][c] = S::sum(S::times(all_lanes(coefficient), load(right + k * width + c * WIDTH)), sums[u][r][c]);
    }
  };
  std::size_t k = 0;
  for (; k + U <= count; k += U) {
    add(0, k);
    if constexpr (U > 1) add(1, k + 1);
  }
  if (k < count) add(0, k);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      if constexpr (U > 1) sums[0][r][c] = S::sum(sums[0][r][c], sums[1][r][c]);
      finish(r, place + c * WIDTH, sums[0][r][c]);
    }
}

// finish(row, place, vector) of all vectors of R rows of a product with `count` padded rows.
//
// Blocks of many maxima are narrow, as their comparisons take registers, too.
template <typename S, int R, typename Finish>
LATENTSTRUCT_INLINE void multiply_rows(Coefficients left, std::size_t count, const double *right, std::size_t width,
                                       Finish finish) {
  constexpr int C = R > 1 && std::is_same_v<S, Hard> ? 2 : 4;
  std::size_t place = 0;
  for (; place + C * WIDTH <= width; place += C * WIDTH)
    multiply_block<S, R, C>(left, count, right + place, width, place, finish);
  const auto rest = [&]<int N>() __attribute__((always_inline)) {
    if constexpr (N < C)
      if ((width - place) / WIDTH == N) multiply_block<S, R, N>(left, count, right + place, width, place, finish);
  };
  rest.template operator()<3>(), rest.template operator()<2>(), rest.template operator()<1>();
}

// out = left·right, one row or four at a time: both must have memory for a number of rows that 4 divides if it is not 1.
template <typename S>
LATENTSTRUCT_INLINE void multiply(Coefficients left, std::size_t rows, std::size_t count, const double *right,
                                  std::size_t width, double *out) {
  const auto store = [&](int r, std::size_t place, const Lanes &sums) __attribute__((always_inline)) {
    lanes(out + r * width + place) = sums;
  };
  if (rows == 1) return multiply_rows<S, 1>(left, count, right, width, store);
  for (std::size_t r = 0; r < rows; r += 4, left.data += 4 * left.row, out += 4 * width)
    multiply_rows<S, 4>(left, count, right, width, store);
}

[[maybe_unused]] LATENTSTRUCT_CLONES static void sum_products(Coefficients left, std::size_t rows, std::size_t count,
                                                              const double *right, std::size_t width, double *out) {
  multiply<Linear>(left, rows, count, right, width, out);
}

[[maybe_unused]] LATENTSTRUCT_CLONES static void max_sums(Coefficients left, std::size_t rows, std::size_t count,
                                                          const double *right, std::size_t width, double *out) {
  multiply<Hard>(left, rows, count, right, width, out);
}

// Pool the columns of message[z] + matrix[z, y] over z at ε > 0: exps[z, y] are exponentials against the largest of
// the column, totals[y] their sums, and pooled[y] the pooled values. If nothing is allowed in a column (all -inf) its
// value is -inf and its total 0.
[[maybe_unused]] LATENTSTRUCT_CLONES static void pool_sums(const double *message, std::size_t count, const double *matrix,
                                                           std::size_t width, double temperature, double *exps,
                                                           double *totals, double *pooled) {
  max_sums({message, 0, 1}, 1, count, matrix, width, pooled);
  for (std::size_t y = 0; y < width; y += WIDTH) {
    const Lanes found = load(pooled + y), high = found > -INFINITE ? found : all_lanes(0.0);
    for (std::size_t z = 0; z < count; ++z)
      lanes(exps + z * width + y) = (message[z] + load(matrix + z * width + y)) - high;
  }
  for (std::size_t k = 0; k < count * width; ++k) exps[k] = exp_of(exps[k] / temperature);
  for (std::size_t y = 0; y < width; y += WIDTH) {
    Lanes sums = all_lanes(0.0);
    for (std::size_t z = 0; z < count; ++z) sums += load(exps + z * width + y);
    lanes(totals + y) = sums;
  }
  for (std::size_t y = 0; y < width; ++y) pooled[y] += temperature * log_of(totals[y]);
}

} // namespace latentstruct
