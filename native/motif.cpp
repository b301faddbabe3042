// Windows of sequences: scores of all of them in one pass, the best one, expected counts, random ones, enriched words;
// shuffled sequences; hits of a matrix in long sequences.
//
// Letters are numbers below the size a of the alphabet, 4 or 20, and a is an unknown letter. If there are two strands, as
// of DNA, a - 1 - b is the complement of b. The score of the window at h is
//
//     Σ_j PSM_j(x_{h+j}) - Σ_{h <= i < h+l} BG(x_{i-o} … x_i)
//
// with l the width and o the order of the background. f letters are looked up at once, as many as have up to 256
// combinations, 4 of DNA: table c holds the summed position-specific scores of the letters at h + fc … h + fc + f - 1. The
// other strand has its own tables, made from the reversed and complemented matrix; all else is the same.
#include "arrays.hpp"
#include "pooling.hpp"

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

using namespace latentstruct;

namespace {

using Letters = In<std::uint8_t, 1>;
using Scores = std::vector<double>;

// Letters of an alphabet: their number, how many of them are looked up at once, and the combinations of these.
struct Alphabet {
  Index size, fold = 0, entries = 1;

  constexpr explicit Alphabet(Index size) : size(size) {
    while (entries * size <= 256) entries *= size, ++fold;
  }
  constexpr Index folds(Index width) const { return (width + fold - 1) / fold; }
};

// Call a function with the size of an alphabet as a constant.
template <typename F> LATENTSTRUCT_INLINE auto with_size(Index size, F call) {
  require(size == 4 || size == 20, "an alphabet must have 4 or 20 letters");
  return size == 4 ? call(std::integral_constant<Index, 4>()) : call(std::integral_constant<Index, 20>());
}

Alphabet read_alphabet(Index size) {
  return with_size(size, [](auto known) { return Alphabet(known); });
}

// Sequences laid end to end, see the Python class of this name.
struct Layout {
  const std::uint8_t *bases, *codes;
  const std::uint16_t *contexts;
  const Index *offsets, *runs, *first, *stop, *windows;
  Index longest_run, longest_sequence;
  Alphabet alphabet{4};

  static Layout read(const Fields &fields) {
    Index n = -1, size = -1, n_runs = -1;
    const auto *bases = fields.get<const std::uint8_t>("bases", &size), *codes = fields.get<const std::uint8_t>("codes", &size);
    const auto *contexts = fields.get<const std::uint16_t>("contexts", &size);
    const auto *sizes = fields.indices("sizes", 3);
    return {bases, codes, contexts, fields.indices("offsets", &n), fields.indices("runs", &n), fields.indices("first", &n_runs),
            fields.indices("stop", &n_runs), fields.indices("windows", &n), sizes[0], sizes[1], read_alphabet(sizes[2])};
  }

  LATENTSTRUCT_INLINE Index count(Index example) const { return windows[example + 1] - windows[example]; }

  // The flat position of an example's window by its number on the strand.
  LATENTSTRUCT_INLINE Index start(Index example, Index number) const {
    Index run = runs[example];
    for (; number >= stop[run] - first[run]; ++run) number -= stop[run] - first[run];
    return first[run] + number;
  }

  // The letter at a place of the window at `begin`, read on its strand.
  LATENTSTRUCT_INLINE int letter(Index begin, Index width, Index strand, Index j) const {
    return strand > 0 ? bases[begin + j] : static_cast<int>(alphabet.size) - 1 - bases[begin + width - 1 - j];
  }
};

// Scores looked up while scanning, see the Python class of this name.
struct Tables {
  const double *forward, *reverse, *background;
  Index folds, entries, states;
  bool both;

  static Tables read(const Fields &fields) {
    Index folds = -1, reverse_folds = -1, entries = -1, states = -1;
    const auto *forward = fields.get<const double>("forward", &folds, &entries);
    const auto *reverse = fields.get<const double>("reverse", &reverse_folds, &entries);
    const auto *background = fields.get<const double>("background", Length(&states, 1));
    require(reverse_folds == 0 || reverse_folds == folds, "both strands must have as many tables");
    return {forward, reverse, background, folds, entries, states, reverse_folds > 0};
  }
};

// The windows of one example at a time, with memory for those of any.
struct Scanner {
  const Layout &layout;
  const Tables &tables;
  const Index width;
  Scores sums, scores, sharp, shares;
  Index count = 0, size = 0; // Windows of one strand, and of all that are read.

  Scanner(const Layout &layout, const Tables &tables, Index width, bool by_entropy = false)
      : layout(layout), tables(tables), width(width), sums(layout.longest_run + width + 1),
        scores(2 * layout.longest_sequence), sharp(by_entropy ? scores.size() : 0), shares(scores.size()) {
    require(tables.entries == layout.alphabet.entries && tables.folds == layout.alphabet.folds(width),
            "tables must have the width of the motif and the letters of the sequences");
  }

  // Write the scores of an example's windows, the forward strand's first.
  LATENTSTRUCT_CLONES void scan(Index example) {
    count = layout.count(example);
    size = tables.both ? 2 * count : count;
    double *done = scores.data();
    for (Index run = layout.runs[example]; run < layout.runs[example + 1]; ++run) {
      const Index first = layout.first[run], n = layout.stop[run] - first;
      const std::uint16_t *contexts = layout.contexts + first;
      sums[0] = 0.0;
      for (Index t = 0; t < n + width - 1; ++t) sums[t + 1] = sums[t] + tables.background[contexts[t]];
      for (Index t = 0; t < n; ++t) done[t] = sums[t] - sums[t + width];
      if (tables.both) {
        std::copy_n(done, n, done + count);
        add_tables(tables.reverse, first, n, done + count);
      }
      add_tables(tables.forward, first, n, done);
      done += n;
    }
  }

  LATENTSTRUCT_INLINE void add_tables(const double *side, Index first, Index n, double *out) const {
    for (Index c = 0; c < tables.folds; ++c) {
      const double *table = side + tables.entries * c;
      const std::uint8_t *codes = layout.codes + first + layout.alphabet.fold * c;
      for (Index t = 0; t < n; ++t) out[t] += table[codes[t]];
    }
  }

  LATENTSTRUCT_INLINE Index strand(Index number) const { return number < count ? 1 : -1; }
  LATENTSTRUCT_INLINE Index start(Index example, Index number) const { return layout.start(example, number < count ? number : number - count); }

  LATENTSTRUCT_CLONES Index highest() const {
    const double high = largest(scores.data(), size);
    Index number = 0;
    while (number + 1 < size && scores[number] != high) ++number;
    return number;
  }

  // Start, strand and score, without the rounding of running sums, of an example's highest window; of equal ones the
  // first, forward first.
  double best(Index example, Index &begin, Index &direction) {
    scan(example);
    const Index number = highest();
    begin = start(example, number);
    direction = strand(number);
    const double *side = direction > 0 ? tables.forward : tables.reverse;
    double score = 0.0;
    for (Index c = 0; c < tables.folds; ++c)
      score += side[tables.entries * c + layout.codes[begin + layout.alphabet.fold * c]];
    for (Index i = begin; i < begin + width; ++i) score -= tables.background[layout.contexts[i]];
    return score;
  }

  // Pool an example's windows at a temperature, or by Rényi entropy if an order above 0 is given.
  LATENTSTRUCT_CLONES double pool_windows(Index example, double temperature, double order) {
    scan(example);
    if (order > 0.0) return pool_entropy(scores.data(), size, order, sharp.data(), shares.data());
    return pool(scores.data(), size, temperature, shares.data());
  }

  // Add factor times the expected features of an example's windows.
  LATENTSTRUCT_CLONES void add_expected(Index example, double factor, double *expected) const {
    const double *forward = shares.data(), *reverse = shares.data() + count;
    const Index letters = layout.alphabet.size;
    for (Index run = layout.runs[example]; run < layout.runs[example + 1]; ++run) {
      const Index first = layout.first[run], n = layout.stop[run] - first;
      for (Index t = 0; t < n; ++t) {
        const std::uint8_t *bases = layout.bases + first + t;
        if (forward[t] != 0.0) {
          const double share = factor * forward[t];
          for (Index j = 0; j < width; ++j) expected[letters * j + bases[j]] += share;
        }
        if (tables.both && reverse[t] != 0.0) {
          const double share = factor * reverse[t];
          for (Index j = 0; j < width; ++j) expected[letters * (j + 1) - 1 - bases[width - 1 - j]] += share;
        }
      }
      const auto share = [&](Index t) __attribute__((always_inline)) { return tables.both ? forward[t] + reverse[t] : forward[t]; };
      double covering = 0.0;
      for (Index t = 0; t < n + width - 1; ++t) {
        if (t < n) covering += share(t);
        if (t >= width) covering -= share(t - width);
        expected[letters * width + layout.contexts[first + t]] -= factor * covering;
      }
      forward += n;
      reverse += n;
    }
  }
};

// smax_ε of the two labels' scores and the positive label's share; the negative one wins a tie.
LATENTSTRUCT_INLINE double pool_classes(double negative, double positive, double temperature, double &share) {
  const double high = positive > negative ? positive : negative;
  if (temperature == 0.0) {
    share = positive > negative ? 1.0 : 0.0;
    return high;
  }
  const double low = exp_of((negative - high) / temperature), up = exp_of((positive - high) / temperature);
  share = up / (low + up);
  return high + temperature * log_of(low + up);
}

// Fill in the numbers of the letters looked up at once that begin, and of the order + 1 letters that end, at each position.
void number_letters(Letters bases, Indices offsets, Index size, Index order, Out<std::uint8_t, 1> codes,
                    Out<std::uint16_t, 1> contexts) {
  require_length(bases.shape(0), codes, contexts);
  const std::uint8_t *letters = bases.data();
  Index states = 1;
  for (Index k = 0; k <= order; ++k) states *= size;
  require(order >= 0 && states <= 0xffff, "the order is too large for the alphabet");
  with_size(size, [&](auto known_size) {
    constexpr Index SIZE = known_size, TOP = Alphabet(SIZE).entries / SIZE;
    Index code = 0;
    for (std::size_t i = bases.shape(0); i-- > 0;) {
      code = code / SIZE + (letters[i] < SIZE ? letters[i] : 0) * TOP;
      codes.data()[i] = static_cast<std::uint8_t>(code);
    }
    for (std::size_t k = 0; k + 1 < offsets.shape(0); ++k) {
      Index number = 0, known = 0;
      const Index end = offsets(k + 1);
      for (Index i = offsets(k); i < end; ++i) {
        const bool unknown = letters[i] >= SIZE;
        known = unknown ? 0 : known + 1;
        number = (number * SIZE + (unknown ? 0 : letters[i])) % states;
        contexts.data()[i] = static_cast<std::uint16_t>(known > order ? number : states);
      }
    }
  });
}

// Add a matrix (l, a) to tables (⌈l/f⌉, a^f) of the letters looked up at once.
LATENTSTRUCT_INLINE void fold(const double *matrix, Index width, Alphabet alphabet, double *tables) {
  for (Index j = 0; j < width; ++j) {
    Index place = alphabet.entries / alphabet.size;
    for (Index k = 0; k < j % alphabet.fold; ++k) place /= alphabet.size;
    double *table = tables + alphabet.entries * (j / alphabet.fold);
    for (Index code = 0; code < alphabet.entries; ++code) table[code] += matrix[alphabet.size * j + code / place % alphabet.size];
  }
}

// Tables (⌈l/f⌉, a^f) of the summed scores of the letters looked up at once of a matrix (l, a).
New<double> fold_matrix(In<double, 2> matrix) {
  const Alphabet alphabet = read_alphabet(static_cast<Index>(matrix.shape(1)));
  const Index width = static_cast<Index>(matrix.shape(0));
  const auto folds = static_cast<std::size_t>(alphabet.folds(width)), entries = static_cast<std::size_t>(alphabet.entries);
  New<double> made{std::make_unique<double[]>(entries * folds), {folds, entries}};
  fold(matrix.data(), width, alphabet, made.data.get());
  return made;
}

// Find the highest window of each row.
void best_windows(Layout layout, Tables tables, Index width, Indices rows, Values values, Numbers starts, Numbers strands) {
  require_length(rows.shape(0), values, starts, strands);
  Scanner scanner(layout, tables, width);
  for (std::size_t k = 0; k < rows.shape(0); ++k) values(k) = scanner.best(rows(k), starts(k), strands(k));
}

// Pool the windows of each row.
void pooled_windows(Layout layout, Tables tables, Index width, Indices rows, double temperature, double order, Values values) {
  require_length(rows.shape(0), values);
  Scanner scanner(layout, tables, width, true);
  for (std::size_t k = 0; k < rows.shape(0); ++k) values(k) = scanner.pool_windows(rows(k), temperature, order);
}

// The scores (strands, windows) of one example; the windows' flat starts are left in `starts`.
New<double> all_scores(Layout layout, Tables tables, Index width, Index example, Numbers starts) {
  require_length(layout.count(example), starts);
  Scanner scanner(layout, tables, width);
  scanner.scan(example);
  for (Index t = 0; t < scanner.count; ++t) starts(t) = layout.start(example, t);
  New<double> found{std::make_unique<double[]>(scanner.size), {tables.both ? 2U : 1U, static_cast<std::size_t>(scanner.count)}};
  std::copy_n(scanner.scores.data(), scanner.size, found.data.get());
  return found;
}

// Write the features of one window a plane times a factor, equal columns merged; a factor of 0 gives no atoms.
//
// Weight aj + b belongs to letter b at position j, weight al + m to background (o+1)-mer m; there are `states` of these.
Index window_atoms(Layout layout, Index width, Index states, Indices starts, Indices strands, Vector factors,
                   Numbers pointers, Out<std::int32_t, 1> column, Values value) {
  require_length(starts.shape(0), strands, factors);
  require_length(starts.shape(0) + 1, pointers);
  const Index letters = layout.alphabet.size;
  Index needed = 0, end = 0;
  for (std::size_t k = 0; k < starts.shape(0); ++k) needed += factors(k) != 0.0 ? 2 * width : 0;
  require(static_cast<Index>(std::min(column.shape(0), value.shape(0))) >= needed, "column and value are too short");
  for (std::size_t k = 0; k < starts.shape(0); ++k) {
    pointers(k) = end;
    if (factors(k) == 0.0) continue;
    for (Index j = 0; j < width; ++j, ++end) {
      column(end) = static_cast<std::int32_t>(letters * j + layout.letter(starts(k), width, strands(k), j));
      value(end) = factors(k);
    }
    const Index background = end;
    for (Index i = starts(k); i < starts(k) + width; ++i) {
      if (layout.contexts[i] == states) continue;
      const auto wanted = static_cast<std::int32_t>(letters * width + layout.contexts[i]);
      Index at = background;
      while (at < end && column(at) != wanted) ++at;
      if (at == end) {
        column(at) = wanted;
        value(at) = 0.0;
        ++end;
      }
      value(at) -= factors(k);
    }
  }
  pointers(starts.shape(0)) = end;
  return end;
}

// Find the highest window of each row and pool its label with the negative one; arguments as in `soft_total`.
void pool_best_windows(Layout layout, Tables tables, Index width, Indices rows, In<double, 2> bonus, double temperature,
                       Values values, Values positive, Numbers starts, Numbers strands) {
  require_length(rows.shape(0), bonus, values, positive, starts, strands);
  require(bonus.shape(1) == 2, "bonus must have 2 columns");
  Scanner scanner(layout, tables, width);
  for (std::size_t k = 0; k < rows.shape(0); ++k) {
    double score = -INFINITE;
    starts(k) = 0, strands(k) = 1;
    if (bonus(k, 1) > -INFINITE) score = scanner.best(rows(k), starts(k), strands(k));
    values(k) = pool_classes(bonus(k, 0), bonus(k, 1) + score, temperature, positive(k));
  }
}

// Pool windows and labels of each row; visit(k) is called after each.
template <typename Visit>
LATENTSTRUCT_INLINE void pool_rows(Scanner &scanner, const Indices &rows, const In<double, 2> &bonus,
                                   std::pair<double, double> temperatures, double order, const Values &values,
                                   const Values &positive, Visit visit) {
  require_length(rows.shape(0), bonus, values, positive);
  require(bonus.shape(1) == 2, "bonus must have 2 columns");
  for (std::size_t k = 0; k < rows.shape(0); ++k) {
    values(k) = bonus(k, 0);
    positive(k) = 0.0;
    if (bonus(k, 1) != -INFINITE) {
      const double pooled = scanner.pool_windows(rows(k), temperatures.second, order);
      values(k) = pool_classes(bonus(k, 0), bonus(k, 1) + pooled, temperatures.first, positive(k));
    }
    visit(k);
  }
}

// Pool windows and labels of each row and add factors[k] times its expected features to `expected`.
//
// `bonus` (k, 2) is added to the scores of the negative and of the positive label, `temperatures` are (ε_y, ε_h);
// `positive` becomes the positive label's share. The last entry of `expected` (d + 1,) collects all that is not a feature.
void soft_total(Layout layout, Tables tables, Index width, Indices rows, In<double, 2> bonus,
                std::pair<double, double> temperatures, Vector factors, Values values, Values positive, Values expected) {
  require_length(rows.shape(0), factors);
  require_length(layout.alphabet.size * width + tables.states + 1, expected);
  Scanner scanner(layout, tables, width);
  pool_rows(scanner, rows, bonus, temperatures, 0.0, values, positive, [&](std::size_t k) __attribute__((always_inline)) {
    const double factor = factors(k) * positive(k);
    if (factor != 0.0) scanner.add_expected(rows(k), factor, expected.data());
  });
}

// Pool windows and labels of each row and write its expected features as atoms; the result is how many there are.
//
// Windows are pooled by Rényi entropy if `order` is above 0, at ε_h otherwise.
Index soft_atoms(Layout layout, Tables tables, Index width, Indices rows, In<double, 2> bonus,
                 std::pair<double, double> temperatures, double order, Values values, Values positive, Numbers pointers,
                 Out<std::int32_t, 1> column, Values value) {
  require_length(rows.shape(0) + 1, pointers);
  require_length(column.shape(0), value);
  const auto features = static_cast<std::size_t>(layout.alphabet.size * width + tables.states);
  Scores expected(features + 1);
  Scanner scanner(layout, tables, width, order > 0.0);
  std::size_t end = 0;
  pool_rows(scanner, rows, bonus, temperatures, order, values, positive, [&](std::size_t k) __attribute__((always_inline)) {
    pointers(k) = static_cast<Index>(end);
    if (positive(k) == 0.0) return;
    scanner.add_expected(rows(k), positive(k), expected.data());
    for (std::size_t f = 0; f < features; ++f) {
      if (expected[f] == 0.0) continue;
      require(end < column.shape(0), "column and value are too short");
      column(end) = static_cast<std::int32_t>(f);
      value(end++) = expected[f];
    }
    std::fill(expected.begin(), expected.end(), 0.0);
  });
  pointers(rows.shape(0)) = static_cast<Index>(end);
  return static_cast<Index>(end);
}

// Add the expected letters around each row's window, if it has a site, to `counts` (l + 2·margin, a).
//
// Line margin + j belongs to position j of the window, read on the window's strand. `carriers` become the probabilities
// of a site, given the logarithm of its prior odds. The result is Σ_k ln(1 + odds · mean_h exp(score)).
double flank_counts(Layout layout, Tables tables, Index width, Indices rows, double log_odds, Index margin,
                    Out<double, 2> counts, Values carriers) {
  require_length(width + 2 * margin, counts);
  require_length(rows.shape(0), carriers);
  const Index letters = layout.alphabet.size;
  require(static_cast<Index>(counts.shape(1)) == letters, "counts must have a column for each letter");
  Scanner scanner(layout, tables, width);
  double total = 0.0;
  for (std::size_t k = 0; k < rows.shape(0); ++k) {
    const Index example = rows(k), low = layout.offsets[example], high = layout.offsets[example + 1];
    // The mean likelihood ratio of the windows times the odds of a site.
    const double ratio = scanner.pool_windows(example, 1.0, 0.0) - log_of(static_cast<double>(scanner.size)) + log_odds;
    total += pool_classes(0.0, ratio, 1.0, carriers(k));
    for (Index t = 0; t < scanner.size; ++t) {
      const double share = carriers(k) * scanner.shares[t];
      // Terms below this share change no count by more than a hundredth of a letter.
      if (share < 1e-6) continue;
      const Index start = scanner.start(example, t);
      const bool forward = t < scanner.count;
      for (Index j = -margin; j < width + margin; ++j) {
        const Index i = forward ? start + j : start + width - 1 - j;
        if (i < low || i >= high || layout.bases[i] >= letters) continue;
        counts(margin + j, forward ? layout.bases[i] : letters - 1 - layout.bases[i]) += share;
      }
    }
  }
  return total;
}

// Count the words of one sequence, see `word_counts`; `seen` has the last sequence with each word.
template <Index SIZE, bool BOTH, bool ONCE>
void count_words(const std::uint8_t *letter, const std::uint8_t *end, Index length, std::uint64_t n_words, Index sequence,
                 Index *seen, Index *counts) {
  const std::uint64_t top = n_words / SIZE;
  std::uint64_t code = 0, mirror = 0;
  Index known = 0;
  for (; letter < end; ++letter) {
    const std::uint64_t base = *letter;
    if (base >= SIZE) {
      known = 0;
      code = 0;
      continue;
    }
    // Without the first letter of the word before.
    if (known >= length) code -= letter[-length] * top;
    code = code * SIZE + base;
    if constexpr (BOTH) mirror = mirror / SIZE + (SIZE - 1 - base) * top;
    if (++known < length) continue;
    const std::uint64_t word = BOTH ? std::min(code, mirror) : code;
    if constexpr (ONCE)
      if (std::exchange(seen[word], sequence) == sequence) continue;
    ++counts[word];
  }
}

// Count the words of a length: all of them, or each once per sequence; with `both`, also reverse complements.
//
// A word and its reverse complement are counted at the smaller of their two numbers.
void word_counts(Letters bases, Indices offsets, Indices rows, Index size, Index length, bool both, bool once, Numbers counts) {
  std::uint64_t n_words = 1;
  for (Index j = 0; j < length; ++j) n_words *= static_cast<std::uint64_t>(size);
  require_length(n_words, counts);
  std::vector<Index> seen(once ? counts.shape(0) : 0, -1);
  with_size(size, [&](auto known_size) {
    constexpr Index SIZE = known_size;
    const auto count = both ? (once ? count_words<SIZE, true, true> : count_words<SIZE, true, false>)
                            : (once ? count_words<SIZE, false, true> : count_words<SIZE, false, false>);
    for (std::size_t k = 0; k < rows.shape(0); ++k) {
      const std::uint8_t *begin = bases.data() + offsets(rows(k)), *end = bases.data() + offsets(rows(k) + 1);
      count(begin, end, length, n_words, static_cast<Index>(k), seen.data(), counts.data());
    }
  });
}

// Add or take away the letters of one window.
LATENTSTRUCT_INLINE void change_counts(const Layout &layout, Index width, Index start, Index strand, double change, double *counts) {
  for (Index j = 0; j < width; ++j) counts[layout.alphabet.size * j + layout.letter(start, width, strand, j)] += change;
}

// The number of a window drawn with probabilities proportional to exp(score); `shares` (size,) is overwritten.
LATENTSTRUCT_CLONES Index draw(const double *scores, Index size, double uniform, double *shares) {
  const double high = largest(scores, size);
  for (Index t = 0; t < size; ++t) shares[t] = exp_of(scores[t] - high);
  double left = uniform * sum_of(shares, size);
  for (Index t = 0; t < size; ++t)
    if ((left -= shares[t]) < 0.0) return t;
  return size - 1;
}

// Draw each row's window from its posterior given the windows of all others; the result is Σ_k score.
//
// `counts` (l, a) are the letters of all present windows and follow them; `pseudo` (a,) is added to each position;
// `uniforms` (k,) are the random numbers. The scores summed are those at the time of drawing.
double gibbs_sweep(Layout layout, Vector background, Index width, bool both, Indices rows, Vector pseudo, Vector uniforms,
                   Numbers starts, Numbers strands, Out<double, 2> counts) {
  require_length(rows.shape(0), uniforms, starts, strands);
  require_length(width, counts);
  const Alphabet alphabet = layout.alphabet;
  require_length(alphabet.size, pseudo);
  require(static_cast<Index>(counts.shape(1)) == alphabet.size, "counts must have a column for each letter");
  const Index folds = alphabet.folds(width);
  // Both strands' tables, filled from a new matrix for each row.
  Scores forward(alphabet.entries * folds), reverse(both ? forward.size() : 0), matrix(alphabet.size * width);
  const Tables tables{forward.data(), reverse.data(), background.data(), folds, alphabet.entries, 0, both};
  Scanner scanner(layout, tables, width);
  double total = 0.0;
  for (std::size_t k = 0; k < rows.shape(0); ++k) {
    change_counts(layout, width, starts(k), strands(k), -1.0, counts.data());
    for (Index j = 0; j < width; ++j) {
      double size = 0.0;
      for (Index a = 0; a < alphabet.size; ++a) size += counts(j, a) + pseudo(a);
      for (Index a = 0; a < alphabet.size; ++a) matrix[alphabet.size * j + a] = log_of((counts(j, a) + pseudo(a)) / size);
    }
    std::fill(forward.begin(), forward.end(), 0.0);
    fold(matrix.data(), width, alphabet, forward.data());
    if (both) {
      std::reverse(matrix.begin(), matrix.end());
      std::fill(reverse.begin(), reverse.end(), 0.0);
      fold(matrix.data(), width, alphabet, reverse.data());
    }
    scanner.scan(rows(k));
    const Index drawn = draw(scanner.scores.data(), scanner.size, uniforms(k), scanner.shares.data());
    total += scanner.scores[drawn];
    strands(k) = scanner.strand(drawn);
    starts(k) = scanner.start(rows(k), drawn);
    change_counts(layout, width, starts(k), strands(k), 1.0, counts.data());
  }
  return total;
}

// Uniform random numbers: splitmix64.
struct Random {
  std::uint64_t state;

  std::uint64_t next() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
  }

  // A number below n, without bias: numbers from the incomplete last multiple of n are drawn again.
  std::uint64_t below(std::uint64_t n) {
    const std::uint64_t least = -n % n;
    std::uint64_t drawn = next();
    while (drawn < least) drawn = next();
    return drawn % n;
  }
};

// Shuffles sequences such that each keeps its counts of words of a length, and its first and last length - 1 letters.
//
// The words are edges from their first to their last length - 1 letters, and sequences with the same words are the
// Eulerian paths. A path is drawn uniformly: the last edges out of the vertices form a random tree towards the end, by
// loop-erased random walks, and the edges before them are in random order (Altschul and Erickson 1985).
struct WordShuffler {
  const std::size_t size; // With the unknown letter.
  const Index length;
  Random random;
  std::vector<Index> numbers;               // Of the vertices by their letters, -1 if not in this sequence.
  std::vector<Index> vertices, first, edges; // Vertex of each position; edges out of vertex v are edges[first[v]] … .
  std::vector<Index> used, codes;
  std::vector<char> joined;

  WordShuffler(Index letters, Index length, std::uint64_t seed)
      : size(static_cast<std::size_t>(letters) + 1), length(length), random{seed} {
    std::size_t n = 1;
    for (Index j = 1; j < length; ++j) n *= size;
    numbers.assign(n, -1);
  }

  void swap_last(Index vertex, Index at) { std::swap(edges[at], edges[first[vertex + 1] - 1]); }

  void shuffle(const std::uint8_t *letters, Index n, std::uint8_t *out) {
    std::copy_n(letters, n, out);
    const Index n_edges = n - length + 1;
    if (n_edges < 2) return;
    number_vertices(letters, n_edges);
    const Index n_vertices = static_cast<Index>(codes.size()), end = vertices[n_edges];
    joined.assign(n_vertices, 0);
    joined[end] = 1;
    used.assign(n_vertices, 0); // While the tree grows, where the last edge of a vertex is.
    for (Index v = 0; v < n_vertices; ++v) {
      for (Index u = v; !joined[u]; u = vertices[edges[used[u]] + 1])
        used[u] = first[u] + static_cast<Index>(random.below(first[u + 1] - first[u]));
      for (Index u = v; !joined[u]; u = vertices[edges[used[u]] + 1]) joined[u] = 1;
    }
    for (Index v = 0; v < n_vertices; ++v) {
      Index free = first[v + 1] - first[v];
      if (v != end) {
        swap_last(v, used[v]);
        --free;
      }
      for (Index k = free; k > 1; --k) std::swap(edges[first[v] + k - 1], edges[first[v] + random.below(k)]);
      used[v] = first[v];
    }
    Index v = vertices[0];
    for (Index t = 0; t < n_edges; ++t) {
      const Index edge = edges[used[v]++];
      out[t + length - 1] = letters[edge + length - 1];
      v = vertices[edge + 1];
    }
    for (const Index code : codes) numbers[code] = -1;
  }

  // Number the vertices in the order of their first occurrence, and sort the edges by where they begin.
  void number_vertices(const std::uint8_t *letters, Index n_edges) {
    codes.clear();
    vertices.resize(n_edges + 1);
    std::size_t code = 0;
    for (Index j = 0; j + 1 < length; ++j) code = code * size + letters[j];
    for (Index t = 0; t <= n_edges; ++t) {
      if (t > 0) code = (code * size + letters[t + length - 2]) % numbers.size();
      if (numbers[code] < 0) {
        numbers[code] = static_cast<Index>(codes.size());
        codes.push_back(static_cast<Index>(code));
      }
      vertices[t] = numbers[code];
    }
    first.assign(codes.size() + 2, 0);
    for (Index t = 0; t < n_edges; ++t) ++first[vertices[t] + 2];
    for (std::size_t v = 2; v < first.size(); ++v) first[v] += first[v - 1];
    edges.resize(n_edges);
    for (Index t = 0; t < n_edges; ++t) edges[first[vertices[t] + 1]++] = t;
  }
};

// Shuffle each sequence such that its counts of words of a length are kept.
void shuffle_words(Letters bases, Indices offsets, Index size, Index length, std::uint64_t seed, Out<std::uint8_t, 1> shuffled) {
  require_length(bases.shape(0), shuffled);
  require(length >= 1 && length <= 6, "length must be from 1 to 6");
  WordShuffler shuffler(read_alphabet(size).size, length, seed);
  for (std::size_t k = 0; k + 1 < offsets.shape(0); ++k)
    shuffler.shuffle(bases.data() + offsets(k), offsets(k + 1) - offsets(k), shuffled.data() + offsets(k));
}

constexpr Index BLOCK = 4096;

// Add the scores of the letters looked up at once, see `Tables`, of n windows.
LATENTSTRUCT_INLINE void add_folds(const std::int32_t *tables, Alphabet alphabet, Index folds, const std::uint8_t *codes, Index n,
                                   std::int32_t *scores) {
  std::fill_n(scores, n, 0);
  for (Index c = 0; c < folds; ++c)
    for (Index t = 0; t < n; ++t) scores[t] += tables[alphabet.entries * c + codes[alphabet.fold * c + t]];
}

// Number the letters looked up at once that begin at n positions.
template <Index SIZE> LATENTSTRUCT_INLINE void number_block(const std::uint8_t *letters, Index n, std::uint8_t *codes) {
  for (Index t = 0; t < n; ++t) {
    Index code = 0;
    for (Index k = 0; k < Alphabet(SIZE).fold; ++k) code = code * SIZE + (letters[t + k] < SIZE ? letters[t + k] : 0);
    codes[t] = static_cast<std::uint8_t>(code);
  }
}

LATENTSTRUCT_CLONES Index scan_blocks(const std::uint8_t *letters, Index n, Alphabet alphabet, const std::int32_t *forward,
                                      const std::int32_t *reverse, Index width, std::int32_t least, Index begin, Index *starts,
                                      std::int8_t *strands, std::int32_t *scores, Index capacity, Index *found) {
  const Index folds = alphabet.folds(width), extent = alphabet.fold * folds, more = alphabet.fold - 1;
  std::vector<std::uint8_t> codes(BLOCK + extent), padded(BLOCK + extent + more);
  std::vector<std::int32_t> sums(2 * BLOCK);
  const Index n_windows = n - width + 1;
  const auto unknown = static_cast<std::uint8_t>(alphabet.size);
  *found = 0;
  for (; begin < n_windows && *found + 2 * BLOCK <= capacity; begin += BLOCK) {
    const Index count = std::min(BLOCK, n_windows - begin), span = count + extent;
    const Index known = std::min(span + more, n - begin);
    std::copy_n(letters + begin, known, padded.begin());
    std::fill(padded.begin() + known, padded.begin() + span + more, 0);
    if (alphabet.size == 4) number_block<4>(padded.data(), span, codes.data());
    else number_block<20>(padded.data(), span, codes.data());
    add_folds(forward, alphabet, folds, codes.data(), count, sums.data());
    if (reverse) add_folds(reverse, alphabet, folds, codes.data(), count, sums.data() + BLOCK);
    for (Index t = 0; t < count; ++t)
      for (Index side = 0; side < (reverse ? 2 : 1); ++side) {
        const std::int32_t score = sums[side * BLOCK + t];
        if (score < least || std::find(padded.begin() + t, padded.begin() + t + width, unknown) != padded.begin() + t + width) continue;
        starts[*found] = begin + t;
        strands[*found] = side ? -1 : 1;
        scores[(*found)++] = score;
      }
  }
  return begin;
}

// Find the windows of known letters whose scores are at least `least`, in the order of their starts, forward first.
//
// `forward` and `reverse` (⌈l/f⌉, a^f) are tables of the letters looked up at once; `reverse` has no rows if one strand is
// read. Windows from `begin` on are read until `starts`, `strands` and `scores` might be full. The result is where to go
// on, and the number of hits.
std::pair<Index, Index> scan_hits(Letters letters, Index size, In<std::int32_t, 2> forward, In<std::int32_t, 2> reverse, Index width,
                                  std::int32_t least, Index begin, Out<Index, 1> starts, Out<std::int8_t, 1> strands,
                                  Out<std::int32_t, 1> scores) {
  const Alphabet alphabet = read_alphabet(size);
  const auto rows = static_cast<std::size_t>(alphabet.folds(width)), columns = static_cast<std::size_t>(alphabet.entries);
  require_length(starts.shape(0), strands, scores);
  require(starts.shape(0) >= 2 * BLOCK, "starts must have space for 8192 hits");
  require(forward.shape(1) == columns && reverse.shape(1) == columns, "tables must have a column for each combination of letters");
  require(reverse.shape(0) == 0 || reverse.shape(0) == forward.shape(0), "both strands must have as many tables");
  require(forward.shape(0) == rows, "tables must have the width of the motif");
  Index found = 0;
  const Index end = scan_blocks(letters.data(), letters.shape(0), alphabet, forward.data(), reverse.shape(0) ? reverse.data() : nullptr,
                                width, least, begin, starts.data(), strands.data(), scores.data(), starts.shape(0), &found);
  return {end, found};
}

} // namespace

LATENTSTRUCT_MODULE(motif, number_letters, fold_matrix, best_windows, pooled_windows, all_scores, window_atoms,
                    pool_best_windows, soft_total, soft_atoms, flank_counts, word_counts, gibbs_sweep, shuffle_words, scan_hits)
