// Scores of graphs' nodes and edges from feature rows, the way back to the weights, losses and planes.
//
// Items are the nodes, or the edges, of graphs that are laid out one after the other: those of graph g are items_at[g] …
// items_at[g + 1], and item i has entries_at[i + 1] - entries_at[i] entries, one for each (joint) state. Row shift + i of
// `rows` has its features; a feature's place is the first of its weights, one for each entry. Arrays of scores, beliefs
// and states are compact: those of the selected `graphs` one after the other.
#include <string>
#include <vector>

#include "atoms.hpp"

using namespace latentstruct;

using Indices = In<Index, 1>;
using Vector = In<double, 1>;

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

LATENTSTRUCT_CLONES static void score_items(const Rows &rows, const Items &items, Index shift, const double *w, double *out) {
  items.each([&](std::size_t, Index i, Index at) __attribute__((always_inline)) {
    const Index size = items.size(i);
    double *__restrict scores = out + at;
    for (Index s = 0; s < size; ++s) scores[s] = 0.0;
    for (Index r = rows.indptr[shift + i]; r < rows.indptr[shift + i + 1]; ++r) {
      const double value = rows.value(r), *block = w + rows.places[r];
      for (Index s = 0; s < size; ++s) scores[s] += value * block[s];
    }
  });
}

LATENTSTRUCT_CLONES static void add_expected(const Rows &rows, const Items &items, Index shift, const double *beliefs,
                                             const double *weights, double *slope) {
  items.each([&](std::size_t k, Index i, Index at) __attribute__((always_inline)) {
    if (weights[k] == 0.0) return;
    const Index size = items.size(i);
    const double *shares = beliefs + at;
    for (Index r = rows.indptr[shift + i]; r < rows.indptr[shift + i + 1]; ++r) {
      const double value = weights[k] * rows.value(r);
      double *__restrict block = slope + rows.places[r];
      for (Index s = 0; s < size; ++s) block[s] += value * shares[s];
    }
  });
}

// Atoms of planes being written; a direct atom has row -1.
struct AtomWriter {
  std::int32_t *row, *column;
  double *value;
  std::size_t capacity, end = 0;
  explicit AtomWriter(nb::handle from) {
    const auto values = array<Out<double, 1>>(from, "value");
    row = array<Out<std::int32_t, 1>>(from, "row").data();
    column = array<Out<std::int32_t, 1>>(from, "column").data();
    value = values.data();
    capacity = values.shape(0);
  }
  void put(Index at_row, Index at_column, double amount) {
    if (end == capacity) throw std::length_error("atoms do not fit into their arrays");
    row[end] = std::int32_t(at_row);
    column[end] = std::int32_t(at_column);
    value[end++] = amount;
  }
};

// Sums of edges without features, by block of weights; each graph's sums are written and cleared before the next.
class BlockSums {
  const Index *edge_blocks, *block_at;
  std::vector<double> sums;
  std::vector<char> touched;
  std::vector<Index> blocks;

public:
  const bool used;
  BlockSums(const Indices &edge_blocks, const Indices &block_at)
      : edge_blocks(edge_blocks.data()), block_at(block_at.data()), used(edge_blocks.shape(0) > 0) {
    const std::size_t n = block_at.shape(0) - 1;
    sums.resize(used ? block_at.data()[n] - block_at.data()[0] : 0);
    touched.resize(n);
  }
  // Where the sums of an edge begin.
  double *of(Index edge) {
    const Index block = edge_blocks[edge];
    if (!touched[block]) {
      touched[block] = true;
      blocks.push_back(block);
    }
    return &sums[block_at[block] - block_at[0]];
  }
  void write(AtomWriter &atoms) {
    for (const Index block : blocks) {
      for (Index at = block_at[block]; at < block_at[block + 1]; ++at) {
        double &sum = sums[at - block_at[0]];
        if (sum != 0.0) atoms.put(-1, at, sum);
        sum = 0.0;
      }
      touched[block] = false;
    }
    blocks.clear();
  }
};

NB_MODULE(graph, m) {
  m.def("score_items",
        [](nb::object rows_tuple, Indices graphs, Indices items_at, Index shift, Indices entries_at, Vector w, Out<double, 1> out) {
          const Rows rows = Rows::read(rows_tuple);
          const Items items(graphs, items_at, entries_at);
          require(out.shape(0) >= items.n_entries(), "out is too short");
          nb::gil_scoped_release released;
          score_items(rows, items, shift, w.data(), out.data());
        },
        nb::arg("rows"), nb::arg("graphs").noconvert(), nb::arg("items_at").noconvert(), nb::arg("shift"),
        nb::arg("entries_at").noconvert(), nb::arg("w").noconvert(), nb::arg("out").noconvert());
  m.def("add_expected",
        [](nb::object rows_tuple, Indices graphs, Indices items_at, Index shift, Indices entries_at, Vector beliefs, Vector weights,
           Out<double, 1> slope) {
          const Rows rows = Rows::read(rows_tuple);
          const Items items(graphs, items_at, entries_at);
          require(beliefs.shape(0) >= items.n_entries() && weights.shape(0) == items.n, "beliefs or weights are too short");
          nb::gil_scoped_release released;
          add_expected(rows, items, shift, beliefs.data(), weights.data(), slope.data());
        },
        nb::arg("rows"), nb::arg("graphs").noconvert(), nb::arg("items_at").noconvert(), nb::arg("shift"),
        nb::arg("entries_at").noconvert(), nb::arg("beliefs").noconvert(), nb::arg("weights").noconvert(),
        nb::arg("slope").noconvert());
  m.def("add_losses",
        [](Indices graphs, Indices variables_at, Indices state_at, Vector losses, Out<double, 1> unary) {
          const Items nodes(graphs, variables_at, state_at);
          require(unary.shape(0) >= nodes.n_entries(), "unary is too short");
          nb::gil_scoped_release released;
          nodes.each([&](std::size_t, Index v, Index at) {
            for (Index s = 0; s < nodes.size(v); ++s) unary.data()[at + s] += losses.data()[state_at.data()[v] + s];
          });
        },
        nb::arg("graphs").noconvert(), nb::arg("variables_at").noconvert(), nb::arg("state_at").noconvert(),
        nb::arg("losses").noconvert(), nb::arg("unary").noconvert());
  m.def("expected_losses",
        [](Indices graphs, Indices variables_at, Indices state_at, Vector losses, Vector beliefs, Out<double, 1> out) {
          const Items nodes(graphs, variables_at, state_at);
          require(beliefs.shape(0) >= nodes.n_entries() && out.shape(0) == nodes.n, "beliefs or out are too short");
          nb::gil_scoped_release released;
          for (std::size_t k = 0; k < nodes.n; ++k) out.data()[k] = 0.0;
          nodes.each([&](std::size_t k, Index v, Index at) {
            for (Index s = 0; s < nodes.size(v); ++s)
              out.data()[k] += beliefs.data()[at + s] * losses.data()[state_at.data()[v] + s];
          });
        },
        nb::arg("graphs").noconvert(), nb::arg("variables_at").noconvert(), nb::arg("state_at").noconvert(),
        nb::arg("losses").noconvert(), nb::arg("beliefs").noconvert(), nb::arg("out").noconvert());
  m.def("state_losses",
        [](Indices graphs, Indices variables_at, Indices state_at, Vector losses, Indices states, Out<double, 1> out) {
          const Items nodes(graphs, variables_at, state_at);
          require(states.shape(0) >= nodes.n_items() && out.shape(0) == nodes.n, "states or out are too short");
          nb::gil_scoped_release released;
          for (std::size_t k = 0; k < nodes.n; ++k) out.data()[k] = 0.0;
          const Index *state = states.data();
          nodes.each([&](std::size_t k, Index v, Index) { out.data()[k] += losses.data()[state_at.data()[v] + *state++]; });
        },
        nb::arg("graphs").noconvert(), nb::arg("variables_at").noconvert(), nb::arg("state_at").noconvert(),
        nb::arg("losses").noconvert(), nb::arg("states").noconvert(), nb::arg("out").noconvert());
  m.def("belief_atoms",
        [](Indices graphs, Indices variables_at, Indices state_at, Indices factors_at, Indices table_at, Indices edge_blocks,
           Indices block_at, Vector unary, Vector tables, Out<Index, 1> pointers, nb::object atoms_tuple) {
          const Items nodes(graphs, variables_at, state_at), edges(graphs, factors_at, table_at);
          AtomWriter atoms(atoms_tuple);
          require(unary.shape(0) >= nodes.n_entries() && tables.shape(0) >= edges.n_entries() && pointers.shape(0) == nodes.n + 1,
                  "unary, tables or pointers are too short");
          nb::gil_scoped_release released;
          BlockSums sums(edge_blocks, block_at);
          const Index n_nodes = state_at.shape(0) - 1;
          const double *node = unary.data(), *edge = tables.data();
          pointers.data()[0] = 0;
          for (std::size_t k = 0; k < nodes.n; ++k) {
            const Index g = nodes.graphs[k];
            for (Index v = nodes.items_at[g]; v < nodes.items_at[g + 1]; node += nodes.size(v), ++v)
              for (Index s = 0; s < nodes.size(v); ++s)
                if (node[s] != 0.0) atoms.put(v, s, node[s]);
            for (Index e = edges.items_at[g]; e < edges.items_at[g + 1]; edge += edges.size(e), ++e) {
              double *sum = sums.used ? sums.of(e) : nullptr;
              for (Index j = 0; j < edges.size(e); ++j) {
                if (sum)
                  sum[j] += edge[j];
                else if (edge[j] != 0.0)
                  atoms.put(n_nodes + e, j, edge[j]);
              }
            }
            sums.write(atoms);
            pointers.data()[k + 1] = atoms.end;
          }
        },
        nb::arg("graphs").noconvert(), nb::arg("variables_at").noconvert(), nb::arg("state_at").noconvert(),
        nb::arg("factors_at").noconvert(), nb::arg("table_at").noconvert(), nb::arg("edge_blocks").noconvert(),
        nb::arg("block_at").noconvert(), nb::arg("unary").noconvert(), nb::arg("tables").noconvert(),
        nb::arg("pointers").noconvert(), nb::arg("atoms"));
  m.def("state_atoms",
        [](Indices graphs, Indices variables_at, Indices state_at, Indices factors_at, Indices scopes, Indices edge_blocks,
           Indices block_at, Indices states, Out<Index, 1> pointers, nb::object atoms_tuple) {
          const Items nodes(graphs, variables_at, state_at);
          AtomWriter atoms(atoms_tuple);
          require(states.shape(0) >= nodes.n_items() && pointers.shape(0) == nodes.n + 1, "states or pointers are too short");
          nb::gil_scoped_release released;
          BlockSums sums(edge_blocks, block_at);
          const Index n_nodes = state_at.shape(0) - 1;
          const Index *chosen = states.data();
          pointers.data()[0] = 0;
          for (std::size_t k = 0; k < nodes.n; ++k) {
            const Index g = nodes.graphs[k], first = nodes.items_at[g], last = nodes.items_at[g + 1];
            for (Index v = first; v < last; ++v) atoms.put(v, chosen[v - first], 1.0);
            for (Index e = factors_at.data()[g]; e < factors_at.data()[g + 1]; ++e) {
              const Index p = scopes.data()[2 * e], q = scopes.data()[2 * e + 1];
              const Index joint = chosen[p - first] * nodes.size(q) + chosen[q - first];
              if (sums.used)
                sums.of(e)[joint] += 1.0;
              else
                atoms.put(n_nodes + e, joint, 1.0);
            }
            chosen += last - first;
            sums.write(atoms);
            pointers.data()[k + 1] = atoms.end;
          }
        },
        nb::arg("graphs").noconvert(), nb::arg("variables_at").noconvert(), nb::arg("state_at").noconvert(),
        nb::arg("factors_at").noconvert(), nb::arg("scopes").noconvert(), nb::arg("edge_blocks").noconvert(),
        nb::arg("block_at").noconvert(), nb::arg("states").noconvert(), nb::arg("pointers").noconvert(), nb::arg("atoms"));
}
