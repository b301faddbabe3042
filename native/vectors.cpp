// Sums of long vectors, and elementary functions of them.
#include "arrays.hpp"
#include "elementwise.hpp"

using namespace latentstruct;

LATENTSTRUCT_CLONES static void add_scaled(Vector x, double factor, Values out) {
  require_length(x.shape(0), out);
  for (std::size_t k = 0; k < x.shape(0); ++k) out(k) += factor * x(k);
}

// In place, for tests.
static void exponentiate(Values x) { exp_each(x.data(), x.shape(0)); }
static void take_logarithms(Values x) { log_each(x.data(), x.shape(0)); }

LATENTSTRUCT_MODULE(vectors, add_scaled, exponentiate, take_logarithms)
