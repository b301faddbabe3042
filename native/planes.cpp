// Products and sums of planes, and operations on the planes kept per example: insertion, dual ascent,
// and changes of their memory. Symbols as in kept_planes.hpp.
#include "kept_planes.hpp"

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>

using namespace latentstruct;

namespace {
using Doubles = std::vector<double>;

enum Rule { PLAIN, AWAY, PAIRWISE, SMO };

void require_planes(const Indices &pointers, const Atoms &atoms, std::size_t n) {
  require_length(n + 1, pointers);
  require(static_cast<std::size_t>(pointers(n)) <= atoms.n, "pointers must lie within the atoms");
}

void require_examples(const Indices &examples, const Slots &slots) {
  bool inside = true;
  for (std::size_t k = 0; k < examples.shape(0); ++k) inside &= static_cast<std::size_t>(examples(k)) < slots.n;
  require(inside, "examples must be numbers of kept examples");
}

// out[p] = g_p · vector for all planes.
void planes_dot(Rows rows, Atoms atoms, Indices pointers, Vector vector, Values out) {
  require_planes(pointers, atoms, out.shape(0));
  for (std::size_t p = 0; p < out.shape(0); ++p)
    out(p) = plane_dot(rows, atoms.from(pointers(p)), pointers(p + 1) - pointers(p), vector.data());
}

// vector += Σ_p coefficients[p] g_p.
void planes_add(Rows rows, Atoms atoms, Indices pointers, Vector coefficients, Values vector) {
  require_planes(pointers, atoms, coefficients.shape(0));
  for (std::size_t p = 0; p < coefficients.shape(0); ++p) {
    const Index first = pointers(p), n = pointers(p + 1) - first;
    if (coefficients(p) != 0.0) plane_add(rows, atoms.from(first), n, coefficients(p), vector.data());
  }
}

// vector += Σ_i c_i Σ_p α_ip g_ip; return Σ_i c_i Σ_p α_ip b_ip.
double combine(Store store, Values vector) {
  require_length(store.n_features, vector);
  double offset = 0.0;
  Doubles memo = store.memo(), coefficients(store.slots.width);
  for (std::size_t i = 0; i < store.slots.n; ++i) {
    const Kept kept = store.kept(i);
    for (Index p = 0; p < kept.count; ++p) {
      coefficients[p] = store.weights[i] * kept.alpha[p];
      offset += coefficients[p] * kept.offset[p];
    }
    kept.add(store.rows, kept.n_atoms, coefficients.data(), store.weights[i], memo.data(), vector.data());
  }
  return offset;
}

// out[k] = Σ_p α_p s_p at w for the listed examples.
void mean_heights(Store store, Indices examples, Vector w, Values out) {
  require_examples(examples, store.slots);
  require_length(examples.shape(0), out);
  require_length(store.n_features, w);
  Doubles memo = store.memo(), heights(store.slots.width);
  for (std::size_t k = 0; k < examples.shape(0); ++k) {
    const Kept kept = store.kept(examples(k));
    kept.score(store.rows, kept.n_atoms, w.data(), memo.data(), heights.data());
    double mean = 0.0;
    for (Index p = 0; p < kept.count; ++p) mean += kept.alpha[p] * (heights[p] + kept.offset[p]);
    out(k) = mean;
  }
}

// values[i] = height of example i's highest kept plane at w; slope += c_i times its slope. Return Σ_i c_i times the
// planes' offsets.
double add_highest(Store store, Vector w, Values slope, Values values) {
  require_length(store.n_features, w, slope);
  require_length(store.slots.n, values);
  double offset = 0.0;
  Doubles memo = store.memo(), heights(store.slots.width);
  for (std::size_t i = 0; i < store.slots.n; ++i) {
    const Kept kept = store.kept(i);
    kept.score(store.rows, kept.n_atoms, w.data(), memo.data(), heights.data());
    Index best = 0;
    for (Index p = 0; p < kept.count; ++p) {
      heights[p] += kept.offset[p];
      if (heights[p] > heights[best]) best = p;
    }
    values(i) = heights[best];
    kept.used[best] = std::max(kept.used[best], *store.clock);
    offset += store.weights[i] * kept.offset[best];
    kept.add_plane(store.rows, best, store.weights[i], slope.data());
  }
  return offset;
}

// ------------------------------------------------------------------------------------------------- dual ascent

// The dual problem of one example over its kept planes; heights follow α.
struct Block {
  Index count, side;
  double weight;
  double *alpha, *heights;
  const double *gram;
  Index best = 0, worst = -1;

  const double *gram_row(Index p) const { return gram + p * side; }

  double mean() const {
    double sum = 0.0;
    for (Index p = 0; p < count; ++p) sum += alpha[p] * heights[p];
    return sum;
  }

  // Find the highest plane, and the lowest one that has weight; -1 if heights are not numbers.
  LATENTSTRUCT_INLINE void find_best_and_worst() {
    double highest = heights[0], lowest = INFINITE;
    best = 0;
    worst = -1;
    for (Index p = 0; p < count; ++p) {
      const double height = heights[p];
      // No branch: which planes these are cannot be predicted.
      const bool higher = height > highest, lower = (alpha[p] > 0.0) & (height < lowest);
      best = higher ? p : best;
      highest = higher ? height : highest;
      worst = lower ? p : worst;
      lowest = lower ? height : lowest;
    }
  }

  // Move the best part of the dual mass of the worst plane to the best one; return the gain.
  LATENTSTRUCT_INLINE double move_mass() {
    const double slope = heights[best] - heights[worst], limit = alpha[worst];
    const double *to_target = gram_row(best), *to_source = gram_row(worst);
    const double curvature = weight * (to_target[best] - 2.0 * to_target[worst] + to_source[worst]);
    // Two planes of equal slope: the higher one takes all.
    const double moved = slope >= curvature * limit ? limit : slope / curvature;
    if (moved <= 0.0) return 0.0;
    // Exact zeros matter: a plane without weight may be dropped.
    alpha[worst] = moved < limit ? limit - moved : 0.0;
    alpha[best] += moved;
    const double step = weight * moved;
    LATENTSTRUCT_INDEPENDENT
    for (Index p = 0; p < count; ++p) heights[p] -= step * (to_target[p] - to_source[p]);
    return step * (slope - 0.5 * curvature * moved);
  }

  // Frank-Wolfe step with exact line search toward a plane, or away from it; return the gain. Heights are not updated.
  double toward_vertex(Index vertex, bool away, double mean) {
    double cross = 0.0, square = 0.0;
    for (Index p = 0; p < count; ++p) {
      if (alpha[p] == 0.0) continue;
      cross += alpha[p] * gram_row(vertex)[p];
      for (Index q = 0; q < count; ++q) square += alpha[p] * alpha[q] * gram_row(p)[q];
    }
    const double sign = away ? -1.0 : 1.0, slope = sign * (heights[vertex] - mean);
    const double limit = !away ? 1.0 : alpha[vertex] < 1.0 ? alpha[vertex] / (1.0 - alpha[vertex]) : 0.0;
    const double curvature = weight * (gram_row(vertex)[vertex] - 2.0 * cross + square);
    const double step = slope >= curvature * limit ? limit : slope / curvature;
    if (step <= 0.0) return 0.0;
    for (Index p = 0; p < count; ++p) alpha[p] *= 1.0 - sign * step;
    alpha[vertex] += sign * step;
    if ((away && step == limit) || alpha[vertex] < 0.0) alpha[vertex] = 0.0;
    if (!away && step == 1.0) {
      std::fill(alpha, alpha + count, 0.0);
      alpha[vertex] = 1.0;
    }
    return weight * step * (slope - 0.5 * curvature * step);
  }

  LATENTSTRUCT_INLINE double smo(Index steps) {
    double first = 0.0, total = 0.0;
    for (Index step = 0; step < steps && worst >= 0 && !(heights[best] <= heights[worst]); ++step) {
      const double gain = move_mass();
      total += gain;
      if (step == 0) first = gain;
      // More precision on planes that will soon be joined by better ones is wasted.
      else if (gain < 0.1 * first) break;
      find_best_and_worst();
    }
    return total;
  }

  // Increase the dual by the given rule, once the best and the worst plane are found; return the gain.
  LATENTSTRUCT_INLINE double update(Index rule, Index steps, double mean) {
    if (rule == SMO) return smo(steps);
    if (rule == PAIRWISE) return smo(1);
    if (worst < 0) return 0.0;
    const bool away = rule == AWAY && mean - heights[worst] > heights[best] - mean;
    return toward_vertex(away ? worst : best, away, mean);
  }
};

// Update the listed examples one after the other, and w. gaps[k] is the weighted gap of example k over its kept planes
// before its own update. Return the change of Σ_i c_i Σ_p α_ip b_ip and the gain of the dual value.
std::pair<double, double> ascend(Store store, Index rule, Index steps, Indices examples, Values w, Values gaps) {
  require_examples(examples, store.slots);
  require_length(examples.shape(0), gaps);
  require_length(store.n_features, w);
  Doubles memo = store.memo(), heights(store.slots.width), before(store.slots.width);
  double change = 0.0, gain = 0.0;
  for (std::size_t k = 0; k < examples.shape(0); ++k) {
    const Kept kept = store.kept(examples(k));
    const double weight = store.weights[examples(k)];
    gaps(k) = 0.0;
    if (weight == 0.0 || kept.count == 1) continue;
    kept.score(store.rows, kept.varied, w.data(), memo.data(), heights.data());
    for (Index p = 0; p < kept.count; ++p) {
      heights[p] += kept.offset[p];
      before[p] = kept.alpha[p];
    }
    Block block{kept.count, kept.side, weight, kept.alpha, heights.data(), kept.gram};
    block.find_best_and_worst();
    const double mean = block.mean();
    gaps(k) = weight * (heights[block.best] - mean);
    if (gaps(k) <= 0.0) continue;
    gain += block.update(rule, steps, mean);
    bool moved = false;
    for (Index p = 0; p < kept.count; ++p) {
      if (kept.alpha[p] > 0.0) kept.used[p] = std::max(kept.used[p], *store.clock);
      // The change of w is -c (α - α_before).
      before[p] = weight * (before[p] - kept.alpha[p]);
      change -= before[p] * kept.offset[p];
      moved |= before[p] != 0.0;
    }
    if (moved) kept.add(store.rows, kept.varied, before.data(), weight, memo.data(), w.data());
  }
  return {change, gain};
}

// The change of dual variables between two moments, for the examples with a change, and its sums.
struct Direction {
  std::vector<Index> examples, begin{0};
  Doubles steps;  // one per plane of these examples
  double offset = 0.0;  // Σ_i c_i Σ_p d_ip b_ip

  double *of(std::size_t k) { return steps.data() + begin[k]; }
};

// α − earlier α; planes that were dropped since then must not have had mass, otherwise the example is omitted.
Direction changes_since(const Store &store, const In<std::uint64_t, 2> &keys, const In<double, 2> &earlier) {
  // Sums of masses, and changes that are rounding errors, whose sums are not 0.
  constexpr double ROUNDING = 1e-9, LEAST = 1e-12;
  const Slots &slots = store.slots;
  Direction found;
  for (std::size_t i = 0; i < slots.n; ++i) {
    const Kept kept = store.kept(i);
    double sum = 0.0;
    bool changed = false;
    found.steps.resize(found.begin.back() + kept.count);
    double *steps = found.steps.data() + found.begin.back();
    for (Index p = 0; p < kept.count; ++p) {
      const bool known = static_cast<std::size_t>(p) < keys.shape(1) && keys(i, p) == slots.key[i * slots.width + p];
      const double mass = known ? earlier(i, p) : 0.0;
      sum += mass;
      steps[p] = kept.alpha[p] - mass;
      changed |= std::abs(steps[p]) > LEAST;
    }
    if (!changed || store.weights[i] == 0.0 || std::abs(sum - 1.0) > ROUNDING) continue;
    for (Index p = 0; p < kept.count; ++p) found.offset += store.weights[i] * steps[p] * kept.offset[p];
    found.examples.push_back(static_cast<Index>(i));
    found.begin.push_back(found.begin.back() + kept.count);
  }
  return found;
}

// Replace a point near the simplex, Σ_p point[p] = 1, by the nearest point of the simplex; return whether it had negative
// masses. Without them, only the rounding error of the sum is removed, which later steps would amplify.
bool project(double *point, Index n, Doubles &sorted) {
  if (std::all_of(point, point + n, [](double mass) { return mass >= 0.0; })) {
    const double total = std::accumulate(point, point + n, 0.0);
    for (Index p = 0; p < n; ++p) point[p] /= total;
    return false;
  }
  sorted.assign(point, point + n);
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0.0, shift = 0.0;
  for (Index p = 0; p < n; ++p) {
    sum += sorted[p];
    const double level = (sum - 1.0) / static_cast<double>(p + 1);
    if (sorted[p] <= level) break;
    shift = level;
  }
  for (Index p = 0; p < n; ++p) point[p] = std::max(0.0, point[p] - shift);
  return true;
}

// Sums of products, in four parts that do not wait for each other.
struct Products {
  double with_w, square;

  Products(const double *vector, const double *w, std::size_t n) {
    double products[4] = {}, squares[4] = {};
    for (std::size_t j = 0; j < n; ++j) {
      products[j % 4] += vector[j] * w[j];
      squares[j % 4] += vector[j] * vector[j];
    }
    with_w = (products[0] + products[1]) + (products[2] + products[3]);
    square = (squares[0] + squares[1]) + (squares[2] + squares[3]);
  }
};

// Move all dual variables on along the line from earlier ones, as far as is best for the dual without α ≥ 0, and project
// them on the simplices, unless that would not increase the dual. Update w. Return the change of Σ_i c_i Σ_p α_ip b_ip and
// the gain of the dual value.
std::pair<double, double> extrapolate(Store store, In<std::uint64_t, 2> keys, In<double, 2> earlier, Values w) {
  // Longer steps would amplify rounding errors.
  constexpr double LONGEST = 10.0;
  const std::size_t n = store.slots.n, d = store.n_features;
  require_length(n, keys, earlier);
  require(keys.shape(1) == earlier.shape(1), "keys and earlier masses must have the same shape");
  require_length(d, w);
  Direction direction = changes_since(store, keys, earlier);
  Doubles memo = store.memo(), coefficients(store.slots.width), sorted, masses(direction.steps.size());
  double *change = store.vector;
  const auto add = [&](std::size_t k, const double *steps, double scale) {
    const Kept kept = store.kept(direction.examples[k]);
    const double weight = store.weights[direction.examples[k]];
    for (Index p = 0; p < kept.count; ++p) coefficients[p] = scale * weight * steps[p];
    kept.add(store.rows, kept.varied, coefficients.data(), scale * weight, memo.data(), change);
  };
  for (std::size_t k = 0; k < direction.examples.size(); ++k) add(k, direction.of(k), 1.0);
  const Products line(change, w.data(), d);
  const double slope = direction.offset + line.with_w;
  double offset = 0.0, gain = 0.0;
  if (slope > 0.0 && line.square > 0.0) {
    const double length = std::min(slope / line.square, LONGEST);
    offset = length * direction.offset;
    for (std::size_t k = 0; k < direction.examples.size(); ++k) {
      const Kept kept = store.kept(direction.examples[k]);
      double *steps = direction.of(k), *target = masses.data() + direction.begin[k];
      for (Index p = 0; p < kept.count; ++p) target[p] = kept.alpha[p] + length * steps[p];
      if (!project(target, kept.count, sorted)) continue;
      // What the projection changes is added to the change of w on the line.
      for (Index p = 0; p < kept.count; ++p) {
        steps[p] = target[p] - kept.alpha[p] - length * steps[p];
        offset += store.weights[direction.examples[k]] * steps[p] * kept.offset[p];
      }
      add(k, steps, 1.0 / length);
    }
    const Products reached(change, w.data(), d);
    gain = offset + length * (reached.with_w - 0.5 * length * reached.square);
    if (gain > 0.0) {
      for (std::size_t k = 0; k < direction.examples.size(); ++k) {
        const Kept kept = store.kept(direction.examples[k]);
        std::copy_n(masses.data() + direction.begin[k], kept.count, kept.alpha);
      }
      for (std::size_t j = 0; j < d; ++j) w(j) -= length * change[j];
    }
  }
  std::fill_n(change, d, 0.0);
  return gain > 0.0 ? std::pair(offset, gain) : std::pair(0.0, 0.0);
}

// ------------------------------------------------------------------------------------------------- changes of tables

// A hash of an atom; that of a plane is their sum.
inline std::uint64_t atom_key(Column row, Column column, double value) {
  const std::uint64_t place = std::uint64_t(std::uint32_t(row)) << 32 | std::uint32_t(column);
  std::uint64_t key = (place + std::bit_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15 ^ place;
  key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9;
  key = (key ^ key >> 27) * 0x94D049BB133111EB;
  return key ^ key >> 31;
}

// An open hash table of numbers of atoms.
class Places {
  std::vector<std::int32_t> places;
  std::size_t mask = 0;

public:
  // Clear the table, and allocate space for n numbers.
  void reset(std::size_t n) {
    mask = std::bit_ceil(std::max<std::size_t>(16, 2 * n)) - 1;
    if (places.size() <= mask) places.resize(mask + 1);
    std::fill_n(places.begin(), mask + 1, -1);
  }
  // The number with this hash for which same(number) holds, or the free slot for it, which is -1.
  template <typename Same> std::int32_t &find(std::uint64_t hash, Same same) {
    std::size_t place = hash & mask;
    while (places[place] >= 0 && !same(places[place])) place = (place + 1) & mask;
    return places[place];
  }
};

// Work space for changes of tables.
struct Workspace {
  Places places;
  std::vector<std::int32_t> users, last_user, owner, found;
  std::vector<Column> rows, columns;
  std::vector<Number> order, common, spare;
  Doubles values, shares;
};

// Move the example's table to the end of the used atoms if it lacks space for `needed` atoms.
void widen_table(Index example, Index needed, const Tables &tables) {
  if (needed <= tables.capacity[example]) return;
  const Index end = tables.end[0];
  require(end + needed <= static_cast<Index>(tables.atoms.n), "atoms do not fit into their arrays");
  const AtomTable old = tables.atoms.from(tables.start[example]), moved = tables.atoms.from(end);
  const Index length = tables.length[example];
  std::copy_n(old.row, length, moved.row);
  std::copy_n(old.column, length, moved.column);
  std::copy_n(old.value, length, moved.value);
  tables.start[example] = end;
  tables.capacity[example] = needed;
  tables.end[0] += needed;
}

// Take `n` numbers at the end of the used ones; return their start.
Index take_numbers(Index n, const Tables &tables) {
  const Index start = tables.end[1];
  require(start + n <= static_cast<Index>(tables.n_numbers), "numbers do not fit into their array");
  tables.end[1] += n;
  return start;
}

// Order numbers of atoms by row, stable; mostly a few new ones follow many that are in order.
void sort_by_row(std::vector<Number> &numbers, std::vector<Number> &spare, const Column *rows) {
  const auto less = [&](Number a, Number b) { return rows[a] < rows[b]; };
  const auto middle = std::is_sorted_until(numbers.begin(), numbers.end(), less);
  if (middle == numbers.end()) return;
  if (!std::is_sorted(middle, numbers.end(), less)) std::stable_sort(middle, numbers.end(), less);
  spare.resize(numbers.size());
  std::merge(numbers.begin(), middle, middle, numbers.end(), spare.begin(), less);
  numbers.swap(spare);
}

// Remove atoms that no kept plane uses from the example's table, move common ones last, and order both kinds by row. The first
// atom of a plane stays first, because callers identify planes by it; it is not counted as common. All other order is stable.
void sort_table(Index example, const Tables &tables, const Slots &slots, Workspace &work) {
  const Kept kept(tables, slots, example);
  const Index length = kept.n_atoms, count = kept.count;
  work.users.assign(length, 0);
  work.last_user.assign(length, -1);
  std::int32_t *users = work.users.data(), *last_user = work.last_user.data();
  for (Index p = 0; p < count; ++p) {
    const Index start = kept.start[p];
    for (Index k = start; k < start + kept.length[p]; ++k) {
      const Number a = kept.numbers[k];
      // More users than planes mark an atom that is first, or repeated.
      users[a] = last_user[a] != p && k > start ? users[a] + 1 : static_cast<std::int32_t>(count + 1);
      last_user[a] = static_cast<std::int32_t>(p);
    }
  }
  work.order.clear();
  work.common.clear();
  for (Index a = 0; a < length; ++a)
    if (users[a] > 0) (users[a] == count ? work.common : work.order).push_back(static_cast<Number>(a));
  const Index varied = work.order.size();
  sort_by_row(work.order, work.spare, kept.table.row);
  sort_by_row(work.common, work.spare, kept.table.row);
  work.order.insert(work.order.end(), work.common.begin(), work.common.end());
  work.rows.assign(kept.table.row, kept.table.row + length);
  work.columns.assign(kept.table.column, kept.table.column + length);
  work.values.assign(kept.table.value, kept.table.value + length);
  for (std::size_t number = 0; number < work.order.size(); ++number) {
    const Number a = work.order[number];
    kept.table.row[number] = work.rows[a];
    kept.table.column[number] = work.columns[a];
    kept.table.value[number] = work.values[a];
    users[a] = static_cast<std::int32_t>(number);
  }
  tables.length[example] = work.order.size();
  tables.varied[example] = varied;
  for (Index p = 0; p < count; ++p) {
    Number *const first = kept.numbers + kept.start[p], *const last = first + kept.length[p], *end = first;
    Number *common = work.common.data();
    for (const Number *k = first; k < last; ++k) {
      const Number number = users[*k];
      (number < varied ? *end++ : *common++) = number;
    }
    std::copy(work.common.data(), common, end);
  }
}

// The hash of the atoms of a kept plane.
std::uint64_t plane_key(const Kept &kept, Index p) {
  std::uint64_t key = 0;
  for (const Number *k = kept.numbers + kept.start[p], *last = k + kept.length[p]; k < last; ++k)
    key += atom_key(kept.table.row[*k], kept.table.column[*k], kept.table.value[*k]);
  return key;
}

// Compute derived fields of the planes: their keys, and the common atoms.
void complete(Tables tables, Slots slots) {
  Workspace work;
  for (std::size_t i = 0; i < slots.n; ++i) {
    const Kept kept(tables, slots, i);
    for (Index p = 0; p < kept.count; ++p) slots.key[i * slots.width + p] = plane_key(kept, p);
    sort_table(i, tables, slots, work);
  }
}

// The two planes with the least dual mass, of at least two.
std::pair<Index, Index> lightest(const Kept &kept) {
  const double *alpha = kept.alpha;
  Index first = alpha[1] < alpha[0], second = 1 - first;
  for (Index p = 2; p < kept.count; ++p) {
    if (alpha[p] < alpha[first]) second = std::exchange(first, p);
    else if (alpha[p] < alpha[second]) second = p;
  }
  return {first, second};
}

// Move the dual mass of plane p to the plane with the least loss of dual value; update w. Return the change of
// Σ c α b.
double hand_over(const Store &store, Index example, Index p, double *w, double *memo) {
  const Kept kept = store.kept(example);
  const double moved = kept.alpha[p], weight = store.weights[example];
  if (moved == 0.0) return 0.0;
  require(kept.count > 1, "the last plane of an example cannot be dropped");
  Doubles heights(kept.count), coefficients(kept.count);
  kept.score(store.rows, kept.varied, w, memo, heights.data());
  const double *gram = kept.gram;
  Index best = p == 0 ? 1 : 0;
  double least = INFINITE;
  for (Index q = 0; q < kept.count; ++q) {
    if (q == p) continue;
    const double curvature =
        weight * moved * (gram[p * kept.side + p] - 2.0 * gram[p * kept.side + q] + gram[q * kept.side + q]);
    const double loss = 0.5 * curvature - heights[q] - kept.offset[q];
    if (loss < least) {
      best = q;
      least = loss;
    }
  }
  coefficients[best] = -weight * moved;
  coefficients[p] = weight * moved;
  kept.add(store.rows, kept.varied, coefficients.data(), weight, memo, w);
  kept.alpha[best] += moved;
  kept.alpha[p] = 0.0;
  return weight * moved * (kept.offset[best] - kept.offset[p]);
}

// Move the last plane of the example to the slot of plane p.
void remove_slot(Index example, Index p, const Slots &slots) {
  const Index last = slots.count[example] - 1, side = slots.side[example];
  const auto move = [&](auto *field) { field[example * slots.width + p] = field[example * slots.width + last]; };
  move(slots.start);
  move(slots.length);
  move(slots.offset);
  move(slots.alpha);
  move(slots.used);
  move(slots.key);
  move(slots.mixed);
  double *gram = slots.gram + slots.corner[example];
  for (Index q = 0; q < last; ++q) {
    gram[p * side + q] = gram[last * side + q];
    gram[q * side + p] = gram[q * side + last];
  }
  gram[p * side + p] = gram[last * side + last];
  slots.count[example] = static_cast<std::int32_t>(last);
}

// Drop the planes (examples, places), the places of one example decreasing; each must keep at least one. Return the change of
// Σ c α b; w is updated.
double drop_planes(Store store, Indices examples, Indices places, Values w) {
  require_examples(examples, store.slots);
  require_length(examples.shape(0), places);
  require_length(store.n_features, w);
  Workspace work;
  Doubles memo = store.memo();
  double change = 0.0;
  for (std::size_t k = 0; k < examples.shape(0); ++k) {
    const Index example = examples(k), p = places(k);
    require(0 <= p && p < store.slots.count[example], "places must be those of kept planes");
    change += hand_over(store, example, p, w.data(), memo.data());
    remove_slot(example, p, store.slots);
    if (k + 1 == examples.shape(0) || examples(k + 1) != example) sort_table(example, store.tables, store.slots, work);
  }
  return change;
}

// Append the atoms of the example's table times their shares to the table, and the plane of them to the numbers. Atoms of
// the same row and column become one, so that means of means do not grow indefinitely; those with a share of 1 are not
// changed.
void add_shares(Index example, const Tables &tables, Workspace &work) {
  const AtomTable table = tables.atoms.from(tables.start[example]);
  const Index length = tables.length[example];
  Index added = length;
  work.places.reset(length);
  for (Index a = 0; a < length; ++a) {
    const double share = work.shares[a];
    if (share == 0.0) continue;
    if (share == 1.0) {
      tables.numbers[take_numbers(1, tables)] = static_cast<Number>(a);
      continue;
    }
    const Column row = table.row[a], column = table.column[a];
    std::int32_t &number = work.places.find(atom_key(row, column, 0.0), [&](std::int32_t other) {
      return table.row[other] == row && table.column[other] == column;
    });
    if (number < 0) {
      number = static_cast<std::int32_t>(added++);
      table.row[number] = row;
      table.column[number] = column;
      table.value[number] = 0.0;
      tables.numbers[take_numbers(1, tables)] = number;
    }
    table.value[number] += share * table.value[a];
  }
  tables.length[example] = added;
}

// Replace the two lightest planes of each listed example by their mean, which does not change the dual point. A mean of
// planes below a function is below it too. The caller has allocated space for all atoms of both planes.
void merge_lightest(Indices examples, Tables tables, Slots slots) {
  require_examples(examples, slots);
  Workspace work;
  for (std::size_t k = 0; k < examples.shape(0); ++k) {
    const Index example = examples(k), corner = example * slots.width;
    const Kept kept(tables, slots, example);
    require(kept.count > 1, "an example with one plane has none to merge");
    const auto [p, q] = lightest(kept);
    const double mass = kept.alpha[p] + kept.alpha[q], part = kept.alpha[p] / mass, rest = 1.0 - part;
    work.shares.assign(kept.n_atoms, 0.0);
    for (const auto &[plane, share] : {std::pair(p, part), std::pair(q, rest)})
      for (Index a = kept.start[plane]; a < kept.start[plane] + kept.length[plane]; ++a)
        work.shares[tables.numbers[a]] += share;
    widen_table(example, kept.n_atoms + kept.length[p] + kept.length[q], tables);
    const Index start = tables.end[1];
    add_shares(example, tables, work);
    kept.offset[p] = part * kept.offset[p] + rest * kept.offset[q];
    kept.start[p] = start;
    kept.length[p] = static_cast<std::int32_t>(tables.end[1] - start);
    kept.alpha[p] = mass;
    kept.used[p] = std::max(kept.used[p], kept.used[q]);
    slots.mixed[corner + p] = true;
    double *of_p = kept.gram + p * kept.side, *of_q = kept.gram + q * kept.side;
    const double square = part * part * of_p[p] + 2.0 * part * rest * of_p[q] + rest * rest * of_q[q];
    for (Index r = 0; r < kept.count; ++r) {
      of_p[r] = part * of_p[r] + rest * of_q[r];
      kept.gram[r * kept.side + p] = of_p[r];
    }
    of_p[p] = square;
    slots.key[corner + p] = plane_key(Kept(tables, slots, example), p);
    remove_slot(example, q, slots);
    sort_table(example, tables, slots, work);
  }
}

// Copy the Gram matrices of all examples to other corners of `target`, where they have other sides.
void move_matrices(Indices corners, Indices sides, Slots slots, Values target) {
  require_length(slots.n, corners, sides);
  for (std::size_t i = 0; i < slots.n; ++i) {
    const Index count = slots.count[i], side = sides(i);
    require(count <= side && corners(i) >= 0 && corners(i) + side * side <= static_cast<Index>(target.shape(0)),
            "Gram matrices do not fit into their array");
    for (Index p = 0; p < count; ++p)
      std::copy_n(slots.gram + slots.corner[i] + p * slots.side[i], count, target.data() + corners(i) + p * side);
    slots.corner[i] = corners(i);
    slots.side[i] = side;
  }
}

// Move tables and planes to the left until there are no gaps. `table_order` lists the examples, (examples, places)
// the kept planes, both by their current starts. The order of atoms within a table, and so of sums, does not change.
void compact(Tables tables, Slots slots, Indices table_order, Indices examples, Indices places) {
  require_length(slots.n, table_order);
  require_length(examples.shape(0), places);
  require_examples(table_order, slots);
  require_examples(examples, slots);
  Index end = 0;
  for (std::size_t k = 0; k < slots.n; ++k) {
    const Index example = table_order(k), length = tables.length[example];
    const AtomTable from = tables.atoms.from(tables.start[example]), to = tables.atoms.from(end);
    std::copy_n(from.row, length, to.row);
    std::copy_n(from.column, length, to.column);
    std::copy_n(from.value, length, to.value);
    tables.start[example] = end;
    tables.capacity[example] = length;
    end += length;
  }
  tables.end[0] = end;
  end = 0;
  for (std::size_t k = 0; k < examples.shape(0); ++k) {
    const Index slot = examples(k) * slots.width + places(k);
    std::copy_n(tables.numbers + slots.start[slot], slots.length[slot], tables.numbers + end);
    slots.start[slot] = end;
    end += slots.length[slot];
  }
  tables.end[1] = end;
}

// ------------------------------------------------------------------------------------------------- new planes

// Find n new atoms in the example's table, adding missing ones; their numbers there go to `numbers`.
void number_atoms(Index example, const Atoms &fresh, Index n, const Tables &tables, Workspace &work, Number *numbers) {
  const AtomTable table = tables.atoms.from(tables.start[example]);
  Index &length = tables.length[example];
  // owner[k] is the first new atom that equals atom k, found[k] its number in the table.
  work.owner.resize(n);
  work.found.assign(n, -1);
  work.places.reset(n);
  const auto find = [&](Column row, Column column, double value) -> std::int32_t & {
    return work.places.find(atom_key(row, column, value), [&](std::int32_t k) {
      return fresh.row[k] == row && fresh.column[k] == column && fresh.value[k] == value;
    });
  };
  for (Index k = 0; k < n; ++k) {
    std::int32_t &number = find(fresh.row[k], fresh.column[k], fresh.value[k]);
    if (number < 0) number = static_cast<std::int32_t>(k);
    work.owner[k] = number;
  }
  for (Index a = 0; a < length; ++a) {
    const std::int32_t number = find(table.row[a], table.column[a], table.value[a]);
    if (number >= 0) work.found[number] = static_cast<std::int32_t>(a);
  }
  for (Index k = 0; k < n; ++k) {
    std::int32_t &number = work.found[work.owner[k]];
    if (number < 0) {
      number = static_cast<std::int32_t>(length++);
      table.row[number] = fresh.row[k];
      table.column[number] = fresh.column[k];
      table.value[number] = fresh.value[k];
    }
    numbers[k] = number;
  }
}

// The slot that already holds this plane, or -1.
Index find_slot(const Kept &kept, const std::uint64_t *keys, std::uint64_t key, double offset, Index length) {
  for (Index p = 0; p < kept.count; ++p)
    if (keys[p] == key && kept.offset[p] == offset && kept.length[p] == length) return p;
  return -1;
}

// A slot for a new plane: one whose plane is unused, an empty one, or -1 if there is none. A plane without
// weight costs nothing to drop; it is dropped when it was last used before `oldest`, or when all slots are taken.
Index free_slot(const Kept &kept, Index oldest, std::int32_t &count) {
  Index victim = -1;
  for (Index p = 0; p < kept.count; ++p)
    if (kept.alpha[p] == 0.0 && (victim < 0 || kept.used[p] < kept.used[victim])) victim = p;
  if (kept.count < kept.side && (victim < 0 || kept.used[victim] >= oldest)) return count++;
  return victim;
}

// Append new planes, one per listed example; the caller has allocated space.
//
// A plane that exists already is only marked as used. New planes get α = 0, or α = 1 when they are the example's first.
// w changes only if a plane with mass is dropped. Return the change of Σ c α b.
double append_planes(Store store, Indices examples, Atoms atoms, Indices pointers, Vector offsets, Index idle, Values w) {
  const Slots &slots = store.slots;
  const Tables &tables = store.tables;
  require_examples(examples, slots);
  require_length(examples.shape(0), offsets);
  require_planes(pointers, atoms, examples.shape(0));
  require_length(store.n_features, w);
  Workspace work;
  Doubles memo, heights(slots.width);
  const Index now = *store.clock;
  double change = 0.0;
  for (std::size_t k = 0; k < examples.shape(0); ++k) {
    const Index example = examples(k), corner = example * slots.width, n = pointers(k + 1) - pointers(k);
    const Atoms fresh = atoms.from(pointers(k));
    const Kept old = store.kept(example);
    if (static_cast<Index>(memo.size()) < old.n_atoms + n) memo.resize(2 * (old.n_atoms + n));
    std::uint64_t key = 0;
    for (Index a = 0; a < n; ++a) key += atom_key(fresh.row[a], fresh.column[a], fresh.value[a]);
    Index p = find_slot(old, slots.key + corner, key, offsets(k), n);
    if (p >= 0) {
      old.used[p] = std::max(old.used[p], now);
      continue;
    }
    p = free_slot(old, now - idle, slots.count[example]);
    if (p < 0) {
      p = lightest(old).first;
      change += hand_over(store, example, p, w.data(), memo.data());
    }
    widen_table(example, old.n_atoms + n, tables);
    const Index start = take_numbers(n, tables);
    number_atoms(example, fresh, n, tables, work, tables.numbers + start);
    old.start[p] = start;
    old.length[p] = static_cast<std::int32_t>(n);
    old.offset[p] = offsets(k);
    old.alpha[p] = old.count == 0 ? 1.0 : 0.0;
    old.used[p] = now;
    slots.key[corner + p] = key;
    slots.mixed[corner + p] = false;
    sort_table(example, tables, slots, work);
    const Kept kept = store.kept(example);
    plane_add(store.rows, fresh, n, 1.0, store.vector);
    kept.score(store.rows, kept.n_atoms, store.vector, memo.data(), heights.data());
    plane_clear(store.rows, fresh, n, store.vector);
    for (Index q = 0; q < kept.count; ++q) kept.gram[p * kept.side + q] = kept.gram[q * kept.side + p] = heights[q];
  }
  return change;
}

} // namespace

LATENTSTRUCT_MODULE(planes, PLAIN, AWAY, PAIRWISE, SMO, planes_dot, planes_add, combine, mean_heights, add_highest, ascend,
                    extrapolate, complete, drop_planes, merge_lightest, move_matrices, compact, append_planes)
