// Sums of long vectors.
#include "binding.hpp"
#include "functions.hpp"

using namespace latentstruct;

LATENTSTRUCT_CLONES static void add(const double *x, double factor, double *out, std::size_t n) {
  for (std::size_t k = 0; k < n; ++k) out[k] += factor * x[k];
}

static void add_scaled(In<double, 1> x, double factor, Out<double, 1> out) {
  require_length(x.shape(0), out);
  add(x.data(), factor, out.data(), x.shape(0));
}

NB_MODULE(vectors, m) { bind(m, "add_scaled", add_scaled); }
