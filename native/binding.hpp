// Short bindings: kernels are plain functions of arrays, numbers and structs of arrays, called without the GIL.
#pragma once
#include "arrays.hpp"

#include <type_traits>

namespace latentstruct {

template <typename T> struct is_array : std::false_type {};
template <typename... A> struct is_array<nb::ndarray<A...>> : std::true_type {};

// Structs of pointers into the arrays of a named tuple are made by T::read(tuple), which throws if a field does not fit.
template <typename T, typename = void> struct is_record : std::false_type {};
template <typename T> struct is_record<T, std::void_t<decltype(T::read(nb::handle()))>> : std::true_type {};

template <typename T> auto argument() {
  if constexpr (is_array<T>::value) return nb::arg().noconvert();
  else return nb::arg();
}

// Bind a kernel: arrays are never converted, and the GIL is released while it runs.
template <typename R, typename... A> void bind(nb::module_ &m, const char *name, R (*kernel)(A...)) {
  m.def(name, [kernel](A... arguments) -> R {
        nb::gil_scoped_release released;
        return kernel(arguments...);
      }, argument<A>()...);
}

inline void require(bool condition, const char *message) {
  if (!condition) throw nb::value_error(message);
}

// The length that all arrays must have.
template <typename... A> void require_length(std::size_t length, const A &...arrays) {
  require(((arrays.shape(0) == length) && ...), "arrays must have matching lengths");
}

} // namespace latentstruct

template <typename T> struct nanobind::detail::type_caster<T, std::enable_if_t<latentstruct::is_record<T>::value, int>> {
  NB_TYPE_CASTER(T, const_name("tuple"))
  bool from_python(handle source, uint8_t, cleanup_list *) noexcept {
    try {
      value = T::read(source);
      return true;
    } catch (...) {
      return false;
    }
  }
};
