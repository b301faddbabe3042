// exp and log that give the same bits on every processor, and that compilers can vectorize. libm chooses other code by
// processor. Errors are below 1.1 units in the last place.
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

// Inlined into each compiled variant of its caller, and vectorized there. All that a clone calls needs this: a function
// that is not inlined exists once, for the oldest processors.
#define LATENTSTRUCT_INLINE inline __attribute__((always_inline))

// In front of loops whose iterations touch different entries, which compilers cannot know of pointers. GCC would unroll
// those of constant length before it looks for vectors.
#if defined(__clang__)
#define LATENTSTRUCT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LATENTSTRUCT_INDEPENDENT _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#endif

namespace latentstruct {

constexpr double INFINITE = std::numeric_limits<double>::infinity();

LATENTSTRUCT_INLINE double finite_or_zero(double value) { return value > -INFINITE ? value : 0.0; }

// e^x; 0 below the least normal result, infinity above the largest.
LATENTSTRUCT_INLINE double exp_of(double x) {
  constexpr double inverse_ln2 = 1.4426950408889634074, ln2_high = 6.93147180369123816490e-01,
                   ln2_low = 1.90821492927058770002e-10, shift = 6755399441055744.0;
  double bounded = x < -708.0 ? -708.0 : x;
  bounded = bounded > 709.0 ? 709.0 : bounded;
  const double shifted = bounded * inverse_ln2 + shift;
  const double k = shifted - shift;
  const double r = (bounded - k * ln2_high) - k * ln2_low;
  // e^r = 1 + r + r^2 q(r), |r| <= ln(2)/2, with q fitted at Chebyshev nodes; pairs of terms, which do not wait for
  // each other.
  const double r2 = r * r, r4 = r2 * r2;
  const double q0 = (0.5000000000000001 + 0.16666666666666669 * r) + r2 * (0.041666666666624164 + 0.008333333333330065 * r);
  const double q4 =
      (0.0013888888917196719 + 0.00019841269863040545 * r) + r2 * (2.4801521322368692e-05 + 2.7557268480310024e-06 * r);
  const double q = q0 + r4 * (q4 + r4 * (2.7620075879983367e-07 + 2.5100375832561234e-08 * r));
  const double p = 1.0 + (r + r2 * q);
  const std::uint64_t exponent = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52;
  const double result = p * std::bit_cast<double>(exponent);
  double chosen = x < -708.0 ? 0.0 : result;
  chosen = x > 709.0 ? INFINITE : chosen;
  return x != x ? x : chosen;
}

// log x for x >= 0; -infinity at 0.
LATENTSTRUCT_INLINE double log_of(double x) {
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
  // log(1 + f) = 2 artanh(s) = 2s (1 + z p(z)), with p fitted at Chebyshev nodes.
  const double z2 = z * z;
  const double p = ((0.3333333333333335 + 0.19999999999949752 * z) + z2 * (0.14285714312987743 + 0.1111110556739754 * z)) +
                   z2 * z2 * ((0.09091444562630861 + 0.07665860800278021 * z) + z2 * 0.07308224842521703);
  const double half_square = 0.5 * f * f;
  // 2s (1 + z p) = f - f^2/2 + s (f^2/2 + 2 z p)
  const double rest = s * (half_square + 2.0 * z * p);
  // k as a double, by its place among the low bits of 1.5·2^52: conversions do not vectorize everywhere.
  const double e = std::bit_cast<double>(std::bit_cast<std::int64_t>(6755399441055744.0) + k) - 6755399441055744.0;
  const double result = e * ln2_high + (f - (half_square - (rest + e * ln2_low)));
  double chosen = x == 0.0 ? -INFINITE : result;
  chosen = x == INFINITE ? INFINITE : chosen;
  return x != x || x < 0.0 ? std::numeric_limits<double>::quiet_NaN() : chosen;
}

// The largest of n >= 1 numbers value(k), in an order that compilers can vectorize.
template <typename Value> LATENTSTRUCT_INLINE double highest_of(std::int64_t n, Value value) {
  double lanes[8];
  for (auto &lane : lanes) lane = value(0);
  std::int64_t k = 0;
  for (; k + 8 <= n; k += 8)
    for (int j = 0; j < 8; ++j) {
      const double own = value(k + j);
      lanes[j] = own > lanes[j] ? own : lanes[j];
    }
  for (; k < n; ++k) lanes[0] = value(k) > lanes[0] ? value(k) : lanes[0];
  double best = lanes[0];
  for (int j = 1; j < 8; ++j) best = lanes[j] > best ? lanes[j] : best;
  return best;
}
LATENTSTRUCT_INLINE double largest(const double *values, std::size_t n) {
  return highest_of(static_cast<std::int64_t>(n), [=](std::int64_t k) __attribute__((always_inline)) { return values[k]; });
}

// The first k of the largest value(k), 0 if that is NaN.
template <typename Value> LATENTSTRUCT_INLINE std::int64_t first_highest(std::int64_t n, Value value) {
  const double best = highest_of(n, value);
  std::int64_t k = 0;
  while (k < n && value(k) != best) ++k;
  return k < n ? k : 0;
}

// A sum in the fixed order of eight lanes.
LATENTSTRUCT_INLINE double sum_of(const double *values, std::size_t n) {
  double lanes[8] = {};
  std::size_t k = 0;
  for (; k + 8 <= n; k += 8)
    for (std::size_t j = 0; j < 8; ++j) lanes[j] += values[k + j];
  for (std::size_t j = 0; k < n; ++k, ++j) lanes[j] += values[k];
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

} // namespace latentstruct
