// Clusters of a document's items from the scores of their pairs: maximum spanning forests, and correlation clustering.
//
// Pairs i < j of n items are numbered in condensed order (0,1), (0,2), …, (1,2), …; pair p has the input row row_of[p]
// and the score s_p = w·x_{row_of[p]}. Document t has the pairs pairs[t] … pairs[t+1] and the items items[t] … items[t+1].
// All of these were checked where the task prepared or unpacked its batch.
//
// Symbols of Yu and Joachims, equation (8): n items, k true clusters, l(y, (i, j)) = 1 inside a true cluster and -r across
// (r is `penalty`), Δ = n - k - Σ_{(i,j) ∈ h} l(y, (i, j)).
#include "atoms.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

using namespace latentstruct;

namespace {

// Weights of pairs are one block.
constexpr Column FIRST = 0;

double row_score(const Rows &rows, Index row, const double *w) {
  double score;
  dot_row(rows, row, &FIRST, 1, w, &score);
  return score;
}
using Scores = std::vector<double>;

enum Mode : Index { FREE, AUGMENTED, CLAMPED };

// Up to this many items, partitions are found by dynamic programming over subsets, above by merging and moving items.
constexpr Index EXACT_ITEMS = 10, MOST_SWEEPS = 100;

Index pair_number(Index i, Index j, Index n_items) { return i * n_items - i * (i + 1) / 2 + j - i - 1; }

// body(p, i, j) for all pairs.
template <typename Body> LATENTSTRUCT_INLINE void each_pair(Index n_items, Body body) {
  for (Index i = 0, p = 0; i < n_items; ++i)
    for (Index j = i + 1; j < n_items; ++j) body(p++, i, j);
}

// The documents of a query, as the batch of the task has them.
struct Problem {
  const Rows &rows;
  const std::int32_t *row_of;
  const double *known, *w; // Scores of all rows, or null if too few pairs are needed.
  const Index *documents, *pairs, *items, *truth;
  std::size_t n;
  Index mode;

  Problem(const Rows &rows, const In<std::int32_t, 1> &row_of, const Vector &known, const Vector &w,
          const Indices &documents, const Indices &pairs, const Indices &items, const Indices &truth, Index mode)
      : rows(rows), row_of(row_of.data()), known(known.shape(0) ? known.data() : nullptr), w(w.data()),
        documents(documents.data()), pairs(pairs.data()), items(items.data()), truth(truth.data()),
        n(documents.shape(0)), mode(mode) {
    require(known.shape(0) == 0 || known.shape(0) == rows.n, "known must have the scores of all rows, or none");
    require_length(items.shape(0), pairs);
    const Index last = static_cast<Index>(items.shape(0)) - 1;
    require(last >= 0 && pairs(last) == static_cast<Index>(row_of.shape(0)), "pairs must end with the last row");
    require(mode == FREE || items(last) == static_cast<Index>(truth.shape(0)), "items must have true clusters");
    for (std::size_t k = 0; k < n; ++k) require(0 <= documents(k) && documents(k) < last, "documents must exist");
  }

  Index n_items(std::size_t k) const { return items[documents[k] + 1] - items[documents[k]]; }
  Index n_pairs(std::size_t k) const { return pairs[documents[k] + 1] - pairs[documents[k]]; }
  Index most_items() const {
    Index most = 0;
    for (std::size_t k = 0; k < n; ++k) most = std::max(most, n_items(k));
    return most;
  }
  Index all_items() const {
    Index all = 0;
    for (std::size_t k = 0; k < n; ++k) all += n_items(k);
    return all;
  }
  const Index *labels(std::size_t k) const { return mode == FREE ? nullptr : truth + items[documents[k]]; }

  // Write the score of each pair of a document as its mode wants it. Free: s_p; augmented: s_p - l with l = 1 inside a
  // true cluster and -penalty across; clamped: s_p inside and -inf across, where nothing may be linked.
  void score_pairs(std::size_t k, double penalty, double *scores) const {
    const std::int32_t *row = row_of + pairs[documents[k]];
    const Index *cluster = labels(k);
    each_pair(n_items(k), [&](Index p, Index i, Index j) {
      const bool inside = cluster && cluster[i] == cluster[j];
      if (mode == CLAMPED && !inside) {
        scores[p] = -INFINITE;
        return;
      }
      scores[p] = known ? known[row[p]] : row_score(rows, row[p], w);
      if (mode == AUGMENTED) scores[p] += inside ? -1.0 : penalty;
    });
  }
};

// Grow a maximum spanning tree from item 0 (Prim): v hangs on link[v] by an edge of score height[v].
//
// Items that only edges of -inf reach hang on nothing (-1). Each pair is visited once, and nothing is sorted. Of equal
// edges the first found stays.
void grow_tree(const double *scores, Index n_items, Index *link, double *height) {
  std::vector<Index> outside(n_items), start(n_items); // The pair i < j has the number start[i] + j.
  std::iota(outside.begin(), outside.end(), Index(0));
  for (Index i = 0; i < n_items; ++i) start[i] = pair_number(i, 0, n_items);
  std::fill_n(link, n_items, -1);
  std::fill_n(height, n_items, -INFINITE);
  Index place = 0;
  for (Index left = n_items - 1; left > 0; --left) {
    // The item that joins gives its place in the list to the last one.
    const Index joined = outside[place];
    outside[place] = outside[left];
    place = 0;
    double highest = -INFINITE;
    const double *row = scores + start[joined];
    for (Index k = 0; k < left; ++k) {
      const Index v = outside[k];
      const double score = joined < v ? row[v] : scores[start[v] + joined];
      if (score > height[v]) height[v] = score, link[v] = joined;
      if (height[v] > highest) highest = height[v], place = k;
    }
  }
}

// Δ of equation (8) for the ascending edges of one document, counted so that it is exact.
double forest_loss(const Index *edges, Index n_edges, Index first, Index n_items, const Index *labels, double penalty) {
  Index inside = 0, i = 0, start = 0;
  for (Index e = 0; e < n_edges; ++e) {
    const Index pair = edges[e] - first;
    for (; pair >= start + n_items - 1 - i; ++i) start += n_items - 1 - i;
    inside += labels[i] == labels[pair - start + i + 1];
  }
  const Index clusters = *std::max_element(labels, labels + n_items) + 1;
  return static_cast<double>(n_items - clusters - inside) + penalty * static_cast<double>(n_edges - inside);
}

// Find the best forest of each listed document.
//
// The pairs that are edges of the forest are left, ascending, in edges[pointers[k]:pointers[k+1]]; values[k] is its
// score, with the loss if augmented, and losses[k] is Δ (0 in other modes). A free or augmented forest has edges of
// positive score only; a clamped one connects all of each true cluster.
void forests(Rows rows, In<std::int32_t, 1> row_of, Vector known, Vector w, Indices documents, Indices pairs, Indices items,
             Indices truth, Index mode, double penalty, Numbers pointers, Numbers edges, Values values, Values losses) {
  const Problem problem(rows, row_of, known, w, documents, pairs, items, truth, mode);
  require_length(problem.n + 1, pointers);
  require_length(problem.n, values, losses);
  require(static_cast<Index>(edges.shape(0)) >= problem.all_items(), "edges are too short");
  const Index most = problem.most_items();
  Scores scores(most * (most - 1) / 2), height(most);
  std::vector<Index> link(most);
  pointers(0) = 0;
  for (std::size_t k = 0; k < problem.n; ++k) {
    const Index n_items = problem.n_items(k), first = problem.pairs[problem.documents[k]];
    problem.score_pairs(k, penalty, scores.data());
    grow_tree(scores.data(), n_items, link.data(), height.data());
    Index *found = edges.data() + pointers(k), *end = found;
    for (Index v = 0; v < n_items; ++v)
      if (link[v] >= 0 && (mode == CLAMPED || height[v] > 0.0))
        *end++ = first + pair_number(std::min(v, link[v]), std::max(v, link[v]), n_items);
    // Equal forests must be equal lists, whatever order they grew in.
    std::sort(found, end);
    pointers(k + 1) = pointers(k) + (end - found);
    losses(k) = mode == AUGMENTED ? forest_loss(found, end - found, first, n_items, problem.labels(k), penalty) : 0.0;
    values(k) = losses(k);
    for (; found < end; ++found) values(k) += row_score(rows, row_of(*found), w.data());
  }
}

void spanning_tree(Vector scores, Numbers link, Values height) {
  const Index n_items = static_cast<Index>(link.shape(0));
  require_length(n_items, height);
  require_length(n_items * (n_items - 1) / 2, scores);
  grow_tree(scores.data(), n_items, link.data(), height.data());
}

// Number the components of the graph with the given edges (E, 2) by first appearance; return how many edges closed a
// circle: 0 for a forest.
Index component_labels(In<Index, 2> edges, Numbers labels) {
  require(edges.shape(1) == 2, "edges must have 2 columns");
  const Index n = static_cast<Index>(labels.shape(0));
  std::vector<Index> root(n);
  std::iota(root.begin(), root.end(), Index(0));
  const auto find = [&](Index v) {
    for (; root[v] != v; v = root[v]) root[v] = root[root[v]];
    return v;
  };
  Index circles = 0, n_components = 0;
  for (std::size_t e = 0; e < edges.shape(0); ++e) {
    require(0 <= edges(e, 0) && edges(e, 0) < n && 0 <= edges(e, 1) && edges(e, 1) < n, "edges must link items");
    const Index a = find(edges(e, 0)), b = find(edges(e, 1));
    circles += a == b;
    root[std::max(a, b)] = std::min(a, b);
  }
  // A root is the smallest of its component, so that root[v] <= v has its label already.
  for (Index v = 0; v < n; ++v) labels(v) = root[v] == v ? n_components++ : labels(root[v]);
  return circles;
}

// Turn a Prüfer code of length k - 2 into the edges (k - 1, 2) of a tree; uniform codes give uniform trees.
void tree_of_code(Indices code, Out<Index, 2> edges) {
  const Index size = static_cast<Index>(code.shape(0)) + 2;
  require(edges.shape(1) == 2, "edges must have 2 columns");
  require_length(size - 1, edges);
  std::vector<Index> degree(size, 1);
  for (std::size_t e = 0; e < code.shape(0); ++e) {
    require(0 <= code(e) && code(e) < size, "codes must be items");
    ++degree[code(e)];
  }
  Index smallest = -1;
  const auto next_leaf = [&] {
    while (degree[++smallest] != 1) {}
    return smallest;
  };
  Index leaf = next_leaf();
  for (std::size_t e = 0; e < code.shape(0); ++e) {
    const Index v = code(e);
    edges(e, 0) = leaf;
    edges(e, 1) = v;
    leaf = --degree[v] == 1 && v < smallest ? v : next_leaf();
  }
  edges(size - 2, 0) = leaf;
  edges(size - 2, 1) = size - 1;
}

// Correlation clustering: the partition with the largest sum of pair scores, which may be negative, inside its clusters.

double value_of(const double *scores, const Index *labels, Index n_items) {
  double total = 0.0;
  each_pair(n_items, [&](Index p, Index i, Index j) { total += labels[i] == labels[j] ? scores[p] : 0.0; });
  return total;
}

// The pair scores as a symmetric matrix (n, n) with zeros on the diagonal.
Scores square(const double *scores, Index n_items) {
  Scores matrix(n_items * n_items);
  each_pair(n_items, [&](Index p, Index i, Index j) { matrix[i * n_items + j] = matrix[j * n_items + i] = scores[p]; });
  return matrix;
}

// Find the best partition by dynamic programming over subsets, 3^n steps:
// best[S] = max over T ⊆ S with the lowest item of S in T of inside[T] + best[S without T].
void find_exactly(const double *scores, Index *labels, Index n_items) {
  const Scores matrix = square(scores, n_items);
  const std::uint32_t n_sets = std::uint32_t(1) << n_items;
  Scores inside(n_sets), best(n_sets);
  std::vector<std::uint32_t> choice(n_sets);
  for (std::uint32_t members = 1; members < n_sets; ++members) {
    const int low = std::countr_zero(members);
    const std::uint32_t lowest = std::uint32_t(1) << low, rest = members ^ lowest;
    inside[members] = inside[rest];
    for (Index v = low + 1; v < n_items; ++v)
      if (rest >> v & 1) inside[members] += matrix[low * n_items + v];
    best[members] = -INFINITE;
    // `others` runs through all subsets of `rest`, the largest first.
    for (std::uint32_t others = rest;; others = (others - 1) & rest) {
      const double value = inside[others | lowest] + best[rest ^ others];
      if (value > best[members]) best[members] = value, choice[members] = others | lowest;
      if (others == 0) break;
    }
  }
  Index number = 0;
  std::fill_n(labels, n_items, 0); // Nothing is chosen if scores are NaN.
  for (std::uint32_t members = n_sets - 1; members && choice[members]; members ^= choice[members], ++number)
    for (Index v = 0; v < n_items; ++v)
      if (choice[members] >> v & 1) labels[v] = number;
}

// Merge the two clusters with the largest positive sum between them, from single items until none is left.
//
// `bound` of a cluster is at least its largest sum with another. It is recomputed only if it is the highest and
// may be too high: most clusters never get there.
void merge(const double *scores, Index *labels, Index n_items) {
  Scores sums = square(scores, n_items), bound(n_items, INFINITE);
  std::vector<char> alive(n_items, 1), sure(n_items);
  std::vector<Index> partner(n_items);
  std::iota(labels, labels + n_items, Index(0));
  while (true) {
    Index keep = -1;
    for (Index v = 0; v < n_items; ++v)
      if (alive[v] && (keep < 0 || bound[v] > bound[keep])) keep = v;
    if (keep < 0 || !(bound[keep] > 0.0)) return;
    double *row = sums.data() + keep * n_items;
    if (!sure[keep]) {
      Index best = -1;
      for (Index v = 0; v < n_items; ++v)
        if (alive[v] && v != keep && (best < 0 || row[v] > row[best])) best = v;
      partner[keep] = best;
      bound[keep] = best >= 0 ? row[best] : -INFINITE;
      sure[keep] = 1;
      continue;
    }
    const Index gone = partner[keep];
    const double *other = sums.data() + gone * n_items;
    alive[gone] = sure[keep] = 0;
    bound[keep] = INFINITE;
    for (Index v = 0; v < n_items; ++v) {
      row[v] += other[v];
      sums[v * n_items + keep] = row[v];
      if (labels[v] == gone) labels[v] = keep;
      if (!alive[v] || v == keep) continue;
      if (row[v] >= bound[v]) bound[v] = row[v], partner[v] = keep, sure[v] = 1;
      else if (partner[v] == keep || partner[v] == gone) sure[v] = 0;
    }
  }
}

// Move single items to the cluster they fit best, or to one of their own, while that raises the value.
void move(const double *scores, Index *labels, Index n_items) {
  const Scores matrix = square(scores, n_items);
  Scores sums(n_items * n_items); // of the scores between the members of a cluster (row) and an item
  std::vector<Index> size(n_items);
  const auto add = [&](Index cluster, Index v, double sign) {
    for (Index u = 0; u < n_items; ++u) sums[cluster * n_items + u] += sign * matrix[v * n_items + u];
  };
  for (Index v = 0; v < n_items; ++v) ++size[labels[v]], add(labels[v], v, 1.0);
  // A gain that rounding could have made might be made for ever.
  double least = 0.0;
  for (Index p = 0; p < n_items * (n_items - 1) / 2; ++p) least = std::max(least, 1e-10 * std::abs(scores[p]));
  bool moved = true;
  for (Index sweep = 0; sweep < MOST_SWEEPS && moved; ++sweep) {
    moved = false;
    for (Index v = 0; v < n_items; ++v) {
      const Index here = labels[v];
      Index best = -1, empty = -1;
      double highest = sums[here * n_items + v] + least;
      for (Index c = 0; c < n_items; ++c) {
        if (size[c] == 0) empty = c;
        else if (c != here && sums[c * n_items + v] > highest) best = c, highest = sums[c * n_items + v];
      }
      if (size[here] > 1 && highest < 0.0) {
        best = empty;
        std::fill_n(sums.data() + empty * n_items, n_items, 0.0);
      }
      if (best < 0) continue;
      add(here, v, -1.0);
      add(best, v, 1.0);
      --size[here];
      ++size[best];
      labels[v] = best;
      moved = true;
    }
  }
}

// Number labels from 0 … n - 1 by first appearance, in place.
void number_labels(Index *labels, Index n_items) {
  std::vector<Index> number(n_items, -1);
  Index used = 0;
  for (Index v = 0; v < n_items; ++v) {
    Index &found = number[labels[v]];
    if (found < 0) found = used++;
    labels[v] = found;
  }
}

// Leave a good partition in `labels`, the best one up to EXACT_ITEMS items. A known `truth` (else null) is a second
// start: the result is then never worse.
void cluster(const double *scores, const Index *truth, Index *labels, Index n_items) {
  if (n_items <= EXACT_ITEMS) {
    find_exactly(scores, labels, n_items);
  } else {
    merge(scores, labels, n_items);
    move(scores, labels, n_items);
    if (truth) {
      std::vector<Index> rival(truth, truth + n_items);
      move(scores, rival.data(), n_items);
      if (value_of(scores, rival.data(), n_items) > value_of(scores, labels, n_items))
        std::copy(rival.begin(), rival.end(), labels);
    }
  }
  number_labels(labels, n_items);
}

// Cluster each listed document (modes free and augmented).
//
// The documents' labels are left one after the other in `labels`; values[k] = (1/P) Σ_{p inside} w·x_p + losses[k], where
// losses[k] is the fraction of the P pairs that are wrong (0 if free).
void clusterings(Rows rows, In<std::int32_t, 1> row_of, Vector known, Vector w, Indices documents, Indices pairs,
                 Indices items, Indices truth, Index mode, Numbers labels, Values values, Values losses) {
  const Problem problem(rows, row_of, known, w, documents, pairs, items, truth, mode);
  require_length(problem.n, values, losses);
  require_length(problem.all_items(), labels);
  const Index most = problem.most_items();
  Scores scores(most * (most - 1) / 2);
  Index *found = labels.data();
  for (std::size_t k = 0; k < problem.n; ++k) {
    const Index n_items = problem.n_items(k), *right = problem.labels(k);
    problem.score_pairs(k, 1.0, scores.data());
    cluster(scores.data(), right, found, n_items);
    Index wrong = 0;
    double value = 0.0;
    each_pair(n_items, [&](Index p, Index i, Index j) {
      const bool together = found[i] == found[j], belong = right && right[i] == right[j];
      wrong += right && together != belong;
      // The loss was added to scores, and is taken away again.
      if (together) value += right ? scores[p] + (belong ? 1.0 : -1.0) : scores[p];
    });
    const double n_pairs = static_cast<double>(std::max<Index>(problem.n_pairs(k), 1));
    losses(k) = static_cast<double>(wrong) / n_pairs;
    values(k) = value / n_pairs + losses(k);
    found += n_items;
  }
}

// out[k] = number of pairs with equal labels in each listed document; labels as returned by `clusterings`.
void inside_pairs(Indices documents, Indices items, Indices labels, Numbers out) {
  require_length(documents.shape(0), out);
  std::vector<Index> size;
  const Index *label = labels.data(), *end = label + labels.shape(0);
  for (std::size_t k = 0; k < documents.shape(0); ++k) {
    const Index n_items = items(documents(k) + 1) - items(documents(k));
    require(n_items <= end - label, "labels are too short");
    size.assign(n_items, 0);
    Index total = 0;
    // The n-th item of a cluster makes n - 1 pairs with those before it.
    for (Index v = 0; v < n_items; ++v) total += size[label[v]]++;
    out(k) = total;
    label += n_items;
  }
}

// Write the slopes (1/P) Σ_{p inside} x_p: an atom for each pair, or for each weight if these are fewer.
void partition_atoms(Rows rows, In<std::int32_t, 1> row_of, Indices documents, Indices pairs, Indices items, Indices labels,
                     Indices counts, Index n_features, Numbers pointers, AtomTable atoms) {
  require_length(documents.shape(0), counts);
  require_length(documents.shape(0) + 1, pointers);
  Index needed = 0, end = 0;
  for (std::size_t k = 0; k < counts.shape(0); ++k) needed += std::min(counts(k), n_features);
  require(static_cast<Index>(atoms.n) >= needed, "atoms are too short");
  const auto put = [&](Index row, Index column, double value) {
    atoms.row[end] = static_cast<Column>(row), atoms.column[end] = static_cast<Column>(column), atoms.value[end++] = value;
  };
  Scores slope(n_features);
  const Index *label = labels.data();
  pointers(0) = 0;
  for (std::size_t k = 0; k < documents.shape(0); ++k) {
    const Index t = documents(k), n_items = items(t + 1) - items(t);
    const double share = 1.0 / static_cast<double>(pairs(t + 1) - pairs(t));
    const std::int32_t *row = row_of.data() + pairs(t);
    const bool by_weights = counts(k) > n_features;
    each_pair(n_items, [&](Index p, Index i, Index j) {
      if (label[i] != label[j]) return;
      if (by_weights) add_row(rows, row[p], &FIRST, 1, &share, slope.data());
      else put(row[p], 0, share);
    });
    if (by_weights) {
      for (Index f = 0; f < n_features; ++f)
        if (slope[f] != 0.0) put(-1, f, slope[f]);
      std::fill(slope.begin(), slope.end(), 0.0);
    }
    pointers(k + 1) = end;
    label += n_items;
  }
}

Index items_of(const Vector &scores, std::size_t n_labels) {
  require_length(n_labels * (n_labels - 1) / 2, scores);
  return static_cast<Index>(n_labels);
}

double partition_value(Vector scores, Indices labels) {
  return value_of(scores.data(), labels.data(), items_of(scores, labels.shape(0)));
}

void partition_exactly(Vector scores, Numbers labels) {
  require(labels.shape(0) <= 16, "there must be few items");
  find_exactly(scores.data(), labels.data(), items_of(scores, labels.shape(0)));
}

void merge_greedily(Vector scores, Numbers labels) {
  merge(scores.data(), labels.data(), items_of(scores, labels.shape(0)));
}

void move_items(Vector scores, Numbers labels) {
  const Index n_items = items_of(scores, labels.shape(0));
  for (Index v = 0; v < n_items; ++v) require(0 <= labels(v) && labels(v) < n_items, "labels must be below the items");
  move(scores.data(), labels.data(), n_items);
}

} // namespace

LATENTSTRUCT_MODULE(clustering, EXACT_ITEMS, forests, spanning_tree, component_labels, tree_of_code, clusterings, inside_pairs,
                    partition_atoms, partition_value, partition_exactly, merge_greedily, move_items)
