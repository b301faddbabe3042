// Pairwise alignment with affine gaps: the best one of each pair, sums over all of them, and features.
//
// A path visits states M (letters i and j matched), D (letter i of a against a gap) and I (letter j of b against a gap):
//
//     M(i, j) = s(i, j) · (M + D + I + start)(i-1, j-1)
//     D(i, j) = gap · M(i-1, j) + more · D(i-1, j)
//     I(i, j) = gap · (M + D)(i, j-1) + more · I(i, j-1)
//
// where + and · are those of a domain: max and + of scores (Hard), log-sum and + of scores (Log), or + and · of their
// exponentials (Linear). I is never followed by D, so that a set of matches has exactly one path. Global paths lead from
// corner to corner; local ones start and end with a match anywhere, or are empty with score 0.
//
// Sums are made in the linear domain, without rescaling, where no step weighs more than exp(±100). Local paths may start
// and end at any match with weight 1, so that whatever underflows beside them does not count; global paths are brought
// into the same situation by a gain of `extend` for each letter read, after which a gap may continue without cost. Where
// weights are too large for this, or a path must contain known matches, sums are made by logarithms.
//
// Backwards, each state passes its probability on to those before it, in proportion to what they contributed: log Z
// itself is too coarse to normalize by where scores are large.
#include "domains.hpp"
#include "arrays.hpp"
#include "sparse_sum.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

using namespace latentstruct;

namespace {
using Matches = In<Index, 2>;

// Largest Z of the linear domain. A step weighs exp(-100) at least, and no message is more than about two steps away
// from a whole path, so that all messages are below 1e300 then.
constexpr double LARGEST_SUM = 1e200;
constexpr double NEGLIGIBLE = 1e-20;

enum Mark : std::uint8_t {
  START = 0,
  MATCH = 1,
  DELETE = 2,
  INSERT = 3,
  STATE = 3,
  DELETION_GOES_ON = 4,
  INSERTION_GOES_ON = 8,
  INSERTION_AFTER_DELETION = 16
};

// See the Python classes of these names. Codes and references were checked with the batch.
struct Pairs {
  const std::uint64_t *starts;
  const std::uint32_t *codes;
  const double *left, *right;
  const Index *first_a, *first_b, *partner;
  Index n, groups, length_a, length_b, profile;

  static Pairs read(const Fields &fields) {
    Index n = -1, g = -1, a = -1, b = -1, q = -1;
    const Pairs found{fields.get<const std::uint64_t>("starts", &g, &a), fields.get<const std::uint32_t>("codes", g, &b),
                      fields.get<const double>("left", a, &q), fields.get<const double>("right", q, b),
                      fields.indices("first_a", {&n, 1}), fields.indices("first_b", {&n, 1}), fields.indices("partner", a), n, g, a, b, q};
    require(found.first_a[n] == a && found.first_b[n] == b, "pairs must cover their positions");
    return found;
  }

  Index height(Index k) const { return first_a[k + 1] - first_a[k]; }
  Index width(Index k) const { return first_b[k + 1] - first_b[k]; }

  // The columns of pair k near the partner of position i, if it has one.
  std::pair<Index, Index> near(Index k, Index i, Index tolerance) const {
    if (partner[i] < 0) return {0, 0};
    return {std::max(Index(0), partner[i] - tolerance), std::min(width(k), partner[i] + tolerance + 1)};
  }
};

struct Scoring {
  const double *tables, *dense;
  Index cells, profile;
  double open, extend;
  bool local, linear;
  Index tolerance;

  static Scoring read(const Fields &fields) {
    Index cells = -1, profile = -1;
    const auto *tables = fields.get<const double>("tables", &cells), *dense = fields.get<const double>("dense", &profile);
    return {tables, dense, cells, profile, fields.number<double>("open"), fields.number<double>("extend"),
            fields.number<bool>("local"), fields.number<bool>("linear"), fields.number<Index>("tolerance")};
  }
};

struct Numbering {
  const Index *cells, *at, *each, *dense;
  const std::int32_t *numbers;
  Index groups, profile, n_weights;

  static Numbering read(const Fields &fields) {
    Index g = -1, q = -1, any = -1;
    return {fields.indices("cells", {&g, 1}), fields.indices("at", &g), fields.indices("each", &g), fields.indices("dense", &q),
            fields.get<const std::int32_t>("numbers", &any), g, q, fields.number<Index>("n_weights")};
  }

  // Add the weights of a cell.
  void add(SparseSum &sum, Index group, Index cell, double value) const {
    const std::int32_t *first = numbers + at[group] + (cell - cells[group]) * each[group];
    for (Index t = 0; t < each[group]; ++t) sum.add(first[t], value);
  }
};

// ---- one row ----

// Scores of states in a row, or their probabilities. Rows are padded to whole lanes; no path visits the padding.
struct Row {
  double *matched, *deleted, *inserted;
  Row operator+(Index offset) const { return {matched + offset, deleted + offset, inserted + offset}; }
};

// Two rows of n columns, padding included and `span` without it, and what leads from one to the next in a domain: scores
// of matches, costs of gaps, and the weight of paths that begin there. A row `forced` to a column >= 0 is matched there
// and nowhere else. Backwards, `mass` and `next` are the probabilities of both rows, and `opened` and `longer` collect
// gaps that are opened and further letters.
struct Move {
  double gap, more, start, *scores, *work, *opened, *longer;
  Index span, n, forced;
  Row before, here, mass, next;
};

// An array as `scan` reads it.
LATENTSTRUCT_INLINE auto numbers(const double *values) {
  return [=](Index j) __attribute__((always_inline)) { return load(values + j); };
}

// The insertions of a row from its matches and deletions; one number beyond the row is overwritten.
template <typename S> LATENTSTRUCT_INLINE void insert(const Move &move) {
  const Row here = move.here;
  const Lanes gap = all_lanes(move.gap), more = all_lanes(move.more);
  const auto entering = [=](Index j) __attribute__((always_inline)) {
    return S::times(S::sum(load(here.matched + j), load(here.deleted + j)), gap);
  };
  scan<S>(move.n, entering, [=](Index) __attribute__((always_inline)) { return more; }, here.inserted + 1);
}

// The same by logarithms: sums are measured against running maxima, whose ratios make up a linear recurrence.
template <> LATENTSTRUCT_INLINE void insert<Log>(const Move &move) {
  const Row here = move.here;
  double *entering = move.work, *ratios = move.work + move.n, *highs = here.inserted + 1;
  LATENTSTRUCT_INDEPENDENT
  for (Index j = 0; j < move.n; ++j) entering[j] = Log::sum(here.matched[j], here.deleted[j]) + move.gap;
  // One after the other, as these must not differ by rounding.
  here.inserted[0] = -INFINITE;
  for (Index j = 0; j < move.n; ++j) highs[j] = Hard::sum(entering[j], here.inserted[j] + move.more);
  LATENTSTRUCT_INDEPENDENT
  for (Index j = 0; j < move.n; ++j) {
    const double high = highs[j] > -INFINITE ? highs[j] : 0.0;
    entering[j] = exp_of(entering[j] - high);
    ratios[j] = exp_of(here.inserted[j] + move.more - high);
  }
  scan<Linear>(move.n, numbers(entering), numbers(ratios), entering);
  LATENTSTRUCT_INDEPENDENT
  for (Index j = 0; j < move.n; ++j) highs[j] += log_of(entering[j]);
}

// Fill in a row from the one before.
template <typename S> LATENTSTRUCT_INLINE void advance_row(const Move &move) {
  const Row before = move.before, here = move.here;
  const auto match = [=, scores = move.scores, start = move.start](Index j) __attribute__((always_inline)) {
    return S::times(scores[j], S::sum(before.matched[j], before.deleted[j], before.inserted[j], start));
  };
  if (move.forced >= 0) {
    std::fill_n(here.matched, move.n, S::zero);
    std::fill_n(here.deleted, move.n, S::zero);
    here.matched[move.forced + 1] = match(move.forced);
  } else {
    const double gap = move.gap, more = move.more;
    LATENTSTRUCT_INDEPENDENT
    for (Index j = 0; j < move.n; ++j) {
      here.deleted[j] = S::sum(S::times(before.matched[j], gap), S::times(before.deleted[j], more));
      here.matched[j + 1] = match(j);
    }
    here.matched[0] = S::zero;
  }
  insert<S>(move);
  here.inserted[0] = S::zero;
  std::fill(here.inserted + move.span, here.inserted + move.n + 1, S::zero);
}

LATENTSTRUCT_CLONES void advance(Hard, const Move &move) { advance_row<Hard>(move); }
LATENTSTRUCT_CLONES void advance(Log, const Move &move) { advance_row<Log>(move); }
LATENTSTRUCT_CLONES void advance(Linear, const Move &move) { advance_row<Linear>(move); }

// Pass the probabilities of a row's states on, first within the row and then to the row before.
template <typename S> LATENTSTRUCT_INLINE void retreat_row(const Move &move) {
  const auto [gap, more, start, scores, work, opened, longer, span, n, forced, before, here, mass, next] = move;
  double *to_match = work, *to_delete = work + n, *ratios = work + 2 * n;
  LATENTSTRUCT_INDEPENDENT
  for (Index j = 0; j < n; ++j) {
    const double m = S::times(here.matched[j], gap), d = S::times(here.deleted[j], gap);
    const auto shares = S::shares(m, d, S::times(here.inserted[j], more));
    to_match[j] = shares[0], to_delete[j] = shares[1], ratios[j] = shares[2];
  }
  scan<Linear, false>(n, numbers(mass.inserted), numbers(ratios), mass.inserted);
  LATENTSTRUCT_INDEPENDENT
  for (Index j = 0; j < n; ++j) {
    const double share = mass.inserted[j + 1], m = share * to_match[j], d = share * to_delete[j];
    mass.matched[j] += m, mass.deleted[j] += d;
    opened[j] += m + d, longer[j] += share * ratios[j];
  }
  if (before.matched == here.matched) return;
  LATENTSTRUCT_INDEPENDENT
  for (Index j = 0; j < n; ++j) {
    const double deleted = mass.deleted[j], matched = mass.matched[j + 1], m = before.matched[j], d = before.deleted[j];
    const auto gaps = S::shares(S::times(m, gap), S::times(d, more));
    const auto matches = S::shares(m, d, before.inserted[j], start);
    next.matched[j] = deleted * gaps[0] + matched * matches[0];
    next.deleted[j] = deleted * gaps[1] + matched * matches[1];
    next.inserted[j] = matched * matches[2];
    opened[j] += deleted * gaps[0], longer[j] += deleted * gaps[1];
  }
}

LATENTSTRUCT_CLONES void retreat(Log, const Move &move) { retreat_row<Log>(move); }
LATENTSTRUCT_CLONES void retreat(Linear, const Move &move) { retreat_row<Linear>(move); }

// How the matches of a pair score in a domain: Σ of tables, dense features and a bonus, where matches near the reference
// lose `gain`.
struct Scorer {
  const Pairs &pairs;
  const Scoring &scoring;
  const double *tables;
  double bonus, gain;
  Index k;
  double *out;

  // Write the scores of row i.
  template <typename S> LATENTSTRUCT_INLINE void row(Index i) const {
    const Index at = pairs.first_a[k] + i - 1, first = pairs.first_b[k], width = pairs.width(k);
    const bool dense = scoring.profile > 0;
    const double base = S::of(bonus);
    double *__restrict scores = out;
    if (dense) std::fill_n(scores, width, bonus);
    for (Index q = 0; q < scoring.profile; ++q) {
      const double factor = scoring.dense[q] * pairs.left[at * pairs.profile + q];
      const double *__restrict right = pairs.right + q * pairs.length_b + first;
      for (Index j = 0; factor != 0.0 && j < width; ++j) scores[j] += factor * right[j];
    }
    for (Index j = 0; dense && j < width; ++j) scores[j] = S::of(scores[j]);
    for (Index g = 0; g < pairs.groups; ++g) {
      const double *__restrict table = tables + pairs.starts[g * pairs.length_a + at];
      const std::uint32_t *__restrict codes = pairs.codes + g * pairs.length_b + first;
      if (g == 0 && !dense) {
        LATENTSTRUCT_INDEPENDENT
        for (Index j = 0; j < width; ++j) scores[j] = S::times(base, table[codes[j]]);
      } else {
        LATENTSTRUCT_INDEPENDENT
        for (Index j = 0; j < width; ++j) scores[j] = S::times(scores[j], table[codes[j]]);
      }
    }
    const auto [low, high] = pairs.near(k, at, scoring.tolerance);
    for (Index j = low; gain != 0.0 && j < high; ++j) scores[j] = S::times(scores[j], S::of(-gain));
  }
};

LATENTSTRUCT_CLONES void score(Hard, const Scorer &scorer, Index i) { scorer.row<Hard>(i); }
LATENTSTRUCT_CLONES void score(Linear, const Scorer &scorer, Index i) { scorer.row<Linear>(i); }

// The marks of one row of cells, by which the best path is traced back: where D and I come from, and the best state
// here, or that a path starts behind this cell instead.
LATENTSTRUCT_CLONES void mark_row(const Move &move, double floor, std::uint8_t *__restrict marks) {
  const Row before = move.before, here = move.here;
  const double gap = move.gap, more = move.more;
  for (Index j = 0; j < move.span; ++j) {
    const double m = here.matched[j], d = here.deleted[j], i = here.inserted[j], top = Hard::sum(m, d, i);
    const int state = m >= top ? MATCH : d >= top ? DELETE : INSERT;
    const int deletion = before.deleted[j] + more > before.matched[j] + gap ? DELETION_GOES_ON : 0;
    marks[j] = static_cast<std::uint8_t>((top > floor ? state : START) | deletion);
  }
  for (Index j = 1; j < move.span; ++j) {
    const double m = here.matched[j - 1], d = here.deleted[j - 1], i = here.inserted[j - 1];
    const int goes_on = i + more > Hard::sum(m, d) + gap ? INSERTION_GOES_ON : 0;
    marks[j] |= static_cast<std::uint8_t>(goes_on | (d > m ? INSERTION_AFTER_DELETION : 0));
  }
}

// The weights of the ends of n paths, n divisible by 8, relative to `high`: their sum, or, if `shares` are given,
// factor·weight is added to these.
template <typename S>
LATENTSTRUCT_INLINE double weigh_ends(const double *ends, Index n, double high, double factor, double *__restrict shares) {
  const auto weight = [=](Index j) __attribute__((always_inline)) {
    return std::is_same_v<S, Linear> ? ends[j] : exp_of(ends[j] - high);
  };
  double sums[WIDTH] = {};
  for (Index j = 0; shares != nullptr && j < n; ++j) shares[j] += factor * weight(j);
  for (Index k = 0; shares == nullptr && k < n; k += WIDTH)
    for (Index j = 0; j < WIDTH; ++j) sums[j] += weight(k + j);
  return sum_of(sums, WIDTH);
}

LATENTSTRUCT_CLONES double weigh(Log, const double *ends, Index n, double high, double factor, double *shares) {
  return weigh_ends<Log>(ends, n, high, factor, shares);
}
LATENTSTRUCT_CLONES double weigh(Linear, const double *ends, Index n, double high, double factor, double *shares) {
  return weigh_ends<Linear>(ends, n, high, factor, shares);
}

LATENTSTRUCT_CLONES double highest(const double *scores, Index n) { return largest(scores, n); }

// ---- one pair ----

// Alignments of one pair at a time, with memory for the largest of some.
class Aligner {
  const Pairs &pairs;
  const Scoring &scoring;
  std::vector<double> linear_tables;
  Memory memory;
  std::vector<std::uint8_t> marks;
  Row table; // All rows, or two of them.
  Move move{};
  Index k = 0, height = 0, width = 0;
  Index first = 0, last = -1; // The first and the last position of a whose partner must be kept; (A, -1) if none is.
  bool clamped = false;

public:
  Index rows = 0, columns = 0; // The last cell of the best path, (0, 0) if it has no match.

  // With `all_rows`, sums over all paths can be made; otherwise best paths are found, and can be traced if `traced`.
  Aligner(const Pairs &pairs, const Scoring &scoring, const Indices &chosen, bool all_rows, bool traced)
      : pairs(pairs), scoring(scoring) {
    require(scoring.profile == pairs.profile, "scores must fit the pairs' profiles");
    Index widest = 0, size = 0, cells = 0;
    for (std::size_t r = 0; r < chosen.shape(0); ++r) {
      const Index columns = pairs.width(chosen(r)) + 1, lines = pairs.height(chosen(r)) + 1;
      widest = std::max(widest, padded(columns));
      size = std::max(size, (all_rows ? lines : 2) * padded(columns));
      cells = std::max(cells, lines * columns);
    }
    if (traced) marks.resize(cells);
    if (all_rows && scoring.linear) {
      linear_tables.assign(scoring.tables, scoring.tables + scoring.cells);
      exp_each(linear_tables.data(), linear_tables.size());
    }
    // One number beyond each array may be overwritten.
    size += WIDTH, widest += WIDTH;
    memory = allocate(3 * size + 12 * widest);
    double *at = memory.get();
    const auto take = [&](Index n) { return std::exchange(at, at + n); };
    const auto take_row = [&](Index n) { return Row{take(n), take(n), take(n)}; };
    table = take_row(size), move.mass = take_row(widest), move.next = take_row(widest);
    move.scores = take(widest), move.opened = take(widest), move.longer = take(widest), move.work = take(3 * widest);
  }

  // Find the best path of a pair, where matches near the reference lose `gain`, and which contains the reference if
  // `held`; return its score.
  double best(Index pair, double gain, bool held) {
    choose(pair, held);
    double high = last < 0 ? 0.0 : -INFINITE;
    rows = columns = 0;
    for (Index j = 0; j <= width && !marks.empty(); ++j)
      marks[j] = (scoring.local ? START : j == 0 ? MATCH : INSERT) | (j > 1 ? INSERTION_GOES_ON : 0);
    begin<Hard>();
    const Scorer scorer{pairs, scoring, scoring.tables, 0.0, gain, k, move.scores};
    for (Index i = 1; i <= height; ++i) {
      score(Hard(), scorer, i);
      step_to<Hard>(i, 2);
      advance(Hard(), move);
      const double floor = scoring.local && i <= first ? 0.0 : -INFINITE;
      if (!marks.empty()) mark_row(move, floor, marks.data() + i * (width + 1));
      if (!scoring.local || i <= last) continue;
      // Of equal ends the one in the first column, and there in the first row, is kept.
      const double *matched = move.here.matched, found = highest(matched, move.n);
      if (found < high || (found == high && columns == 0)) continue;
      const Index column = std::find(matched, matched + move.n, found) - matched;
      if (found > high || column < columns) high = found, rows = i, columns = column;
    }
    if (scoring.local) return high;
    rows = height, columns = width;
    const Row end = table + (height % 2 * move.n + width);
    return Hard::sum(*end.matched, *end.deleted, *end.inserted);
  }

  // Write the matches of the best path that was found, in ascending order, from `end` on; return the end of them.
  Index trace(Index *matches, Index end) const {
    const Index from = end;
    Index i = rows, j = columns;
    int state = scoring.local ? static_cast<int>(MATCH) : marks[i * (width + 1) + j] & STATE;
    while (i > 0 || j > 0) {
      const std::uint8_t mark = marks[i * (width + 1) + j];
      // Scores that are not numbers must not lead outside.
      if ((state != INSERT && i == 0) || (state != DELETE && j == 0)) break;
      if (state == MATCH) {
        --i, --j;
        matches[2 * end] = i, matches[2 * end + 1] = j;
        ++end;
        state = marks[i * (width + 1) + j] & STATE;
        if (state == START) break;
      } else if (state == DELETE) {
        state = mark & DELETION_GOES_ON ? DELETE : MATCH;
        --i;
      } else {
        state = mark & INSERTION_GOES_ON ? INSERT : mark & INSERTION_AFTER_DELETION ? DELETE : MATCH;
        --j;
      }
    }
    using Match = std::array<Index, 2>;
    auto *path = reinterpret_cast<Match *>(matches);
    std::reverse(path + from, path + end);
    return end;
  }

  // Pool all alignments of pair `pair`; return log Z, and leave the expected numbers of opened gaps and of further
  // letters in `gaps`.
  double pool(Index pair, double gain, bool held, double *gaps) {
    choose(pair, held);
    // A gap along a single letter leads nowhere, so that it may overflow without being seen in Z.
    if (scoring.linear && !held && std::min(height, width) > 1) {
      const double total = forward<Linear>(gain).second;
      if (total > 0.0 && total < LARGEST_SUM) {
        backward<Linear>(0.0, total, gaps);
        return log_of(total) - (scoring.local ? 0.0 : scoring.extend * static_cast<double>(height + width));
      }
    }
    const auto [high, total] = forward<Log>(gain);
    backward<Log>(high, total, gaps);
    return total > 0.0 ? high + log_of(total) : -INFINITE;
  }

  // The probabilities of matches of position i, from 0, of the pair that was pooled, shape (B,).
  const double *shares(Index i) const { return table.matched + (i + 1) * move.n + 1; }

private:
  void choose(Index pair, bool held) {
    k = pair, clamped = held;
    height = pairs.height(k), width = pairs.width(k);
    move.span = width + 1, move.n = padded(width + 1);
    first = height, last = -1;
    for (Index i = height - 1; held && i >= 0; --i)
      if (pairs.partner[pairs.first_a[k] + i] >= 0) first = i, last = std::max(last, i);
  }

  // Row 0: nothing of a is read yet; what a global path has read of b is a gap. No match leads into the padding.
  template <typename S> void begin() {
    const double bonus = std::is_same_v<S, Linear> && !scoring.local ? scoring.extend : 0.0;
    move.gap = S::of(bonus - scoring.open), move.more = S::of(bonus - scoring.extend);
    for (double *part : {table.matched, table.deleted, table.inserted, move.scores}) std::fill_n(part, move.n, S::zero);
    if (scoring.local) return;
    table.matched[0] = S::one;
    for (Index j = 1; j <= width; ++j)
      table.inserted[j] = j == 1 ? move.gap : S::times(table.inserted[j - 1], move.more);
  }

  // Transitions to row i from the one before, or to itself if it is the first, if that many rows are kept.
  template <typename S> void step_to(Index i, Index kept) {
    move.here = table + i % kept * move.n, move.before = table + std::max(i - 1, Index(0)) % kept * move.n;
    move.start = scoring.local && i - 1 <= first ? S::one : S::zero;
    move.forced = clamped && i > 0 ? pairs.partner[pairs.first_a[k] + i - 1] : -1;
  }

  // The first row where a local path may end.
  Index first_end() const { return std::max(last + 1, Index(1)); }

  // Fill in the sums of all paths into each state; return the highest of the ends of paths, 0 in the linear domain, and
  // the sum of the weights of all ends measured against it.
  template <typename S> std::pair<double, double> forward(double gain) {
    constexpr bool linear = std::is_same_v<S, Linear>;
    // A global match reads two letters.
    const double bonus = linear && !scoring.local ? 2.0 * scoring.extend : 0.0;
    const Scorer scorer{pairs, scoring, linear ? linear_tables.data() : scoring.tables, bonus, gain, k, move.scores};
    begin<S>();
    for (Index i = 1; i <= height; ++i) {
      score(S(), scorer, i);
      step_to<S>(i, height + 1);
      advance(S(), move);
    }
    double corner[WIDTH];
    std::fill_n(corner, WIDTH, S::zero);
    const Row end = table + (height * move.n + width);
    corner[0] = *end.matched, corner[1] = *end.deleted, corner[2] = *end.inserted;
    const double *ends = scoring.local ? table.matched + first_end() * move.n : corner;
    const Index n = scoring.local ? (height + 1 - first_end()) * move.n : WIDTH;
    const bool empty = scoring.local && last < 0;
    const double high = linear ? 0.0 : std::max(empty ? 0.0 : -INFINITE, highest(ends, n));
    return {high, weigh(S(), ends, n, high, 0.0, nullptr) + (empty ? exp_of(-high) : 0.0)};
  }

  // Replace the sums of matches by probabilities, given what `forward` returned; leave the expected numbers of opened
  // gaps and of further letters in `gaps`.
  template <typename S> void backward(double high, double total, double *gaps) {
    const Index n = move.n;
    for (const Row &row : {move.mass, move.next, Row{move.opened, move.longer, move.opened}})
      for (double *part : {row.matched, row.deleted, row.inserted}) std::fill_n(part, n + 1, 0.0);
    if (!scoring.local) {
      const Row end = table + (height * n + width);
      const auto shares = S::shares(*end.matched, *end.deleted, *end.inserted);
      move.mass.matched[width] = shares[0], move.mass.deleted[width] = shares[1], move.mass.inserted[width] = shares[2];
    }
    for (Index i = height; i >= 0; --i, std::swap(move.mass, move.next)) {
      step_to<S>(i, height + 1);
      if (scoring.local && i >= first_end()) weigh(S(), move.here.matched, n, high, 1.0 / total, move.mass.matched);
      retreat(S(), move);
      std::copy_n(move.mass.matched, n, move.here.matched);
    }
    gaps[0] = sum_of(move.opened, n), gaps[1] = sum_of(move.longer, n);
  }
};

// ---- kernels ----

// values[r] = the score of the best alignment of pair chosen[r].
void best_scores(Pairs pairs, Scoring scoring, Indices chosen, Values values) {
  require_length(chosen.shape(0), values);
  Aligner aligner(pairs, scoring, chosen, false, false);
  for (std::size_t r = 0; r < chosen.shape(0); ++r) values(r) = aligner.best(chosen(r), 0.0, false);
}

// Find the best path of each pair chosen[r], where matches near the reference lose gains[r].
void best_paths(Pairs pairs, Scoring scoring, Indices chosen, Vector gains, bool clamped, Out<Index, 2> matches,
                Numbers pointers, Values values) {
  require_length(chosen.shape(0), gains, values);
  require_length(chosen.shape(0) + 1, pointers);
  Index most = 0;
  for (std::size_t r = 0; r < chosen.shape(0); ++r) most += std::min(pairs.height(chosen(r)), pairs.width(chosen(r)));
  require(matches.shape(1) == 2 && static_cast<Index>(matches.shape(0)) >= most, "matches must have 2 columns and enough rows");
  Aligner aligner(pairs, scoring, chosen, false, true);
  pointers(0) = 0;
  for (std::size_t r = 0; r < chosen.shape(0); ++r) {
    values(r) = aligner.best(chosen(r), gains(r), clamped);
    pointers(r + 1) = aligner.trace(matches.data(), pointers(r));
  }
}

// hits[r] = how many matches of pair chosen[r] are within the tolerance of the reference.
void count_hits(Pairs pairs, Indices chosen, Matches matches, Indices pointers, Index tolerance, Values hits) {
  require_length(chosen.shape(0), hits);
  require_length(chosen.shape(0) + 1, pointers);
  for (std::size_t r = 0; r < chosen.shape(0); ++r) {
    hits(r) = 0.0;
    for (Index m = pointers(r); m < pointers(r + 1); ++m) {
      const auto [low, high] = pairs.near(chosen(r), pairs.first_a[chosen(r)] + matches(m, 0), tolerance);
      hits(r) += low <= matches(m, 1) && matches(m, 1) < high ? 1.0 : 0.0;
    }
  }
}

// Subtract a path's opened gaps and further letters, which are the last two features.
void add_gaps(const Matches &matches, Index first, Index stop, Index height, Index width, bool local, Index n_weights,
              SparseSum &sum) {
  double opened = 0.0, longer = 0.0;
  Index i = -1, j = -1;
  for (Index m = first; m <= stop; ++m) {
    const Index after_i = m == stop ? height : matches(m, 0), after_j = m == stop ? width : matches(m, 1);
    for (const Index letters : {after_i - i - 1, after_j - j - 1}) {
      if (letters == 0 || (local && (m == first || m == stop))) continue;
      opened += 1.0;
      longer += static_cast<double>(letters - 1);
    }
    i = after_i, j = after_j;
  }
  sum.add(n_weights - 2, -opened);
  sum.add(n_weights - 1, -longer);
}

// Write the features of each pair's path as atoms; gaps count negatively, costs positively.
void path_atoms(Pairs pairs, Numbering numbering, Indices chosen, Matches matches, Indices pointers, bool local,
                Numbers ends, Out<std::int32_t, 1> row, Out<std::int32_t, 1> column, Values value) {
  require_length(chosen.shape(0) + 1, pointers, ends);
  require(numbering.groups == pairs.groups && numbering.profile == pairs.profile, "numbering must fit the pairs");
  ends(0) = 0;
  SparseSum sum(numbering.n_weights);
  for (std::size_t r = 0; r < chosen.shape(0); ++r) {
    const Index k = chosen(r);
    for (Index m = pointers(r); m < pointers(r + 1); ++m) {
      const Index i = pairs.first_a[k] + matches(m, 0), j = pairs.first_b[k] + matches(m, 1);
      for (Index g = 0; g < pairs.groups; ++g)
        numbering.add(sum, g, pairs.starts[g * pairs.length_a + i] + pairs.codes[g * pairs.length_b + j], 1.0);
      for (Index q = 0; q < pairs.profile; ++q)
        sum.add(numbering.dense[q], pairs.left[i * pairs.profile + q] * pairs.right[q * pairs.length_b + j]);
    }
    add_gaps(matches, pointers(r), pointers(r + 1), pairs.height(k), pairs.width(k), local, numbering.n_weights, sum);
    ends(r + 1) = sum.write(ends(r), row, column, value);
  }
}

// The expected number of matches within the tolerance of the reference.
double expected_hits(const Pairs &pairs, const Scoring &scoring, Index k, const Aligner &aligner) {
  double hits = 0.0;
  for (Index i = 0; i < pairs.height(k); ++i) {
    const auto [low, high] = pairs.near(k, pairs.first_a[k] + i, scoring.tolerance);
    for (Index j = low; j < high; ++j) hits += aligner.shares(i)[j];
  }
  return hits;
}

// Add weight·P(i, j) to the cells that the match (i, j) looks up, and to the expected dense features.
void count_cells(const Pairs &pairs, Index k, const Aligner &aligner, double weight, double *cells, double *dense) {
  const Index width = pairs.width(k), first_b = pairs.first_b[k];
  for (Index i = 0; i < pairs.height(k); ++i) {
    const Index at = pairs.first_a[k] + i;
    const double *shares = aligner.shares(i);
    for (Index g = 0; g < pairs.groups; ++g) {
      double *table = cells + pairs.starts[g * pairs.length_a + at];
      const std::uint32_t *codes = pairs.codes + g * pairs.length_b + first_b;
      // Most matches are next to impossible; adding those would take most of the time.
      for (Index j = 0; j < width; ++j)
        if (shares[j] > NEGLIGIBLE) table[codes[j]] += weight * shares[j];
    }
    for (Index q = 0; q < pairs.profile; ++q) {
      const double left = pairs.left[at * pairs.profile + q];
      if (left != 0.0) dense[q] += weight * left * dot(shares, pairs.right + q * pairs.length_b + first_b, width);
    }
  }
}

// Pool the alignments of all chosen pairs, and add up their expected counts times weights: cells of tables, dense
// features, gaps.
void pool_together(Pairs pairs, Scoring scoring, Indices chosen, Vector gains, bool clamped, Values hits, Values values,
                   Vector weights, Values cells, Values dense, Values gaps) {
  require_length(chosen.shape(0), gains, hits, values, weights);
  require_length(scoring.cells, cells);
  require_length(scoring.profile, dense);
  require_length(2, gaps);
  Aligner aligner(pairs, scoring, chosen, true, false);
  double both[2];
  for (std::size_t r = 0; r < chosen.shape(0); ++r) {
    values(r) = aligner.pool(chosen(r), gains(r), clamped, both);
    count_cells(pairs, chosen(r), aligner, weights(r), cells.data(), dense.data());
    for (int kind = 0; kind < 2; ++kind) gaps(kind) += weights(r) * both[kind];
    hits(r) = expected_hits(pairs, scoring, chosen(r), aligner);
  }
}

// Pool the alignments of all chosen pairs, and write the expected features of each as atoms.
void pool_apart(Pairs pairs, Scoring scoring, Indices chosen, Vector gains, bool clamped, Values hits, Values values,
                Numbering numbering, Numbers ends, Out<std::int32_t, 1> row, Out<std::int32_t, 1> column,
                Values value) {
  require_length(chosen.shape(0), gains, hits, values);
  require_length(chosen.shape(0) + 1, ends);
  require(numbering.groups == pairs.groups && numbering.profile == pairs.profile &&
              numbering.cells[numbering.groups] == scoring.cells,
          "numbering must fit pairs and scores");
  Aligner aligner(pairs, scoring, chosen, true, false);
  ends(0) = 0;
  SparseSum sum(numbering.n_weights);
  double both[2];
  std::vector<double> cells(scoring.cells), dense(scoring.profile);
  for (std::size_t r = 0; r < chosen.shape(0); ++r) {
    values(r) = aligner.pool(chosen(r), gains(r), clamped, both);
    hits(r) = expected_hits(pairs, scoring, chosen(r), aligner);
    count_cells(pairs, chosen(r), aligner, 1.0, cells.data(), dense.data());
    for (Index g = 0; g < numbering.groups; ++g)
      for (Index c = numbering.cells[g]; c < numbering.cells[g + 1]; ++c)
        if (cells[c] != 0.0) numbering.add(sum, g, c, std::exchange(cells[c], 0.0));
    for (std::size_t q = 0; q < dense.size(); ++q) sum.add(numbering.dense[q], std::exchange(dense[q], 0.0));
    for (int kind = 0; kind < 2; ++kind) sum.add(numbering.n_weights - 2 + kind, -both[kind]);
    ends(r + 1) = sum.write(ends(r), row, column, value);
  }
}

// out[m] = the probability of match m; those of pair chosen[r] are matches[pointers[r] : pointers[r + 1]].
void pool_given(Pairs pairs, Scoring scoring, Indices chosen, Matches matches, Indices pointers, Values out) {
  require_length(chosen.shape(0) + 1, pointers);
  require_length(matches.shape(0), out);
  Aligner aligner(pairs, scoring, chosen, true, false);
  double gaps[2];
  for (std::size_t r = 0; r < chosen.shape(0); ++r) {
    aligner.pool(chosen(r), 0.0, false, gaps);
    for (Index m = pointers(r); m < pointers(r + 1); ++m) out(m) = aligner.shares(matches(m, 0))[matches(m, 1)];
  }
}

// Write the scores (A, B) of all matches of pair k.
void match_scores(Pairs pairs, Scoring scoring, Index k, Out<double, 2> out) {
  require(scoring.profile == pairs.profile && k >= 0 && k < pairs.n, "scores must fit the pairs");
  require(static_cast<Index>(out.shape(0)) == pairs.height(k) && static_cast<Index>(out.shape(1)) == pairs.width(k),
          "out must have the lengths of the pair");
  for (Index i = 0; i < pairs.height(k); ++i)
    score(Hard(), {pairs, scoring, scoring.tables, 0.0, 0.0, k, &out(i, 0)}, i + 1);
}

// Write the match probabilities (A, B) of each chosen pair, one pair after the other.
void pool_matches(Pairs pairs, Scoring scoring, Indices chosen, Values out) {
  Aligner aligner(pairs, scoring, chosen, true, false);
  double gaps[2], *at = out.data(), *const end = at + out.shape(0);
  for (std::size_t r = 0; r < chosen.shape(0); ++r) {
    const Index height = pairs.height(chosen(r)), width = pairs.width(chosen(r));
    require(end - at >= height * width, "out is too short");
    aligner.pool(chosen(r), 0.0, false, gaps);
    for (Index i = 0; i < height; ++i, at += width) std::copy_n(aligner.shares(i), width, at);
  }
}

} // namespace

LATENTSTRUCT_MODULE(alignment, best_scores, best_paths, count_hits, path_atoms, pool_together, pool_apart, pool_given,
                    match_scores, pool_matches)
