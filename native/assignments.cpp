// Assignments of factor graphs: choosing them from messages, improving them, their scores and indicators.
#include "factor_messages.hpp"

using namespace latentstruct;

namespace {

using Flags = In<bool, 1>;

// Write what the factor of entry e sends to its variable, given those of its variables that are fixed, to `factors.out`.
LATENTSTRUCT_INLINE void remaining_message(const Wiring &wiring, FactorMessages &factors, Index e, const Index *chosen,
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

// Choose the outputs' states one after the other, each given those before it.
LATENTSTRUCT_CLONES void decode(Wiring wiring, Selection selection, Flags wanted, Vector unary, Vector tables, Vector messages,
                                Flags hidden, double latent_temperature, Numbers states) {
  selection.check(unary, tables, messages);
  selection.check_states(states);
  require_length(selection.n, wanted);
  require_length(wiring.n_variables, hidden);
  FactorMessages factors(wiring, selection, unary.data(), tables.data(), messages.data(), hidden.data(), {0.0, latent_temperature});
  std::vector<double> scores;
  std::vector<char> fixed;
  for (std::size_t k = 0; k < selection.n; ++k) {
    if (!wanted(k)) continue;
    const Index g = selection.graphs[k], first = wiring.variables_at[g], last = wiring.variables_at[g + 1];
    Index *chosen = states.data() + selection.variables_at[k];
    factors.shifts = selection.shifts(wiring, k);
    fixed.assign(last - first, false);
    for (Index v = first; v < last; ++v) factors.sum_messages(v);
    for (Index place = first; place < last; ++place) {
      const Index v = wiring.order[place];
      if (factors.hidden[v]) continue;
      const double *own = unary.data() + wiring.state_at[v] + factors.shifts.unary;
      scores.assign(own, own + wiring.cards[v]);
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
Index best_state(const Wiring &wiring, Index v, const Shifts &shifts, const double *unary, const double *tables,
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

// Improve states one variable at a time until no change helps.
void climb(Wiring wiring, Selection selection, Flags wanted, Vector unary, Vector tables, Numbers states, Index max_sweeps) {
  selection.check(unary, tables);
  selection.check_states(states);
  require_length(selection.n, wanted);
  std::vector<double> scores;
  for (std::size_t k = 0; k < selection.n; ++k) {
    if (!wanted(k)) continue;
    const Index g = selection.graphs[k], first = wiring.variables_at[g];
    const Shifts shifts = selection.shifts(wiring, k);
    Index *chosen = states.data() + selection.variables_at[k];
    bool changed = true;
    for (Index sweep = 0; sweep < max_sweeps && changed; ++sweep) {
      changed = false;
      for (Index v = first; v < wiring.variables_at[g + 1]; ++v) {
        const Index best = best_state(wiring, v, shifts, unary.data(), tables.data(), chosen, first, scores);
        changed |= best != chosen[v - first];
        chosen[v - first] = best;
      }
    }
  }
}

// Call on_state(k, position) and on_entry(k, f, position) for what each assignment meets in the compact arrays.
template <typename OnState, typename OnEntry>
void visit(const Wiring &wiring, const Selection &selection, const Indices &states, OnState on_state, OnEntry on_entry) {
  selection.check_states(states);
  for (std::size_t k = 0; k < selection.n; ++k) {
    const Index g = selection.graphs[k], first = wiring.variables_at[g];
    const Shifts shifts = selection.shifts(wiring, k);
    const Index *chosen = states.data() + selection.variables_at[k];
    for (Index v = first; v < wiring.variables_at[g + 1]; ++v)
      on_state(k, wiring.state_at[v] + shifts.unary + chosen[v - first]);
    for (Index f = wiring.factors_at[g]; f < wiring.factors_at[g + 1]; ++f)
      on_entry(k, f, wiring.table_at[f] + shifts.table + wiring.entry_of(f, chosen, first));
  }
}

// Add the scores of assignments; `unary` has the factors of one variable, the values those of none.
void score(Wiring wiring, Selection selection, Vector unary, Vector tables, Indices states, Values values) {
  selection.check(unary, tables);
  require_length(selection.n, values);
  visit(wiring, selection, states, [&](std::size_t k, Index p) { values(k) += unary(p); },
        [&](std::size_t k, Index f, Index p) { values(k) += wiring.arity(f) >= 2 ? tables(p) : 0.0; });
}

// Mark what possible assignments meet.
void indicate(Wiring wiring, Selection selection, Indices states, Vector values, Values marginals, Values table_marginals) {
  selection.check(marginals, table_marginals);
  require_length(selection.n, values);
  const auto possible = [&](std::size_t k) { return values(k) > -INFINITE ? 1.0 : 0.0; };
  visit(wiring, selection, states, [&](std::size_t k, Index p) { marginals(p) = possible(k); },
        [&](std::size_t k, Index, Index p) { table_marginals(p) = possible(k); });
}

} // namespace

NB_MODULE(assignments, m) {
  bind(m, "decode", decode);
  bind(m, "climb", climb);
  bind(m, "score", score);
  bind(m, "indicate", indicate);
}
