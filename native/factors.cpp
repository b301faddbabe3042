// Factors of any number of variables: sweeps of their messages, beliefs and values; assignments, how to improve them, their
// scores and indicators.
#include "factor_messages.hpp"

using namespace latentstruct;

namespace {

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

LATENTSTRUCT_MODULE(factors, run_factors, decode, climb, score, indicate, read_out, most_probable)
