// Eight numbers at a time: in a fixed order, so that results do not depend on the processor.
#pragma once
#include "arrays.hpp"
#include "elementwise.hpp"

#include <new>

namespace latentstruct {

// Eight numbers on all processors: where vectors are shorter, several of them. Four where arrays are short.
constexpr int WIDTH = 8;
typedef double Lanes __attribute__((vector_size(8 * WIDTH), aligned(8), may_alias));
typedef double Quad __attribute__((vector_size(32), aligned(8), may_alias));

// n rounded up to whole lanes.
template <typename N> constexpr N padded(N n) { return (n + WIDTH - 1) / WIDTH * WIDTH; }

// Numbers to be written, and the values of numbers: templates would take references to them for aligned ones.
LATENTSTRUCT_INLINE Lanes &lanes(double *numbers) { return *reinterpret_cast<Lanes *>(numbers); }
LATENTSTRUCT_INLINE Lanes load(const double *numbers) { return *reinterpret_cast<const Lanes *>(numbers); }
LATENTSTRUCT_INLINE Lanes all_lanes(double value) { return Lanes{} + value; }
LATENTSTRUCT_INLINE Quad &quad(double *numbers) { return *reinterpret_cast<Quad *>(numbers); }
LATENTSTRUCT_INLINE Quad load_quad(const double *numbers) { return *reinterpret_cast<const Quad *>(numbers); }
LATENTSTRUCT_INLINE double total(const Lanes &v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// Memory for n numbers, aligned to lanes and not set to anything.
struct Release {
  void operator()(double *numbers) const { ::operator delete[](numbers, std::align_val_t(8 * WIDTH)); }
};
using Memory = std::unique_ptr<double[], Release>;
inline Memory allocate(Index n) {
  return Memory(static_cast<double *>(::operator new[](n * sizeof(double), std::align_val_t(8 * WIDTH))));
}

// x moved up by K lanes, with `fill` below it.
template <int K> LATENTSTRUCT_INLINE Lanes shifted(const Lanes &x, double fill) {
  return __builtin_shufflevector(all_lanes(fill), x, 8 - K, 9 - K, 10 - K, 11 - K, 12 - K, 13 - K, 14 - K, 15 - K);
}

LATENTSTRUCT_INLINE Lanes reversed(const Lanes &x) { return __builtin_shufflevector(x, x, 7, 6, 5, 4, 3, 2, 1, 0); }

// Join the affine maps y -> x + ratio·y of each lane and of the one K lanes before it.
template <typename S, int K> LATENTSTRUCT_INLINE void join_maps(Lanes &x, Lanes &ratio) {
  x = S::sum(x, S::times(shifted<K>(x, S::zero), ratio));
  ratio = S::times(ratio, shifted<K>(ratio, S::one));
}

// y_j = x_j + r_j·y_{j-1}, or, if not FORWARD, x_j + r_j·y_{j+1}, for n divisible by 8, and 0 before the first.
//
// S has + and · with their neutral elements zero and one; x(j) and ratio(j) are eight numbers from j on.
template <typename S, bool FORWARD = true, typename X, typename Ratio>
LATENTSTRUCT_INLINE void scan(Index n, X x, Ratio ratio, double *out) {
  Lanes carry = all_lanes(S::zero);
  for (Index done = 0; done < n; done += WIDTH) {
    const Index j = FORWARD ? done : n - WIDTH - done;
    Lanes y = FORWARD ? x(j) : reversed(x(j)), r = FORWARD ? ratio(j) : reversed(ratio(j));
    join_maps<S, 1>(y, r);
    join_maps<S, 2>(y, r);
    join_maps<S, 4>(y, r);
    y = S::sum(y, S::times(carry, r));
    carry = all_lanes(y[WIDTH - 1]);
    lanes(out + j) = FORWARD ? y : reversed(y);
  }
}

} // namespace latentstruct
