// Factor graphs as the propagation kernels look them up; `Wiring` in inference/wiring.py describes the fields.
//
// All arrays are flat. Messages m_{f→v} run from factors to variables; scope entry e stands for the pair (factor_of[e],
// scopes[e]) and its message has the entries message_at[e] … message_at[e + 1]. Only factors of two or more variables
// send messages: smaller ones are folded into the unary terms beforehand. Potentials and messages of the selected graphs
// are compact: those of selected graph k begin at unary_at[k], tables_at[k] and messages_at[k].
//
// ε_y is the temperature of outputs, ε_h that of hidden variables. Where both are equal, callers pass `hidden` all False,
// so that all variables are pooled at one temperature; if they differ, ε_h > 0 is required. A message of -inf marks an impossible
// state; no sum or maximum becomes NaN.
#pragma once
#include "arrays.hpp"
#include "elementwise.hpp"

#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <vector>

namespace latentstruct {

struct Wiring {
  const Index *cards, *scope_at, *scopes, *variables_at, *factors_at, *state_at, *table_at, *message_at, *factor_of, *near_at,
      *near, *near_mid, *back, *order, *factor_order;
  const double *shares;
  std::size_t n_variables, n_graphs;

  static Wiring read(const Fields &fields) {
    Index v = -1, g = -1, f = -1, e = -1, a = -1;
    Wiring found;
    found.cards = fields.indices("cards", &v), found.variables_at = fields.indices("variables_at", {&g, 1});
    found.factors_at = fields.indices("factors_at", {&g, 1}), found.scope_at = fields.indices("scope_at", {&f, 1});
    found.scopes = fields.indices("scopes", &e), found.state_at = fields.indices("state_at", {&v, 1});
    found.table_at = fields.indices("table_at", {&f, 1}), found.message_at = fields.indices("message_at", {&e, 1});
    found.factor_of = fields.indices("factor_of", &e), found.near_at = fields.indices("near_at", {&v, 1});
    found.near = fields.indices("near", &a), found.near_mid = fields.indices("near_mid", &v);
    found.back = fields.indices("back", &a), found.order = fields.indices("order", &v);
    found.factor_order = fields.indices("factor_order", &f), found.shares = fields.get<const double>("shares", f);
    found.n_variables = static_cast<std::size_t>(v), found.n_graphs = static_cast<std::size_t>(g);
    return found;
  }

  Index arity(Index f) const { return scope_at[f + 1] - scope_at[f]; }
  Index table_size(Index f) const { return table_at[f + 1] - table_at[f]; }

  // The table entry of factor f that an assignment meets; `chosen` begins with variable `first`.
  Index entry_of(Index f, const Index *chosen, Index first) const {
    Index entry = 0;
    for (Index e = scope_at[f]; e < scope_at[f + 1]; ++e) entry = entry * cards[scopes[e]] + chosen[scopes[e] - first];
    return entry;
  }
};

// What leads from positions among all graphs to those in the compact arrays of the selected ones.
struct Shifts {
  Index unary, table, message;
};

// The selected graphs and where their compact entries begin.
struct Selection {
  const Index *graphs, *unary_at, *tables_at, *messages_at, *variables_at;
  std::size_t n;

  static Selection read(const Fields &fields) {
    Index n = -1;
    const auto *graphs = fields.indices("graphs", &n);
    return {graphs, fields.indices("unary_at", n + 1), fields.indices("tables_at", n + 1), fields.indices("messages_at", n + 1),
            fields.indices("variables_at", n + 1), static_cast<std::size_t>(n)};
  }

  Shifts shifts(const Wiring &wiring, std::size_t k) const {
    const Index g = graphs[k], factor = wiring.factors_at[g];
    return {unary_at[k] - wiring.state_at[wiring.variables_at[g]], tables_at[k] - wiring.table_at[factor],
            messages_at[k] - wiring.message_at[wiring.scope_at[factor]]};
  }

  template <typename... M> void check(const Vector &unary, const Vector &tables, const M &...messages) const {
    require_length(unary_at[n], unary);
    require_length(tables_at[n], tables);
    require_length(messages_at[n], messages...);
  }
  void check_states(const Indices &states) const { require_length(variables_at[n], states); }
};

// The largest table, the longest list of states of a variable or of a factor's variables, and the largest arity.
struct Sizes {
  Index table = 1, states = 1, arity = 1;
  Sizes(const Wiring &wiring, const Selection &selection) {
    for (std::size_t k = 0; k < selection.n; ++k) {
      const Index g = selection.graphs[k];
      for (Index f = wiring.factors_at[g]; f < wiring.factors_at[g + 1]; ++f) {
        table = std::max(table, wiring.table_size(f));
        arity = std::max(arity, wiring.arity(f));
        states = std::max(states, wiring.message_at[wiring.scope_at[f + 1]] - wiring.message_at[wiring.scope_at[f]]);
      }
      for (Index v = wiring.variables_at[g]; v < wiring.variables_at[g + 1]; ++v) states = std::max(states, wiring.cards[v]);
    }
  }
};

// Tables are seen as of shape (outer, card, inner) around one of their axes; body(p, x) for each entry p in state x.
template <typename Body>
LATENTSTRUCT_INLINE void along_axis(Index outer, Index card, Index inner, Body body) {
  Index p = 0;
  for (Index o = 0; o < outer; ++o) {
    if (inner == 1) {
      for (Index x = 0; x < card; ++x) body(p + x, x);
      p += card;
    } else {
      for (Index x = 0; x < card; ++x, p += inner)
        for (Index i = 0; i < inner; ++i) body(p + i, x);
    }
  }
}

// Beliefs of outputs that are closer than this to the largest share the place of the maximum at temperature 0.
constexpr double TIE = 1e-9;
inline double tie_below(double top) { return top - TIE * (1.0 + std::abs(top)); }

// Normalize a new message to maximum 0, mix it with the old one and store it; return the largest change.
// Impossible states are never mixed. A message without any possible state is stored unchanged.
LATENTSTRUCT_INLINE double settle(const double *out, Index n, double *message, double damping) {
  double high = -INFINITE, residual = 0.0;
  for (Index z = 0; z < n; ++z) high = out[z] > high ? out[z] : high;
  for (Index z = 0; z < n; ++z) {
    const double old = message[z];
    double changed = out[z] > -INFINITE ? out[z] - high : -INFINITE;
    if (damping > 0.0 && changed > -INFINITE && old > -INFINITE) changed = (1.0 - damping) * changed + damping * old;
    const double change = std::abs(changed - old);
    residual = change > residual ? change : residual; // −inf − −inf is NaN, which is no change
    message[z] = changed;
  }
  return residual;
}

// The largest number of sweeps, the damping and the tolerance.
using Limits = std::tuple<Index, double, double>;
using Temperatures = std::tuple<double, double>;

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

} // namespace latentstruct
