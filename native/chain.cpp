// Dynamic programming on chains: the best labelings, and their features as atoms.
//
// Scores are flat, (N, S) for all tokens of all sequences; sequence k has the rows offsets[k] … offsets[k+1]. All
// unary terms (inputs, bias, start, end, loss) are already in the scores. u_t(y) is a unary score, A the (S, S)
// transition scores, ε a temperature. A score of -inf forbids a label; at least one label of each token is allowed.
// Offsets and labels were checked when the batch was prepared.
#include "atoms.hpp"
#include "chain.hpp"
#include "padded_rows.hpp"
#include "sparse_rows.hpp"

using namespace latentstruct;

namespace {

// Terms added to products of inputs and weights, see the Python class of this name; null: there is no such block.
struct LabelScores {
  const double *bias, *start, *end, *terms;
  std::size_t n, rows;

  static LabelScores read(const Fields &fields) {
    const auto terms = fields.array<Square>("terms");
    const std::size_t n = terms.shape(1), rows = terms.shape(0);
    const auto block = [&](const char *name) -> const double * {
      const auto found = fields.array<Vector>(name);
      require(found.shape(0) == 0 || found.shape(0) == n, "label scores must have one per label, or none");
      return found.shape(0) ? found.data() : nullptr;
    };
    require(rows == 0 || rows > n, "terms must have a row per label and one for unknown labels");
    return {block("bias"), block("start"), block("end"), terms.data(), n, rows};
  }
  // What a label adds to the score of each y; negative labels count from the last row.
  const double *of(Index label) const { return terms + (label < 0 ? static_cast<Index>(rows) + label : label) * n; }
};

// Add what depends on label and place alone to the products of one sequence, rows of `width` numbers.
//
// A label of -1 adds nothing.
LATENTSTRUCT_INLINE void add_to_sequence(double *scores, std::size_t length, std::size_t width, const LabelScores &added,
                                          const Index *labels) {
  const std::size_t n = added.n;
  const auto add = [&](std::size_t t, const double *block) __attribute__((always_inline)) {
    double *own = scores + t * width;
    LATENTSTRUCT_INDEPENDENT
    for (std::size_t y = 0; y < n; ++y) own[y] += block[y];
  };
  for (std::size_t t = 0; t < length; ++t) {
    if (added.bias) add(t, added.bias);
    if (added.start && t == 0) add(t, added.start);
    if (added.end && t == length - 1) add(t, added.end);
    if (added.rows && labels[t] != -1) add(t, added.of(labels[t]));
  }
}

LATENTSTRUCT_CLONES void add_label_scores(Out<double, 2> scores, Indices offsets, LabelScores added, Indices labels) {
  require(scores.shape(1) == added.n, "scores must have one column per label");
  if (added.rows) require_length(scores.shape(0), labels);
  const Sequences sequences(offsets, scores.shape(0));
  for (std::size_t k = 0; k < sequences.count; ++k) {
    const Index first = sequences.offsets[k];
    add_to_sequence(scores.data() + first * added.n, sequences.length(k), added.n, added, labels.data() + first);
  }
}

// Best labelings of one sequence at a time.
//
// Only maxima are kept on the way forward; the source of each is found again on the way back, along one path only. Ties
// go to the lowest label.
class Labeler {
  Table transitions, best, arriving;

public:
  const std::size_t n, width;
  Table scores; // of the sequence, one row per token

  Labeler(const double *matrix, std::size_t n, std::size_t longest)
      : transitions(n, padded(n)), best(longest, padded(n)), arriving(longest, padded(n)), n(n), width(padded(n)),
        scores(longest, padded(n)) {
    pad_rows(matrix, n, n, 0.0, transitions[0]);
  }

  // Write the best labeling; return its score, 0 if the sequence is empty.
  LATENTSTRUCT_INLINE double label(std::size_t length, Index *labels) {
    if (length == 0) return 0.0;
    const double *matrix = transitions[0];
    double *row = best[0];
    for (std::size_t y = 0; y < width; y += WIDTH) lanes(row + y) = load(scores[0] + y);
    for (std::size_t t = 1; t < length; ++t, row += width) {
      const double *own = scores[t];
      double *maxima = arriving[t];
      multiply_rows<Hard, 1>({row, 0, 1}, n, matrix, width,
                               [&](int, std::size_t place, const Lanes &found) __attribute__((always_inline)) {
                                 lanes(maxima + place) = found;
                                 lanes(row + width + place) = found + load(own + place);
                               });
    }
    std::size_t y = 0;
    for (std::size_t z = 1; z < n; ++z) y = row[z] > row[y] ? z : y;
    const double highest = row[y];
    for (std::size_t t = length - 1; t > 0; --t) {
      labels[t] = static_cast<Index>(y);
      row -= width;
      const double wanted = arriving[t][y], *column = matrix + y;
      std::size_t z = 0;
      while (z + 1 < n && row[z] + column[z * width] != wanted) ++z;
      y = z;
    }
    labels[0] = static_cast<Index>(y);
    return highest;
  }
};

LATENTSTRUCT_CLONES void viterbi(Square scores, Indices offsets, Square transitions, Numbers labels, Values values) {
  const std::size_t n = labels_of(scores, transitions);
  const Sequences sequences(offsets, scores.shape(0));
  require_length(sequences.count, values);
  require_length(scores.shape(0), labels);
  Labeler labeler(transitions.data(), n, sequences.longest);
  for (std::size_t k = 0; k < sequences.count; ++k) {
    const Index first = sequences.offsets[k];
    pad_rows(scores.data() + first * n, sequences.length(k), n, 0.0, labeler.scores[0]);
    values(k) = labeler.label(sequences.length(k), labels.data() + first);
  }
}

// Maximize Δ(y)·(1 + s(y) - s(truth)) of one sequence for the Hamming loss Δ; see `viterbi_by_errors`.
double label_by_errors(const double *scores, std::size_t length, const double *transitions, std::size_t n,
                       const Index *truth, Table &best, Table &arriving, Index *labels, double &loss) {
  const std::size_t width = padded(n), block = length + 4;
  const auto at = [&](std::size_t t, std::size_t errors) { return best[t * block + errors]; };
  best.reserve(length * block), arriving.reserve(block);
  double true_score = 0.0;
  for (std::size_t t = 0; t < length; ++t) {
    require(truth[t] >= 0, "labels must be known");
    true_score += scores[t * n + truth[t]];
    if (t > 0) true_score += transitions[truth[t - 1] * width + truth[t]];
  }
  // Rows up to t + 1 errors are written at token t, and no others are read.
  std::fill_n(at(0, 0), 2 * width, -INFINITE);
  for (std::size_t y = 0; y < n; ++y) at(0, static_cast<Index>(y) != truth[0])[y] = scores[y];
  for (std::size_t t = 1; t < length; ++t) {
    std::fill_n(at(t, 0), width, -INFINITE);
    max_sums({at(t - 1, 0), width, 1}, t + 1, n, transitions, width, arriving[0]);
    for (std::size_t errors = 0; errors <= t; ++errors) {
      const double *from = arriving[errors];
      double *wrong = at(t, errors + 1);
      for (std::size_t y = 0; y < n; ++y) wrong[y] = from[y] + scores[t * n + y];
    }
    for (std::size_t errors = 0; errors <= t + 1; ++errors)
      at(t, errors)[truth[t]] = errors <= t ? arriving[errors][truth[t]] + scores[t * n + truth[t]] : -INFINITE;
  }
  double highest = 0.0;
  std::size_t errors = 0, y = truth[length - 1];
  for (std::size_t e = 1; e <= length; ++e)
    for (std::size_t z = 0; z < n; ++z)
      if (const double value = static_cast<double>(e) * (1.0 + at(length - 1, e)[z] - true_score); value > highest) {
        highest = value;
        errors = e, y = z;
      }
  loss = static_cast<double>(errors);
  for (std::size_t t = length; t-- > 0;) {
    labels[t] = static_cast<Index>(y);
    if (t == 0) break;
    errors -= labels[t] != truth[t];
    const double *from = at(t - 1, errors);
    std::size_t source = 0;
    for (std::size_t z = 1; z < n; ++z)
      if (from[z] + transitions[z * width + y] > from[source] + transitions[source * width + y]) source = z;
    y = source;
  }
  return highest;
}

// Maximize Δ(y)·(1 + s(y) - s(truth)) for the Hamming loss Δ, exactly.
//
// best[t, e, y] is the best score of the first t + 1 labels with e errors among them, ending in y; the product is then
// maximized over the number of errors. values[k] is the maximum (>= 0, reached by the truth) and losses[k] the number of
// errors of its labeling.
void viterbi_by_errors(Square scores, Indices offsets, Square transitions, Indices truth, Numbers labels,
                       Values values, Values losses) {
  const std::size_t n = labels_of(scores, transitions);
  const Sequences sequences(offsets, scores.shape(0));
  require_length(sequences.count, values, losses);
  require_length(scores.shape(0), labels, truth);
  Table matrix(n, padded(n)), best(0, padded(n)), arriving(0, padded(n));
  pad_rows(transitions.data(), n, n, 0.0, matrix[0]);
  for (std::size_t k = 0; k < sequences.count; ++k) {
    const Index first = sequences.offsets[k];
    values(k) = losses(k) = 0.0;
    if (sequences.length(k) > 0)
      values(k) = label_by_errors(scores.data() + first * n, sequences.length(k), matrix[0], n, truth.data() + first, best,
                                  arriving, labels.data() + first, losses(k));
  }
}

// Write the joint features of one sequence's labeling as atoms from `at` on; `token` is its first input row.
LATENTSTRUCT_INLINE void put_labeling(std::size_t at, const Index *labels, std::size_t length, Index token, Index n,
                                      const Blocks &blocks, const AtomTable &atoms) {
  if (length == 0) return;
  const std::size_t needed = length * (2 + (blocks.bias >= 0)) - 1 + (blocks.start >= 0) + (blocks.end >= 0);
  require(at + needed <= atoms.n, "the arrays of atoms are too short");
  std::int32_t *row = atoms.row + at, *column = atoms.column + at;
  for (std::size_t t = 0; t < length; ++t, ++row, ++column) {
    *row = static_cast<std::int32_t>(token + t);
    *column = static_cast<std::int32_t>(labels[t]);
  }
  std::fill_n(row, needed - length, -1);
  const auto put = [&](Index place) { *column++ = static_cast<std::int32_t>(place); };
  for (std::size_t t = 1; t < length; ++t) put(blocks.transitions + labels[t - 1] * n + labels[t]);
  if (blocks.bias >= 0)
    for (std::size_t t = 0; t < length; ++t) put(blocks.bias + labels[t]);
  if (blocks.start >= 0) put(blocks.start + labels[0]);
  if (blocks.end >= 0) put(blocks.end + labels[length - 1]);
}

// Write the joint features of all sequences' labelings, each from its pointer on; tokens[k] is the first input row.
void labeling_atoms(Indices labels, Indices offsets, Indices tokens, Index n_labels, Blocks blocks, Indices pointers,
                    AtomTable atoms) {
  const Sequences sequences(offsets, labels.shape(0));
  require_length(sequences.count, tokens);
  require_length(sequences.count + 1, pointers);
  for (std::size_t k = 0; k < sequences.count; ++k)
    put_labeling(pointers(k), labels.data() + sequences.offsets[k], sequences.length(k), tokens(k), n_labels, blocks, atoms);
}

// Find the best labelings of the selected sequences first … last - 1, and write their values, losses and features.
//
// All temporary data of a sequence stay in the cache. `products` (N, S) are those of the selected tokens, or
// empty: then computed from `inputs` and `weights`. `truth` has the labels of all tokens of the batch, or none if
// no terms depend on them; `found` is (2, k): values and sums of the terms.
LATENTSTRUCT_CLONES void best_planes(Index first, Index last, Square products, SparseRows inputs, Square weights, Indices offsets,
                                     Indices tokens, Indices truth, LabelScores added, Square transitions, Blocks blocks,
                                     Indices pointers, AtomTable atoms, Out<double, 2> found) {
  const std::size_t n = labels_of(products, transitions), count = tokens.shape(0);
  require(added.n == n && weights.shape(1) == n, "scores must have one column per label");
  require(first >= 0 && first <= last && static_cast<std::size_t>(last) <= count, "sequences must exist");
  require_length(count + 1, offsets, pointers);
  require(found.shape(0) == 2 && found.shape(1) == count, "found must be (2, k)");
  const bool dense = products.shape(0) > 0;
  Index longest = 1;
  for (Index k = first; k < last; ++k) {
    const Index length = offsets(k + 1) - offsets(k), end = tokens(k) + length;
    require(length >= 0 && offsets(k) >= 0 && tokens(k) >= 0, "sequences must not be negative");
    require(end <= static_cast<Index>(added.rows ? truth.shape(0) : inputs.n) &&
                (dense ? offsets(k + 1) <= static_cast<Index>(products.shape(0)) : end <= static_cast<Index>(inputs.n)),
            "sequences must end inside the tokens");
    longest = std::max(longest, length);
  }
  Labeler labeler(transitions.data(), n, longest);
  std::vector<Index> labels(longest);
  for (Index k = first; k < last; ++k) {
    const Index token = tokens(k);
    const std::size_t length = offsets(k + 1) - offsets(k);
    if (dense) pad_rows(products.data() + offsets(k) * n, length, n, 0.0, labeler.scores[0]);
    else
      for (std::size_t t = 0; t < length; ++t) row_times_weights(inputs, token + t, weights.data(), n, labeler.scores[t]);
    const Index *known = truth.data() + (added.rows ? token : 0);
    add_to_sequence(labeler.scores[0], length, labeler.width, added, known);
    found(0, k) = labeler.label(length, labels.data());
    double loss = 0.0;
    if (added.rows)
      for (std::size_t t = 0; t < length; ++t) loss += added.of(known[t])[labels[t]];
    found(1, k) = loss;
    put_labeling(pointers(k), labels.data(), length, token, static_cast<Index>(n), blocks, atoms);
  }
}

// The beginning of a labeling that ends in a label, by its rank among those: a score and the beginning it extends.
struct Beginning {
  double score;
  std::size_t source;
};

// Write the `count` best labelings (count, N) of each sequence, best first, and their scores (count, K), -inf where there
// are fewer. Ties go to the lowest labels.
void best_labelings(Square scores, Indices offsets, Square transitions, Out<Index, 2> labels, Out<double, 2> values) {
  const std::size_t n = labels_of(scores, transitions), count = labels.shape(0);
  const Sequences sequences(offsets, scores.shape(0));
  require(values.shape(0) == count && values.shape(1) == sequences.count && labels.shape(1) == scores.shape(0),
          "labels must be (count, tokens), values (count, sequences)");
  std::vector<std::vector<Beginning>> best; // (T), each (S, count)
  std::vector<Beginning> found;
  const auto better = [](const Beginning &a, const Beginning &b) {
    return a.score != b.score ? a.score > b.score : a.source < b.source;
  };
  const auto choose = [&](Beginning *out) {
    const std::size_t kept = std::min(count, found.size());
    std::partial_sort(found.begin(), found.begin() + kept, found.end(), better);
    for (std::size_t j = 0; j < count; ++j) out[j] = j < kept ? found[j] : Beginning{-INFINITE, 0};
  };
  for (std::size_t k = 0; k < sequences.count; ++k) {
    const std::size_t first = sequences.offsets[k], length = sequences.length(k);
    for (std::size_t j = 0; j < count; ++j) values(j, k) = j == 0 && length == 0 ? 0.0 : -INFINITE;
    if (length == 0) continue;
    best.resize(std::max(best.size(), length + 1));
    for (std::size_t t = 0; t <= length; ++t) best[t].assign(n * count, {-INFINITE, 0});
    for (std::size_t y = 0; y < n && count; ++y) best[0][y * count] = {scores(first, y), 0};
    for (std::size_t t = 1; t <= length; ++t)
      // After the last token there is one label, whose beginnings are whole labelings.
      for (std::size_t y = 0; y < (t < length ? n : 1); ++y) {
        found.clear();
        for (std::size_t source = 0; source < n * count; ++source) {
          const double step = t < length ? transitions(source / count, y) + scores(first + t, y) : 0.0;
          if (const double score = best[t - 1][source].score + step; score > -INFINITE) found.push_back({score, source});
        }
        choose(best[t].data() + y * count);
      }
    for (std::size_t j = 0; j < count; ++j) {
      values(j, k) = best[length][j].score;
      if (values(j, k) == -INFINITE) continue;
      std::size_t source = best[length][j].source;
      for (std::size_t t = length; t-- > 0; source = best[t][source].source)
        labels(j, first + t) = static_cast<Index>(source / count);
    }
  }
}

} // namespace

LATENTSTRUCT_MODULE(chain, add_label_scores, viterbi, viterbi_by_errors, best_labelings, labeling_atoms, best_planes)
