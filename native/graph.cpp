// Scores of graphs' nodes and edges from feature rows, the way back to the weights, losses and planes.
//
// Items are the nodes, or the edges, of graphs that are laid out one after the other: those of graph g are items_at[g] …
// items_at[g + 1], and item i has entries_at[i + 1] - entries_at[i] entries, one for each (joint) state. Row shift + i of
// `rows` has its features; a feature's place is the first of its weights, one for each entry. Arrays of scores, beliefs
// and states are compact: those of the selected `graphs` one after the other.
#include "atoms.hpp"

#include <utility>
#include <vector>

using namespace latentstruct;

namespace {

// The items (nodes or edges) of the selected graphs, one graph after the other.
struct Items {
  const Index *graphs, *items_at, *entries_at;
  std::size_t n;
  Items(const Indices &graphs, const Indices &items_at, const Indices &entries_at)
      : graphs(graphs.data()), items_at(items_at.data()), entries_at(entries_at.data()), n(graphs.shape(0)) {}

  std::size_t n_entries() const {
    std::size_t total = 0;
    for (std::size_t k = 0; k < n; ++k) total += entries_at[items_at[graphs[k] + 1]] - entries_at[items_at[graphs[k]]];
    return total;
  }
  std::size_t n_items() const {
    std::size_t total = 0;
    for (std::size_t k = 0; k < n; ++k) total += items_at[graphs[k] + 1] - items_at[graphs[k]];
    return total;
  }
  Index size(Index i) const { return entries_at[i + 1] - entries_at[i]; }

  // body(number of the graph, item, position of its entries in compact arrays).
  template <typename Body> LATENTSTRUCT_INLINE void each(Body body) const {
    Index at = 0;
    for (std::size_t k = 0; k < n; ++k)
      for (Index i = items_at[graphs[k]]; i < items_at[graphs[k] + 1]; at += size(i), ++i) body(k, i, at);
  }
};

// out = the scores of all entries of the items.
LATENTSTRUCT_CLONES void score_items(Rows rows, Indices graphs, Indices items_at, Index shift, Indices entries_at, Vector w, Values out) {
  const Items items(graphs, items_at, entries_at);
  require(out.shape(0) >= items.n_entries(), "out is too short");
  items.each([&](std::size_t, Index i, Index at) __attribute__((always_inline)) {
    const Index size = items.size(i);
    double *__restrict scores = out.data() + at;
    for (Index s = 0; s < size; ++s) scores[s] = 0.0;
    for (Index r = rows.indptr[shift + i]; r < rows.indptr[shift + i + 1]; ++r) {
      const double value = rows.value(r), *block = w.data() + rows.places[r];
      for (Index s = 0; s < size; ++s) scores[s] += value * block[s];
    }
  });
}

// slope += Σ_k weights[k]·(features times beliefs of graph k).
LATENTSTRUCT_CLONES void add_expected(Rows rows, Indices graphs, Indices items_at, Index shift, Indices entries_at, Vector beliefs,
                                      Vector weights, Values slope) {
  const Items items(graphs, items_at, entries_at);
  require(beliefs.shape(0) >= items.n_entries(), "beliefs are too short");
  require_length(items.n, weights);
  items.each([&](std::size_t k, Index i, Index at) __attribute__((always_inline)) {
    if (weights(k) == 0.0) return;
    const Index size = items.size(i);
    const double *shares = beliefs.data() + at;
    for (Index r = rows.indptr[shift + i]; r < rows.indptr[shift + i + 1]; ++r) {
      const double value = weights(k) * rows.value(r);
      double *__restrict block = slope.data() + rows.places[r];
      for (Index s = 0; s < size; ++s) block[s] += value * shares[s];
    }
  });
}

void add_losses(Indices graphs, Indices variables_at, Indices state_at, Vector losses, Values unary) {
  const Items nodes(graphs, variables_at, state_at);
  require(unary.shape(0) >= nodes.n_entries(), "unary is too short");
  nodes.each([&](std::size_t, Index v, Index at) {
    for (Index s = 0; s < nodes.size(v); ++s) unary(at + s) += losses(state_at(v) + s);
  });
}

// out[k] = Σ beliefs·losses of graph k.
void expected_losses(Indices graphs, Indices variables_at, Indices state_at, Vector losses, Vector beliefs, Values out) {
  const Items nodes(graphs, variables_at, state_at);
  require(beliefs.shape(0) >= nodes.n_entries(), "beliefs are too short");
  require_length(nodes.n, out);
  std::fill_n(out.data(), nodes.n, 0.0);
  nodes.each([&](std::size_t k, Index v, Index at) {
    for (Index s = 0; s < nodes.size(v); ++s) out(k) += beliefs(at + s) * losses(state_at(v) + s);
  });
}

// out[k] = the loss of the states of graph k.
void state_losses(Indices graphs, Indices variables_at, Indices state_at, Vector losses, Indices states, Values out) {
  const Items nodes(graphs, variables_at, state_at);
  require(states.shape(0) >= nodes.n_items(), "states are too short");
  require_length(nodes.n, out);
  std::fill_n(out.data(), nodes.n, 0.0);
  const Index *state = states.data();
  nodes.each([&](std::size_t k, Index v, Index) { out(k) += losses(state_at(v) + *state++); });
}

// Atoms of planes being written. Edges without features are summed up by their block of weights, and the sums of each
// graph written and cleared before the next.
class AtomWriter {
  const AtomTable atoms;
  const Indices edge_blocks, block_at;
  const Index n_nodes;
  Index end = 0;
  std::vector<double> sums;
  std::vector<char> touched;
  std::vector<Index> blocks;

  void put(Index row, Index column, double value) {
    require(end < static_cast<Index>(atoms.n), "atoms do not fit into their arrays");
    atoms.row[end] = static_cast<Column>(row), atoms.column[end] = static_cast<Column>(column), atoms.value[end++] = value;
  }

public:
  AtomWriter(const AtomTable &atoms, const Indices &edge_blocks, const Indices &block_at, Index n_nodes)
      : atoms(atoms), edge_blocks(edge_blocks), block_at(block_at), n_nodes(n_nodes), touched(block_at.shape(0) - 1) {
    if (edge_blocks.shape(0)) sums.resize(block_at(touched.size()) - block_at(0));
  }

  void add_node(Index node, Index state, double value) {
    if (value != 0.0) put(node, state, value);
  }
  void add_edge(Index edge, Index joint, double value) {
    if (value == 0.0) return;
    if (!edge_blocks.shape(0)) return put(n_nodes + edge, joint, value);
    const Index block = edge_blocks(edge);
    if (!std::exchange(touched[block], 1)) blocks.push_back(block);
    sums[block_at(block) - block_at(0) + joint] += value;
  }
  // Write the sums of a graph; return the end of its atoms.
  Index end_graph() {
    for (const Index block : blocks) {
      for (Index at = block_at(block); at < block_at(block + 1); ++at)
        if (const double sum = std::exchange(sums[at - block_at(0)], 0.0); sum != 0.0) put(-1, at, sum);
      touched[block] = 0;
    }
    blocks.clear();
    return end;
  }
};

// Write the expected features of each graph as atoms.
void belief_atoms(Indices graphs, Indices variables_at, Indices state_at, Indices factors_at, Indices table_at, Indices edge_blocks,
                  Indices block_at, Vector unary, Vector tables, Numbers pointers, AtomTable atoms) {
  const Items nodes(graphs, variables_at, state_at), edges(graphs, factors_at, table_at);
  require(unary.shape(0) >= nodes.n_entries() && tables.shape(0) >= edges.n_entries(), "unary or tables are too short");
  require_length(nodes.n + 1, pointers);
  AtomWriter writer(atoms, edge_blocks, block_at, static_cast<Index>(state_at.shape(0)) - 1);
  const double *node = unary.data(), *edge = tables.data();
  pointers(0) = 0;
  for (std::size_t k = 0; k < nodes.n; ++k) {
    const Index g = graphs(k);
    for (Index v = variables_at(g); v < variables_at(g + 1); node += nodes.size(v), ++v)
      for (Index s = 0; s < nodes.size(v); ++s) writer.add_node(v, s, node[s]);
    for (Index e = factors_at(g); e < factors_at(g + 1); edge += edges.size(e), ++e)
      for (Index j = 0; j < edges.size(e); ++j) writer.add_edge(e, j, edge[j]);
    pointers(k + 1) = writer.end_graph();
  }
}

// Write the features of the states of each graph as atoms.
void state_atoms(Indices graphs, Indices variables_at, Indices state_at, Indices factors_at, Indices scopes, Indices edge_blocks,
                 Indices block_at, Indices states, Numbers pointers, AtomTable atoms) {
  const Items nodes(graphs, variables_at, state_at);
  require(states.shape(0) >= nodes.n_items(), "states are too short");
  require_length(nodes.n + 1, pointers);
  AtomWriter writer(atoms, edge_blocks, block_at, static_cast<Index>(state_at.shape(0)) - 1);
  const Index *chosen = states.data();
  pointers(0) = 0;
  for (std::size_t k = 0; k < nodes.n; ++k) {
    const Index g = graphs(k), first = variables_at(g), last = variables_at(g + 1);
    for (Index v = first; v < last; ++v) writer.add_node(v, chosen[v - first], 1.0);
    for (Index e = factors_at(g); e < factors_at(g + 1); ++e) {
      const Index p = scopes(2 * e), q = scopes(2 * e + 1);
      writer.add_edge(e, chosen[p - first] * nodes.size(q) + chosen[q - first], 1.0);
    }
    chosen += last - first;
    pointers(k + 1) = writer.end_graph();
  }
}

} // namespace

LATENTSTRUCT_MODULE(graph, score_items, add_expected, add_losses, expected_losses, state_losses, belief_atoms, state_atoms)
