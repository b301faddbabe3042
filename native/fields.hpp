// Arrays in named tuples.
#pragma once
#include "binding.hpp"

namespace latentstruct {

// The fields of a named tuple: C-contiguous arrays of one dtype, dimension and shape.
class Fields {
  nb::handle source;

public:
  explicit Fields(nb::handle source) : source(source) {}

  template <typename T> T number(const char *name) const { return nb::cast<T>(source.attr(name)); }
  Index size(const char *name, int axis = 0) const { return nb::cast<Index>(source.attr(name).attr("shape")[axis]); }

  // The data of an array with as many dimensions as sizes, which are checked.
  template <typename T, typename... N> T *get(const char *name, N... sizes) const {
    const auto found = array<nb::ndarray<T, nb::ndim<sizeof...(N)>, nb::c_contig, nb::device::cpu>>(source, name);
    std::size_t axis = 0;
    require(((found.shape(axis++) == static_cast<std::size_t>(sizes)) && ...), "arrays must have matching lengths");
    return found.data();
  }
};

} // namespace latentstruct
