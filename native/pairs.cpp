// Pairs of a document's items: equal rows of features are kept once. Indicator features give millions of pairs a few ten
// thousand distinct rows.
#include "arrays.hpp"

#include <algorithm>
#include <vector>

using namespace latentstruct;

namespace {

// Rows of a CSR matrix; `bits` are the values as integers, null if all are 1.
struct Rows {
  const Index *indptr;
  const std::uint32_t *places;
  const std::uint64_t *bits;

  std::uint64_t hash(Index row) const {
    std::uint64_t code = indptr[row + 1] - indptr[row];
    for (Index k = indptr[row]; k < indptr[row + 1]; ++k) {
      code = (code ^ places[k]) * 0x9E3779B97F4A7C15U;
      if (bits) code = (code ^ bits[k]) * 0xC2B2AE3D27D4EB4FU;
      code ^= code >> 29;
    }
    return code;
  }

  bool same(Index a, Index b) const {
    const Index from = indptr[a], to = indptr[a + 1], other = indptr[b];
    return indptr[b + 1] - other == to - from && std::equal(places + from, places + to, places + other) &&
           (!bits || std::equal(bits + from, bits + to, bits + other));
  }
};

// Number the distinct rows by first appearance: row_of[r] is the number of row r, and first[u] the first row with number
// u. The result is how many there are.
Index distinct_rows(Indices indptr, In<std::uint32_t, 1> places, In<std::uint64_t, 1> bits,
                    Out<std::int32_t, 1> row_of, Out<std::int32_t, 1> first) {
  require(indptr.shape(0) > 0 && indptr(indptr.shape(0) - 1) <= static_cast<Index>(places.shape(0)), "rows must end inside");
  require(bits.shape(0) == 0 || bits.shape(0) == places.shape(0), "rows must have one value per place, or none");
  const std::size_t n = indptr.shape(0) - 1;
  require_length(n, row_of, first);
  const Rows rows{indptr.data(), places.data(), bits.shape(0) ? bits.data() : nullptr};
  std::size_t size = 1;
  while (size < 2 * n) size *= 2;
  std::vector<std::int32_t> table(size, -1);
  std::int32_t found = 0;
  for (std::size_t r = 0; r < n; ++r) {
    std::size_t slot = rows.hash(r) & (size - 1);
    while (table[slot] >= 0 && !rows.same(first(table[slot]), r)) slot = (slot + 1) & (size - 1);
    if (table[slot] < 0) {
      table[slot] = found;
      first(found++) = static_cast<std::int32_t>(r);
    }
    row_of(r) = table[slot];
  }
  return found;
}

} // namespace

LATENTSTRUCT_MODULE(pairs, distinct_rows)
