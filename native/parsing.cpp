// Parse trees of sentences: the best ones by CKY, sums over all of them by inside-outside, and the tree that maximizes
// s + 1 - F1.
//
// Words are counted from 0; the span (i, j) holds the words i … j - 1. A derivation of a span is a *base*, made by a
// binary rule or, for one word, by a tag, and then at most one unary *chain* above it. Rules with the same two children
// form a *pair*, whose splits are searched once for all of them. A label l in the span (i, j) adds
//
//     extra[c, l] = start[i, l] + end[j, l] + length[class of j - i, l] + cost - gain·[l is a gold label of (i, j)]
//
// once for the base and for each node of the chain, where the first three come from features and the last two from the
// loss, which is linear in the numbers of all constituents and of correct ones.
//
// The scores of symbols after chains are kept twice, by the start and by the end of their spans, so that all splits of a
// span are contiguous for both children. Soft maxima at temperature ε are sums of products of exponentials, relative
// to the highest score of each span. A span is *tame* if its exponentials are at least e^-LIMIT. If all parts of
// all splits are tame, and the scales of different splits lie within LIMIT·ε of each other, then the least of all
// products is e^(-4·LIMIT), still a normal number, and nothing is lost. Elsewhere splits are pooled by logarithms, where
// shares below e^-MOST of the largest one are omitted, which changes sums by less than rounding.
//
// Derivatives of ε log Z by the scores of symbols are their probabilities; they are passed down from the root, each
// derivation getting its share.
#include "domains.hpp"
#include "arrays.hpp"
#include "derivations.hpp"
#include "pooling.hpp"

#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

using namespace latentstruct;

namespace {

constexpr Index LEXICAL = 0, UNARY = 1, BINARY = 2;
constexpr double LIMIT = 170.0, MOST = 60.0, LEAST_PROBABILITY = 1e-30;

// ---- arrays, see the Python classes of these names ----

struct Rules {
  const Index *left_start, *pair_right, *pair_start, *left, *right, *parent, *weight, *parent_start, *by_parent;
  const Index *bottom_start, *bottom, *top, *top_start, *by_top, *step_start, *step_weight, *step_symbol, *root, *label;
  Index symbols, pairs, rules, chains;

  static Rules read(const Fields &fields) {
    const auto get = [&](const char *name, Length n) { return fields.indices(name, n); };
    Index s = -1, q = -1, r = -1, k = -1, t = -1;
    return {get("left_start", {&s, 1}), get("pair_right", &q), get("pair_start", {&q, 1}), get("left", &r), get("right", &r),
            get("parent", &r), get("weight", &r), get("parent_start", {&s, 1}), get("by_parent", &r),
            get("bottom_start", {&s, 1}), get("bottom", &k), get("top", &k), get("top_start", {&s, 1}), get("by_top", &k),
            get("step_start", {&k, 1}), get("step_weight", &t), get("step_symbol", &t), get("root", &s), get("label", &s),
            s, q, r, k};
  }

  Index steps(Index chain) const { return step_start[chain + 1] - step_start[chain]; }
};

struct Sentences {
  const Index *offsets, *choice_start, *choice_symbol, *choice_weight, *gold_start, *gold_first, *gold_stop, *gold_label;
  Index choices;

  static Sentences read(const Fields &fields) {
    const auto get = [&](const char *name, Length n) { return fields.indices(name, n); };
    Index n = -1, c = -1, g = -1;
    const auto *offsets = get("offsets", {&n, 1});
    return {offsets, get("choice_start", offsets[n] + 1), get("choice_symbol", &c), get("choice_weight", &c),
            get("gold_start", {&n, 1}), get("gold_first", &g), get("gold_stop", &g), get("gold_label", &g), c};
  }

  Index words(Index k) const { return offsets[k + 1] - offsets[k]; }

  Index longest(const Indices &rows) const {
    Index most = 1;
    for (std::size_t m = 0; m < rows.shape(0); ++m) most = std::max(most, words(rows(m)));
    return most;
  }
};

struct Spans {
  const Index *starts, *ends, *lengths, *classes, *label_start, *label, *weight;
  Index boundaries, each_start, each_end, n_classes;

  static Spans read(const Fields &fields) {
    Index b = -1, starts = -1, ends = -1, lengths = -1, classes = -1, labels = -1, q = -1;
    return {fields.get<const Index>("starts", &b, &starts), fields.get<const Index>("ends", &b, &ends),
            fields.indices("lengths", &lengths), fields.indices("classes", &classes), fields.indices("label_start", &labels),
            fields.indices("label", &q), fields.indices("weight", &q), b, starts, ends, classes};
  }

  Index size_class(Index i, Index j) const { return classes[std::min(j - i, n_classes - 1)]; }

  // Visit the labels that have weights with some attributes: visit(label, weight).
  template <typename Visit> void each_of(const Index *attributes, Index size, Visit visit) const {
    for (const Index *a = attributes; a < attributes + size; ++a)
      if (*a >= 0)
        for (Index q = label_start[*a]; q < label_start[*a + 1]; ++q) visit(label[q], weight[q]);
  }

  // The same of the attributes of the span (i, j) of a sentence whose boundaries begin at `first`.
  template <typename Visit> void each_weight(Index first, Index i, Index j, Visit visit) const {
    if (boundaries == 0) return;
    each_of(starts + (first + i) * each_start, each_start, visit);
    each_of(ends + (first + j) * each_end, each_end, visit);
    each_of(lengths + size_class(i, j), 1, visit);
  }
};

struct Scores {
  const double *rule, *chain, *root, *choice, *start, *end, *length;
  Index boundaries, labels, rules, chains, symbols, choices;

  static Scores read(const Fields &fields) {
    const auto get = [&](const char *name, auto... n) { return fields.get<const double>(name, n...); };
    Index b = -1, l = -1, r = -1, k = -1, s = -1, c = -1, classes = -1;
    return {get("rule", &r), get("chain", &k), get("root", &s), get("choice", &c), get("start", &b, &l), get("end", &b, &l),
            get("length", &classes, &l), b, l, r, k, s, c};
  }
};

struct Derivations {
  Index *offsets, *kind, *symbol, *weight, *start, *end;
  Index trees, most, at = 0;

  static Derivations read(const Fields &fields) {
    const auto get = [&](const char *name, Length n) { return fields.get<Index>(name, n); };
    Index k = -1, n = -1;
    return {get("offsets", {&k, 1}), get("kind", &n), get("symbol", &n), get("weight", &n), get("start", &n), get("end", &n), k, n};
  }

  void put(Index kind_, Index symbol_, Index weight_, Index i, Index j) {
    require(at < most, "the arrays of derivations are too short");
    kind[at] = kind_, symbol[at] = symbol_, weight[at] = weight_, start[at] = i, end[at] = j;
    ++at;
  }
};

// A sentence, with all data of its derivations.
struct Sentence {
  const Sentences &sentences;
  const Spans &spans;
  const Rules &rules;
  const Scores &scores;
  Index k = 0, first = 0, n = 0;
  std::vector<double> extra; // (cells, L) what labels add.

  Sentence(const Sentences &sentences, const Spans &spans, const Rules &rules, const Scores &scores)
      : sentences(sentences), spans(spans), rules(rules), scores(scores) {
    require(scores.rules == rules.rules && scores.chains == rules.chains && scores.symbols == rules.symbols &&
                scores.choices == sentences.choices && scores.boundaries == spans.boundaries,
            "scores must fit grammar and sentences");
  }

  Index cells() const { return n * (n + 1) / 2; }
  Index cell_of(Index i, Index j) const { return i * n - i * (i - 1) / 2 + j - i - 1; }
  const double *extra_of(Index c) const { return extra.data() + c * scores.labels; }

  // The score of a chain in a cell, with what its labels add there.
  double chain_score(Index chain, const double *extra_row) const {
    double total = scores.chain[chain];
    for (Index s = rules.step_start[chain]; s < rules.step_start[chain + 1]; ++s)
      total += extra_row[rules.label[rules.step_symbol[s]]];
    return total;
  }

  void choose(Index sentence, double cost, double gain) {
    k = sentence, first = sentences.offsets[k], n = sentences.words(k);
    const Index labels = scores.labels;
    extra.assign(cells() * labels, cost);
    for (Index i = 0, c = 0; i < n && scores.boundaries > 0; ++i)
      for (Index j = i + 1; j <= n; ++j, ++c) {
        const double *start = scores.start + (first + k + i) * labels, *end = scores.end + (first + k + j) * labels;
        const double *length = scores.length + spans.size_class(i, j) * labels;
        for (Index a = 0; a < labels; ++a) extra[c * labels + a] = cost + start[a] + end[a] + length[a];
      }
    for (Index g = sentences.gold_start[k]; g < sentences.gold_start[k + 1] && gain != 0.0; ++g)
      extra[cell_of(sentences.gold_first[g], sentences.gold_stop[g]) * labels + sentences.gold_label[g]] -= gain;
  }

  // Visit the symbols of the word at i: visit(symbol, number among all choices).
  template <typename Visit> void each_tag(Index i, Visit visit) const {
    for (Index q = sentences.choice_start[first + i]; q < sentences.choice_start[first + i + 1]; ++q)
      visit(sentences.choice_symbol[q], q);
  }
};

// A symbol of a span; charts of counts have one for each number of correct and of all constituents below it.
struct Node {
  Index i, j, symbol, right = 0, all = 0;
};
struct Split {
  Index rule = -1;
  Node left{}, right{};
};

// The chain by which a node's symbol is best, -1 if it is the base itself. A chart has base_score(node) and
// below_chain(node, chain), the node of the base.
template <typename Chart> Index best_chain(const Chart &chart, const Node &node) {
  const Rules &rules = chart.rules;
  const double *extra = chart.extra_of(chart.cell_of(node.i, node.j));
  Index chosen = -1;
  double best = chart.base_score(node);
  for (Index at = rules.top_start[node.symbol]; at < rules.top_start[node.symbol + 1]; ++at) {
    const Index chain = rules.by_top[at];
    const double found = chart.base_score(chart.below_chain(node, chain)) + chart.chain_score(chain, extra);
    if (found > best) chosen = chain, best = found;
  }
  return chosen;
}

// The rule and the parts by which a base is best. A chart has each_split(node, rule, visit), which calls
// visit(left, right, score of both).
template <typename Chart> Split best_split(const Chart &chart, const Node &node) {
  const Rules &rules = chart.rules;
  Split chosen;
  double best = -INFINITE;
  for (Index at = rules.parent_start[node.symbol]; at < rules.parent_start[node.symbol + 1]; ++at) {
    const Index r = rules.by_parent[at];
    chart.each_split(node, r, [&, rule = chart.scores.rule[r]](const Node &left, const Node &right, double score) {
      if (score + rule > best) best = score + rule, chosen = {r, left, right};
    });
  }
  return chosen;
}

// Write the nodes of the best derivation from `root` in preorder.
template <typename Chart> void trace(const Chart &chart, const Node &root, Derivations &out) {
  const Rules &rules = chart.rules;
  std::vector<Node> stack{root};
  while (!stack.empty()) {
    Node node = stack.back();
    stack.pop_back();
    const Index chain = best_chain(chart, node);
    if (chain >= 0) {
      for (Index s = rules.step_start[chain + 1] - 1; s >= rules.step_start[chain]; --s)
        out.put(UNARY, rules.step_symbol[s], rules.step_weight[s], node.i, node.j);
      node = chart.below_chain(node, chain);
    }
    if (node.j - node.i == 1) {
      chart.each_tag(node.i, [&](Index symbol, Index q) {
        if (symbol == node.symbol) out.put(LEXICAL, symbol, chart.sentences.choice_weight[q], node.i, node.j);
      });
      continue;
    }
    const Split split = best_split(chart, node);
    require(split.rule >= 0, "scores must be numbers");
    out.put(BINARY, node.symbol, rules.weight[split.rule], node.i, node.j);
    stack.push_back(split.right);
    stack.push_back(split.left);
  }
}

// ---- splits of one span ----

// The first and the last place where a symbol's span may end, or begin.
struct Range {
  std::int32_t first = INT32_MAX, last = -1;
};

// The span (i, j) with the charts of its parts; rows of symbols are padded to `stride`, and hold the zero of their
// domain wherever there is no derivation.
struct Cell {
  Index i, j, stride;
  const std::vector<Index> &starters; // Symbols that some span from i on has.
  const Range *ends, *starts;         // (S,) of spans from i on and of spans up to j.
  const double *left, *right, *rule;  // (S, stride) of spans from i on and of spans up to j, and (R,).
  double temperature, *row;           // (S,) bases, or their maxima in the log domain.
  const double *factors;              // (stride,) in the linear domain: exponentials of the scales of splits.
  double *splits, *pooled;            // (stride,) and (Q,) are overwritten: splits, and, by logarithms, pooled pairs.
  // Probabilities of bases over their sums, (S,), of the rules of a pair, and of parts, (S, stride).
  double *below = nullptr, *parts = nullptr, *left_above = nullptr, *right_above = nullptr, *slope = nullptr;
  double weight = 0.0;
};

// A pair of symbols that divide a span, their rows, and the first and the stop of the splits; the first is that of lanes.
struct Parts {
  Index pair, b, c, first, stop;
  const double *left, *right;
};

// Visit the pairs of symbols that divide a span.
template <typename S, typename Visit>
LATENTSTRUCT_INLINE void each_pair(const Rules &rules, const Cell &cell, Visit visit) {
  for (const Index b : cell.starters) {
    const auto low = std::max(cell.ends[b].first, static_cast<std::int32_t>(cell.i + 1));
    const auto high = std::min(cell.ends[b].last, static_cast<std::int32_t>(cell.j - 1));
    if (low > high) continue;
    const double *row = cell.left + b * cell.stride;
    if constexpr (std::is_same_v<S, Linear>) {
      for (Index k = low / WIDTH * WIDTH; k <= high; k += WIDTH)
        lanes(cell.splits + k) = load(row + k) * load(cell.factors + k);
      row = cell.splits;
    }
    for (Index pair = rules.left_start[b]; pair < rules.left_start[b + 1]; ++pair) {
      const Index c = rules.pair_right[pair];
      const auto from = std::max(low, cell.starts[c].first), to = std::min(high, cell.starts[c].last);
      if (from <= to) visit(Parts{pair, b, c, from / WIDTH * WIDTH, to + 1, row, cell.right + c * cell.stride});
    }
  }
}

// The sum over splits of products of left and right parts in a domain.
template <typename S>
LATENTSTRUCT_INLINE double sum_splits(const double *left, const double *right, Index first, Index stop) {
  Lanes total = all_lanes(S::zero);
  for (Index k = first; k < stop; k += WIDTH) total = S::sum(total, S::times(load(left + k), load(right + k)));
  total = S::sum(total, __builtin_shufflevector(total, total, 4, 5, 6, 7, 0, 1, 2, 3));
  total = S::sum(total, __builtin_shufflevector(total, total, 2, 3, 0, 1, 6, 7, 4, 5));
  return S::sum(total[0], total[1]);
}

// Leave the exponentials of splits, relative to the highest one, in `shares`; return their sum.
LATENTSTRUCT_INLINE double weigh_splits(const double *left, const double *right, Index first, Index stop, double high,
                                        double temperature, double *__restrict shares) {
  const Index n = padded(stop - first);
  for (Index k = first; k < first + n; ++k) {
    const double gap = (left[k] + right[k] - high) / temperature;
    shares[k] = gap > -MOST ? exp_of(gap) : 0.0;
  }
  return sum_of(shares + first, n);
}

// row[A] = the sum over splits and binary rules A -> B C in a domain, whose zero it has been filled with. By logarithms,
// pairs are pooled, and the sum over rules is their maximum only.
template <typename S> LATENTSTRUCT_INLINE void combine_pairs(const Rules &rules, const Cell &cell) {
  constexpr bool linear = std::is_same_v<S, Linear>;
  using Order = std::conditional_t<linear, Linear, Hard>;
  each_pair<S>(rules, cell, [&](const Parts &parts) __attribute__((always_inline)) {
    const auto [pair, b, c, first, stop, left, right] = parts;
    double pooled = sum_splits<Order>(left, right, first, stop);
    if (pooled == S::zero) return;
    if constexpr (std::is_same_v<S, Log>) {
      const double total = weigh_splits(left, right, first, stop, pooled, cell.temperature, cell.splits);
      cell.pooled[pair] = pooled += cell.temperature * log_of(total);
    }
    for (Index r = rules.pair_start[pair]; r < rules.pair_start[pair + 1]; ++r) {
      double &found = cell.row[rules.parent[r]];
      found = Order::sum(found, Order::times(pooled, cell.rule[r]));
    }
  });
}

LATENTSTRUCT_CLONES void combine(Hard, const Rules &rules, const Cell &cell) { combine_pairs<Hard>(rules, cell); }
LATENTSTRUCT_CLONES void combine(Log, const Rules &rules, const Cell &cell) { combine_pairs<Log>(rules, cell); }
LATENTSTRUCT_CLONES void combine(Linear, const Rules &rules, const Cell &cell) { combine_pairs<Linear>(rules, cell); }

// Pass the probabilities of bases down to rules and to the symbols of smaller spans.
template <typename S> LATENTSTRUCT_INLINE void share_pairs(const Rules &rules, const Cell &cell) {
  constexpr bool linear = std::is_same_v<S, Linear>;
  each_pair<S>(rules, cell, [&](const Parts &parts) __attribute__((always_inline)) {
    const auto [pair, b, c, first, stop, left, right] = parts;
    const Index rule = rules.pair_start[pair], n = rules.pair_start[pair + 1] - rule;
    if (!linear && cell.pooled[pair] == -INFINITE) return;
    double taken = 0.0;
    for (Index r = 0; r < n; ++r) {
      const Index parent = rules.parent[rule + r];
      double part = cell.below[parent];
      if constexpr (linear) {
        part *= cell.rule[rule + r];
      } else if (part > 0.0) {
        const double gap = (cell.pooled[pair] + cell.rule[rule + r] - cell.row[parent]) / cell.temperature;
        part = gap > -MOST ? part * exp_of(gap) : 0.0;
      }
      taken += cell.parts[r] = part;
    }
    if (taken == 0.0) return;
    double *left_above = cell.left_above + b * cell.stride, *right_above = cell.right_above + c * cell.stride;
    double weight = cell.weight;
    if constexpr (linear) {
      weight *= sum_splits<Linear>(left, right, first, stop);
    } else {
      const double high = sum_splits<Hard>(left, right, first, stop);
      taken /= weigh_splits(left, right, first, stop, high, cell.temperature, cell.splits);
    }
    for (Index k = first; k < stop; k += WIDTH) {
      const Lanes part = taken * (linear ? load(left + k) * load(right + k) : load(cell.splits + k));
      lanes(left_above + k) += part;
      lanes(right_above + k) += part;
    }
    for (Index r = 0; r < n; ++r) cell.slope[rules.weight[rule + r]] += weight * cell.parts[r];
  });
}

LATENTSTRUCT_CLONES void share(Log, const Rules &rules, const Cell &cell) { share_pairs<Log>(rules, cell); }
LATENTSTRUCT_CLONES void share(Linear, const Rules &rules, const Cell &cell) { share_pairs<Linear>(rules, cell); }

// ---- the chart of a sentence ----

// Best scores of all spans at temperature 0, pooled ones and probabilities above.
class Chart : public Sentence {
public:
  Chart(const Sentence &sentence, Index longest, double temperature)
      : Sentence(sentence), temperature(temperature), soft(temperature > 0.0), symbols(rules.symbols),
        base(allocate(longest * (longest + 1) / 2 * symbols)), starters(longest), ends(longest * symbols),
        starts((longest + 1) * symbols), top(symbols, -INFINITE), sums(symbols), above(symbols), below(symbols) {
    for (int table = 0; table < (soft ? 3 : 1); ++table)
      for (auto *tables : {&by_start, &by_end}) tables->push_back(allocate((longest + 1) * symbols * padded(longest + 1)));
    if (soft) prepare_sums(longest);
  }

  // Fill the chart of a sentence, where constituents add `cost` and correct ones subtract `gain`.
  void inside(Index k, double cost, double gain) {
    choose(k, cost, gain);
    stride = padded(n + 1);
    for (auto &list : starters) list.clear();
    std::fill_n(ends.begin(), n * symbols, Range());
    std::fill_n(starts.begin(), (n + 1) * symbols, Range());
    members.clear();
    member_start.resize(cells());
    for (Index length = 1; length <= n; ++length)
      for (Index i = 0; i + length <= n; ++i) fill_cell(i, i + length);
  }

  // The scores of all symbols as roots of the sentence, (S,).
  std::vector<double> roots() const {
    std::vector<double> found(symbols, -INFINITE);
    each_member(0, n, [&](Index a) { found[a] = row_of(by_start[SCORE], 0, a)[n] + scores.root[a]; });
    return found;
  }

  double base_score(const Node &node) const { return base[cell_of(node.i, node.j) * symbols + node.symbol]; }
  Node below_chain(const Node &node, Index chain) const { return {node.i, node.j, rules.bottom[chain]}; }

  template <typename Visit> void each_split(const Node &node, Index r, Visit visit) const {
    const Index b = rules.left[r], c = rules.right[r];
    const Range left = ends[node.i * symbols + b], right = starts[node.j * symbols + c];
    const double *from_start = row_of(by_start[SCORE], node.i, b), *from_end = row_of(by_end[SCORE], node.j, c);
    const Index low = std::max({Index(left.first), Index(right.first), node.i + 1});
    const Index high = std::min({Index(left.last), Index(right.last), node.j - 1});
    for (Index k = low; k <= high; ++k) visit(Node{node.i, k, b}, Node{k, node.j, c}, from_start[k] + from_end[k]);
  }

  // Pass probabilities down from those of the roots, (S,); add weight·E[φ] to `slope`. The result is the probabilities
  // of labels in cells, (cells, L).
  const std::vector<double> &outside(const std::vector<double> &roots, double weight, double *slope) {
    each_member(0, n, [&](Index a) {
      if (roots[a] == 0.0) return;
      row_of(by_start[ABOVE], 0, a)[n] = roots[a];
      slope[rules.root[a]] += weight * roots[a];
    });
    labels.assign(extra.size(), 0.0);
    for (Index length = n; length > 0; --length)
      for (Index i = 0; i + length <= n; ++i) share_cell(i, i + length, weight, slope);
    return labels;
  }

private:
  // Tables of symbols by one end of a span, (ends, S, stride), with the other end running fastest: scores, exponentials
  // and probabilities. Rows are cleared when a symbol is first found: most are never used.
  enum { SCORE, LINEAR, ABOVE };
  // A base, the symbol that a chain leads to from it, and the chain, -1 for none.
  struct Term {
    Index symbol, upper, chain;
  };

  const double temperature;
  const bool soft;
  const Index symbols;
  Index stride = 0;
  Memory base, base_sums; // (cells, S) scores before chains, and sums of exponentials that they were found by.
  std::vector<Memory> by_start, by_end;
  std::vector<std::vector<Index>> starters;
  std::vector<Range> ends, starts;             // (n, S) and (n + 1, S)
  std::vector<Index> members, member_start;    // Symbols of cells; those of cell c from member_start[c] on, up to -1.
  std::vector<Index> bases, reached;           // Symbols of the current cell before and after chains.
  std::vector<double> top, sums, above, below; // (S,) of the current cell.
  std::vector<Term> terms;
  std::vector<double> values; // Of terms, or of symbols of the current cell.
  // For sums only.
  std::vector<double> rule, scale, factors, splits, pooled, parts, labels;
  std::vector<char> tame;
  double highest_rule = -INFINITE;
  bool rules_tame = true;

  double *row_of(const Memory &table, Index end, Index symbol) const {
    return table.get() + (end * symbols + symbol) * stride;
  }

  template <typename Visit> void each_member(Index i, Index j, Visit visit) const {
    for (const Index *at = members.data() + member_start[cell_of(i, j)]; *at >= 0; ++at) visit(*at);
  }

  Cell cell_at(Index i, Index j, bool linear, double *row) {
    const int table = linear ? LINEAR : SCORE;
    return {i, j, stride, starters[i], ends.data() + i * symbols, starts.data() + j * symbols,
            row_of(by_start[table], i, 0), row_of(by_end[table], j, 0), linear ? rule.data() : scores.rule,
            temperature, row, factors.data(), splits.data(), pooled.data()};
  }

  void fill_cell(Index i, Index j) {
    const Index c = cell_of(i, j);
    const double *extra = extra_of(c);
    double *row = base.get() + c * symbols;
    std::fill_n(row, symbols, -INFINITE);
    if (j - i == 1) each_tag(i, [&](Index symbol, Index q) { row[symbol] = scores.choice[q]; });
    else if (soft) pool_splits(i, j, row);
    else combine(Hard(), rules, cell_at(i, j, false, row));
    bases.clear();
    for (Index a = 0; a < symbols; ++a) {
      if (row[a] == -INFINITE) continue;
      if (j - i > 1 && rules.label[a] >= 0) row[a] += extra[rules.label[a]];
      bases.push_back(a);
    }
    list_terms(row, extra, [](Index) { return true; });
    climb();
    if (soft) {
      sum_terms();
      each_value(log_each, reached, [&](Index a) { return sums[a]; }, [&](Index a, double x) { top[a] += temperature * x; });
    }
    record(i, j);
    forget_cell();
  }

  // Compute a function of the numbers x(a) of some symbols all at once, and take them: take(a, function of x(a)).
  template <typename Function, typename X, typename Take>
  void each_value(Function function, const std::vector<Index> &some, X x, Take take) {
    values.clear();
    for (const Index a : some) values.push_back(x(a));
    function(values.data(), values.size());
    for (std::size_t q = 0; q < some.size(); ++q) take(some[q], values[q]);
  }

  // List the bases, and all chains above them, that lead to symbols for which keep(symbol), and their scores.
  template <typename Keep> void list_terms(const double *row, const double *extra, Keep keep) {
    terms.clear(), values.clear();
    for (const Index a : bases)
      if (keep(a)) terms.push_back({a, a, -1}), values.push_back(row[a]);
    for (const Index b : bases)
      for (Index chain = rules.bottom_start[b]; chain < rules.bottom_start[b + 1]; ++chain)
        if (keep(rules.top[chain])) {
          terms.push_back({b, rules.top[chain], chain});
          values.push_back(row[b] + chain_score(chain, extra));
        }
  }

  // top[A] = the maximum of all terms that lead to A.
  void climb() {
    reached.clear();
    for (std::size_t q = 0; q < terms.size(); ++q) {
      double &score = top[terms[q].upper];
      if (score == -INFINITE) reached.push_back(terms[q].upper);
      score = std::max(score, values[q]);
    }
  }

  // Take exponentials of terms, relative to `top`; sums[A] = Σ of those that lead to A.
  void sum_terms() {
    for (std::size_t q = 0; q < terms.size(); ++q) values[q] -= top[terms[q].upper];
    exp_each(values.data(), values.size(), temperature);
    for (const Term &term : terms) sums[term.upper] = 0.0;
    for (std::size_t q = 0; q < terms.size(); ++q) sums[terms[q].upper] += values[q];
  }

  void forget_cell() {
    for (const Index a : reached) top[a] = -INFINITE;
  }

  // Keep the scores of the span (i, j), and their exponentials. Spans come by their lengths.
  void record(Index i, Index j) {
    member_start[cell_of(i, j)] = static_cast<Index>(members.size());
    const auto start = static_cast<std::int32_t>(i), stop = static_cast<std::int32_t>(j);
    const auto clear = [&](const std::vector<Memory> &tables, Index end, Index a) {
      for (std::size_t table = 0; table < tables.size(); ++table)
        std::fill_n(row_of(tables[table], end, a), stride, table == SCORE ? -INFINITE : 0.0);
    };
    double high = -INFINITE, low = INFINITE;
    for (const Index a : reached) {
      Range &left = ends[i * symbols + a], &right = starts[j * symbols + a];
      if (left.last < 0) left.first = stop, starters[i].push_back(a), clear(by_start, i, a);
      if (right.last < 0) right.last = start, clear(by_end, j, a);
      left.last = stop, right.first = start;
      row_of(by_start[SCORE], i, a)[j] = row_of(by_end[SCORE], j, a)[i] = top[a];
      high = std::max(high, top[a]), low = std::min(low, top[a]);
      members.push_back(a);
    }
    members.push_back(-1);
    if (!soft) return;
    scale[i * (n + 1) + j] = high;
    tame[i * (n + 1) + j] = reached.empty() || (low - high) / temperature >= -LIMIT;
    const auto exps = [&](double *x, std::size_t size) { exp_each(x, size, temperature); };
    each_value(exps, reached, [&](Index a) { return top[a] - high; },
               [&](Index a, double x) { row_of(by_start[LINEAR], i, a)[j] = row_of(by_end[LINEAR], j, a)[i] = x; });
  }

  // ---- sums ----

  void prepare_sums(Index longest) {
    base_sums = allocate(longest * (longest + 1) / 2 * symbols);
    rule.assign(scores.rule, scores.rule + rules.rules);
    double lowest = INFINITE;
    for (const double score : rule) highest_rule = std::max(highest_rule, score), lowest = std::min(lowest, score);
    rules_tame = (highest_rule - lowest) / temperature <= LIMIT;
    for (double &score : rule) score -= highest_rule;
    exp_each(rule.data(), rule.size(), temperature);
    scale.resize((longest + 1) * (longest + 1)), tame.resize(scale.size());
    factors.resize(padded(longest + 1)), splits.resize(padded(longest + 1)), pooled.resize(rules.pairs);
    Index most = 0;
    for (Index q = 0; q < rules.pairs; ++q) most = std::max(most, rules.pair_start[q + 1] - rules.pair_start[q]);
    parts.resize(most);
  }

  // factors[k] = exp((scale of split k - the highest)/ε); return the highest one, and whether all are tame.
  std::pair<double, bool> scale_splits(Index i, Index j) {
    const Index across = n + 1;
    double high = -INFINITE;
    bool all_tame = rules_tame;
    std::fill_n(factors.begin(), stride, -INFINITE);
    for (Index k = i + 1; k < j; ++k) high = std::max(high, factors[k] = scale[i * across + k] + scale[k * across + j]);
    for (Index k = i + 1; k < j; ++k) {
      if (factors[k] == -INFINITE) continue;
      factors[k] -= high;
      all_tame = all_tame && factors[k] / temperature >= -LIMIT && tame[i * across + k] && tame[k * across + j];
    }
    if (all_tame) exp_each(factors.data(), stride, temperature);
    return {high, all_tame};
  }

  // row[A] = smax_ε over splits and binary rules, without what the label adds.
  void pool_splits(Index i, Index j, double *row) {
    const auto [high, linear] = scale_splits(i, j);
    double *total = base_sums.get() + cell_of(i, j) * symbols;
    std::fill_n(total, symbols, 0.0);
    if (linear) combine(Linear(), rules, cell_at(i, j, true, total));
    else pool_by_logarithms(i, j, row, total);
    bases.clear();
    for (Index a = 0; a < symbols; ++a)
      if (total[a] > 0.0) bases.push_back(a), row[a] = linear ? high + highest_rule : row[a];
    each_value(log_each, bases, [&](Index a) { return total[a]; }, [&](Index a, double x) { row[a] += temperature * x; });
  }

  // row[A] = the maximum over binary rules of pooled splits, total[A] += Σ of exponentials relative to it.
  void pool_by_logarithms(Index i, Index j, double *row, double *total) {
    std::fill(pooled.begin(), pooled.end(), -INFINITE);
    combine(Log(), rules, cell_at(i, j, false, row));
    terms.clear(), values.clear();
    for (Index pair = 0; pair < rules.pairs; ++pair)
      for (Index r = rules.pair_start[pair]; pooled[pair] > -INFINITE && r < rules.pair_start[pair + 1]; ++r) {
        const double gap = pooled[pair] + scores.rule[r] - row[rules.parent[r]];
        if (gap > -MOST * temperature) terms.push_back({0, rules.parent[r], -1}), values.push_back(gap);
      }
    exp_each(values.data(), values.size(), temperature);
    for (std::size_t q = 0; q < terms.size(); ++q) total[terms[q].upper] += values[q];
  }

  // Pass the probabilities of the symbols of the span (i, j) down to its parts.
  void share_cell(Index i, Index j, double weight, double *slope) {
    const Index c = cell_of(i, j);
    double *row = base.get() + c * symbols, *label = labels.data() + c * scores.labels;
    bases.clear();
    bool any = false;
    each_member(i, j, [&](Index a) {
      above[a] = row_of(by_start[ABOVE], i, a)[j] + row_of(by_end[ABOVE], j, a)[i];
      any |= above[a] > LEAST_PROBABILITY;
      if (row[a] > -INFINITE) bases.push_back(a);
    });
    if (!any) return;
    share_chains(row, extra_of(c), weight, label, slope);
    if (j - i == 1) {
      each_tag(i, [&](Index symbol, Index q) {
        if (sentences.choice_weight[q] >= 0) slope[sentences.choice_weight[q]] += weight * below[symbol];
      });
    } else {
      for (const Index a : bases)
        if (rules.label[a] >= 0) label[rules.label[a]] += below[a];
      share_splits(i, j, row, weight, slope);
    }
    spans.each_weight(first + k, i, j, [&](Index l, Index number) { slope[number] += weight * label[l]; });
    for (const Index a : bases) below[a] = 0.0;
  }

  // Pass the probabilities of full symbols, `above`, down to bases, `below`, and to the labels of chains. Sums are
  // recomputed: with large scores, rounding hides the differences of their logarithms.
  void share_chains(const double *row, const double *extra, double weight, double *label, double *slope) {
    list_terms(row, extra, [&](Index upper) { return above[upper] > LEAST_PROBABILITY; });
    climb();
    sum_terms();
    for (std::size_t q = 0; q < terms.size(); ++q) {
      const auto &[symbol, upper, chain] = terms[q];
      const double share = above[upper] * values[q] / sums[upper];
      below[symbol] += share;
      for (Index s = chain < 0 ? 0 : rules.step_start[chain]; chain >= 0 && s < rules.step_start[chain + 1]; ++s) {
        slope[rules.step_weight[s]] += weight * share;
        label[rules.label[rules.step_symbol[s]]] += share;
      }
    }
    forget_cell();
  }

  // Pass the probabilities of bases, `below`, down, in the domain in which the span was summed.
  void share_splits(Index i, Index j, double *row, double weight, double *slope) {
    const bool linear = scale_splits(i, j).second;
    double *total = base_sums.get() + cell_of(i, j) * symbols;
    if (!linear) {
      std::fill_n(row, symbols, -INFINITE);
      std::fill_n(total, symbols, 0.0);
      pool_by_logarithms(i, j, row, total);
    }
    for (const Index a : bases) below[a] = below[a] > LEAST_PROBABILITY ? below[a] / total[a] : 0.0;
    Cell cell = cell_at(i, j, linear, row);
    cell.left_above = row_of(by_start[ABOVE], i, 0), cell.right_above = row_of(by_end[ABOVE], j, 0);
    cell.below = below.data(), cell.parts = parts.data(), cell.slope = slope, cell.weight = weight;
    if (linear) share(Linear(), rules, cell);
    else share(Log(), rules, cell);
  }
};

// ---- the chart of counts ----

// The best scores of the symbols of all cells, before and after chains, among the derivations that have p constituents,
// h of them correct: tables (H, P) for each symbol, -inf where there is none. Time and memory grow fast with the number of
// words: for short sentences only.
class CountChart : public Sentence {
public:
  explicit CountChart(const Sentence &sentence) : Sentence(sentence), symbols(rules.symbols) {}

  // Fill the chart of a sentence; chains have at most `most_steps` nodes.
  void fill(Index k, Index most_steps) {
    choose(k, 0.0, 0.0);
    n_gold = sentences.gold_start[k + 1] - sentences.gold_start[k];
    rights = n_gold + 1, alls = n + (2 * n - 1) * most_steps;
    gold.assign(cells() * scores.labels, 0);
    for (Index g = sentences.gold_start[k]; g < sentences.gold_start[k + 1]; ++g)
      gold[cell_of(sentences.gold_first[g], sentences.gold_stop[g]) * scores.labels + sentences.gold_label[g]] = 1;
    base.assign(cells() * symbols * rights * alls, -INFINITE);
    full = base;
    there.assign(cells() * symbols, false);
    for (Index length = 1; length <= n; ++length)
      for (Index i = 0; i + length <= n; ++i) fill_cell(i, i + length);
  }

  // The node of the whole sentence with the highest score + 1 - 2h/(p + g); its symbol is -1 if there is none.
  Node best() const {
    Node found{0, n, -1};
    double best = -INFINITE;
    for (Index a = 0; a < symbols; ++a)
      for (Index h = 0; h < rights; ++h)
        for (Index p = 0; p < alls; ++p) {
          const auto both = static_cast<double>(p + n_gold);
          const double loss = both > 0.0 ? 1.0 - 2.0 * static_cast<double>(h) / both : 0.0;
          const double score = table(full, 0, n, a)[h * alls + p] + scores.root[a] + loss;
          if (score > best) best = score, found = {0, n, a, h, p};
        }
    return found;
  }

  double base_score(const Node &node) const {
    return node.right < 0 || node.all < 0 ? -INFINITE : score_of(base, node);
  }

  Node below_chain(const Node &node, Index chain) const {
    const Index hits = chain_hits(node.i, node.j, chain);
    return {node.i, node.j, rules.bottom[chain], node.right - hits, node.all - rules.steps(chain)};
  }

  template <typename Visit> void each_split(const Node &node, Index r, Visit visit) const {
    const auto [hit, one] = counts_of(node.i, node.j, node.symbol);
    const Index h = node.right - hit, p = node.all - one;
    for (Index m = node.i + 1; m < node.j; ++m)
      for (Index h1 = 0; h1 <= h; ++h1)
        for (Index p1 = 0; p1 <= p; ++p1) {
          const Node left{node.i, m, rules.left[r], h1, p1}, right{m, node.j, rules.right[r], h - h1, p - p1};
          visit(left, right, score_of(full, left) + score_of(full, right));
        }
  }

private:
  const Index symbols;
  Index n_gold = 0, rights = 0, alls = 0;
  std::vector<double> base, full; // (cells, S, H, P)
  std::vector<char> there, gold;  // (cells, S) and (cells, L)

  std::size_t place(Index i, Index j, Index symbol) const { return cell_of(i, j) * symbols + symbol; }
  const double *table(const std::vector<double> &tables, Index i, Index j, Index symbol) const {
    return tables.data() + place(i, j, symbol) * rights * alls;
  }
  double *table(std::vector<double> &tables, Index i, Index j, Index symbol) const {
    return tables.data() + place(i, j, symbol) * rights * alls;
  }
  double score_of(const std::vector<double> &tables, const Node &node) const {
    return table(tables, node.i, node.j, node.symbol)[node.right * alls + node.all];
  }

  Index is_gold(Index i, Index j, Index label) const {
    return gold[cell_of(i, j) * scores.labels + label];
  }

  // Number of correct labels of a symbol, as a base, and of all.
  std::pair<Index, Index> counts_of(Index i, Index j, Index symbol) const {
    const Index label = rules.label[symbol];
    return label < 0 ? std::pair<Index, Index>{0, 0} : std::pair<Index, Index>{is_gold(i, j, label), 1};
  }

  Index chain_hits(Index i, Index j, Index chain) const {
    Index hits = 0;
    for (Index s = rules.step_start[chain]; s < rules.step_start[chain + 1]; ++s)
      hits += is_gold(i, j, rules.label[rules.step_symbol[s]]);
    return hits;
  }

  void fill_cell(Index i, Index j) {
    const double *extra = extra_of(cell_of(i, j));
    if (j - i == 1) {
      each_tag(i, [&](Index symbol, Index q) {
        *table(base, i, j, symbol) = scores.choice[q];
        there[place(i, j, symbol)] = true;
      });
    }
    for (Index r = 0; r < rules.rules && j - i > 1; ++r) {
      const Index parent = rules.parent[r], label = rules.label[parent];
      const auto [hit, one] = counts_of(i, j, parent);
      for (Index m = i + 1; m < j; ++m) {
        if (!there[place(i, m, rules.left[r])] || !there[place(m, j, rules.right[r])]) continue;
        const double score = scores.rule[r] + (label < 0 ? 0.0 : extra[label]);
        const double *left = table(full, i, m, rules.left[r]), *right = table(full, m, j, rules.right[r]);
        join(left, right, score, hit, one, table(base, i, j, parent));
        there[place(i, j, parent)] = true;
      }
    }
    const Index size = symbols * rights * alls;
    std::copy_n(table(base, i, j, 0), size, table(full, i, j, 0));
    const std::vector<char> bases(there.begin() + place(i, j, 0), there.begin() + place(i, j, 0) + symbols);
    for (Index chain = 0; chain < rules.chains; ++chain) {
      if (!bases[rules.bottom[chain]]) continue;
      shift(table(base, i, j, rules.bottom[chain]), chain_score(chain, extra), chain_hits(i, j, chain),
            rules.steps(chain), table(full, i, j, rules.top[chain]));
      there[place(i, j, rules.top[chain])] = true;
    }
  }

  // out[h + hits, p + more] = from[h, p] + score, where that is more.
  void shift(const double *__restrict from, double score, Index hits, Index more, double *__restrict out) const {
    for (Index h = 0; h + hits < rights; ++h)
      for (Index p = 0; p + more < alls; ++p) {
        double &best = out[(h + hits) * alls + p + more];
        best = std::max(best, from[h * alls + p] + score);
      }
  }

  // out[h, p] = max over h = h1 + h2 + hit and p = p1 + p2 + one of left[h1, p1] + right[h2, p2] + score.
  void join(const double *left, const double *right, double score, Index hit, Index one, double *out) const {
    for (Index h = 0; h + hit < rights; ++h)
      for (Index p = 0; p + one < alls; ++p)
        if (left[h * alls + p] > -INFINITE) shift(right, left[h * alls + p] + score, h + hit, p + one, out);
  }
};

// ---- the trees of a chart, see derivations.hpp ----

// Items are bases, full symbols, which may have a chain above a base, and the root, which is one of the full symbols.
struct Trees {
  const Chart &chart;
  const std::vector<double> roots;
  const Index across, symbols, root;
  const double temperature;
  mutable std::vector<double> scores, shares;
  mutable std::vector<Index> edges;

  Trees(const Chart &chart, double temperature)
      : chart(chart), roots(chart.roots()), across(chart.n + 1), symbols(chart.rules.symbols),
        root(2 * across * across * symbols), temperature(temperature) {}

  bool empty() const { return *std::max_element(roots.begin(), roots.end()) == -INFINITE; }
  Index number(const Node &node, bool full) const { return 2 * ((node.i * across + node.j) * symbols + node.symbol) + full; }
  Node node_of(Index item) const {
    const Index cell = item / 2 / symbols;
    return {cell / across, cell % across, item / 2 % symbols};
  }
  static bool is_full(Index item) { return item % 2 == 1; }
  static bool is_word(const Node &node) { return node.j - node.i == 1; }

  // Edges are symbols of the root; 0 and chains from 1 on; choices of words; rules with the place where spans divide.
  template <typename Visit> void each_edge(Index item, Visit visit) const {
    if (item == root) {
      for (Index a = 0; a < symbols; ++a) visit(a, chart.scores.root[a], roots[a]);
      return;
    }
    const Rules &rules = chart.rules;
    const Node node = node_of(item);
    const double *extra = chart.extra_of(chart.cell_of(node.i, node.j));
    if (is_full(item)) {
      visit(0, 0.0, chart.base_score(node));
      for (Index at = rules.top_start[node.symbol]; at < rules.top_start[node.symbol + 1]; ++at) {
        const Index chain = rules.by_top[at];
        const double own = chart.chain_score(chain, extra);
        visit(chain + 1, own, own + chart.base_score(chart.below_chain(node, chain)));
      }
    } else if (is_word(node)) {
      chart.each_tag(node.i, [&](Index symbol, Index q) {
        if (symbol == node.symbol) visit(q, chart.scores.choice[q], chart.scores.choice[q]);
      });
    } else {
      const double label = rules.label[node.symbol] < 0 ? 0.0 : extra[rules.label[node.symbol]];
      for (Index at = rules.parent_start[node.symbol]; at < rules.parent_start[node.symbol + 1]; ++at) {
        const Index r = rules.by_parent[at];
        const double own = chart.scores.rule[r] + label;
        chart.each_split(node, r, [&](const Node &left, const Node &, double score) { visit(r * across + left.j, own, own + score); });
      }
    }
  }

  template <typename Visit> void each_share(Index item, Visit visit) const {
    scores.clear(), edges.clear();
    each_edge(item, [&](Index edge, double, double score) { scores.push_back(score), edges.push_back(edge); });
    shares.resize(scores.size());
    pool(scores.data(), scores.size(), temperature, shares.data());
    for (std::size_t q = 0; q < edges.size(); ++q) visit(edges[q], shares[q]);
  }

  template <typename Visit> void each_tail(Index item, Index edge, Visit visit) const {
    if (item == root) return visit(number({0, chart.n, edge}, true));
    const Node node = node_of(item);
    if (is_full(item)) return visit(number(edge == 0 ? node : chart.below_chain(node, edge - 1), false));
    if (is_word(node)) return;
    const Index r = edge / across, k = edge % across;
    visit(number({node.i, k, chart.rules.left[r]}, true));
    visit(number({k, node.j, chart.rules.right[r]}, true));
  }

  // Write the nodes that an edge of an item stands for.
  void put(Index item, Index edge, Derivations &out) const {
    if (item == root) return;
    const Rules &rules = chart.rules;
    const Node node = node_of(item);
    if (!is_full(item) && is_word(node)) {
      out.put(LEXICAL, node.symbol, chart.sentences.choice_weight[edge], node.i, node.j);
    } else if (!is_full(item)) {
      out.put(BINARY, node.symbol, rules.weight[edge / across], node.i, node.j);
    } else if (edge > 0) {
      for (Index s = rules.step_start[edge] - 1; s >= rules.step_start[edge - 1]; --s)
        out.put(UNARY, rules.step_symbol[s], rules.step_weight[s], node.i, node.j);
    }
  }
};

// ---- kernels ----

// out[b, l] = Σ of the weights of boundary b's attributes with label l.
void score_boundaries(In<Index, 2> attributes, Spans spans, Vector w, Out<double, 2> out) {
  require_length(attributes.shape(0), out);
  std::fill_n(out.data(), out.shape(0) * out.shape(1), 0.0);
  for (std::size_t b = 0; b < attributes.shape(0); ++b)
    spans.each_of(&attributes(b, 0), static_cast<Index>(attributes.shape(1)),
                  [&](Index label, Index weight) { out(b, label) += w(weight); });
}

// Write the best derivation of each row and its score, -inf and no nodes if there is none. `costs` and `gains` are those
// of the loss, for each row.
void best_trees(Sentences sentences, Spans spans, Rules rules, Scores scores, Indices rows, Vector costs, Vector gains,
                Values values, Derivations out) {
  require_length(rows.shape(0), costs, gains, values);
  require(out.trees == static_cast<Index>(rows.shape(0)), "there must be a derivation for each row");
  Chart chart(Sentence(sentences, spans, rules, scores), sentences.longest(rows), 0.0);
  for (std::size_t m = 0; m < rows.shape(0); ++m) {
    out.offsets[m] = out.at;
    chart.inside(rows(m), costs(m), gains(m));
    const auto found = chart.roots();
    const auto root = std::max_element(found.begin(), found.end());
    values(m) = *root;
    if (*root > -INFINITE) trace(chart, {0, sentences.words(rows(m)), root - found.begin()}, out);
  }
  out.offsets[out.trees] = out.at;
}

// Write the best derivations of each row, one row after the other and the best first, and their scores (rows, count), -inf
// and no nodes where there are fewer.
void next_trees(Sentences sentences, Spans spans, Rules rules, Scores scores, Indices rows, Out<double, 2> values,
                Derivations out) {
  require_length(rows.shape(0), values);
  const Index count = static_cast<Index>(values.shape(1));
  require(out.trees == static_cast<Index>(rows.shape(0)) * count, "there must be `count` derivations for each row");
  Chart chart(Sentence(sentences, spans, rules, scores), sentences.longest(rows), 0.0);
  for (std::size_t m = 0; m < rows.shape(0); ++m) {
    chart.inside(rows(m), 0.0, 0.0);
    const Trees trees(chart, 0.0);
    BestDerivations best(trees, count);
    for (Index j = 0; j < count; ++j) {
      out.offsets[m * count + j] = out.at;
      values(m, j) = best.trace(trees.root, j, [&](Index item, Index edge) { trees.put(item, edge, out); });
    }
  }
  out.offsets[out.trees] = out.at;
}

// Write independent derivations of each row, `count` of them, one row after the other; no nodes if there is none.
void sample_trees(Sentences sentences, Spans spans, Rules rules, Scores scores, Indices rows, double temperature, Index seed,
                  Index count, Derivations out) {
  require(temperature > 0.0, "the temperature must be above 0");
  require(out.trees == static_cast<Index>(rows.shape(0)) * count, "there must be `count` derivations for each row");
  Chart chart(Sentence(sentences, spans, rules, scores), sentences.longest(rows), temperature);
  std::mt19937_64 numbers(static_cast<std::uint64_t>(seed));
  for (std::size_t m = 0; m < rows.shape(0); ++m) {
    chart.inside(rows(m), 0.0, 0.0);
    const Trees trees(chart, temperature);
    for (Index j = 0; j < count; ++j) {
      out.offsets[m * count + j] = out.at;
      if (!trees.empty())
        draw_derivation(trees, trees.root, numbers, [&](Index item, Index edge) { trees.put(item, edge, out); });
    }
  }
  out.offsets[out.trees] = out.at;
}

// Write the derivation of each row that maximizes s + 1 - 2h/(p + g); `most_steps` is that of all chains.
void best_f1_trees(Sentences sentences, Spans spans, Rules rules, Scores scores, Indices rows, Index most_steps,
                   Derivations out) {
  require(out.trees == static_cast<Index>(rows.shape(0)), "there must be a derivation for each row");
  CountChart chart(Sentence(sentences, spans, rules, scores));
  for (std::size_t m = 0; m < rows.shape(0); ++m) {
    out.offsets[m] = out.at;
    chart.fill(rows(m), most_steps);
    const Node root = chart.best();
    if (root.symbol >= 0) trace(chart, root, out);
  }
  out.offsets[out.trees] = out.at;
}

// Write the numbers of the weights that each derivation uses, with repetitions; return their number.
Index derivation_atoms(Derivations derivations, Sentences sentences, Spans spans, Rules rules, Indices rows,
                       Numbers pointers, Numbers column) {
  require_length(rows.shape(0) + 1, pointers);
  require(derivations.trees == static_cast<Index>(rows.shape(0)), "there must be a derivation for each row");
  Index at = 0;
  const auto put = [&](Index weight) {
    require(at < static_cast<Index>(column.shape(0)), "column is too short");
    column(at++) = weight;
  };
  for (std::size_t m = 0; m < rows.shape(0); ++m) {
    pointers(m) = at;
    for (Index v = derivations.offsets[m]; v < derivations.offsets[m + 1]; ++v) {
      const Index symbol = derivations.symbol[v], label = rules.label[symbol];
      if (v == derivations.offsets[m]) put(rules.root[symbol]);
      if (derivations.weight[v] >= 0) put(derivations.weight[v]);
      if (label < 0) continue;
      spans.each_weight(sentences.offsets[rows(m)] + rows(m), derivations.start[v], derivations.end[v],
                        [&](Index l, Index weight) {
                          if (l == label) put(weight);
                        });
    }
  }
  pointers(rows.shape(0)) = at;
  return at;
}

// Count each derivation's constituents, and those that are gold.
void count_constituents(Derivations derivations, Sentences sentences, Rules rules, Indices rows, Values predicted,
                        Values right) {
  require_length(rows.shape(0), predicted, right);
  require(derivations.trees == static_cast<Index>(rows.shape(0)), "there must be a derivation for each row");
  for (std::size_t m = 0; m < rows.shape(0); ++m) {
    predicted(m) = right(m) = 0.0;
    for (Index v = derivations.offsets[m]; v < derivations.offsets[m + 1]; ++v) {
      const Index label = rules.label[derivations.symbol[v]];
      if (label < 0) continue;
      predicted(m) += 1.0;
      for (Index g = sentences.gold_start[rows(m)]; g < sentences.gold_start[rows(m) + 1]; ++g)
        right(m) += sentences.gold_label[g] == label && sentences.gold_first[g] == derivations.start[v] &&
                    sentences.gold_stop[g] == derivations.end[v];
    }
  }
}

// ε log Z of all trees of a sentence, -inf if there is none, and the probabilities of labels in cells, (cells, L), which
// are not written then; weight·E[φ] is added to `slope`.
std::pair<double, const double *> pool_sentence(Chart &chart, Index k, double cost, double gain, double temperature,
                                                double weight, double *slope) {
  chart.inside(k, cost, gain);
  auto roots = chart.roots();
  const auto scores = roots;
  const double value = pool(scores.data(), scores.size(), temperature, roots.data());
  return {value, value > -INFINITE ? chart.outside(roots, weight, slope).data() : nullptr};
}

// Pool all trees of each row: values = ε log Z, -inf if there is none, and expected = E[cost·p - gain·h].
//
// Expected features times weights are added to slopes[m], or all to slopes[0] if `together`.
void pool_trees(Sentences sentences, Spans spans, Rules rules, Scores scores, Indices rows, double cost, double gain,
                double temperature, Vector weights, bool together, Values values, Values expected, Out<double, 2> slopes) {
  require_length(rows.shape(0), weights, values, expected);
  require_length(together ? 1 : rows.shape(0), slopes);
  Chart chart(Sentence(sentences, spans, rules, scores), sentences.longest(rows), temperature);
  for (std::size_t m = 0; m < rows.shape(0); ++m) {
    const Index k = rows(m);
    double *slope = slopes.data() + (together ? 0 : m * slopes.shape(1));
    const auto [value, labels] = pool_sentence(chart, k, cost, gain, temperature, weights(m), slope);
    values(m) = value, expected(m) = 0.0;
    if (labels == nullptr) continue;
    if (cost != 0.0) expected(m) += cost * sum_of(labels, chart.extra.size());
    for (Index g = sentences.gold_start[k]; g < sentences.gold_start[k + 1] && gain != 0.0; ++g) {
      const Index cell = chart.cell_of(sentences.gold_first[g], sentences.gold_stop[g]);
      expected(m) -= gain * labels[cell * scores.labels + sentences.gold_label[g]];
    }
  }
}

// Cells, labels and probabilities of constituents more probable than `least` in the trees of sentence k, of a model with
// n_weights weights.
std::tuple<New<Index>, New<Index>, New<double>> probable_labels(Sentences sentences, Spans spans, Rules rules, Scores scores,
                                                                Index k, double temperature, double least, Index n_weights) {
  std::vector<Index> cells, labels;
  std::vector<double> found, slope(n_weights);
  Chart chart(Sentence(sentences, spans, rules, scores), sentences.words(k), temperature);
  const double *shares = pool_sentence(chart, k, 0.0, 0.0, temperature, 0.0, slope.data()).second;
  for (std::size_t q = 0; shares != nullptr && q < chart.extra.size(); ++q) {
    if (!(shares[q] > least)) continue;
    cells.push_back(static_cast<Index>(q) / scores.labels), labels.push_back(static_cast<Index>(q) % scores.labels);
    found.push_back(shares[q]);
  }
  return {new_array(cells), new_array(labels), new_array(found)};
}

} // namespace

LATENTSTRUCT_MODULE(parsing, LEXICAL, UNARY, BINARY, score_boundaries, best_trees, next_trees, sample_trees, best_f1_trees,
                    derivation_atoms, count_constituents, pool_trees, probable_labels)
