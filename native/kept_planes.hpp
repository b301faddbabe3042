// Planes kept per example: their layout in arrays, their heights and their sums.
//
// Planes of one example share most atoms. Kept planes are therefore lists of numbers into the example's table of
// distinct atoms: each atom is multiplied with w once, and terms that cancel between planes never change w.
//
// Atoms that are in all planes of an example, once in each, are *common*. They come last in the table, and their numbers
// last in each plane. They add the same to all heights, so dual ascent, which compares heights, skips them.
//
// Symbols: c weight of an example, g_p slope and b_p offset of its plane p, α_p its dual variable (Σ_p α_p = 1),
// s_p = b_p + g_p·w the plane's height at w = l - Σ_i c_i Σ_p α_ip g_ip, K_pq = g_p·g_q.
//
// Numbers, starts and corners were created by these kernels, or were checked by `unpack_store`.
#pragma once
#include "atoms.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace latentstruct {

using Number = std::uint32_t;

// See the Python class of this name.
struct Slots {
  Index *start;
  std::int32_t *length;
  double *offset, *alpha;
  Index *used;
  std::uint64_t *key;
  bool *mixed;
  double *gram;
  Index *corner, *side;
  std::int32_t *count;
  std::size_t n, width;

  static Slots read(const Fields &fields) {
    Index n = -1, width = -1, size = -1;
    Slots slots;
    slots.start = fields.get<Index>("start", &n, &width), slots.used = fields.get<Index>("used", &n, &width);
    slots.length = fields.get<std::int32_t>("length", &n, &width);
    slots.offset = fields.get<double>("offset", &n, &width), slots.alpha = fields.get<double>("alpha", &n, &width);
    slots.key = fields.get<std::uint64_t>("key", &n, &width), slots.mixed = fields.get<bool>("mixed", &n, &width);
    slots.corner = fields.get<Index>("corner", &n), slots.side = fields.get<Index>("side", &n);
    slots.count = fields.get<std::int32_t>("count", &n), slots.gram = fields.get<double>("gram", &size);
    slots.n = static_cast<std::size_t>(n), slots.width = static_cast<std::size_t>(width);
    return slots;
  }
};

// See the Python class of this name.
struct Tables {
  AtomTable atoms;
  Index *start, *length, *varied, *capacity;
  Number *numbers;
  Index *end;
  std::size_t n, n_numbers;

  static Tables read(const Fields &fields) {
    Index n = -1, n_numbers = -1;
    const auto get = [&](const char *name) { return fields.get<Index>(name, &n); };
    auto *start = get("start"), *length = get("length"), *varied = get("varied"), *capacity = get("capacity");
    auto *numbers = fields.get<Number>("numbers", &n_numbers);
    return {fields.record<AtomTable>("atoms"), start, length, varied, capacity, numbers, fields.get<Index>("end", 2),
            static_cast<std::size_t>(n), static_cast<std::size_t>(n_numbers)};
  }
};

// The slots and the table of one example.
struct Kept {
  Index *start;
  std::int32_t *length;
  double *offset, *alpha;
  Index *used;
  double *gram;
  Index count, side, n_atoms, varied;
  AtomTable table;
  Number *numbers;

  Kept(const Tables &tables, const Slots &slots, Index example)
      : start(slots.start + example * slots.width), length(slots.length + example * slots.width),
        offset(slots.offset + example * slots.width), alpha(slots.alpha + example * slots.width),
        used(slots.used + example * slots.width), gram(slots.gram + slots.corner[example]), count(slots.count[example]),
        side(slots.side[example]), n_atoms(tables.length[example]), varied(tables.varied[example]),
        table(tables.atoms.from(tables.start[example])), numbers(tables.numbers) {}

  // out[p] = g_p · vector. `n` is the length of the table; or `varied`, which omits common atoms.
  LATENTSTRUCT_INLINE void score(const Rows &rows, Index n, const double *vector, double *memo, double *out) const {
    atom_products(rows, table, n, vector, memo);
    for (Index p = 0; p < count; ++p) {
      const Number *k = numbers + start[p], *last = k + length[p] - (n_atoms - n);
      double a = 0.0, b = 0.0;
      for (; k + 2 <= last; k += 2) {
        a += memo[k[0]];
        b += memo[k[1]];
      }
      if (k < last) a += memo[*k];
      out[p] = a + b;
    }
  }

  // vector += coefficient · g_p.
  LATENTSTRUCT_INLINE void add_plane(const Rows &rows, Index p, double coefficient, double *vector) const {
    for (const Number *k = numbers + start[p], *last = k + length[p]; k < last; ++k)
      plane_add(rows, table.from(*k), 1, coefficient, vector);
  }

  // vector += Σ_p coefficients[p] g_p. `n` is the length of the table; or `varied` if the coefficients sum to 0, so that
  // common atoms cancel. `scale` is the size of the numbers whose differences the coefficients are.
  LATENTSTRUCT_INLINE void add(const Rows &rows, Index n, const double *coefficients, double scale, double *memo,
                               double *vector) const {
    // Mostly one plane has all weight.
    Index weighted = 0, last_weighted = 0;
    for (Index p = 0; p < count; ++p)
      if (coefficients[p] != 0.0) ++weighted, last_weighted = p;
    if (weighted == 1) return add_plane(rows, last_weighted, coefficients[last_weighted], vector);
    std::fill(memo, memo + n, 0.0);
    for (Index p = 0; p < count; ++p) {
      if (coefficients[p] == 0.0) continue;
      const Number *first = numbers + start[p], *last = first + length[p] - (n_atoms - n);
      for (const Number *k = first; k < last; ++k) memo[*k] += coefficients[p];
    }
    // Atoms of one row with a coefficient. Coefficients that sum to zero leave rounding errors on shared atoms that do not justify a
    // pass over a row.
    constexpr Index MOST = 16;
    Column columns[MOST];
    double steps[MOST];
    for (Index a = 0, end; a < n; a = end) {
      end = end_of_row(table, a, std::min(n, a + MOST));
      Index found = 0;
      for (Index b = a; b < end; ++b) {
        columns[found] = table.column[b];
        steps[found] = memo[b] * table.value[b];
        found += std::abs(memo[b]) > 1e-14 * scale;
      }
      if (table.row[a] >= 0) add_row(rows, table.row[a], columns, found, steps, vector);
      else
        for (Index j = 0; j < found; ++j) vector[columns[j]] += steps[j];
    }
  }
};

// Fields of a PlaneStore that kernels read. `vector` is all zero between calls.
struct Store {
  Rows rows;
  Tables tables;
  Slots slots;
  const double *weights;
  double *vector;
  std::size_t n_features;
  Index *clock;

  static Store read(const Fields &fields) {
    const auto slots = fields.record<Slots>("slots");
    const auto tables = fields.record<Tables>("tables");
    const Fields scratch = fields.inner("scratch");
    Index n = static_cast<Index>(slots.n), n_features = -1;
    auto *vector = scratch.get<double>("vector", &n_features);
    require(tables.n == slots.n, "tables and slots must have the same examples");
    return {fields.record<Rows>("rows"), tables, slots, fields.get<const double>("weights", n), vector,
            static_cast<std::size_t>(n_features), scratch.get<Index>("clock", 1)};
  }

  Kept kept(Index example) const { return Kept(tables, slots, example); }

  // Products or coefficients of the atoms of any one example.
  std::vector<double> memo() const {
    return std::vector<double>(slots.n ? *std::max_element(tables.length, tables.length + slots.n) : 0);
  }
};

} // namespace latentstruct
