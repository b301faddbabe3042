// Sums of long vectors.
#include "arrays.hpp"
#include "functions.hpp"

using namespace latentstruct;

LATENTSTRUCT_CLONES static void add_scaled(Vector x, double factor, Values out) {
  require_length(x.shape(0), out);
  for (std::size_t k = 0; k < x.shape(0); ++k) out(k) += factor * x(k);
}

NB_MODULE(vectors, m) { bind(m, "add_scaled", add_scaled); }
