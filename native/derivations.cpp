// Distributions of the derivations of forests, p ∝ exp(score/ε): pools, covariances, samples and the k best.
//
// An item is pooled over its edges, an edge is the sum of its score and of the items at its tails. Given an item, its
// edges have shares p(edge | item); the probability of an edge is its share times the probability of the item.
#include "derivations.hpp"
#include "forests.hpp"
#include "pooling.hpp"

#include <algorithm>
#include <vector>

using namespace latentstruct;

namespace {

void check(const Forests &forests, const Vector &scores) {
  require_length(static_cast<std::size_t>(forests.n_edges), scores);
  for (Index f = 0; f < forests.n; ++f) {
    const Index first = forests.items_at[f];
    require(first < forests.items_at[f + 1], "forests must have items");
    for (Index item = first; item < forests.items_at[f + 1]; ++item)
      for (Index k = forests.tail_at[forests.edge_at[item]]; k < forests.tail_at[forests.edge_at[item + 1]]; ++k)
        require(forests.tails[k] >= 0 && forests.tails[k] < item - first, "tails must come before their heads");
  }
}

// The pooled items of one forest after the other, and the shares of edges.
struct Inside {
  const Forests &forests;
  const double *scores;
  Index first = 0, count = 0;
  std::vector<double> values, sums; // of items, and of the edges of one
  double *shares;                   // of all edges

  Inside(const Forests &forests, const Vector &scores, double *shares)
      : forests(forests), scores(scores.data()), shares(shares) {}

  Index edge(Index item) const { return forests.edge_at[first + item]; }
  Index root() const { return count - 1; }

  template <typename Add> void each_tail(Index edge, Add add) const {
    for (Index k = forests.tail_at[edge]; k < forests.tail_at[edge + 1]; ++k) add(forests.tails[k]);
  }
  template <typename Add> void each_tail(Index, Index edge, Add add) const { each_tail(edge, add); }

  template <typename Visit> void each_edge(Index item, Visit visit) const {
    for (Index e = edge(item); e < edge(item + 1); ++e) {
      double score = scores[e];
      each_tail(e, [&](Index tail) { score += values[tail]; });
      visit(e, scores[e], score);
    }
  }
  template <typename Visit> void each_share(Index item, Visit visit) const {
    for (Index e = edge(item); e < edge(item + 1); ++e) visit(e, shares[e]);
  }

  double fill(Index forest, double temperature) {
    first = forests.items_at[forest], count = forests.items_at[forest + 1] - first;
    values.resize(count);
    for (Index item = 0; item < count; ++item) {
      sums.clear();
      each_edge(item, [&](Index, double, double score) { sums.push_back(score); });
      values[item] = pool(sums.data(), sums.size(), temperature, shares + edge(item));
    }
    return values[root()];
  }
};

// Pool each forest: values (n,), and the derivatives of its value by scores of edges.
void pool_derivations(Forests forests, Vector scores, double temperature, Out<double, 1> values, Out<double, 1> counts) {
  check(forests, scores);
  require_length(static_cast<std::size_t>(forests.n), values);
  require_length(scores.shape(0), counts);
  Inside inside(forests, scores, counts.data());
  std::vector<double> masses;
  for (Index f = 0; f < forests.n; ++f) {
    values(f) = inside.fill(f, temperature);
    masses.assign(inside.count, 0.0);
    masses.back() = 1.0;
    for (Index item = inside.count; item-- > 0;)
      for (Index e = inside.edge(item); e < inside.edge(item + 1); ++e) {
        const double mass = counts(e) *= masses[item];
        if (mass != 0.0) inside.each_tail(e, [&](Index tail) { masses[tail] += mass; });
      }
  }
}

// out += weights·(second derivatives of the values)·direction, for directions (E,) of scores of edges.
//
// Inside, the derivative of an item is the expectation of those of its edges; outside, probabilities and their
// derivatives are passed on together.
void covariances(Forests forests, Vector scores, double temperature, Vector weights, Vector direction, Out<double, 1> out) {
  check(forests, scores);
  require(temperature > 0.0, "the temperature must be above 0");
  require_length(static_cast<std::size_t>(forests.n), weights);
  require_length(scores.shape(0), direction, out);
  std::vector<double> shares(scores.shape(0)), along(scores.shape(0)), slopes, masses, changes;
  Inside inside(forests, scores, shares.data());
  for (Index f = 0; f < forests.n; ++f) {
    inside.fill(f, temperature);
    slopes.assign(inside.count, 0.0), masses.assign(inside.count, 0.0), changes.assign(inside.count, 0.0);
    for (Index item = 0; item < inside.count; ++item)
      for (Index e = inside.edge(item); e < inside.edge(item + 1); ++e) {
        along[e] = shares[e] != 0.0 ? direction(e) : 0.0;
        inside.each_tail(e, [&](Index tail) { along[e] += slopes[tail]; });
        slopes[item] += shares[e] * along[e];
      }
    masses.back() = 1.0;
    for (Index item = inside.count; item-- > 0;)
      for (Index e = inside.edge(item); e < inside.edge(item + 1); ++e) {
        const double mass = masses[item] * shares[e];
        const double change = changes[item] * shares[e] + mass * (along[e] - slopes[item]) / temperature;
        if (mass == 0.0 && change == 0.0) continue;
        out(e) += weights(f) * change;
        inside.each_tail(e, [&](Index tail) { masses[tail] += mass, changes[tail] += change; });
      }
  }
}

// Mark the edges (draws, E) of independent derivations.
void sample_derivations(Forests forests, Vector scores, double temperature, Index seed, Out<std::uint8_t, 2> used) {
  check(forests, scores);
  require(temperature > 0.0, "the temperature must be above 0");
  require(used.shape(1) == scores.shape(0), "used must be (draws, edges)");
  std::fill_n(used.data(), used.shape(0) * used.shape(1), 0);
  std::vector<double> shares(scores.shape(0));
  std::mt19937_64 numbers(static_cast<std::uint64_t>(seed));
  Inside inside(forests, scores, shares.data());
  for (Index f = 0; f < forests.n; ++f) {
    if (inside.fill(f, temperature) == -INFINITE) continue;
    for (std::size_t j = 0; j < used.shape(0); ++j)
      draw_derivation(inside, inside.root(), numbers, [&](Index, Index edge) { used(j, edge) = 1; });
  }
}

// Mark the edges (count, E) of the best derivations, best first; values (count, n) are -inf where there are fewer.
void best_derivations(Forests forests, Vector scores, Out<double, 2> values, Out<std::uint8_t, 2> used) {
  check(forests, scores);
  const std::size_t count = used.shape(0);
  require(used.shape(1) == scores.shape(0) && values.shape(0) == count && values.shape(1) == static_cast<std::size_t>(forests.n),
          "used must be (count, edges), values (count, forests)");
  std::fill_n(used.data(), used.shape(0) * used.shape(1), 0);
  std::vector<double> shares(scores.shape(0));
  Inside inside(forests, scores, shares.data());
  for (Index f = 0; f < forests.n; ++f) {
    inside.fill(f, 0.0);
    BestDerivations best(inside, static_cast<Index>(count));
    for (std::size_t j = 0; j < count; ++j)
      values(j, f) = best.trace(inside.root(), static_cast<Index>(j), [&](Index, Index edge) { used(j, edge) = 1; });
  }
}

} // namespace

LATENTSTRUCT_MODULE(derivations, pool_derivations, covariances, sample_derivations, best_derivations)
