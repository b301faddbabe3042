// Messages and beliefs of factors of any number of variables, over one of the selected graphs at a time.
//
// Outputs are pooled at eps_y, hidden variables before them at eps_h. Where both are equal, `hidden` is all false, so that
// all variables are pooled at one temperature. A value of -inf marks an impossible state; no sum or maximum here becomes NaN.
#pragma once
#include "wiring.hpp"

namespace latentstruct {

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
  LATENTSTRUCT_INLINE void gather(Index f) {
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
  LATENTSTRUCT_INLINE void send(Index f, Index slot) {
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
  LATENTSTRUCT_INLINE double read_factor(Index f, double *beliefs) {
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

} // namespace latentstruct
