// Forests of derivations: items in an order in which those below come first, each reached by edges from other items.
#pragma once
#include "arrays.hpp"

namespace latentstruct {

// The forests of a batch, see latentstruct.inference.forests.Forests.
struct Forests {
  const Index *items_at, *edge_at, *tail_at, *tails, *losses;
  Index n, n_items, n_edges;

  static Forests read(const Fields &fields) {
    Index n = -1, n_items = -1, n_edges = -1, n_tails = -1;
    const Forests found{fields.indices("items_at", {&n, 1}),      fields.indices("edge_at", {&n_items, 1}),
                        fields.indices("tail_at", {&n_edges, 1}), fields.indices("tails", &n_tails),
                        fields.indices("losses", &n_edges),       n, n_items, n_edges};
    require(found.items_at[n] == n_items && found.edge_at[n_items] == n_edges && found.tail_at[n_edges] == n_tails,
            "offsets of forests must end where items, edges and tails do");
    return found;
  }
  Index edges_of(Index forest) const { return edge_at[items_at[forest + 1]] - edge_at[items_at[forest]]; }
};

} // namespace latentstruct
