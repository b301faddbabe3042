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

  static Slots read(nb::handle source) {
    const auto start = array<Out<Index, 2>>(source, "start"), used = array<Out<Index, 2>>(source, "used");
    const auto length = array<Out<std::int32_t, 2>>(source, "length");
    const auto offset = array<Out<double, 2>>(source, "offset"), alpha = array<Out<double, 2>>(source, "alpha");
    const auto key = array<Out<std::uint64_t, 2>>(source, "key");
    const auto mixed = array<Out<bool, 2>>(source, "mixed");
    const auto gram = array<Out<double, 1>>(source, "gram");
    const auto corner = array<Out<Index, 1>>(source, "corner"), side = array<Out<Index, 1>>(source, "side");
    const auto count = array<Out<std::int32_t, 1>>(source, "count");
    const std::size_t n = count.shape(0), width = start.shape(1);
    require_length(n, start, used, length, offset, alpha, key, mixed, corner, side);
    const auto wide = [&](const auto &...arrays) { return ((arrays.shape(1) == width) && ...); };
    require(wide(used, length, offset, alpha, key, mixed), "slots must have equal shapes");
    return {start.data(), length.data(), offset.data(), alpha.data(), used.data(),  key.data(), mixed.data(),
            gram.data(),  corner.data(), side.data(),   count.data(), n,            width};
  }
};

// See the Python class of this name.
struct Tables {
  AtomTable atoms;
  Index *start, *length, *varied, *capacity;
  Number *numbers;
  Index *end;
  std::size_t n, n_numbers;

  static Tables read(nb::handle source) {
    const auto field = [&](const char *name) { return array<Out<Index, 1>>(source, name); };
    const auto start = field("start"), length = field("length"), varied = field("varied"), capacity = field("capacity");
    const auto end = field("end");
    const auto numbers = array<Out<Number, 1>>(source, "numbers");
    require_length(start.shape(0), length, varied, capacity);
    require_length(2, end);
    return {AtomTable::read(source.attr("atoms")), start.data(), length.data(),  varied.data(),   capacity.data(),
            numbers.data(),                        end.data(),   start.shape(0), numbers.shape(0)};
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

  // vector += Σ_p coefficients[p] g_p. `n` is the length of the table; or `varied` if the coefficients sum to 0, so that
  // common atoms cancel. `scale` is the size of the numbers whose differences the coefficients are.
  LATENTSTRUCT_INLINE void add(const Rows &rows, Index n, const double *coefficients, double scale, double *memo,
                               double *vector) const {
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

  static Store read(nb::handle source) {
    const Slots slots = Slots::read(source.attr("slots"));
    const Tables tables = Tables::read(source.attr("tables"));
    const auto weights = array<In<double, 1>>(source, "weights");
    const nb::object scratch = source.attr("scratch");
    const auto vector = array<Out<double, 1>>(scratch, "vector");
    const auto clock = array<Out<Index, 1>>(scratch, "clock");
    require_length(slots.n, weights);
    require_length(1, clock);
    require(tables.n == slots.n, "tables and slots must have the same examples");
    return {Rows::read(source.attr("rows")), tables, slots, weights.data(), vector.data(), vector.shape(0), clock.data()};
  }

  Kept kept(Index example) const { return Kept(tables, slots, example); }

  // Products or coefficients of the atoms of any one example.
  std::vector<double> memo() const {
    return std::vector<double>(slots.n ? *std::max_element(tables.length, tables.length + slots.n) : 0);
  }
};

} // namespace latentstruct
