// Belief propagation over factor graphs: wiring, sweeps of messages, and their results.
#include "factor_messages.hpp"
#include "pairwise_messages.hpp"

#include <numeric>

using namespace latentstruct;

namespace {

using Flags = In<bool, 1>;

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

// What sweeps go over, and what they leave of each graph.
struct Run {
  const bool *wanted, *once;
  Limits limits;
  Index *sweeps;
  double *residuals;

  Run(const Wiring &wiring, const Selection &selection, const Flags &wanted, const Flags &hidden, const Limits &limits,
      const Flags &once, const Numbers &sweeps, const Values &residuals)
      : wanted(wanted.data()), once(once.data()), limits(limits), sweeps(sweeps.data()), residuals(residuals.data()) {
    require_length(selection.n, wanted, sweeps, residuals);
    require_length(wiring.n_graphs, once);
    require_length(wiring.n_variables, hidden);
  }

  // Repeat sweep(damping), which returns the largest change, until the messages of selected graph k converge. Damping
  // starts after sweeps that do not reduce the residual below a fraction of the lowest so far.
  template <typename Sweep> LATENTSTRUCT_INLINE void repeat(std::size_t k, Index graph, Sweep sweep) const {
    constexpr double fall = 0.9;
    constexpr int patience = 5;
    const auto [max_sweeps, damping, tol] = limits;
    double lowest = INFINITE, residual = INFINITE;
    int stalled = 0;
    for (Index count = 0; count < max_sweeps && residual > tol; ++count, ++sweeps[k]) {
      residual = sweep(stalled >= patience ? damping : 0.0);
      if (once[graph]) residual = 0.0;
      stalled += residual > fall * lowest;
      lowest = std::min(lowest, residual);
    }
    residuals[k] = residual;
  }
};

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

// A sweep takes the factors from the last to the first and back; each sends to all its variables.
LATENTSTRUCT_CLONES void run_factors(Wiring wiring, Selection selection, Flags wanted, Vector unary, Vector tables,
                                     Values messages, Flags hidden, Temperatures temperatures, Limits limits, Flags once,
                                     Numbers sweeps, Values residuals) {
  selection.check(unary, tables, messages);
  const Run run(wiring, selection, wanted, hidden, limits, once, sweeps, residuals);
  FactorMessages factors(wiring, selection, unary.data(), tables.data(), messages.data(), hidden.data(), temperatures);
  for (std::size_t k = 0; k < selection.n; ++k) {
    if (!run.wanted[k]) continue;
    const Index g = selection.graphs[k], first = wiring.factors_at[g], count = wiring.factors_at[g + 1] - first;
    factors.shifts = selection.shifts(wiring, k);
    run.repeat(k, g, [&](double damping) __attribute__((always_inline)) {
      double residual = 0.0;
      for (Index v = wiring.variables_at[g]; v < wiring.variables_at[g + 1]; ++v) factors.sum_messages(v);
      for (Index step = 0; step < 2 * count; ++step) {
        const Index f = wiring.factor_order[first + (step < count ? count - 1 - step : step - count)];
        if (wiring.arity(f) < 2) continue;
        factors.gather(f);
        factors.group_outputs(f);
        for (Index slot = 0; slot < wiring.arity(f); ++slot) {
          factors.send(f, slot);
          const Index e = wiring.scope_at[f] + slot, v = wiring.scopes[e], at = wiring.state_at[v] + factors.shifts.unary;
          double *message = messages.data() + wiring.message_at[e] + factors.shifts.message;
          factors.count_message(at, message, wiring.cards[v], -1);
          residual = std::max(residual, settle(factors.out.data(), wiring.cards[v], message, damping));
          factors.count_message(at, message, wiring.cards[v], 1);
        }
      }
      return residual;
    });
  }
}

// Beliefs of all variables and factors, and the Bethe value, at positive temperatures; values hold the constants on entry.
LATENTSTRUCT_CLONES void read_out(Wiring wiring, Selection selection, Vector unary, Vector tables, Vector messages, Flags hidden,
                                  Temperatures temperatures, Values values, Values marginals, Values table_marginals) {
  selection.check(unary, tables, messages);
  selection.check(marginals, table_marginals);
  require_length(selection.n, values);
  require_length(wiring.n_variables, hidden);
  FactorMessages factors(wiring, selection, unary.data(), tables.data(), messages.data(), hidden.data(), temperatures);
  for (std::size_t k = 0; k < selection.n; ++k) {
    const Index g = selection.graphs[k];
    const Shifts shifts = factors.shifts = selection.shifts(wiring, k);
    double value = values(k);
    for (Index v = wiring.variables_at[g]; v < wiring.variables_at[g + 1]; ++v) {
      factors.sum_messages(v);
      const double part = factors.read_variable(v, marginals.data());
      double surplus = -1.0;
      for (Index a = wiring.near_at[v]; a < wiring.near_at[v + 1]; ++a) surplus += wiring.shares[wiring.factor_of[wiring.near[a]]];
      value = part > -INFINITE && value > -INFINITE ? value - surplus * part : -INFINITE;
    }
    for (Index f = wiring.factors_at[g]; f < wiring.factors_at[g + 1]; ++f) {
      double *beliefs = table_marginals.data() + wiring.table_at[f] + shifts.table;
      if (wiring.arity(f) >= 2) {
        value += wiring.shares[f] * factors.read_factor(f, beliefs);
      } else if (wiring.arity(f) == 1) {
        const Index v = wiring.scopes[wiring.scope_at[f]];
        std::copy_n(marginals.data() + wiring.state_at[v] + shifts.unary, wiring.cards[v], beliefs);
      } else {
        beliefs[0] = 1.0;
      }
    }
    values(k) = value;
    if (value == -INFINITE) {
      std::fill(marginals.data() + selection.unary_at[k], marginals.data() + selection.unary_at[k + 1], 0.0);
      std::fill(table_marginals.data() + selection.tables_at[k], table_marginals.data() + selection.tables_at[k + 1], 0.0);
    }
  }
}

// The argmax of each variable's marginals, the lowest state where they tie.
void most_probable(Wiring wiring, Selection selection, Vector marginals, Numbers states) {
  selection.check_states(states);
  require_length(selection.unary_at[selection.n], marginals);
  for (std::size_t k = 0; k < selection.n; ++k) {
    const Index g = selection.graphs[k], first = wiring.variables_at[g];
    const Shifts shifts = selection.shifts(wiring, k);
    for (Index v = first; v < wiring.variables_at[g + 1]; ++v) {
      const double *own = marginals.data() + wiring.state_at[v] + shifts.unary;
      states(selection.variables_at[k] + v - first) = std::max_element(own, own + wiring.cards[v]) - own;
    }
  }
}

} // namespace

NB_MODULE(propagation, m) {
  bind(m, "traverse", traverse);
  bind(m, "fold", fold);
  bind(m, "run_pairwise", run_pairwise);
  bind(m, "run_factors", run_factors);
  bind(m, "read_out", read_out);
  bind(m, "most_probable", most_probable);
}
