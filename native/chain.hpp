// Sequences of tokens end to end, and their labels.
#pragma once
#include "atoms.hpp"

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

// Where the weights of labels begin, see the Python class of this name; -1: there is no such block.
struct Blocks {
  Index transitions, bias, start, end;

  static Blocks read(const Fields &fields) {
    return {fields.number<Index>("transitions"), fields.number<Index>("bias"), fields.number<Index>("start"),
            fields.number<Index>("end")};
  }
};

// The number of labels, if scores and transitions have as many.
inline std::size_t labels_of(const Square &scores, const Square &transitions) {
  const std::size_t n = transitions.shape(0);
  require(n > 0 && transitions.shape(1) == n && scores.shape(1) == n, "scores must have one column per label");
  return n;
}

} // namespace latentstruct
