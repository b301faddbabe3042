// NumPy arrays in kernels, without copies.
#pragma once
// nanobind uses stderr, which Python.h no longer declares for the stable ABI; Python.h must come first of all.
#include <Python.h>
#include <cstdio>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace latentstruct {

using Index = std::int64_t;

// A C-contiguous array of one dtype and dimension.
template <typename T, int N> class Array {
  template <typename, int> friend class Array;
  T *values;
  std::size_t sizes[N];

public:
  Array() = default;
  // What may be written may also be read.
  template <typename U> requires std::is_same_v<T, const U> Array(const Array<U, N> &other) : values(other.values) {
    std::copy_n(other.sizes, N, sizes);
  }
  explicit Array(const Py_buffer &from) : values(static_cast<T *>(from.buf)) {
    for (int axis = 0; axis < N; ++axis) sizes[axis] = static_cast<std::size_t>(from.shape[axis]);
  }
  T *data() const { return values; }
  std::size_t shape(std::size_t axis) const { return sizes[axis]; }
  T &operator()(std::size_t i) const { return values[i]; }
  T &operator()(std::size_t i, std::size_t j) const { return values[i * sizes[1] + j]; }
};

// Arguments of bound functions; `In` arrays may be read-only.
template <typename T, int N> using In = Array<const T, N>;
template <typename T, int N> using Out = Array<T, N>;
using Indices = In<Index, 1>;
using Vector = In<double, 1>;
using Square = In<double, 2>;
using Flags = In<bool, 1>;
using Numbers = Out<Index, 1>;
using Values = Out<double, 1>;

inline void require(bool condition, const char *message) {
  if (!condition) throw nb::value_error(message);
}

// The length that all arrays must have.
template <typename... A> void require_length([[maybe_unused]] std::size_t length, const A &...arrays) {
  require(((arrays.shape(0) == length) && ...), "arrays must have matching lengths");
}

// The length of an axis: a known one, or one that is set by the first array and required of the next ones.
class Length {
  Index known, more = 0, *found = nullptr;

public:
  Length(Index known) : known(known) {}
  Length(Index *found, Index more = 0) : more(more), found(found) {}
  void match(std::size_t size) const {
    if (found && *found < 0) *found = static_cast<Index>(size) - more;
    const Index wanted = found ? *found + more : known;
    require(wanted >= more && static_cast<Index>(size) == wanted, "arrays must have matching lengths");
  }
};

// Fields of a named tuple, whose arrays stay in memory while Python holds the tuple.
class Fields {
  nb::object source;

public:
  explicit Fields(nb::object source) : source(std::move(source)) {}

  template <typename T> T number(const char *name) const { return nb::cast<T>(source.attr(name)); }
  Fields inner(const char *name) const { return Fields(source.attr(name)); }
  template <typename T> T record(const char *name) const { return T::read(inner(name)); }
  // By the name of a field, or by its number.
  template <typename A, typename Key> A array(Key key) const {
    nb::object field;
    if constexpr (std::is_integral_v<Key>) field = source[key];
    else field = source.attr(key);
    A found;
    if (!nb::try_cast(field, found, false)) throw nb::type_error("a field has an array of another dtype, dimension or layout");
    return found;
  }
  // The data of an array with as many dimensions as lengths, which are set to -1 if they are not known yet.
  template <typename T, typename... L> T *get(const char *name, L... lengths) const {
    const auto found = array<Array<T, sizeof...(L)>>(name);
    std::size_t axis = 0;
    (Length(lengths).match(found.shape(axis++)), ...);
    return found.data();
  }
  const Index *indices(const char *name, Length length) const { return get<const Index>(name, length); }
};

// Rows of a C-contiguous matrix.
template <typename T> struct Matrix {
  T *data;
  std::size_t rows, columns;
  template <typename A> explicit Matrix(const A &array) : data(array.data()), rows(array.shape(0)), columns(array.shape(1)) {}
  T *operator[](std::size_t row) const { return data + row * columns; }
};

// A new array, which Python gets without a copy.
template <typename T> struct New {
  std::unique_ptr<T[]> data;
  std::vector<std::size_t> shape;
};
template <typename T> New<T> new_array(const std::vector<T> &values) {
  New<T> made{std::make_unique<T[]>(values.size()), {values.size()}};
  std::copy(values.begin(), values.end(), made.data.get());
  return made;
}

// Whether an object is an array of numbers of a kind and size; its buffer must be released then.
inline bool take_buffer(PyObject *source, const char *kind, Py_ssize_t size, int dimensions, int flags, Py_buffer &found) {
  if (PyObject_GetBuffer(source, &found, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | flags) != 0) {
    PyErr_Clear();
    found.obj = nullptr;
    return false;
  }
  const char *format = found.format;
  return found.ndim == dimensions && found.itemsize == size && format[0] && !format[1] && std::strchr(kind, format[0]);
}

// Structs of pointers into the arrays of a named tuple are made by T::read(fields), which throws if a field does not fit.
template <typename T>
concept Record = requires(Fields fields) { T::read(fields); };

// Bind a kernel: arrays are never converted, and the GIL is released while it runs.
template <typename R, typename... A> void bind(nb::module_ &m, const char *name, R (*kernel)(A...)) {
  m.def(name, [kernel](const A &...arguments) -> R {
    nb::gil_scoped_release released;
    return kernel(arguments...);
  });
}

// Bind kernels and constants by a list of their names.
template <typename... T> void bind_all(nb::module_ &m, const char *names, const T &...items) {
  const auto add = [&](const auto &item) {
    const std::string name(names, std::strcspn(names, ","));
    if constexpr (requires { bind(m, name.c_str(), item); }) bind(m, name.c_str(), item);
    else m.attr(name.c_str()) = static_cast<Index>(item);
    names += name.size() + std::strspn(names + name.size(), ", ");
  };
  (add(items), ...);
}
#define LATENTSTRUCT_MODULE(module, ...) \
  NB_MODULE(module, m) { bind_all(m, #__VA_ARGS__, __VA_ARGS__); }

} // namespace latentstruct

namespace nanobind::detail {

template <typename T, int N> struct type_caster<latentstruct::Array<T, N>> {
  using Number = std::remove_const_t<T>;
  static constexpr const char *KIND = std::is_same_v<Number, bool>       ? "?"
                                      : std::is_floating_point_v<Number> ? "fd"
                                      : std::is_signed_v<Number>         ? "bhilq"
                                                                         : "BHILQ";
  using View = latentstruct::Array<T, N>;
  NB_TYPE_CASTER(View, const_name("ndarray"))
  bool from_python(handle source, uint8_t, cleanup_list *) noexcept {
    if (!latentstruct::take_buffer(source.ptr(), KIND, sizeof(T), N, std::is_const_v<T> ? 0 : PyBUF_WRITABLE, buffer)) return false;
    value = Value(buffer);
    return true;
  }
  ~type_caster() { PyBuffer_Release(&buffer); }

private:
  Py_buffer buffer{};
};

template <typename T> struct type_caster<latentstruct::New<T>> {
  NB_TYPE_CASTER(latentstruct::New<T>, const_name("ndarray"))
  static handle from_cpp(Value &&made, rv_policy, cleanup_list *) noexcept {
    T *data = made.data.release();
    capsule owner(data, [](void *memory) noexcept { delete[] static_cast<T *>(memory); });
    return ndarray<numpy, T>(data, made.shape.size(), made.shape.data(), owner).cast().release();
  }
};

template <latentstruct::Record T> struct type_caster<T> {
  NB_TYPE_CASTER(T, const_name("tuple"))
  bool from_python(handle source, uint8_t, cleanup_list *) noexcept {
    try {
      value = T::read(latentstruct::Fields(borrow(source)));
      return true;
    } catch (...) {
      return false;
    }
  }
};

} // namespace nanobind::detail
