// Domains in which scores of alternatives are combined: + and · of the recursions, with their neutral elements.
#pragma once
#include "lanes.hpp"

#include <array>

namespace latentstruct {

// The best of scores: max and +.
struct Hard {
  static constexpr double zero = -INFINITE, one = 0.0;
  static LATENTSTRUCT_INLINE double of(double score) { return score; }
  template <typename T> static LATENTSTRUCT_INLINE T times(T a, T b) { return a + b; }
  template <typename T> static LATENTSTRUCT_INLINE T sum(T a, T b) { return a > b ? a : b; }
  template <typename T, typename... R> static LATENTSTRUCT_INLINE T sum(T a, T b, R... rest) {
    return sum(sum(a, b), rest...);
  }
};

// Sums of exponentials by their logarithms: log-sum and +.
struct Log : Hard {
  template <typename... T> static LATENTSTRUCT_INLINE double sum(T... x) {
    const double high = Hard::sum(x...), total = (exp_of(x - high) + ...);
    return high > -INFINITE ? high + log_of(total) : high;
  }
  // The proportions of terms to their sum, 0 if that is 0.
  template <typename... T> static LATENTSTRUCT_INLINE std::array<double, sizeof...(T)> shares(T... x) {
    double high = Hard::sum(x...);
    high = high > -INFINITE ? high : 0.0;
    ((x = exp_of(x - high)), ...);
    const double total = (x + ...), factor = total > 0.0 ? 1.0 / total : 0.0;
    return {x * factor...};
  }
};

// Exponentials themselves: + and ·.
struct Linear {
  static constexpr double zero = 0.0, one = 1.0;
  static LATENTSTRUCT_INLINE double of(double score) { return exp_of(score); }
  template <typename T> static LATENTSTRUCT_INLINE T times(T a, T b) { return a * b; }
  template <typename... T> static LATENTSTRUCT_INLINE auto sum(T... x) { return (x + ...); }
  // Terms below the least sum have no effect.
  template <typename... T> static LATENTSTRUCT_INLINE std::array<double, sizeof...(T)> shares(T... x) {
    const double total = (x + ...), factor = total > 1e-290 ? 1.0 / total : 0.0;
    return {x * factor...};
  }
};

} // namespace latentstruct
