// Words of sequences as sparse rows: how often each pattern of letters occurs, gaps included.
#include "arrays.hpp"
#include "functions.hpp"

#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

using namespace latentstruct;

namespace {

// The number of the word at `letter` whose letters are at the given distances; -1 if one of them is unknown.
LATENTSTRUCT_INLINE Index word_at(const std::uint8_t *letter, const Index *distances, Index length, Index size) {
  Index code = 0;
  for (Index j = 0; j < length; ++j) {
    const Index found = letter[distances[j]];
    if (found >= size) return -1;
    code = code * size + found;
  }
  return code;
}

// The number of the reverse complement of a word; the complement of letter a is size - 1 - a.
LATENTSTRUCT_INLINE Index mirrored(Index code, Index length, Index size) {
  Index mirror = 0;
  for (Index j = 0; j < length; ++j, code /= size) mirror = mirror * size + (size - 1 - code % size);
  return mirror;
}

// Sparse rows of the words of each sequence: row pointers, columns and values of Euclidean norm `norm`.
//
// Line p of `patterns` has the distances of a word's letters from its first one; column p·size^k + code is the word with
// that number. If `mirrors` has the pattern of each one's reverse complement, both words count at the smaller column.
// Letters from `size` on are unknown, and words with them are left out.
auto word_rows(In<std::uint8_t, 1> letters, Indices offsets, In<Index, 2> patterns, Indices mirrors, Index size, double norm) {
  const Index n_patterns = static_cast<Index>(patterns.shape(0)), length = static_cast<Index>(patterns.shape(1));
  const bool both = mirrors.shape(0) != 0;
  require(offsets.shape(0) > 0 && offsets(offsets.shape(0) - 1) <= static_cast<Index>(letters.shape(0)), "sequences must end inside");
  if (both) require_length(patterns.shape(0), mirrors);
  Index n_words = 1;
  for (Index j = 0; j < length; ++j) n_words *= size;
  std::vector<double> counts(n_patterns * n_words);
  std::vector<Index> pointers{0};
  std::vector<std::uint32_t> columns, used;
  std::vector<double> values;
  for (std::size_t i = 0; i + 1 < offsets.shape(0); ++i) {
    const std::uint8_t *begin = letters.data() + offsets(i), *end = letters.data() + offsets(i + 1);
    used.clear();
    for (Index p = 0; p < n_patterns; ++p) {
      const Index *distances = &patterns(p, 0), span = distances[length - 1];
      for (const std::uint8_t *letter = begin; letter + span < end; ++letter) {
        const Index code = word_at(letter, distances, length, size);
        if (code < 0) continue;
        Index column = p * n_words + code;
        if (both) column = std::min(column, mirrors(p) * n_words + mirrored(code, length, size));
        if (counts[column]++ == 0.0) used.push_back(static_cast<std::uint32_t>(column));
      }
    }
    std::sort(used.begin(), used.end());
    double squares = 0.0;
    for (const std::uint32_t column : used) squares += counts[column] * counts[column];
    const double scale = used.empty() ? 0.0 : norm / std::sqrt(squares);
    for (const std::uint32_t column : used) {
      columns.push_back(column);
      values.push_back(scale * counts[column]);
      counts[column] = 0.0;
    }
    pointers.push_back(static_cast<Index>(columns.size()));
  }
  return std::tuple(new_array(pointers), new_array(columns), new_array(values));
}

} // namespace

LATENTSTRUCT_MODULE(words, word_rows)
