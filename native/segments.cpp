// Pooling of segmentations: all ways to divide sequences into labeled segments, in time O(T·(S² + S·L)).
//
// A segment of tokens a … b - 1 with label y scores
// begin[a] + Σ_{a<t<b} inside[t] + Σ_{a<=t<b} token[t, y] + length[b - a - 1, y],
// and two neighbors score transition[y', y]. Any of these may be -∞. All labels y are treated side by side.
#include "binding.hpp"
#include "functions.hpp"

#include <algorithm>
#include <vector>

using namespace latentstruct;

namespace {

// Scores of the parts of segmentations, see SegmentScores.
struct Scores {
  const double *token, *begin, *inside, *transition, *length;
  Index n_tokens, n, longest;

  static Scores read(nb::handle source) {
    const auto token = array<In<double, 2>>(source, "token"), transition = array<In<double, 2>>(source, "transition");
    const auto length = array<In<double, 2>>(source, "length");
    const auto begin = array<In<double, 1>>(source, "begin"), inside = array<In<double, 1>>(source, "inside");
    require_length(token.shape(0), begin, inside);
    require_length(token.shape(1), transition);
    require(transition.shape(1) == token.shape(1) && length.shape(1) == token.shape(1), "scores must have as many labels");
    return {token.data(),
            begin.data(),
            inside.data(),
            transition.data(),
            length.data(),
            static_cast<Index>(token.shape(0)),
            static_cast<Index>(token.shape(1)),
            static_cast<Index>(length.shape(0))};
  }
};

// Counts of the parts, see SegmentCounts.
struct Counts {
  double *token, *begin, *transition, *length;
  Index n_tokens, n, longest, places;

  static Counts read(nb::handle source) {
    const auto token = array<Out<double, 2>>(source, "token");
    const auto begin = array<Out<double, 1>>(source, "begin");
    const auto transition = array<Out<double, 3>>(source, "transition"), length = array<Out<double, 3>>(source, "length");
    require_length(token.shape(0), begin);
    require_length(transition.shape(0), length);
    require(transition.shape(1) == token.shape(1) && transition.shape(2) == token.shape(1) &&
                length.shape(2) == token.shape(1),
            "counts must have as many labels");
    return {token.data(),
            begin.data(),
            transition.data(),
            length.data(),
            static_cast<Index>(token.shape(0)),
            static_cast<Index>(token.shape(1)),
            static_cast<Index>(length.shape(1)),
            static_cast<Index>(transition.shape(0))};
  }
};

// Tables of one sequence of up to `most` tokens; row b belongs to the place before token b.
struct Sequence {
  const Scores &scores;
  const double temperature;
  const Index n;
  std::vector<double> memory;
  std::vector<Index> choices;
  double *ends, *into;          // Pooled beginnings by their end and last label, and by the label that begins there.
  double *of_end, *of_start;    // The shares of these.
  double *inner, *list, *high;  // Segments of all labels and sizes, (L, S), and their maxima (S,).
  Index *size, *before, *best;  // The best last size and the best last label.

  Sequence(const Scores &scores, double temperature, Index most)
      : scores(scores), temperature(temperature), n(scores.n),
        memory((4 * (most + 1) + std::max(scores.longest, n) + 2) * n), choices((2 * (most + 1) + 1) * n) {
    const Index table = (most + 1) * n;
    ends = memory.data(), into = ends + table, of_end = into + table, of_start = of_end + table;
    inner = of_start + table, high = inner + n, list = high + n;
    size = choices.data(), before = size + table, best = before + table;
  }

  // Pool `count` rows of `list` label by label; leave the values in `out` and the first best rows in `chosen`.
  void pool(Index count, double *out, Index *chosen) const {
    for (Index y = 0; y < n; ++y) high[y] = list[y], chosen[y] = 0;
    for (Index k = 1; k < count; ++k)
      for (Index y = 0; y < n; ++y) {
        const bool better = list[k * n + y] > high[y];
        high[y] = better ? list[k * n + y] : high[y];
        chosen[y] = better ? k : chosen[y];
      }
    if (temperature == 0.0) {
      std::copy_n(high, n, out);
      return;
    }
    for (Index y = 0; y < n; ++y) inner[y] = 0.0;
    for (Index k = 0; k < count; ++k)
      for (Index y = 0; y < n; ++y) {
        const double share = exp_of((list[k * n + y] - high[y]) / temperature);
        inner[y] += high[y] > -INFINITE ? share : 0.0;
      }
    for (Index y = 0; y < n; ++y) out[y] = high[y] > -INFINITE ? high[y] + temperature * log_of(inner[y]) : high[y];
  }

  // Write the scores of the segments before place b, the shortest first, with all before them; return how many rows
  // there are until no longer one is possible.
  Index score_segments(Index first, Index b) const {
    const Index limit = std::min(scores.longest, b);
    for (Index y = 0; y < n; ++y) inner[y] = 0.0;
    for (Index k = 0; k < limit; ++k) {
      const Index t = first + b - 1 - k;
      bool possible = false;
      for (Index y = 0; y < n; ++y) {
        inner[y] += scores.token[t * n + y];
        list[k * n + y] = into[(b - 1 - k) * n + y] + inner[y] + scores.begin[t] + scores.length[k * n + y];
        inner[y] += scores.inside[t];
        possible |= inner[y] > -INFINITE;
      }
      if (!possible) return k + 1;
    }
    return limit;
  }

  // Pool all segmentations of a sequence; leave its best last label in `last`.
  double forward(Index first, Index tokens, Index &last) const {
    for (Index y = 0; y < n; ++y) into[y] = 0.0;
    for (Index b = 1; b <= tokens; ++b) {
      if (b > 1) {
        const double *end = ends + (b - 1) * n;
        for (Index x = 0; x < n; ++x)
          for (Index y = 0; y < n; ++y) list[x * n + y] = end[x] + scores.transition[x * n + y];
        pool(n, into + (b - 1) * n, before + (b - 1) * n);
      }
      pool(score_segments(first, b), ends + b * n, size + b * n);
    }
    const double *end = ends + tokens * n;
    last = 0;
    for (Index y = 1; y < n; ++y) last = end[y] > end[last] ? y : last;
    double total = 0.0;
    if (temperature == 0.0 || end[last] == -INFINITE) return end[last];
    for (Index y = 0; y < n; ++y) total += exp_of((end[y] - end[last]) / temperature);
    return end[last] + temperature * log_of(total);
  }

  double share_of(double score, double value, bool chosen) const {
    if (temperature == 0.0) return chosen ? 1.0 : 0.0;
    return exp_of((score - value) / temperature);
  }

  // Turn `count` rows of scores in `list` into shares of `values` times `factors`; nothing is shared by a factor of 0.
  void share(Index count, const double *values, const double *factors, const Index *chosen) const {
    for (Index k = 0; k < count; ++k)
      for (Index y = 0; y < n; ++y) {
        const double share = share_of(list[k * n + y], values[y], k == chosen[y]);
        list[k * n + y] = factors[y] != 0.0 ? factors[y] * share : 0.0;
      }
  }

  // Add the counts of a sequence, from the shares of its last labels on.
  void backward(Index first, Index tokens, double *token, double *begin, double *transition, double *length) const {
    for (Index b = tokens; b > 0; --b) {
      if (b < tokens) {
        for (Index x = 0; x < n; ++x)
          for (Index y = 0; y < n; ++y) list[x * n + y] = ends[b * n + x] + scores.transition[x * n + y];
        share(n, into + b * n, of_start + b * n, before + b * n);
        for (Index x = 0; x < n; ++x) {
          for (Index y = 0; y < n; ++y) transition[x * n + y] += list[x * n + y];
          of_end[b * n + x] += sum_of(list + x * n, n);
        }
      }
      if (temperature == 0.0) {
        add_best(first, b, token, begin, length);
        continue;
      }
      const Index count = score_segments(first, b);
      share(count, ends + b * n, of_end + b * n, size + b * n);
      for (Index y = 0; y < n; ++y) inner[y] = 0.0;
      for (Index k = count - 1; k >= 0; --k) {
        const Index t = first + b - 1 - k;
        for (Index y = 0; y < n; ++y) {
          const double part = list[k * n + y];
          of_start[(b - 1 - k) * n + y] += part;
          length[k * n + y] += part;
          inner[y] += part;
          token[t * n + y] += inner[y];
        }
        begin[t] += sum_of(list + k * n, n);
      }
    }
  }

  // Add the counts of the best segments before place b.
  void add_best(Index first, Index b, double *token, double *begin, double *length) const {
    for (Index y = 0; y < n; ++y) {
      const double part = of_end[b * n + y];
      if (part == 0.0) continue;
      const Index k = size[b * n + y], start = b - 1 - k;
      of_start[start * n + y] += part;
      length[k * n + y] += part;
      begin[first + start] += part;
      for (Index t = first + start; t < first + b; ++t) token[t * n + y] += part;
    }
  }
};

LATENTSTRUCT_CLONES void pool_sequences(const Index *offsets, std::size_t count, const Scores &scores,
                                        double temperature, const double *weights, bool together, double *values,
                                        const Counts &counts) {
  Index most = 1;
  for (std::size_t k = 0; k < count; ++k) most = std::max(most, offsets[k + 1] - offsets[k]);
  const Sequence sequence(scores, temperature, most);
  const Index n = scores.n;
  for (std::size_t k = 0; k < count; ++k) {
    const Index first = offsets[k], tokens = offsets[k + 1] - first, place = together ? 0 : static_cast<Index>(k);
    values[k] = 0.0;
    if (tokens == 0) continue;
    Index last = 0;
    values[k] = sequence.forward(first, tokens, last);
    std::fill_n(sequence.of_end, (tokens + 1) * n, 0.0);
    std::fill_n(sequence.of_start, (tokens + 1) * n, 0.0);
    for (Index y = 0; y < n; ++y) {
      const double end = sequence.ends[tokens * n + y];
      if (end > -INFINITE) sequence.of_end[tokens * n + y] = weights[k] * sequence.share_of(end, values[k], y == last);
    }
    sequence.backward(first, tokens, counts.token, counts.begin, counts.transition + place * n * n,
                      counts.length + place * scores.longest * n);
  }
}

// Write the values of sequences pooled at ε >= 0, and the counts times weights.
void pool(In<Index, 1> offsets, Scores scores, double temperature, In<double, 1> weights, bool together,
          Out<double, 1> values, Counts counts) {
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

NB_MODULE(segments, m) { bind(m, "pool", pool); }
