// Distributions of the derivations of forests, p ∝ exp(score/ε): pools, covariances, samples and the k best.
//
// An item is pooled over its edges, an edge is the sum of its score and of the items at its tails. Given an item, its
// edges have shares p(edge | item); the probability of an edge is its share times the probability of the item.
#include "forests.hpp"
#include "pooling.hpp"

#include <algorithm>
#include <random>
#include <set>
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
  Index first = 0, count = 0;
  std::vector<double> values, sums; // of items, and of the edges of one
  double *shares;                   // of all edges

  Inside(const Forests &forests, double *shares) : forests(forests), shares(shares) {}

  Index edge(Index item) const { return forests.edge_at[first + item]; }

  template <typename Add> void each_tail(Index edge, Add add) const {
    for (Index k = forests.tail_at[edge]; k < forests.tail_at[edge + 1]; ++k) add(forests.tails[k]);
  }

  double fill(Index forest, const double *scores, double temperature) {
    first = forests.items_at[forest], count = forests.items_at[forest + 1] - first;
    values.resize(count);
    for (Index item = 0; item < count; ++item) {
      const Index begin = edge(item), end = edge(item + 1);
      sums.assign(scores + begin, scores + end);
      for (Index e = begin; e < end; ++e) each_tail(e, [&](Index tail) { sums[e - begin] += values[tail]; });
      values[item] = pool(sums.data(), end - begin, temperature, shares + begin);
    }
    return values[count - 1];
  }
};

// Pool each forest: values (n,), and the derivatives of its value by scores of edges.
void pool_derivations(Forests forests, Vector scores, double temperature, Out<double, 1> values, Out<double, 1> counts) {
  check(forests, scores);
  require_length(static_cast<std::size_t>(forests.n), values);
  require_length(scores.shape(0), counts);
  Inside inside(forests, counts.data());
  std::vector<double> masses;
  for (Index f = 0; f < forests.n; ++f) {
    values(f) = inside.fill(f, scores.data(), temperature);
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
  Inside inside(forests, shares.data());
  for (Index f = 0; f < forests.n; ++f) {
    inside.fill(f, scores.data(), temperature);
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
  std::vector<Index> open;
  std::mt19937_64 numbers(static_cast<std::uint64_t>(seed));
  Inside inside(forests, shares.data());
  for (Index f = 0; f < forests.n; ++f) {
    if (inside.fill(f, scores.data(), temperature) == -INFINITE) continue;
    for (std::size_t j = 0; j < used.shape(0); ++j) {
      open.assign(1, inside.count - 1);
      while (!open.empty()) {
        const Index item = open.back();
        open.pop_back();
        double left = static_cast<double>(numbers() >> 11) * 0x1p-53;
        Index chosen = -1;
        for (Index e = inside.edge(item); e < inside.edge(item + 1) && left >= 0.0; ++e)
          if (shares[e] > 0.0) left -= shares[e], chosen = e;
        used(j, chosen) = 1;
        inside.each_tail(chosen, [&](Index tail) { open.push_back(tail); });
      }
    }
  }
}

// One of the best derivations of an item: an edge, and the ranks of the derivations at its tails.
struct Derivation {
  double score;
  Index edge;
  std::vector<Index> ranks;
  bool operator<(const Derivation &other) const {
    return score != other.score ? score > other.score : edge != other.edge ? edge < other.edge : ranks < other.ranks;
  }
};

// Mark the edges (count, E) of the best derivations, best first; values (count, n) are -inf where there are fewer.
void best_derivations(Forests forests, Vector scores, Out<double, 2> values, Out<std::uint8_t, 2> used) {
  check(forests, scores);
  const std::size_t count = used.shape(0);
  require(used.shape(1) == scores.shape(0) && values.shape(0) == count && values.shape(1) == static_cast<std::size_t>(forests.n),
          "used must be (count, edges), values (count, forests)");
  std::fill_n(used.data(), used.shape(0) * used.shape(1), 0);
  std::vector<std::vector<Derivation>> best;
  std::vector<std::pair<Index, Index>> open;
  for (Index f = 0; f < forests.n; ++f) {
    const Index first = forests.items_at[f], size = forests.items_at[f + 1] - first;
    best.assign(size, {});
    const auto derive = [&](Index edge, std::vector<Index> ranks, std::set<Derivation> &found) {
      double score = scores(edge);
      for (std::size_t k = 0; k < ranks.size(); ++k) {
        const auto &below = best[forests.tails[forests.tail_at[edge] + k]];
        if (ranks[k] >= static_cast<Index>(below.size())) return;
        score += below[ranks[k]].score;
      }
      if (score > -INFINITE) found.insert({score, edge, std::move(ranks)});
    };
    std::set<Derivation> found;
    for (Index item = 0; item < size; ++item) {
      found.clear();
      for (Index e = forests.edge_at[first + item]; e < forests.edge_at[first + item + 1]; ++e)
        derive(e, std::vector<Index>(forests.tail_at[e + 1] - forests.tail_at[e], 0), found);
      while (best[item].size() < count && !found.empty()) {
        const Derivation next = found.extract(found.begin()).value();
        // The successors of a derivation have one rank that is higher by 1.
        for (std::size_t k = 0; k < next.ranks.size(); ++k) {
          std::vector<Index> ranks = next.ranks;
          ++ranks[k];
          derive(next.edge, std::move(ranks), found);
        }
        best[item].push_back(next);
      }
    }
    for (std::size_t j = 0; j < count; ++j) {
      values(j, f) = j < best[size - 1].size() ? best[size - 1][j].score : -INFINITE;
      if (values(j, f) == -INFINITE) continue;
      open.assign(1, {size - 1, static_cast<Index>(j)});
      while (!open.empty()) {
        const auto [item, rank] = open.back();
        open.pop_back();
        const Derivation &own = best[item][rank];
        used(j, own.edge) = 1;
        for (std::size_t k = 0; k < own.ranks.size(); ++k)
          open.emplace_back(forests.tails[forests.tail_at[own.edge] + k], own.ranks[k]);
      }
    }
  }
}

} // namespace

LATENTSTRUCT_MODULE(derivations, pool_derivations, covariances, sample_derivations, best_derivations)
