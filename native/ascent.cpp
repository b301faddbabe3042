// Upper bounds of the maxima of factor graphs by sequential reweighted message passing (Kolmogorov 2006, 2015).
//
// Messages m_{f→v} divide a score into parts, θ_v + Σ_f m_{f→v} of each variable and θ_f − Σ_v m_{f→v} of each factor. The sum
// of the maxima of all parts is an upper bound for any messages, and no step increases it.
#include "wiring.hpp"

using namespace latentstruct;

namespace {

struct Ascent {
  const Wiring &wiring;
  const double *unary, *tables;
  double *messages;
  Index graph;
  Shifts shifts;
  // The place of each variable in the order of a pass, and its part; a copy of a table.
  std::vector<Index> &rank;
  std::vector<double> &part, &scratch;

  double *message(Index e) const { return messages + wiring.message_at[e] + shifts.message; }

  // Move all that factor f has of the variable of entry e to this variable: m = max over the others of θ_f − Σ m of these.
  LATENTSTRUCT_INLINE void collect(Index f, Index e) const {
    const Index size = wiring.table_size(f);
    double *table = scratch.data(), *out = message(e);
    std::copy_n(tables + wiring.table_at[f] + shifts.table, size, table);
    Index outer = 1, own_outer = 1, own_inner = 1;
    for (Index s = wiring.scope_at[f]; s < wiring.scope_at[f + 1]; ++s) {
      const Index card = wiring.cards[wiring.scopes[s]], inner = size / (outer * card);
      const double *values = message(s);
      if (s == e) own_outer = outer, own_inner = inner;
      else along_axis(outer, card, inner, [&](Index p, Index x) { table[p] -= values[x]; });
      outer *= card;
    }
    const Index card = wiring.cards[wiring.scopes[e]];
    std::fill_n(out, card, -INFINITE);
    along_axis(own_outer, card, own_inner, [&](Index p, Index x) { out[x] = table[p] > out[x] ? table[p] : out[x]; });
  }

  // Visit all variables in an order or its reverse; return the bound. If `reach` is given, it gets upper bounds of the
  // scores of all assignments with each state, where `upper` is the bound before the pass.
  LATENTSTRUCT_CLONES double pass(bool forward, double upper, double *reach) const {
    const Index first = wiring.variables_at[graph], last = wiring.variables_at[graph + 1];
    double bound = 0.0;
    for (Index place = first; place < last; ++place) {
      const Index v = wiring.order[forward ? place : first + last - 1 - place], card = wiring.cards[v];
      Index n_in = 0, n_out = 0;
      const auto has = [&](Index a, bool before) {
        const Index f = wiring.factor_of[wiring.near[a]];
        for (Index s = wiring.scope_at[f]; s < wiring.scope_at[f + 1]; ++s) {
          const Index u = wiring.scopes[s];
          if (u != v && ((rank[u - first] < rank[v - first]) == forward) == before) return true;
        }
        return false;
      };
      const double *own = unary + wiring.state_at[v] + shifts.unary;
      std::copy_n(own, card, part.data());
      for (Index a = wiring.near_at[v]; a < wiring.near_at[v + 1]; ++a) {
        const Index e = wiring.near[a];
        if (has(a, true)) ++n_in, collect(wiring.factor_of[e], e);
        n_out += has(a, false);
        const double *m = message(e);
        for (Index x = 0; x < card; ++x) part[x] += m[x];
      }
      const double top = largest(part.data(), card);
      if (reach)
        for (Index x = 0; x < card; ++x) reach[wiring.state_at[v] + shifts.unary + x] = upper - (top - part[x]);
      if (n_out == 0) {
        bound += top;
        continue;
      }
      const double share = 1.0 / double(std::max(n_in, n_out));
      for (Index a = wiring.near_at[v]; a < wiring.near_at[v + 1]; ++a) {
        if (!has(a, false)) continue;
        double *m = message(wiring.near[a]);
        for (Index x = 0; x < card; ++x) m[x] -= share * part[x];
      }
      bound += (1.0 - share * double(n_out)) * top;
    }
    return bound;
  }
};

// Make passes forth and back over each of the graphs `wanted`, at least one of each.
void ascend(Wiring wiring, Selection selection, Flags wanted, Vector unary, Vector tables, Values messages, Index rounds,
            Values uppers, Values reach) {
  selection.check(unary, tables, messages);
  require_length(selection.n, wanted, uppers);
  require_length(unary.shape(0), reach);
  const Sizes sizes(wiring, selection);
  std::vector<Index> rank;
  std::vector<double> part(sizes.states), scratch(sizes.table);
  for (std::size_t k = 0; k < selection.n; ++k) {
    if (!wanted(k)) continue;
    const Index g = selection.graphs[k], first = wiring.variables_at[g];
    rank.resize(wiring.variables_at[g + 1] - first);
    for (Index place = 0; place < static_cast<Index>(rank.size()); ++place) rank[wiring.order[first + place] - first] = place;
    const Ascent ascent{wiring, unary.data(), tables.data(), messages.data(), g, selection.shifts(wiring, k), rank, part, scratch};
    for (Index round = 1; round <= std::max<Index>(rounds, 1); ++round) {
      const double upper = ascent.pass(true, 0.0, nullptr);
      uppers(k) = ascent.pass(false, upper, round >= rounds ? reach.data() : nullptr);
    }
  }
}

} // namespace

LATENTSTRUCT_MODULE(ascent, ascend)
