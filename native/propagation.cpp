// Belief propagation over factor graphs: wiring and sweeps of messages.
#include "pairwise_messages.hpp"

#include <numeric>

using namespace latentstruct;

namespace {

// Reach the variables of each graph breadth first; forest[g] is whether no variable was reached twice.
void traverse(Indices variables_at, Indices factors_at, Indices scope_at, Indices scopes, Indices near_at, Indices near,
              Indices factor_of, Numbers order, Numbers factor_order, Out<bool, 1> forest) {
  const std::size_t n_graphs = forest.shape(0);
  require_length(n_graphs + 1, variables_at, factors_at);
  require_length(order.shape(0) + 1, near_at);
  require_length(factor_order.shape(0) + 1, scope_at);
  std::vector<char> seen(order.shape(0)), used(factor_order.shape(0));
  for (std::size_t g = 0; g < n_graphs; ++g) {
    forest(g) = true;
    Index done = variables_at(g), reached = done, factors = factors_at(g);
    for (Index root = variables_at(g); root < variables_at(g + 1); ++root) {
      if (seen[root]) continue;
      seen[root] = true;
      order(reached++) = root;
      while (done < reached) {
        const Index v = order(done++);
        for (Index a = near_at(v); a < near_at(v + 1); ++a) {
          const Index f = factor_of(near(a));
          if (used[f]) continue;
          used[f] = true;
          factor_order(factors++) = f;
          for (Index e = scope_at(f); e < scope_at(f + 1); ++e) {
            const Index u = scopes(e);
            if (seen[u]) forest(g) &= u == v;
            else order(reached++) = u;
            seen[u] = true;
          }
        }
      }
    }
    for (Index f = factors_at(g); f < factors_at(g + 1); ++f)
      if (!used[f]) factor_order(factors++) = f;
    // Neighbors in memory are then neighbors in time; no order is exact anyway.
    if (!forest(g)) std::iota(order.data() + variables_at(g), order.data() + variables_at(g + 1), variables_at(g));
  }
}

// Add factors of one variable to `unary`, and those of none to the constants.
void fold(Wiring wiring, Selection selection, Vector tables, Values unary, Values constants) {
  selection.check(unary, tables);
  require_length(selection.n, constants);
  for (std::size_t k = 0; k < selection.n; ++k) {
    const Index g = selection.graphs[k];
    const Shifts shifts = selection.shifts(wiring, k);
    constants(k) = 0.0;
    for (Index f = wiring.factors_at[g]; f < wiring.factors_at[g + 1]; ++f) {
      const double *table = tables.data() + wiring.table_at[f] + shifts.table;
      if (wiring.arity(f) == 0) constants(k) += table[0];
      if (wiring.arity(f) != 1) continue;
      const Index v = wiring.scopes[wiring.scope_at[f]];
      for (Index x = 0; x < wiring.cards[v]; ++x) unary(wiring.state_at[v] + shifts.unary + x) += table[x];
    }
  }
}

LATENTSTRUCT_CLONES void run_pairwise(Wiring wiring, Selection selection, Flags wanted, Vector unary, Vector tables,
                                      Values messages, Flags hidden, Temperatures temperatures, Limits limits, Flags once,
                                      bool sums, Numbers sweeps, Values residuals) {
  selection.check(unary, tables, messages);
  const Run run(wiring, selection, wanted, hidden, limits, once, sweeps, residuals);
  PairwiseMessages graph(wiring, unary.data(), tables.data(), hidden.data(), temperatures);
  for (std::size_t k = 0; k < selection.n; ++k) {
    if (!run.wanted[k]) continue;
    const Index g = selection.graphs[k];
    const Shifts shifts = selection.shifts(wiring, k);
    graph.prepare(g, shifts, messages.data());
    const bool linear = sums && graph.is_linear();
    if (linear) graph.to_linear();
    run.repeat(k, g, [&](double damping) __attribute__((always_inline)) {
      return linear ? graph.sweep<true>(damping) : graph.sweep<false>(damping);
    });
    if (linear) graph.from_linear();
    graph.store(shifts.message, messages.data());
  }
}

} // namespace

LATENTSTRUCT_MODULE(propagation, traverse, fold, run_pairwise)
