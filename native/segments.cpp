// Pooling of segmentations: all ways to divide sequences into labeled segments, in time O(T·(S² + S·L)).
//
// A segment of tokens a … b - 1 with label y scores
// begin[a] + Σ_{a<t<b} inside[t] + Σ_{a<=t<b} token[t, y] + length[b - a - 1, y],
// and two neighbors score transition[y', y]. Any of these may be -∞. All labels y are treated side by side.
#include "arrays.hpp"
#include "functions.hpp"

#include <algorithm>
#include <vector>

using namespace latentstruct;

namespace {

// Scores of the parts of segmentations, see SegmentScores.
struct Scores {
  const double *token, *begin, *inside, *transition, *length;
  Index n_tokens, n, longest;

  static Scores read(const Fields &fields) {
    Index n_tokens = -1, n = -1, longest = -1;
    const auto *token = fields.get<const double>("token", &n_tokens, &n);
    return {token, fields.get<const double>("begin", n_tokens), fields.get<const double>("inside", n_tokens),
            fields.get<const double>("transition", n, n), fields.get<const double>("length", &longest, n), n_tokens, n, longest};
  }
};

// Counts of the parts, see SegmentCounts.
struct Counts {
  double *token, *begin, *transition, *length;
  Index n_tokens, n, longest, places;

  static Counts read(const Fields &fields) {
    Index n_tokens = -1, n = -1, longest = -1, places = -1;
    auto *token = fields.get<double>("token", &n_tokens, &n), *begin = fields.get<double>("begin", n_tokens);
    auto *transition = fields.get<double>("transition", &places, n, n), *length = fields.get<double>("length", places, &longest, n);
    return {token, begin, transition, length, n_tokens, n, longest, places};
  }
};

// Labels come in blocks of this many, the last one filled up with labels that are impossible.
constexpr Index BLOCK = 4;

// Rows of `n` labels as rows of `width`.
std::vector<double> widen(const double *values, Index rows, Index n, Index width) {
  std::vector<double> out(rows * width, -INFINITE);
  for (Index k = 0; k < rows; ++k) std::copy_n(values + k * n, n, out.data() + k * width);
  return out;
}

// Add rows of `width` labels to rows of `n`.
LATENTSTRUCT_INLINE void add_narrow(const double *values, Index rows, Index n, Index width, double *out) {
  for (Index k = 0; k < rows; ++k)
    for (Index y = 0; y < n; ++y) out[k * n + y] += values[k * width + y];
}

// Tables of one sequence of up to `most` tokens, with rows of `width` labels; row b belongs to the place before token b.
// FEW: all labels are in one block, so that loops over them need no counters.
template <bool FEW> struct Sequence {
  const Scores &scores;
  const double temperature, cold; // ε and 1/ε.
  const Index n, width, table;
  std::vector<double> transition, length, memory;
  std::vector<Index> choices;
  double *token;                          // Scores of tokens.
  double *ends, *into;                    // Pooled beginnings by their end and last label, and by the label that begins there.
  double *of_end, *of_start;              // The shares of these.
  double *of_token, *of_transition, *of_length; // Counts.
  double *list, *high, *inner;            // Scores to be pooled, (L or S, S), their maxima (S,), sums inside segments (S,).
  Index *size, *before;                   // The best last size and the best last label.
  bool restricted = false;                // Whether labels of tokens are impossible.

  Sequence(const Scores &scores, double temperature, Index most)
      : scores(scores), temperature(temperature), cold(std::min(1.0 / temperature, std::numeric_limits<double>::max())), n(scores.n), width((n + BLOCK - 1) / BLOCK * BLOCK),
        table((most + 1) * width), transition(widen(scores.transition, n, n, width)),
        length(widen(scores.length, scores.longest, n, width)),
        memory(6 * table + (n + scores.longest + std::max(scores.longest, n) + 2) * width), choices(2 * table) {
    token = memory.data(), ends = token + table, into = ends + table, of_end = into + table, of_start = of_end + table;
    of_token = of_start + table, of_transition = of_token + table, of_length = of_transition + n * width;
    high = of_length + scores.longest * width, inner = high + width, list = inner + width;
    size = choices.data(), before = size + table;
  }

  template <typename Body> LATENTSTRUCT_INLINE void each(Body body) const {
    LATENTSTRUCT_INDEPENDENT
    for (Index y = 0; y < (FEW ? BLOCK : width); ++y) body(y);
  }

  LATENTSTRUCT_INLINE double sum_row(const double *row) const { return sum_of(row, FEW ? BLOCK : width); }

  LATENTSTRUCT_INLINE void load(Index first, Index tokens) {
    restricted = false;
    for (Index t = 0; t < tokens; ++t)
      for (Index y = 0; y < width; ++y) {
        token[t * width + y] = y < n ? scores.token[(first + t) * n + y] : -INFINITE;
        restricted |= y < n && token[t * width + y] == -INFINITE;
      }
  }

  // Begin a maximum of each label, take score(y) as its k-th member, and write its value; `chosen` is the first best k.
  LATENTSTRUCT_INLINE void begin_pool(Index *chosen) const {
    double *highest = high;
    each([=](Index y) __attribute__((always_inline)) { highest[y] = -INFINITE, chosen[y] = 0; });
  }

  template <bool SOFT, typename Score> LATENTSTRUCT_INLINE void consider(Index k, Index *chosen, Score score) const {
    double *row = list + k * width, *highest = high;
    each([=](Index y) __attribute__((always_inline)) {
      const double value = score(y);
      const bool better = value > highest[y];
      highest[y] = better ? value : highest[y];
      chosen[y] = better ? k : chosen[y];
      if constexpr (SOFT) row[y] = value;
    });
  }

  template <bool SOFT> LATENTSTRUCT_INLINE void end_pool(Index count, double *out) const {
    double *highest = high;
    if constexpr (!SOFT) {
      each([=](Index y) __attribute__((always_inline)) { out[y] = highest[y]; });
      return;
    }
    exponentiate(count, highest);
    each([=](Index y) __attribute__((always_inline)) { out[y] = 0.0; });
    for (Index k = 0; k < count; ++k) add(list + k * width, out);
    const double t = temperature;
    each([=](Index y) __attribute__((always_inline)) { out[y] = finite_or_zero(highest[y]) + t * log_of(out[y]); });
  }

  // list = exp((list - values)/ε) in `count` rows; of rows without a finite value, 0.
  LATENTSTRUCT_INLINE void exponentiate(Index count, const double *values) const {
    const double factor = cold;
    for (Index k = 0; k < count; ++k) {
      double *row = list + k * width;
      each([=](Index y) __attribute__((always_inline)) { row[y] = exp_of((row[y] - finite_or_zero(values[y])) * factor); });
    }
  }

  LATENTSTRUCT_INLINE void add(const double *row, double *out) const {
    each([=](Index y) __attribute__((always_inline)) { out[y] += row[y]; });
  }

  LATENTSTRUCT_INLINE bool any(const double *values, double none) const {
    for (Index y = 0; y < n; ++y)
      if (values[y] != none) return true;
    return false;
  }

  // visit(k, score) the segments before place b, the shortest first, with score(y) of each with all before it; return
  // how many there are until no longer one is possible.
  template <typename Visit> LATENTSTRUCT_INLINE Index each_segment(Index first, Index b, Visit visit) const {
    const Index limit = std::min(scores.longest, b);
    double *sum = inner;
    each([=](Index y) __attribute__((always_inline)) { sum[y] = 0.0; });
    for (Index k = 0; k < limit; ++k) {
      const Index start = b - 1 - k;
      const double *of_start = into + start * width, *of_token = token + start * width, *of_size = length.data() + k * width;
      const double beginning = scores.begin[first + start], inside = scores.inside[first + start];
      visit(k, [=](Index y) __attribute__((always_inline)) {
        const double covered = sum[y] + of_token[y];
        sum[y] = covered + inside;
        return of_start[y] + covered + beginning + of_size[y];
      });
      if (inside == -INFINITE || (restricted && !any(inner, -INFINITE))) return k + 1;
    }
    return limit;
  }

  // Pool all segmentations of a sequence; leave its best last label in `last`.
  template <bool SOFT> LATENTSTRUCT_INLINE double forward(Index first, Index tokens, Index &last) const {
    std::fill_n(into, width, 0.0);
    for (Index b = 1; b <= tokens; ++b) {
      if (b > 1) {
        const Index at = (b - 1) * width;
        begin_pool(before + at);
        for (Index x = 0; x < n; ++x) {
          const double end = ends[at + x], *row = transition.data() + x * width;
          consider<SOFT>(x, before + at, [=](Index y) __attribute__((always_inline)) { return end + row[y]; });
        }
        end_pool<SOFT>(n, into + at);
      }
      Index *chosen = size + b * width;
      begin_pool(chosen);
      const Index count = each_segment(first, b, [&](Index k, auto score) __attribute__((always_inline)) {
        consider<SOFT>(k, chosen, score);
      });
      end_pool<SOFT>(count, ends + b * width);
    }
    const double *end = ends + tokens * width;
    last = 0;
    for (Index y = 1; y < n; ++y) last = end[y] > end[last] ? y : last;
    double total = 0.0;
    if (!SOFT || end[last] == -INFINITE) return end[last];
    for (Index y = 0; y < n; ++y) total += exp_of((end[y] - end[last]) / temperature);
    return end[last] + temperature * log_of(total);
  }

  // Convert `count` rows of scores in `list` into their shares of `values` times `factors`.
  LATENTSTRUCT_INLINE void share(Index count, const double *values, const double *factors) const {
    exponentiate(count, values);
    for (Index k = 0; k < count; ++k) {
      double *row = list + k * width;
      each([=](Index y) __attribute__((always_inline)) { row[y] *= factors[y]; });
    }
  }

  // Add the counts of a sequence of a value, times a weight.
  LATENTSTRUCT_INLINE void backward(Index first, Index tokens, double value, double weight, double *begin) const {
    std::fill_n(of_end, (tokens + 1) * width, 0.0);
    std::fill_n(of_start, (tokens + 1) * width, 0.0);
    std::fill_n(of_token, tokens * width, 0.0);
    for (Index y = 0; y < n && value > -INFINITE; ++y)
      of_end[tokens * width + y] = weight * exp_of((ends[tokens * width + y] - value) / temperature);
    for (Index b = tokens; b > 0; --b) {
      const Index at = b * width;
      if (b < tokens && any(of_start + at, 0.0)) {
        for (Index x = 0; x < n; ++x) {
          const double end = ends[at + x], *row = transition.data() + x * width;
          double *scored = list + x * width;
          each([=](Index y) __attribute__((always_inline)) { scored[y] = end + row[y]; });
        }
        share(n, into + at, of_start + at);
        for (Index x = 0; x < n; ++x) {
          of_end[at + x] += sum_row(list + x * width);
          add(list + x * width, of_transition + x * width);
        }
      }
      if (!any(of_end + at, 0.0)) continue;
      const Index count = each_segment(first, b, [&](Index k, auto score) __attribute__((always_inline)) {
        double *row = list + k * width;
        each([=](Index y) __attribute__((always_inline)) { row[y] = score(y); });
      });
      share(count, ends + at, of_end + at);
      std::fill_n(inner, width, 0.0);
      for (Index k = count - 1; k >= 0; --k) {
        const Index start = b - 1 - k;
        const double *row = list + k * width;
        begin[first + start] += sum_row(row);
        add(row, of_start + start * width);
        add(row, of_length + k * width);
        add(row, inner);
        add(inner, of_token + start * width);
      }
    }
  }

  // Add the counts of the best segmentation of a sequence times a weight; `last` is its last label.
  LATENTSTRUCT_INLINE void add_best(Index first, Index tokens, Index last, double weight, const Counts &counts, Index place) const {
    for (Index b = tokens, y = last; b > 0;) {
      const Index k = size[b * width + y], start = b - 1 - k;
      counts.length[(place * scores.longest + k) * n + y] += weight;
      counts.begin[first + start] += weight;
      for (Index t = first + start; t < first + b; ++t) counts.token[t * n + y] += weight;
      b = start;
      if (b == 0) break;
      const Index x = before[b * width + y];
      counts.transition[(place * n + x) * n + y] += weight;
      y = x;
    }
  }
};

template <bool FEW>
LATENTSTRUCT_INLINE void pool_with(const Index *offsets, std::size_t count, const Scores &scores, double temperature,
                                   const double *weights, bool together, double *values, const Counts &counts) {
  Index most = 1;
  for (std::size_t k = 0; k < count; ++k) most = std::max(most, offsets[k + 1] - offsets[k]);
  Sequence<FEW> sequence(scores, temperature, most);
  const Index n = scores.n, width = sequence.width;
  for (std::size_t k = 0; k < count; ++k) {
    const Index first = offsets[k], tokens = offsets[k + 1] - first, place = together ? 0 : static_cast<Index>(k);
    values[k] = 0.0;
    if (tokens == 0) continue;
    Index last = 0;
    sequence.load(first, tokens);
    if (temperature == 0.0) {
      values[k] = sequence.template forward<false>(first, tokens, last);
      if (values[k] > -INFINITE) sequence.add_best(first, tokens, last, weights[k], counts, place);
      continue;
    }
    values[k] = sequence.template forward<true>(first, tokens, last);
    std::fill_n(sequence.of_transition, (n + scores.longest) * width, 0.0);
    sequence.backward(first, tokens, values[k], weights[k], counts.begin);
    add_narrow(sequence.of_token, tokens, n, width, counts.token + first * n);
    add_narrow(sequence.of_transition, n, n, width, counts.transition + place * n * n);
    add_narrow(sequence.of_length, scores.longest, n, width, counts.length + place * scores.longest * n);
  }
}

LATENTSTRUCT_CLONES void pool_sequences(const Index *offsets, std::size_t count, const Scores &scores,
                                        double temperature, const double *weights, bool together, double *values,
                                        const Counts &counts) {
  if (scores.n <= BLOCK) pool_with<true>(offsets, count, scores, temperature, weights, together, values, counts);
  else pool_with<false>(offsets, count, scores, temperature, weights, together, values, counts);
}

// Write the values of sequences pooled at ε >= 0, and the counts times weights.
void pool(Indices offsets, Scores scores, double temperature, Vector weights, bool together,
          Values values, Counts counts) {
  const std::size_t n = values.shape(0);
  require_length(n + 1, offsets);
  require_length(n, weights);
  require(offsets(0) >= 0 && offsets(n) <= scores.n_tokens, "offsets must be inside the tokens");
  require(counts.n_tokens == scores.n_tokens && counts.n == scores.n && counts.longest == scores.longest &&
              counts.places >= (together ? 1 : static_cast<Index>(n)),
          "counts must have the shapes of the scores");
  pool_sequences(offsets.data(), n, scores, temperature, weights.data(), together, values.data(), counts);
}

} // namespace

LATENTSTRUCT_MODULE(segments, pool)
