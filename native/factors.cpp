// Factors of any number of variables: sweeps of their messages, beliefs and values; assignments, how to improve them, their
// scores and indicators.
//
// Outputs are pooled at eps_y, hidden variables before them at eps_h. Where both are equal, `hidden` is all false, so that
// all variables are pooled at one temperature. A value of -inf marks an impossible state; no sum or maximum here becomes NaN.
#include "wiring.hpp"

using namespace latentstruct;

namespace {

// Messages and beliefs of factors of any number of variables, over one of the selected graphs at a time.
struct FactorMessages {
  const Wiring &wiring;
  const double *unary, *tables, *messages;
  const bool *hidden;
  double eps_y, eps_h;
  Shifts shifts{};
  // By state of the selected graphs: unary + Σ finite messages, and how many terms are -inf.
  std::vector<double> total;
  std::vector<Index> blocked;
  // By entry of a factor's table: the number of the joint state of its outputs, and scratch.
  std::vector<Index> group;
  std::vector<double> others, whole, pooled, sums, logs, terms;
  // Messages of a factor's variables to it, those of slot s from incoming_at[s] on; the message that it sends.
  std::vector<double> incoming, out;
  std::vector<Index> incoming_at;
  Index n_groups = 1;

  FactorMessages(const Wiring &wiring, const Selection &selection, const double *unary, const double *tables,
                 const double *messages, const bool *hidden, const Temperatures &temperatures)
      : wiring(wiring), unary(unary), tables(tables), messages(messages), hidden(hidden),
        eps_y(std::get<0>(temperatures)), eps_h(std::get<1>(temperatures)),
        total(selection.unary_at[selection.n]), blocked(total.size()) {
    const Sizes sizes(wiring, selection);
    group.resize(sizes.table);
    for (auto *buffer : {&others, &whole, &pooled, &sums, &logs, &terms}) buffer->resize(sizes.table);
    incoming.resize(sizes.states);
    out.resize(sizes.states);
    incoming_at.resize(sizes.arity);
  }

  LATENTSTRUCT_INLINE void sum_messages(Index v) {
    const Index begin = wiring.state_at[v] + shifts.unary, n = wiring.cards[v];
    std::fill_n(&total[begin], n, 0.0);
    std::fill_n(&blocked[begin], n, 0);
    count_message(begin, unary + begin, n, 1);
    for (Index a = wiring.near_at[v]; a < wiring.near_at[v + 1]; ++a)
      count_message(begin, messages + wiring.message_at[wiring.near[a]] + shifts.message, n, 1);
  }

  // Add a message to the sums of its variable (sign 1), or subtract it (-1).
  LATENTSTRUCT_INLINE void count_message(Index at, const double *message, Index n, Index sign) {
    for (Index x = 0; x < n; ++x) {
      total[at + x] += double(sign) * finite_or_zero(message[x]);
      blocked[at + x] += message[x] > -INFINITE ? 0 : sign;
    }
  }

  // Write the messages of a factor's variables to it.
  LATENTSTRUCT_CLONES void gather(Index f) {
    Index at = 0;
    for (Index e = wiring.scope_at[f]; e < wiring.scope_at[f + 1]; ++e) {
      const Index v = wiring.scopes[e], begin = wiring.state_at[v] + shifts.unary;
      const double *own = messages + wiring.message_at[e] + shifts.message;
      incoming_at[e - wiring.scope_at[f]] = at;
      for (Index x = 0; x < wiring.cards[v]; ++x, ++at) {
        const bool possible = blocked[begin + x] == (own[x] > -INFINITE ? 0 : 1);
        incoming[at] = possible ? total[begin + x] - finite_or_zero(own[x] / wiring.shares[f]) : -INFINITE;
      }
    }
  }

  // Number the joint states of the outputs of factor f.
  LATENTSTRUCT_INLINE void group_outputs(Index f) {
    const Index size = wiring.table_size(f);
    std::fill_n(group.begin(), size, 0);
    Index inner = 1;
    n_groups = 1;
    for (Index e = wiring.scope_at[f + 1] - 1; e >= wiring.scope_at[f]; --e) {
      const Index v = wiring.scopes[e], card = wiring.cards[v];
      if (!hidden[v]) {
        along_axis(size / (card * inner), card, inner, [&](Index p, Index x) { group[p] += x * n_groups; });
        n_groups *= card;
      }
      inner *= card;
    }
  }

  // table += Σ incoming messages, without that of the slot `skipped`; return the sizes around the skipped axis.
  struct Axis {
    Index outer = 1, card = 1, inner = 1;
  };
  LATENTSTRUCT_INLINE Axis add_incoming(Index f, Index skipped, double *table) const {
    const Index size = wiring.table_size(f), first = wiring.scope_at[f];
    Axis axis, found;
    for (Index s = 0; s < wiring.arity(f); ++s) {
      axis.card = wiring.cards[wiring.scopes[first + s]];
      axis.inner = size / (axis.outer * axis.card);
      if (s == skipped)
        found = axis;
      else
        add_along(s, axis, table);
      axis.outer *= axis.card;
    }
    return found;
  }
  LATENTSTRUCT_INLINE void add_along(Index slot, const Axis &axis, double *table) const {
    const double *values = &incoming[incoming_at[slot]];
    along_axis(axis.outer, axis.card, axis.inner, [&](Index p, Index x) { table[p] += values[x]; });
  }

  // smax of n values at a temperature; -inf if all are.
  LATENTSTRUCT_INLINE double smax(const double *values, Index n, double temperature) {
    const double top = largest(values, n);
    if (top == -INFINITE || temperature == 0.0) return top;
    for (Index p = 0; p < n; ++p) terms[p] = values[p] - top;
    exp_each(terms.data(), n, temperature);
    return top + temperature * log_of(sum_of(terms.data(), n));
  }

  // pooled[y] = smax at eps_h of the entries of a table with group y; `sums` has the sums of their exponentials `terms`,
  // relative to the largest, unless each group has one entry only.
  LATENTSTRUCT_INLINE void pool_hidden(const double *table, Index size) {
    if (n_groups == size) {
      std::copy_n(table, size, pooled.begin());
      return;
    }
    std::fill_n(pooled.begin(), n_groups, -INFINITE);
    for (Index p = 0; p < size; ++p) pooled[group[p]] = std::max(pooled[group[p]], table[p]);
    if (eps_h == 0.0) return;
    std::fill_n(sums.begin(), n_groups, 0.0);
    for (Index p = 0; p < size; ++p) terms[p] = table[p] - finite_or_zero(pooled[group[p]]);
    exp_each(terms.data(), size, eps_h);
    for (Index p = 0; p < size; ++p) sums[group[p]] += terms[p];
    std::copy_n(sums.begin(), n_groups, logs.begin());
    log_each(logs.data(), n_groups);
    for (Index y = 0; y < n_groups; ++y) pooled[y] += eps_h * logs[y];
  }

  // out[x] = smax over the other axes of a table.
  LATENTSTRUCT_INLINE void collect(const double *table, const Axis &axis, double temperature) {
    const Index size = axis.outer * axis.card * axis.inner;
    std::fill_n(out.begin(), axis.card, -INFINITE);
    along_axis(axis.outer, axis.card, axis.inner, [&](Index p, Index x) { out[x] = table[p] > out[x] ? table[p] : out[x]; });
    if (temperature == 0.0) return;
    for (Index x = 0; x < axis.card; ++x) sums[x] = finite_or_zero(out[x]);
    along_axis(axis.outer, axis.card, axis.inner, [&](Index p, Index x) { terms[p] = table[p] - sums[x]; });
    exp_each(terms.data(), size, temperature);
    std::fill_n(sums.begin(), axis.card, 0.0);
    along_axis(axis.outer, axis.card, axis.inner, [&](Index p, Index x) { sums[x] += terms[p]; });
    log_each(sums.data(), axis.card);
    for (Index x = 0; x < axis.card; ++x) out[x] += temperature * sums[x];
  }

  // Write the message of factor f to the variable in `slot` to `out`, after `gather` and `group_outputs`.
  //
  // With t = θ + Σ n, v(y) = smax at eps_h over h of t and b(y) = softmax(v/eps_y), uniform on the maxima at eps_y = 0: to
  // an output, smax at eps_y over the other outputs of v without its own n; to a hidden variable, eps_h·log Σ
  // b(y)·exp((t - v(y))/eps_h) over all but its own states, without its own n. Nothing is divided by n, so that impossible
  // states do no harm.
  LATENTSTRUCT_CLONES void send(Index f, Index slot) {
    const Index size = wiring.table_size(f), variable = wiring.scopes[wiring.scope_at[f] + slot];
    std::copy_n(tables + wiring.table_at[f] + shifts.table, size, others.begin());
    Axis axis = add_incoming(f, slot, others.data());
    if (hidden[variable]) {
      std::copy_n(others.begin(), size, whole.begin());
      add_along(slot, axis, whole.data());
      pool_hidden(whole.data(), size);
      const double top = smax(pooled.data(), n_groups, eps_y), tie = tie_below(top);
      for (Index p = 0; p < size; ++p) {
        const double v = pooled[group[p]];
        const bool possible = v > -INFINITE && (eps_y > 0.0 || v >= tie);
        others[p] = possible ? others[p] + (eps_h * (eps_y > 0.0 ? (v - top) / eps_y : 0.0) - v) : -INFINITE;
      }
      collect(others.data(), axis, eps_h);
    } else if (n_groups == size) {
      collect(others.data(), axis, eps_y);
    } else {
      // The groups lie in the table as the outputs do, so the table of v has the same shape without the hidden axes.
      pool_hidden(others.data(), size);
      axis.inner = 1;
      for (Index e = wiring.scope_at[f] + slot + 1; e < wiring.scope_at[f + 1]; ++e)
        if (!hidden[wiring.scopes[e]]) axis.inner *= wiring.cards[wiring.scopes[e]];
      axis.outer = n_groups / (axis.card * axis.inner);
      collect(pooled.data(), axis, eps_y);
    }
  }

  // Write the beliefs b(y)·b(h | y) of a factor of two or more variables; return its pooled value.
  LATENTSTRUCT_CLONES double read_factor(Index f, double *beliefs) {
    const Index size = wiring.table_size(f);
    gather(f);
    for (Index p = 0; p < size; ++p) whole[p] = tables[wiring.table_at[f] + shifts.table + p] / wiring.shares[f];
    add_incoming(f, -1, whole.data());
    group_outputs(f);
    pool_hidden(whole.data(), size);
    const double top = largest(pooled.data(), n_groups);
    if (top == -INFINITE) {
      std::fill_n(beliefs, size, 0.0);
      return top;
    }
    // Shares are divided by their own sums: large pooled values would not be precise enough.
    const bool alone = n_groups == size;
    if (!alone)
      for (Index p = 0; p < size; ++p) beliefs[p] = sums[group[p]] > 0.0 ? terms[p] / sums[group[p]] : 0.0;
    for (Index y = 0; y < n_groups; ++y) pooled[y] -= top;
    exp_each(pooled.data(), n_groups, eps_y);
    const double mass = sum_of(pooled.data(), n_groups);
    if (alone)
      for (Index p = 0; p < size; ++p) beliefs[p] = pooled[p] / mass;
    else
      for (Index p = 0; p < size; ++p) beliefs[p] *= pooled[group[p]] / mass;
    return top + eps_y * log_of(mass);
  }

  // Write softmax(b/ε) of variable v, 0 where blocked; return smax of b, -inf if all is blocked.
  LATENTSTRUCT_INLINE double read_variable(Index v, double *marginals) const {
    const Index at = wiring.state_at[v] + shifts.unary, n = wiring.cards[v];
    const double eps = hidden[v] ? eps_h : eps_y;
    double top = -INFINITE;
    for (Index p = at; p < at + n; ++p) top = blocked[p] == 0 && total[p] > top ? total[p] : top;
    if (top == -INFINITE) {
      std::fill_n(marginals + at, n, 0.0);
      return top;
    }
    for (Index p = at; p < at + n; ++p) marginals[p] = blocked[p] == 0 ? total[p] - top : -INFINITE;
    exp_each(marginals + at, n, eps);
    const double mass = sum_of(marginals + at, n);
    for (Index p = at; p < at + n; ++p) marginals[p] /= mass;
    return top + eps * log_of(mass);
  }
};

// A sweep takes the factors from the last to the first and back; each sends to all its variables.
void run_factors(Wiring wiring, Selection selection, Flags wanted, Vector unary, Vector tables,
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
void decode(Wiring wiring, Selection selection, Flags wanted, Vector unary, Vector tables, Vector messages,
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
void read_out(Wiring wiring, Selection selection, Vector unary, Vector tables, Vector messages, Flags hidden,
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
