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
#include <algorithm>
#include <vector>

#include "arrays.hpp"
#include "elementwise.hpp"

namespace latentstruct {

inline void require(bool sound, const char *message) {
  if (!sound) throw nb::value_error(message);
}

struct Wiring {
  const Index *cards, *scope_at, *scopes, *variables_at, *factors_at, *state_at, *table_at, *message_at, *factor_of, *near_at,
      *near, *near_mid, *back, *order, *factor_order;
  const double *shares;
  std::size_t n_variables, n_graphs;

  // The pointers stay valid while Python holds the tuple.
  explicit Wiring(nb::handle from) {
    const auto read = [&](const char *name) { return array<In<Index, 1>>(from, name); };
    n_variables = read("cards").shape(0);
    n_graphs = read("variables_at").shape(0) - 1;
    cards = read("cards").data();
    scope_at = read("scope_at").data();
    scopes = read("scopes").data();
    variables_at = read("variables_at").data();
    factors_at = read("factors_at").data();
    state_at = read("state_at").data();
    table_at = read("table_at").data();
    message_at = read("message_at").data();
    factor_of = read("factor_of").data();
    near_at = read("near_at").data();
    near = read("near").data();
    near_mid = read("near_mid").data();
    back = read("back").data();
    order = read("order").data();
    factor_order = read("factor_order").data();
    shares = array<In<double, 1>>(from, "shares").data();
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

  explicit Selection(nb::handle from) {
    const auto read = [&](const char *name) { return array<In<Index, 1>>(from, name); };
    n = read("graphs").shape(0);
    graphs = read("graphs").data();
    unary_at = read("unary_at").data();
    tables_at = read("tables_at").data();
    messages_at = read("messages_at").data();
    variables_at = read("variables_at").data();
    for (const char *name : {"unary_at", "tables_at", "messages_at", "variables_at"})
      require(read(name).shape(0) == n + 1, "offsets must have one entry more than graphs");
  }

  Shifts shifts(const Wiring &wiring, std::size_t k) const {
    const Index g = graphs[k], factor = wiring.factors_at[g];
    return {unary_at[k] - wiring.state_at[wiring.variables_at[g]], tables_at[k] - wiring.table_at[factor],
            messages_at[k] - wiring.message_at[wiring.scope_at[factor]]};
  }

  void check_unary(std::size_t size) const { require(Index(size) == unary_at[n], "unary has the wrong length"); }
  void check_tables(std::size_t size) const { require(Index(size) == tables_at[n], "tables has the wrong length"); }
  void check_messages(std::size_t size) const { require(Index(size) == messages_at[n], "messages has the wrong length"); }
  void check_states(std::size_t size) const { require(Index(size) == variables_at[n], "states has the wrong length"); }
  void check_graphs(std::size_t size) const { require(size == n, "an array by graph has the wrong length"); }
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

// Repeat sweeps until messages converge; sweep(damping) returns the largest change. Damping starts after sweeps that
// do not reduce the residual below a fraction of the lowest so far.
struct Limits {
  Index max_sweeps;
  double damping, tol;
};
template <typename Sweep> inline void repeat(const Limits &limits, bool once, Index &sweeps, double &residual, Sweep sweep) {
  constexpr double fall = 0.9;
  constexpr int patience = 5;
  double lowest = INFINITE;
  int stalled = 0;
  residual = INFINITE;
  for (Index count = 0; count < limits.max_sweeps && residual > limits.tol; ++count) {
    residual = sweep(stalled >= patience ? limits.damping : 0.0);
    if (once) residual = 0.0;
    stalled += residual > fall * lowest;
    lowest = std::min(lowest, residual);
    ++sweeps;
  }
}

} // namespace latentstruct
