// Sparse sums of features, written as atoms of planes.
#pragma once
#include "arrays.hpp"

#include <vector>

namespace latentstruct {

// A sum over few of many columns.
class SparseSum {
  std::vector<double> counts;
  std::vector<bool> seen;
  std::vector<Index> columns;

public:
  explicit SparseSum(Index n_columns) : counts(n_columns), seen(n_columns) {}

  void add(Index column, double value) {
    if (!seen[column]) {
      seen[column] = true;
      columns.push_back(column);
    }
    counts[column] += value;
  }

  // Write the columns other than 0 as the atoms of a plane from `end` on, in the order of their first summands, and
  // forget them; return the end of the atoms.
  Index write(Index end, const Out<std::int32_t, 1> &row, const Out<std::int32_t, 1> &column, const Values &value) {
    require_length(value.shape(0), row, column);
    for (const Index number : columns) {
      if (counts[number] != 0.0) {
        require(end < static_cast<Index>(value.shape(0)), "the arrays of atoms are too short");
        row(end) = -1, column(end) = static_cast<std::int32_t>(number), value(end) = counts[number];
        ++end;
      }
      counts[number] = 0.0, seen[number] = false;
    }
    columns.clear();
    return end;
  }
};

} // namespace latentstruct
