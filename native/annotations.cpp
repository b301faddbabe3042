// Sub-symbols of known trees: the best ones, and sums over all of them.
//
// A tree is given by its nodes in preorder, so that children come after their parents: kind, number of the rule, and
// place of the right child. With k sub-symbols a symbol, the weight of binary rule r over sub-symbols a -> b c is number
// (r·k + a)·k² + b·k + c, that of a unary rule (r·k + a)·k + b and of a lexical entry r·k + a, each from the start of its
// block. Trees were checked when the batch was prepared.
#include "arrays.hpp"
#include "pooling.hpp"

#include <algorithm>
#include <vector>

using namespace latentstruct;

namespace {

constexpr Index LEXICAL = 0, BINARY = 2;

// Known trees, see the Python class of this name.
struct GoldTrees {
  const Index *offsets, *kind, *rule, *right, *root;
  Index count, nodes;

  static GoldTrees read(const Fields &fields) {
    Index n = -1, nodes = -1;
    return {fields.indices("offsets", {&n, 1}), fields.indices("kind", &nodes), fields.indices("rule", &nodes),
            fields.indices("right", &nodes), fields.indices("root", &n), n, nodes};
  }
};

// Where the blocks of weights begin, see the Python class of this name; binary ones begin at 0.
struct Layout {
  Index unary, lexical, root;

  static Layout read(const Fields &fields) {
    return {fields.number<Index>("unary"), fields.number<Index>("lexical"), fields.number<Index>("root")};
  }
};

// The sub-symbols of one tree at a time.
class Annotations {
  const GoldTrees &trees;
  const Layout &layout;
  const Index k;
  const double *w;
  Index first = 0, last = 0;
  std::vector<double> below, above;  // by node and sub-symbol
  std::vector<double> found, shares; // of one node's choices; and of all, by node and sub-symbol

  // The block of weights of node v with sub-symbol a, one for each choice of sub-symbols of its children: -1 for a word
  // without a lexical entry.
  Index weights_at(Index v, Index a) const {
    const Index rule = trees.rule[v];
    if (trees.kind[v] == LEXICAL) return rule >= 0 ? layout.lexical + rule * k + a : -1;
    return trees.kind[v] == BINARY ? (rule * k + a) * k * k : layout.unary + (rule * k + a) * k;
  }

  // Write the scores of all sub-symbols of node v's children, given its own, a; return how many there are.
  Index choices(Index v, Index a) {
    const Index at = weights_at(v, a);
    if (trees.kind[v] == LEXICAL) {
      found[0] = at >= 0 ? w[at] : 0.0;
      return 1;
    }
    const double *left = below.data() + (v + 1 - first) * k;
    if (trees.kind[v] != BINARY) {
      for (Index b = 0; b < k; ++b) found[b] = w[at + b] + left[b];
      return k;
    }
    const double *right = below.data() + (trees.right[v] - first) * k;
    for (Index b = 0; b < k; ++b)
      for (Index c = 0; c < k; ++c) found[b * k + c] = w[at + b * k + c] + left[b] + right[c];
    return k * k;
  }

  double *shares_of(Index v, Index a) { return shares.data() + ((v - first) * k + a) * k * k; }
  Index best_of(Index size) const { return std::max_element(found.begin(), found.begin() + size) - found.begin(); }

public:
  Annotations(const GoldTrees &trees, const Layout &layout, Index k, const double *w)
      : trees(trees), layout(layout), k(k), w(w), found(k * k) {}

  // Pool the subtree below each node of a tree, by sub-symbol; return the value with the root's weights. The root's scores
  // are left in `found`, and their shares after those of all nodes.
  double pool_nodes(Index tree, double temperature) {
    first = trees.offsets[tree];
    last = trees.offsets[tree + 1];
    below.resize(std::max<std::size_t>(below.size(), (last - first) * k));
    shares.resize(std::max<std::size_t>(shares.size(), (last - first + 1) * k * k * k));
    for (Index v = last; v-- > first;)
      for (Index a = 0; a < k; ++a)
        below[(v - first) * k + a] = pool(found.data(), choices(v, a), temperature, shares_of(v, a));
    for (Index a = 0; a < k; ++a) found[a] = w[layout.root + trees.root[tree] * k + a] + below[a];
    return pool(found.data(), k, temperature, shares_of(last, 0));
  }

  // Write the best sub-symbol of each node of the tree that was pooled at ε = 0.
  void choose(Index *chosen) {
    chosen[first] = best_of(k);
    for (Index v = first; v < last; ++v) {
      const Index best = best_of(choices(v, chosen[v]));
      if (trees.kind[v] == BINARY) {
        chosen[v + 1] = best / k;
        chosen[trees.right[v]] = best % k;
      } else if (trees.kind[v] != LEXICAL) {
        chosen[v + 1] = best;
      }
    }
  }

  // Add weight times the expected features of the tree that was pooled.
  void add_expected(Index tree, double weight, double *slope) {
    above.assign((last - first) * k, 0.0);
    for (Index a = 0; a < k; ++a) {
      above[a] = shares_of(last, 0)[a];
      slope[layout.root + trees.root[tree] * k + a] += weight * above[a];
    }
    for (Index v = first; v < last; ++v)
      for (Index a = 0; a < k; ++a) add_choices(v, a, weight, slope);
  }

private:
  void add_choices(Index v, Index a, double weight, double *slope) {
    const double mass = above[(v - first) * k + a], *share = shares_of(v, a);
    const Index at = weights_at(v, a);
    double *left = above.data() + (v + 1 - first) * k, *right = above.data() + (trees.right[v] - first) * k;
    if (trees.kind[v] == LEXICAL) {
      if (at >= 0) slope[at] += weight * mass;
      return;
    }
    const bool binary = trees.kind[v] == BINARY;
    for (Index b = 0; b < (binary ? k : 1); ++b) {
      double whole = 0.0;
      for (Index c = 0; c < k; ++c) {
        const double part = mass * share[b * k + c];
        slope[at + b * k + c] += weight * part;
        (binary ? right : left)[c] += part;
        whole += part;
      }
      if (binary) left[b] += whole;
    }
  }
};

void check(const GoldTrees &trees, const Indices &rows, Index k, const Values &values) {
  require(k >= 1, "there must be sub-symbols");
  require_length(rows.shape(0), values);
  for (std::size_t at = 0; at < rows.shape(0); ++at)
    require(rows(at) >= 0 && rows(at) < trees.count && trees.offsets[rows(at) + 1] <= trees.nodes, "rows must be trees");
}

// Write the best sub-symbol of each node of the rows' trees, at the trees' own places, and the scores.
void best_annotations(GoldTrees trees, Indices rows, Index k, Layout layout, Vector w, Values values,
                      Numbers chosen) {
  check(trees, rows, k, values);
  require_length(trees.nodes, chosen);
  Annotations annotations(trees, layout, k, w.data());
  for (std::size_t at = 0; at < rows.shape(0); ++at) {
    values(at) = annotations.pool_nodes(rows(at), 0.0);
    annotations.choose(chosen.data());
  }
}

// Pool all sub-symbols of the rows' trees at ε > 0; add weights times expected features to slopes.
//
// Expected features are added to slopes[at], or all to slopes[0] if `together`; spans' features, which do not depend on
// sub-symbols, are omitted.
void pool_annotations(GoldTrees trees, Indices rows, Index k, Layout layout, Vector w, double temperature, Vector weights,
                      bool together, Values values, Out<double, 2> slopes) {
  check(trees, rows, k, values);
  require_length(rows.shape(0), weights);
  require_length(together ? 1 : rows.shape(0), slopes);
  require(slopes.shape(1) == w.shape(0), "slopes must have one column per weight");
  Annotations annotations(trees, layout, k, w.data());
  for (std::size_t at = 0; at < rows.shape(0); ++at) {
    values(at) = annotations.pool_nodes(rows(at), temperature);
    annotations.add_expected(rows(at), weights(at), slopes.data() + (together ? 0 : at) * slopes.shape(1));
  }
}

} // namespace

LATENTSTRUCT_MODULE(annotations, best_annotations, pool_annotations)
