// Labelings of chains as distributions p(y) ∝ exp(s(y)/ε): covariances, samples and the k best.
//
// Scores are laid out as in chain.cpp. P_t(z, y) are the pair marginals of tokens t - 1 and t, μ_t(y) those of a token.
#include "arrays.hpp"
#include "chain_pooling.hpp"
#include "sequences.hpp"

#include <numeric>

using namespace latentstruct;

namespace {

using Indices = In<Index, 1>;
using Vector = In<double, 1>;
using Square = In<double, 2>;

void check_scores(const Square &scores, const Square &transitions) {
  const std::size_t n = transitions.shape(0);
  require(n > 0 && transitions.shape(1) == n && scores.shape(1) == n, "scores must have one column per label");
}

// Marginals (T, S) and pair marginals (T, S, S) of one sequence at a time.
class Marginals {
  const std::size_t n;
  ChainPooling pooling;

public:
  std::vector<double> tokens, pairs;

  Marginals(const Square &transitions, double temperature, double limit)
      : n(transitions.shape(0)), pooling(transitions.data(), n, temperature, temperature, limit) {}

  void find(const double *scores, std::size_t length) {
    tokens.assign(scores, scores + length * n);
    pairs.assign(length * n * n, 0.0);
    pooling.pool(tokens.data(), nullptr, length, 1.0, pairs.data(), true);
  }
};

inline double ratio(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

// Add weight·Cov(counts, V)/ε of one sequence for the counts of labels and pairs and V = Σ v_t(y_t) + Σ a(y_{t-1}, y_t).
//
// E[V | y_t] is the sum of an expectation over the tokens up to t and one over those after it.
void add_covariances(const Marginals &found, std::size_t length, std::size_t n, const double *unary, const double *steps,
                     double factor, std::vector<double> &before, std::vector<double> &after, double *out, double *out_steps) {
  const double *tokens = found.tokens.data();
  before.assign(unary, unary + length * n), after.assign(length * n, 0.0);
  for (std::size_t t = 1; t < length; ++t) {
    const double *pairs = found.pairs.data() + t * n * n;
    for (std::size_t z = 0; z < n; ++z)
      for (std::size_t y = 0; y < n; ++y)
        before[t * n + y] += ratio(pairs[z * n + y], tokens[t * n + y]) * (before[(t - 1) * n + z] + steps[z * n + y]);
  }
  for (std::size_t t = length - 1; t > 0; --t) {
    const double *pairs = found.pairs.data() + t * n * n;
    for (std::size_t z = 0; z < n; ++z) {
      double sum = 0.0;
      for (std::size_t y = 0; y < n; ++y)
        sum += pairs[z * n + y] * (steps[z * n + y] + unary[t * n + y] + after[t * n + y]);
      after[(t - 1) * n + z] = ratio(sum, tokens[(t - 1) * n + z]);
    }
  }
  double mean = 0.0;
  for (std::size_t y = 0; y < n; ++y) mean += tokens[y] * (before[y] + after[y]);
  for (std::size_t k = 0; k < length * n; ++k) out[k] += factor * tokens[k] * (before[k] + after[k] - mean);
  for (std::size_t t = 1; t < length; ++t) {
    const double *pairs = found.pairs.data() + t * n * n;
    for (std::size_t z = 0; z < n; ++z)
      for (std::size_t y = 0; y < n; ++y)
        out_steps[z * n + y] += factor * pairs[z * n + y] *
                                (before[(t - 1) * n + z] + steps[z * n + y] + unary[t * n + y] + after[t * n + y] - mean);
  }
}

void covariances(Square scores, Indices offsets, Square transitions, double temperature, double limit, Vector weights,
                 Square unary, Square steps, Out<double, 2> out, Out<double, 2> out_steps) {
  check_scores(scores, transitions), check_scores(unary, steps);
  const std::size_t n = transitions.shape(0);
  require(steps.shape(0) == n && out.shape(1) == n && out_steps.shape(1) == n, "directions must be of the labels");
  require(temperature > 0.0, "the temperature must be above 0");
  require_length(scores.shape(0), unary, out);
  require_length(n, out_steps);
  const Sequences sequences(offsets, scores.shape(0));
  require_length(sequences.count, weights);
  Marginals found(transitions, temperature, limit);
  std::vector<double> before, after;
  for (std::size_t k = 0; k < sequences.count; ++k) {
    const std::size_t first = sequences.offsets[k] * n, length = sequences.length(k);
    if (length == 0 || weights(k) == 0.0) continue;
    found.find(scores.data() + first, length);
    add_covariances(found, length, n, unary.data() + first, steps.data(), weights(k) / temperature, before, after,
                    out.data() + first, out_steps.data());
  }
}

// The label at which the running sum of shares exceeds u times their total; labels without a share are never chosen.
std::size_t draw(const double *shares, std::size_t n, double u) {
  const double wanted = u * std::accumulate(shares, shares + n, 0.0);
  double sum = 0.0;
  std::size_t last = 0;
  for (std::size_t y = 0; y < n; ++y) {
    if (shares[y] <= 0.0) continue;
    last = y;
    if ((sum += shares[y]) > wanted) break;
  }
  return last;
}

// Draw labelings (draws, N) from numbers `uniform` (draws, N) in [0, 1).
void sample_labelings(Square scores, Indices offsets, Square transitions, double temperature, double limit, Square uniform,
                      Out<Index, 2> labels) {
  check_scores(scores, transitions);
  require(temperature > 0.0, "the temperature must be above 0");
  require(uniform.shape(0) == labels.shape(0) && uniform.shape(1) == scores.shape(0) && labels.shape(1) == scores.shape(0),
          "uniform and labels must be (draws, tokens)");
  const std::size_t n = transitions.shape(0);
  const Sequences sequences(offsets, scores.shape(0));
  Marginals found(transitions, temperature, limit);
  for (std::size_t k = 0; k < sequences.count; ++k) {
    const std::size_t first = sequences.offsets[k], length = sequences.length(k);
    if (length == 0) continue;
    found.find(scores.data() + first * n, length);
    for (std::size_t j = 0; j < labels.shape(0); ++j) {
      std::size_t y = draw(found.tokens.data(), n, uniform(j, first));
      labels(j, first) = static_cast<Index>(y);
      for (std::size_t t = 1; t < length; ++t) {
        y = draw(found.pairs.data() + (t * n + y) * n, n, uniform(j, first + t));
        labels(j, first + t) = static_cast<Index>(y);
      }
    }
  }
}

// The beginning of a labeling that ends in a label, by its rank among those: a score and the beginning it extends.
struct Beginning {
  double score;
  std::size_t source;
};

// Write the `count` best labelings (count, N) of each sequence, best first, and their scores (count, K), -inf where there
// are fewer. Ties go to the lowest labels.
void best_labelings(Square scores, Indices offsets, Square transitions, Out<Index, 2> labels, Out<double, 2> values) {
  check_scores(scores, transitions);
  const std::size_t n = transitions.shape(0), count = labels.shape(0);
  const Sequences sequences(offsets, scores.shape(0));
  require(values.shape(0) == count && values.shape(1) == sequences.count && labels.shape(1) == scores.shape(0),
          "labels must be (count, tokens), values (count, sequences)");
  std::vector<std::vector<Beginning>> best; // (T), each (S, count)
  std::vector<Beginning> found;
  const auto better = [](const Beginning &a, const Beginning &b) {
    return a.score != b.score ? a.score > b.score : a.source < b.source;
  };
  const auto choose = [&](Beginning *out) {
    const std::size_t kept = std::min(count, found.size());
    std::partial_sort(found.begin(), found.begin() + kept, found.end(), better);
    for (std::size_t j = 0; j < count; ++j) out[j] = j < kept ? found[j] : Beginning{-INFINITE, 0};
  };
  for (std::size_t k = 0; k < sequences.count; ++k) {
    const std::size_t first = sequences.offsets[k], length = sequences.length(k);
    for (std::size_t j = 0; j < count; ++j) values(j, k) = j == 0 && length == 0 ? 0.0 : -INFINITE;
    if (length == 0) continue;
    best.resize(std::max(best.size(), length + 1));
    for (std::size_t t = 0; t <= length; ++t) best[t].assign(n * count, {-INFINITE, 0});
    for (std::size_t y = 0; y < n && count; ++y) best[0][y * count] = {scores(first, y), 0};
    for (std::size_t t = 1; t <= length; ++t)
      // After the last token there is one label, whose beginnings are whole labelings.
      for (std::size_t y = 0; y < (t < length ? n : 1); ++y) {
        found.clear();
        for (std::size_t source = 0; source < n * count; ++source) {
          const double step = t < length ? transitions(source / count, y) + scores(first + t, y) : 0.0;
          if (const double score = best[t - 1][source].score + step; score > -INFINITE) found.push_back({score, source});
        }
        choose(best[t].data() + y * count);
      }
    for (std::size_t j = 0; j < count; ++j) {
      values(j, k) = best[length][j].score;
      if (values(j, k) == -INFINITE) continue;
      std::size_t source = best[length][j].source;
      for (std::size_t t = length; t-- > 0; source = best[t][source].source)
        labels(j, first + t) = static_cast<Index>(source / count);
    }
  }
}

} // namespace

NB_MODULE(chain_distributions, m) {
  bind(m, "covariances", covariances);
  bind(m, "sample_labelings", sample_labelings);
  bind(m, "best_labelings", best_labelings);
}
