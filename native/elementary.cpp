// Elementary functions, bound for tests.
#include "arrays.hpp"
#include "functions.hpp"

using namespace latentstruct;

LATENTSTRUCT_CLONES static void exponentials(const double *x, double *out, std::size_t n) {
  for (std::size_t k = 0; k < n; ++k) out[k] = exp_of(x[k]);
}

LATENTSTRUCT_CLONES static void logarithms(const double *x, double *out, std::size_t n) {
  for (std::size_t k = 0; k < n; ++k) out[k] = log_of(x[k]);
}

NB_MODULE(elementary, m) {
  m.def("exp", [](In<double, 1> x, Out<double, 1> out) {
        if (x.shape(0) != out.shape(0)) throw nb::value_error("x and out must have the same length");
        nb::gil_scoped_release released;
        exponentials(x.data(), out.data(), x.shape(0));
      }, nb::arg("x").noconvert(), nb::arg("out").noconvert());
  m.def("log", [](In<double, 1> x, Out<double, 1> out) {
        if (x.shape(0) != out.shape(0)) throw nb::value_error("x and out must have the same length");
        nb::gil_scoped_release released;
        logarithms(x.data(), out.data(), x.shape(0));
      }, nb::arg("x").noconvert(), nb::arg("out").noconvert());
}
