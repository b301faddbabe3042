// Maxima at a temperature over lists of scores, with the shares of their members.
#pragma once
#include "functions.hpp"

namespace latentstruct {

// smax_ε of n scores; the share of each is written to `shares`. With ε = 0 the first of the highest gets the share
// 1. If nothing is allowed (all -inf) the value is -inf and all shares are 0.
LATENTSTRUCT_INLINE double pool(const double *scores, std::size_t n, double temperature, double *shares) {
  if (n == 1) {
    shares[0] = scores[0] > -INFINITE ? 1.0 : 0.0;
    return scores[0];
  }
  const double high = n > 0 ? largest(scores, n) : -INFINITE;
  if (temperature == 0.0 || high == -INFINITE) {
    for (std::size_t k = 0; k < n; ++k) shares[k] = 0.0;
    if (high > -INFINITE) {
      std::size_t best = 0;
      while (best + 1 < n && scores[best] != high) ++best;
      shares[best] = 1.0;
    }
    return high;
  }
  for (std::size_t k = 0; k < n; ++k) shares[k] = exp_of((scores[k] - high) / temperature);
  const double total = sum_of(shares, n);
  for (std::size_t k = 0; k < n; ++k) shares[k] /= total;
  return high + temperature * log_of(total);
}

// G_α = [lse(α s) - lse(s)]/(α - 1) of n scores, or its limit E_p[s], p ∝ exp s, at α = 1. Its derivatives, which may be
// negative, are written to `shares`; `sharp` (n,) is overwritten.
LATENTSTRUCT_INLINE double pool_entropy(const double *scores, std::size_t n, double order, double *sharp, double *shares) {
  const double soft = pool(scores, n, 1.0, shares);
  if (order == 1.0) {
    for (std::size_t k = 0; k < n; ++k) sharp[k] = shares[k] * scores[k];
    const double mean = sum_of(sharp, n);
    for (std::size_t k = 0; k < n; ++k) shares[k] *= 1.0 + scores[k] - mean;
    return mean;
  }
  // smax at temperature 1/α is lse(α s)/α.
  const double cold = order * pool(scores, n, 1.0 / order, sharp);
  for (std::size_t k = 0; k < n; ++k) shares[k] = (order * sharp[k] - shares[k]) / (order - 1.0);
  return (cold - soft) / (order - 1.0);
}

} // namespace latentstruct
