// Sequences of tokens end to end.
#pragma once
#include "arrays.hpp"

#include <algorithm>

namespace latentstruct {

struct Sequences {
  const Index *offsets;
  std::size_t count, longest = 1;

  Sequences(const In<Index, 1> &offsets, std::size_t n_tokens) : offsets(offsets.data()), count(offsets.shape(0) - 1) {
    require(offsets.shape(0) > 0, "offsets must not be empty");
    Index last = 0;
    for (std::size_t k = 0; k <= count; ++k) {
      require(offsets(k) >= last && offsets(k) <= static_cast<Index>(n_tokens), "offsets must rise inside the tokens");
      if (k > 0) longest = std::max(longest, static_cast<std::size_t>(offsets(k) - last));
      last = offsets(k);
    }
  }
  std::size_t length(std::size_t k) const { return offsets[k + 1] - offsets[k]; }
};

} // namespace latentstruct
