// The best derivations of forests by their loss, for losses that are sums of small integers.
//
// A forest lists all outputs of an example: items in an order in which those below come first, each reached by edges
// from other items. An edge has a score, a loss and the items below it; a derivation of the last item, the root, takes
// one edge of each item that it reaches. best[item][l] is the largest score of a derivation with loss l.
#include "forests.hpp"
#include "functions.hpp"

#include <algorithm>
#include <vector>

using namespace latentstruct;

namespace {

// The tables of one forest after the other.
struct Tables {
  const Forests &forests;
  const double *scores = nullptr;        // of the edges of the forest
  Index first = 0, count = 0, first_edge = 0; // items, and the first edge
  std::vector<Index> level_at;
  std::vector<double> best;
  std::vector<std::vector<double>> prefixes; // of an edge with its first tails

  explicit Tables(const Forests &forests) : forests(forests) {}

  Index levels(Index item) const { return level_at[item + 1] - level_at[item]; }

  // Pool the first tails of an edge one by one; return the scores by loss, without the loss of the edge itself.
  const std::vector<double> &combine(Index edge) {
    const Index tail = forests.tail_at[edge], size = forests.tail_at[edge + 1] - tail;
    if (prefixes.size() <= static_cast<std::size_t>(size)) prefixes.resize(size + 1);
    prefixes[0].assign(1, scores[edge - first_edge]);
    for (Index k = 0; k < size; ++k) {
      const Index below = forests.tails[tail + k], more = levels(below);
      const double *own = best.data() + level_at[below];
      const std::vector<double> &before = prefixes[k];
      std::vector<double> &after = prefixes[k + 1];
      after.assign(before.size() + more - 1, -INFINITE);
      for (std::size_t a = 0; a < before.size(); ++a)
        for (Index b = 0; b < more; ++b) after[a + b] = std::max(after[a + b], before[a] + own[b]);
    }
    return prefixes[size];
  }

  void fill(Index forest, const double *edge_scores) {
    first = forests.items_at[forest], count = forests.items_at[forest + 1] - first;
    scores = edge_scores, first_edge = forests.edge_at[first];
    level_at.assign(1, 0);
    best.clear();
    for (Index item = 0; item < count; ++item) {
      Index most = 0;
      for (Index edge = forests.edge_at[first + item]; edge < forests.edge_at[first + item + 1]; ++edge) {
        Index loss = forests.losses[edge];
        require(loss >= 0, "losses must not be negative");
        for (Index k = forests.tail_at[edge]; k < forests.tail_at[edge + 1]; ++k) {
          require(forests.tails[k] >= 0 && forests.tails[k] < item, "tails must come before their heads");
          loss += levels(forests.tails[k]) - 1;
        }
        most = std::max(most, loss);
      }
      level_at.push_back(level_at.back() + most + 1);
      best.resize(level_at.back(), -INFINITE);
      for (Index edge = forests.edge_at[first + item]; edge < forests.edge_at[first + item + 1]; ++edge) {
        double *own = best.data() + level_at[item] + forests.losses[edge];
        if (forests.tail_at[edge + 1] - forests.tail_at[edge] == 1) {
          // Most edges of chains have one tail: nothing has to be combined.
          const Index below = forests.tails[forests.tail_at[edge]], size = levels(below);
          const double *other = best.data() + level_at[below], score = scores[edge - first_edge];
          for (Index l = 0; l < size; ++l) own[l] = std::max(own[l], score + other[l]);
          continue;
        }
        const std::vector<double> &found = combine(edge);
        for (std::size_t l = 0; l < found.size(); ++l) own[l] = std::max(own[l], found[l]);
      }
    }
  }

  // Mark the edges of the best derivation of the root with a loss.
  void trace(Index loss, std::vector<std::pair<Index, Index>> &open, double *used) {
    open.assign(1, {count - 1, loss});
    while (!open.empty()) {
      const auto [item, level] = open.back();
      open.pop_back();
      const double value = best[level_at[item] + level];
      for (Index edge = forests.edge_at[first + item]; edge < forests.edge_at[first + item + 1]; ++edge) {
        Index left = level - forests.losses[edge];
        const std::vector<double> &found = combine(edge);
        if (left < 0 || left >= static_cast<Index>(found.size()) || found[left] != value) continue;
        used[edge - first_edge] = 1.0;
        for (Index k = forests.tail_at[edge + 1] - forests.tail_at[edge] - 1; k >= 0; --k) {
          const Index below = forests.tails[forests.tail_at[edge] + k];
          const std::vector<double> &before = prefixes[k];
          for (Index b = 0; b < levels(below); ++b) {
            const Index a = left - b;
            if (a < 0 || a >= static_cast<Index>(before.size()) ||
                before[a] + best[level_at[below] + b] != prefixes[k + 1][left])
              continue;
            open.emplace_back(below, b);
            left = a;
            break;
          }
        }
        break;
      }
    }
  }
};

void check(const Forests &forests, const Indices &rows, const Vector &scores) {
  std::size_t n_edges = 0;
  for (std::size_t k = 0; k < rows.shape(0); ++k) {
    require(rows(k) >= 0 && rows(k) < forests.n, "rows must be numbers of forests");
    n_edges += forests.edge_at[forests.items_at[rows(k) + 1]] - forests.edge_at[forests.items_at[rows(k)]];
  }
  require_length(n_edges, scores);
}

void best_by_loss(Forests forests, Indices rows, Vector scores, Indices level_at, Values values) {
  check(forests, rows, scores);
  require_length(rows.shape(0) + 1, level_at);
  require(level_at(rows.shape(0)) == static_cast<Index>(values.shape(0)), "values must have the given levels");
  Tables tables(forests);
  const double *own = scores.data();
  for (std::size_t k = 0; k < rows.shape(0); ++k) {
    tables.fill(rows(k), own);
    own += forests.edges_of(rows(k));
    const Index size = level_at(k + 1) - level_at(k);
    require(tables.count > 0 && tables.levels(tables.count - 1) <= size, "level_at must have places for all losses");
    double *out = values.data() + level_at(k);
    std::fill_n(out, size, -INFINITE);
    std::copy_n(tables.best.data() + tables.level_at[tables.count - 1], tables.levels(tables.count - 1), out);
  }
}

void trace_losses(Forests forests, Indices rows, Vector scores, Indices losses, Values used) {
  check(forests, rows, scores);
  require_length(rows.shape(0), losses);
  require_length(scores.shape(0), used);
  Tables tables(forests);
  std::vector<std::pair<Index, Index>> open;
  Index place = 0;
  for (std::size_t k = 0; k < rows.shape(0); ++k) {
    tables.fill(rows(k), scores.data() + place);
    require(tables.count > 0 && losses(k) >= 0 && losses(k) < tables.levels(tables.count - 1) &&
                tables.best[tables.level_at[tables.count - 1] + losses(k)] > -INFINITE,
            "no derivation has the given loss");
    std::fill_n(used.data() + place, forests.edges_of(rows(k)), 0.0);
    tables.trace(losses(k), open, used.data() + place);
    place += forests.edges_of(rows(k));
  }
}

} // namespace

LATENTSTRUCT_MODULE(forests, best_by_loss, trace_losses)
