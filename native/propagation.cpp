// Belief propagation over factor graphs: wiring, sweeps of messages, and their results.
#include <nanobind/stl/tuple.h>

#include "factor_messages.hpp"
#include "pairwise_messages.hpp"

using namespace latentstruct;

using Weights = std::tuple<double, double>;
using SweepLimits = std::tuple<Index, double, double>;

// Reach the variables of each graph breadth first; forest[g] is whether no variable was reached twice.
static void traverse(std::size_t n_graphs, std::size_t n_variables, std::size_t n_factors, const Index *variables_at,
                     const Index *factors_at, const Index *scope_at, const Index *scopes, const Index *near_at, const Index *near,
                     const Index *factor_of, Index *order, Index *factor_order, bool *forest) {
  std::vector<char> seen(n_variables), used(n_factors);
  for (std::size_t g = 0; g < n_graphs; ++g) {
    forest[g] = true;
    Index done = variables_at[g], reached = done, factors = factors_at[g];
    for (Index root = variables_at[g]; root < variables_at[g + 1]; ++root) {
      if (seen[root]) continue;
      seen[root] = true;
      order[reached++] = root;
      while (done < reached) {
        const Index v = order[done++];
        for (Index a = near_at[v]; a < near_at[v + 1]; ++a) {
          const Index f = factor_of[near[a]];
          if (used[f]) continue;
          used[f] = true;
          factor_order[factors++] = f;
          for (Index e = scope_at[f]; e < scope_at[f + 1]; ++e) {
            const Index u = scopes[e];
            if (!seen[u]) {
              seen[u] = true;
              order[reached++] = u;
            } else if (u != v) {
              forest[g] = false;
            }
          }
        }
      }
    }
    for (Index f = factors_at[g]; f < factors_at[g + 1]; ++f)
      if (!used[f]) factor_order[factors++] = f;
    // Neighbors in memory are then neighbors in time; no order is exact anyway.
    if (!forest[g])
      for (Index v = variables_at[g]; v < variables_at[g + 1]; ++v) order[v] = v;
  }
}

// Add factors of one variable to `unary`, and those of none to the constants.
static void fold(const Wiring &wiring, const Selection &selection, const double *tables, double *unary, double *constants) {
  for (std::size_t k = 0; k < selection.n; ++k) {
    const Index g = selection.graphs[k];
    const Shifts shifts = selection.shifts(wiring, k);
    constants[k] = 0.0;
    for (Index f = wiring.factors_at[g]; f < wiring.factors_at[g + 1]; ++f) {
      const double *table = tables + wiring.table_at[f] + shifts.table;
      if (wiring.arity(f) == 0) constants[k] += table[0];
      if (wiring.arity(f) != 1) continue;
      const Index v = wiring.scopes[wiring.scope_at[f]];
      for (Index x = 0; x < wiring.cards[v]; ++x) unary[wiring.state_at[v] + shifts.unary + x] += table[x];
    }
  }
}

LATENTSTRUCT_CLONES static void run_pairwise(const Wiring &wiring, const Selection &selection, const bool *wanted,
                                             PairwiseMessages &graph, double *messages, const Limits &limits, const bool *once,
                                             bool sums, Index *sweeps, double *residuals) {
  for (std::size_t k = 0; k < selection.n; ++k) {
    if (!wanted[k]) continue;
    const Index g = selection.graphs[k];
    const Shifts shifts = selection.shifts(wiring, k);
    graph.load(g, shifts, messages);
    const bool linear = sums && graph.is_linear();
    if (linear) graph.to_linear();
    repeat(limits, once[g], sweeps[k], residuals[k], [&](double damping) __attribute__((always_inline)) {
      return linear ? graph.sweep<true>(damping) : graph.sweep<false>(damping);
    });
    if (linear) graph.from_linear();
    graph.store(shifts.message, messages);
  }
}

// A sweep takes the factors from the last to the first and back; each sends to all its variables.
LATENTSTRUCT_CLONES static void run_factors(const Wiring &wiring, const Selection &selection, const bool *wanted,
                                            FactorMessages &factors, double *messages, const Limits &limits, const bool *once,
                                            Index *sweeps, double *residuals) {
  for (std::size_t k = 0; k < selection.n; ++k) {
    if (!wanted[k]) continue;
    const Index g = selection.graphs[k], first = wiring.factors_at[g], count = wiring.factors_at[g + 1] - first;
    factors.shifts = selection.shifts(wiring, k);
    repeat(limits, once[g], sweeps[k], residuals[k], [&](double damping) __attribute__((always_inline)) {
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
          double *message = messages + wiring.message_at[e] + factors.shifts.message;
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
LATENTSTRUCT_CLONES static void read_out(const Wiring &wiring, const Selection &selection, FactorMessages &factors, double *values,
                                         double *marginals, double *table_marginals) {
  for (std::size_t k = 0; k < selection.n; ++k) {
    const Index g = selection.graphs[k];
    const Shifts shifts = factors.shifts = selection.shifts(wiring, k);
    double value = values[k];
    for (Index v = wiring.variables_at[g]; v < wiring.variables_at[g + 1]; ++v) {
      factors.sum_messages(v);
      const double part = factors.read_variable(v, marginals);
      double surplus = -1.0;
      for (Index a = wiring.near_at[v]; a < wiring.near_at[v + 1]; ++a) surplus += wiring.shares[wiring.factor_of[wiring.near[a]]];
      value = part > -INFINITE && value > -INFINITE ? value - surplus * part : -INFINITE;
    }
    for (Index f = wiring.factors_at[g]; f < wiring.factors_at[g + 1]; ++f) {
      double *beliefs = table_marginals + wiring.table_at[f] + shifts.table;
      if (wiring.arity(f) >= 2) {
        value += wiring.shares[f] * factors.read_factor(f, beliefs);
      } else if (wiring.arity(f) == 1) {
        const Index v = wiring.scopes[wiring.scope_at[f]];
        std::copy_n(marginals + wiring.state_at[v] + shifts.unary, wiring.cards[v], beliefs);
      } else {
        beliefs[0] = 1.0;
      }
    }
    values[k] = value;
    if (value == -INFINITE) {
      std::fill(marginals + selection.unary_at[k], marginals + selection.unary_at[k + 1], 0.0);
      std::fill(table_marginals + selection.tables_at[k], table_marginals + selection.tables_at[k + 1], 0.0);
    }
  }
}

// The argmax of each variable's marginals, the lowest state where they tie.
static void most_probable(const Wiring &wiring, const Selection &selection, const double *marginals, Index *states) {
  for (std::size_t k = 0; k < selection.n; ++k) {
    const Index g = selection.graphs[k], first = wiring.variables_at[g];
    const Shifts shifts = selection.shifts(wiring, k);
    for (Index v = first; v < wiring.variables_at[g + 1]; ++v) {
      const double *own = marginals + wiring.state_at[v] + shifts.unary;
      states[selection.variables_at[k] + v - first] = std::max_element(own, own + wiring.cards[v]) - own;
    }
  }
}

// Common arguments of sweeps and results.
struct Problem {
  Wiring wiring;
  Selection selection;
  Problem(nb::handle wiring_tuple, nb::handle selection_tuple, const In<double, 1> &unary, const In<double, 1> &tables,
          std::size_t n_messages, const In<bool, 1> &hidden)
      : wiring(wiring_tuple), selection(selection_tuple) {
    selection.check_unary(unary.shape(0));
    selection.check_tables(tables.shape(0));
    selection.check_messages(n_messages);
    require(hidden.shape(0) == wiring.n_variables, "hidden has the wrong length");
  }
  void check_run(const In<bool, 1> &wanted, const In<bool, 1> &once, const Out<Index, 1> &sweeps, const Out<double, 1> &residuals) {
    for (const std::size_t size : {wanted.shape(0), sweeps.shape(0), residuals.shape(0)}) selection.check_graphs(size);
    require(once.shape(0) == wiring.n_graphs, "once has the wrong length");
  }
};

NB_MODULE(propagation, m) {
  using Flags = In<bool, 1>;
  using Indices = In<Index, 1>;
  using Vector = In<double, 1>;
  m.def("traverse",
        [](Indices variables_at, Indices factors_at, Indices scope_at, Indices scopes, Indices near_at, Indices near,
           Indices factor_of, Out<Index, 1> order, Out<Index, 1> factor_order, Out<bool, 1> forest) {
          const std::size_t n_graphs = forest.shape(0), n_variables = order.shape(0), n_factors = factor_order.shape(0);
          require(variables_at.shape(0) == n_graphs + 1 && factors_at.shape(0) == n_graphs + 1 &&
                      near_at.shape(0) == n_variables + 1 && scope_at.shape(0) == n_factors + 1,
                  "offsets must have one entry more than what they count");
          nb::gil_scoped_release released;
          traverse(n_graphs, n_variables, n_factors, variables_at.data(), factors_at.data(), scope_at.data(), scopes.data(),
                   near_at.data(), near.data(), factor_of.data(), order.data(), factor_order.data(), forest.data());
        },
        nb::arg("variables_at").noconvert(), nb::arg("factors_at").noconvert(), nb::arg("scope_at").noconvert(),
        nb::arg("scopes").noconvert(), nb::arg("near_at").noconvert(), nb::arg("near").noconvert(),
        nb::arg("factor_of").noconvert(), nb::arg("order").noconvert(), nb::arg("factor_order").noconvert(),
        nb::arg("forest").noconvert());
  m.def("fold",
        [](nb::object wiring_tuple, nb::object selected, Vector tables, Out<double, 1> unary, Out<double, 1> constants) {
          const Wiring wiring(wiring_tuple);
          const Selection selection(selected);
          selection.check_tables(tables.shape(0));
          selection.check_unary(unary.shape(0));
          selection.check_graphs(constants.shape(0));
          nb::gil_scoped_release released;
          fold(wiring, selection, tables.data(), unary.data(), constants.data());
        },
        nb::arg("wiring"), nb::arg("selected"), nb::arg("tables").noconvert(), nb::arg("unary").noconvert(),
        nb::arg("constants").noconvert());
  m.def("run_pairwise",
        [](nb::object wiring, nb::object selected, Flags wanted, Vector unary, Vector tables, Out<double, 1> messages,
           Flags hidden, Weights weights, SweepLimits limits, Flags once, bool sums, Out<Index, 1> sweeps,
           Out<double, 1> residuals) {
          Problem problem(wiring, selected, unary, tables, messages.shape(0), hidden);
          problem.check_run(wanted, once, sweeps, residuals);
          const auto [eps_y, eps_h] = weights;
          const auto [max_sweeps, damping, tol] = limits;
          nb::gil_scoped_release released;
          PairwiseMessages graph(problem.wiring, unary.data(), tables.data(), hidden.data(), eps_y, eps_h);
          run_pairwise(problem.wiring, problem.selection, wanted.data(), graph, messages.data(), {max_sweeps, damping, tol},
                       once.data(), sums, sweeps.data(), residuals.data());
        },
        nb::arg("wiring"), nb::arg("selected"), nb::arg("wanted").noconvert(), nb::arg("unary").noconvert(),
        nb::arg("tables").noconvert(), nb::arg("messages").noconvert(), nb::arg("hidden").noconvert(), nb::arg("weights"),
        nb::arg("limits"), nb::arg("once").noconvert(), nb::arg("sums"), nb::arg("sweeps").noconvert(),
        nb::arg("residuals").noconvert());
  m.def("run_factors",
        [](nb::object wiring, nb::object selected, Flags wanted, Vector unary, Vector tables, Out<double, 1> messages,
           Flags hidden, Weights weights, SweepLimits limits, Flags once, Out<Index, 1> sweeps, Out<double, 1> residuals) {
          Problem problem(wiring, selected, unary, tables, messages.shape(0), hidden);
          problem.check_run(wanted, once, sweeps, residuals);
          const auto [eps_y, eps_h] = weights;
          const auto [max_sweeps, damping, tol] = limits;
          nb::gil_scoped_release released;
          FactorMessages factors(problem.wiring, problem.selection, unary.data(), tables.data(), messages.data(), hidden.data(),
                                 eps_y, eps_h);
          run_factors(problem.wiring, problem.selection, wanted.data(), factors, messages.data(), {max_sweeps, damping, tol},
                      once.data(), sweeps.data(), residuals.data());
        },
        nb::arg("wiring"), nb::arg("selected"), nb::arg("wanted").noconvert(), nb::arg("unary").noconvert(),
        nb::arg("tables").noconvert(), nb::arg("messages").noconvert(), nb::arg("hidden").noconvert(), nb::arg("weights"),
        nb::arg("limits"), nb::arg("once").noconvert(), nb::arg("sweeps").noconvert(), nb::arg("residuals").noconvert());
  m.def("read_out",
        [](nb::object wiring, nb::object selected, Vector unary, Vector tables, Vector messages, Flags hidden, Weights weights,
           Out<double, 1> values, Out<double, 1> marginals, Out<double, 1> table_marginals) {
          Problem problem(wiring, selected, unary, tables, messages.shape(0), hidden);
          problem.selection.check_graphs(values.shape(0));
          problem.selection.check_unary(marginals.shape(0));
          problem.selection.check_tables(table_marginals.shape(0));
          const auto [eps_y, eps_h] = weights;
          nb::gil_scoped_release released;
          FactorMessages factors(problem.wiring, problem.selection, unary.data(), tables.data(), messages.data(), hidden.data(),
                                 eps_y, eps_h);
          read_out(problem.wiring, problem.selection, factors, values.data(), marginals.data(), table_marginals.data());
        },
        nb::arg("wiring"), nb::arg("selected"), nb::arg("unary").noconvert(), nb::arg("tables").noconvert(),
        nb::arg("messages").noconvert(), nb::arg("hidden").noconvert(), nb::arg("weights"), nb::arg("values").noconvert(),
        nb::arg("marginals").noconvert(), nb::arg("table_marginals").noconvert());
  m.def("most_probable",
        [](nb::object wiring_tuple, nb::object selected, Vector marginals, Out<Index, 1> states) {
          const Wiring wiring(wiring_tuple);
          const Selection selection(selected);
          selection.check_unary(marginals.shape(0));
          selection.check_states(states.shape(0));
          nb::gil_scoped_release released;
          most_probable(wiring, selection, marginals.data(), states.data());
        },
        nb::arg("wiring"), nb::arg("selected"), nb::arg("marginals").noconvert(), nb::arg("states").noconvert());
}
