// Views of NumPy arrays for kernels, without copies.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace nb = nanobind;

namespace latentstruct {

using Index = std::int64_t;

// Arguments of bound functions: C-contiguous arrays of one dtype and dimension; bind with nb::arg().noconvert().
// `In` arrays may be read-only.
template <typename T, int N> using In = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <typename T, int N> using Out = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

// Fields of named tuples: array(handle) checks dtype, dimension and layout as arguments are checked.
template <typename A> A array(nb::handle owner, const char *name) {
  nb::object field = owner.attr(name);
  A found;
  if (!nb::try_cast(field, found, false)) {
    throw nb::type_error((std::string("field ") + name + " has an array of another dtype, dimension or layout").c_str());
  }
  return found;
}

// Rows of a C-contiguous matrix.
template <typename T> struct Matrix {
  T *data;
  std::size_t rows, columns;
  template <typename A> explicit Matrix(const A &array) : data(array.data()), rows(array.shape(0)), columns(array.shape(1)) {}
  Matrix(T *data, std::size_t rows, std::size_t columns) : data(data), rows(rows), columns(columns) {}
  T *operator[](std::size_t row) const { return data + row * columns; }
};

// A new array that owns its data; `data` was allocated by new[].
template <typename T> nb::ndarray<nb::numpy, T> owned(T *data, std::initializer_list<std::size_t> shape) {
  nb::capsule owner(data, [](void *memory) noexcept { delete[] static_cast<T *>(memory); });
  return nb::ndarray<nb::numpy, T>(data, shape, owner);
}

} // namespace latentstruct
