// Maximum coverage: k documents of a query whose elements (words, subtopics) together have the largest benefit.
//
// An element counts once, however many of the chosen documents hold it, and its benefit may be negative. The problem is
// NP-hard: it is answered greedily, or exactly by branch and bound. Indices of a coverage were checked where the task
// prepared it.
#include "arrays.hpp"
#include "functions.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

using namespace latentstruct;

namespace {

// Which documents hold which elements, see the Python class of this name.
struct Coverage {
  const Index *documents, *elements, *covers_at, *covers, *holders_at, *holders, *bins;
  const double *counts, *losses;
  Index n, n_blocks;

  static Coverage read(const Fields &fields) {
    Index n = -1, n_documents = -1, n_elements = -1, n_pairs = -1, n_blocks = -1;
    const auto *documents = fields.indices("documents", {&n, 1}), *elements = fields.indices("elements", {&n, 1});
    const Coverage found{documents, elements, fields.indices("covers_at", {&n_documents, 1}), fields.indices("covers", &n_pairs),
                         fields.indices("holders_at", {&n_elements, 1}), fields.indices("holders", &n_pairs),
                         fields.indices("bins", &n_elements), fields.get<const double>("counts", &n_elements, &n_blocks),
                         fields.get<const double>("losses", &n_elements), n, n_blocks};
    require(documents[n] == n_documents && elements[n] == n_elements,
            "documents and elements must end with those of the last query");
    return found;
  }
};

// One query; its documents and elements are numbered from 0.
struct Query {
  const Coverage &coverage;
  const Index first, n_elements, start, n_documents;

  Query(const Coverage &coverage, Index number)
      : coverage(coverage), first(coverage.elements[number]), n_elements(coverage.elements[number + 1] - first),
        start(coverage.documents[number]), n_documents(coverage.documents[number + 1] - start) {}

  template <typename Body> void each_element(Index document, Body body) const {
    const Index at = start + document;
    for (Index p = coverage.covers_at[at]; p < coverage.covers_at[at + 1]; ++p) body(coverage.covers[p] - first);
  }

  // Visit the elements that chosen documents hold, each once; documents in their order in the query, so that the same
  // ones always make the same sums.
  template <typename Body> void each_covered(const Index *chosen, Index k, Body body) const {
    std::vector<Index> sorted(chosen, chosen + k);
    std::sort(sorted.begin(), sorted.end());
    std::vector<char> covered(n_elements);
    for (const Index j : sorted)
      each_element(j, [&](Index e) {
        if (!covered[e]) body(e);
        covered[e] = 1;
      });
  }

  Index n_holders(Index e) const { return coverage.holders_at[first + e + 1] - coverage.holders_at[first + e]; }
};

// A query with the benefit of each element: loss_factor·loss + Σ_b counts[b]·table[b, bin].
struct Problem : Query {
  std::vector<double> benefit;

  Problem(const Coverage &coverage, Index number, const Matrix<const double> &table, double loss_factor)
      : Query(coverage, number), benefit(n_elements) {
    for (Index e = 0; e < n_elements; ++e) {
      const double *counts = coverage.counts + (first + e) * coverage.n_blocks;
      benefit[e] = loss_factor * coverage.losses[first + e];
      for (Index b = 0; b < coverage.n_blocks; ++b) benefit[e] += counts[b] * table[b][coverage.bins[first + e]];
    }
  }

  double value(const Index *chosen, Index k) const {
    double total = 0.0;
    each_covered(chosen, k, [&](Index e) { total += benefit[e]; });
    return total;
  }

  // Choose again and again the open document that adds most; of equal ones the first.
  //
  // The gains of all documents are kept up to date: every element is covered once, so that all updates together take as
  // many steps as there are pairs of a document and an element. This also holds for negative benefits, with which gains
  // may rise, so that old gains are no bounds.
  void choose_greedily(std::vector<char> open, Index *chosen, Index k) const {
    std::vector<double> gain(n_documents);
    for (Index j = 0; j < n_documents; ++j)
      each_element(j, [&](Index e) { gain[j] += benefit[e]; });
    std::vector<char> covered(n_elements);
    for (Index rank = 0; rank < k; ++rank) {
      Index best = -1;
      for (Index j = 0; j < n_documents; ++j)
        if (open[j] && (best < 0 || gain[j] > gain[best])) best = j;
      chosen[rank] = best;
      open[best] = 0;
      each_element(best, [&](Index e) {
        if (covered[e]) return;
        covered[e] = 1;
        for (Index q = coverage.holders_at[first + e]; q < coverage.holders_at[first + e + 1]; ++q)
          gain[coverage.holders[q] - start] -= benefit[e];
      });
    }
  }

  // Sort chosen documents by the order in which they would be chosen greedily.
  void order_greedily(Index *chosen, Index k) const {
    std::vector<char> open(n_documents);
    for (Index rank = 0; rank < k; ++rank) open[chosen[rank]] = 1;
    choose_greedily(std::move(open), chosen, k);
  }
};

// Branch and bound, depth first, for a better choice of k documents.
//
// A node has chosen some documents and chooses the next among those that come after them in the order of their
// optimistic gains; the largest of these gains bound what all further documents can add.
class Search {
  // Documents to choose from at a depth, the largest optimistic gain first; how many were tried; benefit of those above.
  struct Level {
    std::vector<Index> ordered;
    std::vector<double> gains;
    Index place = 0;
    double current = 0.0;
  };
  const Problem &problem;
  const Index k;
  std::vector<Index> times; // how many of the documents of this branch hold each element
  std::vector<Level> levels;

  // An upper bound on this document's part of the gain of `n_left` documents.
  //
  // A benefit above 0 is counted in full for every document that holds the element, though it counts once. A benefit
  // below 0 is divided by the number of documents that may share it: the parts of all that do are no more than the
  // whole. With one document left this is its gain.
  double optimistic_gain(Index document, Index n_left) const {
    double total = 0.0;
    problem.each_element(document, [&](Index e) {
      if (times[e] != 0) return;
      const double value = problem.benefit[e];
      total += value < 0.0 ? value / static_cast<double>(std::min(n_left, problem.n_holders(e))) : value;
    });
    return total;
  }

  // Add (step 1) or remove (step -1) a document; return the benefit of the elements it alone holds.
  double change_cover(Index document, Index step) {
    double total = 0.0;
    problem.each_element(document, [&](Index e) {
      if (times[e] == (step > 0 ? 0 : 1)) total += problem.benefit[e];
      times[e] += step;
    });
    return total;
  }

  void fill(Level &level, const Index *documents, Index n, Index n_left, double current) const {
    std::vector<std::pair<double, Index>> found(n);
    for (Index j = 0; j < n; ++j) found[j] = {optimistic_gain(documents[j], n_left), documents[j]};
    std::stable_sort(found.begin(), found.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    level.ordered.resize(n);
    level.gains.resize(n);
    for (Index j = 0; j < n; ++j) level.gains[j] = found[j].first, level.ordered[j] = found[j].second;
    level.place = 0;
    level.current = current;
  }

public:
  Search(const Problem &problem, Index k) : problem(problem), k(k), times(problem.n_elements), levels(k) {}

  // Replace `chosen` by a better choice while there is one; visit() is called for each node and returns whether to continue.
  // Return whether no choice is better.
  template <typename Visit> bool run(Index *chosen, Visit visit) {
    double best = problem.value(chosen, k), least = 0.0;
    // What rounding can make of equal choices is no improvement.
    for (const double value : problem.benefit) least += 1e-12 * std::abs(value);
    std::vector<Index> every(problem.n_documents);
    std::iota(every.begin(), every.end(), Index(0));
    fill(levels[0], every.data(), problem.n_documents, k, 0.0);
    for (Index depth = 0; depth >= 0;) {
      Level &level = levels[depth];
      const Index place = level.place, n_left = k - depth, size = static_cast<Index>(level.ordered.size());
      if (place > 0) change_cover(level.ordered[place - 1], -1);
      double bound = -INFINITE;
      if (place + n_left <= size)
        bound = std::accumulate(level.gains.begin() + place, level.gains.begin() + place + n_left, level.current);
      if (!(bound > best + least)) {
        --depth;
        continue;
      }
      if (n_left == 1) {
        best = bound;
        for (Index d = 0; d < depth; ++d) chosen[d] = levels[d].ordered[levels[d].place - 1];
        chosen[depth--] = level.ordered[place];
        continue;
      }
      if (!visit()) return false;
      ++level.place;
      const double current = level.current + change_cover(level.ordered[place], 1);
      fill(levels[++depth], level.ordered.data() + place + 1, size - place - 1, n_left - 1, current);
    }
    return true;
  }
};

void check(const Coverage &coverage, const Matrix<const double> &table, Index query, Index k) {
  require(static_cast<Index>(table.rows) == coverage.n_blocks, "table must have a row for each block");
  require(0 <= query && query < coverage.n, "queries must exist");
  require(0 < k && k <= coverage.documents[query + 1] - coverage.documents[query], "queries must have k documents");
}

// Choose documents of each listed query, best first in the order of greedy choice.
void choose(Coverage coverage, Indices queries, In<double, 2> table, double loss_factor, Index most_nodes,
            In<Index, 2> known, Out<Index, 2> chosen, Out<bool, 1> proven) {
  require_length(queries.shape(0), chosen, proven);
  require(known.shape(1) == chosen.shape(1), "known and chosen must have as many columns");
  require(known.shape(0) == 0 || static_cast<Index>(known.shape(0)) == coverage.n, "known must have all queries");
  const Index k = static_cast<Index>(chosen.shape(1));
  for (std::size_t row = 0; row < queries.shape(0); ++row) {
    const Index query = queries(row);
    check(coverage, Matrix<const double>(table), query, k);
    const Problem problem(coverage, query, Matrix<const double>(table), loss_factor);
    Index *found = chosen.data() + row * k, n_nodes = 0;
    problem.choose_greedily(std::vector<char>(problem.n_documents, 1), found, k);
    if (known.shape(0) > 0) {
      const Index *rival = known.data() + query * k;
      if (problem.value(rival, k) > problem.value(found, k)) std::copy_n(rival, k, found);
    }
    proven(row) = most_nodes > 0 && Search(problem, k).run(found, [&] { return n_nodes++ < most_nodes; });
    problem.order_greedily(found, k);
  }
}

// Replace `chosen` (k,) by the best choice of a query; Ctrl-C is noticed every `portion` nodes.
void search_to_the_end(Coverage coverage, Index query, In<double, 2> table, double loss_factor, Index portion,
                       Numbers chosen) {
  const Index k = static_cast<Index>(chosen.shape(0));
  check(coverage, Matrix<const double>(table), query, k);
  require(portion > 0, "portion must be above 0");
  const Problem problem(coverage, query, Matrix<const double>(table), loss_factor);
  for (Index rank = 0; rank < k; ++rank)
    require(0 <= chosen(rank) && chosen(rank) < problem.n_documents, "chosen documents must exist");
  Index n_nodes = 0;
  Search(problem, k).run(chosen.data(), [&] {
    if (++n_nodes % portion == 0) {
      nb::gil_scoped_acquire held;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    return true;
  });
  problem.order_greedily(chosen.data(), k);
}

// Write Ψ(x, y) of each choice into slopes (m, d), and the weight of its subtopics into covered (m,).
//
// Ψ at block b and threshold t is the count of covered words of the block whose bin is above t.
void choice_features(Coverage coverage, Indices queries, In<Index, 2> chosen, Out<double, 2> slopes,
                     Values covered) {
  require_length(queries.shape(0), chosen, slopes, covered);
  const Index k = static_cast<Index>(chosen.shape(1)), blocks = coverage.n_blocks;
  require(blocks > 0 && slopes.shape(1) % blocks == 0, "slopes must have as many columns for each block");
  const Index thresholds = static_cast<Index>(slopes.shape(1)) / blocks;
  std::vector<double> histogram(blocks * (thresholds + 1));
  for (std::size_t row = 0; row < queries.shape(0); ++row) {
    const Query query(coverage, queries(row));
    std::fill(histogram.begin(), histogram.end(), 0.0);
    double total = 0.0;
    query.each_covered(chosen.data() + row * k, k, [&](Index e) {
      const Index at = query.first + e;
      total += coverage.losses[at];
      for (Index b = 0; b < blocks; ++b)
        histogram[b * (thresholds + 1) + coverage.bins[at]] += coverage.counts[at * blocks + b];
    });
    covered(row) = total;
    for (Index b = 0; b < blocks; ++b) {
      double above = 0.0, *slope = slopes.data() + (row * blocks + b) * thresholds;
      for (Index t = thresholds - 1; t >= 0; --t) slope[t] = above += histogram[b * (thresholds + 1) + t + 1];
    }
  }
}

} // namespace

LATENTSTRUCT_MODULE(diversity, choose, search_to_the_end, choice_features)
