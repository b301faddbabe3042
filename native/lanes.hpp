// Recurrences over arrays, eight steps at a time in a fixed order, so that results do not depend on the processor.
#pragma once
#include "arrays.hpp"
#include "elementwise.hpp"

#include <cstring>
#include <type_traits>

#if defined(__GNUC__) && !defined(__clang__)
// How lanes would be passed to functions does not matter, as all that take them are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace latentstruct {

using Lanes = double __attribute__((vector_size(64)));
constexpr Index LANES = 8;

// n rounded up to whole lanes.
constexpr Index padded(Index n) { return (n + LANES - 1) / LANES * LANES; }

LATENTSTRUCT_INLINE void load(const double *from, Lanes &x) { std::memcpy(&x, from, sizeof x); }
LATENTSTRUCT_INLINE void store(const Lanes &x, double *to) { std::memcpy(to, &x, sizeof x); }

// x moved up by K lanes, with the last lanes of `fill` below it.
template <int K> LATENTSTRUCT_INLINE void shift(const Lanes &x, const Lanes &fill, Lanes &out) {
  out = __builtin_shufflevector(fill, x, 8 - K, 9 - K, 10 - K, 11 - K, 12 - K, 13 - K, 14 - K, 15 - K);
}

LATENTSTRUCT_INLINE void reverse(Lanes &x) { x = __builtin_shufflevector(x, x, 7, 6, 5, 4, 3, 2, 1, 0); }

// y_j = x_j + r_j·y_{j-1}, or, if not FORWARD, x_j + r_j·y_{j+1}, for n divisible by 8 and y = 0 before the first.
//
// S has + and · with their neutral elements zero and one; read(j, x, r) gives eight entries from j on, write(j, y)
// takes them. Each pass joins the affine maps of twice as many steps.
template <typename S, bool FORWARD = true, typename Read, typename Write>
LATENTSTRUCT_INLINE void scan(Index n, Read read, Write write) {
  const Lanes zero = Lanes{} + S::zero, one = Lanes{} + S::one;
  Lanes carry = zero, x, ratio, moved;
  for (Index done = 0; done < n; done += LANES) {
    const Index j = FORWARD ? done : n - LANES - done;
    read(j, x, ratio);
    if constexpr (!FORWARD) reverse(x), reverse(ratio);
    const auto join = [&]<int K>(std::integral_constant<int, K>) __attribute__((always_inline)) {
      shift<K>(x, zero, moved);
      x = S::sum(x, S::times(moved, ratio));
      shift<K>(ratio, one, moved);
      ratio = S::times(ratio, moved);
    };
    join(std::integral_constant<int, 1>());
    join(std::integral_constant<int, 2>());
    join(std::integral_constant<int, 4>());
    x = S::sum(x, S::times(carry, ratio));
    carry = __builtin_shufflevector(x, x, 7, 7, 7, 7, 7, 7, 7, 7);
    if constexpr (!FORWARD) reverse(x);
    write(j, x);
  }
}

} // namespace latentstruct
