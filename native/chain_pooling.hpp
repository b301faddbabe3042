// Labelings of a chain pooled at two temperatures: hidden tokens at ε_h first, the others, outputs, at ε_y.
//
// A run of hidden tokens between two outputs a and b is pooled into M(a, b), for which one forward message is kept for
// each a; a run before the first output is one message, one after the last is a message backwards. What remains is a
// chain of outputs. On the way back the mass of each label is divided among the labels of its neighbor by
// P(neighbor | label), which needs the messages of the way forward only and is a choice of one where ε = 0.
//
// Messages of outputs are scores. Messages of hidden tokens are scores too, or their exponentials where steps are
// linear (which is faster, and in range if the scores are), minus the accumulated scales. Where all tokens are
// pooled at one temperature and scores are in range, both ways are sums of products.
#pragma once
#include "pooling.hpp"
#include "padded_rows.hpp"

#include <cstdint>

namespace latentstruct {

// Steps from labels z of one token to labels y of its neighbor, pooled at ε.
struct Steps {
  const double *matrix, *turned; // exp((A - top)/ε) if linear, else A; and its transpose
  double top;                    // max A if linear, else 0
  double temperature;
  bool linear;

  // The same steps to the token before.
  Steps back() const { return {turned, matrix, top, temperature, linear}; }
};

// Sums of linear messages outside of these bounds are scaled to 1. Entries of a message differ by a factor of at most
// exp(600), so that none underflows.
constexpr double LEAST = 1e-20, MOST = 1e20;

// Where transitions are forbidden, entries of a message may differ by more: linear steps by factors of at least
// exp(-300) are used as long as all entries but zeros are above this share, so that a zero means "not reachable".
constexpr double FORBIDDING_LIMIT = 300.0, SMALLEST_SHARE = 1e-150;

// Shares below exp(-40) of the largest are lost by rounding.
constexpr double NEGLIGIBLE = 40.0;

// Copy scores (T, S) of tokens to padded rows, and the largest of each to `highs`; return the largest difference of
// allowed scores in a row, of hidden tokens alone where labels are given.
LATENTSTRUCT_CLONES static double take_scores(const double *scores, std::size_t length, std::size_t n, const Index *labels,
                                              double *rows, double *highs) {
  const std::size_t width = padded(n);
  pad_rows(scores, length, n, -INFINITE, rows);
  double widest = 0.0;
  for (std::size_t t = 0; t < length; ++t, rows += width) {
    if (labels && labels[t] >= 0) continue;
    Lanes high = all_lanes(-INFINITE), low = all_lanes(INFINITE);
    for (std::size_t y = 0; y < width; y += WIDTH) {
      const Lanes own = load(rows + y), allowed = own > -INFINITE ? own : all_lanes(INFINITE);
      high = own > high ? own : high;
      low = allowed < low ? allowed : low;
    }
    double most = high[0], least = low[0];
    for (std::size_t j = 1; j < WIDTH; ++j) {
      most = high[j] > most ? high[j] : most;
      least = low[j] < least ? low[j] : least;
    }
    highs[t] = most;
    widest = most - least > widest ? most - least : widest;
  }
  return widest;
}

// Turn rows of scores into exp((u - high)/ε); return the sum of the rows' largest scores.
LATENTSTRUCT_CLONES static double take_exponentials(std::size_t length, std::size_t width, const double *highs,
                                                    double temperature, double *rows) {
  const double inverse = 1.0 / temperature;
  double sum = 0.0;
  for (std::size_t t = 0; t < length; ++t) {
    for (std::size_t y = 0; y < width; ++y) rows[t * width + y] = exp_of((rows[t * width + y] - highs[t]) * inverse);
    sum += highs[t];
  }
  return sum;
}

// Add weight times the masses of pairs, times a matrix if there is one, to (S, S).
LATENTSTRUCT_CLONES static void give_pairs(const double *masses, const double *matrix, std::size_t n, double weight,
                                           double *__restrict out) {
  for (std::size_t z = 0; z < n; ++z, out += n, masses += padded(n)) {
    if (matrix) for (std::size_t y = 0; y < n; ++y) out[y] += weight * (masses[y] * matrix[z * padded(n) + y]);
    else for (std::size_t y = 0; y < n; ++y) out[y] += weight * masses[y];
  }
}

// Pool all labelings by linear steps: log Z of potentials (T, P), which become v, with α in `forward` and the marginals
// α_t β_t in `marginals`. P(z, y at t-1, t) = α_{t-1}(z) matrix(z, y) v_t(y). Where steps are forbidden the result is
// NaN if a message is out of range or nothing is allowed.
LATENTSTRUCT_CLONES static double sum_labelings(const Steps &steps, std::size_t n, std::size_t width, std::size_t length,
                                                bool forbidding, double *potentials, double *forward, double *marginals) {
  double log_scale = 0.0, mass = sum_of(potentials, width);
  for (std::size_t y = 0; y < width; y += WIDTH) lanes(forward + y) = load(potentials + y);
  for (std::size_t t = 1; t < length; ++t) {
    double *own = potentials + t * width, *message = forward + t * width;
    Lanes sums = all_lanes(0.0);
    multiply_rows<Linear, 1>({message - width, 0, 1}, n, steps.matrix, width,
                           [&](int, std::size_t place, const Lanes &arriving) __attribute__((always_inline)) {
                             const Lanes product = arriving * load(own + place);
                             lanes(message + place) = product;
                             sums += product;
                           });
    mass = total(sums);
    if (forbidding) {
      Lanes least = all_lanes(INFINITE);
      for (std::size_t y = 0; y < width; y += WIDTH) {
        const Lanes own_share = lanes(message + y), positive = own_share > 0.0 ? own_share : all_lanes(INFINITE);
        least = positive < least ? positive : least;
      }
      for (std::size_t j = 0; j < WIDTH; ++j)
        if (!(least[j] > SMALLEST_SHARE * mass) || mass == 0.0) return NAN;
    }
    if (mass > LEAST && mass < MOST) continue;
    for (std::size_t y = 0; y < width; ++y) message[y] /= mass, own[y] /= mass;
    log_scale += log_of(mass);
    mass = 1.0;
  }
  const auto divide = [&](std::size_t t, std::size_t place, const Lanes &backward) __attribute__((always_inline)) {
    const Lanes reached = load(forward + t * width + place);
    lanes(marginals + t * width + place) = reached * backward;
    // Labels that are not reachable might overflow, and count for nothing.
    const Lanes product = load(potentials + t * width + place) * backward;
    lanes(potentials + t * width + place) = forbidding ? (reached > 0.0 ? product : all_lanes(0.0)) : product;
  };
  for (std::size_t y = 0; y < width; y += WIDTH) divide(length - 1, y, all_lanes(1.0 / mass));
  for (std::size_t t = length - 1; t > 0; --t)
    multiply_rows<Linear, 1>({potentials + t * width, 0, 1}, n, steps.turned, width,
                           [&](int, std::size_t place, const Lanes &backward)
                               __attribute__((always_inline)) { divide(t - 1, place, backward); });
  return log_scale + log_of(mass);
}

inline std::size_t first_largest(const double *values, std::size_t n) { return std::max_element(values, values + n) - values; }

class ChainPooling {
public:
  // `limit` is the spread of scores, in units of ε, up to which steps are linear.
  ChainPooling(const double *transitions, std::size_t n, double output_temperature, double latent_temperature, double limit)
      : n(n), width(padded(n)), limit(limit), plain(2 * width, width), output_exps(0, width), latent_exps(0, width) {
    pad_rows(transitions, n, n, 0.0, plain[0]);
    top = largest(transitions, n * n);
    double least = top;
    for (std::size_t k = 0; k < n * n; ++k)
      if (transitions[k] > -INFINITE) least = std::min(least, transitions[k]);
      else forbidding = true;
    if (forbidding) this->limit = std::min(limit, FORBIDDING_LIMIT);
    spread = top > -INFINITE ? top - least : INFINITE;
    transpose(plain);
    alike_outputs = make_steps(output_temperature, output_exps);
    hidden_linear = output_temperature == latent_temperature ? alike_outputs : make_steps(latent_temperature, latent_exps);
    hidden_scores = {plain[0], plain[width], 0.0, latent_temperature, false};
    outputs = forbidding ? Steps{plain[0], plain[width], 0.0, output_temperature, false} : alike_outputs;
    for (Table *table : {&tokens, &best, &back, &messages, &shares}) table->width = width;
    for (Table *table : {&joint, &ratios, &products, &pairs, &exps}) *table = Table(width, width);
    work = Table(8, width);
    rows.resize(n);
  }

  // Pool a sequence: its scores (T, S) become weight times the derivatives of the pooled value, and weight times those
  // with respect to transitions are added to `pairs`, (T, S, S) `by_token` for tokens t - 1 and t, else (S, S). Labels
  // are -1 for hidden tokens; without labels all tokens are outputs. If transitions allow no labeling the value is -inf,
  // and the derivatives mean nothing.
  double pool(double *scores, const Index *labels, std::size_t length, double weight, double *sums, bool by_token) {
    if (length == 0) return 0.0;
    target = sums, target_weight = weight, each_token = by_token;
    tokens.reserve(length), best.reserve(length), back.reserve(length);
    highs.resize(std::max(highs.size(), length));
    known = outputs.temperature == hidden_scores.temperature ? nullptr : labels;
    std::size_t n_hidden = 0;
    for (std::size_t t = 0; t < length; ++t) n_hidden += is_hidden(t);
    const bool alike = n_hidden == 0 || n_hidden == length;
    const Steps &steps = n_hidden == 0 ? alike_outputs : hidden_linear;
    const double widest = take_scores(scores, length, n, alike ? nullptr : known, tokens[0], highs.data());
    const bool linear = widest + spread < limit * steps.temperature;
    double value = NAN;
    if (alike && linear) value = pool_alike(steps, length);
    if (std::isnan(value)) {
      if (alike && linear) take_scores(scores, length, n, nullptr, tokens[0], highs.data());
      hidden = linear && !forbidding ? hidden_linear : hidden_scores;
      value = pool_latents_first(length);
      if (!each_token) end_pairs(target);
    }
    trim_rows(back[0], length, n, weight, scores);
    return std::isnan(value) ? -INFINITE : value;
  }

private:
  std::size_t n, width;
  double limit, top, spread;
  bool forbidding = false; // whether some transitions are -inf
  Table plain, output_exps, latent_exps; // matrices and their transposes
  Steps outputs, alike_outputs, hidden, hidden_linear, hidden_scores;
  const Index *known = nullptr;
  double *target = nullptr, target_weight = 1.0;
  bool each_token = false;

  Table tokens;   // (T, P) scores; of hidden tokens exp((u - max u)/ε_h) if their steps are linear
  Table best;     // (T, P) scores of all beginnings that end in an output's label, minus their largest
  Table back;     // (T, P) marginals
  Table messages; // (longest run, P, P): token, row, label
  Table shares;   // (runs, P, P): of labels before a run in each label after it, if ε_y > 0
  Table joint, ratios, products, pairs, exps, work;
  Table gains;                        // (P, P): minus the most that any continuation gives after a more than after b, at (b, a)
  std::vector<std::size_t> rows;      // output labels before a run that count
  std::vector<std::size_t> sources;   // (T, S) the output label before a run that is best for each label after it
  std::vector<double> highs;

  bool is_hidden(std::size_t t) const { return known && known[t] < 0; }
  double *message(std::size_t t) { return messages[t * width]; }

  void transpose(Table &table) const {
    for (std::size_t z = 0; z < n; ++z)
      for (std::size_t y = 0; y < n; ++y) table[width + y][z] = table[z][y];
  }

  Steps make_steps(double temperature, Table &exponentials) {
    if (!(spread < limit * temperature)) return {plain[0], plain[width], 0.0, temperature, false};
    exponentials.reserve(2 * width);
    for (std::size_t z = 0; z < n; ++z)
      for (std::size_t y = 0; y < n; ++y) exponentials[z][y] = plain[z][y] - top;
    for (std::size_t z = 0; z < n; ++z) exp_each(exponentials[z], n, temperature);
    transpose(exponentials);
    return {exponentials[0], exponentials[width], top, temperature, true};
  }

  double pool_alike(const Steps &steps, std::size_t length) {
    double value = steps.top * static_cast<double>(length - 1);
    value += take_exponentials(length, width, highs.data(), steps.temperature, tokens[0]);
    value += steps.temperature * sum_labelings(steps, n, width, length, forbidding, tokens[0], best[0], back[0]);
    if (std::isnan(value)) return value;
    const std::size_t size = each_token ? 1 : length - 1;
    for (std::size_t t = 1; t < length; t += size) {
      sum_products({best[t - 1], 1, width}, n, size, tokens[t], width, products[0]);
      give_pairs(products[0], steps.matrix, n, target_weight, each_token ? target + t * n * n : target);
    }
    return value;
  }

  // Output the masses of pairs, of one token or of all.
  void end_pairs(double *out) {
    give_pairs(pairs[0], nullptr, n, target_weight, out);
    std::fill_n(pairs[0], n * width, 0.0);
  }

  void end_token(std::size_t t) {
    if (each_token) end_pairs(target + t * n * n);
  }

  // Scale a message and return the removed score.
  double normalize(const Steps &steps, double *row) const {
    if (steps.linear) {
      const double mass = sum_of(row, n);
      for (std::size_t y = 0; y < width; ++y) row[y] /= mass;
      return steps.temperature * log_of(mass);
    }
    const double high = largest(row, n);
    if (high > -INFINITE)
      for (std::size_t y = 0; y < width; ++y) row[y] -= high;
    return high;
  }

  // Messages of the next token before its own scores.
  void step(const Steps &steps, const double *rows_in, std::size_t count, double *out) {
    if (steps.linear) return sum_products({rows_in, width, 1}, count, n, steps.matrix, width, out);
    if (steps.temperature == 0.0) return max_sums({rows_in, width, 1}, count, n, steps.matrix, width, out);
    for (std::size_t r = 0; r < count; ++r)
      pool_sums(rows_in + r * width, n, steps.matrix, width, steps.temperature, exps[0], work[0], out + r * width);
  }

  // As `step`, but the results are scores.
  void step_to_scores(const Steps &steps, const double *rows_in, std::size_t count, double *out) {
    step(steps, rows_in, count, out);
    if (!steps.linear) return;
    log_each(out, count * width);
    for (std::size_t k = 0; k < count * width; ++k) out[k] = steps.temperature * out[k] + steps.top;
  }

  void add_token(const Steps &steps, std::size_t t, double *row) const {
    const double *own = tokens[t];
    for (std::size_t y = 0; y < width; ++y) row[y] = steps.linear ? row[y] * own[y] : row[y] + own[y];
  }

  // Advance messages by one hidden token; removed scores are added to `scales`.
  void extend(const Steps &steps, std::size_t t, const double *rows_in, std::size_t count, double *scales, double *out) {
    step(steps, rows_in, count, out);
    for (std::size_t r = 0; r < count; ++r, out += width) {
      add_token(steps, t, out);
      scales[r] += steps.top + normalize(steps, out);
    }
  }

  // Divide masses of labels y, in rows, among labels z of the neighbor: Σ_y masses[y] P(z | y), with P(z | y)
  // proportional to message[z]·matrix[z, y], or its score their sum. The masses of pairs are added to `pairs`, as (z, y)
  // or, if the neighbor comes later, as (y, z).
  void divide(const Steps &steps, double *masses, const double *sent, std::size_t count, bool later) {
    if (steps.linear) return divide_products(steps, masses, sent, count, later);
    for (std::size_t r = 0; r < count; ++r, masses += width, sent += width) {
      double *out = work[1], *part = work[2];
      std::fill_n(out, width, 0.0);
      if (steps.temperature == 0.0) {
        for (std::size_t y = 0; y < n; ++y) {
          if (masses[y] == 0.0) continue;
          for (std::size_t z = 0; z < n; ++z) part[z] = sent[z] + steps.turned[y * width + z];
          const std::size_t z = first_largest(part, n);
          out[z] += masses[y];
          (later ? pairs[y][z] : pairs[z][y]) += masses[y];
        }
      } else {
        pool_sums(sent, n, steps.matrix, width, steps.temperature, exps[0], work[0], part);
        for (std::size_t y = 0; y < n; ++y) part[y] = masses[y] != 0.0 ? masses[y] / work[0][y] : 0.0;
        for (std::size_t z = 0; z < n; ++z) {
          double *own = exps[z];
          for (std::size_t y = 0; y < n; ++y) own[y] *= part[y];
          out[z] = sum_of(own, n);
          if (later) for (std::size_t y = 0; y < n; ++y) pairs[y][z] += own[y];
          else for (std::size_t y = 0; y < n; ++y) pairs[z][y] += own[y];
        }
      }
      std::copy_n(out, width, masses);
    }
  }

  void divide_products(const Steps &steps, double *masses, const double *sent, std::size_t count, bool later) {
    double *ratio = ratios[0];
    sum_products({sent, width, 1}, count, n, steps.matrix, width, ratio);
    for (std::size_t k = 0; k < count * width; ++k) ratio[k] = masses[k] != 0.0 ? masses[k] / ratio[k] : 0.0;
    sum_products({ratio, width, 1}, count, n, steps.turned, width, masses);
    for (std::size_t k = 0; k < count * width; ++k) masses[k] *= sent[k];
    const double *first = later ? ratio : sent, *second = later ? sent : ratio;
    const double *matrix = later ? steps.turned : steps.matrix;
    sum_products({first, 1, width}, n, count, second, width, products[0]);
    for (std::size_t k = 0; k < n * width; ++k) pairs[0][k] += matrix[k] * products[0][k];
  }

  // List the output labels before a run that can matter after it; return their number.
  //
  // A label a gives at most gains[a, b] more than b whatever follows; if it is below b even so, it is never
  // the best, and at ε_y > 0 its share is lost by rounding if it stays that far below.
  std::size_t choose_rows(const double *before) {
    if (forbidding) {
      // Differences of forbidden transitions bound nothing.
      std::size_t count = 0;
      for (std::size_t a = 0; a < n; ++a)
        if (before[a] > -INFINITE) rows[count++] = a;
      return count;
    }
    if (gains.width == 0) {
      // max_z A[a, z] - A[b, z], for all a at a time.
      gains = Table(width, width);
      for (std::size_t k = 0; k < n * width; ++k) exps[0][k] = -plain[0][k];
      max_sums({exps[0], width, 1}, n, n, plain[width], width, gains[0]);
      for (std::size_t k = 0; k < n * width; ++k) gains[0][k] = -gains[0][k];
    }
    double *bound = work[0];
    max_sums({before, 0, 1}, 1, n, gains[0], width, bound);
    const double margin = NEGLIGIBLE * outputs.temperature;
    const std::size_t highest = first_largest(before, n);
    std::size_t count = 0;
    for (std::size_t a = 0; a < n; ++a)
      if (before[a] + margin >= bound[a] || a == highest) rows[count++] = a;
    return count;
  }

  // Messages of the hidden run first … last - 1 from each row's output label before it. A run that begins a sequence has
  // a count of 0 and one row.
  void send_rows(std::size_t first, std::size_t last, std::size_t count, double *scales) {
    messages.reserve((last - first) * width);
    for (std::size_t r = 0; r < std::max<std::size_t>(count, 1); ++r) {
      double *row = message(0) + r * width;
      if (count > 0) std::copy_n(hidden.matrix + rows[r] * width, width, row);
      else std::fill_n(row, width, hidden.linear ? 1.0 : 0.0);
      add_token(hidden, first, row);
      scales[r] = normalize(hidden, row) + (count > 0 ? hidden.top : 0.0);
    }
    for (std::size_t t = first + 1; t < last; ++t)
      extend(hidden, t, message(t - 1 - first), std::max<std::size_t>(count, 1), scales, message(t - first));
  }

  // Scores of the output after the hidden run first … last - 1, before its own, pooled over the output before.
  //
  // At ε_y = 0 `chosen` become the output labels before the run, else share[a, y] the share of each of them.
  void cross_run(std::size_t first, std::size_t last, const double *before, double *share, std::size_t *chosen, double *out) {
    const std::size_t count = before ? choose_rows(before) : 0, n_rows = std::max<std::size_t>(count, 1);
    double *scales = work[3];
    send_rows(first, last, count, scales);
    step_to_scores(hidden, message(last - first - 1), n_rows, joint[0]);
    if (!before) {
      for (std::size_t y = 0; y < width; ++y) out[y] = joint[0][y] + scales[0];
      return;
    }
    for (std::size_t r = 0; r < count; ++r) scales[r] += before[rows[r]];
    if (outputs.temperature > 0.0) {
      pool_sums(scales, count, joint[0], width, outputs.temperature, exps[0], work[0], out);
      std::fill_n(share, n * width, 0.0);
      for (std::size_t r = 0; r < count; ++r)
        for (std::size_t y = 0; y < n; ++y) share[rows[r] * width + y] = work[0][y] > 0.0 ? exps[r][y] / work[0][y] : 0.0;
      return;
    }
    std::fill_n(out, width, -INFINITE);
    for (std::size_t r = 0; r < count; ++r)
      for (std::size_t y = 0; y < n; ++y)
        if (const double value = joint[r][y] + scales[r]; value > out[y]) out[y] = value, chosen[y] = rows[r];
  }

  // exp(scores/ε) of outputs' scores, the largest of which is 0, for linear steps; other steps take scores.
  //
  // What underflows is negligible after any step, because linear steps differ by less than what can be written.
  const double *output_message(const double *scores) {
    if (!outputs.linear) return scores;
    double *found = work[4];
    std::copy_n(scores, width, found);
    exp_each(found, width, outputs.temperature);
    return found;
  }

  // Go forward to the last output; return its place (-1 if there is none), and what was taken out of the scores.
  //
  // `best` holds the outputs' scores, pooled over all before them; n_runs counts hidden runs between outputs.
  std::ptrdiff_t send_outputs(std::size_t length, std::size_t &n_runs, double &taken) {
    std::ptrdiff_t before = -1;
    for (std::size_t t = 0; t < length; ++t) {
      if (is_hidden(t)) continue;
      double *own = best[t];
      const std::size_t next = before + 1;
      const double *from = before >= 0 ? best[before] : nullptr;
      if (next < t) {
        if (from && outputs.temperature > 0.0) shares.reserve((n_runs + 1) * width);
        cross_run(next, t, from, shares[n_runs * width], sources.data() + t * n, own);
        n_runs += from != nullptr && outputs.temperature > 0.0;
      } else if (t == 0) {
        std::fill_n(own, width, 0.0);
      } else {
        step_to_scores(outputs, output_message(from), 1, own);
      }
      for (std::size_t y = 0; y < width; ++y) own[y] += tokens[t][y];
      const double high = largest(own, n);
      for (std::size_t y = 0; y < width; ++y) own[y] -= high;
      taken += high;
      before = static_cast<std::ptrdiff_t>(t);
    }
    return before;
  }

  // Messages backwards through the last hidden run, from token `first` on; return the removed score. rest[a] is
  // the rest of the score of the run after the output label a.
  double send_back(std::size_t first, std::size_t length, double *rest) {
    const Steps tail = hidden.back();
    messages.reserve((length - first) * width);
    double *row = message(length - 1 - first), taken;
    std::copy_n(tokens[length - 1], width, row);
    taken = normalize(tail, row);
    for (std::size_t t = length - 1; t-- > first; row = message(t - first))
      extend(tail, t, row, 1, &taken, message(t - first));
    step_to_scores(tail, row, 1, rest);
    return taken;
  }

  // Divide a mass of the token before `first`, which is overwritten, among the hidden tokens from there to the end.
  // Their messages are those of `send_back` from token `origin`.
  void divide_tail(std::size_t origin, std::size_t first, std::size_t length, double *mass) {
    for (std::size_t t = first; t < length; ++t) {
      divide(hidden.back(), mass, message(t - origin), 1, true);
      std::copy_n(mass, width, back[t]);
      end_token(t);
    }
  }

  // Divide the mass of an output after a run into rows of `joint` for the output labels before; return their number.
  //
  // Labels whose part is lost in rounding have no row. On return `mass` is that of the output before.
  std::size_t spread_over_rows(const double *share, const std::size_t *chosen, double *mass) {
    if (outputs.temperature == 0.0) {
      const std::size_t y = first_largest(mass, n);
      std::copy_n(mass, width, joint[0]);
      rows[0] = chosen[y];
      std::swap(mass[y], mass[chosen[y]]);
      return 1;
    }
    const double least = exp_of(-NEGLIGIBLE) * sum_of(mass, n);
    double *before = work[0];
    std::size_t count = 0;
    for (std::size_t a = 0; a < n; ++a) {
      double *part = joint[count];
      for (std::size_t y = 0; y < width; ++y) part[y] = share[a * width + y] * mass[y];
      before[a] = sum_of(part, n);
      if (before[a] > least) rows[count++] = a;
    }
    std::copy_n(before, n, mass);
    return count;
  }

  // Divide the masses of the output at `last`, `joint` by rows, among the hidden run first … last - 1 before it.
  void divide_run(std::size_t first, std::size_t last, std::size_t count) {
    const std::size_t n_rows = std::max<std::size_t>(count, 1);
    send_rows(first, last, count, work[3]);
    for (std::size_t t = last; t-- > first;) {
      divide(hidden, joint[0], message(t - first), n_rows, false);
      end_token(t + 1);
      std::fill_n(back[t], width, 0.0);
      for (std::size_t r = 0; r < n_rows; ++r)
        for (std::size_t y = 0; y < width; ++y) back[t][y] += joint[r][y];
    }
    for (std::size_t r = 0; r < count; ++r)
      for (std::size_t y = 0; y < n; ++y) pairs[rows[r]][y] += joint[r][y];
    if (count > 0) end_token(first);
  }

  // Divide the mass of the last output, at `end`, among all tokens before it.
  void divide_outputs(std::ptrdiff_t end, std::size_t n_runs, double *mass) {
    for (std::ptrdiff_t t = end, before; t >= 0; t = before) {
      std::copy_n(mass, width, back[t]);
      for (before = t - 1; before >= 0 && is_hidden(before); --before) {}
      if (before < t - 1) {
        std::size_t count = 0;
        std::copy_n(mass, width, joint[0]);
        if (before >= 0) {
          n_runs -= outputs.temperature > 0.0;
          count = spread_over_rows(shares[n_runs * width], sources.data() + t * n, mass);
        }
        divide_run(before + 1, t, count);
      } else if (before >= 0) {
        divide(outputs, mass, output_message(best[before]), 1, false);
        end_token(t);
      }
    }
  }

  double pool_latents_first(std::size_t length) {
    double value = 0.0, *mass = work[5], *rest = work[6];
    if (hidden.linear)
      for (std::size_t t = 0; t < length; ++t)
        if (is_hidden(t)) value += take_exponentials(1, width, highs.data() + t, hidden.temperature, tokens[t]);
    sources.resize(std::max(sources.size(), length * n));
    std::size_t n_runs = 0;
    const std::ptrdiff_t end = send_outputs(length, n_runs, value);
    const std::size_t next = end + 1;
    std::fill_n(rest, width, 0.0);
    if (next < length) value += send_back(next, length, rest);
    std::fill_n(mass, width, 0.0);
    if (end >= 0) {
      for (std::size_t y = 0; y < n; ++y) rest[y] += best[end][y];
      value += latentstruct::pool(rest, n, outputs.temperature, mass);
      std::copy_n(mass, width, rest);
      divide_tail(next, next, length, rest);
      divide_outputs(end, n_runs, mass);
      return value;
    }
    // A linear message that was sent is normalized already.
    if (hidden.linear) std::copy_n(message(0), width, mass);
    else value += latentstruct::pool(message(0), n, hidden.temperature, mass);
    std::copy_n(mass, width, back[0]);
    divide_tail(0, 1, length, mass);
    return value;
  }
};

} // namespace latentstruct
