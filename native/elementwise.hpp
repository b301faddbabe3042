// exp and log of arrays in place, and their products. Loops that do nothing else are vectorized reliably, within larger functions they are not.
#pragma once
#include "functions.hpp"

namespace latentstruct {

// values = exp(values / temperature).
[[maybe_unused]] LATENTSTRUCT_CLONES static void exp_each(double *values, std::size_t n, double temperature = 1.0) {
  for (std::size_t k = 0; k < n; ++k) values[k] = exp_of(values[k] / temperature);
}

// values = log(values).
[[maybe_unused]] LATENTSTRUCT_CLONES static void log_each(double *values, std::size_t n) {
  for (std::size_t k = 0; k < n; ++k) values[k] = log_of(values[k]);
}

// logs = temperature·log(values) for n divisible by 4; return the largest change. NaN, from -inf to -inf, is no change.
[[maybe_unused]] LATENTSTRUCT_CLONES static double renew_logs(const double *__restrict values, std::size_t n, double temperature,
                                                              double *__restrict logs) {
  double lanes[8] = {};
  const auto renew = [&](std::size_t k, std::size_t j) __attribute__((always_inline)) {
    const double renewed = temperature * log_of(values[k + j]), change = std::abs(renewed - logs[k + j]);
    lanes[j] = change > lanes[j] ? change : lanes[j];
    logs[k + j] = renewed;
  };
  std::size_t k = 0;
  for (; k + 8 <= n; k += 8)
    for (std::size_t j = 0; j < 8; ++j) renew(k, j);
  if (k < n)
    for (std::size_t j = 0; j < 4; ++j) renew(k, j);
  return largest(lanes, 8);
}

// Σ a·b.
[[maybe_unused]] LATENTSTRUCT_CLONES static double dot(const double *a, const double *b, std::size_t n) {
  double lanes[8] = {};
  std::size_t k = 0;
  for (; k + 8 <= n; k += 8)
    for (std::size_t j = 0; j < 8; ++j) lanes[j] += a[k + j] * b[k + j];
  for (std::size_t j = 0; k < n; ++k, ++j) lanes[j] += a[k] * b[k];
  return sum_of(lanes, 8);
}

} // namespace latentstruct
