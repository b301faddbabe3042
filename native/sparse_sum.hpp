// Sparse sums of features, written as atoms of planes.
#pragma once
#include "binding.hpp"

#include <vector>

namespace latentstruct {

// Atoms of planes that do not scale a row, to be filled; ends[r] … ends[r + 1] are those of plane r.
struct AtomWriter {
  Index *ends;
  std::int32_t *row, *column;
  double *value;
  Index planes, most;

  AtomWriter(const Out<Index, 1> &ends, const Out<std::int32_t, 1> &row, const Out<std::int32_t, 1> &column,
             const Out<double, 1> &value)
      : ends(ends.data()), row(row.data()), column(column.data()), value(value.data()),
        planes(static_cast<Index>(ends.shape(0)) - 1), most(static_cast<Index>(value.shape(0))) {
    require_length(value.shape(0), row, column);
    require(planes >= 0, "ends must not be empty");
    this->ends[0] = 0;
  }
};

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

  // Write the columns other than 0 as the atoms of plane r, in the order of their first summands, and forget them.
  void write(Index r, AtomWriter &atoms) {
    Index end = atoms.ends[r];
    for (const Index column : columns) {
      if (counts[column] != 0.0) {
        require(end < atoms.most, "the arrays of atoms are too short");
        atoms.row[end] = -1;
        atoms.column[end] = static_cast<std::int32_t>(column);
        atoms.value[end++] = counts[column];
      }
      counts[column] = 0.0;
      seen[column] = false;
    }
    columns.clear();
    atoms.ends[r + 1] = end;
  }
};

} // namespace latentstruct
