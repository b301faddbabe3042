// Assignments of factor graphs: choosing them from messages, improving them, their scores and indicators.
#include "factor_messages.hpp"

using namespace latentstruct;

// Write what the factor of entry e sends to its variable, given those of its variables that are fixed, to `factors.out`.
LATENTSTRUCT_INLINE static void remaining_message(const Wiring &wiring, FactorMessages &factors, Index e, const Index *chosen,
                                                  const std::vector<char> &fixed, Index first) {
  const Index f = wiring.factor_of[e], begin = wiring.scope_at[f], end = wiring.scope_at[f + 1];
  const auto is_fixed = [&](Index u) { return fixed[u - first]; };
  if (std::none_of(wiring.scopes + begin, wiring.scopes + end, is_fixed)) {
    std::copy_n(factors.messages + wiring.message_at[e] + factors.shifts.message, wiring.cards[wiring.scopes[e]],
                factors.out.begin());
    return;
  }
  factors.gather(f);
  for (Index other = begin; other < end; ++other) {
    const Index u = wiring.scopes[other];
    if (!is_fixed(u)) continue;
    double *incoming = &factors.incoming[factors.incoming_at[other - begin]];
    std::fill_n(incoming, wiring.cards[u], -INFINITE);
    incoming[chosen[u - first]] = 0.0;
  }
  factors.group_outputs(f);
  factors.send(f, e - begin);
}

LATENTSTRUCT_CLONES static void decode(const Wiring &wiring, const Selection &selection, const bool *wanted,
                                       FactorMessages &factors, Index *states) {
  std::vector<double> scores;
  std::vector<char> fixed;
  for (std::size_t k = 0; k < selection.n; ++k) {
    if (!wanted[k]) continue;
    const Index g = selection.graphs[k], first = wiring.variables_at[g], last = wiring.variables_at[g + 1];
    Index *chosen = states + selection.variables_at[k];
    factors.shifts = selection.shifts(wiring, k);
    fixed.assign(last - first, false);
    for (Index v = first; v < last; ++v) factors.sum_messages(v);
    for (Index place = first; place < last; ++place) {
      const Index v = wiring.order[place];
      if (factors.hidden[v]) continue;
      const double *unary = factors.unary + wiring.state_at[v] + factors.shifts.unary;
      scores.assign(unary, unary + wiring.cards[v]);
      for (Index a = wiring.near_at[v]; a < wiring.near_at[v + 1]; ++a) {
        remaining_message(wiring, factors, wiring.near[a], chosen, fixed, first);
        for (std::size_t x = 0; x < scores.size(); ++x) scores[x] += factors.out[x];
      }
      chosen[v - first] = std::max_element(scores.begin(), scores.end()) - scores.begin();
      fixed[v - first] = true;
    }
  }
}

// The state of v that scores best with all others as chosen; the chosen one unless another is better.
static Index best_state(const Wiring &wiring, Index v, const Shifts &shifts, const double *unary, const double *tables,
                        Index *chosen, Index first, std::vector<double> &scores) {
  const Index n = wiring.cards[v], old = chosen[v - first];
  const double *own = unary + wiring.state_at[v] + shifts.unary;
  scores.assign(own, own + n);
  chosen[v - first] = 0;
  for (Index a = wiring.near_at[v]; a < wiring.near_at[v + 1]; ++a) {
    const Index e = wiring.near[a], f = wiring.factor_of[e];
    Index stride = 1;
    for (Index later = e + 1; later < wiring.scope_at[f + 1]; ++later) stride *= wiring.cards[wiring.scopes[later]];
    const double *table = tables + wiring.table_at[f] + shifts.table + wiring.entry_of(f, chosen, first);
    for (Index x = 0; x < n; ++x) scores[x] += table[x * stride];
  }
  Index best = old;
  for (Index x = 0; x < n; ++x) {
    // Rounding must not make two states take turns.
    const double least = scores[best] > -INFINITE ? 1e-12 * std::abs(scores[best]) : 0.0;
    if (scores[x] > scores[best] + least) best = x;
  }
  chosen[v - first] = old;
  return best;
}

static void climb(const Wiring &wiring, const Selection &selection, const bool *wanted, const double *unary, const double *tables,
                  Index *states, Index max_sweeps) {
  std::vector<double> scores;
  for (std::size_t k = 0; k < selection.n; ++k) {
    if (!wanted[k]) continue;
    const Index g = selection.graphs[k], first = wiring.variables_at[g];
    const Shifts shifts = selection.shifts(wiring, k);
    Index *chosen = states + selection.variables_at[k];
    bool changed = true;
    for (Index sweep = 0; sweep < max_sweeps && changed; ++sweep) {
      changed = false;
      for (Index v = first; v < wiring.variables_at[g + 1]; ++v) {
        const Index best = best_state(wiring, v, shifts, unary, tables, chosen, first, scores);
        changed |= best != chosen[v - first];
        chosen[v - first] = best;
      }
    }
  }
}

// Call on_state(k, position) and on_entry(k, f, position) for what each assignment meets in the compact arrays.
template <typename OnState, typename OnEntry>
static inline void visit(const Wiring &wiring, const Selection &selection, const Index *states, OnState on_state, OnEntry on_entry) {
  for (std::size_t k = 0; k < selection.n; ++k) {
    const Index g = selection.graphs[k], first = wiring.variables_at[g];
    const Shifts shifts = selection.shifts(wiring, k);
    const Index *chosen = states + selection.variables_at[k];
    for (Index v = first; v < wiring.variables_at[g + 1]; ++v)
      on_state(k, wiring.state_at[v] + shifts.unary + chosen[v - first]);
    for (Index f = wiring.factors_at[g]; f < wiring.factors_at[g + 1]; ++f)
      on_entry(k, f, wiring.table_at[f] + shifts.table + wiring.entry_of(f, chosen, first));
  }
}

NB_MODULE(assignments, m) {
  using Flags = In<bool, 1>;
  using Vector = In<double, 1>;
  m.def("decode",
        [](nb::object wiring_tuple, nb::object selected, Flags wanted, Vector unary, Vector tables, Vector messages, Flags hidden,
           double eps_h, Out<Index, 1> states) {
          const Wiring wiring(wiring_tuple);
          const Selection selection(selected);
          selection.check_graphs(wanted.shape(0));
          selection.check_unary(unary.shape(0));
          selection.check_tables(tables.shape(0));
          selection.check_messages(messages.shape(0));
          selection.check_states(states.shape(0));
          require(hidden.shape(0) == wiring.n_variables, "hidden has the wrong length");
          nb::gil_scoped_release released;
          FactorMessages factors(wiring, selection, unary.data(), tables.data(), messages.data(), hidden.data(), 0.0, eps_h);
          decode(wiring, selection, wanted.data(), factors, states.data());
        },
        nb::arg("wiring"), nb::arg("selected"), nb::arg("wanted").noconvert(), nb::arg("unary").noconvert(),
        nb::arg("tables").noconvert(), nb::arg("messages").noconvert(), nb::arg("hidden").noconvert(), nb::arg("eps_h"),
        nb::arg("states").noconvert());
  m.def("climb",
        [](nb::object wiring_tuple, nb::object selected, Flags wanted, Vector unary, Vector tables, Out<Index, 1> states,
           Index max_sweeps) {
          const Wiring wiring(wiring_tuple);
          const Selection selection(selected);
          selection.check_graphs(wanted.shape(0));
          selection.check_unary(unary.shape(0));
          selection.check_tables(tables.shape(0));
          selection.check_states(states.shape(0));
          nb::gil_scoped_release released;
          climb(wiring, selection, wanted.data(), unary.data(), tables.data(), states.data(), max_sweeps);
        },
        nb::arg("wiring"), nb::arg("selected"), nb::arg("wanted").noconvert(), nb::arg("unary").noconvert(),
        nb::arg("tables").noconvert(), nb::arg("states").noconvert(), nb::arg("max_sweeps"));
  m.def("score",
        [](nb::object wiring_tuple, nb::object selected, Vector unary, Vector tables, In<Index, 1> states, Out<double, 1> values) {
          const Wiring wiring(wiring_tuple);
          const Selection selection(selected);
          selection.check_unary(unary.shape(0));
          selection.check_tables(tables.shape(0));
          selection.check_states(states.shape(0));
          selection.check_graphs(values.shape(0));
          nb::gil_scoped_release released;
          // `unary` has the factors of one variable, the values those of none.
          visit(wiring, selection, states.data(), [&](std::size_t k, Index p) { values.data()[k] += unary.data()[p]; },
                [&](std::size_t k, Index f, Index p) {
                  if (wiring.arity(f) >= 2) values.data()[k] += tables.data()[p];
                });
        },
        nb::arg("wiring"), nb::arg("selected"), nb::arg("unary").noconvert(), nb::arg("tables").noconvert(),
        nb::arg("states").noconvert(), nb::arg("values").noconvert());
  m.def("indicate",
        [](nb::object wiring_tuple, nb::object selected, In<Index, 1> states, Vector values, Out<double, 1> marginals,
           Out<double, 1> table_marginals) {
          const Wiring wiring(wiring_tuple);
          const Selection selection(selected);
          selection.check_states(states.shape(0));
          selection.check_graphs(values.shape(0));
          selection.check_unary(marginals.shape(0));
          selection.check_tables(table_marginals.shape(0));
          nb::gil_scoped_release released;
          const auto possible = [&](std::size_t k) { return values.data()[k] > -INFINITE ? 1.0 : 0.0; };
          visit(wiring, selection, states.data(), [&](std::size_t k, Index p) { marginals.data()[p] = possible(k); },
                [&](std::size_t k, Index, Index p) { table_marginals.data()[p] = possible(k); });
        },
        nb::arg("wiring"), nb::arg("selected"), nb::arg("states").noconvert(), nb::arg("values").noconvert(),
        nb::arg("marginals").noconvert(), nb::arg("table_marginals").noconvert());
}
