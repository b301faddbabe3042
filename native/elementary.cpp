// Elementary functions, bound for tests.
#include "arrays.hpp"
#include "functions.hpp"

using namespace latentstruct;

LATENTSTRUCT_CLONES static void exponentials(Vector x, Values out) {
  require_length(x.shape(0), out);
  for (std::size_t k = 0; k < x.shape(0); ++k) out(k) = exp_of(x(k));
}

LATENTSTRUCT_CLONES static void logarithms(Vector x, Values out) {
  require_length(x.shape(0), out);
  for (std::size_t k = 0; k < x.shape(0); ++k) out(k) = log_of(x(k));
}

NB_MODULE(elementary, m) {
  bind(m, "exp", exponentials);
  bind(m, "log", logarithms);
}
