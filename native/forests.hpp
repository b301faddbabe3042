// Forests of derivations: items in an order in which those below come first, each reached by edges from other items.
#pragma once
#include "binding.hpp"

namespace latentstruct {

// The forests of a batch, see latentstruct.inference.forests.Forests.
struct Forests {
  const Index *items_at, *edge_at, *tail_at, *tails, *losses;
  Index n, n_items, n_edges;

  static Forests read(nb::handle source) {
    const auto items_at = array<In<Index, 1>>(source, "items_at"), edge_at = array<In<Index, 1>>(source, "edge_at");
    const auto tail_at = array<In<Index, 1>>(source, "tail_at"), tails = array<In<Index, 1>>(source, "tails");
    const auto losses = array<In<Index, 1>>(source, "losses");
    require(items_at.shape(0) > 0 && edge_at.shape(0) > 0, "forests must have offsets");
    require_length(losses.shape(0) + 1, tail_at);
    const Index n = static_cast<Index>(items_at.shape(0)) - 1, n_items = static_cast<Index>(edge_at.shape(0)) - 1;
    const Index n_edges = static_cast<Index>(losses.shape(0));
    require(items_at(n) == n_items && edge_at(n_items) == n_edges && tail_at(n_edges) == static_cast<Index>(tails.shape(0)),
            "offsets of forests must end where items, edges and tails do");
    return {items_at.data(), edge_at.data(), tail_at.data(), tails.data(), losses.data(), n, n_items, n_edges};
  }
  Index edges_of(Index forest) const { return edge_at[items_at[forest + 1]] - edge_at[items_at[forest]]; }
};

} // namespace latentstruct
