// exp and log that give the same bits on every processor, and that compilers can vectorize. libm chooses other code by
// processor. Relative errors are below 3 units in the last place.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

// Compiled for several instruction sets, chosen when the module is loaded; the results do not depend on which.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define LATENTSTRUCT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LATENTSTRUCT_CLONES
#endif

namespace latentstruct {

constexpr double INFINITE = std::numeric_limits<double>::infinity();

// e^x; 0 below the least normal result, infinity above the largest.
inline double exp_of(double x) {
  constexpr double inverse_ln2 = 1.4426950408889634074, ln2_high = 6.93147180369123816490e-01,
                   ln2_low = 1.90821492927058770002e-10, shift = 6755399441055744.0;
  double bounded = x < -708.0 ? -708.0 : x;
  bounded = bounded > 709.0 ? 709.0 : bounded;
  const double shifted = bounded * inverse_ln2 + shift;
  const double k = shifted - shift;
  const double r = (bounded - k * ln2_high) - k * ln2_low;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r * r + r + 1.0;
  const std::uint64_t exponent = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52;
  const double result = p * std::bit_cast<double>(exponent);
  double chosen = x < -708.0 ? 0.0 : result;
  chosen = x > 709.0 ? INFINITE : chosen;
  return x != x ? x : chosen;
}

// log x for x >= 0; -infinity at 0.
inline double log_of(double x) {
  constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  const bool small = x < 2.2250738585072014e-308;
  const double scaled = small ? x * 18014398509481984.0 : x;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(scaled);
  std::int64_t k = static_cast<std::int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  const bool large = m > 1.4142135623730951;
  m = large ? 0.5 * m : m;
  k += large ? 1 : 0;
  k -= small ? 54 : 0;
  const double f = m - 1.0, s = f / (2.0 + f), z = s * s;
  double p = 1.0 / 23.0;
  p = p * z + 1.0 / 21.0;
  p = p * z + 1.0 / 19.0;
  p = p * z + 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  const double half_square = 0.5 * f * f;
  // log(1 + f) = f - f^2/2 + s (f^2/2 + 2 z p)
  const double rest = s * (half_square + 2.0 * z * p);
  // k as a double, by its place among the low bits of 1.5·2^52: conversions do not vectorize everywhere.
  const double e = std::bit_cast<double>(std::bit_cast<std::int64_t>(6755399441055744.0) + k) - 6755399441055744.0;
  const double result = e * ln2_high + (f - (half_square - (rest + e * ln2_low)));
  double chosen = x == 0.0 ? -INFINITE : result;
  chosen = x == INFINITE ? INFINITE : chosen;
  return x != x || x < 0.0 ? std::numeric_limits<double>::quiet_NaN() : chosen;
}

// The largest of n >= 1 numbers, in an order that compilers can vectorize.
inline double largest(const double *values, std::size_t n) {
  double lanes[8];
  for (auto &lane : lanes) lane = values[0];
  std::size_t k = 0;
  for (; k + 8 <= n; k += 8)
    for (std::size_t j = 0; j < 8; ++j) lanes[j] = values[k + j] > lanes[j] ? values[k + j] : lanes[j];
  for (; k < n; ++k) lanes[0] = values[k] > lanes[0] ? values[k] : lanes[0];
  double best = lanes[0];
  for (std::size_t j = 1; j < 8; ++j) best = lanes[j] > best ? lanes[j] : best;
  return best;
}

// A sum in the fixed order of eight lanes.
inline double sum_of(const double *values, std::size_t n) {
  double lanes[8] = {};
  std::size_t k = 0;
  for (; k + 8 <= n; k += 8)
    for (std::size_t j = 0; j < 8; ++j) lanes[j] += values[k + j];
  for (std::size_t j = 0; k < n; ++k, ++j) lanes[j] += values[k];
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

} // namespace latentstruct
