// Labelings of chains as distributions p(y) ∝ exp(s(y)/ε): pools, expected features, covariances and samples.
//
// Scores are laid out as in chain.cpp. P_t(z, y) are the pair marginals of tokens t - 1 and t, μ_t(y) those of a token.
#include "chain.hpp"
#include "chain_pooling.hpp"

#include <numeric>

using namespace latentstruct;

namespace {

constexpr Index BY_SEQUENCE = 1, BY_TOKEN = 2;

// Pool each sequence, see `ChainPooling`: scores become marginals.
void pool_labelings(Out<double, 2> scores, Indices offsets, Indices labels, Square transitions, double output_temperature,
                    double latent_temperature, double limit, Vector weights, Index by, Values values,
                    Out<double, 3> pairs) {
  const std::size_t n = labels_of(scores, transitions);
  const Sequences sequences(offsets, scores.shape(0));
  require_length(sequences.count, values, weights);
  if (labels.shape(0)) require_length(scores.shape(0), labels);
  require_length(by == BY_TOKEN ? scores.shape(0) : by == BY_SEQUENCE ? sequences.count : 1, pairs);
  require(pairs.shape(1) == n && pairs.shape(2) == n, "pairs must be of labels");
  ChainPooling pooling(transitions.data(), n, output_temperature, latent_temperature, limit);
  for (std::size_t k = 0; k < sequences.count; ++k) {
    const std::size_t first = sequences.offsets[k], place = by == BY_TOKEN ? first : by == BY_SEQUENCE ? k : 0;
    values(k) = pooling.pool(scores.data() + first * n, labels.shape(0) ? labels.data() + first : nullptr,
                             sequences.length(k), weights(k), pairs.data() + place * n * n, by == BY_TOKEN);
  }
}

// out[k] = Σ marginals[t, s] terms[truth[t], s] over the tokens t of sequence k and labels s; see `LabelScores`.
LATENTSTRUCT_CLONES void expected_terms(Square marginals, Indices truth, Indices offsets, Square terms, Values out) {
  const std::size_t n = marginals.shape(1);
  require(terms.shape(0) > n && terms.shape(1) == n, "terms must have a row per label and one for unknown labels");
  require_length(marginals.shape(0), truth);
  const Sequences sequences(offsets, marginals.shape(0));
  require_length(sequences.count, out);
  for (std::size_t k = 0; k < sequences.count; ++k) {
    double lanes[WIDTH] = {};
    for (Index t = offsets(k); t < offsets(k + 1); ++t) {
      const Index row = truth(t) < 0 ? static_cast<Index>(terms.shape(0)) + truth(t) : truth(t);
      const double *own = marginals.data() + t * n, *line = terms.data() + row * n;
      std::size_t s = 0;
      for (; s + WIDTH <= n; s += WIDTH)
        for (std::size_t j = 0; j < WIDTH; ++j) lanes[j] += own[s + j] * line[s + j];
      for (; s < n; ++s) lanes[0] += own[s] * line[s];
    }
    out(k) = sum_of(lanes, WIDTH);
  }
}

// Write the expected joint features of each sequence as atoms, and the pointers; see `labeling_atoms`.
void expected_atoms(Square marginals, In<double, 3> pairs, Indices offsets, Indices tokens, Blocks blocks,
                    Numbers pointers, AtomTable atoms) {
  const Sequences sequences(offsets, marginals.shape(0));
  const std::size_t n = marginals.shape(1);
  require_length(sequences.count, tokens, pairs);
  require_length(sequences.count + 1, pointers);
  require(pairs.shape(1) == n && pairs.shape(2) == n, "pairs must be of labels");
  std::size_t a = 0;
  // One atom for each label at `column` and following, unless its value is 0.
  const auto put = [&](Index row, Index column, const double *values) {
    require(a + n <= atoms.n, "the arrays of atoms are too short");
    for (std::size_t y = 0; y < n; ++y) {
      atoms.row[a] = static_cast<std::int32_t>(row);
      atoms.column[a] = static_cast<std::int32_t>(column + y);
      atoms.value[a] = values[y];
      a += values[y] != 0.0;
    }
  };
  for (std::size_t k = 0; k < sequences.count; ++k) {
    pointers(k) = static_cast<Index>(a);
    const double *own = marginals.data() + sequences.offsets[k] * n, *steps = pairs.data() + k * n * n;
    const std::size_t length = sequences.length(k);
    for (std::size_t t = 0; t < length; ++t) put(tokens(k) + t, 0, own + t * n);
    for (std::size_t z = 0; z < n; ++z) put(-1, blocks.transitions + z * n, steps + z * n);
    if (blocks.bias >= 0)
      for (std::size_t t = 0; t < length; ++t) put(-1, blocks.bias, own + t * n);
    if (blocks.start >= 0 && length) put(-1, blocks.start, own);
    if (blocks.end >= 0 && length) put(-1, blocks.end, own + (length - 1) * n);
  }
  pointers(sequences.count) = static_cast<Index>(a);
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
  const std::size_t n = labels_of(scores, transitions);
  require(labels_of(unary, steps) == n && out.shape(1) == n && out_steps.shape(1) == n, "directions must be of the labels");
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
  const std::size_t n = labels_of(scores, transitions);
  require(temperature > 0.0, "the temperature must be above 0");
  require(uniform.shape(0) == labels.shape(0) && uniform.shape(1) == scores.shape(0) && labels.shape(1) == scores.shape(0),
          "uniform and labels must be (draws, tokens)");
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

} // namespace

LATENTSTRUCT_MODULE(chain_distributions, pool_labelings, expected_terms, expected_atoms, covariances, sample_labelings)
