// Belief propagation where factors join two variables: mixed products in the log domain, sums in the linear domain.
//
// Variables send in turn. A sweep goes once from the last variable to the first, each sending to earlier neighbors, and
// once back, each sending to later ones, so that one sweep is exact on trees at equal temperatures. With weights w_v (ε_h
// or ε_y) of variables and w_e (ρ_e·ε_h if an end is hidden, else ρ_e·ε_y) of edges, b_i = unary_i + Σ m_{k→i} and the
// message is
//
//     m_{i→j} = w_e·log Σ_{x_i} exp(b_i/w_i + (θ_ij - m_{j→i})/w_e).
//
// Where all weights at a variable are equal, exp(b_i/w_i) is a product of messages exp(m/w) and no exponential is needed.
//
// Record a is the connection of a variable to one neighbor: the message that it gets through it and the table through
// which it sends. All records of a variable follow each other, so that its messages are one stretch of memory. States are
// padded to a multiple of four by copies of state 0: these change no maximum, and sums leave them out, so that all loops
// over states have lengths that vectorize.
#pragma once
#include "domains.hpp"
#include "wiring.hpp"

namespace latentstruct {

// Two numbers of at least exp(-300) have a product that is not yet denormal.
constexpr double SAFE_SPREAD = 300.0, TINY = 5.148200222412013e-131;
// A product of messages in the linear domain is at least exp(-600) times the largest.
constexpr double LINEAR_SPREAD = 600.0;

// Blocks of states that are worked on together, a constant, so that loops over them vectorize.
constexpr std::size_t W = 4;

// Of so few messages, products without one of them are faster than divisions.
constexpr std::size_t FEW = 4;

template <typename F> LATENTSTRUCT_INLINE void for_states(std::size_t length, F f) {
  for (std::size_t z = 0; z < length; z += W) {
    LATENTSTRUCT_INDEPENDENT
    for (std::size_t j = 0; j < W; ++j) f(z + j);
  }
}

// The least or largest f(z) over padded states.
template <bool MOST, typename F> LATENTSTRUCT_INLINE double extreme(std::size_t length, F f) {
  double lanes[4];
  for (int j = 0; j < 4; ++j) lanes[j] = f(j);
  for (std::size_t z = 4; z < length; z += 4)
    for (int j = 0; j < 4; ++j) {
      const double value = f(z + j);
      lanes[j] = (MOST ? value > lanes[j] : value < lanes[j]) ? value : lanes[j];
    }
  const auto better = [](double a, double b) { return (MOST ? a > b : a < b) ? a : b; };
  return better(better(lanes[0], lanes[2]), better(lanes[1], lanes[3]));
}

// The sum over the first n of the padded states.
LATENTSTRUCT_INLINE double sum_states(const double *values, std::size_t length, std::size_t n) {
  double lanes[4] = {};
  for (std::size_t z = 0; z < length; z += 4)
    for (std::size_t j = 0; j < 4; ++j) lanes[j] += z + j < n ? values[z + j] : 0.0;
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

struct Spread {
  double high = -INFINITE, spread = 0.0;
  bool blocked = false; // some values are -inf
};
inline Spread finite_spread(const double *values, Index n) {
  Spread found;
  double low = INFINITE;
  for (Index p = 0; p < n; ++p) {
    const bool finite = values[p] > -INFINITE;
    found.high = values[p] > found.high ? values[p] : found.high;
    low = finite && values[p] < low ? values[p] : low;
    found.blocked |= !finite;
  }
  if (found.high > -INFINITE) found.spread = found.high - low;
  return found;
}

class PairwiseMessages {
  struct Variable {
    std::size_t n, padded, at, first, middle, last; // at: states in `unary`; then its range of records
    double weight;
    bool hidden, product; // product: beliefs may be products of linear messages
  };
  struct Record {
    std::size_t at, kernel, back, receiver;
    Index factor;
    double weight;
    bool second; // the owner is the second variable of the factor
    bool soft;   // `kernels` has exp((θ - max θ)/w); else θ itself, where w = 0 or θ ranges too widely
    bool healthy; // all of the message in `linear` is well above 0
    bool stale;   // `logs` does not have the message yet
  };

  const Wiring &wiring;
  const double *all_unary, *all_tables;
  const bool *hidden;
  double eps_y, eps_h;
  Index first_variable = 0, first_record = 0, to_table = 0;
  std::vector<Variable> variables;
  std::vector<Record> records;
  // Messages as logarithms and as exp(m/w), largest 1 (in the linear domain, sum 1); potentials are exp of `unary`.
  std::vector<double> kernels, logs, linear, unary, potentials, table, exponentials;
  std::vector<double> belief, shares, scores, out;

  static std::size_t padded(std::size_t n) { return (n + 3) & ~std::size_t(3); }
  static void pad(double *values, std::size_t n) { std::fill(values + n, values + padded(n), values[0]); }

public:
  PairwiseMessages(const Wiring &wiring, const double *unary, const double *tables, const bool *hidden,
                   const Temperatures &temperatures)
      : wiring(wiring), all_unary(unary), all_tables(tables), hidden(hidden), eps_y(std::get<0>(temperatures)),
        eps_h(std::get<1>(temperatures)) {}

  LATENTSTRUCT_INLINE void prepare(Index g, const Shifts &shifts, const double *messages) {
    first_variable = wiring.variables_at[g];
    first_record = wiring.near_at[first_variable];
    to_table = shifts.table;
    const Index last_variable = wiring.variables_at[g + 1];
    variables.clear();
    records.clear();
    std::size_t n_states = 0, n_messages = 0, n_kernels = 0, most = 4;
    for (Index v = first_variable; v < last_variable; ++v) {
      const std::size_t n = wiring.cards[v], first = wiring.near_at[v] - first_record, last = wiring.near_at[v + 1] - first_record;
      const double weight = hidden[v] ? eps_h : eps_y;
      variables.push_back({n, padded(n), n_states, first, std::size_t(wiring.near_mid[v] - first_record), last, weight,
                           hidden[v], weight > 0.0});
      most = std::max(most, padded(n));
      n_states += padded(n);
      for (Index a = wiring.near_at[v]; a < wiring.near_at[v + 1]; ++a) {
        const Index e = wiring.near[a], f = wiring.factor_of[e];
        const bool second = e != wiring.scope_at[f];
        const Index u = wiring.scopes[second ? e - 1 : e + 1];
        const double w = wiring.shares[f] * (hidden[v] || hidden[u] ? eps_h : eps_y);
        records.push_back({n_messages, n_kernels, std::size_t(wiring.back[a] - first_record), std::size_t(u - first_variable), f, w, second, false, w > 0.0, false});
        variables.back().product &= w == weight;
        n_messages += padded(n);
        n_kernels += n * padded(wiring.cards[u]);
      }
    }
    for (auto *buffer : {&belief, &shares, &scores, &out}) buffer->resize(most);
    unary.resize(n_states);
    potentials.resize(n_states);
    logs.resize(n_messages);
    linear.resize(n_messages);
    kernels.resize(n_kernels);
    for (Index v = first_variable; v < last_variable; ++v) load_variable(variables[v - first_variable], v, shifts.unary);
    for (std::size_t a = 0; a < records.size(); ++a)
      if (!records[a].second) load_table(a);
    for (auto &variable : variables)
      for (std::size_t a = variable.first; a < variable.last; ++a) {
        Record &record = records[a];
        const double *from = messages + wiring.message_at[wiring.near[first_record + a]] + shifts.message;
        std::copy(from, from + variable.n, &logs[record.at]);
        pad(&logs[record.at], variable.n);
        exponentiate(record, variable.padded);
      }
  }

  void store(Index to_message, double *messages) const {
    for (const auto &variable : variables)
      for (std::size_t a = variable.first; a < variable.last; ++a) {
        const double *from = &logs[records[a].at];
        std::copy(from, from + variable.n, messages + wiring.message_at[wiring.near[first_record + a]] + to_message);
      }
  }

  // Whether no product of potentials and messages at a variable can leave the range of numbers. A message varies no more
  // than the table it comes from, and sums to 1. Shares other than 1 would need powers.
  bool is_linear() const {
    if (eps_y != eps_h || eps_y == 0.0) return false;
    for (const auto &variable : variables) {
      const Spread own = finite_spread(&unary[variable.at], variable.n);
      double spread = own.spread;
      bool blocked = own.blocked || !variable.product;
      for (std::size_t a = variable.first; a < variable.last; ++a) {
        const Index f = records[a].factor;
        const Spread wide = finite_spread(all_tables + wiring.table_at[f] + to_table, wiring.table_size(f));
        blocked = blocked || wide.blocked || !records[a].soft || wiring.shares[f] != 1.0;
        spread += wide.spread + eps_y * log_of(double(variable.n));
      }
      if (blocked || !(spread < LINEAR_SPREAD * eps_y)) return false;
    }
    return true;
  }

  // Normalize linear messages to sum 1.
  LATENTSTRUCT_INLINE void to_linear() {
    for (const auto &variable : variables)
      for (std::size_t a = variable.first; a < variable.last; ++a) {
        double *message = &linear[records[a].at];
        // Messages from elsewhere may range more widely than those of these potentials ever do.
        for (std::size_t x = 0; x < variable.padded; ++x) message[x] = message[x] > TINY ? message[x] : TINY;
        const double total = sum_states(message, variable.padded, variable.n);
        for (std::size_t x = 0; x < variable.padded; ++x) message[x] /= total;
      }
  }

  // Write the logarithms of linear messages times the temperature, largest 0.
  LATENTSTRUCT_INLINE void from_linear() {
    for (const auto &variable : variables)
      for (std::size_t a = variable.first; a < variable.last; ++a) {
        const double *message = &linear[records[a].at];
        double *log_message = &logs[records[a].at];
        const double high = extreme<true>(variable.padded, [&](std::size_t x) { return message[x]; });
        for_states(variable.padded, [&](std::size_t x) { log_message[x] = message[x] / high; });
        log_each(log_message, variable.padded);
        for_states(variable.padded, [&](std::size_t x) { log_message[x] *= eps_y; });
      }
  }

  // Send once from the last variable to the first and back; return the largest change of an entry.
  template <bool LINEAR> LATENTSTRUCT_INLINE double sweep(double damping) {
    double residual = 0.0;
    Quad changes = Quad{};
    const std::size_t count = variables.size();
    const Index *order = wiring.order + first_variable;
    for (std::size_t step = 0; step < 2 * count; ++step) {
      const bool backward = step < count;
      const Variable &v = variables[order[backward ? count - 1 - step : step - count] - first_variable];
      const std::size_t lowest = backward ? v.first : v.middle, highest = backward ? v.middle : v.last;
      if (lowest == highest) continue;
      const bool few = LINEAR && v.last - v.first <= FEW;
      bool safe = few || (v.product && multiply_messages<LINEAR>(v));
      double top = 0.0;
      if (!LINEAR && !safe) {
        residual = std::max(residual, add_messages(v));
        safe = weigh(v, top);
      }
      for (std::size_t a = lowest; a < highest; ++a) {
        Record &record = records[a], &target = records[record.back];
        double change;
        if (LINEAR || (safe && record.soft && record.healthy)) {
          const Variable &u = receiver(record);
          if (few) multiply_others(v, a);
          else
            for (std::size_t x = 0; x < v.padded; x += W)
              quad(&scores[x]) = load_quad(&shares[x]) / load_quad(&linear[record.at + x]);
          combine<Linear>(v.n, u.padded, &kernels[record.kernel]);
          if (LINEAR) {
            take_shares(target, u, damping, changes);
            continue;
          }
          change = take_logs(target, u.padded, damping);
        } else {
          if (safe && v.product) { // beliefs were not needed before
            residual = std::max(residual, add_messages(v));
            top = extreme<true>(v.padded, [&](std::size_t x) { return belief[x]; });
          }
          change = send_by_term(v, a, top, damping);
        }
        residual = change > residual ? change : residual;
      }
    }
    if (LINEAR) return std::max(std::max(changes[0], changes[1]), std::max(changes[2], changes[3]));
    for (const auto &variable : variables) residual = std::max(residual, refresh_logs(variable));
    return residual;
  }

private:
  const Variable &receiver(const Record &record) const { return variables[record.receiver]; }

  LATENTSTRUCT_INLINE void load_variable(Variable &variable, Index v, Index to_unary) {
    const double *from = all_unary + wiring.state_at[v] + to_unary;
    double *own = &unary[variable.at], *potential = &potentials[variable.at];
    std::copy(from, from + variable.n, own);
    pad(own, variable.n);
    const Spread found = finite_spread(own, variable.n);
    variable.product &= found.high > -INFINITE && found.spread <= SAFE_SPREAD * variable.weight;
    if (!variable.product) return;
    for_states(variable.padded, [&](std::size_t x) { potential[x] = own[x] - found.high; });
    exp_each(potential, variable.padded, variable.weight);
  }

  // Fill the kernels of both records of a factor from its table.
  LATENTSTRUCT_INLINE void load_table(std::size_t a) {
    Record &record = records[a], &other = records[record.back];
    const std::size_t m = receiver(record).n, n = receiver(other).n, size = n * m;
    const double *values = all_tables + wiring.table_at[record.factor] + to_table;
    const Spread found = finite_spread(values, size);
    record.soft = other.soft = found.high > -INFINITE && found.spread < SAFE_SPREAD * record.weight;
    if (record.soft) {
      if (table.size() < size) table.resize(size);
      for (std::size_t p = 0; p < size; ++p) table[p] = values[p] - found.high;
      exp_each(table.data(), size, record.weight);
      values = table.data();
    }
    copy_oriented(values, n, m, m, 1, &kernels[record.kernel]);
    copy_oriented(values, m, n, 1, m, &kernels[other.kernel]);
  }

  // Rows by state of the sender, padded over states of the receiver.
  static LATENTSTRUCT_INLINE void copy_oriented(const double *values, std::size_t n, std::size_t m, std::size_t across,
                                                std::size_t along, double *to) {
    for (std::size_t x = 0; x < n; ++x, to += padded(m)) {
      for (std::size_t z = 0; z < m; ++z) to[z] = values[across * x + along * z];
      pad(to, m);
    }
  }

  // Write exp(m/w) of a message.
  LATENTSTRUCT_INLINE void exponentiate(Record &record, std::size_t length) {
    record.healthy = record.weight > 0.0;
    if (!record.healthy) return;
    const double *from = &logs[record.at];
    double *to = &linear[record.at];
    std::copy_n(from, length, to);
    exp_each(to, length, record.weight);
    record.healthy = extreme<false>(length, [&](std::size_t x) { return to[x]; }) >= TINY;
  }

  // shares = potentials · Π messages; return whether all of the possible ones are well above 0, as always if LINEAR.
  template <bool LINEAR> LATENTSTRUCT_INLINE bool multiply_messages(const Variable &v) {
    const double *potential = &potentials[v.at], *first = linear.data() + (v.first < v.last ? records[v.first].at : 0);
    double low = INFINITE;
    for (std::size_t z = 0; z < v.padded; z += W) {
      double product[W], lows[W] = {INFINITE, INFINITE, INFINITE, INFINITE};
      for (std::size_t j = 0; j < W; ++j) product[j] = potential[z + j];
      const double *message = first + z;
      for (std::size_t a = v.first; a < v.last; ++a, message += v.padded)
        for (std::size_t j = 0; j < W; ++j) product[j] *= message[j];
      for (std::size_t j = 0; j < W; ++j) shares[z + j] = product[j];
      if (LINEAR) continue;
      for (std::size_t j = 0; j < W; ++j) {
        const double counted = potential[z + j] > 0.0 ? product[j] : INFINITE;
        lows[j] = counted < lows[j] ? counted : lows[j];
      }
      for (double value : lows) low = value < low ? value : low;
    }
    return LINEAR || low >= TINY;
  }

  // scores = potentials · Π messages other than that of record a.
  LATENTSTRUCT_INLINE void multiply_others(const Variable &v, std::size_t a) {
    for (std::size_t z = 0; z < v.padded; z += W) {
      Quad product = load_quad(&potentials[v.at + z]);
      for (std::size_t other = v.first; other < v.last; ++other)
        if (other != a) product *= load_quad(&linear[records[other].at + z]);
      quad(&scores[z]) = product;
    }
  }

  // belief = unary + Σ messages; return the largest change of a logarithm that was not up to date.
  LATENTSTRUCT_INLINE double add_messages(const Variable &v) {
    const double change = refresh_logs(v);
    const double *own = &unary[v.at];
    for_states(v.padded, [&](std::size_t x) { belief[x] = own[x]; });
    for (std::size_t a = v.first; a < v.last; ++a) {
      const double *message = &logs[records[a].at];
      for_states(v.padded, [&](std::size_t x) { belief[x] += message[x]; });
    }
    return change;
  }

  // shares = exp((belief - top)/w), at w = 0 whether it ties with the largest; return whether the shares of all possible
  // states are well above 0.
  LATENTSTRUCT_INLINE bool weigh(const Variable &v, double &top) {
    top = extreme<true>(v.padded, [&](std::size_t x) { return belief[x]; });
    if (top == -INFINITE) return false;
    if (v.weight == 0.0) {
      const double tie = tie_below(top);
      for_states(v.padded, [&](std::size_t x) { shares[x] = belief[x] >= tie ? 1.0 : 0.0; });
      return true;
    }
    const double low = extreme<false>(v.padded, [&](std::size_t x) { return belief[x] > -INFINITE ? belief[x] : INFINITE; });
    if (!(top - low <= SAFE_SPREAD * v.weight)) return false;
    const double highest = top;
    for_states(v.padded, [&](std::size_t x) { shares[x] = belief[x] - highest; });
    exp_each(shares.data(), v.padded, v.weight);
    return true;
  }

  // out[z] = Σ_x scores[x]·terms[x, z], or the maximum over x of scores[x] + terms[x, z].
  template <typename S> LATENTSTRUCT_INLINE void combine(std::size_t n, std::size_t m, const double *terms) {
    std::size_t z = 0;
    for (; z + 8 * W <= m; z += 8 * W) combine_block<S, 8>(n, m, terms + z, &out[z]);
    switch ((m - z) / W) {
    case 7: combine_block<S, 7>(n, m, terms + z, &out[z]); break;
    case 6: combine_block<S, 6>(n, m, terms + z, &out[z]); break;
    case 5: combine_block<S, 5>(n, m, terms + z, &out[z]); break;
    case 4: combine_block<S, 4>(n, m, terms + z, &out[z]); break;
    case 3: combine_block<S, 3>(n, m, terms + z, &out[z]); break;
    case 2: combine_block<S, 2>(n, m, terms + z, &out[z]); break;
    case 1: combine_block<S, 1>(n, m, terms + z, &out[z]); break;
    default: break;
    }
  }
  template <typename S, int C>
  LATENTSTRUCT_INLINE void combine_block(std::size_t n, std::size_t m, const double *row, double *to) const {
    Quad totals[C];
    for (auto &total : totals) total = Quad{} + S::zero;
    for (std::size_t x = 0; x < n; ++x, row += m) {
      const Quad score = Quad{} + scores[x];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) totals[c] = S::sum(totals[c], S::times(score, load_quad(row + c * W)));
    }
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) quad(to + c * W) = totals[c];
  }

  // Store `out` as a distribution, and the largest changes.
  LATENTSTRUCT_INLINE void take_shares(const Record &target, const Variable &u, double damping, Quad &changes) {
    const double scale = (1.0 - damping) / sum_states(out.data(), u.padded, u.n);
    for (std::size_t z = 0; z < u.padded; z += W) {
      Quad &message = quad(&linear[target.at + z]);
      const Quad changed = scale * load_quad(&out[z]) + damping * message, change = changed - message;
      changes = change > changes ? change : -change > changes ? -change : changes;
      message = changed;
    }
  }

  // Store positive numbers `out`, largest 1; return the largest change of a logarithm if it is known already. Without
  // damping nothing needs the logarithms before the sweep ends.
  LATENTSTRUCT_INLINE double take_logs(Record &target, std::size_t m, double damping) {
    const double high = extreme<true>(m, [&](std::size_t z) { return out[z]; });
    const double low = extreme<false>(m, [&](std::size_t z) { return out[z]; });
    const double scale = high > 0.0 ? 1.0 / high : 0.0;
    double *message = &linear[target.at];
    for_states(m, [&](std::size_t z) { message[z] = scale * out[z]; });
    target.healthy = high > 0.0 && TINY * high <= low;
    target.stale = true;
    return damping > 0.0 && low > 0.0 ? damp(target, m, damping) : 0.0;
  }

  // Mix the logarithms of a new message in `linear` with the old ones.
  LATENTSTRUCT_INLINE double damp(Record &target, std::size_t m, double damping) {
    double *message = &linear[target.at], *old = &logs[target.at];
    target.stale = false;
    log_each(message, m);
    for_states(m, [&](std::size_t z) {
      const double renewed = target.weight * message[z];
      message[z] = old[z] > -INFINITE ? (1.0 - damping) * renewed + damping * old[z] : renewed;
    });
    const double change = extreme<true>(m, [&](std::size_t z) { return std::abs(message[z] - old[z]); });
    std::copy_n(message, m, old);
    exp_each(message, m, target.weight);
    return change;
  }

  // Write the logarithms that are not up to date; return their largest change.
  LATENTSTRUCT_INLINE double refresh_logs(const Variable &v) {
    double residual = 0.0;
    for (std::size_t a = v.first; a < v.last; ++a) {
      // Messages of one weight are contiguous.
      std::size_t last = a;
      while (last < v.last && records[last].stale && records[last].weight == records[a].weight) records[last++].stale = false;
      if (last == a) continue;
      const std::size_t at = records[a].at;
      residual = std::max(residual, renew_logs(&linear[at], (last - a) * v.padded, records[a].weight, &logs[at]));
      a = last - 1;
    }
    return residual;
  }

  // Send through record a term by term: for temperature 0, wide ranges and impossible states.
  LATENTSTRUCT_INLINE double send_by_term(const Variable &v, std::size_t a, double top, double damping) {
    Record &record = records[a], &target = records[record.back];
    const Variable &u = receiver(record);
    const double *own = &logs[record.at], share = wiring.shares[record.factor];
    for (std::size_t x = 0; x < v.n; ++x) {
      if (u.hidden && !v.hidden) {
        if (belief[x] == -INFINITE || (eps_y == 0.0 && belief[x] < tie_below(top))) {
          scores[x] = -INFINITE;
        } else {
          scores[x] = (eps_y > 0.0 ? share * eps_h * (belief[x] - top) / eps_y : 0.0) - own[x];
        }
      } else if (own[x] > -INFINITE) {
        scores[x] = share * belief[x] - own[x];
      } else {
        scores[x] = unary[v.at + x];
        for (std::size_t other = v.first; other < v.last; ++other)
          if (other != a) scores[x] += logs[records[other].at + x];
      }
    }
    const double *terms = &kernels[record.kernel];
    if (record.soft) { // kernels has exponentials there
      if (table.size() < v.n * u.padded) table.resize(v.n * u.padded);
      const double *values = all_tables + wiring.table_at[record.factor] + to_table;
      copy_oriented(values, v.n, u.n, record.second ? 1 : u.n, record.second ? v.n : 1, table.data());
      terms = table.data();
    }
    maximize(v.n, u.padded, terms, record.weight);
    const double change = settle(out.data(), u.n, &logs[target.at], damping);
    pad(&logs[target.at], u.n);
    exponentiate(target, u.padded);
    return change;
  }

  // out[z] = smax over x of scores[x] + terms[x, z] at a temperature.
  LATENTSTRUCT_INLINE void maximize(std::size_t n, std::size_t m, const double *terms, double temperature) {
    combine<Hard>(n, m, terms);
    if (temperature == 0.0) return;
    if (exponentials.size() < n * m) exponentials.resize(n * m);
    for_states(m, [&](std::size_t z) { out[z] = out[z] > -INFINITE ? out[z] : 0.0; });
    for (std::size_t x = 0; x < n; ++x) {
      double *row = &exponentials[x * m];
      for_states(m, [&](std::size_t z) { row[z] = scores[x] + terms[x * m + z] - out[z]; });
    }
    exp_each(exponentials.data(), n * m, temperature);
    for (std::size_t x = 1; x < n; ++x)
      for_states(m, [&](std::size_t z) { exponentials[z] += exponentials[x * m + z]; });
    log_each(exponentials.data(), m);
    for_states(m, [&](std::size_t z) { out[z] += temperature * exponentials[z]; });
  }
};

} // namespace latentstruct
